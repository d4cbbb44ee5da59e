"""Networks that compose an event from the word vectors of its roles, and their training on chains.

Event-comp, the role-factor tensor and the predicate tensor. Shapes: E events, at most L words in a role, d
size of a word vector, D size of an event vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from torch import nn

from eventformers.baselines.word_vectors import WordVectors, role_words
from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError
from eventformers.inference.chains.scorers import ChainScorer, DistinctEvents, EncoderChainScorer, Scores
from eventformers.strict import StrictSettings, count, setting, strict_settings

COHERENCE_HIDDEN = (200, 100)
"""Sizes of the hidden layers of Event-comp's pair network."""

_COMPOSITION_HIDDEN = 300


class RoleVectors(nn.Module):
    """Mean word vector of each role.

    An absent role has its own learned vector. Row 0 of the table represents unknown words.

    Args:
        table: initial word vectors, `(words + 1, d)`.
    """

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(table, freeze=False)
        self.absent = nn.Parameter(torch.randn(3, table.shape[1]) * table[1:].std())

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Words of the roles, `(E, 3, L)`, padded with -1, to their vectors, `(E, 3, d)`."""
        is_word = (words >= 0).unsqueeze(-1)
        summed = (self.words(words.clamp(min=0)) * is_word).sum(dim=2)
        counts = is_word.sum(dim=2)
        return torch.where(counts > 0, summed / counts.clamp(min=1), self.absent)


class EventNetwork(nn.Module, ABC):
    """Composition of an event from its roles, with a loss of pairs of events against corrupted ones.

    Args:
        table: initial word vectors, `(words + 1, d)`.
        dropout: dropout of the roles' vectors in training.
    """

    def __init__(self, table: torch.Tensor, dropout: float) -> None:
        super().__init__()
        self.roles = RoleVectors(table)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Words of the roles, `(E, 3, L)`, padded with -1, to event vectors, `(E, D)`."""
        return self.compose(self.dropout(self.roles(words)))

    @abstractmethod
    def compose(self, roles: torch.Tensor) -> torch.Tensor:
        """Vectors of subject, predicate and object, `(E, 3, d)`, to event vectors, `(E, D)`."""

    @abstractmethod
    def loss(
        self, context: torch.Tensor, event: torch.Tensor, corrupted: torch.Tensor, margin: float
    ) -> torch.Tensor:
        """Loss of distinguishing events of a chain from corrupted ones, given another event of the chain.

        Args:
            context: the earlier event of each pair, `(P, D)`.
            event: the later event, `(P, D)`.
            corrupted: its corruptions, `(P, N, D)`.
        """


