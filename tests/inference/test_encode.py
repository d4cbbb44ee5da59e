"""Encoding: the vectors are those of a plain padded pass, whatever is done for speed."""

from __future__ import annotations

import random
import re
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tiny import WORDS, save_tiny_qwen3
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
from eventformers.inference import encode as encode_module
from eventformers.inference.commonsense.complete import answer
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.batches import equal_length_batches
from eventformers.inference.encoding.event_files import embed_file
from eventformers.inference.grounding.encoding import encode_texts
from eventformers.models.pooling import POOLINGS
from eventformers.models.processing_event_grounding import EventText, MentionText
from eventformers.models.processing_event_type_induction import EventTypeInductionProcessor
from eventformers.models.processing_heterevent import HeterEventProcessor
from eventformers.trainers.swcc import SwccCollator


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny products on several threads mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def texts_of_words(number: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)  # noqa: S311 - no secret depends on it
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(number)]


def padded_vectors(encoder: EventEncoder, texts: list[str]) -> np.ndarray:
    """What the model gives for one padded batch with its mask."""
    batch = encoder.tokenizer(
        texts, padding=True, truncation=True, max_length=encoder.max_length, return_tensors="pt"
    )
    with torch.no_grad():
        return encoder.model.eval()(**batch).embeddings.numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("number", [40, 700])
def test_vectors_equal_a_padded_pass(tiny_encoder: Path, pooling: str, number: int) -> None:
    encoder = load_encoder(tiny_encoder, pooling=pooling, device="cpu")
    texts = texts_of_words(number)
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, padded_vectors(encoder, texts), atol=1e-5)


