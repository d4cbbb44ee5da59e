"""MTEB tasks on our data, for any model that `mteb.evaluate` accepts; they work offline.

```python
import mteb
from sentence_transformers import SentenceTransformer
from eventformers.evaluation.mteb_tasks import HardSimilarity, NarrativeCloze, TransitiveSimilarity

model = SentenceTransformer("my-events")
results = mteb.evaluate(model, [HardSimilarity(), TransitiveSimilarity(), NarrativeCloze()], cache=None)
```

Scores equal those of `eventformers evaluate` for the same model: percentages, and for graded pairs the
correlation. `EventRetrieval` and `EventCoreferencePairs` have the form and the scores of MTEB's own tasks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from torch.utils.data import DataLoader

from eventformers.datasets_scripts.events import EVENT_ORDERS, Event, EventOrder, event_text
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.core import measure
from eventformers.evaluation.data import TaskData, load_data
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.base import Embed, Row, TaskRows
from eventformers.evaluation.tasks.induction import MentionModel
from eventformers.inference.chains.scorers import EncoderChainScorer
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.induction.mention_distances import MentionVectors

try:
    from mteb.abstasks import AbsTask, AbsTaskPairClassification, AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata
except ModuleNotFoundError as error:
    raise EventformersError(
        f'the MTEB tasks need the package mteb ({error}); run `pip install "eventformers[mteb]"`'
    ) from error

MOST_PAIRS = 100_000
"""Number of pairs of mentions up to which `EventCoreferencePairs` compares all."""

_BATCH_SIZE = 32
_SUBSET = "default"
_LOGGER = logging.getLogger(__name__)


def _metadata(
    task: str, name: str, kind: str, main_score: str | None = None, description: str | None = None
) -> TaskMetadata:
    """Build the MTEB metadata of a task; without a main score and a description of its own, it has ours."""
    known = TASKS[task]
    return TaskMetadata(
        name=name,
        description=description or known.description,
        dataset={"path": f"eventformers/{known.dataset}", "name": known.config, "revision": "samples"},
        type=kind,
        category="t2t",
        eval_splits=list(known.splits[:1]),
        eval_langs=["eng-Latn"],
        main_score=main_score or known.main_score,
        license="not specified",
        bibtex_citation="",
    )


class EventData(AbsTask):
    """The data of an eventformers task, in the form that MTEB evaluates.

    Args:
        data: folder of raw files, built folder or Hub id of the task's dataset; None takes the bundled
            samples, which are not a benchmark.
        split: the split to score; None takes the test split if the data has one.
        seed: required by MTEB; the task draws no random numbers.

    Raises:
        EventformersError: the data cannot be loaded, or lacks the split.
    """

    task: ClassVar[str]
    """A name in `TASKS`."""
    metadata: TaskMetadata
    data_loaded: bool

    def __init__(self, data: str | Path | None = None, *, split: str | None = None, seed: int = 42) -> None:
        super().__init__(seed=seed)
        self.data = data
        self.split = split
        self.load_data()

    def load_data(self, *arguments: Any, **settings: Any) -> None:
        """Load the rows of the scored split, and set the dataset's revision to their fingerprint.

        MTEB passes arguments, which are ignored.
        """
        if self.data_loaded:
            return
        held = load_data(TASKS[self.task], self.data, self.split)
        self.dataset = {_SUBSET: {held.split: self._form(held)}}
        # Scores on different rows must not look like scores on the same dataset.
        dataset = {**type(self).metadata.dataset, "revision": held.fingerprint}
        self.metadata = type(self).metadata.model_copy(
            update={"dataset": dataset, "eval_splits": [held.split]}
        )
        self.data_loaded = True

    def _form(self, held: TaskData) -> Any:
        """Make what MTEB reads from the data."""
        return held.rows


class EventTask(EventData):
    """An eventformers task with its own score, for any text encoder.

    Args:
        data: see `EventData`, as for `split` and `seed`.
        event_order: the order of an event's roles in its text; an eventformers model has its own.

    Raises:
        EventformersError: as for `EventData`.
        UnknownNameError: an unknown order.
    """

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
        self.event_order: EventOrder = event_order
        super().__init__(data, split=split, seed=seed)

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
    """Hard similarity: similar events against events that share their words; task `hard_similarity`."""

    task = "hard_similarity"
    metadata = _metadata(task, "EventHardSimilarity", "STS")


class HardSimilarityExtended(EventTask):
    """The extended set of hard similarity; task `hard_similarity_extended`."""

    task = "hard_similarity_extended"
    metadata = _metadata(task, "EventHardSimilarityExtended", "STS")


class TransitiveSimilarity(EventTask):
    """Human ratings of the similarity of transitive sentences; task `transitive_similarity`."""

    task = "transitive_similarity"
    metadata = _metadata(task, "EventTransitiveSimilarity", "STS")


class NarrativeCloze(EventTask):
    """Choice of a chain's last event among five, by the mean cosine with the earlier events; task `mcnc`."""

    task = "mcnc"
    metadata = _metadata(task, "MultipleChoiceNarrativeCloze", "Reranking")

    def _scorer(self, embed: Embed) -> EncoderChainScorer:
        return EncoderChainScorer(embed)


