"""Training of SWCC."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from swcc_inputs import swcc_inputs
from training_case import MethodTrainingCase
from transformers import AutoTokenizer

from eventformers.errors import EventformersError
from eventformers.trainers.swcc import SwccCollator

SUBJECTS = ("man", "woman", "police", "company", "doctor", "judge", "spokeswomen", "grandmother", "thief")
PREDICATES = ("arrested", "bought", "sold", "destroyed", "treated", "sentenced", "saved", "overestimated")
OBJECTS = ("bank", "patient", "player", "goal", "house", "parliament", "bridge", "grandmother", "market")


class TestSwccTraining(MethodTrainingCase):
    method = "swcc"
    checks_sharded = True
    recipe = str(Path(__file__).with_name("quick_swcc.yaml"))
    loss_terms = (
        "contrastive_loss",
        "cluster_loss",
        "mlm_loss",
        "prototype_entropy_loss",
        "shared_word_loss",
    )
    head_fields = {  # noqa: RUF012
        "pooling": "mean",
        "prototype_entropy_weight": 0.05,
        "shared_word_weight": 0.5,
        "shared_word_co_event_weight": 0.7,
    }
    # Neither the cluster loss nor the entropy of the prototypes can be 0.
    fit_fields = {  # noqa: RUF012
        **head_fields,
        "contrastive_temperature": 0.05,
        "cluster_weight": 0.0,
        "prototype_entropy_weight": 0.0,
    }
    # A stream knows no row but the next, and so no other words.
    stream_settings = ("streaming=true", "shared_word_weight=0")

    @classmethod
    def write_raw(cls, folder: Path) -> None:
        """Documents whose events have texts of different lengths."""
        generator = random.Random(0)  # noqa: S311
        lines = []
        for number in range(12):
            events = [
                [generator.choice(SUBJECTS), generator.choice(PREDICATES), generator.choice(OBJECTS)]
                for _ in range(4)
            ]
            document = {
                "document_id": str(number),
                "source": "made up",
                "license": "Apache-2.0",
                "events": events,
            }
            lines.append(json.dumps(document))
        (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def head_inputs(self, head: Any) -> dict[str, torch.Tensor]:
        return swcc_inputs(head.config.encoder_config.vocab_size)

    def test_streaming_knows_no_other_words(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        with pytest.raises(EventformersError, match="shared_word_weight=0"):
            self.run(tiny_encoder, raw, tmp_path, ("streaming=true",))

    def test_shared_words_need_a_swap(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        with pytest.raises(EventformersError, match="at least one swap of a role, or shared_word_weight=0"):
            self.run(tiny_encoder, raw, tmp_path, ("object_swaps=0", "subject_swaps=0"))

    def test_validation_loss(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        run = self.run(tiny_encoder, raw, tmp_path, ("validation_rows=8",))
        validation = [line["eval_loss"] for line in run.history if "eval_loss" in line]
        assert len(validation) == 2
        assert np.isfinite(validation).all()


def _row(number: int, co_events: Sequence[Sequence[str]], frequencies: Sequence[int]) -> dict[str, Any]:
    def event(roles: Sequence[str]) -> dict[str, str]:
        return dict(zip(("subject", "predicate", "object"), roles, strict=True))

    return {
        "row": number,
        "event": event(("police", "arrested", "thief")),
        "co_events": [event(roles) for roles in co_events],
        "frequencies": list(frequencies),
    }


@pytest.fixture
def collator(tiny_encoder: Path) -> SwccCollator:
    return SwccCollator(
        tokenizer=AutoTokenizer.from_pretrained(tiny_encoder),
        event_order="subject_predicate_object",
        frequency_normalization="min_max",
        frequency_minimum=1,
        frequency_maximum=5,
        seed=3,
    )


ROWS = [_row(number, [("judge", "fired", "suspect"), ("he", "fell", "")], [5, 1]) for number in range(40)]


def test_collator_masks_one_word_of_each_anchor(collator: SwccCollator) -> None:
    batch = collator(ROWS)
    changed = batch["masked_input_ids"] != batch["input_ids"]
    assert changed.sum(dim=1).tolist() == [1] * len(ROWS)
    everywhere = torch.arange(len(ROWS))
    assert changed[everywhere, batch["masked_positions"]].all()
    mask = collator.tokenizer.mask_token_id
    assert (batch["masked_input_ids"][changed] == mask).all()
    assert torch.equal(batch["input_ids"][everywhere, batch["masked_positions"]], batch["masked_token_ids"])
    special = set(collator.tokenizer.all_special_ids)
    assert not special & set(batch["masked_token_ids"].tolist())
    assert len(set(batch["masked_positions"].tolist())) == 3


def test_collator_draws_co_events_with_their_weights(collator: SwccCollator) -> None:
    batch = collator(ROWS)
    texts = collator.tokenizer.batch_decode(batch["co_event_input_ids"], skip_special_tokens=True)
    weights = batch["co_event_weight"].tolist()
    assert set(zip(texts, weights, strict=True)) == {("judge fired suspect", 1.0), ("he fell", 0.0)}


def test_collator_draws_by_seed_epoch_and_row_alone(collator: SwccCollator) -> None:
    whole = collator(ROWS)
    single = [collator([row]) for row in reversed(ROWS)][::-1]
    for name in ("masked_positions", "co_event_weight"):
        assert whole[name].tolist() == [batch[name].item() for batch in single]
    collator.epoch = 1
    assert whole["masked_positions"].tolist() != collator(ROWS)["masked_positions"].tolist()
    collator.epoch, collator.seed = 0, 4
    assert whole["masked_positions"].tolist() != collator(ROWS)["masked_positions"].tolist()


def test_collator_counts_what_it_cuts(collator: SwccCollator) -> None:
    collator.max_seq_length = 5
    batch = collator([_row(0, [("he", "fell", "")], [1]), _row(1, [("overestimated", "he", "")], [1])])
    assert batch["co_event_input_ids"].shape[1] == 5
    assert collator.truncated == 1


def test_collator_without_masks(collator: SwccCollator) -> None:
    collator.mask_tokens = False
    assert not [name for name in collator(ROWS) if name.startswith("masked")]
