"""More faults of published local transformers, re-created, for benchmarks/audit.py."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd

from tests.evaluation.broken_transformers import Broken, RedrawnReports, TrueValueFirst


class TrueValueLast(TrueValueFirst):
    """LDP3, subset selection: it is the last."""

    place = -1


class DrawnAgain(Broken):
    """minilek, subset selection: where the true value is excluded, it can be drawn again."""

    def __init__(self, epsilon=1.0, k=16, seed=0):
        super().__init__(epsilon, k, seed)
        self.size = round(k / (math.exp(epsilon) + 1))

    def report(self, values):
        p = (
            self.size
            * math.exp(self.epsilon)
            / (self.size * math.exp(self.epsilon) + self.k - self.size)
        )
        keys = self.rng.random((len(values), self.k))
        own = self.rng.random(len(values)) < p
        keys[own, values[own]] = -1.0
        bits = np.zeros((len(values), self.k), np.uint8)
        np.put_along_axis(bits, np.argsort(keys, axis=1)[:, : self.size], 1, axis=1)
        return pd.DataFrame(bits)


class OwnBitTwice(Broken):
    """pure-ldp up to 1.1.2, unary encoding: the own bit is 1 with probability q + (1 - q) p."""

    def report(self, values):
        p = math.exp(self.epsilon / 2) / (math.exp(self.epsilon / 2) + 1)
        bits = self.rng.random((len(values), self.k)) < 1 - p
        bits[np.arange(len(values)), values] |= self.rng.random(len(values)) < p
        return pd.DataFrame(bits.astype(np.uint8))


class OffByOne(Broken):
    """pure-ldp, direct encoding: the default index mapping takes values from 1, so value 0 is reported as -1."""

    def report(self, values):
        index = values - 1
        lies = (
            np.maximum(index, 0) + self.rng.integers(1, self.k, len(values))
        ) % self.k
        return pd.DataFrame(
            {"value": np.where(self.rng.random(len(values)) < self.truth, index, lies)}
        )


class IgnoredHashes(Broken):
    """pure-ldp, RAPPOR: f is computed as if there were one hash function."""

    bits, hashes = 8, 2

    def report(self, values):
        places = (
            values[:, np.newaxis] * self.hashes + np.arange(self.hashes)
        ) % self.bits
        filters = np.zeros((len(values), self.bits), bool)
        np.put_along_axis(filters, places, True, axis=1)
        flip = 1 / (math.exp(self.epsilon / 2) + 1)
        return pd.DataFrame(
            (filters ^ (self.rng.random(filters.shape) < flip)).astype(np.uint8)
        )


class AmplifiedTuples(Broken):
    """RS+FD: one attribute of five is reported with an amplified epsilon, the others are made up."""

    columns = 5

    def transform(self, X):
        values = X.to_numpy()
        amplified = math.log(self.columns * (math.exp(self.epsilon) - 1) + 1)
        truth = math.exp(amplified) / (math.exp(amplified) + 1)
        made_up = self.rng.integers(0, 2, values.shape)
        rows, chosen = (
            np.arange(len(values)),
            self.rng.integers(0, self.columns, len(values)),
        )
        made_up[rows, chosen] = self.respond(values[rows, chosen], truth, 2)
        return pd.DataFrame(made_up, columns=X.columns)


class WarnsOnUnknown(RedrawnReports):
    """A warning shows as much."""

    def report(self, values):
        if (values >= self.k).any():
            warnings.warn("replaced a value", stacklevel=2)
        return super().report(values % self.k)


class NameShows(RedrawnReports):
    """The name of the column shows the value."""

    def report(self, values):
        return super().report(values).rename(columns={"value": f"value_{values.max()}"})
