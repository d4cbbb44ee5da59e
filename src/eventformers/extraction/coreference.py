"""Clusters of mentions that name the same, from whatever resolver a parsed text went through."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from eventformers.errors import EventformersError, UnknownNameError, shown

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

Resolver = Callable[["Doc"], Iterable[Iterable["Span | tuple[int, int]"]]]
"""Gives the clusters of a parsed text; a mention is a span, or the number of its first token and of the one
behind its last."""

COREFERENCE_SOURCES = ("auto", "heads", "spacy", "fastcoref", "coreferee")
_SPACY_PREFIX = "coref_clusters_"


def resolver_of(coreference: str | Resolver) -> str | Resolver:
    """A name of `COREFERENCE_SOURCES` or a callable as it is; `module:function` becomes that function.

    Raises:
        UnknownNameError: the name is unknown.
        EventformersError: there is no such function.
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
        raise EventformersError(f"{shown(coreference)} is no function; accepted: one that takes a spaCy Doc")
    return found


def coreference_clusters(doc: Doc, coreference: str | Resolver = "auto") -> list[list[Span]] | None:
    """The clusters of mentions that a text carries.

    Args:
        doc: a parsed text.
        coreference: `spacy` for span groups `coref_clusters_*`, `fastcoref` for `doc._.coref_clusters`,
            `coreferee` for `doc._.coref_chains`, `auto` for the first of these that is there, `heads` for
            none; or a callable.

    Returns:
        The clusters in the order in which they are first mentioned, or None where the text carries none and
        equal head words have to do.

    Raises:
        EventformersError: the named resolver left nothing in the text, or a callable gave no clusters.
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
        # The resolver of spaCy leaves nothing in a text without clusters, so nothing is no mistake there.
        if coreference != "spacy" and not _carries(doc, coreference):
            raise EventformersError(
                f"the spaCy pipeline left no clusters of {coreference}; accepted: a pipeline with that"
                " component, or coreference by heads"
            )
        clusters = _READERS[coreference](doc)
    found = [sorted(cluster, key=lambda span: (span.start, span.end)) for cluster in clusters]
    return sorted((cluster for cluster in found if cluster), key=lambda cluster: cluster[0].start)


def _carries(doc: Doc, name: str) -> bool:
    if name == "spacy":
        return any(group.startswith(_SPACY_PREFIX) for group in doc.spans)
    # An extension exists for every text of the process once a resolver was imported; only its value tells.
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
                        f"the coreference function gave the mention {shown(mention)} in a text of {len(doc)}"
                        " tokens; accepted: a Span, or (first token, token behind the last)"
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
