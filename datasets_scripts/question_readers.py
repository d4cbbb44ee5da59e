"""The raw files of commonsense questions: COPA, SocialIQA and CommonsenseQA."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from eventformers.datasets_scripts.raw_files import read_lines
from eventformers.datasets_scripts.xml_files import elements, read_xml
from eventformers.errors import DataFormatError


class Question(TypedDict):
    """A premise, the alternatives in the order of the file, and the index of the right one."""

    premise: str
    alternatives: list[str]
    label: int


COPA_TEMPLATES = {"cause": "The cause for it was that", "effect": "As a result,"}
"""What follows the premise of COPA, by what is asked for."""

_ASKED = r"\b(?:will|would|does|do|did|can|could|should) (?P<person>.+?)"
SIQA_RULES: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE), template)
    for name, pattern, template in (
        ("want_next", rf"{_ASKED} want to do (?:next|after)\b", "As a result, {person} wanted to"),
        ("feel_result", rf"{_ASKED} feel (?:afterwards?|as a result)\b", "As a result, {person} felt"),
        ("do_next", rf"{_ASKED}(?: (?:need|have) to)? do next\b", "{person} then"),
        ("feel_after", rf"{_ASKED} feel after\b", "{person} then"),
        (
            "describe",
            r"\b(?:describe|what kind of (?:a )?person (?:is|was)) (?P<person>[^?]+)",
            "{person} is seen as",
        ),
        ("why", r"\bwhy did (?P<person>.+?) do (?:this|that)\b", "Before, {person} wanted"),
        ("need_before", rf"{_ASKED} need to do before\b", "Before, {person} needed to"),
        ("happen", r"\bhappen to (?P<person>[^?]+)", "{person} then"),
    )
)
"""Name, pattern and template of each kind of question of SocialIQA; the first that matches decides."""
_OTHER_RULE = "other"

_NO_LABELS = "the test files of leaderboards have none: take the split validation"


def siqa_template(question: str) -> tuple[str, str]:
    """The name of the rule that a question of SocialIQA falls under, and its template filled in.

    The person is what stands between the auxiliary verb and the verb of the rule, or after "describe" and
    "happen to" up to the question mark: a name mostly, but also "Robin's friends" or "they", as written. A
    question that no rule matches is repeated with "is" for its question mark.
    """
    for name, pattern, template in SIQA_RULES:
        if match := pattern.search(question):
            return name, template.format(person=match["person"].strip())
    return _OTHER_RULE, f"{question.strip().rstrip('?').rstrip()} is"


def read_copa_xml(path: Path) -> Iterator[Question]:
    """COPA as its authors publish it: `<item asks-for="cause" most-plausible-alternative="1">` with the
    elements `p`, `a1` and `a2`.

    Raises:
        DataFormatError: the file is no plain XML, or an item lacks something; with the line of the item.
    """
    accepted = '<item asks-for="cause|effect" most-plausible-alternative="1|2"> with p, a1 and a2'
    items = _xml_items(path)
    if not items:
        raise DataFormatError(path, None, "no item", accepted)
    for line, attributes, texts in items:
        asked = attributes.get("asks-for", "")
        if asked not in COPA_TEMPLATES:
            raise DataFormatError(path, line, f"asks-for={asked!r}", " or ".join(COPA_TEMPLATES))
        if not texts.get("p"):
            raise DataFormatError(path, line, "an item without p", accepted)
        alternatives = [texts[name] for name in ("a1", "a2") if texts.get(name)]
        label = attributes.get("most-plausible-alternative")
        yield {
            "premise": f"{texts['p']} {COPA_TEMPLATES[asked]}",
            "alternatives": _checked_alternatives(alternatives, 2, path, line),
            "label": _index(label, ("1", "2"), "most-plausible-alternative", path, line),
        }


def read_copa_json(path: Path) -> Iterator[Question]:
    """COPA as MICO rewrote it: `sentence`, which ends with a template and an underscore, `option1`, `option2`
    and `answer`."""
    for line, row in _json_rows(path):
        alternatives = _present(row, ("option1", "option2"), path, line)
        yield {
            "premise": _text(row, "sentence", path, line).removesuffix("_").rstrip(),
            "alternatives": _checked_alternatives(alternatives, 2, path, line),
            "label": _index(row.get("answer"), ("1", "2"), "answer", path, line),
        }


def read_siqa(path: Path, labels_path: Path, rules: Counter[str]) -> Iterator[Question]:
    """SocialIQA: rows with `context`, `question` and `answerA` to `answerC`, labels 1 to 3 in a second file.

    Args:
        path: the rows.
        labels_path: the labels, one a line.
        rules: counts of the rules that the questions fall under, to be filled.

    Raises:
        DataFormatError: a row or a label cannot be read, or there are more of one than of the other.
    """
    labels = [(line, text.strip()) for line, text in read_lines(labels_path) if text.strip()]
    count = 0
    for line, row in _json_rows(path):
        count += 1
        if count > len(labels):
            raise DataFormatError(
                labels_path, None, f"{len(labels)} labels, and more rows in {path.name}", "one label a row"
            )
        rule, template = siqa_template(_text(row, "question", path, line))
        rules[rule] += 1
        alternatives = _present(row, ("answerA", "answerB", "answerC"), path, line)
        label_line, label = labels[count - 1]
        yield {
            "premise": f"{_text(row, 'context', path, line)} {template}",
            "alternatives": _checked_alternatives(alternatives, 3, path, line),
            "label": _index(label, ("1", "2", "3"), "the label", labels_path, label_line),
        }
    if count < len(labels):
        raise DataFormatError(
            labels_path, None, f"{len(labels)} labels for {count} rows in {path.name}", "one label a row"
        )


def read_csqa(path: Path) -> Iterator[Question]:
    """CommonsenseQA: `question` with `stem` and `choices` (`label`, `text`), and `answerKey`.

    The alternatives are sorted by their labels, which is how the files have them.
    """
    accepted = "a question with a stem and choices of a label and a text each"
    for line, row in _json_rows(path):
        question = row.get("question")
        choices = question.get("choices") if isinstance(question, dict) else None
        if not isinstance(question, dict) or not isinstance(choices, list):
            raise DataFormatError(path, line, "a row without question or choices", accepted)
        texts: dict[str, str] = {}
        for choice in choices:
            if not isinstance(choice, dict) or choice.get("label") in texts:
                raise DataFormatError(path, line, f"the choice {choice!r}", accepted)
            texts[_text(choice, "label", path, line)] = _text(choice, "text", path, line)
        names = tuple(sorted(texts))
        yield {
            "premise": _text(question, "stem", path, line),
            "alternatives": _checked_alternatives([texts[name] for name in names], 2, path, line),
            "label": _index(row.get("answerKey"), names, "answerKey", path, line),
        }


def _xml_items(path: Path) -> list[tuple[int, Mapping[str, str], dict[str, str]]]:
    """Line, attributes and texts of the items."""
    return [
        (item.line, item.attrib, {child.tag: (child.text or "").strip() for child in item})
        for item in elements(read_xml(path), "item")
    ]


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    for line, text in read_lines(path):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError as error:
            raise DataFormatError(path, line, f"broken JSON ({error})", "one JSON object a line") from error
        if not isinstance(row, dict):
            raise DataFormatError(path, line, f"{text.strip()[:60]}", "one JSON object a line")
        yield line, row


def _text(row: Mapping[str, object], name: str, path: Path, line: int) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise DataFormatError(path, line, f"{name}={value!r}", f"a text in {name}")
    return value.strip()


def _present(row: Mapping[str, object], names: tuple[str, ...], path: Path, line: int) -> list[str]:
    """The alternatives of a row that are there."""
    return [_text(row, name, path, line) for name in names if row.get(name) not in (None, "")]


def _checked_alternatives(alternatives: list[str], least: int, path: Path, line: int) -> list[str]:
    if len(alternatives) < least:
        plural = "" if len(alternatives) == 1 else "s"
        more = "" if least == 3 else " or more"
        raise DataFormatError(
            path, line, f"a question with {len(alternatives)} alternative{plural}", f"{least}{more}"
        )
    return alternatives


def _index(value: object, names: tuple[str, ...], what: str, path: Path, line: int) -> int:
    if value in (None, ""):
        raise DataFormatError(path, line, f"no label in {what}", f"{', '.join(names)}; {_NO_LABELS}")
    if str(value) not in names:
        raise DataFormatError(path, line, f"{value!r} in {what}", ", ".join(names))
    return names.index(str(value))
