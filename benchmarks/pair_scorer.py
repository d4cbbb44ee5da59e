"""Train the scorer of pairs of mentions on the training topics of ECB+, and choose its threshold:

    python benchmarks/pair_scorer.py ../shared/data/ecbplus

This prints the scores of folds of training topics, within gold subtopics and topics. `--train` first trains
on all of them and overwrites the packaged weights. `--end-to-end` scores extracted instead of annotated
mentions of the development topics. `eventformers evaluate --task event_coreference --set
pair_scorer=true` measures these on the development topics.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from eventformers.datasets_scripts import load_built
from eventformers.datasets_scripts.reading.ecbplus import ARCHIVE, read_ecbplus
from eventformers.evaluate_metrics.coreference.coreference_impl import coreference
from eventformers.evaluation.tasks.coreference import document_texts
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractionCounts,
    ExtractionSettings,
    installed_pipeline,
)
from eventformers.extraction.parsed_mentions import parsed_mentions
from eventformers.extraction.texts import TextDocument
from eventformers.inference.coreference.pair_scorer import (
    NUM_FEATURES,
    WEIGHTS,
    MentionPairs,
    PairScorer,
    packaged_scorer,
    text_overlaps,
)
from eventformers.inference.coreference.same_events import linked_pairs, pairs_within, same_events
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import unit_vectors
from eventformers.inference.induction.mention_encoding import encode_mentions

FOLDS = 5
THRESHOLDS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55)


class Training:
    """The mentions of the training topics, with all pairs inside topics, whose two seminal events are alike.

    Every other pair reads the documents whole, as in an exploration, and the others read their annotated
    sentences, as in the task.
    """

    def __init__(self, path: Path) -> None:
        rows = load_built(path, "mentions", builder="event_coreference")["train"].to_list()
        names = {row["document_id"] for row in rows}
        whole = {one.name: one.text for one in read_ecbplus(path / f"{ARCHIVE}.zip") if one.name in names}
        encoder = EventEncoder.from_pretrained(None)
        vectors = encode_mentions(encoder, rows, trigger_input="span").embeddings
        vectors = unit_vectors(vectors, [row["text"] for row in rows])
        pairs = MentionPairs(parsed_mentions(rows), whole, vectors, encoder.encode)
        self.first, self.second = pairs_within(np.array([int(row["topic"]) for row in rows]))
        self.features = np.empty((len(self.first), NUM_FEATURES), dtype=np.float32)
        self.features[::2] = pairs.features(self.first[::2], self.second[::2])
        sentences = document_texts(rows)
        pairs.documents = text_overlaps([sentences[name] for name in whole], stop_words="english")
        self.features[1::2] = pairs.features(self.first[1::2], self.second[1::2])
        self.events = [row["cluster_id"] for row in rows]
        event = np.unique(self.events, return_inverse=True)[1]
        self.labels = event[self.first] == event[self.second]
        subtopics = np.array([row["subtopic"] for row in rows])
        self.in_subtopic = subtopics[self.first] == subtopics[self.second]
        topics = sorted({row["topic"] for row in rows}, key=int)
        self.folds = np.array([topics.index(row["topic"]) % FOLDS for row in rows])[self.first]

    def scorer(self, chosen: np.ndarray) -> PairScorer:
        """Train on some of the pairs."""
        return train(self.features[chosen], self.labels[chosen])


def train(
    features: np.ndarray, labels: np.ndarray, epochs: int = 4, batch_size: int = 2048, seed: int = 0
) -> PairScorer:
    """Learn from the features of pairs and whether they are the same event."""
    inputs, targets = torch.from_numpy(features), torch.from_numpy(labels.astype(np.float32))
    torch.manual_seed(seed)
    scorer = PairScorer()
    scorer.mean, scorer.deviation = inputs.mean(0), inputs.std(0).clamp(min=1e-6)
    optimizer = torch.optim.AdamW(scorer.parameters(), weight_decay=0.01)
    steps = epochs * -(-len(targets) // batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(targets)).split(batch_size):
            logits = scorer.logits(inputs[batch])
            loss = binary_cross_entropy_with_logits(logits, targets[batch].expand_as(logits))
            optimizer.zero_grad()
            # The networks share no weights: the sum trains each as if alone.
            (loss * len(logits)).backward()
            optimizer.step()
            schedule.step()
    return scorer.eval()


def held_out_scores(training: Training) -> Iterator[tuple[str, list[float]]]:
    """CoNLL F1 at each threshold with folds of topics held out, by the topics that are given."""
    probabilities = np.empty(len(training.labels), dtype=np.float32)
    for fold in range(FOLDS):
        held = training.folds == fold
        scorer = training.scorer(~held)
        with torch.inference_mode():
            probabilities[held] = scorer(torch.from_numpy(training.features[held])).numpy()
    for given, kept in (("subtopics", training.in_subtopic), ("topics", slice(None))):
        pairs = training.first[kept], training.second[kept], probabilities[kept], len(training.events)
        groups = (linked_pairs(*pairs, threshold).tolist() for threshold in THRESHOLDS)
        yield given, [coreference(one, training.events)["conll_f1"] for one in groups]


def own_mentions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Extract the events of the annotated sentences, as mentions without a `cluster_id`.

    Args:
        rows: the annotated mentions.
    """
    texts = document_texts(rows)
    place_of = {row["document_id"]: {name: row[name] for name in ("topic", "subtopic")} for row in rows}
    extractor = EventExtractor(ExtractionSettings(installed_pipeline()))
    documents = [TextDocument(name, text, "", "") for name, text in texts.items()]
    found = []
    for extracted in extractor.extract(documents, ExtractionCounts()):
        name = extracted.document.document_id
        for one in extracted.events:
            before, sentences = texts[name][: one.event.offset], texts[name].split("\n")
            start = len(before) - (before.rfind("\n") + 1)
            number = before.count("\n")
            row = {"document_id": name, "text": sentences[number], "sentence": number, **place_of[name]}
            found.append(
                row | {"trigger_start": start, "trigger_end": start + one.trigger_end - one.event.offset}
            )
    return found


