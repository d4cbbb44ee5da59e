"""Where the loopback Hub has to be as strict as the Hub; the tests of pushes and loads show the rest."""

from __future__ import annotations

import hashlib
import http.client
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import repositories
import server
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    HfFileSystem,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import (
    BadRequestError,
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
)
from scripts import RunScript
from server import LoopbackHub

REPO = "alice/storms"
WEIGHTS = bytes(range(256)) * 64
DIGEST = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.fixture
def api(hub: LoopbackHub) -> HfApi:
    """Alice's client, and an empty model repository of hers."""
    client = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))
    client.create_repo(REPO)
    return client


def client_of(hub: LoopbackHub, name: str | None, role: str = "write") -> HfApi:
    """The client of a user, or of nobody."""
    return HfApi(endpoint=hub.endpoint, token=hub.token_of(name, role) if name else False)


def ask(
    hub: LoopbackHub,
    path: str,
    method: str = "GET",
    body: bytes | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    name: str | None = "alice",
) -> tuple[int, bytes]:
    """One plain request whose path is sent as it is: status and body of the answer."""
    connection = http.client.HTTPConnection(urlsplit(hub.endpoint).netloc, timeout=100)
    authorization = {"Authorization": f"Bearer {hub.token_of(name)}"} if name else {}
    try:
        connection.request(method, path, body, {**authorization, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def add(api: HfApi, path: str, content: bytes, **where: str) -> str:
    return str(api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id=REPO, **where).oid)


def read(api: HfApi, path: str, cache: Path, **where: Any) -> bytes:
    found = hf_hub_download(REPO, path, endpoint=api.endpoint, token=api.token, cache_dir=cache, **where)
    return Path(found).read_bytes()


def test_wrong_token_is_unauthorized_even_for_what_is_public(hub: LoopbackHub, api: HfApi) -> None:
    wrong = HfApi(endpoint=hub.endpoint, token="hf_nobody")  # noqa: S106
    for call in (wrong.whoami, lambda: wrong.model_info(REPO)):
        with pytest.raises(HfHubHTTPError) as refused:
            call()
        assert refused.value.response.status_code == 401
        assert not isinstance(refused.value, RepositoryNotFoundError)


def test_only_members_with_the_role_write(hub: LoopbackHub, api: HfApi) -> None:
    api.create_repo("storms/shared")
    for name, role, repo in (
        ("bob", "write", REPO),
        ("alice", "read", REPO),
        ("bob", "write", "storms/shared"),
    ):
        other = client_of(hub, name, role)
        assert other.model_info(repo).sha
        with pytest.raises(HfHubHTTPError, match=r"403 Forbidden: .* has no right to write"):
            other.upload_file(path_or_fileobj=b"x", path_in_repo="x.txt", repo_id=repo)
        with pytest.raises(HfHubHTTPError, match="403 Forbidden"):
            other.create_repo(f"{repo}-2")
    with pytest.raises(HfHubHTTPError, match="401"):
        client_of(hub, None).create_tag(REPO, tag="v1")
    assert api.list_repo_files(REPO) == [".gitattributes"]


def test_private_repository_is_invisible_to_others(hub: LoopbackHub, tmp_path: Path) -> None:
    api = client_of(hub, "alice")
    api.create_repo(REPO, private=True)
    add(api, "a.txt", b"a")
    assert read(client_of(hub, "alice", "read"), "a.txt", tmp_path / "alice") == b"a"
    for other, status in ((client_of(hub, "bob"), "404"), (client_of(hub, None), "401")):
        for call in (other.model_info, other.list_repo_files, other.list_repo_refs):
            with pytest.raises(RepositoryNotFoundError, match=status):
                call(REPO)
        with pytest.raises(RepositoryNotFoundError):
            read(other, "a.txt", tmp_path / status)
        assert not list(other.list_models(author="alice"))
    assert [each.id for each in api.list_models(author="alice")] == [REPO]


@pytest.mark.parametrize("path", ["deep/er/ä é.txt", "50% [of] it?.txt", "weights/model.safetensors"])
def test_file_comes_back_as_it_was_sent(api: HfApi, tmp_path: Path, path: str) -> None:
    oid = add(api, path, WEIGHTS)
    add(api, path, b"changed")
    assert read(api, path, tmp_path, revision=oid) == WEIGHTS
    assert api.get_paths_info(REPO, path, revision=oid)[0].size == len(WEIGHTS)


def test_ids_are_those_of_git(api: HfApi) -> None:
    added = {"f/a/x": b"hello\n", "f/a-b": b"two\n", "w.safetensors": b"\0" * 1000}
    operations = [CommitOperationAdd(path, content) for path, content in added.items()]
    first = api.create_commit(REPO, operations, commit_message="files").oid
    folder, file, large = api.get_paths_info(REPO, ["f", "f/a/x", "w.safetensors", "absent"])
    # Of `git write-tree` and `git hash-object`.
    assert folder.tree_id == "cacde419d17713f0fc70a4f8541010b9ebbf224a"
    assert (file.blob_id, file.lfs) == ("ce013625030ba8dba906f756967f9e9ca394464a", None)
    assert (large.blob_id, large.size) == ("6af935bbdf1a10184a12e9adba943151e449f7c3", 1000)
    assert (large.lfs.sha256, large.lfs.pointer_size) == (hashlib.sha256(b"\0" * 1000).hexdigest(), 129)
    second = add(api, "g", b"g")
    last = {each.path: each.last_commit.oid for each in api.list_repo_tree(REPO, expand=True, recursive=True)}
    assert (last["f"], last["f/a/x"], last["g"]) == (first, first, second)


def test_file_is_large_by_size_or_by_attributes(
    hub: LoopbackHub, api: HfApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "LARGE_FILE", 1000)
    add(api, "long.txt", b"x" * 1000)
    add(api, "short.txt", b"x" * 999)
    add(api, ".gitattributes", b"*.log filter=lfs\nkept/*.txt filter=lfs -text\nshort.txt text\n")
    add(api, "kept/other.log", b"x")
    add(api, "kept/other.txt", b"x")
    add(api, "weights.safetensors", b"x")
    files = [entry for entry in api.list_repo_tree(REPO, recursive=True) if hasattr(entry, "lfs")]
    assert [each.path for each in files if each.lfs] == ["kept/other.log", "kept/other.txt", "long.txt"]
    assert hub.count("PUT").requests == 2, "kept/other.log and kept/other.txt are the same"


def test_folder_is_sent_and_fetched_once(hub: LoopbackHub, api: HfApi, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    (folder / "scores.json").write_text("{}")
    sent = api.upload_folder(repo_id=REPO, folder_path=folder)
    assert hub.count("PUT", "^/lfs-storage/") == server.Count(1, len(WEIGHTS))
    hub.forget_requests()
    assert api.upload_folder(repo_id=REPO, folder_path=folder).oid == sent.oid
    assert hub.count("PUT").requests == hub.count("POST", "/commit/").requests == 0
    for expected in (3, 0, 1):
        found = snapshot_download(REPO, endpoint=api.endpoint, token=api.token, cache_dir=tmp_path / "cache")
        assert hub.count("GET", "/resolve/").requests == expected
        assert Path(found, "model.safetensors").read_bytes() == WEIGHTS
        if not expected:
            add(api, "scores.json", b"[]")
        hub.forget_requests()
    # Large files are kept by repository, as on the Hub.
    api.create_repo("alice/again")
    api.upload_folder(repo_id="alice/again", folder_path=folder)
    assert hub.count("PUT").received == len(WEIGHTS)


def test_commit_is_made_whole_or_not_at_all(api: HfApi, tmp_path: Path) -> None:
    first = api.model_info(REPO).sha
    head = add(api, "a", b"a")
    for operation, message in (
        (CommitOperationDelete("absent.txt"), "A file with this name doesn't exist"),
        (CommitOperationAdd("a/b", b"below a file"), "lies below a file"),
    ):
        with pytest.raises(HfHubHTTPError, match=message):
            api.create_commit(REPO, [CommitOperationAdd("new.txt", b"n"), operation], commit_message="no")
    with pytest.raises(HfHubHTTPError, match="412"):
        add(api, "new.txt", b"n", parent_commit=first)
    assert api.model_info(REPO).sha == head
    with pytest.raises(EntryNotFoundError) as refused:
        read(api, "new.txt", tmp_path)
    assert refused.value.response.headers["X-Repo-Commit"] == head


@pytest.mark.parametrize("path", ["../a", "a/../../b", "a//b", ".git/config", "a\\b", "/a"])
def test_path_out_of_the_repository_is_refused(hub: LoopbackHub, api: HfApi, path: str) -> None:
    line = {"key": "file", "value": {"path": path, "content": "eA=="}}
    lines = json.dumps({"key": "header", "value": {"summary": "w"}}) + "\n" + json.dumps(line)
    status, answer = ask(hub, f"/api/models/{REPO}/commit/main", "POST", lines.encode())
    assert (status, b"no path inside a repository" in answer) == (400, True)


def test_names_and_references_are_checked(hub: LoopbackHub, api: HfApi) -> None:
    assert ask(hub, "/api/repos/create", "POST", b'{"name": "a..b"}')[0] == 400
    assert ask(hub, "/api/repos/create", "POST", b'{"name": "x", "type": "space"}')[0] == 400
    with pytest.raises(HfHubHTTPError, match="already created"):
        api.create_repo(REPO)
    assert client_of(hub, "bob").create_repo("floods").repo_id == "bob/floods"
    api.create_tag(REPO, tag="v1")
    with pytest.raises(HfHubHTTPError, match="Reference already exists"):
        api.create_tag(REPO, tag="v1")
    with pytest.raises(BadRequestError, match="no name for a branch"):
        api.create_branch(REPO, branch="a..b")
    with pytest.raises(HfHubHTTPError, match="cannot be deleted"):
        api.delete_branch(REPO, branch="main")


def test_range_is_answered_with_a_part(hub: LoopbackHub, api: HfApi) -> None:
    add(api, "model.safetensors", WEIGHTS)
    path = f"/{REPO}/resolve/main/model.safetensors"
    for asked, expected in (
        ("bytes=0-9", (206, WEIGHTS[:10])),
        ("bytes=16000-", (206, WEIGHTS[16000:])),
        ("bytes=16000-99999", (206, WEIGHTS[16000:])),
        ("lines=1-2", (200, WEIGHTS)),
    ):
        assert ask(hub, path, headers={"Range": asked}) == expected
    assert ask(hub, path, headers={"Range": "bytes=99999-"})[0] == 416
    assert ask(hub, path, "HEAD") == (200, b"")
    with HfFileSystem(endpoint=hub.endpoint, token=api.token).open(f"{REPO}/model.safetensors") as file:
        file.seek(300)
        assert file.read(10) == WEIGHTS[300:310]


def test_large_file_that_is_not_what_was_announced_is_not_kept(hub: LoopbackHub, api: HfApi) -> None:
    batch = json.dumps({"operation": "upload", "objects": [{"oid": DIGEST, "size": len(WEIGHTS)}]}).encode()
    answer = ask(hub, f"/{REPO}.git/info/lfs/objects/batch", "POST", batch)[1]
    actions = json.loads(answer)["objects"][0]["actions"]
    address = actions["upload"]["href"].removeprefix(hub.endpoint)
    verify = actions["verify"]["href"].removeprefix(hub.endpoint)
    body = json.dumps({"oid": DIGEST, "size": len(WEIGHTS)}).encode()
    for wrong in (WEIGHTS[:-1], WEIGHTS[:-1] + b"x", b""):
        status, answer = ask(hub, address, "PUT", wrong, name=None)
        assert (status, b"were announced" in answer) == (400, True)
    assert ask(hub, verify, "POST", body)[0] == 404
    # The address holds for this file alone, and for nobody who has made it up.
    for other in (address.replace(DIGEST, "0" * 64), address.replace("signature=", "signature=0")):
        assert ask(hub, other, "PUT", WEIGHTS, name=None)[0] == 403
    line = {"key": "lfsFile", "value": {"path": "w.bin", "algo": "sha256", "oid": DIGEST}}
    lines = json.dumps({"key": "header", "value": {"summary": "w"}}) + "\n" + json.dumps(line)
    commit = f"/api/models/{REPO}/commit/main"
    assert ask(hub, commit, "POST", lines.encode())[0] == 400
    assert ask(hub, address, "PUT", WEIGHTS, name=None)[0] == 200
    assert ask(hub, verify, "POST", body)[0] == 200
    assert ask(hub, commit, "POST", lines.encode())[0] == 200
    assert ask(hub, f"/{REPO}/resolve/main/w.bin")[1] == WEIGHTS


def test_faults(hub: LoopbackHub, api: HfApi, no_waiting: list[float], tmp_path: Path) -> None:
    """Each meets what it names, and no more than its times; what is cut or refused has no effect."""
    head = api.model_info(REPO).sha
    hub.fault("DELETE", "/storms$", status=500)
    hub.fault("POST", "/preupload/", status=500, times=2)
    hub.fault("POST", "/commit/", status=507, message="the disk is full")
    with pytest.raises(HfHubHTTPError, match="the disk is full"):
        add(api, "a.txt", b"a")
    assert (hub.count("POST", "/preupload/").requests, len(no_waiting)) == (3, 2)
    assert api.model_info(REPO).sha == head

    cut = hub.fault("PUT", "^/lfs-storage/", cut_upload=1000, times=2)
    add(api, "model.safetensors", WEIGHTS * 256)
    assert (cut.times, hub.count("PUT").requests) == (0, 3)
    assert read(api, "model.safetensors", tmp_path) == WEIGHTS * 256

    hub.fault("GET", f"/{REPO}$", delay=60)
    with pytest.raises(httpx2.TimeoutException):
        api.model_info(REPO, timeout=0.1)
    assert [fault.times for fault in hub.faults] == [1, 0, 0, 0, 0]


def test_error_of_the_server_itself_is_kept(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub.repositories, "find", lambda *_: 1 // 0)
    assert ask(hub, f"/api/models/{REPO}")[0] == 500
    assert "ZeroDivisionError" in hub.errors.pop()
    assert ask(hub, "/api/nothing")[0] == 404


def test_script_reaches_the_hub_of_its_environment_alone(
    hub: LoopbackHub, api: HfApi, run_script: RunScript
) -> None:
    add(api, "a.txt", b"from the hub")
    script = """
import os, sys, urllib.request
from huggingface_hub import hf_hub_download, whoami
print(whoami()["name"], open(hf_hub_download(sys.argv[1], "a.txt")).read())
try:
    urllib.request.urlopen("https://huggingface.co/api/models", timeout=5)
except OSError:
    print("offline but for the hub", os.listdir(os.environ["HF_HOME"]))
"""
    said = run_script(script, REPO).stdout.splitlines()
    assert said == ["alice from the hub", "offline but for the hub ['hub']"]
    failed = run_script(
        "import os; raise SystemExit(os.environ['HF_TOKEN'] or 'nobody')", token="", check=False
    )
    assert (failed.returncode, failed.stderr) == (1, "nobody\n")


def test_server_runs_by_hand() -> None:
    """As docs/publish.md has it."""
    command = [sys.executable, str(Path(server.__file__)), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--token", "carol=hf_carol", "--organization", "storms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = dict(process.stdout.readline().strip().removeprefix("export ").split("=") for _ in range(3))
        assert (said["HF_TOKEN"], said["HF_HUB_DISABLE_XET"]) == ("hf_carol", "1")
        api = HfApi(endpoint=said["HF_ENDPOINT"], token=said["HF_TOKEN"])
        assert api.create_repo("storms/shared").repo_id == "storms/shared"
    finally:
        process.terminate()
        errors = process.communicate(timeout=100)[1]
    assert "POST /api/repos/create" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--token", "carol"], "expected NAME=TOKEN, found 'carol'"), (["--port", "99999"], "on port 99999")],
)
def test_server_reports_what_it_cannot_do(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        server.main(["--port", "0", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
