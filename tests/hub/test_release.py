"""`release`: the whole suite built from samples, trained, published and continued, on the loopback Hub."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forked
import pytest
from huggingface_hub import HfApi, constants
from server import LoopbackHub

from eventformers import hub as publishing
from eventformers import training
from eventformers.cli import main
from eventformers.datasets_scripts.building import BUILDERS
from eventformers.errors import EventformersError
from eventformers.methods import all_methods
from eventformers.models.modeling_swcc import SwccModel
from eventformers.publishing import folders as hub_folders
from eventformers.publishing import verification
from eventformers.release import parts
from eventformers.release import suite as releasing
from eventformers.release.suite import Release, release
from eventformers.trainers.recipes import Recipe, load_recipe

pytestmark = pytest.mark.process

METHODS = ("swcc", "event_type_induction")
NAMES = ("swcc-demo", "event-type-induction-demo")
REPOSITORIES = {
    "dataset": {"storms/event_similarity", "storms/event_types", "storms/event_chains"},
    "model": {f"storms/{name}" for name in NAMES},
    "space": {"storms/mcnc", "storms/leaderboard"},
}
ReleaseTo = Callable[..., Release]


@pytest.fixture(autouse=True)
def _few_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two methods, the datasets that they read, and one metric."""
    some = {name: all_methods()[name] for name in METHODS}
    monkeypatch.setattr(parts, "all_methods", lambda: some)
    names = [repo_id.partition("/")[2] for repo_id in REPOSITORIES["dataset"]]
    monkeypatch.setattr(parts, "BUILDERS", {name: BUILDERS[name] for name in sorted(names)})
    mcnc = hub_folders.metric_folders()["mcnc"]
    for module in (hub_folders, releasing):
        monkeypatch.setattr(module, "metric_folders", lambda: {"mcnc": mcnc})


@pytest.fixture
def release_to(hub: LoopbackHub, tiny_encoder: Path) -> ReleaseTo:
    def call(folder: Path, **options: Any) -> Release:
        return release(
            "storms",
            folder,
            encoder=str(tiny_encoder),
            settings=["max_steps=2", "save_steps=1", "max_seq_length=64"],
            device="cpu",
            endpoint=hub.endpoint,
            token=hub.token_of("alice"),
            **options,
        )

    return call


