"""Every display says what it cannot draw when it is made, draws names as they are, and shows no value in an error."""

from __future__ import annotations

import io
import re
import sys
from html import unescape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt
from matplotlib import rc_context

from skdp import Interval, evaluation
from skdp.evaluation import (
    CountEstimateDisplay,
    FairnessDisplay,
    MarginalDisplay,
    PrivacyCurveDisplay,
    ShapeDisplay,
)
from tests.conftest import each

COUNTS = {"count": [1.0], "lower": [0.0], "upper": [2.0]}
CURVE = {"epsilon": [1.0], "repeat": [0], "fold": [0], "metric": ["m"], "group": ["all"], "value": [0.5]}
CURVE |= {"n_train": [80], "n_test": [20]}
SHARES = pd.DataFrame({"real": [0.5, 0.5], "synthetic": [0.4, 0.6]}, index=pd.Index(["a", "b"], name="x"))
FAIRNESS = {"metric": ["selection rate"], "value": [0.5], "group": ["a"]}
COUNT_TABLE = pd.DataFrame(COUNTS, index=pd.Index(["a"], name="x"))
FUNCTION = SimpleNamespace(
    bins=Interval(0, 3, bins=3, missing=True),
    values=np.array([-1.0, 0, 1, 2]),
    std_error=np.full(4, 0.1),
    counts=np.full(4, 9.0),
    is_supported=np.full(4, True),
)
DISPLAYS = {
    CountEstimateDisplay: COUNT_TABLE,
    PrivacyCurveDisplay: pd.DataFrame(CURVE),
    MarginalDisplay: {("x",): SHARES},
    FairnessDisplay: {"one": pd.DataFrame(FAIRNESS)},
    ShapeDisplay: {"x": FUNCTION},
}


def test_every_display_is_among_them():
    public = {getattr(evaluation, name) for name in evaluation.__all__ if name.endswith("Display")}
    assert public == DISPLAYS.keys()


@each("kind", DISPLAYS)
def test_what_fits_is_drawn_in_a_new_figure_or_in_given_panels(kind):
    display = kind(DISPLAYS[kind])
    assert display.plot() is display
    assert len(plt.get_fignums()) == 1
    figure, panel = plt.subplots()
    assert display.plot(ax=panel) is display
    assert display.figure_ is figure
    with pytest.raises(ValueError, match=r"ax must have 1 panels.*, got 2"):
        display.plot(ax=plt.subplots(1, 2)[1])
    plt.close("all")


@each("kind", DISPLAYS)
def test_without_matplotlib_the_error_says_what_to_install(kind, monkeypatch):
    display = kind(DISPLAYS[kind])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        display.plot()


@each("kind", DISPLAYS)
@each("given", [None, [1], 3, "secret", {"a": 1}, {("a",): 1}, len])
def test_what_is_no_table_is_a_type_error(kind, given):
    with pytest.raises(TypeError, match="must be"):
        kind(given)


def changed(kind, **columns):
    table = DISPLAYS[kind]
    return table.assign(**columns)


@each(
    "kind given error message",
    [
        (CountEstimateDisplay, COUNT_TABLE[:0], ValueError, "estimates must have at least one row"),
        (CountEstimateDisplay, changed(CountEstimateDisplay, lower="secret"), TypeError, "in the columns lower"),
        (CountEstimateDisplay, COUNT_TABLE[["count"]], TypeError, "columns count, lower and upper"),
        (PrivacyCurveDisplay, changed(PrivacyCurveDisplay, epsilon="secret"), TypeError, "in the columns epsilon"),
        (PrivacyCurveDisplay, changed(PrivacyCurveDisplay, epsilon=np.inf), ValueError, "rows of a finite epsilon"),
        (PrivacyCurveDisplay, pd.DataFrame(CURVE).drop(columns="value"), TypeError, r"it lacks \['value'\]"),
        (MarginalDisplay, {}, ValueError, "marginals must hold at least one table"),
        (MarginalDisplay, {"x": SHARES}, TypeError, "named by tuples of one or two"),
        (MarginalDisplay, {("x",): SHARES["real"]}, TypeError, "a DataFrame with the columns real and synthetic"),
        (MarginalDisplay, {("x", "y"): SHARES}, ValueError, "must be indexed by 2 columns"),
        (MarginalDisplay, {("x",): SHARES.astype(str)}, TypeError, "numbers in the columns real, synthetic"),
        (ShapeDisplay, {}, ValueError, "shapes must hold at least one function"),
        (FairnessDisplay, {"a": pd.DataFrame({"metric": ["x"]})}, TypeError, "columns metric and value"),
        (FairnessDisplay, {"a": pd.DataFrame(FAIRNESS | {"value": ["secret"]})}, TypeError, "in the columns value"),
        (
            FairnessDisplay,
            {"a": pd.DataFrame({"metric": ["accuracy"], "value": [1.0]})},
            ValueError,
            "rows of rates, differences or ratios",
        ),
    ],
)
def test_what_does_not_fit_is_explained(kind, given, error, message):
    with pytest.raises(error, match=message) as caught:
        kind(given)
    assert "secret" not in str(caught.value)


