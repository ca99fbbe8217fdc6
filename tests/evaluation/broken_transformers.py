"""Faults of published local transformers: the claimed privacy is not kept.

They privatize columns of whole numbers, as the originals do; `guarantee_` is the claim.
"""

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from skdp.privacy import PrivacyGuarantee


class Broken:
    """Base: values 0 .. k - 1 of a column, random bits that advance with each call."""

    def __init__(self, epsilon=1.0, k=4, seed=0):
        self.epsilon, self.k, self.seed = epsilon, k, seed
        self.guarantee_ = PrivacyGuarantee(epsilon)
        self.rng = np.random.default_rng(seed)

    def transform(self, X):
        return self.report(X["value"].to_numpy())

    @property
    def truth(self):
        """Return the probability of a truthful report of k-ary randomized response."""
        return math.exp(self.epsilon) / (math.exp(self.epsilon) + self.k - 1)

    def respond(self, values, truth, k):
        """Report truthfully with a probability, and otherwise another value."""
        lies = (values + self.rng.integers(1, k, len(values))) % k
        return np.where(self.rng.random(len(values)) < truth, values, lies)


class TrueValueFirst(Broken):
    """multi-freq-ldpy 0.2.5, subset selection: the true value, if included, is the first of the list."""

    place, size = 0, 4

    def __init__(self, epsilon=1.0, k=14, seed=0):
        super().__init__(epsilon, k, seed)

    @property
    def inclusion(self):
        return self.size * math.exp(self.epsilon) / (self.size * math.exp(self.epsilon) + self.k - self.size)

    def report(self, values):
        keys = self.rng.random((len(values), self.k))
        keys[np.arange(len(values)), values] = 2.0  # the true value last, if it is drawn
        others = np.argsort(keys, axis=1)[:, : self.size]
        own = self.rng.random(len(values)) < self.inclusion
        others[own, self.place] = values[own]
        return pd.DataFrame({"subset": list(others.tolist())})


class RedrawnReports(Broken):
    """multi-freq-ldpy, longitudinal: the permanent report is drawn again in each call."""

    def report(self, values):
        return pd.DataFrame({"value": self.respond(values, self.truth, self.k)})


class RoundedToIdentity(Broken):
    """pure-ldp and further libraries: for epsilon above 38, the probability of the truth is 1.0 as a float."""

    def __init__(self, epsilon=40.0, k=4, seed=0):
        super().__init__(epsilon, k, seed)

    def report(self, values):
        return pd.DataFrame({"value": self.respond(values, self.truth, self.k)})

    def channel(self):
        p = Fraction(self.truth)
        return [[[p if v == r else (1 - p) / (self.k - 1) for r in range(self.k)] for v in range(self.k)]]


class KnownSeed(Broken):
    """Most libraries: the seed is public, and each client starts from it."""

    def report(self, values):
        self.rng = np.random.default_rng(self.seed)
        return pd.DataFrame({"value": self.respond(values, self.truth, self.k)})


class MissingPassesThrough(Broken):
    """Many: a missing value is not randomized."""

    def transform(self, X):
        values = X["value"].to_numpy(float)
        gone = np.isnan(values)
        reports = self.respond(np.where(gone, 0, values).astype(int), self.truth, self.k).astype(float)
        return pd.DataFrame({"value": np.where(gone, np.nan, reports)})


class RaisesOnUnknown(RedrawnReports):
    """Many: a value outside the domain raises an error, which reveals it."""

    def report(self, values):
        if (values >= self.k).any():
            raise ValueError("not declared")
        return super().report(values)


def one(value):
    """Make a table of one record."""
    return pd.DataFrame({"value": [value]})
