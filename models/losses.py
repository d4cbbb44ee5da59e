"""Every loss of the five papers as a pure function of tensors.

Similarity is the cosine, computed on vectors that the function normalises itself, unless the docstring says
dot product. Each function is differentiable and takes any floating dtype on any device. It returns a scalar
mean over the batch unless its docstring says otherwise. Half precision inputs are converted to float32 and
autocast is disabled inside: similarities divided by small temperatures need that precision.
"""

from .chain_losses import (
    chain_contrast,
    composition_contrast,
    corrupted_corrupted_contrast,
    event_prediction,
    mean_cosine,
    neighbour_prediction,
    normal_corrupted_contrast,
    word_prediction,
)
from .commonsense_losses import feature_distillation, multi_alternative_contrast
from .event_losses import (
    cluster_prediction,
    info_nce,
    margin_contrast,
    prototype_entropy,
    shared_word_contrast,
    sinkhorn,
    weakly_supervised_contrastive,
)
from .grounding_losses import (
    candidate_contrast,
    candidate_loss,
    first_places,
    gold_pairs,
    hierarchy_loss,
    hierarchy_score,
    linking_contrast,
    linking_loss,
)
from .type_losses import (
    frame_contrast,
    log_absence,
    masked_pair_loss,
    noisy_or_loss,
    pair_targets,
    type_alignment,
)

__all__ = [
    "candidate_contrast",
    "candidate_loss",
    "chain_contrast",
    "cluster_prediction",
    "composition_contrast",
    "corrupted_corrupted_contrast",
    "event_prediction",
    "feature_distillation",
    "first_places",
    "frame_contrast",
    "gold_pairs",
    "hierarchy_loss",
    "hierarchy_score",
    "info_nce",
    "linking_contrast",
    "linking_loss",
    "log_absence",
    "margin_contrast",
    "masked_pair_loss",
    "mean_cosine",
    "multi_alternative_contrast",
    "neighbour_prediction",
    "noisy_or_loss",
    "normal_corrupted_contrast",
    "pair_targets",
    "prototype_entropy",
    "shared_word_contrast",
    "sinkhorn",
    "type_alignment",
    "weakly_supervised_contrastive",
    "word_prediction",
]
