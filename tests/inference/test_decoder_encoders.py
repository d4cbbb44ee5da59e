"""Decoder-only embedders: last-token pooling on either side of the padding, prompts, truncated vectors."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tiny import save_tiny_qwen3
from transformers import AutoModel, AutoTokenizer

import eventformers
from eventformers import SwccModel
from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.base import TaskRows, TaskSettings
from eventformers.evaluation.tasks.graph import (
    GraphSettings,
    PremiseModel,
    choose_alternatives,
    rank_alternatives,
)
from eventformers.inference.commonsense.complete import answer
from eventformers.inference.encode import load_encoder
from eventformers.inference.encoding.event_files import embed_file
from eventformers.inference.grounding.encoding import encode_texts
from eventformers.models.grounding_tokens import EventText, MentionText
from eventformers.models.pooling import POOLINGS
from eventformers.models.processing_event_type_induction import EventTypeInductionProcessor
from eventformers.models.processing_heterevent import HeterEventProcessor
from eventformers.trainers.swcc import SwccCollator

TEXTS = [
    "police arrested thief",
    "the storm",
    "the company bought the bank of the river in the city",
    "a fire",
]


@torch.no_grad()
def last_tokens(folder: Path, texts: list[str], prompt: str = "") -> np.ndarray:
    """The last token's vector of each text, as a user of transformers alone computes it."""
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer([prompt + text for text in texts], padding=True, return_tensors="pt")
    hidden = model(**encoded).last_hidden_state
    if tokenizer.padding_side == "left":
        return hidden[:, -1].numpy()
    last = encoded["attention_mask"].sum(dim=1) - 1
    return hidden[torch.arange(len(texts)), last].numpy()


@pytest.mark.parametrize("side", ["left", "right"])
def test_vectors_are_those_of_the_last_tokens(side: str, tmp_path: Path) -> None:
    folder = save_tiny_qwen3(tmp_path / "qwen3", padding_side=side)
    encoder = load_encoder(folder, device="cpu")
    assert encoder.model.config.pooling == "lasttoken"
    expected = np.concatenate([last_tokens(folder, [text]) for text in TEXTS])
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    np.testing.assert_allclose(last_tokens(folder, TEXTS), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=0, atol=1e-5)
    batch = encoder.model.make_processor(encoder.tokenizer)(TEXTS)
    assert int(batch["attention_mask"][1, 0]) == (side == "right")
    with torch.no_grad():
        found = encoder.model(**batch).embeddings
        # Heads encode several batches of different widths together.
        one = encoder.model.make_processor(encoder.tokenizer)(TEXTS[1])
        inputs = [(part["input_ids"], part["attention_mask"]) for part in (batch, one)]
        together = [encoder.model.pool(*group) for group in encoder.model.encode_together(inputs)]
    for vectors in (found, together[0]):
        np.testing.assert_allclose(vectors.numpy(), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(together[1].numpy(), expected[1:2], rtol=0, atol=1e-5)


def test_last_token_of_masks_in_any_place() -> None:
    hidden = torch.arange(8.0).view(2, 4, 1)
    mask = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0]])
    assert POOLINGS["lasttoken"](hidden, mask).flatten().tolist() == [2.0, 4.0]
    assert POOLINGS["lasttoken"](hidden, mask.bool()).flatten().tolist() == [2.0, 4.0]
    assert POOLINGS["lasttoken"](hidden).flatten().tolist() == [3.0, 7.0]


def test_pooling_and_prompts_of_a_sentence_transformer(tiny_qwen3: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(str(tiny_qwen3), device="cpu")
    for name, encode in (
        ("event", model.encode),
        ("query", model.encode_query),
        ("document", model.encode_document),
    ):
        found = eventformers.encode(tiny_qwen3, TEXTS, normalize=True, prompt_name=name, device="cpu")
        np.testing.assert_allclose(found, encode(TEXTS), rtol=0, atol=1e-5)
    queries = eventformers.encode(tiny_qwen3, TEXTS, prompt_name="query", device="cpu")
    np.testing.assert_allclose(queries, last_tokens(tiny_qwen3, TEXTS, "find: "), rtol=0, atol=1e-5)
    with pytest.raises(EventformersError, match="prompt name 'passage'; accepted: event, query, document"):
        eventformers.encode(tiny_qwen3, TEXTS, prompt_name="passage", device="cpu")


def test_truncated_vectors_have_length_one(tiny_qwen3: Path, tmp_path: Path) -> None:
    whole = eventformers.encode(tiny_qwen3, TEXTS, device="cpu")
    expected = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True)
    found = eventformers.encode(tiny_qwen3, TEXTS, truncate_dim=8, device="cpu")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    with pytest.raises(EventformersError, match="truncate_dim is 64; accepted: 1 to 32"):
        eventformers.encode(tiny_qwen3, TEXTS, truncate_dim=64, device="cpu")
    (tmp_path / "events.txt").write_text("\n".join(TEXTS))
    report = embed_file(
        tiny_qwen3,
        tmp_path / "events.txt",
        tmp_path / "vectors.parquet",
        prompt_name="query",
        truncate_dim=8,
        device="cpu",
    )
    assert report.dimension == 8
    column = pq.read_table(tmp_path / "vectors.parquet").column("embedding").to_pylist()
    queries = last_tokens(tiny_qwen3, TEXTS, "find: ")[:, :8]
    np.testing.assert_allclose(
        np.array(column), queries / np.linalg.norm(queries, axis=1, keepdims=True), rtol=0, atol=1e-5
    )


