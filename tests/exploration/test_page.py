"""The page of an exploration in a real browser: search, map, reader, keyboard, narrow screens."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from browser import contrast
from exploration_tables import HOSTILE, write_tables
from page_in_browser import assert_no_complaint, search, show, texts, wait_for

from eventformers.errors import EventformersError
from eventformers.exploration import page as page_module
from eventformers.exploration.page import write_page

ROWS = "[...document.querySelectorAll('#event-list .row')]"
VIEWS = ("#view=", "#view=documents", "#view=types", "#view=about", "#event=3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exploration")
    write_tables(folder)
    write_page(folder)
    return folder


@pytest.fixture(scope="module")
def unmapped(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """The same without the map, whose library takes a browser most of the time of a page."""
    unmapped = tmp_path_factory.mktemp("unmapped")
    shutil.copytree(folder, unmapped, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "find_spec", lambda name: None)
        write_page(unmapped)
    return unmapped


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exploration with documents and events only, without dates."""
    folder = tmp_path_factory.mktemp("bare")
    write_tables(folder, dates=False)
    for path in folder.iterdir():
        if path.name not in ("documents.parquet", "events.parquet"):
            path.unlink()
    write_page(folder)
    return folder


def test_what_is_no_fact_is_listed_when_asked(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "find_spec", lambda name: None)
    write_tables(tmp_path)
    events = pq.read_table(tmp_path / "events.parquet")
    kinds = ["fact", "possible", "", "negated"] * 24
    said = {"subject_span": "Tory leader Michael Howard", "time_text": "in October 2004"}
    said |= {"time_start": "2004-10", "place_text": "London", "country": "GB"}
    for name, values in ({"factuality": kinds} | {name: [text] * 96 for name, text in said.items()}).items():
        events = events.append_column(name, [values])
    pq.write_table(events, tmp_path / "events.parquet")
    documents = pq.read_table(tmp_path / "documents.parquet")
    addresses = ["javascript:alert(1)", "https://example.org/a", *[""] * 10]
    pq.write_table(documents.append_column("url", [addresses]), tmp_path / "documents.parquet")
    write_page(tmp_path, factuality=["fact"])
    show(browser, tmp_path)
    status = "document.getElementById('status').textContent"
    # Events of unknown factuality count, too.
    assert browser.run(status) == "48 events in 12 documents"
    assert "48 events (fact) of 96" in browser.run("document.querySelector('header p').textContent")
    assert texts(browser, "#told option") == ["Fact", "Only negated", "Only possible", "All"]
    browser.run("told.value = 'all'; told.dispatchEvent(new Event('change'))")
    wait_for(browser, f"{status} === '96 events in 12 documents'")
    show(browser, tmp_path, "#event=1")
    wait_for(browser, "document.querySelector('#reader-event .roles') !== null")
    assert "told aspossible" in texts(browser, "#reader-event .roles div")
    shown = {"subjectTory leader Michael Howard", "whenin October 2004, 2004-10", "whereLondon, GB"}
    assert shown <= set(texts(browser, "#reader-event .roles div"))
    assert texts(browser, "#reader-facts a") == []
    show(browser, tmp_path, "#event=8")
    wait_for(browser, "document.querySelector('#reader-facts a') !== null")
    assert browser.run("document.querySelector('#reader-facts a').href") == "https://example.org/a"
    with pytest.raises(EventformersError, match="unknown factuality"):
        write_page(tmp_path, factuality=["true"])


def test_the_page_asks_for_nothing_and_complains_of_nothing(browser, folder):
    show(browser, folder, mapped=True)
    assert browser.run("document.getElementById('status').textContent") == "96 events in 12 documents"
    asked = {event["request"]["url"].split(":")[0] for event in browser.told("Network.requestWillBeSent")}
    assert asked <= {"file", "data", "blob"}
    assert (
        len([url for url in browser.told("Network.requestWillBeSent") if "file" in url["request"]["url"]])
        == 1
    )
    assert_no_complaint(browser)


def test_search_finds_words_of_all_roles_and_titles(browser, unmapped):
    show(browser, unmapped)
    rows = pq.read_table(unmapped / "events.parquet").to_pylist()
    by_role = [row for row in rows if "elect" in row["predicate"] or "election" in row["object"]]
    documents = {row["document_id"] for row in by_role}
    titled = [row for row in rows if row["document_id"] in ("news/4",)]
    expected = {row["event_id"] for row in [*by_role, *titled]}
    assert search(browser, "ÉLECT").startswith(
        f"{len(expected)} events in {len(documents | {'news/4'})} documents"
    )
    # Events with the word in a role come before those of a document with the word in its title.
    shown = texts(browser, "#event-list .row .sentence")
    wait_for(browser, f"{ROWS}.every((row) => row.querySelector('mark'))")
    assert all("elect" in text for text in shown[: len(by_role)][:30])
    two = f"{rows[9]['object'].split()[-1]} {rows[9]['subject'].split()[-1]}"
    search(browser, two)
    assert rows[9]["text"] in browser.run("chosenEvents(stateOf(location.hash)).map(eventText)")
    assert search(browser, "no such words") == "Nothing found."
    assert texts(browser, "#event-list .row") == []
    browser.run("document.getElementById('clear').click()")
    wait_for(browser, f"{ROWS}.length === 30")
    browser.run("document.querySelector('.list .more').click()")
    assert browser.run(f"{ROWS}.length") == 60


