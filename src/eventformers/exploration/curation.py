"""Edits of one's own: types, actors and stories that are renamed, merged, split or dropped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.reading.lines import parse_yaml, read_regular_text
from eventformers.errors import DataFormatError, EventformersError, shown

_FIELDS = {"rename": ("to",), "merge": (), "drop": (), "split": ("words", "to")}
KINDS = {
    "types": ("rename", "merge", "drop", "split"),
    "actors": ("rename", "merge", "drop"),
    "stories": ("rename", "merge", "drop"),
}
"""What can be edited, and how."""

FIRST_SPLIT = 1_000
"""Id of the first type that is split from another."""


class Edit(NamedTuple):
    """An edit of a type, an actor or a story, or of several.

    Attributes:
        action: `rename`, `merge`, `drop` or `split`.
        of: what is edited: names of types, ids of actors or stories; those merged become the first.
        to: the new name; "" for other actions.
        words: lemmas of the events that are split off.
        place: where it is, for errors.
    """

    action: str
    of: tuple[str, ...]
    to: str
    words: tuple[str, ...]
    place: str


def read_curation(path: str | Path) -> dict[str, list[Edit]]:
    """Read the edits of a file of YAML, by kind: a list each for `types`, `actors` and `stories`.

    Raises:
        DataFormatError: the file is not YAML, has a key twice, or an edit is malformed.
        EventformersError: there is no such file.
    """
    path = Path(path).expanduser()
    accepted = "edits in YAML"
    content = parse_yaml(read_regular_text(path, accepted), path, accepted)
    kinds = {} if content is None else content
    if not isinstance(kinds, dict) or not kinds.keys() <= KINDS.keys():
        found = shown(kinds if not isinstance(kinds, dict) else min(kinds.keys() - KINDS.keys(), key=str))
        raise DataFormatError(path, None, f"{found} at the top", f"lists of edits of {', '.join(KINDS)}")
    edits = {}
    for kind in KINDS:
        rows = kinds.get(kind) or []
        if not isinstance(rows, list):
            raise DataFormatError(path, None, f"{kind}: {shown(rows)}", "a list of edits")
        edits[kind] = [_edit(row, kind, path, number) for number, row in enumerate(rows, start=1)]
    return edits


def _edit(row: object, kind: str, path: Path, number: int) -> Edit:
    place = f"{kind}, edit {number}"
    accepted = f"one of {', '.join(KINDS[kind])}"

    def fault(found: str, accepted: str) -> DataFormatError:
        return DataFormatError(path, None, f"{place}: {found}", accepted)

    if not isinstance(row, dict) or not row:
        raise fault(shown(row), accepted)
    actions = [key for key in row if key in KINDS[kind]]
    if len(actions) != 1:
        raise fault(f"the keys {', '.join(map(str, row))}", accepted)
    action = actions[0]
    if row.keys() - {action} != {*_FIELDS[action]}:
        keys = ", ".join((action, *_FIELDS[action]))
        raise fault(f"the keys {', '.join(map(str, row))}", f"{keys} together")
    of = row[action] if action == "merge" else [row[action]]
    texts = {action: of, "to": [row.get("to", "to")], "words": row.get("words", ["word"])}
    for key, values in texts.items():
        is_list = isinstance(values, list) and values != []
        if not (is_list and all(isinstance(one, str) and one.strip() for one in values)):
            raise fault(f"{key}: {shown(row[key])}", "a text, or a list of texts for merge and words")
        if re.search(r"[\ud800-\udfff]", "".join(values)):
            raise fault(
                f"{key}: half of a surrogate pair", "whole characters; YAML does not join escaped halves"
            )
    if action == "merge" and len(set(of)) < max(2, len(of)):
        raise fault(f"merge: {shown(of)}", "two or more different ones")
    words = tuple(word.lower() for word in row.get("words", ()))
    return Edit(action, tuple(of), str(row.get("to", "")), words, f"{path}: {place}")


class Curated(NamedTuple):
    """What edits make of groups.

    Attributes:
        labels: the group of each member, `(n,)`.
        references: the groups that are left, by what they are called in edits.
        names: the names that edits give, by group.
        origins: the groups that were split, by those that are split from them.
        notes: edits that change nothing.
    """

    labels: NDArray[Any]
    references: dict[str, Any]
    names: dict[Any, str]
    origins: dict[Any, Any]
    notes: list[str]


def curate(
    edits: Sequence[Edit],
    labels: NDArray[Any],
    references: Mapping[str, Any],
    none: object,
    lemmas: Sequence[str] | None = None,
) -> Curated:
    """Apply edits to groups, each to what those before it have left.

    Args:
        labels: the group of each member, `(n,)`.
        references: the groups by what they are called in edits: names of types, ids of actors and stories.
        none: the group of what is dropped.
        lemmas: the lemma of each member, for types, `(n,)`. They are called by their names, so a new name
            replaces the old one. None for groups that are called by their ids.

    Raises:
        EventformersError: an edit has a type that does not exist, or a name that another type has. Actors and
            stories may be those of other texts.
    """
    labels, references = labels.copy(), dict(references)
    found = Curated(labels, references, {}, {}, [])
    for edit in edits:
        missing = [one for one in edit.of if one not in references]
        if missing and lemmas is not None:
            raise EventformersError(
                f"{edit.place}: no type {shown(missing[0])}; accepted: {', '.join(map(shown, references))}"
            )
        if missing:
            found.notes.append(f"{edit.place}: {', '.join(missing)}: not in these texts.")
        known = [one for one in edit.of if one in references]
        if not known:
            continue
        if lemmas is not None and edit.to in references and edit.to != known[0]:
            raise EventformersError(f"{edit.place}: another type is called {edit.to}; accepted: another name")
        group, inside = references[known[0]], np.isin(labels, [references[one] for one in known])
        if edit.action == "rename":
            found.names[group] = edit.to
            if lemmas is not None:
                references[edit.to] = references.pop(known[0])
        elif edit.action == "split":
            new = FIRST_SPLIT + len(found.origins)
            splits = inside & np.isin(np.char.lower(np.asarray(lemmas, str)), edit.words)
            if not splits.any():
                found.notes.append(
                    f"{edit.place}: no event of {known[0]} has the words {', '.join(edit.words)}."
                )
            labels[splits] = new
            references[edit.to], found.names[new], found.origins[new] = new, edit.to, group
        else:
            labels[inside] = group if edit.action == "merge" else none
            for one in known[edit.action == "merge" :]:
                del references[one]
    return found
