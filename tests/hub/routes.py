"""What the loopback Hub holds, and what it answers at each address."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

import yaml

if TYPE_CHECKING:
    from server import LoopbackHub

Json = dict[str, Any]
LARGE_FILE = 10_000_000
LARGE_SUFFIXES = ("arrow", "bin", "gz", "npy", "npz", "onnx", "parquet", "pt", "safetensors", "zip")


class RefusedError(Exception):
    """A request that the Hub refuses, with the status, code, headers and body that the client reads."""

    def __init__(self, status: int, message: str, code: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers, self.body = dict(more.get("headers", {})), dict(more.get("body", {}))


# What the Hub holds.


@dataclass(frozen=True)
class User:
    """Whom a token stands for. With the role `write`, it writes to the user's name and organizations."""

    name: str
    role: str = "write"
    organizations: tuple[str, ...] = ()

    def belongs_to(self, owner: str) -> bool:
        return owner == self.name or owner in self.organizations


@dataclass(frozen=True)
class File:
    """A file of a commit. A large one has a `sha256`, and git stores a pointer to it."""

    content: bytes
    sha256: str | None = None

    @property
    def oid(self) -> str:
        """The id that git gives the file or its pointer."""
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n"
        body = pointer.encode() if self.sha256 else self.content
        return hashlib.sha1(f"blob {len(body)}\0".encode() + body, usedforsecurity=False).hexdigest()

    @property
    def size(self) -> int:
        return len(self.content)

    def lfs(self, name: str) -> Json:
        return {"lfs": {name: self.sha256, "size": self.size, "pointerSize": 130}} if self.sha256 else {}


@dataclass(frozen=True)
class Commit:
    """A commit, with all files of the repository at that time by their paths."""

    files: Mapping[str, File]
    title: str
    message: str = ""
    parent: Commit | None = None
    oid: str = field(default_factory=lambda: secrets.token_hex(20))
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"))

    def history(self) -> Iterator[Commit]:
        """This commit and those before it, the newest first."""
        commit: Commit | None = self
        while commit is not None:
            yield commit
            commit = commit.parent

    def last_change(self, path: str) -> Json:
        """The commit that last changed a file, as the listings have it."""
        last = self
        for earlier in self.history():
            if earlier.files.get(path) != self.files[path]:
                break
            last = earlier
        return {"id": last.oid, "title": last.title, "date": last.date}


@dataclass
class Repository:
    """A repository. `large` holds the large files that were sent to it, by their SHA-256."""

    kind: str
    name: str
    private: bool
    sdk: str | None
    branches: dict[str, Commit]
    tags: dict[str, Commit] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        return self.name.partition("/")[0]

    def at(self, revision: str) -> Commit:
        """The commit that a branch, a tag or an id names."""
        commits = {one.oid: one for head in self.branches.values() for one in head.history()}
        for known in (self.branches, self.tags, commits):
            if revision.removeprefix("refs/heads/") in known:
                return known[revision.removeprefix("refs/heads/")]
        raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def refer(self, references: dict[str, Commit], name: str, revision: str) -> None:
        """Make a branch or a tag."""
        if name in references:
            raise RefusedError(409, f"Reference already exists: {name}")
        references[name] = self.at(revision)

    def information(self, commit: Commit, blobs: bool) -> Json:
        card = card_metadata(commit.files.get("README.md", File(b"")).content.decode(errors="replace"))[0]
        siblings: list[Json] = [{"rfilename": path} for path in commit.files]
        for sibling, file in zip(siblings, commit.files.values(), strict=True):
            if blobs:
                sibling |= {"size": file.size, "blobId": file.oid, **file.lfs("sha256")}
        return {
            "id": self.name,
            "author": self.owner,
            "sha": commit.oid,
            "private": self.private,
            "tags": [],
            "createdAt": commit.date,
            "lastModified": commit.date,
            "cardData": card,
            "siblings": siblings,
            **{name: card[name] for name in ("library_name", "pipeline_tag") if name in card},
            **({"sdk": self.sdk} if self.sdk else {}),
        }


