"""Loading of a model's tokenizer, with a check that it fits the model."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase

from eventformers.errors import EventformersError, first_line
from eventformers.loading.model_files import find_file
from eventformers.models.loaded_files import check_tokenizer
from eventformers.models.text_prompts import clear_call_settings


def load_tokenizer(
    source: str, config: PreTrainedConfig, revision: str | None = None
) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer and check that it fits the model; no code of a repository is run.

    Args:
        source: folder or Hub id.
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
        told = f"cannot load the tokenizer of {source}: {_missing_files(source, tokenizer)}{kind}"
        accepted = "" if "; accepted: " in str(error) else "; accepted: its files as they were saved"
        raise EventformersError(f"{told}{first_line(error)}{accepted}") from error
    return tokenizer


def _missing_files(source: str, tokenizer: PreTrainedTokenizerBase | None) -> str:
    """Name the vocabulary files if a folder has none of them; else empty."""
    names = {"tokenizer.json", *(getattr(tokenizer, "vocab_files_names", None) or {}).values()}
    if not Path(source).is_dir() or any(find_file(source, name, None) for name in names):
        return ""
    return f"found no {' and no '.join(sorted(names))}; "
