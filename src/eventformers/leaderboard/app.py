"""A leaderboard as a Gradio app, for example for a Space. Needs the extra `leaderboard`."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from eventformers.errors import EventformersError
from eventformers.leaderboard.board import Leaderboard
from eventformers.leaderboard.page import leaderboard_page

if TYPE_CHECKING:
    import gradio

_FRAME = "width: 100%; height: 88vh; border: 0; color-scheme: light dark"


def leaderboard_app(leaderboard: Leaderboard) -> gradio.Blocks:
    """Make the app, which shows the page of the leaderboard in a sandboxed frame.

    Args:
        leaderboard: the leaderboard.

    Raises:
        EventformersError: gradio is not installed.
    """
    try:
        import gradio
    except ImportError as error:
        raise EventformersError(
            'gradio is not installed; install it with pip install "eventformers[leaderboard]"'
        ) from error
    page = html.escape(leaderboard_page(leaderboard))
    with gradio.Blocks(title="Leaderboard of event representations", fill_width=True) as app:
        gradio.HTML(
            f'<iframe title="Leaderboard" sandbox="allow-scripts allow-popups" srcdoc="{page}" '
            f'style="{_FRAME}"></iframe>'
        )
    return app
