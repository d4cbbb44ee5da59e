"""The server of an exploration, as an agent uses it, with the client of the MCP SDK."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_lines import run_command_line

import eventformers
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.exploration.tools import TOOLS, ExplorationTools

mcp = pytest.importorskip("mcp", reason='needs the MCP SDK: pip install "eventformers[mcp]"')
server = import_module("eventformers.exploration.server")

EXTRACTED = SAMPLES / "texts" / "extracted"
Call = Callable[..., dict[str, Any]]


def same_lemmas(pairs: Any, *given: object, **options: object) -> Any:
    """To a random encoder all events are alike; those with the same lemma count as the same."""
    every = np.arange(len(pairs.lemma))
    pairs.nearer(every, every)
    return pairs.lemma


@pytest.fixture(scope="module")
def exploration(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("explored") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eventformers.loading.encoders._default_encoder", lambda: tiny_encoder)
        patch.setattr("eventformers.exploration.stories.tuned_encoder", lambda encoder: encoder)
        patch.setattr("eventformers.exploration.stories.same_events", same_lemmas)
        eventformers.explore(
            EXTRACTED, out, events=tiny_encoder, types=tiny_encoder, stories=True, skip=["map", "page"]
        )
    return out


def called(target: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool; `target` is what the client connects to."""

    async def call() -> Any:
        async with mcp.Client(target) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(call())


