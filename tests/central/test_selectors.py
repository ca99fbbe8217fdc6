"""Selected columns: sensitivities by brute force, what is spent, and how often the right columns are found."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.feature_selection import SelectKBest, VarianceThreshold, chi2, f_classif, f_regression
from sklearn.pipeline import make_pipeline

from skdp import (
    DPLinearRegression,
    DPSelectKBest,
    DPVarianceThreshold,
    PrivacyLedger,
    privacy_statement,
)
from skdp.central import _select_k_best
from skdp.central._select_k_best import _CHOICES, _COUNTS, _MOMENTS, _SCORES, NUMBERS, Contrasts
from skdp.central.statistics import UNIT, Rows, _rows
from skdp.privacy import Mu, Rho, read_share
from skdp.testing import check_sensitivity
from tests.conftest import each

rng = np.random.default_rng(0)
GRID = np.array(list(itertools.product([-1.0, -0.3, 1.0], [-1.0, 0.7, 1.0], [0, 1, 2])))


class TestSensitivity:
    @pytest.mark.parametrize(("counts", "copies"), [((3.0, 3.0, 3.0), 2), ((1_000.0, 40.0, 2.0), 1)])
    def test_a_row_changes_no_score_by_more_than_is_paid_for(self, counts, copies, monkeypatch):
        monkeypatch.setattr(_rows, "_BLOCK", 7)  # a row in front moves all others to another place of a block

        def scores(values):
            rows = Rows.of(list(values[:, :2].T), np.tile([-1.0, 1.0], (2, 1)), np.zeros(2), values[:, 2])
            target = Contrasts.of_classes(np.array(counts))
            return np.array(target.scores(rows), object), target.square

        values = np.tile(GRID[GRID[:, 2] > 0] if counts[0] > 3 else GRID, (copies, 1))
        whole, square = scores(values)
        bound = Fraction(UNIT**2 * square)
        largest = 0
        for place in range(len(values)):
            fewer, _ = scores(np.delete(values, place, axis=0))
            assert (max(abs(whole - fewer)) - 1) ** 2 <= bound  # the floor of a root may change by one more
            largest = max(largest, *abs(whole - fewer))
        assert largest**2 > 0.5 * bound

    def test_scores_of_numbers_change_by_a_row_at_most(self):
        values = np.array(list(itertools.product([-1.0, 0.3, 1.0], repeat=2)))
        ends = np.array([[-1.0, 1.0]])

        def score(part):
            target = Rows.of([part[:, 1]], ends, np.zeros(1), np.zeros(len(part)))
            return NUMBERS.scores(Rows.of([part[:, 0]], ends, np.zeros(1), target.places[:, 0]))[0]

        square = NUMBERS.square
        changes = [abs(score(values) - score(np.delete(values, place, axis=0))) for place in range(len(values))]
        assert 0.99 * UNIT**2 * square < max(changes) ** 2
        assert (max(changes) - 1) ** 2 <= UNIT**2 * square


COLUMNS = rng.normal(size=(3_000, 12))
CLASSES = rng.integers(0, 3, 3_000)
COLUMNS[:, [2, 5, 7]] += CLASSES[:, np.newaxis] * [0.5, 0.8, 0.3]
TABLE = pd.DataFrame(COLUMNS.clip(-5, 5), columns=[f"c{place}" for place in range(12)])
TARGET = pd.Series(TABLE["c1"] * 2 - TABLE["c4"] + rng.normal(size=3_000), name="y")
DECLARED = {"bounds": (-5, 5), "classes": [0, 1, 2], "random_state": 0}
NUMBER = {"bounds": (-5, 5), "target_bounds": (-15, 15), "random_state": 0}


def test_where_noise_is_small_a_number_of_rows_of_a_class_is_hidden_too():
    """With large noise the numbers are replaced by its error, and do not show in the contract."""
    table = pd.DataFrame({"a": np.linspace(0, 1, 12), "b": np.arange(12) % 3 / 2, "y": np.arange(12) % 2})
    check_sensitivity(DPSelectKBest(1, epsilon=300.0, bounds=(0, 1), classes=[0, 1]), table, [table[:-1]])


@pytest.mark.parametrize("epsilon", [0.7, Rho(0.1, delta=1e-6), Mu(0.3, delta=1e-6)])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_draws_spend_what_is_given(epsilon, rows, monkeypatch):
    asked = []

    def record(name):
        whole = getattr(_select_k_best, name)
        monkeypatch.setattr(_select_k_best, name, lambda *given: asked.append((name, given)) or whole(*given))

    for name in ("integer_noise", "joint_noise", "choose"):
        record(name)
    DPSelectKBest(4, epsilon=epsilon, **DECLARED, max_rows_per_person=rows).fit(TABLE, CLASSES)
    shares = [given[2] if name == "choose" else given[0] for name, given in asked]
    given = read_share(epsilon)
    assert all((share.kind, share.rows) == (given.kind, rows) for share in shares)
    parts = [share.amount / given.amount for share in shares]
    assert parts == [_MOMENTS, _COUNTS, *[_CHOICES / 4] * 4, _SCORES]
    assert sum(parts) == 1
    (moments, counts), (last,) = asked[:2], asked[-1:]
    assert moments[1][1:] == (1 << 29, 1 + 2 * 12)
    assert counts[1][1:] == ()
    (twice,) = {given[3] for name, given in asked if name == "choose"}
    assert last[1][1:] == (4 * twice // 2, 4 * (twice // 2) ** 2)
    assert [len(given[1]) for name, given in asked if name == "choose"] == [12, 11, 10, 9]


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_with_little_noise_it_is_that_of_scikit_learn(delta):
    wanted = SelectKBest(f_classif, k=3).fit(TABLE, CLASSES)
    found = DPSelectKBest(3, epsilon=200.0, delta=delta, **DECLARED).fit(TABLE, CLASSES)
    assert (found.get_support() == wanted.get_support()).all()
    ratios = np.sqrt(2 * wanted.scores_ / (2 * wanted.scores_ + 2_997))  # of F with 2 and 2,997 degrees of freedom
    chosen = found.get_support()
    assert np.allclose(found.scores_[chosen], ratios[chosen], atol=0.02)
    assert np.isnan(found.scores_[~chosen]).all()
    assert found.ranking_.tolist() == [5, 2, 7]
    wanted = SelectKBest(f_regression, k=2).fit(TABLE, TARGET)
    found = DPSelectKBest(2, epsilon=200.0, delta=delta, **NUMBER).fit(TABLE, TARGET)
    assert (found.get_support() == wanted.get_support()).all()
    correlations = np.abs([np.corrcoef(TABLE[name], TARGET)[0, 1] for name in ("c1", "c4")])
    assert np.allclose(found.scores_[[1, 4]], correlations, atol=0.03)  # clipped


def test_indicators_are_ranked_as_by_chi_squared():
    y = rng.integers(0, 2, 4_000)
    X = pd.DataFrame({f"b{place}": rng.random(4_000) < 0.5 + 0.08 * place * (y - 0.5) for place in range(6)})
    wanted = chi2(X, y)[0].argsort()[::-1][:4]
    found = DPSelectKBest(4, epsilon=1e4, bounds=(0, 1), classes=[0, 1], random_state=0).fit(X, y)
    assert found.ranking_.tolist() == wanted.tolist()


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, None), (1.0, 1e-6)])
def test_the_right_columns_are_found(epsilon, delta):
    wide = np.hstack([TABLE, rng.normal(size=(3_000, 20)).clip(-5, 5)])
    found = [
        DPSelectKBest(2, epsilon=epsilon, delta=delta, **DECLARED | {"random_state": seed}).fit(wide, CLASSES)
        for seed in range(2)
    ]
    assert all(one.ranking_.tolist() in ([5, 2], [2, 5]) for one in found)


def test_bounds_that_are_too_wide_cost_little():
    ends = [(-5, 5) if place % 2 else (-15, 15) for place in range(12)]
    found = [
        DPSelectKBest(2, epsilon=2.0, delta=1e-6, bounds=ends, classes=[0, 1, 2], random_state=seed).fit(TABLE, CLASSES)
        for seed in range(2)
    ]
    assert all(set(one.ranking_) == {2, 5} for one in found)


def test_columns_are_passed_on_as_they_are():
    selector = DPSelectKBest(2, epsilon=50.0, **DECLARED).fit(TABLE, CLASSES)
    assert selector.transform(TABLE).equals(TABLE[["c2", "c5"]])
    assert selector.transform(pl.DataFrame(TABLE)).equals(pl.DataFrame(TABLE)[["c2", "c5"]])
    assert list(selector.get_feature_names_out()) == ["c2", "c5"]
    assert selector.inverse_transform(TABLE[["c2", "c5"]])[:, 5].tolist() == TABLE["c5"].tolist()
    assert DPSelectKBest(40, **DECLARED).fit(TABLE, CLASSES).get_support().all()


def test_rows_of_a_person_beyond_the_limit_are_left_out():
    persons = np.repeat(np.arange(1_000), 3)
    first = np.arange(3_000) % 3 == 0
    limited = DPSelectKBest(2, epsilon=2.0, **DECLARED).fit(TABLE, CLASSES, groups=persons)
    assert limited.guarantee_.mechanism == "discrete K-norm on sums, permute-and-flip"
    wanted = DPSelectKBest(2, epsilon=2.0, **DECLARED, max_rows_per_person=2).fit(TABLE, CLASSES, groups=persons)
    assert wanted.guarantee_.mechanism.endswith("up to 2 rows a person")
    of_others = DPSelectKBest(2, epsilon=2.0, **DECLARED).fit(TABLE[~first], CLASSES[~first]).scores_std_error_
    assert np.nanmax(wanted.scores_std_error_) > 1.5 * np.nanmax(of_others)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1.0, Mu(0.4, delta=1e-6)])
@each("target", [{"classes": [0, 1]}, {"target_bounds": (-6, 6)}])
def test_the_error_of_a_score_is_that_of_its_noise(epsilon, target):
    """That of the deviations, and of the number of rows, included."""
    rows = np.random.default_rng(0).normal(size=(1_000, 3)).clip(-3, 3)
    y = rows @ [2.0, 1.0, 0.0] + np.random.default_rng(1).normal(size=1_000)
    y = (y > 0).astype(int) if "classes" in target else y
    found = [
        DPSelectKBest(2, epsilon=epsilon, bounds=(-3, 3), random_state=seed, **target).fit(rows, y)
        for seed in range(80)
    ]
    scores, stated = (np.array([getattr(one, name)[:2] for one in found]) for name in ("scores_", "scores_std_error_"))
    ratios = scores.std(axis=0) / stated.mean(axis=0)
    assert ((ratios > 0.75) & (ratios < 1.25)).all(), ratios


@each(
    "parameters, y, error, message",
    [
        ({"bounds": None}, CLASSES, ValueError, "bounds must be declared"),
        ({"classes": None}, CLASSES, ValueError, "either classes or target_bounds"),
        ({"target_bounds": (0, 2)}, CLASSES, ValueError, "either classes or target_bounds"),
        ({"classes": [0, 1]}, CLASSES, ValueError, "one that classes does not declare"),
        ({"classes": [0]}, CLASSES, ValueError, "classes must be at least 2"),
        ({"k": 0}, CLASSES, ValueError, "k must be"),
        ({"k": 1.5}, CLASSES, TypeError, "k must be"),
        ({"delta": 2}, CLASSES, ValueError, "delta"),
        ({"epsilon": Rho(0.1, delta=1e-6), "delta": 1e-6}, CLASSES, ValueError, "delta must be 0"),
        ({}, CLASSES[:-1], ValueError, "y has 2999 rows; X has 3000"),
        ({}, None, ValueError, "requires y"),
    ],
)
def test_mistakes_cost_nothing(parameters, y, error, message):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    selector = DPSelectKBest(**{**DECLARED, "ledger": ledger} | parameters)
    with pytest.raises(error, match=message):
        selector.fit(TABLE, y)
    assert ledger.spent == (0, 0)
    assert not hasattr(selector, "scores_")


def test_too_few_rows_are_warned_of():
    with pytest.warns(UserWarning, match="too few rows for this epsilon"):
        DPSelectKBest(2, epsilon=0.1, **DECLARED).fit(TABLE[:20], CLASSES[:20])


def test_a_pipeline_states_one_total_for_columns_and_target():
    pipe = make_pipeline(DPSelectKBest(2, **DECLARED), DPLinearRegression(bounds=(-5, 5), target_bounds=(0, 2)))
    total = privacy_statement(pipe.fit(TABLE, CLASSES)).total
    assert {"c0", "c11", "target"} <= set(total.scope)
    assert total.epsilon == pytest.approx(2)


class TestVarianceThreshold:
    X = np.column_stack([rng.normal(size=(3_000, 2)) * [1, 3], np.full(3_000, 2.0)]).clip(-10, 10)

    @pytest.mark.parametrize("threshold", [0.0, 4.0])
    def test_it_keeps_the_columns_of_scikit_learn(self, threshold):
        wanted = VarianceThreshold(threshold).fit(self.X)
        found = DPVarianceThreshold(threshold, epsilon=5.0, bounds=(-10, 10), random_state=0).fit(self.X)
        assert (found.get_support() == wanted.get_support()).all()
        assert np.allclose(found.variances_[:2], wanted.variances_[:2], rtol=0.1)

    def test_a_lazy_frame_gives_the_same(self):
        wanted = DPVarianceThreshold(epsilon=1.0, bounds=(-10, 10), random_state=0).fit(self.X)
        lazy = pl.LazyFrame(self.X, schema=["a", "b", "c"])
        found = DPVarianceThreshold(epsilon=1.0, bounds=(-10, 10), random_state=0).fit(lazy)
        assert (found.variances_ == wanted.variances_).all()

    def test_a_constant_column_is_left_out(self):
        kept = [DPVarianceThreshold(epsilon=1.0, bounds=(-10, 10)).fit(self.X).get_support() for _ in range(20)]
        assert np.mean(kept, axis=0)[2] < 0.3
        assert np.all(kept, axis=0)[:2].all()

    def test_columns_that_the_noise_hides_are_kept_and_warned_of(self):
        selector = DPVarianceThreshold(epsilon=0.01, bounds=(-10, 10), random_state=0)
        with pytest.warns(UserWarning, match="the noise drowns the variance"):
            assert selector.fit(self.X[:50]).get_support().all()

    def test_a_column_is_left_in_any_case(self):
        selector = DPVarianceThreshold(99.0, epsilon=5.0, bounds=(-10, 10), random_state=0).fit(self.X)
        assert selector.get_support(indices=True).tolist() == [1]

    @each("threshold", [-1.0, np.nan, np.inf, "1", True])
    def test_mistakes_cost_nothing(self, threshold):
        ledger = PrivacyLedger(epsilon=10)
        with pytest.raises((TypeError, ValueError), match="threshold must be a"):
            DPVarianceThreshold(threshold, bounds=(0, 1), ledger=ledger).fit(self.X)
        assert ledger.spent == (0, 0)
