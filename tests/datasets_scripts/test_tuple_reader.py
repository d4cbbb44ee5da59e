"""The chain files of HAQAE."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventformers.datasets_scripts import load_built
from eventformers.datasets_scripts.chain_readers import raw_file_kind, read_tuple_chains
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError

LINE = "rescued crew_member cat from <TUP> fed crew_member cat _NULL_ <TUP> named boy cat _NULL_"


def test_verb_and_preposition_make_the_predicate(tmp_path: Path) -> None:
    path = tmp_path / "train_TUP.txt"
    path.write_text(f"{LINE} \n\n{LINE} <DIST> sang bird song _NULL_ <DIST> a b c d\n", encoding="utf-8")
    skipped = SkippedRows()
    first, repeated = read_tuple_chains(path, skipped)
    assert (first.chain_id, repeated.chain_id) == ("train_TUP/1", "train_TUP/3")
    assert first.events == repeated.events
    assert [tuple(raw.event.values()) for raw in first.events] == [
        ("crew member", "rescued from", "cat"),
        ("crew member", "fed", "cat"),
        ("boy", "named", "cat"),
    ]
    assert skipped == {"blank_line": 1, "wrong_continuation": 2}


@pytest.mark.parametrize(("event", "fields"), [("fed crew cat", 3), ("fed the crew cat from", 5), ("", 0)])
def test_another_number_of_fields_is_told_with_its_line(tmp_path: Path, event: str, fields: int) -> None:
    path = tmp_path / "train_TUP.txt"
    path.write_text(f"{LINE}\n{LINE} <TUP> {event}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=f"line 2: found an event of {fields} fields"):
        list(read_tuple_chains(path, SkippedRows()))


def test_a_folder_of_them_gives_chains_and_documents(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    path = folder / "train.txt"
    path.write_text("".join(f"{LINE} <TUP> bought boy toy{n} _NULL_\n" for n in range(5)), encoding="utf-8")
    (folder / "notes.txt").write_text("nothing of this\n", encoding="utf-8")
    assert (raw_file_kind(path), raw_file_kind(folder / "notes.txt")) == ("tuples", None)
    rows = load_built(folder, "chains", validation_share=0, test_share=0, min_chain_length=4)["train"]
    assert rows["chain_id"][:2] == ["train/1", "train/2"]
    assert set(rows["protagonist"]) == {""}
    assert set(rows["license"]) == {"unspecified"}
    assert len(rows[0]["events"]) == 4
    assert len(load_built(folder, "documents")["train"]) == 5
