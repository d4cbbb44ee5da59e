"""An exploration as a static Space: its files, its licences, and `explore --space`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import forked
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exploration_tables import write_tables
from huggingface_hub import HfApi, constants
from server import LoopbackHub

from eventformers import hub as publishing
from eventformers.cli import main
from eventformers.errors import EventformersError
from eventformers.exploration import PAGE_FILE, REPORT_FILE, STATE_FOLDER
from eventformers.exploration.page import write_page
from eventformers.publishing import verification
from eventformers.publishing.folders import find_release, read_folder
from eventformers.publishing.verification import _told

REPO = "storms/news"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explored") / "news"
    folder.mkdir()
    write_tables(folder)
    (folder / STATE_FOLDER).mkdir()
    (folder / STATE_FOLDER / "events.json").write_text("{}", encoding="utf-8")
    write_page(folder)
    return folder


@pytest.fixture
def exploration(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(written, tmp_path / "news"))


def set_license(folder: Path, name: str) -> None:
    path = folder / "documents.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("license")
    pq.write_table(table.set_column(place, "license", pa.array([name] * table.num_rows)), path)


def test_files_of_an_exploration(exploration: Path) -> None:
    found = read_folder(exploration)
    assert (found.kind, found.repo_type) == ("exploration", "space")
    assert {PAGE_FILE, REPORT_FILE, "README.md", "events.parquet", "documents.parquet"} <= set(found.files)
    assert found.left_out == {f"{STATE_FOLDER}/events.json": "hidden"}
    assert "sdk: static" in found.files["README.md"].read_text(encoding="utf-8")
    (exploration / PAGE_FILE).unlink()
    with pytest.raises(EventformersError, match=r"has no index\.html: the page, as `eventformers explore`"):
        read_folder(exploration)


def test_a_release_has_no_explorations(exploration: Path) -> None:
    with pytest.raises(EventformersError, match="has no run and no built dataset"):
        find_release(exploration.parent)


def test_a_damaged_exploration_is_found(exploration: Path) -> None:
    asked = {"kind": "exploration", "source": str(exploration), "revision": None, "configs": []}
    assert _told(asked)["error"] is None  # type: ignore[arg-type]
    (exploration / REPORT_FILE).write_text("{", encoding="utf-8")
    assert "JSONDecodeError" in str(_told(asked)["error"])  # type: ignore[arg-type]


def test_licences_must_be_accepted(exploration: Path, hub: LoopbackHub) -> None:
    set_license(exploration, "research-only")
    with pytest.raises(EventformersError, match="has rows under research-only"):
        publishing.push(exploration, REPO, endpoint=hub.endpoint, token=hub.token_of("alice"))


@pytest.mark.parametrize("public", [False, True])
def test_explore_pushes_a_space(
    exploration: Path,
    hub: LoopbackHub,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tiny_encoder: Path,
    public: bool,
    capsys: Any,
) -> None:
    monkeypatch.setattr(verification, "subprocess", forked.stand_in("libraries"))
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token_of("alice"))
    set_license(exploration, "CC-BY-2.5" if public else "research-only")
    options = ["--events", str(tiny_encoder), "--device", "cpu", "--space", REPO]
    lines = ["explore", str(exploration), "-o", str(tmp_path / "out"), *options]
    with pytest.raises(SystemExit) as stopped:
        main([*lines, "--public"] if public else lines)
    assert stopped.value.code == 0, capsys.readouterr().err
    api = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))
    there: Any = api.space_info(REPO)
    assert (there.sdk, there.private) == ("static", not public)
    assert {PAGE_FILE, "README.md", "events.parquet"} <= {each.rfilename for each in there.siblings}
