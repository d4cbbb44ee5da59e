"""Completion of queries with a commonsense graph, and zero-shot multiple choice."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset
from numpy.typing import NDArray

from eventformers.datasets_scripts.commonsense_graphs import GRAPHS, graph_of
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.datasets_scripts.reading.fields import is_blank
from eventformers.datasets_scripts.relation_templates import Direction, RelationTemplates, relation_templates
from eventformers.errors import EventformersError, UnknownNameError, counted, shown
from eventformers.inference.commonsense.alternative_index import (
    VOTES,
    AlternativeIndex,
    AlternativeRecord,
    Votes,
    expanded,
    neighbour_votes,
    open_graph,
    trained_templates,
    voted_ranking,
)
from eventformers.inference.encode import EventEncoder, as_encoder
from eventformers.inference.encoding.event_reader import ACCEPTED_CONTAINERS, all_columns, values_in
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.grounding.encoding import CrossEncoder, PairScores, load_cross_encoder
from eventformers.inference.search.candidate_index import SearchKind, check_search
from eventformers.inference.search.index_folder import holds_index, read_record
from eventformers.models.processing_event_grounding import EventText, MentionText

REVERSE = "~"
"""Prefix of a relation that reverses it: the query is the tail, and the search finds heads."""

_RELATION_LIKE = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True)
class Query:
    """A parsed query.

    Attributes:
        text: the premise to encode.
        head: the entity or event of the query; None for free text.
        relation: the relation; None for free text.
        direction: `forward` finds tails, `reverse` finds heads; None for free text.
    """

    text: str
    head: str | None = None
    relation: str | None = None
    direction: Direction | None = None


def read_query(query: str | tuple[str, str], templates: RelationTemplates) -> Query:
    """Parse a query: a head with a relation, or free text.

    In `"head, relation"` the relation is the single word after the last comma. If that word is not a relation
    and does not look like one (an inner capital, or a `~` before it), the query is free text.

    Raises:
        UnknownNameError: the relation is unknown.
        EventformersError: the query or its head contains no word.
    """
    check_query(query)
    by_lower = {known.lower(): known for known in templates.relations}
    if not isinstance(query, str):
        text, relation = query
    else:
        text, comma, last = query.rpartition(",")
        name = last.strip()
        is_relation = name.startswith(REVERSE) or (
            _RELATION_LIKE.fullmatch(name) is not None
            and (name.lower() in by_lower or name[1:] != name[1:].lower())
        )
        if not comma or not is_relation:
            return Query(templates.text(" ".join(query.split())))
        relation = name
    head = " ".join(text.split())
    if not head:
        raise EventformersError(f"the query {shown(query)} has no head; accepted: 'head, relation'")
    direction: Direction = "reverse" if relation.strip().startswith(REVERSE) else "forward"
    name = relation.strip().removeprefix(REVERSE).strip()
    name = by_lower.get(name.lower(), name)
    return Query(templates.premise(name, head, direction), head, name, direction)


def check_query(query: str | tuple[str, str]) -> None:
    """Raise an `EventformersError` if a query is not a text, or a pair of texts, with a word."""
    is_pair = isinstance(query, (tuple, list)) and len(query) == 2
    parts: Sequence[object] = query if is_pair else [query]
    if any(not isinstance(part, str) or is_blank(part) for part in parts):
        raise EventformersError(
            f"received the query {shown(query)}; accepted: a text with at least one word, 'head, relation' "
            "or the pair of both"
        )


def own_texts(query: Query, templates: RelationTemplates) -> set[str]:
    """Return the texts of the query's head as an alternative, which is near the query but never an answer."""
    if query.head is None:
        return set()
    return {templates.text(query.head), templates.alternative(query.head, "reverse")}


DEFAULT_GRAPH = "conceptnet"

VOTING_GRAPHS = ("conceptnet",)
"""Graphs whose completion improves with votes; that of ATOMIC, whose events are mostly new, does not."""

SHOWN_ALTERNATIVES = 5
"""Maximum number of known alternatives per premise in an explanation."""

RERANKED = 50
"""Number of best alternatives that a reranker rescores, or as many as are returned."""

RERANKER_WEIGHT = 0.1
"""Weight of a reranker's logits beside the scores without it, each standardised among the alternatives: with
more, a cross-encoder of another task lowers the mean reciprocal rank."""


@dataclass(frozen=True)
class Alternative:
    """An alternative of the graph that answers a query.

    Attributes:
        score: the ranking score: the cosine, or with votes the cosine with the expanded query plus the votes;
            with a reranker, this standardised among the rescored alternatives, plus `RERANKER_WEIGHT` times
            its standardised logit.
        cosine: cosine of its vector with the query's.
        known: True if the graph contains it for exactly this premise.
    """

    text: str
    score: float
    cosine: float
    known: bool


