"""Builder of multiple-choice commonsense questions: COPA, SocialIQA and CommonsenseQA."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, EventDatasetBuilder, EventDatasetConfig
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import Record, check_keys, checked_record
from eventformers.datasets_scripts.reading.lines import file_stem, parse_json, read_lines
from eventformers.datasets_scripts.reading.markup import XmlElement, elements, read_xml
from eventformers.datasets_scripts.reading.tables import (
    columns_of,
    is_table,
    may_hold,
    read_records,
    table_names,
)
from eventformers.errors import SHOWN_CHARACTERS, DataFormatError, counted, shown
from eventformers.files import packaged_yaml


class Question(TypedDict):
    """A premise, the alternatives in the order of the file, and the index of the correct one."""

    premise: str
    alternatives: list[str]
    label: int


QUESTION_COLUMNS = columns_of("questions")
"""Columns of a table of questions."""

COPA_TEMPLATES = {"cause": "The cause for it was that", "effect": "As a result,"}
"""The text after the premise of COPA, by the kind of question."""


class SiqaRule(NamedTuple):
    """A kind of question of SocialIQA.

    The person is the text between `before` and the first `after` that follows it, or without `after`, the
    text from `before` to the question mark. The two are searched one after the other: a single pattern would
    try every `before` with every `after`, in quadratic time.

    Args:
        after: pattern after the person; None for the question mark or the end.
        paper: MICO's text after the context, with a slot for the person.
        grammatical: the same in English.
    """

    name: str
    before: re.Pattern[str]
    after: re.Pattern[str] | None
    paper: str
    grammatical: str

    def person(self, question: str) -> str | None:
        """Return the person of a question; None if the question is of another kind."""
        if self.after is None:
            match = self.before.search(question)
            return match["person"].strip() if match else None
        for line in question.split("\n"):
            if (before := self.before.search(line)) and (after := self.after.search(line, before.end() + 1)):
                return line[before.end() : after.start()].strip()
        return None


SIQA_RULES: tuple[SiqaRule, ...] = tuple(
    SiqaRule(
        rule["name"],
        re.compile(rule["before"], re.IGNORECASE),
        re.compile(rule["after"], re.IGNORECASE) if "after" in rule else None,
        rule["paper"],
        rule["grammatical"],
    )
    for rule in packaged_yaml(__file__, "siqa.yaml")
)
"""The kinds of questions; the first match applies."""
SiqaPremises = Literal["paper", "grammatical"]

_OTHER_RULE = "other"

_COPA_KEYS = frozenset({"qID", "answer", "sentence", "option1", "option2"})
_COPA_ATTRIBUTES = frozenset({"id", "asks-for", "most-plausible-alternative", "mirrored"})
"""The attributes of COPA, and the mark of Balanced COPA for its additional items, which is ignored."""
_COPA_ELEMENTS = frozenset({"p", "a1", "a2"})
_SIQA_KEYS = frozenset({"context", "question", "answerA", "answerB", "answerC"})
_CSQA_KEYS = frozenset({"answerKey", "id", "question"})
_CSQA_QUESTION_KEYS = frozenset({"question_concept", "choices", "stem"})
_CSQA_CHOICE_KEYS = frozenset({"label", "text"})

_ACCEPTED_ROW = "one JSON object a line"
_ACCEPTED_ITEM = '<item asks-for="cause|effect" most-plausible-alternative="1|2"> with p, a1 and a2'
_ACCEPTED_CSQA = "a question with a stem, and choices with a label and a text each"
_NO_LABELS = "the test files of leaderboards have none: use the split validation"


def siqa_template(question: str, premises: SiqaPremises = "paper") -> tuple[str, str]:
    """Find the rule that matches a SocialIQA question, and fill in its template.

    The person is the text between the auxiliary verb and the verb of the rule, or between "describe" or
    "happen to" and the question mark: usually a name, but also "Robin's friends" or "they", as written. If no
    rule matches, the template is the question, in MICO's templates with "is" instead of its question mark.

    Args:
        premises: MICO's templates, or English ones.

    Returns:
        The name of the rule and the filled template.
    """
    for rule in SIQA_RULES:
        if (person := rule.person(question)) is not None:
            return rule.name, getattr(rule, premises).format(person=person)
    if premises == "paper":
        return _OTHER_RULE, f"{question.strip().rstrip('?').rstrip()} is"
    return _OTHER_RULE, question.strip()


def read_copa_xml(path: Path, skipped: SkippedRows) -> Iterator[Question]:
    """Read COPA as published by its authors: `<item asks-for="cause" most-plausible-alternative="1">` with
    the elements `p`, `a1` and `a2`. `id` and `mirrored` are ignored.

    Raises:
        DataFormatError: the file is not plain XML, or an item lacks something; names the line of the item.
    """

    def question(item: XmlElement) -> Question:
        line, attributes = item.line, item.attrib
        texts = {child.tag: "".join(child.itertext()).strip() for child in item}
        if len(texts) < len(item):
            raise DataFormatError(path, line, "an item with the same element twice", _ACCEPTED_ITEM)
        check_keys(attributes, _COPA_ATTRIBUTES, path, line, what="attribute", complete=True)
        check_keys(texts, _COPA_ELEMENTS, path, line, what="element", complete=True)
        asked = attributes.get("asks-for", "")
        if asked not in COPA_TEMPLATES:
            raise DataFormatError(path, line, f"asks-for={shown(asked)}", " or ".join(COPA_TEMPLATES))
        if not texts.get("p"):
            raise DataFormatError(path, line, "an item without p", _ACCEPTED_ITEM)
        alternatives = [texts[name] for name in ("a1", "a2") if texts.get(name)]
        label = attributes.get("most-plausible-alternative")
        return {
            "premise": f"{texts['p']} {COPA_TEMPLATES[asked]}",
            "alternatives": _checked_alternatives(alternatives, 2, path, line),
            "label": _index(label, ("1", "2"), "most-plausible-alternative", path, line),
        }

    items = list(elements(read_xml(path), "item"))
    if not items:
        raise DataFormatError(path, None, "no item", _ACCEPTED_ITEM)
    return skipped.parsed(items, question, "item")


def read_copa_json(path: Path, skipped: SkippedRows) -> Iterator[Question]:
    """Read COPA as rewritten by MICO: `sentence`, which ends with a template and an underscore, `option1`,
    `option2` and `answer`. `qID` is ignored.

    Raises:
        DataFormatError: a row cannot be read; names the line.
    """

    def question(row: Record) -> Question:
        alternatives = _present(row, ("option1", "option2"))
        return {
            "premise": _text(row, "sentence").removesuffix("_").rstrip(),
            "alternatives": _checked_alternatives(alternatives, 2, path, row.line),
            "label": _index(row.get("answer"), ("1", "2"), "answer", path, row.line),
        }

    return read_records(path, skipped, (), _ACCEPTED_ROW, question, ignored=_COPA_KEYS)


def read_siqa(
    path: Path,
    labels_path: Path,
    rules: Counter[str],
    skipped: SkippedRows,
    premises: SiqaPremises = "paper",
) -> Iterator[Question]:
    """Read SocialIQA: rows with `context`, `question` and `answerA` to `answerC`; labels 1 to 3 in a second
    file.

    A row is skipped together with its label, so that later rows keep theirs.

    Args:
        labels_path: the labels, one per line.
        rules: counts of the rules that the questions match; added to.
        skipped: count of blank lines, and policy for malformed rows and labels.
        premises: the templates of the premises; see `siqa_template`.

    Raises:
        DataFormatError: a row or a label cannot be read, or their numbers differ.
    """
    labels = list(_lines_with_gaps(labels_path, skipped))

    def labelled() -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
        num_rows = 0
        for num_rows, row in enumerate(_lines_with_gaps(path, skipped), start=1):
            if num_rows > len(labels):
                found = f"{len(labels)} labels, and more rows in {path.name}"
                raise DataFormatError(labels_path, None, found, "one label for each row")
            label = labels[num_rows - 1]
            if row is None:
                continue
            if label is None:
                skipped["row_whose_label_was_left_out"] += 1
            else:
                yield row, label
        if num_rows < len(labels):
            found = f"{len(labels)} labels for {num_rows} rows in {path.name}"
            raise DataFormatError(labels_path, None, found, "one label for each row")

    def question(item: tuple[tuple[int, str], tuple[int, str]]) -> tuple[str, Question]:
        (line, text), (label_line, label) = item
        value = parse_json(text, path, line, _ACCEPTED_ROW)
        row = checked_record(value, _SIQA_KEYS, path, line, _ACCEPTED_ROW)
        rule, template = siqa_template(_text(row, "question"), premises)
        alternatives = _present(row, ("answerA", "answerB", "answerC"))
        return rule, {
            "premise": f"{_text(row, 'context')} {template}",
            "alternatives": _checked_alternatives(alternatives, 3, path, line),
            "label": _index(label.strip(), ("1", "2", "3"), "the label", labels_path, label_line),
        }

    for rule, row in skipped.parsed(labelled(), question):
        rules[rule] += 1
        yield row


def read_csqa(path: Path, skipped: SkippedRows) -> Iterator[Question]:
    """Read CommonsenseQA: `question` with `stem` and `choices` (`label`, `text`), and `answerKey`.

    The alternatives are sorted by label, as in the files. `id` and `question_concept` are ignored.

    Raises:
        DataFormatError: a row cannot be read; names the line.
    """

    def question(row: Record) -> Question:
        line, asked = row.line, row.get("question")
        choices = asked.get("choices") if isinstance(asked, dict) else None
        if not isinstance(asked, dict) or not isinstance(choices, list):
            raise row.fault("a row without question or choices", _ACCEPTED_CSQA)
        check_keys(asked, _CSQA_QUESTION_KEYS, path, line)
        texts: dict[str, str] = {}
        for choice in choices:
            known = checked_record(choice, _CSQA_CHOICE_KEYS, path, line, _ACCEPTED_CSQA)
            name, text = _text(known, "label"), _text(known, "text")
            if name in texts:
                raise row.fault(f"the choice {shown(choice)} twice", _ACCEPTED_CSQA)
            texts[name] = text
        names = tuple(sorted(texts))
        return {
            "premise": _text(Record(asked, path, line), "stem"),
            "alternatives": _checked_alternatives([texts[name] for name in names], 2, path, line),
            "label": _index(row.get("answerKey"), names, "answerKey", path, line),
        }

    return read_records(path, skipped, (), _ACCEPTED_ROW, question, ignored=_CSQA_KEYS)


def read_question_table(path: Path, skipped: SkippedRows) -> Iterator[Question]:
    """Read a table of questions with `QUESTION_COLUMNS`; premises are unchanged.

    Raises:
        DataFormatError: a row cannot be read; names the row.
    """

    def question(row: Record) -> Question:
        alternatives = row.get("alternatives")
        if not (
            isinstance(alternatives, list)
            and all(isinstance(one, str) and one.strip() for one in alternatives)
        ):
            raise row.fault(f"alternatives={shown(alternatives)}", "a list of texts, none of them empty")
        places = tuple(map(str, range(len(alternatives))))
        return {
            "premise": _text(row, "premise"),
            "alternatives": _checked_alternatives(alternatives, 2, path, row.line),
            "label": _index(row.get("label"), places, "label", path, row.line),
        }

    return read_records(path, skipped, QUESTION_COLUMNS, "", question)


def _lines_with_gaps(path: Path, skipped: SkippedRows) -> Iterator[tuple[int, str] | None]:
    """Read the non-blank lines with their numbers. A skipped line that is not UTF-8 gives None, so that two
    files stay aligned."""
    left_out = skipped["malformed_line"]
    for line, text in read_lines(path, skipped):
        yield from [None] * (skipped["malformed_line"] - left_out)
        left_out = skipped["malformed_line"]
        if text.strip():
            yield line, text
        else:
            skipped["blank_line"] += 1
    yield from [None] * (skipped["malformed_line"] - left_out)


def _text(row: Record, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise row.fault(f"{name}={shown(value)}", f"a text in {name}")
    return value.strip()


def _present(row: Record, names: tuple[str, ...]) -> list[str]:
    return [_text(row, name) for name in names if row.get(name) not in (None, "")]


def _checked_alternatives(alternatives: list[str], least: int, path: Path, line: int) -> list[str]:
    if len(alternatives) < least:
        more = "" if least == 3 else " or more"
        raise DataFormatError(
            path, line, f"a question with {counted(len(alternatives), 'alternative')}", f"{least}{more}"
        )
    return alternatives


def _listed(names: tuple[str, ...]) -> str:
    """The accepted labels, truncated like other values in messages."""
    text = ", ".join(names)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _index(value: object, names: tuple[str, ...], what: str, path: Path, line: int) -> int:
    if value in (None, ""):
        raise DataFormatError(path, line, f"no label in {what}", f"{_listed(names)}; {_NO_LABELS}")
    if not isinstance(value, (str, int)) or isinstance(value, bool) or str(value) not in names:
        raise DataFormatError(path, line, f"{shown(value)} in {what}", _listed(names))
    return names.index(str(value))


_FOLDERS = {"copa": "COPA", "siqa": "SIQA", "csqa": "CSQA"}
_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "copa": {
        "validation": ("copa-dev.xml", "copa-dev-new.jsonl"),
        "test": ("copa-test.xml", "copa-test-new.jsonl"),
    },
    "siqa": {"train": ("train.jsonl",), "validation": ("dev.jsonl",), "test": ("test.jsonl",)},
    "csqa": {"train": ("train_rand_split.jsonl",), "validation": ("dev_rand_split.jsonl",)},
}
"""File names by split; the first existing one is used."""
_UNLABELLED = {"siqa": "test.jsonl", "csqa": "test_rand_split_no_answers.jsonl"}
"""Test files whose owners do not publish the labels."""
_COLUMN_NAMES = [column.name for column in QUESTION_COLUMNS]
_SOURCES = {
    "copa": ("COPA", "BSD-2-Clause"),
    "siqa": ("SocialIQA", "CC-BY-4.0"),
    "csqa": ("CommonsenseQA", "MIT"),
}


@dataclass
class CommonsenseQAConfig(EventDatasetConfig):
    """Settings of the premises.

    Args:
        siqa_premises: of SocialIQA, take the templates of MICO's `paper`, which are often no English
            ("Before, Sydney wanted take a break", "What did Sydney do is"); or `grammatical` ones, which most
            answers complete to a sentence ("Before this, Sydney wanted to take a break").
    """

    siqa_premises: SiqaPremises = "paper"


class CommonsenseQA(EventDatasetBuilder):
    """Questions with a `premise`, the `alternatives` that continue it, and the `label`, the index of the
    correct one.

    - `copa`: the premise with "The cause for it was that" or "As a result,". Raw files: `copa-dev.xml`,
      `copa-test.xml` of the authors, else `copa-dev-new.jsonl`, `copa-test-new.jsonl` of MICO, whose trailing
      underscore in the premise is removed.
    - `siqa`: the context with a template of the question (`siqa_template`). The statistics
      of the report count the questions by rule. Raw files: `dev.jsonl` with `dev-labels.lst`, and likewise
      `train` and `test` if their labels exist.
    - `csqa`: the question itself. Raw files: `dev_rand_split.jsonl`, `train_rand_split.jsonl`.
    - Any: a table of questions that are already a premise with alternatives, with the name of the first of
      these files and the suffix `.csv`, `.tsv` or `.parquet`.

    Files are in the given folder, in its subfolders `COPA`, `SIQA` and `CSQA`, or given directly. Development
    files are the split `validation`. A test file without labels is skipped and counted if there are labelled
    files; otherwise it is an error.
    """

    NAME = "commonsense_qa"
    BUILDER_CONFIG_CLASS = CommonsenseQAConfig
    config: CommonsenseQAConfig

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the files of the first folder that has any, else those given directly.

        The files of SocialIQA are used only with their labels.

        Raises:
            DataFormatError: there is only a test file without labels.
        """
        given = {path.name: path for path in paths if path.is_file()}
        places = [
            {path.name: path for path in folder.iterdir()}
            for path in paths
            if path.is_dir()
            for folder in (path / _FOLDERS[config_name], path)
            if folder.is_dir()
        ]
        unlabelled = None
        for files in [*places, given]:
            found: dict[str, list[Path]] = {}
            for split, names in _FILES[config_name].items():
                tables = [files[name] for name in table_names(names[0]) if name in files]
                if files is not given:
                    # `train.csv` of a folder may also hold the triples of a graph.
                    tables = [table for table in tables if may_hold(table, _COLUMN_NAMES)]
                path = next((files[name] for name in names if name in files), None)
                if tables or path is None:
                    found |= {split: [*tables, *([path] if path else [])]} if tables else {}
                elif config_name != "siqa":
                    found[split] = [path]
                elif (labels := path.with_name(f"{path.stem}-labels.lst")).is_file():
                    found[split] = [path, labels]
            if found:
                return found
            unlabelled = unlabelled or files.get(_UNLABELLED.get(config_name, ""))
        if unlabelled is not None:
            raise DataFormatError(
                unlabelled,
                None,
                "questions without labels",
                f"{cls.RAW_FILES[config_name]}: the split validation has labels, this test split has none",
            )
        return {}

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield the questions of `self.split`.

        Raises:
            DataFormatError: a question cannot be read, has too few alternatives or no label; names file and
                line.
        """
        config, report = self.config.name, self.report
        first = self.split_files[self.split][0]
        # A table is the user's own; the published files have other formats.
        published = (file_stem(first), UNSPECIFIED) if is_table(first) else _SOURCES[config]
        source, license_name = SAMPLE_ORIGIN if self.is_sample else published
        rules: Counter[str] = Counter()
        files, skipped = self.split_files[self.split], report.skipped
        if is_table(first):
            questions = read_question_table(first, skipped)
        elif config == "siqa":
            questions = read_siqa(files[0], files[1], rules, skipped, self.config.siqa_premises)
        elif config == "csqa":
            questions = read_csqa(first, skipped)
        else:
            read = read_copa_xml if first.suffix == ".xml" else read_copa_json
            questions = read(first, skipped)
        for question in questions:
            report.read["questions"] += 1
            report.add_source(source, license_name, questions=1)
            yield question
        report.statistics.update({f"questions_{rule}": count for rule, count in sorted(rules.items())})
        unlabelled = _UNLABELLED.get(config)
        if (
            self.split == "validation"
            and "test" not in self.split_files
            and unlabelled is not None
            and self.split_files[self.split][0].with_name(unlabelled).is_file()
        ):
            report.skipped["test_file_without_labels"] += 1
