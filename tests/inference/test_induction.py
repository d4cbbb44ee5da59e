"""Types of mentions and the report on them."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from html_pages import Page, assert_self_contained
from transformers import AutoTokenizer

from eventformers.errors import DataFormatError, EventformersError, UnknownNameError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.mention_files import load_mentions
from eventformers.inference.induction import clustering
from eventformers.inference.induction import report as induction_map
from eventformers.inference.induction import report as induction_report
from eventformers.inference.induction.induce import Induction, induce
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.inference.induction.report import (
    drawn_mentions,
    marker,
    place_mentions,
    report_page,
    write_induction,
)
from eventformers.models.modeling_event_type_induction import EventTypeInductionModel

SENTENCES = {
    "Arrest": "the police arrested {}",
    "Flood": "the river flooded {}",
    "Sale": "a company sold {}",
}
FILLERS = ("the house", "the man", "a car", "the bank", "a store 1", "the firm", "a bridge", "the road")
TRIGGERS = {"Arrest": "arrested", "Flood": "flooded", "Sale": "sold"}


def rows() -> list[dict[str, Any]]:
    found = []
    for event_type, sentence in SENTENCES.items():
        for place, filler in enumerate(FILLERS):
            record = {
                "id": f"{event_type}-{place}",
                "sentence": sentence.format(filler),
                "trigger": TRIGGERS[event_type],
                "license": "CC-BY-4.0",
            }
            # The type of the last mention of each kind is not known.
            found.append({**record, **({"event_type": event_type} if place < 7 else {})})
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    return path


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    path = tmp_path / "frames.jsonl"
    records = [{"name": name, "definition": text, "parents": []} for name, text in SENTENCES.items()]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def induction(file: Path, frames: Path, tiny_encoder: Path) -> Induction:
    return induce(tiny_encoder, file, num_clusters=3, frames=frames, examples=2, device="cpu")


def test_finds_the_types(induction: Induction) -> None:
    assert [found.number for found in induction.types] == [0, 1, 2]
    assert [found.size for found in induction.types] == [8, 8, 8]
    assert {found.name for found in induction.types} == set(TRIGGERS.values())
    for found in induction.types:
        assert TRIGGERS[found.majority_type] == found.name
        assert found.name_source == "triggers"
        assert found.purity == 100
        assert found.labelled == 7
        assert len(found.frames) == 3
        assert len(found.examples) == 2
        members = np.flatnonzero(induction.cluster == found.number)
        assert induction.cosine[found.examples[0]] == induction.cosine[members].max()
    assert induction.purity == 100
    assert induction.counts == {"mentions": 24}
    assert induction.settings["models"][0]["trigger_input"] == "span"
    assert json.loads(json.dumps(induction.type_rows()))[0]["examples"][0]["trigger"]


def test_topics_of_one_document_and_stop_words_are_weak(tiny_encoder: Path) -> None:
    given = [
        {
            "text": row["sentence"].replace("sold", "was"),
            "document_id": str(place // 8 if place < 16 else place % 2),
            "event_type": row.get("event_type", ""),
        }
        for place, row in enumerate(rows())
    ]
    for row, trigger in zip(
        given, [word for word in ("arrested", "flooded", "was") for _ in range(8)], strict=True
    ):
        start = row["text"].index(trigger)
        row.update(trigger_start=start, trigger_end=start + len(trigger))
    found = induce(tiny_encoder, given, num_clusters=3)
    assert {one.majority_type: one.weak for one in found.types} == {
        "Arrest": "8 of 8 mentions are in one document, 0",
        "Flood": "8 of 8 mentions are in one document, 1",
        "Sale": "8 of 8 triggers are stop words: was",
    }
    assert found.counts["weak_types"] == 3


def test_given_names_are_chosen_from(file: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("arrested\n\nflooded\nsold\nsold\n", encoding="utf-8")
    found = induce(tiny_encoder, file, num_clusters=3, names=names, top=2)
    for one in found.types:
        assert one.name_source == "names"
        assert one.name == one.labels[0].label
        assert {label.label for label in one.labels} <= {"arrested", "flooded", "sold"}
        assert len(one.labels) == 2


def test_number_is_chosen_where_none_is_given(file: Path, tiny_encoder: Path) -> None:
    found = induce(tiny_encoder, file)
    assert len(found.types) == max(found.silhouettes, key=found.silhouettes.__getitem__)
    assert induce(tiny_encoder, file, method="affinity").silhouettes == {}


def test_many_mentions_are_clustered_by_their_neighbours(
    file: Path, tiny_encoder: Path, induction: Induction, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    assert induction.settings["num_neighbours"] is None
    monkeypatch.setattr(clustering, "LARGEST_MATRIX", 23)
    monkeypatch.setattr(clustering, "NUM_NEIGHBOURS", 22)
    found = induce(tiny_encoder, file, num_clusters=3)
    np.testing.assert_array_equal(found.cluster, induction.cluster)
    assert found.settings["num_neighbours"] == 22
    assert "only the 22 largest weights of each count" in report_page(found)
    with pytest.raises(EventformersError, match="24 mentions; accepted: up to 23, or the method"):
        induce(tiny_encoder, file, method="affinity")
    monkeypatch.setattr(clustering, "merge_mentions", fail)
    with pytest.raises(EventformersError, match="out of memory for clustering 24 mentions; pass fewer"):
        induce(tiny_encoder, file, num_clusters=3)


def test_an_ensemble_of_equal_models_is_one_model(
    file: Path, tiny_encoder: Path, induction: Induction
) -> None:
    both = induce([tiny_encoder, tiny_encoder], file, num_clusters=3)
    np.testing.assert_array_equal(both.cluster, induction.cluster)
    np.testing.assert_allclose(both.cosine, induction.cosine, atol=1e-5)
    assert both.vectors.shape == (24, 64)


def test_plain_sentences_are_named_by_words(tiny_encoder: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("\n\n".join(row["sentence"] for row in rows()), encoding="utf-8")
    found = induce(tiny_encoder, file, num_clusters=3)
    assert found.counts == {"blank_line": 23, "mentions": 24, "mentions_without_trigger": 24}
    assert {one.name_source for one in found.types} == {"words"}
    assert found.purity is None
    assert found.mentions[1]["mention_id"] == "mine/3"
    assert found.settings["models"][0]["trigger_input"] == "none"


def test_sentences_are_named_by_the_triggers_that_are_found(tiny_encoder: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = EventTypeInductionModel.from_encoder(tiny_encoder, trigger_input="found").eval()
    encoder = EventEncoder(model, AutoTokenizer.from_pretrained(tiny_encoder), name="finder", max_length=32)
    told = [{name: row[name] for name in ("id", "sentence")} for row in rows()]
    plain = tmp_path / "plain.jsonl"
    plain.write_text("".join(json.dumps(row) + "\n" for row in told), encoding="utf-8")
    found = induce(encoder, plain, num_clusters=3)
    assert {one.name_source for one in found.types} == {"triggers"}
    assert found.counts["triggers_found"] == 24
    assert "mentions_without_trigger" not in found.counts
    spans = encode_mentions(encoder, found.mentions).triggers
    for row, (start, end) in zip(found.mentions, spans, strict=True):
        assert (row["trigger_start"], row["trigger_end"]) == (start, end)
        assert row["trigger"] == row["text"][start:end] != ""
    # Given triggers are read where every mention has one.
    given = tmp_path / "given.jsonl"
    given.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    read = induce(encoder, given, num_clusters=3)
    assert read.settings["models"][0]["trigger_input"] == "span"
    assert {row["trigger"] for row in read.mentions} == set(TRIGGERS.values())


def test_types_decide_nothing_but_purity(file: Path, tiny_encoder: Path) -> None:
    known, _ = load_mentions(file)
    swapped = [{**row, "event_type": "Other"} for row in known]
    first, second = (induce(tiny_encoder, some, num_clusters=4) for some in (known, swapped))
    np.testing.assert_array_equal(first.cluster, second.cluster)
    assert [one.name for one in first.types] == [one.name for one in second.types]
    assert second.purity == 100


def test_identical_and_single_mentions_have_a_result(tiny_encoder: Path) -> None:
    same = induce(tiny_encoder, ["the storm hit the city"] * 9)
    assert [one.size for one in same.types] == [9]
    assert len(same.types[0].examples) == 1
    split = induce(tiny_encoder, ["the storm hit the city"] * 9, num_clusters=2)
    assert sorted(one.size for one in split.types) == sorted(np.bincount(split.cluster))
    alone = induce(tiny_encoder, ["the storm hit the city"])
    assert [one.size for one in alone.types] == [1]


def test_one_type_for_most_mentions_is_warned_of(tiny_encoder: Path) -> None:
    mentions = ["the police arrested the man"] * 100 + ["the river flooded the house"] * 2
    with pytest.warns(UserWarning, match=r"^100 of 102 mentions are in one type; a larger num_clusters"):
        induce(tiny_encoder, mentions, num_clusters=2, manifold=False)
    with pytest.warns(UserWarning, match="one type; manifold=False"):
        assert induce(tiny_encoder, mentions, num_clusters=2, manifold=True).settings["manifold"]
    with pytest.warns(UserWarning, match=r"^by manifold weights, 101 of 102 mentions are in one type"):
        assert not induce(tiny_encoder, mentions, num_clusters=2).settings["manifold"]


def test_wrong_input_is_told(file: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="25 clusters of 24 mentions"):
        induce(tiny_encoder, file, num_clusters=25)
    with pytest.raises(EventformersError, match="examples is 0"):
        induce(tiny_encoder, file, examples=0)
    with pytest.raises(UnknownNameError, match="Accepted: affinity, agglomerative"):
        induce(tiny_encoder, file, method="kmeans")  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="finds the number of clusters itself"):
        induce(tiny_encoder, file, method="affinity", num_clusters=3)
    with pytest.raises(EventformersError, match="no queries and keys"):
        induce(tiny_encoder, file, distance="dot")
    with pytest.raises(EventformersError, match=r"no\.txt: no such file; accepted: a file with a name"):
        induce(tiny_encoder, file, names=tmp_path / "no.txt")
    with pytest.raises(EventformersError, match="list of models is empty"):
        induce([], file)


def test_wrong_mentions_are_told(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no such file"):
        load_mentions(tmp_path / "no.jsonl")
    wrong = tmp_path / "mine.csv"
    wrong.write_text("text\n", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"suffix '\.csv'"):
        load_mentions(wrong)
    blank = tmp_path / "mine.txt"
    blank.write_text("\n\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="a sentence on each line"):
        load_mentions(blank)
    with pytest.raises(EventformersError, match="found no mention"):
        load_mentions([])
    with pytest.raises(EventformersError, match="mention 1: found the text ' '"):
        load_mentions(["a storm", " "])
    with pytest.raises(EventformersError, match="trigger from 2 to 99 in a text of 7"):
        load_mentions([{"text": "a storm", "trigger_start": 2, "trigger_end": 99}])
    with pytest.raises(EventformersError, match="'fire', where the text has 'storm'"):
        load_mentions([{"text": "a storm", "trigger": "fire", "trigger_start": 2, "trigger_end": 7}])
    for row, found in (
        ({"text": "a storm", "Trigger_start": 2}, "the key 'Trigger_start' .did you mean 'trigger_start'"),
        ({"text": "a storm", "trigger_start": "2", "trigger_end": 7}, "a trigger from '2' to 7"),
        ({"text": "a storm", "event_type": 0}, "the event_type 0"),
        ({"text": "\ud800"}, "half of a surrogate pair"),
        ({"text": 3}, "the text 3"),
    ):
        with pytest.raises(EventformersError, match=f"mention 0: found {found}"):
            load_mentions([row])
    with pytest.raises(EventformersError, match="found set; accepted: a file"):
        load_mentions({"a storm"})
    rows = {"text": ["a storm", "a fire"], "event_type": ["x", None]}
    for frame in (pd.DataFrame(rows), Dataset.from_dict(rows)):
        assert [(row["text"], row["event_type"]) for row in load_mentions(frame)[0]] == [
            ("a storm", "x"),
            ("a fire", ""),
        ]


def test_rows_of_a_built_dataset_are_read(tmp_path: Path, file: Path) -> None:
    from eventformers.datasets_scripts.building import build_dataset

    folder = build_dataset("event_types", "mentions", file, tmp_path / "built", num_seen=1, num_unseen=0)
    found, _ = load_mentions(folder)
    assert len(found) == 24
    assert found[0]["trigger"] == "arrested"


def test_repeated_ids_get_new_ones_and_missing_numbers_are_no_fault() -> None:
    frame = pd.DataFrame(
        [
            {"mention_id": "x", "text": "Police arrested a man.", "trigger_start": 7, "trigger_end": 15},
            {"mention_id": "x", "text": "A storm came."},
        ]
    )
    assert frame["trigger_start"].dtype == float
    rows, counts = load_mentions(frame)
    assert [(row["mention_id"], row["trigger"]) for row in rows] == [("x", "arrested"), ("x#2", "")]
    assert counts == {"mentions_with_repeated_id": 1}


ROWS = [
    {"text": "the <b>police</b> arrested & held a man", "trigger_start": 18, "trigger_end": 26},
    {"text": "a storm hit the city"},
    {"text": "the police arrested a thief", "trigger_start": 11, "trigger_end": 19, "event_type": "Arrest"},
    {"text": "a flood hit the road", "event_type": "Arrest", "license": "CC-BY-4.0"},
]


@pytest.fixture
def two_types(tiny_encoder: Path) -> Induction:
    with pytest.warns(UserWarning, match="2 of 4 mentions have no trigger"):
        return induce(tiny_encoder, ROWS, num_clusters=2)


def test_writes_tables_and_page(two_types: Induction, tmp_path: Path) -> None:
    files = write_induction(two_types, tmp_path / "out")
    table = pq.read_table(files[0])
    assert table["text"].to_pylist() == [row["text"] for row in ROWS]
    assert table["license"].to_pylist()[3] == "CC-BY-4.0"
    assert table["cluster"].to_pylist() == two_types.cluster.tolist()
    assert table["trigger_start"].to_pylist() == [18, -1, 11, -1]
    assert json.loads(table.schema.metadata[b"settings"])["num_clusters"] == 2
    lines = [json.loads(line) for line in files[1].read_text(encoding="utf-8").splitlines()]
    assert [line["name"] for line in lines] == [found.name for found in two_types.types]
    assert sum(line["size"] for line in lines) == 4
    assert sum(line["weak"] != "" for line in lines) == two_types.counts["weak_types"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in files}
    with pytest.raises(EventformersError, match="--overwrite"):
        write_induction(two_types, tmp_path / "out")
    write_induction(two_types, tmp_path / "out", overwrite=True)


def test_page_is_self_contained_and_escapes_texts(two_types: Induction) -> None:
    page = report_page(two_types)
    assert "<b>police" not in page
    assert "the &lt;b&gt;police&lt;/b&gt; <mark>arrested</mark> &amp; held a man" in page
    without_trigger = next(row["text"] for row in two_types.mentions if row["trigger_start"] < 0)
    assert f"<li>{escape(without_trigger, quote=False)}</li>" in page
    assert_self_contained(page)
    assert page.count("</title></path>") == 4
    assert "purity" in page
    for found in two_types.types:
        assert f'id="cluster-{found.number}"' in page
        assert found.weak == "fewer than 3 mentions" or found.size >= 3
    assert page.count("Weak as a type: fewer than 3 mentions.") == page.count(" (weak)</td>") >= 1

    assert {f"#{name}" for name in Page(page).ids} >= set(Page(page).links)


@pytest.mark.parametrize("number", [1, 2, 3, 5, 40])
def test_points_lie_in_the_picture(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(number, 8)).astype(np.float32)
    for most in (3000, 4):
        monkeypatch.setattr(induction_map, "MOST_BY_TSNE", most)
        places = place_mentions(vectors)
        assert places.shape == (number, 2)
        assert (places >= induction_map.MARGIN - 1e-6).all()
        assert (places <= [induction_map.WIDTH, induction_map.HEIGHT]).all()
    middle = place_mentions(np.ones((number, 8), dtype=np.float32))
    np.testing.assert_array_equal(middle, np.tile([430, 310], (number, 1)))


def test_many_mentions_are_drawn_in_part(monkeypatch: pytest.MonkeyPatch, two_types: Induction) -> None:
    monkeypatch.setattr(induction_map, "MOST_POINTS", 3)
    drawn = drawn_mentions(4)
    assert len(drawn) == 3
    assert (np.diff(drawn) > 0).all()
    assert "drawn at random of 4" in report_page(two_types)


def test_clusters_beyond_the_colours_have_other_shapes() -> None:
    assert len({marker(number) for number in range(40)}) == 40
    assert marker(40) == marker(0)


def test_a_folder_that_cannot_be_written_is_told(two_types: Induction, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(EventformersError, match="accepted: a folder to write to"):
        write_induction(two_types, tmp_path / "file")


def test_nothing_is_left_where_a_part_fails(
    two_types: Induction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Induction) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(induction_report, "report_page", fail)
    with pytest.raises(EventformersError, match="No space left"):
        write_induction(two_types, tmp_path / "out")
    assert not (tmp_path / "out").exists()
