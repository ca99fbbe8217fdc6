"""Base class of transformers in the local model of differential privacy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, PathType, TableLike
from skdp.base import (
    CallCounter,
    PrivateEstimator,
    apply_set_output,
    check_index_levels,
    check_input,
    check_ledger,
    check_names,
    check_random_state,
    check_same_order,
    draw_seed,
    find_stack_level,
    make_source,
    restore_on_error,
    warn_of_epsilon,
    warn_of_levels,
)
from skdp.domain import Domain, check_closed
from skdp.exact import round_up
from skdp.local._protocol_file import (
    ProtocolJson,
    check_attached_protocol,
    read_and_tally,
    transformer_from_text,
)
from skdp.local._tally import ReportTally, check_tally
from skdp.local.protocol._count_estimation import (
    InferenceTarget,
    check_sample_weight,
    debias_reports,
    estimate_report_counts,
    estimate_weighted_frequencies,
)
from skdp.local.protocol._protocol import ReportProtocol
from skdp.local.protocol._report_columns import Reports
from skdp.pages import warn
from skdp.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    check_epsilon,
)
from skdp.randomness import ByteSource
from skdp.tables import Table, attach_protocol, get_protocol_text

# Values of `postprocess`. All methods except "none" bias the counts.
CountPostprocess = Literal["none", "clip", "simplex"]


@dataclass(frozen=True)
class CallRandomness:
    """Factory of the sources of random bytes in one call of a method.

    Calling it with a purpose, such as "report", and column names returns their source.
    """

    seed: int | None = field(repr=False)
    # Class of the transformer, and number of the call.
    owner: str
    call: int
    # Names of nested parts of the call.
    prefix: tuple[Any, ...] = ()

    def __call__(self, purpose: str, *columns: object) -> ByteSource:
        # Return a source of random bytes for a purpose and columns; different arguments
        # have independent sources.
        return make_source(
            self.seed, self.owner, self.call, *self.prefix, purpose, *columns
        )

    def part(self, *names: object) -> CallRandomness:
        """Return the randomness of a named part of the call, whose sources are independent of other parts."""
        return replace(self, prefix=(*self.prefix, *names))


class ReportTransformer(TransformerMixin, PrivateEstimator, ABC):
    """Base class of transformers that privatize each record independently.

    A subclass has the parameters ``ledger`` and ``random_state``, and implements
    `_make_protocol`. It inherits `fit`, `transform` and the charge to the ledger, and can
    be used with `skdp.engines`.

    Attributes
    ----------
    protocol_ : ReportProtocol
        Protocol that converts records to reports, and reports to estimates.
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform` for one record.

    See Also
    --------
    ReportProtocol : Returned by `_make_protocol`.

    Notes
    -----
    **Privacy.** `transform` validates all rows before it charges the ledger, and
    charges the ledger before it draws randomness.

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import ReportTransformer
    >>> issubclass(RandomizedResponseEncoder, ReportTransformer)
    True
    """

    # True if the input may have categories and strings, for the tags of scikit-learn.
    _takes_categories: bool = False

    # Methods of some classes, for the result of `skdp.read_protocol`.
    estimate_counts: Any
    estimate_frequencies: Any
    estimate_mean: Any

    epsilon: float
    ledger: PrivacyLedger | Any
    random_state: int | None

    protocol_: ReportProtocol
    guarantee_: PrivacyGuarantee
    _calls: CallCounter
    _ledger: PrivacyLedger | None
    _seed: int | None
    _json: ProtocolJson

    @abstractmethod
    def _make_protocol(self, table: Table) -> ReportProtocol:
        """Validate the parameters, and make the protocol from the declared values."""

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        """Set the fitted attributes other than `protocol_` and `guarantee_`."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self._takes_categories:
            tags.input_tags.categorical = True
            tags.input_tags.string = True
            tags.transformer_tags.preserves_dtype = []
        return tags

    @restore_on_error
    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Fit the transformer to the declared values.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Only the column names and dtypes are used, unless the class documents
            otherwise.
        y : None
            Ignored.

        Returns
        -------
        self
            Fitted transformer. Parameters set later take effect with the next `fit`.

        Raises
        ------
        TypeError, ValueError
            If a parameter is invalid or does not match the columns, or X is empty, 1-D,
            sparse or lazy.
        """
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        protocol = self._make_protocol(check_input(self, X, reset=True))
        warn_of_epsilon(protocol.guarantee.epsilon, self.epsilon)

        self.protocol_ = protocol
        self.guarantee_ = protocol.guarantee
        self._set_fitted(protocol)
        # Copies of the parameters, because `guarantee_` and the JSON must describe this fit
        # even if a parameter is set later.
        self._ledger = self.ledger
        self._seed = draw_seed(self.random_state)
        self._json = ProtocolJson(self, protocol)
        self._calls = CallCounter()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        # A failed `fit` may have set `n_features_in_`.
        return hasattr(self, "protocol_")

    def fit_transform(
        self,
        X: TableLike,
        y: ColumnLike | None = None,
        *,
        person: ArrayLike | None = None,
    ) -> Any:
        """Fit, then privatize the same table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.
        person : array-like of shape (n_samples,), default=None
            See `transform`.

        Returns
        -------
        same type as X
            See `transform`.

        Raises
        ------
        TypeError, ValueError, BudgetExceeded
            See `fit` and `transform`.
        """
        return self.fit(X, y).transform(X, person=person)

    def transform(self, X: TableLike, *, person: ArrayLike | None = None) -> Any:
        """Privatize a table.

        Each call is a new release, unless the reports are permanent.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.
        person : array-like of shape (n_samples,), default=None
            Unique id of the record of each row, int or str ("7" is the id 7, and "007"
            is another). Required for permanent reports (``memoize=True``, or a secret
            key of `RapporEncoder`), and only for them. In a Pipeline, route it with
            ``set_transform_request(person=True)``.

        Returns
        -------
        same type as X
            Reports. The row index of X is kept and is **not** protected. In pandas and
            pyarrow, the metadata contains the protocol as JSON (`to_json`).

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`; if X has columns other than in `fit`, values that cannot be
            reported, or an index level with the name of a privatized column; if
            `person` is missing, not unique, not required, or in another order than X;
            or if `ledger` was set after `fit`.
        BudgetExceeded
            If the budget of the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If the metadata of X contains a protocol, so that X may contain reports.
        PrivacyLeakWarning
            If the row index of X has a named level.
        """
        check_is_fitted(self)
        protocol = self.protocol_
        # A charge is never refunded, so `_read_records` and `prepare` raise all errors before
        # it, and random bits are drawn after it.
        table, records = self._read_records(X, person)
        codes = protocol.prepare(table)
        self._charge()
        reports = protocol.randomize(codes, records, self._randomness())
        return self._attach_protocol(protocol.write(reports, table))

    def _read_records(
        self, X: TableLike, person: ColumnLike
    ) -> tuple[Table, list[bytes]]:
        """Read the true values and the ids of persons; warn if X has a named index level or may contain reports."""
        table = self._read(X)
        check_index_levels(X, self.protocol_.columns)
        warn_of_levels(X)
        warn_of_reports([get_protocol_text(X)])
        check_same_order(X, person, "person")
        return table, self.protocol_.read_records(person, len(table.columns[0]))

    def _attach_protocol(self, reports: TableLike | ReportTally) -> Any:
        """Convert reports to the format of `set_output`, with the protocol as metadata."""
        X_out = apply_set_output(self, reports)
        return attach_protocol(X_out, lambda: self._json.text_in_memory)

    def _read(self, X: TableLike) -> Table:
        """Check that X has the columns of `fit`, and return them."""
        table = check_input(self, X, reset=False)
        check_names(self, table, self.protocol_.columns)
        return table

    def tally(self, reports: TableLike) -> Any:
        """Sum the reports of a table.

        Parameters
        ----------
        reports : same type as returned by `transform`
            Privatized rows.

        Returns
        -------
        ReportTally
            Sums. Tallies of several batches can be added.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports have other columns or values than expected,
            or the metadata of another protocol.

        Notes
        -----
        Each record counts once. `estimate_frequencies` takes survey weights with the
        reports themselves.

        **Privacy.** Post-processing of the reports, without privacy loss.
        """
        check_is_fitted(self)
        _, tally = read_and_tally(reports, self)
        return tally

    def debias(
        self,
        reports: TableLike,
        *,
        columns: Sequence[Any] | None = None,
    ) -> Any:
        """Compute unbiased values of each record.

        The expectation of a value, over the noise, is 1 if the record has the category
        and 0 otherwise, or the true number. Column means are the estimated frequencies
        and means, and products of columns that are reported separately estimate joint
        counts. Use the values for weighted, clustered or stratified estimates (:doc:`/guide/surveys`).

        Parameters
        ----------
        reports : same type as returned by `transform`
            Privatized rows. The values of a row do not depend on other rows.
        columns : list of column names, default=None
            Columns to debias. None selects all. For columns that are reported together,
            values are summed over the other columns.

        Returns
        -------
        same type as reports
            A column ``<column>_<value>`` of floats for each declared value, and a
            column for each column of numbers.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or have no
            unbiased value for each record (Bloom filters), or a column is not declared.

        Notes
        -----
        A report supports the true value with probability p and any other value with
        probability q; the unbiased value is ``(support - q) / (p - q)`` ([1]_,
        equation 1). If a record reports a random part of its columns, it has 0 in the
        columns that it does not report, and its other values are divided by the
        probability of reporting them. `estimate_frequencies` has smaller errors then,
        because it divides by the number of records that report a column.

        **Privacy.** Post-processing of the reports, without privacy loss.

        References
        ----------
        .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
           protocols for frequency estimation. USENIX Security.
        """
        check_is_fitted(self)
        if isinstance(reports, ReportTally):
            raise TypeError(
                "`reports` must have a row for each record, got a ReportTally. Pass "
                "the output of `transform`."
            )
        check_attached_protocol(get_protocol_text(reports), self)
        protocol = self.protocol_
        arrays = protocol.read(reports)
        names, blocks = debias_reports(protocol, arrays, columns)
        return protocol.report_table(reports).rebuild(blocks, names)

    def _read_reports(
        self, reports: TableLike | ReportTally
    ) -> tuple[Reports | None, ReportTally]:
        """Return the arrays of the reports of each field, which are None for a tally, and their tally."""
        check_is_fitted(self)
        if isinstance(reports, ReportTally):
            arrays, tally = None, reports
        else:
            arrays, tally = read_and_tally(reports, self)
        check_tally(tally, self.protocol_.meaning)
        if tally.n_reports == 0:
            raise ValueError(
                "Found a tally of 0 sample(s) (rows); at least 1 is required."
            )
        return arrays, tally

    def _estimate(
        self,
        reports: TableLike | ReportTally,
        statistic: str,
        sample_weight: ColumnLike | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Estimate counts or frequencies of declared values; with weights, `statistic` must be "frequency"."""
        arrays, tally = self._read_reports(reports)
        if sample_weight is None:
            options["statistic"] = statistic
            return estimate_report_counts(self.protocol_, tally, **options)
        weights = check_sample_weight(sample_weight, reports, tally.n_reports)
        return estimate_weighted_frequencies(
            self.protocol_, arrays, tally, weights, **options
        )

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Get the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input columns, if `fit` got an array.

        Returns
        -------
        ndarray of str
            Names of the report columns.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if `input_features` differ from the columns of `fit`.
        """
        check_is_fitted(self)
        names = check_input_names(self, self.protocol_.columns, input_features)
        return np.array(self.protocol_.names(names), dtype=object)

    def to_json(self) -> str:
        """Write the protocol as JSON, without secrets.

        Returns
        -------
        str
            Columns, declared values, parameters, exact probabilities and guarantee, but
            not the ledger, the seed or a secret key. ``"client"`` has the parameters of
            a client in another language (``examples/client``); if it is null,
            ``"no_client"`` has the reason.

        Raises
        ------
        NotFittedError, TypeError
            Before `fit`, or if a parameter cannot be written as JSON.

        Notes
        -----
        **Privacy.** The JSON depends on the declared values only. Categories that `fit`
        read from the data, with a warning, are part of it, and of every report; the
        guarantee does not cover their columns.
        """
        check_is_fitted(self)
        return self._json.text

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Load a fitted transformer from the JSON of `to_json`.

        Parameters
        ----------
        text : str
            Output of `to_json`.

        Returns
        -------
        transformer
            Instance of this class, or of a subclass in `skdp.local`. It has no ledger,
            and a new secret key if reports are permanent.

        Raises
        ------
        ValueError
            If the text is not a protocol of such a transformer, exceeds the limits
            below, was written by an incompatible version of skdp, or has a guarantee or
            client that does not follow from its parameters.

        Notes
        -----
        **Privacy.** The text may come from an untrusted source: nothing in it is
        executed. It must have at most 2**24 characters and 2**17 declared values.
        """
        return cast(Self, transformer_from_text(text, cls))

    def save(self, path: PathType) -> None:
        """Write the JSON of `to_json` to a file.

        Parameters
        ----------
        path : str or path-like
            File to write.

        Raises
        ------
        NotFittedError, TypeError
            See `to_json`.
        """
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: PathType) -> Self:
        """Load a transformer saved with `save`.

        Parameters
        ----------
        path : str or path-like
            File to read.

        Returns
        -------
        transformer
            See `from_json`.

        Raises
        ------
        ValueError, OSError
            See `from_json`, or if the file cannot be read.
        """
        return cls.from_json(Path(path).read_bytes().decode(errors="replace"))

    # Methods for `skdp.engines`, `privacy_statement` and authors of transformers.

    def _charge(self) -> None:
        """Charge one call of `transform` to the ledger."""
        ledger = self._find_ledger()
        if ledger is not None:
            ledger.charge(self.guarantee_, type(self).__name__)

    def _check_budget(self) -> None:
        """Raise BudgetExceeded early if the ledger does not cover a call."""
        ledger = self._find_ledger()
        if ledger is not None:
            ledger.check(self.guarantee_, type(self).__name__)

    def _find_ledger(self) -> PrivacyLedger | None:
        """Return the ledger of `fit`; raise an error if another one was set later."""
        if self.ledger is not None and self.ledger is not self._ledger:
            raise ValueError("`ledger` was set after fit. Call fit again.")
        return self._ledger

    def _planned_guarantee(self) -> PrivacyGuarantee | None:
        """Return the guarantee of a release before `fit`, or None if it depends on the columns."""
        epsilon = getattr(self, "epsilon", None)
        if epsilon is None:
            return None
        epsilon = round_up(check_epsilon(epsilon))
        return PrivacyGuarantee(epsilon, secure=self.random_state is None)

    def _randomness(self, call: int | None = None) -> CallRandomness:
        """Return the randomness of the next call, or of the call with a given number."""
        # Each call draws new noise, because equal noise would cancel in differences.
        number = self._calls.advance() if call is None else call
        return CallRandomness(self._seed, type(self).__name__, number)

    def _declared_domain(self) -> Domain | None:
        """Return the declared values, for the conversion of the text of CSV files."""
        return None

    def _declared_row(self, names: Sequence[Any]) -> pd.DataFrame:
        """Make a dataframe with one row of declared values, on which `fit` can be called.

        It is used if no table is in memory. `names` are the columns of the table.
        """
        domain = self._declared_domain() or self._domain_of_categories()
        check_closed(domain)
        row: dict[Any, Any] = {}
        for name in domain.columns:
            row[name] = pd.Series([domain[name].values[0]], dtype=object)
        return pd.DataFrame(row)

    def _domain_of_categories(self) -> Domain:
        """Return the parameter `categories` as a domain, if it names the columns."""
        categories = getattr(self, "categories", None)
        if isinstance(categories, Mapping):
            return Domain(categories)
        raise ValueError(
            "`categories` must be a dict or a Domain, which name the columns, if the "
            f"table is not in memory, got {type(categories).__name__}. Alternatively, fit the "
            "transformer on a small table."
        )


