"""Scores of vectors in the precisions of `embed`: hard similarity, and retrieval of the event of a mention.

    python benchmarks/vector_precision.py --similarity ../shared/data/similarity \\
        --events ../shared/data/hierarchy/current_events

Ranges of int8 come from the vectors of the task: of all events of the pairs, and of the events that are
searched. Similarity is the cosine; of bits, that of vectors of 1 and -1, which orders as the Hamming
distance. The column `int8` uses the integers themselves. Without folders, the scores are those of the bundled
samples.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from side_by_side import make_parser, unit

from eventformers.datasets_scripts import load_built
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.arrays import Vectors
from eventformers.inference.encoding.precision import Ranges, quantized, ranges_of, restored
from eventformers.inference.search.exact import ExactSearch

FORMS = ("float32", "int8", "int8, restored", "binary")
FOUND = 50
"""Number of events that are searched for each mention."""


def main() -> None:
    """Score and print."""
    parser = make_parser(__doc__, "encoder")
    parser.add_argument("--similarity", help="folder with hard.txt and hard_extend.txt")
    parser.add_argument("--events", help="folder with mentions and events")
    arguments = parser.parse_args()
    encoder = load_encoder(arguments.encoder)
    print(f"{'':24}{''.join(f'{form:>16}' for form in FORMS)}")
    for name, scores in all_scores(encoder, arguments.similarity, arguments.events):
        print(f"{name:24}{''.join(f'{scores[form]:16.2f}' for form in FORMS)}")


def all_scores(
    encoder: EventEncoder, similarity: str | None, events: str | None
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name of each score and its value in every form, in percent."""
    for config in ("hard", "hard_extended"):
        right = {form: is_right(*pairs) for form, pairs in similarity_vectors(encoder, similarity, config)}
        yield config, {form: 100 * float(rows.mean()) for form, rows in right.items()}
        same = {form: 100 * float((rows == right["float32"]).mean()) for form, rows in right.items()}
        yield f"{config}, same answers", same
    ranks = {form: ranks_of(*vectors) for form, vectors in retrieval_vectors(encoder, events)}
    for name, measure in (
        ("retrieval R@1", lambda rank: rank <= 1),
        ("retrieval R@10", lambda rank: rank <= 10),
        (f"retrieval MRR@{FOUND}", lambda rank: 1 / rank),
    ):
        yield name, {form: 100 * float(measure(rank).mean()) for form, rank in ranks.items()}


def forms_of(vectors: Vectors, ranges: Ranges) -> Iterator[tuple[str, Vectors]]:
    """Yield the vectors in every form, with length 1."""
    integers = quantized(vectors, "int8", ranges)
    bits = np.unpackbits(quantized(vectors, "ubinary"), axis=1, count=vectors.shape[1])
    forms = (
        vectors,
        integers.astype(np.float32),
        restored(integers, ranges),
        2 * bits.astype(np.float32) - 1,
    )
    for form, values in zip(FORMS, forms, strict=True):
        yield form, unit(values)


def similarity_vectors(
    encoder: EventEncoder, data: str | None, config: str
) -> Iterator[tuple[str, list[Vectors]]]:
    """Yield the vectors of both events of the similar and of the dissimilar pairs, by form."""
    rows = load_built(data, config, builder="event_similarity")["test"]
    events = [event for name in rows.column_names for event in rows[name]]
    vectors = encoder.encode(events, normalize=True)
    for form, values in forms_of(vectors, ranges_of(vectors)):
        yield form, np.split(values, 4)


def is_right(
    similar_a: Vectors, similar_b: Vectors, dissimilar_a: Vectors, dissimilar_b: Vectors
) -> np.ndarray:
    """True where the similar pair has the larger cosine."""
    return (similar_a * similar_b).sum(axis=1) > (dissimilar_a * dissimilar_b).sum(axis=1)


def retrieval_vectors(
    encoder: EventEncoder, data: str | None
) -> Iterator[tuple[str, tuple[Vectors, Vectors, np.ndarray]]]:
    """Yield the vectors of mentions and of events, and the place of each mention's event, by form."""
    events = next(iter(load_built(data, "events", builder="event_hierarchies").values()))
    mentions = load_built(data, "mentions", builder="event_hierarchies")["validation"]
    titles = [". ".join(filter(None, (row["title"], row["description"]))) for row in events]
    parts = ("context_left", "mention", "context_right")
    contexts = [" ".join(" ".join(row[part] for part in parts).split()) for row in mentions]
    places = {event_id: place for place, event_id in enumerate(events["event_id"])}
    gold = np.array([places[event_ids[0]] for event_ids in mentions["event_ids"]])
    of_events = encoder.encode(titles, normalize=True)
    ranges = ranges_of(of_events)
    queries = dict(forms_of(encoder.encode(contexts, normalize=True), ranges))
    for form, found in forms_of(of_events, ranges):
        yield form, (queries[form], found, gold)


def ranks_of(mentions: Vectors, events: Vectors, gold: np.ndarray) -> np.ndarray:
    """Rank of each mention's event from 1; infinite beyond the first `FOUND`."""
    is_gold = ExactSearch(events).search(mentions, FOUND).positions == gold[:, None]
    return np.where(is_gold.any(axis=1), is_gold.argmax(axis=1) + 1.0, np.inf)


if __name__ == "__main__":
    main()
