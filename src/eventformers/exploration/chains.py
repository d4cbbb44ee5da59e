"""The step that selects the chains: the events of one protagonist in a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from eventformers.datasets_scripts.event_tables import CHAINS_TABLE
from eventformers.exploration.events import PROTAGONISTS_TABLE
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Step, StepRun


def select_chains(run: StepRun) -> None:
    """Write the chains with enough distinct events."""
    chains = run.table(PROTAGONISTS_TABLE)
    least = run.context.settings.min_chain_length
    long = chains.filter(pc.greater_equal(pc.list_value_length(chains["event_ids"]), least))
    run.write(CHAINS_TABLE, long)
    run.counts["chains"] = long.num_rows
    if short := chains.num_rows - long.num_rows:
        run.notes.append(f"Chains of fewer than {least} events, which are left out: {short:,}.")


def _settings(context: Context) -> Mapping[str, Any]:
    return {"min_chain_length": context.settings.min_chain_length}


CHAINS = Step(
    "chains", select_chains, reads=(PROTAGONISTS_TABLE,), writes=(CHAINS_TABLE,), settings=_settings
)
