"""The tasks that MICO is measured by: completion of commonsense graphs, and questions."""

from __future__ import annotations

from eventformers.evaluation.tasks.base import Task
from eventformers.evaluation.tasks.protocols import choose_alternatives, rank_alternatives

MICO_LENGTH = 64
"""Tokens of a premise or an alternative at most, as MICO's evaluation has it."""

COMMONSENSE_TASKS: tuple[Task, ...] = (
    Task(
        name="conceptnet_completion",
        title="ConceptNet completion (inductive)",
        dataset="commonsense_graphs",
        config="conceptnet_inductive_pairs",
        other_configs=("conceptnet_pairs",),
        splits=("test", "validation"),
        protocol=rank_alternatives,
        metric="ranking",
        main_score="mrr",
        description="Mean reciprocal rank, in percent, of the right alternative of a premise among all "
        "alternatives of the graph, other known ones left out, over both directions.",
        paper_reference="Wang et al., IJCNN 2021",
        published_rows=19_592,
        published_scores={
            "ConvE, test (Su et al. 2022)": 0.21,
            "RotatE, test (Su et al. 2022)": 0.32,
            "Malaviya et al. 2020, test (Su et al. 2022)": 12.29,
            "InductivE, test (Su et al. 2022)": 18.15,
            "MICO, BERT-base, test (Su et al. 2022)": 9.00,
            "MICO, RoBERTa-base, test (Su et al. 2022)": 9.08,
            "MICO, RoBERTa-large, test (Su et al. 2022)": 10.92,
        },
        max_length=MICO_LENGTH,
        ranks_in_graph=True,
    ),
    Task(
        name="atomic_completion",
        title="ATOMIC completion (inductive)",
        dataset="commonsense_graphs",
        config="atomic_inductive_pairs",
        other_configs=("atomic_pairs",),
        splits=("test", "validation"),
        protocol=rank_alternatives,
        metric="ranking",
        main_score="mrr",
        description="The question of conceptnet_completion on ATOMIC, whose alternatives are what an "
        "event leads to, and events without their subject.",
        paper_reference="Wang et al., IJCNN 2021",
        published_rows=48_972,
        published_scores={
            "ConvE, test (Su et al. 2022)": 0.08,
            "RotatE, test (Su et al. 2022)": 0.10,
            "Malaviya et al. 2020, test (Su et al. 2022)": 0.02,
            "InductivE, test (Su et al. 2022)": 2.51,
            "MICO, BERT-base, test (Su et al. 2022)": 7.07,
            "MICO, RoBERTa-base, test (Su et al. 2022)": 7.52,
            "MICO, RoBERTa-large, test (Su et al. 2022)": 8.13,
        },
        max_length=MICO_LENGTH,
        ranks_in_graph=True,
    ),
    Task(
        name="copa",
        title="COPA",
        dataset="commonsense_qa",
        config="copa",
        splits=("test", "validation"),
        protocol=choose_alternatives,
        metric="mcnc",
        main_score="accuracy",
        description="Percentage of questions with two choices whose right cause or effect is nearest to "
        "the sentence, without training on questions.",
        paper_reference="Roemmele et al., AAAI Spring Symposium 2011",
        published_rows=500,
        published_scores={
            "RoBERTa-large, language model, dev (Su et al. 2022)": 54.8,
            "GPT2-large, language model, dev (Su et al. 2022)": 62.4,
            "self-talk, dev (Su et al. 2022)": 66.0,
            "MICO, RoBERTa-large, ConceptNet, dev (Su et al. 2022)": 73.2,
            "MICO, RoBERTa-large, ATOMIC, dev (Su et al. 2022)": 79.4,
        },
        published_split="validation",
        max_length=MICO_LENGTH,
    ),
    Task(
        name="siqa",
        title="Social IQA",
        dataset="commonsense_qa",
        config="siqa",
        splits=("test", "validation"),
        protocol=choose_alternatives,
        metric="mcnc",
        main_score="accuracy",
        description="Percentage of questions with three answers whose right one is nearest to the social "
        "situation, without training on questions.",
        paper_reference="Sap et al., EMNLP 2019",
        published_rows=1_954,
        published_scores={
            "RoBERTa-large, language model, dev (Su et al. 2022)": 39.8,
            "GPT2-large, language model, dev (Su et al. 2022)": 42.8,
            "self-talk, dev (Su et al. 2022)": 46.2,
            "COMET-DynaGen, dev (Su et al. 2022)": 50.1,
            "MICO, RoBERTa-large, ConceptNet, dev (Su et al. 2022)": 44.6,
            "MICO, RoBERTa-large, ATOMIC, dev (Su et al. 2022)": 56.0,
        },
        published_split="validation",
        max_length=MICO_LENGTH,
    ),
    Task(
        name="csqa",
        title="CommonsenseQA",
        dataset="commonsense_qa",
        config="csqa",
        splits=("test", "validation"),
        protocol=choose_alternatives,
        metric="mcnc",
        main_score="accuracy",
        description="Percentage of questions with five answers whose right one is nearest to the "
        "question, without training on questions.",
        paper_reference="Talmor et al., NAACL 2019",
        published_rows=1_221,
        published_scores={
            "RoBERTa-large, language model, dev (Su et al. 2022)": 31.3,
            "GPT2-large, language model, dev (Su et al. 2022)": 40.4,
            "self-talk, dev (Su et al. 2022)": 32.4,
            "Dou and Peng, ALBERT-xxlarge, dev (Su et al. 2022)": 50.9,
            "MICO, RoBERTa-large, ATOMIC, dev (Su et al. 2022)": 44.2,
            "MICO, RoBERTa-large, ConceptNet, dev (Su et al. 2022)": 51.0,
        },
        published_split="validation",
        max_length=MICO_LENGTH,
    ),
)
"""Filtered ranks of alternatives in a graph, and zero-shot multiple choice."""
