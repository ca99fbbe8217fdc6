"""Bins that are found by noisy counts of fine cells: what they are, what they cost, and what is drawn in them."""

from __future__ import annotations

import copy
import io
import itertools
import json
import re
import zipfile
from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skdp.engines  # noqa: F401 so that `fit` knows the engines
from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger, SyntheticResampler
from skdp.base import CallCounter
from skdp.domain import Domain, pack
from skdp.privacy import Mu, Rho
from skdp.synthesis import synthetic_inference
from skdp.synthesis.selection import find_bins
from skdp.synthesis.selection._private_table import GaussianBudget, NoiseBudget
from skdp.synthesis.tables import _shapes, find_points, fine_grid
from tests.conftest import each
from tests.synthesis.budgets import OpenBudget, make_budget, private_table

N = 3_000
DOMAIN = {
    "hours": Interval(0, 99, bins=33),
    "income": Interval(0, 1_000_000, bins=20, real=True),
    "gain": Interval(-1_000.0, 100_000, bins=20, real=True),
    "born": Interval(date(1920, 1, 1), date(2020, 1, 1), bins=20),
    "sex": ["F", "M"],
}


def make_people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=n)
    hours = np.where(rng.random(n) < 0.4, 40, np.clip(np.rint(38 + 11 * rng.normal(size=n)), 0, 99))
    return pd.DataFrame(
        {
            "hours": hours.astype(int),
            "income": np.exp(10 + 0.6 * skill + 0.3 * rng.normal(size=n)).clip(0, 1_000_000),
            "gain": np.where(rng.random(n) < 0.8, 0.0, np.exp(7 + skill)).clip(0, 100_000),
            "born": np.datetime64("1970-01-01") + (4_000 * skill).astype(int).clip(-18_000, 18_000),
            "sex": np.where(skill + rng.normal(size=n) > 0, "F", "M"),
        }
    )


PEOPLE = make_people()


def fitted(table=PEOPLE, domain=None, **parameters):
    given = {"epsilon": 20.0, "delta": 1e-6, "bins": "private", "random_state": 0, "max_iter": 50}
    return DPMarginalSynthesizer(domain=domain or DOMAIN, **given | parameters).fit(table)


@pytest.fixture(scope="module")
def synthesizer():
    return fitted()


@pytest.fixture(scope="module")
def rows(synthesizer):
    return synthesizer.sample()


def test_the_ends_and_the_most_bins_are_those_declared(synthesizer):
    for name in ["hours", "income", "gain", "born"]:
        found, declared = synthesizer.domain_[name], DOMAIN[name]
        assert (found.edges[0], found.edges[-1]) == (declared.edges[0], declared.edges[-1])
        assert 4 <= len(found) <= len(declared)
        assert found.real == declared.real
        assert {*found.edges} <= {*fine_grid(declared).edges}
    assert synthesizer.domain_["sex"].values == ("F", "M")


def test_bins_have_about_equal_shares(synthesizer):
    shares = synthesizer.marginal(["income"])["count"].to_numpy() / N
    assert shares.max() < 2.5 / shares.size


def test_rows_keep_points_of_mass_and_kinds_of_numbers(rows):
    assert rows["hours"].dtype == np.int64
    assert (rows["hours"] == 40).mean() == pytest.approx((PEOPLE["hours"] == 40).mean(), abs=0.02)
    assert (rows["gain"] == 0).mean() == pytest.approx(0.8, abs=0.02)
    assert rows["income"].mod(1).ne(0).mean() > 0.9
    assert rows["born"].dt.normalize().eq(rows["born"]).all()


def test_rows_keep_the_mean_and_correlations_of_skewed_numbers(rows):
    assert rows["income"].mean() == pytest.approx(PEOPLE["income"].mean(), rel=0.1)
    numbers = ["hours", "income", "gain", "born"]
    ranks = [table[numbers].rank().corr() for table in (PEOPLE, rows)]
    assert (ranks[0] - ranks[1]).abs().to_numpy().max() < 0.1


