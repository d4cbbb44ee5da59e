"""The plan of a push, and errors of the Hub and of the network, each as one line that says what to do."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.loading import TIMEOUT_VARIABLE, hub_timeout, limit_requests
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import DataFormatError, EventformersError, causes, first_line, shown
from eventformers.files import file_digest
from eventformers.publishing.folders import FILES_OF_A_MODEL, WEIGHTS, LocalRepository
from eventformers.trainers.base import PUSH_SIGNATURE

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN to a token with write permission"
RERUN = "run the command again: files that are already there are not sent again"
_REFUSALS = {
    401: f"the Hub does not accept the token; {LOG_IN}",
    403: f"this token has no write permission there ({{said}}); {LOG_IN}, or choose another name",
    409: f"the Hub refused because of a conflict ({{said}}); when nobody else writes there, {RERUN}",
    412: "another commit was made there at the same time, and nothing was pushed; run the command again",
    413: "the Hub does not accept that amount of data ({said})",
    429: f"the Hub asks for fewer requests; wait, then {RERUN}",
}


@contextmanager
def hub_faults(place: str) -> Iterator[None]:
    """Convert errors of the Hub or the network to one line.

    Args:
        place: the affected item, such as the id of a repository.

    Raises:
        EventformersError: replaces an error of the client.
    """
    limit_requests()
    try:
        yield
    except EventformersError:
        raise
    except HFValidationError as error:
        raise EventformersError(f"{place}: {_told(error)}") from error
    except LocalTokenNotFoundError as error:
        raise EventformersError(f"{place}: not logged in; {LOG_IN}") from error
    except OfflineModeIsEnabled as error:
        raise EventformersError(
            f"{place}: HF_HUB_OFFLINE is set, so the Hub is not reachable; unset it and run the command again"
        ) from error
    except HfHubHTTPError as error:
        status, said = error.response.status_code, _told(error)
        told = f"the Hub failed with status {status} ({said}); {RERUN}"
        if status < 500:
            told = _REFUSALS.get(status, f"the Hub refused with status {status}: {{said}}").format(said=said)
        if isinstance(error, RevisionNotFoundError):
            told = f"the branch or commit does not exist ({said})"
        elif isinstance(error, RepositoryNotFoundError):
            told = f"the repository does not exist, or this token has no access to it; {LOG_IN}"
        raise EventformersError(f"{place}: {told}") from error
    except Exception as error:
        # The library that sends large files has no error classes of its own.
        if not is_of_network(error) and not isinstance(error, RuntimeError):
            raise
        if any(
            isinstance(cause, TimeoutError) or type(cause).__name__.endswith("Timeout")
            for cause in causes(error)
        ):
            raise EventformersError(
                f"{place}: the Hub did not answer within {hub_timeout():g} s ({type(error).__name__}); "
                f"{RERUN}, or set {TIMEOUT_VARIABLE} to more seconds"
            ) from error
        raise EventformersError(
            f"{place}: the connection to the Hub was lost ({type(error).__name__}: {_told(error)}); {RERUN}"
        ) from error


def _told(error: BaseException) -> str:
    """The Hub's message, or the first line of the error's."""
    told = getattr(error, "server_message", None)
    return str(told).splitlines()[0].rstrip(".: ") if told else first_line(error).rstrip(".: ")


def is_of_network(error: BaseException) -> bool:
    """True if an error, or one of its causes, comes from the connection.

    The errors are recognised by their module, because the Hub's client has changed its HTTP library before.
    """
    for cause in causes(error):
        module = type(cause).__module__.split(".")[0]
        if module.startswith("httpx") or module == "httpcore":
            return True
        if isinstance(cause, (ConnectionError, TimeoutError)):
            return True
    return False


MAIN = "main"
STAGING = "eventformers-staging"
"""The temporary branch to which a push commits first; it is deleted when the files load back from it."""

_FIRST_COMMIT = "initial commit"
# The Hub's rules for a new repository.
_LARGE_FILE = 10_000_000
_LARGE_SUFFIXES = (".safetensors", ".parquet", ".onnx", ".onnx_data", ".model", ".png", ".bz2")
_SHOWN_NAMES = 5

State = Literal["new", "changed", "there"]


@dataclass(frozen=True)
class PlannedFile:
    """A file of a push.

    Attributes:
        large: True if the Hub stores it as a large file (LFS); for a new file by the Hub's default rules.
        state: new, changed, or already there.
    """

    path: str
    file: Path
    size: int
    large: bool
    state: State


@dataclass(frozen=True)
class PushPlan:
    """The changes of a push to one repository.

    Attributes:
        repo_id: `owner/name`.
        files: all files of the folder that belong in the repository.
        deleted: files of an earlier push to delete, because they would be loaded together with the new ones.
        kept: other files of the repository, which are kept.
        head: the current commit of the branch; None if there is no repository.
        is_new_branch: True if the branch is created from `main`.
        private: True if the repository is private, or will be.
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
        """The files that are not there yet."""
        return tuple(each for each in self.files if each.state != "there")

    @property
    def bytes_to_send(self) -> int:
        """Their bytes."""
        return sum(each.size for each in self.to_send)

    @property
    def is_done(self) -> bool:
        """True if the branch already has all files."""
        return not self.to_send and not self.deleted and self.head is not None and not self.is_new_branch

    @property
    def address(self) -> str:
        """The repository in the form of a page's address, such as `datasets/owner/name`."""
        prefix = "" if self.local.kind == "model" else f"{self.local.repo_type}s/"
        return f"{prefix}{self.repo_id}"


