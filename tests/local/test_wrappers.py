"""Models of reports: rows of fit are privatized and later rows are not, or features are posteriors of the reports."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import BudgetExceeded, OnFitOnly, PrivacyLedger, RandomizedResponseEncoder, RapporEncoder
from skdp.local import (
    LocalHashingEncoder,
    NumericPerturber,
    PosteriorFeatures,
    SecretKey,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from tests.conftest import diagonal
from tests.errors import refusal
from tests.oracles.conftest import all_reports, floats

CATEGORIES = {"sex": ["Female", "Male"], "job": ["clerk", None, "sales"]}
N = 400


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    columns = {name: np.array(values, object) for name, values in CATEGORIES.items()}
    return pd.DataFrame({name: values[rng.integers(len(values), size=N)] for name, values in columns.items()})


def encoder(epsilon=0.5, **parameters):
    return RandomizedResponseEncoder(epsilon, **{"categories": CATEGORIES} | parameters)


def seeded_encoder(epsilon=0.5, **parameters):
    return encoder(epsilon, **{"random_state": 0} | parameters)


def test_on_fit_only_charges_each_fit_and_passes_later_rows(frame):
    ledger = PrivacyLedger(epsilon=1.2)
    wrapped = OnFitOnly(encoder(ledger=ledger)).fit(frame)
    # `transform` after `fit` returns the true rows, as documented.
    assert wrapped.transform(frame).equals(frame)
    assert ledger.spent == (0, 0)
    first, second = wrapped.fit_transform(frame), wrapped.fit_transform(frame)
    assert not first.equals(second)
    assert not first.equals(frame)
    assert wrapped.transform(frame).equals(frame)
    assert ledger.charges()["epsilon"].tolist() == [wrapped.guarantee_.epsilon] * 2
    with pytest.raises(BudgetExceeded):
        clone(wrapped).fit_transform(frame)


@pytest.mark.parametrize(
    "inner", [LocalHashingEncoder(categories=CATEGORIES), encoder(strategy="sample")], ids=["hashing", "sample"]
)
def test_encoder_with_random_transform_raises_an_error(inner, frame):
    for method in ("fit", "fit_transform"):
        with refusal(ValueError, r"no encoding without noise|`strategy='sample'`") as ledger:
            getattr(OnFitOnly(inner.set_params(ledger=ledger)), method)(frame)


KINDS = [
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
    partial(UnaryEncodingTransformer, variant="symmetric"),
    partial(UnaryEncodingTransformer, memoize=True, secret_key=SecretKey(bytes(32)), instantaneous_epsilon=0.005),
    SubsetSelectionEncoder,
    LocalHashingEncoder,
]


@pytest.mark.parametrize(("kind", "epsilon", "k"), diagonal(KINDS, [0.01, 1.0, 6.0], [2, 5]))
def test_posterior_features_follow_bayes_rule(kind, epsilon, k):
    inner = kind(epsilon, categories=[range(k)], random_state=0)
    rows = np.resize(np.arange(k), (200, 1))
    ids = {"person": np.arange(200)} if getattr(inner, "memoize", False) else {}
    features = PosteriorFeatures(inner)
    found = features.fit_transform(rows, **ids)
    reports = clone(inner).fit(rows).transform(rows, **ids)  # the same seed gives the same reports
    (oracle,) = features.encoder_.oracles_
    if not oracle.shows_hash:
        order = list(map(tuple, all_reports(oracle).reshape(-1, oracle.width).tolist()))
        channel = floats(oracle.channel())
    for report, row in zip(map(tuple, reports.astype(np.int64).tolist()), found, strict=True):
        likelihoods = floats(oracle.channel(report[0])) if oracle.shows_hash else channel
        index = report[1] if oracle.shows_hash else order.index(report)
        joint = likelihoods[:, index] * features.prior_[0]
        assert row == pytest.approx(joint / joint.sum(), rel=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        seeded_encoder,
        lambda: seeded_encoder(2.0, strategy="sample"),
        lambda: LocalHashingEncoder(1.0, categories=CATEGORIES, strategy="joint", random_state=0),
    ],
)
def test_prior_and_features_come_from_one_release(make, frame):
    features = PosteriorFeatures(make())
    output = features.fit_transform(frame)
    same = make().fit(frame)  # the same seed gives the same reports
    reports = same.transform(frame)
    counts = same.estimate_counts(reports, postprocess="simplex")["count"].to_numpy()
    ends = np.cumsum([len(prior) for prior in features.prior_])
    for prior, part in zip(features.prior_, np.split(counts, ends[:-1]), strict=True):
        assert prior == pytest.approx((part + 1) / (N + len(part)))
    for block in np.split(output.to_numpy(), ends[:-1], axis=1):
        assert block.sum(axis=1) == pytest.approx(np.ones(N))


def test_each_call_is_charged_once(frame):
    ledger = PrivacyLedger(epsilon=1.6)
    features = PosteriorFeatures(seeded_encoder(ledger=ledger))
    features.fit_transform(frame)
    assert len(ledger.charges()) == 1
    assert ledger.charges()["epsilon"].tolist() == [features.guarantee_.epsilon]
    features.fit(frame)
    assert len(ledger.charges()) == 2
    features.transform(frame)
    assert len(ledger.charges()) == 3
    for call in (features.fit, features.transform, features.fit_transform):
        with pytest.raises(BudgetExceeded):
            call(frame)


def test_record_ids_are_routed_to_the_encoder(frame):
    inner = seeded_encoder(memoize=True, secret_key=SecretKey.generate(), random_state=None)
    ids = np.arange(N)
    features = PosteriorFeatures(inner)
    first = features.fit_transform(frame, person=ids)
    pd.testing.assert_frame_equal(features.transform(frame, person=ids), first)
    with pytest.raises(ValueError, match="person"):
        features.fit(frame)
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(PosteriorFeatures(inner.set_transform_request(person=True)), LogisticRegression())
        model.fit(frame, frame["sex"], person=ids)
        model.predict(frame, person=ids)


def test_invalid_input_raises_before_charge(frame):
    fitted = OnFitOnly(seeded_encoder())
    for other in (NumericPerturber(), RapporEncoder(), fitted, "encoder", RandomizedResponseEncoder):
        with pytest.raises(TypeError, match="`encoder` must be a local transformer with frequency oracles"):
            PosteriorFeatures(other).fit(frame)
    with refusal(ValueError, "must have different names") as ledger:
        doubled = RandomizedResponseEncoder(categories={"a": ["b_c", "x"], "a_b": ["c", "y"]}, ledger=ledger)
        PosteriorFeatures(doubled).fit(pd.DataFrame({"a": ["b_c"], "a_b": ["c"]}))


def test_posterior_of_an_unreported_attribute_is_the_prior(frame):
    inner = seeded_encoder(2.0, strategy="sample")
    reports = inner.fit_transform(frame)  # the same seed gives the same reports
    features = PosteriorFeatures(inner)
    output, sampled = features.fit_transform(frame).to_numpy(), reports["sampled"].to_numpy()
    sex, job = output[:, :2], output[:, 2:]
    assert sex[sampled == 1] == pytest.approx(np.tile(features.prior_[0], ((sampled == 1).sum(), 1)))
    assert job[sampled == 0] == pytest.approx(np.tile(features.prior_[1], ((sampled == 0).sum(), 1)))
    is_male = reports["sex"] == "Male"
    assert (sex[is_male, 1] > features.prior_[0][1]).all()
    assert (sex[(sampled == 0) & ~is_male, 1] < features.prior_[0][1]).all()
