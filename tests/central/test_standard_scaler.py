from __future__ import annotations

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import BudgetExceeded, DPStandardScaler, PrivacyLedger
from skdp.central.statistics import GRID, ColumnSums, joint_noise, noisy_moments, query
from skdp.datasets import load_adult
from skdp.privacy import Share
from skdp.randomness import SeededSource
from tests.conftest import each, often

BOUNDS = {"age": (0, 100), "hours": (0, 100)}


def table(n, columns=1, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, columns)) * 80 + 10


def fits(X, repeats, **parameters):
    return [DPStandardScaler(random_state=seed, **parameters).fit(X) for seed in range(repeats)]


def closed_form_std(dimension, epsilon):
    """The standard deviation of a coordinate of cube noise for a sensitivity of 1."""
    return math.sqrt((dimension + 1) * (dimension + 2) / 3) / epsilon


class TestSensitivity:
    """Every table of few rows, every record that may be added: no number moves by more than what the noise hides."""

    @pytest.mark.parametrize(
        ("values", "n_columns", "most_rows"), [((-3.0, 0.0, 50.0, math.nan), 1, 4), ((0.0, 1.0, math.nan), 2, 3)]
    )
    @pytest.mark.parametrize("squares", [False, True])
    def test_counts_and_sums(self, values, n_columns, most_rows, squares):
        records = list(itertools.product(values, repeat=n_columns))

        def numbers(rows, shared_count):
            X = np.array(rows, float).reshape(len(rows), n_columns)
            columns = [ColumnSums.of(column, 0.0, 2.0) for column in X.T]
            return query(columns, squares=squares, shared_count=shared_count)

        worst = []
        for shared_count in (False, True):
            usable = [record for record in records if not (shared_count and any(map(math.isnan, record)))]
            for n in range(most_rows):
                for rows in itertools.combinations_with_replacement(usable, n):
                    before = numbers(rows, shared_count)
                    after = {record: numbers((*rows, record), shared_count) for record in usable}
                    for record, then in after.items():
                        moved = [abs(b - a) for a, b in zip(before, then, strict=True)]
                        worst.append(max(moved))
                        if all(map(math.isnan, record)):
                            assert moved == [0] * len(moved)
                    for one, other in itertools.combinations(after.values(), 2):  # one record replaced
                        assert max(abs(b - a) for a, b in zip(one, other, strict=True)) <= 2 * GRID
        assert max(worst) == GRID

    def test_the_noise_is_that_of_the_sensitivity(self, monkeypatch):
        asked = []

        def record(source, scale, dimension, size=1):
            asked.append((scale, dimension, size))
            return np.zeros((size, dimension), int)

        monkeypatch.setattr("skdp.central.statistics._noise.cube_noise", record)
        for parameters, dimension in [
            ({"missing": "error"}, 7),
            ({"missing": "error", "with_std": False}, 4),
            ({}, 9),
            ({"with_std": False}, 6),
        ]:
            DPStandardScaler(0.3, bounds=(0, 100), **parameters).fit(table(5000, 3))
            assert asked.pop() == (GRID / Fraction(0.3), dimension, 1)


