"""Publishing on the Hub: models, datasets and metrics, each in one verified commit, and collections.

A push first compares and sends only files that are not there yet. It commits to a temporary branch, loads the
repository back from the Hub in a fresh process, and only then changes the branch that people read, in one
commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError

from eventformers import __version__
from eventformers.errors import EventformersError, counted, shown
from eventformers.publishing.folders import SPACE_SDKS, find_release, read_folder
from eventformers.publishing.plan import (
    LOG_IN,
    MAIN,
    RERUN,
    STAGING,
    PushPlan,
    check_repo_id,
    check_revision,
    hub_faults,
    plan_push,
)
from eventformers.publishing.verification import Asked, probe, same
from eventformers.trainers.base import PUSH_SIGNATURE

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pushed:
    """The result of a push for one repository: its page, and the current commit of the branch; None after a
    dry run."""

    plan: PushPlan
    commit: str | None
    url: str


@dataclass(frozen=True)
class Push:
    """The result of a push, or of a dry run, which sends nothing, with the address of the collection, if
    there is one."""

    repositories: tuple[Pushed, ...]
    collection: str | None
    is_dry_run: bool


def push(
    target: str | Path | Sequence[str | Path],
    repo_id: str,
    *,
    everything: bool = False,
    private: bool = False,
    revision: str | None = None,
    tag: str | None = None,
    message: str | None = None,
    collection: str | None = None,
    accept_licenses: bool = False,
    overwrite: bool = False,
    include: Sequence[str] = (),
    dry_run: bool = False,
    endpoint: str | None = None,
    token: str | None = None,
    tell: Callable[[str], object] = lambda step: None,
) -> Push:
    """Publish a model, a dataset, an exploration or a metric, or everything of a release.

    Files that are already there are not sent again, and an up-to-date repository gets no commit. After a lost
    connection, the same call continues.

    Args:
        target: folder of a run, of a built dataset, of an exploration or of a metric, or the name of one of
            our metrics, or several of them; with `everything` a folder of runs and built datasets.
        repo_id: `owner/name`; with `everything` or several targets only the owner, and each repository gets
            the name of its folder.
        everything: push all runs and built datasets in the folders below `target`, and all our metrics.
        private: make new repositories private; an existing public one is an error.
        revision: the branch to change, created if absent; None uses `main`.
        tag: a tag for the commit.
        message: title of the commit.
        collection: title of the owner's collection that gets the repositories, created if absent.
        accept_licenses: publish rows, and models trained on them, whose licences are not open or not known.
        overwrite: replace files that others wrote, and another model.
        include: patterns of further files of the folders to send, such as `docs/*.png`; `*` stays within a
            folder.
        dry_run: compare, send nothing and return what would be sent.
        endpoint: the Hub; None uses the client's.
        token: the token; None uses that of the login.
        tell: called with the description of each step as it begins.

    Returns:
        The changes that were, or would be, made.

    Raises:
        EventformersError: an argument is invalid, a folder is incomplete or does not load, the licences are
            not accepted, the Hub refuses, the connection is lost, or the pushed files do not load back.
    """
    is_release = everything or not isinstance(target, (str, Path))
    if everything and isinstance(target, (str, Path)):
        found = find_release(target, include)
    else:
        targets = [target] if isinstance(target, (str, Path)) else target
        found = [read_folder(one, include) for one in targets]
    for pattern in include:
        if not any(fnmatch(path, pattern) for local in found for path in local.files):
            raise EventformersError(
                f"--include: no file to send matches {shown(pattern)}; see the lines of --dry-run without it"
            )
    owner = repo_id.partition("/")[0]
    if is_release and "/" in repo_id:
        raise EventformersError(
            f"--repo-id: received {shown(repo_id)}; accepted with --everything: only the owner, such as "
            f"{owner}"
        )
    named = [(local, f"{repo_id}/{local.name}" if is_release else repo_id) for local in found]
    for local, name in named:
        check_repo_id(name, local)
    for reference, option in ((revision, "--revision"), (tag, "--tag")):
        if reference is not None:
            check_revision(reference, option)
    reasons = [reason for local in found if (reason := local.needs_acceptance())]
    if reasons and not accept_licenses:
        raise EventformersError(
            f"{'; '.join(reasons)}; find out whether you may publish that, and pass --accept-licenses"
        )
    api = HfApi(endpoint=endpoint, token=token or get_token(), library_name="eventformers")
    if api.token is None and not dry_run:
        raise EventformersError(f"not logged in; {LOG_IN}")
    tell("comparing with the Hub")
    plans = [
        plan_push(
            api, local, name, branch=revision or MAIN, private=private, overwrite=overwrite, offline=dry_run
        )
        for local, name in named
    ]
    for plan in plans:
        if tag is None or plan.head is None:
            continue
        with hub_faults(plan.repo_id):
            refs = api.list_repo_refs(plan.repo_id, repo_type=plan.local.repo_type)
        tagged = next((each.target_commit for each in refs.tags if each.name == tag), None)
        if tagged is not None and not (plan.is_done and tagged == plan.head):
            raise EventformersError(
                f"--tag: {plan.repo_id} already has a tag {tag}, at commit {tagged[:12]}; choose another name"
            )
    title = message or f"Push with eventformers {__version__}"
    heads = _Pushing(api, plans, title, dry_run, tell).run()
    pushed = tuple(Pushed(plan, heads.get(plan.address), f"{api.endpoint}/{plan.address}") for plan in plans)
    if dry_run:
        return Push(pushed, None, dry_run)
    if tag is not None:
        for one in pushed:
            plan = one.plan
            with hub_faults(f"{plan.repo_id} is pushed, but has no tag {tag}"):
                api.create_tag(
                    plan.repo_id,
                    tag=tag,
                    revision=one.commit,
                    repo_type=plan.local.repo_type,
                    exist_ok=True,
                )
    address = None if collection is None else _collect(api, plans, collection, owner, private)
    return Push(pushed, address, dry_run)


class _Pushing:
    """The steps that carry out the plans of a push."""

    def __init__(
        self,
        api: HfApi,
        plans: Sequence[PushPlan],
        message: str,
        dry_run: bool,
        tell: Callable[[str], object],
    ) -> None:
        self.api, self.message, self.dry_run, self.tell = api, message, dry_run, tell
        self.heads = {plan.address: plan.head for plan in plans if plan.is_done}
        self.plans = [plan for plan in plans if not plan.is_done]

    def run(self) -> dict[str, str | None]:
        """Load the folders, push to the temporary branch, load from there, and only then change the target
        branch.

        Return the current commit of each repository, by its address; None for those that a dry run would
        change.
        """
        if not self.plans:
            return self.heads
        self.tell("loading the folders in a fresh process")
        before = self._shown(online=False)
        if self.dry_run:
            return self.heads
        staged = []
        for plan in self.plans:
            self.tell(f"sending {counted(len(plan.to_send), 'file')} to {plan.repo_id}")
            staged.append(self._stage(plan))
        self.tell("loading it from the Hub, in a fresh process with an empty cache")
        after = self._shown(online=True, commits=staged)
        for plan, first, second in zip(self.plans, before, after, strict=True):
            if not same(first, second):
                raise EventformersError(
                    f"{plan.repo_id}: loading from the Hub and from {plan.local.folder} gave different "
                    f"results; {self._as_it_was(plan)}"
                )
        for plan, commit in zip(self.plans, staged, strict=True):
            self.tell(f"publishing {plan.repo_id}")
            self.heads[plan.address] = self._publish(plan, commit)
        return self.heads

    def _as_it_was(self, plan: PushPlan) -> str:
        return f"branch {plan.branch} is unchanged, and the sent files are in branch {STAGING}"

    def _shown(self, *, online: bool, commits: Sequence[str] = ()) -> list[Any]:
        """Results of loading, from the folders or, at commits, from the Hub."""
        asked: list[Asked] = [
            {
                "kind": plan.local.kind,
                "source": plan.repo_id if online else str(plan.local.folder.absolute()),
                "revision": commits[place] if online else None,
                "configs": list(plan.local.configs),
            }
            for place, plan in enumerate(self.plans)
        ]
        told = probe(asked, endpoint=self.api.endpoint, token=self.api.token or None, online=online)
        for plan, one in zip(self.plans, told, strict=True):
            if one["error"] is not None and online:
                raise EventformersError(
                    f"{plan.repo_id} does not load back from the Hub ({one['error']}); "
                    f"{self._as_it_was(plan)}. If the connection was lost, {RERUN}"
                )
            if one["error"] is not None:
                raise EventformersError(
                    f"{plan.local.folder} does not load, so it is not pushed: {one['error']}"
                )
        return [one["shown"] for one in told]

    def _stage(self, plan: PushPlan) -> str:
        """Commit to the temporary branch and return the commit."""
        where: dict[str, Any] = {"repo_id": plan.repo_id, "repo_type": plan.local.repo_type}
        with hub_faults(plan.repo_id):
            if plan.head is None:
                sdk = {"space_sdk": SPACE_SDKS[plan.local.kind]} if plan.local.repo_type == "space" else {}
                # An earlier push may have stopped right after this step.
                self.api.create_repo(**where, private=plan.private or None, exist_ok=True, **sdk)
            try:
                self.api.create_branch(**where, branch=STAGING, revision=plan.head)
            except HfHubHTTPError as error:
                if error.response.status_code != 409:
                    raise
                try:
                    # An interrupted push left it there.
                    self.api.delete_branch(**where, branch=STAGING)
                except RevisionNotFoundError:
                    # The branch does not exist, so the Hub refused for another reason.
                    raise error from None
                self.api.create_branch(**where, branch=STAGING, revision=plan.head)
            return self._commit(plan, STAGING, plan.head)

    def _commit(self, plan: PushPlan, branch: str, parent: str | None) -> str:
        operations = [
            *(CommitOperationAdd(each.path, each.file) for each in plan.to_send),
            *(CommitOperationDelete(path, is_folder=False) for path in plan.deleted),
        ]
        done = self.api.create_commit(
            plan.repo_id,
            operations,
            commit_message=self.message,
            commit_description=f"{PUSH_SIGNATURE} {__version__}",
            repo_type=plan.local.repo_type,
            revision=branch,
            parent_commit=parent,
        )
        return str(done.oid)

    def _publish(self, plan: PushPlan, staged: str) -> str | None:
        """Change the target branch and return its current commit."""
        where: dict[str, Any] = {"repo_id": plan.repo_id, "repo_type": plan.local.repo_type}
        with hub_faults(plan.repo_id):
            if plan.branch != MAIN and (plan.is_new_branch or plan.head is None):
                self.api.create_branch(**where, branch=plan.branch, revision=staged)
            else:
                parent = plan.head or self.api.repo_info(**where).sha
                # Large files are already stored, so only the small ones are sent again.
                self._commit(plan, plan.branch, parent)
        after = plan_push(self.api, plan.local, plan.repo_id, branch=plan.branch, overwrite=True)
        if not after.is_done:
            raise EventformersError(
                f"{plan.repo_id}: files of {plan.local.folder} changed while they were sent; run the command "
                "again when no other program writes there"
            )
        try:
            self.api.delete_branch(**where, branch=STAGING)
        except HfHubHTTPError as error:
            logger.warning("%s: the branch %s could not be removed (%s)", plan.repo_id, STAGING, error)
        return after.head


def _collect(api: HfApi, plans: Sequence[PushPlan], title: str, owner: str, private: bool) -> str:
    """Add repositories to the owner's collection with a title; existing items keep their places."""
    with hub_faults(f"everything is pushed, but is not in collection {title}"):
        known = next((each for each in api.list_collections(owner=owner) if each.title == title), None)
        if known is None:
            held = api.create_collection(title, namespace=owner, private=private, exists_ok=True)
        else:
            # The list of collections does not include all items.
            held = api.get_collection(known.slug)
        there = {(item.item_type, item.item_id) for item in held.items}
        for plan in plans:
            kind: Any = plan.local.repo_type
            if (kind, plan.repo_id) not in there:
                api.add_collection_item(held.slug, plan.repo_id, kind, exists_ok=True)
        return str(held.url)
