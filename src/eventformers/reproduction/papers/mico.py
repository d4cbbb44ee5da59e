"""The tables of MICO (Su et al., 2022): questions, completion, and studies of k and the positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eventformers.reproduction.kinds import BaselineRow, TrainedRow
from eventformers.reproduction.rows import (
    Column,
    PaperRow,
    PaperTable,
    Published,
    published_row,
    with_each_other,
)

GRAPHS = {"ConceptNet": "conceptnet_inductive_pairs", "ATOMIC": "atomic_inductive_pairs"}
"""The config of each graph that a row can train on."""

COPA_ROWS = {"validation": 500, "test": 500}
"""The number of questions in each half of COPA."""

_BY_SPLIT = (
    Column("copa", "COPA dev", "accuracy", ("validation",), rows=COPA_ROWS),
    Column("copa", "COPA test", "accuracy", ("test",), rows=COPA_ROWS),
    Column("siqa", "SIQA dev", "accuracy", ("validation",)),
    Column("siqa", "SIQA test", "accuracy", ("test",), rows={"test": 2_059}),
    Column("csqa", "CSQA dev", "accuracy", ("validation",)),
)
_QUESTIONS = (
    # Section 5.2: the development and test sets of COPA together.
    Column("copa", "COPA", "accuracy", ("validation", "test"), rows=COPA_ROWS),
    Column("siqa", "SIQA dev", "accuracy", ("validation",)),
    Column("csqa", "CSQA dev", "accuracy", ("validation",)),
)
_COMPLETION = (
    Column("conceptnet_completion", "ConceptNet MRR", "mrr"),
    Column("conceptnet_completion", "ConceptNet Hits@10", "hits_at_10"),
    Column("atomic_completion", "ATOMIC MRR", "mrr"),
    Column("atomic_completion", "ATOMIC Hits@10", "hits_at_10"),
)


def _table(title: str, columns: tuple[Column, ...], *rows: PaperRow) -> PaperTable:
    return PaperTable(f"MICO (Su et al., 2022), {title}", "mico", columns, rows)


def _study(title: str, columns: tuple[Column, ...], *groups: Sequence[PaperRow]) -> PaperTable:
    """Make a table of groups of rows; the second row of each has the paper's settings and is compared."""
    table = _table(title, columns, *(row for group in groups for row in group))
    pairs = (pair for group in groups for pair in with_each_other(group[1].label, group))
    return replace(table, compared=tuple(pairs))


def _mico(
    graph: str,
    published: Published,
    what: str = "MICO",
    *,
    backbone: str = "",
    alternatives: int | None = None,
    positive: str = "",
    rerank: bool = False,
) -> PaperRow:
    """Make a row that trains on a graph; defaults keep the recipe's settings."""
    overrides = [f"data.config={GRAPHS[graph]}"]
    if alternatives is not None:
        overrides.append(f"views.num_alternatives={alternatives}")
    if positive:
        overrides.append(f"model.positive={positive}")
    parts = ("mico", graph.lower(), f"k{alternatives}" if alternatives else "", positive)
    return TrainedRow(
        "-".join(filter(None, parts)),
        f"{what}, {graph}" + (f" (paper: {backbone})" if backbone else ""),
        published,
        tuple(overrides),
        rerank=rerank,
    )


def _baseline(name: str, label: str, *published: float | None) -> PaperRow:
    return BaselineRow(name.replace("_", "-"), label, published, name)


def _sweep(graph: str, scores: dict[int, Published]) -> list[PaperRow]:
    """Make one row for each number of alternatives."""
    return [
        _mico(graph, published, f"k = {count}", backbone="BERT-base", alternatives=count, positive="hard")
        for count, published in scores.items()
    ]


def _positives(graph: str, random: Published, hard: Published) -> list[PaperRow]:
    return [
        _mico(graph, published, f"{kind} positive", backbone="BERT-base", alternatives=2, positive=kind)
        for kind, published in (("random", random), ("hard", hard))
    ]


