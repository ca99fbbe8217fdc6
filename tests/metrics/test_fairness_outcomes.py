"""Fairness metrics of more than two classes: other libraries, and coverage."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from skdp import RandomizedResponseEncoder
from skdp.evaluation import FairnessDisplay
from skdp.metrics import debiased_fairness, fairness_report
from tests.conftest import quick_first
from tests.metrics.tables import METRICS, compute_fairlearn, select_comparisons

N = 900
RNG = np.random.default_rng(0)
GROUP = RNG.choice(["a", "b", "c"], N, p=[0.2, 0.3, 0.5])
CLASS = np.array(["high", "low", "middle"])[(3 * RNG.random(N) ** (1 + (GROUP == "a"))).astype(int)]
PREDICTED = np.where(RNG.random(N) < 0.6, CLASS, RNG.permutation(CLASS))
WAGE = RNG.gamma(2, 10, N) + 8 * (GROUP == "c")
WEIGHT = np.exp(0.5 * (GROUP == "c") + WAGE / 40 + 0.3 * RNG.normal(size=N))
ENCODER = RandomizedResponseEncoder(1.0, categories={"group": ["a", "b", "c"]}, random_state=0)
REPORTS = ENCODER.fit_transform(pd.DataFrame({"group": GROUP}))


@pytest.mark.parametrize("weight", quick_first(1, [WEIGHT, None]), ids=["weighted", "equal"])
def test_classes_equal_fairlearn(weight):
    table = fairness_report(CLASS, PREDICTED, GROUP, sample_weight=weight)
    assert table["class_vs_rest"].unique().tolist() == ["high", "low", "middle"]
    for label, part in table.groupby("class_vs_rest"):
        expected = compute_fairlearn(label == CLASS, label == PREDICTED, GROUP, weight)
        np.testing.assert_allclose(select_comparisons(part).loc[METRICS], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("report", ["known", "private"])
def test_each_class_has_the_table_of_the_class_against_the_rest(report):
    def compare(true, predicted, **options):
        if report == "known":
            return fairness_report(true, predicted, GROUP, privileged="c", **options)
        return debiased_fairness(true, predicted, REPORTS, ENCODER, privileged="c", **options)

    table = compare(CLASS, PREDICTED)
    for label, part in table.groupby("class_vs_rest"):
        expected = compare(CLASS, PREDICTED, positive_label=label)
        assert "class_vs_rest" not in expected
        part = part.drop(columns="class_vs_rest").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected)


def test_class_that_is_never_true_is_undefined_once():
    predicted = np.where(np.arange(N) < 90, "none", PREDICTED)
    with pytest.warns(UndefinedMetricWarning) as caught:
        table = fairness_report(CLASS, predicted, GROUP)
    assert len(caught) == 1
    # Labels are values of the data.
    assert "none" not in str(caught[0].message)
    undefined = table[table["value"].isna()]
    assert set(undefined["class_vs_rest"]) == {"none"}
    assert "true_positive_rate" in set(undefined["metric"])


@pytest.mark.long
def test_display_has_panels_of_each_class():
    pytest.importorskip("matplotlib")
    classes = FairnessDisplay.from_reports({"model": fairness_report(CLASS, PREDICTED, GROUP)})
    titles = [axes.get_title(loc="left") for axes in classes.ax_]
    assert titles[0] == "selection rate, high vs rest"
    assert len(titles) == len({*titles})
    assert sum(title.endswith("low vs rest") for title in titles) == len({*titles[:-2]}) / 3


@pytest.mark.parametrize("dtype", quick_first(1, ["category", int, float, object]))
def test_more_than_20_whole_numbers_are_no_classes(dtype):
    age = pd.Series(np.arange(N) % 21 + 18)
    with pytest.raises(ValueError, match=r"at most 20 labels, got 21\. Compare numbers .* pass classes as text"):
        fairness_report(age.astype(dtype), age.astype(dtype), GROUP)
    # Neither text, nor 20 numbers, nor a positive label is a mistake.
    fairness_report(age.astype(str), age.astype(str), GROUP)
    fairness_report(age.replace(18, 19), age.replace(18, 19), GROUP)
    fairness_report(age, age, GROUP, positive_label=18)
    many = pd.Series(np.arange(N) % 101).astype(str)
    with pytest.raises(ValueError, match="at most 100 labels, got 101"):
        fairness_report(many, many, GROUP)


@pytest.mark.parametrize("dtype", quick_first(2, ["Float64", "category", "Int64", object]))
def test_classes_of_any_dtype_give_the_same_table(dtype):
    true, predicted = (pd.Series(np.unique(column, return_inverse=True)[1]) for column in (CLASS, PREDICTED))
    found = fairness_report(true.astype(dtype), predicted.astype(dtype), GROUP)
    pd.testing.assert_frame_equal(found, fairness_report(true, predicted, GROUP), check_dtype=False)
