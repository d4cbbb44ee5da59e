"""How `eventformers evaluate --set KEY=VALUE` says how chains and contexts are read and mentions clustered
or linked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.tasks.chain_protocols import ChainSettings
from eventformers.evaluation.tasks.grounding_protocols import GroundingSettings
from eventformers.evaluation.tasks.induction_protocols import InductionSettings
from eventformers.inference.chains.virtual_context import VirtualContext

CHAIN_SETTINGS = tuple(field.name for field in fields(ChainSettings))
CONTEXT_SETTINGS = tuple(field.name for field in fields(VirtualContext) if field.name != "chains")
INDUCTION_SETTINGS = tuple(field.name for field in fields(InductionSettings))
GROUNDING_SETTINGS = tuple(field.name for field in fields(GroundingSettings))


@dataclass(frozen=True)
class Ways:
    """What `--set` and `--virtual-context` ask for; None for that of which nothing is asked.

    Attributes:
        chains: how chains are read.
        context: the contexts of events.
        induction: how mentions are clustered.
        grounding: how mentions are linked.
    """

    chains: ChainSettings | None = None
    context: VirtualContext | None = None
    induction: InductionSettings | None = None
    grounding: GroundingSettings | None = None


def ways_of_reading(settings: Mapping[str, object], virtual_context: str | None) -> Ways:
    """The settings of chains, of contexts, and of mentions that are clustered or linked.

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
    grounding: dict[str, object] = {}
    for name, value in settings.items():
        if name in CHAIN_SETTINGS:
            chains[name] = value
        elif name in CONTEXT_SETTINGS:
            context[name] = value
        elif name in INDUCTION_SETTINGS:
            induction[name] = value
        elif name in GROUNDING_SETTINGS:
            grounding[name] = value
        else:
            known = (*CHAIN_SETTINGS, *CONTEXT_SETTINGS, *INDUCTION_SETTINGS, *GROUNDING_SETTINGS)
            raise UnknownNameError("setting", name, known)
    if context and virtual_context is None:
        raise EventformersError(
            f"{', '.join(context)}: a setting of contexts, of which there are none; accepted: it with "
            "--virtual-context"
        )
    return Ways(
        ChainSettings(**chains) if chains else None,  # type: ignore[arg-type]
        None if virtual_context is None else VirtualContext(virtual_context, **context),  # type: ignore[arg-type]
        InductionSettings(**induction) if induction else None,  # type: ignore[arg-type]
        GroundingSettings(**grounding) if grounding else None,  # type: ignore[arg-type]
    )
