"""Configuration of event type induction by batch attention (Edwards and Ji, 2023)."""

import math
from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import FRACTION, NOT_NEGATIVE, POSITIVE, EventConfig, limited

FINDER_LAYERS = (0, -1)
"""The hidden states that the trigger finder reads: the first depends on the word only, the last on the
sentence."""


@strict
class EventTypeInductionConfig(EventConfig):
    """Configuration of event type induction by batch attention under a contrastive loss.

    Defaults are the paper's. Where it is silent or misprinted, the first reading named is the default.
    `event_order` has no effect: a mention is a sentence.

    Args:
        margin: m of section 3.4: a negative pair whose sigmoid score is below it has no loss.
        map_dropout: dropout of the maps to query and key; the paper does not state the rate.
        unseen_diagonal: treat an unseen mention as a positive of itself and of its other view, as the
            released code does; the printed formula leaves these pairs out.
        trigger_input: how the model reads the trigger. `none`, the paper's, ignores it. Beyond the paper,
            `marked` puts the trigger between two learned tokens, `span` pools over the trigger's tokens, and
            `marked_span` does both. `found` needs no triggers: the model learns from the labels of whole
            sentences which token carries an event, and uses the vector of that token.
        found_exponent: with `found`, average all tokens instead, each weighted by the probability that it
            carries an event, raised to this power; a small one suits texts unlike the training data. None
            takes the token with the highest probability.
        weighting_rounds: with `found_exponent`, how often mentions are clustered again, each time with tokens
            also weighted by how strongly their occurrence depends on the last clusters.
        pooled_layer: index of the hidden state that the vector of a mention is pooled from, as in
            `hidden_states`; beyond the paper, other values than -1, the last.
        finder_dropout: dropout of the trigger finder.
        freeze_encoder: run the text encoder without gradients and without dropout.
        trained_types: names of the seen types, whose labels were used in training, in the order of their
            numbers; training sets them.
        map_skip: beyond the paper, add the encoder's vector to the output of each map. Before any training,
            the scores of pairs are then nearly the encoder's cosines; the maps alone start from noise.
        score_scale: with `map_skip`, the initial factor of those cosines.
        score_bias: beyond the paper, initial value of a learned bias that is added to every score in the pair
            loss; attention and distances do not use it. None has no bias.
        type_name_weight: weight of the auxiliary loss with the names of types (section 3.5); the paper's main
            runs do not use it, its runs for names use 1.
        frame_weight: weight of the auxiliary loss with the definitions of frames.
        frame_example_weight: beyond the paper, weight of a contrastive loss between example sentences of
            frames and the definitions of these frames, for linking; 0 reads no examples.
        auxiliary_hidden_layer: give the auxiliary head, a "1-layer network" in the paper, one hidden layer,
            as in the released code; without it the head is one linear layer.
    """

    model_type = "event_type_induction"
    pipelines: ClassVar[dict[str, dict]] = {
        "event-type-induction": {
            "impl": "pipeline_event_type_induction.EventTypeInductionPipeline",
            "pt": ["AutoModel"],
        },
        **EventConfig.pipelines,
    }
    processor: ClassVar[str] = "processing_event_type_induction.EventTypeInductionProcessor"
    retired: ClassVar[dict[str, object]] = {
        "map_weight": 0.1,
        "finder_layers": list(FINDER_LAYERS),
        "finder_size": 128,
        "trigger_weight": 1.0,
        "frame_example_temperature": 0.05,
        "pair_mean": "all",
    }

    margin: float | int = limited(0.5, FRACTION)
    map_dropout: float | int = limited(0.1, FRACTION)
    unseen_diagonal: bool = True
    trigger_input: Literal["none", "marked", "span", "marked_span", "found"] = "none"
    found_exponent: float | int | None = None
    weighting_rounds: int = limited(0, NOT_NEGATIVE)
    pooled_layer: int = -1
    finder_dropout: float | int = limited(0.3, FRACTION)
    freeze_encoder: bool = False
    trained_types: list[str] | None = None
    map_skip: bool = False
    score_scale: float | int = limited(10.0, POSITIVE)
    score_bias: float | int | None = None
    type_name_weight: float | int = limited(0.0, NOT_NEGATIVE)
    frame_weight: float | int = limited(0.0, NOT_NEGATIVE)
    frame_example_weight: float | int = limited(0.0, NOT_NEGATIVE)
    auxiliary_hidden_layer: bool = True

    @property
    def marks_trigger(self) -> bool:
        """True if the trigger is put between two learned tokens."""
        return self.trigger_input in ("marked", "marked_span")

    @property
    def pools_trigger(self) -> bool:
        """True if a mention's vector is pooled over its trigger tokens."""
        return self.trigger_input in ("span", "marked_span")

    @property
    def reads_text_alone(self) -> bool:
        """True if the model needs only the sentence, without a trigger."""
        return not (self.marks_trigger or self.pools_trigger)

    @property
    def finds_trigger(self) -> bool:
        """True if the model finds the trigger itself."""
        return self.trigger_input == "found"

    @property
    def layers_read(self) -> list[int]:
        """Indexes of the hidden states to read: the pooled one, then those of the trigger finder."""
        return [self.pooled_layer, *(FINDER_LAYERS if self.finds_trigger else ())]

    def validate_pooled_layer(self):
        """Reject a hidden state, `pooled_layer`, that the encoder does not have."""
        depth = getattr(self.encoder_config, "num_hidden_layers", None)
        if depth is not None and not -depth - 1 <= self.pooled_layer <= depth:
            raise ValueError(
                f"pooled_layer is {self.pooled_layer}; accepted: hidden states of this encoder, from 0, "
                f"before its layers, to {depth}, or counted from the end, where -1 is the last"
            )

    def validate_trigger_input(self):
        """Reject `cls` pooling for a model that pools over trigger tokens."""
        if (self.pools_trigger or self.finds_trigger) and self.pooling == "cls":
            raise ValueError(
                f"trigger_input is {self.trigger_input!r} and pooling {self.pooling!r}; accepted: "
                "pooling='mean', which averages the trigger's tokens, or 'lasttoken', which takes the last"
            )

    def validate_frame_examples(self):
        """Reject a loss that only an encoder can learn from, with a frozen one."""
        if self.frame_example_weight and self.freeze_encoder:
            raise ValueError(
                f"frame_example_weight is {self.frame_example_weight} with freeze_encoder=true; accepted: "
                "freeze_encoder=false, since only the encoder learns from the examples, or a weight of 0"
            )

    def validate_found_exponent(self):
        """Reject a negative exponent, and one without tokens to average by mean pooling."""
        exponent = self.found_exponent
        if exponent is None:
            return
        if not 0 <= exponent < math.inf:
            raise ValueError(f"found_exponent is {exponent}; accepted: a number from 0, or None")
        if not self.finds_trigger or self.pooling != "mean":
            raise ValueError(
                f"found_exponent is {exponent} with trigger_input {self.trigger_input!r} and pooling "
                f"{self.pooling!r}; accepted: None, or trigger_input='found' with pooling='mean'"
            )

    def validate_weighting_rounds(self):
        """Reject rounds without weights of tokens, which come with a `found_exponent`."""
        if self.weighting_rounds and self.found_exponent is None:
            raise ValueError(
                f"weighting_rounds is {self.weighting_rounds} with found_exponent=None; accepted: 0, or a "
                "found_exponent, whose weights of tokens the rounds change"
            )
