"""The multiple-choice heads take `(batch, choices, length)`, as every model of that class does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForMultipleChoice,
    AutoProcessor,
    AutoTokenizer,
    DataCollatorForMultipleChoice,
    Trainer,
    TrainingArguments,
)

from eventformers.models.choice_rows import split_rows

PREMISES = [
    {"premise": "the storm hit", "alternatives": ["the city flooded", "a thief won the game"]},
    {"premise": "police arrested a thief", "alternatives": ["the mayor won", "the storm flooded a road"]},
]
CHAINS = [
    {"context": ["the storm hit", "the river flooded"], "choices": ["the thief won", "the city flooded"]},
    {"context": ["police arrested a thief"], "choices": ["the storm hit", "the mayor won the game"]},
]


def features(tokenizer: Any, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What users of multiple-choice models tokenise: the context and one choice as a pair."""
    made = []
    for number, question in enumerate(questions):
        context, choices = question.values()
        first = context if isinstance(context, str) else f" {tokenizer.sep_token} ".join(context)
        made.append({**tokenizer([first] * len(choices), choices), "labels": number % 2})
    return made


@pytest.mark.parametrize(("method", "questions"), [("mico", PREMISES), ("heterevent", CHAINS)])
def test_a_standard_batch_is_scored_as_by_the_processor(
    folders: dict[str, Path], method: str, questions: list[dict[str, Any]]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[method])
    model = AutoModelForMultipleChoice.from_pretrained(folders[method])
    batch = DataCollatorForMultipleChoice(tokenizer)(features(tokenizer, questions))
    assert batch["input_ids"].dim() == 3
    output = model(**batch)
    inputs = AutoProcessor.from_pretrained(folders[method])(questions)
    # Of the pairs, each token is a word of its own, and all are predicates.
    inputs.pop("word_index", None)
    expected = model(**inputs, labels=batch["labels"])
    assert output.logits.std() > 1e-3
    torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.loss, expected.loss, rtol=1e-4, atol=1e-4)
    batch["attention_mask"][0, 1] = 0
    assert model(**batch).logits[0].tolist() == [
        pytest.approx(output.logits[0, 0].item(), abs=1e-4),
        -torch.inf,
    ]


@pytest.mark.parametrize(("method", "questions"), [("mico", PREMISES), ("heterevent", CHAINS)])
def test_plain_trainer(
    folders: dict[str, Path], tmp_path: Path, method: str, questions: list[dict[str, Any]]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[method])
    model = AutoModelForMultipleChoice.from_pretrained(folders[method])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows = features(tokenizer, questions)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(tmp_path, max_steps=2, report_to="none", use_cpu=True, save_strategy="no"),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=DataCollatorForMultipleChoice(tokenizer),
    )
    trainer.train()
    assert trainer.evaluate()["eval_loss"] > 0
    assert any(not torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_rows_of_any_tokenizer() -> None:
    """Two separating tokens, padding at the left, one text, and a row of padding only."""
    ids = torch.tensor(
        [[0, 7, 8, 2, 2, 9, 2, 1], [1, 1, 0, 7, 2, 8, 9, 2], [0, 7, 2, 1, 1, 1, 1, 1], [1] * 8]
    )
    rows = split_rows(ids, (ids != 1).long())
    lengths = rows.attention_mask.sum(dim=1).tolist()
    texts = [row[:length] for row, length in zip(rows.input_ids.tolist(), lengths, strict=True)]
    assert texts == [[0, 7, 8, 2], [0, 9, 2], [0, 7, 2], [0, 8, 9, 2], [0, 7, 2]]
    assert rows.texts.tolist() == [[0, 1], [2, 3], [4, -1], [-1, -1]]
    assert rows.counts.tolist() == [2, 2, 1, 0]


def test_a_choice_without_a_premise(folders: dict[str, Path]) -> None:
    model = AutoModelForMultipleChoice.from_pretrained(folders["mico"])
    tokenizer = AutoTokenizer.from_pretrained(folders["mico"])
    alone = tokenizer(["the storm hit"], return_tensors="pt")["input_ids"].unsqueeze(0)
    with pytest.raises(ValueError, match="a choice of 1 texts between separating tokens; accepted: two"):
        model(alone)
