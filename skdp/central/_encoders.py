"""Categories as columns of 0 and 1, or as private means of a target; declared, or found privately."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from skdp.central._base import CentralTransformer, Plan
from skdp.central._supervised import (
    SupervisedStatistic,
)
from skdp.central.statistics import (
    GRID,
    LARGEST,
    Batches,
    CategoryPlan,
    GroupSums,
    Noise,
    check_share,
    clip_floats,
    encode_columns,
    plan_categories,
    private_columns,
    select_columns,
    shrunk_shifts,
    sums_of_groups,
    to_values,
    undeclared_error,
)
from skdp.domain import Codes, Domain, DomainLike
from skdp.privacy import Loss, Mu, PrivacyLedger, Rho, Share, check_delta
from skdp.randomness import ByteSource
from skdp.tables import Table, as_objects, plain

OneHotUnknown = Literal["auto", "error", "ignore", "infrequent_if_exist"]
TargetUnknown = Literal["auto", "error", "ignore"]

Floats = NDArray[np.float64]


def _make_distinct(names: Sequence[str]) -> list[str]:
    """Append underscores to each name that an earlier column has."""
    # By the names alone: found categories are released, and an error would come after
    # the charge.
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


def code_known(
    table: Table,
    domain: Domain,
    handle_unknown: str,
    private: Sequence[Any],
    *,
    known: str = "declared or found",
) -> list[Codes]:
    """Code rows, where values that are not known may be an error; of private categories, only with ``"error"``."""
    codes, undeclared = encode_columns(table, domain, handle_unknown)
    if handle_unknown in ("auto", "error"):
        for name in undeclared:
            if name not in private or handle_unknown == "error":
                raise undeclared_error(name, domain, "categories", known=known)
    return codes


class DPOneHotEncoder(CentralTransformer):
    """Encode each category as a column of 0 and 1; which categories there are is declared, or private.

    scikit-learn's `OneHotEncoder`, but for the categories.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. Declared categories spend nothing of it, and private ones
        need a number.
    delta : float, default=0.0
        Failure probability, in [0, 1): above 0 for private categories, as a value that one person has may then be
        published by accident.
    categories : list of array-like, mapping, Domain, Interval or "private", optional
        The values that each column may take, as the `domain` of `DPHistogram`: declared from what is publicly known.
        None among the values declares missing as a category. ``"private"``, for all columns or in place of the values
        of one, finds those that enough persons have.
    drop : {"first", "if_binary"} or array-like of shape (n_features,), optional
        The category of each column that gets no column of its own: the first; that of columns with two; or these.
    handle_unknown : {"auto", "error", "ignore", "infrequent_if_exist"}, default="auto"
        What is done with any other value. ``"auto"``: where categories are private, as most such columns have others,
        it is in a further column of the output, ``<column>_infrequent_sklearn``, which is for all values that were not
        found; where they are declared, it is an error, which reveals that there is such a value: in `transform`, or
        before the charge of `fit`. ``"infrequent_if_exist"`` is the same without errors: all columns of an undeclared
        value are 0. ``"ignore"``: so it is everywhere. ``"error"`` is one everywhere: of a value that was not found,
        after the charge.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for. Further rows are left out if `fit` is given
        ``groups``, and the rest has less noise; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn; declared categories cost nothing.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    categories_ : list of ndarray of object
        The categories of each column, missing as None; of an `Interval`, the names of its bins. None may be found.
    domain_ : Domain
        The same as a domain; a column of which nothing is found has None there.
    infrequent_ : ndarray of bool, shape (n_features,)
        Which columns have a further one for the values that were not found.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`, about the categories; epsilon is 0 if all of them are declared.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder : Its categories are those of the data.
    DPTargetEncoder : One column for many categories.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of the private categories of all columns by at most ``(epsilon, delta)``; replacing one by
    ``(2 epsilon, (1 + e**epsilon) delta)``. `fit` reads the columns with private categories only; without any it reads
    no value. **The output of** `transform` **is not private**: each of its rows is a function of the input row, without
    noise. Not covered: an error of `transform` reveals that a value is unknown.

    A value is published if a noisy total reaches a threshold, above which one person alone comes with a probability of
    at most delta. Of two totals that is used for which fewer persons must have a value: the number of rows, with
    Laplace noise for each of d columns ([1]_); or weights with Gaussian noise, where each person with n distinct values
    in all columns gives ``1 / sqrt(n)`` to each ([2]_), which is better from about three columns or rows of a person.

    Text, finite numbers, truth values and dates can be published, of each column those of the kind whose published
    values have the largest noisy total. A record with anything else, such as a list or a number among text, is one
    whose value was not found: it is no error, which would show that there is such a record. A warning names the column
    if values of another kind reach the threshold, too; it follows from the noisy totals.

    References
    ----------
    .. [1] A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas (2009). Releasing search queries and clicks privately. WWW.
    .. [2] S. Gopi, P. Gulhane, J. Kulkarni, J. H. Shen, M. Shokouhi, S. Yekhanin (2020). Differentially private set
       union. ICML.

    Examples
    --------
    >>> from skdp import DPOneHotEncoder
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().data[["sex", "workclass"]]
    >>> encoder = DPOneHotEncoder(
    ...     1.0, delta=1e-6, categories={"sex": ["Female", "Male"], "workclass": "private"}, drop="if_binary",
    ...     random_state=0,
    ... )
    >>> encoder.fit_transform(people).shape
    (32561, 9)
    >>> encoder.get_feature_names_out()[[0, 1, -2, -1]].tolist()
    ['sex_Male', 'workclass_Federal-gov', 'workclass_None', 'workclass_infrequent_sklearn']
    >>> encoder.guarantee_.delta
    1e-06
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        categories: DomainLike | Literal["private"] | None = None,
        drop: Literal["first", "if_binary"] | Sequence[Any] | None = None,
        handle_unknown: OneHotUnknown = "auto",
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        is_private = self.handle_unknown == "auto" and isinstance(self.categories, str)
        tags.input_tags.allow_nan = is_private or self.handle_unknown not in (
            "auto",
            "error",
        )
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _is_free(self, names: Sequence[Any]) -> bool:
        declared = self.categories
        if isinstance(declared, Mapping):
            declared = list(declared.values())
        entries = declared if isinstance(declared, list | tuple) else [declared]
        return not any(isinstance(each, str) and each == "private" for each in entries)

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_choice("handle_unknown", self.handle_unknown, get_args(OneHotUnknown))
        categories = plan_categories(rows, self.categories, share, self.delta)
        self._codes_to_drop(categories.domain, categories.private)
        if categories.private and self.handle_unknown in ("auto", "error"):
            # `transform` would refuse it, but after the charge.
            code_known(
                rows.table,
                categories.domain,
                "auto",
                categories.private,
                known="declared",
            )
        return Plan(
            categories,
            mechanism=categories.mechanism,
            losses=(),
            delta=check_delta(self.delta) if categories.private else Fraction(0),
            free=not categories.private,
        )

    def _release(self, plan: Plan, source: ByteSource) -> None:
        self.domain_, categories = plan.exact.find(source)
        self.categories_ = []
        is_found = []
        for name in self.domain_.columns:
            labels = categories.get(name, self.domain_[name].labels)
            self.categories_.append(as_objects(labels))
            is_found.append(name in categories)
        has_column = self.handle_unknown in ("auto", "infrequent_if_exist")
        self.infrequent_ = np.array(is_found) & has_column

    def _codes_to_drop(self, domain: Domain, private: Sequence[Any] = ()) -> Any:
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
            why = ""
            if name in private:
                why = "whose categories are not known yet"
            elif plain(value) not in labels:
                why = "which is not declared"
            if why:
                raise ValueError(f"drop names a category of column {name!r}, {why}")
            codes.append(labels.index(plain(value)))
        return codes

    @property
    def _sizes(self) -> NDArray[np.intp]:
        """The number of columns of each column, before one is dropped."""
        return np.array([len(labels) for labels in self.categories_]) + self.infrequent_

    def _encoder(self) -> OneHotEncoder:
        """Make an encoder of codes; columns without categories are left out."""
        sizes = self._sizes[self._sizes > 0]
        is_refused = self.handle_unknown in ("auto", "error")
        encoder = OneHotEncoder(
            categories=[np.arange(size) for size in sizes],
            drop=self._codes_to_drop(self.domain_),
            handle_unknown="error" if is_refused else "ignore",
            sparse_output=False,
        )
        row = np.zeros((1, len(sizes)), int)
        return encoder.set_output(transform="default").fit(row)

    def _transform_table(self, table: Table) -> Sequence[Any]:
        names = np.array(self.domain_.columns, object)
        codes = code_known(
            table, self.domain_, self.handle_unknown, names[self.infrequent_].tolist()
        )
        matrix = []
        for place, labels in enumerate(self.categories_):
            if self._sizes[place]:
                matrix.append(np.minimum(codes[place], len(labels)))
        n_rows = len(table.columns[0])
        if not matrix or not n_rows:
            return [np.empty((n_rows, len(self._output_names())))]
        return [self._encoder().transform(np.column_stack(matrix))]

    def inverse_transform(self, X: TableLike) -> NDArray[Any]:
        """Return the categories of encoded rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_encoded_features)
            Encoded rows.

        Returns
        -------
        ndarray of object, shape (n_samples, n_features)
            The categories, as scikit-learn's `OneHotEncoder` returns them: missing is None, and so is an unknown value;
            what was not found is ``"infrequent_sklearn"``.

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
        codes = iter(self._encoder().inverse_transform(numbers).T)
        columns = []
        for labels, size in zip(self._labels(), self._sizes, strict=True):
            column: list[Any] = [None] * len(numbers)
            if size:
                # Codes are None where all columns are 0.
                by_code = dict(enumerate(labels))
                column = list(map(by_code.get, next(codes)))
            columns.append(as_objects(column))
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

    def _labels(self) -> list[list[Any]]:
        """Return the categories of each column, and the name of those that were not found."""
        columns = []
        for labels, has_column in zip(self.categories_, self.infrequent_, strict=True):
            name = "infrequent_sklearn"
            while name in [str(label) for label in labels]:
                name += "_"
            columns.append([*labels, name] if has_column else list(labels))
        return columns

    def _names(self, columns: Sequence[Any]) -> list[str]:
        """Return the name of each column of the output."""
        if not self._sizes.any():
            return []
        dropped = self._encoder().drop_idx_
        names = []
        place = 0  # among the columns of the encoder
        for column, labels in zip(columns, self._labels(), strict=True):
            if not labels:
                continue
            code_to_drop = None if dropped is None else dropped[place]
            for code, label in enumerate(labels):
                if code != code_to_drop:
                    names.append(f"{column}_{label}")
            place += 1
        return _make_distinct(names)


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
        handle_unknown: TargetUnknown = "auto",
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
        is_private = self.handle_unknown == "auto" and isinstance(self.categories, str)
        tags.input_tags.allow_nan = is_private or self.handle_unknown == "ignore"
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _bounded(self, rows: Batches) -> Batches:
        return rows.target

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_choice("handle_unknown", self.handle_unknown, get_args(TargetUnknown))
        ends = read_bounds(bounds, rows.names[-1:])
        part = check_share("categories_share", self.categories_share)
        categories = plan_categories(
            rows.features, self.categories, share * part, self.delta
        )
        # Values that are refused, and a missing target, are an error before the charge.
        sums = self._sums(rows, categories.domain, categories.private, ends)
        exact = TargetPlan(rows, categories, sums, ends)
        of_means = share * (1 - part) if categories.private else share
        # A record changes two numbers of each column, together by `2 * GRID`: so in L1
        # norm, and at most in L2 norm.
        d = len(rows.names) - 1
        # A twentieth is for the sum of squares of the target: how much the target
        # varies says from how few rows a mean is worth something.
        of_squares = Noise.of(of_means / 20, GRID)
        of_distances = of_means * Fraction(19, 20)
        noise = Noise.of(of_distances, 2 * GRID * d, (2 * GRID) ** 2 * d)
        mechanism = f"{noise.name} on sums by category"
        losses: tuple[Loss, ...] = (noise.loss, of_squares.loss)
        delta = Fraction(0)
        if categories.private:
            delta = check_delta(self.delta)
            mechanism += f", {categories.mechanism}"
            losses = ((share * part).loss(delta), *losses)
        return Plan(exact, (noise, of_squares), mechanism, losses, delta)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        exact: TargetPlan = plan.exact
        categories, ends = exact.categories, exact.ends
        noise, of_squares = plan.noises
        domain = categories.domain
        square, distances = exact.sums
        if categories.private:
            domain, _ = categories.find(source)
            square, distances = self._sums(exact.rows, domain, categories.private, ends)
        variance = (float(min(noise.error, Fraction(LARGEST))) / GRID) ** 2
        drawn = noise.draw(source, distances.size).reshape(distances.shape)
        noisy = clip_floats(distances + drawn) / (2 * GRID)
        # Independent noise, of twice the variance of a distance each.
        n_rows = noisy.sum(axis=1)
        totals = noisy[:, 0] - noisy[:, 1]
        (total,) = of_squares.add(source, [square])
        square_of_target = min(max(total, -LARGEST), LARGEST) / GRID
        means = _ShrunkMeans.of(
            n_rows, totals, domain.sizes, square_of_target, variance / 2
        )
        self.domain_ = domain
        self.target_mean_ = float(to_values(means.mean, ends)[0])
        self.target_mean_std_error_ = float((ends[0, 1] - ends[0, 0]) / 2 * means.error)
        self.encodings_ = []
        for means_of_column in means.of_categories:
            self.encodings_.append(to_values(means_of_column, ends))

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

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        self.target_mean_std_error_ = math.inf

    def _transform_table(self, table: Table) -> Sequence[Any]:
        private = private_columns(self.domain_.columns, self.categories)
        codes = code_known(table, self.domain_, self.handle_unknown, private)
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
    """What is read and checked before the charge."""

    rows: Batches
    categories: CategoryPlan
    # Of the declared categories: the sum of squares of the target, and its distances to
    # both bounds by category.
    sums: tuple[int, NDArray[np.object_]]
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
