"""Mutated raw files: each builds, or is refused by the project's own error with its file."""

from __future__ import annotations

import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from tests.robustness.limits import HangError, cases, time_limit
from tests.robustness.mutations import mutate
from tests.robustness.raw_examples import EXAMPLES

from eventformers.datasets_scripts.base import SAMPLES, EventDatasetBuilder
from eventformers.datasets_scripts.building import BUILDERS
from eventformers.datasets_scripts.malformed import MALFORMED_POLICIES, SkippedRows, malformed_parts
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.errors import DataFormatError, EventformersError
from eventformers.extraction.texts import find_text_files, read_texts
from eventformers.inference.chains.next_event import read_events
from eventformers.inference.encoding.event_files import read_event_rows
from eventformers.inference.grounding.knowledge_base import load_knowledge_base
from eventformers.inference.grounding.mention_files import load_text_mentions
from eventformers.inference.induction.mention_files import load_mentions
from eventformers.trainers.recipes import load_recipe, read_settings

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
_KEPT_LINES = 10
_ONE_SPLIT = {"validation_share": 0.0, "test_share": 0.0}
_SETTINGS: dict[str, dict[str, object]] = {
    **{config: {**_ONE_SPLIT, "min_chain_length": 3} for config in ("chains", "mcnc", "multistep")},
    **{config: {**_ONE_SPLIT} for config in ("hierarchy", "sequence")},
}
"""Settings by config, with which the few rows of a target are enough."""


@dataclass(frozen=True)
class Target:
    """Something that reads raw files.

    Attributes:
        name: the row of the table.
        files: the content of its files by their names.
        read: reads a folder that holds them, under a policy for malformed parts; the number of rows, and how
            many rows are not accounted for.
    """

    name: str
    files: Mapping[str, bytes]
    read: Callable[[Path, str], tuple[int, int]]


def try_target(target: Target, cases: int, seed: int) -> list[str]:
    """What neither built nor was refused, with the case that repeats it."""
    findings = []
    folder = Path(tempfile.mkdtemp(prefix="robustness-"))
    try:
        for number in range(cases):
            shutil.rmtree(folder)
            name, how = _write_mutated(target, folder, Random(f"{seed}/{target.name}/{number}"))  # noqa: S311
            policy = ("error", "skip")[number % 2]
            outcome = _outcome(target, folder, policy)
            if outcome:
                findings.append(f"case {number} ({name}, {how}, {policy}): {outcome}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return findings


def _write_mutated(target: Target, folder: Path, random: Random) -> tuple[str, str]:
    chosen = random.choice(sorted(target.files))
    how = ""
    for name, content in target.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == chosen:
            content, how = mutate(content, name, random)
        path.write_bytes(content)
    return chosen, how


def _outcome(target: Target, folder: Path, policy: str) -> str:
    """What was found; empty where the target is built or refused."""
    try:
        with time_limit(), warnings.catch_warnings(), malformed_parts(policy):
            warnings.simplefilter("ignore")
            rows, lost = target.read(folder, policy)
    except DataFormatError as error:
        reason = "" if error.found and error.accepted else f"no reason: {error}"
        return _fault_of(str(error)) or reason
    except EventformersError as error:
        return _fault_of(str(error))
    except HangError as error:
        return f"hang: {error} at {_place(error)}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]} at {_place(error)}"
    if lost:
        return f"{lost} of the lines are neither among {rows} rows nor counted"
    return ""


def _fault_of(message: str) -> str:
    """What is wrong with the message of a clean error; empty where nothing is."""
    try:
        message.encode("utf-8")
    except UnicodeEncodeError:
        return "a message that cannot be printed"
    return f"a message of {len(message)} characters: {message[:80]}" if len(message) > 3_000 else ""


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if "robustness" not in frame.filename and "site-packages" not in frame.filename
    ]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


@cache
def targets() -> tuple[Target, ...]:
    """Everything that reads raw files, on samples, on examples of the other formats, and on public files."""
    found = [*_sample_targets(), *_example_targets()]
    if SHARED.is_dir():
        found += _public_targets()
    return tuple(found)


