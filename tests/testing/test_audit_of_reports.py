"""`check_privatizer` audits what states no channel: it finds a transformer that states 4/5 of its true epsilon."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

from skdp import PrivacyGuarantee
from skdp.testing import privatizer_checks
from tests.conftest import often

CHECK = "check_reports"


class Outside(TransformerMixin, BaseEstimator):
    """A transformer as another author writes it, with NumPy and without a channel."""

    def __init__(self, epsilon=1.0, categories=None, stated=1.0, random_state=None):
        self.epsilon = epsilon
        self.categories = categories
        self.stated = stated
        self.random_state = random_state

    def fit(self, X, y=None):
        scope = tuple(X.columns)
        self.guarantee_ = PrivacyGuarantee(self.stated * self.epsilon, scope=scope, mechanism="outside", secure=False)
        self.rng_ = np.random.default_rng(self.random_state)
        return self

    def transform(self, X):
        reports = {}
        for name in X.columns:
            values = np.array(self.categories[name], object)
            codes = pd.Index(values).get_indexer(X[name])
            reports |= self.report(name, values, codes, self.epsilon / len(X.columns))
        return pd.DataFrame(reports, index=X.index)


class Labels(Outside):
    """Randomized response."""

    def report(self, name, values, codes, epsilon):
        k = len(values)
        lie = self.rng_.random(codes.size) < k / (math.exp(epsilon) + k - 1)
        return {name: values[np.where(lie, self.rng_.integers(k, size=codes.size), codes)]}


class Numbers(Outside):
    """Discrete Laplace noise."""

    def report(self, name, values, codes, epsilon):
        share = -math.expm1(-epsilon / (values[-1] - values[0]))
        noise = self.rng_.geometric(share, codes.size) - self.rng_.geometric(share, codes.size)
        return {name: values[codes].astype(int) + noise}


class Floats(Outside):
    """Laplace noise in floats, whose lowest bits show the value (Mironov 2012)."""

    def report(self, name, values, codes, epsilon):
        width = float(values[-1] - values[0])
        return {name: values[codes].astype(float) + self.rng_.laplace(0, width / epsilon, codes.size)}


def categories(*sizes):
    return {f"column {place}": [f"v{code}" for code in range(size)] for place, size in enumerate(sizes)}


KINDS = {
    "two labels": Labels(categories=categories(2)),
    "four labels": Labels(categories=categories(4)),
    "two columns": Labels(categories=categories(4, 3)),
    "numbers": Numbers(categories={"x": [0, 5, 10]}),
}


def audit(estimator, **parameters):
    dict(privatizer_checks(estimator.set_params(**parameters)))[CHECK]()


@pytest.mark.long
@pytest.mark.parametrize("kind", often(KINDS, ["two labels", "numbers"]))
def test_a_true_statement_passes_and_four_fifths_of_it_do_not(kind):
    for epsilon in (0.5, 3.0):
        audit(KINDS[kind], epsilon=epsilon, stated=1.0)
        with pytest.raises(AssertionError, match=rf"{CHECK}: the epsilon of an audit must be at most"):
            audit(KINDS[kind], epsilon=epsilon, stated=0.8)


def test_noise_in_floats_is_found():
    with pytest.raises(AssertionError, match="the lowest bit"):
        audit(Floats(categories={"x": [0, 5, 10]}))