class TypeInduction(EventTask):
    """Clusters of mentions of unseen event types, by their sentences alone; task `type_induction`.

    The score is that of `evaluate` with `trigger_input` `none`.
    """

    task = "type_induction"
    metadata = _metadata(task, "EventTypeInduction", "Clustering")

    def _scorer(self, embed: Embed) -> MentionModel:
        return MentionModel(
            embed, lambda rows, clusters: MentionVectors(embed([str(row["text"]) for row in rows]))
        )


class EventRetrieval(EventData, AbsTaskRetrieval):
    """Retrieval of the event of an English mention, and of its ancestors, among the English events of the
    knowledge base; data of the task `event_retrieval`, scores of MTEB.

    A query is the mention with its context.
    """

    task = "event_retrieval"
    metadata = _metadata(
        task,
        "EventRetrieval",
        "Retrieval",
        "ndcg_at_10",
        "Given a mention in its context, retrieve the event of a knowledge base and its ancestors.",
    )

    def _form(self, held: TaskData) -> dict[str, Any]:
        events = held.companion_rows["events"].filter(lambda row: row["language"] == "en")
        known = set(events["event_id"])
        relevant: dict[str, dict[str, int]] = {}
        queries: dict[str, str] = {}
        for row in cast("Iterable[dict[str, Any]]", held.rows):
            gold = dict.fromkeys(known.intersection(row["event_ids"]), 1)
            if row["language"] == "en" and gold:
                context = row["context_left"] + row["mention"] + row["context_right"]
                queries[row["mention_id"]] = f"{row['mention']}: {context}"
                relevant[row["mention_id"]] = gold
        if not queries:
            raise EventformersError("found no English mention of an English event; accepted: at least one")
        corpus = {"id": events["event_id"], "title": events["title"], "text": events["description"]}
        return {
            "corpus": Dataset.from_dict({name: column[:] for name, column in corpus.items()}),
            "queries": Dataset.from_dict({"id": list(queries), "text": list(queries.values())}),
            "relevant_docs": relevant,
            "top_ranked": None,
        }


class EventCoreferencePairs(EventData, AbsTaskPairClassification):
    """Pairs of mentions of one subtopic, which are the same event or not; data of the task
    `event_coreference`, scores of MTEB.

    A text is the trigger with its sentence. If there are more than `MOST_PAIRS`, as in WEC-Eng, whose
    mentions have no topics, the pairs are those with the same event or the same trigger, and if these are
    more, that number of them, drawn evenly.
    """

    task = "event_coreference"
    metadata = _metadata(
        task,
        "EventCoreferencePairs",
        "PairClassification",
        "max_ap",
        "Tell whether two mentions in news reports are the same event.",
    )

    def _form(self, held: TaskData) -> Dataset:
        rows = pd.DataFrame(cast("Iterable[dict[str, Any]]", held.rows))
        keys: list[list[Any]] = [["subtopic"]]
        total = sum(math.comb(size, 2) for size in rows.groupby("subtopic").size())
        if total > MOST_PAIRS:
            keys = [["subtopic", "cluster_id"], ["subtopic", rows.trigger.str.lower()]]
        groups = (places.tolist() for key in keys for places in rows.groupby(key).indices.values())
        pairs = sorted({pair for places in groups for pair in combinations(places, 2)})
        if len(pairs) > MOST_PAIRS:
            pairs = [pairs[place] for place in np.linspace(0, len(pairs) - 1, MOST_PAIRS, dtype=int)]
        if len(pairs) < total:
            _LOGGER.warning("%s scores %s of %s pairs", self.metadata.name, f"{len(pairs):,}", f"{total:,}")
        texts = (rows.trigger + ": " + rows.text).tolist()
        events = rows.cluster_id.tolist()
        return Dataset.from_dict(
            {
                "sentence1": [texts[one] for one, _ in pairs],
                "sentence2": [texts[other] for _, other in pairs],
                "labels": [int(events[one] == events[other]) for one, other in pairs],
            }
        )
