"""The tables of a benchmark record, for docs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventformers.errors import DataFormatError
from eventformers.markdown import cell, table


def benchmark_tables(record: Mapping[str, Any]) -> str:
    """Format the tables of a record in Markdown, with the machine, failures and skipped parts.

    Args:
        record: the record of `benchmarks/gpu.py`: the machine, and `parts` with `title`, `note`, `rows`,
            `failures` and `left_out`.
    """
    rate = record["peak_bf16_flops"] / 1e12
    lines = [
        f"{cell(record['device'])}, {record['cores']} processor cores, Python {record['python']}, torch "
        f"{record['torch']}. A product of two large bfloat16 matrices reaches {rate:,.1f} TFLOP/s. The "
        f"weights of the encoder are {cell(record['weights'])}."
    ]
    for part in record["parts"]:
        lines += ["", f"**{part['title']}**", ""]
        if part["rows"]:
            header = list(part["rows"][0])
            lines += [
                table(header, [[str(row.get(name, "")) for name in header] for row in part["rows"]]),
                "",
            ]
        if part["note"]:
            lines += [part["note"], ""]
        lines += [f"- Failed: {cell(failure)}" for failure in part["failures"]]
        lines += [f"- Left out when the time was over: {cell(name)}" for name in part["left_out"]]
    return "\n".join(lines).rstrip()


def recorded_tables(path: Path) -> str:
    """Format the tables of a record file.

    Raises:
        DataFormatError: the file is missing or not a record.
    """
    try:
        return benchmark_tables(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataFormatError(path, None, str(error), "a record written by benchmarks/gpu.py") from error
