"""Encoders of categories: indicators, and private means of a target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import Floats
from skdp.base import check_choice, parse_ends
from skdp.central._base import CentralTransformer, Plan, Unknown, check_unique_names
from skdp.central._limits import LimitSearch
from skdp.central._sums import GRID, from_grid, shrink_shifts, sum_by_cells
from skdp.central._supervised import SupervisedStatistic
from skdp.central.statistics import (
    Batches,
    CategorySearch,
    Noise,
    declared_domain,
    encode_declared,
    to_float,
)
from skdp.domain import Categories, Domain, DomainLike, Interval
from skdp.privacy import Mu, PrivacyBudget, PrivacyGuarantee, PrivacyLedger, Rho, Split
from skdp.randomness import ByteSource
from skdp.tables import Table, to_objects


class DPOneHotEncoder(CentralTransformer):
    """Encode each category as a column of 0 and 1; categories are declared, or found with differential privacy.

    With declared categories, it is like scikit-learn's `OneHotEncoder`: `fit` reads no value and uses no budget. If the
    domain is from `discover_domain`, `privacy_statement` includes its guarantee.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of categories that are found, in all columns together, finite and > 0.
    delta : float, default=0.0
        Failure probability of categories that are found: an upper bound of the probability that a value of one person
        only is found.
    categories : list of array-like, mapping, Domain or Interval, default=None
        Values of each column, as the `domain` of `DPHistogram`. None among the values declares missing as a category.
        With a `delta`, values of columns without a declaration are found: texts, whole numbers, booleans and missing
        values of many rows. All other values are the category "(other)".
    drop : {None, "first"}, default=None
        "first" drops the first category of each column. All indicators of a column add up to 1, so the coefficients of
        a regression are only defined without one of them.
    handle_unknown : {"error", "ignore"}, default="error"
        How `transform` handles any other value: "error" raises `ValueError`, which reveals that there is such a value;
        "ignore" encodes it as 0 in all columns. Use "ignore" for the categories of `discover_domain`, which excludes
        rare values.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    categories_ : list of ndarray of object
        Categories of each column, missing as None; names of bins of an `Interval`.
    domain_ : Domain
        The same as a domain.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`: epsilon is 0 if all categories are declared.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of str
        Names of columns, if all of them are strings.

    See Also
    --------
    discover_domain : Find the categories that many records share, and bounds of numbers.
    DPTargetEncoder : One column for many categories.
    sklearn.preprocessing.OneHotEncoder : Infers categories from the data by default.

    Notes
    -----
    **Privacy.** With declared categories, `fit` reads no value. Otherwise, central model: the curator of the table is
    trusted. Adding or removing a record changes the distribution of the fitted attributes by at most (epsilon, delta):
    the counts of all values get noise, and the values whose noisy counts reach a threshold are found
    (:doc:`/guarantees/statistics`). **The output of** `transform` **is not private**: each of its rows is a function
    of the input row, without noise. Not covered: an error reveals that a value is undeclared.

    Examples
    --------
    >>> from skdp import DPOneHotEncoder
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().data[["sex", "workclass"]]
    >>> encoder = DPOneHotEncoder(epsilon=1.0, delta=1e-6, random_state=0).fit(people)
    >>> encoder.get_feature_names_out()[[0, 1, -2, -1]].tolist()
    ['sex_Female', 'sex_Male', 'workclass_None', 'workclass_(other)']
    >>> declared = {"sex": ["Female", "Male"], "workclass": ["Private", None]}
    >>> DPOneHotEncoder(categories=declared).fit(people).guarantee_.epsilon
    0.0
    """

    _takes_categories = True
    _preserves_dtype = False
    _found_parameter = "categories"
    _search_part = Fraction(1)  # there is no other part

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        categories: DomainLike | None = None,
        drop: Literal["first"] | None = None,
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.drop = drop
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[Domain]:
        """Check the parameters and the declared categories; nothing remains to be measured."""
        if self.drop is not None:
            check_choice("drop", self.drop, ("first",))
        plan = self._plan_domain(rows, budget)
        check_unique_names(_list_names(plan.exact.items(), self.drop))
        return plan

    def _replan(
        self,
        plan: Plan[Any],
        rows: Batches,
        search: LimitSearch | CategorySearch,
        bounds: Floats,
    ) -> Plan[Domain]:
        return self._plan_domain(rows, search.rest)

    def _plan_domain(self, rows: Batches, budget: PrivacyBudget) -> Plan[Domain]:
        declared = rows.add_found(self.categories)
        domain = declared_domain(rows.table, declared, "categories")
        return Plan(domain, budget, mechanism="declared categories", free=True)

    def _release(self, plan: Plan[Domain], source: ByteSource) -> None:
        """Set the categories."""
        self.domain_ = plan.exact
        values = self.domain_.values()
        self.categories_ = [to_objects(categories.labels) for categories in values]

    def _transform_table(self, table: Table) -> Sequence[Any]:
        """Return the indicators of the categories of all columns."""
        codes = encode_declared(table, self.domain_, self.handle_unknown)
        indicators: list[NDArray[Any]] = []
        for column, size in zip(codes, self.domain_.sizes, strict=True):
            kept = np.arange(0 if self.drop is None else 1, size)[:, np.newaxis]
            indicators += list((kept == column).astype(float))
        return indicators

    def _output_names(self) -> Sequence[Any]:
        return _name_indicators(self.domain_.items(), self.drop)

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Name the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X; None uses the names seen during `fit`.

        Returns
        -------
        ndarray of str objects
            ``<column>_<category>`` for each category.
        """
        columns = super().get_feature_names_out(input_features)
        attributes = self.domain_.values()
        return to_objects(
            _name_indicators(zip(columns, attributes, strict=True), self.drop)
        )

    def _planned_guarantee(self) -> PrivacyGuarantee:
        planned = super()._planned_guarantee()
        if planned.delta:
            return planned
        return PrivacyGuarantee(0.0, relation="add_remove", trust="central")

    def _is_free(self, names: Sequence[Any]) -> bool:
        return True  # dtypes may declare categories


def _list_names(
    attributes: Iterable[tuple[Any, Categories | Interval]], drop: str | None
) -> list[str]:
    """Return ``<column>_<category>`` for each category of columns, given as pairs of names and values."""
    names = []
    for column, values in attributes:
        kept = values.labels if drop is None else values.labels[1:]
        names += [f"{column}_{label}" for label in kept]
    return names


def _name_indicators(
    attributes: Iterable[tuple[Any, Categories | Interval]], drop: str | None
) -> list[str]:
    """Return the name of the output column of each category; equal names of found categories get underscores."""
    names: dict[str, None] = {}
    for name in _list_names(attributes, drop):
        while name in names:
            name += "_"
        names[name] = None
    return list(names)


# The variance of the target, for shrinkage, is estimated from the sum of its squares.
TARGET_PARTS = Split(rest="distances", squares=Fraction(1, 20))


@dataclass(frozen=True, eq=False)
class TargetSums:
    """Exact sums of a target between bounds, in steps of the grid."""

    domain: Domain
    # The sum of squared positions, divided by `GRID`.
    sum_of_squares: int
    # Sums of the distances to both bounds by category; (n_categories of all columns, 2).
    distances: NDArray[np.object_]


class DPTargetEncoder(SupervisedStatistic, CentralTransformer):
    """Encode each category by the mean of the target among its rows, with differential privacy for whole records.

    Means of rare categories, and means with large noise, are shrunk toward the mean of all rows.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, the noise is Gaussian.
    delta : float, default=0.0
        Failure probability of categories that are found: an upper bound of the probability that a value of one person
        only is found. It is not spent if all categories are declared.
    categories : list of array-like, mapping, Domain or Interval, optional
        The values that each column may take, as the `domain` of `DPHistogram`: declared from public knowledge, or
        found by `discover_domain`. None among the values declares missing as a category. With a `delta`, values of
        columns without a declaration are found with a fifth of the budget: texts, whole numbers, booleans and missing
        values of many rows. All other values are the category "(other)".
    bounds : pair of float, or Domain, optional
        The smallest and largest value of the target, from public knowledge: (0, 1) for a class that is 0 or 1, and the
        default for booleans; None, or an end that is None, if there is none. Except for (0, 1), narrower limits are
        found with a fifth of the budget, or a third for an open end, so wide bounds cost little. Values outside the
        limits are clipped.
    handle_unknown : {"error", "ignore"}, default="error"
        How to handle an undeclared value. ``"error"`` reveals that such a value occurs.
        ``"ignore"`` excludes it from its column in `fit`, and `transform` encodes it as
        the mean of all rows. Use ``"ignore"`` for the categories of `discover_domain`,
        which excludes rare values.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    encodings_ : list of ndarray of float
        The encoding of each declared value of each column, between the bounds.
    target_mean_ : float
        The noisy mean of the target.
    target_mean_std_error_ : float
        The standard deviation of its noise. Encodings, which are shrunk toward this
        mean, have no standard error: `DPGroupBy` returns means by category with
        intervals.
    domain_ : Domain
        The values of each column.
    bounds_ : ndarray of shape (1, 2)
        The limits that are found within the declared bounds of the target, or (0, 1).
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit` for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.TargetEncoder : Without privacy; it encodes the rows of `fit` by other rows (cross-fitting).
    DPGroupBy : The means of categories themselves, with intervals.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``.
    The number of rows is protected too, and an empty table is allowed. **The output of** `transform` **is not
    private**: each of its rows is a function of the input row, without noise. Limits are found by a choice among public
    windows and by noisy counts (:doc:`/guarantees/statistics`). With categories that are found, the guarantee is
    ``(epsilon, delta)``: a value that only one person has is found with a probability of at most delta. Not covered: an
    error reveals that a value is undeclared, or that the target has a missing one.

    For each category, the sums of the distances of the target to both bounds are released. In each of d
    columns, a record adds two nonnegative numbers to one category, whose sum is the width of the bounds. Exactly drawn
    Laplace noise of scale d * width / (0.95 epsilon) therefore protects all sums. The remaining 5 % of epsilon are for
    the sum of squares of the target, from which its variance is estimated.

    The rest is post-processing. The variance between the means of the categories of a column is estimated by moments,
    and each mean is shrunk by the variances of its noise and of a mean of as many rows (empirical Bayes, [1]_). Because
    encodings are noisy, a model learns hardly anything about the target of a single row from its own encoding, so
    cross-fitting is not required.

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

    # Delta is for categories that are found.
    _delta_is_for_noise = False
    _takes_categories = True
    _preserves_dtype = False
    _found_parameter = "categories"
    _finds_limits = True
    _finds_limits_within = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        categories: DomainLike | None = None,
        bounds: tuple[float, float] | Domain | None = None,
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.bounds = bounds
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _select_bounded(self, rows: Batches) -> Batches:
        return rows.target

    def _plan_search(
        self, names: Sequence[Any], bounds: object, budget: PrivacyBudget
    ) -> LimitSearch | None:
        # A class of 0 and 1 is as wide as its bounds.
        if (parse_ends(bounds, names) == [0, 1]).all():
            return None
        return super()._plan_search(names, bounds, budget)

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[TargetSums]:
        """Compute the sums of the target by category, and the noise of both parts of the budget.

        `bounds` is the pair of bounds of the target. A sum gets noise as two distances, to the lower and the upper
        bound.
        """
        declared = rows.features.add_found(self.categories)
        domain = declared_domain(rows.features.table, declared, "categories")
        # A record changes two numbers of each of d columns, together by `2 * GRID`: this
        # is its change in L1 norm, and a bound in L2 norm.
        d = len(domain.columns)
        squares_noise = Noise.from_budget(budget * TARGET_PARTS.squares, GRID)
        noise = Noise.from_budget(
            budget * TARGET_PARTS.distances, 2 * GRID * d, (2 * GRID) ** 2 * d
        )
        exact = self._sum_target(rows, domain, bounds)
        name = f"{noise.name} on sums by category"
        return Plan(exact, budget, (noise, squares_noise), name)

    def _sum_target(self, rows: Batches, domain: Domain, bounds: Floats) -> TargetSums:
        """Sum the squares of the target, and its distances to both bounds by category."""
        # An empty marginal for all rows, and one marginal per column.
        cliques = [(), *((column,) for column in range(len(domain.columns)))]
        total, *by_column = sum_by_cells(
            rows, domain, cliques, bounds, self.handle_unknown, name="categories"
        )
        total.check_finite(rows.names[-1:])
        distances = []
        for sums in by_column:
            # A position p, from -`GRID` to `GRID`, has the distances `GRID` + p and
            # `GRID` - p to the bounds.
            # Counts are multiplied by `GRID`.
            counts, positions = sums.counts, sums.position_sums
            distances.append(np.hstack([counts + positions, counts - positions]))
        return TargetSums(
            domain, int(total.squares[0, 0]), np.concatenate(distances).astype(object)
        )

    def _release(self, plan: Plan[TargetSums], source: ByteSource) -> None:
        """Add noise to the sums, and set the encoding of each category: its mean target, shrunk to the overall mean."""
        sums, bounds = plan.exact, self.bounds_
        noise, squares_noise = plan.noises
        # Sums of distances in units of the width of the bounds, `2 * GRID` steps, and the
        # variance of their noise; shape (n_categories of all columns, 2).
        noisy_distances = noise.add_floats(source, sums.distances) / (2 * GRID)
        distance_variance = (to_float(noise.std) / (2 * GRID)) ** 2
        # The distances of a value to both bounds add up to 1, and their difference is its
        # position from -1 to 1. Both sums have twice the noise variance of a distance, and
        # their noises are uncorrelated.
        n_rows = noisy_distances.sum(axis=1)
        totals = noisy_distances[:, 0] - noisy_distances[:, 1]
        (noisy_squares,) = squares_noise.add(source, [sums.sum_of_squares])
        mean, error, by_column = shrink_means(
            n_rows,
            totals,
            sizes=sums.domain.sizes,
            sum_of_squares=to_float(noisy_squares) / GRID,
            variance=2 * distance_variance,
        )
        self.domain_ = sums.domain
        self.target_mean_ = float(from_grid(mean, bounds)[0])
        self.target_mean_std_error_ = float((bounds[0, 1] - bounds[0, 0]) / 2 * error)
        self.encodings_ = [from_grid(column, bounds) for column in by_column]

    @property
    def _columns(self) -> tuple[Any, ...]:
        return tuple(self.domain_.columns)

    def _transform_table(self, table: Table) -> Sequence[Any]:
        """Replace each value by the encoding of its category, and an undeclared value by the mean target."""
        codes = encode_declared(table, self.domain_, self.handle_unknown)
        encoded = []
        for means, column in zip(self.encodings_, codes, strict=True):
            encoded.append(np.append(means, self.target_mean_)[column])
        return encoded


