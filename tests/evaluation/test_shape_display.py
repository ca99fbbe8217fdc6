"""The display of additive models: steps, dots and intervals are those of the functions."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError

from skdp import DPAdditiveClassifier, DPAdditiveRegressor, DPLogisticRegression, Interval
from skdp.evaluation import ShapeDisplay
from tests.conftest import each

rng = np.random.default_rng(0)
X = pd.DataFrame({"age": rng.uniform(0, 90, 900), "job": rng.choice(["clerk", "nurse", "smith"], 900)})
DECLARED = {"bounds": {"age": (0, 90)}, "categories": {"job": ["clerk", "nurse", "smith", None]}, "random_state": 0}
NUMBER = X["age"] / 90 + (X["job"] == "nurse")
CLASS = np.digitize(NUMBER, [0.5, 1.2])


@pytest.fixture(scope="module")
def regressor():
    return DPAdditiveRegressor(8.0, target_bounds=(0, 2), **DECLARED).fit(X, NUMBER)


def test_steps_and_dots_are_the_function(regressor):
    display = ShapeDisplay.from_estimator(regressor, confidence_level=0.9)
    of_age, of_job = display.axes_
    age, job = regressor.shape_("age"), regressor.shape_("job")
    values, edges, _ = of_age.patches[0].get_data()
    assert edges.tolist() == list(age.bins.edges)
    assert values.tolist() == age.values[:-1].tolist()
    assert [text.get_text() for text in of_job.get_yticklabels()] == ["clerk", "nurse", "smith", "missing"]
    line, _, (bars,) = of_job.containers[0]
    assert line.get_xdata().tolist() == job.values.tolist()
    lengths = [np.ptp(segment[:, 0]) for segment in bars.get_segments()]
    assert lengths == pytest.approx(2 * 1.645 * job.std_error, rel=1e-3)
    hatched = [patch.get_x() for patch in of_age.patches if patch.get_hatch()]
    assert hatched == edges[:-1][~age.is_supported[:-1]].tolist()
    # None is missing.
    (hatched,) = [patch for patch in of_job.patches if patch.get_hatch()]
    assert (hatched.get_y(), hatched.get_height()) == (2.5, 1.0)
    plt.close("all")


def test_a_bin_of_missing_numbers_is_drawn_if_there_are_some():
    gaps = X.assign(age=X["age"].where(rng.random(len(X)) > 0.2))
    for table, is_drawn in ((X, False), (gaps, True)):
        # Little noise: counts of none are below one of a hundred.
        model = DPAdditiveRegressor(50.0, target_bounds=(0, 2), **DECLARED).fit(table, NUMBER)
        (axes,) = ShapeDisplay.from_estimator(model, ["age"]).axes_
        assert ("missing" in [text.get_text() for text in axes.texts]) == is_drawn
    plt.close("all")


def test_rare_values_may_be_left_out(regressor):
    (axes,) = ShapeDisplay.from_estimator(regressor, ["job"], max_values=3).axes_
    assert axes.get_title(loc="left") == "job (1 rarer values not drawn)"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["clerk", "nurse", "smith"]
    plt.close("all")


def test_each_class_has_a_function():
    model = DPAdditiveClassifier(5.0, classes=[0, 1, 2], **DECLARED).fit(X, CLASS)
    display = ShapeDisplay.from_estimator(model)
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["0", "1", "2", "interval may be too short"]
    assert legend.get_title().get_text() == "95 % interval, other columns given"
    display.figure_.draw_without_rendering()
    assert legend.get_window_extent().x0 >= 0
    assert legend.get_window_extent().x1 <= display.figure_.bbox.x1
    with pytest.raises(ValueError, match="classes must be 3, as shapes are of so many, got 2"):
        ShapeDisplay(display.shapes, classes=[0, 1])
    plt.close("all")


def test_it_is_drawn_at_once_and_needs_a_fitted_model(regressor):
    _, panels = plt.subplots(1, 2)
    assert ShapeDisplay.from_estimator(regressor, ax=panels).figure_ is panels[0].figure
    plt.close("all")
    with pytest.raises(TypeError, match=r"features must be a list of column names, as \['age'\], got a str"):
        ShapeDisplay.from_estimator(regressor, "age")
    with pytest.raises(NotFittedError, match="not fitted"):
        ShapeDisplay.from_estimator(DPAdditiveRegressor(1.0, target_bounds=(0, 2), **DECLARED))


def function(edges):
    n_bins = len(edges) - 1
    return SimpleNamespace(
        bins=Interval(edges=edges, real=True),
        values=np.linspace(-1, 1, n_bins),
        std_error=np.full(n_bins, 0.1),
        counts=np.full(n_bins, 9.0),
        is_supported=np.arange(n_bins) < n_bins - 1,
    )


def test_a_logarithm_is_used_only_where_most_edges_need_it():
    # The bins of ages are narrow, and most of them are in the middle.
    ages = [0.0, 17, *range(18, 70), 75, 90, 120]
    incomes = [0.0, 900, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000, 1_000_000]
    for edges, scale in ((ages, "linear"), (incomes, "symlog"), ([0.0, 1e6], "linear")):
        (axes,) = ShapeDisplay({"x": function(edges)}).plot().axes_
        assert axes.get_xscale() == scale
        assert axes.get_xlim() == (edges[0], edges[-1])
        plt.close("all")


@pytest.mark.long
@each("first", [1.0, 9.0, 11.0, 90.0, 900.0, 1_000.0, 4_000.0])
def test_ticks_of_a_logarithm_are_apart(first):
    edges = [0.0, first, *(first * np.array([2, 4, 8, 16])), first * 1_000_000]
    display = ShapeDisplay({"x": function(edges)}).plot()
    (axes,) = display.axes_
    display.figure_.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()]
    assert len(boxes) >= 3
    for left, right in itertools.pairwise(boxes):
        assert left.x1 < right.x0
    plt.close("all")


def test_the_axis_says_what_is_added_to(regressor):
    binary = DPAdditiveClassifier(5.0, classes=["no", "yes"], **DECLARED).fit(X, np.where(CLASS > 0, "yes", "no"))
    several = DPAdditiveClassifier(5.0, classes=[0, 1, 2], **DECLARED).fit(X, CLASS)
    for model, words in (
        (binary, "added to the logit of 'yes'"),
        (several, "added to the logit of the class"),
        (regressor, "added to the prediction"),
    ):
        of_age, of_job = ShapeDisplay.from_estimator(model, ["age", "job"]).axes_
        assert of_age.get_ylabel() == of_job.get_xlabel() == words
        plt.close("all")


def test_another_model_has_no_functions():
    with pytest.raises(TypeError, match="estimator must be an additive model, got DPLogisticRegression"):
        ShapeDisplay.from_estimator(DPLogisticRegression())


def test_the_legend_names_hatching_where_something_is_hatched():
    """Missing ages, of which there are none, are not supported, and are not drawn."""
    model = DPAdditiveRegressor(20.0, bounds=(0, 90), target_bounds=(0, 2), random_state=0)
    ages = X[["age"]]
    for table, is_hatched in ((ages, False), (np.exp(ages / 30), True)):
        display = ShapeDisplay.from_estimator(model.fit(table, NUMBER))
        assert not display.shapes["age"].is_supported.all()
        (legend,) = display.figure_.legends
        texts = [text.get_text() for text in legend.get_texts()]
        assert ("interval may be too short" in texts) == is_hatched
    plt.close("all")


def test_long_names_are_not_cut():
    name = "hours worked in the week before the interview, of all jobs together"
    table = X.rename(columns={"age": name}).assign(more=X["age"] ** 2)
    model = DPAdditiveRegressor(
        20.0,
        bounds={name: (0, 90), "more": (0, 8100)},
        categories=DECLARED["categories"],
        target_bounds=(0, 2),
        random_state=0,
    )
    display = ShapeDisplay.from_estimator(model.fit(table, NUMBER))
    display.figure_.draw_without_rendering()
    for axes in display.axes_:
        for text in (axes._left_title, axes.yaxis.label, axes.xaxis.label):
            extent = text.get_window_extent()
            assert extent.x0 >= 0
            assert extent.x1 <= display.figure_.bbox.x1
            assert extent.y0 >= 0
            assert extent.y1 <= display.figure_.bbox.y1
    assert display.axes_[0].get_title(loc="left").replace("\n", " ") == name
    plt.close("all")
