"""Word2Vec on chains: planted stories are learnt, a seed decides everything in any process."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from forked import run_python
from planted_chains import planted_chains, planted_questions

from eventformers.baselines.chain_baselines import chain_training
from eventformers.baselines.word_vectors import WordVectors, WordVectorSettings, train_word_vectors
from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError

SETTINGS = WordVectorSettings(dimension=12, epochs=100)
needs_gensim = pytest.mark.skipif(
    importlib.util.find_spec("gensim") is None, reason="gensim is not installed: it is the extra `baselines`"
)


def event(subject: str, predicate: str, object_: str = "") -> Event:
    return {"subject": subject, "predicate": predicate, "object": object_}


@needs_gensim
def test_planted_stories_are_learnt() -> None:
    chains, _ = planted_chains()
    scorer = train_word_vectors(chains, SETTINGS, seed=1).scorer()
    contexts, choices, labels = planted_questions()
    scores = scorer.score_choices(contexts, choices)
    right = [int(np.argmax(of_row)) == label for of_row, label in zip(scores, labels, strict=True)]
    assert np.mean(right) > 0.9


@needs_gensim
def test_a_seed_decides_everything_in_any_process(tmp_path: Path) -> None:
    script = (
        "print(hash('word'))\n"
        "from planted_chains import planted_chains\n"
        "from eventformers.baselines.word_vectors import WordVectorSettings, train_word_vectors\n"
        "chains, _ = planted_chains()\n"
        "trained = train_word_vectors(chains, WordVectorSettings(dimension=12, epochs=5), seed=1)\n"
        "print(list(trained.index), trained.vectors.tobytes().hex())\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = run_python(["-c", script], cwd=tmp_path, env=environment, server="package")
    hashed, other = done.stdout.splitlines()
    assert int(hashed) != hash("word")
    chains, _ = planted_chains()
    settings = WordVectorSettings(dimension=12, epochs=5)
    trained = train_word_vectors(chains, settings, seed=1)
    assert other == f"{list(trained.index)} {trained.vectors.tobytes().hex()}"
    again = train_word_vectors(chains, settings, seed=2)
    assert not np.array_equal(trained.vectors, again.vectors)


def test_an_event_is_the_sum_of_its_known_words() -> None:
    vectors = WordVectors({"a": 0, "b": 1}, np.array([[1.0, 0.0], [0.0, 3.0]], dtype=np.float32))
    embedded = vectors.embed([event("A", "b new"), event("b", "b"), event("new", "word")])
    assert embedded.tolist() == [[1, 3], [0, 6], [0.5, 1.5]]


@needs_gensim
def test_words_that_are_too_rare_are_told() -> None:
    with pytest.raises(EventformersError, match="no word of the 1 chains occurs 5 times"):
        train_word_vectors([[event("a", "b")]], WordVectorSettings(min_count=5))


def test_a_missing_gensim_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EventformersError, match=r'pip install "eventformers\[baselines\]"'):
        chain_training("word2vec")


@pytest.mark.parametrize("field", ["dimension", "window", "epochs", "negatives", "min_count"])
def test_a_setting_out_of_range_is_refused(field: str) -> None:
    with pytest.raises(EventformersError, match=f"{field}: found 0"):
        WordVectorSettings(**{field: 0})
