"""Folders of finished runs as models of sentence-transformers; tests/hub has those of a Hub."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder
from transformers import AutoModel, AutoTokenizer

import eventformers
from eventformers.files import staged_folder
from eventformers.inference.encode import load_encoder
from eventformers.inference.grounding.encoding import EventText, encode_texts
from eventformers.loading.encoders import resolve_encoder
from eventformers.model_cards.method import load_method_card, run_snippet, snippet_code
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files
from eventformers.publishing.folders import FILES_OF_A_MODEL
from eventformers.trainers.mico import MicoCollator

sentence_transformers = pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed"
)

# Of different lengths, and one longer than tokenizer and encoder read, so that texts are cut and padded.
TEXTS = ["storm flooded city", "police arrested thief " * 30, "a", "company bought bank of the river"]
EVENTS = [
    # Whole it has more tokens than some budgets; the title has not, so that both cut the description.
    EventText("storm", "it flooded the city and the bank of the river"),
    EventText("trial"),
]
EVENT_TEXTS = [f"{title} [ENT_TITLE] {description}".strip() for title, description in EVENTS]
MODELS = {
    "swcc": (eventformers.SwccModel, {"pooling": "cls"}),
    "swcc with projection": (eventformers.SwccModel, {"pooling": "mean", "projection_dim": 7}),
    "swcc truncated, with prompts": (
        eventformers.SwccModel,
        {"truncate_dim": 5, "prompts": {"event": "the fire : "}},
    ),
    "mico": (eventformers.MicoModel, {}),
    "type induction": (eventformers.EventTypeInductionModel, {"trigger_input": "none", "projection_dim": 7}),
    "type induction, triggers found": (
        eventformers.EventTypeInductionModel,
        {"trigger_input": "found", "trained_types": ["Attack", "Trial"]},
    ),
}
TOWERS = {
    "two towers": {"pooling": "cls"},
    "two towers with projection": {"pooling": "mean", "projection_dim": 7, "event_tokens": 12},
    "two towers, truncated": {"pooling": "mean", "projection_dim": 7, "truncate_dim": 5},
    "one tower, truncated": {"share_towers": True, "truncate_dim": 5},
    "one tower at length 1": {"share_towers": True, "normalise": True, "event_tokens": 12},
}


def saved(name: str, encoder: Path, folder: Path) -> Path:
    """A tiny model of that name with what sentence-transformers needs."""
    if name in TOWERS:
        save_tiny_bi_encoder(encoder, folder, **TOWERS[name])
    else:
        model_class, fields = MODELS[name]
        torch.manual_seed(0)
        model_class.from_encoder(str(encoder), **fields).save_pretrained(folder)
        # One tokenizer knows no limit, so that the encoder's 64 positions are it.
        limit = {"model_max_length": 10**30} if name == "swcc" else {}
        AutoTokenizer.from_pretrained(encoder, **limit).save_pretrained(folder)
        return folder
    loaded = load_encoder(folder, device="cpu")
    write_sentence_transformers_files(loaded.model, folder, loaded.tokenizer)
    return folder


@pytest.fixture(scope="module")
def folders(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: saved(name, tiny_encoder, root / name.replace(" ", "-")) for name in (*MODELS, *TOWERS)}


@pytest.mark.filterwarnings("ignore:.*were truncated")
@pytest.mark.parametrize("name", [*MODELS, *TOWERS])
def test_vectors_equal_those_of_encode(folders: dict[str, Path], name: str) -> None:
    model = sentence_transformers.SentenceTransformer(str(folders[name]), device="cpu")
    vectors = model.encode(TEXTS)
    expected = eventformers.encode(folders[name], TEXTS, device="cpu")
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    assert model.get_embedding_dimension() == expected.shape[1]
    assert model.similarity_fn_name == ("dot" if name in TOWERS else "cosine")


def test_vectors_of_tokens(folders: dict[str, Path]) -> None:
    for name in ("swcc", "mico", "two towers"):
        model = sentence_transformers.SentenceTransformer(str(folders[name]), device="cpu")
        (tokens,) = model.encode(["police arrested thief"], output_value="token_embeddings")
        output = AutoModel.from_pretrained(folders[name])(
            **AutoTokenizer.from_pretrained(folders[name])(["police arrested thief"], return_tensors="pt")
        )
        torch.testing.assert_close(tokens, output.last_hidden_state[0])


@pytest.mark.filterwarnings("ignore:.*were truncated")
@pytest.mark.parametrize("name", TOWERS)
def test_each_side_is_a_model_of_its_own(folders: dict[str, Path], name: str) -> None:
    folder = folders[name]
    encoder = load_encoder(folder, device="cpu")
    expected = encode_texts(encoder, "event", EVENTS).vectors
    whole = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    alone = sentence_transformers.SentenceTransformer(str(folder / "event"), device="cpu")
    for vectors in (whole.encode_document(EVENT_TEXTS), alone.encode(EVENT_TEXTS)):
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    mentions = sentence_transformers.SentenceTransformer(str(folder / "mention"), device="cpu")
    expected = encoder.encode(TEXTS)
    for vectors in (whole.encode_query(TEXTS), mentions.encode(TEXTS)):
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    assert alone.similarity_fn_name == mentions.similarity_fn_name == "dot"
    is_shared = "share_towers" in TOWERS[name]
    weights = (folder / side / "model.safetensors" for side in ("mention", "event"))
    assert len({path.stat().st_ino for path in weights}) == (1 if is_shared else 2)


@pytest.mark.parametrize("name", ["swcc", "mico", "type induction, triggers found", "two towers"])
def test_the_example_of_the_card(folders: dict[str, Path], name: str) -> None:
    """The card shows it without running it: what it gives is the output of the example before."""
    config = load_encoder(folders[name], device="cpu").model.config
    [example] = [
        snippet
        for snippet in load_method_card(config.model_type).parts(config.to_dict()).usage
        if "sentence-transformers" in snippet.title
    ]
    assert run_snippet(example, folders[name], "model") is example
    scope: dict[str, Any] = {}
    exec(snippet_code(example, str(folders[name])), scope)  # noqa: S102 - it is the card's own
    if name in TOWERS:
        encoder = load_encoder(folders[name], device="cpu")
        mentions = encoder.encode(scope["mentions"])
        events = encode_texts(
            encoder, "event", [EventText(*text.split(" [ENT_TITLE] ")) for text in scope["events"]]
        )
        np.testing.assert_allclose(scope["scores"], mentions @ events.vectors.T, rtol=0, atol=1e-5)
    else:
        expected = eventformers.encode(folders[name], scope["texts"], normalize=True, device="cpu")
        np.testing.assert_allclose(scope["embeddings"], expected, rtol=0, atol=1e-5)


def _refused(folder: Path) -> None:
    """Check that sentence-transformers refuses the model; without files it would give other vectors."""
    AutoModel.from_pretrained(folder).save_pretrained(folder)
    loaded = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    with pytest.raises(ValueError, match=r"^a .* needs .*accepted: eventformers\.encode"):
        loaded.encode(TEXTS)


@pytest.mark.parametrize("trigger_input", ["marked", "span", "marked_span"])
def test_a_model_that_reads_triggers_is_refused(
    tiny_encoder: Path, tmp_path: Path, trigger_input: str
) -> None:
    model = eventformers.EventTypeInductionModel.from_encoder(str(tiny_encoder), trigger_input=trigger_input)
    assert not model.config.reads_text_alone
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path)
    _refused(tmp_path)


def test_prompts_of_the_user_are_saved(folders: dict[str, Path], tmp_path: Path) -> None:
    prompts = {"query": "find: ", "document": ""}
    model = sentence_transformers.SentenceTransformer(str(folders["swcc"]), prompts=prompts, device="cpu")
    vectors = model.encode(TEXTS[:1], prompt_name="query")
    model.save_pretrained(str(tmp_path), create_model_card=False)
    saved = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    assert saved.prompts == prompts
    np.testing.assert_allclose(saved.encode(TEXTS[:1], prompt_name="query"), vectors, atol=1e-6)


def test_a_model_of_chains_is_refused(tiny_heterevent: Path, tmp_path: Path) -> None:
    _refused(Path(shutil.copytree(tiny_heterevent, tmp_path / "chains")))


def test_a_model_of_pairs_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    _refused(save_tiny_cross_encoder(tiny_encoder, tmp_path / "cross"))


@pytest.mark.filterwarnings("ignore:.*were truncated")
@pytest.mark.parametrize("fields", [*TOWERS.values(), {"prompts": {"document": "a "}, "event_tokens": 20}])
def test_two_towers_saved_without_a_tokenizer(
    tiny_encoder: Path, tmp_path: Path, fields: dict[str, Any]
) -> None:
    """`save_pretrained` of the model and plain `Trainer.save_model` do not know the tokenizer."""
    folder = save_tiny_bi_encoder(tiny_encoder, tmp_path / "towers", **fields)
    model = AutoModel.from_pretrained(folder)
    if model.event_tower is not None:
        model.event_tower.encoder.embeddings.word_embeddings.weight.data.mul_(2)
    model.save_pretrained(folder)
    encoder = load_encoder(folder, device="cpu")
    mentions = encoder.encode(TEXTS)
    for _ in range(2):
        loaded = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        assert loaded.similarity_fn_name == "dot"
        assert loaded.get_embedding_dimension() == mentions.shape[1]
        for vectors in (loaded.encode(TEXTS), loaded.encode_query(TEXTS)):
            np.testing.assert_allclose(vectors, mentions, rtol=0, atol=1e-5)
        expected = encode_texts(encoder, "event", EVENTS).vectors
        np.testing.assert_allclose(loaded.encode_document(EVENT_TEXTS), expected, rtol=0, atol=1e-5)
        if "prompts" in fields:
            with pytest.raises(ValueError, match=r"found events of up to \d+ tokens .* limit is \d+ tokens"):
                loaded.encode_document(TEXTS[1] * 3)
        folder = tmp_path / "again"
        loaded.save_pretrained(str(folder))
        np.testing.assert_allclose(eventformers.encode(folder, TEXTS), mentions, rtol=0, atol=1e-5)


LONG_TEXT = " ".join(f"police arrested thief number {number}" for number in range(50))


def test_a_saved_tokenizer_keeps_nothing_of_its_last_call(tmp_path: Path) -> None:
    """On real weights, whose `tokenizer.json` truncates and pads to 128 tokens."""
    encoder = resolve_encoder(None)
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = eventformers.SwccModel.from_encoder(encoder)
    trainer = transformers.Trainer(
        model, transformers.TrainingArguments(str(tmp_path), report_to=[]), processing_class=tokenizer
    )
    MicoCollator(tokenizer, None, seed=0).encode([LONG_TEXT, "storm"], "event")
    trainer.save_model(str(tmp_path / "trainer"))
    processor = model.make_processor(AutoTokenizer.from_pretrained(encoder))
    model.save_pretrained(tmp_path / "processor")
    processor(text=[LONG_TEXT, "storm"], truncation=True, padding=True, max_length=16)
    processor.save_pretrained(tmp_path / "processor")
    whole = len(tokenizer(LONG_TEXT)["input_ids"])
    expected = eventformers.encode(tmp_path / "trainer", [LONG_TEXT], device="cpu")
    for folder in (tmp_path / "trainer", tmp_path / "processor"):
        alone = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        assert alone.truncation is None
        assert alone.padding is None
        assert len(alone.encode(LONG_TEXT).ids) == whole > 200
        loaded = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        assert loaded.max_seq_length == AutoTokenizer.from_pretrained(folder).model_max_length == 512
        np.testing.assert_allclose(loaded.encode([LONG_TEXT]), expected, rtol=0, atol=1e-5)


def test_files_of_an_earlier_save_are_replaced(folders: dict[str, Path], tmp_path: Path) -> None:
    """While sentence-transformers saves, its own files stay; those of an earlier save do not."""
    sentence_transformers.SentenceTransformer(str(folders["mico"]), device="cpu").save_pretrained(
        str(tmp_path)
    )
    AutoModel.from_pretrained(folders["swcc with projection"]).save_pretrained(tmp_path)
    vectors = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS[:1])
    np.testing.assert_allclose(
        vectors, eventformers.encode(tmp_path, TEXTS[:1], device="cpu"), rtol=0, atol=1e-5
    )


def test_nothing_of_an_earlier_model_stays(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(folders["two towers"], folder)
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_text("x")
    with staged_folder(folder, replaced=FILES_OF_A_MODEL) as staging:
        (staging / "config.json").write_text("{}")
    assert {path.name for path in folder.iterdir() if path.suffix != ".py"} == {"config.json"}
