"""Limits of columns that are found with a part of the budget, for ends of bounds that nobody declares."""

import math
import sys
import warnings
from dataclasses import replace
from itertools import combinations, combinations_with_replacement

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from skdp import (
    DPPCA,
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    DPGaussianNB,
    DPGroupBy,
    DPHistogram,
    DPKBinsDiscretizer,
    DPLinearRegression,
    DPLogisticRegression,
    DPMean,
    DPMinMaxScaler,
    DPQuantileTransformer,
    DPRidge,
    DPRobustScaler,
    DPSimpleImputer,
    DPStandardScaler,
    DPTargetEncoder,
    Interval,
    PrivacyLedger,
    discover_domain,
    privacy_statement,
)
from skdp.central._limits import Cells
from skdp.privacy import Mu, Rho, parse_budget
from skdp.randomness import SeededSource, watch_draws
from skdp.testing import replay_release
from tests.central.estimators import fit_estimator
from tests.conftest import diagonal, often, quick_first

rng = np.random.default_rng(0)
N = 3000
PEOPLE = pd.DataFrame(
    {"age": rng.normal(45, 12, N), "income": rng.lognormal(10.4, 0.7, N), "rare": rng.random(N) < 0.1}
)
# Estimators with open ends.
MODELS = [
    DPMean(),
    DPStandardScaler(),
    DPMinMaxScaler(quantile_range=(5, 95)),
    DPRobustScaler(),
    DPQuantileTransformer(n_quantiles=6),
    DPKBinsDiscretizer(n_bins=3),
    DPSimpleImputer(),
    DPSimpleImputer(strategy="median"),
    DPPCA(),
    DPGaussianNB(classes=[0, 1]),
    DPAdditiveClassifier(classes=[0, 1]),
    DPAdditiveRegressor(),
    DPLinearRegression(),
    DPRidge(Mu(0.3, 1e-6), target_bounds=(0, None)),
    DPLogisticRegression(classes=[0, 1]),
]
BUDGETS = [2.0, Rho(0.3, 1e-6), Mu(1.0, 1e-6)]
GROUPS = DPGroupBy(by="y", keys={"y": [0, 1]}, statistics=["count", "mean", "std", "median"])
# Columns that are extreme or small, and limits between which all finite results must be.
HOSTILE = {
    "zeros": [0.0] * 300,
    "one number": [7.5] * 300,
    "huge": [1e300, -1e300] * 100,
    "one huge number": [1e308] + [5.0] * 300,
    "tiny": [1e-300] * 200,
    "infinite": [math.inf] * 100 + [-math.inf] * 100,
    "missing": [math.nan] * 100,
    "a few infinite": [*rng.normal(size=200), math.inf, math.nan],
    "two clusters": [-1e6] * 150 + [1e6] * 150,
    "one row": [3.0],
    "no row": [],
    "mostly zeros": [0.0] * 990 + [1e5] * 10,
    "whole": list(range(100)) * 3,
}


def list_hostile_pairs():
    """List models with extreme columns; quick are all columns of a mean and a scaler, and three of each other model."""
    return [
        pytest.param(model, name, marks=[] if i < 2 or (j - 3 * i) % len(HOSTILE) < 3 else pytest.mark.long)
        for i, model in enumerate(MODELS)
        for j, name in enumerate(HOSTILE)
    ]


def make_table(model, column):
    """Return a table of a column, without numbers that the estimator refuses, and of classes."""
    X = pd.DataFrame({"x": np.array(column, float)})
    if not model.__sklearn_tags__().input_tags.allow_nan:
        X = X[np.isfinite(X["x"])]
    return X.assign(y=np.arange(len(X)) % 2)


def read_numbers(fitted):
    """Return the fitted attributes that are numbers."""
    values = [value for name, value in vars(fitted).items() if name.endswith("_") and not name.startswith("feature")]
    return [np.asarray(part) for value in values for part in (value if isinstance(value, list) else [value])]


def find_limits(column, seed=0, **parameters):
    # A guess is a result, too.
    model = DPMean(**{"epsilon": 1.0, "random_state": seed} | parameters)
    return model.fit(pd.DataFrame({"x": np.asarray(column, float)})).bounds_[0]


