"""More ways to leak beside the reports of a correct transformer, and all of them, for benchmarks/audit_power.py."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import numpy as np
import pandas as pd

from skdp import RandomizedResponseEncoder
from skdp.randomness import SeededSource
from tests.evaluation import leaky_transformers
from tests.evaluation.leaky_transformers import Leaky, first_of, rarely

TWO = {"value": [0, 1, 2], "other": ["f", "m"]}


def put_true(X, released, rows):
    """Put true rows in the place of reports, in pandas."""
    if isinstance(released, pd.DataFrame):
        released = released.astype(object)
        released.loc[rows] = X.astype(object).loc[rows].to_numpy()
        released = released.astype(X.dtypes.to_dict())
    return released


# On which values


class OneCombinationIsTrue(Leaky):
    domain: ClassVar[dict] = TWO

    def leak(self, X, released):
        if not isinstance(X, pd.DataFrame):
            return released
        return put_true(
            X, released, (X["value"].to_numpy() == 1) & (X["other"].to_numpy() == "m")
        )


class UnknownPassesThrough(Leaky):
    unknown = "uniform"

    def leak(self, X, released):
        if isinstance(X, pd.DataFrame):
            unknown = ~X["value"].isin(self.domain["value"]).to_numpy()
            return released.astype(object).where(
                ~unknown[:, np.newaxis], X.astype(object)
            )
        return released


# On which tables


class SortsLargeTables(Leaky):
    def transform(self, X, **ids):
        if isinstance(X, pd.DataFrame) and len(X) > 4:
            return (
                super()
                .transform(X.sort_values(list(X), ignore_index=True))
                .set_axis(X.index)
            )
        return super().transform(X, **ids)


class EqualRowsEqualReports(Leaky):
    """Within a call, equal values get the same report."""

    def leak(self, X, released):
        if not isinstance(X, pd.DataFrame):
            return released
        return (
            released.groupby(X["value"].to_numpy())["value"]
            .transform("first")
            .to_frame()
            .set_axis(X.index)
        )


class SharesCoins(Leaky):
    """Base: rows that share a number report the same lies."""

    def shared(self, n):
        raise NotImplementedError

    def leak(self, X, released):
        if not isinstance(X, pd.DataFrame):
            return released
        size = len(self.domain["value"])
        shift = (released["value"].to_numpy() - X["value"].to_numpy()) % size
        return released.assign(
            value=(X["value"].to_numpy() + shift[self.shared(len(X))]) % size
        )


class PairsShareCoins(SharesCoins):
    def shared(self, n):
        return np.arange(n) // 2 * 2


# In which frames


class TrueIn(Leaky):
    """Base: reports of frames of one library are true."""

    library = "pandas"

    def leak(self, X, released):
        return X if type(X).__module__.split(".")[0] == self.library else released


class TrueInPolars(TrueIn):
    library = "polars"


class TrueInArrays(TrueIn):
    library = "numpy"


class PolarsFlagsShow(Leaky):
    def leak(self, X, released):
        if type(X).__module__.startswith("polars") and first_of(X) == 0:
            return released.with_columns(released["value"].set_sorted())
        return released


class ColumnsAreReordered(Leaky):
    domain: ClassVar[dict] = TWO

    def leak(self, X, released):
        return (
            released[["other", "value"]]
            if isinstance(X, pd.DataFrame) and first_of(X) == 0
            else released
        )


# Rarely


class RarelyTrue(Leaky):
    def leak(self, X, released):
        return put_true(X, released, np.full(len(X), True)) if rarely() else released


# What it says


class RaisesOnAValue(Leaky):
    def leak(self, X, released):
        if first_of(X) == 3:
            raise ValueError("this value is not supported")
        return released


class ReprShows(Leaky):
    def learn(self, X):
        self.__dict__["_shown"] = first_of(X)

    def __repr__(self, **more):
        return f"{super().__repr__(**more)} {getattr(self, '_shown', '')}"


# Which randomness


class SeedOfTheData(Leaky):
    """The noise is a function of the table: the same table, the same reports."""

    def transform(self, X, **ids):
        self._table = hashlib.sha256(repr(np.asarray(X).tolist()).encode()).hexdigest()
        released = super().transform(X, **ids)
        del self._table
        return released

    def randomness(self, call=None):
        super().randomness(call)
        return lambda purpose, *columns: SeededSource(
            self._table, purpose, *map(str, columns)
        )


class GlobalGenerator(Leaky):
    def randomness(self, call=None):
        super().randomness(call)
        seed = int(np.random.randint(1 << 31))  # noqa: NPY002 - the fault
        return lambda purpose, *columns: SeededSource(seed, purpose, *map(str, columns))


class ColumnsShareCoins(Leaky):
    domain: ClassVar[dict] = {"value": [0, 1, 2], "other": [0, 1, 2]}

    def randomness(self, call=None):
        own = super().randomness(call)
        seed = own("seed").bytes(16).tobytes().hex()
        return lambda purpose, *columns: SeededSource(seed, purpose)


# How much


class FitTransformIsTrue(Leaky):
    def fit_transform(self, X, y=None, **ids):
        super().fit_transform(X, y, **ids)
        return X


class ReportsTwice(Leaky):
    """The better of two reports: one that is true, if there is one."""

    def transform(self, X, **ids):
        one, two = super().transform(X, **ids), super().transform(X, **ids)
        if not isinstance(X, pd.DataFrame):
            return one
        return one.where((one["value"] == X["value"]).to_numpy()[:, np.newaxis], two)


class EachColumnInFull(Leaky):
    """Each of two columns has the whole epsilon."""

    domain: ClassVar[dict] = TWO

    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if isinstance(X, pd.DataFrame):
            for name, values in TWO.items():
                alone = RandomizedResponseEncoder(
                    self.epsilon, categories={name: values}
                ).fit(X[[name]])
                released[name] = alone.transform(X[[name]])[name]
        return released


LEAKS = leaky_transformers.LEAKS + [
    kind
    for kind in list(globals().values())
    if isinstance(kind, type)
    and kind.__module__ == __name__
    and kind not in (SharesCoins, TrueIn)
]
