"""The tables of hierarchical event grounding (Ou et al., 2023): linking, parents, Wikinews and languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, get_args

from eventformers.evaluation.tasks.grounding_protocols import DataTask, Domain, GroundingSettings
from eventformers.reproduction.grounding import GroundingRow
from eventformers.reproduction.papers.grounding_languages import PUBLISHED_LANGUAGES
from eventformers.reproduction.rows import UNTRAINED, Column, Drawing, PaperTable, Published


class _System(NamedTuple):
    """A system of the paper: its label, the ending of its recipes, and their first stages."""

    label: str
    variant: str
    stages: tuple[str, ...]


_SYSTEMS = {
    "baseline": _System("(a) Baseline", "baseline", ("linking",)),
    "hp": _System("(b) + HP", "", ("hierarchy", "linking")),
    "hjl": _System("(c) + HJL", "joint", ("joint",)),
    "hp-hjl": _System("(d) + HP + HJL", "pretrained-joint", ("hierarchy", "joint")),
}
_BASELINES = {UNTRAINED: "untrained encoder", "bm25": "BM25"}
_RECIPES = {"mentions": "paper-multilingual", "samples": "minilm-current-events"}

_SPLITS = {"dev": ("validation",), "test": ("test",)}
# Table 1.
_WIKIPEDIA_ROWS = {"validation": 93_047, "test": 91_928}
_WIKINEWS_ROWS = {"test": 258}
_RECALL = ("event_retrieval", "Recall@min", "recall_at_min", "")
_STRICT = ("event_linking", "strict accuracy", "strict_accuracy", "")
_TOP_MIN = ("event_linking", "strict accuracy (top min)", "strict_accuracy", "top_min")
_MACRO = ("event_linking", "macro F1", "macro_f1", "")
_MICRO = ("event_linking", "micro F1", "micro_f1", "")


def _by_split(*told: tuple[str, str, str, str]) -> tuple[Column, ...]:
    """Make columns of each score on development and test mentions."""
    return tuple(
        Column(task, f"{title} {name}", score, splits, part, rows=_WIKIPEDIA_ROWS)
        for task, title, score, part in told
        for name, splits in _SPLITS.items()
    )


def _on_test(*told: tuple[str, str, str, str], rows: Mapping[str, int]) -> tuple[Column, ...]:
    splits = _SPLITS["test"]
    return tuple(Column(task, title, score, splits, part, rows=rows) for task, title, score, part in told)


_LINKING = _by_split(_RECALL, _STRICT, _TOP_MIN, _MACRO, _MICRO)
_PARENTS = _by_split(*(("parent_discovery", f"R@{depth}", f"hits_at_{depth}", "") for depth in (1, 4, 8, 16)))
_WIKINEWS = _on_test(_RECALL, _STRICT, _MACRO, _MICRO, rows=_WIKINEWS_ROWS)
_LANGUAGES = _on_test(
    *(("event_retrieval", "mentions", "mentions", ""), _RECALL, _STRICT, _MACRO, _MICRO), rows=_WIKIPEDIA_ROWS
)

_RECALL_AT = (4, 8, 16)
_CANDIDATES = tuple(
    Column("event_retrieval", title, score, _SPLITS["dev"], rows=_WIKIPEDIA_ROWS)
    for title, score in (
        ("Recall@min", "recall_at_min"),
        *((f"Recall@{number}", f"recall_at_{number}") for number in _RECALL_AT),
        *((f"atomic, Recall@{number}", f"atomic_at_{number}") for number in _RECALL_AT),
    )
)


def _system(
    name: str,
    task: DataTask,
    published: Published,
    *,
    domain: Domain = "wikipedia",
    language: str = "",
    title: str = "",
) -> GroundingRow:
    """Make the row of a system on one of the two tasks, optionally in one language."""
    system = _SYSTEMS[name]
    parts = (task, name, "" if domain == "wikipedia" else domain, language)
    return GroundingRow(
        "-".join(filter(None, parts)),
        title or f"{system.label}, {task}",
        published,
        variant=system.variant,
        stages=system.stages,
        grounding=GroundingSettings(task=task, domain=domain),
        part=language,
    )


def _baselines(task: DataTask, domain: Domain = "wikipedia") -> list[GroundingRow]:
    """Make rows for the encoder that the systems start from and for BM25; the paper has neither."""
    return [
        GroundingRow(
            "-".join(filter(None, (task, name, "" if domain == "wikipedia" else domain))),
            f"{label}, {task} (not in the paper)",
            (),
            baseline=name,
            grounding=GroundingSettings(task=task, domain=domain),
        )
        for name, label in _BASELINES.items()
    ]


def _table(
    title: str, columns: tuple[Column, ...], *rows: GroundingRow, figure: Drawing | None = None
) -> PaperTable:
    """Make a table that compares each system with the system Baseline on its task, where it has one."""
    labels = [row.label for row in rows]
    pairs = (
        (row.label, f"{_SYSTEMS['baseline'].label}, {row.grounding.task}") for row in rows if not row.baseline
    )
    return PaperTable(
        f"Hierarchical event grounding (Ou et al., 2023), {title}",
        "event_grounding",
        columns,
        rows,
        tuple((label, other) for label, other in pairs if other in labels and other != label),
        figure=figure,
        recipes=_RECIPES,
    )


def _systems(
    task: DataTask, published: Mapping[str, Published], *, domain: Domain = "wikipedia"
) -> list[GroundingRow]:
    """Make rows for the baselines and for the systems in the paper's table."""
    systems = [_system(name, task, scores, domain=domain) for name, scores in published.items()]
    return [*_baselines(task, domain), *systems]


