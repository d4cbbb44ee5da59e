"""The base of all metrics, which checks their inputs.

It needs nothing of this package: publishing a metric puts a copy beside the metric's own files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, ClassVar

import datasets
import evaluate


class CheckedMetric(evaluate.Metric, ABC):
    """A metric that takes lists, arrays, tensors, series or columns, and refuses values of another type.

    `evaluate` itself would read "1" and True as numbers, and fail on None and on a series with other labels.
    """

    DESCRIPTION: ClassVar[str]
    INPUTS_DESCRIPTION: ClassVar[str]
    CITATION: ClassVar[str]
    FEATURES: ClassVar[datasets.Features]
    """The inputs: numbers (`float64`) or names (`string`), or lists of these."""

    @staticmethod
    @abstractmethod
    def scores(*arguments: Any, **inputs: Any) -> Any:
        """Return the scores of the inputs, by their names."""

    def _compute(self, **inputs: Any) -> Any:
        return self.scores(**inputs)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.DESCRIPTION,
            citation=self.CITATION,
            inputs_description=self.INPUTS_DESCRIPTION,
            features=self.FEATURES,
            license="apache-2.0",
        )

    def compute(self, **inputs: Any) -> Any:
        """Compute the scores of the given inputs and the batches added before.

        Raises:
            ValueError: an input is None, unknown or no list, a value has another type, or there are no
                inputs.
        """
        self._refuse_unknown(inputs)
        given = [name for name in self.FEATURES if name in inputs]
        for name in given:
            if inputs[name] is None:
                raise ValueError(f"{name} is None; accepted: a list")
        if not given and self.writer is None:
            raise ValueError(f"found no inputs; accepted: {' and '.join(self.FEATURES)}, or batches of them")
        return super().compute(**inputs)

    def add(self, *, prediction: Any = None, reference: Any = None, **inputs: Any) -> None:
        """Add one row; see `add_batch`."""
        row = {"predictions": prediction, "references": reference}
        row = {name: value for name, value in row.items() if value is not None} | inputs
        self.add_batch(**{name: [row.get(name)] for name in (*self.FEATURES, *row)})

    def add_batch(self, **inputs: Any) -> None:
        """Add a batch of lists, arrays, tensors, series or columns.

        Raises:
            ValueError: an input is absent, unknown or no list, or a value has another type.
        """
        self._refuse_unknown(inputs)
        super().add_batch(**{name: self.checked(name, inputs.get(name)) for name in self.FEATURES})

    def _refuse_unknown(self, inputs: dict[str, Any]) -> None:
        if unknown := [name for name in inputs if name not in self.FEATURES]:
            raise ValueError(f"found the input {unknown[0]}; accepted: {', '.join(self.FEATURES)}")

    def checked(self, name: str, values: Any) -> list[Any]:
        """Return an input as a list; raise `ValueError` for a value of another type."""
        kind, depth = self.FEATURES[name], 1
        while isinstance(kind, datasets.List):
            kind, depth = kind.feature, depth + 1
        return listed(name, values, str if kind.dtype == "string" else Real, depth)


def listed(name: str, values: Any, kind: type = object, depth: int = 1) -> Any:
    """Return a list, array, tensor, series or column as a list of Python values.

    Args:
        name: its name, for errors.
        values: the values.
        kind: the accepted type of each; True and False are of no type but `object`.
        depth: number of lists inside each other.

    Raises:
        ValueError: it is no list, or a value has another type.
    """
    values = next((getattr(values, to)() for to in ("tolist", "to_pylist") if hasattr(values, to)), values)
    if not depth:
        if kind is not object and (isinstance(values, bool) or not isinstance(values, kind)):
            accepted = "a string" if kind is str else "a number"
            raise ValueError(f"{name} is {values!r}; accepted: {accepted}")
        if kind is Real:
            try:
                float(values)
            except OverflowError as error:
                raise ValueError(f"{name} is {values!r}; accepted: a number of double precision") from error
        return values
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{name} is {values!r}; accepted: a list")
    return [listed(f"{name}[{place}]", one, kind, depth - 1) for place, one in enumerate(values)]
