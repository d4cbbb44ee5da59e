"""The threshold of linking: chosen on smoothed scores; saved, told, used by `ground`."""

from __future__ import annotations

import json
import logging
import statistics
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from datasets import config as datasets_config
from grounding_files import grounding_mentions, write_grounding
from scipy.special import expit

from eventformers.datasets_scripts import samples
from eventformers.inference.encode import load_encoder
from eventformers.inference.grounding.ground import ground
from eventformers.inference.search.candidate_index import Candidates
from eventformers.trainers.grounding_candidates import choose_null_threshold
from eventformers.trainers.stages import read_log
from eventformers.training import FinishedRun, _card, train

RECIPE = str(Path(__file__).with_name("quick_event_grounding.yaml"))
CROSS = (
    *("mention_tokens=20", "event_tokens=12", "read_heading=false", "mentions_per_event=null"),
    *("missed_gold=add", "candidates=3", "max_steps=2", "per_device_train_batch_size=4"),
)


def drawn(seed: int, mentions: int) -> tuple[Candidates, np.ndarray]:
    """Candidates of a random order with falling scores; gold events, of which some are no candidates."""
    generator = np.random.default_rng(seed)
    events = np.stack([generator.permutation(12)[:6] for _ in range(mentions)])
    scores = -np.sort(-generator.normal(size=(mentions, 6)).astype(np.float32), axis=1)
    gold = np.stack([generator.permutation(12)[:2] for _ in range(mentions)])
    gold[::3, 1] = -1
    gold[::2, 0] = events[::2, 0]
    gold[:, 1] = np.where(gold[:, 1] == gold[:, 0], -1, gold[:, 1])
    # What is right scores higher, by less than the scores differ.
    scores[gold[:, 0] == events[:, 0]] += 0.7
    return Candidates(events, scores), gold


def smoothed(group: list[float], threshold: float) -> float:
    """Share of a group below a threshold, each number as a normal distribution of Scott's width."""
    width = statistics.pstdev(group) / len(group) ** 0.2
    return sum(statistics.NormalDist(number, width).cdf(threshold) for number in group) / len(group)


def expected(inside: list[float], outside: list[float]) -> float:
    """The middle of two neighbouring scores at which most of both groups, smoothed, are on their sides; there
    may be fewer scores outside than inside."""
    middles = [(low + high) / 2 for low, high in pairwise(sorted({*inside, *outside}))]
    known = len(outside) / len(inside)
    return max(
        middles, key=lambda threshold: known * smoothed(outside, threshold) - smoothed(inside, threshold)
    )


def first_scores(found: Candidates, gold: np.ndarray) -> tuple[list[float], list[float]]:
    """Best scores of the mentions whose first candidate is right, with and without their gold events, mention
    by mention."""
    inside, outside = [], []
    for events, scores, own in zip(found.events.tolist(), found.scores.tolist(), gold.tolist(), strict=True):
        if events[0] in own:
            inside.append(scores[0])
            outside.append(
                next(score for event, score in zip(events, scores, strict=True) if event not in own)
            )
    return inside, outside


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_separates_the_smoothed_scores_best(seed: int) -> None:
    found, gold = drawn(seed, 40)
    inside, outside = first_scores(found, gold)
    chosen = choose_null_threshold(found, gold, 1)
    assert chosen is not None
    assert chosen.threshold == pytest.approx(expected(inside, outside), abs=1e-6)
    assert chosen.found == len(inside)
    assert chosen.linked == pytest.approx(np.mean([score >= chosen.threshold for score in inside]))
    assert chosen.refused == pytest.approx(np.mean([score < chosen.threshold for score in outside]))
    # It refuses some and links some: neither answer alone is best.
    assert 1 < chosen.linked + chosen.refused < 2


def test_the_threshold_does_not_depend_on_the_unit_of_the_scores() -> None:
    found, gold = drawn(7, 40)
    chosen = choose_null_threshold(found, gold, 1)
    scaled = choose_null_threshold(Candidates(found.events, found.scores / 1000 + 5), gold, 1)
    assert chosen is not None
    assert scaled is not None
    assert (scaled.threshold - 5) * 1000 == pytest.approx(chosen.threshold, abs=2e-3)
    assert scaled[1:] == chosen[1:]


def test_it_varies_less_between_samples_than_the_score_that_separates_most() -> None:
    chosen, separating = [], []
    for seed in range(20):
        found, gold = drawn(seed, 200)
        inside, outside = map(np.array, first_scores(found, gold))
        scores = np.union1d(inside, outside)
        right = (inside >= scores[:, None]).sum(axis=1) + (outside < scores[:, None]).sum(axis=1)
        separating.append(scores[right.argmax()])
        one = choose_null_threshold(found, gold, 1)
        assert one is not None
        chosen.append(one.threshold)
    assert np.std(chosen) < 0.8 * np.std(separating)


