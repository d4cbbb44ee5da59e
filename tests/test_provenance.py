from __future__ import annotations

import subprocess

import pytest

from eventformers.provenance import git_commit as cached_commit
from eventformers.provenance import library_versions

git_commit = cached_commit.__wrapped__


@pytest.fixture
def checkout(tmp_path):
    file = tmp_path / "code.py"
    file.write_text("x = 1\n")
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    for command in (["init", "-q"], ["add", "code.py"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return file


def test_the_commit_of_a_tracked_file(checkout):
    clean = git_commit(checkout)
    assert clean is not None
    assert len(clean) == 40
    checkout.write_text("x = 2\n")
    assert git_commit(checkout) == f"{clean}-dirty"


def test_no_commit_for_an_untracked_file_or_without_git(checkout, monkeypatch):
    installed = checkout.parent / ".venv" / "module.py"
    installed.parent.mkdir()
    installed.write_text("")
    assert git_commit(installed) is None
    monkeypatch.setenv("PATH", str(checkout.parent))
    assert git_commit(checkout) is None


def test_versions_name_what_can_change_a_score():
    versions = library_versions()
    assert versions["eventformers"]
    assert versions["torch"]
    assert versions["python"].count(".") == 2
