"""What tests do with the page of an exploration in a browser."""

from __future__ import annotations

import time
from pathlib import Path

from browser import Browser


def wait_for(browser: Browser, condition: str) -> None:
    until = time.monotonic() + 30
    while not browser.run(condition):
        assert time.monotonic() < until, f"never true: {condition}"
        time.sleep(0.02)


def show(browser: Browser, folder: Path, address: str = "", *, mapped: bool = False) -> None:
    browser.open(folder / "index.html", address)
    wait_for(browser, f"document.body.dataset.{'mapped' if mapped else 'ready'} !== undefined")


def search(browser: Browser, words: str) -> str:
    """Type words, and return what the page says about the result."""
    browser.run("words.focus(); words.select()")
    browser.call("Input.insertText", text=words)
    wait_for(browser, f"stateOf(location.hash).words === {words!r} && shownFilters.includes({words!r})")
    return browser.run("document.getElementById('status').textContent")


def texts(browser: Browser, selector: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)")


def assert_no_complaint(browser: Browser) -> None:
    entries = [event["entry"] for event in browser.told("Log.entryAdded")]
    # A browser without a graphics card warns of its slow drawing.
    assert [entry for entry in entries if entry["source"] != "rendering"] == []
    assert browser.told("Runtime.exceptionThrown") == []
    assert [call for call in browser.told("Runtime.consoleAPICalled") if call["type"] == "error"] == []
