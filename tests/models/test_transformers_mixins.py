"""The common tests of transformers for models, configurations and processors, with those of every method."""

from __future__ import annotations

import tempfile
import unittest
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from library_tests import ALL_METHODS, library_tests, skip_tests
from method_case import CLS, FIRST_WORD, SEP, MethodCase, case_of
from tiny import save_tiny_encoder
from transformers import BertConfig, BertTokenizerFast

from eventformers.methods import built_in_methods

_STUB = type("Stub", (), {})
common = library_tests(
    "transformers",
    "test_modeling_common",
    {
        ".exporters": {},
        ".exporters.test_export": {"ExportTesterMixin": _STUB},
        ".generation": {},
        ".generation.test_utils": {"GenerationTesterMixin": _STUB},
    },
)
configurations = library_tests(
    "transformers",
    "test_configuration_common",
    {".utils": {}, ".utils.test_configuration_utils": {"config_common_kwargs": {}}},
)

processors = library_tests(
    "transformers", "test_processing_common", {"fetch_hub_objects_for_ci": {"url_to_local_path": str}}
)

METHODS = ["heterevent", "event_grounding_cross"]
if ALL_METHODS:
    METHODS = [method.name for method in built_in_methods()]
VOCABULARY = 99
NOT_APPLICABLE = {
    "test_generation_tester_mixin_inheritance": "it is about models that generate text; no model does",
}
NOT_APPLICABLE_TO = {
    "event_type_induction": {
        "test_model_outputs_equivalence": "it subtracts all outputs, and found_triggers is boolean",
    },
    "event_grounding_cross": {
        "test_can_load_ignoring_mismatched_shapes": "it sets num_labels; a pair has one logit",
    },
}


NOT_APPLICABLE_TO_PROCESSORS = {
    "test_init_arguments_not_in_processor_kwargs": "max_length of a processor is the limit of its model",
    "test_processor_from_and_save_pretrained": "a saved processor names its code in auto_map",
    "test_processor_from_and_save_pretrained_as_nested_dict": "a saved processor names its code in auto_map",
}


class Tester:
    """What the common tests read of a model: its sizes, a configuration and inputs."""

    batch_size, seq_length, num_choices = 3, 7, 2
    hidden_size, num_hidden_layers, num_attention_heads = 32, 2, 4
    is_training = True

    def __init__(self, case: type[MethodCase]) -> None:
        self.case = case

    def get_config(self) -> Any:
        text_config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=37,
            max_position_embeddings=64,
        )
        return self.case.config_class(text_config=text_config, **self.case.variants["everything"].fields)

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, torch.Tensor]]:
        generator = torch.Generator().manual_seed(0)
        shape = self.batch_size, self.seq_length
        ids = torch.randint(FIRST_WORD, VOCABULARY, shape, generator=generator)
        return self.get_config(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


class ConfigTester(configurations.ConfigTester):
    """The common tests of a configuration."""

    def create_and_test_config_with_num_labels(self) -> None:
        if self.config_class.model_type != "event_grounding_cross":
            super().create_and_test_config_with_num_labels()


class Mixin(common.ModelTesterMixin):
    """The common tests, with the training inputs of a method's head where they ask for labels."""

    case: ClassVar[type[MethodCase]]
    _is_composite = True
    test_can_init_all_missing_weights_before_2023 = True

    def setUp(self) -> None:
        self.model_tester = Tester(self.case)

    def test_config(self) -> None:
        names = ["hidden_size", "num_attention_heads", "num_hidden_layers"]
        ConfigTester(self, config_class=self.case.config_class, common_properties=names).run_common_tests()

    def _prepare_for_class(
        self, inputs_dict: dict[str, torch.Tensor], model_class: type, return_labels: bool = False
    ) -> dict[str, torch.Tensor]:
        if not return_labels or model_class is self.case.model_class:
            return deepcopy(inputs_dict)
        if model_class is self.case.head_class:
            return self.case().head_inputs(SimpleNamespace(config=self.model_tester.get_config()))
        # Two texts for each choice.
        ids = inputs_dict["input_ids"].unsqueeze(1).repeat(1, 2, 1)
        ids[..., 0], ids[..., 3], ids[..., -1] = CLS, SEP, SEP
        ids[:, 1, 4] += torch.where(ids[:, 1, 4] < VOCABULARY - 1, 1, -1)
        return {"input_ids": ids, "labels": torch.zeros(len(ids), dtype=torch.long)}


class ProcessorMixin(processors.ProcessorTesterMixin):
    """The common tests of a processor, with the tiny tokenizer."""

    @classmethod
    def _setup_tokenizer(cls) -> BertTokenizerFast:
        with tempfile.TemporaryDirectory() as folder:
            return BertTokenizerFast.from_pretrained(save_tiny_encoder(Path(folder)))


def _processor_tests_of(method: str) -> type:
    config_class = case_of(method).config_class
    file, name = config_class.processor.split(".")
    processor_class = getattr(import_module(f"eventformers.models.{file}"), name)
    members = {"processor_class": processor_class, "__module__": __name__}
    tests = type(f"TestProcessorOf{config_class.__name__}", (ProcessorMixin, unittest.TestCase), members)
    skip_tests(tests, NOT_APPLICABLE_TO_PROCESSORS)
    return tests


def _tests_of(method: str) -> type:
    case = case_of(method)
    auto_classes = case.config_class.full_auto_map
    module = import_module(case.model_class.__module__)
    classes = [
        getattr(module, name.split(".")[1]) for auto, name in auto_classes.items() if auto != "AutoConfig"
    ]
    # The common tests do not train the classes of this mapping.
    common.MODEL_MAPPING_NAMES = {**common.MODEL_MAPPING_NAMES, method: case.model_class.__name__}
    tests = type(
        f"Test{case.model_class.__name__}",
        (Mixin, unittest.TestCase),
        {"case": case, "all_model_classes": tuple(classes), "__module__": __name__},
    )
    skip_tests(tests, NOT_APPLICABLE | NOT_APPLICABLE_TO.get(method, {}))
    return tests


for _method in METHODS:
    globals().update({tests.__name__: tests for tests in (_tests_of(_method), _processor_tests_of(_method))})
