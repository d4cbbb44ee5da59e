"""What a push would change in a repository of the Hub, and whether it may."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import validate_repo_id

from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.errors import EventformersError, shown
from eventformers.publishing.errors import hub_faults
from eventformers.publishing.folders import WEIGHTS, LocalRepository
from eventformers.trainers.base import PUSH_SIGNATURE

MAIN = "main"
STAGING = "eventformers-staging"
"""The branch that a push commits to first, and that is gone when the files load back from there."""

_FIRST_COMMIT = "initial commit"
# As the Hub decides for a new repository.
_LARGE_FILE = 10_000_000
_LARGE_SUFFIXES = (".safetensors", ".parquet", ".onnx", ".onnx_data", ".model", ".png")
_SHOWN_NAMES = 5

State = Literal["new", "changed", "there"]


@dataclass(frozen=True)
class PlannedFile:
    """A file of a push.

    Attributes:
        path: in the repository.
        file: on this machine.
        size: in bytes.
        large: whether it is kept as a large file (LFS); for a new one as the Hub's own rules say.
        state: whether it is new, changed, or there already.
    """

    path: str
    file: Path
    size: int
    large: bool
    state: State


@dataclass(frozen=True)
class PushPlan:
    """What a push would do to one repository.

    Attributes:
        local: the folder.
        repo_id: `owner/name`.
        branch: the branch to change.
        files: every file of the folder that belongs into the repository.
        deleted: files of an earlier push that would be read beside the new ones, and go.
        kept: other files of the repository, which stay.
        head: the commit that the branch is at; None where there is no repository.
        is_new_branch: whether the branch is made, off `main`.
        private: whether the repository is private, or will be.
    """

    local: LocalRepository
    repo_id: str
    branch: str
    files: tuple[PlannedFile, ...]
    deleted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    head: str | None = None
    is_new_branch: bool = False
    private: bool = False

    @property
    def to_send(self) -> tuple[PlannedFile, ...]:
        """The files that are not there already."""
        return tuple(each for each in self.files if each.state != "there")

    @property
    def bytes_to_send(self) -> int:
        """Their bytes."""
        return sum(each.size for each in self.to_send)

    @property
    def is_done(self) -> bool:
        """Whether the branch holds all of it already."""
        return not self.to_send and not self.deleted and self.head is not None and not self.is_new_branch

    @property
    def address(self) -> str:
        """The repository as a page's address has it, such as `datasets/owner/name`."""
        prefix = "" if self.local.kind == "model" else f"{self.local.repo_type}s/"
        return f"{prefix}{self.repo_id}"


def check_repo_id(repo_id: str, local: LocalRepository) -> None:
    """Refuse an id that the Hub would not take, or under which the repository would not load.

    Raises:
        EventformersError: it is no `owner/name`, or a metric would have another name than its file.
    """
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise EventformersError(f"--repo-id: {error}") from error
    if repo_id.count("/") != 1:
        raise EventformersError(
            f"--repo-id: received {shown(repo_id)}; accepted: ORG/NAME, your own name or an organization's "
            "first"
        )
    owner, _, name = repo_id.partition("/")
    if local.kind == "metric" and name != local.name:
        raise EventformersError(
            f"--repo-id: received {shown(repo_id)}; accepted for this metric: {owner}/{local.name}, since "
            "evaluate.load looks for a file of the repository's name"
        )


def check_revision(name: str, option: str) -> None:
    """Refuse what the Hub does not take as the name of a branch or a tag.

    Raises:
        EventformersError: the name is not accepted.
    """
    allowed = all(letter.isascii() and (letter.isalnum() or letter in "._-/+") for letter in name)
    if not name or not allowed or name.startswith(("-", "/", "refs/")) or ".." in name or name.endswith("/"):
        raise EventformersError(
            f"{option}: received {shown(name)}; accepted: letters, digits and the signs . _ - + / within"
        )
    if name == STAGING:
        raise EventformersError(f"{option}: {STAGING} is the branch that every push uses in between")


def plan_push(
    api: HfApi,
    local: LocalRepository,
    repo_id: str,
    *,
    branch: str = MAIN,
    private: bool = False,
    overwrite: bool = False,
) -> PushPlan:
    """Compare a folder with what the Hub holds. Nothing is sent.

    Args:
        api: the client.
        local: the folder.
        repo_id: `owner/name`.
        branch: the branch to change.
        private: whether a new repository is private.
        overwrite: whether files that others wrote may be replaced.

    Raises:
        EventformersError: the Hub cannot be asked, or the repository holds what the push must not touch.
    """
    kind = {"repo_type": local.repo_type}
    with hub_faults(repo_id):
        try:
            there: Any = api.repo_info(repo_id, **kind, files_metadata=True)
        except RepositoryNotFoundError:
            return _plan(local, repo_id, branch, private=private)
        if private and not there.private:
            raise EventformersError(
                f"{repo_id} is public already; make it private in its settings, or push without --private"
            )
        is_new_branch = False
        if branch != MAIN:
            try:
                there = api.repo_info(repo_id, **kind, revision=branch, files_metadata=True)
            except RevisionNotFoundError:
                is_new_branch = True
        plan = _plan(
            local, repo_id, branch, there.siblings, private=bool(there.private), is_new_branch=is_new_branch
        )
        plan = replace(plan, head=there.sha)
        if not overwrite:
            _check_content(api, plan)
    return plan


