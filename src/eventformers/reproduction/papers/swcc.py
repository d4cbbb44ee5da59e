"""The tables of SWCC (Gao et al., 2022): similarity, ablations and sweeps."""

from __future__ import annotations

from collections.abc import Mapping

from eventformers.reproduction.kinds import TrainedRow
from eventformers.reproduction.rows import PaperRow, PaperTable, main_score, published_row, with_each_other

SIMILARITY_TASKS = ("hard_similarity", "hard_similarity_extended", "transitive_similarity")


def _table(title: str, *rows: PaperRow, best: str = "SWCC") -> PaperTable:
    """Make a table whose best row, by its label, is compared with the others."""
    return PaperTable(
        f"SWCC (Gao et al., 2022), {title}",
        "swcc",
        tuple(map(main_score, SIMILARITY_TASKS)),
        rows,
        with_each_other(best, rows),
    )


def _sweep(
    letter: str, keys: tuple[str, ...], scores: Mapping[float, tuple[float, float, float]]
) -> list[PaperRow]:
    """Make one row for each value of a model setting, or of several with equal values."""
    name = keys[0].replace("_", "-")
    return [
        TrainedRow(
            f"{name}-{value}",
            f"{letter} = {value}",
            published,
            tuple(f"model.{key}={value}" for key in keys),
        )
        for value, published in scores.items()
    ]


_SWCC = TrainedRow("swcc", "SWCC", (80.9, 72.1, 0.82))

SWCC_TABLES: dict[str, PaperTable] = {
    "table1": _table(
        "Table 1: event similarity",
        published_row("Event-comp (Weber et al., 2018)", 33.9, 18.7, 0.57),
        published_row("Predicate Tensor (Weber et al., 2018)", 41.0, 25.6, 0.63),
        published_row("Role-factor Tensor (Weber et al., 2018)", 43.5, 20.7, 0.64),
        published_row("KGEB (Ding et al., 2016)", 52.6, 49.8, 0.61),
        published_row("NTN-IntSent (Ding et al., 2019)", 77.4, 62.8, 0.74),
        published_row("SAM-Net (Lv et al., 2019)", 51.3, 45.2, 0.59),
        published_row("FEEL (Lee and Goldwasser, 2018)", 58.7, 50.7, 0.67),
        published_row("UniFA-S (Zheng et al., 2020)", 78.3, 64.1, 0.75),
        _SWCC,
    ),
    "table2": _table(
        "Table 2: ablations",
        _SWCC,
        TrainedRow(
            "no-clustering",
            "without prototype-based clustering",
            (77.4, 67.4, 0.77),
            ("model.cluster_weight=0.0",),
        ),
        TrainedRow(
            "no-weak-supervision",
            "without weakly supervised contrast",
            (75.7, 65.1, 0.78),
            ("model.contrastive_objective=dropout_views",),
        ),
        TrainedRow("no-mlm", "without MLM", (77.4, 70.4, 0.80), ("model.mlm_weight=0.0",)),
        TrainedRow(
            "info-nce",
            "InfoNCE alone",
            (72.1, 63.4, 0.75),
            ("model.contrastive_objective=info_nce", "model.cluster_weight=0.0", "model.mlm_weight=0.0"),
        ),
        TrainedRow(
            "margin",
            "margin loss alone",
            (43.5, 51.4, 0.67),
            ("model.contrastive_objective=margin", "model.cluster_weight=0.0", "model.mlm_weight=0.0"),
        ),
    ),
    "table5": _table(
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
        best="τ = 0.3",
    ),
    "table6": _table(
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
        best="γ = 1.0",
    ),
    "table7": _table(
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
        best="β = 0.1",
    ),
}
"""The tables by name. Scores are percentages for hard similarity, Spearman's ρ for the transitive
sentences."""
