"""Train the finder of event nouns and adjectives of `extract`, and test it on topics and corpora left out.

    python benchmarks/event_nouns.py ../shared/data WORDNET
    python benchmarks/event_nouns.py … --output src/eventformers/extraction/nominals.safetensors

WORDNET is the folder of WordNet 3 with `index.noun`, `index.sense` and `data.noun`.

The model is a logistic regression on `nominals.features`. Further features belong to the lemma,
and their weights are added to its own: the supersenses and frequent hypernyms of its senses in WordNet, and
whether these have a verb, weighted by the counts of the senses; and the input embeddings of its word pieces
in all-MiniLM-L6-v2. It learns from the listed sentences of ECB+'s training topics (CC BY 3.0), and from nouns
of open texts that one person judged, `event_nouns.csv`. The corpora of typed triggers annotate few types:
they only test which of their triggers are found.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy.sparse import hstack
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer

from eventformers.datasets_scripts.event_coreference import DEVELOPMENT_TOPICS, EcbDocument, read_ecbplus
from eventformers.extraction.extractor import TextParser, installed_pipeline, load_pipeline
from eventformers.extraction.nominals import CANDIDATES, features, lemma_of
from eventformers.extraction.normalising import place_given
from eventformers.loading.encoders import resolve_encoder

JUDGED = Path(__file__).with_name("event_nouns.csv")
"""Nouns of open texts: document, first character, and whether the noun is an event."""
CHARACTERS = 6_000
"""Beginning of a document in which nouns were judged."""
REGULARISATION = 0.05
LEMMA, SENSE, EMBEDDING = 5.0, 2.0, 0.1
"""Values of the features of a lemma, of its senses and of its embedding; the others have 1."""
JUDGED_WEIGHT = 2.0
"""Weight of a noun of an open text; one of ECB+ has 1."""
FEWEST = 4
"""Times that a feature occurs in the training data."""
FEWEST_LEMMA = 2
FEWEST_SYNSETS = 20
"""Hyponyms of a hypernym that is a feature."""
SMALLEST_WEIGHT = 0.05
UNKNOWN_LEMMA = -1.0
"""Weight of a lemma that is not stored: those near it, and rare ones below."""
NEAR = 0.4
THRESHOLDS = {"noun": -1.22, "adjective": 0.3}
"""Log odds above which a word is an event."""
FOLDS = 5
CARD = {
    "description": "Which nouns and adjectives are events: weights of a logistic regression, by feature.",
    "training_data": "ECB+, training topics (CC BY 3.0, Cybulska and Vossen 2014); judged open texts; "
    "WordNet 3.1 (WordNet licence, Princeton University); word pieces of all-MiniLM-L6-v2 (Apache 2.0)",
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


def judged_texts(path: Path) -> Iterator[Text]:
    """The beginnings of open texts, annotated where a noun was judged."""
    judged = defaultdict(dict)
    with JUDGED.open(newline="") as rows:
        for row in csv.DictReader(rows):
            judged[row["document_id"]][int(row["start"])] = row["is_event"] == "1"
    with gzip.open(path, "rt") as lines:
        for row in map(json.loads, lines):
            if row["id"] in judged:
                nouns = judged[row["id"]]
                events = [{start} for start, is_event in nouns.items() if is_event]
                yield Text(row["text"][:CHARACTERS], set(nouns), events, row["id"])


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
    """The supersenses, hypernyms and verbs of each noun of one word, each with its share in its senses."""
    counts = {key: int(count) for key, _, _, count in map(str.split, (folder / "index.sense").open())}
    hypernyms, supersenses, sense_ids, verbal = {}, {}, {}, set()
    for line in (folder / "data.noun").read_text(errors="replace").splitlines():
        if line[:1].isdigit():
            fields = line.split()
            end = 4 + 2 * int(fields[3], 16)
            words = [word.lower() for word in fields[4:end:2]]
            pointers = fields[end + 1 : end + 1 + 4 * int(fields[end])]
            hypernyms[fields[0]] = []
            for symbol, synset, part, places in zip(*[iter(pointers)] * 4, strict=True):
                if symbol in ("@", "@i"):
                    hypernyms[fields[0]].append(synset)
                elif symbol == "+" and part == "v":
                    verbal.add((fields[0], words[int(places[:2], 16) - 1]))
            supersenses[fields[0]] = fields[1]
            for word, sense in zip(words, fields[5:end:2], strict=True):
                sense_ids[fields[0], word] = int(sense, 16)

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
                shares[f"supersense {supersenses[synset]}"] += share
                if (synset, lemma) in verbal:
                    shares["derived"] += share
                    shares[f"derived {supersenses[synset]}"] += share
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


@cache
def word_pieces() -> tuple[Tokenizer, np.ndarray]:
    """The tokenizer of all-MiniLM-L6-v2, and its input embeddings, `(pieces, size)`."""
    folder = Path(resolve_encoder(None))
    table = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    return Tokenizer.from_file(str(folder / "tokenizer.json")), (table - table.mean(0)) / table.std()


@cache
def embedding(lemma: str) -> np.ndarray:
    """The mean of a lemma's word pieces, `(size,)`."""
    tokenizer, table = word_pieces()
    tokenizer.no_padding()
    return EMBEDDING * table[tokenizer.encode(lemma, add_special_tokens=False).ids or [0]].mean(0)


