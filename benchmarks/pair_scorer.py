"""Train the scorer of pairs of mentions on the training topics of ECB+, and choose its threshold:

    python benchmarks/pair_scorer.py ../shared/data/ecbplus

This prints the scores of the networks by folds of training topics, within gold subtopics and topics, and
`--fold 0` those with an encoder that is tuned without the topics of a fold. `--train` trains on all topics
and overwrites the packaged weights. `--end-to-end` scores extracted instead of annotated mentions of the
development topics. `eventformers evaluate --task event_coreference --set pair_scorer=true` measures these on
the development topics.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from eventformers.datasets_scripts import load_built
from eventformers.datasets_scripts.event_coreference import ARCHIVE, read_ecbplus
from eventformers.evaluate_metrics.coreference.coreference_impl import coreference
from eventformers.evaluation.tasks.coreference import document_texts, parsed_mentions
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractionCounts,
    ExtractionSettings,
    installed_pipeline,
)
from eventformers.extraction.texts import TextDocument
from eventformers.inference.coreference.same_events import (
    ENCODER,
    WEIGHTS,
    MentionPairs,
    PairScorer,
    linked_pairs,
    packaged_scorer,
    pairs_within,
    same_events,
    text_overlaps,
    tuned_encoder,
)
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import unit_vectors
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.models.pooling import mean_pool
from eventformers.models.processing_event_type_induction import Mention, trigger_mask
from eventformers.release.packaging import low_rank

FOLDS = 5
THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)

UPPER_LAYERS = 3
SENTENCES = 24
"""Number of sentences of a subtopic in a step: all of most."""

START_WEIGHT, KEPT = 6.0, 0.5
"""Weight of the difference of cosines in the logit, as training starts, and the share of the trained one that
is best where topics are held out."""

RANK = 32
"""Rank of the packaged changes of matrices."""


class Training:
    """The mentions of the training topics, with all pairs inside topics, whose two seminal events are alike.

    Every other pair of `features` reads the documents whole, as in an exploration, and the others read their
    annotated sentences, as in the task and as all `task_features`.
    """

    def __init__(self, path: Path) -> None:
        rows = load_built(path, "mentions", builder="event_coreference")["train"].to_list()
        names = {row["document_id"] for row in rows}
        whole = {one.name: one.text for one in read_ecbplus(path / f"{ARCHIVE}.zip") if one.name in names}
        encoder = EventEncoder.from_pretrained(None)
        vectors = mention_vectors(encoder, rows)
        pairs = MentionPairs(parsed_mentions(rows), whole, vectors, vectors.__getitem__, encoder.encode)
        self.rows, self.vectors = rows, vectors
        self.first, self.second = pairs_within(np.array([int(row["topic"]) for row in rows]))
        in_whole = pairs.features(self.first[::2], self.second[::2])
        sentences = document_texts(rows)
        pairs.documents = text_overlaps([sentences[name] for name in whole], stop_words="english")
        self.task_features = pairs.features(self.first, self.second)
        self.features = self.task_features.copy()
        self.features[::2] = in_whole
        self.events = [row["cluster_id"] for row in rows]
        event = np.unique(self.events, return_inverse=True)[1]
        self.labels = event[self.first] == event[self.second]
        self.subtopics = np.array([row["subtopic"] for row in rows])
        self.in_subtopic = self.subtopics[self.first] == self.subtopics[self.second]
        topics = sorted({row["topic"] for row in rows}, key=int)
        self.folds = np.array([topics.index(row["topic"]) % FOLDS for row in rows])[self.first]

    def scorer(self, chosen: np.ndarray) -> PairScorer:
        """Train on some of the pairs."""
        return train(self.features[chosen], self.labels[chosen])

    def held_out_logits(self) -> np.ndarray:
        """The mean logits of networks that are trained without the fold of a pair, from `features` and from
        `task_features`, `(2, pairs)`."""
        logits = np.empty((2, len(self.labels)), dtype=np.float32)
        for fold in range(FOLDS):
            held = self.folds == fold
            scorer = self.scorer(~held)
            for row, features in zip(logits, (self.features, self.task_features), strict=True):
                with torch.inference_mode():
                    untuned = scorer.logits(torch.from_numpy(features[held]), torch.zeros(()))
                    row[held] = untuned.mean(0).numpy()
        return logits


def mention_vectors(encoder: EventEncoder, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Vectors of triggers in their sentences, `(n, d)` at length 1."""
    read = encode_mentions(encoder, rows, trigger_input="span").embeddings
    return unit_vectors(read, [row["text"] for row in rows])


