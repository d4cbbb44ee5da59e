"""Chains of one participant, and pronouns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from benchmark_scripts import load_benchmark
from parsed_texts import parsed_text
from spacy.tokens import Doc

from eventformers.datasets_scripts.chain_readers import RawDocument, RawEvent
from eventformers.datasets_scripts.chains import document_chains
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.extraction.chains import coreference_clusters, find_chains, resolver_of
from eventformers.extraction.coreference import resolve
from eventformers.extraction.events import extract_events
from eventformers.extraction.extractor import EventExtractor, ExtractionSettings, plain_event

pytest.importorskip("spacy", reason="spaCy is not installed")

# 0 Anna 1 saw 2 Peter | 3 She 4 called 5 him | 6 Peter 7 slept | 8 Anna 9 fed 10 her 11 cat
SENTENCES = (
    "Anna/NNP/2/nsubj saw/VBD/2/ROOT Peter/NNP/2/dobj",
    "She/PRP/2/nsubj called/VBD/2/ROOT him/PRP/2/dobj",
    "Peter/NNP/2/nsubj slept/VBD/2/ROOT",
    "Anna/NNP/2/nsubj fed/VBD/2/ROOT her/PRP$/4/poss cat/NN/2/dobj",
)
ANNA, PETER, CAT = [(0, 1), (3, 4), (8, 9), (10, 11)], [(2, 3), (5, 6), (6, 7)], [(10, 12)]


@pytest.fixture
def doc() -> Doc:
    return parsed_text(*SENTENCES)


@pytest.fixture
def _extensions() -> Iterator[None]:
    """The places where resolvers of others leave their clusters."""
    names = ("coref_clusters", "coref_chains")
    for name in names:
        Doc.set_extension(name, default=None)
    yield
    for name in names:
        Doc.remove_extension(name)


def chains_of(doc: Doc, coreference: object = "auto") -> dict[str, list[str]]:
    events, chains = find_chains(doc, extract_events(doc), coreference)
    texts = [f"{event.subject} {event.predicate} {event.object}".strip() for event in events]
    return {chain.protagonist: [texts[number] for number in chain.events] for chain in chains}


RESOLVED = {
    "anna": ["anna saw peter", "anna called peter", "anna fed cat"],
    "peter": ["anna saw peter", "anna called peter", "peter slept"],
}


def test_equal_heads(doc: Doc) -> None:
    assert chains_of(doc, "heads") == {
        "anna": ["anna saw peter", "anna fed cat"],
        "peter": ["anna saw peter", "peter slept"],
        "cat": ["anna fed cat"],
    }


def test_equal_heads_as_the_dataset_finds_them(doc: Doc) -> None:
    events = extract_events(doc)
    plain = [plain_event(event) for event in events]
    document = RawDocument("d", "s", "MIT", [RawEvent(event) for event in plain])
    theirs = {chain.protagonist: chain.events for chain in document_chains(document, plain, 1, Counter())}
    _, chains = find_chains(doc, events, "heads")
    assert {chain.protagonist: [plain[number] for number in chain.events] for chain in chains} == theirs


def test_heads_of_spans() -> None:
    sentences = (
        "The/DT/3/det old/JJ/3/amod man/NN/4/nsubj slept/VBD/4/ROOT",
        "Anna/NNP/2/nsubj saw/VBD/2/ROOT the/DT/4/det man/NN/2/dobj",
    )
    doc = parsed_text(*sentences)
    events, chains = find_chains(doc, extract_events(doc, "spans"), "heads", "spans")
    assert [event.subject for event in events] == ["the old man", "anna"]
    assert next(chain.events for chain in chains if chain.protagonist == "man") == [0, 1]


def test_spacy_clusters(doc: Doc) -> None:
    for number, cluster in enumerate((ANNA, PETER), start=1):
        doc.spans[f"coref_clusters_{number}"] = [doc[start:end] for start, end in cluster]
        doc.spans[f"coref_head_clusters_{number}"] = [doc[start:end] for start, end in cluster]
    assert chains_of(doc) == RESOLVED


@pytest.mark.usefixtures("_extensions")
def test_fastcoref_clusters(doc: Doc) -> None:
    doc._.coref_clusters = [
        [(doc[start].idx, doc[end - 1].idx + len(doc[end - 1])) for start, end in cluster]
        for cluster in (ANNA, PETER)
    ]
    assert chains_of(doc) == chains_of(doc, "fastcoref") == RESOLVED


@pytest.mark.usefixtures("_extensions")
def test_coreferee_chains(doc: Doc) -> None:
    doc._.coref_chains = [
        [SimpleNamespace(token_indexes=[start]) for start, _ in cluster] for cluster in (ANNA, PETER)
    ]
    assert chains_of(doc) == chains_of(doc, "coreferee") == RESOLVED


@pytest.mark.usefixtures("_extensions")
def test_a_resolver_that_did_not_run(doc: Doc) -> None:
    assert coreference_clusters(doc, "heads") is None
    with pytest.raises(EventformersError, match="wrote no clusters of fastcoref"):
        chains_of(doc, "fastcoref")
    # A text in which the resolver found nothing is no mistake.
    doc._.coref_clusters = []
    assert chains_of(doc) == {}


def test_function(doc: Doc) -> None:
    assert chains_of(doc, lambda text: [ANNA, [text[start:end] for start, end in PETER]]) == RESOLVED
    with pytest.raises(EventformersError, match=r"the mention \(3, 99\) in a text of 12 tokens"):
        chains_of(doc, lambda text: [[(3, 99)]])


def test_a_mention_counts_by_its_head(doc: Doc) -> None:
    """ "her" in "her cat" is Anna, but the event is about the cat."""
    chains = chains_of(doc, lambda text: [ANNA, CAT])
    assert chains["cat"] == ["anna fed cat"]
    assert chains["anna"][-1] == "anna fed cat"


def test_of_two_mentions_with_one_head_the_shorter_decides() -> None:
    sentences = (
        "Friends/NNS/2/nsubj came/VBD/2/ROOT",
        "Anna/NNP/4/nsubj and/CC/1/cc Peter/NNP/1/conj slept/VBD/4/ROOT",
    )
    friends, anna = [(0, 1), (2, 5)], [(2, 3)]
    wanted = {"friends": ["friends came"], "anna": ["anna slept"]}
    assert chains_of(parsed_text(*sentences), lambda text: [friends, anna]) == wanted
    assert chains_of(parsed_text(*sentences), lambda text: [anna, friends]) == wanted


def test_cluster_of_pronouns_alone(doc: Doc) -> None:
    assert chains_of(doc, lambda text: [[(3, 4), (10, 11)]]) == {"she": ["she called him"]}


def test_subject_and_object_the_same() -> None:
    doc = parsed_text("Anna/NNP/2/nsubj saw/VBD/2/ROOT Anna/NNP/2/dobj")
    assert chains_of(doc) == {"anna": ["anna saw anna"]}
    assert chains_of(doc, lambda text: [[(0, 1), (2, 3)]]) == {"anna": ["anna saw anna"]}


def clusters_for_a_name(doc: Doc) -> list[list[tuple[int, int]]]:
    return [ANNA, PETER]


def test_resolver_by_name() -> None:
    assert resolver_of("auto") == "auto"
    assert resolver_of("os.path:join")("a", "b") == "a/b"
    with pytest.raises(UnknownNameError, match="Did you mean 'fastcoref'"):
        resolver_of("fastcoreff")
    for wrong in ("no.such.module:function", "os.path:no_such", ":"):
        with pytest.raises(EventformersError, match="no coreference function"):
            resolver_of(wrong)
    with pytest.raises(EventformersError, match="is not a function"):
        resolver_of("os:sep")


@pytest.fixture(scope="module")
def clusters(english_pipeline: str) -> Callable[[str], list[list[str]]]:
    parser = EventExtractor(ExtractionSettings(english_pipeline)).parser

    def of_text(text: str) -> list[list[str]]:
        ((doc, _),) = parser.parse([(None, parser.normalised(text))])
        return [[span.text for span in cluster] for cluster in resolve(doc)]

    return of_text


def of_word(clusters: list[list[str]], word: str) -> list[str]:
    """The cluster of a mention; empty without one."""
    return next((cluster for cluster in clusters if word in cluster), [])


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("Barack Obama met Angela Merkel. Obama left early.", ["Barack Obama", "Obama"]),
        ("Mark Felt died. Felt was a spy. Joan Felt wept.", ["Mark Felt", "Felt"]),
        ("The European Union met. The EU agreed on a plan.", ["The European Union", "EU"]),
        ("Microsoft Corp. sued its rival. Microsoft won the case.", ["Microsoft Corp.", "its", "Microsoft"]),
        ("Prime Minister Tony Blair spoke. The prime minister left.", ["Tony Blair", "The prime minister"]),
        ("Tony Blair, the prime minister, spoke.", ["Tony Blair", "the prime minister"]),
        ("Mary Smith sued John Brown. She won.", ["Mary Smith", "She"]),
        ("Angela Merkel said that she would resign.", ["Angela Merkel", "she"]),
        ('"I will fight," said Michael Howard.', ["I", "Michael Howard"]),
        ("Protesters threw stones because they were angry.", ["Protesters", "they"]),
        ("A man robbed a bank. The man fled.", ["A man", "The man"]),
    ],
)
def test_together(clusters: Callable[[str], list[list[str]]], text: str, together: list[str]) -> None:
    found = of_word(clusters(text), together[0])
    assert set(together) <= set(found)


@pytest.mark.parametrize(
    ("text", "word", "other"),
    [
        ("Bill Clinton met Tony Blair. The prime minister smiled.", "Tony Blair", "The prime minister"),
        ("John saw him at the station.", "John", "him"),
        ("Mary Smith sued John Brown. She won.", "John Brown", "She"),
        ("It is clear that Microsoft won.", "Microsoft", "It"),
        ('Anna Smith said: "I saw the man." He fled.', "Anna Smith", "He"),
        ("John met Paul. He smiled at the king of his country.", "the king", "his"),
    ],
)
def test_apart(clusters: Callable[[str], list[list[str]]], text: str, word: str, other: str) -> None:
    assert other not in of_word(clusters(text), word)


def test_no_answer_where_it_is_unsure(clusters: Callable[[str], list[list[str]]]) -> None:
    found = clusters("John Brown and Paul Smith met Peter Green and Mark Jones. The crowd cheered for him.")
    assert of_word(found, "him") == []


def test_accuracy_of_judged_pronouns(english_pipeline: str) -> None:
    counts = load_benchmark("event_data").judged_pronouns(english_pipeline, held_out=True)
    assert counts["right"] / (counts["right"] + counts["wrong"]) >= 0.76
    assert counts["right"] >= 33
    assert counts["empty"] >= 14
