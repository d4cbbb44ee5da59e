"""Two processes with shares of a batch equal one process with all of it."""

from __future__ import annotations

from pathlib import Path

import process_shares
import torch
from forked import run_group
from heterevent_inputs import EVENT_NAMES, EVENTS, heterevent_inputs, make_head
from safetensors.torch import load_file, save_file

HEAD = "eventformers.models.modeling_heterevent:HeterEventForPreTraining"
OF_CHAINS = ("chains", "target_events", "target_position", "event_keys", "word_keys")


def _share(inputs: dict[str, torch.Tensor], chains: list[int], others: list[int]) -> dict[str, torch.Tensor]:
    """Some chains with their events, and other events, all with numbers of their own."""
    used = set(inputs["chains"][chains].flatten().tolist()) | set(inputs["target_events"][chains].tolist())
    events = sorted((used | set(others)) - {-1}, reverse=True)
    place = torch.full((EVENTS + 1,), -1)
    place[events] = torch.arange(len(events))
    # -1 looks at the last place, which stays -1.
    numbers = torch.randperm(len(inputs["word_keys"]), generator=torch.Generator().manual_seed(len(events)))
    words = inputs["word_index"][events]
    word_keys = torch.empty_like(inputs["word_keys"])
    word_keys[numbers] = inputs["word_keys"]
    return {
        **{name: inputs[name][events] for name in EVENT_NAMES},
        "word_index": torch.where(words >= 0, numbers[words], words),
        "chains": place[inputs["chains"][chains]],
        "target_events": place[inputs["target_events"][chains]],
        "target_position": inputs["target_position"][chains],
        "event_keys": inputs["event_keys"][events],
        "word_keys": word_keys,
    }


def test_supervised_stage(tiny_encoder_without_dropout: Path, tmp_path: Path) -> None:
    """Negatives of all processes, events and words that several processes have only once."""
    heads = {
        predict_from: make_head(tiny_encoder_without_dropout, stage="supervised", predict_from=predict_from)
        for predict_from in ("mean", "neighbours")
    }
    for name, head in heads.items():
        head.save_pretrained(tmp_path / f"head_{name}")
    names = EVENT_NAMES + OF_CHAINS
    inputs = {name: value for name, value in heterevent_inputs(100).items() if name in names}
    # A word has the same tokens wherever it stands.
    words = inputs["word_index"]
    inputs["input_ids"] = torch.where(words >= 0, words + 20, inputs["input_ids"])
    shares = [_share(inputs, [0, 1], [0, 1, 2]), _share(inputs, [2, 3], list(range(2, EVENTS)))]
    sizes = [len(share["input_ids"]) for share in shares]
    assert sizes[0] != sizes[1]
    assert sum(sizes) > EVENTS
    keys = torch.cat([share["event_keys"] for share in shares])
    assert set(keys.tolist()) == set(inputs["event_keys"].tolist())
    for rank, share in enumerate(shares):
        contiguous = {name: value.contiguous() for name, value in share.items()}
        save_file(contiguous, tmp_path / f"share_{rank}.safetensors")
    process = run_group([process_shares.__file__, str(tmp_path), HEAD], cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-4000:]

    for predict_from, head in heads.items():
        loss = head(**inputs).loss
        loss.backward()
        found = load_file(tmp_path / f"result_{predict_from}.safetensors")
        torch.testing.assert_close(found.pop("loss"), loss.detach(), rtol=1e-5, atol=1e-6)
        expected = {name: value.grad for name, value in head.named_parameters() if value.grad is not None}
        assert set(found) == set(expected)
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=name)
