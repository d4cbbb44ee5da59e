"""Export of encoders to ONNX, and encoding with ONNX Runtime instead of PyTorch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from huggingface_hub import constants
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from eventformers.errors import EventformersError
from eventformers.files import staged_folder, write_explained
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.models import first_sentence
from eventformers.models.modeling_base import EventModelOutput

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

ONNX_FOLDER = "onnx"
ONNX_FILE = "model.onnx"
"""The folder in which other libraries expect the ONNX graph of a Hub model."""

_WEIGHTS_FILE = "model.onnx_data"
_SINGLE_FILE_BYTES = 1_500_000_000
"""Size of the weights beyond which they get a separate file, as ONNX limits a file to 2 GB."""

_PACKAGES = ("onnx", "onnxruntime", "onnxscript")
_DIGEST_KEY = "eventformers_model_sha256"
_INPUTS = ("input_ids", "attention_mask")
_OUTPUT = "embeddings"
_TOLERANCE = 1e-4
_UNTOLD = ("transformers_version", "_name_or_path", "auto_map", "architectures", "dtype")
"""Fields of a configuration that do not affect the graph."""

logger = logging.getLogger(__name__)


class OnnxModel(nn.Module):
    """A graph in ONNX Runtime with the call signature of its model.

    Each call computes on one thread, since `EventEncoder` runs as many calls in parallel as PyTorch has
    threads. A file that ONNX Runtime cannot load is an error.
    """

    def __init__(self, path: Path, config: PreTrainedConfig) -> None:
        super().__init__()
        self.config = config
        self.device = torch.device("cpu")
        self.dtype = torch.float32
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        try:
            self.session: InferenceSession = onnxruntime.InferenceSession(str(path), options, providers)
        except Exception as error:
            # The errors of ONNX Runtime have no common base class.
            if type(error).__module__.startswith("onnxruntime"):
                raise EventformersError(f"{path}: ONNX Runtime cannot load the graph: {error}") from error
            raise

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxModel:
        """Return the model itself: it never changes, and a session cannot be copied."""
        return self

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> EventModelOutput:
        """Encode texts, `(batch, length)`, to `EventModelOutput` with only `embeddings`; no mask if nothing
        is padded."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        values = (input_ids.numpy(), attention_mask.numpy())
        [embeddings] = self.session.run([_OUTPUT], dict(zip(_INPUTS, values, strict=True)))
        return EventModelOutput(embeddings=torch.from_numpy(embeddings))


def load_onnx_encoder(
    name_or_path: str | Path | None = None,
    *,
    pooling: str | None = None,
    event_order: str | None = None,
    truncate_dim: int | None = None,
) -> EventEncoder:
    """Load an encoder that computes with ONNX Runtime, on the CPU and in float32.

    The first call exports the graph, as does a call after weights or configuration have changed. The graph of
    a folder that `eventformers train` wrote is in its `onnx/model.onnx`; all other graphs are in the cache.
    The arguments are those of `load_encoder`.

    Raises:
        EventformersError: the model cannot be loaded or reads more than texts, a package is missing, or the
            graph cannot be written or its vectors differ from the model's.
    """
    check_onnx_packages()
    encoder = load_encoder(
        name_or_path,
        pooling=pooling,
        event_order=event_order,
        truncate_dim=truncate_dim,
        device="cpu",
        dtype=torch.float32,
    )
    if encoder.reads_chains:
        raise EventformersError(
            f"{encoder.name}: a {encoder.model.config.model_type} model reads the roles and words of "
            "events, which ONNX export does not support; accepted: a model that reads texts, or this one "
            "without ONNX"
        )
    digest = _digest(encoder.model)
    folder = Path(constants.HF_HOME).expanduser() / "eventformers" / "onnx" / digest[:32]
    if name_or_path is not None and pooling is None and truncate_dim is None:
        trained = Path(resolve_encoder(name_or_path))
        if (trained / "training_args.json").is_file() and os.access(trained, os.W_OK | os.X_OK):
            folder = trained / ONNX_FOLDER
    path, found = folder / ONNX_FILE, None
    if path.is_file():
        # A graph that cannot be loaded is written again.
        with suppress(EventformersError):
            found = OnnxModel(path, encoder.model.config)
    if found is None or found.session.get_modelmeta().custom_metadata_map.get(_DIGEST_KEY) != digest:
        logger.info("exporting %s to %s, once", encoder.name, path)
        export_onnx(encoder.model, path.parent, digest=digest)
        found = OnnxModel(path, encoder.model.config)
    return replace(encoder, model=cast(PreTrainedModel, found))