def card_metadata(text: str) -> tuple[Json, list[str]]:
    """What stands between the two lines `---` at the head of a card, and what is wrong with it."""
    found = re.match(r"---\n(.*?)^---$", text, re.DOTALL | re.MULTILINE)
    try:
        metadata = yaml.safe_load(found[1]) if found else {}
    except yaml.YAMLError as error:
        return {}, [f"The metadata is no YAML: {error}"]
    return metadata or {}, []


# What is answered at each address. A handler gives an answer, or the value of one in JSON.


@dataclass
class Answer:
    """An answer to a request."""

    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200


def json_answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    # Dates in the metadata of a card are written as they were.
    content = json.dumps(value, default=str).encode()
    return Answer(content, {"Content-Type": "application/json", **(headers or {})}, status)


@dataclass
class Call:
    """A request on its way to its answer. `parts` are those of the address, by their names."""

    hub: LoopbackHub
    query: Mapping[str, list[str]]
    headers: Message
    body: bytes
    user: User | None
    parts: Mapping[str, str]

    def json(self) -> Json:
        return dict(json.loads(self.body or b"{}"))

    def asks(self, name: str) -> bool:
        return self.query.get(name, [""])[0].lower() in ("true", "1")

    def sees(self, owner: str, private: bool) -> bool:
        return not private or (self.user is not None and self.user.belongs_to(owner))

    def writer_of(self, owner: str) -> str:
        """The user's name; refused unless the user may write to what this owner has."""
        if self.user is None:
            raise RefusedError(401, "Invalid username or password.")
        if self.user.role != "write" or not self.user.belongs_to(owner):
            raise RefusedError(403, f"{self.user.name} has no right to write to {owner} with this token")
        return self.user.name

    def repository(self, *, write: bool = False) -> Repository:
        """The repository of the address."""
        prefix = self.parts.get("prefix", "").rstrip("/") or "models"
        repository = self.named(self.parts.get("kind", prefix), self.parts["repo"])
        if write:
            self.writer_of(repository.owner)
        return repository

    def named(self, kind: str, name: str) -> Repository:
        """A repository. One that the user may not see is the same as none."""
        repository = self.hub.repositories.get((kind, name))
        if repository is None or not self.sees(repository.owner, repository.private):
            raise RefusedError(404 if self.user else 401, "Repository not found", "RepoNotFound")
        return repository

    def commit(self) -> Commit:
        return self.repository().at(self.parts.get("revision", "main"))

    def collections(self) -> list[Json]:
        held = self.hub.collections.values()
        return [each for each in held if self.sees(each["owner"]["name"], each["private"])]

    def collection(self) -> Json:
        for each in self.collections():
            if each["slug"] == f"{self.parts['owner']}/{self.parts['slug']}":
                return each
        raise RefusedError(404, "Collection not found")

    def web_address(self, kind: str, name: str) -> str:
        return f"{self.hub.endpoint}/{'' if kind == 'models' else f'{kind}/'}{name}"


Handler = Callable[[Call], Any]
ROUTES: list[tuple[str, re.Pattern[str], Handler]] = []
_PARTS = {
    "kind": "models|datasets|spaces",
    "prefix": "datasets/|spaces/|",
    "repo": "[^/]+(?:/[^/]+)?",
    "path": ".+",
}
"""Patterns of the parts of an address; any other part is text without a slash."""


def route(method: str, *templates: str) -> Callable[[Handler], Handler]:
    """Register what answers a method at addresses such as `/api/{kind}/{repo}/refs`."""

    def register(handler: Handler) -> Handler:
        for template in templates:
            pieces = re.split(r"\{(\w+)\}", template)
            pieces[1::2] = [f"(?P<{name}>{_PARTS.get(name, '[^/]+')})" for name in pieces[1::2]]
            ROUTES.append((method, re.compile("".join(pieces)), handler))
        return handler

    return register


