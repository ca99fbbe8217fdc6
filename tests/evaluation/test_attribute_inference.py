"""The accuracy of an attack and its bound, for each way to report columns."""

import math
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binomtest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from skdp import Interval, RandomizedResponseEncoder
from skdp.evaluation import attribute_inference
from skdp.local import LocalHashingEncoder, SubsetSelectionEncoder, UnaryEncodingTransformer
from skdp.oracles import LocalHashing, RandomizedResponse, UnaryEncoding
from tests.conftest import often, quick_first

N = 600
ILLNESS = {"illness": ["none", "common", "rare"]}
ROWS = pd.DataFrame({"a": np.arange(N)})


@pytest.fixture
def sex():
    return pd.Series(np.random.default_rng(0).choice(["F", "M"], N, p=[0.4, 0.6]), name="sex")


def _trees():
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier(random_state=0))


def attack(released, sensitive_features, **options):
    return attribute_inference(released, sensitive_features, **{"estimator": _trees(), "random_state": 0} | options)


def test_report_alone_has_the_accuracy_of_the_channel():
    truth = pd.Series(np.random.default_rng(1).choice([*"abcd"], 20_000, p=[0.4, 0.3, 0.2, 0.1]), name="job")
    encoder = RandomizedResponseEncoder(1.5, categories={"job": [*"abcd"]}, random_state=0)
    result = attack(encoder.fit_transform(truth.to_frame()), truth, encoder=encoder)
    prior = truth.value_counts(normalize=True).loc[[*"abcd"]].to_numpy()
    assert result.bayes_bound == pytest.approx(encoder.oracles_[0].guess_accuracy(prior))
    # Five standard errors: exceeded with probability 1e-6.
    assert abs(result.accuracy - result.bayes_bound) < 5 * result.std_error
    assert result.accuracy_without_report == result.baseline == prior.max()
    assert result.accuracy <= result.bayes_bound + 2 * result.std_error
    assert result.std_error == pytest.approx(math.sqrt(result.accuracy * (1 - result.accuracy) / 20_000))


def test_released_column_is_used_and_not_part_of_the_bound(sex):
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, random_state=0)
    released = encoder.fit_transform(sex.to_frame()).assign(title=sex.map({"F": "Ms", "M": "Mr"}))
    result = attack(released, sex, encoder=encoder)
    assert result.accuracy == result.accuracy_without_report == 1.0
    assert result.accuracy > result.bayes_bound + 2 * result.std_error


@pytest.mark.parametrize("strategy", often(["split", "joint", "sample"], ["split", "sample"]))
def test_bound_of_several_columns_depends_on_the_strategy(strategy):
    rng = np.random.default_rng(0)
    truth = pd.DataFrame({"sex": rng.choice(["F", "M"], N), "job": rng.choice(["a", "b", "c"], N)})
    categories = {"sex": ["F", "M"], "job": ["a", "b", "c"]}
    encoder = RandomizedResponseEncoder(2.0, strategy=strategy, categories=categories, random_state=0)
    released = encoder.fit_transform(truth)
    prior = truth["sex"].value_counts(normalize=True).loc[["F", "M"]].to_numpy()
    cells = truth.value_counts(normalize=True).to_numpy()
    # Reports of both columns are released, so the bound for sex is of any protocol with this guarantee.
    assert attack(released, truth["sex"], encoder=encoder).bayes_bound == pytest.approx(bound_by(encoder, prior))
    of_both = attack(released, truth, encoder=encoder).bayes_bound
    if strategy == "joint":
        counts = [((truth["sex"] == s) & (truth["job"] == j)).mean() for s in ("F", "M") for j in ("a", "b", "c")]
        assert of_both == pytest.approx(encoder.oracles_[0].guess_accuracy(np.array(counts)))
        return
    assert of_both == pytest.approx(bound_by(encoder, cells))
    exact = encoder.oracles_[0].guess_accuracy(prior)
    own = ["sex"] if strategy == "split" else ["sex", "sampled"]
    alone = attack(released[own], truth["sex"], encoder=encoder)
    assert alone.bayes_bound == pytest.approx(exact if strategy == "split" else (exact + prior.max()) / 2)