def test_positions_within_bins_follow_other_columns():
    """Two bins a column: independent positions in them would leave two thirds of the correlation."""
    rng = np.random.default_rng(0)
    one = rng.normal(size=4_000)
    table = pd.DataFrame({"a": one, "b": 0.95 * one + 0.31 * rng.normal(size=4_000)}).clip(-6, 6)
    domain = dict.fromkeys("ab", Interval(-6.5, 6.5, bins=2))
    made = fitted(table, domain).sample(4_000)
    assert len(fitted(table, domain).domain_["a"]) == 2
    assert made.corr().loc["a", "b"] > 0.9
    X, y = SyntheticResampler(fitted(table, domain)).fit_resample(table[["a"]], table["b"])
    assert X["a"].corr(y) > 0.9
    assert fitted(table, domain, bins="declared").sample(4_000).corr().loc["a", "b"] < 0.8


def test_declared_bins_are_the_default_and_draw_as_before():
    plain = DPMarginalSynthesizer(domain=DOMAIN, random_state=0, max_iter=10).fit(PEOPLE)
    assert plain.domain_ == Domain(DOMAIN)
    pd.testing.assert_frame_equal(plain.sample(9), fitted(epsilon=1.0, delta=0, bins="declared", max_iter=10).sample(9))
    categories = PEOPLE[["sex"]], {"sex": ["F", "M"]}
    for name in ["noise_scale_", "n_rows_"]:
        assert getattr(fitted(*categories), name) == getattr(fitted(*categories, bins="declared"), name)


# What is measured


def given_to_the_budget(codes, declared, budget):
    cells = Domain({name: fine_grid(declared[name]) for name in declared.columns})
    table = private_table(codes, cells.sizes, budget)
    return find_bins(table, cells, declared)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_record_changes_each_level_of_a_tree_by_one(rows):
    """All tables of up to two records, and all that one person of so many rows may add."""
    declared = Domain({"a": Interval(0, 20, bins=3), "b": Interval(date(2000, 1, 1), date(2000, 1, 3), bins=2)})
    cells = [(0, 0), (7, 1), (8, 1)]
    spent = []

    def counts_of(codes):
        budget = Recorded()
        given_to_the_budget(codes, declared, budget)
        assert len(budget.parts) == 2  # for the bins, and for what is measured next
        if budget.parts[0].shares not in spent:
            spent.append(budget.parts[0].shares)
        return budget.parts[0].given

    tables = {
        some: counts_of(some) for n in range(2 + rows) for some in itertools.combinations_with_replacement(cells, n)
    }
    worst = 0
    for some, counts in tables.items():
        for more in itertools.combinations_with_replacement(cells, rows):
            larger = tables.get(tuple(sorted((*some, *more))))
            if larger is not None:
                changes = [np.abs(a - b).sum() for a, b in zip(counts, larger, strict=True)]
                assert max(changes) <= rows
                worst = max(worst, sum(changes))
    assert sum(spent[0]) == 1
    assert len(spent) == 1
    assert worst == rows * len(spent[0])


class Recorded(OpenBudget):
    """Remembers the shares of its counts and its parts."""

    def __init__(self):
        super().__init__()
        self.parts, self.shares, self.given = [], [], []

    def part(self, share):
        self._spend(share)
        self.parts.append(Recorded())
        return self.parts[-1]

    def counts(self, source, share, counts):
        self._spend(share)
        self.shares.append(share)
        self.given.append(counts.copy())
        return counts.astype(float)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_parts_of_a_budget_have_the_noise_of_their_share(kind):
    whole, parted = make_budget(kind, 1), make_budget(kind, 1)
    part = parted.part(Fraction(1, 5))
    assert part.std_error(Fraction(1, 4)) == whole.std_error(Fraction(1, 20))
    assert part.score_error(Fraction(1, 4), 7) == whole.score_error(Fraction(1, 20), 7)
    assert parted.left == Fraction(4, 5)
    with pytest.raises(RuntimeError, match="more than the whole budget"):
        parted.part(Fraction(9, 10))


@pytest.mark.parametrize("choices", ["rho", "mu"])
def test_choices_in_a_part_of_a_budget_cost_its_share(choices):
    whole, parted = (GaussianBudget(Fraction(1), choices=choices) for _ in range(2))
    assert parted.part(Fraction(1, 5))._choice_epsilon(Fraction(1, 4)) == whole._choice_epsilon(Fraction(1, 20))


@pytest.mark.parametrize("marginals", ["auto", "independent", "tree", "adaptive", "full", [("hours", "sex")]], ids=str)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_shares_add_up_to_the_whole_budget(marginals, delta, monkeypatch):
    budgets = []
    born = NoiseBudget.__init__

    def remembered(self, rows):
        born(self, rows)
        budgets.append(self)

    monkeypatch.setattr(NoiseBudget, "__init__", remembered)
    names = ["hours", "sex"]
    fitted(PEOPLE[names], {name: DOMAIN[name] for name in names}, marginals=marginals, delta=delta, max_iter=5)
    assert len(budgets) == 3  # the whole, the bins, the marginals
    assert [budget.left for budget in budgets] == [0, 0, 0]