@dataclass(frozen=True)
class NearestPremise:
    """A premise of the graph near the query, which explains the answers.

    Attributes:
        cosine: cosine of its vector with the query's.
        alternatives: its known alternatives nearest to the query, best first.
        number: number of its known alternatives.
    """

    text: str
    cosine: float
    alternatives: tuple[str, ...]
    number: int


@dataclass(frozen=True)
class Completion:
    """Result of `complete`.

    Attributes:
        alternatives: the nearest alternatives, best first.
        explanation: the nearest known premises, best first.
        reranked: True if neighbours voted.
        reranker: name of the cross-encoder that rescored the alternatives; "" without one.
        recall: share of the nearest alternatives that the approximate search found when it was built; None if
            the search is exact.
    """

    query: Query
    alternatives: tuple[Alternative, ...]
    explanation: tuple[NearestPremise, ...]
    model: str
    graph: str
    index: str
    reranked: bool
    recall: float | None = None
    reranker: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the completion as JSON-serialisable values."""
        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """The choice among a question's alternatives, which are in the order received.

    Attributes:
        scores: the cosine of each with the premise.
        index: position of the chosen one; the first wins ties.
    """

    premise: str
    alternatives: tuple[str, ...]
    scores: tuple[float, ...]
    index: int

    @property
    def text(self) -> str:
        """The chosen alternative."""
        return self.alternatives[self.index]


@takes_malformed
def complete(
    model: str | Path | EventEncoder | None,
    query: str | tuple[str, str],
    *,
    data: str | Path | Mapping[str, Dataset] | None = None,
    config: str | None = None,
    index: str | Path | AlternativeIndex | None = None,
    templates: str | Path | None = None,
    splits: Collection[str] | None = None,
    top: int = 10,
    explain: int = 5,
    rerank: bool | None = None,
    reranker: str | Path | CrossEncoder | None = None,
    batch_size: int | Literal["auto"] = "auto",
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    overwrite: bool = False,
    verify: bool = False,
    search: SearchKind = "auto",
    show_progress: bool = False,
    malformed: str | None = None,
) -> Completion:
    """Find the alternatives of a graph that complete a query, and the known premises that support them.

    The first call encodes the graph into an index; later calls map that index from disk. For arguments that
    are not listed see `encode` and `induce`.

    Args:
        query: `"head, relation"`, or the pair `("head", "relation")`; `~` before the relation reverses it
            (`"have fun, ~UsedFor"`: what is used for it). Any other text is used as a premise or a question.
        data: the graph: raw files, a built dataset or a Hub id of `CommonsenseGraphs`, or splits in memory
            with the columns `premise` and `alternative`. None uses the graph of the index, or without an
            index the bundled samples, which are small.
        config: `conceptnet`, `conceptnet_inductive`, `atomic` or `atomic_inductive`; None uses that of the
            index, or else `conceptnet`.
        index: folder of the index, built if absent, or a loaded index; None uses one in the cache of
            `datasets` for this model and graph.
        templates: YAML file with templates of more relations, besides those that the model was trained with.
        splits: splits of the graph to search; None searches all.
        top: number of alternatives to return.
        explain: number of known premises to return.
        rerank: let the nearest known premises vote for their alternatives; False ranks by the cosine only;
            None uses what measured better: votes for ConceptNet, the cosine for ATOMIC.
        reranker: folder or Hub id of a cross-encoder, as for `ground`, or a loaded one, that rescores the
            best 50 alternatives, each as a pair with the text of the query; its logits are added to
            the scores, see `Alternative`. None keeps their order.
        overwrite: rebuild an existing index; texts that it has by the same model are not encoded again.
        verify: check the digests of all files of the index first, also of files above 1 GiB.
        search: `exact`; `ivf`, approximate, in little memory; `auto` for `ivf` beyond two million texts. It
            applies when an index is opened.

    Returns:
        `alternatives`, best first, each with `text`, `score`, `cosine` and `known`; `explanation`, the
        nearest known premises; and the `query` as it was read.

    Raises:
        UnknownNameError: the graph has no such relation, or an unknown config or kind of search.
        DataFormatError: a raw file of the graph or a file of templates cannot be read; names file and line.
        EventformersError: an empty query, a number below its minimum, a model, reranker or graph that cannot
            be loaded, or an index of another model or graph.
    """
    check_search(search)
    if top < 1 or explain < 0:
        raise EventformersError(f"top is {top} and explain is {explain}; accepted: at least 1 and at least 0")
    check_query(query)
    of_index = None
    if isinstance(index, AlternativeIndex):
        of_index = index.record.graph
    elif index is not None and not overwrite and holds_index(Path(index)):
        of_index = read_record(index, AlternativeRecord).graph
    if None not in (config, of_index) and config != of_index:
        raise EventformersError(
            f"the index is of the graph {of_index}, received config {config}; accepted: the graph of the "
            "index; or use another index"
        )
    config = config or of_index or DEFAULT_GRAPH
    if config not in GRAPHS:
        raise UnknownNameError("commonsense graph", config, GRAPHS)
    # A file of templates that cannot be read is an error before a model loads.
    relation_templates(graph_of(config), templates)
    encoder = as_encoder(model, device=device, dtype=dtype)
    words = relation_templates(graph_of(config), templates, trained_templates(encoder))
    understood = read_query(query, words)
    if isinstance(reranker, (str, Path)):
        reranker = load_cross_encoder(reranker, device=device, dtype=dtype)
    opened = open_graph(
        encoder,
        data,
        config,
        index,
        templates,
        splits,
        batch_size=batch_size,
        overwrite=overwrite,
        verify=verify,
        show_progress=show_progress,
        search=search,
    )
    vector = encoder.encode(understood.text, normalize=True, prompt_name="query")
    votes = VOTES if (default_rerank(config) if rerank is None else rerank) else None
    number = top if reranker is None else max(top, RERANKED)
    alternatives = _nearest_alternatives(
        opened, understood, vector, number, votes, own_texts(understood, words)
    )
    if reranker is not None and alternatives:
        texts = [EventText(one.text) for one in alternatives]
        scorer = PairScores(reranker, [MentionText("", understood.text, "")], texts, batch_size=batch_size)
        logits = scorer(np.zeros(len(texts), np.int64), np.arange(len(texts)))
        scores = _standardised(np.array([one.score for one in alternatives]))
        scores += RERANKER_WEIGHT * _standardised(logits)
        best = np.argsort(-scores, kind="stable")[:top].tolist()
        alternatives = tuple(replace(alternatives[place], score=float(scores[place])) for place in best)
    return Completion(
        query=understood,
        alternatives=alternatives,
        explanation=_nearest_premises(opened, vector, explain),
        model=encoder.name,
        graph=config,
        index=str(opened.folder),
        reranked=votes is not None,
        recall=None if opened.alternatives.approximate is None else opened.alternatives.approximate.recall,
        reranker="" if reranker is None else reranker.encoder.name,
    )


def _standardised(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Scale values to mean 0 and deviation 1; equal ones become 0."""
    centred = values - values.mean(dtype=np.float64)
    return centred / (centred.std() or 1.0)


