"""Small pieces of Markdown that are safe for values from data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath


def cell(value: object) -> str:
    """Escape text for one cell of a table, so that it cannot become HTML or a new row."""
    text = " ".join(str(value).split())
    for character, replacement in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "&#124;")):
        text = text.replace(character, replacement)
    return text


def code(value: object) -> str:
    """Inline code, also for text with backticks; bars are escaped for tables."""
    text = " ".join(str(value).split()) or " "
    fence = "`" * (longest_run(text, "`") + 1)
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{text}{padding}{fence}".replace("|", "\\|")


def code_block(text: str, language: str = "") -> str:
    """A fenced block whose fence is longer than any in the text."""
    fence = "`" * max(3, longest_run(text, "`") + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def longest_run(text: str, character: str) -> int:
    """Length of the longest run of a character in a text; 0 if it does not occur."""
    return max((len(run) for run in re.findall(f"{re.escape(character)}+", text)), default=0)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are already Markdown; empty text if there are no rows."""
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float) -> str:
    """Format a count with thousands separators, any other number with four significant digits."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) >= 1000):
        return f"{int(value):,}"
    return f"{value:.4g}"


def setting(value: object) -> str:
    """Format a setting as code, without the folders of the machine that ran."""
    return code(_setting_text(value))


def _setting_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_setting_text(part)}" for key, part in value.items()) or "none"
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = sorted(value) if isinstance(value, (set, frozenset)) else value
        return ", ".join(_setting_text(part) for part in parts) or "none"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return without_folders(str(value))


def without_folders(text: str) -> str:
    """The last part of an absolute path of any system; any other text unchanged."""
    if PureWindowsPath(text).drive:
        return PureWindowsPath(text).name
    return PurePosixPath(text).name if text.startswith(("/", "~/")) else text


def words(name: str) -> str:
    """Convert a snake_case name to words."""
    return name.replace("_", " ")


def duration(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds."""
    if seconds < 60:
        return f"{seconds:.1f} seconds"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
