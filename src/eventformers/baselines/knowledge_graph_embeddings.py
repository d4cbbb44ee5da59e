"""ConvE, RotatE and ComplEx on a commonsense graph, trained with PyKEEN (extra `baselines`).

These methods represent an entity by its triples, not by its words. So they show how much of graph completion
works without a language model, especially for entities that training never saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from eventformers.datasets_scripts.relation_templates import Direction
from eventformers.errors import EventformersError
from eventformers.strict import StrictSettings, count, setting, strict_settings

if TYPE_CHECKING:
    from pykeen.models import ERModel
    from pykeen.triples import CoreTriplesFactory

Ids = npt.NDArray[np.int64]


@strict_settings
@dataclass(frozen=True)
class EmbeddingSettings(StrictSettings):
    """Training of a knowledge graph embedding; entities outside of its triples keep their initial vectors.

    Attributes:
        dimension: size of an entity's vector; RotatE's and ComplEx's are complex, with twice as many numbers.
        epochs: passes over the training triples.
        batch_size: number of triples in a step; ConvE counts each triple once in each direction.
        negatives: number of corrupted triples for each triple, drawn uniformly.
        learning_rate: learning rate of the optimizer.
        label_smoothing: share of the target that is spread over both labels.
    """

    dimension: int = count(200)
    epochs: int = count(100)
    batch_size: int = count(1024)
    negatives: int = count(10)
    learning_rate: float = setting(1e-3, lambda value: value > 0, "a number above 0")
    label_smoothing: float = setting(0.0, lambda value: 0 <= value < 1, "at least 0 and below 1")


@dataclass(frozen=True)
class EmbeddingMethod:
    """A knowledge graph embedding with its authors' training.

    Attributes:
        model: the class in `pykeen.models`.
        has_inverse_relations: True if queries for heads use separate relations.
        corrupts: the ends of a triple that are replaced for a negative.
    """

    name: str
    model: str
    loss: str
    optimizer: str
    defaults: EmbeddingSettings
    loss_settings: Mapping[str, float] = field(default_factory=dict)
    has_inverse_relations: bool = False
    corrupts: tuple[str, ...] = ("head", "tail")


METHODS: dict[str, EmbeddingMethod] = {
    method.name: method
    for method in (
        EmbeddingMethod(
            name="conve",
            model="ConvE",
            loss="bcewithlogits",
            optimizer="adam",
            has_inverse_relations=True,
            corrupts=("tail",),
            defaults=EmbeddingSettings(batch_size=128, label_smoothing=0.1),
        ),
        EmbeddingMethod(
            name="rotate",
            model="RotatE",
            loss="nssa",
            optimizer="adam",
            loss_settings={"margin": 9.0, "adversarial_temperature": 1.0},
            defaults=EmbeddingSettings(negatives=256),
        ),
        EmbeddingMethod(
            name="complex",
            model="ComplEx",
            loss="softplus",
            optimizer="adagrad",
            defaults=EmbeddingSettings(learning_rate=0.5),
        ),
    )
}
"""The methods by name.

