"""Training on one fixed batch until its loss is near zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer

FITTED = 0.1
"""The loss of a batch that is fitted; at the start each is above 0.6."""


def loss_after_training(head: PreTrainedModel, batch: dict[str, torch.Tensor], folder: Path) -> float:
    """Train a head on nothing but one batch.

    Args:
        head: the head, without dropout.
        batch: its inputs.
        folder: where the trainer writes.

    Returns:
        The loss of the batch after training.
    """
    trainer = EventTrainer(
        model=head,
        args=EventTrainingArguments(
            output_dir=str(folder),
            max_steps=50,
            learning_rate=5e-3,
            lr_scheduler_type="constant",
            save_strategy="no",
            report_to="none",
            remove_unused_columns=False,
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=_Once(),
        data_collator=lambda _: dict(batch),
    )
    trainer.train()
    with torch.no_grad():
        return float(head(**batch).loss)


class _Once(torch.utils.data.Dataset):
    """A single row: the collator knows the batch."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, _: Any) -> dict[str, Any]:
        return {}
