from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from grounding_files import grounding_events, grounding_mentions, write_grounding
from reproduced import content_of, rows_of
from safetensors.torch import load_file, save_file
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder

from eventformers.datasets_scripts.building import build_dataset
from eventformers.errors import EventformersError
from eventformers.evaluation.results import load_results
from eventformers.evaluation.tasks import TASKS
from eventformers.methods import load_method
from eventformers.reproduction import runs as reproduced_runs
from eventformers.reproduction.planner import reproduce_table
from eventformers.reproduction.tables import PaperRow, get_table, paper_tables
from eventformers.trainers.recipes import list_recipes
from eventformers.trainers.run import resolve_recipe

TABLES = paper_tables()["grounding"]
METHOD = load_method("event_grounding")
SYSTEMS = ["(a) Baseline", "(b) + HP", "(c) + HJL", "(d) + HP + HJL"]

pytestmark = pytest.mark.filterwarnings("ignore:.*themselves longer than", "ignore:.*built with")


def _write_mentions(folder: Path, name: str, mentions: Sequence[dict[str, object]]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in mentions), encoding="utf-8")


def _write_data(folder: Path, *, languages: Sequence[str] = ("en", "de"), wikinews: bool = True) -> Path:
    folder.mkdir()
    write_grounding(folder)
    mentions = [row for row in grounding_mentions() if row["context_lang"] in languages]
    dictionary = (folder / "label_dict.jsonl").read_text().splitlines()
    described = [line for line in dictionary if json.loads(line)["label_lang"] in languages]
    (folder / "label_dict.jsonl").write_text("\n".join(described) + "\n")
    _write_mentions(folder, "wikipedia.train.jsonl", mentions[::2])
    _write_mentions(folder, "wikipedia-zero-shot.dev.jsonl", mentions[1::4])
    _write_mentions(folder, "wikipedia-zero-shot.test.jsonl", mentions[3::4])
    if wikinews:
        _write_mentions(folder, "wikinews-zero-shot.test.jsonl", mentions[1::5])
    return folder


def _tested() -> list[dict[str, object]]:
    """The test mentions of `_write_data` whose events are described in their language."""
    described = {(event["label_id"], event["label_lang"]) for event in grounding_events()}
    return [row for row in grounding_mentions()[3::4] if (row["label_id"], row["context_lang"]) in described]


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write_data(tmp_path_factory.mktemp("raw") / "wars")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tiny_encoder: Path) -> list[SimpleNamespace]:
    """Replaces training by random models; collects the trainings."""
    calls: list[SimpleNamespace] = []

    def train(method: str, output: Path, **arguments) -> SimpleNamespace:
        calls.append(SimpleNamespace(method=method, output=output, **arguments))
        if method == "event_grounding":
            save_tiny_bi_encoder(tiny_encoder, output, pooling="mean")
        else:
            save_tiny_cross_encoder(tiny_encoder, output, mention_tokens=20, event_tokens=12)
        return SimpleNamespace(folder=output, results=[], run=SimpleNamespace(steps=3, seconds=1.5))

    monkeypatch.setattr(reproduced_runs, "train", train)
    return calls


@pytest.fixture
def call(tmp_path: Path, tiny_encoder: Path, raw: Path) -> Callable:
    """A table on the raw files; keyword arguments override."""

    def run(table: str, **changes):
        settings = {
            "recipe": "minilm-current-events",
            "encoder": str(tiny_encoder),
            "data": raw,
            "evaluation_data": raw,
            **changes,
        }
        return reproduce_table("grounding", table, tmp_path / "out", **settings)

    return run


def _only(monkeypatch: pytest.MonkeyPatch, table: str, *slugs: str) -> None:
    """Leaves a table the rows of these names."""
    whole = get_table("grounding", table)
    rows = tuple(row for row in whole.rows if row.slug in slugs)
    monkeypatch.setitem(TABLES, table, replace(whole, rows=rows))


@pytest.mark.parametrize("recipe", ["paper-multilingual", "paper-crosslingual", "minilm-current-events"])
@pytest.mark.parametrize(
    "row",
    [row for row in get_table("grounding", "table2").rows if not row.baseline],
    ids=lambda row: row.slug,
)
def test_systems_are_the_recipes_of_their_names(recipe: str, row: PaperRow):
    name = "-".join(filter(None, (recipe, row.variant)))
    assert name in list_recipes("event_grounding")
    recipe_of_row = resolve_recipe(METHOD, name, row.overrides, 1)
    assert tuple(stage["name"] for stage in recipe_of_row.stages[: len(row.stages)]) == row.stages
    assert recipe_of_row.data["task"] == row.settings.task
    assert f"{recipe}-cross" in list_recipes("event_grounding")


