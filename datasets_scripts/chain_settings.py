"""The settings of `EventChains`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from eventformers.datasets_scripts.base import EventDatasetConfig, check_shares, name_list
from eventformers.datasets_scripts.cooccurrence import bytes_of
from eventformers.datasets_scripts.document_splits import DocumentSplits
from eventformers.errors import EventformersError
from eventformers.strict import Count, Number, Range, Share

FILTER_SETTINGS = frozenset(
    {
        "exclude_source",
        "open_licenses_only",
        "exclude_predicates",
        "drop_pronoun_only",
        "predicate_form",
    }
)
COUNTING_SETTINGS = frozenset({"min_event_frequency", "min_pair_frequency", "window", "max_co_events"})
RESOURCE_SETTINGS = frozenset({"memory_limit", "threads", "temporary_directory"})
CHAIN_SETTINGS = frozenset({"min_chain_length", "validation_share", "test_share", "split_seed"})
SPLIT_SETTINGS = frozenset({"document_split"})
QUESTION_SETTINGS = frozenset({"window_stride", "first_window_only", "distractor_seed"})


@dataclass
class EventChainsConfig(EventDatasetConfig):
    """Settings of filters on raw documents, of co-occurrence counting, and of chains and their questions.

    The first five apply to all configs except the files of Weber et al., which stay unchanged; the next seven
    only to `cooccurrence`; `min_chain_length`, the shares and `split_seed` to `chains`, `mcnc` and
    `multistep`, and with `document_split` also to `documents` and `cooccurrence`; the others to the
    questions.

    Args:
        exclude_source: sources to leave out.
        open_licenses_only: leave out sources whose licence does not allow everybody to publish them
            (`eventformers.datasets_scripts.licenses.OPEN_LICENSES` lists the open ones).
        exclude_predicates: predicates to leave out, compared with the whole predicate, its first word and its
            lemma. The word `reporting` stands for `REPORTING_PREDICATES`.
        drop_pronoun_only: leave out events whose arguments are all pronouns.
        predicate_form: `surface` keeps the predicate's own words, `lemma` uses the lemma if the raw file has
            one.
        min_event_frequency: leave out events with fewer occurrences; SWCC uses 3.
        min_pair_frequency: leave out pairs that share fewer documents.
        window: maximum distance of two events, counted in events of their document; None uses whole
            documents. The default covers nearly all news articles completely and keeps the cost of a book
            linear.
        max_co_events: maximum number of co-events of an event, the most frequent first; None keeps all.
        memory_limit: memory that counting may use before it spills to disk.
        threads: number of threads for counting; None uses all processors.
        temporary_directory: folder that counting spills to; None uses the system's.
        min_chain_length: leave out chains of fewer distinct events.
        validation_share: expected share of documents in the split validation; 0 makes no such split.
        test_share: expected share of documents in the split test; 0 makes no such split.
        split_seed: seed of the hash of the document id that determines its split.
        document_split: for `documents` and `cooccurrence`, read only the documents of this split of `chains`,
            without repeated documents; None reads all.
        window_stride: number of events between the starts of two questions of a chain; None starts each
            question where the previous one ends.
        first_window_only: make only one question of each chain, about its first events, as in the papers.
        distractor_seed: seed of the distractors and of the position of the true event.
    """

    exclude_source: tuple[str, ...] = ()
    open_licenses_only: bool = False
    exclude_predicates: tuple[str, ...] = ()
    drop_pronoun_only: bool = False
    predicate_form: Literal["surface", "lemma"] = "surface"
    min_event_frequency: Count = 1
    min_pair_frequency: Count = 1
    window: Count | None = 100
    max_co_events: Count | None = 64
    memory_limit: str = "2GB"
    threads: Count | None = None
    temporary_directory: str | None = None
    min_chain_length: Annotated[int, Range(least=2)] = 5
    validation_share: Share = 0.1
    test_share: Share = 0.1
    split_seed: Number = 13
    document_split: Literal["train", "validation", "test"] | None = None
    window_stride: Count | None = None
    first_window_only: bool = True
    distractor_seed: Number = 13

    def __post_init__(self) -> None:
        self.exclude_source = name_list("exclude_source", self.exclude_source)
        self.exclude_predicates = name_list("exclude_predicates", self.exclude_predicates)
        super().__post_init__()
        try:
            bytes_of(self.memory_limit)
        except ValueError as error:
            raise EventformersError(f"setting memory_limit: {error}") from error
        check_shares(self.validation_share, self.test_share)

    @property
    def splits(self) -> DocumentSplits:
        """The splits of documents."""
        return DocumentSplits(self.validation_share, self.test_share, self.split_seed)
