"""Methods, their parts, and what importing the package registers."""

from __future__ import annotations

import ast
import dataclasses
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import run_python
from fresh_process import run_fresh
from method_case import case_of, random_texts
from sources import parsed
from transformers import AutoTokenizer

import eventformers
from eventformers import methods
from eventformers.commands.demo import Showing
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.methods import all_methods, load_method, load_object, main_methods, what_is_read
from eventformers.model_cards import load_method_card
from eventformers.trainers.method import MethodTraining
from eventformers.trainers.recipes import list_recipes

REPOSITORY = Path(__file__).parents[1]
ROOMS = ("src/eventformers", "models", "trainers", "model_cards", "datasets_scripts", "evaluate_metrics")
OWN = re.compile(
    r"(^|/)(\w+_)?(swcc|mico|heterevent|event_type_induction|event_grounding)(_\w+)?\.py$"
    r"|^src/eventformers/methods\.py$|^src/eventformers/built_in\.py$"
)
"""The files of the methods, and the one that lists them."""

NAMED = re.compile(
    r"\b(swcc|mico|heterevent|event_type_induction|event_grounding(_cross)?)\b"
    r"|\b(configuration|modeling)_(swcc|mico|heterevent|event_type_induction|event_grounding)"
    r"|\b(Swcc|Mico|HeterEvent|EventTypeInduction|EventGrounding)(Config|Model|For\w+)\b"
)
EXCEPTIONS = {
    "src/eventformers/evaluation/tasks/induction.py": "the name of a type stands in its trainer",
    "src/eventformers/reproduction/rows.py": "the cross-encoder of one paper's rows",
}
INSTALLED = list(all_methods())
"""The built-in methods, and those of packages that are installed beside this one."""
every_method = pytest.mark.parametrize("name", all_methods())


@every_method
def test_everything_that_a_method_names_is_there(name: str) -> None:
    method = load_method(name)
    assert isinstance(method.training, MethodTraining)
    assert issubclass(method.head_class, load_object(method.classes[method.head]))
    assert load_method_card(name).title == method.title
    recipes = list_recipes(name)
    assert {method.default_recipe, method.paper_recipe, "demo"} <= set(recipes)
    if method.showing is not None:
        assert isinstance(load_object(method.showing), Showing)
    assert (method.paper is None) == (method.tables is None)
    assert what_is_read(name) == method.reads


@every_method
def test_the_classes_are_those_of_the_configuration(name: str) -> None:
    method = load_method(name)
    package = method.config_class.__module__.rpartition(".")[0]
    paths = {auto: f"{package}.{path}" for auto, path in method.config_class.full_auto_map.items()}
    assert method.classes == paths


def test_type_checkers_know_the_classes() -> None:
    text = (REPOSITORY / "src/eventformers/built_in.py").read_text(encoding="utf-8")
    listed = {
        f"{node.module}.{alias.asname}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert listed == {
        path
        for method in methods.built_in_methods()
        for path in (*method.classes.values(), method.processor, method.collator)
    }
    assert {path.rpartition(".")[2] for path in listed} <= set(eventformers.__all__)


def test_a_wrong_field_is_told() -> None:
    with pytest.raises(EventformersError, match=r"'swcc'.*'reads' expected one of"):
        dataclasses.replace(load_method("swcc"), reads="words")  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="classes lacks AutoConfig"):
        dataclasses.replace(load_method("swcc"), classes={"AutoModel": "a.B"}, head="AutoModel")


def test_a_part_that_cannot_be_loaded_is_told() -> None:
    for path in ("nowhere.Class", "eventformers.methods.Nothing", "nothing"):
        with pytest.raises(EventformersError, match=f"cannot load {path}: "):
            load_object(path)


def test_unknown_methods_are_told() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'swcc'"):
        load_method("swc")
    assert what_is_read("bert") is None
    assert what_is_read(None) is None


# Other packages.


