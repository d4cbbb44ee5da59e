"""Repositories of the loopback Hub, in memory: commits with git's ids, branches, tags and large files."""

from __future__ import annotations

import hashlib
import re
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from typing import Any

KINDS = ("models", "datasets", "spaces")
LARGE_FILE = 10_000_000
LARGE_SUFFIXES = (
    "arrow", "bin", "bz2", "ckpt", "gguf", "gz", "h5", "joblib", "model", "npy", "npz", "onnx", "parquet",
    "pickle", "pkl", "pt", "pth", "safetensors", "tar", "tgz", "zip", "zst",
)  # fmt: skip
ATTRIBUTES = "".join(f"*.{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LARGE_SUFFIXES)


class RefusedError(Exception):
    """A request that the Hub refuses, with the status, code, headers and body that the client reads."""

    def __init__(self, status: int, message: str, code: str | None = None, **more: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers, self.body = dict(more.get("headers", {})), dict(more.get("body", {}))


def git_id(kind: str, body: bytes) -> str:
    """The id that git gives an object."""
    return hashlib.sha1(f"{kind} {len(body)}\0".encode() + body, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class File:
    """A file of a commit. A large one has a `sha256`, and git stores a pointer to it."""

    content: bytes
    sha256: str | None = None

    @property
    def pointer(self) -> bytes:
        lines = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n"
        return lines.encode()

    @property
    def oid(self) -> str:
        return git_id("blob", self.pointer if self.sha256 else self.content)

    @property
    def etag(self) -> str:
        return self.sha256 or self.oid

    @property
    def size(self) -> int:
        return len(self.content)


@dataclass(frozen=True)
class Commit:
    """A commit, with all files of the repository at that time by their paths."""

    oid: str
    parent: Commit | None
    title: str
    message: str
    author: str
    date: str
    files: Mapping[str, File]

    def history(self) -> Iterator[Commit]:
        """This commit and those before it, the newest first."""
        commit: Commit | None = self
        while commit is not None:
            yield commit
            commit = commit.parent

    def last_change(self, path: str) -> Commit:
        """The commit that last changed a file."""
        last = self
        for earlier in self.history():
            if earlier.files.get(path) != self.files[path]:
                break
            last = earlier
        return last


def folders_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@dataclass
class Repository:
    """A repository. `lfs` holds the large files that were sent to it, by their SHA-256."""

    kind: str
    name: str
    private: bool
    sdk: str | None = None
    created: str = field(default_factory=now)
    branches: dict[str, Commit] = field(default_factory=dict)
    tags: dict[str, Commit] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    lfs: dict[str, bytes] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def owner(self) -> str:
        return self.name.partition("/")[0]

    def at(self, revision: str) -> Commit:
        """The commit that a branch, a tag or an id of at least seven digits names."""
        found = self.branches.get(revision.removeprefix("refs/heads/"))
        found = found or self.tags.get(revision.removeprefix("refs/tags/"))
        if found is None and re.fullmatch(r"[0-9a-f]{7,40}", revision):
            found = next((commit for oid, commit in self.commits.items() if oid.startswith(revision)), None)
        if found is None:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found

    def record(
        self, branch: str, author: str, files: Mapping[str, File], title: str, message: str = ""
    ) -> Commit:
        """Put a commit with these files on a branch."""
        parent, date = self.branches.get(branch), now()
        tree = "".join(f"{path} {file.oid}\n" for path, file in sorted(files.items()))
        lines = [f"tree {git_id('tree', tree.encode())}", *([f"parent {parent.oid}"] if parent else [])]
        lines += [f"author {author} {date}", "", title, "", message]
        oid = git_id("commit", "\n".join(lines).encode())
        commit = Commit(oid, parent, title, message, author, date, dict(sorted(files.items())))
        self.commits[oid] = self.branches[branch] = commit
        return commit

    def is_large(self, commit: Commit, path: str, size: int) -> bool:
        """Whether a file goes to LFS: by its size, or by the attributes of the repository."""
        attributes = commit.files.get(".gitattributes", File(b"")).content.decode(errors="replace")
        patterns = [line.split()[0] for line in attributes.splitlines() if "filter=lfs" in line.split()[1:]]
        name = path.rpartition("/")[2]
        return size >= LARGE_FILE or any(fnmatch(path if "/" in each else name, each) for each in patterns)

    def add_large(self, sha256: str, size: int, content: bytes) -> None:
        """Keep a large file, unless it is not what was announced."""
        digest = hashlib.sha256(content).hexdigest()
        if (len(content), digest) != (size, sha256):
            came = f"{len(content)} with {digest} came"
            raise RefusedError(400, f"{size} bytes with SHA-256 {sha256} were announced, {came}")
        self.lfs[sha256] = content

    def commit(
        self,
        branch: str,
        author: str,
        header: Mapping[str, Any],
        operations: Sequence[tuple[str, Mapping[str, Any]]],
    ) -> Commit:
        """Add, replace and delete files of a branch in one commit, or refuse all of it.

        Args:
            branch: name of an existing branch.
            author: who commits.
            header: `summary`, and maybe `description` and `parentCommit`, where the branch must be.
            operations: key and value of each line of the request after the header.
        """
        with self.lock:
            branch = branch.removeprefix("refs/heads/")
            if branch not in self.branches:
                raise RefusedError(404, f"Invalid rev id: {branch} is no branch", "RevisionNotFound")
            head = self.branches[branch]
            if not head.oid.startswith(str(header.get("parentCommit") or "")):
                raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
            files = dict(head.files)
            for key, value in operations:
                self._apply(files, key, value)
            for path in files:
                if any(folder in files for folder in folders_above(path)):
                    raise RefusedError(400, f"{path!r} lies below a file")
            title, message = str(header.get("summary") or "commit"), str(header.get("description") or "")
            return self.record(branch, author, files, title, message)

    def _apply(self, files: dict[str, File], key: str, value: Mapping[str, Any]) -> None:
        path = checked_path(str(value.get("path")))
        if key == "file":
            files[path] = File(b64decode(value["content"], validate=True))
        elif key == "lfsFile":
            sha256 = str(value.get("oid"))
            if sha256 not in self.lfs:
                raise RefusedError(400, f"The large file {path!r} was not uploaded before the commit")
            files[path] = File(self.lfs[sha256], sha256)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                raise RefusedError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
        else:
            raise RefusedError(400, f"Operations are file, lfsFile and deletedFile, found {key!r}")

    def set_reference(self, references: dict[str, Commit], name: str, revision: str) -> None:
        """Make a branch or a tag."""
        with self.lock:
            if not re.fullmatch(r"[\w.+][\w.+-]*(?:/[\w.+-]+)*", name, re.A) or ".." in name:
                raise RefusedError(400, f"{name!r} is no name for a branch or a tag")
            if name in references:
                raise RefusedError(409, f"Reference already exists: {name}")
            references[name] = self.at(revision)


def checked_path(path: object) -> str:
    """A path inside a repository, refused if it leads anywhere else."""
    usable = isinstance(path, str) and path.isprintable() and "\\" not in path
    if not usable or any(part in ("", ".", "..", ".git") for part in str(path).lower().split("/")):
        raise RefusedError(400, f"{path!r} is no path inside a repository")
    return str(path)


class Repositories:
    """All repositories, by kind and name."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, str], Repository] = {}
        self._lock = threading.RLock()

    def find(self, kind: str, name: str) -> Repository | None:
        return self._all.get((kind, name))

    def all(self, kind: str) -> list[Repository]:
        return [repository for (each, _), repository in sorted(self._all.items()) if each == kind]

    def create(self, kind: str, name: str, author: str, *, private: bool, sdk: str | None) -> Repository:
        """A new repository with a first commit, as the Hub makes it."""
        for part in name.split("/"):
            if not re.fullmatch(r"\w(?:[\w.-]{0,94}\w)?", part, re.A) or ".." in part or "--" in part:
                raise RefusedError(
                    400, f"{part!r} is no part of a name: letters, digits, '-', '_' and '.' are"
                )
        with self._lock:
            if (kind, name) in self._all:
                raise RefusedError(409, f"You already created this {kind[:-1]} repo: {name}")
            repository = Repository(kind, name, private, sdk)
            repository.record("main", author, {".gitattributes": File(ATTRIBUTES.encode())}, "initial commit")
            self._all[kind, name] = repository
            return repository
