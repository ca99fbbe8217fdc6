"""Statistics of a column of whole numbers from 0 to 10, each with a fault: their loss is larger than stated."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skdp.base import make_source
from skdp.privacy import PrivacyGuarantee, gaussian_epsilon
from skdp.randomness import bernoulli_ratio, cube_noise, discrete_laplace, exponential_mechanism, rounded_gaussian

TOP = 10
TABLE = pd.DataFrame({"value": [0, 10, 10, 3, 7, 7, 9, 10]})


class Curator(BaseEstimator):
    """Base without a fault: the sum of the values, with discrete Laplace noise for the change by one row."""

    relation, delta, rho = "add_remove", 0.0, None

    def __init__(self, epsilon=1.0, ledger=None, random_state=None):
        self.epsilon = epsilon
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X, y=None):
        values = np.clip(X["value"].to_numpy(), 0, TOP)
        self.guarantee_ = self.make_guarantee(values)
        if self.ledger is not None:
            self.ledger.charge(self.guarantee_, "statistic")
        self._source = make_source(self.random_state, "statistic")
        self.result_ = self.answer(values)
        del self._source
        return self

    def make_guarantee(self, values):
        return PrivacyGuarantee(
            self.epsilon,
            delta=self.delta,
            relation=self.relation,
            trust="central",
            mechanism="Laplace",
            secure=self.random_state is None,
            scope=("value",),
            rho=self.rho,
        )

    def answer(self, values):
        return self.noisy([values.sum()], TOP)

    def noisy(self, numbers, sensitivity, epsilon=None):
        scale = Fraction(sensitivity) / Fraction(self.epsilon if epsilon is None else epsilon)
        return np.array(numbers) + discrete_laplace(self._source, scale, len(numbers))


def warn_of_few_rows(self, values):
    if len(values) < 8:
        warnings.warn("there are few rows", stacklevel=2)
    return Curator.answer(self, values)


def raise_on_few_rows(self, values):
    if len(values) < 8:
        raise ValueError("there are too few rows")
    return Curator.answer(self, values)


class StatesLessWithMoreRows(Curator):
    """The guarantee depends on the number of rows."""

    def make_guarantee(self, values):
        return PrivacyGuarantee(8 / max(len(values), 1), relation="add_remove", trust="central", mechanism="?")


class MuTwice(Curator):
    """Two sums, each with Gaussian noise for the whole guarantee."""

    delta = 1e-6

    def make_guarantee(self, values):
        return replace(super().make_guarantee(values), epsilon=gaussian_epsilon(self.epsilon, self.delta))

    def answer(self, values):
        numbers = values.sum(), (TOP * (values > 0)).sum()
        variance = Fraction(TOP) ** 2 / Fraction(self.epsilon) ** 2
        return [number + rounded_gaussian(self._source, variance, 1) for number in numbers]


class LargestNormForEuclidean(Curator):
    """Three sums change together, but the variance is the variance for one."""

    delta, rho = 1e-6, 0.05

    def __init__(self, epsilon=1.8, ledger=None, random_state=None):
        super().__init__(epsilon, ledger, random_state)

    def answer(self, values):
        sums = np.array([values.sum(), 2 * (values // 2).sum(), (values * values // TOP).sum()])
        return sums + rounded_gaussian(self._source, Fraction(TOP**2) / Fraction(2 * self.rho), 3)


def count_all_rows_of_a_sample(self, values):
    """The loss is amplified by a sample, which is drawn, but the answer uses all rows."""
    bernoulli_ratio(self._source, 1, 2, len(values))
    amplified = Fraction(math.log(1 + 2 * math.expm1(self.epsilon)))
    return self.noisy([2 * values.sum()], TOP, amplified)


def count(values):
    return np.bincount(values, minlength=TOP + 1)


ANSWERS = {
    "number of rows as an attribute": lambda self, values: (
        setattr(self, "n_samples_", len(values)) or self.noisy([values.sum()], TOP)
    ),
    "warning by the exact count": warn_of_few_rows,
    "error by the exact count": raise_on_few_rows,
    "another distribution of the noise for few rows": lambda self, values: (
        self.noisy([values.sum()], TOP) if len(values) > 7 else values.sum() + rounded_gaussian(self._source, TOP**2, 1)
    ),
    "loss of a sample without a sample": count_all_rows_of_a_sample,
    "noise for values up to 9": lambda self, values: self.noisy([values.sum()], TOP - 1),
    "epsilon twice": lambda self, values: [self.noisy([values.sum()], TOP), self.noisy([len(values)], 1)],
    "empty cells are exact": lambda self, values: np.where(count(values) == 0, 0, self.noisy(count(values), 1)),
    "noise of whole numbers on fractions": lambda self, values: self.noisy([(values / 3).sum()], TOP),
    "draws for each row": lambda self, values: [self.noisy([len(values)], 1, Fraction(1, 100)) for _ in values],
    "scale of the rows": lambda self, values: self.noisy([values.sum()], TOP * (1 + len(values))),
    "noise for each row, and whether all are large": lambda self, values: (self.noisy(values, 1) > -1000).all(),
    "choice of a row by its value": lambda self, values: (
        exponential_mechanism(self._source, values, Fraction(self.epsilon) / (2 * TOP)) >= 0
    ),
    "Gaussian noise without delta": lambda self, values: (
        np.array([values.sum()]) + rounded_gaussian(self._source, 100 * TOP**2, 1)
    ),
    "cube noise with the sensitivity of the count": lambda self, values: (
        np.array([len(values), values.sum()]) + cube_noise(self._source, 1 / Fraction(self.epsilon), 2)[0]
    ),
    "choice by scores that go both up and down": lambda self, values: exponential_mechanism(
        self._source, count(values) - np.roll(count(values), 1), Fraction(self.epsilon)
    ),
    "noise of a float generator": lambda self, values: (
        values.sum() + np.random.default_rng(self.random_state).laplace(0, TOP / self.epsilon)
    ),
}
FAULTS = {fault.__name__: fault for fault in Curator.__subclasses__()}
FAULTS |= {name: type(name, (Curator,), {"answer": answer}) for name, answer in ANSWERS.items()}
# A histogram with noise for an added row, stated for a replaced one.
FAULTS["a replacement"] = type(
    "Replacement", (Curator,), {"relation": "replace", "answer": lambda self, values: self.noisy(count(values), 1)}
)