@pytest.mark.parametrize(
    "kind", quick_first(2, [RandomizedResponseEncoder, LocalHashingEncoder, UnaryEncodingTransformer])
)
def test_reports_of_copies_stay_below_the_bound(kind):
    """Three reported copies together reveal more about one of them than its own report."""
    n_rows = 400 if kind is LocalHashingEncoder else 4000  # the trees have a column for each seed of a hash function
    value = np.random.default_rng(0).choice(["u", "v"], n_rows)
    truth = pd.DataFrame(dict.fromkeys("abc", value))
    encoder = kind(3.0, categories={name: ["u", "v"] for name in "abc"}, random_state=0)
    released = encoder.fit_transform(truth)
    result = attack(released, truth["a"], encoder=encoder)
    prior = np.unique(value, return_counts=True)[1] / n_rows
    assert result.bayes_bound == pytest.approx(bound_by(encoder, prior))
    assert result.bayes_bound < best_accuracy(prior, 3.0) - 0.1
    assert result.accuracy <= result.bayes_bound + 2 * result.std_error
    if kind is RandomizedResponseEncoder:
        right = math.e / (1 + math.e)
        majority = right**3 + 3 * right**2 * (1 - right)  # the best guess of equally frequent values
        assert result.bayes_bound == pytest.approx(majority, abs=0.01)
    if kind is not LocalHashingEncoder:
        own = released[[name for name in released if name.startswith("a")]]
        alone = attack(own, truth["a"], encoder=encoder)
        assert alone.bayes_bound == pytest.approx(encoder.oracles_[0].guess_accuracy(prior))
        # They exceed the exact accuracy of a single report.
        assert result.accuracy - 2 * result.std_error > alone.bayes_bound


class TestRecall:
    def test_revealed_rare_value_has_a_high_recall(self):
        rng = np.random.default_rng(0)
        truth = pd.DataFrame({"illness": rng.choice(ILLNESS["illness"], 2_000, p=[0.9, 0.07, 0.03])})
        encoder = RandomizedResponseEncoder(2.0, categories=ILLNESS, random_state=0)
        released = encoder.fit_transform(truth).assign(clue=truth["illness"] == "rare")
        result = attack(released, truth, encoder=encoder)
        recall = result.recall
        assert recall.index.tolist() == ["rare", "common", "none"]
        assert recall["proportion"].tolist() == truth.value_counts(normalize=True)[::-1].tolist()
        assert result.accuracy < result.baseline + 0.05
        assert recall.loc["rare", "recall"] == 1
        assert recall.loc["common", "recall"] < 0.5
        for n_right, row in zip(recall["recall"] * recall["proportion"] * 2_000, recall.itertuples(), strict=True):
            interval = binomtest(round(n_right), round(row.proportion * 2_000)).proportion_ci(0.95, "wilson")
            assert (row.lower, row.upper) == pytest.approx((interval.low, interval.high), abs=1e-9)

    @pytest.mark.parametrize("kind", [SubsetSelectionEncoder, LocalHashingEncoder])
    def test_declared_values_without_rows_are_excluded(self, kind):
        truth = pd.DataFrame({"illness": ["none"] * 150 + ["rare"] * 50})
        encoder = kind(2.0, categories=ILLNESS, random_state=0)
        released = encoder.fit_transform(truth)
        result = attack(released, truth, encoder=encoder, estimator=DecisionTreeClassifier(random_state=0))
        assert result.recall.index.tolist() == ["rare", "none"]

    def test_numbers_are_guessed_by_bin(self):
        ages = pd.Series(np.random.default_rng(0).integers(17, 91, 2_000), name="age")
        bins = Interval([17, 30, 45, 60, 90])
        encoder = RandomizedResponseEncoder(6.0, categories={"age": bins}, random_state=0)
        result = attack(encoder.fit_transform(ages.to_frame()), ages, encoder=encoder)
        frequencies = np.bincount(bins.encode(ages)) / 2_000
        assert result.baseline == frequencies.max()
        assert result.bayes_bound == pytest.approx(encoder.oracles_[0].guess_accuracy(frequencies))
        assert abs(result.accuracy - result.bayes_bound) < 5 * result.std_error
        assert result.recall["proportion"].to_dict() == dict(zip(bins.labels, frequencies, strict=True))

    def test_rare_and_missing_values_are_guessed(self):
        truth = pd.Series(["a"] * 30 + [None] * 20 + ["b"])
        frame = pd.DataFrame({"x": [1] * 30 + [2] * 20 + [3]})
        assert attack(frame, truth).accuracy == pytest.approx(50 / 51)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"estimator": LinearRegression()}, TypeError, "`estimator` must be a classifier, got LinearRegression"),
        ({"encoder": LinearRegression()}, TypeError, "`encoder` must be a fitted encoder of categories, got LinearReg"),
        ({"encoder": RandomizedResponseEncoder()}, TypeError, "`encoder` must be a fitted encoder"),
        ({"sensitive_features": "sex"}, TypeError, "`sensitive_features` must be the true values, got a str"),
        ({"sensitive_features": ["F", "M"]}, ValueError, "same number of rows, got 600 and 2"),
        ({"released": ROWS.sample(frac=1, random_state=1)}, ValueError, "row labels in the order of"),
        ({"sensitive_features": ["s3cr3t"] * N}, ValueError, "`sensitive_features` must have at least two distinct"),
        ({"released": pl.DataFrame()}, ValueError, "`released` must have at least one column"),
        ({"released": np.zeros((2, 2, 2))}, ValueError, "released.*. must be one column"),
        ({"released": pd.DataFrame({"lists": [[1], [2]] * 300})}, ValueError, "`released` must have single values,"),
    ],
)
def test_invalid_arguments_raise_an_error(options, error, message, sex):
    options = {"released": ROWS, "sensitive_features": sex} | options
    with pytest.raises(error, match=message):
        attribute_inference(**options)


