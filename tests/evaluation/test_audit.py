"""Audits: faults of published libraries are refuted, promises that are kept are not."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdp import (
    DPHistogram,
    DPLogisticRegression,
    DPMean,
    DPStandardScaler,
    Interval,
    NumericPerturber,
    PrivacyLedger,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)
from skdp.evaluation import audit_epsilon
from skdp.evaluation.audits._events import epsilon_lower_bound, find_bound, row_draws
from skdp.evaluation.audits._outputs import hash_column, read_rows
from skdp.local import (
    HeavyHitters,
    LocalHashingEncoder,
    LocalTableEncoder,
    PosteriorFeatures,
    RapporEncoder,
    SecretKey,
    SetValuedEncoder,
    SubsetSelectionEncoder,
)
from tests.conftest import each
from tests.evaluation import broken_transformers as broken
from tests.evaluation.broken_transformers import one

TWO = (one(0), one(1))
DRAWS = 60_000
NUMBERS = [pd.DataFrame({"a": [0.1, 0.2, 0.3, last]}) for last in (0.0, 1.0)]
CELLS = [pd.DataFrame({"a": [0, 0, 1, last]}) for last in (0, 1)]


def sound(epsilon=1.0, **parameters):
    return RandomizedResponseEncoder(epsilon, **{"categories": {"value": [0, 1]}} | parameters)


# What must be refuted


def test_three_percent_too_much_is_refuted():
    """The power is above .999999; the draws are seeded."""
    result = audit_epsilon(sound(1.03), epsilon=1.0, n_draws=1_000_000, random_state=0)
    assert 1.0 < result.epsilon_lower < 1.03
    assert 1_000_000 <= result.n_draws < 1_010_000


def ten_reports(fault):
    """Release each record ten times."""
    return FunctionTransformer(lambda rows: pd.concat([fault.transform(rows) for _ in range(10)], axis=1))


def with_supports(fault):
    """Release reports with two values that an attacker computes from the public seed."""

    def release(rows):
        reports = fault.transform(rows)
        return reports.join(fault.supports(reports).rename(columns=str))

    return FunctionTransformer(release)


FAULTS = [
    (broken.TrueValueFirst(), TWO, {}, broken.TrueValueFirst().exact() - 0.2),
    (ten_reports(broken.RedrawnReports()), TWO, {"epsilon": 1.0}, 3.0),
    (broken.NeverFlips(epsilon=4.0), TWO, {}, 6.0),
    (broken.KnownSeed().transform, TWO, {"epsilon": 1.0}, 2.0),  # by calls: rows of one call are independent
    (broken.FloatLaplace(), TWO, {}, 5.0),
    (with_supports(broken.InvertedBranch()), TWO, {"epsilon": 1.0}, 1.0),  # exact: 1.197
    (broken.MissingPassesThrough(), (one(1.0), one(math.nan)), {}, 6.0),
    (broken.RaisesOnUnknown(), (one(1), one(4)), {}, 2.0),
]


@pytest.mark.parametrize("faults", [FAULTS[::4], pytest.param(FAULTS, marks=pytest.mark.long)], ids=["some", "all"])
def test_each_published_fault_is_refuted(faults):
    for fault, neighbours, options, least in faults:
        result = audit_epsilon(fault, neighbours, n_draws=DRAWS, **options)
        assert result.rejected, fault
        assert result.epsilon_lower > max(least, result.epsilon_claimed), fault


def test_a_probability_that_rounds_to_one_is_refuted_by_the_exact_value():
    result = audit_epsilon(broken.RoundedToIdentity(), TWO, n_draws=10_000)
    assert result.rejected
    assert result.epsilon_exact == math.inf
    assert result.epsilon_lower < 40


@pytest.mark.long
@each(
    "estimator",
    [
        RandomizedResponseEncoder(categories=[[0, 1], ["a", "b"]]),
        RandomizedResponseEncoder(categories={"a": Interval(edges=[0, 1, 2])}, handle_unknown="uniform"),
        NumericPerturber(bounds=[(0, 1), (-1, 1)], grid_size=4),
    ],
)
def test_neighbours_are_made_from_what_is_declared(estimator):
    """Records at both ends of what is declared show most of epsilon; one end would show nothing."""
    result = audit_epsilon(estimator, n_draws=5_000, random_state=0)
    assert 0.1 < result.epsilon_lower < result.epsilon_claimed == 1.0


def test_undeclared_values_are_tried_where_they_are_taken():
    class Leaks(RandomizedResponseEncoder):
        def transform(self, X, record_id=None):
            released = super().transform(X)
            return released.where(X.isin(["a", "b"]), "unknown")

    kept = Leaks(1.0, categories={"value": ["a", "b"]}, handle_unknown="error")
    assert not audit_epsilon(kept, n_draws=5_000).rejected
    assert audit_epsilon(kept.set_params(handle_unknown="uniform"), n_draws=5_000).rejected


# What must not be refuted


COLUMNS = {"first": range(4), "second": ["yes", "no", None]}
WORDS = [pd.DataFrame({"word": [word]}) for word in ("a", "bbbb")]
SOUND = {
    "joint": (RandomizedResponseEncoder(categories=COLUMNS, strategy="joint", handle_unknown="uniform"), None),
    "subsets": (SubsetSelectionEncoder(categories=COLUMNS), None),
    "hashing": (LocalHashingEncoder(categories={"first": range(4)}), None),
    "square wave": (NumericPerturber(bounds={"number": (0, 1)}, mechanism="square_wave", grid_size=32), None),
    "table": (LocalTableEncoder(categories=COLUMNS, bounds={"number": (0, 1)}), None),
    "sets": (
        SetValuedEncoder(categories={"column": range(4)}, max_size=2),
        [pd.DataFrame({"column": [values]}) for values in ([], [0, 1])],
    ),
    "RAPPOR": (RapporEncoder(n_bits=8, n_cohorts=1), WORDS),
    "heavy hitters": (HeavyHitters(max_length=4), WORDS),
}


@pytest.mark.parametrize("name", SOUND)
def test_our_transformers_are_not_refuted(name):
    """Seeded, so the false alarm of 1e-6 is past. The contract of privatizers audits further ones."""
    transformer, neighbours = SOUND[name]
    result = audit_epsilon(clone(transformer).set_params(epsilon=1.0), neighbours, n_draws=1_000, random_state=1)
    assert not result.rejected
    if name in ("joint", "subsets", "hashing"):
        assert result.epsilon_exact == result.epsilon_claimed
    assert result.epsilon_exact is None or result.epsilon_exact <= result.epsilon_claimed * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "draws"), [(1.0, 60_000), pytest.param(0.3, 240_000, marks=pytest.mark.long)])
def test_the_bound_comes_near_a_claim_that_is_tight(epsilon, draws):
    """Seeded: three quarters are 8 and 4.8 standard deviations below the mean of the bound, and epsilon is 5 above."""
    result = audit_epsilon(sound(epsilon, categories={"value": [0, 1, 2]}), n_draws=draws, random_state=0)
    assert 0.75 * epsilon < result.epsilon_lower < epsilon == result.epsilon_exact


def test_permanent_reports_and_wrappers():
    result = audit_epsilon(sound(memoize=True, secret_key=SecretKey.generate()), n_draws=10_000)
    assert not result.rejected
    assert result.epsilon_lower > 0.4
    bits = UnaryEncodingTransformer(1.0, categories={"value": ["a", "b"]})
    neighbours = [pd.DataFrame({"value": [value]}) for value in ("a", "b")]
    assert not audit_epsilon(PosteriorFeatures(bits), neighbours, n_draws=500, random_state=0).rejected

    class Leaks(LocalTableEncoder):
        def transform(self, X):
            return super().transform(X).assign(a=list(X["a"]))

    encoder = Leaks(1.0, categories={"a": ["x", "y"]}, bounds={"u": (0, 1)})
    assert audit_epsilon(encoder, n_draws=600, random_state=0).rejected


def test_what_delta_allows_is_not_refuted():
    """The truth with probability 0.2, and otherwise randomized response: epsilon 1 with delta, and 1.3 without."""
    rng = np.random.default_rng(0)

    def release(rows):
        values = rows["value"].to_numpy()
        true = (rng.random(len(rows)) < 0.2) | (rng.random(len(rows)) < math.e / (math.e + 1))
        return pd.DataFrame({"value": np.where(true, values, 1 - values)})

    options = {"epsilon": 1.05, "n_draws": DRAWS}
    assert audit_epsilon(FunctionTransformer(release), TWO, **options).rejected
    assert not audit_epsilon(FunctionTransformer(release), TWO, delta=0.2, **options).rejected


class TestCurators:
    """What `fit` learns is audited, and a callable's result."""

    @each("estimator", [DPMean(bounds=(0, 1)), DPHistogram(domain={"a": [0, 1]})])
    def test_one_table_may_have_a_row_less(self, estimator):
        result = audit_epsilon(estimator, [CELLS[0], CELLS[0][:3]], n_draws=100, random_state=0)
        assert (result.epsilon_claimed, result.rejected) == (1.0, False)

    @pytest.mark.long
    def test_a_true_mean_is_refuted(self):
        class Exact(DPMean):
            def fit(self, X, y=None):
                super().fit(X, y)
                self.mean_ = np.asarray(X).mean(axis=0)
                return self

        assert audit_epsilon(Exact(bounds=(0, 1)), [CELLS[0], CELLS[0][:3]], n_draws=2_000, random_state=0).rejected
        scaler = audit_epsilon(DPStandardScaler(bounds=[[0, 1]], random_state=0), NUMBERS, n_draws=100)
        assert (scaler.rejected, scaler.epsilon_claimed) == (False, 2.0)

    def test_advice_is_given_where_the_claim_is_not_known(self):
        with pytest.raises(TypeError, match="neighbours are required for DPStandardScaler"):
            audit_epsilon(DPStandardScaler(bounds=[[0, 1]]), n_draws=5_000)
        with pytest.raises(TypeError, match="Pipeline has no guarantee_"):
            audit_epsilon(make_pipeline(DPStandardScaler(bounds=[[0, 1]])), NUMBERS)


