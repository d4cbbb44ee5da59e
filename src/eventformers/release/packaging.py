"""Trained models in the form in which they come with the package: small changes to the packaged encoder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from huggingface_hub import ModelCardData
from safetensors.torch import load_file, save_file
from torch import Tensor

from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import EventformersError
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.data import ScoredTasks, plan_evaluation
from eventformers.evaluation.results import TaskResult, eval_results
from eventformers.evaluation.session import Session
from eventformers.files import file_digest, staged_folder, write_text
from eventformers.loading.encoders import PACKAGED_ENCODER, resolve_encoder
from eventformers.loading.models import load_whole
from eventformers.loading.pretrained import (
    ADDED,
    CHANGE_FILE,
    FACTS_FILE,
    LEFT,
    LEFT_SCALE,
    MODELS,
    RIGHT,
    RIGHT_SCALE,
    SCALE,
    WEIGHTS_FILE,
    build,
    packed,
)
from eventformers.markdown import code_block, table
from eventformers.methods import load_method
from eventformers.model_cards.card import TRAINING_DATA_FILE, read_training_record
from eventformers.model_cards.method import load_method_card
from eventformers.model_cards.scores import score_text
from eventformers.trainers.base import ARGUMENTS_FILE
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.stages import RUN_FILE, STAGES_FOLDER

_RANKS = (32, 128)
_KEPT = 0.58
"""A model gets the lowest rank that keeps this share of the squares of its change, else the highest. At rank
32, SWCC (0.82 of the squares), event grounding (0.68), its cross-encoder (0.70) and HeterEvent (0.60) keep
their scores; MICO (0.56) lost 1.3 of 5.2 points of completion, and 0.2 at rank 128 (0.88)."""

_LARGEST_HEAD = 2_000_000
"""A model whose training head has more weights, such as one over the vocabulary, is packaged without it."""
_SMALL_FILES = ("tokenizer_config.json", "processor_config.json", TRAINING_DATA_FILE, ARGUMENTS_FILE)
_CARD = """# {name}

{title}, trained with recipe `{recipe}` from all-MiniLM-L6-v2.
Packaged as a change of rank {rank} to the weights of this encoder: {size:.1f} MB.

```python
import eventformers
from transformers import AutoModel

model = AutoModel.from_pretrained(eventformers.pretrained("{name}"))
```

Seed {seed}. Trained by:

{command}

## Scores

{scores}

The settings of the recipe were tuned on development rows; its own note: {note}

## Limits

{limits}

## Training data

