"""Damaged model folders, on every way to load that is this suite's own.

A damage either touches nothing that matters, so that the vectors stay what they were, or is refused in one
line. Numbers that change to other finite numbers of the same shape, and words that change to other words,
cannot be known without a digest of the undamaged files: such results are counted apart, in the name of the
part.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from pyarrow import parquet
from safetensors.torch import load_file, save_file
from tests.robustness.tally import HangError, Tally, time_limit
from tiny import save_tiny_bi_encoder, save_tiny_cross_encoder, save_tiny_encoder

import eventformers
from eventformers.errors import EventformersError
from eventformers.hub_verification import _SHOW
from eventformers.inference.event_files import embed_file
from eventformers.inference.loading import load_config
from eventformers.inference.pair_scoring import PairScores, load_cross_encoder
from eventformers.inference.tokenizer_loading import load_tokenizer
from eventformers.models.grounding_tokens import EventText, MentionText
from eventformers.plot import _load_prototypes
from eventformers.trainers.method import load_method
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.stage_training import _build_head, _continue_head

SECONDS_OF_A_TRY = 30.0
_LONGEST_MESSAGE = 1_500
TEXTS = ["storm flooded city", "police arrested man", "the court sentenced a thief"]
EVENT = {"subject": "police", "predicate": "arrested", "object": "man"}
MENTIONS = [
    {"text": f"the police {verb} a man", "trigger_start": 11, "trigger_end": 11 + len(verb)}
    for verb in ("arrested", "saved", "rescued", "hit")
]
GRAPH = {"premise": ["storm hit city", "man lost house"], "alternative": ["city burned", "man won car"]}

Way = Callable[[Path], Any]
Damage = Callable[[Path, Random], bool]
"""Changes a folder; true if a result that differs from that of the undamaged folder is a finding."""


# Ways to load. Each gives numbers, the same for the same model.


def _encode(folder: Path) -> Any:
    return eventformers.encode(folder, [*TEXTS, EVENT], device="cpu")


def _embed(folder: Path) -> Any:
    texts = folder.with_name("texts.txt")
    texts.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    target = folder.with_name("vectors.parquet")
    embed_file(folder, texts, target, device="cpu")
    return np.stack(parquet.read_table(target)["embedding"].to_pylist())


def _evaluate(folder: Path) -> Any:
    result = eventformers.evaluate(folder, "hard_similarity", device="cpu", baseline_encoder=False)
    return [result.main_value]


def _start(folder: Path) -> Any:
    """What `train --encoder` loads: the head over the encoder, and the tokenizer."""
    torch.manual_seed(0)
    head = _build_head(load_method("swcc"), str(folder), load_recipe("swcc", "demo"))
    ids = load_tokenizer(str(folder), load_config(str(folder)))(TEXTS[0])["input_ids"]
    with torch.inference_mode():
        return head.base_model.eval()(torch.tensor([ids])).embeddings.numpy()


def _next_event(folder: Path) -> Any:
    found = eventformers.next_event(folder, [EVENT], candidates=TEXTS, device="cpu")
    return [one.score for one in sorted(found.candidates, key=lambda one: one.text)]


def _complete(folder: Path) -> Any:
    index = folder.with_name("index")
    shutil.rmtree(index, ignore_errors=True)
    found = eventformers.complete(
        folder, "storm hit city", data={"train": Dataset.from_dict(GRAPH)}, index=index, device="cpu"
    )
    return sorted(one.score for one in found.alternatives)


def _induce(folder: Path) -> Any:
    return eventformers.induce(folder, MENTIONS, num_clusters=2, device="cpu").vectors


def _ground(folder: Path) -> Any:
    return _grounded(folder, None)


def _rerank(folder: Path) -> Any:
    return _grounded(undamaged("event_grounding"), folder)


def _grounded(model: Path, reranker: Path | None) -> Any:
    found = eventformers.ground(
        model, ["a [[storm]] flooded the city"], _knowledge_base(), reranker=reranker, device="cpu"
    )
    return sorted(one.score for mention in found.mentions for one in mention.candidates)


def _pairs(folder: Path) -> Any:
    scores = PairScores(
        load_cross_encoder(folder, device="cpu"),
        [MentionText("a ", "storm", " flooded the city")],
        [EventText("storm", "it flooded the city")],
    )
    return scores(np.array([0]), np.array([0]))


def _plot(folder: Path) -> Any:
    return _load_prototypes(str(folder))


def _verify(folder: Path) -> Any:
    asked = {"kind": "model", "source": str(folder), "revision": None, "configs": []}
    return _SHOW["model"](asked)["output"]


def _continue(kind: str) -> Way:
    def load(folder: Path) -> Any:
        head = _continue_head(load_method(kind), folder, load_recipe(kind, "demo"))
        return [float(value.double().sum()) for value in head.base_model.state_dict().values()]

    return load


def _pipeline(folder: Path) -> Any:
    try:
        pipe = transformers.pipeline("event-embedding", model=str(folder), device="cpu")
    except Exception as error:
        # What transformers raises before our pipeline has a model is not ours.
        raise EventformersError(" ".join(str(error).split())[:200] or "refused") from error
    return pipe(TEXTS)


KINDS: dict[str, dict[str, Way]] = {
    "encoder": {
        "encode": _encode,
        "embed": _embed,
        "evaluate": _evaluate,
        "train --encoder": _start,
        "next-event": _next_event,
        "complete": _complete,
        "induce": _induce,
        "ground --model": _ground,
        "push": _verify,
    },
    "swcc": {
        "encode": _encode,
        "embed": _embed,
        "evaluate": _evaluate,
        "train --encoder": _start,
        "next stage": _continue("swcc"),
        "next-event": _next_event,
        "plot": _plot,
        "push": _verify,
        "pipeline": _pipeline,
    },
    "mico": {"encode": _encode, "complete": _complete, "push": _verify, "pipeline": _pipeline},
    "heterevent": {
        "encode": _encode,
        "next-event": _next_event,
        "evaluate": _evaluate,
        "push": _verify,
        "pipeline": _pipeline,
    },
    "event_type_induction": {
        "encode": _encode,
        "induce": _induce,
        "push": _verify,
        "pipeline": _pipeline,
    },
    "event_grounding": {
        "encode": _encode,
        "ground --model": _ground,
        "push": _verify,
        "pipeline": _pipeline,
    },
    "event_grounding_cross": {"ground --reranker": _rerank, "cross-encoder": _pairs, "push": _verify},
}
"""The ways to load a model of each kind."""


# Undamaged folders.


@cache
def _root() -> Path:
    return Path(tempfile.mkdtemp(prefix="robustness-folders-"))


@cache
def undamaged(kind: str) -> Path:
    folder = _root() / kind
    if kind == "encoder":
        save_tiny_encoder(folder)
        # One file of the vocabulary, as most models have.
        (folder / "vocab.txt").unlink()
    elif kind == "event_grounding":
        save_tiny_bi_encoder(undamaged("encoder"), folder)
    elif kind == "event_grounding_cross":
        save_tiny_cross_encoder(undamaged("encoder"), folder)
    else:
        method = load_method(kind)
        fields = {"event_dim": 16, "chain_dim": 24} if kind == "heterevent" else {"projection_dim": 16}
        torch.manual_seed(0)
        method.head_class.from_encoder(str(undamaged("encoder")), **fields).save_pretrained(folder)
        for file in undamaged("encoder").glob("tokenizer*"):
            shutil.copy(file, folder)
    (folder / "README.md").write_text("# A model\n", encoding="utf-8")
    return folder


@cache
def expected_numbers(kind: str, way: str) -> Any:
    return np.asarray(KINDS[kind][way](undamaged(kind)), dtype=float)


@cache
def _knowledge_base() -> Path:
    folder = _root() / "knowledge"
    folder.mkdir()
    rows = [
        {"label_id": str(place), "label_title": title, "label_desc": text, "label_lang": "en"}
        for place, (title, text) in enumerate([("storm", "it flooded the city"), ("trial", "a court")], 1)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


# Damages.


def _file(folder: Path, random: Random) -> Path:
    return random.choice(sorted(path for path in folder.iterdir() if path.suffix != ".py"))


def flip_bits(folder: Path, random: Random) -> bool:
    """Flip bits of one file; of weights in the header, which is what can be known."""
    path = _file(folder, random)
    data = bytearray(path.read_bytes())
    end = len(data)
    if path.suffix == ".safetensors":
        end = 8 + int.from_bytes(data[:8], "little")
    for _ in range(random.randint(1, 8)):
        data[random.randrange(end)] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return False


def truncate(folder: Path, random: Random) -> bool:
    """Keep the beginning of one file."""
    path = _file(folder, random)
    data = path.read_bytes()
    path.write_bytes(data[: random.choice((0, 1, random.randrange(len(data)), len(data) - 1))])
    return False


def replace_file(folder: Path, random: Random) -> bool:
    """Put bytes of another kind in place of one file, or a folder, a link or nothing."""
    path = _file(folder, random)
    path.unlink()
    kind = random.choice(("nothing", "folder", "link", "bytes", "null", "list", "pickle"))
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(folder / "nowhere")
    elif kind != "nothing":
        content = {"bytes": random.randbytes(300), "null": b"null", "list": b"[]", "pickle": b"\x80\x02}."}
        path.write_bytes(content[kind])
    # Without its settings a tokenizer may still be the same.
    return path.name not in ("tokenizer_config.json", "README.md")


_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 10**6, 10**12, 0.5, -0.5, 1e30, float("nan"), "", "x", "../x"),
    *("cls", "float99", "bert", [], ["x"], [1, 2], {}, {"a": {}}, {"a": None}, {"model_type": "t5"}),
)


def set_entry(folder: Path, random: Random) -> bool:
    """Set one entry of a JSON file, wherever it stands, to a value of any kind."""
    path = random.choice([folder / name for name in ("config.json", "config.json", "tokenizer_config.json")])
    content = json.loads(path.read_text(encoding="utf-8"))
    places = [content, *(value for value in content.values() if isinstance(value, dict))]
    place = random.choice(places)
    keys = [*place, "dtype", "torch_dtype", "auto_map", "model_type", "text_config", "vocab_size"]
    place[random.choice(keys)] = random.choice(_VALUES)
    path.write_text(json.dumps(content), encoding="utf-8")
    return False


def set_tokenizer_entry(folder: Path, random: Random) -> bool:
    """Set or remove one entry of the tokenizer, at its top or within one part."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    place = random.choice([content, *(value for value in content.values() if isinstance(value, dict))])
    key = random.choice(sorted(place))
    if random.random() < 0.3:
        del place[key]
    else:
        place[key] = random.choice(_VALUES)
    path.write_text(json.dumps(content), encoding="utf-8")
    return False


