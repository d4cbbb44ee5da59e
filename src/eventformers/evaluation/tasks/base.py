"""The evaluation task: dataset, protocol and metric under one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.chain_protocols import ChainProtocol, ChainSettings
from eventformers.evaluation.tasks.grounding_protocols import GroundingProtocol, GroundingSettings
from eventformers.evaluation.tasks.induction_protocols import InductionProtocol, InductionSettings
from eventformers.evaluation.tasks.protocols import GraphProtocol, Protocol


@dataclass(frozen=True)
class Task:
    """One evaluation task.

    Attributes:
        name: its name in `TASKS`, on the command line and in the paths of results.
        title: its name in tables and cards.
        dataset: the dataset builder, in snake_case.
        config: the builder's config.
        other_configs: configs with the same columns that are taken where the data lacks the first.
        companions: configs of the builder whose rows the protocol reads, too, such as frames to link to.
        companions_by_split: those of which it reads the scored split alone.
        development_split: the split that the protocol chooses a threshold on; empty for none.
        sample_settings: settings of the builder for the bundled samples, which are smaller than the data that
            its defaults are for.
        build_settings: settings of the builder for other data, such as those that a run trained under.
        splits: the splits that can be scored; of those that the data has, the first is the usual one.
        protocol: makes the metric's inputs from rows and vectors.
        metric: a name that `load_metric` takes.
        main_score: the key of the metric's scores that stands for the task.
        description: what the score means, in one sentence.
        paper_reference: where the task was published.
        published_scores: main scores from papers, by model.
        published_split: the split that the published scores were measured on.
        published_rows: how many rows that split has as it was published.
        published_data: whether the rows of the published scores can be had; where not, no data are the same.
        max_length: tokens of a text at most; None leaves it to the encoder.
        ranks_in_graph: whether the protocol looks at the dataset's other splits, too.
        chain_settings: how chains are read, for a protocol that takes a scorer of chains; None for one that
            takes vectors.
        induction_settings: how mentions are clustered, for a protocol that takes a model of mentions; None
            for any other.
        grounding_settings: how mentions are linked to events, for a protocol that takes a model of both; None
            for any other.
    """

    name: str
    title: str
    dataset: str
    config: str
    splits: tuple[str, ...]
    protocol: Protocol | GraphProtocol | ChainProtocol | InductionProtocol | GroundingProtocol
    metric: str
    main_score: str
    description: str
    paper_reference: str
    published_scores: Mapping[str, float] = field(default_factory=dict)
    published_split: str = "test"
    published_rows: int | None = None
    published_data: bool = True
    max_length: int | None = None
    ranks_in_graph: bool = False
    chain_settings: ChainSettings | None = None
    induction_settings: InductionSettings | None = None
    other_configs: tuple[str, ...] = ()
    grounding_settings: GroundingSettings | None = None
    companions: tuple[str, ...] = ()
    companions_by_split: tuple[str, ...] = ()
    development_split: str = ""
    sample_settings: Mapping[str, object] = field(default_factory=dict)
    build_settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def reads_chains(self) -> bool:
        """Whether the protocol takes a scorer of chains."""
        return self.chain_settings is not None

    def is_published_data(self, split: str, rows: int | None, origin: str | None) -> bool:
        """Whether a score was measured on the rows that the published scores were measured on.

        Args:
            split: the split that was scored.
            rows: how many rows it has; None where that is not known.
            origin: `samples`, `local` or `hub`, as `DatasetRecord` has it; None where that is not known.
        """
        is_same = (split, rows) == (self.published_split, self.published_rows)
        return is_same and self.published_data and origin != "samples"

    def published_scores_on(self, split: str, rows: int | None, origin: str | None) -> Mapping[str, float]:
        """The published scores where `is_published_data` holds for the same arguments; otherwise none."""
        return self.published_scores if self.is_published_data(split, rows, origin) else {}

    def choose_split(self, found: Iterable[str], wanted: str | None = None) -> str:
        """The split to score: the one that is wanted, or else the usual one.

        Args:
            found: the splits that the data has.
            wanted: one of them; None takes the first of `splits` that is there.

        Raises:
            EventformersError: the data lacks it.
        """
        names = list(found)
        for split in (wanted,) if wanted is not None else self.splits:
            if split in names:
                return split
        accepted = f"{wanted!r}, which was asked for" if wanted is not None else " or ".join(self.splits)
        raise EventformersError(
            f"{self.config}: found the splits {', '.join(names)}; accepted: data with {accepted}"
        )
