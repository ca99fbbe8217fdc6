"""The display of additive models: steps, dots and intervals are those of the functions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt

from skdp import DPAdditiveClassifier, DPAdditiveRegressor, DPLogisticRegression
from skdp.evaluation import ShapeDisplay

rng = np.random.default_rng(0)
X = pd.DataFrame({"age": rng.uniform(0, 90, 900), "job": rng.choice(["clerk", "nurse", "smith"], 900)})
DECLARED = {"bounds": {"age": (0, 90)}, "categories": {"job": ["clerk", "nurse", "smith", None]}, "random_state": 0}
NUMBER = X["age"] / 90 + (X["job"] == "nurse")
CLASS = np.digitize(NUMBER, [0.5, 1.2])


@pytest.fixture(scope="module")
def regressor():
    return DPAdditiveRegressor(8.0, target_bounds=(0, 2), **DECLARED).fit(X, NUMBER)


def test_steps_and_dots_are_the_function(regressor):
    display = ShapeDisplay.from_estimator(regressor, confidence_level=0.9).plot()
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
    plt.close("all")


def test_a_bin_of_missing_numbers_is_drawn_if_there_are_some(regressor):
    gaps = X.assign(age=X["age"].where(rng.random(len(X)) > 0.2))
    with_gaps = DPAdditiveRegressor(5.0, target_bounds=(0, 2), **DECLARED).fit(gaps, NUMBER)
    for model, is_drawn in ((regressor, False), (with_gaps, True)):
        (axes,) = ShapeDisplay.from_estimator(model, ["age"]).plot().axes_
        assert ("missing" in [text.get_text() for text in axes.texts]) == is_drawn
    plt.close("all")


def test_rare_values_may_be_left_out(regressor):
    (axes,) = ShapeDisplay.from_estimator(regressor, ["job"]).plot(max_values=3).axes_
    assert axes.get_title(loc="left") == "job (1 rarer values not drawn)"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["clerk", "nurse", "smith"]
    plt.close("all")


def test_each_class_has_a_function():
    model = DPAdditiveClassifier(5.0, classes=[0, 1, 2], **DECLARED).fit(X, CLASS)
    display = ShapeDisplay.from_estimator(model).plot()
    labels = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert labels == [f"{place} (95 % interval)" for place in range(3)]
    plt.close("all")


def test_another_model_has_no_functions():
    with pytest.raises(TypeError, match="estimator must be an additive model, got DPLogisticRegression"):
        ShapeDisplay.from_estimator(DPLogisticRegression())
