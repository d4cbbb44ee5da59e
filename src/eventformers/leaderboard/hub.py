"""Measurements from model repositories on the Hub."""

from __future__ import annotations

import logging
from pathlib import Path

from huggingface_hub import HfApi

from eventformers.errors import DataFormatError, EventformersError
from eventformers.leaderboard.sources import CARD, ENTRIES, Measurement, read_model_files
from eventformers.publishing.errors import hub_faults

logger = logging.getLogger(__name__)


def read_repository(repo_id: str, api: HfApi | None = None) -> list[Measurement]:
    """Read the measurements of a model repository.

    Args:
        repo_id: `ORG/NAME`.
        api: the client; None takes one with the user's settings.

    Raises:
        DataFormatError: a file of the repository is not in the Hub's format.
        EventformersError: the repository does not exist or is not accessible, or the Hub is unreachable.
    """
    api = api or HfApi()
    with hub_faults(repo_id):
        info = api.model_info(repo_id)
        copy = api.snapshot_download(repo_id, revision=info.sha, allow_patterns=[ENTRIES, CARD])
    return read_model_files(
        Path(copy),
        repo_id,
        revision=info.sha,
        card=f"{api.endpoint}/{repo_id}",
        parameters=info.safetensors.total if info.safetensors else None,
        source=repo_id,
    )


def read_author(author: str, api: HfApi | None = None) -> list[Measurement]:
    """Read the measurements of all model repositories of a user or an organization.

    Repositories without results are ignored. A repository with an unreadable file is left out with a warning.

    Args:
        author: the name.
        api: the client; None takes one with the user's settings.

    Raises:
        EventformersError: the Hub is unreachable, or there is no model repository.
    """
    api = api or HfApi()
    with hub_faults(author):
        repo_ids = sorted(model.id for model in api.list_models(author=author))
    return _read_all(repo_ids, f"{author} on the Hub", api)


def read_collection(slug: str, api: HfApi | None = None) -> list[Measurement]:
    """Read the measurements of all model repositories of a collection, like `read_author`.

    Args:
        slug: the collection, such as `org/title-0123456789abcdef01234567`.
        api: the client; None takes one with the user's settings.

    Raises:
        EventformersError: the collection does not exist, or the Hub is unreachable.
    """
    api = api or HfApi()
    with hub_faults(slug):
        items = api.get_collection(slug).items
    return _read_all([item.item_id for item in items if item.item_type == "model"], f"collection {slug}", api)


def _read_all(repo_ids: list[str], where: str, api: HfApi) -> list[Measurement]:
    if not repo_ids:
        raise EventformersError(f"{where}: found no model repository; accepted: at least one")
    found: list[Measurement] = []
    for repo_id in repo_ids:
        try:
            found += read_repository(repo_id, api)
        except DataFormatError as error:
            logger.warning("left out %s: %s", repo_id, error)
    return found
