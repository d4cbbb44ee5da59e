"""HeterEvent's choice of the next event, as our code and as remote code."""

from __future__ import annotations

import pytest
import torch
from choice_case import TEMPERATURE, MultipleChoiceCase, Questions
from heterevent_inputs import CHAINS, CHOICES, EVENTS, SMALL, event_inputs, heterevent_inputs

from eventformers.models.modeling_heterevent import HeterEventForMultipleChoice, HeterEventForPreTraining


class TestHeterEventChoice(MultipleChoiceCase):
    model_class = HeterEventForMultipleChoice
    head_class = HeterEventForPreTraining
    fields = {**SMALL, "contrast_temperature": TEMPERATURE}  # noqa: RUF012
    head_fields = {"predict_from": "neighbours"}  # noqa: RUF012
    labels = [3, 0, 0, 1]  # noqa: RUF012
    requires = ("torch_geometric",)

    def make_questions(self) -> Questions:
        """Questions of different lengths, of which the second has one choice less and the third only one."""
        draw = torch.Generator().manual_seed(1)
        choices = torch.randint(EVENTS, (CHAINS, CHOICES), generator=draw)
        choices[1, -1:], choices[2, 1:] = -1, -1
        return {**event_inputs(100), "chains": heterevent_inputs(100)["chains"], "choices": choices}

    def expected_logits(self, model: HeterEventForMultipleChoice, questions: Questions) -> torch.Tensor:
        """Each question alone: the context as a chain of the encoder, each choice as a chain of its own."""
        logits = torch.full((CHAINS, CHOICES), float("-inf"))
        events = self.without_choices(questions)
        for row in range(CHAINS):
            context = [event for event in questions["chains"][row].tolist() if event >= 0]
            nodes = model.heterevent(
                **{name: value[context] for name, value in events.items()},
                chain_index=torch.zeros(len(context), dtype=torch.long),
            ).embeddings
            for place, choice in enumerate(questions["choices"][row].tolist()):
                if choice >= 0:
                    alone = {name: value[choice : choice + 1] for name, value in events.items()}
                    candidate = model.heterevent(**alone).candidates[0]
                    cosines = [torch.cosine_similarity(node, candidate, dim=0).item() for node in nodes]
                    logits[row, place] = sum(cosines) / len(cosines) / TEMPERATURE
        return logits

    def without_choices(self, questions: Questions) -> Questions:
        return {name: value for name, value in questions.items() if name not in ("chains", "choices")}

    def head_inputs(self) -> dict[str, torch.Tensor]:
        return heterevent_inputs(100)

    def test_one_choice_is_certain(self, model: HeterEventForMultipleChoice, questions: Questions) -> None:
        alone = {**questions, "chains": questions["chains"][2:3], "choices": questions["choices"][2:3]}
        assert model(**alone, labels=torch.tensor([0])).loss == 0

    def test_a_context_without_events_prefers_nothing(
        self, model: HeterEventForMultipleChoice, questions: Questions
    ) -> None:
        nothing = {**questions, "chains": torch.full_like(questions["chains"], -1)}
        logits = model(**nothing).logits
        assert (logits[questions["choices"] >= 0] == 0).all()

    @pytest.mark.parametrize("name", ["chains", "choices"])
    def test_missing_input_is_named(
        self, model: HeterEventForMultipleChoice, questions: Questions, name: str
    ) -> None:
        del questions[name]
        with pytest.raises(ValueError, match=f"missing: {name}"):
            model(**questions)
