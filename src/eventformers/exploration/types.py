"""The step of event types: those of a list, or clusters of triggers in their sentences, with names and
families; known ones stay."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

from eventformers.datasets_scripts.events import DOCUMENTS_TABLE, EVENTS_TABLE, is_counted, schema_of
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.exploration import STATE_FOLDER
from eventformers.exploration.curation import Curated, curate
from eventformers.exploration.events import mention_vectors, vector_column, vectors_of
from eventformers.exploration.steps import Context, Step, StepRun, keys_file
from eventformers.files import file_digest, packaged_yaml
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.induction.clustering import ALIKE, by_size
from eventformers.inference.induction.induce import NAME_PARTS
from eventformers.inference.induction.mention_distances import Labels
from eventformers.inference.induction.mention_encoding import encode_labels
from eventformers.inference.induction.type_list import (
    FAMILIES,
    ListedType,
    read_type_list,
    type_list_file,
    type_vectors,
)
from eventformers.inference.induction.type_naming import (
    ScoredLabel,
    has_only_stop_words,
    key_terms,
    load_frames,
    name_clusters,
    weaknesses,
)

TYPES_TABLE = "types.parquet"
EVENT_TYPES_TABLE = "event_types.parquet"

SAMPLE = 4_000
"""Maximum number of mentions to cluster, which is quadratic in time and memory."""

LEVEL = 2.7
"""Minimum mean cosine between the mentions of a type: this many times as far above the median of pairs with
different verbs as the 5th percentile, which types do not affect, is below it. Among articles of Wikinews, one
in a hundred such pairs is that much alike."""

FEWEST_MENTIONS = 4
"""Minimum number of sampled mentions of a type; a quarter of the square root of their number if that is
more, so that types become larger and hardly more numerous with more mentions."""

MOST_TYPES = 60
"""Maximum number of types: a longer list is hard to read."""

MOST_AT_FIRST = 50
"""Maximum number of types of a first run, so that later texts can have types of their own."""

LISTED_LEVEL = 3.0
"""Minimum cosine of an event with a listed type, as `LEVEL`, by the type's cosines with all events. If 23 of
GENEVA's 115 types are listed, 3.0 is best without examples, and 4.0 with ten examples of each."""

NAMED_SHARE = 0.1
"""Minimum share of a type's events with a verb of its name; at least two events."""

NEAR_SHARE = 0.75
"""Minimum mean cosine of an event with the events of its type, as a share of the mean cosine between them."""

UNTYPED = -1
"""Type of an event that fits no type."""

LIGHT_VERBS = frozenset(packaged_yaml(__file__, "words.yaml")["light_verbs"].split())
"""English verbs whose object says what happens: "take place", "make a decision", "hold elections"."""

TOP = 5
"""Number of words, frames and examples of a type."""

SEED = 0
_CANDIDATES = 20
MENTIONS = f"{STATE_FOLDER}/mentions.parquet"
"""File of the vectors of all events in their sentences, by the encoder of types."""
KNOWN_TYPES = f"{STATE_FOLDER}/known_types.parquet"
"""The types before any edits."""
_COLUMNS = (
    *("event_id", "document_id", "sentence_start", "sentence_end", "trigger", "trigger_start"),
    *("trigger_end", "predicate", "object", "text", "lemma", "factuality"),
)
TYPES_SCHEMA = schema_of("types")
EVENT_TYPES_SCHEMA = schema_of("event_types")

Row = Mapping[str, Any]
"""A row of the table of events."""


class Types(NamedTuple):
    """Types that events are assigned to.

    Attributes:
        names: their names, all different.
        families: the family of each.
        centroids: at length 1, `(types, d)`.
        least: minimum cosine of an event with the centroid, `(types,)`.
    """

    names: list[str]
    families: list[str]
    centroids: Vectors
    least: NDArray[np.float32]

    def assign(self, vectors: Vectors) -> Labels:
        """Return the nearest of the types that each event fits, or `UNTYPED`, `(n,)`."""
        if not len(self.least):
            return np.full(len(vectors), UNTYPED)
        cosines = vectors @ self.centroids.T
        cosines[cosines < self.least] = -np.inf
        nearest = cosines.argmax(axis=1)
        return np.where(cosines[np.arange(len(nearest)), nearest] > -np.inf, nearest, UNTYPED)


