"""Windows of documents, collators and rows of HeterEvent, and the corruption of chains."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from datasets import Dataset, Features, List
from transformers import AutoTokenizer

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.building import build_dataset
from eventformers.datasets_scripts.events import EVENT_FEATURE, Event, event_text
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.models.configuration_heterevent import HeterEventConfig
from eventformers.trainers import chain_rows
from eventformers.trainers.cached_arrays import Arrays
from eventformers.trainers.chain_corruption import (
    Codes,
    CorruptionSettings,
    change_order,
    corrupt_chains,
    draw_segments,
    replace_events,
)
from eventformers.trainers.chain_rows import (
    ChainRows,
    load_cloze_contexts,
    load_training_documents,
    read_chains,
    read_chains_once,
    times_of_rows,
    with_windows,
)
from eventformers.trainers.heterevent import HeterEventCollator

SUBJECTS = ("police", "bank", "storm", "judge")
PREDICATES = ("arrested", "bought", "destroyed", "closed", "won", "saved", "hit")


def event(subject: str, predicate: str, obj: str = "") -> Event:
    return {"subject": subject, "predicate": predicate, "object": obj}


def dataset(chains: list[list[Event]]) -> Dataset:
    return Dataset.from_dict({"events": chains}, features=Features({"events": List(EVENT_FEATURE)}))


CHAINS = [
    [event(subject, predicate, "house") for predicate in PREDICATES[: 3 + place]]
    for place, subject in enumerate(SUBJECTS)
]


def collator(tiny_encoder: Path, stage: str, **settings: Any) -> HeterEventCollator:
    rows = ChainRows(read_chains(dataset(CHAINS)), 9)
    config = HeterEventConfig(stage=stage)
    return HeterEventCollator(
        AutoTokenizer.from_pretrained(tiny_encoder),
        rows,
        config,
        seed=3,
        pool=rows.event_pool(),
        corruption=CorruptionSettings(num_corrupted=4, num_segments=2),
        **settings,
    )


def texts(found: HeterEventCollator, batch: dict[str, torch.Tensor], name: str, row: int) -> list[str]:
    """The events that a row of numbers stands for, so that batches can be compared."""
    words = found.tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True)
    return [words[number] if number >= 0 else "" for number in batch[name][row].flatten().tolist()]


def without_padding(values: list[str]) -> list[str]:
    return [value for value in values if value]


def test_an_event_without_a_word_is_refused(tiny_encoder: Path) -> None:
    context = [event("police", "arrested"), event("", " ")]
    rows = [{"row": 0, "context": context, "choices": CHAINS[0], "label": 0}]
    with pytest.raises(
        EventformersError, match=r"found the event .*; accepted: an event with a word in some"
    ):
        collator(tiny_encoder, "supervised")(rows)


def test_rows_are_windows() -> None:
    long = [event("police", f"saw {number}") for number in range(11)]
    chains = dataset([long, long[:2], [long[0]] * 4, [], long[:3]])
    first = ChainRows(read_chains(chains), 4)
    assert [row["row"] for row in first] == [0, 1]
    assert [event_text(item) for item in first.events(first[0]["events"])] == [
        event_text(e) for e in long[:4]
    ]
    assert first.skipped == {
        "chain_with_fewer_than_three_events": 2,
        "chain_of_equal_events": 1,
        "event_beyond_max_chain_length": 7,
    }
    every = ChainRows(read_chains(chains), 4, all_windows=True)
    assert [len(row["events"]) for row in every] == [4, 4, 3, 3]
    assert every.skipped["event_beyond_max_chain_length"] == 0
    assert len(every[1]["chain_events"]) == 11
    assert first.has_chain_of_all_texts()


def test_repeated_chains_have_more_rows_and_are_drawn_from_more_often() -> None:
    long = [event("police", f"saw {number}") for number in range(8)]
    chains = dataset([CHAINS[0], [], long, long[:2]])
    once = ChainRows(read_chains(chains), 4, all_windows=True)
    times = np.array([1, 4, 3, 2])
    rows = ChainRows({**read_chains(chains), "times": times}, 4, all_windows=True)
    first, *others = ([event_text(item) for item in rows.events(row["events"])] for row in rows)
    assert first == [event_text(item) for item in CHAINS[0]]
    starts = [event_text(item) for item in (long[0], long[4])]
    assert [events[0] for events in others] == [starts[0]] * 3 + [starts[1]] * 3
    assert [row["row"] for row in rows] == list(range(7))
    stored = np.concatenate([np.arange(3), np.repeat(np.arange(3, 11), 3), np.repeat([3, 4], 2)])
    expected = stored[np.random.default_rng(0).integers(len(stored), size=200)]
    assert rows.draw(np.random.default_rng(0), 200).tolist() == expected.tolist()
    assert len(rows.event_pool()) == 3 + 5 * 2 + 3 * 6
    assert rows.skipped == once.skipped
    assert rows.num_chains == once.num_chains


def test_rows_of_a_selection_and_equal_texts() -> None:
    """Roles that differ but read the same are told apart as events, and not as texts."""
    chains = dataset([CHAINS[0], [event("a b", "c"), event("a", "b c"), event("A", "B c")], CHAINS[1]])
    rows = ChainRows(read_chains(chains.select([1, 2])), 9)
    assert len(rows) == 1
    assert not rows.has_chain_of_all_texts()
    assert rows.skipped["chain_of_equal_events"] == 1
    assert len(rows.events(range(6))) == 6


@pytest.mark.parametrize("stage", ["sequence", "graph", "supervised"])
def test_what_is_drawn_depends_on_the_row_alone(tiny_encoder: Path, stage: str) -> None:
    found = collator(tiny_encoder, stage, num_distractors=2, num_incoming_events=3)
    whole = found([found.chains[number] for number in range(4)])
    alone = found([found.chains[2]])
    assert len(whole["input_ids"].unique(dim=0)) == len(whole["input_ids"])
    for name in set(alone) & {
        "chains",
        "order_corrupted",
        "replacement_corrupted",
        "segments",
        "corrupted_segments",
    }:
        assert without_padding(texts(found, whole, name, 2)) == without_padding(
            texts(found, alone, name, 0)
        ), name
    for name in {"view_seeds", "target_position"} & set(alone):
        assert torch.equal(whole[name][2], alone[name][0])
    found.epoch = 1
    later = found([found.chains[number] for number in range(4)])
    drawn = {"sequence": "order_corrupted", "graph": "view_seeds", "supervised": "target_position"}[stage]
    assert not torch.equal(later[drawn], whole[drawn])


def test_only_events_of_other_chains_come_in(tiny_encoder: Path) -> None:
    found = collator(tiny_encoder, "sequence", num_incoming_events=3)
    batch = found([found.chains[number] for number in range(4)])
    for row in range(4):
        own = set(texts(found, batch, "chains", row)) - {""}
        new = set(texts(found, batch, "replacement_corrupted", row)) - own - {""}
        assert new
        assert not any(text.startswith(SUBJECTS[row]) for text in new)


def test_distractors_come_in_as_well(tiny_encoder: Path) -> None:
    """Events with an argument of the chain stand among those that are substituted."""
    found = collator(tiny_encoder, "sequence", num_incoming_events=1, num_distractors=3)
    rows = [found.chains[number] for number in range(4)]
    batch = found(rows)
    known = {event_text(event) for chain in CHAINS for event in chain}
    for place, row in enumerate(rows):
        made = {event_text(event) for event in found._distractors(row)}
        new = set(texts(found, batch, "replacement_corrupted", place)) - known - {""}
        assert new
        assert new <= made
        assert all({SUBJECTS[place], "house"} & set(text.split()) for text in new)
    assert len(batch["input_ids"].unique(dim=0)) == len(batch["input_ids"])


def test_a_term_that_is_off_costs_nothing(tiny_encoder: Path) -> None:
    found = collator(tiny_encoder, "sequence")
    found.config.replacement_weight = found.config.composition_weight = 0.0
    batch = found([found.chains[0]])
    assert {"order_corrupted"} == set(batch) - {
        *("input_ids", "attention_mask", "role_masks", "word_index", "chains")
    }
    assert len(batch["input_ids"]) == 3


def test_the_left_out_event_is_no_part_of_its_context(tiny_encoder: Path) -> None:
    for target in ("random", "last"):
        found = collator(tiny_encoder, "supervised", target=target, num_distractors=2)
        batch = found([found.chains[number] for number in range(4)])
        for row, chain in enumerate(CHAINS):
            words = [event_text(item) for item in chain]
            context = without_padding(texts(found, batch, "chains", row))
            [left_out] = texts(found, batch, "target_events", row)
            place = int(batch["target_position"][row])
            assert [*context[:place], left_out, *context[place:]] == words
            assert target == "random" or left_out == words[-1]
        # Two distractors a chain stand among the events, and in no context.
        named = {*batch["chains"].flatten().tolist(), *batch["target_events"].tolist()} - {-1}
        assert 4 < len(batch["input_ids"]) - len(named) <= 8
        assert len(batch["event_keys"]) == len(batch["input_ids"])
        assert int(batch["word_index"].max()) < len(batch["word_keys"])


def test_questions(tiny_encoder: Path) -> None:
    found = collator(tiny_encoder, "supervised")
    choices = [event("bank", "won"), CHAINS[1][0], event("judge", "hit", "house")]
    rows = [
        {"row": 0, "context": CHAINS[0], "choices": choices, "label": 1},
        {"row": 1, "context": CHAINS[1][:2], "choices": choices[::-1], "label": 0},
    ]
    batch = found(rows)  # type: ignore[arg-type]
    assert texts(found, batch, "target_events", 0) == [event_text(choices[1])]
    assert texts(found, batch, "target_events", 1) == [event_text(choices[2])]
    assert texts(found, batch, "choices", 0) == [event_text(choices[0]), event_text(choices[2])]
    assert texts(found, batch, "choices", 1) == [event_text(choices[1]), event_text(choices[0])]
    assert without_padding(texts(found, batch, "chains", 1)) == [event_text(item) for item in CHAINS[1][:2]]
    assert batch["target_position"].tolist() == [3, 2]
    assert len(batch["input_ids"]) == 3 + 3 + 1


WIDTH = 9
SETTINGS = CorruptionSettings(num_corrupted=40, num_segments=8)
LENGTHS = (9, 5, 3)


def chain(*events: int) -> list[int]:
    return [*events, *[-1] * (WIDTH - len(events))]


def draws_of(*rows: int) -> list[np.random.Generator]:
    return [np.random.default_rng((3, 0, row)) for row in rows]


def corrupt(chains: Codes, **kinds: bool) -> dict[str, Codes]:
    others = np.arange(1000, 1006).reshape(1, -1).repeat(len(chains), 0)
    return corrupt_chains(chains, others, draws_of(*range(len(chains))), SETTINGS, **kinds)


@pytest.fixture
def chains() -> Codes:
    return np.array([chain(*range(100 * row, 100 * row + length)) for row, length in enumerate(LENGTHS)])


def events(row: Codes) -> list[int]:
    """The events of a row, whose padding stands at its end alone."""
    count = int((row >= 0).sum())
    assert (row[:count] >= 0).all()
    return row[:count].tolist()


def test_order_keeps_the_events_and_changes_their_places(chains: Codes) -> None:
    corrupted = corrupt(chains)["order_corrupted"]
    for row, length in enumerate(LENGTHS):
        original = events(chains[row])
        moved = set()
        for found in corrupted[row]:
            assert sorted(events(found)) == original
            moved.add(int((found[:length] != chains[row][:length]).sum()))
        assert min(moved) == 2
        assert max(moved) <= length
        # Binomial(3, 0.2) and above: two of three mostly, seldom all.
        assert len(moved) > 1


def test_number_of_moved_events_is_binomial() -> None:
    """At least 2, and m of them for m successes of n."""
    count, length = 4000, 9
    draws = np.random.default_rng(0).random((count, 2, length))
    corrupted = change_order(np.arange(length)[None], draws, 0.2)
    moved = (corrupted != np.arange(length)).sum(-1)
    successes = (draws[:, 0] < 0.2).sum(-1)
    assert np.array_equal(moved, successes.clip(min=2))
    # Every place moves as often as every other.
    share = (corrupted != np.arange(length)).mean(0)
    assert np.allclose(share, share.mean(), atol=0.03)


def test_replacement_takes_events_from_elsewhere(chains: Codes) -> None:
    corrupted = corrupt(chains)["replacement_corrupted"]
    for row, length in enumerate(LENGTHS):
        for found in corrupted[row]:
            new = found[:length] != chains[row][:length]
            assert new.any()
            assert (found[:length][new] >= 1000).all()
            assert (found[length:] == -1).all()


def test_share_of_replaced_events() -> None:
    """Of no success the least likely is replaced: 0.2 n + P(none) of n."""
    draws = np.random.default_rng(0).random((4000, 2, 9))
    found = replace_events(np.arange(9)[None], np.array([[50, 51]]), draws, 0.2)
    assert (found >= 50).mean() == pytest.approx(0.2 + 0.8**9 / 9, abs=0.01)
    assert {50, 51} <= set(found.ravel().tolist())


def test_segments_are_contiguous_and_shorter_than_the_chain(chains: Codes) -> None:
    segments = draw_segments(chains, np.random.default_rng(0).random((3, 500, 2)))
    for row, length in enumerate(LENGTHS):
        found = [events(segment) for segment in segments[row]]
        assert {len(segment) for segment in found} == set(range(2, length))
        original = events(chains[row])
        for segment in found:
            start = original.index(segment[0])
            assert original[start : start + len(segment)] == segment
        assert {segment[0] for segment in found} == set(original[:-1])


def test_corrupted_segments(chains: Codes) -> None:
    """Half of them in another order, half with one event substituted."""
    corruptions = corrupt(chains)
    by_order = []
    for segments, corrupted in zip(corruptions["segments"], corruptions["corrupted_segments"], strict=True):
        for segment, alternatives in zip(segments, corrupted, strict=True):
            for found in alternatives:
                new = (found != segment) & (found >= 1000)
                by_order.append(not new.any())
                if new.any():
                    assert new.sum() == 1
                    assert (found != segment).sum() == 1
                else:
                    assert sorted(events(found)) == sorted(events(segment))
                    assert not np.array_equal(found, segment)
    assert np.mean(by_order) == pytest.approx(0.5, abs=0.06)


def test_short_chains() -> None:
    """One event has no order and no segment, two have an order; all can be substituted."""
    found = corrupt(np.array([chain(7), chain(7, 8)]))
    assert (found["order_corrupted"][0] == -1).all()
    assert (found["order_corrupted"][1] == chain(8, 7)).all()
    assert (found["replacement_corrupted"][0, :, 0] >= 1000).all()
    assert (found["replacement_corrupted"][..., 2:] == -1).all()
    assert (found["segments"] == -1).all()
    assert (found["corrupted_segments"] == -1).all()


def test_equal_events() -> None:
    """Another order that reads the same is none."""
    found = corrupt(np.array([chain(4, 4, 4, 4), chain(4, 4, 5, 4)]))
    assert (found["order_corrupted"][0] == -1).all()
    assert not (found["order_corrupted"][1] == chain(4, 4, 5, 4)).all(-1).any()
    assert all(sorted(events(row)) == [4, 4, 4, 5] for row in found["order_corrupted"][1])
    # A segment of equal events is corrupted by substitution alone.
    assert ((found["corrupted_segments"][0] >= 1000).sum(-1) == 1).all()
    changed = found["corrupted_segments"][1] != found["segments"][1][:, None]
    assert changed.any(-1).all()


def test_draws_depend_on_the_row_alone(chains: Codes) -> None:
    others = np.arange(1000, 1006).reshape(1, -1)
    whole = corrupt(chains)
    for row in range(len(chains)):
        alone = corrupt_chains(chains[row : row + 1], others, draws_of(row), SETTINGS)
        assert alone.keys() == whole.keys()
        for name, value in alone.items():
            assert np.array_equal(whole[name][row], value[0]), name


def test_leaving_out_a_kind_leaves_the_others(chains: Codes) -> None:
    whole = corrupt(chains)
    for left_out in ("order", "replacement", "composition"):
        part = corrupt(chains, **{left_out: False})
        for name, value in part.items():
            assert np.array_equal(whole[name], value), name
        assert len(part) == len(whole) - (2 if left_out == "composition" else 1)


def test_segments_of_one_event(chains: Codes) -> None:
    segments = draw_segments(chains, np.random.default_rng(0).random((3, 500, 2)), 1)
    for row, length in enumerate(LENGTHS):
        found = [events(segment) for segment in segments[row]]
        assert {len(segment) for segment in found} == set(range(1, length))
        assert {segment[0] for segment in found} == set(events(chains[row]))


def test_segments_of_a_chain_that_has_no_longer_ones() -> None:
    """A chain of three events has segments of two, however many are asked for."""
    segments = draw_segments(np.array([chain(7, 8, 9)]), np.random.default_rng(0).random((1, 20, 2)), 5)
    assert {tuple(events(segment)) for segment in segments[0]} == {(7, 8), (8, 9)}


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_share_of_segments_in_another_order(share: float) -> None:
    settings = CorruptionSettings(num_corrupted=40, num_segments=8, segment_order_share=share)
    chains = np.arange(27).reshape(3, 9)
    found = corrupt_chains(chains, np.full((3, 2), 1000), draws_of(0, 1, 2), settings)
    assert (found["corrupted_segments"] < 1000).all(-1).mean() == pytest.approx(share, abs=0.06)


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
    monkeypatch.setattr(chain_rows, "read_chains", lambda rows: calls.append(len(rows)) or read_chains(rows))
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