def test_the_first_token_of_a_decoder_is_not_pooled(tiny_qwen3: Path) -> None:
    with pytest.raises(EventformersError, match=r"qwen3 encoder is decoder-only.*accepted: 'lasttoken'"):
        load_encoder(tiny_qwen3, pooling="cls", device="cpu")
    # Its own default is the first token, which only encoders that read both sides have.
    assert SwccModel.from_encoder(str(tiny_qwen3)).config.pooling == "lasttoken"


def test_the_example_of_the_page(
    tiny_qwen3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    section = page.split("\n## Decoder-only")[1].split("\n## ")[0]
    [(code, told)] = re.findall(
        r"^```python\n(.*?)^```\n+^```\n(.*?)^```$", section, re.DOTALL | re.MULTILINE
    )
    shutil.copytree(tiny_qwen3, tmp_path / "my-decoder")
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # noqa: S102 - the example is the page's own
    assert capsys.readouterr().out == told


def test_each_kind_of_text_has_its_prompt(tiny_qwen3: Path) -> None:
    encoder = load_encoder(tiny_qwen3, device="cpu")
    encoder.prompts = {"query": "find: ", "document": "the "}
    premise, *alternatives = TEXTS
    query = encoder.encode(f"find: {premise}", normalize=True, prompt_name=None)
    found = encoder.encode([f"the {text}" for text in alternatives], normalize=True, prompt_name=None)
    cosines = found @ query
    assert np.abs(cosines - encoder.encode(alternatives, normalize=True) @ query).max() > 1e-3
    np.testing.assert_allclose(answer(encoder, premise, alternatives).scores, cosines, rtol=0, atol=1e-5)
    mention = encode_texts(encoder, "mention", [MentionText("", premise, "")]).vectors
    events = encode_texts(encoder, "event", [EventText(text) for text in alternatives]).vectors
    np.testing.assert_allclose(mention[0] @ events.T, cosines, rtol=0, atol=1e-5)
    model = PremiseModel(partial(encoder.encode, prompt_name=None), prompt=encoder.prompt)
    question = {"premise": premise, "alternatives": alternatives, "label": 0}
    [scores] = choose_alternatives(model, TaskRows([question]), TaskSettings()).inputs["predictions"]
    np.testing.assert_allclose(scores, cosines, rtol=0, atol=1e-5)
    rows = [{"premise": premise, "alternative": text, "direction": "forward"} for text in alternatives]
    others = [{**row, "premise": "a man"} for row in rows]
    data = TaskRows(rows[:1], {"train": others})
    [rank] = rank_alternatives(model, data, GraphSettings()).inputs["predictions"]
    assert rank == 1 + int((cosines > cosines[0]).sum())


def test_roles_and_triggers_are_found_after_a_prompt(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    prompts = {"event": "the judge said : "}
    event = {"subject": "police", "predicate": "arrested", "object": "the thief"}
    plain, prompted = (HeterEventProcessor(tokenizer, prompts=chosen)([event]) for chosen in (None, prompts))
    shift = prompted["input_ids"].shape[1] - plain["input_ids"].shape[1]
    assert shift == 4
    for name, nothing in (("role_masks", False), ("word_index", -1)):
        assert torch.equal(prompted[name][..., shift + 1 :], plain[name][..., 1:])
        assert bool((prompted[name][..., : shift + 1] == nothing).all())
    mention = {"text": "police arrested the thief", "trigger_start": 7, "trigger_end": 15}
    processor = EventTypeInductionProcessor(tokenizer, trigger_input="span", prompts=prompts)
    found = processor(mention)
    trigger = found["input_ids"][found["trigger_mask"]]
    assert tokenizer.convert_ids_to_tokens(trigger) == ["arrested"]


def test_a_prompt_is_not_masked(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    collator = SwccCollator(
        tokenizer, "subject_predicate_object", "constant", 1, 1, 0, prompt="the judge said : "
    )
    event = {"subject": "a", "predicate": "fell", "object": ""}
    row = {"event": event, "co_events": [event], "frequencies": [1]}
    batch = collator([{"row": number, **row} for number in range(30)])
    assert set(batch["masked_positions"].tolist()) == {5, 6}
