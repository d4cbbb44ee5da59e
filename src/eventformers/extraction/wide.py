"""Event data as one wide table, a row an event, for R, Stata and spreadsheets."""

from __future__ import annotations

import glob
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from eventformers.datasets_scripts.events import DOCUMENTS_TABLE, EVENTS_TABLE
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.files import replaced_file

if TYPE_CHECKING:
    import duckdb

WIDE_FILES = {
    "csv": "events.csv",
    "csv-bom": "events.csv",
    "parquet": "events_wide.parquet",
    "xlsx": "events.xlsx",
}
"""The file of each format. `csv-bom` starts with the mark by which Excel recognises UTF-8."""

JOINED_TABLES = (
    *("actors.parquet", "types.parquet", "event_types.parquet", "stories.parquet", "event_stories.parquet"),
)
"""Tables that a wide table has columns of, if they exist."""

XLSX_ROWS = 2**20 - 1
"""Maximum number of events in a sheet, below its header."""

# A spreadsheet runs cells that start like this; an apostrophe before them makes them texts.
_FORMULA = r"^([=+\-@\t\r])"
_EVENT = """
    e.event_id, e.document_id, d.title, d.date, d.source, d.license, d.url, e.sentence,
    trim(regexp_replace(
        substring(d.text, e.sentence_start + 1, e.sentence_end - e.sentence_start), '\\s+', ' ', 'g'
    )) AS sentence_text,
    e.trigger, e.trigger_kind, e.trigger_start, e.trigger_end, e.lemma,
    e.subject, e.predicate, e.object, e.text, e.negated, e.passive, e.factuality
"""
_TIME_AND_PLACE = """
    array_to_string(list_transform(
        list_filter(e.participants, lambda one: one.text <> ''),
        lambda one: trim(one.preposition || ' ' || one.text)
    ), '; ') AS participants,
    e.time_text, e.time_start, e.time_end, e.place_text, e.place_id, e.latitude, e.longitude, e.country
"""
_ROLES = ("subject", "object", "source")


def check_format(name: str | None) -> None:
    """Check the format of a wide table before any work; None writes none.

    Raises:
        UnknownNameError: the format is unknown.
        EventformersError: XlsxWriter is missing.
    """
    if name is not None and name not in WIDE_FILES:
        raise UnknownNameError("format", name, WIDE_FILES)
    if name == "xlsx" and find_spec("xlsxwriter") is None:
        raise EventformersError('xlsx needs XlsxWriter; install it with `pip install "eventformers[excel]"`')


def write_wide(folder: Path, format_name: str, path: Path) -> None:
    """Join the tables of an extraction or exploration into one table, a row an event, in their order.

    It has the document, the sentence, the event with its mentions and participants, the actors by name and
    kind, time, place and factuality; with the tables of an exploration, also the type and the story.

    Args:
        format_name: a key of `WIDE_FILES`. In CSV, an apostrophe comes before a text that a spreadsheet would
            run as a formula.

    Raises:
        EventformersError: there are more events than a sheet has rows.
    """
    # Also where only datasets are read, without DuckDB.
    import duckdb

    with (
        TemporaryDirectory(prefix="eventformers-") as spilled,
        closing(duckdb.connect(config={"temp_directory": spilled})) as database,
        replaced_file(path) as temporary,
    ):
        query = wide_query(database, folder)
        if format_name == "xlsx":
            [(events,)] = database.execute("SELECT count(*) FROM events").fetchall()
            if events > XLSX_ROWS:
                raise EventformersError(
                    f"{events:,} events for an xlsx file; accepted: at most {XLSX_ROWS:,}, or csv or parquet"
                )
        rows = pa.RecordBatchReader.from_stream(database.sql(query))
        if format_name == "parquet":
            with pq.ParquetWriter(temporary, rows.schema) as writer:
                for batch in rows:
                    writer.write_batch(batch)
        elif format_name == "xlsx":
            _write_xlsx(temporary, rows)
        else:
            _write_csv(temporary, rows, "\ufeff".encode() if format_name == "csv-bom" else b"")


def wide_query(database: duckdb.DuckDBPyConnection, folder: Path) -> str:
    """Create a view of each table of an extraction or exploration, and return the query that joins them."""
    names = (EVENTS_TABLE, DOCUMENTS_TABLE, *JOINED_TABLES)
    there = [name for name in names if (folder / name).exists()]
    for name in there:
        # DuckDB reads `*` and `[` in a path as a pattern.
        table = database.read_parquet(glob.escape(str(folder / name)), file_row_number=True)
        table.create_view(Path(name).stem)
    has_actors = "actors.parquet" in there
    columns, joins = [_EVENT], ["LEFT JOIN documents d USING (document_id)"]
    for role in _ROLES:
        columns += [f"e.{role}_span"] if role != "source" else []
        columns += [f"e.{role}_id"]
        if has_actors:
            columns += [f"{role}_actor.{part} AS {role}_{part}" for part in ("name", "kind")]
            joins += [f"LEFT JOIN actors {role}_actor ON {role}_actor.actor_id = e.{role}_id"]
    columns += [_TIME_AND_PLACE]
    if {"types.parquet", "event_types.parquet"} <= set(there):
        columns += ["t.type_id", "t.name AS type"]
        joins += ["LEFT JOIN event_types et USING (event_id) LEFT JOIN types t ON t.type_id = et.type_id"]
    if {"stories.parquet", "event_stories.parquet"} <= set(there):
        columns += ["s.story_id", "s.name AS story"]
        joins += [
            "LEFT JOIN event_stories es USING (event_id) LEFT JOIN stories s ON s.story_id = es.story_id"
        ]
    # The names are ours; values are not part of the query.
    return f"SELECT {', '.join(columns)} FROM events e {' '.join(joins)} ORDER BY e.file_row_number"  # noqa: S608


def _write_csv(path: Path, rows: pa.RecordBatchReader, mark: bytes) -> None:
    with open(path, "wb") as file:
        file.write(mark)
        with pyarrow.csv.CSVWriter(file, rows.schema) as writer:
            for batch in rows:
                columns = [
                    pc.replace_substring_regex(column, _FORMULA, r"'\1")
                    if pa.types.is_string(column.type)
                    else column
                    for column in batch.columns
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=rows.schema))


def _write_xlsx(path: Path, rows: pa.RecordBatchReader) -> None:
    from xlsxwriter import Workbook

    # Texts stay texts: no formulas, links or numbers are made of them.
    with Workbook(str(path), {"constant_memory": True}) as book:
        sheet = book.add_worksheet("events")
        sheet.freeze_panes(1, 0)
        sheet.write_row(0, 0, rows.schema.names)
        line = 0
        for batch in rows:
            for row in batch.to_pylist():
                line += 1
                for place, value in enumerate(row.values()):
                    if isinstance(value, str):
                        sheet.write_string(line, place, value)
                    elif value is not None:
                        sheet.write(line, place, value)
