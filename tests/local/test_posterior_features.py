"""The features are Bayes' rule on the reports of one release, and nothing is released twice."""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from skdp import BudgetExceeded, Interval, PrivacyLedger, RandomizedResponseEncoder, RapporEncoder
from skdp.local import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    NumericPerturber,
    OnFitOnly,
    PosteriorFeatures,
    SecretKey,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.local._posterior_features import posterior
from skdp.oracles import (
    CountMeanSketch,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    two_rounds,
)
from skdp.oracles import UnaryEncoding as UE
from skdp.testing import _privatizer, check_privatizer
from tests.conftest import each

CATEGORIES = {"sex": ["Female", "Male"], "job": ["clerk", None, "sales"]}
N = 400


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return {
        name: [
            values[code]
            for code in rng.choice(len(values), N, p=np.arange(1, len(values) + 1) / sum(range(len(values) + 1)))
        ]
        for name, values in CATEGORIES.items()
    }


def encoder(epsilon=0.5, **parameters):
    return RandomizedResponseEncoder(epsilon, **{"categories": CATEGORIES, "random_state": 0} | parameters)


def bits_of(k):
    return np.array(list(product((0, 1), repeat=k)), np.uint8)


def sets_of(oracle):
    sets = combinations(range(oracle.k), oracle.subset_size)
    return np.array([[value in members for value in range(oracle.k)] for members in sets], np.uint8)


def seeded(width):
    """Reports of seed (or function) 0, a column of the channel each."""
    return np.column_stack([np.zeros(width, np.uint64), np.arange(width, dtype=np.uint64)])