def find_route(method: str, path: str) -> tuple[Handler, dict[str, str]]:
    """The handler and the parts of an address that is still percent-encoded."""
    for known, pattern, handler in ROUTES:
        if (found := pattern.fullmatch(path)) and known == ("GET" if method == "HEAD" else method):
            return handler, {name: unquote(part) for name, part in found.groupdict().items()}
    raise RefusedError(404, f"Nothing is served at {path}", "RepoNotFound")


@route("GET", "/api/whoami-v2")
def who_am_i(call: Call) -> Json:
    user = call.user
    if user is None:
        raise RefusedError(401, "Invalid username or password.")
    organizations = [{"type": "org", "name": name, "roleInOrg": user.role} for name in user.organizations]
    token = {"displayName": user.name, "role": user.role}
    auth = {"type": "access_token", "accessToken": token}
    return {"type": "user", "name": user.name, "fullname": user.name, "orgs": organizations, "auth": auth}


@route("POST", "/api/repos/create")
def create_repository(call: Call) -> Json:
    asked = call.json()
    kind, name = f"{asked.get('type') or 'model'}s", str(asked["name"])
    owner = asked.get("organization") or ("" if "/" in name or not call.user else call.user.name)
    name = f"{owner}/{name}" if owner else name
    call.writer_of(name.partition("/")[0])
    address = call.web_address(kind, name)
    if (kind, name) in call.hub.repositories:
        # The client reads the address of a repository that is there already.
        raise RefusedError(409, f"You already created this repo: {name}", body={"url": address})
    private = asked.get("visibility", "private" if asked.get("private") else "public") == "private"
    first = Commit({".gitattributes": File(b"")}, "initial commit")
    call.hub.repositories[kind, name] = Repository(kind, name, private, asked.get("sdk"), {"main": first})
    return {"url": address, "name": name, "id": name}


@route("POST", "/api/validate-yaml")
def validate_card(call: Call) -> Answer:
    errors = card_metadata(str(call.json().get("content", "")))[1]
    value = {"errors": [{"message": text} for text in errors], "warnings": []}
    return json_answer(value, 400 if errors else 200)


@route("GET", "/api/{kind}/{repo}", "/api/{kind}/{repo}/revision/{revision}")
def tell_repository(call: Call) -> Json:
    return call.repository().information(call.commit(), call.asks("blobs"))


@route("GET", "/api/{kind}")
def list_repositories(call: Call) -> list[Json]:
    (author,) = call.query.get("author", [""])
    return [
        repository.information(repository.at("main"), False)
        for (kind, _), repository in sorted(call.hub.repositories.items())
        if kind == call.parts["kind"] and call.sees(repository.owner, repository.private)
        if author in ("", repository.owner)
    ]


def entries(commit: Commit, expand: bool) -> dict[str, Json]:
    """The folders and the files of a commit by path, as the listings have them; "" is the whole tree."""
    found: dict[str, Json] = {}
    for path, file in commit.files.items():
        parts = path.split("/")
        for length in range(len(parts)):
            above = "/".join(parts[:length])
            found[above] = {"type": "directory", "path": above, "oid": commit.oid, "size": 0}
        found[path] = {"type": "file", "path": path, "oid": file.oid, "size": file.size, **file.lfs("oid")}
        if expand:
            found[path]["lastCommit"] = commit.last_change(path)
    return dict(sorted(found.items()))


@route("GET", "/api/{kind}/{repo}/tree/{revision}", "/api/{kind}/{repo}/tree/{revision}/{path}")
def list_tree(call: Call) -> list[Json]:
    folder, found = call.parts.get("path", ""), entries(call.commit(), call.asks("expand"))
    if found.get(folder, {}).get("type") != "directory":
        raise RefusedError(404, f"No folder {folder}", "EntryNotFound")
    start = f"{folder}/" if folder else ""
    inside = [entry for path, entry in found.items() if path and path.startswith(start)]
    every = call.asks("recursive")
    return [entry for entry in inside if every or "/" not in entry["path"][len(start) :]]


