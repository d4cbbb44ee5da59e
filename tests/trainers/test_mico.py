"""Training of MICO."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from datasets import DatasetDict
from mico_inputs import mico_inputs
from training_case import MethodTrainingCase

from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.methods import load_method
from eventformers.trainers import mico
from eventformers.trainers.mico import PremiseRows
from eventformers.trainers.recipes import list_recipes
from eventformers.trainers.run import resolve_recipe

HEADS = ("police", "bank", "storm", "house", "judge", "doctor", "spokeswoman", "bridge")
TAILS = ("city", "fire", "market price", "court of the city", "patient", "grandmother")


class TestMicoTraining(MethodTrainingCase):
    method = "mico"
    recipe = str(Path(__file__).with_name("quick_mico.yaml"))
    checks_sharded = True
    loss_terms = ("contrastive_loss", "distillation_loss")
    head_fields = {  # noqa: RUF012
        "pooling": "mean",
        "contrastive_temperature": 0.1,
        "mask_known_positives": True,
        "distillation_weight": 0.5,
    }
    # Other vectors cannot be fitted as well.
    fit_fields = {**head_fields, "distillation_weight": 0.0}  # noqa: RUF012
    # A stream knows no other alternative of a premise.
    stream_settings = ("streaming=true", "num_alternatives=1", "mask_known_positives=false")
    settings_of_all_rows = (
        *("num_alternatives=2", "mask_known_positives=true", "validation_rows=4"),
        *("both_directions=true", "frequency_correction=true"),
    )
    bad_settings = (
        ("num_alternatives=0", r"num_alternatives: found 0; accepted: a whole number of 1 or more"),
        ("num_alternatives=two", r"num_alternatives: found 'two'; accepted: a whole number"),
        ("max_seq_length=2", r"max_seq_length: found 2; accepted: a whole number of 3 or more"),
        ("validation_rows=3", r"validation_rows: received 3; accepted: an even number up to the 12 rows"),
        ("validation_rows=14", r"validation_rows: received 14; .* up to the 12 rows"),
        ("validation_rows=-2", r"validation_rows: found -2"),
        ("validation_rows=half", r"validation_rows: found 'half'"),
        ("both_directions=2", r"both_directions: found 2"),
        ("positive=easy", r"positive"),
        ("contrastive_temperature=0", r"contrastive_temperature is 0; accepted: a number above 0"),
        ("config=conceptnet_inductive", r"conceptnet_inductive.*_pairs"),
        ("config=conceptnet_pairs", r"conceptnet_pairs"),
        ("config=conceptnets_pairs", r"conceptnets_pairs"),
        ("templates=missing.yaml", r"missing\.yaml"),
        ("stop_at_relative_change=-0.5", r"stop_at_relative_change: found -0\.5; accepted"),
        ("stop_at_relative_change=0.01", r"stop_at_relative_change needs a validation loss"),
    )

    @classmethod
    def write_raw(cls, folder: Path) -> None:
        """A graph of 18 triples in which every premise but a few has several alternatives."""
        triples = [
            f"{relation}\t{HEADS[number % 8]}\t{TAILS[number % 6]}"
            for relation in ("IsA", "UsedFor", "AtLocation")
            for number in range(0, 24, 4)
        ]
        (folder / "CN-82K-Ind").mkdir()
        for name, chosen in (("train", triples), ("valid", triples[::3]), ("test", triples[:2])):
            text = "\n".join(line.replace("police", "thief") if name == "valid" else line for line in chosen)
            (folder / "CN-82K-Ind" / f"{name}.txt").write_text(text + "\n", encoding="utf-8")

    def head_inputs(self, head: Any) -> dict[str, torch.Tensor]:
        return mico_inputs(head.config.encoder_config.vocab_size, head.config.projection_dim)

    def test_validation_loss(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        """Of one alternative a premise, so that the number in training does not matter."""
        found = []
        for count in (1, 3):
            settings = ("validation_rows=4", f"num_alternatives={count}", "learning_rate=0.0", "max_steps=2")
            plain = "module_learning_rates=null"
            run = self.run(tiny_encoder, raw, tmp_path / str(count), (*settings, plain))
            [loss] = [line["eval_loss"] for line in run.history if "eval_loss" in line]
            assert np.isfinite(loss)
            found.append(loss)
        assert found[0] == pytest.approx(found[1], rel=1e-6)

    def test_whole_validation_split(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        """All 12 rows count, though they are no whole number of batches: 4 rows alone change the loss."""
        losses = []
        for rows, size in (("null", 8), ("8", 8), ("null", 12)):
            settings = (f"validation_rows={rows}", f"per_device_eval_batch_size={size}")
            run = self.run(tiny_encoder, raw, tmp_path / f"{rows}-{size}", (*settings, "save_steps=1"))
            found = [line["eval_loss"] for line in run.history if "eval_loss" in line]
            assert len(found) == 4
            losses.append(found[0])
        assert len(set(losses)) == 3

    def test_frequency_correction(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        """The first loss of a run with it is another one, and it trains on."""
        losses = []
        for switch in ("true", "false"):
            run = self.run(tiny_encoder, raw, tmp_path / switch, (f"frequency_correction={switch}",))
            losses.append([line["loss"] for line in run.history if "loss" in line])
        assert all(np.isfinite(losses).ravel())
        assert losses[0][0] != losses[1][0]

    def test_correction_of_an_absent_graph(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        for graphs, absent in (("[conceptnet]", False), ("[conceptnet, atomic]", True)):
            settings = ("max_steps=1", f"frequency_correction={graphs}")
            self.run(tiny_encoder, raw, tmp_path / str(absent), settings)
            assert ("frequency_correction" in caplog.text) == absent
        assert "names atomic, but the training data are of conceptnet; it corrects only" in caplog.text

    def test_two_graphs_in_one_run(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        """Rows of both train, the run is scored on both, and its record sums them up."""
        folder = tmp_path / "raw"
        shutil.copytree(raw, folder)
        (folder / "ATOMIC-Ind").mkdir()
        for name, count in (("train", 10), ("valid", 4)):
            lines = [f"PersonX sees the {HEADS[number % 8]}\txWant\tto see fire" for number in range(count)]
            (folder / "ATOMIC-Ind" / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        graphs = "config=[conceptnet_inductive_pairs, atomic_inductive_pairs]"
        settings = (graphs, "validation_rows=4")
        counts = PremiseRows.log_frequencies
        with mock.patch.object(PremiseRows, "log_frequencies", autospec=True, side_effect=counts) as counted:
            run = self.run(
                tiny_encoder, folder, tmp_path / "run", (*settings, "frequency_correction=[conceptnet]")
            )
        # Of the two graphs, the first alone is corrected.
        assert counted.call_args.args[2] == [0]
        assert run.validation_rows == 8
        assert run.data["rows"] == 2 * (18 + 6 + 2 + 14)
        assert run.data["splits"]["train"] == {"rows": 2 * (18 + 10)}
        assert run.data["read"]["triples"] == 18 + 6 + 2 + 14
        assert run.data["config"] == "conceptnet_inductive_pairs, atomic_inductive_pairs"
        assert load_method(self.method).tasks_of(run.recipe) == load_method(self.method).tasks
        for wrong, message in (
            ("frequency_correction=[conceptnets, atomic]", r"frequency_correction.*conceptnets"),
            ("config=[atomic_pairs, atomic_inductive_pairs]", r"accepted: one config for each graph"),
            ("config=[]", r"setting config: found \[\]; accepted: one config"),
            ("config=[atomic_inductive]", r"whose name ends with _pairs"),
        ):
            with pytest.raises(EventformersError, match=message):
                self.run(tiny_encoder, folder, tmp_path / "wrong", (*settings, wrong))

    def test_both_directions_of_a_triple_in_one_batch(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        """A batch counts triples: 18 of them are 4 whole batches of 4."""
        run = self.run(
            tiny_encoder, raw, tmp_path, ("both_directions=true", "max_steps=-1", "num_train_epochs=1")
        )
        assert run.steps == 4

    def test_streaming_reads_one_graph(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        graphs = "config=[conceptnet_inductive_pairs, atomic_inductive_pairs]"
        with pytest.raises(EventformersError, match=r"streaming=true reads one graph"):
            self.run(tiny_encoder, raw, tmp_path, (*self.stream_settings, graphs))

    def test_rows_that_are_no_pairs(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Data that others built may hold the rows in any order."""
        built = load_built(raw, "conceptnet_inductive_pairs", builder="commonsense_graphs")
        rows = built["train"]
        mixed = DatasetDict(train=rows.select([*range(0, len(rows), 2), *range(1, len(rows), 2)]))
        monkeypatch.setattr(mico, "load_built", lambda *_arguments, **_settings: mixed)
        with pytest.raises(EventformersError, match=r"both_directions=true.* both directions of each triple"):
            self.run(tiny_encoder, raw, tmp_path, ("both_directions=true",))

    def test_lora_where_nothing_else_is_trained(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        run = self.run(tiny_encoder, raw, tmp_path, ("module_learning_rates=null", "max_steps=1"), lora=True)
        assert run.adapter is not None
        names = {name.split(".")[0] for name in run.model.state_dict()}
        assert names == {"mico"}

    @pytest.mark.parametrize("missing", ["train", "valid"])
    def test_split_that_is_not_there(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, missing: str
    ) -> None:
        folder = tmp_path / "raw" / "CN-82K-Ind"
        folder.mkdir(parents=True)
        for path in (raw / "CN-82K-Ind").glob("*.txt"):
            if path.stem != missing:
                (folder / path.name).write_bytes(path.read_bytes())
        with pytest.raises(EventformersError, match="train" if missing == "train" else "validation split"):
            self.run(tiny_encoder, tmp_path / "raw", tmp_path / "run", ("validation_rows=2",))

    def test_training_stops_where_the_loss_has_settled(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        settings = ("validation_rows=4", "save_steps=1", "stop_at_relative_change=100.0")
        assert self.run(tiny_encoder, raw, tmp_path / "settled", settings).steps == 2
        never = (*settings[:2], "stop_at_relative_change=0.0")
        assert self.run(tiny_encoder, raw, tmp_path / "never", never).steps == 4

    def test_tasks_of_the_graph_that_was_trained_on(self) -> None:
        method = load_method(self.method)
        tasks = {}
        for name in list_recipes(self.method):
            recipe = resolve_recipe(method, name)
            tasks[name] = method.tasks_of(recipe)
            assert set(recipe.expected) <= set(tasks[name]), name
        questions = ("copa", "siqa", "csqa")
        assert tasks["paper-bert-base"] == ("conceptnet_completion", *questions)
        assert tasks["paper-bert-base-atomic"] == ("atomic_completion", *questions)

    def test_recipes_of_the_paper(self) -> None:
        """Section 4.4: batch 196, two alternatives, length 32, temperature 0.07, no schedule."""
        method = load_method(self.method)
        for name, rate in (("paper-bert-base", 1e-5), ("paper-roberta-large", 5e-6)):
            for graph in ("", "-atomic"):
                recipe = resolve_recipe(method, name + graph)
                config = method.config_class(**recipe.model)
                assert (config.pooling, config.contrastive_temperature, config.positive) == (
                    "cls",
                    0.07,
                    "hard",
                )
                assert config.feature_dropout == (0.05 if "large" in name else 0.0)
                assert recipe.views == {"num_alternatives": 2, "max_seq_length": 32}
                training = recipe.training
                assert training["per_device_train_batch_size"] == 196
                assert training["learning_rate"] == rate
                assert training["lr_scheduler_type"] == "constant"
                assert training["weight_decay"] == training["max_grad_norm"] == 0.0
                assert (training["num_train_epochs"], training["stop_at_relative_change"]) == (10, 0.01)
                assert recipe.seed == 42
                assert recipe.data["validation_rows"] is None
