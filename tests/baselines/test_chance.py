"""Chance is one over the number of choices, a mean over the questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventformers.baselines import get_baseline
from eventformers.errors import EventformersError


def test_it_is_the_mean_over_questions_with_other_numbers_of_choices(tmp_path: Path) -> None:
    questions = [
        {
            "id": str(count),
            "answerKey": "A",
            "question": {
                "stem": "Where?",
                "choices": [{"label": letter, "text": f"in {letter}"} for letter in "ABCDE"[:count]],
            },
        }
        for count in (2, 4, 5)
    ]
    (tmp_path / "dev_rand_split.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n")
    result = get_baseline("random")("csqa", tmp_path, output=tmp_path / "out")
    assert result.main_value == pytest.approx(100 * (1 / 2 + 1 / 4 + 1 / 5) / 3)
    assert [row["chance"] for row in result.predictions] == [1 / 2, 1 / 4, 1 / 5]
    assert len(list((tmp_path / "out" / "results").rglob("csqa.json"))) == 1


def test_completion_is_refused() -> None:
    with pytest.raises(EventformersError, match=r"random does not support .*; accepted: copa, siqa, csqa"):
        get_baseline("random")("conceptnet_completion")
