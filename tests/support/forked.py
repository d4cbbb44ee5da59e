"""Python processes that start in a moment: forks of a server that has loaded torch and run nothing.

A fresh interpreter spends six of its eight seconds on libraries that no test is about. The server loads those
and no other: what reads the environment when it is imported, and what registers classes, a fork imports by
itself, so that it is as fresh as an interpreter. Two further servers are forks of this one. One has loaded
the Hugging Face libraries, for the usage examples of cards, whose environment is that of the tests; the other
this package too, for the processes of a group, of which no test asks how they import.

All workers of pytest-xdist, and sessions that a test starts, use the same servers: their sockets lie in the
folder that `EVENTFORMERS_TESTS_SHARED` names. A server ends with the last process that is connected to it.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

from filelock import FileLock

LOADED = (
    "torch",
    "torch._dynamo",
    "torch.distributed.tensor",
    "torch.export",
    "torch.nn.parallel",
    "torch.testing",
    "torch.utils.data",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "scipy.stats",
    "sklearn.cluster",
    "sklearn.metrics",
    "safetensors.torch",
    "multiprocessing.util",
    "requests",
    "rich.console",
    "rich.progress",
    "yaml",
)
"""What the server has loaded: neither the environment nor our package has a say in it."""
NEVER_LOADED = ("accelerate", "datasets", "eventformers", "huggingface_hub", "peft", "torch_geometric")
NEVER_LOADED += ("sentence_transformers", "transformers")
LIBRARIES = (
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.trainer",
    "peft",
    "sentence_transformers",
)
SERVERS = {"fresh": LOADED, "libraries": LIBRARIES, "package": ("eventformers.training",)}
"""What each server loads beside what the one before it has loaded."""
SETTINGS = ("huggingface_hub.constants", "datasets.config")
"""Modules of the libraries with what they read from the environment: a fork reads it again."""
CACHES = {"HF_DATASETS_CACHE": "datasets", "HF_MODULES_CACHE": "modules"}
"""Constants of the libraries that a fork takes from its own environment, and their folders in `HF_HOME`."""
SHARED = os.environ.get("EVENTFORMERS_TESTS_SHARED", "")
"""Folder of the servers' sockets, which tests/conftest.py makes."""
# Sets of texts have another order than in the process of the tests, whatever is set for that.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
"""What a server is started with: not what the test that is the first to ask has set for itself."""


def run_python(
    arguments: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str] | None = None,
    timeout: float = 250,
    server: str = "fresh",
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS`, as `subprocess.run` does with captured text and nothing to read.

    Args:
        arguments: `-c` with code, `-m` with a module, or a script; then the arguments of that.
        cwd: working directory.
        env: environment; that of this process where none is given.
        timeout: seconds after which the process is killed.
        server: a key of `SERVERS`; what the process has loaded before it starts.

    Raises:
        subprocess.TimeoutExpired: the process took longer.
    """
    calls = [(arguments, os.environ if env is None else env)]
    return run_together(calls, cwd=cwd, timeout=timeout, server=server)[0]


@contextmanager
def running(arguments: Sequence[str], *, cwd: Path | str) -> Iterator[Callable[[float], bool]]:
    """Run `python ARGUMENTS` until the block ends; what is yielded tells whether it ends within seconds."""
    process = _Process(list(arguments), os.environ, cwd, "package")
    try:
        yield lambda seconds: bool(_wait([process], seconds))
    finally:
        process.kill()
        process.close()


def run_group(
    arguments: Sequence[str], *, cwd: Path | str, processes: int = 2, timeout: float = 250
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` once for each process of a group, with the environment that torchrun gives.

    Returns:
        The first process that failed, or that of rank 0.
    """
    from torch.distributed import TCPStore

    # Held until the end, as torchrun does: a port that is only free now may be taken before rank 0 listens.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)},
        **{"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"},
        **{"GROUP_RANK": "0", "OMP_NUM_THREADS": "1"},
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(processes)),
    }
    ranks = [dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)) for rank in range(processes)]
    calls = [(arguments, {**os.environ, **meeting, **rank}) for rank in ranks]
    done = run_together(calls, cwd=cwd, timeout=timeout, server="package")
    # What was killed did not fail by itself.
    return min(done, key=lambda process: (process.returncode in (0, -signal.SIGKILL), process.returncode))


def run_together(
    calls: Sequence[tuple[Sequence[str], Mapping[str, str]]],
    *,
    cwd: Path | str,
    timeout: float,
    server: str,
) -> list[subprocess.CompletedProcess[str]]:
    """Run several processes at once, each with its environment; the rest is killed when one fails."""
    started = [_Process(list(arguments), env, cwd, server) for arguments, env in calls]
    ends = time.monotonic() + timeout
    try:
        while waiting := [process for process in started if process.returncode is None]:
            ready = _wait(waiting, ends - time.monotonic())
            if not ready:
                raise subprocess.TimeoutExpired(waiting[0].arguments, timeout)
            if any(process.returncode for process in ready):
                for process in waiting:
                    process.kill()
        return [process.completed() for process in started]
    finally:
        for process in started:
            process.kill()
            process.close()


def stand_in(server: str) -> SimpleNamespace:
    """Stand in for the module `subprocess` where a module of ours starts interpreters."""

    def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if command[0] != sys.executable:
            return subprocess.run(command, **options)
        seconds = options.get("timeout") or 250
        calls = [(command[1:], options["env"])]
        return run_together(calls, cwd=options.get("cwd", "."), timeout=seconds, server=server)[0]

    return SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired, DEVNULL=subprocess.DEVNULL)


def _wait(processes: Sequence[_Process], seconds: float) -> list[_Process]:
    """Those of the processes that end within some seconds, at least one."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        by_pipe = {process.answers: process for process in processes if process.returncode is None}
        for pipe in select.select(list(by_pipe), [], [], left)[0]:
            by_pipe[pipe].read_answer()
        if ended := [process for process in processes if process.returncode is not None]:
            return ended
    return []


