"""The display of fairness: what is drawn is what the reports say."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

pytest.importorskip("matplotlib")

from skdp.evaluation import FairnessDisplay
from skdp.metrics import fairness_report
from tests.conftest import often

TRUE = [1, 1, 0, 0, 1, 1, 0, 0, 1, 0]
PREDICTED = [1, 0, 1, 0, 1, 1, 1, 0, 1, 0]
SEX = [*"FFFFFMMMMM"]
RACE = [*"bwbwwbwwww"]
RATES = ["selection rate", "true positive rate", "false positive rate"]


def lines(axes):
    """Read a panel: the label of each line, and the dots on it as (report, value), and the bars."""
    labels = [tick.label1.get_text() for tick in axes.yaxis.get_major_ticks()]
    dots = [
        (labels[round(place)], line.get_label(), float(value))
        for line in axes.lines
        if not line.get_label().startswith("_")
        for value, place in zip(*line.get_data(), strict=True)
    ]
    bars = [tuple(path[:, 0]) for bar in axes.collections for path in bar.get_segments()]
    return labels, dots, bars


def of(report, pattern):
    rows = report[report["metric"].str.contains(pattern)]
    return rows["value"].tolist(), list(zip(rows["lower"], rows["upper"], strict=True))


def chunks(values):
    return pa.chunked_array([values])


@pytest.mark.parametrize("column", often([list, np.array, pd.Series, pl.Series, chunks], [list, chunks]))
def test_dots_and_bars_are_the_values_and_intervals_of_the_report(column):
    report = fairness_report(
        column(TRUE),
        column(PREDICTED),
        column(SEX),
        privileged="M",
        positive_label=1,
        by_group=True,
        confidence_level=0.9,
    )
    display = FairnessDisplay({"predictions": report}).plot()
    titles = [axes.get_title(loc="left") for axes in display.axes_]
    assert titles == [*RATES, "Differences (0 is parity)", "Ratios (1 is parity)"]
    for name, axes in zip(RATES, display.axes_, strict=False):
        labels, dots, bars = lines(axes)
        values, ends = of(report, f"^{name.replace(' ', '_')}$")
        assert labels == [*"FM"]
        assert [(label, value) for label, _, value in dots] == list(zip("FM", values, strict=True))
        assert bars == ends
    for axes, pattern in zip(display.axes_[3:], ("difference", "impact|ratio"), strict=True):
        labels, dots, bars = lines(axes)
        rows = report[report["metric"].str.contains(pattern)]
        named = zip(rows["metric"].map(report.attrs["labels"]), rows["group"], strict=True)
        assert labels == [f"{metric}, F" if group == "F" else metric for metric, group in named]
        values, ends = of(report, pattern)
        assert [value for _, _, value in dots] == values
        assert bars == ends
    assert display.data.columns.tolist() == ["report", "metric", "definition", "group", "value", "lower", "upper"]
    for name in ("metric", "group", "value", "upper"):
        assert display.data[name].tolist() == pytest.approx(report[name].tolist())


def test_an_interval_of_a_ratio_without_an_end_stays_in_the_panel():
    report = pd.DataFrame({"metric": ["disparate impact"], "value": [0.5], "lower": [0.1], "upper": [np.inf]})
    (axes,) = FairnessDisplay({"a": report}).plot().axes_
    assert len(axes.collections[0].get_segments()) == 1
    assert axes.get_xlim()[1] == pytest.approx(1.05)
    assert axes.lines[-1].get_xdata() == [1, 1]


def reports():
    raw = fairness_report(TRUE, PREDICTED, SEX, privileged="M", positive_label=1, confidence_level=0.9)
    naive = fairness_report(TRUE, PREDICTED, RACE, privileged="w", positive_label=1)
    return {"raw": raw, "naive": naive}


def test_several_reports_are_side_by_side():
    display = FairnessDisplay(reports()).plot()
    *rates, axes, ratios = display.axes_
    assert [panel.get_title(loc="left") for panel in rates] == RATES
    assert lines(ratios)[0] == ["disparate impact"]
    labels, dots, bars = lines(axes)
    assert labels == ["statistical parity difference", "equal opportunity difference", "average odds difference"]
    both = reports()
    for name, report in both.items():
        drawn = {label: value for label, which, value in dots if which == name}
        expected = report[report["metric"].str.contains("difference")].set_index("metric")["value"].to_dict()
        assert drawn == {report.attrs["labels"][metric]: value for metric, value in expected.items()}
    assert len(bars) == 3
    places = [line.get_ydata() for line in axes.lines if line.get_label() in both]
    assert (places[0] < places[1]).all()
    assert axes.lines[-1].get_xdata() == [0, 0]
    (legend,) = FairnessDisplay({"a": both["raw"], "b": both["raw"]}).plot().figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "90 % interval"]
