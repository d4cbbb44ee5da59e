"""A Hub on the loopback address, for tests: repositories, large files, private ones, and faults on demand.

By hand:

    python tests/hub/server.py --port 8000 --token alice=secret --organization storms

prints the environment variables with which `huggingface_hub`, and all that is built on it, use it. Everything
is kept in memory. Not served: xet, pull requests, discussions, gated repositories, multipart uploads, the
dataset viewer.
"""

from __future__ import annotations

import argparse
import re
import secrets
import socket
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from repositories import RefusedError
from routes import Answer, Call, Contents, User, find_route, json_answer


@dataclass
class Fault:
    """What goes wrong with the next `times` requests of a method whose path, decoded, has the pattern in it.

    `delay` seconds pass first. `cut_upload` ends the connection after so many bytes of the body of the
    request, which then has no effect. `status` refuses the request instead of doing it.
    """

    method: str
    pattern: str
    times: int = 1
    delay: float = 0
    cut_upload: int | None = None
    status: int | None = None
    message: str | None = None


@dataclass(frozen=True)
class Count:
    """Requests, and the bytes of their bodies."""

    requests: int
    received: int


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = 1 << 20
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        try:
            answer = self._answer()
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else answer.content)
            self.wfile.flush()
        except OSError:
            # A fault, or a client that went away.
            self.close_connection = True

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:
        if self.server.hub.verbose:
            super().log_message(format, *arguments)

    def _answer(self) -> Answer:
        hub, address = self.server.hub, urlsplit(self.path)
        path = unquote(address.path)
        fault = hub.next_fault(self.command, path)
        length = int(self.headers.get("Content-Length") or 0)
        hub.requests.append((self.command, path, length))
        try:
            if fault and fault.delay and hub.stopping.wait(fault.delay):
                raise ConnectionAbortedError("the server stops")
            if fault and fault.cut_upload is not None:
                self.rfile.read(min(length, fault.cut_upload))
                raise ConnectionAbortedError("a fault that was asked for")
            body = self.rfile.read(length)
            if fault and fault.status is not None:
                raise RefusedError(fault.status, fault.message or HTTPStatus(fault.status).phrase)
            handler, parts = find_route(self.command, address.path)
            query = parse_qs(address.query, keep_blank_values=True)
            user = hub.user_of(self.headers.get("Authorization"))
            return handler(Call(hub.contents, query, self.headers, body, user, parts))
        except RefusedError as refusal:
            return _refused(refusal)
        except OSError:
            raise
        except Exception:
            # Tests must see the errors of this server too.
            hub.errors.append(traceback.format_exc())
            return _refused(RefusedError(500, "The server failed; its `errors` have the traceback"))


def _refused(refusal: RefusedError) -> Answer:
    """A refusal as an answer: the message in the body and in the headers that the client reads."""
    message = "".join(letter if letter.isprintable() else " " for letter in refusal.message)
    headers = {"X-Error-Message": message.encode("ascii", "replace").decode(), **refusal.headers}
    if refusal.code:
        headers["X-Error-Code"] = refusal.code
    return json_answer({"error": refusal.message, **refusal.body}, refusal.status, headers)


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

    def __init__(self, tokens: Mapping[str, User], port: int = 0, *, verbose: bool = False) -> None:
        """Open the port; requests wait there until the server is started.

        Args:
            tokens: whom each token stands for.
            port: a port of the loopback address; a free one with 0.
            verbose: whether to print each request to standard error.

        Raises:
            OSError: the port is not free.
        """
        self.tokens = dict(tokens)
        self.verbose = verbose
        self.requests: list[tuple[str, str, int]] = []
        """Method, path and length of the body of each request."""
        self.faults: list[Fault] = []
        self.errors: list[str] = []
        self.stopping = threading.Event()
        self._faults_lock = threading.Lock()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.contents = Contents(self.endpoint)
        self.repositories = self.contents.repositories

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
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.close_connections()

    def serve(self) -> None:
        """Run the server in this thread."""
        self._server.serve_forever()

    def environment(self, token: str) -> dict[str, str]:
        """The variables with which a new process uses this server. They are read when it starts."""
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
        """How many requests of a method (`*`: any) came for paths that have a pattern in them."""
        lengths = [
            length
            for each, path, length in list(self.requests)
            if method in ("*", each) and re.search(pattern, path)
        ]
        return Count(len(lengths), sum(lengths))

    def forget_requests(self) -> None:
        """Count from zero."""
        self.requests.clear()


def _named_token(text: str) -> tuple[str, str]:
    name, _, token = text.partition("=")
    if not (re.fullmatch(r"\w[\w.-]*", name, re.A) and re.fullmatch(r"\S+", token)):
        raise argparse.ArgumentTypeError(f"expected NAME=TOKEN, found {text!r}")
    return name, token


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the server by hand."""
    parser = argparse.ArgumentParser(description="Run a Hub on 127.0.0.1, for tests and trial runs.")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    described = "a user's token that may write; may be given several times"
    parser.add_argument(
        "--token", metavar="NAME=TOKEN", type=_named_token, action="append", default=[], help=described
    )
    parser.add_argument(
        "--organization", metavar="NAME", action="append", default=[], help="one that every user belongs to"
    )
    asked = parser.parse_args(arguments)
    given = asked.token or [("user", f"hf_{secrets.token_hex(16)}")]
    tokens = {token: User(name, "write", tuple(asked.organization)) for name, token in given}
    try:
        hub = LoopbackHub(tokens, asked.port, verbose=True)
    except (OSError, OverflowError) as error:
        parser.error(f"cannot serve on port {asked.port}: {error}")
    for name, value in hub.environment(given[0][1]).items():
        print(f"export {name}={value}", flush=True)
    try:
        hub.serve()
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
