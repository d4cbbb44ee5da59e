"""Grounding in several languages with a multilingual encoder: training, and mentions in any script."""

from __future__ import annotations

from pathlib import Path

import pytest
from event_files import write_edges, write_events
from tiny import save_tiny_xlm_roberta
from transformers import AutoTokenizer

import eventformers

EVENTS = [
    ("flood", "en", "Flood of 2002", "The Elbe floods Dresden."),
    ("flood", "de", "Elbhochwasser 2002", "Die Elbe überschwemmt Dresden."),
    ("flood", "hi", "२००२ की बाढ़", "एल्बे नदी में बाढ़"),
    ("flood", "zh", "2002年洪水", "易北河泛滥"),
    ("vote", "en", "Election", "A vote."),
    ("vote", "ar", "انتخابات", "تصويت"),
    ("decade", "de", "2000er", ""),
]
MENTIONS = [
    {"context_left": "Das ", "mention": "Hochwasser", "context_right": " kam.", "language": "de"},
    {"context_left": "भारी ", "mention": "बाढ़", "context_right": " आई", "language": "hi"},
    {"context_left": "2002年", "mention": "洪水", "context_right": "泛滥", "language": "zh"},
    {"context_left": "", "mention": "انتخابات", "context_right": " في المدينة", "language": "ar"},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("multilingual")
    texts = [" ".join(event[2:]) for event in EVENTS] + ["".join(map(str, row.values())) for row in MENTIONS]
    encoder = save_tiny_xlm_roberta(folder / "encoder", texts)
    settings = ["training.max_steps=2", "model.mention_tokens=24", "model.event_tokens=16"]
    eventformers.train(
        "event_grounding",
        folder / "run",
        recipe="demo",
        encoder=str(encoder),
        settings=settings,
        tasks=[],
        create_model_card=False,
        device="cpu",
    )
    return folder / "run"


def test_every_script_reaches_the_model(run: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(run)
    assert '"xlm-roberta"' in (run / "config.json").read_text()
    for row in MENTIONS:
        assert tokenizer.unk_token_id not in tokenizer(row["mention"])["input_ids"]
    vectors = eventformers.encode(str(run), [row["mention"] for row in MENTIONS])
    assert len({tuple(vector) for vector in vectors.round(4).tolist()}) == len(MENTIONS)


@pytest.mark.parametrize("candidate_language", [None, "en"])
def test_mentions_find_events_of_their_language_or_of_another(
    run: Path, tmp_path: Path, candidate_language: str | None
) -> None:
    edges = write_edges(write_events(tmp_path / "events", EVENTS), [("flood", "decade"), ("vote", "decade")])
    grounded = eventformers.ground(str(run), MENTIONS, edges, candidate_language=candidate_language)
    for mention, row in zip(grounded.mentions, MENTIONS, strict=True):
        language = candidate_language or row["language"]
        expected = {event[0] for event in EVENTS if event[1] == language}
        assert {candidate.event_id for candidate in mention.candidates} == expected
