"""What a folder must be before any of it is sent, and what loading it in the fresh process minds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import forked
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exploration_tables import write_tables
from huggingface_hub import HfApi, constants
from leaderboard_inputs import make_result
from server import LoopbackHub
from transformers import AutoTokenizer

from eventformers import hub as publishing
from eventformers.cli import main
from eventformers.errors import EventformersError
from eventformers.evaluate_metrics import METRICS
from eventformers.evaluation.results import write_result
from eventformers.exploration import PAGE_FILE, REPORT_FILE, STATE_FOLDER
from eventformers.exploration.page import write_page
from eventformers.loading.models import folder_revision
from eventformers.methods import all_methods, load_method
from eventformers.model_cards import TrainedOn
from eventformers.model_cards.card import TRAINING_DATA_FILE, read_training_record, write_training_record
from eventformers.publishing import verification
from eventformers.publishing.folders import find_release, read_folder
from eventformers.publishing.verification import Asked, _told, probe, same
from eventformers.trainers.stages import RUN_FILE


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **values}), encoding="utf-8")


def asked(source: Path, kind: str = "model", configs: tuple[str, ...] = ()) -> Asked:
    return {"kind": kind, "source": str(source), "revision": None, "configs": list(configs)}


def score(folder: Path) -> Path:
    """A result of the model as it is in the folder."""
    return write_result(make_result(model="model", model_revision=folder_revision(folder)), folder)


def test_weights_that_were_changed_since_they_were_scored(model: Path) -> None:
    assert not read_folder(model).licenses_known
    score(model)
    weights = model / "model.safetensors"
    content = bytearray(weights.read_bytes())
    assert read_folder(model).model_type == "swcc"
    content[-1] ^= 1
    weights.write_bytes(bytes(content))
    # It still loads, so nothing else would notice.
    assert _told(asked(model))["error"] is None
    with pytest.raises(
        EventformersError, match=r"differ from those that were scored .* changed after scoring"
    ):
        read_folder(model)
    score(model)
    read_folder(model)


def test_a_result_of_another_version(model: Path) -> None:
    path = score(model)
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "format": 99}), encoding="utf-8")
    with pytest.raises(EventformersError, match="found format 99; accepted: a result file of format 1"):
        read_folder(model)


def test_a_configuration_of_a_newer_release(model: Path) -> None:
    change_config(model, contrastive_curvature=0.5)
    error = _told(asked(model))["error"]
    assert error is not None
    assert "config.json has contrastive_curvature, which this release" in error
    change_config(model, model_type="swcc2")
    with pytest.raises(EventformersError, match=r"'swcc2'; accepted: .*swcc.* update eventformers"):
        read_folder(model)


def test_weights_that_do_not_load(model: Path) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    error = _told(asked(model))["error"]
    assert error is not None
    assert "\n" not in error
    weights.write_bytes(b"")
    assert _told(asked(model))["error"] is not None


@pytest.mark.parametrize("method", all_methods())
def test_a_model_of_every_method_shows_its_output(method: str, tiny_encoder: Path, tmp_path: Path) -> None:
    load_method(method).head_class.from_encoder(str(tiny_encoder)).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path)
    told = _told(asked(tmp_path))
    assert told["error"] is None
    assert same(told["shown"], _told(asked(tmp_path))["shown"])
    assert len(told["shown"]["output"]) >= 32


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("README.md", "has no README.md: a card"),
        ("model.safetensors", "has no weights"),
        ("modeling_swcc.py", "has no modeling_swcc.py: the code that its config.json names"),
        ("config.json", "has nothing that can be pushed; accepted: the folder of a run"),
    ],
)
def test_a_model_that_is_not_whole(model: Path, missing: str, message: str) -> None:
    (model / missing).unlink()
    with pytest.raises(EventformersError, match=message):
        read_folder(model)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no such folder"):
        read_folder(tmp_path / "none")
    with pytest.raises(EventformersError, match=r"unknown folder or metric 'mcncc'. Did you mean 'mcnc'"):
        read_folder("mcncc")
    with pytest.raises(EventformersError, match="has no run and no built dataset in it"):
        find_release(tmp_path)


def test_a_release_is_found_at_any_depth(
    plain_model: Path, built_dataset: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(plain_model, tmp_path / "runs" / "one")
    shutil.copytree(plain_model, tmp_path / "runs" / "one" / "checkpoint-2")
    shutil.copytree(built_dataset, tmp_path / "data" / "similarity")
    (tmp_path / "runs" / "stopped" / "checkpoint-2").mkdir(parents=True)
    (tmp_path / "runs" / "stopped" / RUN_FILE).touch()
    found = [(each.kind, each.name) for each in find_release(tmp_path)]
    assert found == [("dataset", "similarity"), ("model", "one"), *(("metric", name) for name in METRICS)]
    assert f"{tmp_path / 'runs' / 'stopped'} is left out" in caplog.text
    shutil.copytree(plain_model, tmp_path / "other" / "One")
    with pytest.raises(EventformersError, match="have the same name; rename one of them"):
        find_release(tmp_path)


def test_rows_and_reports_beside_a_model_are_not_sent(model: Path) -> None:
    rows = ("chains.jsonl", "events.csv", "types/report.html", "mentions.parquet")
    for name in rows:
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).touch()
    found = read_folder(model)
    assert not set(rows) & set(found.files)
    assert found.left_out["chains.jsonl"] == ("not a known file of a model; --include PATTERN sends it")


SECRETS = (
    *("credentials.json", "notes.txt", "secrets.yaml", "client.py", "model.safetensors.bak", "docs/notes.md"),
    *("logs/notes.json", "event/.env", "token.json", "1_Pooling/notes.txt", "picture.png", "weights.bin"),
)


def test_only_known_files_are_sent(model: Path) -> None:
    known = set(read_folder(model).files)
    code = {"modeling_swcc.py", "modeling_base.py", "configuration_swcc.py", "pipeline_event_embedding.py"}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "modules.json", *code} <= known
    assert known == {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()}
    for name in SECRETS:
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).write_text("secret")
    found = read_folder(model)
    assert set(found.files) == known
    assert set(found.left_out) == set(SECRETS)
    found = read_folder(model, ["docs/*.md", "*.png", "*.bin"])
    assert set(found.files) - known == {"docs/notes.md", "picture.png"}
    assert found.left_out["weights.bin"] == "may hold pickles"


@pytest.mark.parametrize("name", ["README.md", "results/a/b/task.json", "tokenizer_config.json"])
def test_links_out_of_the_folder_are_refused(model: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "secret"
    outside.write_text("{}")
    (model / name).parent.mkdir(parents=True, exist_ok=True)
    (model / name).unlink(missing_ok=True)
    (model / name).symlink_to(outside)
    with pytest.raises(EventformersError, match=f"{name} is a link to .*secret, outside of the folder"):
        read_folder(model)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"auto_map": None}, "found auto_map None; accepted: an object"),
        ({"model_type": ["swcc"]}, r"found model_type \['swcc'\]; accepted: a string"),
        ({"model_type": None}, "found model_type None"),
        ({"custom_pipelines": []}, "found custom_pipelines"),
        ({"auto_map": {"AutoModel": "client.Client"}}, r"has no client\.py: the code that"),
        ({"auto_map": {"AutoModel": "../client.Client"}}, r"has no \.py: the code that"),
    ],
)
def test_configurations_that_name_something_else(
    model: Path, values: dict[str, object], message: str
) -> None:
    change_config(model, **values)
    with pytest.raises(EventformersError, match=message):
        read_folder(model)


def test_a_dataset_without_its_rows(dataset: Path) -> None:
    assert read_folder(dataset).configs == ("hard",)
    readme = dataset / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(text.replace("  default: true\n", ""), encoding="utf-8")
    with pytest.raises(EventformersError, match=r"found default configs \[\]; accepted: only the first one"):
        read_folder(dataset)
    readme.write_text(text, encoding="utf-8")
    next((dataset / "hard").glob("*.parquet")).unlink()
    with pytest.raises(EventformersError, match="names config hard, which has no Parquet file"):
        read_folder(dataset)


def test_the_record_of_the_training_rows(tmp_path: Path) -> None:
    sources = {"a": {"license": "MIT", "events": 3}, "b": {"license": "CC-BY-NC-SA-4.0"}}
    trained_on = TrainedOn(name="event_chains", config="chains", sources=sources)
    write_training_record(trained_on, tmp_path)
    read = read_training_record(tmp_path)
    assert read is not None
    assert read.closed_licenses == ["CC-BY-NC-SA-4.0"]
    # A later run in the same folder, of whose rows nothing is known.
    write_training_record(None, tmp_path)
    assert read_training_record(tmp_path) is None
    (tmp_path / TRAINING_DATA_FILE).write_text('{"shape": "new"}', encoding="utf-8")
    with pytest.raises(EventformersError, match="JSON with the fields name, config"):
        read_training_record(tmp_path)


def test_what_repositories_show_is_compared() -> None:
    shown = {"class": "SwccModel", "output": [0.5, -1.0]}
    assert same(shown, {"class": "SwccModel", "output": [0.500001, -1.0]})
    assert not same(shown, {"class": "SwccModel", "output": [0.51, -1.0]})
    assert not same(shown, {"class": "SwccModel", "output": [0.5]})
    assert not same(shown, {"class": "MicoModel", "output": [0.5, -1.0]})
    assert not same(shown, {"class": "SwccModel"})


def test_a_dataset_shows_its_first_rows(built_dataset: Path) -> None:
    told = _told(asked(built_dataset, "dataset", ("hard",)))
    assert told["error"] is None
    split = told["shown"]["hard"]["test"]
    assert len(split["rows"]) == 3
    assert "similar_a" in split["rows"][0]
    assert _told(asked(built_dataset, "dataset", ("soft",)))["error"] is not None


def test_a_metric_that_computes_something_else_is_noticed(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(read_folder("mcnc").folder, tmp_path / "mcnc"))
    assert _told(asked(folder, "metric"))["error"] is None
    # Modules of a metric are cached by their content, in a folder by its name.
    other = tmp_path / "other" / "mcnc"
    shutil.copytree(folder, other)
    code = other / "mcnc.py"
    code.write_text(code.read_text(encoding="utf-8").replace("66.66666666666667", "99.0"), encoding="utf-8")
    assert "1 of its 2 documented examples" in str(_told(asked(other, "metric"))["error"])


def test_a_process_that_ends_early_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", shutil.which("false"))
    with pytest.raises(EventformersError, match="ended early: it printed nothing"):
        probe([asked(tmp_path)], endpoint="http://127.0.0.1:9", token=None, online=False)


@pytest.mark.parametrize(
    "content", ['{"name": "a", "sources": null}', '{"sources": {"a": 1}}', "[]", "[" * 100_000]
)
def test_a_record_of_training_rows_that_is_none(model: Path, content: str) -> None:
    (model / TRAINING_DATA_FILE).write_text(content)
    with pytest.raises(EventformersError, match=TRAINING_DATA_FILE):
        read_folder(model)


def test_a_build_report_that_is_none(dataset: Path) -> None:
    (dataset / "hard" / "build_report.json").write_text("[")
    with pytest.raises(EventformersError, match=r"build_report\.json: found invalid JSON"):
        read_folder(dataset)


REPO = "storms/news"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explored") / "news"
    folder.mkdir()
    write_tables(folder)
    (folder / STATE_FOLDER).mkdir()
    (folder / STATE_FOLDER / "events.json").write_text("{}", encoding="utf-8")
    write_page(folder)
    return folder


@pytest.fixture
def exploration(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(written, tmp_path / "news"))


def set_license(folder: Path, name: str) -> None:
    path = folder / "documents.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("license")
    pq.write_table(table.set_column(place, "license", pa.array([name] * table.num_rows)), path)


def test_files_of_an_exploration(exploration: Path) -> None:
    found = read_folder(exploration)
    assert (found.kind, found.repo_type) == ("exploration", "space")
    assert {PAGE_FILE, REPORT_FILE, "README.md", "events.parquet", "documents.parquet"} <= set(found.files)
    assert found.left_out == {f"{STATE_FOLDER}/events.json": "hidden"}
    assert "sdk: static" in found.files["README.md"].read_text(encoding="utf-8")
    (exploration / PAGE_FILE).unlink()
    with pytest.raises(EventformersError, match=r"has no index\.html: the page, as `eventformers explore`"):
        read_folder(exploration)


def test_a_release_has_no_explorations(exploration: Path) -> None:
    with pytest.raises(EventformersError, match="has no run and no built dataset"):
        find_release(exploration.parent)


def test_a_damaged_exploration_is_found(exploration: Path) -> None:
    asked = {"kind": "exploration", "source": str(exploration), "revision": None, "configs": []}
    assert _told(asked)["error"] is None  # type: ignore[arg-type]
    (exploration / REPORT_FILE).write_text("{", encoding="utf-8")
    assert "JSONDecodeError" in str(_told(asked)["error"])  # type: ignore[arg-type]


def test_licences_must_be_accepted(exploration: Path, hub: LoopbackHub) -> None:
    set_license(exploration, "research-only")
    with pytest.raises(EventformersError, match="has rows under research-only"):
        publishing.push(exploration, REPO, endpoint=hub.endpoint, token=hub.token_of("alice"))


@pytest.mark.parametrize("public", [False, True])
def test_explore_pushes_a_space(
    exploration: Path,
    hub: LoopbackHub,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tiny_encoder: Path,
    public: bool,
    capsys: Any,
) -> None:
    monkeypatch.setattr(verification, "subprocess", forked.stand_in("libraries"))
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token_of("alice"))
    set_license(exploration, "CC-BY-2.5" if public else "research-only")
    options = ["--events", str(tiny_encoder), "--device", "cpu", "--space", REPO]
    lines = ["explore", str(exploration), "-o", str(tmp_path / "out"), *options]
    with pytest.raises(SystemExit) as stopped:
        main([*lines, "--public"] if public else lines)
    assert stopped.value.code == 0, capsys.readouterr().err
    api = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))
    there: Any = api.space_info(REPO)
    assert (there.sdk, there.private) == ("static", not public)
    assert {PAGE_FILE, "README.md", "events.parquet"} <= {each.rfilename for each in there.siblings}
