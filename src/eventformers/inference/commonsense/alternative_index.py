"""An index of a graph's alternatives and premises, with the known alternatives of each premise.

The vectors are normalised, so that inner products are cosines. A query's nearest known premises may vote for
their alternatives; nearer ones have larger votes, which act in two ways. The mean vector of the alternatives
with votes moves the query's vector (query expansion after Rocchio, 1971), which also raises alternatives
without a vote. Each vote also adds to a score. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, NamedTuple

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
import yaml
from datasets import Dataset, DatasetDict
from scipy import sparse

from eventformers.datasets_scripts.commonsense_graphs import graph_of
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.known_pairs import choose_splits, known_pairs
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.relation_templates import own_templates
from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.search.candidate_index import SearchKind
from eventformers.inference.search.index_folder import (
    AGAIN,
    FORMAT,
    IndexedModel,
    IndexRecord,
    IndexTable,
    build_index,
    check_files,
    check_index,
    open_index,
    open_or_build,
    verify_index,
)
from eventformers.inference.search.vector_search import nearest
from eventformers.strict import several


@dataclass(frozen=True, kw_only=True)
class AlternativeRecord(IndexRecord):
    """Record of what an index of alternatives was built from.

    Attributes:
        graph: config of the graph, such as `conceptnet`.
        pairs: number of distinct pairs of its splits.
        truncated: number of truncated texts among those that the last build encoded.
    """

    tables: ClassVar = {"alternatives": ("text",), "premises": ("text", "alternatives")}

    graph: str
    splits: list[str]
    pairs: int
    truncated: int


@dataclass(frozen=True)
class AlternativeIndex:
    """The distinct alternatives and premises of a graph, with their vectors by one model.

    Attributes:
        offsets: `(premises + 1,)`; the alternatives of premise p are at `known[offsets[p]:offsets[p + 1]]`.
    """

    folder: Path
    record: AlternativeRecord
    alternatives: IndexTable
    premises: IndexTable
    offsets: Positions
    known: Positions

    def alternatives_of(self, premise: int) -> Positions:
        """Return the positions of the alternatives in the graph for the premise at a position."""
        return self.known[self.offsets[premise] : self.offsets[premise + 1]]


def build_alternative_index(
    encoder: EventEncoder,
    pairs: Mapping[str, Dataset],
    folder: str | Path,
    *,
    graph: str,
    splits: Collection[str] | None = None,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
    overwrite: bool = False,
    search: SearchKind = "exact",
) -> AlternativeIndex:
    """Encode a graph's distinct alternatives and premises, and write their index.

    Args:
        pairs: splits by name, with the columns `premise` and `alternative`; of them, `splits` are indexed,
            None for all.
        graph: config of the graph, for the record and for its relations.
        overwrite: replace an existing index; texts that it has by the same model are not encoded again.
        search: kind of search in the index that is returned, see `open_index`.
    """
    known = known_pairs(pairs, splits)
    details: dict[str, Any] = {
        **{"graph": graph, "splits": choose_splits(pairs, splits)},
        **{"pairs": len(known.positions), "truncated": 0},
    }
    prompts = {"alternatives": encoder.prompt("document"), "premises": encoder.prompt("query")}

    def encode(name: str, rows: pa.Table) -> Vectors:
        texts = [prompts[name] + text for text in rows["text"].to_pylist()]
        vectors = encoder.encode(texts, batch_size=batch_size, normalize=True, prompt_name=None)
        details["truncated"] += encoder.truncated
        return vectors

    lists = pa.LargeListArray.from_arrays(pa.array(known.offsets), pa.array(known.positions))
    alternatives, premises = (
        pa.array(texts, pa.large_string()) for texts in (known.alternatives, known.premises)
    )
    build_index(
        Path(folder),
        AlternativeRecord,
        {
            "alternatives": pa.table({"text": alternatives}),
            "premises": pa.table({"text": premises, "alternatives": lists}),
        },
        encode,
        model=IndexedModel.of(encoder),
        dimension=encoder.dimension,
        fingerprint=graph_fingerprint(pairs, splits),
        details=details,
        show_progress=show_progress,
        overwrite=overwrite,
    )
    return load_alternative_index(folder, search=search)


def load_alternative_index(
    folder: str | Path,
    *,
    encoder: EventEncoder | None = None,
    fingerprint: str | None = None,
    search: SearchKind = "exact",
) -> AlternativeIndex:
    """Map an index that `build_alternative_index` wrote from its files; `encoder` and `fingerprint`, the
    expected `graph_fingerprint`, are checked if they are given, as in `open_index`."""
    model = None if encoder is None else IndexedModel.of(encoder)
    record, tables = open_index(
        folder, AlternativeRecord, model=model, fingerprint=fingerprint, search=search
    )
    lists = tables["premises"].rows["alternatives"].combine_chunks()
    known, number = lists.values.to_numpy(), len(tables["alternatives"].rows)
    if len(known) and not 0 <= known.min() <= known.max() < number:
        raise EventformersError(
            f"{folder}: damaged: a premise names another than the {number:,} alternatives; {AGAIN}"
        )
    return AlternativeIndex(
        folder=Path(folder),
        record=record,
        alternatives=tables["alternatives"],
        premises=tables["premises"],
        offsets=lists.offsets.to_numpy(),
        known=known,
    )


def graph_fingerprint(pairs: Mapping[str, Dataset], splits: Collection[str] | None = None) -> str:
    """Compute the fingerprint of the premises and alternatives of some splits; None uses all."""
    chosen = choose_splits(pairs, splits)
    return dataset_fingerprint(
        DatasetDict({name: pairs[name].select_columns(["premise", "alternative"]) for name in chosen})
    )


def trained_templates(encoder: EventEncoder) -> Mapping[str, Mapping[str, str]]:
    """Return the templates of the relations that a model was trained with, besides those of all models."""
    return getattr(encoder.model.config, "relation_templates", None) or {}


def load_pairs(
    encoder: EventEncoder, data: str | Path | None, config: str, templates: str | Path | None
) -> Mapping[str, Dataset]:
    """Build or load the pairs of a graph's config, with the templates of the model and of a YAML file."""
    words = {**trained_templates(encoder), **own_templates(graph_of(config), templates)}
    with TemporaryDirectory(prefix="eventformers-") as scratch:
        settings: dict[str, object] = {}
        if words:
            # The builder reads a file, whose bytes are part of the identity of its rows.
            file = Path(scratch) / "templates.yaml"
            file.write_text(yaml.safe_dump(words, allow_unicode=True), encoding="utf-8")
            settings["templates"] = str(file)
        return load_built(data, f"{config}_pairs", builder="commonsense_graphs", streaming=False, **settings)


