"""Builder of event mentions with seen and unseen types, and of the frames that types are linked to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from eventformers.datasets_scripts.ace_reader import annotation_files, read_ace, text_file
from eventformers.datasets_scripts.base import (
    SAMPLE_ORIGIN,
    EventDatasetBuilder,
    EventDatasetConfig,
    name_list,
)
from eventformers.datasets_scripts.document_splits import DistinctIds
from eventformers.datasets_scripts.frame_reader import FRAME_COLUMNS, frame_files, read_frames
from eventformers.datasets_scripts.licenses import UNSPECIFIED, license_of_source
from eventformers.datasets_scripts.mention_reader import (
    ACE_FRAMES,
    ACE_SEEN_TYPES,
    MENTION_COLUMNS,
    read_mentions,
)
from eventformers.datasets_scripts.reading.lines import corpus_folders, file_stem, files_inside, format_suffix
from eventformers.datasets_scripts.reading.tables import Column, first_record, has_records, is_table
from eventformers.errors import UnknownNameError
from eventformers.strict import Number


class TypeSplit(NamedTuple):
    """Event types by role; each list in descending order of frequency.

    Args:
        seen: training may use their labels.
        unseen: their mentions are clustered, and their labels serve only for scoring.
        left_out: the rest.
    """

    seen: list[str]
    unseen: list[str]
    left_out: list[str]


def split_types(
    counts: Counter[str],
    seen_types: Collection[str] | None = None,
    num_seen: int = 10,
    num_unseen: int = 23,
    known: Iterable[str] = (),
) -> TypeSplit:
    """Split event types by name or by frequency; ties are broken alphabetically.

    Args:
        counts: number of mentions of each type.
        seen_types: the seen types; None takes the `num_seen` most frequent ones.
        num_seen: number of seen types if they are not named.
        num_unseen: number of unseen types, the next in frequency; 0 takes all others.
        known: further accepted names, of types without mentions.

    Raises:
        UnknownNameError: a named type has no mentions.
    """
    accepted = {*counts, *known}
    for name in seen_types or ():
        if name not in accepted:
            raise UnknownNameError("event type in seen_types", name, accepted)
    order = sorted(counts, key=lambda name: (-counts[name], name))
    seen = order[:num_seen] if seen_types is None else [name for name in order if name in seen_types]
    others = [name for name in order if name not in seen]
    end = num_unseen or len(others)
    return TypeSplit(seen, others[:end], others[end:])


_ACE_SOURCE = "ace2005"
_FRAMENET_ORIGIN = ("FrameNet", "CC-BY-3.0")
_FRAMENET_FOLDERS = ("framenet", "fndata")
"""Prefixes of the names of folders in which FrameNet is published."""


@dataclass
class EventTypesConfig(EventDatasetConfig):
    """Settings of the seen and unseen event types. They do not apply to `frames`.

    Args:
        seen_types: types whose labels may be used in training; None takes the most frequent ones, and the
            paper's ten for `ace2005`.
        num_seen: number of seen types if none are named.
        num_unseen: number of unseen types, which are to be found: the next most frequent ones; 0 takes all
            others. Mentions of the remaining types are left out and counted.
    """

    seen_types: tuple[str, ...] | None = None
    num_seen: Number = 10
    num_unseen: Number = 23

    def __post_init__(self) -> None:
        if self.seen_types is not None:
            self.seen_types = name_list("seen_types", self.seen_types)
        elif self.name == "ace2005":
            self.seen_types = ACE_SEEN_TYPES
        super().__post_init__()


class EventTypes(EventDatasetBuilder):
    """Event mentions with their types: seen types, and unseen types to be induced.

    - `mentions`: sentences from JSON lines (`mention_reader.read_mentions`), `*.jsonl` or `*.jsonl.gz`, or
      from tables.
    - `ace2005`: the event mentions of ACE 2005 (`ace_reader.read_ace`): LDC's folder, or any folder with
      `.sgm` and `.apf.xml` files (`ace_reader.annotation_files`).
    - `frames`: FrameNet's folder with `frame/*.xml` and `frRelation.xml`, or JSON lines
      and tables (`frame_reader.read_frames`).

    Training uses every mention. `seen` marks the mentions whose `event_type` may be used in training; the
    types of the others serve only for scoring. A mention without a stated type has the type "" and is not
    seen. `trigger_start` and `trigger_end` are character offsets in `text`, end exclusive; a mention without
    a trigger has "" and -1. `frames` are the frames of the raw file, else the paper's for types of ACE 2005.

    Mentions that differ only in their ids are kept and counted. If ids repeat, all but the first get the
    suffix `#2`, `#3` and so on, and are counted.
    """

    NAME = "event_types"
    SPLITS = ("train",)
    SAMPLES_FOLDER = "event_types"
    TABLES: ClassVar[Mapping[str, tuple[Column, ...]]] = {
        "mentions": MENTION_COLUMNS,
        "frames": FRAME_COLUMNS,
    }
    BUILDER_CONFIG_CLASS = EventTypesConfig

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the files in the folders that the config reads, and those given directly."""
        found: list[Path] = []
        for path in paths:
            if config_name == "ace2005":
                for annotation in annotation_files(path):
                    found += [file for file in (annotation, text_file(annotation)) if file.is_file()]
                continue
            folders = corpus_folders(path, _is_framenet) if config_name == "frames" else []
            framenet = [file for folder in folders for file in frame_files(folder)]
            kinds = {item: _record_kind(item) for item in files_inside(path, _is_framenet)}
            if path in kinds and is_table(path):
                # A table that is given directly is read, so that its unknown columns are reported.
                kinds[path] = kinds[path] or "mentions"
            found += framenet or [item for item, kind in kinds.items() if kind == config_name]
        return {"train": list(dict.fromkeys(found))} if found else {}

    def facts_from_paths(self, config_name: str) -> dict[str, object]:
        """The source and the licence of frames."""
        return {"origin": list(self._frame_origin())} if config_name == "frames" else {}

    def accepted_when_empty(self) -> str:
        """What a split needs to have rows."""
        return "at least one mention" if self.config.name != "frames" else "at least one frame"

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield the mentions or frames and fill `self.report`.

        Raises:
            DataFormatError: a raw file cannot be read, or a trigger or sentence is not at its offsets; names
                file, line and mention.
            UnknownNameError: a setting names a type without mentions.
        """
        if self.config.name == "frames":
            yield from self._frame_rows()
            return
        config, report = self.config, self.report
        notes: Counter[str] = Counter()
        files = self.split_files[self.split]
        if config.name == "ace2005":
            origin = SAMPLE_ORIGIN if self.is_sample else (_ACE_SOURCE, license_of_source(_ACE_SOURCE))
            annotations = [path for path in files if path.suffix == ".xml"]
            mentions = list(read_ace(annotations, *origin, report.read, notes, report.skipped))
        else:
            mentions = [one for path in files for one in read_mentions(path, report.skipped, notes)]
        report.read["mentions"] = len(mentions)
        counts = Counter(mention.event_type for mention in mentions if mention.event_type)
        settings = (config.seen_types, config.num_seen, config.num_unseen)
        split = split_types(counts, *settings, known=ACE_FRAMES if config.name == "ace2005" else ())
        seen, left_out = frozenset(split.seen), frozenset(split.left_out)
        ids = DistinctIds()
        alike: Counter[tuple[str, int, str]] = Counter()
        sentences: dict[bool, set[str]] = {True: set(), False: set()}
        for mention in mentions:
            if mention.event_type in left_out:
                report.skipped["mention_of_further_type"] += 1
                continue
            mention = mention._replace(mention_id=ids.of(mention.mention_id))
            alike[mention.text, mention.trigger_start, mention.event_type] += 1
            is_seen = mention.event_type in seen
            kind = "seen" if is_seen else "unseen" if mention.event_type else "untyped"
            notes[f"{kind}_mentions"] += 1
            sentences[is_seen].add(mention.text)
            report.add_source(mention.source, mention.license, mentions=1)
            yield {**mention._asdict(), "seen": is_seen}
        notes["mentions_with_repeated_id"] = ids.repeats
        notes["mentions_alike"] = sum(count - 1 for count in alike.values())
        notes["seen_sentences"], notes["unseen_sentences"] = map(len, (sentences[True], sentences[False]))
        report.statistics.update({name: count for name, count in sorted(notes.items()) if count})
        report.statistics["seen_types"] = list(split.seen)
        report.statistics["unseen_types"] = list(split.unseen)

    def _frame_rows(self) -> Iterator[Mapping[str, object]]:
        report = self.report
        source, license_name = self._frame_origin()
        names, parents = set(), set()
        for frame in read_frames(self.split_files[self.split], report.skipped):
            names.add(frame.name)
            parents.update(frame.parents)
            report.read["frames"] += 1
            report.read["inheritance_edges"] += len(frame.parents)
            report.add_source(source, license_name, frames=1)
            yield {**frame._asdict(), "source": source, "license": license_name}
        report.statistics["parents_that_are_no_row"] = len(parents - names)

    def _frame_origin(self) -> tuple[str, str]:
        """Source and licence of the frames.

        FrameNet is identified by its XML or the name of its folder. Any other file is the user's own.
        """
        if self.is_sample:
            return SAMPLE_ORIGIN
        paths = self.split_files["train"]
        if all(path.suffix == ".xml" or _is_framenet(path.parent.name) for path in paths):
            return _FRAMENET_ORIGIN
        return file_stem(paths[0]), UNSPECIFIED


def _is_framenet(folder_name: str) -> bool:
    return folder_name.lower().startswith(_FRAMENET_FOLDERS)


def _record_kind(path: Path) -> Literal["mentions", "frames"] | None:
    """Determine the content of a file of records from its columns or its first readable line; other `.jsonl`
    files count as mentions."""
    if not has_records(path):
        return None
    record = first_record(path)
    if isinstance(record, dict):
        if "cluster_id" in record and "event_type" not in record:
            # The mentions of `event_coreference`.
            return None
        if "text" in record or "sentence" in record:
            return "mentions"
        if "name" in record and "definition" in record:
            return "frames"
    return None if is_table(path) or format_suffix(path) == ".json" else "mentions"
