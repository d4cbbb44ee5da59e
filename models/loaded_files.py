"""Checks of a loaded model and of its tokenizer, which libraries load even from damaged files."""

LEAST_SHARE = 0.9
"""Share of the embeddings that a tokenizer has tokens for at least. Encoders pad their embeddings to round
numbers, by far less than the rest."""

LEAST_LENGTH = 4
"""Tokens of a text at most, below which no word is left beside the special tokens."""

PROBES = (
    "the storm flooded the city and police arrested a man",
    "буря затопила город",
    "عاصفة أغرقت المدينة",
    "तूफान ने शहर को डुबो दिया",
    "暴风雨淹没了城市",
    "폭풍이 도시를 침수시켰다",
)
"""Ordinary words. A tokenizer that knows none of them in any script has no usable vocabulary."""


def check_loaded(model, tokenizer) -> None:
    """Refuse weights that are not finite, and a tokenizer that is not the model's.

    Args:
        model: the loaded model.
        tokenizer: its tokenizer.

    Raises:
        ValueError: says which.
    """
    check_finite_weights(model)
    check_tokenizer(tokenizer, getattr(model.config.get_text_config(), "vocab_size", None))


def check_finite_weights(model) -> None:
    """Refuse weights that are not finite, in one pass over them.

    Args:
        model: the loaded model.

    Raises:
        ValueError: names the first such weight.
    """
    for name, weights in model.state_dict().items():
        if weights.is_floating_point() and (count := int((~weights.isfinite()).sum())):
            raise ValueError(f"{count} numbers in {name} are NaN or infinite; accepted: finite weights")


def check_tokenizer(tokenizer, vocab_size: int | None) -> None:
    """Refuse a tokenizer without a vocabulary, or one that does not fit the embeddings of a model.

    The vocabulary is read once.

    Args:
        tokenizer: the tokenizer.
        vocab_size: number of the embeddings; None where the model has no table of them.

    Raises:
        ValueError: says how it does not fit.
    """
    length = tokenizer.model_max_length
    if isinstance(length, bool) or not isinstance(length, (int, float)) or not length >= LEAST_LENGTH:
        raise ValueError(
            f"the tokenizer has the model_max_length {str(length)[:100]!r}; accepted: a number of at least "
            f"{LEAST_LENGTH}"
        )
    if not any(_knows_a_word(tokenizer, text) for text in PROBES):
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


def _knows_a_word(tokenizer, text: str) -> bool:
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"])
    return any(token != tokenizer.unk_token and any(map(str.isalnum, token)) for token in tokens)
