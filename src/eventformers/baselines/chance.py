"""Expected accuracy of choosing at random in multiple-choice tasks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import cast

from eventformers.baselines.base import Baseline, BaselineTask, ReadyBaseline
from eventformers.evaluation.core import Scored
from eventformers.evaluation.tasks import TASKS, Task
from eventformers.evaluation.tasks.chains import Chains, read_chain_question, read_steps
from eventformers.evaluation.tasks.protocols import ProtocolOutput, Row
from eventformers.evaluation.tasks.questions import read_question

_METRICS = ("mcnc", "multistep_inference")


@dataclass(frozen=True)
class Chance(Baseline):
    """The expected accuracy of choosing at random in a multiple-choice task, without drawing.

    A prediction is the probability of the correct choice of a row, or of each scored step of a chain.
    """

    @property
    def tasks(self) -> list[str]:
        """See `Baseline`."""
        return [task.name for task in TASKS.values() if task.metric in _METRICS]

    def prepare(self, opened: BaselineTask) -> ReadyBaseline:
        """See `Baseline`; takes no options."""
        return ReadyBaseline("choice at random", "chance", lambda: _count_choices(opened))

    def score(self, task: Task, output: ProtocolOutput, seconds: float) -> Scored:
        """Compute the mean chance of the decisions."""
        chances = list(chain.from_iterable(cast("list[list[float]]", output.inputs["chances"])))
        accuracy = 100 * sum(chances) / len(chances)
        return Scored({task.main_score: accuracy}, {}, accuracy, {}, output, seconds)


def _count_choices(opened: BaselineTask) -> ProtocolOutput:
    counts = [_choice_counts(opened.task, row, number) for number, row in enumerate(opened.scored_data.rows)]
    chances = [[1 / count for count in of_row] for of_row in counts]
    return ProtocolOutput(
        inputs={"chances": chances},
        predictions=[{"chance": of_row[0] if len(of_row) == 1 else [*of_row]} for of_row in chances],
        texts=len(counts) + sum(map(sum, counts)),
        distinct_texts=0,
    )


def _choice_counts(task: Task, row: Row, number: int) -> list[int]:
    """The number of choices of each scored decision of a row."""
    if not isinstance(task.kind, Chains):
        return [len(read_question(row, number)[0]) - 1]
    if task.metric == "mcnc":
        return [len(read_chain_question(row, number)[1])]
    states, _ = read_steps(row, number)
    return [len(choices) for choices in states[1:-1]]
