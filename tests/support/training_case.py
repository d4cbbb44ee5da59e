"""The common case that the training of every method must pass.

A method's test file subclasses `MethodTrainingCase`, names the method and writes raw files to train on.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from case_files import TESTS, subclasses_in
from finished_case import FinishedRunTests
from forked import run_group
from one_batch import FITTED, loss_after_training
from peft import PeftModel
from safetensors.torch import load_file, save_file
from short_runs import assert_equal_weights, kill_after
from transformers import AutoModel

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.methods import load_method
from eventformers.trainers import method as method_parts
from eventformers.trainers.adapters import ADAPTER_FOLDER, add_adapters, modules_beside_encoders
from eventformers.trainers.base import backward_in_chunks
from eventformers.trainers.recipes import list_recipes
from eventformers.trainers.run import TrainingRun, accepted_keys, resolve_recipe, train_head
from eventformers.trainers.stages import RUN_FILE, STAGES_FOLDER
from eventformers.training import FinishedRun, train

WORKER = Path(__file__).with_name("two_processes.py")
# Clipping, and Adam, would hide a gradient that is a multiple of the right one.
UNCLIPPED = ("optim=sgd", "learning_rate=1e-3", "max_grad_norm=0.0")


def started_as(value: torch.Tensor, start: torch.Tensor) -> bool:
    """Whether a weight is what it was at the start, but for tokens that were added behind the vocabulary."""
    return torch.equal(value[: len(start)], start)


def adapted_model(folder: Path, encoder: Path, name: str) -> PeftModel:
    """A fresh head over the encoder with a run's adapters, those of all stages, by the example of their card.

    Args:
        folder: the run's folder.
        encoder: folder of the encoder, which card and adapters must not name.
        name: what they call the encoder.
    """
    adapter = folder / ADAPTER_FOLDER
    card = (adapter / "README.md").read_text(encoding="utf-8")
    text = card + (adapter / "adapter_config.json").read_text(encoding="utf-8")
    assert str(encoder) not in text
    [code] = re.findall(r"^```python\n(.*?)^```", card, flags=re.DOTALL | re.MULTILINE)
    for told, place in ((name, encoder), (ADAPTER_FOLDER, adapter)):
        assert json.dumps(told) in code
        code = code.replace(json.dumps(told), json.dumps(str(place)))
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the example is the card's own
    return names["model"]


def gradients(head: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The gradient of every parameter, by its name."""
    return {name: value.grad for name, value in head.named_parameters()}


def assert_same(
    found: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    *,
    rtol: float = 1e-3,
    atol: float = 1e-5,
) -> None:
    """Compare tensors by their names."""
    for name, value in expected.items():
        message = partial("{}: {}".format, name)
        torch.testing.assert_close(found[name], value, rtol=rtol, atol=atol, msg=message)


