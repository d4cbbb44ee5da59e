"""Train the finder of event nouns and adjectives of `extract`, and test it on topics and corpora left out.

    python benchmarks/event_nouns.py ../shared/data/ecbplus/ECB+.zip ../shared/data/event_types WORDNET
    python benchmarks/event_nouns.py … --output src/eventformers/extraction/nominals.safetensors

WORDNET is the folder of WordNet 3 with `index.noun`, `data.noun`, `lexnames` and `cntlist.rev`.

The model is a logistic regression on `nominals.features`. The supersenses and frequent hypernyms of a
lemma's senses in WordNet, weighted by the counts of the senses, are further features, whose weights are added
to that of the lemma. It learns from the listed sentences of ECB+'s training topics and from GENEVA (both CC
BY 3.0). GENEVA annotates only some types of events, so that a word without annotation weighs little there.
The other corpora state no licence and annotate few types: they only test which of their triggers are found.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from eventformers.datasets_scripts.reading.ecbplus import DEVELOPMENT_TOPICS, EcbDocument, read_ecbplus
from eventformers.extraction.extractor import TextParser, installed_pipeline, load_pipeline
from eventformers.extraction.nominals import CANDIDATES, features, lemma_of
from eventformers.extraction.normalising import place_given

REGULARISATION = 0.05
LEMMA, SENSE = 5.0, 2.0
"""Values of the features of a lemma and of its senses; the others have 1."""
GENEVA, UNANNOTATED = 0.3, 0.15
"""Weight of a word of GENEVA, and factor of that of one without annotation; one of ECB+ has 1."""
FEWEST = 4
"""Times that a feature occurs in the training data."""
FEWEST_LEMMA = 2
FEWEST_SYNSETS = 20
"""Hyponyms of a hypernym that is a feature."""
SMALLEST_WEIGHT = 0.05
SMALLEST_LEMMA, SMALLEST_RARE_LEMMA = -0.5, 1.0
"""A lemma with a smaller weight has that of an unknown one; rare lemmas occur in no training text, neither
here nor among WordNet's tagged ones."""
THRESHOLDS = {"noun": -1.2, "adjective": 0.3}
"""Log odds above which a word is an event."""
FOLDS = 5
CARD = {
    "description": "Which nouns and adjectives are events: weights of a logistic regression, by feature.",
    "training_data": "ECB+, training topics (CC BY 3.0, Cybulska and Vossen 2014); GENEVA (CC BY 3.0, "
    "Parekh et al. 2023); WordNet 3.1 (WordNet licence, Princeton University)",
    "license": "CC BY 3.0",
    "script": "benchmarks/event_nouns.py",
}


class Senses(NamedTuple):
    """What WordNet says of a noun of one word: the shares of its supersenses and hypernyms in its senses, and
    its count in the tagged texts."""

    shares: dict[str, float]
    count: int


UNKNOWN = Senses({"unknown": 1.0}, 0)


class Example(NamedTuple):
    """A noun or an adjective: its features, lemma and label, its topic or corpus, and its mention."""

    features: list[str]
    lemma: str
    is_event: bool
    group: str
    mention: tuple[str, int] | None
    is_noun: bool


class Text(NamedTuple):
    """A text, the characters that are annotated, those of each event, and its topic or corpus."""

    text: str
    annotated: set[int]
    events: list[set[int]]
    group: str


def ecbplus_texts(documents: Iterable[EcbDocument]) -> Iterator[Text]:
    """The documents of ECB+, annotated in their listed sentences."""
    for document in documents:
        places = [set(range(*place)) for place in document.places]
        listed = [sentence in document.listed for sentence in document.sentences]
        yield Text(
            document.text,
            set().union(*(place for place, is_listed in zip(places, listed, strict=True) if is_listed)),
            [
                set().union(*(places[token] for token in mention.tokens))
                for mention in document.listed_mentions()
                if mention.is_event
            ],
            document.topic,
        )


def typed_texts(path: Path) -> Iterator[Text]:
    """The sentences of a corpus of typed triggers, JSON lines."""
    tokens, triggers = {}, defaultdict(list)
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for row in map(json.loads, lines):
            tokens[row["sent_id"]] = row["tokens"]
            triggers[row["sent_id"]].append(row["trigger"])
    for sentence, words in tokens.items():
        starts = np.cumsum([0, *(len(word) + 1 for word in words)])
        events = [
            set(range(starts[trigger["start_token"]], starts[trigger["end_token"]] - 1))
            for trigger in triggers[sentence]
        ]
        text = " ".join(words)
        yield Text(text, set(range(len(text))), events, path.name.partition(".")[0])


