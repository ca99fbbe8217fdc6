"""The check of intervals that other tests use: right ones pass, and wrong ones are noticed, however they are wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.intervals import check_intervals

TRUTH = pd.Series({"one": 1.0, "two": -2.0})


def normal(seed, reach=1.96):
    value = TRUTH.to_numpy() + np.random.default_rng(seed).normal(size=2)
    return pd.DataFrame({"lower": value - reach, "upper": value + reach}, index=TRUTH.index)


def test_right_intervals_pass():
    found = check_intervals(normal, TRUTH)
    assert found["covered"].between(0.92, 0.98).all()
    assert (found["shown"] == 1).all()


WRONG = {
    "too short": (lambda seed: normal(seed, 1.3), "covered too rarely: .*one"),
    "rows left out": (lambda seed: normal(seed).query("lower > 0"), "covered too rarely: .*two"),
    "ends left out": (lambda seed: normal(seed).where(lambda table: table["lower"].abs() < 3), "covered too rarely"),
    "reversed": (lambda seed: normal(seed, -1.0), "draw 0 has an interval with reversed ends"),
    "impossible": (lambda seed: normal(seed, 12.0), "draw 0 has an impossible lower end"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_noticed(name):
    estimate, message = WRONG[name]
    with pytest.raises(AssertionError, match=message):
        check_intervals(estimate, TRUTH, possible=(-9, 9))
