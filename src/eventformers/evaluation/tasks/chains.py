"""The tasks on narrative chains: predict the next event, or the events in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import (
    Computing,
    Prepared,
    ProtocolOutput,
    Row,
    TaskKind,
    TaskRows,
    TaskSettings,
    choices_output,
    read_event,
    wrong_columns,
)
from eventformers.inference.chains.scorers import (
    Aggregation,
    ChainScorer,
    DistinctEvents,
    Scores,
    chain_scorer,
)
from eventformers.inference.encode import EventEncoder
from eventformers.strict import strict_settings

Matrix = NDArray[np.float64]


def row_normalized(similarities: Matrix, *, compat: bool = False) -> Matrix:
    """Normalise similarities, `(sources, targets)`, 0 or more, to transition probabilities: divide every row
    by its sum.

    A row of zeros becomes uniform. With `compat`, the reference code of Lee and Goldwasser (2019) is
    reproduced, which broadcasts row sums along the wrong axis: entry (i, j) is divided by the sum of row j.
    That works only for square matrices and matrices of one row, for which the result is correct.

    Raises:
        EventformersError: the reference code cannot divide the shape.
    """
    values = np.asarray(similarities, dtype=np.float64)
    rows, columns = values.shape
    values = np.where(values.sum(axis=1, keepdims=True) > 0, values, 1.0)
    sums = values.sum(axis=1)
    if not compat:
        return values / sums[:, None]
    if rows not in (1, columns):
        raise EventformersError(
            f"compat: similarities have shape {values.shape}; accepted: as many sources as targets, or one"
        )
    return values / sums


def viterbi(transitions: Sequence[Matrix], end: int | None = None) -> list[int]:
    """Find the path with the largest product of transitions from the start to the last step; MCNS-V and
    MCNE-V.

    Products are sums of logarithms. All transitions of 0 count as the same infinitesimal: paths with the
    fewest zeros win. Among equal paths, the one with the lowest index at the last step wins, then at the step
    before, and so on. `end` is the known correct choice at the last step, where the path must end (MCNE);
    None leaves the end free (MCNS).
    """
    # At the start there is one path, of length 0.
    zeros, score = np.zeros(1, dtype=np.int64), np.zeros(1)
    previous: list[NDArray[np.intp]] = []
    for matrix in transitions:
        is_zero = matrix == 0
        # Zeros have their own count, since sums of -inf are equal for any number of zeros.
        all_zeros = zeros[:, None] + is_zero
        all_scores = score[:, None] + np.log(np.where(is_zero, 1.0, matrix))
        best = _best(all_zeros, all_scores)
        previous.append(best)
        zeros, score = (
            np.take_along_axis(values, best[None], axis=0)[0] for values in (all_zeros, all_scores)
        )
    path = [int(_best(zeros, score)) if end is None else end]
    for best in reversed(previous[1:]):
        path.append(int(best[path[-1]]))
    return path[::-1]


def _best(zeros: NDArray[np.int64], scores: Matrix) -> NDArray[np.intp]:
    """Return the index, along the first axis, of the best score among those with the fewest zeros."""
    return np.argmax(np.where(zeros == zeros.min(axis=0), scores, -np.inf), axis=0)


def greedy(transitions: Sequence[Matrix]) -> list[int]:
    """Take the best transition at each step from the previous choice; Base. The first index wins ties."""
    path = [0]
    for matrix in transitions:
        path.append(int(np.argmax(matrix[path[-1]])))
    return path[1:]


def informed(transitions: Mapping[tuple[int, int], Matrix], gold: Sequence[int]) -> list[int]:
    """Choose each step separately, given the correct choices of all earlier and later states; Sky.

    The score of choice j of step t is the sum of the transitions to it from the correct earlier choices, and
    from it to the correct later choices. The first index wins ties.

    Args:
        transitions: for each pair of states s < t the matrix (choices of s, choices of t); state 0 is the
            start, state t the t-th step.
    """
    states = [0, *gold]
    path = []
    for step in range(1, len(states)):
        before = [transitions[state, step][states[state]] for state in range(step)]
        behind = [transitions[step, state][:, states[state]] for state in range(step + 1, len(states))]
        path.append(int(np.argmax(np.sum([*before, *behind], axis=0))))
    return path


BLOCK_QUESTIONS = 10_000
"""Number of questions that are read and scored at a time, which bounds the memory; each distinct event of a
block is encoded once."""

Question = TypeVar("Question")

Decoder = Literal["mcns_v", "mcne_v", "base", "sky"]
"""How the steps of a chain are chosen: by Viterbi from the start (`mcns_v`) or between start and end
(`mcne_v`), greedily (`base`), or each given all others (`sky`)."""

Sky = Literal["pairwise", "graph"]
"""How `sky` scores a step: by the transitions between the step and each other one (`pairwise`), or by the
whole chain, which the model reads at once (`graph`)."""


@strict_settings
@dataclass(frozen=True)
class ChainSettings(TaskSettings):
    """The settings of chain tasks.

    Attributes:
        aggregation: `mean` of a choice's cosines with the context events, or the cosine with the `last` one.
        sky: `pairwise` or `graph`, for the decoder `sky`.
        compat: normalise transitions as the reference code does (`row_normalized`), for all decoders.
    """

    aggregation: Aggregation = "mean"
    sky: Sky = "pairwise"
    compat: bool = False


@dataclass(frozen=True)
class Chains(TaskKind):
    """Kind of task that scores chains, since a model may read a chain as a whole.

    Attributes:
        decoder: how several steps are chosen; None for a single step.
    """

    Settings = ChainSettings
    refusal = "does not read chains; tasks that do"

    uses: tuple[str, ...] = ("aggregation",)
    settings: ChainSettings = field(default_factory=ChainSettings)
    decoder: Decoder | None = None

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared:
        """See `TaskKind`."""
        aggregation = self.settings.aggregation
        scorer = chain_scorer(model, aggregation=aggregation, batch_size=computing.batch_size)
        return Prepared(_BlockScorer(scorer, model))

    def run(self, scorer: ChainScorer, data: TaskRows) -> ProtocolOutput:
        """See `TaskKind`."""
        decoder = {} if self.decoder is None else {"decoder": self.decoder}
        return self.protocol(scorer, data, self.settings, **decoder)


@dataclass
class _BlockScorer:
    """A scorer whose encoder counts the truncated texts of all blocks instead of the latest one."""

    scorer: ChainScorer
    encoder: EventEncoder
    truncated: int = 0

    @property
    def name(self) -> str:
        """What results call it."""
        return self.scorer.name

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """See `ChainScorer`."""
        return self._counted(self.scorer.score_choices(contexts, choices))

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """See `ChainScorer`."""
        return self._counted(self.scorer.similarities(sources, targets))

    def _counted(self, scores: list[Scores]) -> list[Scores]:
        self.truncated += self.encoder.truncated
        self.encoder.truncated = self.truncated
        return scores


def _blocks(rows: Iterable[Row], read: Callable[[Row, int], Question]) -> Iterator[list[Question]]:
    """Read questions in blocks."""
    questions = (read(row, number) for number, row in enumerate(rows))
    while block := list(islice(questions, BLOCK_QUESTIONS)):
        yield block


def choose_next_event(scorer: ChainScorer, data: TaskRows, settings: ChainSettings) -> ProtocolOutput:
    """Score the possible next events of a chain: the multiple-choice narrative cloze.

    Args:
        data: rows with `context`, a list of events, `choices`, two or more events, and `label`, the index of
            the correct choice.

    Returns:
        Inputs `predictions` (scores) and `references` (labels); per row both, and whether the first of the
        best choices is correct.
    """
    scores: list[list[float]] = []
    labels: list[int] = []
    texts = distinct_texts = 0
    for block in _blocks(data.rows, read_chain_question):
        contexts, choices, right = (list(column) for column in zip(*block, strict=True))
        scores += [of_row.tolist() for of_row in scorer.score_choices(contexts, choices)]
        labels += right
        texts += sum(map(len, contexts)) + sum(map(len, choices))
        distinct_texts += _count_distinct([*contexts, *choices])
    return replace(choices_output(scores, labels, distinct_texts=distinct_texts), texts=texts)


def follow_steps(
    scorer: ChainScorer, data: TaskRows, settings: ChainSettings, *, decoder: Decoder
) -> ProtocolOutput:
    """Continue chains over several steps by the transitions between their events.

    The last step is never scored, so that sequences can be compared with explanations, which know it.

    Args:
        data: rows with `start`, an event, `steps`, a list of two or more events for each step, and `labels`,
            the index of the correct event at each step; at least two steps.

    Returns:
        Inputs `predictions` and `references`: the chosen and the correct index at each scored step; per row
        both, and whether each is correct.
    """
    chosen: list[list[int]] = []
    scored: list[list[int]] = []
    texts = distinct_texts = 0
    for block in _blocks(data.rows, read_steps):
        chains, labels = (list(column) for column in zip(*block, strict=True))
        if decoder == "sky" and settings.sky == "graph":
            paths = _by_whole_chains(scorer, chains, labels)
        else:
            paths = _by_transitions(scorer, chains, labels, decoder, settings.compat)
        chosen += [path[:-1] for path in paths]
        scored += [gold[:-1] for gold in labels]
        texts += sum(len(state) for states in chains for state in states)
        distinct_texts += _count_distinct(state for states in chains for state in states)
    return ProtocolOutput(
        inputs={"predictions": chosen, "references": scored},
        predictions=[
            {
                "chosen": list(path),
                "labels": list(gold),
                "correct": [taken == right for taken, right in zip(path, gold, strict=True)],
            }
            for path, gold in zip(chosen, scored, strict=True)
        ],
        texts=texts,
        distinct_texts=distinct_texts,
    )


def _count_distinct(lists: Iterable[Sequence[Event]]) -> int:
    distinct = DistinctEvents()
    for events in lists:
        distinct.rows(events)
    return len(distinct.events)


def _by_transitions(
    scorer: ChainScorer,
    chains: Sequence[Sequence[list[Event]]],
    labels: Sequence[list[int]],
    decoder: Decoder,
    compat: bool,
) -> list[list[int]]:
    """Find the path through each chain by transitions between pairs of its states."""
    pairs = [
        (question, source, target)
        for question, states in enumerate(chains)
        for source, target in combinations(range(len(states)), 2)
        if decoder == "sky" or target == source + 1
    ]
    # One call, so that every distinct event is encoded once.
    similarities = scorer.similarities(
        [chains[question][source] for question, source, _ in pairs],
        [chains[question][target] for question, _, target in pairs],
    )
    transitions: list[dict[tuple[int, int], Matrix]] = [{} for _ in chains]
    for (question, source, target), matrix in zip(pairs, similarities, strict=True):
        transitions[question][source, target] = row_normalized(matrix, compat=compat)
    if decoder == "sky":
        return list(map(informed, transitions, labels))
    paths = []
    for of_chain, gold in zip(transitions, labels, strict=True):
        steps = [of_chain[step, step + 1] for step in range(len(gold))]
        end = gold[-1] if decoder == "mcne_v" else None
        paths.append(greedy(steps) if decoder == "base" else viterbi(steps, end))
    return paths


def _by_whole_chains(
    scorer: ChainScorer, chains: Sequence[Sequence[list[Event]]], labels: Sequence[list[int]]
) -> list[list[int]]:
    """Choose each step of each chain, given the correct events of all other states as one chain."""
    contexts, choices = [], []
    for states, gold in zip(chains, labels, strict=True):
        right = [state[index] for state, index in zip(states, [0, *gold], strict=True)]
        for step in range(1, len(states)):
            contexts.append(right[:step] + right[step + 1 :])
            choices.append(states[step])
    chosen = iter(int(np.argmax(scores)) for scores in scorer.score_choices(contexts, choices))
    return [[next(chosen) for _ in gold] for gold in labels]


def read_chain_question(row: Row, number: int) -> tuple[list[Event], list[Event], int]:
    """Read context, choices and label of a row of a narrative cloze."""
    context, choices = (_read_events(row, column, row.get(column)) for column in ("context", "choices"))
    if not context or len(choices) < 2:
        raise EventformersError(
            f"row {number} has {len(context)} context events and {len(choices)} choices; accepted: at least "
            "one context event and two choices"
        )
    return context, choices, _read_label(row.get("label"), len(choices), number)


def read_steps(row: Row, number: int) -> tuple[list[list[Event]], list[int]]:
    """Read the states of a row, its `start` and its `steps`, and the correct choice of each step, its
    `labels`."""
    steps, labels = row.get("steps"), row.get("labels")
    if not isinstance(steps, Sequence) or not isinstance(labels, Sequence):
        raise EventformersError(
            f"found columns {', '.join(map(str, row))}; accepted: lists in the columns 'steps' and 'labels'"
        )
    if len(steps) < 2 or len(steps) != len(labels):
        raise EventformersError(
            f"row {number} has {len(steps)} steps and {len(labels)} labels; accepted: at least two "
            "steps with a label each; the last step is not scored"
        )
    states = [[read_event(row.get("start"), row, "start")]]
    states += [_read_events(row, "steps", choices) for choices in steps]
    gold = [
        _read_label(label, len(choices), number) for label, choices in zip(labels, states[1:], strict=True)
    ]
    return states, gold


def _read_events(row: Row, column: str, values: object) -> list[Event]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise wrong_columns(row, "a list of events", column)
    return [read_event(value, row, column) for value in values]


def _read_label(label: object, choices: int, number: int) -> int:
    if not isinstance(label, int) or not 0 <= label < choices:
        raise EventformersError(
            f"row {number} has the label {shown(label)}; accepted: the index of a choice, 0 to {choices - 1}"
        )
    return label