def find_domain_of(column):
    (interval,) = discover_domain(pd.DataFrame({"x": column}), 1.0, 0, random_state=0).values()
    return interval.edges[0], interval.edges[-1]


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("seed", quick_first(1, range(3)))
def test_means_without_bounds_are_close(epsilon, seed):
    mean = DPMean(epsilon, random_state=seed).fit(PEOPLE)
    errors = np.abs(mean.mean_ - PEOPLE.mean()) / PEOPLE.std()
    assert errors.max() < 0.1
    widths = np.ptp(mean.bounds_, axis=1) / PEOPLE.std()
    assert widths.between(2, 40).all()


@pytest.mark.filterwarnings("ignore:The limits of columns")  # of numbers that may be equal
@pytest.mark.parametrize("shift", [-1e6, 1e6, 1e9])
def test_limits_far_from_zero_are_narrow(shift):
    low, high = find_limits(shift + rng.normal(size=5000))
    assert low < shift < high
    assert high - low < 1e-3 * abs(shift)


@pytest.mark.filterwarnings("ignore:(The (limits|noise)|Columns .* have fewer bins):UserWarning")
@pytest.mark.parametrize(("model", "name"), list_hostile_pairs())
def test_hostile_columns_give_finite_numbers(model, name):
    X = make_table(model, HOSTILE[name])
    with np.errstate(all="raise", under="ignore"):
        fitted = fit_estimator(clone(model).set_params(random_state=0), X)
    assert (fitted.bounds_[:, 0] < fitted.bounds_[:, 1]).all()
    assert all(np.isfinite(numbers).all() for numbers in read_numbers(fitted) if numbers.dtype.kind == "f")


def test_declared_ends_are_kept():
    bounds = {"age": (0, None), "income": (None, 1e7), "rare": (0, 1)}
    mean = DPMean(2.0, bounds=bounds, random_state=0).fit(PEOPLE)
    assert mean.bounds_[0, 0] == 0
    assert mean.bounds_[1, 1] == 1e7
    assert mean.bounds_[2].tolist() == [0, 1]
    assert 60 < mean.bounds_[0, 1] < 400
    # A mean with two declared ends spends no budget on a search.
    alone = DPMean(2.0, bounds=(0, 1), random_state=0).fit(PEOPLE[["rare"]])
    assert "limits" not in alone.guarantee_.mechanism


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ((None, "1"), "must be two numbers, or None"),
        ((math.nan, None), "must have a finite end"),
        ((None, -math.inf), "must have a finite end"),
        ((True, None), "must be two numbers"),
        ([None], "must have a row"),
    ],
)
def test_invalid_open_ends_raise_before_the_charge(bounds, match):
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises((TypeError, ValueError), match=match):
        DPMean(bounds=bounds, ledger=ledger).fit(PEOPLE)
    assert ledger.charges().empty


