from __future__ import annotations

import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoTokenizer

from eventformers import MicoForPreTraining, SwccForPreTraining, SwccModel
from eventformers.errors import EventformersError
from eventformers.inference.encode import load_encoder
from eventformers.plots import prototypes as plot
from eventformers.plots.prototypes import describe_prototypes, plot_prototypes, sample_events


def _event(subject: str, predicate: str, object_: str = "") -> dict[str, str]:
    return {"subject": subject, "predicate": predicate, "object": object_}


EVENTS = [
    _event("police", "arrested", "thief"),
    _event("storm", "hit", "city"),
    _event("bank", "sold", "house"),
    _event("doctor", "treated", "patient"),
    _event("team", "won"),
    _event("mayor", "announced", "election"),
]


@pytest.fixture
def raw_folder(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    documents = [
        {
            "document_id": f"d{number}",
            "source": "test",
            "license": "Apache-2.0",
            "events": [list(event.values()) for event in EVENTS[number : number + 4]],
        }
        for number in range(3)
    ]
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, documents)) + "\n", encoding="utf-8")
    return folder


def _save(folder: Path, encoder: Path, num_prototypes: int = 3, **fields: object) -> Path:
    torch.manual_seed(1)
    head = SwccForPreTraining.from_encoder(encoder, num_prototypes=num_prototypes, **fields)
    head.save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
    return folder


@pytest.fixture
def run_folder(tmp_path, tiny_encoder):
    return _save(tmp_path / "run", tiny_encoder)


def test_events_belong_to_the_prototype_of_the_highest_cosine(run_folder, raw_folder, tmp_path):
    # Prototype 1 is the direction of the second event, far longer than the others.
    head = SwccForPreTraining.from_pretrained(run_folder)
    vectors = load_encoder(run_folder).encode(EVENTS)
    with torch.no_grad():
        head.prototypes.weight[1] = 7 * torch.from_numpy(vectors[1])
    head.save_pretrained(run_folder)
    prototypes = plot_prototypes(run_folder, tmp_path / "p.png", data=raw_folder)
    weights = head.prototypes.weight.detach().numpy()
    cosines = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)) @ (
        weights / np.linalg.norm(weights, axis=1, keepdims=True)
    ).T
    assert [prototype.index for prototype in prototypes] == [0, 1, 2]
    expected = np.bincount(cosines.argmax(axis=1), minlength=3).tolist()
    assert [prototype.size for prototype in prototypes] == expected
    assert sum(expected) == len(EVENTS)
    assert prototypes[1].nearest[0] == "storm hit city"


def test_the_picture_and_the_table_are_written(run_folder, raw_folder, tmp_path):
    picture = tmp_path / "new" / "prototypes.png"
    prototypes = plot_prototypes(run_folder, picture, data=raw_folder)
    pixels = matplotlib.image.imread(picture)
    assert min(pixels.shape[:2]) > 800
    assert len(np.unique(pixels[::5, ::5, 0])) > 10
    written = picture.with_suffix(".md").read_text(encoding="utf-8")
    for prototype in prototypes:
        for text in prototype.nearest:
            assert text in written
    assert str(tmp_path) not in written
    assert sorted(path.name for path in picture.parent.iterdir()) == ["prototypes.md", "prototypes.png"]


def test_a_vector_picture_names_the_axes_and_repeats_itself(run_folder, raw_folder, tmp_path):
    contents = []
    for name in ("a.svg", "b.svg"):
        plot_prototypes(run_folder, tmp_path / name, data=raw_folder)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert b"<svg" in contents[0]


def test_the_samples_are_drawn_without_data_and_only_so_many(run_folder, tmp_path):
    prototypes = plot_prototypes(run_folder, tmp_path / "p.png", num_events=40)
    assert sum(prototype.size for prototype in prototypes) == 40
    assert all(len(prototype.nearest) <= 5 for prototype in prototypes)


def test_more_prototypes_than_colours(tiny_encoder, raw_folder, tmp_path):
    folder = _save(tmp_path / "many", tiny_encoder, num_prototypes=23)
    prototypes = plot_prototypes(folder, tmp_path / "p.png", data=raw_folder)
    assert len(prototypes) == 23
    assert any(prototype.size == 0 and prototype.nearest == [] for prototype in prototypes)


