"""Loading of datasets from a built folder, the Hub or raw files; the timeout of requests to the Hub."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, overload

import datasets
from datasets import DatasetDict, IterableDatasetDict, load_dataset
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError

from eventformers.datasets_scripts.base import config_names, settings_of
from eventformers.datasets_scripts.building import BUILDERS, build_dataset, build_reports, builder_of_config
from eventformers.datasets_scripts.dataset_card import REPORT_NAME, built_configs
from eventformers.datasets_scripts.reading.lines import DataDir
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError, first_line, shown
from eventformers.files import refuse_unfinished

SAMPLES = "samples"
"""The name of the bundled samples as data."""

Data = TypeVar("Data", bound="DataDir | None")


@overload
def load_built(
    data: DataDir | None,
    config: str,
    *,
    builder: str | None = None,
    streaming: Literal[False] = False,
    **settings: object,
) -> DatasetDict: ...


@overload
def load_built(
    data: DataDir | None,
    config: str,
    *,
    builder: str | None = None,
    streaming: bool,
    **settings: object,
) -> DatasetDict | IterableDatasetDict: ...


def load_built(
    data: DataDir | None,
    config: str,
    *,
    builder: str | None = None,
    streaming: bool = False,
    **settings: object,
) -> DatasetDict | IterableDatasetDict:
    """Load the rows of a config from folder, Hub or raw files: memory-mapped, or as a stream.

    The splits are those that have raw files, in the order train, validation, test.

    Args:
        data: a built folder or a Hub id; or a folder or file with raw data, which is first built into the
            cache of `datasets`; None and `samples` use the bundled samples.
        builder: a key of `BUILDERS`; needed if several builders have a config of that name.
        streaming: read rows one after another instead of copying them into the cache.
        **settings: settings of the builder; for all builders, `malformed="skip"`. They do not change an
            already built dataset; a warning lists the settings that differ from its report.

    Raises:
        UnknownNameError: an unknown builder, config or setting.
        DataFormatError: a raw file cannot be read; names file and line.
        EventformersError: the folder or Hub repository does not exist.
    """
    place = _locate(data, config, builder, settings)
    if isinstance(place, Path):
        # Given a list of files, `datasets` checks when they were changed; given a folder with a README, it
        # does not.
        patterns = _built_config(place, config).get("data_files")
        files: dict[str, list[str]] = {}
        for item in patterns if isinstance(patterns, list) else []:
            if not isinstance(item, dict) or not {"path", "split"} <= item.keys():
                continue
            paths = item["path"] if isinstance(item["path"], list) else [item["path"]]
            for path in map(Path, map(str, paths)):
                if path.is_absolute() or ".." in path.parts or path.suffix != ".parquet":
                    found = f"the files {shown(str(path))}"
                    raise DataFormatError(place / "README.md", None, found, "Parquet files in the folder")
            matches = sorted(match for path in paths for match in place.glob(str(path)))
            files[str(item["split"])] = [str(match.absolute()) for match in matches]
        if not files or not all(files.values()):
            raise EventformersError(f"{place}/README.md: no Parquet file for config {config}; build it again")
        loaded = load_dataset("parquet", data_files=files, streaming=streaming)
        return cast("DatasetDict | IterableDatasetDict", loaded)
    return load_hub(place, config, streaming)


def built_report(
    data: DataDir | None, config: str, *, builder: str | None = None, **settings: object
) -> dict[str, Any]:
    """Load the build report of the dataset that `load_built` loads for the same arguments.

    It has fingerprints, settings, raw files, counts, sources, licences and statistics. `rows`, `read`,
    `skipped` and `sources` are sums over all splits, and `malformed` counts and lists the skipped malformed
    parts. `splits` has `rows`, `rows_fingerprint`, `read`, `skipped` and `statistics` of each split by name.
    For one split, `rows_fingerprint` and `statistics` are those of the split; for several, the first is that
    of the `DatasetDict`, and the second contains them by split. A report from the Hub has `hub_id` and
    `revision`, the commit, too. Empty if a built dataset has no report.
    """
    place = _locate(data, config, builder, settings)
    if isinstance(place, Path):
        return build_reports(place).get(config, {})
    try:
        path = hf_hub_download(place, f"{config}/{REPORT_NAME}", repo_type="dataset")
    except (OSError, ValueError, HfHubHTTPError):
        return {}
    report = json.loads(Path(path).read_text(encoding="utf-8"))
    return {**report, "hub_id": place, "revision": Path(path).parents[1].name}


def without_samples(data: Data) -> Data | None:
    """Return None for the name of the samples, unless a folder has it."""
    return None if str(data) == SAMPLES and not Path(SAMPLES).exists() else data


def check_data(data: DataDir | None) -> None:
    """Raise `EventformersError` for a single path that neither exists nor looks like a Hub dataset id."""
    data = without_samples(data)
    if not isinstance(data, (str, Path)) or Path(data).expanduser().exists() or os.pathsep in str(data):
        return
    if not looks_like_hub_id(str(data)):
        raise EventformersError(
            f"no dataset at {data}; accepted: an existing folder or a Hub id like name/dataset"
        )


def check_raw_files(data: str | Path, builder: str, config: str) -> None:
    """Raise an error if existing data have no raw file and no built rows of a config; no rows are read."""
    folder = Path(data).expanduser()
    built = find_built(folder, builder)
    if built is not None:
        _built_config(built, config)
    elif folder.exists() or os.pathsep in str(data):
        BUILDERS[builder](config, data)


def _built_config(folder: Path, config: str) -> dict[str, Any]:
    """The entry of a config in the card of a built dataset; an error if it has none."""
    by_name = built_configs(folder)
    if config not in by_name:
        raise UnknownNameError(f"config of {folder}", config, by_name)
    return by_name[config]


def looks_like_hub_id(text: str) -> bool:
    """True if a text has the form `owner/name` of a repository on the Hub."""
    return re.fullmatch(r"[\w.-]+/[\w.-]+", text) is not None and not text.startswith(".")


def load_hub(
    hub_id: str, config: str | None = None, streaming: bool = False
) -> DatasetDict | IterableDatasetDict:
    """Load all splits of a dataset from the Hub or the cache.

    Args:
        hub_id: `owner/name`.
        config: its config; None takes the only one, or the one that it names as its default.
        streaming: read rows one after another instead of copying them into the cache.

    Raises:
        EventformersError: it does not exist, or there is no such config.
    """
    limit_requests()
    try:
        loaded = load_dataset(hub_id, config, streaming=streaming)
    except (OSError, ValueError, datasets.exceptions.DatasetNotFoundError) as error:
        raise EventformersError(
            f"no folder {hub_id}, and no dataset with this id{f' and config {config}' if config else ''} on "
            f"the Hub or in the cache ({first_line(error)})"
        ) from error
    return cast("DatasetDict | IterableDatasetDict", loaded)


def _locate(
    data: DataDir | None, config: str, builder: str | None, settings: Mapping[str, Any]
) -> Path | str:
    """Find the built folder of the data, which builds it if needed, or the id of a repository on the Hub."""
    data = without_samples(data)
    if isinstance(data, (str, Path)):
        folder = Path(data).expanduser()
        refuse_unfinished(folder)
        built = find_built(folder, builder)
        if built is not None:
            report = build_reports(built).get(config, {})
            if isinstance(stated := report.get("settings"), dict):
                # The config brings the values into one form, for example names into alphabetical order.
                asked = BUILDERS[str(report["builder"])].BUILDER_CONFIG_CLASS(
                    name=config, **{name: value for name, value in settings.items() if name in stated}
                )
                others = [
                    f"{name}={stated[name]} and not {value}"
                    for name, value in json.loads(json.dumps(settings_of(asked))).items()
                    if name in settings and name in stated and stated[name] != value
                ]
                if others:
                    warnings.warn(f"{built}, {config}: built with {', '.join(others)}", stacklevel=3)
            return built
        if not folder.exists() and os.pathsep not in str(data):
            check_data(data)
            return str(data)
    return build_dataset(builder or builder_of_config(config), config, data, None, **settings)


def find_built(folder: Path, builder: str | None) -> Path | None:
    """Find the built folder of a builder: the folder itself, or its subfolder with the builder's name.

    Args:
        folder: a built dataset, a folder of built datasets, or any other folder.
        builder: a key of `BUILDERS`; None looks only at the folder itself.

    Raises:
        EventformersError: the folder has built datasets, but not this one.
    """
    # Raw data may have a card of their own, with other configs.
    if built_configs(folder).keys() & {config for one in BUILDERS.values() for config in config_names(one)}:
        return folder
    there = sorted(name for name in BUILDERS if built_configs(folder / name))
    if not there or builder is None:
        return None
    if builder not in there:
        raise EventformersError(f"{folder}: found the datasets {', '.join(there)}, but not {builder}")
    return folder / builder


TIMEOUT_VARIABLE = "EVENTFORMERS_HUB_TIMEOUT"
DEFAULT_TIMEOUT = 60.0
"""Seconds that a request waits if the environment does not set `TIMEOUT_VARIABLE`."""


def hub_timeout() -> float:
    """Return the timeout of a request in seconds: to connect, to receive the next bytes, or to send.

    Raises:
        EventformersError: the environment variable is not a positive number.
    """
    value = os.environ.get(TIMEOUT_VARIABLE, str(DEFAULT_TIMEOUT))
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise EventformersError(
            f"{TIMEOUT_VARIABLE}: found {shown(value)}; accepted: a positive number of seconds"
        )
    return seconds


def limit_requests() -> None:
    """Set a timeout for all requests of this process's Hub client.

    Raises:
        EventformersError: the environment variable is not a positive number.
    """
    from huggingface_hub import get_session

    hub_timeout()
    client = get_session()
    if _limit not in client.event_hooks["request"]:
        client.event_hooks = {**client.event_hooks, "request": [*client.event_hooks["request"], _limit]}


def _limit(request: Any) -> None:
    # A timeout of the client itself has no effect: most calls of the Hub's API pass one explicitly, as None.
    own = request.extensions.get("timeout") or {}
    seconds = hub_timeout()
    request.extensions["timeout"] = {
        part: seconds if own.get(part) is None else own[part] for part in ("connect", "read", "write", "pool")
    }
