"""Configuration of MICO (Su et al., 2022)."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from .configuration_base import FRACTION, NOT_NEGATIVE, POSITIVE, EventConfig, Limit, Pooling, limited


@strict
class MicoConfig(EventConfig):
    """Configuration of MICO: multi-alternative contrastive learning of commonsense knowledge.

    Defaults are the paper's (section 3.3 and its released code) where they state them.

    Args:
        pooling: the paper uses [CLS].
        contrastive_temperature: temperature of the contrastive loss (Eq. 4 to 6); its initial value if it is
            learned.
        learnable_temperature: learn the temperature; from SimKGC, beyond the paper.
        additive_margin: margin subtracted from the cosine of the positive; from SimKGC, beyond the paper.
        positive: `hard` uses the alternative least similar to its premise as the positive (Eq. 5), `random`
            any of the k (Table 7).
        own_alternatives: `excluded` removes the k - 1 other alternatives of a premise from its denominator
            (Eq. 6); `zero_logit` keeps each with a logit of 0, as the released code does.
        mask_known_positives: remove an alternative of another row from the denominator if the training graph
            has it for the premise. In the paper it is a negative.
        self_negatives: use the entity of a premise as one of its negatives; from SimKGC, beyond the paper.
        pre_batch_negatives: number of alternatives of earlier batches that serve as negatives, without
            gradient; 0 uses none. From SimKGC, beyond the paper.
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

    pooling: Pooling = "cls"
    contrastive_temperature: float | int = limited(0.07, POSITIVE)
    learnable_temperature: bool = False
    additive_margin: float | int = limited(
        0.0, Limit("a number from 0 to below 2", lambda value: 0 <= value < 2)
    )
    positive: Literal["hard", "random"] = "hard"
    own_alternatives: Literal["excluded", "zero_logit"] = "excluded"
    mask_known_positives: bool = False
    self_negatives: bool = False
    pre_batch_negatives: int = limited(0, Limit("an integer of at least 0", lambda value: value >= 0))
    frequency_correction: bool | list[str] = False
    distillation_weight: float | int = limited(0.0, NOT_NEGATIVE)
    feature_dropout: float | int = limited(0.0, FRACTION)
    relation_templates: dict[str, dict[str, str]] | None = None

    def validate_negatives(self):
        """Reject negatives whose frequency cannot be corrected.

        Raises:
            ValueError: `frequency_correction` is used with negatives from outside the batch.
        """
        if self.frequency_correction and (self.self_negatives or self.pre_batch_negatives > 0):
            raise ValueError(
                "frequency_correction=true corrects the alternatives of a batch alone; accepted: with "
                "self_negatives=false and pre_batch_negatives=0"
            )
