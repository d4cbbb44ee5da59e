"""What the reports of results share: pages from templates, and folders that hold no other results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from eventformers.errors import EventformersError

_ENVIRONMENT = Environment(
    undefined=StrictUndefined,
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def render_page(template: Path, **values: object) -> str:
    """Render a page from a template; texts are escaped.

    Args:
        template: the template's file.
        **values: values of the names in it.
    """
    return _ENVIRONMENT.from_string(template.read_text(encoding="utf-8")).render(**values)


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