# The rest of the contract


def test_nothing_is_charged_and_nothing_is_changed():
    ledger = PrivacyLedger(epsilon=1.0)
    frame = pd.DataFrame({"value": [0, 1]})
    encoder, untouched = (sound(ledger=each, random_state=0).fit(frame) for each in (ledger, None))
    other = sound(random_state=0).fit(frame)
    for arguments in ((encoder,), (encoder, TWO), (other, TWO)):
        audit_epsilon(*arguments, n_draws=200)
    expected = untouched.transform(frame)
    pd.testing.assert_frame_equal(other.transform(frame), expected)
    assert ledger.spent.epsilon == 0
    assert encoder.ledger is ledger
    pd.testing.assert_frame_equal(encoder.transform(frame), expected)


@each(
    "release",
    [
        lambda rows: rows,
        lambda rows: [rows, rows["word"].tolist()],
        lambda rows: pd.concat([rows, rows]),
        lambda rows: rows["word"],
        lambda rows: rows.rename(columns={"word": rows["word"].iloc[0]}),
        lambda rows: {rows["word"].iloc[0]: 1},
        lambda rows: pd.DataFrame({"nested": [[rows["word"].iloc[0]]]}),
    ],
)
def test_the_result_shows_no_value(release):
    tables = [pd.DataFrame({"word": [word]}) for word in ("hunter2", "other")]
    result = audit_epsilon(release, tables, epsilon=1.0, n_draws=250)
    assert result.rejected
    assert "hunter2" not in repr(result)
    assert "other" not in repr(result)


