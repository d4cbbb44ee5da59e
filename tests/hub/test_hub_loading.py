"""Everything that is published loads from a Hub in every way, with the package and without it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from huggingface_hub import HfApi
from load_everything import outputs
from method_case import case_of, random_texts
from peft import LoraConfig, get_peft_model
from scripts import USERS, put_client_online, script_runner
from server import LoopbackHub
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder

from eventformers import build_dataset, encode
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files
from eventformers.publishing.folders import read_folder
from eventformers.reference.tables import Published, published, table

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "loading.md"
OWNER = "storms"
TEXT = "the storm flooded the city"
MENTION = "the city after [[the storm]]"
EVENT = {"subject": "police", "predicate": "arrested", "object": "the suspect"}
SENTENCES = ["the storm flooded the city", "police arrested a man", "the river flooded the road"]
PIPELINES: dict[str, tuple[Any, dict[str, Any]]] = {
    "event-embedding": ([EVENT, TEXT], {}),
    "next-event": ({"context": [EVENT, TEXT], "choices": ["the team won", EVENT]}, {}),
    "commonsense-completion": ({"head": "storm", "relation": "Causes"}, {"candidates": ["a flood", "a man"]}),
    "event-grounding": (MENTION, {"events": ["storm", "election"]}),
    "event-type-induction": (SENTENCES, {"num_clusters": 2}),
}
CHOICES = {"predictions": [[0.1, 0.9], [0.8, 0.2]], "references": [1, 1]}
SETTINGS: dict[str, dict[str, Any]] = {
    "with the package": {"hidden": [], "trust": {}},
    "without the package": {
        "hidden": ["eventformers", "torch_geometric"],
        "trust": {"trust_remote_code": True},
    },
}
LOADS = [(one, way) for one in published() for way in one.ways]
every_setting = pytest.mark.parametrize("setting", SETTINGS)

Asked = dict[str, Any]


def save_model(name: str, encoder: Path, folder: Path) -> tuple[Asked, dict[str, Any]]:
    """Write a tiny model with its adapters; what to ask of it, and what it must give."""
    case = case_of(name)
    save_grounding = {
        "event_grounding": save_tiny_bi_encoder,
        "event_grounding_cross": save_tiny_cross_encoder,
    }
    if name in save_grounding:
        save_grounding[name](encoder, folder, **case.narrow)
    else:
        torch.manual_seed(0)
        case.head_class.from_encoder(str(encoder), **case.narrow).save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
    head = case.head_class.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    input_ids, attention_mask = random_texts(3, 7, head.config.encoder_config.vocab_size, seed=4)
    asked: Asked = {
        "repository": f"{OWNER}/{name}",
        "adapter": f"{OWNER}/{name}-lora",
        "head": case.head_auto_class,
        "requires": list(case.requires),
        "text": TEXT,
        "mention": MENTION,
        "sentences": SENTENCES,
        "input_ids": input_ids.tolist(),
        "attention_mask": attention_mask.tolist(),
        "pipelines": PIPELINES,
    }
    expected: dict[str, Any] = {
        "AutoConfig": case.config_class.__name__,
        "AutoTokenizer": tokenizer(TEXT)["input_ids"],
        "AutoProcessor": head.make_processor(tokenizer)(MENTION)["input_ids"].tolist(),
    }
    for way in case.config_class.full_auto_map:
        if way.startswith("AutoModel"):
            expected[way] = outputs(getattr(transformers, way).from_pretrained(folder), asked)
    for task in case.config_class.pipelines:
        given, settings = PIPELINES[task]
        answer = transformers.pipeline(task, model=str(folder))(given, **settings)
        expected[task] = {"task": task, "answer": answer}
    expected["pipeline"] = expected[next(iter(case.config_class.pipelines))]
    write_sentence_transformers_files(head.base_model, folder, tokenizer)
    if head.config.reads_text_alone:
        expected["SentenceTransformer"] = encode(folder, SENTENCES, device="cpu").tolist()
    head.name_or_path = asked["repository"]
    torch.manual_seed(1)
    # Adapters that start at nothing would not show whether they were loaded.
    lora = LoraConfig(
        r=2,
        target_modules=case.lora_targets,
        modules_to_save=list(case.modules_to_save),
        init_lora_weights=False,
    )
    adapted = get_peft_model(head, lora).eval()
    expected["PeftModel"] = outputs(adapted.get_base_model(), asked)
    adapted.save_pretrained(folder.with_name(f"{name}-lora"), save_embedding_layers=False)
    return asked, expected


@pytest.fixture(scope="module")
def uploaded(
    tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LoopbackHub, list[Asked], dict[str, dict[str, Any]]]]:
    """A Hub with a repository of each kind; what to ask of it, and what must come."""
    root = tmp_path_factory.mktemp("published")
    asked: list[Asked] = []
    expected: dict[str, dict[str, Any]] = {}
    with LoopbackHub(USERS) as hub, pytest.MonkeyPatch.context() as patch:
        put_client_online(patch)
        api = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))

        def upload(folder: Path, name: str, kind: str, **settings: str) -> None:
            api.create_repo(f"{OWNER}/{name}", repo_type=kind, **settings)
            api.upload_folder(repo_id=f"{OWNER}/{name}", folder_path=folder, repo_type=kind)

        for one in published():
            request: Asked = {"name": one.name, "ways": one.ways, "repository": f"{OWNER}/{one.name}"}
            if one.kind == "model":
                wanted, expected[one.name] = save_model(one.name, tiny_encoder, root / one.name)
                request |= wanted
                upload(root / one.name, one.name, "model")
                upload(root / f"{one.name}-lora", f"{one.name}-lora", "model")
            elif one.kind == "dataset":
                folder = build_dataset(one.name, output=root / one.name)
                rows = pq.read_table(next(folder.glob("hard/test-*.parquet"))).to_pylist()
                expected[one.name] = {way: {"rows": len(rows), "first": rows[0]} for way in one.ways}
                request["config"] = "hard"
                upload(folder, one.name, "dataset")
            else:
                expected[one.name] = {"evaluate.load": {"accuracy": 50.0, "ties": 0, "count": 2}}
                request["inputs"] = CHOICES
                (root / one.name).mkdir()
                for path, file in read_folder(one.name).files.items():
                    shutil.copy(file, root / one.name / path)
                upload(root / one.name, one.name, "space", space_sdk="gradio")
            asked.append(request)
        yield hub, asked, expected
        assert not hub.errors, "\n".join(hub.errors)


def snippets(heading: str) -> list[str]:
    """The Python code under a heading of the page."""
    [section] = re.findall(
        rf"^## {heading}$(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def loaded(
    uploaded: tuple[LoopbackHub, list[Asked], dict[str, dict[str, Any]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, dict[str, Any]]:
    """What came in each setting, from a fresh process with an empty cache."""
    hub, asked, _ = uploaded
    script = Path(__file__).with_name("load_everything.py").read_text(encoding="utf-8")
    run = script_runner(hub, tmp_path_factory)
    headings = dict(zip(SETTINGS, ("With eventformers installed", "Without eventformers"), strict=True))
    answers = {}
    for setting, arguments in SETTINGS.items():
        folder = tmp_path_factory.mktemp("loading")
        request = {**arguments, "published": asked, "snippets": snippets(headings[setting])}
        assert request["snippets"]
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        run(script, str(folder / "request.json"), str(folder / "result.json"))
        answers[setting] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return answers


def assert_equal(found: Any, expected: Any) -> None:
    """Compare what JSON can hold; numbers up to rounding."""
    if isinstance(expected, Mapping):
        assert set(found) == set(expected), found
        for name, value in expected.items():
            assert_equal(found[name], value)
    elif isinstance(expected, (list, tuple)) and not _is_numeric(expected):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    elif _is_numeric(expected):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    else:
        assert found == expected


def _is_numeric(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_numeric, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@every_setting
@pytest.mark.parametrize(("one", "way"), LOADS, ids=[f"{one.name}-{way}" for one, way in LOADS])
def test_loads(
    uploaded: tuple[LoopbackHub, list[Asked], dict[str, dict[str, Any]]],
    loaded: dict[str, dict[str, Any]],
    one: Published,
    way: str,
    setting: str,
) -> None:
    found = loaded[setting][one.name][way]
    if isinstance(found, dict) and "error" in found:
        pytest.fail(found["error"])
    assert_equal(found, uploaded[2][one.name][way])


@pytest.mark.process
def test_adapters_change_what_comes(
    uploaded: tuple[LoopbackHub, list[Asked], dict[str, dict[str, Any]]],
) -> None:
    for asked in uploaded[1]:
        if "head" in asked:
            expected = uploaded[2][asked["name"]]
            adapted, plain = (expected[way]["embeddings"] for way in ("PeftModel", asked["head"]))
            assert not np.allclose(adapted, plain, atol=1e-3)


def test_page_has_every_load() -> None:
    rows = [line.split("|")[1:-1] for line in table("loads", REPOSITORY).splitlines()]
    assert sum(row.count(" ✓ ") for row in rows) == len(LOADS)
    assert f"\n{table('loads', REPOSITORY)}\n" in PAGE.read_text(encoding="utf-8")
