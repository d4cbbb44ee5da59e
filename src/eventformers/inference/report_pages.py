"""Shared parts of reports: pages from templates, and checks of the output folder."""

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
    """Render a page from a template, with all texts escaped."""
    return _ENVIRONMENT.from_string(template.read_text(encoding="utf-8")).render(**values)


def check_results_free(folder: Path, names: Sequence[str], what: str, *, overwrite: bool) -> None:
    """Raise an error, before the work starts, if the output folder holds results and `overwrite` is off;
    `what` is the owner of the results, with its article."""
    found = [name for name in names if (folder / name).exists()]
    if found and not overwrite:
        raise EventformersError(f"{folder} holds {found[0]} of {what}; --overwrite replaces it")