def find_types(run: StepRun) -> None:
    """Find types, assign the events to them, and describe them.

    The types are those of a list, or they are induced: a sample of the mentions is clustered by average
    linkage on cosines. Two groups become one while the mean cosine between them is far above that of
    unrelated mentions (`LEVEL`). Groups with enough mentions are types, the largest first; with `num_types`,
    each of that number of groups is one. Every event belongs to the type with the nearest centroid among
    those that it fits, as its mean cosine with the type's events is that high, too; otherwise it has no type.

    A frequent verb is sampled less often than its share, by the square root of its frequency. Verbs that say
    little by themselves, stop words such as "be" and `LIGHT_VERBS`, form no types of their own: their
    mentions are read with the words that complete the verb.

    The types of an earlier exploration in the folder stay. Further ones are induced from the new events that
    fit none of them, if at least half of all events that fit a further type and no known one are new.

    Raises:
        EventformersError: an error of `encode_mentions`, or the curation names a type that does not exist.
    """
    settings = run.context.settings
    frames = None if settings.frames is None else load_frames(settings.frames)
    events = run.table(EVENTS_TABLE, _COLUMNS)
    rows = events.to_pylist()
    vectors, is_new = _encode(run, rows)
    sampled, types = _types_of(run, rows, vectors, is_new)
    numbers = {name: number for number, name in enumerate(types.names)}
    lemmas = [row["lemma"] for row in rows]
    curated = curate(settings.edits("types"), types.assign(vectors), numbers, UNTYPED, lemmas)
    type_ids = np.array(sorted(curated.references.values()), dtype=np.int64)
    typed = np.flatnonzero(curated.labels != UNTYPED)
    labels = np.full(len(rows), UNTYPED)
    labels[typed] = np.searchsorted(type_ids, curated.labels[typed])
    centroids = _units(_means(vectors, labels, len(type_ids)))
    cosines = np.einsum("nd,nd->n", vectors[typed], centroids[labels[typed]])
    linked: list[tuple[ScoredLabel, ...]] = [()] * len(centroids)
    if frames is not None:
        encoder, batch_size = run.context.encoder("types"), run.context.settings.batch_size
        definitions = encode_labels(encoder, frames.definitions, batch_size=batch_size)
        linked = name_clusters(centroids.astype(np.float64), frames.names, definitions, TOP)
    counted = is_counted(events["factuality"], settings.factuality).to_numpy()
    is_named = [settings.type_list is not None or one in curated.names for one in type_ids.tolist()]
    described = _describe(rows, labels, typed, cosines, linked, counted, is_named)
    names = [_called(curated, types, type_id) for type_id in type_ids.tolist()]
    table = [
        {"type_id": type_id, "name": name, "family": family, **row}
        for type_id, (name, family), row in zip(type_ids.tolist(), names, described, strict=True)
    ]
    event_types = pa.table(
        [events["event_id"].take(typed), curated.labels[typed], cosines], schema=EVENT_TYPES_SCHEMA
    )
    run.write(TYPES_TABLE, pa.Table.from_pylist(table, schema=TYPES_SCHEMA))
    run.write(EVENT_TYPES_TABLE, event_types)
    run.counts["types"] = len(table)
    run.notes += curated.notes
    if sampled == SAMPLE:
        run.notes.append(
            f"Types are groups of {SAMPLE:,} sampled events; others have the nearest type that fits."
        )
    if others := len(rows) - len(typed):
        run.notes.append(f"Events that fit no type: {others:,} of {len(rows):,}.")
    if weak := sum(bool(row["weak"]) for row in table):
        run.notes.append(f"{weak:,} of {len(table):,} types are weak; the column weak says why.")


