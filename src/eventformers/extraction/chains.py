"""Chains: the events of one protagonist, in the order of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eventformers.datasets_scripts.chain_readers import PRONOUNS
from eventformers.datasets_scripts.chains import NO_PROTAGONISTS
from eventformers.datasets_scripts.document_splits import DistinctIds
from eventformers.extraction.coreference import Resolver, coreference_clusters
from eventformers.extraction.events import ExtractedEvent, head_text, mention_text

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span


@dataclass(frozen=True, slots=True)
class ExtractedChain:
    """A protagonist, in lower case, and the indexes of its events in the text, in order."""

    protagonist: str
    events: list[int]


def find_chains(
    doc: Doc,
    events: Sequence[ExtractedEvent],
    coreference: str | Resolver = "auto",
    arguments: str = "heads",
) -> tuple[list[ExtractedEvent], list[ExtractedChain]]:
    """Find the chains of a text, of any length.

    With clusters of mentions, a chain has the events with an argument whose head belongs to a mention of one
    cluster; its protagonist is the first mention that is not a pronoun. In the events, the protagonist
    replaces pronouns of its cluster, so that each event can be read on its own. Without clusters, a chain has
    the events with an argument of the same head word, except pronouns. An event with two protagonists is in
    both chains; an event whose subject and object are the same protagonist is in its chain once. Of the
    events of one verb, which differ by the people that are joined, a chain has the first of its protagonist.

    Args:
        doc: the parsed text.
        events: its events (`extract_events`).
        coreference: see `coreference_clusters`.
        arguments: `heads` or `spans`, as in the extraction of the events; determines the form of the
            protagonist.

    Returns:
        The events, with pronouns replaced, and the chains in the order of their first events.
    """
    clusters = coreference_clusters(doc, coreference)
    if clusters is None:
        return list(events), _chains_of_heads(doc, events)
    names = [_protagonist(cluster, arguments) for cluster in clusters]
    cluster_of = _clusters_by_head(clusters)
    named: list[ExtractedEvent] = []
    groups: dict[int, dict[int, int]] = {}
    for number, event in enumerate(events):
        subject, target = (
            None if index is None else cluster_of.get(index)
            for index in (event.subject_index, event.object_index)
        )
        for cluster in dict.fromkeys((subject, target)):
            if cluster is not None:
                groups.setdefault(cluster, {}).setdefault(event.offset, number)
        if subject is not None and event.subject in PRONOUNS:
            event = replace(event, subject=names[subject])
        if target is not None and event.object in PRONOUNS:
            event = replace(event, object=names[target])
        named.append(event)
    return named, [
        ExtractedChain(names[cluster], list(numbers.values())) for cluster, numbers in groups.items()
    ]


def _chains_of_heads(doc: Doc, events: Sequence[ExtractedEvent]) -> list[ExtractedChain]:
    groups: dict[str, dict[int, int]] = {}
    for number, event in enumerate(events):
        indexes = [index for index in (event.subject_index, event.object_index) if index is not None]
        heads = dict.fromkeys(head_text(doc[index]) for index in indexes)
        for head in heads:
            if head not in NO_PROTAGONISTS and any(map(str.isalnum, head)):
                groups.setdefault(head, {}).setdefault(event.offset, number)
    return [ExtractedChain(head, list(numbers.values())) for head, numbers in groups.items()]


def _clusters_by_head(clusters: Sequence[Sequence[Span]]) -> dict[int, int]:
    """The cluster of each token that is the head of a mention; of two mentions the shorter one applies."""
    heads: dict[int, tuple[int, int]] = {}
    for number, cluster in enumerate(clusters):
        for span in cluster:
            head = span.root.i
            if head not in heads or len(span) < heads[head][0]:
                heads[head] = (len(span), number)
    return {head: number for head, (_, number) in heads.items()}


def _protagonist(cluster: Sequence[Span], arguments: str) -> str:
    heads = [span.root for span in cluster]
    head = next((head for head in heads if head.lower_ not in PRONOUNS), heads[0])
    return mention_text(head) if arguments == "spans" else head_text(head)


def chain_ids(document_id: str, chains: Sequence[ExtractedChain]) -> list[str]:
    """Build the id of each chain from document and protagonist; a number distinguishes equal names."""
    ids = DistinctIds("~")
    return [ids.of(f"{document_id}/{chain.protagonist}") for chain in chains]
