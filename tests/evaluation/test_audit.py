import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom
from sklearn.pipeline import make_pipeline

from skdp import (
    Domain,
    DPHistogram,
    DPMarginalSynthesizer,
    DPMean,
    DPStandardScaler,
    NumericPerturber,
    PrivacyGuarantee,
    PrivacyLedger,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)
from skdp.cli import main
from skdp.evaluation import AuditResult, audit_epsilon, audit_table
from skdp.evaluation.audits import audited_transformers, clopper_pearson, format_audit
from skdp.evaluation.audits._audit import exact_epsilon, worst_ratio
from skdp.evaluation.audits._calls import Audited
from skdp.evaluation.audits._events import choose_event
from skdp.evaluation.audits._outputs import FORM, hash_cells, read_call, read_rows
from skdp.evaluation.audits._search import _by_rows, epsilon_lower_bound
from skdp.evaluation.audits._target import of_transformer
from skdp.local import (
    LocalHashingEncoder,
    LocalTableEncoder,
    OnFitOnly,
    PosteriorFeatures,
    RapporEncoder,
    SecretKey,
    SubsetSelectionEncoder,
)
from tests.conftest import each, often
from tests.evaluation import broken_transformers as broken
from tests.evaluation.broken_transformers import one

TWO = (one(0), one(1))
DRAWS = 60_000


# The bound


@pytest.mark.parametrize("n", [1, 7, 25])
@pytest.mark.parametrize("level", [0.2, 0.01])
def test_each_bound_of_a_probability_is_wrong_as_rarely_as_stated(n, level):
    bounds = [clopper_pearson(count, n, level) for count in range(n + 1)]
    for share in np.linspace(0, 1, 41):
        chances = binom.pmf(np.arange(n + 1), n, share)
        assert sum(c for c, (low, _) in zip(chances, bounds, strict=True) if low > share) <= level * (1 + 1e-9)
        assert sum(c for c, (_, high) in zip(chances, bounds, strict=True) if high < share) <= level * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize("one_share", [0.3, 0.9])
@pytest.mark.parametrize("other_share", [0.02, 0.25])
def test_the_bound_exceeds_epsilon_as_rarely_as_stated(one_share, other_share, delta):
    """Enumerated: all pairs of counts of 12 and 18 draws."""
    level, trials = 0.1, (12, 18)
    epsilon = math.log((one_share - delta) / other_share)
    wrong = sum(
        binom.pmf(a, trials[0], one_share) * binom.pmf(b, trials[1], other_share)
        for a in range(trials[0] + 1)
        for b in range(trials[1] + 1)
        if epsilon_lower_bound((a, b), trials, delta=delta, level=level) > max(epsilon, 0.0)
    )
    assert wrong <= level


@pytest.mark.long
def test_a_callable_is_called_10_000_times_by_default():
    coins = iter(np.random.default_rng(0).random(30_000))
    result = audit_epsilon(lambda rows: rows[0] if next(coins) < 0.9 else 1 - rows[0], [[0], [1]], epsilon=1.0)
    assert 9_000 < result.n_draws <= 10_000
    assert result.rejected


def test_the_power_at_a_million_draws_is_what_the_docstring_says():
    """Exact: binary randomised response with epsilon 1.03 against a claim of 1, half of the level for each test."""
    n, level = int(0.9 * 1_000_000) // 2, 1e-6 / 2
    p = math.exp(1.03) / (1 + math.exp(1.03))
    ones = np.arange(*binom.interval(1 - 1e-12, n, p)).astype(int)
    lies = np.arange(*binom.interval(1 - 1e-12, n, 1 - p)).astype(int)
    low = beta.ppf(level / 2, ones, n - ones + 1)
    high = beta.isf(level / 2, lies + 1, n - lies)
    most = np.searchsorted(high, low / math.e, side="left") - 1  # the most lies that still refute the claim
    power = (binom.pmf(ones, n, p) * binom.cdf(lies[0] + most, n, 1 - p)).sum()
    assert power > 0.999_999