def end_to_end(path: Path) -> dict[str, float]:
    """Score the groups of extracted mentions within gold subtopics of the development topics.

    A mention is matched with an annotated one in whose trigger its own starts. Those that are not matched,
    on either side, are events or groups of their own in the other's clustering.
    """
    gold = load_built(path, "mentions", builder="event_coreference")["validation"].to_list()
    rows = own_mentions(gold)
    encoder = EventEncoder.from_pretrained(None)
    vectors = encode_mentions(encoder, rows, trigger_input="span").embeddings
    vectors = unit_vectors(vectors, [row["text"] for row in rows])
    pairs = MentionPairs(parsed_mentions(rows), document_texts(gold), vectors, encoder.encode)
    subtopics = np.unique([row["subtopic"] for row in rows], return_inverse=True)[1]
    groups = same_events(pairs, packaged_scorer(), topics=subtopics).tolist()
    free: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in gold:
        free.setdefault((row["document_id"], row["text"]), []).append(row)
    predicted, references = [], []
    for row, group in zip(rows, groups, strict=True):
        near = free.get((row["document_id"], row["text"]), [])
        matched = [one for one in near if one["trigger_start"] <= row["trigger_start"] < one["trigger_end"]]
        predicted.append(f"group {group}")
        references.append(matched[0]["cluster_id"] if matched else f"alone {len(references)}")
        near[:] = [one for one in near if one not in matched[:1]]
    number = sum(not one.startswith("alone") for one in references)
    print(f"{len(rows):,} extracted mentions, {len(gold):,} annotated ones, {number:,} matched")
    for row in (one for rest in free.values() for one in rest):
        predicted.append(f"missed {len(predicted)}")
        references.append(row["cluster_id"])
    return coreference(predicted, references)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of folds; with `--train`, write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="folder of ECB+.zip and its list of sentences")
    parser.add_argument("--train", action="store_true", help="overwrite the packaged weights")
    parser.add_argument("--end-to-end", action="store_true", help="score extracted mentions instead")
    settings: Any = parser.parse_args(arguments)
    if settings.end_to_end:
        print(end_to_end(settings.path))
        return
    training = Training(settings.path)
    if settings.train:
        training.scorer(np.ones(len(training.labels), dtype=bool)).save(WEIGHTS)
    print("| given | " + " | ".join(map(str, THRESHOLDS)) + " |\n|---|" + "--:|" * len(THRESHOLDS))
    for name, scores in held_out_scores(training):
        print(f"| {name} | " + " | ".join(f"{score:.2f}" for score in scores) + " |", flush=True)


if __name__ == "__main__":
    main()
