"""What tests share: no network but loopback, no cache of the user's, tiny encoders, a browser, real data."""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from browser import Browser, find_browser, started_browser

if TYPE_CHECKING:
    from eventformers.inference.encode import EventEncoder

# Creating tens of thousands of small files on a disk takes a fifth of the processor time of tests that train.
MEMORY = Path("/dev/shm")  # noqa: S108 - the folders in it are private
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # pytest has asked before.
# A folder that all workers, and the sessions that tests start, share; who made it removes it.
STARTS_SHARED = "EVENTFORMERS_TESTS_SHARED" not in os.environ
if STARTS_SHARED:
    os.environ["EVENTFORMERS_TESTS_SHARED"] = tempfile.mkdtemp(prefix="eventformers-tests-")
# Read when the libraries are imported, so it is set before any of them is.
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="home-", dir=os.environ["EVENTFORMERS_TESTS_SHARED"])
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
# Threads that load weights cost more than the weights of a tiny model.
os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"
# Dozens of processes import the package; compiling it takes as long as running it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A waiting thread of OpenMP keeps its core by default, which others need that have work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# The processes of pytest-xdist share the cores; a user's own number holds.
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // workers)))

REPOSITORY = Path(__file__).resolve().parents[1]


# Collecting imports libraries for seconds, and makes no garbage to speak of.
gc.disable()


def pytest_collection_finish() -> None:
    """Hide the libraries from the garbage collector, and let it look seldom: tests leave little behind."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what starts a process, trains, or reads the public raw files, before pytest selects by markers."""
    from started_processes import starts_process

    if starts_process(item) or "shared_data" in item.fixturenames:  # type: ignore[attr-defined]
        item.add_marker("process")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin each worker's share with the slow files.

    A worker that has finished takes tests from the end of another's share. Quick tests there are spread
    evenly, and a slow fixture is not set up by both.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)

    def speed(tests: list[pytest.Item]) -> int:
        return min(_speed(test) for test in tests)

    # Each worker is given as many tests of this list, from its beginning, as any other.
    shares: list[list[pytest.Item]] = [[] for _ in range(workers or 1)]
    for tests in sorted(files.values(), key=speed):
        min(shares, key=len).extend(tests)
    items[:] = [item for share in shares for item in share]


def _speed(item: pytest.Item) -> int:
    """0 for a test of a minute, 1 for one of seconds, 2 for a quick one."""
    return 0 if item.get_closest_marker("timeout") else 1 if item.get_closest_marker("process") else 2


def pytest_unconfigure() -> None:
    forked = sys.modules.get("forked")
    if forked is not None:
        forked.leave_servers(wait=STARTS_SHARED)
    if STARTS_SHARED:
        shutil.rmtree(os.environ["EVENTFORMERS_TESTS_SHARED"], ignore_errors=True)


def _is_loopback(address: object) -> bool:
    if not isinstance(address, tuple):
        return True
    host = str(address[0])
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of pages."""
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium and no Chrome is installed")
    with started_browser(program) as started:
        yield started


@pytest.fixture(autouse=True, scope="session")
def _no_network():
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if not _is_loopback(address):
            raise OSError(f"tests are offline; a test tried to reach {address!r}")
        return connect(self, address)

    socket.socket.connect = guarded  # type: ignore[method-assign]
    yield
    socket.socket.connect = connect  # type: ignore[method-assign]


@pytest.fixture(autouse=True, scope="session")
def _examples_of_cards_rest() -> Iterator[None]:
    """A training run writes the usage examples into its card; tests/model_cards alone runs them."""
    from eventformers.model_cards import card

    with mock.patch.object(card, "run_snippet", lambda snippet, *_: snippet):
        yield


@pytest.fixture(autouse=True, scope="session")
def _training_collects_no_garbage() -> Iterator[None]:
    """Accelerate collects garbage twice in each training run, for models that fill a GPU."""
    memory = sys.modules.get("accelerate.utils.memory")
    with ExitStack() as patches:
        if memory is not None:
            patches.enter_context(mock.patch.object(memory, "gc", SimpleNamespace(collect=lambda: 0)))
        yield


@pytest.fixture(autouse=True, scope="session")
def _short_sleep_after_streams() -> None:
    """After each stream, datasets sleeps for 5 seconds, so that Arrow's threads end before the process."""
    if (config := sys.modules.get("datasets.config")) is not None:
        config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0.1


