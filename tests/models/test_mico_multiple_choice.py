"""MICO's zero-shot multiple choice, as our code and as remote code."""

from __future__ import annotations

import torch
from choice_case import TEMPERATURE, MultipleChoiceCase, Questions
from method_case import random_texts
from mico_inputs import mico_inputs

from eventformers.models.modeling_mico import MicoForMultipleChoice, MicoForPreTraining

QUESTIONS, CHOICES = 3, 4


class TestMicoChoice(MultipleChoiceCase):
    model_class = MicoForMultipleChoice
    head_class = MicoForPreTraining
    fields = {"pooling": "mean", "contrastive_temperature": TEMPERATURE, "projection_dim": 7}  # noqa: RUF012
    labels = [3, 0, 1]  # noqa: RUF012
    half = 0.05
    scenarios = ("package_last", "remote_code")

    def make_questions(self) -> Questions:
        """Questions of which the second has one alternative less, and the last offers what the first does."""
        input_ids, attention_mask = random_texts(QUESTIONS, 6, 100, seed=1)
        ids, mask = random_texts(QUESTIONS * CHOICES, 9, 100, seed=2)
        ids[-CHOICES:], mask[-CHOICES:] = ids[:CHOICES], mask[:CHOICES]
        absent = 2 * CHOICES - 1
        ids[absent], mask[absent] = 0, 0
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "alternative_input_ids": ids.unflatten(0, (QUESTIONS, CHOICES)),
            "alternative_attention_mask": mask.unflatten(0, (QUESTIONS, CHOICES)),
        }

    def expected_logits(self, model: MicoForMultipleChoice, questions: Questions) -> torch.Tensor:
        logits = torch.full((QUESTIONS, CHOICES), float("-inf"))
        premises = model.mico(**self.without_choices(questions)).embeddings
        for row in range(QUESTIONS):
            for place in range(CHOICES):
                mask = questions["alternative_attention_mask"][row, place]
                if mask.any():
                    text = questions["alternative_input_ids"][row, place][: mask.sum()]
                    alternative = model.mico(text.unsqueeze(0)).embeddings[0]
                    cosine = torch.cosine_similarity(premises[row], alternative, dim=0)
                    logits[row, place] = cosine.item() / TEMPERATURE
        return logits

    def without_choices(self, questions: Questions) -> Questions:
        return {name: questions[name] for name in ("input_ids", "attention_mask")}

    def head_inputs(self) -> dict[str, torch.Tensor]:
        return mico_inputs(100)

    def test_premises_are_the_embeddings(self, model: MicoForMultipleChoice, questions: Questions) -> None:
        premises = model.mico(**self.without_choices(questions)).embeddings
        torch.testing.assert_close(model(**questions).embeddings, premises, rtol=1e-5, atol=1e-5)

    def test_masks_may_be_left_out_where_nothing_is_padded(self, model: MicoForMultipleChoice) -> None:
        ids, _ = random_texts(QUESTIONS * (1 + CHOICES), 5, 100, seed=3)
        premises, alternatives = ids[:QUESTIONS], ids[QUESTIONS:].unflatten(0, (QUESTIONS, CHOICES))
        torch.testing.assert_close(
            model(premises, alternative_input_ids=alternatives).logits,
            model(premises, torch.ones_like(premises), alternatives, torch.ones_like(alternatives)).logits,
        )
