"""Batches of texts, packed weights, and models in several processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from forked import run_python
from torch import nn
from typer.testing import CliRunner

from eventformers.cli import app
from eventformers.errors import EventformersError
from eventformers.inference.encode import encode, load_encoder
from eventformers.inference.encoding import batches, event_files
from eventformers.inference.encoding.batches import (
    PackedLinear,
    can_pack,
    equal_length_batches,
    for_inference,
)
from eventformers.inference.encoding.event_files import embed_file

LENGTHS = [3, 5, 3, 4, 5, 5, 3, 9, 3]


def test_every_text_once_longest_first() -> None:
    batches = equal_length_batches(LENGTHS, max_tokens=10)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(LENGTHS)))
    lengths = [{LENGTHS[position] for position in batch} for batch in batches]
    assert all(len(distinct) == 1 for distinct in lengths)
    order = [distinct.pop() for distinct in lengths]
    assert order == sorted(order, reverse=True)
    assert [batch.tolist() for batch in batches] == [[7], [1, 4], [5], [3], [0, 2, 6], [8]]


def test_bounds() -> None:
    assert max(map(len, equal_length_batches(LENGTHS, max_rows=2))) == 2
    assert max(map(len, equal_length_batches(LENGTHS, max_tokens=6))) == 2
    assert len(equal_length_batches([50], max_tokens=10)) == 1
    assert equal_length_batches([], max_tokens=10) == []


def test_small_batches_take_shorter_texts() -> None:
    batches = equal_length_batches(LENGTHS, fill_tokens=15)
    assert [batch.tolist() for batch in batches] == [[7], [1, 4, 5], [3, 0, 2], [6, 8]]
    assert [len(batch) for batch in equal_length_batches(LENGTHS, fill_tokens=100, max_rows=4)] == [4, 4, 1]
    assert [len(batch) for batch in equal_length_batches(LENGTHS, fill_tokens=100, max_tokens=18)] == [
        2,
        3,
        4,
    ]


needs_packing = pytest.mark.skipif(not can_pack(), reason="this processor or build does not pack weights")


@needs_packing
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (3, 5, 24)])
def test_packed_layer_equals_plain_layer(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(24, 10, bias=bias)
    rows = torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(linear)(rows), linear(rows), atol=1e-6, rtol=1e-5)


@needs_packing
def test_copy_shares_parameters_and_leaves_the_model_alone() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 4)).train()
    duplicate = for_inference(model, pack=True)
    assert [type(module) for module in duplicate] == [PackedLinear, nn.Dropout, PackedLinear]  # type: ignore[attr-defined]
    assert [type(module) for module in model] == [nn.Linear, nn.Dropout, nn.Linear]
    assert model.training
    assert not duplicate.training
    shared = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in duplicate.parameters()} == shared


def test_a_model_in_evaluation_mode_is_copied_only_to_be_packed() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.9)).eval()
    assert for_inference(model, pack=False) is model
    model[1].train()
    duplicate = for_inference(model, pack=False)
    assert not any(module.training for module in duplicate.modules())
    assert model[1].training


def test_layers_with_hooks_or_other_types_stay_plain() -> None:
    class OwnLinear(nn.Linear):
        """A subclass may compute something else."""

    model = nn.Sequential(OwnLinear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4).bfloat16())
    model[1].register_forward_hook(lambda module, inputs, output: output + 1)
    duplicate = for_inference(model, pack=True)
    assert not any(isinstance(module, PackedLinear) for module in duplicate.modules())


def test_without_the_operators_nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(linear: nn.Linear) -> nn.Linear:
        raise AttributeError("no such operator")

    can_pack.cache_clear()
    monkeypatch.setattr(batches, "PackedLinear", absent)
    try:
        assert not can_pack()
        assert type(for_inference(nn.Sequential(nn.Linear(2, 2)), pack=True)[0]) is nn.Linear  # type: ignore[index]
    finally:
        can_pack.cache_clear()


TEXTS = [f"police {'arrested ' * (number % 9)}man{number}" for number in range(600)]


SCRIPT = """
import multiprocessing, os, signal, sys
from pathlib import Path

