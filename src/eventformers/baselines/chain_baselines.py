"""Baselines on narrative chains, trained on the training chains and scored on the chain tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from datasets import Dataset

from eventformers.baselines.base import (
    Baseline,
    BaselineTask,
    ReadyBaseline,
    require_library,
    settings_revision,
)
from eventformers.baselines.chain_counts import BigramScorer, CountSettings, PpmiScorer, count_chains
from eventformers.baselines.event_networks import DEFAULTS, NetworkSettings, train_network
from eventformers.baselines.word_vectors import WordVectorSettings, train_word_vectors
from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.tasks import names_of_kind
from eventformers.evaluation.tasks.base import JsonValue
from eventformers.evaluation.tasks.chains import Chains
from eventformers.evaluation.tasks.pairs import Pairs
from eventformers.inference.chains.scorers import ChainScorer, EncoderChainScorer
from eventformers.strict import Number, check_types

TRAINING_CONFIG = "chains"
TRAINING_SPLIT = "train"
DEFAULT_SEED = 42
_CONFIGS_WITH_CHAINS = ("mcnc", "multistep")


BaselineSettings: TypeAlias = CountSettings | WordVectorSettings | NetworkSettings
Train: TypeAlias = "Callable[[TrainingChains, Any, int, bool], ChainScorer]"
"""Function of chains, its settings, seed and a switch for the progress bar, which returns a scorer."""


@dataclass(frozen=True)
class TrainingChains:
    """The training chains of a baseline.

    Attributes:
        events: the events of each chain, in order.
        fingerprint: SHA-256 of their rows.
    """

    events: list[list[Event]]
    protagonists: list[str]
    documents: frozenset[str]
    fingerprint: str


@dataclass(frozen=True)
class ChainBaseline:
    """A baseline on chains, with its default settings and its training function.

    Attributes:
        title: its name in results.
        needs_gensim: True if it starts from word vectors; it then also has vectors of events.
    """

    title: str
    settings: BaselineSettings
    train: Train
    needs_gensim: bool = False


@dataclass(frozen=True)
class ChainTraining:
    """A baseline with the settings and the chains of its training, which is done on first use."""

    name: str
    settings: BaselineSettings
    seed: int
    chains: TrainingChains
    show_progress: bool = False

    @property
    def record(self) -> dict[str, JsonValue]:
        """The settings in the form of a result."""
        return {
            "method": self.name,
            **asdict(self.settings),
            "training_chains": len(self.chains.events),
            "training_fingerprint": self.chains.fingerprint,
        }

    @property
    def revision(self) -> str:
        """Distinguishes it from the baseline with other settings, chains or another seed."""
        return settings_revision(self.record, str(self.seed))

    @cached_property
    def trained(self) -> tuple[ChainScorer, float]:
        """The trained baseline, which can score several tasks, and the seconds of its training."""
        started = time.perf_counter()
        train = CHAIN_BASELINES[self.name].train
        return train(self.chains, self.settings, self.seed, self.show_progress), time.perf_counter() - started


def _train_counts(
    scorer: type[PpmiScorer] | type[BigramScorer],
    chains: TrainingChains,
    settings: CountSettings,
    *_: object,
) -> ChainScorer:
    return scorer(count_chains(chains.events, chains.protagonists, settings), settings)


def _train_network(
    name: str, chains: TrainingChains, settings: NetworkSettings, seed: int, show_progress: bool
) -> ChainScorer:
    words = WordVectorSettings(dimension=settings.word_dimension)
    vectors = train_word_vectors(chains.events, words, seed=seed)
    trained = train_network(name, chains.events, vectors, settings, seed=seed, show_progress=show_progress)
    return trained.scorer()


CHAIN_BASELINES: dict[str, ChainBaseline] = {
    "ppmi": ChainBaseline("PPMI", CountSettings(), partial(_train_counts, PpmiScorer)),
    "bigram": ChainBaseline(
        "bigram", CountSettings(unshared=0.001, history_weight=100.0), partial(_train_counts, BigramScorer)
    ),
    "word2vec": ChainBaseline(
        "Word2Vec",
        WordVectorSettings(),
        lambda chains, settings, seed, _: train_word_vectors(chains.events, settings, seed=seed).scorer(),
        needs_gensim=True,
    ),
    **{
        name: ChainBaseline(title, DEFAULTS[name], partial(_train_network, name), needs_gensim=True)
        for name, title in (
            ("event_comp", "Event-comp"),
            ("role_factor_tensor", "Role-factor tensor"),
            ("predicate_tensor", "Predicate tensor"),
        )
    },
}
"""The baselines on chains by name. The settings were tuned on the validation split of the cloze that is built
from `chains`, none on a test split or on the cloze of Weber et al."""


def chain_training(
    name: str,
    data: str | Path | None = None,
    *,
    settings: BaselineSettings | None = None,
    seed: int = DEFAULT_SEED,
    show_progress: bool = False,
    **data_settings: Any,
) -> ChainTraining:
    """Load the training split of `chains` for a baseline, which several tasks can share.

    Args:
        data: folder of raw files, built folder or Hub id of `event_chains`; None uses the bundled samples.
        show_progress: draw a progress bar of the training on standard error.
        **data_settings: settings of `event_chains` to build raw files with.

    Raises:
        EventformersError: gensim is not installed, the settings belong to another baseline, or the data
            cannot be loaded or has no training chains.
    """
    baseline = CHAIN_BASELINES[name]
    chosen = settings or baseline.settings
    check_types({"seed": seed}, {"seed": Number})
    if type(chosen) is not type(baseline.settings):
        raise EventformersError(
            f"{name}: found {type(chosen).__name__}; accepted: {type(baseline.settings).__name__}"
        )
    if baseline.needs_gensim:
        require_library("gensim", "word vectors")
    return ChainTraining(name, chosen, seed, load_training_chains(data, **data_settings), show_progress)


def load_training_chains(data: str | Path | None, **settings: Any) -> TrainingChains:
    """Load the training split of `chains`.

    Args:
        data: folder of raw files, built folder or Hub id of `event_chains`; None uses the bundled samples.
        **settings: settings of `event_chains` to build raw files with.

    Raises:
        EventformersError: the data cannot be loaded or has no training chains.
    """
    splits = load_built(data, TRAINING_CONFIG, builder="event_chains", **settings)
    if TRAINING_SPLIT not in splits or not len(splits[TRAINING_SPLIT]):
        raise EventformersError(
            f"{data}: found the splits {', '.join(splits)} of {TRAINING_CONFIG}; accepted: a split "
            f"{shown(TRAINING_SPLIT)} with chains to train on"
        )
    rows: Dataset = splits[TRAINING_SPLIT]
    return TrainingChains(
        events=cast("list[list[Event]]", rows["events"][:]),
        protagonists=list(rows["protagonist"]),
        documents=frozenset(rows["document_id"]),
        fingerprint=dataset_fingerprint(rows),
    )


@dataclass(frozen=True)
class OnChains(Baseline):
    """A baseline of `CHAIN_BASELINES` on chain tasks, or its vectors of events on similarity tasks."""

    kind = Chains

    @property
    def tasks(self) -> list[str]:
        """See `Baseline`; vectors of events also solve similarity tasks."""
        return super().tasks + (names_of_kind(Pairs) if CHAIN_BASELINES[self.name].needs_gensim else [])

    def prepare(
        self,
        opened: BaselineTask,
        *,
        training_data: str | Path | None = None,
        trained: ChainTraining | None = None,
        settings: BaselineSettings | None = None,
        seed: int | None = None,
    ) -> ReadyBaseline:
        """See `Baseline`.

        Args:
            training_data: source of the training chains; None uses the scored data, for tasks whose questions
                are built from chains. The cloze of Weber et al. and the similarity tasks have no training
                chains.
            trained: output of `chain_training`, to score several tasks; None trains the baseline.
            seed: seed of the training; None takes 42.

        Raises:
            EventformersError: gensim is not installed, there are no training chains, a scored document is
                among them, the folder cannot take the result, or `trained` is another baseline or has
                arguments of a training beside it.
        """
        task, data = opened.task, opened.data
        of_training = {"training_data": training_data, "settings": settings, "seed": seed}
        given = [name for name, value in of_training.items() if value is not None]
        if trained is not None and (trained.name != self.name or given):
            found = ", and ".join([f"{trained.name} already trained", *given])
            raise EventformersError(
                f"{self.name}: found {found}; accepted: the same baseline, without training_data, settings "
                "and seed"
            )
        own_chains = data is None or task.config in _CONFIGS_WITH_CHAINS
        if trained is None and training_data is None and not own_chains:
            raise EventformersError(
                f"{task.name} has no training chains; accepted: training_data, a folder or Hub id of "
                "event_chains"
            )
        training = trained or chain_training(
            self.name,
            training_data or data,
            settings=settings,
            seed=DEFAULT_SEED if seed is None else seed,
            show_progress=opened.show_progress,
        )
        rows = opened.scored_data.rows
        if "document_id" in rows.column_names:
            seen = training.chains.documents.intersection(rows["document_id"])
            if seen:
                raise EventformersError(
                    f"{len(seen):,} documents of the split {shown(opened.record.split)} are among the "
                    f"training chains, such as {shown(min(seen))}; accepted: data of the same test_share, "
                    "validation_share and split_seed"
                )
        title = CHAIN_BASELINES[self.name].title
        opened.check_place(title, training.revision)
        scorer, seconds = training.trained
        # The similarity tasks only need vectors of events.
        asked = scorer if isinstance(task.kind, Chains) else cast(EncoderChainScorer, scorer).embed
        return ReadyBaseline(
            title,
            training.revision,
            lambda: task.kind.run(asked, opened.scored_data.task_rows),
            settings=training.record,
            load_seconds=seconds,
            seed=training.seed,
        )
