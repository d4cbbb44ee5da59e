"""Requests on their way through the loopback Hub: who asks, which route serves it, and the answer."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from typing import Any, Literal, Protocol
from urllib.parse import unquote

from repositories import KINDS, Repositories, Repository
from storage import RefusedError


@dataclasses.dataclass(frozen=True)
class User:
    """Whom a token stands for. With the role `write`, it writes to the user's name and organizations."""

    name: str
    role: Literal["read", "write"] = "write"
    organizations: tuple[str, ...] = ()

    def belongs_to(self, owner: str) -> bool:
        return owner == self.name or owner in self.organizations


class Hub(Protocol):
    """What an answer needs of the server."""

    repositories: Repositories
    secret: bytes

    @property
    def endpoint(self) -> str: ...


class Body(Protocol):
    """The body of a request, which can be read once."""

    def chunks(self) -> Iterator[bytes]: ...

    def read(self) -> bytes: ...


@dataclasses.dataclass
class Answer:
    """An answer: `content` or, from `start` on, `length` bytes of what is stored under `key`."""

    status: int = 200
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    content: bytes = b""
    key: str | None = None
    start: int = 0
    length: int = 0


def json_answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    # Dates in the metadata of a card are written as they were.
    content = json.dumps(value, default=str).encode()
    return Answer(status, {"Content-Type": "application/json", **(headers or {})}, content)


def refused(refusal: RefusedError) -> Answer:
    """A refusal as an answer: the message in the body and in the headers that the client reads."""
    message = "".join(letter if letter.isprintable() else " " for letter in refusal.message)
    headers = {"X-Error-Message": message.encode("ascii", "replace").decode(), **refusal.headers}
    if refusal.code:
        headers["X-Error-Code"] = refusal.code
    return json_answer({"error": refusal.message, **refusal.body}, refusal.status, headers)


@dataclasses.dataclass
class Call:
    """A request on its way to its answer. `parts` are those of the address, by their names."""

    hub: Hub
    method: str
    query: Mapping[str, list[str]]
    headers: Message
    body: Body
    user: User | None
    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body.read() or b"{}")
        except ValueError:
            raise RefusedError(400, "The body is no JSON") from None
        if not isinstance(value, dict):
            raise RefusedError(400, "The body is no JSON object")
        return value

    def asks(self, name: str) -> bool:
        return self.query.get(name, [""])[0].lower() in ("true", "1")

    @property
    def author(self) -> str:
        return self.user.name if self.user else "nobody"

    def writer_of(self, owner: str) -> None:
        """Refuse a user who may not write to what this owner has."""
        if self.user is None:
            raise RefusedError(401, "Invalid username or password.")
        if self.user.role != "write" or not self.user.belongs_to(owner):
            raise RefusedError(403, f"{self.user.name} has no right to write to {owner} with this token")

    def repository(self, *, write: bool = False) -> Repository:
        """The repository of the address. One that the user may not see is the same as none."""
        prefix = self.parts.get("prefix", "").rstrip("/") or "models"
        return self.named(self.parts.get("kind", prefix), self.parts["repo"], write=write)

    def named(self, kind: str, name: str, *, write: bool = False) -> Repository:
        repository = self.hub.repositories.find(kind, name)
        owner = name.partition("/")[0]
        hidden = repository is not None and repository.private
        if repository is None or (hidden and not (self.user and self.user.belongs_to(owner))):
            raise RefusedError(404 if self.user else 401, "Repository not found", "RepoNotFound")
        if write:
            self.writer_of(owner)
        return repository


Handler = Callable[[Call], Answer]


class Router:
    """Handlers by method and by the template of an address, such as `/api/{kind}/{repo}/refs`."""

    # Any other part is text without a slash.
    _parts: Mapping[str, str] = {
        "kind": "models|datasets|spaces",
        "prefix": "datasets/|spaces/|",
        "repo": "[^/]+(?:/[^/]+)?",
        "path": ".+",
    }

    def __init__(self) -> None:
        self._routes: list[tuple[str, str, re.Pattern[str], Handler]] = []

    def route(self, method: str, *templates: str) -> Callable[[Handler], Handler]:
        """Register what answers a method at addresses."""

        def register(handler: Handler) -> Handler:
            for template in templates:
                pieces = re.split(r"\{(\w+)\}", template)
                pattern = "".join(
                    re.escape(piece) if index % 2 == 0 else f"(?P<{piece}>{self._parts.get(piece, '[^/]+')})"
                    for index, piece in enumerate(pieces)
                )
                self._routes.append((method, template, re.compile(pattern), handler))
            return handler

        return register

    def find(self, method: str, path: str) -> tuple[str, Handler, dict[str, str]]:
        """The route, the handler and the parts of an address that is still percent-encoded.

        Raises:
            RefusedError: nothing is served there.
        """
        served = set()
        for known, template, pattern, handler in self._routes:
            found = pattern.fullmatch(path)
            # What can be read can be asked about.
            if found and (method == known or (method == "HEAD" and known == "GET")):
                parts = {name: unquote(part) for name, part in found.groupdict().items()}
                return f"{method} {template}", handler, parts
            if found:
                served.add(known)
        if served:
            raise RefusedError(405, f"{path} serves {', '.join(sorted(served))}")
        repository = path.startswith(tuple(f"/api/{kind}/" for kind in KINDS)) or "/resolve/" in path
        raise RefusedError(404, f"Nothing is served at {path}", "RepoNotFound" if repository else None)
