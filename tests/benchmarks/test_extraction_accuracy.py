"""The annotated events are well formed, and the benchmark counts agreement of events within a sentence."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest

pytest.importorskip("spacy", reason="spaCy is not installed")

from benchmark_scripts import load_benchmark

benchmark = load_benchmark("extraction_accuracy")


def test_annotations() -> None:
    rows = [json.loads(line) for line in benchmark.ANNOTATIONS.read_text(encoding="utf-8").splitlines()]
    assert Counter(row["split"] for row in rows) == {"development": 25, "check": 25, "held_out": 50}
    assert len({row["document"] for row in rows}) == 100
    for row in rows:
        assert row["sha256"] == hashlib.sha256(row["text"].encode()).hexdigest()
        assert (row["source"], row["license"]) == ("wikinews", "CC BY 2.5")
        words = row["text"].lower()
        for subject, predicate, target, negated in row["events"]:
            assert isinstance(negated, bool)
            assert all(word in words for word in (subject, target, *predicate.split()))


def test_agreement() -> None:
    sentences = [
        benchmark.AnnotatedSentence("check", "", [("a", "saw", "b", False), ("a", "saw", "c", True)]),
        benchmark.AnnotatedSentence("check", "", [("d", "ran", "", False)]),
    ]
    found = [[("a", "saw", "b", True)], [("a", "saw", "c", True), ("e", "ran", "", False)]]
    correct = {part: benchmark.agreement(sentences, found, part).correct for part in benchmark.PARTS}
    assert correct == {
        "subject, predicate, object": 1,
        "subject, predicate": 1,
        "predicate, object": 2,
        "predicate": 2,
        "predicate, negation": 2,
    }
    score = benchmark.agreement(sentences, found, "predicate")
    assert (score.precision, score.recall, score.f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    nothing = benchmark.Agreement(0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1) == (0.0, 0.0, 0.0)


def test_prints_scores_and_errors(
    english_pipeline: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "extracted", lambda pipeline, sentences: [[] for _ in sentences])
    benchmark.main([f"--pipeline={english_pipeline}", "--split=development", "--errors"])
    printed = capsys.readouterr().out
    assert "development: 25 sentences, 74 events" in printed
    assert "check: " not in printed
    assert "74 annotated)" in printed
    assert "  - scientists | cautioned against | excess" in printed
