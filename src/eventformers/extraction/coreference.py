"""Clusters of co-referring mentions, from the resolver that parsed the text."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from eventformers.errors import EventformersError, UnknownNameError, shown

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

Resolver = Callable[["Doc"], Iterable[Iterable["Span | tuple[int, int]"]]]
"""Returns the clusters of a parsed text; a mention is a span, or the index of its first token and the index
after its last token."""

COREFERENCE_SOURCES = ("auto", "heads", "spacy", "fastcoref", "coreferee")
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
        doc: a parsed text.
        coreference: `spacy` for span groups `coref_clusters_*`, `fastcoref` for `doc._.coref_clusters`,
            `coreferee` for `doc._.coref_chains`, `auto` for the first of these that exists, `heads` for none;
            or a callable.

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
        name = next((name for name in _READERS if _carries(doc, name)), None)
        if name is None:
            return None
        clusters = _READERS[name](doc)
    else:
        # spaCy's resolver writes nothing to a text without clusters, so missing clusters are not an error
        # there.
        if coreference != "spacy" and not _carries(doc, coreference):
            raise EventformersError(
                f"the spaCy pipeline wrote no clusters of {coreference}; accepted: a pipeline with that"
                " component, or coreference by heads"
            )
        clusters = _READERS[coreference](doc)
    found = [sorted(cluster, key=lambda span: (span.start, span.end)) for cluster in clusters]
    return sorted((cluster for cluster in found if cluster), key=lambda cluster: cluster[0].start)


def _carries(doc: Doc, name: str) -> bool:
    if name == "spacy":
        return any(group.startswith(_SPACY_PREFIX) for group in doc.spans)
    # After the import of a resolver its extension exists for every text of the process; only the value shows.
    extension = _EXTENSIONS[name]
    return doc.has_extension(extension) and doc._.get(extension) is not None


def _of_spacy(doc: Doc) -> Iterator[list[Span]]:
    for name, spans in doc.spans.items():
        if name.startswith(_SPACY_PREFIX):
            yield list(spans)


def _of_fastcoref(doc: Doc) -> Iterator[list[Span]]:
    for cluster in doc._.coref_clusters:
        spans = [doc.char_span(start, end, alignment_mode="expand") for start, end in cluster]
        yield [span for span in spans if span is not None]


def _of_coreferee(doc: Doc) -> Iterator[list[Span]]:
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


_EXTENSIONS = {"fastcoref": "coref_clusters", "coreferee": "coref_chains"}
_READERS: dict[str, Callable[[Doc], Iterator[list[Span]]]] = {
    "spacy": _of_spacy,
    "fastcoref": _of_fastcoref,
    "coreferee": _of_coreferee,
}
