"""Rows of MICO, and texts outside its graphs."""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset, concatenate_datasets
from datasets import config as datasets_config
from short_runs import short_run
from transformers import AutoTokenizer

import eventformers
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import DataFormatError, EventformersError
from eventformers.models.modeling_mico import MicoModel
from eventformers.trainers import cached_arrays
from eventformers.trainers.mico import (
    SENTENCES,
    DistillationTexts,
    MicoCollator,
    PremiseRows,
    distillation_texts,
)

TRIPLES = (
    ("man", "city"),
    ("man", "fire"),
    ("man", "city"),
    ("fire", "market"),
    ("storm", "city"),
    ("man", "market price"),
)
SEEN, UNSEEN = ("man", "bridge"), ("judge", "player")


def _pairs(triples: tuple[tuple[str, str], ...]) -> Dataset:
    rows = []
    for head, tail in triples:
        rows.append({"premise": f"the {head} saw", "alternative": tail, "direction": "forward"})
        rows.append({"premise": f"{tail} was seen by", "alternative": head, "direction": "reverse"})
    return Dataset.from_list(rows)


@pytest.fixture(scope="module")
def train() -> PremiseRows:
    return PremiseRows(_pairs(TRIPLES))


@pytest.fixture(scope="module")
def validation(train: PremiseRows) -> PremiseRows:
    return PremiseRows(_pairs((SEEN, UNSEEN)), known=train)


def _collator(rows: PremiseRows, encoder: Path, **options: Any) -> MicoCollator:
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    return MicoCollator(tokenizer=tokenizer, alternatives=rows.alternatives, seed=3, **options)


def _text(rows: PremiseRows, number: int) -> str:
    return rows.alternatives[number].as_py()


def _known(rows: PremiseRows, index: int) -> set[str]:
    [row] = rows[index]
    ids = row["known_alternative_ids"].tolist()
    assert ids == sorted(set(ids))
    return {_text(rows, number) for number in ids}


def test_rows_are_those_of_the_pairs(train: PremiseRows) -> None:
    pairs = _pairs(TRIPLES)
    assert len(train) == len(pairs)
    for index, pair in enumerate(pairs):
        [row] = train[index]
        assert row["row"] == index
        assert row["premise"] == pair["premise"]
        assert _text(train, row["alternative_id"]) == pair["alternative"]
        assert row["is_validation"] is False


def test_every_text_has_one_id(train: PremiseRows) -> None:
    texts = train.alternatives.to_pylist()
    assert len(texts) == len(set(texts)) == 6
    # As a tail and as a head it is the same alternative.
    ids = {train[2][0]["alternative_id"], train[7][0]["alternative_id"]}
    assert ids == {texts.index("fire")}


def test_known_alternatives_are_those_of_the_same_premise(train: PremiseRows) -> None:
    assert _known(train, 0) == _known(train, 2) == {"city", "fire", "market price"}
    assert _known(train, 6) == {"market"}
    # In the other direction, too; a duplicate triple counts once.
    assert _known(train, 1) == {"man", "storm"}
    assert train.most_known == 3


def test_both_rows_of_a_triple_are_one_item() -> None:
    rows = PremiseRows(_pairs(TRIPLES), by_triple=True)
    assert len(rows) == len(TRIPLES)
    for index, (head, tail) in enumerate(TRIPLES):
        forward, reverse = rows[index]
        assert (forward["row"], reverse["row"]) == (2 * index, 2 * index + 1)
        assert (_text(rows, forward["alternative_id"]), _text(rows, reverse["alternative_id"])) == (
            tail,
            head,
        )


@pytest.mark.parametrize("order", [[0], [0, 1, 2], [1, 0], [0, 1, 3, 2]])
def test_rows_that_are_no_pairs(order: list[int]) -> None:
    """Rows that are not adjacent pairs, forward first."""
    assert not PremiseRows(_pairs(TRIPLES).select(order)).has_both_directions


def test_validation_rows_know_what_the_training_graph_knows(
    train: PremiseRows, validation: PremiseRows
) -> None:
    assert validation.alternatives.to_pylist()[: len(train.alternatives)] == train.alternatives.to_pylist()
    assert _known(validation, 0) == _known(train, 0)
    for index in (1, 2, 3):
        assert _known(validation, index) == set()
    for index, text in enumerate(("bridge", "man", "player", "judge")):
        [row] = validation[index]
        assert _text(validation, row["alternative_id"]) == text
        assert row["is_validation"] is True
    assert validation.most_known == train.most_known