def test_no_event_that_luck_has_chosen_raises_the_level():
    """Of 80 audits of 64 x 4 outcomes without any signal, no more may reject than level .2 explains (1e-6).

    A true level of .6 is noticed with a probability of .999."""
    runs, level, rng = 80, 0.2, np.random.default_rng(5)

    def release(table):
        return pd.DataFrame({"value": rng.integers(0, 64, len(table)), "other": rng.integers(0, 4, len(table))})

    audited = Audited(release, list(TWO), True)
    rejected = sum(_by_rows(audited, 2_000, 0.0, level)[0] > 0 for _ in range(runs))
    assert rejected <= binom.isf(1e-6, runs, level)


def test_an_event_that_is_tested_on_the_draws_which_chose_it_would_be_wrong():
    rng = np.random.default_rng(5)
    samples = [{"value": rng.integers(0, 64, 400)} for _ in range(2)]
    event = choose_event(samples, samples)
    hits = [int(event.holds(samples[table]).sum()) for table in (event.likelier, event.other)]
    assert epsilon_lower_bound(tuple(hits), (400, 400), delta=0.0, level=0.01) > 0


@pytest.mark.long
def test_the_level_is_kept_at_the_boundary():
    """Randomised response with exactly the epsilon that is claimed."""
    runs, level, rng = 200, 0.2, np.random.default_rng(8)
    truth = math.e / (math.e + 1)

    def release(table):
        return pd.DataFrame({"value": table["value"].to_numpy() ^ (rng.random(len(table)) > truth)})

    audited = Audited(release, list(TWO), True)
    rejected = sum(_by_rows(audited, 2_000, 0.0, level)[0] > 1.0 for _ in range(runs))
    assert rejected <= binom.isf(1e-6, runs, level)


# What must be refuted


def test_three_percent_too_much_is_refuted():
    """The power is above .999999; the draws are seeded."""
    encoder = RandomizedResponseEncoder(1.03, categories={"value": [0, 1]})
    result = audit_epsilon(encoder, epsilon=1.0, n_draws=1_000_000, exact=False, random_state=0)
    assert result.rejected
    assert 1.0 < result.epsilon_lower < 1.03
    assert 1_000_000 <= result.n_draws < 1_010_000


FAULTS = [
    (broken.TrueValueFirst(), TWO, {}, broken.TrueValueFirst().exact() - 0.2),
    (broken.TrueValueLast(), TWO, {}, broken.TrueValueFirst().exact() - 0.2),
    (broken.DrawnAgain(), TWO, {}, 1.3),  # exact: 1.55
    (broken.AmplifiedTuples(), (pd.DataFrame([[0] * 5]), pd.DataFrame([[1] * 5])), {}, 1.6),  # exact: 2.26
    (broken.RedrawnReports(), TWO, {"n_reports": 10, "epsilon": 1.0}, 3.0),
    (broken.OwnBitTwice(), TWO, {}, 1.4),  # exact: 1.68
    (broken.OffByOne(), TWO, {}, 6.0),  # infinite
    (broken.OffByOne(), (one(9), one(2)), {}, 6.0),  # the value 9 is reported as 8
    (broken.IgnoredHashes(), TWO, {}, 1.3),  # exact: 2
    (broken.NeverFlips(epsilon=4.0), TWO, {}, 6.0),
    (broken.KnownSeed(), TWO, {}, 2.0),
    (broken.FloatLaplace(), TWO, {}, 5.0),
    (broken.InvertedBranch(), TWO, {"statistic": broken.InvertedBranch().supports}, 1.0),  # exact: 1.197
    (broken.MissingPassesThrough(), (one(1.0), one(math.nan)), {}, 6.0),
    (broken.RaisesOnUnknown(), (one(1), one(4)), {}, 2.0),
    (broken.WarnsOnUnknown(), (one(1), one(4)), {}, 2.0),
    (broken.DtypeShows(), TWO, {}, 2.0),
    (broken.NameShows(), TWO, {}, 2.0),
    (broken.IndexShows(), TWO, {}, 2.0),
    (broken.AttributesShow(), TWO, {}, 2.0),
]


