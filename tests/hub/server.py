"""A Hub on the loopback address, for tests: repositories, large files, private ones, and faults on demand.

By hand:

    python tests/hub/server.py --port 8000 --token alice=secret --organization storms

prints the environment variables with which `huggingface_hub`, and all that is built on it, use it. Everything
is kept in memory. It has what pushes, loads and leaderboards need, and no xet, pull requests, gated
repositories, multipart uploads, or checks of names that the client makes before it asks.
"""

from __future__ import annotations

import argparse
import re
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from routes import Answer, Call, Json, RefusedError, Repository, User, find_route, json_answer


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


class _Handler(BaseHTTPRequestHandler):
    """Answers one request of a connection, so that no connection outlives the server."""

    server: _Server
    timeout = 60
    wbufsize = 1 << 20

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
        hub.requests.append((self.command, path))
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
            with hub.lock:
                value = handler(Call(hub, query, self.headers, body, user, parts))
            return value if isinstance(value, Answer) else json_answer(value)
        except RefusedError as refusal:
            headers = {"X-Error-Message": refusal.message, **refusal.headers}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            return json_answer({"error": refusal.message, **refusal.body}, refusal.status, headers)
        except OSError:
            raise
        except Exception:
            # Tests must see the errors of this server too.
            hub.errors.append(traceback.format_exc())
            return json_answer({"error": "The server failed; its `errors` have the traceback"}, 500)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    hub: LoopbackHub


class LoopbackHub:
    """The server. `with LoopbackHub(...) as hub:` runs it in a thread until the end of the block.

    Args:
        tokens: whom each token stands for.
        port: a port of the loopback address; a free one with 0.
        verbose: whether to print each request to standard error.
    """

    def __init__(self, tokens: Mapping[str, User], port: int = 0, *, verbose: bool = False) -> None:
        self.tokens, self.verbose = dict(tokens), verbose
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.collections: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        """Method and path of each request."""
        self.faults: list[Fault] = []
        self.errors: list[str] = []
        self.stopping, self.lock = threading.Event(), threading.Lock()
        self.server = _Server(("127.0.0.1", port), _Handler)
        self.server.hub = self
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse new connections. Stopping twice does nothing more."""
        self.stopping.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def environment(self, token: str) -> dict[str, str]:
        """The variables with which a new process uses this server. They are read when it starts."""
        return {"HF_ENDPOINT": self.endpoint, "HF_TOKEN": token, "HF_HUB_DISABLE_XET": "1"}

    def token_of(self, name: str) -> str:
        """The token with which a user writes."""
        return next(token for token, user in self.tokens.items() if (user.name, user.role) == (name, "write"))

    def user_of(self, authorization: str | None) -> User | None:
        user = self.tokens.get((authorization or "").removeprefix("Bearer ").strip())
        if authorization is not None and user is None:
            raise RefusedError(401, "Invalid credentials in Authorization header")
        return user

    def fault(self, method: str, pattern: str, times: int = 1, **what: Any) -> None:
        """Let the next requests of a method fail whose path has a pattern in it, as `Fault` says."""
        self.faults.append(Fault(method, pattern, times, **what))

    def next_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and re.search(fault.pattern, path):
                    fault.times -= 1
                    return fault
        return None

    def count(self, method: str, pattern: str = "") -> int:
        """How many requests of a method came for paths that have a pattern in them."""
        return sum(each == method and bool(re.search(pattern, path)) for each, path in list(self.requests))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the server by hand."""
    parser = argparse.ArgumentParser(description="Run a Hub on 127.0.0.1, for tests and trial runs.")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    parser.add_argument("--token", metavar="NAME=TOKEN", default="user=hf_user", help="a user who may write")
    parser.add_argument("--organization", metavar="NAME", action="append", default=[], help="of the user")
    asked = parser.parse_args(arguments)
    name, _, token = asked.token.partition("=")
    hub = LoopbackHub({token: User(name, "write", tuple(asked.organization))}, asked.port, verbose=True)
    for variable, value in hub.environment(token).items():
        print(f"export {variable}={value}", flush=True)
    hub.server.serve_forever()


if __name__ == "__main__":
    main()
