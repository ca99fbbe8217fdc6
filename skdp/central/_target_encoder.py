"""Categories encoded by the private mean of the target among the rows that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from skdp.base import all_or_nothing, read_bounds, read_numbers, target_of
from skdp.central._base import CentralTransformer, Unknown, check_choice
from skdp.central.statistics import (
    GRID,
    LARGEST,
    declared_domain,
    find_codes,
    integer_noise,
    losses_of,
    rows_within,
    shrunk_shifts,
    to_places,
    undeclared_error,
)
from skdp.domain import Domain, Interval
from skdp.frames import Table
from skdp.oracles import check_size
from skdp.privacy import Mu, PrivacyLedger, Rho
from skdp.typing import ColumnLike, ColumnName, TableLike

_SQUARES = Fraction(1, 20)
"""Of the budget, for the sum of squares of the target: how much the target varies says from how few rows a mean is
worth something."""


class DPTargetEncoder(CentralTransformer):
    """Encode each category by the mean of the target among its rows, private for the whole record.

    Rare categories, and those of which the noise hides the mean, are drawn towards the mean of all rows.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    categories : list of array-like, mapping, Domain or Interval, optional
        The values that each column may take, as the `domain` of `DPHistogram`: declared from what is publicly known.
        None among the values declares missing as a category.
    bounds : pair of float, optional
        The lowest and the highest value of the target, from what is publicly known: (0, 1) for a class that is 0 or 1.
        Values outside are clipped.
    handle_unknown : {"error", "ignore"}, default="error"
        What is done with an undeclared value: an error reveals that there is one. ``"ignore"``: in `fit` it adds
        nothing to its column, and `transform` encodes it by the mean of all rows.
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
    domain_ : Domain
        The values of each column.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.TargetEncoder : Without privacy; it encodes the rows of `fit` by other rows (cross-fitting).
    DPHistogram : Counts of categories.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, ``delta = 0``; replacing one by 2 epsilon. The
    number of rows is protected too, and a table without rows is answered. **The output of** `transform` **is not
    private**: each of its rows is a function of the input row, without noise. Not covered: an error reveals that a
    value is undeclared, or that the target has a missing one.

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
        categories: Domain | Mapping[ColumnName, Any] | Sequence[Any] | Interval | None = None,
        bounds: tuple[float, float] | None = None,
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.bounds = bounds
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.allow_nan = self.handle_unknown == "ignore"
        tags.transformer_tags.preserves_dtype = []
        return tags

    @all_or_nothing
    def fit(self, X: TableLike, y: Any = None, *, groups: ColumnLike | ColumnName | None = None) -> Self:
        """Release the means of the target by category.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The private rows: declared values.
        y : series or array-like of shape (n_samples,)
            The private target: numbers or truth values, none of them missing.
        groups : 1-D array-like of shape (n_samples,), optional
            The person of each row: of each at most `max_rows_per_person` rows are used, chosen at random.

        Returns
        -------
        self
            The fitted encoder.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a declaration does not fit the columns, X is 1-D, sparse or lazy, or holds
            undeclared values that are to be an error, or y is not numeric, misses a value or has another number of
            rows.
        BudgetExceeded
            If the ledger does not cover it.
        """
        rows = check_size(self.max_rows_per_person, name="max_rows_per_person", least=1)
        share = replace(self._check_promise(), rows=rows)
        if share.rate < 1:
            raise TypeError("epsilon must be a number, a Rho or a Mu: a secret sample is not supported, got Sampled")
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        table = self._read_table(X)
        if y is None:
            raise ValueError("DPTargetEncoder requires y to be passed, but the target y is None")
        column, name = target_of(table, y)
        ((low, high),) = read_bounds(self.bounds, [name]).tolist()
        domain = declared_domain(table, self.categories, "categories")
        codes = self._codes(table, domain)
        (numbers,) = read_numbers(Table((name,), (column,), None))
        places = to_places(numbers, low, high).astype(np.int64)
        if groups is not None:
            kept = rows_within(groups, rows, len(places), self._chooser())
            codes, places = [one[kept] for one in codes], places[kept]
        sums = np.concatenate([_distances(one, places, size) for one, size in zip(codes, domain.sizes, strict=True)])
        # A record changes two numbers of each column, together by `2 * GRID`: so in L1 norm, and at most in L2 norm.
        d = len(codes)
        noise = integer_noise(share * (1 - _SQUARES), 2 * GRID * d, (2 * GRID) ** 2 * d)
        of_squares = integer_noise(share * _SQUARES, GRID)
        mechanism = f"{noise.name} on sums by category{f', up to {rows} rows a person' if rows > 1 else ''}"
        source = self._spend(share, (*table.names, name), mechanism, losses=losses_of(share, [noise, of_squares]))
        noisy = sums + noise.draw(source, sums.size).reshape(sums.shape)
        (square,) = of_squares.add(source, [_sum_of_squares(places)])
        # In rows, as floats: with a tiny epsilon noise is larger than all of them.
        noisy = np.clip(noisy, -LARGEST, LARGEST).astype(float) / (2 * GRID)
        variance = (float(min(noise.error, Fraction(LARGEST))) / (2 * GRID)) ** 2
        mean, found = _shrunk(noisy, domain.sizes, min(max(square, -LARGEST), LARGEST) / GRID, variance)
        self.domain_ = domain
        self.target_mean_ = _value(mean, low, high)
        self.encodings_ = [_value(one, low, high) for one in found]
        return self

    def _codes(self, table: Table, domain: Domain) -> list[NDArray[np.unsignedinteger]]:
        codes, undeclared = find_codes(table, domain, self.handle_unknown)
        if undeclared:
            raise undeclared_error(undeclared[0], "categories")
        return codes

    def _transform_table(self, table: Table) -> Sequence[Any]:
        codes = self._codes(table, self.domain_)
        return [np.append(known, self.target_mean_)[one] for known, one in zip(self.encodings_, codes, strict=True)]