MICO_TABLES: dict[str, PaperTable] = {
    "table2": _table(
        "Table 2: questions, zero-shot",
        _BY_SPLIT,
        _baseline("random", "choice at random", 50.0, 50.0, 33.3, 33.3, 25.0),
        _baseline("masked_lm", "masked language model (paper: RoBERTa-large)", 54.8, 58.4, 39.8, 40.1, 31.3),
        published_row("language model, GPT2-large", 62.4, 63.6, 42.8, 43.3, 40.4),
        published_row("self-talk (Shwartz et al., 2020)", 66.0, None, 46.2, 43.9, 32.4),
        published_row("Dou and Peng (2022), ALBERT-xxlarge", None, None, 44.1, 42.0, 50.9),
        published_row("KRL (Banerjee and Baral, 2020)", None, None, 46.6, 46.4, 36.8),
        published_row("COMET-DynaGen (Bosselut et al., 2021)", None, None, 50.1, 52.6, None),
        _mico("ConceptNet", (73.2, 75.2, 44.6, 45.4, 51.0), backbone="RoBERTa-large"),
        _mico("ATOMIC", (79.4, 77.4, 56.0, 57.4, 44.2), backbone="RoBERTa-large"),
    ),
    "table3": _table(
        "Table 3: inductive completion",
        _COMPLETION,
        _baseline("conve", "ConvE", 0.21, 0.40, 0.08, 0.09),
        _baseline("rotate", "RotatE", 0.32, 0.50, 0.10, 0.12),
        _baseline("complex", "ComplEx (not in the paper)"),
        published_row("Malaviya et al. (2020)", 12.29, 19.36, 0.02, 0.07),
        published_row("InductivE (Wang et al., 2021)", 18.15, 29.37, 2.51, 5.45),
        published_row("MICO, RoBERTa-base", 9.08, 18.73, 7.52, 14.46),
        published_row("MICO, RoBERTa-large", 10.92, 22.07, 8.13, 15.69),
        _mico("ConceptNet", (9.00, 19.06, None, None), backbone="BERT-base"),
        _mico("ATOMIC", (None, None, 7.07, 13.52), backbone="BERT-base"),
        *(
            _mico(graph, (), "MICO re-ranked by neighbours (beyond the paper)", rerank=True)
            for graph in GRAPHS
        ),
    ),
    "table4": _table(
        "Table 4: backbones",
        _QUESTIONS,
        published_row("BERT-base, untrained", 45.9, 37.1, 21.5),
        published_row("BERT-base, ConceptNet", 65.2, 39.1, 42.9),
        published_row("BERT-base, ATOMIC", 71.3, 48.9, 40.7),
        published_row("RoBERTa-base, untrained", 53.5, 38.4, 29.2),
        published_row("RoBERTa-base, ConceptNet", 67.7, 39.8, 44.7),
        published_row("RoBERTa-base, ATOMIC", 72.0, 51.9, 40.8),
        published_row("RoBERTa-large, untrained", 56.6, 39.8, 31.3),
        published_row("RoBERTa-large, ConceptNet", 74.2, 44.6, 51.0),
        published_row("RoBERTa-large, ATOMIC", 78.4, 56.0, 44.2),
        *(_mico(graph, (), "this encoder") for graph in GRAPHS),
    ),
    "table5": _study(
        "Table 5: number of alternatives k, questions",
        _QUESTIONS,
        _sweep(
            "ConceptNet",
            {1: (64.9, 39.3, 42.1), 2: (65.2, 39.1, 42.9), 3: (64.7, 39.2, 42.8), 4: (64.0, 39.8, 43.9)},
        ),
        _sweep(
            "ATOMIC",
            {1: (72.2, 48.2, 40.7), 2: (71.3, 48.9, 40.7), 3: (72.1, 48.9, 41.0), 4: (70.2, 49.2, 40.5)},
        ),
    ),
    "table6": _study(
        "Table 6: number of alternatives k, completion",
        _COMPLETION,
        _sweep(
            "ConceptNet",
            {
                1: (8.81, 18.82, None, None),
                2: (9.00, 19.06, None, None),
                3: (9.41, 19.65, None, None),
                4: (9.21, 19.22, None, None),
            },
        ),
        _sweep(
            "ATOMIC",
            {
                1: (None, None, 6.69, 12.78),
                2: (None, None, 7.07, 13.52),
                3: (None, None, 7.08, 13.46),
                4: (None, None, 7.14, 13.58),
            },
        ),
    ),
    "table7": _study(
        "Table 7: random or hard positive",
        _QUESTIONS,
        _positives("ConceptNet", random=(64.0, 38.3, 41.3), hard=(65.2, 39.1, 42.9)),
        _positives("ATOMIC", random=(71.1, 49.2, 40.3), hard=(71.3, 48.9, 40.7)),
    ),
}
"""The tables by name; all scores are percentages. The paper's completion scores are on the test splits."""