def test_large_tables_in_several_chunks() -> None:
    """Ids are of the text, in whatever chunk of the table it stands."""
    whole = _pairs(TRIPLES)
    rows = PremiseRows(concatenate_datasets([whole.select([0, 1]), whole.select(range(2, 12))]))
    again = PremiseRows(whole)
    assert rows.alternative_ids.tolist() == again.alternative_ids.tolist()
    assert [_known(rows, index) for index in range(12)] == [_known(again, index) for index in range(12)]


# Collator


@pytest.fixture
def collator(tiny_encoder: Path, validation: PremiseRows) -> MicoCollator:
    return _collator(
        validation,
        tiny_encoder,
        num_alternatives=3,
        most_known=validation.most_known,
        draw_positive=True,
        known_positives=True,
    )


def _items(rows: PremiseRows) -> list:
    return [rows[index] for index in range(len(rows))]


def _texts(collator: MicoCollator, ids: torch.Tensor) -> list[str]:
    return collator.tokenizer.batch_decode(ids.flatten(0, -2), skip_special_tokens=True)


def test_own_alternative_stands_first_and_the_others_are_known(
    collator: MicoCollator, train: PremiseRows
) -> None:
    batch = collator(_items(train))
    assert batch["alternative_ids"].shape == (12, 3)
    assert batch["alternative_ids"][:, 0].tolist() == train.alternative_ids.tolist()
    for index, ids in enumerate(batch["alternative_ids"].tolist()):
        assert {_text(train, number) for number in ids} <= _known(train, index)


def test_views_hold_the_texts_of_their_ids(collator: MicoCollator, train: PremiseRows) -> None:
    batch = collator(_items(train))
    premises = [train[index][0]["premise"] for index in range(12)]
    assert _texts(collator, batch["input_ids"]) == premises
    expected = [_text(train, number) for number in batch["alternative_ids"].flatten().tolist()]
    assert _texts(collator, batch["alternative_input_ids"]) == expected
    for name in ("", "alternative_"):
        padding = batch[f"{name}input_ids"] == collator.tokenizer.pad_token_id
        assert torch.equal(batch[f"{name}attention_mask"] == 0, padding)


def test_known_ids_have_one_width_in_every_batch(
    collator: MicoCollator, train: PremiseRows, validation: PremiseRows
) -> None:
    above_all = len(validation.alternatives)
    for items in (_items(train), [train[1]], _items(validation)):
        rows = [row for item in items for row in item]
        known = collator(items)["known_alternative_ids"]
        assert known.shape == (len(rows), validation.most_known)
        for found, row in zip(known.tolist(), rows, strict=True):
            ids = row["known_alternative_ids"].tolist()
            assert found == ids + [above_all] * (validation.most_known - len(ids))


def test_validation_rows_have_their_own_alternative_alone(
    collator: MicoCollator, validation: PremiseRows
) -> None:
    batch = collator(_items(validation))
    assert batch["alternative_ids"].tolist() == [[number] for number in validation.alternative_ids]
    assert batch["positive_index"].tolist() == [0] * 4


def test_draws_depend_on_seed_epoch_and_row_alone(collator: MicoCollator, train: PremiseRows) -> None:
    items = _items(train)
    drawn = ("alternative_ids", "positive_index")
    whole = collator(items)
    single = [collator([item]) for item in reversed(items)][::-1]
    for name in drawn:
        assert whole[name].tolist() == [value for batch in single for value in batch[name].tolist()]
    by_triple = PremiseRows(_pairs(TRIPLES), by_triple=True)
    for name in drawn:
        assert collator(_items(by_triple))[name].tolist() == whole[name].tolist()
    collator.epoch = 1
    assert any(collator(items)[name].tolist() != whole[name].tolist() for name in drawn)
    collator.epoch, collator.seed = 0, 4
    assert any(collator(items)[name].tolist() != whole[name].tolist() for name in drawn)


def test_draws_are_uniform_with_replacement(collator: MicoCollator, train: PremiseRows) -> None:
    [row] = train[0]
    visits = 1800
    batch = collator([[{**row, "row": number}] for number in range(visits)])
    pairs = Counter(tuple(ids) for ids in batch["alternative_ids"][:, 1:].tolist())
    # Of three known alternatives, its own among them.
    assert len(pairs) == 9
    assert all(abs(count - visits / 9) < 70 for count in pairs.values()), pairs
    positives = Counter(batch["positive_index"].tolist())
    assert set(positives) == {0, 1, 2}
    assert all(abs(count - visits / 3) < 100 for count in positives.values()), positives


def test_one_alternative_is_the_rows_own(collator: MicoCollator, train: PremiseRows) -> None:
    collator.num_alternatives = 1
    batch = collator(_items(train))
    assert batch["alternative_ids"].tolist() == [[number] for number in train.alternative_ids]


