"""How `eventformers evaluate --set KEY=VALUE` says in which way chains, contexts and mentions are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from eventformers.chain_protocols import ChainSettings
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.induction_protocols import InductionSettings
from eventformers.inference.virtual_context import VirtualContext

CHAIN_SETTINGS = tuple(field.name for field in fields(ChainSettings))
CONTEXT_SETTINGS = tuple(field.name for field in fields(VirtualContext) if field.name != "chains")
INDUCTION_SETTINGS = tuple(field.name for field in fields(InductionSettings))


def ways_of_reading(
    settings: Mapping[str, object], virtual_context: str | None
) -> tuple[ChainSettings | None, VirtualContext | None, InductionSettings | None]:
    """The settings of chains, of contexts and of mentions; None for those of which nothing is asked.

    Args:
        settings: values by name.
        virtual_context: the data that contexts come from.

    Raises:
        UnknownNameError: there is no such setting, or no such value of it.
        EventformersError: a value of the wrong type, or a setting of contexts without their data.
    """
    chains: dict[str, object] = {}
    context: dict[str, object] = {}
    induction: dict[str, object] = {}
    for name, value in settings.items():
        if name in CHAIN_SETTINGS:
            chains[name] = value
        elif name in CONTEXT_SETTINGS:
            context[name] = value
        elif name in INDUCTION_SETTINGS:
            induction[name] = value
        else:
            raise UnknownNameError("setting", name, (*CHAIN_SETTINGS, *CONTEXT_SETTINGS, *INDUCTION_SETTINGS))
    if context and virtual_context is None:
        raise EventformersError(
            f"{', '.join(context)}: a setting of contexts, of which there are none; accepted: it with "
            "--virtual-context"
        )
    return (
        ChainSettings(**chains) if chains else None,  # type: ignore[arg-type]
        None if virtual_context is None else VirtualContext(virtual_context, **context),  # type: ignore[arg-type]
        InductionSettings(**induction) if induction else None,  # type: ignore[arg-type]
    )
