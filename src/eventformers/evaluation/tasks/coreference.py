"""Tasks that group mentions of events, in one document or in many, by the event that they mention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

from eventformers.datasets_scripts.reading.fields import is_blank
from eventformers.errors import EventformersError
from eventformers.evaluate_metrics.coreference.coreference_impl import coreference
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import (
    Computing,
    Prepared,
    ProtocolOutput,
    Row,
    TaskKind,
    TaskRows,
    TaskSettings,
    read_text,
    threshold_rows,
)
from eventformers.extraction.extractor import installed_pipeline, load_pipeline
from eventformers.inference.coreference.same_events import (
    THRESHOLD,
    MentionPairs,
    packaged_scorer,
    same_events,
    text_overlaps,
    tuned_encoder,
)
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_inputs import digest_of
from eventformers.inference.encoding.vectors import Vectors, unit_vectors
from eventformers.inference.induction.mention_distances import Labels
from eventformers.inference.induction.mention_encoding import WITHOUT_TRIGGERS, TriggerInput, encode_mentions
from eventformers.strict import setting, strict_settings

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Token


DEVELOPMENT_SPLIT = "train"
"""The split that the threshold is chosen on."""

THRESHOLDS: tuple[float, ...] = tuple(np.arange(0.05, 1, 0.025).round(3).tolist())
"""The thresholds that are tried."""

TOPIC_OVERLAP = 0.1
"""Minimum mean TF-IDF cosine between the documents of a predicted topic."""

LARGEST_TOPIC = 30_000
"""Maximum number of mentions of a topic that are clustered by all their pairs."""

Topics = Literal["subtopic", "topic", "predicted", "none"]

Grouping: TypeAlias = Callable[[float], Labels]
"""Groups mentions at a threshold: returns the group of each."""


@strict_settings
@dataclass(frozen=True)
class CoreferenceSettings(TaskSettings):
    """The settings of coreference.

    Attributes:
        topics: the documents whose mentions may be the same event: those of one gold `subtopic` or gold
            `topic`, a topic `predicted` by the words of the documents, or all (`none`).
        pair_scorer: group mentions by the packaged scorer of pairs, which reads vectors of the packaged
            encoder, instead of by the cosines of the model.
        threshold: minimum mean similarity between two groups that become one; None chooses the best of
            `THRESHOLDS` on the training split, and takes the pair scorer's own.
        trigger_input: how triggers are read, as for `encode_mentions`; None takes the model's own, or `span`
            for a plain encoder.
    """

    topics: Topics = "subtopic"
    pair_scorer: bool = False
    threshold: float | None = setting(None, lambda share: 0 < share < 1, "a number between 0 and 1")
    trigger_input: TriggerInput | None = None


@dataclass(frozen=True)
class Grouper:
    """A scorer of coreference.

    Attributes:
        group: makes the groups of mentions from their rows and the topic of each, which no group leaves.
        threshold: its own threshold; None if it is to be chosen.
    """

    group: Callable[[Sequence[Row], Labels], Grouping]
    threshold: float | None = None


def resolve_coreference(scorer: Grouper, data: TaskRows, settings: CoreferenceSettings) -> ProtocolOutput:
    """Group mentions by the event that they mention.

    If the scored split is the training split, the threshold is chosen on the scored rows, and the details say
    so.

    Returns:
        Inputs `predictions` (groups) and `references` (events); per mention both with its id, document and
        subtopic, and `correct`, the harmonic mean of the shares of its group and of its event that the two
        have in common (B-cubed). Details: the numbers of documents and topics, the threshold and the split it
        was chosen on, and the number of mentions that are alone.
    """
    rows = _mentions(data.rows)
    topics = topics_of(rows, settings.topics)
    group = scorer.group(rows, topics)
    threshold = settings.threshold or scorer.threshold
    chosen_on = "given" if settings.threshold else "the scorer's own"
    if threshold is None:
        chosen_on, other = threshold_rows(data, DEVELOPMENT_SPLIT)
        development, of_development = rows, group
        if other is not None:
            development = _mentions(other)
            of_development = scorer.group(development, topics_of(development, settings.topics))
        gold = [str(row["cluster_id"]) for row in development]
        threshold = max(
            THRESHOLDS, key=lambda one: coreference(of_development(one).tolist(), gold)["conll_f1"]
        )
    # Numbered in the order of their first mentions.
    numbers: dict[int, int] = {}
    groups = [numbers.setdefault(one, len(numbers)) for one in group(threshold).tolist()]
    gold = [str(row["cluster_id"]) for row in rows]
    sizes, gold_sizes, shared = Counter(groups), Counter(gold), Counter(zip(groups, gold, strict=True))
    return ProtocolOutput(
        inputs={"predictions": groups, "references": gold},
        predictions=[
            {
                **{name: str(row.get(name)) for name in ("mention_id", "document_id", "subtopic")},
                "group": one,
                "cluster_id": event,
                "correct": 2 * shared[one, event] / (sizes[one] + gold_sizes[event]),
            }
            for row, one, event in zip(rows, groups, gold, strict=True)
        ],
        texts=len(rows),
        distinct_texts=len({row["text"] for row in rows}),
        details={
            "documents": len({row["document_id"] for row in rows}),
            "topics": len(set(topics.tolist())),
            "threshold": threshold,
            "threshold_chosen_on": chosen_on,
            "events_of_one_mention": sum(size == 1 for size in gold_sizes.values()),
            "groups_of_one_mention": sum(size == 1 for size in sizes.values()),
        },
    )


def _mentions(rows: Iterable[Row]) -> list[Row]:
    held = list(rows)
    for column in ("text", "document_id", "cluster_id"):
        read_text(held[0], column)
    return held


def topics_of(rows: Sequence[Row], topics: Topics) -> Labels:
    """Number the topic of each mention, `(n,)`; a mention without one of its row's is an error.

    Topics are predicted by average linkage on the TF-IDF cosines of the texts of documents, which are the
    distinct sentences of their mentions.
    """
    if topics == "none":
        return np.zeros(len(rows), dtype=np.int64)
    if topics != "predicted":
        without = sum(is_blank(str(row[topics] or "")) for row in rows)
        if without:
            raise EventformersError(
                f"{without:,} of {len(rows):,} mentions have no {topics}; accepted: mentions that all "
                "have one, or topics=predicted or topics=none"
            )
        return np.unique([str(row[topics]) for row in rows], return_inverse=True)[1]
    vectors, document = document_vectors(rows)
    return _Tree((vectors @ vectors.T).toarray(), "average").cut(TOPIC_OVERLAP)[document]


_KINDS = {"NOUN": "noun", "PROPN": "noun", "ADJ": "adjective"}
_NAMED = ("nsubj", "nsubjpass", "dobj")


@cache
def _pipeline() -> Language:
    return load_pipeline(installed_pipeline())


def parsed_mentions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add what the pair scorer reads of mentions beside their text, by the installed spaCy pipeline.

    Args:
        rows: rows of `EventCoreference`: `text`, `trigger_start` and `trigger_end`.

    Returns:
        The rows with the `lemma` of the head of the trigger, in lower case; its `trigger_kind`: `verb`,
        `noun` or `adjective`; the nouns and names that are subject and object of the head, in lower case, as
        `participants`; and as `arguments` all words of its subject, its object, and its other participants.

    Raises:
        EventformersError: spaCy or a pipeline is not installed.
    """
    texts = list(dict.fromkeys(row["text"] for row in rows))
    parsed = dict(zip(texts, _pipeline().pipe(texts, disable=["ner"]), strict=True))
    found = []
    for row in rows:
        span = parsed[row["text"]].char_span(
            row["trigger_start"], row["trigger_end"], alignment_mode="expand"
        )
        head = span.root
        arguments: dict[str, list[str]] = {"subject": [], "object": [], "other": []}
        for child in head.children:
            role = _role(child)
            if role:
                arguments[role] += [token.lower_ for token in child.subtree if token not in span]
        found.append(
            {
                **row,
                "lemma": head.lemma_.lower(),
                "trigger_kind": _KINDS.get(head.pos_, "verb"),
                "participants": {
                    child.lower_
                    for child in head.children
                    if child.dep_ in _NAMED and child.pos_ in ("NOUN", "PROPN")
                },
                "arguments": tuple(" ".join(words) for words in arguments.values()),
            }
        )
    return found


