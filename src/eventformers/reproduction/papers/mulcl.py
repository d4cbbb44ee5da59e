"""The tables and figures of MulCL (Zheng et al., 2022): inference, similarity, ablations, hops, degrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eventformers.evaluation.tasks.chains import PUBLISHED_INFERENCE
from eventformers.reproduction.kinds import BaselineRow, TrainedRow
from eventformers.reproduction.rows import (
    UNTRAINED,
    Column,
    Drawing,
    PaperRow,
    PaperTable,
    Published,
    main_score,
    published_row,
    with_each_other,
)

SIMILARITY_TASKS = ("hard_similarity", "hard_similarity_extended", "transitive_similarity")

_INFERENCE = (
    Column("mcnc", "MCNC", "accuracy"),
    Column("mcns_v", "MCNS-V", "accuracy"),
    Column("multistep_base", "Base", "accuracy"),
    Column("multistep_sky", "Sky", "accuracy"),
    Column("mcne_v", "MCNE-V", "accuracy"),
)
_SIMILARITY = tuple(map(main_score, SIMILARITY_TASKS))
# Not in the paper: the cloze of Weber et al. (2018), where the number of choices varies by document.
_DOCUMENTS = (
    Column("variable_mcnc", "MCNC of documents", "accuracy"),
    Column("coherent_mcnc", "coherent MCNC", "accuracy"),
)

_HETEREVENT = "HeterEvent [W+E]"
_MULCL = "MulCL [W+E]"
_LEVELS = {"W": "words", "E": "events", "W+E": "words_and_events"}
_SUPERVISED_ALONE = "stages=[supervised]"
_SINGLE_EVENT_HOPS = 1
"""Number of graph layers with which the paper reads single events (Figure 3)."""

_PUBLISHED_INFERENCE: dict[str, Published] = {
    **PUBLISHED_INFERENCE,
    "order": (66.5, 64.0, 54.9, 67.3, 65.1),
    "replacement": (66.6, 64.1, 54.7, 67.3, 65.0),
    "composition": (65.9, 63.5, 54.1, 66.9, 64.7),
    "normal-corrupted": (65.0, 61.3, 52.0, 66.1, 62.5),
    "corrupted-corrupted": (64.5, 60.7, 51.7, 65.9, 62.2),
}
_PUBLISHED_SIMILARITY: dict[str, Published] = {
    "Event-comp": (33.9, 18.7, 0.57),
    "Role-factor tensor": (43.5, 20.7, 0.64),
    "EventTransE": (53.7, 48.1, 0.65),
    "SAM-Net": (51.3, 45.2, 0.59),
    "FEEL": (58.7, 50.7, 0.67),
    "IntSent": (77.4, 62.8, 0.74),
    "UniFA-S": (78.3, 64.1, 0.75),
    "HeterEvent [W]": (76.1, 61.3, 0.70),
    "HeterEvent [E]": (76.8, 62.0, 0.72),
    _HETEREVENT: (76.6, 62.3, 0.73),
    "MulCL [W]": (77.7, 63.1, 0.73),
    "MulCL [E]": (78.5, 63.9, 0.75),
    _MULCL: (78.3, 64.3, 0.76),
    "order": (77.0, 62.8, 0.74),
    "replacement": (77.3, 63.0, 0.75),
    "composition": (76.8, 62.5, 0.73),
    "normal-corrupted": (77.9, 63.8, 0.76),
    "corrupted-corrupted": (77.4, 63.5, 0.75),
}

_CITED = ("EventTransE", "SAM-Net", "FEEL", "IntSent", "UniFA-S")
_BASELINES = {
    "random": "choice at random",
    "ppmi": "PPMI",
    "bigram": "bigram",
    "word2vec": "Word2Vec",
    "event_comp": "Event-comp",
    "role_factor_tensor": "Role-factor tensor",
    "predicate_tensor": "Predicate tensor",
    UNTRAINED: "untrained encoder",
}
"""The baselines that we measure; the paper has only Event-comp and the role-factor tensor."""
_WITHOUT_VECTORS = ("random", "ppmi", "bigram")
"""The baselines that only score chains."""


def _table(
    title: str,
    columns: tuple[Column, ...],
    *rows: PaperRow,
    figure: Drawing | None = None,
) -> PaperTable:
    """Make a table that compares the paper's best model with each other row, unless it is a figure."""
    compared = () if figure else with_each_other(_MULCL, rows)
    title = f"MulCL (Zheng et al., 2022), {title}"
    return PaperTable(title, "heterevent", columns, rows, compared, figure=figure)


def _scores(published: Mapping[str, Published], label: str, columns: tuple[Column, ...]) -> Published:
    """Return a system's published scores, with None for columns that the paper lacks."""
    scores = published.get(label, ())
    return (*scores, *[None] * (len(columns) - len(scores)))


def _model(
    name: str, level: str, published: Published, *, context_layers: int = 0, note: str = "", hops: int = 0
) -> PaperRow:
    """Make a row of MulCL or of HeterEvent, which is not pretrained; defaults keep the recipe's settings."""
    overrides = [_SUPERVISED_ALONE] if name == "HeterEvent" else []
    if hops:
        overrides.append(f"model.num_graph_layers={hops}")
    overrides.append(f"supervised.model.training_level={_LEVELS[level]}")
    slug = f"{name}-{level}{f'-hops-{hops}' if hops else ''}".lower().replace("+", "")
    return TrainedRow(
        slug,
        f"{name} [{level}]{note}",
        published,
        tuple(overrides),
        context_layers=context_layers,
        # Without pretraining the supervised stage may need more steps than after it.
        variant="heterevent" if name == "HeterEvent" else "",
    )


