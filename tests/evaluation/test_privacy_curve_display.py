"""The display of privacy curves: every line, band and baseline that is drawn is that of the scores."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder  # noqa: E402

from skdp import RandomizedResponseEncoder  # noqa: E402
from skdp.evaluation import PrivacyCurveDisplay, compare_to_baseline, privacy_curve  # noqa: E402
from tests.conftest import each  # noqa: E402

COLUMNS = ["epsilon", "repeat", "fold", "metric", "group", "value", "n_train", "n_test"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def scores(repeats=3, groups=("all", "F", "M"), metrics=("accuracy", "roc_auc"), epsilons=(math.inf, 4.0, 0.5)):
    rng = np.random.default_rng(0)
    keys = product(epsilons, range(repeats), range(2), metrics, groups)
    return pd.DataFrame([(*key, rng.random(), 100, 50) for key in keys], columns=COLUMNS)


def part(curve, metric, group, epsilon):
    chosen = (curve["metric"] == metric) & (curve["group"] == group) & (curve["epsilon"] == epsilon)
    return curve[chosen]


def bands(axes):
    return [collection.get_paths()[0].vertices for collection in axes.collections]


def legend(display):
    (legend,) = display.figure_.legends
    return [text.get_text() for text in legend.get_texts()]


def test_lines_are_means_and_bands_are_deviations_over_repeats():
    curve = scores()
    display = PrivacyCurveDisplay.from_curve(curve)
    assert [axes.get_title(loc="left") for axes in display.axes_] == ["accuracy", "roc auc"]
    for axes, metric in zip(display.axes_, ["accuracy", "roc_auc"], strict=True):
        lines, levels = axes.lines[::2], axes.lines[1::2]
        for line, level, band, group in zip(lines, levels, bands(axes), ["all", "F", "M"], strict=True):
            assert line.get_xdata().tolist() == [0.5, 4.0]
            parts = [part(curve, metric, group, epsilon) for epsilon in (0.5, 4.0)]
            assert line.get_ydata() == pytest.approx([rows["value"].mean() for rows in parts])
            spreads = [np.std(rows.groupby("repeat")["value"].mean(), ddof=1) for rows in parts]
            ends = {(0.5, side) for side in (-1, 1)} | {(4.0, side) for side in (-1, 1)}
            drawn = {(x, round(float(y), 9)) for x, y in band}
            means = dict(zip((0.5, 4.0), zip(line.get_ydata(), spreads, strict=True), strict=True))
            assert {(x, round(float(means[x][0] + side * means[x][1]), 9)) for x, side in ends} == drawn
            assert level.get_ydata()[0] == pytest.approx(part(curve, metric, group, math.inf)["value"].mean())
            assert level.get_linestyle() == "--"
            assert level.get_color() == line.get_color()
        assert axes.get_xscale() == "log"
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.5", "4"]
    assert legend(display) == ["everybody", "F", "M", "without noise", "± 1 standard deviation over 3 repeats"]


def test_one_repeat_shows_the_range_of_the_folds():
    curve = scores(repeats=1, groups=("all",), metrics=("accuracy",))
    display = PrivacyCurveDisplay.from_curve(curve)
    (band,) = bands(display.axes_[0])
    for epsilon in (0.5, 4.0):
        values = part(curve, "accuracy", "all", epsilon)["value"]
        assert {y for x, y in band if x == epsilon} == {values.min(), values.max()}
    assert legend(display)[-1] == "lowest to highest of 2 folds"
    several = PrivacyCurveDisplay(scores()).plot(band="range")
    assert legend(several)[-1] == "lowest to highest of 2 folds × 3 repeats"


def test_no_band_and_no_baseline():
    display = PrivacyCurveDisplay.from_curve(scores(epsilons=(0.5, 4.0)), band=None)
    assert legend(display) == ["everybody", "F", "M"]
    assert display.summary(band=None)[["low", "high"]].isna().all(axis=None)


def test_groups_have_colours_and_markers_of_their_own():
    display = PrivacyCurveDisplay.from_curve(scores(groups=("all", *range(5)), metrics=("accuracy",)))
    styles = [(line.get_color(), line.get_marker()) for line in display.axes_[0].lines[::2]]
    assert len({colour for colour, _ in styles}) == len({marker for _, marker in styles}) == 6


@pytest.mark.long
def test_many_groups_have_panels_of_their_own():
    curve = scores(groups=("all", *range(6)))
    display = PrivacyCurveDisplay.from_curve(curve)
    assert [axes.get_title(loc="left") for axes in display.axes_[:3]] == [
        "accuracy\neverybody", "accuracy\n0", "accuracy\n1"
    ]  # fmt: skip
    assert len(display.axes_) == 14
    for axes, group in zip(display.axes_[7:], ("all", *range(6)), strict=True):
        own = [part(curve, "roc_auc", group, epsilon)["value"].mean() for epsilon in (0.5, 4.0)]
        everybody = [part(curve, "roc_auc", "all", epsilon)["value"].mean() for epsilon in (0.5, 4.0)]
        drawn = [line.get_ydata() for line in axes.lines]
        assert any(line == pytest.approx(own) for line in drawn)
        assert any(line == pytest.approx(everybody) for line in drawn)
    assert len({axes.get_ylim() for axes in display.axes_[:7]}) == 1
    assert legend(display)[:2] == ["the group", "everybody"]


def test_differences_are_drawn_with_their_intervals():
    curve = scores(groups=("all", "F"), metrics=("accuracy",))
    display = PrivacyCurveDisplay.from_curve(curve, kind="difference")
    expected = compare_to_baseline(curve)
    (axes,) = display.axes_
    for line, band, group in zip(axes.lines, bands(axes), ["all", "F"], strict=False):
        own = expected[expected["group"] == group]
        assert line.get_ydata() == pytest.approx(own["difference"])
        assert set(own["lower"]) | set(own["upper"]) <= set(band[:, 1])
    assert "95 % interval" in legend(display)
    summary = display.summary(kind="difference", band=None)
    assert summary["low"].isna().all()
    assert (summary["n_undefined"] == 0).all()
    with pytest.raises(ValueError, match="kind must be"):
        display.plot(kind="ratio")
    with pytest.raises(ValueError, match="no baseline"):
        PrivacyCurveDisplay.from_curve(curve[np.isfinite(curve["epsilon"])], kind="difference")


def test_scores_that_are_not_finite_are_left_out_and_counted():
    curve = scores(groups=("all", None), metrics=("accuracy",))
    curve.loc[0, "value"] = math.nan
    at_four = curve.index[(curve["epsilon"] == 4.0) & (curve["group"] == "all")]
    curve.loc[at_four[:2], "value"] = [math.inf, -math.inf]  # a whole repeat
    display = PrivacyCurveDisplay.from_curve(curve)
    summary = display.summary().set_index(["group", "epsilon"])
    assert len(summary) == 6
    assert summary["n_undefined"].tolist() == [0, 2, 1, 0, 0, 0]
    assert summary.loc[("all", math.inf), "mean"] == pytest.approx(
        part(curve, "accuracy", "all", math.inf)["value"].mean()
    )
    known = curve.loc[at_four[2:]]
    mean, spread = known["value"].mean(), known.groupby("repeat")["value"].mean().std()
    drawn = summary.loc[("all", 4.0), ["mean", "low", "high"]].tolist()
    assert drawn == pytest.approx([mean, mean - spread, mean + spread])
    assert summary.notna().all(axis=None)
    assert legend(display)[-1] == "without 3 of 36 scores, not finite"
    ranges = display.summary(band="range").set_index(["group", "epsilon"]).loc[("all", 4.0)]
    assert ranges[["low", "high"]].tolist() == [known["value"].min(), known["value"].max()]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_panel_without_a_finite_score_says_so_and_keeps_its_axis(value):
    curve = scores(metrics=("ratio", "accuracy"), groups=("all",))
    curve.loc[curve["metric"] == "ratio", "value"] = value
    display = PrivacyCurveDisplay.from_curve(curve)
    empty, full = display.axes_
    assert [text.get_text() for text in empty.texts] == ["no finite score"]
    assert list(full.texts) == []
    low, high = empty.get_xlim()
    assert 0.4 < low < 0.5
    assert 4.0 < high < 5.0
    display.figure_.canvas.draw()


def test_one_score_a_point_has_no_band():
    curve = scores(repeats=1)
    curve = curve[curve["fold"] == 0]
    for band in ("auto", "range", "std"):
        assert legend(PrivacyCurveDisplay.from_curve(curve, band=band)) == ["everybody", "F", "M", "without noise"]


def test_groups_of_several_columns_are_drawn():
    groups = ("all", ("F", "u"), ("M", "v"))
    curve = scores(groups=groups, metrics=("accuracy",))
    display = PrivacyCurveDisplay.from_curve(curve)
    assert legend(display)[:3] == ["everybody", "F, u", "M, v"]
    for line, group in zip(display.axes_[0].lines[::2], groups, strict=True):
        chosen = curve[[one == group for one in curve["group"]]]
        means = chosen.groupby("epsilon")["value"].mean()
        assert line.get_ydata() == pytest.approx(means.loc[[0.5, 4.0]].to_numpy())


def test_the_summary_has_the_order_of_the_curve():
    summary = PrivacyCurveDisplay(scores(groups=("M", "all", "F"))).summary()
    assert summary["metric"].unique().tolist() == ["accuracy", "roc_auc"]
    assert summary["group"].unique().tolist() == ["all", "M", "F"]
    assert summary["epsilon"].tolist() == [0.5, 4.0, math.inf] * 6


@pytest.mark.parametrize("number", [1, 2, pytest.param(5, marks=pytest.mark.long)])
def test_a_panel_for_each_metric(number):
    display = PrivacyCurveDisplay.from_curve(scores(metrics=[f"metric {place}" for place in range(number)]))
    assert len(display.axes_) == len(display.figure_.axes) == number
    figure, axes = plt.subplots(number, squeeze=False)
    assert display.plot(ax=axes) is display
    assert display.figure_ is figure
    assert axes[0, 0].get_legend() is not None
    with pytest.raises(ValueError, match=f"ax must have {number} panels, one for each metric, got {number + 1}"):
        display.plot(ax=plt.subplots(number + 1)[1])


def test_from_estimator_draws_what_the_function_returns():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"group": rng.choice(["a", "b"], 200)})
    y = np.where(rng.random(200) < 0.8, X["group"] == "a", X["group"] == "b")
    model = make_pipeline(RandomizedResponseEncoder(categories=[["a", "b"]]), OneHotEncoder(), LogisticRegression())
    options = {"param_name": "randomizedresponseencoder__epsilon", "epsilons": [1.0, 4.0], "random_state": 0, "cv": 2}
    display = PrivacyCurveDisplay.from_estimator(model, X, y, **options)
    pd.testing.assert_frame_equal(display.curve, privacy_curve(model, X, y, **options))
    assert display.axes_[0].get_title(loc="left") == "accuracy"


@each(
    "curve, band, error, message",
    [
        (scores().drop(columns="fold"), "auto", ValueError, r"curve lacks the columns \['fold'\]"),
        (scores(epsilons=(math.inf,)), "auto", ValueError, "curve must have rows of a finite epsilon"),
        (scores()[:0], "auto", ValueError, "curve must have rows of a finite epsilon"),
        ([1], "auto", TypeError, "curve must be a pandas DataFrame, got list"),
        (scores(), "95 %", ValueError, "band must be 'auto', 'std', 'range' or None, got '95 %'"),
        (scores(), 1, ValueError, "band must be"),
    ],
)
def test_wrong_inputs_are_named(curve, band, error, message):
    with pytest.raises(error, match=message):
        PrivacyCurveDisplay.from_curve(curve, band=band)
