"""The English words and the patterns that rules of extraction read: one YAML file a subject in `lexicons`."""

from __future__ import annotations

import re
from types import SimpleNamespace

from eventformers.files import packaged_yaml


def lexicon(subject: str) -> SimpleNamespace:
    """Read the lists of a subject: sets of the words of a text, and mappings as they are."""
    lists = packaged_yaml(__file__, f"lexicons/{subject}.yaml")
    return SimpleNamespace(
        **{
            name: frozenset(value.split()) if isinstance(value, str) else value
            for name, value in lists.items()
        }
    )


def patterns(subject: str) -> SimpleNamespace:
    """Read the regular expressions of a subject; a long one is a list of pieces."""
    found = packaged_yaml(__file__, f"lexicons/{subject}.yaml")
    return SimpleNamespace(**{name: re.compile("".join(pattern)) for name, pattern in found.items()})