def _sample_targets() -> Iterator[Target]:
    for name, builder in BUILDERS.items():
        folder = SAMPLES / builder.SAMPLES_FOLDER
        for config in builder.BUILDER_CONFIGS:
            by_split = builder.find_raw_files(config.name, [folder])
            files = {
                str(path.relative_to(folder)): _shortened(path)
                for paths in by_split.values()
                for path in paths
            }
            if config.name in ("atomic", "atomic_pairs"):
                # Their samples lie in the folder of the other split of the graph.
                files = {f"ATOMIC/{Path(name).name}": content for name, content in files.items()}
            yield Target(f"{name} {config.name}", files, partial(_build, builder, config.name))


def _example_targets() -> Iterator[Target]:
    def built(example: str, builder: str, config: str) -> Target:
        return Target(
            f"{builder} {config} ({example})", EXAMPLES[example], partial(_build, BUILDERS[builder], config)
        )

    yield built("atomic_csv", "commonsense_graphs", "atomic")
    yield built("atomic_2020", "commonsense_graphs", "atomic")
    yield built("cn100k", "commonsense_graphs", "conceptnet")
    yield built("copa_json", "commonsense_qa", "copa")
    yield built("tuples", "event_chains", "documents")
    yield built("tuples", "event_chains", "chains")
    yield built("extracted", "event_chains", "documents")
    yield built("frames_xml", "event_types", "frames")
    yield built("mention_table", "event_hierarchies", "mentions")
    yield built("mention_table", "event_hierarchies", "hierarchy")
    yield built("entities", "event_hierarchies", "events")
    yield built("entities", "event_hierarchies", "hierarchy")
    for example in ("events_jsonl", "events_csv", "events_tsv", "events_txt"):
        yield Target(
            f"embed ({example})", EXAMPLES[example], _one_file(lambda path: list(read_event_rows(path)))
        )
    for example in ("candidates_json", "candidates_txt"):
        yield Target(
            f"next-event ({example})",
            EXAMPLES[example],
            _one_file(lambda path: read_events(path, "candidates")),
        )
    for example in ("mentions_jsonl", "mentions_txt"):
        yield Target(f"induce ({example})", EXAMPLES[example], _one_file(lambda path: load_mentions(path)[0]))
    for example in ("texts_jsonl", "texts_txt"):
        yield Target(
            f"ground ({example})", EXAMPLES[example], _one_file(lambda path: load_text_mentions(path)[0])
        )
    yield Target("extract (newswire)", EXAMPLES["newswire"], _extract)
    yield Target(
        "templates of relations",
        EXAMPLES["templates"],
        _one_file(lambda path: relation_templates("conceptnet", path).relations),
    )
    yield Target("a recipe", EXAMPLES["recipe"], _one_file(lambda path: [load_recipe("swcc", str(path))]))
    yield Target("--set", EXAMPLES["settings"], _one_file(_settings))
    texts = {"label_dict.jsonl", "wd_item_props.jsonl"}
    yield Target(
        "knowledge base",
        {name: _shortened(SAMPLES / "event_hierarchies" / name) for name in texts},
        lambda folder, policy: (len(load_knowledge_base(folder).events), 0),
    )


def _public_targets() -> Iterator[Target]:
    for builder, config, names in (
        ("event_chains", "coherent_mcnc", ("mcnc/cmcnc_dev.txt",)),
        ("event_chains", "variable_mcnc", ("mcnc/mcnc_dev.txt",)),
        ("event_similarity", "transitive", ("similarity/transitive.txt",)),
        ("event_types", "mentions", ("event_types/fewevent.jsonl",)),
        ("event_types", "frames", ("framenet/frames.jsonl",)),
        ("commonsense_qa", "csqa", ("cqa/CSQA/dev_rand_split.jsonl",)),
        (
            "event_hierarchies",
            "mentions",
            ("hierarchy/wikidata_real/dev.jsonl", "hierarchy/wikidata_real/label_dict.jsonl"),
        ),
        (
            "event_hierarchies",
            "hierarchy",
            ("hierarchy/wikidata_real/hierarchy.jsonl", "hierarchy/wikidata_real/label_dict.jsonl"),
        ),
    ):
        files = {Path(name).name: _shortened(SHARED / name) for name in names}
        yield Target(f"{builder} {config} (public)", files, partial(_build, BUILDERS[builder], config))


