"""Figure of event grounding: recall by the number of candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure

from eventformers.plots.figures import line_style

_SIZE = (6.4, 4.2)
"""Size of the figure in inches."""


@dataclass(frozen=True)
class RecallCurves:
    """The recall of a model by the number of candidates, in percent.

    Attributes:
        whole: mentions with all of their gold events among the candidates.
        atomic: mentions with their atomic event among the candidates; never lower than `whole`.
    """

    whole: Mapping[int, float]
    atomic: Mapping[int, float]


def draw_recall(curves: Mapping[str, RecallCurves]) -> Figure:
    """Draw recall by the number of candidates, one line for each model; dotted for only the atomic event.

    Args:
        curves: the curves of each model by its name.
    """
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    for place, (name, of_model) in enumerate(curves.items()):
        style = line_style(place)
        axes.plot(list(of_model.whole), list(of_model.whole.values()), label=name, **style)
        axes.plot(list(of_model.atomic), list(of_model.atomic.values()), linestyle=":", **style)
    axes.set_xscale("log", base=2)
    depths = sorted({depth for one in curves.values() for depth in (*one.whole, *one.atomic)})
    axes.set_xticks(depths, [str(depth) for depth in depths])
    axes.set_xlabel("candidates (dotted: only the atomic event)")
    axes.set_ylabel("recall (%)")
    figure.legend(loc="outside right center", frameon=False, fontsize="small")
    return figure