_ASKING = threading.RLock()
"""The examples of a card are run by threads."""


class _Process:
    """A process that was asked for."""

    def __init__(self, arguments: list[str], env: Mapping[str, str], cwd: Path | str, server: str) -> None:
        self.arguments, self.returncode, self.pid = arguments, None, 0
        self.output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - see close
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - see close
        self.answers, answering = os.pipe()
        request = {"arguments": arguments, "env": dict(env), "cwd": str(cwd)}
        _ask(server, request, [self.output.fileno(), self.errors.fileno(), answering])
        os.close(answering)

    def read_answer(self) -> None:
        """Take the number of the process, and, after its end, the code that it returned."""
        answer = os.read(self.answers, 100).decode()
        for line in answer.splitlines():
            if self.pid:
                self.returncode = int(line)
            self.pid = self.pid or int(line)
        if not answer and self.returncode is None:
            self.returncode = -signal.SIGKILL

    def kill(self) -> None:
        """Kill the process, if it lives, and wait for its end; it may not have been started yet."""
        if self.returncode is None and not self.pid:
            self.read_answer()
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        while self.returncode is None:
            self.read_answer()

    def completed(self) -> subprocess.CompletedProcess[str]:
        texts = []
        for stream in (self.output, self.errors):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
        return subprocess.CompletedProcess(self.arguments, self.returncode, *texts)

    def close(self) -> None:
        os.close(self.answers)
        self.output.close()
        self.errors.close()


_connections: dict[str, socket.socket] = {}
_processes: list[subprocess.Popen[bytes]] = []


def _ask(server: str, request: Mapping[str, object], descriptors: Sequence[int]) -> None:
    """Send a request to a server, which is started where none runs."""
    with _ASKING:
        if server not in _connections:
            _connections[server] = _connect(server)
        content = json.dumps(request).encode()
        socket.send_fds(_connections[server], [len(content).to_bytes(4, "big")], descriptors)
        _connections[server].sendall(content)


