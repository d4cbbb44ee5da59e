"""Mentions of the same event: features of pairs, candidates, groups, and the packaged scorer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from eventformers.inference.coreference import same_events as groups
from eventformers.inference.coreference.same_events import (
    ENCODER,
    NUM_FEATURES,
    WEIGHTS,
    MentionPairs,
    PairScorer,
    candidate_pairs,
    packaged_scorer,
    same_events,
    tuned_encoder,
)
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.vectors import unit_vectors
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.loading.pretrained import low_rank_change

TEXTS = {
    "a": "A storm flooded the harbour of Tarnmouth. The mayor resigned.",
    "b": "The harbour of Tarnmouth was flooded by a storm. Boats sank.",
    "c": "The parliament passed a budget for schools.",
}
TRIGGERS = [("a", 0, "flooded", "flood"), ("a", 1, "resigned", "resign"), ("b", 0, "flooded", "flood")]
TRIGGERS += [("b", 1, "sank", "sink"), ("c", 0, "passed", "pass")]


def mentions() -> list[dict[str, Any]]:
    rows = []
    for document, number, trigger, lemma in TRIGGERS:
        sentence = TEXTS[document].split(". ")[number]
        start = sentence.index(trigger)
        rows.append(
            {
                **{"document_id": document, "sentence": number, "text": sentence, "lemma": lemma},
                **{"trigger_start": start, "trigger_end": start + len(trigger), "trigger_kind": "verb"},
                "participants": set(),
                "arguments": ("", "", ""),
            }
        )
    return rows


def pairs(encoder: EventEncoder, rows: Sequence[dict[str, Any]] | None = None) -> MentionPairs:
    rows = mentions() if rows is None else rows
    vectors = np.eye(len(rows), 8, dtype=np.float32)
    return MentionPairs(rows, TEXTS, vectors, vectors.__getitem__, encoder.encode)


class Given(torch.nn.Module):
    """Scores pairs as given; all others are 0."""

    def __init__(self, probabilities: dict[tuple[int, int], float]) -> None:
        super().__init__()
        self.probabilities, self.asked = probabilities, []

    def forward(self, features: torch.Tensor, nearer: torch.Tensor) -> torch.Tensor:
        asked = features[:, :2].int().tolist()
        return torch.tensor([self.probabilities.get(tuple(row), 0.0) for row in asked])


def given_pairs(encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch) -> MentionPairs:
    found = pairs(encoder)

    def told(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        padding = np.zeros((len(first), NUM_FEATURES - 2))
        return np.column_stack([first, second, padding]).astype(np.float32)

    monkeypatch.setattr(found, "features", told)
    monkeypatch.setattr(groups, "LEAST_COSINE", -1)
    monkeypatch.setattr(groups, "LEAST_OVERLAP", 0)
    return found


def test_features_are_those_of_the_definitions(encoder: EventEncoder) -> None:
    rows = mentions()
    rows[3] |= {"lemma": "say", "trigger_kind": "noun"}
    features = pairs(encoder, rows).features(np.array([0, 0, 2]), np.array([2, 1, 3]))
    assert features.shape == (3, NUM_FEATURES)
    flooded, resigned = encoder.encode(["flooded", "resigned"], normalize=True)
    # The same trigger and lemma in two documents, with the words around it in common.
    assert features[0, [0, 1, 5, 6, 7, 8, 9, 10, 11, 12]] == pytest.approx([0, 1, 0, 1, 1, 1, 1, 0, 0, 10])
    assert features[0, 2] > 0.5
    assert 0 < features[0, 4] < 1
    # Two triggers in one document.
    assert features[1, [4, 5, 6, 12]] == pytest.approx([1, 1, 0, 1])
    assert features[1, 1] == pytest.approx(flooded @ resigned, abs=1e-5)
    # A noun and a verb, one of them of reporting.
    assert features[2, [9, 10, 11]].tolist() == [0, 1, 1]


def test_only_similar_documents_of_near_days_are_compared(encoder: EventEncoder) -> None:
    found = pairs(encoder)
    found.vectors = np.ones((5, 1), dtype=np.float32)
    near = {*zip(*map(np.ndarray.tolist, candidate_pairs(found, np.array([]))), strict=True)}
    assert near == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    far = {*zip(*map(np.ndarray.tolist, candidate_pairs(found, np.array([0.0, 31.0, 0.0]))), strict=True)}
    assert far == {(0, 1), (2, 3)}


def test_mentions_of_a_document_are_compared_in_blocks(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pairs(encoder, mentions() * 3)
    days = np.array([0.0, 1.0, 0.0])
    whole = candidate_pairs(found, days)
    monkeypatch.setattr(groups, "_MENTIONS_AT_ONCE", 2)
    blocks = candidate_pairs(found, days)
    assert {*zip(*map(np.ndarray.tolist, blocks), strict=True)} == {
        *zip(*map(np.ndarray.tolist, whole), strict=True)
    }


def test_events_of_other_participants_are_not_compared(encoder: EventEncoder) -> None:
    def compared(*participants: str) -> list[tuple[int, int]]:
        rows = [
            {**row, "participants": set(names.split())}
            for row, names in zip(mentions(), participants, strict=True)
        ]
        first, second = candidate_pairs(pairs(encoder, rows), np.array([]))
        return [*zip(first.tolist(), second.tolist(), strict=True)]

    assert compared("storm harbour", "", "storm", "", "") == [(0, 2)]
    assert compared("storm harbour", "", "", "", "") == [(0, 2)]
    assert compared("storm harbour", "", "water", "", "") == []


def test_reports_of_unknown_or_far_days_need_common_names(encoder: EventEncoder) -> None:
    def compared(days: list[float], *names: str, **times: str) -> int:
        rows = mentions()
        for row, found in zip((rows[0], rows[2]), names, strict=True):
            row |= {"names": set(found.split()), **times}
        return len(candidate_pairs(pairs(encoder, rows), np.array(days))[0])

    unknown, far, near = [np.nan] * 3, [0.0, 9.0, 0.0], [0.0, 3.0, 0.0]
    for days in (unknown, far):
        assert compared(days, "dorian florida", "michael florida") == 0
        assert compared(days, "", "") == 0
        assert compared(days, "dorian florida", "dorian") == 1
        assert compared(days, "", "", time_start="2004-11-05", time_end="2004-11-05") == 1
        assert compared(days, "", "", time_start="2004-10", time_end="2004-10") == 1
        assert compared(days, "", "", time_start="2004", time_end="2004") == 0
    assert compared(near, "", "") == compared([], "", "") == 1


def test_reports_of_far_days_need_the_same_event(encoder: EventEncoder) -> None:
    def compared(first: dict[str, Any], second: dict[str, Any], days: tuple[float, float] = (0, 9)) -> int:
        rows = mentions()
        for row, told in zip((rows[0], rows[2]), (first, second), strict=True):
            row |= {"names": {"tarnmouth"}, **told}
        found = pairs(encoder, rows)
        found.vectors[2] = found.vectors[0]
        return len(candidate_pairs(found, np.array([*days, 0.0]))[0])

    for key in ("objects", "places", "numbers", "own_numbers"):
        assert compared({key: {"a"}}, {key: {"b"}}) == 0
        assert compared({key: {"a"}}, {key: {"b"}}, (0, 3)) == 1
        assert compared({key: {"a"}}, {key: {"a", "b"}}) == compared({key: {"a"}}, {}) == 1
    indefinite = {"indefinite": True}
    assert compared(indefinite, indefinite) == 0
    assert compared(indefinite, {}) == 1
    assert compared(*[{**indefinite, "own_numbers": {"11"}}] * 2) == 1
    assert compared({}, {"lemma": "inundate"}) == 0
    assert compared({}, {"lemma": "flooding"}) == compared({}, {"lemma": "inundate"}, (0, 3)) == 1


def test_plurals_and_reports_of_unlike_sentences_are_not_compared(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compared(**told: Any) -> int:
        rows = mentions()
        rows[0] |= told
        rows[2] |= {**told, "plural": False}
        return len(candidate_pairs(pairs(encoder, rows), np.zeros(3))[0])

    assert compared(trigger_kind="noun", plural=True) == 0
    assert compared(trigger_kind="noun", plural=False) == compared(trigger_kind="verb", plural=True) == 1
    assert compared(lemma="say") == 1
    monkeypatch.setattr(groups, "REPORTED_OVERLAP", 0.99)
    assert compared(lemma="say") == 0
    assert compared(lemma="flood") == 1


def test_stock_sentences_are_not_compared(encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = mentions()
    rows[2]["text"] = rows[0]["text"]
    rows[2] |= {name: rows[0][name] for name in ("trigger_start", "trigger_end")}
    near = np.zeros(3)
    assert len(candidate_pairs(pairs(encoder, rows), near)[0]) == 1
    monkeypatch.setattr(groups, "STOCK_OVERLAP", 1)
    assert len(candidate_pairs(pairs(encoder, rows), near)[0]) == 0


def test_events_of_other_times_are_not_compared(encoder: EventEncoder) -> None:
    def compared(*times: tuple[str, str]) -> int:
        rows = mentions()
        for row, (start, end) in zip((rows[0], rows[2]), times, strict=True):
            row |= {"time_start": start, "time_end": end}
        return len(candidate_pairs(pairs(encoder, rows), np.array([]))[0])

    assert compared(("2004-11-05", "2004-11-05"), ("2004-11-07", "2004-11-07")) == 0
    assert compared(("2005", "2005"), ("2004-11", "2004-12-30")) == 0
    same = (("2004-11-05", "2004-11-05"), ("2004-11-06", "2004-11-06"))
    for times in (same, (("2004-22", "2004-22"), ("2004-12", "2004-12")), (("2004", ""), ("2009", "2009"))):
        assert compared(*times) == 1
    assert compared(("", "2003-06-01"), ("2004", "2004")) == 0
    assert compared(("", ""), ("2004", "2004")) == 1


def test_triggers_that_differ_are_not_compared(encoder: EventEncoder) -> None:
    first, second = candidate_pairs(pairs(encoder), np.array([]))
    assert (first.tolist(), second.tolist()) == ([0], [2])


def test_groups_grow_by_the_mean_of_their_pairs(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = given_pairs(encoder, monkeypatch)
    scores = {(0, 2): 0.9, (2, 3): 0.8, (0, 3): 0.0}
    assert same_events(found, Given(scores), threshold=0.45).tolist() == [0, 1, 0, 2, 3]
    assert same_events(found, Given(scores), threshold=0.39).tolist() == [0, 1, 0, 0, 2]
    assert same_events(found, Given({}), threshold=0.45).tolist() == [0, 1, 2, 3, 4]


def test_given_topics_decide_what_is_compared(encoder: EventEncoder) -> None:
    first, second = groups.pairs_within(np.array([1, 0, 1, 0, 1]))
    assert sorted(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 2), (0, 4), (1, 3), (2, 4)]

    class Same(torch.nn.Module):
        def forward(self, features: torch.Tensor, nearer: torch.Tensor) -> torch.Tensor:
            return torch.ones(len(features))

    found = same_events(pairs(encoder), Same(), topics=np.array([0, 1, 1, 0, 0]))
    assert found.tolist() == [0, 1, 1, 0, 0]


def test_a_component_that_is_too_large_is_divided(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = given_pairs(encoder, monkeypatch)
    monkeypatch.setattr(groups, "_LARGEST", 2)
    scores = {(0, 2): 0.9, (2, 3): 0.5, (0, 3): 0.5}
    assert same_events(found, Given(scores)).tolist() == [0, 1, 0, 2, 3]


def test_no_mention_is_no_group(encoder: EventEncoder) -> None:
    first, second = candidate_pairs(pairs(encoder, mentions()[:1]), np.array([]))
    assert (len(first), len(second)) == (0, 0)
    assert same_events(pairs(encoder, mentions()[:1]), packaged_scorer()).tolist() == [0]


def test_the_packaged_scorer_knows_equal_events() -> None:
    encoder = load_encoder(None, device="cpu")
    rows = mentions()
    vectors, tuned = (
        unit_vectors(
            encode_mentions(one, rows, trigger_input="span").embeddings, [row["text"] for row in rows]
        )
        for one in (encoder, tuned_encoder(encoder))
    )
    found = MentionPairs(rows, TEXTS, vectors, tuned.__getitem__, encoder.encode)
    sides = np.array([0, 1, 0]), np.array([2, 3, 4])
    scored = packaged_scorer()(*(torch.from_numpy(one(*sides)) for one in (found.features, found.nearer)))
    assert scored[0] > 0.5 > scored[1:].max()
    assert same_events(found, packaged_scorer()).tolist() == [0, 1, 0, 2, 3]


def test_the_logit_rises_with_how_much_nearer_tuned_vectors_are(encoder: EventEncoder) -> None:
    first, second = np.array([0, 0]), np.array([2, 3])
    assert pairs(encoder).nearer(first, second).tolist() == [0, 0]
    tuned, read = np.eye(5, 8, dtype=np.float32)[[0, 1, 0, 3, 4]], []

    def read_tuned(members: np.ndarray) -> np.ndarray:
        read.extend(members.tolist())
        return tuned[members]

    found = MentionPairs(mentions(), TEXTS, np.eye(5, 8, dtype=np.float32), read_tuned, encoder.encode)
    nearer = torch.from_numpy(found.nearer(first, second))
    assert nearer.tolist() == [1, 0]
    assert read == [0, 2, 3]
    features, scorer = torch.from_numpy(found.features(first, second)), PairScorer().eval()
    before = scorer.logits(features, nearer)
    scorer.tuned_weight.fill_(2.5)
    risen = scorer.logits(features, nearer) - before
    assert risen[:, 0].tolist() == pytest.approx([2.5] * 3)
    assert risen[:, 1].tolist() == [0] * 3


def test_groups_of_one_document_are_left_out_across_documents(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = given_pairs(encoder, monkeypatch)
    scores = {(0, 2): 0.9, (0, 1): 0.8, (2, 3): 0.8, (1, 3): 0.9, (0, 3): 0.2, (1, 2): 0.8}
    whole = same_events(found, Given(scores), threshold=0.6)
    assert whole.tolist() == [0, 0, 0, 0, 1]
    assert same_events(found, Given(scores), threshold=0.6, across=True).tolist() == whole.tolist()
    del scores[0, 2], scores[1, 3], scores[1, 2]
    assert same_events(found, Given(scores), threshold=0.6).tolist() == [0, 0, 1, 1, 2]
    assert same_events(found, Given(scores), threshold=0.6, across=True).tolist() == [0, 1, 2, 3, 4]


def test_linked_mentions_are_compared_in_more_documents(
    encoder: EventEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {name: TEXTS["a"] for name in "uvwxyz"}
    rows = [{**mentions()[0], "document_id": name} for name in texts]
    found = MentionPairs(rows, texts, np.ones((6, 1), np.float32), lambda members: members, encoder.encode)
    monkeypatch.setattr(found, "nearer", lambda first, second: np.zeros(len(first), dtype=np.float32))
    monkeypatch.setattr(groups, "NEAR_DOCUMENTS", 1)

    def scores(features: torch.Tensor, nearer: torch.Tensor) -> torch.Tensor:
        return torch.full((len(features),), 0.9)

    found_across = same_events(found, scores, threshold=0.7, days=[0.0] * 6, across=True)
    assert found_across.tolist() == [0] * 6
    monkeypatch.setattr(groups, "MOST_DOCUMENTS", 1)
    assert len({*same_events(found, scores, threshold=0.7, days=[0.0] * 6, across=True).tolist()}) > 1
    assert len({*same_events(found, scores, threshold=0.7, days=[0.0] * 6).tolist()}) > 1


def test_tuned_vectors_are_read_where_they_could_decide(encoder: EventEncoder) -> None:
    read: list[int] = []

    def read_tuned(members: np.ndarray) -> np.ndarray:
        read.extend(members.tolist())
        return np.eye(5, 8, dtype=np.float32)[members]

    found = MentionPairs(mentions(), TEXTS, np.eye(5, 8, dtype=np.float32), read_tuned, encoder.encode)
    scorer, topics = PairScorer().eval(), np.zeros(5, dtype=np.int64)
    for network in scorer.networks:
        for parameter in network.parameters():
            parameter.data.zero_()
        network[-1].bias.data.fill_(-4)
    assert same_events(found, scorer, topics=topics).tolist() == [0, 1, 2, 3, 4]
    assert read == []
    scorer.tuned_weight.fill_(2.5)
    assert same_events(found, scorer, topics=topics).tolist() == [0, 1, 2, 3, 4]
    assert read == [0, 1, 2, 3, 4]


def test_the_tuned_encoder_is_the_packaged_one_with_other_upper_layers() -> None:
    encoder = load_encoder(None, device="cpu")
    tuned = tuned_encoder(encoder)
    before, weights = (one.model.state_dict() for one in (encoder, tuned))
    differ = [name for name, value in before.items() if not torch.equal(value, weights[name])]
    assert {name.split(".")[3] for name in differ} == {"3", "4", "5"}
    name = "encoder.encoder.layer.5.output.dense.weight"
    change = {key.removeprefix(ENCODER): value for key, value in load_file(WEIGHTS).items()}
    difference = weights[name] - before[name]
    assert torch.allclose(difference, low_rank_change(change, name), atol=1e-6)
    assert tuned.revision != encoder.revision


def test_saved_weights_score_the_same(tmp_path: Path) -> None:
    torch.manual_seed(0)
    scorer = PairScorer().eval()
    scorer.mean += 1
    scorer.save(tmp_path / "weights.safetensors")
    read = torch.randn(4, NUM_FEATURES), torch.randn(4)
    assert torch.equal(PairScorer.load(tmp_path / "weights.safetensors")(*read), scorer(*read))
    expected = sum(torch.sigmoid(one) for one in scorer.logits(*read).double()) / 3
    assert scorer(*read).tolist() == pytest.approx(expected.tolist(), abs=1e-6)
