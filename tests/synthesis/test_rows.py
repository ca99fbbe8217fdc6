"""Rows in batches: the law of each row, and by how much counts vary."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chi2, chisquare
from sklearn.exceptions import NotFittedError

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.frames import Table
from skdp.synthesis import _rows
from skdp.synthesis.model import JunctionTree
from tests.conftest import often
from tests.synthesis.conftest import model_of, random_potentials

FALSE_ALARM = 1e-6
DOMAIN = {"answer": ["yes", "no"], "age": Interval(0, 100, bins=4)}


def people(n=200):
    return pd.DataFrame({"answer": ["yes", "no", "no", "no"] * (n // 4), "age": np.arange(n) % 101})


@pytest.fixture
def fitted():
    return DPMarginalSynthesizer(10.0, domain=DOMAIN, random_state=0).fit(people())


def again():
    return DPMarginalSynthesizer(10.0, domain=DOMAIN, random_state=0).fit(people())


@pytest.mark.parametrize(("n", "size"), [(0, 5), (1, 5), (5, 5), (6, 5), (17, 5), (3, 1)])
def test_batches_have_the_size_that_was_asked_for(fitted, n, size):
    batches = fitted.sample_batches(n, batch_size=size)
    assert isinstance(batches, Iterator)
    sizes = [len(batch) for batch in batches]
    assert sum(sizes) == n
    assert sizes[:-1] == [size] * (len(sizes) - 1)
    assert all(0 < last <= size for last in sizes)


def test_by_default_as_many_as_there_were(fitted):
    assert sum(len(batch) for batch in fitted.sample_batches(batch_size=64)) == round(fitted.n_rows_)


def test_one_batch_is_a_sample(fitted):
    (batch,) = fitted.sample_batches(100)
    pd.testing.assert_frame_equal(batch, again().sample(100))


def test_a_seed_repeats_and_each_call_and_batch_is_new(fitted):
    one, two = (pd.concat(model.sample_batches(300, batch_size=100)) for model in (fitted, again()))
    pd.testing.assert_frame_equal(one, two)
    assert not one.equals(pd.concat(fitted.sample_batches(300, batch_size=100)))
    first, second, third = (one.iloc[start : start + 100].reset_index(drop=True) for start in (0, 100, 200))
    assert not first.equals(second)
    assert not second.equals(third)


@pytest.mark.parametrize(
    "kind", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
def test_batches_are_of_the_kind_of_the_table(kind):
    table = kind(people())
    model = DPMarginalSynthesizer(10.0, domain=DOMAIN, random_state=0).fit(table)
    for batch in model.sample_batches(10, batch_size=4):
        assert type(batch) is type(table)


def test_what_is_wrong_shows_at_the_call(fitted):
    with pytest.raises(NotFittedError):
        DPMarginalSynthesizer(domain=DOMAIN).sample_batches()
    for n_samples, batch_size, error, match in (
        (-1, 10, ValueError, "n_samples must be between 0"),
        (1.0, 10, TypeError, "n_samples must be an int"),
        (10, 0, ValueError, "batch_size"),
        (10, 2.5, TypeError, "batch_size"),
        (10, True, TypeError, "batch_size"),
    ):
        with pytest.raises(error, match=match):
            fitted.sample_batches(n_samples, batch_size=batch_size)


def test_the_model_is_that_of_the_call(fitted):
    batches = fitted.sample_batches(40, batch_size=10)
    fitted.fit(people().assign(answer="yes"))
    assert (pd.concat(batches)["answer"] == "no").sum() > 15


@pytest.fixture
def coded(monkeypatch):
    """Draw batches of a model as codes: an array with a row a column."""
    monkeypatch.setattr(_rows, "decode", lambda template, domain, codes, rng, order, shapes: codes)
    monkeypatch.setattr(_rows, "assemble", lambda template, columns, names: np.array(columns))
    nothing = Table((), (), None)
    return lambda model, n, size, seed: _rows._batches(model, nothing, Domain({"c": [0]}), n, size, rng_of(seed))


def rng_of(seed):
    return np.random.default_rng(seed)


def small_model():
    tree = JunctionTree([3, 4], [(0, 1)])
    return model_of(tree, random_potentials(tree))


@pytest.mark.long
def test_every_row_has_the_models_law_wherever_it_stands(coded):
    """False alarm: 1e-6 for each place."""
    model, n_runs = small_model(), 600
    drawn = np.stack([np.hstack(list(coded(model, 7, 5, seed))) for seed in range(n_runs)])
    for place in range(7):
        seen = np.bincount(4 * drawn[:, 0, place] + drawn[:, 1, place], minlength=12)
        assert chisquare(seen, model.marginal((0, 1)).ravel() * n_runs).pvalue > FALSE_ALARM


@pytest.mark.long
def test_rows_of_different_batches_are_independent(coded):
    model, n_runs = small_model(), 600
    drawn = np.stack([np.hstack(list(coded(model, 2, 1, seed)))[1] for seed in range(n_runs)])
    seen = np.bincount(4 * drawn[:, 0] + drawn[:, 1], minlength=16)
    shares = model.marginal((1,))
    assert chisquare(seen, np.outer(shares, shares).ravel() * n_runs).pvalue > FALSE_ALARM


def exact_variance(shares, value, n):
    """By definition: one uniform number in each of n equal parts of [0, 1)."""
    steps = np.cumsum([0, *shares]) / np.sum(shares)
    inside = [max(0.0, min(steps[value + 1], (part + 1) / n) - max(steps[value], part / n)) * n for part in range(n)]
    return sum(p * (1 - p) for p in inside)


@pytest.mark.parametrize("size", often([1, 2, 7, 50], [1, 7]))
def test_variances_of_batches_add_up(coded, size):
    """The count of a value of the first column, over 12 batches; false alarm 1e-6 for each value and size."""
    shares, n_batches, n_runs = np.array([0.13, 0.3, 0.57]), 12, 200
    tree = JunctionTree([3], [(0,)])
    model = model_of(tree, [np.log(shares)])
    runs = (np.hstack(list(coded(model, size * n_batches, size, seed)))[0] for seed in range(n_runs))
    counts = np.array([np.bincount(codes, minlength=3) for codes in runs])
    for value in range(3):
        variance = n_batches * exact_variance(shares, value, size)
        assert variance <= n_batches / 2 + 1e-9
        if size == 1:
            assert variance == pytest.approx(n_batches * shares[value] * (1 - shares[value]))
        spread = ((counts[:, value] - n_batches * size * shares[value]) ** 2).sum() / variance
        # Nearly chi-squared: a sum over batches is nearly normal, and its tails are lighter.
        assert chi2.ppf(FALSE_ALARM, n_runs) < spread < chi2.isf(FALSE_ALARM, n_runs)


def test_the_bound_of_a_half_holds_for_all_shares():
    for n, low, high in itertools.product((1, 2, 3, 10), np.linspace(0, 1, 21), np.linspace(0, 1, 21)):
        if low < high:
            assert exact_variance([low, high - low, 1 - high], 1, n) <= 0.5 + 1e-9
