"""Bytes and requests of a push and of a repeated one, compared with `HfApi.upload_folder`.

    python benchmarks/hub.py RUN DATASET mcnc

It runs on the loopback Hub. Each argument is one that `eventformers push` accepts: a folder, or the name of a
metric. Each is pushed to an empty repository, then again, then with a changed card, and after a connection
that was interrupted at the commit. Bytes are those of the bodies of requests (up) and answers (down).
`loading` counts what the fresh process requests to load the result; `upload_folder` does not verify and sends
to `main` directly.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "hub"))

from calls import User
from huggingface_hub import HfApi, constants
from huggingface_hub.utils import disable_progress_bars
from server import Count, LoopbackHub

from eventformers.errors import EventformersError
from eventformers.hub import push
from eventformers.publishing.folders import LocalRepository, read_folder
from eventformers.publishing.plan import STAGING

TOKEN = "hf_benchmark"  # noqa: S105, of a server that lives as long as this process


class Meter:
    """What was asked of a Hub, apart for what sends and what loads back."""

    def __init__(self, hub: LoopbackHub) -> None:
        self.hub = hub
        self.start()

    def start(self) -> None:
        """Count from zero."""
        self.hub.forget_requests()
        self.loading = Count(0, 0, 0)
        self._before: Count | None = None
        self.started = time.perf_counter()

    def tell(self, step: str) -> None:
        """Follow the steps of a push."""
        if self._before is not None:
            self.loading = _less(self.hub.count(), self._before)
        self._before = self.hub.count() if step.startswith("loading it from the Hub") else None

    def report(self, kind: str, name: str) -> None:
        """Print a line."""
        seconds = time.perf_counter() - self.started
        sending = _less(self.hub.count(), self.loading)
        cells = (sending.requests, sending.received, sending.sent, self.loading.requests, self.loading.sent)
        print(f"{kind:8} {name:32}" + "".join(f"{cell:>14,}" for cell in cells) + f"{seconds:>9.1f} s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    constants.HF_HUB_OFFLINE = False
    # The loopback Hub does not serve it.
    constants.HF_HUB_DISABLE_XET = True
    os.environ["NO_PROXY"] = "127.0.0.1"
    disable_progress_bars()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("targets", nargs="+")
    header = ("requests", "bytes up", "bytes down", "loading: req.", "bytes down")
    print(f"{'kind':8} {'what':32}" + "".join(f"{cell:>14}" for cell in header) + f"{'time':>11}")
    for target in parser.parse_args(arguments).targets:
        measure(read_folder(target))


def measure(original: LocalRepository) -> None:
    """Push one repository in several ways."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / original.name
        for path, file in original.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, folder / path)
        total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"{original.kind:8} {len(original.files)} files, {total:,} bytes")
        _with_push(original, folder)
        _with_upload_folder(original, folder)


def _with_push(original: LocalRepository, folder: Path) -> None:
    repo_id = f"me/{original.name}"

    def send(meter: Meter) -> None:
        options = {"endpoint": meter.hub.endpoint, "token": TOKEN, "tell": meter.tell}
        push(folder, repo_id, accept_licenses=True, **options)  # type: ignore[arg-type]

    def is_cut(meter: Meter) -> None:
        meter.hub.fault("POST", f"/commit/{STAGING}", cut_upload=1)
        try:
            send(meter)
        except EventformersError:
            meter.start()
            send(meter)

    _measure(original.kind, "push", folder, send)
    with _hub() as hub:
        meter = Meter(hub)
        is_cut(meter)
        meter.report(original.kind, "push, after one that was cut")


def _with_upload_folder(original: LocalRepository, folder: Path) -> None:
    def send(meter: Meter) -> None:
        api = HfApi(endpoint=meter.hub.endpoint, token=TOKEN)
        kind = {"repo_id": f"me/{original.name}", "repo_type": original.repo_type}
        sdk = {"space_sdk": "gradio"} if original.repo_type == "space" else {}
        api.create_repo(exist_ok=True, **kind, **sdk)  # type: ignore[arg-type]
        api.upload_folder(folder_path=folder, **kind)  # type: ignore[call-overload]

    _measure(original.kind, "upload_folder", folder, send)


def _measure(kind: str, name: str, folder: Path, send: Callable[[Meter], None]) -> None:
    """An empty repository, the same again, and a changed card."""
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8")
    with _hub() as hub:
        meter = Meter(hub)
        for what in (name, f"{name}, repeated", f"{name}, changed card"):
            if what.endswith("card"):
                card.write_text(f"{text}\nA line more.\n", encoding="utf-8")
            meter.start()
            send(meter)
            meter.report(kind, what)
    card.write_text(text, encoding="utf-8")


def _hub() -> LoopbackHub:
    return LoopbackHub({TOKEN: User("me")})


def _less(count: Count, other: Count) -> Count:
    return Count(count.requests - other.requests, count.received - other.received, count.sent - other.sent)


if __name__ == "__main__":
    main()