def export_onnx(model: PreTrainedModel, folder: Path, *, digest: str) -> Path:
    """Export a model as one graph from `input_ids` and `attention_mask`, `(batch, length)`, to `embeddings`.

    Batch size and length are dynamic. The export compares the vectors with the model's before it writes the
    file.

    Args:
        model: a model that reads texts, in float32 and evaluation mode, on the CPU.
        folder: folder for `model.onnx`; the weights of a model beyond 1.5 GB go to a file beside it.
        digest: digest of the model's weights and configuration.

    Raises:
        EventformersError: the encoder cannot be exported, the folder cannot be written to, or the vectors
            differ.
    """
    import onnx_ir

    texts = torch.randint(min(5, model.config.encoder_config.vocab_size), (2, 6))
    try:
        with _quiet_export():
            # The older exporter fixes the attention mask, so other texts get wrong vectors.
            program = torch.onnx.export(
                _Vectors(model).eval(),
                (texts, torch.ones_like(texts)),
                dynamo=True,
                input_names=_INPUTS,
                output_names=(_OUTPUT,),
                dynamic_shapes={name: {0: "batch", 1: "length"} for name in _INPUTS},
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        raise EventformersError(
            f"a {model.config.encoder_config.model_type} encoder cannot be exported to ONNX: "
            f"{first_sentence(error)}; accepted: another encoder, or this one without ONNX"
        ) from error
    graph = cast(Any, program).model
    graph.metadata_props[_DIGEST_KEY] = digest
    size = sum(weight.numel() * weight.element_size() for weight in model.state_dict().values())
    with write_explained(folder / ONNX_FILE), staged_folder(folder) as staging:
        onnx_ir.save(
            graph,
            staging / ONNX_FILE,
            external_data=_WEIGHTS_FILE if size > _SINGLE_FILE_BYTES else None,
        )
        _check_vectors(model, staging / ONNX_FILE)
    return folder / ONNX_FILE


def check_onnx_packages() -> None:
    """Raise an error if a package of the extra `onnx` is missing."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise EventformersError(
            f"ONNX needs the packages {', '.join(missing)}, which are not installed; "
            'run `pip install "eventformers[onnx]"`'
        )


class _Vectors(nn.Module):
    """A wrapper that returns only a model's vectors."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).embeddings


def _digest(model: PreTrainedModel) -> str:
    """Return the SHA-256 of the weights and of the settings that affect the vectors."""
    settings = {name: value for name, value in model.config.to_dict().items() if name not in _UNTOLD}
    sha = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, weight in sorted(model.state_dict().items()):
        sha.update(f"{name} {tuple(weight.shape)}\0".encode())
        sha.update(weight.detach().reshape(-1).contiguous().view(torch.uint8).numpy().data)
    return sha.hexdigest()


@torch.inference_mode()
def _check_vectors(model: PreTrainedModel, path: Path) -> None:
    """Compare the graph with the model on another batch size and length, with padding, and raise an error if
    they differ."""
    texts = torch.arange(33).view(3, 11) % model.config.encoder_config.vocab_size
    mask = torch.ones_like(texts)
    mask[0, 4:] = 0
    expected = model(input_ids=texts, attention_mask=mask).embeddings
    difference = (OnnxModel(path, model.config)(texts, mask).embeddings - expected).abs().max().item()
    # Negated so that NaN fails the check.
    if not difference <= _TOLERANCE * max(1.0, expected.abs().max().item()):
        raise EventformersError(
            f"the vectors of the ONNX graph differ from the model's by {difference:.1g}; accepted: "
            f"{_TOLERANCE:g}; use the model without ONNX"
        )


@contextmanager
def _quiet_export() -> Iterator[None]:
    """Silence the exporter's messages on optional packages and on its internals."""
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        exporter.setLevel(level)
