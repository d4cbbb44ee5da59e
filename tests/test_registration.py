"""Every method is registered, tested, and loads through the Auto classes, as our code and as remote code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fresh_process import run_fresh
from method_case import case_of, random_texts
from transformers import AutoTokenizer

import eventformers
from eventformers.methods import all_methods, load_object

SCENARIOS = ("tokenizer_alone", "configuration_alone", "package_first", "package_last", "remote_code")
SHARED_CODE = {
    *("configuration_base.py", "modeling_base.py", "pooling.py", "similarities.py", "distributed.py"),
    *("processing_events.py", "pipeline_event_embedding.py"),
    *("event_items.py", "event_tokens.py", "loaded_files.py", "text_prompts.py", "encoder_files.py"),
    "sentence_transformers_files.py",
}
GROUNDING_CODE = (
    *("grounding_losses", "grounding_tokens"),
    *("pipeline_event_grounding", "processing_event_grounding"),
)
FURTHER_CODE = {
    "swcc": ("commonsense_losses", "event_losses", "layer_weights", "pipeline_next_event", "training_head"),
    "mico": (
        *("choice_rows", "commonsense_losses", "relation_words", "processing_mico", "training_head"),
        *("pipeline_commonsense_completion", "pipeline_next_event"),
    ),
    "heterevent": (
        *("chain_losses", "choice_rows", "chain_encoder", "event_composition", "event_graph", "graph_layers"),
        *("heterevent_stages", "pipeline_next_event", "processing_heterevent"),
        *("layer_weights", "training_head"),
    ),
    "event_type_induction": (
        *("commonsense_losses", "type_losses", "mention_tokens", "type_induction_layers"),
        *(
            "layer_weights",
            "training_head",
            "pipeline_event_type_induction",
            "pipeline_next_event",
            "processing_event_type_induction",
        ),
    ),
    "event_grounding": (*GROUNDING_CODE, "training_head"),
    "event_grounding_cross": GROUNDING_CODE,
}
"""Files of the code of a saved model beside its own configuration and modeling file."""

every_method = pytest.mark.parametrize("method", all_methods())

Fresh = Callable[[str], dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def saved(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """One saved head of each method with its tokenizer, and the vectors that it must give."""
    models = {}
    for method in all_methods():
        case = case_of(method)
        head = case.head_class.from_encoder(str(tiny_encoder), **case.narrow).eval()
        tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
        input_ids, attention_mask = random_texts(3, 7, head.config.encoder_config.vocab_size, seed=4)
        folder = tmp_path_factory.mktemp(method) / "model"
        head.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        with torch.inference_mode():
            embeddings = head.base_model(input_ids, attention_mask).embeddings
        models[method] = {
            "request": {
                "name": method,
                "folder": str(folder),
                "auto_classes": [name for name in case.config_class.full_auto_map if name != "AutoConfig"],
                "requires": list(case.requires),
                "input_ids": input_ids.tolist(),
                "attention_mask": attention_mask.tolist(),
            },
            "tokens": tokenizer("the storm flooded the city")["input_ids"],
            "embeddings": embeddings,
        }
    return models


@pytest.fixture(scope="module")
def fresh(saved: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Answers of a scenario, which runs once for all methods."""
    answers: dict[str, dict[str, dict[str, Any]]] = {}

    def run(scenario: str) -> dict[str, dict[str, Any]]:
        if scenario not in answers:
            requests = [model["request"] for model in saved.values()]
            server = "libraries" if scenario == "remote_code" else "fresh"
            answers[scenario] = run_fresh(scenario, requests, tmp_path_factory.mktemp(scenario), server)
        return answers[scenario]

    return run


@every_method
def test_every_method_has_a_case(method: str) -> None:
    case = case_of(method)
    assert case.model_class.config_class is case.config_class
    assert case.head_class.config_class is case.config_class
    assert case.variants
    assert "everything" in case.variants


def test_names_are_the_model_types() -> None:
    assert [method.config_class.model_type for method in all_methods().values()] == list(all_methods())


@every_method
def test_every_class_is_a_public_name(method: str) -> None:
    configuration = case_of(method).config_class
    for reference in configuration.full_auto_map.values():
        file, name = reference.split(".")
        assert name in eventformers.__all__
        assert getattr(eventformers, name).__module__ == f"eventformers.models.{file}"


@every_method
def test_the_method_names_the_processor_of_its_models(method: str) -> None:
    path = all_methods()[method].processor
    assert path == f"eventformers.models.{case_of(method).config_class.processor}"
    processor = load_object(path)
    assert getattr(eventformers, processor.__name__) is processor


@every_method
def test_every_auto_class_is_written_on_save(method: str) -> None:
    case = case_of(method)
    classes = {reference.split(".")[1] for reference in case.config_class.full_auto_map.values()}
    assert {case.config_class.__name__, case.model_class.__name__, case.head_class.__name__} <= classes


@every_method
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_fresh_process(method: str, scenario: str, saved: dict[str, dict[str, Any]], fresh: Fresh) -> None:
    answer, expected = fresh(scenario)[method], saved[method]
    request = expected["request"]
    home = "transformers_modules" if scenario == "remote_code" else "eventformers.models"
    if "tokens" in answer:
        assert answer["tokens"] == expected["tokens"]
    if "configuration" in answer:
        assert answer["configuration"].startswith(home)
    if "models" in answer:
        assert set(answer["models"]) == set(request["auto_classes"])
        for loaded in answer["models"].values():
            assert loaded["class"].startswith(home)
            torch.testing.assert_close(torch.tensor(loaded["embeddings"]), expected["embeddings"])
    assert answer


@every_method
def test_a_saved_model_carries_only_the_code_it_runs(method: str, saved: dict[str, dict[str, Any]]) -> None:
    folder = Path(saved[method]["request"]["folder"])
    own = {
        f"{reference.split('.')[0]}.py" for reference in case_of(method).config_class.full_auto_map.values()
    }
    expected = SHARED_CODE | own | {f"{name}.py" for name in FURTHER_CODE[method]}
    assert {path.name for path in folder.glob("*.py")} == expected


@every_method
def test_remote_code_saves_complete_repositories(
    method: str, saved: dict[str, dict[str, Any]], fresh: Fresh
) -> None:
    expected = saved[method]
    code = sorted(path.name for path in Path(expected["request"]["folder"]).glob("*.py"))
    for again in fresh("remote_code")[method]["saved_again"].values():
        assert again["files"] == code
        embeddings = torch.tensor(again["models"]["AutoModel"]["embeddings"])
        torch.testing.assert_close(embeddings, expected["embeddings"])
