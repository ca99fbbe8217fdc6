"""Tails of columns: where records are beyond the last counts that are clear of noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp.domain import Interval

# Far from the middle of a column, a few records decide on its mean and its deviation,
# and their counts are only noise. So the tail beyond the last clear share of records is
# drawn by a law of two parameters that agrees with the clear ones: a power of the
# distance is normal ([1]_), so that the tail may be normal (power 1), exponential
# (about 1/4), lognormal (0) or near to a power law (below 0). On the scale of normal
# quantiles, a share of records beyond a distance is a straight line in the power of the
# distance: of each power on a grid, the line is fitted by least squares, and the lines
# are averaged by their likelihoods and the prior of the power.
# .. [1] G. Box, D. Cox (1964). An analysis of transformations. JRSS B 26(2).

# Chosen with both tables of ten columns of benchmarks/synthesis_numbers.py in view, not
# on a full grid: no third table has checked them.
_CLEAR_SHARES = (6.0, 4.0, 3.0)
"""Standard deviations of a share of records beyond a distance that is known well.

The next one is for columns of which too little is known that well."""

_POWERS = np.linspace(-1.0, 1.5, 26)
_PRIOR_POWER, _PRIOR_BESIDE_ATOM, _PRIOR_OF_DISTANCES = 0.2, 0.5, 0.8
_PRIOR_DEVIATION = 0.2
"""Of the power: of positive numbers, between a lognormal and an exponential law, as
few laws of them are heavier; of distances from the middle, between one of Laplace and a
normal law; beside a point of mass, where little is known, between both."""

_PRIOR_SLOPE, _SLOPE_PRECISION = 1.2, 0.4
"""Of the line, per logarithm of the distance; of a lognormal law, 1 / sigma."""

_LEAST_SLOPE = 0.5
"""Of a lognormal law with a sigma of 2: no tail is heavier where little is known."""

_MISFIT = 0.05
"""The deviation of quantiles of real columns from the law."""

_RANGES = (20.0, 8.0, 4.0)
"""How many times the share of the tail has what the law is fitted to."""

_GOOD_FIT = 0.5
"""The mean squared deviation, in standard deviations, of a fit that is good."""

_FEWEST_QUANTILES, _N_QUANTILES = 3, 10
"""To which a law is fitted: their noise is not independent, and more say no more."""

_ATOM, _CLEAR_ATOM = 0.6, 3.0
"""The share of a tail that one cell has, and its clear count, where a range ends."""

_MIDDLE_ATOM = 0.2
"""The share of the middle cell from which it is left out of both sides."""

_LIMIT = 0.9
"""The share of the records beside a point of mass to which the law is fitted."""

_NONE_BELOW = 1e-3
"""The share of negative numbers of a column that has none but for noise."""

Table = NDArray[np.float64]


class Tails(NamedTuple):
    """Shares of cells, and the cells before and from which on they are tails."""

    shares: Table
    start: int
    stop: int


class _Side(NamedTuple):
    """The cells of a column from its middle on, upwards or mirrored."""

    edges: Table
    counts: Table
    covariance: Table
    middle: float
    origin: float
    """From where distances count."""
    share: float
    """Of the records that the law is for."""
    power: float
    """What is likely of the power."""
    limit: float
    """The share beyond an edge from which on the law is fitted."""


def add_tails(
    shares: Table, counts: Table, covariance: Table, grid: Interval, n_rows: float
) -> Tails:
    """Replace the shares of cells beyond the clear ones by those of fitted tails."""
    edges = np.array(grid.edges, grid.dtype).astype(float)
    # In a unit of the size of the interval, as sums would overflow otherwise: a power of
    # two, which changes no digit.
    exponent = math.frexp(max(-edges[0], edges[-1]))[1]
    edges = np.ldexp(edges, -exponent)
    below = np.cumsum(shares)
    middle_cell = int(np.searchsorted(below, 0.5))
    middle_cell = min(middle_cell, shares.size - 1)
    middle = (edges[middle_cell] + edges[middle_cell + 1]) / 2
    above_share = 1.0
    below_share = 1.0
    limit = 0.5
    has_atom = bool(shares[middle_cell] > _MIDDLE_ATOM)
    if has_atom:
        # Beside a point of mass, such as 0, each side has a law of its own.
        middle = edges[middle_cell]
        above_share = float(shares[middle_cell + 1 :].sum())
        below_share = float(shares[:middle_cell].sum())
        limit = _LIMIT
    # The tail of positive numbers is a law of the numbers, others of distances.
    is_number = grid.dtype.kind == "f"
    is_positive = is_number and shares[edges[:-1] < 0].sum() <= _NONE_BELOW
    is_negative = is_number and shares[edges[1:] > 0].sum() <= _NONE_BELOW
    powers = []
    for is_of_numbers in (is_positive, is_negative):
        power = _PRIOR_POWER if is_of_numbers else _PRIOR_OF_DISTANCES
        powers.append(_PRIOR_BESIDE_ATOM if has_atom else power)
    upper = _Side(
        edges,
        counts,
        covariance,
        middle,
        origin=0.0 if is_positive else middle,
        share=above_share,
        power=powers[0],
        limit=limit * above_share,
    )
    lower = _Side(
        -edges[::-1],
        counts[::-1],
        covariance[::-1, ::-1],
        -middle,
        origin=0.0 if is_negative else -middle,
        share=below_share,
        power=powers[1],
        limit=limit * below_share,
    )
    shares, stop = _with_tail(shares, upper, n_rows)
    mirrored, start = _with_tail(shares[::-1], lower, n_rows)
    return Tails(mirrored[::-1], shares.size - start, stop)


def _with_tail(shares: Table, side: _Side, n_rows: float) -> tuple[Table, int]:
    """Replace the shares beyond the last clear one; return from which cell on."""
    # Of each edge, the share of the records beyond it, and its standard deviation.
    beyond = np.cumsum(side.counts[::-1])[::-1] / n_rows
    sums = side.covariance[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    errors = np.sqrt(np.maximum(np.diag(sums), 0.0)) / n_rows
    first = int(np.searchsorted(side.edges, side.middle, side="right"))
    first = min(first, shares.size)
    start = shares.size
    for clear_share in _CLEAR_SHARES:
        is_clear = (beyond > 0) & (beyond >= clear_share * errors)
        is_clear[:first] = False
        if not is_clear.any():
            continue
        start = int(np.flatnonzero(is_clear)[-1])
        in_cell = side.counts[start] / n_rows
        cell_error = np.sqrt(side.covariance[start, start]) / n_rows
        is_atom = in_cell >= max(_CLEAR_ATOM * cell_error, _ATOM * beyond[start])
        if is_atom or start >= shares.size - 2:
            # Nearly all that is beyond is in this cell: the range ends with it.
            break
        tail = _fit_tail(side, beyond, errors, first, start)
        if tail is not None:
            return _join(shares, tail, start), start
    # Where too little is clear for a law, the range ends with what is.
    start = min(start + 1, shares.size) if start < shares.size else first
    return _join(shares, np.zeros(shares.size - start), start), start


def _fit_tail(
    side: _Side, beyond: Table, errors: Table, first: int, start: int
) -> Table | None:
    """Return the shares of cells of a tail; None if too few shares before it are clear."""
    for span in _RANGES:
        is_near = (beyond <= span * beyond[start]) & (beyond < side.limit)
        is_near[:first] = False
        is_near[start + 1 :] = False
        is_near[start] = beyond[start] < side.share
        is_near &= (side.edges[:-1] > side.origin) & (beyond > 0)
        places = np.flatnonzero(is_near)
        if start not in places:
            return None
        places = _choose(places, beyond)
        if places.size < _FEWEST_QUANTILES:
            return None
        quantiles, misfit = _fit_quantiles(side, beyond, errors, places, start)
        if misfit <= _GOOD_FIT:
            break
    tail: Table = -np.diff(side.share * ndtr(-quantiles))
    return tail


def _join(shares: Table, tail: Table, start: int) -> Table:
    """Put a tail behind shares, which get what it leaves."""
    joined = shares.copy()
    body = joined[:start].sum()
    if body > 0:
        joined[:start] *= max(0.0, 1 - tail.sum()) / body
    joined[start:] = tail
    return joined / joined.sum()


def _choose(places: NDArray[np.intp], beyond: Table) -> NDArray[np.intp]:
    """Choose edges whose shares beyond them are about a geometric sequence."""
    logs = np.log(np.maximum(beyond[places], beyond[places[-1]] / 2))
    chosen_places = {int(places[-1])}
    for log in np.linspace(logs[0], logs[-1], _N_QUANTILES):
        chosen_places.add(int(places[np.abs(logs - log).argmin()]))
    return np.array(sorted(chosen_places))


def _fit_quantiles(
    side: _Side,
    beyond: Table,
    errors: Table,
    places: NDArray[np.intp],
    start: int,
) -> tuple[Table, float]:
    """Return the normal quantile of each edge from a start on, and the misfit."""
    unit = side.edges[start] - side.origin
    distances = (side.edges[places] - side.origin) / unit
    tail_distances = (side.edges[start:] - side.origin) / unit
    quantiles = -ndtri(np.clip(beyond[places] / side.share, 1e-12, 0.95))
    # A small change of a probability moves its quantile by 1 / density times as much.
    densities = np.exp(-(quantiles**2) / 2) / np.sqrt(2 * np.pi)
    quantile_errors = errors[places] / side.share / densities
    weights = 1 / (quantile_errors**2 + _MISFIT**2)
    log_posteriors = []
    misfits = []
    lines = []
    for power in _POWERS:
        x = _power_of(distances, power)
        mean_x = np.average(x, weights=weights)
        mean_quantile = np.average(quantiles, weights=weights)
        spread = float(weights @ (x - mean_x) ** 2)
        product = float(weights @ ((x - mean_x) * (quantiles - mean_quantile)))
        slope = (product + _PRIOR_SLOPE * _SLOPE_PRECISION) / (
            spread + _SLOPE_PRECISION
        )
        slope = max(slope, _LEAST_SLOPE)
        residuals = quantiles - mean_quantile - slope * (x - mean_x)
        chi_square = float(weights @ residuals**2)
        prior = ((power - side.power) / _PRIOR_DEVIATION) ** 2
        log_posteriors.append(-(chi_square + prior) / 2)
        misfits.append(chi_square / places.size)
        x_of_tail = _power_of(tail_distances, power)
        lines.append(mean_quantile + slope * (x_of_tail - mean_x))
    posteriors = np.exp(np.array(log_posteriors) - max(log_posteriors))
    posteriors /= posteriors.sum()
    tail_quantiles: Table = posteriors @ np.array(lines)
    return tail_quantiles, float(posteriors @ misfits)


def _power_of(distances: Table, power: float) -> Table:
    """Return the transformation of Box and Cox."""
    if abs(power) < 1e-9:
        return np.log(distances)
    return (distances**power - 1) / power
