"""Repositories of the loopback Hub: blobs by their hash, commits that never change, branches and tags.

All of it is kept under keys in a `Storage`, in memory or in a folder:

    repositories/<kind>/<owner>/<name>.json    what changes: branches, tags, whether it is private
    commits/<sha1>.json                        one commit with the list of its files
    blobs/<sha1>                               a file as git would store it
    lfs/<sha256>                               a large file

A path inside a repository is never part of a key, so none of them reaches the disk.
"""

from __future__ import annotations

import binascii
import dataclasses
import hashlib
import json
import re
import threading
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from typing import Any

from storage import RefusedError, Storage

KINDS = ("models", "datasets", "spaces")
LARGE_FILE = 10_000_000
LARGE_SUFFIXES = (
    "arrow", "bin", "bz2", "ckpt", "gguf", "gz", "h5", "joblib", "model", "npy", "npz", "onnx", "parquet",
    "pickle", "pkl", "pt", "pth", "safetensors", "tar", "tgz", "zip", "zst",
)  # fmt: skip
ATTRIBUTES = "".join(f"*.{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LARGE_SUFFIXES)


def git_id(kind: str, body: bytes) -> str:
    """The id that git gives an object."""
    return hashlib.sha1(f"{kind} {len(body)}\0".encode() + body, usedforsecurity=False).hexdigest()


def lfs_pointer(sha256: str, size: int) -> bytes:
    """What git stores in the place of a large file."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


@dataclasses.dataclass(frozen=True)
class File:
    """A file of a commit. `oid` is git's id of it, or of its pointer where it is large and has a `sha256`."""

    oid: str
    size: int
    sha256: str | None = None

    @property
    def key(self) -> str:
        return f"lfs/{self.sha256}" if self.sha256 else f"blobs/{self.oid}"

    @property
    def etag(self) -> str:
        return self.sha256 or self.oid

    @property
    def pointer_size(self) -> int:
        return len(lfs_pointer(self.sha256 or "", self.size))


@dataclasses.dataclass(frozen=True)
class Commit:
    """A commit, with all files of the repository at that time by their paths."""

    oid: str
    parent: str | None
    title: str
    message: str
    author: str
    date: str
    files: Mapping[str, File]

    def below(self, folder: str) -> dict[str, File]:
        """The files in a folder and in its folders, by their whole paths."""
        start = f"{folder}/" if folder else ""
        return {path: file for path, file in self.files.items() if path.startswith(start)}


@dataclasses.dataclass
class Repository:
    """What changes of a repository. `lfs` are the large files that were sent to it."""

    kind: str
    name: str
    private: bool
    created: str
    sdk: str | None = None
    branches: dict[str, str] = dataclasses.field(default_factory=dict)
    tags: dict[str, str] = dataclasses.field(default_factory=dict)
    commits: list[str] = dataclasses.field(default_factory=list)
    lfs: list[str] = dataclasses.field(default_factory=list)

    @property
    def owner(self) -> str:
        return self.name.partition("/")[0]

    @property
    def key(self) -> str:
        return f"repositories/{self.kind}/{self.name}.json"


def folder_ids(files: Mapping[str, File]) -> dict[str, str]:
    """Git's id of each folder by its path; the whole tree is the folder of the empty path."""
    entries: dict[str, list[tuple[str, bytes, str]]] = {"": []}
    for path, file in files.items():
        for folder in _folders_above(path):
            entries.setdefault(folder, [])
        parent, _, name = path.rpartition("/")
        entries[parent].append((name, b"100644", file.oid))
    ids = {}
    for folder in sorted(entries, key=lambda path: len(path.split("/")) if path else 0, reverse=True):
        # Git sorts a folder as if its name ended in a slash.
        rows = sorted(
            entries[folder], key=lambda row: row[0].encode() + (b"/" if row[1] == b"40000" else b"")
        )
        body = b"".join(mode + b" " + name.encode() + b"\0" + bytes.fromhex(oid) for name, mode, oid in rows)
        ids[folder] = git_id("tree", body)
        if folder:
            parent, _, name = folder.rpartition("/")
            entries[parent].append((name, b"40000", ids[folder]))
    return ids


def _folders_above(path: str) -> Iterator[str]:
    parts = path.split("/")
    for length in range(1, len(parts)):
        yield "/".join(parts[:length])


def checked_path(path: object) -> str:
    """A path inside a repository, refused if it leads anywhere else."""
    if not isinstance(path, str) or not path or len(path) > 1000:
        raise RefusedError(400, f"A path inside the repository was expected, found {path!r}")
    unusable = any(part in ("", ".", "..") or part.lower() == ".git" for part in path.split("/"))
    if unusable or "\\" in path or not path.isprintable():
        raise RefusedError(
            400, f"{path!r} is no path inside a repository: parts may not be empty, '.', '..' or '.git'"
        )
    return path


def checked_name(owner: object, name: object) -> str:
    """`owner/name` of a repository, refused if one of them may not be used."""
    for part in (owner, name):
        usable = isinstance(part, str) and re.fullmatch(r"\w(?:[\w.-]{0,94}\w)?", part, re.A)
        if not usable or ".." in str(part) or "--" in str(part) or str(part).endswith(".git"):
            raise RefusedError(400, f"{part!r} is no part of a name: letters, digits, '-', '_' and '.' are")
    if owner in (*KINDS, "api", "lfs-storage"):
        raise RefusedError(400, f"{owner!r} is a name that this Hub keeps for itself")
    return f"{owner}/{name}"


def _checked_reference(name: object) -> str:
    usable = isinstance(name, str) and re.fullmatch(r"[\w.+-]+(?:/[\w.+-]+)*", name, re.A)
    if not usable or ".." in str(name) or str(name).startswith(("-", "refs/")):
        raise RefusedError(400, f"{name!r} is no name for a branch or a tag")
    return str(name)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Repositories:
    """All repositories of a storage. Changes are made one after the other."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._lock = threading.RLock()

    def read(self, key: str) -> bytes:
        with self.storage.open(key) as file:
            return file.read()

    def find(self, kind: str, name: str) -> Repository | None:
        """A repository, or none where there is none of this name."""
        try:
            return Repository(**json.loads(self.read(Repository(kind, name, False, "").key)))
        except KeyError:
            return None

    def all(self, kind: str) -> list[Repository]:
        prefix = f"repositories/{kind}/"
        names = [key.removeprefix(prefix).removesuffix(".json") for key in self.storage.keys(prefix)]
        return [found for name in names if (found := self.find(kind, name)) is not None]

    def create(
        self, kind: str, name: str, author: str, *, private: bool, sdk: str | None = None
    ) -> Repository:
        """A new repository with a first commit, as the Hub makes it."""
        with self._lock:
            if self.find(kind, name) is not None:
                raise RefusedError(409, f"You already created this {kind[:-1]} repo: {name}")
            repository = Repository(kind, name, private, now(), sdk)
            files = {".gitattributes": self._added(ATTRIBUTES.encode())}
            commit = self._recorded(None, "initial commit", "", author, files)
            repository.commits.append(commit.oid)
            repository.branches["main"] = commit.oid
            self._save(repository)
            return repository

    def delete(self, repository: Repository) -> None:
        with self._lock:
            self.storage.delete(repository.key)

    def set_private(self, repository: Repository, private: bool) -> None:
        with self._lock:
            repository = self._current(repository)
            repository.private = private
            self._save(repository)

    def commit_at(self, repository: Repository, revision: str) -> Commit:
        """The commit that a branch, a tag or an id of at least seven digits names."""
        found = repository.branches.get(revision.removeprefix("refs/heads/"))
        found = found or repository.tags.get(revision.removeprefix("refs/tags/"))
        if found is None and re.fullmatch(r"[0-9a-f]{7,40}", revision):
            found = next((oid for oid in repository.commits if oid.startswith(revision)), None)
        if found is None:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commit(found)

    def commit(self, oid: str) -> Commit:
        values = json.loads(self.read(f"commits/{oid}.json"))
        files = {path: File(*file) for path, file in values.pop("files").items()}
        return Commit(**values, files=files)

    def history(self, commit: Commit) -> Iterator[Commit]:
        """A commit and those before it, the newest first."""
        yield commit
        while commit.parent is not None:
            commit = self.commit(commit.parent)
            yield commit

    def last_change(self, commit: Commit, path: str) -> Commit:
        """The commit that last changed a file or a folder."""
        commits = self.history(commit)
        last = next(commits)
        for earlier in commits:
            same_file = earlier.files.get(path) == last.files.get(path)
            if not same_file or earlier.below(path) != last.below(path):
                return last
            last = earlier
        return last

    def is_large(self, commit: Commit, path: str, size: int) -> bool:
        """Whether a file goes to LFS: by its size, or by the attributes of the repository."""
        attributes = commit.files.get(".gitattributes")
        lines = self.read(attributes.key).decode(errors="replace").splitlines() if attributes else []
        patterns = [line.split()[0] for line in lines if "filter=lfs" in line.split()[1:]]
        name = path.rpartition("/")[2]
        return size >= LARGE_FILE or any(fnmatch(path if "/" in each else name, each) for each in patterns)

    def add_large(self, repository: Repository, sha256: str, size: int, chunks: Iterable[bytes]) -> None:
        """Take in a large file; nothing stays of one that is not what was announced."""

        def checked() -> Iterator[bytes]:
            found, digest = 0, hashlib.sha256()
            for chunk in chunks:
                found += len(chunk)
                digest.update(chunk)
                yield chunk
            if (found, digest.hexdigest()) != (size, sha256):
                came = f"{found} with {digest.hexdigest()} came"
                raise RefusedError(400, f"{size} bytes with SHA-256 {sha256} were announced, {came}")

        self.storage.write(f"lfs/{sha256}", checked())
        with self._lock:
            repository = self._current(repository)
            if sha256 not in repository.lfs:
                repository.lfs.append(sha256)
                self._save(repository)

    def make_commit(
        self,
        repository: Repository,
        branch: str,
        author: str,
        header: Mapping[str, Any],
        operations: Sequence[tuple[str, Mapping[str, Any]]],
    ) -> Commit:
        """Add, replace and delete files of a branch in one commit, or refuse all of it.

        Args:
            repository: the repository.
            branch: name of a branch that is there.
            author: who commits.
            header: `summary`, and maybe `description` and `parentCommit`, where the branch must be.
            operations: key and value of each line of the request after the header.

        Returns:
            The new commit.
        """
        with self._lock:
            repository = self._current(repository)
            branch = branch.removeprefix("refs/heads/")
            if branch not in repository.branches:
                raise RefusedError(404, f"Invalid rev id: {branch} is no branch", "RevisionNotFound")
            head = self.commit(repository.branches[branch])
            expected = header.get("parentCommit")
            if expected is not None and not head.oid.startswith(str(expected)):
                raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
            files = dict(head.files)
            for key, value in operations:
                self._apply(repository, files, key, value)
            for folder in {folder for path in files for folder in _folders_above(path)}:
                if folder in files:
                    raise RefusedError(400, f"{folder!r} cannot be both a file and a folder")
            title, message = str(header.get("summary") or "commit"), str(header.get("description") or "")
            commit = self._recorded(head.oid, title, message, author, files)
            repository.commits.append(commit.oid)
            repository.branches[branch] = commit.oid
            self._save(repository)
            return commit

    def _apply(
        self, repository: Repository, files: dict[str, File], key: str, value: Mapping[str, Any]
    ) -> None:
        path = checked_path(str(value.get("path")).rstrip("/" if key == "deletedFolder" else ""))
        if key == "file":
            try:
                content = b64decode(value["content"], validate=True)
            except (KeyError, TypeError, ValueError, binascii.Error):
                raise RefusedError(400, f"The content of {path!r} is not in base64") from None
            files[path] = self._added(content)
        elif key == "lfsFile":
            sha256 = str(value.get("oid"))
            if sha256 not in repository.lfs:
                raise RefusedError(
                    400, f"The large file {path!r} was not uploaded before the commit ({sha256})"
                )
            size = self.storage.size(f"lfs/{sha256}")
            pointer = lfs_pointer(sha256, size)
            files[path] = dataclasses.replace(self._added(pointer), size=size, sha256=sha256)
        elif key == "deletedFile":
            if path not in files:
                raise RefusedError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
            del files[path]
        elif key == "deletedFolder":
            below = [each for each in files if each.startswith(f"{path}/")]
            if not below:
                raise RefusedError(404, f"A folder with this name doesn't exist: {path}", "EntryNotFound")
            for each in below:
                del files[each]
        else:
            raise RefusedError(
                400, f"Operations are file, lfsFile, deletedFile and deletedFolder, found {key!r}"
            )

    def set_branch(self, repository: Repository, name: str, revision: str) -> None:
        self._set_reference(repository, "branches", name, revision)

    def set_tag(self, repository: Repository, name: str, revision: str) -> None:
        self._set_reference(repository, "tags", name, revision)

    def delete_branch(self, repository: Repository, name: str) -> None:
        if name == "main":
            raise RefusedError(403, "The branch main cannot be deleted")
        self._delete_reference(repository, "branches", name)

    def delete_tag(self, repository: Repository, name: str) -> None:
        self._delete_reference(repository, "tags", name)

    def _set_reference(self, repository: Repository, references: str, name: str, revision: str) -> None:
        with self._lock:
            repository = self._current(repository)
            target = self.commit_at(repository, revision).oid
            existing = getattr(repository, references)
            if _checked_reference(name) in existing:
                raise RefusedError(409, f"Reference already exists: {name}")
            existing[name] = target
            self._save(repository)

    def _delete_reference(self, repository: Repository, references: str, name: str) -> None:
        with self._lock:
            repository = self._current(repository)
            if getattr(repository, references).pop(name, None) is None:
                raise RefusedError(404, f"Invalid rev id: {name}", "RevisionNotFound")
            self._save(repository)

    def _current(self, repository: Repository) -> Repository:
        current = self.find(repository.kind, repository.name)
        if current is None:
            raise RefusedError(404, "Repository not found", "RepoNotFound")
        return current

    def _added(self, content: bytes) -> File:
        file = File(git_id("blob", content), len(content))
        self.storage.write(file.key, [content])
        return file

    def _recorded(
        self, parent: str | None, title: str, message: str, author: str, files: Mapping[str, File]
    ) -> Commit:
        lines = [f"tree {folder_ids(files)['']}", *([f"parent {parent}"] if parent else [])]
        date = now()
        lines += [f"author {author} {date}", "", title, "", message]
        oid = git_id("commit", "\n".join(lines).encode())
        commit = Commit(oid, parent, title, message, author, date, dict(sorted(files.items())))
        values = {**vars(commit), "files": {path: dataclasses.astuple(f) for path, f in commit.files.items()}}
        self.storage.write(f"commits/{oid}.json", [json.dumps(values).encode()])
        return commit

    def _save(self, repository: Repository) -> None:
        self.storage.write(repository.key, [json.dumps(dataclasses.asdict(repository)).encode()])