ConvE (Dettmers et al., AAAI 2018): dimension 200, batches of 128, learning rate 0.001, label smoothing 0.1,
the dropouts (PyKEEN's defaults) and the inverse relations are its authors'. They score a head and a relation
against all entities at once; PyKEEN holds batch x entities x dimension numbers for that, 1.7 billion on
CN-82K, so negatives are drawn instead. RotatE (Sun et al., ICLR 2019): the self-adversarial loss with margin
9 and temperature 1, 256 negatives and batches of 1024 are its authors' for FB15k-237; their dimension is 1000
and their learning rate 0.00005, over 100,000 steps. ComplEx (Trouillon et al., ICML 2016): softplus, AdaGrad
from 0.5, 10 negatives and dimension 200 are among its authors' values; the penalty is PyKEEN's. All other
values are ours, because the papers do not use these graphs.
"""


@dataclass
class GraphEmbeddings:
    """A trained knowledge graph embedding, with scores as dot products.

    PyKEEN scores a query against all entities with arrays of queries x entities x dimension. All three scores
    are dot products of a query's vector with an entity's, or increase with one for any given query, so one
    matrix product replaces them: the order of the entities is the same.

    Attributes:
        model: PyKEEN's model, in evaluation mode, with all entities.
        losses: mean loss of each epoch.
    """

    method: EmbeddingMethod
    model: ERModel
    losses: list[float]

    def scores(self, entities: Ids, relations: Ids, direction: Direction) -> torch.Tensor:
        """Score every entity as the answer to queries of one direction.

        Args:
            entities: the known heads (`forward`) or tails (`reverse`), `(queries,)`.
            relations: the relation of each, `(queries,)`.
            direction: `forward` asks for the tail, `reverse` for the head.

        Returns:
            `(queries, entities)`; higher is better. Scores of different queries or methods are not
            comparable.
        """
        with torch.inference_mode():
            device = self.model.device
            queries = self._queries(
                torch.from_numpy(entities).to(device), torch.from_numpy(relations).to(device), direction
            )
            candidates = self.model.entity_representations[0](None)
            if self.method.name == "conve":
                last = self.model.entity_representations[1](None)[:, None]
                return queries @ torch.cat([candidates, last], dim=1).T
            candidates = torch.view_as_real(candidates).flatten(1)
            if self.method.name == "rotate":
                # -|q - t|^2 / 2 up to terms that are the same for every t: the order of its distances.
                last = -0.5 * candidates.square().sum(1, keepdim=True)
                candidates = torch.cat([candidates, last], dim=1)
            return queries @ candidates.T

    def _queries(self, entities: torch.Tensor, relations: torch.Tensor, direction: Direction) -> torch.Tensor:
        if self.method.has_inverse_relations:
            # PyKEEN stores a relation and its inverse under ids of their own.
            inverter = self.model.relation_inverter
            ids = inverter.map(relations[:, None], index=0, invert=direction == "reverse")[:, 0]
            known = self.model.entity_representations[0](entities)
            # The score is the product with the answer's vector, so unit vectors give the other factor.
            units = torch.eye(known.shape[1], device=known.device)[None]
            vectors = self.model.interaction(
                h=known[:, None],
                r=self.model.relation_representations[0](ids)[:, None],
                t=(units, torch.zeros_like(units[..., 0])),
            )
            return torch.cat([vectors, torch.ones_like(vectors[:, :1])], dim=1)
        relation = self.model.relation_representations[0](relations)
        # The conjugate inverts a rotation, and it moves ComplEx's relation to the other side.
        turned = self.model.entity_representations[0](entities) * (
            relation if direction == "forward" else relation.conj()
        )
        vectors = torch.view_as_real(turned).flatten(1)
        if self.method.name == "complex":
            return vectors
        return torch.cat([vectors, torch.ones_like(vectors[:, :1])], dim=1)


def train_embeddings(
    name: str,
    triples: Ids,
    *,
    entities: int,
    relations: int,
    settings: EmbeddingSettings | None = None,
    device: str | torch.device = "cpu",
    seed: int = 0,
    show_progress: bool = False,
) -> GraphEmbeddings:
    """Train a knowledge graph embedding; the same seed on the same machine gives the same vectors.

    Args:
        triples: ids of head, relation and tail, `(triples, 3)`, at least one; their entities are numbered
            from 0 without gaps.
        entities: number of entities; those of other splits come after those of the triples.
        relations: number of relations. One without a triple keeps its initial vector.
        seed: seed of the initial vectors, the order of the triples and the negatives. PyKEEN sets the global
            random states of torch, numpy and Python.

    Raises:
        EventformersError: memory ran out, or the loss became infinite.
    """
    method = METHODS[name]
    settings = settings or method.defaults
    seen = int(triples[:, [0, 2]].max()) + 1
    ids = torch.from_numpy(np.ascontiguousarray(triples))
    factory = _factory(method, ids, seen, relations)
    model = _model(method, factory, settings, device, seed)
    losses = _train(method, model, factory, settings, show_progress)
    if seen < entities:
        whole = _model(method, _factory(method, ids, entities, relations), settings, device, seed)
        learned = model.state_dict()
        for key, weights in whole.state_dict().items():
            # Of more entities, only the first ones are trained.
            (weights[: len(learned[key])] if weights.ndim else weights).copy_(learned[key])
        model = whole
    return GraphEmbeddings(method, model.eval(), losses)


def _factory(
    method: EmbeddingMethod, triples: torch.Tensor, entities: int, relations: int
) -> CoreTriplesFactory:
    from pykeen.triples import CoreTriplesFactory

    return CoreTriplesFactory(
        triples,
        num_entities=entities,
        num_relations=relations,
        create_inverse_triples=method.has_inverse_relations,
    )


def _model(
    method: EmbeddingMethod,
    factory: CoreTriplesFactory,
    settings: EmbeddingSettings,
    device: str | torch.device,
    seed: int,
) -> ERModel:
    from pykeen.models import model_resolver

    model = model_resolver.make(
        method.model,
        triples_factory=factory,
        embedding_dim=settings.dimension,
        loss=method.loss,
        loss_kwargs=dict(method.loss_settings),
        random_seed=seed,
    )
    return model.to(device)


def _train(
    method: EmbeddingMethod,
    model: ERModel,
    factory: CoreTriplesFactory,
    settings: EmbeddingSettings,
    show_progress: bool,
) -> list[float]:
    from pykeen.training import SLCWATrainingLoop
    from pykeen.training.training_loop import NonFiniteLossError

    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=method.optimizer,
        optimizer_kwargs={"lr": settings.learning_rate},
        # PyKEEN would try out batch sizes before training, although the size is given.
        automatic_memory_optimization=False,
        negative_sampler="basic",
        negative_sampler_kwargs={
            "num_negs_per_pos": settings.negatives,
            "corruption_scheme": method.corrupts,
        },
    )
    instances = len(factory.mapped_triples) * (2 if method.has_inverse_relations else 1)
    try:
        losses = loop.train(
            factory,
            num_epochs=settings.epochs,
            batch_size=min(settings.batch_size, instances),
            label_smoothing=settings.label_smoothing,
            use_tqdm=show_progress,
            use_tqdm_batch=False,
            num_workers=0,
            pin_memory=model.device.type == "cuda",
        )
    except NonFiniteLossError as error:
        raise EventformersError(
            f"the loss of {method.model} is no longer finite; lower the learning rate, which is "
            f"{settings.learning_rate}"
        ) from error
    except torch.OutOfMemoryError as error:
        raise EventformersError(
            f"out of memory on {model.device}; lower batch_size ({settings.batch_size}), negatives "
            f"({settings.negatives}) or dimension ({settings.dimension})"
        ) from error
    return [float(loss) for loss in losses or []]
