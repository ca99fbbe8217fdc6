"""The interval of the parity difference that reports are going to give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.metrics.fairness import RateSums, compare_with_last
from skdp.metrics.private_groups._reports import check_encoder, find_privileged
from skdp.oracles import FrequencyOracle

_MOST_ENTRIES = 1 << 16


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
    shares_of_groups = np.array([1 - share, share])
    sizes = n_rows * shares_of_groups
    selected = sizes * np.array(rates)
    # The rows of each group that a sample draws, and their noise, as moments of `variance_at`. What the noise adds to
    # one of two groups, it takes from the other.
    variance_of_others, variance_of_privileged = indicator_variances(oracle, inside)
    variances = np.array([variance_of_others, variance_of_privileged])
    every, counted = variances @ sizes, variances @ selected
    noise_moments = np.array([every, counted, counted])
    drawn = sizes[:, np.newaxis] * [-1, -0.5, 0]
    signs = np.array([[1, -1], [-1, 1]])
    noise = signs[:, :, np.newaxis] * noise_moments
    coin = (
        float(oracle.p - oracle.q) ** -2 / 4
    )  # the variance of a report that is as uncertain as a coin
    two_rows = np.full((2, 1), coin) * [4, 2, 2]
    some = np.ones(2, bool)
    # The sums of all rates are the same, as only the selection rate is read.
    fields = [
        np.stack([part] * 3)
        for part in (selected, sizes, drawn, noise, two_rows, sizes, some, some)
    ]
    parity, *_ = compare_with_last(RateSums(*fields), rows, level)
    return float(parity.upper[0] - parity.lower[0]) / 2


def _oracle_of(
    encoder: Any, privileged: Any, columns: Any
) -> tuple[FrequencyOracle, NDArray[np.bool_]]:
    """Return the oracle that reports the group, and which of its values are privileged."""
    chosen, protocol = check_encoder(encoder, columns), encoder.protocol_
    marked = find_privileged(privileged, protocol.domain.select(chosen))
    if len(protocol.oracles) > 1:
        if len(chosen) > 1:
            raise ValueError(
                "a parity difference is planned for one column, or for columns of strategy='joint'"
            )
        return protocol.oracles[protocol.domain.columns.index(chosen[0])], marked
    codes = np.indices(protocol.domain.sizes).reshape(len(protocol.domain.columns), -1)
    places = [protocol.domain.columns.index(name) for name in chosen]
    return protocol.oracles[0], marked.reshape(protocol.domain.select(chosen).sizes)[
        tuple(codes[places])
    ]


def indicator_variances(
    oracle: FrequencyOracle, inside: NDArray[np.bool_]
) -> tuple[float, float]:
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
        squares = (
            mean
            + 2 * (n_own - 1) * together
            + (n_own - 1) * (n_own - 2) * apart
            - mean**2
        )
        others = rest + n_other * (n_other - 1) * apart - rest**2
        common = n_other * together + (n_own - 1) * n_other * apart - mean * rest
        found = (own**2 * squares + other**2 * others + 2 * own * other * common) / (
            p - q
        ) ** 2
        return max(found, 0.0)

    return variance(k - g, g, -g / k, 1 - g / k), variance(g, k - g, 1 - g / k, -g / k)


def _variances_of_channel(
    oracle: FrequencyOracle, inside: NDArray[np.bool_]
) -> tuple[float, float]:
    """Return the variances by the probabilities of all reports, if the values of a group are equally frequent."""
    if oracle.shows_hash or oracle.k * oracle.n_reports > _MOST_ENTRIES:
        raise ValueError(
            f"the errors of groups are not known for {type(oracle).__name__} of {oracle.k:,} values"
        )
    channel = np.array([[float(share) for share in row] for row in oracle.channel()])
    vectors = oracle.unbiased(oracle.read(np.arange(channel.shape[1])[:, np.newaxis]))
    vectors = vectors + (1 - vectors.sum(axis=1, keepdims=True)) / oracle.k
    found = channel @ vectors[:, inside].sum(axis=1) ** 2 - inside
    return float(found[~inside].mean()), float(found[inside].mean())
