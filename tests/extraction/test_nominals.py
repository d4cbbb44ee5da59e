"""Headlines and events of nouns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import spacy
from benchmark_scripts import load_benchmark
from parsed_texts import parsed_text
from safetensors import safe_open
from spacy.tokens import Doc

from eventformers.errors import EventformersError
from eventformers.extraction.events import extract_events
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractionCounts,
    ExtractionSettings,
    TextParser,
    load_pipeline,
)
from eventformers.extraction.headlines import with_verbs
from eventformers.extraction.nominals import WEIGHTS, packaged_weights
from eventformers.extraction.normalising import Vocabulary
from eventformers.extraction.texts import TextDocument
from eventformers.files import file_digest

SENTENCES = {
    "The company's takeover of its rival was announced after a police raid in Paris.": [
        "takeover noun|company|takeover|rival",
        "announced verb||announced|takeover",
        "raid noun|police|raid in|paris",
    ],
    "The army made an attack on the city.": ["attack noun|army|attack on|city"],
    "Rebels carried out an attack.": ["attack noun|rebels|attack|"],
    "His resignation shocked the party.": [
        "resignation noun|his|resignation|",
        "shocked verb|resignation|shocked|party",
    ],
    "The arrest of the minister by the police led to protests.": [
        "arrest noun|police|arrest|minister",
        "led verb|arrest|led to|protests",
        "protests noun||protests|",
    ],
    "The minister's assassination shocked us.": [
        "assassination noun||assassination|minister",
        "shocked verb|assassination|shocked|us",
    ],
    "Talks between Israel and Egypt failed.": [
        "Talks noun|israel|talks|egypt",
        "failed verb|talks|failed|",
    ],
    "The death of the president was announced.": [
        "death noun|president|death|",
        "announced verb||announced|death",
    ],
    "The building was finished in 1990.": ["finished verb||finished|building"],
    "He was found dead in his home.": ["found verb||found|he", "dead adjective|he|dead|"],
    "They are not a threat.": ["are verb|they|not are|threat", "threat noun||not threat|"],
    "The Centre for Disease Analysis praised the analysis.": [
        "praised verb|centre|praised|analysis",
        "analysis noun||analysis|",
    ],
    "He died in the night. She waited for years on a chair.": [
        "died verb|he|died|",
        "waited verb|she|waited|",
    ],
    "The truck was moving at 20 mph. He carried ten kilograms.": [
        "moving verb|truck|moving|",
        "carried verb|he|carried|kilograms",
    ],
    "There was no attack.": ["attack noun||not attack|"],
    "The company did not make an offer for the rival.": ["offer noun|company|not offer for|rival"],
    "He was unfit to be president.": ["was verb|he|was unfit|"],
    "She is likely to be president.": ["is verb|she|is likely|", "be verb|she|be|president"],
}


def extracted(settings: ExtractionSettings, text: str) -> list[str]:
    found = EventExtractor(settings).extract([TextDocument("a", text, "", "")], ExtractionCounts())
    events = [one for document in found for one in document.events]
    return [
        f"{one['trigger']} {one['trigger_kind']}|{one['subject']}|"
        f"{'not ' * one['negated']}{one['predicate']}|{one['object']}"
        for one in events
    ]


def test_roles(english_pipeline: str) -> None:
    settings = ExtractionSettings(english_pipeline)
    assert {text: extracted(settings, text) for text in SENTENCES} == SENTENCES


def test_doubtful_nouns_are_left_out(english_pipeline: str) -> None:
    sure = ExtractionSettings(english_pipeline, triggers="sure")
    assert extracted(sure, "He signed the agreement.") == ["signed verb|he|signed|agreement"]
    assert extracted(sure, "He was found dead after the attack.") == [
        "found verb||found|he",
        "dead adjective|he|dead|",
        "attack noun||attack|",
    ]


def test_verbs_alone_are_events_of_verbs_with_arguments(english_pipeline: str) -> None:
    settings = ExtractionSettings(english_pipeline, triggers="verbs")
    assert extracted(settings, "The army made an attack on the city.") == ["made verb|army|made|attack"]
    assert extracted(settings, "Critics said that he was unfit to be president.") == [
        "said verb|critics|said|",
        "was verb|he|was unfit|",
        "be verb|he|not be|president",
    ]
    assert extracted(settings, "Leave!") == []
    assert extracted(ExtractionSettings(english_pipeline), "Leave!") == ["Leave verb||leave|"]


def test_whole_mentions(english_pipeline: str) -> None:
    settings = ExtractionSettings(english_pipeline, arguments="spans")
    assert extracted(settings, "The big company's takeover of its rival failed.") == [
        "takeover noun|the big company|takeover|its rival",
        "failed verb|the big company's takeover of its rival|failed|",
    ]


def test_unknown_triggers() -> None:
    with pytest.raises(EventformersError, match="all, sure, verbs"):
        ExtractionSettings("x", triggers="nouns")


def test_packaged_weights() -> None:
    assert file_digest(WEIGHTS) == "5618cd36458146b1a726e6adec4089015e16a48036a32cf12353c7d501e0a6a4"
    with safe_open(WEIGHTS, "np") as file:
        assert file.metadata()["license"] == "CC BY 3.0"
        assert "Princeton University" in file.metadata()["wordnet_license"]
    weights = packaged_weights()
    assert weights["attack"] > 1 > weights.get("company", 0.0)


def test_nouns_of_open_texts(english_pipeline: str) -> None:
    benchmark = load_benchmark("event_data")
    found = {kind: benchmark.judged_nouns(english_pipeline, kind) for kind in ("all", "sure")}
    assert found["all"]["yes"] >= 44
    assert found["sure"]["yes"] >= 39
    assert found["sure"]["no"] <= 20


def test_accuracy_on_ecbplus(english_pipeline: str, shared_data: Path) -> None:
    benchmark = load_benchmark("event_data")
    documents = benchmark.read_ecbplus(shared_data / "ecbplus" / "ECB+.zip", benchmark.DEVELOPMENT_TOPICS)
    items = list(benchmark.extracted(documents, ExtractionSettings(english_pipeline)))
    rows = [line.strip("| ").split(" | ") for line in benchmark.triggers(items).splitlines()[2:]]
    recall = {row[0]: float(row[3]) for row in rows}
    assert recall["verb"] > 94.5
    assert recall["noun"] > 69.5
    assert recall["all"] > 84.5
    assert float(rows[-1][-1]) > 86


pytest.importorskip("spacy", reason="spaCy is not installed")

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