def other_vocabulary(folder: Path, random: Random) -> bool:
    """Remove the words, most words or the file, or add words beyond the embeddings."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    words: dict[str, int] = content["model"]["vocab"]
    kind = random.choice(("none", "few", "more", "file"))
    if kind == "file":
        path.unlink()
        return True
    if kind == "more":
        words.update({f"word{number}": len(words) + number for number in range(random.choice((1, 9_000)))})
    else:
        keep = 5 if kind == "none" else random.randrange(6, len(words) * 8 // 10)
        content["model"]["vocab"] = {word: code for word, code in words.items() if code < keep}
    # Markers that a method added stand behind the words, and stay.
    path.write_text(json.dumps(content), encoding="utf-8")
    return True


def change_weights(folder: Path, random: Random) -> bool:
    """Remove, add, recast, reshape or fill tensors."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = random.choice(sorted(weights))
    one = weights[name]
    kind = random.choice(("remove", "add", "recast", "reshape", "fill", "foreign", "head", "none"))
    if kind == "remove":
        del weights[name]
    elif kind == "add":
        weights[f"extra.{name}"] = one.clone()
    elif kind == "recast":
        weights[name] = one.to(random.choice((torch.int8, torch.int64, torch.bool, torch.complex64)))
    elif kind == "reshape":
        weights[name] = one.flatten()[: random.choice((0, 1, one.numel() - 1))].clone()
    elif kind == "fill":
        one.view(-1)[random.randrange(one.numel())] = random.choice((float("nan"), float("inf")))
    elif kind == "foreign":
        weights = {"weight": torch.zeros(3, 3)}
    elif kind == "head":
        weights = {f"other.{key}": value for key, value in weights.items()}
    else:
        weights = {}
    save_file(weights, path, metadata={"format": "pt"})
    return True


