"""A local transformer as another package would write it: nothing in skdp knows it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from skdp import Domain, PrivacyGuarantee
from skdp.exact import exp_bounds, log_upper
from skdp.local import ReportProtocol, ReportTransformer
from skdp.randomness import ONE, bernoulli_ratio, uniform_integers


@dataclass(frozen=True, eq=False)
class SaidTally:
    counts: tuple

    n_reports = property(lambda self: int(self.counts[0].sum()))

    def __add__(self, other):
        return SaidTally(tuple(one + two for one, two in zip(self.counts, other.counts, strict=True)))

    def sums(self):
        return list(self.counts)

    def with_sums(self, sums):
        return SaidTally(tuple(sums))


@dataclass(frozen=True, eq=False)
class SaidProtocol(ReportProtocol):
    """The position of a value in its domain, or with some probability (of 2^64) that of a uniform one."""

    domain: Domain
    lies: tuple[int, ...]
    guarantee: PrivacyGuarantee
    report_columns = property(lambda self: [f"{name}_said" for name in self.columns])

    def prepare(self, table):
        return self._checked(self.domain.encode(table.columns), "holds a value that is not declared")

    def _checked(self, codes, fault):
        for name, size, column in zip(self.columns, self.domain.sizes, codes, strict=True):
            if not np.isin(column, range(size)).all():
                raise ValueError(f"column {name!r} {fault}")
        return codes

    def randomise(self, codes, records, randomness):
        reports = []
        for name, size, lie, column in zip(self.columns, self.domain.sizes, self.lies, codes, strict=True):
            source = randomness("report", name)
            lies = bernoulli_ratio(source, lie, ONE, column.size)
            reports.append(np.where(lies, uniform_integers(source, size, column.size), column).astype(np.int64))
        return reports

    def write(self, reports, table):
        return table.rebuild(reports, self.report_columns)

    def read(self, reports):
        columns = [np.asarray(column) for column in self.report_table(reports).columns]
        if any(column.dtype.kind not in "iu" for column in columns):
            raise ValueError("the reports hold something else than whole numbers")
        return self._checked(columns, "holds something else than reports")

    def tally(self, reports):
        return SaidTally(tuple(map(np.bincount, reports, [None] * len(reports), self.domain.sizes)))

    def empty_tally(self):
        return SaidTally(tuple(np.zeros(size, np.int64) for size in self.domain.sizes))

    def estimate(self, tally):
        table, n = {}, tally.n_reports
        for name, size, lie, counts in zip(self.columns, self.domain.sizes, self.lies, tally.counts, strict=True):
            q, gain = lie / ONE / size, 1 - lie / ONE
            truth, share = (counts - n * q) / gain, q * (1 - q)
            errors = np.sqrt(n * share + np.clip(truth, 0, n) * ((gain + q) * (1 - gain - q) - share)) / gain
            table |= {(name, label): row for label, *row in zip(self.domain[name].labels, truth, errors, strict=True)}
        index = pd.MultiIndex.from_tuples(table, names=["column", "category"])
        return pd.DataFrame(list(table.values()), columns=["count", "std_error"], index=index)

    def parameters(self):
        return {"columns": [[name, self.domain[name].values] for name in self.columns], "lies": list(self.lies)}


class SaidTransformer(ReportTransformer):
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
        promise = PrivacyGuarantee(log_upper(math.prod(ratios)), scope=domain.columns, mechanism="said", secure=secure)
        return SaidProtocol(domain, lies, promise)

    def estimate_counts(self, reports):
        tally = self.tally(reports)
        return self.protocol_.estimate(tally)