def test_only_what_the_head_needs_is_given(collator: MicoCollator, train: PremiseRows) -> None:
    collator.draw_positive = collator.known_positives = False
    assert set(collator(_items(train))) == {
        "input_ids",
        "attention_mask",
        "alternative_input_ids",
        "alternative_attention_mask",
        "alternative_ids",
    }


def test_what_is_cut_is_counted(collator: MicoCollator, train: PremiseRows) -> None:
    collator.max_seq_length = 3
    [row] = train[10]
    batch = collator([[row]])
    assert batch["input_ids"].shape[1] == batch["alternative_input_ids"].shape[2] == 3
    texts = [row["premise"], *(_text(train, number) for number in batch["alternative_ids"][0].tolist())]
    assert collator.truncated == sum(len(collator.tokenizer.tokenize(text)) > 1 for text in texts)
    collator([[row]])
    assert collator.truncated == 2 * sum(len(collator.tokenizer.tokenize(text)) > 1 for text in texts)
    # As it stands in a record of the run.
    assert type(collator.truncated) is int


def test_log_frequencies_count_training_rows(train: PremiseRows, validation: PremiseRows) -> None:
    """Rows, not distinct pairs: a triple that occurs twice is drawn twice. What is new counts as one."""
    for held in (None, validation):
        [found] = train.log_frequencies(held)
        texts = (validation if held else train).alternatives.to_pylist()
        rows = Counter(_text(train, train[index][0]["alternative_id"]) for index in range(len(train)))
        assert rows["city"] == 3
        expected = [math.log(max(rows[text], 1)) for text in texts]
        assert found.tolist() == pytest.approx(expected)


def test_log_frequency_of_each_drawn_alternative(train: PremiseRows, tiny_encoder: Path) -> None:
    frequencies = train.log_frequencies(None)
    collator = _collator(train, tiny_encoder, num_alternatives=3, log_frequencies=frequencies)
    batch = collator([train[index] for index in range(6)])
    assert batch["log_frequency"].shape == (6, 3)
    expected = torch.from_numpy(frequencies)[0][batch["alternative_ids"]]
    assert torch.equal(batch["log_frequency"], expected)
    assert len(expected.unique()) > 1


def test_frequencies_of_each_graph(train: PremiseRows, tiny_encoder: Path) -> None:
    """Rows count in their own graph alone, and a row has the frequencies of its graph."""
    graphs = np.arange(12) // 4
    rows = PremiseRows(_pairs(TRIPLES), graphs=graphs)
    frequencies = rows.log_frequencies(None, [0, 2])
    for graph in range(3):
        texts = Counter(_text(rows, number) for number in rows.alternative_ids[graphs == graph])
        counted = texts if graph != 1 else Counter()
        expected = [math.log(max(counted[text], 1)) for text in rows.alternatives.to_pylist()]
        assert frequencies[graph].tolist() == pytest.approx(expected)
    collator = _collator(rows, tiny_encoder, num_alternatives=2, log_frequencies=frequencies, graphs=True)
    batch = collator(_items(rows))
    assert batch["graph"].tolist() == graphs.tolist()
    expected = torch.from_numpy(frequencies)[batch["graph"].unsqueeze(1), batch["alternative_ids"]]
    assert torch.equal(batch["log_frequency"], expected)
    assert batch["log_frequency"][graphs != 1].any()
    assert not batch["log_frequency"][graphs == 1].any()


QUICK = Path(__file__).with_name("quick_mico.yaml")
LINES = ("The police closed the bridge.", "A storm hit the city.", "The judge met the doctor of the bank.")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path / "cache")


def _read(encoder: Path, source: str | None, longest: int = 32, **fields: object) -> DistillationTexts:
    model = MicoModel.from_encoder(str(encoder), **fields).train()
    found = distillation_texts(source, model, AutoTokenizer.from_pretrained(encoder), longest)
    assert model.training
    return found


def test_vectors_are_those_of_the_encoder(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without dropout, of each distinct line once, after the prompt, whatever the size of a block."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join([LINES[0], "", *LINES, f" {LINES[1]} "]) + "\n", encoding="utf-8")
    fields = {"pooling": "mean", "prompts": {"event": "the "}}
    read = _read(tiny_encoder, str(file), **fields)
    assert read.texts == list(LINES)
    MicoModel.from_encoder(str(tiny_encoder), **fields).save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path / "model")
    expected = eventformers.encode(tmp_path / "model", list(LINES))
    np.testing.assert_allclose(read.vectors, expected, atol=1e-5)
    for size, longest in ((2, 32), (256, 5)):
        monkeypatch.setattr(cached_arrays, "_BLOCK", size)
        again = _read(tiny_encoder, str(file), longest, **fields)
        assert np.allclose(again.vectors, expected, atol=1e-5) == (longest == 32)


