"""Zero-shot multiple choice with a language model, by the likelihood of each alternative after the premise.

The score of an alternative is the mean log-probability of its tokens. A causal model reads premise and
alternative once. A masked model has each token of the alternative masked in turn (pseudo-log-likelihood,
Salazar et al., ACL 2020). These are the rows "GPT2-L" and "RoBERTa-L" in MICO's tables of question answering.

Graph completion is not scored this way: a query would need one pass for each token of each candidate, about
200,000 passes for the 72,000 candidates of CN-82K. An encoder needs one pass for the query and none for a
candidate whose vector it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from eventformers.baselines.base import Baseline, BaselineTask, ReadyBaseline
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.tasks.base import ProtocolOutput, Row, choices_output
from eventformers.evaluation.tasks.graph import Questions, read_question
from eventformers.inference.encoding.batches import equal_length_batches, out_of_memory_explained
from eventformers.loading.models import first_sentence, load_whole, load_with_tokenizer

_LOGIT_BYTES = 2**28
"""Memory for the logits of a batch: one number per token of every row and word of the vocabulary."""


@dataclass
class LanguageModel:
    """A language model with its tokenizer.

    Attributes:
        model: the model, in evaluation mode, on its device.
        name: Hub id, or the folder's name.
        revision: commit on the Hub, or digest of a folder's configuration and weights; None if unknown.
        max_length: maximum number of tokens, special tokens included. Longer inputs lose the start of the
            premise first, then the end of the alternative.
        causal: whether it predicts each token from those before it; False for a masked model.
        truncated: number of alternatives in the latest call of `score` that were truncated, or whose premise
            was.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    revision: str | None
    max_length: int
    causal: bool = False
    truncated: int = field(default=0, init=False)

    def score(
        self, pairs: Sequence[tuple[str, str]], *, batch_size: int | None = None, show_progress: bool = False
    ) -> list[float]:
        """Compute the (pseudo-)log-likelihood of each alternative after its premise, a mean over its tokens.

        Args:
            pairs: premise and alternative; a blank goes between them.
            batch_size: maximum number of rows in a batch; with None only memory limits it. A masked model has
                a row for each token of an alternative.

        Raises:
            EventformersError: an alternative has no token, or the batch size is not a positive integer.
        """
        if batch_size is not None and batch_size < 1:
            raise EventformersError(f"batch_size is {shown(batch_size)}; accepted: a positive integer")
        self.truncated = 0
        encoded = [self._encode(premise, alternative) for premise, alternative in pairs]
        # The pair and the scored positions of each row that the model reads.
        rows = [
            (owner, asked)
            for owner, (_, of_pair) in enumerate(encoded)
            for asked in ([of_pair] if self.causal else [[place] for place in of_pair])
        ]
        owners = np.array([owner for owner, _ in rows])
        values = np.empty(len(rows))
        batches = equal_length_batches(
            [len(encoded[owner][0]) for owner in owners],
            max_tokens=max(1, _LOGIT_BYTES // (4 * self.model.config.get_text_config().vocab_size)),
            max_rows=batch_size,
        )
        with Progress(console=Console(stderr=True), disable=not show_progress) as progress:
            task = progress.add_task("scoring", total=len(rows))
            for batch in batches:
                ids = [encoded[owners[row]][0] for row in batch]
                values[batch] = self._log_likelihoods(ids, [rows[row][1] for row in batch])
                progress.advance(task, len(batch))
        counts = [len(of_pair) for _, of_pair in encoded]
        return (np.bincount(owners, weights=values, minlength=len(encoded)) / counts).tolist()

    def _encode(self, premise: str, alternative: str) -> tuple[list[int], list[int]]:
        """Token ids of both texts, and the positions of the alternative's tokens."""
        text = f"{premise} {alternative}"
        encoded = self.tokenizer(
            text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False
        )
        ids = cast("list[int]", encoded["input_ids"])
        is_special = cast("list[int]", encoded["special_tokens_mask"])
        ends = [end for _, end in cast("list[tuple[int, int]]", encoded["offset_mapping"])]
        # A token may begin with the blank before its word, so its end shows which side it belongs to.
        boundary = len(premise) + 1
        # A causal model predicts no first token.
        places = [
            place
            for place, end in enumerate(ends)
            if not is_special[place] and end > boundary and place >= self.causal
        ]
        if not places:
            raise EventformersError(
                f"the alternative {shown(alternative)} has no token; accepted: at least one word"
            )
        excess = len(ids) - self.max_length
        if excess <= 0:
            return ids, places
        self.truncated += 1
        chosen = set(places)
        before = [place for place, special in enumerate(is_special) if not special and place not in chosen]
        # At least one token of the alternative is kept, and one before it for a causal model.
        dropped = set([*before[: len(before) - self.causal], *places[:0:-1]][:excess])
        kept = [place for place in range(len(ids)) if place not in dropped]
        return [ids[place] for place in kept], [
            position for position, place in enumerate(kept) if place in chosen
        ]

    def _log_likelihoods(self, rows: Sequence[list[int]], places: Sequence[list[int]]) -> np.ndarray:
        """Sum of the log-probabilities of the tokens at some positions of each row; a masked model has them
        masked."""
        device = self.model.device
        ids = torch.tensor(rows, device=device)
        owners = np.repeat(np.arange(len(rows)), [*map(len, places)])
        row, at = torch.tensor(owners, device=device), torch.tensor(list(chain(*places)), device=device)
        wanted = ids[row, at]
        if self.causal:
            at -= 1
        else:
            ids[row, at] = cast(int, self.tokenizer.mask_token_id)
        with out_of_memory_explained(device, len(rows), len(rows[0])), torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[row, at]
        scores = logits.float().log_softmax(dim=-1).gather(1, wanted[:, None])[:, 0]
        return np.bincount(owners, weights=scores.double().cpu().numpy(), minlength=len(rows))


def load_language_model(
    name_or_path: str | Path, *, causal: bool = False, device: str | None = None, dtype: str | None = None
) -> LanguageModel:
    """Load a language model, only from safetensors.

    Args:
        name_or_path: folder or Hub id of any model with a head that predicts tokens.
        causal: load a model that predicts each token from those before it, such as GPT-2; False loads a
            masked one.

    Raises:
        EventformersError: the model does not exist or has no trained head, or its tokenizer has no character
            offsets or, for a masked model, no mask token.
        UnknownNameError: an unknown dtype.
    """
    kind, examples = ("causal", "gpt2") if causal else ("masked", "bert-base-uncased or roberta-large")

    def load_model(source: str, _: PreTrainedConfig) -> PreTrainedModel:
        try:
            return load_whole(AutoModelForCausalLM if causal else AutoModelForMaskedLM, source)
        except ValueError as error:
            raise EventformersError(
                f"{name_or_path} has no trained {kind}-language-model head: {first_sentence(error)}; random "
                f"weights would score at random; accepted: a model that was saved with its head, such as "
                f"{examples}"
            ) from error

    loaded = load_with_tokenizer(name_or_path, load_model, device=device, dtype=dtype)
    if not loaded.tokenizer.is_fast or (loaded.tokenizer.mask_token_id is None and not causal):
        raise EventformersError(
            f"the tokenizer of {name_or_path} has no mask token or no offsets; accepted: a fast tokenizer "
            f"of a {kind} language model"
        )
    return LanguageModel(*loaded, causal=causal)


def choose_by_likelihood(
    model: LanguageModel,
    rows: Iterable[Row],
    *,
    batch_size: int | None = None,
    show_progress: bool = False,
) -> ProtocolOutput:
    """Score the alternatives of questions.

    Args:
        rows: with the texts `premise` and `alternatives`, and `label`, the index of the correct one.

    Returns:
        Inputs `predictions` (scores per choice) and `references` (labels) of the metric `mcnc`.

    Raises:
        EventformersError: a row has fewer than two alternatives or a label out of range, or an alternative
            has no token.
    """
    questions = [read_question(row, number) for number, row in enumerate(rows)]
    pairs = [(texts[0], alternative) for texts, _ in questions for alternative in texts[1:]]
    scores = iter(model.score(pairs, batch_size=batch_size, show_progress=show_progress))
    of_rows = [[next(scores) for _ in texts[1:]] for texts, _ in questions]
    return choices_output(of_rows, [label for _, label in questions], distinct_texts=len(pairs))


@dataclass(frozen=True)
class LanguageModelBaseline(Baseline):
    """A language model on multiple-choice tasks; a prediction has the scores of the alternatives.

    Attributes:
        causal: whether the model predicts each token from those before it; False for a masked one.
    """

    kind = Questions

    causal: bool = False

    def prepare(
        self,
        opened: BaselineTask,
        *,
        model: str | Path | LanguageModel,
        dtype: str | None = None,
        batch_size: int | None = None,
    ) -> ReadyBaseline:
        """See `Baseline`.

        Args:
            model: folder or Hub id of a language model, or a loaded one, which keeps device and dtype.

        Raises:
            UnknownNameError: the dtype is unknown.
            EventformersError: the model has no trained head, or no revision for its result.
        """
        started = time.perf_counter()
        loaded = (
            model
            if isinstance(model, LanguageModel)
            else load_language_model(model, causal=self.causal, device=opened.device, dtype=dtype)
        )
        if opened.output is not None and loaded.revision is None:
            raise EventformersError(
                f"the model {shown(loaded.name)} has no revision, so its result cannot be stored; accepted: "
                "a model that load_language_model loaded, or no output folder"
            )
        return ReadyBaseline(
            f"{loaded.name}, {'causal' if loaded.causal else 'masked'} LM",
            loaded.revision or "unknown",
            lambda: choose_by_likelihood(
                loaded, opened.scored_data.rows, batch_size=batch_size, show_progress=opened.show_progress
            ),
            settings={
                "scoring": f"{'' if loaded.causal else 'pseudo-'}log-likelihood, mean over the tokens of the"
                " alternative",
                "dtype": str(loaded.model.dtype).removeprefix("torch."),
                "device": loaded.model.device.type,
                "batch_size": batch_size,
                "max_length": loaded.max_length,
            },
            load_seconds=time.perf_counter() - started,
            count_truncated=lambda: loaded.truncated,
        )
