"""Training of the cross-encoder of event grounding, and what a bi-encoder retrieves for it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import config as datasets_config
from event_grounding_inputs import candidate_inputs
from grounding_files import write_grounding
from one_batch import FITTED, loss_after_training
from short_runs import assert_equal_weights, kill_after, short_run
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from eventformers.built_in import EVENT_GROUNDING_CROSS as METHOD
from eventformers.datasets_scripts import load_built
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.encode import load_encoder
from eventformers.inference.grounding.encoding import encode_texts
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.methods import load_method, main_methods
from eventformers.models.processing_event_grounding import TAGS, MentionText
from eventformers.trainers import grounding_candidates, grounding_data, method
from eventformers.trainers.grounding_candidates import load_retriever, retrieve_candidates
from eventformers.trainers.grounding_data import CandidateRows, LinkingPairs, Row
from eventformers.trainers.method import TrainingData
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.run import TrainingRun, resolve_recipe
from eventformers.training import train

BUDGETS = ("mention_tokens=20", "event_tokens=12", "read_heading=false")
SETTINGS = (
    # Of the few mentions none is left out.
    *("mentions_per_event=null", "missed_gold=add"),
    *(*BUDGETS, "candidates=3", "max_steps=4", "save_steps=2", "logging_steps=1", "learning_rate=1e-3"),
    "per_device_train_batch_size=4",
)
STREAMED = ("streaming=true", "max_mentions=null")
RECIPE = "minilm-current-events-cross"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_grounding(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def retriever(tiny_encoder: Path, raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bi-encoder of a few steps."""
    folder = tmp_path_factory.mktemp("runs") / "retriever"
    recipe = str(Path(__file__).with_name("quick_event_grounding.yaml"))
    options = {"data": raw, "encoder": str(tiny_encoder), "device": "cpu", "create_model_card": False}
    return train("event_grounding", folder, recipe=recipe, tasks=(), **options).folder  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for what is retrieved."""
    monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "eventformers" / "candidates"


def _run(
    encoder: Path, raw: Path, output: Path, settings: Sequence[str], *, resume: bool = False
) -> TrainingRun:
    chosen, options = (*SETTINGS, *settings), {"data": str(raw), "resume": resume}
    return short_run("event_grounding", encoder, output, *chosen, recipe=RECIPE, seed=5, **options)


def _prepare(encoder: Path, raw: Path, settings: Sequence[str]) -> TrainingData:
    recipe = resolve_recipe(METHOD, None, [*SETTINGS, *settings], 5)
    head = METHOD.head_class.from_encoder(str(encoder), **recipe.model)
    return METHOD.training.prepare(recipe, str(raw), AutoTokenizer.from_pretrained(encoder), head, 5)


def _pairs(raw: Path, language: str | None = None) -> tuple[LinkingPairs, EventTexts]:
    mentions, events = (
        load_built(str(raw), name, builder="event_hierarchies")["train"] for name in ("mentions", "events")
    )
    texts = EventTexts(events)
    return LinkingPairs(mentions, texts, language), texts


class TestRetrieval:
    @pytest.mark.parametrize("language", [None, "en"])
    def test_the_best_events_of_the_pool(self, raw: Path, retriever: Path, language: str | None) -> None:
        """Against a plain sort of all scores, mention by mention."""
        pairs, events = _pairs(raw, language)
        found = retrieve_candidates(load_retriever(str(retriever)), pairs, events, 5)
        assert found.shape == (len(pairs.mentions), 5)
        encoder = load_encoder(retriever)
        rows = events.distinct
        vectors = encode_texts(encoder, "event", [events[row] for row in rows.tolist()]).vectors
        read = encode_texts(encoder, "mention", [MentionText.from_row(row) for row in pairs.mentions]).vectors
        for mention, spoken in enumerate(pairs.spoken.tolist()):
            pool = rows[events.language_of[rows] == spoken]
            scores = (read[mention] @ vectors.T)[events.language_of[rows] == spoken]
            assert scores[np.isin(pool, found[mention])].min() >= np.sort(scores)[::-1][4] - 1e-5
            np.testing.assert_allclose(
                np.sort(scores[np.isin(pool, found[mention])]), np.sort(scores)[-5:], atol=1e-5
            )
            assert len(set(found[mention].tolist())) == 5
            if language is not None:
                assert {events.languages[code].as_py() for code in events.language_of[found[mention]]} == {
                    language
                }

    def test_small_pools_are_filled_up(self, raw: Path, retriever: Path) -> None:
        """Nine events are described in English and German both, twelve and four in all."""
        pairs, events = _pairs(raw)
        found = retrieve_candidates(load_retriever(str(retriever)), pairs, events, 20)
        german = events.languages.to_pylist().index("de")
        counts = (found != -1).sum(axis=1)
        assert set(counts[pairs.spoken == german].tolist()) == {12}
        assert set(counts[pairs.spoken != german].tolist()) == {16}
        assert (found[pairs.spoken == german][:, 12:] == -1).all()

    def test_blocks_change_nothing(self, raw: Path, retriever: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pairs, events = _pairs(raw)
        whole = retrieve_candidates(load_retriever(str(retriever)), pairs, events, 4)
        monkeypatch.setattr(grounding_candidates, "BLOCK_MENTIONS", 7)
        pools = grounding_candidates.EventPools(load_retriever(str(retriever)), events, pairs.languages())
        assert np.array_equal(grounding_candidates.candidate_rows(pools, pairs, events, 4), whole)

    def test_retrieved_once(
        self, raw: Path, retriever: Path, tiny_encoder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another number, retriever, task or set of texts is another question; no part of a file is left."""
        pairs, events = _pairs(raw)
        first = retrieve_candidates(load_retriever(str(retriever)), pairs, events, 4)
        with monkeypatch.context() as patched:
            patched.setattr(grounding_candidates, "candidate_rows", _refuse)
            assert np.array_equal(
                retrieve_candidates(load_retriever(str(retriever)), pairs, events, 4), first
            )
            for asked in (
                (load_retriever(str(retriever)), pairs, events, 5),
                (load_retriever(str(tiny_encoder)), pairs, events, 4),
                (load_retriever(str(retriever)), *_pairs(raw, "en"), 4),
            ):
                with pytest.raises(AssertionError, match="asked again"):
                    retrieve_candidates(*asked)
            changed, others = _pairs(raw)
            changed.mentions = changed.mentions.map(lambda row: {"context_left": row["context_left"] + "x"})
            with pytest.raises(AssertionError, match="asked again"):
                retrieve_candidates(load_retriever(str(retriever)), changed, others, 4)
        assert [path.suffix for path in cache.iterdir()] == [".safetensors"]


