"""What the reports of results share: pages from templates, and folders that hold no other results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from eventformers.errors import EventformersError

_FOLDER = Path(__file__).parent
_ENVIRONMENT = Environment(
    loader=FileSystemLoader([_FOLDER, _FOLDER.parent]),
    undefined=StrictUndefined,
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def render_page(template: str, **values: object) -> str:
    """A page from a template beside this module, or in the folder above it; texts are escaped.

    Args:
        template: name of its file.
        **values: what it names.
    """
    return _ENVIRONMENT.get_template(template).render(**values)


def check_results_free(folder: Path, names: Sequence[str], what: str, *, overwrite: bool) -> None:
    """Refuse a place where results are, or a file: told before the work, not after it.

    Args:
        folder: where the results go.
        names: their files.
        what: whose results they are, with its article, for the error.
        overwrite: whether they may be replaced.

    Raises:
        EventformersError: something is there that may not be replaced.
    """
    if folder.exists() and not folder.is_dir():
        raise EventformersError(f"{folder}: a file; accepted: a folder to write to")
    found = [name for name in names if (folder / name).exists()]
    if found and not overwrite:
        raise EventformersError(f"{folder} holds {found[0]} of {what}; --overwrite replaces it")