@each(
    "arguments options error match",
    [
        ((len,), {}, ValueError, "neighbours are required"),
        ((len, TWO), {"epsilon": None}, ValueError, "epsilon is required"),
        ((len, TWO[:1]), {}, ValueError, "at least two tables"),
        ((len, TWO), {"random_state": 0}, ValueError, "random_state requires an estimator"),
        ((len, TWO), {"n_draws": 99}, ValueError, "n_draws must be at least 100, got 99"),
        ((len, "ab"), {}, TypeError, "neighbours must be a list of tables, got str"),
        ((RandomizedResponseEncoder,), {}, TypeError, "got the class RandomizedResponseEncoder"),
        ((sound(), [TWO[0].iloc[[0, 0]], TWO[1].iloc[[0, 0]]]), {}, ValueError, "tables that differ in 2"),
        ((sound(), [TWO[0], TWO[1].iloc[[0, 0]]]), {}, ValueError, "the same numbers of rows"),
        ((RandomizedResponseEncoder(),), {}, ValueError, "estimator without declared values"),
        ((lambda rows: rows["absent"], TWO), {}, ValueError, r"every release .* failed \(KeyError\)"),
    ],
)
def test_mistakes_are_named(arguments, options, error, match):
    with pytest.raises(error, match=match):
        audit_epsilon(*arguments, **{"epsilon": 1.0} | options)


