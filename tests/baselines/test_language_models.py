"""Masked-LM scores: equal to a slow double-precision loop, whatever the batch; a missing head is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from eventformers.baselines import get_baseline
from eventformers.baselines.language_models import LanguageModel, choose_by_likelihood, load_language_model
from eventformers.errors import EventformersError
from eventformers.evaluation.results import read_result

ROWS = [
    {
        "premise": "the storm hit the city . as a",
        "alternatives": ["it flooded", "a vote"],
        "label": 0,
    },
    {"premise": "police", "alternatives": ["arrested the thief", "saved", "the river rose"], "label": 2},
]


@pytest.fixture(scope="module")
def folder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random masked language model with the vocabulary of the tiny encoder."""
    target = tmp_path_factory.mktemp("masked") / "model"
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(target)
    torch.manual_seed(3)
    config = BertConfig.from_pretrained(tiny_encoder, initializer_range=0.5)
    BertForMaskedLM(config).save_pretrained(target)
    return target


@pytest.fixture
def model(folder: Path) -> LanguageModel:
    return load_language_model(folder, device="cpu")


def slow_score(folder: Path, premise: str, alternative: str) -> float:
    """One row at a time in double precision, tokens of both sides taken apart."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    slow = BertForMaskedLM.from_pretrained(folder).double().eval()
    before, after = (
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in (premise, alternative)
    )
    ids = [tokenizer.cls_token_id, *before, *after, tokenizer.sep_token_id]
    total = 0.0
    for place in range(1 + len(before), 1 + len(before) + len(after)):
        masked = list(ids)
        masked[place] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = slow(input_ids=torch.tensor([masked])).logits[0, place]
        total += float(logits.log_softmax(0)[ids[place]])
    return total / len(after)


def test_scores_equal_a_slow_loop(model: LanguageModel, folder: Path) -> None:
    output = choose_by_likelihood(model, ROWS)
    expected = [[slow_score(folder, row["premise"], text) for text in row["alternatives"]] for row in ROWS]
    for scores, slow in zip(output.inputs["predictions"], expected, strict=True):
        np.testing.assert_allclose(scores, slow, rtol=1e-5)
    assert output.inputs["references"] == [0, 2]
    assert [len(row["scores"]) for row in output.predictions] == [2, 3]
    assert output.texts == 7
    assert model.truncated == 0


def test_the_batch_does_not_matter(model: LanguageModel) -> None:
    pairs = [(row["premise"], text) for row in ROWS for text in row["alternatives"]]
    np.testing.assert_allclose(model.score(pairs, batch_size=1), model.score(pairs), rtol=1e-5)


def test_a_long_premise_is_cut_at_its_start_and_counted(model: LanguageModel, folder: Path) -> None:
    words = ["storm"] * 20 + ["the", "city"] * 14
    # 32 tokens: two special ones, two of the alternative, the last 28 of the premise.
    long, short = (model.score([(" ".join(premise), "it flooded")]) for premise in (words, words[-28:]))
    assert long == short
    assert model.truncated == 0
    model.score([(" ".join(words), "it flooded")])
    assert model.truncated == 1


def test_an_alternative_longer_than_the_model_is_cut_at_its_end(model: LanguageModel) -> None:
    words = ["storm", "city"] * 30
    assert model.score([("the", " ".join(words))]) == model.score([("the", " ".join(words[:31]))])


def test_an_encoder_without_a_head_is_refused(tiny_encoder: Path) -> None:
    with pytest.raises(EventformersError, match=r"no trained masked-language-model head.*cls\.predictions"):
        load_language_model(tiny_encoder, device="cpu")


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"config\.json"):
        load_language_model(tmp_path)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([{"premise": "a", "alternatives": ["the"], "label": 0}], "at least two"),
        ([{"premise": "a", "alternatives": ["the", ""], "label": 0}], "has no token"),
    ],
)
def test_bad_rows_are_refused(model: LanguageModel, rows: list[dict[str, object]], fault: str) -> None:
    with pytest.raises(EventformersError, match=fault):
        choose_by_likelihood(model, rows)


def test_a_batch_size_below_one_is_refused(model: LanguageModel) -> None:
    with pytest.raises(EventformersError, match="batch_size"):
        model.score([("a", "the")], batch_size=0)


@pytest.mark.parametrize("task", ["copa", "siqa", "csqa"])
def test_the_result_is_like_that_of_a_model(task: str, folder: Path, tmp_path: Path) -> None:
    result = get_baseline("masked_lm")(task, model=folder, device="cpu", output=tmp_path)
    right = sum(bool(row["correct"]) for row in result.predictions)
    assert result.main_value == pytest.approx(100 * right / result.dataset.rows)
    assert result.model == "model, masked LM"
    (path,) = tmp_path.rglob(f"{task}.json")
    assert read_result(path) == result


@pytest.fixture(scope="module")
def causal_folder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random causal language model with the vocabulary of the tiny encoder."""
    target = tmp_path_factory.mktemp("causal") / "model"
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    tokenizer.save_pretrained(target)
    torch.manual_seed(3)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "initializer_range": 0.5}
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes)).save_pretrained(target)
    return target


def slow_causal_score(folder: Path, premise: str, alternative: str, last: int | None = None) -> float:
    """One prefix at a time in double precision, each without the tokens after it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    slow = GPT2LMHeadModel.from_pretrained(folder).double().eval()
    before, after = (
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in (premise, alternative)
    )
    before = [tokenizer.cls_token_id, *(before if last is None else before[-last:])]
    total = 0.0
    for place, token in enumerate(after):
        with torch.no_grad():
            logits = slow(input_ids=torch.tensor([[*before, *after[:place]]])).logits[0, -1]
        total += float(logits.log_softmax(0)[token])
    return total / len(after)


def test_causal_scores_equal_a_slow_loop(causal_folder: Path) -> None:
    model = load_language_model(causal_folder, causal=True, device="cpu")
    pairs = [(row["premise"], text) for row in ROWS for text in row["alternatives"]]
    expected = [slow_causal_score(causal_folder, *pair) for pair in pairs]
    np.testing.assert_allclose(model.score(pairs), expected, rtol=1e-5)
    np.testing.assert_allclose(model.score(pairs, batch_size=1), expected, rtol=1e-5)


def test_a_long_premise_of_a_causal_model_loses_its_start(causal_folder: Path) -> None:
    model = load_language_model(causal_folder, causal=True, device="cpu")
    words = " ".join(["storm", "city", "the"] * 20)
    # 32 tokens: two special ones, two of the alternative, the last 28 of the premise.
    (found,) = model.score([(words, "it flooded")])
    assert found == pytest.approx(slow_causal_score(causal_folder, words, "it flooded", last=28), rel=1e-5)
    assert model.truncated == 1


def test_a_causal_model_answers_questions(causal_folder: Path) -> None:
    result = get_baseline("causal_lm")("copa", model=causal_folder, device="cpu")
    assert result.model == "model, causal LM"
    assert result.settings["scoring"].startswith("log-likelihood")


def test_a_masked_model_is_no_causal_one(tiny_encoder: Path) -> None:
    with pytest.raises(EventformersError, match=r"no trained causal-language-model head"):
        load_language_model(tiny_encoder, causal=True, device="cpu")
