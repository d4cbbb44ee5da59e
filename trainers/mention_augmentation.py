"""Augmented views of a mention: back-translation and word noise."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import torch
from accelerate import PartialState
from transformers import AutoModelForSeq2SeqLM

from eventformers.errors import EventformersError, shown
from eventformers.files import file_digest, write_text
from eventformers.loading.models import faults_told, load_config, load_tokenizer, load_whole
from eventformers.locks import one_writer
from eventformers.models.processing_event_type_induction import NO_TRIGGER, Mention
from eventformers.models.processing_events import EventProcessor

logger = logging.getLogger(__name__)

_WORD = re.compile(r"\S+")
_TEXTS_PER_WRITE = 256
_BATCH_SIZE = 16
_MAX_TOKENS = 512


def word_noise(mention: Mention, generator: np.random.Generator, word_dropout: float) -> Mention:
    """Draw a view of a mention by word noise, with the offsets of its trigger in the view.

    Words, which are separated by blanks, are dropped outside the trigger. A mention that would lose all its
    words stays unchanged.

    Args:
        word_dropout: share of the words to drop.
    """
    spans = [match.span() for match in _WORD.finditer(mention.text)]
    parts: list[str] = []
    length, trigger_start, trigger_end = 0, NO_TRIGGER, NO_TRIGGER
    for (start, end), draw in zip(spans, generator.random(len(spans)), strict=True):
        of_trigger = mention.has_trigger and start < mention.trigger_end and end > mention.trigger_start
        if not of_trigger and draw < word_dropout:
            continue
        place = length + bool(parts)
        if of_trigger:
            if trigger_start == NO_TRIGGER:
                trigger_start = place + max(mention.trigger_start - start, 0)
            trigger_end = place + min(mention.trigger_end, end) - start
        parts.append(mention.text[start:end])
        length = place + end - start
    return Mention(" ".join(parts), trigger_start, trigger_end) if parts else mention


class Translated(NamedTuple):
    """A translation.

    Args:
        was_cut: whether the original text was truncated.
    """

    text: str
    was_cut: bool


@dataclass
class BackTranslations:
    """Back-translations of texts.

    Args:
        languages: the names of the languages, sorted.
        texts: the back-translations of each text, in the order of `languages`.
        counts: number of distinct back-translations that are unchanged, truncated, or empty and replaced by
            the original text.
    """

    languages: tuple[str, ...]
    texts: dict[str, tuple[str, ...]]
    counts: dict[str, int] = field(default_factory=dict)

    def __call__(self, mention: Mention, generator: np.random.Generator) -> Mention:
        """Draw a back-translation of a mention, without its trigger."""
        return Mention(self.texts[mention.text][int(generator.integers(len(self.languages)))])


def back_translate(texts: Sequence[str], models: Mapping[str, Sequence[str]]) -> BackTranslations:
    """Translate texts to each of several languages and back (section 3.2).

    Back-translations are cached by models and text in the cache of `datasets`. Runs on a GPU if there is one.

    Args:
        models: for each language, the ids or folders of two sequence-to-sequence models, such as Marian's: to
            the language, and back. Their input is the bare text, without a language code.

    Raises:
        EventformersError: a language does not have two models, or a model cannot be loaded.
    """
    if not models:
        raise EventformersError(
            "translation_models is empty; accepted: a mapping of each language to two models"
        )
    for language, pair in models.items():
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise EventformersError(
                f"translation_models: found {shown(pair)} for {language}; accepted: a list of two models, "
                "one that translates to the language and one that translates back"
            )
    folder = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "eventformers/back_translation"
    distinct = list(dict.fromkeys(texts))
    languages = tuple(sorted(models))
    found = [
        _of_pair(distinct, (str(models[language][0]), str(models[language][1])), folder)
        for language in languages
    ]
    translated = [(text, part[text]) for part in found for text in distinct]
    counts = {
        "back_translations_unchanged": sum(text == back.text for text, back in translated),
        "back_translations_cut": sum(back.was_cut for _, back in translated),
        "back_translations_empty": sum(not back.text for _, back in translated),
    }
    together = {text: tuple(part[text].text or text for part in found) for text in distinct}
    return BackTranslations(languages, together, {name: count for name, count in counts.items() if count})


def _of_pair(texts: Sequence[str], pair: tuple[str, str], folder: Path) -> dict[str, Translated]:
    """Translate texts by one pair of models and back, through the cache."""
    identity: list[list[Any]] = []
    for model in pair:
        home = Path(model).expanduser()
        # By its files, since a folder can later hold another model.
        files = sorted(file for file in home.iterdir() if file.is_file()) if home.is_dir() else []
        parts: list[Any] = [[file.name, file.stat().st_size, file_digest(file)] for file in files]
        identity.append(parts if home.is_dir() else [model])
    path = folder / f"{sha256(json.dumps(identity).encode()).hexdigest()[:32]}.json"
    # Of several processes, one translates, and the others read its file.
    with one_writer(path, wait=True):
        known: dict[str, Translated] = {}
        try:
            cached = json.loads(path.read_text(encoding="utf-8"))["texts"]
            known = {text: Translated(*back) for text, back in cached.items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise EventformersError(
                f"cannot read the translations in {path}; remove the file: {' '.join(str(error).split())}"
            ) from error
        missing = sorted((text for text in texts if text not in known), key=len)
        if not missing:
            return known
        logger.info("translating %d texts by %s and back by %s", len(missing), *pair)
        there, back = (Translator(model) for model in pair)
        for start in range(0, len(missing), _TEXTS_PER_WRITE):
            part = missing[start : start + _TEXTS_PER_WRITE]
            outward = there(part)
            returned = back([translated.text for translated in outward])
            for text, first, second in zip(part, outward, returned, strict=True):
                known[text] = Translated(second.text, first.was_cut or second.was_cut)
            write_text(path, json.dumps({"models": list(pair), "texts": known}, ensure_ascii=False))
        return known


class Translator:
    """A translation model.

    Args:
        name: id or folder of a sequence-to-sequence model with its tokenizer.

    Raises:
        EventformersError: the model cannot be loaded.
    """

    def __init__(self, name: str) -> None:
        try:
            with faults_told(name):
                self.tokenizer = load_tokenizer(name, load_config(name))
                self.model: Any = load_whole(AutoModelForSeq2SeqLM, name).eval()
        except EventformersError as error:
            raise EventformersError(
                f"cannot load the translation model {shown(name)}; accepted: id or folder of a "
                "sequence-to-sequence model in safetensors; Marian tokenizers need the package "
                f"sentencepiece: {error}"
            ) from error
        self.model.to(PartialState().device)
        self.max_tokens = min(int(self.tokenizer.model_max_length), _MAX_TOKENS)

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> list[Translated]:
        """Translate texts with the model's own generation settings, without sampling."""
        found = []
        for start in range(0, len(texts), _BATCH_SIZE):
            batch = list(texts[start : start + _BATCH_SIZE])
            # Not every tokenizer reports truncation.
            lengths = [len(ids) for ids in self.tokenizer(batch, verbose=False)["input_ids"]]
            encoded = EventProcessor(self.tokenizer).tokenise(batch, max_length=self.max_tokens)
            inputs = {name: encoded[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
            translated = self.model.generate(**inputs, do_sample=False, max_new_tokens=self.max_tokens)
            decoded = self.tokenizer.batch_decode(translated, skip_special_tokens=True)
            for text, length in zip(decoded, lengths, strict=True):
                found.append(Translated(text.strip(), length > self.max_tokens))
        return found
