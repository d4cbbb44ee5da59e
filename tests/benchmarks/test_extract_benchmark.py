"""The benchmark of extraction runs and prints its ratios."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_scripts import load_benchmark


def test_prints_ratios(english_pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = load_benchmark("extract")
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(4):
        (texts / f"{number}.txt").write_text("Anna called Police. Anna opened the door.", encoding="utf-8")
    benchmark.main([f"--texts={texts}", f"--pipeline={english_pipeline}", "--documents=2", "--rounds=1"])
    printed = capsys.readouterr().out
    assert "2 documents, 14 words" in printed
    assert "4 events (3.5 words an event), 0 chains" in printed
    for clock in ("time", "processor time"):
        assert f"{clock}: nlp.pipe " in printed
    assert "extraction / nlp.pipe: median " in printed
