"""What the models of all methods share: construction, saving, the encoder pass.

The Auto classes are imported inside functions. Importing them registers our models, and that registration
must not run while this module is half imported.
"""

import inspect
import math
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.dynamic_module_utils import get_relative_import_files
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_base import EventConfig, ModelPipelines, is_decoder_only
from .distributed import num_processes
from .pooling import POOLINGS
from .sentence_transformers_files import read_encoder_settings, write_sentence_transformers_files
from .similarities import unit

if TYPE_CHECKING:
    # Imported so that saving and loading include its code. At run time it needs the tokenizers of
    # transformers, which are half imported when our models are registered.
    from .processing_events import EventProcessor

PART_COST = 32
"""What the encoding of one more part of a batch costs on a CPU, in tokens: forward and backward pass all
weights once more."""

_OF_A_PUSH = (
    *("repo_id", "commit_message", "commit_description", "private"),
    *("token", "revision", "create_pr", "tags"),
)
PARTS_OF_A_PROCESS = 6
"""Number of parts, of equally many rows, into which each of several processes on a CPU splits a batch."""


@dataclass
class EventModelOutput(ModelOutput):
    """Output of an event encoder.

    Args:
        embeddings: pooled vectors, not normalised, `(batch, projection_dim)`; with `truncate_dim` they have
            length 1, `(batch, truncate_dim)`.
        last_hidden_state: token vectors, `(batch, length, hidden_size)`.
        hidden_states: token vectors of every layer, if requested.
        attentions: attention weights of every layer, if requested.
    """

    embeddings: torch.FloatTensor | None = None
    last_hidden_state: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class EventMultipleChoiceOutput(ModelOutput):
    """Output of a zero-shot choice.

    Args:
        loss: cross-entropy of the right choice, a scalar; None without labels.
        logits: score of a choice over the temperature, `(questions, choices)`; minus infinity where a
            question has fewer choices.
        embeddings: vectors of MICO's premises; of HeterEvent's events, if only vectors are requested.
        hidden_states: token vectors of every layer of the encoder, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


def _copy_imported_code(folder: Path, *saved: type) -> None:
    """Copy the modules of this package that the saved code of classes imports, so that it runs alone."""
    package = __name__.rpartition(".")[0]
    imported = re.compile(rf"^(\s*from ){re.escape(package)}(\.\w+ import )", re.MULTILINE)
    sources = {getattr(sys.modules[one.__module__], "__file__", None) for one in saved} - {None}
    modules = {Path(file).name for source in sources for file in (source, *get_relative_import_files(source))}
    for path in (folder / name for name in sorted(modules)):
        if not path.is_file():
            continue
        code = path.read_text(encoding="utf-8")
        names = [name.split()[0].lstrip(".") for _, name in imported.findall(code)]
        if names:
            path.write_text(imported.sub(r"\1\2", code), encoding="utf-8")
        for source in (Path(__file__).with_name(f"{name}.py") for name in names):
            for file in (source, *map(Path, get_relative_import_files(source))):
                shutil.copyfile(file, folder / file.name)


def encoder_arguments(text_config) -> dict[str, bool]:
    """Arguments that disable an encoder's own pooling layer, which would never get a gradient here."""
    from transformers import MODEL_MAPPING

    encoder_class = MODEL_MAPPING.get(type(text_config), None)
    classes = encoder_class if isinstance(encoder_class, tuple) else (encoder_class,)
    takes_argument = all(
        candidate is not None and "add_pooling_layer" in inspect.signature(candidate.__init__).parameters
        for candidate in classes
    )
    return {"add_pooling_layer": False} if takes_argument else {}


