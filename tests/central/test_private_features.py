"""Linear models that protect columns of X, and perhaps the target: what other values change, and what is learnt."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import skdp
from skdp import DPLinearRegression, DPRidge, PrivacyLedger, privacy_statement
from skdp.privacy import Mu, Rho, WeakGuaranteeWarning
from skdp.testing import check_curator, replay_release
from tests.conftest import each

BOUNDS = {"z": (0, 1), "w": (-1, 2)}
VALUES = {"z": [0.0, 0.3, 1.0, 7.0], "w": [-1.0, 2.0, 0.5, -1e9], "target": [-6.0, 8.0, 0.25]}
SETS = [["z"], ["z", "w"], ["target", "z"], ["w", "z", "target"], ["target"]]


def model(protect, epsilon=1.0, kind=DPLinearRegression, **parameters):
    if "target" in protect or "y" in protect:
        parameters["target_bounds"] = (-6, 8)
    return kind(epsilon, protect=protect, bounds=BOUNDS, **parameters)


def table(rng, n_rows):
    """Return rows whose lengths differ by much, and of which a column follows from others."""
    X = pd.DataFrame(rng.standard_t(2, (n_rows, 2)) * [1.0, 100.0], columns=["a", "b"])
    X.insert(1, "z", rng.choice(VALUES["z"], n_rows))
    X["w"] = rng.choice(VALUES["w"], n_rows)
    X["c"] = X["a"] + X["b"]
    return X.assign(target=rng.choice(VALUES["target"], n_rows))


def other_values(rng, X, columns):
    """Return a table with other values of these columns in one row."""
    neighbour = X.copy()
    row = int(rng.integers(len(X)))
    for column in columns:
        neighbour.loc[row, column] = rng.choice(VALUES[column])
    return neighbour


def people(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    X.insert(1, "z", (X["a"] + rng.normal(size=n_rows) > 0).astype(int))
    X["w"] = np.clip(0.3 * X["z"] + 0.3 * rng.normal(size=n_rows), -1, 2)
    y = 1 + X @ SLOPES + rng.normal(size=n_rows) / 2
    return X, y.rename("y")


SLOPES = np.array([1.0, 0.8, -0.5, 0.0, -0.4])


class TestPrivacy:
    @pytest.mark.parametrize("n_neighbours", [1, pytest.param(150, marks=pytest.mark.long)])
    @each("protect", SETS)
    def test_neighbours_that_differ_in_the_columns(self, protect, n_neighbours):
        """Up to 750 neighbours: tables of 1 to 12 rows, all kinds of shares, with and without a constant."""
        rng = np.random.default_rng(4)
        shares = [
            {"epsilon": 1.0},
            {"epsilon": 1.0, "delta": 1e-6},
            {"epsilon": Rho(0.1, 1e-6)},
            {"epsilon": Mu(2.0, 1e-6)},
        ]
        largest = 0.0
        for number in range(n_neighbours):
            X = table(rng, int(rng.integers(1, 13)))
            parameters = shares[number % 4] | {"fit_intercept": bool(number % 3)}
            replay = replay_release(model(protect, **parameters), X, other_values(rng, X, protect))
            assert replay.passed, (parameters, replay.findings)
            assert replay.guarantee.relation == "replace_values"
            largest = max(largest, replay.epsilon / replay.guarantee.epsilon)
        # The bound is nearly reached: the test would see a larger change.
        assert largest > 0.5 or n_neighbours == 1

    @pytest.mark.long
    @each("protect", [["z"], ["z", "w"], ["z", "target"]])
    def test_all_tables_of_two_rows(self, protect):
        largest = 0.0
        rows = list(itertools.product([0.0, 1.0], [0.0, 1.0], [-1.0, 2.0], [-6.0, 8.0]))
        # A fifth of all pairs, in all of which the first row changes.
        for values in list(itertools.product(rows, rows))[::5]:
            X = pd.DataFrame(np.reshape(values, (2, 4)), columns=["a", "z", "w", "target"])
            neighbour = X.copy()
            for column in protect:
                low, high = {"z": (0, 1), "w": (-1, 2), "target": (-6, 8)}[column]
                neighbour.loc[0, column] = low + high - X.loc[0, column]
            replay = replay_release(model(protect, 1.0), X, neighbour)
            assert replay.passed, replay.findings
            largest = max(largest, replay.epsilon)
        assert largest > 0.5

    @each("n_private", [1, 2, 3])
    def test_products_change_by_the_square_of_their_number(self, n_private):
        """By brute force over a grid of values before and after, of one row."""
        grid = np.linspace(-1, 1, 5)
        places = np.array(list(itertools.product(grid, repeat=n_private)))
        pairs = np.triu_indices(n_private)
        products = places[:, pairs[0]] * places[:, pairs[1]]
        changes = ((products[:, np.newaxis] - products) ** 2).sum(axis=2)
        sizes = np.abs(products[:, np.newaxis] - products).sum(axis=2)
        assert changes.max() == {1: 1, 2: 4, 3: 8}[n_private] <= n_private**2
        assert sizes.max() <= n_private**2

    @pytest.mark.long
    @each("protect", SETS)
    def test_too_little_noise_is_found(self, protect, monkeypatch):
        from skdp.central.statistics import Noise

        # Bounds of several columns are for changes that no two tables attain together.
        monkeypatch.setattr(Noise, "scale", property(lambda noise: noise.sensitivity / noise.amount / 40))
        rng = np.random.default_rng(0)
        X = table(rng, 3)
        findings = []
        for _ in range(4):
            findings += replay_release(model(protect), X, other_values(rng, X, protect)).findings
        assert findings

    @each("protect", SETS[:4])
    def test_what_is_stated(self, protect):
        X, y = people(60)
        protected = tuple(column for column in [*X, "y"] if column.replace("y", "target") in protect)
        names = ["y" if name == "target" else name for name in protect]
        fitted = model(names, random_state=0, delta=1e-6).fit(X, y)
        stated = fitted.guarantee_
        assert (stated.relation, stated.scope, stated.epsilon) == ("replace_values", protected, pytest.approx(1))
        assert list(fitted.bounds_[:, 0]) == [{"z": 0, "w": -1, "y": -6}[name] for name in protected]
        assert privacy_statement(fitted).total == stated
        planned = privacy_statement(model(names)).steps[0].guarantee
        assert (planned.relation, set(planned.scope)) == ("replace_values", set(protected))

    @pytest.mark.long
    def test_contract_of_curators(self):
        X, y = people(60)
        check_curator(model(["z"], delta=1e-6), X.assign(target=y))

    def test_ledgers_and_mistakes(self):
        X, y = people(30)
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, relation="replace_values", columns=["z"])
        mistakes = [
            (model(["z"], target_bounds=(0, 1)), "target_bounds must be None, as protect leaves 'y' public"),
            (model(["z"]).set_params(protect=["z", "y"]), "target_bounds must be declared"),
            (model(["z"]).set_params(bounds=None), r"declared for the private columns \['z'\]"),
            (model(["z"]).set_params(bounds="private"), "bounds must be declared with protect"),
            (model(["z"]).set_params(bounds={"w": (0, 1)}), r"nothing for the columns \['z'\]"),
            (model(["z"]).set_params(bounds={"z": (0, 1), "zz": (0, 1)}), r"X does not have: \['zz'\]"),
            (model(["y"]).set_params(bounds={"zz": (0, 1)}), r"X does not have: \['zz'\]"),
            (model(["z"]).set_params(protect=["q"]), r"must name columns that are released, got \['q'\]"),
            (model(["z"]).set_params(protect="z"), "must be 'record', 'target' or a list of columns of X, got 'z'"),
            (model(["z"]).set_params(protect={"z"}), "must be 'record', 'target' or a list of columns of X, got {'z'}"),
            (model(["z"]).set_params(protect=[]), "protect must be 'record', 'target' or a list"),
            (model(["z"]).set_params(protect=np.array([["z"]])), "protect must be 'record', 'target' or a list"),
            (model(["z"]).set_params(protect=["z", "z"]), "each column once"),
            (model([*X, "y"]).set_params(bounds=(0, 1)), "protect names all columns"),
        ]
        for estimator, message in mistakes:
            with pytest.raises(ValueError, match=message):
                estimator.set_params(ledger=ledger).fit(X, y)
        with pytest.raises(ValueError, match="column 'z' holds a missing value"):
            model(["z"], ledger=ledger).fit(X.assign(z=np.where(X["z"], np.nan, 0.0)), y)
        with pytest.raises(ValueError, match="X has a column of the name of y, 'z', and only one"):
            model(["z"], ledger=ledger).fit(X, y.rename("z"))
        assert ledger.spent == (0, 0)
        model(["z"], ledger=ledger, delta=1e-6, random_state=0).fit(X, y)
        assert ledger.spent.epsilon == pytest.approx(1)
        assert repr(ledger).endswith("spent=(1.0, 1e-06))")
        for other in (
            PrivacyLedger(epsilon=5, delta=1e-3),
            PrivacyLedger(epsilon=5, relation="replace_values", columns=["y"]),
        ):
            with pytest.raises(ValueError, match=r"would not hold|says nothing about those of y"):
                model(["z"], ledger=other).fit(X, y)


class TestModels:
    @each("protect", [["z"], ["w", "z"], ["z", "y"], ["w", "z", "y"], ["y"]])
    def test_without_noise_it_is_least_squares(self, protect):
        X, y = people(20_000)
        exact = LinearRegression().fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            private = model(protect, 1e5, delta=1e-6, random_state=0).fit(X, y)
        # The public weights of long rows make another estimate of the same model.
        np.testing.assert_allclose(private.coef_, exact.coef_, atol=0.02)
        assert private.intercept_ == pytest.approx(exact.intercept_, abs=0.02)
        np.testing.assert_allclose(private.predict(X), exact.predict(X), atol=0.1)

    def test_the_penalty_is_that_of_ridge_and_a_constant_may_be_left_out(self):
        X, y = people(5_000)
        parameters = {"epsilon": 1e5, "delta": 1e-6, "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ridge = model(["z", "w"], kind=DPRidge, alpha=2_000.0, **parameters).fit(X, y)
            without = model(["z", "w"], fit_intercept=False, **parameters).fit(X, y)
        np.testing.assert_allclose(ridge.coef_, Ridge(alpha=2_000).fit(X, y).coef_, atol=0.03)
        exact = LinearRegression(fit_intercept=False).fit(X, y)
        np.testing.assert_allclose(without.coef_, exact.coef_, atol=0.05)
        assert without.intercept_ == 0

    @pytest.mark.long
    def test_errors_are_right(self):
        slopes = np.append(SLOPES, 1.0)
        n_covered = n_all = 0
        for protect in (["z"], ["w", "z"], ["z", "y"]):
            for seed in range(20):
                fitted = model(protect, delta=1e-6, random_state=seed).fit(*people(4_000, seed))
                errors = np.append(fitted.coef_, fitted.intercept_) - slopes
                widths = np.append(fitted.coef_std_error_, fitted.intercept_std_error_)
                n_covered += (abs(errors) < 1.96 * widths).sum()
                n_all += len(errors)
            # And they are no wider than they have to be.
            assert widths.max() < 0.6
        # 360 intervals of 95 %: fewer than .885 are covered with a probability of 1e-6.
        assert n_covered / n_all > 0.885

    def test_what_noise_hides_is_hardly_used(self):
        X, y = people(4_000)
        without = LinearRegression().fit(X[["a", "b", "c"]], y).score(X[["a", "b", "c"]], y)
        for seed in range(5):
            fitted = model(["z"], 0.01, delta=1e-6, random_state=seed).fit(X, y)
            assert fitted.score(X, y) > without - 0.1

    @each("n_rows", [1, 3])
    @each("protect", [["z"], ["w", "y"]])
    def test_few_rows_are_answered(self, protect, n_rows):
        X, y = people(n_rows)
        for fit_intercept in (True, False):
            fitted = model(protect, 0.5, delta=1e-6, fit_intercept=fit_intercept, random_state=0).fit(X, y)
            assert np.isfinite([*fitted.coef_, fitted.intercept_, *fitted.coef_std_error_]).all()

    @each("epsilon", [1e-9, 1.0, 1e100])
    @each("constant", [True, False])
    @pytest.mark.filterwarnings("ignore:by the noisy sums, the values of 'z'")
    def test_columns_that_are_hardly_seen(self, epsilon, constant):
        """Without noise, and between bounds that are far too wide, columns are constant: it was an error."""
        X, y = people(100)
        X = X.assign(z=0.25 if constant else X["z"])
        kinds = [(["z"], {}), (["w", "z"], {"w": (-1e300, 1e300)})]
        for protect, bounds in kinds:
            estimator = model(protect, epsilon, random_state=0).set_params(bounds={**BOUNDS, **bounds})
            fitted = estimator.fit(X, y)
            assert np.isfinite([*fitted.coef_, fitted.intercept_, *fitted.coef_std_error_]).all()
            assert np.isfinite(fitted.intercept_std_error_)

    def test_files_and_arrays(self, tmp_path):
        X, y = people(200)
        fitted = model(["z", "w"], delta=1e-6, random_state=0).fit(X, y)
        skdp.save(fitted, tmp_path / "model.json")
        np.testing.assert_array_equal(skdp.load(tmp_path / "model.json").predict(X), fitted.predict(X))
        bounds = list(BOUNDS.values())
        array = (
            model(["x1", "x4"], delta=1e-6, random_state=0).set_params(bounds=bounds).fit(X.to_numpy(), y.to_numpy())
        )
        np.testing.assert_allclose(array.coef_, fitted.coef_)


@each("kind", [np.array, pd.Index, tuple])
def test_names_in_arrays(kind):
    X, y = people(50)
    expected = model(["z", "w"], random_state=0).fit(X, y)
    fitted = model(["z"], random_state=0).set_params(protect=kind(["z", "w"])).fit(X, y)
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)


def test_a_table_without_rows_is_refused():
    """That there are none is public."""
    X, y = people(0)
    ledger = PrivacyLedger(epsilon=9, relation="replace_values", columns=["z"])
    with pytest.raises(ValueError, match="X has no rows"):
        model(["z"], ledger=ledger).fit(X, y)
    assert ledger.spent == (0, 0)


class TestColumnsThatFollowFromPublicOnes:
    def warnings_of(self, protect, noise=0.0, epsilon=5.0, **columns):
        X, y = people(4_000)
        X["other"] = np.where(np.random.default_rng(1).random(4_000) < noise, X["z"], 1 - X["z"])
        X = X.assign(**columns)
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            model(protect, epsilon, random_state=0).fit(X, y)
        return [str(warning.message) for warning in record if warning.category is WeakGuaranteeWarning]

    @each("protect", [["z"], ["z", "w"], ["z", "y"]])
    def test_are_named(self, protect):
        (text,) = self.warnings_of(protect)
        assert "the values of 'z' follow from public columns" in text

    def test_not_if_some_rows_differ(self):
        """Of a share of 6 % of other rows, less than .9 of the variance is explained."""
        assert not self.warnings_of(["z"], noise=0.06)

    def test_not_if_the_column_is_protected_too(self):
        X, y = people(4_000)
        X["other"] = 1 - X["z"]
        bounds = BOUNDS | {"other": (0, 1)}
        DPLinearRegression(5.0, protect=["z", "other"], bounds=bounds, random_state=0).fit(X, y)

    def test_not_of_noise(self):
        rng = np.random.default_rng(2)
        for seed in range(8):
            X, y = people(40, seed)
            model(["z", "w"], 0.1, random_state=seed).fit(X, y)
            wide = pd.DataFrame(rng.normal(size=(40, 30))).rename(columns=str)
            model(["z"], 9.0, random_state=seed).fit(X.join(wide), y)

    def test_not_of_a_target_that_is_well_predicted(self):
        X, _ = people(4_000)
        y = pd.Series(2.0 * X["z"] - X["a"], name="y")
        model(["y"], 5.0, random_state=0).fit(X, y)
