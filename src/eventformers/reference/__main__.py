"""Write the generated tables of docs, or check that they are up to date.

    python -m eventformers.reference [--check] [FILES…]

A table is between two comments, `<!-- generated: methods -->` and `<!-- end of generated -->`; the text
between them is replaced. `eventformers.reference.tables` has the names.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from eventformers.errors import DataFormatError, EventformersError
from eventformers.files import write_text
from eventformers.reference.tables import table

BEGIN = re.compile(r"<!-- generated: ([\w ]+?) -->")
END = "<!-- end of generated -->"


def generate(path: Path, results_folder: Path) -> tuple[str, str]:
    """Return the current and the regenerated text of a file.

    Raises:
        DataFormatError: the file is not UTF-8, or a generated part lacks its begin or end.
        EventformersError: the file cannot be read, or names an unknown table.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataFormatError(path, None, f"bytes that are not UTF-8 at {error.start}", "UTF-8") from error
    except OSError as error:
        raise EventformersError(f"cannot read {path}: {error.strerror}") from error
    lines: list[str] = []
    begun_at = 0
    for number, line in enumerate(text.splitlines(), start=1):
        begin = BEGIN.fullmatch(line)
        if (begin and begun_at) or (line == END and not begun_at):
            raise DataFormatError(path, number, line, f"each generated part begun once and ended by {END}")
        if begin:
            lines += [line, table(begin[1], results_folder)]
            begun_at = number
        elif line == END:
            lines.append(line)
            begun_at = 0
        elif not begun_at:
            lines.append(line)
    if begun_at:
        raise DataFormatError(path, begun_at, "a generated part without end", END)
    return text, "\n".join(lines) + "\n"


def update(files: Sequence[Path], results_folder: Path, *, check: bool = False) -> list[Path]:
    """Write the generated tables of files, or only find the stale ones.

    Raises:
        EventformersError: a file cannot be read or written; files before it are written.
    """
    stale = []
    for path in files:
        text, wanted = generate(path, results_folder)
        if text != wanted:
            stale.append(path)
            if not check:
                write_text(path, wanted)
    return stale


def default_files(root: Path) -> list[Path]:
    """List the pages of docs that have a generated part."""
    pages = sorted((root / "docs").rglob("*.md"))
    return [page for page in pages if BEGIN.search(page.read_text(encoding="utf-8"))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 0, 1 for a stale file, 2 for a user error."""
    parser = argparse.ArgumentParser(prog="python -m eventformers.reference", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="Markdown files; default: all pages of docs")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    options = parser.parse_args(arguments)
    root = Path()
    try:
        stale = update(options.files or default_files(root), root, check=options.check)
    except EventformersError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    names = ", ".join(map(str, stale))
    if stale and options.check:
        print(f"stale: {names}; run `python -m eventformers.reference`", file=sys.stderr)
        return 1
    print(f"wrote {names}" if stale else "fresh")
    return 0


if __name__ == "__main__":
    sys.exit(main())
