"""What a short training run with everything that belongs to it must leave behind, whatever the method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from eventformers.errors import EventformersError
from eventformers.methods import load_method
from eventformers.trainers.stages import RUN_FILE
from eventformers.training import FinishedRun, train

PICKLED = (".bin", ".pkl", ".pickle", ".pt", ".pth")


class FinishedRunTests:
    """What a run leaves behind."""

    method: ClassVar[str]
    recipe: ClassVar[str]
    """A YAML file of its own: 4 steps, a checkpoint every 2, a log line at each, 4 rows a batch."""
    loss_terms: ClassVar[tuple[str, ...]]
    """Terms that the recipe's runs log."""
    languages: ClassVar[str | list[str]] = "en"
    """The language or languages that the card states."""

    def test_repository_is_complete(self, finished: FinishedRun) -> None:
        folder, method = finished.folder, load_method(self.method)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        processor = {"AutoProcessor": method.config_class.processor}
        assert config["auto_map"] == method.config_class.full_auto_map | processor
        names = {path.name for path in folder.iterdir()}
        assert set(config["custom_pipelines"]) == set(method.config_class.pipelines)
        pipelines = [entry["impl"] for entry in config["custom_pipelines"].values()]
        code = {f"{reference.split('.')[0]}.py" for reference in [*config["auto_map"].values(), *pipelines]}
        assert code <= names
        assert {
            "model.safetensors",
            "tokenizer.json",
            "training_args.json",
            "training_data.json",
            "README.md",
            "results",
            ".eval_results",
        } <= names
        assert not list(folder.glob(".staging*"))

    def test_the_card_tells_settings_by_their_values(self, finished: FinishedRun) -> None:
        """A value that was written as text reads as one: `None` for what is off, a mapping as one word."""
        card = (finished.folder / "README.md").read_text(encoding="utf-8")
        assert "`None`" not in card
        assert "`{" not in card
        assert ModelCard(card).data.language == self.languages

    def test_no_pickle_beside_the_model(self, finished: FinishedRun) -> None:
        pickled = [path for path in finished.folder.rglob("*") if path.suffix in PICKLED]
        assert all(path.parent.name.startswith("checkpoint-") for path in pickled)
        assert "training_args.bin" not in {path.name for path in pickled}
        assert {"optimizer.pt", "scheduler.pt"} <= {path.name for path in pickled}
        for path in pickled:
            if path.name in ("optimizer.pt", "scheduler.pt"):
                torch.load(path, weights_only=True)

    def test_names_no_place_of_this_machine(self, finished: FinishedRun) -> None:
        root = str(finished.folder.parents[1])
        for name in ("config.json", "training_args.json", "tokenizer_config.json"):
            assert root not in (finished.folder / name).read_text(encoding="utf-8"), name

    def test_every_loss_term_is_logged(self, finished: FinishedRun) -> None:
        steps = [line for line in finished.run.history if "loss" in line]
        assert len(steps) == 4
        for line in steps:
            assert {name for name in line if name.endswith("_loss")} == set(self.loss_terms)

    def test_saved_model_is_the_trained_one(self, finished: FinishedRun) -> None:
        self.saved_model_is_the_trained_one(finished)

    def saved_model_is_the_trained_one(self, finished: FinishedRun) -> None:
        texts = AutoTokenizer.from_pretrained(finished.folder)(
            ["police arrested thief", "storm destroyed the bridge"], padding=True, return_tensors="pt"
        )
        expected = finished.run.model(texts["input_ids"], texts["attention_mask"]).embeddings
        for auto_class in (AutoModel, AutoModelForPreTraining):
            model = auto_class.from_pretrained(finished.folder)
            torch.testing.assert_close(
                model(texts["input_ids"], texts["attention_mask"]).embeddings, expected
            )

    def test_scores_stand_beside_the_untrained_encoder(self, finished: FinishedRun) -> None:
        tasks = load_method(self.method).tasks_of(finished.run.recipe)
        assert tasks
        assert tuple(result.task for result in finished.results) == tasks
        for result in finished.results:
            assert result.baseline is not None
            assert result.seed == finished.run.seed
        written = {path.stem for path in (finished.folder / "results").rglob("*.json")}
        assert set(tasks) <= written
        assert list((finished.folder / ".eval_results").glob("*.yaml"))

    def test_card(self, finished: FinishedRun) -> None:
        card = (finished.folder / "README.md").read_text(encoding="utf-8")
        assert card.startswith("---\n")
        assert str(finished.run.seed) in card
        for task in load_method(self.method).tasks_of(finished.run.recipe):
            assert task in card or task.replace("_", " ") in card.lower()

    def test_seed_is_recorded(self, finished: FinishedRun) -> None:
        record = json.loads((finished.folder / RUN_FILE).read_text(encoding="utf-8"))
        assert record["recipe"]["seed"] == finished.run.seed

    def test_a_finished_model_is_not_replaced_by_accident(
        self, finished: FinishedRun, raw: Path, tiny_encoder: Path
    ) -> None:
        before = (finished.folder / "model.safetensors").read_bytes()
        with pytest.raises(EventformersError, match="--overwrite"):
            train(self.method, finished.folder, recipe=self.recipe, data=raw, encoder=str(tiny_encoder))
        assert (finished.folder / "model.safetensors").read_bytes() == before