def install(folder: Path, package: str, **entries: str) -> None:
    """Write what pip leaves of a package with entry points."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{methods.ENTRY_POINTS}]", *lines, ""]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages, before and after which the registry reads its entry points again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    methods._registered.cache_clear()
    yield tmp_path
    methods._registered.cache_clear()


def test_another_package_adds_a_method(site: Path) -> None:
    (site / "other_method.py").write_text(
        "import dataclasses\nfrom eventformers.methods import load_object\n"
        "METHOD = dataclasses.replace(load_object('eventformers.built_in.SWCC'), name='other')\n"
    )
    install(site, "other", anything="other_method:METHOD")
    assert list(all_methods())[-1] == "other"
    assert "other" in main_methods()
    assert load_method("other").title == "SWCC"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("not_there:METHOD", "No module named 'not_there'"),
        ("eventformers.methods:NOTHING", "NOTHING"),
        ("leaves:METHOD", "1"),
        ("eventformers.methods:BUILT_IN", "is tuple, not a Method"),
        ("eventformers.built_in:SWCC", "there is already a method 'swcc'"),
    ],
)
def test_a_broken_method_is_left_out(
    site: Path, value: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    (site / "leaves.py").write_text("raise SystemExit(1)")
    install(site, "broken", one=value)
    with caplog.at_level(logging.WARNING, "eventformers"):
        assert list(all_methods()) == INSTALLED
    [record] = caplog.records
    assert told in record.getMessage()
    assert "entry point one of broken: the method is left out" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_a_method_whose_classes_are_broken_is_left_out(tmp_path: Path) -> None:
    """Found when transformers is imported; everything else works."""
    (tmp_path / "broken_classes.py").write_text(
        "import dataclasses\nfrom eventformers.built_in import SWCC\n"
        "CLASSES = {auto: 'nowhere.Class' for auto in SWCC.classes}\n"
        "ABSENT = dataclasses.replace(SWCC, name='absent', classes=CLASSES)\n"
        "TAKEN = dataclasses.replace(SWCC, name='other_name')\n"
    )
    install(tmp_path, "broken", one="broken_classes:ABSENT", two="broken_classes:TAKEN")
    code = (
        "import eventformers, transformers\nfrom eventformers.methods import all_methods\n"
        "transformers.AutoModel\nprint(list(all_methods()))"
    )
    done = run_python(["-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(INSTALLED)
    told = [line for line in done.stderr.splitlines() if "the method is left out" in line]
    assert len(told) == 2
    assert "'absent'" in told[0]
    assert "has the model_type 'swcc'" in told[1]


LOADED = "from transformers import AutoConfig, AutoModel"


@pytest.mark.parametrize(
    ("earlier", "first"),
    [
        ("", "early.configuration"),
        (LOADED, "early.method"),
        (LOADED, "early.configuration"),
        (LOADED, "early.losses"),
        (LOADED, "early.modeling"),
    ],
)
def test_a_method_whose_module_is_imported_before_the_package_is_registered(
    tmp_path: Path, earlier: str, first: str
) -> None:
    """Its module is half imported when this package registers it."""
    package = tmp_path / "early"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "method.py").write_text(
        "import dataclasses\nfrom eventformers.built_in import SWCC\n"
        "MODELS = {auto: 'early.modeling.EarlyModel' for auto in SWCC.classes}\n"
        "CLASSES = MODELS | {'AutoConfig': 'early.configuration.EarlyConfig'}\n"
        "METHOD = dataclasses.replace(SWCC, name='early', classes=CLASSES)\n"
    )
    (package / "configuration.py").write_text(
        "from eventformers.models.configuration_base import EventConfig\n"
        "class EarlyConfig(EventConfig):\n    model_type = 'early'\n"
    )
    (package / "losses.py").write_text("from eventformers.models.losses import info_nce\ndef loss(): ...\n")
    (package / "modeling.py").write_text(
        "from eventformers.models.modeling_base import EventEncoderModel\n"
        "from early.configuration import EarlyConfig\nfrom early.losses import loss\n"
        "class EarlyModel(EventEncoderModel):\n    config_class = EarlyConfig\n"
    )
    install(tmp_path, "early", one="early.method:METHOD")
    code = (
        f"{earlier}\nimport {first}\nfrom eventformers.methods import all_methods\n"
        "from transformers import AutoConfig, AutoModel\n"
        "config = AutoConfig.for_model('early', text_config={'model_type': 'bert', 'vocab_size': 9})\n"
        "from early.configuration import EarlyConfig\nfrom early.modeling import EarlyModel\n"
        "assert type(config) is EarlyConfig and type(AutoModel.from_config(config)) is EarlyModel\n"
        "assert 'early' in all_methods()"
    )
    # One process imports transformers by itself, and the others begin with it.
    server = "libraries" if earlier and first != "early.modeling" else "fresh"
    done = run_python(
        ["-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, server=server
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_half_imported_module_that_is_broken_leaves_its_method_out(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("import eventformers\nfrom nowhere import METHOD\n")
    install(tmp_path, "half", one="half:METHOD")
    code = "from transformers import AutoConfig\nimport half"
    done = run_python(["-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "one of half: the method is left out: cannot load half.METHOD: No module named 'now" in done.stderr
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'nowhere'"


# One registry.


def docstrings(tree: ast.AST) -> set[int]:
    """The expressions that are docstrings, of attributes too."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def named_methods(path: Path) -> list[str]:
    """Where code, docstrings and comments aside, names a method."""
    tree = parsed(path)
    prose = docstrings(tree)
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in prose:
                names = [text]
            case ast.ImportFrom(module=module):
                names = [module or "", *(alias.name for alias in node.names)]
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names = [name]
            case _:
                continue
        found += [f"{path}:{node.lineno}: {name}" for name in names if NAMED.search(name)]
    return found


