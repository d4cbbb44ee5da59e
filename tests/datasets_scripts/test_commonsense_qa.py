"""Commonsense questions: their readers and their builder."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from eventformers.datasets_scripts import build_dataset, build_reports, built_report, load_built
from eventformers.datasets_scripts.commonsense_qa import (
    SIQA_RULES,
    Question,
    read_copa_json,
    read_copa_xml,
    read_csqa,
    read_siqa,
    siqa_template,
)
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError, EventformersError

COPA_XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE copa-corpus SYSTEM "copa.dtd">
<copa-corpus version="1.0">
  <item id="1" asks-for="cause" most-plausible-alternative="1">
    <p>My cup broke &amp; leaked.</p>
    <a1>I dropped it.</a1>
    <a2>I washed it.</a2>
  </item>
  <item id="2" asks-for="effect" most-plausible-alternative="2">
    <p>It rained.</p>
    <a1>The sun burned.</a1>
    <a2>The street got wet.</a2>
  </item>
</copa-corpus>
"""
COPA_ROW = {
    "qID": "1",
    "answer": "2",
    "sentence": "It rained. As a result, _",
    "option1": "The sun burned.",
    "option2": "The street got wet.",
}
SIQA_ROW = {
    "context": "Sasha sang.",
    "question": "What will Sasha want to do next?",
    "answerA": "rest",
    "answerB": "run",
    "answerC": "cry",
}
CSQA_ROW = {
    "answerKey": "B",
    "id": "1",
    "question": {
        "question_concept": "pen",
        "choices": [{"label": "B", "text": "write"}, {"label": "A", "text": "eat"}],
        "stem": "What is a pen for?",
    },
}
WET: Question = {
    "premise": "It rained. As a result,",
    "alternatives": ["The sun burned.", "The street got wet."],
    "label": 1,
}


Reader = Callable[[Path, SkippedRows], Iterator[Question]]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def read_siqa_with_labels(path: Path, skipped: SkippedRows) -> Iterator[Question]:
    return read_siqa(path, path.with_name("labels.lst"), Counter(), skipped)


def test_copa_in_both_forms(tmp_path: Path) -> None:
    cup: Question = {
        "premise": "My cup broke & leaked. The cause for it was that",
        "alternatives": ["I dropped it.", "I washed it."],
        "label": 0,
    }
    assert list(read_copa_xml(write(tmp_path / "copa-dev.xml", COPA_XML), SkippedRows())) == [cup, WET]
    path = write(tmp_path / "copa.jsonl", json.dumps(COPA_ROW) + "\n")
    assert list(read_copa_json(path, SkippedRows())) == [WET]


def test_socialiqa_with_labels_in_a_second_file(tmp_path: Path) -> None:
    rules: Counter[str] = Counter()
    rows = write(tmp_path / "dev.jsonl", json.dumps(SIQA_ROW) + "\n")
    labels = write(tmp_path / "dev-labels.lst", "3\n")
    assert list(read_siqa(rows, labels, rules, SkippedRows())) == [
        {
            "premise": "Sasha sang. As a result, Sasha wanted to",
            "alternatives": ["rest", "run", "cry"],
            "label": 2,
        }
    ]
    assert rules == {"want_next": 1}


def test_commonsenseqa_sorts_choices_by_label(tmp_path: Path) -> None:
    path = write(tmp_path / "dev_rand_split.jsonl", json.dumps(CSQA_ROW) + "\n")
    assert list(read_csqa(path, SkippedRows())) == [
        {"premise": "What is a pen for?", "alternatives": ["eat", "write"], "label": 1}
    ]


@pytest.mark.parametrize(
    ("question", "rule", "template"),
    [
        ("What will Jo want to do next?", "want_next", "As a result, Jo wanted to"),
        (
            "What will rest of the band want to do after?",
            "want_next",
            "As a result, rest of the band wanted to",
        ),
        ("How would Jo feel afterwards?", "feel_result", "As a result, Jo felt"),
        ("How would Jo's son feel as a result?", "feel_result", "As a result, Jo's son felt"),
        ("What will Jo do next?", "do_next", "Jo then"),
        ("What does Jo need to do next?", "do_next", "Jo then"),
        ("How would Jo feel after helping?", "feel_after", "Jo then"),
        ("How would you describe Jo?", "describe", "Jo is seen as"),
        ("What kind of person is Jo?", "describe", "Jo is seen as"),
        ("Why did Jo do this?", "why", "Before, Jo wanted"),
        ("What does Jo need to do before this?", "need_before", "Before, Jo needed to"),
        ("What will happen to his party members?", "happen", "his party members then"),
        ("What did Jo do?", "other", "What did Jo do is"),
        ("What does Jo need to do now?", "other", "What does Jo need to do now is"),
    ],
)
def test_templates_of_socialiqa(question: str, rule: str, template: str) -> None:
    assert siqa_template(question) == (rule, template)


