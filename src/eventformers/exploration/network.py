"""The network of actors: who acts on whom, as files for Gephi and other programs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import networkx
import pyarrow as pa

from eventformers.datasets_scripts.events import ACTORS_TABLE, EVENTS_TABLE, is_counted
from eventformers.exploration.steps import Step, StepRun

NETWORK_FILES = ("actors.gexf", "actors.graphml")

_MOST_PREDICATES = 5
# XML has no sign for these, not even an escaped one.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WRITERS: dict[str, Callable[[networkx.DiGraph], str]] = {
    # The day of writing would make equal networks differ.
    "actors.gexf": lambda network: re.sub(
        r' lastmodifieddate="[^"]*"', "", "\n".join(networkx.generate_gexf(network))
    ),
    "actors.graphml": lambda network: "\n".join(networkx.generate_graphml(network)),
}


def actor_network(events: pa.Table, actors: pa.Table) -> networkx.DiGraph:
    """Return who acts on whom.

    Args:
        events: columns `subject_id`, `lemma` and `object_id` of the events to count.
        actors: columns `actor_id`, `name` and `kind`.

    Returns:
        A directed graph. A node is an actor id with `label`, `kind`, and the number of events in which it
        `acts` on another actor and `is_acted_on`; an edge has the number of its events as `weight`, and its
        most frequent `predicates`.
    """
    edges: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    columns = (events[name].to_pylist() for name in ("subject_id", "object_id", "lemma"))
    for agent, patient, lemma in zip(*columns, strict=True):
        if agent and patient and agent != patient:
            edges[agent, patient][lemma] += 1
    network = networkx.DiGraph()
    for row in actors.select(["actor_id", "name", "kind"]).to_pylist():
        network.add_node(row["actor_id"], label=_NOT_IN_XML.sub("", row["name"]), kind=row["kind"])
    for (agent, patient), lemmas in edges.items():
        most = ", ".join(lemma for lemma, _ in lemmas.most_common(_MOST_PREDICATES))
        network.add_edge(agent, patient, weight=lemmas.total(), predicates=_NOT_IN_XML.sub("", most))
    network.remove_nodes_from(list(networkx.isolates(network)))
    networkx.set_node_attributes(network, dict(network.out_degree(weight="weight")), "acts")
    networkx.set_node_attributes(network, dict(network.in_degree(weight="weight")), "is_acted_on")
    return network


def _write(run: StepRun) -> None:
    events = run.table(EVENTS_TABLE, ["subject_id", "object_id", "lemma", "factuality"])
    counted = events.filter(is_counted(events["factuality"], run.context.settings.factuality))
    network = actor_network(counted, run.table(ACTORS_TABLE, ["actor_id", "name", "kind"]))
    for name, write in _WRITERS.items():
        Path(run.path(name)).write_text(write(network) + "\n", encoding="utf-8")
    run.counts |= {"linked_actors": len(network), "links_of_actors": network.number_of_edges()}


NETWORK = Step(
    "network",
    _write,
    reads=(EVENTS_TABLE, ACTORS_TABLE),
    writes=NETWORK_FILES,
    settings=lambda context: {"factuality": list(context.settings.factuality)},
)
