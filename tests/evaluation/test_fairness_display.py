"""The display of fairness: what is drawn is what the reports say."""

import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.dummy import DummyClassifier

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

from skdp.evaluation import FairnessDisplay  # noqa: E402
from skdp.metrics import fairness_report  # noqa: E402
from tests.conftest import each  # noqa: E402

TRUE = [1, 1, 0, 0, 1, 1, 0, 0, 1, 0]
PREDICTED = [1, 0, 1, 0, 1, 1, 1, 0, 1, 0]
SEX = [*"FFFFFMMMMM"]
RACE = [*"bwbwwbwwww"]
RATES = ["selection rate", "true positive rate", "false positive rate"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


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


@pytest.mark.parametrize("column", [list, np.array, pd.Series, pl.Series, lambda values: pa.chunked_array([values])])
def test_dots_and_bars_are_the_values_and_intervals_of_the_report(column):
    display = FairnessDisplay.from_predictions(
        column(TRUE), column(PREDICTED), column(SEX), privileged="M", positive_label=1, confidence_level=0.9
    )
    report = fairness_report(
        TRUE, PREDICTED, SEX, privileged="M", positive_label=1, by_group=True, confidence_level=0.9
    )
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
    assert not any("Theil" in label for axes in display.axes_ for label in lines(axes)[0])


def test_all_rows_are_kept_as_tidy_data():
    display = FairnessDisplay.from_predictions(TRUE, PREDICTED, SEX, privileged="M", positive_label=1, name="mine")
    report = fairness_report(
        TRUE, PREDICTED, SEX, privileged="M", positive_label=1, by_group=True, confidence_level=0.95
    )
    assert display.data.columns.tolist() == ["report", "metric", "definition", "group", "value", "lower", "upper"]
    assert (display.data["report"] == "mine").all()
    for name in ("metric", "group", "value", "upper"):
        assert display.data[name].tolist() == pytest.approx(report[name].tolist())


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_groups_of_several_columns_are_written_with_commas(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        display = FairnessDisplay.from_predictions(TRUE, PREDICTED, make({"sex": SEX, "race": RACE}), positive_label=1)
    labels, _, _ = lines(display.axes_[0])
    assert labels == ["F, b", "F, w", "M, b", "M, w"]


@pytest.mark.long
def test_many_groups_are_rows_of_all_rates():
    rng = np.random.default_rng(0)
    groups = pd.DataFrame({"a": rng.integers(0, 8, 4_000), "b": rng.integers(0, 4, 4_000)})
    groups = groups[(groups["a"] > 0) | (groups["b"] > 0)]
    true, predicted = rng.integers(0, 2, (2, len(groups)))
    display = FairnessDisplay.from_predictions(true, predicted, groups, privileged=(1, 1), positive_label=1)
    n_rates, names = 3, [f"{a}, {b}" for a in range(8) for b in range(4) if a or b]
    for axes in display.axes_[:n_rates]:
        assert lines(axes)[0] == names
        assert len(axes.lines[0].get_ydata()) == 31
    # Metrics of all groups but the privileged have the same rows.
    others = [axes for axes in display.axes_[n_rates:] if lines(axes)[0] == names]
    assert [axes.get_title(loc="left") for axes in others] == [
        "statistical parity difference",
        "equal opportunity difference",
        "average odds difference",
        "disparate impact",
    ]
    assert [label for label, _, _ in lines(others[0])[1]] == [name for name in names if name != "1, 1"]
    # Names of rows are once in a line of panels, and the figure fits a page.
    drawn = [axes.yaxis.get_tick_params()["labelleft"] for axes in display.axes_[:n_rates]]
    assert drawn == [True, False, False]
    assert display.figure_.get_size_inches()[1] < 30
    display.figure_.canvas.draw()


def test_an_interval_of_a_ratio_without_an_end_stays_in_the_panel():
    report = pd.DataFrame({"metric": ["disparate impact"], "value": [0.5], "lower": [0.1], "upper": [np.inf]})
    (axes,) = FairnessDisplay.from_reports({"a": report}).axes_
    assert len(axes.collections[0].get_segments()) == 1
    assert axes.get_xlim()[1] == pytest.approx(1.05)
    assert axes.lines[-1].get_xdata() == [1, 1]


def test_an_estimator_predicts_once():
    class Counting(DummyClassifier):
        calls = 0

        def predict(self, X):
            Counting.calls += 1
            return np.array(PREDICTED)

    X = np.zeros((10, 1))
    estimator = Counting().fit(X, TRUE)
    display = FairnessDisplay.from_estimator(estimator, X, TRUE, SEX, privileged="M", positive_label=1)
    expected = FairnessDisplay.from_predictions(TRUE, PREDICTED, SEX, privileged="M", positive_label=1)
    assert Counting.calls == 1
    assert display.data["report"].unique().tolist() == ["Counting"]
    pd.testing.assert_frame_equal(display.data.iloc[:, 1:], expected.data.iloc[:, 1:])


def reports():
    raw = fairness_report(TRUE, PREDICTED, SEX, privileged="M", positive_label=1, confidence_level=0.9)
    naive = fairness_report(TRUE, PREDICTED, RACE, privileged="w", positive_label=1)
    return {"raw": raw, "naive": naive}


def test_several_reports_are_side_by_side():
    display = FairnessDisplay.from_reports(reports())
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


def test_metrics_of_other_names_are_written_without_underscores():
    metrics = ["recall_rate", "recall_rate", "recall_difference"]
    report = pd.DataFrame({"metric": metrics, "group": ["a", "b", None], "value": [0.2, 0.5, -0.3]})
    display = FairnessDisplay.from_reports({"mine": report})
    assert [panel.get_title(loc="left") for panel in display.axes_] == ["recall rate", "Differences (0 is parity)"]
    assert lines(display.axes_[0])[:2] == (["a", "b"], [("a", "mine", 0.2), ("b", "mine", 0.5)])
    assert lines(display.axes_[1])[0] == ["recall difference"]
    assert display.figure_.legends == []


@pytest.mark.parametrize(
    ("given", "said"),
    [({}, "90 % interval"), ({"confidence_level": 0.995}, "99.5 % interval")],
)
def test_the_legend_names_the_reports_and_the_level(given, said):
    raw = reports()["raw"]
    display = FairnessDisplay.from_reports({"a": raw, "b": raw}, **given)
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", said]
    raw.attrs = {}
    (legend,) = FairnessDisplay.from_reports({"a": raw}).figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["interval"]


@pytest.mark.long
def test_what_is_undefined_is_said():
    with pytest.warns(UserWarning, match="undefined"):
        display = FairnessDisplay.from_predictions([1, 0, 0, 0], [1, 0, 1, 0], [*"aabb"], positive_label=1)
    rates = display.axes_[1]
    assert rates.get_title(loc="left") == "true positive rate"
    assert [text.get_text() for text in rates.texts] == ["undefined"]
    assert lines(rates)[0][round(rates.texts[0].get_position()[1])] == "b"
    display.figure_.canvas.draw()


def test_the_panels_may_be_given():
    figure, panels = plt.subplots(1, 5)
    display = FairnessDisplay.from_predictions(TRUE, PREDICTED, SEX, positive_label=1, ax=panels)
    assert display.figure_ is figure
    assert display.axes_.tolist() == panels.tolist()
    assert len(plt.get_fignums()) == 1
    with pytest.raises(ValueError, match=r"ax must have 5 panels \(selection rate, .*Ratios \(1 is parity\)\), got 1"):
        display.plot(ax=panels[0])


@each(
    "given, message",
    [
        ({}, "at least one report"),
        (pd.DataFrame(), "must be a mapping"),
        ({"a": [1]}, "report 'a' must be a DataFrame"),
        ({"a": pd.DataFrame({"metric": ["x"]})}, "columns metric and value"),
        ({"a": pd.DataFrame({"metric": ["theil_index"], "value": [1.0]})}, "rows of rates, differences or ratios"),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        FairnessDisplay.from_reports(given)
    assert not plt.get_fignums()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "skdp\[plot\]"'):
        FairnessDisplay.from_predictions(TRUE, PREDICTED, SEX, positive_label=1)


def test_each_value_of_control_features_is_a_report():
    table = fairness_report(
        [0, 1] * 4,
        [1] * 8,
        list("aabbaabb"),
        positive_label=1,
        control_features=pd.DataFrame({"site": [1] * 4 + [2] * 4}),
    )
    display = FairnessDisplay.from_reports({"model": table})
    assert display.data["report"].unique().tolist() == ["model, 1", "model, 2"]
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["model, 1", "model, 2"]