@pytest.mark.parametrize(
    ("question", "template"),
    [
        ("How would Jo feel after helping?", "As a result, Jo felt"),
        ("How would you describe Jo?", "This shows that Jo is"),
        ("Why did Jo do this?", "Before this, Jo wanted to"),
        ("What will happen to Jo?", "As a result, Jo will"),
        ("What did Jo do?", "What did Jo do?"),
    ],
)
def test_grammatical_templates_of_socialiqa(question: str, template: str) -> None:
    assert siqa_template(question, "grammatical")[1] == template


def test_every_kind_of_question_has_both_templates() -> None:
    for template in (text for rule in SIQA_RULES for text in (rule.paper, rule.grammatical)):
        assert template.count("{person}") == 1


DEEP = "[" * 100_000
ENTITIES = COPA_XML.replace('SYSTEM "copa.dtd"', '[<!ENTITY a "b">]').replace("I dropped it.", "&a;")
CHOICES = CSQA_ROW["question"]["choices"]  # type: ignore[index]


def csqa(**changes: object) -> str:
    question = {**CSQA_ROW["question"], **changes}  # type: ignore[dict-item]
    return json.dumps({**CSQA_ROW, "question": question})


def changed(row: dict[str, Any], **changes: object) -> str:
    return json.dumps({**row, **changes})


FAULTS: dict[Reader, list[tuple[str, int | None, str]]] = {
    read_copa_xml: [
        (COPA_XML.replace("<a2>I washed it.</a2>", ""), 4, "a question with 1 alternative;"),
        (COPA_XML.replace('alternative="2"', 'alternative="3"'), 9, "'3' in most-plausible"),
        (COPA_XML.replace(' most-plausible-alternative="2"', ""), 9, "no label in most-plausible"),
        (COPA_XML.replace('"effect"', '"end"'), 9, "asks-for='end'; accepted: cause or effect"),
        (COPA_XML.replace("<p>It rained.</p>", ""), 9, "an item without p"),
        (COPA_XML.replace("</a1>", "", 1), 8, "broken XML"),
        (ENTITIES, 2, "XML with entities"),
        ("<copa-corpus/>", None, "no item; accepted: <item asks-for"),
        (COPA_XML.replace("id=", "ID="), 4, "the attribute 'ID' (did you mean 'id'?)"),
        (COPA_XML.replace("<a2>I washed it.</a2>", "<a1>I washed it.</a1>"), 4, "twice"),
    ],
    read_copa_json: [
        (changed(COPA_ROW, option2=""), 1, "1 alternative; accepted: 2 or more"),
        (changed(COPA_ROW, answer="0"), 1, "'0' in answer; accepted: 1, 2"),
        (changed(COPA_ROW, sentence=1), 1, "sentence=1; accepted: a text"),
        (changed(COPA_ROW, answer=True), 1, "True in answer"),
        (f"{json.dumps(COPA_ROW)}\n{{", 2, "invalid JSON"),
        ("[]", 1, "JSON of type list; accepted: one JSON object"),
        (DEEP, 1, "JSON that is nested too deeply"),
    ],
    read_siqa_with_labels: [
        (changed(SIQA_ROW, answerC=""), 1, "2 alternatives; accepted: 3"),
        (json.dumps({"Context": "x", "question": "q"}), 1, "(did you mean 'context'?)"),
        (DEEP, 1, "JSON that is nested too deeply"),
    ],
    read_csqa: [
        (csqa(choices=CHOICES[:1]), 1, "1 alternative; accepted: 2 or more"),
        (csqa(choices=[CHOICES[0], CHOICES[0]]), 1, "the choice {'label': 'B'"),
        (csqa(choices=[{"label": ["A"], "text": "eat"}]), 1, "label=['A']"),
        (csqa(choices=[{"label": "A", "Text": "eat"}]), 1, "the key 'Text' (did you mean 'text'?)"),
        (csqa(choices="none"), 1, "a row without question or choices"),
        (csqa(stem="\ud800"), 1, "half of a surrogate pair"),
        (changed(CSQA_ROW, answerKey="C"), 1, "'C' in answerKey; accepted: A, B"),
        (changed(CSQA_ROW, answerKey=None), 1, "no label in answerKey; accepted: A, B; "),
        (json.dumps({"answer_key": "B", "question": CSQA_ROW["question"]}), 1, "(did you mean 'answerKey'?)"),
        (DEEP, 1, "JSON that is nested too deeply"),
    ],
}


@pytest.mark.parametrize(
    ("reader", "text", "line", "found"),
    [(reader, *fault) for reader, faults in FAULTS.items() for fault in faults],
)
def test_bad_questions_name_file_and_line(
    tmp_path: Path, reader: Reader, text: str, line: int | None, found: str
) -> None:
    write(tmp_path / "labels.lst", "1\n")
    path = write(tmp_path / "questions", text)
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        list(reader(path, SkippedRows()))
    assert (caught.value.path, caught.value.line) == (path, line)


