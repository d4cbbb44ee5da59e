"""The device of the tests marked `cuda`.

They run where PyTorch finds a GPU. `EVENTFORMERS_TEST_DEVICE=cpu` runs all of them on the processor instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# cuBLAS reads it with its first product, and is deterministic only with it.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.fixture(autouse=True, scope="session")
def device() -> str:
    """Name of the device under test."""
    import torch

    asked = os.environ.get("EVENTFORMERS_TEST_DEVICE")
    assert asked in (None, "cpu", "cuda"), "EVENTFORMERS_TEST_DEVICE is cpu or cuda"
    if asked is None and not torch.cuda.is_available():
        pytest.skip("there is no GPU; EVENTFORMERS_TEST_DEVICE=cpu runs this on the processor")
    return asked or "cuda"


@pytest.fixture
def _deterministic() -> Iterator[None]:
    """Deterministic kernels; an operation that has none warns, and the test sees whether it matters."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def training_data(device: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of training data for each method, by its name."""
    from device_training import write_training_data

    return write_training_data(tmp_path_factory.mktemp("training-data"))
