"""Several processes give the vectors of one, in order, and a process that ends gives one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from forked import run_python

from eventformers.commands.embedding import _devices
from eventformers.errors import EventformersError
from eventformers.inference.encode import encode, load_encoder
from eventformers.inference.encoding.event_files import embed_file

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


def test_options() -> None:
    assert _devices(None, None) is None
    assert _devices("cuda:0, cuda:1", None) == ["cuda:0", "cuda:1"]
    assert _devices(None, 2) == ["cpu", "cpu"]
    with pytest.raises(EventformersError, match="received --devices and --processes"):
        _devices("cpu", 2)