class EventComp(EventNetwork):
    """Event-comp (Granroth-Wilding and Clark, AAAI 2016): an argument composition network and a coherence
    network for pairs of events, trained together by cross-entropy.

    Args:
        table: initial word vectors, `(words + 1, d)`.
        dimension: D.
        dropout: dropout of the roles' vectors in training.
    """

    def __init__(self, table: torch.Tensor, dimension: int, dropout: float) -> None:
        super().__init__(table, dropout)
        self.composition = nn.Sequential(
            nn.Linear(3 * table.shape[1], _COMPOSITION_HIDDEN),
            nn.Tanh(),
            nn.Linear(_COMPOSITION_HIDDEN, dimension),
            nn.Tanh(),
        )
        first, second = COHERENCE_HIDDEN
        self.first_of_pair = nn.Linear(dimension, first)
        self.second_of_pair = nn.Linear(dimension, first, bias=False)
        self.coherence = nn.Sequential(nn.Tanh(), nn.Linear(first, second), nn.Tanh(), nn.Linear(second, 1))

    def compose(self, roles: torch.Tensor) -> torch.Tensor:
        """Vectors of the roles, `(E, 3, d)`, to event vectors, `(E, D)`."""
        return self.composition(roles.flatten(1))

    def coherence_logits(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Coherence of pairs as logits, `(…)`, from the parts `(…, hidden)` of `first_of_pair` and
        `second_of_pair`, whose sum is the layer over both vectors."""
        return self.coherence(first + second).squeeze(-1)

    def loss(
        self, context: torch.Tensor, event: torch.Tensor, corrupted: torch.Tensor, margin: float
    ) -> torch.Tensor:
        """Cross-entropy of correct and corrupted pairs, with equal total weights; see `EventNetwork`."""
        first = self.first_of_pair(context)
        right = self.coherence_logits(first, self.second_of_pair(event))
        wrong = self.coherence_logits(first.unsqueeze(1), self.second_of_pair(corrupted))
        return nn.functional.softplus(-right).mean() + nn.functional.softplus(wrong).mean()


class _CosineNetwork(EventNetwork):
    """An event composition trained by a max-margin loss on cosines (Weber et al., AAAI 2018)."""

    def loss(
        self, context: torch.Tensor, event: torch.Tensor, corrupted: torch.Tensor, margin: float
    ) -> torch.Tensor:
        """max(0, margin + cos(context, corrupted) - cos(context, event)); see `EventNetwork`."""
        right = nn.functional.cosine_similarity(context, event, dim=-1)
        wrong = nn.functional.cosine_similarity(context.unsqueeze(1), corrupted, dim=-1)
        return (margin + wrong - right.unsqueeze(1)).clamp(min=0).mean()


class RoleFactorTensor(_CosineNetwork):
    """Role-factor tensor (Weber et al., AAAI 2018): e = W_s T(s, p) + W_o T(o, p), with T(a, p)_i = Σ_jk
    T_ijk a_j p_k. Arguments: see `EventComp`."""

    def __init__(self, table: torch.Tensor, dimension: int, dropout: float) -> None:
        super().__init__(table, dropout)
        size = table.shape[1]
        self.tensor = nn.Linear(size * size, dimension, bias=False)
        self.subject = nn.Linear(dimension, dimension, bias=False)
        self.object = nn.Linear(dimension, dimension, bias=False)

    def compose(self, roles: torch.Tensor) -> torch.Tensor:
        """Vectors of the roles, `(E, 3, d)`, to event vectors, `(E, D)`."""
        subject, predicate, object_ = roles.unbind(dim=1)
        return self.subject(self._factor(subject, predicate)) + self.object(self._factor(object_, predicate))

    def _factor(self, argument: torch.Tensor, predicate: torch.Tensor) -> torch.Tensor:
        return self.tensor((argument.unsqueeze(2) * predicate.unsqueeze(1)).flatten(1))


class PredicateTensor(_CosineNetwork):
    """Predicate tensor (Weber et al., AAAI 2018): the predicate computes the tensor that composes its
    arguments, e_i = Σ_jk P_ijk s_j o_k with P_ijk = W_ijk Σ_a p_a U_ajk. Arguments: see `EventComp`."""

    def __init__(self, table: torch.Tensor, dimension: int, dropout: float) -> None:
        super().__init__(table, dropout)
        size = table.shape[1]
        self.predicate = nn.Linear(size, size * size, bias=False)
        self.tensor = nn.Linear(size * size, dimension, bias=False)

    def compose(self, roles: torch.Tensor) -> torch.Tensor:
        """Vectors of the roles, `(E, 3, d)`, to event vectors, `(E, D)`."""
        subject, predicate, object_ = roles.unbind(dim=1)
        arguments = (subject.unsqueeze(2) * object_.unsqueeze(1)).flatten(1)
        return self.tensor(self.predicate(predicate) * arguments)


NETWORKS: dict[str, type[EventComp | RoleFactorTensor | PredicateTensor]] = {
    "event_comp": EventComp,
    "role_factor_tensor": RoleFactorTensor,
    "predicate_tensor": PredicateTensor,
}
"""The networks by name."""

_ARGUMENT_SLOTS = (0, 2)
_EVENTS_PER_BLOCK = 2048
_PAIRS_PER_BLOCK = 2**16


@strict_settings
@dataclass(frozen=True)
class NetworkSettings(StrictSettings):
    """Training of an event network.

    Attributes:
        dimension: size of an event vector.
        word_dimension: size of a word vector.
        epochs: passes over the chains.
        chains_per_step: number of chains in a step.
        learning_rate: learning rate of Adam.
        weight_decay: L2 penalty, decoupled.
        window: maximum distance of the two events of a pair, in events of their chain.
        corrupted: number of corruptions of each event of a chain.
        chain_argument: share of the corruptions in which an argument of the chain replaces one of theirs, as
            in the wrong choices of the narrative cloze.
        margin: margin of the max-margin loss of the tensors.
        dropout: dropout of the roles' vectors.
    """

    dimension: int = count(64)
    word_dimension: int = count(64)
    epochs: int = count(5)
    chains_per_step: int = count(64)
    learning_rate: float = setting(1e-3, lambda value: value > 0, "a number above 0")
    weight_decay: float = setting(1e-2, lambda value: value >= 0, "0 or more")
    window: int = count(8)
    corrupted: int = count(1)
    chain_argument: float = setting(1.0, lambda value: 0 <= value <= 1, "0 to 1")
    margin: float = setting(0.5, lambda value: value > 0, "a number above 0")
    dropout: float = setting(0.3, lambda value: 0 <= value < 1, "at least 0 and below 1")


@dataclass(frozen=True)
class TrainedNetwork:
    """An event network with its vocabulary.

    Attributes:
        network: the network, in evaluation mode.
        index: the row of each word; row 0 is for unknown words.
        losses: mean loss of each epoch.
    """

    name: str
    network: EventNetwork
    index: dict[str, int]
    losses: list[float]

    def embed(self, events: Sequence[Event]) -> NDArray[np.float32]:
        """Event vectors, `(events, D)`."""
        words = word_table(events, self.index)
        with torch.inference_mode():
            return torch.cat([self.network(block) for block in words.split(_EVENTS_PER_BLOCK)]).numpy()

    def scorer(self) -> ChainScorer:
        """The network as a scorer of chains: by coherence for Event-comp, by cosine for the tensors."""
        if isinstance(self.network, EventComp):
            return CoherenceScorer(self, self.name)
        return EncoderChainScorer(self.embed, name=self.name)


@dataclass(frozen=True)
class CoherenceScorer:
    """Scores chains by the coherence of pairs of events (Granroth-Wilding and Clark, AAAI 2016).

    The score of a choice is the mean of its coherence, a probability, with the events of the context.
    """

    trained: TrainedNetwork
    name: str = "event_comp"

    def embed(self, events: Sequence[Event]) -> NDArray[np.float32]:
        """Event vectors, `(events, D)`, from which the coherence is computed."""
        return self.trained.embed(events)

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Mean coherence of each choice with the context, `(choices,)` for each question."""
        return [matrix.mean(axis=0) for matrix in self.similarities(contexts, choices)]

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Coherence of every pair, 0 to 1, `(sources, targets)` for each question."""
        if not sources:
            return []
        distinct = DistinctEvents()
        rows = [
            (distinct.rows(ones), distinct.rows(others))
            for ones, others in zip(sources, targets, strict=True)
        ]
        network = cast(EventComp, self.trained.network)
        first_rows = np.concatenate([np.repeat(ones, len(others)) for ones, others in rows])
        second_rows = np.concatenate([np.tile(others, len(ones)) for ones, others in rows])
        with torch.inference_mode():
            vectors = torch.from_numpy(self.trained.embed(distinct.events))
            first, second = network.first_of_pair(vectors), network.second_of_pair(vectors)
            values = np.concatenate(
                [
                    network.coherence_logits(first[ones], second[others]).sigmoid().double().numpy()
                    for ones, others in zip(
                        torch.from_numpy(first_rows).split(_PAIRS_PER_BLOCK),
                        torch.from_numpy(second_rows).split(_PAIRS_PER_BLOCK),
                        strict=True,
                    )
                ]
            )
        ends = np.cumsum([len(ones) * len(others) for ones, others in rows])[:-1]
        return [
            block.reshape(len(ones), len(others))
            for block, (ones, others) in zip(np.split(values, ends), rows, strict=True)
        ]


def word_table(events: Sequence[Event], index: dict[str, int]) -> torch.Tensor:
    """Words of the roles of events, `(events, 3, L)`, padded with -1; an unknown word is 0."""
    rows = [[[index.get(word, 0) for word in words] for words in role_words(event)] for event in events]
    longest = max((len(words) for row in rows for words in row), default=0)
    table = np.full((len(rows), 3, max(1, longest)), -1, dtype=np.int64)
    for row, roles in zip(table, rows, strict=True):
        for cells, words in zip(row, roles, strict=True):
            cells[: len(words)] = words
    return torch.from_numpy(table)


@dataclass(frozen=True)
class ChainTable:
    """The events of all chains, concatenated.

    Attributes:
        words: words of the roles, `(N, 3, L)`.
        chain: the chain of each event, `(N,)`.
        starts: the first event of each chain, and the end, `(chains + 1,)`.
        arguments: (event, slot) of every present argument, `(A, 2)`.
        argument_starts: the first argument of each chain, and the end, `(chains + 1,)`.
    """

    words: torch.Tensor
    chain: torch.Tensor
    starts: torch.Tensor
    arguments: torch.Tensor
    argument_starts: torch.Tensor

    @classmethod
    def of_chains(cls, chains: Sequence[Sequence[Event]], index: dict[str, int]) -> ChainTable:
        """Number the events of chains and their words."""
        words = word_table([event for events in chains for event in events], index)
        starts = torch.tensor([0, *np.cumsum([len(events) for events in chains])])
        chain = torch.repeat_interleave(torch.arange(len(chains)), starts.diff())
        arguments = torch.nonzero(words[:, _ARGUMENT_SLOTS, 0] >= 0)
        of_chain = torch.bincount(chain[arguments[:, 0]], minlength=len(chains))
        return cls(
            words=words,
            chain=chain,
            starts=starts,
            arguments=arguments,
            argument_starts=torch.cat([torch.zeros(1, dtype=torch.long), of_chain.cumsum(0)]),
        )

    def corrupt(
        self, rows: torch.Tensor, settings: NetworkSettings, generator: torch.Generator
    ) -> torch.Tensor:
        """Draw corruptions of events and return their words.

        Args:
            rows: the events to corrupt, `(R,)`.
            settings: the number of corruptions, and the share that get an argument of the chain.

        Returns:
            `(R, corrupted, 3, L)`: events of any chain, drawn by their frequency.
        """
        shape = (len(rows), settings.corrupted)
        words = self.words[torch.randint(len(self.words), shape, generator=generator)]
        chain = self.chain[rows]
        first, count = self.argument_starts[chain], self.argument_starts.diff()[chain]
        drawn = (torch.rand(shape, generator=generator, dtype=torch.float64) * count[:, None]).long()
        slot = torch.randint(len(_ARGUMENT_SLOTS), shape, generator=generator)
        replaced = (torch.rand(shape, generator=generator) < settings.chain_argument) & (count > 0)[:, None]
        event, of_slot = self.arguments[(first[:, None] + drawn)[replaced]].unbind(dim=1)
        slots = torch.tensor(_ARGUMENT_SLOTS)
        where = *torch.nonzero(replaced, as_tuple=True), slots[slot[replaced]]
        words[where] = self.words[event, slots[of_slot]]
        return words

    def pairs(self, chains: torch.Tensor, window: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The events of some chains, and the positions of the earlier and the later event of every pair
        within the window."""
        starts, ends = self.starts[chains].tolist(), self.starts[chains + 1].tolist()
        rows = torch.cat([torch.arange(start, end) for start, end in zip(starts, ends, strict=True)])
        chain = self.chain[rows]
        positions = torch.arange(len(rows))
        earlier, later = [], []
        for distance in range(1, window + 1):
            same = chain[distance:] == chain[:-distance]
            earlier.append(positions[:-distance][same])
            later.append(positions[distance:][same])
        return rows, torch.cat(earlier), torch.cat(later)


def train_network(
    name: str,
    chains: Sequence[Sequence[Event]],
    vectors: WordVectors,
    settings: NetworkSettings | None = None,
    *,
    seed: int = 42,
    show_progress: bool = False,
) -> TrainedNetwork:
    """Train an event network on the CPU; the result depends only on seed and number of threads.

    For every pair of events of a chain within the window, the network learns to distinguish the later event
    from corrupted ones, given the earlier event.

    Args:
        chains: the events of each chain, in order.
        seed: seed of the initial weights, the order of the chains, the dropout and the corruptions.

    Raises:
        EventformersError: no chain has two events, or the loss became infinite.
    """
    settings = settings or DEFAULTS[name]
    index = {word: row + 1 for word, row in vectors.index.items()}
    usable = [events for events in chains if len(events) > 1]
    if not usable:
        raise EventformersError("found no chain of two events; accepted: at least one to train on")
    table = ChainTable.of_chains(usable, index)
    initial = torch.from_numpy(vectors.vectors / np.linalg.norm(vectors.vectors, axis=1).mean())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        start = torch.cat([initial.mean(dim=0, keepdim=True), initial])
        network = NETWORKS[name](start, settings.dimension, settings.dropout)
        losses = _train(network, table, settings, torch.Generator().manual_seed(seed), show_progress)
    return TrainedNetwork(name, network.eval(), index, losses)


def _train(
    network: EventNetwork,
    table: ChainTable,
    settings: NetworkSettings,
    generator: torch.Generator,
    show_progress: bool,
) -> list[float]:
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    losses = []
    with Progress(console=Console(stderr=True), disable=not show_progress) as progress:
        task = progress.add_task("training", total=settings.epochs)
        for _ in range(settings.epochs):
            epoch = []
            order = torch.randperm(len(table.starts) - 1, generator=generator)
            for chains in order.split(settings.chains_per_step):
                rows, earlier, later = table.pairs(chains, settings.window)
                corrupted = table.corrupt(rows, settings, generator)
                vectors = network(torch.cat([table.words[rows], corrupted.flatten(0, 1)]))
                events, wrong = vectors[: len(rows)], vectors[len(rows) :].unflatten(0, corrupted.shape[:2])
                loss = network.loss(events[earlier], events[later], wrong[later], settings.margin)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                epoch.append(loss.item())
            losses.append(float(np.mean(epoch)))
            if not np.isfinite(losses[-1]):
                raise EventformersError(
                    f"the loss is no longer finite; lower the learning rate, which is "
                    f"{settings.learning_rate}"
                )
            progress.advance(task)
    return losses


DEFAULTS: dict[str, NetworkSettings] = {
    "event_comp": NetworkSettings(corrupted=2, chain_argument=0.5),
    "role_factor_tensor": NetworkSettings(),
    "predicate_tensor": NetworkSettings(),
}
"""Default settings of each network, tuned on validation questions for about a minute of training on one CPU
core with 10,000 chains."""
