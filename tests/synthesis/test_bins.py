"""Bins from noisy counts of fine cells, and positions of rows within bins: privacy, means, decimals."""

import itertools
from datetime import date, datetime
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset
import pytest

import skdp.engines  # noqa: F401 registers the engines for `fit`
from skdp import Domain, DPMarginalSynthesizer, Interval, PrivacyGuarantee
from skdp.synthesis.measure._cell_counts import CellCounts
from skdp.synthesis.model import Covariance
from skdp.synthesis.private._number_cells import cut_domain
from skdp.testing import replay_release
from tests.cli.commands import draft_frame
from tests.conftest import diagonal, often, quick_first
from tests.synthesis.bounds import bounds_only
from tests.testing.central_releases import fit_model as with_persons


def cells_of(declared):
    return cut_domain(Domain({"x": declared})).get(0, declared)


def test_bounds_and_number_of_bins_are_declared():
    declared = {
        "income": Interval(0, 1_000_000, bins=20, real=True),
        "gain": Interval(-1_000.0, 100_000, bins=20, real=True),
        "born": Interval(date(1920, 1, 1), date(2020, 1, 1), bins=20),
    }
    skill = np.random.default_rng(0).normal(size=3_000)
    born = np.datetime64("1970-01-01") + (4_000 * skill).astype(int).clip(-18_000, 18_000)
    gain = np.where(skill < 1, 0.0, 1_000 * skill)
    table = pd.DataFrame({"income": np.exp(10 + 0.6 * skill), "gain": gain, "born": born})
    synthesizer = DPMarginalSynthesizer(20.0, delta=1e-6, domain=bounds_only(declared), random_state=0).fit(table)
    for name, interval in declared.items():
        found = synthesizer.domain_[name]
        assert (found.edges[0], found.edges[-1]) == (interval.edges[0], interval.edges[-1])
        assert 4 <= len(found) <= len(interval)
        assert found.real == interval.real
        assert {*found.edges} <= {*cells_of(interval).edges}


def test_found_bins_keep_the_release_of_the_bounds():
    guarantee = PrivacyGuarantee(0.25, relation="add_remove", trust="central", scope=("age",))
    domain = Domain({"age": Interval(16, 80)}).with_guarantee(guarantee)
    table = pd.DataFrame({"age": np.arange(16, 80)})
    synthesizer = DPMarginalSynthesizer(1.0, domain=domain, random_state=0).fit(table)
    assert synthesizer.domain_["age"].releases == domain["age"].releases


def make_amounts(name):
    """Make a skewed amount whose mean grows by group, and declare its bounds."""
    rng = np.random.default_rng(3)
    group = rng.integers(0, 4, 5_000)
    if name == "spend":
        amount = np.where(group == 0, 0, rng.exponential(25 + 6 * group).round(2).clip(0, 1_000))
        return group, amount, Interval(0, 1_000, decimals=2)
    if name == "debt":
        amount = np.where(rng.random(5_000) < 0.7 - 0.1 * group, 0, -np.exp(rng.normal(7, 1, 5_000)))
        return group, amount.clip(-50_000).round(2), Interval(-50_000, 0, decimals=2)
    return group, np.exp(rng.normal(9 + 0.1 * group, 0.8)).clip(0, 1e6).round(), Interval(0, 1_000_000)


@pytest.mark.parametrize(("name", "source"), diagonal(["spend", "debt", "income"], ["interval", "draft", "frame"]))
def test_skewed_amounts_keep_the_means_of_groups(name, source):
    """Twenty even bins up to 1,000 changed means of 0, 23, 31 and 42 to 7, 13, 19 and 28."""
    group, amount, interval = make_amounts(name)
    table = pd.DataFrame({"group": group, "amount": amount})
    domain = Domain({"group": range(4), "amount": interval})
    if source == "draft":
        domain = Domain.from_toml(draft_frame(table))
    elif source == "frame":
        domain = Domain.from_frame(table)
    synthesizer = DPMarginalSynthesizer(1.0, delta=1e-6, domain=domain, random_state=0).fit(table)
    rows = synthesizer.sample(20_000)
    difference = rows.groupby("group")["amount"].mean() - table.groupby("group")["amount"].mean()
    assert difference.abs().max() < 0.1 * amount.std()
    if name != "debt" or source == "interval":  # the upper bound of a draft is no point of real numbers
        assert (rows["amount"] == 0).mean() == pytest.approx((amount == 0).mean(), abs=0.02)


