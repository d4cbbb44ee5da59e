"""Damaged model folders, on every way to load that is this suite's own.

A damage either touches nothing that matters, so that the vectors stay what they were, or is refused in one
line. Numbers that change to other finite numbers of the same shape, and words that change to other words,
cannot be known without a digest of the undamaged files: such results are counted apart, in the name of the
part.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from datasets import Dataset
from pyarrow import parquet
from tests.robustness.folder_damages import DAMAGES, DAMAGES_OF_LOADING, Damage
from tests.robustness.limits import HangError, cases, time_limit
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder, save_tiny_encoder

import eventformers
from eventformers.errors import EventformersError
from eventformers.inference.encode import load_encoder
from eventformers.inference.encoding.event_files import embed_file
from eventformers.inference.grounding.pair_scoring import PairScores, load_cross_encoder
from eventformers.loading.models import load_config, load_tokenizer
from eventformers.methods import load_method
from eventformers.models.grounding_tokens import EventText, MentionText
from eventformers.plots.events import load_prototypes
from eventformers.publishing.verification import _SHOW
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.stage_heads import build_head, continue_head, head_fields

SECONDS_OF_A_TRY = 30.0
_LONGEST_MESSAGE = 1_500
TEXTS = ["storm flooded city", "police arrested man", "the court sentenced a thief"]
EVENT = {"subject": "police", "predicate": "arrested", "object": "man"}
MENTIONS = [
    {"text": f"the police {verb} a man", "trigger_start": 11, "trigger_end": 11 + len(verb)}
    for verb in ("arrested", "saved", "rescued", "hit")
]
GRAPH = {"premise": ["storm hit city", "man lost house"], "alternative": ["city burned", "man won car"]}


class RefusedByTransformersError(EventformersError):
    """An error of transformers, before our pipeline has a model; not in one line of ours."""


Way = Callable[[Path], Any]


# Ways to load. Each gives numbers, the same for the same model.


def _encode(folder: Path) -> Any:
    return eventformers.encode(folder, [*TEXTS, EVENT], device="cpu")


def _embed(folder: Path) -> Any:
    texts = folder.with_name("texts.txt")
    texts.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    target = folder.with_name("vectors.parquet")
    embed_file(folder, texts, target, device="cpu")
    return np.stack(parquet.read_table(target)["embedding"].to_pylist())


def _evaluate(folder: Path) -> Any:
    result = eventformers.evaluate(folder, "hard_similarity", device="cpu", baseline=False)
    return [result.main_value]


def _start(folder: Path) -> Any:
    """What `train --encoder` loads: the head over the encoder, and the tokenizer."""
    torch.manual_seed(0)
    fields = head_fields(load_recipe("swcc", "demo"), str(folder))
    head = build_head(load_method("swcc"), str(folder), fields, torch.float32)
    ids = load_tokenizer(str(folder), load_config(str(folder)))(TEXTS[0])["input_ids"]
    with torch.inference_mode():
        return head.base_model.eval()(torch.tensor([ids])).embeddings.numpy()


def _next_event(folder: Path) -> Any:
    found = eventformers.next_event(folder, [EVENT], candidates=TEXTS, device="cpu")
    return [one.score for one in sorted(found.candidates, key=lambda one: one.text)]


def _complete(folder: Path) -> Any:
    index = folder.with_name("index")
    shutil.rmtree(index, ignore_errors=True)
    found = eventformers.complete(
        folder, "storm hit city", data={"train": Dataset.from_dict(GRAPH)}, index=index, device="cpu"
    )
    return sorted(one.score for one in found.alternatives)


def _induce(folder: Path) -> Any:
    return eventformers.induce(folder, MENTIONS, num_clusters=2, device="cpu").vectors


def _ground(folder: Path) -> Any:
    return _grounded(folder, None)


def _rerank(folder: Path) -> Any:
    return _grounded(undamaged("event_grounding"), folder)


def _grounded(model: Path, reranker: Path | None) -> Any:
    found = eventformers.ground(
        model, ["a [[storm]] flooded the city"], _knowledge_base(), reranker=reranker, device="cpu"
    )
    return sorted(one.score for mention in found.mentions for one in mention.candidates)


def _pairs(folder: Path) -> Any:
    scores = PairScores(
        load_cross_encoder(folder, device="cpu"),
        [MentionText("a ", "storm", " flooded the city")],
        [EventText("storm", "it flooded the city")],
    )
    return scores(np.array([0]), np.array([0]))


def _plot(folder: Path) -> Any:
    return load_prototypes(folder, load_encoder(folder))


def _verify(folder: Path) -> Any:
    asked = {"kind": "model", "source": str(folder), "revision": None, "configs": []}
    return _SHOW["model"](asked)["output"]


def _continue(kind: str) -> Way:
    def load(folder: Path) -> Any:
        fields = head_fields(load_recipe(kind, "demo"), str(folder))
        head = continue_head(load_method(kind), folder, fields, torch.float32)
        return [float(value.double().sum()) for value in head.base_model.state_dict().values()]

    return load


def _pipeline(folder: Path) -> Any:
    try:
        pipe = transformers.pipeline(
            # Without an answer transformers would ask on the terminal whether to run code of the folder.
            "event-embedding",
            model=str(folder),
            device="cpu",
            trust_remote_code=False,
        )
    except Exception as error:
        told = " ".join(str(error).split())
        ours = {"loaded_files.py", "pipeline_event_embedding.py"}
        frames = traceback.extract_tb(error.__traceback__)
        kind = EventformersError if frames[-1].filename.endswith(tuple(ours)) else RefusedByTransformersError
        raise kind(told[:_LONGEST_MESSAGE]) from error
    return pipe(TEXTS)


KINDS: dict[str, dict[str, Way]] = {
    "encoder": {
        "encode": _encode,
        "embed": _embed,
        "evaluate": _evaluate,
        "train --encoder": _start,
        "next-event": _next_event,
        "complete": _complete,
        "induce": _induce,
        "ground --model": _ground,
        "push": _verify,
    },
    "swcc": {
        "encode": _encode,
        "embed": _embed,
        "evaluate": _evaluate,
        "train --encoder": _start,
        "next stage": _continue("swcc"),
        "next-event": _next_event,
        "plot": _plot,
        "push": _verify,
        "pipeline": _pipeline,
    },
    "mico": {"encode": _encode, "complete": _complete, "push": _verify, "pipeline": _pipeline},
    "heterevent": {
        "encode": _encode,
        "next-event": _next_event,
        "evaluate": _evaluate,
        "push": _verify,
        "pipeline": _pipeline,
    },
    "event_type_induction": {
        "encode": _encode,
        "induce": _induce,
        "push": _verify,
        "pipeline": _pipeline,
    },
    "event_grounding": {
        "encode": _encode,
        "ground --model": _ground,
        "push": _verify,
        "pipeline": _pipeline,
    },
    "event_grounding_cross": {"ground --reranker": _rerank, "cross-encoder": _pairs, "push": _verify},
}
"""The ways to load a model of each kind."""


# Undamaged folders.


@cache
def _root() -> Path:
    return Path(tempfile.mkdtemp(prefix="robustness-", dir=os.environ.get("EVENTFORMERS_TESTS_SHARED")))


@cache
def undamaged(kind: str) -> Path:
    folder = _root() / kind
    if kind == "encoder":
        save_tiny_encoder(folder)
        # One file of the vocabulary, as most models have.
        (folder / "vocab.txt").unlink()
    elif kind == "event_grounding":
        save_tiny_bi_encoder(undamaged("encoder"), folder)
    elif kind == "event_grounding_cross":
        save_tiny_cross_encoder(undamaged("encoder"), folder)
    else:
        method = load_method(kind)
        fields = {"event_dim": 16, "chain_dim": 24} if kind == "heterevent" else {"projection_dim": 16}
        torch.manual_seed(0)
        method.head_class.from_encoder(str(undamaged("encoder")), **fields).save_pretrained(folder)
        for file in undamaged("encoder").glob("tokenizer*"):
            shutil.copy(file, folder)
    (folder / "README.md").write_text("# A model\n", encoding="utf-8")
    return folder


@cache
def expected_numbers(kind: str, way: str) -> Any:
    return np.asarray(KINDS[kind][way](undamaged(kind)), dtype=float)


@cache
def _knowledge_base() -> Path:
    folder = _root() / "knowledge"
    folder.mkdir()
    rows = [
        {"label_id": str(place), "label_title": title, "label_desc": text, "label_lang": "en"}
        for place, (title, text) in enumerate([("storm", "it flooded the city"), ("trial", "a court")], 1)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


LOADED_BY_TRANSFORMERS = {"pipeline"}
"""Ways whose model transformers loads: it reports missing and unused weights and continues."""


@dataclass
class Outcome:
    """How one way to load a damaged folder ended.

    Attributes:
        kind: `worked`; `other`, with other finite numbers; `refused`; `library`, refused by transformers; or
            `finding`.
        finding: the finding.
    """

    kind: str
    finding: str = ""


def try_way(kind: str, way: str, folder: Path, knowable: bool, load: Way | None = None) -> Outcome:
    """Load a damaged folder.

    Args:
        kind: kind of the model.
        way: the way to load.
        folder: the folder.
        knowable: whether another result than that of the undamaged folder is a finding.
        load: loads it; None takes the kind's way.
    """
    expected = expected_numbers(kind, way)
    try:
        with warnings.catch_warnings(), time_limit(SECONDS_OF_A_TRY):
            warnings.simplefilter("ignore")
            found = np.asarray((load or KINDS[kind][way])(folder), dtype=float)
    except RefusedByTransformersError:
        return Outcome("library")
    except EventformersError as error:
        message = str(error)
        if "\n" in message or len(message) > _LONGEST_MESSAGE:
            return Outcome("finding", f"a message of {len(message)} characters: {message[:200]!r}")
        return Outcome("refused")
    except HangError as error:
        return Outcome("finding", f"hang: {error}")
    except Exception as error:
        return Outcome("finding", f"{type(error).__name__}: {str(error)[:300]}")
    if not np.isfinite(found).all():
        return Outcome("finding", "numbers that are not finite")
    if found.shape == expected.shape and np.allclose(found, expected, rtol=0, atol=1e-4):
        return Outcome("worked")
    return Outcome("finding", "other numbers") if knowable else Outcome("other")


def damaged(kind: str, target: Path, random: Random, damage: Damage | None = None) -> tuple[Damage, bool]:
    """Copy a folder of a kind and damage it.

    Args:
        kind: kind of the model.
        target: the copy; what is there is replaced.
        random: decides.
        damage: the damage; None draws one.

    Returns:
        The damage, and whether another result is a finding.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(undamaged(kind), target)
    drawn = random.choice(DAMAGES) if damage is None else damage
    return drawn, drawn(target, random)