{data}
"""


def package(
    trained: str | Path,
    output: str | Path = MODELS,
    *,
    retriever: str | Path | None = None,
    session: Session | None = None,
) -> Path:
    """Write a finished run in the form in which models come with the package, scored, with a card.

    Args:
        trained: folder of the run, from the packaged encoder.
        output: folder of packaged models; gets a folder with the name of the method.
        retriever: the bi-encoder whose candidates a cross-encoder reranks for its scores; None for other
            models.
        session: holds data that several models share.

    Returns:
        The model's folder.

    Raises:
        EventformersError: the run is not finished, started from another encoder, or was trained on rows whose
            licences are not open.
    """
    run = Path(trained)
    record = read_json_object(run / RUN_FILE)
    recipe = Recipe(**record["recipe"])
    trained_on = read_training_record(run)
    if trained_on is None or trained_on.closed_licenses or not trained_on.licenses:
        found = ", ".join(trained_on.closed_licenses if trained_on else ()) or "no record of licences"
        raise EventformersError(f"{run}: trained on rows with {found}; accepted: rows with open licences")
    name = recipe.method
    with Session(session) as own, TemporaryDirectory() as temporary:
        scored = plan_evaluation(recipe, record["data"], None, store=own.data)
        small, whole = Path(temporary) / "small", Path(temporary) / name
        facts = {
            "title": load_method(name).title,
            "method": name,
            "recipe": recipe.name,
            "seed": recipe.seed,
            "command": _command(recipe, record),
            "licenses": trained_on.licenses,
            **({"retriever": Path(retriever).name} if retriever else {}),
            **_write_change(run, small),
        }
        write_text(small / FACTS_FILE, json.dumps(facts))
        build(small, whole)
        results = _scores(whole, scored, own, retriever)
        full = {path.stem: read_json_object(path) for path in run.glob("results/*/*/*.json")}
        facts["scores"] = [
            {
                "task": task,
                "metric": result.main_score,
                "rows": f"{result.dataset.rows:,} {result.dataset.split}",
                "value": result.main_value,
                "trained": full.get(task, {}).get("main_value"),
                "untrained": (full.get(task, {}).get("baseline") or {}).get("main_value"),
            }
            for task, result in results.items()
        ]
        sampled = plan_evaluation(recipe, None, "samples", store=own.data)
        facts["sample_scores"] = {
            task: result.main_value for task, result in _scores(whole, sampled, own, retriever).items()
        }
        write_text(small / FACTS_FILE, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
        config = read_json_object(small / "config.json")
        size = (small / CHANGE_FILE).stat().st_size / 1e6
        card = _CARD.format(
            **facts | {"name": name, "size": size, "scores": score_rows(facts["scores"])},
            note=recipe.note or "none.",
            limits="\n".join(f"- {one}" for one in load_method_card(name).parts(config).limits),
            data=table(
                ["source", "licence"],
                [[source, str(entry["license"])] for source, entry in trained_on.sources.items()],
            ),
        )
        card = card.replace(facts["command"], code_block(facts["command"], "bash"))
        metadata = ModelCardData(
            model_name=name,
            language="en",
            license="other",
            license_name="terms-of-encoder-and-training-data",
            library_name="transformers",
            pipeline_tag="feature-extraction",
            tags=["eventformers", name],
            base_model=PACKAGED_ENCODER,
            eval_results=eval_results(list(results.values())) or None,
        )
        write_text(small / "README.md", f"---\n{metadata.to_yaml()}\n---\n\n{card}")
        folder = Path(output) / name
        with staged_folder(folder, replaced=("[!.]*",)) as staging:
            shutil.copytree(small, staging, dirs_exist_ok=True, copy_function=shutil.copyfile)
        return folder


def _command(recipe: Recipe, record: Mapping[str, Any]) -> str:
    """The command of a run, with the names of its folders alone."""
    settings = [f"--set {key}={json.dumps(_name(value))}" for key, value in recipe.changed.items()]
    encoder = [] if record["encoder"] == PACKAGED_ENCODER else [f"--encoder {_name(record['encoder'])}"]
    dtype = [f"--dtype {record['dtype']}"] if record["dtype"] else []
    parts = [
        f"eventformers train {load_method(recipe.method).recipe_folder} --recipe {recipe.name}",
        *(f"--data {_name(record['data'])}" for _ in [record["data"]] if record["data"]),
        *(*encoder, *settings, *dtype, f"--seed {recipe.seed}"),
    ]
    return " ".join(parts)


def _name(value: Any) -> Any:
    """The names of the files or folders of a value that is a path, or several; of a stage with its run."""
    paths = value.split(os.pathsep) if isinstance(value, str) else []
    if not any(map(os.path.isabs, paths)):
        return value
    parts = [path.parts[-3 if path.parent.name == STAGES_FOLDER else -1 :] for path in map(Path, paths)]
    return os.pathsep.join("/".join(of_one) for of_one in parts)


def _write_change(run: Path, folder: Path) -> dict[str, Any]:
    """Write the configuration, the small files and the change of the weights; return facts to build them.

    Tokens keep their embeddings: without that change, a third of the size at rank 32, event grounding has the
    same scores.
    """
    encoder_folder = Path(resolve_encoder())
    method = load_method(read_json_object(run / "config.json")["model_type"])
    model = load_whole(getattr(transformers, method.head), str(run))
    inside = {id(value) for value in model.base_model.parameters()}
    if sum(value.numel() for value in model.parameters() if id(value) not in inside) > _LARGEST_HEAD:
        model = model.base_model
    with TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        weights = load_file(Path(saved) / WEIGHTS_FILE)
        write_text(folder / "config.json", (Path(saved) / "config.json").read_text(encoding="utf-8"))
    for name in _SMALL_FILES:
        if (path := run / name).is_file():
            write_text(folder / name, path.read_text(encoding="utf-8"))
    encoder = load_file(encoder_folder / WEIGHTS_FILE)
    last = "encoder.layer.0.output.dense.weight"
    prefixes = [name.removesuffix(last) for name in weights if name.endswith(last)]
    base = {f"{prefix}{name}": value for prefix in prefixes for name, value in encoder.items()}
    # Rows of added tokens follow those of the encoder.
    differences = {name: weights[name][: len(base[name])] for name in base.keys() & weights.keys()}
    if not base or any(base[name].shape != value.shape for name, value in differences.items()):
        raise EventformersError(f"{run}: has another encoder; accepted: a run from the packaged one")
    differences = {
        name: value.float() - base[name]
        for name, value in differences.items()
        if not name.endswith("_embeddings.weight")
    }
    rank = _rank(list(differences.values()))
    change: dict[str, Tensor] = {}
    for name, value in weights.items():
        if name not in base:
            change |= _rounded(name, value.float())
            continue
        if len(value) > len(base[name]):
            change[f"{name}{ADDED}"] = value[len(base[name]) :].bfloat16()
        difference = differences.get(name)
        if difference is not None and difference.any():
            is_large = value.dim() == 2 and min(value.shape) > rank
            change |= low_rank(name, difference, rank) if is_large else {name: difference.bfloat16()}
    save_file(change, folder / CHANGE_FILE)
    tokenizer = read_json_object(encoder_folder / "tokenizer.json")
    trained = read_json_object(run / "tokenizer.json")
    return {
        "rank": rank,
        "prefixes": prefixes,
        "left_out": sorted(name for name in encoder if f"{prefixes[0]}{name}" not in weights),
        "tokenizer": {name: value for name, value in trained.items() if value != tokenizer.get(name)},
        "sha256": file_digest(folder / CHANGE_FILE),
    }


def _rounded(name: str, value: Tensor) -> dict[str, Tensor]:
    """A weight of a head: a matrix in int8 with a scale for each row, anything else in bfloat16."""
    if value.dim() < 2:
        return {name: value.bfloat16()}
    whole, scale = _to_whole(value.flatten(1), 127)
    return {name: whole.view(value.shape), f"{name}{SCALE}": scale.view(-1, *[1] * (value.dim() - 1))}


def _to_whole(rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Whole numbers of at most a magnitude, and the scale of each row, `(rows, 1)`."""
    scale = (rows.abs().amax(1, keepdim=True).clamp(min=1e-12) / most).bfloat16()
    return (rows / scale).round().clamp(-most, most).to(torch.int8), scale


