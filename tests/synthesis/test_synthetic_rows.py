"""Rows in batches: the distribution of each row, and the variance of counts."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from skdp import DPMarginalSynthesizer, Interval
from skdp.synthesis.model import JunctionTree
from tests.synthesis.conftest import model_of

FALSE_ALARM = 1e-6
DOMAIN = {"answer": ["yes", "no"], "age": Interval(0, 100, bins=4)}


def people(n=200):
    return pd.DataFrame({"answer": ["yes", "no", "no", "no"] * (n // 4), "age": np.arange(n) % 101})


def fit_model():
    return DPMarginalSynthesizer(10.0, domain=DOMAIN, random_state=0).fit(people())


@pytest.mark.parametrize(("n", "size"), [(0, 5), (1, 5), (5, 5), (6, 5), (17, 5), (3, 1)])
def test_batches_have_the_requested_size(n, size):
    batches = fit_model().sample_batches(n, batch_size=size)
    assert isinstance(batches, Iterator)
    sizes = [len(batch) for batch in batches]
    assert sum(sizes) == n
    assert sizes[:-1] == [size] * (len(sizes) - 1)
    assert all(0 < last <= size for last in sizes)


def test_seed_repeats_and_calls_and_batches_differ():
    model = fit_model()
    one, two = (pd.concat(made.sample_batches(300, batch_size=100)) for made in (model, fit_model()))
    pd.testing.assert_frame_equal(one, two)
    assert not one.equals(pd.concat(model.sample_batches(300, batch_size=100)))
    first, second, third = (one.iloc[start : start + 100].reset_index(drop=True) for start in (0, 100, 200))
    assert not first.equals(second)
    assert not second.equals(third)


def exact_variance(shares, value, n):
    """Return the variance by definition: one uniform number in each of n equal parts of [0, 1)."""
    steps = np.cumsum([0, *shares]) / np.sum(shares)
    inside = [max(0.0, min(steps[value + 1], (part + 1) / n) - max(steps[value], part / n)) * n for part in range(n)]
    return sum(p * (1 - p) for p in inside)


def test_variances_of_batches_add_up():
    """The count of a value of the first column, over 12 batches of 7 rows; false alarm 1e-6 for each value."""
    shares, size, n_batches, n_runs = np.array([0.13, 0.3, 0.57]), 7, 12, 30
    synthesizer = DPMarginalSynthesizer(domain={"x": range(3)}).fit(pd.DataFrame({"x": [0]}))
    model = model_of(JunctionTree([3], [(0,)]), [np.log(shares)])
    synthesizer._fitted = replace(synthesizer._fitted, counts=replace(synthesizer._fitted.counts, model=model))
    counts = []
    for _ in range(n_runs):
        rows = pd.concat(synthesizer.sample_batches(size * n_batches, batch_size=size))
        counts.append(np.bincount(rows["x"], minlength=3))
    for value in range(3):
        variance = n_batches * exact_variance(shares, value, size)
        spread = ((np.array(counts)[:, value] - n_batches * size * shares[value]) ** 2).sum() / variance
        # Nearly chi-squared: a sum over batches is nearly normal, and its tails are lighter.
        assert chi2.ppf(FALSE_ALARM, n_runs) < spread < chi2.isf(FALSE_ALARM, n_runs)


def test_numbers_of_correlated_columns_fill_found_bins():
    x = np.linspace(0, 1, 2_000)
    table = pd.DataFrame({"x": x, "y": x})
    domain = {name: Interval(0, 1, real=True) for name in table}
    made = DPMarginalSynthesizer(2.0, domain=domain, random_state=0).fit(table).sample(2_000)
    for column in made.columns:
        np.testing.assert_allclose(np.sort(made[column]), x, atol=0.04)