def test_no_other_file_names_a_method() -> None:
    files = [path for room in ROOMS for path in sorted((REPOSITORY / room).rglob("*.py"))]
    by_file = {path.relative_to(REPOSITORY).as_posix(): path for path in files}
    assert len(by_file) > 200
    found = {name: named_methods(path) for name, path in by_file.items() if not OWN.search(name)}
    assert [line for name, lines in found.items() if name not in EXCEPTIONS for line in lines] == []
    # An exception that is none any more goes.
    assert [name for name in EXCEPTIONS if not found[name]] == []


def test_lists_name_everything() -> None:
    from eventformers.evaluate_metrics import METRICS
    from eventformers.evaluation.tasks import TASKS

    methods = {entry["name"]: entry for entry in eventformers.list_methods()}
    assert list(methods) == list(main_methods())
    assert {"demo", "paper"} <= set(methods["swcc"]["recipes"])
    assert [entry["name"] for entry in eventformers.list_tasks()] == list(TASKS)
    assert {
        entry["name"]: bool(entry["description"]) for entry in eventformers.list_metrics()
    } == dict.fromkeys(METRICS, True)
    assert {"event_chains", "event_types"} <= {entry["name"] for entry in eventformers.list_datasets()}


SCENARIOS = ("tokenizer_alone", "configuration_alone", "package_first", "package_last", "remote_code")
SHARED_CODE = {
    *("configuration_base.py", "modeling_base.py", "pooling.py", "similarities.py", "distributed.py"),
    *("processing_events.py", "pipeline_event_embedding.py"),
    *("event_items.py", "loaded_files.py", "text_prompts.py"),
    "sentence_transformers_files.py",
}
GROUNDING_CODE = ("grounding_losses", "pipeline_event_grounding", "processing_event_grounding")
FURTHER_CODE = {
    "swcc": ("commonsense_losses", "event_losses", "layer_weights", "pipeline_next_event", "training_head"),
    "mico": (
        *("choice_rows", "commonsense_losses", "relation_words", "processing_mico", "training_head"),
        *("pipeline_commonsense_completion", "pipeline_next_event"),
    ),
    "heterevent": (
        *("chain_losses", "choice_rows", "event_graph", "graph_layers", "heterevent_layers"),
        *("heterevent_stages", "pipeline_next_event", "processing_heterevent"),
        *("layer_weights", "training_head"),
    ),
    "event_type_induction": (
        *("commonsense_losses", "type_losses", "type_induction_layers"),
        *(
            "layer_weights",
            "training_head",
            "pipeline_event_type_induction",
            "pipeline_next_event",
            "processing_event_type_induction",
        ),
    ),
    "event_grounding": (*GROUNDING_CODE, "training_head"),
    "event_grounding_cross": GROUNDING_CODE,
}
"""Files of the code of a saved model beside its own configuration and modeling file."""

each_method = pytest.mark.parametrize("method", all_methods())