def test_distinct_texts_are_encoded_once_in_batches_of_one_length(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[list[int]]] = []
    forward = encode_module.forward_batch

    def counting(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> np.ndarray:
        batches.append(tensors["input_ids"].tolist())
        return forward(model, tensors)

    monkeypatch.setattr(encode_module, "forward_batch", counting)
    monkeypatch.setattr(encode_module, "BLOCK_TEXTS", 16)
    distinct = sorted(set(texts_of_words(60)))
    repeated = [*distinct, *reversed(distinct), distinct[3]]
    vectors = encoder.encode(repeated)
    assert sum(map(len, batches)) == len(distinct)
    assert all(len({len(ids) for ids in batch}) == 1 for batch in batches)
    np.testing.assert_allclose(vectors, padded_vectors(encoder, repeated), atol=1e-5)


def test_texts_of_the_same_tokens_have_the_same_vector_to_the_last_bit(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    forward = encode_module.forward_batch
    monkeypatch.setattr(
        encode_module,
        "forward_batch",
        lambda model, tensors: (counted.append(len(tensors["input_ids"])), forward(model, tensors))[1],
    )
    monkeypatch.setattr(encode_module, "BLOCK_TEXTS", 7)
    texts = sorted(set(texts_of_words(40)))
    spaced = [f" {text.replace(' ', '  ').upper()} " for text in texts]
    vectors = encoder.encode([*texts, *spaced, texts[0], spaced[0]])
    assert sum(counted) == len(texts)
    assert np.array_equal(vectors[: len(texts)], vectors[len(texts) : 2 * len(texts)])
    assert np.array_equal(vectors[-1], vectors[0])
    np.testing.assert_allclose(vectors[: len(texts)], padded_vectors(encoder, texts), atol=1e-5)


def test_batch_size_bounds_the_rows(encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    forward = encode_module.forward_batch
    monkeypatch.setattr(
        encode_module,
        "forward_batch",
        lambda model, tensors: (sizes.append(len(tensors["input_ids"])), forward(model, tensors))[1],
    )
    encoder.encode(texts_of_words(50), batch_size=4)
    assert max(sizes) == 4
    for wrong in (0, -1, "many", 2.5):
        with pytest.raises(EventformersError, match="batch_size"):
            encoder.encode(["police"], batch_size=wrong)  # type: ignore[arg-type]


def test_padded_batches_of_an_accelerator_change_nothing(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = texts_of_words(60)
    expected = encoder.encode(texts)
    sizes = []

    def fill(*arguments: object, **settings: object) -> list[np.ndarray]:
        batches = equal_length_batches(*arguments, **{**settings, "fill_tokens": 200})
        sizes.append(len(batches))
        return batches

    monkeypatch.setattr(encode_module, "equal_length_batches", fill)
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)
    assert sizes[0] < len({len(encoder.tokenizer(text)["input_ids"]) for text in texts})


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing_and_stay_as_they_were(encoder: EventEncoder, threads: int) -> None:
    texts = texts_of_words(300)
    expected = padded_vectors(encoder, texts)
    torch.set_num_threads(threads)
    np.testing.assert_allclose(encoder.encode(texts, batch_size=8), expected, atol=1e-5)
    assert torch.get_num_threads() == threads


def test_error_in_a_worker_reaches_the_caller(encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> np.ndarray:
        raise EventformersError("out of memory")

    monkeypatch.setattr(encode_module, "forward_batch", fail)
    torch.set_num_threads(2)
    with pytest.raises(EventformersError, match="out of memory"):
        encoder.encode(texts_of_words(100), batch_size=2)


def test_out_of_memory_is_told_in_one_line(encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> np.ndarray:
        raise torch.OutOfMemoryError("a page of numbers")

    monkeypatch.setattr(encode_module, "forward_batch", fail)
    with pytest.raises(EventformersError, match=r"2 texts of 4 tokens; lower the batch size"):
        encoder.encode(["police arrested", "storm flooded"])


def test_a_model_in_training_stays_as_it_is(encoder: EventEncoder) -> None:
    texts, encoder = texts_of_words(600), deepcopy(encoder)
    encoder.model.train()
    first = encoder.encode(texts)
    assert encoder.model.training
    assert all(module.training for module in encoder.model.modules())
    np.testing.assert_array_equal(first, encoder.encode(texts))
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.data.mul_(1.1)
    changed = encoder.encode(texts)
    assert np.abs(changed - first).max() > 1e-3
    np.testing.assert_allclose(changed, padded_vectors(encoder, texts), atol=1e-5)
    assert all(parameter.requires_grad for parameter in encoder.model.parameters())


def test_events_follow_the_order_of_roles(tiny_encoder: Path) -> None:
    event = {"subject": "police", "predicate": "arrested", "object": ""}
    usual = load_encoder(tiny_encoder)
    predicate_first = load_encoder(tiny_encoder, event_order="predicate_first")
    assert usual.texts([event, "police arrested"]) == ["police arrested"] * 2
    assert predicate_first.texts([event]) == ["arrested police"]
    np.testing.assert_allclose(predicate_first.encode([event]), usual.encode(["arrested police"]), atol=1e-6)


def test_one_alone_gives_one_vector(encoder: EventEncoder) -> None:
    event = {"subject": "police", "predicate": "arrested", "object": "thief"}
    alone = encoder.encode("police arrested thief")
    assert alone.shape == (encoder.dimension,)
    np.testing.assert_array_equal(alone, encoder.encode(event))
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_normalize(encoder: EventEncoder) -> None:
    texts = texts_of_words(20)
    plain, unit = encoder.encode(texts), encoder.encode(texts, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_cut_texts_are_counted_with_their_repeats(encoder: EventEncoder) -> None:
    fits = " ".join(["police"] * (encoder.max_length - 2))
    longer = f"{fits} police"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode([fits])
    assert encoder.truncated == 0
    with pytest.warns(UserWarning, match=r"2 of 3 texts have more than 32 tokens"):
        vectors = encoder.encode([longer, fits, longer])
    assert encoder.truncated == 2
    # Records hold it as JSON.
    assert type(encoder.truncated) is int
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (3, "found int"),
        ("  ", "without any word"),
        ({"subject": "", "predicate": "", "object": ""}, "without any word"),
        ({"subject": "police"}, "the keys subject; accepted: .* predicate"),
        ({"subject": "police", "predicate": 0, "object": ""}, "the predicate 0"),
        (
            {"subject": "police", "pred": "arrested", "object": ""},
            r"the key 'pred' \(did you mean 'predicate'",
        ),
    ],
)
def test_items_that_are_no_events(encoder: EventEncoder, item: object, found: str) -> None:
    with pytest.raises(EventformersError, match=f"item 1: .*{found}"):
        encoder.encode(["police", item])  # type: ignore[list-item]


def test_public_function_takes_names_and_loaded_encoders(tiny_encoder: Path, encoder: EventEncoder) -> None:
    texts = ["police arrested man", "storm destroyed house"]
    expected = encoder.encode(texts)
    np.testing.assert_array_equal(eventformers.encode(tiny_encoder, texts), expected)
    np.testing.assert_array_equal(eventformers.encode(encoder, texts), expected)
    with pytest.raises(EventformersError, match="apply when a model is loaded"):
        eventformers.encode(encoder, texts, pooling="cls")


def test_progress_bar_goes_to_standard_error(
    encoder: EventEncoder, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder.encode(["police arrested man"], show_progress=True)
    captured = capsys.readouterr()
    assert "encoding" in captured.err
    assert captured.out == ""
    encoder.encode([], show_progress=True)
    assert capsys.readouterr().err == ""


def test_vectors_equal_those_of_sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = load_encoder(None, device="cpu")
    texts = [*texts_of_words(30), "the committee's chairwoman has not, so far, commented on Zürich's 3-1 win"]
    peer = sentence_transformers.SentenceTransformer(str(encoder_folder()), device="cpu")
    expected = peer.encode(texts, normalize_embeddings=True)
    for pays_from in (1, 1_000_000):
        monkeypatch.setattr(encode_module, "PACKING_PAYS_FROM_TEXTS", pays_from)
        np.testing.assert_allclose(encoder.encode(texts, normalize=True), expected, atol=1e-5)
    assert encoder.name == "all-MiniLM-L6-v2"
    assert encoder.max_length == peer.max_seq_length


def encoder_folder() -> str:
    from eventformers.loading.encoders import resolve_encoder

    return resolve_encoder(None)


def test_threads_share_an_encoder(tiny_encoder: Path) -> None:
    """No thread may change the truncation or the padding between setting and using them."""
    encoder = load_encoder(tiny_encoder, device="cpu")
    texts = ["police arrested thief " * 40]
    backend = type(encoder.tokenizer)
    change, first_changed, truncation_off = backend.set_truncation_and_padding, Event(), Event()

    def change_slowly(tokenizer: Any, **settings: Any) -> None:
        """The first to change them goes on when another thread has switched truncation off."""
        change(tokenizer, **settings)
        if not first_changed.is_set():
            first_changed.set()
            truncation_off.wait(0.5)
        elif settings["truncation_strategy"] == "do_not_truncate":
            truncation_off.set()

    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore")
        expected = encoder.encode(texts)
        with mock.patch.object(backend, "set_truncation_and_padding", change_slowly):
            first = pool.submit(encoder.encode, texts)
            assert first_changed.wait(60)
            second = pool.submit(encoder.encode, texts)
            for found in (first.result(), second.result()):
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_an_unknown_setting_names_the_public_method() -> None:
    with pytest.raises(TypeError, match=r"EventEncoder\.from_pretrained\(\) got an unexpected .*'nope'"):
        EventEncoder.from_pretrained(None, nope=1)  # type: ignore[call-arg]


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
