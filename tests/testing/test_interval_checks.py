"""Coverage over all draws: right intervals pass, and wrong ones are noticed, however they are wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp.testing import check_intervals
from tests.conftest import each

TRUTH = {"one": 1.0, "two": -2.0}


def normal(seed, reach=1.96):
    value = np.array([*TRUTH.values()]) + np.random.default_rng(seed).normal(size=2)
    return pd.DataFrame({"value": value, "lower": value - reach, "upper": value + reach}, index=[*TRUTH])


def test_right_intervals_pass():
    found = check_intervals(normal, TRUTH)
    assert found.index.tolist() == ["one", "two"]
    assert found["covered"].between(0.92, 0.98).all()
    assert (found["shown"] == 1).all()
    assert found["covered_of_shown"].tolist() == found["covered"].tolist()
    assert check_intervals(normal, [*TRUTH.values()])["covered"].tolist() == found["covered"].tolist()


def hidden(seed):
    found = normal(seed)
    return found[found["lower"] > 0]


def unknown(seed):
    found = normal(seed)
    return found.where(found["lower"].abs() < 3)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda seed: normal(seed, 1.3), "2 of 2 quantities are covered too rarely in 400 draws; one: 8"),
        (hidden, r"two: 0.0% \(of the 0.0% that are shown: nan%\)"),
        (unknown, "two: "),
        (lambda seed: normal(seed, -1.0), "draw 0 has an interval whose lower end is above"),
    ],
)
def test_wrong_ones_are_noticed(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_intervals(broken, TRUTH)


@pytest.mark.long
def test_selection_by_the_draw_is_noticed_though_most_of_the_shown_cover():
    """Shown if the value is not small: the shown are covered by 90 %, all draws by 70 %."""

    def selected(seed):
        found = normal(seed)
        return found[(found["value"] > 0.4) | (found["value"] < -1)]

    with pytest.raises(AssertionError, match=r"one: 7\d.\d% \(of the 7"):
        check_intervals(selected, TRUTH)


@pytest.mark.parametrize("column", ["value", "lower", "upper"])
def test_what_is_impossible_is_noticed(column):
    def impossible(seed):
        found = normal(seed).clip(-5, 5)
        found.loc["two", column] = {"upper": 5.1}.get(column, -5.1)
        return found

    with pytest.raises(AssertionError, match="draw 0 has an impossible " + column):
        check_intervals(impossible, TRUTH, possible=(-5, [5, 5]))


@pytest.mark.long
def test_the_rate_of_false_alarms():
    """The count below which the check fails has the stated probability under the least coverage that is allowed."""
    from scipy.stats import binom

    covers = {n: int(binom.ppf(1e-6, n, 0.93)) for n in (100, 400)}
    for n, least in covers.items():
        assert binom.cdf(least - 1, n, 0.93) <= 1e-6 < binom.cdf(least, n, 0.93)
        for count, passes in ((least, True), (least - 1, False)):
            tables = iter([pd.DataFrame({"lower": [0.0], "upper": [float(draw < count)]}) for draw in range(n)])

            def estimate(seed, tables=tables):
                return next(tables)

            if passes:
                check_intervals(estimate, [0.5], n_repeats=n)
            else:
                with pytest.raises(AssertionError, match="too rarely"):
                    check_intervals(estimate, [0.5], n_repeats=n)


@each(
    "change error message",
    [
        ({"n_repeats": 5}, ValueError, "n_repeats"),
        ({"n_repeats": 40.0}, ValueError, "n_repeats"),
        ({"tolerance": 1}, ValueError, "tolerance"),
        ({"confidence_level": 95}, ValueError, "confidence_level"),
        ({"truth": []}, ValueError, "truth"),
        ({"truth": [np.nan]}, ValueError, "truth"),
        ({"truth": [1.0]}, ValueError, "a row for each of 1 quantities, got 2"),
        ({"estimate": lambda seed: normal(seed)[["lower"]]}, TypeError, "lower and upper"),
        ({"estimate": lambda seed: 3}, TypeError, "got int"),
    ],
)
def test_odd_arguments(change, error, message):
    with pytest.raises(error, match=message):
        check_intervals(**{"estimate": normal, "truth": TRUTH} | change)
