"""The base configuration of all event encoders."""

import math
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, ClassVar, Literal, NamedTuple, cast

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

from .text_prompts import TEXT_KINDS

EVENT_EMBEDDING = {
    "event-embedding": {"impl": "pipeline_event_embedding.EventEmbeddingPipeline", "pt": ["AutoModel"]}
}
NEXT_EVENT = {"next-event": {"impl": "pipeline_next_event.NextEventPipeline", "pt": ["AutoModel"]}}


def of_encoder(name: str) -> property:
    """A property of the configuration of a model that reads and sets the field of its `text_config`."""

    def read(config: "EventConfig") -> int:
        return getattr(config.encoder_config, name)

    def write(config: "EventConfig", value: int) -> None:
        setattr(config.encoder_config, name, value)

    return property(read, write, doc=f"`{name}` of the encoder.")


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


class Limit(NamedTuple):
    """The accepted values of a numeric field: a description for the error message, and a test of a value."""

    accepted: str
    accepts: Callable[[float], bool]


POSITIVE = Limit("a number above 0", lambda value: value > 0)
NOT_NEGATIVE = Limit("a number of at least 0", lambda value: value >= 0)
FRACTION = Limit("a number from 0 to below 1", lambda value: 0 <= value < 1)
COUNT = Limit("an integer of at least 1", lambda value: value >= 1)


def limited(default: float | None, limit: Limit) -> Any:
    """A numeric field of a configuration whose values `EventConfig.validate_numbers` checks."""
    return field(default=default, metadata={"limit": limit})


Pooling = Literal["cls", "mean", "lasttoken"]
"""How the vectors of tokens become one; a key of `POOLINGS`."""


