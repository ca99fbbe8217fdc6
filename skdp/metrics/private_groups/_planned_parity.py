"""The interval of the parity difference that reports are going to give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.metrics.private_groups._debiased_rates import IndicatorSums, bound
from skdp.metrics.private_groups._reports import check_encoder, find_privileged
from skdp.oracles import FrequencyOracle

_MOST_ENTRIES = 1 << 16
_PARITY = 6
"""The place of the parity difference among the metrics of `bound`."""


def parity_half_width(
    encoder: Any,
    n_rows: int,
    *,
    privileged: Any,
    share: float,
    rates: tuple[float, float],
    columns: Any = None,
    rows: str = "sampled",
    level: float = 0.95,
) -> float:
    """Return half the width of the interval of `debiased_fairness` for the expected reports."""
    oracle, inside = _oracle_of(encoder, privileged, columns)
    cells, indicators, repeats = [], [], []
    variances = indicator_variances(oracle, inside)
    for group, (part, rate) in enumerate(zip((1 - share, share), rates, strict=True)):
        # The sums depend on the first two moments of the indicators: two values have them. The other metrics, which
        # depend on the true label too, are not asked for: half of the rows have either.
        reach = math.sqrt(variances[group])
        for cell, of_cell in enumerate((1 - rate, rate, 1 - rate, rate)):
            cells += [cell, cell]
            indicators += [group - reach, group + reach]
            repeats += 2 * [n_rows * part * of_cell / 4]
    sums = IndicatorSums(np.array(cells), np.array(indicators), np.array(repeats))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = bound(sums, rows, level)[_PARITY]
    return float(found.upper - found.lower) / 2


def _oracle_of(encoder: Any, privileged: Any, columns: Any) -> tuple[FrequencyOracle, NDArray[np.bool_]]:
    """Return the oracle that reports the group, and which of its values are privileged."""
    chosen, protocol = check_encoder(encoder, columns), encoder.protocol_
    marked = find_privileged(privileged, protocol.domain.select(chosen))
    if len(protocol.oracles) > 1:
        if len(chosen) > 1:
            raise ValueError("a parity difference is planned for one column, or for columns of strategy='joint'")
        return protocol.oracles[protocol.domain.columns.index(chosen[0])], marked
    codes = np.indices(protocol.domain.sizes).reshape(len(protocol.domain.columns), -1)
    places = [protocol.domain.columns.index(name) for name in chosen]
    return protocol.oracles[0], marked.reshape(protocol.domain.select(chosen).sizes)[tuple(codes[places])]


def indicator_variances(oracle: FrequencyOracle, inside: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the variances of the indicator of some values, for a row of another value and for one of these."""
    together, apart = oracle.pair_supports
    if math.isnan(together):
        return _variances_of_channel(oracle, inside)
    # With T supports inside and U outside, the indicators that add up to 1 give those inside, of k values g,
    # ``(T - g / k (T + U)) / (p - q)`` and a constant: `_unbiased` in the module of reports.
    p, q, k, g = float(oracle.p), float(oracle.q), oracle.k, int(inside.sum())

    def variance(n_own: int, n_other: int, own: float, other: float) -> float:
        """Return the variance if the row has one of the `n_own` values, whose supports have the factor `own`."""
        mean, rest = p + (n_own - 1) * q, n_other * q
        squares = mean + 2 * (n_own - 1) * together + (n_own - 1) * (n_own - 2) * apart - mean**2
        others = rest + n_other * (n_other - 1) * apart - rest**2
        common = n_other * together + (n_own - 1) * n_other * apart - mean * rest
        found = (own**2 * squares + other**2 * others + 2 * own * other * common) / (p - q) ** 2
        return max(found, 0.0)

    return variance(k - g, g, -g / k, 1 - g / k), variance(g, k - g, 1 - g / k, -g / k)


def _variances_of_channel(oracle: FrequencyOracle, inside: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the variances by the probabilities of all reports, if the values of a group are equally frequent."""
    if oracle.shows_hash or oracle.k * oracle.n_reports > _MOST_ENTRIES:
        raise ValueError(f"the errors of groups are not known for {type(oracle).__name__} of {oracle.k:,} values")
    channel = np.array([[float(share) for share in row] for row in oracle.channel()])
    vectors = oracle.unbiased(oracle.read(np.arange(channel.shape[1])[:, np.newaxis]))
    vectors = vectors + (1 - vectors.sum(axis=1, keepdims=True)) / oracle.k
    found = channel @ vectors[:, inside].sum(axis=1) ** 2 - inside
    return float(found[~inside].mean()), float(found[inside].mean())
