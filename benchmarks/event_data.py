"""Event data against the owners' annotation of ECB+, on the development topics' listed sentences.

    python benchmarks/event_data.py ../shared/data/ecbplus/ECB+.zip

Each aspect is a function of the documents and what was extracted from them, and prints a table in Markdown.
Documents are extracted whole, with a sentence a line; only the listed sentences are scored. What ECB+ does
not annotate is judged in `tests/extraction/judged`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, Token

from eventformers.datasets_scripts.event_coreference import DEVELOPMENT_TOPICS, EcbDocument, read_ecbplus
from eventformers.datasets_scripts.events import FACTUALITIES
from eventformers.extraction.chains import clusters_by_head, coreference_clusters
from eventformers.extraction.details.places import find_places
from eventformers.extraction.details.times import find_times
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractedDocument,
    ExtractionCounts,
    ExtractionSettings,
    installed_pipeline,
)
from eventformers.extraction.normalising import place_given
from eventformers.extraction.texts import TextDocument

JUDGED = Path(__file__).resolve().parents[1] / "tests" / "extraction" / "judged"
KINDS = {"VERB": "verb", "AUX": "verb", "NOUN": "noun", "PROPN": "noun", "ADJ": "adjective"}
"""The kind of a mention by the part of speech of its head; others, such as "it" and "out", are `other`."""


class Extracted(NamedTuple):
    """A document, its parse, and what was extracted from it; None if that is nothing."""

    document: EcbDocument
    doc: Doc
    events: ExtractedDocument | None


def extracted(documents: Iterable[EcbDocument], settings: ExtractionSettings) -> Iterator[Extracted]:
    """Extract from the whole text of each document."""
    extractor, counts = EventExtractor(settings), ExtractionCounts()
    for document in documents:
        text = TextDocument(document.name, document.text, "ecb+", "CC BY 3.0")
        ((doc, _),) = extractor.parser.parse([(None, extractor.parser.normalised(document.text))])
        yield Extracted(document, doc, extractor.extract_parsed(doc, text, counts))


def listed_places(document: EcbDocument) -> set[int]:
    """The characters of the listed sentences."""
    return {
        place
        for (start, end), sentence in zip(document.places, document.sentences, strict=True)
        if sentence in document.listed
        for place in range(start, end)
    }


def mention_head(tokens: Sequence[Token]) -> Token:
    """The first token of a mention whose head is outside."""
    within = {token.i for token in tokens}
    return next((one for one in tokens if one.head.i == one.i or one.head.i not in within), tokens[0])


def triggers(items: Iterable[Extracted]) -> str:
    """Recall of ACTION mentions by kind, and precision of triggers, for which any part of a mention counts.

    A mention is found if a trigger is one of its words; a trigger is right if it is a word of a mention.
    """
    wanted, found = Counter[str](), Counter[str]()
    given, right = Counter[str](), Counter[str]()
    for document, doc, events in items:
        word_at = {
            place: token for token in doc if not token.is_space for place in range(*place_given(token))
        }
        listed = listed_places(document)
        rows = events.events if events else []
        kind_of = {
            one["trigger_start"]: one["trigger_kind"] for one in rows if one["trigger_start"] in listed
        }
        places = {
            mention: {place for number in mention.tokens for place in range(*document.places[number])}
            for mention in document.listed_mentions()
            if mention.is_event
        }
        for mention in places.values():
            tokens = list(dict.fromkeys(word_at[place] for place in sorted(mention) if place in word_at))
            kind = KINDS.get(mention_head(tokens).pos_, "other") if tokens else "other"
            wanted[kind] += 1
            found[kind] += not mention.isdisjoint(kind_of)
        inside = set().union(*places.values())
        given.update(kind_of.values())
        right.update(kind for place, kind in kind_of.items() if place in inside)
    lines = [
        "| kind | mentions | found | recall | triggers | right | precision |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for kind in ("verb", "noun", "adjective", "other", "all"):
        counts = [part.total() if kind == "all" else part[kind] for part in (wanted, found, given, right)]
        recall, precision = (
            f"{100 * one / all_:.1f}" if all_ else "" for all_, one in (counts[:2], counts[2:])
        )
        lines.append(
            f"| {kind} | {counts[0]} | {counts[1]} | {recall} | {counts[2]} | {counts[3]} | {precision} |"
        )
    return "\n".join(lines)


def judged_factuality(pipeline: str, name: str, held_out: bool = True) -> list[tuple[dict[str, Any], str]]:
    """The events of a file of judged factuality, or of one half, each with what extraction gives it.

    `factuality` has events of verbs in two halves, `factuality_of_nouns` events of nouns.
    """
    settings = ExtractionSettings(pipeline, triggers="verbs" if name == "factuality" else "all")
    extractor, counts = EventExtractor(settings), ExtractionCounts()
    rows = [row for row in read_judged(name) if row.get("held_out", True) == held_out]
    texts = [
        TextDocument(str(number), row["before"] + row["sentence"], "", "") for number, row in enumerate(rows)
    ]
    found = {
        (one["document_id"], one["trigger_start"]): one["factuality"]
        for of_text in extractor.extract(texts, counts)
        for one in of_text.events
    }
    places = [(str(number), len(row["before"]) + row["start"]) for number, row in enumerate(rows)]
    return [(row, found.get(place, "")) for row, place in zip(rows, places, strict=True)]


def judged_nouns(pipeline: str, triggers: str) -> Counter[str]:
    """What the nouns of `nouns.jsonl` that are found as events are, by reading: `yes`, `partly` or `no`, each
    read in its sentence alone."""
    extractor, counts = EventExtractor(ExtractionSettings(pipeline, triggers=triggers)), ExtractionCounts()
    rows = read_judged("nouns")
    texts = [TextDocument(str(number), row["sentence"], "", "") for number, row in enumerate(rows)]
    found = {
        (one["document_id"], one["trigger_start"])
        for of_text in extractor.extract(texts, counts)
        for one in of_text.events
        if one["trigger_kind"] == "noun"
    }
    places = [(str(number), row["start"]) for number, row in enumerate(rows)]
    return Counter(row["is_event"] for row, place in zip(rows, places, strict=True) if place in found)


def nouns(_: Sequence[Extracted]) -> str:
    """Events among the judged nouns of open texts, for which no weight was learned."""
    wanted = Counter(row["is_event"] for row in read_judged("nouns"))
    lines = ["| triggers | events | partly | none |", "|---|--:|--:|--:|"]
    for name in ("all", "sure"):
        found = judged_nouns(installed_pipeline(), name)
        cells = [f"{found[one]} of {wanted[one]}" for one in ("yes", "partly", "no")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def factuality_scores(judged: Sequence[tuple[dict[str, Any], str]]) -> dict[str, float]:
    """F1 of each kind of factuality, and their mean, `macro`."""
    pairs = Counter((row["factuality"], given) for row, given in judged)
    scores = {}
    for kind in FACTUALITIES:
        wanted = sum(count for (one, _), count in pairs.items() if one == kind)
        given = sum(count for (_, one), count in pairs.items() if one == kind)
        scores[kind] = 2 * pairs[kind, kind] / (wanted + given)
    return {**scores, "macro": sum(scores.values()) / len(scores)}


def factuality(_: Sequence[Extracted]) -> str:
    """F1 of factuality on judged events of open texts; the rules were written on the first half."""
    lines = [
        "| half | events | fact | negated | possible | reported | macro F1 |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, held_out in (("rules written on it", False), ("held out", True)):
        judged = judged_factuality(installed_pipeline(), "factuality", held_out)
        scores = " | ".join(f"{score:.3f}" for score in factuality_scores(judged).values())
        lines.append(f"| {name} | {len(judged)} | {scores} |")
    nouns = judged_factuality(installed_pipeline(), "factuality_of_nouns")
    for name, rows in (
        ("nouns", nouns),
        ("that name an event", [one for one in nouns if one[0]["is_event"]]),
    ):
        right = sum(row["factuality"] == given for row, given in rows)
        lines.append(f"\n{right} of {len(rows)} {name} are right.")
    return "\n".join(lines)


def span_scores(items: Iterable[Extracted], kind: str, find: Callable[[Doc], Iterable[Span]]) -> str:
    """Recall and precision of spans against mentions whose kind begins so; any common character counts."""
    wanted = found = given = right = 0
    for document, doc, _ in items:
        listed = listed_places(document)
        mentions = [
            {place for number in mention.tokens for place in range(*document.places[number])}
            for mention in document.listed_mentions()
            if mention.kind.startswith(kind)
        ]
        spans = [set(range(*place_given(span))) for span in find(doc)]
        spans = [span for span in spans if not listed.isdisjoint(span)]
        wanted, given = wanted + len(mentions), given + len(spans)
        found += sum(any(not span.isdisjoint(mention) for span in spans) for mention in mentions)
        right += sum(any(not span.isdisjoint(mention) for mention in mentions) for span in spans)
    return (
        "| mentions | found | recall | spans | right | precision |\n|--:|--:|--:|--:|--:|--:|\n"
        f"| {wanted} | {found} | {100 * found / wanted:.1f} | {given} | {right} | {100 * right / given:.1f} |"
    )


def judged_times(pipeline: str, held_out: bool) -> float:
    """Share of right values among the times of one half of `times.jsonl`; some have no value."""
    extractor = EventExtractor(ExtractionSettings(pipeline))
    rows = [row for row in read_judged("times") if row["held_out"] == held_out]
    parsed = extractor.parser.parse((row, extractor.parser.normalised(row["sentence"])) for row in rows)
    right = 0
    for doc, row in parsed:
        values = {place_given(time.span): time.value for time in find_times(doc, row["date"])}
        inside = [values[place] for place in values if place[0] < row["end"] and place[1] > row["start"]]
        right += (inside[0] if inside else ("", "")) == (row["time_start"], row["time_end"])
    return right / len(rows)


def times(items: Sequence[Extracted]) -> str:
    """Spans of times, and the share of right values of times that were judged by hand."""
    spans = span_scores(items, "TIME_", lambda doc: (time.span for time in find_times(doc, "")))
    pipeline = installed_pipeline()
    written, held_out = (100 * judged_times(pipeline, half) for half in (False, True))
    return (
        f"{spans}\n\nRight values: {written:.1f} % of those seen before, {held_out:.1f} % of those held out."
    )


def judged_places(pipeline: str, held_out: bool) -> tuple[int, int]:
    """Numbers of right and of given countries among the places of one half of `places.jsonl`, each read in
    its sentence alone; what is no place has no right country."""
    extractor = EventExtractor(ExtractionSettings(pipeline))
    rows = [row for row in read_judged("places") if row["held_out"] == held_out]
    parsed = extractor.parser.parse((row, extractor.parser.normalised(row["sentence"])) for row in rows)
    right = given = 0
    for doc, row in parsed:
        entries = {place_given(place.span)[0]: place.entry for place in find_places(doc)}
        if (entry := entries.get(row["start"])) is not None:
            given += 1
            right += entry.country == row["country"]
    return right, given


def places(items: Sequence[Extracted]) -> str:
    """Spans of places, and the right countries of places that were judged by hand."""
    spans = span_scores(items, "LOC_", lambda doc: (place.span for place in find_places(doc)))
    seen, held_out = (judged_places(installed_pipeline(), half) for half in (False, True))
    of_halves = "right countries: {} of {} seen before, {} of {} held out".format(*seen, *held_out)
    return f"{spans}\n\nPlaces in their sentence alone, {of_halves}."


def coreference(items: Sequence[Extracted]) -> str:
    """Links between the HUMAN_PART mentions of a document: precision and recall of all pairs of mentions.

    A mention of ECB+ is that of the system whose head it has; pairs with other mentions do not count.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for document, doc, _ in items:
        word_at = {
            place: token for token in doc if not token.is_space for place in range(*place_given(token))
        }
        chains: dict[int, str] = {}
        for mention in document.listed_mentions():
            places = (place for number in mention.tokens for place in range(*document.places[number]))
            tokens = list(dict.fromkeys(word_at[place] for place in places if place in word_at))
            if mention.kind.startswith("HUMAN_PART") and tokens:
                chains[mention_head(tokens).i] = mention.chain or mention.id
        clusters = clusters_by_head(coreference_clusters(doc) or [])
        for first, second in combinations(sorted(chains), 2):
            heads = doc[first].pos_, doc[second].pos_
            kind = "pronoun" if "PRON" in heads else "name" if heads == ("PROPN", "PROPN") else "noun"
            wanted = chains[first] == chains[second]
            given = first in clusters and clusters[first] == clusters.get(second)
            for name in (kind, "all"):
                counts.update({(name, "wanted"): wanted, (name, "given"): given})
                counts[name, "right"] += wanted and given
    lines = ["| links | wanted | given | right | precision | recall |", "|---|--:|--:|--:|--:|--:|"]
    for name in ("name", "noun", "pronoun", "all"):
        wanted, given, right = (counts[name, part] for part in ("wanted", "given", "right"))
        precision, recall = (f"{100 * right / one:.1f}" if one else "" for one in (given, wanted))
        lines.append(f"| {name} | {wanted} | {given} | {right} | {precision} | {recall} |")
    return "\n".join(lines)