def open_graph(
    encoder: EventEncoder,
    data: str | Path | Mapping[str, Dataset] | None,
    config: str,
    index: str | Path | AlternativeIndex | None,
    templates: str | Path | None,
    splits: Collection[str] | None,
    *,
    batch_size: int | Literal["auto"],
    overwrite: bool,
    show_progress: bool,
    search: SearchKind = "auto",
    verify: bool = False,
) -> AlternativeIndex:
    """Return the given index, or open the one in the folder, or build it there; see `complete`."""
    fingerprint = None
    splits = None if splits is None else several(splits)
    if data is not None or index is None:
        pairs = data if isinstance(data, Mapping) else load_pairs(encoder, data, config, templates)
        fingerprint = graph_fingerprint(pairs, splits)
    elif splits is not None:
        raise EventformersError(
            f"splits ({', '.join(splits)}) choose rows of a graph, and an index has those it was built of; "
            "accepted: splits with data (--data), or an index without splits"
        )
    if isinstance(index, AlternativeIndex):
        check_index(index.folder, index.record, IndexedModel.of(encoder), fingerprint)
        if verify:
            check_files(index.folder, index.record)
        return index
    if in_cache := index is None:
        read = f"{IndexedModel.of(encoder).pooling} {encoder.prompts}"
        parts = f"{FORMAT} {encoder.revision} {read} {fingerprint}"
        root = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "eventformers" / "alternative_indexes"
        index = root / sha256(parts.encode()).hexdigest()[:16]
    folder = Path(index)
    if verify and not overwrite:
        verify_index(folder, AlternativeRecord)

    build = None
    if fingerprint is not None:
        build = partial(
            build_alternative_index,
            *(encoder, pairs, folder),
            graph=config,
            splits=splits,
            batch_size=batch_size,
            show_progress=show_progress,
            overwrite=overwrite,
            search=search,
        )
    return open_or_build(
        folder,
        partial(load_alternative_index, folder, encoder=encoder, fingerprint=fingerprint, search=search),
        build,
        needed="a graph is needed; accepted: data (--data)",
        overwrite=overwrite,
        wait=in_cache,
    )


_BLOCK_QUERIES = 1024


