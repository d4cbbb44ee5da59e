"""The steps of an exploration: each reads tables, writes its own, and is reused if its input is unchanged."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers import __version__
from eventformers.datasets_scripts.loading import check_data
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.session import Session
from eventformers.exploration import REPORT_FILE, STATE_FOLDER
from eventformers.exploration.curation import Edit, read_curation
from eventformers.exploration.sources import FoundTexts
from eventformers.extraction.texts import USUAL_COLUMNS, TextColumns
from eventformers.files import file_digest, files_digest, remove_folder, replaced_file, staged_folder
from eventformers.inference.encode import EventEncoder
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.models import faults_told, folder_name, load_config, model_revision
from eventformers.terminal import counts_text

Model = str | Path | EventEncoder | None
"""A folder or Hub id, a loaded encoder, or None for the packaged all-MiniLM-L6-v2."""


@dataclass(frozen=True)
class ExploreSettings:
    """Settings of `explore`, which documents them; `models` has the model of each role.

    Raises:
        EventformersError: a number is too small.
    """

    columns: TextColumns = USUAL_COLUMNS
    license_name: str | None = None
    pipeline: str | None = None
    triggers: str = "sure"
    models: Mapping[str, Model] = field(default_factory=dict)
    stories: bool = True
    next_events: bool = False
    num_types: int | None = None
    type_list: str | Path | None = None
    curation: str | Path | None = None
    frames: str | Path | None = None
    knowledge_base: str | Path | None = None
    graph: str | Path | None = None
    graph_config: str | None = None
    min_chain_length: int = 3
    factuality: Sequence[str] = ("fact",)
    actors: str | Path | None = None
    processes: int = 1
    batch_size: int | Literal["auto"] = "auto"
    device: str | None = None
    dtype: str | None = None
    file_format: str | None = None
    show_progress: bool = False

    def __post_init__(self) -> None:
        for name, least in (("min_chain_length", 2), ("processes", 1), ("num_types", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise EventformersError(f"{name}: found {value}; accepted: {least} or more")
        if self.num_types is not None and self.type_list is not None:
            raise EventformersError("num_types and a type_list, which has a number; accepted: one of them")

    def edits(self, kind: str) -> list[Edit]:
        """Return the edits of a kind, such as `types`, of the curation.

        Raises:
            EventformersError: the file does not exist, or is malformed.
        """
        return [] if self.curation is None else read_curation(self.curation)[kind]


@dataclass(frozen=True)
class Context:
    """What all steps of an exploration share.

    Args:
        session: holds the loaded models.
    """

    texts: FoundTexts
    settings: ExploreSettings
    session: Session
    _identities: dict[str, dict[str, Any]] = field(default_factory=dict, init=False, repr=False)

    def encoder(self, role: str) -> EventEncoder:
        """Return the encoder of a role, such as `events`; load it on the first call.

        Raises:
            EventformersError: it cannot be loaded.
        """
        model = self.settings.models.get(role)
        loaded = isinstance(model, EventEncoder)
        loading: dict[str, Any] = (
            {} if loaded else {"device": self.settings.device, "dtype": self.settings.dtype}
        )
        # A vector that an earlier run made must be the one that this run would make.
        return replace(self.session.encoder(model, **loading), packs_from=1)

    def model_identity(self, role: str) -> dict[str, Any]:
        """Identify the model of a role without loading it: name, revision and dtype.

        A model without a known revision never equals that of another call.

        Raises:
            EventformersError: it does not exist.
        """
        if role not in self._identities:
            model = self.settings.models.get(role)
            if isinstance(model, EventEncoder):
                name, revision, dtype = model.name, model.revision, str(model.model.dtype)
            else:
                source = resolve_encoder(model)
                with faults_told(source):
                    load_config(source)
                    revision = model_revision(source)
                folder = Path(source)
                name = folder_name(folder, model) if folder.is_dir() else source
                dtype = str(self.settings.dtype)
            identity = {"name": name, "revision": revision or uuid4().hex, "dtype": dtype}
            self._identities[role] = identity
        return self._identities[role]

    def curation_identity(self, kind: str) -> str | None:
        """Identify the edits of a kind, such as `types`; None without any.

        Raises:
            EventformersError: the file does not exist, or is malformed.
        """
        edits = [edit[:-1] for edit in self.settings.edits(kind)]
        return key_of(edits) if edits else None

    def data_identity(self, name: str) -> dict[str, str] | None:
        """Identify the data of a setting, such as `frames`, by the content of its files.

        Data on the Hub is identified by its id alone.

        Args:
            name: the setting, whose value is a file, a folder, several joined by `os.pathsep`, or a Hub id.

        Returns:
            The identity; None if the setting is None.

        Raises:
            EventformersError: the value is no file or folder and cannot be a Hub id.
        """
        value: str | Path | None = getattr(self.settings, name)
        if value is None:
            return None
        check_data(value)
        paths = [Path(part).expanduser() for part in str(value).split(os.pathsep)]
        if not all(path.exists() for path in paths):
            return {"name": str(value)}
        digests = [files_digest(path) for path in paths]
        return {
            "name": ", ".join(path.absolute().name for path in paths),
            "sha256": digests[0] if len(digests) == 1 else sha256(" ".join(digests).encode()).hexdigest(),
        }


_ROWS_AT_ONCE = 16_384
"""Number of rows that an interrupted step may lose."""


_logger = logging.getLogger("eventformers")


def key_of(content: object) -> str:
    """Return the digest of JSON values, from which a row is made."""
    return sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def keys_file(name: str) -> str:
    """Return the name of the file with the keys of a result."""
    return f"{STATE_FOLDER}/{Path(name).stem}.keys.parquet"


class StepRun:
    """A running step: its input tables, the shared context, and its output.

    Args:
        folder: the folder of the exploration, with the tables of earlier steps.
        staging: folder for new files; they move to `folder` together when the step is done.
        work: folder for partial results, which an interrupted step finds again; it need not exist.
        earlier: folder of an earlier exploration in which this step ran with equal models and settings, but
            for those of `Step.applied`, so that rows of unchanged texts can be reused; None if there is none.

    Attributes:
        notes: sentences for the report: what was skipped, truncated or weak; filled in by the step.
        malformed: the malformed parts that were skipped, as `SkippedRows.to_dict`; filled in by the step.
    """

    def __init__(
        self, context: Context, folder: Path, staging: Path, work: Path, earlier: Path | None = None
    ) -> None:
        self.context, self.folder, self.staging, self.work = context, folder, staging, work
        self.earlier = earlier
        self.counts: dict[str, int] = {}
        self.notes: list[str] = []
        self.malformed: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """True if an earlier step wrote a file."""
        return (self.folder / name).exists()

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a table of an earlier step, or some of its columns."""
        return read_parquet(self.folder / name, columns)

    def write(self, name: str, table: pa.Table) -> None:
        """Write a table."""
        self.write_parts(name, table.schema, [table])

    def write_parts(self, name: str, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
        """Write a table in parts, so that it need not be in memory as a whole."""
        path = self.path(name)
        with pq.ParquetWriter(path, schema) as writer:
            for part in parts:
                writer.write_table(part)

    def rows(
        self,
        name: str,
        keys: Sequence[str],
        make: Callable[[Sequence[int]], pa.Table],
        also: str | None = None,
    ) -> pa.Table:
        """Return a row for each key, and write them; only those that the earlier exploration lacks are made.

        Args:
            name: the file of the result. The step's `writes` has it and its `keys_file`.
            keys: the digest of what each row is made from, besides the step's settings and models.
            make: makes rows from their numbers. A row must not depend on the others.
            also: the result of an earlier step that has equal rows for equal keys.
        """
        parts: list[pa.Table] = []
        places: dict[str, int] = {}
        held = 0
        for folder, known in ((self.earlier, name), (self.folder, also)):
            if folder and known and (folder / known).exists():
                of_known = read_parquet(folder / keys_file(known))["key"].to_pylist()
                places |= {key: place for place, key in enumerate(of_known, start=held)}
                parts.append(read_parquet(folder / known))
                held += len(of_known)
        number_of = {key: number for number, key in reversed(list(enumerate(keys))) if key not in places}
        missing = sorted(number_of.values())
        places |= {keys[number]: place for place, number in enumerate(missing, start=held)}
        # Without any row, the columns of no row.
        for start in range(0, len(missing), _ROWS_AT_ONCE) if missing or parts else [0]:
            parts.append(self._kept(name, start, missing[start : start + _ROWS_AT_ONCE], make))
        table = pa.concat_tables(parts).take(pa.array([places[key] for key in keys], pa.int64()))
        table = table.combine_chunks()
        self.write(name, table)
        self.write(keys_file(name), pa.table({"key": pa.array(keys, pa.string())}))
        return table

    def _kept(
        self, name: str, start: int, numbers: Sequence[int], make: Callable[[Sequence[int]], pa.Table]
    ) -> pa.Table:
        """Return the rows that an interrupted run kept, or make and keep them."""
        path = self.work / f"{Path(name).stem}-{start}.parquet"
        if not path.exists():
            with replaced_file(path) as temporary:
                pq.write_table(make(numbers), temporary)
        return read_parquet(path)

    def note_skipped(self, skipped: Mapping[str, int]) -> None:
        """Add a note of what was skipped, by reason, if anything was."""
        counted = {name: count for name, count in sorted(skipped.items()) if count}
        if counted:
            self.notes.append(f"Skipped: {counts_text(counted)}.")

    def path(self, name: str) -> Path:
        """Return the path to write a file to."""
        path = self.staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True)
