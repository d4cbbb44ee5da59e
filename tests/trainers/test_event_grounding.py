"""Training of the bi-encoder of event grounding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from event_grounding_inputs import event_grounding_inputs
from grounding_files import battle, grounding_mentions, war, write_grounding
from training_case import MethodTrainingCase
from transformers import AutoTokenizer

from eventformers.errors import EventformersError
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.models.processing_event_grounding import TAGS, MentionText
from eventformers.trainers import grounding_candidates, grounding_data
from eventformers.trainers.event_grounding import METHOD, EventGroundingCollator
from eventformers.trainers.grounding_data import (
    LinkingPairs,
    MentionStream,
    Row,
    load_training_splits,
    make_linking_pairs,
)
from eventformers.trainers.method import TrainingData
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.run import resolve_recipe

STAGES = """\
extends: {quick}
model: {{stage: linking}}
training: {{max_steps: 3, save_steps: 1, module_learning_rates: null}}
stages:
  - name: hierarchy
  - name: linking
"""


class TestEventGroundingTraining(MethodTrainingCase):
    method = "event_grounding"
    recipe = str(Path(__file__).with_name("quick_event_grounding.yaml"))
    checks_sharded = True
    languages = ["de", "en"]  # noqa: RUF012
    loss_terms = ("linking_loss", "hierarchy_loss")
    head_fields = {  # noqa: RUF012
        "pooling": "mean",
        "stage": "joint",
        "hierarchy_weight": 0.5,
        "learnable_score_scale": True,
        "score_bias": -1.0,
    }
    fit_fields = head_fields
    chunked_fields = ({"stage": "hierarchy"},)
    stream_settings = ("streaming=true",)
    settings_of_all_rows = ("hard_negatives=2", "mentions_per_event=3", "max_mentions=9")
    bad_settings = (
        ("hierarchy_pairs=0", r"hierarchy_pairs: found 0; accepted: a whole number of 1 or more"),
        ("hard_negatives=-1", r"hard_negatives: found -1"),
        ("max_mentions=0", r"max_mentions: found 0; accepted: a whole number of 1 or more, or null"),
        (
            "max_mentions=some",
            r"max_mentions: found 'some'; accepted: a whole number of 1 or more",
        ),
        (
            "mentions_per_event=0",
            r"mentions_per_event: found 0; accepted: a whole number of 1 or more",
        ),
        ("hard_negatives=9", r"hard_negatives: found 9; accepted: 8 or less"),
        ("hard_negatives=many", r"hard_negatives: found 'many'; accepted: a whole number"),
        ("stage=ranking", r"stage"),
        ("mention_tokens=40", r"mention_tokens: found 40, prompt included; accepted: 32 or less"),
        ("event_tokens=33", r"event_tokens: found 33, prompt included; accepted: 32 or less"),
        ("task=english", r"english"),
    )

    @classmethod
    def write_raw(cls, folder: Path) -> None:
        """44 mentions of four wars and their battles, 33 of them in English."""
        write_grounding(folder)

    def head_inputs(self, head: Any) -> dict[str, torch.Tensor]:
        return event_grounding_inputs(head.config.encoder_config.vocab_size)

    @pytest.mark.parametrize("task", ["multilingual", "crosslingual"])
    @pytest.mark.parametrize("block", [1, 5])
    def test_streamed_pairs_are_the_pairs(
        self, raw: Path, task: str, block: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Blocks of mentions have the pairs and the counts of all mentions together."""
        monkeypatch.setattr(grounding_data, "_BLOCK_MENTIONS", block)
        builder, settings = "event_hierarchies", {"task": task}
        loaded = load_training_splits(str(raw), ("mentions", "events"), builder, settings)
        events = EventTexts(loaded["events"])
        pairs = make_linking_pairs(loaded["mentions"], events, settings)
        streamed = MentionStream(str(raw), builder, settings, events)
        assert (len(streamed), streamed.num_gold) == (len(pairs), pairs.num_gold)
        assert streamed.skipped == pairs.skipped
        assert streamed.languages.tolist() == pairs.languages().tolist()

        def key(row: Row) -> tuple[object, ...]:
            return row["mention"], row["event"], row["event_id"], tuple(row["gold_event_ids"])

        assert {key(row) for row in itertools.islice(streamed.pairs(0), 500)} == {
            key(pairs[place]) for place in range(len(pairs))
        }

    def test_stages_follow_each_other(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        recipe = tmp_path / "stages.yaml"
        recipe.write_text(STAGES.format(quick=self.recipe), encoding="utf-8")
        staged = _Staged(str(recipe))
        whole = staged.run(tiny_encoder, raw, tmp_path / "whole")
        assert [(stage.name, stage.steps) for stage in whole.stages] == [("hierarchy", 3), ("linking", 3)]
        terms = [
            {name for line in stage.history for name in line if name.endswith("_loss")}
            for stage in whole.stages
        ]
        assert terms == [{"hierarchy_loss", "train_loss"}, {"linking_loss", "train_loss"}]
        # What the hierarchy taught the tower of events is where linking starts from.
        alone = staged.run(tiny_encoder, raw, tmp_path / "alone", ("stages=[linking]",))
        weights = [run.model.state_dict() for run in (whole, alone)]
        assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])

    def test_linking_again_with_what_the_model_confuses(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        """A second stage of the same kind, whose hard negatives the model of the first one finds."""
        recipe = tmp_path / "mined.yaml"
        again = "  - {name: mining, stage: linking, views: {hard_negatives: 2, candidates: 4}}\n"
        text = STAGES.format(quick=self.recipe).replace("  - name: hierarchy\n", "") + again
        recipe.write_text(text, encoding="utf-8")
        whole = _Staged(str(recipe)).run(tiny_encoder, raw, tmp_path / "whole")
        assert [(stage.name, stage.steps) for stage in whole.stages] == [("linking", 3), ("mining", 3)]
        assert whole.model.config.stage == "linking"
        assert "pairs_without_wrong_candidate" in whole.data["statistics"]

    def test_towers_with_and_without_weights_of_their_own(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        apart = self.run(tiny_encoder, raw, tmp_path / "apart", ("max_steps=1",)).model
        shared = self.run(tiny_encoder, raw, tmp_path / "shared", ("max_steps=1", "share_towers=true")).model
        assert apart.base_model.event_tower is not None
        assert shared.base_model.event_tower is None

    def test_what_is_told(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        run = self.run(tiny_encoder, raw, tmp_path, ("max_steps=1",))
        statistics = run.data["statistics"]
        # Of 12 battles two gold events, of 4 wars one; the last war is not described in German.
        assert statistics["pairs_of_mention_and_event"] == 3 * 7 * 3 + 2 * 7
        assert statistics["pairs_of_parent_and_child"] == 9 * 2 + 3
        assert statistics["mentions_cut_themselves"] is None
        vocabulary = run.tokenizer.get_vocab()
        assert all(tag in vocabulary for tag in TAGS)
        for encoder in run.model.text_encoders():
            assert encoder.get_input_embeddings().num_embeddings == len(run.tokenizer)

    def test_mentions_longer_than_the_budget_are_counted(
        self, tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        mentions = grounding_mentions()
        mentions[0]["mention"] = "the police in the city of the storm " * 4
        prepared = _prepare(tiny_encoder, write_grounding(tmp_path, mentions))
        assert prepared.description["statistics"]["mentions_cut_themselves"] == 1
        assert "1 of 44 mentions are longer than mention_tokens=20" in caplog.text

    def test_recipes_of_the_paper(self) -> None:
        """Section 5.3 and Table 2: batches of 64, of 192 for the hierarchy, rate 1e-5, ten epochs in all."""
        recipe = resolve_recipe(METHOD, "paper-multilingual")
        config = METHOD.config_class(**recipe.model)
        assert (config.pooling, config.share_towers, config.hierarchy_weight) == ("cls", False, 0.01)
        assert (config.mention_tokens, config.event_tokens) == (128, 128)
        training = recipe.training
        assert (training["per_device_train_batch_size"], training["learning_rate"]) == (64, 1e-5)
        assert training["warmup_steps"] == 0.05
        ways = {"baseline": ["linking"], "joint": ["joint"], "pretrained-joint": ["hierarchy", "joint"]}
        for task in ("multilingual", "crosslingual"):
            for suffix, names in {"": ["hierarchy", "linking"], **ways}.items():
                found = load_recipe("event_grounding", "-".join(filter(None, ("paper", task, suffix))))
                assert found.data["task"] == task
                assert [stage["name"] for stage in found.stages] == names
                assert sum(stage["training"]["num_train_epochs"] for stage in found.stages) == 10
        assert recipe.stages[0]["training"]["per_device_train_batch_size"] == 192

    def test_recipes_of_another_method(self, tmp_path: Path) -> None:
        path = tmp_path / "other.yaml"
        path.write_text("method: swcc\n", encoding="utf-8")
        with pytest.raises(EventformersError, match="belongs to swcc; accepted: a recipe of event_grounding"):
            resolve_recipe(METHOD, str(path))


class _Staged(TestEventGroundingTraining):
    """Runs of another recipe."""

    __test__ = False

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe  # type: ignore[misc]


class TestCollator:
    @pytest.fixture(scope="class")
    @classmethod
    def prepared(cls, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
        return _prepare(tiny_encoder, write_grounding(tmp_path_factory.mktemp("raw")))

    def test_views_of_a_batch(self, prepared: TrainingData, tiny_encoder: Path) -> None:
        """Texts with their tags, and the numbers of events: the same in both languages."""
        collator, rows = prepared.collator, prepared.train
        assert isinstance(collator, EventGroundingCollator)
        assert isinstance(rows, LinkingPairs)
        texts = [rows[place] for place in range(len(rows))]
        english = next(row for row in texts if row["mention"].mention == "police city")
        german = next(row for row in texts if row["mention"].mention == "der police city")
        assert english["event_id"] == german["event_id"]
        batch = collator([english, german])
        tokenizer = collator.tokeniser.tokenizer
        read = tokenizer.decode(batch["input_ids"][0][batch["attention_mask"][0] == 1])
        assert read == "[CLS] the [ENT_START] police city [ENT_END] said it [SEP]"
        events = [
            tokenizer.decode(ids[mask == 1])
            for ids, mask in zip(batch["event_input_ids"], batch["event_attention_mask"], strict=True)
        ]
        assert events[0].startswith("[CLS] police city [ENT_TITLE]")
        assert events[1].startswith("[CLS] d")
        assert batch["event_ids"].shape == (2, 1)
        assert torch.equal(batch["gold_event_ids"][0], batch["gold_event_ids"][1])
        assert batch["event_ids"][0, 0] in batch["gold_event_ids"][0]
        assert batch["parent_input_ids"].shape[:2] == batch["child_input_ids"].shape[:2] == (2, 2)
        assert batch["known_parent_ids"].shape == (2, 2, 1)
        # Of every edge the parent is the one that is known.
        assert torch.equal(batch["known_parent_ids"][..., 0], batch["parent_ids"])

    def test_draws_depend_on_seed_epoch_and_row(self, prepared: TrainingData) -> None:
        collator = prepared.collator
        rows = [prepared.train[place] for place in range(len(prepared.train))]  # type: ignore[arg-type]
        first = collator(rows[:9])["parent_ids"]
        assert torch.equal(collator(rows[:9])["parent_ids"], first)
        assert torch.equal(collator([rows[5], rows[2]])["parent_ids"], first[[5, 2]])
        everything = collator(rows)["parent_ids"]
        for name in ("epoch", "seed"):
            before = getattr(collator, name)
            setattr(collator, name, before + 1)
            other = collator(rows)["parent_ids"]
            setattr(collator, name, before)
            assert not torch.equal(other, everything)
        assert len(set(everything.flatten().tolist())) == 4

    def test_cut_texts_are_counted(self, tiny_encoder: Path, tmp_path: Path) -> None:
        write_grounding(tmp_path)
        prepared = _prepare(tiny_encoder, tmp_path, ("mention_tokens=6", "stage=linking"))
        row = next(
            row
            for row in (prepared.train[place] for place in range(9))
            if row["mention"].mention == "police city"
        )
        assert prepared.collator.truncated == 0
        batch = prepared.collator([row, row])
        assert batch["input_ids"].shape == (2, 6)
        assert prepared.collator.truncated == 2
        assert "parent_input_ids" not in batch

    def test_some_of_the_mentions(
        self, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Drawn by the seed, whole with all their gold events; others are not searched for."""
        write_grounding(tmp_path)
        searched: list[int] = []
        retrieve = grounding_candidates.candidate_rows

        def counted(*arguments: Any) -> Any:
            searched.append(len(np.unique(arguments[1].mention_of)))
            return retrieve(*arguments)

        monkeypatch.setattr(grounding_candidates, "candidate_rows", counted)
        settings = ("stage=linking", "hard_negatives=1", f"retriever={tiny_encoder}")
        every = _prepare(tiny_encoder, tmp_path, settings)
        some = _prepare(tiny_encoder, tmp_path, (*settings, "max_mentions=4"))
        again = _prepare(tiny_encoder, tmp_path, (*settings, "max_mentions=4"))
        assert _rows(some) == _rows(again)
        assert _rows(_prepare(tiny_encoder, tmp_path, (*settings, "max_mentions=4"), seed=9)) != _rows(some)
        drawn = {mention for mention, _ in _rows(some)}
        assert len(drawn) == 4
        assert _rows(some) == [row for row in _rows(every) if row[0] in drawn]
        assert searched[1] == 4 < searched[0]
        assert some.description["statistics"]["mentions_drawn"] == 4
        assert every.description["statistics"]["mentions_drawn"] is None
        assert _rows(_prepare(tiny_encoder, tmp_path, (*settings, "max_mentions=99999"))) == _rows(every)

    def test_hierarchy_alone(self, tiny_encoder: Path, tmp_path: Path) -> None:
        prepared = _prepare(tiny_encoder, write_grounding(tmp_path), ("stage=hierarchy",))
        assert len(prepared.train) == 21  # type: ignore[arg-type]
        batch = prepared.collator([prepared.train[0], prepared.train[1]])
        assert set(batch) == {
            *(f"{kind}_{name}" for kind in ("parent", "child") for name in ("input_ids", "attention_mask")),
            *("parent_ids", "known_parent_ids"),
        }


class TestHardNegatives:
    SETTINGS = ("hard_negatives=3", "candidates=6", "stage=linking")

    def test_gold_events_are_never_drawn(self, tiny_encoder: Path, tmp_path: Path) -> None:
        settings = (*self.SETTINGS, f"retriever={tiny_encoder}")
        prepared = _prepare(tiny_encoder, write_grounding(tmp_path), settings)
        collator, rows = prepared.collator, prepared.train
        seen: set[int] = set()
        for epoch in range(4):
            collator.epoch = epoch
            batch = collator([rows[place] for place in range(len(rows))])  # type: ignore[arg-type]
            assert batch["event_ids"].shape == (len(rows), 4)  # type: ignore[arg-type]
            gold = batch["gold_event_ids"]
            assert ((batch["event_ids"][:, :1, None] == gold[:, None]).any(dim=-1)).all()
            assert not (batch["event_ids"][:, 1:, None] == gold[:, None]).any()
            assert all(len(set(ids)) == 4 for ids in batch["event_ids"].tolist())
            seen |= set(batch["event_ids"][0, 1:].tolist())
        # Six candidates, of which one or two are gold, and three in each epoch.
        assert len(seen) > 3
        collator.epoch = 0
        first = collator([rows[0], rows[7]])["event_ids"]
        assert torch.equal(collator([rows[7]])["event_ids"][0], first[1])
        assert prepared.description["statistics"]["pairs_without_wrong_candidate"] is None

    def test_without_a_retriever_the_model_finds_them(
        self, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Return the candidates of the current weights."""
        data, folder = write_grounding(tmp_path), tmp_path / "saved"
        recipe = resolve_recipe(METHOD, TestEventGroundingTraining.recipe, list(self.SETTINGS), 5)
        head = METHOD.head_class.from_encoder(str(tiny_encoder), **recipe.model)
        tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
        head.train()
        alone = METHOD.training.prepare(recipe, str(data), tokenizer, head, 5)
        assert all(module.training for module in (head, head.event_grounding, head.event_grounding.encoder))
        with monkeypatch.context() as patched:
            patched.setattr(grounding_candidates, "candidate_rows", _refuse)
            METHOD.training.prepare(recipe, str(data), tokenizer, head, 5)
        head.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        recipe.views["retriever"] = str(folder)
        by_folder = METHOD.training.prepare(recipe, str(data), tokenizer, head, 5)
        rows = [alone.train[place] for place in range(len(alone.train))]  # type: ignore[arg-type]
        drawn = [prepared.collator(rows)["event_ids"] for prepared in (alone, by_folder)]
        assert torch.equal(*drawn)
        recipe.views["retriever"] = None
        monkeypatch.setattr(grounding_candidates, "candidate_rows", _refuse)
        with torch.no_grad():
            next(head.event_grounding.encoder.parameters()).mul_(-1)
        with pytest.raises(AssertionError, match="asked again"):
            METHOD.training.prepare(recipe, str(data), tokenizer, head, 5)

    def test_they_are_in_the_language_of_the_mention(self, tiny_encoder: Path, tmp_path: Path) -> None:
        settings = (*self.SETTINGS, f"retriever={tiny_encoder}")
        prepared = _prepare(tiny_encoder, write_grounding(tmp_path), settings)
        rows = [prepared.train[place] for place in range(len(prepared.train))]  # type: ignore[arg-type]
        collator = prepared.collator
        for row in rows:
            is_german = row["mention"].mention.startswith("der ")
            drawn = collator.wrong.draw(row["row"], 3, np.random.default_rng(0))  # type: ignore[attr-defined]
            assert [text.title.startswith("der ") for text, _ in drawn] == [is_german] * 3

    def test_a_mention_without_a_wrong_candidate(self, tiny_encoder: Path, tmp_path: Path) -> None:
        """All candidates in its language are gold: its own event fills the width, as a positive."""
        mentions = [row for row in grounding_mentions() if row["label_id"] == battle(0, 0)]
        write_grounding(tmp_path, mentions, events=(war(0), battle(0, 0)))
        settings = ("hard_negatives=2", "stage=linking", f"retriever={tiny_encoder}")
        prepared = _prepare(tiny_encoder, tmp_path, settings)
        assert prepared.description["statistics"]["pairs_without_wrong_candidate"] == 6
        rows = [prepared.train[place] for place in range(6)]
        batch = prepared.collator(rows)
        assert batch["event_ids"].tolist() == [[row["event_id"]] * 3 for row in rows]


def _refuse(*arguments: Any) -> Any:
    raise AssertionError("asked again")


def _prepare(encoder: Path, data: Path, settings: Sequence[str] = (), seed: int = 5) -> TrainingData:
    recipe = resolve_recipe(METHOD, TestEventGroundingTraining.recipe, list(settings), seed)
    head = METHOD.head_class.from_encoder(str(encoder), **recipe.model)
    return METHOD.training.prepare(recipe, str(data), AutoTokenizer.from_pretrained(encoder), head, seed)


def _rows(prepared: TrainingData) -> list[tuple[MentionText, int]]:
    """Mentions and gold events that are trained on."""
    rows = (prepared.train[place] for place in range(len(prepared.train)))  # type: ignore[arg-type]
    return [(row["mention"], row["event_id"]) for row in rows]