def _types_of(
    run: StepRun, rows: Sequence[Row], vectors: Vectors, is_new: NDArray[np.bool_]
) -> tuple[int, Types]:
    """Return the types before any curation, and write them; and the number of sampled events."""
    settings, encoder = run.context.settings, run.context.encoder("types")
    made_of = json.dumps([_list_digest(run.context), settings.num_types])
    table = read_parquet(run.earlier / KNOWN_TYPES) if run.earlier else None
    sampled = 0
    if table is not None and table.schema.metadata[b"made_of"] == made_of.encode():
        names, families = table["name"].to_pylist(), table["family"].to_pylist()
        types = Types(names, families, vectors_of(table), table["least"].to_numpy())
    elif settings.type_list is not None:
        types = listed_types(read_type_list(settings.type_list), vectors, encoder, settings.batch_size)
    else:
        types = Types([], [], np.empty((0, vectors.shape[1]), np.float32), np.empty(0, np.float32))
    if settings.type_list is None:
        lemmas = [row["lemma"] for row in rows]
        # To types of other settings, all events are new.
        is_new = is_new if types.names else np.ones_like(is_new)
        sampled, types = _with_induced(types, vectors, lemmas, is_new, settings.num_types)
    if len(types.least) > len(types.names):
        labels = types.assign(vectors)
        terms = [event_terms(row) for row in rows]
        words = key_terms([*terms, ()], _with_rest(labels, len(types.least)), _CANDIDATES)
        for number in range(len(types.names), len(types.least)):
            verbs = Counter(terms[place][0] for place in np.flatnonzero(labels == number))
            name, _ = _name([term.label for term in words[number]], verbs)
            name = name or f"type {number}"
            numbered = (f"{name} ({number})" for number in count(2))
            types.names.append(next(one for one in chain([name], numbered) if one not in types.names))
    types.families.extend([""] * (len(types.names) - len(types.families)))
    if not all(types.families):
        families = read_type_list(FAMILIES)
        nearest = types.centroids @ type_vectors(families, encoder, settings.batch_size).T
        for number, place in enumerate(nearest.argmax(axis=1).tolist()):
            types.families[number] = types.families[number] or families[place].name
    known = {"name": types.names, "family": types.families, "least": types.least}
    columns = [pa.array(known["name"], pa.string()), pa.array(known["family"], pa.string())]
    table = pa.table([*columns, types.least, vector_column(types.centroids)], [*known, "embedding"])
    run.write(KNOWN_TYPES, table.replace_schema_metadata({"made_of": made_of}))
    return sampled, types


def listed_types(
    listed: Sequence[ListedType],
    vectors: Vectors,
    encoder: EventEncoder,
    batch_size: int | Literal["auto"] = "auto",
) -> Types:
    """Return the types of a list; the cosines of all events with a type tell the least one: `LISTED_LEVEL`.

    Args:
        vectors: the vectors of all events at length 1, `(n, d)`.
    """
    centroids = type_vectors(listed, encoder, batch_size)
    low, median = np.quantile(vectors @ centroids.T, (0.05, 0.5), axis=0).astype(np.float32)
    least = median + np.float32(LISTED_LEVEL) * (median - low)
    return Types([one.name for one in listed], [one.family for one in listed], centroids, least)


def _with_induced(
    types: Types,
    vectors: Vectors,
    lemmas: Sequence[str],
    is_new: NDArray[np.bool_],
    num_types: int | None,
) -> tuple[int, Types]:
    """Return how many events were sampled; and the types with those of the events that fit none of them,
    which have no names yet."""
    known = len(types.least)
    room = (num_types or (MOST_TYPES if known else MOST_AT_FIRST)) - known
    is_left = types.assign(vectors) == UNTYPED
    left = np.flatnonzero(is_left & is_new)
    if room < 1 or not len(left):
        return 0, types
    others = vectors[is_left & ~is_new]
    vectors, lemmas = vectors[left], [lemmas[place] for place in left.tolist()]
    sample = sample_mentions(lemmas, SAMPLE)
    verbs = [lemmas[place] for place in sample.tolist()]
    among = min(SAMPLE, len(sample) + len(others))
    groups, level = group_mentions(vectors[sample], verbs, num_types and room, room, among)
    labels = np.full(len(vectors), UNTYPED)
    labels[sample] = groups
    if groups.max(initial=UNTYPED) == UNTYPED:
        return len(sample), types
    # The second time by the centroids of all events of a type, not only of those in the sample.
    for _ in range(2):
        labels[labels != UNTYPED] = by_size(labels[labels != UNTYPED])
        means = _means(vectors, labels, int(labels.max()) + 1)
        # The mean cosine with the vectors of a type is the product with their mean.
        lengths = np.linalg.norm(means, axis=1)
        least = np.maximum(level, NEAR_SHARE * lengths**2) / lengths
        found = Types([], [], _units(means), least.astype(np.float32))
        labels = found.assign(vectors)
    before = Counter(found.assign(others).tolist())
    sizes = Counter(labels[labels != UNTYPED].tolist()).most_common()
    order = np.array([number for number, size in sizes if size >= before[number]], dtype=np.int64)
    centroids = np.concatenate([types.centroids, found.centroids[order]])
    return len(sample), Types(
        types.names, types.families, centroids, np.concatenate([types.least, found.least[order]])
    )


def _called(curated: Curated, types: Types, type_id: int) -> tuple[str, str]:
    """Return name and family of a type after curation."""
    origin = type_id
    while origin in curated.origins:
        origin = curated.origins[origin]
    return curated.names.get(type_id) or types.names[type_id], types.families[origin]


