"""Configuration of HeterEvent and MulCL (Zheng et al., 2020 and 2022)."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import (
    COUNT,
    EVENT_EMBEDDING,
    FRACTION,
    NEXT_EVENT,
    NOT_NEGATIVE,
    POSITIVE,
    EventConfig,
    limited,
)


@strict
class HeterEventConfig(EventConfig):
    """Configuration of HeterEvent, a graph over the events and words of a chain, and of MulCL's pretraining.

    Defaults are the paper's where it states them. Where it is silent or misprinted, the first reading named
    is the default. `pooling` has no effect: roles are pooled by maximum and mean, concatenated.

    Args:
        event_dim: size d of an event's vector and of the projected tokens that it is composed of. The paper
            states none; without a projection its tensor would have billions of entries.
        chain_dim: size D of the states, nodes and `embeddings`, an even number; `projection_dim` has the same
            value.
        composition: `tensor` is Eq. 1; `low_rank` replaces each slice by a diagonal and a sum of outer
            products.
        composition_rank: number of those outer products.
        event_skip: beyond the paper, add the encoder's own vector of an event, the mean of its token vectors,
            to the event's state, and the mean over the events to the chain's state. Before any training,
            cosines are then nearly those of the encoder; the tensor alone starts from noise.
        gate_bias: beyond the paper, initial value of a learned bias of the gate of Eq. 10; with a negative
            one, nodes pass nearly unchanged at first. None has no bias, as printed.
        event_dropout: dropout of the event vectors. Two draws of it are the two views of a chain in Eq. 3 and
            4, where the paper prints the same vector twice.
        num_graph_layers: number of message-passing layers K; the paper uses 3 for inference and 1 for
            similarity.
        value_projection: project vectors before passing them as messages; as printed, Eq. 7 passes them
            unprojected.
        edge_type_bias: beyond the paper, a learned attention bias for each type of edge.
        readout: `mean` follows the text of the paper, `sum` follows Eq. 11.
        stage: which losses a training step computes: `masked_words` fine-tunes the encoder on texts of chains
            (section III-B1), `sequence` is SeqCL (Eq. 6), `graph` GraCL (Eq. 14), `supervised` the prediction
            of a left-out event (Eq. 15 and 16).
        contrast_temperature: temperature of every contrast and prediction; the paper states none.
        order_weight: lambda_1 of Eq. 6; a term of weight 0 is not computed.
        replacement_weight: lambda_2 of Eq. 6.
        composition_weight: lambda_3 of Eq. 6.
        composition_anchor: what a segment is contrasted with (Eq. 5): `chain`, as printed, contains the
            segment itself; `rest`, beyond the paper, is the chain without it, so that the model must learn
            which events belong together.
        normal_corrupted_weight: alpha_1 of Eq. 14.
        corrupted_corrupted_weight: alpha_2 of Eq. 14.
        edge_drop: probability that an edge is left out of a corrupted graph.
        feature_mask: probability that a feature dimension is masked in a corrupted graph.
        literal_ratio: leave out the log in Eq. 3 to 5, 12 and 13, as printed.
        training_level: what the supervised stage predicts: `words` is the paper's [W], `events` [E],
            `words_and_events` [W+E].
        word_weight: weight of the prediction of words (Eq. 15); the paper adds both levels unweighted.
        event_weight: weight of the prediction of the event (Eq. 16).
        predict_from: how events are predicted: `mean` predicts the left-out event by the mean cosine over all
            events of the context, as inference does; `neighbours` predicts the previous and the next event
            from each event of the chain, with a matrix for each direction (Eq. 16).
        literal_first: predict the words of an event from its first word only, as printed in Eq. 15, instead
            of from each of its other words.
        freeze_encoder: run the text encoder without gradients and without dropout.
    """

    model_type = "heterevent"
    auto_classes: ClassVar[tuple[str, ...]] = (
        "AutoModel",
        "AutoModelForPreTraining",
        "AutoModelForMultipleChoice",
    )
    pipelines: ClassVar[dict[str, dict]] = {**NEXT_EVENT, **EVENT_EMBEDDING}
    processor: ClassVar[str] = "processing_heterevent.HeterEventProcessor"
    retired: ClassVar[dict[str, object]] = {"share_layers": False, "state_weight": 0.1}

    event_dim: int = limited(128, COUNT)
    chain_dim: int = 256
    # `validate_projection_dim` compares it with `chain_dim`.
    projection_dim: int | None = None
    composition: Literal["tensor", "low_rank"] = "tensor"
    composition_rank: int = limited(10, COUNT)
    event_skip: bool = False
    gate_bias: float | int | None = None
    event_dropout: float | int = limited(0.1, FRACTION)
    num_graph_layers: int = limited(3, COUNT)
    value_projection: bool = False
    edge_type_bias: bool = False
    readout: Literal["mean", "sum"] = "mean"
    stage: Literal["masked_words", "sequence", "graph", "supervised"] = "sequence"
    contrast_temperature: float | int = limited(0.1, POSITIVE)
    order_weight: float | int = limited(0.4, NOT_NEGATIVE)
    replacement_weight: float | int = limited(0.4, NOT_NEGATIVE)
    composition_weight: float | int = limited(0.2, NOT_NEGATIVE)
    composition_anchor: Literal["chain", "rest"] = "chain"
    normal_corrupted_weight: float | int = limited(0.7, NOT_NEGATIVE)
    corrupted_corrupted_weight: float | int = limited(0.3, NOT_NEGATIVE)
    edge_drop: float | int = limited(0.2, FRACTION)
    feature_mask: float | int = limited(0.2, FRACTION)
    literal_ratio: bool = False
    training_level: Literal["words", "events", "words_and_events"] = "words_and_events"
    word_weight: float | int = limited(1.0, NOT_NEGATIVE)
    event_weight: float | int = limited(1.0, NOT_NEGATIVE)
    predict_from: Literal["mean", "neighbours"] = "mean"
    literal_first: bool = False
    freeze_encoder: bool = False

    @property
    def reads_text_alone(self) -> bool:
        """False: a model of chains needs the roles of an event."""
        return False

    @property
    def event_vector_dim(self) -> int:
        """Size of the vector of an event from `encode_events`: d, plus `chain_dim` with `event_skip`."""
        return self.event_dim + (self.chain_dim if self.event_skip else 0)

    def __post_init__(self, **kwargs):
        if self.projection_dim is None:
            self.projection_dim = self.chain_dim
        super().__post_init__(**kwargs)

    def validate_projection_dim(self):
        """Reject a state size that is not even, for the two directions to share, and another size of
        `embeddings`."""
        if self.chain_dim < 2 or self.chain_dim % 2:
            raise ValueError(
                f"chain_dim is {self.chain_dim}; accepted: an even number of at least 2, half of it for each "
                "direction"
            )
        if self.projection_dim != self.chain_dim:
            raise ValueError(
                f"projection_dim is {self.projection_dim} and chain_dim {self.chain_dim}; accepted: "
                "chain_dim alone, since the states of a chain are not projected"
            )

    def validate_truncate_dim(self):
        """Reject truncation, since the vectors of roles and chains are not those of an encoder."""
        if self.truncate_dim is not None:
            raise ValueError(
                f"truncate_dim is {self.truncate_dim}, but only vectors of an encoder can be truncated; "
                "accepted: None; chain_dim is the size of the vectors"
            )

    def validate_weights(self):
        """Reject a stage whose terms are all disabled."""
        weights = {
            "sequence": ("order_weight", "replacement_weight", "composition_weight"),
            "graph": ("normal_corrupted_weight", "corrupted_corrupted_weight"),
            "supervised": ("word_weight", "event_weight"),
        }
        names = weights.get(self.stage, ())
        if names and not any(getattr(self, name) for name in names):
            raise ValueError(f"{', '.join(names)} are all 0; accepted: at least one above 0")