def shard(folder: Path, random: Random) -> bool:
    """Move the weights into a file that an index names: in the folder, outside of it, or nowhere."""
    path = folder / "model.safetensors"
    names = list(load_file(path))
    file = random.choice(("part.safetensors", "../outside.safetensors", "/etc/passwd", "a/b.safetensors", 7))
    outside = folder.with_name("outside.safetensors")
    outside.unlink(missing_ok=True)
    if file == "part.safetensors":
        path.rename(folder / file)
    else:
        path.rename(outside)
    index: Any = {"metadata": {}, "weight_map": dict.fromkeys(names, file)}
    if random.random() < 0.2:
        index = random.choice((None, [], {}, {"weight_map": None}, {"weight_map": {"a": None}}))
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return True


def nest(folder: Path, random: Random) -> bool:
    """Nest a JSON file deeper than any reader goes."""
    path = random.choice(sorted(folder.glob("*.json")))
    depth = random.choice((2_000, 100_000))
    path.write_text('{"a":' * depth + "1" + "}" * depth, encoding="utf-8")
    return path.name != "tokenizer_config.json"


def name_adapters(folder: Path, random: Random) -> bool:
    """Add adapters whose base model is elsewhere."""
    base = random.choice(("../encoder", str(undamaged("encoder")), "", None))
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    return True