def judged_pronouns(pipeline: str, held_out: bool) -> Counter[str]:
    """What becomes of the pronouns of `pronouns.jsonl` of one half.

    Returns:
        The number of `right` and `wrong` answers, of `silent` ones where the text has an antecedent, and of
        `empty` ones where it has none.
    """
    parser = EventExtractor(ExtractionSettings(pipeline)).parser
    counts: Counter[str] = Counter()
    for row in read_judged("pronouns"):
        if row["held_out"] != held_out:
            continue
        ((doc, _),) = parser.parse([(None, parser.normalised(row["text"]))])
        pronoun = next(token for token in doc if not token.is_space and place_given(token)[1] > row["start"])
        found: list[Span] = []
        for cluster in coreference_clusters(doc) or []:
            if any(span.root.i == pronoun.i for span in cluster):
                found = cluster
        words = {token.lower_ for span in found if span.root.pos_ != "PRON" for token in span}
        if not found:
            counts["silent" if row["antecedents"] else "empty"] += 1
        else:
            counts["wrong" if words.isdisjoint(row["antecedents"]) else "right"] += 1
    return counts


def pronouns(_: Sequence[Extracted]) -> str:
    """Answers for judged pronouns of open texts; the rules were written on the first half."""
    lines = [
        "| half | pronouns | right | wrong | no answer | rightly none | accuracy of answers |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, held_out in (("rules written on it", False), ("held out", True)):
        counts = judged_pronouns(installed_pipeline(), held_out)
        right, wrong, silent, empty = (counts[part] for part in ("right", "wrong", "silent", "empty"))
        accuracy = 100 * right / (right + wrong)
        lines.append(
            f"| {name} | {counts.total()} | {right} | {wrong} | {silent} | {empty} | {accuracy:.1f} |"
        )
    return "\n".join(lines)


def read_judged(name: str) -> list[dict[str, Any]]:
    """The rows of a file of `tests/extraction/judged`."""
    lines = (JUDGED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


ASPECTS: dict[str, Callable[[Sequence[Extracted]], str]] = {
    "triggers": triggers,
    "nouns": nouns,
    "factuality": factuality,
    "coreference": coreference,
    "pronouns": pronouns,
    "times": times,
    "places": places,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of each aspect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="ECB+.zip or its folder.")
    parser.add_argument("--aspect", choices=ASPECTS, action="append", help="Repeatable. Default: all.")
    parser.add_argument(
        "--topics", nargs="+", default=DEVELOPMENT_TOPICS, help="Default: development topics."
    )
    settings = parser.parse_args(arguments)
    pipeline = installed_pipeline()
    items = list(extracted(read_ecbplus(settings.path, settings.topics), ExtractionSettings(pipeline)))
    print(f"{len(items)} documents, pipeline {pipeline}")
    for name in settings.aspect or ASPECTS:
        print(f"\n## {name}\n\n{ASPECTS[name](items)}")


if __name__ == "__main__":
    main()
