"""Fine-tuning against the Hub: adapters by PEFT alone, and what a trainer pushes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from event_grounding_inputs import candidate_inputs, event_grounding_inputs
from event_type_induction_inputs import event_type_induction_inputs
from heterevent_inputs import heterevent_inputs
from huggingface_hub import HfApi
from mico_inputs import mico_inputs
from safetensors.torch import save_file
from scripts import RunScript
from server import LoopbackHub
from swcc_inputs import swcc_inputs
from tiny import sharpen_attention
from transformers import AutoTokenizer

from eventformers.methods import all_methods, load_method
from eventformers.reference.tables import lora_snippet
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.stages import stage_recipes

PICKLED = (".bin", ".pkl", ".pickle", ".pt", ".pth")
SMALL = {
    "heterevent": {"event_dim": 6, "chain_dim": 10, "projection_dim": None},
}
"""Fields that make the head of a default recipe small."""

ADAPT = """
import json, re, sys, warnings
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

folder = Path(sys.argv[1])
told = {}
for name, code in json.loads((folder / "snippets.json").read_text()).items():
    source = folder / name
    auto_class = getattr(transformers, re.search(r"transformers import (\\w+)", code)[1])
    import eventformers
    auto_class.from_pretrained(source).push_to_hub(f"alice/{name}")
    names = {}
    exec(code.replace("my-org/my-model", f"alice/{name}"), names)
    model = names["model"].train()
    inputs = load_file(folder / f"{name}.safetensors")
    started = {key: value.clone() for key, value in model.named_parameters()}
    optimizer = torch.optim.SGD([value for value in model.parameters() if value.requires_grad], lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        model(**inputs).loss.backward()
        optimizer.step()
    with torch.no_grad():
        loss = model.eval()(**inputs).loss
    model.push_to_hub(f"alice/{name}-lora")
    told[name] = {
        "loss": loss.item(),
        "unchanged": [
            key for key, value in model.named_parameters()
            if value.requires_grad and torch.equal(value, started[key])
        ],
        "moved": [
            key for key, value in model.named_parameters()
            if not value.requires_grad and not torch.equal(value, started[key])
        ],
        "trained": sum(value.requires_grad for value in model.parameters()),
    }
print(json.dumps(told))
"""

LOAD = """
import json, re, sys
from pathlib import Path

sys.modules["eventformers"] = None
import torch
import transformers
from peft import PeftModel
from safetensors.torch import load_file

folder = Path(sys.argv[1])
told = {}
for name, code in json.loads((folder / "snippets.json").read_text()).items():
    auto_class = getattr(transformers, re.search(r"transformers import (\\w+)", code)[1])
    inputs = load_file(folder / f"{name}.safetensors")
    base = auto_class.from_pretrained(f"alice/{name}", trust_remote_code=True)
    with torch.no_grad():
        losses = [base(**inputs).loss]
        model = PeftModel.from_pretrained(base, f"alice/{name}-lora")
        losses.append(model(**inputs).loss)
        losses.append(model.merge_and_unload()(**inputs).loss)
        named = auto_class.from_pretrained(f"alice/{name}-lora", trust_remote_code=True)
        losses.append(named(**inputs).loss)
    told[name] = [loss.item() for loss in losses]
print(json.dumps(told))
"""

PUSH = """
import json, sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer, set_seed

import eventformers
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer

folder = Path(sys.argv[1])
inputs = load_file(folder / "swcc.safetensors")
rows = [{key: value[row] for key, value in inputs.items()} for row in range(6)]
for each in (AutoModel, AutoTokenizer):
    each.from_pretrained(sys.argv[2]).push_to_hub("alice/encoder")
told = {}
for name, strategy, lora in (
    ("saves", "every_save", False),
    ("states", "checkpoint", False),
    ("end", "end", False),
    ("adapted", "every_save", True),
    ("alone", None, True),
):
    set_seed(1)
    model = AutoModelForPreTraining.from_pretrained(folder / "swcc").train()
    if lora:
        adapters = LoraConfig(target_modules=r".*\\.(query|value)", modules_to_save=["prototypes"])
        model = get_peft_model(model, adapters)
    trainer = EventTrainer(
        model=model,
        args=EventTrainingArguments(
            output_dir=folder / "runs" / name,
            push_to_hub=strategy is not None,
            hub_model_id=f"alice/{name}",
            hub_strategy=strategy or "every_save",
            max_steps=2,
            save_steps=1,
            save_total_limit=1,
            per_device_train_batch_size=3,
            learning_rate=1e-2,
            report_to="none",
            remove_unused_columns=False,
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(folder / "swcc"),
        card_fields={"base_model": "alice/encoder"},
    )
    trainer.train()
    with torch.no_grad():
        ended = trainer.model.eval()(**inputs).loss.item()
    if strategy is None:
        told[name] = [ended, ended, ended]
        continue
    if name == "end":
        trainer.push_to_hub()
    if name == "adapted":
        # Without a change there would be no commit.
        next(trainer.model.parameters()).data.add_(0.1)
        trainer.push_to_hub("In the background", blocking=False).result()
    with torch.no_grad():
        trained = trainer.model.eval()(**inputs).loss.item()
        pushed = AutoModelForPreTraining.from_pretrained(f"alice/{name}").eval()(**inputs).loss.item()
    told[name] = [ended, trained, pushed]
scored = eventformers.evaluate("alice/saves", "hard_similarity")
told["scored"] = [scored.seed, scored.baseline and scored.baseline.model]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """A tiny head of every method as its default recipe has it, inputs, and the lines of the reference."""
    folder = tmp_path_factory.mktemp("heads")
    snippets = {}
    for name in all_methods():
        method = load_method(name)
        recipe = load_recipe(method.recipe_folder, method.default_recipe)
        torch.manual_seed(0)
        head = method.head_class.from_encoder(
            str(tiny_encoder), **{**stage_recipes(recipe)[-1].model, **SMALL.get(name, {})}
        )
        AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder / name)
        sharpen_attention(head)
        head.save_pretrained(folder / name)
        inputs = head_inputs(name, head)
        save_file({key: value.contiguous() for key, value in inputs.items()}, folder / f"{name}.safetensors")
        snippets[name] = lora_snippet(name).removeprefix("```python\n").removesuffix("```")
    (folder / "snippets.json").write_text(json.dumps(snippets), encoding="utf-8")
    return folder


def head_inputs(name: str, head: Any) -> dict[str, torch.Tensor]:
    """Inputs of a method's head."""
    encoder = head.config.encoder_config
    if name == "event_type_induction":
        return event_type_induction_inputs(encoder.vocab_size, encoder.hidden_size)
    return {
        "swcc": swcc_inputs,
        "mico": mico_inputs,
        "heterevent": heterevent_inputs,
        "event_grounding": event_grounding_inputs,
        "event_grounding_cross": candidate_inputs,
    }[name](encoder.vocab_size)


def test_adapters_by_peft_alone(hub: LoopbackHub, heads: Path, run_script: RunScript) -> None:
    """Trained with our package, loaded and merged without it; base and adapters come from the Hub."""
    trained = json.loads(run_script(ADAPT, str(heads)).stdout.splitlines()[-1])
    loaded = json.loads(run_script(LOAD, str(heads)).stdout.splitlines()[-1])
    for name in all_methods():
        assert trained[name]["trained"] > 0, name
        assert not trained[name]["unchanged"], name
        assert not trained[name]["moved"], name
        base, *others = loaded[name]
        assert base != pytest.approx(trained[name]["loss"], rel=1e-4), name
        assert others == pytest.approx([trained[name]["loss"]] * 3, rel=1e-4), name


def test_what_a_trainer_pushes(
    hub: LoopbackHub, heads: Path, tiny_encoder: Path, run_script: RunScript
) -> None:
    """Every revision is a whole repository, which names its start; nothing in it is pickled."""
    process = run_script(PUSH, str(heads), str(tiny_encoder))
    told = json.loads(process.stdout.splitlines()[-1])
    # The untrained score of a model from the Hub needs its start encoder.
    assert told.pop("scored") == [42, "alice/encoder"]
    for _ended, trained, pushed in told.values():
        assert pushed == pytest.approx(trained, rel=1e-4)
    # A push between two steps is none of the training's business.
    assert told["adapted"][0] == told["alone"][0]
    api = HfApi(endpoint=hub.endpoint, token=hub.token_of("alice"))
    steps = ["Training in progress, step 1", "Training in progress, step 2"]
    for name, titles in (
        ("saves", steps),
        ("states", steps),
        ("end", ["End of training"]),
        ("adapted", [*steps, "In the background"]),
    ):
        *commits, _first = api.list_repo_commits(f"alice/{name}")
        assert [commit.title for commit in reversed(commits)] == titles
        for commit in commits:
            files = set(api.list_repo_files(f"alice/{name}", revision=commit.commit_id))
            assert {
                *("README.md", "config.json", "model.safetensors", "tokenizer.json", "training_args.json"),
                *("configuration_swcc.py", "modeling_swcc.py", "modeling_base.py", "event_losses.py"),
            } <= files
            assert not [path for path in files if path.endswith(PICKLED) or "checkpoint" in path]
            assert not [path for path in files if "adapter" in path]
    card = api.hf_hub_download("alice/saves", "README.md", local_dir=heads / "card")
    text = Path(card).read_text(encoding="utf-8")
    assert "alice/saves" in text
    assert str(heads) not in text
    assert process.stderr.count("the optimizer state is pickled and stays in") == 1
