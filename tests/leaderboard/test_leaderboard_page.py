"""The page of a leaderboard: whole, escaped, right without a browser, and at work in a real one."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import runpy
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import Browser, contrast, luminance
from html_pages import Page
from leaderboard_inputs import make_result, measured

import eventformers
from eventformers.errors import EventformersError
from eventformers.evaluation.results import write_result
from eventformers.leaderboard import page as leaderboard_app
from eventformers.leaderboard.board import build_leaderboard
from eventformers.leaderboard.page import cell_text, leaderboard_page, markdown, to_json, write_page

BAD_NAME = "<script>document.title='run'</script> | & \"quoted\""


def measurements() -> list:
    """Three models of two datasets, with seeds, ties, gaps, and a score that is not defined."""
    return [
        *(measured(model=f"steady-seed-{seed}", value=70.0 + seed, seed=seed) for seed in (1, 2, 3)),
        measured(model="fast", value=72.0, seed=5, texts=9000, parameters=7_000_000, variant="cls"),
        measured(model="Weak", value=9.5, seed=6, parameters=110_000_000),
        measured("transitive_similarity", "Weak", 0.25, seed=6),
        measured("transitive_similarity", "fast", None, seed=5, variant="cls", texts=None, seconds=None),
        measured("copa", BAD_NAME, 61.0, seed=7, card="https://huggingface.co/org/a b"),
    ]


@pytest.fixture(scope="module")
def text() -> str:
    return leaderboard_page(build_leaderboard(measurements()))


@pytest.fixture(scope="module")
def parsed(text: str) -> Page:
    return Page(re.sub(r"<script>.*</script>", "", text, flags=re.DOTALL).replace('autocomplete="off"', ""))


def rows_of(page: Page, kind: str) -> list[list[tuple[str, dict[str, str | None], str]]]:
    """The cells of the rows of a kind: tag, attributes, and own text."""
    rows: list[list[tuple[str, dict[str, str | None], str]]] = []
    is_kind = False
    for tag, attributes, own in page.elements:
        if tag == "tbody":
            is_kind = attributes["data-kind"] == kind
        elif tag == "tr" and is_kind and attributes.get("class") != "kind":
            rows.append([])
        elif tag in ("td", "th") and rows and is_kind and attributes.get("scope") != "rowgroup":
            rows[-1].append((tag, attributes, "".join(own).strip()))
    return rows


def test_nothing_comes_from_elsewhere_and_only_our_script_runs(text):
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"\bsrc=|url\(|@import|<link|<iframe|<object", text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy.replace("&#39;", "'").replace("&#43;", "+")
    assert "document.title" not in script
    assert "&lt;script&gt;document.title" in text


def test_every_cell_tells_its_value_and_its_rank(parsed):
    rows = rows_of(parsed, "model")
    first = {row[1][1]["data-value"].strip(): row for row in rows}
    steady, fast, weak = first["steady"], first["fast cls"], first["Weak"]
    assert [row[0][2] for row in (steady, fast, weak)] == ["1", "1", "3"]
    assert (steady[3][1]["data-value"], steady[3][1]["data-rank"], steady[3][2]) == ("72.0", "1", "72.0")
    assert (weak[3][1]["data-value"], weak[3][1]["data-rank"]) == ("9.5", "3")
    # A gap is empty and has no value; what is not defined says so and has none either.
    assert ("data-value" in steady[4][1], steady[4][2]) == (False, "")
    assert ("data-value" in fast[4][1], fast[4][2]) == (False, "not defined")
    assert [cell[2] for cell in fast[5:]] == ["7 M", "4,500"]
    assert steady[5][2] == ""


def test_headers_can_be_sorted_by_and_say_how_they_are(parsed):
    headers = [
        attributes for tag, attributes, _ in parsed.elements if tag == "th" and "data-sort" in attributes
    ]
    similarity = [header["aria-sort"] for header in headers[:6]]
    assert similarity == ["none", "none", "descending", "none", "none", "none"]
    assert len([own for tag, _, own in parsed.elements if tag == "button"]) == len(headers)
    assert {
        label
        for label in (" ".join("".join(own).split()) for tag, _, own in parsed.elements if tag == "label")
    } == {
        "Task",
        "Name",
        "Baselines",
        "Published",
    }
    options = [attributes["value"] for tag, attributes, _ in parsed.elements if tag == "option"]
    assert options[:3] == ["", "event_similarity", "hard_similarity/test"]


def test_the_card_is_linked_from_where_the_page_lies(tmp_path):
    card = tmp_path / "runs" / "my run" / "README.md"
    found = build_leaderboard([measured(card=str(card)), measured(model="hub", card="https://hub/org/hub")])
    page = leaderboard_page(found, tmp_path / "pages")
    assert re.findall(r'href="([^"]*)"', page) == ["https://hub/org/hub", "../runs/my%20run/README.md"]


def test_the_page_is_written_whole_or_not_at_all(tmp_path):
    place = tmp_path / "new" / "board.html"
    assert write_page("first", place).read_text(encoding="utf-8") == "first"
    write_page("second", place)
    assert [path.name for path in place.parent.iterdir()] == ["board.html"]
    with pytest.raises(EventformersError, match="new: a folder; accepted: a file"):
        write_page("third", place.parent)
    with pytest.raises(EventformersError, match="cannot write"):
        write_page("third", place / "below.html")
    assert place.read_text(encoding="utf-8") == "second"


def test_markdown_keeps_kinds_apart_and_names_as_text():
    told = markdown(build_leaderboard(measurements()))
    assert (
        told.index("### Models")
        < told.index("### Baselines and untrained encoders")
        < told.index("### Published")
    )
    assert "| 1 | steady |  | 3 | 72.0 ± 1.0 |  |" in told
    assert "| 1 | fast | cls | 1 | 72.0 | not defined | 7 M | 4,500 |" in told
    assert "<script>" not in told
    assert "[&lt;script&gt;document.title='run'&lt;/script&gt; &#124; &amp; \"quoted\"](" in told
    assert "hard_similarity (test) ffffffffffff" in told


def test_json_has_no_key_for_what_is_not_known():
    told = json.loads(to_json(build_leaderboard(measurements())))
    rows = {row["model"]: row for row in told["boards"][0]["rows"]}
    assert rows["steady"]["scores"] == {
        "hard_similarity/test": {"value": 72.0, "spread": 1.0, "runs": 3, "rank": 1}
    }
    assert rows["steady"]["seeds"] == [1, 2, 3]
    assert "parameters" not in rows["steady"]
    assert rows["fast"]["scores"]["transitive_similarity/test"] == {"not_defined": 1}
    assert told["boards"][0]["columns"][0]["data"] == "f" * 12
    assert rows["SWCC, BERT-base (Gao et al. 2022)"]["kind"] == "published"


def test_a_cell_says_what_differs_from_its_row():
    found = build_leaderboard(
        [
            *(measured(model=f"a-seed-{seed}", seed=seed, value=50.0 + seed) for seed in (1, 2, 3)),
            *(
                measured("transitive_similarity", f"a-seed-{seed}", value, seed=seed)
                for seed, value in ((1, 0.5), (2, None))
            ),
        ]
    )
    board = found.boards[0]
    row = board.rows[0]
    texts = [cell_text(cell, row, column) for cell, column in zip(row.cells, board.columns, strict=True)]
    assert texts == ["52.0 ± 1.0", "0.500 (1 not defined, n = 2)"]


@pytest.fixture(scope="module")
def place(text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(text, tmp_path_factory.mktemp("leaderboard") / "board.html")


SHOWN = """[...document.querySelectorAll('#event_similarity tbody[data-kind=model] tr:not(.kind)')]
    .filter((row) => row.checkVisibility())
    .map((row) => [row.cells[0].textContent, row.cells[1].dataset.value.trim()])"""
SORTED = """Object.fromEntries([...document.querySelectorAll('#event_similarity th[data-sort]')]
    .map((header) => [header.dataset.sort, header.getAttribute('aria-sort')]))"""

VISIBLE = "[...document.querySelectorAll('{}')].filter((one) => one.checkVisibility()).map((one) => one.{})"


def click(browser: Browser, column: str) -> None:
    browser.run(f"document.querySelector('#event_similarity th[data-sort=\"{column}\"] button').click()")


def choose(browser: Browser, selector: str, value: str, event: str) -> None:
    browser.run(
        f"{{ const element = document.querySelector({selector!r}); element.value = {value!r};"
        f" element.dispatchEvent(new Event({event!r})); }}"
    )


def shown_names(browser: Browser) -> list[str]:
    return [name for _, name in browser.run(SHOWN)]


def test_the_browser_asks_for_nothing_and_complains_of_nothing(browser, place):
    browser.open(place)
    assert [event["request"]["url"] for event in browser.told("Network.requestWillBeSent")] == [
        place.as_uri()
    ]
    assert browser.told("Log.entryAdded") == browser.told("Runtime.exceptionThrown") == []
    assert browser.run("document.title") == "Leaderboard of event representations"
    assert browser.run("document.getElementById('status').textContent") == "11 of 11 rows."


def test_a_click_sorts_and_ranks_follow_the_column(browser, place):
    browser.open(place)
    assert browser.run(SHOWN) == [["1", "fast cls"], ["1", "steady"], ["3", "Weak"]]
    click(browser, "0")
    assert browser.run(SHOWN) == [["3", "Weak"], ["1", "fast cls"], ["1", "steady"]]
    assert browser.run(SORTED)["0"] == "ascending"
    # A score that is not defined and a gap come last, whatever the direction.
    click(browser, "1")
    assert shown_names(browser)[0] == "Weak"
    assert [rank for rank, _ in browser.run(SHOWN)] == ["1", "", ""]
    click(browser, "1")
    assert shown_names(browser)[0] == "Weak"
    click(browser, "model")
    assert shown_names(browser) == ["fast cls", "steady", "Weak"]
    click(browser, "parameters")
    assert shown_names(browser) == ["Weak", "fast cls", "steady"]
    assert [name for name, how in browser.run(SORTED).items() if how != "none"] == ["parameters"]
    # The heading of a kind stays above its rows.
    assert browser.run("document.querySelector('tbody tr').className") == "kind"


@pytest.mark.parametrize(("key", "code", "typed"), [("Enter", 13, "\r"), (" ", 32, " ")])
def test_a_key_sorts(key, code, typed, browser, place):
    browser.open(place)
    browser.run("document.querySelector('#event_similarity th[data-sort=model] button').focus()")
    browser.press(key, code, typed)
    assert browser.run(SORTED)["model"] == "ascending"
    assert shown_names(browser) == ["fast cls", "steady", "Weak"]
    browser.press("Tab", 9)
    browser.press(key, code, typed)
    assert browser.run(SORTED)["runs"] == "descending"
    assert shown_names(browser)[0] == "steady"


def test_filters_by_task_and_by_name(browser, place):
    browser.open(place)
    choose(browser, "#task", "transitive_similarity/test", "change")
    visible = VISIBLE.format("section.board", "id")
    headers = VISIBLE.format("th[data-key]", "dataset.key")
    assert browser.run(visible) == ["event_similarity"]
    assert browser.run(headers) == ["transitive_similarity/test"]
    assert browser.run(SHOWN) == [["1", "Weak"], ["", "fast cls"]]
    assert set(browser.run(VISIBLE.format("td[data-column]", "dataset.column"))) == {"1"}
    assert browser.run("location.hash") == "#task=transitive_similarity%2Ftest"
    choose(browser, "#task", "commonsense_qa", "change")
    assert browser.run(visible) == ["commonsense_qa"]
    choose(browser, "#task", "", "change")
    choose(browser, "#name", "FAST cl", "input")
    assert shown_names(browser) == ["fast cls"]
    assert browser.run("document.getElementById('status').textContent") == "1 of 11 rows."
    choose(browser, "#name", "nothing of this name", "input")
    assert browser.run("document.getElementById('status').textContent") == "No matching rows."
    assert browser.run(visible) == []
    choose(browser, "#name", "", "input")
    browser.run("document.querySelector('input[value=published]').click()")
    assert set(browser.run(VISIBLE.format("tbody", "dataset.kind"))) == {"model", "baseline"}


def test_a_link_with_a_task_and_a_name_shows_them(browser, place):
    browser.open(place, "#task=hard_similarity%2Ftest&name=weak")
    assert browser.run(SHOWN) == [["3", "Weak"]]
    browser.open(place, "#task=unknown")
    assert len(browser.run(SHOWN)) == 3


def test_a_screen_reader_is_told_what_there_is(browser, place):
    browser.open(place)
    assert browser.named("combobox") == ["Task"]
    assert browser.named("searchbox") == ["Name"]
    assert browser.named("checkbox") == ["Baselines", "Published"]
    assert browser.named("table") == ["Event similarity", "Commonsense questions"]
    assert browser.named("region")[:1] == ["Event similarity"]
    assert any("Hard similarity (original)" in name for name in browser.named("columnheader"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(scheme, browser, place):
    browser.open(place)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    colors = browser.run(
        """['h1', '.soft', 'button', 'thead small', '.model small', '.score small', 'a', '.variant']
    .map((name) => {
        const element = document.querySelector(name);
        const back = getComputedStyle(element.closest('.scroll') ?? document.body).backgroundColor;
        return [name, getComputedStyle(element).color, back];
    })"""
    )
    assert (luminance(colors[0][2]) < 0.05) == (scheme == "dark")
    for name, color, back in colors:
        assert contrast(color, back) >= 4.5, (name, color, back)


def test_a_narrow_screen_scrolls_tables_and_not_the_page(browser, place):
    metrics: dict[str, Any] = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **metrics)
    browser.open(place)
    assert browser.run("document.documentElement.scrollWidth") <= 360
    table = "document.querySelector('.scroll')"
    assert browser.run(f"{table}.scrollWidth > {table}.clientWidth")
    # The name stays in sight.
    browser.run(f"{table}.scrollLeft = 200")
    edge = "document.querySelector('tbody tr:not(.kind) .model').getBoundingClientRect().left"
    assert browser.run(edge) < 40
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_two_thousand_rows_are_sorted_and_filtered_at_once(browser, tmp_path):
    found = build_leaderboard([measured()])
    [one] = found.boards
    (row, *others), values = one.rows, [number * 7919 % 2000 / 20 for number in range(2000)]
    many = [
        replace(row, model=f"model-{number}", cells=tuple(replace(cell, value=value) for cell in row.cells))
        for number, value in enumerate(values)
    ]
    found = replace(found, boards=(replace(one, rows=(*many, *others)),))
    page = write_page(leaderboard_page(found), tmp_path / "many.html")
    started = time.perf_counter()
    browser.open(page)
    loaded = time.perf_counter() - started
    timed = """(() => {{ const start = performance.now(); {}; document.body.offsetHeight;
        return performance.now() - start; }})()"""
    button = "document.querySelector('#event_similarity th[data-sort=\"0\"] button').click()"
    sort = browser.run(timed.format(button))
    typing = (
        "const n = document.getElementById('name'); n.value = '-199'; n.dispatchEvent(new Event('input'))"
    )
    find = browser.run(timed.format(typing))
    print(f"2,000 rows: loaded in {loaded:.2f} s, sorted in {sort:.0f} ms, filtered in {find:.0f} ms")
    assert len(browser.run(SHOWN)) == 11
    assert max(sort, find) < 5000


SPACE = Path(leaderboard_app.__file__).with_name("space")


def frames(app: object) -> list[str]:
    """The texts of the app's HTML components."""
    return [
        one["props"]["value"]
        for one in app.get_config_file()["components"]  # type: ignore[attr-defined]
        if one["type"] == "html"
    ]


