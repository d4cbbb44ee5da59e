"""The metric `hierarchy_recall` for `evaluate.load`."""

from __future__ import annotations

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric

from .hierarchy_recall_impl import hierarchy_recall

_DESCRIPTION = """
Hierarchy recall measures how often all gold events of a mention, from its atomic event to the root of the
hierarchy, are among its first retrieved candidates. It also returns the share of gold events that are, and
how often the atomic event is.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of list of str): per mention, the ids of its candidates, best first.
    references (list of list of str): per mention, the ids of its gold events, the atomic event first.

Returns:
    recall_at_min (float): percentage of mentions whose n gold events are the first n candidates, in any
        order, 0 to 100, higher is better.
    recall_at_K (float): percentage of mentions whose gold events are all among the first K candidates, for K
        in 4, 8 and 16.
    fraction_at_K (float): share of a mention's gold events among the first K candidates, mean over mentions.
    atomic_at_K (float): percentage of mentions whose atomic event is among the first K candidates.

Raises:
    ValueError: no mentions, lists of unequal length, a mention without a gold event, or an id that is
        repeated in a list or not a string.

Examples:
    >>> metric = evaluate.load("hierarchy_recall")
    >>> predictions = [["landing", "war", "campaign"], ["battle", "siege", "war"]]
    >>> references = [["landing", "campaign", "war"], ["siege"]]
    >>> scores = metric.compute(predictions=predictions, references=references)
    >>> scores["recall_at_min"], scores["recall_at_4"], scores["atomic_at_4"]
    (50.0, 100.0, 100.0)
"""

_CITATION = """
@inproceedings{ou2023hierarchical,
  title = {Hierarchical Event Grounding},
  author = {Ou, Jiefu and Pratapa, Adithya and Gupta, Rishubh and Mitamura, Teruko},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2023}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class HierarchyRecall(CheckedMetric):
    """Recall of the gold events of mentions among their first candidates."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(hierarchy_recall)
    FEATURES = datasets.Features(
        {
            "predictions": datasets.List(datasets.Value("string")),
            "references": datasets.List(datasets.Value("string")),
        }
    )