def test_all_that_is_found_follows_from_noisy_counts(monkeypatch):
    """With the same noisy numbers, other rows give the same bins, shapes and model."""
    noisy = np.random.default_rng(0)
    numbers = {}

    def counts(self, source, share, true):
        self._spend(share)
        return numbers.setdefault((share, true.shape), noisy.integers(0, 500, true.shape).astype(float))

    for budget in NoiseBudget.__subclasses__():
        monkeypatch.setattr(budget, "counts", counts)
    monkeypatch.setattr(_shapes, "_LEARNT_FROM", 500)
    others = PEOPLE.sample(900, random_state=1)
    found = [fitted(table, marginals="independent") for table in (PEOPLE, others, PEOPLE.iloc[:0])]
    drawn = [one.sample(20) for one in found]
    for one, rows in zip(found[1:], drawn[1:], strict=True):
        assert one.domain_ == found[0].domain_
        np.testing.assert_array_equal(one._shapes.correlations, found[0]._shapes.correlations)
        pd.testing.assert_frame_equal(rows, drawn[0])


def test_counts_of_bins_have_the_noise_that_is_stated():
    """The counts of bins have no bias, and no sum of them is worse than their stated error."""
    declared = Domain({"a": Interval(0, 100, bins=5)})
    codes = np.random.default_rng(0).integers(0, 101, 2_000)[:, np.newaxis]
    cells = Domain({"a": fine_grid(declared["a"])})
    scaled = []
    for seed in range(60):
        table = private_table(codes, cells.sizes, make_budget("gaussian", 1), seed)
        left, domain, _ = find_bins(table, cells, declared)
        true = np.bincount(domain["a"].encode(codes[:, 0]), minlength=len(domain["a"]))
        (marginal,) = left.marginals
        scaled.append((marginal.counts - true).sum() / marginal.std_error / true.size**0.5)
        scaled.extend((marginal.counts - true) / marginal.std_error)
    assert abs(np.mean(scaled)) < 0.1
    assert 0.5 < np.std(scaled) < 1.05


def test_what_is_printed_adds_up_to_the_budget(capsys):
    fitted(PEOPLE[["born", "sex"]], {name: DOMAIN[name] for name in ["born", "sex"]}, verbose=True, max_iter=5)
    shares = re.findall(r"\(([0-9.e-]+) % of the budget\)", capsys.readouterr().err)
    assert shares[0] == "20"
    assert sum(map(float, shares)) == pytest.approx(100, abs=0.5)


# Grids


@each(
    "declared, inside",
    [
        (Interval(0, 5, bins=5), [0.0, 1.0, 2.0, 3.0, 4.0, 4.5, 5.0]),
        (Interval(0, 2, bins=3), [0.0, 1.0, 1.5]),
        (Interval(0, 1e6, bins=20), [0.0, 1.0, 2.0, 1e6]),
        (Interval(0, 1e8, bins=20), [0.0, 1.0]),
        (Interval(0, 1e6, bins=20, real=True), [0.0, 1e6]),
        (Interval(-1e6, 1e6, bins=20, real=True), [0.0]),
        (Interval(1e6, 1e6 + 1, bins=20), []),
        (Interval(-3.5, -0.25, bins=20), [-3.0, -1.0]),
        (Interval(0.0, 1e-300, bins=2), [0.0]),
        (Interval(-1e300, 1e300, bins=2, real=True), [0.0]),
        (Interval(date(2000, 1, 1), date(2000, 1, 5), bins=2), [date(2000, 1, 2), date(2000, 1, 3)]),
        (Interval(date(1, 1, 1), date(9999, 12, 31), bins=2), []),
        (Interval(datetime(2000, 1, 1), datetime(2001, 1, 1, 0, 0, 1), bins=2), []),
        (Interval(datetime(2000, 1, 1), datetime(2000, 1, 1, 0, 0, 0, 9), bins=2), []),
    ],
)
def test_grids_follow_from_the_declaration(declared, inside):
    grid = fine_grid(declared)
    assert len(grid) <= 1_100
    assert (grid.edges[0], grid.edges[-1]) == (declared.edges[0], declared.edges[-1])
    assert {*inside} <= {*grid.edges}
    assert fine_grid(Interval(edges=[*declared.edges[:: len(declared.edges) - 1]], real=declared.real)) == grid
    if isinstance(declared.edges[0], datetime) and declared.edges[-1].microsecond == 0:
        assert not any(edge.microsecond for edge in grid.edges)


