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

_PRIOR_POWER, _PRIOR_POWER_DEVIATION = 0.3, 0.3
"""Of the power: about an exponential law, between a lognormal and a normal one."""

_PRIOR_SLOPE, _PRIOR_SLOPE_DEVIATION = 1.4, 0.5
"""Of the slope, and of its logarithm; of a lognormal law, 1 / sigma."""

_STEEP = 4.0
"""The slope of a law of the numbers from which on distances count from the middle.

Numbers far from 0, such as temperatures, have slopes beyond those of all laws: with no
limit, deviations of the table `seventh` of benchmarks/synthesis_numbers.py are off by 1 to
171 %, with this one by 1 to 11 % (four seeds). With 8, of which one column has a slope of
less, it is off by 2.8 and 1.4 % in place of 1.8 and 1.0 %; with 2.5 nothing changes."""

_LEAST_WEIGHT = math.exp(-12)
"""Of a law that is averaged, against that of the best one."""

_N_SHARES, _N_BEYOND = 12, 6
"""The most shares of the body, and of the tail, that a law is fitted to.

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
    """Shares of cells, and from where to where counts say where records are."""

    shares: Table
    start: int
    stop: int
    # Whether the shares before the start, or from the stop on, are those of a law.
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

    def distances(self, start: int) -> Table:
        """Return the distances of edges, in units of that of the start."""
        unit = self.edges[start] - self.origin
        return (self.edges - self.origin) / unit


class _NoisyShares(NamedTuple):
    """The share of the records beyond each edge, by noisy counts."""

    beyond: Table
    covariance: Table


class _Laws(NamedTuple):
    """Laws of the share of records beyond a distance."""

    # At a distance x, in units of that of the start of the tail, the normal quantile of
    # the share is start + slope * (x**power - 1) / power. A law each: (n_laws,).
    power_codes: NDArray[np.intp]
    """The places of powers in `_POWERS`."""
    slopes: Table
    starts: Table

    def select(self, is_selected: NDArray[np.bool_]) -> _Laws:
        """Return some of the laws."""
        return _Laws(
            self.power_codes[is_selected],
            self.slopes[is_selected],
            self.starts[is_selected],
        )

    def quantiles(self, distances: Table) -> Table:
        """Return what each law has at each distance: (n_laws, n_distances)."""
        transformed = _powers_of(distances)[self.power_codes]
        return self.starts[:, np.newaxis] + self.slopes[:, np.newaxis] * transformed

    def mean_quantiles(self, weights: Table, distances: Table) -> Table:
        """Return the weighted mean of all laws at each distance."""
        # The weighted mean of lines is, for each power, that of starts and of slopes.
        weighted_slopes = weights * self.slopes
        slopes = np.bincount(self.power_codes, weighted_slopes, _POWERS.size)
        mean: Table = slopes @ _powers_of(distances) + weights @ self.starts
        return mean


def add_tails(
    shares: Table,
    counts: Table,
    covariance: Table,
    nodes: NDArray[np.intp],
    grid: Interval,
    n_rows: float,
) -> Tails:
    """Replace the shares of cells beyond the clear ones by those of fitted tails."""
    lower, upper = _sides(shares, counts, covariance, nodes, grid)
    after = _with_tail(shares, upper, n_rows)
    # All that belongs to the lower side is mirrored, such that its tail comes last.
    before = _with_tail(after.shares[::-1], lower, n_rows)
    return Tails(
        shares=before.shares[::-1],
        start=shares.size - before.start,
        stop=after.start,
        has_law_before=before.has_law,
        has_law_after=after.has_law,
    )


def _sides(
    shares: Table,
    counts: Table,
    covariance: Table,
    nodes: NDArray[np.intp],
    grid: Interval,
) -> tuple[_Side, _Side]:
    """Return the sides below and above the middle of a column."""
    edges = _scaled_edges(grid)
    middle_cell = int(np.searchsorted(np.cumsum(shares), 0.5))
    middle_cell = min(middle_cell, shares.size - 1)
    if shares[middle_cell] > _MIDDLE_ATOM:
        # Beside a point of mass, such as 0, each side has a law of its own.
        middle = edges[middle_cell]
        lower_share = float(shares[:middle_cell].sum())
        upper_share = float(shares[middle_cell + 1 :].sum())
        limit = _LIMIT
    else:
        middle = (edges[middle_cell] + edges[middle_cell + 1]) / 2
        lower_share = 1.0
        upper_share = 1.0
        limit = 0.5

    # The tail of positive numbers is a law of the numbers, others of distances.
    is_number = grid.dtype.kind == "f"
    is_positive = is_number and shares[edges[:-1] < 0].sum() <= _NONE_BELOW
    is_negative = is_number and shares[edges[1:] > 0].sum() <= _NONE_BELOW
    lower = _Side(
        edges=-edges[::-1],
        counts=counts[::-1],
        covariance=covariance[::-1, ::-1],
        nodes=shares.size - nodes[::-1],
        middle=-middle,
        origin=0.0 if is_negative else -middle,
        share=lower_share,
        limit=limit * lower_share,
    )
    upper = _Side(
        edges=edges,
        counts=counts,
        covariance=covariance,
        nodes=nodes,
        middle=middle,
        origin=0.0 if is_positive else middle,
        share=upper_share,
        limit=limit * upper_share,
    )
    return lower, upper


def _scaled_edges(grid: Interval) -> Table:
    """Return edges over a power of two, such that none is beyond 1."""
    # Otherwise sums would overflow. A power of two changes no digit.
    edges = np.array(grid.edges, grid.dtype).astype(float)
    exponent = math.frexp(max(-edges[0], edges[-1]))[1]
    return np.ldexp(edges, -exponent)


def _with_tail(shares: Table, side: _Side, n_rows: float) -> _Tail:
    """Replace the shares beyond the last clear one by those of a law, if there is one."""
    noisy = _shares_beyond(side, n_rows)
    beyond = noisy.beyond
    errors = np.sqrt(np.maximum(np.diag(noisy.covariance), 0.0))
    middle_edge = int(np.searchsorted(side.edges, side.middle, side="right"))
    middle_edge = min(middle_edge, shares.size)
    is_clear = (beyond > 0) & (beyond >= CLEAR_SHARE * errors)
    is_clear[:middle_edge] = False
    start = middle_edge
    if is_clear.any():
        start = int(np.flatnonzero(is_clear)[-1])
        in_cell = side.counts[start] / n_rows
        cell_error = np.sqrt(side.covariance[start, start]) / n_rows
        if in_cell >= max(_CLEAR_ATOM * cell_error, _ATOM * beyond[start]):
            # Nearly all that is beyond is in this cell.
            return _Tail(shares, start + 1, has_law=False)
    if start < shares.size - 2:
        tail = _fit_tail(side, noisy, middle_edge, start)
        if tail is not None:
            return _Tail(_join(shares, tail, start), start, has_law=True)
    return _Tail(shares, start, has_law=False)


def _shares_beyond(side: _Side, n_rows: float) -> _NoisyShares:
    """Add up the noisy counts beyond each edge."""
    # Beyond the start of a cell are its own records and those of all later cells.
    beyond = np.cumsum(side.counts[::-1])[::-1] / n_rows
    # Sums along rows are the fast ones, and a covariance is its own transpose.
    sums_of_rows = side.covariance[::-1, ::-1].cumsum(axis=1)
    covariance = sums_of_rows.T.copy().cumsum(axis=1)
    return _NoisyShares(beyond, covariance[::-1, ::-1] / n_rows**2)


def _fit_tail(
    side: _Side, noisy: _NoisyShares, middle_edge: int, start: int
) -> Table | None:
    """Return the shares of cells of a tail; None if noise hides the share at its start."""
    beyond = noisy.beyond
    body_edges = _body_edges(side, beyond, middle_edge, start)
    if start not in body_edges:
        # The share beyond it is not positive, or not less than that of the side.
        return None
    # Where numbers are far from 0, a law of the numbers says little of them: no power of
    # nearly equal numbers tells laws apart.
    if _is_steep(side, beyond, body_edges):
        side = side._replace(origin=side.middle)
        body_edges = _body_edges(side, beyond, middle_edge, start)
    body_edges = _spaced_edges(body_edges, beyond)
    law = _fit_law(side, noisy, body_edges, start)
    # What the noisy shares say, as far as they are better known than the deviation is.
    of_deviations = _covariance_of_deviations(law, law[0])
    tail_covariances = of_deviations + noisy.covariance[start:, start:]
    tail_covariances += _LEAST_VARIANCE * np.eye(law.size)
    kriging_weights = np.linalg.solve(tail_covariances, beyond[start:] - law)
    # Nothing is beyond the last edge.
    tail_beyond = np.append(law + of_deviations @ kriging_weights, 0.0)
    return np.maximum(0.0, -np.diff(tail_beyond))


def _is_steep(side: _Side, beyond: Table, body_edges: NDArray[np.intp]) -> bool:
    """Return whether shares fall too fast for a law of these distances."""
    ends = body_edges[[0, -1]]
    shares = np.clip(beyond[ends] / side.share, _LEAST_START, _MOST_START)
    quantile_start, quantile_end = -ndtri(shares)
    log_start, log_end = np.log(side.edges[ends] - side.origin)
    return bool(quantile_end - quantile_start > _STEEP * (log_end - log_start))


def _covariance_of_deviations(shares: Table, share_of_start: float) -> Table:
    """Return the covariances of what the shares beyond edges deviate from the law."""
    # A random walk in both directions from the start, on the scale of logarithms.
    times = np.abs(np.log(np.maximum(shares, _LEAST_SHARE) / share_of_start))
    covariances: Table = np.minimum.outer(times, times) * np.outer(shares, shares)
    return _DEVIATION**2 * covariances


def _body_edges(
    side: _Side, beyond: Table, middle_edge: int, start: int
) -> NDArray[np.intp]:
    """Return the edges from the middle to the start of the tail."""
    # The start is one of them even where the share beyond it is above the limit.
    is_body = beyond < side.limit
    is_body[:middle_edge] = False
    is_body[start + 1 :] = False
    is_body[start] = beyond[start] < side.share
    # Powers are of positive distances, and logarithms of positive shares.
    distances = side.edges[:-1] - side.origin
    is_body &= (distances > 0) & (beyond > 0)
    return np.flatnonzero(is_body)


def _join(shares: Table, tail: Table, start: int) -> Table:
    """Put a tail behind shares, which get what it leaves."""
    joined = shares.copy()
    body = joined[:start].sum()
    if body > 0:
        joined[:start] *= max(0.0, 1 - tail.sum()) / body
    joined[start:] = tail
    return joined / joined.sum()


def _spaced_edges(edges: NDArray[np.intp], beyond: Table) -> NDArray[np.intp]:
    """Choose edges whose shares beyond them are about a geometric sequence."""
    last_edge = int(edges[-1])
    logs = np.log(np.maximum(beyond[edges], beyond[last_edge] / 2))
    spaced_edges = {last_edge}
    for log in np.linspace(logs[0], logs[-1], _N_SHARES):
        nearest = np.abs(logs - log).argmin()
        spaced_edges.add(int(edges[nearest]))
    return np.array(sorted(spaced_edges))


def _nodes_beyond(side: _Side, start: int) -> NDArray[np.intp]:
    """Choose edges of bins, or of nodes, beyond the start: the first, and ever fewer."""
    nodes = side.nodes[side.nodes > start]
    if nodes.size == 0:
        return nodes
    ranks = np.geomspace(1, nodes.size, _N_BEYOND)
    return nodes[np.unique(np.rint(ranks).astype(np.intp)) - 1]


def _fit_law(
    side: _Side, noisy: _NoisyShares, body_edges: NDArray[np.intp], start: int
) -> Table:
    """Return by likely laws the share beyond each edge but the last: (n_cells - start,)."""
    start_error = math.sqrt(noisy.covariance[start, start])
    laws = _grid_of_laws(noisy.beyond[start], start_error, side.share)
    residuals = _residuals(laws, side, noisy, body_edges, start)
    weights = _weights_of_laws(laws, residuals)
    is_likely = weights >= _LEAST_WEIGHT
    likely_laws = laws.select(is_likely)
    likely_weights = weights[is_likely] / weights[is_likely].sum()
    tail_distances = side.distances(start)[start:]
    quantiles = likely_laws.mean_quantiles(likely_weights, tail_distances)
    law = side.share * ndtr(-quantiles)
    # Nothing is beyond the last edge: what the law has there is before it.
    within: Table = law[:-1] - law[-1]
    return within * (law[0] / within[0])


def _grid_of_laws(start_share: float, error: float, side_share: float) -> _Laws:
    """List the laws that may be averaged, by the noisy share beyond the start."""
    start_shares = (start_share + _STEPS * error) / side_share
    starts = -ndtri(np.clip(start_shares, _LEAST_START, _MOST_START))
    power_codes, slopes, starts = np.meshgrid(
        np.arange(_POWERS.size), _SLOPES, starts, indexing="ij"
    )
    return _Laws(power_codes.ravel(), slopes.ravel(), starts.ravel())


def _residuals(
    laws: _Laws,
    side: _Side,
    noisy: _NoisyShares,
    body_edges: NDArray[np.intp],
    start: int,
) -> Table:
    """Return residuals of laws, decorrelated, in standard errors: (n_edges, n_laws)."""
    edges = np.append(body_edges, _nodes_beyond(side, start))
    quantiles = laws.quantiles(side.distances(start)[edges])
    # The share beyond an edge is that of the side times the upper tail of a normal law.
    expected = side.share * ndtr(-quantiles)
    edge_covariances = noisy.covariance[np.ix_(edges, edges)]
    # Beyond the start, deviations are less than noise.
    n_body = body_edges.size
    body_shares = noisy.beyond[body_edges]
    of_deviations = _covariance_of_deviations(body_shares, noisy.beyond[start])
    edge_covariances[:n_body, :n_body] += of_deviations
    # Residuals over the root of their covariance are independent, with a variance of 1.
    root = np.linalg.cholesky(edge_covariances + _LEAST_VARIANCE * np.eye(edges.size))
    differences = expected - noisy.beyond[edges]
    return np.asarray(solve_triangular(root, differences.T, lower=True))


def _weights_of_laws(laws: _Laws, residuals: Table) -> Table:
    """Return likelihoods times priors, against those of the best law."""
    slope_scores = np.log(laws.slopes / _PRIOR_SLOPE) / _PRIOR_SLOPE_DEVIATION
    power_scores = (_POWERS[laws.power_codes] - _PRIOR_POWER) / _PRIOR_POWER_DEVIATION
    # A normal density is in proportion to exp(-square / 2).
    squares = (residuals**2).sum(axis=0) + slope_scores**2 + power_scores**2
    return np.asarray(np.exp((squares.min() - squares) / 2))


def _powers_of(distances: Table) -> Table:
    """Return the transformations of Box and Cox: (n_powers, n_distances)."""
    return np.array([_power_of(distances, power) for power in _POWERS])


def _power_of(distances: Table, power: float) -> Table:
    """Return the transformation of Box and Cox."""
    if abs(power) < 1e-9:
        return np.log(distances)
    return (distances**power - 1) / power