def tune(
    training: Training,
    logits: np.ndarray,
    chosen: np.ndarray,
    epochs: int = 8,
    rate: float = 5e-5,
    seed: int = 0,
) -> tuple[EventEncoder, float]:
    """Train the upper layers of the packaged encoder to correct the logits of the networks.

    A step reads sentences of a subtopic. The logit of each of its pairs is that of networks that have not
    read its topic, and a weight times how much nearer the two triggers are than untrained.

    Args:
        training: the mentions and their pairs.
        logits: those of `held_out_logits` from `features`.
        chosen: which pairs to train on.
        epochs: number of times that each subtopic is read.
        rate: learning rate, of the weight twenty times as high.
        seed: seed of the order and of dropout.

    Returns:
        The encoder, and the trained weight.
    """
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    encoder = EventEncoder.from_pretrained(None)
    layers: Any = encoder.model.encoder.encoder.layer[-UPPER_LAYERS:]
    encoder.model.requires_grad_(False)
    layers.requires_grad_(True)
    weight = torch.nn.Parameter(torch.tensor(START_WEIGHT))
    optimizer = torch.optim.AdamW(
        [{"params": layers.parameters()}, {"params": [weight], "lr": 20 * rate}], lr=rate, weight_decay=0.05
    )
    before = torch.from_numpy(training.vectors)
    sentence_of = np.unique([row["text"] for row in training.rows], return_inverse=True)[1]
    inside = np.flatnonzero(training.in_subtopic & chosen)
    of_pair = training.subtopics[training.first[inside]]
    subtopics = [inside[of_pair == one] for one in np.unique(of_pair)]
    steps = epochs * len(subtopics)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [rate, 20 * rate], total_steps=steps + 1, pct_start=0.1
    )
    order: list[int] = []
    for step in range(1, steps + 1):
        order = order or random.permutation(len(subtopics)).tolist()
        pairs = subtopics[order.pop()]
        read = np.unique(sentence_of[training.first[pairs]])
        if len(read) > SENTENCES:
            read = random.choice(read, SENTENCES, replace=False)
        first, second = training.first[pairs], training.second[pairs]
        kept = np.isin(sentence_of[first], read) & np.isin(sentence_of[second], read)
        pairs, first, second = pairs[kept], first[kept], second[kept]
        members = np.unique([first, second])
        layers.train()
        vectors = trigger_vectors(encoder, [training.rows[one] for one in members])
        one, other = np.searchsorted(members, first), np.searchsorted(members, second)
        nearer = (vectors[one] * vectors[other]).sum(1) - (before[first] * before[second]).sum(1)
        targets = torch.from_numpy(training.labels[pairs].astype(np.float32))
        loss = binary_cross_entropy_with_logits(torch.from_numpy(logits[pairs]) + weight * nearer, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.4f}", flush=True)
    encoder.model.eval()
    return encoder, KEPT * weight.item()


def trigger_vectors(encoder: EventEncoder, rows: Sequence[Mapping[str, Any]]) -> torch.Tensor:
    """Vectors of triggers in their sentences, `(n, d)` at length 1, with gradients."""
    texts = list(dict.fromkeys(row["text"] for row in rows))
    encoded = encoder.tokenizer(
        texts,
        padding=True,
        truncation=True,
        max_length=encoder.max_length,
        return_offsets_mapping=True,
        return_tensors="pt",
    )
    offsets = encoded.pop("offset_mapping")
    states = encoder.model.encoder(**encoded).last_hidden_state
    place_of = {text: place for place, text in enumerate(texts)}
    places = torch.tensor([place_of[row["text"]] for row in rows])
    mentions = [Mention(row["text"], row["trigger_start"], row["trigger_end"]) for row in rows]
    return normalize(mean_pool(states[places], trigger_mask(mentions, offsets[places])), dim=1)


