"""Builder of event hierarchies: linked mentions, events in many languages, and their relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import datasets

from eventformers.datasets_scripts.base import (
    SAMPLE_ORIGIN,
    EventDatasetBuilder,
    EventDatasetConfig,
    check_shares,
    name_list,
)
from eventformers.datasets_scripts.document_splits import SPLITS, DistinctIds, DocumentSplits, name_hash
from eventformers.datasets_scripts.event_knowledge import (
    Edge,
    EventKnowledge,
    MentionSurvey,
    StatedTitles,
    component_splits,
    facts_of,
    later_split,
    mention_id_of,
    mentions_of,
    move_components,
    text_files,
)
from eventformers.datasets_scripts.hierarchy_files import (
    EDGE_KINDS,
    MENTION_KINDS,
    TEXT_KINDS,
    HierarchyFile,
    hierarchy_files,
    origin_of,
)
from eventformers.datasets_scripts.hierarchy_readers import LinkedMention
from eventformers.datasets_scripts.reading.fields import is_blank
from eventformers.errors import EventformersError
from eventformers.strict import Count, Number, Share

EDGE_CONFIGS = ("hierarchy", "sequence")


@dataclass
class EventHierarchiesConfig(EventDatasetConfig):
    """Settings of the kept mentions and events, of the gold events, and of the splits.

    The first two apply to `mentions` and `events`, the next five only to `mentions`, and the others to
    `mentions`, `hierarchy` and `sequence`.

    Args:
        task: `multilingual`, in which an event's text is in the language of the mention, or `crosslingual`,
            in which it is English.
        languages: languages of mentions, and in the multilingual task also of events; empty keeps all.
        domain: keep the mentions of `wikipedia` or of `wikinews`. Everything not known to be from Wikinews
            counts as Wikipedia.
        wikinews: of Wikinews, keep the `zero-shot` events, or the `cross-domain` events, which training may
            have seen.
        gold_events: `hierarchy` uses the event of a mention with all its ancestors in the hierarchy, so that
            training on mentions and on the hierarchy teaches the same; `stated` uses the list of events that
            the raw file states for a mention, and `hierarchy` if it states only `label_id`.
        hierarchies_only: leave out mentions of events without parents and children, as in the paper.
        max_height: leave out mentions of events in a hierarchy with more levels below its root; the paper has
            at most 3. None keeps all.
        split_by: `stated` uses the splits of the raw files, and connected components if the files state none;
            `components` redraws all splits.
        validation_share: share of connected components in validation, if they are drawn.
        test_share: share of connected components in test, if they are drawn.
        split_seed: seed of the order of the components.
        validation_with_parents: number of mentions in validation whose events have a parent. Until it has so
            many, whole components of train move to validation; components with more of these mentions than
            are missing stay. 0 moves none.
    """

    task: Literal["multilingual", "crosslingual"] = "multilingual"
    languages: tuple[str, ...] = ()
    domain: Literal["wikipedia", "wikinews"] = "wikipedia"
    wikinews: Literal["zero-shot", "cross-domain"] = "zero-shot"
    gold_events: Literal["hierarchy", "stated"] = "hierarchy"
    hierarchies_only: bool = False
    max_height: Count | None = None
    split_by: Literal["stated", "components"] = "stated"
    validation_share: Share = 0.1
    test_share: Share = 0.1
    split_seed: Number = 41
    validation_with_parents: Number = 0

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


def may_move(file: HierarchyFile, config: datasets.BuilderConfig) -> bool:
    """True if mentions of a training file may be moved to validation."""
    return file.split == "train" and file.domain == "wikipedia" and config.validation_with_parents > 0


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


_SHOWN_EDGES = 10


class EventHierarchies(EventDatasetBuilder):
    """Mentions of events, the events, and the edges between them.

    - `mentions`: a mention in its context. `event_ids` has the event that it refers to, followed by the
      event's ancestors up to the roots. Ids are those of the raw files. An event of the titles that mentions
      or edges write in another form (5 instead of Wikidata's Q5, or with blanks around it) has the id of the
      titles.
    - `events`: the knowledge base, one row for each event and language, in one split: every event is a
      candidate, whichever split its mentions are in.
    - `hierarchy`: child and parent, from part of (P361) and has part (P527).
    - `sequence`: an event and the next one, from follows (P155) and followed by (P156).

    Raw files (`hierarchy_files.hierarchy_files`; plain, `.gz` or `.bz2`): XLEL-WD as published, that is the
    mention files and the dictionary, or the folders that its download script makes; files of mentions, events
    and edges in similar formats (`hierarchy_readers`), also as tables (`hierarchy_files`); and Wikidata's
    JSON, an entity dump or the output of XLEL-WD's pipeline. Mentions and dumps are read
    line by line; memory holds the ids of the events, their languages and edges, and 8 bytes for each mention.

    Zero-shot splits: events that are connected by any edges are in one split. Splits that raw files define
    are kept, and the components that they divide are counted.

    Skipped and counted: a mention without event, of an event that the dictionary lacks, or of an event
    without a title in the requested language; gold ancestors of that kind; events without title; repeated
    events; edges to something that is not an event; edges that close a cycle (see
    `event_knowledge.EventHierarchy`). If mention ids repeat, all but the first get the suffix `#2`, `#3` and
    so on, and are counted.
    """

    NAME = "event_hierarchies"
    BUILDER_CONFIG_CLASS = EventHierarchiesConfig

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the files that the config reads: the mentions of each split, and the knowledge of events."""
        files = hierarchy_files(paths)
        mentions = [file for file in files if file.kind in MENTION_KINDS]
        knowledge = [file.path for file in files if file.kind not in MENTION_KINDS]
        if config_name == "events":
            found = [file.path for file in text_files(files)]
            return {"train": found} if found else {}
        if config_name in EDGE_CONFIGS:
            has_edges = any(file.kind in EDGE_KINDS for file in files)
            return {split: [file.path for file in files] for split in SPLITS if has_edges}
        splits = {file.split for file in mentions}
        return {
            split: [*(file.path for file in mentions if file.split in (split, None)), *knowledge]
            for split in SPLITS
            if {split, None} & splits
        }

    @classmethod
    def wanted_splits(cls, config: datasets.BuilderConfig) -> tuple[str, ...]:
        """One split for events; the splits with a share above 0 for edges and for mentions split by
        component."""
        if config.name == "events":
            return ("train",)
        if config.name == "mentions" and config.split_by == "stated":
            return SPLITS
        return config.drawn_splits

    @classmethod
    def wanted_files(
        cls, config: datasets.BuilderConfig, split_files: dict[str, list[Path]]
    ) -> dict[str, list[Path]]:
        """The files of the task and the domain; if components determine the splits, every split reads all
        mentions."""
        paths = dict.fromkeys(path for paths in split_files.values() for path in paths)
        everything = hierarchy_files(paths)
        files = [file for file in everything if is_wanted(file, config)]
        if config.name != "mentions":
            return {split: [file.path for file in files] for split in cls.wanted_splits(config)}
        mentions = [file for file in files if file.kind in MENTION_KINDS]
        if not mentions:
            asked = " ".join([config.domain, *([config.wikinews] if config.domain == "wikinews" else [])])
            raise EventformersError(
                f"no file of mentions of {asked} for the task {config.task} among"
                f" {', '.join(file.path.name for file in everything)}; accepted: another domain, task or"
                " folder"
            )
        knowledge = [file.path for file in files if file.kind not in MENTION_KINDS]
        found = {}
        for split in SPLITS:
            own = [
                file.path
                for file in mentions
                if (
                    split in config.drawn_splits
                    if is_drawn(file, config)
                    else file.split == split or (split == "validation" and may_move(file, config))
                )
            ]
            if own:
                found[split] = [*own, *knowledge]
        return found

    def facts_from_paths(self, config_name: str) -> dict[str, object]:
        """Source and licence of each file, and the facts in its name and its folder."""
        return {"files": [[*map(str, file[1:]), *self._origins[file.path]] for file in self._files]}

    def accepted_when_empty(self) -> str:
        """What a split needs to have rows."""
        if self.config.name in EDGE_CONFIGS:
            return "at least one edge between two events, in a split with a share above 0"
        return "at least one mention of a known event" if self.config.name == "mentions" else "one event"

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield the rows of the config, with further fields beside its columns, and fill `self.report`.

        Raises:
            DataFormatError: a line of a raw file cannot be read; names file and line.
            EventformersError: there are files of events, but they contain no event.
        """
        if self.config.name == "events":
            return self._event_rows()
        if self.config.name in EDGE_CONFIGS:
            return self._edge_rows()
        return self._mention_rows()

    def _event_rows(self) -> Iterator[Mapping[str, object]]:
        config, report = self.config, self.report
        texts = StatedTitles(report.read, report.skipped)
        kept_languages: set[str] = set()
        kept_events: set[str] = set()
        wanted = ("en",) if config.task == "crosslingual" else config.languages
        without_description = 0
        for file in text_files(self._files):
            source, license_name = self._origins[file.path]
            for text in texts.of_file(file):
                if wanted and text.language not in wanted:
                    report.skipped["event_text_of_other_language"] += 1
                    continue
                kept_languages.add(text.language)
                kept_events.add(text.event_id)
                without_description += not text.description
                report.add_source(source, license_name, events=1)
                yield {**text._asdict(), "source": source, "license": license_name}
        report.statistics["events"] = len(kept_events)
        report.statistics["events_without_text_in_a_kept_language"] = len(texts.languages) - len(kept_events)
        report.statistics["texts_without_description"] = without_description
        report.statistics["languages"] = [*sorted(kept_languages)]

    def _split_generators(self, dl_manager: object) -> list[datasets.SplitGenerator]:
        if self.config.name in EDGE_CONFIGS:
            # With few components a split may have no edges, which only the graph shows.
            with_edges = {later_split({self._splits[end] for end in edge}) for edge in self._edges}
            kept = {split: files for split, files in self.split_files.items() if split in with_edges}
            self.split_files = kept or self.split_files
        return super()._split_generators(dl_manager)

    @property
    def _edges(self) -> dict[Edge, int]:
        """The edges of the config, each with the index of its file among the knowledge files."""
        graph = self._knowledge.graph
        return graph.hierarchy if self.config.name == "hierarchy" else graph.sequence

    def _edge_rows(self) -> Iterator[Mapping[str, object]]:
        report, split_of = self.report, self._splits
        notes: Counter[str] = Counter()
        names = list(self.features(self.config.name))[:2]
        ends: set[str] = set()
        for edge, place in self._edges.items():
            splits = {split_of[end] for end in edge}
            split = later_split(splits)
            if split not in self.split_files and self._is_first_split:
                report.skipped["edge_of_a_split_left_out"] += 1
            if split != self.split:
                continue
            notes["edges_between_splits"] += len(splits) > 1
            ends.update(edge)
            source, license_name = self._origins[self._knowledge_files[place].path]
            report.add_source(source, license_name, edges=1)
            yield {**dict(zip(names, edge, strict=True)), "source": source, "license": license_name}
        notes["events"] = len(ends)
        if self.config.name == "hierarchy":
            graph = self._knowledge.graph
            inside = {one for one in ends if split_of[one] == self.split}
            notes["roots"] = sum(one not in graph.parents for one in inside)
            notes["events_with_several_parents"] = sum(len(graph.parents.get(one, ())) > 1 for one in inside)
            notes["longest_gold_path"] = max((len(graph.gold_path(one)) for one in inside), default=0)
        self._report_events()
        report.statistics.update({name: count for name, count in sorted(notes.items()) if count})

    def _mention_rows(self) -> Iterator[Mapping[str, object]]:
        report, notes = self.report, Counter[str]()
        languages: set[str] = set()
        linked: set[str] = set()
        for file, mention in self._mentions_of_split():
            report.read["mentions"] += 1
            where = f"{file.path.name}, line {mention.line}"
            reason = self._why_left_out(mention)
            if reason is not None:
                report.skipped[reason] += 1
                report.statistics.setdefault(f"first_{reason}", where)
                continue
            # The event of a mention and its ancestors, without those that have no text.
            stated = mention.gold_events if self.config.gold_events == "stated" else None
            gold = path = self._knowledge.graph.gold_path(mention.event_id)
            if stated is not None:
                gold = [mention.event_id, *(one for one in stated if one != mention.event_id)]
                notes["mentions_whose_stated_events_begin_with_another"] += stated[:1] != [mention.event_id]
                notes["mentions_whose_stated_events_lack_an_ancestor"] += not set(path) <= set(gold)
            kept = [one for one in gold if self._has_text(one, mention.language)]
            notes["gold_events_without_text_in_the_language"] += len(gold) - len(kept)
            mention_id = mention_id_of(file, mention)
            if name_hash(mention_id) in self._survey.repeated:
                given, mention_id = mention_id, self._ids.of(mention_id)
                if mention_id != given:
                    notes["mentions_with_repeated_id"] += 1
                    report.statistics.setdefault("first_mention_with_repeated_id", where)
            languages.add(mention.language)
            linked.update(kept)
            notes["mentions_with_several_gold_events"] += len(kept) > 1
            notes["longest_mention_in_characters"] = max(
                notes["longest_mention_in_characters"], len(mention.mention)
            )
            of_file = self._origins[file.path]
            source, license_name = mention.source or of_file[0], mention.license or of_file[1]
            report.add_source(source, license_name, mentions=1)
            row = mention._replace(mention_id=mention_id, source=source, license=license_name)
            yield {**row._asdict(), "event_ids": kept}
        self._report_events()
        report.statistics.update({name: count for name, count in sorted(notes.items()) if count})
        report.statistics.update(self._knowledge.graph.statistics(linked))
        report.statistics["languages"] = [*sorted(languages)]

    def _mentions_of_split(self) -> Iterator[tuple[HierarchyFile, LinkedMention]]:
        """The mentions of `self.split`; those without event belong to the first split."""
        read = set(self.split_files[self.split])
        first, id_of = next(iter(self.split_files)), self._knowledge.id_of
        for file in self._files:
            if file.kind not in MENTION_KINDS or file.path not in read:
                continue
            drawn = is_drawn(file, self.config) or may_move(file, self.config)
            # A file that several splits read is counted with the first split.
            skipped = self.report.skipped
            if drawn and not self._is_first_split:
                skipped = skipped.uncounted()
            for mention in mentions_of(file, skipped):
                gold = mention.gold_events and list(dict.fromkeys(map(id_of, mention.gold_events)))
                mention = mention._replace(event_id=id_of(mention.event_id), gold_events=gold)
                split = self._splits.get(mention.event_id, first) if drawn else self.split
                if split == self.split:
                    yield file, mention
                elif split not in self.split_files and self._is_first_split:
                    self.report.read["mentions"] += 1
                    self.report.skipped["mention_of_a_split_left_out"] += 1

    def _why_left_out(self, mention: LinkedMention) -> str | None:
        """Reason to skip a mention; None to keep it."""
        config, knowledge = self.config, self._knowledge
        if not mention.event_id:
            return "mention_without_event"
        if config.languages and mention.language not in config.languages:
            return "mention_of_other_language"
        if is_blank(mention.mention):
            return "mention_without_words"
        if knowledge.languages is not None and mention.event_id not in knowledge.languages:
            return "mention_of_unknown_event"
        if not self._has_text(mention.event_id, mention.language):
            return "mention_of_event_without_text_in_its_language"
        if config.hierarchies_only and not knowledge.graph.in_hierarchy(mention.event_id):
            return "mention_of_event_outside_hierarchies"
        if config.max_height is not None and knowledge.graph.height(mention.event_id) > config.max_height:
            return "mention_of_event_in_a_higher_hierarchy"
        return None

    def _has_text(self, event_id: str, language: str) -> bool:
        """True if an event can be a candidate for mentions in a language."""
        languages = self._knowledge.languages
        if languages is None:
            return True
        return ("en" if self.config.task == "crosslingual" else language) in languages.get(event_id, ())

    def _report_events(self) -> None:
        """Add the counts of events and splits to the report of the first split."""
        if not self._is_first_split:
            return
        report, knowledge = self.report, self._knowledge
        report.read.update(knowledge.read)
        report.skipped.update(knowledge.skipped)
        if self.config.name in EDGE_CONFIGS:
            # Mentions determine the splits of events; the mentions that become rows are counted elsewhere.
            report.skipped.update(self._survey.skipped)
        report.statistics.update({name: count for name, count in sorted(self._split_notes.items()) if count})
        if knowledge.graph.cut:
            shown = [f"{child} in {parent}" for child, parent in knowledge.graph.cut[:_SHOWN_EDGES]]
            report.statistics["first_edges_that_close_a_cycle"] = [*shown]

    @property
    def _is_first_split(self) -> bool:
        return self.split == next(iter(self.split_files))

    @cached_property
    def _files(self) -> list[HierarchyFile]:
        return hierarchy_files(self.raw_files)

    @cached_property
    def _knowledge_files(self) -> list[HierarchyFile]:
        return [file for file in self._files if file.kind not in MENTION_KINDS]

    @cached_property
    def _origins(self) -> dict[Path, tuple[str, str]]:
        """Source and licence of the rows of each file."""
        return {file.path: SAMPLE_ORIGIN if self.is_sample else origin_of(file) for file in self._files}

    @cached_property
    def _ids(self) -> DistinctIds:
        """Occurrences so far of each mention id that several mentions have."""
        return DistinctIds()

    @cached_property
    def _knowledge(self) -> EventKnowledge:
        """The facts about events in the raw files."""
        return facts_of(EventKnowledge, self._knowledge_files)

    @cached_property
    def _survey(self) -> MentionSurvey:
        files = [file for file in self._files if file.kind in MENTION_KINDS]
        if self.config.name in EDGE_CONFIGS:
            # Wikinews is for testing, even if training has its events.
            files = [file for file in files if file.domain == "wikipedia"]
        return facts_of(MentionSurvey, files)

    @cached_property
    def _split_notes(self) -> Counter[str]:
        """Counts about the splits, filled when they are made."""
        return Counter()

    @cached_property
    def _splits(self) -> dict[str, str]:
        """The split of every event."""
        config, knowledge = self.config, self._knowledge
        mentioned: dict[str, set[str]] = {}
        mentions: Counter[str] = Counter()
        for event_id, found in self._survey.mentions.items():
            known = knowledge.id_of(event_id)
            mentioned.setdefault(known, set()).update(split for split, _ in found if split)
            # Edges are read with the files of both tasks, which have the same mentions.
            of_task: Counter[str | None] = Counter()
            for (_, task), count in found.items():
                of_task[task] += count
            mentions[known] += max(of_task.values())
        notes = self._split_notes
        stated: dict[str, str] = {}
        if config.split_by == "stated":
            stated = {one: later_split(found) for one, found in mentioned.items() if found}
            notes["events_mentioned_in_several_splits"] = sum(len(found) > 1 for found in mentioned.values())
            stated.update(knowledge.splits)
        components = knowledge.graph.components({*(knowledge.languages or ()), *mentioned, *knowledge.named})
        notes["components"] = len(components)
        split_of = component_splits(
            components, stated, config.validation_share, config.test_share, config.split_seed, notes
        )
        with_parents = Counter({one: mentions[one] for one in knowledge.graph.parents})
        wanted, seed = config.validation_with_parents, config.split_seed
        return move_components(components, split_of, with_parents, wanted, seed, notes)
