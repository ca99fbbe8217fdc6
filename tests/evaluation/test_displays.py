"""Every display says what it cannot draw when it is made, and shows no value."""

from __future__ import annotations

import io
import re
from html import unescape

import pandas as pd
import pytest
from matplotlib import pyplot, rc_context

from skdp.evaluation import (
    CountEstimateDisplay,
    FairnessDisplay,
    LeakageDisplay,
    MarginalDisplay,
    PrivacyCurveDisplay,
)
from tests.conftest import each

LEAKAGE = {
    "release": ["r"],
    "attack": ["with the report"],
    "accuracy": [0.5],
    "lower": [0.4],
    "upper": [0.6],
    "baseline": [0.5],
    "bayes_bound": [float("nan")],
}
COUNTS = {"count": [1.0], "lower": [0.0], "upper": [2.0]}
CURVE = {"epsilon": [1.0], "repeat": [0], "fold": [0], "metric": ["m"], "group": ["all"], "value": [0.5]}
SHARES = pd.DataFrame({"real": [0.5, 0.5], "synthetic": [0.4, 0.6]}, index=pd.Index(["a", "b"], name="x"))
FAIRNESS = {"metric": ["selection rate"], "value": [0.5], "group": ["a"]}


def test_what_fits_is_taken():
    LeakageDisplay(pd.DataFrame(LEAKAGE))
    CountEstimateDisplay(pd.DataFrame(COUNTS))
    PrivacyCurveDisplay(pd.DataFrame(CURVE))
    MarginalDisplay({("x",): SHARES})
    FairnessDisplay({"one": pd.DataFrame(FAIRNESS)})


@pytest.mark.parametrize(
    "kind", [LeakageDisplay, CountEstimateDisplay, PrivacyCurveDisplay, MarginalDisplay, FairnessDisplay]
)
@pytest.mark.parametrize("given", [None, [1], 3, "secret", {"a": 1}, {("a",): 1}, len], ids=repr)
def test_what_is_no_table_is_a_type_error(kind, given):
    with pytest.raises(TypeError, match="must be"):
        kind(given)


@each(
    "kind given error message",
    [
        (LeakageDisplay, pd.DataFrame({"secret": [1]}), TypeError, "data must be a DataFrame with the columns release"),
        (
            LeakageDisplay,
            pd.DataFrame(LEAKAGE | {"accuracy": ["secret"]}),
            TypeError,
            "numbers in the columns accuracy",
        ),
        (LeakageDisplay, pd.DataFrame(LEAKAGE | {"attack": ["secret"]}), ValueError, "the column attack of data"),
        (LeakageDisplay, pd.DataFrame(LEAKAGE)[:0], ValueError, "at least one row"),
        (CountEstimateDisplay, pd.DataFrame(COUNTS | {"lower": ["secret"]}), TypeError, "numbers in the columns lower"),
        (
            PrivacyCurveDisplay,
            pd.DataFrame(CURVE | {"epsilon": ["secret"]}),
            TypeError,
            "numbers in the columns epsilon",
        ),
        (PrivacyCurveDisplay, pd.DataFrame(CURVE).drop(columns="value"), ValueError, "curve lacks the columns"),
        (MarginalDisplay, {}, ValueError, "at least one table"),
        (MarginalDisplay, {"x": SHARES}, TypeError, "named by tuples of one or two"),
        (
            MarginalDisplay,
            {("x",): SHARES["real"]},
            TypeError,
            "must be a DataFrame with the columns real and synthetic",
        ),
        (MarginalDisplay, {("x", "y"): SHARES}, ValueError, "must be indexed by 2 columns"),
        (MarginalDisplay, {("x",): SHARES.astype(str)}, TypeError, "numbers in the columns real, synthetic"),
        (
            FairnessDisplay,
            {"a": pd.DataFrame(FAIRNESS | {"value": ["secret"]})},
            TypeError,
            "numbers in the columns value",
        ),
    ],
)
def test_what_does_not_fit_is_explained(kind, given, error, message):
    with pytest.raises(error, match=message) as caught:
        kind(given)
    assert "secret" not in str(caught.value)


def test_edges_and_true_counts_are_checked():
    with pytest.raises(TypeError, match="edges must be a mapping"):
        MarginalDisplay({("x",): SHARES}, edges=[1, 2])
    estimates = pd.DataFrame(COUNTS, index=pd.Index(["a"], name="x"))
    with pytest.raises(TypeError, match="true_counts must hold numbers"):
        CountEstimateDisplay(estimates, true_counts=pd.Series(["secret"], index=["a"]))


PAY = ["$10k - $50k", r"$\frac{1$"]
ROWS = pd.DataFrame({"pay $ of $": PAY * 2, "_age": [1, 2, 3, 4]})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (
            lambda: CountEstimateDisplay.from_estimates(
                pd.DataFrame({name: values * 2 for name, values in COUNTS.items()}, index=pd.Index(PAY, name="$x$"))
            ),
            ["$x$", *PAY],
        ),
        (
            lambda: MarginalDisplay.from_tables(ROWS, ROWS, ["pay $ of $", ("pay $ of $", "_age")]),
            ["pay $ of $, TVD 0.000", "pay $ of $", "_age", *PAY],
        ),
        (
            lambda: FairnessDisplay.from_reports(
                {name: pd.DataFrame(FAIRNESS | {"group": [PAY[0]]}) for name in ["$a$", "_b"]}
            ),
            ["$a$", "_b", f"selection rate, {PAY[0]}"],
        ),
        (
            lambda: LeakageDisplay(pd.DataFrame(LEAKAGE | {"release": [PAY[1]]})).plot(),
            PAY[1:],
        ),
        (
            lambda: PrivacyCurveDisplay.from_curve(
                pd.concat([pd.DataFrame(CURVE | {"metric": "$m$", "group": name}) for name in [*PAY, "_b"]])
            ),
            ["$m$", *PAY, "_b"],
        ),
    ],
)
def test_names_and_values_are_drawn_as_they_are(draw, words):
    with rc_context({"svg.fonttype": "none"}):
        figure = draw().figure_
        figure.savefig(written := io.StringIO(), format="svg")
    drawn = {unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", written.getvalue())}
    assert set(words) <= drawn
    pyplot.close(figure)
