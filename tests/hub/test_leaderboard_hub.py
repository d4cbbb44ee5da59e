"""A leaderboard of model repositories on a Hub."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from leaderboard_inputs import make_result
from server import LoopbackHub

from eventformers.errors import EventformersError
from eventformers.evaluation.results import write_eval_results
from eventformers.leaderboard.board import build_leaderboard
from eventformers.leaderboard.sources import read_author, read_collection, read_repository


@pytest.fixture
def api(hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HfApi:
    """Alice's client, with a cache of its own."""
    client = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))
    download = client.snapshot_download
    monkeypatch.setattr(
        client,
        "snapshot_download",
        lambda *args, **kwargs: download(*args, cache_dir=tmp_path / "cache", **kwargs),
    )
    return client


def push(api: HfApi, tmp_path: Path, repo_id: str, value: float, seed: int = 1, **changes) -> None:
    folder = tmp_path / repo_id.replace("/", "-")
    write_eval_results([make_result(main_value=value, seed=seed, **changes)], folder)
    (folder / "model.bin").write_bytes(b"weights")
    api.create_repo(repo_id)
    api.upload_folder(repo_id=repo_id, folder_path=folder)


def test_repositories_are_read_with_their_commit_and_card(api, hub, tmp_path):
    for seed, value in ((1, 80.0), (2, 82.0)):
        push(api, tmp_path, f"storms/mine-seed-{seed}", value, seed)
    hub.requests.clear()
    found = [one for seed in (1, 2) for one in read_repository(f"storms/mine-seed-{seed}", api)]
    (row,) = [row for row in build_leaderboard(found).boards[0].rows if row.kind == "model"]
    assert (row.model, row.seeds, row.cells[0].value) == ("storms/mine", (1, 2), 81.0)
    assert row.card == f"{hub.endpoint}/storms/mine-seed-1"
    assert set(row.revisions) == {api.model_info(f"storms/mine-seed-{seed}").sha for seed in (1, 2)}
    # Weights and predictions stay where they are.
    assert hub.count("GET", r"model\.bin") == 0
    assert hub.count("GET", r"\.eval_results") == 2


def test_different_data_on_the_hub_is_refused_and_chosen_by_revision(api, tmp_path):
    dataset = make_result().dataset
    for name, digit in (("one", "1"), ("two", "2")):
        other = replace(
            dataset, origin="hub", hub_id="storms/data", revision=digit * 40, fingerprint=digit * 64
        )
        push(api, tmp_path, f"storms/{name}", 70.0, dataset=other)
    found = read_author("storms", api)
    with pytest.raises(EventformersError, match=r"111111111111 .* by storms/one; fingerprint 222222222222"):
        build_leaderboard(found)
    chosen = build_leaderboard(found, dataset_revisions=["2222"])
    assert [row.model for row in chosen.boards[0].rows if row.kind == "model"] == ["storms/two"]


def test_an_authors_repository_that_cannot_be_read_is_left_out_and_told(api, tmp_path, caplog):
    push(api, tmp_path, "storms/good", 70.0)
    api.create_repo("storms/bad")
    api.create_repo("storms/empty")
    api.upload_file(repo_id="storms/bad", path_in_repo=".eval_results/x.yaml", path_or_fileobj=b"- 3\n")
    assert [one.model for one in read_author("storms", api)] == ["storms/good"]
    assert "left out storms/bad" in caplog.text
    with pytest.raises(EventformersError, match="nobody on the Hub: found no model repository"):
        read_author("nobody", api)


def test_a_collection_gives_its_models(api, tmp_path):
    for name in ("storms/good", "storms/another"):
        push(api, tmp_path, name, 70.0)
    api.create_repo("storms/data", repo_type="dataset")
    slug = api.create_collection("mine", namespace="storms").slug
    api.add_collection_item(slug, "storms/good", "model")
    api.add_collection_item(slug, "storms/data", "dataset")
    assert [one.model for one in read_collection(slug, api)] == ["storms/good"]


def test_what_cannot_be_had_is_told_in_one_line(api, hub, tmp_path, no_waiting):
    push(api, tmp_path, "storms/good", 70.0)
    with pytest.raises(EventformersError, match="storms/missing: the repository does not exist"):
        read_repository("storms/missing", api)
    with pytest.raises(EventformersError, match="a/b/c: Repo id must be"):
        read_repository("a/b/c", api)
    hub.fault("GET", "/api/models/storms/good", status=500, times=100)
    with pytest.raises(EventformersError, match="storms/good: the Hub failed with status 500"):
        read_repository("storms/good", api)
    hub.stop()
    with pytest.raises(EventformersError, match="storms/good: the connection to the Hub was lost"):
        read_repository("storms/good", api)


def test_the_command_reads_the_hub_of_the_environment(hub, api, tmp_path, run_script):
    push(api, tmp_path, "storms/good", 70.0)
    done = run_script("from eventformers.cli import main\nmain(['leaderboard', '--repo', 'storms/good'])")
    assert "storms/good" in done.stdout
    assert "70.0" in done.stdout
    assert sys.executable not in done.stderr
