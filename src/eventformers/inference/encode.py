"""Loading of any encoder, and fast encoding of many events in bounded memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import Progress
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from eventformers.datasets_scripts.events import EventOrder
from eventformers.errors import EventformersError, shown
from eventformers.inference.encoding.batches import (
    BatchWorkers,
    DeviceProcesses,
    equal_length_batches,
    for_inference,
    forward_batch,
    out_of_memory_explained,
)
from eventformers.inference.encoding.event_inputs import (
    DistinctRows,
    RoleInputs,
    TextInputs,
    TokenRow,
    digest_of,
)
from eventformers.inference.encoding.event_reader import EventLike, values_of
from eventformers.inference.encoding.precision import needs_ranges, quantized, read_ranges
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.loading.models import find_device, load_model_and_tokenizer
from eventformers.methods import what_is_read
from eventformers.models.text_prompts import prompt_of

BLOCK_TEXTS = 16_384
"""Number of distinct texts tokenised at a time; it bounds the memory for token ids."""

CPU_BATCH_TOKENS = 2_048
"""Tokens in an automatic batch on a CPU, so few that its activations stay in the cache."""

ACCELERATOR_BATCH_TOKENS = 65_536
"""Tokens in an automatic batch on an accelerator, enough to fill it."""

ACCELERATOR_FILL_TOKENS = 8_192
"""Tokens below which a batch on an accelerator also takes shorter texts: small batches leave it idle."""

PACKING_PAYS_FROM_TEXTS = 512
"""Number of distinct texts from which packing the weights saves more time than it costs."""


@dataclass
class EventEncoder:
    """A loaded model with its tokenizer, ready to encode events: `EventEncoder.from_pretrained(...)`.

    Attributes:
        model: a model whose output has `embeddings`, `(batch, projection_dim)`.
        tokenizer: its tokenizer.
        event_order: the order in which an event's roles become text.
        name: Hub id or folder name.
        revision: commit on the Hub, or digest of a folder's configuration and weights; None if unknown.
        max_length: maximum number of tokens, special tokens included; longer texts are truncated and counted.
        prompts: prompts by kind of text; None takes the model's.
        memory: cache of the vectors of the latest list of inputs, valid while the model's weights do not
            change; None disables it. An event takes 4·d bytes for its vector of size d; for chains 4·(v + (1
            + w)·D), with its vector of size v, candidate of size D, and w words, or 8·D if each event is a
            chain of its own.
        packs_from: number of texts from which a call packs the weights on a CPU; with 1, the vector of a text
            is the same to the last bit whatever else is encoded with it.
        truncated: number of texts that the latest call of `encode` truncated.
        remembered: number of distinct inputs of the latest call whose vectors came from `memory`.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    event_order: EventOrder = "subject_predicate_object"
    name: str = ""
    revision: str | None = None
    max_length: int = 512
    prompts: Mapping[str, str] | None = None
    memory: dict[Hashable, Any] | None = field(default=None, repr=False, compare=False)
    packs_from: int = field(default=PACKING_PAYS_FROM_TEXTS, repr=False, compare=False)
    truncated: int = field(default=0, init=False)
    remembered: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.prompts is None:
            self.prompts = getattr(self.model.config, "prompts", None) or {}

    @staticmethod
    def from_pretrained(
        name_or_path: str | Path | None = None,
        *,
        pooling: str | None = None,
        event_order: str | None = None,
        truncate_dim: int | None = None,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> EventEncoder:
        """Load a model of this suite, or any plain pretrained encoder, for encoding.

        Args:
            name_or_path: folder or Hub id; None for the packaged all-MiniLM-L6-v2.
            pooling: `cls`, `mean` or `lasttoken`; None uses the model's own. For a plain encoder that is the
                pooling of its sentence-transformers files; without them `mean`, or `lasttoken` if it is
                decoder-only.
            event_order: a key of `EVENT_ORDERS`; None uses the model's own, `subject_predicate_object` for a
                plain encoder.
            truncate_dim: number of entries of a vector to keep, at length 1, for models trained so
                (Matryoshka); None uses the model's own.
            device: a torch device; None uses an accelerator if there is one.
            dtype: `float32`, `bfloat16` or `float16`; None uses that of the saved weights.

        Raises:
            EventformersError: the model does not exist, its folder is incomplete, or a weight is missing.
            UnknownNameError: an unknown pooling, order or dtype.
        """
        loaded = load_model_and_tokenizer(
            name_or_path,
            pooling=pooling,
            event_order=event_order,
            truncate_dim=truncate_dim,
            device=device,
            dtype=dtype,
        )
        return EventEncoder(**loaded._asdict(), event_order=loaded.model.config.event_order)

    @property
    def dimension(self) -> int:
        """Size of the vectors."""
        return int(self.model.config.embedding_dim)

    def prompt(self, name: str | None = "event") -> str:
        """Return the prompt of a kind of text; see `encode`.

        Raises:
            EventformersError: the kind is unknown.
        """
        try:
            return prompt_of(self.prompts, name)
        except ValueError as error:
            raise EventformersError(str(error)) from error

    def texts(self, items: EventLike) -> list[str]:
        """Return the text of each item; an event's roles follow the model's order.

        Raises:
            EventformersError: the items cannot be read, or one contains no word; see `encode`.
        """
        inputs = self.inputs()
        return [inputs.text(item, position) for position, item in enumerate(values_of(items)[0])]

    def described(self, normalize: bool) -> dict[str, str]:
        """Describe what vectors are made with, for the metadata of a file.

        Args:
            normalize: whether vectors have length 1.
        """
        return {
            "model": self.name,
            "model_revision": self.revision or "",
            "event_order": self.event_order,
            "pooling": str(getattr(self.model.config, "pooling", "")),
            "normalize": str(normalize).lower(),
        }

    @property
    def reads_chains(self) -> bool:
        """True if the model reads the roles of events and their chain."""
        # Several processes hold no model in this one.
        return what_is_read(self.model.config.model_type) == "chains"

    def inputs(self, prompt_name: str | None = "event") -> TextInputs:
        """Return the converter from texts and events to the model's inputs; see `encode`."""
        kind = RoleInputs if self.reads_chains else TextInputs
        return kind(self.tokenizer, self.event_order, self.max_length, self.prompt(prompt_name))

    def encode(
        self,
        items: EventLike,
        *,
        batch_size: int | Literal["auto"] = "auto",
        normalize: bool = False,
        show_progress: bool = False,
        prompt_name: str | None = "event",
    ) -> Vectors:
        """Encode texts or events.

        Each distinct text is encoded once. Texts with the same tokens share one vector, so their vectors are
        equal to the last bit. A batch holds texts of one length, without padding; only small batches on an
        accelerator mix lengths. On a CPU, batches run in parallel on `torch.get_num_threads()` threads, one
        thread each.

        Args:
            items: texts and events in any form that `eventformers.encode` accepts, or a single one.
            batch_size: texts of a batch at most; `auto` fills batches by their number of tokens.
            normalize: scale every vector to length 1.
            show_progress: draw a progress bar on standard error.
            prompt_name: kind of the texts, whose prompt is put before each: `event`, `query` or `document`;
                None puts none.

        Returns:
            `(N, d)` float32 in the order of the items; `(d,)` for one item alone.

        Raises:
            EventformersError: the type of the items is not supported; an item is not a text or event, or
                contains no word; the batch size is not a positive integer; a vector is not finite; or memory
                ran out.
        """
        values, is_alone = values_of(items)
        if is_alone:
            return self.encode(
                list(values), batch_size=batch_size, normalize=normalize, prompt_name=prompt_name
            )[0]
        inputs = self.inputs(prompt_name)
        keys = [inputs.key(value, position) for position, value in enumerate(values)]
        known: Vectors | None = self.recall("vectors", keys, (batch_size, normalize, inputs.prompt))
        if known is not None:
            return known
        rows = DistinctRows(keys)
        vectors = np.empty((rows.number, self.dimension), dtype=np.float32)

        def apply(model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions) -> tuple[Vectors]:
            encoded = forward_batch(model, tensors)
            if normalize:
                encoded /= np.maximum(np.linalg.norm(encoded, axis=1, keepdims=True), 1e-12)
            rows.scatter(positions, encoded, vectors)
            return (encoded,)

        self.pass_distinct(rows, inputs, apply, batch_size=batch_size, show_progress=show_progress)
        rows.copy_known(vectors)
        # The memory returns the same array to later callers, so nobody may change it.
        vectors.setflags(write=self.memory is None)
        self.keep(vectors)
        return vectors

    def recall(self, kind: str, keys: Sequence[Hashable], settings: Hashable) -> Any:
        """Look up a list of inputs in the memory; sets `remembered`, and on a hit `truncated`.

        Args:
            kind: kind of output, such as `vectors`.
            keys: identity of each input.
            settings: everything else that affects the output, besides the encoder's attributes.

        Returns:
            The stored output; None if the caller must encode the inputs and pass the output to `keep`.
        """
        self.remembered = 0
        if self.memory is None:
            return None
        asked = (kind, settings, self.event_order, self.max_length, digest_of(keys))
        if self.memory.get(asked) is None:
            # Dropped before the next output is computed: there are never two. Parts of an output are not
            # reused: batches depend on the whole list, and the last bits of a vector depend on its batch.
            self.memory.clear()
            self.memory[asked] = None
            return None
        encoded, self.truncated = self.memory[asked]
        self.remembered = len(set(keys))
        return encoded

    def keep(self, encoded: object) -> None:
        """Store an output that `recall` did not find."""
        if self.memory:
            [asked] = self.memory
            self.memory[asked] = (encoded, self.truncated)

    def pass_distinct(
        self,
        rows: DistinctRows,
        inputs: TextInputs,
        apply: Callable[[nn.Module, dict[str, torch.Tensor], Positions], Iterable[Vectors]],
        *,
        batch_size: int | Literal["auto"] = "auto",
        show_progress: bool = False,
    ) -> None:
        """Pass every distinct input once through the model; sets `truncated`, and warns of truncated texts.

        Args:
            rows: the inputs. Only the first of those with equal tokens is passed; `rows.known` lists the
                others.
            inputs: converts them to the model's inputs.
            apply: receives the model in evaluation mode, its arguments for a batch and the positions of the
                batch in `rows.distinct`; returns all that it computed. Several threads may call it.
            batch_size: maximum number of inputs in a batch; `auto` fills batches by their number of tokens.
            show_progress: draw a progress bar on standard error.

        Raises:
            EventformersError: the batch size is not a positive integer, the model computes a number that is
                not finite, or memory ran out.
        """
        if batch_size != "auto" and (not isinstance(batch_size, int) or batch_size < 1):
            raise EventformersError(
                f"batch_size is {shown(batch_size)}; accepted: a positive integer or 'auto'"
            )
        self.truncated = 0
        device = self.model.device
        # A model in several processes has the devices of these.
        devices = getattr(self.model, "devices", None)
        on_cpu = all(one.type == "cpu" for one in devices or [device])
        parallel = len(devices) if devices else torch.get_num_threads() if on_cpu else 1
        most_tokens = CPU_BATCH_TOKENS if on_cpu else ACCELERATOR_BATCH_TOKENS
        batches_of = partial(
            equal_length_batches,
            max_tokens=most_tokens if batch_size == "auto" else None,
            max_rows=None if batch_size == "auto" else batch_size,
            fill_tokens=ACCELERATOR_FILL_TOKENS if inputs.pads and not on_cpu else 0,
        )
        model = for_inference(self.model, pack=on_cpu and len(rows.distinct) >= self.packs_from)
        with (
            BatchWorkers(parallel) as workers,
            Progress(console=Console(stderr=True), disable=not (show_progress and rows.distinct)) as progress,
        ):
            task = progress.add_task("encoding", total=len(rows.distinct))
            for start in range(0, len(rows.distinct), BLOCK_TEXTS):
                block = rows.distinct[start : start + BLOCK_TEXTS]
                token_rows, is_cut = inputs.token_rows(block)
                self.truncated += sum(int(rows.counts[start + position]) for position in is_cut)

                def pass_batch(
                    positions: Positions, start: int = start, token_rows: list[TokenRow] = token_rows
                ) -> None:
                    batch = [token_rows[position] for position in positions]
                    with (
                        out_of_memory_explained(device, len(batch), inputs.length(batch[0])),
                        torch.inference_mode(),
                    ):
                        computed = apply(model, inputs.tensors(batch, device), positions + start)
                    require_finite(self.name, *computed)
                    progress.advance(task, len(positions))

                new = rows.with_new_tokens(start, token_rows)
                lengths = [inputs.length(token_rows[position]) for position in new]
                workers.run(pass_batch, [new[batch] for batch in batches_of(lengths)])
        if self.truncated:
            warnings.warn(
                f"{self.truncated:,} of {rows.number:,} texts have more than {self.max_length} tokens and "
                "were truncated",
                stacklevel=3,
            )


load_encoder = EventEncoder.from_pretrained


def as_encoder(model: str | Path | EventEncoder | None, **settings: Any) -> EventEncoder:
    """Return a loaded encoder as it is, or load one by name with the arguments of `load_encoder`, which a
    loaded one does not accept."""
    if not isinstance(model, EventEncoder):
        return load_encoder(model, **settings)
    if any(settings.values()):
        raise EventformersError(
            "pooling, event_order, truncate_dim, device and dtype apply when a model is loaded, but received "
            "a loaded encoder; accepted: these settings with the name of a model, or a loaded encoder "
            "without them"
        )
    return model


@contextmanager
def opened_encoder(
    model: str | Path | EventEncoder | None,
    devices: Sequence[str | torch.device] | None,
    **settings: Any,
) -> Iterator[EventEncoder]:
    """Open an encoder, with several devices in one process for each; the processes end with the context.

    Args:
        model: see `as_encoder`; with devices not a loaded encoder.
        devices: the torch device of each process; one may occur several times. None computes in this process.
        **settings: the settings of `as_encoder`; with devices, `device` must be None.

    Raises:
        EventformersError: an error of `as_encoder`; there are no devices, or one does not exist; a process
            cannot load the model.
    """
    if devices is None:
        yield as_encoder(model, **settings)
        return
    if isinstance(devices, str) or not len(devices):
        raise EventformersError(
            f"devices is {shown(devices)}; accepted: a list of devices, such as ['cuda:0', 'cuda:1']"
        )
    if settings.pop("device", None) is not None:
        raise EventformersError("received both device and devices; accepted: one of them")
    if isinstance(model, EventEncoder):
        raise EventformersError(
            "devices apply when a model is loaded, but received a loaded encoder; accepted: devices with the "
            "name of a model"
        )
    found = [find_device(device) for device in devices]
    encoder = load_encoder(model, device="cpu", **settings)
    load = partial(load_model_and_tokenizer, model, **settings)
    processes = DeviceProcesses(encoder.model.config, found, load)
    try:
        yield replace(encoder, model=cast(PreTrainedModel, processes))
    finally:
        processes.close()


def encode(
    model: str | Path | EventEncoder | None,
    texts: EventLike,
    *,
    batch_size: int | Literal["auto"] = "auto",
    normalize: bool = False,
    show_progress: bool = False,
    prompt_name: str | None = "event",
    pooling: str | None = None,
    event_order: str | None = None,
    truncate_dim: int | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    devices: Sequence[str | torch.device] | None = None,
    precision: str = "float32",
    ranges: str | Path | npt.ArrayLike | None = None,
) -> npt.NDArray[Any]:
    """Encode texts or events with a model.

    Args:
        model: folder or Hub id of a model of this package or of any plain encoder, a loaded encoder, or None
            for the packaged all-MiniLM-L6-v2; for many calls, load it once with `load_encoder`.
        texts: texts and events, in a list or generator, or a single one. An event is a mapping with
            `subject`, `predicate` and `object`, or a tuple of these three strings; in a list also a list of
            them. A list of three strings is three texts. Also a NumPy array of strings, a series or column,
            an Arrow array, or rows: a pandas or polars frame, an Arrow table, a `datasets` dataset. Rows have
            a column `text`, or `event` with the three roles, or `predicate` with `subject` and `object`; the
            first of these counts. Beside a text, an event or all three roles, other columns are ignored,
            unless they look like one of these; if a role is absent, they raise an error.
        batch_size: maximum number of texts in a batch; `auto` fills batches by their number of tokens.
        normalize: scale every vector to length 1.
        show_progress: draw a progress bar on standard error.
        prompt_name: kind of the texts, whose prompt of the model is put before each: `event`, `query` or
            `document`; None puts none.
        pooling: `cls`, `mean` or `lasttoken`, instead of the model's own.
        event_order: a key of `EVENT_ORDERS`, instead of the model's own.
        truncate_dim: number of entries of a vector to keep, instead of the model's own.
        device: a torch device; None uses an accelerator if there is one.
        dtype: `float32`, `bfloat16` or `float16`; None uses that of the saved weights.
        devices: torch devices, with one process for each, instead of `device`; `["cpu", "cpu"]` uses two
            processes of half the threads.
        precision: precision of the vectors: `float32`, `int8`, `uint8`, `binary` or `ubinary`; see
            `inference.encoding.precision.quantized`.
        ranges: for `int8` and `uint8`, the smallest and largest value of each dimension, `(2, d)`, or the
            file of vectors that `embed` wrote; None uses those of these vectors, which are comparable only
            with each other.

    Returns:
        `(N, d)` float32 in the order of the texts, or the dtype of the precision, with ⌈d / 8⌉ bytes instead
        of d for `binary` and `ubinary`; one row alone for a single text.

    Raises:
        UnknownNameError: the precision is unknown.
        EventformersError: the model cannot be loaded, the texts have another type or lack the columns, a text
            has no word, loading settings are given for a loaded encoder, a process ends, memory ran out, or
            the ranges do not fit.
    """
    needs_ranges(precision)
    with opened_encoder(
        model,
        devices,
        pooling=pooling,
        event_order=event_order,
        truncate_dim=truncate_dim,
        device=device,
        dtype=dtype,
    ) as encoder:
        found = read_ranges(ranges, precision, encoder.dimension, encoder.described(normalize))
        vectors = encoder.encode(
            texts,
            batch_size=batch_size,
            normalize=normalize,
            show_progress=show_progress,
            prompt_name=prompt_name,
        )
    return quantized(vectors, precision, found)


def require_finite(name: str, *computed: Vectors) -> None:
    """Raise an error if a model computed a number, of vectors or scores, that is not finite."""
    if not all(np.isfinite(part).all() for part in computed):
        raise EventformersError(
            f"the model {shown(name)} computes numbers that are not finite; use dtype float32 or another "
            "model"
        )