def train(rows: Sequence[Example], senses: Mapping[str, Senses]) -> dict[str, float]:
    """Fit the model; return the weight of each feature, the constant under ""."""
    counts = Counter(name for row in rows for name in row.features)
    frequent = {name for name, count in counts.items() if count >= (FEWEST if " " in name else FEWEST_LEMMA)}

    def values(row: Example) -> dict[str, float]:
        own = {name: 1.0 if " " in name else LEMMA for name in row.features if name in frequent}
        shares = senses.get(row.lemma, UNKNOWN).shares
        of_senses = {f"sense {name}": SENSE * share for name, share in shares.items()}
        return {**own, **of_senses, "of open text": float("/" in row.group)}

    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform(map(values, rows))
    matrix = hstack([matrix, np.array([embedding(row.lemma) for row in rows])]).tocsr()
    model = LogisticRegression(C=REGULARISATION, max_iter=1000)
    importance = [JUDGED_WEIGHT if "/" in row.group else 1.0 for row in rows]
    model.fit(matrix, [row.is_event for row in rows], importance)
    names = vectorizer.get_feature_names_out()
    of_names, of_embedding = np.split(model.coef_[0], [len(names)])
    fitted = dict(zip(names, of_names.tolist(), strict=True))
    weights = {
        name: weight
        for name, weight in fitted.items()
        if " " in name and name in frequent and abs(weight) >= SMALLEST_WEIGHT
    }
    weights["part ADJ"] = weights.get("part ADJ", 0.0) + THRESHOLDS["noun"] - THRESHOLDS["adjective"]
    weights[""] = float(model.intercept_[0]) - THRESHOLDS["noun"] + UNKNOWN_LEMMA
    for lemma in {*senses, *(name for name in counts if " " not in name)}:
        shares, tagged = senses.get(lemma, UNKNOWN)
        weight = LEMMA * fitted.get(lemma, 0.0) + float(embedding(lemma) @ of_embedding)
        weight += SENSE * sum(share * fitted.get(f"sense {name}", 0.0) for name, share in shares.items())
        if weight > UNKNOWN_LEMMA + NEAR or ((tagged or lemma in counts) and weight < UNKNOWN_LEMMA - NEAR):
            weights[lemma] = weight - UNKNOWN_LEMMA
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
        recall = 100 * len({row.mention for row in right}) / len(wanted) if wanted else float("nan")
        cells += [f"{recall:.1f}", f"{100 * len(right) / given:.1f}" if given else ""]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print recall and precision on what is left out; with an output, train on all and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="Folder of ecbplus, event_types and text.")
    parser.add_argument("wordnet", type=Path, help="Folder of WordNet 3.")
    parser.add_argument("--output", type=Path, help="File of weights to write.")
    settings = parser.parse_args(arguments)
    text_parser, senses = TextParser(load_pipeline(installed_pipeline())), wordnet_senses(settings.wordnet)
    documents = read_ecbplus(settings.data / "ecbplus" / "ECB+.zip")
    topical = ecbplus_texts(one for one in documents if one.topic not in DEVELOPMENT_TOPICS)
    rows = list(examples(text_parser, [text for text in topical if text.annotated]))
    rows += examples(text_parser, list(judged_texts(settings.data / "text" / "docs.jsonl.gz")))
    print("| left out | nouns: recall | precision | adjectives: recall | precision |\n|---|--:|--:|--:|--:|")
    found = np.zeros(len(rows))
    groups = sorted({row.group for row in rows})
    for fold in range(FOLDS):
        held = np.array([row.group in groups[fold::FOLDS] for row in rows])
        weights = train([row for row, is_held in zip(rows, held, strict=True) if not is_held], senses)
        found[held] = scores([row for row, is_held in zip(rows, held, strict=True) if is_held], weights)
    is_open = np.array(["/" in row.group for row in rows])
    for name, kind in (("topics of ECB+", ~is_open), ("open texts", is_open)):
        chosen = [row for row, one in zip(rows, kind, strict=True) if one]
        print(table_row(f"{name}, {FOLDS} folds", chosen, found[kind]))
    weights = train(rows, senses)
    for path in sorted((settings.data / "event_types").glob("*.jsonl*")):
        typed = list(examples(text_parser, list(typed_texts(path))))
        print(table_row(path.name.partition(".")[0], typed, scores(typed, weights)))
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
