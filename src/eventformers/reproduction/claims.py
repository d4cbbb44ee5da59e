"""The claims of papers beside our margins: which differences between rows of a table hold here.

A claim is a published difference between two rows in one column, or a row that a paper draws as ahead of
another one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from eventformers.errors import DataFormatError
from eventformers.markdown import cell, code
from eventformers.markdown import table as markdown_table
from eventformers.reproduction.comparisons import RowComparison, difference_text, signed

_FILE_NAME = re.compile(r"(?P<paper>.+)-(?P<table>(table|figure)\d+)(-[^-]+)?")

VERDICTS = ("holds", "does not", "cannot tell")
"""The verdicts on a claim; see `verdict`."""


def verdict(one: RowComparison) -> str:
    """Decide whether the sign of a published or drawn difference holds.

    Returns:
        `holds` if the whole interval and the difference of every run are on the paper's side of 0, `does not`
        if they are on the other side, else `cannot tell`.
    """
    is_ahead = one.drawn or (one.published or 0) > 0
    if not (one.drawn or one.published) or one.low is None or one.high is None:
        return "cannot tell"
    ours = (one.low, one.high, *one.of_runs)
    if min(ours) > 0 or max(ours) < 0:
        return "holds" if (ours[0] > 0) == is_ahead else "does not"
    return "cannot tell"


def claims_sections(folder: Path) -> str:
    """Write the claims of all reproduced tables: a summary, and a section for each table.

    Args:
        folder: JSON files of `reproduce`, each named `PAPER-TABLE.json`, or `PAPER-TABLE-WORD.json` for a
            table that was run in several ways.

    Raises:
        DataFormatError: a file has another name, or is not the JSON of a table with comparisons.
    """
    sections, counts = [], []
    for path in sorted(folder.glob("*.json")):
        content = _read(path)
        pairs = [_comparison(path, one) for one in content["comparisons"]["pairs"]]
        claims = [_ahead(one) for one in pairs if one.drawn or one.published]
        found = Counter(map(verdict, claims))
        counts.append(
            [cell(content["title"]), str(content["runs"]), *(str(found[name]) for name in VERDICTS)]
        )
        sections.append(_section(_command(path, content), content, claims))
    return "\n\n".join([markdown_table(["table", "runs", *VERDICTS], counts), *sections])


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataFormatError(path, None, str(error), "the JSON of `eventformers reproduce`") from error
    if not isinstance(content, dict) or "pairs" not in content.get("comparisons", {}):
        accepted = "the JSON of `eventformers reproduce`, of a table that compares finished rows"
        raise DataFormatError(path, None, "no comparisons", accepted)
    return content


def _comparison(path: Path, record: dict[str, Any]) -> RowComparison:
    try:
        return RowComparison(**{**record, "of_runs": tuple(record["of_runs"])})
    except (KeyError, TypeError) as error:
        raise DataFormatError(
            path, None, f"a comparison with other fields ({error})", "the JSON of this version's `reproduce`"
        ) from error


def _ahead(one: RowComparison) -> RowComparison:
    """Turn a comparison so that the paper has its first row ahead."""
    return one if one.drawn or cast(float, one.published) > 0 else one.turned()


def _command(path: Path, content: Mapping[str, Any]) -> str:
    named = _FILE_NAME.fullmatch(path.stem)
    if named is None:
        raise DataFormatError(
            path, None, f"the name {path.name}", "PAPER-TABLE.json or PAPER-TABLE-WORD.json"
        )
    options = "".join(f" --set {setting}" for setting in content["settings"])
    if content.get("dtype"):
        options += f" --dtype {content['dtype']}"
    return (
        f"eventformers reproduce {named['paper']} {named['table']} --recipe {content['recipe']}"
        f" --seed {content['seed']} --runs {content['runs']}{options}"
    )


def _section(command: str, content: Mapping[str, Any], claims: Sequence[RowComparison]) -> str:
    lines = [
        [
            f"{cell(one.row)} > {cell(one.other)}",
            cell(one.title),
            "drawn" if one.drawn else signed(cast(float, one.published), one.score),
            difference_text(one),
            f"{one.questions:,} questions" if one.questions else f"runs: {len(one.of_runs)}",
            verdict(one),
        ]
        for one in claims
    ]
    header = ["claim", "score", "paper", "ours (95 % interval)", "interval over", "verdict"]
    told = markdown_table(header, lines) if lines else "The paper gives no row here as ahead of another."
    return "\n\n".join([f"## {cell(content['title'])}", f"{code(command)}", told])
