"""The rows of a reproduced table against one of them, question by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from eventformers.evaluation.data import load_data
from eventformers.evaluation.significance import CONFIDENCE, PairedComparison, compare_results
from eventformers.evaluation.tasks import TASKS
from eventformers.model_cards.markdown import cell
from eventformers.model_cards.markdown import table as markdown_table
from eventformers.reproduction.layout import Column
from eventformers.reproduction.table import Finding, Measurement, ReproducedRow, Reproduction

Comparisons = Mapping[str, Mapping[Column, PairedComparison]]


def compare_rows(call: Reproduction, rows: Sequence[ReproducedRow]) -> Finding | None:
    """Compare every row that has results with the reference of its table, by the paired bootstrap.

    Whole documents are resampled where the rows of the data tell theirs. A column of several splits is left
    out.

    Args:
        call: what the rows share.
        rows: the rows, with their results.

    Returns:
        The comparisons; None where the reference, or every other row, has no result.

    Raises:
        EventformersError: the data cannot be loaded, or a task does not tell what is right.
    """
    reference = next(row for row in rows if row.paper.label == call.table.reference)
    compared = {
        column: wanted
        for column, (wanted, *others) in ((one, of) for one, of in call.measurements.items() if of)
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


def _documents(call: Reproduction, wanted: Measurement) -> list[str] | None:
    """The document of each row that is scored; None where the data tell none."""
    rows = load_data(TASKS[wanted.task], call.evaluation_data, wanted.split, call.session.data).rows
    return list(rows["document_id"]) if "document_id" in rows.column_names else None