def _all_systems(task: DataTask, published: Mapping[str, Published]) -> list[GroundingRow]:
    """Make rows for all four systems, of which the paper's table may have only some."""
    return _systems(task, {name: published.get(name, ()) for name in _SYSTEMS})


def _languages(name: str, task: DataTask, whole: Published) -> list[GroundingRow]:
    """Make rows for the best system of a task, in all languages and in each of the paper's."""
    label = _SYSTEMS[name].label
    rows = [_system(name, task, whole, title=f"{label}, all languages")]
    for language, of in PUBLISHED_LANGUAGES.items():
        scores = of.multilingual if task == "multilingual" else of.crosslingual
        rows.append(_system(name, task, (of.mentions, *scores), language=language, title=of.name))
    return [*_baselines(task), *rows]


GROUNDING_TABLES: dict[str, PaperTable] = {
    "table2": _table(
        "Table 2: retrieval and linking",
        _LINKING,
        *_all_systems(
            "multilingual",
            {
                "baseline": (65.4, 54.8, 34.4, 37.6, 57.8, 59.5, 56.4, 62.8, 53.0, 58.3),
                "hp": (71.3, 58.1, 40.4, 39.2, 61.7, 60.3, 60.8, 62.0, 57.5, 58.7),
                "hjl": (63.3, 51.4, 43.6, 40.2, 63.6, 60.8, 62.1, 60.1, 59.2, 57.5),
                "hp-hjl": (67.6, 55.2, 38.2, 39.9, 60.4, 60.6, 57.6, 61.4, 54.7, 57.8),
            },
        ),
        *_all_systems(
            "crosslingual",
            {
                "baseline": (53.8, 32.8, 8.5, 11.9, 21.2, 27.5, 22.1, 28.8, 23.6, 29.2),
                "hp": (59.7, 37.0, 8.6, 10.9, 18.6, 25.7, 22.3, 28.0, 24.0, 28.9),
                "hjl": (51.6, 33.3, 9.7, 12.0, 22.3, 26.1, 21.6, 28.1, 23.4, 29.4),
                "hp-hjl": (55.8, 38.8, 9.6, 13.1, 23.0, 28.0, 25.7, 34.3, 27.3, 33.1),
            },
        ),
    ),
    "table3": _table(
        "Table 3: parents of events",
        _PARENTS,
        *_all_systems("multilingual", {"hp": (46.0, 45.1, 69.0, 72.6, 76.6, 81.3, 79.6, 84.6)}),
        *_all_systems("crosslingual", {"hp": (52.0, 37.4, 78.3, 60.5, 86.2, 75.6, 90.8, 83.9)}),
    ),
    "table4": _table(
        "Table 4: Wikinews",
        _WIKINEWS,
        *_systems(
            "multilingual",
            {"baseline": (68.6, 51.7, 67.2, 62.0), "hjl": (67.4, 55.8, 65.3, 62.7)},
            domain="wikinews",
        ),
        *_systems(
            "crosslingual",
            {"baseline": (51.2, 15.3, 29.8, 30.0), "hp-hjl": (53.7, 21.1, 37.6, 35.7)},
            domain="wikinews",
        ),
    ),
    "table5": _table(
        "Table 5: languages, multilingual",
        _LANGUAGES,
        # The scores for all languages are from Table 2, the number of mentions from Table 1.
        *_languages("hjl", "multilingual", (91_928, 51.4, 40.2, 60.1, 57.5)),
    ),
    "table6": _table(
        "Table 6: languages, crosslingual",
        _LANGUAGES,
        *_languages("hp-hjl", "crosslingual", (91_928, 38.8, 13.1, 34.3, 33.1)),
    ),
    **{
        f"figure{number}": _table(
            f"Figure {number}: recall by candidates, {task}",
            _CANDIDATES,
            *_all_systems(task, {}),
            figure="recall",
        )
        for number, task in enumerate(get_args(DataTask), start=3)
    },
}
"""The tables and figures by name; scores are percentages. The paper gives no numbers for its figures."""
