"""Training rows of MICO: pairs, each with all alternatives that the training graph has for its premise."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset
from torch.utils.data import Dataset as TorchDataset

from eventformers.datasets_scripts.known_pairs import Codes, codes_of, grouped, text_column


class PremiseRows(TorchDataset):
    """Rows of a graph's pairs, each with all alternatives of its premise in the training graph.

    Args:
        pairs: rows with the columns `premise`, `alternative`, `direction`.
        known: the training rows that define the known alternatives; None takes `pairs` themselves.
        by_triple: make an item of both directions of a triple instead of a row.
        graphs: the number of each row's graph, `(rows,)`; None for a single graph.
    """

    def __init__(
        self,
        pairs: Dataset,
        known: PremiseRows | None = None,
        by_triple: bool = False,
        graphs: Codes | None = None,
    ) -> None:
        self.graphs = np.zeros(len(pairs), dtype=np.int64) if graphs is None else graphs
        self.is_validation = known is not None
        self.by_triple = by_triple
        # `.data` ignores the indices of a selection.
        columns = ["premise", "alternative", "direction"]
        table = pairs.select_columns(columns).with_format("arrow")[:]
        premises, alternatives = (text_column(table, name) for name in ("premise", "alternative"))
        if known is None:
            self.premises = premises.unique()
            self.alternatives = alternatives.unique()
        else:
            self.premises = pa.concat_arrays([known.premises, premises]).unique()
            self.alternatives = pa.concat_arrays([known.alternatives, alternatives]).unique()
        self.premise_ids = codes_of(premises, self.premises)
        self.alternative_ids = codes_of(alternatives, self.alternatives)
        if known is None:
            self._starts, self._known = grouped(
                self.premise_ids, self.alternative_ids, len(self.premises), len(self.alternatives)
            )
        else:
            # A premise that is not in the training rows has no known alternatives.
            new = len(self.premises) - len(known.premises)
            self._starts, self._known = np.pad(known._starts, (0, new), mode="edge"), known._known
        self.most_known = int(np.diff(self._starts).max(initial=1))
        forward = pc.equal(text_column(table, "direction"), "forward").to_numpy(zero_copy_only=False)
        reverse = pc.equal(text_column(table, "direction"), "reverse").to_numpy(zero_copy_only=False)
        self.has_both_directions = bool(forward[::2].all() and reverse[1::2].all() and len(forward) % 2 == 0)

    def log_frequencies(
        self, validation: PremiseRows | None, graphs: Collection[int] = (0,)
    ) -> npt.NDArray[np.float32]:
        """Return the log frequency of each alternative in the rows of each graph.

        Args:
            validation: rows with further alternatives, which have 0.
            graphs: the numbers of the graphs to count; all alternatives of another graph have 0.

        Returns:
            By graph and id, `(graphs, alternatives)`.
        """
        size = len(self.alternatives if validation is None else validation.alternatives)
        counts = np.ones((int(self.graphs.max()) + 1, size))
        for graph in graphs:
            counts[graph] = np.bincount(self.alternative_ids[self.graphs == graph], minlength=size)
        return np.log(counts.clip(min=1)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.premise_ids) // 2 if self.by_triple else len(self.premise_ids)

    def __getitem__(self, index: int) -> list[Mapping[str, Any]]:
        """Return the rows of an item."""
        return [self._row(2 * index), self._row(2 * index + 1)] if self.by_triple else [self._row(index)]

    def _row(self, index: int) -> Mapping[str, Any]:
        premise_id = self.premise_ids[index]
        start, end = self._starts[premise_id : premise_id + 2]
        row = {
            "row": index,
            "graph": int(self.graphs[index]),
            "premise": self.premises[premise_id].as_py(),
            "alternative_id": int(self.alternative_ids[index]),
            "known_alternative_ids": self._known[start:end],
            "is_validation": self.is_validation,
        }
        if self.has_both_directions:
            # The alternative of the triple's other direction is the entity of this premise.
            row["entity_id"] = int(self.alternative_ids[index ^ 1])
        return row
