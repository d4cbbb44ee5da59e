"""The loopback Hub, as the client of `huggingface_hub` and plain requests see it."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import repositories
import server
from calls import User
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    HfFileSystem,
    constants,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import (
    BadRequestError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import close_session
from server import LoopbackHub
from storage import FolderStorage, MemoryStorage, Storage

REPO = "alice/storms"
WEIGHTS = bytes(range(256)) * 64
FOREVER = threading.TIMEOUT_MAX
DIGEST = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.fixture
def api(hub: LoopbackHub) -> HfApi:
    """Alice's client, and an empty model repository of hers."""
    client = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))
    client.create_repo(REPO)
    return client


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A folder such as a training run leaves it."""
    folder = tmp_path / "run"
    (folder / "results").mkdir(parents=True)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\ntags: [events]\n---\n# Storms\n")
    (folder / "results" / "scores.json").write_text('{"accuracy": 50.0}')
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    return folder


def client_of(hub: LoopbackHub, name: str | None, role: str = "write") -> HfApi:
    """The client of a user, or of nobody."""
    return HfApi(endpoint=hub.endpoint, token=hub.token_of(name, role) if name else False)


def ask(
    hub: LoopbackHub,
    path: str,
    method: str = "GET",
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    name: str | None = "alice",
) -> tuple[int, Message, bytes]:
    """One plain request whose path is sent as it is: status, headers and body of the answer."""
    connection = http.client.HTTPConnection(urlsplit(hub.endpoint).netloc, timeout=100)
    authorization = {"Authorization": f"Bearer {hub.token_of(name)}"} if name else {}
    try:
        connection.request(method, path, body, {**authorization, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def add(api: HfApi, path: str, content: bytes, **where: str) -> str:
    return str(api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id=REPO, **where).oid)


def read(api: HfApi, path: str, cache: Path, **where: Any) -> bytes:
    found = hf_hub_download(REPO, path, endpoint=api.endpoint, token=api.token, cache_dir=cache, **where)
    return Path(found).read_bytes()


# Users and repositories.


def test_user_is_told_with_the_role_of_the_token(hub: LoopbackHub) -> None:
    told = client_of(hub, "alice", "read").whoami()
    assert (told["name"], told["auth"]["accessToken"]["role"]) == ("alice", "read")
    assert [organization["name"] for organization in told["orgs"]] == ["storms"]
    assert client_of(hub, "alice").whoami()["auth"]["accessToken"]["role"] == "write"


def test_wrong_token_is_unauthorized_even_for_what_is_public(hub: LoopbackHub, api: HfApi) -> None:
    wrong = HfApi(endpoint=hub.endpoint, token="hf_nobody")  # noqa: S106
    for call in (wrong.whoami, lambda: wrong.model_info(REPO)):
        with pytest.raises(HfHubHTTPError) as refused:
            call()
        assert refused.value.response.status_code == 401
        assert not isinstance(refused.value, RepositoryNotFoundError)


@pytest.mark.parametrize("kind", ["model", "dataset", "space"])
def test_repository_is_created_once(hub: LoopbackHub, kind: str) -> None:
    api = client_of(hub, "alice")
    sdk = {"space_sdk": "static"} if kind == "space" else {}
    created = api.create_repo(REPO, repo_type=kind, **sdk)
    assert (created.repo_id, created.repo_type) == (REPO, kind)
    with pytest.raises(HfHubHTTPError, match="already created") as refused:
        api.create_repo(REPO, repo_type=kind, **sdk)
    assert refused.value.response.status_code == 409
    assert api.create_repo(REPO, repo_type=kind, exist_ok=True, **sdk) == created
    information = api.repo_info(REPO, repo_type=kind)
    assert (information.id, information.author, information.private) == (REPO, "alice", False)
    assert [sibling.rfilename for sibling in information.siblings] == [".gitattributes"]
    for other in {"model", "dataset", "space"} - {kind}:
        assert not api.repo_exists(REPO, repo_type=other)


def test_name_alone_is_in_the_own_namespace(hub: LoopbackHub) -> None:
    assert client_of(hub, "bob").create_repo("floods").repo_id == "bob/floods"


def test_space_is_told_with_its_sdk(hub: LoopbackHub) -> None:
    api = client_of(hub, "alice")
    api.create_repo(REPO, repo_type="space", space_sdk="gradio")
    assert api.space_info(REPO).sdk == "gradio"


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
        with pytest.raises(HfHubHTTPError, match="403 Forbidden"):
            other.delete_repo(repo)
    with pytest.raises(HfHubHTTPError) as refused:
        client_of(hub, None).create_tag(REPO, tag="v1")
    assert refused.value.response.status_code == 401
    assert api.list_repo_files(REPO) == [".gitattributes"]


def test_deleted_repository_is_gone(hub: LoopbackHub, api: HfApi) -> None:
    commit = add(api, "a.txt", b"a")
    api.delete_repo(REPO)
    for call in (api.model_info, api.list_repo_files, api.delete_repo):
        with pytest.raises(RepositoryNotFoundError):
            call(REPO)
    api.delete_repo(REPO, missing_ok=True)
    api.create_repo(REPO)
    with pytest.raises(RevisionNotFoundError):
        api.model_info(REPO, revision=commit)


def test_private_repository_is_invisible_to_others(hub: LoopbackHub, tmp_path: Path) -> None:
    api = client_of(hub, "alice")
    api.create_repo(REPO, private=True)
    add(api, "a.txt", b"a")
    assert api.model_info(REPO).private
    assert read(client_of(hub, "alice", "read"), "a.txt", tmp_path / "alice") == b"a"
    others = {"bob": client_of(hub, "bob"), "nobody": client_of(hub, None)}
    for name, other in others.items():
        for call in (other.model_info, other.list_repo_files, other.list_repo_refs):
            with pytest.raises(RepositoryNotFoundError) as refused:
                call(REPO)
            assert refused.value.response.status_code == (404 if name == "bob" else 401)
        with pytest.raises(RepositoryNotFoundError):
            read(other, "a.txt", tmp_path / name)
        assert not list(other.list_models(author="alice"))
    assert [each.id for each in api.list_models(author="alice")] == [REPO]

    api.update_repo_settings(REPO, private=False)
    for name, other in others.items():
        assert read(other, "a.txt", tmp_path / name) == b"a"
        assert [each.id for each in other.list_models(author="alice")] == [REPO]
    api.update_repo_settings(REPO, private=True)
    assert not others["bob"].repo_exists(REPO)


# Files.


@pytest.mark.parametrize(
    "path", ["a.txt", "deep/er/ä é.txt", "50% [of] it?.txt", "weights/model.safetensors"]
)
def test_file_comes_back_as_it_was_sent(api: HfApi, tmp_path: Path, path: str) -> None:
    oid = add(api, path, WEIGHTS)
    assert read(api, path, tmp_path / "cache") == WEIGHTS
    assert read(api, path, tmp_path / "other", revision=oid) == WEIGHTS
    assert api.file_exists(REPO, path)
    assert api.get_paths_info(REPO, path)[0].size == len(WEIGHTS)


def test_ids_are_those_of_git(api: HfApi) -> None:
    api.create_commit(
        REPO,
        [
            CommitOperationAdd("f/a/x", b"hello\n"),
            CommitOperationAdd("f/a-b", b"two\n"),
            CommitOperationAdd("w.safetensors", b"\0" * 1000),
        ],
        commit_message="files",
    )
    folder, file, large = api.get_paths_info(REPO, ["f", "f/a/x", "w.safetensors", "absent"])
    # Of `git write-tree` and `git hash-object`.
    assert folder.tree_id == "cacde419d17713f0fc70a4f8541010b9ebbf224a"
    assert (file.blob_id, file.lfs) == ("ce013625030ba8dba906f756967f9e9ca394464a", None)
    assert (large.blob_id, large.size) == ("6af935bbdf1a10184a12e9adba943151e449f7c3", 1000)
    assert large.lfs.sha256 == hashlib.sha256(b"\0" * 1000).hexdigest()
    assert large.lfs.pointer_size == 129


def test_tree_lists_folders(api: HfApi) -> None:
    first = add(api, "deep/er/a.txt", b"a")
    second = add(api, "deep/b.txt", b"b")

    def paths(**what: object) -> list[str]:
        return sorted(entry.path for entry in api.list_repo_tree(REPO, **what))

    assert paths() == [".gitattributes", "deep"]
    assert paths(recursive=True) == [".gitattributes", "deep", "deep/b.txt", "deep/er", "deep/er/a.txt"]
    assert paths(path_in_repo="deep") == ["deep/b.txt", "deep/er"]
    assert paths(path_in_repo="deep/er") == ["deep/er/a.txt"]
    for absent in ("dee", "deep/b.txt"):
        with pytest.raises(EntryNotFoundError):
            paths(path_in_repo=absent)
    last = {each.path: each.last_commit.oid for each in api.list_repo_tree(REPO, expand=True, recursive=True)}
    assert (last["deep/er"], last["deep/er/a.txt"]) == (first, first)
    assert (last["deep"], last["deep/b.txt"]) == (second, second)


def test_folder_is_sent_once(hub: LoopbackHub, api: HfApi, run_folder: Path) -> None:
    sent = api.upload_folder(repo_id=REPO, folder_path=run_folder)
    files = [".gitattributes", "README.md", "model.safetensors", "results/scores.json"]
    assert sorted(api.list_repo_files(REPO)) == files
    assert hub.count("PUT", "^/lfs-storage/") == server.Count(1, len(WEIGHTS), 0)
    sizes = {each.rfilename: each for each in api.model_info(REPO, files_metadata=True).siblings}
    assert sizes["model.safetensors"].lfs.sha256 == DIGEST
    assert (sizes["README.md"].lfs, sizes["README.md"].size) == (
        None,
        (run_folder / "README.md").stat().st_size,
    )

    hub.forget_requests()
    assert api.upload_folder(repo_id=REPO, folder_path=run_folder).oid == sent.oid
    assert hub.count("PUT").requests == hub.count("POST", "/commit/").requests == 0

    (run_folder / "results" / "scores.json").write_text('{"accuracy": 51.0}')
    (run_folder / "copy.safetensors").write_bytes(WEIGHTS)
    assert api.upload_folder(repo_id=REPO, folder_path=run_folder).oid != sent.oid
    assert hub.count("PUT").requests == 0
    assert 0 < hub.count("POST", "/commit/").received < 1000

    # Large files are kept by repository, as on the Hub.
    (run_folder / "copy.safetensors").unlink()
    api.create_repo("alice/again")
    api.upload_folder(repo_id="alice/again", folder_path=run_folder)
    assert hub.count("PUT").received == len(WEIGHTS)


def test_file_is_large_by_size_or_by_attributes(
    hub: LoopbackHub, api: HfApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "LARGE_FILE", 1000)
    add(api, "long.txt", b"x" * 1000)
    add(api, "short.txt", b"x" * 999)
    add(api, "kept/short.log", b"x")
    add(api, ".gitattributes", b"*.log filter=lfs\nkept/*.txt filter=lfs -text\nshort.txt text\n")
    add(api, "kept/other.log", b"x")
    add(api, "kept/other.txt", b"x")
    add(api, "weights.safetensors", b"x")
    files = [entry for entry in api.list_repo_tree(REPO, recursive=True) if hasattr(entry, "lfs")]
    assert [each.path for each in files if each.lfs] == ["kept/other.log", "kept/other.txt", "long.txt"]
    assert hub.count("PUT").requests == 2, "kept/other.log and kept/other.txt are the same"


def test_snapshot_asks_only_for_what_is_new(
    hub: LoopbackHub, api: HfApi, run_folder: Path, tmp_path: Path
) -> None:
    def snapshot() -> Path:
        found = snapshot_download(REPO, endpoint=api.endpoint, token=api.token, cache_dir=tmp_path / "cache")
        return Path(found)

    api.upload_folder(repo_id=REPO, folder_path=run_folder)
    assert (snapshot() / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.count("GET", "/resolve/").sent > len(WEIGHTS)

    hub.forget_requests()
    snapshot()
    assert hub.count("GET", "/resolve/").requests == 0

    add(api, "results/scores.json", b"{}")
    assert (snapshot() / "results" / "scores.json").read_bytes() == b"{}"
    assert hub.count("GET", "/resolve/") == server.Count(1, 0, 2)


def test_missing_file_is_told_with_the_commit(api: HfApi, tmp_path: Path) -> None:
    with pytest.raises(EntryNotFoundError) as refused:
        read(api, "absent.txt", tmp_path)
    assert refused.value.response.headers["X-Repo-Commit"] == api.model_info(REPO).sha
    assert list(tmp_path.glob("*/.no_exist/*/absent.txt"))


def test_files_and_folders_are_deleted(api: HfApi, tmp_path: Path) -> None:
    before = add(api, "deep/er/a.txt", b"a")
    add(api, "deeper.txt", b"b")
    api.delete_folder("deep", REPO)
    assert api.list_repo_files(REPO) == [".gitattributes", "deeper.txt"]
    api.delete_file("deeper.txt", REPO)
    assert api.list_repo_files(REPO) == [".gitattributes"]
    for absent in ("deeper.txt", "deep"):
        with pytest.raises(EntryNotFoundError, match="A file with this name doesn't exist"):
            api.delete_file(absent, REPO)
    with pytest.raises(EntryNotFoundError):
        api.delete_folder("deep", REPO)
    assert read(api, "deep/er/a.txt", tmp_path, revision=before) == b"a"


def test_commit_is_done_whole_or_not_at_all(api: HfApi) -> None:
    head = add(api, "a", b"a")
    for operation, message in (
        (CommitOperationDelete("absent.txt"), "A file with this name doesn't exist"),
        (CommitOperationAdd("a/b", b"below a file"), "both a file and a folder"),
    ):
        with pytest.raises(HfHubHTTPError, match=message):
            api.create_commit(REPO, [CommitOperationAdd("new.txt", b"n"), operation], commit_message="no")
    assert api.model_info(REPO).sha == head
    assert not api.file_exists(REPO, "new.txt")


def test_commit_on_another_parent_is_refused(api: HfApi) -> None:
    parent = api.model_info(REPO).sha
    head = add(api, "a.txt", b"a", parent_commit=str(parent))
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as refused:
        add(api, "b.txt", b"b", parent_commit=str(parent))
    assert refused.value.response.status_code == 412
    assert api.model_info(REPO).sha == head
    assert [commit.commit_id for commit in api.list_repo_commits(REPO)] == [head, parent]


def test_card_is_read(hub: LoopbackHub, api: HfApi, run_folder: Path) -> None:
    with pytest.raises(ValueError, match=r"Invalid metadata in README\.md"):
        add(api, "README.md", b"---\nlicense: [\n---\n")
    assert not api.file_exists(REPO, "README.md")
    with pytest.warns(UserWarning, match="empty or missing yaml metadata"):
        add(api, "README.md", b"# Nothing said\n")
    api.upload_folder(repo_id=REPO, folder_path=run_folder)
    information = api.model_info(REPO)
    assert information.card_data is not None
    assert (information.card_data.license, information.tags) == (
        "apache-2.0",
        ["events", "license:apache-2.0"],
    )
    assert [each.id for each in api.list_models(filter="events")] == [REPO]
    assert [each.id for each in api.list_models(search="STORM", limit=1)] == [REPO]
    assert not list(api.list_models(filter="floods"))
    assert not list(api.list_models(author="bob"))
    assert not list(api.list_models(search="floods"))


# Revisions.


def test_branches_tags_and_commits_are_revisions(api: HfApi, tmp_path: Path) -> None:
    first = add(api, "a.txt", b"first")
    api.create_tag(REPO, tag="v1.0", tag_message="the first")
    api.create_branch(REPO, branch="try/longer")
    second = add(api, "a.txt", b"second")
    tried = add(api, "a.txt", b"tried", revision="try/longer")
    contents = {
        "main": b"second",
        second: b"second",
        "v1.0": b"first",
        first: b"first",
        first[:8]: b"first",
        "try/longer": b"tried",
    }
    for revision, content in contents.items():
        assert read(api, "a.txt", tmp_path, revision=revision) == content
    references = api.list_repo_refs(REPO)
    assert {each.name: each.target_commit for each in references.branches} == {
        "main": second,
        "try/longer": tried,
    }
    assert {each.name: each.target_commit for each in references.tags} == {"v1.0": first}
    commits = api.list_repo_commits(REPO, revision="try/longer")
    assert [commit.commit_id for commit in commits[:2]] == [tried, first]
    assert (commits[0].title, commits[0].authors) == ("Upload a.txt with huggingface_hub", ["alice"])


def test_references_are_made_once_and_deleted(api: HfApi) -> None:
    api.create_tag(REPO, tag="v1")
    api.create_branch(REPO, branch="try")
    for make in (
        lambda **more: api.create_tag(REPO, tag="v1", **more),
        lambda **more: api.create_branch(REPO, branch="try", **more),
    ):
        with pytest.raises(HfHubHTTPError, match="Reference already exists") as refused:
            make()
        assert refused.value.response.status_code == 409
        make(exist_ok=True)
    api.delete_tag(REPO, tag="v1")
    api.delete_branch(REPO, branch="try")
    for gone in ("v1", "try"):
        with pytest.raises(RevisionNotFoundError):
            api.model_info(REPO, revision=gone)
    with pytest.raises(RevisionNotFoundError):
        api.delete_tag(REPO, tag="v1")
    with pytest.raises(RevisionNotFoundError):
        add(api, "a.txt", b"a", revision="try")
    with pytest.raises(RevisionNotFoundError):
        api.create_tag(REPO, tag="v2", revision="absent")
    with pytest.raises(HfHubHTTPError, match="cannot be deleted"):
        api.delete_branch(REPO, branch="main")
    with pytest.raises(BadRequestError, match="no name for a branch or a tag"):
        api.create_tag(REPO, tag="../v1")


# Ranges.


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-3", slice(0, 4)),
        ("bytes=1000-", slice(1000, None)),
        ("bytes=-5", slice(-5, None)),
        ("bytes=16000-99999", slice(16000, None)),
        ("bytes=0-", slice(0, None)),
    ],
)
def test_range_is_answered_with_a_part(hub: LoopbackHub, api: HfApi, asked: str, expected: slice) -> None:
    add(api, "model.safetensors", WEIGHTS)
    path = f"/{REPO}/resolve/main/model.safetensors"
    status, headers, body = ask(hub, path, headers={"Range": asked})
    start, stop, _ = expected.indices(len(WEIGHTS))
    assert (status, body) == (206, WEIGHTS[expected])
    assert headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(WEIGHTS)}"
    assert headers["ETag"] == headers["X-Linked-Etag"] == f'"{DIGEST}"'


def test_head_and_ranges_that_are_no_part(hub: LoopbackHub, api: HfApi) -> None:
    add(api, "model.safetensors", WEIGHTS)
    path = f"/{REPO}/resolve/main/model.safetensors"
    status, headers, body = ask(hub, path, "HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(len(WEIGHTS)), b"")
    assert ask(hub, path, headers={"Range": "bytes=0-1,5-6"})[::2] == (200, WEIGHTS)
    status, headers, _ = ask(hub, path, headers={"Range": f"bytes={len(WEIGHTS)}-"})
    assert (status, headers["Content-Range"]) == (416, f"bytes */{len(WEIGHTS)}")


def test_file_system_reads_ranges(hub: LoopbackHub, api: HfApi) -> None:
    add(api, "data/model.safetensors", WEIGHTS)
    system = HfFileSystem(endpoint=hub.endpoint, token=api.token)
    assert system.ls(f"{REPO}/data", detail=False) == [f"{REPO}/data/model.safetensors"]
    hub.forget_requests()
    with system.open(f"{REPO}/data/model.safetensors", block_size=100, cache_type="none") as file:
        file.seek(5000)
        assert file.read(10) == WEIGHTS[5000:5010]
        file.seek(-3, 2)
        assert file.read() == WEIGHTS[-3:]
    assert hub.count("GET", "/resolve/").sent == 13


# What must not get through.


@pytest.mark.parametrize(
    "path",
    [
        "/alice/storms/resolve/main/../../../../etc/passwd",
        "/alice/storms/resolve/main/%2e%2e/%2e%2e/secret.txt",
        "/alice/storms/resolve/main/..%2F..%2Fsecret.txt",
        "/alice/storms/resolve/main/a/%2e%2e/secret.txt",
        "/alice/storms/resolve/..%2F..%2Fsecret/a.txt",
        "/alice/../resolve/main/secret.txt",
        "/%2e%2e%2F%2e%2e/resolve/main/secret.txt",
        "/api/models/%2e%2e%2F%2e%2e/tree/main",
        "/api/models/alice/storms/tree/main/..%2F..",
        "/api/models/alice/storms%00/refs",
        "/api/models/alice/storms/revision/%ff",
    ],
)
def test_path_out_of_the_repository_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    with LoopbackHub({"hf_alice": User("alice")}, tmp_path / "hub") as hub:
        client_of(hub, "alice").create_repo(REPO)
        status, _, body = ask(hub, path)
        assert status in (400, 404)
        assert "error" in json.loads(body)
        assert not hub.errors


@pytest.mark.parametrize(
    "path", ["../x.txt", "a/../../x.txt", "/x.txt", "a//x.txt", ".git/config", "a\\x", "a\nb", ""]
)
def test_file_is_not_put_out_of_the_repository(hub: LoopbackHub, api: HfApi, path: str) -> None:
    content = base64.b64encode(b"x").decode()
    lines = [
        {"key": "header", "value": {"summary": "no"}},
        {"key": "file", "value": {"path": path, "content": content, "encoding": "base64"}},
    ]
    body = "\n".join(json.dumps(line) for line in lines).encode()
    status, _, answer = ask(hub, f"/api/models/{REPO}/commit/main", "POST", body=body)
    assert (status, "no path inside a repository" in answer.decode()) == (400, True) or path == ""
    assert status == 400
    files = json.dumps({"files": [{"path": path, "size": 1, "sample": content}]}).encode()
    assert ask(hub, f"/api/models/{REPO}/preupload/main", "POST", body=files)[0] == 400
    assert api.list_repo_files(REPO) == [".gitattributes"]


@pytest.mark.parametrize("name", ["..", "a/b/c", "a--b", "a.git", "-a", "a b", "", "a\n", 3, None])
def test_repository_of_an_unusable_name_is_refused(hub: LoopbackHub, name: object) -> None:
    body = json.dumps({"name": name, "organization": "alice", "type": "model"}).encode()
    status, _, answer = ask(hub, "/api/repos/create", "POST", body=body)
    assert (status, b"is no part of a name" in answer) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", f"/api/models/{REPO}/commit/main", b"", 400),
        ("POST", f"/api/models/{REPO}/commit/main", b'{"key": "file"}', 400),
        ("POST", f"/api/models/{REPO}/commit/main", b'{"key": "header", "value": {}}\n[]', 400),
        ("POST", f"/api/models/{REPO}/commit/main?create_pr=1", b"", 400),
        ("POST", f"/api/models/{REPO}/preupload/main", b'{"files": [3]}', 400),
        ("POST", f"/api/models/{REPO}/preupload/main", b"\xff", 400),
        (
            "POST",
            f"/{REPO}.git/info/lfs/objects/batch",
            b'{"operation": "upload", "objects": [{"oid": ".."}]}',
            400,
        ),
        ("PUT", f"/api/models/{REPO}/settings", b'{"gated": "auto"}', 400),
        ("POST", "/api/repos/create", b'{"name": "x", "type": "kernel"}', 400),
        ("POST", "/api/repos/create", b'{"name": "x", "type": "space"}', 400),
        ("POST", f"/api/models/{REPO}", b"{}", 405),
        ("GET", "/api/nothing", None, 404),
    ],
)
def test_malformed_request_is_refused(
    hub: LoopbackHub, api: HfApi, method: str, path: str, body: bytes | None, status: int
) -> None:
    found, headers, answer = ask(hub, path, method, body=body)
    assert found == status
    assert headers["X-Error-Message"] == json.loads(answer)["error"]
    assert api.list_repo_files(REPO) == [".gitattributes"]


def test_large_file_that_is_not_what_was_announced_is_not_kept(hub: LoopbackHub, api: HfApi) -> None:
    batch = json.dumps({"operation": "upload", "objects": [{"oid": DIGEST, "size": len(WEIGHTS)}]}).encode()
    _, _, answer = ask(hub, f"/{REPO}.git/info/lfs/objects/batch", "POST", body=batch)
    actions = json.loads(answer)["objects"][0]["actions"]
    address = actions["upload"]["href"].removeprefix(hub.endpoint)
    verify = actions["verify"]["href"].removeprefix(hub.endpoint)
    body = json.dumps({"oid": DIGEST, "size": len(WEIGHTS)}).encode()
    for wrong in (WEIGHTS[:-1], WEIGHTS[:-1] + b"x", b""):
        status, _, answer = ask(hub, address, "PUT", body=wrong, name=None)
        assert (status, b"were announced" in answer) == (400, True)
    assert ask(hub, verify, "POST", body=body)[0] == 404
    # The address holds for this file alone, and for nobody who has made it up.
    for other in (
        address.replace(DIGEST, "0" * 64),
        address.replace("signature=", "signature=0"),
        address + "0",
    ):
        assert ask(hub, other, "PUT", body=WEIGHTS, name=None)[0] == 403
    line = {
        "key": "lfsFile",
        "value": {"path": "w.bin", "algo": "sha256", "oid": DIGEST, "size": len(WEIGHTS)},
    }
    lines = json.dumps({"key": "header", "value": {"summary": "w"}}) + "\n" + json.dumps(line)
    commit = f"/api/models/{REPO}/commit/main"
    assert ask(hub, commit, "POST", body=lines.encode())[0] == 400

    assert ask(hub, address, "PUT", body=WEIGHTS, name=None)[0] == 200
    assert ask(hub, verify, "POST", body=body)[0] == 200
    assert ask(hub, commit, "POST", body=lines.encode())[0] == 200
    assert ask(hub, f"/{REPO}/resolve/main/w.bin")[2] == WEIGHTS


def test_body_in_chunks_is_read(hub: LoopbackHub, api: HfApi) -> None:
    connection = http.client.HTTPConnection(urlsplit(hub.endpoint).netloc, timeout=100)
    content = json.dumps({"content": "---\na: 1\n---\n", "repoType": "model"}).encode()
    for _ in range(2):
        connection.request(
            "POST", "/api/validate-yaml", iter([content[:10], content[10:]]), encode_chunked=True
        )
        assert json.loads(connection.getresponse().read()) == {"errors": [], "warnings": []}
    connection.close()
    assert hub.count("POST", "validate-yaml") == server.Count(2, 2 * len(content), 2 * 30)


# Faults.


def test_client_tries_again_after_a_500(hub: LoopbackHub, api: HfApi, no_waiting: list[float]) -> None:
    fault = hub.fault("POST", "/preupload/", status=500, times=2)
    add(api, "a.txt", b"a")
    assert (fault.times, len(no_waiting)) == (0, 2)
    assert hub.count("POST", "/preupload/").requests == 3
    assert api.file_exists(REPO, "a.txt")


def test_500_of_a_commit_is_told_and_does_nothing(hub: LoopbackHub, api: HfApi) -> None:
    head = api.model_info(REPO).sha
    hub.fault("POST", "/commit/", status=500, message="the disk is full")
    with pytest.raises(HfHubHTTPError, match="the disk is full") as refused:
        add(api, "a.txt", b"a")
    assert refused.value.response.status_code == 500
    assert api.model_info(REPO).sha == head
    add(api, "a.txt", b"a")


def test_412_is_told_as_a_conflict(hub: LoopbackHub, api: HfApi) -> None:
    fault = hub.fault("POST", f"^/api/models/{REPO}/commit/main$", status=412)
    with pytest.raises(HfHubHTTPError, match="Precondition Failed") as refused:
        add(api, "a.txt", b"a")
    assert (refused.value.response.status_code, fault.times) == (412, 0)


def test_fault_has_its_code_and_headers(hub: LoopbackHub, api: HfApi, no_waiting: list[float]) -> None:
    hub.fault("GET", f"/{REPO}$", status=403, code="GatedRepo")
    with pytest.raises(GatedRepoError):
        api.model_info(REPO)
    hub.fault("POST", "/preupload/", status=429, headers={"Retry-After": "7"})
    add(api, "a.txt", b"a")
    # The client waits a second longer than the header asks for.
    assert no_waiting == [8]


def test_fault_meets_only_what_it_names(hub: LoopbackHub, api: HfApi) -> None:
    fault = hub.fault("DELETE", "/storms$", status=500)
    hub.fault("*", "^/api/repos/", status=503)
    assert api.model_info(REPO).sha
    assert fault.times == 1
    with pytest.raises(HfHubHTTPError, match="503"):
        api.create_repo("alice/more")
    api.create_repo("alice/more")


def test_connection_cut_in_an_upload_is_tried_again(
    hub: LoopbackHub, api: HfApi, no_waiting: list[float], run_folder: Path, tmp_path: Path
) -> None:
    weights = WEIGHTS * 256
    (run_folder / "model.safetensors").write_bytes(weights)
    fault = hub.fault("PUT", "^/lfs-storage/", cut_upload=1000, times=2)
    api.upload_folder(repo_id=REPO, folder_path=run_folder)
    assert (fault.times, len(no_waiting)) == (0, 2)
    cut = [each for each in hub.exchanges if each.method == "PUT"]
    assert [each.status for each in cut] == [None, None, 200]
    assert [each.received == len(weights) for each in cut] == [False, False, True]
    assert read(api, "model.safetensors", tmp_path / "cache") == weights


def test_download_goes_on_after_a_cut(
    hub: LoopbackHub,
    api: HfApi,
    no_waiting: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The client keeps whole chunks of what came before the cut.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 4000)
    add(api, "model.safetensors", WEIGHTS)
    fault = hub.fault("GET", "/resolve/", cut_answer=10_000)
    assert read(api, "model.safetensors", tmp_path) == WEIGHTS
    assert (fault.times, len(no_waiting)) == (0, 1)
    got = [each for each in hub.exchanges if each.method == "GET" and "/resolve/" in each.path]
    assert [(each.status, each.sent) for each in got] == [(200, 10_000), (206, len(WEIGHTS) - 8000)]


def test_commit_whose_answer_is_lost_was_made(
    hub: LoopbackHub, api: HfApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a new connection, which the server never gives up as idle: only the fault can end it.
    monkeypatch.setattr(server._Handler, "timeout", None)
    close_session()
    hub.fault("POST", "/commit/", cut_answer=0)
    with pytest.raises(httpx2.RemoteProtocolError):
        add(api, "a.txt", b"a")
    assert api.file_exists(REPO, "a.txt")


def test_slow_answer_meets_the_limit_of_the_client(
    hub: LoopbackHub, api: HfApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(api, "a.txt", b"a")
    fault = hub.fault("HEAD", "/resolve/", delay=FOREVER)
    assert read(api, "a.txt", tmp_path, etag_timeout=1) == b"a"
    assert fault.times == 0
    hub.fault("GET", f"/{REPO}$", delay=FOREVER)
    with pytest.raises(httpx2.TimeoutException):
        api.model_info(REPO, timeout=0.1)
    waited: list[float] = []
    monkeypatch.setattr(hub.stopping, "wait", waited.append)
    hub.fault("GET", f"/{REPO}$", delay=0.3)
    assert api.model_info(REPO).sha
    assert waited == [0.3]


def test_stopped_server_is_gone(hub: LoopbackHub, api: HfApi) -> None:
    connection = http.client.HTTPConnection(urlsplit(hub.endpoint).netloc, timeout=100)
    connection.request("GET", "/api/models")
    assert connection.getresponse().read()
    slow = http.client.HTTPConnection(urlsplit(hub.endpoint).netloc, timeout=100)
    fault = hub.fault("GET", "/api/datasets", delay=FOREVER)
    slow.request("GET", "/api/datasets")
    while fault.times:
        time.sleep(0.01)
    hub.stop()

    def again() -> None:
        connection.request("GET", "/api/models")
        connection.getresponse()

    # Connections that were open are not served on.
    for call in (again, slow.getresponse):
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            call()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", urlsplit(hub.endpoint).port or 0), timeout=5)
    hub.stop()
    connection.close()
    slow.close()


def test_error_of_the_server_itself_is_kept(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub.repositories, "find", lambda *_: 1 // 0)
    assert ask(hub, f"/api/models/{REPO}")[0] == 500
    assert "ZeroDivisionError" in hub.errors.pop()


# Counts.


def test_requests_and_bytes_are_counted_by_route(hub: LoopbackHub, api: HfApi) -> None:
    hub.forget_requests()
    add(api, "model.safetensors", WEIGHTS)
    ask(hub, f"/{REPO}/resolve/main/model.safetensors")
    ask(hub, "/elsewhere")
    counts = hub.counts()
    assert counts["PUT /lfs-storage/{kind}/{repo}/{oid}"] == server.Count(1, len(WEIGHTS), 0)
    assert counts["GET /{prefix}{repo}/resolve/{revision}/{path}"] == server.Count(1, 0, len(WEIGHTS))
    assert counts["POST /api/{kind}/{repo}/commit/{branch}"].requests == 1
    assert counts["unknown"].requests == 1
    assert hub.count("PUT").received == hub.count(pattern="^/lfs-storage/").received == len(WEIGHTS)
    total = hub.count()
    assert total.requests == sum(count.requests for count in counts.values())
    assert total.sent == sum(count.sent for count in counts.values()) > len(WEIGHTS)


# Where repositories are kept.


def test_folder_keeps_repositories(tmp_path: Path) -> None:
    tokens = {"hf_alice": User("alice")}
    folder = tmp_path / "hub"
    with LoopbackHub(tokens, folder) as hub:
        api = client_of(hub, "alice")
        api.create_repo(REPO, private=True)
        add(api, "a/b.txt", b"b")
        commit = add(api, "model.safetensors", WEIGHTS)
        api.create_tag(REPO, tag="v1")
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert f"lfs/{DIGEST}" in files
    assert not [
        name for name in files if not name.startswith(("blobs/", "commits/", "lfs/", "repositories/"))
    ]
    with LoopbackHub(tokens, folder) as hub:
        api = client_of(hub, "alice")
        assert [each.id for each in api.list_models()] == [REPO]
        assert api.model_info(REPO, revision="v1").sha == commit
        assert read(api, "model.safetensors", tmp_path / "cache") == WEIGHTS
        api.delete_repo(REPO)
        assert not list(api.list_models())
    assert not list((folder / "repositories").rglob("*.json"))


@pytest.mark.parametrize("make", [MemoryStorage, FolderStorage])
def test_storage_keeps_whole_values(tmp_path: Path, make: Callable[..., Storage]) -> None:
    storage = make(tmp_path) if make is FolderStorage else make()

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    storage.write("blobs/a", [b"on", b"e"])
    for key in ("blobs/a", "blobs/b"):
        with pytest.raises(ConnectionResetError):
            storage.write(key, broken())
    with storage.open("blobs/a") as file:
        assert file.read() == b"one"
    assert (storage.size("blobs/a"), storage.keys("blobs/")) == (3, ["blobs/a"])
    for call in (storage.open, storage.size, storage.delete):
        with pytest.raises(KeyError):
            call("blobs/b")
    storage.delete("blobs/a")
    assert storage.keys("blobs/") == []
    if make is FolderStorage:
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
        for key in ("../a", "/etc/a", "a/../../b", "a//b", "a\\b", ".a"):
            with pytest.raises(KeyError):
                storage.write(key, [b"x"])


# Fresh processes.


def test_script_runs_with_the_hub_of_its_environment(
    hub: LoopbackHub, api: HfApi, run_script: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    add(api, "a.txt", b"from the hub")
    script = """
