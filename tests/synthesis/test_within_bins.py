"""Where numbers and dates lie within declared bins: decimals, means, and what is spent on it."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._within_bins import SHARE_WITHIN, find_cells, find_empty
from skdp.synthesis.tables import CodedRecords, cells_within
from tests.synthesis.budgets import OpenBudget

N = 20_000


def numbers(seed=0, n=N):
    """Draw decimal columns that are skewed, have points of mass, or are bounded."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=n)
    columns = {
        "skewed": rng.exponential(0.7, n).clip(0, 60),
        "many zeros": np.where(rng.random(n) < 0.6, 0, rng.gamma(2, 12, n)).clip(0, 1000),
        "at both ends": 100 * rng.beta(0.5, 0.5, n),
        "in the middle": (50 + 3 * normal).clip(0, 100),
        "in one bin": rng.random(n),
        "one price": np.where(rng.random(n) < 0.5, 9.99, rng.gamma(2, 10, n)).clip(0, 200),
        "below zero": (-2 + 0.5 * normal).clip(-100, 100),
        "prices": (np.floor(rng.exponential(30, n)) + 0.99).clip(0, 500),
    }
    return pd.DataFrame({name: column.round(2) for name, column in columns.items()})


ENDS = {
    "skewed": (0, 60),
    "many zeros": (0, 1000),
    "at both ends": (0, 100),
    "in the middle": (0, 100),
    "in one bin": (0, 100),
    "one price": (0, 200),
    "below zero": (-100, 100),
    "prices": (0, 500),
}


def declared(decimals=2, **options):
    return {name: Interval(*ends, bins=20, decimals=decimals, **options) for name, ends in ENDS.items()}


@pytest.mark.parametrize("epsilon", [1, 10])
def test_means_hold_within_bins(epsilon):
    """Rows lay evenly in bins, and empty bins had what noise left there: .70 became 1.62, and .5 became 2.7."""
    table = numbers()
    rows = DPMarginalSynthesizer(epsilon, delta=1e-9, domain=declared(), random_state=1).fit(table).sample(N)
    errors = (rows.mean() - table.mean()).abs()
    # At epsilon 1 noise is a tenth of the mean of many zeros with a long tail.
    allowed = np.maximum(0.05 * table.mean().abs(), 2 * table.std() / np.sqrt(N))
    assert (errors > allowed).sum() <= (epsilon == 1)
    assert (errors < 3 * allowed).all()
    near = rows["one price"].between(9, 11).mean() - table["one price"].between(9, 11).mean()
    assert abs(near) < (0.02 if epsilon > 1 else 0.1)


@pytest.mark.parametrize("decimals", [0, 1, 2])
@pytest.mark.parametrize("bins", ["declared", "private"])
def test_rows_have_the_declared_decimals_whatever_the_dtype_of_the_data(decimals, bins):
    table = numbers(n=2_000)[["skewed", "below zero", "prices"]]
    domain = {name: declared(decimals)[name] for name in table}
    made = []
    for data in (table.round(decimals), table.round(decimals).astype(np.float32)):
        synthesizer = DPMarginalSynthesizer(3, domain=domain, bins=bins, random_state=0)
        made.append(synthesizer.fit(data).sample(500))
    for rows in made:
        for name in rows:
            assert rows[name].dtype.kind == ("f" if decimals else "i")
            nearest = rows[name].astype(float).round(decimals)
            assert (rows[name] == nearest.astype(rows[name].dtype)).all()
            assert rows[name].between(*ENDS[name]).all()
    assert made[0]["skewed"].astype(float).nunique() >= [3, 15, 50][decimals]


def test_whole_edges_declare_whole_numbers_of_decimal_data_too():
    table = numbers(n=1_000)[["skewed"]]
    rows = DPMarginalSynthesizer(3, domain={"skewed": Interval(0, 60, bins=20)}, random_state=0).fit(table).sample()
    assert rows["skewed"].dtype == np.int64


def test_decimals_of_polars_and_with_missing_values():
    values = [None if place % 4 == 0 else round(0.01 * (place % 100), 2) for place in range(4_000)]
    domain = {"a": Interval(0, 50, bins=5, decimals=2, missing=True)}
    rows = DPMarginalSynthesizer(3, domain=domain, random_state=0).fit(pl.DataFrame({"a": values})).sample()
    assert rows["a"].dtype == pl.Float64
    assert rows["a"].null_count() == pytest.approx(len(rows) / 4, rel=0.1)
    assert rows["a"].mean() == pytest.approx(0.5, rel=0.05)
    known = rows["a"].drop_nulls()
    assert (known == known.round(2)).all()


def test_rules_hold_between_decimals():
    rng = np.random.default_rng(0)
    start = rng.exponential(2, 3_000).clip(0, 30).round(2)
    table = pd.DataFrame({"start": start, "end": (start + rng.exponential(1, 3_000).round(2)).clip(0, 40).round(2)})
    domain = {name: Interval(0, 40, bins=10, decimals=2) for name in table}
    rules = [("start", "<=", "end")]
    rows = DPMarginalSynthesizer(3, domain=domain, structural_zeros=rules, random_state=0).fit(table).sample()
    assert (rows["start"] <= rows["end"]).all()
    assert (rows == rows.round(2)).all(axis=None)


