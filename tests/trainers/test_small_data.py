"""Small data, and losses and weights that are not finite."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from forked import run_python
from safetensors.torch import load_file, save_file
from short_runs import short_run
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset

from eventformers.errors import EventformersError
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer
from eventformers.trainers.method import TrainingData
from eventformers.trainers.stage_training import _run_steps, fit_batch_size
from eventformers.training import train

WORDS = ["police", "storm", "bank", "doctor", "court", "jury", "team", "player", "goal", "market"]
VERBS = ["hit", "saved", "fired", "hired", "sold", "built", "closed", "opened"]
QUICK = ("max_steps=2", "per_device_train_batch_size=64")


class _Rows(TorchDataset):
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows


class _Stream(IterableDataset):
    def __iter__(self) -> Iterator[object]:
        return iter(())


class _Collator:
    epoch = 0
    truncated = 0

    def __call__(self, rows: object) -> dict[str, torch.Tensor]:
        return {}


def _fitted(rows: int | None, batch: int, *, processes: int = 1, least_rows: int = 2) -> int:
    arguments = EventTrainingArguments(use_cpu=True, per_device_train_batch_size=batch, max_steps=1)
    arguments.distributed_state.num_processes = processes
    try:
        train = _Stream() if rows is None else _Rows(rows)
        fit_batch_size(arguments, TrainingData(train, None, _Collator(), least_rows=least_rows))
    finally:
        arguments.distributed_state.num_processes = 1
    return arguments.per_device_train_batch_size


def test_a_batch_is_no_larger_than_the_data(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="eventformers"):
        assert _fitted(20, 64) == 20
        assert _fitted(21, 64, processes=2) == 10
    assert [record.getMessage() for record in caplog.records] == [
        "training data has 20 rows but the batch size is 64; lowering it to 20",
        "training data has 21 rows but the batch size is 128; lowering it to 20",
    ]


def test_a_batch_that_fits_stays(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="eventformers"):
        assert _fitted(64, 64) == 64
        assert _fitted(200, 64, processes=2) == 64
        assert _fitted(1, 1, least_rows=1) == 1
        # Nothing is known of this stream's rows.
        assert _fitted(None, 64) == 64
    assert not caplog.records


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(EventformersError, match=r"found 1 training row; accepted: 2 or more"):
        _fitted(1, 64)
    with pytest.raises(EventformersError, match=r"found 1 training rows for 2 processes"):
        _fitted(1, 64, processes=2, least_rows=1)


def test_no_step_is_no_success() -> None:
    trainer = SimpleNamespace(train=lambda **_: None, state=SimpleNamespace(global_step=0))
    with pytest.raises(EventformersError, match="the training run had no steps"):
        _run_steps(trainer, None)  # type: ignore[arg-type]


def test_a_loss_of_0_at_every_step_is_no_success() -> None:
    with pytest.raises(EventformersError, match="the training loss is 0 at every step"):
        EventTrainer.log(_logging_trainer(), {"train_loss": 0.0})


def _logging_trainer() -> EventTrainer:
    trainer = EventTrainer(
        model=torch.nn.Linear(1, 1), args=EventTrainingArguments(use_cpu=True, report_to="none")
    )
    trainer.callback_handler.callbacks.clear()
    return trainer


def _texts(folder: Path, rows: int) -> Path:
    folder.mkdir(exist_ok=True)
    documents = [
        {"events": [[WORDS[i % 10], VERBS[i % 8], ""], [WORDS[(i + 3) % 10], VERBS[(i + 1) % 8], ""]]}
        for i in range(rows)
    ]
    (folder / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    return folder


def _triples(folder: Path, rows: int) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [f"IsA\t{WORDS[i % 10]}\t{WORDS[(i + 3) % 10]}\n" for i in range(rows)]
    (folder / "train.txt").write_text("".join(lines))
    for name in ("valid.txt", "test.txt"):
        (folder / name).write_text("IsA\tbank\tgoal\n")
    return folder


def _chains(folder: Path, rows: int) -> Path:
    folder.mkdir(exist_ok=True)
    chains = [
        {
            "document_id": f"d{i}",
            "chain_id": "0",
            "protagonist": WORDS[i % 10],
            "events": [[WORDS[i % 10], VERBS[(i + k) % 8], WORDS[(3 * i + k) % 10]] for k in range(6)],
        }
        for i in range(rows)
    ]
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chains))
    return folder


SMALL: dict[str, tuple[Callable[[Path, int], Path], tuple[str, ...]]] = {
    "swcc": (_texts, ("shared_word_weight=0", "validation_rows=1", "gradient_accumulation_steps=3")),
    "mico": (_triples, ("config=conceptnet_pairs", "validation_rows=2")),
    "heterevent": (_chains, ("validation_share=0", "test_share=0")),
}


@pytest.mark.parametrize("method", SMALL)
def test_few_rows_train(method: str, tiny_encoder: Path, tmp_path: Path) -> None:
    """With validation rows, gradient accumulation, and three stages."""
    write, settings = SMALL[method]
    data = str(write(tmp_path / "data", 3))
    run = short_run(method, tiny_encoder, tmp_path / "run", *settings, *QUICK, seed=1, data=data)
    assert [stage.steps for stage in run.stages] == [2] * len(run.stages)
    assert run.arguments.per_device_train_batch_size <= 6


def test_a_stream_of_few_rows_trains(tiny_encoder: Path, tmp_path: Path) -> None:
    data = str(_texts(tmp_path / "data", 3))
    settings = ["shared_word_weight=0", "streaming=true", *QUICK]
    run = short_run("swcc", tiny_encoder, tmp_path / "run", *settings, seed=1, data=data)
    assert (run.steps, run.arguments.per_device_train_batch_size) == (2, 6)
    with pytest.raises(EventformersError, match=r"streaming=true needs max_steps.* max_steps of 1 or more"):
        short_run("swcc", tiny_encoder, tmp_path / "endless", *settings, "max_steps=-1", data=data)


def test_of_unreadable_training_data_one_line_tells(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The warning about data without rows to score does not precede the error."""
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(EventformersError, match="found an empty file"):
        train("swcc", tmp_path / "run", recipe="demo", data=empty, device="cpu")
    assert not caplog.messages
    assert not (tmp_path / "run").exists()


