"""The display of counts: bars, intervals and true counts are those of the estimates."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

pytest.importorskip("matplotlib")

from skdp.evaluation import CountEstimateDisplay
from skdp.local import RandomizedResponseEncoder, UnaryEncodingTransformer
from tests.conftest import each

CATEGORIES = {"sex": ["F", "M"], "race": ["a", "b", "c"]}
PEOPLE = {"sex": ["F", "M", "M"] * 100, "race": ["a", "b", "a", "a"] * 75}


def ticks(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def bars(axes):
    return [bar.get_width() for bar in axes.patches]


def intervals(axes):
    return [tuple(path[:, 0]) for path in axes.collections[0].get_segments()]


def true_counts(axes):
    return [line.get_xdata().tolist() for line in axes.lines if line.get_label() == "true count"]


def ends(table):
    return list(zip(table["lower"], table["upper"], strict=True))


def estimates(counts, labels, name="job"):
    counts = np.array(counts, float)
    table = {"count": counts, "std_error": np.ones(len(counts)), "lower": counts - 2, "upper": counts + 2}
    return pd.DataFrame(table, index=pd.Index(labels, name=name))


@each(
    "make, encoder",
    [
        (pd.DataFrame, RandomizedResponseEncoder),
        (pl.DataFrame, UnaryEncodingTransformer),
        (pa.table, RandomizedResponseEncoder),
    ],
)
def test_each_column_has_a_panel_with_its_estimates(make, encoder):
    fitted = encoder(2.0, categories=CATEGORIES, random_state=0).fit(make(PEOPLE))
    reports = fitted.transform(make(PEOPLE))
    true = pd.concat({name: pd.Series(values).value_counts() for name, values in PEOPLE.items()})
    estimates = fitted.estimate_counts(reports, confidence_level=0.9)
    display = CountEstimateDisplay(estimates, true_counts=true, confidence_level=0.9).plot()
    pd.testing.assert_frame_equal(display.estimates.drop(columns="true"), estimates)
    assert [axes.get_title(loc="left") for axes in display.axes_] == ["sex", "race"]
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["estimate", "90 % interval", "true count"]
    for axes, (name, labels) in zip(display.axes_, CATEGORIES.items(), strict=True):
        assert ticks(axes) == labels
        assert bars(axes) == pytest.approx(estimates.loc[name, "count"].tolist())
        assert intervals(axes) == ends(estimates.loc[name])
        assert true_counts(axes) == [[PEOPLE[name].count(label) for label in labels]]  # nobody is "c": 0


def test_a_joint_has_one_panel():
    people = pd.DataFrame(PEOPLE)
    joint = RandomizedResponseEncoder(1.0, strategy="joint", categories=CATEGORIES, random_state=0)
    reports = joint.fit_transform(people)
    (axes,) = CountEstimateDisplay(joint.estimate_counts(reports), true_counts=people.value_counts()).plot().axes_
    assert axes.get_title(loc="left") == "sex × race"
    assert ticks(axes) == ["F, a", "F, b", "F, c", "M, a", "M, b", "M, c"]
    assert bars(axes) == pytest.approx(joint.estimate_counts(reports)["count"].tolist())
    assert true_counts(axes) == [[75, 25, 0, 150, 50, 0]]


def test_of_many_values_the_largest_are_drawn_in_their_order_and_the_rest_is_mentioned():
    table = estimates([1, 9, -3, 7, 8], [*"abcde"])
    display = CountEstimateDisplay(table).plot(max_values=3)
    (axes,) = display.axes_
    assert ticks(axes) == ["b", "d", "e"]
    assert bars(axes) == [9, 7, 8]
    assert axes.get_title(loc="left") == "job (2 smaller estimates not drawn)"
    (axes,) = display.plot(max_values=5).axes_
    assert bars(axes) == [1, 9, -3, 7, 8]  # a negative count to the left of 0
    assert axes.get_xlim()[0] < -5
    assert axes.get_title(loc="left") == "job"


def test_a_missing_value_and_a_value_of_which_nothing_is_known():
    table = estimates([3, np.nan, 5], ["a", "b", None])
    table.loc["b", ["std_error", "lower", "upper"]] = np.inf, -np.inf, np.inf
    true = pd.DataFrame({"x": ["a", None, None]}).value_counts(dropna=False)  # whose index has levels
    display = CountEstimateDisplay(table, true_counts=true).plot()
    (axes,) = display.axes_
    assert ticks(axes) == ["a", "b", "missing"]
    assert intervals(axes) == [(1, 5), (3, 7)]
    assert true_counts(axes) == [[1, 0, 2]]
    display.figure_.canvas.draw()
    assert ticks(CountEstimateDisplay(table).plot(max_values=2).axes_[0]) == ["a", "missing"]
