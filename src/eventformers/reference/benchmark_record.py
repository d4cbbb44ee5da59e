"""The tables of a benchmark's record, which docs include."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventformers.errors import DataFormatError
from eventformers.model_cards.markdown import cell, code, table


def benchmark_tables(record: Mapping[str, Any]) -> str:
    """The tables of a record in Markdown, with the machine, what failed and what was left out.

    Args:
        record: what `benchmarks/gpu.py` writes: the machine, and `parts` with `title`, `note`, `rows`,
            `failures` and `left_out`.
    """
    rate = record["peak_bf16_flops"] / 1e12
    lines = [
        f"{code(record['command'])} on {cell(record['device'])}, {record['cores']} processor cores, Python "
        f"{record['python']}, torch {record['torch']}. A product of two large bfloat16 matrices reaches "
        f"{rate:,.1f} TFLOP/s there. The weights of the encoder are {cell(record['weights'])}."
    ]
    for part in record["parts"]:
        lines += ["", f"**{part['title']}**", ""]
        if part["rows"]:
            header = list(part["rows"][0])
            lines += [
                table(header, [[cell(row.get(name, "")) for name in header] for row in part["rows"]]),
                "",
            ]
        if part["note"]:
            lines += [part["note"], ""]
        lines += [f"- Failed: {cell(failure)}" for failure in part["failures"]]
        lines += [f"- Left out when the time was over: {cell(name)}" for name in part["left_out"]]
    return "\n".join(lines).rstrip()


def recorded_tables(path: Path) -> str:
    """The tables of a record file.

    Raises:
        DataFormatError: the file is absent or no record.
    """
    try:
        return benchmark_tables(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataFormatError(path, None, str(error), "a record that benchmarks/gpu.py wrote") from error
