"""The display of counts: bars, intervals and true counts are those of the estimates."""

import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.conftest import each

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

from skdp.evaluation import CountEstimateDisplay  # noqa: E402
from skdp.local import RandomizedResponseEncoder, UnaryEncodingTransformer  # noqa: E402

CATEGORIES = {"sex": ["F", "M"], "race": ["a", "b", "c"]}
PEOPLE = {"sex": ["F", "M", "M"] * 100, "race": ["a", "b", "a", "a"] * 75}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


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


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("encoder", [RandomizedResponseEncoder, UnaryEncodingTransformer])
def test_each_column_has_a_panel_with_its_estimates(make, encoder):
    fitted = encoder(2.0, categories=CATEGORIES, random_state=0).fit(make(PEOPLE))
    reports = fitted.transform(make(PEOPLE))
    true = pd.concat({name: pd.Series(values).value_counts() for name, values in PEOPLE.items()})
    display = CountEstimateDisplay.from_estimator(fitted, reports, true_counts=true, confidence_level=0.9)
    estimates = fitted.estimate_counts(reports, confidence_level=0.9)
    pd.testing.assert_frame_equal(display.estimates.drop(columns="true"), estimates)
    assert [axes.get_title(loc="left") for axes in display.axes_] == ["sex", "race"]
    for axes, (name, labels) in zip(display.axes_, CATEGORIES.items(), strict=True):
        assert ticks(axes) == labels
        assert bars(axes) == pytest.approx(estimates.loc[name, "count"].tolist())
        assert intervals(axes) == ends(estimates.loc[name])
        assert true_counts(axes) == [[PEOPLE[name].count(label) for label in labels]]  # nobody is "c": 0


def test_one_column_and_a_joint_have_one_panel():
    people = pd.DataFrame(PEOPLE)
    one = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, random_state=0)
    display = CountEstimateDisplay.from_estimator(one, one.fit_transform(people[["sex"]]))
    assert [axes.get_title(loc="left") for axes in display.axes_] == ["sex"]
    assert true_counts(display.axes_[0]) == []
    joint = RandomizedResponseEncoder(1.0, strategy="joint", categories=CATEGORIES, random_state=0)
    reports = joint.fit_transform(people)
    (axes,) = CountEstimateDisplay.from_estimator(joint, reports, true_counts=people.value_counts()).axes_
    assert axes.get_title(loc="left") == "sex × race"
    assert ticks(axes) == ["F, a", "F, b", "F, c", "M, a", "M, b", "M, c"]
    assert bars(axes) == pytest.approx(joint.estimate_counts(reports)["count"].tolist())
    assert true_counts(axes) == [[75, 25, 0, 150, 50, 0]]


def estimates(counts, labels, name="job"):
    counts = np.array(counts, float)
    table = {"count": counts, "std_error": np.ones(len(counts)), "lower": counts - 2, "upper": counts + 2}
    return pd.DataFrame(table, index=pd.Index(labels, name=name))


def test_true_counts_may_be_those_of_a_table_of_one_column():
    table = pd.DataFrame({"x": ["a", "b", "b", None]})
    true = table.value_counts(dropna=False)
    assert isinstance(true.index, pd.MultiIndex)
    display = CountEstimateDisplay.from_estimates(estimates([1, 2, 3], ["a", "b", None]), true_counts=true)
    assert true_counts(display.axes_[0]) == [[1, 2, 1]]


def test_of_many_values_the_largest_are_drawn_in_their_order_and_the_rest_is_mentioned():
    table = estimates([1, 9, -3, 7, 8], [*"abcde"])
    display = CountEstimateDisplay.from_estimates(table, max_values=3)
    (axes,) = display.axes_
    assert ticks(axes) == ["b", "d", "e"]
    assert bars(axes) == [9, 7, 8]
    assert axes.get_title(loc="left") == "job (2 smaller estimates not drawn)"
    (axes,) = display.plot(max_values=5).axes_
    assert bars(axes) == [1, 9, -3, 7, 8]
    assert axes.get_title(loc="left") == "job"
    assert len(display.estimates) == 5


