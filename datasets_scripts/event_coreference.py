"""Builder of event mentions, each labelled with its event, within and across documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import datasets
from datasets import Value

from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, EventDatasetBuilder
from eventformers.datasets_scripts.reading.ecbplus import (
    ARCHIVE,
    DEVELOPMENT_TOPICS,
    SENTENCE_LIST,
    TEST_TOPICS,
    EcbDocument,
    EcbMention,
    ecbplus_topics,
    read_ecbplus,
)

_ORIGIN = ("ecbplus", "CC-BY-3.0")


class EventCoreference(EventDatasetBuilder):
    """Mentions of events with the event of each, from ECB+ as its owners publish it (`reading.ecbplus`).

    Only the sentences whose annotation is complete have rows. The splits are the usual ones: topics 36 to 45
    test, 2, 5, 12, 18, 21, 23, 34 and 35 validate, and the others train. `chain` is the event; a mention
    that shares it with no other has one of its own. A topic has two `subtopic`s, which are two similar
    events with reports of their own. `participants` are the annotated people, things, times and places of
    the sentence. `trigger_start` and `trigger_end` are characters of `text`, the sentence; a trigger of
    several words reaches from its first to its last.
    """

    TASK_CATEGORIES = ("token-classification",)
    NAME = "event_coreference"
    TITLE = "Event coreference"
    SUMMARY = (
        "Mentions of events in news reports, each labelled with the event it refers to, within and across"
        " documents. Each row also lists the participants, times and places of its sentence."
    )
    CITATION = (
        "Cybulska, Vossen: Using a Sledgehammer to Crack a Nut? Lexical Diversity and Event Coreference"
        " Resolution, LREC 2014 (ECB+). Bejan, Harabagiu: Unsupervised Event Coreference Resolution with"
        " Rich Linguistic Features, ACL 2010 (ECB)."
    )
    SPLITS = ("train", "validation", "test")
    SAMPLES_FOLDER = "coreference"
    RAW_FILES: ClassVar[dict[str, str]] = {
        "mentions": f"{ARCHIVE}.zip or the folder {ARCHIVE}, with {SENTENCE_LIST} beside it"
    }

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the archive or its folder, in a folder or given directly, and the list of sentences."""
        for path in paths:
            for place in (path, path / ARCHIVE, path / f"{ARCHIVE}.zip"):
                topics = ecbplus_topics(place)
                sentences = place.parent / SENTENCE_LIST
                if topics and sentences.is_file():
                    files = sorted(place.glob("*/*.xml")) if place.is_dir() else [place]
                    files.append(sentences)
                    return {split: files for split in cls.SPLITS if topics & _topics(split, topics)}
        return {}

    @classmethod
    def features(cls, config_name: str) -> datasets.Features:
        """The columns."""
        text, number = Value("string"), Value("int32")
        return datasets.Features(
            {
                **dict.fromkeys(("mention_id", "document_id", "topic", "subtopic", "chain"), text),
                "sentence": number,
                "text": text,
                **{"trigger": text, "trigger_start": number, "trigger_end": number, "tag": text},
                "participants": datasets.List({"text": text, "tag": text}),
                **{"source": text, "license": text},
            }
        )

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield the mentions and fill `self.report`.

        Raises:
            DataFormatError: a file is malformed; names it and the line.
        """
        *files, _ = self.split_files[self.split]
        place = files[0] if files[0].suffix == ".zip" else files[0].parent.parent
        topics = _topics(self.split, ecbplus_topics(place))
        source, license_name = SAMPLE_ORIGIN if self.is_sample else _ORIGIN
        chains: Counter[str] = Counter()
        for document in read_ecbplus(place, topics):
            self.report.read["documents"] += 1
            mentions = [mention for mention in document.mentions if mention.is_event]
            self.report.read["mentions"] += len(mentions)
            rows = [_row(document, mention) for mention in document.listed_mentions() if mention.is_event]
            self.report.skipped["mention_in_a_sentence_not_listed"] += len(mentions) - len(rows)
            chains.update(str(row["chain"]) for row in rows)
            if rows:
                self.report.add_source(source, license_name, documents=1, mentions=len(rows))
            for row in rows:
                yield {**row, "source": source, "license": license_name}
        self.report.statistics["chains"] = len(chains)
        self.report.statistics["chains_of_one_mention"] = sum(count == 1 for count in chains.values())


def _topics(split: str, found: frozenset[str]) -> frozenset[str]:
    """The topics of a split, of those that the data has."""
    held_out = {"validation": DEVELOPMENT_TOPICS, "test": TEST_TOPICS}
    if split in held_out:
        return found.intersection(held_out[split])
    return found.difference(*held_out.values())


def _row(document: EcbDocument, mention: EcbMention) -> dict[str, object]:
    sentence = document.sentences[mention.tokens[0]]
    inside = [place for place, number in enumerate(document.sentences) if number == sentence]
    start = document.places[inside[0]][0]
    first, last = document.places[min(mention.tokens)][0], document.places[max(mention.tokens)][1]
    mention_id = f"{document.name}#{mention.id}"
    return {
        "mention_id": mention_id,
        "document_id": document.name,
        "topic": document.topic,
        "subtopic": document.topic + document.name.rpartition("_")[2].lstrip("0123456789"),
        "chain": mention.chain or mention_id,
        "sentence": sentence,
        "text": document.text[start : document.places[inside[-1]][1]],
        "trigger": " ".join(document.tokens[place] for place in mention.tokens),
        "trigger_start": first - start,
        "trigger_end": last - start,
        "tag": mention.kind,
        "participants": [
            {"text": " ".join(document.tokens[place] for place in other.tokens), "tag": other.kind}
            for other in document.mentions
            if not other.is_event and document.sentences[other.tokens[0]] == sentence
        ],
    }
