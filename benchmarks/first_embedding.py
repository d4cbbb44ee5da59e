"""Time from an empty cache to the first embedding, on the loopback Hub, compared with peers.

    python benchmarks/first_embedding.py --rounds 3

All use the same weights. Each way to load runs in its own process with its own cache, and the ways take turns
in every round. `start` is the time of the imports that a user writes, `load` the time from there to the
vector: requests to the Hub, download, loading and one pass. transformers imports much of itself only when it
is used, so ratios are of the sum of both, to the plain encoder in the same round. The Hub is on this machine.
On a distant one each request costs a round trip, so the output also has the number of requests.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

# Read when the client is imported.
os.environ["HF_HUB_DISABLE_XET"] = "1"
os.environ["NO_PROXY"] = "127.0.0.1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ.pop("HF_HUB_OFFLINE", None)
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "hub"))

from calls import User
from huggingface_hub import HfApi
from server import Count, LoopbackHub
from side_by_side import make_parser
from transformers import AutoTokenizer

from eventformers import SwccModel
from eventformers.loading.encoders import resolve_encoder

TOKEN = "hf_benchmark"  # noqa: S105, of a server that lives as long as this process
PLAIN, OURS = "alice/encoder", "alice/swcc"
TEXT = "the storm flooded the city"

PLAIN_MODEL = "AutoModel, plain encoder"
WAYS = {
    PLAIN_MODEL: (
        "from transformers import AutoModel, AutoTokenizer",
        f"""
        tokens = AutoTokenizer.from_pretrained({PLAIN!r})({TEXT!r}, return_tensors="pt")
        vector = AutoModel.from_pretrained({PLAIN!r})(**tokens).last_hidden_state.mean(dim=1)
        """,
    ),
    "SentenceTransformer, plain encoder": (
        "from sentence_transformers import SentenceTransformer",
        f"vector = SentenceTransformer({PLAIN!r}).encode({TEXT!r})",
    ),
    "AutoModel, ours with the package": (
        "import eventformers; from transformers import AutoModel, AutoTokenizer",
        f"""
        tokens = AutoTokenizer.from_pretrained({OURS!r})({TEXT!r}, return_tensors="pt")
        vector = AutoModel.from_pretrained({OURS!r})(**tokens).embeddings
        """,
    ),
    "eventformers.encode": (
        "import eventformers; eventformers.encode",
        f"vector = eventformers.encode({OURS!r}, {TEXT!r})",
    ),
    "pipeline, ours with the package": (
        "import eventformers; from transformers import pipeline",
        f"vector = pipeline(model={OURS!r})({TEXT!r})",
    ),
    "AutoModel, ours as remote code": (
        "from transformers import AutoModel, AutoTokenizer",
        f"""
        tokenizer = AutoTokenizer.from_pretrained({OURS!r}, trust_remote_code=True)
        model = AutoModel.from_pretrained({OURS!r}, trust_remote_code=True)
        vector = model(**tokenizer({TEXT!r}, return_tensors="pt")).embeddings
        """,
    ),
    "pipeline, ours as remote code": (
        "from transformers import pipeline",
        f"vector = pipeline(model={OURS!r}, trust_remote_code=True)({TEXT!r})",
    ),
}
"""What a user imports, and what gives the first vector, by the name of the way."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = make_parser(__doc__, "encoder", rounds=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args(arguments)
    ways = [PLAIN_MODEL, *(way for way in options.ways if way != PLAIN_MODEL)]
    with (
        tempfile.TemporaryDirectory() as scratch,
        LoopbackHub({TOKEN: User("alice")}, Path(scratch) / "hub") as hub,
    ):
        publish(hub, resolve_encoder(options.encoder), Path(scratch) / "model")
        taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        requests: dict[str, Count] = {}
        for _ in range(options.rounds):
            for way in ways:
                hub.forget_requests()
                taken[way].append(run(way, hub, Path(tempfile.mkdtemp(dir=scratch))))
                requests[way] = hub.count()
                start, load = taken[way][-1]
                print(f"{way}: {start:.1f} s and {load:.1f} s", file=sys.stderr, flush=True)
    report(taken, requests)


def publish(hub: LoopbackHub, encoder: str, folder: Path) -> None:
    """Upload an encoder, and SWCC over it."""
    api = HfApi(endpoint=hub.endpoint, token=TOKEN)
    model = SwccModel.from_encoder(encoder, pooling="mean")
    model.save_pretrained(folder / "swcc")
    model.encoder.save_pretrained(folder / "encoder")
    for name, repository in (("swcc", OURS), ("encoder", PLAIN)):
        AutoTokenizer.from_pretrained(encoder).save_pretrained(folder / name)
        api.create_repo(repository)
        api.upload_folder(repo_id=repository, folder_path=folder / name)


def run(way: str, hub: LoopbackHub, home: Path) -> tuple[float, float]:
    """Run a way in a fresh process; the seconds of its imports, and from there to its vector."""
    imports, work = WAYS[way]
    lines = [line.strip() for line in work.strip().splitlines()]
    script = "\n".join(
        [
            "import time; began = time.perf_counter()",
            imports,
            "imported = time.perf_counter()",
            *lines,
            "print(imported - began, time.perf_counter() - imported)",
        ]
    )
    environment = {**os.environ, **hub.environment(TOKEN), "HF_HOME": str(home)}
    process = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise SystemExit(f"{way}:\n{process.stderr[-2000:]}")
    start, load = map(float, process.stdout.split()[-2:])
    return start, load


def report(taken: dict[str, list[tuple[float, float]]], requests: dict[str, Count]) -> None:
    """Print the median of every way, and its ratio to the plain encoder."""
    print(f"{'way':38}{'start':>9}{'load':>9}{'ratio':>8}{'requests':>10}{'bytes':>14}  ratio of each round")
    for way, rounds in taken.items():
        start, load = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratios = [sum(one) / sum(plain) for one, plain in zip(rounds, taken[PLAIN_MODEL], strict=True)]
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        times = f"{start:7.1f} s{load:7.1f} s{statistics.median(ratios):8.2f}"
        print(f"{way:38}{times}{requests[way].requests:10,}{requests[way].sent:14,}  {each}")


if __name__ == "__main__":
    main()