def _role(child: Token) -> str:
    """The role of a child of a trigger; "" for none."""
    if child.dep_ in ("nsubj", "poss", "agent"):
        return "subject"
    if child.dep_ in ("dobj", "nsubjpass", "dative") or (child.dep_ == "prep" and child.lower_ == "of"):
        return "object"
    return "other" if child.dep_ == "prep" else ""


def document_texts(rows: Iterable[Row]) -> dict[str, str]:
    """The text of each document, which are the distinct sentences of its mentions."""
    sentences: dict[str, dict[str, None]] = {}
    for row in rows:
        sentences.setdefault(str(row["document_id"]), {})[str(row["text"])] = None
    return {document: "\n".join(texts) for document, texts in sentences.items()}


def document_vectors(rows: Sequence[Row]) -> tuple[csr_array, Labels]:
    """The TF-IDF vectors of documents, whose products are cosines, and the document of each mention."""
    texts = document_texts(rows)
    number_of = {name: number for number, name in enumerate(texts)}
    document = np.array([number_of[str(row["document_id"])] for row in rows])
    return text_overlaps(list(texts.values()), stop_words="english"), document


def within_topics(
    similarities: Callable[[Labels], np.ndarray], topics: Labels, method: Literal["average", "single"]
) -> Grouping:
    """Group the mentions of each topic, `(n,)`, by a linkage on similarities of all pairs, which are computed
    for the mentions at some positions, `(m, m)`."""
    members = [np.flatnonzero(topics == topic) for topic in np.unique(topics)]
    if (largest := max(map(len, members))) > LARGEST_TOPIC:
        raise EventformersError(
            f"found a topic of {largest:,} mentions; accepted: at most {LARGEST_TOPIC:,}, such as with gold "
            "topics, or pair_scorer=true"
        )
    trees = [_Tree(similarities(places), method) for places in members]

    def group(threshold: float) -> Labels:
        groups = np.empty((len(topics), 2), dtype=np.int64)
        for number, (places, tree) in enumerate(zip(members, trees, strict=True)):
            groups[places] = np.stack([np.full(len(places), number), tree.cut(threshold)], axis=1)
        return np.unique(groups, axis=0, return_inverse=True)[1].ravel()

    return group


