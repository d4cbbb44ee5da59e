"""The tables of event type induction (Edwards and Ji, 2023): clusters, their purity, names and frames."""

from __future__ import annotations

from dataclasses import replace

from eventformers.evaluation.tasks.induction_protocols import InductionSettings
from eventformers.reproduction.kinds import ReadingRow
from eventformers.reproduction.rows import Column, PaperRow, PaperTable, Published, published_row

RUNS = 5
"""Number of runs of an average or an ensemble."""

RECIPES = {"ace2005": "paper", "mentions": "minilm-geneva", "samples": "demo"}

_CLUSTERS = Column("type_induction", "clusters", "num_clusters", compared=False)
_INDUCTION = (
    _CLUSTERS,
    *(
        Column("type_induction", title, score)
        for title, score in (
            ("gNMI", "nmi"),
            ("FM", "fowlkes_mallows"),
            ("completeness", "completeness"),
            ("homogeneity", "homogeneity"),
            ("V-measure", "v_measure"),
            ("ARI", "ari"),
        )
    ),
)

_VECTORS = InductionSettings(manifold=False)
_VECTORS_ON_MANIFOLD = InductionSettings(manifold=True)
_COSINE = InductionSettings(distance="cosine", manifold=False)
_DOT = InductionSettings(distance="dot", manifold=False)
_COSINE_ON_MANIFOLD = InductionSettings(distance="cosine", manifold=True)
_AFFINITY = InductionSettings(distance="cosine", manifold=False, method="affinity")


def _untrained(slug: str, label: str, published: Published, reading: InductionSettings) -> ReadingRow:
    return ReadingRow(slug, label, published, reading=reading, overrides=None)


def _mean(slug: str, label: str, published: Published, reading: InductionSettings) -> ReadingRow:
    return ReadingRow(slug, label, published, reading=reading, averaged=True)


def _ensemble(slug: str, label: str, published: Published, reading: InductionSettings) -> ReadingRow:
    return ReadingRow(f"ensemble-{slug}", f"E-{label}", published, reading=reading, ensemble=True)


def _table(
    title: str,
    columns: tuple[Column, ...],
    *rows: PaperRow,
    compared: tuple[tuple[str, str], ...] = (),
    lists_clusters: bool = False,
) -> PaperTable:
    return PaperTable(
        f"Event type induction (Edwards and Ji, 2023), {title}",
        "event_type_induction",
        columns,
        rows,
        compared,
        runs=RUNS,
        recipes=RECIPES,
        lists_clusters=lists_clusters,
    )


_BEST_ENSEMBLE = _ensemble(
    "ft-sbert-manifold",
    "FT-SBERT+Manifold",
    (23, 63.56, 52.10, 63.11, 64.01, 63.56, 48.85),
    _VECTORS_ON_MANIFOLD,
)


def _labels_columns(task: str, other: str) -> tuple[Column, ...]:
    """Make the columns of Tables 3 and 4; the misprinted header of Table 4 means the hits of Table 3."""
    hits = tuple(Column(task, f"Hits@{depth}", f"hits_at_{depth}") for depth in (1, 3, 5, 10, 15))
    return (
        Column(task, "mean rank", "mean_rank"),
        *hits,
        Column(task, f"MRR of {other}", "mrr"),
        Column(task, "purity", "purity"),
        Column(task, "types represented", "type_representation"),
    )


_PREDICTED = InductionSettings(clusters="predicted")
_FIFTY = InductionSettings(clusters="predicted", num_clusters=50)
_TRUE = InductionSettings(clusters="true")


_TRAINED_OR_NOT = tuple((f"{prefix}FT-23", f"{prefix}Default-23") for prefix in ("", "E-", "Perfect-"))
"""The comparisons of Tables 3 and 4."""


def _labels_rows(weight: str, published: dict[str, Published]) -> list[ReadingRow]:
    """Make the rows of Tables 3 and 4.

    `Default` rows have centroids of the untrained encoder; `FT` rows have centroids of an encoder trained
    with the auxiliary loss of this weight.
    """
    overrides = (f"model.{weight}=1.0",)
    slug = weight.removesuffix("_weight").replace("_", "-")
    rows = {
        label: ReadingRow(
            f"{prefix}{slug}-{ending}",
            label,
            published[label],
            reading=reading,
            overrides=trained,
            averaged=trained is not None and not label.startswith("E-"),
            ensemble=label.startswith("E-"),
        )
        for label, prefix, ending, reading, trained in (
            ("FT-23", "", "23", _PREDICTED, overrides),
            ("E-FT-23", "ensemble-", "23", _PREDICTED, overrides),
            ("Perfect-FT-23", "perfect-", "23", _TRUE, overrides),
            ("Default-23", "", "default-23", _PREDICTED, None),
            ("E-Default-23", "", "e-default-23", _PREDICTED, None),
            ("E-Default-50", "", "e-default-50", _FIFTY, None),
            ("Perfect-Default-23", "", "perfect-default-23", _TRUE, None),
        )
        if label in published
    }
    return [rows[label] for label in published]