def check_repo_id(repo_id: str, local: LocalRepository | None = None, option: str = "--repo-id") -> None:
    """Reject an id that the Hub would not accept, or under which the repository would not load.

    Args:
        local: what is to be pushed; None checks the id alone.
        option: name of the id, for errors.
    """
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        reason = str(error).replace(" Use `repo_type` argument if needed.", "")
        raise EventformersError(f"{option}: {reason}") from error
    if repo_id.count("/") != 1:
        raise EventformersError(
            f"{option}: received {shown(repo_id)}; accepted: ORG/NAME, where ORG is your user name or an "
            "organization"
        )
    owner, _, name = repo_id.partition("/")
    if local is not None and local.kind == "metric" and name != local.name:
        raise EventformersError(
            f"{option}: received {shown(repo_id)}; accepted for this metric: {owner}/{local.name}, because "
            "evaluate.load looks for a file with the repository's name"
        )


def check_revision(name: str, option: str) -> None:
    """Reject an invalid name of a branch or a tag."""
    allowed = all(letter.isascii() and (letter.isalnum() or letter in "._-/+") for letter in name)
    if not name or not allowed or name.startswith(("-", "/", "refs/")) or ".." in name or name.endswith("/"):
        raise EventformersError(
            f"{option}: received {shown(name)}; accepted: letters, digits and the signs . _ - + / within"
        )
    if name == STAGING:
        raise EventformersError(f"{option}: {STAGING} is the temporary branch of every push; choose another")


