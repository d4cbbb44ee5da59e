"""The command that compares results. It only calls the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from eventformers.commands.options import Overwrite, console, errors
from eventformers.terminal import visible_json

if TYPE_CHECKING:
    from eventformers.leaderboard.board import Board


def leaderboard(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR]...",
            help="Folders of runs and evaluations, or copies of model repositories. Default: this folder, if "
            "no repository is given.",
        ),
    ] = None,
    repo: Annotated[
        list[str] | None, typer.Option(help="Model repository on the Hub, ORG/NAME. Repeatable.")
    ] = None,
    author: Annotated[
        str | None, typer.Option(help="User or organization on the Hub: all its model repositories.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="Collection on the Hub: all its model repositories.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(help="Task to show. Repeatable.")] = None,
    sort: Annotated[
        str | None, typer.Option(help="Order of the rows: a task, model, parameters or speed.")
    ] = None,
    fingerprint: Annotated[
        list[str] | None,
        typer.Option(help="First digits of the fingerprint of the data to show. Repeatable."),
    ] = None,
    dataset_revision: Annotated[
        list[str] | None,
        typer.Option(help="First digits of the commit of the dataset to show. Repeatable."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page with sorting and filters; - prints it.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown; - prints it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare results of models, baselines and published scores on the same data."""
    from eventformers.errors import EventformersError
    from eventformers.files import is_standard_output, output_file
    from eventformers.leaderboard.board import leaderboard as read_leaderboard
    from eventformers.leaderboard.page import close_note, leaderboard_page, to_json, write_page
    from eventformers.leaderboard.page import markdown as markdown_of

    outputs = [path for path in (html, markdown) if path is not None]
    printed = [path for path in outputs if is_standard_output(path)]
    if len(printed) + json > 1:
        raise EventformersError("--html -, --markdown - and --json exclude each other; accepted: one of them")
    for path in outputs:
        if path not in printed:
            output_file(path)
    given = folders or ([] if repo or author or collection else [Path()])
    with errors.status("reading"):
        found = read_leaderboard(
            given,
            repositories=repo or [],
            author=author,
            collection=collection,
            tasks=task or [],
            fingerprints=fingerprint or [],
            dataset_revisions=dataset_revision or [],
            sort=sort,
        )
    written = []
    if html is not None:
        written.append(write_page(leaderboard_page(found, html.parent), html))
    if markdown is not None:
        written.append(write_page(markdown_of(found), markdown))
    if printed:
        return
    if json:
        typer.echo(visible_json(to_json(found)), nl=False)
        return
    for board in found.boards:
        console.print(_table(board))
    if note := close_note(found):
        console.print(note, soft_wrap=True)
    for sentence in found.left_out:
        console.print(sentence, soft_wrap=True)
    if written:
        console.print(f"Wrote {', '.join(map(str, written))}.", soft_wrap=True)


def result_add(
    task: Annotated[str, typer.Option(help="Task of the score.")],
    score: Annotated[
        float, typer.Option(help="Main score of the task: percent, 0 to 100; a correlation, -1 to 1.")
    ],
    model: Annotated[str, typer.Option(help="Name of the model or system.")],
    source: Annotated[str, typer.Option(help="Where it is published: a citation or an address.")],
    split: Annotated[str | None, typer.Option(help="Split of the score. Default: the task's own.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder that the leaderboard reads; default: this folder.")
    ] = Path(),
    overwrite: Overwrite = False,
) -> None:
    """Add a score of a paper to the leaderboard, apart from measured ones."""
    from eventformers.leaderboard.sources import add_published

    path = add_published(
        output, task=task, score=score, model=model, source=source, split=split, overwrite=overwrite
    )
    console.print(f"Wrote {path}; eventformers leaderboard {output} shows it.", soft_wrap=True)


def _table(board: Board) -> Table:
    from eventformers.leaderboard.board import KINDS
    from eventformers.leaderboard.page import (
        HEADINGS,
        cell_text,
        column_facts,
        count_text,
        rank_text,
        speed_text,
    )

    # The task's name instead of its title, since --task takes the name.
    titles = [Column(f"{column.task}\n{column_facts(column)}", justify="right") for column in board.columns]
    # Empty columns would waste space.
    has_variant = any(row.variant for row in board.rows)
    has_parameters = any(row.parameters for row in board.rows)
    shown = Table(
        Column("", justify="right"),
        Column("model", overflow="fold"),
        *(["variant"] if has_variant else []),
        Column("runs", justify="right"),
        *titles,
        *([Column("parameters", justify="right")] if has_parameters else []),
        Column("texts/s", justify="right"),
        title=board.title,
        title_justify="left",
    )
    for kind in KINDS:
        rows = [row for row in board.rows if row.kind == kind]
        if not rows:
            continue
        if kind != "model":
            shown.add_row("", Text(HEADINGS[kind], style="italic"), end_section=False)
        for row in rows:
            shown.add_row(
                rank_text(board, row),
                row.model,
                *([row.variant] if has_variant else []),
                str(row.runs or ""),
                *(
                    cell_text(cell, row, column)
                    for cell, column in zip(row.cells, board.columns, strict=True)
                ),
                *([count_text(row.parameters)] if has_parameters else []),
                speed_text(row),
            )
        shown.add_section()
    return shown
