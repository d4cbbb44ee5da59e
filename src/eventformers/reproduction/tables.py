"""The tables of papers as data: their columns and rows, read from one YAML file for each paper.

A file has these keys:

- `title` and `method`: the paper, and the `model_type` that its rows train.
- `runs` and `recipes`: as in `PaperTable`; optional.
- `columns`: lists of columns by name, with the keys of `Column`. The title is by default that of the task,
  and the score the task's main score.
- `rows`: rows that several tables have, by name, with the keys of a row.
- `tables`: by name, with `title`, the names of `columns`, `rows`, and the other keys of `PaperTable`.
  `compared` may also be the label of a row, which is compared with each other row that is run.

A row has these keys beside those of `PaperRow`:

- `row`: the name of a row in `rows`, or several, whose keys it takes over.
- `published`: the paper's scores, `~` for a missing one: a list for all columns of the table, or by name of
  columns a list or a single score. They are added to those of `row`; `published: ~` drops those.
- `recipe` and `system`: names that fill missing scores: of recipes, whose `expected` they are, and of systems
  in the `published` scores of tasks. So each number of a paper stands in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml

from eventformers.datasets_scripts.reading.lines import parse_yaml, read_regular_text
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError, shown
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.base import TaskSettings
from eventformers.methods import all_methods, load_method, main_methods
from eventformers.model_cards.scores import score_range
from eventformers.strict import check_types, several
from eventformers.trainers.recipes import load_recipe

UNTRAINED = "untrained"
"""The baseline of a row that measures the encoder that the other rows start from."""


@dataclass(frozen=True)
class Column:
    """A column of scores.

    Attributes:
        score: the key of the metric's scores, or of a result's details.
        splits: the splits to score together, as far as the data has them; empty takes the data's usual split.
        part: the part of a result that holds the score, such as `top_min`; empty for all rows.
        compared: compare rows in this column; False for one that describes them, as a number of clusters.
        rows: the number of the paper's rows by split, where the task has them for another split alone.
    """

    task: str
    title: str
    score: str
    splits: tuple[str, ...] = ()
    part: str = ""
    compared: bool = True
    rows: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """The name in files: the task, and what differs from its main score on the usual split."""
        score = "" if self.score == TASKS[self.task].main_score else self.score
        return " ".join(filter(None, (self.task, self.part, score, "+".join(self.splits))))


@dataclass(frozen=True)
class PaperRow:
    """A row of a table.

    A row with a `baseline` measures it; any other row that is run trains models.

    Attributes:
        label: text of the first column.
        slug: short name for folders; empty for a row that is only published.
        published: the paper's scores by key of the column.
        overrides: recipe settings, `section.key=value`, of this row.
        baseline: a key of `BASELINES`, or `UNTRAINED`.
        encoder: Hub id of the encoder that the row starts from, or of its language model; empty takes that of
            the call.
        settings: settings of the table's tasks, for rows with their own mentions or reading of mentions.
        method: the `model_type` to train, with its own settings; empty for the table's.
        variant: ending of recipe names; see `runs.plan_run`.
        stages: the first stages of the recipe; see `runs.plan_run`.
        rerank: re-rank alternatives by the votes of training premises, in tasks that rank alternatives.
        context_layers: number of graph layers that read single events at the end of training chains, in tasks
            that compare events; 0 reads events alone.
        averaged: average the scores over the table's `runs`, of a row with its own reading of mentions.
        ensemble: cluster mentions by the mean distances of as many runs of the table's recipe.
        part: the part of the results to show, such as a language, also added to `slug`; empty for all rows.
    """

    label: str
    slug: str = ""
    published: Mapping[str, float] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    baseline: str = ""
    encoder: str = ""
    settings: TaskSettings | None = None
    method: str = ""
    variant: str = ""
    stages: tuple[str, ...] = ()
    rerank: bool = False
    context_layers: int = 0
    averaged: bool = False
    ensemble: bool = False
    part: str = ""


Figure = Literal["hops", "prototypes", "degree", "recall"]
"""What a figure draws: scores by the number of graph layers (`hops`) or of `prototypes`, accuracy by the
average node degree of the question's graph (`degree`), or recall by the number of candidates (`recall`)."""

