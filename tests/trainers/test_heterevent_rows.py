"""From chains to the inputs of HeterEvent's stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset, Features, List
from transformers import AutoTokenizer

from eventformers.datasets_scripts.events import EVENT_FEATURE, Event, event_text
from eventformers.errors import EventformersError
from eventformers.models.configuration_heterevent import HeterEventConfig
from eventformers.trainers.chain_corruption import CorruptionSettings
from eventformers.trainers.chain_rows import ChainRows, read_chains
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
