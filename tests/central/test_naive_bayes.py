"""Naive Bayes from private sums and counts by class: sensitivities by brute force, what is spent, what is learnt."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from skdp import (
    DPCategoricalNB,
    DPGaussianNB,
    Interval,
    PrivacyLeakWarning,
    PrivacyLedger,
    load,
    privacy_statement,
    save,
)
from skdp.central._supervised import Classes
from skdp.central.naive_bayes._gaussian import sums_by_class
from skdp.central.statistics import GRID, GaussianNoise, query
from skdp.central.statistics._noise import CubeNoise, LaplaceNoise
from skdp.domain import Domain
from skdp.frames import Table
from skdp.privacy import Mu, Rho
from tests.conftest import each

rng = np.random.default_rng(0)
N = 1_500
ILL = pd.Series(rng.random(N) < 0.3, name="ill").map({True: "yes", False: "no"})
NUMBERS = pd.DataFrame({"age": rng.normal(50, 9, N) + 9 * (ILL == "yes"), "size": rng.normal(0, 1, N)})
JOBS, SEXES = ["clerk", "nurse", "smith"], ["f", "m"]
WORDS = pd.DataFrame(
    {
        "job": np.where((ILL == "yes") & (rng.random(N) < 0.6), "nurse", rng.choice(JOBS, N)),
        "sex": rng.choice(SEXES, N),
    }
)
BOUNDS = {"age": (0, 100), "size": (-4, 4)}
DECLARED = {"job": JOBS, "sex": SEXES}


def gaussian(epsilon=1.0, **parameters):
    return DPGaussianNB(epsilon, **{"bounds": BOUNDS, "classes": ["yes", "no"], "random_state": 0} | parameters)


def categorical(epsilon=1.0, **parameters):
    return DPCategoricalNB(
        epsilon, **{"categories": DECLARED, "classes": ["yes", "no"], "random_state": 0} | parameters
    )


MODELS = [(gaussian, NUMBERS), (categorical, WORDS)]


class TestSensitivity:
    def test_persons_change_the_numbers_of_their_classes_by_their_rows(self):
        """All tables of two other rows, and all persons of one and of two rows: in units, a class moves by its rows."""
        records = list(itertools.product((-9.0, 0.3, 1.0), (0.0, 0.6, 1.0), (0, 1)))
        classes = Classes(Domain({"y": [0, 1]}))

        def released(rows):
            columns = tuple(np.array([row[place] for row in rows], float) for place in range(3))
            table = Table(("a", "b", "y"), (*columns[:2], columns[2].astype(int)), None)
            sums = sums_by_class(table, None, classes, np.array([[0.0, 1.0]] * 2))
            return np.array([query(one, squares=True, shared_count=True) for one in sums], object)

        alone = {row: released([row]) for row in records}
        assert all(np.abs(alone[row][row[2]]).max() == GRID for row in records)
        assert all((alone[row][1 - row[2]] == 0).all() for row in records)
        for others in itertools.combinations(records[::5], 2):
            before = released(others)
            for k in (1, 2):
                for person in itertools.combinations_with_replacement(records[:: 2 * k - 1], k):
                    moved = np.abs(released((*others, *person)) - before)
                    of_class = [sum(row[2] == place for row in person) for place in range(2)]
                    assert all(moved[place].max() <= GRID * of_class[place] for place in range(2))
                    # In the norm of the cube noise of all classes, and in Euclidean norm.
                    assert moved.max(axis=1).sum() <= GRID * k
                    assert sum(int(one) ** 2 for one in moved.ravel()) <= 5 * (GRID * k) ** 2

    def test_persons_change_a_count_of_each_pair_for_each_row(self, monkeypatch):
        given = []
        monkeypatch.setattr(LaplaceNoise, "add", lambda self, source, numbers: given.append(numbers) or numbers)
        records = list(itertools.product(["clerk", "nurse", "smith"], ["f", "m"], ["no", "yes"]))

        def released(rows):
            frame = pd.DataFrame(rows, columns=["job", "sex", "ill"]).astype(object)
            categorical(1e3).fit(frame[["job", "sex"]], frame["ill"])
            return np.array(given.pop())

        worst = {1: 0, 2: 0}
        others = records[3], records[8]
        before = released(others)
        for k in worst:
            for person in itertools.combinations_with_replacement(records[:: 3 * k - 2], k):
                moved = released((*others, *person)) - before
                assert (moved >= 0).all()
                worst[k] = max(worst[k], moved.sum())
                assert (moved**2).sum() <= 2 * k**2
        assert worst == {1: 2, 2: 4}

    @pytest.mark.parametrize("rows", [1, 3])
    def test_the_noise_is_that_of_the_sensitivity(self, rows, monkeypatch):
        drawn = []
        for kind in (LaplaceNoise, CubeNoise, GaussianNoise):
            add = kind.add
            monkeypatch.setattr(
                kind, "add", lambda self, source, numbers, add=add: drawn.append(self) or add(self, source, numbers)
            )
        half, mu = Fraction(1, 2), Mu(0.4, delta=1e-6)
        gaussian(0.5, max_rows_per_person=rows).fit(NUMBERS, ILL)
        gaussian(mu, max_rows_per_person=rows).fit(NUMBERS, ILL)
        categorical(0.5, max_rows_per_person=rows).fit(WORDS, ILL)
        categorical(mu, max_rows_per_person=rows).fit(WORDS, ILL)
        squared = Fraction(0.4) ** 2
        assert drawn == [
            *[CubeNoise(half, rows * GRID, 5)] * 2,  # each class has rows of its own
            *[GaussianNoise(squared, rows**2 * 5 * GRID**2)] * 2,
            LaplaceNoise(half, rows * 2),
            GaussianNoise(squared, rows**2 * 2),
        ]

    @pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning")
    @pytest.mark.parametrize(("make", "most"), [(gaussian, 25), (categorical, 9)])
    def test_a_delta_is_spent_where_it_makes_less_noise(self, make, most):
        for n_columns in (most - 2, most + 2):
            X = pd.DataFrame(np.zeros((40, n_columns)), columns=[f"x{place}" for place in range(n_columns)])
            declared = {"bounds": (0, 1)} if make is gaussian else {"categories": [[0.0, 1.0]] * n_columns}
            guarantee = make(1.0, delta=1e-6, **declared).fit(X, ILL[:40]).guarantee_
            assert guarantee.delta == (0 if n_columns < most else 1e-6)
            assert guarantee.epsilon == pytest.approx(1.0)

    @pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning")
    @pytest.mark.parametrize(("make", "X"), MODELS, ids=["gaussian", "categorical"])
    def test_all_follows_from_noisy_numbers_alone(self, make, X, monkeypatch):
        for kind in (LaplaceNoise, CubeNoise):
            monkeypatch.setattr(kind, "add", lambda self, source, numbers: [7 * GRID + i for i in range(len(numbers))])
        found = [str(sorted(vars(make().fit(X[:n], ILL[:n])).items(), key=str)) for n in (N, 9, 0)]
        assert found[0] == found[1] == found[2]


class TestAccuracy:
    def test_with_little_noise_it_is_naive_bayes(self):
        model, wanted = gaussian(1e5).fit(NUMBERS, ILL), GaussianNB().fit(NUMBERS, ILL)
        assert model.classes_.tolist() == ["no", "yes"]
        assert np.allclose(model.theta_, wanted.theta_, atol=0.05)
        assert np.allclose(model.var_, wanted.var_, rtol=0.01)
        assert np.allclose(model.class_prior_, wanted.class_prior_, atol=1e-3)
        assert np.allclose(model.predict_proba(NUMBERS), wanted.predict_proba(NUMBERS), atol=0.01)
        model = categorical(1e5).fit(WORDS, ILL)
        codes = np.column_stack([WORDS[name].map(DECLARED[name].index) for name in WORDS])
        wanted = CategoricalNB().fit(codes, ILL)
        for one, other in zip(model.feature_log_prob_, wanted.feature_log_prob_, strict=True):
            assert np.allclose(np.exp(one), np.exp(other), atol=0.03)
        assert np.allclose(model.predict_proba(WORDS), wanted.predict_proba(codes), atol=0.05)

    @pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning")
    def test_noise_makes_classes_alike(self):
        """A column that says nothing stays so where the noise is large; without shrinking, half of the rows change."""
        X = pd.DataFrame({"a": rng.normal(size=400).clip(-3, 3)})
        y = np.repeat(["no", "yes"], [380, 20])
        changed = []
        for seed in range(8):
            model = gaussian(0.05, bounds=(-3, 3), random_state=seed).fit(X, y)
            changed.append(np.ptp(model.predict_proba(X)[:, 0]))
            assert (model.var_ > 0).all()
        assert np.mean(changed) < 0.45
        for seed in range(8):
            model = categorical(0.05, random_state=seed).fit(WORDS[:50], ILL[:50])
            assert all(np.allclose(np.exp(one).sum(axis=1), 1) for one in model.feature_log_prob_)

    @pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning")
    @pytest.mark.parametrize(
        "epsilon", [pytest.param(5e-324, marks=pytest.mark.long), 1e300, Rho(1e-50, delta=1e-6), Mu(1e-30, delta=1e-6)]
    )
    def test_tiny_and_huge_epsilons_and_bounds_are_answered(self, epsilon):
        for high, rows in itertools.product([1e-290, 8e307], [0, 1, 50]):
            X = np.tile([[high], [0.1 * high]], (rows, 2))
            model = gaussian(epsilon, bounds=(-high, high)).fit(X, ["yes", "no"] * rows)
            assert np.isfinite(model.theta_).all()
            assert np.isfinite(model.predict_log_proba([[high, high], [0.0, -high]])).all()
        for rows in (0, 1, 50):
            model = categorical(epsilon).fit(WORDS[:rows], ILL[:rows])
            assert np.isfinite(model.predict_log_proba(WORDS)).all()

    def test_several_classes_and_frames_of_all_kinds(self):
        y = pd.Series(np.where(WORDS["sex"] == "f", "maybe", ILL), name="ill")
        for make, X in MODELS:
            wanted = make(20.0, classes=["yes", "maybe", "no"]).fit(X, y)
            assert wanted.classes_.tolist() == ["maybe", "no", "yes"]
            assert np.allclose(wanted.predict_proba(X).sum(axis=1), 1)
            assert (wanted.predict(X) == wanted.classes_[wanted.predict_proba(X).argmax(axis=1)]).all()
            frame = pl.from_pandas(X)
            for table, target in [(frame, pl.from_pandas(y)), (frame.to_arrow(), y.to_numpy())]:
                model = make(20.0, classes=["no", "yes", "maybe"][::-1]).fit(table, target)
                assert model.predict_proba(table).tolist() == wanted.predict_proba(X).tolist()
        assert categorical(20.0, classes=["yes", "maybe", "no"]).fit(WORDS, y).score(WORDS, y) > 0.7

    def test_bins_and_undeclared_values(self):
        bins = {"age": Interval(0, 100, bins=10), "size": Interval(-4, 4, bins=4)}
        assert categorical(categories=bins).fit(NUMBERS, ILL).score(NUMBERS, ILL) > 0.65
        odd = WORDS.assign(job=WORDS["job"].where(WORDS["job"] != "smith", None))
        with pytest.raises(ValueError, match="column 'job' holds a value, or a NaN or inf, outside"):
            categorical().fit(odd, ILL)
        model = categorical(1e4, handle_unknown="ignore").fit(odd, ILL)
        unknown = pd.DataFrame({"job": ["smith", "pilot", None], "sex": ["x", "x", "x"]})
        assert np.allclose(model.predict_proba(unknown)[1:], model.class_prior_)
        far = pd.DataFrame({"age": [100.0, 1e9], "size": [0.0, 0.0]})
        found = gaussian().fit(NUMBERS, ILL).predict_proba(far)
        assert (found[0] == found[1]).all()  # clipped


class TestPromise:
    @pytest.mark.parametrize(("make", "X"), MODELS, ids=["gaussian", "categorical"])
    def test_guarantee_statement_cost_and_copies(self, make, X, tmp_path):
        ledger = PrivacyLedger(epsilon=9.0)
        model = make(0.7, ledger=ledger)
        assert privacy_statement(model).total.epsilon == 0.7
        model.fit(X, ILL)
        assert model.guarantee_.scope == (*X.columns, "ill")
        assert (model.guarantee_.epsilon, model.guarantee_.delta) == (0.7, 0)
        assert ledger.spent.epsilon == 0.7
        assert set(privacy_statement(model).total.scope) == {*X.columns, "ill"}
        save(model, tmp_path / "model.skdp")
        assert (load(tmp_path / "model.skdp").predict_proba(X) == model.predict_proba(X)).all()
        for epsilon in (Rho(0.1, delta=1e-6), Mu(0.4, delta=1e-6)):
            assert make(epsilon).fit(X, ILL).guarantee_.rho <= 0.1 * (1 + 1e-9)
        with pytest.warns(PrivacyLeakWarning, match="classes="):
            read = make(classes=None).fit(X, ILL)
        assert set(privacy_statement(read).total.scope) == set(X.columns)

    def test_private_bounds_and_persons(self):
        model = gaussian(20.0, bounds="private", max_rows_per_person=3)
        model.fit(NUMBERS, ILL, groups=np.repeat(np.arange(N // 3), 3))
        assert model.bounds_.shape == (2, 2)
        assert (np.abs(model.bounds_[1]) <= 8).all()
        assert "discrete K-norm on sums by class, discrete Laplace on counts for bounds" in model.guarantee_.mechanism
        assert "up to 3 rows a person" in model.guarantee_.mechanism
        who = np.where(ILL == "yes", 0, np.arange(N) + 1)
        assert gaussian(1e5).fit(NUMBERS, ILL, groups=who).class_count_[1] == pytest.approx(1, abs=0.1)
        assert categorical(1e5).fit(WORDS, ILL, groups=who).class_count_[1] == pytest.approx(1, abs=0.1)


@each(
    "make X parameters y error message",
    [
        (gaussian, NUMBERS, {"bounds": None}, ILL, ValueError, "bounds must be declared"),
        (gaussian, NUMBERS, {"bounds": "private", "bounds_share": 0}, ILL, ValueError, "bounds_share"),
        (gaussian, NUMBERS.where(NUMBERS < 60), {}, ILL, ValueError, "column 'age' holds a missing value"),
        (gaussian, WORDS, {"bounds": (0, 1)}, ILL, TypeError, "column 'job'"),
        (gaussian, NUMBERS, {"classes": ["yes"]}, ILL, ValueError, "classes must be at least 2"),
        (gaussian, NUMBERS, {"classes": ["yes", "maybe"]}, ILL, ValueError, "one that classes does not declare"),
        (gaussian, NUMBERS, {"epsilon": Rho(0.1, delta=1e-6), "delta": 1e-6}, ILL, ValueError, "delta must be 0"),
        (gaussian, NUMBERS, {}, None, ValueError, "requires y to be passed"),
        (categorical, WORDS, {"categories": None}, ILL, ValueError, "job"),
        (categorical, WORDS, {"handle_unknown": "clip"}, ILL, ValueError, "handle_unknown must be one of"),
        (categorical, WORDS, {"delta": 1.0}, ILL, ValueError, "delta"),
        (categorical, WORDS, {}, ILL.where(ILL == "yes"), ValueError, "y holds a missing value"),
    ],
)
def test_mistakes_cost_nothing(make, X, parameters, y, error, message):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    model = make(ledger=ledger).set_params(**parameters)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    assert ledger.spent == (0, 0)
    assert not hasattr(model, "class_prior_")