@route("POST", "/api/{kind}/{repo}/paths-info/{revision}")
def tell_paths(call: Call) -> list[Json]:
    form = parse_qs(call.body.decode())
    found = entries(call.commit(), form.get("expand", [""])[0].lower() == "true")
    return [found[path] for path in form.get("paths", []) if path in found]


@route("GET", "/{prefix}{repo}/resolve/{revision}/{path}")
def resolve(call: Call) -> Answer:
    commit = call.commit()
    headers = {"X-Repo-Commit": commit.oid, "Content-Type": "application/octet-stream"}
    file = commit.files.get(call.parts["path"])
    if file is None:
        raise RefusedError(404, f"Entry not found: {call.parts['path']}", "EntryNotFound", headers=headers)
    headers |= {"ETag": f'"{file.sha256 or file.oid}"', "Accept-Ranges": "bytes"}
    if file.sha256:
        headers |= {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(file.size)}
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", call.headers.get("Range") or "")
    if asked is None:
        return Answer(file.content, headers)
    start, stop = int(asked[1]), min(int(asked[2] or file.size) + 1, file.size)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    return Answer(file.content[start:stop], headers, 206)


@route("GET", "/api/{kind}/{repo}/refs")
def list_references(call: Call) -> Json:
    repository = call.repository()

    def listed(folder: str, targets: Mapping[str, Commit]) -> list[Json]:
        return [
            {"name": name, "ref": f"refs/{folder}/{name}", "targetCommit": commit.oid}
            for name, commit in targets.items()
        ]

    return {
        "branches": listed("heads", repository.branches),
        "tags": listed("tags", repository.tags),
        "converts": [],
    }


@route("GET", "/api/{kind}/{repo}/commits/{revision}")
def list_commits(call: Call) -> list[Json]:
    return [
        {"id": one.oid, "title": one.title, "message": one.message, "date": one.date, "authors": []}
        for one in call.commit().history()
    ]


@route("POST", "/api/{kind}/{repo}/branch/{name}")
def create_branch(call: Call) -> Json:
    repository = call.repository(write=True)
    start = str(call.json().get("startingPoint") or "main")
    repository.refer(repository.branches, call.parts["name"], start)
    return {}


@route("DELETE", "/api/{kind}/{repo}/branch/{name}")
def delete_branch(call: Call) -> Json:
    if call.repository(write=True).branches.pop(call.parts["name"], None) is None:
        raise RefusedError(404, f"Invalid rev id: {call.parts['name']}", "RevisionNotFound")
    return {}


@route("POST", "/api/{kind}/{repo}/tag/{revision}")
def create_tag(call: Call) -> Json:
    repository = call.repository(write=True)
    repository.refer(repository.tags, str(call.json()["tag"]), call.parts["revision"])
    return {}


@route("POST", "/api/{kind}/{repo}/preupload/{revision}")
def tell_upload_modes(call: Call) -> Json:
    files = call.repository(write=True).at(call.parts["revision"]).files
    told = []
    for asked in call.json()["files"]:
        path, there = asked["path"], files.get(asked["path"])
        large = asked["size"] >= LARGE_FILE or path.rpartition(".")[2] in LARGE_SUFFIXES
        # An id of the other kind would not be one that the client could compare with.
        oid = (there.sha256 or there.oid) if there and bool(there.sha256) == large else None
        mode = "lfs" if large else "regular"
        told.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
    return {"files": told}


@route("POST", "/{prefix}{repo}.git/info/lfs/objects/batch")
def start_large_files(call: Call) -> Json:
    repository, told = call.repository(write=True), []
    for each in call.json()["objects"]:
        entry: Json = {"oid": each["oid"], "size": each["size"]}
        if each["oid"] not in repository.large:
            address = f"{call.hub.endpoint}/lfs-storage/{repository.kind}/{repository.name}/{each['oid']}"
            entry["actions"] = {"upload": {"href": address, "header": {}}}
        told.append(entry)
    return {"transfer": "basic", "objects": told}


