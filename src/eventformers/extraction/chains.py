"""Chains: the events of one protagonist, by co-referring mentions or else by equal head words."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eventformers.datasets_scripts.chain_readers import PRONOUNS
from eventformers.datasets_scripts.chains import NO_PROTAGONISTS
from eventformers.errors import EventformersError, UnknownNameError, shown
from eventformers.extraction.coreference import resolve
from eventformers.extraction.events import ExtractedEvent
from eventformers.extraction.participants import head_text, mention_text

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
    cluster; its protagonist is the first mention that is a name, or else no pronoun. In the events, the
    protagonist replaces pronouns of its cluster, so that each event can be read on its own. Without clusters,
    a chain has the events with an argument of the same head word, except pronouns. An event with two
    protagonists is in both chains; an event whose subject and object are the same protagonist is in its chain
    once. Of the events of one verb, which differ by the people that are joined, a chain has the first of its
    protagonist.

    Args:
        arguments: `heads` or `spans`, as in the extraction of the events; determines the form of the
            protagonist.

    Returns:
        The events, with pronouns replaced, and the chains in the order of their first events.
    """
    clusters = coreference_clusters(doc, coreference)
    if clusters is None:
        of_heads: dict[str, dict[int, int]] = {}
        for number, event in enumerate(events):
            indexes = [index for index in (event.subject_index, event.object_index) if index is not None]
            for head in dict.fromkeys(head_text(doc[index]) for index in indexes):
                if head not in NO_PROTAGONISTS and any(map(str.isalnum, head)):
                    of_heads.setdefault(head, {}).setdefault(event.offset, number)
        chains = [ExtractedChain(head, list(numbers.values())) for head, numbers in of_heads.items()]
        return list(events), chains
    names = [_protagonist(cluster, arguments) for cluster in clusters]
    cluster_of = clusters_by_head(clusters)
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


def clusters_by_head(clusters: Sequence[Sequence[Span]]) -> dict[int, int]:
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
    words = [head for head in heads if head.lower_ not in PRONOUNS]
    # Not of "Anna and Peter".
    names = [
        span.root
        for span in cluster
        if span.root.pos_ == "PROPN" and all(token.dep_ != "conj" for token in span)
    ]
    head = (names or words or heads)[0]
    return mention_text(head) if arguments == "spans" else head_text(head)


Resolver = Callable[["Doc"], Iterable[Iterable["Span | tuple[int, int]"]]]
"""Returns the clusters of a parsed text; a mention is a span, or the index of its first token and the index
after its last token."""

CLUSTERS = "eventformers_clusters"
"""Key of the clusters that were read in the `user_data` of a parsed text."""

_RESOLVERS = ("spacy", "fastcoref", "coreferee")
COREFERENCE_SOURCES = ("auto", "heads", *_RESOLVERS)
_EXTENSIONS = {"fastcoref": "coref_clusters", "coreferee": "coref_chains"}
_SPACY_PREFIX = "coref_clusters_"


def resolver_of(coreference: str | Resolver) -> str | Resolver:
    """Resolve `module:function` to the function; return a name of `COREFERENCE_SOURCES` or a callable
    unchanged.

    Raises:
        UnknownNameError: the name is unknown.
        EventformersError: the function does not exist.
    """
    if not isinstance(coreference, str) or coreference in COREFERENCE_SOURCES:
        return coreference
    module, colon, function = coreference.partition(":")
    if not colon:
        raise UnknownNameError(
            "source of coreference", coreference, (*COREFERENCE_SOURCES, "module:function")
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise EventformersError(f"no coreference function {shown(coreference)}: {error}") from error
    if not callable(found):
        raise EventformersError(
            f"{shown(coreference)} is not a function; accepted: one that takes a spaCy Doc"
        )
    return found


def coreference_clusters(doc: Doc, coreference: str | Resolver = "auto") -> list[list[Span]] | None:
    """Read the clusters of mentions in a parsed text.

    Args:
        coreference: `spacy` for span groups `coref_clusters_*`, `fastcoref` for `doc._.coref_clusters`,
            `coreferee` for `doc._.coref_chains`, `auto` for the first of these that exists, or else the rules
            of `eventformers.extraction.coreference` in English, `heads` for none; or a callable.

    Returns:
        The clusters in the order of their first mentions, or None if the text has none and chains use equal
        head words instead.

    Raises:
        EventformersError: the text has no clusters of the named resolver, or a callable returned no clusters.
    """
    if not isinstance(coreference, str):
        clusters: Iterable[Iterable[Span]] = _of_callable(doc, coreference)
    elif coreference == "heads":
        return None
    elif coreference == "auto":
        name = next((name for name in _RESOLVERS if _carries(doc, name)), None)
        if name is None and doc.lang_ != "en":
            return None
        clusters = resolve(doc) if name is None else _written(doc, name)
    else:
        # spaCy's resolver writes nothing to a text without clusters, so missing clusters are not an error
        # there.
        if coreference != "spacy" and not _carries(doc, coreference):
            raise EventformersError(
                f"the spaCy pipeline wrote no clusters of {coreference}; accepted: a pipeline with that"
                " component, or coreference by heads"
            )
        clusters = _written(doc, coreference)
    found = [sorted(cluster, key=lambda span: (span.start, span.end)) for cluster in clusters]
    doc.user_data[CLUSTERS] = sorted((one for one in found if one), key=lambda cluster: cluster[0].start)
    return doc.user_data[CLUSTERS]


def _carries(doc: Doc, name: str) -> bool:
    if name == "spacy":
        return any(group.startswith(_SPACY_PREFIX) for group in doc.spans)
    # After the import of a resolver its extension exists for every text of the process; only the value shows.
    extension = _EXTENSIONS[name]
    return doc.has_extension(extension) and doc._.get(extension) is not None


def _written(doc: Doc, name: str) -> Iterator[list[Span]]:
    """Yield the clusters that a resolver wrote to a text."""
    if name == "spacy":
        yield from (list(spans) for key, spans in doc.spans.items() if key.startswith(_SPACY_PREFIX))
    elif name == "fastcoref":
        for cluster in doc._.coref_clusters:
            spans = [doc.char_span(start, end, alignment_mode="expand") for start, end in cluster]
            yield [span for span in spans if span is not None]
    else:
        # A mention of several people lists the head of each.
        for chain in doc._.coref_chains:
            yield [doc[index : index + 1] for mention in chain for index in mention.token_indexes]


def _of_callable(doc: Doc, resolver: Resolver) -> Iterator[list[Span]]:
    for cluster in resolver(doc):
        spans = []
        for mention in cluster:
            if isinstance(mention, Sequence) and len(mention) == 2:
                start, end = mention
                if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(doc)):
                    raise EventformersError(
                        f"the coreference function returned the mention {shown(mention)} in a text of "
                        f"{len(doc)} tokens; accepted: a Span, or (first token, token after the last)"
                    )
                spans.append(doc[start:end])
            else:
                spans.append(mention)
        yield spans
