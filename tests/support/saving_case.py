"""Saving and loading, with and without adapters: a part of the common case of all methods."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from peft import LoraConfig, PeftModel, PrefixTuningConfig, get_peft_model
from transformers import AutoModel, PreTrainedModel


class AdapterTests:
    """The part of `MethodCase` on adapters."""

    model_class: ClassVar[type[PreTrainedModel]]
    head_class: ClassVar[type[PreTrainedModel]]
    head_auto_class: ClassVar[str] = "AutoModelForPreTraining"
    modules_to_save: ClassVar[tuple[str, ...]] = ()
    """Modules of the head that LoRA trains whole."""
    lora_targets: ClassVar[str] = r".*encoder\.layer\.\d+\.attention\.self\.(query|value)"

    def head_inputs(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        """All inputs that any variant of the head takes, batch first."""
        raise NotImplementedError

    def test_lora(self, head: PreTrainedModel, tmp_path: Path) -> None:
        """Every matrix trains, and the adapter survives saving, loading and merging."""
        inputs = self.head_inputs(head)
        head.save_pretrained(tmp_path / "base")
        adapter = LoraConfig(
            task_type="FEATURE_EXTRACTION",
            r=4,
            target_modules=self.lora_targets,
            modules_to_save=list(self.modules_to_save),
        )
        model = get_peft_model(head, adapter)
        before = {name: value.clone() for name, value in model.named_parameters()}
        trained = {name for name, value in model.named_parameters() if value.requires_grad}
        assert any("lora_A" in name for name in trained)
        for module in self.modules_to_save:
            assert any(f"{module}.modules_to_save" in name for name in trained), module
        # A LoRA matrix A has no gradient until its B has left zero.
        optimizer = torch.optim.SGD([value for value in model.parameters() if value.requires_grad], lr=0.1)
        reached = set()
        for _ in range(3):
            optimizer.zero_grad()
            model(**inputs).loss.backward()
            # A step can change a weight by less than its precision, so gradients count.
            gradients = {name: value.grad for name, value in model.named_parameters()}
            reached |= {name for name, grad in gradients.items() if grad is not None and bool(grad.any())}
            optimizer.step()
        assert reached == trained
        for name, value in model.named_parameters():
            assert name in trained or torch.equal(value, before[name]), name

        model.eval()
        texts = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        loss, embeddings = model(**inputs).loss, model(**texts).embeddings
        model.save_pretrained(tmp_path / "adapter")
        again = PeftModel.from_pretrained(
            self.head_class.from_pretrained(tmp_path / "base"), tmp_path / "adapter"
        ).eval()
        merged = model.merge_and_unload()
        merged.save_pretrained(tmp_path / "merged")
        reloaded = self.head_class.from_pretrained(tmp_path / "merged")
        base = AutoModel.from_pretrained(tmp_path / "merged")
        for other in (again, merged, reloaded):
            torch.testing.assert_close(other(**inputs).loss, loss, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(other(**texts).embeddings, embeddings, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(base(**texts).embeddings, embeddings, rtol=1e-4, atol=1e-5)
        assert set(reloaded.state_dict()) == set(
            self.head_class.from_pretrained(tmp_path / "base").state_dict()
        )

    def test_adapters_load_into_their_class(
        self, head: PreTrainedModel, texts: dict[str, torch.Tensor], tmp_path: Path
    ) -> None:
        head.save_pretrained(tmp_path / "base")
        settings = LoraConfig(target_modules=self.lora_targets, init_lora_weights=False)
        model = get_peft_model(self.head_class.from_pretrained(tmp_path / "base"), settings).eval()
        model.save_pretrained(tmp_path / "adapter")
        encoder = self.model_class.from_pretrained(tmp_path / "adapter")
        torch.testing.assert_close(encoder(**texts).embeddings, model.base_model(**texts).embeddings)
        with pytest.raises(ValueError, match="found weights of a head"):
            PeftModel.from_pretrained(
                self.model_class.from_pretrained(tmp_path / "base"), tmp_path / "adapter"
            )
        get_peft_model(head.base_model, settings).save_pretrained(tmp_path / "other")
        with pytest.raises(ValueError, match="found weights of an encoder alone"):
            PeftModel.from_pretrained(self.head_class.from_pretrained(tmp_path / "base"), tmp_path / "other")

    def test_prefix_tuning(self, head: PreTrainedModel, texts: dict[str, torch.Tensor]) -> None:
        """A prefix trains on texts; a head, whose inputs are several texts, refuses it."""
        inputs, before = self.head_inputs(head), head.base_model(**texts).embeddings
        settings = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
        model = get_peft_model(head.base_model, settings).eval()
        embeddings = model(**texts).embeddings
        assert not torch.allclose(embeddings, before, atol=1e-4)
        embeddings[:, 0].sum().backward()
        assert all(weight.grad.any() for weight in model.prompt_encoder.parameters())
        several = get_peft_model(head, settings)
        if inputs["input_ids"].dim() > 2 or self.head_auto_class == "AutoModelForPreTraining":
            with pytest.raises(ValueError, match="inputs_embeds or past_key_values"):
                several(**inputs)

    def test_adapters_of_all_linear_layers_train(self, head: PreTrainedModel) -> None:
        """Before merging, they have the effect and the gradients that they have after it."""
        inputs = self.head_inputs(head)
        without = head(**inputs).loss.item()
        settings = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
        model = get_peft_model(head, settings).eval()
        loss = model(**inputs).loss
        loss.backward()
        assert loss.item() != pytest.approx(without, rel=1e-4)
        for name, value in model.named_parameters():
            if value.requires_grad:
                assert value.grad is not None, name
                assert value.grad.any(), name
        torch.testing.assert_close(model.merge_and_unload()(**inputs).loss, loss, rtol=1e-4, atol=1e-5)


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
