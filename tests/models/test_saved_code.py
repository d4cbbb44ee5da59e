"""The code that is saved beside a model of another package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

CODE = """from eventformers.models.configuration_swcc import SwccConfig
from eventformers.models.modeling_swcc import SwccModel


class OtherModel(SwccModel):
    config: SwccConfig


OtherModel.register_for_auto_class("AutoModel")
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("package")
    (folder / "other_swcc.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield import_module("other_swcc").OtherModel.from_encoder(tiny_encoder)


def test_only_the_code_of_the_model_is_rewritten(other: Any, tmp_path: Path) -> None:
    own = tmp_path / "out" / "train.py"
    own.parent.mkdir()
    own.write_bytes(b"from eventformers.models.losses import info_nce  # \xe9\n")
    other.save_pretrained(own.parent)
    assert own.read_bytes() == b"from eventformers.models.losses import info_nce  # \xe9\n"
    assert "from .modeling_swcc import SwccModel" in (own.parent / "other_swcc.py").read_text()
    assert (own.parent / "modeling_swcc.py").is_file()


def test_a_push_has_the_code(other: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[Any] = []

    def push(*arguments: Any, **options: Any) -> None:
        assert (tmp_path / "out" / "modeling_swcc.py").is_file()
        pushed.append((arguments, options))

    monkeypatch.setattr(other, "push_to_hub", push, raising=False)
    other.save_pretrained(tmp_path / "out", push_to_hub=True, repo_id="storms/other", private=True)
    other.save_pretrained(tmp_path / "out", push_to_hub=True)
    other.save_pretrained(tmp_path / "out")
    assert pushed == [(("storms/other",), {"private": True}), (("out",), {})]


def test_classes_are_derived_in_files_of_configurations_alone(tmp_path: Path) -> None:
    """The classes of a configuration in another file are those of the method that it extends."""
    code = (
        "from eventformers.models.configuration_swcc import SwccConfig\n\n\n"
        'class MyConfig(SwccConfig):\n    model_type = "my"\n'
    )
    for name in ("mymodels", "configuration_my"):
        (tmp_path / f"{name}.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        elsewhere = import_module("mymodels").MyConfig.full_auto_map
        derived = import_module("configuration_my").MyConfig.full_auto_map
    assert elsewhere["AutoModelForPreTraining"] == "modeling_swcc.SwccForPreTraining"
    assert derived["AutoModelForPreTraining"] == "modeling_my.MyForPreTraining"
