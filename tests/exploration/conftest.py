"""A browser for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser, find_browser, started_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium and no Chrome is installed")
    with started_browser(program) as started:
        yield started