def test_rules_between_other_decimals_are_refused():
    table = pd.DataFrame({"start": [1.0], "end": [2.0]})
    domain = {"start": Interval(0, 4, bins=2, decimals=1), "end": Interval(0, 4, bins=2, decimals=2)}
    with pytest.raises(ValueError, match="with the same decimals"):
        DPMarginalSynthesizer(1, domain=domain, structural_zeros=[("start", "<=", "end")]).fit(table)


def test_dates_follow_finer_cells():
    days = [date(2020, 3, 4)] * 3_000 + [date(2021, 6, 1)] * 1_000
    years = Interval(date(2020, 1, 1), date(2023, 1, 1), bins=3)
    table = pd.DataFrame({"day": days})
    rows = DPMarginalSynthesizer(1, domain={"day": years}, random_state=0).fit(table).sample()
    found = pd.to_datetime(rows["day"])
    assert (found - pd.Timestamp(2020, 3, 4)).abs().dt.days.le(3).mean() == pytest.approx(0.75, abs=0.1)


def test_bins_of_single_values_cost_nothing():
    domain = Domain({"a": Interval(edges=range(11)), "b": Interval(0, 10, bins=100, decimals=1)})
    for name in domain.columns:
        assert cells_within(domain[name]) is domain[name]
    table = pd.DataFrame({"a": [1, 2] * 50, "b": [0.5, 1.5] * 50})
    synthesizer = DPMarginalSynthesizer(1, domain=domain, marginals="independent", random_state=0).fit(table)
    assert synthesizer._shapes is None


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_counts_within_bins_are_charged_inside_the_budget(kind):
    synthesizer = DPMarginalSynthesizer(
        1, delta=0 if kind == "laplace" else 1e-6, domain={"a": Interval(0, 60, bins=20)}, marginals="independent"
    ).fit(pd.DataFrame({"a": np.arange(500) % 60}))
    whole = DPMarginalSynthesizer(
        1, delta=0 if kind == "laplace" else 1e-6, domain={"a": list(range(20))}, marginals="independent"
    ).fit(pd.DataFrame({"a": np.arange(500) % 20}))
    left = float(1 - SHARE_WITHIN)
    expected = left if kind == "laplace" else left**0.5
    assert whole.noise_scale_["a",] / synthesizer.noise_scale_["a",] == pytest.approx(expected, rel=0.01)
    assert synthesizer.guarantee_.epsilon == whole.guarantee_.epsilon == 1


class Recorded(OpenBudget):
    """Remembers what is counted, and the shares of its counts and its parts."""

    def __init__(self, lists, shares, share=Fraction(1)):
        super().__init__()
        self.lists, self.shares, self.share = lists, shares, share

    def part(self, share):
        self._spend(share)
        return Recorded(self.lists, self.shares, self.share * share)

    def counts(self, source, share, counts):
        self._spend(share)
        self.lists.append(counts.copy())
        self.shares.append(self.share * share)
        return counts.astype(float)


@pytest.mark.parametrize("reach", [1, 3])
def test_a_person_changes_each_list_of_counts_by_at_most_their_rows(reach):
    """Before noise, on all neighbours of a small table; the shares are the same, and add up to 1."""
    interval = Interval(0, 600, bins=3)
    declared, cells = Domain({"a": interval}), Domain({"a": cells_within(interval)})
    codes = np.random.default_rng(0).integers(0, cells.sizes[0], 12)

    def count(codes):
        lists, shares = [], []
        table = PrivateTable(CodedRecords([codes], cells.sizes), cells.sizes, Recorded(lists, shares), None)
        found = find_cells(table, cells, declared, "declared")
        found.table.measure((0,), found.table.budget.left)
        return lists, shares

    before, shares = count(codes)
    assert len(before) >= 3
    assert before[-1].size == 3
    assert before[-1].sum() == 12
    assert sum(shares) == 1
    for start in range(0, 12, reach):
        after, others = count(np.delete(codes, slice(start, start + reach)))
        assert others == shares
        assert [np.abs(one - other).sum() for one, other in zip(before, after, strict=True)] == [reach] * len(before)


def test_bins_that_are_clear_together_are_not_empty():
    assert find_empty(np.array([900.0, 3, -4, 2]), 1.0).tolist() == [False, False, True, True]
    assert find_empty(np.array([900.0, 0, 1.7, 1.7]), 1.0).tolist() == [False, True, False, False]
    assert find_empty(np.zeros(4), 1.0).all()


def test_bins_far_from_all_records_have_no_rows():
    """Noise left a few rows in each of 19 empty bins, which a mean shows."""
    table = pd.DataFrame({"a": np.random.default_rng(0).random(5_000).round(2)})
    synthesizer = DPMarginalSynthesizer(1, domain={"a": Interval(0, 100, bins=20, decimals=2)}, random_state=0).fit(
        table
    )
    assert synthesizer.sample(20_000)["a"].max() < 10
    assert np.isfinite(synthesizer.score_samples(pd.DataFrame({"a": [99.0]}))).all()
    for rows in synthesizer.sample(5_000, n_tables=2):
        assert rows["a"].max() < 10


def test_a_saved_fit_draws_the_same(tmp_path):
    table = numbers(n=2_000)[["skewed", "one price"]]
    domain = {name: declared()[name] for name in table}
    synthesizer = DPMarginalSynthesizer(1, domain=domain, random_state=0).fit(table)
    synthesizer.save(tmp_path / "model.zip")
    loaded = DPMarginalSynthesizer.load(tmp_path / "model.zip")
    assert loaded.domain_ == synthesizer.domain_
    rows = loaded.sample(100)
    assert (rows == rows.round(2)).all(axis=None)
