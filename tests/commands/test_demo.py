"""The demo of every method: what it shows of the reloaded model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from eventformers.commands import demo
from eventformers.commands.demo import Showing, Texts, find_neighbours, run_demo
from eventformers.errors import UnknownNameError
from eventformers.inference.encode import load_encoder
from eventformers.methods import load_method, load_object, main_methods
from eventformers.trainers.recipes import list_recipes
from eventformers.training import FinishedRun

pytestmark = pytest.mark.process
every_method = pytest.mark.parametrize("method", main_methods())

SMALL = {"heterevent": {"event_dim": 16, "chain_dim": 24}}


def save_head(method: str, folder: Path, encoder: Path) -> None:
    head = load_method(method).head_class.from_encoder(str(encoder), **SMALL.get(method, {}))
    head.save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)


@every_method
def test_the_nearest_of_each_query_are_found(method: str, tmp_path: Path, tiny_encoder: Path) -> None:
    save_head(method, tmp_path, tiny_encoder)
    showing, model = load_object(load_method(method).showing), load_encoder(tmp_path)
    candidates = showing.candidates()
    neighbours = find_neighbours(model, showing)
    assert [query for query, _, _ in neighbours[:: showing.number]] == list(showing.queries())
    assert all(text != query for query, text, _ in neighbours)
    ours = model.encode([showing.queries()[query] for query, _, _ in neighbours], normalize=True)
    others = model.encode([candidates[text] for _, text, _ in neighbours], normalize=True)
    told = [cosine for _, _, cosine in neighbours]
    np.testing.assert_allclose(told, (ours * others).sum(axis=1), atol=1e-5)
    query = neighbours[0][0]
    everything = model.encode(list(candidates.values()), normalize=True)
    cosines = everything @ model.encode([showing.queries()[query]], normalize=True)[0]
    cosines[[text == query for text in candidates]] = -1
    found = [cosine for _, _, cosine in neighbours[: showing.number]]
    np.testing.assert_allclose(found, np.sort(cosines)[::-1][: showing.number], atol=1e-5)


def test_a_query_is_not_its_own_neighbour(tmp_path: Path, tiny_encoder: Path) -> None:
    save_head("swcc", tmp_path, tiny_encoder)
    texts: Texts = {text: text for text in ("storm hit city", "team won", "storm hit town")}
    showing = Showing("event", "nearest", lambda: texts, lambda: texts, number=2)
    found = find_neighbours(load_encoder(tmp_path), showing)
    assert [query for query, _, _ in found] == [query for query in texts for _ in range(2)]
    assert all(query != text for query, text, _ in found)
    assert found[0][1] == "storm hit town"


@every_method
def test_a_demo_trains_its_recipe_and_reloads_the_model(
    method: str, tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {}

    def save(name: str, output: Path, **settings: object) -> FinishedRun:
        asked.update(settings, method=name)
        save_head(name, output, tiny_encoder)
        return FinishedRun(output, None, [])  # type: ignore[arg-type]

    monkeypatch.setattr(demo, "train", save)
    shown = run_demo(method, tmp_path, encoder=str(tiny_encoder))
    assert (asked["method"], asked["recipe"]) == (method, "demo")
    assert "demo" in list_recipes(method)
    assert shown.run.folder == tmp_path / method
    assert len(shown.neighbours) == shown.showing.number * len(shown.showing.queries())


def test_a_method_without_a_demo_is_told() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'mico'"):
        run_demo("mcio", "out")
