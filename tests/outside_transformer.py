"""A local transformer as another package would write it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from skdp import Domain, PrivacyGuarantee
from skdp.exact import exp_bounds, log_upper
from skdp.local import Field, ReportProtocol, ReportTransformer
from skdp.randomness import ONE, bernoulli_ratio, uniform_integers


@dataclass(frozen=True, eq=False)
class OutsideField(Field):
    """The position of a value in the domain, or with some probability (times 2^64) of a uniform value."""

    columns: tuple[Any, ...]
    values: Any
    lie: int
    epsilon: float
    shape = property(lambda self: (len(self.values),))

    def names(self, inputs=None):
        return [f"{name}_report" for name in inputs or self.columns]

    def prepare(self, columns):
        return [self._checked(self.values.encode(columns[0]), "holds a value that is not declared")]

    def _checked(self, codes, fault):
        if not np.isin(codes, range(len(self.values))).all():
            raise ValueError(f"Column {self.columns[0]!r} {fault}")
        return codes

    def report(self, codes, randomness):
        source, size = randomness("report", *self.columns), len(self.values)
        lies = bernoulli_ratio(source, self.lie, ONE, codes[0].size)
        return np.where(lies, uniform_integers(source, size, codes[0].size), codes[0]).astype(np.int64)

    def write(self, reports, like, drawn):
        return [reports]

    def read(self, columns, rows):
        codes = np.asarray(columns[0])
        if codes.dtype.kind not in "iu":
            raise ValueError("the reports hold something else than whole numbers")
        return self._checked(codes[rows], "holds something else than reports")

    def sums(self, reports):
        return np.bincount(reports, minlength=len(self.values))

    def estimate(self, sums, size, n_reports):
        q, gain = self.lie / ONE / len(self.values), 1 - self.lie / ONE
        truth, share = (sums - size * q) / gain, q * (1 - q)
        errors = np.sqrt(size * share + np.clip(truth, 0, size) * ((gain + q) * (1 - gain - q) - share)) / gain
        return pd.DataFrame({"count": truth, "std_error": errors}, index=self.values.labels)

    def parameters(self):
        return {"lie": self.lie}

    def declared(self):
        return {"categories": {self.columns[0]: self.values}}


class OutsideTransformer(ReportTransformer):
    field = OutsideField

    def __init__(self, epsilon=1.0, *, categories=None, ledger=None, random_state=None):
        self.epsilon, self.categories, self.ledger, self.random_state = epsilon, categories, ledger, random_state

    def _make_protocol(self, table):
        given = self.categories
        domain = Domain(given if hasattr(given, "keys") else dict(zip(table.names, given, strict=True)))
        odds = exp_bounds(Fraction(self.epsilon) / len(domain.columns))[0]
        lies = tuple(math.ceil(ONE * k / (odds + k - 1)) for k in domain.sizes)
        ratios = [
            1 + (1 - Fraction(lie, ONE)) / Fraction(lie, ONE) * k for k, lie in zip(domain.sizes, lies, strict=True)
        ]
        secure = self.random_state is None
        guarantee = PrivacyGuarantee(
            log_upper(math.prod(ratios)), scope=domain.columns, mechanism="randomized values", secure=secure
        )
        fields = [
            self.field((name,), domain[name], lie, log_upper(ratio))
            for name, lie, ratio in zip(domain.columns, lies, ratios, strict=True)
        ]
        return ReportProtocol("OutsideTransformer", tuple(fields), guarantee)

    def estimate_counts(self, reports):
        tally = self.tally(reports)
        return self.protocol_.estimate(tally)