Pairs = tuple[tuple[str, str], ...]
"""Pairs of labels of rows."""


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper.

    Attributes:
        method: the `model_type` that the rows train.
        rows: its rows, in the paper's order.
        compared: the first row of each pair is compared with the second one in each compared column.
        drawn: by column, pairs of which the paper draws or describes the first row as ahead of the second
            one, without stating the numbers.
        figure: the figure to draw of the scores; None for no figure.
        runs: number of runs of each trained row, averaged row or ensemble, with consecutive seeds.
        recipes: the default recipes by the config of mentions in the training data, `samples` for the bundled
            ones; empty takes the recipe of the paper.
        lists_clusters: list the clusters of the last row by purity.
    """

    title: str
    method: str
    columns: tuple[Column, ...]
    rows: tuple[PaperRow, ...]
    compared: Pairs = ()
    drawn: Mapping[Column, Pairs] = field(default_factory=dict)
    figure: Figure | None = None
    runs: int = 1
    recipes: Mapping[str, str] = field(default_factory=dict)
    lists_clusters: bool = False

    def published(self, row: PaperRow) -> dict[Column, float | None]:
        """Return the paper's score of a row in each column; None where the paper has none."""
        return {column: row.published.get(column.key) for column in self.columns}


def paper_tables() -> dict[str, dict[str, PaperTable]]:
    """Load the tables by paper and name."""
    return {paper: read_tables(path) for paper, path in _files().items()}


def get_table(paper: str, table: str) -> PaperTable:
    """Load a table by its paper and name.

    Raises:
        UnknownNameError: the paper or the table is unknown.
        DataFormatError: the paper's file is not accepted.
    """
    files = _files()
    if paper not in files:
        raise UnknownNameError("paper", paper, files)
    tables = read_tables(files[paper])
    if table not in tables:
        raise UnknownNameError(f"table of {paper}", table, tables)
    return tables[table]


def _files() -> dict[str, Path]:
    """Find the file of each paper's tables."""
    methods = main_methods().values()
    return {method.paper: path for method in methods if method.paper and (path := method.tables_path)}


@lru_cache
def read_tables(path: Path) -> dict[str, PaperTable]:
    """Read the tables of a paper from a YAML file; the format is that of this module's docstring.

    Raises:
        DataFormatError: a key, a name or a value is not accepted.
        EventformersError: the file cannot be read.
    """
    reader = _Reader(path)
    tables = reader.mapping(reader.paper["tables"], ("tables",))
    return {name: reader.table(table, ("tables", name)) for name, table in tables.items()}


_HINTS: dict[type, dict[str, Any]] = {kind: get_type_hints(kind) for kind in (Column, PaperRow, PaperTable)}
_OF_PAPER = ("title", "method", "runs", "recipes", "columns", "rows", "tables")
_OF_ROW = ("row", "recipe", "system", *(entry.name for entry in fields(PaperRow)))
_OF_READER = ("title", "columns", "rows", "compared", "drawn")
_OF_TABLE = (*_OF_READER, "figure", "runs", "recipes", "lists_clusters")


Place = tuple[object, ...]
"""The keys and positions that lead to a part of the file, for errors."""