def _shortened(path: Path) -> bytes:
    """The beginning of a file; XML and events of hierarchies whole, cloze items up to the end of one."""
    if path.suffix in (".xml", ".sgm") or path.name in ("label_dict.jsonl", "wd_item_props.jsonl"):
        return path.read_bytes()
    with path.open("rb") as stream:
        lines = list(islice(stream, 200))
    if "mcnc" in path.name:
        ends = [place for place, line in enumerate(lines) if line.strip() == b"DOC_SEP"][:3]
        return b"".join(lines[: ends[-1] + 1])
    return b"".join(lines[:_KEPT_LINES])


def _build(
    builder_class: type[EventDatasetBuilder], config: str, folder: Path, policy: str
) -> tuple[int, int]:
    """The rows of a config; 0 rows lost where a row is not a line."""
    with tempfile.TemporaryDirectory(prefix="robustness-") as cache:
        settings = dict(_SETTINGS.get(config, {}))
        if builder_class.NAME == "event_hierarchies" and config == "mentions":
            settings = {**_ONE_SPLIT, "split_by": "components"}
        builder = builder_class(config, data_dir=folder, cache_dir=cache, **settings)
        rows = 0
        for split in builder.split_files:
            rows += sum(table.num_rows for _, table in builder._generate_tables(split))
    return rows, _lost_lines(builder) if _has_row_a_line(builder) else 0


def _has_row_a_line(builder: EventDatasetBuilder) -> bool:
    return builder.NAME == "event_similarity" or builder.config.name in (
        "csqa",
        "conceptnet",
        "conceptnet_inductive",
    )


def _lost_lines(builder: EventDatasetBuilder) -> int:
    """Lines that were neither read nor counted as left out."""
    lost = 0
    for split, files in builder.split_files.items():
        report = builder.reports[split]
        lines = sum(len([line for line in path.read_bytes().split(b"\n")[:-1]]) for path in files)
        last = sum(bool(path.read_bytes().rpartition(b"\n")[2]) for path in files)
        kept = sum(count for name, count in report.read.items() if not name.startswith("duplicate"))
        left_out = report.skipped["blank_line"] + report.skipped["triple_labelled_false"]
        left_out += sum(count for name, count in report.skipped.items() if name.startswith("malformed_"))
        lost += max(0, lines + last - kept - left_out)
    return lost


def _one_file(read: Callable[[Path], object]) -> Callable[[Path, str], tuple[int, int]]:
    def read_folder(folder: Path, policy: str) -> tuple[int, int]:
        (path,) = (path for path in folder.rglob("*") if path.is_file())
        found = read(path)
        return len(found) if hasattr(found, "__len__") else 1, 0

    return read_folder


def _extract(folder: Path, policy: str) -> tuple[int, int]:
    from collections import Counter

    skipped = SkippedRows(policy)
    files = find_text_files(folder, skipped)
    return len(list(read_texts(files, Counter(), skipped))), 0


def _settings(path: Path) -> dict[str, object]:
    return read_settings(path.read_bytes().decode("utf-8", "surrogateescape").split("\n"))


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_the_unchanged_files_are_read(target: Target, tmp_path: Path) -> None:
    for name, content in target.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for policy in MALFORMED_POLICIES:
        rows, lost = target.read(tmp_path, policy)
        assert rows > 0
        assert lost == 0


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_mutated_files_are_read_or_refused(target: Target) -> None:
    assert try_target(target, cases(6), seed=16) == []


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (TypeError("unhashable type"), "TypeError: unhashable type"),
        (EventformersError("x" * 5_000), "a message of 5000 characters"),
        (EventformersError("half of \ud800"), "a message that cannot be printed"),
        (None, "2 of the lines are neither among 3 rows nor counted"),
    ],
)
def test_a_fault_is_found(fault: Exception | None, finding: str) -> None:
    def read(folder: Path, policy: str) -> tuple[int, int]:
        if fault is not None:
            raise fault
        return 3, 2

    findings = try_target(Target("broken", {"a.txt": b"a\nb\n"}, read), 3, seed=1)
    assert len(findings) == 3
    assert finding in findings[0]


def test_a_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(folder: Path, policy: str) -> tuple[int, int]:
        while True:
            shutil.disk_usage(folder)

    monkeypatch.setitem(globals(), "time_limit", partial(time_limit, 0.2))
    (found,) = try_target(Target("slow", {"a.txt": b"a"}, read), 1, seed=1)
    assert "hang: more than 0.2 s" in found
