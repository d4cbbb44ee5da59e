"""The Space of a leaderboard.

It shows the result files in `results/` beside this file, and the scores of the model repositories in the
variable LEADERBOARD_REPOSITORIES, separated by spaces.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from eventformers.leaderboard.board import leaderboard
from eventformers.leaderboard.page import leaderboard_app

if TYPE_CHECKING:
    import gradio


def space_app() -> gradio.Blocks:
    """Make the app of this Space."""
    results = Path(__file__).parent / "results"
    repositories = os.environ.get("LEADERBOARD_REPOSITORIES", "").split()
    return leaderboard_app(leaderboard([results] if results.is_dir() else [], repositories=repositories))


if __name__ == "__main__":
    space_app().launch()
