"""Encoders that several evaluations share: nothing is loaded or encoded twice, and no result changes."""

from __future__ import annotations

import json
import shutil
import weakref
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from eventformers import training
from eventformers.commands import evaluation as evaluation_commands
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.evaluation import evaluate
from eventformers.evaluation import session as sessions
from eventformers.evaluation.results import TaskResult, load_results
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS
from eventformers.inference.encode import EventEncoder, load_encoder

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore:.*were truncated")]

STEPS = ["mcns_v", "multistep_base", "multistep_sky", "mcne_v"]
TASKS_OF_CHAINS = ["mcnc", *STEPS]
BATCH = 256
"""Tiny models encode a large batch as fast as a small one."""
NUM_STORIES = 16
SIMILARITY = ["hard_similarity", "hard_similarity_extended", "transitive_similarity"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the samples that has rows for every task here; a graph for each question takes long."""
    folder = tmp_path_factory.mktemp("data")
    stories = (SAMPLES / "chains" / "stories.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "stories.jsonl").write_text("".join(stories[:NUM_STORIES]), encoding="utf-8")
    shutil.copytree(SAMPLES / "similarity", folder, dirs_exist_ok=True)
    shutil.copytree(SAMPLES / "commonsense" / "COPA", folder / "COPA")
    return folder


@pytest.fixture
def heterevent(tmp_path: Path, tiny_heterevent: Path, tiny_encoder: Path) -> Path:
    """A model that reads chains and names its start encoder."""
    folder = shutil.copytree(tiny_heterevent, tmp_path / "heterevent")
    (folder / "run.json").write_text(json.dumps({"encoder": str(tiny_encoder)}))
    return folder


@pytest.fixture
def swcc(trained_folder: Path) -> Path:
    return trained_folder


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[object]]:
    """References to the vectors that encoders keep."""
    found: list[weakref.ref[object]] = []
    keep = EventEncoder.keep

    def watched(self, encoded):
        # A tuple has no weak references.
        found.append(weakref.ref(encoded[0] if isinstance(encoded, tuple) else encoded))
        keep(self, encoded)

    monkeypatch.setattr(EventEncoder, "keep", watched)
    return found


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Counter[object]]]:
    """For each pass of events through an encoder its name, and how often each event was in it."""
    found: list[tuple[str, Counter[object]]] = []
    pass_distinct = EventEncoder.pass_distinct

    def counting(self, rows, inputs, apply, **settings):
        passed: Counter[object] = Counter()
        found.append((self.name, passed))

        def counted(model, tensors, positions):
            passed.update(rows.distinct[position] for position in positions)
            return apply(model, tensors, positions)

        pass_distinct(self, rows, inputs, counted, **settings)

    monkeypatch.setattr(EventEncoder, "pass_distinct", counting)
    return found


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that are loaded."""
    found: list[str] = []

    def load(name, **settings):
        found.append(Path(name).name)
        return load_encoder(name, **settings)

    monkeypatch.setattr(sessions, "as_encoder", load)
    return found


def _alike(result: TaskResult) -> TaskResult:
    """A result without what differs from call to call."""
    return replace(result, timing={}, created="", git_commit=None)


def _evaluated_apart(model: Path, tasks: list[str], data: Path) -> list[TaskResult]:
    return [evaluate(model, task, data=data, device="cpu", batch_size=BATCH) for task in tasks]


def _evaluated_together(model: object, tasks: list[str], data: Path, **settings: object) -> list[TaskResult]:
    shared = {"data": data, "batch_size": BATCH, **settings}
    with Session() as session:
        return [evaluate(model, task, session=session, **shared) for task in tasks]


@pytest.mark.parametrize("name", ["heterevent", "swcc"])
def test_results_are_those_of_separate_calls(name, request, data):
    model = request.getfixturevalue(name)
    # One is asked for once more, after other rows.
    tasks = [*TASKS_OF_CHAINS, "hard_similarity", "copa", "mcns_v"]
    together = _evaluated_together(model, tasks, data, device="cpu")
    apart = {result.task: _alike(result) for result in _evaluated_apart(model, sorted(set(tasks)), data)}
    assert all(result.baseline is not None for result in together)
    assert [_alike(result) for result in together] == [apart[task] for task in tasks]


@pytest.mark.parametrize("name", ["heterevent", "swcc"])
def test_no_event_of_the_same_rows_is_encoded_twice(name, request, data, passes, loads):
    results = _evaluated_together(request.getfixturevalue(name), STEPS, data)
    by_encoder = {encoder: Counter() for encoder, _ in passes}
    for encoder, passed in passes:
        by_encoder[encoder] += passed
    assert set(by_encoder) == {name, "encoder"}
    for passed in by_encoder.values():
        # Of events with the same tokens only one passes.
        assert 0.9 * results[0].timing["distinct_texts"] < len(passed) <= results[0].timing["distinct_texts"]
        assert set(passed.values()) == {1}
    assert sorted(loads) == sorted([name, "encoder"])


def test_other_rows_are_encoded_once_each(heterevent, data, passes, loads):
    _evaluated_together(heterevent, [*TASKS_OF_CHAINS, *SIMILARITY], data)
    assert Counter(name for name, _ in passes) == {"heterevent": 5, "encoder": 5}
    assert all(set(passed.values()) == {1} for _, passed in passes)
    assert sorted(loads) == ["encoder", "heterevent"]


def test_timings_tell_what_was_shared(heterevent, data):
    first, *later = _evaluated_together(heterevent, STEPS, data)
    assert first.timing["shared_texts"] == 0
    for result in later:
        assert result.timing["shared_texts"] == result.timing["distinct_texts"] > 0
        assert result.timing["load_seconds"] < first.timing["load_seconds"]
    assert evaluate(heterevent, "mcns_v", data=data).timing["shared_texts"] == 0


def test_another_length_batch_or_order_is_another_question(heterevent, data, passes, monkeypatch):
    monkeypatch.setitem(TASKS, "mcne_v", replace(TASKS["mcne_v"], max_length=5))
    with Session() as session:
        options = {"data": data, "baseline": False, "session": session}
        plain = evaluate(heterevent, "mcns_v", **options)
        cut = evaluate(heterevent, "mcne_v", **options)
        evaluate(heterevent, "mcne_v", batch_size=3, **options)
        ordered = evaluate(heterevent, "mcns_v", settings={"event_order": "predicate_first"}, **options)
    assert len(passes) == 4
    assert plain.truncated < cut.truncated
    assert ordered.variant == "predicate_first"


def test_cut_events_are_counted_where_they_are_remembered(heterevent, data, monkeypatch):
    for task in STEPS:
        monkeypatch.setitem(TASKS, task, replace(TASKS[task], max_length=5))
    counts = [result.truncated for result in _evaluated_together(heterevent, STEPS, data)]
    assert counts == [counts[0]] * 4
    assert counts[0] > 0


def test_what_is_kept_is_let_go(heterevent, data, kept):
    with Session() as session:
        evaluate(heterevent, "mcns_v", data=data, session=session)
        assert [reference() is not None for reference in kept] == [True, True]
        # The next rows take the place of these, for the model and for the baseline.
        evaluate(heterevent, "mcnc", data=data, session=session)
        assert [reference() is not None for reference in kept] == [False, False, True, True]
        loaded = weakref.ref(session.encoder(heterevent).model)
        assert loaded() is not None
    assert [reference() is not None for reference in kept] == [False] * 4
    evaluate(heterevent, "mcns_v", data=data)
    assert kept[-1]() is None


def test_vectors_that_no_task_in_turn_can_use_again_are_not_kept(heterevent, data, passes, kept):
    names = ["mcnc", *STEPS, "hard_similarity", "transitive_similarity", "mcns_v"]
    options = {"data": data, "batch_size": BATCH}
    results, alive = [], []
    with Session() as session:
        for task in session.in_turn([TASKS[name] for name in names]):
            # Those of the task before, unless this one can read the same rows.
            assert any(one() is not None for one in kept) == (task.name in STEPS[1:] and results != [])
            results.append(evaluate(heterevent, task, session=session, **options))
            alive.append(sum(one() is not None for one in kept))
    assert alive == [0, *[2] * len(STEPS), 0, 0, 0]
    assert Counter(name for name, _ in passes) == {"heterevent": 5, "encoder": 4}
    apart = {name: _alike(evaluate(heterevent, name, **options)) for name in dict.fromkeys(names)}
    assert [_alike(result) for result in results] == [apart[name] for name in names]


def test_a_session_keeps_vectors_again_after_tasks_in_turn(tiny_encoder):
    with Session() as session:
        for _ in session.in_turn([TASKS["copa"]]):
            assert session.encoder(tiny_encoder).memory is None
        assert session.encoder(tiny_encoder).memory is not None
        stopped = iter(session.in_turn([TASKS["copa"]]))
        next(stopped)
        del stopped
        assert session.encoder(tiny_encoder).memory is not None


def test_tasks_may_share_rows_of_one_config():
    assert TASKS["mcns_v"].may_share_rows(TASKS["multistep_sky"])
    assert not TASKS["mcns_v"].may_share_rows(TASKS["mcnc"])
    assert not TASKS["conceptnet_completion"].may_share_rows(TASKS["atomic_completion"])
    assert not TASKS["copa"].may_share_rows(TASKS["hard_similarity"])
    other = replace(TASKS["atomic_completion"], config="conceptnet_pairs", other_configs=())
    assert TASKS["conceptnet_completion"].may_share_rows(other)


def test_an_encoder_that_is_given_keeps_nothing_itself(swcc, data, tiny_encoder, passes):
    encoder, untrained = load_encoder(swcc), load_encoder(tiny_encoder)
    together = _evaluated_together(encoder, STEPS, data, baseline=untrained)
    assert len(passes) == 2
    assert encoder.memory is untrained.memory is None
    options = {"data": data, "baseline": untrained, "batch_size": BATCH}
    apart = [evaluate(encoder, task, **options) for task in STEPS]
    assert [_alike(result) for result in together] == [_alike(result) for result in apart]
    with Session() as session, pytest.raises(EventformersError, match="received a loaded encoder"):
        evaluate(encoder, "mcnc", data=data, settings={"pooling": "cls"}, session=session)


def test_models_of_one_encoder_share_its_scores(swcc, tmp_path, data, passes):
    second = shutil.copytree(swcc, tmp_path / "second")
    options = {"data": data, "batch_size": BATCH}
    with Session() as whole:
        results = []
        for model in (swcc, second):
            with Session(whole) as session:
                results.append(evaluate(model, "copa", session=session, **options))
        assert [name for name, _ in passes] == ["swcc", "encoder", "second"]
        apart = evaluate(second, "copa", **options)
        assert results[0].baseline == results[1].baseline == apart.baseline
        passes.clear()
        # Another pooling, another task and other rows are measured.
        other = shutil.copytree(swcc, tmp_path / "other")
        config = json.loads((other / "config.json").read_text()) | {"pooling": "mean"}
        (other / "config.json").write_text(json.dumps(config))
        mean = evaluate(other, "copa", session=whole, **options)
        evaluate(second, "hard_similarity", session=whole, **options)
        less = tmp_path / "less" / "COPA" / "copa-dev.xml"
        less.parent.mkdir(parents=True)
        first = (data / "COPA" / less.name).read_text(encoding="utf-8").split("</item>")[:4]
        less.write_text("</item>".join([*first, "</copa-corpus>"]), encoding="utf-8")
        few = evaluate(second, "copa", session=whole, **(options | {"data": less.parents[1]}))
        own = replace(TASKS["copa"], main_score="ties")
        evaluate(second, own, session=whole, **options)
        assert [name for name, _ in passes] == ["other", "encoder", *["second", "encoder"] * 3]
    assert mean.baseline != results[0].baseline
    assert few.baseline != results[0].baseline


def test_a_remembered_vector_cannot_be_changed(tiny_encoder):
    with Session() as session:
        encoder = session.encoder(tiny_encoder)
        vectors = encoder.encode(["police arrested thief"])
        assert encoder.encode(["police arrested thief"]) is vectors
        with pytest.raises(ValueError, match="read-only"):
            vectors[0] = 0
    assert load_encoder(tiny_encoder).encode(["police arrested thief"]).flags.writeable


def test_the_command_shares_among_its_tasks(heterevent, data, tmp_path, passes, loads, monkeypatch):
    monkeypatch.setattr(evaluation_commands.console, "print", lambda *_, **__: None)
    options = {"data": str(data), "output": tmp_path / "out", "device": "cpu"}
    evaluation_commands.evaluate(TASKS_OF_CHAINS, str(heterevent), **options)
    assert Counter(name for name, _ in passes) == {"heterevent": 2, "encoder": 2}
    assert sorted(loads) == ["encoder", "heterevent"]
    assert [result.task for result in load_results(tmp_path / "out")] == sorted(TASKS_OF_CHAINS)


def test_a_training_shares_among_its_tasks(tiny_encoder, tmp_path, monkeypatch, passes):
    scored_from: list[int] = []

    def scored(*arguments, **settings):
        if not scored_from:
            scored_from.append(len(passes))
        return evaluate(*arguments, **settings)

    monkeypatch.setattr(training, "evaluate", scored)
    finished = training.train(
        "swcc",
        tmp_path / "model",
        recipe="demo",
        encoder=str(tiny_encoder),
        settings=("max_steps=1", "per_device_train_batch_size=4"),
        tasks=STEPS,
        device="cpu",
        create_model_card=False,
    )
    assert len(finished.results) == len(STEPS)
    assert len(passes) - scored_from[0] == 2