def answer(model: str | Path | EventEncoder | None, premise: str, alternatives: Sequence[str]) -> Answer:
    """Choose among a question's two or more alternatives by cosine, without training on questions; a model as
    for `complete`.

    Args:
        premise: the question, phrased so that an alternative completes it.

    Raises:
        EventformersError: there are fewer than two alternatives, a text is empty, or the model cannot be
            loaded.
    """
    accepted = f"alternatives: {ACCEPTED_CONTAINERS}"
    one = isinstance(alternatives, str)
    given = [alternatives] if one else list(values_in(alternatives, all_columns, accepted))
    if len(given) < 2:
        raise EventformersError(
            f"the question {shown(premise)} has {counted(len(given), 'alternative')}; "
            "accepted: a list of at least 2"
        )
    texts = [premise, *given]
    for text in texts:
        if not isinstance(text, str) or is_blank(text):
            raise EventformersError(
                f"the premise or an alternative is {shown(text)}; accepted: a text with a word for each"
            )
    encoder = as_encoder(model)
    vector = encoder.encode(texts[0], normalize=True, prompt_name="query")
    scores = encoder.encode(texts[1:], normalize=True, prompt_name="document") @ vector
    return Answer(premise, tuple(texts[1:]), tuple(map(float, scores)), int(scores.argmax()))


def default_rerank(config: str) -> bool:
    """True if neighbours vote by default on a graph's config, because that measured better."""
    return graph_of(config) in VOTING_GRAPHS


