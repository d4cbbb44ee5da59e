"""Arrays that take long to compute, stored in the cache of `datasets` for resumed runs and later ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt
from accelerate import PartialState
from safetensors.numpy import save_file
from safetensors.torch import load_file
from transformers import PreTrainedModel

from eventformers.files import replaced_file

Arrays = Mapping[str, npt.NDArray[Any]]


def cached_arrays(kind: str, decides: Sequence[object], compute: Callable[[], Arrays]) -> Arrays:
    """Compute arrays, or map them from a file in the cache.

    Rank 0 computes and writes; other ranks wait and read. The system takes back memory of mapped arrays if it
    needs it.

    Args:
        kind: folder of the arrays in the cache.
        decides: everything that the arrays depend on, as JSON values.
        compute: computes the arrays, by name.
    """
    digest = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
    root = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "eventformers"
    path = root / kind / f"{digest}.safetensors"
    with PartialState().main_process_first():
        if not path.is_file():
            arrays = {name: np.ascontiguousarray(values) for name, values in compute().items()}
            with replaced_file(path) as temporary:
                save_file(arrays, temporary)
    # The loader for NumPy copies the file to memory, the one for tensors maps it.
    return {name: values.numpy() for name, values in load_file(path).items()}


def array_digest(values: npt.NDArray[Any]) -> str:
    """Return a hash of the values of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def model_digest(model: PreTrainedModel) -> str:
    """Return a hash of the configuration and the weights of a model."""
    digest = hashlib.sha256(model.config.to_json_string().encode())
    for name, values in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.float().cpu().numpy().tobytes())
    return digest.hexdigest()
