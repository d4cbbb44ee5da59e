"""A Hub on the loopback address, for tests: repositories, large files, private ones, and faults on demand.

By hand:

    python tests/hub/server.py --port 8000 --folder DIR --token alice=secret

prints the environment variables with which `huggingface_hub`, and all that is built on it, talk to it.
Beside the standard library it needs PyYAML, which `huggingface_hub` brings. Not served: xet, pull requests,
discussions, gated repositories, multipart uploads, the dataset viewer.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import re
import secrets
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import collections_routes  # noqa: F401, adds its routes to the router
from calls import Answer, Call, User, refused
from repositories import Repositories
from routes import router
from storage import FolderStorage, MemoryStorage, RefusedError, Storage

CHUNK = 1 << 20


@dataclasses.dataclass
class Fault:
    """What goes wrong with the next `times` requests of a method whose path, decoded, has the pattern in it.

    `delay` seconds pass first. `cut_upload` ends the connection after so many bytes of the body of the
    request, which then has no effect. `status` refuses the request instead of doing it. `cut_answer` does the
    request and ends the connection after so many bytes of the body of the answer.
    """

    method: str
    pattern: str
    times: int = 1
    delay: float = 0
    cut_upload: int | None = None
    status: int | None = None
    message: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cut_answer: int | None = None

    def refusal(self) -> RefusedError | None:
        if self.status is None:
            return None
        message = self.message or HTTPStatus(self.status).phrase
        return RefusedError(self.status, message, self.code, self.headers)


@dataclasses.dataclass
class Exchange:
    """A request and its answer: bytes of both bodies. The status is `None` where no answer was begun."""

    method: str
    path: str
    route: str
    received: int = 0
    status: int | None = None
    sent: int = 0


@dataclasses.dataclass(frozen=True)
class Count:
    """Requests, and the bytes of the bodies that were received and sent with them."""

    requests: int
    received: int
    sent: int


class _Body:
    """The body of a request, read once and counted."""

    def __init__(self, stream: io.BufferedIOBase, headers: Message, exchange: Exchange) -> None:
        self._stream, self._exchange = stream, exchange
        length = headers.get("Content-Length") or "0"
        if "chunked" in (headers.get("Transfer-Encoding") or "").lower():
            self._chunks = self._by_chunks()
        elif length.isdecimal():
            self._chunks = self._some(int(length))
        else:
            raise RefusedError(400, f"Content-Length is a number of bytes, found {length!r}")

    def _some(self, length: int) -> Iterator[bytes]:
        while length:
            chunk = self._stream.read(min(length, CHUNK))
            if not chunk:
                raise ConnectionResetError("the client went away in the middle of a request")
            self._exchange.received += len(chunk)
            length -= len(chunk)
            yield chunk

    def _by_chunks(self) -> Iterator[bytes]:
        while length := self._announced():
            yield from self._some(length)
            self._stream.readline(100)
        while self._stream.readline(1000).strip():
            pass

    def _announced(self) -> int:
        line = self._stream.readline(100).split(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", line):
            raise ConnectionAbortedError("a chunk of a request does not begin with its length")
        return int(line, 16)

    def chunks(self) -> Iterator[bytes]:
        return self._chunks

    def read(self) -> bytes:
        return b"".join(self._chunks)

    def begin(self, length: int) -> None:
        """Read no more than the first bytes."""
        for chunk in self._chunks:
            length -= len(chunk)
            if length <= 0:
                return

    def finish(self) -> None:
        """Read what is left, so that the next request on this connection starts where it starts."""
        for _ in self._chunks:
            pass


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = CHUNK
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:
        if self.server.hub.verbose:
            super().log_message(format, *arguments)

    def _serve(self) -> None:
        hub = self.server.hub
        address = urlsplit(self.path)
        path = unquote(address.path)
        exchange = Exchange(self.command, path, "unknown")
        hub.exchanges.append(exchange)
        fault = hub.next_fault(self.command, path)
        if fault and fault.delay and hub.stopping.wait(fault.delay):
            self._cut()
            return
        try:
            body = _Body(self.rfile, self.headers, exchange)
            try:
                exchange.route, handler, parts = router.find(self.command, address.path)
                if fault and fault.cut_upload is not None:
                    body.begin(fault.cut_upload)
                    raise ConnectionAbortedError("a fault that was asked for")
                if fault and (refusal := fault.refusal()):
                    raise refusal
                query = parse_qs(address.query, keep_blank_values=True)
                user = hub.user_of(self.headers.get("Authorization"))
                answer = handler(Call(hub, self.command, query, self.headers, body, user, parts))
            finally:
                if fault and fault.cut_upload is not None:
                    self.close_connection = True
                else:
                    body.finish()
        except RefusedError as refusal:
            answer = refused(refusal)
        except OSError:
            self._cut()
            return
        except Exception:
            # Tests must see the errors of this server too.
            hub.errors.append(traceback.format_exc())
            answer = refused(
                RefusedError(500, "The server of the tests failed; its `errors` have the traceback")
            )
        try:
            self._answer(answer, exchange, fault.cut_answer if fault else None)
        except OSError:
            self._cut()

    def _answer(self, answer: Answer, exchange: Exchange, cut: int | None) -> None:
        length = len(answer.content) if answer.key is None else answer.length
        left = 0 if self.command == "HEAD" else length if cut is None else min(cut, length)
        # Before the client has the answer, so that it is counted when the answer arrives.
        exchange.status, exchange.sent = answer.status, left
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.key is None:
            self.wfile.write(answer.content[:left])
        elif left:
            with self.server.hub.repositories.storage.open(answer.key) as file:
                file.seek(answer.start)
                while left and (chunk := file.read(min(left, CHUNK))):
                    self.wfile.write(chunk)
                    left -= len(chunk)
        self.wfile.flush()
        if cut is not None:
            self._cut()

    def _cut(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The client was faster.
            return


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, hub: LoopbackHub, port: int) -> None:
        self.hub = hub
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away is no error of the server.
        if not isinstance(sys.exception(), OSError):
            self.hub.errors.append(traceback.format_exc())

    def close_connections(self) -> None:
        """End the connections that clients keep open, which would be served on otherwise."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                self._open.discard(connection)