class _Reader:
    """The file of a paper while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = read_regular_text(path, "tables of a paper")
        content = parse_yaml(self.text, path, "tables of a paper")
        self.paper = self.mapping(content, (), _OF_PAPER, ("title", "method", "columns", "tables"))
        self._known("method", self.paper["method"], all_methods(), ("method",))
        self.method = load_method(self.paper["method"])
        self.columns: dict[str, list[Column]] = {}
        for name, columns in self.mapping(self.paper["columns"], ("columns",)).items():
            self.columns[name] = []
            for content, place in self._items(columns, ("columns", name)):
                column = self.mapping(content, place, tuple(_HINTS[Column]), ("task",))
                self._known("task", column["task"], TASKS, (*place, "task"))
                task = TASKS[column["task"]]
                usual = {"title": task.title, "score": task.main_score}
                self.columns[name].append(Column(**{**usual, **self._checked(Column, column, place)}))
        self.shared = self.mapping(self.paper.get("rows", {}), ("rows",))

    def table(self, content: object, place: Place) -> PaperTable:
        table = self.mapping(content, place, _OF_TABLE, ("title", "columns", "rows"))
        names = [name for name, _ in self._items(table["columns"], (*place, "columns"))]
        columns = tuple(column for name in names for column in self._columns(name, (*place, "columns")))
        rows = tuple(
            self._row(row, columns, where) for row, where in self._items(table["rows"], (*place, "rows"))
        )
        compared = table.get("compared", [])
        labels = [row.label for row in rows if row.slug]
        if isinstance(compared, str):
            self._known("row to compare", compared, labels, (*place, "compared"))
            pairs = tuple((compared, label) for label in labels if label != compared)
        else:
            pairs = self._pairs(compared, labels, (*place, "compared"))
        drawn = {
            column: self._pairs(pairs, labels, (*place, "drawn", name))
            for name, pairs in self.mapping(table.get("drawn", {}), (*place, "drawn")).items()
            for column in self._columns(name, (*place, "drawn"))
        }
        of_paper = {key: value for key, value in self.paper.items() if key in ("runs", "recipes")}
        own = {key: value for key, value in table.items() if key not in _OF_READER}
        values = self._checked(PaperTable, {**of_paper, **own}, place)
        title = f"{self.paper['title']}, {table['title']}"
        return PaperTable(title, self.method.name, columns, rows, pairs, drawn, **values)

    def _columns(self, name: object, place: Place) -> tuple[Column, ...]:
        self._known("columns", name, self.columns, place)
        return tuple(self.columns[str(name)])

    def _row(self, content: object, columns: tuple[Column, ...], place: Place) -> PaperRow:
        values: dict[str, Any] = {}
        scores: dict[str, float] = {}
        layers = [(self.mapping(content, place, _OF_ROW), place)]
        for name in self._names(layers[0][0], "row", place):
            self._known("row", name, self.shared, (*place, "row"))
            shared_place = ("rows", name)
            layers.insert(-1, (self.mapping(self.shared[name], shared_place, _OF_ROW), shared_place))
        for layer, where in layers:
            if "published" in layer and layer["published"] is None:
                scores.clear()
                values.update(recipe=(), system=())
            else:
                scores |= self._published(layer.get("published", {}), columns, (*where, "published"))
            values |= {key: value for key, value in layer.items() if key not in ("row", "published")}
        recipes, systems = (self._names(values, key, place) for key in ("recipe", "system"))
        for key in ("recipe", "system"):
            values.pop(key, None)
        if "label" not in values:
            raise self._error("no label", "a row with a label", place)
        if "settings" in values:
            task = TASKS[columns[0].task]
            values["settings"] = self._accepted(
                lambda: with_settings(task, values["settings"]).kind.settings, (*place, "settings")
            )
        checked = self._checked(PaperRow, values, place)
        slug = checked.get("slug") or checked.get("baseline", "").replace("_", "-")
        checked["slug"] = "-".join(filter(None, (slug, checked.get("part", ""))))
        load = partial(load_recipe, self.method.recipe_folder)
        expected = [self._accepted(partial(load, name), place).expected for name in recipes]
        # Recipes and tasks have main scores alone.
        for column in columns:
            task = TASKS[column.task]
            if column.score == task.main_score and not column.part:
                known = [scores_of[task.name] for scores_of in expected if task.name in scores_of]
                if column.splits in ((), (task.published_split,)):
                    known += [task.published[name] for name in systems if name in task.published]
                if known:
                    scores.setdefault(column.key, known[0])
        return PaperRow(**{**checked, "published": scores})

    def _names(self, row: Mapping[str, Any], key: str, place: Place) -> tuple[str, ...]:
        """Return one name or several under a key of a row; none without it."""
        names = row.get(key, ())
        if not isinstance(names, str | list | tuple) or not all(isinstance(name, str) for name in names):
            raise self._error(shown(names), "a name, or a list of names", (*place, key))
        return several(names)

    def _published(self, content: object, columns: tuple[Column, ...], place: Place) -> dict[str, float]:
        if isinstance(content, list):
            groups = [(columns, content)]
        else:
            groups = [
                (self._columns(name, place), scores if isinstance(scores, list) else [scores])
                for name, scores in self.mapping(content, place).items()
            ]
        found: dict[str, float] = {}
        for wanted, scores in groups:
            # True and False are numbers for Python.
            are_scores = all(
                score is None or (type(score) in (int, float) and isfinite(score)) for score in scores
            )
            if len(scores) != len(wanted) or not are_scores:
                raise self._error(shown(scores), f"{len(wanted)} scores, ~ for a missing one", place)
            for column, score in zip(wanted, scores, strict=True):
                if score is None:
                    continue
                low, high = score_range(column.score)
                if not low <= score <= high:
                    accepted = f"for {column.score}: a number from {low:g} to {high:g}"
                    raise self._error(f"the score {score}", accepted, place)
                found[column.key] = float(score)
        return found

    def _pairs(self, content: object, labels: Sequence[str], place: Place) -> Pairs:
        pairs = []
        for pair, where in self._items(content, place):
            if not isinstance(pair, list) or len(pair) != 2:
                raise self._error(shown(pair), "a list of two labels of rows", where)
            for label in pair:
                self._known("row to compare", label, labels, where)
            pairs.append((pair[0], pair[1]))
        return tuple(pairs)

    def _checked(self, kind: type, values: Mapping[str, Any], place: Place) -> dict[str, Any]:
        """Check the values of a dataclass's fields; lists become tuples."""
        hints = {key: list[str] if of == tuple[str, ...] else of for key, of in _HINTS[kind].items()}
        self._accepted(lambda: check_types(values, hints), place)
        return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}

    def _accepted(self, make: Callable[[], Any], place: Place) -> Any:
        """Call a function whose error gets file and line."""
        try:
            return make()
        except EventformersError as error:
            raise self._error(str(error), "the keys and values of such a file", place) from error

    def _known(self, what: str, name: object, names: Any, place: Place) -> None:
        if not isinstance(name, str) or name not in names:
            raise self._error(str(UnknownNameError(what, str(name), names)), "one of them", place)

    def _items(self, content: object, place: Place) -> Iterator[tuple[Any, Place]]:
        """Yield the entries of a list with their places."""
        if not isinstance(content, list):
            raise self._error(shown(content), "a list", place)
        yield from ((item, (*place, number)) for number, item in enumerate(content))

    def mapping(
        self,
        content: object,
        place: Place,
        keys: Sequence[str] = (),
        required: Sequence[str] = (),
    ) -> dict[str, Any]:
        if not isinstance(content, dict):
            raise self._error(shown(content), "a mapping", place)
        for key in content:
            if keys:
                self._known("key", key, keys, place)
        if missing := [key for key in required if key not in content]:
            raise self._error(f"no {missing[0]}", f"a mapping with {', '.join(required)}", place)
        return content

    def _error(self, found: str, accepted: str, place: Place) -> DataFormatError:
        node = yaml.compose(self.text, yaml.SafeLoader)
        for key in place:
            if isinstance(node, yaml.MappingNode):
                node = next((value for name, value in node.value if name.value == str(key)), node)
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
                node = node.value[key]
        line = None if node is None else node.start_mark.line + 1
        where = f"{', '.join(map(str, place))}: " if place else ""
        return DataFormatError(self.path, line, f"{where}{found}", accepted)
