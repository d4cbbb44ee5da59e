"""The command `explore`: what it prints, and one line for each kind of bad input."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_lines import Outcome, run_command_line

from eventformers.exploration.explore import STEPS
from eventformers.exploration.page import WIDE_TABLES
from eventformers.extraction import extractor

STORY = "Anna opened the door. Anna closed the window. Anna went to the shop."
FRENCH = (
    "La femme a vu le voleur et elle a appelé la police, mais il était déjà parti de la ville avec la"
    " voiture. Le soir, son frère est rentré à la maison et elle a parlé avec lui de ce qui se passait. Il a"
    " dit que les voisins avaient vu un homme près de la porte, mais que personne ne savait qui il était."
)

Explore = Callable[..., Outcome]


@pytest.fixture
def explore(
    english_pipeline: str, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Explore:
    """Runs the command in a folder with `texts/story.txt`."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "story.txt").write_text(STORY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(
        *options: str,
        texts: str = "texts",
        pipeline: str | None = english_pipeline,
        types: Path | None = tiny_encoder,
    ) -> Outcome:
        given = ["--events", str(tiny_encoder), "--device", "cpu", "--no-stories"]
        if pipeline is not None:
            given += ["--pipeline", pipeline]
        if types is not None:
            given += ["--types", str(types)]
        return run_command_line(["explore", texts, "-o", "out", *given, *options])

    return run


def test_what_is_printed(explore: Explore, tmp_path: Path) -> None:
    outcome = explore()
    assert outcome["code"] == 0, outcome["errors"]
    for text in ("1 document", "3 events", "Wrote out"):
        assert text in outcome["output"]
    again = explore()
    assert "reused" in again["output"]
    assert "reused" not in outcome["output"]


def test_the_help_names_the_steps_to_skip() -> None:
    shown = " ".join(run_command_line(["explore", "--help"])["output"].replace("│", " ").split())
    for step in STEPS:
        # --format selects the wide tables.
        if step.name not in ("documents", "events") and step not in WIDE_TABLES:
            assert step.name in shown.partition("--skip")[2].partition("--processes")[0]


