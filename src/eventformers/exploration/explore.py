"""From raw texts to tables of what they hold, in one call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eventformers.datasets_scripts.events import check_factuality
from eventformers.datasets_scripts.loading import check_raw_files
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.session import Session
from eventformers.exploration import PAGE_FILE, REPORT_FILE, STATE_FOLDER, WORKING_FOLDER
from eventformers.exploration.documents import DOCUMENTS, EXTRACTED_DOCUMENTS, EXTRACTED_EVENTS
from eventformers.exploration.events import CHAINS, EVENTS, VECTORS
from eventformers.exploration.links import LINKS
from eventformers.exploration.map import MAP
from eventformers.exploration.network import NETWORK
from eventformers.exploration.page import PAGE, WIDE_TABLES
from eventformers.exploration.related import COMPLETIONS, NEXT_EVENTS, graph_config_of
from eventformers.exploration.sources import Texts, find_texts
from eventformers.exploration.steps import (
    Context,
    ExploreSettings,
    Model,
    Step,
    StepRecord,
    check_inputs,
    check_skipped,
    publish,
    run_steps,
)
from eventformers.exploration.stories import STORIES
from eventformers.exploration.types import KNOWN_TYPES, TYPES
from eventformers.extraction.actors import read_actors
from eventformers.extraction.texts import TextColumns
from eventformers.extraction.wide import check_format
from eventformers.files import check_own_folder, output_folder, remove_folder, write_text
from eventformers.inference.grounding.knowledge_base import check_knowledge_base
from eventformers.inference.induction.type_list import read_type_list
from eventformers.inference.search.index_folder import holds_index
from eventformers.strict import several

TABLES: tuple[Step, ...] = (
    DOCUMENTS,
    EVENTS,
    VECTORS,
    CHAINS,
    TYPES,
    STORIES,
    NEXT_EVENTS,
    LINKS,
    COMPLETIONS,
    MAP,
    NETWORK,
    *WIDE_TABLES,
)
"""The steps that write tables, in their order; each may read the tables of those before it."""

STEPS: tuple[Step, ...] = (*TABLES, PAGE)
"""All steps. The page also shows the report of the others."""


@dataclass(frozen=True)
class Exploration:
    """A finished exploration.

    Attributes:
        folder: its folder.
        steps: the records of its steps, in order.
        report: the content of `report.json`: counts, settings, notes and seconds of the steps that write
            tables, and what is `new` since the folder's earlier exploration.
    """

    folder: Path
    steps: tuple[StepRecord, ...]
    report: dict[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of all steps."""
        return {name: count for step in self.steps for name, count in step.counts.items()}

    @property
    def notes(self) -> list[str]:
        """The notes of all steps."""
        return list(self.report["notes"])

    @property
    def tables(self) -> dict[str, Path]:
        """The tables by name, such as `events`."""
        written = [self.folder / name for step in STEPS for name in step.writes if "/" not in name]
        return {path.stem: path for path in written if path.suffix == ".parquet" and path.exists()}

    @property
    def page(self) -> Path | None:
        """The page; None if it was left out."""
        return path if (path := self.folder / PAGE_FILE).exists() else None