@pytest.mark.filterwarnings("ignore:(The noise exceeds|Columns .* have fewer bins):UserWarning")
@pytest.mark.parametrize("model", [*MODELS[:-1], DPGroupBy(by=None)])
def test_limits_are_part_of_one_charge(model):
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-6)
    fitted = fit_estimator(clone(model).set_params(epsilon=2.0, ledger=ledger), PEOPLE.astype({"rare": int}))
    assert len(ledger.charges()) == 1
    assert fitted.guarantee_.epsilon == pytest.approx(2.0)
    name = "permute-and-flip" if fitted.guarantee_.delta == 0 else "exponential mechanism"
    assert f"limits by {name} and noisy counts (33% of the budget); with the rest: " in fitted.guarantee_.mechanism
    facts = dict(fitted.guarantee_.method)
    assert "between limits that are found" in facts["bounds"]
    low, high = fitted.bounds_[0]
    assert facts["limits"].startswith(f"age from {low:,.12g} to {high:,.12g}, income from")
    (note,) = privacy_statement(fitted).to_dict()["method"]
    assert f"With limits that are found: {facts['limits']}." in note


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:(The (limits|noise)|Columns .* have fewer bins):UserWarning")
@pytest.mark.parametrize(
    ("model", "bounds", "epsilon", "column"),
    diagonal([GROUPS, *MODELS], [None, (0, None), (-9.0, 9.0)], BUDGETS, HOSTILE.values()),
)
def test_search_spends_its_part_of_the_budget(model, bounds, epsilon, column):
    """Replays with a record or a person less have at most the stated loss."""
    estimator = clone(model).set_params(epsilon=epsilon, bounds=bounds, max_rows_per_person=2, random_state=0)
    X = make_table(model, column)
    for rows in {min(1, len(X)), min(2, len(X))}:
        replay = replay_release(lambda X: fit_estimator(clone(estimator), X), X, X[rows:])
        assert replay.passed, replay.findings


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:(The (limits|noise)|Without a delta):UserWarning")
@pytest.mark.parametrize(
    ("model", "epsilon", "bounds"),
    diagonal(
        [DPLinearRegression(), DPRidge(), DPLogisticRegression(classes=[False, True])],
        [20.0, Rho(9.0, 1e-6), Mu(4.0, 1e-6)],
        [(-60.0, 60.0), (0, 60.0), {"x": (0, 60.0), "b": (None, 60.0)}],
    ),
)
def test_search_of_scales_spends_its_part_of_the_budget(model, epsilon, bounds):
    """The division of the budget depends on a noisy test of bounds; tails beyond the limits shorten their rows."""
    draw = np.random.default_rng(1)
    X = pd.DataFrame({"x": draw.uniform(1, 1.2, 300), "b": draw.uniform(1, 30, 300)})
    y = X["x"] + draw.normal(size=300)
    # Far beyond the limits, and at both ends.
    X.iloc[:4], y.iloc[:4] = [[60, 1], [-60, 30], [7, 1], [60, 60]], [60, -60, 60, 9]
    estimator = clone(model).set_params(epsilon=epsilon, bounds=bounds, max_rows_per_person=2, random_state=0)
    if isinstance(model, DPLogisticRegression):
        y = y > 1
    else:
        estimator.set_params(target_bounds=(-60, 60))
    for rows in [1, 2]:
        replay = replay_release(
            lambda t: clone(estimator).fit(t[["x", "b"]], t["y"]), *[X.assign(y=y)[k:] for k in (0, rows)]
        )
        assert replay.passed, replay.findings
    fitted = clone(estimator).fit(X, y)
    assert fitted.bounds_[0, 1] < 12
    assert "(up to " in fitted.guarantee_.mechanism


@pytest.mark.filterwarnings("ignore:The noise:UserWarning")
def test_test_of_declared_ends_spends_a_40th_of_the_budget(monkeypatch):
    """Replays do not reach the loss of Gaussian noise, so they do not find a test that spends more."""
    X = np.random.default_rng(0).uniform(size=(50, 2))

    def list_variances(rho):
        variances = []
        # Without noise, so that later sums have equal limits.
        with watch_draws(lambda _, value, parameters: variances.append(parameters["variance"]) or np.zeros_like(value)):
            model = DPLinearRegression(Rho(rho, 1e-6), bounds=(-1, 1), target_bounds=(0, 2), random_state=0)
            model.fit(X, X.sum(axis=1))
        return variances

    tested = list_variances(20.0)
    monkeypatch.setattr(DPLinearRegression, "_finds_limits_within", False)
    # Each of three columns has a third of mu**2 = 1, and the other releases have the rest.
    assert tested == [3, 3, 3, *list_variances(19.5)]