@pytest.mark.parametrize(
    ("recipe", "slug", "stages"),
    [
        ("minilm-current-events", "multilingual-baseline-wikinews", ["linking", "mining"]),
        ("minilm-current-events", "multilingual-hjl-wikinews", ["joint", "mining"]),
        ("demo", "multilingual-baseline-wikinews", ["linking"]),
    ],
)
def test_a_recipe_that_begins_with_the_stages_of_a_row_keeps_its_own(
    call, trained, monkeypatch, recipe: str, slug: str, stages: list[str]
):
    _only(monkeypatch, "table4", slug)
    call("table4", recipe=recipe, runs=1)
    (run,) = (one for one in trained if one.method == "event_grounding")
    assert [stage["name"] for stage in resolve_recipe(METHOD, run.recipe, run.settings, 1).stages] == stages


def test_published_scores_are_those_of_the_tasks_and_of_the_other_tables():
    table = get_table("grounding", "table2")
    rows = {row.slug: tuple(table.published(row).values()) for row in table.rows}
    for task, place in (("event_retrieval", 1), ("event_linking", 3)):
        told = [value for value in TASKS[task].published_scores.values()]
        systems = [scores[place] for scores in rows.values() if scores[place] is not None]
        assert systems == told
    # Of Recall@min, strict accuracy and macro F1: what is pooled is no mean over languages.
    for name, system, means in (
        ("table5", "multilingual-hjl", (51.4, 40.2, 60.1)),
        ("table6", "crosslingual-hp-hjl", (38.8, 13.1, 34.3)),
    ):
        table = get_table("grounding", name)
        whole, *languages = (tuple(table.published(row).values()) for row in table.rows[2:])
        assert whole[1:] == tuple(rows[system][place] for place in (1, 3, 7, 9))
        assert sum(scores[0] for scores in languages) == whole[0] == 91_928
        assert len(languages) == 42
        for place, score in enumerate(means, start=1):
            weighted = sum(scores[0] * scores[place] for scores in languages)
            assert weighted / 91_928 == pytest.approx(score, abs=0.1)


def test_columns_are_the_papers():
    """Development before test, and the order of the scores of Tables 2 to 6."""
    splits = (("validation",), ("test",))
    linking = [("event_retrieval", "recall_at_min", "")] + [
        ("event_linking", *of_score)
        for of_score in (
            ("strict_accuracy", ""),
            ("strict_accuracy", "top_min"),
            ("macro_f1", ""),
            ("micro_f1", ""),
        )
    ]
    parents = [("parent_discovery", f"hits_at_{depth}", "") for depth in (1, 4, 8, 16)]
    on_test = [one for one in linking if one[-1] != "top_min"]
    of_languages = [("event_retrieval", "mentions", ""), *on_test]
    for name, expected, of_name in (
        ("table2", linking, splits),
        ("table3", parents, splits),
        ("table4", on_test, splits[1:]),
        ("table5", of_languages, splits[1:]),
        ("table6", of_languages, splits[1:]),
    ):
        columns = get_table("grounding", name).columns
        found = [(column.task, column.score, column.part, column.splits) for column in columns]
        assert found == [(*one, split) for one in expected for split in of_name]
    for name in ("figure3", "figure4"):
        columns = get_table("grounding", name).columns
        assert {(column.task, column.splits) for column in columns} == {("event_retrieval", splits[0])}
    table = get_table("grounding", "table3")
    published = {row.slug: [*table.published(row).values()] for row in table.rows}
    assert [slug for slug, scores in published.items() if any(scores)] == [
        "multilingual-hp",
        "crosslingual-hp",
    ]
    for slug in ("multilingual-hp", "crosslingual-hp"):
        for of_split in (published[slug][::2], published[slug][1::2]):
            assert of_split == sorted(of_split)