@pytest.fixture(autouse=True, scope="session")
def _layers_without_values_draw_none() -> Iterator[None]:
    """`from_pretrained` builds models on the meta device, where drawing weights does nothing, slowly."""
    nn = sys.modules.get("torch.nn")
    with ExitStack() as patches:
        for kind in () if nn is None else (nn.Embedding, nn.Linear):

            def reset(layer: Any, draw: Callable[[Any], None] = kind.reset_parameters) -> None:
                if not layer.weight.is_meta:
                    draw(layer)

            patches.enter_context(mock.patch.object(kind, "reset_parameters", reset))
        yield


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Draw the same in any order of the tests; pytest-randomly seeds all generators but torch's."""
    if (torch := sys.modules.get("torch")) is not None:
        # For devices that are not in use, `torch.manual_seed` keeps a stack trace of each call.
        seed = torch.manual_seed if torch.cuda.is_initialized() else torch.default_generator.manual_seed
        seed(0)


@pytest.fixture(autouse=True)
def _kept_process_settings() -> Iterator[None]:
    """Settings of the process, which a command changes, as they were; pytest keeps those of warnings."""
    logger = logging.getLogger("eventformers")
    handlers, level = list(logger.handlers), logger.level
    environment = dict(os.environ)
    yield
    # Setting each variable again takes longer than most tests.
    if dict(os.environ) != environment:
        os.environ.clear()
        os.environ.update(environment)
    logger.handlers, logger.level = handlers, level


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public raw files, where a developer keeps them beside the repository."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public raw files are not there: they are expected in ../shared/data")
    return folder


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random encoder with its tokenizer."""
    from tiny import save_tiny_encoder

    return save_tiny_encoder(tmp_path_factory.mktemp("tiny") / "encoder")


@pytest.fixture(scope="session")
def encoder(tiny_encoder: Path) -> EventEncoder:
    """The tiny encoder, loaded on the processor."""
    from eventformers.inference.encode import load_encoder

    return load_encoder(tiny_encoder, device="cpu")


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random Qwen3 that sentence-transformers and we read as an embedder, with prompts."""
    from tiny import add_sentence_transformers_files, save_tiny_qwen3

    folder = save_tiny_qwen3(tmp_path_factory.mktemp("tiny") / "qwen3")
    return add_sentence_transformers_files(folder, "lasttoken", {"query": "find: ", "document": ""})


@pytest.fixture(scope="session")
def tiny_modernbert(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """Folder of a tiny random ModernBERT."""
    from tiny import save_tiny_modernbert

    return save_tiny_modernbert(tmp_path_factory.mktemp("tiny") / "modernbert", tiny_encoder)


@pytest.fixture(scope="session")
def tiny_heterevent(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """Folder of a tiny random HeterEvent model with its tokenizer."""
    from tiny import save_tiny_heterevent

    return save_tiny_heterevent(tiny_encoder, tmp_path_factory.mktemp("tiny") / "heterevent")


@pytest.fixture(scope="session")
def tiny_encoder_without_dropout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same encoder with dropout off, for exact comparisons."""
    from tiny import save_tiny_encoder

    return save_tiny_encoder(tmp_path_factory.mktemp("tiny") / "encoder-without-dropout", dropout=0.0)


@pytest.fixture(scope="session")
def english_pipeline() -> Iterator[str]:
    """Name of an installed English pipeline of spaCy: no test trains one whose parses it asserts.

    It is loaded once, although every extraction loads its pipeline; a test that changes it takes a deep copy.
    """
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    names = [name for name in spacy.util.get_installed_models() if name.startswith("en_core_web_")]
    if not names:
        pytest.skip("no en_core_web_* pipeline is installed; the extra `extract` has one")
    load, loaded = spacy.load, []

    def load_once(name: str | Path) -> object:
        if name != names[0]:
            return load(name)
        loaded[:] = loaded or [load(name)]
        return loaded[0]

    with mock.patch.object(spacy, "load", load_once):
        yield names[0]