Fresh = Callable[[str], dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def saved(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """One saved head of each method with its tokenizer, and the vectors that it must give."""
    models = {}
    for method in all_methods():
        case = case_of(method)
        head = case.head_class.from_encoder(str(tiny_encoder), **case.narrow).eval()
        tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
        input_ids, attention_mask = random_texts(3, 7, head.config.encoder_config.vocab_size, seed=4)
        folder = tmp_path_factory.mktemp(method) / "model"
        head.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        with torch.inference_mode():
            embeddings = head.base_model(input_ids, attention_mask).embeddings
        models[method] = {
            "request": {
                "name": method,
                "folder": str(folder),
                "auto_classes": [name for name in case.config_class.full_auto_map if name != "AutoConfig"],
                "requires": list(case.requires),
                "input_ids": input_ids.tolist(),
                "attention_mask": attention_mask.tolist(),
            },
            "tokens": tokenizer("the storm flooded the city")["input_ids"],
            "embeddings": embeddings,
        }
    return models


@pytest.fixture(scope="module")
def fresh(saved: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Answers of a scenario, which runs once for all methods."""
    answers: dict[str, dict[str, dict[str, Any]]] = {}

    def run(scenario: str) -> dict[str, dict[str, Any]]:
        if scenario not in answers:
            requests = [model["request"] for model in saved.values()]
            server = "libraries" if scenario == "remote_code" else "fresh"
            answers[scenario] = run_fresh(scenario, requests, tmp_path_factory.mktemp(scenario), server)
        return answers[scenario]

    return run


@each_method
def test_every_method_has_a_case(method: str) -> None:
    case = case_of(method)
    assert case.model_class.config_class is case.config_class
    assert case.head_class.config_class is case.config_class
    assert case.variants
    assert "everything" in case.variants


def test_names_are_the_model_types() -> None:
    assert [method.config_class.model_type for method in all_methods().values()] == list(all_methods())


@each_method
def test_every_class_is_a_public_name(method: str) -> None:
    configuration = case_of(method).config_class
    for reference in configuration.full_auto_map.values():
        file, name = reference.split(".")
        assert name in eventformers.__all__
        assert getattr(eventformers, name).__module__ == f"eventformers.models.{file}"


@each_method
def test_the_method_names_the_processor_of_its_models(method: str) -> None:
    path = all_methods()[method].processor
    assert path == f"eventformers.models.{case_of(method).config_class.processor}"
    processor = load_object(path)
    assert getattr(eventformers, processor.__name__) is processor


@each_method
def test_every_auto_class_is_written_on_save(method: str) -> None:
    case = case_of(method)
    classes = {reference.split(".")[1] for reference in case.config_class.full_auto_map.values()}
    assert {case.config_class.__name__, case.model_class.__name__, case.head_class.__name__} <= classes


@each_method
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_fresh_process(method: str, scenario: str, saved: dict[str, dict[str, Any]], fresh: Fresh) -> None:
    answer, expected = fresh(scenario)[method], saved[method]
    request = expected["request"]
    home = "transformers_modules" if scenario == "remote_code" else "eventformers.models"
    if "tokens" in answer:
        assert answer["tokens"] == expected["tokens"]
    if "configuration" in answer:
        assert answer["configuration"].startswith(home)
    if "models" in answer:
        assert set(answer["models"]) == set(request["auto_classes"])
        for loaded in answer["models"].values():
            assert loaded["class"].startswith(home)
            torch.testing.assert_close(torch.tensor(loaded["embeddings"]), expected["embeddings"])
    assert answer


@each_method
def test_a_saved_model_carries_only_the_code_it_runs(method: str, saved: dict[str, dict[str, Any]]) -> None:
    folder = Path(saved[method]["request"]["folder"])
    own = {
        f"{reference.split('.')[0]}.py" for reference in case_of(method).config_class.full_auto_map.values()
    }
    expected = SHARED_CODE | own | {f"{name}.py" for name in FURTHER_CODE[method]}
    assert {path.name for path in folder.glob("*.py")} == expected


@each_method
def test_remote_code_saves_complete_repositories(
    method: str, saved: dict[str, dict[str, Any]], fresh: Fresh
) -> None:
    expected = saved[method]
    code = sorted(path.name for path in Path(expected["request"]["folder"]).glob("*.py"))
    for again in fresh("remote_code")[method]["saved_again"].values():
        assert again["files"] == code
        embeddings = torch.tensor(again["models"]["AutoModel"]["embeddings"])
        torch.testing.assert_close(embeddings, expected["embeddings"])