def changed_at(folder: Path) -> dict[str, int]:
    """When each file of datasets and finished models was written."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for part in (releasing.DATASETS, releasing.MODELS)
        for path in (folder / part).rglob("*")
        if path.suffix in (".parquet", ".safetensors") and not path.parent.name.startswith("checkpoint")
    }


def files_on_the_hub(api: HfApi) -> dict[str, set[str]]:
    """The files of every repository, without those that the Hub makes."""
    listed = {"dataset": api.list_datasets, "model": api.list_models, "space": api.list_spaces}
    return {
        one.id: set(api.list_repo_files(one.id, repo_type=kind)) - {".gitattributes"}
        for kind, listing in listed.items()
        for one in listing(author="storms")
    }


def test_a_release_is_built_interrupted_continued_and_published(
    hub: LoopbackHub, release_to: ReleaseTo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "release"
    asked: list[tuple[str, bool]] = []
    train = parts.train

    def train_told(method: str, *arguments: Any, **options: Any) -> Any:
        asked.append((method, options["resume"]))
        return train(method, *arguments, **options)

    monkeypatch.setattr(parts, "train", train_told)
    score = training._score

    def killed(run: Any, *arguments: Any) -> Any:
        if run.method.name == METHODS[1]:
            raise KeyboardInterrupt
        return score(run, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(training, "_score", killed)
        with pytest.raises(KeyboardInterrupt):
            release_to(folder)
    before = changed_at(folder)
    assert asked == [(METHODS[0], False), (METHODS[1], False)]
    assert not hub.count("POST", "/api/repos/create")

    # The second run continues, and nothing that does not load back is published.
    shown: dict[bool, Any] = {False: {"shown": 1, "error": None}, True: {"shown": None, "error": "OSError"}}
    with monkeypatch.context() as patched:
        patched.setattr(publishing, "probe", lambda asked, *, online, **_: [shown[online]] * len(asked))
        with pytest.raises(EventformersError, match=r"does not load back .*OSError"):
            release_to(folder)
    assert asked[2:] == [(METHODS[1], True)]
    api = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))
    there = files_on_the_hub(api)
    assert there.keys() == set.union(*REPOSITORIES.values())
    assert not set.union(*there.values())

    # The third one trains and builds nothing.
    monkeypatch.setattr(verification, "subprocess", forked.stand_in("libraries"))
    done = release_to(folder)
    assert len(asked) == 3
    after = changed_at(folder)
    assert before.items() <= after.items()
    assert not list(folder.rglob("checkpoint-*"))
    there = files_on_the_hub(api)
    assert all("README.md" in files for files in there.values())
    assert {"model.safetensors", ".eval_results/hard_similarity.yaml"} <= there["storms/swcc-demo"]
    assert {"index.html", "leaderboard.json"} <= there["storms/leaderboard"]
    assert all(
        api.repo_info(name, repo_type=kind).private for kind, names in REPOSITORIES.items() for name in names
    )
    [collection] = api.list_collections(owner="storms")
    assert (collection.title, collection.private) == ("Events of storms", True)
    assert {item.item_id for item in api.get_collection(collection.slug).items} == there.keys()
    page = (folder / "leaderboard" / "index.html").read_text(encoding="utf-8")
    assert f"{hub.endpoint}/storms/swcc-demo" in page
    assert str(tmp_path) not in page

    assert done.push is not None
    assert {item.repo_id for item in done.items} == there.keys()
    assert all(item.is_done and item.num_bytes for item in done.items)
    assert all(item.hours is not None for item in done.items if item.kind == "model")


def test_other_settings_train_again(
    release_to: ReleaseTo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(parts, "BUILDERS", {"event_types": BUILDERS["event_types"]})

    def train(method: str, folder: Path, **options: Any) -> None:
        asked.append(options)
        SwccModel.from_encoder(options["encoder"]).save_pretrained(folder)

    monkeypatch.setattr(parts, "train", train)
    monkeypatch.setattr(releasing, "_items", lambda *_: ())
    monkeypatch.setattr(releasing, "push", lambda *_, **__: None)
    for seed in (1, 1, 2):
        release_to(tmp_path / "release", seed=seed)
    assert [one["seed"] for one in asked] == [1, 2]


def test_hours_of_an_interrupted_run_count(
    release_to: ReleaseTo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "BUILDERS", {"event_types": BUILDERS["event_types"]})
    monkeypatch.setattr(parts, "can_resume", lambda folder: True)
    monkeypatch.setattr(parts, "time", SimpleNamespace(monotonic=count(step=1800).__next__))
    monkeypatch.setattr(releasing, "push", lambda *_, **__: None)

    def interrupted(method: str, folder: Path, **options: Any) -> None:
        raise KeyboardInterrupt

    def train(method: str, folder: Path, **options: Any) -> None:
        SwccModel.from_encoder(options["encoder"]).save_pretrained(folder)

    monkeypatch.setattr(parts, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release_to(tmp_path / "release")
    monkeypatch.setattr(parts, "train", train)
    told: list[Any] = []
    monkeypatch.setattr(parts, "write_record", lambda *_, **facts: told.append(facts))
    monkeypatch.setattr(releasing, "_items", lambda *_: ())
    release_to(tmp_path / "release")
    assert told[:3] == [{"hours_before": 0.5}, {"hours_before": 1.0}, {"hours": 1.0}]


def write_rows(folder: Path, license_name: str) -> Path:
    chains = [
        {
            "id": f"{source}-{number}",
            "source": source,
            "license": license_name if source == "closed" else "CC-BY-4.0",
            "events": [
                [0, 0, "storm", verb, "city", verb, 0, 0] for verb in ("hit", "flooded", "left", "hurt")
            ],
        }
        for number in range(12)
        for source in ("open", "closed")
    ]
    mention = {"text": "Rain fell.", "trigger": {"text": "fell", "start_char": 5, "end_char": 9}}
    mentions = [
        {"id": str(number), "sentence": mention["text"], "event_type": kind, "source": "s", **mention}
        for number, kind in enumerate(("fall", "rise") * 4)
    ]
    for name, rows in (("event_chains", chains), ("event_types", mentions)):
        (folder / name).mkdir(parents=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / name / "rows.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_rows_that_may_not_be_published_are_left_out(
    hub: LoopbackHub, release_to: ReleaseTo, tmp_path: Path
) -> None:
    data = write_rows(tmp_path / "raw", "research-only")
    options = {"data": str(data), "recipe": "demo", "dry_run": True}
    found = {item.repo_id.partition("/")[2]: item for item in release_to(tmp_path / "one", **options).items}
    assert found["event_chains"].licenses == ("CC-BY-4.0",)
    assert found["swcc-demo"].left_out is None
    assert "rows under unspecified" in str(found["event_types"].left_out)
    assert found[NAMES[1]].left_out == "its training rows are under unspecified"
    accepted = {
        item.repo_id.partition("/")[2]: item
        for item in release_to(tmp_path / "two", accept_licenses=True, **options).items
    }
    assert accepted["event_chains"].licenses == ("CC-BY-4.0", "research-only")
    assert not any(item.left_out for item in accepted.values())
    (data / "event_chains" / "rows.jsonl").unlink()
    (data / "event_chains").rmdir()
    with pytest.raises(
        EventformersError, match=r"nothing may be published: .*unspecified.*--accept-licenses"
    ):
        release_to(tmp_path / "three", data=str(data), recipe="demo")
    assert not hub.count("POST")


def test_what_is_left_out_is_not_pushed(
    tmp_path: Path, release_to: ReleaseTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    pushed: list[str] = []
    monkeypatch.setattr(releasing, "train_run", lambda _, folder, *others: trained.append(folder.name))
    monkeypatch.setattr(releasing, "push", lambda sent, *others, **options: pushed.extend(map(str, sent)))
    release_to(tmp_path / "out", data=str(write_rows(tmp_path / "data", "research-only")), recipe="demo")
    assert trained == ["swcc-demo"]
    assert [Path(name).name for name in pushed] == ["event_chains", "swcc-demo", "mcnc"]


def test_a_dry_run_shows_recorded_sizes_and_sends_nothing(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(parts, "BUILDERS", {"event_types": BUILDERS["event_types"]})
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)

    def with_record(folder: str, name: str) -> Recipe:
        recipe = load_recipe(folder, name)
        recipe.recorded = {"hours": 1.5, "megabytes": 90}
        return recipe

    monkeypatch.setattr("eventformers.trainers.run.load_recipe", with_record)
    with pytest.raises(SystemExit) as stopped:
        main(["release", "storms", "-o", f"{tmp_path}/release", "--pretrained", f"{tmp_path}/p", "--dry-run"])
    shown = capsys.readouterr()
    assert stopped.value.code == 0, shown.err
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in shown.out.splitlines() if "│" in line
    ]
    assert [f"storms/{NAMES[1]}", "model", "Apache-2.0", "90 MB", "1.50", "to train"] in rows
    assert [f"storms/{METHODS[1]}", "model", "Apache-2.0", "?", "0.00", "to train"] in rows
    assert not (tmp_path / "p").exists()
    assert "1.50 hours of training" in shown.out
    assert "Left out: storms/swcc-demo: the data has no rows of event_chains, cooccurrence" in shown.out
    assert not hub.requests


@pytest.mark.parametrize(
    ("owner", "options", "message"),
    [
        ("storms/x", {}, "accepted: a user name or an organization"),
        ("storms", {"token": "hf_nobody"}, "does not accept the token; log in"),
        ("storms", {"recipe": "papper"}, "Did you mean 'paper'"),
        ("storms", {"data": "no-such-folder"}, "no raw files of any dataset; accepted: .*event_chains"),
    ],
)
def test_what_is_wrong_shows_before_the_work(
    hub: LoopbackHub, tmp_path: Path, owner: str, options: dict[str, Any], message: str
) -> None:
    given = {"endpoint": hub.endpoint, "token": hub.token_of("alice"), **options}
    with pytest.raises(EventformersError, match=message):
        release(owner, tmp_path / "release", **given)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(EventformersError, match=r"has notes\.txt but no release"):
        release("storms", tmp_path / "other")