def _check_scores_of_each_task(content: dict) -> None:
    scores = {row["label"]: row["scores"] for row in content["rows"]}
    for task in ("multilingual", "crosslingual"):
        (system,) = (one for label, one in scores.items() if label == f"(b) + HP, {task}")
        assert len(system) == 10
        assert system["event_linking top_min validation"] <= 100
    assert scores["BM25, multilingual (not in the paper)"] != scores["BM25, crosslingual (not in the paper)"]
    prints = content["evaluation_fingerprints"]
    assert (
        prints["event_retrieval hierarchies_only"] != prints["event_retrieval crosslingual hierarchies_only"]
    )
    (top_min, whole) = (
        scores["BM25, multilingual (not in the paper)"][key]
        for key in ("event_linking top_min test", "event_retrieval test")
    )
    # BM25 does not reorder.
    assert top_min == whole
    by_mention = {one["column"]: one["questions"] for one in content["comparisons"]["pairs"]}
    assert by_mention["event_linking top_min test"] == by_mention["event_linking test"] > 0
    assert by_mention["event_linking macro_f1 test"] == 0


def test_each_system_trains_both_encoders_and_is_scored_on_its_task(call, trained, tmp_path):
    first = call("table2")
    _check_scores_of_each_task(content_of(first))
    rows = rows_of(first)
    assert list(rows)[2:6] == [f"{label}, multilingual" for label in SYSTEMS]
    for label, cells in rows.items():
        assert not cells[-1].startswith("failed"), (label, cells[-1])
        assert all(cell != "–" for cell in cells[:-1:2]), label
    methods = [run.method for run in trained]
    assert methods == ["event_grounding", "event_grounding_cross"] * 8
    assert [run.recipe for run in trained[::2]][:4] == [
        "minilm-current-events-baseline",
        "minilm-current-events",
        "minilm-current-events-joint",
        "minilm-current-events-pretrained-joint",
    ]
    for retriever, reranker in zip(trained[::2], trained[1::2], strict=True):
        assert reranker.recipe == "minilm-current-events-cross"
        assert f'views.retriever="{retriever.output.resolve()}"' in reranker.settings
        task = [one for one in retriever.settings if one.startswith("data.task=")]
        assert task == [one for one in reranker.settings if one.startswith("data.task=")]
    trained.clear()
    assert {cells[-1] for cells in rows_of(call("table2")).values()} == {"cached"}
    # Runs are those of the other tables.
    assert not any(cells[-1].startswith("failed") for cells in rows_of(call("table3")).values())
    assert not any(cells[-1].startswith("failed") for cells in rows_of(call("table5")).values())
    assert trained == []
    assert str(tmp_path) not in first.path.read_text() + first.path.with_suffix(".json").read_text()


def test_one_language_makes_both_tasks_the_same(call, trained, tmp_path):
    english = _write_data(tmp_path / "english", languages=("en",), wikinews=False)
    rows = rows_of(call("table3", data=english, evaluation_data=english))
    assert len(trained) == 4
    for label, cells in rows.items():
        assert cells[-1].startswith("not run: ") == label.removesuffix(" (not in the paper)").endswith(
            "crosslingual"
        )
        assert not cells[-1].startswith("failed")


def test_the_threshold_of_wikinews_is_chosen_on_development_mentions_of_wikipedia(
    call, trained, tmp_path, monkeypatch
):
    _only(monkeypatch, "table4", "multilingual-bm25-wikinews", "multilingual-baseline-wikinews")
    rows = rows_of(call("table4"))
    assert all(cell != "–" for cells in rows.values() for cell in cells[:-1:2])
    linked = 0
    for home in (tmp_path / "out" / "grounding").glob("*-*/evaluations"):
        results = [one for place in home.iterdir() for one in load_results(place)]
        of_domain = {one.settings["domain"]: one for one in results if one.task == "event_linking"}
        if of_domain:
            linked += 1
            wikinews, wikipedia = of_domain["wikinews"], of_domain["wikipedia"]
            assert (wikinews.dataset.rows, wikipedia.dataset.split) == (9, "validation")
            assert wikinews.settings["threshold"] == wikipedia.details["threshold"]
    assert linked == 2


def test_data_without_wikinews_fill_nothing_of_its_table(call, trained, tmp_path, raw):
    without = _write_data(tmp_path / "without", wikinews=False)
    with pytest.raises(EventformersError):
        call("table4", evaluation_data=without)
    built = tmp_path / "built"
    for config in ("mentions", "events", "hierarchy"):
        build_dataset("event_hierarchies", config, raw, output=built)
    with pytest.raises(EventformersError, match=r"found data built with .*domain='wikipedia'"):
        call("table4", evaluation_data=built)
    assert trained == []


