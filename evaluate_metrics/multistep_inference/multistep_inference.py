"""The metric `multistep_inference` for `evaluate.load`."""

from __future__ import annotations

from collections.abc import Sequence

import datasets
import numpy as np

from eventformers.evaluate_metrics.inputs import CheckedMetric

_DESCRIPTION = """
Accuracy of inference over several steps: a chain of events is continued step by step, each step has several
choices of which one is right, and the metric is the percentage of steps with the right choice. Use it for
multiple-choice narrative sequences (MCNS) and explanations (MCNE). Their last step is not scored: the caller
leaves it out.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of list of int): per question, the index of the choice made at each scored step.
    references (list of list of int): per question, the index of the right choice at each of these steps.

Returns:
    accuracy (float): percentage of right choices over all steps of all questions, 0 to 100, higher is better.
    step_accuracy (list of float): the percentage at the first step, the second and so on, each over the
        questions that have it.
    count (int): number of questions.

Raises:
    ValueError: no questions, lists of unequal length, a question without a step, or an index below 0.

Examples:
    >>> metric = evaluate.load("multistep_inference")
    >>> metric.compute(predictions=[[0, 3, 1], [2, 2, 4]], references=[[0, 3, 2], [2, 1, 0]])
    {'accuracy': 50.0, 'step_accuracy': [100.0, 50.0, 0.0], 'count': 2}
"""

_CITATION = """
@inproceedings{lee2018feel,
  title = {{FEEL}: Featured Event Embedding Learning},
  author = {Lee, I-Ta and Goldwasser, Dan},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2018}
}
"""


def multistep_inference(
    predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]]
) -> dict[str, float | int | list[float]]:
    """Compute the percentage of steps, over all questions, at which the correct choice was made;
    `_KWARGS_DESCRIPTION` has inputs, scores and errors. An index that is not a whole number
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


class MultistepInference(CheckedMetric):
    """Accuracy over the steps of multistep questions."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(multistep_inference)
    # Integer columns would cut 1.7 to an index.
    FEATURES = datasets.Features(
        {
            "predictions": datasets.List(datasets.Value("float64")),
            "references": datasets.List(datasets.Value("float64")),
        }
    )