import numpy as np
import torch

from eventformers.errors import EventformersError
from eventformers.inference.encode import opened_encoder
from eventformers.inference.encoding import batches, event_files

folder, output = sys.argv[1:3]
texts = Path(sys.argv[3]).read_text().splitlines()
torch.set_num_threads(1)
# This process is a fork of a server that has loaded torch and run nothing.
batches.START_METHOD = "fork"
event_files.embed_file(folder, sys.argv[3], output, devices=["cpu", "cpu"], normalize=True)
assert multiprocessing.active_children() == []
with opened_encoder(folder, ["cpu", "cpu"]) as encoder:
    np.save(output + ".npy", encoder.encode([*texts, texts[3]], normalize=True))
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    try:
        encoder.encode(texts)
    except EventformersError as error:
        print(error)
assert multiprocessing.active_children() == []
"""


@pytest.mark.process
def test_two_processes(tiny_encoder: Path, tmp_path: Path) -> None:
    expected = load_encoder(tiny_encoder, device="cpu").encode(TEXTS, normalize=True)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    output = tmp_path / "out.parquet"
    arguments = ["-c", SCRIPT, str(tiny_encoder), str(output), str(tmp_path / "texts.txt")]
    done = run_python(arguments, cwd=tmp_path, server="package")
    assert done.returncode == 0, done.stderr
    written = pq.read_table(output)
    assert written["text"].to_pylist() == TEXTS
    np.testing.assert_allclose(np.stack(written["embedding"].to_numpy()), expected, atol=1e-6)
    vectors = np.load(f"{output}.npy")
    np.testing.assert_allclose(vectors[:-1], expected, atol=1e-6)
    assert np.array_equal(vectors[-1], vectors[3])
    [line] = done.stdout.splitlines()
    assert line.startswith("the process of the device cpu ended with exit code -9")


def test_invalid_devices(tiny_encoder: Path, tmp_path: Path) -> None:
    for devices, message in (
        ([], r"devices is \[\]; accepted: a list"),
        ("cuda:0", "devices is 'cuda:0'; accepted: a list"),
        (["cpu", "cuda:99"], "device 'cuda:99' does not exist"),
    ):
        with pytest.raises(EventformersError, match=message):
            encode(tiny_encoder, TEXTS, devices=devices)
    with pytest.raises(EventformersError, match="received both device and devices"):
        encode(tiny_encoder, TEXTS, devices=["cpu"], device="cpu")
    with pytest.raises(EventformersError, match="received a loaded encoder"):
        encode(load_encoder(tiny_encoder, device="cpu"), TEXTS, devices=["cpu"])
    with pytest.raises(EventformersError, match="received devices and onnx"):
        embed_file(tiny_encoder, tmp_path, tmp_path / "out.parquet", devices=["cpu"], onnx=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], None),
        (["--devices", "cuda:0, cuda:1"], ["cuda:0", "cuda:1"]),
        (["--processes", "2"], ["cpu", "cpu"]),
    ],
)
def test_options(options: list[str], expected: object, monkeypatch: pytest.MonkeyPatch) -> None:
    received: dict[str, Any] = {}

    def embed_file(*_: object, **settings: object) -> None:
        received.update(settings)
        raise EventformersError("stop")

    monkeypatch.setattr(event_files, "embed_file", embed_file)
    CliRunner().invoke(app, ["embed", "model", "events.txt", "-o", "vectors.parquet", *options])
    assert received["devices"] == expected


def test_devices_and_processes() -> None:
    options = ["--devices", "cpu", "--processes", "2"]
    result = CliRunner().invoke(app, ["embed", "model", "events.txt", "-o", "vectors.parquet", *options])
    assert "received --devices and --processes" in str(result.exception)