def test_error_does_not_contain_unknown_values(sex):
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, random_state=0)
    released = encoder.fit_transform(sex.to_frame())
    with pytest.raises(
        ValueError, match="Column 'sex' of `sensitive_features` must have only declared values"
    ) as caught:
        attribute_inference(released, sex.replace("F", "s3cr3t"), encoder=encoder)
    assert "s3cr3t" not in str(caught.value)
    two = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"], "job": [1, 2]}, random_state=0)
    both = two.fit_transform(pd.DataFrame({"sex": sex, "job": [1, 2] * (N // 2)}))
    with pytest.raises(ValueError, match="`sensitive_features` must have columns of the encoder"):
        attribute_inference(both, sex.rename("gender"), encoder=two)


def bound_by(encoder, prior):
    """Return the smaller bound of the accuracy: by epsilon, and by the total variation."""
    variation = 2 * encoder.guarantee_.guess_probability - 1
    return min(best_accuracy(prior, encoder.guarantee_.epsilon), max(prior) + (1 - max(prior)) * variation)


@pytest.mark.parametrize("weights", [[1, 1], [3, 2], [5, 4, 1], [1, 1, 1, 1]])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_guess_from_two_reports_beats_the_bound(weights, epsilon):
    """All reports of a value and of a copy, by the exact channel."""
    values = [*range(len(weights))]
    table = pd.DataFrame({"a": np.repeat(values, weights), "b": np.repeat(values, weights)})
    table = pd.concat([table] * 10, ignore_index=True)
    encoder = RandomizedResponseEncoder(epsilon, categories={"a": values, "b": values}, random_state=0)
    released = encoder.fit_transform(table)
    first, second = (np.array(channel, dtype=float) for channel in encoder.channel())
    prior = np.array(weights) / sum(weights)
    joint = prior[:, None, None] * first[:, :, None] * second[:, None, :]
    bound = attribute_inference(
        released, table["a"], encoder=encoder, estimator=DummyClassifier(), random_state=0
    ).bayes_bound
    exact = joint.max(axis=0).sum()
    assert exact <= bound + 1e-12
    if len(set(weights)) == 1 and len(weights) == 2:
        assert bound == pytest.approx(exact, abs=1e-9)


def best_accuracy(prior, epsilon):
    """Return the accuracy of the best attack on any protocol with epsilon.

    Extreme columns of a channel are e^epsilon on some values and 1 on the other values. Any column of a
    channel is a positive combination of these, and the best guess has at most the same accuracy for the sum of columns
    as for each column separately.
    """
    k, ratio = len(prior), math.exp(epsilon)
    columns = np.array([[ratio if high else 1 for high in subset] for subset in product((0, 1), repeat=k)], float)
    worth = (columns * np.array(prior)).max(axis=1)
    return -linprog(-worth, A_eq=columns.T, b_eq=np.ones(k), bounds=(0, None)).fun


def attained_bound(weights, epsilon):
    """Return the bound of an attack on hashed reports, given the numbers of records by value, and the epsilon."""
    values = np.repeat(np.arange(len(weights)), weights)
    encoder = LocalHashingEncoder(epsilon, categories={"value": range(len(weights))}, random_state=0)
    reports = encoder.fit_transform(pd.DataFrame({"value": values}))
    attacked = attribute_inference(reports, values, encoder=encoder, estimator=DummyClassifier(), random_state=0)
    return attacked.bayes_bound, encoder.guarantee_.epsilon


@example([9, 1, 1], math.log(3))
@example([1, 4], 0.01)
@example([6, 2, 2, 0], 4.0)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=5), st.floats(0.01, 6))
def test_bound_is_at_most_the_maximum_over_all_protocols(weights, epsilon):
    assume(np.count_nonzero(weights) > 1 and sum(weights) >= 5)
    bound, epsilon = attained_bound(weights, epsilon)
    assert bound <= best_accuracy(np.array(weights) / sum(weights), epsilon) * (1 + 1e-7)


def test_large_channels_and_hashing_have_no_exact_accuracy():
    prior = np.full(300, 1 / 300)
    assert RandomizedResponse(300, 1.0).guess_accuracy(prior) == pytest.approx(math.e / (math.e + 299))
    assert UnaryEncoding(300, 1.0).guess_accuracy(prior) is None
    assert LocalHashing(5, 1.0).guess_accuracy(np.full(5, 0.2)) is None
