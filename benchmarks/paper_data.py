"""Synthetic raw files in the formats of their owners, as large as the data of the five papers.

Words and events are distributed like Zipf's law. The files of a method depend only on the scale and the seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

SIZES = {
    "swcc": ("events", 4_000_000),
    "heterevent": ("chains", 1_400_000),
    "mico": ("triples", 877_000),
    "event_type_induction": ("mentions", 20_000),
    "event_grounding": ("mentions", 1_800_000),
}
"""What a paper's data are counted in, and their number at scale 1, by method. For induction it is the number
of mentions from which `induce` cannot keep all distances in memory."""

EVENTS = 10_947
LANGUAGES = 44
HELD_OUT_CHAINS = 10_000 / 1_400_000
"""The share of the chains in each of the splits validation and test of MulCL's data."""
TEST_MENTIONS = 91_928
TEST_TRIPLES = 24_486
SIMILARITY_ROWS = {"hard": 115, "hard_extend": 1_000, "transitive": 108}
"""The rows of each test of event similarity, at every scale."""
TYPES = 115
RELATIONS = ("xIntent", "xNeed", "xAttr", "xEffect", "xReact", "xWant", "oEffect", "oReact", "oWant")

_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
_BLOCK = 100_000


def make_words(number: int) -> list[str]:
    """Make distinct words of three syllables, the most frequent first."""
    return ["".join(parts) for parts in islice(product(_SYLLABLES, repeat=3), number)]


class Zipf:
    """Draws of words whose frequencies fall with their rank.

    Args:
        words: the words, the most frequent first.
        seed: seed of all draws.
    """

    def __init__(self, words: Sequence[str], seed: int) -> None:
        self._words = words
        self._generator = np.random.default_rng(seed)
        self._bounds = np.cumsum(1 / np.arange(1, len(words) + 1))
        self._drawn = iter(())

    def word(self) -> str:
        """Draw a word."""
        place = next(self._drawn, None)
        if place is None:
            draws = self._generator.random(_BLOCK) * self._bounds[-1]
            self._drawn = iter(np.searchsorted(self._bounds, draws).tolist())
            place = next(self._drawn)
        return self._words[place]

    def text(self, number: int) -> str:
        """Draw several words as one text."""
        return " ".join(self.word() for _ in range(number))


def write_raw(method: str, folder: Path, scale: float, seed: int = 0) -> int:
    """Write the raw files of a method, the inputs of `embed`, and for SWCC the tests of similarity.

    Args:
        method: a key of `SIZES`.
        folder: folder to write to: the raw files are in its folder `raw`, the inputs of `embed` in
            `embed.jsonl` or `embed.txt`, and the tests of SWCC in `similarity`.
        scale: share of the paper's size.
        seed: seed of all draws.

    Returns:
        The number of units of `SIZES`.
    """
    number = max(40, round(SIZES[method][1] * scale))
    (folder / "raw").mkdir(parents=True)
    words = Zipf(make_words(max(200, min(30_000, round(number**0.6)))), seed)
    _WRITERS[method](folder, words, number, scale)
    return number


