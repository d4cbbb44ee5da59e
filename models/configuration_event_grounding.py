"""Configurations of hierarchical event grounding (Ou et al., 2023): bi-encoder and cross-encoder."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import EVENT_EMBEDDING, EventConfig

EVENT_GROUNDING = {
    "event-grounding": {
        "impl": "pipeline_event_grounding.EventGroundingPipeline",
        # The cross-encoder needs its head; the bi-encoder has no such class, and the next one is taken.
        "pt": ["AutoModelForSequenceClassification", "AutoModel"],
    },
}


@strict
class GroundingConfig(EventConfig):
    """What both encoders of hierarchical event grounding are told.

    `event_order` has no effect: mentions and events are texts.

    Args:
        pooling: the paper takes the first token's vector.
        positive_weight: what the loss of a gold pair is multiplied by; `balanced` takes the number of the
            other pairs over that of the gold ones. The paper does not say how the loss is reduced; 1 is the
            mean over all pairs.
        mention_tokens: tokens of a mention with its context at most, special tokens included.
        event_tokens: tokens of an event's title and description at most, special tokens included. A pair has
            the tokens of both, less the first of the event.
        read_heading: a mention whose document has a title or a date is read behind them, as the paper does
            for Wikinews.
        linking_objective: `binary` is the paper's cross-entropy of each mention with each candidate: with
            the events of the batch, or with those that were retrieved for the mention. `softmax`, beyond the
            paper, is that of each gold event among the candidates that are not gold for the mention.
        null_threshold: what a candidate must reach to be linked where no threshold is given: with the
            bi-encoder its dot product, with the cross-encoder its probability. The training chooses it on
            validation mentions; None where there are none. No loss reads it.
    """

    pooling: Literal["cls", "mean"] = "cls"
    positive_weight: float | int | Literal["balanced"] = 1.0
    mention_tokens: int = 128
    event_tokens: int = 128
    read_heading: bool = True
    linking_objective: Literal["binary", "softmax"] = "binary"
    null_threshold: float | int | None = None

    def validate_linking_objective(self):
        """Refuse a setting that has no part in the loss of linking.

        Raises:
            ValueError: `linking_objective` is `softmax`, with a `positive_weight`.
        """
        if self.linking_objective == "softmax" and self.positive_weight != 1:
            raise ValueError(
                "linking_objective is 'softmax', which has no part for a weight of gold pairs; received "
                f"positive_weight {self.positive_weight}; accepted: 1"
            )

    def validate_positive_weight(self):
        """Refuse a weight with which gold pairs would teach nothing.

        Raises:
            ValueError: it is a number of 0 or below.
        """
        # Written so that NaN is refused, too.
        if self.positive_weight != "balanced" and not self.positive_weight > 0:
            raise ValueError(
                f"positive_weight is {self.positive_weight}; accepted: a number above 0, or 'balanced'"
            )

    def validate_tokens(self):
        """Refuse texts without room for a word between their special tokens.

        Raises:
            ValueError: `mention_tokens` or `event_tokens` is too small.
        """
        for name, smallest in (("mention_tokens", 5), ("event_tokens", 4)):
            value = getattr(self, name)
            if value < smallest:
                raise ValueError(
                    f"{name} is {value}; accepted: an integer of at least {smallest}, with the special tokens"
                )


@strict
class EventGroundingConfig(GroundingConfig):
    """Configuration of the bi-encoder of hierarchical event grounding.

    Defaults are the paper's. Where it is silent or misprinted, the first reading named is the default.
    `event_order` has no effect: mentions and events are texts.

    Args:
        share_towers: one encoder for mentions and events; the paper has one for each.
        stage: which losses a training step computes: `linking` is the binary cross-entropy of mentions and
            events (section 5.1), `hierarchy` that of parents and children (Eq. 4), and `joint` both.
        linking_weight: weight of the loss of linking in the joint stage.
        hierarchy_weight: weight of the loss of the hierarchy in the joint stage.
        full_complex: score parents and children by the whole of ComplEx; the paper leaves its symmetric part
            out.
        normalise: beyond the paper, vectors of mentions and events have length one, so that their dot product
            is the cosine. The loss of the hierarchy reads them as they are before.
        score_scale: beyond the paper, what the dot products of mentions and events are multiplied by in the
            loss of linking.
        learnable_score_scale: learn that number, from `score_scale` on.
        score_bias: beyond the paper, a learned number that starts at this value and is added to every score
            in the loss of linking; the order of candidates does not change by it. None has none.
    """

    model_type = "event_grounding"
    full_auto_map: ClassVar[dict[str, str]] = {
        "AutoConfig": "configuration_event_grounding.EventGroundingConfig",
        "AutoModel": "modeling_event_grounding.EventGroundingModel",
        "AutoModelForPreTraining": "modeling_event_grounding.EventGroundingForPreTraining",
    }
    pipelines: ClassVar[dict[str, dict]] = {**EVENT_GROUNDING, **EVENT_EMBEDDING}

    share_towers: bool = False
    stage: Literal["linking", "hierarchy", "joint"] = "linking"
    linking_weight: float | int = 1.0
    hierarchy_weight: float | int = 0.01
    full_complex: bool = False
    normalise: bool = False
    score_scale: float | int = 1.0
    learnable_score_scale: bool = False
    score_bias: float | int | None = None

    @property
    def term_weights(self) -> dict[str, float]:
        """Weight of each loss term that the configured stage computes."""
        if self.stage != "joint":
            return {f"{self.stage}_loss": 1.0}
        return {"linking_loss": self.linking_weight, "hierarchy_loss": self.hierarchy_weight}

    def validate_weights(self):
        """Refuse weights that would switch a part of the joint stage off, or turn it round.

        Raises:
            ValueError: a weight is 0 or below.
        """
        for name in ("linking_weight", "hierarchy_weight", "score_scale"):
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name} is {value}; accepted: a number above 0")

    def validate_score_bias(self):
        """Refuse a bias that has no part in the loss of linking.

        Raises:
            ValueError: `linking_objective` is `softmax`, with a `score_bias`.
        """
        if self.linking_objective == "softmax" and self.score_bias is not None:
            raise ValueError(
                "linking_objective is 'softmax', which has no part for a bias of all scores; received "
                f"score_bias {self.score_bias}; accepted: None"
            )


@strict
class EventGroundingCrossConfig(GroundingConfig):
    """Configuration of the cross-encoder, which reads a mention and a candidate event as one text.

    Defaults are the paper's where it states them. `event_order` has no effect: a pair is a text.

    Args:
        head_hidden_layer: whether the prediction head has a hidden layer with tanh between the pooled vector
            and the score. The paper only names a head; the released code of the work that it follows reads
            the encoder's own layer of this shape.
        head_dropout: dropout before the last layer of the head.
    """

    model_type = "event_grounding_cross"
    full_auto_map: ClassVar[dict[str, str]] = {
        "AutoConfig": "configuration_event_grounding.EventGroundingCrossConfig",
        "AutoModel": "modeling_event_grounding_cross.EventGroundingCrossModel",
        "AutoModelForSequenceClassification": (
            "modeling_event_grounding_cross.EventGroundingForSequenceClassification"
        ),
    }
    pipelines: ClassVar[dict[str, dict]] = EVENT_GROUNDING

    head_hidden_layer: bool = True
    head_dropout: float | int = 0.1

    def __post_init__(self, **kwargs):
        # One logit for each pair; without it every configuration has two labels.
        kwargs.setdefault("num_labels", 1)
        super().__post_init__(**kwargs)

    def validate_null_threshold(self):
        """Refuse a threshold that is no probability.

        Raises:
            ValueError: it is not between 0 and 1.
        """
        if self.null_threshold is not None and not 0 < self.null_threshold < 1:
            raise ValueError(
                f"null_threshold is {self.null_threshold}; accepted: a probability between 0 and 1, or None"
            )

    def validate_head_dropout(self):
        """Refuse a dropout that is no probability.

        Raises:
            ValueError: it is below 0, or 1 or above.
        """
        if not 0 <= self.head_dropout < 1:
            raise ValueError(f"head_dropout is {self.head_dropout}; accepted: a number from 0 to below 1")


EventGroundingConfig.register_for_auto_class()
EventGroundingCrossConfig.register_for_auto_class()
