"""Windows of whole documents, and of the contexts of cloze files, beside the chains of protagonists."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from datasets import Dataset, Features, List

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.building import build_dataset
from eventformers.datasets_scripts.events import EVENT_FEATURE, Event
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.trainers import document_windows
from eventformers.trainers.chain_rows import read_chains
from eventformers.trainers.data_reports import Arrays
from eventformers.trainers.document_windows import (
    load_cloze_contexts,
    load_training_documents,
    read_chains_once,
    times_of_rows,
    with_windows,
)


def rows(*documents: list[str]) -> Dataset:
    """Documents whose events are predicates alone."""
    events: list[list[Event]] = [
        [{"subject": "", "predicate": word, "object": ""} for word in words] for words in documents
    ]
    return Dataset.from_dict({"events": events}, features=Features({"events": List(EVENT_FEATURE)}))


def predicates(dataset: Dataset) -> list[str]:
    return ["".join(event["predicate"] for event in row["events"]) for row in dataset]


def test_windows_hold_distinct_events_and_follow_one_another() -> None:
    chains = rows(list("xyz"), list("uvw"))
    documents = rows(list("abacdBe"), list("fg"), list("hijk"))
    (kept, rest), (windows, share) = with_windows(chains, [(documents, 0.25)], length=3, least=3)
    assert predicates(kept) == ["xyz", "uvw"]
    # "de" and "fg", "k" are too short; an event that reads like an earlier one stands where it comes first.
    assert predicates(windows) == ["abc", "hij"]
    assert (rest, share) == (0.75, 0.25)


def test_rows_without_a_share_are_left_out() -> None:
    sources = [(rows(list("abc")), 1), (rows(list("def")), 0)]
    parts = with_windows(rows(list("xyz")), sources, length=3, least=3)
    assert [(len(part), share) for part, share in parts] == [(0, 0), (1, 1), (0, 0)]


@pytest.mark.parametrize(
    ("sizes", "shares", "expected"),
    [
        ([4], [1], [4]),
        ([4, 6], [0.5, 0.5], [6, 6]),
        ([4, 6], [0.25, 0.75], [4, 12]),
        ([4, 6], [0.8, 0.2], [24, 6]),
        ([4, 6, 8], [0.4, 0.2, 0.4], [12, 6, 12]),
        # The share of a source without rows goes to all others.
        ([4, 0, 6], [0.2, 0.4, 0.4], [4, 0, 8]),
        ([0, 6], [0, 1], [0, 6]),
        ([0, 0], [0.5, 0.5], [0, 0]),
        # Few rows are not repeated without end, and the others keep the ratio of their shares.
        ([1, 400, 400], [0.4, 0.2, 0.4], [20, 400, 800]),
    ],
)
def test_each_source_has_its_share(sizes: list[int], shares: list[float], expected: list[int]) -> None:
    times = times_of_rows(sizes, shares, seed=0)
    assert [len(of_rows) for of_rows in times] == sizes
    assert [of_rows.sum() for of_rows in times] == expected
    assert all(np.ptp(of_rows) <= 1 for of_rows in times if len(of_rows))


def test_the_seed_decides_which_occur_once_more() -> None:
    first, again, other = (times_of_rows([40, 60], [0.5, 0.5], seed)[0].tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """The samples without the cloze files, which give documents and no chains."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for path in (SAMPLES / "chains").glob("*.jsonl*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_documents_of_the_questions_are_left_out(raw: Path, tmp_path: Path) -> None:
    settings = {"validation_share": 0.2, "test_share": 0.3}
    whole = load_built(raw, "documents", builder="event_chains")["train"]
    training = load_training_documents(str(raw), "event_chains", settings)
    questions = load_built(raw, "chains", builder="event_chains", **settings)
    ids = set(training["document_id"])
    assert 0 < len(ids) < len(whole)
    assert set(questions["train"]["document_id"]) <= ids
    assert not ids & {*questions["validation"]["document_id"], *questions["test"]["document_id"]}

    for split in (None, "train", "test"):
        folder = tmp_path / str(split)
        for config in ("documents", "chains"):
            chosen = settings | ({"document_split": split} if split and config == "documents" else {})
            build_dataset("event_chains", config, data_dir=raw, output=folder, **chosen)
    for name in ("None", "train"):
        built = load_training_documents(str(tmp_path / name), "event_chains", {})
        assert built["document_id"] == training["document_id"]
    with pytest.raises(EventformersError, match=r"built with document_split=test.*document_split=train"):
        load_training_documents(str(tmp_path / "test"), "event_chains", {})


