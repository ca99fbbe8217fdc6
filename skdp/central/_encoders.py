"""Declared categories as columns of 0 and 1, or as private means of a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import TableLike, check_choice, read_bounds, read_input, read_numbers
from skdp.central._base import CentralTransformer, Plan, Unknown
from skdp.central._supervised import (
    SupervisedStatistic,
)
from skdp.central.statistics import (
    GRID,
    LARGEST,
    Batches,
    GroupSums,
    Noise,
    clip_floats,
    declared_domain,
    encode_columns,
    select_columns,
    shrunk_shifts,
    sums_of_groups,
    to_values,
    undeclared_error,
)
from skdp.domain import Codes, Domain, DomainLike
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import Table, as_objects, plain

Floats = NDArray[np.float64]


def _make_distinct(names: Sequence[str]) -> list[str]:
    """Append underscores to each name that an earlier column has."""
    reserved = set(names)
    used: set[str] = set()
    distinct = []
    for name in names:
        if name in used:
            while name in reserved:
                name += "_"
            reserved.add(name)
        used.add(name)
        distinct.append(name)
    return distinct


def code_declared(table: Table, domain: Domain, handle_unknown: str) -> list[Codes]:
    """Code rows, where undeclared values may be an error."""
    codes, undeclared = encode_columns(table, domain, handle_unknown)
    if undeclared:
        raise undeclared_error(undeclared[0], domain, "categories")
    return codes


class DPOneHotEncoder(CentralTransformer):
    """Encode each declared category as a column of 0 and 1.

    scikit-learn's `OneHotEncoder`, but for the categories, which are not read from the data: it costs nothing.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss that `fit` may spend. Declared categories spend nothing of it.
    categories : list of array-like, mapping, Domain or Interval, optional
        The values that each column may take, as the `domain` of `DPHistogram`: declared from public knowledge, or
        found by `discover_domain`. None among the values declares missing as a category.
    drop : {"first", "if_binary"} or array-like of shape (n_features,), optional
        The category of each column that is not encoded: the first, the first in columns with two, or a given one.
    handle_unknown : {"error", "ignore"}, default="error"
        Treatment of any other value: an error, which reveals that there is such a value, or 0 in all columns. Use
        ``"ignore"`` for categories that `discover_domain` found, which leaves rare ones out.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, as in other estimators.
    ledger : PrivacyLedger, optional
        Ledger of the release, which is charged nothing.
    random_state : None or int, default=None
        None or an int, as of other estimators: nothing is drawn.

    Attributes
    ----------
    categories_ : list of ndarray of object
        The categories of each column, missing as None; of an `Interval`, the names of its bins.
    domain_ : Domain
        The same as a domain.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`: epsilon is 0.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    discover_domain : Find the categories that many records share.
    sklearn.preprocessing.OneHotEncoder : Its categories are those of the data.
    DPTargetEncoder : One column for many categories.

    Notes
    -----
    **Privacy.** `fit` reads no value. **The output of** `transform` **is not private**: each
    of its rows is a function of the input row, without noise. Not covered: an error reveals that a value is undeclared.

    Examples
    --------
    >>> from skdp import DPOneHotEncoder, discover_domain
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().data[["sex", "workclass"]]
    >>> domain = discover_domain(people, epsilon=1.0, delta=1e-6, random_state=0)
    >>> encoder = DPOneHotEncoder(categories=domain, drop="if_binary", handle_unknown="ignore").fit(people)
    >>> encoder.get_feature_names_out()[[0, 1, -2, -1]].tolist()
    ['sex_Male', 'workclass_Federal-gov', 'workclass_State-gov', 'workclass_None']
    >>> encoder.guarantee_.epsilon
    0.0
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        categories: DomainLike | None = None,
        drop: Literal["first", "if_binary"] | Sequence[Any] | None = None,
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.drop = drop
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.allow_nan = self.handle_unknown != "error"
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _is_free(self, names: Sequence[Any]) -> bool:
        return True

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        domain = declared_domain(rows.table, self.categories, "categories")
        self._codes_to_drop(domain)
        return Plan(domain, mechanism="declared categories", free=True)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        self.domain_ = plan.exact
        self.categories_ = [
            as_objects(self.domain_[name].labels) for name in self.domain_.columns
        ]

    def _codes_to_drop(self, domain: Domain) -> Any:
        """Check `drop`; return it with codes in place of categories."""
        if self.drop is None or (
            isinstance(self.drop, str) and self.drop in ("first", "if_binary")
        ):
            return self.drop
        if isinstance(self.drop, str) or np.shape(self.drop) != (len(domain.columns),):
            raise ValueError(
                "drop must be None, 'first', 'if_binary' or one category for each of "
                f"{len(domain.columns)} columns"
            )
        codes = []
        for name, value in zip(domain.columns, self.drop, strict=True):
            labels = domain[name].labels
            if plain(value) not in labels:
                raise ValueError(
                    f"drop names a category of column {name!r}, which is not declared"
                )
            codes.append(labels.index(plain(value)))
        return codes

    def _encoder(self) -> OneHotEncoder:
        """Make an encoder of codes."""
        sizes = self.domain_.sizes
        encoder = OneHotEncoder(
            categories=[np.arange(size) for size in sizes],
            drop=self._codes_to_drop(self.domain_),
            handle_unknown=self.handle_unknown,
            sparse_output=False,
        )
        row = np.zeros((1, len(sizes)), int)
        return encoder.set_output(transform="default").fit(row)

    def _transform_table(self, table: Table) -> Sequence[Any]:
        codes = code_declared(table, self.domain_, self.handle_unknown)
        if not len(table.columns[0]):
            return [np.empty((0, len(self._output_names())))]
        return [self._encoder().transform(np.column_stack(codes))]

    def inverse_transform(self, X: TableLike) -> NDArray[Any]:
        """Return the categories of encoded rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_encoded_features)
            Encoded rows.

        Returns
        -------
        ndarray of object, shape (n_samples, n_features)
            The categories, as scikit-learn's `OneHotEncoder` returns them: missing is None, and so is an unknown value.

        Raises
        ------
        TypeError, ValueError
            If X has another number of columns, or is not numeric; if all columns of a category are 0, unless
            `handle_unknown` has it so.
        """
        check_is_fitted(self)
        table = read_input(BaseEstimator(), X, reset=True, least=0)
        numbers = np.column_stack(read_numbers(table))
        if len(table.names) != len(self._output_names()):
            raise ValueError(
                f"X has {len(table.names)} features; transform makes "
                f"{len(self._output_names())}"
            )
        columns = []
        codes = self._encoder().inverse_transform(numbers).T
        for labels, column in zip(self.categories_, codes, strict=True):
            # Codes are None where all columns are 0.
            columns.append(as_objects(list(map(dict(enumerate(labels)).get, column))))
        return np.column_stack(columns)

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Name the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names of the columns of X, by default those that `fit` saw.

        Returns
        -------
        ndarray of str objects
            ``<column>_<category>`` for each category that is not dropped. A name that an earlier column has gets
            underscores at its end.
        """
        return as_objects(self._names(super().get_feature_names_out(input_features)))

    def _output_names(self) -> Sequence[Any]:
        return self._names(super()._output_names())

    def _names(self, columns: Sequence[Any]) -> list[str]:
        """Return the name of each column of the output."""
        dropped = self._encoder().drop_idx_
        names = []
        for place, column in enumerate(columns):
            code_to_drop = None if dropped is None else dropped[place]
            for code, label in enumerate(self.categories_[place]):
                if code != code_to_drop:
                    names.append(f"{column}_{label}")
        return _make_distinct(names)


class DPTargetEncoder(SupervisedStatistic, CentralTransformer):
    """Encode each category by the mean of the target among its rows, private for the whole record.

    Means of rare categories, and means with large noise, are shrunk towards the mean of all rows.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. A share of a budget in rho or mu (`skdp.privacy.Rho`,
        `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    categories : list of array-like, mapping, Domain or Interval, optional
        The values that each column may take, as the `domain` of `DPHistogram`: declared from public knowledge, or
        found by `discover_domain`. None among the values declares missing as a category.
    bounds : pair of float, or Domain
        The smallest and largest value of the target, from public knowledge: (0, 1) for a class that is 0 or 1.
        Values outside are clipped.
    handle_unknown : {"error", "ignore"}, default="error"
        Treatment of any other value: an error, which reveals that there is such a value; or in `fit` it adds
        nothing to its column, and `transform` encodes it by the mean of all rows. Use ``"ignore"`` for categories that
        `discover_domain` found, which leaves rare ones out.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that each `fit` charges, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee if it is known.

    Attributes
    ----------
    encodings_ : list of ndarray of float
        The encoding of each declared value of each column, between the bounds.
    target_mean_ : float
        The noisy mean of the target.
    target_mean_std_error_ : float
        The standard deviation of its noise. An encoding, which is drawn towards this mean, has no such number:
        `DPGroupBy` gives means by category with intervals.
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
    changes the distribution of all fitted attributes by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``.
    The number of rows is protected too, and a table without rows is answered. **The output of** `transform` **is not
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

    # There is no delta.
    _delta_is_for_noise = False

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        categories: DomainLike | None = None,
        bounds: tuple[float, float] | Domain | None = None,
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

    def _bounded(self, rows: Batches) -> Batches:
        return rows.target

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        ends = read_bounds(bounds, rows.names[-1:])
        table = rows.features.table
        domain = declared_domain(table, self.categories, "categories")
        exact = TargetPlan(domain, *self._sums(rows, domain, ends), ends)
        # A record changes two numbers of each column, together by `2 * GRID`: so in L1
        # norm, and at most in L2 norm.
        d = len(rows.names) - 1
        # A twentieth is for the sum of squares of the target: how much the target
        # varies says from how few rows a mean is worth something.
        of_squares = Noise.of(share / 20, GRID)
        of_distances = share * Fraction(19, 20)
        noise = Noise.of(of_distances, 2 * GRID * d, (2 * GRID) ** 2 * d)
        return Plan(exact, (noise, of_squares), f"{noise.name} on sums by category")

    def _release(self, plan: Plan, source: ByteSource) -> None:
        exact: TargetPlan = plan.exact
        ends, distances = exact.ends, exact.distances
        noise, of_squares = plan.noises
        variance = (float(min(noise.error, Fraction(LARGEST))) / GRID) ** 2
        drawn = noise.draw(source, distances.size).reshape(distances.shape)
        noisy = clip_floats(distances + drawn) / (2 * GRID)
        # Independent noise, of twice the variance of a distance each.
        n_rows = noisy.sum(axis=1)
        totals = noisy[:, 0] - noisy[:, 1]
        (total,) = of_squares.add(source, [exact.square])
        square_of_target = min(max(total, -LARGEST), LARGEST) / GRID
        means = _ShrunkMeans.of(
            n_rows, totals, exact.domain.sizes, square_of_target, variance / 2
        )
        self.domain_ = exact.domain
        self.target_mean_ = float(to_values(means.mean, ends)[0])
        self.target_mean_std_error_ = float((ends[0, 1] - ends[0, 0]) / 2 * means.error)
        self.encodings_ = []
        for means_of_column in means.of_categories:
            self.encodings_.append(to_values(means_of_column, ends))

    def _sums(
        self, rows: Batches, domain: Domain, ends: Floats
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
            if n:
                raise undeclared_error(name, domain, "categories")
        total = GroupSums.read(parts[:7], ends)
        total.refuse_missing(rows.names[-1:])
        distances = []
        for start in range(7, len(parts), 7):
            sums = GroupSums.read(parts[start : start + 7], ends)
            n = GRID * sums.counts
            distances.append(np.hstack([n + sums.places, n - sums.places]))
        return total.squares[0, 0], np.concatenate(distances)

    @property
    def _columns(self) -> tuple[Any, ...]:
        return tuple(self.domain_.columns)

    def _transform_table(self, table: Table) -> Sequence[Any]:
        codes = code_declared(table, self.domain_, self.handle_unknown)
        encoded = []
        for means, places in zip(self.encodings_, codes, strict=True):
            encoded.append(np.append(means, self.target_mean_)[places])
        return encoded


def _sums_by_category(
    table: Table, _: Any, *, domain: Domain, ends: Floats, handle_unknown: str
) -> list[NDArray[np.int64]]:
    """Return by column whether values are undeclared, and the sums of the target: of all rows, and by category."""
    features = select_columns(table, table.names[:-1])
    codes, undeclared = encode_columns(features, domain, handle_unknown)
    target = Table(table.names[-1:], table.columns[-1:], table.native)
    values = read_numbers(target, missing=True)
    is_undeclared = [name in undeclared for name in domain.columns]
    parts = [np.array(is_undeclared, np.int64), *sums_of_groups(values, ends)]
    for column, size in zip(codes, domain.sizes, strict=True):
        parts += sums_of_groups(values, ends, column, size)
    return parts


class TargetPlan(NamedTuple):
    """The categories, and exact sums of the target."""

    domain: Domain
    # The sum of squares, and the distances to both bounds by category.
    square: int
    distances: NDArray[np.object_]
    # The bounds of the target: (1, 2).
    ends: Floats


class _ShrunkMeans(NamedTuple):
    """Means in half widths from the bounds' middle."""

    # Of all rows.
    mean: float
    error: float
    of_categories: list[Floats]

    @classmethod
    def of(
        cls,
        n_rows: Floats,
        totals: Floats,
        sizes: Sequence[int],
        square: float,
        variance: float,
    ) -> _ShrunkMeans:
        """Estimate means from numbers of rows and sums by category, which have independent noise of this variance."""
        n_all = n_rows.sum()
        mean = float(np.clip(totals.sum() / n_all, -1, 1)) if n_all > 0 else 0.0
        of_noise = variance + variance * mean**2
        error = min(math.sqrt(len(n_rows) * of_noise) / max(n_all, 1.0), 1.0)
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
                of_count=variance,
            )
            of_categories.append(np.clip(mean + shifts, -1, 1))
            start += size
        return cls(mean, error, of_categories)
