"""Damaged model folders, on every way to load that is this suite's own.

A damage either touches nothing that matters, so that the numbers stay what they were, or is refused in one
line. Numbers that change to other finite numbers of the same shape, and words that change to other words,
cannot be known without a digest of the undamaged files.
"""

from __future__ import annotations

import os
import shutil
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.robustness.damages import DAMAGES, DAMAGES_OF_LOADING, Damage
from tests.robustness.limits import cases, fault_of
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder, save_tiny_encoder

import eventformers
from eventformers.errors import EventformersError
from eventformers.inference.encode import load_encoder
from eventformers.inference.grounding.encoding import PairScores, load_cross_encoder
from eventformers.loading.models import load_config, load_tokenizer
from eventformers.methods import load_method
from eventformers.models.processing_event_grounding import EventText, MentionText
from eventformers.plots.events import load_prototypes
from eventformers.publishing.verification import _SHOW
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.stage_heads import build_head, continue_head, head_fields

SECONDS_OF_A_TRY = 30.0
TEXTS = ["storm flooded city", "police arrested man", "the court sentenced a thief"]
Way = Callable[[Path], Any]


# Ways to load. Each gives numbers, the same for the same model.


def _start(folder: Path) -> Any:
    """What `train --encoder` loads: the head over the encoder, and the tokenizer."""
    torch.manual_seed(0)
    fields = head_fields(load_recipe("swcc", "demo"), str(folder))
    head = build_head(load_method("swcc"), str(folder), fields, torch.float32)
    ids = load_tokenizer(str(folder), load_config(str(folder)))(TEXTS[0])["input_ids"]
    with torch.inference_mode():
        return head.base_model.eval()(torch.tensor([ids])).embeddings.numpy()


def _continue(folder: Path) -> Any:
    fields = head_fields(load_recipe("swcc", "demo"), str(folder))
    head = continue_head(load_method("swcc"), folder, fields, torch.float32)
    return [float(value.double().sum()) for value in head.base_model.state_dict().values()]


def _pairs(folder: Path) -> Any:
    mentions = [MentionText("a ", "storm", " flooded the city")]
    events = [EventText("storm", "it flooded the city")]
    return PairScores(load_cross_encoder(folder, device="cpu"), mentions, events)(
        np.array([0]), np.array([0])
    )


def _pipeline(folder: Path) -> Any:
    """An error of transformers, before our pipeline has a model, is none of ours: None."""
    try:
        # Without an answer transformers would ask on the terminal whether to run code of the folder.
        pipe = transformers.pipeline(
            "event-embedding", model=str(folder), device="cpu", trust_remote_code=False
        )
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        if not last.endswith(("loaded_files.py", "pipeline_event_embedding.py")):
            return None
        raise EventformersError(" ".join(str(error).split())) from error
    return pipe(TEXTS)


WAYS: dict[str, Way] = {
    "encode": lambda folder: eventformers.encode(folder, TEXTS, device="cpu"),
    "train --encoder": _start,
    "next stage": _continue,
    "cross-encoder": _pairs,
    "plot": lambda folder: load_prototypes(folder, load_encoder(folder)),
    "push": lambda folder: _SHOW["model"](
        {"kind": "model", "source": str(folder), "revision": None, "configs": []}
    )["output"],
    "pipeline": _pipeline,
}
EVERY = ("encode", "push", "pipeline")
KINDS: dict[str, tuple[str, ...]] = {
    "encoder": ("encode", "train --encoder", "push"),
    "swcc": (*EVERY, "train --encoder", "next stage", "plot"),
    **dict.fromkeys(("mico", "heterevent", "event_type_induction", "event_grounding"), EVERY),
    "event_grounding_cross": ("cross-encoder", "push"),
}
"""The ways to load a model of each kind; what commands do with a model begins with one of them."""
CASES = [(kind, way) for kind, ways in KINDS.items() for way in ways]


@cache
def undamaged(kind: str) -> Path:
    folder = Path(mkdtemp(dir=os.environ.get("EVENTFORMERS_TESTS_SHARED"))) / kind
    if kind == "encoder":
        save_tiny_encoder(folder)
        # One file of the vocabulary, as most models have.
        (folder / "vocab.txt").unlink()
    elif kind.startswith("event_grounding"):
        save = save_tiny_cross_encoder if kind.endswith("cross") else save_tiny_bi_encoder
        save(undamaged("encoder"), folder)
    else:
        fields = {"event_dim": 16, "chain_dim": 24} if kind == "heterevent" else {"projection_dim": 16}
        torch.manual_seed(0)
        load_method(kind).head_class.from_encoder(str(undamaged("encoder")), **fields).save_pretrained(folder)
        for file in undamaged("encoder").glob("tokenizer*"):
            shutil.copy(file, folder)
    (folder / "README.md").write_text("# A model\n", encoding="utf-8")
    return folder


@cache
def expected_numbers(kind: str, way: str) -> Any:
    return np.asarray(WAYS[way](undamaged(kind)), dtype=float)


def fault_of_way(kind: str, way: str, folder: Path, knowable: bool, load: Way | None = None) -> str:
    """What is wrong with the end of a load; `knowable` is whether another result is a fault."""
    expected = expected_numbers(kind, way)

    def check() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = (load or WAYS[way])(folder)
        if loaded is not None:
            found = np.asarray(loaded, dtype=float)
            assert np.isfinite(found).all(), "numbers that are not finite"
            same = found.shape == expected.shape and np.allclose(found, expected, rtol=0, atol=1e-4)
            assert same or not knowable, "other numbers"

    return fault_of(check, SECONDS_OF_A_TRY)


@pytest.mark.parametrize(("kind", "way"), CASES, ids=["-".join(case) for case in CASES])
def test_an_undamaged_folder_loads_the_same_twice(kind: str, way: str) -> None:
    found = np.asarray(WAYS[way](undamaged(kind)), dtype=float)
    np.testing.assert_allclose(found, expected_numbers(kind, way), rtol=0, atol=1e-4)
    assert found.size


@pytest.mark.parametrize(("number", "fault"), [(float("nan"), "not finite"), (1e9, "other numbers")])
def test_a_fault_is_found(number: float, fault: str) -> None:
    other = np.full_like(expected_numbers("encoder", "encode"), number)
    assert fault in fault_of_way("encoder", "encode", Path(), True, lambda folder: other)
    assert fault_of_way("encoder", "encode", Path(), False, lambda folder: np.ones((3, 32))) == ""


@pytest.mark.parametrize("seed", range(cases(4)))
@pytest.mark.parametrize("damage", [*DAMAGES, *DAMAGES_OF_LOADING], ids=lambda one: one.__name__)
def test_a_damaged_folder_works_or_is_refused(damage: Damage, seed: int, tmp_path: Path) -> None:
    random = Random(f"{damage.__name__} {seed}")  # noqa: S311, no secret
    # A pipeline's model is loaded by transformers, which reports missing and unused weights and continues.
    excluded = "pipeline" if damage in DAMAGES_OF_LOADING else ""
    kind, way = random.choice([case for case in CASES if case[1] != excluded])
    folder = Path(shutil.copytree(undamaged(kind), tmp_path / "model"))
    assert fault_of_way(kind, way, folder, damage(folder, random)) == ""