@each(
    "declared, most",
    [
        (Interval(0, 5_000_000, bins=5), 0),
        (Interval(0, 20, bins=5), 0),
        (Interval(1e6, 1e6 + 1, bins=20), 3),
        (Interval(-1e6, 3e6, bins=20, real=True), 2),
        (Interval(0, 10, bins=20, real=True), 11),
    ],
)
def test_few_cells_stand_for_a_single_number(declared, most):
    """Relative to the largest number, all cells of a short range far from 0 would be single numbers."""
    assert find_points(fine_grid(declared)).sum() <= most


def test_single_numbers_of_a_grid_are_drawn_as_they_are():
    grid = fine_grid(Interval(0, 10, bins=20, real=True))
    edges = np.array(grid.edges)
    assert set(edges[:-1][find_points(grid)]) >= {*range(10)}
    table = pd.DataFrame({"a": np.repeat([0.0, 2.5, 7.0], 500)})
    made = fitted(table, {"a": Interval(0, 10, bins=20, real=True)}).sample()["a"]
    assert (made == 0).mean() == pytest.approx(1 / 3, abs=0.02)
    assert (made == 7).mean() == pytest.approx(1 / 3, abs=0.02)
    assert made.sub(2.5).abs().lt(0.2).mean() == pytest.approx(1 / 3, abs=0.02)


# Inputs


KINDS = {
    "numpy": lambda table: table,
    "nullable": lambda table: table.convert_dtypes(),
    "arrow": lambda table: table.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "pyarrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bins", ["declared", "private"])
def test_whole_numbers_stay_whole_where_some_are_missing(kind, bins):
    """By the declaration alone: whether or not a value is missing, and where the column came as floats."""
    domain = {"a": Interval(0, 50, bins=10, missing=True), "b": Interval(0, 1_000, bins=10, missing=True)}
    rng = np.random.default_rng(0)
    whole = pd.DataFrame({"a": rng.integers(0, 51, 600), "b": rng.integers(0, 1_001, 600)}).astype(float)
    dtypes = []
    for missing in (0.3, 0.0):
        table = KINDS[kind](whole.mask(rng.random(whole.shape) < missing))
        made = fitted(table, domain, bins=bins, epsilon=5.0).sample(300)
        frame = made if isinstance(made, pd.DataFrame) else made.to_pandas()
        values = frame["a"].astype(float)
        assert values.isna().mean() == pytest.approx(missing, abs=0.05)
        assert values.dropna().mod(1).eq(0).all()
        dtypes.append(str(made["a"].type if kind == "pyarrow" else made["a"].dtype))
    assert dtypes == ["float64"] * 2 if kind == "numpy" else {one.lower()[:5] for one in dtypes} == {"int64"}


def test_missing_values_and_a_target():
    table = PEOPLE.assign(income=PEOPLE["income"].mask(PEOPLE["sex"] == "F"))
    domain = DOMAIN | {"income": Interval(0, 1_000_000, bins=20, real=True, missing=True)}
    given = {"domain": domain, "bins": "private", "random_state": 0, "max_iter": 20, "marginals": "tree"}
    synthesizer = DPMarginalSynthesizer(20.0, delta=1e-6, **given)
    made = synthesizer.fit(table.drop(columns="income"), table["income"]).sample()
    assert made["income"].isna().groupby(made["sex"]).mean().round(1).to_dict() == {"F": 1.0, "M": 0.0}
    assert len(synthesizer.domain_["income"]) == len(synthesizer.domain_["income"].edges)


@pytest.mark.parametrize("handle_unknown", ["clip", "ignore", {"a": 9.0}], ids=str)
def test_what_is_not_declared_is_treated_as_by_declared_bins(handle_unknown):
    table = pd.DataFrame({"a": np.r_[np.full(500, 3.0), np.full(500, 1e9)]})
    found = fitted(table, {"a": Interval(0, 10, bins=10, real=True)}, handle_unknown=handle_unknown)
    assert found.n_rows_ == pytest.approx(500 if handle_unknown == "ignore" else 1_000, abs=20)
    made = found.sample()["a"]
    assert made.max() < 3.1 if handle_unknown == "ignore" else made.max() >= 9


