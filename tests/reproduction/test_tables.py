"""The YAML files of papers' tables: what they state, and errors with file and line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from eventformers.errors import DataFormatError
from eventformers.evaluation.tasks import TASKS
from eventformers.methods import load_method
from eventformers.reproduction.runs import Reproduction
from eventformers.reproduction.tables import get_table, paper_tables, read_tables
from eventformers.trainers.run import resolve_recipe

PAPER = """\
title: Someone (2022)
method: swcc
columns:
  both: [{task: hard_similarity}, {task: transitive_similarity, title: T}]
  second: [{task: transitive_similarity, title: T}]
rows:
  full: {slug: full, label: full, recipe: paper, overrides: [model.mlm_weight=0.5]}
tables:
  table1:
    title: "Table 1: all"
    columns: [both]
    compared: full
    rows:
      - {label: earlier, published: [1.5, ~]}
      - {row: full, published: {second: 0.5}}
      - {row: full, slug: other, label: other, published: ~}
"""


def _read(folder: Path, text: str = PAPER, old: str = "", new: str = ""):
    assert old in text
    path = folder / "paper.yaml"
    path.write_text(text.replace(old, new) if old else text)
    return read_tables(path)


def test_rows_share_keys_and_scores_of_recipes_fill_missing_ones(tmp_path):
    table = _read(tmp_path)["table1"]
    assert (table.title, table.method, table.runs) == ("Someone (2022), Table 1: all", "swcc", 1)
    assert [column.title for column in table.columns] == ["Hard similarity (original)", "T"]
    earlier, full, other = table.rows
    assert [*table.published(earlier).values()] == [1.5, None]
    assert [*table.published(full).values()] == [80.9, 0.5]
    assert [*table.published(other).values()] == [None, None]
    assert (earlier.slug, other.slug, other.overrides) == ("", "other", ("model.mlm_weight=0.5",))
    assert table.compared == (("full", "other"),)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("method: swcc\n", "", 1, "no method; accepted: a mapping with title, method"),
        ("recipe: paper,", "recipes: paper,", 7, "unknown key 'recipes'. Did you mean 'recipe'"),
        ("[{task: hard_similarity}", "[{task: hard_similarit}", 4, "Did you mean 'hard_similarity'"),
        ("columns: [both]", "columns: [bot]", 11, "unknown columns 'bot'. Did you mean 'both'"),
        ("columns: [both]", "columns: both", 11, "found tables, table1, columns: 'both'; accepted: a list"),
        ("compared: full", "compared: earlier", 12, "unknown row to compare 'earlier'"),
        ("compared: full", "compared: [[full]]", 12, "accepted: a list of two labels of rows"),
        ("[1.5, ~]", "[1.5]", 14, "accepted: 2 scores, ~ for a missing one"),
        ("[1.5, ~]", "[1.5, yes]", 14, "accepted: 2 scores, ~ for a missing one"),
        ("[1.5, ~]", "[3390, ~]", 14, "the score 3390; accepted: for accuracy: a number from 0 to 100"),
        ("[1.5, ~]", "[-1, ~]", 14, "the score -1; accepted: for accuracy: a number from 0 to 100"),
        ("[1.5, ~]", "[1.5, .nan]", 14, "accepted: 2 scores, ~ for a missing one"),
        ("{label: earlier, ", "{", 14, "no label; accepted: a row with a label"),
        ("{row: full, published: {", "{row: ful, published: {", 15, "unknown row 'ful'. Did you mean 'full'"),
        ("{row: full, published: {", "{row: , published: {", 15, "row: None; accepted: a name, or a list of"),
        ("slug: other,", "slug: other, recipe: 1,", 16, "recipe: 1; accepted: a name, or a list of"),
        ("slug: other,", "slug: other, recipe: papr,", 16, "Did you mean 'paper'"),
        ("columns: [both]", "columns: [[both]]", 11, "unknown columns"),
        ("[{task: hard_similarity}", "[{task: []}", 4, "unknown task"),
        ("method: swcc\n", "method: swc\n", 2, "Did you mean 'swcc'"),
        ("slug: other,", "rerank: 3,", 16, "setting rerank: found 3; accepted: true or false"),
        ("slug: other,", "overrides: [3],", 16, "overrides: found [3]; accepted: a list, each text"),
        ("slug: other,", "settings: {depth: 2},", 16, "tasks that do: event_retrieval"),
    ],
)
def test_a_fault_is_named_with_file_and_line(tmp_path, old: str, new: str, line: int, message: str):
    with pytest.raises(DataFormatError) as raised:
        _read(tmp_path, old=old, new=new)
    assert raised.value.line == line
    assert "paper.yaml" in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("paper", "name"), [(paper, name) for paper, tables in paper_tables().items() for name in tables]
)
def test_rows_have_names_of_their_own_and_settings_that_recipes_know(paper: str, name: str):
    table = get_table(paper, name)
    for row in table.rows:
        if row.slug and not row.baseline:
            method = load_method(row.method or table.method)
            recipe = resolve_recipe(method, method.paper_recipe, row.overrides, 1)
            scored = [column.task for column, score in table.published(row).items() if score is not None]
            assert paper != "mico" or {*scored} <= {*method.tasks_of(recipe)}, row.label
            if paper == "mulcl" and not row.method:
                before = [] if row.label.startswith("HeterEvent") else ["masked_words", "sequence", "graph"]
                assert [stage["name"] for stage in recipe.stages][:-1] == before
    assert len({column.key for column in table.columns}) == len(table.columns)
    assert len({row.label for row in table.rows}) == len(table.rows)
    run = [(row.slug, row.rerank, row.context_layers) for row in table.rows if row.slug]
    assert len({*run}) == len(run) > 0


@pytest.mark.parametrize(("data", "samples"), [(None, {"split_seed": 5}), ("raw", {})])
def test_samples_are_split_as_in_training_on_them(data: str | None, samples: dict[str, int]) -> None:
    settings = SimpleNamespace(chain_settings={"split_seed": 5}, data=data)
    task = Reproduction.task(settings, "mcnc")
    assert task.build_settings == {"split_seed": 5}
    assert task.sample_settings == samples
    assert Reproduction.task(settings, "copa") == TASKS["copa"]
