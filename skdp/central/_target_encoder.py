"""Categories encoded by the private mean of the target among the rows that have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from skdp.base import check_choice, read_bounds, read_numbers
from skdp.central._base import CentralTransformer, Plan
from skdp.central._supervised import SupervisedStatistic
from skdp.central.statistics import (
    GRID,
    LARGEST,
    Batches,
    GroupSums,
    Noise,
    check_share,
    clip_floats,
    find_codes,
    plan_categories,
    private_columns,
    select_columns,
    shrunk_shifts,
    sums_of_groups,
    to_values,
    undeclared_error,
)
from skdp.domain import Domain, DomainLike
from skdp.privacy import Loss, Mu, PrivacyLedger, Rho, Share, check_delta
from skdp.randomness import ByteSource
from skdp.tables import Table

Unknown = Literal["auto", "error", "ignore"]
_SQUARES = Fraction(1, 20)
"""Of the budget, for the sum of squares of the target: how much the target varies says from how few rows a mean is
worth something."""


Floats = NDArray[np.float64]


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

    _delta_is_for_noise = False  # delta is for what is found

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

    def _bounded(self, rows: Batches) -> Batches:
        return rows.target

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        ends = read_bounds(bounds, rows.names[-1:])
        part = check_share("categories_share", self.categories_share)
        categories = plan_categories(
            rows.features, self.categories, share * part, self.delta
        )
        # Values that are refused, and a missing target, are an error before the charge.
        sums = self._sums(rows, categories.domain, categories.private, ends)
        of_means = share * (1 - part) if categories.private else share
        # A record changes two numbers of each column, together by `2 * GRID`: so in L1
        # norm, and at most in L2 norm.
        d = len(rows.names) - 1
        noise = Noise.of(of_means * (1 - _SQUARES), 2 * GRID * d, (2 * GRID) ** 2 * d)
        of_squares = Noise.of(of_means * _SQUARES, GRID)
        mechanism = f"{noise.name} on sums by category"
        losses: tuple[Loss, ...] = (noise.loss, of_squares.loss)
        delta = Fraction(0)
        if categories.private:
            delta = check_delta(self.delta)
            mechanism += f", {categories.mechanism}"
            losses = ((share * part).loss(delta), *losses)
        exact = rows, categories, sums, ends
        return Plan(exact, (noise, of_squares), mechanism, losses, delta)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        rows, categories, (square, distances), ends = plan.exact
        noise, of_squares = plan.noises
        domain = categories.domain
        if categories.private:
            domain, _ = categories.find(source)
            square, distances = self._sums(rows, domain, categories.private, ends)
        noisy = distances + noise.draw(source, distances.size).reshape(distances.shape)
        (total,) = of_squares.add(source, [square])
        error = float(min(noise.error, Fraction(LARGEST))) / (2 * GRID)
        means = _ShrunkMeans.of(
            clip_floats(noisy) / (2 * GRID),
            domain.sizes,
            min(max(total, -LARGEST), LARGEST) / GRID,
            error**2,
        )
        self.domain_ = domain
        self.target_mean_ = float(to_values(means.mean, ends)[0])
        self.target_mean_std_error_ = float((ends[0, 1] - ends[0, 0]) / 2 * means.error)
        self.encodings_ = [to_values(one, ends) for one in means.of_categories]

    def _sums(
        self, rows: Batches, domain: Domain, private: Sequence[Any], ends: Floats
    ) -> tuple[int, NDArray[np.object_]]:
        """Return the sum of squares of the target, and its distances to both bounds by category of all columns."""
        sums_of = partial(
            _sums_by_category,
            domain=domain,
            ends=ends,
            handle_unknown=self.handle_unknown,
        )
        n_undeclared, *parts = rows.add_up(sums_of)
        for name, n in zip(domain.columns, n_undeclared, strict=True):
            if n and name not in private:
                raise undeclared_error(name, domain, "categories")
        total, *by_column = [
            GroupSums.read(parts[start : start + 7], ends)
            for start in range(0, len(parts), 7)
        ]
        total.refuse_missing(rows.names[-1:])
        distances = []
        for sums in by_column:
            n = GRID * sums.counts
            distances.append(np.hstack([n + sums.places, n - sums.places]))
        return total.squares[0, 0], np.concatenate(distances)

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        self.target_mean_std_error_ = math.inf

    def _transform_table(self, table: Table) -> Sequence[Any]:
        codes, undeclared = find_codes(table, self.domain_, self.handle_unknown)
        private: list[Any] = []
        if self.handle_unknown == "auto":
            private = private_columns(self.domain_.columns, self.categories)
        for name in undeclared:
            if name not in private:
                raise undeclared_error(
                    name, self.domain_, "categories", known="declared or found"
                )
        encoded = []
        for means, places in zip(self.encodings_, codes, strict=True):
            encoded.append(np.append(means, self.target_mean_)[places])
        return encoded


def _sums_by_category(
    table: Table, _: Any, *, domain: Domain, ends: Floats, handle_unknown: str
) -> list[NDArray[np.int64]]:
    """Return by column whether values are undeclared, and the sums of the target: of all rows, and by category."""
    features = select_columns(table, table.names[:-1])
    codes, undeclared = find_codes(features, domain, handle_unknown)
    target = Table(table.names[-1:], table.columns[-1:], table.native)
    values = read_numbers(target, missing=True)
    sums = [np.isin(np.arange(len(codes)), list(map(domain.columns.index, undeclared)))]
    parts = [sums[0].astype(np.int64), *sums_of_groups(values, ends)]
    for column, size in zip(codes, domain.sizes, strict=True):
        parts += sums_of_groups(values, ends, column, size)
    return parts


class _ShrunkMeans(NamedTuple):
    """Means in half widths from the bounds' middle."""

    mean: float
    """Of all rows."""
    error: float
    of_categories: list[Floats]

    @classmethod
    def of(
        cls, noisy: Floats, sizes: Sequence[int], square: float, variance: float
    ) -> _ShrunkMeans:
        """Estimate means from noisy distances to both bounds by category, in rows: (n_categories, 2)."""
        # Of each category, the number of rows and the sum of places have independent
        # noise of twice the variance.
        n_rows = noisy.sum(axis=1)
        totals = noisy[:, 0] - noisy[:, 1]
        n_all = n_rows.sum()
        mean = float(np.clip(totals.sum() / n_all, -1, 1)) if n_all > 0 else 0.0
        of_noise = 2 * variance * (1 + mean**2)
        error = min(math.sqrt(len(noisy) * of_noise) / max(n_all, 1.0), 1.0)
        # No variance between bounds is larger than ``1 - mean**2``. The mean of all
        # columns has the least noise.
        of_row = most = 1 - mean**2
        if n_all > 0:
            of_row = square / (n_all / len(sizes)) - mean**2
            of_row = float(np.clip(of_row, 0.001 * most, most))
        of_categories = []
        start = 0
        for size in sizes:
            n = n_rows[start : start + size]
            excesses = totals[start : start + size] - mean * n
            shifts = shrunk_shifts(
                n,
                excesses,
                of_row=of_row,
                of_noise=of_noise,
                of_count=2 * variance,
            )
            of_categories.append(np.clip(mean + shifts, -1, 1))
            start += size
        return cls(mean, error, of_categories)
