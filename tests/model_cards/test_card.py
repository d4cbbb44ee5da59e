"""Model cards: their texts, scores and examples of use."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import leaderboard_inputs
import pytest
import torch
from card_examples import examples_run
from huggingface_hub import ModelCard as HubCard
from transformers import AutoTokenizer

from eventformers.evaluation.results import BaselineRecord, TaskResult
from eventformers.methods import all_methods, load_method
from eventformers.model_cards import ModelCard, Snippet, TrainedOn, card_state, write_card
from eventformers.model_cards.method import LONGEST_OUTPUT, run_snippet, snippet_code
from eventformers.model_cards.scores import interval, score_text
from eventformers.models.configuration_mico import MicoConfig
from eventformers.models.configuration_swcc import SwccConfig
from eventformers.models.processing_event_grounding import TAGS
from eventformers.trainers.method import add_marker_tokens

REPORT = {
    "builder": "event_chains",
    "config": "cooccurrence",
    "sample": False,
    "fingerprint": "f" * 64,
    "rows": 1_234_567,
    "settings": {"min_event_frequency": 3, "exclude_source": [], "window": None},
    "raw_files": [{"name": "events.jsonl.gz", "bytes": 12_345, "sha256": "e" * 64}],
    "read": {"documents": 900, "events": 8_000},
    "skipped": {"event_without_letters_or_digits": 17},
    "sources": {
        "wikinews": {"license": "CC-BY-2.5", "documents": 500, "events": 5_000},
        "state_union": {"license": "public-domain", "documents": 383, "events": 2_983},
    },
    "statistics": {"pairs": 55_555, "rows": 1_234_567},
}


def make_result(task="hard_similarity", value=43.5, untrained=11.3, **changes) -> TaskResult:
    """A result on hard similarities, whatever the task."""
    values = {
        "main_score": "spearman" if task == "transitive_similarity" else "accuracy",
        "main_value": value,
        "scores": {"accuracy": value},
        "baseline": BaselineRecord("start", "c" * 40, untrained, {"accuracy": untrained}, {}),
        "dataset": leaderboard_inputs.make_result().dataset,
        "timing": {},
    }
    return leaderboard_inputs.make_result(task, **{**values, **changes})


def make_card(**changes) -> ModelCard:
    values: dict = {
        "name": "org/swcc-test",
        "method": "swcc",
        "config": SwccConfig(pooling="mean").to_dict(),
        "base_model": "sentence-transformers/all-MiniLM-L6-v2",
        "trained_on": TrainedOn.from_report(REPORT, validation_rows=567),
        "recipe": "minilm",
        "recipe_description": "The best recipe for a CPU.",
        "changed_settings": {"max_steps": 30, "retriever": "/home/someone/retriever"},
        "views": {"max_seq_length": 32},
        "training_arguments": {
            "per_device_train_batch_size": 192,
            "learning_rate": 2e-5,
            "module_learning_rates": {"prototypes": 5e-4},
            "max_steps": 30,
            "num_train_epochs": 3,
            "output_dir": "/home/someone/run",
            "hub_token": "secret",
        },
        "seed": 7,
        "steps": 30,
        "seconds": 3_725.0,
        "truncated": 4,
        "history": [
            {"step": 10, "epoch": 0.5, "loss": 9.5, "cluster_loss": 1.25, "learning_rate": 1e-5},
            {"step": 10, "eval_loss": 9.25},
            {"step": 30, "train_runtime": 5.0},
        ],
        "results": [make_result(), make_result("transitive_similarity", 0.7, 0.729)],
        "results_note": "The recipe was chosen by these rows.",
        "parameters": 22_565_376,
        "usage": [Snippet("In short", "print(MODEL_ID)")],
    }
    return ModelCard(**{**values, **changes})


def section(text: str, title: str) -> str:
    name = re.escape(title)
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL) or re.search(
        rf"^<details><summary>{name}</summary>\n(.*?)^</details>$", text, re.MULTILINE | re.DOTALL
    )
    assert found, f"no section {title}"
    return found[1]


def test_the_front_matter_is_what_the_hub_reads():
    data = HubCard(make_card(license="apache-2.0").to_markdown()).data
    assert data.license == "apache-2.0"
    assert data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert data.to_dict()["base_model_relation"] == "finetune"
    assert (data.library_name, data.pipeline_tag, data.language) == (
        "transformers",
        "feature-extraction",
        "en",
    )
    assert {"eventformers", "swcc", "event-representation"} <= set(data.tags)
    assert data.metrics == ["accuracy", "spearmanr"]
    assert [result.metric_value for result in data.eval_results] == [43.5, 0.7]
    assert data.model_name == "org/swcc-test"
    # Local data has no id on the Hub, and the Hub refuses what is none.
    assert data.datasets is None
    hub = TrainedOn.from_report({**REPORT, "hub_id": "org/events", "revision": "2" * 40})
    assert HubCard(make_card(trained_on=hub).to_markdown()).data.datasets == ["org/events"]


def test_without_a_licence_the_terms_are_open_and_said():
    data = HubCard(make_card().to_markdown()).data
    assert (data.license, data.license_name) == ("other", "terms-of-encoder-and-training-data")


def test_the_results_stand_beside_baseline_and_paper():
    results = section(make_card().to_markdown(), "Results")
    assert "| **org/swcc-test** | **43.5** | **0.700** |" in results
    assert "| start, untrained, same pooling and texts | 11.3 | 0.729 |" in results
    # The second was not measured on the 108 published rows.
    assert "| SWCC, BERT-base (Gao et al. 2022) | 80.9 | – |" in results
    assert "115 (the published set has 108)" in results
    assert "The recipe was chosen by these rows." in results
    assert "**Transitive sentence similarity: training did not help" in results
    assert "Hard similarity (original): training did not help" not in results


def test_samples_are_no_benchmark():
    sample = make_result(dataset=replace(make_result().dataset, origin="samples"))
    text = make_card(
        results=[sample], trained_on=TrainedOn.from_report({**REPORT, "sample": True})
    ).to_markdown()
    assert "80.9" not in section(text, "Results")
    assert "not benchmark scores" in section(text, "Results")
    assert "> **Note.** This model was trained on the small sample corpus" in text


def test_ties_and_cut_texts_are_said():
    results = section(
        make_card(results=[make_result(truncated=3, scores={"ties": 2})]).to_markdown(), "Results"
    )
    assert "2 tied rows count as wrong" in results
    assert "3 distinct texts exceeded" in results


def test_ranks_are_told_with_their_hits_and_ties_of_choices_as_they_count():
    ranks = make_result(
        "conceptnet_completion",
        10.917,
        3.456,
        main_score="mrr",
        scores={"mrr": 10.917, "hits_at_10": 22.07},
        baseline=BaselineRecord("start", "c" * 40, 3.456, {"mrr": 3.456, "hits_at_10": 8.8}, {}),
    )
    graph = replace(ranks.dataset, name="commonsense_graphs", split="validation", rows=19_590)
    ranks = replace(ranks, dataset=graph)
    choices = make_result("copa", 70.0, scores={"accuracy": 70.0, "ties": 3})
    questions = replace(choices.dataset, name="commonsense_qa", split="validation")
    choices = replace(choices, dataset=questions)
    config = MicoConfig().to_dict()
    text = make_card(method="mico", config=config, results=[ranks, choices]).to_markdown()
    results = section(text, "Results")
    assert "| **org/swcc-test** | **10.92** | **70.0** |" in results
    assert [result.task_type for result in HubCard(text).data.eval_results] == ["graph-ml", "multiple-choice"]
    assert "ConceptNet completion (inductive): Hits@10 22.1 (untrained 8.8)." in results
    assert "in 3 rows several choices share the highest score" in results
    assert "| mean reciprocal rank (%) | – | validation | 19,590 (the published set has 19,592) |" in results
    assert "ConceptNet completion (inductive): measured on the split validation; the published" in results
    assert "COPA: measured on" not in results


def test_an_undefined_score_and_a_missing_baseline_are_said():
    result = make_result(
        value=None, undefined={"accuracy": "nothing finite"}, baseline=None, baseline_missing="it is away"
    )
    results = section(make_card(results=[result]).to_markdown(), "Results")
    assert "**not defined**" in results
    assert "the score is undefined (nothing finite)" in results
    assert "no score of the untrained encoder (it is away)" in results
    assert "untrained, same" not in results


def test_the_data_is_told_with_counts_sources_and_licences():
    data = section(make_card().to_markdown(), "Training data")
    assert "1,234,000 training rows; 567 more held out" in data
    assert "f" * 64 in data
    assert "read from the raw files: 900 documents, 8,000 events" in data
    assert "after building: pairs 55,555" in data
    assert "| event without letters or digits | 17 |" in data
    assert "| wikinews | CC-BY-2.5 | 500 | 5,000 |" in data
    assert "| **all** |  | **883** | **7,983** |" in data
    assert f"| `events.jsonl.gz` | 12,345 | `{'e' * 64}` |" in data
    assert "| `window` | `none` |" in data
    # Nothing was skipped is only said where it is so.
    assert "no part of the raw files was skipped" not in data


def test_a_graph_is_told_with_its_splits_and_its_share_of_the_papers():
    report = {
        **REPORT,
        "builder": "commonsense_graphs",
        "config": "atomic_inductive_pairs",
        "rows": 242_170,
        "splits": {"train": {"rows": 193_454}, "validation": {"rows": 48_716}},
        "sources": {"ATOMIC": {"license": "CC-BY-4.0", "triples": 96_727}},
        "statistics": {},
    }
    trained_on = TrainedOn.from_report(report, validation_rows=2_000)
    config = MicoConfig().to_dict()
    data = section(
        make_card(method="mico", config=config, trained_on=trained_on).to_markdown(), "Training data"
    )
    assert "193,454 training rows, 16% as many as the 1,221,072 of the paper; 2,000 more held out" in data
    assert "rows by split: train 193,454, validation 48,716" in data
    assert "| source | licence | triples |" in data
    assert "| ATOMIC | CC-BY-4.0 | 96,727 |" in data
    # Rows of the samples are no share of anything.
    sample = TrainedOn.from_report({**report, "sample": True})
    data = section(make_card(method="mico", config=config, trained_on=sample).to_markdown(), "Training data")
    assert "- 193,454 training rows\n" in data


def test_sources_that_may_not_be_published_are_named():
    free = TrainedOn.from_report(REPORT)
    assert "not openly licensed" not in make_card(trained_on=free).to_markdown()
    sources = {**REPORT["sources"], "brown": {"license": "research-only", "documents": 1, "events": 9}}
    text = make_card(trained_on=replace(free, sources=sources)).to_markdown()
    assert "not openly licensed (research-only)" in text


def test_settings_are_set_beside_the_papers():
    settings = section(make_card().to_markdown(), "Training settings")
    assert "| `pooling` | **`mean`** | `cls` |" in settings
    assert "| `num_prototypes` | `10` | `10` |" in settings
    assert "| `learning_rate` | **`2e-05`** | `2e-07` |" in settings
    assert "training time 1 h 2 min" in settings
    assert "texts truncated at 32 tokens: 4" in settings
    assert "`max_steps=30`, `retriever=retriever`" in settings
    # The number of steps overrules the epochs, which would be untrue here.
    assert "num_train_epochs" not in settings
    assert "| 10 | 0.5 | 9.5 | 1.25 | 9.25 |" in section(make_card().to_markdown(), "Training log")


@pytest.mark.parametrize(
    ("share", "told"), [(0.25, "with the share `0.25`"), (-0.5, "weights is scaled by `1.5`"), (0.0, None)]
)
def test_averaged_and_scaled_weights_are_said(share, told):
    text = make_card(training_arguments={"start_weight_share": share}).to_markdown()
    assert told in text if told else "scaled by" not in text and "weighted average" not in text


def test_an_example_and_the_scores_come_before_everything_else():
    snippets = [Snippet("In short", "print(MODEL_ID)"), Snippet("At length", "print(MODEL_ID, MODEL_ID)")]
    text = make_card(usage=snippets, sections={"Stages of training": "two"}).to_markdown()
    head = re.findall(r"^## .+|^<details><summary>More examples|^In short:", text, re.MULTILINE)
    assert head == ["## Use", "In short:", "<details><summary>More examples", "## Results", "## Details"]
    assert "At length" in section(text, "More examples")
    assert "- " in section(text, "Limits")
    # Everything else is folded, and no fold is inside another.
    folded, outside = re.compile(r"<details><summary>.*?</details>", re.DOTALL), section(text, "Details")
    assert re.sub(r"<!--.*?-->", "", folded.sub("", outside)).strip() == ""
    assert all(fold.count("<details>") == 1 for fold in folded.findall(text))
    assert section(text, "Stages of training").strip() == "two"


def test_nothing_of_the_machine_leaks():
    text = make_card(
        base_model="/home/someone/encoders/mine", views={"words": "/home/someone/words.txt"}
    ).to_markdown()
    assert "/home/someone" not in text
    assert "secret" not in text
    assert "`mine`, a local folder" in text
    assert HubCard(text).data.base_model is None


def test_a_bare_card_has_no_empty_section():
    bare = ModelCard(
        name="bare", method="swcc", config=SwccConfig().to_dict(), usage=[Snippet("In short", "1")]
    )
    for card in (bare, make_card(), make_card(results=[], history=[], views={}, training_arguments={})):
        text = card.to_markdown()
        assert not re.search(r"^(#+) [^\n]+\n+(?=\1 |\Z|<!--)", text, re.MULTILINE), text
        assert not re.search(r"</summary>\s*</details>", text)
        assert not re.search(r"\bNone\b|\{\{|\}\}|\{%", text)
        assert "\n\n\n" not in text
    assert "## Results" not in bare.to_markdown()
    assert "Training data</summary>" not in bare.to_markdown()


def test_a_long_log_is_thinned_and_keeps_its_ends():
    history = [{"step": step, "loss": 1.0} for step in range(10, 5_010, 10)]
    log = re.findall(r"^\| ([\d,]+) \| 1 \|$", make_card(history=history).to_markdown(), re.MULTILINE)
    assert len(log) == 30
    assert (log[0], log[-1]) == ("10", "5,000")


def test_values_are_data_and_never_templates_or_markup():
    evil = "{{ 7 * 7 }} {% raw %} | <script>\n\n# Heading `x` -->"
    text = make_card(
        name=evil,
        recipe_description=evil,
        trained_on=TrainedOn.from_report(
            {
                **REPORT,
                "sources": {evil: {"license": evil, "documents": 1, "events": 1}},
                "skipped": {evil: 1},
            }
        ),
        views={"option": evil},
        results=[],
    ).to_markdown()
    body = text.split("---\n", 2)[2]
    assert body.count("{{ 7 * 7 }}") > 4
    assert not re.search(r"^# Heading", body, re.MULTILINE)
    outside_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", body, flags=re.DOTALL)
    assert "<script>" not in outside_code
    assert "swcc" in HubCard(text).data.tags


def test_a_card_is_written_replaced_and_kept_once_edited(tmp_path, caplog):
    path = tmp_path / "README.md"
    assert card_state(path) == "absent"
    assert write_card(tmp_path, make_card(), run_usage=False)
    assert card_state(path) == "ours"
    assert write_card(tmp_path, make_card(seed=8), run_usage=False)
    assert "seed `8`" in path.read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]

    path.write_text(path.read_text(encoding="utf-8").replace("## Details", "## More"), encoding="utf-8")
    edited = path.read_bytes()
    assert card_state(path) == "foreign"
    assert not write_card(tmp_path, make_card(), run_usage=False)
    assert path.read_bytes() == edited
    assert "is kept" in caplog.text


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (lambda text: text + "One more line.\n", "foreign"),
        (lambda text: "Mine\n" + text, "foreign"),
        # Line ends of another system are no edit.
        (lambda text: text.replace("\n", "\r\n"), "ours"),
    ],
)
def test_an_edit_at_either_end_is_noticed(tmp_path, change, state):
    path = tmp_path / "README.md"
    path.write_bytes(change(make_card().to_markdown()).encode())
    assert card_state(path) == state


def test_a_card_of_other_hands_stays(tmp_path):
    path = tmp_path / "README.md"
    path.write_bytes(b"# mine \xff\n")
    assert not write_card(tmp_path, make_card(), run_usage=False)
    assert path.read_bytes() == b"# mine \xff\n"


@pytest.mark.parametrize(
    "broken",
    [
        {"method": "unknown"},
        {"config": {"contrastive_objective": "unheard of"}},
        {"results": [make_result(), make_result()]},
    ],
)
def test_a_fault_never_breaks_a_save(tmp_path, caplog, broken):
    assert not write_card(tmp_path, make_card(**broken), run_usage=False)
    assert "no model card was written" in caplog.text
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_earlier_card(tmp_path, monkeypatch, caplog):
    assert write_card(tmp_path, make_card(), run_usage=False)
    before = (tmp_path / "README.md").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert not write_card(tmp_path, make_card(seed=9), run_usage=False)
    assert "No space left on device" in caplog.text
    assert (tmp_path / "README.md").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]


def test_the_recorded_output_is_the_true_one(tmp_path, caplog):
    snippets = [
        Snippet("Right", "import sys\nprint('model', MODEL_ID)\nprint(6 * 7)"),
        Snippet("Wrong", "raise RuntimeError('no such thing in ' + MODEL_ID)"),
    ]
    with examples_run():
        assert write_card(tmp_path, make_card(usage=snippets))
    use = section((tmp_path / "README.md").read_text(encoding="utf-8"), "Use")
    assert "It prints:\n\n```\nmodel org/swcc-test\n42\n```" in use
    assert "failed" not in use
    assert "RuntimeError: no such thing in org/swcc-test" in caplog.text
    assert "print('model', \"org/swcc-test\")" in use
    assert str(tmp_path) not in use


def test_the_interval_of_a_percentage_is_wilsons():
    # Independently: the roots of (p - share)^2 = z^2 p (1 - p) / n.
    rows, share, square = 115, 0.809, 1.959964**2
    a, b, c = 1 + square / rows, -(2 * share + square / rows), share**2
    root = math.sqrt(b * b - 4 * a * c)
    assert interval(80.9, rows, "accuracy") == pytest.approx(
        (100 * (-b - root) / (2 * a), 100 * (-b + root) / (2 * a))
    )


def test_extreme_percentages_stay_inside():
    low, high = interval(100.0, 20, "accuracy") or (0, 0)
    assert 80 < low < 100
    assert high == 100
    assert (interval(0.0, 20, "accuracy") or (1,))[0] == 0


def test_the_interval_of_a_correlation_is_wide_on_twenty_rows():
    low, high = interval(0.82, 20, "spearman") or (0, 0)
    assert low < 0.6 < 0.82 < high < 1


@pytest.mark.parametrize(
    ("value", "rows", "kind"),
    [
        (None, 10, "accuracy"),
        (1.0, 10, "spearman"),
        (0.5, 3, "spearman"),
        (5.0, 0, "accuracy"),
        (5.0, 9, "x"),
    ],
)
def test_where_there_is_no_interval(value, rows, kind):
    assert interval(value, rows, kind) is None


def test_scores_have_the_digits_of_their_kind():
    assert score_text(43.478, "accuracy") == "43.5"
    assert score_text(0.7289, "spearman") == "0.729"
    assert score_text(0.8, "spearman", published=True) == "0.80"
    assert score_text(None, "accuracy") == "not defined"


def test_a_name_goes_in_as_a_literal():
    name = 'a"; import os; os.abort() #\n\\'
    code = snippet_code(Snippet("", "name = MODEL_ID"), name)
    scope: dict[str, str] = {}
    exec(code, scope)  # noqa: S102 - the point is that nothing but an assignment runs
    assert scope["name"] == name


def test_what_was_printed_names_the_model_and_not_its_folder(tmp_path):
    run = run_snippet(Snippet("", "print(MODEL_ID)"), tmp_path, "org/model")
    assert (run.output, run.failure) == ("org/model", None)


def test_a_snippet_runs_apart_from_the_training_process(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    code = """\
import os, sys
print(sorted(set(os.environ) & {"WORLD_SIZE", "TORCHELASTIC_RUN_ID"}), os.environ["HF_HUB_OFFLINE"])
print(sys.stdin.read() == "", sorted(os.listdir()))"""
    assert run_snippet(Snippet("", code), tmp_path, "m").output == "[] 1\nTrue []"


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("while True: pass", "it did not end within 1 seconds"),
        ("print('one'); 1 / 0", "ZeroDivisionError: division by zero; printed before: one"),
        (
            "print('one', flush=True)\nwhile True: pass",
            "it did not end within 1 seconds; printed before: one",
        ),
    ],
)
def test_a_failure_is_told_and_not_raised(tmp_path, code, failure):
    run = run_snippet(Snippet("", code), tmp_path, "m", timeout=1.0 if "while" in code else 60.0)
    assert (run.output, run.failure) == (None, failure)


def test_no_process_at_all_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    assert "no process could be started" in str(run_snippet(Snippet("", "1"), tmp_path, "m").failure)


def test_a_flood_is_cut_and_said(tmp_path):
    output = run_snippet(Snippet("", f"print('x' * {LONGEST_OUTPUT + 1234})"), tmp_path, "m").output
    assert output is not None
    assert output.endswith("(1,234 more characters)")


FIELDS = {
    "swcc": {"event_order": "predicate_first"},
    "heterevent": {"event_order": "predicate_first", "event_dim": 16, "chain_dim": 32},
}


@pytest.fixture(scope="module", params=all_methods())
def examples(
    request: pytest.FixtureRequest, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Snippet]:
    """The usage examples of a method by title, run on a tiny model of it."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    fields = FIELDS.get(request.param, {})
    model = load_method(request.param).head_class.from_encoder(str(tiny_encoder), **fields)
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    if hasattr(model.config, "mention_tokens"):
        # Its examples hold the tags, and a mention with an event is long.
        add_marker_tokens(tokenizer, model, TAGS)
        tokenizer.model_max_length = 64
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    card = ModelCard(name="org/model", method=request.param, config=model.config.to_dict())
    with examples_run():
        return {snippet.title: snippet for snippet in card.with_usage_run(folder).usage or ()}


def test_every_example_runs(examples: dict[str, Snippet]):
    assert {snippet.failure for snippet in examples.values()} == {None}
    assert all(snippet.output for snippet in examples.values() if snippet.is_run)


def test_embedding_with_this_package_and_without_agrees(examples: dict[str, Snippet]):
    ours, plain = (
        next(str(snippet.output) for title, snippet in examples.items() if title.startswith(start))
        for start in ("With eventformers", "With transformers")
    )
    # The sizes stand in the first line, the cosines behind it.
    (sizes, cosines), (plain_sizes, plain_cosines) = _numbers(ours), _numbers(plain)
    assert sizes == plain_sizes
    assert sizes[1] == 32
    assert cosines == pytest.approx(plain_cosines, abs=0.0101)


def _numbers(text: str) -> list[list[float]]:
    return [[float(part) for part in re.findall(r"-?\d+\.?\d*", part)] for part in text.split("\n", 1)]
