"""Tails of columns: where records are beyond the last counts that are clear of noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from skdp.domain import Interval

# Far from the middle of a column, a few records decide on its mean and its deviation,
# and their counts are only noise. So the tail beyond the last clear share of records is
# drawn by a law of three parameters: a power of the distance is normal ([1]_), so that
# the tail may be normal (power 1), exponential (about 1/4) or lognormal (0). On the
# scale of normal quantiles, the share of records beyond a distance is a straight line in
# the power of the distance. Laws of a grid are averaged by their likelihoods, of the
# noisy shares beyond about 18 distances with all their covariances, and by priors.
# A real column is near to a law, not equal to it: the logarithms of its shares deviate
# by a random walk that is 0 at the start of the tail. So shares near to the start say
# most of the law; and where noisy shares of the tail are better known than that, the
# tail follows them (kriging, [2]_).
# .. [1] G. Box, D. Cox (1964). An analysis of transformations. JRSS B 26(2).
# .. [2] C. E. Rasmussen, C. K. I. Williams (2006). Gaussian processes for machine
#    learning. MIT Press. Section 2.2.

# Chosen on forty columns of benchmarks/synthesis_numbers.py; those of `fifth` and `sixth`
# check it. With other priors (powers around .15, or with twice the deviation; slopes
# with .8 of it in place of .5), geometric means of the errors of the forty columns
# change by at most 3 %.
CLEAR_SHARE = 5.0
"""Standard deviations of a share of records beyond a distance that is known well.

At 4, one of 200 columns of which 93 % is 0 had a tail at the end of its interval."""

_DEVIATION = 0.2
"""The standard deviation of the logarithm of a share from the law, where the law falls by e.

With half and twice of it, geometric means of the errors of forty columns change by at most
6 % (six seeds), as with two seeds more."""

_POWERS = np.linspace(0, 1.6, 17)
_SLOPES = np.geomspace(0.5, 8, 30)
_STEPS = np.linspace(-3, 3, 13)
"""The grid of laws: powers, slopes per logarithm of the distance at the first edge of the
tail, and standard deviations of the share beyond it. None is heavier than lognormal laws
with a sigma of 2: where little is known, such a tail would decide on the mean."""

_PRIOR_POWER, _PRIOR_DEVIATION = 0.3, 0.3
"""Of the power: about an exponential law, between a lognormal and a normal one."""

_PRIOR_SLOPE, _PRIOR_SLOPE_DEVIATION = 1.4, 0.5
"""Of the slope, and of its logarithm; of a lognormal law, 1 / sigma."""

_LEAST_WEIGHT = math.exp(-12)
"""Of a law that is averaged, against that of the best one."""

_N_SHARES, _N_BEYOND = 12, 6
"""The most clear shares that a law is fitted to, and those beyond the start of the tail.