CASES = [(kind, way) for kind, ways in KINDS.items() for way in ways]


@pytest.mark.parametrize(("kind", "way"), CASES, ids=["-".join(case) for case in CASES])
def test_theundamaged_folder_loads_the_same_twice(kind: str, way: str) -> None:
    assert try_way(kind, way, undamaged(kind), True).kind == "worked"
    assert expected_numbers(kind, way).size


@pytest.mark.parametrize(
    ("found", "finding"),
    [
        (TypeError("unhashable type"), "TypeError: unhashable type"),
        (EventformersError("two\nlines"), "a message of 9 characters"),
        (float("nan"), "numbers that are not finite"),
        (1e9, "other numbers"),
    ],
)
def test_a_fault_is_found(found: Exception | float, finding: str) -> None:
    def load(folder: Path) -> np.ndarray:
        if isinstance(found, Exception):
            raise found
        return np.full_like(expected_numbers("encoder", "encode"), found)

    assert finding in try_way("encoder", "encode", Path(), True, load).finding


def test_numbers_that_no_one_can_know_are_counted_apart() -> None:
    outcome = try_way("encoder", "encode", Path(), False, lambda folder: np.ones((4, 32)))
    assert (outcome.kind, outcome.finding) == ("other", "")


@pytest.mark.parametrize("seed", range(cases(3)))
@pytest.mark.parametrize(
    "damage", sorted(set(DAMAGES), key=lambda one: one.__name__), ids=lambda one: one.__name__
)
def test_a_damaged_folder_works_or_is_refused(damage: Damage, seed: int, tmp_path: Path) -> None:
    random = Random(f"{damage.__name__} {seed}")  # noqa: S311, no secret
    loads_itself = damage in DAMAGES_OF_LOADING
    kind, way = random.choice(
        [case for case in CASES if not (loads_itself and case[1] in LOADED_BY_TRANSFORMERS)]
    )
    _, knowable = damaged(kind, tmp_path / "model", random, damage)
    assert not try_way(kind, way, tmp_path / "model", knowable).finding
