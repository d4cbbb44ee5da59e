"""Train the scorer of pairs of mentions on ECB+, and measure it on the development topics:

    python benchmarks/pair_scorer.py ../shared/data/ecbplus/ECB+.zip

`--train` trains first and overwrites the packaged weights. Parsing takes most of the time.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from spacy.tokens import Doc, Token
from torch.nn.functional import binary_cross_entropy_with_logits

from eventformers.datasets_scripts.reading.ecbplus import DEVELOPMENT_TOPICS, EcbDocument, read_ecbplus
from eventformers.evaluate_metrics.coreference.coreference_impl import coreference
from eventformers.extraction.extractor import installed_pipeline, load_pipeline
from eventformers.inference.coreference.pair_scorer import WEIGHTS, MentionPairs, PairScorer
from eventformers.inference.coreference.same_events import same_events
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import unit_vectors
from eventformers.inference.induction.mention_encoding import encode_mentions

SCORES = ("conll_f1", "muc_f1", "b_cubed_f1", "ceafe_f1", "lea_f1")
KINDS = {"NOUN": "noun", "PROPN": "noun", "ADJ": "adjective"}


def mentions_of(documents: Sequence[EcbDocument]) -> list[dict[str, Any]]:
    """The mentions of events in the listed sentences, with the lemma and the kind of their heads."""
    pipeline = load_pipeline(installed_pipeline())
    rows: list[dict[str, Any]] = []
    for document in documents:
        by_sentence = defaultdict(list)
        for mention in document.listed_mentions():
            if mention.is_event:
                by_sentence[document.sentences[mention.tokens[0]]].append(mention)
        for sentence, mentions in by_sentence.items():
            inside = [place for place, number in enumerate(document.sentences) if number == sentence]
            parsed = Doc(pipeline.vocab, words=[document.tokens[place] for place in inside])
            for _, component in pipeline.pipeline:
                parsed = component(parsed)
            start = document.places[inside[0]][0]
            for mention in mentions:
                tokens = [parsed[place - inside[0]] for place in mention.tokens if place in inside]
                head = min(tokens, key=lambda token: len(list(token.ancestors)))
                rows.append(
                    {
                        "document_id": document.name,
                        "topic": document.topic,
                        "subtopic": document.topic + document.name.rpartition("_")[2].lstrip("0123456789"),
                        "chain": mention.chain or f"{document.name}#{mention.id}",
                        "sentence": sentence,
                        "text": document.text[start : document.places[inside[-1]][1]],
                        "trigger_start": document.places[mention.tokens[0]][0] - start,
                        "trigger_end": document.places[mention.tokens[-1]][1] - start,
                        "lemma": head.lemma_.lower(),
                        "trigger_kind": KINDS.get(head.pos_, "verb"),
                        "participants": _participants(head),
                    }
                )
    return rows


def _participants(head: Token) -> set[str]:
    """The subject and the object of a verb, by their heads."""
    return {
        child.lower_
        for child in head.children
        if child.dep_ in ("nsubj", "nsubjpass", "dobj") and child.pos_ in ("NOUN", "PROPN")
    }


def pairs_of(
    rows: Sequence[dict[str, Any]], documents: Sequence[EcbDocument], encoder: EventEncoder
) -> MentionPairs:
    """The features of the pairs of mentions, whose words are weighted in these documents."""
    names = {row["document_id"] for row in rows}
    texts = {document.name: document.text for document in documents if document.name in names}
    vectors = encode_mentions(encoder, rows, trigger_input="span").embeddings
    return MentionPairs(rows, texts, unit_vectors(vectors, [row["text"] for row in rows]), encoder.encode)


def train(
    rows: Sequence[dict[str, Any]], pairs: MentionPairs, epochs: int = 4, batch_size: int = 1024
) -> PairScorer:
    """Learn from all pairs within the subtopics, whose events are the most alike."""
    by_subtopic = defaultdict(list)
    for place, row in enumerate(rows):
        by_subtopic[row["subtopic"]].append(place)
    first, second = np.array([pair for places in by_subtopic.values() for pair in combinations(places, 2)]).T
    chains = np.array([row["chain"] for row in rows])
    labels = torch.from_numpy((chains[first] == chains[second]).astype(np.float32))
    features = torch.from_numpy(pairs.features(first, second))
    torch.manual_seed(0)
    scorer = PairScorer(features.shape[1])
    scorer.mean, scorer.deviation = features.mean(0), features.std(0).clamp(min=1e-6)
    optimizer = torch.optim.AdamW(scorer.parameters(), weight_decay=0.01)
    steps = epochs * -(-len(labels) // batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(batch_size):
            logits = scorer.logits(features[batch])
            loss = binary_cross_entropy_with_logits(logits, labels[batch].expand_as(logits))
            optimizer.zero_grad()
            # The networks share no weights: the sum trains each as if alone.
            (loss * len(logits)).backward()
            optimizer.step()
            schedule.step()
    return scorer.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="ECB+.zip or the folder ECB+")
    parser.add_argument("--train", action="store_true", help="train, and overwrite the packaged weights")
    settings = parser.parse_args()
    documents = list(read_ecbplus(settings.path))
    is_held_out = {document.name: document.topic in DEVELOPMENT_TOPICS for document in documents}
    rows = mentions_of(documents)
    encoder = EventEncoder.from_pretrained(None)
    if settings.train:
        of_training = [row for row in rows if not is_held_out[row["document_id"]]]
        train(of_training, pairs_of(of_training, documents, encoder)).save(WEIGHTS)
    scorer = PairScorer.load()
    held_out = [row for row in rows if is_held_out[row["document_id"]]]
    gold = [row["chain"] for row in held_out]
    systems = {
        "same lemma": [row["lemma"] for row in held_out],
        "pair scorer": same_events(pairs_of(held_out, documents, encoder), scorer).tolist(),
    }
    print("| system | topics | " + " | ".join(SCORES) + " |\n|---|---|" + "---|" * len(SCORES))
    for scope, given in (("subtopic", "gold subtopics"), ("topic", "gold topics"), ("", "none")):
        for name, clusters in systems.items():
            # Given topics divide clusters that span several.
            found = [f"{row.get(scope)}/{cluster}" for row, cluster in zip(held_out, clusters, strict=True)]
            scores = coreference(found, gold)
            print(f"| {name} | {given} | " + " | ".join(f"{scores[one]:.1f}" for one in SCORES) + " |")


if __name__ == "__main__":
    main()