With four or eight of the latter, errors change by less than 3 %; with none, by a third."""

_ATOM, _CLEAR_ATOM = 0.6, 3.0
"""The share of a tail that one cell has, and its clear count, where a range ends."""

_MIDDLE_ATOM = 0.2
"""The share of the middle cell from which it is left out of both sides."""

_LIMIT = 0.9
"""The share of the records beside a point of mass to which the law is fitted."""

_NONE_BELOW = 1e-3
"""The share of negative numbers of a column that has none but for noise."""

_LEAST_START, _MOST_START = 1e-6, 0.98
"""Of a side, the shares that a law may have beyond the start of its tail."""

_LEAST_VARIANCE = 1e-18
"""Of a share, so that matrices have an inverse where there is no noise."""

_LEAST_SHARE = 1e-300
"""Of a law, so that it has a logarithm."""

Table = NDArray[np.float64]


class Tails(NamedTuple):
    """Shares of cells, and the cells before and from which on counts do not say where records are."""

    shares: Table
    start: int
    stop: int
    # Whether the shares there are those of a law; else there is none.
    has_law_before: bool
    has_law_after: bool


class _Tail(NamedTuple):
    """Shares of cells, from which cell on they are a tail, and whether it has a law."""

    shares: Table
    start: int
    has_law: bool


class _Side(NamedTuple):
    """The cells of a column from its middle on, upwards or mirrored."""

    edges: Table
    counts: Table
    covariance: Table
    nodes: NDArray[np.intp]
    """The first cells of bins, or of nodes, the counts of which have the least noise."""
    middle: float
    origin: float
    """From where distances count."""
    share: float
    """Of the records that the law is for."""
    limit: float
    """The share beyond an edge from which on the law is fitted."""


def add_tails(
    shares: Table,
    counts: Table,
    covariance: Table,
    nodes: NDArray[np.intp],
    grid: Interval,
    n_rows: float,
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
    upper = _Side(
        edges,
        counts,
        covariance,
        nodes,
        middle,
        origin=0.0 if is_positive else middle,
        share=above_share,
        limit=limit * above_share,
    )
    lower = _Side(
        -edges[::-1],
        counts[::-1],
        covariance[::-1, ::-1],
        shares.size - nodes[::-1],
        -middle,
        origin=0.0 if is_negative else -middle,
        share=below_share,
        limit=limit * below_share,
    )
    after = _with_tail(shares, upper, n_rows)
    before = _with_tail(after.shares[::-1], lower, n_rows)
    return Tails(
        before.shares[::-1],
        shares.size - before.start,
        after.start,
        has_law_before=before.has_law,
        has_law_after=after.has_law,
    )


def _with_tail(shares: Table, side: _Side, n_rows: float) -> _Tail:
    """Replace the shares beyond the last clear one by those of a law, if there is one."""
    # Of each edge, the share of the records beyond it, and the covariances of these.
    beyond = np.cumsum(side.counts[::-1])[::-1] / n_rows
    # Sums along rows are the fast ones, and a covariance is its own transpose.
    sums_of_rows = side.covariance[::-1, ::-1].cumsum(axis=1)
    covariance = sums_of_rows.T.copy().cumsum(axis=1)
    covariance = covariance[::-1, ::-1] / n_rows**2
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    first = int(np.searchsorted(side.edges, side.middle, side="right"))
    first = min(first, shares.size)
    is_clear = (beyond > 0) & (beyond >= CLEAR_SHARE * errors)
    is_clear[:first] = False
    start = first
    if is_clear.any():
        start = int(np.flatnonzero(is_clear)[-1])
        in_cell = side.counts[start] / n_rows
        cell_error = np.sqrt(side.covariance[start, start]) / n_rows
        if in_cell >= max(_CLEAR_ATOM * cell_error, _ATOM * beyond[start]):
            # Nearly all that is beyond is in this cell.
            return _Tail(shares, start + 1, has_law=False)
    if start < shares.size - 2:
        tail = _fit_tail(side, beyond, covariance, first, start)
        if tail is not None:
            return _Tail(_join(shares, tail, start), start, has_law=True)
    return _Tail(shares, start, has_law=False)


def _fit_tail(
    side: _Side, beyond: Table, covariance: Table, first: int, start: int
) -> Table | None:
    """Return the shares of cells of a tail; None if noise hides that there is one."""
    clear_edges = _clear_edges(side, beyond, first, start)
    if start not in clear_edges:
        return None
    clear_edges = _choose(clear_edges, beyond)
    law = _fit_law(side, beyond, covariance, clear_edges, start)
    # What the noisy shares say, as far as they are better known than the deviation is.
    deviations = _deviations(law, law[0])
    variances = deviations + covariance[start:, start:]
    variances += _LEAST_VARIANCE * np.eye(law.size)
    weights = np.linalg.solve(variances, beyond[start:] - law)
    law = np.append(law + deviations @ weights, 0.0)
    return np.maximum(0.0, -np.diff(law))


def _deviations(shares: Table, share_of_start: float) -> Table:
    """Return the covariances of what the shares beyond edges deviate from the law."""
    # A random walk in both directions from the start, on the scale of logarithms.
    times = np.abs(np.log(np.maximum(shares, _LEAST_SHARE) / share_of_start))
    deviations: Table = np.minimum.outer(times, times) * np.outer(shares, shares)
    return _DEVIATION**2 * deviations


def _clear_edges(
    side: _Side, beyond: Table, first: int, start: int
) -> NDArray[np.intp]:
    """Return the edges from the middle, at `first`, to the start of the tail."""
    # The start is one of them even where the share beyond it is above the limit.
    is_clear = beyond < side.limit
    is_clear[:first] = False
    is_clear[start + 1 :] = False
    is_clear[start] = beyond[start] < side.share
    # Powers are of positive distances, and logarithms of positive shares.
    distances = side.edges[:-1] - side.origin
    is_clear &= (distances > 0) & (beyond > 0)
    return np.flatnonzero(is_clear)


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
    for log in np.linspace(logs[0], logs[-1], _N_SHARES):
        chosen_places.add(int(places[np.abs(logs - log).argmin()]))
    return np.array(sorted(chosen_places))


def _nodes_beyond(side: _Side, start: int) -> NDArray[np.intp]:
    """Choose edges of bins, or of nodes, beyond the start: the first, and ever fewer."""
    nodes = side.nodes[side.nodes > start]
    if nodes.size == 0:
        return nodes
    places = np.geomspace(1, nodes.size, _N_BEYOND)
    return nodes[np.unique(np.rint(places).astype(np.intp)) - 1]


def _fit_law(
    side: _Side,
    beyond: Table,
    covariance: Table,
    clear_edges: NDArray[np.intp],
    start: int,
) -> Table:
    """Return the share beyond each edge from a start on, by the mean of likely laws."""
    places = np.append(clear_edges, _nodes_beyond(side, start))
    unit = side.edges[start] - side.origin
    distances = (side.edges[places] - side.origin) / unit
    tail_distances = (side.edges[start:] - side.origin) / unit
    error = math.sqrt(covariance[start, start])
    start_shares = (beyond[start] + _STEPS * error) / side.share
    start_quantiles = -ndtri(np.clip(start_shares, _LEAST_START, _MOST_START))
    grid = np.meshgrid(np.arange(_POWERS.size), _SLOPES, start_quantiles, indexing="ij")
    laws = np.array(grid).reshape(3, -1)  # (3, n_laws)
    powers = laws[0].astype(np.intp)
    slopes_of_laws = laws[1]
    starts_of_laws = laws[2]
    # A law says that the quantile of the share beyond a distance x, in units of that of
    # the start, is start + slope * (x**power - 1) / power.
    transformed = _powers_of(distances)[powers]
    expected_quantiles = (
        starts_of_laws[:, np.newaxis] + slopes_of_laws[:, np.newaxis] * transformed
    )
    expected = side.share * ndtr(-expected_quantiles)
    # Beyond the start, deviations are less than noise.
    n_clear = clear_edges.size
    variances = covariance[np.ix_(places, places)]
    variances[:n_clear, :n_clear] += _deviations(beyond[clear_edges], beyond[start])
    root = np.linalg.cholesky(variances + _LEAST_VARIANCE * np.eye(places.size))
    residuals = solve_triangular(root, (expected - beyond[places]).T, lower=True)
    slope_scores = np.log(slopes_of_laws / _PRIOR_SLOPE) / _PRIOR_SLOPE_DEVIATION
    power_scores = (_POWERS[powers] - _PRIOR_POWER) / _PRIOR_DEVIATION
    squares = (residuals**2).sum(axis=0) + slope_scores**2 + power_scores**2
    weights = np.exp((squares.min() - squares) / 2)
    is_likely = weights >= _LEAST_WEIGHT
    weights = weights[is_likely] / weights[is_likely].sum()
    # The weighted mean of lines is, for each power, one of starts and one of slopes.
    powers = powers[is_likely]
    slopes = np.bincount(powers, weights * slopes_of_laws[is_likely], _POWERS.size)
    tail_quantiles = slopes @ _powers_of(tail_distances)
    tail_quantiles += weights @ starts_of_laws[is_likely]
    # The share beyond an edge is that of the side times the upper tail of a normal law.
    # Nothing is beyond the last edge: what the law has there is before it.
    law = side.share * ndtr(-tail_quantiles)
    within: Table = law[:-1] - law[-1]
    return within * (law[0] / within[0])


def _powers_of(distances: Table) -> Table:
    """Return the transformations of Box and Cox: (n_powers, n_distances)."""
    return np.array([_power_of(distances, power) for power in _POWERS])


def _power_of(distances: Table, power: float) -> Table:
    """Return the transformation of Box and Cox."""
    if abs(power) < 1e-9:
        return np.log(distances)
    return (distances**power - 1) / power