@pytest.mark.parametrize(
    "promise", [{"epsilon": Rho(1.0, 1e-6), "delta": 0}, {"epsilon": Mu(2.0, 1e-6), "delta": 0}, {"delta": 0}], ids=str
)
def test_other_promises(promise):
    ledger = PrivacyLedger(epsilon=100, delta=1e-3)
    table, domain = PEOPLE[["hours"]], {"hours": DOMAIN["hours"]}
    found = fitted(table, domain, ledger=ledger, max_iter=10, **promise)
    assert len(ledger.report()) == 1
    plain = fitted(table, domain, bins="declared", max_iter=10, **promise).guarantee_
    assert (found.guarantee_.epsilon, found.guarantee_.delta) == (plain.epsilon, plain.delta)
    assert "bins" in found.guarantee_.mechanism


def test_together_with_values_that_are_found():
    found = fitted(domain={name: DOMAIN[name] for name in DOMAIN if name != "sex"}, discover=0.2, max_iter=10)
    assert found.domain_["sex"].values[:2] == ("F", "M")
    assert (found.sample()["hours"] == 40).mean() == pytest.approx(0.42, abs=0.05)


@pytest.mark.parametrize(
    ("table", "parameters"),
    [
        (PEOPLE.iloc[:0], {}),
        (PEOPLE.iloc[:1], {"epsilon": 1e-6, "delta": 0}),
        (PEOPLE.iloc[:200], {"epsilon": 1e4, "delta": 0, "marginals": "tree"}),
        (PEOPLE[["born"]], {}),
    ],
    ids=["no rows", "nothing but noise", "hardly any noise", "a single column"],
)
def test_extreme_tables_and_promises(table, parameters):
    found = fitted(table, {name: DOMAIN[name] for name in table}, max_iter=5, **parameters)
    made = found.sample(50)
    assert len(made) == 50
    assert made.notna().all().all()
    assert [str(dtype) for dtype in made.dtypes] == [str(dtype) for dtype in table.dtypes]


def test_large_tables_have_the_bins_of_tables_in_memory():
    names = ["hours", "income", "sex"]
    table, domain = PEOPLE[names], {name: DOMAIN[name] for name in names}
    plain, lazy = (fitted(one, domain, max_iter=10) for one in (table, pl.from_pandas(table).lazy()))
    assert lazy.domain_ == plain.domain_
    for one, other in zip(plain.marginals_, lazy.marginals_, strict=True):
        np.testing.assert_array_equal(one.counts, other.counts)


# What is refused


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bins": "equal"}, "bins must be one of"),
        ({"bins": 8}, "bins must be one of"),
        ({"structural_zeros": [{"hours": (0, 3), "sex": ["F"]}]}, "whose bins bins=.private. is to find; use bins="),
        ({"max_cells": 0}, "max_cells"),
    ],
)
@pytest.mark.parametrize("table", [PEOPLE, pl.from_pandas(PEOPLE).lazy()], ids=["memory", "lazy"])
def test_what_is_refused_costs_nothing(table, parameters, message):
    ledger = PrivacyLedger(epsilon=100, delta=1e-3)
    with pytest.raises(ValueError, match=message):
        fitted(table, ledger=ledger, **parameters)
    assert ledger.spent.epsilon == 0


def test_undeclared_values_are_refused_before_the_charge():
    ledger = PrivacyLedger(epsilon=100, delta=1e-3)
    table = PEOPLE.assign(hours=1_000)
    for one in (table, pl.from_pandas(table).lazy()):
        with pytest.raises(ValueError, match="outside the declared domain") as error:
            fitted(one, ledger=ledger)
        assert "1000" not in str(error.value)
    assert ledger.spent.epsilon == 0


# What else is asked of the fitted model


def test_parts_of_bins_are_counted_by_their_shape(synthesizer):
    assert synthesizer.count({"hours": (40, 41)}) == pytest.approx((PEOPLE["hours"] == 40).sum(), abs=60)
    for low, high in [(0, 10_000), (30_000, 50_000), (None, None)]:
        true = PEOPLE["income"].between(low or 0, high or np.inf, inclusive="left").sum()
        assert synthesizer.range_count("income", low, high) == pytest.approx(true, abs=100)
    born = PEOPLE["born"].lt(pd.Timestamp(1960, 1, 1)).sum()
    assert synthesizer.range_count("born", None, date(1960, 1, 1)) == pytest.approx(born, abs=100)