def test_untrained_prototypes_are_said(tiny_encoder, raw_folder, tmp_path):
    folder = _save(tmp_path / "no-clustering", tiny_encoder, cluster_weight=0.0)
    with pytest.warns(UserWarning, match="cluster_weight=0"):
        plot_prototypes(folder, tmp_path / "p.png", data=raw_folder)


def test_the_sample_is_of_distinct_events_whatever_their_order():
    rows = [{"events": EVENTS * 3}, {"events": EVENTS[::-1]}]
    chosen, distinct = sample_events(Dataset.from_list(rows), 4, seed=5)
    again, _ = sample_events(Dataset.from_list(rows[::-1]), 4, seed=5)
    other, _ = sample_events(Dataset.from_list(rows), 4, seed=6)
    assert len({tuple(event.values()) for event in chosen}) == 4
    assert chosen == again
    assert chosen != other
    assert distinct >= 4
    assert sample_events(Dataset.from_list(rows), 100, seed=5)[1] == len(EVENTS)


def test_the_sample_is_uniform_and_the_number_of_distinct_events_near():
    events = [_event("s", f"p{number}") for number in range(2000)]
    documents = Dataset.from_list([{"events": events}])
    chosen, distinct = sample_events(documents, 500, seed=0)
    assert distinct == pytest.approx(2000, rel=0.15)
    positions = [int(event["predicate"][1:]) for event in chosen]
    assert np.mean(positions) == pytest.approx(1000, abs=100)


def test_the_nearest_events_come_in_the_order_of_their_cosine():
    cosines = np.array([[0.1, 0.9], [0.2, 0.5], [0.8, 0.1], [0.0, 0.7]], dtype=np.float32)
    prototypes = describe_prototypes(cosines, cosines.argmax(axis=1), list("abcd"), nearest=2)
    assert [(one.size, one.nearest) for one in prototypes] == [(1, ["c"]), (3, ["a", "d"])]


def test_bad_input_is_said(run_folder, raw_folder, tiny_encoder, tmp_path):
    target = tmp_path / "p.png"
    with pytest.raises(EventformersError, match=r"'\.jpg'; accepted: \.png or \.svg"):
        plot_prototypes(run_folder, tmp_path / "p.jpg")
    with pytest.raises(EventformersError, match="no prototypes"):
        plot_prototypes(tiny_encoder, target, data=raw_folder)
    with pytest.raises(EventformersError, match=r"config\.json"):
        plot_prototypes(raw_folder, target)
    with pytest.raises(EventformersError, match="3 or more"):
        plot_prototypes(run_folder, target, num_events=2)
    bare = tmp_path / "bare"
    SwccModel.from_encoder(tiny_encoder).save_pretrained(bare)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(bare)
    with pytest.raises(EventformersError, match="no prototypes"):
        plot_prototypes(bare, target, data=raw_folder)
    other_method = tmp_path / "other-method"
    MicoForPreTraining.from_encoder(tiny_encoder).save_pretrained(other_method)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(other_method)
    with pytest.raises(EventformersError, match="no prototypes; accepted"):
        plot_prototypes(other_method, target, data=raw_folder)
    assert not list(tmp_path.glob("p.*"))


def test_vectors_that_are_not_finite_are_said(run_folder, raw_folder, tmp_path):
    head = SwccForPreTraining.from_pretrained(run_folder)
    head.prototypes.weight.data[0, 0] = float("nan")
    head.save_pretrained(run_folder)
    with pytest.raises(EventformersError, match=r"prototypes\.weight are NaN or infinite"):
        plot_prototypes(run_folder, tmp_path / "p.png", data=raw_folder)


def test_a_failed_write_leaves_the_earlier_picture(run_folder, raw_folder, tmp_path, monkeypatch):
    picture = tmp_path / "p.png"
    picture.write_bytes(b"earlier")

    def full(self: object, path: Path, **settings: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plot.Figure, "savefig", full)
    with pytest.raises(EventformersError, match="No space left"):
        plot_prototypes(run_folder, picture, data=raw_folder)
    assert picture.read_bytes() == b"earlier"
    assert not list(tmp_path.glob(".p.png*"))
