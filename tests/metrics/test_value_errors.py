"""Errors of numbers and dates, also within bins."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp, wasserstein_distance

from skdp import Interval
from skdp.evaluation import MarginalDisplay
from skdp.metrics import marginal_error, marginal_errors, value_errors

mpl.use("agg")


@pytest.fixture
def skewed():
    """Amounts that are in the first of twenty bins, and the same bins filled evenly with whole numbers."""
    rng = np.random.default_rng(0)
    real = pd.DataFrame({"paid": rng.exponential(0.7, 5_000).clip(0, 2.9), "sex": ["F", "M"] * 2_500})
    return real, real.assign(paid=rng.integers(0, 3, 5_000)), {"paid": Interval(0, 60, bins=20)}


def test_what_bins_do_not_see_is_shown(skewed):
    real, synthetic, domain = skewed
    assert marginal_error(real, synthetic, order=1, domain=domain) == 0
    errors = marginal_errors(real, synthetic, order=1, domain=domain)
    assert errors["values"].isna().tolist() == [False, True]
    assert errors["values"][0] > 0.3
    pairs = marginal_errors(real, synthetic, domain=domain)
    assert pairs["values"].tolist() == [errors["values"][0]]
    display = MarginalDisplay.from_tables(real, synthetic, ["paid", "sex", ("paid", "sex")], domain=domain)
    titles = [axes.get_title(loc="left") for axes in display.axes_]
    assert titles[0] == f"paid, TVD 0.000, values {errors['values'][0]:.3f}"
    assert "values" not in "".join(titles[1:])


def test_they_are_those_of_scipy(skewed):
    real, synthetic, domain = skewed
    (row,) = value_errors(real, synthetic, domain=domain).itertuples(index=False)
    assert row.column == "paid"
    assert row.distance == pytest.approx(ks_2samp(real["paid"], synthetic["paid"]).statistic)
    spread = real["paid"].std(ddof=0)
    assert row.earth_mover == pytest.approx(wasserstein_distance(real["paid"], synthetic["paid"]) / spread)
    assert row.shift == pytest.approx((synthetic["paid"].mean() - real["paid"].mean()) / spread)


def test_columns_of_numbers_and_dates_are_found_without_a_domain():
    days = pd.to_datetime(["2020-01-01", "2020-01-03", None])
    real = pd.DataFrame({"n": [1.0, 2.0, np.nan], "day": days, "text": ["a", "b", "c"]})
    errors = value_errors(real, real.iloc[::-1])
    assert errors["column"].tolist() == ["n", "day"]
    assert errors["distance"].tolist() == [0, 0]
    assert errors["real"].tolist() == [1.5, 18263.0]


def test_text_and_unknown_columns_are_refused(skewed):
    real, synthetic, domain = skewed
    with pytest.raises(ValueError, match="column 'sex' must hold numbers or dates"):
        value_errors(real, synthetic, columns=["sex"])
    with pytest.raises(ValueError, match="no column 'age'"):
        value_errors(real, synthetic, columns=["age"], domain=domain)


def test_nothing_to_compare_is_nan():
    real = pd.DataFrame({"n": [1.0, 1.0]})
    errors = value_errors(real, pd.DataFrame({"n": [1.0, 2.0]}))
    assert np.isnan(errors["earth_mover"][0])
    assert errors["distance"][0] == 0.5
    assert value_errors(real, pd.DataFrame({"n": [np.nan, np.nan]})).loc[0, "real":].isna().all()