def _with_rest(labels: Labels, number: int) -> Labels:
    """Return the clusters of all events and of one more without terms: those of no type are one more cluster,
    as the terms of a type are compared with those of the rest."""
    return np.append(np.where(labels == UNTYPED, number, labels), number)


def _list_digest(context: Context) -> str | None:
    """Identify the list of types; None without one."""
    data = context.settings.type_list
    return None if data is None else file_digest(type_list_file(data))


def group_mentions(
    vectors: Vectors,
    verbs: Sequence[str],
    num_types: int | None = None,
    most: int = MOST_TYPES,
    among: int = 0,
) -> tuple[Labels, float]:
    """Group sampled mentions into types.

    Args:
        vectors: the vectors of the mentions at length 1, `(n, d)`.
        verbs: the lemma of each mention's verb, `(n,)`.
        num_types: maximum number of types, however different their mentions; None finds the number.
        most: maximum number of types if it is found.
        among: number of mentions that these are some of, for the minimum size of a type.

    Returns:
        The type of each mention, 0 the largest, or `UNTYPED`, `(n,)`; and the mean cosine with the mentions
        of a type that a member has at least.
    """
    if len(vectors) < 2:
        return np.full(len(vectors), UNTYPED if num_types is None else 0), -1.0
    cosines = squareform(vectors @ vectors.T, checks=False)
    tree = linkage(np.maximum(1 - cosines, 0), "average")
    if num_types is not None:
        return by_size(fcluster(tree, num_types, "maxclust")), -1.0
    level = _least_cosine(cosines, verbs)
    groups = by_size(fcluster(tree, max(1 - level, ALIKE), "distance"))
    fewest = max(FEWEST_MENTIONS, math.isqrt(max(among, len(vectors))) // 4)
    number = min(most, int(np.count_nonzero(np.bincount(groups) >= fewest)))
    return np.where(groups < number, groups, UNTYPED), level


def _least_cosine(cosines: NDArray[np.float32], verbs: Sequence[str]) -> float:
    """Return the minimum mean cosine between the mentions of a type from the cosines of all pairs."""
    codes = np.unique(verbs, return_inverse=True)[1]
    is_other = squareform(codes[:, None] != codes, checks=False)
    if not is_other.any():
        return -1.0
    low, median = np.quantile(cosines[is_other], (0.05, 0.5)).tolist()
    level = median + LEVEL * (median - low)
    # Where most verbs mean the same, none are unrelated. Mentions of one verb are then alike enough.
    return level if is_other.all() else min(level, float(np.quantile(cosines[~is_other], 0.25)))


def sample_mentions(lemmas: Sequence[str], number: int) -> Positions:
    """Draw the mentions to cluster, those of a verb with a weight of the square root of its frequency.

    Args:
        lemmas: the lemma of each mention's verb, `(n,)`.

    Returns:
        Positions, sorted. Verbs that say little by themselves are not drawn if there are others.
    """
    counts = Counter(lemmas)
    weight_of = {lemma: 0.0 if _says_little(lemma) else count**-0.5 for lemma, count in counts.items()}
    weights = np.array([weight_of[lemma] for lemma in lemmas])
    if not weights.any():
        weights[:] = 1
    number = min(number, int(np.count_nonzero(weights)))
    drawn = np.random.default_rng(SEED).choice(len(weights), number, replace=False, p=weights / weights.sum())
    return np.sort(drawn)


def mention_end(row: Row, sentence: str) -> int:
    """Return the end, in its sentence, of what is read for an event.

    That is the trigger; for a verb that says little by itself, also what follows it up to the last word of
    its predicate and object, if the sentence has them: "was | angry", "took | place".
    """
    end = int(row["trigger_end"]) - int(row["sentence_start"])
    if not _says_little(row["lemma"]):
        return end
    words = [*row["predicate"].split()[1:], *row["object"].split()]
    ends = [end]
    for word in words:
        if not has_only_stop_words(word):
            at = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE).search(sentence, end)
            ends += [at.end()] if at else []
    return max(ends)