def answer_of(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content[0].text
    assert result.structured_content == json.loads(result.content[0].text)
    return result.structured_content


@pytest.fixture(scope="module")
def tools(exploration: Path, tiny_encoder: Path) -> Any:
    return ExplorationTools(
        exploration, events=tiny_encoder, grounding=tiny_encoder, knowledge_base=SAMPLES / "event_hierarchies"
    )


@pytest.fixture
def call(tools: Any) -> Call:
    target = server.exploration_server(tools)
    return lambda name, **arguments: answer_of(called(target, name, arguments))


@pytest.fixture
def fault(tools: Any) -> Callable[..., str]:
    target = server.exploration_server(tools)

    def run(name: str, **arguments: Any) -> str:
        result = called(target, name, arguments)
        assert result.is_error
        return result.content[0].text

    return run


def test_all_tools_say_what_they_do_and_change_nothing(tools: Any, exploration: Path) -> None:
    async def listed() -> Any:
        async with mcp.Client(server.exploration_server(tools)) as client:
            return (await client.list_tools()).tools

    found = asyncio.run(listed())
    assert [one.name for one in found] == list(TOOLS)
    assert all(one.description and one.annotations.read_only_hint for one in found)
    assert all(one.input_schema["additionalProperties"] is False for one in found)


def test_about_has_the_counts_of_the_report(call: Call, exploration: Path) -> None:
    found = call("about")
    report = json.loads((exploration / "report.json").read_text(encoding="utf-8"))
    assert found["counts"] == report["counts"]
    assert found["events"] == report["counts"]["events"] == 535
    assert found["first_date"] == "2025-01-14"
    mentions = pq.read_table(exploration / "actors.parquet").to_pandas().groupby("name")["mentions"].sum()
    assert found["frequent_actors"] == mentions[list(found["frequent_actors"])].to_dict()
    assert next(iter(found["frequent_actors"].values())) == mentions.max()


def test_undated_documents_have_neither_first_nor_last_date(exploration: Path, tmp_path: Path) -> None:
    undated = shutil.copytree(exploration, tmp_path / "undated")
    documents = pq.read_table(undated / "documents.parquet")
    place = documents.column_names.index("date")
    dates = pa.array([""] * len(documents), documents.schema.field(place).type)
    pq.write_table(
        documents.set_column(place, documents.schema.field(place), dates), undated / "documents.parquet"
    )
    found = ExplorationTools(undated).about()
    assert (found["first_date"], found["last_date"]) == (None, None)


def test_conditions_of_a_search_hold_together(call: Call, exploration: Path) -> None:
    everything = pq.read_table(exploration / "events.parquet").to_pylist()
    arrested = [row["event_id"] for row in everything if row["lemma"] == "arrest"]
    found = call("search_events", predicate="arrest")
    assert {row["event_id"] for row in found["rows"]} == set(arrested)
    [one, *_] = found["rows"]
    assert "arrest" in one["sentence_text"]
    assert not any(value in ("", None) for row in found["rows"] for value in row.values())
    by_role = call("search_events", predicate="arrest", subject="police", since="2025-02", until="2025-09")
    assert 0 < by_role["total"] < found["total"]
    assert all("police" in row["subject_span"].lower() for row in by_role["rows"])
    assert all("2025-02" <= row["date"] < "2025-10" for row in by_role["rows"])
    assert call("search_events", words="storm power")["total"] == 1
    assert call("search_events", factuality="negated")["total"] == 3
    assert call("search_events", factuality="all")["total"] == len(everything)
    assert call("search_events", words="no' OR 'such")["total"] == 0


@pytest.mark.parametrize("name", ["since", "until"])
def test_dates_of_a_search_are_in_iso_8601(fault: Callable[..., str], name: str) -> None:
    assert f"{name}: found the date 'May 2025'; accepted: a date in ISO 8601" in fault(
        "search_events", **{name: "May 2025"}
    )


def test_pages_follow_each_other(call: Call) -> None:
    first = call("search_events", limit=100)
    ids = [row["event_id"] for row in first["rows"]]
    while "next_offset" in first:
        first = call("search_events", limit=100, offset=first["next_offset"])
        ids += [row["event_id"] for row in first["rows"]]
    assert len(ids) == len(set(ids)) == first["total"] == 535


def test_like_ranks_by_the_vectors_of_the_exploration(
    call: Call, exploration: Path, tiny_encoder: Path
) -> None:
    table = pq.read_table(exploration / "vectors.parquet")
    vectors = np.array(table["embedding"].to_pylist())
    query = eventformers.encode(tiny_encoder, ["police arrested two men"], normalize=True)[0]
    found = call("search_events", like="police arrested two men", limit=5)
    cosines = dict(zip(table["text"].to_pylist(), vectors @ query, strict=True))
    assert found["rows"][0]["score"] == pytest.approx(max(cosines.values()), abs=1e-3)
    for row in found["rows"]:
        assert row["score"] == pytest.approx(cosines[row["text"]], abs=1e-3)


def test_events_of_an_actor(call: Call, fault: Callable[..., str]) -> None:
    found = call("actor_events", actor="torvik")
    assert found["actor"]["actor_id"] == "torvik.organisation"
    assert found == call("actor_events", actor="torvik.organisation")
    assert found["total"] == len(found["rows"]) == 7
    message = fault("actor_events", actor="police")
    assert "8 actors match" in message
    assert "trial-1@0 (Police, group" in message
    assert "no actors match 'nobody'" in fault("actor_events", actor="nobody")


def test_a_story_has_its_sources(call: Call, fault: Callable[..., str], exploration: Path) -> None:
    told = call("search_stories", limit=1)["rows"][0]
    found = call("read_story", story_id=told["story_id"], limit=100)
    assert found["total"] == told["events"]
    assert len({row["document_id"] for row in found["rows"]}) == told["documents"]
    assert all(row["sentence_text"] and row["title"] for row in found["rows"])
    assert "search_stories" in fault("read_story", story_id="none")


def test_next_events_are_those_of_the_command(call: Call, exploration: Path, tiny_encoder: Path) -> None:
    chain = ["police | arrested | man", "judge | sentenced | man"]
    expected = eventformers.next_event(tiny_encoder, chain, corpus=exploration, top=3)
    rows = call("next_events", events=chain, limit=3)["rows"]
    assert [row["text"] for row in rows] == [one.text for one in expected.candidates]


def test_a_text_is_linked(call: Call, fault: Callable[..., str], english_pipeline: str) -> None:
    found = call("ground_text", text="The [[landings]] in Normandy began.", language="en")
    [row] = found["rows"]
    assert (row["mention"], row["start_char"]) == ("landings", 4)
    assert len(row["candidates"]) == 5
    assert "events are described in de, en, es, fr" in fault("ground_text", text="The [[landings]] began.")


def test_raw_texts_are_parsed(exploration: Path, tiny_encoder: Path, english_pipeline: str) -> None:
    tools = ExplorationTools(
        exploration,
        grounding=tiny_encoder,
        knowledge_base=SAMPLES / "event_hierarchies",
        pipeline=english_pipeline,
    )
    found = tools.ground_text("Soldiers attacked the harbour.")
    assert [row["mention"] for row in found["rows"]] == ["attacked"]


def test_limits_and_errors_are_for_the_agent(fault: Callable[..., str]) -> None:
    assert fault("search_events", limit=101) == "limit: found 101; accepted: less than or equal to 100"
    told = fault("next_events", events=["storm hit", 3], limit=0)
    assert told == (
        "events.1: found 3; accepted: a valid string; limit: found 0; accepted: greater than or equal to 1"
    )
    assert fault("read_story") == "story_id: found nothing; accepted: a value"
    assert "Accepted: all, fact" in fault("search_events", factuality="true")
    assert "offset: found 9999" in fault("search_events", offset=9999)
    unknown = fault("search_events", predicates="arrest")
    assert "unknown argument 'predicates'" in unknown
    assert "Did you mean 'predicate'?" in unknown
    assert "since, subject, until, words" in unknown
    assert "unknown argument 'words'. Accepted: none." in fault("about", words="storm")


def test_long_values_are_truncated(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventformers.exploration.tools.MAX_CHARACTERS", 10)
    [row] = call("search_events", limit=1)["rows"]
    assert len(row["sentence_text"]) == 11
    assert row["sentence_text"].endswith("…")


def test_an_extraction_has_fewer_tools(tiny_encoder: Path, exploration: Path) -> None:
    tools = ExplorationTools(EXTRACTED)
    assert tools.search_events(words="storm")["total"] == 3
    for run, needed in (
        (lambda: tools.search_events(like="storm"), "explore without --skip vectors"),
        (lambda: tools.search_stories(), "--no-stories"),
        (lambda: tools.ground_text("a text"), "--knowledge-base"),
    ):
        with pytest.raises(EventformersError, match=needed):
            run()


def test_vectors_of_another_model_are_refused(exploration: Path, tiny_modernbert: Path) -> None:
    tools = ExplorationTools(exploration, events=tiny_modernbert)
    with pytest.raises(EventformersError, match="--events and the model that explore had"):
        tools.search_events(like="storm hit city")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "accepted: a folder that explore or extract wrote"),
        (("--port", "70000"), "less than or equal to 65535"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    outcome = run_command_line(["mcp", str(tmp_path), *words])
    assert outcome["code"] == 2
    assert told in outcome["errors"]


def test_without_the_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventformers.commands.explore.find_spec", lambda name: None)
    outcome = run_command_line(["mcp", str(tmp_path)])
    assert outcome["code"] == 2
    assert 'pip install "eventformers[mcp]"' in outcome["errors"]


def test_the_example_of_the_page(
    exploration: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "neighbours.md").read_text(encoding="utf-8")
    code = page.partition("\n## Agents\n")[2].partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(exploration.parent)
    exec(code.replace("my-exploration", exploration.name), {})  # noqa: S102
    assert "arrested" in capsys.readouterr().out


def test_a_busy_port_is_an_error_before_anything_is_served(exploration: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run_command_line(["mcp", str(exploration), "--port", str(port)])
    assert outcome["code"] == 2
    assert f"cannot serve at 127.0.0.1, port {port}: Address already in use" in outcome["errors"]
    assert "serving" not in outcome["errors"]


COMMAND = ["-m", "eventformers.cli", "mcp"]


@pytest.mark.process
def test_over_standard_input_and_output(exploration: Path, tiny_encoder: Path) -> None:
    arguments = [*COMMAND, str(exploration), "--events", str(tiny_encoder)]
    started = mcp.stdio_client(mcp.StdioServerParameters(command=sys.executable, args=arguments))
    found = answer_of(called(started, "search_events", {"like": "storm hit city", "limit": 1}))
    assert found["total"] == 535


@pytest.mark.process
def test_over_http(exploration: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with forked.running([*COMMAND, str(exploration), "--port", str(port)], cwd=exploration) as ended:
        # The test's own limit ends a server that never listens.
        listening = False
        while not listening:
            assert not ended(0.1)
            with socket.socket() as probe:
                listening = probe.connect_ex(("127.0.0.1", port)) == 0
        found = called(f"http://127.0.0.1:{port}/mcp", "search_events", {"words": "storm"})
    assert answer_of(found)["total"] == 3