def _nearest_alternatives(
    index: AlternativeIndex,
    query: Query,
    vector: Vectors,
    top: int,
    votes: Votes | None,
    own: Collection[str],
) -> tuple[Alternative, ...]:
    """Return the alternatives with the highest scores, except those in `own` that are not known answers."""
    same = pc.index(index.premises.texts, query.text).as_py()
    known = set() if same < 0 else set(index.alternatives_of(same).tolist())
    out = {pc.index(index.alternatives.texts, text).as_py() for text in own} - known
    number = top + len(out)
    if votes is None:
        scores, positions = index.alternatives.nearest(vector, number)
    else:
        # The nearest to the expanded query, and all with a vote: votes only add to a score, so any other
        # alternative ranks below `number` others.
        cosines, near_premises = index.premises.nearest(vector, votes.neighbours)
        given = neighbour_votes(
            cosines[None],
            near_premises[None],
            index.offsets,
            index.known,
            len(index.alternatives.rows),
            votes.temperature,
        )
        voted = given.indices
        vectors = index.alternatives.vectors[voted]
        moved = expanded(vector[None], given[:, voted], vectors, votes.expansion)[0]
        near_cosines, near = index.alternatives.nearest(moved, number)
        others = np.setdiff1d(voted, near)
        positions = np.concatenate([near, others])
        moved_cosines = np.concatenate([near_cosines, index.alternatives.products(moved, others)])
        scores = moved_cosines + votes.weight * given.toarray()[0, positions]
    best = [place for place in np.argsort(-scores, kind="stable") if int(positions[place]) not in out][:top]
    cosines = index.alternatives.products(vector, positions[best])
    return tuple(
        Alternative(
            text=index.alternatives.text(positions[place]),
            score=float(scores[place]),
            cosine=float(cosine),
            known=int(positions[place]) in known,
        )
        for place, cosine in zip(best, cosines, strict=True)
    )


def _nearest_premises(index: AlternativeIndex, vector: Vectors, number: int) -> tuple[NearestPremise, ...]:
    if not number:
        return ()
    found = []
    for cosine, premise in zip(*index.premises.nearest(vector, number), strict=True):
        positions = index.alternatives_of(int(premise))
        nearest = np.argsort(-index.alternatives.products(vector, positions), kind="stable")[
            :SHOWN_ALTERNATIVES
        ]
        found.append(
            NearestPremise(
                text=index.premises.text(premise),
                cosine=float(cosine),
                alternatives=tuple(index.alternatives.text(position) for position in positions[nearest]),
                number=len(positions),
            )
        )
    return tuple(found)


BLOCK_SCORES = 2**24
"""Number of scores at a time, which bounds the memory."""


class ManyCompletions(NamedTuple):
    """The best alternatives of a head and a relation with their scores, best first."""

    head: str
    relation: str
    alternatives: list[tuple[str, float]]


def complete_many(
    encoder: EventEncoder,
    heads: Sequence[str],
    relations: Sequence[str],
    index: AlternativeIndex,
    templates: RelationTemplates,
    *,
    top: int = 3,
    votes: bool = False,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
) -> Iterator[ManyCompletions]:
    """Find the `top` alternatives of a graph for each head and relation, with the scores of `complete`; yield
    one result for each, all relations of a head in turn.

    All premises are encoded in one call, and scored in blocks.

    Args:
        heads: the heads, such as texts of events.
        votes: let the nearest known premises vote; False ranks by the cosine only.

    Raises:
        UnknownNameError: the graph has no such relation.
        EventformersError: a head contains no word, or memory ran out.
    """
    queries = [
        Query(templates.premise(relation, head, "forward"), head, relation, "forward")
        for head in heads
        for relation in relations
    ]
    premises = encoder.encode(
        [query.text for query in queries],
        batch_size=batch_size,
        normalize=True,
        prompt_name="query",
        show_progress=show_progress,
    )
    alternatives = index.alternatives.vectors
    texts = index.alternatives.texts.to_pylist()
    place_of = {text: place for place, text in enumerate(texts)}
    premise_of = {text: place for place, text in enumerate(index.premises.texts.to_pylist())}
    add_votes = None
    if votes:
        known = index.premises.vectors
        premises, add_votes = voted_ranking(premises, known, index.offsets, index.known, alternatives, VOTES)
    rows_at_once = max(1, BLOCK_SCORES // len(alternatives))
    for start in range(0, len(queries), rows_at_once):
        rows = np.arange(start, min(start + rows_at_once, len(queries)))
        scores = torch.from_numpy(premises[rows] @ alternatives.T)
        if add_votes is not None:
            scores = add_votes(torch.from_numpy(rows), scores)
        for row, of_query in zip(rows.tolist(), scores, strict=True):
            query = queries[row]
            answers = premise_of.get(query.text)
            right = set() if answers is None else set(index.alternatives_of(answers).tolist())
            # The head is near its own premise, but answers it only if the graph says so.
            for text in own_texts(query, templates):
                if (place := place_of.get(text)) is not None and place not in right:
                    of_query[place] = -torch.inf
            best = of_query.topk(min(top, len(texts)))
            found = [
                (texts[place], score)
                for place, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
                if score > -np.inf
            ]
            yield ManyCompletions(query.head or "", query.relation or "", found)