class TestAccuracy:
    @pytest.mark.parametrize(
        ("parameters", "n_columns", "dimension"),
        [
            pytest.param({}, 1, 3, marks=pytest.mark.long),
            pytest.param({"missing": "error"}, 4, 9, marks=pytest.mark.long),
            ({}, 4, 12),
            pytest.param({"missing": "error", "with_std": False}, 4, 5, marks=pytest.mark.long),
            pytest.param({"with_std": False}, 4, 8, marks=pytest.mark.long),
        ],
    )
    @pytest.mark.parametrize("epsilon", often([0.5, 2.0], [0.5]))
    def test_errors_are_those_of_the_closed_form(self, parameters, n_columns, dimension, epsilon):
        """250 runs of 4 columns: the standard error of a root mean square is 5 to 7 %."""
        n, (low, high) = 20_000, (20.0, 40.0)
        X = np.tile(np.repeat([[low], [high]], n // 2, axis=0), n_columns)  # mean 30, standard deviation 10
        runs = fits(X, 250, epsilon=epsilon, bounds=(0, 100), **parameters)
        noise, t, s = closed_form_std(dimension, epsilon) / n, 30 / 50 - 1, 10 / 50
        of_mean = 50 * noise * math.sqrt(1 + t**2)
        errors = np.array([run.mean_ for run in runs]) - 30
        assert np.sqrt(np.mean(errors**2, axis=0)) == pytest.approx(of_mean, rel=0.16)
        assert np.mean([run.mean_std_error_ for run in runs], axis=0) == pytest.approx(of_mean, rel=0.01)
        assert np.abs(errors.mean(axis=0)).max() < 5 * of_mean / math.sqrt(250)
        if parameters.get("with_std", True):
            of_variance = noise * math.sqrt(1 / 4 + 4 * t**2 + (t**2 - s**2 + 1 / 2) ** 2)
            of_scale = 50 * of_variance / (2 * s)
            errors = np.array([run.scale_ for run in runs]) - 10
            assert np.sqrt(np.mean(errors**2, axis=0)) == pytest.approx(of_scale, rel=0.16)
            assert np.mean([run.scale_std_error_ for run in runs], axis=0) == pytest.approx(of_scale, rel=0.02)
            assert np.abs(errors.mean(axis=0)).max() < 5 * of_scale / math.sqrt(250)

    @pytest.mark.long
    def test_five_columns_of_adult(self):
        """Root mean squares over columns and 100 runs, in millionths of the width of the bounds."""
        frame = load_adult().frame
        bounds = {
            "age": (0, 100),
            "education-num": (1, 16),
            "capital-gain": (0, 100_000),
            "capital-loss": (0, 5_000),
            "hours-per-week": (1, 100),
        }
        X = frame[list(bounds)]
        widths = np.array([high - low for low, high in bounds.values()])
        runs = fits(X, 100, bounds=bounds, missing="error")
        means = np.array([run.mean_ - X.mean().to_numpy() for run in runs]) / widths
        scales = np.array([run.scale_ - X.std(ddof=0).to_numpy() for run in runs]) / widths
        assert np.sqrt(np.mean(means**2)) <= 1.1 * 132e-6
        assert np.sqrt(np.mean(scales**2)) <= 700e-6

    def test_a_large_epsilon_gives_what_scikit_learn_gives(self):
        X = table(2000, 3)
        ours, theirs = DPStandardScaler(1e6, bounds=(0, 100)).fit(X), StandardScaler().fit(X)
        for name in ("mean_", "var_", "scale_"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-5)
        assert ours.transform(X) == pytest.approx(theirs.transform(X), abs=1e-4)


class TestLittleData:
    @pytest.mark.parametrize("missing", ["error", "ignore"])
    @pytest.mark.parametrize("rows", [0, 1, 2])
    def test_tables_of_no_rows_and_of_one_are_answered(self, rows, missing):
        for seed in range(20):
            scaler = DPStandardScaler(0.5, bounds=(-5, 5), missing=missing, random_state=seed)
            with pytest.warns(UserWarning, match=r"drowns the variance of \['x0', 'x1'\]"):
                scaler.fit(np.full((rows, 2), 3.0))
            assert (np.abs(scaler.mean_) <= 5).all()
            assert scaler.scale_ == pytest.approx(10 / math.sqrt(12))
            assert scaler.drowned_.all()
            assert (scaler.mean_std_error_ > 0).all()

    def test_noise_as_large_as_the_variance_is_its_floor(self):
        """A column of one value: its variance cannot be told from what the noise makes of it."""
        for run in fits(np.full((5000, 1), 0.0), 100, bounds=(-1, 1)):
            assert not run.drowned_.any()
            floor = 2 * run.scale_[0] * run.scale_std_error_[0]
            assert run.var_[0] >= floor * (1 - 1e-12) > 0
        assert np.mean([run.var_[0] == pytest.approx(2 * run.scale_[0] * run.scale_std_error_[0]) for run in fits(
            np.full((5000, 1), 0.0), 100, bounds=(-1, 1))]) > 0.5  # fmt: skip

    def test_no_variance_is_larger_than_bounds_allow(self):
        X = np.repeat([[0.0], [8.0]], 300, axis=0)
        runs = fits(X, 100, epsilon=0.5, bounds=(0, 8))
        variances = np.array([run.var_[0] for run in runs])
        assert variances.max() <= 16
        assert np.median(variances) > 15

    def test_tiny_and_huge_epsilons(self):
        for epsilon in (5e-324, 1e-300, 1e-9):
            with pytest.warns(UserWarning, match="drowns"):
                scaler = DPStandardScaler(epsilon, bounds=(0, 100), random_state=0).fit(table(50))
            assert 0 <= scaler.mean_[0] <= 100
            assert scaler.scale_[0] == pytest.approx(100 / math.sqrt(12))
        scaler = DPStandardScaler(1e300, bounds=(0, 1), random_state=0).fit(np.full((50, 1), 0.25))
        assert scaler.mean_[0] == pytest.approx(0.25, abs=1e-9)
        assert 0 < scaler.scale_[0] < 1e-4
        assert np.isfinite(scaler.transform([[0.3]])).all()

    def test_any_bounds(self):
        for low, high in [(-8e307, 8e307), (0, 1e-299), (1e15, 1e15 + 2e6), (-1000, -999)]:
            X = low + (high - low) * (table(3000) / 100)
            scaler = DPStandardScaler(5.0, bounds=(low, high), random_state=0).fit(X)
            assert (scaler.mean_[0] - low) / (high - low) == pytest.approx(0.33, abs=0.01)
            assert scaler.scale_[0] / (high - low) == pytest.approx(table(3000).std() / 100, abs=0.02)

    def test_moments_without_a_count_are_public(self):
        column = ColumnSums.of(np.empty(0), 0.0, 1.0)
        noise = joint_noise(Share("epsilon", Fraction(1)), GRID, 3)
        seen = [
            noisy_moments([column], noise, SeededSource(seed), squares=True, shared_count=True)[0]
            for seed in range(100)
        ]
        # The noisy count is at most 0 in half of the cases.
        assert 30 < seen.count((0.0, 1.0, 1 / 3, 1.0)) < 70
        assert all(-1 <= one.mean <= 1 and one.mean_error > 0.1 for one in seen)
        assert all(one.variance == 1 / 3 for one in seen if one.drowned)
        assert np.mean([one.drowned for one in seen]) > 0.8


class TestData:
    def test_missing_values_add_nothing(self):
        X = table(1000, 2)
        padded = np.vstack([X, np.full((5000, 2), np.nan)])
        plain, more = (
            DPStandardScaler(bounds=(0, 100), missing="ignore", random_state=3).fit(rows) for rows in (X, padded)
        )
        np.testing.assert_array_equal(plain.mean_, more.mean_)
        np.testing.assert_array_equal(plain.var_, more.var_)
        out = more.transform(padded)
        assert np.isnan(out[1000:]).all()
        assert not np.isnan(out[:1000]).any()

    def test_one_column_may_lack_what_another_has(self):
        X = table(4000, 2)
        X[::2, 1] = np.nan
        scaler = DPStandardScaler(20.0, bounds=(0, 100), missing="ignore", random_state=0).fit(X)
        assert scaler.mean_ == pytest.approx(np.nanmean(X, axis=0), abs=0.3)
        assert scaler.scale_ == pytest.approx(np.nanstd(X, axis=0), abs=0.5)

    @pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
    def test_they_may_be_an_error_that_costs_nothing(self, hole):
        ledger = PrivacyLedger(epsilon=1)
        X = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, hole]})
        scaler = DPStandardScaler(bounds=(0, 100), missing="error", ledger=ledger)
        with pytest.raises(ValueError, match="column 'b' holds a missing value"):
            scaler.fit(X)
        assert ledger.spent == (0, 0)
        fitted = scaler.set_params(ledger=None, epsilon=20.0).fit(
            X.fillna(0).clip(0, 9).sample(500, replace=True, random_state=0)
        )
        with pytest.raises(ValueError, match="column 'b' holds a missing value"):
            fitted.transform(X)

    def test_both_sides_are_clipped(self):
        X = np.full((3000, 1), 30.0)
        for outlier in (-1e9, 1e9, np.inf, -np.inf):
            scaler = DPStandardScaler(20.0, bounds=(0, 100), missing="ignore", random_state=0)
            scaler.fit(np.vstack([X, [[outlier]]]))
            assert abs(scaler.mean_[0] - 30) < 0.7
            assert scaler.scale_[0] < 6

    def test_frames_of_every_kind(self, make_frame, frame_kind, values_of):
        frame = make_frame({"age": [17, 38, 90, 41] * 200, "hours": [40, 20, 60, 38] * 200})
        if frame_kind == "pandas-category":
            frame = frame.astype("category")
        scaler = DPStandardScaler(50.0, bounds=BOUNDS, random_state=0)
        out = scaler.fit_transform(frame)
        assert type(out) is type(frame)
        assert scaler.mean_ == pytest.approx([46.5, 39.5], abs=0.5)
        assert scaler.scale_ == pytest.approx([26.8, 14.2], abs=1.0)
        assert scaler.get_feature_names_out().tolist() == ["age", "hours"]
        found = values_of(out, "hours")
        assert found[:4] == pytest.approx([(x - scaler.mean_[1]) / scaler.scale_[1] for x in (40, 20, 60, 38)])
        assert all(isinstance(value, float) for value in found)
        assert values_of(scaler.inverse_transform(out), "age")[:4] == pytest.approx([17, 38, 90, 41])

    def test_nulls_of_every_kind(self, make_frame, values_of):
        frame = make_frame({"age": [17, None, 90, 40] * 200})
        scaler = DPStandardScaler(50.0, bounds=(0, 100), missing="ignore", random_state=0)
        out = values_of(scaler.fit_transform(frame), "age")
        assert scaler.mean_ == pytest.approx([49.0], abs=0.5)
        assert out[1] is None or math.isnan(out[1])
        assert out[2] > 1

    def test_set_output(self):
        frame = pd.DataFrame(table(200, 2), columns=["a", "b"], index=range(5, 205))
        scaler = DPStandardScaler(bounds=(0, 100)).set_output(transform="polars").fit(frame)
        assert isinstance(scaler.transform(frame), pl.DataFrame)
        assert scaler.set_output(transform="default").transform(frame).index.equals(frame.index)

    def test_in_a_pipeline(self):
        X = table(2000, 2)
        model = make_pipeline(DPStandardScaler(bounds=(0, 100)), LogisticRegression()).fit(X, X[:, 0] > 30)
        assert model.score(X, X[:, 0] > 30) > 0.95

    @pytest.mark.parametrize("kind", [{"with_mean": False}, {"with_std": False}])
    def test_half_of_it(self, kind):
        X = table(500)
        scaler = DPStandardScaler(bounds=(0, 100), **kind).fit(X)
        if scaler.with_std:
            assert scaler.transform(X) == pytest.approx(X / scaler.scale_)
        else:
            assert scaler.transform(X) == pytest.approx(X - scaler.mean_)
            assert scaler.var_ is scaler.scale_ is scaler.scale_std_error_ is scaler.drowned_ is None
        assert scaler.inverse_transform(scaler.transform(X)) == pytest.approx(X)


