"""Loading a model of this suite, or a plain pretrained encoder, with its tokenizer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from huggingface_hub import ResolvedRevision
from huggingface_hub.errors import HfHubHTTPError, StrictDataclassError
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils import resolve_revision

from eventformers.datasets_scripts.events import EVENT_ORDERS
from eventformers.datasets_scripts.loading import limit_requests
from eventformers.errors import EventformersError, UnknownNameError, first_line, shown
from eventformers.files import refuse_unfinished
from eventformers.loading.encoders import PACKAGED_ENCODER, resolve_encoder
from eventformers.loading.model_files import (
    CONFIG_FILE,
    check_config,
    check_folder,
    check_weights,
    find_file,
    read_object,
    read_weight_files,
)
from eventformers.methods import all_methods
from eventformers.models.configuration_base import EventConfig
from eventformers.models.loaded_files import check_tokenizer
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.pooling import POOLINGS
from eventformers.models.text_prompts import clear_call_settings, longest_input

for _capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    # oneDNN keeps its last 1,024 kernels, each for one shape of a batch, and batches of texts have ever new
    # shapes: training in bfloat16 on a CPU would soon need a gigabyte more. A batch needs fewer than 32.
    # oneDNN reads these variables at its first use.
    os.environ.setdefault(_capacity, "32")

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

LONGEST_REASON = 400
"""Maximum number of characters to show of a library's message: some list everything that exists."""

WRITTEN_BY_LIBRARIES = {
    "auto_map",
    "bos_token_id",
    "custom_pipelines",
    "eos_token_id",
    "model_type",
    "pad_token_id",
    "use_cache",
}
"""Entries of a saved configuration besides its fields."""