class LoopbackHub:
    """The server. `with LoopbackHub(...) as hub:` runs it in a thread until the end of the block."""

    def __init__(
        self,
        tokens: Mapping[str, User],
        folder: Path | None = None,
        port: int = 0,
        *,
        verbose: bool = False,
    ) -> None:
        """Open the port; requests wait there until the server is started.

        Args:
            tokens: whom each token stands for.
            folder: where repositories are kept; in memory without one.
            port: a port of the loopback address; a free one with 0.
            verbose: whether to print each request to standard error.

        Raises:
            OSError: the folder cannot be written to, or the port is not free.
        """
        storage: Storage = MemoryStorage() if folder is None else FolderStorage(folder)
        self.repositories = Repositories(storage)
        self.tokens = dict(tokens)
        self.verbose = verbose
        self.secret = secrets.token_bytes()
        self.exchanges: list[Exchange] = []
        self.faults: list[Fault] = []
        self.errors: list[str] = []
        self.stopping = threading.Event()
        self._faults_lock = threading.Lock()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse new connections and end those that are open. Stopping twice does nothing more."""
        self.stopping.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.close_connections()

    def serve(self) -> None:
        """Run the server in this thread."""
        self._server.serve_forever()

    def environment(self, token: str) -> dict[str, str]:
        """The variables with which a new process talks to this server. They are read when it starts."""
        return {"HF_ENDPOINT": self.endpoint, "HF_TOKEN": token, "HF_HUB_DISABLE_XET": "1"}

    def token_of(self, name: str, role: str = "write") -> str:
        """A token of a user."""
        return next(token for token, user in self.tokens.items() if (user.name, user.role) == (name, role))

    def user_of(self, authorization: str | None) -> User | None:
        if authorization is None:
            return None
        user = self.tokens.get(authorization.removeprefix("Bearer ").strip())
        if user is None:
            raise RefusedError(401, "Invalid credentials in Authorization header")
        return user

    def fault(self, method: str, pattern: str, times: int = 1, **what: Any) -> Fault:
        """Let the next requests of a method (`*`: any) fail whose path has a pattern in it, as `Fault` says.

        Returns:
            The fault; its `times` are what is left of it.
        """
        fault = Fault(method, pattern, times, **what)
        self.faults.append(fault)
        return fault

    def next_fault(self, method: str, path: str) -> Fault | None:
        with self._faults_lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method in ("*", method) and re.search(fault.pattern, path):
                    fault.times -= 1
                    return fault
        return None

    def count(self, method: str = "*", pattern: str = "") -> Count:
        """How much was asked and answered by a method (`*`: any) at paths that have a pattern in them."""
        return _counted(
            [
                exchange
                for exchange in list(self.exchanges)
                if method in ("*", exchange.method) and re.search(pattern, exchange.path)
            ]
        )

    def counts(self) -> dict[str, Count]:
        """The same for each route that was asked, such as `POST /api/{kind}/{repo}/commit/{branch}`."""
        by_route: dict[str, list[Exchange]] = {}
        for exchange in list(self.exchanges):
            by_route.setdefault(exchange.route, []).append(exchange)
        return {name: _counted(exchanges) for name, exchanges in sorted(by_route.items())}

    def forget_requests(self) -> None:
        """Count from zero."""
        self.exchanges.clear()


def _counted(exchanges: Sequence[Exchange]) -> Count:
    received, sent = sum(each.received for each in exchanges), sum(each.sent for each in exchanges)
    return Count(len(exchanges), received, sent)


def _named_token(text: str) -> tuple[str, str]:
    name, equals, token = text.partition("=")
    if not (re.fullmatch(r"\w[\w.-]*", name, re.A) and equals and re.fullmatch(r"\S+", token)):
        raise argparse.ArgumentTypeError(f"expected NAME=TOKEN, found {text!r}")
    return name, token


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the server by hand."""
    parser = argparse.ArgumentParser(
        description="Run a Hub on 127.0.0.1, for tests and for trying things out."
    )
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    parser.add_argument("--folder", type=Path, help="where repositories are kept (default: in memory)")
    option: dict[str, Any] = {
        "metavar": "NAME=TOKEN",
        "type": _named_token,
        "action": "append",
        "default": [],
    }
    parser.add_argument("--token", help="a user's token that may write; may be given several times", **option)
    parser.add_argument("--read-token", help="a user's token that may only read", **option)
    parser.add_argument(
        "--organization", metavar="NAME", action="append", default=[], help="one that every user belongs to"
    )
    parser.add_argument("--quiet", action="store_true", help="do not tell of each request")
    asked = parser.parse_args(arguments)
    given = asked.token or [("user", f"hf_{secrets.token_hex(16)}")]
    organizations = tuple(asked.organization)
    tokens = {token: User(name, "read", organizations) for name, token in asked.read_token}
    tokens |= {token: User(name, "write", organizations) for name, token in given}
    try:
        hub = LoopbackHub(tokens, asked.folder, asked.port, verbose=not asked.quiet)
    except (OSError, OverflowError) as error:
        parser.error(f"cannot serve {asked.folder or 'from memory'} on port {asked.port}: {error}")
    for name, value in hub.environment(given[0][1]).items():
        print(f"export {name}={value}")
    sys.stdout.flush()
    try:
        hub.serve()
    except KeyboardInterrupt:
        hub.stop()


if __name__ == "__main__":
    main()