class Step:
    """A step of an exploration.

    Attributes:
        name: its name, in `--skip` and in the report.
        run: reads tables, computes, and writes all files of `writes`.
        writes: the files that it writes, relative to the folder.
        reads: files of earlier steps; without all of them, the step is not run.
        may_read: files of earlier steps that it uses if they exist.
        settings: returns everything else that its output depends on, as JSON values; None if the step has no
            input and is not run.
        applied: names of the settings that its reusable rows do not depend on.
    """

    name: str
    run: Callable[[StepRun], object]
    writes: tuple[str, ...]
    reads: tuple[str, ...] = ()
    may_read: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    settings: Callable[[Context], Mapping[str, Any] | None] = lambda context: {}
    applied: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepRecord:
    """A finished step.

    Attributes:
        malformed: the malformed parts that it skipped, or nothing.
        seconds: the time that it took when it was run.
        reused: whether its files are those of an earlier call.
    """

    name: str
    counts: dict[str, int]
    notes: list[str]
    malformed: dict[str, Any]
    settings: dict[str, Any]
    seconds: float
    reused: bool = field(default=False, compare=False)


def check_skipped(steps: Sequence[Step], skip: Collection[str]) -> None:
    """Raise an error for a name to skip that no step has."""
    names = [step.name for step in steps]
    for name in skip:
        if name not in names:
            kind = "step (one for each --skip)" if "," in name else "step"
            raise UnknownNameError(kind, name, names)


