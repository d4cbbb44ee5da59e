"""Normal form of texts, and its places in the text as given."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest

from eventformers.extraction.normalising import NormalisedText, Vocabulary, normalise

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")

WORDS = """
after arrest bill cooperation debate divide house in lead long mark on operate pass police senate shop tax
town
"""


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    pipeline = spacy.blank("en")
    lemmatizer = pipeline.add_pipe("lemmatizer")
    lemmatizer.lookups.add_table(
        "lemma_index", {"noun": set(WORDS.split()), "verb": {"hop", "hope", "visit"}}
    )
    return Vocabulary(pipeline)


def given(normal: NormalisedText, word: str) -> str:
    start = normal.text.index(word)
    return normal.given[slice(*normal.span(start, start + len(word)))]


@pytest.mark.parametrize("apostrophe", "'’‘ʼ＇′\x92`´")
def test_apostrophes(vocabulary: Vocabulary, apostrophe: str) -> None:
    text = f"They don{apostrophe}t leave."
    normal = normalise(text, vocabulary)
    assert normal.text == "They don't leave."
    assert given(normal, "leave") == "leave"


# A text, its normal form, a word of that and what stands for it in the text.
WRITTEN = {
    "quotation marks": ("“Go” «now»", '"Go" "now"', "now", "now"),
    "UTF-8 read as Windows-1252": ("They donâ€™t â€œgoâ€\x9d", 'They don\'t "go"', "don't", "donâ€™t"),
    "hyphens": ("co\u2011operate co\u2010operate", "co-operate co-operate", "co-operate", "co\u2011operate"),
    "dash": ("Tom – who left - slept", "Tom — who left — slept", "slept", "slept"),
    "spaces": ("a\u00a0b\u2009c\td  e", "a b c d e", "e", "e"),
    "decomposed": (unicodedata.normalize("NFD", "A naïve café."), "A naïve café.", "naïve", "nai\u0308ve"),
    "decomposed Hangul": (unicodedata.normalize("NFD", "각 나."), "각 나.", "나", "\u1102\u1161"),
    "ligature": ("The o\ufb03ce", "The office", "office", "o\ufb03ce"),
    "soft hyphen": ("an at\u00adtack", "an attack", "attack", "at\u00adtack"),
    "zero width": ("an a\u200bt\u200dt\ufeffack", "an attack", "attack", "a\u200bt\u200dt\ufeffack"),
    "joiner of Persian": ("می\u200cروم", "می\u200cروم", "می\u200cروم", "می\u200cروم"),
    "entities": ("police&nbsp;arrested A&amp;B &#8217;", "police arrested A&B '", "A&B", "A&amp;B"),
    "entity of an entity": ("A &amp;amp; B&amp;nbsp;C", "A & B C", "C", "C"),
    "no entity": ("AT&T R&D; &nosuch;", "AT&T R&D; &nosuch;", "R&D", "R&D"),
    "tags": ('<p>Po<b>lice</b> <a href="x">left</a></p>', "Police left", "Police", "Po<b>lice"),
    "many marks": ("Tom" + "[" * 101 + "left", "Tom left", "left", "left"),
    "a line of marks": ("=" * 100 + " Tom left", "=" * 100 + " Tom left", "left", "left"),
    "no tag": ("a < b and <Tom> left", "a < b and <Tom> left", "left", "left"),
    "tag without its end": ("thief.<br", "thief.", "thief", "thief"),
    "script and comment": ("A <!-- x > y --> B <script>left()</script> C", "A B C", "C", "C"),
    "joined, known": ("The co-\noperation", "The cooperation", "cooperation", "co-\noperation"),
    "joined, frequent": ("foobar foobar foo-\nbar", "foobar foobar foobar", "foobar", "foobar"),
    "hyphenated": ("A well-\nknown man", "A well-known man", "well-known", "well-\nknown"),
    "hyphenated, frequent": (
        "co-operation, co-operation, co-\r\noperation",
        "co-operation, co-operation, co-operation",
        "co-operation",
        "co-operation",
    ),
    "address": ("See https://t.co/a(b)?c=d, and www.x.org.", "See , and .", "and", "and"),
    "pictures": ("He left 😀👍🏽 :) now", "He left now", "now", "now"),
    "handle": ("Thanks @tom_b and a@b.org", "Thanks Tom_b and a@b.org", "Tom_b", "@tom_b"),
    "retweet": ("RT @tom: He left", "He left", "He", "He"),
    "white space": (" \n He left. \n", "He left.", "left.", "left."),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_normal_form(vocabulary: Vocabulary, name: str) -> None:
    text, wanted, word, written = WRITTEN[name]
    normal = normalise(text, vocabulary)
    assert normal.text == wanted
    assert given(normal, word) == written
    assert len(normal.starts) == len(normal.ends) == len(normal.text)
    assert normalise(wanted, vocabulary).text == wanted


WRAPPED = (
    "The police of the small town arrested three men in an old house on\n"
    "Monday and let them go on Tuesday, because nobody in the town knew\n"
    "Their names or where they came from, and nobody had seen a thing\n"
    "London was the place where they had lived before they came to town"
)
# A text, and its sentences as paragraphs and lists divide it.
DIVIDED = {
    "blank line": ("Demo at meeting\n\nSupporters are set", ["Demo at meeting", "Supporters are set"]),
    "windows line ends": ("A demo\r\n\r\nThey left\r\nHe came", ["A demo", "They left", "He came"]),
    "line": ("Demo at meeting\nSupporters left.", ["Demo at meeting", "Supporters left."]),
    "line that goes on": ("They met in\nLondon and\nleft early", ["They met in London and left early"]),
    "even lines": (WRAPPED, [WRAPPED.replace("\n", " ")]),
    "heading of even lines": (f"A heading\n{WRAPPED}", ["A heading", WRAPPED.replace("\n", " ")]),
    "bullets": ("Seen:\n- Tom left\n• Anna came\n2. Bo ate", ["Seen:", "Tom left", "Anna came", "Bo ate"]),
    "markdown": ("# A demo\nThey left", ["A demo", "They left"]),
    "tags": ("<h1>A demo</h1>They left<li>a<li>b", ["A demo", "They left", "a", "b"]),
    "break": ("They left<br>He came<br/>and slept", ["They left", "He came and slept"]),
    "form feed": ("They left\fHe came", ["They left", "He came"]),
    "hashtags": ("Tom left #news #uk\nA #tax came", ["Tom left", "news uk", "A tax came"]),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_ends_of_sentences(vocabulary: Vocabulary, name: str) -> None:
    text, wanted = DIVIDED[name]
    normal = normalise(text, vocabulary)
    places = (0, *normal.breaks, len(normal.text))
    parts = [normal.text[start:end].strip() for start, end in pairwise(places)]
    assert parts == wanted


# A text, and its text in the case of running text.
HEADLINES = {
    "capitals": ("SENATE PASSES TAX BILL", "Senate passes tax bill"),
    "title case": ("Senate Passes Tax Bill After Debate", "Senate passes tax bill after debate"),
    "name of the text": (
        "Police Arrest Mark in Town\n\nPolice saw Mark. There Mark left.",
        "Police arrest Mark in town Police saw Mark. There Mark left.",
    ),
    "unknown word": ("SENATE OF UTOPIA PASSES BILL", "Senate of Utopia passes bill"),
    "abbreviation": ("US Police Arrest FBI Lead", "US police arrest FBI lead"),
    "sentence within": (
        "The senate left. PASS THE BILL! He slept.",
        "The senate left. Pass the bill! He slept.",
    ),
    "names": ("Xaver, Yvonne and Zoe", "Xaver, Yvonne and Zoe"),
    "running text": ("The Senate of Utopia Town passed it", "The Senate of Utopia Town passed it"),
    "few words": ("NEW YORK", "NEW YORK"),
}


@pytest.mark.parametrize("name", HEADLINES)
def test_case(vocabulary: Vocabulary, name: str) -> None:
    text, wanted = HEADLINES[name]
    assert normalise(text, vocabulary).text == wanted


def test_no_case_in_german() -> None:
    assert normalise("Der Hund Biss Den Mann", Vocabulary(spacy.blank("de"))).text == "Der Hund Biss Den Mann"


@pytest.mark.parametrize(
    "part",
    [
        "<!--",
        "<script",
        "<b",
        "&amp;",
        "a-",
        "#a ",
        "@a",
        "http://",
        "a.",
        "-\n",
        "e\u0301",
        "e" + "\u0301" * 9,
        "<",
    ],
)
def test_time_is_linear(vocabulary: Vocabulary, part: str) -> None:
    # A quadratic step takes minutes.
    assert normalise(part * 30_000, vocabulary).given


@pytest.mark.parametrize(
    ("form", "lemma", "wanted"),
    [
        *(("hoped", "hop", "hope"), ("hoping", "hop", "hope"), ("hopes", "hop", "hope")),
        *(
            ("hopped", "hop", "hop"),
            ("hops", "hop", "hop"),
            ("hop", "hop", "hop"),
            ("visited", "visit", "visit"),
        ),
    ],
)
def test_lemmas(vocabulary: Vocabulary, form: str, lemma: str, wanted: str) -> None:
    doc = spacy.tokens.Doc(spacy.blank("en").vocab, words=[form], lemmas=[lemma])
    assert vocabulary.lemma(doc[0]) == wanted


def test_verbs_that_the_tagger_takes_as_nouns(vocabulary: Vocabulary) -> None:
    doc = spacy.tokens.Doc(
        spacy.blank("en").vocab,
        words=["hop", "or", "visit", "or", "names"],
        tags=["VB", "CC", "NN", "CC", "NN"],
        heads=[0, 0, 0, 0, 0],
        deps=["ROOT", "cc", "conj", "cc", "conj"],
    )
    # A name is a noun, too.
    assert [vocabulary.is_mistaken_for_noun(word) for word in doc] == [False, False, True, False, False]
