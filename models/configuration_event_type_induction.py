"""Configuration of event type induction by batch attention (Edwards and Ji, 2023)."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import EventConfig


@strict
class EventTypeInductionConfig(EventConfig):
    """Configuration of event type induction by batch attention under a contrastive loss.

    Defaults are the paper's. Where it is silent or misprinted, the first reading named is the default.
    `event_order` has no effect: a mention is a sentence.

    Args:
        margin: m of section 3.4: a negative pair whose sigmoid score is below it costs nothing.
        map_dropout: dropout of the maps to query and key; the paper says only where it stands.
        unseen_diagonal: an unseen mention is a positive of itself and its other view, as in the released
            code; the printed formula leaves that pair out.
        pair_mean: a pair loss is the mean over `all` pairs of the batch, as in the released code, or over the
            pairs that are `kept` by the mask.
        trigger_input: how the model is told which event of a sentence is meant. `none` is the paper's: it is
            not told. Beyond the paper, `marked` sets the trigger between two learned tokens, `span` pools
            over the trigger's tokens, and `marked_span` does both; `found` needs no trigger: the model learns
            from the labels of whole sentences which of their tokens carries an event, and takes the vector of
            that token.
        pooled_layer: the encoder's hidden state that the vector of a mention is pooled from, counted as
            `hidden_states` is; beyond the paper, another than the last, -1.
        finder_layers: where triggers are found, the hidden states that this is done by; None takes 0, which
            knows the word alone, and -1, which knows the sentence.
        finder_size: size of the hidden layer of what finds triggers.
        finder_dropout: dropout of what finds triggers.
        trigger_weight: weight of the loss of finding triggers.
        freeze_encoder: run the text encoder without gradient and without dropout.
        trained_types: names of the seen types, whose labels were trained on, in the order of their numbers;
            training sets them.
        map_skip: beyond the paper, add the encoder's vector to what each map gives: before any training the
            scores of pairs are then nearly cosines under the encoder, where the maps alone start from noise.
        score_scale: with `map_skip`, what those cosines are multiplied by at the start of training.
        map_weight: with `map_skip`, what the map itself is multiplied by at the start of training.
        score_bias: beyond the paper, a learned number that starts at this value and is added to every score
            in the pair loss; attention and distances do not change by it. None has none.
        type_name_weight: weight of the auxiliary loss against names of types (section 3.5); the paper's main
            runs have none, its runs for names 1.
        frame_weight: weight of the auxiliary loss against definitions of frames.
        auxiliary_hidden_layer: the auxiliary head, a "1-layer network", has one hidden layer, as in the
            released code; without it is one linear layer.
    """

    model_type = "event_type_induction"
    full_auto_map: ClassVar[dict[str, str]] = {
        "AutoConfig": "configuration_event_type_induction.EventTypeInductionConfig",
        "AutoModel": "modeling_event_type_induction.EventTypeInductionModel",
        "AutoModelForPreTraining": "modeling_event_type_induction.EventTypeInductionForPreTraining",
    }
    pipelines: ClassVar[dict[str, dict]] = {
        "event-type-induction": {
            "impl": "pipeline_event_type_induction.EventTypeInductionPipeline",
            "pt": ["AutoModel"],
        },
        **EventConfig.pipelines,
    }

    margin: float | int = 0.5
    map_dropout: float | int = 0.1
    unseen_diagonal: bool = True
    pair_mean: Literal["all", "kept"] = "all"
    trigger_input: Literal["none", "marked", "span", "marked_span", "found"] = "none"
    pooled_layer: int = -1
    finder_layers: list[int] | None = None
    finder_size: int = 128
    finder_dropout: float | int = 0.3
    trigger_weight: float | int = 1.0
    freeze_encoder: bool = False
    trained_types: list[str] | None = None
    map_skip: bool = False
    score_scale: float | int = 10.0
    map_weight: float | int = 0.1
    score_bias: float | int | None = None
    type_name_weight: float | int = 0.0
    frame_weight: float | int = 0.0
    auxiliary_hidden_layer: bool = True

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.finder_layers is None:
            self.finder_layers = [0, -1]

    @property
    def marks_trigger(self) -> bool:
        """Whether the trigger stands between two learned tokens."""
        return self.trigger_input in ("marked", "marked_span")

    @property
    def pools_trigger(self) -> bool:
        """Whether the vector of a mention is pooled over the tokens of its trigger."""
        return self.trigger_input in ("span", "marked_span")

    @property
    def finds_trigger(self) -> bool:
        """Whether the model looks for the trigger itself."""
        return self.trigger_input == "found"

    @property
    def layers_read(self) -> list[int]:
        """The hidden states that are needed: the one that is pooled, and behind it those of the finder."""
        return [self.pooled_layer, *((self.finder_layers or []) if self.finds_trigger else [])]

    def validate_margin(self):
        """Refuse a margin that no sigmoid, or every sigmoid, lies below.

        Raises:
            ValueError: it is below 0, or 1 or above.
        """
        for name in ("margin", "map_dropout", "finder_dropout"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}; accepted: a number from 0 to below 1")

    def validate_starts(self):
        """Refuse a skip that starts without its own part or without the map's.

        Raises:
            ValueError: `score_scale` or `map_weight` is 0 or below.
        """
        for name in ("score_scale", "map_weight"):
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name} is {value}; accepted: a number above 0")

    def validate_weights(self):
        """Refuse negative loss weights.

        Raises:
            ValueError: a weight is below 0.
        """
        for name in ("type_name_weight", "frame_weight", "trigger_weight"):
            value = getattr(self, name)
            # Written so that NaN is refused, too.
            if not value >= 0:
                raise ValueError(f"{name} is {value}; accepted: a number of at least 0")

    def validate_layers(self):
        """Refuse hidden states that the encoder does not have, and a hidden layer without entries.

        Raises:
            ValueError: a place is none of `hidden_states`, there is no layer to find triggers by, or
                `finder_size` is below 1.
        """
        depth = getattr(self.encoder_config, "num_hidden_layers", None)
        chosen = {"pooled_layer": [self.pooled_layer], "finder_layers": self.finder_layers or []}
        for name, places in chosen.items():
            is_known = depth is None or all(-depth - 1 <= place <= depth for place in places)
            if not places or not is_known:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; accepted: hidden states of this encoder, from 0, "
                    f"before its layers, to {depth}, or counted from the end, where -1 is the last"
                )
        if self.finder_size < 1:
            raise ValueError(f"finder_size is {self.finder_size}; accepted: an integer of at least 1")

    def validate_trigger_input(self):
        """Refuse to pool over a trigger by the first token of the sentence.

        Raises:
            ValueError: `trigger_input` pools over the trigger, and `pooling` is not `mean`.
        """
        if (self.pools_trigger or self.finds_trigger) and self.pooling != "mean":
            raise ValueError(
                f"trigger_input is {self.trigger_input!r} and pooling {self.pooling!r}; accepted: "
                "pooling='mean', which averages the trigger's tokens"
            )


EventTypeInductionConfig.register_for_auto_class()
