"""Audits refute faults of published libraries, and do not refute correct guarantees."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdp
from skdp.evaluation import audit_epsilon
from tests.conftest import often, quick_first
from tests.evaluation import broken_transformers as broken
from tests.evaluation.broken_transformers import one

TWO = (one(0), one(1))
DRAWS = 60_000
NUMBERS = [pd.DataFrame({"a": [0.1, 0.2, 0.3, last]}) for last in (0.0, 1.0)]
CELLS = [pd.DataFrame({"a": [0, 0, 1, last]}) for last in (0, 1)]


def sound(epsilon=1.0, **parameters):
    return skdp.RandomizedResponseEncoder(epsilon, **{"categories": {"value": [0, 1]}} | parameters)


# Faults.


def ten_reports(fault):
    """Release each record ten times."""
    return FunctionTransformer(lambda rows: pd.concat([fault.transform(rows) for _ in range(10)], axis=1))


FAULTS = [
    (broken.TrueValueFirst(), TWO, {}, 2.4),  # exact: 2.65
    (ten_reports(broken.RedrawnReports()), TWO, {"epsilon": 1.0}, 3.0),
    (broken.KnownSeed().transform, TWO, {"epsilon": 1.0}, 2.0),  # by calls: rows of one call are independent
    (broken.MissingPassesThrough(), (one(1.0), one(math.nan)), {}, 6.0),
]


@pytest.mark.parametrize("faults", [FAULTS[::4], pytest.param(FAULTS, marks=pytest.mark.long)], ids=["some", "all"])
def test_published_faults_are_refuted(faults):
    for fault, neighbors, options, smallest in faults:
        result = audit_epsilon(fault, neighbors, n_draws=DRAWS, **options)
        assert result.rejected, fault
        assert result.epsilon_lower > max(smallest, result.epsilon_claimed), fault


def test_probability_rounded_to_1_is_refuted_by_the_exact_channel():
    result = audit_epsilon(broken.RoundedToIdentity(), TWO, n_draws=10_000)
    assert result.rejected
    assert result.epsilon_exact == math.inf
    assert result.epsilon_lower < 40


class ThreeTimesEpsilonOfPairs(skdp.RandomizedResponseEncoder):
    """Spends three times epsilon on a column of two values."""

    def _make_oracle(self, k, epsilon):
        return super()._make_oracle(k, epsilon * (3 if k == 2 else 1))


def test_exact_epsilon_of_a_record_that_reports_one_column_is_the_largest_of_all_columns():
    encoder = ThreeTimesEpsilonOfPairs(0.5, categories={"a": range(3), "b": [0, 1]}, strategy="sample")
    result = audit_epsilon(encoder, epsilon=0.5, n_draws=1_000, random_state=0)
    assert result.epsilon_exact == pytest.approx(1.5)
    assert result.rejected


@pytest.mark.long
@pytest.mark.parametrize(
    "estimator",
    [
        skdp.RandomizedResponseEncoder(categories=[[0, 1], ["a", "b"]]),
        skdp.RandomizedResponseEncoder(categories={"a": skdp.Interval(edges=[0, 1, 2])}, handle_unknown="uniform"),
        skdp.NumericPerturber(bounds=[(0, 1), (-1, 1)], grid_size=4),
    ],
)
def test_neighbors_are_declared_values(estimator):
    """The true loss is near epsilon between the bounds of the domain, and zero for equal records."""
    result = audit_epsilon(estimator, n_draws=5_000, random_state=0)
    assert 0.1 < result.epsilon_lower < result.epsilon_claimed == 1.0


def test_unknown_values_are_audited_if_they_are_accepted():
    class Leaks(skdp.RandomizedResponseEncoder):
        def transform(self, X, person=None):
            released = super().transform(X)
            return released.where(X.isin(["a", "b"]), "unknown")

    kept = Leaks(1.0, categories={"value": ["a", "b"]}, handle_unknown="error")
    assert not audit_epsilon(kept, n_draws=5_000).rejected
    assert audit_epsilon(kept.set_params(handle_unknown="uniform"), n_draws=5_000).rejected


def test_numbers_outside_the_bounds_are_audited():
    class Unclipped(skdp.NumericPerturber):
        def transform(self, X):
            released = super().transform(X)
            return released.where(X <= 1, 9.0)

    assert audit_epsilon(Unclipped(bounds=[(0, 1)]), n_draws=5_000, random_state=0).rejected


TEN = list("abcdefghij")


def never_noised(value, categories=None):
    """Return an encoder that reports one value of the column "value" truthfully."""

    class NeverNoised(skdp.RandomizedResponseEncoder):
        def transform(self, X):
            released = super().transform(X)
            is_kept = (X["value"] == value).to_numpy()
            return released.assign(value=released["value"].where(~is_kept, value))

    return NeverNoised(1.0, categories=categories or {"value": TEN})


@pytest.mark.parametrize("value", often(TEN, ["a", "d", "j"]))
def test_audit_tries_each_of_ten_values(value):
    """Before, six values were audited, without the fourth."""
    assert audit_epsilon(never_noised(value), n_draws=20_000, random_state=0).rejected


@pytest.mark.parametrize(
    "columns",
    quick_first(
        1,
        [
            {"value": TEN, "other": list("xy")},
            {"other": list("xyz"), "value": TEN},
            {"value": [*TEN, None]},
            {"value": [*TEN, *map(str, range(40))]},
        ],
    ),
)
def test_audit_tries_each_value_beside_other_columns(columns):
    assert audit_epsilon(never_noised("d", columns), n_draws=60_000, random_state=0).rejected


@pytest.mark.long
def test_warning_of_the_audit_names_the_number_of_tried_values():
    encoder = sound(categories={"value": range(200), "other": [0, 1]})
    with pytest.warns(UserWarning, match=r"Column 'value' has 200 declared values, of which the audit tries 50"):
        assert not audit_epsilon(encoder, n_draws=20_000, random_state=0).rejected


# Correct transformers.


COLUMNS = {"first": range(4), "second": ["yes", "no", None]}
WORDS = [pd.DataFrame({"word": [word]}) for word in ("a", "bbbb")]
SOUND = {
    "joint": (skdp.RandomizedResponseEncoder(categories=COLUMNS, strategy="joint", handle_unknown="uniform"), None),
    "subsets": (skdp.SubsetSelectionEncoder(categories=COLUMNS), None),
    "hashing": (skdp.LocalHashingEncoder(categories={"first": range(4)}), None),
    "square wave": (skdp.NumericPerturber(bounds={"number": (0, 1)}, mechanism="square_wave", grid_size=32), None),
    "table": (skdp.LocalTableEncoder(categories=COLUMNS, bounds={"number": (0, 1)}), None),
    "sets": (
        skdp.SetValuedEncoder(categories={"column": range(4)}, max_size=2),
        [pd.DataFrame({"column": [values]}) for values in ([], [0, 1])],
    ),
    "RAPPOR": (skdp.RapporEncoder(n_bits=8, n_cohorts=1), WORDS),
    "heavy hitters": (skdp.HeavyHitters(max_length=4), WORDS),
}


@pytest.mark.parametrize("name", SOUND)
def test_transformers_of_skdp_are_not_refuted(name):
    """Seeded, so the false alarm of 1e-6 cannot occur. The contract of privatizers audits further transformers."""
    transformer, neighbors = SOUND[name]
    result = audit_epsilon(clone(transformer).set_params(epsilon=1.0), neighbors, n_draws=1_000, random_state=1)
    assert not result.rejected
    if name in ("joint", "subsets", "hashing"):
        assert result.epsilon_exact == result.epsilon_claimed
    assert result.epsilon_exact is None or result.epsilon_exact <= result.epsilon_claimed * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "draws"), [(1.0, 60_000), pytest.param(0.3, 240_000, marks=pytest.mark.long)])
def test_bound_is_close_to_a_tight_epsilon(epsilon, draws):
    """Seeded: three quarters are 8 and 4.8 standard deviations below the mean of the bound, and epsilon is 5 above."""
    result = audit_epsilon(sound(epsilon, categories={"value": [0, 1, 2]}), n_draws=draws, random_state=0)
    assert 0.75 * epsilon < result.epsilon_lower < epsilon == result.epsilon_exact


def test_wrappers_are_audited():
    bits = skdp.UnaryEncodingTransformer(1.0, categories={"value": ["a", "b"]})
    neighbors = [pd.DataFrame({"value": [value]}) for value in ("a", "b")]
    assert not audit_epsilon(skdp.PosteriorFeatures(bits), neighbors, n_draws=500, random_state=0).rejected

    class Leaks(skdp.LocalTableEncoder):
        def transform(self, X):
            return super().transform(X).assign(a=list(X["a"]))

    encoder = Leaks(1.0, categories={"a": ["x", "y"]}, bounds={"u": (0, 1)})
    assert audit_epsilon(encoder, n_draws=600, random_state=0).rejected


def test_loss_within_delta_is_not_refuted():
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
    """The result of a function that fits an estimator of the central model is audited."""

    @pytest.mark.parametrize(
        ("estimator", "attribute"),
        quick_first(1, [(skdp.DPHistogram(domain={"a": [0, 1]}), "counts_"), (skdp.DPMean(bounds=(0, 1)), "mean_")]),
    )
    def test_neighbor_may_lack_a_row(self, estimator, attribute):
        def release(table):
            return getattr(clone(estimator).fit(table), attribute)

        assert not audit_epsilon(release, [CELLS[0], CELLS[0][:3]], epsilon=1.0, n_draws=100).rejected
        exact = audit_epsilon(lambda table: table.mean(), [CELLS[0], CELLS[0][:3]], epsilon=1.0, n_draws=300)
        assert exact.rejected

    @pytest.mark.parametrize("estimator", [skdp.DPStandardScaler(bounds=[[0, 1]]), skdp.DPMean(bounds=(0, 1))])
    def test_estimator_itself_raises_an_error_with_advice(self, estimator):
        with pytest.raises(TypeError, match=f"got {type(estimator).__name__}. Use skdp.testing.check_curator"):
            audit_epsilon(estimator, NUMBERS, n_draws=5_000)
        with pytest.raises(TypeError, match="must be a local transformer or a function, got Pipeline"):
            audit_epsilon(make_pipeline(estimator), NUMBERS)


# Other parts of the contract.


def test_audit_neither_charges_nor_changes_the_estimator():
    ledger = skdp.PrivacyLedger(epsilon=1.0)
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


@pytest.mark.parametrize(
    "release",
    quick_first(
        4,
        [
            lambda rows: [rows, rows["word"].tolist()],
            lambda rows: rows.rename(columns={"word": rows["word"].iloc[0]}),
            lambda rows: {rows["word"].iloc[0]: 1},
            lambda rows: pd.DataFrame({"nested": [[rows["word"].iloc[0]]]}),
            lambda rows: rows,
            lambda rows: pd.concat([rows, rows]),
            lambda rows: rows["word"],
        ],
    ),
)
def test_result_contains_no_value(release):
    tables = [pd.DataFrame({"word": [word]}) for word in ("hunter2", "other")]
    result = audit_epsilon(release, tables, epsilon=1.0, n_draws=200)
    assert result.rejected
    assert "hunter2" not in repr(result)
    assert "other" not in repr(result)


@pytest.mark.parametrize(
    "put",
    quick_first(2, [np.array, lambda value: [{value}], lambda value: {value}, lambda value: frozenset([value, 2])]),
)
def test_sets_and_arrays_without_dimension_are_audited(put):
    result = audit_epsilon(lambda rows: put(int(rows["value"].iloc[0])), TWO, epsilon=1.0, n_draws=500)
    assert result.rejected


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((len,), {}, ValueError, "`neighbors` are required"),
        ((len, TWO), {"epsilon": None}, ValueError, "`epsilon` is required"),
        ((len, TWO[:1]), {}, ValueError, "at least two tables"),
        ((len, TWO), {"random_state": 0}, ValueError, "`random_state` must be None for a callable"),
        ((len, TWO), {"n_draws": 99}, ValueError, "`n_draws` must be at least 100, got 99"),
        ((len, "ab"), {}, TypeError, "`neighbors` must be a list of tables, got str"),
        ((skdp.RandomizedResponseEncoder,), {}, TypeError, "got the class RandomizedResponseEncoder"),
        ((sound(), [TWO[0], TWO[1].iloc[[0, 0]]]), {}, ValueError, "must have one row each for a transformer"),
        ((skdp.RandomizedResponseEncoder(),), {}, ValueError, "estimator without declared values"),
        ((broken.RaisesOnUnknown(), (one(1), one(4))), {}, ValueError, "not declared"),
    ],
)
def test_invalid_arguments_raise_an_error(arguments, options, error, match):
    with pytest.raises(error, match=match):
        audit_epsilon(*arguments, **{"epsilon": 1.0} | options)


class TestBound:
    @pytest.mark.parametrize("delta", [0.0, 0.1])
    def test_both_probabilities_have_half_of_the_level(self, delta):
        """Clopper and Pearson, for 350 hits in 350 draws and none in 350; 300 other draws choose the event."""
        result = audit_epsilon(FunctionTransformer(lambda rows: rows), TWO, epsilon=1.0, delta=delta, n_draws=1_000)
        assert result.n_draws == 1_000
        low = (1e-6 / 2) ** (1 / 350)
        assert result.epsilon_lower == pytest.approx(math.log((low - delta) / (1 - low)))

    def test_event_is_chosen_and_counted_in_separate_draws(self):
        """On the draws of the choice, the likelier half of 256 outcomes exceeds a level of 1e-6 each time."""
        rng = np.random.default_rng(5)
        release = FunctionTransformer(lambda table: pd.DataFrame({"a": rng.integers(0, 256, len(table))}))
        for _ in range(20):
            assert audit_epsilon(release, TWO, epsilon=1.0, n_draws=20_000).epsilon_lower == 0


UNLIKE = [("1", 1), (0.0, -0.0), (None, "None"), ((1,), 1), ([1], [1, 2]), ([1, 2], [2, 1])]


@pytest.mark.parametrize(("values", "is_refuted"), [((math.nan, -math.nan), False), *((pair, True) for pair in UNLIKE)])
def test_outputs_are_compared_by_their_values(values, is_refuted):
    def release(rows):
        cells = np.empty(len(rows), object)
        cells[:] = [values[code] for code in rows["value"]]
        return pd.DataFrame({"value": pd.Series(cells).infer_objects()})

    result = audit_epsilon(FunctionTransformer(release), TWO, epsilon=1.0, n_draws=500)
    assert result.rejected == is_refuted


def test_loss_beyond_delta_is_refuted_beside_a_failure_within_delta():
    """The truth with probability 0.2, which no other value has, and otherwise randomized response with epsilon 3."""
    rng = np.random.default_rng(0)

    def release(rows):
        values = rows["value"].to_numpy()
        revealed = np.where(rng.random(len(rows)) < 0.2, 2 + values, values)
        is_false = rng.random(len(rows)) < 1 / (1 + math.e**3)
        return pd.DataFrame({"value": np.where((revealed < 2) & is_false, 1 - values, revealed)})

    assert audit_epsilon(FunctionTransformer(release), TWO, epsilon=1.0, delta=0.2, n_draws=DRAWS).rejected