def check_inputs(steps: Sequence[Step], context: Context, skip: Collection[str] = ()) -> None:
    """Raise the error of a setting, model or file that a step cannot use, before any work."""
    for step in steps:
        if step.name not in skip:
            _input_of(step, context)


def run_steps(
    steps: Sequence[Step],
    context: Context,
    folder: Path,
    skip: Collection[str] = (),
    earlier: Path | None = None,
) -> list[StepRecord]:
    """Run steps in order; reuse the files of those whose input is unchanged.

    A step is reused if its settings, its models, the tables that it reads, this package's version and its own
    files are those of its last run in this folder or in an earlier exploration, whose files are then linked.
    Files of steps that are skipped or have no input are removed, since they could contradict the new tables.

    Args:
        steps: the steps, each after those that it reads.
        folder: the folder to work in; a stopped run leaves its finished steps there.
        skip: names of steps to leave out.
        earlier: the folder of an earlier exploration, which is only read.

    Returns:
        The records of the steps that were run or reused.

    Raises:
        EventformersError: an error of a step; finished steps stay finished.
    """
    check_inputs(steps, context, skip)
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for step in steps:
        given = None if step.name in skip else _input_of(step, context)
        if given is None or not all((folder / name).exists() for name in step.reads):
            for name in (_state_file(step), *step.writes):
                (folder / name).unlink(missing_ok=True)
            continue
        there = [name for name in (*step.reads, *step.may_read) if (folder / name).exists()]
        made_of = {**given, "reads": {name: file_digest(folder / name) for name in there}}
        record = _finished(folder, step, made_of)
        if record is None and earlier and (record := _finished(earlier, step, made_of)):
            for name in (*step.writes, _state_file(step)):
                _link(earlier / name, folder / name)
        records.append(record or _run(step, context, folder, made_of, earlier))
    return records