def examples(parser: TextParser, texts: Sequence[Text]) -> Iterator[Example]:
    """The nouns and adjectives of annotated sentences; of a mention of several words only its head."""
    for start in range(0, len(texts), 200):
        batch = [(text, parser.normalised(text.text)) for text in texts[start : start + 200]]
        for number, (doc, text) in enumerate(parser.parse(batch), start=start):
            mention_of = {place: event for event, places in enumerate(text.events) for place in places}
            mentions = [mention_of.get(place_given(token)[0], -1) for token in doc]
            for token in doc:
                mention = mentions[token.i]
                is_head = token.head.i == token.i or mentions[token.head.i] != mention
                is_annotated = place_given(token)[0] in text.annotated and (mention < 0 or is_head)
                if token.pos_ in CANDIDATES and is_annotated:
                    yield Example(
                        list(features(token)),
                        lemma_of(token),
                        mention >= 0,
                        text.group,
                        (f"{text.group} {number}", mention) if mention >= 0 else None,
                        token.pos_ != "ADJ",
                    )


def wordnet_senses(folder: Path) -> dict[str, Senses]:
    """The supersenses and hypernyms of each noun of one word, each with its share in the noun's senses."""
    names = dict(line.split()[:2] for line in (folder / "lexnames").read_text().splitlines())
    counts = {key: int(count) for key, _, count, *_ in map(str.split, (folder / "cntlist.rev").open())}
    hypernyms, supersenses, sense_ids = {}, {}, {}
    for line in (folder / "data.noun").read_text(errors="replace").splitlines():
        if line[:1].isdigit():
            fields = line.split()
            end = 4 + 2 * int(fields[3], 16)
            pointers = fields[end + 1 : end + 1 + 4 * int(fields[end])]
            hypernyms[fields[0]] = [
                pointers[place + 1] for place in range(0, len(pointers), 4) if pointers[place] in ("@", "@i")
            ]
            supersenses[fields[0]] = fields[1]
            for word, sense in zip(fields[4:end:2], fields[5:end:2], strict=True):
                sense_ids[fields[0], word.lower()] = int(sense, 16)

    closures: dict[str, frozenset[str]] = {}

    def closure(synset: str) -> frozenset[str]:
        if synset not in closures:
            closures[synset] = frozenset({synset}).union(*map(closure, hypernyms[synset]))
        return closures[synset]

    hyponyms = Counter(name for synset in hypernyms for name in closure(synset))
    senses: dict[str, Senses] = {}
    for line in (folder / "index.noun").read_text().splitlines():
        lemma, *fields = line.split()
        if not line[:1].isspace() and "_" not in lemma:
            synsets = fields[-int(fields[1]) :]
            keys = (f"{lemma}%1:{supersenses[one]}:{sense_ids[one, lemma]:02d}::" for one in synsets)
            tagged = np.array([counts.get(key, 0) for key in keys])
            weights = tagged + 1 / np.arange(1, len(tagged) + 1)
            shares: Counter[str] = Counter()
            for synset, share in zip(synsets, (weights / weights.sum()).tolist(), strict=True):
                shares[f"supersense {names[supersenses[synset]]}"] += share
                for name in closure(synset):
                    if hyponyms[name] >= FEWEST_SYNSETS:
                        shares[f"hypernym {name}"] += share
            senses[lemma] = Senses(dict(shares), int(tagged.sum()))
    return senses


def wordnet_license(folder: Path) -> str:
    """The notice at the head of WordNet's files, which must come with what is made of them."""
    lines = (folder / "data.noun").read_text(errors="replace").splitlines()
    words = [word for line in lines if line.startswith("  ") for word in line.split()[1:]]
    return " ".join(words)


