"""Precision and recall of extracted events on 100 annotated sentences of Wikinews.

    python benchmarks/extraction_accuracy.py --pipeline en_core_web_sm
    python benchmarks/extraction_accuracy.py --pipeline en_core_web_sm --split held_out --errors

The annotations are in `extraction_accuracy.jsonl`: for each sentence the id of its document, its character
offset there, its SHA-256 and its events as [subject, predicate, object, negated], by the definitions of
docs/extract.md. The sentences are from Wikinews, licence CC BY 2.5, and were drawn by seed, one from a
document. They were annotated before the extractor ran on them, and afterwards once more for the people and
things that are joined, and for hyphenated words. The rules were changed on the split `development`, checked
on `check`, and never on `held_out`. Each sentence is parsed alone.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import spacy
from spacy.language import Language

from eventformers.extraction.events import extract_events
from eventformers.extraction.extractor import TextParser

ANNOTATIONS = Path(__file__).with_suffix(".jsonl")
SPLITS = ("development", "check", "held_out")

Event = tuple[str, str, str, bool]
PARTS: dict[str, Callable[[Event], tuple[str | bool, ...]]] = {
    "subject, predicate, object": lambda event: event[:3],
    "subject, predicate": lambda event: event[:2],
    "predicate, object": lambda event: event[1:3],
    "predicate": lambda event: event[1:2],
    "predicate, negation": lambda event: (event[1], event[3]),
}


class AnnotatedSentence(NamedTuple):
    """A sentence, its split and its events."""

    split: str
    text: str
    events: list[Event]


class Agreement(NamedTuple):
    """Counts of events: extracted, annotated, and both."""

    found: int
    wanted: int
    correct: int

    @property
    def precision(self) -> float:
        """The share of extracted events that are annotated, from 0 to 1."""
        return self.correct / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of annotated events that are extracted, from 0 to 1."""
        return self.correct / self.wanted if self.wanted else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, from 0 to 1."""
        return 2 * self.correct / (self.found + self.wanted) if self.found + self.wanted else 0.0


def read_annotations(path: Path = ANNOTATIONS) -> list[AnnotatedSentence]:
    """Read the annotated sentences."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [
        AnnotatedSentence(row["split"], row["text"], [tuple(event) for event in row["events"]])
        for row in rows
    ]


def extracted(nlp: Language, sentences: Iterable[AnnotatedSentence]) -> list[list[Event]]:
    """Extract the events of each sentence, as they are annotated."""
    parser = TextParser(nlp)
    return [
        [(event.subject, event.predicate, event.object, event.negated) for event in extract_events(doc)]
        for doc, _ in parser.parse((None, parser.normalised(sentence.text)) for sentence in sentences)
    ]


def agreement(
    sentences: Sequence[AnnotatedSentence], found: Sequence[Sequence[Event]], part: str
) -> Agreement:
    """Compare extracted events with the annotated ones of the same sentence, by the words of `part` only."""
    of = PARTS[part]
    correct = 0
    for sentence, events in zip(sentences, found, strict=True):
        correct += (Counter(map(of, sentence.events)) & Counter(map(of, events))).total()
    return Agreement(sum(map(len, found)), sum(len(sentence.events) for sentence in sentences), correct)


def print_errors(sentences: Sequence[AnnotatedSentence], found: Sequence[Sequence[Event]]) -> None:
    """Print the sentences with errors, what was missed (-) and what was extracted wrongly (+)."""
    for sentence, events in zip(sentences, found, strict=True):
        wanted, given = Counter(sentence.events), Counter(events)
        if wanted != given:
            print(f"\n{sentence.text}")
            for sign, rest in (("-", wanted - given), ("+", given - wanted)):
                for subject, predicate, target, negated in rest.elements():
                    print(f"  {sign} {subject} | {'not ' if negated else ''}{predicate} | {target}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print precision, recall and F1 of each split."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pipeline", default="en_core_web_sm", help="Name or folder of a spaCy pipeline.")
    parser.add_argument("--split", choices=SPLITS, action="append", help="Repeatable. Default: all.")
    parser.add_argument("--errors", action="store_true", help="Print each missed and each wrong event.")
    settings = parser.parse_args(arguments)
    nlp = spacy.load(settings.pipeline)
    print(f"pipeline: {nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}, spaCy {spacy.__version__}")
    annotated = read_annotations()
    for split in settings.split or SPLITS:
        sentences = [sentence for sentence in annotated if sentence.split == split]
        found = extracted(nlp, sentences)
        count = sum(len(sentence.events) for sentence in sentences)
        print(f"\n{split}: {len(sentences)} sentences, {count} events")
        for part in PARTS:
            score = agreement(sentences, found, part)
            print(
                f"  {part:<28} precision {score.precision:.3f}  recall {score.recall:.3f}"
                f"  F1 {score.f1:.3f}  ({score.correct} of {score.found} extracted, {score.wanted} annotated)"
            )
        if settings.errors:
            print_errors(sentences, found)


if __name__ == "__main__":
    main()
