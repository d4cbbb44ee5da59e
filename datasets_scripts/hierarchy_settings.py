"""The settings of `EventHierarchies`, and the raw files that they select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import datasets

from eventformers.datasets_scripts.base import EventDatasetConfig, check_shares, name_list
from eventformers.datasets_scripts.document_splits import DocumentSplits
from eventformers.datasets_scripts.hierarchy_files import MENTION_KINDS, TEXT_KINDS, HierarchyFile
from eventformers.strict import Number, Share

EDGE_CONFIGS = ("hierarchy", "sequence")
SPLIT_SETTINGS = frozenset({"split_by", "validation_share", "test_share", "split_seed"})
MENTION_SETTINGS = frozenset({"domain", "wikinews", "gold_events", "hierarchies_only"})


@dataclass
class EventHierarchiesConfig(EventDatasetConfig):
    """Settings of the kept mentions and events, of the gold events, and of the splits.

    The first two apply to `mentions` and `events`, the next four only to `mentions`, and the others to
    `mentions`, `hierarchy` and `sequence`.

    Args:
        task: `multilingual`, in which an event's text is in the language of the mention, or `crosslingual`,
            in which it is English.
        languages: languages of mentions, and in the multilingual task also of events; empty keeps all.
        domain: keep the mentions of `wikipedia` or of `wikinews`. Everything not known to be from Wikinews
            counts as Wikipedia.
        wikinews: of Wikinews, keep the `zero-shot` events, or the `cross-domain` events, which training may
            have seen.
        gold_events: `stated` uses the list of events that the raw file states for a mention, and if it states
            only `label_id`, that event with all its ancestors; `hierarchy` always uses the ancestors in the
            hierarchy.
        hierarchies_only: leave out mentions of events without parents and children, as in the paper.
        split_by: `stated` uses the splits of the raw files, and connected components if the files state none;
            `components` redraws all splits.
        validation_share: share of connected components in validation, if they are drawn.
        test_share: share of connected components in test, if they are drawn.
        split_seed: seed of the order of the components.
    """

    task: Literal["multilingual", "crosslingual"] = "multilingual"
    languages: tuple[str, ...] = ()
    domain: Literal["wikipedia", "wikinews"] = "wikipedia"
    wikinews: Literal["zero-shot", "cross-domain"] = "zero-shot"
    gold_events: Literal["stated", "hierarchy"] = "stated"
    hierarchies_only: bool = False
    split_by: Literal["stated", "components"] = "stated"
    validation_share: Share = 0.1
    test_share: Share = 0.1
    split_seed: Number = 41

    def __post_init__(self) -> None:
        self.languages = name_list("languages", self.languages)
        super().__post_init__()
        check_shares(self.validation_share, self.test_share)

    @property
    def drawn_splits(self) -> tuple[str, ...]:
        """The splits into which connected components are drawn: those with a share above 0."""
        return DocumentSplits(self.validation_share, self.test_share, self.split_seed).names


def is_drawn(file: HierarchyFile, config: datasets.BuilderConfig) -> bool:
    """True if the components of events determine the splits of its mentions, not the file."""
    return file.split is None or (config.split_by == "components" and config.domain == "wikipedia")


def is_wanted(file: HierarchyFile, config: datasets.BuilderConfig) -> bool:
    """True if a config with its settings reads a file."""
    if config.name in EDGE_CONFIGS:
        return True
    has_texts = any(file.kind in kinds for kinds in TEXT_KINDS)
    if has_texts and file.task not in (config.task, None):
        return False
    if config.name == "events" or file.kind not in MENTION_KINDS:
        return True
    if file.domain != config.domain or file.task not in (config.task, None):
        return False
    return file.domain == "wikipedia" or file.wikinews == config.wikinews