def test_encoded_once(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _read(tiny_encoder, None)
    monkeypatch.setattr(cached_arrays, "encode_blocks", lambda *_: pytest.fail("encoded again"))
    np.testing.assert_array_equal(_read(tiny_encoder, None).vectors, first.vectors)


def test_bundled_sentences_are_those_of_other_samples() -> None:
    """They are sentences of the mentions and of the articles; none is part of a question or of a graph."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) == 648
    mentions, articles = (
        [json.loads(line) for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines()]
        for name in ("event_types/mentions.jsonl", "texts/news.jsonl")
    )
    known = {row["sentence"] for row in mentions}
    news = " ".join(row["text"] for row in articles)
    assert all(line in known or line in news for line in lines)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"\n \n", EventformersError, "setting distillation_texts: .*: no text; accepted: a file of plain"),
        (b"", DataFormatError, "an empty file"),
        (b"a storm\n\xff\n", DataFormatError, "line 2.*accepted: UTF-8"),
        (None, EventformersError, "setting distillation_texts: .*: no file; accepted: a file of plain text"),
    ],
)
def test_bad_files(
    tiny_encoder: Path, tmp_path: Path, content: bytes | None, error: type[Exception], message: str
) -> None:
    file = tmp_path / "texts.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(error, match=message):
        _read(tiny_encoder, str(file))


@pytest.mark.parametrize(("name", "found"), [("folder", "a folder"), ("rows.jsonl.gz", "not plain text")])
def test_other_kinds_of_files(tiny_encoder: Path, tmp_path: Path, name: str, found: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "rows.jsonl.gz").write_bytes(b"{}")
    with pytest.raises(EventformersError, match=f"setting distillation_texts: .*{name}: {found}; accepted"):
        _read(tiny_encoder, str(tmp_path / name))


def test_draws(tiny_encoder: Path) -> None:
    """Rows draw by themselves; those without a text do not count, and their other draws stay as they are."""
    texts = DistillationTexts(list(LINES), np.arange(6, dtype=np.float32).reshape(3, 2), report={})
    pairs = {"premise": ["p"] * 400, "alternative": [f"a{number}" for number in range(400)]}
    rows = PremiseRows(Dataset.from_dict({**pairs, "direction": ["forward"] * 400}))
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    collator = MicoCollator(tokenizer, rows.alternatives, seed=3, distillation=texts)
    items = [rows[index] for index in range(400)]
    batch = collator(items)
    counts = batch["distillation_mask"].float().mean()
    assert 0.25 < counts < 0.41
    read = tokenizer.batch_decode(batch["distillation_input_ids"], skip_special_tokens=True)
    drawn = set()
    for text, vector, kept in zip(
        read, batch["distillation_vectors"].tolist(), batch["distillation_mask"].tolist(), strict=True
    ):
        place = texts.vectors.tolist().index(vector)
        assert text == tokenizer.decode(tokenizer(LINES[place])["input_ids"], skip_special_tokens=True)
        assert kept or place == 0
        drawn.add(place)
    assert drawn == {0, 1, 2}
    halves = [collator(items[:150]), collator(items[150:])]
    for name in ("distillation_mask", "distillation_vectors"):
        assert torch.equal(torch.cat([half[name] for half in halves]), batch[name])
    collator.distillation = None
    plain = collator(items)
    assert not any(name.startswith("distillation") for name in plain)
    assert torch.equal(plain["alternative_ids"], batch["alternative_ids"])


def test_a_resume_needs_the_same_texts(tiny_encoder: Path, tmp_path: Path) -> None:
    """Also if only the file beside the graph has changed."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(LINES), encoding="utf-8")
    settings = [f"distillation_texts={file}", "distillation_weight=1", "max_steps=2", "save_steps=1"]
    again = partial(short_run, "mico", tiny_encoder, tmp_path / "run", *settings, recipe=QUICK, seed=1)
    run = again()
    assert run.data["sources"]["texts.txt"] == {"license": "unspecified"}
    assert "texts.txt" in {entry["name"] for entry in run.data["raw_files"]}
    file.write_text(LINES[0], encoding="utf-8")
    with pytest.raises(EventformersError, match=r"was trained on other rows \(fingerprint"):
        again(resume=True)
    file.write_text("\n".join(LINES), encoding="utf-8")
    assert again(resume=True).steps == 2


def test_texts_need_a_weight(tiny_encoder: Path, tmp_path: Path) -> None:
    settings = ["distillation_texts=texts.txt", "distillation_weight=0"]
    with pytest.raises(EventformersError, match=r"distillation_texts=texts.txt is used only with"):
        short_run("mico", tiny_encoder, tmp_path / "run", *settings, recipe=QUICK)
