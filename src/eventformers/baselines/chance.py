"""Expected accuracy of choosing at random in multiple-choice tasks."""

from __future__ import annotations

import time
from pathlib import Path

from eventformers.baselines.measuring import open_task
from eventformers.errors import EventformersError
from eventformers.evaluation.core import Scored, make_result
from eventformers.evaluation.results import NO_START, TaskResult, write_result
from eventformers.evaluation.tasks import TASKS, Task, get_task
from eventformers.evaluation.tasks.chains import Chains, read_chain_question, read_steps
from eventformers.evaluation.tasks.protocols import JsonValue, ProtocolOutput, Row
from eventformers.evaluation.tasks.questions import read_question

_METRICS = ("mcnc", "multistep_inference")


def evaluate_chance(
    task: str,
    data: str | Path | None = None,
    *,
    split: str | None = None,
    device: str | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    show_progress: bool = False,
) -> TaskResult:
    """Compute the expected accuracy of choosing at random, without drawing.

    Args:
        task: a multiple-choice task, such as `copa` or `mcns_v`.
        data: folder of raw files, built folder or Hub id of the task's dataset; None uses the bundled
            samples, which are not a benchmark.
        split: the split to score; None uses the test split if there is one.
        device: accepted by all baselines; ignored here.
        output: folder under whose `results/` the result is written; None writes nothing.
        overwrite: replace a result on other rows.
        show_progress: accepted by all baselines; ignored here.

    Returns:
        The result, with the probability of the correct choice for each row, or each scored step of a chain.

    Raises:
        UnknownNameError: the task is unknown.
        EventformersError: the task is not multiple choice, or the data cannot be loaded.
    """
    chosen = get_task(task)
    if chosen.metric not in _METRICS:
        accepted = ", ".join(other.name for other in TASKS.values() if other.metric in _METRICS)
        raise EventformersError(f"{task} is not multiple choice; accepted: {accepted}")
    opened = open_task(chosen, data, split)
    started = time.perf_counter()
    counts = [_choice_counts(chosen, row, number) for number, row in enumerate(opened.scored_data.rows)]
    chances = [1 / count for of_row in counts for count in of_row]
    accuracy = 100 * sum(chances) / len(chances)
    scored = Scored(
        scores={chosen.main_score: accuracy},
        undefined={},
        main_value=accuracy,
        parts={},
        output=ProtocolOutput(
            inputs={},
            predictions=[{"chance": _chance(of_row)} for of_row in counts],
            texts=len(counts) + sum(map(sum, counts)),
            distinct_texts=0,
        ),
        seconds=time.perf_counter() - started,
    )
    result = make_result(
        chosen,
        opened.record,
        scored,
        model="choice at random",
        model_revision="chance",
        variant=opened.variant,
        baseline_missing=NO_START,
        settings={},
    )
    if output is not None:
        write_result(result, output, overwrite=overwrite)
    return result


def _choice_counts(task: Task, row: Row, number: int) -> list[int]:
    """The number of choices of each scored decision of a row."""
    if not isinstance(task.kind, Chains):
        return [len(read_question(row, number)[0]) - 1]
    if task.metric == "mcnc":
        return [len(read_chain_question(row, number)[1])]
    states, _ = read_steps(row, number)
    return [len(choices) for choices in states[1:-1]]


def _chance(counts: list[int]) -> JsonValue:
    return 1 / counts[0] if len(counts) == 1 else [1 / count for count in counts]
