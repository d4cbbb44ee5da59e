"""What tests against the loopback Hub share.

The client reads its endpoint, its token and its cache when it is imported, so in the process of the tests
they are given to each call (`HfApi(endpoint=hub.endpoint, token=...)`). A script that takes them from its
environment, as a user's does, runs in a fresh process by `run_script`. Fixtures that last longer than a test
make their own server, and their own scripts, with `scripts`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from eventformers import build_dataset
from eventformers.models.modeling_swcc import SwccModel

sys.path.append(str(Path(__file__).parent))

from scripts import USERS, RunScript, put_client_online, script_runner
from server import LoopbackHub


@pytest.fixture(autouse=True)
def _client_online(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of this process reaches the server, the plain way, and has only tokens that it is given."""
    put_client_online(monkeypatch)


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    """A started server: alice writes to her own name and to the organization `storms`, bob to his."""
    with LoopbackHub(USERS) as started:
        yield started
    assert not started.errors, "\n".join(started.errors)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client tries again at once; the seconds that it would have waited."""
    from huggingface_hub import file_download
    from huggingface_hub.utils import _http

    waited: list[float] = []
    for module in (_http, file_download):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=waited.append))
    return waited


@pytest.fixture
def run_script(hub: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> RunScript:
    """A function that runs a Python script, given by its text, in a fresh process with an empty cache.

    `run_script(text, *arguments, token=..., check=True, timeout=250)`: alice's token unless another is given,
    and nobody is logged in with an empty one. With `check` a script that fails fails the test, with what it
    said. No other host is in reach.
    """
    return script_runner(hub, tmp_path_factory)


@pytest.fixture(scope="session")
def plain_model(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """A folder that a method's model is saved in, with its tokenizer and a card."""
    folder = tmp_path_factory.mktemp("plain") / "model"
    SwccModel.from_encoder(tiny_encoder).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n\n# model\n", encoding="utf-8")
    return folder


@pytest.fixture
def model(plain_model: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(plain_model, tmp_path / "model"))


@pytest.fixture(scope="session")
def built_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_dataset("event_similarity", "hard", output=tmp_path_factory.mktemp("built") / "similarity")


@pytest.fixture
def dataset(built_dataset: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(built_dataset, tmp_path / "similarity"))