def fewer_layers(folder: Path, random: Random) -> bool:
    """Let the configuration have other layers than the weights."""
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content.get("text_config", content)["num_hidden_layers"] = random.choice((0, 1, 3, -1, 10**6))
    path.write_text(json.dumps(content), encoding="utf-8")
    return True


DAMAGES: tuple[Damage, ...] = (
    *(flip_bits, truncate, replace_file, set_entry, set_entry, set_tokenizer_entry, other_vocabulary),
    *(change_weights, change_weights, shard, nest, name_adapters, fewer_layers),
)


LOADED_BY_TRANSFORMERS = {"pipeline"}
"""Ways whose model transformers loads: it tells of weights that are missing or of no use, and goes on."""

DAMAGES_OF_LOADING = (change_weights, shard, name_adapters, fewer_layers)
"""Damages that only the code that loads a model can know."""


@dataclass
class Outcome:
    """How one way to load a damaged folder ended: `worked`, `other`, `refused`, or the finding."""

    kind: str
    finding: str = ""


def try_way(kind: str, way: str, folder: Path, knowable: bool, load: Way | None = None) -> Outcome:
    """Load a damaged folder.

    Args:
        kind: kind of the model.
        way: the way to load.
        folder: the folder.
        knowable: whether another result than that of the undamaged folder is a finding.
        load: loads it; None takes the kind's way.
    """
    expected = expected_numbers(kind, way)
    try:
        with warnings.catch_warnings(), time_limit(SECONDS_OF_A_TRY):
            warnings.simplefilter("ignore")
            found = np.asarray((load or KINDS[kind][way])(folder), dtype=float)
    except EventformersError as error:
        message = str(error)
        if "\n" in message or len(message) > _LONGEST_MESSAGE:
            return Outcome("finding", f"a message of {len(message)} characters: {message[:200]!r}")
        return Outcome("refused")
    except HangError as error:
        return Outcome("finding", f"hang: {error}")
    except Exception as error:
        return Outcome("finding", f"{type(error).__name__}: {str(error)[:300]}")
    if not np.isfinite(found).all():
        return Outcome("finding", "numbers that are not finite")
    if found.shape == expected.shape and np.allclose(found, expected, rtol=0, atol=1e-4):
        return Outcome("worked")
    return Outcome("finding", "other numbers") if knowable else Outcome("other")


def damaged(kind: str, target: Path, random: Random, damage: Damage | None = None) -> tuple[Damage, bool]:
    """Copy a folder of a kind and damage it.

    Args:
        kind: kind of the model.
        target: the copy; what is there is replaced.
        random: decides.
        damage: the damage; None draws one.

    Returns:
        The damage, and whether another result is a finding.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(undamaged(kind), target)
    drawn = random.choice(DAMAGES) if damage is None else damage
    return drawn, drawn(target, random)


def run(cases: int, seed: int) -> Iterator[Tally]:
    """Load `cases` damaged folders on every way of their kind."""
    tallies: dict[str, Tally] = {}
    others: dict[str, int] = {}
    kinds = list(KINDS)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("eventformers").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="robustness-damaged-") as scratch:
        for number in range(cases):
            kind = kinds[number % len(kinds)]
            for way in KINDS[kind]:
                folder = Path(scratch) / f"{number}" / "model"
                random = Random(f"{seed} {number}")  # noqa: S311, no secret
                damage, knowable = damaged(kind, folder, random)
                if way in LOADED_BY_TRANSFORMERS and damage in DAMAGES_OF_LOADING:
                    continue
                outcome = try_way(kind, way, folder, knowable)
                tally = tallies.setdefault(way, Tally(way))
                tally.tries += 1
                tally.worked += outcome.kind in ("worked", "other")
                tally.refused += outcome.kind == "refused"
                others[way] = others.get(way, 0) + (outcome.kind == "other")
                if outcome.finding:
                    tally.findings.append(
                        f"seed {seed}, folder {number}, {kind}, {damage.__name__}: {outcome.finding}"
                    )
            shutil.rmtree(Path(scratch) / f"{number}", ignore_errors=True)
    for way, tally in tallies.items():
        tally.part = f"{way} ({others[way]} with other finite numbers)" if others[way] else way
        yield tally
