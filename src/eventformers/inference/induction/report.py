"""Writing what an induction found: a table of mentions, one of types, and a page to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.errors import EventformersError
from eventformers.files import staged_folder
from eventformers.inference.induction import mention_map
from eventformers.inference.induction.induce import InducedType, Induction
from eventformers.inference.report_pages import check_results_free, render_page

MENTIONS_FILE = "mentions.parquet"
TYPES_FILE = "types.jsonl"
REPORT_FILE = "report.html"
_FILES = (MENTIONS_FILE, TYPES_FILE, REPORT_FILE)

_MENTION_TEXTS = ("mention_id", "document_id", "source", "license", "text", "trigger")


class MarkedText(NamedTuple):
    """A sentence in three parts.

    Attributes:
        before: what stands before the trigger; the whole sentence where there is none.
        trigger: the trigger.
        after: what stands behind it.
    """

    before: str
    trigger: str
    after: str


def write_induction(induction: Induction, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write an induction: all of its files or none.

    `mentions.parquet` has a row for each mention with its cluster; `types.jsonl` a line for each cluster;
    `report.html` is one page that needs no other file and no network.

    Args:
        induction: what `induce` found.
        folder: where the files go; made where it is absent.
        overwrite: replace what an earlier induction wrote there.

    Returns:
        The files.

    Raises:
        EventformersError: an induction is there and `overwrite` is off, or the folder cannot be written.
    """
    folder = Path(folder)
    files = [folder / name for name in _FILES]
    check_free(folder, overwrite=overwrite)
    try:
        with staged_folder(folder, last=(TYPES_FILE,)) as staging:
            pq.write_table(mention_table(induction), staging / MENTIONS_FILE)
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in induction.type_rows()]
            (staging / TYPES_FILE).write_text("".join(lines), encoding="utf-8")
            (staging / REPORT_FILE).write_text(report_page(induction), encoding="utf-8")
    except OSError as error:
        raise EventformersError(f"cannot write {folder}: {error.strerror or error}") from error
    return files


def check_free(folder: str | Path, *, overwrite: bool = False) -> None:
    """Refuse a place where an induction is, or a file: told before the work, not after it.

    Raises:
        EventformersError: something is there that may not be replaced.
    """
    check_results_free(Path(folder), _FILES, "an induction", overwrite=overwrite)


def mention_table(induction: Induction) -> pa.Table:
    """Every mention with its source and licence, its cluster, and its cosine with the cluster's centroid."""
    rows = induction.mentions
    columns: dict[str, pa.Array] = {
        name: pa.array([str(row[name]) for row in rows], pa.string()) for name in _MENTION_TEXTS
    }
    for name in ("trigger_start", "trigger_end"):
        columns[name] = pa.array([row[name] for row in rows], pa.int32())
    columns["event_type"] = pa.array([row["event_type"] for row in rows], pa.string())
    columns["cluster"] = pa.array(induction.cluster, pa.int32())
    names = [induction.types[number].name for number in induction.cluster]
    columns["cluster_name"] = pa.array(names, pa.string())
    columns["cosine"] = pa.array(induction.cosine, pa.float32())
    metadata = {"settings": json.dumps(induction.settings), "counts": json.dumps(induction.counts)}
    return pa.table(columns).replace_schema_metadata(metadata)


def report_page(induction: Induction) -> str:
    """The report: the map of mentions, and each cluster with name, frames, purity and examples."""
    drawn = mention_map.drawn_mentions(len(induction.mentions))
    places = mention_map.place_mentions(induction.vectors[drawn])
    points = [
        {
            "path": mention_map.path_of(mention_map.marker(number).shape, x, y),
            "cluster": number,
            "title": f"{induction.types[number].name}: {induction.mentions[mention]['text']}",
        }
        for mention, number, (x, y) in zip(
            drawn.tolist(), induction.cluster[drawn].tolist(), places.tolist(), strict=True
        )
    ]
    by_cluster: list[list[dict[str, Any]]] = [[] for _ in induction.types]
    for point in points:
        by_cluster[point["cluster"]].append(point)
    return render_page(
        Path(__file__).with_name("report.html.jinja"),
        induction=induction,
        clusters=[_cluster(induction, found, by_cluster[found.number]) for found in induction.types],
        drawn=len(drawn),
        by_tsne=4 <= len(drawn) <= mention_map.MOST_BY_TSNE,
        width=mention_map.WIDTH,
        height=mention_map.HEIGHT,
        licenses=sorted({str(row["license"]) for row in induction.mentions}),
        labelled=any(found.labelled for found in induction.types),
        framed=any(found.frames for found in induction.types),
    )


def mark_example(mention: dict[str, Any]) -> MarkedText:
    """A mention's sentence, cut around its trigger."""
    text, start, end = mention["text"], mention["trigger_start"], mention["trigger_end"]
    if not 0 <= start < end:
        return MarkedText(text, "", "")
    return MarkedText(text[:start], text[start:end], text[end:])


def _cluster(induction: Induction, found: InducedType, points: list[dict[str, Any]]) -> dict[str, Any]:
    marker = mention_map.marker(found.number)
    return {
        "found": found,
        "colour": marker.colour,
        "legend": mention_map.path_of(marker.shape, 7, 7, 5),
        "points": points,
        "examples": [mark_example(induction.mentions[place]) for place in found.examples],
    }