TYPE_INDUCTION_TABLES: dict[str, PaperTable] = {
    "table1": _table(
        "Table 1: new event types",
        _INDUCTION,
        _untrained(
            "one-cluster",
            "One cluster",
            (1, 0.00, 25.58, 100.00, 0.00, 0.00, 0.00),
            InductionSettings(num_clusters=1),
        ),
        published_row(
            "SS-VQ-VAE without VAE (Huang, Ji, 2020)", 500, 33.45, 25.54, 42.76, 26.17, 32.47, None
        ),
        published_row("SS-VQ-VAE (Huang, Ji, 2020)", 500, 40.88, 31.46, 53.57, 31.19, 39.43, None),
        _untrained("sbert", "SBERT+Agglo", (23, 50.71, 34.35, 57.05, 45.07, 50.36, 24.02), _VECTORS),
        _untrained(
            "sbert-manifold",
            "SBERT+Manifold+Agglo",
            (23, 48.75, 36.02, 51.32, 46.30, 48.68, 30.21),
            _VECTORS_ON_MANIFOLD,
        ),
        _mean("cosine", "Cosine+Agglo", (23, 46.40, 34.60, 49.82, 43.24, 46.27, 26.69), _COSINE),
        _mean("dot", "DotProduct+Agglo", (23, 50.17, 37.48, 53.50, 47.06, 50.06, 30.13), _DOT),
        _mean(
            "manifold", "Manifold+Agglo", (23, 54.83, 42.77, 55.00, 54.67, 54.82, 38.74), _COSINE_ON_MANIFOLD
        ),
        _mean(
            "ft-sbert-manifold",
            "FT-SBERT+Manifold",
            (23, 60.28, 50.63, 60.19, 60.37, 60.28, 47.24),
            _VECTORS_ON_MANIFOLD,
        ),
        _ensemble("dot", "DotProduct+Agglo", (23, 56.50, 43.26, 59.62, 53.54, 56.41, 37.02), _DOT),
        _ensemble(
            "manifold", "Manifold+Agglo", (23, 59.00, 46.19, 58.36, 59.66, 59.00, 42.56), _COSINE_ON_MANIFOLD
        ),
        _BEST_ENSEMBLE,
        # The paper gives 49 to 68 clusters.
        _mean("affinity", "Cosine+Affinity", (None, 56.87, 35.64, 49.58, 65.26, 56.33, 30.02), _AFFINITY),
        _ensemble("affinity", "Cosine+Affinity", (63, 60.00, 38.41, 51.32, 70.15, 59.28, 31.78), _AFFINITY),
        _untrained(
            "trigger",
            "SBERT+Agglo, tokens of the trigger (not in the paper)",
            (),
            InductionSettings(manifold=False, trigger_input="span"),
        ),
        _untrained(
            "trigger-manifold",
            "SBERT+Manifold+Agglo, tokens of the trigger (not in the paper)",
            (),
            InductionSettings(manifold=True, trigger_input="span"),
        ),
        compared=(
            ("SBERT+Agglo", "One cluster"),
            ("SBERT+Manifold+Agglo", "SBERT+Agglo"),
            ("Manifold+Agglo", "Cosine+Agglo"),
            ("FT-SBERT+Manifold", "SBERT+Manifold+Agglo"),
            ("FT-SBERT+Manifold", "Manifold+Agglo"),
            *(
                (f"E-{label}", label)
                for label in ("DotProduct+Agglo", "Manifold+Agglo", "FT-SBERT+Manifold", "Cosine+Affinity")
            ),
        ),
    ),
    "table2": _table(
        "Table 2: clusters by purity",
        (
            _CLUSTERS,
            Column("type_induction", "purity", "purity"),
            Column("type_induction", "types represented", "type_representation"),
        ),
        # Purity and types represented are from Table 3.
        replace(_BEST_ENSEMBLE, published=(23, 68.6, 69.6)),
        lists_clusters=True,
    ),
    "table3": _table(
        "Table 3: names of clusters",
        _labels_columns("type_naming", "names"),
        *_labels_rows(
            "type_name_weight",
            {
                "Default-23": (5.17, 34.8, 47.8, 60.9, 82.6, 100.0, 47.7, 25.0, 47.8),
                "FT-23": (4.43, 56.5, 65.2, 78.2, 82.6, 91.3, 66.0, 58.9, 65.2),
                "E-Default-23": (3.65, 60.9, 69.6, 69.6, 95.7, 100.0, 67.9, 68.6, 69.6),
                "E-FT-23": (5.13, 56.5, 65.2, 69.6, 87.0, 87.0, 65.0, 68.6, 69.6),
                "E-Default-50": (4.40, 56.0, 60.0, 68.0, 90.0, 96.0, 63.0, 69.3, 82.6),
                "Perfect-Default-23": (2.30, 69.6, 73.9, 82.6, 95.7, 100.0, 75.8, 100.0, 100.0),
                "Perfect-FT-23": (2.83, 73.9, 82.6, 91.3, 91.3, 95.7, 80.0, 100.0, 100.0),
            },
        ),
        compared=_TRAINED_OR_NOT,
    ),
    "table4": _table(
        "Table 4: frames of clusters",
        _labels_columns("frame_linking", "frames"),
        *_labels_rows(
            "frame_weight",
            {
                "Default-23": (95.9, 4.3, 21.7, 26.1, 30.4, 34.8, 12.8, 25.0, 47.8),
                "FT-23": (156.9, 30.4, 30.4, 34.8, 43.5, 47.8, 33.6, 57.4, 65.2),
                "E-Default-23": (72.7, 17.4, 30.4, 39.1, 47.8, 65.2, 26.4, 68.6, 69.6),
                "E-FT-23": (115.7, 21.7, 34.8, 34.8, 43.5, 52.2, 30.8, 68.6, 69.6),
                "Perfect-Default-23": (15.9, 26.1, 39.1, 52.2, 65.2, 73.9, 37.4, 100.0, 100.0),
                "Perfect-FT-23": (42.7, 47.8, 56.5, 60.9, 69.6, 69.6, 53.9, 100.0, 100.0),
            },
        ),
        compared=_TRAINED_OR_NOT,
    ),
}
"""The tables by name. Scores are percentages, except numbers of clusters and mean ranks. Rows of a single run
in Tables 3 and 4 use the first seed."""
