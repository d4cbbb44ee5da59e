"""Ranking of candidates, or of the events of a corpus or its index, as the next event of a chain."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain as chained
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset, DatasetDict
from rich.console import Console
from rich.progress import track

from eventformers.datasets_scripts.chain_readers import EventFilter, raw_file_kind, read_documents
from eventformers.datasets_scripts.chains import event_key
from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.malformed import SkippedRows, takes_malformed
from eventformers.datasets_scripts.reading.fields import has_word
from eventformers.datasets_scripts.reading.lines import (
    JSON_LINES,
    PLAIN_TEXTS,
    TABLES,
    format_suffix,
    parse_json,
    raw_paths,
    read_lines,
)
from eventformers.datasets_scripts.reading.tables import first_record
from eventformers.errors import DataFormatError, EventformersError
from eventformers.files import require_file
from eventformers.inference.chains.scorers import CosineScorer, Scores, chain_scorer
from eventformers.inference.encode import EventEncoder, as_encoder
from eventformers.inference.encoding.event_reader import ROLES, EventLike, file_values, read_item, values_of
from eventformers.inference.encoding.event_tables import are_event_tables, read_table_events
from eventformers.inference.encoding.vectors import rounded_cosines
from eventformers.inference.search.candidate_index import SearchKind, check_search
from eventformers.inference.search.index_folder import (
    IndexedModel,
    IndexRecord,
    IndexTable,
    build_index,
    open_index,
    open_or_build,
    verify_index,
)

MAX_EVENTS = 8
"""Default maximum length of a chain: the length of a context in the benchmarks."""

ACCEPTED_EVENT = (
    '"subject | predicate | object" with nothing between the bars for an absent role, a predicate alone, or '
    'JSON such as {"subject": "police", "predicate": "arrested", "object": "man"}'
)
ACCEPTED_CORPUS = (
    "a folder that extract or explore wrote, raw or built chains, documents of events, or a file of events"
)
TABLE_SUFFIXES = (".json", *TABLES)
"""Suffixes that `file_values` reads; other files have one event on each line."""
FILE_SUFFIXES = (*PLAIN_TEXTS, *JSON_LINES, *TABLES)

Events: TypeAlias = EventLike
"""A file of events, events as `eventformers.encode` reads them (texts as lines of such a file), or one line.

A tuple of three strings is three lines, not one event.
"""

BLOCK_CANDIDATES = 16_384
"""Number of candidates encoded and scored at a time; it bounds the memory for their vectors."""

_SCHEMA = pa.schema([(role, pa.large_string()) for role in ROLES])


@dataclass(frozen=True, kw_only=True)
class EventRecord(IndexRecord):
    """Record of what an index of events was built from."""

    tables: ClassVar = {"events": ROLES}


def distinct_blocks(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the distinct events in blocks, in the order of their first occurrence."""
    # A hash takes 63 bytes here, an event 485; two of 10 million events share a hash of 64 bits with a
    # probability of 3 in a million.
    seen: set[int] = set()

    def distinct() -> Iterator[Event]:
        for event in events:
            key = hash((event["subject"], event["predicate"], event["object"]))
            if key not in seen:
                seen.add(key)
                yield event

    remaining = distinct()
    while block := list(islice(remaining, BLOCK_CANDIDATES)):
        yield block


def indexed_events(
    folder: str | Path,
    events: Iterable[Event] | None,
    encoder: EventEncoder,
    scorer: CosineScorer,
    *,
    dimension: int,
    search: SearchKind,
    show_progress: bool,
    overwrite: bool,
) -> IndexTable:
    """Open the index of events in a folder, or build it there.

    Args:
        events: the events; None uses those of the index.
        scorer: computes the vectors of candidates by this model.
        overwrite: replace an existing index; events that it has by the same model are not encoded again.

    Raises:
        EventformersError: there is no index and there are no events, the index was built by another model or
            from other events, or an error of `build_index`.
    """
    folder, model = Path(folder), IndexedModel.of(encoder)
    fingerprint = None
    if events is not None:
        rows = pa.concat_tables(
            [
                _SCHEMA.empty_table(),
                *(pa.Table.from_pylist(block, _SCHEMA) for block in distinct_blocks(events)),
            ]
        )
        if not len(rows):
            raise EventformersError(
                "the corpus has no event besides those of the chain; accepted: one or more"
            )
        fingerprint = dataset_fingerprint(DatasetDict({"events": Dataset(rows)}))

    def load() -> IndexTable:
        _, tables = open_index(folder, EventRecord, model=model, fingerprint=fingerprint, search=search)
        return tables["events"]

    build = None
    if fingerprint is not None:
        build = partial(
            build_index,
            *(folder, EventRecord, {"events": rows}),
            lambda _, block: scorer.candidates(block.to_pylist()).astype(np.float32),
            model=model,
            dimension=dimension,
            fingerprint=fingerprint,
            details={},
            show_progress=show_progress,
            overwrite=overwrite,
        )
    needed = "a corpus is needed; accepted: corpus (--corpus)"
    return open_or_build(folder, load, build, needed=needed, overwrite=overwrite)


