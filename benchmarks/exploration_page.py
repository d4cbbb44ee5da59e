"""Size and speed of the page of an exploration, in a headless Chromium.

    python benchmarks/exploration_page.py FOLDER
    python benchmarks/exploration_page.py FOLDER --copies 34    # 10,000 documents of 294

`FOLDER` is the output of `eventformers explore`. With `--copies`, the page shows each document several times,
under other ids and in other places of the map; actors with a name are the same in all copies. The seconds are
those until the list of events is shown, until the map is drawn, until the result of a search is shown, until
each view is shown, and shown again after a filter, and until a document is open with all that is known about
an event. Without a graphics card, the processor draws the map.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventformers.exploration.page import write_page

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from browser import Browser, find_browser, started_browser

SEARCHES = ("police", "minister", "elect", "said that")
VIEWS = ("table", "actors", "stories", "places", "compare", "documents")
FILTER = "who=minister"
_IDS = ("document_id", "event_id", "chain_id", "story_id")
_LISTS = ("event_ids", "document_ids")
_ACTOR_IDS = ("subject_id", "object_id", "source_id", "actor_id")
_PER_DOCUMENT = (
    *("documents", "events", "event_types", "chains", "next_events", "links", "map", "actors", "stories"),
    "event_stories",
)


def copy_tables(source: Path, target: Path, copies: int) -> None:
    """Write the tables of an exploration with each document several times."""
    for path in sorted(source.glob("*.parquet")):
        if path.stem == "vectors":
            continue
        table = pq.read_table(path)
        if path.stem in _PER_DOCUMENT:
            table = pa.concat_tables([_copy(table, number, copies) for number in range(copies)])
        if path.stem == "actors":
            table = table.take(pc.index_in(pc.unique(table["actor_id"]), table["actor_id"]))
        pq.write_table(table, target / path.name)


def _copy(table: pa.Table, number: int, copies: int) -> pa.Table:
    prefix = f"{number}/"
    for name in _IDS:
        if name in table.column_names:
            ids = pc.binary_join_element_wise(prefix, table[name], "")
            table = table.set_column(table.column_names.index(name), name, ids)
    for name in _ACTOR_IDS:
        if name in table.column_names:
            ids = pc.binary_join_element_wise(prefix, table[name], "")
            ids = pc.if_else(pc.match_substring_regex(table[name], r"@\d+$"), ids, table[name])
            table = table.set_column(table.column_names.index(name), name, ids)
    for name in _LISTS:
        if name in table.column_names:
            lists = [[prefix + each for each in ids] for ids in table[name].to_pylist()]
            table = table.set_column(table.column_names.index(name), name, pa.array(lists))
    if "neighbors" in table.column_names:
        # Half of the neighbours are in another copy, as they would be among other documents.
        random = np.random.default_rng(number)
        neighbours = table["neighbors"].combine_chunks()
        ids, distances = neighbours.flatten()
        own = random.random(len(ids.flatten())) < 0.5
        copy = np.where(own, number, random.integers(copies, size=len(own)))
        rows = ids.flatten().to_numpy() + copy * table.num_rows
        moved = pa.ListArray.from_arrays(ids.offsets, pa.array(rows))
        table = table.set_column(
            table.column_names.index("neighbors"),
            "neighbors",
            pa.StructArray.from_arrays([moved, distances], ["ids", "distances"]),
        )
        for axis in ("x", "y"):
            values = table[axis].to_numpy()
            places = values + random.normal(scale=values.std() / 20, size=len(values))
            table = table.set_column(table.column_names.index(axis), axis, pa.array(places, pa.float32()))
    return table


def measure(page: Path, program: str) -> dict[str, float]:
    """Return seconds, by what happens in them."""
    found: dict[str, float] = {}
    with started_browser(program) as browser:
        size: dict[str, Any] = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", **size)
        begin = time.perf_counter()
        browser.open(page)
        _wait(browser, "document.body.dataset.ready !== undefined")
        found["list shown"] = time.perf_counter() - begin
        _wait(browser, "document.body.dataset.mapped !== undefined")
        found["map drawn"] = time.perf_counter() - begin
        for words in SEARCHES:
            found[f"search: {words}"] = browser.run(_until_painted(f"words={words.replace(' ', '+')}")) / 1000
        for view in VIEWS:
            if browser.run(f"document.getElementById('view-{view}') !== null"):
                for name, address in ((f"view {view}", ""), (f"{view}, filtered", f"&{FILTER}")):
                    found[name] = browser.run(_until_painted(f"view={view}{address}")) / 1000
        for name, event in (("first document", 5), ("next document", 500)):
            shown = f"reader.querySelector('[data-shown]')?.dataset.event === '{event}'"
            browser.run(f"location.hash = 'event={event}'")
            begin = time.perf_counter()
            _wait(browser, f"{shown} && readerEvent.children.length > 0")
            found[name] = time.perf_counter() - begin
        found["memory of JavaScript, MB"] = browser.call("Runtime.getHeapUsage")["usedSize"] / 1e6
    return found


def _until_painted(address: str) -> str:
    return f"""new Promise((done) => {{
        const start = performance.now();
        addEventListener("hashchange", () => requestAnimationFrame(() =>
            setTimeout(() => done(performance.now() - start))), {{ once: true }});
        location.hash = "{address}";
    }})"""


def _wait(browser: Browser, condition: str) -> None:
    while not browser.run(condition):
        time.sleep(0.01)


def main(arguments: list[str] | None = None) -> None:
    """Write the page, open it, and print its size and times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="output of `eventformers explore`")
    parser.add_argument("--copies", type=int, default=1, help="how often each document is shown")
    chosen = parser.parse_args(arguments)
    program = find_browser()
    if program is None:
        parser.error("no Chromium and no Chrome is installed")
    with TemporaryDirectory(prefix="exploration-") as name:
        folder = Path(name)
        copy_tables(chosen.folder, folder, chosen.copies)
        begin = time.perf_counter()
        page = write_page(folder)
        written = time.perf_counter() - begin
        counts = [pq.read_metadata(folder / f"{table}.parquet").num_rows for table in ("documents", "events")]
        print(f"{counts[0]:,} documents, {counts[1]:,} events")
        print(f"{'page':30} {page.stat().st_size / 1e6:8.1f} MB, written in {written:.1f} s")
        for what, seconds in measure(page, program).items():
            print(f"{what:30} {seconds:8.2f}")


if __name__ == "__main__":
    main()
