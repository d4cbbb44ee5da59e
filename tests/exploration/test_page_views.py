"""The views of the page that answer questions: who did what, actors, stories, places, comparisons."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exploration_tables import HOSTILE, PEOPLE, write_tables
from page_in_browser import assert_no_complaint, search, show, texts, wait_for

from eventformers.exploration.curation import read_curation
from eventformers.exploration.page import write_page

FORMULA = "=HYPERLINK(1)"
KINDS = ("person", "group", "organisation", "organisation", "group", "person", "group", "organisation")


def add_details(folder: Path) -> None:
    """Give the events of a folder actors, places and factuality, and group them into stories.

    The first of `PEOPLE` is the named actor "Ada Blair", the second has a hostile name, the third is a
    formula, and the others have no name. All documents but the first come from two sources.
    """
    events = pq.read_table(folder / "events.parquet")
    rows = events.to_pylist()
    names = ["Ada Blair", HOSTILE, FORMULA, *PEOPLE[3:]]
    ids = ["ada_blair", "hostile", "formula", *(f"news/0@{number}" for number in range(3, len(PEOPLE)))]
    agents = [PEOPLE.index(row["subject"]) for row in rows]
    # The next of the people, but those without a name have no one to act on.
    patients = [(agent + 1) % len(ids) if agent < 3 else None for agent in agents]
    places = [
        [("", None, None, ""), ("b", 52.5, 13.4, "DE"), ("", None, None, "FR")][n % 3]
        for n in range(len(rows))
    ]
    details = {
        "subject_id": [ids[agent] for agent in agents],
        "object_id": ["" if patient is None else ids[patient] for patient in patients],
        "place_id": [place[0] for place in places],
        "place_text": [("", "Berlin", "Provence")[number % 3] for number in range(len(rows))],
        "latitude": pa.array([place[1] for place in places], pa.float64()),
        "longitude": pa.array([place[2] for place in places], pa.float64()),
        "country": [place[3] for place in places],
        "time_start": [("2019-02-03", "", "")[number % 3] for number in range(len(rows))],
        "factuality": ["reported" if number % 8 == 7 else "fact" for number in range(len(rows))],
    }
    for name, values in details.items():
        events = events.append_column(name, values if isinstance(values, pa.Array) else pa.array(values))
    pq.write_table(events, folder / "events.parquet")
    actors = {
        "actor_id": ids,
        "name": names,
        "kind": KINDS,
        "aliases": [["Blair"], *[[] for _ in ids[1:]]],
        "mentions": pa.array([1] * len(ids), pa.int32()),
    }
    pq.write_table(pa.table(actors), folder / "actors.parquet")
    documents = pq.read_table(folder / "documents.parquet")
    sources = ["samples", *(f"paper {number % 2}" for number in range(1, documents.num_rows))]
    place = documents.column_names.index("source")
    pq.write_table(documents.set_column(place, "source", [sources]), folder / "documents.parquet")
    # The first events of the documents 3, 1 and 2 are one story.
    same = ["news/3#0", "news/1#0", "news/2#0"]
    story = {
        "story_id": [same[0]],
        "name": [HOSTILE],
        "events": pa.array([3], pa.int32()),
        "documents": pa.array([3], pa.int32()),
        **{name: [""] for name in ("time_start", "time_end", "place_text", "country")},
        "first_date": ["2019-01-10"],
        "last_date": ["2019-01-28"],
        "actors": [["Ada Blair"]],
        "document_ids": [["news/3", "news/1", "news/2"]],
    }
    pq.write_table(pa.table(story), folder / "stories.parquet")
    links = {"event_id": same, "story_id": [same[0]] * 3}
    pq.write_table(pa.table(links), folder / "event_stories.parquet")


VIEWS = (
    "#view=table",
    "#view=actors",
    "#view=actors&actor=0",
    "#view=stories",
    "#view=stories&story=0",
    "#view=places",
    "#view=compare",
)
STATUS = "document.getElementById('status').textContent"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exploration")
    write_tables(folder)
    # Drawing the map takes a processor seconds; test_page.py has it.
    (folder / "map.parquet").unlink()
    add_details(folder)
    write_page(folder, factuality=["fact"])
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    """The events that are facts, with the names of their actors."""
    actors = {row["actor_id"]: row["name"] for row in pq.read_table(folder / "actors.parquet").to_pylist()}
    rows = []
    for row in pq.read_table(folder / "events.parquet").to_pylist():
        for role, name in (("subject", "who"), ("object", "whom")):
            actor = row[f"{role}_id"]
            row[name] = actors[actor] if actor and "@" not in actor else row[role]
        if row["factuality"] == "fact":
            rows.append(row)
    return rows


def cells(browser, view: str) -> list[list[str]]:
    """The texts of the rows of a table."""
    browser.run(
        f"for (const more of document.querySelectorAll('#view-{view} .rows > .more')) "
        "while (!more.hidden) more.click()"
    )
    return browser.run(
        f"[...document.querySelectorAll('#view-{view} tbody tr')].map((row) => "
        "[...row.children].map((cell) => cell.textContent))"
    )


def wait_for_file(browser, path: Path) -> None:
    for _ in range(500):
        if path.exists() and path.stat().st_size:
            return
        browser.run("new Promise((done) => setTimeout(done, 20))")
    raise AssertionError(f"{path.name} was not downloaded")


def counted(rows):
    negated = {True: "not ", False: ""}
    return Counter((row["who"], negated[row["negated"]] + row["predicate"], row["whom"]) for row in rows)


def test_the_table_counts_distinct_events(browser, folder, rows):
    show(browser, folder, "#view=table")
    found = cells(browser, "table")
    assert {(who, did, whom): int(count) for who, did, whom, *_, count in found} == counted(rows)
    show(browser, folder, "#view=table&sort=Events")
    counts = [int(row[-1]) for row in cells(browser, "table")]
    assert counts == sorted(counts, reverse=True)
    assert (
        browser.run("document.querySelector('#view-table [aria-sort]').getAttribute('aria-sort')")
        == "descending"
    )
    browser.run(
        "[...document.querySelectorAll('#view-table .sort')].find((one) => one.textContent === 'Who').click()"
    )
    wait_for(
        browser, "document.querySelector('#view-table [aria-sort=ascending] .sort')?.textContent === 'Who'"
    )
    names = [row[0].lower().strip("<=/") for row in cells(browser, "table") if row[0][0].isalpha()]
    assert names == sorted(names)


def test_a_row_opens_its_sentences(browser, folder, rows):
    show(browser, folder, "#view=table&sort=Events")
    most, count = browser.run(
        "(() => { const row = document.querySelector('#view-table tbody tr');"
        "row.querySelector('.open').click();"
        "const cells = [...row.children].map((cell) => cell.textContent);"
        "return [cells.slice(0, 3), cells.at(-1)]; })()"
    )
    assert counted(rows)[tuple(most)] == int(count)
    wait_for(browser, f"document.querySelectorAll('#view-table .below mark').length === {count}")
    browser.run("document.querySelector('#view-table .below a').click()")
    wait_for(browser, "reader.open")
    assert browser.run("stateOf(location.hash).view") == "table"


def test_words_in_a_role_are_not_words_in_a_title(browser, folder, rows):
    show(browser, folder, "#view=table")
    everywhere = search(browser, "treaty")
    titled = sum(row["document_id"] == "news/5" for row in rows if "treaty" not in row["object"])
    in_role = sum("treaty" in row["object"] and row["whom"] == row["object"] for row in rows)
    assert titled > 0
    show(browser, folder, "#view=table&whom=treaty")
    assert browser.run("document.getElementById('whom').value") == "treaty"
    assert not browser.run("fine.hidden")
    assert int(browser.run(STATUS).split()[0]) == sum("treaty" in row["object"] for row in rows) >= in_role
    assert int(everywhere.split()[0]) == sum("treaty" in row["object"] for row in rows) + titled
    # A name of the actor is found where the text has another one.
    show(browser, folder, "#view=table&who=blair")
    assert int(browser.run(STATUS).split()[0]) == sum(row["who"] == "Ada Blair" for row in rows)
    show(browser, folder, "#view=table&did=elected")
    assert {row[1].removeprefix("not ") for row in cells(browser, "table")} == {"elected"}


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("source=paper+1", lambda row: row["source"] == "paper 1"),
        ("from=2019-01-20&until=2019-02", lambda row: "2019-01-20" <= row["date"] < "2019-03"),
        ("until=2019-01", lambda row: row["date"] < "2019-02"),
        ("told=reported", lambda row: row["factuality"] == "reported"),
        ("told=all", lambda row: True),
        ("actor=0", lambda row: "ada_blair" in (row["subject_id"], row["object_id"])),
        ("story=0", lambda row: row["event_id"] in ("news/1#0", "news/2#0", "news/3#0")),
    ],
)
def test_filters(address, wanted, browser, folder):
    documents = {row["document_id"]: row for row in pq.read_table(folder / "documents.parquet").to_pylist()}
    events = pq.read_table(folder / "events.parquet").to_pylist()
    expected = [
        row
        for event in events
        if wanted(row := event | {name: documents[event["document_id"]][name] for name in ("source", "date")})
        and ("told" in address or row["factuality"] == "fact")
    ]
    show(browser, folder)
    number = browser.run("actors.name.texts.indexOf('Ada Blair')")
    show(browser, folder, f"#view=table&{address.replace('actor=0', f'actor={number}')}")
    assert int(browser.run(STATUS).split()[0]) == len(expected) > 0


def test_the_rows_are_downloaded_as_csv_without_formulas(browser, folder, rows, tmp_path):
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    show(browser, folder, "#view=table&until=2019-02")
    browser.run("document.getElementById('download').click()")
    path = tmp_path / "events.csv"
    wait_for_file(browser, path)
    found = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    assert found[0] == ["Who", "Did", "To whom", "Documents", "First", "Last", "Events"]
    dates = {
        row["document_id"]: row["date"] for row in pq.read_table(folder / "documents.parquet").to_pylist()
    }
    expected = counted(row for row in rows if dates[row["document_id"]] < "2019-03")
    escaped = {FORMULA: f"'{FORMULA}"}
    assert {tuple(row[:3]): int(row[6]) for row in found[1:]} == {
        (escaped.get(who, who), did, escaped.get(whom, whom)): count
        for (who, did, whom), count in expected.items()
    }
    assert any(FORMULA in row[0] for row in found)


def test_what_is_in_most_documents_comes_last(browser, tmp_path):
    write_tables(tmp_path)
    (tmp_path / "map.parquet").unlink()
    events = pq.read_table(tmp_path / "events.parquet")
    # All documents have an event of saying, the others are in two documents each.
    said = ["say" if number % 8 == 0 else f"open-{number // 16}" for number in range(96)]
    for name in ("lemma", "predicate"):
        events = events.set_column(events.column_names.index(name), name, [said])
    pq.write_table(events, tmp_path / "events.parquet")
    write_page(tmp_path)
    show(browser, tmp_path, "#view=table")
    dids = [row[1].removeprefix("not ") for row in cells(browser, "table")]
    assert dids.count("say") > 0
    assert "say" not in dids[: -dids.count("say")]
    listed = browser.run("chosenEvents(stateOf(location.hash)).map((event) => events.did.at(event))")
    first_round = listed[: len(dids)]
    assert "say" not in first_round[: -first_round.count("say")]


def test_actors_are_counted_by_role(browser, folder, rows):
    show(browser, folder, "#view=actors")
    found = {row[0]: (int(row[3]), int(row[4])) for row in cells(browser, "actors")}
    ada = (
        sum(row["subject_id"] == "ada_blair" for row in rows),
        sum(row["object_id"] == "ada_blair" for row in rows),
    )
    assert found["Ada Blair"] == ada
    assert found[HOSTILE][1] == ada[0]
    # Who acts on whom: Ada on the second, the second on the third, the third on the fourth.
    assert sorted(texts(browser, ".network title"))[0].startswith(f"{HOSTILE} acts on {FORMULA}: ")
    assert len(texts(browser, ".network path title")) == 3
    browser.run(
        "[...document.querySelectorAll('#view-actors .rows a')]"
        ".find((one) => one.textContent === 'Ada Blair').click()"
    )
    wait_for(browser, "document.querySelector('.own h2')?.textContent === 'Ada Blair'")
    assert texts(browser, ".own > .soft") == ["person · also Blair"]
    titles = texts(browser, ".own h3")
    assert titles[0] == f"Did ({ada[0]})"
    assert {"Acted on", "When, by the texts", "Where", "Types"} <= set(titles)
    assert int(browser.run(STATUS).split()[0]) == sum(ada)
    browser.run("document.querySelector('.chip').click()")
    wait_for(browser, "document.querySelector('.own').children.length === 0")


def test_a_story_has_its_reports_in_the_order_of_their_dates(browser, folder):
    show(browser, folder, "#view=stories")
    (row,) = cells(browser, "stories")
    assert row[0] == HOSTILE
    assert row[1] == "10 Jan 2019"
    assert "Report 1" in row[4]
    assert row[5:] == ["2", "3"]
    browser.run("document.querySelector('#view-stories td a').click()")
    wait_for(browser, "document.querySelectorAll('#view-stories section mark').length === 3")
    assert [title.split(" · ")[0] for title in texts(browser, "#view-stories h3")] == [
        "10 Jan 2019",
        "19 Jan 2019",
        "28 Jan 2019",
    ]


def test_places_are_circles_and_filter(browser, folder, rows):
    show(browser, folder, "#view=places")
    wait_for(browser, "document.querySelectorAll('.circles circle').length === 2")
    # A place without coordinates is its country.
    expected = Counter({"Berlin": 0, "France": 0})
    for row in rows:
        expected[{"": "", "DE": "Berlin", "FR": "France"}[row["country"]]] += 1
    del expected[""]
    assert {name: int(count) for name, count in cells(browser, "places")} == expected
    circle = browser.run(
        "(() => { const box = [...document.querySelectorAll('.circles circle')].find((one) => "
        "one.textContent.startsWith('Berlin')).getBoundingClientRect();"
        "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.call(
            "Input.dispatchMouseEvent", type=kind, x=circle[0], y=circle[1], button="left", clickCount=1
        )
    wait_for(browser, f"{STATUS}.startsWith('{expected['Berlin']} events')")
    width = browser.run("world.box[2]")
    browser.run("document.querySelector('[data-zoom=\"0.5\"]').click()")
    assert browser.run("world.box[2]") == width / 2


def test_log_odds_with_a_prior(browser, folder):
    show(browser, folder, "#view=compare&one=source%3Dpaper+0&other=source%3Dpaper+1")
    left, right = {"win": 30, "lose": 10, "draw": 0}, {"win": 12, "lose": 30, "draw": 8}
    found = browser.run(
        f"logOdds(new Map(Object.entries({left})), new Map(Object.entries({right})))"
        ".map(({ value, ratio, low, high }) => [value, ratio, low, high])"
    )
    whole = sum(left.values()) + sum(right.values())

    def odds(count: int, total: int, prior: float) -> float:
        return math.log((count + prior) / (total + 100 - count - prior))

    for value, ratio, low, high in found:
        one, other = left[value], right[value]
        prior = 100 * (one + other) / whole
        expected = odds(one, 40, prior) - odds(other, 50, prior)
        error = math.sqrt(1 / (one + prior) + 1 / (other + prior))
        assert (ratio, low, high) == pytest.approx(
            (expected, expected - 1.96 * error, expected + 1.96 * error)
        )
    # By hand: (30 + 46.67) of 140 against (12 + 46.67) of 150.
    assert dict((value, ratio) for value, ratio, *_ in found)["win"] == pytest.approx(0.6336, abs=1e-4)
    assert [value for value, *_ in found] == ["win", "lose", "draw"]


def test_sources_and_periods_are_compared(browser, tmp_path):
    write_tables(tmp_path, documents=40)
    (tmp_path / "map.parquet").unlink()
    add_details(tmp_path)
    events = pq.read_table(tmp_path / "events.parquet")
    odd = [int(document.split("/")[1]) % 2 for document in events["document_id"].to_pylist()]
    lemmas = ["strike" if is_odd and number % 2 else "meet" for number, is_odd in enumerate(odd)]
    for name in ("lemma", "predicate"):
        events = events.set_column(events.column_names.index(name), name, [lemmas])
    pq.write_table(events, tmp_path / "events.parquet")
    write_page(tmp_path)
    show(browser, tmp_path, "#view=compare&one=source%3Dpaper+0&other=source%3Dpaper+1")
    tables = "[...document.querySelectorAll('.differences section')].map((one) => one.innerText)"
    predicates = next(text for text in browser.run(tables) if text.lower().startswith("predicates"))
    assert "strike" in predicates
    assert "meet" in predicates
    # Without a choice of periods, the two halves of the time are compared.
    show(browser, tmp_path, "#view=compare&one=period")
    assert texts(browser, ".differences option:checked") == ["Jan 2019 – Jun 2019", "Jul 2019 – Dec 2019"]
    show(browser, tmp_path, "#view=compare&one=period%3D2019-01..2019-01&other=period%3D2019-02..2019-02")
    assert browser.run("document.querySelector('.differences select').value") == "period=2019-01..2019-01"
    assert len(texts(browser, ".over-time tbody tr")) == 10
    browser.run(
        "(() => { const by = document.querySelector('.over-time select'); by.value = 'sources';"
        "by.dispatchEvent(new Event('change')); })()"
    )
    wait_for(browser, "document.querySelectorAll('.over-time tbody tr').length === 3")


def test_types_of_a_family_have_one_colour(browser, tmp_path):
    write_tables(tmp_path)
    types = pq.read_table(tmp_path / "types.parquet")
    families = ["<b>Politics</b>", "Sport", "", "Sport", *[""] * 6]
    pq.write_table(types.append_column("family", [families]), tmp_path / "types.parquet")
    write_page(tmp_path)
    show(browser, tmp_path, "#view=types")
    assert set(texts(browser, "h2.family")) == {"<b>Politics</b>", "Sport"}
    hues = browser.run(
        "[...types.family.values].map((code, row) => [types.family.texts[code], types.hue.at(row)])"
    )
    assert len({hue for family, hue in hues if family == "Sport"}) == 1
    assert browser.run("document.querySelectorAll('#type optgroup').length") == 2


def test_edits_are_downloaded_after_the_earlier_ones(browser, tmp_path):
    tables = tmp_path / "tables"
    write_tables(tables)
    (tables / "map.parquet").unlink()
    add_details(tables)
    known = pq.read_table(tables / "actors.parquet")
    namesakes = [*known["name"].to_pylist()[:3], "Sam Low", "Sam Low", *known["name"].to_pylist()[5:]]
    place = known.column_names.index("name")
    pq.write_table(known.set_column(place, "name", pa.array(namesakes)), tables / "actors.parquet")
    earlier = tmp_path / "earlier.yaml"
    earlier.write_text("types:\n- {drop: 'arrested, a goal'}\nactors: null\n", encoding="utf-8")
    write_page(tables, curation=earlier)
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))

    def edit(button: str, **fields: str) -> None:
        browser.run(
            "(() => { const box = document.querySelector('section:not([hidden]) .edit'); box.open = true;"
            f"for (const [label, value] of Object.entries({fields}))"
            "box.querySelector(`[aria-label=${label}]`).value = value;"
            "[...box.querySelectorAll('button')]"
            f".find((one) => one.textContent === {button!r}).click(); }})()"
        )

    show(browser, tables, "#view=types")
    first, second = browser.run("[types.name.at(0), types.name.at(1)]")
    edit("Rename", Name=second)
    assert texts(browser, "#view-types .edit [role=status]")[0].startswith("Another type has this name")
    ours = "Ours: <b>\u2028\x7fand ours"
    edit("Rename", Name=ours)
    edit("Merge into this", Other=second)
    browser.run(f"location.hash = 'view=actors&actor=' + actors.name.texts.indexOf({HOSTILE!r})")
    wait_for(browser, "document.querySelector('.own .edit') !== null")
    edit("Merge into this", Other="nobody")
    edit("Merge into this", Other="Ada Blair")
    edit("Merge into this", Other="Sam Low")
    edit("Merge into this", Other="Sam Low (news/0@4)")
    browser.run("location.hash = 'view=stories&story=0'")
    wait_for(browser, "document.querySelector('#view-stories .edit') !== null")
    edit("Drop")
    assert browser.run("document.querySelector('#edits span').textContent").startswith("5 edits")
    browser.run("document.getElementById('download-edits').click()")
    path = tmp_path / "curation.yaml"
    wait_for_file(browser, path)
    found = read_curation(path)
    assert [(one.action, one.of, one.to) for one in found["types"]] == [
        ("drop", ("arrested, a goal",), ""),
        ("rename", (first,), ours),
        ("merge", (ours, second), ""),
    ]
    assert [(one.action, one.of) for one in found["actors"]] == [
        ("merge", ("hostile", "ada_blair")),
        ("merge", ("hostile", "news/0@4")),
    ]
    assert [(one.action, one.of) for one in found["stories"]] == [("drop", ("news/3#0",))]


def test_hostile_texts_do_nothing_and_no_view_scrolls_sideways(browser, folder):
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=360, height=760, deviceScaleFactor=1, mobile=False
    )
    for address in VIEWS:
        show(browser, folder, address)
        wait_for(browser, "document.querySelector('main section:not([hidden])').textContent.length > 0")
        assert browser.run("document.querySelectorAll('img, b').length") == 0
        assert browser.run("document.title") == "Events in 12 documents"
        assert browser.run("document.documentElement.scrollWidth") <= 360, address
    assert_no_complaint(browser)
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_the_keyboard_reaches_what_the_views_offer(browser, folder):
    show(browser, folder, "#view=table")
    browser.run("document.getElementById('download').focus()")
    browser.press("Tab", 9)
    assert browser.run("document.activeElement.textContent") == "Who"
    browser.press("Enter", 13, "\r")
    wait_for(browser, "document.querySelector('#view-table [aria-sort=ascending]') !== null")
    assert browser.run("document.activeElement.textContent") == "Who"
    browser.run("document.querySelector('#view-table .open').focus()")
    browser.press(" ", 32, " ")
    wait_for(browser, "document.querySelector('#view-table .below') !== null")
    assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "true"
