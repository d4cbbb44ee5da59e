"""What the loopback Hub answers at each address, by what is asked for."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import yaml
from calls import Answer, Call, Router, json_answer
from repositories import (
    KINDS,
    Commit,
    File,
    Repository,
    checked_name,
    checked_path,
    folder_ids,
)
from storage import RefusedError

Json = Mapping[str, Any]
router = Router()


# The user.


@router.route("GET", "/api/whoami-v2")
def who_am_i(call: Call) -> Answer:
    user = call.user
    if user is None:
        raise RefusedError(401, "Invalid username or password.")
    return json_answer(
        {
            "type": "user",
            "name": user.name,
            "fullname": user.name,
            "orgs": [{"type": "org", "name": name, "roleInOrg": user.role} for name in user.organizations],
            "auth": {
                "type": "access_token",
                "accessToken": {"displayName": f"{user.name}-{user.role}", "role": user.role},
            },
        }
    )


# Repositories.


def _asked_repository(call: Call, asked: Json) -> tuple[str, str]:
    kind = f"{asked.get('type') or 'model'}s"
    if kind not in KINDS:
        raise RefusedError(
            400, f"The type of a repository is model, dataset or space, found {asked.get('type')!r}"
        )
    owner, name = asked.get("organization"), asked.get("name")
    if owner is None and isinstance(name, str) and "/" in name:
        owner, _, name = name.partition("/")
    return kind, checked_name(owner or call.author, name)


def _web_address(call: Call, repository: Repository) -> str:
    prefix = "" if repository.kind == "models" else f"{repository.kind}/"
    return f"{call.hub.endpoint}/{prefix}{repository.name}"


@router.route("POST", "/api/repos/create")
def create_repository(call: Call) -> Answer:
    asked = call.json()
    kind, name = _asked_repository(call, asked)
    call.writer_of(name.partition("/")[0])
    if kind == "spaces" and asked.get("sdk") not in ("gradio", "docker", "static", "streamlit"):
        raise RefusedError(
            400, f"A Space needs an sdk: gradio, docker, static or streamlit, found {asked.get('sdk')!r}"
        )
    private = asked.get("visibility", "private" if asked.get("private") else "public") == "private"
    repositories = call.hub.repositories
    try:
        repository = repositories.create(kind, name, call.author, private=private, sdk=asked.get("sdk"))
    except RefusedError as refusal:
        # The client reads the address of a repository that is there already.
        refusal.body["url"] = _web_address(call, Repository(kind, name, private, ""))
        raise
    return json_answer({"url": _web_address(call, repository), "name": name, "id": name})


@router.route("DELETE", "/api/repos/delete")
def delete_repository(call: Call) -> Answer:
    kind, name = _asked_repository(call, call.json())
    call.hub.repositories.delete(call.named(kind, name, write=True))
    return json_answer({})


@router.route("PUT", "/api/{kind}/{repo}/settings")
def change_settings(call: Call) -> Answer:
    repository, asked = call.repository(write=True), call.json()
    if set(asked) != {"visibility"} or asked["visibility"] not in ("public", "private"):
        raise RefusedError(400, f"The setting here is visibility, public or private; found {asked}")
    call.hub.repositories.set_private(repository, asked["visibility"] == "private")
    return json_answer({})


def card_metadata(text: str) -> tuple[dict[str, Any], list[str]]:
    """What stands between the two lines `---` at the head of a card, and what is wrong with it."""
    found = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", text, re.DOTALL | re.MULTILINE)
    if found is None:
        return {}, []
    try:
        metadata = yaml.safe_load(found[1])
    except yaml.YAMLError as error:
        return {}, [f"The metadata is no YAML: {error}"]
    if metadata is None or isinstance(metadata, dict):
        return metadata or {}, []
    return {}, [f"The metadata is to be names and values, found {type(metadata).__name__}"]


@router.route("POST", "/api/validate-yaml")
def validate_card(call: Call) -> Answer:
    metadata, errors = card_metadata(str(call.json().get("content", "")))
    warnings = [] if metadata or errors else ["empty or missing yaml metadata in repo card"]
    values = {"errors": errors, "warnings": warnings}
    return json_answer(
        {name: [{"message": text} for text in texts] for name, texts in values.items()},
        400 if errors else 200,
    )


def _tags(card: Json) -> list[str]:
    """The tags that a repository is found by."""
    tags = []
    for field in ("library_name", "pipeline_tag", "tags", "language", "license", "datasets", "base_model"):
        values = card.get(field) or []
        prefix = {"license": "license:", "datasets": "dataset:", "base_model": "base_model:"}.get(field, "")
        tags += [f"{prefix}{value}" for value in (values if isinstance(values, list) else [values])]
    return tags


def _information(call: Call, repository: Repository, commit: Commit) -> dict[str, Any]:
    readme = commit.files.get("README.md")
    text = call.hub.repositories.read(readme.key).decode(errors="replace") if readme else ""
    card = card_metadata(text)[0]
    siblings = []
    for path, file in commit.files.items():
        sibling: dict[str, Any] = {"rfilename": path}
        if call.asks("blobs"):
            sibling |= {"size": file.size, "blobId": file.oid}
            if file.sha256:
                lfs = {"size": file.size, "sha256": file.sha256, "pointerSize": file.pointer_size}
                sibling["lfs"] = lfs
        siblings.append(sibling)
    return {
        "id": repository.name,
        "author": repository.owner,
        "sha": commit.oid,
        "private": repository.private,
        "gated": False,
        "disabled": False,
        "tags": _tags(card),
        "createdAt": repository.created,
        "lastModified": commit.date,
        "cardData": card,
        "siblings": siblings,
        "downloads": 0,
        "likes": 0,
        **{name: card[name] for name in ("library_name", "pipeline_tag") if name in card},
        **({"sdk": repository.sdk} if repository.sdk else {}),
    }


@router.route("GET", "/api/{kind}/{repo}", "/api/{kind}/{repo}/revision/{revision}")
def tell_repository(call: Call) -> Answer:
    repository = call.repository()
    commit = call.hub.repositories.commit_at(repository, call.parts.get("revision", "main"))
    return json_answer(_information(call, repository, commit))


@router.route("GET", "/api/{kind}")
def list_repositories(call: Call) -> Answer:
    repositories, found = call.hub.repositories, []
    author, search = call.query.get("author"), call.query.get("search", [""])[0].lower()
    for repository in repositories.all(call.parts["kind"]):
        seen = not repository.private or (call.user and call.user.belongs_to(repository.owner))
        if seen and (not author or repository.owner == author[0]) and search in repository.name.lower():
            told = _information(call, repository, repositories.commit_at(repository, "main"))
            if set(call.query.get("filter", [])) <= set(told["tags"]):
                found.append(told)
    limit = call.query.get("limit", [""])[0]
    return json_answer(found[: int(limit)] if limit.isdigit() else found)


# What is in a repository.


def _item(call: Call, commit: Commit, path: str, file: File | str, expand: bool) -> dict[str, Any]:
    """A file, or a folder by its id, as the listings have it."""
    item: dict[str, Any]
    if isinstance(file, str):
        item = {"type": "directory", "path": path, "oid": file, "size": 0}
    else:
        item = {"type": "file", "path": path, "oid": file.oid, "size": file.size}
        if file.sha256:
            item["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": file.pointer_size}
    if expand:
        last = call.hub.repositories.last_change(commit, path)
        item["lastCommit"] = {"id": last.oid, "title": last.title, "date": last.date}
    return item


@router.route("GET", "/api/{kind}/{repo}/tree/{revision}", "/api/{kind}/{repo}/tree/{revision}/{path}")
def list_tree(call: Call) -> Answer:
    commit = call.hub.repositories.commit_at(call.repository(), call.parts["revision"])
    folder = checked_path(call.parts["path"]) if "path" in call.parts else ""
    folders = folder_ids(commit.files)
    if folder not in folders:
        raise RefusedError(404, f"No folder {folder}", "EntryNotFound", {"X-Repo-Commit": commit.oid})
    entries: dict[str, File | str] = {**folders, **commit.files}
    start = f"{folder}/" if folder else ""
    inside = [path for path in entries if path and path.startswith(start)]
    if not call.asks("recursive"):
        inside = [path for path in inside if "/" not in path[len(start) :]]
    expand = call.asks("expand")
    return json_answer([_item(call, commit, path, entries[path], expand) for path in sorted(inside)])


@router.route("POST", "/api/{kind}/{repo}/paths-info/{revision}")
def tell_paths(call: Call) -> Answer:
    commit = call.hub.repositories.commit_at(call.repository(), call.parts["revision"])
    if call.headers.get("Content-Type", "").startswith("application/json"):
        asked = call.json()
        paths, expand = asked.get("paths", []), asked.get("expand") is True
    else:
        form = parse_qs(call.body.read().decode(errors="replace"))
        paths, expand = form.get("paths", []), form.get("expand", [""])[0].lower() == "true"
    entries: dict[str, File | str] = {**folder_ids(commit.files), **commit.files}
    names = [str(path).strip("/") for path in paths]
    return json_answer(
        [_item(call, commit, name, entries[name], expand) for name in names if name in entries]
    )


@router.route("GET", "/{prefix}{repo}/resolve/{revision}/{path}")
def resolve(call: Call) -> Answer:
    repositories = call.hub.repositories
    commit = repositories.commit_at(call.repository(), call.parts["revision"])
    headers = {"X-Repo-Commit": commit.oid}
    file = commit.files.get(checked_path(call.parts["path"]))
    if file is None:
        raise RefusedError(404, f"Entry not found: {call.parts['path']}", "EntryNotFound", headers)
    headers |= {
        "ETag": f'"{file.etag}"',
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
    }
    if file.sha256:
        headers |= {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(file.size)}
    asked = _asked_range(call.headers.get("Range"), file.size)
    if asked is None:
        return Answer(200, headers, key=file.key, length=file.size)
    start, stop = asked
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    return Answer(206, headers, key=file.key, start=start, length=stop - start)


def _asked_range(text: str | None, size: int) -> tuple[int, int] | None:
    """The first byte that is asked for, and the one after the last; nothing where it is not one range."""
    found = re.fullmatch(r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*", text or "", re.IGNORECASE)
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, stop = max(size - int(found[2]), 0), size
    else:
        start, stop = int(found[1]), min(int(found[2]) + 1, size) if found[2] else size
    if start >= stop:
        raise RefusedError(
            416, f"The file has {size} bytes, not {text}", headers={"Content-Range": f"bytes */{size}"}
        )
    return start, stop


# Branches, tags and history.


@router.route("GET", "/api/{kind}/{repo}/refs")
def list_references(call: Call) -> Answer:
    repository = call.repository()
    listed: dict[str, list[Json]] = {"converts": [], "pullRequests": []}
    for name, folder, targets in (
        ("branches", "heads", repository.branches),
        ("tags", "tags", repository.tags),
    ):
        listed[name] = [
            {"name": each, "ref": f"refs/{folder}/{each}", "targetCommit": oid}
            for each, oid in targets.items()
        ]
    return json_answer(listed)


@router.route("GET", "/api/{kind}/{repo}/commits/{revision}")
def list_commits(call: Call) -> Answer:
    repositories = call.hub.repositories
    commits = repositories.history(repositories.commit_at(call.repository(), call.parts["revision"]))
    return json_answer(
        [
            {
                "id": commit.oid,
                "title": commit.title,
                "message": commit.message,
                "date": commit.date,
                "authors": [{"user": commit.author}],
            }
            for commit in commits
        ]
    )


@router.route("POST", "/api/{kind}/{repo}/branch/{name}")
def create_branch(call: Call) -> Answer:
    repository = call.repository(write=True)
    start = call.json().get("startingPoint") or "main"
    call.hub.repositories.set_branch(repository, call.parts["name"], str(start))
    return json_answer({})


@router.route("DELETE", "/api/{kind}/{repo}/branch/{name}")
def delete_branch(call: Call) -> Answer:
    call.hub.repositories.delete_branch(call.repository(write=True), call.parts["name"])
    return json_answer({})


@router.route("POST", "/api/{kind}/{repo}/tag/{revision}")
def create_tag(call: Call) -> Answer:
    repository = call.repository(write=True)
    call.hub.repositories.set_tag(repository, str(call.json().get("tag", "")), call.parts["revision"])
    return json_answer({})


@router.route("DELETE", "/api/{kind}/{repo}/tag/{name}")
def delete_tag(call: Call) -> Answer:
    call.hub.repositories.delete_tag(call.repository(write=True), call.parts["name"])
    return json_answer({})


# Sending files.


@router.route("POST", "/api/{kind}/{repo}/preupload/{revision}")
def tell_upload_modes(call: Call) -> Answer:
    repositories = call.hub.repositories
    commit = repositories.commit_at(call.repository(write=True), call.parts["revision"])
    told = []
    for asked in _objects(call.json().get("files")):
        path = checked_path(asked.get("path"))
        large = repositories.is_large(commit, path, _size(asked))
        there = commit.files.get(path)
        # An id of the other kind would not be one that the client could compare with.
        oid = there.etag if there and bool(there.sha256) == large else None
        mode = "lfs" if large else "regular"
        told.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
    return json_answer({"files": told})


def _objects(value: object) -> list[Json]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise RefusedError(400, "A list of objects was expected")
    return value


def _size(asked: Json) -> int:
    size = asked.get("size")
    if not isinstance(size, int) or size < 0:
        raise RefusedError(400, f"A size is a number of bytes, found {size!r}")
    return size


def _sha256(asked: Json) -> str:
    oid = asked.get("oid")
    if not isinstance(oid, str) or not re.fullmatch("[0-9a-f]{64}", oid):
        raise RefusedError(
            400, f"The id of a large file is its SHA-256 in 64 hexadecimal digits, found {oid!r}"
        )
    return oid


def _signature(call: Call, repository: Repository, oid: str, size: int) -> str:
    # The client sends a large file without its token, so the address itself has to allow it.
    text = f"{repository.kind}/{repository.name}/{oid}/{size}"
    return hmac.new(call.hub.secret, text.encode(), hashlib.sha256).hexdigest()


@router.route("POST", "/{prefix}{repo}.git/info/lfs/objects/batch")
def start_large_files(call: Call) -> Answer:
    repository, asked = call.repository(write=True), call.json()
    if asked.get("operation") != "upload" or asked.get("hash_algo", "sha256") != "sha256":
        raise RefusedError(400, "Large files are uploaded here, by their SHA-256")
    told = []
    for each in _objects(asked.get("objects")):
        oid, size = _sha256(each), _size(each)
        entry: dict[str, Any] = {"oid": oid, "size": size}
        if oid not in repository.lfs:
            signature = _signature(call, repository, oid, size)
            address = (
                f"/lfs-storage/{repository.kind}/{repository.name}/{oid}?size={size}&signature={signature}"
            )
            web = _web_address(call, repository)
            entry["actions"] = {
                "upload": {"href": call.hub.endpoint + address, "header": {}},
                "verify": {"href": f"{web}.git/info/lfs/objects/verify", "header": {}},
            }
        told.append(entry)
    return json_answer({"transfer": "basic", "objects": told})


@router.route("PUT", "/lfs-storage/{kind}/{repo}/{oid}")
def take_large_file(call: Call) -> Answer:
    repository = call.hub.repositories.find(call.parts["kind"], call.parts["repo"])
    size, signature = (call.query.get(name, [""])[0] for name in ("size", "signature"))
    expected = size.isdigit() and repository and _signature(call, repository, call.parts["oid"], int(size))
    if not repository or not expected or not hmac.compare_digest(signature.encode(), expected.encode()):
        raise RefusedError(403, "This address was not given out for an upload")
    call.hub.repositories.add_large(repository, _sha256(call.parts), int(size), call.body.chunks())
    return Answer()


@router.route("POST", "/{prefix}{repo}.git/info/lfs/objects/verify")
def verify_large_file(call: Call) -> Answer:
    repository, asked = call.repository(write=True), call.json()
    oid = _sha256(asked)
    if oid not in repository.lfs or call.hub.repositories.storage.size(f"lfs/{oid}") != _size(asked):
        raise RefusedError(404, f"No large file {oid} of this size was uploaded")
    return json_answer({})


@router.route("POST", "/api/{kind}/{repo}/commit/{branch}")
def commit_files(call: Call) -> Answer:
    repository = call.repository(write=True)
    if call.asks("create_pr"):
        raise RefusedError(400, "Pull requests are not served here")
    header, operations = _commit_lines(call.body.read())
    commit = call.hub.repositories.make_commit(
        repository, call.parts["branch"], call.author, header, operations
    )
    address = f"{_web_address(call, repository)}/commit/{commit.oid}"
    return json_answer({"success": True, "commitOid": commit.oid, "commitUrl": address})


def _commit_lines(body: bytes) -> tuple[Json, list[tuple[str, Json]]]:
    """The header and the operations of a commit, from one JSON object a line."""
    lines: list[tuple[str, Json]] = []
    for number, line in enumerate(body.splitlines(), 1):
        try:
            value = json.loads(line)
            lines.append((str(value["key"]), dict(value["value"])))
        except (KeyError, TypeError, ValueError):
            raise RefusedError(400, f"Line {number} of the commit is no object with key and value") from None
    if not lines or lines[0][0] != "header":
        raise RefusedError(400, "The first line of a commit is its header")
    return lines[0][1], lines[1:]
