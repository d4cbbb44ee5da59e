"""What all models share: starts, code that is saved, compilation, shares of a batch on two processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import process_shares
import pytest
import torch
from event_grounding_inputs import ROWS, candidate_inputs, event_grounding_inputs
from forked import run_group
from heterevent_inputs import STAGES, make_head, shared_inputs
from method_case import random_texts
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel

import eventformers
from eventformers.models.modeling_base import parts_by_length, start_wide
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification
from eventformers.models.similarities import cosine, cosine_among, cosine_with_one, unit


@pytest.mark.parametrize("width", [4, 400])
def test_starts_by_the_width_of_the_input(width: int) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(width, 300)
    with torch.no_grad():
        layer.weight.fill_(5)
        layer.bias.fill_(5)
        start_wide(layer)
    for value in (layer.weight, layer.bias):
        assert value.abs().max() <= width**-0.5
        # The standard deviation of equal shares up to a bound.
        assert value.std().item() == pytest.approx((3 * width) ** -0.5, rel=0.1)


def test_what_was_loaded_stays() -> None:
    layer = nn.Linear(3, 2)
    layer.weight._is_hf_initialized = True  # type: ignore[attr-defined]
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    with torch.no_grad():
        start_wide(layer)
    assert torch.equal(layer.weight, weight)
    assert not torch.equal(layer.bias, bias)


def _rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_unit() -> None:
    rows = _rows(4, 3)
    rows[1] = 0
    torch.testing.assert_close(unit(rows), torch.nn.functional.normalize(rows, dim=-1))


def test_cosine_with_one() -> None:
    rows, vectors = _rows(2, 5, 3), _rows(2, 3)
    expected = torch.cosine_similarity(vectors.unsqueeze(1), rows, dim=-1)
    torch.testing.assert_close(cosine_with_one(vectors, rows), expected)
    assert not cosine_with_one(vectors, torch.zeros_like(rows)).any()


def test_cosine_among() -> None:
    """Values, and first and second derivatives by differences."""
    rows = _rows(2, 4, 3).requires_grad_()
    torch.testing.assert_close(cosine_among(rows), cosine(rows, rows))
    assert torch.autograd.gradcheck(cosine_among, rows)
    assert torch.autograd.gradgradcheck(cosine_among, rows)


def test_cosine_among_needs_one_product_for_its_gradient() -> None:
    rows = _rows(6, 3).requires_grad_()
    with torch.profiler.profile() as profile:
        cosine_among(rows).square().sum().backward()
    products = [event.count for event in profile.key_averages() if event.key == "aten::mm"]
    assert products == [2]


def cost(lengths: list[list[int]], part_cost: int) -> int:
    return sum(part_cost + len(part) * max(part) for part in lengths)


def least_cost(lengths: list[int], part_cost: int) -> int:
    """The cost of the best of all ways to cut the sorted lengths."""
    lengths = sorted(lengths)
    places = range(1, len(lengths))
    cuts = (chosen for size in range(len(lengths)) for chosen in combinations(places, size))
    return min(
        cost([lengths[a:b] for a, b in zip((0, *cut), (*cut, len(lengths)), strict=True)], part_cost)
        for cut in cuts
    )


@pytest.mark.parametrize("part_cost", [0, 1, 3, 8, 100])
@pytest.mark.parametrize("lengths", [[4], [7, 1, 7, 2, 1], [3, 3, 3], [9, 8, 1, 2, 3, 30, 31, 5, 5]])
def test_parts_have_the_least_cost(lengths: list[int], part_cost: int) -> None:
    parts = [part.tolist() for part in parts_by_length(torch.tensor(lengths), part_cost)]
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    assert [lengths[row] for part in parts for row in part] == sorted(lengths)
    assert cost([[lengths[row] for row in part] for part in parts], part_cost) == least_cost(
        lengths, part_cost
    )


def test_rows_of_one_length_stay_together() -> None:
    parts = parts_by_length(torch.tensor([5, 2, 5, 2]), part_cost=0)
    assert [part.tolist() for part in parts] == [[1, 3], [0, 2]]


CODE = """from eventformers.models.configuration_swcc import SwccConfig
from eventformers.models.modeling_swcc import SwccModel


class OtherModel(SwccModel):
    config: SwccConfig


