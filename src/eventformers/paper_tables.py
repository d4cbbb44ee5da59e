"""The tables of papers that we can fill: what each row changes, and what was published of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eventformers.errors import UnknownNameError

SIMILARITY_TASKS = ("hard_similarity", "hard_similarity_extended", "transitive_similarity")


@dataclass(frozen=True)
class PaperRow:
    """A row of a table.

    Attributes:
        slug: short name for folders; empty for a row that is only published.
        label: what stands in the first column.
        published: the paper's scores, one for each task of the table.
        overrides: recipe settings, `section.key=value`, that make this row; None for a system that is not
            ours to run, of which only the published scores are shown.
    """

    slug: str
    label: str
    published: tuple[float, ...]
    overrides: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper.

    Attributes:
        title: its title.
        method: the `model_type` that its rows train.
        tasks: the evaluation tasks of its columns.
        rows: its rows, in the paper's order.
    """

    title: str
    method: str
    tasks: tuple[str, ...]
    rows: tuple[PaperRow, ...]

    @property
    def own_rows(self) -> list[PaperRow]:
        """The rows that are trained here."""
        return [row for row in self.rows if row.overrides is not None]


def get_table(paper: str, table: str) -> PaperTable:
    """A table by the names of its paper and its number.

    Raises:
        UnknownNameError: there is no such paper, or it has no such table to fill.
    """
    if paper not in PAPERS:
        raise UnknownNameError("paper", paper, PAPERS)
    if table not in PAPERS[paper]:
        raise UnknownNameError(f"table of {paper}", table, PAPERS[paper])
    return PAPERS[paper][table]


def _published(label: str, *scores: float) -> PaperRow:
    return PaperRow("", label, scores, None)


def _swcc_table(title: str, *rows: PaperRow) -> PaperTable:
    return PaperTable(f"SWCC (Gao et al., 2022), {title}", "swcc", SIMILARITY_TASKS, rows)


def _sweep(
    letter: str, keys: tuple[str, ...], scores: Mapping[float, tuple[float, float, float]]
) -> list[PaperRow]:
    """One row for each value that a sweep gives to some settings of the model."""
    name = keys[0].replace("_", "-")
    return [
        PaperRow(
            f"{name}-{value}",
            f"{letter} = {value}",
            published,
            tuple(f"model.{key}={value}" for key in keys),
        )
        for value, published in scores.items()
    ]


_SWCC = PaperRow("swcc", "SWCC", (80.9, 72.1, 0.82))

PAPERS: dict[str, dict[str, PaperTable]] = {
    "swcc": {
        "table1": _swcc_table(
            "Table 1: event similarity",
            _published("Event-comp (Weber et al., 2018)", 33.9, 18.7, 0.57),
            _published("Predicate Tensor (Weber et al., 2018)", 41.0, 25.6, 0.63),
            _published("Role-factor Tensor (Weber et al., 2018)", 43.5, 20.7, 0.64),
            _published("KGEB (Ding et al., 2016)", 52.6, 49.8, 0.61),
            _published("NTN-IntSent (Ding et al., 2019)", 77.4, 62.8, 0.74),
            _published("SAM-Net (Lv et al., 2019)", 51.3, 45.2, 0.59),
            _published("FEEL (Lee and Goldwasser, 2018)", 58.7, 50.7, 0.67),
            _published("UniFA-S (Zheng et al., 2020)", 78.3, 64.1, 0.75),
            _SWCC,
        ),
        "table2": _swcc_table(
            "Table 2: ablations",
            _SWCC,
            PaperRow(
                "no-clustering",
                "without prototype-based clustering",
                (77.4, 67.4, 0.77),
                ("model.cluster_weight=0.0",),
            ),
            PaperRow(
                "no-weak-supervision",
                "without weakly supervised contrast",
                (75.7, 65.1, 0.78),
                ("model.contrastive_objective=dropout_views",),
            ),
            PaperRow("no-mlm", "without MLM", (77.4, 70.4, 0.80), ("model.mlm_weight=0.0",)),
            PaperRow(
                "info-nce",
                "InfoNCE alone",
                (72.1, 63.4, 0.75),
                ("model.contrastive_objective=info_nce", "model.cluster_weight=0.0", "model.mlm_weight=0.0"),
            ),
            PaperRow(
                "margin",
                "margin loss alone",
                (43.5, 51.4, 0.67),
                ("model.contrastive_objective=margin", "model.cluster_weight=0.0", "model.mlm_weight=0.0"),
            ),
        ),
        "table5": _swcc_table(
            "Table 5: temperature",
            *_sweep(
                "τ",
                ("contrastive_temperature", "cluster_temperature"),
                {
                    0.2: (80.0, 71.0, 0.80),
                    0.3: (80.9, 71.3, 0.82),
                    0.5: (77.4, 68.7, 0.78),
                    0.7: (72.2, 50.5, 0.75),
                    1.0: (48.7, 22.9, 0.67),
                },
            ),
        ),
        "table6": _swcc_table(
            "Table 6: weight of MLM",
            *_sweep(
                "γ",
                ("mlm_weight",),
                {
                    0.1: (76.5, 70.9, 0.80),
                    0.5: (79.1, 71.1, 0.81),
                    1.0: (80.9, 72.1, 0.82),
                    1.5: (80.9, 71.9, 0.81),
                    2.0: (80.9, 72.1, 0.80),
                },
            ),
        ),
        "table7": _swcc_table(
            "Table 7: weight of clustering",
            *_sweep(
                "β",
                ("cluster_weight",),
                {
                    0.01: (78.3, 71.6, 0.80),
                    0.05: (76.5, 71.6, 0.80),
                    0.1: (80.9, 72.1, 0.82),
                    0.3: (80.9, 71.3, 0.82),
                    0.5: (80.9, 73.1, 0.80),
                    0.7: (80.9, 72.8, 0.80),
                    1.0: (80.9, 72.1, 0.80),
                },
            ),
        ),
    },
}
"""The tables by paper and name. Scores are percentages for hard similarity, Spearman's ρ for the transitive
sentences."""