def every_oracle(k, epsilon):
    """Yield oracles with all their reports, in the order of their channels."""
    response = RandomizedResponse(k, epsilon)
    yield response, np.arange(k)
    yield two_rounds(response, Fraction(epsilon) / 2), np.arange(k)
    for variant in ("optimized", "symmetric", "threshold"):
        yield UE(k, epsilon, variant=variant), bits_of(k)
    yield two_rounds(UE(k, epsilon), Fraction(epsilon) / 2), bits_of(k)
    yield UE(k, p=Fraction(3, 4), q=Fraction(1, 5)), bits_of(k)
    for size in range(1, k):
        oracle = SubsetSelection(k, epsilon, subset_size=size)
        yield oracle, sets_of(oracle)
    for blocks in (1, 2):
        oracle = HadamardResponse(k, epsilon, n_blocks=blocks)
        yield oracle, np.arange(oracle.n_indices)
    hashing = LocalHashing(k, epsilon)
    yield hashing, seeded(len(hashing.channel()[0]))
    sketch = CountMeanSketch(k, epsilon, n_functions=8, n_buckets=5)
    yield sketch, seeded(len(sketch.channel()[0]))


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_the_posterior_of_every_report_is_bayes_rule_on_the_channel(k, epsilon):
    prior = [Fraction(value, k * (k + 1) // 2) for value in range(1, k + 1)]
    for oracle, reports in every_oracle(k, epsilon):
        joint = [[share * chance for share in row] for row, chance in zip(oracle.channel(), prior, strict=True)]
        exact = [[float(cell / sum(column)) for cell in column] for column in zip(*joint, strict=True)]
        features = posterior(oracle, reports, [float(chance) for chance in prior])
        assert features == pytest.approx(np.array(exact), rel=1e-12), type(oracle).__name__
        assert features.sum(axis=1) == pytest.approx(np.ones(len(reports)))


def test_reports_that_say_nothing_leave_the_prior():
    oracle = RandomizedResponse(3, 1e-30)
    assert posterior(oracle, np.arange(3), [0.2, 0.3, 0.5]) == pytest.approx(np.tile([0.2, 0.3, 0.5], (3, 1)))
    frame = pd.DataFrame({"a": [0, 1, 2] * 5})
    features = PosteriorFeatures(RandomizedResponseEncoder(1e-30, categories=[[0, 1, 2]])).fit(frame)
    assert features.prior_[0].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    "make",
    [
        encoder,
        lambda: encoder(strategy="joint"),
        lambda: encoder(2.0, strategy="sample"),
        lambda: UnaryEncodingTransformer(1.0, categories=CATEGORIES, random_state=0),
        lambda: UnaryEncodingTransformer(1.0, categories=CATEGORIES, output="unbiased", random_state=0),
        lambda: SubsetSelectionEncoder(1.0, categories=CATEGORIES, strategy="sample", random_state=0),
        lambda: LocalHashingEncoder(1.0, categories=CATEGORIES, strategy="joint", random_state=0),
        lambda: HadamardResponseEncoder(1.0, categories=CATEGORIES, random_state=0),
        lambda: FrequencyOracleEncoder(1.0, categories=CATEGORIES, oracle="count_mean_sketch", random_state=0),
    ],
)
def test_prior_and_features_come_from_one_release(make, rows):
    frame = pd.DataFrame(rows)
    features = PosteriorFeatures(make())
    output = features.fit_transform(frame)
    same = make().fit(frame)  # the same seed gives the same coins
    reports = same.transform(frame)
    counts = same.estimate_counts(reports, postprocess="simplex")["count"].to_numpy()
    ends = np.cumsum([len(prior) for prior in features.prior_])
    for prior, part in zip(features.prior_, np.split(counts, ends[:-1]), strict=True):
        assert prior == pytest.approx((part + 1) / (N + len(part)))
    held = PosteriorFeatures(same, privatize=False)
    np.testing.assert_allclose(held.fit_transform(reports), output)
    for block in np.split(output.to_numpy(), ends[:-1], axis=1):
        assert block.sum(axis=1) == pytest.approx(np.ones(N))


def test_an_attribute_that_is_not_reported_keeps_its_prior(rows):
    inner = encoder(2.0, strategy="sample").fit(pd.DataFrame(rows))
    reports = inner.transform(pd.DataFrame(rows))
    features = PosteriorFeatures(inner, privatize=False).fit(reports)
    output, sampled = features.transform(reports).to_numpy(), reports["sampled"].to_numpy()
    sex, job = output[:, :2], output[:, 2:]
    assert sex[sampled == 1] == pytest.approx(np.tile(features.prior_[0], ((sampled == 1).sum(), 1)))
    assert job[sampled == 0] == pytest.approx(np.tile(features.prior_[1], ((sampled == 0).sum(), 1)))
    told = reports["sex"] == "Male"
    assert (sex[told, 1] > features.prior_[0][1]).all()
    assert (sex[(sampled == 0) & ~told, 1] < features.prior_[0][1]).all()


def test_transform_keeps_the_prior_and_draws_anew(rows):
    frame = pd.DataFrame(rows)
    features = PosteriorFeatures(encoder(random_state=None)).fit(frame)
    prior = pickle.dumps(features.prior_)
    first, second = features.transform(frame), features.transform(frame)
    assert not first.equals(second)
    assert pickle.dumps(features.prior_) == prior
    assert len(features.transform(frame.head(1))) == 1


def test_every_call_is_charged_once_and_reports_that_are_held_never(rows):
    frame = pd.DataFrame(rows)
    ledger = PrivacyLedger(epsilon=1.6)
    features = PosteriorFeatures(encoder(ledger=ledger))
    features.fit_transform(frame)
    assert len(ledger.report()) == 1
    assert ledger.report()["epsilon"].tolist() == [features.guarantee_.epsilon]
    features.fit(frame)
    assert len(ledger.report()) == 2
    features.transform(frame)
    assert len(ledger.report()) == 3
    spent = ledger.spent
    for call in (features.fit, features.transform, features.fit_transform):
        with pytest.raises(BudgetExceeded):
            call(frame)
    reports = encoder().fit_transform(frame)
    held = PosteriorFeatures(features.encoder_, privatize=False).fit(reports)
    held.transform(reports)
    assert ledger.spent == spent


def test_a_refused_release_leaves_nothing_fitted(rows):
    features = PosteriorFeatures(encoder(ledger=PrivacyLedger(epsilon=0.1)))
    with pytest.raises(BudgetExceeded):
        features.fit(pd.DataFrame(rows))
    assert not hasattr(features, "prior_")
    with pytest.raises(NotFittedError):
        features.transform(pd.DataFrame(rows))


@each(
    "inner, names",
    [
        (encoder(), ["sex_Female", "sex_Male", "job_clerk", "job_missing", "job_sales"]),
        (
            encoder(strategy="joint"),
            [f"sex_job_{sex}_{job}" for sex in ("Female", "Male") for job in ("clerk", "missing", "sales")],
        ),
        (LocalHashingEncoder(categories={"sex": ["F", "M"]}), ["sex_F", "sex_M"]),
        (RandomizedResponseEncoder(categories={"age": Interval(edges=[0, 38, 99])}), ["age_[0, 38)", "age_[38, 99]"]),
    ],
)
def test_columns_are_named_after_column_and_value(inner, names, rows):
    data = {"sex": ["F", "M"]} if names[0] == "sex_F" else {"age": [1, 50]} if "age" in names[0] else rows
    features = PosteriorFeatures(inner)
    output = features.fit_transform(pd.DataFrame(data))
    assert list(output.columns) == features.get_feature_names_out().tolist() == names


def test_every_kind_of_frame_comes_back_as_it_came(make_frame, rows):
    frame = make_frame(rows, CATEGORIES)
    features = PosteriorFeatures(encoder())
    output = features.fit_transform(frame)
    assert type(output) is type(frame)
    np.testing.assert_allclose(
        np.asarray(output, float), PosteriorFeatures(encoder()).fit_transform(pd.DataFrame(rows))
    )
    reports = encoder().fit_transform(frame)
    held = PosteriorFeatures(encoder().fit(frame), privatize=False)
    assert type(held.fit_transform(reports)) is type(frame)


def test_the_index_is_kept_and_arrays_give_arrays():
    frame = pd.DataFrame({"a": [0, 1, 1]}, index=["p", "q", "r"])
    assert PosteriorFeatures(RandomizedResponseEncoder(categories=[[0, 1]])).fit_transform(frame).index.tolist() == [
        *"pqr"
    ]
    features = PosteriorFeatures(RandomizedResponseEncoder(categories=[[0, 1]]))
    output = features.fit_transform(np.array([[0], [1], [1]]))
    assert isinstance(output, np.ndarray)
    assert features.get_feature_names_out().tolist() == ["x0_0", "x0_1"]
    assert features.get_feature_names_out(["a"]).tolist() == ["a_0", "a_1"]
    assert not hasattr(features, "feature_names_in_")


def test_the_original_is_never_fitted_and_copies_work(rows):
    frame = pd.DataFrame(rows)
    inner = encoder()
    features = PosteriorFeatures(inner).fit(frame)
    assert features.encoder is inner
    assert not hasattr(inner, "guarantee_")
    assert features.guarantee_ == encoder().fit(frame).guarantee_
    assert features.n_features_in_ == 2
    assert features.feature_names_in_.tolist() == ["sex", "job"]
    copy = pickle.loads(pickle.dumps(features))
    np.testing.assert_allclose(copy.transform(frame), features.transform(frame))


def test_held_reports_cross_validate_with_a_frozen_encoder(rows):
    frame = pd.DataFrame(rows)
    inner = UnaryEncodingTransformer(4.0, categories=CATEGORIES, random_state=0).fit(frame)
    bits = inner.transform(frame)
    model = make_pipeline(PosteriorFeatures(FrozenEstimator(inner), privatize=False), LogisticRegression())
    assert cross_val_score(model, bits, frame["sex"], cv=3).mean() > 0.7
    assert model.fit(bits, frame["sex"])[0].n_features_in_ == 5
    with pytest.raises(ValueError, match="feature names"):
        model[0].transform(bits.iloc[:, 1:])


def test_a_pipeline_releases_training_rows_once_and_rows_to_predict_for_once():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], 4000)})
    y = (frame["a"] == "x").to_numpy()
    ledger = PrivacyLedger(epsilon=100)
    inner = RandomizedResponseEncoder(1.0, categories={"a": ["x", "y"]}, ledger=ledger, random_state=0)
    model = make_pipeline(PosteriorFeatures(inner), LogisticRegression()).fit(frame, y)
    assert len(ledger.report()) == 1
    # At epsilon 1, a coin is right with probability .731; 4,000 are within .035 of that but once in a million times.
    assert abs(model.score(frame, y) - 0.731) < 0.035
    assert len(ledger.report()) == 2


