"""The scores by language of hierarchical event grounding (Ou et al., 2023), Tables 5 and 6."""

from __future__ import annotations

from typing import NamedTuple


class LanguageScores(NamedTuple):
    """Scores of the best system of each task in one language, with the number of mentions in the test split.

    The scores are Recall@min, strict accuracy, macro F1 and micro F1, in percent.
    """

    name: str
    mentions: int
    multilingual: tuple[float, float, float, float]
    crosslingual: tuple[float, float, float, float]


PUBLISHED_LANGUAGES: dict[str, LanguageScores] = {
    "af": LanguageScores("Afrikaans", 360, (86.9, 71.1, 80.1, 78.1), (67.2, 34.2, 40.6, 39.1)),
    "ar": LanguageScores("Arabic", 1776, (59.5, 38.2, 61.2, 56.1), (24.3, 6.2, 20.7, 19.5)),
    "be": LanguageScores("Belarusian", 612, (65.2, 51.3, 75.8, 73.0), (36.4, 9.5, 31.5, 30.6)),
    "bn": LanguageScores("Bengali", 136, (73.5, 77.2, 84.4, 81.9), (5.9, 0.7, 4.2, 5.4)),
    "bg": LanguageScores("Bulgarian", 1918, (48.4, 45.5, 75.1, 69.5), (42.3, 9.1, 32.6, 32.2)),
    "ca": LanguageScores("Catalan", 1312, (52.5, 40.2, 61.5, 59.0), (41.8, 11.8, 37.5, 36.7)),
    "zh": LanguageScores("Chinese", 980, (55.2, 51.1, 75.9, 69.6), (23.1, 7.5, 22.9, 21.0)),
    "cs": LanguageScores("Czech", 2051, (63.0, 54.8, 73.6, 71.4), (39.3, 11.4, 28.7, 28.6)),
    "da": LanguageScores("Danish", 575, (75.0, 60.2, 77.1, 75.1), (48.9, 23.8, 44.7, 40.6)),
    "nl": LanguageScores("Dutch", 2030, (44.5, 35.7, 50.8, 50.9), (32.7, 14.0, 33.7, 33.2)),
    "en": LanguageScores("English", 10065, (41.2, 30.7, 55.7, 53.2), (41.8, 18.2, 49.5, 45.7)),
    "fi": LanguageScores("Finnish", 2956, (53.9, 46.1, 58.0, 58.3), (33.9, 16.2, 33.1, 32.3)),
    "fr": LanguageScores("French", 6760, (48.3, 30.3, 46.3, 45.3), (34.8, 13.5, 33.9, 32.9)),
    "de": LanguageScores("German", 8888, (50.6, 39.7, 56.1, 52.1), (38.7, 13.9, 33.5, 31.3)),
    "el": LanguageScores("Greek", 2841, (39.8, 43.0, 68.3, 65.4), (36.4, 10.2, 27.0, 26.8)),
    "he": LanguageScores("Hebrew", 1866, (64.4, 49.7, 66.0, 64.0), (32.1, 8.4, 20.5, 20.6)),
    "hi": LanguageScores("Hindi", 91, (81.3, 73.6, 79.3, 77.9), (13.2, 5.5, 8.2, 7.4)),
    "hu": LanguageScores("Hungarian", 974, (59.4, 40.9, 56.9, 56.3), (38.5, 10.2, 22.4, 23.3)),
    "id": LanguageScores("Indonesian", 678, (57.4, 50.4, 73.8, 70.4), (44.0, 15.9, 41.6, 40.8)),
    "it": LanguageScores("Italian", 3842, (44.6, 29.7, 47.3, 46.2), (39.0, 12.9, 34.5, 33.5)),
    "ja": LanguageScores("Japanese", 2768, (54.0, 46.3, 62.3, 57.6), (21.2, 8.3, 20.9, 19.8)),
    "ko": LanguageScores("Korean", 897, (56.1, 59.5, 78.2, 73.0), (31.5, 19.1, 36.0, 31.8)),
    "ms": LanguageScores("Malay", 190, (74.7, 63.7, 81.5, 77.5), (44.2, 12.6, 34.1, 33.4)),
    "ml": LanguageScores("Malayalam", 30, (70.0, 73.3, 78.3, 77.4), (16.7, 6.7, 12.5, 13.0)),
    "mr": LanguageScores("Marathi", 16, (43.8, 62.5, 66.6, 68.3), (12.5, 0.0, 3.1, 4.9)),
    "no": LanguageScores("Norwegian", 895, (70.2, 62.5, 75.5, 72.9), (44.6, 21.7, 40.5, 38.6)),
    "fa": LanguageScores("Persian", 608, (65.3, 56.9, 68.7, 66.6), (35.0, 7.6, 22.3, 21.6)),
    "pl": LanguageScores("Polish", 4749, (44.8, 34.3, 49.3, 49.5), (32.6, 8.6, 27.0, 26.4)),
    "pt": LanguageScores("Portuguese", 1851, (58.8, 45.2, 69.5, 66.0), (44.4, 17.7, 44.2, 40.8)),
    "ro": LanguageScores("Romanian", 1329, (60.9, 45.5, 69.4, 65.7), (45.6, 14.2, 36.2, 34.8)),
    "ru": LanguageScores("Russian", 13221, (48.8, 34.8, 58.5, 56.1), (41.9, 12.1, 36.7, 35.3)),
    "sr": LanguageScores("Serbian", 2770, (45.2, 39.7, 68.5, 64.5), (39.3, 8.3, 28.9, 29.2)),
    "sk": LanguageScores("Slovak", 561, (60.8, 57.6, 72.0, 68.4), (46.0, 10.0, 26.8, 26.3)),
    "sl": LanguageScores("Slovenian", 456, (66.7, 57.0, 67.2, 67.0), (47.1, 14.2, 29.9, 30.2)),
    "es": LanguageScores("Spanish", 3757, (56.2, 40.8, 54.7, 53.8), (43.3, 15.3, 35.9, 35.0)),
    "sw": LanguageScores("Swahili", 3, (100.0, 66.7, 66.7, 66.7), (0.0, 0.0, 11.1, 15.4)),
    "sv": LanguageScores("Swedish", 1135, (71.0, 53.6, 66.8, 65.4), (48.3, 18.1, 35.4, 34.6)),
    "ta": LanguageScores("Tamil", 36, (83.3, 66.7, 80.9, 76.5), (16.7, 0.0, 14.0, 15.4)),
    "th": LanguageScores("Thai", 275, (87.6, 75.3, 84.3, 82.0), (44.4, 20.4, 42.9, 40.0)),
    "tr": LanguageScores("Turkish", 1586, (43.2, 41.4, 66.6, 61.1), (36.1, 10.1, 25.9, 26.0)),
    "uk": LanguageScores("Ukrainian", 3551, (63.8, 53.1, 73.5, 70.6), (53.6, 12.2, 34.0, 33.4)),
    "vi": LanguageScores("Vietnamese", 533, (61.2, 41.8, 63.9, 62.5), (41.7, 12.8, 37.5, 33.9)),
}
"""The scores by language code."""
