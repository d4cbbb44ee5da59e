"""Findings of a table beyond its scores: spread over runs, clusters by purity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from eventformers.inference.induction.type_naming import majority_type
from eventformers.markdown import cell
from eventformers.markdown import table as markdown_table
from eventformers.model_cards.scores import score_text
from eventformers.reproduction.rows import ReproducedRow, Reproduction
from eventformers.reproduction.scores import run_values, scores_of_runs

PURITY_CLASSES = {
    "very strong (over 80 %)": 80.0,
    "strong (60 to 80 %)": 60.0,
    "ok (40 to 60 %)": 40.0,
    "mixed (up to 40 %)": 0.0,
}
"""The classes of Table 2 of Edwards and Ji, with the purity that their clusters exceed."""

SMALL = "small (one mention)"
"""The class of clusters with a single mention, whatever their purity."""


@dataclass(frozen=True)
class Finding:
    """A finding of a table beyond its scores.

    Attributes:
        key: its key in the JSON.
        section: its section of the Markdown.
        content: its data for the JSON.
    """

    key: str
    section: str
    content: Mapping[str, object]


def spread_of_runs(call: Reproduction, rows: Sequence[ReproducedRow]) -> Finding | None:
    """List the standard deviations over the runs of each row; None if no row has two runs."""
    spreads: dict[str, dict[str, float]] = {}
    lines = []
    for row in rows:
        of_runs = scores_of_runs(row)
        found = {column: run_values(of_runs, column) for column in row.columns}
        spread = {column: stdev(values) for column, values in found.items() if len(values) > 1}
        if spread:
            spreads[row.paper.label] = {column.key: value for column, value in spread.items()}
            texts = [
                score_text(spread[column], column.score) if column in spread else "–"
                for column in row.columns
            ]
            lines.append([cell(row.paper.label), *texts])
    if not lines:
        return None
    header = ["model", *(cell(column.title) for column in call.table.columns)]
    seeds = f"{call.seed} to {call.seed + call.runs - 1}"
    section = (
        f"## Spread over {call.runs} runs\n\nStandard deviation of each score; seeds {seeds}.\n\n"
        f"{markdown_table(header, lines)}"
    )
    return Finding("spread", section, spreads)


def clusters_by_purity(row: ReproducedRow) -> Finding | None:
    """Group the clusters of a row by purity, each with its most frequent type (Table 2).

    Args:
        row: the row, whose results hold the cluster and the type of each mention.

    Returns:
        The classes; None without a result.
    """
    result = next(iter(row.results.values()), None)
    if result is None:
        return None
    members: dict[int, list[str]] = {}
    for mention in result.predictions:
        members.setdefault(int(str(mention["cluster"])), []).append(str(mention["event_type"]))
    classes: dict[str, list[dict[str, object]]] = {name: [] for name in (*PURITY_CLASSES, SMALL)}
    for cluster in sorted(members):
        types = members[cluster]
        name, count = majority_type(types)
        purity = 100 * count / len(types)
        strength = next((one for one, least in PURITY_CLASSES.items() if purity > least))
        found = {"event_type": name, "mentions": len(types), "purity": round(purity, 1)}
        classes[SMALL if len(types) < 2 else strength].append(found)
    lines = [
        [
            cell(name),
            str(len(found)),
            cell(
                ", ".join(f"{one['event_type']} ({one['mentions']}, {one['purity']} %)" for one in found)
                or "–"
            ),
        ]
        for name, found in classes.items()
    ]
    header = ["purity", "clusters", "most frequent type (mentions, purity)"]
    section = f"## Clusters of {cell(row.paper.label)}\n\n{markdown_table(header, lines)}"
    return Finding("clusters", section, classes)