class TestTraining:
    def test_a_run(self, tiny_encoder: Path, raw: Path, retriever: Path, tmp_path: Path) -> None:
        finished = train(
            "event_grounding",
            tmp_path / "cross",
            recipe=RECIPE,
            data=raw,
            evaluation_data="samples",
            encoder=str(tiny_encoder),
            settings=[*SETTINGS, f"retriever={retriever}"],
            device="cpu",
        )
        assert finished.run.method is METHOD
        assert finished.run.recipe.method == "event_grounding_cross"
        losses = [line for line in finished.run.history if "loss" in line]
        assert len(losses) == 4
        assert all({name for name in line if name.endswith("_loss")} == {"candidate_loss"} for line in losses)
        config = json.loads((finished.folder / "config.json").read_text(encoding="utf-8"))
        assert METHOD.config_class.full_auto_map.items() < config["auto_map"].items()
        assert set(config["custom_pipelines"]) == {"event-grounding"}
        assert (finished.folder / "pipeline_event_grounding.py").is_file()
        statistics = finished.run.data["statistics"]
        assert statistics["gold_events"] == 77
        assert 0 < statistics["gold_events_retrieved"] < 77
        card = (finished.folder / "README.md").read_text(encoding="utf-8")
        assert "gold events retrieved" in card
        assert str(tmp_path) not in card
        assert finished.results == []
        tokenizer = AutoTokenizer.from_pretrained(finished.folder)
        assert all(tag in tokenizer.get_vocab() for tag in TAGS)
        model = AutoModelForSequenceClassification.from_pretrained(finished.folder)
        read = tokenizer(["the [ENT_START] storm [ENT_END] [SEP] storm [ENT_TITLE]"], return_tensors="pt")
        inputs = (read["input_ids"], read["attention_mask"])
        torch.testing.assert_close(model(*inputs).logits, finished.run.model(*inputs).logits)

    @pytest.mark.parametrize("streamed", [(), STREAMED], ids=["held", "streamed"])
    def test_resumed_run_equals_the_uninterrupted(
        self,
        tiny_encoder: Path,
        raw: Path,
        retriever: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        streamed: tuple[str, ...],
    ) -> None:
        """Of rows that are held, nothing is retrieved again."""
        monkeypatch.setattr(method, "SHUFFLED_ROWS", 20)
        settings = (f"retriever={retriever}", *streamed)
        whole = _run(tiny_encoder, raw, tmp_path / "whole", settings)
        killed = kill_after(tmp_path / "whole", 2, tmp_path / "killed")
        if not streamed:
            monkeypatch.setattr(grounding_candidates, "candidate_rows", _refuse)
        resumed = _run(tiny_encoder, raw, killed, settings, resume=True)
        assert_equal_weights(resumed, whole)

    def test_streamed_rows_are_the_rows(
        self, tiny_encoder: Path, raw: Path, retriever: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Blocks of mentions have the candidates of all mentions together."""
        monkeypatch.setattr(grounding_data, "_SEARCHED_MENTIONS", 5)
        monkeypatch.setattr(method, "SHUFFLED_ROWS", 20)
        settings = (f"retriever={retriever}",)
        held = _prepare(tiny_encoder, raw, settings)
        streamed = _prepare(tiny_encoder, raw, (*settings, *STREAMED))

        def keys(rows: Iterable[Row]) -> set[tuple[object, ...]]:
            return {(row["mention"], tuple(row["candidates"]), tuple(row["is_gold"])) for row in rows}

        rows = keys(held.train[place] for place in range(len(held.train)))  # type: ignore[arg-type]
        assert keys(itertools.islice(streamed.train, 500)) == rows
        told, of_all = (made.description["statistics"] for made in (streamed, held))
        assert told["gold_events"] == of_all["gold_events"]
        skipped = streamed.description["skipped"]
        assert skipped == held.description["skipped"]

    @pytest.mark.parametrize("setting", ["missed_gold=skip", "mentions_per_event=3", "max_mentions=9"])
    def test_streaming_knows_no_other_mentions(
        self, tiny_encoder: Path, raw: Path, retriever: Path, setting: str
    ) -> None:
        named = rf"streaming=true reads one mention .* accepted with it: .*{setting.split('=')[0]}="
        with pytest.raises(EventformersError, match=named):
            _prepare(tiny_encoder, raw, (f"retriever={retriever}", *STREAMED, setting))

    def test_one_batch_is_fitted(self, tiny_encoder_without_dropout: Path, tmp_path: Path) -> None:
        torch.manual_seed(0)
        head = METHOD.head_class.from_encoder(str(tiny_encoder_without_dropout), head_dropout=0.0)
        batch = candidate_inputs(head.config.encoder_config.vocab_size)
        assert loss_after_training(head, batch, tmp_path) < FITTED

    def test_some_of_the_mentions(self, tiny_encoder: Path, raw: Path, retriever: Path) -> None:
        settings = (f"retriever={retriever}", "max_mentions=5")
        prepared = _prepare(tiny_encoder, raw, settings)
        assert len(prepared.train) == prepared.description["statistics"]["mentions_drawn"] == 5  # type: ignore[arg-type]
        every = _prepare(tiny_encoder, raw, settings[:1])
        assert len(every.train) > 5  # type: ignore[arg-type]
        assert every.description["statistics"]["mentions_drawn"] is None

    def test_mentions_without_their_gold_events(self, tiny_encoder: Path, raw: Path, retriever: Path) -> None:
        settings = (f"retriever={retriever}", "candidates=2")
        every, found = (
            _prepare(tiny_encoder, raw, (*settings, f"missed_gold={kept}")) for kept in ("add", "skip")
        )
        missed = found.description["skipped"]["mention_with_missed_gold_event"]
        assert 0 < missed == len(every.train) - len(found.train)  # type: ignore[arg-type]

    def test_a_retriever_that_finds_no_gold_event(
        self, tiny_encoder: Path, raw: Path, retriever: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def find_nothing(_: object, pairs: LinkingPairs, __: object, number: int) -> np.ndarray:
            return np.full((len(pairs.mentions), number), -1)

        monkeypatch.setattr("eventformers.trainers.event_grounding.retrieve_candidates", find_nothing)
        message = r"no training rows \(.*mention_with_missed_gold_event.*missed_gold: add"
        with pytest.raises(EventformersError, match=message):
            _prepare(tiny_encoder, raw, (f"retriever={retriever}", "missed_gold=skip"))

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("max_mentions=0", r"max_mentions: found 0; accepted: a whole number of 1 or more, or null"),
            ("retriever=null", r"setting retriever: found none; accepted: the folder"),
            ("retriever=nowhere/at-all", r"nowhere"),
            ("retriever=3", r"retriever: found 3; accepted: text or null"),
            ("candidates=1", r"candidates: found 1; accepted: a whole number of 2 or more"),
            ("missed_gold=drop", r"unknown setting missed_gold 'drop'"),
            ("missed_gold=1", r"missed_gold: found 1; accepted: add or skip"),
            (
                "mention_tokens=30",
                r"mention_tokens \+ event_tokens - 1: found 41, prompt included; accepted: 32",
            ),
            ("head_dropout=1.0", r"head_dropout is 1\.0"),
            ("hard_negatives=1", r"hard_negatives"),
        ],
    )
    def test_bad_settings(
        self, tiny_encoder: Path, raw: Path, retriever: Path, tmp_path: Path, setting: str, message: str
    ) -> None:
        with pytest.raises(EventformersError, match=message):
            _run(tiny_encoder, raw, tmp_path, (f"retriever={retriever}", setting))


class TestCollator:
    @pytest.fixture
    def prepared(self, tiny_encoder: Path, raw: Path, retriever: Path) -> TrainingData:
        return _prepare(tiny_encoder, raw, (f"retriever={retriever}", "candidates=14"))

    def test_pairs_and_labels(self, prepared: TrainingData) -> None:
        """German mentions have twelve candidates of fourteen: two places without a token, and no gold."""
        collator, rows = prepared.collator, prepared.train
        assert isinstance(rows, CandidateRows)
        listed = [rows[place] for place in range(len(rows))]
        german = next(row for row in listed if row["mention"].mention == "der police city")
        english = next(row for row in listed if row["mention"].mention == "police city")
        batch = collator([german, english])
        assert batch["input_ids"].shape[:2] == batch["labels"].shape == (2, 14)
        present = batch["attention_mask"].any(dim=-1)
        assert present.tolist() == [[True] * 12 + [False] * 2, [True] * 14]
        assert batch["labels"].sum(dim=1).tolist() == [2, 2]
        assert batch["labels"][:, :2].bool().all()
        tokenizer = collator.tokeniser.tokenizer
        read = tokenizer.decode(batch["input_ids"][1, 0][batch["attention_mask"][1, 0] == 1])
        assert (
            read == "[CLS] the [ENT_START] police city [ENT_END] said it [SEP] police city [ENT_TITLE] [SEP]"
        )
        war_read = tokenizer.decode(batch["input_ids"][1, 1][batch["attention_mask"][1, 1] == 1])
        assert war_read.endswith("[SEP] police [ENT_TITLE] the team won [SEP]")

    def test_cut_texts_are_counted(self, prepared: TrainingData) -> None:
        """Each mention once, not once for each of its candidates."""
        collator = prepared.collator
        row = prepared.train[0]
        collator([row])
        before = collator.truncated
        long = row["mention"]._replace(context_left="the police said it " * 9)
        collator([{**row, "mention": long}])
        assert collator.truncated == 2 * before + 1


def test_recipes() -> None:
    """Section 5.3 and appendix C: 16 mentions with 8 candidates each, rate 1e-5, 5 epochs, warm-up 0.1."""
    for task in ("multilingual", "crosslingual"):
        recipe = load_recipe("event_grounding", f"paper-{task}-cross")
        assert (recipe.method, recipe.data["task"]) == ("event_grounding_cross", task)
        assert recipe.views == {"candidates": 8}
        training = recipe.training
        assert (training["per_device_train_batch_size"], training["learning_rate"]) == (16, 1e-5)
        assert (training["num_train_epochs"], training["warmup_steps"]) == (5, 0.1)
    for name in (METHOD.default_recipe, METHOD.paper_recipe):
        assert resolve_recipe(METHOD, name).method == METHOD.name
    assert resolve_recipe(load_method("event_grounding")).method == "event_grounding"


def test_the_commands_method_is_the_one_of_the_bi_encoder() -> None:
    assert METHOD.name not in main_methods()
    with pytest.raises(UnknownNameError, match="Did you mean 'event_grounding'"):
        load_method("event_groundin")


def _refuse(*_: object) -> np.ndarray:
    raise AssertionError("asked again")