def _connect(server: str) -> socket.socket:
    """Connect to a server; the first process that asks starts it."""
    modules = os.environ.get("PYTHONPATH", "")
    # What the package registers when it is imported depends on what is installed.
    name = server + (hashlib.sha256(modules.encode()).hexdigest()[:8] if server == "package" else "")
    path = Path(SHARED, f"{name}.sock")
    with FileLock(f"{path}.lock"):
        with suppress(OSError):
            return _greeted(path)
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            names = list(SERVERS)
            if server == names[0]:
                command = [sys.executable, __file__, str(listening.fileno())]
                # The test's own folder may be gone when a fork of the server imports libraries.
                process = subprocess.Popen(
                    command,
                    pass_fds=[listening.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=ENVIRONMENT,
                    cwd=Path(__file__).parent,
                )
                _processes.append(process)
            else:
                before = names[names.index(server) - 1]
                _ask(before, {"serve": SERVERS[server], "path": modules}, [listening.fileno()])
        return _greeted(path)


def _greeted(path: Path) -> socket.socket:
    """Connect to a server and wait until it answers, which one that is ending does not."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
        if not connection.recv(1):
            raise ConnectionResetError(f"{path}: the server ended")
    except OSError:
        connection.close()
        raise
    return connection


def leave_servers(*, wait: bool) -> None:
    """Close the connections to the servers, if there are any, which ends those that nobody else uses.

    Args:
        wait: whether to wait for the end of the server that this process started.
    """
    while _connections:
        _connections.popitem()[1].close()
    while wait and _processes:
        _processes.pop().wait()


# In the server


def _serve(listening: socket.socket, loaded: Sequence[str]) -> NoReturn:
    for name in loaded:
        with suppress(ImportError):
            importlib.import_module(name)
    assert loaded is not LOADED or not set(NEVER_LOADED) & set(sys.modules)
    # A fork has no thread but the one that forks.
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    # They are waited for whenever one ends, so that their processor time counts as the server's.
    signal.signal(signal.SIGCHLD, _reap)
    connections: list[socket.socket] = []
    while True:
        for ready in select.select([listening, *connections], [], [])[0]:
            if ready is listening:
                connections.append(listening.accept()[0])
                with suppress(OSError):
                    connections[-1].sendall(b"1")
                continue
            content, descriptors = _received(ready)
            if not content:
                ready.close()
                connections.remove(ready)
                if not connections:
                    # Without the clean-up of the libraries: nothing was done with them.
                    os._exit(0)
                continue
            if os.fork() == 0:
                for inherited in (listening, *connections):
                    inherited.close()
                request = json.loads(content)
                if "serve" in request:
                    sys.path[1:1] = filter(None, request["path"].split(os.pathsep))
                    _serve(socket.socket(fileno=descriptors[0]), request["serve"])
                _watch(request, *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)


def _received(connection: socket.socket) -> tuple[bytes, list[int]]:
    """A request and its descriptors; nothing where the other end is closed."""
    try:
        head, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
    except OSError:  # Who was connected was killed.
        return b"", []
    length, content = int.from_bytes(head, "big"), b""
    while len(content) < length and (more := connection.recv(length - len(content))):
        content += more
    return content if len(content) == length else b"", descriptors


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(request: dict[str, object], output: int, errors: int, answers: int) -> NoReturn:
    """Fork again and tell the number and the code of the process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(answers)
        os.setpgid(0, 0)
        _become(request, output, errors)
    with suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)
    os.write(answers, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # Who asked gave up, and killed it.
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, object], output: int, errors: int) -> NoReturn:
    """Be the interpreter that was asked for, from its start to its end."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    # A shell starts what it runs in the background deaf to Ctrl+C, and what that starts inherits it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[arg-type]
    os.chdir(request["cwd"])  # type: ignore[arg-type]
    for name, folder in CACHES.items():
        place = os.environ.get(name) or os.path.join(os.environ.get("HF_HOME", ""), folder)
        for module in list(sys.modules.values()):
            if os.path.isabs(place) and name in getattr(module, "__dict__", ()):
                setattr(module, name, type(getattr(module, name))(place))
    _read_settings()
    sys.path[0] = ""
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    del sys.modules["__main__"]
    code = 1
    try:
        _execute(request["arguments"])  # type: ignore[arg-type]
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _read_settings() -> None:
    """Give the libraries that are loaded the settings that they would read if they were imported now."""
    for settings in filter(None, map(sys.modules.get, SETTINGS)):
        before = dict(vars(settings))
        importlib.reload(settings)
        changed = {name: value for name, value in vars(settings).items() if name.isupper()}
        changed = {name: value for name, value in changed.items() if value != before.get(name)}
        for module in list(sys.modules.values()):
            for name in changed.keys() & getattr(module, "__dict__", {}).keys():
                if getattr(module, name) == before[name]:
                    setattr(module, name, changed[name])
    if (hub := sys.modules.get("huggingface_hub.hf_api")) is not None:
        hub.api.endpoint = hub.constants.ENDPOINT


def _execute(arguments: Sequence[str]) -> None:
    sys.argv = list(arguments)
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        main = sys.modules["__main__"] = type(sys)("__main__")
        main.__builtins__ = __builtins__  # type: ignore[attr-defined]
        exec(compile(arguments[1], "<string>", "exec"), main.__dict__)  # noqa: S102
    elif arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        sys.modules["__main__"] = type(sys)("__main__")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        main = sys.modules["__main__"] = type(sys)("__main__")
        main.__builtins__ = __builtins__  # type: ignore[attr-defined]
        main.__file__ = arguments[0]
        source = Path(arguments[0]).read_text(encoding="utf-8")
        exec(compile(source, arguments[0], "exec"), main.__dict__)  # noqa: S102


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), LOADED)
