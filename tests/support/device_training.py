"""Short training runs of every method, whose data need no DuckDB to be built."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset
from grounding_files import write_grounding
from tiny import save_tiny_bi_encoder
from training_case import MethodTrainingCase, training_case_of

from eventformers.methods import built_in_methods
from eventformers.trainers.run import TrainingRun

METHODS = [method.name for method in built_in_methods()]

_CARD = """\
---
configs:
- config_name: {config}
  data_files:
  - split: train
    path: {config}/train.parquet
---
"""


class _CrossEncoderTraining(MethodTrainingCase):
    """The cross-encoder of event grounding, which learns from what a bi-encoder retrieves."""

    method = "event_grounding"
    recipe = "minilm-current-events-cross"
    settings: ClassVar[tuple[str, ...]] = (
        *("mentions_per_event=null", "missed_gold=add"),
        *("mention_tokens=20", "event_tokens=12", "read_heading=false"),
        *("candidates=3", "max_steps=4", "save_steps=2", "logging_steps=1", "learning_rate=1e-3"),
        "per_device_train_batch_size=4",
    )

    @classmethod
    def write_raw(cls, folder: Path) -> None:
        write_grounding(folder)

    def run(
        self, encoder: Path, raw: Path, output: Path, settings: Sequence[str] = (), **options: Any
    ) -> TrainingRun:
        retriever = raw / "retriever"
        if not retriever.exists():
            save_tiny_bi_encoder(encoder, retriever, pooling="mean", mention_tokens=20, event_tokens=12)
        mine = (*self.settings, f"retriever={retriever}", *settings)
        return super().run(encoder, raw, output, mine, **options)


def case_of_training(method: str) -> MethodTrainingCase:
    """The training case of a method, or of a further model of one."""
    return _CrossEncoderTraining() if method == "event_grounding_cross" else training_case_of(method)()


def write_training_data(folder: Path) -> Path:
    """Write training data of every method to a folder of its name: raw files, or built ones for events."""
    for method in METHODS:
        place = folder / method
        place.mkdir(parents=True)
        case_of_training(method).write_raw(place)
    _write_built(folder / "swcc", "cooccurrence", _cooccurrences(folder / "swcc"))
    _write_built(folder / "heterevent", "chains", _chains(folder / "heterevent"))
    return folder


def _write_built(folder: Path, config: str, rows: Iterator[dict[str, Any]]) -> None:
    """Write rows as `eventformers data build` does, without its report."""
    (folder / config).mkdir()
    Dataset.from_list(list(rows)).to_parquet(folder / config / "train.parquet")
    (folder / "README.md").write_text(_CARD.format(config=config), encoding="utf-8")


def _documents(folder: Path) -> Iterator[list[dict[str, str]]]:
    """The events of each document of a raw file."""
    for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines():
        events = json.loads(line)["events"]
        # The roles follow the numbers of sentence and event, where there are any.
        roles = [event[2:5] if len(event) > 3 else event for event in events]
        yield [dict(zip(("subject", "predicate", "object"), event, strict=True)) for event in roles]


def _cooccurrences(folder: Path) -> Iterator[dict[str, Any]]:
    """Each event with the others of its document."""
    for events in _documents(folder):
        for place, event in enumerate(events):
            others = events[:place] + events[place + 1 :]
            yield {"event": event, "co_events": others, "frequencies": [*range(1, len(others) + 1)]}


def _chains(folder: Path) -> Iterator[dict[str, Any]]:
    """The events of each subject of a document."""
    for document, events in enumerate(_documents(folder)):
        chains = defaultdict(list)
        for event in events:
            chains[event["subject"]].append(event)
        for protagonist, chain in chains.items():
            name = {"document_id": f"d{document}", "protagonist": protagonist}
            yield {"chain_id": f"d{document}-{protagonist}", **name, "events": chain}
