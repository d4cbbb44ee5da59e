"""Lists of event types: their files, and vectors by label and examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eventformers.errors import DataFormatError, EventformersError
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.inference.induction.type_list import (
    FAMILIES,
    PACKAGED,
    ListedType,
    read_type_list,
    type_vectors,
)


def read(folder: Path, text: str) -> list[ListedType]:
    path = folder / "types.csv"
    path.write_text(text, encoding="utf-8")
    return read_type_list(path)


def test_columns_besides_the_name_are_optional(tmp_path: Path) -> None:
    assert read(tmp_path, "name\nArrest\n") == [ListedType("Arrest", "", (), "")]
    text = 'name,definition,examples,family\nArrest,"Police, seize",a [seized] b | jail |,Crime\nWin,,,\n'
    assert read(tmp_path, text) == [
        ListedType("Arrest", "Police, seize", ("a [seized] b", "jail"), "Crime"),
        ListedType("Win", "", (), ""),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title\nArrest\n", "the column 'title'; accepted: name, definition, examples, family"),
        ("definition\nArrest\n", "no column name"),
        ("name,definition\nWin,x\nWin,y\n", r"types\.csv, line 3: .*the name 'Win' again"),
        ("name,definition\n,x\n", r"types\.csv, line 2: .*a type without a name"),
        ("name,examples\nWin,a [ ] b\n", r"types\.csv, line 2: .*an empty trigger"),
        ("name,examples\nWin,[a] b [c]\n", r"types\.csv, line 2: .*several triggers"),
        ("name\n", "at least one type"),
    ],
)
def test_malformed_lists_name_the_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataFormatError, match=told):
        read(tmp_path, text)


def test_a_list_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"no such file; accepted: a CSV file, or political"):
        read_type_list(tmp_path / "none.csv")


def test_packaged_lists() -> None:
    political = read_type_list("political")
    assert political == read_type_list(PACKAGED["political"])
    assert 18 <= len(political) <= 25
    assert all(one.definition and one.family and len(one.examples) >= 3 for one in political)
    assert all("[" in example for one in political for example in one.examples)
    assert 10 <= len(read_type_list(FAMILIES)) <= 14


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Path) -> EventEncoder:
    return load_encoder(tiny_encoder, device="cpu")


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_a_type_is_the_mean_of_its_label_and_examples(encoder: EventEncoder) -> None:
    types = [
        ListedType("arrest", "police seize", ("Police [seized] him.", "jail"), ""),
        ListedType("win", "", (), ""),
    ]
    found = type_vectors(types, encoder)
    labels = unit(encoder.encode(["arrest", "arrest: police seize", "win", "jail"]))
    mention = {"text": "Police seized him.", "trigger_start": 7, "trigger_end": 13}
    read = unit(encode_mentions(encoder, [mention], trigger_input="span").embeddings)[0]
    assert found[0] == pytest.approx(unit(unit(labels[0] + labels[1]) + read + labels[3]), abs=1e-5)
    assert found[1] == pytest.approx(labels[2], abs=1e-5)
