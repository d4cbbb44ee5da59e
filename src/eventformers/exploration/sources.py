"""Sources of texts to explore: files, a dataset of the Hub, texts in memory. Loads no library of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import datasets

from eventformers.datasets_scripts.events import EVENTS_TABLE
from eventformers.datasets_scripts.loading import load_hub, looks_like_hub_id
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.exploration import STATE_FOLDER
from eventformers.extraction.texts import USUAL_COLUMNS, TextColumns, TextFile, TextRows, find_text_files
from eventformers.inference.encoding.event_tables import are_event_tables

Texts: TypeAlias = Any
"""Files and folders, the id of a dataset on the Hub, or texts in memory; see `find_texts`."""

_LONGEST_PATH = 1_000


@dataclass(frozen=True)
class FoundTexts:
    """The texts to explore, before they are read.

    Args:
        tables: folder of `extract` or `explore` whose events are taken instead of texts.
    """

    sources: Sequence[TextFile | TextRows]
    skipped: SkippedRows
    tables: Path | None = None


def find_texts(texts: Texts, columns: TextColumns) -> FoundTexts:
    """Find the texts to explore.

    Args:
        texts: a folder that `extract` or `explore` wrote; a file or folder of texts, several of them, or the
            id of a dataset on the Hub, whose splits are read in order; or texts in memory: a list or
            generator of strings or rows, a frame, a table or a dataset. A list of strings that are all
            existing paths is a list of files.

    Raises:
        EventformersError: there is no text, or the type is not supported.
    """
    skipped = SkippedRows()
    if isinstance(texts, (str, Path)):
        folder = Path(texts).expanduser()
        if are_event_tables(folder):
            return FoundTexts([], skipped, folder)
    if _is_on_hub(texts):
        found: Sequence[TextFile | TextRows] = [
            _rows(rows, columns, split, texts) for split, rows in load_hub(texts).items()
        ]
    elif isinstance(texts, (str, Path)) or _are_paths(texts):
        found = find_text_files(texts, skipped, marks=(EVENTS_TABLE, STATE_FOLDER))
    elif isinstance(texts, (datasets.DatasetDict, datasets.IterableDatasetDict)):
        found = [_rows(rows, columns, split, "texts") for split, rows in texts.items()]
    else:
        found = [_rows(texts, columns, "text", "texts")]
    return FoundTexts(found, skipped)


def check_paths(texts: str | Sequence[Path]) -> None:
    """Raise the errors of `find_texts` for paths."""
    if not _is_on_hub(texts):
        find_texts(texts, USUAL_COLUMNS)


def _is_on_hub(texts: Texts) -> bool:
    return isinstance(texts, str) and looks_like_hub_id(texts) and not Path(texts).exists()


def _rows(items: Any, columns: TextColumns, name: str, source: str) -> TextRows:
    """Read rows into memory: an iterator can be read only once, but is needed for the fingerprint, too."""
    # This loads the libraries of models; a missing path is reported before.
    from eventformers.inference.encoding.event_reader import ACCEPTED_CONTAINERS, values_in

    accepted = f"texts, or rows with a column text: {ACCEPTED_CONTAINERS}"
    return TextRows(list(values_in(items, columns.of_header, accepted)), name, source)


def _are_paths(texts: Texts) -> bool:
    if not isinstance(texts, (list, tuple)) or not texts:
        return False
    if all(isinstance(one, Path) for one in texts):
        return True
    # A long text is no path, and asking the system for it raises an error.
    return all(isinstance(one, str) and len(one) < _LONGEST_PATH and Path(one).exists() for one in texts)
