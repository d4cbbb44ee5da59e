"""Tests for the reader of texts and events in any form."""

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.chains.next_event import read_events
from eventformers.inference.encode import load_encoder
from eventformers.inference.encoding.event_reader import read_items, values_of

TEXTS = ["police arrested man", "storm closed road"]
TRIPLES = [("police", "arrested", "man"), ("", "closed", "road")]
EVENTS = [dict(zip(("subject", "predicate", "object"), triple, strict=True)) for triple in TRIPLES]
TEXT_ROWS = {"title": ["a", "b"], "text": TEXTS}
ROLE_ROWS = {"subject": ["police", None], "predicate": ["arrested", "closed"], "object": ["man", "road"]}
ARROW_EVENTS = pa.array(EVENTS)

FRAMES = [pd.DataFrame, pl.DataFrame, pa.table, pa.RecordBatch.from_pydict, datasets.Dataset.from_dict]
SERIES = [
    list,
    tuple,
    iter,
    lambda values: (value for value in values),
    pd.Series,
    pl.Series,
    pa.array,
    lambda values: pa.chunked_array([values[:1], values[1:]]),
    lambda values: datasets.Dataset.from_dict({"column": values})["column"],
    lambda values: datasets.Dataset.from_dict({"column": values}).to_iterable_dataset()["column"],
]


@pytest.mark.parametrize("frame", FRAMES)
def test_rows_are_read_by_their_columns(frame):
    assert read_items(frame(TEXT_ROWS)) == TEXTS
    assert read_items(frame(ROLE_ROWS)) == EVENTS
    assert read_items(frame({"event": EVENTS, "date": ["1", "2"]})) == EVENTS


@pytest.mark.parametrize("series", SERIES)
def test_columns_hold_texts_or_events(series):
    assert read_items(series(TEXTS)) == TEXTS
    assert read_items(series(EVENTS)) == EVENTS
    assert read_items(series([list(triple) for triple in TRIPLES])) == EVENTS


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (np.array(TEXTS), TEXTS),
        (np.array(TRIPLES), EVENTS),
        (TRIPLES, EVENTS),
        (tuple(TRIPLES), EVENTS),
        (["a", "b", "c"], ["a", "b", "c"]),
        (np.array(["a", "b", "c"]), ["a", "b", "c"]),
        ([["police", "arrested", "man"], TEXTS[1]], [EVENTS[0], TEXTS[1]]),
        (datasets.Dataset.from_dict(ROLE_ROWS).to_iterable_dataset(), EVENTS),
        (list(datasets.Dataset.from_dict(TEXT_ROWS)), TEXTS),
        (datasets.Dataset.from_dict(TEXT_ROWS).select([1]), TEXTS[1:]),
        (pd.DataFrame(TEXT_ROWS).query("title == 'b'"), TEXTS[1:]),
        (
            pd.DataFrame(
                {"subject": ["police", np.nan], **{k: ROLE_ROWS[k] for k in ("predicate", "object")}}
            ),
            EVENTS,
        ),
        (pd.Series(TEXTS, dtype="category"), TEXTS),
        (pl.Series(TEXTS, dtype=pl.Categorical), TEXTS),
        (pl.DataFrame(EVENTS).to_struct("event"), EVENTS),
        (pa.table(TEXT_ROWS).slice(1), TEXTS[1:]),
        (pa.chunked_array([ARROW_EVENTS.slice(1)]), EVENTS[1:]),
        (pa.table(TEXT_ROWS).to_reader(), TEXTS),
    ],
)
def test_other_forms(items, expected):
    assert read_items(items) == expected


@pytest.mark.parametrize(
    "alone", ["a dog", np.array("a dog"), TRIPLES[0], EVENTS[0], {"text": "a dog", "n": 1}]
)
def test_one_alone(alone):
    values, is_alone = values_of(alone)
    assert is_alone
    assert len(list(values)) == 1
    assert not values_of([alone])[1]


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ({"a dog", "a cat"}, "found set; accepted: a text, an event, or a list"),
        (b"a dog", "found bytes"),
        (bytearray(b"a dog"), "found bytearray"),
        (3, "found int"),
        (None, "found NoneType"),
        (pl.DataFrame(TEXT_ROWS).lazy(), "found LazyFrame"),
        (pd.DataFrame(TEXT_ROWS).groupby("title"), "found DataFrameGroupBy"),
        ({"text": TEXTS}, r"item 0: found the text \['police"),
        (
            datasets.DatasetDict({"train": datasets.Dataset.from_dict(TEXT_ROWS)}),
            "item 0: found the keys train",
        ),
        ([1.5], "item 0: found float"),
        (range(3), "item 0: found int"),
        (np.zeros((2, 3)), "item 0: found a list of 3"),
        (["a", ("b", "c")], "item 1: found a tuple of 2"),
        (["a", None], "item 1: found NoneType"),
        (["a", "\ud800"], "item 1: found half of a surrogate pair"),
        (["\u200b\x00"], "item 0: found a text without any word"),
        ([{"predicate": "a", "object": 0}], "item 0: found the object 0"),
        ([{"predicate": "a", "Object": "b"}], "'Object' .did you mean 'object'"),
        (pd.DataFrame({"title": ["a"]}), "DataFrame: found the columns title"),
        (pd.DataFrame({0: ["a"]}), "DataFrame: found the columns 0"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "DataFrame: found the column 'text' twice"),
        (pl.DataFrame({"text": ["a", None]}), "item 1: found the text None"),
        (pa.table({"text": [1]}), "item 0: found the text 1"),
        (pa.array([1]), "item 0: found int"),
        (
            pa.table({"predicate": ["a"], "subj": ["b"]}),
            "Table: found the column 'subj' .did you mean 'subject'",
        ),
        (datasets.Dataset.from_dict({"sentence": ["a"]}), "Dataset: found the columns sentence"),
        (["x" * 100_000, ["y" * 100_000]], r"item 1: found a list of 1: \['y+… \(100,004 characters\)"),
    ],
)
def test_anything_else_is_refused(items, found):
    with pytest.raises(EventformersError, match=found) as raised:
        read_items(items)
    assert len(str(raised.value)) < 1000


def test_encode_reads_rows_and_not_names(tiny_encoder):
    encoder = load_encoder(tiny_encoder, device="cpu")
    expected = encoder.encode(TEXTS)
    for items in (pd.DataFrame(TEXT_ROWS), pl.DataFrame(TEXT_ROWS)["text"], pa.table(TEXT_ROWS), iter(TEXTS)):
        np.testing.assert_array_equal(encoder.encode(items), expected)
    # A batch of another size may round otherwise.
    np.testing.assert_array_equal(encoder.encode(TRIPLES[0]), encoder.encode(TEXTS[0]))
    assert encoder.encode(["police", "arrested", "man"]).shape == (3, encoder.dimension)
    assert encoder.texts(pd.DataFrame(ROLE_ROWS)) == ["police arrested man", "closed road"]


def test_chains_are_read_from_the_same_forms():
    for items in (pd.DataFrame(ROLE_ROWS), TRIPLES, EVENTS, ["police | arrested | man", " | closed | road"]):
        assert read_events(items, "the chain") == EVENTS
    # A chain has several events, so that three strings are three of them in a tuple, too.
    assert len(read_events(("a", "b", "c"), "the chain")) == 3
    with pytest.raises(EventformersError, match="found set"):
        read_events({"a"}, "the chain")
