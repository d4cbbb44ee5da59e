"""Files of a task that stopped, or that still runs when it is run again."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("datatrove", reason="datatrove is not installed")

from datatrove.io import get_datafolder

from eventformers.extraction.datatrove_block import completed_file


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stop(folder: Path) -> None:
    """Raise an error in the middle of a file."""
    with completed_file(get_datafolder(str(folder)), "00001.x") as file:
        file.write(b"half")
        raise RuntimeError("stopped")


def test_a_file_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    folder = get_datafolder(str(tmp_path))
    with pytest.raises(RuntimeError, match="stopped"):
        stop(tmp_path)
    with completed_file(folder, "00001.pairs.x") as other, completed_file(folder, "00001.x") as file:
        other.write(b"pairs")
        file.write(b"whole")
        assert all(name.startswith("unfinished/") for name in files(tmp_path))
    assert files(tmp_path) == {"00001.x": b"whole", "00001.pairs.x": b"pairs"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_runs_of_a_task_do_not_write_into_the_same_file(tmp_path: Path, order: tuple[int, int]) -> None:
    folder = get_datafolder(str(tmp_path))
    runs = [ExitStack(), ExitStack()]
    opened = [run.enter_context(completed_file(folder, "00001.x")) for run in runs]
    for number in order:
        opened[number].write(str(number).encode() * 3)
        runs[number].close()
        # The contents are equal outside this test, so the first file stays.
        assert files(tmp_path)["00001.x"] == str(order[0]).encode() * 3
    assert files(tmp_path).keys() == {"00001.x"}


def test_a_file_that_disappears_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), completed_file(get_datafolder(str(tmp_path)), "00001.x"):
        next((tmp_path / "unfinished").iterdir()).unlink()
