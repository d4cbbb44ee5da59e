"""The first page, and the page of neighbours: their commands and code run."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForMultipleChoice,
    AutoTokenizer,
    DataCollatorForMultipleChoice,
    Trainer,
    TrainingArguments,
    pipeline,
)

import eventformers
from eventformers.errors import UnknownNameError
from eventformers.evaluate_metrics import METRICS
from eventformers.evaluation.tasks import TASKS
from eventformers.methods import all_methods, main_methods
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files
from eventformers.reference import __main__ as readme
from eventformers.reference.docstrings import docstring_entries
from eventformers.reference.tables import results_table, table
from eventformers.trainers.recipes import list_recipes

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = readme.default_files(REPOSITORY)


def generated_parts(path: Path) -> str:
    """What stands between the comments of a file."""
    parts = path.read_text(encoding="utf-8").split(readme.END)
    return "\n".join(readme.BEGIN.split(part)[-1] for part in parts[:-1])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_tables_are_fresh(path: Path) -> None:
    text, wanted = readme.generate(path, REPOSITORY)
    assert text == wanted, "stale: run `python -m eventformers.reference`"


@pytest.fixture(scope="module")
def tables() -> str:
    return "\n".join(map(generated_parts, FILES))


def test_the_first_page_stays_short() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def names_to_mention() -> list[str]:
    recipes = [recipe for method in main_methods() for recipe in list_recipes(method)]
    classes = [
        reference.split(".")[1]
        for config_class in (method.config_class for method in all_methods().values())
        for reference in config_class.full_auto_map.values()  # type: ignore[attr-defined]
    ]
    return sorted({*eventformers.__all__, *main_methods(), *METRICS, *TASKS, *recipes, *classes})


@pytest.mark.parametrize("name", names_to_mention())
def test_the_reference_has_every_name(name: str, tables: str) -> None:
    forms = (f"`{name}`", f"`eventformers.{name}`", f"`eventformers.{name}()`")
    assert any(form in tables for form in forms)


def test_every_method_has_a_page_that_links_to_its_recipes_and_options() -> None:
    recipes = (REPOSITORY / "docs" / "reference" / "recipes.md").read_text(encoding="utf-8")
    for method in main_methods():
        page = (REPOSITORY / "docs" / f"{method}.md").read_text(encoding="utf-8")
        assert f"<!-- generated: recipes {method} -->" in recipes
        assert "](reference/recipes.md#" in page
        assert f"](reference/settings.md#model-of-{method})" in page


@pytest.mark.parametrize("method", all_methods())
def test_every_option_has_a_meaning_in_the_settings(method: str, tables: str) -> None:
    """Every field that a method's configuration adds has its meaning in the docstring."""
    section = tables.split(f"### Model of `{method}`")[1].split("\n### ")[0]
    config_class: Any = all_methods()[method].config_class
    for name in inspect.get_annotations(config_class).keys() & {field.name for field in fields(config_class)}:
        assert f"| `{name}` |" in section


def test_public_names_have_signature_arguments_returned_value_and_errors() -> None:
    page = table("api", REPOSITORY)
    assert "next_event(\n    model: " in page
    section = page[page.index("### `build_dataset`") : page.index("### `complete`")]
    assert "    config: str | Sequence[str] | None = None,\n" in section
    assert "\n) -> Path\n```" in section
    assert "- `**settings`: settings of the builder" in section
    assert "**Returns** The folder." in section
    assert "- `DataFormatError`: a raw file cannot be read; names file and line." in section
    # A place in memory would differ from run to run.
    assert " at 0x" not in page


def test_docstring_entries() -> None:
    docstring = (
        "What it is.\n\nArgs:\n    one (list of float): first,\n        still first: yes.\n    two: second.\n"
    )
    docstring += "\nReturns:\n    three: third.\n\nThe end: of it.\n    four: not in it."
    assert docstring_entries(docstring, "Args") == {"one": "first, still first: yes.", "two": "second."}
    assert docstring_entries(docstring, "Returns") == {"three": "third."}
    assert docstring_entries(docstring, "Raises") == {}


def test_a_table_of_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'event_similarity'"):
        table("columns event_similarty", REPOSITORY)
    with pytest.raises(UnknownNameError, match="generated table 'results swcc'"):
        table("results swcc", REPOSITORY)


def test_no_results_is_a_sentence(tmp_path: Path) -> None:
    assert table("results", tmp_path) == results_table([]) == "No results are committed yet."


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(f"# Page\n\n<!-- generated: tasks -->\nstale\n{readme.END}\n\nend\n", encoding="utf-8")
    return path


