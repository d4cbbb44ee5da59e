"""The base configuration of all event encoders."""

import math
from typing import ClassVar, Literal, cast

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

EVENT_EMBEDDING = {
    "event-embedding": {"impl": "pipeline_event_embedding.EventEmbeddingPipeline", "pt": ["AutoModel"]}
}
NEXT_EVENT = {"next-event": {"impl": "pipeline_next_event.NextEventPipeline", "pt": ["AutoModel"]}}


class ModelPipelines(dict):
    """The pipelines of a model, in the form that `transformers.pipeline` reads from its configuration.

    `pipeline` infers the task only if the configuration has one pipeline, so the length is 1, and the first
    pipeline is the default. `pipeline` treats every entry it finds here as remote code that must be trusted,
    so in the installed package, whose pipelines are registered, lookups find nothing.
    """

    def __len__(self):
        return min(1, super().__len__())

    def __contains__(self, task):
        return not __name__.startswith("eventformers.") and super().__contains__(task)


@strict
class EventConfig(PreTrainedConfig):
    """Configuration of a pretrained text encoder with pooling and an optional projection.

    Args:
        text_config: complete configuration of the encoder, so that loading needs no other repository.
        pooling: `cls` takes the vector of the first token, `mean` the mean over the tokens of the event.
        event_order: order of the roles in the text of an event; `predicate_first` is SWCC's (Eq. 1).
        projection_dim: size of the vectors in `embeddings`. There is no projection layer if it is None or the
            encoder's hidden size.
        added_token_ids: ids of learned tokens, added to the encoder's vocabulary, that mark parts of a text;
            None if there are none.
    """

    sub_configs_defaults = {"text_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")}  # noqa: RUF012
    full_auto_map: ClassVar[dict[str, str]] = {}
    pipelines: ClassVar[dict[str, dict]] = {**EVENT_EMBEDDING, **NEXT_EVENT}
    """Maps each task to its pipeline, as `file.Class`, and its Auto classes; the first is the default."""

    processor: ClassVar[str] = "processing_events.EventProcessor"
    """The processor that `AutoProcessor` loads, as `file.Class`."""

    text_config: dict | PreTrainedConfig | None = None
    pooling: Literal["cls", "mean"] = "mean"
    event_order: Literal["subject_predicate_object", "predicate_first"] = "subject_predicate_object"
    projection_dim: int | None = None
    added_token_ids: list[int] | None = None

    def __post_init__(self, **kwargs):
        if saved := kwargs.get("custom_pipelines"):
            # JSON sorts them alphabetically.
            known = [task for task in self.pipelines if task in saved]
            kwargs["custom_pipelines"] = ModelPipelines({task: saved[task] for task in known})
        super().__post_init__(**kwargs)
        if self.projection_dim is None:
            self.projection_dim = self.encoder_config.hidden_size

    @property
    def encoder_config(self) -> PreTrainedConfig:
        """The configuration of the encoder, with its type."""
        return cast(PreTrainedConfig, self.text_config)

    def validate_numbers(self):
        """Reject NaN and infinity in any field.

        Raises:
            ValueError: a field is NaN or infinite.
        """
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is {value}; accepted: a finite number")

    def validate_projection_dim(self):
        """Reject a projection size below 1.

        Raises:
            ValueError: `projection_dim` is below 1.
        """
        if self.projection_dim is not None and self.projection_dim < 1:
            raise ValueError(f"projection_dim is {self.projection_dim}; accepted: an integer of at least 1")
