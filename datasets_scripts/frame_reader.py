"""Reader of frames with definitions, examples and parent frames: FrameNet's XML folder, and JSON lines."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import Record
from eventformers.datasets_scripts.reading.markup import (
    XmlElement,
    attribute,
    check_children,
    children,
    elements,
    read_xml,
    replace_marked,
)
from eventformers.datasets_scripts.reading.tables import columns_of, ignored_keys, read_records
from eventformers.errors import DataFormatError, shown

FRAME_FOLDER = "frame"
RELATIONS_FILE = "frRelation.xml"

ACCEPTED_FRAME = 'one JSON object a line with "name", "definition" and a list "parents" of names'

FRAME_COLUMNS = columns_of("frames")
"""Columns of a table of frames, and keys of JSON lines."""
# The elements that the schema of FrameNet 1.7, frame.xsd, allows in a frame.
_FRAME_PARTS = frozenset({"definition", "semType", "FE", "FEcoreSet", "frameRelation", "lexUnit"})

_EXAMPLE = re.compile(r"<ex>.*?</ex>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


class Frame(NamedTuple):
    """A frame and the frames that it inherits from.

    Args:
        frame_id: its number in FrameNet, else its name.
        definition: its definition, without markup and examples.
        parents: names of the frames from which it inherits directly, in the order of the raw file.
        examples: the example sentences of its definition, without markup.
    """

    frame_id: str
    name: str
    definition: str
    parents: list[str]
    examples: list[str]


def frame_files(folder: Path) -> list[Path]:
    """The files of FrameNet in its folder, or in the subfolder `frame`: the relations if they exist, then the
    frames by name."""
    root = folder.parent if folder.name == FRAME_FOLDER else folder
    frames = sorted((root / FRAME_FOLDER).glob("*.xml"))
    relations = root / RELATIONS_FILE
    return [*([relations] if frames and relations.is_file() else []), *frames]


def read_frames(paths: Iterable[Path], skipped: SkippedRows) -> Iterator[Frame]:
    """Read the frames of files found by `frame_files`, or of `.jsonl` files and tables.

    Parents come from `frRelation.xml` if it is among the files, else from the frames' own files. JSON lines
    have `"name"`, `"definition"`, `"parents"`, `"examples"` and `"frame_id"` or `"id"`. Another key is
    an error if it may be a misspelt one that is missing.

    Args:
        skipped: count of blank lines, and policy for malformed rows and, in XML, for malformed frame files
            and relations.

    Raises:
        DataFormatError: a file cannot be read, or a frame occurs twice; names file and line.
    """
    known: dict[str, str] = {}
    parents: dict[str, list[str]] | None = None

    def checked(frame: Frame, path: Path, line: int) -> Frame:
        if frame.name in known:
            again = f"the frame {shown(frame.name)} again, after {known[frame.name]}"
            raise DataFormatError(path, line, again, "each frame once")
        known[frame.name] = path.name
        return frame

    def of_xml(path: Path) -> Frame:
        root = read_xml(path)
        name = root.get("name", "")
        if root.tag != "frame" or not name:
            raise DataFormatError(path, root.line, f"<{root.tag}> without a frame", '<frame name="…" ID="…">')
        check_children(root, _FRAME_PARTS, path)
        definition, examples = "", []
        for element in children(root, "definition")[:1]:
            markup = element.text or ""
            try:
                definition, examples = plain_definition(markup), plain_examples(markup)
            except ValueError as error:
                found = f"a reference to no character ({error})"
                raise DataFormatError(path, element.line, found, "a definition") from error
        own = []
        for relation in children(root, "frameRelation"):
            if relation.get("type") == "Inherits from":
                for element in children(relation, "relatedFrame"):
                    own.append((element.text or "").strip())
                    if not own[-1]:
                        found = "<relatedFrame> without a name"
                        raise DataFormatError(path, element.line, found, "the name of a frame")
        inherited = own if parents is None else parents.get(name, [])
        return checked(Frame(root.get("ID", name), name, definition, inherited, examples), path, root.line)

    def of_record(record: Record) -> Frame:
        name = record.text("name").strip()
        if not name:
            raise record.fault("a line without the name of a frame", ACCEPTED_FRAME)
        frame = Frame(
            frame_id=record.text("frame_id", "id") or name,
            name=name,
            definition=" ".join(record.text("definition").split()),
            parents=record.texts("parents", "a list of names", f" of {shown(name)}"),
            examples=record.texts("examples", "a list of sentences", f" of {shown(name)}"),
        )
        return checked(frame, record.path, record.line)

    for path in paths:
        if path.name == RELATIONS_FILE:
            parents = _inheritance(path, skipped)
        elif path.suffix == ".xml":
            yield from skipped.parsed([path], of_xml, "document")
        else:
            ignored = ignored_keys("frames")
            yield from read_records(path, skipped, FRAME_COLUMNS, ACCEPTED_FRAME, of_record, ignored=ignored)


def frame_descendants(frames: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Compute the frames that inherit from each frame, directly or not, by its name.

    Args:
        frames: rows of `EventTypes`, config `frames`: `name` and `parents` of each.

    Returns:
        A set for every name, also for a parent without a row; no frame is in its own set.
    """
    below: dict[str, list[str]] = defaultdict(list)
    names: dict[str, None] = {}
    for frame in frames:
        name: str = frame["name"]
        names[name] = None
        for parent in frame["parents"]:
            names[parent] = None
            below[parent].append(name)
    descendants = {}
    for name in names:
        found: set[str] = set()
        waiting = list(below[name])
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += below[one]
        descendants[name] = found - {name}
    return descendants


def plain_definition(markup: str) -> str:
    """A definition of FrameNet without its examples and its markup."""
    return _plain(replace_marked(_EXAMPLE, "</ex>", " ", markup))


def plain_examples(markup: str) -> list[str]:
    """The example sentences of a definition of FrameNet, without markup."""
    marked = markup.rpartition("</ex>")
    found = (_plain(example) for example in _EXAMPLE.findall(marked[0] + marked[1]))
    return [example for example in found if example]


def _plain(markup: str) -> str:
    return " ".join(html.unescape(replace_marked(_TAG, ">", "", markup)).split())


def _inheritance(path: Path, skipped: SkippedRows) -> dict[str, list[str]]:
    """The parents of each frame, from `frRelation.xml`."""

    def names(relation: XmlElement) -> list[str]:
        return [attribute(relation, name, path, f'{name}="…"') for name in ("subFrameName", "superFrameName")]

    parents: dict[str, list[str]] = defaultdict(list)
    for kind in elements(read_xml(path), "frameRelationType"):
        if kind.get("name") == "Inheritance":
            for child, parent in skipped.parsed(children(kind, "frameRelation"), names):
                parents[child].append(parent)
    return parents
