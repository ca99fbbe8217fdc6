"""Selector of the columns that are most associated with a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.feature_selection import SelectorMixin

from skdp._arrays import Floats, Indices, Integers, Mask
from skdp.base import Bounds, to_float_columns
from skdp.central._base import CentralTransformer, Plan
from skdp.central._rows import UNIT, Rows, warn_of_few_rows
from skdp.central._sums import GRID, GroupSums, NoisySums, from_grid, sum_columns
from skdp.central._supervised import Classes, SupervisedStatistic, parse_all_ends
from skdp.central.statistics import (
    Batches,
    Noise,
    choice_name,
    choose,
    to_float,
)
from skdp.domain import Domain
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, Split
from skdp.randomness import ByteSource, check_size
from skdp.tables import Table

# Values are clipped to this number of noisy standard deviations around the noisy mean, so that a row changes all scores
# by the same amount. A smaller number finds more of the normal columns and fewer indicators; a larger number finds
# fewer columns.
MAX_DEVIATIONS = 2.5

# Half or twice each fraction changes the selection less than the noise of the choices. Limits do not
# replace the moments: correlation ratios are relative to variances.
SELECTION_PARTS = Split(
    rest="choices",
    moments=Fraction(1, 4),
    counts=Fraction(1, 32),
    scores=Fraction(1, 8),
)


@dataclass(frozen=True, eq=False)
class TargetedColumns:
    """Columns with a target, the last column of `rows`, and their exact sums."""

    rows: Batches
    sums: GroupSums
    # None for a numeric target.
    classes: Classes | None
    # The number of columns that are chosen.
    k: int


class DPSelectKBest(SupervisedStatistic, CentralTransformer, SelectorMixin):
    """Select the k features most associated with the target, with differential privacy.

    Columns are scored by the correlation ratio with declared classes, which ranks columns like the F statistic of
    scikit-learn's `f_classif`, or by the absolute correlation with a target of declared bounds, like `f_regression`.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=0.0
        Failure probability for a numeric `epsilon`, far below one over the number of rows. 0 for pure privacy,
        which needs more noise if k is larger than about seven or X has many columns.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge; None, or an end that is None, if
        there is none. Narrower limits are found with a fifth of the budget, or a third for a column with an open end,
        so wide bounds cost little. `fit` clips values outside the limits; `transform` does not. Use (0, 1) for
        booleans.
    classes : array-like, optional
        The values that a target of classes may take, from public knowledge.
    target_bounds : pair of float, or Domain, optional
        The smallest and largest value of a target that is a number, each None if it is not known. Declare either this
        or `classes`, unless the target has a boolean dtype.
    k : int, default=10
        The number of columns to keep; all if X has fewer.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,)
        The noisy correlation ratio or absolute correlation of each chosen column, from 0 to 1; nan for other columns,
        for which nothing is released.
    ranking_ : ndarray of int, shape (k,)
        The indices of the chosen columns, in the order of selection.
    bounds_ : ndarray of shape (n_features, 2) or (n_features + 1, 2)
        The limits that are found within the declared bounds; with `target_bounds`, the last ones are of the target.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit` for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    sklearn.feature_selection.SelectKBest : Without privacy.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta.
    The number of rows is protected too, and an empty table is allowed. **The output of** `transform` **is columns of
    the rows themselves**, as private as X. Not covered: an error reveals that a value is missing or infinite, or that a
    class is not declared.

    Limits of the columns are found first. The remaining budget has four parts. A quarter releases means and variances,
    and a 32nd releases the numbers of rows by class. An eighth releases the scores of the chosen columns. The remaining
    19/32 is divided equally among the k choices, by permute-and-flip or the exponential mechanism. The noise of a
    choice is therefore proportional to k (with a delta, to its square root), and does not depend on the number of
    columns.

    Each column is centered at its noisy mean, scaled by its noisy standard deviation, clipped at 2.5, and converted to
    integers, so that a row changes the scores of all columns about equally. The score of a column is the norm of its
    sums of products with the centered target, or with the centered indicators of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPSelectKBest
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2_000)
    >>> X = rng.normal(size=(2_000, 20))
    >>> X[:, [3, 8]] += y[:, np.newaxis]
    >>> selector = DPSelectKBest(k=2, epsilon=1.0, bounds=(-5, 5), classes=[0, 1], random_state=0).fit(X, y)
    >>> selector.get_support(indices=True), selector.scores_[[3, 8]].round(1)
    (array([3, 8]), array([0.5, 0.4]))
    """

    _takes_missing = False
    _requires_rows = True
    _finds_limits = True
    _finds_limits_within = True

    get_feature_names_out = SelectorMixin.get_feature_names_out

    scores_: Floats
    ranking_: Indices
    _names: tuple[Any, ...]

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        bounds: Bounds | None = None,
        classes: ArrayLike | None = None,
        target_bounds: tuple[float | None, float | None] | Domain | None = None,
        k: int = 10,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.target_bounds = target_bounds
        self.k = k
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _select_bounded(self, rows: Batches) -> Batches:
        if self.classes is not None:
            return rows.features
        if self.target_bounds is None and not rows.target.are_boolean().all():
            raise ValueError(
                "`classes` or `target_bounds` must be given, got neither. Use public "
                "knowledge, target_bounds=(None, None), or a boolean target."
            )
        return rows

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        """Return the bounds of the columns `names`, with the bounds of a numeric target last."""
        if self.classes is None:
            return parse_all_ends(self.bounds, self.target_bounds, names)
        if self.target_bounds is not None:
            raise ValueError(
                "Only one of `classes` and `target_bounds` must be given, got both."
            )
        return super()._declared_bounds(names)

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[TargetedColumns]:
        """Compute the sums of columns, and divide the budget among moments, class counts, choices and scores."""
        k = min(check_size(self.k, name="k", min_val=1), len(rows.names) - 1)
        sums = sum_columns(self._select_bounded(rows), bounds, missing=False)
        classes = None if self.classes is None else Classes(rows, self.classes)
        n_sums = 2 * len(sums.bounds) + 1
        moments_noise = Noise.joint(budget * SELECTION_PARTS.moments, GRID, n_sums)
        counts_noise = Noise.from_budget(budget * SELECTION_PARTS.counts)
        return Plan(
            TargetedColumns(rows, sums, classes, k),
            budget,
            (moments_noise, counts_noise),
            f"{moments_noise.name} on sums, {choice_name(budget)}",
            # The sensitivity of the scores depends on noisy counts.
            losses=(),
        )

    def _measure(
        self, plan: Plan[TargetedColumns], source: ByteSource
    ) -> tuple[Rows, Contrasts, float]:
        """Round rows to integers by noisy means and variances, and center the target at its noisy mean.

        Returns the rows, the centered target, and the noisy number of rows.
        """
        sums, classes = plan.exact.sums, plan.exact.classes
        moments_noise, counts_noise = plan.noises
        numbers = sums.numbers(squares=True, shared_count=True)
        noisy = NoisySums.draw(numbers, sums.bounds, moments_noise, source)
        mean, _, variance, _ = noisy.estimate_moments()
        rows = self._round_rows(plan.exact, mean[0], variance[0])

        # Noisy numbers of rows by class, each at least the standard deviation of its noise.
        n_classes = 1 if classes is None else len(classes.values)
        codes = rows.codes if n_classes > 1 else np.zeros_like(rows.codes)
        n_of_classes = np.bincount(codes, minlength=n_classes)
        counts = counts_noise.add_floats(source, n_of_classes)
        error = to_float(counts_noise.std)
        warn_of_few_rows(counts.sum(), error * math.sqrt(n_classes))
        counts = np.maximum(counts, max(math.ceil(error), 1.0))

        contrasts = Contrasts.from_classes(counts)
        if classes is None:
            contrasts = Contrasts(None, (UNIT,), UNIT**3)
        return rows, contrasts, float(counts.sum())

    def _release(self, plan: Plan[TargetedColumns], source: ByteSource) -> None:
        """Choose `k` columns by the exponential mechanism, and measure their correlation ratios with the target."""
        k, budget = plan.exact.k, plan.budget
        # 1. Measure the mean and variance of the columns, and the classes of the target.
        rows, contrasts, n_rows = self._measure(plan, source)

        # 2. Choose the columns with the largest scores, one after the other. By the
        # triangle inequality, a row changes a norm by at most the norm of its own
        # products, and rounding down adds at most 1.
        change = math.isqrt(UNIT**2 * contrasts.max_squares) + 1
        scores = contrasts.scores(rows)
        candidates = list(range(len(scores)))
        chosen: list[int] = []
        for _ in range(k):
            remaining = [scores[column] for column in candidates]
            # One score may increase by `change` while another one decreases.
            index = choose(
                source, remaining, budget * SELECTION_PARTS.choices / k, 2 * change
            )
            chosen.append(candidates.pop(index))

        # 3. Measure the scores of these columns, as correlation ratios.
        noise = Noise.from_budget(
            budget * SELECTION_PARTS.scores, k * change, k * change**2
        )
        exact_scores = np.array([scores[column] for column in chosen], object)
        # UNIT represents MAX_DEVIATIONS standard deviations of a column, and of a numeric
        # target. The root of a weight of 1 is the root of UNIT.
        is_numeric = plan.exact.classes is None
        score_unit = MAX_DEVIATIONS**2 if is_numeric else MAX_DEVIATIONS
        to_ratio = score_unit / (n_rows * UNIT**2 * math.sqrt(UNIT))
        ratios = noise.add_floats(source, exact_scores) * to_ratio
        self._names = plan.exact.rows.names[:-1]
        self.ranking_ = np.array(chosen)
        self.scores_ = np.full(len(scores), np.nan)
        self.scores_[chosen] = np.clip(ratios, 0.0, 1.0)

    @property
    def _columns(self) -> tuple[Any, ...]:
        return self._names

    def _round_rows(
        self, exact: TargetedColumns, mean: Floats, variance: Floats
    ) -> Rows:
        """Round rows to integers, centered at the noisy means and clipped to `MAX_DEVIATIONS` standard deviations.

        `mean` is relative to the middle of the bounds, in half widths, and `variance` is in squared half widths.
        """
        rows, classes, bounds = exact.rows, exact.classes, exact.sums.bounds
        centers = from_grid(mean, bounds)
        half_widths = (bounds[:, 1] - bounds[:, 0]) / 2
        distances = MAX_DEVIATIONS * np.sqrt(variance) * half_widths
        # With bounds near the largest float, the limits and their distance would be
        # infinite.
        distances = np.minimum(distances, np.finfo(float).max / 4)
        limits = np.column_stack([centers - distances, centers + distances])
        numbers = to_float_columns(self._select_bounded(rows).table)
        if classes is None:
            *columns, target = numbers
            no_codes = np.zeros(len(target), np.uint8)
            rounded = Rows.of([target], limits[-1:], centers[-1:], no_codes)
            codes: NDArray[Any] = rounded.positions[:, 0]
        else:
            columns, codes = numbers, classes.codes
        n = len(columns)
        return Rows.of(columns, limits[:n], centers[:n], codes)

    def _transform_table(self, table: Table) -> Sequence[Any]:
        to_float_columns(table)  # a missing value is an error, as in `fit`
        return [table.columns[column] for column in self.get_support(indices=True)]

    def _output_names(self) -> Sequence[Any]:
        return [self._columns[column] for column in self.get_support(indices=True)]

    def _get_support_mask(self) -> Mask:
        return ~np.isnan(self.scores_)


@dataclass(frozen=True, eq=False)
class Contrasts:
    """The target as integers of up to `UNIT`, centered at its noisy mean.

    The score of a column is the root of the weighted sum of the squares of its sums of products with the target.
    """

    # The centered indicators of each class: (n_classes, n_classes); None for a numeric
    # target, whose position is the code of a row.
    table: Floats | None
    # Weights of the squares, in steps of 1 / `UNIT`.
    weights: tuple[int, ...]
    # The largest weighted sum of squares of the target values of a row.
    max_squares: int

    @classmethod
    def from_classes(cls, counts: Floats) -> Contrasts:
        """Return the indicators of classes minus noisy proportions, weighted as in the variance between classes.

        `counts` are the noisy numbers of rows of each class.
        """
        # The variance between classes is the sum over classes of (sum of x minus its
        # expectation)**2 / n_class, so the weight of a class is the inverse of its
        # proportion.
        proportions = np.clip(
            np.rint(UNIT * counts / counts.sum()), 1, UNIT - 1
        ).astype(int)
        table = UNIT * np.eye(len(proportions), dtype=int) - proportions
        weights = UNIT**2 // proportions
        squares = table.astype(object) ** 2 @ weights.astype(object)
        return cls(table.astype(float), tuple(weights.tolist()), max(squares.tolist()))

    def sums(self, rows: Rows) -> Integers:
        """Return the sums of the products of each column with the target; shape (n_columns, n_contrasts).

        The target of a row is its number, or the row of `table` for its class.
        """
        sums = np.zeros((rows.n_columns, len(self.weights)), np.int64)
        for block, part in rows.blocks():
            codes = rows.codes[block]
            values = codes[:, np.newaxis].astype(float)
            if self.table is not None:
                values = self.table[codes]
            # The sums are below 2**53, so floats are exact.
            sums += (part.T @ values).astype(np.int64)
        return sums

    def scores(self, rows: Rows) -> list[int]:
        """Return the weighted norm of the sums of each column, rounded down."""
        squares = self.sums(rows).astype(object) ** 2
        weights = np.array(self.weights, object)
        return [math.isqrt(square) for square in (squares @ weights).tolist()]