def plan_push(
    api: HfApi,
    local: LocalRepository,
    repo_id: str,
    *,
    branch: str = MAIN,
    private: bool = False,
    overwrite: bool = False,
    offline: bool = False,
) -> PushPlan:
    """Compare a folder with the repository on the Hub, without sending anything.

    Args:
        repo_id: `owner/name`.
        private: make a new repository private.
        overwrite: allow replacing files that others wrote.
        offline: plan a new repository, with a warning, if the Hub cannot be reached.

    Raises:
        EventformersError: the Hub cannot be reached, or the repository has content that the push must not
            change.
    """
    kind = {"repo_type": local.repo_type}
    with hub_faults(repo_id):
        try:
            there: Any = api.repo_info(repo_id, **kind, files_metadata=True)
        except RepositoryNotFoundError:
            return _plan(local, repo_id, branch, private=private)
        except Exception as error:
            if not offline or not is_of_network(error):
                raise
            warnings.warn(f"{repo_id}: the Hub is not reachable; all files count as new", stacklevel=2)
            return _plan(local, repo_id, branch, private=private)
        if private and not there.private:
            raise EventformersError(
                f"{repo_id} is already public; make it private in its settings, or push without --private"
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
    files = []
    for path, file in local.files.items():
        size, held = file.stat().st_size, siblings.get(path)
        if held is None:
            large = size >= _LARGE_FILE or file.suffix in _LARGE_SUFFIXES
            files.append(PlannedFile(path, file, size, large, "new"))
            continue
        is_equal = size == held.size
        if is_equal and held.lfs is not None:
            is_equal = file_digest(file) == held.lfs.sha256
        elif is_equal:
            # The id that git has for it.
            content = b"blob %d\0" % size + file.read_bytes()
            is_equal = hashlib.sha1(content, usedforsecurity=False).hexdigest() == held.blob_id
        files.append(PlannedFile(path, file, size, held.lfs is not None, "there" if is_equal else "changed"))
    others = sorted(siblings.keys() - local.files.keys() - {".gitattributes"})
    # The files of an earlier model that do not fit this one: its weights; with other weights, all that it
    # had, and its scores.
    weights = (one for one in files if any(fnmatch(one.path, pattern) for pattern in WEIGHTS))
    is_other = any(one.state != "there" for one in weights)
    stale = (*FILES_OF_A_MODEL, "results") if is_other else WEIGHTS
    deleted: list[str] = []
    # What a loader would read together with the files of the folder.
    for path in others:
        first, _, rest = path.partition("/")
        if local.kind == "model":
            is_read = any(fnmatch(first, pattern) for pattern in stale)
        else:
            is_read = local.kind == "dataset" and first in local.configs and rest.endswith(".parquet")
        deleted += [path] if is_read else []
    return PushPlan(
        local=local,
        repo_id=repo_id,
        branch=branch,
        files=tuple(files),
        deleted=tuple(deleted),
        kept=tuple(path for path in others if path not in deleted),
        is_new_branch=is_new_branch,
        private=private,
    )


# Content that a push must not change.


def _check_content(api: HfApi, plan: PushPlan) -> None:
    """Reject replacing content that is not an earlier state of the same repository."""
    changed = [each.path for each in plan.files if each.state == "changed"] + list(plan.deleted)
    if plan.local.kind == "model" and "config.json" in changed:
        try:
            held = read_json_object(_download(api, plan, "config.json")).get("model_type")
        except DataFormatError:
            held = None
        if held != plan.local.model_type:
            raise EventformersError(
                f"{plan.repo_id} has another model (model_type {shown(held)}, not "
                f"{shown(plan.local.model_type)}); choose another name, or pass --overwrite"
            )
    if plan.local.kind == "dataset" and "README.md" in changed:
        missing = sorted(
            built_configs(_download(api, plan, "README.md").parent).keys() - set(plan.local.configs)
        )
        if missing:
            raise EventformersError(
                f"{plan.repo_id} has config {', '.join(missing)}, which {plan.local.folder} does not have; "
                "the push would make it unloadable. Build it into the folder, too, or pass --overwrite"
            )
    if not changed:
        return
    where: dict[str, Any] = {"repo_type": plan.local.repo_type, "revision": plan.head}
    # Every push, also one by a trainer, signs the description of its commit.
    ours = {
        commit.commit_id
        for commit in api.list_repo_commits(plan.repo_id, **where)
        if PUSH_SIGNATURE in commit.message or commit.title.lower() == _FIRST_COMMIT
    }
    entries = api.get_paths_info(plan.repo_id, changed, expand=True, **where)
    last = {entry.path: entry.last_commit for entry in entries}
    foreign = [path for path in changed if (commit := last.get(path)) is not None and commit.oid not in ours]
    if foreign:
        told = ", ".join(foreign[:_SHOWN_NAMES]) + (", …" if len(foreign) > _SHOWN_NAMES else "")
        raise EventformersError(
            f"{plan.repo_id}: eventformers did not write {told} there, and the push would replace "
            f"{'it' if len(foreign) == 1 else 'them'}; choose another name, or pass --overwrite"
        )


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