def test_a_table_of_languages_has_those_of_the_data(call, trained, monkeypatch):
    _only(monkeypatch, "table5", *(f"multilingual-hjl{one}" for one in ("", "-en", "-de", "-sw")))
    rows = rows_of(call("table5"))
    mentions = {label: int(cells[0]) for label, cells in rows.items() if cells[0] != "–"}
    assert mentions["English"] + mentions["German"] == mentions["(c) + HJL, all languages"]
    assert set(rows["Swahili"][:-1:2]) == {"–"}
    assert rows["English"][-1] == "the run of (c) + HJL, all languages"
    assert len(trained) == 2
    recall = [float(rows[label][2]) for label in ("English", "German", "(c) + HJL, all languages")]
    weighted = (recall[0] * mentions["English"] + recall[1] * mentions["German"]) / sum(
        mentions[label] for label in ("English", "German")
    )
    assert weighted == pytest.approx(recall[2], abs=0.1)


def test_a_figure_draws_recall_by_candidates(call, trained, tmp_path):
    table = call("figure3")
    assert table.path.with_suffix(".png").stat().st_size > 10_000
    assert "![" in table.path.read_text()
    content = content_of(table)["recall"]
    assert list(content)[2:] == SYSTEMS
    for curves in content.values():
        assert list(curves["whole"]) == list(curves["atomic"]) == ["4", "8", "16"]
        assert all(curves["atomic"][depth] >= share for depth, share in curves["whole"].items())
    fractions = content_of(call("figure5"))["recall"]
    for system, curves in fractions.items():
        assert curves["atomic"] == {}
        assert all(share >= content[system]["whole"][depth] for depth, share in curves["whole"].items())
    assert set(rows_of(call("children"))) >= {f"{system}, multilingual" for system in SYSTEMS}
    # No column needs a cross-encoder.
    assert {run.method for run in trained} == {"event_grounding"}


def test_several_runs_make_means(call, trained, monkeypatch):
    _only(monkeypatch, "table2", "multilingual-baseline")
    table = call("table2", runs=2)
    assert [run.seed for run in trained] == [1, 1, 2, 2]
    content = content_of(table)
    (row,) = content["rows"]
    assert row["seeds"] == [1, 2]
    assert set(content["spread"][row["label"]]) == set(row["scores"])
    assert "## Spread over 2 runs" in table.path.read_text()


def test_settings_reach_the_cross_encoder_where_it_knows_them(call, trained, monkeypatch):
    _only(monkeypatch, "table2", "multilingual-hp")
    settings = ["training.max_steps=2", "model.hierarchy_weight=0.5", "hierarchy.training.max_steps=1"]
    call("table2", settings=settings)
    bi_encoder, cross_encoder = trained
    assert bi_encoder.settings[:3] == tuple(settings)
    assert cross_encoder.settings[0] == settings[0]
    assert not set(settings[1:]) & set(cross_encoder.settings)


def test_training_and_scoring_have_data_of_their_own(call, trained, tmp_path, monkeypatch):
    _only(monkeypatch, "table5", "multilingual-hjl")
    training = tmp_path / "training"
    training.mkdir()
    write_grounding(training)
    rows = rows_of(call("table5", data=training, seed=3))
    assert [run.seed for run in trained] == [3, 3]
    assert {Path(run.data) for run in trained} == {training}
    (cells,) = rows.values()
    assert cells[-1].startswith("2 trained, measured")
    assert int(cells[0]) == len(_tested())


def test_mentions_outside_hierarchies_are_left_out_whatever_the_recipe(call, trained, tmp_path, monkeypatch):
    _only(monkeypatch, "table5", "multilingual-bm25")
    raw = _write_data(tmp_path / "flat", wikinews=False)
    edges = (raw / "wd_item_props.jsonl").read_text().splitlines()
    (raw / "wd_item_props.jsonl").write_text("\n".join(edges[3:]) + "\n")
    (cells,) = rows_of(call("table5", data=raw, evaluation_data=raw)).values()
    tested = _tested()
    of_the_first_war = [row for row in tested if str(row["label_id"]).startswith("1")]
    assert of_the_first_war
    assert int(cells[0]) == len(tested) - len(of_the_first_war)


