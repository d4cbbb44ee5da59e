"""The usage examples of cards, which rest in the other tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import forked

from eventformers.model_cards import card, method


@contextmanager
def examples_run() -> Iterator[None]:
    """Run the usage examples of the cards that are written meanwhile, each in a process of its own."""
    with (
        mock.patch.object(card, "run_snippet", method.run_snippet),
        mock.patch.object(method, "subprocess", forked.stand_in("libraries")),
    ):
        yield
