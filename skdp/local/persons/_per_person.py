"""Report a few random rows of each person, so that the guarantee is one for persons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add
from statistics import NormalDist
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    OnSite,
    all_or_nothing,
    as_asked,
    check_confidence_level,
    check_names,
    is_large,
    read_input,
    warn_of_loss,
)
from skdp.frames import Table, read_table, take_rows, with_protocol
from skdp.local._on_fit_only import FittedInside
from skdp.local._protocol_file import text_in_memory
from skdp.local._transformer import ReportTransformer
from skdp.local.persons._rows import choose_rows, number_persons, refuse_other_order
from skdp.oracles import check_size
from skdp.privacy import PrivacyGuarantee, Shuffled, spend
from skdp.typing import ColumnLike, TableLike

_MOST_ROWS = 1024


def _estimates(method: str) -> Callable[[Any], bool]:
    return lambda own: hasattr(own.transformer, method)


class PerPerson(FittedInside, MetaEstimatorMixin, TransformerMixin, OnSite, BaseEstimator):
    """Report the same number of random rows of each person, with a guarantee for persons.

    In a table with several rows a person, a transformer that protects each row protects no person: r rows cost r times
    epsilon, and how many rows a person has is shown. This one reports exactly `max_rows_per_person` rows of each person
    by a transformer that it wraps, and nothing else of the others.

    Parameters
    ----------
    transformer : local transformer
        What reports a row; its ``epsilon`` is that of one report. It is cloned; the original is never fitted. Its
        ledger is charged with the guarantee for persons.
    max_rows_per_person : int, default=1
        The number r of reports of each person, from 1 to 1,024. For a given epsilon of a person, one row with all of
        it has less error than several that share it.

    Attributes
    ----------
    transformer_ : local transformer
        The fitted clone: it reads the reports, and `to_json` of it is what a server needs.
    guarantee_ : PrivacyGuarantee
        What a call of `transform` promises to each person: r times the guarantee of the transformer.
    n_reports_ : int
        The number of reports of each person.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had string names.

    Raises
    ------
    TypeError, ValueError
        By `fit`, if the transformer is no local transformer, has permanent reports, or refuses the columns, or the
        number is out of range.

    See Also
    --------
    RandomizedResponseEncoder, LocalTableEncoder, SetValuedEncoder : Transformers to wrap.

    Notes
    -----
    **Privacy.** Local model: holds against every recipient of the output, for each person, under replacement of all
    rows of this person by any others, one or more; epsilon as stated by `guarantee_`. Which persons there are is
    public, and their order; how many rows they have is protected. Of a person with s >= r rows, r different ones are
    drawn, each alike; of one with fewer, every row is reported r / s times, rounded down or up at random. Rows are
    drawn without looking at a value, by secure randomness unless the transformer has a seed; the proof needs neither:
    each report depends on one row, so that r reports of any rows have r times its epsilon. The output has no row
    labels, as these would show which rows were drawn. It has another number of rows than the table.

    Estimates are about persons, not rows: each report is of a random row of a person, so that a share is the mean over
    the persons of the share of their rows, without bias, and each person counts alike. The share of all rows cannot be
    estimated, since the number of rows of a person is not reported; both are the same if all have equally many. The
    engines take no `PerPerson`: the rows of a person may be in several batches.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import PerPerson, RandomizedResponseEncoder
    >>> visits = pd.DataFrame({"person": [1, 1, 1, 2, 3, 3] * 4_000, "page": ["a", "a", "b", "b", "a", "b"] * 4_000})
    >>> visits["person"] += 3 * (visits.index // 6)
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"page": ["a", "b", "c"]}, random_state=0)
    >>> private = PerPerson(encoder).fit(visits[["page"]])
    >>> reports = private.transform(visits[["page"]], groups=visits["person"])
    >>> len(reports)
    12000
    >>> private.guarantee_.mechanism
    'k-ary randomised response, 1 row of each person'
    >>> private.estimate_frequencies(reports).round(2)
          frequency  std_error  lower  upper
    page
    a          0.39       0.01   0.37   0.42
    b          0.61       0.01   0.59   0.63
    c         -0.00       0.01  -0.02   0.02
    """

    protects_rows = True
    """For `privacy_statement`: what `transform` returns is protected."""

    transformer_: ReportTransformer
    guarantee_: PrivacyGuarantee
    n_reports_: int

    def __init__(self, transformer: ReportTransformer, *, max_rows_per_person: int = 1) -> None:
        self.transformer = transformer
        self.max_rows_per_person = max_rows_per_person

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.transformer, ReportTransformer):
            tags.input_tags = get_tags(self.transformer).input_tags
        tags.transformer_tags.preserves_dtype = []
        return tags

    @all_or_nothing
    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Fit a clone of the transformer.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As for the transformer; without the column of persons.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer. Parameters that are set later take effect with the next `fit`.

        Raises
        ------
        TypeError, ValueError
            If the transformer is no local one or has permanent reports, or a parameter is out of range.
        """
        if not isinstance(self.transformer, ReportTransformer):
            kind = self.transformer.__name__ if isinstance(self.transformer, type) else type(self.transformer).__name__
            raise TypeError(f"transformer must be a local transformer that reports row by row, got {kind}")
        most = check_size(self.max_rows_per_person, least=1, most=_MOST_ROWS, name="max_rows_per_person")
        inner = clone(self.transformer)
        # Only the outer setting counts, or reports would be converted twice.
        inner.set_output(transform="default")
        inner.fit(X.reset_index(drop=True) if isinstance(X, pd.DataFrame) else X, y)  # no row index is released
        if inner.protocol_.permanent_key is not None:
            raise ValueError("permanent reports are those of records: give a transformer without a secret_key")
        if isinstance(getattr(inner, "epsilon", None), Shuffled) and most > 1:
            raise ValueError(
                "epsilon=Shuffled(...) is for one report of each person: use max_rows_per_person=1, or a number as "
                "epsilon"
            )
        own = inner.guarantee_
        mechanism = f"{own.mechanism}, {'1 row' if most == 1 else f'{most} rows'} of each person"
        whole = replace(reduce(add, [own] * most), mechanism=mechanism, max_rows_per_person=most)
        if most > 1 and not is_large(own.epsilon):  # of which `fit` of the transformer has told
            warn_of_loss(whole.epsilon)
        self.transformer_, self.guarantee_, self.n_reports_ = inner, whole, most
        return self

    def fit_transform(self, X: TableLike, y: ColumnLike | None = None, groups: ArrayLike | None = None) -> Any:
        """Fit, and privatise the same table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,)
            The person of each row.

        Returns
        -------
        same kind as X
            As for `transform`.

        Raises
        ------
        TypeError, ValueError, BudgetExceeded
            As for `fit` and `transform`.
        """
        return self.fit(X, y).transform(X, groups=groups)

    def transform(self, X: TableLike, groups: ArrayLike | None = None) -> Any:
        """Privatise a few rows of each person: a new release at every call.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`. All rows are checked, also those that are not reported.
        groups : array-like of shape (n_samples,)
            The person of each row, always required: text, numbers, dates, UUIDs, bytes, or tuples of these; none
            missing. In a Pipeline, route it with ``set_transform_request(groups=True)``.

        Returns
        -------
        same kind as X
            ``max_rows_per_person`` reports of each person, one after the other, persons in the order in which they
            first occur, without row labels.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or values that cannot be reported, or persons are missing or of
            another number than the rows.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        check_is_fitted(self, "transformer_")
        inner, protocol = self.transformer_, self.transformer_.protocol_
        table = read_input(inner, X, reset=False)
        check_names(inner, table, protocol.columns)
        codes = protocol.prepare(table)
        refuse_other_order(X, groups)
        persons = number_persons(groups, len(table.columns[0]))
        rows = self._template(table, (int(persons.max()) + 1) * self.n_reports_)
        spend(inner._ledger, self.guarantee_, type(self).__name__)
        randomness = inner.randomness()
        chosen = choose_rows(persons, self.n_reports_, randomness("rows of persons"))
        reports = protocol.randomise([column[chosen] for column in codes], [], randomness)
        # The protocol that reports carry states the guarantee of one report.
        said = text_in_memory(inner) if self.n_reports_ == 1 else None
        return with_protocol(as_asked(self, protocol.write(reports, rows)), said)

    def _template(self, table: Table, n_rows: int) -> Table:
        """Return a table of the same kind, and check that as many reports can be made and written."""
        # What is written depends on the kind of the table and not on its rows: the first one stands for all.
        try:
            repeated = take_rows(table.native, np.zeros(n_rows, np.intp))
            if isinstance(repeated, pd.DataFrame):
                repeated = repeated.reset_index(drop=True)  # a label would be that of a person
            rows = read_table(repeated)
        except NotImplementedError:
            rows = None
        if rows is None:
            raise ValueError("X has columns of a type whose rows cannot be repeated; cast them, such as views to text")
        self.transformer_.protocol_.prepare(rows)
        return rows

    def tally(self, reports: TableLike) -> Any:
        """Sum up reports.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows.

        Returns
        -------
        tally
            That of the transformer.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if these are no reports of the transformer.

        Notes
        -----
        **Privacy.** Post-processing of reports: free.
        """
        check_is_fitted(self, "transformer_")
        return self.transformer_.tally(reports)

    @available_if(_estimates("estimate_frequencies"))  # type: ignore[untyped-decorator]
    def estimate_frequencies(self, reports: Any, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Estimate the mean over the persons of the share of their rows that have each value.

        Parameters
        ----------
        reports : what `transform` returns, or a tally of it
            Privatised rows, or their sums.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, indexed as by the transformer. The standard error adds to that of
            the reports the choice of the rows, as if the values of all rows were mixed alike. So it is, of one row a
            person, right for the population that the persons are drawn from, and for the mean over these very persons
            too large rather than too small.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another transformer, or the parameter is out of range.
        AttributeError
            If the transformer does not estimate frequencies.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_is_fitted(self, "transformer_")
        reach = -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2)
        estimator: Any = self.transformer_
        table: pd.DataFrame = estimator.estimate_frequencies(reports)
        n = reports.n_reports if hasattr(reports, "n_reports") else len(reports)
        share = table["frequency"].clip(0, 1)
        std_error = np.sqrt(table["std_error"] ** 2 + share * (1 - share) / n)
        lower, upper = table["frequency"] - reach * std_error, table["frequency"] + reach * std_error
        return table.assign(std_error=std_error, lower=lower, upper=upper)

    @available_if(_estimates("estimate_mean"))  # type: ignore[untyped-decorator]
    def estimate_mean(self, reports: Any, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Estimate the mean over the persons of the mean of their rows.

        Parameters
        ----------
        reports : what `transform` returns, or a tally of it
            Privatised rows, or their sums.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            As of the transformer's `estimate_mean`, for each column of numbers. Its standard error holds how much the
            reports vary, and so also the choice of the rows.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another transformer, or the parameter is out of range.
        AttributeError
            If the transformer does not estimate means.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_is_fitted(self, "transformer_")
        estimator: Any = self.transformer_
        table: pd.DataFrame = estimator.estimate_mean(reports, confidence_level=confidence_level)
        return table