def test_a_text_longer_than_the_encoder_reads_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="max_seq_length: found 65; accepted: 64 or less"):
        short_run("mico", tiny_encoder, tmp_path / "run", "max_seq_length=65", *QUICK)


LAUNCH = """
import sys
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from eventformers.cli import main

def run():
    try:
        main(sys.argv[1:])
    except SystemExit as ended:
        assert not ended.code

settings = {"rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0", "start_method": "fork"}
elastic_launch(LaunchConfig(1, 1, 2, monitor_interval=0.1, **settings), run)()
"""
"""What `torchrun --standalone --nproc-per-node 2 -m eventformers.cli` does, with processes that are forks."""


def test_two_processes_share_few_rows(tiny_encoder: Path, tmp_path: Path) -> None:
    """Three rows are one for each process and batch."""
    data = _texts(tmp_path / "data", 2)
    arguments = ["train", "swcc", "--recipe", "demo", "--data", data, "--encoder", tiny_encoder, "--no-card"]
    arguments += ["--device", "cpu", "--set", "shared_word_weight=0", "-o", tmp_path / "run"]
    arguments += [part for setting in (*QUICK, "validation_rows=1") for part in ("--set", setting)]
    finished = run_python(["-c", LAUNCH, *map(str, arguments)], cwd=tmp_path, server="package")
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert "2 steps" in finished.stdout
    assert finished.stderr.count("training data has 3 rows but the batch size is 128; lowering it to 2") == 1


RECIPE = Path(__file__).with_name("quick_swcc.yaml")


def _train(encoder: Path, output: Path, *settings: str) -> None:
    train("swcc", output, recipe=str(RECIPE), encoder=str(encoder), settings=settings, seed=1, device="cpu")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_encoder_without_finite_weights_is_refused(
    tiny_encoder: Path, tmp_path: Path, value: float
) -> None:
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, encoder)
    weights = load_file(encoder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][3, :2] = value
    save_file(weights, encoder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EventformersError, match=r"2 numbers in .*word_embeddings.* accepted: finite"):
        _train(encoder, tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("logging_steps", [1, 100])
def test_a_loss_that_is_no_number_ends_the_run(
    tiny_encoder: Path, tmp_path: Path, logging_steps: int
) -> None:
    """Told at the next line of the log, at the latest at the end."""
    settings = ("learning_rate=1e38", "warmup_steps=0", "max_steps=4", f"logging_steps={logging_steps}")
    with pytest.raises(EventformersError, match=r"the training loss is (nan|inf) at step \d"):
        _train(tiny_encoder, tmp_path / "run", *settings)
    assert not (tmp_path / "run" / "model.safetensors").exists()