@pytest.mark.parametrize(("fault", "neighbours", "options", "least"), FAULTS, ids=lambda v: type(v).__name__)
def test_each_published_fault_is_refuted(fault, neighbours, options, least):
    result = audit_epsilon(fault, neighbours, n_draws=DRAWS, **options)
    assert result.rejected
    assert result.epsilon_lower > max(least, result.epsilon_claimed)
    assert result.secure


@pytest.mark.parametrize(
    ("fault", "call"),
    [
        (broken.FitTransformRaw, "fit_transform of two rows"),
        (broken.FitRemembers, "fit_transform of two rows"),
        (broken.SharedCoin, "two rows"),
    ],
)
def test_what_shows_in_fit_transform_or_in_two_rows_is_refuted(fault, call):
    """Seeded."""
    result = audit_epsilon(fault(k=2), TWO, n_draws=5_000, random_state=1)
    assert result.rejected
    assert call in result.event
    assert set(result.neighbours) == {0, 1}


@pytest.mark.long
def test_what_shows_nothing_there_is_not_refuted():
    """The sound base class of these, with the same coins."""
    assert audit_epsilon(broken.Fitted(k=2), TWO, n_draws=5_000, random_state=1).passed


@pytest.mark.long
def test_rows_in_the_order_of_their_true_values_are_refuted():
    """Only three values show it: [a, c] and [b, c] then differ in both rows. Seeded.

    Among all of its tables the audit finds these two, by 10^6 draws, for a third of the seeds. Given them, it draws
    3,500 times from each, and counts that both true values come without refuting 1 for fewer than 1 in 10^7 seeds."""
    fault = broken.SortsRows(categories={"value": list(range(4))})
    tried = of_transformer(fault, None, n_reports=None, statistic=None, random_state=0).groups()
    pairs = [[situation.table for situation in group] for group in tried if group[0].name == "two rows: "]
    assert any(audit_epsilon(fault, pair, random_state=0, n_draws=10_000).rejected for pair in pairs)


@pytest.mark.long
def test_tables_of_several_rows_are_audited_by_both_calls():
    tables = [pd.DataFrame({"value": [2, 0, last]}) for last in (0, 1)]
    result = audit_epsilon(broken.FitTransformRaw(), tables, n_draws=600, random_state=0)
    assert result.rejected
    assert result.event.startswith("fit_transform: ")


@pytest.mark.long
@pytest.mark.usefixtures("few_calls")
def test_a_sound_transformer_of_the_same_make_is_not_refuted():
    assert audit_epsilon(broken.RedrawnReports(), TWO, n_draws=DRAWS).passed
    assert audit_epsilon(broken.RedrawnReports(), TWO, n_draws=DRAWS, n_reports=3).epsilon_claimed == 3.0


def test_a_probability_that_rounds_to_one_is_refuted_by_the_exact_value():
    result = audit_epsilon(broken.RoundedToIdentity(), TWO, n_draws=10_000)
    assert result.rejected
    assert result.epsilon_exact == math.inf
    assert result.epsilon_lower < result.epsilon_reach + 1e-9 < 40
    assert any("refute no claim" in finding for finding in result.findings)


@pytest.mark.usefixtures("few_calls")
def test_a_known_seed_is_a_finding():
    encoder = RandomizedResponseEncoder(1.0, categories={"value": [0, 1]}, random_state=3)
    result = audit_epsilon(encoder, n_draws=200)
    assert not result.secure
    assert any("knows the seed" in finding for finding in result.findings)
    secret = audit_epsilon(encoder.set_params(random_state=None), n_draws=200, random_state=3)
    assert secret.secure
    assert not secret.findings


@pytest.mark.long
def test_whoever_knows_the_seed_breaks_a_release():
    def release(rows):
        encoder = RandomizedResponseEncoder(1.0, categories={"value": [0, 1]}, random_state=3)
        return encoder.fit_transform(rows)

    many = [pd.DataFrame({"value": [value] * 64}) for value in (0, 1)]
    assert audit_epsilon(release, many, epsilon=1.0, n_draws=200).rejected