def nearest_events(
    table: IndexTable, direction: Scores, top: int, excluded: Collection[str]
) -> list[tuple[float, int, Event]]:
    """Find the `top` events with the largest products with a direction, `(d,)`, without those whose
    `event_key` is in `excluded`.

    Returns:
        Score, position and event of each, best first; the lower position wins ties.
    """
    number = top + len(excluded)
    query = direction.astype(np.float32)
    while True:
        positions = table.nearest(query, number)[1]
        products = rounded_cosines(table.vectors[positions].astype(np.float64) @ direction)
        events = table.rows.take(positions).to_pylist()
        found = [
            (score, position, event)
            for score, position, event in zip(products.tolist(), positions.tolist(), events, strict=True)
            if event_key(event) not in excluded
        ]
        if len(found) >= top or number >= len(table.rows):
            return sorted(found, key=lambda one: (-one[0], one[1]))[:top]
        number *= 2


@dataclass(frozen=True)
class Candidate:
    """A candidate for the next event; its score is the mean cosine with the events of the chain."""

    event: Event
    text: str
    score: float


@dataclass(frozen=True)
class Prediction:
    """Result of `next_event`.

    Attributes:
        chain: the events that were used, in order.
        left_out: number of events dropped from the start of a chain that was too long.
        candidates: the best candidates, best first; ties keep the order of the input.
        considered: number of distinct candidates; in an index, with those equal to an event of the chain.
        recall: share of the nearest events that the approximate search of an index found when it was built;
            None if the search is exact.
    """

    chain: tuple[Event, ...]
    left_out: int
    candidates: tuple[Candidate, ...]
    considered: int
    model: str
    recall: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as JSON-serialisable values."""
        return asdict(self)


@takes_malformed
def next_event(
    model: str | Path | EventEncoder | None,
    chain: Events,
    *,
    candidates: Events | None = None,
    corpus: str | Path | None = None,
    index: str | Path | None = None,
    top: int = 10,
    max_events: int = MAX_EVENTS,
    search: SearchKind = "auto",
    overwrite: bool = False,
    verify: bool = False,
    batch_size: int | Literal["auto"] = "auto",
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    show_progress: bool = False,
    malformed: str | None = None,
) -> Prediction:
    """Rank events by how well they continue a chain.

    A chain of one event and a single candidate are allowed. For arguments that are not listed see `encode`
    and `induce`.

    Args:
        chain: a file of events: one a line, a JSON list, or a CSV or Parquet file with the columns that
            `embed_file` reads; or events in any form that `encode` reads, with their roles, or as lines of
            such a file (`"police | arrested | man"`). The last event is the latest.
        candidates: a file of events, or events, as for the chain. They may include events of the chain.
        corpus: a folder of `extract` or `explore`; raw files, a built folder or a Hub id of `EventChains`; or
            a file of events. All its distinct events are candidates, except those equal to one of the chain,
            ignoring case. Without corpus, index and candidates, the bundled samples are used.
        index: folder of an index of the events of the corpus, built if absent; later calls need no corpus and
            encode only the chain. None encodes the candidates in each call.
        top: number of candidates to return.
        max_events: maximum number of events of the chain to read, the latest ones. A warning reports how many
            were left out.
        search: kind of search in an index: `exact`; `ivf`, approximate; `auto` for `ivf` beyond two million
            events.
        overwrite: rebuild an existing index; events that it has by the same model are not encoded again.
            Like `ivf`, it needs an index.
        verify: check the digests of all files of the index first, also of files above 1 GiB.

    Returns:
        `candidates`, best first, each with its event and score; the `chain` that was used, `left_out`, the
        number of earlier events, and `considered`, that of distinct candidates.

    Raises:
        DataFormatError: a line of a file is not an event.
        EventformersError: the chain or the candidates are empty, an event contains no word, candidates are
            given with a corpus or an index, all events of the corpus are in the chain, a number is below 1,
            the model or the corpus cannot be loaded, the index is of another model or corpus, or a setting
            needs an index that is not given.
        UnknownNameError: an unknown kind of search.
    """
    check_search(search)
    for name, value in (("top", top), ("max_events", max_events)):
        if value < 1:
            raise EventformersError(f"{name} is {value}; accepted: 1 or more")
    if candidates is not None and corpus is not None:
        raise EventformersError("received both candidates and a corpus; accepted: one of them")
    if candidates is not None and index is not None:
        raise EventformersError("received candidates and an index; accepted: a corpus with an index")
    for name, given in (("search='ivf'", search == "ivf"), ("overwrite", overwrite), ("verify", verify)):
        if given and index is None:
            raise EventformersError(f"received {name} without an index; accepted: an index (--index FOLDER)")
    if verify and index is not None and not overwrite:
        verify_index(index, EventRecord)
    whole = read_events(chain, "the chain")
    read = whole[-max_events:]
    if len(read) < len(whole):
        warnings.warn(
            f"the chain has {len(whole)} events; the latest {len(read)} are used, and the first "
            f"{len(whole) - len(read)} are left out",
            stacklevel=2,
        )
    known = {event_key(event) for event in whole}

    def loaded() -> tuple[EventEncoder, CosineScorer]:
        encoder = as_encoder(model, device=device, dtype=dtype)
        return encoder, chain_scorer(encoder, batch_size=batch_size)

    recall = None
    if index is not None:
        encoder, scorer = loaded()
        (direction,), _ = scorer.directions([read], read[:1])
        table = indexed_events(
            index,
            None if corpus is None else _events_of_corpus(corpus),
            encoder,
            scorer,
            dimension=len(direction),
            search=search,
            show_progress=show_progress,
            overwrite=overwrite,
        )
        best = nearest_events(table, direction, top, known)
        considered = len(table.rows)
        recall = None if table.approximate is None else table.approximate.recall
    else:
        asked = (
            (event for event in _events_of_corpus(corpus) if event_key(event) not in known)
            if candidates is None
            else read_events(candidates, "the candidates")
        )
        blocks = distinct_blocks(asked)
        # A wrong corpus raises before the model is loaded.
        first = list(islice(blocks, 1))
        encoder, scorer = loaded()
        best, considered = _best(scorer, read, chained(first, blocks), top, show_progress)
    if not best:
        raise EventformersError("the corpus has only events of the chain; accepted: at least one other event")
    return Prediction(
        chain=tuple(read),
        left_out=len(whole) - len(read),
        candidates=tuple(Candidate(event, event_text(event), score) for score, _, event in best),
        considered=considered,
        model=encoder.name,
        recall=recall,
    )


def _best(
    scorer: CosineScorer, chain: list[Event], blocks: Iterable[list[Event]], top: int, show_progress: bool
) -> tuple[list[tuple[float, int, Event]], int]:
    """Return score, position and event of the best candidates, and the number of candidates."""
    best: list[tuple[float, int, Event]] = []
    considered = 0
    direction: Scores | None = None
    # Of an unknown number, the bar would stay empty.
    bar = track(
        blocks, "scoring", None, console=Console(stderr=True), transient=True, disable=not show_progress
    )
    for block in bar:
        if direction is None:
            (direction,), vectors = scorer.directions([chain], block)
        else:
            vectors = scorer.candidates(block)
        scores = rounded_cosines(vectors @ direction)
        best += [
            (score, considered + place, event)
            for place, (score, event) in enumerate(zip(scores.tolist(), block, strict=True))
        ]
        best = sorted(best, key=lambda one: (-one[0], one[1]))[:top]
        considered += len(block)
    return best, considered


def read_events(events: Events, what: str) -> list[Event]:
    """Read events, which `what` describes for errors.

    Args:
        events: a file with one event on each line, a JSON list of events, a CSV or Parquet file; or the
            events, or lines of such a file.

    Raises:
        DataFormatError: a line of the file is not an event.
        EventformersError: the file does not exist, an item is not an event, or there are no events.
    """
    if isinstance(events, str):
        # A text without roles may name a file, also one that does not exist.
        path = Path(events).expanduser()
        is_place = len(path.parts) > 1 and " " not in events
        is_event = "|" in events or _is_json(events)
        is_file = not is_event and (path.exists() or format_suffix(path) in FILE_SUFFIXES or is_place)
        events = path if is_file else [events]
    if isinstance(events, Path):
        path, skipped = events, SkippedRows()
        require_file(path, "a file of events, or events themselves")
        if format_suffix(path) in TABLE_SUFFIXES:
            rows = file_values(path, skipped)
            found = list(skipped.parsed(rows, lambda one: _event_of(one[2], one[0], one[1])))
        else:
            lines = (one for one in read_lines(path, skipped) if one[1].strip())
            found = list(skipped.parsed(lines, lambda one: _event_of(one[1], path, one[0]), "line"))
        skipped.warn()
        what = f"{what} of {path}"
    else:
        values, _ = values_of(list(events) if isinstance(events, tuple) else events)
        found = []
        for place, value in enumerate(values, start=1):
            try:
                found.append(_event_of(value, Path(f"{what}, event {place}"), None))
            except DataFormatError as error:
                raise EventformersError(str(error)) from error
    if not found:
        raise EventformersError(f"{what}: found no event; accepted: at least one")
    return found


def _is_json(text: str) -> bool:
    """True if a line is meant as JSON: an object, a list of three texts or a quoted text."""
    text = text.strip()
    if text.startswith("["):
        return text.endswith("]") and '"' in text
    return text.startswith("{") or (len(text) > 1 and text[0] == text[-1] == '"')


def _event_of(value: object, path: Path, number: int | None) -> Event:
    """Read an event, or a text in the format of a line of a file."""
    item = value if isinstance(value, str) else read_item(value, path, number)
    if isinstance(item, str) and _is_json(item):
        item = read_item(parse_json(item, path, number, ACCEPTED_EVENT), path, number)
    fields = item.split("|") if isinstance(item, str) else [item[role] for role in ROLES]
    if len(fields) not in (1, 3):
        raise DataFormatError(path, number, f"{len(fields)} fields", ACCEPTED_EVENT)
    roles = ["", *fields, ""] if len(fields) == 1 else fields
    subject, predicate, object_ = (" ".join(text.split()) for text in roles)
    event: Event = {"subject": subject, "predicate": predicate, "object": object_}
    if not has_word(event):
        raise DataFormatError(path, number, "an event without any word", ACCEPTED_EVENT)
    return event


def _events_of_corpus(corpus: str | Path | None) -> Iterator[Event]:
    """Return the events of tables, of raw files or of a file of events; otherwise of built chains."""
    path = None if corpus is None else Path(corpus).expanduser()
    if path is None or not path.exists() or built_configs(path):
        splits = load_built(corpus, "chains", builder="event_chains")
        return (event for rows in splits.values() for events in rows["events"] for event in events)
    if are_event_tables(path):
        return read_table_events(path)
    kind = raw_file_kind(path) if path.is_file() else None
    record = first_record(path) if kind == "documents" else None
    if isinstance(record, dict):
        # A table of documents has their events, or their ids beside single events.
        has_single_events = record.keys().isdisjoint(("events", "document_id", "id"))
    else:
        has_single_events = kind is None or isinstance(record, list)
    if path.is_file() and has_single_events:
        return iter(read_events(path, "the corpus"))
    return _raw_events(path)


def _raw_events(path: Path) -> Iterator[Event]:
    """Yield the events of raw files; where a folder has chains, not those of its documents again."""
    files = EventChains.find_raw_files("chains", raw_paths(path))
    if not files:
        raise EventformersError(f"{path}: found no events; accepted: {ACCEPTED_CORPUS}")
    skipped = SkippedRows()
    for document in read_documents(next(iter(files.values())), skipped):
        yield from EventFilter().apply(document, skipped)
    skipped.warn()