class CategoryTransformer(ReportTransformer):
    """Base class of transformers of declared values, whose counts and frequencies are estimated."""

    _takes_categories = True

    def estimate_counts(
        self,
        reports: TableLike | ReportTally,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: CountPostprocess = "none",
        confidence_level: float = 0.95,
        rows: InferenceTarget = "table",
    ) -> pd.DataFrame:
        """Estimate the number of records with each value.

        Parameters
        ----------
        reports : same type as returned by `transform`, or ReportTally
            Privatized rows, or their sums.
        columns : list of column names, default=None
            Columns to count. None selects all. With ``strategy="joint"``, counts are
            summed over the other columns.
        postprocess : {"none", "clip", "simplex"}, default="none"
            Post-processing of the estimates. "none" is unbiased, and estimates may be
            negative. "clip" and "simplex" (not for lists) return nonnegative, biased
            estimates.
            :doc:`/guide/encoders` compares them.
        confidence_level : float, default=0.95
            Coverage probability of each interval.
        rows : {"table", "population"}, default="table"
            Target of inference: the records themselves, or the population from which
            they are a random sample, which has wider intervals.

        Returns
        -------
        pandas.DataFrame
            Columns 'count', 'std_error', 'lower' and 'upper', indexed by value for one
            column, by (column, value) for several columns, and by the values of all
            columns with ``strategy="joint"``. Standard errors and intervals (normal
            approximation) are for the unbiased estimate. With post-processing, intervals
            are clipped to [0, n].

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, if the reports have the metadata of another protocol or values
            that it does not report, or if a parameter is invalid.

        Warns
        -----
        UserWarning
            If an estimate is more than six standard errors outside [0, n]. The rows may be
            true values, reports of another encoder or epsilon, or a selection by their
            values.

        See Also
        --------
        debias : Values of each record, for estimates with strata, clusters or weights.

        Notes
        -----
        **Privacy.** Post-processing of the reports, without privacy loss.
        """
        return self._estimate(
            reports,
            "count",
            columns=columns,
            postprocess=postprocess,
            confidence_level=confidence_level,
            rows=rows,
        )

    def estimate_frequencies(
        self,
        reports: TableLike | ReportTally,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: CountPostprocess = "none",
        confidence_level: float = 0.95,
        rows: InferenceTarget = "population",
        sample_weight: ColumnLike | None = None,
    ) -> pd.DataFrame:
        """Estimate the proportion of a population with each value.

        Parameters
        ----------
        reports : same type as returned by `transform`, or ReportTally
            Privatized rows, or their sums.
        columns, postprocess, confidence_level : optional
            See `estimate_counts`.
        rows : {"population", "table"}, default="population"
            Target of inference: the population from which the records are a random
            sample, or the records themselves, which have narrower intervals.
        sample_weight : array-like of shape (n_samples,), default=None
            Design weight of each record, at least 0. A frequency is then the weighted
            mean of the values of `debias`, with its linearized standard error [1]_.
            Requires reports and ``rows="population"``. `shuffled_guarantee` does not
            cover weighted sums.

        Returns
        -------
        pandas.DataFrame
            Columns 'frequency', 'std_error', 'lower' and 'upper', indexed as in
            `estimate_counts`. ``attrs["rows"]`` is `rows`.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            See `estimate_counts`, or if weights are invalid.

        Notes
        -----
        **Privacy.** Post-processing of the reports, without privacy loss. Weights are
        not privatized.

        Intervals cover less than `confidence_level` with fewer than about 60 records,
        or fewer than 5 expected records with, or without, a value.

        References
        ----------
        .. [1] T. Lumley (2004). Analysis of complex survey samples. Journal of
           Statistical Software 9(8).
        """
        return self._estimate(
            reports,
            "frequency",
            sample_weight,
            columns=columns,
            postprocess=postprocess,
            confidence_level=confidence_level,
            rows=rows,
        )


def warn_of_reports(texts: Sequence[str | None]) -> None:
    """Warn that the metadata of true values contains a protocol."""
    if any(text is not None for text in texts):
        warn(
            "The metadata of X contains a protocol ('skdp.protocol'). If X contains "
            "reports, they are randomized a second time, which biases the estimates. "
            "Use the true values; for true values, remove this key of the metadata",
            UserWarning,
            about="guide/report_files",
            stacklevel=find_stack_level(),
        )


def check_input_names(
    estimator: BaseEstimator, columns: Sequence[Any], input_features: Any
) -> list[str]:
    """Return the names of the input columns, by default the columns of `fit`."""
    fitted_names = getattr(estimator, "feature_names_in_", None)
    if input_features is None:
        return list(map(str, columns if fitted_names is None else fitted_names))
    names = list(map(str, input_features))
    # The messages are taken from scikit-learn.
    if fitted_names is not None and names != list(fitted_names):
        raise ValueError("input_features is not equal to feature_names_in_")
    if len(names) != estimator.n_features_in_:
        raise ValueError(
            f"input_features should have length equal to {estimator.n_features_in_}, "
            f"got {len(names)}"
        )
    return names