def test_record_ids_are_routed_to_the_encoder(rows):
    frame = pd.DataFrame(rows)
    inner = encoder(memoize=True, secret_key=SecretKey.generate(), random_state=None)
    ids = np.arange(N)
    features = PosteriorFeatures(inner)
    first = features.fit_transform(frame, record_id=ids)
    pd.testing.assert_frame_equal(features.transform(frame, record_id=ids), first)
    with pytest.raises(ValueError, match="record_id"):
        features.fit(frame)
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(PosteriorFeatures(inner.set_transform_request(record_id=True)), LogisticRegression())
        model.fit(frame, frame["sex"], record_id=ids)
        model.predict(frame, record_id=ids)


def test_mistakes_are_named_before_anything_is_charged(rows):
    frame = pd.DataFrame(rows)
    ledger = PrivacyLedger(epsilon=10)
    private = encoder(ledger=ledger)
    with pytest.raises(TypeError, match=r"privatize must be True or False, got str"):
        PosteriorFeatures(private, privatize="no").fit(frame)
    for name in ("none", "best", 3):
        with pytest.raises(ValueError, match="postprocess must be one of"):
            PosteriorFeatures(private, postprocess=name).fit(frame)
    for other in (NumericPerturber(), RapporEncoder(), OnFitOnly(private), "encoder", RandomizedResponseEncoder):
        with pytest.raises(TypeError, match="encoder must be a local transformer with frequency oracles"):
            PosteriorFeatures(other).fit(frame)
    with pytest.raises(NotFittedError):
        PosteriorFeatures(private, privatize=False).fit(frame)
    doubled = RandomizedResponseEncoder(categories={"a": ["b_c", "x"], "a_b": ["c", "y"]}, ledger=ledger)
    with pytest.raises(ValueError, match="same name"):
        PosteriorFeatures(doubled).fit(pd.DataFrame({"a": ["b_c"], "a_b": ["c"]}))
    fitted = PosteriorFeatures(encoder()).fit(frame)
    for names in (["job", "sex"], ["sex"]):
        with pytest.raises(ValueError, match="input_features"):
            fitted.get_feature_names_out(names)
    assert ledger.spent == (0, 0)