@pytest.mark.long
@pytest.mark.usefixtures("few_calls")
def test_a_table_is_audited_with_all_of_its_columns():
    class Leaks(LocalTableEncoder):
        def transform(self, X):
            return super().transform(X).assign(a=list(X["a"]))

    encoder = Leaks(1.0, categories={"a": ["x", "y"]}, bounds={"u": (0, 1)}, strategy="split", grid_size=8)
    assert audit_epsilon(encoder, n_draws=600, random_state=0).rejected
    of_values = LocalTableEncoder(1.0, categories={"a": ["x", "y"]})
    assert audit_epsilon(of_values, n_draws=500, random_state=0).epsilon_exact == 1.0
    rows = pd.DataFrame({"a": pd.Categorical(["x", "y"], ["x", "y"], ordered=True), "u": [0.0, 1.0]})
    fitted = LocalTableEncoder(1.0, bounds={"u": (0, 1)}, grid_size=8).fit(rows)
    assert audit_epsilon(fitted, n_draws=500, random_state=0).epsilon_exact == 1.0
    with pytest.raises(ValueError, match="nothing is declared"):
        audit_epsilon(LocalTableEncoder(1.0, bounds={"u": (0, 1)}))


# What must not be refuted


AUDITED = ["randomised response, two columns, joint", "square wave", "heavy hitters"]


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize("name", often([name for name, _ in audited_transformers()], AUDITED))
def test_our_transformers_are_not_refuted(name):
    """Seeded, so the false alarm of 1e-6 is past."""
    transformer = dict(audited_transformers(1.0, 4))[name]
    result = audit_epsilon(transformer, n_draws=1_000, random_state=1)
    assert result.passed
    assert result.secure
    assert result.epsilon_exact is None or result.epsilon_exact <= result.epsilon_claimed


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize(("epsilon", "draws"), [(1.0, 60_000), pytest.param(0.3, 240_000, marks=pytest.mark.long)])
def test_the_bound_comes_near_a_claim_that_is_tight(epsilon, draws):
    """Seeded: three quarters are 8 and 4.8 standard deviations below the mean of the bound, and epsilon is 5 above."""
    encoder = RandomizedResponseEncoder(epsilon, categories={"value": [0, 1, 2]})
    result = audit_epsilon(encoder, n_draws=draws, random_state=0)
    assert 0.75 * epsilon < result.epsilon_lower < epsilon == result.epsilon_exact


@pytest.mark.long
@pytest.mark.usefixtures("few_calls")
def test_wrappers_and_several_reports():
    encoder = RandomizedResponseEncoder(1.0, categories={"value": ["a", "b"]})
    result = audit_epsilon(OnFitOnly(encoder), n_draws=500)
    assert result.passed
    assert result.findings == ("only fit_transform was audited: transform releases unprotected rows",)
    bits = UnaryEncodingTransformer(1.0, categories={"value": ["a", "b"]})
    assert audit_epsilon(PosteriorFeatures(bits), n_draws=500, random_state=0).passed
    assert not audit_epsilon(OnFitOnly(encoder.set_params(random_state=0)), n_draws=500).secure
    encoder.set_params(random_state=None)
    thrice = audit_epsilon(encoder.set_params(epsilon=0.5), n_draws=20_000, n_reports=3, random_state=0)
    assert 1.0 < thrice.epsilon_lower < thrice.epsilon_claimed == 1.5


@pytest.mark.long
def test_memoised_reports_keep_their_promise_when_they_are_repeated():
    encoder = RandomizedResponseEncoder(
        1.0, categories={"value": [0, 1]}, memoize=True, secret_key=SecretKey.generate()
    )
    result = audit_epsilon(encoder, n_draws=10_000)
    assert result.passed
    assert result.epsilon_lower > 0.5
    assert result.epsilon_claimed == 1.0


NUMBERS = [pd.DataFrame({"a": [0.1, 0.2, 0.3, last]}) for last in (0.0, 1.0)]


