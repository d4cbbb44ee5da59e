"""The benchmark of pushes tells requests and bytes; a repeated push asks once and sends nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_scripts import load_benchmark
from huggingface_hub import constants

from eventformers import hub

REPOSITORY = Path(__file__).resolve().parents[2]


def test_pushes_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_XET"):
        monkeypatch.setattr(constants, name, getattr(constants, name))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(hub, "probe", lambda asked, **_: [{"shown": 1, "error": None}] * len(asked))
    benchmark = load_benchmark("hub")
    benchmark.main(["mcnc"])
    lines = {
        line[9:42].strip(): [int(cell.replace(",", "")) for cell in line[42:].split()[:3]]
        for line in capsys.readouterr().out.splitlines()[2:]
    }
    assert lines.keys() == {
        f"{name}{what}" for name in ("push", "upload_folder") for what in ("", ", repeated", ", changed card")
    } | {"push, after one that was cut"}
    size = sum(file.stat().st_size for file in (REPOSITORY / "evaluate_metrics" / "mcnc").glob("*.*"))
    assert lines["push"][1] > size
    assert lines["push, changed card"][1] < lines["push"][1]
    requests, up, _ = lines["push, repeated"]
    assert (requests, up) == (1, 0)
