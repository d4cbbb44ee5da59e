"""The Gradio app of a leaderboard, where gradio is installed, and the folder of its Space."""

from __future__ import annotations

import html
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from leaderboard_inputs import make_result, measured

import eventformers
from eventformers.errors import EventformersError
from eventformers.evaluation.results import write_result
from eventformers.leaderboard import page as leaderboard_app
from eventformers.leaderboard.board import build_leaderboard

SPACE = Path(leaderboard_app.__file__).with_name("space")


def frames(app: object) -> list[str]:
    """The texts of the app's HTML components."""
    return [
        one["props"]["value"]
        for one in app.get_config_file()["components"]  # type: ignore[attr-defined]
        if one["type"] == "html"
    ]


def test_without_gradio_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(EventformersError, match=r"pip install \"eventformers\[leaderboard\]\""):
        leaderboard_app.leaderboard_app(build_leaderboard([measured()]))


def test_the_app_frames_the_page():
    pytest.importorskip("gradio", reason="gradio is not installed (extra leaderboard)")
    app = leaderboard_app.leaderboard_app(build_leaderboard([measured(model="<b>mine</b>")]))
    (frame,) = frames(app)
    (page,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert "&lt;b&gt;mine&lt;/b&gt;" in html.unescape(page)
    assert 'sandbox="allow-scripts allow-popups"' in frame


def test_the_space_shows_the_results_beside_it(tmp_path):
    pytest.importorskip("gradio", reason="gradio is not installed (extra leaderboard)")
    shutil.copytree(SPACE, tmp_path / "space")
    write_result(make_result(model="of-the-space"), tmp_path / "space")
    names = runpy.run_path(str(tmp_path / "space" / "app.py"))
    assert "of-the-space" in frames(names["space_app"]())[0]


def test_the_space_is_one_that_the_hub_runs():
    front = yaml.safe_load((SPACE / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert (front["sdk"], front["app_file"]) == ("gradio", "app.py")
    assert (SPACE / front["app_file"]).is_file()
    # The package is on no registry: the Space holds a wheel of it.
    wheel = f"OWNER/NAME/resolve/main/eventformers-{eventformers.__version__}-py3-none-any.whl\n"
    requirements = (SPACE / "requirements.txt").read_text(encoding="utf-8")
    assert requirements == f"eventformers[leaderboard] @ https://huggingface.co/spaces/{wheel}"