import os, sys, urllib.request
from huggingface_hub import hf_hub_download, upload_file, whoami
print(whoami()["name"], open(hf_hub_download(sys.argv[1], "a.txt")).read())
upload_file(path_or_fileobj=b"w" * 9, path_in_repo="w.safetensors", repo_id=sys.argv[1])
try:
    urllib.request.urlopen("https://huggingface.co/api/models", timeout=5)
except OSError:
    print("offline but for the hub", os.listdir(os.environ["HF_HOME"]))
"""
    said = run_script(script, REPO).stdout.splitlines()
    assert said == ["alice from the hub", "offline but for the hub ['hub']"]
    assert hub.count("PUT").received == 9
    failed = run_script(
        "import os; raise SystemExit(os.environ['HF_TOKEN'] or 'nobody')", token="", check=False
    )
    assert (failed.returncode, failed.stderr) == (1, "nobody\n")
    with pytest.raises(AssertionError, match="exit 1"):
        run_script("raise SystemExit('no')")


def test_server_runs_by_hand(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(server.__file__)), "--port", "0", "--folder", str(tmp_path / "hub")]
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
        assert api.whoami()["name"] == "carol"
        assert api.create_repo("storms/shared").repo_id == "storms/shared"
        port = said["HF_ENDPOINT"].rpartition(":")[2]
        taken = subprocess.run([*command[:2], "--port", port], capture_output=True, text=True, timeout=200)
        assert (taken.returncode, f"on port {port}" in taken.stderr) == (2, True)
    finally:
        process.terminate()
        errors = process.communicate(timeout=100)[1]
    assert "POST /api/repos/create" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "hub" / "repositories" / "models" / "storms" / "shared.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--token", "carol"], "expected NAME=TOKEN, found 'carol'"),
        (["--token", "a b=c"], "expected NAME=TOKEN"),
        (["--port", "99999"], "on port 99999"),
        (["--folder", "FILE"], "cannot serve FILE"),
    ],
)
def test_server_tells_what_it_cannot_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "FILE").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        server.main(["--port", "0", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
