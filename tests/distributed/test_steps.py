"""Steps of datatrove pipelines, and workers that are killed."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.io import get_datafolder
from datatrove.pipeline.readers import ParquetReader
from event_files import EVENTS, STORIES, write_edges, write_events
from forked import run_python

import eventformers
from eventformers.datasets_scripts.cooccurrence import CooccurrenceCounter
from eventformers.distributed import steps
from eventformers.distributed.merging import MergeCounts, merge_counts
from eventformers.distributed.steps import (
    BLOCK_DOCUMENTS,
    AssignTypes,
    CountCoEvents,
    DistinctIds,
    Embed,
    LinkEvents,
)
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.extraction import datatrove_block, extractor
from eventformers.extraction.datatrove_block import EVENT_ROWS, ExtractEvents, WriteEvents
from eventformers.inference.encode import load_encoder
from eventformers.inference.encoding.event_tables import read_table_events
from eventformers.inference.induction.report import write_induction

pytest.importorskip("spacy", reason="spaCy is not installed")
pytest.importorskip("datatrove", reason="datatrove is not installed")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of texts with the same ids."""
    folder = tmp_path_factory.mktemp("bucket")
    for number in range(2):
        rows = [{"id": str(place), "text": text} for place, text in enumerate(STORIES[number * 2 :][:2])]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def extracted(english_pipeline: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same texts with the ids of the shards, extracted by one process."""
    folder = tmp_path_factory.mktemp("extracted")
    rows = [{"id": f"{place // 2:05d}/{place % 2}", "text": text} for place, text in enumerate(STORIES)]
    texts = folder / "texts.jsonl"
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return eventformers.extract(texts, folder / "events", pipeline=english_pipeline).folder


@pytest.fixture(scope="module")
def knowledge_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_events(tmp_path_factory.mktemp("events") / "raw", EVENTS)
    return write_edges(folder, [("Q2", "Q1")])


@pytest.fixture(scope="module")
def induction(extracted: Path, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("induction")
    write_induction(eventformers.induce(tiny_encoder, extracted, num_clusters=3), folder)
    return folder


def rows_of(folder: str, pattern: str = "*.parquet") -> pa.Table:
    """The rows of all shards, in the order of the shards."""
    place = get_datafolder(folder)
    parts = []
    for name in place.list_files(glob_pattern=pattern, recursive=False):
        with place.open(name, "rb") as file:
            parts.append(pq.read_table(file))
    return pa.concat_tables(parts)


@pytest.fixture
def remote(request: pytest.FixtureRequest) -> Iterator[str]:
    """A location that is no folder of this machine."""
    place = f"memory://{request.node.name}"
    yield place
    folder = get_datafolder(place)
    folder.fs.rm(folder.path, recursive=True)


def test_the_script_of_the_page_in_a_bucket(
    bucket: Path,
    extracted: Path,
    knowledge_base: Path,
    induction: Path,
    english_pipeline: str,
    tiny_encoder: Path,
    remote: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    for told, meant in {
        "en_core_web_sm": english_pipeline,
        "my-types": induction,
        "my-events": knowledge_base,
        "tasks=4, workers=2": "tasks=2, workers=1",
    }.items():
        assert told in script
        script = script.replace(told, str(meant))
    encoder = load_encoder(tiny_encoder)
    monkeypatch.setattr("eventformers.distributed.steps.encoder_of", lambda *_: encoder)
    monkeypatch.setattr(sys, "argv", ["scale.py", str(bucket), remote])
    monkeypatch.chdir(tmp_path)
    exec(compile(script, str(PAGE), "exec"), {"__name__": "__main__"})  # noqa: S102, our own page
    events = pq.read_table(extracted / "events.parquet")

    for name, texts in (("text-vectors", list(STORIES)), ("event-vectors", events["text"].to_pylist())):
        vectors = rows_of(f"{remote}/{name}")
        assert vectors["text"].to_pylist() == texts
        found = np.stack(vectors["embedding"].to_numpy(zero_copy_only=False))
        np.testing.assert_allclose(found, encoder.encode(texts), atol=1e-5)
    assert vectors["id"].to_pylist() == events["event_id"].to_pylist()

    types = rows_of(f"{remote}/types")
    mentions = pq.read_table(induction / "mentions.parquet")
    assert types["event_id"].to_pylist() == mentions["mention_id"].to_pylist()
    assert set(types["name"].to_pylist()) <= set(mentions["cluster_name"].to_pylist())
    # A mention can be nearer to the centroid of another cluster than of its own.
    same = np.array(types["type_id"]) == np.array(mentions["cluster"])
    assert same.mean() > 0.5
    np.testing.assert_allclose(np.array(types["cosine"])[same], np.array(mentions["cosine"])[same], atol=1e-5)

    links = rows_of(f"{remote}/links").to_pylist()
    whole = eventformers.ground(encoder, extracted, knowledge_base, candidates=3, language="en")
    assert [(row["event_id"], row["rank"], row["knowledge_base_id"], row["linked"]) for row in links] == [
        (one.mention.mention_id, rank, candidate.event_id, candidate.linked)
        for one in whole.mentions
        for rank, candidate in enumerate(one.candidates, start=1)
    ]
    assert {tuple(row["ancestors"]) for row in links if row["linked"]} == {(), ("call of the police",)}

    with closing(CooccurrenceCounter(max_co_events=None)) as counter:
        for document in dict.fromkeys(events["document_id"].to_pylist()):
            rows = events.filter(pa.compute.equal(events["document_id"], document))
            counter.add(read_table_events({"events": rows}))
        wanted = pa.concat_tables(counter.tables())
    merged = tmp_path / "merged.parquet"
    assert merge_counts(f"{remote}/co-occurrence", merged, max_co_events=None) == wanted.num_rows
    assert pq.read_table(merged).to_pylist() == wanted.to_pylist()
    assert pq.read_table(tmp_path / "co-occurrence.parquet").num_rows < wanted.num_rows
    assert not get_datafolder(f"{remote}/event-vectors").list_files("unfinished")


def test_counts_of_shards_are_filtered_together(tmp_path: Path) -> None:
    events = [{"subject": name, "predicate": "goes", "object": ""} for name in "abcd"]

    def document(identifier: str, names: str) -> Document:
        rows = [{**event, "negated": False} for name in names for event in events if event["subject"] == name]
        return Document("text", identifier, metadata={EVENT_ROWS: rows})

    shards = (["ab", "ac"], ["ab", "cd", "ac"])
    step = CountCoEvents(str(tmp_path / "counts"))
    with closing(CooccurrenceCounter(min_event_frequency=2, min_pair_frequency=2)) as counter:
        for rank, texts in enumerate(shards):
            list(step.run((document(names, names) for names in texts), rank))
            for names in texts:
                counter.add([event for name in names for event in events if event["subject"] == name])
        wanted = pa.concat_tables(counter.tables()).to_pylist()
    limits = {"min_event_frequency": 2, "min_pair_frequency": 2}
    assert merge_counts(str(tmp_path / "counts"), tmp_path / "all.parquet", **limits) == len(wanted) == 3
    assert pq.read_table(tmp_path / "all.parquet").to_pylist() == wanted
    step = MergeCounts(str(tmp_path / "counts"), tmp_path / "job.parquet", **limits)
    assert [list(step.run(None, rank, 2)) for rank in range(2)] == [[], []]
    assert step.stats["rows"].total == len(wanted)
    assert pq.read_table(tmp_path / "job.parquet").to_pylist() == wanted
    merge_counts(str(tmp_path / "counts"), tmp_path / "one.parquet", max_co_events=1)
    lengths = [len(row["co_events"]) for row in pq.read_table(tmp_path / "one.parquet").to_pylist()]
    assert lengths == [1, 1, 1, 1]
    with pytest.raises(EventformersError, match="no counts of pairs"):
        merge_counts(str(tmp_path / "none"), tmp_path / "x.parquet")


def test_only_facts_are_counted(tmp_path: Path) -> None:
    event = {"predicate": "goes", "object": "", "negated": False}
    kinds = {"a": "fact", "b": "possible", "c": "", "d": "reported"}
    rows = [{**event, "subject": name, "factuality": kind} for name, kind in kinds.items()]
    documents = [Document("text", "x", metadata={EVENT_ROWS: rows})]
    list(CountCoEvents(str(tmp_path / "counts"), factuality="fact").run(iter(documents)))
    merge_counts(str(tmp_path / "counts"), tmp_path / "all.parquet")
    found = pq.read_table(tmp_path / "all.parquet").to_pylist()
    # Events of unknown factuality count, too.
    assert [row["event"]["subject"] for row in found] == ["a", "c"]
    with pytest.raises(UnknownNameError, match="unknown factuality 'true'"):
        CountCoEvents(str(tmp_path), factuality=["true"])


def test_a_merge_spills_beside_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []
    connect = duckdb.connect

    def noted(**settings: Any) -> duckdb.DuckDBPyConnection:
        database = connect(**settings)
        [[folder]] = database.execute("SELECT current_setting('temp_directory')").fetchall()
        folders.append(Path(folder))
        assert folders[-1].is_dir()
        return database

    event = {"subject": "a", "predicate": "goes", "object": ""}
    rows = [{**event, "subject": name, "negated": False} for name in "ab"]
    documents = [Document("text", "x", metadata={EVENT_ROWS: rows})]
    list(CountCoEvents(str(tmp_path / "counts")).run(iter(documents)))
    monkeypatch.setattr(duckdb, "connect", noted)
    for name in ("one", "two"):
        merge_counts(str(tmp_path / "counts"), tmp_path / "merged" / f"{name}.parquet")
    assert [folder.parent for folder in folders] == [tmp_path / "merged"] * 2
    assert len(set(folders)) == 2
    assert {path.name for path in (tmp_path / "merged").iterdir()} == {"one.parquet", "two.parquet"}


def test_events_are_the_same_bytes_at_another_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = {"event_row": {"id": "x", "events": ["é\n"]}, "chain_rows": [{"chain_id": "x-0"}] * 2}
    for seconds in (0.0, 1e9):
        monkeypatch.setattr("time.time", lambda seconds=seconds: seconds)
        step = WriteEvents(str(tmp_path / str(seconds)))
        list(step.run([Document("text", "x", metadata=metadata)], 3))
    for part, rows in (("events", [metadata["event_row"]]), ("chains", metadata["chain_rows"])):
        first, second = sorted(tmp_path.glob(f"*/00003.{part}.jsonl.gz"))
        assert first.read_bytes() == second.read_bytes()
        assert [json.loads(line) for line in gzip.decompress(first.read_bytes()).splitlines()] == rows


def test_ids_are_distinct_over_shards() -> None:
    given = [("x", "one"), ("x", "two"), ("x", "one"), ("x~2", "three")]
    step = DistinctIds()
    found = [
        document.id
        for rank in (0, 1)
        for document in step.run((Document(text, identifier) for identifier, text in given), rank, 2)
    ]
    assert found == [f"{rank}/{name}" for rank in ("00000", "00001") for name in ("x", "x~2", "x~2~2")]
    assert step.stats["skipped: repeated_document"].total == 2


def test_tasks_of_a_process_share_what_they_load(
    bucket: Path,
    english_pipeline: str,
    tiny_encoder: Path,
    induction: Path,
    knowledge_base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []
    # Another test may have loaded the same.
    datatrove_block.cached_extractor.cache_clear()
    steps._types_of.cache_clear()
    known = shutil.copytree(knowledge_base, tmp_path / "known")

    def counted(place: str, load: Any) -> None:
        def call(*arguments: Any) -> Any:
            loaded.append(place)
            return load(*arguments)

        monkeypatch.setattr(place, call)

    counted("eventformers.extraction.extractor.load_pipeline", extractor.load_pipeline)
    counted("eventformers.distributed.steps.load_fitted_types", steps.load_fitted_types)
    counted("eventformers.distributed.steps.load_knowledge_base", steps.load_knowledge_base)
    links = LinkEvents(str(tmp_path / "links"), known, tmp_path / "index", str(tiny_encoder), language="en")
    pipeline = [
        ParquetReader(str(bucket)),
        DistinctIds(),
        ExtractEvents(english_pipeline, min_chain_length=3),
        AssignTypes(str(tmp_path / "types"), induction, str(tiny_encoder)),
        links,
    ]
    for logs in ("first", "second"):
        LocalPipelineExecutor(pipeline, tasks=2, workers=1, logging_dir=str(tmp_path / logs)).run()
        assert sorted(loaded) == [
            "eventformers.distributed.steps.load_fitted_types",
            "eventformers.distributed.steps.load_knowledge_base",
            "eventformers.extraction.extractor.load_pipeline",
        ]
    # An induction that was written again is read again.
    (induction / "mentions.parquet").touch()
    AssignTypes(str(tmp_path / "types"), induction, str(tiny_encoder)).prepare()
    assert len(loaded) == 4
    # So is a knowledge base.
    next(path for path in known.rglob("*") if path.is_file()).touch()
    links.prepare()
    assert len(loaded) == 5


def test_documents_without_a_word_have_no_vector(tmp_path: Path, tiny_encoder: Path) -> None:
    step = Embed(str(tmp_path), str(tiny_encoder), of="texts", device="cpu")
    texts = {"a": "Anna left.", "b": " \n", "c": "Peter left."}
    passed = list(step.run([Document(text, name) for name, text in texts.items()]))
    assert [document.id for document in passed] == ["a", "b", "c"]
    assert rows_of(str(tmp_path))["id"].to_pylist() == ["a", "c"]
    assert step.stats.stats["skipped: document_without_text"].total == 1


def test_what_is_wrong_is_told(tmp_path: Path, tiny_encoder: Path, induction: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'texts'"):
        Embed(str(tmp_path), of="text")  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="the step ExtractEvents before this one"):
        list(Embed(str(tmp_path), str(tiny_encoder), of="events").run([Document("text", "x")]))
    with pytest.raises(EventformersError, match=r"mentions\.parquet: no such file"):
        AssignTypes(str(tmp_path), tmp_path, str(tiny_encoder)).prepare()
    other = eventformers.SwccModel.from_encoder(tiny_encoder)
    other.save_pretrained(tmp_path / "other")
    load_encoder(tiny_encoder).tokenizer.save_pretrained(tmp_path / "other")
    with pytest.raises(EventformersError, match="accepted: the one model of the induction"):
        AssignTypes(str(tmp_path), induction, str(tmp_path / "other")).prepare()


pytest.importorskip("spacy", reason="spaCy is not installed")
pytest.importorskip("datatrove", reason="datatrove is not installed")

SCRIPT = Path(__file__).resolve().parents[1] / "support" / "waiting_pipeline.py"
WAIT = 240
"""Seconds until a script must have done what is awaited; a busy machine takes a minute to import."""

Done = subprocess.CompletedProcess[str]
Run = Callable[[str, Path], Done]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for each of three tasks, of more than one block."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "texts").mkdir()
    for number in range(3):
        rows = [
            {"id": str(place), "text": STORIES[(number + place) % 3]} for place in range(BLOCK_DOCUMENTS + 20)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / "texts" / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def run(texts: Path, english_pipeline: str, tiny_encoder: Path) -> Run:
    """The function that runs the script with an executor and an output folder."""

    def call(engine: str, out: Path) -> Done:
        # Ray's own processes reach each other by the address of the machine, which tests do not.
        environment = {**os.environ, "RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled"}
        arguments = [str(SCRIPT), engine, str(texts), str(out), english_pipeline, str(tiny_encoder)]
        return run_python(arguments, cwd=texts, env=environment, timeout=WAIT, server="package")

    return call


@pytest.fixture(scope="module")
def whole(texts: Path, run: Run) -> dict[str, bytes]:
    """The files of one worker that nobody kills."""
    (texts / "waiting").touch()
    done = run("one", texts / "whole")
    assert done.returncode == 0, done.stderr[-4000:]
    return written(texts / "whole")


@pytest.fixture
def waiting(texts: Path, whole: dict[str, bytes]) -> Iterator[Path]:
    """The file that tells which process waits in the middle of task 1."""
    (texts / "waiting").unlink()
    yield texts / "waiting"
    (texts / "waiting").touch()


def written(out: Path) -> dict[str, bytes]:
    """The contents of the files that have their names."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob("*/0*"))}


def wait_for(found: Path, running: Future[Done]) -> None:
    """Wait until a file is there, or fail with what the script says."""
    ends = time.monotonic() + WAIT
    while not found.exists():
        assert not running.done(), running.result().stderr[-4000:]
        assert time.monotonic() < ends, f"{found} did not appear"
        time.sleep(0.02)


def is_half_written(out: Path) -> bool:
    """True if task 1 has written a part of its vectors, and no file has its name."""
    sizes = [path.stat().st_size for path in out.glob("vectors/unfinished/00001.*")]
    return any(sizes) and not list(out.glob("*/00001.*"))


def test_the_local_executor_after_a_killed_worker(
    run: Run, waiting: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    completions = tmp_path / "logs" / "completions"
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, "local", tmp_path)
        wait_for(waiting, running)
        wait_for(completions / "00000", running)
        worker = int(waiting.read_text(encoding="utf-8"))
        group = os.getpgid(worker)
        os.kill(worker, signal.SIGKILL)
        # The executor waits for the worker; this is Ctrl+C in a terminal.
        os.killpg(group, signal.SIGINT)
        assert running.result().returncode != 0
    assert is_half_written(tmp_path)
    ranks = {path.name for path in completions.iterdir()}
    assert "00001" not in ranks
    finished = {path: path.stat().st_mtime_ns for rank in ranks for path in tmp_path.glob(f"*/{rank}.*")}
    assert finished

    done = run("local", tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert written(tmp_path) == whole
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert not list(tmp_path.glob("*/unfinished/*"))


@pytest.mark.timeout(600)
def test_ray_after_a_killed_worker(run: Run, waiting: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, "ray", tmp_path)
        wait_for(waiting, running)
        # datatrove runs a task in a child of Ray's worker, and Ray waits for the end of both.
        task = int(waiting.read_text(encoding="utf-8"))
        worker = os.getpgid(task)
        half_written = is_half_written(tmp_path)
        os.killpg(worker, signal.SIGKILL)
        done = running.result()
    assert half_written
    assert done.returncode == 0, done.stderr[-4000:]
    assert written(tmp_path) == whole
    assert not list(tmp_path.glob("*/unfinished/*"))
