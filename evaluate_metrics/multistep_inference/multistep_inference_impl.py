"""The arithmetic of the metric `multistep_inference`, with only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def multistep_inference(
    predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]]
) -> dict[str, float | int | list[float]]:
    """Compute the percentage of steps, over all questions, at which the correct choice was made;
    `multistep_inference.py` describes inputs, scores and errors. An index that is not a whole number
    is a `ValueError`, too."""
    if len(predictions) == 0 or len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} questions and references {len(references)}; accepted: one "
            "of each per question, and at least one"
        )
    longest = max(len(steps) for steps in references)
    right, steps_of = np.zeros(longest, dtype=np.int64), np.zeros(longest, dtype=np.int64)
    for question, (chosen, gold) in enumerate(zip(predictions, references, strict=True)):
        if len(chosen) != len(gold) or not len(gold):
            raise ValueError(
                f"question {question} has {len(chosen)} predictions and {len(gold)} references; accepted: "
                "one of each per step, and at least one step"
            )
        for kind, indices in (("prediction", chosen), ("reference", gold)):
            wrong = [index for index in indices if index != int(index) or index < 0]
            if wrong:
                raise ValueError(
                    f"a {kind} of question {question} is {wrong[0]:g}; accepted: the index of a choice, a "
                    "whole number of at least 0"
                )
        right[: len(gold)] += np.asarray(chosen) == np.asarray(gold)
        steps_of[: len(gold)] += 1
    return {
        "accuracy": 100.0 * int(right.sum()) / int(steps_of.sum()),
        "step_accuracy": [
            100.0 * int(hits) / int(steps) for hits, steps in zip(right, steps_of, strict=True)
        ],
        "count": len(predictions),
    }
