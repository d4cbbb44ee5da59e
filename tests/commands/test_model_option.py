"""The model of embed, complete, next-event and evaluate: an argument, an option, or the packaged encoder."""

from __future__ import annotations

import pytest

from eventformers import cli
from eventformers.commands.options import model_and_argument, take_model
from eventformers.errors import EventformersError
from eventformers.evaluation import core
from eventformers.inference.chains import next_event
from eventformers.inference.commonsense import complete
from eventformers.inference.encoding import event_files

NOTE = "no model named: using the packaged encoder sentence-transformers/all-MiniLM-L6-v2"
EVENTS = ["police | arrested | thief", "judge | sentenced | thief"]
LINES = {
    "embed": (event_files, "embed_file", ["embed"], ["events.csv"], ["-o", "vectors.parquet"]),
    "complete": (complete, "complete", ["complete"], ["umbrella, UsedFor"], []),
    "file": (next_event, "next_event", ["next-event"], ["chain.txt"], []),
    "chain": (next_event, "next_event", ["next-event"], EVENTS, []),
    "evaluate": (core, "evaluate", ["evaluate"], [], ["--task", "hard_similarity"]),
}


class CalledError(Exception):
    """Raised instead of the work of a command."""


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(
    "given", [["my-model"], ["--model", "my-model"], []], ids=["argument", "option", "none"]
)
def test_the_model_may_be_an_argument_an_option_or_absent(
    name: str, given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, function, command, words, rest = LINES[name]
    calls = []

    def stop(*arguments: object, **options: object) -> None:
        calls.append(arguments)
        raise CalledError

    monkeypatch.setattr(module, function, stop)
    with pytest.raises(CalledError):
        cli.main([*command, *given, *words, *rest])
    [(model, *others)] = calls
    assert model == ("my-model" if given else None)
    if words:
        assert others[0] in (words, words[0])
    assert (NOTE in capsys.readouterr().err) == (not given)


def test_too_many_arguments_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EventformersError, match=r"received 3 arguments: .*accepted: MODEL FILE, FILE alone"):
        model_and_argument(None, ["a", "b", "c"], "FILE")
    with pytest.raises(EventformersError, match="received the model mico alone; accepted: mico QUERY"):
        model_and_argument(None, ["mico"], "QUERY")
    with pytest.raises(SystemExit):
        cli.main(["next-event", "mico"])
    assert "received the model mico alone; accepted: mico CHAIN" in capsys.readouterr().err
    with pytest.raises(EventformersError, match="received 2 arguments"):
        model_and_argument("model", ["a", "b"], "FILE")


def test_a_model_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["evaluate", "one", "--model", "other", "--task", "hard_similarity"])
    assert stop.value.code == 2
    assert "received MODEL 'one' and --model 'other'; accepted: one" in capsys.readouterr().err
    assert take_model("other", ["one"], first_is_model=True) == ("other", ["one"])
