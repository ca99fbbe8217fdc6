"""Categories encoded by the private mean of the target among the rows that have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from skdp.base import check_choice, read_bounds, read_numbers
from skdp.central._base import CentralTransformer, Plan
from skdp.central._supervised import SupervisedStatistic, features, target
from skdp.central.statistics import (
    GRID,
    LARGEST,
    Noise,
    check_bounds_share,
    find_codes,
    losses_of,
    missing_error,
    plan_categories,
    private_columns,
    shrunk_shifts,
    to_places,
    undeclared_error,
)
from skdp.domain import Domain, DomainLike
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table, read_table

Unknown = Literal["auto", "error", "ignore"]
_SQUARES = Fraction(1, 20)
"""Of the budget, for the sum of squares of the target: how much the target varies says from how few rows a mean is
worth something."""


class DPTargetEncoder(SupervisedStatistic, CentralTransformer):
    """Encode each category by the mean of the target among its rows, private for the whole record.

    Rare categories, and those of which the noise hides the mean, are drawn towards the mean of all rows.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    delta : float, default=0.0
        Failure probability, in [0, 1): above 0 for private categories.
    categories : list of array-like, mapping, Domain, Interval or "private", optional
        The values that each column may take, as the `domain` of `DPHistogram`: declared from what is publicly known.
        None among the values declares missing as a category. ``"private"``, for all columns or in place of the values
        of one, finds those that enough persons have, as `DPOneHotEncoder`.
    categories_share : float, default=0.2
        The share of epsilon that finds private categories.
    bounds : pair of float, or "private"
        The lowest and the highest value of the target, from what is publicly known: (0, 1) for a class that is 0 or 1.
        Values outside are clipped. ``"private"`` finds bounds that hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if they are private.
    handle_unknown : {"auto", "error", "ignore"}, default="auto"
        What is done with any other value. ``"ignore"``: in `fit` it adds nothing to its column, and `transform` encodes
        it by the mean of all rows. ``"auto"``: the same where categories are private, as most such columns have values
        that are not found; where they are declared, it is an error, which reveals that there is such a value.
        ``"error"`` is one everywhere: of a value that was not found in `transform`, after the charge.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    encodings_ : list of ndarray of float
        The encoding of each declared value of each column, between the bounds.
    target_mean_ : float
        The noisy mean of the target.
    target_mean_std_error_ : float
        The standard deviation of its noise; infinite if private bounds are not found. An encoding, which is drawn
        towards this mean, has no such number: `DPGroupBy` gives means by category with intervals.
    domain_ : Domain
        The values of each column.
    bounds_ : ndarray of shape (1, 2)
        The bounds of the target.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.TargetEncoder : Without privacy; it encodes the rows of `fit` by other rows (cross-fitting).
    DPGroupBy : The means of categories themselves, with intervals.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most ``(epsilon, delta)``, with ``delta = 0`` for declared
    categories; replacing one by ``(2 epsilon, (1 + e**epsilon) delta)``. The number of rows is protected too, and a
    table without rows is answered. **The output of** `transform` **is not private**: each of its rows is a function of
    the input row, without noise. Not covered: an error reveals that a value is undeclared, or that the target has a
    missing one.

    Of each category, the sums of the distances of the target to both bounds are released. A record adds two numbers of
    at least 0 to one category of each of d columns, together the width of the bounds; so Laplace noise of scale d
    widths over their share of epsilon, drawn exactly, protects all of them. The rest is post-processing: how much the
    means of the categories of a column differ is estimated by moments, and each is shrunk by the variances of its noise
    and of as many rows (empirical Bayes, [1]_), for which a twentieth of epsilon measures how much the target varies.
    Encodings are noisy, so a model learns hardly anything of the target of a single row from its own encoding:
    cross-fitting is not needed.

    References
    ----------
    .. [1] D. Micci-Barreca (2001). A preprocessing scheme for high-cardinality categorical attributes in classification
       and prediction problems. SIGKDD Explorations 3(1).

    Examples
    --------
    >>> from skdp import DPTargetEncoder
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> X, earns_more = adult.data[["workclass"]], adult.target == ">50K"
    >>> encoder = DPTargetEncoder(
    ...     epsilon=1.0, categories=adult.domain.select(["workclass"]), bounds=(0, 1), random_state=0
    ... )
    >>> encoder.fit_transform(X, earns_more).head(2)["workclass"].round(2).tolist()
    [0.27, 0.28]
    >>> print(encoder.guarantee_)
    epsilon = 1, central model, adding or removing one record's values of: workclass, income, NOT SECURE: ...
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        categories: DomainLike | Literal["private"] | None = None,
        categories_share: float = 0.2,
        bounds: tuple[float, float] | str | None = None,
        bounds_share: float = 0.2,
        handle_unknown: Unknown = "auto",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.categories_share = categories_share
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = tags.input_tags.string = True
        found = self.handle_unknown == "auto" and isinstance(self.categories, str)
        tags.input_tags.allow_nan = found or self.handle_unknown == "ignore"
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _delta_of_noise(self) -> None:
        return None  # delta is for what is found

    def _bounded(self, table: Table) -> Table:
        return target(table)

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        ((low, high),) = read_bounds(bounds, table.names[-1:]).tolist()
        part = check_bounds_share(self.categories_share, "categories_share")
        categories = plan_categories(
            features(table), large, self.categories, share * part, self.delta
        )
        tally = _TargetTally(categories.domain, low, high, self.handle_unknown)
        sums = _add_up(table, large, tally, categories.private)
        means = share * (1 - part) if categories.private else share
        # A record changes two numbers of each column, together by `2 * GRID`: so in L1 norm, and at most in L2 norm.
        d = len(table.names) - 1
        noise = Noise.of(means * (1 - _SQUARES), 2 * GRID * d, (2 * GRID) ** 2 * d)
        of_squares = Noise.of(means * _SQUARES, GRID)

        def release(source: ByteSource) -> None:
            domain, square, distances = categories.domain, *sums
            if categories.private:
                domain, _ = categories.find(source)
                square, distances = _add_up(
                    table, large, replace(tally, domain=domain), categories.private
                )
            totals = np.concatenate(distances)
            noisy = totals + noise.draw(source, totals.size).reshape(totals.shape)
            (total,) = of_squares.add(source, square.tolist())
            # In rows, as floats: with a tiny epsilon noise is larger than all of them.
            noisy = np.clip(noisy, -LARGEST, LARGEST).astype(float) / (2 * GRID)
            variance = (float(min(noise.error, Fraction(LARGEST))) / (2 * GRID)) ** 2
            mean, error, found = _shrunk(
                noisy, domain.sizes, min(max(total, -LARGEST), LARGEST) / GRID, variance
            )
            self.domain_ = domain
            self.target_mean_ = float(_value(mean, low, high))
            self.target_mean_std_error_ = float((high - low) / 2 * error)
            self.encodings_ = [_value(one, low, high) for one in found]

        mechanism = f"{noise.name} on sums by category"
        losses = losses_of([noise, of_squares])
        if categories.private:
            mechanism += f", {categories.mechanism}"
            losses = ((share * part).loss(categories.delta), *losses)
        return Plan(mechanism, release, delta=categories.delta, losses=losses)

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        self.target_mean_std_error_ = math.inf

    def _transform_table(self, table: Table) -> Sequence[Any]:
        codes, undeclared = find_codes(table, self.domain_, self.handle_unknown)
        private = (
            private_columns(self.domain_.columns, self.categories)
            if self.handle_unknown == "auto"
            else []
        )
        for name in (name for name in undeclared if name not in private):
            raise undeclared_error(
                name, self.domain_, "categories", known="declared or found"
            )
        return [
            np.append(known, self.target_mean_)[one]
            for known, one in zip(self.encodings_, codes, strict=True)
        ]