class LoadedEncoder(NamedTuple):
    """A loaded encoder with its tokenizer and its identity.

    Attributes:
        name: Hub id, or the folder's name.
        revision: commit on the Hub, or digest of the folder's configuration and weights.
        max_length: maximum number of tokens of a text.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    revision: str | None
    max_length: int


def load_model_and_tokenizer(
    name_or_path: str | Path | None,
    *,
    pooling: str | None = None,
    event_order: str | None = None,
    truncate_dim: int | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
) -> LoadedEncoder:
    """Load any encoder; see `eventformers.inference.encode.load_encoder` for arguments and errors."""
    if pooling is not None and pooling not in POOLINGS:
        raise UnknownNameError("pooling", pooling, POOLINGS)
    if event_order is not None and event_order not in EVENT_ORDERS:
        raise UnknownNameError("event order", event_order, EVENT_ORDERS)
    given = {"pooling": pooling, "event_order": event_order, "truncate_dim": truncate_dim}
    chosen_fields = {name: value for name, value in given.items() if value is not None}

    def load_model(source: str, config: PreTrainedConfig) -> PreTrainedModel:
        if not isinstance(config, EventConfig):
            return cast(PreTrainedModel, start_from_encoder(EventEncoderModel, source, **chosen_fields))
        model = load_whole(AutoModel, source)
        if pooling is not None and not hasattr(model, "pool"):
            raise ValueError(
                f"a {model.config.model_type} model pools the tokens of each role in its own way; accepted: "
                "no pooling"
            )
        for name, value in chosen_fields.items():
            setattr(model.config, name, value)
        model.config.validate_truncate_dim()
        return model

    return load_with_tokenizer(name_or_path, load_model, device=device, dtype=dtype)


def load_with_tokenizer(
    name_or_path: str | Path | None,
    load_model: Callable[[str, PreTrainedConfig], PreTrainedModel],
    *,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
) -> LoadedEncoder:
    """Load a model with its tokenizer and its identity.

    Args:
        name_or_path: folder or Hub id; None for the packaged all-MiniLM-L6-v2.
        load_model: loads the model from its folder or Hub id, given its configuration.

    Raises:
        EventformersError: the model or its tokenizer cannot be loaded.
        UnknownNameError: an unknown dtype.
    """
    if isinstance(dtype, str):
        name = dtype.removeprefix("torch.")
        if name not in DTYPES:
            raise UnknownNameError("dtype", dtype, DTYPES)
        dtype = DTYPES[name]
    chosen_device = find_device(device)
    source = resolve_encoder(name_or_path)
    folder = Path(source) if Path(source).is_dir() else None
    length = None
    with faults_told(source):
        config = load_config(source)
        revision = model_revision(source)
        tokenizer = load_tokenizer(source, config)
        if not isinstance(config, EventConfig):
            length = read_object(source, "sentence_bert_config.json").get("max_seq_length")
        model = load_model(source, config)
    # A saved configuration may ask for tuples.
    model.config.return_dict = True
    nn.Module.to(model, device=chosen_device, dtype=dtype)
    model.eval()
    return LoadedEncoder(
        model=model,
        tokenizer=tokenizer,
        name=source if folder is None else folder_name(folder, name_or_path),
        revision=revision,
        max_length=longest_input(
            tokenizer, model.config.get_text_config(), length if isinstance(length, int) else None
        ),
    )


@contextmanager
def faults_told(source: str) -> Iterator[None]:
    """Convert errors of loading a model to one line: it does not exist, is incomplete, or is rejected.

    Raises:
        EventformersError: the model cannot be loaded.
    """
    limit_requests()
    try:
        yield
    except EventformersError:
        raise
    except SafetensorError as error:
        raise EventformersError(
            f"cannot load {source}: a weight file is truncated or damaged ({first_sentence(error)}); "
            "accepted: the file as it was saved; copy or download it again"
        ) from error
    except (OSError, ValueError, HfHubHTTPError, StrictDataclassError) as error:
        raise EventformersError(f"cannot load {source}: {first_sentence(error)}") from error
    except Exception as error:
        if isinstance(error, RuntimeError) and "ignore_mismatched_sizes" in str(error):
            raise EventformersError(
                f"cannot load {source}: its weights have other sizes than its config.json says; accepted: "
                "both as they were saved together"
            ) from error
        # With damaged files, libraries raise errors of every kind.
        raise EventformersError(
            f"cannot load {source}: its {CONFIG_FILE} and weights do not fit ({type(error).__name__}: "
            f"{first_sentence(error)}); accepted: both as they were saved together"
        ) from error


def load_config(source: str, revision: str | None = None) -> PreTrainedConfig:
    """Load a model's configuration, if this release knows all of it; no code of a repository is run.

    Args:
        revision: commit of a Hub id; None uses the latest.

    Raises:
        EventformersError: this release does not know its type or, for one of our types, a field.
        OSError: it does not exist.
        ValueError: it is not a configuration.
    """
    refuse_unfinished(Path(source))
    newer = "if a newer release of eventformers wrote it, update eventformers"
    check_folder(source)
    check_config(source, revision)
    try:
        config = AutoConfig.from_pretrained(source, revision=revision or "main", trust_remote_code=False)
    except ValueError as error:
        model_type = read_object(source, CONFIG_FILE, revision).get("model_type")
        if model_type is None or model_type in CONFIG_MAPPING:
            raise
        raise EventformersError(
            f"cannot load {source}: a model of the type {shown(model_type)}, which this release does not "
            f"know; accepted: {', '.join(all_methods())}, or an encoder of transformers; {newer}"
        ) from error
    if isinstance(config, EventConfig):
        known = {entry.name for entry in fields(config)} | WRITTEN_BY_LIBRARIES
        unread = sorted(name for name in vars(config) if not name.startswith("_") and name not in known)
        if unread:
            raise EventformersError(
                f"cannot load {source}: its config.json has {', '.join(unread)}, which this release does not "
                f"know and would ignore; {newer}"
            )
    return config


def model_revision(source: str) -> str | None:
    """The commit of a Hub id, or the digest of a folder; None if the Hub does not report it."""
    if Path(source).is_dir():
        return folder_revision(Path(source))
    found = resolve_revision(source)
    return found.resolved if isinstance(found, ResolvedRevision) else None


def folder_revision(folder: Path) -> str:
    """SHA-256 over the configuration and the weights of a model folder: equal models have equal revisions."""
    digest = hashlib.sha256()
    for path in [folder / "config.json", *sorted(folder.glob("*.safetensors"))]:
        with path.open("rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def load_whole(
    model_class: Any, source: str, *, revision: str | None = None, **settings: Any
) -> PreTrainedModel:
    """Load a model and check that it has all of its weights and that they are finite.

    Args:
        revision: commit of a Hub id; None uses the latest.

    Raises:
        EventformersError: a weight file is damaged, or a weight is unusable or has no place.
        ValueError: a weight is missing.
    """
    check_folder(source)
    files = read_weight_files(source, revision)
    if revision is not None:
        settings["revision"] = revision
    model, report = model_class.from_pretrained(
        source, output_loading_info=True, use_safetensors=True, **settings
    )
    if report["missing_keys"]:
        raise ValueError(
            f"weights are missing, among them {', '.join(sorted(report['missing_keys'])[:3])}; accepted: a "
            "model with all of its weights"
        )
    check_weights(model, files, source, unused=report["unexpected_keys"])
    return cast("PreTrainedModel", model)


def start_from_encoder(model_class: Any, source: str, **fields: Any) -> Any:
    """Build a model of this suite over a pretrained encoder, with the same checks of its weights.

    Raises:
        EventformersError: a weight file is damaged, or a weight is unusable or has no place.
        OSError: the encoder does not exist.
        ValueError: a weight is missing, or a field is invalid.
    """
    files = read_weight_files(source)
    model = model_class.from_encoder(source, **fields)
    check_weights(model, files, source)
    return model


def find_device(device: str | torch.device | None) -> torch.device:
    """Convert a name to a device; None uses an accelerator if there is one.

    Raises:
        EventformersError: this machine does not have the device.
    """
    if device is None:
        found = torch.accelerator.current_accelerator(check_available=True)
        return found or torch.device("cpu")
    try:
        chosen = torch.device(device)
        # Tensors on some devices, such as meta, have no values.
        torch.zeros(1, device=chosen).item()
        if chosen.type == "cpu" and chosen.index:
            raise RuntimeError("torch accepts any index of a CPU, but there is only one")
    except (RuntimeError, AssertionError, ImportError) as error:
        kind = torch.accelerator.current_accelerator(check_available=True)
        names = ["cpu", *(f"{kind}:{number}" for number in range(torch.accelerator.device_count()))]
        why = "" if kind else f" (torch {torch.__version__} finds no accelerator)"
        raise EventformersError(
            f"device {shown(str(device))} does not exist; accepted: {', '.join(names)}{why}"
        ) from error
    return chosen


def folder_name(folder: Path, given: str | Path | None) -> str:
    """Name of a model folder in records; the packaged encoder has its own name."""
    return "all-MiniLM-L6-v2" if given in (None, PACKAGED_ENCODER) else folder.absolute().name


def first_sentence(error: BaseException) -> str:
    """The first line of a library's message; for a configuration error, the reason why a field is invalid."""
    if isinstance(error, StrictDataclassError) and error.__cause__ is not None:
        error = error.__cause__
    line = first_line(error)
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]} …"