class Votes(NamedTuple):
    """Settings for the effect of the nearest known premises on the scores of alternatives.

    The defaults were tuned on CN-82K-Ind with a trained all-MiniLM-L6-v2 (docs/notes/mico.md). A temperature
    of 0.2 suits the untrained encoder better, as its nearest premises have lower cosines.

    Attributes:
        neighbours: number of premises that vote.
        temperature: a premise's vote is exp((cosine - 1) / temperature), which is 1 if it equals the query.
        expansion: weight of the unit vector of the alternatives with votes when it is added to the query's
            vector, before normalisation; 0 leaves the query unchanged.
        weight: added to an alternative's cosine for each vote of 1; 0 adds nothing.
    """

    neighbours: int = 256
    temperature: float = 0.05
    expansion: float = 0.67
    weight: float = 0.5


VOTES = Votes()
"""The measured settings."""


def neighbour_votes(
    cosines: Vectors,
    neighbours: Positions,
    offsets: Positions,
    known: Positions,
    num_alternatives: int,
    temperature: float,
) -> sparse.csr_array:
    """Compute the votes of each query's neighbours, `(Q, A)`, sparse, without duplicate or negative entries.

    Args:
        cosines: `(Q, K)`, of each query with its nearest known premises.
        neighbours: `(Q, K)`, positions of those premises.
        offsets: `(P + 1,)`; the alternatives of premise p stand at `known[offsets[p]:offsets[p + 1]]`.
        known: positions of alternatives, distinct within a premise.
        num_alternatives: A.
        temperature: a premise's vote is exp((cosine - 1) / temperature).
    """
    votes = np.exp((cosines.astype(np.float64) - 1) / temperature)
    number, of_each = votes.shape
    ends = np.arange(0, number * of_each + 1, of_each)
    by_premise = sparse.csr_array((votes.ravel(), neighbours.ravel(), ends), shape=(number, len(offsets) - 1))
    answers = sparse.csr_array(
        (np.ones(len(known)), known, offsets), shape=(len(offsets) - 1, num_alternatives)
    )
    votes_of_alternatives = by_premise @ answers
    votes_of_alternatives.sort_indices()
    return votes_of_alternatives


def expanded(queries: Vectors, votes: sparse.csr_array, alternatives: Vectors, expansion: float) -> Vectors:
    """Move queries, `(Q, d)`, towards the alternatives, `(A, d)`, with votes, `(Q, A)`, by a step of the
    length `expansion`.

    Queries and alternatives have the length 1, as has the result; a query without votes does not change.
    """
    voted = votes @ alternatives
    moved = queries + expansion * _unit(voted)
    return _unit(moved).astype(np.float32)


def voted_ranking(
    premises: Vectors,
    known_premises: Vectors,
    offsets: Positions,
    known: Positions,
    alternatives: Vectors,
    settings: Votes,
) -> tuple[Vectors, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]:
    """Let known premises vote on the ranking of many queries; all vectors are normalised.

    Args:
        premises: `(Q, d)`, of the queries.
        known_premises: `(P, d)`, of the premises that vote. They must not come from the ranked split, whose
            alternatives are the answers.
        offsets: see `neighbour_votes`, like `known`.
        alternatives: `(A, d)`, of the candidates.

    Returns:
        The expanded vectors of the queries' premises, `(Q, d)`, and a function that adds the votes to a block
        of cosines, in place: arguments for `rank_by_cosine`.
    """
    neighbours = min(settings.neighbours, len(known_premises))
    cosines, positions = nearest(known_premises, premises, neighbours)

    def votes_of(rows: slice | Positions) -> sparse.csr_array:
        return neighbour_votes(
            cosines[rows], positions[rows], offsets, known, len(alternatives), settings.temperature
        )

    moved = np.empty_like(premises, dtype=np.float32)
    for start in range(0, len(premises), _BLOCK_QUERIES):
        block = slice(start, start + _BLOCK_QUERIES)
        moved[block] = expanded(premises[block], votes_of(block), alternatives, settings.expansion)

    def add_votes(rows: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        votes = votes_of(rows.cpu().numpy()).tocoo()
        at_row, at_column = (
            torch.from_numpy(part.astype(np.int64)).to(scores.device) for part in votes.coords
        )
        values = torch.from_numpy(settings.weight * votes.data).to(scores)
        # No entry occurs twice, so plain assignment is safe.
        scores[at_row, at_column] += values
        return scores

    return moved, add_votes


def _unit(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Scale vectors to length 1; zero vectors do not change."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