def test_command_checks_then_writes(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = page.read_text(encoding="utf-8")
    assert readme.main(["--check", str(page)]) == 1
    assert capsys.readouterr().err == f"stale: {page}; run `python -m eventformers.reference`\n"
    assert page.read_text(encoding="utf-8") == before
    assert readme.main([str(page)]) == 0
    after = page.read_text(encoding="utf-8")
    assert after.startswith("# Page\n\n<!-- generated: tasks -->\n| task |")
    assert after.endswith(f"|\n{readme.END}\n\nend\n")
    assert "\nstale\n" not in after
    assert readme.main(["--check", str(page)]) == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- generated: taks -->\n<!-- end of generated -->\n", "tasks"),
        ("<!-- generated: recipes swc -->\n<!-- end of generated -->\n", "swcc"),
        ("<!-- generated: tasks -->\n", "page.md, line 1"),
        ("\n<!-- end of generated -->\n", "page.md, line 2"),
        ("<!-- generated: tasks -->\n<!-- generated: tasks -->\n", "page.md, line 2"),
    ],
)
def test_bad_pages_are_told(page: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    page.write_text(text, encoding="utf-8")
    assert readme.main([str(page)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert page.read_text(encoding="utf-8") == text


def test_missing_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert readme.main([str(tmp_path / "none.md")]) == 2
    assert "cannot read" in capsys.readouterr().err


PAGE = (REPOSITORY / "docs" / "neighbours.md").read_text(encoding="utf-8")
TEXTS = ["company fires worker", "storm floods city"]


@pytest.fixture(scope="module")
def folder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model of the page."""
    place = tmp_path_factory.mktemp("neighbours")
    model = eventformers.SwccModel.from_encoder(str(tiny_encoder))
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    model.save_pretrained(place / "my-events")
    tokenizer.save_pretrained(place / "my-events")
    write_sentence_transformers_files(model, place / "my-events", tokenizer)
    return place


def snippet(heading: str) -> str:
    """The first Python block under a heading of the page."""
    found = re.search(rf"^##+ {heading}$.*?^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.process
def test_the_trainer_of_sentence_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(snippet("Fine-tuning"), names)  # noqa: S102
    tuned = names["SentenceTransformer"]("my-tuned-events").encode(TEXTS)
    np.testing.assert_allclose(tuned, names["model"].encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(tuned, eventformers.encode("my-tuned-events", TEXTS), atol=1e-5)
    assert np.abs(tuned - eventformers.encode("my-events", TEXTS)).max() > 1e-6


@pytest.mark.process
def test_setfit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("setfit")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(snippet("SetFit").replace("num_epochs=1", 'max_steps=1, report_to="none"'), names)  # noqa: S102
    assert {*names["model"].predict(TEXTS)} <= {"business", "disaster"}


def test_pykeen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pykeen")
    monkeypatch.chdir(tmp_path)
    eventformers.build_dataset("commonsense_graphs", "conceptnet", output="my-graph")
    names: dict[str, Any] = {}
    exec(snippet("PyKEEN").replace("epochs=100", 'epochs=1, device="cpu"'), names)  # noqa: S102
    assert 0 < names["result"].get_metric("mrr") < 1


def test_the_pipeline_of_features_gives_vectors(folder: Path) -> None:
    features = pipeline("feature-extraction", model=str(folder / "my-events"))(TEXTS)
    np.testing.assert_allclose(
        np.concatenate(features), eventformers.encode(folder / "my-events", TEXTS), atol=1e-5
    )


def test_a_metric_takes_batches() -> None:
    metric = evaluate.load(str(REPOSITORY / "evaluate_metrics" / "mcnc"))
    metric.add_batch(predictions=[[0.1, 0.9]], references=[1])
    metric.add(predictions=[0.8, 0.2], references=1)
    assert metric.compute()["accuracy"] == 50.0


def test_adapters_in_a_plain_trainer(tiny_encoder: Path, tmp_path: Path) -> None:
    eventformers.MicoForMultipleChoice.from_encoder(str(tiny_encoder)).save_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    premise, alternatives = "the storm hit", ["the city flooded", "a thief won"]
    rows = [{**tokenizer([premise] * 2, alternatives), "labels": label} for label in (0, 1)]
    collator = DataCollatorForMultipleChoice(tokenizer)
    model = AutoModelForMultipleChoice.from_pretrained(tmp_path / "model")
    adapters = LoraConfig(r=2, target_modules=r".*encoder\..*\.(query|value)", init_lora_weights=False)
    adapted = get_peft_model(model, adapters)
    trainer = Trainer(
        model=adapted,
        args=TrainingArguments(tmp_path, max_steps=1, report_to="none", use_cpu=True, save_strategy="no"),
        train_dataset=rows,
        data_collator=collator,
    )
    trainer.train()
    adapted.save_pretrained(tmp_path / "adapters")
    base = AutoModelForMultipleChoice.from_pretrained(tmp_path / "model")
    batch = collator(rows)
    with torch.inference_mode():
        plain = base(**batch).logits
        merged = PeftModel.from_pretrained(base, tmp_path / "adapters").merge_and_unload()(**batch).logits
        torch.testing.assert_close(merged, adapted.eval()(**batch).logits, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(plain, merged, atol=1e-4)
