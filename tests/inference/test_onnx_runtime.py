"""Graphs in ONNX: equal vectors, written once, and again where the weights changed."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from huggingface_hub import constants
from transformers import AutoTokenizer

import eventformers
from eventformers.errors import EventformersError
from eventformers.files import file_digest
from eventformers.inference.encode import load_encoder
from eventformers.inference.encoding import onnx_runtime
from eventformers.inference.encoding.event_files import embed_file
from eventformers.inference.encoding.onnx_runtime import OnnxModel, export_onnx, load_onnx_encoder

for package in ("onnx", "onnxruntime", "onnxscript"):
    pytest.importorskip(package, reason=f"{package} is not installed")

pytestmark = pytest.mark.process
TEXTS = ["storm flooded city", "a", "police arrested thief " * 4, "company bought bank", "storm flooded city"]


def save(model: torch.nn.Module, tokenizer: Path, folder: Path) -> Path:
    """Write a model as a finished run does, as far as it matters here."""
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
    (folder / "training_args.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of SWCC whose graph is exported, once for all tests, since that takes seconds."""
    torch.manual_seed(0)
    model = eventformers.SwccModel.from_encoder(str(tiny_encoder), pooling="mean", projection_dim=7)
    folder = save(model, tiny_encoder, tmp_path_factory.mktemp("onnx") / "run")
    load_onnx_encoder(folder)
    return folder


def test_vectors_equal_those_of_the_model(run: Path) -> None:
    expected = load_encoder(run, device="cpu").encode(TEXTS)
    onnx = load_onnx_encoder(run)
    np.testing.assert_allclose(onnx.encode(TEXTS), expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(onnx.encode(TEXTS, batch_size=1), expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(eventformers.encode(onnx, TEXTS), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("rows", "length"), [(1, 3), (4, 17)])
def test_any_number_of_texts_of_any_length_with_padding(run: Path, rows: int, length: int) -> None:
    model = load_encoder(run, device="cpu").model
    graph = OnnxModel(run / "onnx" / "model.onnx", model.config)
    ids = torch.arange(rows * length).view(rows, length) % 40 + 5
    mask = torch.ones_like(ids)
    mask[0, 3:] = 0
    with torch.inference_mode():
        expected = model(input_ids=ids, attention_mask=mask).embeddings
    torch.testing.assert_close(graph(ids, mask).embeddings, expected, rtol=0, atol=1e-4)


def test_exported_once_and_again_for_other_weights(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    path = folder / "onnx" / "model.onnx"
    exported: list[Path] = []

    def export(model: torch.nn.Module, place: Path, *, digest: str) -> Path:
        exported.append(place)
        place.mkdir(exist_ok=True)
        return Path(shutil.copy(run / "onnx" / "model.onnx", place))

    monkeypatch.setattr(onnx_runtime, "export_onnx", export)
    load_onnx_encoder(folder)
    assert not exported
    path.write_bytes(path.read_bytes()[:1000])
    load_onnx_encoder(folder)
    assert exported == [path.parent]
    model = eventformers.SwccModel.from_pretrained(folder)
    with torch.no_grad():
        model.projection.bias.add_(1.0)
    model.save_pretrained(folder)
    load_onnx_encoder(folder)
    assert len(exported) == 2


def test_a_graph_lies_in_the_cache_where_the_folder_is_not_a_run(
    tiny_encoder: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain encoder's folder may belong to a package, and a run with another pooling is another model."""
    places: list[Path] = []

    def export(model: torch.nn.Module, place: Path, *, digest: str) -> Path:
        places.append(place)
        raise EventformersError("stop")

    monkeypatch.setattr(onnx_runtime, "export_onnx", export)
    for name, pooling in ((tiny_encoder, None), (tiny_encoder, "cls"), (run, "cls")):
        with pytest.raises(EventformersError, match="stop"):
            load_onnx_encoder(name, pooling=pooling)
    root = Path(constants.HF_HOME) / "eventformers" / "onnx"
    assert {place.parent for place in places} == {root}
    assert len(set(places)) == 3


def test_a_graph_with_other_vectors_never_takes_its_place(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx_ir

    path = run / "onnx" / "model.onnx"
    before = file_digest(path)
    model = load_encoder(run, device="cpu").model
    with torch.no_grad():
        model.projection.weight.mul_(-1.0)
    program = SimpleNamespace(model=onnx_ir.load(path))
    monkeypatch.setattr(torch.onnx, "export", lambda *arguments, **settings: program)
    with pytest.raises(EventformersError, match="differ from the model's by"):
        export_onnx(model, run / "onnx", digest="0")
    assert file_digest(path) == before
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]


def test_large_weights_have_a_file_of_their_own(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnx_ir

    encoder = load_encoder(run, device="cpu")
    program = SimpleNamespace(model=onnx_ir.load(run / "onnx" / "model.onnx"))
    monkeypatch.setattr(torch.onnx, "export", lambda *arguments, **settings: program)
    monkeypatch.setattr(onnx_runtime, "_SINGLE_FILE_BYTES", 1_000)
    path = export_onnx(encoder.model, tmp_path / "onnx", digest="0")
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.onnx", "model.onnx_data"]
    ids = torch.tensor([[2, 5, 6, 3]])
    with torch.inference_mode():
        expected = encoder.model(ids).embeddings
    graph = OnnxModel(path, encoder.model.config)
    torch.testing.assert_close(graph(ids).embeddings, expected, rtol=0, atol=1e-4)


def test_a_model_that_cannot_be_exported_is_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(*arguments: object, **settings: object) -> None:
        raise torch.onnx.OnnxExporterError("Failed to export.\nA long tale follows.")

    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.raises(EventformersError, match="cannot be exported to ONNX: Failed to export;"):
        export_onnx(load_encoder(run, device="cpu").model, tmp_path / "onnx", digest="0")
    assert not list(tmp_path.iterdir())


def test_embed_file(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "events.txt"
    source.write_text("\n".join(TEXTS), encoding="utf-8")
    tables = []
    for onnx in (False, True):
        report = embed_file(run, source, tmp_path / f"{onnx}.parquet", onnx=onnx, device="cpu")
        assert (report.rows, report.distinct, report.dimension) == (5, 4, 7)
        tables.append(pq.read_table(report.output))
    assert tables[0].drop_columns("embedding").equals(tables[1].drop_columns("embedding"))
    vectors = [np.stack(table["embedding"].to_pylist()) for table in tables]
    np.testing.assert_allclose(vectors[1], vectors[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"device": "cuda"}, "device is 'cuda' with ONNX; accepted: cpu"),
        ({"dtype": torch.bfloat16}, "dtype is 'torch.bfloat16' with ONNX; accepted: float32"),
    ],
)
def test_what_onnx_cannot_grant_is_refused(
    run: Path, tmp_path: Path, settings: dict[str, object], told: str
) -> None:
    with pytest.raises(EventformersError, match=told):
        embed_file(run, tmp_path / "events.txt", tmp_path / "out.parquet", onnx=True, **settings)


def test_a_model_of_chains_is_refused(tiny_heterevent: Path) -> None:
    with pytest.raises(EventformersError, match="a heterevent model reads the roles"):
        load_onnx_encoder(tiny_heterevent)


def test_a_missing_package_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EventformersError, match=r'pip install "eventformers\[onnx\]"'):
        load_onnx_encoder(run)
