"""Bounds that are found by noisy counts of cells over all floats."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, gamma
from sklearn.base import clone

from skdp import (
    DPPCA,
    DPGroupBy,
    DPLinearRegression,
    DPMean,
    DPMinMaxScaler,
    DPRidge,
    DPSelectKBest,
    DPSimpleImputer,
    DPStandardScaler,
    DPTargetEncoder,
    PrivacyLedger,
)
from skdp.central.statistics import NOWHERE, Batches, Noise, count_values, place_bounds
from skdp.central.statistics._private_bounds import _CHANCE_ANYWHERE, Cells, _limit, find_bounds
from skdp.privacy import Mu, Rho
from skdp.tables import read_table
from tests.central.estimators import EVERY, fitted, made, whole
from tests.central.released import Released
from tests.conftest import each, often

N = 20_000
ODD = [0.0, -0.0, 1.0, -1.0, 0.75, 1e308, -1e308, 5e-324, -1e-300, math.inf, -math.inf, math.nan, 3.5, 1 / 3]


def column(kind, n=N, seed=0):
    rng = np.random.default_rng(seed)
    drawn = {
        "skewed": lambda: rng.lognormal(0, 1, n),
        "centred": lambda: rng.normal(0, 1, n),
        "heavy": lambda: rng.standard_t(3, n),
        "uniform": lambda: rng.uniform(0, 100, n),
        "negative": lambda: -rng.exponential(3000, n),
        "far": lambda: rng.normal(1e6, 1e5, n),
        "tiny": lambda: rng.uniform(1e-30, 2e-30, n),
        "Pareto": lambda: rng.pareto(2.5, n) + 1,
        "very skewed": lambda: rng.lognormal(3, 1.5, n),
    }
    return drawn[kind]()


def square_error(X, low, high, share):
    """Return the expected square error of a mean at epsilon 1, of which it has this share."""
    mean = np.clip(X, low, high).mean()
    noise = (high - low) / X.size / share * math.hypot(1, (2 * mean - low - high) / (high - low))
    return noise**2 + (mean - X.mean()) ** 2


class TestCells:
    @each("cells", [[Cells(4), Cells(4)], [Cells(8, 0.75), Cells(8, -1e308)]])
    def test_one_record_changes_one_count_of_each_column_by_one(self, cells):
        records = list(itertools.product(ODD, repeat=2))[::2]

        def counts(rows):
            return np.array(count_values(Batches(read_table(np.array(rows, float).reshape(len(rows), 2))), cells))

        none = counts([])
        for record in records:
            alone = counts([record]) - none
            assert alone.min() >= 0
            assert alone.sum(axis=1).tolist() == [int(math.isfinite(value)) for value in record]
        for rows in itertools.combinations_with_replacement(records[::9], 2):  # counts are sums over the records
            assert (counts(rows) == sum(counts([row]) for row in rows)).all()

    def test_cells_are_in_order_and_hold_what_is_between_their_edges(self):
        numbers = np.sort(np.concatenate([column(kind, 500) for kind in ("centred", "skewed", "negative", "tiny")]))
        for cells in (Cells(4), Cells(8, numbers[700]), Cells(8, 1e308), Cells(16)):
            assert (np.diff(cells.of(numbers)) >= 0).all()
            assert (cells.of(np.array([cells.centre, cells.centre + 5e-324, np.nan])) == cells.side).all()
        for number in (1.0, 1.2499, 1.25, -1.25, 1e-200, -3e200):
            for cells in (Cells(4), Cells(8, 10 * number), Cells(16, -number)):
                counts = np.zeros(cells.size)
                counts[cells.of(np.array([number]))] = 1000
                low, high, *_ = find_bounds(cells, counts, 1.0)
                assert low <= number <= high
                # The counts of one cell do not show how its tails go on: the bounds may include the next cells.
                assert high - low <= 3 * abs(number - cells.centre) / cells.parts * (1 + 1e-12)


def noisy_counts(size):
    """Return counts of cells of which some next to each other are large."""
    noisy = np.random.default_rng(size).integers(-9, 9, size)
    noisy[size // 2 + 1 :] += 10_000 * (np.arange(size // 2) // 100 == size // 220)
    return noisy


def test_bounds_follow_from_noisy_counts_alone():
    def released(values):
        noises = [Released(noisy_counts, Fraction(5)) for _ in range(2)]
        ends, hidden = place_bounds([NOWHERE], Batches(read_table(values.reshape(-1, 1))), [0], noises, None)
        return ends.tolist(), hidden, [noise.seen[0] for noise in noises]

    X = column("far", 3000)
    *wanted, counts = released(X)
    assert wanted[0] != [[*NOWHERE]]
    for other in (X[:-1], -X, X[:0]):
        *found, others = released(other)
        assert found == wanted
        assert [int(np.abs(one - two).sum()) for one, two in zip(counts, others, strict=True)] == (
            [1, 1] if len(other) == len(X) - 1 else [len(X) + len(other)] * 2
        )


class TestAccuracy:
    @each("kind", ["skewed", "centred", "heavy", "uniform", "negative", "far"])
    def test_the_mean_is_nearly_as_good_as_with_good_bounds(self, kind):
        """Good bounds are the range of the values."""
        X = column(kind)
        runs = [DPMean(bounds="private", random_state=seed).fit(X.reshape(-1, 1)).bounds_[0] for seed in range(6)]
        errors = [square_error(X, low, high, 0.8) for low, high in runs]
        assert math.sqrt(np.mean(errors) / square_error(X, X.min(), X.max(), 1)) <= 1.55
        for low, high in runs:
            assert ((low <= X) & (high >= X)).mean() > 0.995
            assert high - low <= 2 * np.ptp(X)

    @pytest.mark.parametrize("kind", ["skewed", "Pareto", "very skewed"])
    def test_noise_and_what_is_clipped_of_tails_are_small_together(self, kind):
        ratios, rng = [], np.random.default_rng(0)
        for seed in range(10):
            X = column(kind, 3000, seed)
            counts = np.bincount(Cells(4).of(X), minlength=Cells(4).size)
            found = [find_bounds(Cells(4), counts + rng.laplace(0, 5, counts.size).round(), 50**0.5) for _ in range(4)]
            errors = [square_error(X, *bounds[:2], 0.8) for bounds in found]
            ratios.append(math.sqrt(np.mean(errors) / square_error(X, X.min(), X.max(), 1)))
        assert np.mean(ratios) <= 1.7

    def test_a_bound_next_to_0_is_0_unless_there_are_values_beyond(self):
        for X in (column("uniform", 2000), column("uniform")):
            assert DPMean(bounds="private", random_state=0).fit(X.reshape(-1, 1)).bounds_[0, 0] == 0
            assert DPMean(bounds="private", random_state=0).fit(-X.reshape(-1, 1)).bounds_[0, 1] == 0
        both = np.concatenate([X, -X[:1000] / 20]).reshape(-1, 1)
        assert DPMean(bounds="private", random_state=0).fit(both).bounds_[0, 0] < -3

    @pytest.mark.parametrize("numbers", [[1.7e308, 1e308], [-1.7e308, 1.7e308], [1e-300, 5e-324], [1e-290, -1e300]])
    def test_the_ends_of_the_floats_have_bounds(self, numbers):
        for cells in (Cells(4), Cells(8, numbers[0]), Cells(8, -1e306), Cells(8, -(2.0**1021)), Cells(8, 2.0**1021)):
            counts = 5000.0 * np.bincount(cells.of(np.array(numbers)), minlength=cells.size)
            low, high, *_ = find_bounds(cells, counts, 7.0) or NOWHERE
            assert -math.inf < low < high < math.inf
            assert high - low < math.inf

    def test_noise_alone_is_hardly_ever_taken_for_values(self):
        """By the exact tail of a sum of Laplace numbers, the difference of two gamma numbers, over all windows."""
        for parts in (4, 8, 16):
            chances = []
            width = 1
            while width <= 4 * parts:
                limit = _limit(width, _CHANCE_ANYWHERE / Cells(parts).size) * math.sqrt(2)
                at = np.linspace(0, 100, 4001)
                tail = gamma.pdf(at, width) * gamma.sf(limit + at, width)
                chances.append(Cells(parts).size * np.sum((tail[1:] + tail[:-1]) / 2) * (at[1] - at[0]))
                width *= 2
            assert sum(chances) < 3e-4

    @each("kind, n", [("centred", 1000), ("heavy", 1000), ("very skewed", 1000), ("centred", 700)])
    def test_values_that_are_spread_over_many_cells_are_found(self, kind, n):
        """No window of one power of 2 holds enough of them: half of the normal columns had no bounds."""
        for seed in range(10):
            values = column(kind, n, seed).reshape(-1, 1)
            mean = DPMean(bounds="private", random_state=seed).fit(values)
            assert np.isfinite(mean.std_error_).all()

    def test_a_column_of_which_half_is_one_value(self):
        """No smooth law has such counts: with none to agree with, bounds cut off what lies beyond one value."""
        rng, errors = np.random.default_rng(0), []
        for _ in range(20):
            values = np.where(rng.random(10_000) < 0.5, 40.0, rng.normal(40, 12, 10_000).clip(1, 99).round())
            counts = np.bincount(Cells(4).of(values), minlength=Cells(4).size)
            low, high, *_ = find_bounds(Cells(4), counts + rng.laplace(0, 5, counts.size).round(), 50**0.5)
            errors.append(values.clip(low, high).mean() - values.mean())
        assert np.abs(errors).mean() < 0.01

    def test_noise_next_to_values_is_hardly_ever_taken_for_values(self):
        """A bound of -3,072 of numbers between 0 and 100, once in 30 fits, was ten times their error."""
        rng, values = np.random.default_rng(0), column("uniform")
        counts = np.bincount(Cells(4).of(values), minlength=Cells(4).size)
        for _ in range(200):
            low, high, *_ = find_bounds(Cells(4), counts + rng.laplace(0, 5, counts.size).round(), 50**0.5)
            assert low == 0
            assert high < 200

    @each("values", [[7.125], [1e15 + 0.125], [-3.5, 1e-300], [5e-324, 40.0]])
    def test_values_that_repeat_have_bounds(self, values):
        """The median of the first look may be the value itself, and a float is not always next to another."""
        X = np.resize(values, (40_000, 1))
        low, high = DPMean(bounds="private", random_state=0).fit(X).bounds_[0]
        assert low <= X.min() + 1e-200
        assert X.max() <= high + 1e-200
        assert low < high <= low + 1.3 * np.ptp([*values, np.max(np.abs(values)) / 8])

    # The smallest float takes a second, as its noise has thousands of digits.
    @pytest.mark.parametrize("epsilon", often([5e-324, 1e-30, Rho(1e-50, delta=1e-6)], [1e-30]), ids=str)
    def test_tiny_epsilons(self, epsilon):
        X = column("skewed", 500).reshape(-1, 1)
        with pytest.warns(UserWarning, match="the noise hides"):
            assert DPMean(epsilon, bounds="private", random_state=0).fit(X).bounds_.tolist() == [[*NOWHERE]]

    def test_huge_epsilons(self):
        X = column("skewed", 500).reshape(-1, 1)
        for epsilon in (1e4, 1e300, Mu(900.0, delta=1e-6)):
            low, high = DPMinMaxScaler(epsilon, bounds="private", random_state=0).fit(X).bounds_[0]
            assert -1 < low < np.quantile(X, 0.03)
            assert np.quantile(X, 0.98) < high < 2 * X.max()

    @pytest.mark.parametrize("rows", [0, 1, 30])
    def test_few_rows_are_answered_with_a_warning(self, rows):
        for kind in (DPMean, DPMinMaxScaler):
            with pytest.warns(UserWarning, match=r"the noise hides where the values of \['x0'\] are"):
                fitted = kind(0.5, bounds="private", random_state=0).fit(np.full((rows, 1), 7.0))
            assert fitted.bounds_.tolist() == [[*NOWHERE]]


NOT_FOUND = {"a": "private", "b": (0, 1000)}


@pytest.mark.filterwarnings("ignore:the noise:UserWarning")
class TestErrorsWhereNothingIsFound:
    """They were those of values clipped to (-1, 1): [.94, 1.00] for a mean of 500."""

    X = pd.DataFrame({"a": np.linspace(400, 600, 40), "b": np.linspace(400, 600, 40)})
    y = pd.Series(np.linspace(0, 1, 40), name="y")

    @each(
        "estimator, attribute",
        [
            (DPMean(), "std_error_"),
            (DPSimpleImputer(strategy="mean"), "statistics_std_error_"),
            (DPStandardScaler(), "mean_std_error_"),
            (DPStandardScaler(), "scale_std_error_"),
            (DPLinearRegression(target_bounds=(0, 1)), "coef_std_error_"),
            (DPRidge(target_bounds=(0, 1)), "intercept_std_error_"),
            (DPPCA(1), "explained_variance_std_error_"),
        ],
    )
    def test_of_columns(self, estimator, attribute):
        """A coefficient or component of a column depends on all columns."""
        found = clone(estimator).set_params(bounds=NOT_FOUND, random_state=0)
        found.fit(self.X, self.y if "target_bounds" in found.get_params() else None)
        of_a, *of_b = np.isinf(np.atleast_1d(getattr(found, attribute)))
        assert of_a
        assert all(of_b) if isinstance(found, DPLinearRegression) else not any(of_b)

    def test_a_scale_is_the_public_one(self):
        """All values are clipped to 1, where they vary in nothing but noise."""
        scaler = DPStandardScaler(bounds=NOT_FOUND, random_state=0).fit(self.X)
        assert scaler.drowned_.tolist() == [True, False]
        assert scaler.scale_[0] == pytest.approx(math.sqrt(1 / 3))

    def test_of_groups(self):
        promise = {"keys": {"g": ["u", "v"]}, "statistics": ["count", "mean", "sum"], "random_state": 0}
        groups = DPGroupBy("g", 1.0, bounds=NOT_FOUND, **promise).fit(self.X.assign(g=["u", "v"] * 20))
        for name, estimates in groups.estimates_.items():
            open_ends = [math.inf, -math.inf, math.inf]
            assert (estimates[:, 1:] == open_ends).all() == name.startswith("a_"), name
            assert np.isfinite(estimates[:, 0]).all()

    def test_where_a_target_is_not_found(self):
        model = DPLinearRegression(1.0, bounds=(0, 1000), target_bounds="private", fit_intercept=False, random_state=0)
        assert np.isinf(model.fit(self.X, self.y).coef_std_error_).all()
        assert model.intercept_std_error_ == 0
        best = DPSelectKBest(2, epsilon=1.0, bounds=NOT_FOUND, target_bounds=(0, 1), random_state=0)
        assert best.fit(self.X, self.y).scores_std_error_[0] == 1
        words = pd.DataFrame({"g": ["u", "v"] * 20})
        encoder = DPTargetEncoder(1.0, categories=[["u", "v"]], bounds="private", random_state=0).fit(words, self.y)
        assert encoder.target_mean_std_error_ == math.inf

    @pytest.mark.long
    def test_intervals_cover(self):
        """Those of the values where nothing is found, and of the clipped ones where something is."""
        n_open, n_covered, n_all = 0, 0, 0
        for kind, n, epsilon in itertools.product(["far", "skewed", "heavy", "negative"], [40, 400, 4000], [0.3, 2.0]):
            for seed in range(3):
                values = column(kind, n, seed)
                mean = DPMean(epsilon, bounds="private", random_state=100 * n + seed).fit(values[:, np.newaxis])
                (low, high), is_found = mean.interval_[0], mean.bounds_.tolist() != [[*NOWHERE]]
                n_open += not is_found
                assert is_found or low < values.mean() < high
                n_covered += low <= values.clip(*mean.bounds_[0]).mean() <= high
                n_all += 1
        assert 15 < n_open < n_all - 15
        found = n_all - n_open
        assert n_covered - n_open >= binom.ppf(1e-6, found, 0.95)


BOUNDED = [name for name in EVERY if "bounds" in EVERY[name][0].get_params()]


@pytest.mark.filterwarnings("ignore:the edges of .* coincide:UserWarning")  # there are few rows
class TestPromise:
    @pytest.mark.filterwarnings("ignore:the noise:UserWarning")
    @each("name", BOUNDED)
    @pytest.mark.parametrize("epsilon", often([50.0, Rho(0.3, delta=1e-6), Mu(0.7, delta=1e-6)], [50.0]))
    def test_private_bounds_are_charged_and_told(self, name, epsilon):
        bounds = "private" if name in ("DPGroupBy", "DPTargetEncoder") else {"a": "private", "b": (0, 7)}
        ledger = PrivacyLedger(epsilon=100, delta=1e-3)
        found = fitted(made(name, epsilon=epsilon, bounds=bounds, ledger=ledger), whole(name))
        assert "on counts for bounds" in found.guarantee_.mechanism
        assert ledger.spent.epsilon == pytest.approx(found.guarantee_.epsilon)
        assert (found.bounds_[:, 0] < found.bounds_[:, 1]).all()
        if isinstance(bounds, dict):
            assert found.bounds_[1].tolist() == [0, 7]

    @pytest.mark.parametrize("epsilon", [0.5, Rho(0.3, delta=1e-6), Mu(0.7, delta=1e-6)])
    @pytest.mark.parametrize("kind", [DPMean, DPMinMaxScaler])
    def test_the_draws_spend_what_is_given(self, kind, epsilon, monkeypatch):
        drawn = []
        draw = Noise.draw_each
        monkeypatch.setattr(Noise, "draw_each", lambda self, *more: drawn.append(self) or draw(self, *more))
        X = np.column_stack([column("skewed"), column("centred"), column("uniform")])
        guarantee = kind(epsilon, bounds="private", max_rows_per_person=2, random_state=0).fit(X).guarantee_
        assert len(drawn) == (7 if kind is DPMean else 6)  # two looks at each of three columns
        drawn = drawn[::3]
        if epsilon == 0.5:
            assert sum(noise.amount for noise in drawn) == Fraction(0.5)
            assert drawn[0] == Noise("epsilon", drawn[0].amount, 2 * 3)
            assert drawn[0].amount * 15 == drawn[1].amount
        else:
            given = 2 * Fraction(epsilon.rho) if isinstance(epsilon, Rho) else Fraction(epsilon.mu) ** 2
            assert sum(noise.amount for noise in drawn) == given
            assert drawn[:2] == [Noise("mu", one.amount, 2**2 * 3) for one in drawn[:2]]
            assert drawn[0].amount * 15 == drawn[1].amount
        if isinstance(epsilon, Rho):
            assert guarantee.losses == tuple(noise.loss for noise in drawn)

    def test_bounds_of_another_fit_are_forgotten(self):
        imputer = DPSimpleImputer(bounds="private", random_state=0).fit(column("skewed").reshape(-1, 1))
        assert imputer.bounds_.shape == (1, 2)
        imputer.set_params(strategy="most_frequent", categories=[[1.0, 2.0]]).fit(np.ones((5, 1)))
        assert not hasattr(imputer, "bounds_")