def test_a_click_opens_the_document_with_its_triggers(browser, folder):
    show(browser, folder)
    browser.run(f"{ROWS}[0].click()")
    wait_for(browser, "reader.open && document.querySelector('#reader-event .roles') !== null")
    rows = pq.read_table(folder / "events.parquet").to_pylist()
    assert texts(browser, ".trigger[data-shown]") == [
        rows[browser.run("stateOf(location.hash).event")]["trigger"]
    ]
    # The first document starts with an emoji, which takes two places in JavaScript.
    show(browser, folder, "#event=0")
    wait_for(browser, "document.querySelector('#similar') !== null")
    assert texts(browser, "#reader-text .trigger") == [row["trigger"] for row in rows[:8]]
    assert texts(browser, ".trigger[data-shown]") == [rows[0]["trigger"]]
    assert texts(browser, "#reader-event h3") == [
        "Type",
        "Link to the knowledge base",
        "Chain of the minister",
        "Related events",
        "Completions",
        "More like this",
    ]
    # How good the lists are stands beside them.
    assert [text.split(":")[0] for text in texts(browser, "#reader-event section > h3 + p.weak")] == [
        "Few related events come next",
        "Few completions fit",
    ]
    assert texts(browser, "#reader-event .roles dd")[:3] == [
        rows[0][role] for role in ("subject", "predicate", "object")
    ]
    browser.run("reader.querySelectorAll('.trigger')[5].click()")
    wait_for(browser, "document.querySelector('.trigger[data-shown]').dataset.event === '5'")
    # Its number is odd, so that the knowledge base has nothing for it.
    browser.run("location.hash = '#event=95'")
    wait_for(browser, "document.querySelector('#reader-event .weak')?.textContent.startsWith('NULL')")
    browser.press("Escape", 27)
    wait_for(browser, "!reader.open && location.hash === ''")


def test_more_like_this_lists_the_neighbours_of_the_table(browser, folder):
    show(browser, folder, "#event=7")
    wait_for(browser, "document.getElementById('similar') !== null")
    placed = pq.read_table(folder / "map.parquet").to_pylist()
    near = placed[7]["neighbors"]
    expected = [
        (placed[row]["text"], f"{1 - distance:.2f}")
        for row, distance in zip(near["ids"], near["distances"], strict=True)
        if row != 7
    ]
    found = list(zip(texts(browser, "#similar a"), texts(browser, "#similar .score"), strict=True))
    assert [text for text, _ in found] == [text for text, _ in expected]
    assert all(
        abs(float(one) - float(other)) < 0.011 for (_, one), (_, other) in zip(found, expected, strict=True)
    )
    other = next(row for row in near["ids"] if row != 7)
    browser.run("document.querySelector('#similar a').click()")
    wait_for(browser, f"document.querySelector('.trigger[data-shown]').dataset.event === '{other}'")