def refused(outcome: Outcome, message: str) -> None:
    printed = [line for line in outcome["errors"].splitlines() if not line.endswith("…")]
    assert outcome["code"] == 2
    (line,) = (line for line in printed if line.startswith("error: "))
    assert message in line
    assert "Traceback" not in outcome["errors"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--pipeline", "no_such"),
            "no spaCy pipeline 'no_such'; install the packaged English one with `pip install",
        ),
        (("--skip", "event"), "unknown step 'event'. Did you mean 'events'?"),
        (("--skip", "wide_csv"), "unknown step 'wide_csv'"),
        (("--skip", "map,network"), "unknown step (one for each --skip) 'map,network'."),
        (("--public",), "--public without --space"),
        (("--space", "no-owner"), "--space: received 'no-owner'"),
        (("--text-column", ""), "--text-column: found an empty name"),
        (("--min-chain-length", "1"), "min_chain_length: found 1; accepted: 2 or more"),
        (("--processes", "0"), "processes: found 0; accepted: 1 or more"),
        (("--batch-size", "0"), "--batch-size: received '0'"),
        (("--malformed", "ignore"), "unknown value of malformed"),
        (("--events", "no/such/model"), "no/such/model"),
    ],
)
def test_wrong_options(explore: Explore, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    refused(explore(*options), message)
    assert not (tmp_path / "out").exists(), "nothing is written before all settings are checked"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "(no files); accepted: .txt, .jsonl, .csv"),
        ({"a.pdf": b"%PDF-1.7"}, "(files: 1 with .pdf); accepted:"),
        ({"a.txt": b"%PDF-1.7"}, "a.txt: found a PDF file; accepted: plain text in UTF-8"),
        ({"a.txt": b"One.\nT\0wo"}, "a.txt, line 2: found a NUL character"),
        ({"a.txt": b"caf\xe9"}, "a.txt, line 1: found the byte 0xe9 at position 4; accepted: UTF-8 text"),
        ({"a.txt": b"", "b.txt": b" \n"}, "no document with text among 2 files;"),
        ({"a.txt": b""}, "no document with text among 1 file;"),
        (
            {"a.txt": FRENCH.encode()},
            "not in English, which the pipeline reads: 1 of 1 document (French: 1); acc",
        ),
        ({"a.txt": b"..."}, "running text in the language of the pipeline (en)"),
        ({"a.csv": b"content,id\nOne.,1\n"}, "a.csv, line 1: found the columns content, id; accepted: a"),
        ({"a.jsonl": b'{"text": "One."}\n{"txt": 1}\n'}, "a.jsonl, line 2: found the keys txt; accepted: a"),
    ],
)
def test_bad_texts(explore: Explore, tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    (tmp_path / "bad").mkdir()
    for name, content in files.items():
        (tmp_path / "bad" / name).write_bytes(content)
    refused(explore(texts="bad"), message)


def test_texts_that_do_not_exist(explore: Explore, tmp_path: Path) -> None:
    refused(explore(texts="nowhere"), "no raw data at")
    refused(explore(texts="no/where"), "no folder no/where, and no dataset with this id on the Hub")
    assert not (tmp_path / "out").exists()


def test_bad_texts_can_be_skipped(explore: Explore, tmp_path: Path) -> None:
    (tmp_path / "texts" / "b.txt").write_bytes(b"%PDF-1.7")
    (tmp_path / "texts" / "c.txt").write_text(FRENCH, encoding="utf-8")
    (tmp_path / "texts" / "d.docx").touch()
    outcome = explore("--malformed", "skip")
    assert outcome["code"] == 0, outcome["errors"]
    for text in ("1 malformed document", "1 file with unknown ending", "1 document in another language"):
        assert text in outcome["output"]
    assert "b.txt" in outcome["errors"]


def test_a_folder_of_others(explore: Explore, tmp_path: Path) -> None:
    refused(explore("-o", "texts"), "texts has story.txt but no exploration; accepted: a new folder")
    assert [path.name for path in (tmp_path / "texts").iterdir()] == ["story.txt"]


def test_without_a_pipeline(explore: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        def __init__(self, name: str) -> None:
            self.name = name

    installed: list[str] = []
    monkeypatch.setattr(extractor, "entry_points", lambda group: [Entry(name) for name in installed])
    refused(
        explore(pipeline=None), "no spaCy pipeline is installed; install the packaged English one with `pip"
    )
    installed += ["de_core_news_sm", "en_core_web_sm"]
    refused(explore(pipeline=None), "accepted: one of them as --pipeline: de_core_news_sm, en_core_web_sm")
    installed.append(extractor.PACKAGED_PIPELINE)
    assert extractor.installed_pipeline() == extractor.PACKAGED_PIPELINE
    monkeypatch.setattr(extractor, "find_spec", lambda name: None)
    refused(explore(pipeline=None), 'install it with `pip install "eventformers[extract]"`')


def test_ten_megabytes(explore: Explore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paragraph = f"{STORY} {STORY}\n\n"
    text = paragraph * (10 * 2**20 // len(paragraph))
    (tmp_path / "texts" / "story.txt").write_text(text, encoding="utf-8")
    outcome = explore("--skip", "events")
    assert outcome["code"] == 0, outcome["errors"]
    assert "105 documents" in outcome["output"]
    assert "Documents of more than 100,000 characters" in outcome["output"]


def test_the_packaged_encoder_groups_by_default(explore: Explore, tmp_path: Path) -> None:
    text = "The company bought a bank. It sold the bank to a rival, which was praised by investors."
    shutil.rmtree(tmp_path / "texts")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "news.txt").write_text(text, encoding="utf-8")
    outcome = explore(types=None)
    assert outcome["code"] == 0, outcome["errors"]
    assert "3 events" in outcome["output"]
