"""The setting `streaming`: rows that are read during training and never all held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from datasets import IterableDataset

from eventformers.errors import EventformersError
from eventformers.trainers.recipes import Recipe

SHUFFLED_ROWS = 10_000
"""Number of rows in the buffer that shuffles a stream."""

STREAMING_TYPES: dict[str, Any] = {"streaming": bool}
STREAMING_MEANINGS: dict[str, tuple[object, str]] = {
    "streaming": (False, "read the rows as a stream, without holding them all; needs max_steps.")
}


def is_streamed(recipe: Recipe, lacks: str, settings: Mapping[str, tuple[object, object]]) -> bool:
    """Return the recipe's setting `streaming`, after checking the settings that need all rows.

    Args:
        recipe: the recipe.
        lacks: what a stream cannot do, for the error.
        settings: the value of each setting and the only value that a stream accepts, by name.

    Raises:
        EventformersError: `streaming` is true and a setting needs all rows.
    """
    if not recipe.data.get("streaming", False):
        return False
    if any(found != accepted for found, accepted in settings.values()):
        *first, last = [f"{name}={_written(accepted)}" for name, (_, accepted) in settings.items()]
        accepted = f"{', '.join(first)} and {last}" if first else last
        raise EventformersError(f"streaming=true {lacks}; accepted with it: {accepted}")
    return True


def _written(value: object) -> str:
    """Write a value as in a recipe."""
    return {"None": "null", "False": "false"}.get(str(value), str(value))


def indexed_stream(
    rows: IterableDataset,
    seed: int,
    then: Callable[[IterableDataset], IterableDataset] = lambda shuffled: shuffled,
) -> IterableDataset:
    """Repeat a stream endlessly, shuffle it and number its rows.

    Args:
        rows: the stream.
        seed: seed of the order.
        then: changes the shuffled rows before they are numbered.
    """
    shuffled = rows.repeat(None).shuffle(seed=seed, buffer_size=SHUFFLED_ROWS)
    return then(shuffled).map(lambda row, index: {"row": index, **row}, with_indices=True)
