"""Grounding of texts: links from mentions to events of a knowledge base and to their ancestors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import torch
from datasets import Dataset
from rich.console import Console
from rich.progress import track

from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.datasets_scripts.reading.lines import DataDir
from eventformers.errors import EventformersError, counted, shown
from eventformers.inference.encode import EventEncoder, as_encoder
from eventformers.inference.encoding.event_tables import pipeline_language
from eventformers.inference.encoding.mention_files import TextMention, Texts, load_text_mentions
from eventformers.inference.grounding.encoding import BatchSize, CrossEncoder, load_cross_encoder
from eventformers.inference.grounding.grounded_text import FoundParent, GroundedMentions, Grounding, Relation
from eventformers.inference.grounding.hierarchy_discovery import DEPTH, discover_hierarchy
from eventformers.inference.grounding.knowledge_base import (
    FALLBACK_LANGUAGE,
    CandidateRecord,
    KnowledgeBase,
    load_knowledge_base,
    stored_candidates,
)
from eventformers.inference.grounding.linking import find_threshold
from eventformers.inference.grounding.retrieve_rerank import (
    CANDIDATES,
    Ranked,
    check_retriever_weight,
    grounding_model,
    retrieve_and_rerank,
)
from eventformers.inference.search.candidate_index import CandidateIndex, Candidates, SearchKind, check_search
from eventformers.inference.search.index_folder import IndexedModel, verify_index
from eventformers.models.processing_event_grounding import EventText

LOWEST_PARENT = 0.5
"""Minimum share of an event's mentions that another event must have to be reported as its parent."""

SHARED_MENTIONS = 2
"""Minimum number of shared mentions of a reported pair: a single mention would relate all its candidates."""

_BLOCK_MENTIONS = 65_536
"""Number of mentions whose vectors are in memory at a time: 100 MB for vectors of 384 entries."""


