"""Loads what a request asks for from the Hub of its environment, and tells what came of each.

Run as a script with a request file and a result file. The request is JSON: `hidden`, packages that cannot be
imported; `trust`, arguments of every load; `published`, a list of `{"name", "repository", "ways", ...}`; and
`snippets`, Python code. The result has for each name and way what was loaded gave for its inputs, or `error`.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any


class Hidden:
    """A finder that makes modules unimportable."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = set(names)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def outputs(model: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Vectors and logits of a model for the inputs that it takes."""
    import torch

    accepted = signature(model.forward).parameters
    inputs = {name: torch.tensor(asked[name]) for name in ("input_ids", "attention_mask") if name in accepted}
    with torch.inference_mode():
        output = model(**inputs)
    return {name: output[name].tolist() for name in ("embeddings", "logits") if output.get(name) is not None}


def load(asked: Mapping[str, Any], way: str, trust: Mapping[str, bool]) -> Any:
    """Load a repository in one way, and use it."""
    import transformers

    repository = asked["repository"]
    if way == "AutoConfig":
        return type(transformers.AutoConfig.from_pretrained(repository, **trust)).__name__
    if way == "AutoTokenizer":
        return transformers.AutoTokenizer.from_pretrained(repository, **trust)(asked["text"])["input_ids"]
    if way == "AutoProcessor":
        processor = transformers.AutoProcessor.from_pretrained(repository, **trust)
        return processor(asked["mention"])["input_ids"].tolist()
    if way == "PeftModel":
        from peft import PeftModel

        base = getattr(transformers, asked["head"]).from_pretrained(repository, **trust)
        adapted = PeftModel.from_pretrained(base, asked["adapter"])
        return outputs(adapted.get_base_model(), asked)
    if way == "SentenceTransformer":
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(repository, device="cpu", **trust).encode(asked["sentences"]).tolist()
    if way.startswith("AutoModel"):
        return outputs(getattr(transformers, way).from_pretrained(repository, **trust), asked)
    if way.startswith("load_dataset"):
        from datasets import load_dataset

        rows = load_dataset(repository, asked["config"], split="test", streaming="streaming" in way)
        listed = list(rows)
        return {"rows": len(listed), "first": listed[0]}
    if way == "evaluate.load":
        import evaluate

        return evaluate.load(repository).compute(**asked["inputs"])
    task = {} if way == "pipeline" else {"task": way}
    pipe = transformers.pipeline(model=repository, **task, **trust)
    given, settings = asked["pipelines"][pipe.task]
    return {"task": pipe.task, "answer": pipe(given, **settings)}


def attempt(asked: Mapping[str, Any], way: str, trust: Mapping[str, bool]) -> Any:
    """What a load gave, or how it failed."""
    try:
        return load(asked, way, trust)
    except Exception:
        return {"error": traceback.format_exc()[-3000:]}


def main(request: Path, result: Path) -> None:
    asked = json.loads(request.read_text(encoding="utf-8"))
    answers: dict[str, Any] = {}
    if "eventformers" not in asked["hidden"]:
        import eventformers

        answers["version"] = eventformers.__version__
    # What one may import, another before it must do without.
    for one in sorted(asked["published"], key=lambda one: len(one.get("requires", ()))):
        hidden = set(asked["hidden"]) - set(one.get("requires", ()))
        sys.meta_path[:] = [
            Hidden(sorted(hidden)),
            *(finder for finder in sys.meta_path if not isinstance(finder, Hidden)),
        ]
        answers[one["name"]] = {way: attempt(one, way, asked["trust"]) for way in one["ways"]}
        found = [name for name in sys.modules if name.split(".")[0] in hidden]
        if found:
            raise SystemExit(f"{one['name']}: {', '.join(found)} could be imported")
    for number, snippet in enumerate(asked["snippets"]):
        exec(compile(snippet, f"snippet {number}", "exec"), {})  # noqa: S102
    result.write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
