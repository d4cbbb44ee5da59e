"""Configuration of SWCC (Gao et al., 2022)."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import COUNT, NOT_NEGATIVE, POSITIVE, EventConfig, Pooling, limited


@strict
class SwccConfig(EventConfig):
    """Configuration of SWCC: simultaneous weakly supervised contrastive learning and clustering.

    Defaults are the paper's (section 4.1) where it states them.

    Args:
        pooling: the paper uses [CLS].
        contrastive_objective: `weakly_supervised` is Eq. 6; `dropout_views` leaves out the co-event (Table 2,
            "w/o Weakly Supervised CL"); `info_nce` is Eq. 3 with the co-event as positive (Table 2, "BERT
            (InfoNCE)"); `margin` is the margin loss in the same group of rows.
        contrastive_temperature: temperature of the contrastive loss (Eq. 3 to 6).
        cluster_temperature: temperature of the prototype logits (Eq. 8).
        margin: margin of the `margin` objective; the paper states none.
        num_prototypes: number of prototypes M.
        sinkhorn_iterations: number of Sinkhorn iterations.
        sinkhorn_epsilon: entropic regularisation of Sinkhorn.
        cluster_weight: beta of Eq. 9, for a cluster loss summed over prototypes.
        prototype_entropy_weight: weight of the entropy of the prototype distribution, a term of the released
            code that the paper does not have; 0 disables it.
        mlm_weight: gamma of Eq. 9; with 0 the masked view is not encoded.
        frequency_normalization: how co-occurrence frequencies become the weight of the co-event: `min_max` is
            the paper's; `log_min_max` and `constant` give rare pairs a larger weight.
        shared_word_weight: beyond the paper, weight of a contrast between a paraphrase of an event, which
            shares no word with it, and events that share words with it; 0 disables it.
        shared_word_co_event_weight: weight of the co-event as a second positive in that contrast.
        shared_word_temperature: temperature of that contrast.
        stage: loss of a training step: `contrast` is Eq. 9; `sentences`, beyond the paper, trains an event's
            vector towards those that sentences with its words have before the stage.
    """

    model_type = "swcc"

    pooling: Pooling = "cls"
    contrastive_objective: Literal["weakly_supervised", "dropout_views", "info_nce", "margin"] = (
        "weakly_supervised"
    )
    contrastive_temperature: float | int = limited(0.3, POSITIVE)
    cluster_temperature: float | int = limited(0.3, POSITIVE)
    margin: float | int = limited(0.5, NOT_NEGATIVE)
    num_prototypes: int = limited(10, COUNT)
    sinkhorn_iterations: int = limited(3, COUNT)
    sinkhorn_epsilon: float | int = limited(0.05, POSITIVE)
    cluster_weight: float | int = limited(0.1, NOT_NEGATIVE)
    prototype_entropy_weight: float | int = limited(0.0, NOT_NEGATIVE)
    mlm_weight: float | int = limited(1.0, NOT_NEGATIVE)
    frequency_normalization: Literal["min_max", "log_min_max", "constant"] = "min_max"
    shared_word_weight: float | int = limited(0.0, NOT_NEGATIVE)
    shared_word_co_event_weight: float | int = limited(0.0, NOT_NEGATIVE)
    shared_word_temperature: float | int = limited(0.1, POSITIVE)
    stage: Literal["sentences", "contrast"] = "contrast"

    def __post_init__(self, **kwargs):
        # The weight of a former term of the loss: it changes nothing about a trained model.
        kwargs.pop("predicate_weight", None)
        super().__post_init__(**kwargs)
