"""The runs of a release: their order, and what one gets from another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eventformers.commands.hub import size_text
from eventformers.datasets_scripts.building import BUILDERS
from eventformers.errors import EventformersError
from eventformers.release import parts
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.run import resolve_recipe


def test_a_run_that_follows_another(tmp_path: Path) -> None:
    runs = parts.plan_runs(parts.Training(encoder="start"))
    [run] = [run for run in runs if run.follows is not None]
    assert runs.index(run.follows) < runs.index(run)
    encoder, settings = parts._from_followed(tmp_path, run, parts.Training(encoder="start"))
    followed = tmp_path / run.follows.name
    assert encoder == str(followed)
    views = resolve_recipe(run.method, run.recipe.name, settings, None).views
    names = [stage["name"] for stage in run.follows.recipe.stages]
    assert Path(views["retriever"]) == followed / "stages" / f"{1 + names.index('linking')}-linking"

    kept = {name: SimpleNamespace(reports={}) for name in BUILDERS}
    reason = parts.reason_to_leave_out(run, cast("Any", kept), accept_licenses=True)
    assert reason == f"{run.follows.name}, which it follows, is left out"
    alone = replace(run, follows=None)
    assert "which it follows" in str(parts.reason_to_leave_out(alone, cast("Any", kept), True))


@pytest.mark.parametrize("follows", ["minilm", "{retriever: x}", "{recipe: minilm, retriever: 3}"])
def test_what_a_recipe_follows_is_a_recipe_with_folders(tmp_path: Path, follows: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"extends: demo\nfollows: {follows}\n", encoding="utf-8")
    with pytest.raises(
        EventformersError, match=r"own\.yaml, follows: found .* accepted: a (recipe, and folders|mapping)"
    ):
        load_recipe("swcc", str(path))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (1_234, "1.23 kB"),
        (999_900, "1 MB"),
        (1_500_000_000, "1.5 GB"),
    ],
)
def test_sizes_have_a_unit_and_three_digits(count: int, text: str) -> None:
    assert size_text(count) == text
