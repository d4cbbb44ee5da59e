"""Where the loopback Hub has to be as strict as the Hub; the tests of pushes and loads show the rest."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import repositories
import server
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError
from scripts import RunScript
from server import LoopbackHub

REPO = "alice/storms"


@pytest.fixture
def api(hub: LoopbackHub) -> HfApi:
    """Alice's client, and an empty model repository of hers."""
    client = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))
    client.create_repo(REPO)
    return client


def add(api: HfApi, path: str, content: bytes, **where: str) -> str:
    return str(api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id=REPO, **where).oid)


def test_ids_are_those_of_git(api: HfApi) -> None:
    """They tell a push which files are there."""
    added = {"f/a/x": b"hello\n", "w.safetensors": b"\0" * 1000}
    operations = [CommitOperationAdd(path, content) for path, content in added.items()]
    api.create_commit(REPO, operations, commit_message="files")
    folder, file, large = api.get_paths_info(REPO, ["f", "f/a/x", "w.safetensors", "absent"])
    # Of `git hash-object`.
    assert folder.path == "f"
    assert (file.blob_id, file.lfs) == ("ce013625030ba8dba906f756967f9e9ca394464a", None)
    assert (large.blob_id, large.size) == ("6af935bbdf1a10184a12e9adba943151e449f7c3", 1000)
    assert (large.lfs.sha256, large.lfs.pointer_size) == (hashlib.sha256(b"\0" * 1000).hexdigest(), 129)


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


def test_error_of_the_server_itself_is_kept(
    hub: LoopbackHub, api: HfApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub.repositories, "find", lambda *_: 1 // 0)
    with pytest.raises(HfHubHTTPError, match="500"):
        api.create_tag(REPO, tag="v1")
    assert "ZeroDivisionError" in hub.errors[0]
    hub.errors.clear()


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