@pytest.mark.parametrize("seed", quick_first(2, [17, 6, 7, 12]))
def test_correlation_survives_noise_without_a_delta(seed):
    """Noise moved the median of fine cells, so that tails took all records, and one bin had nearly all rows."""
    rng = np.random.default_rng(3)
    shared = rng.normal(size=2_000)
    pressure = 130 + 18 * (0.7 * shared + 0.51**0.5 * rng.normal(size=2_000))
    table = pd.DataFrame({"weight": 75 + 12 * shared, "pressure": pressure})
    domain = {"weight": Interval(20, 200, real=True), "pressure": Interval(50, 250, real=True)}
    rows = DPMarginalSynthesizer(0.3, domain=domain, random_state=seed).fit(table).sample(20_000)
    assert rows.corr().iloc[0, 1] > 0.5
    assert ((rows.mean() - table.mean()).abs() < 0.5 * table.std()).all()


FREQUENT = {
    "halves": ([1.5, 2.0, 2.5, 7.0], Interval(0.0, 7.0)),
    "float32": ([float(np.float32(value)) for value in (0.1108433, 1.0045637, 0.9965166, 0.9975)], Interval(0.0, 1.3)),
    "incomes": ([500, 1_234, 12_457, 29_999], Interval(0, 30_000)),
    "cents": ([0.01, 17.35, 99.99, 4_711.48], Interval(0, 10_000, decimals=2)),
    "days": (
        [date(1931, 5, 17), date(1990, 1, 1), date(1999, 12, 31), date(2000, 2, 29)],
        Interval(date(1900, 1, 1), date(2020, 1, 1)),
    ),
}


def frequent_numbers(name, n=2_000):
    """Make a column of four frequent numbers, of which the second determines another column."""
    values, declared = FREQUENT[name]
    index = np.random.default_rng(0).integers(0, 4, n)
    table = pd.DataFrame({"x": pd.Series(values)[index].reset_index(drop=True), "y": (index == 1).astype(int)})
    return table, {"x": declared, "y": [0, 1]}


@pytest.mark.parametrize("name", often(FREQUENT, ["float32", "cents", "days"]))
def test_frequent_numbers_are_drawn_exactly(name):
    """Numbers were drawn evenly from cells of a 128th of the bounds, in which a few numbers had all records."""
    table, domain = frequent_numbers(name)
    rows = DPMarginalSynthesizer(100.0, delta=1e-6, domain=domain, random_state=0).fit(table).sample(2_000)
    x = rows["x"] if rows["x"].dtype.kind != "M" else rows["x"].dt.date
    for value in FREQUENT[name][0]:
        assert (x == value).mean() == pytest.approx((table["x"] == value).mean(), abs=0.02)
    assert ((x == FREQUENT[name][0][1]) == (rows["y"] == 1)).mean() > 0.98


def test_numbers_are_not_searched_if_noise_exceeds_their_records():
    table, domain = frequent_numbers("float32")
    synthesizer = DPMarginalSynthesizer(0.1, delta=1e-6, domain=domain, random_state=0).fit(table)
    assert {*synthesizer.domain_["x"].edges} <= {*cells_of(domain["x"]).edges}


@pytest.mark.parametrize(("kind", "name"), [("polars", "cents"), ("arrow", "halves")])
def test_frequent_numbers_of_a_large_table_are_found(kind, name):
    table, domain = frequent_numbers(name)
    synthesizer = DPMarginalSynthesizer(100.0, delta=1e-6, domain=domain, random_state=0)
    expected = synthesizer.fit(table).marginal(["x", "y"])
    large = pl.from_pandas(table).lazy()
    if kind == "arrow":
        large = pyarrow.dataset.dataset(pyarrow.Table.from_pandas(table))
    pd.testing.assert_frame_equal(synthesizer.fit(large).marginal(["x", "y"]), expected)


