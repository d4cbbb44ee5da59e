"""The step that selects the chains: the events of one protagonist in a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from eventformers.exploration.events import PROTAGONISTS_FILE
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Step, StepRun

CHAINS_FILE = "chains.parquet"


def select_chains(run: StepRun) -> None:
    """Write the chains with enough distinct events."""
    chains = run.table(PROTAGONISTS_FILE)
    least = run.context.settings.min_chain_length
    long = chains.filter(pc.greater_equal(pc.list_value_length(chains["event_ids"]), least))
    run.write(CHAINS_FILE, long)
    run.counts["chains"] = long.num_rows
    run.notes.append(f"{chains.num_rows - long.num_rows:,} chains of fewer than {least} events are left out")


def _settings(context: Context) -> Mapping[str, Any]:
    return {"min_chain_length": context.settings.min_chain_length}


CHAINS = Step("chains", select_chains, reads=(PROTAGONISTS_FILE,), writes=(CHAINS_FILE,), settings=_settings)
