"""Graphs in the words of a model: the templates of its training, and the pairs that they make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from datasets import Dataset

from eventformers.datasets_scripts.commonsense_graphs import graph_of
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.relation_templates import own_templates
from eventformers.inference.encode import EventEncoder


def trained_templates(encoder: EventEncoder) -> Mapping[str, Mapping[str, str]]:
    """Return the templates of the relations that a model was trained with, besides those of all models."""
    return getattr(encoder.model.config, "relation_templates", None) or {}


def load_pairs(
    encoder: EventEncoder, data: str | Path | None, config: str, templates: str | Path | None
) -> Mapping[str, Dataset]:
    """Build or load the pairs of a graph, with the templates of the model and of a file.

    Args:
        encoder: the model.
        data: raw files, a built dataset or a Hub id; None for the bundled samples.
        config: the graph's config.
        templates: YAML file with templates of more relations.
    """
    words = {**trained_templates(encoder), **own_templates(graph_of(config), templates)}
    with TemporaryDirectory(prefix="eventformers-") as scratch:
        settings: dict[str, object] = {}
        if words:
            # The builder reads a file, whose bytes are part of the identity of its rows.
            file = Path(scratch) / "templates.yaml"
            file.write_text(yaml.safe_dump(words, allow_unicode=True), encoding="utf-8")
            settings["templates"] = str(file)
        return load_built(data, f"{config}_pairs", builder="commonsense_graphs", streaming=False, **settings)
