"""Python processes that start in a moment: forks of a server that has loaded torch and run nothing.

A fresh interpreter spends six of its eight seconds on libraries that no test is about. The server loads those
and no other: what reads the environment when it is imported, and what registers classes, a fork imports by
itself, so that it is as fresh as an interpreter. The processes of a group train, and no test asks of them how
they import: they are forks of a second server, which has loaded this package too.
"""

from __future__ import annotations

import atexit
import gc
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, NoReturn

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
LOADED_FOR_GROUPS = (*LOADED, "eventformers.training", "transformers.models.bert.modeling_bert")
"""What the server of groups has loaded."""


def run_python(
    arguments: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str] | None = None,
    timeout: float = 250,
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS`, as `subprocess.run` does with captured text and nothing to read.

    Args:
        arguments: `-c` with code, `-m` with a module, or a script; then the arguments of that.
        cwd: working directory.
        env: environment; that of this process where none is given.
        timeout: seconds after which the process is killed.

    Raises:
        subprocess.TimeoutExpired: the process took longer.
    """
    calls = [(arguments, os.environ if env is None else env)]
    return run_together(calls, cwd=cwd, timeout=timeout, loaded=LOADED)[0]


def run_group(
    arguments: Sequence[str], *, cwd: Path | str, processes: int = 2, timeout: float = 250
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` once for each process of a group, with the environment that torchrun gives.

    Returns:
        The first process that failed, or that of rank 0.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GROUP_RANK": "0", "OMP_NUM_THREADS": "1"},
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(processes)),
    }
    ranks = [dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)) for rank in range(processes)]
    calls = [(arguments, {**os.environ, **meeting, **rank}) for rank in ranks]
    done = run_together(calls, cwd=cwd, timeout=timeout, loaded=LOADED_FOR_GROUPS)
    # What was killed did not fail by itself.
    return min(done, key=lambda process: (process.returncode <= 0, process.returncode))


def run_together(
    calls: Sequence[tuple[Sequence[str], Mapping[str, str]]],
    *,
    cwd: Path | str,
    timeout: float,
    loaded: tuple[str, ...],
) -> list[subprocess.CompletedProcess[str]]:
    """Run several processes at once, each with its environment; the rest is killed when one fails."""
    server, _ = _server(loaded)
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


def run(command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    """Stand in for `subprocess.run` where that starts this interpreter; others start as ever."""
    if command[0] != sys.executable:
        return subprocess.run(command, **options)  # type: ignore[call-overload]
    return run_python(
        command[1:], cwd=options.get("cwd", "."), env=options["env"], timeout=options.get("timeout") or 250
    )  # type: ignore[arg-type]


stand_in = SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired, DEVNULL=subprocess.DEVNULL)
"""Stands in for the module `subprocess` where a module of ours starts interpreters."""


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


_ASKING = threading.Lock()
"""The examples of a card are run by threads."""


class _Process:
    """A process that was asked for."""

    def __init__(
        self, arguments: list[str], env: Mapping[str, str], cwd: Path | str, server: socket.socket
    ) -> None:
        self.arguments, self.returncode, self.pid = arguments, None, 0
        self.output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - see close
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - see close
        self.answers, answering = os.pipe()
        request = {"arguments": arguments, "env": dict(env), "cwd": str(cwd)}
        content = json.dumps(request).encode()
        descriptors = [self.output.fileno(), self.errors.fileno(), answering]
        with _ASKING:
            socket.send_fds(server, [len(content).to_bytes(4, "big")], descriptors)
            server.sendall(content)
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


_servers: dict[tuple[str, ...], tuple[socket.socket, subprocess.Popen[bytes]]] = {}


def _server(loaded: tuple[str, ...]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The connection to the server that has loaded these modules, and the server, which ends with us."""
    with _ASKING:
        if loaded not in _servers:
            ours, theirs = socket.socketpair()
            started = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *loaded],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
            theirs.close()
            _servers[loaded] = ours, started
        return _servers[loaded]


def stop_servers() -> None:
    """End the servers, if there are any."""
    for connection, process in _servers.values():
        connection.close()
        process.wait()
    _servers.clear()


# In the server


def _serve(connection: socket.socket, loaded: Sequence[str]) -> None:
    for name in loaded:
        with suppress(ImportError):
            importlib.import_module(name)
    assert tuple(loaded) != LOADED or not set(NEVER_LOADED) & set(sys.modules)
    # A fork has no thread but the one that forks.
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    # They are waited for whenever one ends, so that their processor time counts as the server's.
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        head, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
        if not head:
            # Without the clean-up of the libraries: nothing was done with them.
            os._exit(0)
        length, content = int.from_bytes(head, "big"), b""
        while len(content) < length:
            content += connection.recv(length - len(content))
        if os.fork() == 0:
            connection.close()
            _watch(json.loads(content), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


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
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[arg-type]
    os.chdir(request["cwd"])  # type: ignore[arg-type]
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
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