def test_probabilities_of_other_scores() -> None:
    """The scores are the logits after re-ranking, of both halves."""
    found, gold = drawn(3, 60)
    width = 4

    def logits(events: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return np.where(events >= 0, np.cos(events) + scores, -np.inf)

    def rescore(halves: Candidates) -> Candidates:
        assert halves.events.shape == (120, width)
        scores = logits(halves.events, halves.scores)
        order = np.argsort(-scores, axis=1, kind="stable")
        return Candidates(
            np.take_along_axis(halves.events, order, axis=1),
            np.take_along_axis(scores, order, axis=1).astype(np.float32),
        )

    chosen = choose_null_threshold(found, gold, width, rescore)
    assert chosen is not None
    inside, outside = [], []
    for events, scores, own in zip(found.events, found.scores, gold.tolist(), strict=True):
        first = logits(events[:width], scores[:width])
        others = [place for place, event in enumerate(events.tolist()) if event not in own][:width]
        if events[first.argmax()] in own:
            inside.append(float(first.max()))
            outside.append(float(logits(events[others], scores[others]).max()))
    assert chosen.threshold == pytest.approx(expit(expected(inside, outside)), abs=1e-6)
    assert chosen.found == len(inside)
    assert chosen.linked == pytest.approx(np.mean(expit(inside) >= chosen.threshold))
    assert chosen.refused == pytest.approx(np.mean(expit(outside) < chosen.threshold))


def test_equal_scores_give_none() -> None:
    found, gold = drawn(3, 30)
    found = Candidates(found.events, np.ones_like(found.scores))
    assert choose_null_threshold(found, gold, 1) is None


@pytest.mark.parametrize("logit", [-2000, 2000])
def test_a_probability_is_neither_0_nor_1(logit: float) -> None:
    """Configurations refuse both."""
    found, gold = drawn(3, 30)
    chosen = choose_null_threshold(
        found, gold, 4, lambda halves: Candidates(halves.events, (halves.scores + logit).astype(np.float32))
    )
    assert chosen is not None
    assert 0 < chosen.threshold < 1


def test_without_a_right_first_candidate_there_is_none() -> None:
    found, gold = drawn(0, 10)
    assert choose_null_threshold(found, np.full_like(gold, 99), 1) is None
    assert choose_null_threshold(found, np.full_like(gold, -1), 1) is None
    empty = Candidates(np.full((10, 6), -1), np.full((10, 6), -np.inf, dtype=np.float32))
    assert choose_null_threshold(empty, gold, 1) is None


def test_mentions_without_other_candidates_count() -> None:
    """Without their gold events they are NULL at every threshold, so that linking weighs more."""
    found, gold = drawn(1, 200)
    alone = np.arange(200) % 5 > 0
    events = np.where(alone[:, None] & (np.arange(6) > 0), -1, found.events)
    scores = np.where(events >= 0, found.scores, -np.inf).astype(np.float32)
    chosen = choose_null_threshold(Candidates(events, scores), gold, 1)
    inside, outside = first_scores(Candidates(found.events[~alone], found.scores[~alone]), gold[~alone])
    rows = zip(
        found.events[alone, 0].tolist(), found.scores[alone, 0].tolist(), gold[alone].tolist(), strict=True
    )
    inside += [score for event, score, own in rows if event in own]
    assert chosen is not None
    assert chosen.found == len(inside)
    assert chosen.threshold == pytest.approx(expected(inside, outside), abs=1e-6)
    everyone = choose_null_threshold(Candidates(found.events[~alone], found.scores[~alone]), gold[~alone], 1)
    assert everyone is not None
    assert chosen.threshold < everyone.threshold


def test_a_knowledge_base_of_gold_events_alone() -> None:
    """Without them a mention has no candidate, which is NULL at every threshold."""
    events = np.array([[0, -1], [1, 0]])
    scores = np.array([[0.5, -np.inf], [0.8, 0.2]], dtype=np.float32)
    gold = np.array([[0, -1], [1, -1]])
    chosen = choose_null_threshold(Candidates(events, scores), gold, 1)
    assert chosen is not None
    assert chosen == (pytest.approx(0.35), 2, 1.0, 1.0)
    assert choose_null_threshold(Candidates(events[:1], scores[:1]), gold[:1], 1) is None


def saved_threshold(finished: FinishedRun) -> float | None:
    return json.loads((finished.folder / "config.json").read_text(encoding="utf-8"))["null_threshold"]


class TestTraining:
    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path / "cache")

    @pytest.fixture
    def raw(self, tmp_path: Path) -> Path:
        """Mentions of two wars that train, and of the others for validation."""
        return self.write(tmp_path / "raw", 24)

    def write(self, folder: Path, training: int) -> Path:
        """Write some of the mentions for training, and those behind for validation."""
        folder.mkdir()
        mentions = grounding_mentions()
        write_grounding(folder, mentions[:training])
        text = "".join(json.dumps(row) + "\n" for row in mentions[training:] or mentions)
        (folder / "wikipedia-zero-shot.dev.jsonl").write_text(text, encoding="utf-8")
        return folder

    def run(
        self, encoder: Path, data: Path | None, output: Path, *settings: str, recipe: str = RECIPE
    ) -> FinishedRun:
        return train(
            "event_grounding",
            output,
            recipe=recipe,
            data=data,
            encoder=str(encoder),
            settings=[*settings],
            device="cpu",
            tasks=(),
            create_model_card=False,
        )

    def test_a_model_learns_its_threshold(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        """On the validation mentions; it stands in configuration, log and card, and `ground` takes it."""
        finished = self.run(tiny_encoder, raw, tmp_path / "model", "max_steps=1")
        threshold = saved_threshold(finished)
        assert isinstance(threshold, float)
        assert read_log(finished.folder)[-1].history[-1]["null_threshold"] == threshold
        told = _card(finished.run, "model", "tiny", []).sections["Threshold of linking"]
        assert told.startswith(f"`{threshold:.4g}`, chosen on")
        encoder = load_encoder(finished.folder, device="cpu")
        texts = [{**row, "language": row["context_lang"]} for row in grounding_mentions()[:8]]
        found = ground(encoder, [*texts, {"mention": "voter elected mayor", "language": "en"}], raw)
        assert found.settings["threshold_source"] == "learned"
        assert all(bool(one.linked) == (one.candidates[0].score >= threshold) for one in found.mentions)

    def test_the_samples(self, tiny_encoder: Path, tmp_path: Path) -> None:
        finished = self.run(tiny_encoder, None, tmp_path / "model", "max_steps=1")
        threshold = saved_threshold(finished)
        found = ground(
            finished.folder,
            ["The [[birthday party]] of a friend."],
            Path(samples.__path__[0]) / "event_hierarchies",
            language="en",
        )
        [one] = found.mentions
        assert found.settings["threshold"] == threshold
        assert bool(one.linked) == (one.candidates[0].score >= threshold)

    def test_the_cross_encoder_learns_one_of_probabilities(self, tiny_encoder: Path, tmp_path: Path) -> None:
        # All mentions for validation, too: whichever event its random head puts first, it is gold for some.
        raw = self.write(tmp_path / "raw", len(grounding_mentions()))
        texts = [{**row, "language": row["context_lang"]} for row in grounding_mentions()[:4]]
        thresholds = set()
        for weight in (0.0, 30.0):
            finished = self.run(
                tiny_encoder,
                raw,
                tmp_path / f"cross-{weight}",
                *CROSS,
                f"retriever={tiny_encoder}",
                f"retriever_weight={weight}",
                recipe="minilm-current-events-cross",
            )
            threshold = saved_threshold(finished)
            assert threshold is not None
            assert 0 < threshold < 1
            thresholds.add(threshold)
            found = ground(tiny_encoder, texts, raw, reranker=finished.folder, device="cpu")
            assert (found.settings["threshold"], found.settings["threshold_source"]) == (threshold, "learned")
            assert found.settings["retriever_weight"] == weight
        # The second is of sums with the retriever's scores.
        assert len(thresholds) == 2

    def test_without_validation_mentions_there_is_none(
        self, tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "raw").mkdir()
        with caplog.at_level(logging.WARNING, logger="eventformers"):
            finished = self.run(
                tiny_encoder, write_grounding(tmp_path / "raw"), tmp_path / "model", "max_steps=1"
            )
        assert "no threshold of linking was chosen: the data have no validation mentions" in caplog.text
        assert saved_threshold(finished) is None
        [told] = finished.run.chosen.values()
        assert told.startswith("None, since the data have no validation mentions")

    def test_a_threshold_of_the_recipe_stays(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        finished = self.run(tiny_encoder, raw, tmp_path / "model", "max_steps=1", "null_threshold=0.25")
        assert saved_threshold(finished) == 0.25
