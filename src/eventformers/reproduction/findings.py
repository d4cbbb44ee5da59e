"""Findings of a table beyond its scores: comparisons of rows, spread over runs, clusters by purity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from eventformers.evaluation.data import load_data
from eventformers.evaluation.significance import CONFIDENCE, PairedComparison, compare_results
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.inference.induction.type_naming import majority_type
from eventformers.model_cards.markdown import cell
from eventformers.model_cards.markdown import table as markdown_table
from eventformers.model_cards.scores import score_text
from eventformers.reproduction.layout import Column
from eventformers.reproduction.rows import ReproducedRow, Reproduction, ScoredSplit

Comparisons = Mapping[str, Mapping[Column, PairedComparison]]

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


def compare_rows(call: Reproduction, rows: Sequence[ReproducedRow]) -> Finding | None:
    """Compare every row that has results with the table's reference row, by the paired bootstrap.

    Whole documents are resampled if the data names them. A column over several splits is skipped.

    Args:
        call: what the rows share.
        rows: the rows, with their results.

    Returns:
        The comparisons; None if the reference, or every other row, has no result.

    Raises:
        EventformersError: the data cannot be loaded, or predictions do not say whether they are correct.
    """
    reference = next(row for row in rows if row.paper.label == call.table.reference)
    compared = {
        column: wanted
        for column, (wanted, *others) in ((one, of) for one, of in reference.columns.items() if of)
        if wanted in reference.results and not others
    }
    documents = {wanted: _documents(call, wanted) for wanted in compared.values()}
    comparisons = {
        row.paper.label: {
            column: compare_results(
                row.results[wanted], reference.results[wanted], clusters=documents[wanted]
            )
            for column, wanted in compared.items()
            if wanted in row.results
        }
        for row in rows
        if row is not reference and row.results
    }
    if not any(comparisons.values()):
        return None
    return Finding(
        "comparisons",
        _section(call.table.reference, list(compared), comparisons),
        {
            "reference": call.table.reference,
            "rows": {
                label: {column.key: asdict(one) for column, one in of_row.items()}
                for label, of_row in comparisons.items()
            },
        },
    )


def _section(reference: str, columns: Sequence[Column], comparisons: Comparisons) -> str:
    resamples = next(one.resamples for of_row in comparisons.values() for one in of_row.values())
    lines = [
        [cell(label), *(_text(of_row.get(column)) for column in columns)]
        for label, of_row in comparisons.items()
    ]
    note = (
        f"Percentage points ahead of it, with the {CONFIDENCE:.0%} interval and the one-sided p of a paired "
        f"bootstrap with {resamples:,} resamples: of whole documents, where the questions tell theirs."
    )
    header = ["model", *(cell(column.title) for column in columns)]
    return "\n\n".join([f"## Against {cell(reference)}", note, markdown_table(header, lines)])


def _text(compared: PairedComparison | None) -> str:
    if compared is None:
        return "–"
    p_value = "< 0.001" if compared.p_value < 0.001 else f"{compared.p_value:.3f}"
    return f"{compared.difference:+.1f} ({compared.low:+.1f} to {compared.high:+.1f}), p {p_value}"


def _documents(call: Reproduction, wanted: ScoredSplit) -> list[str] | None:
    """Read the document of each scored row; None if the data names no documents."""
    rows = load_data(TASKS[wanted.task], call.evaluation_data, wanted.split, call.session.data).rows
    return list(rows["document_id"]) if "document_id" in rows.column_names else None


def spread_of_runs(call: Reproduction, rows: Sequence[ReproducedRow]) -> Finding | None:
    """List the standard deviations over the runs of each averaged row; None for fewer than two runs."""
    spreads: dict[str, dict[str, float]] = {}
    lines = []
    for row in rows:
        texts = []
        for column, splits in row.columns.items():
            found = [row.results[one].details for one in splits if one in row.results]
            value = _spread(found[0], column.part).get(column.score) if found else None
            texts.append("–")
            if isinstance(value, (int, float)):
                spreads.setdefault(row.paper.label, {})[column.key] = value
                texts[-1] = score_text(value, column.score)
        if row.paper.label in spreads:
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


def _spread(details: Mapping[str, JsonValue], part: str) -> Mapping[str, JsonValue]:
    """Read the standard deviations from the details of a mean."""
    spread = details.get("spread")
    if part:
        of_parts = details.get("spread_of_parts")
        spread = of_parts.get(part) if isinstance(of_parts, dict) else None
    return spread if isinstance(spread, dict) else {}


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