def save(scorer: PairScorer, encoder: EventEncoder, weight: float) -> None:
    """Write the packaged weights: the networks, and the change of the encoder's upper layers."""
    scorer.tuned_weight.fill_(weight)
    untrained = EventEncoder.from_pretrained(None).model.state_dict()
    change: dict[str, torch.Tensor] = {}
    for name, value in encoder.model.state_dict().items():
        difference = value - untrained[name]
        if difference.any():
            of_one = low_rank(name, difference, RANK) if value.dim() == 2 else {name: difference.bfloat16()}
            change |= {f"{ENCODER}{part}": factor for part, factor in of_one.items()}
    save_file(scorer.state_dict() | change, WEIGHTS)


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
            logits = scorer.logits(inputs[batch], torch.zeros(()))
            loss = binary_cross_entropy_with_logits(logits, targets[batch].expand_as(logits))
            optimizer.zero_grad()
            # The networks share no weights: the sum trains each as if alone.
            (loss * len(logits)).backward()
            optimizer.step()
            schedule.step()
    return scorer.eval()


def scores(training: Training, logits: np.ndarray, chosen: np.ndarray) -> Iterator[tuple[str, list[float]]]:
    """CoNLL F1 at each threshold by the topics that are given, of mentions in some of the pairs."""
    mentions = np.unique([training.first[chosen], training.second[chosen]])
    events = [training.events[one] for one in mentions]
    probabilities = 1 / (1 + np.exp(-logits))
    for given, kept in (("subtopics", chosen & training.in_subtopic), ("topics", chosen)):
        first, second = (np.searchsorted(mentions, side[kept]) for side in (training.first, training.second))
        groups = (
            linked_pairs(first, second, probabilities[kept], len(events), threshold).tolist()
            for threshold in THRESHOLDS
        )
        yield given, [coreference(one, events)["conll_f1"] for one in groups]


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
            before, sentences = texts[name][: one["trigger_start"]], texts[name].split("\n")
            start = len(before) - (before.rfind("\n") + 1)
            number = before.count("\n")
            row = {"document_id": name, "text": sentences[number], "sentence": number, **place_of[name]}
            found.append(row | {"trigger_start": start, "trigger_end": start + len(one["trigger"])})
    return found


def end_to_end(path: Path) -> dict[str, float]:
    """Score the groups of extracted mentions within gold subtopics of the development topics.

    A mention is matched with an annotated one in whose trigger its own starts. Those that are not matched,
    on either side, are events or groups of their own in the other's clustering.
    """
    gold = load_built(path, "mentions", builder="event_coreference")["validation"].to_list()
    rows = own_mentions(gold)
    encoder = EventEncoder.from_pretrained(None)
    vectors, tuned = mention_vectors(encoder, rows), mention_vectors(tuned_encoder(encoder), rows)
    texts = document_texts(gold)
    pairs = MentionPairs(parsed_mentions(rows), texts, vectors, tuned.__getitem__, encoder.encode)
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
    parser.add_argument("--fold", type=int, help="tune the encoder without a fold, and score it")
    parser.add_argument("--end-to-end", action="store_true", help="score extracted mentions instead")
    settings: Any = parser.parse_args(arguments)
    if settings.end_to_end:
        print(end_to_end(settings.path))
        return
    training = Training(settings.path)
    (learned, logits), chosen = training.held_out_logits(), np.ones(len(training.labels), dtype=bool)
    if settings.train:
        save(training.scorer(chosen), *tune(training, learned, chosen))
    if settings.fold is not None:
        chosen = training.folds == settings.fold
        encoder, weight = tune(training, learned, ~chosen)
        tuned = mention_vectors(encoder, training.rows)
        first, second = training.first[chosen], training.second[chosen]
        nearer = (tuned[first] * tuned[second] - training.vectors[first] * training.vectors[second]).sum(1)
        logits[chosen] += weight * nearer
    print("| given | " + " | ".join(map(str, THRESHOLDS)) + " |\n|---|" + "--:|" * len(THRESHOLDS))
    for name, found in scores(training, logits, chosen):
        print(f"| {name} | " + " | ".join(f"{score:.2f}" for score in found) + " |", flush=True)


if __name__ == "__main__":
    main()
