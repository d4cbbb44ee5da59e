"""Tasks on commonsense multiple-choice questions, without training on questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from eventformers.errors import EventformersError, shown
from eventformers.evaluation.tasks.base import Task, TaskRows
from eventformers.evaluation.tasks.graph import MICO_LENGTH, PremiseModel, Premises
from eventformers.evaluation.tasks.protocols import (
    Embed,
    ProtocolOutput,
    Row,
    TaskSettings,
    choices_output,
    read_text,
)
from eventformers.inference.encoding.vectors import rounded_cosines, unit_vectors
from eventformers.models.text_prompts import prompt_of


@dataclass(frozen=True)
class Questions(Premises):
    """Kind of task that compares premises with their few alternatives."""

    Settings = TaskSettings
    refusal = "does not ask questions; tasks that do"

    def run(self, asked: PremiseModel, data: TaskRows) -> ProtocolOutput:
        """See `TaskKind`."""
        return self.protocol(asked.embed, data.rows, prompts=asked.prompts)


def choose_alternatives(
    embed: Embed, rows: Iterable[Row], prompts: Mapping[str, str] | None = None
) -> ProtocolOutput:
    """Compute the cosine of a premise with each of its alternatives: zero-shot multiple choice.

    Args:
        embed: maps texts to vectors.
        rows: rows with the texts `premise` and `alternatives` (two or more), and `label`, the index of the
            correct one.
        prompts: the prompts before premises (`query`) and alternatives (`document`); None has none.

    Returns:
        Inputs `predictions` (cosines) and `references` (labels); per row both, and whether the first of the
        nearest alternatives is correct.

    Raises:
        EventformersError: no rows, a row with fewer than two alternatives or a label out of range, or a
            vector has no cosine.
    """
    questions = [read_question(row, number) for number, row in enumerate(rows)]
    if not questions:
        raise EventformersError("the dataset has no rows; accepted: at least one")
    asks, answers = prompt_of(prompts, "query"), prompt_of(prompts, "document")
    questions = [
        ([asks + premise, *(answers + text for text in choices)], label)
        for (premise, *choices), label in questions
    ]
    distinct = list(dict.fromkeys(text for texts, _ in questions for text in texts))
    vectors = unit_vectors(embed(distinct), distinct)
    place = {text: number for number, text in enumerate(distinct)}
    cosines = [
        rounded_cosines(vectors[[place[text] for text in choices]] @ vectors[place[premise]]).tolist()
        for (premise, *choices), _ in questions
    ]
    return choices_output(cosines, [label for _, label in questions], distinct_texts=len(distinct))


def read_question(row: Row, number: int) -> tuple[list[str], int]:
    """Read the premise and its alternatives, and the index of the correct one.

    Args:
        row: with the texts `premise` and `alternatives`, and `label`.
        number: the row's number, for error messages.

    Raises:
        EventformersError: fewer than two alternatives, or a label out of range.
    """
    premise, alternatives, label = read_text(row, "premise"), row.get("alternatives"), row.get("label")
    if not isinstance(alternatives, Sequence) or len(alternatives) < 2:
        raise EventformersError(
            f"row {number} ({shown(premise)}) has the alternatives {shown(alternatives)}; accepted: at least "
            "two"
        )
    if not isinstance(label, int) or not 0 <= label < len(alternatives):
        raise EventformersError(
            f"row {number} ({shown(premise)}) has the label {shown(label)}; accepted: the index of an "
            f"alternative, 0 to {len(alternatives) - 1}"
        )
    return [premise, *cast("Sequence[str]", alternatives)], label


_task = partial(
    Task,
    dataset="commonsense_qa",
    splits=("test", "validation"),
    kind=Questions(choose_alternatives),
    metric="mcnc",
    main_score="accuracy",
    published_source=", dev (Su et al. 2022)",
    published_split="validation",
    max_length=MICO_LENGTH,
)

QUESTION_TASKS: tuple[Task, ...] = (
    _task(
        name="copa",
        title="COPA",
        config="copa",
        description="Percentage of two-choice questions whose correct cause or effect is closest to the "
        "sentence, without training on questions.",
        paper_reference="Roemmele et al., AAAI Spring Symposium 2011",
        published_rows=500,
        published={
            "RoBERTa-large, language model": 54.8,
            "GPT2-large, language model": 62.4,
            "self-talk": 66.0,
            "MICO, RoBERTa-large, ConceptNet": 73.2,
            "MICO, RoBERTa-large, ATOMIC": 79.4,
        },
    ),
    _task(
        name="siqa",
        title="Social IQA",
        config="siqa",
        description="Percentage of three-choice questions whose correct answer is closest to the social "
        "situation, without training on questions.",
        paper_reference="Sap et al., EMNLP 2019",
        published_rows=1_954,
        published={
            "RoBERTa-large, language model": 39.8,
            "GPT2-large, language model": 42.8,
            "self-talk": 46.2,
            "COMET-DynaGen": 50.1,
            "MICO, RoBERTa-large, ConceptNet": 44.6,
            "MICO, RoBERTa-large, ATOMIC": 56.0,
        },
    ),
    _task(
        name="csqa",
        title="CommonsenseQA",
        config="csqa",
        description="Percentage of five-choice questions whose correct answer is closest to the question, "
        "without training on questions.",
        paper_reference="Talmor et al., NAACL 2019",
        published_rows=1_221,
        published={
            "RoBERTa-large, language model": 31.3,
            "GPT2-large, language model": 40.4,
            "self-talk": 32.4,
            "Dou and Peng, ALBERT-xxlarge": 50.9,
            "MICO, RoBERTa-large, ATOMIC": 44.2,
            "MICO, RoBERTa-large, ConceptNet": 51.0,
        },
    ),
)
"""Zero-shot multiple choice."""