def load_tokenizer(
    source: str, config: PreTrainedConfig, revision: str | None = None
) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer and check that it fits the model; no code of a repository is run.

    Args:
        config: the model's configuration, whose `vocab_size` is the number of its token embeddings.
        revision: commit of a Hub id; None uses the latest.

    Raises:
        EventformersError: its files cannot be read, it has no vocabulary, or it does not fit the model.
    """
    # None would be read as the name of a branch.
    where = {} if revision is None else {"revision": revision}
    tokenizer: PreTrainedTokenizerBase | None = None
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **where)
        clear_call_settings(tokenizer)
        check_tokenizer(tokenizer, getattr(config.get_text_config(), "vocab_size", None))
    except Exception as error:
        # With damaged files, libraries raise errors of every kind, plain `Exception` included.
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        # A folder may have none of the vocabulary files.
        names = {"tokenizer.json", *(getattr(tokenizer, "vocab_files_names", None) or {}).values()}
        is_there = not Path(source).is_dir() or any(find_file(source, name, None) for name in names)
        missing = "" if is_there else f"found no {' and no '.join(sorted(names))}; "
        told = f"cannot load the tokenizer of {source}: {missing}{kind}"
        accepted = "" if "; accepted: " in str(error) else "; accepted: its files as they were saved"
        raise EventformersError(f"{told}{first_line(error)}{accepted}") from error
    return tokenizer