@pytest.mark.parametrize(
    ("labels", "line", "found"),
    [
        ("1\n1\n", None, "2 labels for 1 rows in dev.jsonl"),
        ("\n", None, "0 labels, and more rows in dev.jsonl"),
        ("\nA\n", 2, "'A' in the label; accepted: 1, 2, 3"),
    ],
)
def test_bad_labels_name_their_file(tmp_path: Path, labels: str, line: int | None, found: str) -> None:
    rows = write(tmp_path / "dev.jsonl", json.dumps(SIQA_ROW) + "\n")
    path = write(tmp_path / "dev-labels.lst", labels)
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        list(read_siqa(rows, path, Counter(), SkippedRows()))
    assert (caught.value.path, caught.value.line) == (path, line)


def test_a_question_of_many_auxiliary_verbs_is_read_in_linear_time() -> None:
    # In quadratic time it takes hours.
    assert siqa_template("will x " * 100_000)[0] == "other"


@pytest.mark.parametrize(
    ("reader", "text", "reasons", "lines"),
    [
        (read_copa_xml, COPA_XML.replace('"effect"', '"end"'), {"malformed_item": 1}, [9]),
        (
            read_copa_json,
            f"{{\n\n{json.dumps({**COPA_ROW, 'answer': 3})}\n{json.dumps(COPA_ROW)}\n",
            {"malformed_line": 1, "blank_line": 1, "malformed_row": 1},
            [1, 3],
        ),
        (read_csqa, f"{csqa(choices=[])}\n{json.dumps(CSQA_ROW)}\n", {"malformed_row": 1}, [1]),
    ],
)
def test_the_smallest_whole_is_left_out(
    tmp_path: Path, reader: Reader, text: str, reasons: dict[str, int], lines: list[int]
) -> None:
    skipped = SkippedRows("skip")
    assert len(list(reader(write(tmp_path / "questions", text), skipped))) == 1
    assert skipped == reasons
    assert [part["line"] for part in skipped.parts] == lines


def test_rows_of_socialiqa_keep_their_own_labels(tmp_path: Path) -> None:
    rows = [json.dumps({**SIQA_ROW, "answerA": f"rest {number}"}).encode() for number in range(6)]
    rows[1] = b"\xff"
    rows[3] = b"{"
    path = tmp_path / "dev.jsonl"
    path.write_bytes(b"\n".join([*rows, b"\xff"]))
    labels = tmp_path / "labels.lst"
    labels.write_bytes(b"1\n2\n\n3\n1\n9\n3\n\xff\n")
    skipped = SkippedRows("skip")
    found = [(row["alternatives"][0], row["label"]) for row in read_siqa_with_labels(path, skipped)]
    assert found == [("rest 0", 0), ("rest 2", 2), ("rest 5", 2)]
    # The labels' last line, the second and the last row; the fourth row; the fifth row, with its label 9.
    assert skipped == {"malformed_line": 3, "malformed_row": 2, "blank_line": 1}


def test_a_row_whose_label_is_left_out_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "dev.jsonl", f"{json.dumps(SIQA_ROW)}\n" * 2)
    (tmp_path / "labels.lst").write_bytes(b"\xff\n3\n")
    skipped = SkippedRows("skip")
    assert [row["label"] for row in read_siqa_with_labels(path, skipped)] == [2]
    assert skipped == {"malformed_line": 1, "row_whose_label_was_left_out": 1}


def test_long_labels_do_not_fill_the_message(tmp_path: Path) -> None:
    choices = [{"label": name * 50_000, "text": name} for name in "CD"]
    with pytest.raises(DataFormatError, match="'B' in answerKey") as caught:
        list(read_csqa(write(tmp_path / "questions", csqa(choices=choices)), SkippedRows()))
    assert len(str(caught.value)) < 1_000


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    why = changed(SIQA_ROW, question="Why did Sasha do this?")
    unlabelled = {"question": CSQA_ROW["question"]}
    for name, text in (
        ("COPA/copa-dev.xml", COPA_XML),
        ("COPA/copa-test.xml", COPA_XML),
        ("SIQA/dev.jsonl", why),
        ("SIQA/dev-labels.lst", "3"),
        ("SIQA/test.jsonl", why),
        ("CSQA/dev_rand_split.jsonl", json.dumps(CSQA_ROW)),
        ("CSQA/train_rand_split.jsonl", json.dumps(CSQA_ROW)),
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
    assert load_built(folder, "copa")["test"][1] == WET
    for premises, text in (
        ("paper", "Before, Sasha wanted"),
        ("grammatical", "Before this, Sasha wanted to"),
    ):
        built = load_built(raw / "SIQA", "siqa", siqa_premises=premises)["validation"]
        assert built[0]["premise"] == f"Sasha sang. {text}"
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
    assert report["statistics"] == {
        "validation": {"questions_why": 1},
        "test": {"questions_why": 1},
    }
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