def requested_layers(config: EventConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Select `output_hidden_states` and `output_attentions` if a call, or else a configuration, sets them.

    Args:
        settings: arguments of the call. Hidden states may be a list of the layers to return.
    """
    values = {}
    for name in ("output_hidden_states", "output_attentions"):
        given = settings.get(name)
        values[name] = getattr(config, name) if given is None else given
    return {name: value for name, value in values.items() if value}


def select_layers(layers: tuple[torch.Tensor, ...], asked: bool | Sequence[int]) -> tuple:
    """Replace layers by None, unless all are requested or their index is."""
    kept = range(len(layers)) if isinstance(asked, bool) else [place % len(layers) for place in asked]
    return tuple(layer if place in kept else None for place, layer in enumerate(layers))


def layers_of(output: ModelOutput) -> dict[str, tuple[torch.Tensor, ...]]:
    """The `hidden_states` and `attentions` of an encoder's output that it has, for the output of a head."""
    return {name: output[name] for name in ("hidden_states", "attentions") if output.get(name) is not None}


def start_wide(layer: nn.Linear) -> None:
    """Initialise a linear layer as PyTorch does by default, with a scale that depends on its input size.

    Call it from `_init_weights`, which keeps loaded weights. The small initial weights of encoders would make
    the output of a small layer vanish.
    """
    bound = 1 / math.sqrt(layer.in_features)
    init.uniform_(layer.weight, -bound, bound)
    if layer.bias is not None:
        init.uniform_(layer.bias, -bound, bound)


class EventPreTrainedModel(PreTrainedModel):
    """Base class of the models of every method."""

    config: EventConfig
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    # Without this, Trainer multiplies loss and gradient by accumulation steps and processes.
    accepts_loss_kwargs = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for auto_class, place in cls.config_class.full_auto_map.items():
            if place.endswith(f".{cls.__name__}"):
                cls._auto_class = auto_class

    def post_init(self):
        """Finish the construction, as in the base class; `Trainer.predict` then returns only what counts.

        These are the `logits` of a head that has them, otherwise `embeddings` and answers of validation.
        """
        super().post_init()
        output_class = inspect.signature(type(self).forward).return_annotation
        if is_dataclass(output_class):
            names = [entry.name for entry in fields(output_class)]
            kept = "logits" if "logits" in names else ("embeddings", "_correct")
            self.config.keys_to_ignore_at_inference = [name for name in names if not name.endswith(kept)]

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        """Load weights as in the base class; reject those of the head for the encoder, and the reverse.

        `from_pretrained` moves weights into or out of the head. PEFT does not: it would warn of missing
        adapters and leave them random.

        Raises:
            ValueError: the weights belong to the other class.
        """
        is_encoder = self.base_model is self
        foreign = f"{prefix}{self.base_model_prefix if is_encoder else 'encoder'}."
        if any(name.startswith(foreign) for name in state_dict):
            raise ValueError(
                f"found weights of {'a head' if is_encoder else 'an encoder alone'}, {foreign}…, for "
                f"{type(self).__name__}; accepted: those of the same class. Load adapters into the class "
                "they were trained with, or with from_pretrained(FOLDER OF THE ADAPTERS) of any class"
            )
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    @classmethod
    def from_encoder(cls, name_or_path, *, dtype=torch.float32, **config_fields):
        """Start from a pretrained encoder and initialise the weights that the encoder does not have.

        Pooling and prompts are those of the encoder's sentence-transformers files, unless they are given.
        Without these files, a decoder-only encoder has the pooling `lasttoken`.

        Args:
            name_or_path: Hub id or folder of an encoder, or of a model of this suite, whose encoder and
                prompts are used.
            dtype: dtype of the weights; `auto` keeps that of the saved encoder. The default is float32, since
                small learning rates do not change weights in half precision; adapters do not need it.
            **config_fields: fields of this class's configuration.

        Returns:
            The model, in training mode.

        Raises:
            OSError: the model does not exist.
            ValueError: the model lacks weights, or is an encoder with a decoder.
            huggingface_hub.errors.StrictDataclassError: a field has an invalid value.
        """
        from transformers import AutoModel

        encoder, report = AutoModel.from_pretrained(name_or_path, dtype=dtype, output_loading_info=True)
        dtype = encoder.dtype
        missing = set(report["missing_keys"]) - {"pooler.dense.weight", "pooler.dense.bias"}
        if isinstance(encoder.config, EventConfig):
            # Use only the encoder of a model of this suite.
            missing = {name for name in missing if name.startswith("encoder.")}
            settings: dict[str, Any] = {"prompts": encoder.config.prompts}
            encoder = encoder.encoder
        else:
            settings = read_encoder_settings(name_or_path)
        if missing:
            raise ValueError(
                f"{name_or_path} does not hold all weights of {type(encoder).__name__}; "
                f"missing: {', '.join(sorted(missing)[:5])}"
            )
        if getattr(encoder.config, "is_encoder_decoder", False):
            raise ValueError(f"{name_or_path} has a decoder; accepted: an encoder that reads one text")
        if encoder_arguments(encoder.config) and getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None
        # The name may be a local folder, and saving would write it into the configuration.
        encoder.config.name_or_path = ""
        if is_decoder_only(encoder.config):
            # Only generation reads the keys and values of earlier tokens again.
            encoder.config.use_cache = False
            settings.setdefault("pooling", "lasttoken")
        encoder.train()
        # A configuration resets the attention implementation of its sub-configuration. Without an
        # implementation, the encoder would ignore the attention mask.
        attention = encoder.config._attn_implementation
        config = cls.config_class(
            text_config=encoder.config, **{"attn_implementation": attention, **settings, **config_fields}
        )
        return cls(config, encoder=encoder).to(dtype)

    def get_input_embeddings(self):
        """The encoder's token embeddings."""
        return self.base_model.encoder.get_input_embeddings()

    def set_input_embeddings(self, value):
        """Replace the encoder's token embeddings, for example after the vocabulary changed size."""
        self.base_model.encoder.set_input_embeddings(value)

    def text_encoders(self) -> list[PreTrainedModel]:
        """The pretrained encoders of the model, each with its own token embeddings."""
        return [self.base_model.encoder]

    def make_processor(self, tokenizer) -> "EventProcessor":
        """Create the processor of this model."""
        file, name = type(self.config).processor.split(".")
        # The package of another method may use a processor of this one.
        packages = [module.rpartition(".")[0] for module in (type(self).__module__, __name__)]
        home = next(package for package in packages if find_spec(f"{package}.{file}"))
        processor_class = getattr(import_module(f"{home}.{file}"), name)
        return processor_class(tokenizer, **processor_class.settings_of(self.config.to_dict()))

    def embed_text_alone(self, **inputs):
        """Raise a `ValueError`; sentence-transformers calls this if a model needs more input than a text."""
        raise ValueError(
            f"a {self.config.model_type} model needs more than a text, such as the roles of an event, its "
            "trigger or a pair of texts, and sentence-transformers passes only a text; accepted: "
            "eventformers.encode, or the model's own pipeline"
        )

    def save_pretrained(self, save_directory, push_to_hub: bool = False, **kwargs):
        """Save weights, code, and a configuration that names the class of every Auto class and pipeline.

        Args:
            save_directory: folder to write to.
            push_to_hub: then call the method of this name with those of `kwargs` that it has; `repo_id` is
                by default the name of the folder.
            **kwargs: passed on to `PreTrainedModel.save_pretrained`.
        """
        of_push = {name: kwargs.pop(name) for name in _OF_A_PUSH if push_to_hub and name in kwargs}
        config_class = type(self.config)
        self.config.auto_map = {**config_class.full_auto_map, "AutoProcessor": config_class.processor}
        self.config.custom_pipelines = ModelPipelines(
            {task: {**entry, "type": "text"} for task, entry in config_class.pipelines.items()}
        )
        saved = super().save_pretrained(save_directory, **kwargs)
        if kwargs.get("is_main_process", True):
            write_sentence_transformers_files(self.base_model, save_directory)
        _copy_imported_code(Path(save_directory), type(self), config_class)
        if push_to_hub and kwargs.get("is_main_process", True):
            self.push_to_hub(of_push.pop("repo_id", Path(save_directory).name), **of_push)
        return saved


class EventTextEncoder(EventPreTrainedModel):
    """A pretrained encoder that can encode several batches of texts in one pass."""

    def __init__(self, config, encoder=None):
        from transformers import AutoModel

        super().__init__(config)
        text_config = config.encoder_config
        if encoder is None:
            encoder = AutoModel.from_config(text_config, **encoder_arguments(text_config))
        self.encoder = encoder
        self._layers: dict[str, tuple[torch.Tensor, ...]] | None = None

    @property
    def token_size(self) -> int:
        """Size of a token vector from `encode_together`."""
        return self.config.encoder_config.hidden_size

    def train(self, mode: bool = True):
        """Switch training mode; an encoder with `freeze_encoder` stays without dropout and gradients."""
        super().train(mode)
        if getattr(self.config, "freeze_encoder", False):
            # Repeated at each call: loading weights makes all of them trainable.
            self.encoder.eval().requires_grad_(False)
        return self

    def _run_encoder(self, input_ids, attention_mask, token_type_ids, inputs_embeds, **kwargs):
        """The output of the encoder; some encoders have no argument `token_type_ids`."""
        if token_type_ids is not None:
            kwargs["token_type_ids"] = token_type_ids
        kwargs.update(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds)
        return self.encoder(**{**kwargs, **requested_layers(self.config, kwargs)}, return_dict=True)

    @staticmethod
    def _mask_of_tokens(attention_mask: torch.Tensor | None, hidden: torch.Tensor) -> torch.Tensor | None:
        """The mask of the tokens that have vectors: prefix tuning extends it by the keys before them."""
        return None if attention_mask is None else attention_mask[:, -hidden.shape[1] :]

    @contextmanager
    def keeping_layers(
        self, input_ids: torch.Tensor | None, **kwargs
    ) -> Iterator[dict[str, tuple[torch.Tensor, ...]]]:
        """Keep what the encoder computes in each layer for the first texts that are encoded inside.

        Args:
            input_ids: these texts, `(..., length)`.
            **kwargs: `output_hidden_states` and `output_attentions`; None takes the configuration's. Others
                are ignored.

        Yields:
            A mapping that holds `hidden_states`, `(rows, length, hidden_size)` of each layer, and
            `attentions`, `(rows, heads, length, length)` of each layer, at the end, if they are requested.

        Raises:
            ValueError: `kwargs` has the input of prompt or prefix tuning, which would be without effect.
        """
        if any(kwargs.get(name) is not None for name in ("inputs_embeds", "past_key_values")):
            raise ValueError(
                "found inputs_embeds or past_key_values, as prompt and prefix tuning pass them, with inputs "
                "of several texts; accepted: input_ids, and LoRA or another adapter of layers"
            )
        asked = requested_layers(self.config, kwargs)
        kept: dict[str, tuple[torch.Tensor, ...]] = {}
        if input_ids is None or not asked:
            yield kept
            return
        names = [name.removeprefix("output_") for name in asked]
        hooks = [
            self.encoder.register_forward_pre_hook(
                lambda _, arguments, settings: (arguments, {**settings, **dict.fromkeys(asked, True)}),
                with_kwargs=True,
            ),
            self.encoder.register_forward_hook(
                lambda _, arguments, output: kept.update({name: output[name] for name in names})
            ),
        ]
        self._layers = kept
        try:
            yield kept
        finally:
            self._layers = None
            for hook in hooks:
                hook.remove()
        rows, width = input_ids.shape[:-1].numel(), input_ids.shape[-1]
        ends = {"hidden_states": (width, None), "attentions": (width, width)}
        for name, layers in kept.items():
            tokens, last = map(slice, ends[name])
            cut = tuple(layer[:rows, ..., tokens, last] for layer in layers)
            kept[name] = select_layers(cut, asked[f"output_{name}"])

    def encode_tokens(self, **inputs) -> torch.Tensor:
        """Compute the token vectors that the method uses, `(rows, length, token_size)`: the encoder's last
        layer."""
        return self.encoder(**inputs, return_dict=True).last_hidden_state

    def encode_together(
        self, groups: Sequence[tuple[torch.Tensor, torch.Tensor]]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Encode several batches of texts, which may have different widths, together.

        An accelerator encodes all rows in one pass. On a CPU larger batches gain nothing and padding costs
        time, so a CPU encodes the rows in parts of similar length; see `parts_by_length`.

        Args:
            groups: token ids and attention mask, each `(rows, length)`, of each group.

        Returns:
            Token vectors `(rows, width, token_size)` and attention mask `(rows, width)` of each group, where
            `width` is the longest length of all groups.
        """
        input_ids, attention_mask = self._joined(groups)
        if input_ids.device.type == "cpu" and self._layers is None:
            width = attention_mask.shape[1]
            # Some tokenizers put padding first.
            firsts = attention_mask.argmax(dim=1)
            ends = (attention_mask * torch.arange(1, width + 1)).amax(dim=1)
            lengths = ends - firsts
            if num_processes() == 1:
                by_length = parts_by_length(lengths)
            else:
                # A sharded encoder gathers its weights in each pass, so all processes need equally many.
                by_length = lengths.argsort(stable=True).tensor_split(min(PARTS_OF_A_PROCESS, len(lengths)))
            parts = []
            for rows in by_length:
                start = int(firsts[rows].min())
                end = max(int(ends[rows].max()), start + 1)
                mask = attention_mask[rows, start:end]
                part = self.encode_tokens(
                    input_ids=input_ids[rows, start:end],
                    attention_mask=None if bool(mask.all()) else mask,
                )
                # Zeros at positions that a part does not have.
                parts.append(nn.functional.pad(part, (0, 0, start, width - end)))
            hidden = torch.cat(parts)[torch.cat(by_length).argsort()]
        else:
            hidden = self.encode_tokens(input_ids=input_ids, attention_mask=attention_mask)
        sizes = [len(ids) for ids, _ in groups]
        return list(zip(hidden.split(sizes), attention_mask.split(sizes), strict=True))

    def _joined(self, groups: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
        """Token ids and attention mask of all groups, `(..., length)`, as `(rows, width)`."""
        width = max(ids.shape[-1] for ids, _ in groups)
        padding_id = self.config.encoder_config.pad_token_id or 0
        joined = []
        for parts, padding in zip(zip(*groups, strict=True), (padding_id, 0), strict=True):
            wide = [nn.functional.pad(part, (0, width - part.shape[-1]), value=padding) for part in parts]
            joined.append(torch.cat([part.flatten(0, -2) for part in wide]))
        return joined


def parts_by_length(lengths: torch.Tensor, part_cost: int = PART_COST) -> list[torch.Tensor]:
    """Split rows into parts of similar length, each to be padded to its longest row, at the least total cost.

    Rows of equal length, `(rows,)`, stay together. `part_cost` is the cost of a part beside its tokens and
    padding, in tokens.

    Returns:
        Indices of the rows of each part, shorter rows first.
    """
    widths, counts = (values.tolist() for values in lengths.unique(return_counts=True))
    # For the n shortest lengths: the least cost, and the sizes of its parts.
    best: list[tuple[int, list[int]]] = [(0, [])]
    for end, width in enumerate(widths, start=1):
        rows, choices = 0, []
        for start in reversed(range(end)):
            rows += counts[start]
            cost, sizes = best[start]
            choices.append((cost + part_cost + rows * width, [*sizes, rows]))
        best.append(min(choices))
    return list(lengths.argsort(stable=True).split(best[-1][1]))


class EventEncoderModel(EventTextEncoder):
    """A pretrained encoder with pooling, and a projection if `projection_dim` is set."""

    def __init__(self, config, encoder=None):
        super().__init__(config, encoder=encoder)
        hidden_size = config.encoder_config.hidden_size
        self.projection = (
            None if config.projection_dim == hidden_size else nn.Linear(hidden_size, config.projection_dim)
        )
        self.post_init()

    def pool(
        self, last_hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Pool and project token vectors.

        Args:
            last_hidden_state: `(batch, length, hidden_size)`.
            attention_mask: `(batch, length)`; None if nothing is padded.

        Returns:
            `(batch, projection_dim)`, not normalised.
        """
        pooled = POOLINGS[self.config.pooling](last_hidden_state, attention_mask)
        return pooled if self.projection is None else self.projection(pooled)

    def truncate(self, vectors: torch.Tensor) -> torch.Tensor:
        """Keep the first `truncate_dim` entries of pooled vectors, `(..., projection_dim)`, scaled to length
        1; the same vectors if it is None."""
        size = self.config.truncate_dim
        return vectors if size is None else unit(vectors[..., :size])

    def embed_distinct(self, groups: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
        """Embed several batches of texts together, each distinct text once.

        From token ids and attention mask, `(..., length)`, of each group to `(..., projection_dim)`, not
        normalised.
        """
        texts, masks = self._joined(groups)
        texts = texts.masked_fill(masks == 0, self.config.encoder_config.pad_token_id or 0)
        distinct, place = torch.stack([texts, masks]).unique(dim=1, return_inverse=True)
        [(hidden, mask)] = self.encode_together([(distinct[0], distinct[1])])
        kept = self._layers or {}
        kept.update({name: tuple(layer[place] for layer in layers) for name, layers in kept.items()})
        shapes = [ids.shape[:-1] for ids, _ in groups]
        vectors = self.pool(hidden, mask)[place].split([shape.numel() for shape in shapes])
        return [rows.unflatten(0, shape) for rows, shape in zip(vectors, shapes, strict=True)]

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> EventModelOutput:
        """Encode texts.

        Args:
            input_ids: token ids, `(batch, length)`.
            attention_mask: 1 for a token, 0 for padding, `(batch, length)`; None if nothing is padded.
            token_type_ids: `(batch, length)`, for encoders that know segments.
            inputs_embeds: token embeddings instead of ids, `(batch, length, hidden_size)`.
            **kwargs: passed on to the encoder, such as `output_hidden_states` and `output_attentions`.
                `return_dict=False` gives a tuple.

        Returns:
            `EventModelOutput`.
        """
        output = self._run_encoder(input_ids, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        mask = self._mask_of_tokens(attention_mask, output.last_hidden_state)
        return EventModelOutput(
            embeddings=self.truncate(self.pool(output.last_hidden_state, mask)),
            last_hidden_state=output.last_hidden_state,
            hidden_states=output.hidden_states,
            attentions=output.attentions,
        )
