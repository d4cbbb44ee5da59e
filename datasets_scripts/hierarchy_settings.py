"""The settings of `EventHierarchies`, and which raw files they ask for."""

from __future__ import annotations

from dataclasses import dataclass

import datasets

from eventformers.datasets_scripts.base import (
    EventDatasetConfig,
    check_shares,
    check_whole_number,
    name_list,
)
from eventformers.datasets_scripts.document_splits import DocumentSplits
from eventformers.datasets_scripts.hierarchy_files import (
    DOMAINS,
    MENTION_KINDS,
    TASKS,
    TEXT_KINDS,
    WIKIDATA_TEXT_KINDS,
    WIKINEWS_CONFIGS,
    HierarchyFile,
)
from eventformers.errors import EventformersError, UnknownNameError

EDGE_CONFIGS = ("hierarchy", "sequence")
_CHOICES: dict[str, tuple[str, ...]] = {
    "task": TASKS,
    "domain": DOMAINS,
    "wikinews": WIKINEWS_CONFIGS,
    "split_by": ("stated", "components"),
    "gold_events": ("stated", "hierarchy"),
}
"""The values that settings can have."""
SPLIT_SETTINGS = frozenset({"split_by", "validation_share", "test_share", "split_seed"})
MENTION_SETTINGS = frozenset({"domain", "wikinews", "gold_events", "hierarchies_only"})


@dataclass
class EventHierarchiesConfig(EventDatasetConfig):
    """Which mentions and events are kept, what counts as gold, and how the splits are made.

    The first two decide on `mentions` and `events`, the next four on `mentions` alone, and the rest on
    `mentions`, `hierarchy` and `sequence`.

    Args:
        task: `multilingual`, where the text of an event is in the language of the mention, or `crosslingual`,
            where it is English.
        languages: the languages of mentions, and in the multilingual task of events; none named keeps all.
        domain: the mentions of `wikipedia` or those of `wikinews`. What is not known to be from Wikinews
            counts as Wikipedia.
        wikinews: of Wikinews the events that are `zero-shot`, or those `cross-domain`, which training may
            have seen.
        gold_events: `stated` takes the events that a raw file states for a mention, and where it states one
            alone that event with all its ancestors; `hierarchy` always takes the ancestors by the hierarchy.
        hierarchies_only: whether mentions of events without any parent or child are left out, as in the
            paper.
        split_by: `stated` takes the splits of the raw files, and components where they state none;
            `components` draws all of them anew.
        validation_share: the share of connected components in validation where they are drawn.
        test_share: the share of connected components in test where they are drawn.
        split_seed: the seed of their order.
    """

    task: str = "multilingual"
    languages: tuple[str, ...] = ()
    domain: str = "wikipedia"
    wikinews: str = "zero-shot"
    gold_events: str = "stated"
    hierarchies_only: bool = False
    split_by: str = "stated"
    validation_share: float = 0.1
    test_share: float = 0.1
    split_seed: int = 41

    def __post_init__(self) -> None:
        super().__post_init__()
        self.languages = name_list("languages", self.languages)
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(f"setting {name}", str(getattr(self, name)), known)
        if not isinstance(self.hierarchies_only, bool):
            found = repr(self.hierarchies_only)
            raise EventformersError(f"setting hierarchies_only: found {found}; accepted: true or false")
        check_shares(self.validation_share, self.test_share)
        check_whole_number("split_seed", self.split_seed, 0)


def drawn_splits(config: datasets.BuilderConfig) -> tuple[str, ...]:
    """The splits that connected components are drawn into: those with a share above 0."""
    return DocumentSplits(config.validation_share, config.test_share, config.split_seed).names


def is_drawn(file: HierarchyFile, config: datasets.BuilderConfig) -> bool:
    """Whether the components of their events, and not the file, decide on the splits of its mentions."""
    return file.split is None or (config.split_by == "components" and config.domain == "wikipedia")


def is_wanted(file: HierarchyFile, config: datasets.BuilderConfig) -> bool:
    """Whether a config with its settings reads a file."""
    if config.name in EDGE_CONFIGS:
        return True
    if file.kind in (*TEXT_KINDS, *WIKIDATA_TEXT_KINDS) and file.task not in (config.task, None):
        return False
    if config.name == "events" or file.kind not in MENTION_KINDS:
        return True
    if file.domain != config.domain or file.task not in (config.task, None):
        return False
    return file.domain == "wikipedia" or file.wikinews == config.wikinews