def test_a_part_of_a_bin_is_never_known_for_certain():
    """Nor where no fine cell of the rest of the bin has records: the interval is all that the bin allows."""
    table = pd.DataFrame({"a": np.r_[np.full(500, 2.5), np.full(12, 8.5)]})
    found = fitted(table, {"a": Interval(0, 10, bins=2, real=True)}, epsilon=0.5)
    held = found.range_estimate("a", 0, 8)
    assert found.range_estimate("a").supported
    assert not held.supported
    assert held.lower <= 500 <= held.upper
    assert held.count == pytest.approx(found.n_rows_, rel=0.01)


def test_inference_takes_the_means_within_bins_and_warns(synthesizer):
    with pytest.warns(UserWarning, match=r"the bins of \['income'\] were found by noisy counts"):
        found = synthetic_inference(synthesizer, lambda table: table["income"].mean(), columns=["income"])
    assert found["estimate"].item() == pytest.approx(PEOPLE["income"].mean(), rel=0.1)


def test_files_keep_the_shapes(synthesizer):
    file = io.BytesIO()
    synthesizer.save(file)
    loaded = DPMarginalSynthesizer.load(file).set_params(random_state=0)
    again = copy.deepcopy(synthesizer)
    again._calls = CallCounter()  # the first call
    pd.testing.assert_frame_equal(loaded.sample(50), again.sample(50))
    assert loaded.bins == "private"
    assert loaded.range_count("income", 0, 12_345) == synthesizer.range_count("income", 0, 12_345)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("below_0.npy", lambda array: array + 0.1, "a shape has no probabilities"),
        ("below_1.npy", lambda array: array[::-1].copy(), "a shape has no probabilities"),
        ("below_1.npy", lambda array: array[1:], "another shape"),
        ("correlations.npy", lambda array: array - 2, "no correlations"),
        ("correlations.npy", lambda array: np.triu(array), "no correlations"),
    ],
)
def test_damaged_shapes_are_refused(synthesizer, part, change, message):
    file, damaged = io.BytesIO(), io.BytesIO()
    synthesizer.save(file)
    with zipfile.ZipFile(file) as read, zipfile.ZipFile(damaged, "w") as written:
        for name in read.namelist():
            if name == part:
                array = io.BytesIO()
                np.save(array, change(np.load(io.BytesIO(read.read(name)))))
            written.writestr(name, array.getvalue() if name == part else read.read(name))
    with pytest.raises(ValueError, match=message):
        DPMarginalSynthesizer.load(damaged)


def test_grids_of_a_file_must_fit_its_domain(synthesizer):
    file, damaged = io.BytesIO(), io.BytesIO()
    synthesizer.save(file)
    with zipfile.ZipFile(file) as read, zipfile.ZipFile(damaged, "w") as written:
        for name in read.namelist():
            text = read.read(name)
            if name == "header.json":
                header = json.loads(text)
                header["grids"] = pack({"hours": Interval(0, 99, bins=98)})
                text = json.dumps(header)
            written.writestr(name, text)
    with pytest.raises(ValueError, match="shapes of the file cannot be read: a shape has other edges"):
        DPMarginalSynthesizer.load(damaged)


def test_batches_tables_and_columns_that_are_drawn_again(synthesizer):
    batches = list(synthesizer.sample_batches(90, batch_size=40))
    assert [len(batch) for batch in batches] == [40, 40, 10]
    assert [len(table) for table in synthesizer.sample(30, n_tables=2)] == [30, 30]
    assert len(next(synthesizer.sample_batches(1, batch_size=1))) == 1
    drawn = synthesizer.set_params(redraw=["hours", "income"]).transform(PEOPLE.head(200))
    synthesizer.set_params(redraw=None)
    assert drawn["gain"].equals(PEOPLE.head(200)["gain"])
    assert drawn["hours"].dtype == np.int64
    assert len(synthesizer.transform(PEOPLE.head(20))) == 20


def test_a_fit_with_declared_bins_forgets_found_ones():
    found = fitted(PEOPLE[["hours"]], {"hours": DOMAIN["hours"]})
    assert found.domain_["hours"] != DOMAIN["hours"]
    found.set_params(bins="declared").fit(PEOPLE[["hours"]])
    assert found.domain_["hours"] == DOMAIN["hours"]
    assert set(DOMAIN["hours"].edges) <= set(found._shapes.columns["hours"].grid.edges)
