"""The arithmetic of the metric `mcnc`, with only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mcnc(predictions: Sequence[Sequence[float]], references: Sequence[int]) -> dict[str, float | int]:
    """Compute the percentage of questions whose correct choice has the highest score; `mcnc.py` describes
    inputs, scores and errors."""
    if len(predictions) == 0 or len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} questions and references {len(references)}; accepted: one "
            "of each per question, and at least one"
        )
    right = ties = 0
    for question, (scores, reference) in enumerate(zip(predictions, references, strict=True)):
        values = np.asarray(scores, dtype=np.float64)
        if values.ndim != 1 or values.size < 2:
            raise ValueError(
                f"predictions of question {question} have shape {values.shape}; accepted: a list of scores, "
                "one for each of two or more choices"
            )
        if not np.isfinite(values).all():
            raise ValueError(
                f"predictions of question {question} hold a value that is NaN or infinite; accepted: finite "
                "numbers"
            )
        if not 0 <= reference < values.size or reference != int(reference):
            raise ValueError(
                f"the reference of question {question} is {reference:g}; accepted: the index of a choice, 0 "
                f"to {values.size - 1}"
            )
        right += int(np.argmax(values) == reference)
        ties += int(np.sum(values == values.max()) > 1)
    return {"accuracy": 100.0 * right / len(predictions), "ties": ties, "count": len(predictions)}
