"""Tables of papers and the claims that are read from them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from leaderboard_inputs import make_result
from scipy.stats import ttest_rel

from eventformers.errors import DataFormatError
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import TASKS
from eventformers.methods import load_method
from eventformers.reproduction import comparisons
from eventformers.reproduction.comparisons import RowComparison, claims_sections, compare_rows, verdict
from eventformers.reproduction.runs import ReproducedRow, Reproduction, ScoredSplit
from eventformers.reproduction.tables import (
    Column,
    PaperRow,
    PaperTable,
    get_table,
    paper_tables,
    read_tables,
)
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


DEV, TEST = (ScoredSplit("copa", split, "f", False) for split in ("validation", "test"))
COLUMN = Column("copa", "COPA", "accuracy", ("validation", "test"))
PART = Column("copa", "COPA, short", "accuracy", part="short")


def _result(correct: str) -> TaskResult:
    """Make a result with one character for each question, `1` for a right answer."""
    result = make_result("copa")
    return replace(
        result,
        scores={"accuracy": 100 * correct.count("1") / len(correct)},
        dataset=replace(result.dataset, rows=len(correct)),
        predictions=[{"correct": character == "1"} for character in correct],
        parts={"short": {"accuracy": 100.0 * int(correct[0])}},
    )


def _row(label: str, published: float, *of_runs: tuple[str, str]) -> ReproducedRow:
    """Make a row with the answers of its runs on two splits."""
    row = ReproducedRow(PaperRow(label, label, {COLUMN.key: published}), {COLUMN: (DEV, TEST), PART: (DEV,)})
    row.results_of_runs = [{DEV: _result(dev), TEST: _result(test)} for dev, test in of_runs]
    return row


def _compared(
    monkeypatch: pytest.MonkeyPatch,
    *rows: ReproducedRow,
    drawn: Mapping[Column, tuple[tuple[str, str], ...]] | None = None,
) -> list[Mapping[str, object]]:
    data = SimpleNamespace(clusters=None)
    monkeypatch.setattr(comparisons, "load_data", lambda *arguments: data)
    papers = [row.paper for row in rows]
    pairs = tuple((papers[0].label, row.label) for row in papers[1:])
    table = PaperTable("T", "mico", (COLUMN, PART), (), pairs, drawn or {})
    call = SimpleNamespace(table=table, evaluation_data=None, session=SimpleNamespace(data=None))
    found = compare_rows(call, rows)
    return [] if found is None else found.content["pairs"]


def test_the_mean_of_runs_is_compared_over_the_questions_of_all_splits(monkeypatch):
    best = _row("best", 70.0, ("1111", "110"), ("1111", "100"))
    other = _row("other", 65.0, ("0011", "100"), ("0001", "100"))
    whole, part = _compared(monkeypatch, best, other)
    assert (whole["row"], whole["other"], whole["published"]) == ("best", "other", 5.0)
    assert whole["difference"] == pytest.approx(100 * (6 + 5 - 3 - 2) / 14)
    assert whole["of_runs"] == pytest.approx((300 / 7, 300 / 7))
    assert whole["questions"] == 7
    assert 0 < whole["low"] < whole["difference"] < whole["high"]
    # The score of a part is no mean over all questions.
    assert (part["questions"], part["of_runs"], part["published"]) == (0, (100.0, 100.0), None)


def test_a_column_that_describes_rows_is_not_compared():
    row = _row("best", 70.0, ("11", "1"))
    call = SimpleNamespace(
        table=PaperTable("T", "mico", (replace(COLUMN, compared=False),), (row.paper,), (("best", "best"),))
    )
    assert compare_rows(call, [row]) is None
    columns = [
        column for tables in paper_tables().values() for table in tables.values() for column in table.columns
    ]
    counts = [column.compared for column in columns if column.score == "num_clusters"]
    assert counts
    assert not any(counts)


def test_a_score_that_is_no_mean_over_questions_is_compared_over_runs(monkeypatch):
    column = COLUMN
    best, other = (_row(label, 1.0, *[("11", "11")] * 3) for label in ("best", "other"))
    values = {"best": (90.0, 80.0, 70.0), "other": (60.0, 62.0, 58.0)}
    for row in (best, other):
        for results, value in zip(row.results_of_runs, values[row.paper.label], strict=True):
            for split in results:
                results[split] = replace(results[split], scores={"accuracy": value})
    whole = next(one for one in _compared(monkeypatch, best, other) if one["column"] == column.key)
    expected = ttest_rel(values["best"], values["other"]).confidence_interval(0.95)
    assert (whole["low"], whole["high"]) == pytest.approx((expected.low, expected.high))
    assert whole["questions"] == 0


def test_a_single_run_of_such_a_score_has_no_interval(monkeypatch):
    _, part = _compared(monkeypatch, _row("best", 70.0, ("1", "1")), _row("other", 65.0, ("0", "1")))
    assert (part["difference"], part["low"], part["high"]) == (100.0, None, None)


def test_equal_differences_of_runs_are_their_own_interval(monkeypatch):
    runs = [("1", "1")] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, part = _compared(monkeypatch, _row("best", 70.0, *runs), _row("other", 65.0, ("0", "1")))
    assert (part["low"], part["high"]) == (100.0, 100.0)


def test_a_single_run_is_paired_with_each_run_of_the_other_row(monkeypatch):
    untrained = _row("untrained", 60.0, ("0", "1"))
    _, part = _compared(monkeypatch, _row("best", 70.0, ("1", "1"), ("0", "1")), untrained)
    assert (part["difference"], part["of_runs"]) == (50.0, (100.0, 0.0))
    assert part["low"] < 50 < part["high"]


def test_rows_without_results_are_not_compared(monkeypatch):
    assert _compared(monkeypatch, _row("best", 70.0, ("1", "1")), _row("other", 65.0)) == []


COMPARED = RowComparison("A", "B", "copa", "COPA", "accuracy", 2.0, 3.0, (4.0, 2.0), 1.0, 5.0, 500)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "holds"),
        ({"published": -2.0}, "does not"),
        ({"low": -0.1}, "cannot tell"),
        ({"of_runs": (7.0, -1.0)}, "cannot tell"),
        ({"low": None, "high": None}, "cannot tell"),
        ({"published": None}, "cannot tell"),
        ({"difference": -3.0, "of_runs": (-4.0, -2.0), "low": -5.0, "high": -1.0}, "does not"),
    ],
)
def test_a_claim_holds_if_interval_and_runs_are_on_its_side_of_zero(changes, expected):
    compared = replace(COMPARED, **changes)
    assert verdict(compared) == expected
    assert verdict(compared.turned()) == expected


def _write(path: Path, *pairs: RowComparison, runs: int = 2) -> None:
    content = {
        "title": "SWCC, Table 2",
        "recipe": "minilm",
        "settings": ["max_steps=60"],
        "dtype": "bfloat16",
        "seed": 1,
        "runs": runs,
        # The two rows share a training.
        "rows": [
            {"label": "A", "scores": {"hard_similarity": 12.34}, "trainings": {"a": 1800.0, "b": 1800.0}},
            {"label": "B", "scores": {}, "trainings": {"b": 1800.0, "c": 1800.0}},
        ],
    }
    if pairs:
        content["comparisons"] = {"pairs": [asdict(one) for one in pairs]}
    path.write_text(json.dumps(content))


def test_the_page_lists_each_published_difference_once(tmp_path):
    unpublished, equal = replace(COMPARED, published=None), replace(COMPARED, published=0.0)
    behind = replace(COMPARED, row="C", published=-1.5, questions=0)
    _write(tmp_path / "swcc-table2.json", COMPARED, unpublished, equal, behind)
    page = claims_sections(tmp_path)
    assert "| SWCC, Table 2 | other | 2 | 1.5 | 1 | 1 | 0 | 0 |" in page
    command = "eventformers reproduce swcc table2 --recipe minilm --seed 1 --runs 2"
    assert f"`{command} --set max_steps=60 --dtype bfloat16`" in page
    assert "| A > B | COPA | +2.0 | +3.0 (+1.0 to +5.0) | 500 questions | holds |" in page
    assert "| B > C | COPA | +1.5 | -3.0 (-5.0 to -1.0) | runs: 2 | does not |" in page
    assert page.count(" > ") == 2


def test_another_mechanism_than_the_papers_is_the_first_line_of_a_table(tmp_path):
    """Sizes and data are no mechanism; a weight, another reading and a left-out stage are."""
    path = tmp_path / "mulcl-table3.json"
    _write(path, COMPARED)
    content = json.loads(path.read_text())
    settings = ["data.test_share=0.4", "event_dim=64", "num_corrupted=4", "sequence.training.max_steps=3"]
    for recipe, further, expected in (
        ("paper", [], "The mechanism of the paper. Views: `num_corrupted=4 (paper: 24)`."),
        ("paper", ["order_weight=0.1"], "`order_weight=0.1 (paper: 0.4)`"),
        ("paper", ["stages=[sequence, graph, supervised]"], "without the stage `masked_words`"),
        ("minilm", [], "`composition_anchor=rest (paper: chain)`"),
        ("gone", [], "the recipe `gone`, which this version does not have"),
    ):
        path.write_text(json.dumps({**content, "recipe": recipe, "settings": [*settings, *further]}))
        page = claims_sections(tmp_path)
        assert expected in page
        is_other = "its verdicts are not the paper's" in page
        assert is_other == (expected[0] != "T")
        assert ("| other | 2 |" if is_other else "| the paper's | 2 |") in page


def test_a_row_that_the_paper_draws_as_ahead_is_a_claim(monkeypatch, tmp_path):
    rows = [_row("best", 70.0, ("1111", "110")), _row("other", 65.0, ("0000", "100"))]
    drawn = {COLUMN: (("other", "best"),)}
    [*stated, found] = _compared(monkeypatch, *rows, drawn=drawn)
    assert (found["row"], found["other"], found["drawn"]) == ("other", "best", True)
    assert not any(one["drawn"] for one in stated)
    claim = RowComparison(**{**found, "published": None})
    assert verdict(claim) == "does not"
    assert verdict(replace(claim, drawn=False)) == "cannot tell"
    _write(tmp_path / "mulcl-figure3.json", claim)
    assert "| other > best | COPA | drawn | -" in claims_sections(tmp_path)


def test_a_table_that_was_run_in_several_ways_has_a_section_for_each(tmp_path):
    for name in ("type-induction-table1", "type-induction-table1-long"):
        _write(tmp_path / f"{name}.json", COMPARED)
    page = claims_sections(tmp_path)
    assert page.count("`eventformers reproduce type-induction table1 --recipe") == 2
    _write(tmp_path / "others.json", COMPARED)
    with pytest.raises(DataFormatError, match=r"the name others\.json; accepted: PAPER-TABLE\.json"):
        claims_sections(tmp_path)


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "swcc-table2.json").write_text("{}")
    with pytest.raises(DataFormatError, match="no rows; accepted: the JSON of `eventformers reproduce`"):
        claims_sections(tmp_path)


@pytest.mark.parametrize("pairs", [(), (replace(COMPARED, published=None),)], ids=["none", "no claim"])
def test_a_table_without_claims_has_its_scores(tmp_path, pairs: tuple[RowComparison, ...]):
    _write(tmp_path / "swcc-table2.json", *pairs)
    page = claims_sections(tmp_path)
    assert "| SWCC, Table 2 | other | 2 | 1.5 | 0 | 0 | 0 | 0 |" in page
    assert "No two of these rows are a claim of the paper." in page
    assert page.endswith("\n| A | 12.3 | – | – |")


def test_one_seed_decides_no_claim(tmp_path):
    _write(tmp_path / "swcc-table2.json", COMPARED, runs=1)
    page = claims_sections(tmp_path)
    assert "| SWCC, Table 2 | other | 1 | 1.5 | 0 | 0 | 0 | 1 |" in page
    assert "| one seed |" in page
    assert "| holds |" not in page.partition("## ")[2]


def test_a_file_with_other_fields_is_named(tmp_path):
    path = tmp_path / "swcc-table2.json"
    _write(path, COMPARED)
    path.write_text(path.read_text().replace('"questions"', '"answers"'))
    with pytest.raises(DataFormatError, match=r"swcc-table2\.json.*other fields .*'answers'"):
        claims_sections(tmp_path)


def test_tables_compare_rows_that_they_have():
    for tables in paper_tables().values():
        for table in tables.values():
            run = {row.label for row in table.rows if row.slug}
            assert {label for pair in table.compared for label in pair} <= run
            assert all(one != other for one, other in table.compared)
            assert len(set(table.compared)) == len(table.compared)
            assert set(table.drawn) <= set(table.columns)
            assert {label for pairs in table.drawn.values() for pair in pairs for label in pair} <= run
