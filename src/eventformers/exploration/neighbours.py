"""Nearest vectors among the distinct texts of an exploration: exact up to a size, approximate beyond."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.search.candidate_index import CandidateIndex, Candidates, SearchKind

EXACT_UP_TO = 60_000
"""Largest number of vectors that are searched exactly: searching all for all takes a minute on two cores."""


def text_vectors(vectors: pa.Table) -> tuple[list[str], Vectors]:
    """Return the distinct texts of the table of vectors, and their vectors, `(n, d)`."""
    return vectors["text"].to_pylist(), vectors_of(vectors)


def vector_column(vectors: NDArray[np.floating]) -> pa.FixedSizeListArray:
    """Return vectors, `(n, d)`, as the column `embedding` of a table."""
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])


def vectors_of(table: pa.Table) -> Vectors:
    """Return the vectors in the column `embedding` of a table, `(n, d)`."""
    column = table["embedding"].combine_chunks()
    # Arrow's memory is read-only, and torch warns of that.
    return np.array(column.flatten().to_numpy().reshape(len(column), -1))


def nearest(
    names: Sequence[str], vectors: Vectors, queries: Vectors, number: int, notes: list[str]
) -> Candidates:
    """Find the vectors with the largest dot products with each query, best first.

    Args:
        names: a distinct name of each vector, `(n,)`.
        vectors: `(n, d)`.
        queries: `(m, d)`.
        number: number of vectors to find; fewer if there are not as many.
        notes: gets a sentence with the measured recall if the search is approximate.
    """
    kind: SearchKind = "exact" if len(vectors) <= EXACT_UP_TO else "ivf"
    found = CandidateIndex(names, vectors, kind=kind).search(queries, min(number, len(vectors)))
    if found.recall:
        notes.append(
            f"The search among {len(vectors):,} texts is approximate and finds {found.recall['']:.1%} of the "
            "nearest ones."
        )
    return found