def test_model_carries_all_pairs_of_four_numbers():
    """With 40 bins a column, cliques of four columns exceeded `max_cells`, and the last pairs were not measured."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=600)
    table = pd.DataFrame({name: hidden + rng.normal(size=600) for name in "abcd"}).clip(-6, 6)
    domain = dict.fromkeys("abcd", Interval(-6.0, 6.0))
    synthesizer = DPMarginalSynthesizer(3_000.0, delta=1e-6, domain=domain, random_state=0).fit(table)
    for pair in itertools.combinations("abcd", 2):
        assert any({*pair} <= {*names} for names in synthesizer.selected_cliques_)
    difference = synthesizer.sample(5_000).corr() - table.corr()
    assert difference.abs().to_numpy().max() < 0.05


def test_declared_bins_are_kept_beside_found_bins():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.exponential(9, 3_000).round(), "b": rng.integers(0, 90, 3_000)}).clip(0, 100)
    declared = Interval(0, 100, bins=4)
    synthesizer = DPMarginalSynthesizer(3.0, delta=1e-6, domain={"a": Interval(0, 100), "b": declared}, random_state=0)
    fitted = synthesizer.fit(table)
    assert fitted.domain_["b"] == declared
    assert fitted.domain_["a"].edges != Interval(0, 100).edges
    assert fitted.sample(3_000).corr().iloc[0, 1] == pytest.approx(table.corr().iloc[0, 1], abs=0.1)


@pytest.mark.parametrize(("rows", "bins"), diagonal([1, 3], ["declared", "found"]))
def test_person_costs_the_stated_epsilon(bins, rows):
    """Bins, shapes, ranks and the model depend on noisy counts only: they are equal in a replay."""
    domain = Domain({"a": Interval(0, 600, bins=3), "b": Interval(date(2000, 1, 1), date(2000, 1, 9), bins=2)})
    rng = np.random.default_rng(0)
    days = np.datetime64("2000-01-01") + rng.integers(0, 9, 12)
    table = pd.DataFrame({"a": rng.integers(0, 600, 12), "b": days, "person": np.repeat(np.arange(12 // rows), rows)})
    synthesizer = DPMarginalSynthesizer(20.0, domain=bounds_only(domain, bins), max_rows_per_person=rows)
    # With the largest budget, cells with a frequent number are divided.
    for epsilon, marginals in ((20, "auto"), (20, "independent"), (3_000, "auto")):
        release = partial(with_persons, synthesizer.set_params(epsilon=float(epsilon), marginals=marginals))
        replay = replay_release(release, table, table[:-rows])
        assert replay.passed, replay.findings
        # For a person with 3 rows, a score may change by less than 3.
        assert replay.epsilon == pytest.approx(epsilon, rel=0.02)


# Cells.


@pytest.mark.parametrize(
    ("declared", "inside"),
    [
        (Interval(0, 2, bins=3), [0.0, 1.0]),
        (Interval(0, 1_000_000, bins=20), [0.0, 1.0]),
        (Interval(0, 2_000, bins=20, decimals=2), [0.0, 0.01]),
        (Interval(-1e6, 1e6, bins=20, real=True), [0.0]),
        (Interval(0, 1.7e308, bins=2, real=True), [0.0]),
        (Interval(-3.5, -0.25, bins=20), [-3.0, -1.0]),
        (Interval(-1e300, 1e300, bins=2, real=True), [0.0]),
        (Interval(date(2000, 1, 1), date(2000, 1, 7), bins=2), [date(2000, 1, 2), date(2000, 1, 3)]),
        (Interval(date(1, 1, 1), date(9999, 12, 31), bins=2), []),
        (Interval(datetime(2000, 1, 1), datetime(2000, 1, 1, 0, 0, 0, 9), bins=2), []),
    ],
)
def test_cells_follow_from_the_declaration(declared, inside):
    fine = cells_of(declared)
    assert len(fine) <= 1_100
    assert {*declared.edges, *inside} <= {*fine.edges}
    if isinstance(declared.edges[0], datetime) and declared.edges[-1].microsecond == 0:
        assert not any(edge.microsecond for edge in fine.edges)


@pytest.mark.parametrize(
    ("declared", "step"),
    [
        (Interval(0, 10, bins=5), 1),
        (Interval([0, 50, 99.7, 100], decimals=0), 1),
        (Interval([0, 50, 99_999.7, 100_000], decimals=0), 1),
        (Interval(0, 100_000.5, bins=4, decimals=0), 1),
        (Interval([0, 1, 2.96, 3], decimals=1), 10),
        (Interval(0, 3_000.05, bins=3, decimals=1), 10),
        (Interval(-76, 680, bins=4, decimals=1), 10),
    ],
)
def test_every_cell_contains_a_number(declared, step):
    low, high = declared.edges[0], declared.edges[-1]
    fine = cells_of(declared)
    codes = fine.encode(np.arange(round(low * step), int(high * step) + 1) / step)
    assert set(codes) == set(range(len(fine)))
    assert np.count_nonzero(codes == codes[-1]) == 1


def numbers(n, seed=0):
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=n)
    columns = {"skewed": rng.exponential(0.7, n).clip(0, 60), "below zero": (-2 + 0.5 * normal).clip(-100, 100)}
    return pd.DataFrame({name: column.round(2) for name, column in columns.items()})


ENDS = {"skewed": (0, 60), "below zero": (-100, 100)}


@pytest.mark.parametrize("seed", quick_first(1, [0, 1]))
def test_standard_deviations_are_kept_between_wide_bounds(seed):
    """Noise in bins far from all records became rows: standard deviations were up to 90 times too large."""
    rng = np.random.default_rng(3)
    n = 20_000
    columns = {
        "minutes": np.exp(4 + 0.7 * rng.normal(size=n)),
        "balance": 1_500 + 900 * rng.standard_t(4, n),
        "wage": np.exp(10 + 0.6 * rng.normal(size=n)),
        "flow": rng.laplace(-300, 250, n),
    }
    bounds = {"minutes": (0, 5_000), "balance": (-50_000, 50_000), "wage": (0, 1_000_000), "flow": (-20_000, 20_000)}
    domain = {name: Interval(*ends, bins=32, decimals=0) for name, ends in bounds.items()}
    table = pd.DataFrame(columns).round()
    rows = DPMarginalSynthesizer(0.5, delta=1e-9, domain=domain, random_state=seed).fit(table).sample(n)
    assert ((rows.mean() - table.mean()).abs() < 0.1 * table.std()).all()
    assert (rows.std() / table.std()).between(0.8, 1.2).all()


@pytest.mark.parametrize(("bins", "decimals"), diagonal(["declared", "found"], quick_first(2, [0, 2, 1])))
def test_rows_have_the_declared_decimals_for_any_dtype(decimals, bins):
    table = numbers(2_000)
    domain = {name: Interval(*ends, bins=20, decimals=decimals) for name, ends in ENDS.items()}
    made = []
    for data in (table.round(decimals), table.round(decimals).astype(np.float32)):
        synthesizer = DPMarginalSynthesizer(3, domain=bounds_only(domain, bins), random_state=0)
        made.append(synthesizer.fit(data).sample(500))
    for rows in made:
        for name in rows:
            assert rows[name].dtype.kind == ("f" if decimals else "i")
            nearest = rows[name].astype(float).round(decimals)
            assert (rows[name] == nearest.astype(rows[name].dtype)).all()
            assert rows[name].between(*ENDS[name]).all()
    assert made[0]["skewed"].astype(float).nunique() >= [3, 15, 50][decimals]


def test_empty_parts_of_cells_are_not_divided_because_of_laplace_noise():
    """Later counts had ten times the noise, so the release had 197,000 integers, and linked tables took 6 GB."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(300) < 0.7, rng.choice([1.25, 7.5, 33.3, 60.1], 300), rng.uniform(0, 100, 300))
    table = pd.DataFrame({"x": x})
    model = DPMarginalSynthesizer(100.0, delta=0.0, domain=Domain({"x": Interval(0.0, 100.0)}), random_state=0)
    replay = replay_release(model, table, table[:-1])
    assert replay.passed
    assert replay.draws["size"].sum() < 20_000


def test_blocks_on_both_sides_of_a_clear_block_share_the_unclear_records():
    counts = np.full(64, 2.5)
    counts[24:32] = 1_000
    covariance = Covariance(np.full(64, 2.5**2), np.zeros((64, 0)))
    cells = CellCounts(counts, covariance, np.arange(65) / 64, np.ones(64), 8.5)
    proportions = cells.divide(0, 64).reshape(8, 8).sum(axis=1)
    assert proportions[[2, 4]] == pytest.approx(70 / 8_140)
    assert not proportions[[0, 1, 5, 6, 7]].any()
