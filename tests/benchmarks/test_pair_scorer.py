"""The benchmark of the scorer of pairs: which features held-out pairs are scored on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmark_scripts import load_benchmark

benchmark = load_benchmark("pair_scorer")


def test_held_out_pairs_are_scored_on_the_features_of_the_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    training = object.__new__(benchmark.Training)
    training.folds = np.arange(20) % benchmark.FOLDS
    training.labels = np.zeros(20, dtype=bool)
    training.features, training.task_features = np.random.default_rng(0).random((2, 20, 3), np.float32)
    trained: list[np.ndarray] = []

    def scorer(chosen: np.ndarray) -> SimpleNamespace:
        trained.append(chosen)
        return SimpleNamespace(logits=lambda features, nearer: features.sum(1).expand(2, -1))

    monkeypatch.setattr(training, "scorer", scorer)
    logits = training.held_out_logits()
    np.testing.assert_allclose(logits[0], training.features.sum(1), rtol=1e-6)
    np.testing.assert_allclose(logits[1], training.task_features.sum(1), rtol=1e-6)
    np.testing.assert_array_equal(trained, [training.folds != fold for fold in range(benchmark.FOLDS)])
    scored: list[np.ndarray] = []
    monkeypatch.setattr(benchmark, "Training", lambda path: training)
    monkeypatch.setattr(benchmark, "scores", lambda of, given, chosen: scored.append(given) or [])
    benchmark.main([str(tmp_path)])
    np.testing.assert_array_equal(scored, logits[1:])
