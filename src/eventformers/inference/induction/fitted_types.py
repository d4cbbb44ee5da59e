"""Assignment of new mentions to the types of a finished induction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import DataFormatError, EventformersError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Vectors, unit_vectors
from eventformers.inference.induction.mention_distances import Labels
from eventformers.inference.induction.mention_encoding import TriggerInput, encode_mentions, token_factors
from eventformers.inference.induction.report import MENTIONS_FILE
from eventformers.inference.induction.type_naming import cluster_centroids


class FittedTypes(NamedTuple):
    """The types of an induction.

    Attributes:
        centroids: at length 1, `(types, d)`.
        trigger_input: how the model reads mentions, as for `encode_mentions`, like `token_factors`.
    """

    names: tuple[str, ...]
    centroids: NDArray[np.float64]
    encoder: EventEncoder
    trigger_input: TriggerInput
    token_factors: Vectors | None

    def assign(self, mentions: Sequence[Mapping[str, Any]]) -> tuple[Labels, NDArray[np.float64]]:
        """Find the type with the nearest centroid for each mention, as for `encode_mentions`; return types
        and cosines, `(n,)` each."""
        run = encode_mentions(
            *(self.encoder, mentions), trigger_input=self.trigger_input, token_factors=self.token_factors
        )
        cosines = unit_vectors(run.embeddings, [str(row["text"]) for row in mentions]) @ self.centroids.T
        types = cosines.argmax(axis=1)
        return types, cosines[np.arange(len(types)), types]


def load_fitted_types(folder: str | Path, encoder: EventEncoder) -> FittedTypes:
    """Compute the centroids of the types of an induction, which `write_induction` wrote, from its mentions.

    Raises:
        DataFormatError: the table of mentions has no settings of an induction.
        EventformersError: the folder has no induction, or it has another model than `encoder`, or several.
    """
    path = Path(folder).expanduser() / MENTIONS_FILE
    if not path.is_file():
        raise EventformersError(f"{path}: no such file; accepted: a folder that `eventformers induce` wrote")
    table = read_parquet(path)
    try:
        settings = json.loads((table.schema.metadata or {})[b"settings"])
        models = settings["models"]
    except (KeyError, ValueError) as error:
        raise DataFormatError(path, None, "no settings of an induction", "the file of `induce`") from error
    if [model["revision"] for model in models] != [encoder.revision]:
        told = ", ".join(f"{model['name']} ({str(model['revision'])[:12]})" for model in models)
        raise EventformersError(
            f"{folder}: the types were induced with {told}; received {encoder.name} "
            f"({str(encoder.revision)[:12]}); accepted: the one model of the induction"
        )
    rows = table.to_pylist()
    reading: TriggerInput = models[0]["trigger_input"]
    cluster = np.array([row["cluster"] for row in rows])
    # The clusters of the last round, not those that weighted its tokens, which are not kept.
    weighted_by = cluster if settings.get("weighting_rounds") else None
    factors = token_factors(encoder, reading, rows, weighted_by)
    vectors = encode_mentions(encoder, rows, trigger_input=reading, token_factors=factors).embeddings
    names = {row["cluster"]: row["cluster_name"] for row in rows}
    centroids = cluster_centroids(vectors, cluster)
    types = tuple(names[number] for number in range(len(centroids)))
    return FittedTypes(types, centroids, encoder, reading, factors)