@dataclass(frozen=True)
class _TargetTally:
    """The sums of a target by category, and of its squares: what a `LargeTable` adds up."""

    domain: Domain
    low: float
    high: float
    handle_unknown: str

    def zeros(self) -> list[NDArray[np.int64]]:
        shapes = [
            (len(self.domain.columns) + 1,),
            (1,),
            *((size, 2) for size in self.domain.sizes),
        ]
        return [np.zeros(shape, np.int64) for shape in shapes]

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        self.add_rows(sums, read_table(batch))

    def add_rows(self, sums: list[NDArray[np.int64]], table: Table) -> None:
        faults, square, *distances = sums
        codes, undeclared = find_codes(
            features(table), self.domain, self.handle_unknown
        )
        (numbers,) = read_numbers(target(table), missing=True)
        known = np.isfinite(numbers)
        faults += np.array(
            [*(name in undeclared for name in self.domain.columns), not known.all()]
        )
        places = to_places(
            np.where(known, numbers, self.low), self.low, self.high
        ).astype(np.int64)
        square += _sum_of_squares(places)
        for total, one, size in zip(distances, codes, self.domain.sizes, strict=True):
            total += _distances(one, places, size)

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: all rows differ."""
        return math.inf


def _add_up(
    table: Table, large: LargeTable | None, tally: _TargetTally, private: Sequence[Any]
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return the sum of squares, and the distances of each column; private columns may have other values."""
    sums = tally.zeros()
    tally.add_rows(
        sums, table
    )  # a column that cannot be read at all is an error before any row is
    if large is not None:
        sums = large.add_up(table.names, tally)
    faults, square, *distances = sums
    for name in (
        name
        for name, fault in zip(table.names, faults, strict=True)
        if fault and name not in private
    ):
        if name == table.names[-1]:
            raise missing_error(name)
        raise undeclared_error(name, tally.domain, "categories")
    return square, distances