def shrink_means(
    n_rows: Floats,
    totals: Floats,
    *,
    sizes: Sequence[int],
    sum_of_squares: float,
    variance: float,
) -> tuple[float, float, list[Floats]]:
    """Estimate means of a target, from -1 at its lower to 1 at its upper bound, from noisy sums by category.

    Return the mean of all rows, its standard error, and the means of the categories of each column.

    Parameters
    ----------
    n_rows, totals : ndarray of shape (n_categories of all columns,)
        Noisy numbers of rows, and sums of the target as positions from -1 to 1.
    sizes : list of int
        Number of categories of each column.
    sum_of_squares : float
        Noisy sum of squares of these positions over all rows.
    variance : float
        Variance of the noise of `n_rows` and `totals`.
    """
    n_all = n_rows.sum()
    mean = float(np.clip(totals.sum() / n_all, -1, 1)) if n_all > 0 else 0.0
    noise_variance = variance + variance * mean**2
    error = min(math.sqrt(len(n_rows) * noise_variance) / max(n_all, 1.0), 1.0)
    # The variance of numbers from -1 to 1 is at most ``1 - mean**2``. Each column
    # counts all rows, so the mean over columns estimates the number of rows.
    row_variance = largest = 1 - mean**2
    if n_all > 0:
        row_variance = sum_of_squares / (n_all / len(sizes)) - mean**2
        row_variance = float(np.clip(row_variance, 0.001 * largest, largest))
    by_column = []
    stops = np.cumsum(sizes)[:-1]
    for n, total in zip(np.split(n_rows, stops), np.split(totals, stops), strict=True):
        shifts = shrink_shifts(
            n,
            total - mean * n,
            row_variance=row_variance,
            noise_variance=noise_variance,
            count_variance=variance,
        )
        by_column.append(np.clip(mean + shifts, -1, 1))
    return mean, error, by_column