def is_decoder_only(text_config: PreTrainedConfig) -> bool:
    """Return True for the configuration of a language model whose tokens see only those before them."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    return (
        text_config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and text_config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        # Gemma's embedders are decoders that see both sides.
        and not getattr(text_config, "use_bidirectional_attention", False)
    )


@strict
class EventConfig(PreTrainedConfig):
    """Configuration of a pretrained text encoder with pooling and an optional projection.

    Args:
        text_config: complete configuration of the encoder, so that loading needs no other repository.
        pooling: `cls` takes the vector of the first token, `mean` the mean over the tokens of the event,
            `lasttoken` the vector of the last token, for decoder-only encoders.
        event_order: order of the roles in the text of an event; `predicate_first` is SWCC's (Eq. 1).
        projection_dim: size of the vectors in `embeddings`. There is no projection layer if it is None or the
            encoder's hidden size.
        added_token_ids: ids of learned tokens, added to the encoder's vocabulary, that mark parts of a text;
            None if there are none.
        prompts: text before each text, by its kind: `event`, a text or an event by itself; `query`, a premise
            or a mention; `document`, an alternative or the description of an event. A kind without its own
            prompt has that of `event`; None has no prompts.
        truncate_dim: number of entries of `embeddings`: the first ones of each vector, scaled to length 1,
            for encoders trained so (Matryoshka). No loss uses it; None keeps all entries.
    """

    sub_configs_defaults = {"text_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")}  # noqa: RUF012
    auto_classes: ClassVar[tuple[str, ...]] = ("AutoModel", "AutoModelForPreTraining")
    """The Auto classes that have a class of this method: `AutoModelForPreTraining` has `XForPreTraining` in
    `modeling_x.py` for the configuration `XConfig` in `configuration_x.py`."""

    full_auto_map: ClassVar[dict[str, str]] = {}
    """Maps each Auto class to `file.Class`; without its own, a subclass gets that of its `auto_classes`."""

    pipelines: ClassVar[dict[str, dict]] = {**EVENT_EMBEDDING, **NEXT_EVENT}
    """Maps each task to its pipeline, as `file.Class`, and its Auto classes; the first is the default."""

    processor: ClassVar[str] = "processing_events.EventProcessor"
    """The processor that `AutoProcessor` loads, as `file.Class`."""

    retired: ClassVar[dict[str, object]] = {}
    """Fields of older configurations with the only value that is still accepted, which is now a constant."""

    vocab_size = of_encoder("vocab_size")
    hidden_size = of_encoder("hidden_size")
    num_hidden_layers = of_encoder("num_hidden_layers")
    num_attention_heads = of_encoder("num_attention_heads")
    max_position_embeddings = of_encoder("max_position_embeddings")

    # The class comes first: before it tries the next type, the check of a union prints the whole value.
    text_config: PreTrainedConfig | dict | None = None
    pooling: Pooling = "mean"
    event_order: Literal["subject_predicate_object", "predicate_first"] = "subject_predicate_object"
    projection_dim: int | None = limited(None, COUNT)
    added_token_ids: list[int] | None = None
    prompts: dict[str, str] | None = None
    truncate_dim: int | None = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        file = cls.__module__.rpartition(".")[2]
        # In a file of another name, a subclass of a method's configuration keeps the classes of that method.
        if "model_type" not in vars(cls) or not file.startswith("configuration_"):
            return
        cls._auto_class = "AutoConfig"
        if "full_auto_map" not in vars(cls):
            stem = cls.__name__.removesuffix("Config")
            modeling = file.replace("configuration_", "modeling_")
            cls.full_auto_map = {"AutoConfig": f"{file}.{cls.__name__}"} | {
                name: f"{modeling}.{stem}{name.removeprefix('AutoModel') or 'Model'}"
                for name in cls.auto_classes
            }

    def __post_init__(self, **kwargs):
        for name in self.retired.keys() & kwargs.keys():
            if (value := kwargs.pop(name)) != self.retired[name]:
                raise ValueError(
                    f"{name} is {value}; accepted: {self.retired[name]}, which is no longer a setting"
                )
        if saved := kwargs.get("custom_pipelines"):
            # JSON sorts them alphabetically.
            known = [task for task in self.pipelines if task in set(saved)]
            kwargs["custom_pipelines"] = ModelPipelines({task: saved[task] for task in known})
        super().__post_init__(**kwargs)
        if self.projection_dim is None:
            self.projection_dim = self.encoder_config.hidden_size

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, without `keys_to_ignore_at_inference`, which the class of a model sets."""
        values = super().to_dict()
        values.pop("keys_to_ignore_at_inference", None)
        return values

    @property
    def encoder_config(self) -> PreTrainedConfig:
        """The configuration of the encoder, with its type."""
        return cast(PreTrainedConfig, self.text_config)

    @property
    def is_decoder_only(self) -> bool:
        """True if the encoder is a language model whose tokens see only those before them."""
        return is_decoder_only(self.encoder_config)

    @property
    def reads_text_alone(self) -> bool:
        """True if the model computes a vector from a text alone, as sentence-transformers asks for."""
        return True

    @property
    def embedding_dim(self) -> int:
        """Size of the vectors in `embeddings`."""
        return cast(int, self.truncate_dim or self.projection_dim)

    def validate_pooling(self):
        """Reject `cls` pooling of a decoder-only encoder, whose first token has the same vector in all
        texts."""
        if self.pooling == "cls" and self.is_decoder_only:
            raise ValueError(
                f"pooling is 'cls', but a {self.encoder_config.model_type} encoder is decoder-only: its "
                "first token sees no other token; accepted: 'lasttoken' or 'mean'"
            )

    def validate_prompts(self):
        """Reject prompts of unknown kinds of texts."""
        if unknown := sorted((self.prompts or {}).keys() - set(TEXT_KINDS)):
            raise ValueError(f"prompts has {', '.join(unknown)}; accepted: {', '.join(TEXT_KINDS)}")

    def validate_truncate_dim(self):
        """Reject a number of entries, `truncate_dim`, that the vectors do not have."""
        if self.truncate_dim is not None and not 1 <= self.truncate_dim <= (self.projection_dim or 0):
            raise ValueError(
                f"truncate_dim is {self.truncate_dim}; accepted: 1 to {self.projection_dim}, the size of the "
                "vectors"
            )

    def validate_numbers(self):
        """Reject NaN and infinity in any field, and numbers beyond the limit of their field."""
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is {value}; accepted: a finite number")
        for entry in fields(self):
            limit, value = entry.metadata.get("limit"), getattr(self, entry.name)
            if limit is not None and value is not None and not limit.accepts(value):
                raise ValueError(f"{entry.name} is {value}; accepted: {limit.accepted}")
