"""Reading what model repositories of the Hub tell a leaderboard."""

from __future__ import annotations

import logging
from pathlib import Path

from huggingface_hub import HfApi

from eventformers.errors import DataFormatError, EventformersError
from eventformers.leaderboard.sources import CARD, ENTRIES, Measurement, read_model_files
from eventformers.publishing.errors import hub_faults

logger = logging.getLogger(__name__)


def read_repository(repo_id: str, api: HfApi | None = None) -> list[Measurement]:
    """The measurements that a model repository tells.

    Args:
        repo_id: `ORG/NAME`.
        api: the client; None takes one with the user's settings.

    Raises:
        DataFormatError: a file of the repository is not of the Hub's format.
        EventformersError: the repository is not there, may not be read, or the Hub cannot be reached.
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
    """The measurements of all model repositories of a user or an organization.

    A repository without results is passed over; one with a file that cannot be read is left out and told of.

    Args:
        author: the name.
        api: the client; None takes one with the user's settings.

    Raises:
        EventformersError: the Hub cannot be reached, or there is no model repository.
    """
    api = api or HfApi()
    with hub_faults(author):
        repo_ids = sorted(model.id for model in api.list_models(author=author))
    return _read_all(repo_ids, f"{author} on the Hub", api)


def read_collection(slug: str, api: HfApi | None = None) -> list[Measurement]:
    """The measurements of the model repositories of a collection, as of `read_author`.

    Args:
        slug: the collection, such as `org/title-0123456789abcdef01234567`.
        api: the client; None takes one with the user's settings.

    Raises:
        EventformersError: the collection is not there, or the Hub cannot be reached.
    """
    api = api or HfApi()
    with hub_faults(slug):
        items = api.get_collection(slug).items
    return _read_all([item.item_id for item in items if item.item_type == "model"], f"collection {slug}", api)


def _read_all(repo_ids: list[str], where: str, api: HfApi) -> list[Measurement]:
    if not repo_ids:
        raise EventformersError(f"{where}: found no model repository; accepted: a name that has some")
    found: list[Measurement] = []
    for repo_id in repo_ids:
        try:
            found += read_repository(repo_id, api)
        except DataFormatError as error:
            logger.warning("%s is left out: %s", repo_id, error)
    return found