@route("PUT", "/lfs-storage/{kind}/{repo}/{oid}")
def take_large_file(call: Call) -> Answer:
    # The client sends a large file without its token.
    repository = call.hub.repositories[call.parts["kind"], call.parts["repo"]]
    if hashlib.sha256(call.body).hexdigest() != call.parts["oid"]:
        raise RefusedError(400, f"What came is not the announced file {call.parts['oid']}")
    repository.large[call.parts["oid"]] = call.body
    return Answer()


@route("POST", "/api/{kind}/{repo}/commit/{branch}")
def commit_files(call: Call) -> Json:
    """Add, replace and delete files of a branch in one commit, or refuse all of it."""
    repository, branch = call.repository(write=True), call.parts["branch"].removeprefix("refs/heads/")
    header, *operations = [json.loads(line) for line in call.body.splitlines()]
    asked, head = header["value"], repository.branches.get(branch)
    if head is None:
        raise RefusedError(404, f"Invalid rev id: {branch} is no branch", "RevisionNotFound")
    if not head.oid.startswith(asked.get("parentCommit") or ""):
        raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
    files = dict(head.files)
    for operation in operations:
        value = operation["value"]
        path = value["path"]
        if operation["key"] == "file":
            files[path] = File(b64decode(value["content"], validate=True))
        elif operation["key"] == "lfsFile":
            if value["oid"] not in repository.large:
                raise RefusedError(400, f"The large file {path!r} was not uploaded before the commit")
            files[path] = File(repository.large[value["oid"]], value["oid"])
        elif files.pop(path, None) is None:
            raise RefusedError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
    files = dict(sorted(files.items()))
    commit = Commit(files, asked["summary"], asked.get("description") or "", head)
    repository.branches[branch] = commit
    address = f"{call.web_address(repository.kind, repository.name)}/commit/{commit.oid}"
    return {"success": True, "commitOid": commit.oid, "commitUrl": address}


@route("GET", "/api/collections")
def list_collections(call: Call) -> list[Json]:
    # The Hub shows the first items alone.
    shown = [{**each, "items": each["items"][:4]} for each in call.collections()]
    owners = call.query.get("owner")
    return [each for each in shown if not owners or each["owner"]["name"] in owners]


@route("POST", "/api/collections")
def create_collection(call: Call) -> Json:
    asked = call.json()
    owner, title = asked["namespace"], asked["title"]
    call.writer_of(owner)
    for each in call.collections():
        if (each["owner"]["name"], each["title"]) == (owner, title):
            raise RefusedError(409, f"You have a collection {title}", body={"slug": each["slug"]})
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    collection = {
        "slug": f"{owner}/{words}-{secrets.token_hex(12)}",
        "title": title,
        "owner": {"name": owner},
        "items": [],
        "private": bool(asked.get("private")),
        "theme": "green",
        "upvotes": 0,
        "lastUpdated": "2026-01-01T00:00:00.000Z",
    }
    call.hub.collections[str(collection["slug"])] = collection
    return {**collection, "position": 0}


@route("GET", "/api/collections/{owner}/{slug}")
def tell_collection(call: Call) -> Json:
    return {**call.collection(), "position": 0}


@route("POST", "/api/collections/{owner}/{slug}/items")
def add_item(call: Call) -> Json:
    call.writer_of(call.parts["owner"])
    collection, item = call.collection(), call.json()["item"]
    name, items = call.named(f"{item['type']}s", item["id"]).name, collection["items"]
    if any((each["type"], each["id"]) == (item["type"], name) for each in items):
        raise RefusedError(409, "This item is in the collection already")
    items.append({"_id": secrets.token_hex(12), "id": name, "type": item["type"], "position": len(items)})
    return {**collection, "position": 0}
