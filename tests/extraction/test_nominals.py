"""Events of nouns and adjectives: which words are events, their roles, and the accuracy on ECB+."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_scripts import load_benchmark
from safetensors import safe_open

from eventformers.errors import EventformersError
from eventformers.extraction.extractor import EventExtractor, ExtractionCounts, ExtractionSettings
from eventformers.extraction.nominals import WEIGHTS, packaged_weights
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