@pytest.mark.long
def test_of_a_central_transformer_what_fit_learns_is_audited(monkeypatch):
    scaler = DPStandardScaler(bounds=[[0, 1]], random_state=0)
    result = audit_epsilon(scaler, NUMBERS, n_draws=100)
    assert result.passed
    assert not result.secure
    assert result.epsilon_claimed == 2.0
    assert "only what fit learns" in result.findings[0]
    assert audit_epsilon(scaler, (NUMBERS[0], NUMBERS[0].iloc[:3]), n_draws=100).epsilon_claimed == 1.0
    fit = DPStandardScaler.fit
    monkeypatch.setattr(DPStandardScaler, "fit", lambda self, X, y=None: _with_true_mean(fit(self, X), X))
    assert audit_epsilon(scaler, NUMBERS, n_draws=400).rejected


def _with_true_mean(fitted, X):
    fitted.mean_ = X.to_numpy().mean(axis=0)
    return fitted


def test_what_is_not_local_is_refused_with_advice():
    with pytest.raises(TypeError, match=r"audit_epsilon\(lambda rows: clone\(it\).fit\(rows\).mean_, neighbours"):
        audit_epsilon(DPStandardScaler(bounds=[[0, 1]]), n_draws=5_000)
    with pytest.raises(TypeError, match=r"Pipeline has no one guarantee_: .* neighbours=..., epsilon=..."):
        audit_epsilon(make_pipeline(DPStandardScaler(bounds=[[0, 1]])), NUMBERS)


def _mean(rows):
    return DPMean(1.0, bounds=(0, 1)).fit(rows).mean_


def _histogram(rows):
    return DPHistogram(1.0, domain=Domain({"a": [0, 1]})).fit(rows).counts_


def _synthetic(rows):
    return DPMarginalSynthesizer(1.0, domain=Domain({"a": [0, 1]})).fit(rows).sample(3)


@pytest.mark.parametrize("release", often([_mean, _histogram, _synthetic], [_mean, _histogram]))
def test_central_releases_are_not_refuted(release):
    neighbours = [pd.DataFrame({"a": [0, 0, 1, last]}) for last in (0, 1)]
    # Under replacement, as the neighbours are; the false alarm is 1e-6 each.
    assert audit_epsilon(release, neighbours, epsilon=2.0, n_draws=300).passed


def test_a_central_release_without_noise_is_refuted():
    neighbours = [pd.DataFrame({"a": [0, 0, 1, last]}) for last in (0, 1)]
    result = audit_epsilon(lambda rows: rows["a"].mean(), neighbours, epsilon=2.0, n_draws=1_500)
    assert result.rejected
    assert result.event == "values of the whole output as text"


def test_a_failure_that_delta_allows_is_not_refuted():
    rng = np.random.default_rng(0)

    def release(rows):
        gone = rng.random(len(rows)) < 0.01
        return pd.DataFrame({"value": np.where(gone, rows["value"].to_numpy(), -1)})

    assert audit_epsilon(release, TWO, epsilon=0.5, each_row=True, n_draws=DRAWS).rejected
    assert audit_epsilon(release, TWO, epsilon=0.5, delta=0.01, each_row=True, n_draws=DRAWS).passed


# The exact value


def test_the_exact_value_is_the_largest_ratio():
    half = Fraction(1, 2)
    assert worst_ratio([[half, half], [half, half]]) == 1
    assert worst_ratio([[1 - half / 2, half / 2, 0], [half, half, 0]]) == 2
    assert worst_ratio([[Fraction(1), Fraction(0)], [half, half]]) is None


def test_the_exact_value_is_the_achieved_epsilon():
    for k in (2, 5):
        for encoder in (
            SubsetSelectionEncoder(1.0, categories={"a": range(k), "b": range(3)}),
            LocalHashingEncoder(1.0, categories={"a": range(k)}),
        ):
            fitted = encoder.fit(pd.DataFrame({name: [0, 1] for name in encoder.categories}))
            assert exact_epsilon(fitted) == fitted.guarantee_.epsilon
    rappor = RapporEncoder(1.0, n_bits=4).fit(pd.DataFrame({"word": ["a"]}))
    assert exact_epsilon(rappor) == rappor.guarantee_.epsilon
    assert exact_epsilon(object()) is None


