"""The scikit-learn side of a local transformer: fit a protocol, charge, draw, write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._json import detect_format
from skdp.base import (
    CallCounter,
    CallRandomness,
    ColumnLike,
    OnSite,
    PathType,
    TableLike,
    all_or_nothing,
    apply_set_output,
    check_ledger,
    check_names,
    check_random_state,
    check_same_order,
    declares_missing,
    draw_seed,
    format_guess_probability,
    format_probability,
    is_large,
    level_of_the_caller,
    named_levels,
    read_input,
    refuse_protected_levels,
    warn_of_epsilon,
    warn_of_levels,
)
from skdp.domain import Domain
from skdp.exact import round_up
from skdp.local._protocol_file import (
    FORMAT,
    SECRET,
    check_attached_protocol,
    is_ours,
    read_and_tally,
    transformer_from_text,
    write_protocol,
)
from skdp.local._tally import ReportTally, check_tally
from skdp.local.protocol import (
    Channel,
    ReportProtocol,
    Reports,
    debias_reports,
    read_sample_weight,
    weighted_frequencies,
)
from skdp.oracles import MAX_ENTRIES
from skdp.pages import warn
from skdp.privacy import (
    BudgetExceeded,
    PrivacyGuarantee,
    PrivacyLedger,
    check_epsilon,
    is_charged,
    search_advice,
    spend,
)
from skdp.tables import Table, carried_text, carries_notes, with_protocol

# Declared values of reports in memory that say them: a copy goes into each pickle and
# file.
_MAX_CARRIED = 1 << 11


class WrittenProtocol:
    """A transformer as it was fitted, to be written as JSON when it is first needed."""

    def __init__(self, transformer: Any, protocol: ReportProtocol) -> None:
        parameters = transformer.get_params(deep=False)
        # Mappings are copied: they may be changed after `fit`.
        self._parameters = {}
        for name, value in parameters.items():
            if name not in SECRET:
                is_mapping = isinstance(value, Mapping)
                self._parameters[name] = dict(value) if is_mapping else value
        self._seeded = transformer.random_state is not None
        self._name = type(transformer).__name__
        self._protocol = protocol
        self.named = hasattr(transformer, "feature_names_in_")
        # Of classes of others it is not known which parameters are secret: their
        # reports carry nothing.
        self._is_carried = is_ours(type(transformer))
        self._text: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_text": None}

    def of(self, protocol: ReportProtocol, *, seeded: bool) -> WrittenProtocol:
        """Return the same of a protocol with another guarantee."""
        written = copy(self)
        written._protocol = protocol
        written._seeded = seeded
        written._text = None
        return written

    @property
    def text(self) -> str:
        """The JSON."""
        if self._text is None:
            self._text = write_protocol(
                self._name,
                self._parameters,
                self._protocol,
                named=self.named,
                seeded=self._seeded,
            )
        return self._text

    @property
    def carried_text(self) -> str | None:
        """The JSON that reports carry; None if they carry none."""
        if not self._is_carried:
            return None
        try:
            return self.text
        except (TypeError, ValueError):
            # Such as declared values that JSON cannot hold.
            return None

    @property
    def text_in_memory(self) -> str | None:
        """The JSON that reports in memory carry; None if it is large."""
        domain = self._protocol.domain
        is_large = domain is not None and sum(domain.sizes) > _MAX_CARRIED
        return None if is_large else self.carried_text


class ReportTransformer(TransformerMixin, OnSite, BaseEstimator, ABC):
    """Base of the transformers that report each row by itself.

    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import ReportTransformer
    >>> issubclass(RandomizedResponseEncoder, ReportTransformer)
    True

    A subclass has ``ledger`` and ``random_state`` among its parameters and implements
    `_make_protocol`; it inherits `fit`, `transform`, the charge, the call counter and
    the record ids. Then `skdp.engines` takes it as it takes ours.

    Attributes
    ----------
    protocol_ : ReportProtocol
        What the fitted transformer does to a row, and what a server does with the
        reports.
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.

    See Also
    --------
    ReportProtocol : What `_make_protocol` returns.

    Notes
    -----
    **Privacy.** Each call of `transform` validates the rows, then charges the ledger,
    then draws randomness.
    """

    # Whether true values are categories, which may be text.
    _takes_categories: bool = False

    epsilon: Any
    ledger: PrivacyLedger | None
    random_state: int | None

    protocol_: ReportProtocol
    guarantee_: PrivacyGuarantee
    _calls: CallCounter
    _index_levels: tuple[Any, ...] = ()
    _ledger: PrivacyLedger | None
    _seed: int | None
    _written: WrittenProtocol

    @abstractmethod
    def _make_protocol(self, table: Table) -> ReportProtocol:
        """Check the parameters, and make the protocol from what is declared."""

    def _set_fitted(self, protocol: Any) -> None:
        """Set the fitted attributes besides `protocol_` and `guarantee_`."""

    def __sklearn_tags__(self) -> Any:
        # scikit-learn asks for them at each call, so that this stands here and not in
        # each class.
        tags = super().__sklearn_tags__()
        if self._takes_categories:
            tags.input_tags.categorical = True
            tags.input_tags.string = True
            tags.input_tags.allow_nan = self._allows_missing()
            tags.transformer_tags.preserves_dtype = []
        return tags

    def _allows_missing(self) -> bool:
        """Return whether missing is a declared value."""
        if hasattr(self, "protocol_"):
            domain = getattr(self.protocol_, "domain", None)
            return domain is not None and declares_missing(domain)
        return self._parameters_declare_missing()

    def _parameters_declare_missing(self) -> bool:
        return False

    @all_or_nothing
    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Make the protocol from what is declared.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Only the column names and dtypes are used, unless the class says otherwise.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer. Parameters that are set later take effect with the
            next `fit`; until then, `transform` refuses another ledger, and charges one
            that is taken away.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range or does not fit the columns, X is empty, 1-D,
            sparse or lazy, or the row index of X or y has a level with the name of a
            column.
        """
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        protocol = self._make_protocol(read_input(self, X, reset=True))
        refuse_protected_levels(X, protocol.columns)
        # The target goes on with the reports in a Pipeline, and its row index with it.
        refuse_protected_levels(y, protocol.columns, what="y")
        # As they were at `fit`: parameters that are set later must not change what
        # `guarantee_` says.
        self.protocol_ = protocol
        self.guarantee_ = protocol.guarantee
        self._set_fitted(protocol)
        self._index_levels = named_levels(X)
        warn_of_levels(X)
        _warn_of_epsilon(protocol)
        self._written = WrittenProtocol(self, protocol)
        self._seed = draw_seed(self.random_state)
        self._ledger = self.ledger
        self._calls = CallCounter()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        # A `fit` that failed has set n_features_in_.
        return hasattr(self, "protocol_")

    def fit_transform(
        self,
        X: TableLike,
        y: ColumnLike | None = None,
        *,
        record_id: ArrayLike | None = None,
    ) -> Any:
        """Fit, and privatise the same table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.
        record_id : array-like of shape (n_samples,), optional
            As for `transform`.

        Returns
        -------
        same kind as X
            As for `transform`.

        Raises
        ------
        TypeError, ValueError, BudgetExceeded
            As for `fit` and `transform`.
        """
        return self.fit(X, y).transform(X, record_id=record_id)

    def transform(self, X: TableLike, *, record_id: ArrayLike | None = None) -> Any:
        """Privatise a table: a new release at every call, unless reports are permanent.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.
        record_id : array-like of shape (n_samples,), optional
            Which record each row is of: required with permanent reports
            (``memoize=True``, or a secret key of `RapporEncoder`), and only then.
            Integers or text, all different; "7" is the id 7, and "007" is another. In a
            Pipeline, route it with ``set_transform_request(record_id=True)``.

        Returns
        -------
        same kind as X
            The reports, with the row index of X. A MultiIndex of columns stays where all
            columns are those of X; beside others, as ``sampled``, labels are tuples. In
            pandas and pyarrow they carry their protocol (guide page "Clients in other
            languages").

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or values that cannot be reported,
            or a level of its row index has the name of a column, or the record ids are
            missing, too few, repeated, not wanted, or a series with the row labels of X
            in another order, or another ledger was set after `fit`.
        BudgetExceeded
            If the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If X carries a protocol, because its columns may be reports already.
        """
        table = self._read(X)
        protocol = self.protocol_
        refuse_protected_levels(X, protocol.columns)
        warn_of_levels(X, known=self._index_levels)
        check_same_order(X, record_id, "record_id")
        warn_of_reports(lambda: [carried_text(X)])
        n_rows = len(table.columns[0])
        # All that may be refused is refused before the charge, and before any draw.
        codes = protocol.prepare(table)
        records = protocol.read_records(record_id, n_rows)
        try:
            self._charge()
        except BudgetExceeded:
            with search_advice():
                raise
        randomness = self._randomness()
        reports = protocol.randomise(codes, records, randomness)
        released = apply_set_output(self, protocol.write(reports, table))
        text = self._written.text_in_memory if carries_notes(released) else None
        return with_protocol(released, text)

    def _read(self, X: Any) -> Table:
        """Read true rows, which must have the columns of `fit`."""
        check_is_fitted(self)
        table = read_input(self, X, reset=False)
        check_names(self, table, self.protocol_.columns)
        return table

    def tally(self, reports: TableLike) -> Any:
        """Sum up reports into a tally, which adds to tallies of other batches.

        Parameters
        ----------
        reports : same type as returned by `transform`
            Privatized rows.

        Returns
        -------
        ReportTally
            The sums; tallies of several batches add.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports have other columns or values than this
            transformer's, or carry another protocol.

        Notes
        -----
        **Privacy.** Post-processing of reports: free.
        """
        check_is_fitted(self)
        _, tally = read_and_tally(reports, self)
        return tally

    def debias(
        self,
        reports: TableLike,
        *,
        columns: Sequence[Any] | None = None,
        values: Sequence[Any] | Mapping[Any, Sequence[Any]] | None = None,
    ) -> Any:
        """Return unbiased values of each record, for survey statistics.

        On average over the randomization, the value of a record is 1 for its true
        category and 0 for all others, or its true number. Means of the values over the
        records are estimated proportions and means, products of columns that are
        reported separately estimate joint counts, and weighted means and the variances
        between strata or clusters are design-based estimates. The guide page "Surveys"
        computes them.

        Parameters
        ----------
        reports : same type as returned by `transform`
            Privatized rows. Batches of rows give the same values as all rows.
        columns : sequence of column names, optional
            The columns to debias; by default all. Of columns that are reported
            together, a value of some of them is the sum over the others.
        values : list, or mapping of column name to list, optional
            The declared values to debias, by default all: a list of values for one
            column, a list of tuples for columns that are reported together, a mapping
            for several columns. Memory is that of the output.

        Returns
        -------
        same kind as reports
            A column ``<column>_<value>`` of floats for each declared value, and a
            column with the name of each column of numbers.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or have no
            unbiased value for each record (Bloom filters), or a column or value is not
            declared.

        Notes
        -----
        A report supports the true value with probability p and any other value with
        probability q; the unbiased value is ``(support - q) / (p - q)`` ([1]_,
        equation 1). If a record reports a random part of its columns, values of the
        others are 0, and values of those that it reports are divided by the
        probability of this, so that they are unbiased, too. The estimates of
        `estimate_frequencies` then have a smaller error than these means, because they
        divide by the number of records that report a column. Select these records for
        the same: their values, times the probability.

        **Privacy.** Post-processing of reports: free, and repeatable. A value is a
        function of one report.

        References
        ----------
        .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
           protocols for frequency estimation. USENIX Security.
        """
        check_is_fitted(self)
        if isinstance(reports, ReportTally):
            raise TypeError(
                "reports must be a table with a row for each record, got a ReportTally"
            )
        check_attached_protocol(carried_text(reports), self)
        protocol = self.protocol_
        arrays = protocol.read(reports)
        names, blocks = debias_reports(protocol, arrays, columns, values)
        return protocol.report_table(reports).rebuild(blocks, names)

    def _read_reports(self, reports: Any) -> tuple[Reports | None, ReportTally]:
        """Return reports as arrays, and their tally; of a tally, itself only."""
        check_is_fitted(self)
        arrays = None
        tally = reports
        if not isinstance(reports, ReportTally):
            arrays, tally = read_and_tally(reports, self)
        check_tally(tally, self.protocol_.meaning)
        return arrays, tally

    def _weighted_frequencies(
        self, reports: Any, sample_weight: Any, **options: Any
    ) -> pd.DataFrame:
        """Estimate weighted frequencies of the values of columns of categories."""
        arrays, tally = self._read_reports(reports)
        weights = read_sample_weight(sample_weight, reports, tally.n_reports)
        return weighted_frequencies(self.protocol_, arrays, tally, weights, **options)

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Name the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of the input, where `fit` saw none.

        Returns
        -------
        ndarray of str
            The names of the report columns, which the class describes.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the input features are not those of `fit`.
        """
        check_is_fitted(self)
        inputs = input_names(self, self.protocol_.columns, input_features)
        return np.array(self.protocol_.names(inputs), dtype=object)

    def _charge(self, run: str | None = None) -> None:
        """Charge the ledger with one call, before any draw; a named run once."""
        ledger = self._charged_ledger()
        if ledger is None:
            return
        title = type(self).__name__
        if run is not None:
            # A run that is repeated draws the same reports: it is one release.
            title += f", run {run}"
            if is_charged(ledger, self.guarantee_, title):
                return
        spend(ledger, self.guarantee_, title)

    def _check_budget(self, run: str | None = None) -> None:
        """Raise early, before rows are read, if the ledger does not cover a call; `_charge` decides."""
        ledger = self._charged_ledger()
        if ledger is None:
            return
        title = type(self).__name__
        if run is None or not is_charged(
            ledger, self.guarantee_, f"{title}, run {run}"
        ):
            # Nothing is charged: another process may spend it before `_charge`.
            ledger.check(self.guarantee_, title)

    def _planned_guarantee(self) -> PrivacyGuarantee | None:
        """Return the guarantee that the parameters allow before `fit`; None if it follows from the columns."""
        epsilon = getattr(self, "epsilon", None)
        if epsilon is None:
            return None
        # A statement never says less than is spent.
        epsilon = round_up(check_epsilon(epsilon))
        return PrivacyGuarantee(epsilon, secure=self.random_state is None)

    def _randomness(self, call: int | None = None) -> CallRandomness:
        """Return the randomness of the next call, or of an earlier one to repeat it."""
        # Each call has a stream of its own: equal noise in two would cancel.
        number = self._calls.advance() if call is None else call
        return CallRandomness(self._seed, type(self).__name__, number)

    def _declared_domain(self) -> Domain | None:
        """Return the declared values of the columns, by which a CSV file is read; None if all are text."""
        return None

    def _declared_row(self, sample: Table, names: Sequence[Any]) -> pd.DataFrame:
        """Make a row to fit to from the declared values, without reading rows.

        `sample` has the names and dtypes of the table, `names` are the columns that may
        be privatised.
        """
        raise ValueError(
            f"{type(self).__name__} has no _declared_row, and cannot be fitted without "
            "rows: fit it before, on a table in memory with the same columns, or "
            "implement _declared_row"
        )

    def _charged_ledger(self) -> PrivacyLedger | None:
        """Return the ledger of `fit`, to which calls are charged."""
        if self.ledger is not None and self.ledger is not self._ledger:
            raise ValueError(
                f"{type(self).__name__}: the ledger was set after fit, and would not "
                "be charged: call fit again"
            )
        return self._ledger

    def to_json(self) -> str:
        """Write what a client and a server must agree on, and nothing secret.

        Returns
        -------
        str
            Columns, declared values, parameters, exact probabilities and guarantee; not
            the ledger, the seed, or a secret key. Under ``"client"`` is what a client
            in another language needs (``examples/client``); where there is none for
            these reports, that is null and ``"no_client"`` says why: permanent reports,
            bins of dates, or whole numbers of more than 53 bits, which JavaScript
            confuses, are such reasons.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if a parameter is of a type that is not saved, or the
            protocol is larger than `from_json` reads: 1,024 columns, 2,097,152 numbers
            of grids in all columns, or 16,777,216 sums.

        Notes
        -----
        **Privacy.** It follows from what is declared. If `fit` read categories from the
        data, with a warning, they are in it, as they are in every report.
        """
        check_is_fitted(self)
        return self._written.text

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Make a fitted transformer from what `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON.

        Returns
        -------
        transformer
            Of the class that wrote it, which must be this one, or one of `skdp.local`
            that is derived from it. It has no ledger; if reports are permanent, it has
            a key of its own, and does not repeat the reports of others.

        Raises
        ------
        ValueError
            If the text is no protocol of such a transformer, beyond the limits below,
            of another version of skdp that draws otherwise, or states another
            guarantee, or another client, than follow from its parameters.

        Notes
        -----
        **Privacy.** Nothing in the text is run. It may come from an untrusted source:
        it has at most 2**24 characters and 2**17 declared values.
        """
        return cast(Self, transformer_from_text(text, cls))

    def save(self, path: PathType) -> None:
        """Write `to_json` to a file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Raises
        ------
        NotFittedError, TypeError
            As `to_json`.
        """
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: PathType) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        transformer
            As of `from_json`.

        Raises
        ------
        ValueError, OSError
            As `from_json`, or if the file cannot be read.
        """
        data = Path(path).read_bytes()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = ""
        if FORMAT not in text:
            # Such as what `skdp.save` wrote: its reader is named.
            description = detect_format(data)
            if description:
                raise ValueError(
                    f"the file is no protocol of a local transformer{description}"
                )
        return cls.from_json(text)


def _warn_of_epsilon(protocol: ReportProtocol) -> None:
    """Warn of an epsilon above 10, with the chance that a report is the truth."""
    stated_epsilon = protocol.guarantee.epsilon
    if is_large(stated_epsilon):
        warn_of_epsilon(stated_epsilon, _consequence(protocol))


def _consequence(protocol: ReportProtocol) -> str:
    """Say what is learned of the column whose report says most."""
    attributes = protocol.channels(MAX_ENTRIES)
    if attributes is None:
        odds = format_guess_probability(protocol.guarantee.epsilon)
        return (
            "a report may be e^epsilon times as likely under one value as under "
            "another, so which of two is true may be told with a probability of up to "
            f"{odds}"
        )
    names = [repr(name) for name in protocol.columns]
    if len(attributes) != len(names):  # all columns are one attribute
        names = [", ".join(names)] * len(attributes)
    chance = Fraction(-1)
    name = ""
    for attribute_name, channels in zip(names, attributes, strict=True):
        # Where the public part of a report chooses one of several channels, the one
        # that shows most.
        attribute_chance = max(map(_best_guess, channels))
        if attribute_chance > chance:
            chance = attribute_chance
            name = attribute_name
    if all(field.reports_values for field in protocol.fields):
        statement = f"a report of {name} is the truth"
    else:
        statement = f"the truth can be guessed from a report of {name}"
    return f"{statement} with a probability of {format_probability(chance)}"


def _best_guess(channel: Channel) -> Fraction:
    """Return how often the likeliest value is true, if all are equally frequent."""
    # Of each report, the value that makes it most probable is guessed.
    likeliest = [max(shares) for shares in zip(*channel, strict=True)]
    return sum(likeliest, Fraction(0)) / len(channel)


def warn_of_reports(
    read_texts: Callable[[], Iterable[str | None]],
) -> None:
    """Warn of a table or file that carries a protocol, so that it may hold reports."""
    try:
        if not any(read_texts()):
            return
    except ValueError:  # It names several protocols.
        pass
    warn(
        "the table may hold reports, because its metadata names a protocol "
        "(skdp.protocol). If it does, they are randomized a second time, and estimates "
        "are of the first reports, noise included. Privatize the table of true values; "
        "if this is one, remove the key skdp.protocol from the metadata",
        UserWarning,
        about="background/client_reports",
        stacklevel=level_of_the_caller(),
    )


def input_names(
    estimator: Any, columns: Sequence[Any], input_features: Any
) -> list[str]:
    """Return the names of the columns of the input, by default those of `fit`."""
    fitted_names = getattr(estimator, "feature_names_in_", None)
    if input_features is None:
        return list(map(str, columns if fitted_names is None else fitted_names))
    names = list(map(str, input_features))
    # The messages are those of scikit-learn.
    if fitted_names is not None and names != list(fitted_names):
        raise ValueError("input_features is not equal to feature_names_in_")
    if len(names) != estimator.n_features_in_:
        raise ValueError(
            f"input_features should have length equal to {estimator.n_features_in_}, "
            f"got {len(names)}"
        )
    return names
