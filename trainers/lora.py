"""Low-rank adapters for a head (PEFT)."""

from __future__ import annotations

from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING

from eventformers.errors import EventformersError
from eventformers.models.modeling_base import EventPreTrainedModel


def add_lora(
    head: EventPreTrainedModel, trained_whole: tuple[str, ...], encoder_name: str, rank: int = 8
) -> PeftModel:
    """Freeze a head's encoder and add low-rank adapters to its attention.

    Of the token embeddings only those of `added_token_ids` train, and are saved with the adapters.

    Args:
        head: the training head.
        trained_whole: modules beside the encoder, which train as they are: PEFT would freeze them otherwise.
        encoder_name: where the adapter says that its encoder comes from.
        rank: rank of the adapters.

    Returns:
        The head with adapters.

    Raises:
        EventformersError: PEFT knows no attention modules of this kind of encoder.
    """
    model_type = head.config.encoder_config.model_type
    targets = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.get(model_type)
    if targets is None:
        known = ", ".join(sorted(TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING))
        raise EventformersError(
            f"--lora: no target modules are known for a {model_type} encoder; known: {known}"
        )
    head.name_or_path = encoder_name
    tables = [encoder.get_input_embeddings() for encoder in head.text_encoders()]
    names = [name for name, module in head.named_modules() if any(module is table for table in tables)]
    added = head.config.added_token_ids
    settings = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=rf".*\bencoder\..*\.({'|'.join(targets)})",
        modules_to_save=list(trained_whole),
        trainable_token_indices=None if added is None else dict.fromkeys(names, added),
    )
    return get_peft_model(head, settings)
