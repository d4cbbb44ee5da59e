"""Headlines in Title Case: the verb that the parser takes as a noun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from eventformers.extraction.events import extract_events
from eventformers.extraction.extractor import TextParser, load_pipeline
from eventformers.extraction.headlines import with_verbs
from eventformers.extraction.normalising import Vocabulary

pytest.importorskip("spacy", reason="spaCy is not installed")

import spacy
from parsed_texts import parsed_text
from spacy.tokens import Doc

BITES = "Dog/NNP/2/compound bites/NNS/3/compound man/NN/3/ROOT"
WILL_BITE = "Dog/NN/3/nsubj will/MD/3/aux bite/VB/3/ROOT man/NN/3/dobj"
LEFT = "He/PRP/2/nsubj left/VBD/2/ROOT ././2/punct"


class Parser:
    """A pipeline that knows the parses of some sentences."""

    def __init__(self, *parses: str) -> None:
        self.parses = {doc.text: doc for doc in map(parsed_text, parses)}
        self.read: list[str] = []

    def pipe(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        for doc in docs:
            self.read.append(doc.text)
            yield self.parses[doc.text]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    pipeline = spacy.blank("en")
    tables = pipeline.add_pipe("lemmatizer").lookups
    nouns, verbs = {"bite", "dog", "fire", "man", "swamp"}, {"bite", "derail", "fire", "leave", "swamp"}
    tables.add_table("lemma_index", {"noun": nouns, "verb": verbs})
    tables.add_table("lemma_exc", {"verb": {"left": ["leave"]}})
    return Vocabulary(pipeline)


def events_of(doc: Doc) -> list[str]:
    return [f"{one.subject}|{one.predicate}|{one.object}" for one in extract_events(doc)]


def test_a_headline_takes_the_parse_with_an_auxiliary(vocabulary: Vocabulary) -> None:
    doc = parsed_text(LEFT, BITES, LEFT)
    start = doc[3].idx
    with_verbs(doc, [(start, start + len("Dog bites man"))], vocabulary, Parser(WILL_BITE))
    assert events_of(doc) == ["he|left|", "dog|bites|man", "he|left|"]
    assert [sentence.start for sentence in doc.sents] == [0, 3, 6]
    assert [(token.tag_, token.head.i, token.lemma_) for token in doc[3:6]] == [
        ("NN", 4, "dog"),
        ("VBZ", 4, "bite"),
        ("NN", 4, "man"),
    ]
    assert doc[4].morph.get("Tense") == ["Pres"]


@pytest.mark.parametrize(
    ("headline", "parsed", "events"),
    [
        # After a plural, the verb has no ending.
        (
            "Floods/NNS/3/compound swamp/NN/3/compound village/NN/3/ROOT",
            "Floods/NNS/3/nsubj will/MD/3/aux swamp/VB/3/ROOT village/NN/3/dobj",
            ["floods|swamp|village"],
        ),
        # A word that is no noun needs no object; one that is both needs one.
        (
            "Fast/NNP/2/compound train/NN/3/compound derails/NNS/3/ROOT",
            "Fast/NNP/2/compound train/NN/4/nsubj will/MD/4/aux derail/VB/4/ROOT",
            ["train|derails|"],
        ),
        (
            "Dog/NN/2/compound bites/NNS/2/ROOT in/IN/2/prep Rome/NNP/3/pobj",
            "Dog/NN/3/nsubj will/MD/3/aux bite/VB/3/ROOT in/IN/3/prep Rome/NNP/4/pobj",
            [],
        ),
        # The parse has it as something else than the verb.
        (BITES, "Dog/NN/4/compound will/NN/4/compound bite/NN/4/compound man/NN/4/ROOT", []),
    ],
)
def test_what_a_verb_needs(vocabulary: Vocabulary, headline: str, parsed: str, events: list[str]) -> None:
    doc = parsed_text(headline)
    parser = Parser(parsed)
    with_verbs(doc, [(0, len(doc.text))], vocabulary, parser)
    assert len(parser.read) == 1
    assert events_of(doc) == events


@pytest.mark.parametrize(
    "headline",
    [
        "Man/NN/2/nsubj left/VBD/2/ROOT dog/NN/2/dobj bites/NNS/2/dobj",
        "Big/JJ/2/amod fires/NNS/2/ROOT",
        "Dogs/NNS/2/compound bites/NNS/3/compound man/NN/3/ROOT",
        BITES.replace("ROOT", "ROOT ././3/punct"),
    ],
)
def test_headlines_that_are_not_parsed_again(vocabulary: Vocabulary, headline: str) -> None:
    doc = parsed_text(headline)
    parser = Parser()
    with_verbs(doc, [(0, len(doc.text))], vocabulary, parser)
    assert not parser.read


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Dog Bites Man", "dog|bites|man"),
        ("Apple Buys Startup For $3 Billion", "apple|buys|startup"),
        ("POLICE ARREST SUSPECT", "police|arrest|suspect"),
        ("Court Blocks Law\n\nThe mayor left.", "court|blocks|law; mayor|left|"),
        ("The town of Rome.\n\nFloods Swamp Village", "floods|swamp|village"),
        ("Google Fires Engineer Over Memo", "google|fires|engineer"),
        ("Actress Files Suit", "actress|files|suit"),
        ("Google Engineers Suit Up", "engineers|suit up|"),
        ("Bank Holiday Fire", ""),
        ("dog bites man", ""),
    ],
)
def test_headlines_in_the_packaged_pipeline(english_pipeline: str, text: str, wanted: str) -> None:
    parser = TextParser(load_pipeline(english_pipeline))
    [(doc, _)] = parser.parse([(text, parser.normalised(text))])
    assert "; ".join(events_of(doc)) == wanted
