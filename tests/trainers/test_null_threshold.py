"""The threshold of linking: chosen as a search over all thresholds would; saved, told, used by `ground`."""

from __future__ import annotations

import json
import logging
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from datasets import config as datasets_config
from grounding_files import grounding_mentions, write_grounding
from scipy.special import expit

from eventformers.datasets_scripts import samples
from eventformers.evaluate_metrics.event_linking.event_linking_impl import event_linking
from eventformers.inference.encode import load_encoder
from eventformers.inference.grounding.ground import ground
from eventformers.inference.grounding.linking import link, link_first
from eventformers.inference.grounding.training_tools import THRESHOLDS, choose_null_threshold
from eventformers.inference.search.candidate_index import Candidates
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


@pytest.mark.parametrize("seed", range(5))
def test_no_threshold_links_and_refuses_more_rightly(seed: int) -> None:
    """Against every threshold between two scores, mention by mention."""
    found, gold = drawn(seed, 40)
    inside, outside = [], []
    for events, scores, own in zip(found.events.tolist(), found.scores.tolist(), gold.tolist(), strict=True):
        if events[0] in own:
            inside.append(scores[0])
            outside.append(
                next(score for event, score in zip(events, scores, strict=True) if event not in own)
            )
    distinct = sorted({*inside, *outside})
    right = {
        (low + high) / 2: sum(score >= (low + high) / 2 for score in inside)
        + sum(score < (low + high) / 2 for score in outside)
        for low, high in pairwise(distinct)
    }
    best = max(right.values())
    chosen = choose_null_threshold(found, gold, 1, link_first)
    assert chosen is not None
    assert chosen.threshold == max(threshold for threshold, number in right.items() if number == best)
    assert chosen.found == len(inside)
    assert chosen.linked == pytest.approx(np.mean([score >= chosen.threshold for score in inside]))
    assert chosen.refused == pytest.approx(np.mean([score < chosen.threshold for score in outside]))
    assert chosen.linked + chosen.refused == pytest.approx(best / len(inside))
    # It refuses some and links some: neither answer alone is best.
    assert len(inside) < best < 2 * len(inside)


def test_many_scores_are_tried_in_part() -> None:
    found, gold = drawn(9, 3 * THRESHOLDS)
    chosen = choose_null_threshold(found, gold, 1, link_first)
    fewer = choose_null_threshold(
        Candidates(found.events[:THRESHOLDS], found.scores[:THRESHOLDS]), gold[:THRESHOLDS], 1, link_first
    )
    assert chosen is not None
    assert fewer is not None
    assert abs(chosen.threshold - fewer.threshold) < 0.5


def test_probabilities_of_other_scores() -> None:
    """All candidates that reach the threshold are linked; the scores are those after re-ranking, of both."""
    found, gold = drawn(3, 30)
    width = 4

    def rescore(halves: Candidates) -> Candidates:
        assert halves.events.shape == (60, width)
        scores = np.where(halves.events >= 0, np.cos(halves.events + 3 * halves.scores) * 2, -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")
        return Candidates(
            np.take_along_axis(halves.events, order, axis=1),
            np.take_along_axis(scores, order, axis=1).astype(np.float32),
        )

    chosen = choose_null_threshold(found, gold, width, link, rescore)
    assert chosen is not None
    without = [
        [event for event in events if event not in own]
        for events, own in zip(found.events.tolist(), gold.tolist(), strict=True)
    ]
    kept = [
        [place for place, event in enumerate(events) if event not in own]
        for events, own in zip(found.events.tolist(), gold.tolist(), strict=True)
    ]
    rows = []
    for mention, own in enumerate(gold.tolist()):
        halves = []
        for events, places in (
            (found.events[mention, :width].tolist(), list(range(width))),
            (without[mention][:width], kept[mention][:width]),
        ):
            scored = {
                event: float(np.float32(np.cos(event + 3 * found.scores[mention, place]) * 2))
                for event, place in zip(events, places, strict=True)
            }
            halves.append(dict(sorted(scored.items(), key=lambda one: -one[1])))
        first = next(iter(halves[0]))
        if first in own:
            rows.append((halves, [event for event in halves[0] if event in own]))
    best = sorted({float(expit(max(half.values()))) for halves, _ in rows for half in halves})

    def product(threshold: float) -> float:
        linked, wanted = [], []
        for halves, own in rows:
            for half, right in zip(halves, (own, ["NULL"]), strict=True):
                reach = [str(event) for event, score in half.items() if expit(score) >= threshold]
                linked.append(reach or ["NULL"])
                wanted.append([*map(str, right)])
        scores = event_linking(linked, wanted)
        return scores["strict_accuracy"] * scores["macro_f1"] * scores["micro_f1"]

    highest = max(product((low + high) / 2) for low, high in pairwise(best))
    assert product(chosen.threshold) == pytest.approx(highest)
    assert chosen.found == len(rows)


def test_without_a_right_first_candidate_there_is_none() -> None:
    found, gold = drawn(0, 10)
    assert choose_null_threshold(found, np.full_like(gold, 99), 1, link_first) is None
    assert choose_null_threshold(found, np.full_like(gold, -1), 1, link_first) is None
    empty = Candidates(np.full((10, 6), -1), np.full((10, 6), -np.inf, dtype=np.float32))
    assert choose_null_threshold(empty, gold, 1, link_first) is None


def test_a_knowledge_base_of_gold_events_alone() -> None:
    """Without them a mention has no candidate, which is NULL at every threshold."""
    events = np.array([[0, -1], [1, 0]])
    scores = np.array([[0.5, -np.inf], [0.8, 0.2]], dtype=np.float32)
    chosen = choose_null_threshold(Candidates(events, scores), np.array([[0, -1], [1, 0]]), 1, link_first)
    assert chosen is not None
    assert (chosen.linked, chosen.refused) == (0.5, 1.0) or (chosen.linked, chosen.refused) == (1.0, 1.0)


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
