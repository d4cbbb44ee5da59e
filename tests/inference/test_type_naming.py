"""Names and frames of clusters, and reasons why one is weak."""

from __future__ import annotations

from math import log
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from eventformers.errors import DataFormatError, EventformersError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.inference.induction.type_list import (
    FAMILIES,
    PACKAGED,
    ListedType,
    read_type_list,
    type_vectors,
)
from eventformers.inference.induction.type_naming import (
    Frames,
    cluster_centroids,
    has_only_stop_words,
    key_terms,
    keyness,
    label_cosines,
    label_ranks,
    load_frames,
    majority_type,
    name_clusters,
    valid_frames,
    weaknesses,
    words_of,
)

LABELS = np.array([0, 0, 1, 1, 1])
VECTORS = np.array([[1, 0], [4, 3], [0, 2], [0, 1], [-3, 4]], dtype=np.float32)
NAMES = ["east", "north", "west"]
NAME_VECTORS = np.array([[5, 0], [0, 1], [-1, 0]], dtype=np.float32)


def test_centroids_are_means_at_length_one() -> None:
    expected = np.array([[1.8, 0.6], [-0.6, 2.8]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(cluster_centroids(VECTORS, LABELS), expected)


def test_given_names_are_ranked_by_cosine() -> None:
    centroids = cluster_centroids(VECTORS, LABELS)
    named = name_clusters(centroids, NAMES, NAME_VECTORS, top=2)
    assert [[label.label for label in labels] for labels in named] == [["east", "north"], ["north", "west"]]
    assert named[0][0].score == pytest.approx(1.8 / np.hypot(1.8, 0.6))


def test_rank_is_that_of_the_best_valid_label() -> None:
    cosines = label_cosines(cluster_centroids(VECTORS, LABELS), NAME_VECTORS, NAMES)
    assert label_ranks(cosines, NAMES, [{"east"}, {"east"}]) == [1, 3]
    assert label_ranks(cosines, NAMES, [{"north", "west"}, {"west", "east"}]) == [2, 2]
    assert label_ranks(cosines, NAMES, [{"south"}, set()]) == [float("inf")] * 2
    tied = np.array([[0.5, 0.5, 0.5, 0.9]])
    assert label_ranks(tied, [*"abcd"], [{"b"}]) == [3]


def slow_keyness(inside: int, size: int, everywhere: int, total: int) -> float:
    cells = [[inside, everywhere - inside], [size - inside, total - size - everywhere + inside]]
    rows, columns = [sum(row) for row in cells], [sum(column) for column in zip(*cells, strict=True)]
    terms = [
        cells[i][j] * log(cells[i][j] * total / (rows[i] * columns[j]))
        for i in range(2)
        for j in range(2)
        if cells[i][j]
    ]
    return 2 * sum(terms) * (1 if inside * (total - size) >= (everywhere - inside) * size else -1)


def test_keyness_is_that_of_the_paper() -> None:
    # Dunning, 1993, Table 2: "the swiss" and "mineral water" in 31,777 bigrams.
    cells = np.array([[110, 2442, 111, 29114], [10, 0, 3, 31764]])
    both, only_first, only_second, _ = cells.T
    found = keyness(both, both + only_first, both + only_second, cells.sum(axis=1))
    np.testing.assert_allclose(found, [270.72, 167.23], atol=0.005)


def test_keyness_is_that_of_a_slow_version_and_of_scipy() -> None:
    random = np.random.default_rng(0)
    for cells in random.integers(0, 50, (200, 2, 2)):
        (a, b), (c, d) = (cells * random.integers(0, 2, (2, 2))).tolist()
        counts = a, a + c, a + b, a + b + c + d
        found = float(keyness(*counts))
        assert found == pytest.approx(slow_keyness(*counts), abs=1e-9)
        if min(a + b, a + c, b + d, c + d):
            expected = chi2_contingency(
                [[a, b], [c, d]], correction=False, lambda_="log-likelihood"
            ).statistic
            assert abs(found) == pytest.approx(expected, abs=1e-9)


def test_keyness_of_counts_that_broadcast() -> None:
    found = keyness([[5, 0], [0, 5]], [[5], [5]], [5, 5], 10)
    np.testing.assert_allclose(found, np.array([[1, -1], [-1, 1]]) * 20 * log(2))
    assert keyness([3, 2], 5, [3, 2], 5).tolist() == [0, 0]
    assert keyness(0, 0, 0, 0) == 0


def test_key_terms_are_those_of_one_cluster() -> None:
    labels = np.array([0, 0, 0, 1, 1, 1])
    terms = [
        ["Fired", "worker"],
        ["fired ", "it"],
        ["said", "it"],
        ["fined", "it"],
        ["fined"],
        ["said", "man"],
    ]
    named = key_terms(terms, labels)
    # "said" is rarer in the first cluster than in the second; "it" is a stop word.
    assert [label.label for label in named[0]] == ["fired", "worker", "it"]
    assert [label.label for label in named[1]] == ["fined", "man", "said"]
    assert named[0][0].score == pytest.approx(slow_keyness(2, 6, 2, 11))
    assert key_terms(terms, labels, top=1)[0] == named[0][:1]
    assert key_terms([[], ["ran"]], np.array([0, 1])) == [(), (("ran", 0.0),)]


def test_key_terms_of_one_cluster_are_its_most_frequent() -> None:
    named = key_terms([["b"], ["c"], ["c"], ["a"], ["was"]], np.zeros(5, dtype=int))
    assert [label.label for label in named[0]] == ["c", "b", "a", "was"]


def test_stop_words_name_a_cluster_of_stop_words() -> None:
    terms = [["was"], ["was"], ["is"], ["led"], ["ran"], ["ran"], ["is"], ["is"]]
    named = key_terms(terms, np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    # Most terms of the first cluster are stop words, but not of the second.
    assert [[label.label for label in labels] for labels in named] == [["was", "led"], ["ran", "is"]]


def test_words_and_stop_words() -> None:
    assert words_of("The court's 12 men fined_him: so") == ["The", "court", "men", "fined", "him"]
    assert has_only_stop_words("Was it")
    assert has_only_stop_words("it's")
    assert not has_only_stop_words("was angry at")
    assert not has_only_stop_words("fire")


def test_weak_clusters_have_a_reason() -> None:
    labels = np.repeat([0, 1, 2, 3], [10, 10, 2, 10])
    triggers = [*["fined"] * 10, *["was"] * 6, *["is"] * 3, "led", *["ran"] * 2, *["was"] * 8, "led", ""]
    documents = [*["a"] * 9, "b", *["a", "b"] * 5, *["a"] * 2, *["b", ""] * 5]
    assert weaknesses(triggers, documents, labels) == [
        "9 of 10 mentions are in one document, a",
        "9 of 10 triggers are stop words: was, is",
        "fewer than 3 mentions",
        "",
    ]


def test_one_document_and_unknown_documents_are_no_reason() -> None:
    labels = np.zeros(4, dtype=int)
    assert weaknesses(["ran"] * 4, ["a"] * 4, labels) == [""]
    assert weaknesses(["ran"] * 4, [""] * 4, labels) == [""]
    both = weaknesses(["was"] * 5, ["a"] * 4 + ["b"], np.array([0, 0, 0, 0, 1]))
    assert both[0] == "4 of 4 mentions are in one document, a; 4 of 4 triggers are stop words: was"


def test_majority_type_by_the_alphabet_where_tied() -> None:
    assert majority_type(["b", "a", "", "", ""]) == ("a", 1)
    assert majority_type(["b", "a", "b"]) == ("b", 2)
    assert majority_type([""]) == ("", 0)


def test_vectors_without_a_direction_are_told() -> None:
    opposite = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    with pytest.raises(EventformersError, match="the centroid of cluster 0"):
        cluster_centroids(opposite, np.array([0, 0]))


FRAME_NAMES = ["Attack", "Besieging", "Birth"]
FRAMES = Frames(
    FRAME_NAMES,
    [f"about {name}" for name in FRAME_NAMES],
    {"Attack": {"Besieging"}, "Act": {*FRAME_NAMES[:2]}},
    0,
)
FRAME_VECTORS = np.array([[0, 1], [1, 0], [3, 4]], dtype=np.float32)
CENTROIDS = np.array([[1.0, 0.0], [0.0, 1.0]])


def test_nearest_definitions_first() -> None:
    linked = name_clusters(CENTROIDS, FRAMES.names, FRAME_VECTORS, top=2)
    assert [[frame.label for frame in frames] for frames in linked] == [
        ["Besieging", "Birth"],
        ["Attack", "Birth"],
    ]
    assert linked[0][1].score == pytest.approx(0.6)


def test_descendants_are_valid_targets() -> None:
    assert valid_frames(["Act", "Birth"], FRAMES.descendants) == {"Act", *FRAME_NAMES}
    assert valid_frames([], FRAMES.descendants) == set()
    cosines = label_cosines(CENTROIDS, FRAME_VECTORS, FRAME_NAMES)
    for mapped, ranks in ((("Attack", "Besieging"), [1, 3]), (("Unknown", "Birth"), [float("inf"), 2])):
        valid = [valid_frames([frame], FRAMES.descendants) for frame in mapped]
        assert label_ranks(cosines, FRAME_NAMES, valid) == ranks


def test_loads_frames_and_counts_those_without_a_definition(tmp_path: Path) -> None:
    file = tmp_path / "frames.jsonl"
    lines = [
        '{"name": "Act", "definition": "Somebody acts.", "parents": []}',
        '{"name": "Attack", "definition": "", "parents": ["Act"]}',
        '{"name": "Raid", "definition": "A raid.", "parents": ["Attack"]}',
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    frames = load_frames(file)
    assert frames.names == ["Act", "Raid"]
    assert frames.left_out == 1
    assert frames.descendants["Act"] == {"Attack", "Raid"}
    file.write_text(lines[1] + "\n", encoding="utf-8")
    with pytest.raises(EventformersError, match="no frame with a definition"):
        load_frames(file)


def test_all_frames_of_the_public_file(shared_data: Path) -> None:
    frames = load_frames(shared_data / "framenet" / "frames.jsonl")
    assert len(frames.names) + frames.left_out == 1221
    assert "Besieging" in frames.descendants["Attack"]


def read(folder: Path, text: str) -> list[ListedType]:
    path = folder / "types.csv"
    path.write_text(text, encoding="utf-8")
    return read_type_list(path)


def test_columns_besides_the_name_are_optional(tmp_path: Path) -> None:
    assert read(tmp_path, "name\nArrest\n") == [ListedType("Arrest", "", (), "")]
    text = 'name,definition,examples,family\nArrest,"Police, seize",a [seized] b | jail |,Crime\nWin,,,\n'
    assert read(tmp_path, text) == [
        ListedType("Arrest", "Police, seize", ("a [seized] b", "jail"), "Crime"),
        ListedType("Win", "", (), ""),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title\nArrest\n", "the column 'title'; accepted: name, definition, examples, family"),
        ("definition\nArrest\n", "no column name"),
        ("name,definition\nWin,x\nWin,y\n", r"types\.csv, line 3: .*the name 'Win' again"),
        ("name,definition\n,x\n", r"types\.csv, line 2: .*a type without a name"),
        ("name,examples\nWin,a [ ] b\n", r"types\.csv, line 2: .*an empty trigger"),
        ("name,examples\nWin,[a] b [c]\n", r"types\.csv, line 2: .*several triggers"),
        ("name\n", "at least one type"),
    ],
)
def test_malformed_lists_name_the_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataFormatError, match=told):
        read(tmp_path, text)


def test_a_list_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"no such file; accepted: a CSV file, or political"):
        read_type_list(tmp_path / "none.csv")


def test_packaged_lists() -> None:
    political = read_type_list("political")
    assert political == read_type_list(PACKAGED["political"])
    assert 18 <= len(political) <= 25
    assert all(one.definition and one.family and len(one.examples) >= 3 for one in political)
    assert all("[" in example for one in political for example in one.examples)
    assert 10 <= len(read_type_list(FAMILIES)) <= 14


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_a_type_is_the_mean_of_its_label_and_examples(encoder: EventEncoder) -> None:
    types = [
        ListedType("arrest", "police seize", ("Police [seized] him.", "jail"), ""),
        ListedType("win", "", (), ""),
    ]
    found = type_vectors(types, encoder)
    labels = unit(encoder.encode(["arrest", "arrest: police seize", "win", "jail"]))
    mention = {"text": "Police seized him.", "trigger_start": 7, "trigger_end": 13}
    read = unit(encode_mentions(encoder, [mention], trigger_input="span").embeddings)[0]
    assert found[0] == pytest.approx(unit(unit(labels[0] + labels[1]) + read + labels[3]), abs=1e-5)
    assert found[1] == pytest.approx(labels[2], abs=1e-5)