class _Tree:
    """The linkage of some items from the similarities of all pairs, `(n, n)`."""

    def __init__(self, similarities: np.ndarray, method: Literal["average", "single"]) -> None:
        distances = np.clip(1 - similarities, 0, None)
        np.fill_diagonal(distances, 0)
        self._merges = linkage(squareform(distances, checks=False), method) if len(distances) > 1 else None

    def cut(self, threshold: float) -> Labels:
        """Divide the items into groups that are joined at a similarity of at least `threshold`."""
        if self._merges is None:
            return np.ones(1, dtype=np.int64)
        # The order of summation must not decide.
        return fcluster(self._merges, 1 - threshold + 1e-9, "distance")


@dataclass(frozen=True)
class Coreference(TaskKind):
    """Kind of task that groups mentions by the event that they mention."""

    Settings = CoreferenceSettings
    refusal = "does not group mentions by event; tasks that do"

    settings: CoreferenceSettings = field(default_factory=CoreferenceSettings)

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared:
        """See `TaskKind`."""
        reads = self.settings.trigger_input
        if reads is None and not hasattr(model.model.config, "trigger_input"):
            reads = "span"

        def encode(rows: Sequence[Row], model: EventEncoder = model) -> Vectors:
            mentions = cast("Sequence[dict[str, Any]]", rows)
            told = ((row["text"], row["trigger_start"], row["trigger_end"]) for row in mentions)

            def compute() -> Vectors:
                read = encode_mentions(model, mentions, trigger_input=reads, batch_size=computing.batch_size)
                vectors = unit_vectors(read.embeddings, [row["text"] for row in mentions])
                return vectors.astype(np.float32)

            return session.recall(
                model, ("coreference", reads, computing.batch_size, digest_of(told)), compute
            )

        if not self.settings.pair_scorer:

            def by_cosines(rows: Sequence[Row], topics: Labels) -> Grouping:
                vectors = encode(rows)
                return within_topics(lambda places: vectors[places] @ vectors[places].T, topics, "average")

            return Prepared(Grouper(by_cosines))
        if model.revision != session.encoder(None, device=computing.device, dtype=computing.dtype).revision:
            raise EventformersError(
                f"pair_scorer with the model {model.name}; accepted: the packaged encoder, on whose vectors "
                "it is trained"
            )

        tuned = tuned_encoder(model)

        def by_pairs(rows: Sequence[Row], topics: Labels) -> Grouping:
            read_tuned = encode(rows, tuned).__getitem__
            pairs = MentionPairs(
                parsed_mentions(rows), document_texts(rows), encode(rows), read_tuned, model.encode
            )
            # Without topics, only similar documents are compared.
            given = topics if topics.any() else None
            return lambda threshold: same_events(pairs, packaged_scorer(), threshold=threshold, topics=given)

        return Prepared(Grouper(by_pairs, THRESHOLD))

    def untrained(self, model: EventEncoder) -> Self:
        """Adapt the settings: the untrained encoder reads triggers if the model does in any way."""
        own = getattr(model.model.config, "trigger_input", None)
        reads = self.settings.trigger_input if own is None else "none" if own in WITHOUT_TRIGGERS else "span"
        return replace(self, settings=replace(self.settings, trigger_input=reads))

    @property
    def development_split(self) -> str:
        """The split that thresholds are chosen on; also of results with another one, so that they compare."""
        return DEVELOPMENT_SPLIT
