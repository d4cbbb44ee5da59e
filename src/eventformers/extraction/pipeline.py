"""Extraction from files of raw text to a folder of events and chains, in several processes, with resume."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import datasets

from eventformers.datasets_scripts.chain_readers import EXTRACTION_REPORT
from eventformers.datasets_scripts.events import (
    ACTORS_TABLE,
    DOCUMENTS_TABLE,
    EVENTS_TABLE,
    EXTRACTED_DOCUMENTS,
)
from eventformers.datasets_scripts.malformed import MALFORMED_POLICIES, malformed_policy, takes_malformed
from eventformers.datasets_scripts.reading.lines import DataDir, read_json_object
from eventformers.errors import EventformersError, counted
from eventformers.extraction.actors import read_actors
from eventformers.extraction.chains import Resolver
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractionCounts,
    ExtractionSettings,
    cached_extractor,
    installed_pipeline,
    rules_digest,
)
from eventformers.extraction.language import check_languages, english_only
from eventformers.extraction.shards import (
    CHAINS_FILE,
    extract_shard,
    is_extracted,
    merge_shards,
    read_all_texts,
    write_texts,
)
from eventformers.extraction.texts import TextColumns, TextFile, find_text_files, read_texts
from eventformers.extraction.wide import WIDE_FILES, check_format, write_wide
from eventformers.files import file_digest, output_folder, remove_folder, staged_folder, write_text
from eventformers.strict import several

_WORK_FOLDER = ".extraction"
_TABLES = (DOCUMENTS_TABLE, EVENTS_TABLE, ACTORS_TABLE, EXTRACTED_DOCUMENTS, CHAINS_FILE)
_logger = logging.getLogger("eventformers")


@dataclass(frozen=True)
class Extraction:
    """A finished extraction.

    Args:
        folder: its folder.
        counts: what was read, skipped and written.
    """

    folder: Path
    counts: ExtractionCounts

    @property
    def files(self) -> list[Path]:
        """The written files: documents, events and chains, if there are any, and the report."""
        names = dict.fromkeys((*_TABLES, *WIDE_FILES.values(), EXTRACTION_REPORT))
        return [self.folder / name for name in names if (self.folder / name).exists()]


@takes_malformed
def extract(
    texts: DataDir,
    output: str | Path,
    *,
    pipeline: str | Path | None = None,
    coreference: str | Resolver = "auto",
    arguments: str = "heads",
    triggers: str = "all",
    exclude_predicates: Sequence[str] = (),
    drop_pronoun_only: bool = False,
    min_chain_length: int = 5,
    factuality: Sequence[str] = (),
    actors: str | Path | None = None,
    document_types: Sequence[str] = ("story",),
    source: str | None = None,
    license_name: str | None = None,
    text_column: str | None = None,
    id_column: str | None = None,
    processes: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    malformed: str | None = None,
    file_format: str | None = None,
) -> Extraction:
    """Extract events, and chains of one protagonist, from raw text.

    Writes `events.jsonl.gz` (one document a line), `chains.jsonl` (one chain a line), `report.json`, and the
    tables `documents.parquet`, `events.parquet` and `actors.parquet` into the output folder when all texts
    are done. The dataset `event_chains` reads the lines; `induce`, `ground` and `next_event` read the tables.
    An empty file is not written. Until then, finished parts are in a hidden folder there, and `resume`
    continues from them.

    Args:
        texts: files and folders: plain text with one document a file, JSON lines, CSV, Parquet, or SGML.
        output: the folder to write.
        pipeline: name or folder of a spaCy pipeline with a tagger and a parser; None uses the packaged
            English one, or the only installed one.
        coreference: `auto`, `heads`, `spacy`, `fastcoref`, `coreferee`, `module:function`, or a function of a
            spaCy Doc (`ExtractionSettings`).
        arguments: `heads` or `spans`.
        triggers: `all` finds events of verbs, nouns and adjectives; `sure` leaves out nouns that may be none;
            `verbs` finds only those of verbs, as the datasets of the papers have them.
        exclude_predicates: predicates of events to leave out; `reporting` stands for verbs of reporting.
        drop_pronoun_only: leave out events whose arguments are all pronouns.
        min_chain_length: leave out chains of fewer distinct events.
        factuality: kinds of factuality of the events in `events.jsonl.gz` and `chains.jsonl`: `fact`,
            `negated`, `possible`, `reported`; none, or `all`, are all. The tables have all events.
        actors: table of names of one's own (CSV: `alias`, `name`, `kind`), which decides before the rules.
        document_types: types of SGML documents to read; empty reads all.
        source: source of texts without one; by default the name of the given folder or file.
        license_name: licence of texts without one; by default the known licence of their source.
        text_column: column of the text in tables, and key in JSON lines; by default `text`. Once a column is
            named, other columns are ignored; otherwise only those of published web corpora are.
        id_column: column of the id; by default `id` or `document_id`, if there is one.
        processes: number of parsing processes.
        resume: continue an unfinished extraction of the same texts with the same settings.
        overwrite: replace existing output.
        malformed: `skip` skips, counts and lists malformed documents; `error` raises for the first one; None
            uses the active policy.
        file_format: also write the events with all that is known of them as one wide table: `csv`, `csv-bom`
            (with the mark by which Excel recognises UTF-8), `xlsx` or `parquet`; see `write_wide`.

    Returns:
        The `folder`, its `files`, and `counts` of what was read, skipped and written.

    Raises:
        DataFormatError: a file cannot be read.
        EventformersError: a setting is invalid, spaCy or the pipeline is missing, the folder exists, the
            extraction to resume has other settings, or there is no text.
    """
    if processes < 1:
        raise EventformersError(f"processes: found {processes}; accepted: 1 or more")
    check_format(file_format)
    columns = TextColumns(text=text_column, id=id_column)
    settings = ExtractionSettings(
        pipeline=str(installed_pipeline() if pipeline is None else pipeline),
        arguments=arguments,
        coreference=coreference,
        exclude_predicates=several(exclude_predicates),
        drop_pronoun_only=drop_pronoun_only,
        min_chain_length=min_chain_length,
        factuality=several(factuality),
        triggers=triggers,
    )
    aliases = {} if actors is None else read_actors(Path(actors))
    folder = Path(output)
    work = folder / _WORK_FOLDER
    with output_folder(folder):
        _check_free(folder, resume, overwrite)
        counts = ExtractionCounts()
        files = find_text_files(texts, counts.skipped)
        types = sorted(kind.lower() for kind in several(document_types))
        reading: dict[str, Any] = {
            "document_types": types,
            "source": source,
            "license": license_name,
        }
        if actors is not None:
            reading["actors"] = file_digest(Path(actors))
        if named := columns.named():
            reading["columns"] = named
        if malformed_policy() != MALFORMED_POLICIES[0]:
            reading["malformed"] = malformed_policy()
        # A cached pipeline of an earlier call may have had the same folder with other content.
        cached_extractor.cache_clear()
        extractor = cached_extractor(settings)
        made_of = _made_of(settings, reading, extractor, files)
        if resume and (folder / EXTRACTION_REPORT).exists():
            report = read_json_object(folder / EXTRACTION_REPORT)
            _refuse_other(folder, report.pop("made_of"), made_of)
            remove_folder(work)
            _write_wide(folder, file_format)
            return Extraction(folder, ExtractionCounts.from_dict(report))
        # All texts of an unfinished extraction are read where it has this file.
        if is_read := resume and (work / "read.json").exists():
            _refuse_other(folder, read_json_object(work / "read.json")["made_of"], made_of)
        if not is_read:
            remove_folder(work)
            documents = read_texts(files, counts.read, counts.skipped, types, source, license_name, columns)
            shown = datasets.utils.tqdm(documents, desc="Reading texts", unit=" documents")
            try:
                number = write_texts(shown, work / "texts")
            except BaseException:
                # A partly read text is read again from its start.
                remove_folder(work)
                raise
            done = {"made_of": made_of, "shards": number, "counts": counts.to_dict()}
            write_text(work / "read.json", json.dumps(done))
        read = read_json_object(work / "read.json")
        counts = ExtractionCounts.from_dict(read["counts"])
        if not read["shards"]:
            remove_folder(work)
            counts.skipped.warn()
            raise EventformersError(
                f"no document with text among {counted(counts.read['files'], 'file')}; "
                "accepted: files with text"
            )
        try:
            check_languages(
                lambda: read_all_texts(work / "texts", read["shards"]),
                counts.read["documents"],
                extractor.pipeline.lang,
            )
        except EventformersError:
            # Another pipeline could not resume it.
            remove_folder(work)
            raise
        if note := english_only(extractor.pipeline.lang):
            _logger.warning(note)
        extract_shards(settings, work, read["shards"], processes, with_lines=True)
        of_extraction = (*_TABLES, *WIDE_FILES.values())
        with staged_folder(folder, replaced=of_extraction, last=(EXTRACTION_REPORT,)) as staging:
            counts.add(merge_shards(work / "results", read["shards"], staging, aliases))
            _write_wide(staging, file_format)
            report = {**counts.to_dict(), "made_of": made_of}
            write_text(staging / EXTRACTION_REPORT, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        remove_folder(work)
        counts.skipped.warn()
        num_read, written = counts.read["documents"], counts.written["documents"]
        if 2 * written < num_read:
            _logger.warning(
                "%d of %d documents have no kept event; check that the text is running text in the language "
                "of the pipeline (%s)",
                *(num_read - written, num_read, extractor.pipeline.lang),
            )
        return Extraction(folder, counts)


def _write_wide(folder: Path, file_format: str | None) -> None:
    if file_format is not None and (folder / EVENTS_TABLE).exists():
        write_wide(folder, file_format, folder / WIDE_FILES[file_format])


def _check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    if resume and overwrite:
        raise EventformersError("--resume and --overwrite exclude each other; pass one of them")
    report = folder / EXTRACTION_REPORT
    if report.exists() and "made_of" not in read_json_object(report, "a report"):
        # `explore` writes a report of this name, and tables beside it that would no longer fit.
        raise EventformersError(f"{report} was not written by extract; choose another folder")
    if resume or overwrite:
        return
    if report.exists():
        raise EventformersError(f"{folder} has an extraction; pass --overwrite to replace it")
    if (folder / _WORK_FOLDER).exists():
        raise EventformersError(
            f"{folder} has an unfinished extraction; --resume continues it, --overwrite starts again"
        )


def _made_of(
    settings: ExtractionSettings,
    reading: Mapping[str, Any],
    extractor: EventExtractor,
    files: Sequence[TextFile],
) -> dict[str, Any]:
    """Everything that affects the result, so that parts of another extraction are never reused."""
    import spacy

    chosen = dataclasses.asdict(settings)
    if not isinstance(settings.coreference, str):
        function = settings.coreference
        chosen["coreference"] = f"{function.__module__}:{getattr(function, '__qualname__', repr(function))}"
    meta = extractor.pipeline.meta
    chosen["pipeline"] = f"{meta['lang']}_{meta['name']} {meta['version']}, spaCy {spacy.__version__}"
    digests = "".join(f"{file.name}\0{file_digest(file.path)}\0" for file in files)
    made_of = {
        **chosen,
        **reading,
        "rules": rules_digest(),
        "components": list(extractor.pipeline.pipe_names),
        "texts": f"{len(files)} files, SHA-256 {sha256(digests.encode()).hexdigest()}",
    }
    return json.loads(json.dumps(made_of))


def _refuse_other(folder: Path, there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    differing = [name for name in {**there, **wanted} if there.get(name) != wanted.get(name)]
    if differing:
        raise EventformersError(
            f"{folder} was extracted with other {', '.join(differing)}; use the same, or pass --overwrite"
        )


def extract_shards(
    settings: ExtractionSettings, work: Path, shards: int, processes: int, *, with_lines: bool
) -> None:
    """Extract the shards in `work/texts` that have no complete results in `work/results` yet.

    Raises:
        EventformersError: the pipeline cannot be used, or a process was killed.
    """
    results = work / "results"
    waiting = [shard for shard in range(shards) if not is_extracted(results, shard)]
    if not waiting:
        return
    try:
        datasets.Dataset.from_dict({"shard": waiting}).map(
            _extract_row,
            fn_kwargs={"settings": settings, "work": str(work), "with_lines": with_lines},
            num_proc=min(processes, len(waiting)) if processes > 1 else None,
            keep_in_memory=True,
            load_from_cache_file=False,
            new_fingerprint=uuid4().hex,
            desc=f"Extracting from {counted(len(waiting), 'part')}",
        )
    except RuntimeError as error:
        if "abruptly died" not in str(error):
            raise
        raise EventformersError(
            "a process was killed from outside, possibly for lack of memory; run again with fewer "
            "--processes, extract also with --resume"
        ) from error


def _extract_row(
    row: dict[str, int], settings: ExtractionSettings, work: str, with_lines: bool
) -> dict[str, int]:
    texts, results = Path(work) / "texts", Path(work) / "results"
    extract_shard(cached_extractor(settings), texts, results, row["shard"], with_lines)
    return row
