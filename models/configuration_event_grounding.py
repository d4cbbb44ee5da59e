"""Configurations of hierarchical event grounding (Ou et al., 2023): bi-encoder and cross-encoder."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import (
    EVENT_EMBEDDING,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    EventConfig,
    Limit,
    Pooling,
    limited,
)

EVENT_GROUNDING = {
    "event-grounding": {
        "impl": "pipeline_event_grounding.EventGroundingPipeline",
        # The cross-encoder needs its head; the bi-encoder has no such class, and the next one is taken.
        "pt": ["AutoModelForSequenceClassification", "AutoModel"],
    },
}


@strict
class GroundingConfig(EventConfig):
    """Settings that both encoders of hierarchical event grounding share.

    `event_order` has no effect: mentions and events are texts.

    Args:
        pooling: the paper uses the vector of the first token.
        mention_tokens: maximum number of tokens of a mention with its context, with special tokens.
        event_tokens: maximum number of tokens of an event's title and description, with special tokens. A
            pair has the tokens of both, except the first token of the event.
        read_heading: put the title and the date of a document, if known, before the mention, as the paper
            does for Wikinews.
        linking_objective: `binary` is the paper's cross-entropy of each mention with each candidate: the
            events of the batch, or those retrieved for the mention. `softmax`, beyond the paper, is the
            cross-entropy of each gold event among the candidates that are not gold for the mention.
        null_threshold: score that a candidate must reach to be linked if no threshold is given: the dot
            product for the bi-encoder, the probability for the cross-encoder. Training chooses it on
            validation mentions; None if there are none. No loss uses it.
    """

    processor: ClassVar[str] = "processing_event_grounding.EventGroundingProcessor"
    retired: ClassVar[dict[str, object]] = {"positive_weight": 1.0, "linking_weight": 1.0}

    pooling: Pooling = "cls"
    # Between the special tokens there is room for a word.
    mention_tokens: int = limited(
        128, Limit("an integer of at least 5, with the special tokens", lambda value: value >= 5)
    )
    event_tokens: int = limited(
        128, Limit("an integer of at least 4, with the special tokens", lambda value: value >= 4)
    )
    read_heading: bool = True
    linking_objective: Literal["binary", "softmax"] = "binary"
    null_threshold: float | int | None = None


@strict
class EventGroundingConfig(GroundingConfig):
    """Configuration of the bi-encoder of hierarchical event grounding.

    Defaults are the paper's. Where it is silent or misprinted, the first reading named is the default.
    `event_order` has no effect: mentions and events are texts.

    Args:
        share_towers: use one encoder for mentions and events; the paper has one for each.
        stage: which losses a training step computes: `linking` is the binary cross-entropy of mentions and
            events (section 5.1), `hierarchy` is the loss of parents and children (Eq. 4), `joint` is both.
        hierarchy_weight: weight of the hierarchy loss in the joint stage; that of the linking loss is 1.
        full_complex: score parents and children with all of ComplEx; the paper leaves out its symmetric part.
        normalise: beyond the paper, scale vectors of mentions and events to length one, so that their dot
            product is the cosine. The hierarchy loss uses the vectors before scaling.
        score_scale: beyond the paper, factor of the dot products of mentions and events in the linking loss.
        learnable_score_scale: learn that factor, starting from `score_scale`.
        score_bias: beyond the paper, initial value of a learned bias that is added to every score in the
            linking loss; it does not change the order of candidates. None has no bias.
    """

    model_type = "event_grounding"
    pipelines: ClassVar[dict[str, dict]] = {**EVENT_GROUNDING, **EVENT_EMBEDDING}

    share_towers: bool = False
    stage: Literal["linking", "hierarchy", "joint"] = "linking"
    hierarchy_weight: float | int = limited(0.01, POSITIVE)
    full_complex: bool = False
    normalise: bool = False
    score_scale: float | int = limited(1.0, POSITIVE)
    learnable_score_scale: bool = False
    score_bias: float | int | None = None

    def validate_score_bias(self):
        """Reject a `score_bias` that the linking loss, `softmax`, does not use."""
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
        head_dropout: dropout before the last layer of the head.
        retriever_weight: beyond the paper, weight of the score of the bi-encoder that found the candidates.
            `ground` adds it to this model's score unless another weight is given, and training chooses
            `null_threshold` for this sum. No loss uses it.
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
    retired: ClassVar[dict[str, object]] = {**GroundingConfig.retired, "head_hidden_layer": True}

    head_dropout: float | int = limited(0.1, FRACTION)
    retriever_weight: float | int = limited(0.0, NOT_NEGATIVE)

    def __post_init__(self, **kwargs):
        # One logit for each pair; without it every configuration has two labels.
        kwargs.setdefault("num_labels", 1)
        super().__post_init__(**kwargs)

    @property
    def reads_text_alone(self) -> bool:
        """False: the model reads a mention and an event together."""
        return False

    @property
    def num_labels(self) -> int:
        """1: the model has one logit for each pair."""
        return 1

    @num_labels.setter
    def num_labels(self, value: int) -> None:
        if value != 1:
            raise ValueError(
                f"num_labels is {value}, but a cross-encoder of event grounding has one logit for each pair; "
                "accepted: 1"
            )
        self.id2label, self.label2id = {0: "LABEL_0"}, {"LABEL_0": 0}

    def validate_truncate_dim(self):
        """Reject truncation, since a cross-encoder gives scores."""
        if self.truncate_dim is not None:
            raise ValueError(
                f"truncate_dim is {self.truncate_dim}, but a cross-encoder gives scores and no vectors; "
                "accepted: None"
            )

    def validate_null_threshold(self):
        """Reject a threshold that is not a probability."""
        if self.null_threshold is not None and not 0 < self.null_threshold < 1:
            raise ValueError(
                f"null_threshold is {self.null_threshold}; accepted: a probability between 0 and 1, or None"
            )