@pytest.mark.parametrize("n_sampled", [1, 2])
def test_the_exact_value_of_sampled_attributes_is_that_of_the_largest(n_sampled):
    numbers = pd.DataFrame({"u": [0.5], "v": [0.5], "w": [0.5]})
    bounds = dict.fromkeys(numbers, (0, 1))
    sampled = NumericPerturber(1.5, strategy="sample", n_sampled=n_sampled, grid_size=2, bounds=bounds).fit(numbers)
    assert exact_epsilon(sampled) == sampled.guarantee_.epsilon
    table = LocalTableEncoder(1.5, bounds=bounds, categories={"a": [0, 1, 2]}, grid_size=2, strategy="weighted")
    table.fit(numbers.assign(a=[0]))
    assert exact_epsilon(table) <= table.guarantee_.epsilon * (1 + 1e-12)


# What is seen


def test_equal_values_are_equal_whatever_the_dtype_of_their_column():
    hashes = [
        hash_cells(values)
        for values in (
            np.array([0, 1, 1 << 60]),
            np.array([0.0, 1.0, float(1 << 60)]),
            np.array([0, 1.0, 1 << 60], object),
        )
    ]
    assert (hashes[0] == hashes[1]).all()
    assert (hashes[0] == hashes[2]).all()
    words = hash_cells(np.array(["a", "b"], object))
    assert (words == hash_cells(np.array(["a", "b", None], object))[:2]).all()
    assert hash_cells(np.array([math.nan])) == hash_cells(np.array([None], object))
    assert len(np.unique(hash_cells(np.array(["1", 1, -0.0, 0, 0.5, None, (1,)], object)))) == 7


def test_lists_in_cells_keep_their_order():
    columns = read_rows(pd.DataFrame({"a": [[1, 2], [2, 1, 3]]}), 2)
    assert columns["column 'a', place 0"].tolist() == [1, 2]
    assert columns["column 'a', length"].tolist() == [2, 3]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "array"])
def test_any_kind_of_table_is_read(kind):
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    if kind == "polars":
        table = pytest.importorskip("polars").DataFrame(frame.to_dict("list"))
    elif kind == "pyarrow":
        table = pytest.importorskip("pyarrow").table(frame.to_dict("list"))
    else:
        table = frame if kind == "pandas" else frame.to_numpy()
    assert [column.tolist() for column in read_rows(table, 2).values()] == [[1, 2], [0.5, 1.5]]
    assert {"the form"} == {name.split(":")[0] for name in read_call(lambda: table) if name == FORM}
    with pytest.raises(ValueError, match="2 rows, not 3"):
        read_rows(table, 3)


def test_types_in_cells_are_part_of_the_form():
    forms = {
        read_call(lambda value=value: pd.DataFrame({"a": pd.Series([value], dtype=object)}))[FORM]
        for value in (1, 1.0, True, "1", None, math.nan)
    }
    assert len(forms) == 5  # 1.0 and nan are both floats


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize("kind", ["polars", "pyarrow", "array"])
def test_neighbours_of_any_kind(kind):
    frames = [pd.DataFrame({"value": [value]}) for value in (0, 1)]
    if kind == "polars":
        tables = [pytest.importorskip("polars").DataFrame(f.to_dict("list")) for f in frames]
    elif kind == "pyarrow":
        tables = [pytest.importorskip("pyarrow").table(f.to_dict("list")) for f in frames]
    else:
        tables = [frame.to_numpy() for frame in frames]
    encoder = RandomizedResponseEncoder(1.0, categories=[[0, 1]] if kind == "array" else {"value": [0, 1]})
    result = audit_epsilon(encoder, tables, n_draws=8_000, random_state=0)
    assert 0.6 < result.epsilon_lower < 1