class TestPromise:
    @pytest.mark.parametrize("missing", ["error", "ignore"])
    def test_the_guarantee(self, missing):
        X = pd.DataFrame(table(3000, 2), columns=["a", "b"])
        guarantee = DPStandardScaler(0.7, bounds=(0, 100), missing=missing).fit(X).guarantee_
        assert (guarantee.epsilon, guarantee.delta) == (0.7, 0)
        assert (guarantee.relation, guarantee.trust) == ("add_remove", "central")
        assert guarantee.scope == ("a", "b")
        assert guarantee.secure

    def test_fit_spends_each_time_and_transform_never(self):
        ledger = PrivacyLedger(epsilon=2.0)
        X = table(3000)
        scaler = DPStandardScaler(bounds=(0, 100), ledger=ledger)
        for spent in (1.0, 2.0):
            clone(scaler).fit(X).inverse_transform(X)
            assert ledger.spent[0] == spent
        last = clone(scaler)
        with pytest.raises(BudgetExceeded):
            last.fit(X)
        assert not hasattr(last, "mean_")
        assert not hasattr(last, "guarantee_")

    def test_seeds(self):
        X = table(3000)
        first, second, third = (DPStandardScaler(bounds=(0, 100), random_state=seed).fit(X) for seed in (4, 4, 5))
        assert first.mean_ == second.mean_ != third.mean_
        assert first.scale_ == second.scale_ != third.scale_
        assert not first.guarantee_.secure

    def test_without_a_seed_every_fit_draws_anew(self):
        np.random.seed(0)  # noqa: NPY002
        X = table(3000)
        scaler = DPStandardScaler(bounds=(0, 100))
        copies = [scaler, clone(scaler), pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)]
        assert len({one.fit(X).mean_[0] for one in copies}) == 4

    def test_nothing_else_stays_on_it(self):
        scaler = DPStandardScaler(bounds=(0, 100), random_state=0).fit(table(3000))
        released = {"mean_", "mean_std_error_", "var_", "scale_", "scale_std_error_", "drowned_", "bounds_"}
        assert set(vars(scaler)) - set(scaler.get_params()) == released | {"guarantee_", "n_features_in_"}
        again = pickle.loads(pickle.dumps(scaler))
        assert again.transform(table(3)) == pytest.approx(scaler.transform(table(3)))


