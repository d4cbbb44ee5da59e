"""The processor of models that read texts and events."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any

from transformers import BatchEncoding, PreTrainedConfig, ProcessorMixin

from .event_items import items_of, read_item, text_of
from .text_prompts import clear_call_settings, longest_input, prompt_of, tokenise_after

_FILE_ARGUMENTS = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")


def returns_tensors(call: Callable[..., BatchEncoding]) -> Callable[..., BatchEncoding]:
    """Let a processor that computes tensors take `return_tensors`: `pt`, `np`, or None for lists.

    With `text`, the tokenizer takes it.
    """

    @wraps(call)
    def converted(self, *inputs, **settings) -> BatchEncoding:
        if settings.get("text") is not None:
            return call(self, *inputs, **settings)
        kind = settings.pop("return_tensors", "pt")
        if kind not in ("pt", "np", None):
            raise ValueError(f"found return_tensors={kind!r}; accepted: 'pt', 'np' or None")
        encoded = call(self, *inputs, **settings)
        if kind != "pt":
            encoded.update({name: x.numpy() if kind else x.tolist() for name, x in encoded.items()})
        return encoded

    return converted


class EventProcessor(ProcessorMixin):
    """Converts texts and events to the inputs of a model that reads texts.

    Texts with more tokens than the maximum are truncated at their end.

    Example:
        processor = AutoProcessor.from_pretrained(name)
        model(**processor([("police", "arrested", "thief"), "the storm flooded the city"]))

    Args:
        tokenizer: the tokenizer of the model.
        event_order: order of the roles in the text of an event, a key of `ORDERS`.
        max_length: maximum number of tokens of a text; None takes the limit of the tokenizer.
        prompts: text before each text, by its kind; see `EventConfig`.
    """

    _auto_class = "AutoProcessor"

    def __init__(self, tokenizer, event_order="subject_predicate_object", max_length=None, prompts=None):
        clear_call_settings(tokenizer)
        super().__init__(tokenizer)
        self.event_order, self.max_length, self.prompts = event_order, max_length, prompts

    @classmethod
    def settings_of(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Read the settings of the processor from a model's configuration as a mapping."""
        positions = (config.get("text_config") or {}).get("max_position_embeddings")
        return {
            **{name: config[name] for name in signature(cls).parameters if name in config},
            "max_length": positions if isinstance(positions, int) and positions > 0 else None,
        }

    @classmethod
    def get_processor_dict(cls, pretrained_model_name_or_path, **kwargs):
        """Read `processor_config.json`; a folder without it has the settings of the model's configuration."""
        where = {name: kwargs[name] for name in _FILE_ARGUMENTS if name in kwargs}
        settings, unused = super().get_processor_dict(pretrained_model_name_or_path, **kwargs)
        if not settings:
            config, _ = PreTrainedConfig.get_config_dict(pretrained_model_name_or_path, **where)
            settings = cls.settings_of(config)
        return settings, unused

    def save_pretrained(self, save_directory, push_to_hub=False, **kwargs):
        """Save the tokenizer and the settings, without truncation and padding of the last call."""
        clear_call_settings(self.tokenizer)
        return super().save_pretrained(save_directory, push_to_hub, **kwargs)

    @property
    def longest(self) -> int:
        """Maximum number of tokens of a text."""
        return longest_input(self.tokenizer, None, self.max_length)

    def __call__(self, inputs=None, *, text=None, **settings) -> BatchEncoding:
        """Convert texts and events to tensors.

        Args:
            inputs: a text, an event, or a list of both: what `read_item` accepts.
            text: texts instead of `inputs`, for libraries that call any processor with this argument; they
                go to the tokenizer unchanged, without a prompt.
            **settings: arguments of the tokenizer, such as `max_length` or `padding="max_length"`.

        Returns:
            `input_ids` and `attention_mask`, `(items, length)`.

        Raises:
            ValueError: an item is neither a text nor an event, or has no word.
        """
        if text is not None:
            return super().__call__(text=text, **settings)
        return self.encode(items_of(inputs), **settings)

    def encode(self, items: Sequence[object], **settings) -> BatchEncoding:
        """Convert a list of texts and events to tensors; see `__call__`."""
        return self.tokenise([text_of(read_item(item), self.event_order) for item in items], **settings)

    def tokenise(self, texts: Sequence[str], kind: str = "event", **settings) -> BatchEncoding:
        """Tokenise texts, each after the prompt of its kind, to tensors of equal width.

        Args:
            kind: their kind, of `TEXT_KINDS`.
        """
        usual = {
            "padding": True,
            "truncation": True,
            "max_length": self.longest,
            "return_tensors": "pt",
            "return_token_type_ids": False,
        }
        return tokenise_after(prompt_of(self.prompts, kind), self.tokenizer, texts, **{**usual, **settings})


def num_truncated(encoded: BatchEncoding) -> int:
    """Number of truncated texts of an encoding by a fast tokenizer; 0 with a slow one."""
    return sum(bool(encoding.overflowing) for encoding in encoded.encodings or ())
