"""Mutated raw files: each builds, or is refused by the project's own error with its file."""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.robustness.limits import cases, fault_of

from eventformers.datasets_scripts.base import SAMPLES, EventDatasetBuilder
from eventformers.datasets_scripts.building import BUILDERS
from eventformers.datasets_scripts.malformed import MALFORMED_POLICIES, SkippedRows, malformed_parts
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.errors import DataFormatError, EventformersError
from eventformers.extraction.texts import find_text_files, read_texts
from eventformers.inference.chains.next_event import read_events
from eventformers.inference.encoding.event_files import read_event_rows
from eventformers.inference.encoding.mention_files import load_mentions, load_text_mentions
from eventformers.inference.grounding.knowledge_base import load_knowledge_base
from eventformers.trainers.recipes import load_recipe, read_settings

RAW = Path(__file__).parent / "raw"
"""Small raw files in every format that the readers accept, beside the bundled samples."""
SECONDS_OF_A_TRY = 2.0
_ONE_SPLIT = {"validation_share": 0.0, "test_share": 0.0}
_SETTINGS: dict[str, dict[str, object]] = {
    **{config: {**_ONE_SPLIT, "min_chain_length": 3} for config in ("chains", "mcnc", "multistep")},
    **dict.fromkeys(("hierarchy", "sequence"), _ONE_SPLIT),
    "event_hierarchies mentions": {**_ONE_SPLIT, "split_by": "components"},
}
"""Settings by config, with which the few rows of a target are enough."""
_ROW_A_LINE = ("hard", "transitive", "csqa", "conceptnet", "conceptnet_inductive")
_LEFT_OUT = ("blank_line", "triple_labelled_false")
Read = Callable[[Path], Any]