class TestMistakes:
    SECRET = 8.512345

    @each(
        "parameters error message",
        [
            ({"epsilon": 0}, ValueError, "epsilon"),
            ({"epsilon": math.nan}, ValueError, "epsilon"),
            ({"epsilon": True}, TypeError, "epsilon"),
            ({"with_mean": "no"}, TypeError, "with_mean must be True or False, got str"),
            ({"with_std": None}, TypeError, "with_std must be True or False"),
            ({"with_mean": False, "with_std": False}, ValueError, "both False"),
            ({"missing": "drop"}, ValueError, "missing must be one of"),
            ({"missing": None}, ValueError, "missing must be"),
            ({"bounds": None}, ValueError, "bounds must be declared"),
            ({"bounds": (6, 5)}, ValueError, "bounds of column 'a'"),
            ({"bounds": {"a": (0, 1)}}, ValueError, r"bounds declares nothing for the columns \['b'\]"),
            ({"ledger": {}}, TypeError, "ledger"),
            ({"random_state": np.random.default_rng(0)}, TypeError, "random_state"),
        ],
    )
    def test_parameters(self, parameters, error, message):
        ledger = PrivacyLedger(epsilon=10)
        X = pd.DataFrame({"a": [self.SECRET, 1.0], "b": [2.0, 3.0]})
        with pytest.raises(error, match=message) as caught:
            DPStandardScaler(**{"bounds": (0, 100), "ledger": ledger} | parameters).fit(X)
        assert str(self.SECRET) not in str(caught.value)
        assert ledger.spent == (0, 0)

    @each(
        "X, error, message",
        [
            (np.zeros(3), ValueError, "Reshape your data"),
            (np.array([["secret", "b"]]), TypeError, "column 'x0'"),
            (pd.DataFrame({"a": ["secret"], "b": [1.0]}), TypeError, "column 'a'"),
            ([[1.0, "secret"]], TypeError, "column 'x1'"),
        ],
    )
    def test_data(self, X, error, message):
        ledger = PrivacyLedger(epsilon=10)
        with pytest.raises(error, match=message) as caught:
            DPStandardScaler(bounds=(0, 100), ledger=ledger).fit(X)
        assert "secret" not in str(caught.value)
        assert ledger.spent == (0, 0)
