"""Rows and mentions of event type induction that are drawn, augmented or left out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from datasets import config as datasets_config
from transformers import BartConfig, BartForConditionalGeneration, BertTokenizerFast

from eventformers.errors import EventformersError
from eventformers.models.processing_event_type_induction import Mention
from eventformers.trainers import mention_augmentation
from eventformers.trainers.event_type_induction import FrameExamples, frame_examples
from eventformers.trainers.mention_augmentation import Translated, back_translate, word_noise

FRAMES = (
    ("Act", [], ["She acted."]),
    ("Attack", ["Act"], ["They attacked.", "He was hit."]),
    ("Raid", ["Attack"], ["They raided it."]),
    ("Trade", ["Act"], ["They traded."]),
    ("Unexplained", ["Act"], ["It was so."]),
    ("Unexampled", ["Act"], []),
)


def frames_of(rows: tuple[tuple[str, list[str], list[str]], ...] = FRAMES) -> Dataset:
    columns = [
        {
            "name": name,
            "parents": parents,
            "examples": examples,
            "definition": "" if name == "Unexplained" else f"Definition of {name}.",
        }
        for name, parents, examples in rows
    ]
    return Dataset.from_list(columns)


def mentions_of(*told: tuple[bool, list[str]]) -> Dataset:
    return Dataset.from_dict({"seen": [seen for seen, _ in told], "frames": [names for _, names in told]})


def test_frames_of_unseen_types_and_their_descendants_are_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mentions = mentions_of(
        (True, ["Trade"]), (False, ["Attack"]), (False, []), (False, ["Unexplained", "Nowhere"])
    )
    for rows in (mentions, mentions.to_iterable_dataset()):
        found = frame_examples(frames_of(), rows)
        assert found == FrameExamples(
            ["Definition of Act.", "Definition of Trade."], [["She acted."], ["They traded."]], 2
        )
        assert found.counts() == {
            "frames_with_examples": 2,
            "frame_examples": 2,
            "frames_of_unseen_types_left_out": 2,
        }
    told = "1 unseen mentions name no frame, and 1 frames of the others are not among the 6 frames"
    assert caplog.text.count(told) == 2
    caplog.clear()
    frame_examples(frames_of(), mentions_of((True, []), (False, ["Attack"])))
    assert not caplog.text


@pytest.mark.parametrize(
    ("frames", "mentions", "message"),
    [
        (FRAMES[5:], [(True, [])], r"found 0 among 1 frames; accepted: frame_example_weight=0, or"),
        (None, [(True, [])], r"found 0 among 6 frames; accepted: .* a dataset built from it by this version"),
        (FRAMES[1:3], [(False, ["Attack"])], r"found 2 among 2 frames, all of them frames of unseen types;"),
    ],
)
def test_no_example_is_left(
    frames: tuple[tuple[str, list[str], list[str]], ...] | None,
    mentions: list[tuple[bool, list[str]]],
    message: str,
) -> None:
    """There is none, or only of unseen types, or the dataset is of a version without examples."""
    rows = frames_of().remove_columns("examples") if frames is None else frames_of(frames)
    with pytest.raises(EventformersError, match=message):
        frame_examples(rows, mentions_of(*mentions))


def test_every_frame_is_as_likely() -> None:
    """However many examples it has."""
    examples = frame_examples(frames_of(), mentions_of())
    drawn = [examples.draw(np.random.default_rng(seed)) for seed in range(2000)]
    assert examples.draw(np.random.default_rng(3)) == drawn[3]
    frames = Counter(example[2] for example in drawn)
    assert sorted(frames) == [f"Definition of {name}." for name in ("Act", "Attack", "Raid", "Trade")]
    assert all(420 < number < 580 for number in frames.values())
    attacks = Counter(example for example in drawn if example[0] == 1)
    sentences = ("They attacked.", "He was hit.")
    assert set(attacks) == {(1, text, "Definition of Attack.") for text in sentences}
    assert all(number > 180 for number in attacks.values())


TEXT = "Last night  the court re-elected\tits old chair, they said."
TEXTS = ["the storm flooded the city", "police arrested the thief", "the firm hired a worker"]


def _draws(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestWordNoise:
    @pytest.mark.parametrize("trigger", ["court", "re-elected\tits", "elected", "Last night", "said."])
    def test_the_trigger_stays_and_its_offsets_with_it(self, trigger: str) -> None:
        start = TEXT.index(trigger)
        mention = Mention(TEXT, start, start + len(trigger))
        views = [word_noise(mention, _draws(seed), 0.6) for seed in range(50)]
        for text, first, last in views:
            assert text[first:last] == " ".join(trigger.split())
        assert len({view.text for view in views}) > 20

    def test_shares_of_words(self) -> None:
        mention = Mention(" ".join(["word"] * 2000))
        words = word_noise(mention, _draws(0), 0.3).text.split()
        assert len(words) == pytest.approx(1400, abs=80)

    def test_order_of_words(self) -> None:
        view = word_noise(Mention("a b c d e f g h"), _draws(1), 0.4)
        words = view.text.split()
        assert 0 < len(words) < 8
        assert words == sorted(words)

    def test_without_noise(self) -> None:
        """The view is then the mention itself, under another dropout of the encoder."""
        mention = Mention("the storm flooded the city", 10, 17)
        assert word_noise(mention, _draws(0), 0.0) == mention

    def test_some_word_stays(self) -> None:
        mention = Mention("flooded")
        assert {word_noise(mention, _draws(seed), 0.9) for seed in range(20)} == {mention}


def _save_translator(encoder: Path, folder: Path, seed: int) -> str:
    """A random sequence-to-sequence model with the words of the tiny encoder."""
    tokenizer = BertTokenizerFast.from_pretrained(encoder)
    torch.manual_seed(seed)
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=64,
        init_std=1.0,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=3,
        max_length=12,
    )
    BartForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def models(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    root = tmp_path_factory.mktemp("translators")
    return {
        language: [_save_translator(tiny_encoder, root / f"{language}-{way}", seed + way) for way in (0, 1)]
        for language, seed in (("fr", 10), ("de", 20))
    }


class TestBackTranslation:
    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path)

    def test_each_text_in_each_language(self, models: dict[str, list[str]]) -> None:
        found = back_translate([*TEXTS, TEXTS[0]], models)
        assert found.languages == ("de", "fr")
        assert set(found.texts) == set(TEXTS)
        views = {found(Mention(TEXTS[0], 4, 9), _draws(seed)) for seed in range(20)}
        assert views == {Mention(text) for text in found.texts[TEXTS[0]]}
        # Random models, each with another answer.
        assert len(views) == 2

    def test_what_is_kept_is_not_translated_again(
        self, models: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = back_translate(TEXTS, models)
        files = sorted(path.name for path in tmp_path.rglob("*.json"))
        assert len(files) == 2
        translated: list[str] = []
        translate = mention_augmentation.Translator.__call__

        def noted(self: mention_augmentation.Translator, texts: list[str]) -> list[Translated]:
            translated.extend(texts)
            return translate(self, texts)

        monkeypatch.setattr(mention_augmentation.Translator, "__call__", noted)
        assert back_translate(TEXTS, models) == first
        assert not translated
        more = back_translate([*TEXTS, "the mayor visited"], {"fr": models["fr"]})
        assert translated[0] == "the mayor visited"
        assert len(translated) == 2
        assert more.texts[TEXTS[0]] == first.texts[TEXTS[0]][1:]
        # Other models at another place have a file of their own.
        back_translate(TEXTS, {"fr": models["fr"][::-1]})
        assert len(list(tmp_path.rglob("*.json"))) == 3

    def test_what_was_done_before_a_kill_is_kept(
        self, models: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mention_augmentation, "_TEXTS_PER_WRITE", 1)
        translate = mention_augmentation.Translator.__call__
        calls = 0

        def killed(self: mention_augmentation.Translator, texts: list[str]) -> list[Translated]:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise KeyboardInterrupt
            return translate(self, texts)

        with monkeypatch.context() as patched:
            patched.setattr(mention_augmentation.Translator, "__call__", killed)
            with pytest.raises(KeyboardInterrupt):
                back_translate(TEXTS, {"fr": models["fr"]})
        [path] = tmp_path.rglob("*.json")
        # The shortest texts come first.
        assert list(json.loads(path.read_text(encoding="utf-8"))["texts"]) == [min(TEXTS, key=len)]
        assert set(back_translate(TEXTS, {"fr": models["fr"]}).texts) == set(TEXTS)

    def test_empty_and_unchanged_ones_are_counted(
        self, models: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers = {TEXTS[0]: "", TEXTS[1]: TEXTS[1], TEXTS[2]: "a firm hired workers"}
        monkeypatch.setattr(
            mention_augmentation.Translator,
            "__call__",
            lambda _, texts: [Translated(answers.get(text, text), False) for text in texts],
        )
        answers.update({value: value for value in answers.values()})
        found = back_translate(TEXTS, {"fr": models["fr"]})
        assert found.texts == {TEXTS[0]: (TEXTS[0],), TEXTS[1]: (TEXTS[1],), TEXTS[2]: (answers[TEXTS[2]],)}
        assert found.counts == {"back_translations_unchanged": 1, "back_translations_empty": 1}

    def test_cut_texts_are_counted(self, models: dict[str, list[str]], tmp_path: Path) -> None:
        texts = ["the storm " * count for count in (40, 50)]
        for _ in range(2):
            found = back_translate(texts, {"fr": models["fr"]})
            assert found.counts["back_translations_cut"] == 2

    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            ({}, "translation_models is empty"),
            ({"fr": "model"}, "found 'model' for fr; accepted: a list of two"),
            ({"fr": ["one"]}, r"found \['one'\] for fr"),
            ({"fr": ["nowhere/there", "nowhere/back"]}, "cannot load the translation model 'nowhere/there'"),
        ],
    )
    def test_bad_models(self, pairs: dict[str, list[str]], message: str, tmp_path: Path) -> None:
        with pytest.raises(EventformersError, match=message):
            back_translate(TEXTS, pairs)

    def test_cache_that_cannot_be_read(self, models: dict[str, list[str]], tmp_path: Path) -> None:
        back_translate(TEXTS, {"fr": models["fr"]})
        [path] = tmp_path.rglob("*.json")
        path.write_text("{", encoding="utf-8")
        with pytest.raises(EventformersError, match=r"cannot read the translations in .*\.json"):
            back_translate(TEXTS, {"fr": models["fr"]})