class MethodTrainingCase(FinishedRunTests):
    """What training a method must do, whatever the method."""

    head_fields: ClassVar[dict[str, Any]]
    """Fields of the configuration that turn every loss term on, hard negatives included."""
    fit_fields: ClassVar[dict[str, Any]]
    """Fields without dropout, under which the loss of `head_inputs` can be 0."""
    stream_settings: ClassVar[tuple[str, ...] | None]
    """Settings that stream the data; None where the method cannot."""
    splits_by_row: ClassVar[bool] = True
    """Whether each input of the head has the batch's rows, so that each process can take its own."""
    checks_sharded: ClassVar[bool] = False
    """Whether two processes also compute loss and gradient with FSDP2."""
    without_dropout: ClassVar[tuple[str, ...]] = ()
    """Settings that turn off dropout outside the encoder."""
    chunked_fields: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Other fields of the configuration under which chunks must give the gradient of the batch."""
    bad_settings: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Settings that are refused, each with what the error says of it."""
    settings_of_all_rows: ClassVar[tuple[str, ...]] = ()
    """Settings that a stream, which knows one row at a time, refuses."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "bad_setting" in metafunc.fixturenames:
            metafunc.parametrize("bad_setting", self.bad_settings, ids=lambda pair: pair[0])
        if "setting_of_all_rows" in metafunc.fixturenames:
            metafunc.parametrize("setting_of_all_rows", self.settings_of_all_rows)

    @classmethod
    def write_raw(cls, folder: Path) -> None:
        """Write raw files with some dozens of training rows."""
        raise NotImplementedError

    def head_inputs(self, head: Any) -> dict[str, torch.Tensor]:
        """Inputs of the head, batch first, with an even number of rows."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def raw(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("raw")
        cls.write_raw(folder)
        return folder

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, raw: Path, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
        """One short run with everything that belongs to it."""
        return cls._train(raw, tiny_encoder, tmp_path_factory)

    @pytest.fixture(scope="class")
    @classmethod
    def adapted(cls, raw: Path, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
        """The same run with adapters, without scores and without a card."""
        options = {"lora": True, "create_model_card": False, "tasks": ()}
        return cls._train(raw, tiny_encoder, tmp_path_factory, **options)

    @classmethod
    def _train(cls, raw: Path, encoder: Path, folders: pytest.TempPathFactory, **options: Any) -> FinishedRun:
        return train(
            cls.method,
            folders.mktemp("runs") / "model",
            recipe=cls.recipe,
            data=raw,
            evaluation_data="samples",
            encoder=str(encoder),
            device="cpu",
            **options,
        )

    def run(
        self,
        encoder: Path,
        raw: Path,
        output: Path,
        settings: Sequence[str] = (),
        seed: int = 5,
        **options: Any,
    ) -> TrainingRun:
        """Train for a few steps."""
        recipe = resolve_recipe(load_method(self.method), self.recipe, list(settings), seed)
        return train_head(
            recipe,
            encoder=str(encoder),
            output=output,
            data=str(raw),
            **{"device": "cpu", "encoder_name": "tiny", **options},
        )

    def needs_chunks(self) -> None:
        """Skip where the head cannot encode a batch in chunks."""
        if not hasattr(load_method(self.method).head_class, "encode_views"):
            pytest.skip("this head encodes its batch at once")

    # Resuming

    def assert_resumed(
        self, whole: TrainingRun, folder: Path, encoder: Path, killed: Path, raw: Path, **options: Any
    ) -> TrainingRun:
        """Go on from the first checkpoint of a run, as after a kill in its last stage; both must be equal."""
        kill_after(folder, min(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*")), killed)
        if (folder / STAGES_FOLDER).exists():
            shutil.copytree(folder / STAGES_FOLDER, killed / STAGES_FOLDER)
        resumed = self.run(encoder, raw, killed, resume=True, **options)
        assert resumed.steps == whole.steps
        started = AutoModel.from_pretrained(encoder).state_dict()
        assert_equal_weights(resumed, whole)
        trained = whole.model.base_model.encoder.state_dict()
        assert any(not torch.equal(value, started[name]) for name, value in trained.items())
        return resumed

    @pytest.mark.parametrize("lora", [False, True], ids=["plain", "lora"])
    def test_resumed_run_equals_the_uninterrupted(
        self, request: pytest.FixtureRequest, tiny_encoder: Path, raw: Path, tmp_path: Path, lora: bool
    ) -> None:
        whole: FinishedRun = request.getfixturevalue("adapted" if lora else "finished")
        options = {"lora": lora, "seed": whole.run.seed, "encoder_name": str(tiny_encoder)}
        self.assert_resumed(whole.run, whole.folder, tiny_encoder, tmp_path / "killed", raw, **options)

    def test_resumed_after_an_epoch(
        self, finished: FinishedRun, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        """Killed in the second epoch of three; in chunks where the head has them."""
        last = finished.run.stages[-1]
        logged = next(line for line in last.history if line.get("step") == 4)
        rows = round(4 * 4 / logged["epoch"])
        # Few steps: three an epoch.
        batch = math.ceil(rows / 3)
        epoch = math.ceil(rows / batch)
        settings = [
            *(f"max_steps={2 * epoch + 2}", f"save_steps={epoch + 1}"),
            f"per_device_train_batch_size={batch}",
        ]
        if hasattr(load_method(self.method).head_class, "encode_views"):
            settings.append(f"gradient_cache_chunk_size={batch // 2}")
        if last.name:
            settings.append(f"stages=[{last.name}]")
        whole = self.run(tiny_encoder, raw, tmp_path / "whole", settings)
        options = {"settings": settings}
        self.assert_resumed(whole, tmp_path / "whole", tiny_encoder, tmp_path / "killed", raw, **options)
        assert whole.history[-1]["epoch"] > 2

    def test_nothing_to_resume(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        with pytest.raises(EventformersError, match="no checkpoint"):
            self.run(tiny_encoder, raw, tmp_path / "absent", resume=True)

    def test_other_settings_cannot_resume(self, finished: FinishedRun, tiny_encoder: Path, raw: Path) -> None:
        with pytest.raises(EventformersError, match=r"has other settings: .*seed"):
            self.run(tiny_encoder, raw, finished.folder, resume=True)

    def test_other_rows_cannot_resume(
        self, finished: FinishedRun, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        killed = tmp_path / "killed"
        shutil.copytree(finished.folder, killed)
        record = json.loads((killed / RUN_FILE).read_text(encoding="utf-8"))
        assert all(record["rows"].values())
        record["rows"] = dict.fromkeys(record["rows"], "0" * 64)
        (killed / RUN_FILE).write_text(json.dumps(record), encoding="utf-8")
        options = {"seed": finished.run.seed, "encoder_name": str(tiny_encoder)}
        with pytest.raises(EventformersError, match=r"other rows \(fingerprint 0{12}\)"):
            self.run(tiny_encoder, raw, killed, resume=True, **options)

    # Ways of training

    def test_one_batch_is_fitted(self, tiny_encoder_without_dropout: Path, tmp_path: Path) -> None:
        torch.manual_seed(0)
        head = load_method(self.method).head_class.from_encoder(
            str(tiny_encoder_without_dropout), **self.fit_fields
        )
        assert loss_after_training(head, self.head_inputs(head), tmp_path) < FITTED

    def test_lora(self, adapted: FinishedRun, tiny_encoder: Path) -> None:
        assert not (adapted.folder / "README.md").exists()
        merged = load_file(adapted.folder / "model.safetensors")
        assert not [name for name in merged if "lora" in name or "modules_to_save" in name]
        encoder = AutoModel.from_pretrained(tiny_encoder).state_dict()
        prefix = f"{adapted.run.model.base_model_prefix}.encoder."
        changed = {
            name
            for name, value in merged.items()
            if name.startswith(prefix) and not started_as(value, encoder[name.removeprefix(prefix)])
        }
        assert changed
        assert all("attention" in name for name in changed)
        self.saved_model_is_the_trained_one(adapted)
        self.adapters_give_the_model(adapted, tiny_encoder)

    def adapters_give_the_model(self, finished: FinishedRun, encoder: Path) -> None:
        found = adapted_model(finished.folder, encoder, encoder.name).merge_and_unload().state_dict()
        expected = finished.run.model.state_dict()
        assert set(found) == set(expected)
        assert_same(found, expected, rtol=1e-5, atol=1e-6)

    def test_lora_freezes_the_encoder_alone(self, tiny_encoder: Path) -> None:
        """What the encoder did not bring along would stay as it was drawn."""
        head = load_method(self.method).head_class.from_encoder(str(tiny_encoder), **self.head_fields)
        inside = {id(value) for encoder in head.text_encoders() for value in encoder.parameters()}
        fresh = {name for name, value in head.named_parameters() if id(value) not in inside}
        trained = {
            name.removeprefix("base_model.model.").replace("modules_to_save.default.", "")
            for name, value in add_adapters(head, "tiny").named_parameters()
            if value.requires_grad
        }
        assert fresh <= trained
        assert all(".lora_" in name for name in trained - fresh)

    def test_gradient_cache_equals_one_pass(self, tiny_encoder_without_dropout: Path) -> None:
        self.needs_chunks()
        for fields in (self.head_fields, *self.chunked_fields):
            head = load_method(self.method).head_class.from_encoder(
                str(tiny_encoder_without_dropout), **fields
            )
            inputs = self.head_inputs(head)
            # A head may remember something of the batches before.
            head(**inputs)
            started = deepcopy(head.state_dict())
            plain = head(**inputs)
            plain.loss.backward()
            expected = {name: value.clone() for name, value in gradients(head).items() if value is not None}
            for chunk_size in (1, 4, 100):
                head.zero_grad()
                head.load_state_dict(started)
                output = backward_in_chunks(head, inputs, chunk_size, backward=lambda loss: loss.backward())
                torch.testing.assert_close(output.loss, plain.loss.detach())
                torch.testing.assert_close(output.embeddings, plain.embeddings)
                assert_same(gradients(head), expected)

    def test_gradient_cache_draws_the_same_dropout_twice(self, tiny_encoder: Path) -> None:
        """A single chunk draws what one pass draws; then its second encoding must draw it again."""
        self.needs_chunks()
        head = load_method(self.method).head_class.from_encoder(str(tiny_encoder), **self.head_fields)
        inputs = self.head_inputs(head)
        started = deepcopy(head.state_dict())
        torch.manual_seed(1)
        head(**inputs).loss.backward()
        expected = {name: value.clone() for name, value in gradients(head).items()}
        head.zero_grad()
        head.load_state_dict(started)
        torch.manual_seed(1)
        backward_in_chunks(head, inputs, 100, backward=lambda loss: loss.backward())
        assert_same(gradients(head), expected)

    def test_accumulation_and_cache_in_the_trainer(
        self, tiny_encoder_without_dropout: Path, raw: Path, tmp_path: Path
    ) -> None:
        self.needs_chunks()
        settings = ("gradient_accumulation_steps=2", "max_steps=2", *UNCLIPPED, *self.without_dropout)
        plain = self.run(tiny_encoder_without_dropout, raw, tmp_path / "plain", settings)
        cached = self.run(
            tiny_encoder_without_dropout,
            raw,
            tmp_path / "cached",
            (*settings, "gradient_cache_chunk_size=2"),
        )
        # Two batches by themselves, of the same weights.
        alone = self.run(
            tiny_encoder_without_dropout,
            raw,
            tmp_path / "alone",
            ("max_steps=2", "learning_rate=0.0", "module_learning_rates=null", *self.without_dropout),
        )
        assert_same(cached.model.state_dict(), plain.model.state_dict(), rtol=1e-4, atol=1e-6)
        losses = [next(line["loss"] for line in run.history if "loss" in line) for run in (plain, cached)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
        # The mean over accumulated batches, not their sum.
        batches = [line["loss"] for line in alone.history if "loss" in line]
        assert losses[0] == pytest.approx(sum(batches) / 2, rel=1e-4)

    def test_two_processes_equal_one_with_the_whole_batch(
        self, tiny_encoder_without_dropout: Path, raw: Path, tmp_path: Path
    ) -> None:
        """Loss and gradient of one batch, plain, in chunks and sharded, and a whole run, which one process
        writes."""
        head = load_method(self.method).head_class.from_encoder(
            str(tiny_encoder_without_dropout), **self.head_fields
        )
        settings = [*UNCLIPPED, *self.without_dropout]
        request = {
            "method": self.method,
            "recipe": self.recipe,
            "encoder": str(tiny_encoder_without_dropout),
            "raw": str(raw),
            "settings": settings,
            "stream_settings": self.stream_settings,
            "splits_by_row": self.splits_by_row,
            "checks_sharded": self.checks_sharded,
        }
        (tmp_path / "request.json").write_text(json.dumps(request), encoding="utf-8")
        if self.splits_by_row:
            head.save_pretrained(tmp_path / "head")
            inputs = self.head_inputs(head)
            save_file(
                {name: value.contiguous() for name, value in inputs.items()}, tmp_path / "inputs.safetensors"
            )
            output = head(**inputs)
            output.loss.backward()
        process = run_group([str(WORKER), str(tmp_path)], cwd=tmp_path)
        assert process.returncode == 0, process.stderr[-4000:]

        ways = ("plain", "chunks") if self.splits_by_row else ()
        for way in (*ways, "sharded") if self.checks_sharded else ways:
            found = load_file(tmp_path / f"{way}.safetensors")
            torch.testing.assert_close(found.pop("loss"), output.loss.detach(), rtol=1e-5, atol=1e-6)
            assert_same(found, gradients(head))

        alone = self.run(
            tiny_encoder_without_dropout,
            raw,
            tmp_path / "alone",
            [*settings, "per_device_train_batch_size=8"],
        )
        assert_same(load_file(tmp_path / "run" / "model.safetensors"), alone.model.state_dict())
        assert (tmp_path / "run" / "results").is_dir()

    @pytest.fixture(autouse=True)
    def _small_buffer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # A stream fills its buffer before it yields a row, here with many copies of few rows.
        monkeypatch.setattr(method_parts, "SHUFFLED_ROWS", 100)

    def test_streaming(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        if self.stream_settings is None:
            pytest.skip("this method does not stream")
        settings = self.stream_settings
        run = self.run(tiny_encoder, raw, tmp_path / "whole", settings)
        assert run.steps == 4
        losses = [line["loss"] for line in run.history if "loss" in line]
        again = self.run(tiny_encoder, raw, tmp_path / "again", settings)
        assert losses == [line["loss"] for line in again.history if "loss" in line]
        options = {"settings": settings}
        self.assert_resumed(run, tmp_path / "whole", tiny_encoder, tmp_path / "killed", raw, **options)

    def test_modules_have_their_own_learning_rates(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        """In mixed precision, which leaves the weights in float32. A head may have no module of its own."""
        head = load_method(self.method).head_class.from_encoder(str(tiny_encoder), **self.head_fields)
        own_rates = {name.rpartition(".")[2]: 0.1 for name in modules_beside_encoders(head)[:1]}
        run = self.run(
            tiny_encoder,
            raw,
            tmp_path,
            ("max_steps=1", "learning_rate=0.0", f"module_learning_rates={json.dumps(own_rates)}"),
            dtype="bfloat16",
        )
        assert {value.dtype for value in run.model.parameters()} == {torch.float32}
        assert all(torch.isfinite(value).all() for value in run.model.parameters())
        texts = run.tokenizer(["police arrested thief", "storm hit"], padding=True, return_tensors="pt")
        inputs = (texts["input_ids"], texts["attention_mask"])
        # The precision of training ends with it.
        assert torch.equal(run.model(*inputs).embeddings, run.model.base_model(*inputs).embeddings)
        start = AutoModel.from_pretrained(tiny_encoder).state_dict()
        for name, value in run.model.base_model.encoder.state_dict().items():
            assert started_as(value, start[name]), name
        optimizer = torch.load(next(tmp_path.glob("checkpoint-1")) / "optimizer.pt", weights_only=True)
        rates = {group["initial_lr"] for group in optimizer["param_groups"]}
        assert rates == {0.0, *own_rates.values()}

    def test_frozen_modules_stay(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        run = self.run(tiny_encoder, raw, tmp_path, ("max_steps=1", "frozen_modules=[embeddings]"))
        start = AutoModel.from_pretrained(tiny_encoder).state_dict()
        for name, value in run.model.base_model.encoder.state_dict().items():
            assert started_as(value, start[name]) == name.startswith("embeddings."), name

    @pytest.mark.parametrize(
        "setting", ["module_learning_rates={protoypes: 0.1}", "frozen_modules=[protoypes]"]
    )
    def test_module_that_is_not_there(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, setting: str
    ) -> None:
        with pytest.raises(UnknownNameError, match="protoypes"):
            self.run(tiny_encoder, raw, tmp_path, (setting,))

    def test_bad_settings(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, bad_setting: tuple[str, str]
    ) -> None:
        setting, message = bad_setting
        with pytest.raises(EventformersError, match=message):
            self.run(tiny_encoder, raw, tmp_path, ("max_steps=1", setting))

    def test_a_stream_knows_no_other_rows(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, setting_of_all_rows: str
    ) -> None:
        name = setting_of_all_rows.split("=")[0]
        with pytest.raises(
            EventformersError, match=rf"streaming=true reads one \w+ .* accepted with it: .*{name}="
        ):
            self.run(tiny_encoder, raw, tmp_path, (*(self.stream_settings or ()), setting_of_all_rows))

    def test_encoder_that_is_not_there(self, raw: Path, tmp_path: Path) -> None:
        with pytest.raises(EventformersError, match="nowhere"):
            self.run(tmp_path / "nowhere", raw, tmp_path / "run")

    # Recipes

    def test_every_recipe_holds_known_settings(self) -> None:
        method = load_method(self.method)
        names = list_recipes(method.recipe_folder)
        assert {"demo", method.paper_recipe, method.default_recipe} <= set(names)
        for name in names:
            recipe = resolve_recipe(method, name)
            assert recipe.description, name
            trained = load_method(recipe.method)
            trained.config_class(**recipe.model)
            if recipe.expected:
                assert recipe.expected_source, name
                assert set(recipe.expected) <= set(trained.tasks), name

    def test_unknown_names_suggest_the_nearest(self) -> None:
        method = load_method(self.method)
        key = sorted(accepted_keys(method)["model"])[0]
        with pytest.raises(UnknownNameError, match=f"Did you mean '{key}'"):
            resolve_recipe(method, self.recipe, [f"{key}s=1"])
        for name, value in method.config_class.retired.items():
            with pytest.raises(
                EventformersError,
                match=re.escape(f"{name} is no longer a setting; its value is always {value}"),
            ):
                resolve_recipe(method, self.recipe, [f"model.{name}={value}"])
        with pytest.raises(UnknownNameError, match="Did you mean 'demo'"):
            resolve_recipe(method, "demoo")
        with pytest.raises(UnknownNameError, match=f"Did you mean '{self.method}'"):
            load_method(f"{self.method}x")


def training_case_of(method: str) -> type[MethodTrainingCase]:
    """The training case of a method, from its file in tests/trainers."""
    path = TESTS / "trainers" / f"test_{method}.py"
    found = [case for case in subclasses_in(path, MethodTrainingCase) if case.method == method]
    assert found, f"{path.name} has no subclass of MethodTrainingCase for {method}"
    return found[0]
