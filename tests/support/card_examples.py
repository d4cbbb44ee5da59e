"""The usage examples of cards, which rest in the other tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import forked

from eventformers.model_cards import card, usage


@contextmanager
def examples_run() -> Iterator[None]:
    """Run the usage examples of the cards that are written meanwhile, each in a process of its own."""
    with (
        mock.patch.object(card, "run_snippet", usage.run_snippet),
        mock.patch.object(usage, "subprocess", forked.stand_in("libraries")),
    ):
        yield