def test_tables_that_differ_in_public_columns_are_no_neighbours():
    people = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    model = DPLogisticRegression(1.0, protect="target", classes=[0, 1])
    other = people.assign(x=[0.0, 1.0, 2.0, 9.0])
    for neighbour in (other, people.iloc[:3]):
        with pytest.raises(ValueError, match="neighbours must differ in the values of one record in the columns"):
            audit_epsilon(model, neighbours=(people, neighbour), n_draws=200)
    relabelled = people.assign(y=[0, 1, 0, 0])
    assert audit_epsilon(model, neighbours=(people, relabelled), n_draws=200).epsilon_lower <= 1.0


class TestBound:
    @pytest.mark.long
    @each("delta", [0.0, 0.05])
    @each("one_share", [0.3, 0.9])
    @each("other_share", [0.02, 0.25])
    def test_it_exceeds_epsilon_as_rarely_as_stated(self, one_share, other_share, delta):
        """Enumerated: all pairs of counts of 12 and 18 draws."""
        level, trials = 0.1, (12, 18)
        epsilon = math.log((one_share - delta) / other_share)
        wrong = 0.0
        for a in range(trials[0] + 1):
            for b in range(trials[1] + 1):
                if epsilon_lower_bound((a, b), trials, delta=delta, level=level) > max(epsilon, 0.0):
                    wrong += binom.pmf(a, trials[0], one_share) * binom.pmf(b, trials[1], other_share)
        assert wrong <= level

    def test_both_probabilities_have_half_of_the_level(self):
        low, high = beta.ppf(0.05, 9, 2), beta.isf(0.05, 2, 9)
        bound = epsilon_lower_bound((9, 1), (10, 10), delta=0.1, level=0.1)
        assert bound == pytest.approx(math.log((low - 0.1) / high))

    def test_no_event_that_luck_has_chosen_raises_the_level(self):
        """Of 80 audits of 64 x 4 outcomes without any signal, no more may reject than level .2 explains (1e-6).

        A true level of .6 is noticed with a probability of .999."""
        runs, level, rng = 80, 0.2, np.random.default_rng(5)

        def release(table):
            return pd.DataFrame({"value": rng.integers(0, 64, len(table)), "other": rng.integers(0, 4, len(table))})

        draw = row_draws(release, TWO)
        rejected = sum(find_bound(draw, 2, 2_000, delta=0.0, level=level).lower > 0 for _ in range(runs))
        assert rejected <= binom.isf(1e-6, runs, level)


class TestOutputs:
    def test_equal_values_have_equal_hashes(self):
        assert hash_column(np.array([math.nan, 0.5])).tolist() == hash_column(np.array([-math.nan, 0.5])).tolist()
        words = hash_column(np.array(["a", "b"], object))
        assert (words == hash_column(np.array(["a", "b", None], object))[:2]).all()
        assert len(np.unique(hash_column(np.array(["1", 1, -0.0, 0, 0.5, None, (1,)], object)))) == 7

    def test_lists_in_cells_keep_their_order(self):
        columns = read_rows(lambda: pd.DataFrame({"a": [[1, 2], [2, 1, 3]]}), 2)
        assert columns["column 'a', item 0"].tolist() == [1, 2]
        assert columns["column 'a', item 2"].tolist() == [None, 3]
