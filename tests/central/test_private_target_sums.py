"""Sums by class, means and choices that protect the target alone: what a target changes, and what is learnt."""

from __future__ import annotations

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.feature_selection import f_classif, f_regression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import skdp
from skdp import (
    DPCategoricalNB,
    DPGaussianNB,
    DPLogisticRegression,
    DPSelectKBest,
    DPTargetEncoder,
    PrivacyLedger,
    privacy_statement,
)
from skdp.central.statistics import GRID, GroupSums, sums_of_groups
from skdp.privacy import Mu, Rho
from skdp.testing import check_curator, replay_release
from tests.conftest import each, often

WORDS = {"a": ["x", "y"], "b": ["u", "v", "w"]}
THREE = ["p", "q", "r"]
TARGET = {"protect": "target"}
# The noise of few rows hides much.
pytestmark = pytest.mark.filterwarnings("ignore:the noise:UserWarning")


def words(rng, n_rows):
    return pd.DataFrame({name: rng.choice(values, n_rows) for name, values in WORDS.items()})


def numbers(rng, n_rows):
    return pd.DataFrame(rng.standard_t(2, (n_rows, 2)), columns=["a", "b"])


# An estimator, the values of its target, and its columns.
EVERY = {
    "categorical": (DPCategoricalNB(categories=WORDS, classes=[0, 1], **TARGET), [0, 1], words),
    "categorical, three": (DPCategoricalNB(categories=WORDS, classes=THREE, **TARGET), THREE, words),
    "gaussian": (DPGaussianNB(classes=[0, 1], **TARGET), [0, 1], numbers),
    "gaussian, three": (DPGaussianNB(classes=THREE, **TARGET), THREE, numbers),
    "encoder": (DPTargetEncoder(categories=WORDS, bounds=(-3, 5), **TARGET), [-3.0, 5.0, 1.0, 1e9], words),
    "selector": (DPSelectKBest(1, classes=[0, 1], **TARGET), [0, 1], numbers),
    "selector, three": (DPSelectKBest(1, classes=THREE, **TARGET), THREE, numbers),
    "selector, number": (DPSelectKBest(1, target_bounds=(-3, 5), **TARGET), [-3.0, 5.0, 1.0, -1e9], numbers),
}


def made(name, **parameters):
    return clone(EVERY[name][0]).set_params(**parameters)


def with_target(X, y):
    return X.assign(target=pd.Series(list(y)))


def fitted(name, n_rows=200, **parameters):
    _, values, columns = EVERY[name]
    X = columns(np.random.default_rng(0), n_rows)
    y = pd.Series(np.resize(np.array([*values, values[0]]), n_rows), name="income")
    return made(name, random_state=0, **parameters).fit(X, y), X, y


