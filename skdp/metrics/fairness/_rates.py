"""Rates of groups, from sums over rows whose groups are known, or estimated without bias."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.metrics.fairness._intervals import Estimate, Numbers, binomial_ends, score_ends, two_sided

Mask = NDArray[np.bool_]

_FEW = 10  # rows that say little of their noise

LEAST, MOST = np.array([0.0, 0, 0, -1]), np.ones(4)
"""The possible range of selection rate, true positive rate, false positive rate and calibration gap."""


@dataclass(frozen=True)
class Labels:
    """True and predicted labels, weights, and true labels less scores, of each row."""

    true: Mask
    predicted: Mask
    weights: Numbers
    residuals: Numbers | None = None

    def __getitem__(self, rows: NDArray[np.intp]) -> Labels:
        taken = (None if part is None else part[rows] for part in (getattr(self, one.name) for one in fields(self)))
        return Labels(*taken)  # type: ignore[arg-type]

    def parts(self) -> list[tuple[Mask, Numbers]]:
        """Return the rows that each rate divides by, and what it is the mean of."""
        every, selected = np.ones(len(self.true), bool), self.predicted.astype(np.float64)
        found = [(every, selected), (self.true, selected), (~self.true, selected)]
        return found if self.residuals is None else [*found, (every, self.residuals)]

    def moments(self, rows: slice = slice(None)) -> Numbers:
        """Return ``w, w r`` and ``w², w² r, w² r²`` of each row and rate, 0 for rows that it does not divide by."""
        weights = self.weights[rows]
        columns = []
        for mask, values in self.parts():
            own, r = weights * mask[rows], values[rows]
            columns.append([own, own * r, own * weights, own * weights * r, own * weights * r**2])
        return np.moveaxis(np.array(columns), 2, 0)

    def benefits(self) -> tuple[Numbers, Numbers]:
        """Return the sums of the weights, and of their squares, of the rows with the benefits 0, 1 and 2."""
        codes = 1 + self.predicted.astype(np.intp) - self.true
        first, second = (np.bincount(codes, self.weights**power, minlength=3) for power in (1, 2))
        return first.astype(np.float64), second.astype(np.float64)


@dataclass(frozen=True)
class RateSums:
    """Sums over rows by (rate, group), and, at the end, by the power of t in a variance."""

    # ``top / bottom`` is the rate. The variance of ``top − t bottom`` is ``m[2] − 2 t m[1] + t² m[0]`` for the moments
    # m in `drawn`, if the rows are a sample, and in `noise`, that of estimated groups; `shared` is the covariance with
    # the last group over the noise. `defined` is where there are rows to divide by, `counted` where some are counted.
    top: Numbers
    bottom: Numbers
    drawn: Numbers
    noise: Numbers
    shared: Numbers
    defined: Mask
    counted: Mask
    scales: Numbers | None = None
    """Of known groups, the mean weight of rows that are counted, and of others, in each rate of labels."""
    few: Numbers | None = None
    """Of estimated groups, the noise that ends add for rows that are counted, and for others, by that of all rows."""

    def __getitem__(self, groups: slice | NDArray[np.intp]) -> RateSums:
        parts = (getattr(self, one.name) for one in fields(self))
        ndim = self.top.ndim
        taken: list[Any] = [
            part if part is None else part[(..., groups, *[slice(None)] * (part.ndim - ndim))] for part in parts
        ]
        return RateSums(*taken)

    def moments(self, rows: str) -> Numbers:
        """Return the moments of the variance of ``top − t bottom``."""
        return self.noise + self.drawn if rows == "sampled" else self.noise

    def for_ends(self, rows: str) -> RateSums:
        """Return sums with the noise that intervals account for: of given rows, that of one more row of each kind."""
        # The noise of two or three counted rows has few values, and the normal distribution is too short for it. One
        # more row that is counted, and one that is not, are enough (as Agresti and Coull 1998 add rows of both kinds).
        if self.few is None or rows == "sampled":
            return self
        both = np.sqrt(self.few * self.few[..., -1:, :])
        noise, shared = (
            part + part[..., :1] * (few @ [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
            for part, few in ((self.noise, self.few), (self.shared, both))
        )
        return replace(self, noise=noise, shared=shared, few=None)

    def estimate(self, rows: str, level: float) -> tuple[Estimate, Mask]:
        """Estimate the rates, with score intervals, and return which of these are between two roots."""
        least, most = (ends[: self.top.shape[-2], np.newaxis] for ends in (LEAST, MOST))
        moments, wide = self.moments(rows), self.for_ends(rows).moments(rows)
        lower, upper, bounded = score_ends(self.top, self.bottom, two_sided(level) ** 2 * wide, least, most)
        if self.scales is not None and rows == "sampled":
            binary = self._binomial_ends(self.scales, level)
            for ends, own in zip((lower, upper), binary, strict=True):
                ends[..., : own.shape[-2], :] = own
        known = self.bottom > 1e-9
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(known, np.clip(self.top / self.bottom, least, most), (lower + upper) / 2)
            error = np.sqrt(np.maximum(variance_at(moments, value), 0)) / np.where(known, self.bottom, np.nan)
        found = Estimate(value, error, np.minimum(lower, value), np.maximum(upper, value)).where(self.defined)
        return found, bounded | ~self.defined

    def unlimited(self, rows: str, level: float) -> tuple[Estimate, Mask]:
        """Estimate rates from reports without cutting them at 0 and 1, and return which of their sets are bounded."""
        found, bounded = self.estimate(rows, level)
        if self.scales is not None:
            return found, bounded
        # Beyond 0 and 1 there is only noise: a sample cannot have such a rate.
        moments = two_sided(level) ** 2 * self.for_ends(rows).noise
        lower, upper, bounded = score_ends(self.top, self.bottom, moments, -np.inf, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(self.defined, self.top / self.bottom, np.nan)
        ends = np.minimum(lower, found.lower), np.maximum(upper, found.upper)
        return Estimate(value, found.std_error, *ends), bounded | ~self.defined

    def _binomial_ends(self, scales: Numbers, level: float) -> tuple[Numbers, Numbers]:
        """Return the ends of the rates of labels of known groups."""
        # The probability p that a row is counted is one of binomial counts: of rows with different weights, of those
        # that have the same errors. The rate is that of the sums of weights, ``a p / (a p + b (1 − p))`` for the mean
        # weights a of rows that are counted and b of others, which grows with p.
        counted, others = np.moveaxis(scales, -1, 0)
        n_rates = counted.shape[-2]
        top, bottom = (part[..., :n_rates, :] for part in (self.top, self.bottom))
        p = np.stack(binomial_ends(top / counted, np.maximum(bottom - top, 0) / others, level))
        lower, upper = counted * p / (counted * p + others * (1 - p))
        return lower, upper

    def of_differences(self, rates: Numbers) -> Numbers:
        """Return by how much larger the noise of a difference of rates is than that of independent ones, at most."""
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.sqrt(np.maximum(variance_at(self.noise, rates), 0)) / np.abs(self.bottom)
            shared = self.covariance(rates[..., :-1], rates[..., -1:]) / (spread[..., :-1] * spread[..., -1:])
            both = spread[..., :, np.newaxis] * spread[..., np.newaxis, :]
            pairs = 2 * both / (spread[..., :, np.newaxis] ** 2 + spread[..., np.newaxis, :] ** 2)
        pairs = np.nan_to_num(pairs * ~np.eye(spread.shape[-1], dtype=bool)).max(axis=(-2, -1))
        found: Numbers = 1 - pairs * np.clip(np.nan_to_num(shared), -1, 0).min(axis=-1)
        return found

    def covariance(self, t: Numbers, u: Numbers) -> Numbers:
        """Return the covariance of the rates t of all groups but the last with the rate u of the last one."""
        shared = self.shared[..., :-1, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Numbers = (shared[..., 2] - (t + u) * shared[..., 1] + t * u * shared[..., 0]) / (
                self.bottom[..., :-1] * self.bottom[..., -1:]
            )
        return found


def variance_at(moments: Numbers, t: Numbers) -> Numbers:
    found: Numbers = moments[..., 2] - 2 * t * moments[..., 1] + t**2 * moments[..., 0]
    return found


def sums_of_known(codes: NDArray[np.intp], members: NDArray[np.bool_], labels: Labels) -> RateSums:
    """Sum over rows whose cells are known; `members` says which cells are in each group."""
    moments = labels.moments().reshape(len(codes), -1)
    cells = np.array([np.bincount(codes, column, minlength=len(members)) for column in moments.T])
    sums = (cells @ members).reshape(-1, 5, members.shape[1]).transpose(0, 2, 1)
    none = np.zeros_like(sums[..., :3])
    defined, counted = sums[..., 0] > 0, sums[..., 4] > 0
    drawn, scales = _drawn(sums, labels.moments().sum(axis=0), labels.weights)
    return RateSums(sums[..., 1], sums[..., 0], drawn, none, none, defined, counted, scales)


def sums_of_estimated(blocks: Iterable[tuple[slice, Numbers]], members: NDArray[np.bool_], labels: Labels) -> RateSums:
    """Sum over rows of which there are unbiased indicators of the cells."""
    found = noise = shared = total = 0.0
    ends = np.full((2, members.shape[1]), -np.inf)
    for rows, indicators in blocks:
        groups = indicators @ members
        ends = np.maximum(ends, [groups.max(axis=0, initial=-np.inf), (-groups).max(axis=0, initial=-np.inf)])
        moments = labels.moments(rows)
        found = found + np.einsum("ig,ikm->kgm", groups, moments)
        # The square of a true indicator is the indicator: the mean of ψ² − ψ is the variance of ψ over the noise.
        noise = noise + np.einsum("ig,ikm->kgm", groups**2 - groups, moments[..., 2:])
        shared = shared + np.einsum("ig,ikm->kgm", groups * groups[:, -1:], moments[..., 2:])
        total = total + moments.sum(axis=0)
    sums, every = np.asarray(found), np.asarray(total)[:, np.newaxis]
    own = np.maximum(noise, 0)
    own[..., 1] = np.clip(np.asarray(noise)[..., 1], -(reach := np.sqrt(own[..., 0] * own[..., 2])), reach)
    defined, counted = (np.broadcast_to(every[..., place] > 0, sums.shape[:2]) for place in (0, 4))
    drawn, _ = _drawn(sums, np.asarray(total), labels.weights)
    few = _few(own[:3, :, :2], ends.sum(axis=0), labels)
    return RateSums(sums[..., 1], sums[..., 0], drawn, own, np.asarray(shared), defined, counted, few=few)


def _few(noise: Numbers, reach: Numbers, labels: Labels) -> Numbers:
    """Return the noise that ends of given rows add, from that of all rows and of counted ones."""
    found = np.zeros((len(labels.parts()), len(reach), 2))
    for place, (mask, values) in enumerate(labels.parts()[:3]):
        kinds = [labels.weights[mask & (values == kind) & (labels.weights > 0)] for kind in (1, 0)]
        n_rows, squares = sum(map(len, kinds)), np.array([kind @ kind for kind in kinds])
        every, counted = np.where(noise[place, :, :1] > 0, noise[place], [np.inf, 0]).T
        if all(map(len, kinds)):
            # One more row of each kind, whose report is as uncertain as a coin: where hardly any report is of another
            # group than the row's, that of few rows is mostly of none, and one may be.
            found[place] = (np.maximum(1, (reach / 2) ** 2 * squares.sum() / every) / n_rows)[:, np.newaxis]
            # The noise of few rows is itself estimated from these: it is at least that of as many rows of all.
            shares = squares / squares.sum() * np.minimum(1, [_FEW / len(kind) for kind in kinds])
            own = np.stack([counted / every, 1 - counted / every], axis=-1)
            found[place] += np.maximum(0, shares - own)
            found[place, np.isinf(every)] = 0
    return found


def _drawn(sums: Numbers, total: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Return the moments of the variance of a sample, for rates of binomial draws at t, and the mean weights."""
    # Of rows with weights, the variance of ``top − t bottom`` is ``bottom t (1 − t)`` times the mean of the weights of
    # rows that are counted, with the factor 1 − t, and of those that are not, with the factor t, where t is the
    # estimate. Few rows say little of these means: one row more has the mean of all groups, if that is larger.
    bottom, top, squares, squared_top, _ = np.moveaxis(sums[:3], -1, 0)
    every, all_top, all_squares, all_squared_top, _ = total[:3].T[..., np.newaxis]
    given = weights[weights > 0] if weights.any() else np.ones(1)
    average, ends = (given @ given) / given.sum(), (given.min(), given.max())
    means = []
    for square, plain, all_square, all_plain in (
        (squared_top, top, all_squared_top, all_top),
        (squares - squared_top, bottom - top, all_squares - all_squared_top, every - all_top),
    ):
        some = all_plain > 1e-9 * every
        usual = np.divide(all_square, all_plain, out=np.full_like(all_plain, average), where=some)
        own = np.divide(square, plain, out=np.zeros_like(plain), where=plain > 1e-9 * np.abs(bottom))
        usual = np.clip(np.maximum(own, usual), *ends)
        mean = (np.maximum(square, 0) + usual**2) / (np.maximum(plain, 0) + usual)
        means.append(np.clip(mean, *ends))
    rate = np.clip(np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0), 0, 1)
    size = np.maximum(bottom, 0) * ((1 - rate) * means[0] + rate * means[1])
    binary = np.stack([-size, -size / 2, np.zeros_like(size)], axis=-1)
    residuals = sums[3:, :, 2:] + total[3:, np.newaxis, 2:] / len(given)
    return np.concatenate([binary, residuals]), np.stack(means, axis=-1)