def test_negative_counts_are_drawn_to_the_left_of_0():
    (axes,) = CountEstimateDisplay.from_estimates(estimates([-30, 5], [*"ab"])).axes_
    assert bars(axes) == [-30, 5]
    assert axes.get_xlim()[0] < -32


def test_the_ticks_of_large_counts_have_room():
    (axes,) = CountEstimateDisplay.from_estimates(estimates([16_500, 8_000], ["a name of many letters", "b"])).axes_
    axes.figure.draw_without_rendering()
    ends = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert all(one.x1 + 10 < other.x0 for one, other in pairwise(ends))


def test_a_missing_value_and_a_value_of_which_nothing_is_known():
    table = estimates([3, np.nan, 5], ["a", "b", None])
    table.loc["b", ["std_error", "lower", "upper"]] = np.inf, -np.inf, np.inf
    display = CountEstimateDisplay.from_estimates(table, true_counts=pd.Series({None: 4.0, "a": 1}))
    (axes,) = display.axes_
    assert ticks(axes) == ["a", "b", "missing"]
    assert intervals(axes) == [(1, 5), (3, 7)]
    assert true_counts(axes) == [[1, 0, 4]]
    display.figure_.canvas.draw()
    assert ticks(CountEstimateDisplay.from_estimates(table, max_values=2).axes_[0]) == ["a", "missing"]


def test_postprocessed_counts_may_lie_outside_their_intervals():
    encoder = RandomizedResponseEncoder(0.2, categories={"race": ["a", "b", "c"]}, random_state=0)
    reports = encoder.fit_transform(pd.DataFrame({"race": ["a"] * 300}))
    display = CountEstimateDisplay.from_estimator(encoder, reports, postprocess="simplex")
    table = encoder.estimate_counts(reports, postprocess="simplex")
    assert bars(display.axes_[0]) == table["count"].tolist()
    assert intervals(display.axes_[0]) == ends(table)
    outside = table.assign(lower=table["count"] + 1, upper=table["count"] + 2)
    assert intervals(CountEstimateDisplay.from_estimates(outside).axes_[0]) == ends(outside)


@pytest.mark.parametrize(("level", "said"), [(None, "interval"), (0.9, "90 % interval"), (0.995, "99.5 % interval")])
def test_the_legend_says_the_level(level, said):
    table = estimates([1, 2], [*"ab"])
    display = CountEstimateDisplay.from_estimates(table, confidence_level=level, true_counts=pd.Series({"a": 1}))
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["estimate", said, "true count"]


def test_the_panels_may_be_given_and_any_number_is_laid_out():
    table = pd.concat({f"x{i}": estimates([1, 2], [*"ab"]) for i in range(5)}, names=["column", "category"])
    display = CountEstimateDisplay.from_estimates(table)
    assert len(display.figure_.axes) == len(display.axes_) == 5
    figure, panels = plt.subplots(5)
    assert display.plot(ax=panels) is display
    assert display.figure_ is figure
    with pytest.raises(ValueError, match="ax must have 5 panels, one for each column, got 1"):
        display.plot(ax=panels[0])


@each(
    "table options message",
    [
        ([1], {}, "estimates must be a DataFrame with the columns count"),
        (pd.DataFrame({"count": [1]}), {}, "columns count, lower and upper"),
        (estimates([], []), {}, "at least one row"),
        (estimates([1], ["a"]), {"max_values": 0}, "max_values must be at least 1"),
        (estimates([1], ["a"]), {"max_values": 1.5}, "max_values must be an int"),
        (estimates([1], ["a"]), {"true_counts": [1]}, "true_counts must be a Series"),
        (estimates([1], ["a"]), {"true_counts": pd.Series({"secret": 1})}, "only labels that estimates has"),
        (estimates([1], ["a"]), {"true_counts": pd.Series([1, 2], index=["a", "a"])}, "each label once"),
        (estimates([1], ["a"]), {"true_counts": pd.Series({("a", "b"): 1})}, "labels of 1 levels, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(table, options, message):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        CountEstimateDisplay.from_estimates(table, **options)
    assert "secret" not in str(caught.value)
    assert not plt.get_fignums()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "skdp\[plot\]"'):
        CountEstimateDisplay.from_estimates(estimates([1], ["a"]))
