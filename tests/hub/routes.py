"""What the loopback Hub answers at each address."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Literal
from urllib.parse import parse_qs, unquote

import yaml
from repositories import (
    KINDS,
    Commit,
    File,
    RefusedError,
    Repositories,
    Repository,
    checked_path,
    folders_above,
    git_id,
    now,
)

Json = Mapping[str, Any]


@dataclass(frozen=True)
class User:
    """Whom a token stands for. With the role `write`, it writes to the user's name and organizations."""

    name: str
    role: Literal["read", "write"] = "write"
    organizations: tuple[str, ...] = ()

    def belongs_to(self, owner: str) -> bool:
        return owner == self.name or owner in self.organizations


@dataclass
class Contents:
    """What the Hub holds, and the address it is at."""

    endpoint: str
    repositories: Repositories = field(default_factory=Repositories)
    collections: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Answer:
    """An answer to a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""


def json_answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    # Dates in the metadata of a card are written as they were.
    content = json.dumps(value, default=str).encode()
    return Answer(status, {"Content-Type": "application/json", **(headers or {})}, content)


@dataclass
class Call:
    """A request on its way to its answer. `parts` are those of the address, by their names."""

    hub: Contents
    query: Mapping[str, list[str]]
    headers: Message
    body: bytes
    user: User | None
    parts: Mapping[str, str]

    def json(self) -> dict[str, Any]:
        value = json.loads(self.body or b"{}")
        if not isinstance(value, dict):
            raise RefusedError(400, "The body is no JSON object")
        return value

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
        return self.named(self.parts.get("kind", prefix), self.parts["repo"], write=write)

    def named(self, kind: str, name: str, *, write: bool = False) -> Repository:
        """A repository. One that the user may not see is the same as none."""
        repository = self.hub.repositories.find(kind, name)
        if repository is None or not self.sees(repository.owner, repository.private):
            raise RefusedError(404 if self.user else 401, "Repository not found", "RepoNotFound")
        if write:
            self.writer_of(repository.owner)
        return repository

    def web_address(self, kind: str, name: str) -> str:
        return f"{self.hub.endpoint}/{'' if kind == 'models' else f'{kind}/'}{name}"


Handler = Callable[[Call], Answer]
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
            pattern = "".join(
                f"(?P<{piece}>{_PARTS.get(piece, '[^/]+')})" if index % 2 else re.escape(piece)
                for index, piece in enumerate(pieces)
            )
            ROUTES.append((method, re.compile(pattern), handler))
        return handler

    return register


def find_route(method: str, path: str) -> tuple[Handler, dict[str, str]]:
    """The handler and the parts of an address that is still percent-encoded."""
    for known, pattern, handler in ROUTES:
        if (found := pattern.fullmatch(path)) and known == ("GET" if method == "HEAD" else method):
            return handler, {name: unquote(part) for name, part in found.groupdict().items()}
    repository = path.startswith(tuple(f"/api/{kind}/" for kind in KINDS)) or "/resolve/" in path
    raise RefusedError(404, f"Nothing is served at {path}", "RepoNotFound" if repository else None)


# The user and repositories.


@route("GET", "/api/whoami-v2")
def who_am_i(call: Call) -> Answer:
    user = call.user
    if user is None:
        raise RefusedError(401, "Invalid username or password.")
    token = {"displayName": f"{user.name}-{user.role}", "role": user.role}
    return json_answer(
        {
            "type": "user",
            "name": user.name,
            "fullname": user.name,
            "orgs": [{"type": "org", "name": name, "roleInOrg": user.role} for name in user.organizations],
            "auth": {"type": "access_token", "accessToken": token},
        }
    )


@route("POST", "/api/repos/create")
def create_repository(call: Call) -> Answer:
    asked = call.json()
    kind, name = f"{asked.get('type') or 'model'}s", str(asked.get("name"))
    if asked.get("organization"):
        name = f"{asked['organization']}/{name}"
    elif "/" not in name and call.user:
        name = f"{call.user.name}/{name}"
    author, sdk = call.writer_of(name.partition("/")[0]), asked.get("sdk")
    if kind == "spaces" and sdk not in ("gradio", "docker", "static"):
        raise RefusedError(400, f"A Space needs an sdk: gradio, docker or static, found {sdk!r}")
    private = asked.get("visibility", "private" if asked.get("private") else "public") == "private"
    address = call.web_address(kind, name)
    try:
        call.hub.repositories.create(kind, name, author, private=private, sdk=sdk)
    except RefusedError as refusal:
        # The client reads the address of a repository that is there already.
        refusal.body["url"] = address
        raise
    return json_answer({"url": address, "name": name, "id": name})


def card_metadata(text: str) -> tuple[dict[str, Any], list[str]]:
    """What stands between the two lines `---` at the head of a card, and what is wrong with it."""
    found = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", text, re.DOTALL | re.MULTILINE)
    try:
        metadata = yaml.safe_load(found[1]) if found else {}
    except yaml.YAMLError as error:
        return {}, [f"The metadata is no YAML: {error}"]
    if isinstance(metadata or {}, dict):
        return metadata or {}, []
    return {}, [f"The metadata is to be names and values, found {type(metadata).__name__}"]


@route("POST", "/api/validate-yaml")
def validate_card(call: Call) -> Answer:
    metadata, errors = card_metadata(str(call.json().get("content", "")))
    warnings = [] if metadata or errors else ["empty or missing yaml metadata in repo card"]
    values = {"errors": errors, "warnings": warnings}
    return json_answer(
        {name: [{"message": text} for text in texts] for name, texts in values.items()},
        400 if errors else 200,
    )


def _information(call: Call, repository: Repository, commit: Commit) -> dict[str, Any]:
    card = card_metadata(commit.files.get("README.md", File(b"")).content.decode(errors="replace"))[0]
    siblings = []
    for path, file in commit.files.items():
        sibling: dict[str, Any] = {"rfilename": path}
        if call.asks("blobs"):
            sibling |= {"size": file.size, "blobId": file.oid, **_lfs(file, "sha256")}
        siblings.append(sibling)
    return {
        "id": repository.name,
        "author": repository.owner,
        "sha": commit.oid,
        "private": repository.private,
        "gated": False,
        "disabled": False,
        "tags": [],
        "createdAt": repository.created,
        "lastModified": commit.date,
        "cardData": card,
        "siblings": siblings,
        "downloads": 0,
        "likes": 0,
        **{name: card[name] for name in ("library_name", "pipeline_tag") if name in card},
        **({"sdk": repository.sdk} if repository.sdk else {}),
    }


def _lfs(file: File, name: str) -> dict[str, Any]:
    lfs = {name: file.sha256, "size": file.size, "pointerSize": len(file.pointer)}
    return {"lfs": lfs} if file.sha256 else {}


@route("GET", "/api/{kind}/{repo}", "/api/{kind}/{repo}/revision/{revision}")
def tell_repository(call: Call) -> Answer:
    repository = call.repository()
    return json_answer(_information(call, repository, repository.at(call.parts.get("revision", "main"))))


@route("GET", "/api/{kind}")
def list_repositories(call: Call) -> Answer:
    found = []
    author = call.query.get("author")
    for repository in call.hub.repositories.all(call.parts["kind"]):
        seen = call.sees(repository.owner, repository.private)
        if seen and (not author or repository.owner == author[0]):
            found.append(_information(call, repository, repository.at("main")))
    return json_answer(found)


# What is in a repository.


def _item(commit: Commit, path: str, file: File | None, expand: bool) -> dict[str, Any]:
    """A file or a folder as the listings have it."""
    if file is None:
        return {"type": "directory", "path": path, "oid": git_id("tree", path.encode()), "size": 0}
    item = {"type": "file", "path": path, "oid": file.oid, "size": file.size, **_lfs(file, "oid")}
    if expand:
        last = commit.last_change(path)
        item["lastCommit"] = {"id": last.oid, "title": last.title, "date": last.date}
    return item


def _entries(commit: Commit) -> dict[str, File | None]:
    """The folders, which are None, and the files of a commit by path; the empty path is the whole tree."""
    folders = {folder for path in commit.files for folder in folders_above(path)}
    return {"": None, **dict.fromkeys(folders), **commit.files}


@route("GET", "/api/{kind}/{repo}/tree/{revision}", "/api/{kind}/{repo}/tree/{revision}/{path}")
def list_tree(call: Call) -> Answer:
    commit = call.repository().at(call.parts["revision"])
    folder, entries = call.parts.get("path", ""), _entries(commit)
    if entries.get(folder, ...) is not None:
        headers = {"X-Repo-Commit": commit.oid}
        raise RefusedError(404, f"No folder {folder}", "EntryNotFound", headers=headers)
    start = f"{folder}/" if folder else ""
    inside = [path for path in entries if path and path.startswith(start)]
    if not call.asks("recursive"):
        inside = [path for path in inside if "/" not in path[len(start) :]]
    expand = call.asks("expand")
    return json_answer([_item(commit, path, entries[path], expand) for path in sorted(inside)])


@route("POST", "/api/{kind}/{repo}/paths-info/{revision}")
def tell_paths(call: Call) -> Answer:
    commit = call.repository().at(call.parts["revision"])
    form, entries = parse_qs(call.body.decode(errors="replace")), _entries(commit)
    expand = form.get("expand", [""])[0].lower() == "true"
    names = [path.strip("/") for path in form.get("paths", [])]
    return json_answer([_item(commit, name, entries[name], expand) for name in names if name in entries])


@route("GET", "/{prefix}{repo}/resolve/{revision}/{path}")
def resolve(call: Call) -> Answer:
    commit = call.repository().at(call.parts["revision"])
    headers = {"X-Repo-Commit": commit.oid}
    file = commit.files.get(call.parts["path"])
    if file is None:
        path = call.parts["path"]
        raise RefusedError(404, f"Entry not found: {path}", "EntryNotFound", headers=headers)
    headers |= {
        "ETag": f'"{file.etag}"',
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
    }
    if file.sha256:
        headers |= {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(file.size)}
    asked = re.fullmatch(r"\s*bytes=(\d+)-(\d*)\s*", call.headers.get("Range") or "")
    if asked is None:
        return Answer(200, headers, file.content)
    start, stop = int(asked[1]), min(int(asked[2] or file.size) + 1, file.size)
    if start >= stop:
        raise RefusedError(416, f"The file has {file.size} bytes, not {asked[0]}")
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    return Answer(206, headers, file.content[start:stop])


# Branches, tags and history.


@route("GET", "/api/{kind}/{repo}/refs")
def list_references(call: Call) -> Answer:
    repository = call.repository()
    listed: dict[str, list[Json]] = {"converts": [], "pullRequests": []}
    for name, folder, targets in (
        ("branches", "heads", repository.branches),
        ("tags", "tags", repository.tags),
    ):
        listed[name] = [
            {"name": each, "ref": f"refs/{folder}/{each}", "targetCommit": commit.oid}
            for each, commit in targets.items()
        ]
    return json_answer(listed)


@route("GET", "/api/{kind}/{repo}/commits/{revision}")
def list_commits(call: Call) -> Answer:
    return json_answer(
        [
            {
                "id": commit.oid,
                "title": commit.title,
                "message": commit.message,
                "date": commit.date,
                "authors": [{"user": commit.author}],
            }
            for commit in call.repository().at(call.parts["revision"]).history()
        ]
    )


@route("POST", "/api/{kind}/{repo}/branch/{name}")
def create_branch(call: Call) -> Answer:
    repository = call.repository(write=True)
    start = str(call.json().get("startingPoint") or "main")
    repository.set_reference(repository.branches, call.parts["name"], start)
    return json_answer({})


@route("DELETE", "/api/{kind}/{repo}/branch/{name}")
def delete_branch(call: Call) -> Answer:
    repository, name = call.repository(write=True), call.parts["name"]
    if name == "main":
        raise RefusedError(403, "The branch main cannot be deleted")
    with repository.lock:
        if repository.branches.pop(name, None) is None:
            raise RefusedError(404, f"Invalid rev id: {name}", "RevisionNotFound")
    return json_answer({})


@route("POST", "/api/{kind}/{repo}/tag/{revision}")
def create_tag(call: Call) -> Answer:
    repository = call.repository(write=True)
    repository.set_reference(repository.tags, str(call.json().get("tag", "")), call.parts["revision"])
    return json_answer({})


# Sending files.


@route("POST", "/api/{kind}/{repo}/preupload/{revision}")
def tell_upload_modes(call: Call) -> Answer:
    repository = call.repository(write=True)
    commit = repository.at(call.parts["revision"])
    told = []
    for asked in call.json()["files"]:
        path = checked_path(asked.get("path"))
        large = repository.is_large(commit, path, asked["size"])
        there = commit.files.get(path)
        # An id of the other kind would not be one that the client could compare with.
        oid = there.etag if there and bool(there.sha256) == large else None
        mode = "lfs" if large else "regular"
        told.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
    return json_answer({"files": told})


@route("POST", "/{prefix}{repo}.git/info/lfs/objects/batch")
def start_large_files(call: Call) -> Answer:
    repository, asked = call.repository(write=True), call.json()
    if asked.get("operation") != "upload" or asked.get("hash_algo", "sha256") != "sha256":
        raise RefusedError(400, "Large files are uploaded here, by their SHA-256")
    kind, name, told = repository.kind, repository.name, []
    for each in asked["objects"]:
        oid, size = str(each["oid"]), int(each["size"])
        entry: dict[str, Any] = {"oid": oid, "size": size}
        if oid not in repository.lfs:
            address = f"{call.hub.endpoint}/lfs-storage/{kind}/{name}/{oid}?size={size}"
            entry["actions"] = {"upload": {"href": address, "header": {}}}
        told.append(entry)
    return json_answer({"transfer": "basic", "objects": told})


@route("PUT", "/lfs-storage/{kind}/{repo}/{oid}")
def take_large_file(call: Call) -> Answer:
    # The client sends a large file without its token.
    repository = call.hub.repositories.find(call.parts["kind"], call.parts["repo"])
    if repository is None:
        raise RefusedError(404, "Repository not found", "RepoNotFound")
    repository.add_large(call.parts["oid"], int(call.query["size"][0]), call.body)
    return Answer()


@route("POST", "/api/{kind}/{repo}/commit/{branch}")
def commit_files(call: Call) -> Answer:
    repository = call.repository(write=True)
    lines = [json.loads(line) for line in call.body.splitlines()]
    header, *operations = [(str(line["key"]), dict(line["value"])) for line in lines]
    if header[0] != "header" or call.asks("create_pr"):
        raise RefusedError(400, "A commit begins with its header, and is no pull request")
    author = call.writer_of(repository.owner)
    commit = repository.commit(call.parts["branch"], author, header[1], operations)
    address = f"{call.web_address(repository.kind, repository.name)}/commit/{commit.oid}"
    return json_answer({"success": True, "commitOid": commit.oid, "commitUrl": address})


# Collections: lists of repositories under a title.


def _collections(call: Call) -> list[dict[str, Any]]:
    held = list(call.hub.collections.values())
    return [each for each in held if call.sees(each["owner"]["name"], each["private"])]


def _collection(call: Call) -> dict[str, Any]:
    slug = f"{call.parts['owner']}/{call.parts['slug']}"
    found = [each for each in _collections(call) if each["slug"] == slug]
    if not found:
        raise RefusedError(404, "Collection not found")
    return found[0]


@route("GET", "/api/collections")
def list_collections(call: Call) -> Answer:
    owners, listed = call.query.get("owner"), _collections(call)
    # The Hub shows the first items alone.
    shown = [{**each, "items": each["items"][:4]} for each in listed]
    return json_answer([each for each in shown if not owners or each["owner"]["name"] in owners])


@route("POST", "/api/collections")
def create_collection(call: Call) -> Answer:
    asked = call.json()
    owner, title = str(asked.get("namespace")), str(asked.get("title", ""))
    call.writer_of(owner)
    if not title or len(title) > 60:
        raise RefusedError(400, f"A title has 1 to 60 letters, found {title!r}")
    for held in _collections(call):
        if (held["owner"]["name"], held["title"]) == (owner, title):
            raise RefusedError(409, f"You have a collection {title}", body={"slug": held["slug"]})
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    collection = {
        "slug": f"{owner}/{words}-{secrets.token_hex(12)}",
        "title": title,
        "owner": {"name": owner},
        "items": [],
        "private": bool(asked.get("private")),
        "theme": "green",
        "upvotes": 0,
        "lastUpdated": now(),
    }
    call.hub.collections[str(collection["slug"])] = collection
    return json_answer({**collection, "position": 0})


@route("GET", "/api/collections/{owner}/{slug}")
def tell_collection(call: Call) -> Answer:
    return json_answer({**_collection(call), "position": 0})


@route("POST", "/api/collections/{owner}/{slug}/items")
def add_item(call: Call) -> Answer:
    call.writer_of(call.parts["owner"])
    collection, item = _collection(call), call.json()["item"]
    # One that the user may not see is the same as none.
    name, items = call.named(f"{item['type']}s", str(item.get("id"))).name, collection["items"]
    if any((each["type"], each["id"]) == (item["type"], name) for each in items):
        raise RefusedError(409, "This item is in the collection already")
    items.append({"_id": secrets.token_hex(12), "id": name, "type": item["type"], "position": len(items)})
    return json_answer({**collection, "position": 0})
