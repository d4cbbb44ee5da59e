"""Lists of event types of one's own: a name, a definition and examples of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.tables import csv_file_rows
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import unit_vectors
from eventformers.inference.induction.induce import usual_trigger_input
from eventformers.inference.induction.mention_encoding import encode_labels, encode_mentions

PACKAGED = {"political": Path(__file__).with_name("political.csv")}
"""Lists that come with the package, by name."""

FAMILIES = Path(__file__).with_name("families.csv")
"""The families of types: about a dozen, with examples that are words."""

_COLUMNS = ("name", "definition", "examples", "family")
_TRIGGER = re.compile(r"\[([^][]+)\]")


class ListedType(NamedTuple):
    """An event type of a list.

    Attributes:
        definition: what its events are; "" if unknown.
        examples: texts with an event of this type, with its trigger in brackets ("Police [arrested] three
            men"), or words.
        family: the family that it belongs to; "" if the list has none.
    """

    name: str
    definition: str
    examples: tuple[str, ...]
    family: str


def type_list_file(data: str | Path) -> Path:
    """Return the file of a list, which may be the name of one of `PACKAGED`, or raise an error if there is
    none."""
    path = PACKAGED.get(str(data), Path(data).expanduser())
    if not path.is_file():
        raise EventformersError(f"{path}: no such file; accepted: a CSV file, or {', '.join(PACKAGED)}")
    return path


def read_type_list(data: str | Path) -> list[ListedType]:
    """Read a list of types: columns `name`, and `definition`, `examples` separated by `|`, `family`, if any.

    Args:
        data: a CSV or tab-separated file, or the name of a list of `PACKAGED`.

    Raises:
        DataFormatError: the file is malformed, or a name is empty or occurs twice.
        EventformersError: there is no such file.
    """

    def header(names: Collection[str], path: Path) -> Collection[str]:
        if unknown := sorted(set(names) - set(_COLUMNS)):
            raise DataFormatError(path, 1, f"the column {shown(unknown[0])}", ", ".join(_COLUMNS))
        if "name" not in names:
            raise DataFormatError(path, 1, "no column name", ", ".join(_COLUMNS))
        return _COLUMNS

    path = type_list_file(data)
    found: dict[str, ListedType] = {}
    for line, row in csv_file_rows(path, SkippedRows(), header, row="type"):
        name, definition, family = (
            " ".join(str(row.get(column, "")).split()) for column in ("name", "definition", "family")
        )
        if not name or name in found:
            fault = f"the name {shown(name)} again" if name else "a type without a name"
            raise DataFormatError(path, line, fault, "a name of its own for each type")
        examples = tuple(filter(None, map(str.strip, str(row.get("examples", "")).split("|"))))
        for example in examples:
            triggers = _TRIGGER.findall(example)
            if len(triggers) > 1 or (triggers and not triggers[0].strip()):
                count = "several triggers" if len(triggers) > 1 else "an empty trigger"
                raise DataFormatError(
                    path, line, f"{count} in {shown(example)}", "one in brackets in each example"
                )
        found[name] = ListedType(name, definition, examples, family)
    return list(found.values())


def type_vectors(
    types: Sequence[ListedType], encoder: EventEncoder, batch_size: int | Literal["auto"] = "auto"
) -> NDArray[np.float32]:
    """Encode types as means of their examples and of their label, which counts as one more example.

    The label is the mean of the name and of the name with the definition. An example is read as mentions are;
    one without a trigger in brackets is read as a whole.

    Returns:
        `(types, d)`, at length 1.
    """
    names = [one.name for one in types]
    labels = [f"{one.name}: {one.definition}" if one.definition else one.name for one in types]
    vectors = unit_vectors(encode_labels(encoder, names + labels, batch_size=batch_size), names + labels)
    sums = unit_vectors(vectors[: len(names)] + vectors[len(names) :], names)
    of_type = [number for number, one in enumerate(types) for _ in one.examples]
    examples = [example for one in types for example in one.examples]
    vectors = np.empty((len(examples), encoder.dimension), np.float32)
    triggers = [_TRIGGER.search(example) for example in examples]
    marked = np.array([trigger is not None for trigger in triggers], dtype=bool)
    if (~marked).any():
        words = [examples[number] for number in np.flatnonzero(~marked)]
        vectors[~marked] = encode_labels(encoder, words, batch_size=batch_size)
    if marked.any():
        mentions = [
            {
                "text": _TRIGGER.sub(r"\1", example),
                "trigger_start": trigger.start(),
                "trigger_end": trigger.end() - 2,
            }
            for example, trigger in zip(examples, triggers, strict=True)
            if trigger is not None
        ]
        reading = usual_trigger_input(encoder, mentions)
        vectors[marked] = encode_mentions(
            encoder, mentions, trigger_input=reading, batch_size=batch_size
        ).embeddings
    np.add.at(sums, np.array(of_type, dtype=np.int64), unit_vectors(vectors, examples))
    return unit_vectors(sums, names).astype(np.float32)