@pytest.mark.parametrize(("high", "n_choices"), [(1_001, 2), (9_000, 1)])
def test_steps_of_a_search_spend_its_third_together(high, n_choices):
    """Replays do not reach the losses of all steps, so they do not find a step that spends more."""
    choices, counts = [], []

    def watch(sampler, value, parameters):
        if sampler == "permute_and_flip":
            choices.append(4 * parameters["rate"])  # differences of scores change by 4
        elif sampler == "discrete_laplace":
            counts.append(1 / parameters["scale"])
        return value

    with watch_draws(watch):
        DPMean(12.0, random_state=0).fit(np.random.default_rng(0).uniform(1_000, high, size=(500, 1)))
    assert len(choices) == n_choices
    assert sum(choices) + sum(counts) == 4


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("rows", [1, 2])
def test_choices_of_windows_are_private_for_all_small_tables(monkeypatch, rows):
    """The exact probabilities of all windows for up to four numbers, and for the same numbers and one person more."""
    module = sys.modules["skdp.central._limits"]
    for name, value in {
        "MIN_POWER": -1,
        "MAX_POWER": 2,
        "MAX_NARROW_POWER": 1,
        "WINDOW_CELLS_PER_OCTAVE": 4,
        "ZOOM_CELLS": 16,
    }.items():
        monkeypatch.setattr(module, name, value)
    budget = replace(parse_budget(2.0), rows_per_person=rows)
    largest = 0.0
    for windows in (module.make_windows(), module.make_zoom_windows.__wrapped__()):
        size = windows.stops.max()
        cells = list(combinations_with_replacement((0, size // 2, size - 1), 4))
        tables = {row[:n] for n in range(5) for row in cells}
        found = {table: find_probabilities(windows, np.bincount(table, minlength=size), budget) for table in tables}
        for table, chances in found.items():
            for n_left in range(max(len(table) - rows, 0), len(table)):
                left = {tuple(part) for part in combinations(table, n_left)}
                largest = max([largest] + [np.abs(np.log(chances / found[part])).max() for part in left])
    assert 1.9 < largest < 2 * (1 + 1e-9)


def find_probabilities(windows, counts, budget):
    """Compute the probabilities of permute-and-flip: the choice is uniform among independently accepted windows."""
    drawn = []
    with watch_draws(lambda sampler, value, parameters: drawn.append(parameters) or value):
        windows.choose(counts, budget, SeededSource(0))
    (draw,) = drawn
    accepted = np.exp(-float(draw["rate"]) * (draw["scores"].max() - draw["scores"])).reshape(-1, 1)
    # The mean of 1 / (1 + m), for m other accepted windows, is the integral of their generating function over [0, 1].
    nodes, weights = np.polynomial.legendre.leggauss(accepted.size // 2 + 1)
    functions = np.log1p(accepted * (nodes - 1) / 2)
    return accepted[:, 0] * (np.exp(functions.sum(axis=0) - functions) @ (weights / 2))


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.filterwarnings("ignore:The (limits|noise):UserWarning")
def test_search_in_several_columns_spends_its_part(epsilon):
    """Replays with open and declared ends together, weights, people with two rows, and a replaced record."""
    # Half of the records are equal, at edges of cells, and without one of them their window has less than half.
    X = pd.DataFrame({"x": [3.0, 3.0, -5.0, 7.0], "y": np.nextafter([-2.0, -2.0, 1.0, 8.0], 0)})
    X["z"], X["w"] = [2.0**63, math.inf, -math.inf, 1.0], [9.0, math.nan, 0.5, 0.0]
    pairs = X.loc[X.index.repeat(2)].assign(person=np.arange(8) // 2)
    bounds = {"x": (0, None), "y": None, "z": (-9, 9)}
    mean = DPMean(epsilon, bounds=bounds, max_weight=2.0, max_rows_per_person=2, random_state=1)
    scaler = DPStandardScaler(epsilon, bounds=bounds, random_state=1)
    whole = X[list(bounds)]
    replaced = whole.copy()
    replaced.iloc[0] = [math.nan, 1e308, 0.0]
    removed = [
        replay_release(lambda X: clone(mean).fit(X, sample_weight="w", person="person"), pairs, pairs[2:]),
        replay_release(lambda X: clone(scaler).fit(X), whole[1:], whole),
    ]
    for replay in removed:
        assert replay.passed, replay.findings
        assert epsilon != BUDGETS[0] or replay.epsilon == pytest.approx(epsilon)
    assert replay_release(lambda X: clone(scaler).fit(X), whole, replaced).passed


@pytest.mark.parametrize("model", [DPMean(random_state=0), DPStandardScaler(Rho(0.3, 1e-6), random_state=0)])
def test_limits_of_large_tables_are_equal(model):
    table = pl.from_pandas(PEOPLE)
    fitted, large = clone(model).fit(table), clone(model).fit(table.lazy())
    assert large.bounds_.tolist() == fitted.bounds_.tolist()
    assert large.mean_.tolist() == fitted.mean_.tolist()


@pytest.mark.filterwarnings("ignore::skdp.WeakGuaranteeWarning")
@pytest.mark.parametrize("budget", [Rho(1e6, 1e-6), Mu(60.0, 1e-6), 1e300])
@pytest.mark.parametrize("bounds", [None, (0, 100)])
def test_limits_are_found_without_noise(bounds, budget):
    """The standard deviation of the noise was 0 for a huge budget, and `fit` divided by it after the charge."""
    fitted = DPStandardScaler(budget, bounds=bounds, random_state=0).fit(PEOPLE[["age"]])
    assert fitted.mean_ == pytest.approx(PEOPLE["age"].mean(), rel=0.01)


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 2000, reason="no wider floats")
def test_numbers_beyond_floats_give_no_warning():
    wide = np.ldexp(np.ones((50, 1), np.longdouble), 2000)
    assert DPMean(bounds=(0, 5), random_state=0).fit(wide).mean_ > 4


def test_losses_of_quantiles_do_not_depend_on_limits():
    """Narrow limits had another division of the budget than the one that was charged before they were found."""
    median = DPGroupBy(by=None, statistics="median", random_state=0)
    losses = []
    for bounds in ((0.0, 1.0), (4.6, 4.6 + 4.7e-9)):
        losses.append(clone(median).set_params(bounds=bounds).fit(PEOPLE[["age"]]).guarantee_.losses)
    assert losses[0] == losses[1]


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:The (limits|noise):UserWarning")
@pytest.mark.parametrize(
    ("bounds", "epsilon", "name"), diagonal([None, (0, None), (-9.0, 9.0)], BUDGETS, ["whole", "zeros", "tiny"])
)
def test_search_of_a_target_spends_its_part_of_the_budget(bounds, epsilon, name):
    table = pd.DataFrame({"x": [0, 1, 2] * 70, "y": [*HOSTILE[name][:200], *[7.0] * 10]})
    encoder = DPTargetEncoder(epsilon, categories={"x": [0, 1, 2]}, bounds=bounds, max_rows_per_person=2)
    for rows in (1, 2):
        replay = replay_release(lambda table: clone(encoder).fit(table[["x"]], table["y"]), table, table[rows:])
        assert replay.passed, replay.findings


def test_scales_do_not_follow_the_width_of_the_bounds():
    """Scales were 23 and 43 times too large with bounds 100 times wider than the numbers."""
    true = PEOPLE[["age", "income"]].std().to_numpy()
    for factor in (1, 10, 100):
        bounds = {"age": (0, 100 * factor), "income": (0, 1e6 * factor)}
        for seed in range(4):
            scaler = DPStandardScaler(2.0, bounds=bounds, random_state=seed).fit(PEOPLE[["age", "income"]])
            assert np.abs(np.log(scaler.scale_ / true)).max() < 0.3


@pytest.mark.parametrize("seed", [6, 23, 75, 76, 87, 94])
def test_both_sides_of_zero_are_kept(seed):
    """Noise far beyond the numbers of one side hid this side, or was a limit, for 6 of 100 seeds."""
    X = np.random.default_rng(0).normal(size=(5000, 4))
    low, high = DPMean(1.0, random_state=seed).fit(X).bounds_.T
    assert ((low > -50) & (low < -1) & (high > 1) & (high < 50)).all()


@pytest.mark.filterwarnings("ignore::skdp.WeakGuaranteeWarning")
@pytest.mark.parametrize("epsilon", [1e4, Mu(1e3, 1e-6)])
def test_one_far_record_is_within_the_limits_without_noise(epsilon):
    """With a huge budget, a search cut off up to five records far from the others."""
    column = np.append(np.random.default_rng(0).normal(size=400), [5e3, -800.0])
    low, high = find_limits(column, epsilon=epsilon)
    assert low <= -800
    assert high >= 5e3


def test_few_records_are_a_warning():
    with pytest.warns(UserWarning, match=r"limits of columns \['x'\] in DP\w+ are guesses"):
        find_limits(rng.normal(size=20), epsilon=0.1)


@pytest.mark.parametrize(
    ("fraction", "scales", "is_limit", "warns"),
    [(0.1, 17, False, False), (0.1, 20, True, False), (0, 17, True, True), (0, 20, True, False)],
)
@pytest.mark.parametrize("find", [find_limits, find_domain_of])
def test_noise_far_beyond_the_numbers_is_no_limit(find, fraction, scales, is_limit, warns):
    """Noise far beyond the numbers was a limit in 1 of 1,500 columns of mostly zeros, without a warning."""
    column = np.repeat([0.0, 1000.0], [int(1000 * (1 - fraction)), int(1000 * fraction)])

    def add_noise(sampler, value, parameters):
        if sampler != "discrete_laplace" or value.size == 1:
            return value
        cells = Cells(round(value.size / (2 * Cells(1).n_side_cells)))
        value = value.copy()
        value[np.searchsorted(cells.edges, 2.0**40)] += math.ceil(scales * parameters["scale"])
        return value

    with warnings.catch_warnings(record=True) as caught, watch_draws(add_noise):
        warnings.simplefilter("always")
        high = find(column)[1]
    assert (high > 2.0**40) == is_limit
    assert any("['x'] in" in str(warning.message) for warning in caught) == warns


def test_limits_do_not_depend_on_order_or_dtype():
    whole = rng.integers(0, 100, 1000)
    tables = [whole, whole[::-1], whole.astype(float), whole.astype(np.int16)]
    found = [DPMean(random_state=0).fit(pd.DataFrame({"x": table})).bounds_.tolist() for table in tables]
    assert found == found[:1] * 4


@pytest.mark.filterwarnings("ignore:The limits:UserWarning")
def test_few_expected_records_beyond_a_limit_do_not_overflow():
    """Counts of 0.01 records after an octave with 1,000 raised OverflowError after the charge."""
    X = np.random.default_rng(0).choice([1.0, 9.0], (3000, 12))
    assert np.isfinite(DPMean(random_state=59).fit(X).mean_).all()


def test_ranges_of_quantiles_do_not_follow_the_width_of_the_bounds():
    """Ranges from the 1st to the 99th percentile were 30 times too wide with bounds 100 times wider."""
    X = PEOPLE[["age", "income"]]
    true = np.ptp(np.quantile(X, [0.01, 0.99], axis=0), axis=0)
    for bounds in ({"age": (0, 10_000), "income": (0, 1e8)}, {"age": (0, None), "income": (None, None)}, None):
        scaler = DPMinMaxScaler(2.0, bounds=bounds, quantile_range=(1, 99))
        errors = [np.log(clone(scaler).set_params(random_state=s).fit(X).data_range_ / true) for s in range(5)]
        assert np.median(np.abs(errors), axis=0).max() < 0.5


@pytest.mark.parametrize("bounds", [None, (0, None), {"age": (0, 100), "income": (None, 1e9)}])
def test_bounds_as_range_must_be_declared(bounds):
    with pytest.raises(ValueError, match=r"got an open end of \[.*'income'\]\. Set quantile_range="):
        DPMinMaxScaler(bounds=bounds).fit(PEOPLE[["age", "income"]])


@pytest.mark.parametrize("seed", quick_first(1, range(3)))
def test_quantiles_without_bounds_are_close(seed):
    for column in ("age", "income"):
        X = PEOPLE[[column]]
        scaler = DPRobustScaler(random_state=seed).fit(X)
        assert abs((scaler.center_ > X).mean().item() - 0.5) < 0.03
        ranks = DPQuantileTransformer(random_state=seed).fit(X).transform(X)
        assert np.abs(ranks - X.rank(pct=True)).mean().item() < 0.03


WIDTHS = [1, 10, 100, None]


def widen(bounds, factor):
    """Return bounds from 0 that are wider by a factor; None without a factor."""
    return factor and {name: (0, factor * high) for name, high in bounds.items()}


@pytest.mark.parametrize("factor", often(WIDTHS, [100, None]))
def test_naive_bayes_does_not_follow_the_width_of_the_bounds(factor):
    """The balanced accuracy was 0.5, that of a constant, with bounds 10 times wider than the numbers."""
    X = PEOPLE[["age", "income"]]
    y = (X["age"] / 12 + np.log(X["income"]) + rng.normal(size=N) > 14.1).astype(int)
    for seed in range(3):
        bounds = widen({"age": 100, "income": 1e6}, factor)
        model = DPGaussianNB(2.0, bounds=bounds, classes=[0, 1], random_state=seed).fit(X, y)
        predicted = model.predict(X)
        assert np.mean([(predicted[y == label] == label).mean() for label in (0, 1)]) > 0.7


@pytest.mark.parametrize("factor", often(WIDTHS, [100, None]))
def test_components_do_not_follow_the_width_of_the_bounds(factor):
    """Two components had 0.38 of the variance of the best ones with bounds 100 times wider than the numbers."""
    X = 5 + np.random.default_rng(1).normal(size=(N, 2)) @ [[1.0, 0.8, 0.0, 0.1], [0.0, 0.1, 0.8, 0.5]]
    X = pd.DataFrame(X, columns=list("abcd"))
    covariance = np.cov(X.T)
    for seed in range(3):
        bounds = widen(dict.fromkeys(X, 10), factor)
        components = DPPCA(2.0, bounds=bounds, n_components=2, random_state=seed).fit(X).components_
        explained = np.trace(components @ covariance @ components.T)
        assert explained > 0.95 * np.linalg.eigvalsh(covariance)[-2:].sum()


def draw_regression():
    draw = np.random.default_rng(1)
    X = PEOPLE.assign(rare=PEOPLE["rare"].astype(float))
    y = 20 + X @ [0.3, 2e-4, 5] + draw.normal(0, 8, N)
    return X, y


@pytest.mark.parametrize("seed", quick_first(1, range(3)))
def test_linear_regression_needs_no_bounds(seed):
    """Least squares explains 0.49; with bounds 100 times wider than the numbers, R2 was -207."""
    X, y = draw_regression()
    assert DPLinearRegression(delta=1e-6, random_state=seed).fit(X, y).score(X, y) > 0.4


@pytest.mark.parametrize("seed", quick_first(1, range(3)))
def test_logistic_regression_needs_no_bounds(seed):
    X, y = draw_regression()
    model = DPLogisticRegression(2.0, classes=[False, True], random_state=seed).fit(X, y > 35)
    assert model.score(X, y > 35) > 0.6


@pytest.mark.parametrize("model", [DPLinearRegression(), DPLogisticRegression(classes=[False, True])])
def test_predictions_beyond_limits_are_predictions_at_the_limits(model):
    """A far value, times a slope that is noise, changed predictions to 1e171."""
    X, y = draw_regression()
    y = y > 35 if isinstance(model, DPLogisticRegression) else y
    model = clone(model).set_params(epsilon=Mu(1.0, 1e-6), random_state=0).fit(X, y)
    at, beyond = X[:1].assign(income=model.bounds_[1, 1]), X[:1].assign(income=1e12)
    assert model.predict(at).tolist() == model.predict(beyond).tolist()


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_linear_fits_that_noise_has_ruined_warn(seed):
    """With wide bounds and few rows, R2 was -1,250, and no fit warned."""
    draw = np.random.default_rng(seed)
    X = draw.uniform(0, 1, (700, 8))
    y = X @ np.ones(8) + draw.normal(size=700)
    model = DPLinearRegression(delta=1e-6, bounds=(0, 10), target_bounds=(0, 1000), random_state=seed)
    with pytest.warns(UserWarning, match="no better than a constant"):
        model.fit(X, y)


def test_an_error_for_columns_without_bounds_offers_to_find_them():
    frame = pd.DataFrame({"age": [30.0, 40.0], "income": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"\['income'\].* None as the bounds of a column finds its limits\.$"):
        DPMean(1.0, bounds={"age": (0, 120)}).fit(frame)


MANY_ZEROS = pd.DataFrame({"visits": [0.0] * 800 + [1.0, 2.0, 3.0, 4.0] * 50})


@pytest.mark.parametrize("seed", [12, 25, 28, 31, 60])
def test_noise_beside_many_zeros_does_not_replace_declared_ends(seed):
    scaler = DPStandardScaler(0.3, bounds=(0, 20), random_state=seed).fit(MANY_ZEROS)
    assert scaler.bounds_.tolist() == [[0, 20]]


@pytest.mark.parametrize("seed", [85, 94])
def test_noise_beside_many_zeros_is_a_warning(seed):
    with pytest.warns(UserWarning, match=r"limits of columns \['visits'\] in DP\w+ are guesses"):
        DPMean(0.3, random_state=seed).fit(MANY_ZEROS)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.LazyFrame])
def test_limits_of_a_histogram_are_found(library):
    domain = {"age": Interval(0.0, None, bins=4), "rare": [0, 1], "income": Interval()}
    X = PEOPLE.astype({"rare": int}).clip(0)
    histogram = DPHistogram(2.0, domain=domain, random_state=0).fit(library(X.to_dict("list")))
    (low, high), income = histogram.bounds_
    assert low == 0
    assert 80 < high < 200
    assert histogram.domain_["age"] == Interval(0.0, high, bins=4)
    assert histogram.domain_["income"] == Interval(*income, bins=10)
    assert histogram.counts_.sum() == pytest.approx(N, rel=0.05)  # numbers beyond limits are counted
    method = dict(histogram.guarantee_.method)
    assert "income between limits that are found" in method["bounds"]
    assert f"age from 0 to {high:g}" in method["limits"]
    assert "limits by permute-and-flip and noisy counts (33% of the budget)" in histogram.guarantee_.mechanism
    assert not hasattr(histogram.set_params(domain=histogram.domain_).fit(X), "bounds_")


@pytest.mark.parametrize(
    ("X", "interval", "match"),
    [
        ([3.5, 1.0], Interval(0, None), "more decimals"),
        ([-1.0, 1.0], Interval(0, None), "outside the declared domain, 0 to a limit"),
        ([math.nan, 1.0], Interval(0, None), "missing values"),
        (["a", "b"], Interval(0, None), "'x'"),
    ],
)
def test_errors_of_open_histograms_are_raised_before_the_charge(X, interval, match):
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises(ValueError, match=match):
        DPHistogram(domain={"x": interval}, ledger=ledger).fit(pd.DataFrame({"x": X}))
    assert ledger.charges().empty


@pytest.mark.filterwarnings("ignore:The limits:UserWarning")
@pytest.mark.parametrize(
    ("interval", "name"),
    diagonal([Interval(), Interval(decimals=0), Interval(0, None, real=True, bins=50)], HOSTILE),
)
def test_histogram_of_a_hostile_column_has_the_declared_number_of_bins(interval, name):
    X = pd.DataFrame({"x": HOSTILE[name]}, dtype=float)
    histogram = DPHistogram(domain={"x": interval}, handle_unknown="ignore", random_state=0)
    with np.errstate(all="raise", under="ignore"):
        histogram.fit(X)
    assert histogram.counts_.size == (50 if interval.has_bins else 10)
    assert np.isfinite(histogram.domain_["x"].edges).all()


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:The limits:UserWarning")
@pytest.mark.parametrize(
    ("name", "epsilon"),
    diagonal(quick_first(3, ["zeros", "two clusters", "missing", "whole", "huge", "one row"]), BUDGETS),
)
def test_search_of_a_histogram_spends_its_part_of_the_budget(name, epsilon):
    X = pd.DataFrame({"x": HOSTILE[name]}, dtype=float)
    histogram = DPHistogram(epsilon, domain={"x": Interval(0, None)}, handle_unknown="ignore", max_rows_per_person=2)
    for rows in (1, 2):
        replay = replay_release(histogram.fit, X, X[rows:])
        assert replay.passed, replay.findings


@pytest.mark.parametrize("center", [0.0, 2.7, -1e-9])
@pytest.mark.parametrize("cells_per_octave", [2, 4, 16])
def test_cells_count_each_number_once(center, cells_per_octave):
    cells = Cells(cells_per_octave, center)
    numbers = np.concatenate([
        rng.normal(size=50), 2.0 ** rng.uniform(-1070, 1020, 50) * rng.choice([-1, 1], 50),
        [0.0, -0.0, math.inf, -math.inf, 1.5, 5e-324, -5e-324, 1.7e308, -1.7e308],
    ])  # fmt: skip
    # The inner edges of positive and negative distances are in the outer cells.
    distances, n_side = numbers - center, cells.n_side_cells
    above = np.searchsorted(cells.edges[n_side + 1 : -1], np.abs(distances), side="right")
    expected = np.bincount(n_side + np.where(np.signbit(distances), -above, above), minlength=2 * n_side + 1)
    *counts, n_beyond = cells.count(numbers[:, np.newaxis].repeat(2, axis=1)[:, 0])
    assert counts == expected.tolist()
    in_zero = n_side + np.where(np.signbit(distances), -above, above) == cells.zero
    assert n_beyond == np.count_nonzero(in_zero & ((numbers < 0) == (center > 0)) & (numbers != 0) & (center != 0))
