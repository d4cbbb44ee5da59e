"""A good command line of each command, in the folder that `prepare` writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from leaderboard_inputs import make_result
from tiny import save_tiny_bi_encoder, save_tiny_encoder, save_tiny_heterevent

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.evaluation.results import write_eval_results

COMMANDS = {
    "train": "train swcc --recipe demo --encoder encoder --set max_steps=1 --no-card -o out",
    "evaluate": "evaluate encoder --task transitive_similarity -o out",
    "embed": "embed encoder events.txt -o out/vectors.parquet",
    "data build": "data build event_similarity -o out",
    "data list": "data list",
    "complete": "complete encoder umbrella,UsedFor",
    "next-event": "next-event encoder police|searched|house police|found|man",
    "induce": "induce mentions.jsonl -o out --model encoder --num-clusters 2",
    "ground": "ground texts.txt --knowledge-base knowledge --model retriever -o out",
    "plot": "plot heterevent -o drawn.png",
    "compare": "compare first.json second.json",
    "leaderboard": "leaderboard scores --html out/board.html",
    "result add": "result add --task copa --score 70 --model theirs --source paper -o scores",
    "reproduce": "reproduce swcc table2 --data no/such/data --encoder encoder -o tables",
    "explore": "explore events.txt -o explored --pipeline no_such_pipeline",
    "extract": "extract stories -o out --pipeline no_such_pipeline",
    "mcp": "mcp events.txt",
    "push": "push encoder --repo-id me/model --dry-run",
    "data push": "data push built --repo-id me/data --dry-run",
}


def prepare(folder: Path) -> Path:
    """Write what the good command lines read."""
    folder.mkdir(exist_ok=True)
    encoder = save_tiny_encoder(folder / "encoder")
    save_tiny_heterevent(encoder, folder / "heterevent")
    save_tiny_bi_encoder(encoder, folder / "retriever")
    for name in ("empty", "knowledge", "stories"):
        (folder / name).mkdir()
    event = {"label_id": "1", "label_title": "war", "label_desc": "a war", "label_lang": "en"}
    storm = {"label_id": "2", "label_title": "storm", "label_desc": "a storm", "label_lang": "en"}
    mentions = [
        f"The police {verb} a man." for verb in ("arrested", "saw", "rescued", "hit", "fired", "hired")
    ]
    written = {
        "knowledge/label_dict.jsonl": f"{json.dumps(event)}\n{json.dumps(storm)}",
        "events.txt": "police arrested man\nbank hired worker",
        "texts.txt": "The [[war]] ended.",
        "mentions.jsonl": "\n".join(
            json.dumps({"text": text, "trigger": text.split()[2], "id": text}) for text in mentions
        ),
        "stories/story.txt": "Anna opened the door. Anna called Police.",
        "empty.txt": "",
    }
    for name, text in written.items():
        (folder / name).write_text(text + "\n" * bool(text), encoding="utf-8")
    write_eval_results([make_result(main_value=70.0)], folder / "scores")
    write_eval_results([make_result(main_value=60.0, model="other")], folder / "more-scores")
    shutil.copytree(SAMPLES / "similarity", folder / "similarity")
    for path in (folder / "similarity").iterdir():
        path.write_bytes(path.read_bytes().partition(b"\n")[2])
    (folder / "link").symlink_to("events.txt")
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 8)
    return folder