def test_another_encoder_is_measured_anew(call, trained, tiny_encoder, tmp_path, monkeypatch):
    _only(monkeypatch, "table3", "multilingual-untrained")
    other = tmp_path / "other"
    shutil.copytree(tiny_encoder, other)
    weights = load_file(other / "model.safetensors")
    save_file(
        {name: value.flip(0).contiguous() for name, value in weights.items()},
        other / "model.safetensors",
        {"format": "pt"},
    )
    states = []
    for encoder in (tiny_encoder, other, tiny_encoder):
        (cells,) = rows_of(call("table3", encoder=str(encoder))).values()
        states.append(cells[-1].partition(",")[0])
    assert states == ["measured", "measured", "cached"]


def test_mentions_are_linked_by_the_cross_encoder(call, trained, tmp_path, monkeypatch):
    """Its scores lie with it, those of candidates with the bi-encoder."""
    _only(monkeypatch, "table2", "multilingual-baseline")
    table = call("table2")
    homes: dict[str, list] = {}
    for place in (tmp_path / "out" / "grounding").glob("*/evaluations/*"):
        homes.setdefault(place.parents[1].name, []).extend(load_results(place))
    (retriever,) = (one for one in homes if "-cross-" not in one)
    (reranker,) = (one for one in homes if "-cross-" in one)
    assert {one.task for one in homes[retriever]} == {"event_retrieval"}
    linked = {one.dataset.split: one for one in homes[reranker]}
    assert {one.task for one in homes[reranker]} == {"event_linking"}
    assert len(homes[reranker]) == len(linked) == 2
    for one in linked.values():
        assert one.settings["reranker"]["model"] == reranker
    assert linked["test"].settings["threshold"] == linked["validation"].details["threshold"]
    (row,) = content_of(table)["rows"]
    for split, one in linked.items():
        assert row["scores"][f"event_linking {split}"] is not None, one


def test_without_development_mentions_nothing_is_linked(call, trained, raw, tmp_path, monkeypatch, caplog):
    _only(monkeypatch, "table2", "multilingual-bm25")
    without = tmp_path / "without"
    shutil.copytree(raw, without)
    (without / "wikipedia-zero-shot.dev.jsonl").unlink()
    with caplog.at_level(logging.WARNING):
        (cells,) = rows_of(call("table2", evaluation_data=without)).values()
    measured = [place for place, cell in enumerate(cells[:-1:2]) if cell != "–"]
    assert measured == [1]
    assert "the columns of event_linking stay empty" in caplog.text
    assert "no split 'validation' of Wikipedia to choose a threshold on" in caplog.text


@pytest.mark.parametrize(
    ("part", "name", "value"), [("settings", "threshold", 0.123), ("dataset", "fingerprint", "0" * 64)]
)
def test_a_result_measured_otherwise_is_not_taken(
    call, trained, tmp_path, monkeypatch, part: str, name: str, value: object
):
    _only(monkeypatch, "table4", "multilingual-bm25-wikinews")
    first = call("table4")
    (home,) = (tmp_path / "out" / "grounding").glob("multilingual-bm25-wikinews-*/evaluations")
    changed = 0
    for path in home.rglob("*.json"):
        content = json.loads(path.read_text())
        for result in content.get("results", [content]):
            if result.get("task") == "event_linking" and result["settings"]["domain"] == "wikinews":
                result[part][name] = value
                result["scores"]["strict_accuracy"] = 99.5
                changed += 1
        path.write_text(json.dumps(content))
    assert changed
    second = call("table4")
    (before, after) = (rows_of(table)["BM25, multilingual (not in the paper)"] for table in (first, second))
    assert after[-1].startswith("measured")
    assert after[:-1] == before[:-1]


def test_a_row_is_trained_and_scored_for_good(call, tmp_path, monkeypatch):
    _only(monkeypatch, "table2", "multilingual-hp")
    training = tmp_path / "training"
    training.mkdir()
    write_grounding(training)
    settings = ["training.max_steps=1", "model.mention_tokens=20", "model.event_tokens=12"]
    table = call("table2", data=training, settings=settings)
    (cells,) = rows_of(table).values()
    assert cells[-1].startswith("2 trained, measured")
    assert all(cell != "–" for cell in cells[:-1:2])
