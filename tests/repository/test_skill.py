"""The skill for agents: its header is that of the format, and its commands run, in their order."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from command_lines import run_command_line

from eventformers.datasets_scripts.base import SAMPLES

SKILL = Path(__file__).parents[2] / "examples" / "skills" / "eventformers" / "SKILL.md"
TEXT = SKILL.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_the_header_is_that_of_a_skill() -> None:
    header = yaml.safe_load(TEXT.split("---")[1])
    assert header["name"] == SKILL.parent.name
    assert 0 < len(header["description"]) <= 1024
    assert len(TEXT.splitlines()) <= 150


@pytest.mark.process
def test_its_commands_run(
    tiny_encoder: Path, english_pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eventformers.loading.encoders._default_encoder", lambda: tiny_encoder)
    monkeypatch.setattr("eventformers.loading.pretrained.pretrained", lambda name: str(tiny_encoder))
    monkeypatch.setattr("eventformers.exploration.stories.tuned_encoder", lambda encoder: encoder)
    Path("texts").mkdir()
    news = (SAMPLES / "texts" / "news.jsonl").read_text(encoding="utf-8").splitlines()
    Path("texts/news.jsonl").write_text("\n".join(news[:4]), encoding="utf-8")
    Path("events.txt").write_text("police arrest man\nstorm | floods | town\n", encoding="utf-8")
    Path("mentions.txt").write_text("The [[landings]] began at dawn.\n", encoding="utf-8")
    shutil.copytree(SAMPLES / "event_hierarchies", "knowledge-base")
    shutil.copytree(SAMPLES / "similarity", "similarity")
    for language, code in BLOCKS:
        if language == "python":
            exec(code, {})  # noqa: S102
            continue
        for line in code.splitlines():
            name, *words = shlex.split(line)
            assert name == "eventformers"
            outcome = run_command_line(words)
            assert outcome["code"] == 0, (line, outcome["errors"])
    named = set(re.findall(r"`(?:exploration|grounded)?/?([a-z_]+\.(?:csv|parquet|json|jsonl|html))`", TEXT))
    written = {path.name for path in tmp_path.rglob("*.*")}
    assert len(named) > 10
    assert named <= written
