"""Baselines on chain tasks: results like those of models, training chains apart from what is scored."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
from planted_chains import PEOPLE, STORIES

from eventformers.baselines import get_baseline
from eventformers.baselines.chain_baselines import (
    CHAIN_BASELINES,
    BaselineSettings,
    ChainTraining,
    chain_training,
)
from eventformers.baselines.event_networks import NetworkSettings
from eventformers.baselines.word_vectors import WordVectorSettings
from eventformers.datasets_scripts.building import build_dataset
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.results import TaskResult, read_result, write_result
from eventformers.evaluation.significance import compare_results


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with one long chain each."""
    folder = tmp_path_factory.mktemp("raw")
    lines = []
    for number in range(60):
        person = PEOPLE[number % len(PEOPLE)]
        story = STORIES[number % len(STORIES)]
        events = [
            [part.replace("*", person) for part in parts]
            if step == 0
            else [person, f"{parts[1]} {step}", f"{parts[2].strip('*') or 'it'}{number % 7}"]
            for step in range(3)
            for parts in story
        ]
        lines.append(json.dumps({"id": f"d{number}", "source": "own", "events": events}))
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def built(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    for config in ("chains", "mcnc", "multistep"):
        build_dataset("event_chains", config, raw, folder, test_share=0.4)
    return folder


def quick(name: str) -> BaselineSettings:
    settings = CHAIN_BASELINES[name].settings
    if isinstance(settings, NetworkSettings):
        return replace(settings, epochs=1, dimension=8, word_dimension=8)
    if isinstance(settings, WordVectorSettings):
        return replace(settings, epochs=2, dimension=8)
    return settings


@pytest.fixture(scope="module")
def chances(built: Path) -> dict[str, TaskResult]:
    return {task: get_baseline("random")(task, built) for task in ("mcnc", "mcns_v", "multistep_sky")}


@pytest.mark.parametrize("name", CHAIN_BASELINES)
def test_a_baseline_gives_results_like_a_model(
    name: str, built: Path, chances: dict[str, TaskResult], tmp_path: Path
) -> None:
    if CHAIN_BASELINES[name].needs_gensim and importlib.util.find_spec("gensim") is None:
        pytest.skip("gensim is not installed: it is the extra `baselines`")
    trained = chain_training(name, built, settings=quick(name), seed=3)
    for task, chance in chances.items():
        result = get_baseline(name)(task, built, trained=trained, output=tmp_path)
        assert len(result.predictions) == result.dataset.rows > 0
        assert result.main_value == result.scores["accuracy"]
        assert result.settings["training_chains"] == len(trained.chains.events)
        assert result.seed == 3
        assert chance.main_value == pytest.approx(20)
        compared = compare_results(result, chance, num_resamples=20)
        assert compared.difference == pytest.approx(float(result.main_value or 0) - 20)
        (path,) = tmp_path.rglob(f"{task}.json")
        assert read_result(path) == result


def test_settings_and_seed_are_in_the_revision(built: Path) -> None:
    settings = replace(CHAIN_BASELINES["ppmi"].settings, window=2)
    revisions = [
        get_baseline("ppmi")("mcnc", built, settings=chosen, seed=seed).model_revision
        for chosen, seed in ((None, 1), (None, 2), (settings, 1))
    ]
    trained = chain_training("ppmi", built, seed=1)
    assert get_baseline("ppmi")("mcnc", built, trained=trained).model_revision == revisions[0]
    assert len(set(revisions)) == 3


def forbid_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a training, which may take minutes, fail the test."""

    def trained(self: ChainTraining) -> None:
        pytest.fail("trained before its data and folder were accepted")

    monkeypatch.setattr(ChainTraining, "trained", property(trained))


def test_a_result_on_other_rows_is_refused_before_training(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = get_baseline("ppmi")("mcnc", built, output=tmp_path)
    write_result(replace(result, dataset=replace(result.dataset, fingerprint="0")), tmp_path, overwrite=True)
    forbid_training(monkeypatch)
    with pytest.raises(EventformersError, match="other rows"):
        get_baseline("ppmi")("mcnc", built, output=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(EventformersError, match="cannot be written to"):
        get_baseline("ppmi")("mcnc", built, output=tmp_path / "file")


def test_a_scored_document_among_the_training_chains_is_refused(
    built: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_training(monkeypatch)
    with pytest.raises(EventformersError, match=r"documents of the split 'test' are among the training"):
        get_baseline("ppmi")("mcnc", built, training_data=raw)


def test_the_cloze_of_documents_needs_training_data(built: Path, tmp_path: Path) -> None:
    item = "a|b|c\nc|d|a\nHOLDOUT_SEP\na|e|c\nNEG_SEP\na|f|c\nc|g|a\nDOC_SEP\n"
    (tmp_path / "mcnc_dev.txt").write_text(item)
    with pytest.raises(EventformersError, match="accepted: training_data"):
        get_baseline("ppmi")("variable_mcnc", tmp_path)
    result = get_baseline("ppmi")("variable_mcnc", tmp_path, training_data=built)
    assert (result.dataset.split, result.dataset.rows) == ("validation", 1)
    assert get_baseline("random")("variable_mcnc", tmp_path).main_value == pytest.approx(100 / 3)


@pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="gensim is not installed")
@pytest.mark.parametrize("name", ["word2vec", "event_comp", "role_factor_tensor"])
def test_vectors_of_events_are_compared(name: str, built: Path) -> None:
    result = get_baseline(name)("transitive_similarity", training_data=built, settings=quick(name))
    assert result.settings["method"] == name
    assert -1 <= result.main_value <= 1
    assert len(result.predictions) == result.dataset.rows


def test_what_does_not_fit_is_refused(built: Path) -> None:
    with pytest.raises(EventformersError, match="does not support the task 'copa'; accepted: mcnc, "):
        get_baseline("ppmi")("copa")
    with pytest.raises(EventformersError, match="ppmi does not support the task 'hard_similarity'"):
        get_baseline("ppmi")("hard_similarity", training_data=built)
    with pytest.raises(UnknownNameError, match="word2vec"):
        get_baseline("feel")("mcnc", built)
    with pytest.raises(EventformersError, match="found WordVectorSettings; accepted: CountSettings"):
        chain_training("ppmi", built, settings=WordVectorSettings())
    trained = chain_training("bigram", built)
    with pytest.raises(EventformersError, match="found bigram already trained"):
        get_baseline("ppmi")("mcnc", built, trained=trained)
    for arguments in ({"training_data": built}, {"seed": 1}):
        with pytest.raises(
            EventformersError, match=f"already trained, and {next(iter(arguments))}; accepted"
        ):
            get_baseline("bigram")("mcnc", built, trained=trained, **arguments)
    with pytest.raises(EventformersError, match="setting seed: found 'x'; accepted: a whole number of 0"):
        get_baseline("ppmi")("mcnc", built, seed="x")
    with pytest.raises(EventformersError, match="random does not support the task 'hard_similarity'"):
        get_baseline("random")("hard_similarity")
