"""The page of an exploration: one file that shows all tables in a browser, without network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml
from markupsafe import Markup

from eventformers.datasets_scripts.events import (
    DOCUMENT_SCHEMA,
    DOCUMENTS_TABLE,
    EVENT_SCHEMA,
    EVENTS_TABLE,
    FACTUALITIES,
    check_factuality,
    is_counted,
)
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import EventformersError
from eventformers.exploration import PAGE_FILE, REPORT_FILE
from eventformers.exploration.curation import KINDS
from eventformers.exploration.network import NETWORK_FILES
from eventformers.exploration.page_data import (
    NEIGHBOURS_TOGETHER,
    TEXTS_TOGETHER,
    compressed,
    data_blocks,
    used_actors,
)
from eventformers.exploration.related import COMPLETIONS_JUDGED, NEXT_JUDGED
from eventformers.exploration.steps import Context, Step, StepRun
from eventformers.extraction.wide import JOINED_TABLES, WIDE_FILES, write_wide
from eventformers.files import packaged_yaml, write_explained, write_text
from eventformers.inference.report_pages import render_page
from eventformers.provenance import installed_version

_HERE = Path(__file__).parent
_SCRIPTS = tuple(
    f"{name}.js"
    for name in (
        *("page_data", "page_state", "page_lists", "page_document", "page_map", "page_table", "page_actors"),
        *("page_stories", "page_places", "page_compare", "page_edit", "page"),
    )
)
# Multiples of the golden angle keep the hues of neighbouring numbers far apart; more hues look alike.
_GOLDEN_ANGLE = 137.508
_HUES = 24
_VIEWS, _TABLES = packaged_yaml(__file__, "page.yaml").values()


def write_page(
    folder: str | Path,
    page: Path | None = None,
    factuality: Sequence[str] = FACTUALITIES,
    curation: str | Path | None = None,
) -> Path:
    """Write the page from the tables of an exploration; what a step did not make is left out.

    The page needs no other file, except that its download links lead to the tables beside it.

    Args:
        folder: folder of the exploration, with at least `documents.parquet` and `events.parquet`.
        page: the file to write; None writes `index.html` in the folder.
        factuality: kinds of factuality of the events that the page lists and counts at first.
        curation: file of the edits that were applied; those made on the page follow them in its download.

    Returns:
        Path to the page.

    Raises:
        EventformersError: the folder lacks one of these tables, the page cannot be written, or a kind of
            factuality is unknown.
    """
    folder = Path(folder)
    paths = {name: folder / f"{name}.parquet" for name in _TABLES if name != "vectors"}
    tables = {name: read_parquet(path) for name, path in paths.items() if path.exists()}
    missing = [f"{name}.parquet" for name in ("documents", "events") if name not in tables]
    if missing:
        raise EventformersError(
            f"{folder} has no {' and no '.join(missing)}; accepted: the output folder of explore"
        )
    tables = {
        name: table for name, table in tables.items() if table.num_rows or name in ("documents", "events")
    }
    # Tables of earlier versions lack these.
    for name, schema in (("documents", DOCUMENT_SCHEMA), ("events", EVENT_SCHEMA)):
        for column in schema:
            if column.name not in tables[name].column_names:
                empty = pa.nulls(tables[name].num_rows, column.type)
                if pa.types.is_string(column.type):
                    empty = pc.fill_null(empty, "")
                tables[name] = tables[name].append_column(column, empty)
    kinds = check_factuality(factuality)
    report_file = folder / REPORT_FILE
    report = read_json_object(report_file, "the report of an exploration") if report_file.exists() else {}
    edits = None if curation is None else yaml.safe_load(Path(curation).expanduser().read_text("utf-8"))
    page = folder / PAGE_FILE if page is None else page
    with write_explained(page):
        write_text(page, _page(folder, tables, report, kinds, edits))
    return page


def _page(
    folder: Path,
    tables: dict[str, pa.Table],
    report: dict[str, Any],
    factuality: Sequence[str],
    edits: dict[str, Any] | None,
) -> str:
    plotly = ""
    if "map" in tables and find_spec("plotly"):
        from plotly.offline import get_plotlyjs

        plotly = get_plotlyjs()
    notes = list(report.get("notes", []))
    if "map" in tables and not plotly:
        del tables["map"]
        notes.append('The page has no map, because plotly is missing: pip install "eventformers[explore]".')
    events = tables["events"]
    document = pc.index_in(events["document_id"], tables["documents"]["document_id"])
    events = events.append_column("document", document)
    # The page finds the events of a document by binary search.
    events = events.append_column("counted", is_counted(events["factuality"], factuality))
    tables["events"] = events = events.sort_by([("document", "ascending"), ("number", "ascending")])
    actors = used_actors(events, tables.pop("actors")) if "actors" in tables else None
    if actors is not None and actors.num_rows:
        tables["actors"] = actors
    types = _types(tables)
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    blocks = data_blocks(tables, types)
    if edits:
        blocks["curation"] = compressed(json.dumps(edits, ensure_ascii=False).encode())
    if plotly:
        blocks["plotly"] = _packed_script(plotly)
    dated = pc.any(pc.not_equal(tables["documents"]["date"], "")).as_py() or False
    sourced = pc.count_distinct(tables["documents"]["source"]).as_py() > 1
    has = {name: name in blocks for name in ("actors", "stories", "places", "types")}
    has["compare"] = dated or sourced
    files = {f"{name}.parquet": holds for name, holds in _TABLES.items()}
    files |= dict.fromkeys(WIDE_FILES.values(), "a row an event, with all that is known of it")
    files |= dict.fromkeys(NETWORK_FILES, "the network of who acts on whom")
    return render_page(
        _HERE / "page.html.jinja",
        documents=tables["documents"].num_rows,
        events=pc.sum(events["counted"]).as_py() or 0,
        others=pc.sum(pc.invert(events["counted"])).as_py() or 0,
        factuality=factuality,
        chains=tables["chains"].num_rows if "chains" in tables else 0,
        types=types,
        families=[
            (family, list(members)) for family, members in groupby(types, key=lambda each: each["family"])
        ],
        kinds=[kind for kind in FACTUALITIES if pc.any(pc.equal(events["factuality"], kind)).as_py()],
        dated=dated,
        views=[(name, title) for name, title in _VIEWS.items() if has.get(name, True)],
        sourced=sourced,
        has=has,
        mapped="map" in tables,
        texts_together=TEXTS_TOGETHER,
        neighbours_together=NEIGHBOURS_TOGETHER,
        related=NEXT_JUDGED,
        completed=COMPLETIONS_JUDGED,
        notes=notes,
        settings={
            step: _shown(settings) for step, settings in report.get("settings", {}).items() if settings
        },
        seconds=report.get("seconds", {}),
        new={name: count for name, count in report.get("new", {}).items() if count},
        downloads=[
            {"file": name, "holds": holds, "size": (folder / name).stat().st_size}
            for name, holds in files.items()
            if (folder / name).exists()
        ],
        blocks=[{"name": name, "content": Markup(content)} for name, content in blocks.items()],  # noqa: S704
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own files
        # The content security policy allows only these scripts.
        script_sources=" ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
            for source in (script, plotly)
            if source
        ),
    )


@lru_cache(maxsize=1)
def _packed_script(source: str) -> str:
    """Pack a library, which is the same in every page of a process."""
    return compressed(source.encode())


def _types(tables: dict[str, pa.Table]) -> list[dict[str, Any]]:
    if "types" not in tables:
        return []
    texts = dict(
        zip(tables["events"]["event_id"].to_pylist(), tables["events"]["text"].to_pylist(), strict=True)
    )
    numbers = {event_id: number for number, event_id in enumerate(texts)}
    # Types of a list or of an earlier run may have no event in these texts.
    rows = [row for row in tables["types"].to_pylist() if row["size"]]
    sizes: Counter[str] = Counter()
    for row in rows:
        # Tables of earlier versions have no families.
        row["family"] = row.get("family") or ""
        sizes[row["family"]] += row["size"]
    families = [family for family, _ in sizes.most_common() if family] + [""]
    rows.sort(key=lambda row: (families.index(row["family"]), -row["size"]))
    largest = max((row["size"] for row in rows), default=1)
    return [
        row
        | {
            "hue": round(families.index(row["family"]) * 360 / (len(families) - 1))
            if row["family"]
            else round(number % _HUES * _GOLDEN_ANGLE % 360),
            "number": number,
            "share": round(100 * row["size"] / largest, 1),
            "examples": [
                {"event": numbers[event_id], "text": texts[event_id]}
                for event_id in row["examples"]
                if event_id in numbers
            ],
        }
        for number, row in enumerate(rows)
    ]


def _shown(value: object) -> str:
    """A setting as a text; settings of None are left out."""
    if isinstance(value, dict):
        named = ((name.replace("_", " "), _shown(each)) for name, each in value.items() if each is not None)
        return "; ".join(f"{name}: {each}" for name, each in named)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_shown, value)) if isinstance(value, list) else str(value)


def _wide_table(name: str) -> Step:
    """The step that writes a wide table of events, if its format is chosen."""

    def settings(context: Context) -> dict[str, str] | None:
        chosen = context.settings.file_format
        return {"format": chosen} if chosen and WIDE_FILES[chosen] == name else None

    def run(step: StepRun) -> None:
        write_wide(step.folder, step.context.settings.file_format or "", step.path(name))

    return Step(
        f"wide_{Path(name).suffix[1:]}",
        run,
        reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
        may_read=JOINED_TABLES,
        writes=(name,),
        settings=settings,
    )


WIDE_TABLES = tuple(map(_wide_table, dict.fromkeys(WIDE_FILES.values())))
"""The steps that write a wide table, one for each file."""


def _write(run: StepRun) -> None:
    settings = run.context.settings
    page = write_page(run.folder, run.path(PAGE_FILE), settings.factuality, settings.curation)
    run.counts["kilobytes"] = page.stat().st_size // 1000


PAGE = Step(
    "page",
    _write,
    reads=(DOCUMENTS_TABLE, EVENTS_TABLE),
    may_read=(
        *(f"{name}.parquet" for name in _TABLES),
        *(*dict.fromkeys(WIDE_FILES.values()), *NETWORK_FILES, REPORT_FILE),
    ),
    writes=(PAGE_FILE,),
    settings=lambda context: {
        "plotly": installed_version("plotly") or "",
        "factuality": list(context.settings.factuality),
        "curation": [context.curation_identity(kind) for kind in KINDS],
    },
)
