"""Checks of a loaded model and its tokenizer: libraries load some damaged files without an error."""

LEAST_SHARE = 0.9
"""Minimum ratio of tokens in the tokenizer to rows of the embeddings. Encoders pad their embeddings to round
numbers, which adds far fewer rows."""

LEAST_LENGTH = 4
"""Minimum `model_max_length`: below it no word fits between the special tokens."""

PROBES = (
    "the storm flooded the city and police arrested a man",
    "буря затопила город",
    "عاصفة أغرقت المدينة",
    "तूफान ने शहर को डुबो दिया",
    "暴风雨淹没了城市",
    "폭풍이 도시를 침수시켰다",
)
"""Common words in several scripts. A tokenizer that knows none of them has no usable vocabulary."""


def check_loaded(model, tokenizer) -> None:
    """Raise a `ValueError` for a weight that is not finite, or a tokenizer that does not belong to the
    model."""
    check_finite_weights(model)
    check_tokenizer(tokenizer, getattr(model.config.get_text_config(), "vocab_size", None))


def check_finite_weights(model) -> None:
    """Raise a `ValueError` that names the first tensor with NaN or infinite weights, in one pass over
    them."""
    for name, weights in model.state_dict().items():
        if weights.is_floating_point() and (count := int((~weights.isfinite()).sum())):
            raise ValueError(f"{count} numbers in {name} are NaN or infinite; accepted: finite weights")


def check_tokenizer(tokenizer, vocab_size: int | None) -> None:
    """Raise a `ValueError` for a tokenizer without vocabulary or usable maximum length, or one that does not
    fit the embeddings of a model, of `vocab_size` rows; None if it has no such table."""
    if tokenizer is None:
        # A pipeline of transformers goes on without a tokenizer that it could not read.
        raise ValueError("the tokenizer cannot be read; accepted: its files as they were saved")
    length = tokenizer.model_max_length
    if isinstance(length, bool) or not isinstance(length, (int, float)) or not length >= LEAST_LENGTH:
        raise ValueError(
            f"the tokenizer has the model_max_length {str(length)[:100]!r}; accepted: a number of at least "
            f"{LEAST_LENGTH}"
        )
    encoded = tokenizer(list(PROBES), add_special_tokens=False)["input_ids"]
    tokens = {token for ids in encoded for token in tokenizer.convert_ids_to_tokens(ids)}
    if not any(token != tokenizer.unk_token and any(map(str.isalnum, token)) for token in tokens):
        raise ValueError(
            f"the tokenizer has no vocabulary and reads every word as {tokenizer.unk_token}; accepted: the "
            "tokenizer's files as they were saved"
        )
    if vocab_size is None:
        return
    vocabulary = tokenizer.get_vocab()
    token, last = max(vocabulary.items(), key=lambda item: item[1])
    if last >= vocab_size:
        raise ValueError(
            f"the tokenizer is not the model's: its token {token[:100]!r} has the id {last}, and the model "
            f"has embeddings for {vocab_size} tokens; accepted: both as they were saved together"
        )
    if len(vocabulary) < LEAST_SHARE * vocab_size:
        raise ValueError(
            f"the tokenizer is not the model's: it has {len(vocabulary)} tokens, and the model has "
            f"embeddings for {vocab_size}; accepted: both as they were saved together"
        )
