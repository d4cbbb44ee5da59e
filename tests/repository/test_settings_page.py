"""The generated page of all settings."""

from __future__ import annotations

import re
from dataclasses import fields

from eventformers.evaluation.tasks import TASKS
from eventformers.methods import all_methods
from eventformers.reference.docstrings import settings_page
from eventformers.trainers.run import accepted_keys

ROW = re.compile(r"\| `([\w.]+)` \| (.+?) \| (.+?) \| (.+) \|")


def test_every_setting_has_type_default_and_meaning() -> None:
    page = settings_page()
    rows = [ROW.fullmatch(line) for line in page.splitlines() if line.startswith("| `")]
    assert all(rows)
    named = {row[1].rpartition(".")[2] for row in rows if row}
    for method in all_methods().values():
        accepted = accepted_keys(method)
        for section in ("model", "data", "views"):
            assert set(accepted[section]) <= named, (method.name, section)
    for task in TASKS.values():
        assert {entry.name for entry in fields(task.kind.Settings)} <= named
    assert "early_stopping_patience" in named
