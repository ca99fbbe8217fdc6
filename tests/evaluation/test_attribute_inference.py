"""What a release gives away of a protected column, and through which columns."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binom
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from skdp import RandomizedResponseEncoder
from skdp.evaluation import attribute_inference, bayes_accuracy, guessing_bound
from skdp.local import LocalHashingEncoder, SubsetSelectionEncoder, UnaryEncodingTransformer
from tests.conftest import each, few_kinds, often

N = 600
TREE = DecisionTreeClassifier(random_state=0)


@pytest.fixture
def sex():
    return pd.Series(np.random.default_rng(0).choice(["F", "M"], N, p=[0.4, 0.6]), name="sex")


def encoder(epsilon=1.0, **parameters):
    return RandomizedResponseEncoder(epsilon, **{"categories": {"sex": ["F", "M"]}, "random_state": 0} | parameters)


def _trees():
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier(random_state=0))


def test_the_report_alone_gives_what_the_channel_gives():
    truth = pd.Series(np.random.default_rng(1).choice([*"abcd"], 20_000, p=[0.4, 0.3, 0.2, 0.1]), name="job")
    inner = RandomizedResponseEncoder(1.5, categories={"job": [*"abcd"]}, random_state=0)
    released = inner.fit_transform(truth.to_frame())
    result = attribute_inference(released, None, truth, encoder=inner, estimator=_trees(), random_state=0)
    prior = truth.value_counts(normalize=True).loc[[*"abcd"]]
    assert result.bayes_bound == pytest.approx(bayes_accuracy(inner.oracles_[0], prior))
    assert result.bound == "the exact value of the protocol"
    # Five standard errors: once in a million times.
    assert abs(result.accuracy - result.bayes_bound) < 5 * result.std_error
    assert result.accuracy_without_report == result.baseline == prior.max()
    assert result.carriers.loc["job", "alone"] == pytest.approx(result.accuracy, abs=0.01)
    assert not result.exceeds_bound
    assert result.std_error == pytest.approx(math.sqrt(result.accuracy * (1 - result.accuracy) / 20_000))


@few_kinds
@pytest.mark.usefixtures("few_trees")
def test_every_kind_of_frame_gives_the_same(make_frame):
    rng = np.random.default_rng(0)
    data = {
        "title": [*rng.choice(["Ms", "Mr", None], N)],
        "shoe": [
            None if gap else int(size) for size, gap in zip(rng.normal(40, 3, N), rng.random(N) < 0.1, strict=True)
        ],
        "fit": [*map(bool, rng.random(N) < 0.5)],
    }
    truth = [{"Ms": "F", "Mr": "M", None: "F"}[title] for title in data["title"]]
    result = attribute_inference(make_frame(data), None, truth, random_state=0)
    assert result.accuracy == 1.0
    assert list(result.carriers.index[:1]) == ["title"]
    assert result.carriers["drop"].tolist() == pytest.approx([0.446, 0, 0], abs=0.06)


@pytest.mark.long
@pytest.mark.usefixtures("few_trees")
def test_columns_of_any_dtype_are_read():
    truth = np.array([0, 1] * 150)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "mixed": pd.Series([1, "1", True, None] * 75, dtype=object),
            "when": pd.to_datetime(["2020-01-01", None, "2021-05-05"] * 100),
            "day": [date(2020, 1, 1 + int(day)) for day in rng.integers(0, 28, 300)],
            "empty": pd.Series([None] * 300, dtype=object),
            "nothing": np.full(300, np.nan),
            "huge": rng.choice([np.inf, -np.inf, 1e300], 300),
            "many": [f"id {number}" for number in range(300)],
            7: truth,
        }
    )
    result = attribute_inference(frame, None, truth, random_state=0)
    assert result.accuracy == 1.0
    assert result.carriers.loc[7, "alone"] == 1.0
    assert set(result.carriers.index) == set(frame.columns)
    array = rng.normal(size=(300, 2))
    array[:, 1] = truth
    assert attribute_inference(array, None, truth, random_state=0).carriers.index[0] == "x1"
    with pytest.raises(TypeError, match="column 'lists' holds something else than single values"):
        attribute_inference(pd.DataFrame({"lists": [[1], [2]] * 50}), None, truth[:100])


@pytest.mark.long
@pytest.mark.usefixtures("few_trees")
def test_known_columns_and_the_label_are_what_the_attacker_sees(sex):
    released = pd.DataFrame({"title": sex.map({"F": "Ms", "M": "Mr"}), "noise": np.arange(N) % 7, "report": sex})
    options = {"estimator": _trees(), "random_state": 0}
    assert attribute_inference(released, None, sex, ["noise"], **options).accuracy < 0.7
    result = attribute_inference(released, sex.rename("label"), sex, ["noise"], report=["report"], **options)
    assert set(result.carriers.index[:2]) == {"report", "label"}
    assert list(result.carriers.index[2:]) == ["noise"]
    assert result.accuracy_without_report == 1.0
    nothing_else = attribute_inference(released, None, sex, [], report=["report"], **options)
    assert nothing_else.accuracy == 1.0
    assert nothing_else.accuracy_without_report == nothing_else.baseline
    blind = attribute_inference(released, None, sex, [], **options)
    assert blind.accuracy == blind.baseline
    assert blind.accuracy_without_report is None
    assert blind.carriers.empty


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("strategy", often(["split", "joint", "sample"], ["joint"]))
def test_the_bound_is_that_of_the_attribute(strategy):
    rng = np.random.default_rng(0)
    truth = pd.DataFrame({"sex": rng.choice(["F", "M"], N), "job": rng.choice(["a", "b", "c"], N)})
    inner = RandomizedResponseEncoder(
        2.0, strategy=strategy, categories={"sex": ["F", "M"], "job": ["a", "b", "c"]}, random_state=0
    )
    released = inner.fit_transform(truth)
    options = {"encoder": inner, "estimator": _trees(), "random_state": 0}
    shares = truth["sex"].value_counts(normalize=True).loc[["F", "M"]].to_numpy()
    cells = truth.value_counts(normalize=True).to_numpy()
    of_sex = attribute_inference(released, None, truth["sex"], **options)
    of_both = attribute_inference(released, None, truth, **options)
    assert of_sex.bayes_bound == pytest.approx(guessing_bound(shares, 2.0))
    if strategy == "joint":
        counts = [((truth["sex"] == s) & (truth["job"] == j)).mean() for s in ("F", "M") for j in ("a", "b", "c")]
        assert of_both.bayes_bound == pytest.approx(bayes_accuracy(inner.oracles_[0], counts))
    else:
        exact = bayes_accuracy(inner.oracles_[0], shares)
        expected = exact if strategy == "split" else (exact + shares.max()) / 2
        own = ["sex"] if strategy == "split" else ["sex", "sampled"]
        alone = attribute_inference(released, None, truth["sex"], [], report=own, **options)
        assert alone.bayes_bound == pytest.approx(expected)
        assert alone.bound == "the exact value of the protocol"
        seen = attribute_inference(released, None, truth["sex"], ["job"], report=own, **options)
        renamed = attribute_inference(
            released.rename(columns={"sex": "s"}), None, truth["sex"], [], report=["s"], **options
        )
        assert seen.bayes_bound == renamed.bayes_bound == of_sex.bayes_bound
        assert of_both.bayes_bound == pytest.approx(guessing_bound(cells, inner.guarantee_.epsilon))
        assert of_both.bound == "the best protocol of epsilon = 2, for all reports of a record together"


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize(
    "made",
    often([RandomizedResponseEncoder, UnaryEncodingTransformer, LocalHashingEncoder], [RandomizedResponseEncoder]),
)
@pytest.mark.long
def test_reports_of_copies_stay_under_the_bound(made):
    """Three copies are reported: together they tell more of one than its own report can."""
    n = 4000
    value = np.random.default_rng(0).choice(["u", "v"], n)
    truth = pd.DataFrame(dict.fromkeys("abc", value))
    inner = made(3.0, categories={name: ["u", "v"] for name in "abc"}, random_state=0)
    released = inner.fit_transform(truth)
    options = {"encoder": inner, "estimator": _trees(), "random_state": 0}
    result = attribute_inference(released, None, truth["a"], **options)
    shares = np.unique(value, return_counts=True)[1] / n
    assert result.bayes_bound == pytest.approx(guessing_bound(shares, 3.0))
    assert result.bound == "the best protocol of epsilon = 3, for all reports of a record together"
    assert not result.exceeds_bound
    if made is not LocalHashingEncoder:
        own = [name for name in released if name.startswith("a")]
        alone = attribute_inference(released, None, truth["a"], [], report=own, **options)
        assert alone.bound == "the exact value of the protocol"
        assert alone.bayes_bound == pytest.approx(bayes_accuracy(inner.oracles_[0], shares))
        assert not alone.exceeds_bound
        # The exact value of the own report would be exceeded.
        assert result.interval()[0] > alone.bayes_bound


def test_an_epsilon_gives_the_bound_of_the_best_protocol(sex):
    result = attribute_inference(
        pd.DataFrame({"a": np.arange(N)}), None, sex, epsilon=0.5, estimator=TREE, random_state=0
    )
    # Every row has a number of its own: whoever had seen it would guess it.
    assert result.accuracy < 0.7
    share = (sex == "M").mean()
    assert result.bayes_bound == guessing_bound([share, 1 - share], 0.5)
    unknown = attribute_inference(pd.DataFrame({"a": np.arange(N)}), None, sex, estimator=TREE, random_state=0)
    assert math.isnan(unknown.bayes_bound)
    assert not unknown.exceeds_bound


@pytest.mark.filterwarnings("error")
def test_rare_and_missing_values_are_guessed_too():
    truth = pd.Series(["a"] * 30 + [None] * 20 + ["b"])
    frame = pd.DataFrame({"x": [1] * 30 + [2] * 20 + [3]})
    result = attribute_inference(frame, None, truth, estimator=TREE, random_state=0)
    assert result.accuracy == pytest.approx(50 / 51)
    lone = attribute_inference(pd.DataFrame({"x": [1, 2, 3]}), None, ["a", "a", "b"], cv=3, random_state=0)
    assert 0 <= lone.accuracy <= 2 / 3


def test_the_result_shows_no_value(sex):
    secret = sex.map({"F": "s3cr3t", "M": "other"})
    result = attribute_inference(secret.to_frame(), None, secret, estimator=_trees(), random_state=0)
    assert result.accuracy == 1.0
    assert "s3cr3t" not in repr(result) + repr(vars(result))


def test_intervals_are_those_of_clopper_and_pearson(sex):
    release = pd.DataFrame({"sex": sex})
    certain = attribute_inference(release, None, sex, report=["sex"], epsilon=1.0, estimator=_trees(), random_state=0)
    assert certain.interval() == pytest.approx((0.025 ** (1 / N), 1.0))
    assert certain.exceeds_bound
    low, high = certain.interval(without_report=True)
    right = round(certain.accuracy_without_report * N)
    assert binom.sf(right - 1, N, low) == pytest.approx(0.025)
    assert binom.cdf(right, N, high) == pytest.approx(0.025)
    with pytest.raises(ValueError, match="confidence_level"):
        certain.interval(1.0)
    unknown = attribute_inference(release, None, sex, estimator=_trees(), random_state=0)
    assert np.isnan(unknown.interval(without_report=True)).all()


@each(
    "options, error, message",
    [
        ({"cv": N + 1}, ValueError, "cv must be at most the number of rows, 600"),
        ({"cv": 2.0}, TypeError, "cv must be a number of folds, got float"),
        ({"cv": 1}, ValueError, "cv must be at least 2, got 1"),
        ({"estimator": LinearRegression()}, TypeError, "estimator must be a classifier, got .*LinearRegression"),
        ({"estimator": LinearRegression}, TypeError, "got the class LinearRegression, not an instance"),
        ({"encoder": LinearRegression()}, TypeError, "encoder must be a fitted local transformer, got .*LinearReg"),
        ({"known": "a"}, TypeError, "known must be a list of column names, got str"),
        ({"sensitive": "sex"}, TypeError, "sensitive must hold the true values of the protected column, got a str"),
        ({"sensitive": ["F", "M"]}, ValueError, "X_released has 600 rows, sensitive has 2"),
        ({"y": np.zeros((N, 2))}, ValueError, "y must be one column, got 2"),
        ({"X_released": pl.DataFrame()}, ValueError, "X_released has no columns"),
        ({"X_released": pd.DataFrame({"a": []})}, ValueError, "X_released has no rows"),
        ({"known": ["b"]}, ValueError, r"known names columns that X_released does not have: \['b'\]"),
        (
            {"sensitive": pa.table([[1], [2]], names=["a", "a"])},
            ValueError,
            "two columns have the same name: 'a'",
        ),
        ({"y": [1, 2]}, ValueError, "X_released has 600 rows, y has 2"),
        ({"y": pd.DataFrame({"a": [1] * N})}, ValueError, "has the column 'a' of y already"),
        ({"sensitive": ["s3cr3t"] * N}, ValueError, "sensitive has one value only"),
        ({"X_released": np.zeros((2, 2, 2))}, ValueError, "X_released must be a table or a column, got 3 dimensions"),
    ],
)
def test_mistakes_are_named(options, error, message, sex):
    options = {"X_released": pd.DataFrame({"a": np.arange(N)}), "y": None, "sensitive": sex} | options
    with pytest.raises(error, match=message):
        attribute_inference(**options)


def test_values_that_the_encoder_does_not_declare_are_not_shown(sex):
    inner = encoder()
    released = inner.fit_transform(sex.to_frame())
    with pytest.raises(ValueError, match="column 'sex' of sensitive holds a value outside") as caught:
        attribute_inference(released, None, sex.replace("F", "s3cr3t"), encoder=inner)
    assert "s3cr3t" not in str(caught.value)
    two = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"], "job": [1, 2]}, random_state=0)
    both = two.fit_transform(pd.DataFrame({"sex": sex, "job": [1, 2] * (N // 2)}))
    with pytest.raises(ValueError, match="sensitive must be columns of the encoder, by their names"):
        attribute_inference(both, None, sex.rename("gender"), encoder=two)


PRIOR = [0.9, 0.07, 0.03]
ILLNESS = {"illness": ["none", "common", "rare"]}


@pytest.fixture(scope="module")
def attacked():
    """Reports of an illness that nearly nobody has, and a column that gives the rare one away."""
    n, rng = 2_000, np.random.default_rng(0)
    truth = pd.DataFrame({"illness": rng.choice(ILLNESS["illness"], n, p=PRIOR)})
    inner = RandomizedResponseEncoder(2.0, categories=ILLNESS, random_state=0)
    clue = (truth["illness"] == "rare") + rng.normal(0, 0.4, n)
    released = inner.fit_transform(truth).assign(clue=clue, code=rng.integers(0, 9, n))
    released["illness"] = released["illness"].map({value: place for place, value in enumerate(ILLNESS["illness"])})
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    result = attribute_inference(released, None, truth, encoder=inner, estimator=tree, random_state=0)
    return truth["illness"], inner, released, result


class TestRareValues:
    def test_each_value_has_its_measures(self, attacked):
        truth, _, _, result = attacked
        values = result.values
        assert values.index.tolist() == ["rare", "common", "none"]
        assert values["share"].tolist() == pytest.approx(truth.value_counts(normalize=True)[::-1].tolist())
        # Nearly all are well, so that accuracy hides that the rare illness is found.
        assert result.accuracy < result.baseline + 0.03
        assert values.loc["rare", "auc"] > 0.85
        assert values.loc["rare", "lift"] > 10
        assert values.loc["rare", "auc_without_report"] > 0.8 > 0.65 > values.loc["common", "auc_without_report"]
        assert "rare" in result._repr_html_()

    def test_the_best_guess_of_the_report_is_reached(self, attacked):
        truth, inner, released, _ = attacked
        model = make_pipeline(OneHotEncoder(), LogisticRegression())
        options = {"estimator": model, "random_state": 0}
        result = attribute_inference(released[["illness"]], None, truth, encoder=inner, **options)
        assert result.accuracy == pytest.approx(result.report_accuracy, abs=4 * result.std_error)
        areas = result.values[["auc", "auc_of_report"]].to_numpy()
        assert areas[:, 0] == pytest.approx(areas[:, 1], abs=0.08)
        perfect = attribute_inference(truth.to_frame(), None, truth, **options).values
        assert (perfect[["precision", "auc"]] == 1).all(axis=None)

    def test_values_without_a_declaration_have_numbers(self, attacked):
        truth, _, released, _ = attacked
        silent = Perceptron(random_state=0)  # has no probabilities
        result = attribute_inference(released, None, truth, report=["illness"], estimator=silent, random_state=0)
        assert sorted(result.values.index) == [0, 1, 2]
        assert result.report_accuracy is None
        assert result.values[["auc", "lift", "auc_of_report"]].isna().all(axis=None)
        assert result.values["precision"].notna().all()

    @each("kind", [SubsetSelectionEncoder, LocalHashingEncoder])
    def test_declared_values_that_do_not_occur_are_left_out(self, kind):
        truth = pd.DataFrame({"illness": ["none"] * 150 + ["rare"] * 50})
        inner = kind(2.0, categories=ILLNESS, random_state=0)
        released = inner.fit_transform(truth)
        result = attribute_inference(released, None, truth, encoder=inner, estimator=TREE, random_state=0)
        assert result.report_accuracy >= 0.75
        assert result.values.index.tolist() == ["rare", "none"]
        assert np.isfinite(result.values["auc_of_report"]).all()

    def test_a_part_of_a_joint_report_has_no_best_guess(self):
        truth = pd.DataFrame({"a": [0, 1] * 50, "b": [0, 1] * 50})
        inner = RandomizedResponseEncoder(1.0, categories={"a": [0, 1], "b": [0, 1]}, strategy="joint", random_state=0)
        released = inner.fit_transform(truth)
        result = attribute_inference(released, None, truth[["a"]], encoder=inner, estimator=TREE, random_state=0)
        assert result.report_accuracy is None
        assert result.values["auc_of_report"].isna().all()
