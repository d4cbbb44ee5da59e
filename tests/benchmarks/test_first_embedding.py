"""The benchmark of the first embedding runs, and prints its ratios and requests."""

from __future__ import annotations

from pathlib import Path

import forked
import pytest
from benchmark_scripts import load_benchmark


def test_prints_ratios_and_requests(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub import constants

    for name, value in (("HF_HUB_DISABLE_XET", "1"), ("NO_PROXY", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    benchmark = load_benchmark("first_embedding")
    # What it times is another matter; here it must run.
    monkeypatch.setattr(benchmark, "subprocess", forked.stand_in("fresh"))
    benchmark.main(["--encoder", str(tiny_encoder), "--rounds=1", "--ways", "pipeline, ours as remote code"])
    plain, ours = capsys.readouterr().out.splitlines()[1:]
    assert plain.startswith("AutoModel, plain encoder")
    assert plain.endswith("  1.00")
    assert ours.startswith("pipeline, ours as remote code")
    # Configuration, code, tokenizer and weights are files of their own.
    assert int(ours[64:74]) > int(plain[64:74]) > 5