def test_the_map_shows_all_events_and_a_click_opens_one(browser, folder):
    show(browser, folder, mapped=True)
    drawn = "plot.data.filter((trace) => trace.hoverinfo === 'none').flatMap((trace) => [...trace.meta])"
    assert sorted(browser.run(drawn)) == list(range(96))
    assert len(texts(browser, "#labels span")) > 1
    search(browser, "striker")
    wait_for(browser, f"{drawn}.length < 96")
    striker = [
        number
        for number, row in enumerate(pq.read_table(folder / "events.parquet").to_pylist())
        if "striker" in row["subject"]
    ]
    assert sorted(browser.run(drawn)) == striker
    place = browser.run(
        """(() => {
        const trace = plot.data.find((one) => one.hoverinfo === 'none' && one.meta.length > 0);
        const box = plot.getBoundingClientRect();
        const [x, y] = ranges();
        return [box.left + (trace.x[0] - x[0]) / (x[1] - x[0]) * box.width,
            box.top + (y[1] - trace.y[0]) / (y[1] - y[0]) * box.height];
    })()"""
    )
    mouse: dict[str, Any] = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0] - 3, y=place[1])
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    wait_for(browser, "!tip.hidden")
    browser.call("Input.dispatchMouseEvent", type="mousePressed", **mouse)
    browser.call("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
    wait_for(browser, "reader.open")
    assert browser.run("stateOf(location.hash).event") in striker


def test_the_keyboard_alone_is_enough(browser, folder):
    show(browser, folder, mapped=True)
    browser.run("words.focus()")
    focused = []
    for _ in range(10):
        browser.press("Tab", 9)
        focused.append(browser.run("document.activeElement.id || document.activeElement.className || 'bar'"))
    assert focused[:3] == ["type", "more-filters", "bar"]
    assert focused[3:] == ["region", "zoom-in", "zoom-out", "zoom-all", "plot", "row", "row"]
    browser.press("Enter", 13, "\r")
    wait_for(browser, "reader.open")
    browser.press("Escape", 27)
    wait_for(browser, "!reader.open")
    assert browser.run("document.activeElement === document.querySelectorAll('#event-list .row')[1]")
    browser.run("bars.firstElementChild.focus()")
    browser.press("ArrowRight", 39)
    browser.press(" ", 32, " ")
    wait_for(browser, "bars.children[1].getAttribute('aria-pressed') === 'true'")
    assert "from Feb 2019" in browser.run("document.getElementById('status').textContent")
    before = browser.run("ranges()")
    browser.run("plot.focus()")
    browser.press("+", 187, "+")
    wait_for(browser, f"ranges()[0][0] > {before[0][0]}")


def test_the_filters_of_an_address_are_shown(browser, unmapped):
    show(browser, unmapped)
    number = browser.run("types.name.texts.findIndex((name) => name.startsWith('found'))")
    show(browser, unmapped, f"#type={number}&from=2019-01-10&until=2019-01-10")
    rows = pq.read_table(unmapped / "events.parquet").to_pylist()
    found = [row for row in rows if row["document_id"] == "news/1" and row["lemma"] == "found"]
    assert browser.run(f"{ROWS}.length") == len(found)
    assert browser.run("document.getElementById('type').value") == str(number)
    show(browser, unmapped, "#type=99&event=x&view=none")
    assert browser.run("document.getElementById('status').textContent") == "96 events in 12 documents"


def test_hostile_texts_do_nothing_and_a_narrow_screen_does_not_scroll_sideways(browser, folder, unmapped):
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=360, height=760, deviceScaleFactor=1, mobile=False
    )
    for address in VIEWS:
        show(browser, folder if address == "#view=" else unmapped, address)
        assert browser.run("document.documentElement.scrollWidth") <= 360, address
    wait_for(browser, "reader.open")
    assert browser.run("reader.scrollWidth") <= 360
    assert browser.run("document.getElementById('reader-title').textContent") == HOSTILE
    assert browser.run("document.querySelectorAll('img, b').length") == 0
    assert browser.run("document.title") == "Events in 12 documents"
    assert_no_complaint(browser)
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(scheme, browser, folder):
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    show(browser, folder, "#event=3")
    wait_for(browser, "document.querySelector('#similar') !== null")
    colors = browser.run(
        """['h1', '.soft', 'nav a', '#status', 'mark', '.facts', '.trigger[data-coloured]', '.roles dt',
        '.score', '.scores a', '.scores small', '[data-rejected]', '#reader-facts'].map((name) => {
        const element = document.querySelector(name);
        let back = element;
        while (getComputedStyle(back).backgroundColor === 'rgba(0, 0, 0, 0)') back = back.parentElement;
        const used = [getComputedStyle(element).color, getComputedStyle(back).backgroundColor];
        return [name, ...used.map(plotlyColour)];
    })"""
    )
    for name, color, back in colors:
        assert contrast(color, back) >= 4.5, (name, color, back)
    browser.call("Emulation.setEmulatedMedia", features=[])


def test_what_no_step_made_is_absent(browser, bare):
    show(browser, bare, "#event=3")
    wait_for(browser, "reader.open && document.querySelector('#reader-event .roles') !== null")
    assert texts(browser, "nav a") == ["Events", "Who did what", "Documents", "About"]
    assert texts(browser, "#reader-event h3, select, #time-line, .map, #view-types, .type") == []
    assert texts(browser, "#view-about h2") == ["Tables"]
    assert texts(browser, "#view-about td a") == ["documents.parquet", "events.parquet"]
    assert_no_complaint(browser)


def test_without_plotly_a_note_replaces_the_map(tmp_path, monkeypatch):
    write_tables(tmp_path, documents=2)
    monkeypatch.setattr(page_module, "find_spec", lambda name: None)
    page = write_page(tmp_path).read_text(encoding="utf-8")
    assert 'id="plot"' not in page
    assert "no map, because plotly is missing" in page
    assert "unsafe-eval" not in page


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(EventformersError, match=r"has no documents.parquet and no events.parquet; accepted"):
        write_page(tmp_path)
    assert list(tmp_path.iterdir()) == []