@each(
    "make error message",
    [
        (lambda: MarginalDisplay({("x",): SHARES}).plot(max_values=1), ValueError, "max_values must be at least 2"),
        (lambda: MarginalDisplay({("x",): SHARES}).plot(max_values=2.5), TypeError, "max_values must be an int"),
        (lambda: MarginalDisplay({("x",): SHARES}, edges=[0, 1]), TypeError, "edges must be a mapping of column names"),
        (lambda: MarginalDisplay({("x",): SHARES}, values=0.1), TypeError, "values must be a mapping of column names"),
        (lambda: CountEstimateDisplay(COUNT_TABLE).plot(max_values=0), ValueError, "max_values must be at least 1"),
        (lambda: with_true(["secret"], ["a"]), TypeError, "true_counts must hold numbers"),
        (lambda: CountEstimateDisplay(COUNT_TABLE, true_counts=[1]), TypeError, "true_counts must be a Series, got l"),
        (lambda: with_true([1], ["secret"]), ValueError, "only labels that estimates has"),
        (lambda: with_true([1, 2], ["a", "a"]), ValueError, "each label once"),
        (lambda: with_true([1], [("a", "b")]), ValueError, "labels of 1 levels, got 2"),
        (lambda: PrivacyCurveDisplay(pd.DataFrame(CURVE)).plot(band="95 %"), ValueError, "band must be 'auto'"),
        (lambda: PrivacyCurveDisplay(pd.DataFrame(CURVE)).plot(kind="line"), ValueError, "kind must be 'score'"),
    ],
)
def test_what_cannot_be_drawn_is_explained(make, error, message):
    with pytest.raises(error, match=message) as caught:
        make()
    assert "secret" not in str(caught.value)
    assert not plt.get_fignums()


def with_true(counts, labels):
    index = pd.MultiIndex.from_tuples(labels) if isinstance(labels[0], tuple) else labels
    return CountEstimateDisplay(COUNT_TABLE, true_counts=pd.Series(counts, index=index))


PAY = ["$10k - $50k", r"$\frac{1$"]
ROWS = pd.DataFrame({"pay $ of $": PAY * 2, "_age": [1, 2, 3, 4]})


def draw_counts():
    table = {name: values * 2 for name, values in COUNTS.items()}
    return CountEstimateDisplay(pd.DataFrame(table, index=pd.Index(PAY, name="$x$"))).plot()


def draw_fairness():
    report = pd.DataFrame(FAIRNESS | {"group": [PAY[0]]})
    return FairnessDisplay({"$a$": report, "_b": report.assign(group=[("F", "u")])}).plot()


def draw_curve():
    groups = [*PAY, "_b", ("F", "u")]
    curves = [pd.DataFrame(CURVE | {"metric": "$m$", "group": [name]}) for name in groups]
    return PrivacyCurveDisplay(pd.concat(curves)).plot()


@pytest.mark.filterwarnings("error")
@each(
    "draw, words",
    [
        (draw_counts, ["$x$", *PAY]),
        (
            lambda: MarginalDisplay.from_tables(ROWS, ROWS, ["pay $ of $", ("pay $ of $", "_age")]),
            ["pay $ of $, TVD 0.000", "pay $ of $", "_age", *PAY],
        ),
        (draw_fairness, ["$a$", "_b", PAY[0], "F, u"]),
        (draw_curve, ["$m$", *PAY, "_b", "F, u"]),
    ],
)
@pytest.mark.long
def test_names_and_values_are_drawn_as_they_are(draw, words):
    with rc_context({"svg.fonttype": "none"}):
        draw().figure_.savefig(written := io.StringIO(), format="svg")
    drawn = {unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", written.getvalue())}
    assert set(words) <= drawn
