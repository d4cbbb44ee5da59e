"""Extracted events against the annotated sentences of `benchmarks/extraction_accuracy.jsonl`."""

from __future__ import annotations

from benchmark_scripts import load_benchmark


def test_f1_of_an_installed_pipeline(english_pipeline: str) -> None:
    import spacy

    accuracy = load_benchmark("extraction_accuracy")
    sentences = accuracy.read_annotations()
    found = accuracy.extracted(spacy.load(english_pipeline), sentences)
    scores = {part: accuracy.agreement(sentences, found, part).f1 for part in accuracy.PARTS}
    assert scores["subject, predicate, object"] > 0.825
    assert scores["subject, predicate"] > 0.85
    assert scores["predicate, object"] > 0.91
    assert scores["predicate, negation"] > 0.945