@takes_malformed
def explore(
    texts: Texts,
    output: str | Path,
    *,
    text_column: str | None = None,
    date_column: str | None = None,
    id_column: str | None = None,
    title_column: str | None = None,
    license_name: str | None = None,
    pipeline: str | Path | None = None,
    triggers: str = "sure",
    events: Model = None,
    chains: Model = None,
    types: Model = None,
    grounding: Model = "grounding",
    commonsense: Model = None,
    stories: bool = True,
    next_events: bool = False,
    num_types: int | None = None,
    type_list: str | Path | None = None,
    curation: str | Path | None = None,
    frames: str | Path | None = None,
    knowledge_base: str | Path | None = None,
    graph: str | Path | None = None,
    graph_config: str | None = None,
    min_chain_length: int = 3,
    factuality: Sequence[str] = ("fact",),
    actors: str | Path | None = None,
    skip: Sequence[str] = (),
    processes: int = 1,
    batch_size: int | Literal["auto"] = "auto",
    device: str | None = None,
    dtype: str | None = None,
    overwrite: bool = False,
    malformed: str | None = None,
    file_format: str | None = None,
    show_progress: bool = False,
) -> Exploration:
    """Turn raw texts into tables of events, vectors, chains, types and more, and a page to explore them.

    A second call with the same folder reuses the tables of the steps whose input is unchanged, and continues
    an interrupted one. New files replace the earlier ones together, when all steps are done. For arguments
    that are not listed see `encode`.

    Args:
        texts: files and folders: plain text with one document a file, JSON lines, CSV, Parquet, or SGML; the
            id of a dataset on the Hub; or texts in memory: a list of strings or rows, a frame, a table or a
            dataset. The events of a folder that `extract` wrote are taken as they are.
        output: the folder to write.
        text_column: column of the text in tables, and key in JSON lines; None takes `text`.
        date_column: column of the date, in ISO 8601; None takes `date`, if there is one.
        id_column: column of the id; None takes `id` or `document_id`, if there is one.
        title_column: column of the title; None takes `title`, if there is one.
        license_name: licence of texts without one; None takes the known licence of their source.
        pipeline: name or folder of a spaCy pipeline with a tagger and a parser; None uses the packaged
            English one, or the only installed one.
        triggers: `sure` finds events of verbs, of adjectives, and of nouns that are no doubtful ones; `all`
            more nouns; `verbs` only those of verbs.
        events: encoder of events: folder or Hub id, a loaded encoder, or None for the packaged
            all-MiniLM-L6-v2.
        chains: model that ranks the events related to a chain, likewise; None uses the encoder of events.
        types: model of event types, likewise.
        grounding: bi-encoder that links events to the knowledge base, likewise; by default the trained one of
            the package.
        commonsense: model that completes events with the graph, likewise.
        stories: find the events that several documents report.
        next_events: list the events of the corpus that are related to each chain; a model of `chains` turns
            this on, too.
        num_types: maximum number of event types; None takes as many as there are groups of similar events.
        type_list: event types of one's own, to which events are assigned by definition and examples: a CSV
            file with the columns `name`, `definition`, `examples` and `family`, of which only the first is
            needed, or `political`. None finds types.
        curation: edits of types, actors and stories, in YAML: renamed, merged, split or dropped ones.
        frames: frames to link types to, as `induce` reads them; None links none.
        knowledge_base: entries to link events to, as `ground` reads them; None leaves the links out.
        graph: commonsense graph, or its index, as `complete` reads them; None leaves the completions out.
        graph_config: config of the graph; None takes that of an index or of a built dataset, or else
            `conceptnet`.
        min_chain_length: minimum number of distinct events of a chain.
        factuality: kinds of factuality of the events in chains, stories, links and the network of actors, in
            the sizes and examples of types, and in the lists and counts of the page: `fact`, `negated`,
            `possible`, `reported` or `all`. The tables of events have all events.
        actors: table of names of one's own (CSV: `alias`, `name`, `kind`), which decides before the rules.
        skip: names of steps to leave out, with those that need them.
        processes: number of parsing processes.
        overwrite: start again instead of reusing tables.
        malformed: `skip` skips, counts and lists malformed documents; `error` raises for the first one; None
            uses the active policy.
        file_format: also write the events with all that is known of them as one wide table, as for `extract`:
            `csv`, `csv-bom`, `xlsx` or `parquet`.

    Returns:
        The `folder`, the paths of its `tables` by name, `counts`, and `report`, the content of `report.json`.

    Raises:
        DataFormatError: a file cannot be read.
        EventformersError: there is no text or no event, spaCy or the pipeline is missing, a model cannot be
            loaded, a setting is invalid, or the folder has files that are not those of an exploration.
    """
    check_format(file_format)
    skip = several(skip)
    # All other steps need the documents; file_format selects the wide tables.
    check_skipped([step for step in STEPS[1:] if step not in WIDE_TABLES], skip)
    columns = TextColumns(text_column, id_column, title_column, date_column, others=True)
    settings = ExploreSettings(
        columns=columns,
        license_name=license_name,
        pipeline=None if pipeline is None else str(pipeline),
        triggers=triggers,
        models={
            "events": events,
            "chains": events if chains is None else chains,
            "types": types,
            "grounding": grounding,
            "commonsense": commonsense,
        },
        stories=stories,
        next_events=next_events or chains is not None,
        num_types=num_types,
        type_list=type_list,
        curation=curation,
        frames=frames,
        knowledge_base=knowledge_base,
        graph=graph,
        graph_config=graph_config,
        min_chain_length=min_chain_length,
        factuality=check_factuality(several(factuality)),
        actors=actors,
        processes=processes,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        file_format=file_format,
        show_progress=show_progress,
    )
    for name, given, data, needed in (
        ("grounding", grounding != "grounding", "knowledge_base", knowledge_base),
        ("commonsense", commonsense is not None, "graph", graph),
        ("graph_config", graph_config is not None, "graph", graph),
    ):
        if given and needed is None:
            raise EventformersError(f"{name} without {data}; accepted: both, or neither")
    if actors is not None:
        read_actors(Path(actors))
    if type_list is not None:
        read_type_list(type_list)
    if knowledge_base is not None:
        check_knowledge_base(knowledge_base)
    if frames is not None:
        check_raw_files(frames, "event_types", "frames")
    if graph is not None and not holds_index(Path(graph).expanduser()):
        check_raw_files(graph, "commonsense_graphs", f"{graph_config_of(graph, graph_config)}_pairs")
    folder = Path(output)
    with output_folder(folder), Session(keeps_vectors=False) as session:
        check_own_folder(folder, STATE_FOLDER, "exploration")
        found = find_texts(texts, columns)
        if actors is not None and found.tables is not None:
            raise EventformersError(
                f"actors: {found.tables} has those of an extraction; accepted: actors with texts, or with "
                "extract"
            )
        if found.tables is not None and settings.edits("actors"):
            raise EventformersError(
                f"{curation}: edits of actors, and {found.tables} has those of an extraction; accepted: such "
                "edits with texts"
            )
        context = Context(found, settings, session)
        tables = TABLES if found.tables is None else (EXTRACTED_DOCUMENTS, EXTRACTED_EVENTS, *TABLES[2:])
        steps = (*tables, PAGE)
        # A wrong model, pipeline or file is reported before anything is removed or read.
        check_inputs(steps, context, skip)
        working = folder / STATE_FOLDER / WORKING_FOLDER
        if overwrite:
            remove_folder(working)
        earlier = None if overwrite else folder
        records = run_steps(tables, context, working, skip, earlier)
        without_step = {"types", "stories"} - {record.name for record in records}
        ignored = [
            f"{curation}: edits of {kind} are ignored, since the step is left out."
            for kind in sorted(without_step)
            if settings.edits(kind)
        ]
        report: dict[str, Any] = {
            "counts": {name: count for record in records for name, count in record.counts.items()},
            "settings": {record.name: record.settings for record in records},
            # Several steps may use the same model.
            "notes": list(dict.fromkeys([*(note for record in records for note in record.notes), *ignored])),
            "malformed": {one.name: one.malformed for one in records if one.malformed.get("count")},
            "seconds": {record.name: record.seconds for record in records},
            "new": _new(records, working, earlier),
        }
        text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        write_text(working / REPORT_FILE, text)
        records += run_steps((PAGE,), context, working, skip, earlier)
        publish(working, folder, steps, overwrite=overwrite)
    return Exploration(folder, tuple(records), report)


_IDENTITIES = {
    "documents": ("documents.parquet", "document_id"),
    "events": ("events.parquet", "event_id"),
    "actors": ("actors.parquet", "actor_id"),
    # Types of another list have the same ids, and edits change names.
    "types": (KNOWN_TYPES, "name"),
    "stories": ("stories.parquet", "story_id"),
}


def _new(records: Sequence[StepRecord], working: Path, earlier: Path | None) -> dict[str, int]:
    """Count what the earlier exploration lacks, by table; without any change, as its report did."""
    if earlier is None or not (earlier / REPORT_FILE).exists():
        return {}
    if all(record.reused for record in records):
        return dict(read_json_object(earlier / REPORT_FILE).get("new", {}))
    found = {}
    for name, (file, column) in _IDENTITIES.items():
        tables = [folder / file for folder in (working, earlier)]
        # A damaged table of the earlier exploration is replaced, as its step has run again.
        with suppress(DataFormatError):
            now, before = (set(read_parquet(table, [column])[column].to_pylist()) for table in tables)
            if number := len(now - before):
                found[name] = number
    return found
