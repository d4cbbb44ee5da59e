"""The command line: its commands in the order of the help, and its error output."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from eventformers import __version__
from eventformers.commands.evaluation import compare, evaluate, leaderboard, result_add
from eventformers.commands.explore import explore, mcp
from eventformers.commands.hub import data_build, data_list, push, release
from eventformers.commands.inference import complete, embed, extract, ground, induce, next_event
from eventformers.commands.options import console, errors
from eventformers.commands.training import demo, plot, reproduce, train
from eventformers.terminal import describe_fault, one_line, quiet_libraries
from eventformers.trainers.process_group import leaving_process_group

app = typer.Typer(
    help="Event representation learning: train, evaluate, embed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
data_app = typer.Typer(help="Build datasets from raw files and publish them.", no_args_is_help=True)
app.add_typer(data_app, name="data")
result_app = typer.Typer(help="Add published scores to the leaderboard.", no_args_is_help=True)
app.add_typer(result_app, name="result")
for command in (
    *(explore, mcp, embed, extract, next_event, compare, induce, ground, leaderboard, push, release),
    *(demo, train, evaluate, complete, plot, reproduce),
):
    app.command()(command)
data_app.command("push")(push)
data_app.command("list")(data_list)
data_app.command("build")(data_build)
result_app.command("add")(result_add)
INTERRUPTED = 130


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"eventformers {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Event representation learning: train, evaluate, embed."""


@cache
def _parser() -> Callable[..., object]:
    """Build the parser of all commands once; `app` builds a new one at each call."""
    return typer.main.get_command(app)


def _accepted(error: Any) -> str:
    """List what is accepted for a missing method, paper or table, and for an argument too many."""
    missing, names = getattr(getattr(error, "param", None), "name", ""), list[str]()
    if missing == "method":
        from eventformers.methods import main_methods

        names = sorted(main_methods())
    elif missing in ("paper", "table"):
        from eventformers.reproduction.tables import paper_tables

        tables = paper_tables()
        names = sorted(tables if missing == "paper" else tables.get(error.ctx.params["paper"], ()))
    elif "extra argument" in error.message and any(one.name == "data" for one in error.ctx.command.params):
        names = ["data as --data"]
    return f"; accepted: {', '.join(names)}" if names else ""


@leaving_process_group()
def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; print a user's error as one line on standard error and exit with code 2.

    Args:
        arguments: arguments after the program's name; None takes them from the command line.
    """
    quiet_libraries()
    # Shells expand `~` at the start of a word only, not after `--output=`.
    words = [
        re.sub(r"^(--[\w-]+=)~(?=/|$)", lambda found: f"{found[1]}{Path.home()}", word)
        for word in (sys.argv[1:] if arguments is None else arguments)
    ]
    try:
        # In standalone mode a wrong argument prints a box of several lines, and Ctrl-C prints nothing.
        code = _parser()(words, prog_name="eventformers", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if hasattr(error, "format_message"):
            # A wrong command line; without a message, an empty one printed the help.
            path = getattr(getattr(error, "ctx", None), "command_path", "eventformers")
            told = one_line(str(error.format_message())).rstrip(".")
            message: str | None = f"{told}{_accepted(error)}; see {path} --help" if told else ""
        elif (message := describe_fault(error)) is None:
            raise
        if message:
            errors.print(f"error: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    if code == INTERRUPTED:
        errors.print(
            "interrupted; run the command again; train and extract continue with --resume", highlight=False
        )
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