# The rest of the contract


@pytest.mark.usefixtures("few_calls")
def test_nothing_is_charged_and_nothing_is_changed():
    ledger = PrivacyLedger(epsilon=1.0)
    frame = pd.DataFrame({"value": [0, 1]})
    encoder = RandomizedResponseEncoder(1.0, categories={"value": [0, 1]}, ledger=ledger, random_state=0).fit(frame)
    untouched = RandomizedResponseEncoder(1.0, categories={"value": [0, 1]}, random_state=0).fit(frame)
    audit_epsilon(encoder, n_draws=200)
    audit_epsilon(encoder, TWO, n_draws=200)
    other = RandomizedResponseEncoder(1.0, categories={"value": [0, 1]}, random_state=0).fit(frame)
    audit_epsilon(other, TWO, n_draws=200)
    pd.testing.assert_frame_equal(other.transform(frame), untouched.fit(frame).transform(frame))
    untouched.fit(frame)
    assert ledger.spent.epsilon == 0
    assert encoder.ledger is ledger
    pd.testing.assert_frame_equal(encoder.transform(frame), untouched.transform(frame))


TWO_WORDS = [pd.DataFrame({"value": [word]}) for word in ("a", "b")]


@pytest.mark.long
@pytest.mark.usefixtures("few_calls")
def test_a_seed_makes_the_audit_reproducible():
    encoder = RandomizedResponseEncoder(1.0, categories={"value": ["a", "b"]})
    results = [audit_epsilon(encoder, TWO_WORDS, n_draws=300, random_state=seed) for seed in (2, 2, 3)]
    assert results[0] == results[1] != results[2]


@pytest.mark.usefixtures("few_calls")
def test_the_result_shows_no_value():
    secret = "hunter2"
    tables = [pd.DataFrame({"word": [word]}) for word in (secret, "other")]
    for release in (
        lambda rows: rows,
        lambda rows: rows["word"].tolist(),
        lambda rows: [rows, rows],
        lambda rows: pd.concat([rows, rows]),
        lambda rows: rows.rename(columns={"word": rows["word"].iloc[0]}),
        lambda rows: {rows["word"].iloc[0]: 1},
    ):
        result = audit_epsilon(release, tables, epsilon=1.0, n_draws=250)
        assert result.rejected
        assert secret not in repr(result)
        assert "other" not in repr(result)


@pytest.mark.usefixtures("few_calls")
def test_undeclared_values_are_tried_where_they_are_taken():
    class Leaks(RandomizedResponseEncoder):
        def transform(self, X, record_id=None):
            released = super().transform(X)
            return released.where(X.isin(["a", "b"]), "unknown")

    kept = Leaks(1.0, categories={"value": ["a", "b"]}, handle_unknown="error")
    assert audit_epsilon(kept, n_draws=5_000).passed
    assert audit_epsilon(kept.set_params(handle_unknown="uniform"), n_draws=5_000).rejected


@pytest.mark.usefixtures("few_calls")
def test_the_table_has_a_row_for_each_transformer():
    names = [name for name, _ in audited_transformers(2.0, 3)]
    assert len(names) == len(set(names)) == 28
    chosen = {name: dict(audited_transformers(0.5, 3))[name] for name in ("subset selection", "clamped Laplace")}
    chosen["mine"] = RandomizedResponseEncoder(1.0, categories={"value": [0, 1]})
    table = audit_table(transformers=chosen, n_draws=1_000, random_state=0)
    assert table["transformer"].tolist() == list(chosen)
    assert table["verdict"].isin(["not rejected", "no event found"]).all()
    assert table["verdict"].iloc[-1] == "not rejected"
    assert ((table["event"] == "") == (table["verdict"] == "no event found")).all()
    assert (table["exact"] <= table["claimed"]).all()
    assert len(format_audit(table).splitlines()) == len(table) + 1
    with pytest.raises(ValueError, match="k must"):
        audit_table(k=1)


