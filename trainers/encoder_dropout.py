"""Dropout of encoders during training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import nn

from eventformers.errors import EventformersError


def set_dropout(encoders: Iterable[nn.Module], share: float) -> None:
    """Set the dropout of hidden vectors and attention in encoders; their configurations stay unchanged.

    Raises:
        EventformersError: the share is not from 0 to below 1, or an encoder has no dropout.
    """
    if not 0 <= share < 1:
        raise EventformersError(
            f"setting encoder_dropout: found {share}; accepted: a number from 0 to below 1"
        )
    for encoder in encoders:
        places = list(_dropouts(encoder))
        for module, name in places:
            setattr(module, name, share)
        if share and not places:
            raise EventformersError(
                f"setting encoder_dropout: found {share}, but {type(encoder).__name__} has no dropout; "
                "accepted: 0 or null"
            )


def has_dropout(encoders: Iterable[nn.Module]) -> bool:
    """Return True if an encoder drops entries in training, so that two passes of a text differ."""
    return any(getattr(module, name) for encoder in encoders for module, name in _dropouts(encoder))


def _dropouts(encoder: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Yield the modules of an encoder with dropout, each with the attribute that is its share."""
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            yield module, "p"
        # Fused attention holds its dropout as a number instead of a layer.
        for name, value in list(vars(module).items()):
            if _is_dropout(name, value):
                yield module, name


def _is_dropout(name: str, value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and (name.endswith("dropout") or name in ("dropout_prob", "drop_prob"))
