"""The metric `multistep_inference` for `evaluate.load`."""

from __future__ import annotations

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric

from .multistep_inference_impl import multistep_inference

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


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
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
