"""Ways to leak beside the reports of a correct transformer: what it keeps, says and shows, and on which tables."""

from __future__ import annotations

import logging
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd

from skdp import RandomizedResponseEncoder


class Leaky(RandomizedResponseEncoder):
    """Base: what is fitted, and what is transformed, is passed through two functions."""

    domain: ClassVar[dict] = {"value": [0, 1, 2, 3]}
    unknown: ClassVar[str] = "error"

    @classmethod
    def made(cls):
        return cls(1.0, categories=cls.domain, handle_unknown=cls.unknown)

    def fit(self, X, y=None):
        super().fit(X, y)
        self.learn(X)
        return self

    def transform(self, X, **ids):
        return self.leak(X, super().transform(X, **ids))

    def learn(self, X):
        pass

    def leak(self, X, released):
        return released


def first_of(X):
    """Return the first value of a table of any kind."""
    if isinstance(X, pd.DataFrame):
        return X.iloc[0, 0] if len(X) else None
    if isinstance(X, np.ndarray):
        return X[0, 0] if len(X) else None
    column = X["value"]
    return column.to_pylist()[0] if hasattr(column, "to_pylist") else column[0]


class KeepsRowsPrivately(Leaky):
    def learn(self, X):
        self._rows = np.asarray(X).tolist()


class PickleHoldsRows(Leaky):
    held: ClassVar[dict] = {}

    def learn(self, X):
        self.held[id(self)] = np.asarray(X).tolist()

    def __getstate__(self):
        return super().__getstate__() | {"_state": self.held.get(id(self))}


class Warns(Leaky):
    def leak(self, X, released):
        if first_of(X) == 0:
            warnings.warn("a record is odd", stacklevel=2)
        return released


class Prints(Leaky):
    def leak(self, X, released):
        if first_of(X) == 0:
            print("a record is odd")
        return released


class Logs(Leaky):
    def leak(self, X, released):
        logging.getLogger("leaky").debug("the first row is %s", first_of(X))
        return released


LEAKS = Leaky.__subclasses__()
