"""Training of event type induction."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from datasets import config as datasets_config
from event_type_induction_inputs import event_type_induction_inputs
from short_runs import assert_equal_weights, kill_after
from training_case import MethodTrainingCase
from transformers import AutoTokenizer

from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import DataFormatError, EventformersError
from eventformers.models.modeling_event_type_induction import EventTypeInductionForPreTraining
from eventformers.models.processing_event_type_induction import TRIGGER_MARKERS
from eventformers.trainers import callbacks, mention_augmentation, stage_training
from eventformers.trainers.event_type_induction import (
    METHOD,
    EventTypeInductionCollator,
    MentionRows,
    streamed_mentions,
    type_name,
)
from eventformers.trainers.mention_augmentation import Translated
from eventformers.trainers.method import TrainingData
from eventformers.trainers.run import TrainingRun, resolve_recipe

TRIGGERS = {
    "Arrest": ("arrested", "police arrested the thief in the {place}"),
    "Fire": ("burned", "the {place} burned and the crew rescued the woman"),
    "Sale": ("sold", "the company sold the {place} to the bank"),
    "Flood": ("flooded", "the river flooded the {place} and the road"),
    "Visit": ("visited", "the mayor visited the {place} with the team"),
    "Strike": ("closed", "workers closed the {place} in the strike"),
}
PLACES = ("city", "house", "bridge", "market", "firm", "car")
FRAMES = ("Arrest", "Fire", "Sale")
INPUTS = ("input_ids", "attention_mask")
FROZEN = ("freeze_encoder=true", "frame_example_weight=0")


def write_mentions(folder: Path, labels: dict[str, str] | None = None) -> None:
    """36 mentions of six types, and frames of the three most frequent ones.

    Args:
        folder: where the files go.
        labels: another name for the type of each of the last three.
    """
    lines = []
    for number, (name, (trigger, text)) in enumerate(TRIGGERS.items()):
        # The first three are the most frequent ones.
        for place in PLACES[: 6 if number < 3 else 5] + (("road",) if number < 3 else ()):
            sentence = text.format(place=place)
            start = sentence.index(trigger)
            span = {"text": trigger, "start_char": start, "end_char": start + len(trigger)}
            mention = {"id": f"{name}-{place}", "sentence": sentence, "trigger": span}
            mention["event_type"] = (labels or {}).get(name, name)
            mention["frames"] = [f"{name}_frame"] if name in FRAMES else []
            lines.append(json.dumps(mention))
    (folder / "mentions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    frames = [
        {
            "id": place,
            "name": f"{name}_frame",
            "definition": f"{name.lower()} of a firm",
            "parents": [],
            "examples": [TRIGGERS[name][1].format(place=place) for place in ("shop", "road")],
        }
        for place, name in enumerate(FRAMES)
    ]
    text = "\n".join(json.dumps(frame) for frame in frames) + "\n"
    (folder / "frames.jsonl").write_text(text, encoding="utf-8")


class TestEventTypeInductionTraining(MethodTrainingCase):
    method = "event_type_induction"
    recipe = str(Path(__file__).with_name("quick_event_type_induction.yaml"))
    checks_sharded = True
    loss_terms = ("pair_loss", "type_name_loss", "frame_loss", "frame_example_loss", "trigger_loss")
    head_fields = {  # noqa: RUF012
        "pooling": "mean",
        "map_dropout": 0.0,
        "map_skip": True,
        "score_bias": 0.0,
        "trigger_input": "found",
        "trained_types": ["Arrest", "Fire"],
        "finder_dropout": 0.0,
        "type_name_weight": 1.0,
        "frame_weight": 0.5,
        "frame_example_weight": 0.5,
    }
    fit_fields = head_fields
    chunked_fields = (
        {
            **{"trigger_input": "marked_span", "map_dropout": 0.0, "map_skip": True},
            **{"score_bias": -1.0, "type_name_weight": 1.0, "frame_weight": 0.5},
        },
    )
    # A stream knows no other mention of a sentence.
    stream_settings = ("streaming=true", "trigger_input=marked_span")
    settings_of_all_rows = ("trigger_input=found", "augmentation=back_translation", "silhouette_window=2")
    without_dropout = ("map_dropout=0.0", "finder_dropout=0.0")
    bad_settings = (
        ("augmentation=swap", r"unknown setting augmentation 'swap'"),
        ("augmentation=back_translation", r"translation_models is empty"),
        ("translation_models=fr", r"translation_models: found 'fr'; accepted: a mapping"),
        ("word_dropout=1.5", r"word_dropout: found 1\.5"),
        ("max_seq_length=2", r"max_seq_length: found 2; accepted: a whole number of 3 or more"),
        ("config=frames", r"unknown setting config 'frames'"),
        ("num_seen=0", r"no mention has a seen type"),
        (
            "num_seen=4",
            r"frame_weight needs the definition of a frame .* found for Flood: none",
        ),
        ("seen_types=[Thunder]", r"Thunder"),
        ("margin=1.5", r"margin is 1\.5"),
        ("silhouette_window=0", r"silhouette_window: found 0"),
        ("silhouette_window=two", r"silhouette_window: found 'two'"),
    )

    @classmethod
    def write_raw(cls, folder: Path) -> None:
        """36 mentions and three frames."""
        write_mentions(folder)

    def head_inputs(self, head: Any) -> dict[str, torch.Tensor]:
        config = head.config.encoder_config
        return event_type_induction_inputs(config.vocab_size, config.hidden_size)

    def test_streamed_rows_are_the_rows(self, raw: Path) -> None:
        """With the same numbers of the same seen types."""
        loaded = load_built(raw, "mentions", builder="event_types", num_seen=3)["train"]
        rows = MentionRows(loaded, reads_trigger=True)
        stream, seen_types = streamed_mentions(loaded.to_iterable_dataset(), 0, reads_trigger=True)
        assert seen_types == rows.seen_types
        streamed = {(row["mention"], row["type_id"]) for row in itertools.islice(stream, 1000)}
        assert streamed == {(row["mention"], row["type_id"]) for row in map(rows.__getitem__, range(36))}

    def test_labels_of_unseen_types_change_nothing(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        """Neither the weights, nor the silhouettes, nor the checkpoint that these choose."""
        changed = tmp_path / "raw"
        changed.mkdir()
        write_mentions(changed, {"Flood": "Strike", "Visit": "Flood", "Strike": "Visit"})
        settings = ("silhouette_window=2", "save_strategy=steps", "save_steps=1")
        runs = [
            self.run(tiny_encoder, folder, tmp_path / name, settings)
            for name, folder in (("first", raw), ("second", changed))
        ]
        assert _silhouettes(runs[0]) == _silhouettes(runs[1])
        assert len(_silhouettes(runs[0])) == 4
        assert_equal_weights(runs[1], runs[0])
        # Other labels of the seen types do change the loss.
        write_mentions(changed, {"Arrest": "Fire", "Fire": "Arrest"})
        other = self.run(tiny_encoder, changed, tmp_path / "third", settings)
        assert _losses(other)[0] != _losses(runs[0])[0]

    @pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
    def test_chosen_checkpoint(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, lora: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The weights are those of the step with the best silhouette; after a kill and after the end, too."""
        constant = "lr_scheduler_type=constant"
        settings = ("silhouette_window=1", "save_strategy=steps", "save_steps=1", constant)
        values = [0.1, 0.4, 0.3, 0.2]
        _measure(monkeypatch, values)
        with monkeypatch.context() as patched:
            patched.setattr(stage_training, "remove_checkpoints", lambda *_, **__: None)
            whole = self.run(tiny_encoder, raw, tmp_path / "whole", settings, lora=lora)
        assert _silhouettes(whole) == dict(enumerate(values, start=1))
        assert whole.history[-1] == {"chosen_step": 2, "silhouette_window": 1, "step": 4}
        assert whole.steps == 4
        moved = [line["vectors_moved"] for line in whole.history if "silhouette" in line]
        # From the vectors before the first step.
        assert 1e-7 < moved[0] < moved[-1] < 2
        stopped = ("max_steps=2", constant)
        assert_equal_weights(self.run(tiny_encoder, raw, tmp_path / "stopped", stopped, lora=lora), whole)

        killed = kill_after(tmp_path / "whole", 1, tmp_path / "killed")
        for step in (2, 3):
            shutil.copytree(tmp_path / "whole" / f"checkpoint-{step}", killed / f"checkpoint-{step}")
        _measure(monkeypatch, values[3:])
        for _ in range(2):
            resumed = self.run(tiny_encoder, raw, killed, settings, lora=lora, resume=True)
            assert_equal_weights(resumed, whole)
            assert [line["vectors_moved"] for line in resumed.history if "silhouette" in line] == moved
            assert {path.name for path in killed.glob("checkpoint-*")} == {"checkpoint-2", "checkpoint-4"}

    def test_adapters_need_an_encoder_that_trains(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(EventformersError, match=r"--lora adapts the encoder.*freeze_encoder=false"):
            self.run(tiny_encoder, raw, tmp_path / "run", FROZEN, lora=True)

    def test_a_cached_encoder_gives_the_same_losses(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        """Of all hidden states that are read, to the three digits of half precision."""
        plain = self.run(tiny_encoder, raw, tmp_path / "plain", FROZEN)
        cached = self.run(tiny_encoder, raw, tmp_path / "cached", (*FROZEN, "encoder_cache_tokens=1000"))
        assert _losses(cached) == pytest.approx(_losses(plain), rel=2e-3)

    def test_types_that_a_sentence_tells_of(self, tiny_encoder: Path) -> None:
        """Those of all its mentions: of three of one sentence, two seen and one without a label."""
        told = [("he sold it and left", "Sale"), ("he sold it and left", ""), ("it burned", "Fire")]
        told += [("he sold it and left", "Leave"), ("it rained", "Rain")]
        seen = ["Fire", "Leave", "Sale"]
        columns = {"text": [text for text, _ in told], "event_type": [name for _, name in told]}
        mentions = Dataset.from_dict({**columns, "seen": [name in seen for _, name in told]})
        rows = MentionRows(mentions, reads_sentence_types=True)
        assert rows.seen_types == seen
        assert (rows.type_ids.tolist(), rows.num_unseen_types) == ([2, -1, 0, 1, -1], 1)
        types = {
            row["mention"].text: row["sentence_types"].tolist() for row in map(rows.__getitem__, range(5))
        }
        assert types == {
            "he sold it and left": [False, True, True, True],
            "it burned": [True, False, False, False],
            "it rained": [False, False, False, True],
        }
        collator = EventTypeInductionCollator(
            AutoTokenizer.from_pretrained(tiny_encoder),
            seed=0,
            word_dropout=0.5,
        )
        batch = collator([rows[0], rows[2], rows[4]])
        assert batch["sentence_types"].tolist() == [types[told[place][0]] for place in (0, 2, 4)]

    def test_silhouettes_of_epochs(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        """Without a word on saving there is one for each epoch, of 9 whole batches; dropout stays on."""
        settings = ("silhouette_window=5", "max_steps=-1", "num_train_epochs=2")
        run = self.run(tiny_encoder, raw, tmp_path / "measured", settings)
        assert list(_silhouettes(run)) == [9, 18]
        assert all(-1 <= value <= 1 for value in _silhouettes(run).values())
        plain = self.run(tiny_encoder, raw, tmp_path / "plain", settings[1:])
        assert _losses(plain) == _losses(run)

    @pytest.mark.parametrize("trigger_input", ["none", "marked", "span", "marked_span"])
    def test_what_is_told_of_the_trigger(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, trigger_input: str
    ) -> None:
        run = self.run(tiny_encoder, raw, tmp_path, (f"trigger_input={trigger_input}", "max_steps=1"))
        vocabulary = run.tokenizer.get_vocab()
        assert all((token in vocabulary) == trigger_input.startswith("marked") for token in TRIGGER_MARKERS)
        assert run.model.get_input_embeddings().num_embeddings == len(run.tokenizer)
        assert run.data["statistics"]["augmentation"] == "noise"
        assert run.truncated == 0

    def test_back_translation(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Views are the back-translations, or, of mentions whose trigger is read, the mentions with noise."""
        monkeypatch.setattr(mention_augmentation, "Translator", _Upside)
        monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path)
        settings = (
            *("augmentation=back_translation", "translation_models={fr: [there, back], de: [hin, her]}"),
            "word_dropout=0.0",
        )
        for trigger_input, is_read in (("none", False), ("span", True)):
            prepared = _prepare(tiny_encoder, raw, (*settings, f"trigger_input={trigger_input}"))
            told = prepared.description["statistics"]
            assert told["augmentation"] == "back_translation"
            assert told["languages"] == ["de", "fr"]
            assert told["views_with_word_noise"] == (36 if is_read else None)
            batch = prepared.collator([prepared.train[0], prepared.train[1]])
            text = "police arrested the thief in the city"
            view = text if is_read else " ".join(text.split()[::-1])
            expected = AutoTokenizer.from_pretrained(tiny_encoder)(view)["input_ids"]
            assert batch["augmented_input_ids"][0, : len(expected)].tolist() == expected
        assert len(list(tmp_path.rglob("back_translation/*.json"))) == 2

    def test_recipe_of_the_paper(self) -> None:
        """Section 4.1: batches of 10, rates 2e-5 and 1e-4, four languages, at most 10 epochs, window 5."""
        recipe = resolve_recipe(METHOD, "paper")
        config = METHOD.config_class(**recipe.model)
        assert (config.margin, config.map_dropout, config.trigger_input) == (0.5, 0.1, "none")
        assert (config.type_name_weight, config.frame_weight) == (0.0, 0.0)
        assert recipe.data["config"] == "ace2005"
        assert recipe.views["augmentation"] == "back_translation"
        assert set(recipe.views["translation_models"]) == {"de", "fr", "es", "zh"}
        training = recipe.training
        assert training["per_device_train_batch_size"] == 10
        assert (training["learning_rate"], training["module_learning_rates"]) == (1e-4, {"encoder": 2e-5})
        assert (training["num_train_epochs"], training["silhouette_window"]) == (10, 5)
        assert training["warmup_steps"] == 1000

    def test_frames_from_elsewhere(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        alone, elsewhere = tmp_path / "mentions", tmp_path / "frames"
        for folder, name in ((alone, "mentions.jsonl"), (elsewhere, "frames.jsonl")):
            folder.mkdir()
            shutil.copy(raw / name, folder)
        with pytest.raises(EventformersError, match=r"no raw file.*--set frames=FOLDER"):
            _prepare(tiny_encoder, alone)
        broken = tmp_path / "broken"
        broken.mkdir()
        (broken / "frames.jsonl").write_bytes((raw / "frames.jsonl").read_bytes() + b"no JSON\n")
        with pytest.raises(DataFormatError, match=r"frames\.jsonl, line 4"):
            _prepare(tiny_encoder, alone, (f"frames={broken}",))
        expected = _prepare(tiny_encoder, raw).collator.frame_vectors
        found = _prepare(tiny_encoder, alone, (f"frames={elsewhere}",)).collator.frame_vectors
        assert torch.equal(found, expected)

    def test_long_definitions_are_cut_and_counted(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        shutil.copytree(raw, tmp_path, dirs_exist_ok=True)
        frames = [json.loads(line) for line in (raw / "frames.jsonl").read_text().splitlines()]
        frames[0]["definition"] = "the bank sold the house " * 40
        (tmp_path / "frames.jsonl").write_text("".join(json.dumps(frame) + "\n" for frame in frames))
        vectors = _prepare(tiny_encoder, tmp_path).collator.frame_vectors
        assert vectors.shape[0] == 3
        assert "1 of 3 type names or definitions were truncated to 32 tokens" in caplog.messages


class TestCollator:
    @pytest.fixture(scope="class")
    @classmethod
    def prepared(cls, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
        folder = tmp_path_factory.mktemp("raw")
        write_mentions(folder)
        return _prepare(tiny_encoder, folder, ("trigger_input=span", "silhouette_window=2"))

    def test_draws_depend_on_seed_epoch_and_row(self, prepared: TrainingData) -> None:
        collator, rows = prepared.collator, prepared.train
        assert isinstance(collator, EventTypeInductionCollator)
        chosen = [rows[place] for place in (3, 8, 20)]
        first = collator(chosen)["augmented_input_ids"]
        alone = collator([chosen[1]])["augmented_input_ids"]
        assert torch.equal(alone[0], first[1, : alone.shape[1]])
        assert torch.equal(collator(chosen)["augmented_input_ids"], first)
        for name in ("epoch", "seed"):
            before = getattr(collator, name)
            setattr(collator, name, before + 1)
            other = collator([rows[place] for place in range(36)])["augmented_input_ids"]
            setattr(collator, name, before)
            same = collator([rows[place] for place in range(36)])["augmented_input_ids"]
            assert other.shape != same.shape or not torch.equal(other, same)

    def test_types_and_their_vectors(self, prepared: TrainingData, tiny_encoder: Path) -> None:
        """Those of seen types alone: Arrest, Fire and Sale, by the encoder as it is."""
        rows = [prepared.train[place] for place in range(36)]
        batch = prepared.collator(rows)
        assert batch["type_ids"].tolist() == [0] * 7 + [1] * 7 + [2] * 7 + [-1] * 15
        assert batch["type_name_vectors"].shape == batch["frame_vectors"].shape == (36, 32)
        head = EventTypeInductionForPreTraining.from_encoder(str(tiny_encoder))
        tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
        for name, texts in (
            ("type_name_vectors", ["Arrest", "Fire", "Sale"]),
            ("frame_vectors", ["arrest of a firm", "fire of a firm", "sale of a firm"]),
        ):
            encoded = tokenizer(texts, padding=True, return_tensors="pt")
            expected = head.event_type_induction.label_vectors(**{key: encoded[key] for key in INPUTS})
            torch.testing.assert_close(batch[name][[0, 7, 14]], expected)
        assert not any("event_type" in row or "seen" in row for row in rows)

    def test_examples_of_frames_beside_mentions(self, prepared: TrainingData, tiny_encoder: Path) -> None:
        """A sentence of a seen type's frame with its definition, drawn by seed, epoch and row."""
        tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
        rows = [prepared.train[place] for place in range(36)]
        batch = prepared.collator(rows)
        alone = prepared.collator(rows[5:6])
        assert set(batch["frame_ids"].tolist()) == {0, 1, 2}
        assert alone["frame_ids"].item() == batch["frame_ids"][5]
        for row, number in enumerate(batch["frame_ids"].tolist()):
            name = FRAMES[number]
            texts = {
                kind: tokenizer.decode(batch[f"{kind}_input_ids"][row], skip_special_tokens=True)
                for kind in ("example", "definition")
            }
            assert texts["definition"] == f"{name.lower()} of a firm"
            assert TRIGGERS[name][0] in texts["example"]
        assert prepared.description["statistics"]["frame_examples"] == 6

    def test_the_trigger_is_never_lost(self, prepared: TrainingData, tiny_encoder: Path) -> None:
        tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
        collator = prepared.collator
        for epoch in range(5):
            collator.epoch = epoch
            batch = collator([prepared.train[place] for place in range(36)])
            for row in range(36):
                words = [
                    tokenizer.decode(batch[f"{view}input_ids"][row][batch[f"{view}trigger_mask"][row]])
                    for view in ("", "augmented_")
                ]
                assert words[0] == words[1] != ""
        collator.epoch = 0

    def test_unseen_mentions_as_the_choice_reads_them(self, prepared: TrainingData) -> None:
        assert prepared.unseen is not None
        assert (prepared.unseen.num_mentions, prepared.unseen.num_types) == (15, 3)
        assert set(prepared.unseen.batches[0]) == {*INPUTS, "trigger_mask"}

    def test_a_sample_of_many_unseen_mentions(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("eventformers.trainers.event_type_induction._CHOOSING_MENTIONS", 3)
        columns = {"text": [f"it rained {day}" for day in range(6)], "event_type": [""] * 6}
        rows = MentionRows(Dataset.from_dict({**columns, "seen": [False] * 6}))
        assert [mention.text for mention in rows.unseen()] == ["it rained 0", "it rained 2", "it rained 5"]
        assert "3 evenly spaced ones of 6 mentions of unseen types" in caplog.text

    def test_cut_sentences_are_counted(self, tiny_encoder: Path, tmp_path: Path) -> None:
        write_mentions(tmp_path)
        prepared = _prepare(tiny_encoder, tmp_path, ("max_seq_length=4", "trigger_input=span"))
        # Of all but those of Arrest, whose second word it is.
        assert prepared.description["statistics"]["triggers_cut_off"] == 29
        collator = prepared.collator
        assert collator.truncated == 0
        collator([prepared.train[0]])
        assert collator.truncated >= 1


@pytest.mark.parametrize(
    ("event_type", "expected"),
    [
        ("Personnel:Start-Position", "Start-Position"),
        ("Create_artwork", "Create artwork"),
        ("Injure", "Injure"),
    ],
)
def test_names_of_types(event_type: str, expected: str) -> None:
    assert type_name(event_type) == expected


class _Upside:
    """A translator that turns the order of the words around, and back it leaves them so."""

    def __init__(self, name: str) -> None:
        self.turns = name in ("there", "hin")

    def __call__(self, texts: Sequence[str]) -> list[Translated]:
        turned = [" ".join(text.split()[::-1]) if self.turns else text for text in texts]
        return [Translated(text, False) for text in turned]


def _prepare(encoder: Path, data: Path, settings: Sequence[str] = ()) -> TrainingData:
    recipe = resolve_recipe(METHOD, TestEventTypeInductionTraining.recipe, list(settings), 5)
    head = METHOD.head_class.from_encoder(str(encoder), **recipe.model)
    return METHOD.training.prepare(recipe, str(data), AutoTokenizer.from_pretrained(encoder), head, 5)


def _measure(monkeypatch: pytest.MonkeyPatch, values: Sequence[float]) -> None:
    """Let the silhouettes be these, one after the other."""
    remaining = iter(values)
    monkeypatch.setattr(callbacks, "attention_silhouette", lambda *_: next(remaining))


def _silhouettes(run: TrainingRun) -> dict[float, float]:
    return {line["step"]: line["silhouette"] for line in run.history if "silhouette" in line}


def _losses(run: TrainingRun) -> list[float]:
    return [line["loss"] for line in run.history if "loss" in line]