def _encode(run: StepRun, rows: Sequence[Row]) -> tuple[Vectors, NDArray[np.bool_]]:
    """Encode the mentions of all events, `(n, d)` at length 1; and whether an earlier exploration lacks them,
    `(n,)`."""
    columns = run.table(DOCUMENTS_TABLE, ["document_id", "text"]).to_pydict()
    texts = dict(zip(*columns.values(), strict=True))
    mentions = []
    for row in rows:
        start = row["sentence_start"]
        sentence = texts[row["document_id"]][start : row["sentence_end"]]
        place = {"trigger_start": row["trigger_start"] - start, "trigger_end": mention_end(row, sentence)}
        mentions.append({"text": sentence, **place})
    vectors, keys = mention_vectors(run, MENTIONS, run.context.encoder("types"), mentions)
    known = set(read_parquet(run.earlier / keys_file(MENTIONS))["key"].to_pylist()) if run.earlier else ()
    return vectors, np.array([key not in known for key in keys])


def _says_little(verb: str) -> bool:
    return verb in LIGHT_VERBS or has_only_stop_words(verb)


def _means(vectors: Vectors, labels: Labels, number: int) -> Vectors:
    """Return the mean vector of each type, `(types, d)`, without a copy of all vectors; 0 for a type without
    events."""
    places = np.flatnonzero(labels != UNTYPED)
    sizes = np.bincount(labels[places], minlength=number)
    shares = (1 / sizes[labels[places]]).astype(np.float32)
    return csr_array((shares, (labels[places], places)), shape=(number, len(labels))) @ vectors


def _units(means: Vectors) -> Vectors:
    return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.finfo(np.float32).tiny)


def _describe(
    rows: Sequence[Row],
    labels: Labels,
    typed: Positions,
    cosines: NDArray[np.float32],
    frames: Sequence[tuple[ScoredLabel, ...]],
    counted: NDArray[np.bool_],
    is_named: Sequence[bool],
) -> list[dict[str, Any]]:
    """Describe the types besides their names; one whose name the user chose is not weak for its name."""
    number = len(frames)
    clusters = _with_rest(labels, number)
    terms = [event_terms(row) for row in rows]
    words = key_terms([*terms, ()], clusters, _CANDIDATES)
    triggers, document_ids = ([row[name] for row in rows] for name in ("trigger", "document_id"))
    weak = weaknesses([*triggers, ""], [*document_ids, document_ids[0]], clusters)
    order = typed[np.lexsort((-cosines, labels[typed]))]
    starts = np.searchsorted(labels[order], np.arange(number + 1))
    described = []
    for place in range(number):
        places = order[starts[place] : starts[place + 1]]
        verbs = Counter(terms[one][0] for one in places)
        listed = [term.label for term in words[place]]
        _, named = _name(listed, verbs)
        unnamed = f"{named:,} of {len(places):,} events have a verb of its name"
        is_unnamed = not is_named[place] and 2 * named < len(places)
        # The nearest to the centroid come first, each text once.
        examples: dict[str, str] = {}
        for one in places[counted[places]].tolist():
            examples.setdefault(rows[one]["text"], rows[one]["event_id"])
        described.append(
            {
                "size": int(counted[places].sum()),
                "words": listed[:TOP],
                "frames": [frame._asdict() for frame in frames[place]],
                "weak": "; ".join(filter(None, [weak[place], unnamed if is_unnamed else ""])),
                "examples": list(examples.values())[:TOP],
            }
        )
    return described


def _name(terms: Sequence[str], verbs: Counter[str]) -> tuple[str, int]:
    """Name a type by its first verbs that enough of its events have; see `NAMED_SHARE`.

    Args:
        terms: verbs and objects of the type, best first.
        verbs: the verbs of its events.

    Returns:
        The name, of its first verb without such ones; and how many events have one of them.
    """
    least = max(2, NAMED_SHARE * verbs.total())
    chosen = [term for term in terms if verbs[term] >= least and not has_only_stop_words(term)][:NAME_PARTS]
    chosen = chosen or [term for term in terms if verbs[term]][:1]
    return ", ".join(chosen), sum(verbs[term] for term in chosen)


def event_terms(row: Row) -> tuple[str, str]:
    """Return the terms that name groups of events: the verb, with its complement if it is a stop word, and
    the object."""
    verb = row["predicate"] if has_only_stop_words(row["lemma"]) else row["lemma"]
    return verb.lower(), row["object"].lower()


TYPES = Step(
    "types",
    find_types,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
    writes=(TYPES_TABLE, EVENT_TYPES_TABLE, KNOWN_TYPES, MENTIONS, keys_file(MENTIONS)),
    models=("types",),
    settings=lambda context: {
        "num_types": context.settings.num_types,
        "factuality": list(context.settings.factuality),
        "frames": context.data_identity("frames"),
        "type_list": _list_digest(context),
        "curation": context.curation_identity("types"),
    },
    applied=("num_types", "factuality", "frames", "type_list", "curation"),
)