def _distances(codes: NDArray[Any], places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Add up the distances to both bounds by category; an undeclared value adds nothing."""
    sums = np.zeros((size + 1, 2), np.int64)
    np.add.at(sums, codes, np.column_stack([GRID + places, GRID - places]))
    return sums[:size]


def _sum_of_squares(places: NDArray[np.int64]) -> int:
    """Add up squares over `GRID`: a row adds at most this."""
    return int(np.rint((places / GRID) ** 2 * GRID).astype(np.int64).sum())


def _shrunk(
    noisy: NDArray[np.float64], sizes: Sequence[int], square: float, variance: float
) -> tuple[float, list[NDArray[np.float64]]]:
    """Return the mean of all rows, and that of each category, in half widths from the middle of the bounds."""
    # Of each category, the number of rows and the sum of places have independent noise of twice the variance.
    n_rows, totals = noisy.sum(axis=1), noisy[:, 0] - noisy[:, 1]
    mean = float(np.clip(totals.sum() / n_rows.sum(), -1, 1)) if n_rows.sum() > 0 else 0.0
    of_noise = 2 * variance * (1 + mean**2)
    # No variance between bounds is larger than ``1 - mean**2``. The mean of all columns has the least noise.
    most, n_all = 1 - mean**2, n_rows.sum() / len(sizes)
    of_row = float(np.clip(square / n_all - mean**2, 0.001 * most, most)) if n_all > 0 else most
    found = []
    for n, total in zip(*(np.split(one, np.cumsum(sizes)[:-1]) for one in (n_rows, totals)), strict=True):
        shift = shrunk_shifts(n, total - mean * n, of_row=of_row, of_noise=of_noise, of_count=2 * variance)
        found.append(np.clip(mean + shift, -1, 1))
    return mean, found


def _value(place: Any, low: float, high: float) -> Any:
    return np.clip(low + (high - low) * ((place + 1) / 2), low, high)
