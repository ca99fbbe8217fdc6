"""Categories as columns of 0 and 1, declared or found privately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import TableLike, check_choice, read_input, read_numbers
from skdp.central._base import CentralTransformer, Plan
from skdp.central.statistics import (
    Batches,
    find_codes,
    plan_categories,
    undeclared_error,
)
from skdp.domain import Domain, DomainLike
from skdp.privacy import Mu, PrivacyLedger, Rho, Share, check_delta
from skdp.randomness import ByteSource
from skdp.tables import Table, as_objects, plain

Unknown = Literal["auto", "error", "ignore", "infrequent_if_exist"]
_INFREQUENT = "infrequent_sklearn"


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
        handle_unknown: Unknown = "auto",
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
        found = self.handle_unknown == "auto" and isinstance(self.categories, str)
        tags.input_tags.allow_nan = found or self.handle_unknown not in (
            "auto",
            "error",
        )
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        categories = plan_categories(rows, self.categories, share, self.delta)
        self._codes_to_drop(categories.domain, categories.private)
        if categories.private and self.handle_unknown in ("auto", "error"):
            # `transform` would refuse it, but after the charge.
            _, undeclared = find_codes(rows.table, categories.domain, "error")
            for name in undeclared:
                if name not in categories.private:
                    raise undeclared_error(name, categories.domain, "categories")
        return Plan(
            categories,
            mechanism=categories.mechanism,
            losses=(),
            delta=check_delta(self.delta) if categories.private else Fraction(0),
            free=not categories.private,
        )

    def _release(self, plan: Plan, source: ByteSource) -> None:
        self.domain_, found = plan.exact.find(source)
        self.categories_ = []
        for name in self.domain_.columns:
            labels = found.get(name, self.domain_[name].labels)
            self.categories_.append(as_objects(labels))
        further = self.handle_unknown in ("auto", "infrequent_if_exist")
        is_found = [name in found for name in self.domain_.columns]
        self.infrequent_ = np.array(is_found) & further

    def _codes_to_drop(self, domain: Domain, private: Sequence[Any] = ()) -> Any:
        """Check `drop`; return it with codes in place of categories."""
        if self.drop is None or (
            isinstance(self.drop, str) and self.drop in ("first", "if_binary")
        ):
            return self.drop
        if isinstance(self.drop, str) or np.shape(self.drop) != (len(domain.columns),):
            raise ValueError(
                f"drop must be None, 'first', 'if_binary' or one category for each of {len(domain.columns)} columns"
            )
        codes = []
        for name, value in zip(domain.columns, self.drop, strict=True):
            labels = domain[name].labels
            if name in private or plain(value) not in labels:
                why = (
                    "whose categories are not known yet"
                    if name in private
                    else "which is not declared"
                )
                raise ValueError(f"drop names a category of column {name!r}, {why}")
            codes.append(labels.index(plain(value)))
        return codes

    @property
    def _sizes(self) -> NDArray[np.intp]:
        """The number of columns of each column, before one is dropped."""
        return np.array([len(one) for one in self.categories_]) + self.infrequent_

    def _encoder(self) -> OneHotEncoder:
        """Make an encoder of codes; columns without categories are left out."""
        sizes = self._sizes[self._sizes > 0]
        encoder = OneHotEncoder(
            categories=[np.arange(size) for size in sizes],
            drop=self._codes_to_drop(self.domain_),
            handle_unknown="error"
            if self.handle_unknown in ("auto", "error")
            else "ignore",
            sparse_output=False,
        )
        return encoder.set_output(transform="default").fit(
            np.zeros((1, len(sizes)), int)
        )

    def _transform_table(self, table: Table) -> Sequence[Any]:
        is_refused = np.zeros(len(self.infrequent_), bool)
        if self.handle_unknown == "error":
            is_refused[:] = True
        elif self.handle_unknown == "auto":
            is_refused = ~self.infrequent_
        matrix = []
        for place, codes in enumerate(self.domain_.encode(table.columns)):
            n_known = len(self.categories_[place])
            if is_refused[place] and (codes >= n_known).any():
                raise undeclared_error(
                    table.names[place],
                    self.domain_,
                    "categories",
                    known="declared or found",
                )
            if self._sizes[place]:
                matrix.append(np.minimum(codes, n_known))
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
                f"X has {len(table.names)} features; transform makes {len(self._output_names())}"
            )
        codes = iter(self._encoder().inverse_transform(numbers).T)
        columns = []
        for labels, size in zip(self._labels(), self._sizes, strict=True):
            found = next(codes) if size else [None] * len(numbers)
            columns.append(
                as_objects(
                    [None if code is None else labels[int(code)] for code in found]
                )
            )
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
            ``<column>_<category>`` for each category that is not dropped.
        """
        return as_objects(self._names(super().get_feature_names_out(input_features)))

    def _output_names(self) -> Sequence[Any]:
        names = self._names(super()._output_names())
        if len(set(names)) < len(names):
            twice = next(
                name for place, name in enumerate(names) if name in names[:place]
            )
            raise ValueError(
                f"two columns of the output have the same name: {twice!r}; rename a column of X"
            )
        return names

    def _labels(self) -> list[list[Any]]:
        return [
            [*known, *([_name_unlike(known)] if further else [])]
            for known, further in zip(self.categories_, self.infrequent_, strict=True)
        ]

    def _names(self, columns: Sequence[Any]) -> list[str]:
        """Return the name of each column of the output."""
        if not self._sizes.any():
            return []
        dropped, names = self._encoder().drop_idx_, []
        places = np.cumsum(self._sizes > 0) - 1
        for column, labels, place in zip(columns, self._labels(), places, strict=True):
            out = None if dropped is None or not labels else dropped[place]
            names += [
                f"{column}_{label}" for code, label in enumerate(labels) if code != out
            ]
        return names


def _name_unlike(known: Iterable[Any]) -> str:
    """Name the column of what was not found."""
    name, others = _INFREQUENT, {str(one) for one in known}
    while name in others:
        name += "_"
    return name
