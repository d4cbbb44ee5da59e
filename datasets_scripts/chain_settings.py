"""The settings of `EventChains`."""

from __future__ import annotations

from dataclasses import dataclass

from eventformers.datasets_scripts import cooccurrence
from eventformers.datasets_scripts.base import (
    EventDatasetConfig,
    check_shares,
    check_whole_number,
    name_list,
)
from eventformers.datasets_scripts.chain_readers import PREDICATE_FORMS
from eventformers.datasets_scripts.document_splits import SPLITS
from eventformers.errors import EventformersError, UnknownNameError

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

_OPTIONAL = frozenset({"window", "max_co_events", "threads", "window_stride"})
_LEAST = {
    "min_event_frequency": 1,
    "min_pair_frequency": 1,
    "window": 1,
    "max_co_events": 1,
    "threads": 1,
    "min_chain_length": 2,
    "window_stride": 1,
    "split_seed": 0,
    "distractor_seed": 0,
}
"""The least value of each whole number."""


@dataclass
class EventChainsConfig(EventDatasetConfig):
    """What is kept of the raw documents, how co-occurrence is counted, and how chains and questions are made.

    The first five decide on all configs but the files of Weber et al., which stay as they are; the next seven
    on `cooccurrence` alone; `min_chain_length`, the shares and `split_seed` on `chains`, `mcnc` and
    `multistep`, and where `document_split` is given on `documents` and `cooccurrence`, too; the rest on the
    questions.

    Args:
        exclude_source: sources left out.
        open_licenses_only: whether sources that may not be published by anyone are left out
            (`eventformers.datasets_scripts.licenses.OPEN_LICENSES`).
        exclude_predicates: predicates left out: whole, by their first word or by their lemma. The word
            `reporting` stands for `REPORTING_PREDICATES`.
        drop_pronoun_only: whether events go whose arguments are all pronouns.
        predicate_form: `surface`, the predicate's own words, or `lemma`, where the raw file has one.
        min_event_frequency: events with fewer occurrences are left out; SWCC takes 3.
        min_pair_frequency: pairs in fewer documents are left out.
        window: the largest distance of two events in events of their document; None takes whole documents.
            The default takes nearly all news articles whole and keeps the cost of a book linear.
        max_co_events: the most co-events of an event, the most frequent first; None keeps all.
        memory_limit: what counting may hold in memory before it spills to disk.
        threads: threads of counting; None takes all processors.
        temporary_directory: where counting spills to; None takes the system's.
        min_chain_length: chains of fewer distinct events are left out.
        validation_share: the expected share of documents in the split validation; 0 for no such split.
        test_share: the expected share of documents in the split test; 0 for no such split.
        split_seed: the seed of the hash of the document id that decides on its split.
        document_split: for `documents` and `cooccurrence` the split of `chains` whose documents alone are
            read, those left out that repeat others; None reads all.
        window_stride: how many events after each other two questions of a chain start; None starts one
            where the last one ends.
        first_window_only: whether a chain gives one question, about its first events, as in the papers.
        distractor_seed: the seed of the distractors and of the place of the true event.
    """

    exclude_source: tuple[str, ...] = ()
    open_licenses_only: bool = False
    exclude_predicates: tuple[str, ...] = ()
    drop_pronoun_only: bool = False
    predicate_form: str = "surface"
    min_event_frequency: int = 1
    min_pair_frequency: int = 1
    window: int | None = 100
    max_co_events: int | None = 64
    memory_limit: str = "2GB"
    threads: int | None = None
    temporary_directory: str | None = None
    min_chain_length: int = 5
    validation_share: float = 0.1
    test_share: float = 0.1
    split_seed: int = 13
    document_split: str | None = None
    window_stride: int | None = None
    first_window_only: bool = True
    distractor_seed: int = 13

    def __post_init__(self) -> None:
        super().__post_init__()
        self.exclude_source = name_list("exclude_source", self.exclude_source)
        self.exclude_predicates = name_list("exclude_predicates", self.exclude_predicates)
        if self.predicate_form not in PREDICATE_FORMS:
            raise UnknownNameError("predicate form", str(self.predicate_form), PREDICATE_FORMS)
        if self.document_split is not None and self.document_split not in SPLITS:
            raise UnknownNameError("split in document_split", str(self.document_split), SPLITS)
        for name, least in _LEAST.items():
            if getattr(self, name) is not None or name not in _OPTIONAL:
                check_whole_number(name, getattr(self, name), least, or_none=name in _OPTIONAL)
        for name in ("open_licenses_only", "drop_pronoun_only", "first_window_only"):
            if not isinstance(getattr(self, name), bool):
                raise EventformersError(
                    f"setting {name}: found {getattr(self, name)!r}; accepted: true or false"
                )
        try:
            cooccurrence.bytes_of(self.memory_limit)
        except ValueError as error:
            raise EventformersError(f"setting memory_limit: {error}") from error
        check_shares(self.validation_share, self.test_share)
