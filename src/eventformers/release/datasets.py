"""The datasets of a release: every config that the data has files for, with open rows only."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eventformers.datasets_scripts.base import (
    SAMPLES,
    EventDatasetBuilder,
    NoRowsError,
    config_names,
    setting_names,
)
from eventformers.datasets_scripts.building import BUILDERS, build_reports
from eventformers.datasets_scripts.malformed import malformed_policy
from eventformers.errors import EventformersError
from eventformers.files import remove_folder
from eventformers.publishing.dataset_building import build_dataset
from eventformers.publishing.folders import LocalRepository, read_folder
from eventformers.release.records import read_record, write_record

_OPEN_ONLY = "open_licenses_only"
"""The setting of a builder that leaves out rows whose licences are not open."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReleasedDataset:
    """A built dataset of a release.

    Attributes:
        local: its folder.
        closed: why it is not published; None if it is.
    """

    local: LocalRepository
    closed: str | None

    @cached_property
    def reports(self) -> dict[str, dict[str, Any]]:
        """The build report of each config."""
        return build_reports(self.local.folder)

    def licenses(self, configs: Iterable[str]) -> list[str]:
        """The licences of the rows of some of its configs, sorted."""
        return sorted({name for config in configs for name in self.reports[config]["licenses"]})


def build_datasets(
    folder: Path,
    data: str | Path | None,
    settings: Mapping[tuple[str, str], Mapping[str, Any]],
    accept_licenses: bool,
) -> dict[str, ReleasedDataset]:
    """Build every dataset that the data has files for, and reuse those that are unchanged.

    Rows whose licences are not open are left out, if the builder can leave them out.

    Args:
        folder: the folder of the release.
        data: folder with a subfolder of raw files for each dataset, named as its builder; None takes the
            bundled samples.
        settings: the settings of a config of a builder, by the names of both; by default none.
        accept_licenses: keep rows whose licences are not open.

    Returns:
        The datasets by builder; one without a subfolder is left out.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: there is no subfolder for any dataset, or one has no raw files.
    """
    found: dict[str, ReleasedDataset] = {}
    folders = {name: None if data is None else Path(data).expanduser() / name for name in BUILDERS}
    missing = [name for name, raw in folders.items() if raw is not None and not raw.is_dir()]
    if len(missing) == len(folders):
        raise EventformersError(
            f"{data}: no raw files of any dataset; accepted: a folder with a subfolder of raw files for each "
            f"dataset: {', '.join(BUILDERS)}"
        )
    for name in missing:
        logger.warning("dataset %s is left out: no folder %s", name, folders.pop(name))
    for name, raw in folders.items():
        builder = BUILDERS[name]
        paths = [SAMPLES / builder.SAMPLES_FOLDER if raw is None else raw]
        can_filter = _OPEN_ONLY in setting_names(builder.BUILDER_CONFIG_CLASS) and not accept_licenses
        always = {_OPEN_ONLY: True} if can_filter else {}
        configs = {
            config: {**settings.get((name, config), {}), **always}
            for config in config_names(builder)
            if builder.find_raw_files(config, paths)
        }
        if not configs:
            accepted = "; ".join(dict.fromkeys(builder.RAW_FILES.values()))
            raise EventformersError(f"{raw}: no raw files of {name}; accepted: {accepted}")
        place = folder / name
        _build(place, builder, configs, raw)
        if build_reports(place):
            local = read_folder(place)
            found[name] = ReleasedDataset(local, None if accept_licenses else local.needs_acceptance())
    if not found:
        raise EventformersError(f"{data}: no rows of any dataset; accepted: rows of at least one")
    return found


def _build(
    folder: Path,
    builder: type[EventDatasetBuilder],
    configs: Mapping[str, Mapping[str, Any]],
    raw: Path | None,
) -> None:
    made_of = {
        "rows": {config: builder(config, raw, **chosen).fingerprint for config, chosen in configs.items()},
        "malformed": malformed_policy(),
    }
    root, name = folder.parent.parent, builder.NAME
    if read_record(root, name, made_of) is not None:
        logger.info("dataset %s: unchanged", name)
        return
    logger.info("dataset %s: building %s", name, ", ".join(configs))
    # A config of earlier data would otherwise stay.
    remove_folder(folder)
    for config, chosen in configs.items():
        try:
            build_dataset(name, config, raw, folder, **chosen)
        except NoRowsError as error:
            warnings.warn(f"left out: {error}", stacklevel=3)
    write_record(root, name, made_of)