def test_errors_show_no_value_and_lazy_frames_are_refused(rows):
    features = PosteriorFeatures(encoder()).fit(pd.DataFrame(rows))
    odd = pd.DataFrame({"sex": ["secret"], "job": ["clerk"]})
    for call in (features.fit, features.transform, features.fit_transform):
        with pytest.raises(ValueError, match="column 'sex' holds a value") as caught:
            call(odd)
        assert "secret" not in str(caught.value)
        with pytest.raises(TypeError, match=r"skdp\.engines"):
            call(pl.DataFrame(rows).lazy())


# They say that fit reads nothing and releases nothing. Here it is a release: the prior is estimated from its reports.
CONTRACT = {
    "check_nothing_private_is_stored",
    "check_displays_hide_values",
    "check_fit_starts_anew",
    "check_later_parameters_wait_for_fit",
}


DRAWN_INSIDE = ("workers", "forks", "threads", "estimates", "standard")
"""What these checks are about, PosteriorFeatures leaves to the transformer inside, which has tests of its own."""


@pytest.mark.parametrize(
    "inner",
    [
        RandomizedResponseEncoder(0.5, categories=[["red", "green", None], [1, 2]]),
        pytest.param(
            SubsetSelectionEncoder(0.5, categories=[["red", "green", None], [1, 2]], strategy="sample"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            HadamardResponseEncoder(0.5, categories=[["red", "green", None], [1, 2]], strategy="joint"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_contract_of_privatizers_is_kept(inner, monkeypatch):
    kept = {name: check for name, check in _privatizer._ALL.items() if name.split("_")[1] not in DRAWN_INSIDE}
    monkeypatch.setattr(_privatizer, "_ALL", kept)
    X = pd.DataFrame({"colour": ["red", "green", None] * 2, "size": [1, 2] * 3})
    results = check_privatizer(PosteriorFeatures(inner), X, on_fail=None).set_index("check")["status"]
    # Two priors may be equal by chance, so not each of these fails each time.
    assert set(results.index[results == "failed"]) <= CONTRACT
    assert (results == "passed").sum() >= 12


ROW_ORDER = "every row draws its own coins, so the output of a row depends on its place in the call"
EXPECTED_FAILURES = {
    "check_methods_sample_order_invariance": ROW_ORDER,
    "check_methods_subset_invariance": ROW_ORDER,
}
DATAFRAME_CHECKS = [
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_dataframe_column_names_consistency",
]


@pytest.mark.filterwarnings("ignore::skdp.PrivacyLeakWarning")
def test_scikit_learn_checks():
    estimator = PosteriorFeatures(RandomizedResponseEncoder(random_state=0))
    results = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILURES, on_skip=None)
    assert {one["check_name"] for one in results if one["status"] == "xfail"} == EXPECTED_FAILURES.keys()


@pytest.mark.filterwarnings("ignore::skdp.PrivacyLeakWarning", "ignore:X (does not have|has)")
@pytest.mark.parametrize("name", DATAFRAME_CHECKS)
def test_dataframe_checks(name):
    getattr(estimator_checks, name)(
        "PosteriorFeatures", clone(PosteriorFeatures(UnaryEncodingTransformer(random_state=0)))
    )
