"""Configuration of MICO (Su et al., 2022)."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import FRACTION, NOT_NEGATIVE, POSITIVE, EventConfig, Pooling, limited


@strict
class MicoConfig(EventConfig):
    """Configuration of MICO: multi-alternative contrastive learning of commonsense knowledge.

    Defaults are the paper's (section 3.3 and its released code) where they state them.

    Args:
        pooling: the paper uses [CLS].
        contrastive_temperature: temperature of the contrastive loss (Eq. 4 to 6).
        positive: `hard` uses the alternative least similar to its premise as the positive (Eq. 5), `random`
            any of the k (Table 7).
        own_alternatives: `excluded` removes the k - 1 other alternatives of a premise from its denominator
            (Eq. 6); `zero_logit` keeps each with a logit of 0, as the released code does.
        mask_known_positives: remove an alternative of another row from the denominator if the training graph
            has it for the premise. In the paper it is a negative.
        frequency_correction: subtract the log frequency of an alternative in the training graph from its
            logit (Bengio and Senécal, 2008). Rows are drawn in proportion to that frequency; with the
            correction the vectors do not encode how common an alternative is. A list of graphs, such as
            `[conceptnet]`, corrects only their alternatives. Beyond the paper.
        distillation_weight: weight of the squared distance between the vectors of texts outside the graph and
            those that the untrained encoder has for them; 0 leaves this term out. Beyond the paper.
        feature_dropout: dropout of the vectors in training; the released code uses 0.05 for RoBERTa-large.
        relation_templates: premises of relations of the training graph that `relation_words` lacks or words
            otherwise, by relation and direction, as in the file of the data setting `templates`, from which
            training sets it.
    """

    model_type = "mico"
    auto_classes: ClassVar[tuple[str, ...]] = (
        "AutoModel",
        "AutoModelForPreTraining",
        "AutoModelForMultipleChoice",
    )
    pipelines: ClassVar[dict[str, dict]] = {
        "commonsense-completion": {
            "impl": "pipeline_commonsense_completion.CommonsenseCompletionPipeline",
            "pt": ["AutoModel"],
        },
        **EventConfig.pipelines,
    }
    processor: ClassVar[str] = "processing_mico.MicoProcessor"
    retired: ClassVar[dict[str, object]] = {
        "learnable_temperature": False,
        "additive_margin": 0.0,
        "self_negatives": False,
        "pre_batch_negatives": 0,
    }

    pooling: Pooling = "cls"
    contrastive_temperature: float | int = limited(0.07, POSITIVE)
    positive: Literal["hard", "random"] = "hard"
    own_alternatives: Literal["excluded", "zero_logit"] = "excluded"
    mask_known_positives: bool = False
    frequency_correction: bool | list[str] = False
    distillation_weight: float | int = limited(0.0, NOT_NEGATIVE)
    feature_dropout: float | int = limited(0.0, FRACTION)
    relation_templates: dict[str, dict[str, str]] | None = None
