"""PEFT's common tests of feature extractors, with the encoders of every method."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from copy import deepcopy
from functools import cache, wraps
from typing import Any

import pytest
import torch
from library_tests import ALL_METHODS, library_tests
from method_case import case_of
from peft import AdamssConfig, BeftConfig, LoraConfig, PromptLearningConfig
from transformers import AutoModel, BertConfig, PreTrainedModel

from eventformers.methods import built_in_methods

extractors = library_tests(
    "peft", "test_feature_extraction_models", {"diffusers": {"StableDiffusionPipeline": object}}
)
# The models are not on the Hub.
sys.modules[extractors.PeftCommonTester.__module__].hub_online_once = lambda name: nullcontext()

METHODS = [method.name for method in built_in_methods()] if ALL_METHODS else ["heterevent"]
TARGETS = ["query", "value", "attention_projection"]
"""The last one is HeterEvent's. PEFT cannot combine adapters of the others, whose sides differ."""
FIELDS = {
    # BOFT divides layers into blocks of four.
    "heterevent": {"chain_dim": 16},
    # The tests encode mentions alone, so that a tower of events would have no gradient.
    "event_grounding": {"share_towers": True},
}

# The tests are parametrised by these lists. PEFT knows no layers of our types of models.
extractors.PEFT_FEATURE_EXTRACTION_MODELS_TO_TEST[:] = METHODS
# AdaMSS divides singular vectors at random, and in layers this small a part may get no gradient.
extractors.ALL_CONFIGS[:] = [one for one in extractors.ALL_CONFIGS if one[0] is not AdamssConfig]
for kind, settings in extractors.ALL_CONFIGS:
    if not issubclass(kind, PromptLearningConfig):
        # BEFT trains biases, which the layers of HeterEvent do not have.
        settings["target_modules"] = TARGETS[:2] if kind is BeftConfig else TARGETS
    if "feedforward_modules" in settings:
        settings["feedforward_modules"] = []


@cache
def _model(method: str) -> PreTrainedModel:
    text_config = BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    )
    case = case_of(method)
    torch.manual_seed(0)
    fields = {**case.variants["everything"].fields, **FIELDS.get(method, {})}
    model = case.model_class(case.config_class(text_config=text_config, **fields)).eval()
    model.config.name_or_path = model.name_or_path = method
    return model


class Loader:
    """What PEFT's tests load a model with."""

    @staticmethod
    def from_pretrained(name: str, dtype: torch.dtype = torch.float32, **settings: Any) -> PreTrainedModel:
        if name not in METHODS:
            return AutoModel.from_pretrained(name, dtype=dtype, **settings)
        return deepcopy(_model(name)).to(dtype)


class TestPeft(extractors.TestPeftFeatureExtractionModel):
    """The tests, with the targets that PEFT does not know and without a test that does not apply."""

    transformers_class = Loader

    def test_load_model_low_cpu_mem_usage(self) -> None:
        self._test_load_model_low_cpu_mem_usage(METHODS[0], LoraConfig, {"target_modules": TARGETS})

    @wraps(extractors.TestPeftFeatureExtractionModel.test_training_gradient_checkpointing)
    def test_training_gradient_checkpointing(self, model_id: str, **arguments: Any) -> None:
        if case_of(model_id).normalises:
            pytest.skip("its loss is the sum of squares, which is constant for vectors of length 1")
        super().test_training_gradient_checkpointing(model_id=model_id, **arguments)