def _plan(
    local: LocalRepository,
    repo_id: str,
    branch: str,
    there: Iterable[Any] = (),
    *,
    private: bool,
    is_new_branch: bool = False,
) -> PushPlan:
    siblings = {sibling.rfilename: sibling for sibling in there}
    files = tuple(_compared(path, file, siblings.get(path)) for path, file in local.files.items())
    others = sorted(siblings.keys() - local.files.keys() - {".gitattributes"})
    deleted = tuple(path for path in others if _would_be_read(path, local))
    return PushPlan(
        local=local,
        repo_id=repo_id,
        branch=branch,
        files=files,
        deleted=deleted,
        kept=tuple(path for path in others if path not in deleted),
        is_new_branch=is_new_branch,
        private=private,
    )


def _compared(path: str, file: Path, there: Any | None) -> PlannedFile:
    size = file.stat().st_size
    if there is None:
        large = size >= _LARGE_FILE or file.suffix in _LARGE_SUFFIXES
        return PlannedFile(path, file, size, large, "new")
    large = there.lfs is not None
    equal = size == there.size and _digest(file, large) == (there.lfs.sha256 if large else there.blob_id)
    return PlannedFile(path, file, size, large, "there" if equal else "changed")


def _digest(file: Path, large: bool) -> str:
    """The id by which the Hub knows a file: SHA-256 of a large one, otherwise git's."""
    with file.open("rb") as stream:
        if large:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        content = stream.read()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _would_be_read(path: str, local: LocalRepository) -> bool:
    """Whether a loader would take a file that the folder does not have for a part of what it has."""
    if local.kind == "model":
        return "/" not in path and any(fnmatch(path, pattern) for pattern in WEIGHTS)
    folder, _, name = path.partition("/")
    return local.kind == "dataset" and folder in local.configs and name.endswith(".parquet")


# What must not be touched.


def _check_content(api: HfApi, plan: PushPlan) -> None:
    """Refuse to replace what is no earlier state of the same thing.

    Raises:
        EventformersError: the repository holds another model, more configs, or files that others wrote.
    """
    changed = [each.path for each in plan.files if each.state == "changed"] + list(plan.deleted)
    if plan.local.kind == "model" and "config.json" in changed:
        held = _held(api, plan, "config.json").get("model_type")
        if held != plan.local.model_type:
            raise EventformersError(
                f"{plan.repo_id} holds another model (model_type {shown(held)}, and not "
                f"{shown(plan.local.model_type)}); choose another name, or pass --overwrite"
            )
    if plan.local.kind == "dataset" and "README.md" in changed:
        missing = sorted(set(_held_configs(api, plan)) - set(plan.local.configs))
        if missing:
            raise EventformersError(
                f"{plan.repo_id} has config {', '.join(missing)}, which {plan.local.folder} has not; nobody "
                "could load it any more. Build it into the folder too, or pass --overwrite"
            )
    if changed and (foreign := _written_by_others(api, plan, changed)):
        told = ", ".join(foreign[:_SHOWN_NAMES]) + (", …" if len(foreign) > _SHOWN_NAMES else "")
        raise EventformersError(
            f"{plan.repo_id}: eventformers did not write {told} there, and the push would replace "
            f"{'it' if len(foreign) == 1 else 'them'}; choose another name, or pass --overwrite"
        )


def _written_by_others(api: HfApi, plan: PushPlan, paths: list[str]) -> list[str]:
    """Those of some files of a repository whose last commit is none of ours.

    Every push, a trainer's too, signs the description of its commit.
    """
    where: dict[str, Any] = {"repo_type": plan.local.repo_type, "revision": plan.head}
    ours = {
        commit.commit_id
        for commit in api.list_repo_commits(plan.repo_id, **where)
        if PUSH_SIGNATURE in commit.message or commit.title.lower() == _FIRST_COMMIT
    }
    last = {
        entry.path: entry.last_commit
        for entry in api.get_paths_info(plan.repo_id, paths, expand=True, **where)
    }
    return [path for path in paths if (commit := last.get(path)) is not None and commit.oid not in ours]


def _held(api: HfApi, plan: PushPlan, name: str) -> dict[str, Any]:
    """A JSON object in the repository; empty where it is none."""
    try:
        content = json.loads(_download(api, plan, name).read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _held_configs(api: HfApi, plan: PushPlan) -> Iterable[str]:
    return built_configs(_download(api, plan, "README.md").parent)


def _download(api: HfApi, plan: PushPlan, name: str) -> Path:
    return Path(
        hf_hub_download(
            plan.repo_id,
            name,
            repo_type=plan.local.repo_type,
            revision=plan.head,
            endpoint=api.endpoint,
            token=api.token,
        )
    )
