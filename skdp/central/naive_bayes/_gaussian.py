"""Naive Bayes for numbers: private means and variances by class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import Bounds, read_bounds, read_numbers
from skdp.central._base import Plan
from skdp.central._supervised import Classes, features
from skdp.central.naive_bayes._base import Floats, NaiveBayes
from skdp.central.statistics import (
    GRID,
    ColumnSums,
    Noise,
    SumTally,
    complete,
    losses_of,
    moments_of,
    n_numbers,
    query,
)
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table, read_table

_TINY, _HUGE = np.finfo(float).tiny, np.finfo(float).max


class DPGaussianNB(NaiveBayes):
    """Gaussian naive Bayes: means and variances by class that are private for the whole record.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all that `fit` releases, finite and > 0; with `skdp.privacy.Rho` or `skdp.privacy.Mu`, a share
        of a budget in rho or mu, which has a delta of its own.
    delta : float, optional
        The delta of an `epsilon` that is a number. It is spent only where Gaussian noise is less than that of a pure
        epsilon: from about 25 columns on at an epsilon of 1 and a delta of 1e-6. None or 0 for pure privacy.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or "private"
        The lowest and the highest value of all columns, or of each, from what is publicly known. Values outside are
        clipped, also where rows are predicted. ``"private"``, for all columns or in place of a pair, finds bounds that
        hold nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of the budget that finds bounds, if some are private.
    classes : list, optional
        The classes that the target may have, from what is publicly known. None reads them from the target, with a
        `PrivacyLeakWarning`.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    theta_ : ndarray of shape (n_classes, n_features)
        The mean of each column in each class, drawn towards that of all rows as far as noise hides the difference.
    var_ : ndarray of shape (n_classes, n_features)
        The variances, drawn towards each other in the same way, and larger by what is not known of the means.
    class_count_ : ndarray of shape (n_classes,)
        The noisy numbers of rows.
    class_count_std_error_ : float
        The standard deviation of their noise.
    class_prior_ : ndarray of shape (n_classes,)
        The shares of the classes, each of at least the standard deviation of its noise.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    domain_ : Domain
        The target and its classes.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds of the columns.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPCategoricalNB : Columns of declared categories, and numbers in bins.
    DPLogisticRegression : Columns that depend on each other.
    sklearn.naive_bayes.GaussianNB : Without privacy.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta.
    Predictions are post-processing, and cost nothing: but those for a row of the table are about this row. The number
    of rows is protected too, also that of each class, and a table without rows is answered. Not covered: an error
    shows that a value is missing, or that a class is not declared.

    Values are integers on a grid between the bounds. Of each class, the number of rows and, of each of d columns, the
    sum and the sum of squares are released: a record changes those of its own class, 1 + 2 d numbers, by at most 1
    each in units of the bounds, and nothing of the others. So all classes get independent noise of the whole epsilon,
    of the density ``e**(-epsilon max|z|)``, or Gaussian noise for a change of ``sqrt(1 + 2 d)``. What follows is
    post-processing: how much the classes differ is estimated from their noisy moments, less what noise adds, and the
    moments are drawn towards each other by this ([1]_).

    References
    ----------
    .. [1] B. Efron, C. Morris (1973). Stein's estimation rule and its competitors: an empirical Bayes approach. Journal
       of the American Statistical Association 68(341).

    Examples
    --------
    >>> from skdp import DPGaussianNB
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean radius", "mean texture", "mean concavity"]]
    >>> bounds = {"mean radius": (0, 30), "mean texture": (0, 40), "mean concavity": (0, 0.5)}
    >>> model = DPGaussianNB(epsilon=2.0, bounds=bounds, classes=[0, 1], random_state=0).fit(X, y)
    >>> round(model.score(X, y), 1)
    0.9
    >>> print(model.guarantee_)
    epsilon = 2, central model, adding or removing one record's values of: mean radius, mean texture, mean concavity,
    target, NOT SECURE: ...
    """

    _takes_missing = False

    theta_: Floats
    var_: Floats
    bounds_: Floats

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float | None = None,
        bounds: Bounds | None = None,
        bounds_share: float = 0.2,
        classes: list[Any] | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.classes = classes
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _bounded(self, table: Table) -> Table:
        return features(table)

    def _noise(self, share: Share, n_columns: int) -> Noise:
        return Noise.joint(
            share, GRID, n_numbers(n_columns, squares=True, shared_count=True)
        )

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        ends = read_bounds(bounds, table.names[:-1])
        classes = Classes.read(table, large, self.classes)
        sums = sums_by_class(table, large, classes, ends)
        noise = self._noise(share, len(ends))
        release = partial(self._release, sums, ends, classes, noise)
        return Plan(
            f"{noise.name} on sums by class", release, losses=losses_of([noise])
        )

    def _release(
        self,
        sums: list[list[ColumnSums]],
        ends: Floats,
        classes: Classes,
        noise: Noise,
        source: ByteSource,
    ) -> None:
        counts, found = np.zeros(len(sums)), np.zeros((4, len(sums), len(ends)))
        for place, columns in enumerate(sums):
            # Each row is in one class: these are different rows, and their noise costs as much as that of one class.
            count, *noisy = noise.add(
                source, query(columns, squares=True, shared_count=True)
            )
            counts[place] = float(min(max(count, -_MOST), _MOST)) / GRID
            found[:, place] = np.transpose(
                [
                    moments_of(count, noisy[i : i + 2], noise.error)
                    for i in range(0, len(noisy), 2)
                ]
            )
        self._set_classes(classes, counts, noise.error / GRID)
        self.domain_ = classes.domain
        shares = (np.maximum(counts, 1.0) / np.maximum(counts, 1.0).sum())[
            :, np.newaxis
        ]
        mean, unknown = _drawn_together(found[0], found[1], shares)
        variance, _ = _drawn_together(found[2], found[3], shares)
        low, width = ends[:, 0], ends[:, 1] - ends[:, 0]
        self.theta_ = np.clip(low + width * ((mean + 1) / 2), *ends.T)
        with np.errstate(over="ignore", under="ignore"):
            self.var_ = np.clip((width / 2) ** 2 * (variance + unknown), _TINY, _HUGE)

    def _log_likelihood(self, table: Table) -> Floats:
        numbers = np.clip(np.stack(read_numbers(table), axis=1), *self.bounds_.T)
        found = np.zeros((len(numbers), len(self.classes_)))
        for place, (mean, deviation) in enumerate(
            zip(self.theta_, np.sqrt(self.var_), strict=True)
        ):
            found[:, place] = (
                -(((numbers - mean) / deviation) ** 2).sum(axis=1) / 2
                - np.log(deviation).sum()
            )
        return found


_MOST = 1 << 90
"""Beyond all numbers of rows, times `GRID`. With a tiny epsilon noise is larger, also than all floats."""


def _drawn_together(
    found: Floats, errors: Floats, shares: Floats
) -> tuple[Floats, Floats]:
    """Draw the numbers of the classes towards their mean, as far as noise hides that they differ; and square errors."""
    squares = np.maximum(errors, 1 / GRID) ** 2
    middle = (found / squares).sum(axis=0) / (1 / squares).sum(axis=0)
    spread = np.maximum((shares * ((found - middle) ** 2 - squares)).sum(axis=0), 0)
    factors = spread / (spread + squares)
    return middle + factors * (found - middle), factors * squares


@dataclass(frozen=True)
class ClassSums:
    """The sums of columns between bounds, by class: what a `LargeTable` adds up."""

    tally: SumTally
    classes: Classes

    def zeros(self) -> list[NDArray[np.int64]]:
        return [total for _ in self.classes.values for total in self.tally.zeros()]

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        self.add_rows(sums, read_table(batch))

    def add_rows(self, sums: list[NDArray[np.int64]], table: Table) -> None:
        columns, n = read_numbers(features(table), missing=True), len(self.tally.bounds)
        codes = self.classes.codes(table.columns[-1])
        for place in range(len(self.classes.values)):
            rows = codes == place
            self.tally.add_numbers(
                sums[n * place : n * (place + 1)], [column[rows] for column in columns]
            )

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: all rows differ."""
        return math.inf


def sums_by_class(
    table: Table, large: LargeTable | None, classes: Classes, ends: Floats
) -> list[list[ColumnSums]]:
    """Return the sums of each column in each class."""
    tally = ClassSums(SumTally([(low, high) for low, high in ends.tolist()]), classes)
    if large is None:
        sums = tally.zeros()
        tally.add_rows(sums, table)
    else:
        sums = large.add_up(table.names, tally)
    n, names = len(ends), table.names[:-1]
    parts = [
        complete(names, sums[start : start + n]) for start in range(0, len(sums), n)
    ]
    return [tally.tally.read(part) for part in parts]
