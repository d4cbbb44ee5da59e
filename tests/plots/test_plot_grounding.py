"""The picture of event grounding."""

from __future__ import annotations

from matplotlib.figure import Figure

from eventformers.plots.figures import draw_recall

CURVES = {
    "first": {"whole": {4: 10.0, 8: 20.0, 16: 25.0}, "atomic": {4: 30.0, 8: 40.0, 16: 45.0}},
    "second": {"whole": {4: 50.0, 8: 60.0}, "atomic": {4: 70.0, 8: 80.0, 32: 90.0}},
}


def _drawn() -> Figure:
    return draw_recall(CURVES)


def test_each_model_has_a_line_of_all_gold_events_and_a_dotted_one_of_the_atomic_event() -> None:
    (axes,) = _drawn().axes
    lines = axes.get_lines()
    assert len(lines) == 2 * len(CURVES)
    for (name, curves), whole, atomic in zip(CURVES.items(), lines[::2], lines[1::2], strict=True):
        for line, expected in ((whole, curves["whole"]), (atomic, curves["atomic"])):
            assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) == expected
        assert whole.get_label() == name
        assert (whole.get_linestyle(), atomic.get_linestyle()) == ("-", ":")
        assert whole.get_color() == atomic.get_color()
        assert whole.get_marker() == atomic.get_marker()


def test_models_are_told_apart() -> None:
    figure = _drawn()
    (axes,) = figure.axes
    first, _, second, _ = axes.get_lines()
    assert first.get_color() != second.get_color()
    assert first.get_marker() != second.get_marker()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(CURVES)


def test_axes_say_what_they_show() -> None:
    (axes,) = _drawn().axes
    assert axes.get_xscale() == "log"
    assert axes.get_xticks().tolist() == [4, 8, 16, 32]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "16", "32"]
    assert "dotted: only the atomic event" in axes.get_xlabel()
    assert axes.get_ylabel() == "recall (%)"


def test_more_models_than_markers_or_colours_are_drawn() -> None:
    (axes,) = draw_recall({str(number): CURVES["first"] for number in range(12)}).axes
    assert len(axes.get_lines()) == 24
