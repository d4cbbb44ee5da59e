"""The English words that rules of extraction read: one YAML file a subject in `lexicons`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import yaml


def lexicon(subject: str) -> SimpleNamespace:
    """Read the lists of a subject: sets of the words of a text, and mappings as they are."""
    text = (Path(__file__).with_name("lexicons") / f"{subject}.yaml").read_text(encoding="utf-8")
    lists = yaml.safe_load(text)
    return SimpleNamespace(
        **{
            name: frozenset(value.split()) if isinstance(value, str) else value
            for name, value in lists.items()
        }
    )
