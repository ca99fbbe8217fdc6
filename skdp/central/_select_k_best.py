"""Columns that say most of a target, chosen one after the other by private choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags

from skdp.base import Bounds, read_numbers
from skdp.central._base import Plan
from skdp.central._selectors import Selector
from skdp.central._supervised import (
    Classes,
    SupervisedStatistic,
    features,
    read_rows,
    split_all_bounds,
    target_places,
)
from skdp.central.statistics import (
    GRID,
    UNIT,
    ColumnSums,
    Noise,
    Rows,
    as_float,
    choice_loss,
    choice_name,
    choose,
    losses_of,
    n_numbers,
    noisy_moments,
    sum_columns,
    warn_of_few,
)
from skdp.oracles import check_size
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table

_MOMENTS, _COUNTS, _SCORES = Fraction(1, 4), Fraction(1, 32), Fraction(1, 8)
_CHOICES = 1 - _MOMENTS - _COUNTS - _SCORES
"""Of the budget, for means and variances, the numbers of rows, the scores of what is chosen, and for choosing it."""

_REACH = 2.5
"""Values count up to this many noisy deviations from the noisy mean, for a row to change all scores alike."""

_FINE = 1 << 10
"""Of the weights of classes."""


class DPSelectKBest(SupervisedStatistic, Selector):
    """Keep the columns that say most of a target, by private choices.

    Columns are scored by the correlation ratio with declared classes, the rank of which is that of the F statistic of
    scikit-learn's `f_classif`, or by the absolute correlation with a target of declared bounds, as of `f_regression`.

    Parameters
    ----------
    k : int, default=10
        The number of columns to keep, all if there are not more.
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all that `fit` releases, finite and > 0; with `skdp.privacy.Rho` or `skdp.privacy.Mu`, a share
        of a budget in rho or mu, which has a delta of its own.
    delta : float, optional
        The delta of an `epsilon` that is a number, far below one over the number of rows. Choices have less noise than
        with pure privacy (None or 0) for a k of more than about seven, and means and variances for many columns.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside; `transform` does not. Truth values have (0, 1). ``"private"``, for all columns or in place of a pair,
        finds bounds that hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if some are private.
    classes : array-like, optional
        The values that a target of classes may take, from what is publicly known.
    target_bounds : pair of float, or "private", optional
        The lowest and the highest value of a target that is a number. Declare either this or `classes`.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,)
        The noisy correlation ratio or absolute correlation of each chosen column, from 0 to 1; nan for the others, of
        which nothing is released.
    scores_std_error_ : ndarray of shape (n_features,)
        The standard deviation of their noise; nan for columns that are not chosen. It does not say how much a
        score would differ in other rows, nor what clipping takes from it. 1 where private bounds, of the column or
        the target, are not found.
    ranking_ : ndarray of int, shape (k,)
        The places of the chosen columns, in the order in which they were chosen.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPVarianceThreshold : Columns that vary, without a target.
    sklearn.feature_selection.SelectKBest : Without privacy.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta.
    The number of rows is protected too, and a table without rows is answered. **The output of** `transform` **is
    columns of the rows themselves**, as private as X. Not covered: an error shows that a value is missing, or that a
    class is not declared.

    A quarter of the budget releases means and variances, and a 32nd the numbers of rows by class. Values are then
    integers, in noisy deviations from the noisy mean and clipped at 2.5, so that a row changes the score of every
    column by about as much: the score is the norm of the sums of the products with the classes, or the target, measured
    from their noisy means. Each of k choices has a k-th of most of the rest, by permute-and-flip or the exponential
    mechanism: k scores are compared with noise in proportion to k, or its root, where a noisy table of all sums
    would have noise in proportion to the number of columns, or its root. An eighth shows the scores of the chosen ones.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPSelectKBest
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2_000)
    >>> X = rng.normal(size=(2_000, 20))
    >>> X[:, [3, 8]] += y[:, np.newaxis]
    >>> selector = DPSelectKBest(2, epsilon=1.0, bounds=(-5, 5), classes=[0, 1], random_state=0).fit(X, y)
    >>> selector.get_support(indices=True), selector.scores_[[3, 8]].round(1)
    (array([3, 8]), array([0.4, 0.5]))
    """

    _takes_missing = False

    scores_: NDArray[np.float64]
    scores_std_error_: NDArray[np.float64]
    ranking_: NDArray[np.intp]

    def __init__(
        self,
        k: int = 10,
        *,
        epsilon: float | Rho | Mu = 1.0,
        delta: float | None = None,
        bounds: Bounds | None = None,
        bounds_share: float = 0.2,
        classes: ArrayLike | None = None,
        target_bounds: tuple[float, float] | str | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.k = k
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.classes = classes
        self.target_bounds = target_bounds
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _bounded(self, table: Table) -> Table:
        return table if self.classes is None else features(table)

    def _split_bounds(self, names: Sequence[Any]) -> tuple[list[int], Any]:
        if (self.classes is None) == (self.target_bounds is None):
            raise ValueError(
                "declare the target by either classes or target_bounds, from what is publicly known"
            )
        if self.classes is not None:
            return super()._split_bounds(names)
        return split_all_bounds(self.bounds, self.target_bounds, names)

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        k = min(check_size(self.k, name="k", least=1), len(table.names) - 1)
        columns = sum_columns(
            bounded := self._bounded(table), large, bounds, missing=False
        )
        classes = (
            None if self.classes is None else Classes.read(table, large, self.classes)
        )
        noise = Noise.joint(
            share * _MOMENTS,
            GRID,
            n_numbers(len(columns), squares=True, shared_count=True),
        )
        mechanism = f"{noise.name} on sums, {choice_name(share)}"

        def place(near: NDArray[np.float64], centres: NDArray[np.float64]) -> Rows:
            if classes is not None:
                return read_rows(table, large, near, centres, classes.codes)
            goal = partial(
                target_places,
                name=bounded.names[-1],
                ends=near[-1:],
                start=centres[-1:],
            )
            return read_rows(table, large, near[:-1], centres[:-1], goal)

        n_classes = 1 if classes is None else len(classes.values)
        noises = noise, Noise.of(share * _COUNTS)
        release = partial(self._release, columns, place, n_classes, k, noises, share)
        if share.kind != "epsilon":
            return Plan(mechanism, release)
        choices = replace(choice_loss(share * _CHOICES / k), count=k)
        # How far a row changes the scores depends on the noisy counts, so of their noise only epsilon is known before.
        return Plan(
            mechanism,
            release,
            losses=(*losses_of(noises), choices, (share * _SCORES).loss()),
        )

    def _release(
        self,
        columns: Sequence[ColumnSums],
        place: Callable[[NDArray[np.float64], NDArray[np.float64]], Rows],
        n_classes: int,
        k: int,
        noises: tuple[Noise, Noise],
        share: Share,
        source: ByteSource,
    ) -> None:
        noise, counting = noises
        moments = noisy_moments(columns, noise, source, squares=True, shared_count=True)
        pairs = list(zip(columns, moments, strict=True))
        centres = np.array([column.value(GRID * one.mean) for column, one in pairs])
        reach = np.array(
            [
                _REACH * math.sqrt(one.variance) * (column.high - column.low) / 2
                for column, one in pairs
            ]
        )
        # Between bounds near the largest floats, the ends of the grid and their distance would be infinite.
        reach = np.minimum(reach, np.finfo(float).max / 4)
        near = np.column_stack([centres - reach, centres + reach])
        rows = place(near, centres)
        noisy = counting.add(
            source, rows.sum(partial(_count_classes, n_classes=n_classes)).tolist()
        )
        error = as_float(counting.error)
        if sum(noisy) < 3 * math.sqrt(n_classes) * error:
            warn_of_few()
        counts = np.array(
            [max(as_float(one), float(math.ceil(error)), 1.0) for one in noisy]
        )
        numeric = self.classes is None
        contrasts, unit = (
            (NUMBERS, _REACH**2) if numeric else (Contrasts.of_classes(counts), _REACH)
        )
        # A row changes a norm by at most the change of its vector, and the floor of it by at most one more.
        change = math.isqrt(UNIT**2 * contrasts.square) + 1
        scores = contrasts.scores(rows)
        left, chosen = list(range(len(scores))), list[int]()
        for _ in range(k):
            best = choose(
                source, [scores[one] for one in left], share * _CHOICES / k, 2 * change
            )
            chosen.append(left.pop(best))
        shown = Noise.of(share * _SCORES, k * change, k * change**2)
        in_ratios = unit / (counts.sum() * UNIT**2 * math.sqrt(_FINE))
        noisy = shown.add(source, [scores[one] for one in chosen])
        self.ranking_ = np.array(chosen)
        self.scores_ = np.full(len(scores), np.nan)
        self.scores_[chosen] = [
            min(as_float(max(one, 0)) * in_ratios, 1.0) for one in noisy
        ]
        # A score is measured in noisy deviations, and over a noisy number of rows.
        relative = np.array(
            [one.variance_error / (2 * one.variance) for one in moments]
        )
        of_units = np.hypot(relative[: len(scores)], relative[-1] if numeric else 0.0)
        of_rows = error * math.sqrt(n_classes) / counts.sum()
        errors = np.hypot(
            as_float(shown.error) * in_ratios,
            self.scores_ * np.hypot(of_units, of_rows),
        )
        self.scores_std_error_ = np.minimum(errors, 1.0)

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        n_columns = len(self.scores_)
        open_scores = hidden[:n_columns] | hidden[n_columns:].any()
        self.scores_std_error_[open_scores & ~np.isnan(self.scores_)] = 1.0

    def _transform_table(self, table: Table) -> Sequence[Any]:
        read_numbers(table)  # a missing value is an error, as in `fit`
        return super()._transform_table(table)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.scores_)


def _count_classes(rows: Rows, n_classes: int) -> NDArray[np.int64]:
    """Count the rows of each class; of one class, all rows."""
    return np.bincount(
        rows.codes if n_classes > 1 else np.zeros_like(rows.codes), minlength=n_classes
    )


@dataclass(frozen=True, eq=False)
class Contrasts:
    """What a target is, in integers of up to `UNIT`, measured from its noisy mean."""

    table: NDArray[np.float64] | None
    """Of each class, a number for each class; None for a target that is a number, whose place the code of a row is."""
    weights: tuple[int, ...]
    """Of the squares of their sums."""
    square: int
    """The largest weighted sum of squares of the values of a row."""

    @classmethod
    def of_classes(cls, counts: NDArray[np.float64]) -> Contrasts:
        """Measure indicators of classes from their noisy shares; weights are those of the variance between classes."""
        shares = np.clip(np.rint(UNIT * counts / counts.sum()), 1, UNIT - 1).astype(int)
        table = UNIT * np.eye(len(shares), dtype=int) - shares
        weights = tuple(_FINE * UNIT // share for share in shares.tolist())
        squares = [
            sum(one**2 * weight for one, weight in zip(row, weights, strict=True))
            for row in table.tolist()
        ]
        return cls(table.astype(float), weights, max(squares))

    def sums(self, rows: Rows) -> NDArray[np.int64]:
        """Return the sums of the products of each column with the target."""
        sums = np.zeros((rows.n_columns, len(self.weights)), np.int64)
        for block, part in rows.blocks():
            codes = rows.codes[block]
            values = (
                codes[:, np.newaxis].astype(float)
                if self.table is None
                else self.table[codes]
            )
            sums += (part.T @ values).astype(
                np.int64
            )  # below 2**53, as floats add them up exactly
        return sums

    def scores(self, rows: Rows) -> list[int]:
        """Return the norm of the sums of each column."""
        return [
            math.isqrt(
                sum(
                    one**2 * weight
                    for one, weight in zip(row, self.weights, strict=True)
                )
            )
            for row in rows.sum(self.sums).tolist()
        ]


NUMBERS = Contrasts(None, (_FINE,), UNIT**2 * _FINE)
"""Of a target that is a number, from a noisy mean."""