def write_encoder(folder: Path, *, hidden_size: int, layers: int) -> Path:
    """Write a random BERT; every word of the files has one to three tokens."""
    folder.mkdir(parents=True)
    pieces = [*_SYLLABLES, *(chr(code) for code in range(ord("a"), ord("z") + 1))]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "'", *make_words(5_000), *pieces]
    vocabulary += [f"##{piece}" for piece in pieces]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertTokenizerFast.from_pretrained(folder, model_max_length=256).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden_size // 32),
        intermediate_size=4 * hidden_size,
        max_position_embeddings=512,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def _write_lines(path: Path, rows: Iterator[Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


def _documents(
    folder: Path, words: Zipf, number: int, scale: float, *, of_document: int, chains: int
) -> None:
    """Write documents of 40 events, each about one of a few protagonists, and their events for `embed`.

    A document has `of_document` units of `SIZES`.
    """

    def documents() -> Iterator[dict[str, Any]]:
        for place in range(number // of_document):
            protagonists = [words.word() for _ in range(chains)]
            events = [
                [row, 0, protagonists[row % chains], verb := words.word(), words.word(), verb, 0, 0]
                for row in range(40)
            ]
            yield {"id": f"d{place}", "source": "synthetic", "n_sent": 40, "events": events}

    _write_lines(folder / "raw" / "events.jsonl", documents())
    with (folder / "raw" / "events.jsonl").open(encoding="utf-8") as file:
        events = (event[2:5] for line in file for event in json.loads(line)["events"])
        rows = (dict(zip(("subject", "predicate", "object"), event, strict=True)) for event in events)
        _write_lines(folder / "embed.jsonl", rows)


def _write_swcc(folder: Path, words: Zipf, number: int, scale: float) -> None:
    _documents(folder, words, number, scale, of_document=40, chains=8)
    (folder / "similarity").mkdir()
    for name, size in SIMILARITY_ROWS.items():
        rows = (
            [words.word() for _ in range(6 if name == "transitive" else 12)]
            + ([str(1 + place % 5)] if name == "transitive" else [])
            for place in range(size)
        )
        _write_lines(folder / "similarity" / f"{name}.txt", map(" | ".join, rows))


def _write_mico(folder: Path, words: Zipf, number: int, scale: float) -> None:
    held_out = max(4, round(TEST_TRIPLES * scale))
    sizes = {"train": number - 2 * held_out, "valid": held_out, "test": held_out}
    (folder / "raw" / "ATOMIC-Ind").mkdir()
    for split, size in sizes.items():
        # A head has about 30 triples over nine relations, as in ATOMIC.
        heads = [f"John {words.text(4)}" for _ in range(max(1, size // 30))]
        rows = (
            f"{heads[place % len(heads)]}\t{RELATIONS[place % 9]}\t{words.text(3)}" for place in range(size)
        )
        _write_lines(folder / "raw" / "ATOMIC-Ind" / f"{split}.txt", rows)
    _write_lines(folder / "embed.txt", (f"{words.text(4)}" for _ in range(number)))


def _write_induction(folder: Path, words: Zipf, number: int, scale: float) -> None:
    def mentions() -> Iterator[dict[str, Any]]:
        for place in range(number):
            before, trigger, after = words.text(8), words.word(), words.text(8)
            start = len(before) + 1
            # Types are as skewed as words.
            kind = int(TYPES ** (place / number)) if place >= TYPES else place
            yield {
                "id": f"m{place}",
                "doc_id": f"d{place // 10}",
                "sentence": f"{before} {trigger} {after}",
                "trigger": {"text": trigger, "start_char": start, "end_char": start + len(trigger)},
                "event_type": f"type_{kind}",
            }

    _write_lines(folder / "raw" / "mentions.jsonl", mentions())


def _write_grounding(folder: Path, words: Zipf, number: int, scale: float) -> None:
    events = max(60, round(EVENTS * scale))
    # One event in 20 has the next ones as parts. A component is in one split.
    split_of = {
        event: ("train", "dev", "test")[(event // 20 % 10 == 8) + 2 * (event // 20 % 10 == 9)]
        for event in range(events)
    }
    edges = (
        {
            "qid": f"Q{event}",
            "pid": "P361",
            "datavalue": [{"value": {"id": {"value": f"Q{event // 20 * 20}"}}}],
        }
        for event in range(events)
        if event % 5 and event % 20
    )
    _write_lines(folder / "raw" / "wd_item_props.jsonl", edges)
    languages = [f"{a}{b}" for a, b in islice(product("abcdefg", "nopqrst"), LANGUAGES)]
    _write_lines(
        folder / "raw" / "label_dict.jsonl",
        (
            {
                "label_id": str(event),
                "label_title": words.text(3),
                "label_desc": words.text(20),
                "label_lang": language,
            }
            for event in range(events)
            # The first language describes all events, later ones fewer.
            for language in languages[: max(1, LANGUAGES // (1 + event % 12))]
        ),
    )
    held_out = max(10, round(TEST_MENTIONS * scale))
    names = {"train": "wikipedia.train", "dev": "wikipedia-zero-shot.dev", "test": "wikipedia-zero-shot.test"}
    for split, name in names.items():
        own = [event for event in range(events) if split_of[event] == split] or [0]
        size = held_out if split != "train" else number - 2 * held_out
        _write_lines(
            folder / "raw" / f"{name}.jsonl",
            (
                {
                    "context_left": f"{words.text(20)} ",
                    "mention": words.text(2),
                    "context_right": f" {words.text(20)}.",
                    "context_lang": languages[place % 3],
                    "label_id": str(own[place % len(own)]),
                }
                for place in range(size)
            ),
        )


_WRITERS: dict[str, Callable[[Path, Zipf, int, float], None]] = {
    "swcc": _write_swcc,
    "heterevent": partial(_documents, of_document=4, chains=4),
    "mico": _write_mico,
    "event_type_induction": _write_induction,
    "event_grounding": _write_grounding,
}