def test_a_rejection_follows_from_the_bound_or_the_exact_value():
    assert AuditResult(1.1, 1.0, 0.99, 1).rejected
    assert AuditResult(0.5, 1.0, 0.99, 1, epsilon_exact=1.1).rejected
    assert AuditResult(1.0, 1.0, 0.99, 1, epsilon_exact=1.0).passed


@each(
    "arguments options error match",
    [
        ((len,), {}, ValueError, "give neighbours"),
        ((len, TWO), {}, ValueError, "give the epsilon"),
        ((len, TWO[:1]), {"epsilon": 1.0}, ValueError, "two tables"),
        ((3, TWO), {"epsilon": 1.0}, TypeError, "transformer or a callable, got int"),
        ((len, TWO), {"epsilon": 1.0, "random_state": 0}, ValueError, "random_state is for transformers"),
        ((len, TWO), {"epsilon": 1.0, "n_draws": 99}, ValueError, "n_draws must be at least 100, got 99"),
        ((len, TWO), {"epsilon": 1.0, "n_draws": 1e6}, TypeError, "n_draws must be a whole number, got float"),
        ((len, TWO), {"epsilon": 1.0, "n_reports": 0}, ValueError, "n_reports must be at least 1"),
        ((len, TWO), {"epsilon": 1.0, "confidence": 1.0}, ValueError, "confidence"),
        ((len, TWO), {"epsilon": -1.0}, ValueError, "epsilon"),
        ((len, TWO), {"epsilon": 1.0, "delta": 1.0}, ValueError, "delta"),
        ((len, 5), {"epsilon": 1.0}, TypeError, "neighbours must be a pair of tables, got int"),
        ((len, (TWO[0], one(0))), {"epsilon": 1.0}, ValueError, "same table twice"),
        ((len, TWO), {"epsilon": 1.0, "confidence": 2}, ValueError, "^confidence must"),
        ((len, TWO), {"epsilon": 1.0, "statistic": 3}, TypeError, "statistic must be a callable"),
        ((RandomizedResponseEncoder,), {}, TypeError, "got the class RandomizedResponseEncoder"),
        ((broken.Fitted(), ([[0], [0]], [[1], [1]])), {}, ValueError, "tables that differ in 2"),
        ((broken.Fitted(), ([[0]], [[0]])), {}, ValueError, "tables that differ in 0"),
        ((broken.Fitted(), ([[0]], [[0], [1]])), {}, ValueError, "equally many rows, got 1 and 2"),
        ((RandomizedResponseEncoder(),), {}, ValueError, "declare the categories, or give neighbours"),
        ((lambda rows: rows["absent"], TWO), {"epsilon": 1.0}, ValueError, r"every release .* failed \(KeyError\)"),
        ((len, (pd.DataFrame({"a": [1, 2]}),) * 2), {"epsilon": 1.0, "each_row": True}, ValueError, "one row"),
    ],
)
def test_mistakes_are_named(arguments, options, error, match):
    with pytest.raises(error, match=match):
        audit_epsilon(*arguments, **options)


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize("refuted", [False, True])
def test_the_command_says_by_its_status_whether_a_promise_is_refuted(refuted, monkeypatch, capsys):
    mine = RandomizedResponseEncoder(2.0 if refuted else 1.0, categories={"value": [0, 1]})
    if refuted:
        claimed = PrivacyGuarantee(1.0, scope=("value",))
        monkeypatch.setattr(RandomizedResponseEncoder, "_promise", lambda *_: claimed)
    monkeypatch.setattr("skdp.cli._evaluate.audited_transformers", lambda epsilon, k: [("mine", mine)])
    assert main(["audit", "--draws", "5000", "--seed", "0"]) == refuted
    assert ("not rejected" in capsys.readouterr().out) != refuted


@pytest.mark.parametrize("option", [["--k", "1"], ["--confidence", "1"], ["--epsilon", "0"], ["--draws", "many"]])
def test_the_command_refuses_what_makes_no_sense(option, capsys):
    with pytest.raises(SystemExit):
        main(["audit", *option])
    assert "error: argument" in capsys.readouterr().err
