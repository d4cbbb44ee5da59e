"""Settings of an exploration, and what its steps share: the texts and the models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from eventformers.datasets_scripts.loading import check_data
from eventformers.errors import EventformersError
from eventformers.evaluation.session import Session
from eventformers.exploration.sources import FoundTexts
from eventformers.extraction.text_columns import USUAL_COLUMNS, TextColumns
from eventformers.files import files_digest
from eventformers.inference.encode import EventEncoder
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.model_files import check_folder
from eventformers.loading.models import faults_told, folder_name, model_revision

Model = str | Path | EventEncoder | None
"""A folder or Hub id, a loaded encoder, or None for the packaged all-MiniLM-L6-v2."""


@dataclass(frozen=True)
class ExploreSettings:
    """Settings of `explore`, which documents them; `models` has the model of each role.

    Raises:
        EventformersError: a number is too small.
    """

    columns: TextColumns = USUAL_COLUMNS
    license_name: str | None = None
    pipeline: str | None = None
    models: Mapping[str, Model] = field(default_factory=dict)
    next_events: bool = False
    num_types: int | None = None
    frames: str | Path | None = None
    knowledge_base: str | Path | None = None
    graph: str | Path | None = None
    graph_config: str | None = None
    min_chain_length: int = 3
    processes: int = 1
    batch_size: int | Literal["auto"] = "auto"
    device: str | None = None
    dtype: str | None = None
    show_progress: bool = False

    def __post_init__(self) -> None:
        for name, least in (("min_chain_length", 2), ("processes", 1), ("num_types", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise EventformersError(f"{name}: found {value}; accepted: {least} or more")


@dataclass(frozen=True)
class Context:
    """What all steps of an exploration share.

    Args:
        texts: the texts to explore.
        settings: the settings.
        session: holds the loaded models.
    """

    texts: FoundTexts
    settings: ExploreSettings
    session: Session
    _identities: dict[str, dict[str, Any]] = field(default_factory=dict, init=False, repr=False)

    def encoder(self, role: str) -> EventEncoder:
        """Return the encoder of a role, such as `events`; load it on the first call.

        Raises:
            EventformersError: it cannot be loaded.
        """
        model = self.settings.models.get(role)
        loaded = isinstance(model, EventEncoder)
        loading: dict[str, Any] = (
            {} if loaded else {"device": self.settings.device, "dtype": self.settings.dtype}
        )
        # A vector that an earlier run made must be the one that this run would make.
        return replace(self.session.encoder(model, **loading), packs_from=1)

    def model_identity(self, role: str) -> dict[str, Any]:
        """Identify the model of a role without loading it: name, revision and dtype.

        A model without a known revision never equals that of another call.

        Raises:
            EventformersError: it does not exist.
        """
        if role not in self._identities:
            self._identities[role] = self._identify(self.settings.models.get(role))
        return self._identities[role]

    def data_identity(self, name: str) -> dict[str, str] | None:
        """Identify the data of a setting, such as `frames`, by the content of its files.

        Data on the Hub is identified by its id alone.

        Args:
            name: the setting, whose value is a file, a folder, several joined by `os.pathsep`, or a Hub id.

        Returns:
            The identity; None if the setting is None.

        Raises:
            EventformersError: the value is no file or folder and cannot be a Hub id.
        """
        value: str | Path | None = getattr(self.settings, name)
        if value is None:
            return None
        check_data(value)
        paths = [Path(part).expanduser() for part in str(value).split(os.pathsep)]
        if not all(path.exists() for path in paths):
            return {"name": str(value)}
        digests = [files_digest(path) for path in paths]
        return {
            "name": ", ".join(path.absolute().name for path in paths),
            "sha256": digests[0] if len(digests) == 1 else sha256(" ".join(digests).encode()).hexdigest(),
        }

    def note_untrained(self, role: str) -> str:
        """Return a note if no model is given for a role; else ""."""
        if self.settings.models.get(role) is not None:
            return ""
        name = self.model_identity(role)["name"]
        return f"No model of {role} is given (--{role}): {name} is used as it was pretrained."

    def _identify(self, model: Model) -> dict[str, Any]:
        if isinstance(model, EventEncoder):
            name, revision, dtype = model.name, model.revision, str(model.model.dtype)
        else:
            source = resolve_encoder(model)
            with faults_told(source):
                check_folder(source)
                revision = model_revision(source)
            folder = Path(source)
            name = folder_name(folder, model) if folder.is_dir() else source
            dtype = str(self.settings.dtype)
        return {"name": name, "revision": revision or uuid4().hex, "dtype": dtype}
