"""A cache of the token vectors of a frozen encoder, so that each text is encoded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from eventformers.errors import EventformersError
from eventformers.models.modeling_base import EventPreTrainedModel

Group = tuple[torch.Tensor, torch.Tensor]
_BLOCK_TOKENS = 2**16


class CachedEncoding:
    """Replacement of a model's `encode_together` that encodes only new texts.

    Vectors are cached in half precision, so a loss agrees with that of the encoder to about three digits.
    Their last digit depends on the batch of a text's first occurrence: a resumed run equals an uninterrupted
    one up to rounding.

    Args:
        encode: the model's own `encode_together` with a frozen encoder.
        max_tokens: maximum number of cached tokens, at two bytes for each entry of a vector; later texts are
            encoded each time.
        token_size: size of a token's vector.
    """

    def __init__(
        self, encode: Callable[[Sequence[Group]], list[Group]], max_tokens: int, token_size: int
    ) -> None:
        self._encode = encode
        self._max_tokens = max_tokens
        self._token_size = token_size
        # Blocks, since a single tensor that grows would be in memory twice while it is copied.
        self._blocks: list[torch.Tensor] = []
        self._used = 0
        self._starts: dict[bytes, int] = {}
        self._is_full = False

    @torch.no_grad()
    def __call__(self, groups: Sequence[Group]) -> list[Group]:
        """Return token vectors `(rows, width, token_size)` and mask of each group, like `encode_together`.

        Vectors of padding are zero.
        """
        width = max(ids.shape[1] for ids, _ in groups)
        input_ids = torch.cat([functional.pad(ids, (0, width - ids.shape[1])) for ids, _ in groups])
        mask = torch.cat([functional.pad(mask, (0, width - mask.shape[1])) for _, mask in groups])
        there = mask.bool()
        keys = [row[row >= 0].tobytes() for row in input_ids.masked_fill(~there, -1).cpu().numpy()]
        missing = torch.tensor([key not in self._starts for key in keys], device=there.device)
        fresh = None
        if bool(missing.any()):
            [(fresh, _)] = self._encode([(input_ids[missing], mask[missing])])
            fresh = fresh.masked_fill(~there[missing].unsqueeze(-1), 0)
            new = [key for key, is_new in zip(keys, missing.tolist(), strict=True) if is_new]
            self._hold(new, fresh, there[missing])
        starts = torch.tensor([self._starts.get(key, -1) for key in keys], device=there.device)
        places = starts.unsqueeze(1) + there.cumsum(dim=1) - 1
        hidden = self._read(torch.where(there & (starts >= 0).unsqueeze(1), places, -1))
        if fresh is not None:
            # Texts without room in the cache are missing from `hidden`; rounding the others makes them equal
            # to their cached vectors in later batches.
            hidden[missing] = fresh[:, :width].half().float()
        sizes = [len(ids) for ids, _ in groups]
        return list(zip(hidden.split(sizes), mask.split(sizes), strict=True))

    def _hold(self, keys: Sequence[bytes], hidden: torch.Tensor, there: torch.Tensor) -> None:
        """Cache the vectors of new texts while there is room."""
        held = []
        end = self._used
        for row, (key, length) in enumerate(zip(keys, there.sum(dim=1).tolist(), strict=True)):
            self._is_full = self._is_full or end + length > self._max_tokens
            if not self._is_full and key not in self._starts:
                self._starts[key] = end
                end += length
                held.append(row)
        fresh = hidden[held][there[held]].half()
        while self._used < end:
            number, first = divmod(self._used, _BLOCK_TOKENS)
            if number == len(self._blocks):
                self._blocks.append(fresh.new_empty(_BLOCK_TOKENS, self._token_size))
            count = min(_BLOCK_TOKENS - first, end - self._used)
            self._blocks[number][first : first + count] = fresh[:count]
            fresh = fresh[count:]
            self._used += count

    def _read(self, places: torch.Tensor) -> torch.Tensor:
        """Return cached vectors in single precision, `(*places, token_size)`; zeros for the place -1."""
        vectors = torch.zeros(*places.shape, self._token_size, device=places.device)
        numbers = places.div(_BLOCK_TOKENS, rounding_mode="floor")
        for number, block in enumerate(self._blocks):
            inside = numbers == number
            vectors[inside] = block[places[inside] % _BLOCK_TOKENS].float()
        return vectors


def cache_encoder(head: EventPreTrainedModel, max_tokens: int) -> None:
    """Add a cache of at most `max_tokens` to a head with a frozen encoder, so that each text is encoded once.

    Raises:
        EventformersError: the encoder is not frozen, or the number is not positive.
    """
    if max_tokens < 1:
        raise EventformersError(
            f"setting encoder_cache_tokens: found {max_tokens}; accepted: a whole number of 1 or more, or "
            "null"
        )
    if not getattr(head.config, "freeze_encoder", False):
        raise EventformersError(
            "encoder_cache_tokens needs a frozen encoder; accepted: freeze_encoder=true, or "
            "encoder_cache_tokens=null"
        )
    model = head.base_model
    model.encode_together = CachedEncoding(model.encode_together, max_tokens, model.token_size)