def _distances(
    codes: NDArray[Any], places: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Add up the distances to both bounds by category; an undeclared value adds nothing."""
    sums = np.zeros((size + 1, 2), np.int64)
    np.add.at(sums, codes, np.column_stack([GRID + places, GRID - places]))
    return sums[:size]


def _sum_of_squares(places: NDArray[np.int64]) -> int:
    """Add up squares over `GRID`: a row adds at most this."""
    return int(np.rint((places / GRID) ** 2 * GRID).astype(np.int64).sum())


def _shrunk(
    noisy: NDArray[np.float64], sizes: Sequence[int], square: float, variance: float
) -> tuple[float, float, list[NDArray[np.float64]]]:
    """Return the mean of all rows, its error, and the mean of each category, in half widths from the bounds' middle."""
    # Of each category, the number of rows and the sum of places have independent noise of twice the variance.
    n_rows, totals = noisy.sum(axis=1), noisy[:, 0] - noisy[:, 1]
    mean = (
        float(np.clip(totals.sum() / n_rows.sum(), -1, 1)) if n_rows.sum() > 0 else 0.0
    )
    of_noise = 2 * variance * (1 + mean**2)
    error = min(math.sqrt(len(noisy) * of_noise) / max(n_rows.sum(), 1.0), 1.0)
    # No variance between bounds is larger than ``1 - mean**2``. The mean of all columns has the least noise.
    most, n_all = 1 - mean**2, n_rows.sum() / len(sizes)
    of_row = (
        float(np.clip(square / n_all - mean**2, 0.001 * most, most))
        if n_all > 0
        else most
    )
    found = []
    ends = np.cumsum(sizes)[:-1]
    for n, total in zip(np.split(n_rows, ends), np.split(totals, ends), strict=True):
        shift = shrunk_shifts(
            n, total - mean * n, of_row=of_row, of_noise=of_noise, of_count=2 * variance
        )
        found.append(np.clip(mean + shift, -1, 1))
    return mean, error, found


def _value(place: Any, low: float, high: float) -> Any:
    return np.clip(low + (high - low) * ((place + 1) / 2), low, high)
