"""From sums of reported signs to how many records hold each key, and the mean of its values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.oracles import SetOracle


class Moments(NamedTuple):
    """Estimates for a column of n records: counts of holders, sums of their signs, and (co)variances."""

    holders: NDArray[np.float64]
    signs: NDArray[np.float64]
    of_holders: NDArray[np.float64]
    of_signs: NDArray[np.float64]
    of_both: NDArray[np.float64]


def estimate_moments(oracle: SetOracle, support: NDArray[np.int64], n: int) -> Moments:
    """Estimate how many records hold each key, and the sum of their signs."""
    minus, plus = support[::2].astype(float), support[1::2].astype(float)
    both, gain = _gains(oracle)
    if both == 0 or gain == 0:
        unknown, most = np.full(minus.size, np.nan), np.full(minus.size, np.inf)
        return Moments(unknown, unknown, most, most, np.zeros(minus.size))
    holders = (plus + minus - 2 * n * float(oracle.q)) / both
    signs = (plus - minus) / gain
    return Moments(holders, signs, *variances(oracle, n, holders, mean_signs(holders, signs)))


def mean_signs(holders: NDArray[np.float64], signs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean sign of the holders of each key, in [-1, 1]; 0 where no one seems to hold it."""
    held = holders > 0
    return np.clip(np.divide(signs, holders, out=np.zeros(holders.shape), where=held), -1, 1)


def _gains(oracle: SetOracle) -> tuple[float, float]:
    """Return what a holder adds on average to the number of supported signs, and to their difference."""
    return float(oracle.p + oracle.opposite - 2 * oracle.q), float(oracle.p - oracle.opposite)


def variances(
    oracle: SetOracle, n: int, holders: Any, mean: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the variances of the estimated counts of holders and sums of signs, and their covariances."""
    # The number of holders varies by the noise alone, the sum of signs also by the rounding of their values to signs,
    # as if all had the same value: values that differ, with the same mean, vary less.
    (both, gain), (held, free) = _gains(oracle), oracle.pair_supports
    either, other = float(oracle.p + oracle.opposite), 2 * float(oracle.q)
    inside = np.clip(np.asarray(holders, float), 0, n)
    outside, mean = n - inside, np.asarray(mean, float)
    of_holders = inside * (either + 2 * held - either**2) + outside * (other + 2 * free - other**2)
    of_signs = inside * (either - 2 * held - (gain * mean) ** 2) + outside * (other - 2 * free)
    of_both = inside * gain * mean * (1 - either)
    return of_holders / both**2, of_signs / gain**2, of_both / (both * gain)


def pair_error(oracle: SetOracle) -> float:
    """Return n times the mean variance of a share of holders and of a mean of signs over all records, at the worst."""
    if min(_gains(oracle)) <= 0:
        return float("inf")
    ends = (0.0, oracle.max_size / (oracle.k / 2))
    return max(float(sum(variances(oracle, 1, share, 0.0)[:2])) for share in (min(end, 1.0) for end in ends))


def mean_table(moments: Moments, ends: NDArray[np.float64], reach: float, index: pd.Index) -> pd.DataFrame:
    """Return the mean value of the holders of each key, with standard errors and intervals."""
    middle, half = ends.mean(), (ends[1] - ends[0]) / 2
    holders, signs, of_holders, of_signs, of_both = moments
    mean = mean_signs(holders, signs)
    known = np.isfinite(of_holders) & (holders > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(np.maximum(of_signs - 2 * mean * of_both + mean**2 * of_holders, 0)) / holders
        # Fieller: all means r for which signs - r * holders is 0 but for its noise.
        square = holders**2 - reach**2 * of_holders
        product = holders * signs - reach**2 * of_both
        root = np.sqrt(np.maximum(product**2 - square * (signs**2 - reach**2 * of_signs), 0))
        lower, upper = (product - root) / square, (product + root) / square
    bounded = known & (square > 0)
    table = {
        "mean": np.where(known, middle + half * mean, np.nan),
        "std_error": np.where(known, half * spread, np.inf),
        "lower": middle + half * np.where(bounded, np.clip(lower, -1, 1), -1),
        "upper": middle + half * np.where(bounded, np.clip(upper, -1, 1), 1),
    }
    return pd.DataFrame(table, index=index)