def _rank(differences: Sequence[Tensor]) -> int:
    """The lowest rank that keeps enough of the changes of all matrices together."""
    squares = [torch.linalg.svdvals(one).square() for one in differences if one.dim() == 2 and one.any()]
    needed = _KEPT * sum(float(one.sum()) for one in squares)
    return next(
        (rank for rank in _RANKS if sum(float(one[:rank].sum()) for one in squares) >= needed), _RANKS[-1]
    )


def low_rank(name: str, difference: Tensor, rank: int) -> dict[str, Tensor]:
    """The nearest matrix of a rank, as factors in four bits with scales of rows and columns."""
    left, values, right = torch.linalg.svd(difference, full_matrices=False)
    root = values[:rank].sqrt()
    left_whole, left_scale = _to_whole(left[:, :rank] * root, 7)
    right_whole, right_scale = _to_whole(right[:rank].T * root, 7)
    return {
        f"{name}{LEFT}": packed(left_whole),
        f"{name}{RIGHT}": packed(right_whole),
        f"{name}{LEFT_SCALE}": left_scale,
        f"{name}{RIGHT_SCALE}": right_scale,
    }


def _scores(
    model: Path, scored: ScoredTasks, session: Session, retriever: str | Path | None
) -> dict[str, TaskResult]:
    weight = read_json_object(model / "config.json").get("retriever_weight")
    if retriever is None or weight is None:
        return {
            task.name: evaluate(str(model), task, data=scored.data, baseline=False, session=session)
            for task in scored.tasks
        }
    settings = {"reranker": str(model), "retriever_weight": weight}
    task = "event_linking"
    return {
        task: evaluate(retriever, task, data=scored.data, settings=settings, baseline=False, session=session)
    }


def score_rows(scores: Sequence[Mapping[str, Any]]) -> str:
    """The table of a packaged model's scores beside those of all weights and of the untrained encoder."""
    rows = [
        [
            f"`{score['task']}`",
            score["metric"],
            score["rows"],
            *(score_text(score[kind], score["metric"]) for kind in ("value", "trained", "untrained")),
        ]
        for score in scores
    ]
    return table(["task", "metric", "rows", "packaged", "all weights", "untrained"], rows)
