"""The metric as a Hugging Face Space, with one JSON box for each input and the scores as JSON.

The Space of every metric runs this file: publishing a metric puts it beside the metric's own files.
"""

from __future__ import annotations

import json
from pathlib import Path

import evaluate

NAME = next(Path(__file__).parent.glob("*_impl.py")).name.removesuffix("_impl.py")
"""Name of the metric in this folder. A Space runs in a folder with another name."""


def score(*boxes: str) -> dict[str, object]:
    """Compute the scores of the metric.

    Args:
        boxes: one JSON list for each of the metric's inputs, in their declared order.

    Raises:
        ValueError: a box is not a JSON list, or the metric rejects the values.
    """
    metric = evaluate.load(str(Path(__file__).with_name(f"{NAME}.py")), keep_in_memory=True)
    inputs = {}
    for name, box in zip(metric.features, boxes, strict=True):
        try:
            inputs[name] = json.loads(box)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name}: {error}; accepted: a JSON list") from error
        if not isinstance(inputs[name], list):
            raise ValueError(f"{name}: found {type(inputs[name]).__name__}; accepted: a JSON list")
    return metric.compute(**inputs)


def main() -> None:
    """Serve the page."""
    # Imported here: only a Space has gradio, which the metric does not need.
    import gradio

    def answer(*boxes: str) -> dict[str, object]:
        try:
            return score(*boxes)
        except (TypeError, ValueError) as error:
            raise gradio.Error(str(error)) from error

    metric = evaluate.load(str(Path(__file__).with_name(f"{NAME}.py")), keep_in_memory=True)
    gradio.Interface(
        fn=answer,
        inputs=[gradio.Textbox(label=f"{name} (JSON list)", lines=4) for name in metric.features],
        outputs=gradio.JSON(label="scores"),
        title=NAME,
        description=metric.description,
        article=metric.inputs_description,
    ).launch()


if __name__ == "__main__":
    main()
