"""Small pieces of Markdown, safe for values from data: these stay text, whatever they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import quote

from eventformers.terminal import visible

_ENTITIES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{character: f"&#{ord(character)};" for character in "|`\\"}}
)
# An asterisk inside a formula with spaces, and an underscore inside a word, are no emphasis.
_ASTERISK = r"\*(?=\S)|(?<=\S)\*"
_EMPHASIS = re.compile(rf"{_ASTERISK}|(?<![^\W_])_|_(?![^\W_])")
# Any other bracket is only a bracket, as no text can define the target of a reference.
_BRACKET = re.compile(r"\](?=[(\[:])|^\[(?=[ xX]\])")
_MARKER = re.compile(r"^(\d*)([#+*=.)~-])(?=[\s#+*=~-]|$)")


def cell(value: object) -> str:
    """Escape text for one cell of a table, a heading or a paragraph.

    It cannot become HTML, a link, an image, emphasis, code, a heading, a list or a new row, and it has no
    control characters.
    """
    text = visible(" ".join(str(value).split())).translate(_ENTITIES)
    text = _BRACKET.sub(_entity, _EMPHASIS.sub(_entity, text))
    return _MARKER.sub(lambda found: f"{found[1]}&#{ord(found[2])};", text)


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def link(text: object, address: str) -> str:
    """A link to an address of the web."""
    name = cell(text).replace("[", "&#91;").replace("]", "&#93;")
    return f"[{name}]({quote(address, safe=':/?#@!$&*+,;=%~')})"


def code(value: object) -> str:
    """Inline code, also for text with backticks; bars are escaped for tables."""
    text = visible(" ".join(str(value).split())) or " "
    fence = "`" * (longest_run(text, "`") + 1)
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{text}{padding}{fence}".replace("|", "\\|")


def code_block(text: str, language: str = "") -> str:
    """A fenced block whose fence is longer than any in the text."""
    text = visible(text)
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