def _models(
    published: Mapping[str, Published],
    columns: tuple[Column, ...],
    *,
    context_layers: int = 0,
    note: str = "",
) -> list[PaperRow]:
    """Make rows for HeterEvent and MulCL, each trained on words, on events and on both."""
    return [
        _model(
            name,
            level,
            () if note else _scores(published, f"{name} [{level}]", columns),
            context_layers=context_layers,
            note=note,
        )
        for name in ("HeterEvent", "MulCL")
        for level in _LEVELS
    ]


def _ablations(
    published: Mapping[str, Published], columns: tuple[Column, ...], *, context_layers: int = 0
) -> list[PaperRow]:
    """Make rows for MulCL [W+E] and for each of its contrasts removed."""
    return [
        _model("MulCL", "W+E", published[_MULCL], context_layers=context_layers),
        *(
            TrainedRow(
                f"without-{contrast}",
                f"without {contrast} contrast",
                published[contrast],
                (
                    f"model.{contrast.replace('-', '_')}_weight=0.0",
                    f"supervised.model.training_level={_LEVELS['W+E']}",
                ),
                context_layers=context_layers,
            )
            for contrast in ("order", "replacement", "composition", "normal-corrupted", "corrupted-corrupted")
        ),
    ]


def _cited(published: Mapping[str, Published], columns: tuple[Column, ...]) -> list[PaperRow]:
    return [published_row(label, *_scores(published, label, columns)) for label in _CITED]


def _baselines(
    published: Mapping[str, Published], columns: tuple[Column, ...], without: tuple[str, ...] = ()
) -> list[PaperRow]:
    return [
        BaselineRow(name.replace("_", "-"), label, _scores(published, label, columns), name)
        for name, label in _BASELINES.items()
        if name not in without
    ]


_ZERO_SHOT = TrainedRow(
    "swcc",
    "SWCC, zero-shot (not in the paper)",
    (),
    # Training on the documents of the questions would reveal which events go together.
    ("data.document_split=train",),
    method="swcc",
)

_NUMBERS_OF_HOPS = (1, 2, 3, 4)


def _with_hops(hops: int) -> str:
    return f", {hops} hop{'s' if hops > 1 else ''}"


_HOPS = [
    _model(name, "W+E", (), context_layers=hops, hops=hops, note=_with_hops(hops))
    for name in ("HeterEvent", "MulCL")
    for hops in _NUMBERS_OF_HOPS
]
"""HeterEvent [W+E] and MulCL [W+E] with 1 to 4 graph layers, also for single events."""


def _drawn_claims(*, best: int) -> tuple[tuple[str, str], ...]:
    """List what Figure 3 draws: the best number of hops of both models, and MulCL ahead at each number."""
    return (
        *(
            (model + _with_hops(best), model + _with_hops(hops))
            for model in (_HETEREVENT, _MULCL)
            for hops in _NUMBERS_OF_HOPS
            if hops != best
        ),
        *((_MULCL + _with_hops(hops), _HETEREVENT + _with_hops(hops)) for hops in _NUMBERS_OF_HOPS),
    )


_TABLE_1 = (*_INFERENCE, *_DOCUMENTS)

MULCL_TABLES: dict[str, PaperTable] = {
    "table1": _table(
        "Table 1: inference",
        _TABLE_1,
        *_baselines(_PUBLISHED_INFERENCE, _TABLE_1),
        _ZERO_SHOT,
        *_cited(_PUBLISHED_INFERENCE, _TABLE_1),
        *_models(_PUBLISHED_INFERENCE, _TABLE_1),
    ),
    "table2": _table(
        "Table 2: similarity",
        _SIMILARITY,
        *_baselines(_PUBLISHED_SIMILARITY, _SIMILARITY, _WITHOUT_VECTORS),
        _ZERO_SHOT,
        *_cited(_PUBLISHED_SIMILARITY, _SIMILARITY),
        *_models(_PUBLISHED_SIMILARITY, _SIMILARITY, context_layers=_SINGLE_EVENT_HOPS),
        *_models(_PUBLISHED_SIMILARITY, _SIMILARITY, note=", events read alone (beyond the paper)"),
    ),
    "table3": _table(
        "Table 3: ablations, inference", _INFERENCE, *_ablations(_PUBLISHED_INFERENCE, _INFERENCE)
    ),
    "table4": _table(
        "Table 4: ablations, similarity",
        _SIMILARITY,
        *_ablations(_PUBLISHED_SIMILARITY, _SIMILARITY, context_layers=_SINGLE_EVENT_HOPS),
    ),
    "figure3": replace(
        _table("Figure 3: number of hops", (*_INFERENCE, *_SIMILARITY), *_HOPS, figure="hops"),
        drawn={
            **dict.fromkeys(_INFERENCE, _drawn_claims(best=3)),
            **dict.fromkeys(_SIMILARITY, _drawn_claims(best=1)),
        },
    ),
    "figure4": _table(
        "Figure 4: average node degree",
        _INFERENCE,
        _model("HeterEvent", "W+E", _PUBLISHED_INFERENCE[_HETEREVENT]),
        _model("MulCL", "W+E", _PUBLISHED_INFERENCE[_MULCL]),
        figure="degree",
    ),
}
"""The tables by name. Scores are accuracies in percent, except Spearman's ρ for the transitive sentences."""
