"""Record digests of what users see, and compare two records: the proof that a change only moved code.

    python tests/goldens.py record FOLDER [--only PART]
    python tests/goldens.py compare BEFORE/goldens.json AFTER/goldens.json

Record both states on one machine: weights depend on the processor. A record takes about fifteen minutes on
two cores. Each entry is a digest, with times, dates, commits and the folder's own path taken out.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).resolve().parents[1]
_SHARED = _REPOSITORY.parent / "shared" / "data"
_RAW = {
    "commonsense_graphs": ("ckg", ["conceptnet", "conceptnet_inductive", "atomic_inductive"]),
    "commonsense_qa": ("cqa", []),
    "event_chains": ("mcnc", []),
    "event_hierarchies": ("hierarchy/current_events", []),
    "event_similarity": ("similarity", []),
    "event_types": ("event_types", ["mentions"]),
}
_VOLATILE_KEYS = {
    "created", "date", "git_commit", "hours", "items_per_second", "load_seconds", "seconds", "timing",
    "train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos",
}  # fmt: skip
_VOLATILE_TEXT = [
    (r"\d{4}-\d\d-\d\d(T[\d:.+]+)?", "DATE"),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    (r"\b[\d.,]+ (s|seconds|minutes|ms|GB|MB)\b", "AMOUNT"),
    (r"\b\d\d:\d\d( left)?\b", "TIME"),
]
_CHECKPOINT_STATE = {"optimizer.pt", "rng_state.pth", "scheduler.pt"}


def _digest(content: bytes | str) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(one) for key, one in value.items() if key not in _VOLATILE_KEYS}
    return [_steady(one) for one in value] if isinstance(value, list) else value


def _steady_text(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FOLDER")
    for pattern, name in _VOLATILE_TEXT:
        text = re.sub(pattern, name, text)
    return text


def _file_digest(path: Path, folder: Path) -> str:
    if path.suffix == ".json":
        kept = _steady(json.loads(path.read_text()))
        return _digest(_steady_text(json.dumps(kept, sort_keys=True), folder))
    if path.suffix == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        return _digest(f"{table.schema}{table.to_pylist()}")
    content = path.read_bytes()
    try:
        return _digest(_steady_text(content.decode(), folder))
    except UnicodeDecodeError:
        return _digest(content)


def _tree(top: Path, folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(top.rglob("*")):
        if path.is_file() and path.name not in _CHECKPOINT_STATE:
            name = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", str(path.relative_to(folder)))
            yield name, _file_digest(path, folder)


def _command(*arguments: object) -> str:
    words = [sys.executable, "-m", "eventformers.cli", *map(str, arguments)]
    environment = os.environ | {"COLUMNS": "100", "TERM": "dumb", "PYTHONHASHSEED": "0"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{words[3:]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _methods() -> list[str]:
    from eventformers.methods import all_methods

    return [name for name, method in all_methods().items() if method.showing]


def _signatures(folder: Path) -> Iterator[tuple[str, str]]:
    import eventformers

    for name in eventformers.__all__:
        value = getattr(eventformers, name)
        # An exception has none; a default that is a function is shown with its address.
        if callable(value) and not (isinstance(value, type) and issubclass(value, Exception)):
            yield f"signature {name}", _digest(re.sub(r" at 0x[0-9a-f]+", "", f"{inspect.signature(value)}"))


def _help(folder: Path) -> Iterator[tuple[str, str]]:
    import typer.main

    from eventformers import cli

    root = typer.main.get_command(cli.app)
    names = [[name] for name in root.commands]  # type: ignore[attr-defined]
    names += [
        [name, child]
        for name, command in root.commands.items()  # type: ignore[attr-defined]
        for child in getattr(command, "commands", ())
    ]
    for words in [[], *names]:
        yield " ".join(["help", *words]), _digest(_command(*words, "--help"))


def _builds(folder: Path) -> Iterator[tuple[str, str]]:
    from eventformers.publishing.dataset_building import build_dataset

    for name, (raw, configs) in _RAW.items():
        build_dataset(name, output=folder / "samples" / name)
        if _SHARED.is_dir():
            build_dataset(
                name, config=configs or None, data_dir=_SHARED / raw, malformed="skip",
                output=folder / "real" / name,
            )  # fmt: skip
    yield from _tree(folder, folder)


def _demos(folder: Path) -> Iterator[tuple[str, str]]:
    for method in [*_methods(), "explore"]:
        yield f"demo {method}", _digest(_steady_text(_command("demo", method, "-o", folder), folder))
    yield from _tree(folder, folder)


def _resumed(folder: Path) -> Iterator[tuple[str, str]]:
    """Kill two runs after their first checkpoint and resume them."""
    for method in ("swcc", "mico"):
        output = folder / method
        words = ["train", method, "--recipe", "demo", "--set", "save_steps=5", "--set", "max_steps=10",
                 "--set", "save_total_limit=9", "-o", output]  # fmt: skip
        started = subprocess.Popen([sys.executable, "-m", "eventformers.cli", *map(str, words)])
        while started.poll() is None and not list(output.glob("checkpoint-5/trainer_state.json")):
            time.sleep(0.2)
        started.send_signal(signal.SIGKILL)
        started.wait()
        _command(*words, *(["--resume"] if started.returncode else ["--overwrite"]))
    yield from _tree(folder, folder)


def _tasks(folder: Path) -> Iterator[tuple[str, str]]:
    """Score the packaged encoder on every task of the samples; the demos score the trained models."""
    from eventformers.evaluation.tasks import TASKS

    for task in TASKS:
        _command("evaluate", "--task", task, "-o", folder / task)
    yield from _tree(folder, folder)


def _remote(folder: Path) -> Iterator[tuple[str, str]]:
    """Load every demo model without the package and digest the vectors of three texts."""
    code = (
        "import sys, hashlib, torch; sys.modules['eventformers'] = None\n"
        "from transformers import AutoModel, AutoTokenizer\n"
        "model = AutoModel.from_pretrained(sys.argv[1], trust_remote_code=True).eval()\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "texts = ['police arrest thief', 'rain', 'storm destroys homes']\n"
        "inputs = tokenizer(texts, return_tensors='pt', padding=True)\n"
        "output = model(input_ids=inputs['input_ids'], attention_mask=inputs['attention_mask'])\n"
        "first = output['embeddings'] if 'embeddings' in output else output[0]\n"
        "print(hashlib.sha256(first.detach().numpy().tobytes()).hexdigest()[:16])"
    )
    cache = folder / "modules"
    for method in _methods():
        model = folder.parent / "demos" / method
        done = subprocess.run(
            [sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=False, cwd=folder,
            env=os.environ | {"HF_MODULES_CACHE": str(cache)},
        )  # fmt: skip
        # The question about remote code, which names the folder, stands before it.
        yield f"remote {method}", done.stdout.split()[-1] if done.returncode == 0 else done.stderr[-300:]
    shutil.rmtree(cache, ignore_errors=True)


def _inference(folder: Path) -> Iterator[tuple[str, str]]:
    """Encode three texts with every demo model; in an earlier record, these are old checkpoints."""
    import eventformers

    for method in _methods():
        model = folder.parent / "demos" / method
        try:
            vectors = eventformers.encode(str(model), ["police arrest thief", "rain", "storm destroys homes"])
        except eventformers.errors.EventformersError as error:
            yield f"encode {method}", _digest(_steady_text(str(error), folder.parent))
        else:
            yield f"encode {method}", _digest(vectors.tobytes())


PARTS: dict[str, Callable[[Path], Iterator[tuple[str, str]]]] = {
    "signatures": _signatures,
    "help": _help,
    "builds": _builds,
    "demos": _demos,
    "resumed": _resumed,
    "tasks": _tasks,
    "remote": _remote,
    "inference": _inference,
}


def record(folder: Path, only: list[str]) -> None:
    file = folder / "goldens.json"
    entries = json.loads(file.read_text()) if file.is_file() else {}
    for part in only or list(PARTS):
        start = time.perf_counter()
        (folder / part).mkdir(parents=True, exist_ok=True)
        entries[part] = dict(PARTS[part](folder / part))
        file.write_text(json.dumps(entries, indent=1, sort_keys=True))
        print(f"{part}: {len(entries[part])} entries in {time.perf_counter() - start:.0f} s", flush=True)


def compare(before: Path, after: Path) -> int:
    old, new = json.loads(before.read_text()), json.loads(after.read_text())
    changes = 0
    for part in sorted({*old, *new}):
        first, second = old.get(part, {}), new.get(part, {})
        for name in sorted({*first, *second}):
            if first.get(name) != second.get(name):
                changes += 1
                state = "new" if name not in first else "gone" if name not in second else "changed"
                print(f"{state}: {part}: {name}")
    print(f"{changes} of {sum(map(len, new.values()))} entries differ")
    return int(changes > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--only", action="append", default=[], choices=list(PARTS))
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        record(given.folder.resolve(), given.only)
    else:
        sys.exit(compare(given.before, given.after))