OtherModel.register_for_auto_class("AutoModel")
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("package")
    (folder / "other_swcc.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield import_module("other_swcc").OtherModel.from_encoder(tiny_encoder)


def test_only_the_code_of_the_model_is_rewritten(other: Any, tmp_path: Path) -> None:
    own = tmp_path / "out" / "train.py"
    own.parent.mkdir()
    own.write_bytes(b"from eventformers.models.losses import info_nce  # \xe9\n")
    other.save_pretrained(own.parent)
    assert own.read_bytes() == b"from eventformers.models.losses import info_nce  # \xe9\n"
    assert "from .modeling_swcc import SwccModel" in (own.parent / "other_swcc.py").read_text()
    assert (own.parent / "modeling_swcc.py").is_file()


def test_a_push_has_the_code(other: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[Any] = []

    def push(*arguments: Any, **options: Any) -> None:
        assert (tmp_path / "out" / "modeling_swcc.py").is_file()
        pushed.append((arguments, options))

    monkeypatch.setattr(other, "push_to_hub", push, raising=False)
    other.save_pretrained(tmp_path / "out", push_to_hub=True, repo_id="storms/other", private=True)
    other.save_pretrained(tmp_path / "out", push_to_hub=True)
    other.save_pretrained(tmp_path / "out")
    assert pushed == [(("storms/other",), {"private": True}), (("out",), {})]


def test_classes_are_derived_in_files_of_configurations_alone(tmp_path: Path) -> None:
    """The classes of a configuration in another file are those of the method that it extends."""
    code = (
        "from eventformers.models.configuration_swcc import SwccConfig\n\n\n"
        'class MyConfig(SwccConfig):\n    model_type = "my"\n'
    )
    for name in ("mymodels", "configuration_my"):
        (tmp_path / f"{name}.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        elsewhere = import_module("mymodels").MyConfig.full_auto_map
        derived = import_module("configuration_my").MyConfig.full_auto_map
    assert elsewhere["AutoModelForPreTraining"] == "modeling_swcc.SwccForPreTraining"
    assert derived["AutoModelForPreTraining"] == "modeling_my.MyForPreTraining"


# Compiled by the backend `eager`, which runs what was captured as it is and needs no compiler.
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    # MICO is the same module.
    "swcc": (eventformers.SwccModel, {"pooling": "mean", "projection_dim": 7}),
    "event_type_induction": (eventformers.EventTypeInductionModel, {}),
    "event_grounding": (eventformers.EventGroundingModel, {"normalise": True}),
}


@pytest.mark.process
@pytest.mark.parametrize("name", MODELS)
def test_one_graph(tiny_encoder: Path, name: str) -> None:
    model_class, fields = MODELS[name]
    model = model_class.from_encoder(str(tiny_encoder), **fields).eval()
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    try:
        compiled = torch.compile(model, backend=keep, fullgraph=True, dynamic=True)
        for rows, length in ((3, 8), (2, 5)):
            input_ids, attention_mask = random_texts(
                rows, length, model.config.encoder_config.vocab_size, seed=rows
            )
            texts = {"input_ids": input_ids, "attention_mask": attention_mask}
            with torch.inference_mode():
                vectors, expected = compiled(**texts).embeddings, model(**texts).embeddings
            torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-5)
    finally:
        torch.compiler.reset()
    assert len(graphs) == 1


Inputs = dict[str, torch.Tensor]

GROUNDING: dict[str, tuple[Any, Any, tuple[dict[str, Any], ...]]] = {
    # Events that came with mentions of the other process.
    "bi-encoder": (
        EventGroundingForPreTraining,
        event_grounding_inputs,
        (
            {"stage": "joint", "score_scale": 0.1, "score_bias": -1.0},
            {"stage": "hierarchy"},
            {"stage": "linking", "share_towers": True, "score_scale": 0.1},
            # An event that both processes have counts once.
            {"stage": "linking", "linking_objective": "softmax", "normalise": True, "score_scale": 3.0},
        ),
    ),
    # Absent candidates on one process alone.
    "cross-encoder": (EventGroundingForSequenceClassification, candidate_inputs, ({"head_dropout": 0},)),
}


@dataclass
class Batch:
    """A batch, its shares, and the heads that train on it; `folder` holds what the processes wrote."""

    heads: list[PreTrainedModel]
    inputs: Inputs
    shares: list[Inputs]
    folder: Path


@pytest.fixture(scope="module")
def batches(tiny_encoder_without_dropout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Batch]:
    """All batches, after one group of processes has trained on the shares of each."""
    folder, encoder = tmp_path_factory.mktemp("shares"), tiny_encoder_without_dropout
    made = {}
    # Of HeterEvent: negatives of all processes; events and words that several processes have once.
    for stage in STAGES:
        heads = [make_head(encoder, stage=stage, **fields) for fields in STAGES[stage]]
        made[stage] = Batch(heads, *shared_inputs(stage), folder / stage)
    for name, (head_class, make_inputs, variants) in GROUNDING.items():
        heads, inputs, half = [], make_inputs(100), ROWS // 2
        for fields in variants:
            torch.manual_seed(0)
            heads.append(head_class.from_encoder(str(encoder), **fields))
        shares = [{key: value[:half] for key, value in inputs.items()}]
        shares += [{key: value[half:] for key, value in inputs.items()}]
        made[name] = Batch(heads, inputs, shares, folder / name)
    for batch in made.values():
        for number, head in enumerate(batch.heads):
            head.save_pretrained(batch.folder / f"head_{number}")
        for rank, share in enumerate(batch.shares):
            share = {name: value.clone().contiguous() for name, value in share.items()}
            save_file(share, batch.folder / f"share_{rank}.safetensors")
    process = run_group([process_shares.__file__, str(folder)], cwd=folder)
    assert process.returncode == 0, process.stderr[-4000:]
    return made


@pytest.mark.parametrize("name", [*STAGES, *GROUNDING])
def test_shares_of_a_batch(name: str, batches: dict[str, Batch]) -> None:
    batch = batches[name]
    for number, head in enumerate(batch.heads):
        loss = head(**batch.inputs).loss
        loss.backward()
        expected = {key: value.grad for key, value in head.named_parameters() if value.grad is not None}
        for kind in ("result", "sharded"):
            found = load_file(batch.folder / f"{kind}_{number}.safetensors")
            losses = found.pop("losses")
            if name in STAGES and name != "supervised":
                # Chains are compared only with their own corruptions, so each process has its own loss.
                losses = losses.mean().expand(2)
            torch.testing.assert_close(losses, loss.detach().expand(2), rtol=1e-5, atol=1e-6)
            assert set(found) == set(expected)
            for key, gradient in expected.items():
                scale = max(1.0, gradient.abs().max().item()) if name in STAGES else 1.0
                torch.testing.assert_close(
                    found[key], gradient, rtol=1e-3, atol=1e-5 * scale, msg=f"{kind}: {key}"
                )
