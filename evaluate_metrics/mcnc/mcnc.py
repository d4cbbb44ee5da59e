"""The metric `mcnc` for `evaluate.load`."""

from __future__ import annotations

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric

from .mcnc_impl import mcnc

_DESCRIPTION = """
Multiple-choice accuracy: the percentage of questions whose right choice has the highest score. Use it for
the multiple-choice narrative cloze, where the choices are possible next events of a chain, and for zero-shot
question answering, where they are answers. The number of choices may differ between questions.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of list of float): per question, a score for each of its choices.
    references (list of int): per question, the index of the right choice, from 0.

Returns:
    accuracy (float): percentage of questions whose right choice is chosen, 0 to 100, higher is better; of
        equal highest scores the first is chosen.
    ties (int): number of questions with several highest scores.
    count (int): number of questions.

Raises:
    ValueError: no questions, lists of unequal length, a question without two choices, a score that is NaN or
        infinite, or an index out of range.

Examples:
    >>> metric = evaluate.load("mcnc")
    >>> metric.compute(predictions=[[0.1, 0.7, 0.2], [0.6, 0.4], [0.5, 0.5]], references=[1, 1, 0])
    {'accuracy': 66.66666666666667, 'ties': 1, 'count': 3}
"""

_CITATION = """
@inproceedings{granroth2016happens,
  title = {What Happens Next? Event Prediction Using a Compositional Neural Network Model},
  author = {Granroth-Wilding, Mark and Clark, Stephen},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2016}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class Mcnc(CheckedMetric):
    """Accuracy of the choice with the highest score."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(mcnc)
    # An integer column would cut 1.7 to an index.
    FEATURES = datasets.Features(
        {"predictions": datasets.List(datasets.Value("float64")), "references": datasets.Value("float64")}
    )
