"""Commonsense questions from raw files to rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from eventformers.datasets_scripts import build_dataset, build_reports, built_report, load_built
from eventformers.errors import DataFormatError, EventformersError

ITEM = (
    '<copa-corpus><item id="1" asks-for="effect" most-plausible-alternative="2">'
    "<p>It rained.</p><a1>It burned.</a1><a2>It got wet.</a2></item></copa-corpus>"
)
SIQA = {
    "context": "Jo sang.",
    "question": "Why did Jo do this?",
    "answerA": "a",
    "answerB": "b",
    "answerC": "c",
}
CSQA = {
    "answerKey": "A",
    "question": {"stem": "Why?", "choices": [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]},
}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    unlabelled = {"question": CSQA["question"]}
    for name, text in (
        ("COPA/copa-dev.xml", ITEM),
        ("COPA/copa-test.xml", ITEM),
        ("SIQA/dev.jsonl", json.dumps(SIQA)),
        ("SIQA/dev-labels.lst", "3"),
        ("SIQA/test.jsonl", json.dumps(SIQA)),
        ("CSQA/dev_rand_split.jsonl", json.dumps(CSQA)),
        ("CSQA/train_rand_split.jsonl", json.dumps(CSQA)),
        ("CSQA/test_rand_split_no_answers.jsonl", json.dumps(unlabelled)),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return folder


def test_splits_follow_the_files(raw: Path, tmp_path: Path) -> None:
    folder = build_dataset("commonsense_qa", data_dir=raw, output=tmp_path / "out")
    assert {config: list(load_built(folder, config)) for config in build_reports(folder)} == {
        "copa": ["validation", "test"],
        "csqa": ["train", "validation"],
        "siqa": ["validation"],
    }
    assert load_built(folder, "copa")["test"][0] == {
        "premise": "It rained. As a result,",
        "alternatives": ["It burned.", "It got wet."],
        "label": 1,
    }
    assert load_built(raw / "SIQA", "siqa")["validation"][0]["premise"] == "Jo sang. Before, Jo wanted"
    assert list(load_built(raw / "COPA" / "copa-test.xml", "copa")) == ["test"]
    licenses = {config: report["licenses"] for config, report in build_reports(folder).items()}
    assert licenses == {"copa": ["BSD-2-Clause"], "csqa": ["MIT"], "siqa": ["CC-BY-4.0"]}


def test_a_test_file_without_labels_is_counted_beside_others_and_refused_alone(raw: Path) -> None:
    for config, name in (("csqa", "test_rand_split_no_answers.jsonl"), ("siqa", "test.jsonl")):
        assert built_report(raw, config)["skipped"] == {"test_file_without_labels": 1}
        alone = raw / config.upper() / name
        with pytest.raises(DataFormatError, match=r"without labels; .* the split validation has labels"):
            load_built(alone, config)
    (raw / "SIQA" / "test-labels.lst").write_text("1\n", encoding="utf-8")
    assert list(load_built(raw, "siqa")) == ["validation", "test"]
    assert built_report(raw, "siqa")["skipped"] == {}
    (raw / "SIQA" / "dev-labels.lst").unlink()
    assert list(load_built(raw, "siqa")) == ["test"]
    with pytest.raises(EventformersError, match=r"accepted: dev\.jsonl with dev-labels\.lst"):
        load_built(raw / "SIQA" / "dev.jsonl", "siqa")


def test_statistics_count_the_rules_of_socialiqa_by_split(raw: Path) -> None:
    (raw / "SIQA" / "test-labels.lst").write_text("1\n", encoding="utf-8")
    report = built_report(raw, "siqa")
    assert report["statistics"] == {"validation": {"questions_why": 1}, "test": {"questions_why": 1}}
    splits = cast("dict[str, dict[str, Any]]", report["splits"])
    assert splits["test"]["statistics"] == {"questions_why": 1}


def test_the_real_files(shared_data: Path) -> None:
    data = shared_data / "cqa"
    counts = {config: len(load_built(data, config)["validation"]) for config in ("copa", "siqa", "csqa")}
    assert counts == {"copa": 500, "siqa": 977, "csqa": 610}
    copa = load_built(data, "copa")["validation"]
    endings = (" The cause for it was that", " As a result,")
    assert [sum(text.endswith(ending) for text in copa["premise"]) for ending in endings] == [250, 250]
    assert sorted(copa["label"]).count(0) == 250
    assert {len(texts) for texts in load_built(data, "csqa")["validation"]["alternatives"]} == {5}
    assert built_report(data, "siqa")["statistics"] == {
        "questions_describe": 149,
        "questions_do_next": 4,
        "questions_feel_after": 4,
        "questions_feel_result": 199,
        "questions_happen": 98,
        "questions_need_before": 107,
        "questions_other": 18,
        "questions_want_next": 268,
        "questions_why": 130,
    }