@takes_malformed
def ground(
    model: str | Path | EventEncoder | None,
    texts: Texts,
    knowledge_base: DataDir | KnowledgeBase,
    *,
    reranker: str | Path | CrossEncoder | None = None,
    retriever_weight: float | None = None,
    threshold: float | None = None,
    candidates: int = CANDIDATES,
    search: SearchKind = "auto",
    language: str | None = None,
    candidate_language: str | None = None,
    index: str | Path | None = None,
    batch_size: BatchSize = "auto",
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    overwrite: bool = False,
    verify: bool = False,
    show_progress: bool = False,
    malformed: str | None = None,
) -> Grounding:
    """Link the mentions of texts to events of a knowledge base and to the ancestors of these events.

    For arguments that are not listed see `encode` and `induce`.

    Args:
        model: folder or Hub id of a bi-encoder of event grounding or of any plain encoder, a loaded encoder,
            or None for the packaged `event_grounding`.
        texts: a file of mentions, or texts; see `load_text_mentions`.
        knowledge_base: the events and their hierarchy; see `load_knowledge_base`.
        reranker: folder or Hub id of a cross-encoder that rescores the candidates, or a loaded one: one of
            event grounding, or one of another library with one label; None keeps the order and links by the
            scores of `model`.
        retriever_weight: weight of the score of `model`, added to the score of the reranker; None takes that
            of the reranker's configuration.
        threshold: minimum score of linked candidates: a probability with a reranker, a score of the model
            without one. None uses the threshold learned with the reranker, or with the model, where only the
            first candidate can be linked. If none was learned, it is a probability of 0.5 or, without a
            reranker, `usual_score`; `note` reports this.
        candidates: number of events to retrieve for each mention.
        search: `exact`; `ivf`, approximate; `auto` is exact up to `EXACT_UP_TO` events of a pool and
            approximate beyond.
        language: language of mentions without one; None uses that of the pipeline for a folder of `extract`
            or `explore`, else the knowledge base's, if it has only one.
        candidate_language: language in which all candidates are described; None finds candidates for each
            mention in its own language.
        index: folder of the events' vectors, built if absent, so that a large knowledge base is encoded once;
            None encodes it on each call, in the languages of the mentions.
        overwrite: rebuild an index of another model or other events.
        verify: check the digests of all files of an index first, also of files above 1 GiB.

    Returns:
        `mentions` in input order, each with its candidates, links and ancestors; `parents`, the part-of
        relations that they suggest; `settings`, `counts`, and a `note` on the threshold.

    Raises:
        DataFormatError: a line of a file cannot be read, with file and line.
        EventformersError: there are no mentions or events, a mention has no language, no event has the
            languages of the mentions, a threshold or number is invalid, a model cannot be loaded or has the
            wrong kind, or an index does not match.
        UnknownNameError: an unknown kind of search.
    """
    weight = 0.0 if retriever_weight is None else retriever_weight
    _check(search, candidates, threshold, weight, with_reranker=reranker is not None)
    for setting, code in (("language", language), ("candidate_language", candidate_language)):
        if code is not None and not code.strip():
            raise EventformersError(f"{setting} is empty; accepted: the code of a language, such as en")
    if verify and index is not None and not overwrite:
        verify_index(index, CandidateRecord)
    mentions, counts = load_text_mentions(texts)
    known = load_knowledge_base(knowledge_base)
    language = pipeline_language(texts) if language is None else language
    mentions, without_language = _with_language(mentions, language, known, candidate_language)
    events = _pooled_events(mentions, known, candidate_language, whole=index is not None)
    encoder = as_encoder("grounding" if model is None else model, device=device, dtype=dtype)
    cross_encoder = (
        load_cross_encoder(reranker, device=device, dtype=dtype)
        if isinstance(reranker, (str, Path))
        else reranker
    )
    if retriever_weight is None and cross_encoder is not None:
        weight = cross_encoder.retriever_weight
    in_one_block = len(mentions) <= _BLOCK_MENTIONS
    grounding = grounding_model(
        encoder,
        cross_encoder,
        batch_size=batch_size,
        search=search,
        show_progress=show_progress and in_one_block,
        # The index on disk draws its own progress bar.
        event_progress=show_progress and index is None,
    )
    by_language = candidate_language is None
    if index is None:
        candidate_index = CandidateIndex(
            events["event_id"][:],
            grounding.read_events([EventText.from_row(row) for row in events.to_list()]),
            events["language"][:] if by_language else None,
            kind=search,
        )
    else:
        candidate_index = stored_candidates(
            index,
            events,
            lambda rows: grounding.read_events([EventText.from_row(row) for row in rows]),
            model=IndexedModel.of(encoder),
            dimension=encoder.dimension,
            by_language=by_language,
            kind=search,
            show_progress=show_progress,
            overwrite=overwrite,
        )
    event_ids = candidate_index.event_ids
    spoken = [mention.language for mention in mentions]
    described_in = known.texts.language_codes(pa.array([candidate_language or one for one in spoken]))
    numbers = known.texts.numbers(pa.array(event_ids))

    def ranked_block(block: slice) -> Ranked:
        described = described_in[block]
        return retrieve_and_rerank(
            grounding,
            candidate_index,
            [mention.text for mention in mentions[block]],
            spoken[block],
            candidates,
            events=known.texts,
            rows=lambda of_mentions, of_candidates: known.texts.rows(
                numbers[of_candidates], described[of_mentions]
            ),
            retriever_weight=weight,
        )

    blocks = [slice(start, start + _BLOCK_MENTIONS) for start in range(0, len(mentions), _BLOCK_MENTIONS)]
    shown = track(
        blocks, "grounding", console=Console(stderr=True), disable=not show_progress or in_one_block
    )
    ranked = Ranked.joined([ranked_block(block) for block in shown])
    found = (ranked.found.events >= 0).sum(axis=1)
    # A knowledge base, or a language of it, may have fewer events.
    fewest = found[found > 0].min(initial=ranked.found.events.shape[1])
    used = find_threshold(threshold, encoder, cross_encoder, weight, int(fewest), candidate_index)
    grounded = GroundedMentions(mentions, ranked, event_ids, used, known)
    told = {
        "mentions": len(grounded),
        **counts,
        "mentions_without_language": without_language,
        "mentions_linked_to_nothing": sum(not linked for linked in used.link(ranked, event_ids)),
        "mentions_without_events_in_their_language": sum(ranked.found.without_pool.values()),
        **dict(sorted((_cut_name(what), number) for what, number in grounding.cut().items())),
        **known.counts,
    }
    return Grounding(
        mentions=grounded,
        parents=_found_parents(ranked.ranked, event_ids, known, candidate_language or FALLBACK_LANGUAGE),
        knowledge_base=known,
        settings={
            "model": encoder.name,
            "model_revision": encoder.revision,
            "reranker": None if cross_encoder is None else cross_encoder.encoder.name,
            "reranker_revision": None if cross_encoder is None else cross_encoder.encoder.revision,
            "retriever_weight": weight,
            "threshold": used.value,
            "threshold_source": used.source,
            "retriever_threshold": used.floor,
            "candidates": candidates,
            "search": search,
            "candidate_language": candidate_language,
        },
        counts={name: count for name, count in told.items() if count},
        without_pool=ranked.found.without_pool,
        recall=ranked.found.recall,
        note=used.note,
    )


