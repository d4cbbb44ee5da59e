"""A user's own chain, continued by candidates or by the events of a corpus."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from chain_rows import event, events

import eventformers
from eventformers import HeterEventModel, cli
from eventformers.datasets_scripts.building import build_dataset
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.chains.next_event import next_event, read_events
from eventformers.inference.chains.scorers import chain_scorer
from eventformers.inference.encode import load_encoder
from eventformers.inference.search import index_folder

CHAIN = events("police arrested thief", "judge sentenced thief", "thief left city")
CANDIDATES = events("thief escaped -", "storm flooded city", "team won -", "mayor visited city", "team won -")


@pytest.fixture(scope="module", params=["tiny_encoder", "tiny_heterevent"])
def encoder(request):
    return load_encoder(request.getfixturevalue(request.param), device="cpu")


@pytest.mark.parametrize("block", [1, 2, 16_384])
def test_candidates_come_by_their_scores(encoder, monkeypatch, capsys, block):
    monkeypatch.setattr("eventformers.inference.chains.next_event.BLOCK_CANDIDATES", block)
    found = next_event(encoder, CHAIN, candidates=CANDIDATES, top=3, show_progress=True)
    assert capsys.readouterr().err.strip() == "", "a bar of an unknown number goes away"
    distinct = CANDIDATES[:4]
    (scores,) = chain_scorer(encoder).score_choices([CHAIN], [distinct])
    order = np.argsort(-scores)[:3]
    assert [candidate.event for candidate in found.candidates] == [distinct[place] for place in order]
    assert [candidate.score for candidate in found.candidates] == pytest.approx(scores[order], abs=1e-6)
    assert found.candidates[0].text == " ".join(filter(None, distinct[order[0]].values()))
    assert (found.considered, found.left_out) == (4, 0)
    assert json.loads(json.dumps(found.to_dict()))["chain"] == [dict(one) for one in CHAIN]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_reads_the_encoder_s_own_vectors(tiny_encoder, tmp_path, dtype):
    model = HeterEventModel.from_encoder(tiny_encoder, event_dim=32, chain_dim=32, event_skip=True)
    model.save_pretrained(tmp_path)
    load_encoder(tiny_encoder).tokenizer.save_pretrained(tmp_path)
    full, half = (
        chain_scorer(load_encoder(tmp_path, device="cpu", dtype=precision)).score_choices(
            [CHAIN], [CANDIDATES]
        )
        for precision in (None, dtype)
    )
    np.testing.assert_allclose(half[0], full[0], atol=0.05)


def test_several_processes_read_roles_as_one_does(tiny_heterevent):
    encoder = load_encoder(tiny_heterevent, device="cpu")
    elsewhere = replace(encoder, model=SimpleNamespace(config=encoder.model.config))
    assert elsewhere.reads_chains


def test_a_chain_of_one_event_and_one_candidate_are_defined(encoder):
    found = next_event(encoder, ["police | arrested | thief"], candidates=["storm | flooded | city"])
    assert len(found.candidates) == found.considered == 1
    assert next_event(encoder, "police | arrested | thief", candidates=CANDIDATES).chain == (CHAIN[0],)
    same = next_event(encoder, [CHAIN[0]] * 4, candidates=[CHAIN[0]])
    assert np.isfinite(same.candidates[0].score)


def test_of_a_long_chain_the_latest_events_are_read_and_the_others_told(encoder):
    with pytest.warns(UserWarning, match="has 3 events; the latest 2 are used, and the first 1 are left out"):
        found = next_event(encoder, CHAIN, candidates=CANDIDATES, max_events=2)
    assert found.chain == tuple(CHAIN[1:])
    assert found.left_out == 1
    assert found.candidates == next_event(encoder, CHAIN[1:], candidates=CANDIDATES).candidates


def test_the_events_of_a_corpus_are_candidates_but_for_those_of_the_chain(tiny_encoder, tmp_path):
    encoder = load_encoder(tiny_encoder, device="cpu")
    folder = build_dataset("event_chains", "chains", output=tmp_path / "chains")
    splits = load_built(folder, "chains", builder="event_chains")
    held = {tuple(one.values()) for rows in splits.values() for chain in rows["events"] for one in chain}
    first = next(iter(splits.values()))[0]["events"]
    asked = [{role: text.upper() for role, text in one.items()} for one in first[:2]]
    with pytest.warns(UserWarning, match="tokens and were truncated"):
        found = next_event(encoder, asked, corpus=folder, top=10**6)
    assert {tuple(one.event.values()) for one in found.candidates} == held - {
        tuple(one.values()) for one in first[:2]
    }
    assert [one.score for one in found.candidates] == sorted(
        (one.score for one in found.candidates), reverse=True
    )


@pytest.fixture
def corpus(tmp_path):
    """A file of 40 distinct events, of which two differ from an event of the chain in case only."""
    names = [f"thief{number} left city | {number}" for number in range(38)]
    path = tmp_path / "corpus.jsonl"
    rows = [dict(zip(("subject", "predicate", "object"), name.split(" "), strict=False)) for name in names]
    rows += [{role: text.upper() for role, text in one.items()} for one in CHAIN[:2]]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]), encoding="utf-8")
    return path


@pytest.mark.parametrize("index", [None, "index"])
def test_a_corpus_of_the_chain_s_own_events_is_an_error(encoder, tmp_path, index):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{' | '.join(one.values())}\n" for one in CHAIN), encoding="utf-8")
    with pytest.raises(EventformersError, match="only events of the chain"):
        next_event(encoder, CHAIN, corpus=corpus, index=index and tmp_path / index)


@pytest.mark.parametrize("block", [7, 16_384])
def test_an_index_of_a_corpus_gives_its_best_events(encoder, corpus, tmp_path, monkeypatch, block):
    monkeypatch.setattr("eventformers.inference.chains.next_event.BLOCK_CANDIDATES", block)
    plain = next_event(encoder, CHAIN, corpus=corpus, top=100)
    built = next_event(encoder, CHAIN, corpus=corpus, index=tmp_path / "index", top=100)
    monkeypatch.setattr(
        "eventformers.inference.chains.next_event.distinct_blocks",
        lambda events: pytest.fail("read the corpus again"),
    )
    opened = next_event(encoder, CHAIN, index=tmp_path / "index", top=100)
    assert built == opened
    assert (plain.considered, built.considered, len(built.candidates)) == (38, 40, 38)
    assert [one.event for one in built.candidates] == [one.event for one in plain.candidates]
    assert [one.score for one in built.candidates] == pytest.approx(
        [one.score for one in plain.candidates], abs=1e-6
    )


def test_an_approximate_search_reports_its_recall(tiny_heterevent, tmp_path):
    encoder = load_encoder(tiny_heterevent, device="cpu")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"thief{place} | left | city\n" for place in range(1_100)), encoding="utf-8")
    # Otherwise PyTorch gives this warning once in a process.
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "The given NumPy array is not writable")
            exact = next_event(encoder, CHAIN, corpus=corpus, index=tmp_path / "index", top=3)
            found = next_event(encoder, CHAIN, index=tmp_path / "index", search="ivf", top=3)
    finally:
        torch.set_warn_always(False)
    assert exact.recall is None
    assert 0 < found.recall <= 1
    assert {one.text for one in found.candidates} <= {f"thief{place} left city" for place in range(1_100)}
    with pytest.raises(UnknownNameError, match="kind of search"):
        next_event(encoder, CHAIN, index=tmp_path / "index", search="hnsw")


def test_a_table_of_events_is_a_corpus(encoder, tmp_path):
    table = tmp_path / "events.csv"
    table.write_text("subject,predicate,object\nstorm,flooded,city\n", encoding="utf-8")
    found = next_event(encoder, CHAIN, corpus=table)
    assert [one.text for one in found.candidates] == ["storm flooded city"]


def test_a_folder_is_no_event(encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").mkdir()
    with pytest.raises(EventformersError, match="my-model: a folder; accepted: a file of events"):
        next_event(encoder, "my-model", candidates=CANDIDATES)
    assert read_events("police searched house on 9/11", "the chain")
    assert read_events("[Applause]", "the chain")[0]["predicate"] == "[Applause]"


def test_an_index_knows_how_its_vectors_were_made(corpus, tiny_encoder, tmp_path):
    next_event(tiny_encoder, CHAIN, corpus=corpus, index=tmp_path / "index", device="cpu")
    for changed in ({"event_order": "predicate_first"}, {"dtype": "bfloat16"}, {"truncate_dim": 8}):
        other = load_encoder(tiny_encoder, device="cpu", **changed)
        with pytest.raises(EventformersError, match=r"built by the model .*; received the model"):
            next_event(other, CHAIN, index=tmp_path / "index")


def test_an_index_of_another_corpus_or_model_is_an_error(encoder, corpus, tiny_modernbert, tmp_path):
    folder = tmp_path / "index"
    with pytest.raises(EventformersError, match="holds no index, and to build it there, a corpus is needed"):
        next_event(encoder, CHAIN, index=folder)
    next_event(encoder, CHAIN, corpus=corpus, index=folder)
    with pytest.raises(EventformersError, match="built by the model"):
        next_event(tiny_modernbert, CHAIN, index=folder, device="cpu")
    with pytest.raises(EventformersError, match="candidates and an index"):
        next_event(encoder, CHAIN, candidates=CANDIDATES, index=folder)
    corpus.write_text(json.dumps(event("storm flooded city")) + "\n", encoding="utf-8")
    with pytest.raises(EventformersError, match="built from events with the fingerprint"):
        next_event(encoder, CHAIN, corpus=corpus, index=folder)
    found = next_event(encoder, CHAIN, corpus=corpus, index=folder, overwrite=True)
    assert [one.text for one in found.candidates] == ["storm flooded city"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chain.txt", "police | arrested | thief\n\n | closed | road\nescaped\n"),
        (
            "chain.jsonl",
            '{"subject": "police", "predicate": "arrested", "object": "thief"}\n| closed |road\nescaped\n',
        ),
        ("chain.jsonl", '["police", "arrested", "thief"]\n["", "closed", "road"]\n"escaped"\n'),
        (
            "chain.json",
            '[{"subject": "police", "predicate": "arrested", "object": "thief"},\n'
            ' {"predicate": "closed", "object": "road"}, {"predicate": "escaped", "object": null}]',
        ),
        ("chain.csv", "subject,predicate,object\npolice,arrested,thief\n,closed,road\n,escaped,\n"),
    ],
)
def test_files_of_events_are_read(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    expected = [event("police arrested thief"), event("- closed road"), event("- escaped -")]
    assert read_events(tmp_path / name, "the chain") == read_events(str(tmp_path / name), "x") == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "police | arrested | thief\na | b\n", "line 2: found 2 fields; accepted: .subject"),
        ("a.txt", "police | arrested | thief\n | -- | \n", "line 2: found an event without any word"),
        ("a.txt", "\n\n", "the chain of .*: found no event"),
        ("a.txt", '{"predicate": 3}\n', "line 1: found the predicate 3"),
        ("a.txt", '{"predicate": false, "subject": "a"}\n', "line 1: found the predicate False"),
        ("a.txt", '{"predicate": "a", "subj": "b"}\n', "line 1: found the key 'subj' .*'subject'"),
        ("a.txt", '{"predicate": "a", "subject": "\\ud800"}\n', "line 1: found half of a surrogate pair"),
        ("a.txt", '{"predicate": ' + "[" * 100_000, "line 1: found JSON that is nested too deeply"),
        ("a.csv", "subj,predicate,object\na,b,c\n", "line 1: found the column 'subj' .*'subject'"),
        ("a.txt", '{"subject": \n', "line 1: found invalid JSON"),
        ("a.json", "[3]", "a.json, event 1: found int"),
        ("a.json", "[", "found invalid JSON"),
    ],
)
def test_a_file_that_holds_no_events_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(EventformersError, match=message):
        read_events(tmp_path / name, "the chain")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chain": []}, "the chain: found no event"),
        ({"chain": ["a | b | c", "- | - | -"]}, "the chain, event 2: found an event without any word"),
        ({"chain": "missing.txt"}, "missing.txt: no such file"),
        ({"chain": CHAIN, "candidates": []}, "the candidates: found no event"),
        ({"chain": CHAIN, "candidates": CANDIDATES, "corpus": "x"}, "candidates and a corpus"),
        ({"chain": CHAIN, "top": 0}, "top is 0"),
        ({"chain": CHAIN, "max_events": 0}, "max_events is 0"),
        ({"chain": CHAIN, "search": "ivf"}, "search='ivf' without an index"),
        ({"chain": CHAIN, "overwrite": True}, "overwrite without an index"),
    ],
)
def test_what_cannot_be_continued_is_told(tiny_encoder, arguments, message):
    with pytest.raises(EventformersError, match=message):
        next_event(tiny_encoder, **arguments)


def test_the_command_prints_candidates_and_json(tiny_heterevent, tmp_path, capsys):
    (tmp_path / "candidates.txt").write_text("thief | escaped |\nteam | won |\n", encoding="utf-8")
    options = ["--candidates", str(tmp_path / "candidates.txt"), "--device", "cpu"]
    chain = ["police | arrested | thief", "thief | left | city"]
    for extra in ([], ["--json"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["next-event", str(tiny_heterevent), *chain, *options, *extra])
        assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert "of 2 candidates" in printed
    found = json.loads(printed.splitlines()[-1])
    assert {one["text"] for one in found["candidates"]} == {"thief escaped", "team won"}
    assert eventformers.next_event is next_event


def test_all_files_of_an_index_are_checked_on_request(encoder, corpus, tmp_path, monkeypatch):
    folder = tmp_path / "index"
    found = next_event(encoder, CHAIN, corpus=corpus, index=folder)
    assert next_event(encoder, CHAIN, index=folder, verify=True) == found
    monkeypatch.setattr(index_folder, "DIGESTED_BYTES", 10)
    vectors = bytearray((folder / "events.npy").read_bytes())
    vectors[-1] ^= 1
    (folder / "events.npy").write_bytes(vectors)
    next_event(encoder, CHAIN, index=folder)
    with pytest.raises(EventformersError, match=r"events\.npy: damaged"):
        next_event(encoder, CHAIN, index=folder, verify=True)
    with pytest.raises(EventformersError, match="verify without an index"):
        next_event(encoder, CHAIN, candidates=CANDIDATES, verify=True)
