"""Runs the code cells of a notebook in one namespace, as a kernel does, and keeps what they print and draw.

    python tests/support/notebooks.py docs/notebooks/events.ipynb

runs a notebook in an empty folder and writes its outputs into it. A kernel would be a dozen more packages.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The code cells of a notebook, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cells(notebook: dict[str, Any]) -> None:
    """Run the code cells from top to bottom and give each its number and its outputs.

    The value of a cell's last expression is not shown: the cells print what they want to show. A figure that
    is open at the end of a cell is one of its outputs.

    Args:
        notebook: the notebook, changed in place.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), start=1):
        code = compile(ast.parse("".join(cell["source"])), f"<cell {number}>", "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)  # noqa: S102 - the notebook is ours
        cell["execution_count"] = number
        cell["outputs"] = [
            *([_stream(printed.getvalue())] if printed.getvalue() else []),
            *(_figure(place) for place in plt.get_fignums()),
        ]
        plt.close("all")


def _stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}


def _figure(number: int) -> dict[str, Any]:
    image = io.BytesIO()
    plt.figure(number).savefig(image, format="png", dpi=70, bbox_inches="tight")
    data = {"image/png": base64.b64encode(image.getvalue()).decode(), "text/plain": ["<Figure>"]}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def main(path: Path) -> None:
    """Run a notebook and write its outputs into it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        try:
            run_cells(notebook)
        finally:
            os.chdir(here)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
