"""MTEB tasks on our data, for any model that `mteb.evaluate` accepts; they work offline.

```python
import mteb
from sentence_transformers import SentenceTransformer
from eventformers.evaluation.mteb_tasks import HardSimilarity, NarrativeCloze, TransitiveSimilarity

model = SentenceTransformer("my-events")
results = mteb.evaluate(model, [HardSimilarity(), TransitiveSimilarity(), NarrativeCloze()], cache=None)
```

Scores equal those of `eventformers evaluate` for the same model: percentages, and for graded pairs the
correlation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from datasets import Dataset, DatasetDict
from torch.utils.data import DataLoader

from eventformers.datasets_scripts.events import EVENT_ORDERS, Event, EventOrder, event_text
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.core import measure
from eventformers.evaluation.data import load_data
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.base import Embed, Row, TaskRows
from eventformers.evaluation.tasks.induction import MentionModel
from eventformers.inference.chains.scorers import EncoderChainScorer
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.induction.mention_distances import MentionVectors

try:
    from mteb.abstasks import AbsTask
    from mteb.abstasks.task_metadata import TaskMetadata
except ModuleNotFoundError as error:
    raise EventformersError(
        f'the MTEB tasks need the package mteb ({error}); run `pip install "eventformers[mteb]"`'
    ) from error

_BATCH_SIZE = 32
_SUBSET = "default"


def _metadata(task: str, name: str, kind: str) -> TaskMetadata:
    """Build the MTEB metadata of a task."""
    known = TASKS[task]
    return TaskMetadata(
        name=name,
        description=known.description,
        dataset={"path": f"eventformers/{known.dataset}", "name": known.config, "revision": "samples"},
        type=kind,
        category="t2t",
        eval_splits=list(known.splits[:1]),
        eval_langs=["eng-Latn"],
        main_score=known.main_score,
        license="not specified",
        bibtex_citation="",
    )


class EventTask(AbsTask):
    """An eventformers task for any text encoder.

    Args:
        data: folder of raw files, built folder or Hub id of the task's dataset; None takes the bundled
            samples, which are not a benchmark.
        split: the split to score; None takes the test split if the data has one.
        event_order: the order of an event's roles in its text; an eventformers model has its own.
        seed: required by MTEB; the task draws no random numbers.

    Raises:
        EventformersError: the data cannot be loaded, or lacks the split.
    """

    task: ClassVar[str]
    """A name in `TASKS`."""
    metadata: TaskMetadata
    data_loaded: bool

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        split: str | None = None,
        event_order: EventOrder = "subject_predicate_object",
        seed: int = 42,
    ) -> None:
        if event_order not in EVENT_ORDERS:
            raise UnknownNameError("event order", event_order, EVENT_ORDERS)
        super().__init__(seed=seed)
        self.data = data
        self.split = split
        self.event_order: EventOrder = event_order
        self.load_data()

    def load_data(self, *arguments: Any, **settings: Any) -> None:
        """Load the rows of the scored split, and set the dataset's revision to their fingerprint.

        Args:
            *arguments: ignored; MTEB passes them.
            **settings: ignored; MTEB passes them.
        """
        if self.data_loaded:
            return
        held = load_data(TASKS[self.task], self.data, self.split)
        self.dataset = {_SUBSET: DatasetDict({held.split: held.rows})}
        # Scores on different rows must not look like scores on the same dataset.
        dataset = {**type(self).metadata.dataset, "revision": held.fingerprint}
        self.metadata = type(self).metadata.model_copy(
            update={"dataset": dataset, "eval_splits": [held.split]}
        )
        self.data_loaded = True

    def _evaluate_subset(
        self,
        model: Any,
        data_split: Dataset,
        *,
        hf_split: str,
        hf_subset: str,
        encode_kwargs: Mapping[str, Any],
        prediction_folder: Path | None = None,
        timer: Any,
        **settings: Any,
    ) -> dict[str, Any]:
        def embed(items: Sequence[str | Event]) -> Vectors:
            texts = [item if isinstance(item, str) else event_text(item, self.event_order) for item in items]
            batch_size = encode_kwargs.get("batch_size", _BATCH_SIZE)
            batches = DataLoader(Dataset.from_dict({"text": texts}), batch_size=batch_size)
            with timer("Encoding events", split=hf_split, subset=hf_subset):
                vectors = model.encode(
                    batches,
                    task_metadata=self.metadata,
                    hf_split=hf_split,
                    hf_subset=hf_subset,
                    **encode_kwargs,
                )
            if isinstance(vectors, torch.Tensor):
                vectors = vectors.float().cpu().numpy()
            return np.asarray(vectors, dtype=np.float32)

        task, rows = TASKS[self.task], cast("Iterable[Row]", data_split)
        scored = measure(task, task.kind.run(self._scorer(embed), TaskRows(rows)), 0.0)
        if prediction_folder is not None:
            self._save_task_predictions(
                scored.output.predictions, model, prediction_folder, hf_split=hf_split, hf_subset=hf_subset
            )
        return {name: math.nan if value is None else value for name, value in scored.scores.items()}

    def _scorer(self, embed: Embed) -> object:
        """Make what the protocol of the task calls from a function from texts and events to vectors."""
        return embed

    def _calculate_descriptive_statistics_from_split(
        self, split: str, *, hf_subset: str | None = None, **settings: Any
    ) -> dict[str, int]:
        return {"num_samples": len(self.dataset[hf_subset or _SUBSET][split])}


class HardSimilarity(EventTask):
    """Hard similarity: similar events against events that share their words; task `hard_similarity`.

    Arguments and errors as in `EventTask`.
    """

    task = "hard_similarity"
    metadata = _metadata(task, "EventHardSimilarity", "STS")


class HardSimilarityExtended(EventTask):
    """The extended set of hard similarity; task `hard_similarity_extended`.

    Arguments and errors as in `EventTask`.
    """

    task = "hard_similarity_extended"
    metadata = _metadata(task, "EventHardSimilarityExtended", "STS")


class TransitiveSimilarity(EventTask):
    """Human ratings of the similarity of transitive sentences; task `transitive_similarity`.

    Arguments and errors as in `EventTask`.
    """

    task = "transitive_similarity"
    metadata = _metadata(task, "EventTransitiveSimilarity", "STS")


class NarrativeCloze(EventTask):
    """Choice of a chain's last event among five, by the mean cosine with the earlier events; task `mcnc`.

    Arguments and errors as in `EventTask`.
    """

    task = "mcnc"
    metadata = _metadata(task, "MultipleChoiceNarrativeCloze", "Reranking")

    def _scorer(self, embed: Embed) -> EncoderChainScorer:
        return EncoderChainScorer(embed)


class TypeInduction(EventTask):
    """Clusters of mentions of unseen event types, by their sentences alone; task `type_induction`.

    Arguments and errors as in `EventTask`. The score is that of `evaluate` with `trigger_input` `none`.
    """

    task = "type_induction"
    metadata = _metadata(task, "EventTypeInduction", "Clustering")

    def _scorer(self, embed: Embed) -> MentionModel:
        return MentionModel(
            embed, lambda rows, clusters: MentionVectors(embed([str(row["text"]) for row in rows]))
        )
