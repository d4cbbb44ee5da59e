"""What the models of every method must do when they are saved and loaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from adapter_case import AdapterTests
from transformers import PreTrainedModel


class SavingTests(AdapterTests):
    """The part of `MethodCase` on saving a head, or the encoder of it, and loading either again."""

    config_class: ClassVar[type]

    @pytest.fixture
    def _uninitialised_memory_is_nan(self) -> Iterator[None]:
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = True
        yield
        torch.use_deterministic_algorithms(False)

    def test_save_and_load(self, head: PreTrainedModel, tiny_encoder: Path, tmp_path: Path) -> None:
        folder = tmp_path / "saved"
        head.save_pretrained(folder)
        reloaded = self.head_class.from_pretrained(folder)
        assert not reloaded.training
        for name, value in head.state_dict().items():
            assert torch.equal(reloaded.state_dict()[name], value), name
        inputs = self.head_inputs(head)
        torch.testing.assert_close(reloaded(**inputs).loss, head(**inputs).loss)
        assert (folder / "model.safetensors").is_file()
        assert not list(folder.glob("*.bin"))

    def test_saves_are_complete_repositories(
        self, head: PreTrainedModel, tiny_encoder: Path, tmp_path: Path
    ) -> None:
        """Whatever class is saved, the code of all classes is beside it, and no path of this machine."""
        first, second = tmp_path / "first", tmp_path / "second"
        for saved in (head, head.base_model):
            saved.save_pretrained(first)
            type(saved).from_pretrained(first).save_pretrained(second)
            for folder in (first, second):
                config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
                processor = {"AutoProcessor": self.config_class.processor}
                assert config["auto_map"] == self.config_class.full_auto_map | processor
                for reference in config["auto_map"].values():
                    assert (folder / f"{reference.split('.')[0]}.py").is_file()
                text = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.json"))
                for path in (tiny_encoder, tmp_path):
                    assert str(path) not in text
            shutil.rmtree(first)
            shutil.rmtree(second)

    @pytest.mark.usefixtures("_uninitialised_memory_is_nan")
    def test_head_on_a_checkpoint_of_the_encoder_alone(self, head: PreTrainedModel, tmp_path: Path) -> None:
        head.base_model.save_pretrained(tmp_path)
        seeded = []
        for _ in range(2):
            torch.manual_seed(3)
            loaded, report = self.head_class.from_pretrained(tmp_path, output_loading_info=True)
            seeded.append(loaded)
        own = {name for name in head.state_dict() if not name.startswith(f"{head.base_model_prefix}.")}
        assert set(report["missing_keys"]) == own
        assert not report["unexpected_keys"]
        assert not report["mismatched_keys"]
        for name, value in [*loaded.named_parameters(), *loaded.named_buffers()]:
            assert torch.isfinite(value).all(), name
            assert torch.equal(value, seeded[0].get_parameter_or_buffer(name)), name

    def test_encoder_from_a_checkpoint_of_the_head(
        self, head: PreTrainedModel, texts: dict[str, torch.Tensor], tmp_path: Path
    ) -> None:
        head.save_pretrained(tmp_path)
        loaded, report = self.model_class.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["missing_keys"]
        torch.testing.assert_close(loaded(**texts).embeddings, head.base_model(**texts).embeddings)

    def test_resized_vocabulary(
        self, head: PreTrainedModel, texts: dict[str, torch.Tensor], tmp_path: Path
    ) -> None:
        size = head.config.encoder_config.vocab_size
        expected = head.base_model(**texts).embeddings
        for number, model in enumerate((head.base_model, head)):
            model.resize_token_embeddings(size + 3 + number)
            folder = tmp_path / str(number)
            model.save_pretrained(folder)
            reloaded = type(model).from_pretrained(folder)
            assert reloaded.config.encoder_config.vocab_size == size + 3 + number
            assert reloaded.get_input_embeddings().num_embeddings == size + 3 + number
            torch.testing.assert_close(reloaded.base_model(**texts).embeddings, expected)
        new_word = torch.full((1, 3), size + 3)
        assert torch.isfinite(reloaded(new_word).embeddings).all()
        assert torch.isfinite(reloaded(**self.head_inputs(reloaded)).loss)
