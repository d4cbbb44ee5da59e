"""Publishing models, datasets and metrics, against the loopback Hub.

Loading in a fresh process is what takes the time, so one test does it for all kinds at once; in the others
`loads` stands in for it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest
from huggingface_hub import CommitOperationAdd, HfApi, constants
from safetensors.torch import load_file, save_file
from server import LoopbackHub

from eventformers import build_dataset
from eventformers import hub as publishing
from eventformers.cli import main
from eventformers.errors import EventformersError
from eventformers.hub import Push
from eventformers.model_cards import TrainedOn
from eventformers.model_cards.card import write_training_record
from eventformers.publishing import folders as hub_folders
from eventformers.publishing import verification
from eventformers.publishing.plan import STAGING
from eventformers.publishing.verification import Told
from eventformers.trainers.base import PUSH_SIGNATURE

REPO = "storms/model"
PushTo = Callable[..., Push]


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory: pytest.TempPathFactory, plain_model: Path) -> Path:
    """A folder as a run leaves it, with what must never be sent."""
    folder = Path(shutil.copytree(plain_model, tmp_path_factory.mktemp("release") / "model"))
    sources = {"samples": {"license": "Apache-2.0"}}
    write_training_record(TrainedOn(name="event_chains", config="chains", sources=sources), folder)
    for name in ("checkpoint-2/model.safetensors", "stages/first/model.safetensors", ".cache/lock"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"not to be sent")
    for name in ("run.json", "optimizer.pt", "training_args.bin", ".eval_results/task.yaml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("[]", encoding="utf-8")
    return folder


@pytest.fixture
def model(saved_model: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(saved_model, tmp_path / "model"))


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> dict[bool, Told]:
    """What loading shows, of a folder (False) and of the Hub (True), without a fresh process."""
    shows: dict[bool, Told] = {place: {"shown": [0.5, 1.0], "error": None} for place in (False, True)}
    monkeypatch.setattr(
        publishing, "probe", lambda asked, *, endpoint, token, online: [shows[online]] * len(asked)
    )
    return shows


@pytest.fixture
def push(hub: LoopbackHub, loads: dict[bool, Told]) -> PushTo:
    def call(target: Path | str, repo_id: str = REPO, **options: Any) -> Push:
        token = options.pop("token", hub.token_of("alice"))
        return publishing.push(target, repo_id, endpoint=hub.endpoint, token=token, **options)

    return call


@pytest.fixture
def api(hub: LoopbackHub) -> HfApi:
    return HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))


def written(hub: LoopbackHub) -> int:
    """Requests that may have changed something; one that asks about paths does not."""
    asked = hub.count("POST", "/paths-info/")
    return sum(hub.count(method) for method in ("POST", "PUT", "DELETE")) - asked


def commit(api: HfApi, files: dict[str, str], description: str = "", repo_type: str = "model") -> None:
    """What somebody else, or an earlier push, left."""
    api.create_repo(REPO, repo_type=repo_type, exist_ok=True)
    operations = [CommitOperationAdd(path, text.encode()) for path, text in files.items()]
    api.create_commit(
        REPO, operations, commit_message="files", commit_description=description, repo_type=repo_type
    )


def test_a_release_is_pushed_loaded_back_and_not_sent_twice(
    hub: LoopbackHub,
    api: HfApi,
    saved_model: Path,
    built_dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(verification, "subprocess", forked.stand_in("libraries"))
    shutil.copytree(built_dataset, saved_model.with_name("similarity"))
    # Folders that are called as the repositories must not be loaded in their place.
    for name in ("model", "similarity", "mcnc"):
        (tmp_path / "storms" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    mcnc = hub_folders.metric_folders()["mcnc"]
    monkeypatch.setattr(hub_folders, "metric_folders", lambda: {"mcnc": mcnc})

    def release() -> Push:
        return publishing.push(
            saved_model.parent,
            "storms",
            everything=True,
            private=True,
            tag="v1",
            collection="Events",
            endpoint=hub.endpoint,
            token=hub.token_of("alice"),
        )

    done = release()
    pushed = {one.plan.local.kind: one for one in done.repositories}
    assert {kind: one.plan.repo_id for kind, one in pushed.items()} == {
        "model": "storms/model",
        "dataset": "storms/similarity",
        "metric": "storms/mcnc",
    }
    for one in pushed.values():
        local = one.plan.local
        there: Any = api.repo_info(one.plan.repo_id, repo_type=local.repo_type)
        assert there.private
        assert there.sha == one.commit
        assert {each.rfilename for each in there.siblings} == {".gitattributes", *local.files}
        refs = api.list_repo_refs(one.plan.repo_id, repo_type=local.repo_type)
        assert [branch.name for branch in refs.branches] == ["main"]
        assert [(tag.name, tag.target_commit) for tag in refs.tags] == [("v1", one.commit)]
        # People see one commit with everything in it.
        assert len(api.list_repo_commits(one.plan.repo_id, repo_type=local.repo_type)) == 2
        # Loaded from the Hub in the fresh process.
        assert hub.count("GET", f"/{one.plan.repo_id}/resolve/")
    files = pushed["model"].plan.local.files
    assert {"README.md", "model.safetensors", "modeling_swcc.py", ".eval_results/task.yaml"} <= files.keys()
    assert not [path for path in files if path.startswith(("checkpoint", "stages", "run", "optim", ".cache"))]
    assert "training_args.bin" not in files
    card = api.hf_hub_download(REPO, "README.md")
    assert Path(card).read_bytes() == (saved_model / "README.md").read_bytes()
    collection = next(iter(api.list_collections(owner="storms")))
    assert done.collection == f"{hub.endpoint}/collections/{collection.slug}"
    assert collection.private
    assert {(item.item_type, item.item_id) for item in collection.items} == {
        ("model", "storms/model"),
        ("dataset", "storms/similarity"),
        ("space", "storms/mcnc"),
    }

    hub.requests.clear()
    again = release()
    assert [one.commit for one in again.repositories] == [one.commit for one in done.repositories]
    # Only the tags are requested again; they exist.
    assert written(hub) == hub.count("POST", "/tag/") == 3
    assert not hub.count("GET", "/resolve/")


def test_a_dry_run_tells_all_and_sends_nothing(
    hub: LoopbackHub, push: PushTo, model: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(model)
    (model / "README.md").write_text("# changed\n", encoding="utf-8")
    for name in ("notes.txt", "token.json"):
        (model / name).write_text("new", encoding="utf-8")
    hub.requests.clear()
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token_of("alice"))
    with pytest.raises(SystemExit) as stopped:
        main(["push", str(model), "--repo-id", REPO, "--dry-run", "--include", "notes.txt"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    lines = {tuple(line.split()) for line in shown.splitlines()}
    assert ("changed", "10", "bytes", "plain", "README.md") in lines
    assert ("new", "3", "bytes", "plain", "notes.txt") in lines
    size = (model / "model.safetensors").stat().st_size
    assert ("there", f"{size:,}", "bytes", "LFS", "model.safetensors") in lines
    assert "unsent  checkpoint-2/ (1 file): a checkpoint" in shown
    assert "unsent  token.json: not a known file of a model; --include PATTERN sends it" in shown
    assert "Would send 2 files (13 bytes)" in shown
    assert written(hub) == 0


@pytest.mark.parametrize(
    ("token", "repo_id", "message"),
    [
        ("hf_nobody", REPO, "does not accept the token; log in"),
        ("hf_alice_reads", REPO, "no write permission"),
        ("hf_bob_writes", REPO, "no write permission"),
        ("hf_alice_writes", "model", "accepted: ORG/NAME"),
        ("hf_alice_writes", "storms/a--b", "--repo-id: Cannot have --"),
        ("hf_alice_writes", "datasets/storms/model", "--repo-id: Repo id must be in the form"),
    ],
)
def test_who_may_not_push_leaves_no_trace(
    hub: LoopbackHub, push: PushTo, saved_model: Path, token: str, repo_id: str, message: str
) -> None:
    with pytest.raises(EventformersError, match=message) as refused:
        push(saved_model, repo_id, token=token)
    assert token not in str(refused.value)
    assert ("models", REPO) not in hub.repositories
    assert not hub.count("PUT")


def test_nobody_logged_in(hub: LoopbackHub, push: PushTo, saved_model: Path) -> None:
    with pytest.raises(EventformersError, match="not logged in; log in with `hf auth login`"):
        push(saved_model, token=None)
    assert not hub.requests


def test_the_hub_is_out_of_reach(
    hub: LoopbackHub, push: PushTo, saved_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(EventformersError, match=r"HF_HUB_OFFLINE is set, .* unset it"):
        push(saved_model)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    hub.stop()
    with pytest.raises(EventformersError, match=r"the connection to the Hub was lost .*ConnectError"):
        push(saved_model)


def test_a_lost_connection_leaves_main_alone_and_the_next_push_goes_on(
    hub: LoopbackHub, api: HfApi, push: PushTo, saved_model: Path
) -> None:
    hub.fault("POST", f"/commit/{STAGING}", cut_upload=100)
    with pytest.raises(EventformersError, match=r"connection to the Hub was lost .* run the command again"):
        push(saved_model)
    assert hub.count("PUT", "lfs-storage") == 1
    assert [each.rfilename for each in api.model_info(REPO).siblings] == [".gitattributes"]

    hub.fault("POST", "/commit/main", cut_upload=100)
    with pytest.raises(EventformersError, match="connection to the Hub was lost"):
        push(saved_model)
    assert [each.rfilename for each in api.model_info(REPO).siblings] == [".gitattributes"]

    done = push(saved_model)
    assert api.model_info(REPO).sha == done.repositories[0].commit
    # The large file went over the line in the first of the three pushes alone.
    assert hub.count("PUT", "lfs-storage") == 1


def test_the_hub_fails_and_answers_too_late(hub: LoopbackHub, push: PushTo, saved_model: Path) -> None:
    hub.fault("POST", "/api/repos/create", status=500)
    with pytest.raises(EventformersError, match=r"the Hub failed with status 500 .*; run the command again"):
        push(saved_model)
    # Somebody else was faster.
    hub.fault("POST", "/commit/main", status=412)
    with pytest.raises(EventformersError, match="another commit was made there at the same time"):
        push(saved_model)
    assert push(saved_model).repositories[0].commit


def test_a_commit_between_plan_and_push_is_not_overwritten(
    hub: LoopbackHub, api: HfApi, push: PushTo, model: Path, loads: dict[bool, Told]
) -> None:
    push(model)
    (model / "README.md").write_text("# mine\n", encoding="utf-8")

    def other_commits(step: str) -> None:
        if step.startswith("publishing"):
            commit(api, {"README.md": "# theirs\n"})

    with pytest.raises(EventformersError, match="another commit was made there"):
        push(model, tell=other_commits)
    assert Path(api.hf_hub_download(REPO, "README.md")).read_text(encoding="utf-8") == "# theirs\n"


def test_what_does_not_load_back_is_not_published(
    hub: LoopbackHub, api: HfApi, push: PushTo, saved_model: Path, loads: dict[bool, Told]
) -> None:
    loads[False] = {"shown": None, "error": "ValueError: weights are missing"}
    with pytest.raises(EventformersError, match=r"does not load, so it is not pushed: .*weights are missing"):
        push(saved_model)
    assert written(hub) == 0

    loads[False] = {"shown": [0.5], "error": None}
    loads[True] = {"shown": None, "error": "OSError: no file"}
    with pytest.raises(EventformersError, match=r"does not load back .*no file.*branch main is unchanged"):
        push(saved_model)
    loads[True] = {"shown": [0.6], "error": None}
    with pytest.raises(EventformersError, match="loading from the Hub and from"):
        push(saved_model)
    assert [each.rfilename for each in api.model_info(REPO).siblings] == [".gitattributes"]


def test_a_repository_with_other_content_is_refused(
    hub: LoopbackHub, api: HfApi, push: PushTo, saved_model: Path
) -> None:
    commit(api, {"config.json": '{"model_type": "bert"}', "README.md": "# BERT\n"})
    with pytest.raises(EventformersError, match=r"has another model \(model_type 'bert', not 'swcc'\)"):
        push(saved_model)
    commit(api, {"config.json": '{"model_type": "swcc"}'}, PUSH_SIGNATURE)
    with pytest.raises(
        EventformersError, match=r"did not write README.md there, and the push would replace it"
    ):
        push(saved_model)
    assert len(api.list_repo_commits(REPO)) == 3
    push(saved_model, overwrite=True)
    push(saved_model)


def test_a_later_push_replaces_what_an_earlier_one_wrote(
    hub: LoopbackHub, api: HfApi, push: PushTo, model: Path
) -> None:
    push(model)
    commit(api, {"model-00001-of-00002.safetensors": "stale", "logo.txt": "theirs"})
    (model / "README.md").write_text("# better\n", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"did not write model-00001-of-00002.safetensors there"):
        push(model)
    done = push(model, overwrite=True, message="Better card")
    plan = done.repositories[0].plan
    assert [each.path for each in plan.to_send] == ["README.md"]
    assert (plan.deleted, plan.kept) == (("model-00001-of-00002.safetensors",), ("logo.txt",))
    there = {each.rfilename for each in api.model_info(REPO).siblings}
    assert "logo.txt" in there
    assert "model-00001-of-00002.safetensors" not in there
    assert api.list_repo_commits(REPO)[0].title == "Better card"


def test_configs_of_a_dataset_do_not_vanish(
    hub: LoopbackHub, api: HfApi, push: PushTo, built_dataset: Path, dataset: Path
) -> None:
    both = build_dataset("event_similarity", output=dataset)
    plan = push(both).repositories[0].plan
    assert plan.address == f"datasets/{REPO}"
    assert plan.local.configs[0] == "hard"
    with pytest.raises(
        EventformersError, match="has config hard_extended, transitive, verbs_in_context, which"
    ):
        push(built_dataset)
    stale = "hard/test-00000-of-00002.parquet"
    commit(api, {stale: "stale"}, PUSH_SIGNATURE, "dataset")
    assert push(both).repositories[0].plan.deleted == (stale,)


def test_branches_and_tags(hub: LoopbackHub, api: HfApi, push: PushTo, model: Path) -> None:
    push(model, revision="seed-1", tag="v1")
    assert [each.rfilename for each in api.model_info(REPO).siblings] == [".gitattributes"]
    first = push(model, revision="seed-1").repositories[0].commit
    (model / "README.md").write_text("# second\n", encoding="utf-8")
    second = push(model, revision="seed-2").repositories[0].commit
    branches = {each.name: each.target_commit for each in api.list_repo_refs(REPO).branches}
    assert branches.keys() == {"main", "seed-1", "seed-2"}
    assert (branches["seed-1"], branches["seed-2"]) == (first, second)
    third = push(model, revision="seed-1").repositories[0].commit
    assert third not in (first, second)
    hub.requests.clear()
    with pytest.raises(EventformersError, match="already has a tag v1, at commit"):
        push(model, tag="v1")
    for option in ("revision", "tag"):
        with pytest.raises(EventformersError, match=f"--{option}: received 'a b'"):
            push(model, **{option: "a b"})
    assert written(hub) == 0


def test_a_public_repository_does_not_take_private_files(
    hub: LoopbackHub, api: HfApi, push: PushTo, saved_model: Path
) -> None:
    api.create_repo(REPO)
    with pytest.raises(EventformersError, match="is already public"):
        push(saved_model, private=True)
    assert not api.model_info(REPO).private
    push(saved_model, "storms/hidden", private=True)
    # It stays private where a later push says nothing of it.
    push(saved_model, "storms/hidden")
    assert api.model_info("storms/hidden").private


def test_licences_must_be_accepted(hub: LoopbackHub, push: PushTo, model: Path) -> None:
    sources = {"a": {"license": "Apache-2.0"}, "b": {"license": "research-only"}}
    write_training_record(TrainedOn(name="event_chains", config="chains", sources=sources), model)
    with pytest.raises(EventformersError, match=r"trained on rows under research-only; .*--accept-licenses"):
        push(model)
    write_training_record(None, model)
    with pytest.raises(EventformersError, match="does not record the licences of its rows"):
        push(model)
    assert not hub.requests
    push(model, accept_licenses=True)


def test_licences_of_a_dataset_must_be_accepted(push: PushTo, dataset: Path) -> None:
    report = dataset / "hard" / "build_report.json"
    content = json.loads(report.read_text(encoding="utf-8"))
    report.write_text(json.dumps({**content, "licenses": ["CC-BY-NC-SA-4.0"]}), encoding="utf-8")
    with pytest.raises(EventformersError, match=r"has rows under CC-BY-NC-SA-4.0"):
        push(dataset)


def test_a_metric_keeps_its_name(push: PushTo, api: HfApi) -> None:
    with pytest.raises(EventformersError, match="accepted for this metric: storms/mcnc"):
        push("mcnc", "storms/narrative-cloze")
    push("mcnc", "storms/mcnc")
    there: Any = api.space_info("storms/mcnc")
    assert there.sdk == "gradio"
    assert {"mcnc.py", "mcnc_impl.py", "app.py", "README.md"} <= {each.rfilename for each in there.siblings}


def test_a_hub_that_does_not_answer_is_not_waited_for(
    hub: LoopbackHub, push: PushTo, saved_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTFORMERS_HUB_TIMEOUT", "0.2")
    hub.fault("GET", "/api/models/", delay=60)
    with pytest.raises(EventformersError, match=r"did not answer within 0\.2 s .*EVENTFORMERS_HUB_TIMEOUT"):
        push(saved_model)
    for wrong in ("0", "-1", "nan", "inf", "soon"):
        monkeypatch.setenv("EVENTFORMERS_HUB_TIMEOUT", wrong)
        with pytest.raises(
            EventformersError, match=f"found '{wrong}'; accepted: a positive number of seconds"
        ):
            push(saved_model)
    monkeypatch.setenv("EVENTFORMERS_HUB_TIMEOUT", "30")
    assert push(saved_model).repositories[0].commit


def test_a_conflict_is_no_missing_branch(hub: LoopbackHub, push: PushTo, saved_model: Path) -> None:
    hub.fault("POST", f"/branch/{STAGING}", times=2, status=409, message="The repository is locked")
    with pytest.raises(EventformersError, match=r"a conflict \(The repository is locked\)"):
        push(saved_model)


def test_new_weights_replace_what_was_made_from_earlier_ones(
    hub: LoopbackHub, api: HfApi, push: PushTo, model: Path
) -> None:
    push(model)
    made = (".eval_results/hard.yaml", "adapter/adapter_config.json", "onnx/model.onnx", "results/a.json")
    commit(api, {**dict.fromkeys(made, "stale"), "logo.txt": "theirs"}, PUSH_SIGNATURE)
    (model / "README.md").write_text("# better\n", encoding="utf-8")
    assert push(model).repositories[0].plan.deleted == ()
    weights = load_file(model / "model.safetensors")
    save_file(
        {name: value + 1 for name, value in weights.items()}, model / "model.safetensors", {"format": "pt"}
    )
    plan = push(model).repositories[0].plan
    assert (plan.deleted, plan.kept) == (made, ("logo.txt",))


def test_a_dry_run_needs_no_hub(loads: dict[bool, Told], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_hub(*arguments: object, **options: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(HfApi, "repo_info", no_hub)
    with pytest.warns(UserWarning, match="the Hub is not reachable; all files count as new"):
        done = publishing.push("mcnc", "org/mcnc", dry_run=True)
    assert done.is_dry_run
    with pytest.raises(EventformersError, match="connection to the Hub was lost"):
        publishing.push("mcnc", "org/mcnc", token=str(0))