def opposite_rows(values, seed):
    """Return a table of which the first row raises the score of one column, and lowers that of another one."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, len(values), 30)
    codes[0] = 0
    noisy = codes[:, np.newaxis] / len(values) + rng.normal(size=(30, 2)) / 10
    noisy[0] = 5, -5
    return with_target(pd.DataFrame(noisy, columns=["a", "b"]), np.array(values)[codes])


class TestPrivacy:
    """What another target of one row changes is covered by the noise: replayed, with the noise moved."""

    @pytest.mark.parametrize("n_neighbours", [4, pytest.param(504, marks=pytest.mark.long)])
    @pytest.mark.parametrize("name", often(EVERY, ["categorical", "gaussian, three", "encoder", "selector, number"]))
    def test_neighbours_that_differ_in_the_target(self, name, n_neighbours):
        _, values, columns = EVERY[name]
        rng = np.random.default_rng(3)
        shares = [{"epsilon": 1.0}, {"epsilon": Rho(0.1, 1e-6)}, {"epsilon": Mu(2.0, 1e-6)}]
        largest = 0.0
        for number in range(n_neighbours):
            n_rows = int(rng.integers(1, 12))
            X = with_target(columns(rng, n_rows), rng.choice(values, n_rows).tolist())
            neighbour = X.copy()
            row = int(rng.integers(n_rows))
            neighbour.loc[row, "target"] = rng.choice([value for value in values if value != X["target"][row]])
            replay = replay_release(made(name, **shares[number % len(shares)]), X, neighbour)
            assert replay.passed, replay.findings
            assert replay.guarantee.relation == "replace_values"
            largest = max(largest, replay.epsilon / replay.guarantee.epsilon)
        # The bound is reached: the test would see a larger change. Of choices, it takes certain rows.
        assert largest > (0.1 if name.startswith("selector") else 0.5)

    @pytest.mark.parametrize("n_rows", [1, pytest.param(2, marks=pytest.mark.long)])
    @each("name", [name for name in EVERY if EVERY[name][2] is words])
    @pytest.mark.long
    def test_all_tables_of_up_to_two_rows(self, name, n_rows):
        _, values, _ = EVERY[name]
        largest = 0.0
        tables = itertools.product(itertools.product(*WORDS.values(), values[:3]), repeat=n_rows)
        # Of two rows, in one order, and a seventh of all.
        tables = [table for table in tables if tuple(sorted(table)) == table][:: 7 if n_rows == 2 else 1]
        for table in tables:
            X = pd.DataFrame(list(table), columns=[*WORDS, "target"])
            for other in values[:3]:
                if other != X["target"][0]:
                    neighbour = X.assign(target=[other, *X["target"][1:]])
                    replay = replay_release(made(name, epsilon=1.0), X, neighbour)
                    assert replay.passed, replay.findings
                    largest = max(largest, replay.epsilon)
        assert largest > 0.9

    @each("squares", [False, True])
    @each("classes", [[0, 1], THREE])
    @pytest.mark.long
    def test_all_tables_of_numbers_of_up_to_two_rows(self, squares, classes):
        """With much noise, squares are not released; with little, they are."""
        epsilon = 1_000.0 if squares else 1.0
        largest = 0.0
        model = DPGaussianNB(epsilon, classes=classes, **TARGET)
        for values in [(0.0,), (7.0,), (-1.0, -1.0), (-1.0, 3.0), (3.0, -1.0)]:
            for target in itertools.product(classes, repeat=len(values)):
                X = pd.DataFrame({"a": values, "target": target})
                for other in set(classes) - {target[0]}:
                    replay = replay_release(model, X, X.assign(target=[other, *target[1:]]))
                    assert replay.passed, replay.findings
                    largest = max(largest, replay.epsilon / epsilon)
        assert largest > 0.9

    @each("n_rows", [40, 600])
    @each("classes", [[0, 1], THREE])
    def test_gaussian_noise_is_that_of_the_longest_public_row(self, classes, n_rows):
        """Of a circle, the squares of 1 and two columns add up to 2, and to 4 with those of their squares."""
        angles = np.linspace(0, 2 * np.pi, n_rows, endpoint=False)
        X = pd.DataFrame({"a": np.cos(angles), "b": 5 * np.sin(angles)})
        X = with_target(X, np.resize(classes, n_rows).tolist())
        model = DPGaussianNB(Mu(1.5, 1e-6), classes=classes, random_state=0, **TARGET)
        length = 2 if n_rows == 40 else 4
        share = 1 if len(classes) == 2 else 2 * (2 / 3)
        error = clone(model).fit(X[["a", "b"]], X["target"]).class_count_std_error_
        assert error == pytest.approx((length * share) ** 0.5 / 1.5, rel=1e-3)
        largest = 0.0
        for row in range(0, n_rows, n_rows // 8):
            neighbour = X.copy()
            neighbour.loc[row, "target"] = classes[(row + 1) % len(classes)]
            replay = replay_release(model, X, neighbour)
            assert replay.passed, replay.findings
            largest = max(largest, replay.epsilon / replay.guarantee.epsilon)
        assert largest > 0.98

    @each("n_rows", [400, 40_000])
    def test_a_delta_is_spent_where_it_makes_less_noise_of_what_is_released(self, n_rows):
        """Of 30 columns: 61 numbers with those of squares, 31 without, of which pure noise is less."""
        X = np.random.default_rng(0).uniform(size=(n_rows, 30))
        models = [DPGaussianNB(0.5, delta=delta, classes=[0, 1], random_state=0, **TARGET) for delta in (1e-6, None)]
        fit, pure = (model.fit(X, np.resize([0, 1], n_rows)) for model in models)
        assert (fit.guarantee_.delta > 0) == (n_rows > 1_000)
        assert (fit.class_count_std_error_ < pure.class_count_std_error_) == (n_rows > 1_000)

    @each("epsilon", [1.0, Mu(1.0, 1e-6)])
    @each("classes", [[0, 1], THREE])
    def test_sums_of_squares_are_released_of_many_rows_only(self, classes, epsilon):
        """What follows from their number, which is public: a replayed target finds the noise of D numbers."""
        for n_rows, n_numbers in ((60, 3), (600, 5)):
            X = with_target(numbers(np.random.default_rng(0), n_rows), np.resize(classes, n_rows).tolist())
            # A row at the ends of both columns.
            X.loc[0, ["a", "b"]] = X[["a", "b"]].max()
            model = DPGaussianNB(epsilon, classes=classes, random_state=0, **TARGET)
            replay = replay_release(model, X, X.assign(target=[classes[1], *X["target"][1:]]))
            assert replay.passed, replay.findings
            assert replay.epsilon > 0.9 * replay.guarantee.epsilon
            error = clone(model).fit(X[["a", "b"]], X["target"]).class_count_std_error_
            n_changed = 1 if len(classes) == 2 else 2
            if epsilon == 1:
                known = n_changed * ((n_numbers + 1) * (n_numbers + 2) / 3) ** 0.5
            else:
                known = (n_changed * n_numbers) ** 0.5
            left = 1 if len(classes) == 2 else (2 / 3) ** 0.5
            assert error == pytest.approx(left * known, rel=1e-6)

    @each("name", [name for name in EVERY if name.startswith("selector")])
    @pytest.mark.long
    def test_choices_have_the_noise_that_they_need(self, name):
        values = sorted(EVERY[name][1][:3])
        largest = 0.0
        for seed in range(4):
            X = opposite_rows(values, seed)
            replay = replay_release(made(name, epsilon=1.0), X, X.assign(target=[values[-1], *X["target"][1:]]))
            assert replay.passed, replay.findings
            largest = max(largest, replay.epsilon)
        assert largest > (0.4 if name == "selector, number" else 0.95)

    def test_a_target_that_is_a_number_changes_its_moments_by_their_width(self):
        """By brute force over places between the bounds, and over tables of up to two rows."""
        bounds = np.array([[-3.0, 5.0]])
        values = [-3.0, -1.0, 1.0, 3.3, 5.0]
        changes = []
        for other, before, after in itertools.product(values, values, values):
            sums = [
                GroupSums.read(sums_of_groups([np.array([other, value])], bounds), bounds).numbers(
                    squares=True, shared_count=True
                )
                for value in (before, after)
            ]
            changes.append(np.abs(sums[1] - sums[0])[0])
        assert np.max(changes, axis=0).tolist() == [0, 2 * GRID, 2 * GRID]
        model, _, _ = fitted("selector, number", epsilon=1.0)
        (loss, *_) = model.guarantee_.losses
        assert loss.sensitivity == 2 * GRID

    @each("name", [name for name in EVERY if not name.startswith("selector")])
    def test_too_little_noise_is_found(self, name, monkeypatch):
        from skdp.central.statistics import Noise

        less = property(lambda noise: noise.sensitivity / noise.amount / 2)
        monkeypatch.setattr(Noise, "scale", less)
        _, values, columns = EVERY[name]
        X = with_target(columns(np.random.default_rng(0), 3), [values[0]] * 3)
        findings = []
        for row in range(3):
            neighbour = X.copy()
            neighbour.loc[row, "target"] = values[1]
            findings += replay_release(made(name, epsilon=1.0), X, neighbour).findings
        assert findings

    @each("name", list(EVERY))
    def test_what_is_stated(self, name):
        model, _, _ = fitted(name, delta=None if name != "encoder" else 0.0)
        stated = model.guarantee_
        assert (stated.relation, stated.scope, stated.trust) == ("replace_values", ("income",), "central")
        assert (stated.epsilon, stated.delta) == (1, 0)
        statement = privacy_statement(model)
        assert statement.total == stated
        assert "released as is" in set(statement.rows["protection"])
        planned = privacy_statement(made(name)).steps[0].guarantee
        assert (planned.relation, planned.epsilon) == ("replace_values", 1)

    @pytest.mark.parametrize("name", often(["categorical", "gaussian, three", "encoder", "selector"], ["encoder"]))
    def test_contract_of_curators(self, name):
        _, values, columns = EVERY[name]
        X = columns(np.random.default_rng(0), 60)
        check_curator(made(name), with_target(X, np.resize(np.array(values), 60).tolist()))

    @each("name", list(EVERY))
    def test_rows_of_a_person_count_together(self, name):
        _, values, columns = EVERY[name]
        X = columns(np.random.default_rng(0), 12)
        persons = np.repeat(np.arange(3), 4)
        y = np.array([values[0]] * 12)
        tables = [with_target(X, y), with_target(X, np.where(persons == 1, values[1], y))]
        model = made(name, epsilon=1.0, max_rows_per_person=4, random_state=0)
        replay = replay_release(
            lambda table: clone(model).fit(table.iloc[:, :-1], table["target"], groups=persons), *tables
        )
        assert replay.passed
        assert replay.guarantee.max_rows_per_person == 4

    def test_mistakes_cost_nothing(self):
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, relation="replace_values", columns=["income"])
        mistakes = [
            ("categorical", {"protect": "y"}, "protect must be one of"),
            ("gaussian", {"protect": None}, "protect must be one of"),
            ("encoder", {"bounds": "private"}, "bounds must be declared, as .* protect='target'"),
            ("encoder", {"bounds": None}, "^bounds must be declared"),
            ("encoder", {"bounds": (5, -3)}, "^bounds of column 'income' must be finite"),
            ("encoder", {"bounds": "none"}, "^bounds of column 'income' must be 'private' or a pair"),
            ("encoder", {"categories": "private", "delta": 1e-6}, "must be declared with protect='target'"),
            ("selector, number", {"target_bounds": "private"}, "target_bounds must be declared, as .* protect="),
            ("selector, number", {"target_bounds": None}, "either classes or target_bounds"),
            ("selector, number", {"target_bounds": "none"}, "^target_bounds of column 'income' must be 'private'"),
            ("selector", {"classes": [0, 2]}, "Declare all classes"),
        ]
        for name, parameters, message in mistakes:
            with pytest.raises(ValueError, match=message):
                fitted(name, ledger=ledger, **parameters)
        assert ledger.spent == (0, 0)

    @each("name", list(EVERY))
    def test_ledgers_of_whole_records_refuse(self, name):
        for relation in ("add_remove", "replace"):
            ledger = PrivacyLedger(epsilon=5, delta=1e-3, relation=relation)
            with pytest.raises(ValueError, match="would not hold"):
                fitted(name, ledger=ledger)
            assert ledger.spent == (0, 0)

    def test_large_tables(self):
        """What only adds up takes them; what needs the ranges of public columns has them declared."""
        pl = pytest.importorskip("polars")
        X = pl.from_pandas(words(np.random.default_rng(0), 50)).with_columns(y=pl.Series(np.resize([0, 1], 50)))
        in_memory = made("categorical", random_state=0).fit(X.drop("y"), X["y"])
        lazy = made("categorical", random_state=0).fit(X.lazy(), "y")
        np.testing.assert_array_equal(lazy.class_count_, in_memory.class_count_)
        assert made("encoder").fit(X.lazy(), "y").guarantee_.scope == ("y",)
        for name in ("gaussian", "gaussian, three", "selector", "selector, number"):
            _, values, columns = EVERY[name]
            X = columns(np.random.default_rng(0), 50)
            X = pl.from_pandas(X).with_columns(y=pl.Series(np.resize(values, 50)))
            with pytest.raises(TypeError, match="bounds must be declared with protect='target' for a large table"):
                made(name).fit(X.lazy(), "y")
            with pytest.raises(ValueError, match=r"bounds must be declared with protect, as .*got 'private'"):
                made(name, bounds="private").fit(X.lazy(), "y")
            # Bounds that are the ranges of the columns make the same release.
            ranges = [(X[column].min(), X[column].max()) for column in X.columns[:-1]]
            in_memory = made(name, random_state=0).fit(X.drop("y"), X["y"])
            lazy = made(name, random_state=0, bounds=ranges).fit(X.lazy(), "y")
            assert lazy.guarantee_ == in_memory.guarantee_
            released = "theta_" if name.startswith("gaussian") else "scores_"
            np.testing.assert_array_equal(getattr(lazy, released), getattr(in_memory, released))


class TestEstimates:
    @each("n_rows", [1, 2, 5])
    @each("name", list(EVERY))
    def test_few_rows_are_answered(self, name, n_rows):
        model, _, _ = fitted(name, n_rows, epsilon=0.5)
        X = EVERY[name][2](np.random.default_rng(1), 4)
        answer = model.predict_proba(X) if hasattr(model, "predict_proba") else np.asarray(model.transform(X))
        assert answer.shape[0] == 4
        assert np.isfinite(answer).all()

    @each("name", ["categorical", "categorical, three", "gaussian", "gaussian, three"])
    def test_the_number_of_rows_is_exact(self, name):
        model, X, _ = fitted(name, epsilon=1.0)
        assert model.class_count_.sum() == pytest.approx(len(X), rel=1e-9)
        assert not np.allclose(model.class_count_ % 1, 0) or "three" not in name
        without_noise, _, y = fitted(name, epsilon=1e6)
        exact = y.value_counts().sort_index()
        np.testing.assert_allclose(without_noise.class_count_, exact, atol=0.01)

    @pytest.mark.long
    @each("name", ["categorical", "categorical, three", "gaussian", "gaussian, three"])
    def test_errors_of_counts_are_those_of_the_noise(self, name):
        _, X, y = fitted(name)
        models = [made(name, epsilon=1.0, random_state=seed).fit(X, y) for seed in range(150)]
        variance = np.var([model.class_count_ for model in models], axis=0).mean()
        assert variance**0.5 == pytest.approx(models[0].class_count_std_error_, rel=0.12)

    @each("model", [DPCategoricalNB(categories=WORDS), DPGaussianNB()])
    def test_known_totals_take_their_part_of_the_noise(self, model):
        """Of K classes, whose sum is public, the K-th part of the variance; of two, the noise is on one."""
        X = (words if isinstance(model, DPCategoricalNB) else numbers)(np.random.default_rng(0), 24)
        errors = []
        for n_classes in (2, 3, 4):
            y = np.resize(range(n_classes), 24)
            fit = clone(model).set_params(epsilon=0.01, classes=range(n_classes), random_state=0, **TARGET).fit(X, y)
            errors.append(fit.class_count_std_error_)
        np.testing.assert_allclose(errors, errors[0] * np.array([1, 2 * (2 / 3) ** 0.5, 2 * (3 / 4) ** 0.5]), rtol=1e-3)

    def test_without_noise_a_gaussian_model_is_that_of_scikit_learn(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 3_000)
        X = rng.normal(size=(3_000, 2)) * [1, 100] + np.eye(3)[y][:, :2] * [2, 300]
        model = DPGaussianNB(1e6, classes=[0, 1, 2], random_state=0, **TARGET).fit(X, y)
        exact = GaussianNB().fit(X, y)
        np.testing.assert_allclose(model.theta_, exact.theta_, rtol=1e-3, atol=1e-2)
        np.testing.assert_allclose(model.var_, exact.var_, rtol=1e-3)
        assert (model.predict(X) == exact.predict(X)).mean() > 0.999

    def test_without_squares_variances_are_what_means_leave_of_the_public_ones(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, 500)
        X = rng.normal(size=(500, 2)) * [1, 100] + y[:, np.newaxis] * [2, 0]
        fits = [DPGaussianNB(0.2, classes=[0, 1], random_state=seed, **TARGET).fit(X, y) for seed in range(20)]
        # Those of the two classes are alike, up to what is not known of their means.
        variances = np.mean([fit.var_ for fit in fits], axis=0)
        np.testing.assert_allclose(variances, [[1, 1e4]] * 2, rtol=0.25)
        assert np.mean([fit.score(X, y) for fit in fits]) > 0.82
        constant = DPGaussianNB(0.2, classes=[0, 1], random_state=0, **TARGET).fit(X * [1, 0], y)
        assert np.isfinite(constant.predict_log_proba(X)).all()

    def test_means_that_noise_hides_are_the_public_ones(self):
        rng = np.random.default_rng(0)
        y = np.repeat([0, 1, 2], [300, 60, 40])
        X = rng.normal(size=(400, 3)) + 2 * (y[:, np.newaxis] == 2)
        fits = [DPGaussianNB(0.05, classes=[0, 1, 2], random_state=seed, **TARGET).fit(X, y) for seed in range(20)]
        distances = [np.abs(fit.theta_ - X.mean(axis=0)).min(axis=0) for fit in fits]
        assert np.median(distances) < 0.02

    @pytest.mark.long
    def test_few_rows_of_many_classes_are_learnt(self):
        """Of iris at an epsilon of .25: .51 with means drawn towards one of noisy means, .59 towards the public one."""
        X, y = load_iris(return_X_y=True)
        models = [DPGaussianNB(0.25, classes=[0, 1, 2], random_state=seed, **TARGET) for seed in range(60)]
        assert np.mean([model.fit(X, y).score(X, y) for model in models]) > 0.55

    @pytest.mark.long
    def test_many_columns_of_few_rows_are_learnt(self):
        """With sums of squares, .57 of the labels at an epsilon of .25; without, .79."""
        X, y = load_breast_cancer(return_X_y=True)
        models = [DPGaussianNB(0.25, classes=[0, 1], random_state=seed, **TARGET) for seed in range(20)]
        assert np.mean([model.fit(X, y).score(X, y) for model in models]) > 0.75

    def test_without_noise_encodings_are_means(self):
        X, y = words(np.random.default_rng(0), 4_000), np.random.default_rng(1).normal(size=4_000)
        y = (y + (X["a"] == "x")).rename("y")
        encoder = DPTargetEncoder(1e6, categories=WORDS, bounds=(-10, 10), random_state=0, **TARGET).fit(X, y)
        np.testing.assert_allclose(encoder.encodings_[0], y.groupby(X["a"]).mean(), atol=0.01)
        assert encoder.target_mean_ == pytest.approx(y.mean(), abs=1e-3)

    @each("is_number", [True, False])
    def test_without_noise_scores_are_those_of_scikit_learn(self, is_number):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.uniform(size=(2_000, 5)), np.full(2_000, 7.0)])
        latent = X @ [2.0, 0.0, 1.0, 0.5, 0.0, 3.0] + rng.uniform(size=2_000)
        y = latent if is_number else (latent > np.median(latent)).astype(int)
        declared = {"target_bounds": (0, 30)} if is_number else {"classes": [0, 1]}
        selector = DPSelectKBest(3, epsilon=1e6, random_state=0, **declared, **TARGET).fit(X, y)
        score = f_regression if is_number else f_classif
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exact, _ = score(X, y)
        order = np.argsort(-np.nan_to_num(exact))[:3]
        assert selector.ranking_.tolist() == order.tolist()
        correlations = [abs(np.corrcoef(X[:, place], y)[0, 1]) for place in order]
        np.testing.assert_allclose(selector.scores_[order], correlations, atol=0.02)

    def test_counts_of_two_classes_have_the_noise_of_whole_records(self):
        _, X, y = fitted("categorical", 400)
        whole = DPCategoricalNB(1.0, categories=WORDS, classes=[0, 1], random_state=0).fit(X, y)
        model = made("categorical", random_state=0).fit(X, y)
        assert model.class_count_std_error_ == whole.class_count_std_error_

    @each("name", list(EVERY))
    def test_names_copies_and_files(self, name, tmp_path):
        model, X, y = fitted(name)
        method = "predict" if hasattr(model, "predict") else "transform"
        answer = np.asarray(getattr(model, method)(X))
        skdp.save(model, tmp_path / "model.json")
        for copy in (pickle.loads(pickle.dumps(model)), skdp.load(tmp_path / "model.json")):
            np.testing.assert_array_equal(np.asarray(getattr(copy, method)(X)), answer)
            assert copy.guarantee_ == model.guarantee_
        with pytest.raises(ValueError, match="feature names"):
            getattr(model, method)(X.rename(columns={"a": "c"}))
        # Names that are no strings.
        declared = {"categories": dict(enumerate(WORDS.values()))} if EVERY[name][2] is words else {}
        renamed = X.set_axis([0, 1], axis=1)
        again = made(name, random_state=0, **declared).fit(renamed, y)
        np.testing.assert_array_equal(np.asarray(getattr(again, method)(renamed)), answer)
        if method == "transform":
            names = list(model.transform(X).columns)
            assert set(names) <= {"a", "b"}
            assert list(again.transform(renamed).columns) == ["ab".index(column) for column in names]

    def test_in_a_pipeline(self):
        _, X, _ = fitted("encoder")
        earns_more = pd.Series(np.resize([0, 1], len(X)), name="income")
        pipeline = make_pipeline(
            made("encoder", bounds=(0, 1), random_state=0),
            DPLogisticRegression(classes=[0, 1], random_state=0, **TARGET),
        ).fit(X, earns_more)
        total = privacy_statement(pipeline).total
        assert (total.relation, total.scope) == ("replace_values", ("income",))
        assert total.epsilon == pytest.approx(2, rel=0.01)