def _cut_name(what: str) -> str:
    """Return the name of a count of truncated texts, for a side and a part as in `GroundingModel.cut`."""
    side, part = what.split("_")
    by = ""
    if side == "pair":
        side, by = ("event" if part in EventText._fields else "mention"), "_by_the_reranker"
    return ("mentions_cut" if part == side else f"{side}_{part}s_cut") + by


def _check(
    search: str, candidates: int, threshold: float | None, retriever_weight: float, *, with_reranker: bool
) -> None:
    check_search(search)
    if candidates < 1:
        raise EventformersError(f"candidates is {candidates}; accepted: 1 or more")
    check_retriever_weight(retriever_weight, with_reranker=with_reranker)
    if with_reranker and threshold is not None and not 0 < threshold < 1:
        raise EventformersError(f"the threshold is {threshold}; accepted: a probability between 0 and 1")
    if threshold is not None and not math.isfinite(threshold):
        raise EventformersError(f"the threshold is {threshold}; accepted: a score")


def _with_language(
    mentions: Sequence[TextMention],
    language: str | None,
    known: KnowledgeBase,
    candidate_language: str | None,
) -> tuple[list[TextMention], int]:
    """Return the mentions with a language each, and how many use that of the knowledge base.

    Raises:
        EventformersError: a mention has no language, and its candidates depend on it.
    """
    without = [mention for mention in mentions if not mention.language and language is None]
    if language is None and len(known.languages) == 1:
        [language] = known.languages
    if without and language is None and candidate_language is None:
        raise EventformersError(
            f"{counted(len(without), 'mention')} without a language, the first "
            f"{shown(without[0].mention_id)}, and events "
            f"are described in {', '.join(known.languages)}; accepted: a language on each line, "
            "language= for all mentions, or candidate_language="
        )
    filled = [
        mention if mention.language else mention._replace(language=language or "") for mention in mentions
    ]
    return filled, len(without)


def _pooled_events(
    mentions: Sequence[TextMention], known: KnowledgeBase, candidate_language: str | None, *, whole: bool
) -> Dataset:
    """Return the rows of the candidate events; with an index folder, which other texts share, all events.

    Raises:
        EventformersError: there is none.
    """
    spoken = {mention.language for mention in mentions}
    wanted = spoken if candidate_language is None else {candidate_language}
    if not wanted & set(known.languages):
        raise EventformersError(
            f"no event is described in {', '.join(sorted(wanted))}; accepted: mentions in "
            f"{', '.join(known.languages)}, or one of these as candidate_language"
        )
    if whole and candidate_language is None:
        return known.events
    return known.in_languages(wanted)


def _found_parents(
    ranked: Candidates, event_ids: Sequence[str], known: KnowledgeBase, language: str
) -> tuple[FoundParent, ...]:
    """Return the pairs of events whose mentions suggest part-of, best first; in both directions if two events
    have the same mentions."""
    discovered = discover_hierarchy(event_ids, ranked.events[:, :DEPTH])
    pairs = discovered.parents(lowest=LOWEST_PARENT)
    found = []
    for child, parent, score, shared in zip(*(column.tolist() for column in pairs), strict=True):
        if shared < SHARED_MENTIONS:
            continue
        child_id, parent_id = event_ids[child], event_ids[parent]
        relation: Relation = "new"
        if parent_id in known.ancestors(child_id):
            relation = "parent" if parent_id in known.graph.parents[child_id] else "ancestor"
        elif child_id in known.ancestors(parent_id):
            relation = "below"
        found.append(
            FoundParent(
                child_id,
                known.title(child_id, language),
                parent_id,
                known.title(parent_id, language),
                score,
                shared,
                relation,
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.score, -one.shared)))
