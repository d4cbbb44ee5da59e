"""Builder of multiple-choice commonsense questions: COPA, SocialIQA and CommonsenseQA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import datasets
from datasets import List, Value

from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, EventDatasetBuilder
from eventformers.datasets_scripts.document_splits import SPLITS
from eventformers.datasets_scripts.file_names import file_stem
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.question_readers import (
    QUESTION_COLUMNS,
    Question,
    read_copa_json,
    read_copa_xml,
    read_csqa,
    read_question_table,
    read_siqa,
)
from eventformers.datasets_scripts.record_files import Column, is_table, may_hold, table_names
from eventformers.errors import DataFormatError

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


class CommonsenseQA(EventDatasetBuilder):
    """Questions with a `premise`, the `alternatives` that continue it, and the `label`, the index of the
    correct one.

    - `copa`: the premise with "The cause for it was that" or "As a result,". Raw files: `copa-dev.xml`,
      `copa-test.xml` of the authors, else `copa-dev-new.jsonl`, `copa-test-new.jsonl` of MICO, whose trailing
      underscore in the premise is removed.
    - `siqa`: the context with a template of the question (`question_readers.siqa_template`). The statistics
      of the report count the questions by rule. Raw files: `dev.jsonl` with `dev-labels.lst`, and likewise
      `train` and `test` if their labels exist.
    - `csqa`: the question itself. Raw files: `dev_rand_split.jsonl`, `train_rand_split.jsonl`.
    - Any: a table of questions that are already a premise with alternatives, with the name of the first of
      these files and the suffix `.csv`, `.tsv` or `.parquet`.

    Files are in the given folder, in its subfolders `COPA`, `SIQA` and `CSQA`, or given directly. Development
    files are the split `validation`. A test file without labels is skipped and counted if there are labelled
    files; otherwise it is an error.
    """

    TASK_CATEGORIES = ("multiple-choice",)
    NAME = "commonsense_qa"
    TITLE = "Commonsense questions"
    SUMMARY = (
        "Multiple-choice commonsense questions, each as a premise and the alternatives that continue it: COPA"
        " (`copa`), SocialIQA (`siqa`) and CommonsenseQA (`csqa`)."
    )
    CITATION = (
        "Roemmele, Bejan, Gordon: Choice of Plausible Alternatives, AAAI Spring Symposium 2011. Sap et al.:"
        " Social IQa, EMNLP 2019. Talmor et al.: CommonsenseQA, NAACL 2019. Su et al.: MICO: A"
        " Multi-alternative Contrastive Learning Framework for Commonsense Knowledge Representation, Findings"
        " of EMNLP 2022 (templates)."
    )
    SPLITS = SPLITS
    SAMPLES_FOLDER = "commonsense"
    RAW_FILES: ClassVar[dict[str, str]] = {
        "copa": "copa-dev.xml, copa-test.xml, or copa-dev-new.jsonl, copa-test-new.jsonl; copa-dev.csv,"
        " copa-dev.parquet",
        "siqa": "dev.jsonl with dev-labels.lst; likewise train and test; dev.csv, dev.parquet",
        "csqa": "dev_rand_split.jsonl; train_rand_split.jsonl; dev_rand_split.csv, dev_rand_split.parquet",
    }
    TABLES: ClassVar[Mapping[str, tuple[Column, ...]]] = {"questions": QUESTION_COLUMNS}

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

    @classmethod
    def features(cls, config_name: str) -> datasets.Features:
        """The columns of a config."""
        return datasets.Features(
            {"premise": Value("string"), "alternatives": List(Value("string")), "label": Value("int64")}
        )

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
        for question in self._questions(rules):
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

    def _questions(self, rules: Counter[str]) -> Iterator[Question]:
        files = self.split_files[self.split]
        skipped = self.report.skipped
        if is_table(files[0]):
            return read_question_table(files[0], skipped)
        if self.config.name == "siqa":
            return read_siqa(files[0], files[1], rules, skipped)
        if self.config.name == "csqa":
            return read_csqa(files[0], skipped)
        read = read_copa_xml if files[0].suffix == ".xml" else read_copa_json
        return read(files[0], skipped)