def publish(working: Path, folder: Path, steps: Sequence[Step], *, overwrite: bool = False) -> None:
    """Move the report and the files of finished steps into place together, and remove those of an earlier
    exploration.

    Files that did not change are left as they are. So is the state of steps that were left out, such as the
    ids of stories, unless `overwrite`.

    Args:
        working: the folder in which all steps ran; it is removed.
        steps: all steps, also those that were left out.
    """
    names = [REPORT_FILE, *(name for step in steps for name in (*step.writes, _state_file(step)))]
    changed = [name for name in names if not _are_equal(working / name, folder / name)]
    if not overwrite:
        changed = [name for name in changed if (working / name).exists() or STATE_FOLDER not in name]
    if changed:
        with staged_folder(folder, replaced=changed, last=changed) as staging:
            for name in changed:
                if (working / name).exists():
                    _link(working / name, staging / name)
    remove_folder(working)


def _are_equal(one: Path, other: Path) -> bool:
    if not (one.exists() and other.exists()):
        return one.exists() == other.exists()
    return one.samefile(other) or file_digest(one) == file_digest(other)


def _link(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _input_of(step: Step, context: Context) -> dict[str, Any] | None:
    """What affects the output of a step besides the tables that it reads, as JSON values; None without
    input."""
    settings = step.settings(context)
    if settings is None:
        return None
    models = {role: context.model_identity(role) for role in step.models}
    return json.loads(json.dumps({"version": __version__, "settings": settings, "models": models}))


def _run(
    step: Step, context: Context, folder: Path, made_of: Mapping[str, Any], earlier: Path | None
) -> StepRecord:
    state = _state_file(step)
    _logger.info("%s …", step.name)
    started = time.perf_counter()
    # Partial results of other input are removed.
    digest = sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    work = folder / STATE_FOLDER / f"{step.name}.{digest}"
    for other in (folder / STATE_FOLDER).glob(f"{step.name}.*"):
        if other.is_dir() and other != work:
            remove_folder(other)
    comparable = earlier is not None and _finished(earlier, step, made_of, other_tables=True)
    with staged_folder(folder, replaced=(*step.writes, state), last=(f"{step.name}.json",)) as staging:
        run = StepRun(context, folder, staging, work, earlier if comparable else None)
        step.run(run)
        for role in step.models:
            if context.settings.models.get(role) is None:
                name = context.model_identity(role)["name"]
                run.notes.append(
                    f"No model of {role} is given (--{role}): {name} is used as it was pretrained."
                )
        content = {
            "made_of": made_of,
            "files": {name: file_digest(staging / name) for name in step.writes},
            "counts": run.counts,
            "notes": run.notes,
            "malformed": run.malformed,
            "seconds": round(time.perf_counter() - started, 2),
        }
        run.path(state).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(work, ignore_errors=True)
    return _record(step, content)


def _state_file(step: Step) -> str:
    return f"{STATE_FOLDER}/{step.name}.json"


def _finished(
    folder: Path, step: Step, made_of: Mapping[str, Any], *, other_tables: bool = False
) -> StepRecord | None:
    """The record of a step whose files can be reused, also those made of other tables and with other settings
    of `Step.applied` if `other_tables`; None if there is none."""
    try:
        state = read_json_object(folder / _state_file(step))
        before = state["made_of"]
        if other_tables:
            applied = {name: made_of["settings"][name] for name in step.applied}
            before = {**before, "reads": made_of["reads"], "settings": {**before["settings"], **applied}}
        files = state["files"].items()
        if other_tables:
            # Of a step that was left out, only the state is there.
            files = [one for one in files if STATE_FOLDER in one[0] or (folder / one[0]).exists()]
        is_same = before == made_of and state["files"].keys() == {*step.writes}
        if is_same and all(file_digest(folder / name) == digest for name, digest in files):
            return _record(step, state, reused=True)
    except (EventformersError, OSError, LookupError, TypeError, AttributeError):
        # A missing or damaged state or file: the step runs again.
        pass
    return None


def _record(step: Step, state: Mapping[str, Any], *, reused: bool = False) -> StepRecord:
    made_of = state["made_of"]
    settings = {**made_of["settings"], **{f"{role} model": made_of["models"][role] for role in step.models}}
    return StepRecord(
        step.name, state["counts"], state["notes"], state["malformed"], settings, state["seconds"], reused
    )
