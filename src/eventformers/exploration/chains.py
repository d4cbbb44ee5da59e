"""The step that selects the chains: the events of one protagonist in a document."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from eventformers.datasets_scripts.events import CHAINS_TABLE
from eventformers.exploration.events import PROTAGONISTS_TABLE
from eventformers.exploration.steps import Step, StepRun
from eventformers.inference.induction.type_naming import has_only_stop_words

# fmt: off
_QUANTITIES = frozenset({
    "amount", "amounts", "average", "billion", "billions", "bit", "dozen", "dozens", "fraction", "half",
    "handful", "hundred", "hundreds", "kind", "kinds", "lot", "lots", "majority", "many", "million",
    "millions", "minority", "much", "number", "numbers", "pair", "part", "parts", "percent", "percentage",
    "piece", "pieces", "plenty", "portion", "proportion", "quantity", "range", "rate", "rates",
    "remainder", "rest", "series", "sort", "sorts", "third", "thousand", "thousands", "total", "type",
    "types", "variety",
})
_TIMES = frozenset({
    "afternoon", "century", "day", "days", "decade", "decades", "evening", "friday", "hour", "hours",
    "minute", "minutes", "moment", "monday", "month", "months", "morning", "night", "period", "saturday",
    "sunday", "thursday", "time", "times", "today", "tomorrow", "tuesday", "wednesday", "week", "weekend",
    "weeks", "year", "years", "yesterday",
})
_GENERAL = frozenset({
    "end", "example", "fact", "instance", "matter", "others", "people", "place", "reason", "stuff",
    "thing", "things", "way", "ways",
})
# fmt: on
NAMES_NO_PARTICIPANT = _QUANTITIES | _TIMES | _GENERAL
"""English head words whose mentions in a text need not be the same thing: a measure of what follows it ("a
number of cases"), a time, or a noun too general to refer back ("people", "thing"). Equal head words are taken
for one participant, which fails for these. The dataset `event_chains` keeps such chains, as its papers do."""


def is_participant(protagonist: str) -> bool:
    """True if equal mentions of a head word or phrase in a text can be taken for one participant."""
    return not (
        protagonist in NAMES_NO_PARTICIPANT
        or has_only_stop_words(protagonist)
        or not any(map(str.isalpha, protagonist))
    )


def select_chains(run: StepRun) -> None:
    """Write the chains of participants with enough distinct events."""
    found = run.table(PROTAGONISTS_TABLE)
    chains = found.filter(pa.array(map(is_participant, found["protagonist"].to_pylist()), pa.bool_()))
    least = run.context.settings.min_chain_length
    long = chains.filter(pc.greater_equal(pc.list_value_length(chains["event_ids"]), least))
    run.write(CHAINS_TABLE, long)
    run.counts["chains"] = long.num_rows
    if others := found.num_rows - chains.num_rows:
        run.notes.append(
            "Chains of a word that names no participant, such as number or people, which are left out: "
            f"{others:,}."
        )
    if short := chains.num_rows - long.num_rows:
        run.notes.append(f"Chains of fewer than {least} events, which are left out: {short:,}.")


CHAINS = Step(
    "chains",
    select_chains,
    reads=(PROTAGONISTS_TABLE,),
    writes=(CHAINS_TABLE,),
    settings=lambda context: {"min_chain_length": context.settings.min_chain_length},
)
