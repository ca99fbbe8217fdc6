"""Columns, pairs and numbers of a synthetic table beside those of a real one."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import TableLike
from skdp.domain import DomainLike
from skdp.metrics.tables._marginals import (
    compared_columns,
    holds_dates,
    read_values,
    total_variation,
)
from skdp.metrics.tables._pairs import (
    Counts,
    check_columns,
    pair_tables,
    read_declared,
    read_pair,
)
from skdp.tables import add_dates, frame_like

Numbers = NDArray[np.float64]

QUANTILES = (0.1, 0.5, 0.9)

_REACH = NormalDist().inv_cdf(0.975)
"""Half the width of an interval of 95 %, in standard errors."""

_ROUNDING = 1e-12
"""Of the largest number: deviations that are rounding."""

_MOST_UNCERTAIN = 0.5
"""The share of the rows in cells without a true digit, from which a marginal has none."""


def compare_marginals(
    real: TableLike, synthetic: TableLike, *, domain: DomainLike | None = None
) -> Any:
    """Compare the counts of each column and of each pair of columns."""
    tables = read_pair(real, synthetic)
    names = check_columns(tables, None)
    pair = pair_tables(tables, names, domain)
    rows = []
    for order in (1, 2):
        for marginal in itertools.combinations(names, order):
            second = marginal[1] if order == 2 else None
            n_cells = math.prod(len(pair.labels[name]) for name in marginal)
            figures = _compare_counts(*pair.counts(marginal))
            rows.append(
                {"column": marginal[0], "second_column": second, "n_cells": n_cells}
                | figures
            )
    return frame_like(pd.DataFrame(rows), tables[0].native)


def _compare_counts(real: Counts, synthetic: Counts) -> dict[str, Any]:
    n_real = int(real.sum())
    n_synthetic = int(synthetic.sum())
    real_shares = real / n_real
    shares = synthetic / n_synthetic
    differences = np.abs(shares - real_shares)
    is_uncertain = (differences >= real_shares) & (differences > 0)
    uncertain = float(shares[is_uncertain].sum())
    return {
        "n_uncertain": int(is_uncertain.sum()),
        "error": total_variation(real, synthetic),
        "noise": _chance(real + synthetic, n_real, n_synthetic),
        "uncertain": uncertain,
        "measured": True,
        "supported": uncertain <= _MOST_UNCERTAIN,
    }


def _chance(counts: Counts, n_real: int, n_synthetic: int) -> float:
    """Estimate the distance of two samples of the same law."""
    # The mean of the absolute difference of two shares is sqrt(2 / pi) standard
    # deviations where counts are nearly normal, and at most the sum of the two.
    shares = counts / (n_real + n_synthetic)
    variances = shares * (1 - shares) * (1 / n_real + 1 / n_synthetic)
    distances = np.minimum(np.sqrt(2 / math.pi * variances), 2 * shares)
    return float(distances.sum() / 2)


def compare_numbers(
    real: TableLike, synthetic: TableLike, *, domain: DomainLike | None = None
) -> Any:
    """Compare the means and quantiles of numbers and dates, value by value."""
    tables = read_pair(real, synthetic)
    declared = read_declared(domain, tables[0])
    rows: list[ComparedStatistic] = []
    dates = []
    for name in compared_columns(tables, None, declared):
        real_values = read_values(tables[0], name, declared.get(name))
        values = read_values(tables[1], name, declared.get(name))
        if real_values.size and values.size:
            rows += _compare_values(name, real_values, values)
        if holds_dates(tables[0], name, declared.get(name)):
            dates.append(name)
    if not rows:
        return None
    table = pd.DataFrame(rows, columns=ComparedStatistic._fields)
    numbers = ["reference", "synthetic", "lower", "upper"]
    add_dates(table, numbers, [name in dates for name in table["column"]])
    return frame_like(table, tables[0].native)


class ComparedStatistic(NamedTuple):
    """A statistic of a column in both tables: a row of the result."""

    column: Any
    statistic: str
    reference: float
    synthetic: float
    lower: float
    upper: float
    std: float
    # Whether values within bins are known, as those of real rows are, rather than spread
    # evenly.
    measured_within: bool = True


def _compare_values(
    name: Any, real: Numbers, synthetic: Numbers
) -> list[ComparedStatistic]:
    """Return a row for the mean and for each quantile."""
    # By chance, the values of two samples of the same law differ by so many standard
    # deviations.
    scale = _REACH * math.sqrt(1 / real.size + 1 / synthetic.size)
    std = float(real.std())
    if std <= _ROUNDING * float(np.abs(real).max()):
        std = 0.0
    mean = float(real.mean())
    statistics = [
        ComparedStatistic(
            column=name,
            statistic="mean",
            reference=mean,
            synthetic=float(synthetic.mean()),
            lower=mean - scale * std,
            upper=mean + scale * std,
            std=std,
        )
    ]
    for share in QUANTILES:
        reach = scale * math.sqrt(share * (1 - share))
        shares = [share, max(0.0, share - reach), min(1.0, share + reach)]
        quantile, lower, upper = np.quantile(
            real, shares, method="inverted_cdf"
        ).tolist()
        synthetic_quantile = float(np.quantile(synthetic, share, method="inverted_cdf"))
        statistics.append(
            ComparedStatistic(
                column=name,
                statistic=f"quantile {share:g}",
                reference=quantile,
                synthetic=synthetic_quantile,
                lower=lower,
                upper=upper,
                std=std,
            )
        )
    return statistics
