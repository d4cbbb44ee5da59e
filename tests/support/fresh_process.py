"""Loads saved models in a process of its own, as one of the scenarios below.

Run as a script with a request file and a result file. The request is JSON: `scenario`, and `models`, a list
of `{"name", "folder", "auto_classes", "input_ids", "attention_mask"}`, further inputs of some of the classes,
`text`, which the tokenizer reads, and `requires`, packages that the code of the model may import. The result
is JSON by name.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from forked import run_python


class _Hidden:
    """A finder that makes modules unimportable."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = set(names)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def _tokens(model: Mapping[str, Any], **trust: bool) -> list[int]:
    from transformers import AutoTokenizer

    text = model.get("text", "the storm flooded the city")
    return AutoTokenizer.from_pretrained(model["folder"], **trust)(text)["input_ids"]


def _configuration(model: Mapping[str, Any], **trust: bool) -> str:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model["folder"], **trust)
    return f"{type(config).__module__}.{type(config).__name__}"


def _embeddings(model: Mapping[str, Any], folder: str | None = None, **trust: bool) -> dict[str, Any]:
    import torch
    import transformers

    found = {}
    for auto_class in model["auto_classes"]:
        loaded = getattr(transformers, auto_class).from_pretrained(folder or model["folder"], **trust)
        accepted = signature(loaded.forward).parameters
        inputs = {name: torch.tensor(value) for name, value in model.items() if name in accepted}
        with torch.inference_mode():
            output = loaded(**inputs)
        found[auto_class] = {
            "class": f"{type(loaded).__module__}.{type(loaded).__name__}",
            **{name: output[name].tolist() for name in ("embeddings", "logits") if name in output},
        }
    return found


def _processed(model: Mapping[str, Any], folder: str | None = None, **trust: bool) -> dict[str, Any]:
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(folder or model["folder"], **trust)
    tensors = [processor(*given).data for given in model["raw"]]
    return {
        "class": f"{type(processor).__module__}.{type(processor).__name__}",
        "tensors": [{name: value.tolist() for name, value in one.items()} for one in tensors],
    }


def processor_alone(model: Mapping[str, Any]) -> dict[str, Any]:
    """`AutoProcessor` is the first thing that is asked for."""
    import_module("eventformers")
    return _processed(model)


def processor_before_package(model: Mapping[str, Any]) -> dict[str, Any]:
    """Our package is imported after `AutoProcessor`."""
    from transformers import AutoProcessor

    assert AutoProcessor
    import_module("eventformers")
    return _processed(model)


def processor_as_remote_code(model: Mapping[str, Any]) -> dict[str, Any]:
    """Neither our package nor torch-geometric can be imported; saved without the model and loaded again."""
    _hide(model)
    from transformers import AutoProcessor

    trust = {"trust_remote_code": True}
    found = _processed(model, **trust)
    again = str(Path(model["folder"]).with_name(f"{model['name']}-processor"))
    AutoProcessor.from_pretrained(model["folder"], **trust).save_pretrained(again)
    found["again"] = _processed(model, again, **trust)["tensors"]
    return found


def _hide(model: Mapping[str, Any]) -> set[str]:
    """Make our package, and torch-geometric unless the model requires it, unimportable."""
    hidden = {"eventformers", "torch_geometric"} - set(model.get("requires", ()))
    sys.meta_path[:] = [
        _Hidden(sorted(hidden)),
        *(finder for finder in sys.meta_path if not isinstance(finder, _Hidden)),
    ]
    return hidden


def tokenizer_alone(model: Mapping[str, Any]) -> dict[str, Any]:
    """`AutoTokenizer` is the first thing that is asked for."""
    import_module("eventformers")
    return {"tokens": _tokens(model)}


def configuration_alone(model: Mapping[str, Any]) -> dict[str, Any]:
    """`AutoConfig` is the first thing that is asked for."""
    import_module("eventformers")
    return {"configuration": _configuration(model)}


def package_first(model: Mapping[str, Any]) -> dict[str, Any]:
    """Our package is imported before transformers."""
    import_module("eventformers")
    return {"models": _embeddings(model)}


def package_last(model: Mapping[str, Any]) -> dict[str, Any]:
    """Our package is imported after the Auto classes of transformers."""
    from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer

    assert AutoConfig, AutoTokenizer
    assert AutoModel, AutoModelForPreTraining
    import_module("eventformers")
    return {
        "tokens": _tokens(model),
        "configuration": _configuration(model),
        "models": _embeddings(model),
    }


def remote_code(model: Mapping[str, Any]) -> dict[str, Any]:
    """Neither our package nor torch-geometric, unless required, can be imported; saved and loaded again."""
    import transformers

    hidden = _hide(model)
    trust = {"trust_remote_code": True}
    first = {
        "tokens": _tokens(model, **trust),
        "configuration": _configuration(model, **trust),
        "models": _embeddings(model, **trust),
        "saved_again": {},
    }
    for auto_class in model["auto_classes"]:
        folder = str(Path(model["folder"]).with_name(f"{model['name']}-again-{auto_class}"))
        getattr(transformers, auto_class).from_pretrained(model["folder"], **trust).save_pretrained(folder)
        first["saved_again"][auto_class] = {
            "files": sorted(path.name for path in Path(folder).iterdir() if path.suffix == ".py"),
            "models": _embeddings({**model, "auto_classes": ["AutoModel"]}, folder, **trust),
        }
    assert not [name for name in sys.modules if name.split(".")[0] in hidden]
    return first


def run_fresh(
    scenario: str, models: Sequence[Mapping[str, Any]], folder: Path, server: str = "fresh"
) -> dict[str, dict[str, Any]]:
    """Run a scenario on models in a fresh process, without a terminal and with an empty cache.

    Args:
        scenario: name of one of the functions above.
        models: the models.
        folder: an empty folder for the process.
        server: a key of `forked.SERVERS`; `libraries` where the order of imports is not what is tested.

    Returns:
        What the scenario returns, by the model's name.
    """
    request, result, home = folder / "request.json", folder / "result.json", folder / "home"
    home.mkdir(parents=True)
    request.write_text(json.dumps({"scenario": scenario, "models": list(models)}), encoding="utf-8")
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    environment["HF_MODULES_CACHE"] = str(home / "modules")
    process = run_python([__file__, str(request), str(result)], cwd=home, env=environment, server=server)
    assert process.returncode == 0, f"{scenario}:\n{process.stderr[-4000:]}"
    return json.loads(result.read_text(encoding="utf-8"))


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    run = globals()[asked["scenario"]]
    # What one model may import, another before it must do without.
    models = sorted(asked["models"], key=lambda model: len(model.get("requires", ())))
    answers = {model["name"]: run(model) for model in models}
    Path(sys.argv[2]).write_text(json.dumps(answers), encoding="utf-8")