def test_without_gradio_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(EventformersError, match=r"pip install \"eventformers\[leaderboard\]\""):
        leaderboard_app.leaderboard_app(build_leaderboard([measured()]))


def test_the_app_frames_the_page():
    pytest.importorskip("gradio", reason="gradio is not installed (extra leaderboard)")
    app = leaderboard_app.leaderboard_app(build_leaderboard([measured(model="<b>mine</b>")]))
    (frame,) = frames(app)
    (page,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert "&lt;b&gt;mine&lt;/b&gt;" in html.unescape(page)
    assert 'sandbox="allow-scripts allow-popups"' in frame


def test_the_space_shows_the_results_beside_it(tmp_path):
    pytest.importorskip("gradio", reason="gradio is not installed (extra leaderboard)")
    shutil.copytree(SPACE, tmp_path / "space")
    write_result(make_result(model="of-the-space"), tmp_path / "space")
    names = runpy.run_path(str(tmp_path / "space" / "app.py"))
    assert "of-the-space" in frames(names["space_app"]())[0]


def test_the_space_is_one_that_the_hub_runs():
    front = yaml.safe_load((SPACE / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert (front["sdk"], front["app_file"]) == ("gradio", "app.py")
    assert (SPACE / front["app_file"]).is_file()
    # The package is on no registry: the Space holds a wheel of it.
    wheel = f"OWNER/NAME/resolve/main/eventformers-{eventformers.__version__}-py3-none-any.whl\n"
    requirements = (SPACE / "requirements.txt").read_text(encoding="utf-8")
    assert requirements == f"eventformers[leaderboard] @ https://huggingface.co/spaces/{wheel}"
