"""Frames with their definitions and from which frames they inherit: FrameNet's XML folder, and JSON lines."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import read_json_values, text_field
from eventformers.datasets_scripts.xml_files import XmlElement, children, elements, read_xml
from eventformers.errors import DataFormatError

FRAME_FOLDER = "frame"
RELATIONS_FILE = "frRelation.xml"

ACCEPTED_FRAME = 'one JSON object a line with "name", "definition" and a list "parents" of names'

_EXAMPLE = re.compile(r"<ex>.*?</ex>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


class Frame(NamedTuple):
    """A frame and the frames that it inherits from.

    Args:
        frame_id: its number in FrameNet, else its name.
        name: no other frame has it.
        definition: what the frame is about, without markup and examples.
        parents: names of the frames that it inherits from directly, in the order of the raw file.
    """

    frame_id: str
    name: str
    definition: str
    parents: list[str]


def frame_files(folder: Path) -> list[Path]:
    """The files of FrameNet in its folder, or in the folder `frame` of it: the relations where they are
    there, then the frames by name."""
    root = folder.parent if folder.name == FRAME_FOLDER else folder
    frames = sorted((root / FRAME_FOLDER).glob("*.xml"))
    relations = root / RELATIONS_FILE
    return [*([relations] if frames and relations.is_file() else []), *frames]


def read_frames(paths: Iterable[Path], skipped: SkippedRows) -> Iterator[Frame]:
    """The frames of files as `frame_files` finds them, or of `.jsonl` files.

    Parents are those of `frRelation.xml` where it is among the files, else those of the frames' own files.

    Args:
        paths: the files.
        skipped: gets the number of blank lines.

    Raises:
        DataFormatError: a file cannot be read, or a frame stands there twice; with file and line.
    """
    known: dict[str, str] = {}
    parents: dict[str, list[str]] | None = None
    for path in paths:
        if path.name == RELATIONS_FILE:
            parents = _inheritance(path)
            continue
        if path.suffix == ".xml":
            found = iter([_frame_of_xml(path, parents)])
        else:
            found = _frames_of_json(path, skipped)
        for line, frame in found:
            if frame.name in known:
                raise DataFormatError(
                    path, line, f"the frame {frame.name} again, after {known[frame.name]}", "each frame once"
                )
            known[frame.name] = path.name
            yield frame


def frame_descendants(frames: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """The frames that inherit from each frame, directly and through others, by its name.

    Args:
        frames: rows of `EventTypes`, config `frames`: `name` and `parents` of each.

    Returns:
        A set for every name, that of a parent without a row included; no frame is in its own.
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
    return " ".join(html.unescape(_TAG.sub("", _EXAMPLE.sub(" ", markup))).split())


def _frame_of_xml(path: Path, parents: Mapping[str, list[str]] | None) -> tuple[int, Frame]:
    root = read_xml(path)
    name = root.get("name", "")
    if root.tag != "frame" or not name:
        raise DataFormatError(path, root.line, f"<{root.tag}> without a frame", '<frame name="…" ID="…">')
    definition = next((item.text or "" for item in children(root, "definition")), "")
    own = [
        (related.text or "").strip()
        for relation in children(root, "frameRelation")
        if relation.get("type") == "Inherits from"
        for related in children(relation, "relatedFrame")
    ]
    inherited = own if parents is None else parents.get(name, [])
    return root.line, Frame(root.get("ID", name), name, plain_definition(definition), inherited)


def _inheritance(path: Path) -> dict[str, list[str]]:
    """The parents of each frame by `frRelation.xml`."""
    parents: dict[str, list[str]] = defaultdict(list)
    for kind in elements(read_xml(path), "frameRelationType"):
        if kind.get("name") == "Inheritance":
            for relation in children(kind, "frameRelation"):
                parents[_attribute(relation, "subFrameName", path)].append(
                    _attribute(relation, "superFrameName", path)
                )
    return parents


def _attribute(element: XmlElement, name: str, path: Path) -> str:
    value = element.get(name)
    if not value:
        raise DataFormatError(path, element.line, f"<{element.tag}> without {name}", f'{name}="…"')
    return value


def _frames_of_json(path: Path, skipped: SkippedRows) -> Iterator[tuple[int, Frame]]:
    for line, record in read_json_values(path, skipped, ACCEPTED_FRAME):
        name = text_field(record, "name", path, line).strip() if isinstance(record, dict) else ""
        if not name:
            raise DataFormatError(path, line, "a line without the name of a frame", ACCEPTED_FRAME)
        parents = record.get("parents") or []
        if not isinstance(parents, list) or not all(isinstance(parent, str) for parent in parents):
            raise DataFormatError(path, line, f"the parents {parents!r} of {name}", "a list of names")
        definition = " ".join(text_field(record, "definition", path, line).split())
        identifier = text_field(record, "frame_id", path, line) or text_field(record, "id", path, line)
        yield line, Frame(identifier or name, name, definition, parents)