_REPEATED = (
    *("<", "&lt;ex&gt;", "<ex>", "will x ", "why did ", "what kind of person ", " ", "\t", "|", "[[", "]]"),
    *('"', "\\", "{", "(", "a ", "a.", "''", "\u0301", "&amp;", "<!--", "<TUP>", "[W] ", "'s ", "a", "\n"),
)
"""What a pattern may read in quadratic time when it stands many times."""
_XML_BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    b'<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d SYSTEM "file:///etc/passwd">]><a>&c;&d;</a>'
)
_BYTES = (b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\x85", b"\xe2\x80\xa8", b"\x1f", b"\xc3")
_LINES = (b"", b"   ", b"\t", b"null", b"#", b",", b"|", b"[]", b'"', b"not json", _XML_BOMB)
_JSON = (
    *("null", "0", "-1", "1.5", "1e999", "NaN", "-Infinity", "true", "false", '""', '" "', "[]", "{}"),
    *('["A"]', '[["a", 1]]', '{"a": {"b": null}}', '"\\ud800"', '"a\\u0000b"', "1" * 5_000),
    *("[" * 5_000 + "]" * 5_000, '{"a":' * 5_000 + "1" + "}" * 5_000, json.dumps("x" * 100_000)),
)
"""JSON that may stand where another value stood."""
_MARK = "\ue000value\ue000"
_CELLS = ("", " ", "x", "0", "nan", "inf", "-1", "1e999", '"', "'", "\0", "[", "none", "x" * 200_000)
_LOOKALIKES = str.maketrans("aeopcxij", "аеорсхіј")


def change_bytes(data: bytes, random: Random) -> bytes:
    """Replace a slice, which may be empty or all that follows, by odd bytes, or flip a bit of each byte."""
    start = random.randrange(len(data) + 1)
    stop = random.choice((start, start + 1, start + random.randint(1, 40), len(data)))
    flipped = bytes(byte ^ 1 << random.randrange(8) for byte in data[start : min(stop, start + 8)])
    return data[:start] + random.choice((b"", random.choice(_BYTES), flipped)) + data[stop:]


def repeat_text(data: bytes, random: Random) -> bytes:
    start, text = random.randrange(len(data) + 1), random.choice(_REPEATED)
    return data[:start] + (text * (60_000 // len(text))).encode() + data[start:]


def change_encoding(data: bytes, random: Random) -> bytes:
    """Write the text in another encoding, or with other ends of lines."""
    if random.random() < 0.3:
        return data.replace(b"\n", random.choice((b"\r\n", b"\r", b"", b"\n\n")))
    kind = random.choice(("utf-16", "utf-8-sig", "utf-32", "latin-1"))
    return data.decode("utf-8", "replace").encode(kind, "replace")


def change_parts(parts: list[Any], new: tuple[Any, ...], random: Random) -> None:
    """Drop, repeat, swap or replace parts of a list, or insert one."""
    place, other = random.randrange(len(parts)), random.randrange(len(parts))
    one, inserted = parts[place], random.choice((parts[other], random.choice(new)))
    parts[place : place + 1] = random.choice(([], [inserted, one], [one, inserted], [inserted]))
    if random.random() < 0.2 and other < len(parts):
        parts[other], parts[-1] = parts[-1], parts[other]


def change_lines(data: bytes, random: Random) -> bytes:
    parts = data.split(b"\n")
    change_parts(parts, _LINES, random)
    return b"\n".join(parts)


def change_cells(data: bytes, random: Random) -> bytes:
    """Change the cells of a line of a table, or the letters of one cell."""
    parts = data.decode("utf-8", "replace").split("\n")
    place = random.choice((0, random.randrange(len(parts))))
    separator = next((one for one in ("\t", "|", ",", " ") if one in parts[place]), " ")
    row = parts[place].split(separator)
    cell = random.choice(row)
    change_parts(row, (*_CELLS, cell.upper(), cell[:-1], cell.translate(_LOOKALIKES)), random)
    parts[place] = separator.join(row)
    return "\n".join(parts).encode()


def change_json(data: bytes, random: Random) -> bytes:
    """Replace, rename, add or remove something in the JSON of a line."""
    parts = data.split(b"\n")
    place = random.randrange(len(parts))
    try:
        holders = [[json.loads(parts[place])]]
    except (ValueError, RecursionError):
        return change_lines(data, random)
    record = holders[0]
    for holder in holders:
        values = holder.values() if isinstance(holder, dict) else holder
        holders += [value for value in values if isinstance(value, (dict, list)) and value]
    holder = random.choice(holders)
    if isinstance(holder, dict):
        key = random.choice(list(holder))
        value = random.choice((_MARK, holder[key]))
        if random.random() < 0.7:
            del holder[key]
        others = (key.upper(), key.translate(_LOOKALIKES), key[:-1], f"{key}s", f" {key}", "unknown", "id")
        if random.random() < 0.8:
            holder[random.choice((key, random.choice((*others, "text"))))] = value
    elif holder is record:
        record[0] = _MARK
    else:
        change_parts(holder, (_MARK,), random)
    text = json.dumps(record[0], ensure_ascii=False).replace(f'"{_MARK}"', random.choice(_JSON))
    parts[place] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(parts)


MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(change_bytes, change_bytes, repeat_text, change_encoding, change_lines),
    *(change_json, change_json, change_cells, change_cells),
)


def mutate(data: bytes, name: str, random: Random) -> tuple[bytes, str]:
    """A file's content with one to three mutations, and their names.

    What is compressed by its name is changed inside, or as it lies on disk.
    """
    library = {"gz": gzip, "bz2": bz2}.get(name.rpartition(".")[2]) if random.random() < 0.7 else None
    data = data if library is None else library.decompress(data)
    chosen = random.choices(MUTATIONS, k=random.choice((1, 1, 1, 2, 3)))
    for mutation in chosen:
        data = mutation(data, random)
    return data if library is None else library.compress(data), "+".join(one.__name__ for one in chosen)


def build(name: str, config: str, folder: Path) -> int:
    """Build a config in a folder; the number of its rows.

    Raises:
        AssertionError: a line was neither read nor counted as left out.
    """
    settings = _SETTINGS.get(f"{name} {config}", _SETTINGS.get(config, {}))
    builder = BUILDERS[name](config, data_dir=folder, cache_dir=folder.with_name("cache"), **settings)
    rows = sum(
        table.num_rows for split in builder.split_files for _, table in builder._generate_tables(split)
    )
    if config in _ROW_A_LINE:
        assert not lost_lines(builder)
    return rows


def lost_lines(builder: EventDatasetBuilder) -> int:
    lost = 0
    for split, files in builder.split_files.items():
        report = builder.reports[split]
        texts = [path.read_bytes() for path in files]
        lines = sum(text.count(b"\n") + (not text.endswith(b"\n")) for text in texts if text)
        told = [count for name, count in report.read.items() if not name.startswith("duplicate")]
        for name, count in report.skipped.items():
            told += [count] * (name in _LEFT_OUT or name.startswith("malformed_"))
        lost += max(0, lines - sum(told))
    return lost


def extract(folder: Path) -> list[Any]:
    skipped = SkippedRows()
    return list(read_texts(find_text_files(folder, skipped), Counter(), skipped))


EXAMPLES: dict[str, tuple[str | Read, ...]] = {
    "atomic_csv": ("commonsense_graphs atomic",),
    "atomic_2020": ("commonsense_graphs atomic",),
    "cn100k": ("commonsense_graphs conceptnet",),
    "copa_json": ("commonsense_qa copa",),
    "tuples": ("event_chains documents", "event_chains chains"),
    "extracted": ("event_chains documents",),
    "frames_xml": ("event_types frames",),
    "mention_table": ("event_hierarchies mentions", "event_hierarchies hierarchy"),
    "entities": ("event_hierarchies events", "event_hierarchies hierarchy"),
    **dict.fromkeys(
        ("events_jsonl", "events_csv", "events_tsv", "events_txt"),
        (lambda path: list(read_event_rows(path)),),
    ),
    **dict.fromkeys(("candidates_json", "candidates_txt"), (lambda path: read_events(path, "candidates"),)),
    **dict.fromkeys(("mentions_jsonl", "mentions_txt"), (lambda path: load_mentions(path)[0],)),
    **dict.fromkeys(("texts_jsonl", "texts_txt"), (lambda path: load_text_mentions(path)[0],)),
    "newswire": (extract,),
    "templates": (lambda path: relation_templates("conceptnet", path).relations,),
    "recipe": (lambda path: [load_recipe("swcc", str(path))],),
    "settings": (
        lambda path: read_settings(path.read_bytes().decode("utf-8", "surrogateescape").split("\n")),
    ),
}
"""The configs that each example of `raw` is built as, or the function that reads it."""


class Target(NamedTuple):
    """Something that reads raw files: its name, the content of its files by name, and its reader."""

    name: str
    files: Mapping[str, bytes]
    read: Read


def targets() -> list[Target]:
    """Everything that reads raw files, on the samples and on the examples of the other formats."""
    found = []
    for name, builder in BUILDERS.items():
        folder = SAMPLES / builder.SAMPLES_FOLDER
        for config in builder.BUILDER_CONFIGS:
            paths = chain.from_iterable(builder.find_raw_files(config.name, [folder]).values())
            files = {str(path.relative_to(folder)): shortened(path) for path in paths}
            if config.name in ("atomic", "atomic_pairs"):
                # Their samples lie in the folder of the other split of the graph.
                files = {f"ATOMIC/{Path(path).name}": content for path, content in files.items()}
            found.append(Target(f"{name} {config.name}", files, partial(build, name, config.name)))
    for example, readers in EXAMPLES.items():
        paths = [path for path in (RAW / example).rglob("*") if path.is_file()]
        files = {str(path.relative_to(RAW / example)): path.read_bytes() for path in paths}
        for reader in readers:
            if isinstance(reader, str):
                found.append(Target(f"{reader} ({example})", files, partial(build, *reader.split())))
            else:
                place = "" if len(files) > 1 else next(iter(files))
                found.append(Target(example, files, lambda at, read=reader, place=place: read(at / place)))
    names = ("label_dict.jsonl", "wd_item_props.jsonl")
    files = {name: shortened(SAMPLES / "event_hierarchies" / name) for name in names}
    return [*found, Target("knowledge base", files, lambda folder: load_knowledge_base(folder).events)]


def shortened(path: Path) -> bytes:
    """The beginning of a file; XML and events of hierarchies whole, and cloze items up to the end of one."""
    whole = path.suffix in (".xml", ".sgm") or path.name in ("label_dict.jsonl", "wd_item_props.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    kept = lines.index(b"DOC_SEP\n") + 1 if "mcnc" in path.name else len(lines) if whole else 10
    return b"".join(lines[:kept])


def write(files: Mapping[str, bytes], folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def try_mutated(target: Target, number: int, folder: Path) -> str:
    """What is wrong with the end of a try, with the case that repeats it; empty where nothing is."""
    random = Random(f"16/{target.name}/{number}")  # noqa: S311, no secret
    name = random.choice(sorted(target.files))
    content, how = mutate(target.files[name], name, random)
    write({**target.files, name: content}, folder)
    policy = MALFORMED_POLICIES[number % 2]
    with warnings.catch_warnings(), malformed_parts(policy):
        warnings.simplefilter("ignore")
        fault = fault_of(lambda: target.read(folder), SECONDS_OF_A_TRY)
    return fault and f"case {number} ({name}, {how}, {policy}): {fault}"


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_mutated_files_are_read_or_refused(target: Target, tmp_path: Path) -> None:
    for policy in MALFORMED_POLICIES:
        with malformed_parts(policy):
            rows = target.read(write(target.files, tmp_path / "raw"))
        assert rows if isinstance(rows, int) else len(rows)
    assert [
        fault for number in range(cases(6)) if (fault := try_mutated(target, number, tmp_path / "raw"))
    ] == []


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (TypeError("unhashable type"), "TypeError: unhashable type"),
        (EventformersError("x" * 5_000), "a message of 5000 characters"),
        (EventformersError("half of \ud800"), "a message of 9 characters"),
        (EventformersError("two\nlines"), "a message of 9 characters"),
        (DataFormatError("a.txt", None, "", "b"), "no reason"),
        (None, "HangError: more than 0.2 s"),
    ],
)
def test_a_fault_is_found(error: Exception | None, fault: str, tmp_path: Path) -> None:
    def read() -> None:
        while error is None:
            shutil.disk_usage(tmp_path)
        raise error

    assert fault in fault_of(read, 0.2)


def test_a_lost_line_is_found(tmp_path: Path) -> None:
    (target,) = (target for target in targets() if target.name == "event_similarity hard")
    builder = BUILDERS["event_similarity"](
        "hard", data_dir=write(target.files, tmp_path / "raw"), cache_dir=tmp_path / "cache"
    )
    for split in builder.split_files:
        list(builder._generate_tables(split))
    assert lost_lines(builder) == 0
    builder.reports["test"].read.popitem()
    assert lost_lines(builder) > 0
