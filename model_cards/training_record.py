"""Record of a run's training rows: their sources and licences."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path

from eventformers.datasets_scripts.reading.lines import parse_json, read_regular_text
from eventformers.errors import DataFormatError, EventformersError
from eventformers.files import write_text
from eventformers.model_cards import TrainedOn
from eventformers.strict import check_types

TRAINING_DATA_FILE = "training_data.json"
"""File with the facts of the card's training data, for programs; it has no rows."""


def write_training_record(trained_on: TrainedOn | None, folder: Path) -> None:
    """Write the facts about the training rows.

    Args:
        trained_on: the data; None if it is unknown, which is recorded, too.
        folder: the folder of the run.
    """
    known = None if trained_on is None else asdict(trained_on)
    write_text(folder / TRAINING_DATA_FILE, json.dumps(known, indent=2, ensure_ascii=False) + "\n")


def read_training_record(folder: Path) -> TrainedOn | None:
    """Read the facts about the training rows; None if they are unknown.

    Args:
        folder: the folder of the run.

    Raises:
        DataFormatError: the file is not such a record.
    """
    path = folder / TRAINING_DATA_FILE
    if not path.is_file():
        return None
    accepted = f"JSON with the fields {', '.join(entry.name for entry in fields(TrainedOn))}"
    known = parse_json(read_regular_text(path, accepted), path, None, accepted)
    try:
        if known is None:
            return None
        check_types({"record": known}, {"record": dict[str, object]})
        check_types(known, {"sources": dict[str, dict[str, object]]})
        return TrainedOn(**known)
    except (TypeError, EventformersError) as error:
        raise DataFormatError(path, None, str(error), accepted) from error
