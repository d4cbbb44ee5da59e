"""Rows of a table that an earlier table has too."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventformers.inference.encoding.vectors import Positions

_DIGEST_BYTES = 16
_BLOCK_ROWS = 65_536


def earlier_places(rows: pa.Table, earlier: pa.Table | None) -> Positions:
    """Return the position in an earlier table of each row with the same texts; -1 for a new row, `(rows,)`.

    The texts of a row are its columns of strings: what a model encodes.
    """
    if earlier is None or not len(earlier):
        return np.full(len(rows), -1, dtype=np.int64)
    places = pc.index_in(_digests(rows), value_set=_digests(earlier))
    return places.fill_null(-1).to_numpy().astype(np.int64)


def _digests(rows: pa.Table) -> pa.Array:
    texts = rows.select([field.name for field in rows.schema if pa.types.is_large_string(field.type)])
    digests = [
        blake2b(repr(row).encode(), digest_size=_DIGEST_BYTES).digest()
        for batch in texts.to_batches(max_chunksize=_BLOCK_ROWS)
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
    return pa.array(digests, pa.binary(_DIGEST_BYTES))