CLOZE = "a|saw|b\na|met|c\nHOLDOUT_SEP\na|left|d\nNEG_SEP\ne|sang|f\nDOC_SEP\n"


def test_contexts_of_cloze_files_are_left_out(raw: Path, tmp_path: Path) -> None:
    expected = load_training_documents(str(raw), "event_chains", {})
    (raw / "mcnc_dev.txt").write_text(CLOZE, encoding="utf-8")
    for config in ("documents", "chains"):
        build_dataset("event_chains", config, data_dir=raw, output=tmp_path / "built")
    assert "mcnc_dev" in load_built(tmp_path / "built", "documents")["train"]["source"]
    assert load_training_documents(str(tmp_path / "built"), "event_chains", {})[:] == expected[:]


def test_contexts_of_cloze_files_have_no_answers(raw: Path, tmp_path: Path) -> None:
    settings = {"validation_share": 0.2, "test_share": 0.3}
    assert len(load_cloze_contexts(str(raw), "event_chains", settings)) == 0
    (raw / "mcnc_dev.txt").write_text(CLOZE * 3, encoding="utf-8")
    for config in ("documents", "chains"):
        build_dataset("event_chains", config, data_dir=raw, output=tmp_path / "built")
    for data, of_build in ((raw, settings), (tmp_path / "built", {})):
        contexts = load_cloze_contexts(str(data), "event_chains", of_build)
        assert set(contexts["source"]) == {"mcnc_dev"}
        assert predicates(contexts) == ["sawmet"] * 3
    build_dataset(
        "event_chains", "documents", data_dir=raw, output=tmp_path / "built", document_split="train"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load_cloze_contexts(str(tmp_path / "built"), "event_chains", {})) == 0


def test_documents_of_other_files_are_refused(raw: Path, tmp_path: Path) -> None:
    build_dataset("event_chains", "chains", data_dir=raw, output=tmp_path / "built")
    for path in raw.glob("*.jsonl"):
        path.write_bytes(path.read_bytes() + b"\n")
    build_dataset("event_chains", "documents", data_dir=raw, output=tmp_path / "built")
    with pytest.raises(EventformersError, match="from other files than the chains"):
        load_training_documents(str(tmp_path / "built"), "event_chains", {})


def test_a_second_start_reads_the_cache_unless_data_or_settings_change(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    calls = []
    monkeypatch.setattr(
        document_windows, "read_chains", lambda rows: calls.append(len(rows)) or read_chains(rows)
    )
    build_dataset("event_chains", "documents", data_dir=raw, output=tmp_path / "built")
    build_dataset("event_chains", "chains", data_dir=raw, output=tmp_path / "built")
    chains = load_built(tmp_path / "built", "chains")["train"].select(range(6))

    def read(chains: Dataset = chains, **changed: float) -> Arrays:
        chosen: dict[str, Any] = {"share": 0.5, "cloze_share": 0, "length": 9, "seed": 1, **changed}
        return read_chains_once(chains, str(tmp_path / "built"), "event_chains", {}, **chosen)

    first, again = read(), read()
    assert len(calls) == 1
    assert all(np.array_equal(first[name], again[name]) for name in first)
    read(seed=2)
    read(length=8)
    read(share=0.4)
    read(share=0)
    read(chains.select(range(5)))
    assert len(calls) == 6
    assert read(share=0.5, cloze_share=0.1)["sizes"].tolist() == first["sizes"].tolist()
    context = "".join(f"a|{verb}|b\n" for verb in ("saw", "met", "asked", "told", "thanked"))
    (raw / "mcnc_dev.txt").write_text(context + CLOZE, encoding="utf-8")
    build_dataset("event_chains", "documents", data_dir=raw, output=tmp_path / "built")
    without = read(share=1, cloze_share=0)
    assert without["sizes"].tolist() == [0, calls[-1]]
    assert read(share=0.5, cloze_share=1)["sizes"].tolist() == [6, 1, 0]
    with_contexts = read(share=1, cloze_share=0.1)
    assert with_contexts["sizes"].tolist() == [0, 1, calls[-1] - 1]
    assert with_contexts["times"][0] > 1
    for path in raw.glob("*.jsonl"):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    build_dataset("event_chains", "documents", data_dir=raw, output=tmp_path / "built")
    with pytest.raises(EventformersError, match="from other files than the chains"):
        read()
