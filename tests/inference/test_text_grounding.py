"""Grounding a text: candidates and links as computed by hand, ancestors by the hierarchy; the report."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from event_files import write_edges, write_events
from scipy.special import expit, logit
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder, save_tiny_xlm_roberta
from transformers import AutoTokenizer

import eventformers
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.mention_files import load_text_mentions
from eventformers.inference.grounding import retrieve_rerank
from eventformers.inference.grounding.encoding import PairScores, Side, encode_texts, load_cross_encoder
from eventformers.inference.grounding.ground import ground
from eventformers.inference.grounding.grounded_text import Grounding
from eventformers.inference.grounding.knowledge_base import KnowledgeBase, load_knowledge_base
from eventformers.inference.grounding.linking import NEAR_QUANTILE
from eventformers.inference.search.vector_search import ApproximateSearch, ExactSearch
from eventformers.models.processing_event_grounding import EventText

EVENTS = [
    ("storm", "en", "storm", "the storm hit the city"),
    ("flood", "en", "flooded", "the river flooded the road"),
    ("strike", "en", "union strike", ""),
    ("vote", "en", "election", "the voter elected the mayor"),
    ("year", "en", "fire", "the worker said"),
    ("storm", "fr", "police", "the city"),
    ("year", "fr", "court", ""),
    ("decade", "fr", "judge", ""),
]
EDGES = [("flood", "storm"), ("storm", "year"), ("vote", "year"), ("year", "decade")]
TEXTS: list[Any] = [
    {"text": "the storm hit the city", "start_char": 4, "end_char": 9, "language": "en"},
    {"context_left": "the river ", "mention": "flooded", "context_right": " the road", "language": "en"},
    {"context_left": "", "mention": "judge", "context_right": " said", "language": "fr"},
    {"context_left": "", "mention": "storm", "context_right": "", "language": "fi"},
    {"context_left": "the ", "mention": "strike", "context_right": "", "language": "en"},
]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    folder = tmp_path_factory.mktemp("grounding") / "kb"
    return load_knowledge_base(write_edges(write_events(folder, EVENTS), EDGES))


@pytest.fixture(scope="module")
def cross_folder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grounding") / "cross-encoder"
    return save_tiny_cross_encoder(tiny_encoder, folder, mention_tokens=16, event_tokens=10)


def slow_scores(encoder: EventEncoder, known: KnowledgeBase) -> list[dict[str, float]]:
    """The scores of the events in the language of each mention."""
    found = []
    for mention in load_text_mentions(TEXTS)[0]:
        rows = [row for row in known.events if row["language"] == mention.language]
        texts = [EventText.from_row(row) for row in rows]
        left = encode_texts(encoder, "mention", [mention.text]).vectors
        scores = left @ encode_texts(encoder, "event", texts).vectors.T if texts else np.empty((1, 0))
        found.append(dict(zip((row["event_id"] for row in rows), scores[0].tolist(), strict=True)))
    return found


def linked_ids(found: Grounding) -> list[list[str]]:
    return [[event.event_id for event in one.linked] for one in found.mentions]


def test_candidates_are_those_with_the_highest_scores(encoder: EventEncoder, known: KnowledgeBase) -> None:
    found = ground(encoder, TEXTS, known, candidates=3)
    threshold = found.settings["threshold"]
    for one, scores in zip(found.mentions, slow_scores(encoder, known), strict=True):
        best = sorted(scores, key=lambda event_id: -scores[event_id])[:3]
        assert [event.event_id for event in one.candidates] == best
        for place, event in enumerate(one.candidates):
            assert event.score == pytest.approx(scores[event.event_id], abs=1e-5)
            assert event.probability is None
            assert event.linked == (place == 0 and event.score >= threshold)
            assert event.title == known.title(event.event_id, one.mention.language)
        assert one.has_pool == bool(best)
    assert found.without_pool == {"fi": 1}
    assert found.counts["mentions_without_events_in_their_language"] == 1
    assert found.counts["mentions_linked_to_nothing"] == linked_ids(found).count([])
    assert found.counts["mentions"] == 5
    assert found.recall == {}


def test_ancestors_come_from_the_hierarchy(encoder: EventEncoder, known: KnowledgeBase) -> None:
    found = ground(encoder, TEXTS, known, threshold=-1.0)
    for one in found.mentions:
        ids = {event.event_id for event in one.candidates}
        assert {event.event_id for event in one.linked} == ids
        # All that is described in the language is linked; the rest of the hierarchy is above it.
        expected = {above for event_id in ids for above in known.ancestors(event_id)} - ids
        assert {above.event_id for above in one.ancestors} == expected
    english = found.mentions[0]
    [decade] = english.ancestors
    assert decade.title == "judge"
    assert set(decade.of) == {"storm", "flood", "vote", "year"}


def test_a_threshold_of_scores_leaves_null(encoder: EventEncoder, known: KnowledgeBase) -> None:
    scores = slow_scores(encoder, known)
    threshold = float(np.median([score for one in scores for score in one.values()]))
    found = ground(encoder, TEXTS, known, threshold=threshold)
    for one, of_mention in zip(linked_ids(found), scores, strict=True):
        assert set(one) == {event_id for event_id, score in of_mention.items() if score >= threshold}
    nothing = ground(encoder, TEXTS, known, threshold=2.0)
    assert linked_ids(nothing) == [[]] * 5
    assert nothing.counts["mentions_linked_to_nothing"] == 5
    assert all(not one.ancestors and one.to_dict()["null"] for one in nothing.mentions)


def test_the_learned_threshold_leaves_null(known: KnowledgeBase, tiny_encoder: Path, tmp_path: Path) -> None:
    """The first candidate of a mention is linked, or none; a threshold that is given overrides it."""
    encoder = load_encoder(save_tiny_bi_encoder(tiny_encoder, tmp_path / "bi-encoder"), device="cpu")
    assumed = ground(encoder, TEXTS, known)
    first = sorted(one.candidates[0].score for one in assumed.mentions if one.candidates)
    threshold = (first[1] + first[2]) / 2
    encoder.model.config.null_threshold = threshold
    found = ground(encoder, TEXTS, known)
    assert (found.settings["threshold"], found.settings["threshold_source"]) == (threshold, "learned")
    assert found.note == ""
    assert found.counts["mentions_linked_to_nothing"] == 3
    for one in found.mentions:
        reaches = [event.score >= threshold for event in one.candidates]
        assert [event.linked for event in one.candidates] == [
            place == 0 and reaches[0] for place in range(len(reaches))
        ]
        row = one.to_dict()
        assert (row["null"], row["unchecked"], row["threshold"]) == (not one.linked, False, threshold)
        assert [event["event_id"] for event in row["candidates"]] == [
            event.event_id for event in one.candidates
        ]
    given = ground(encoder, TEXTS, known, threshold=-100.0)
    assert given.settings["threshold_source"] == "given"
    assert all(event.linked for one in given.mentions for event in one.candidates)


def test_without_a_learned_threshold_a_link_is_nearer_than_other_events_are(
    encoder: EventEncoder, known: KnowledgeBase, tmp_path: Path
) -> None:
    """The threshold is the quantile of the scores of events with their nearest other event of a language."""
    nearest = []
    for language in ("en", "fr"):
        rows = [EventText.from_row(row) for row in known.events if row["language"] == language]
        vectors = encode_texts(encoder, "event", rows).vectors
        scores = vectors @ vectors.T
        np.fill_diagonal(scores, -np.inf)
        nearest += scores.max(axis=1).tolist()
    found = ground(encoder, TEXTS, known)
    expected = np.quantile(nearest, NEAR_QUANTILE)
    assert found.settings["threshold_source"] == "assumed"
    assert found.settings["threshold"] == pytest.approx(expected, abs=1e-5)
    assert found.note == (
        f"encoder has no learned threshold: a link needs a score of {expected:.2f}, which 75% of the events "
        "reach with another event"
    )
    assert not any(one.is_unchecked for one in found.mentions)
    only = load_knowledge_base(write_events(tmp_path / "one", EVENTS[:1]))
    single = ground(encoder, TEXTS[:1], only)
    assert (single.settings["threshold"], single.settings["threshold_source"]) == (None, "none")
    assert single.note.startswith("encoder has no learned threshold: the first candidate of each mention is")
    assert [one.is_unchecked for one in single.mentions] == [True]


def test_a_learned_threshold_is_for_the_scores_it_was_learned_of(
    encoder: EventEncoder, known: KnowledgeBase, tiny_encoder: Path, tmp_path: Path
) -> None:
    """Not for a sum with the retriever's scores, and of shares not for another number of candidates; shares
    need a score of the retriever as well."""
    folder = save_tiny_cross_encoder(
        tiny_encoder, tmp_path / "cross", linking_objective="softmax", null_threshold=0.1
    )
    cross_encoder = load_cross_encoder(folder, device="cpu")
    more = [(word, "en", word, "") for word in ("mayor", "river", "road", "worker")]
    texts = [text for text in TEXTS if text["language"] == "en"]
    many = load_knowledge_base(write_events(tmp_path / "many", [*EVENTS[:5], *more]))
    learned = ground(encoder, texts, many, reranker=cross_encoder)
    assert (learned.settings["threshold"], learned.settings["threshold_source"]) == (0.1, "learned")
    assert learned.note == ""
    floor = learned.settings["retriever_threshold"]
    assert floor == ground(encoder, texts, many).settings["threshold"]
    shares = [(event, event.probability or 0.0) for one in learned.mentions for event in one.candidates]
    assert all(event.linked == (share >= 0.1 and event.score >= floor) for event, share in shares)
    assert any(share >= 0.1 and event.score < floor for event, share in shares)
    assert any(event.linked for event, _ in shares)
    also = f"links need a probability of 0.5 and a score of {floor:.2f} by encoder; --threshold sets another"
    for settings, reason in (
        ({"retriever_weight": 2.0}, "the threshold of cross is for a retriever_weight of 0"),
        ({"candidates": 3}, "the threshold of cross is for shares among 8 candidates"),
    ):
        found = ground(encoder, texts, many, reranker=cross_encoder, **settings)  # type: ignore[arg-type]
        assert (found.settings["threshold"], found.settings["threshold_source"]) == (0.5, "assumed")
        assert found.note == f"{reason}: {also}"
    # Of eight candidates that are searched for, the small knowledge base has five or three.
    small = ground(encoder, TEXTS, known, reranker=cross_encoder)
    assert (small.settings["threshold"], small.settings["threshold_source"]) == (0.5, "assumed")
    assert small.note.startswith("the threshold of cross is for shares among 8 candidates: links need")
    given = ground(encoder, TEXTS, known, reranker=cross_encoder, threshold=0.3)
    assert given.settings["retriever_threshold"] is None
    cross_encoder.encoder.model.config.linking_objective = "binary"
    binary = ground(encoder, TEXTS, known, reranker=cross_encoder, candidates=3)
    assert (binary.settings["threshold"], binary.settings["retriever_threshold"]) == (0.1, None)
    cross_encoder.encoder.model.config.retriever_weight = 2.0
    summed = ground(encoder, TEXTS, known, reranker=cross_encoder)
    assert (summed.settings["threshold"], summed.settings["retriever_weight"]) == (0.1, 2.0)
    given = ground(encoder, TEXTS, known, reranker=cross_encoder, retriever_weight=2.0, threshold=0.1)
    assert summed.mentions == given.mentions
    alone = ground(encoder, TEXTS, known, reranker=cross_encoder, retriever_weight=0.0)
    assert (alone.settings["threshold"], alone.settings["retriever_weight"]) == (0.5, 0.0)
    assert alone.note.startswith("the threshold of cross is for a retriever_weight of 2: links need")
    assert ground(encoder, TEXTS, known).settings["retriever_weight"] == 0.0
    cross_encoder.encoder.model.config.null_threshold = None
    assert ground(encoder, TEXTS, known, reranker=cross_encoder).note == (
        "cross has no learned threshold: links need a probability of 0.5; --threshold sets another"
    )


@pytest.mark.parametrize("candidate_language", [None, "fr"])
def test_a_reranker_orders_and_links(
    encoder: EventEncoder, known: KnowledgeBase, cross_folder: Path, candidate_language: str | None
) -> None:
    cross_encoder = load_cross_encoder(cross_folder, device="cpu")
    plain = ground(encoder, TEXTS, known, candidate_language=candidate_language)
    found = ground(
        encoder, TEXTS, known, reranker=cross_folder, threshold=0.1, candidate_language=candidate_language
    )
    orders = set()
    for before, one in zip(plain.mentions, found.mentions, strict=True):
        assert {(event.event_id, event.score) for event in before.candidates} == {
            (event.event_id, event.score) for event in one.candidates
        }
        language = candidate_language or one.mention.language
        for event in one.candidates:
            score = PairScores(cross_encoder, [one.mention.text], [known.text(event.event_id, language)])
            [own] = score(np.array([0]), np.array([0])).tolist()
            assert event.probability == pytest.approx(expit(own), abs=1e-5)
            assert event.linked == (event.probability >= 0.1)
        probabilities = [event.probability or 0.0 for event in one.candidates]
        assert probabilities == sorted(probabilities, reverse=True)
        orders.add(
            [event.event_id for event in before.candidates] == [event.event_id for event in one.candidates]
        )
    assert False in orders
    assert found.settings["threshold"] == 0.1
    assert found.settings["reranker"] == "cross-encoder"
    summed = ground(
        encoder,
        TEXTS,
        known,
        reranker=cross_encoder,
        retriever_weight=2.0,
        candidate_language=candidate_language,
    )
    assert summed.settings["retriever_weight"] == 2.0
    for one, beside in zip(found.mentions, summed.mentions, strict=True):
        logits = {event.event_id: logit(event.probability) for event in one.candidates}
        for event in beside.candidates:
            expected = expit(logits[event.event_id] + 2 * event.score)
            assert event.probability == pytest.approx(expected, abs=1e-5)
    usual = ground(encoder, TEXTS, known, reranker=cross_encoder, candidate_language=candidate_language)
    assert usual.settings["threshold"] == 0.5
    assert all(
        event.linked == ((event.probability or 0.0) >= 0.5)
        for one in usual.mentions
        for event in one.candidates
    )


def test_a_reranker_that_learned_by_a_softmax_shares_one_probability(
    encoder: EventEncoder, known: KnowledgeBase, tiny_encoder: Path, tmp_path: Path
) -> None:
    folder = save_tiny_cross_encoder(tiny_encoder, tmp_path / "cross", linking_objective="softmax")
    found = ground(encoder, TEXTS, known, reranker=folder)
    shares = [[event.probability or 0.0 for event in one.candidates] for one in found.mentions]
    assert all(sum(of_one) == pytest.approx(1, abs=1e-4) for of_one in shares if of_one)
    assert max(map(len, shares)) > 1


def test_what_is_cut_is_counted(encoder: EventEncoder, known: KnowledgeBase, cross_folder: Path) -> None:
    long = {"context_left": "the storm " * 40, "mention": "fire", "context_right": "", "language": "en"}
    with pytest.warns(UserWarning, match="1 of 1 texts have more than"):
        found = ground(encoder, [long], known, reranker=cross_folder)
    assert found.counts["mention_contexts_cut"] == 1
    assert found.counts["mention_contexts_cut_by_the_reranker"] == 1
    assert "mentions_cut" not in found.counts


def test_links_are_those_of_the_mentions(encoder: EventEncoder, known: KnowledgeBase) -> None:
    found = ground(encoder, TEXTS, known, threshold=-1.0, candidates=2)
    assert [
        (
            [event.event_id for event in one.linked],
            {above.event_id: list(above.of) for above in one.ancestors},
        )
        for one in found.mentions
    ] == list(found.mentions.links())
    assert any(above for _, above in found.mentions.links())
    by_event = found.mentions_by_event()
    assert sum(is_linked for places in by_event.values() for _, is_linked in places) == sum(
        len(one.linked) for one in found.mentions
    )
    assert found.mentions.languages() == Counter(one.mention.language for one in found.mentions)


def test_all_candidates_in_one_language(encoder: EventEncoder, known: KnowledgeBase) -> None:
    found = ground(encoder, TEXTS, known, candidate_language="fr")
    assert found.without_pool == {}
    for one in found.mentions:
        assert {event.event_id for event in one.candidates} == {"storm", "year", "decade"}
    assert found.title_language == "fr"
    with pytest.raises(EventformersError, match="no event is described in it; accepted: mentions in en, fr"):
        ground(encoder, TEXTS, known, candidate_language="it")


def test_the_language_is_asked_for_where_it_is_needed(encoder: EventEncoder, known: KnowledgeBase) -> None:
    with pytest.raises(EventformersError, match="1 mention without a language, the first '0'"):
        ground(encoder, ["the [[storm]]"], known)
    given = ground(encoder, ["the [[storm]]"], known, language="fr")
    assert given.mentions[0].mention.language == "fr"
    assert not given.counts.get("mentions_without_language")
    assert ground(encoder, ["the [[storm]]"], known, candidate_language="en").mentions[0].has_pool
    with pytest.raises(EventformersError, match="no event is described in fi"):
        ground(encoder, TEXTS[3:4], known)


def test_one_language_needs_no_naming(encoder: EventEncoder, tmp_path: Path) -> None:
    folder = write_events(tmp_path / "kb", [row for row in EVENTS if row[1] == "en"])
    found = ground(encoder, ["the [[storm]]"], folder)
    assert found.mentions[0].mention.language == "en"


def test_only_the_languages_of_the_mentions_are_encoded(
    encoder: EventEncoder, known: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[EventText] = []

    def watched(encoder: EventEncoder, side: Side, texts: list[Any], **settings: Any) -> Any:
        if side == "event":
            encoded.extend(texts)
        return encode_texts(encoder, side, texts, **settings)

    monkeypatch.setattr(retrieve_rerank, "encode_texts", watched)
    ground(encoder, TEXTS[2:3], known)
    assert [event.title for event in encoded] == ["police", "court", "judge"]


def test_an_index_on_disk_gives_the_same(
    encoder: EventEncoder, known: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ground(encoder, TEXTS, known).mentions
    first = ground(encoder, TEXTS, known, index=tmp_path / "index").mentions

    def only_mentions(encoder: EventEncoder, side: Side, texts: list[Any], **settings: Any) -> Any:
        assert side == "mention"
        return encode_texts(encoder, side, texts, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(retrieve_rerank, "encode_texts", only_mentions)
        second = ground(encoder, TEXTS, known, index=tmp_path / "index").mentions
    for one, *others in zip(expected, first, second, strict=True):
        for other in others:
            assert other.ancestors == one.ancestors
            for left, right in zip(other.candidates, one.candidates, strict=True):
                assert left._replace(score=0.0) == right._replace(score=0.0)
                assert left.score == pytest.approx(right.score, abs=1e-5)
    fewer = load_knowledge_base(write_events(tmp_path / "kb", EVENTS[:3]))
    with pytest.raises(EventformersError, match="built from events with the fingerprint"):
        ground(encoder, TEXTS, fewer, index=tmp_path / "index")
    again = ground(encoder, TEXTS, fewer, index=tmp_path / "index", overwrite=True)
    assert {event.event_id for event in again.mentions[0].candidates} == {"storm", "flood", "strike"}


def test_blocks_of_mentions_give_the_same(
    encoder: EventEncoder, known: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Lists cannot be learned from eight events.
    monkeypatch.setattr(ApproximateSearch, "build", ExactSearch)
    monkeypatch.setattr("eventformers.inference.search.candidate_index.SMALLEST", 1)
    expected = ground(encoder, TEXTS, known, search="ivf")
    monkeypatch.setattr("eventformers.inference.grounding.ground._BLOCK_MENTIONS", 2)
    found = ground(encoder, TEXTS, known, search="ivf")
    assert found.counts == expected.counts
    assert found.recall == pytest.approx(expected.recall)
    assert found.parents == expected.parents
    assert len(found.mentions) == len(TEXTS)
    assert found.mentions[1:3] == tuple(found.mentions)[1:3]
    assert found.mentions[-1] == list(found.mentions)[-1]
    assert found.mentions != expected.mentions[1:]
    for one, other in zip(found.mentions, expected.mentions, strict=True):
        assert one.mention == other.mention
        assert one.ancestors == other.ancestors
        assert [event._replace(score=0) for event in one.candidates] == [
            event._replace(score=0) for event in other.candidates
        ]
        assert [event.score for event in one.candidates] == pytest.approx(
            [event.score for event in other.candidates], abs=1e-5
        )
    with pytest.raises(IndexError):
        found.mentions[len(TEXTS)]


def test_an_index_serves_the_pools_that_it_was_built_with(encoder: EventEncoder, tmp_path: Path) -> None:
    only_english = load_knowledge_base(write_events(tmp_path / "kb", EVENTS[:5]))
    finnish = [{"mention": "storm", "language": "fi"}]
    by_language, one_pool = tmp_path / "by-language", tmp_path / "one-pool"
    ground(encoder, TEXTS, only_english, index=by_language)
    with pytest.raises(EventformersError, match="built with a pool for each language"):
        ground(encoder, finnish, only_english, index=by_language, candidate_language="en")
    found = ground(encoder, finnish, only_english, index=one_pool, candidate_language="en")
    assert found.mentions[0].candidates
    with pytest.raises(EventformersError, match="built with one pool for all languages"):
        ground(encoder, TEXTS, only_english, index=one_pool)


def test_an_approximate_search_tells_its_recall(
    encoder: EventEncoder, known: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Lists cannot be learned from eight events.
    monkeypatch.setattr(ApproximateSearch, "build", ExactSearch)
    monkeypatch.setattr("eventformers.inference.search.candidate_index.SMALLEST", 1)
    found = ground(encoder, TEXTS, known, search="ivf")
    assert set(found.recall) == {"en", "fr"}
    assert found.settings["search"] == "ivf"


def test_relations_are_found_and_compared(encoder: EventEncoder, known: KnowledgeBase) -> None:
    found = ground(encoder, [TEXTS[0], TEXTS[1], TEXTS[4], TEXTS[2]], known)
    first = [[event.event_id for event in one.candidates[:4]] for one in found.mentions]
    expected = {}
    events = {event_id for row in first for event_id in row}
    for child in events:
        for parent in events - {child}:
            of_child = [row for row in first if child in row]
            shared = sum(parent in row for row in of_child)
            if shared >= 2 and shared / len(of_child) >= 0.5:
                expected[child, parent] = (shared / len(of_child), shared)
    assert {(one.child_id, one.parent_id): (one.score, one.shared) for one in found.parents} == expected
    assert [one.score for one in found.parents] == sorted((one.score for one in found.parents), reverse=True)
    names = {(one.child_id, one.parent_id): one.known for one in found.parents}
    for (child, parent), name in names.items():
        if parent in known.graph.parents.get(child, ()):
            assert name == "parent"
        elif parent in known.ancestors(child):
            assert name == "ancestor"
        else:
            assert name == ("below" if child in known.ancestors(parent) else "new")
    assert len(set(names.values())) >= 3


def test_results_are_json(encoder: EventEncoder, known: KnowledgeBase) -> None:
    found = ground(encoder, TEXTS, known, candidates=2)
    row = json.loads(json.dumps(found.mentions[0].to_dict()))
    assert (row["start_char"], row["end_char"], row["mention"]) == (4, 9, "storm")
    assert len(row["candidates"]) == 2
    assert row["linked"] == [{name: row["candidates"][0][name] for name in ("event_id", "title")}]
    assert row["null"] is False
    assert json.dumps(found.settings)


def test_the_package_has_it(tiny_encoder: Path, known: KnowledgeBase) -> None:
    found = eventformers.ground(tiny_encoder, ["the [[storm]] hit"], known, language="en", device="cpu")
    assert found.settings["model"] == "encoder"
    assert len(found.settings["model_revision"]) == 64


def test_wrong_settings_are_told(
    encoder: EventEncoder, known: KnowledgeBase, cross_folder: Path, tiny_encoder: Path
) -> None:
    with pytest.raises(UnknownNameError, match=r"kind of search 'exat'.*exact"):
        ground(encoder, TEXTS, known, search="exat")  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="candidates is 0; accepted: 1 or more"):
        ground(encoder, TEXTS, known, candidates=0)
    for threshold in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(EventformersError, match=rf"the threshold is {threshold}; accepted: a score"):
            ground(encoder, TEXTS, known, threshold=threshold)
    with pytest.raises(EventformersError, match=r"retriever_weight: found 2\.0 without a reranker"):
        ground(encoder, TEXTS, known, retriever_weight=2.0)
    with pytest.raises(EventformersError, match=r"retriever_weight: found -2\.0; accepted: a number from 0"):
        ground(encoder, TEXTS, known, reranker=cross_folder, retriever_weight=-2.0)
    for setting in ("language", "candidate_language"):
        with pytest.raises(EventformersError, match=rf"^{setting} is empty; accepted: the code"):
            ground(encoder, TEXTS, known, **{setting: " "})
    for threshold in (0.0, 1.0, float("nan")):
        with pytest.raises(EventformersError, match="accepted: a probability between 0 and 1"):
            ground(encoder, TEXTS, known, reranker=cross_folder, threshold=threshold)
    with pytest.raises(EventformersError, match="cross-encoder is a cross-encoder, which scores pairs"):
        ground(cross_folder, TEXTS, known, device="cpu")
    with pytest.raises(EventformersError, match="the type bert, which does not score pairs"):
        ground(encoder, TEXTS, known, reranker=tiny_encoder)


def test_more_candidates_than_events_are_all(encoder: EventEncoder, known: KnowledgeBase) -> None:
    # Room for as many as are asked for would be more than any machine has.
    found = ground(encoder, TEXTS, known, candidates=10**20)
    assert [len(one.candidates) for one in found.mentions] == [5, 5, 3, 0, 5]


def test_vectors_that_are_not_finite_are_told(
    tiny_encoder: Path, known: KnowledgeBase, tmp_path: Path
) -> None:
    broken = load_encoder(save_tiny_bi_encoder(tiny_encoder, tmp_path / "broken"), device="cpu")
    for parameter in broken.model.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(EventformersError, match="the model 'broken' computes numbers that are not finite"):
        ground(broken, TEXTS, known)


def test_the_packaged_model_grounds_by_default(known: KnowledgeBase) -> None:
    found = ground(None, ["Rivers rose: the [[flood]] closed a road."], known, language="en", device="cpu")
    assert found.settings["model"] == "event_grounding"
    assert found.settings["threshold_source"] == "learned"


SCRIPTS = [
    ("flood", "en", "Flood of 2002", "The Elbe floods Dresden."),
    ("flood", "de", "Elbhochwasser 2002", "Die Elbe überschwemmt Dresden."),
    ("flood", "hi", "२००२ की बाढ़", "एल्बे नदी में बाढ़"),
    ("flood", "zh", "2002年洪水", "易北河泛滥"),
    ("vote", "en", "Election", "A vote."),
    ("vote", "ar", "انتخابات", "تصويت"),
    ("decade", "de", "2000er", ""),
]
MENTIONS = [
    {"context_left": "Das ", "mention": "Hochwasser", "context_right": " kam.", "language": "de"},
    {"context_left": "भारी ", "mention": "बाढ़", "context_right": " आई", "language": "hi"},
    {"context_left": "2002年", "mention": "洪水", "context_right": "泛滥", "language": "zh"},
    {"context_left": "", "mention": "انتخابات", "context_right": " في المدينة", "language": "ar"},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("multilingual")
    texts = [" ".join(event[2:]) for event in SCRIPTS] + ["".join(map(str, row.values())) for row in MENTIONS]
    encoder = save_tiny_xlm_roberta(folder / "encoder", texts)
    settings = ["training.max_steps=2", "model.mention_tokens=24", "model.event_tokens=16"]
    eventformers.train(
        "event_grounding",
        folder / "run",
        recipe="demo",
        encoder=str(encoder),
        settings=settings,
        tasks=[],
        create_model_card=False,
        device="cpu",
    )
    return folder / "run"


def test_every_script_reaches_the_model(run: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(run)
    assert '"xlm-roberta"' in (run / "config.json").read_text()
    for row in MENTIONS:
        assert tokenizer.unk_token_id not in tokenizer(row["mention"])["input_ids"]
    vectors = eventformers.encode(str(run), [row["mention"] for row in MENTIONS])
    assert len({tuple(vector) for vector in vectors.round(4).tolist()}) == len(MENTIONS)


@pytest.mark.parametrize("candidate_language", [None, "en"])
def test_mentions_find_events_of_their_language_or_of_another(
    run: Path, tmp_path: Path, candidate_language: str | None
) -> None:
    edges = write_edges(write_events(tmp_path / "events", SCRIPTS), [("flood", "decade"), ("vote", "decade")])
    grounded = eventformers.ground(str(run), MENTIONS, edges, candidate_language=candidate_language)
    for mention, row in zip(grounded.mentions, MENTIONS, strict=True):
        language = candidate_language or row["language"]
        expected = {event[0] for event in SCRIPTS if event[1] == language}
        assert {candidate.event_id for candidate in mention.candidates} == expected
