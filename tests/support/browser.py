"""A headless Chromium that a test drives through a pipe, by the DevTools protocol; needs no other package."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60


def find_browser() -> str | None:
    """The program of Chromium or Chrome; None where neither is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def luminance(color: str) -> float:
    """The relative luminance of a colour such as `rgb(1, 2, 3)`, by WCAG."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, by WCAG: from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


class Browser:
    """One page of a running browser.

    Attributes:
        events: what the page told of, such as requests and messages of its console.
    """

    def __init__(self, write: int, read: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._write, self._read = write, read
        self._buffer = b""
        self._number = 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], SECONDS)
            assert ready, "the browser does not answer"
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser ended"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def open(self, page: Path, fragment: str = "") -> None:
        """Show a page, and wait until it is loaded."""
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri() + fragment)
        until = time.monotonic() + SECONDS
        while self.run("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < until, "the page does not load"
            time.sleep(0.02)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key where the focus is."""
        what = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **what)
        self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def named(self, role: str) -> list[str]:
        """The names that a screen reader announces for elements with a role."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            node.get("name", {}).get("value", "")
            for node in nodes
            if not node["ignored"] and node["role"]["value"] == role
        ]

    def told(self, method: str) -> list[dict[str, Any]]:
        """What the page told of since it was opened, by the name of the event."""
        return [event["params"] for event in self.events if event.get("method") == method]


@contextmanager
def started_browser(program: str) -> Iterator[Browser]:
    """A browser with an empty profile, which ends with the block."""
    # The browser reads from 3 and writes to 4, so ours must be others.
    theirs_in, ours_out = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in os.pipe())
    ours_in, theirs_out = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in os.pipe())

    def connect() -> None:
        os.dup2(theirs_in, 3)
        os.dup2(theirs_out, 4)

    with TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"]
        process = subprocess.Popen(
            [program, *options, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=connect,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Browser(ours_out, ours_in)
        finally:
            process.terminate()
            process.wait(timeout=SECONDS)
            os.close(ours_out)
            os.close(ours_in)
