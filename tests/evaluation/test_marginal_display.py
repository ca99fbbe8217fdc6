"""The display of marginals: every share that is drawn is that of the tables."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt

from skdp import Domain, Interval
from skdp.evaluation import MarginalDisplay
from skdp.metrics import marginal_error, marginal_table
from tests.conftest import each, few_kinds
from tests.metrics.test_marginals import REAL, SYNTHETIC

DOMAIN = {"age": Interval(edges=[20, 35, 50])}


def lengths(axes):
    """Read the bars of a panel, those of the real table first."""
    sideways = bool(axes.get_xlabel())
    bars = [[bar.get_width() if sideways else bar.get_height() for bar in group] for group in axes.containers]
    return np.array(bars)


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@few_kinds
def test_bars_have_the_length_of_the_shares_on_every_kind_of_frame(make_frame):
    display = MarginalDisplay.from_tables(make_frame(REAL), make_frame(SYNTHETIC))
    assert list(display.marginals) == [("sex",), ("age",), ("smokes",)]
    sex, age, smokes = display.axes_
    assert lengths(sex) == pytest.approx(np.array([[3, 3, 0, 1], [2, 1, 1, 1]]) / [[7], [5]])
    assert ticks(sex.yaxis) == ["F", "M", "X", "missing"]
    assert lengths(age) == pytest.approx(np.array([[2, 1, 2, 1, 0, 1], [1, 0, 1, 0, 1, 2]]) / [[7], [5]])
    assert ticks(age.xaxis) == ["20", "30", "40", "50", "60", "missing"]
    assert lengths(smokes) == pytest.approx(np.array([[3, 4], [2, 3]]) / [[7], [5]])
    assert ticks(smokes.yaxis) == ["False", "True"]


@each("as_domain", [dict, Domain])
def test_bins_are_drawn_as_steps_with_what_is_beyond_them_below(as_domain):
    real, synthetic = pd.DataFrame(REAL), pd.DataFrame(SYNTHETIC)
    (axes,) = MarginalDisplay.from_tables(real, synthetic, ["age"], domain=as_domain(DOMAIN)).axes_
    left, right = (patch.get_data() for patch in axes.patches)
    assert left.edges.tolist() == right.edges.tolist() == [20, 35, 50]
    assert left.values == pytest.approx([3 / 7, 3 / 7])
    assert right.values == pytest.approx([1 / 5, 1 / 5])
    assert axes.get_xlabel() == "missing: 14.3% | 40.0%\noutside the domain: 0.0% | 20.0%"


@each("edges label", [([date(2020, 1, 1), date(2021, 1, 1), date(2022, 1, 1)], "2021"), ([0, 20_000, 40_000], "20k")])
def test_edges_of_dates_and_of_large_numbers_are_short(edges, label):
    frame = pd.DataFrame({"x": pd.Series([edges[0]] * 3)})
    display = MarginalDisplay.from_tables(frame, frame, ["x"], domain={"x": Interval(edges=edges, real=label == "20k")})
    (axes,) = display.axes_
    display.figure_.canvas.draw()
    assert label in ticks(axes.xaxis)


def test_two_columns_are_two_heat_maps_of_one_scale():
    real, synthetic = pd.DataFrame(REAL), pd.DataFrame(SYNTHETIC)
    display = MarginalDisplay.from_tables(real, synthetic, [("sex", "age")], domain=DOMAIN)
    table = marginal_table(real, synthetic, ["sex", "age"], domain=DOMAIN)
    left, right = (axes.images[0] for axes in display.axes_)
    assert left.get_array().shape == (4, 4)
    assert left.get_array().ravel().tolist() == pytest.approx(table["real"].to_list())
    assert right.get_array().ravel().tolist() == pytest.approx(table["synthetic"].to_list())
    assert left.get_clim() == right.get_clim() == (0, table.to_numpy().max())
    assert ticks(display.axes_[0].xaxis) == ["[20, 35)", "[35, 50]", "missing", "outside the domain"]
    assert ticks(display.axes_[0].yaxis) == ["F", "M", "X", "missing"]
    assert len(display.figure_.axes) == 3  # the third is the colour bar


def test_rare_values_of_text_are_drawn_as_one():
    real = pd.DataFrame({"job": [*"aaaabbbccd"]})
    synthetic = pd.DataFrame({"job": [*"abcde"]})
    display = MarginalDisplay.from_tables(real, synthetic, ["job"], max_values=3)
    assert ticks(display.axes_[0].yaxis) == ["a", "b", "(3 others)"]
    assert lengths(display.axes_[0]) == pytest.approx(np.array([[0.4, 0.3, 0.3], [0.2, 0.2, 0.6]]))
    assert display.errors[("job",)] == pytest.approx(marginal_error(real, synthetic, order=1))
    pair = MarginalDisplay.from_tables(real.assign(x="y"), synthetic.assign(x="y"), [("x", "job")], max_values=3)
    assert pair.axes_[1].images[0].get_array().tolist() == [pytest.approx([0.2, 0.2, 0.6])]


@each(
    "values, edges",
    [
        (range(30), None),
        (range(31), np.arange(0, 33, 2)),
        (range(17, 91), np.arange(17, 93, 3)),
        ([-5, *range(100, 130)], np.arange(-5, 131, 5)),
        (np.arange(31) / 2, np.linspace(0, 15, 31)),
    ],
)
def test_many_numbers_are_cut_into_bins(values, edges):
    table = pd.DataFrame({"a": list(values)})
    display = MarginalDisplay.from_tables(table, table[:1])
    if edges is None:
        assert display.edges == {}
        assert len(display.axes_[0].patches) == 60
    else:
        assert display.edges["a"] == pytest.approx(edges)
        assert len(edges) <= 31
        assert display.marginals[("a",)]["real"].sum() == pytest.approx(1)
        assert len(display.marginals[("a",)]) == len(edges) - 1  # nothing is outside


@each(
    "columns options message",
    [
        ([("sex", "age", "smokes")], {}, "names or pairs of names, got a tuple of 3"),
        ([("sex", "sex")], {}, "names a column twice"),
        (["height"], {}, "real has no column 'height'"),
        ("sex", {}, "columns must be a list of column names and pairs of them, got str"),
        ([], {}, "columns must name at least one column"),
        (["sex"], {"domain": ["F", "M"]}, "domain must be a Domain or a mapping of column name to values, got list"),
        (["sex"], {"domain": {"height": [1]}}, "do not have"),
        (None, {"synthetic": pd.DataFrame(REAL)[["sex"]]}, "same columns"),
    ],
)
def test_what_does_not_fit_is_refused(columns, options, message):
    tables = {"real": pd.DataFrame(REAL), "synthetic": pd.DataFrame(SYNTHETIC)}
    with pytest.raises((ValueError, TypeError), match=message):
        MarginalDisplay.from_tables(columns=columns, **tables | options)
    assert not plt.get_fignums()
