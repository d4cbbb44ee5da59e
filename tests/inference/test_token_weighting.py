"""Clustering in rounds, with tokens weighted by the clusters found before."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from eventformers.errors import EventformersError
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.induction import InductionSettings, induce_types, mention_model
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.induction.fitted_types import load_fitted_types
from eventformers.inference.induction.induce import induce
from eventformers.inference.induction.mention_encoding import (
    cluster_dependence,
    encode_mentions,
    token_factors,
)
from eventformers.inference.induction.report import write_induction
from eventformers.models.modeling_event_type_induction import EventTypeInductionModel

VERBS = ("arrested", "flooded", "sold")
OBJECTS = ("the house", "the man", "a car", "the bank")
TEXTS = [f"the firm {verb} {what}" for verb in VERBS for what in OBJECTS]
MENTIONS = [{"text": text, "trigger_start": -1, "trigger_end": -1} for text in TEXTS]
BY_VERB = np.repeat(np.arange(3), 4)
BY_OBJECT = np.tile(np.arange(4), 3)


@pytest.fixture
def folder(tiny_encoder: Path, tmp_path: Path) -> Path:
    """A model that averages tokens and clusters again once."""
    torch.manual_seed(0)
    model = EventTypeInductionModel.from_encoder(
        str(tiny_encoder), trigger_input="found", pooling="mean", found_exponent=0.25, weighting_rounds=1
    )
    model.save_pretrained(tmp_path / "model")
    load_encoder(tiny_encoder).tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def encoder(folder: Path) -> EventEncoder:
    return load_encoder(folder, device="cpu")


def factors_by_word(encoder: EventEncoder, clusters: np.ndarray) -> dict[str, float]:
    found = token_factors(encoder, None, MENTIONS, clusters)
    assert found is not None
    words = {word for text in TEXTS for word in text.split()}
    tokens = {word: encoder.tokenizer.encode(word, add_special_tokens=False) for word in words}
    return {word: float(found[ids[0]]) for word, ids in tokens.items() if len(ids) == 1}


def slow_dependence(rows: list[set[int]], labels: list[int], token: int) -> float:
    total = 0.0
    for cluster, size in Counter(labels).items():
        inside = sum(token in row for row, label in zip(rows, labels, strict=True) if label == cluster)
        everywhere = sum(token in row for row in rows)
        table = [(inside, everywhere * size), (size - inside, (len(rows) - everywhere) * size)]
        table += [
            (everywhere - inside, everywhere * (len(rows) - size)),
            (len(rows) - size - everywhere + inside, (len(rows) - everywhere) * (len(rows) - size)),
        ]
        g2 = 2 * sum(count * math.log(count * len(rows) / product) for count, product in table if count)
        total += g2 if inside * len(rows) > everywhere * size else 0
    return total


def test_dependence_of_random_tokens() -> None:
    generator = np.random.default_rng(5)
    present = generator.random((40, 15)) < 0.3
    labels = generator.integers(0, 4, 40)
    found = cluster_dependence(csr_array(present.astype(float)), labels)
    rows = [set(np.flatnonzero(row).tolist()) for row in present]
    expected = [slow_dependence(rows, labels.tolist(), token) for token in range(15)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_dependence_of_a_token_that_a_cluster_has_alone() -> None:
    present = csr_array(np.array([[1, 1], [1, 1], [0, 1], [0, 1]], dtype=float))
    # 2 (2 ln 2 + 2 ln 2) for the token of the first cluster; nothing for one that is everywhere.
    found = cluster_dependence(present, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(found, [8 * math.log(2), 0.0], atol=1e-12)


def test_words_of_a_cluster_weigh_more(encoder: EventEncoder) -> None:
    by_verb = factors_by_word(encoder, BY_VERB)
    assert by_verb["flooded"] > 10 * by_verb["firm"] > 0
    assert by_verb["house"] == by_verb["firm"]
    by_object = factors_by_word(encoder, BY_OBJECT)
    assert by_object["house"] > 10 * by_object["flooded"]


def test_one_cluster_weighs_all_words_alike(encoder: EventEncoder) -> None:
    assert set(factors_by_word(encoder, np.zeros(12, dtype=int)).values()) == {1.0}


def test_no_factors_where_nothing_is_averaged(encoder: EventEncoder, tiny_encoder: Path) -> None:
    assert token_factors(encoder, None, MENTIONS, None) is None
    assert token_factors(encoder, "span", MENTIONS, BY_VERB) is None
    assert token_factors(load_encoder(tiny_encoder, device="cpu"), None, MENTIONS, BY_VERB) is None


def test_vectors_follow_the_factors(encoder: EventEncoder) -> None:
    plain = encode_mentions(encoder, MENTIONS).embeddings
    alike = np.full(len(encoder.tokenizer), 3.0, dtype=np.float32)
    same = encode_mentions(encoder, MENTIONS, token_factors=alike).embeddings
    np.testing.assert_allclose(same, plain, atol=1e-5)
    verbs = encoder.tokenizer.convert_tokens_to_ids(list(VERBS))
    strong = np.full(len(encoder.tokenizer), 1e-6, dtype=np.float32)
    strong[verbs] = 1e6
    found = encode_mentions(encoder, MENTIONS, token_factors=strong).embeddings
    tokens = encoder.tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        hidden = encoder.model(input_ids=tokens["input_ids"]).last_hidden_state[0]
    verb = hidden[tokens["input_ids"][0] == verbs[0]][0]
    np.testing.assert_allclose(found[0], torch.nn.functional.normalize(verb, dim=0).numpy(), atol=1e-4)


def test_induce_clusters_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = induce(folder, TEXTS, num_clusters=3, device="cpu", show_progress=True)
    assert own.settings["weighting_rounds"] == 1
    shown = capsys.readouterr().err
    assert shown.index("clustering 1 of 2") < shown.index("clustering 2 of 2")
    once = induce(folder, TEXTS, num_clusters=3, weighting_rounds=0, device="cpu", show_progress=True)
    assert "of 1" not in capsys.readouterr().err
    assert once.settings["weighting_rounds"] == 0
    encoder = load_encoder(folder, device="cpu")
    np.testing.assert_allclose(once.vectors, encode_mentions(encoder, MENTIONS).embeddings, atol=1e-5)
    factors = token_factors(encoder, None, MENTIONS, once.cluster)
    again = encode_mentions(encoder, MENTIONS, token_factors=factors).embeddings
    np.testing.assert_allclose(own.vectors, again, atol=1e-5)
    assert np.abs(own.vectors - once.vectors).max() > 0.01


def test_new_mentions_are_read_with_the_weights_of_the_clusters(folder: Path, tmp_path: Path) -> None:
    found = induce(folder, TEXTS, num_clusters=3, device="cpu")
    write_induction(found, tmp_path / "types")
    encoder = load_encoder(folder, device="cpu")
    fitted = load_fitted_types(tmp_path / "types", encoder)
    factors = token_factors(encoder, None, MENTIONS, found.cluster)
    np.testing.assert_array_equal(fitted.token_factors, factors)
    types, cosines = fitted.assign(MENTIONS)
    vectors = encode_mentions(encoder, MENTIONS, token_factors=factors).embeddings
    np.testing.assert_allclose(cosines, (vectors @ fitted.centroids.T).max(axis=1), atol=1e-5)
    assert (types == found.cluster).mean() > 0.5


def rows_of_two_types() -> list[dict[str, object]]:
    return [
        {**mention, "event_type": VERBS[cluster], "seen": False, "mention_id": str(place)}
        for place, (mention, cluster) in enumerate(zip(MENTIONS, BY_VERB.tolist(), strict=True))
    ]


@pytest.mark.parametrize("runs", [0, 2])
def test_tasks_cluster_again(encoder: EventEncoder, runs: int) -> None:
    def clusters(**settings: int) -> tuple[list[int], dict[str, object]]:
        chosen = InductionSettings(**settings)
        asked = mention_model(encoder, chosen, Session(), "auto", [encoder] * runs)
        output = induce_types(asked, rows_of_two_types(), settings=chosen)
        return output.inputs["predictions"], output.details

    own, details = clusters()
    assert details["weighting_rounds"] == 1
    once, plain = clusters(weighting_rounds=0)
    assert "weighting_rounds" not in plain
    factors = token_factors(encoder, None, MENTIONS, np.array(once))
    vectors = encode_mentions(encoder, MENTIONS, token_factors=factors)
    asked = mention_model(encoder, InductionSettings(), Session(), "auto")
    weighted = asked.__class__(asked.embed, lambda rows, clusters: vectors)
    expected = induce_types(weighted, rows_of_two_types(), settings=InductionSettings())
    assert own == expected.inputs["predictions"]


def test_errors(folder: Path, encoder: EventEncoder, tiny_encoder: Path) -> None:
    with pytest.raises(EventformersError, match=r"weighting_rounds is 1 with .*, which does not average"):
        induce(tiny_encoder, TEXTS, num_clusters=2, weighting_rounds=1, device="cpu")
    with pytest.raises(EventformersError, match="weighting_rounds is -1; accepted: 0 or more"):
        induce(folder, TEXTS, num_clusters=2, weighting_rounds=-1, device="cpu")
    with pytest.raises(EventformersError, match=r"weighting_rounds.*0 or more"):
        InductionSettings(weighting_rounds=-1)


def test_the_number_of_rounds_is_saved(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["weighting_rounds"] == 1
