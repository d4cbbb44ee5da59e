"""Builder of event similarity tests: hard pairs, and pairs rated by people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, EventDatasetBuilder
from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.reading.fields import Record, checked_event, event_of
from eventformers.datasets_scripts.reading.lines import read_rows
from eventformers.datasets_scripts.reading.tables import (
    columns_of,
    is_table,
    read_records,
    table_names,
)
from eventformers.errors import DataFormatError, EventformersError, shown

_STEMS = {
    "hard": "hard",
    "hard_extended": "hard_extend",
    "transitive": "transitive",
    "verbs_in_context": "verbs_in_context",
}
_LICENSES = {
    "hard": "Apache-2.0",
    "hard_extended": UNSPECIFIED,
    "transitive": UNSPECIFIED,
    "verbs_in_context": "GPL-3.0",
}
_RATED = ("transitive", "verbs_in_context")
_HARD_COLUMNS = ("similar_a", "similar_b", "dissimilar_a", "dissimilar_b")
_PAIR_COLUMNS = ("event_a", "event_b")

MINIMUM_SCORE, MAXIMUM_SCORE = 1.0, 7.0
"""The rating scale of the rated pairs."""


_HARD_TABLE, _PAIR_TABLE = columns_of("hard_pairs"), columns_of("rated_pairs")


class EventSimilarity(EventDatasetBuilder):
    """Event similarity: `hard` and `hard_extended` (two pairs per row, the first one more similar),
    `transitive` (a pair and its mean human score from 1 to 7) and `verbs_in_context` (the same for pairs that
    differ only in the verb).

    Raw files: `hard.txt` (Weber et al. 2018), `hard_extend.txt` (Ding et al. 2019), both with four events of
    subject, predicate and object in twelve fields separated by `|`; `transitive.txt` (Kartsaklis and
    Sadrzadeh 2014) and `verbs_in_context.txt` (Wijnholds and Sadrzadeh 2019, mean over annotators) with two
    events and the score in seven fields; or a table with the same name, such as `hard.csv` or `hard.parquet`.
    """

    NAME = "event_similarity"

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the file with the published name of the config, in a folder or given directly.

        Raises:
            EventformersError: there are several.
        """
        published = f"{_STEMS[config_name]}.txt"
        names = (published, *table_names(published))
        files = [
            file
            for path in paths
            for file in ([path / name for name in names] if path.is_dir() else [path])
            if file.name in names and file.is_file()
        ]
        if len(files) > 1:
            raise EventformersError(f"found {files[0]} and {files[1]}; accepted: one of them")
        return {"test": files} if files else {}

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield one row per line; blank lines are counted.

        Raises:
            DataFormatError: a line has a wrong number of fields, an event without words, or a score that is
                not a number from 1 to 7.
        """
        config = self.config.name
        path = self.raw_files[0]
        # A table is the user's own; the published files are texts.
        license_name = UNSPECIFIED if is_table(path) else _LICENSES[config]
        source, license_name = SAMPLE_ORIGIN if self.is_sample else (path.name, license_name)
        skipped, is_scored = self.report.skipped, config in _RATED
        names = _PAIR_COLUMNS if is_scored else _HARD_COLUMNS

        def row_of(line: int, events: list[Event], stated: Any) -> dict[str, Event | float]:
            row: dict[str, Event | float] = dict(zip(names, events, strict=True))
            if is_scored:
                try:
                    row["score"] = score = float(stated)
                except (TypeError, ValueError):
                    score = math.nan
                if not MINIMUM_SCORE <= score <= MAXIMUM_SCORE:
                    accepted = f"a number from {MINIMUM_SCORE:g} to {MAXIMUM_SCORE:g}"
                    raise DataFormatError(path, line, f"the score {shown(stated)}", accepted)
            return row

        def of_record(record: Record) -> dict[str, Event | float]:
            events = [event_of(record[name], path, record.line) for name in names]
            return row_of(record.line, events, record.get("score"))

        def of_text(line: int, text: str) -> dict[str, Event | float]:
            fields = [part.strip() for part in text.split("|")]
            number = 3 * len(names) + is_scored
            if len(fields) != number:
                raise DataFormatError(path, line, f"{len(fields)} fields", f"{number} fields separated by |")
            triples = zip(fields[0 : 3 * len(names) : 3], fields[1::3], fields[2::3], strict=True)
            events = [checked_event(*triple, path, line) for triple in triples]
            return row_of(line, events, fields[-1])

        if is_table(path):
            rows = read_records(path, skipped, _PAIR_TABLE if is_scored else _HARD_TABLE, "", of_record)
        else:
            rows = skipped.parsed_rows(read_rows(path, skipped), of_text)
        for row in rows:
            self.report.read["rows"] += 1
            self.report.add_source(source, license_name, documents=1, events=len(names))
            yield row
