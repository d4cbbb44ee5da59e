"""Cluster, name and map texts with BERTopic, in a process of its own, for `exploration.py`.

python explore_peer.py TEXTS.json ENCODER
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

from bertopic import BERTopic
from sentence_transformers import SentenceTransformer
from umap import UMAP


def main(texts: Path, folder: str) -> None:
    """Fit, and print the number of topics and the seconds of each step."""
    documents = json.loads(texts.read_text(encoding="utf-8"))
    clock = [time.perf_counter()]
    encoder = SentenceTransformer(folder, device="cpu")
    vectors = encoder.encode(documents, show_progress_bar=False)
    clock.append(time.perf_counter())
    topics, _ = BERTopic(embedding_model=encoder).fit_transform(documents, vectors)
    clock.append(time.perf_counter())
    UMAP(metric="cosine").fit_transform(vectors)
    clock.append(time.perf_counter())
    seconds = [round(after - before, 1) for before, after in pairwise(clock)]
    found = {
        "topics": len(set(topics) - {-1}),
        "texts without a topic": topics.count(-1),
        "seconds of vectors, topics and map": seconds,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