def train(rows: Sequence[Example], senses: Mapping[str, Senses]) -> dict[str, float]:
    """Fit the model; return the weight of each feature, the constant under ""."""
    counts = Counter(name for row in rows for name in row.features)
    frequent = {name for name, count in counts.items() if count >= (FEWEST if " " in name else FEWEST_LEMMA)}

    def values(row: Example) -> dict[str, float]:
        own = {name: 1.0 if " " in name else LEMMA for name in row.features if name in frequent}
        shares = senses.get(row.lemma, UNKNOWN).shares
        of_senses = {f"sense {name}": SENSE * share for name, share in shares.items()}
        return {**own, **of_senses, "of geneva": float(row.group == "geneva")}

    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform(map(values, rows))
    importance = [
        (1.0 if row.is_event else UNANNOTATED) * GENEVA if row.group == "geneva" else 1.0 for row in rows
    ]
    model = LogisticRegression(C=REGULARISATION, max_iter=1000)
    model.fit(matrix, [row.is_event for row in rows], importance)
    fitted = dict(zip(vectorizer.get_feature_names_out(), model.coef_[0].tolist(), strict=True))
    weights = {
        name: weight
        for name, weight in fitted.items()
        if " " in name and name in frequent and abs(weight) >= SMALLEST_WEIGHT
    }
    weights["part ADJ"] = weights.get("part ADJ", 0.0) + THRESHOLDS["noun"] - THRESHOLDS["adjective"]
    weights[""] = float(model.intercept_[0]) - THRESHOLDS["noun"] + SMALLEST_LEMMA
    for lemma in {*senses, *(name for name in counts if " " not in name)}:
        shares, tagged = senses.get(lemma, UNKNOWN)
        weight = LEMMA * fitted.get(lemma, 0.0)
        weight += SENSE * sum(share * fitted.get(f"sense {name}", 0.0) for name, share in shares.items())
        if weight > (SMALLEST_LEMMA if tagged or lemma in counts else SMALLEST_RARE_LEMMA):
            weights[lemma] = weight - SMALLEST_LEMMA
    return weights


def scores(rows: Sequence[Example], weights: Mapping[str, float]) -> np.ndarray:
    """The score of each word; above 0 it is an event."""
    return np.array([sum(weights.get(name, 0.0) for name in row.features) + weights[""] for row in rows])


def table_row(name: str, rows: Sequence[Example], found: np.ndarray) -> str:
    """Recall of mentions and precision of words, for nouns and for adjectives."""
    cells = [name]
    for is_noun in (True, False):
        chosen = [place for place, row in enumerate(rows) if row.is_noun == is_noun]
        wanted = {rows[place].mention for place in chosen if rows[place].is_event}
        right = [rows[place] for place in chosen if found[place] > 0 and rows[place].is_event]
        given = sum(found[place] > 0 for place in chosen)
        cells += [
            f"{100 * len({row.mention for row in right}) / len(wanted):.1f}",
            f"{100 * len(right) / given:.1f}",
        ]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print recall and precision on what is left out; with an output, train on all and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ecbplus", type=Path, help="ECB+.zip or its folder.")
    parser.add_argument(
        "event_types", type=Path, help="Folder of geneva.jsonl.gz, fewevent.jsonl and m2e2.jsonl."
    )
    parser.add_argument("wordnet", type=Path, help="Folder of WordNet 3.")
    parser.add_argument("--output", type=Path, help="File of weights to write.")
    settings = parser.parse_args(arguments)
    text_parser, senses = TextParser(load_pipeline(installed_pipeline())), wordnet_senses(settings.wordnet)
    documents = (one for one in read_ecbplus(settings.ecbplus) if one.topic not in DEVELOPMENT_TOPICS)
    topical = list(examples(text_parser, [text for text in ecbplus_texts(documents) if text.annotated]))
    typed = {
        path.name.partition(".")[0]: list(examples(text_parser, list(typed_texts(path))))
        for path in sorted(settings.event_types.glob("*.jsonl*"))
    }
    print("| left out | nouns: recall | precision | adjectives: recall | precision |\n|---|--:|--:|--:|--:|")
    found = np.zeros(len(topical))
    topics = sorted({row.group for row in topical}, key=int)
    for fold in range(FOLDS):
        left_out = topics[fold::FOLDS]
        kept = [row for row in topical if row.group not in left_out]
        held = np.array([row.group in left_out for row in topical])
        found[held] = scores(
            [row for row in topical if row.group in left_out], train(kept + typed["geneva"], senses)
        )
    print(table_row(f"topics of ECB+, {FOLDS} folds", topical, found))
    print(table_row("ECB+", topical, scores(topical, train(typed["geneva"], senses))))
    weights = train(topical + typed["geneva"], senses)
    for name in typed:
        chosen = train(topical, senses) if name == "geneva" else weights
        print(table_row(name, typed[name], scores(typed[name], chosen)))
    if settings.output is not None:
        names = sorted(weights)
        tensors = {
            "names": np.frombuffer("\n".join(names).encode("utf-8"), np.uint8),
            "weights": np.array([weights[name] for name in names], np.float16),
        }
        save_file(tensors, settings.output, {**CARD, "wordnet_license": wordnet_license(settings.wordnet)})
        print(f"{len(names):,} features, {settings.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
