"""What all local transformers share: reading, charging and randomising."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    CallCounter,
    all_or_nothing,
    as_asked,
    check_ledger,
    check_names,
    check_random_state,
    declares_missing,
    read_domain,
    read_input,
)
from skdp.coding import is_missing
from skdp.domain import Codes, Domain, Interval
from skdp.exact import log_upper
from skdp.frames import Table
from skdp.local._estimation import ReportEstimator
from skdp.local._row_reports import Call, Drawn, RowReports, Write
from skdp.local.memo import Memo, RepeatedReports
from skdp.oracles import FrequencyOracle, LocalHashing, RandomizedResponse, SubsetSelection, UnaryEncoding
from skdp.privacy import PrivacyGuarantee, check_epsilon
from skdp.randomness import uniform_integers

STRATEGIES = ("split", "joint", "sample")

_CHANGING = (
    "memoize=True draws the permanent reports of everybody anew, at their full cost, when the categories change, as "
    "those of the data do"
)


class LocalTransformer(RepeatedReports, ReportEstimator, TransformerMixin, RowReports):
    """Base of the transformers that privatise each record with frequency oracles."""

    # The columns form attributes: one for each column (``strategy="split"``, each with a share of epsilon, or
    # ``"sample"``, where each record reports one of them with all of epsilon), or a single one with a value for each
    # cell of the Cartesian product (``"joint"``). A subclass names the oracle, and turns its reports into columns and
    # back.

    epsilon: Any
    strategy: Any
    shares: Any
    categories: Any
    handle_unknown: Any
    ledger: Any
    random_state: Any

    _mechanism: str

    @abstractmethod
    def _writer(self, table: Table) -> Write:
        """Prepare to write reports into a table like the given one; whatever cannot be written fails here."""
        # What it returns takes the reports of each attribute, and under "sample" the attribute that each row reports.

    @abstractmethod
    def _plain_reports(self, codes: list[Codes]) -> list[NDArray[Any]]:
        """Return what the reports of codes would be without noise."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self._declares_missing()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _declares_missing(self) -> bool:
        if hasattr(self, "domain_"):
            return declares_missing(self.domain_)
        if isinstance(self.categories, Domain):
            return declares_missing(self.categories)
        lists = self.categories.values() if isinstance(self.categories, Mapping) else self.categories
        # Not checked before `fit`: whatever is no list of lists declares nothing.
        nested = lists if isinstance(lists, Iterable) and not isinstance(lists, str) else ()
        return any(
            is_missing(value) for values in nested if isinstance(values, list | tuple | np.ndarray) for value in values
        )

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the column names and take the declared domain.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Only the column names and dtypes are read, unless a column's categories are read from the data.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer. Parameters that are set later take effect with the next `fit`.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, the declared domain does not fit the columns, or X is empty, 1-D, sparse or
            lazy.

        Warns
        -----
        PrivacyLeakWarning
            If categories are read from the data.
        """
        epsilon = self._check_parameters()
        table = read_input(self, X, reset=True)
        domain = read_domain(table, self.categories, why_declared=_CHANGING if self.memoize else "")
        for name, size in zip(domain.columns, domain.sizes, strict=True):
            if size < 2:
                raise ValueError(
                    f"column {name!r} has one category, so there is nothing to hide or to learn (more than one sample "
                    "is needed to read categories from the data); drop the column or declare its other categories"
                )
        unknown = self._unknown_codes(domain)
        attributes = [domain.columns] if self.strategy == "joint" else [(name,) for name in domain.columns]
        sizes = [domain.select(columns).size for columns in attributes]
        if max(sizes) >= 1 << 32:
            raise ValueError(f"{max(sizes):,} joint cells are too many; use strategy='split', or fewer columns")
        oracles, again = self._make_oracles(epsilon, attributes, sizes)
        memo = None
        if self.memoize:
            sample = self.strategy == "sample"
            uniform = unknown == "uniform"
            name = type(self).__name__
            memo = Memo(self.secret_key, name, domain, attributes, oracles, sample=sample, unknown=uniform)
        guarantee = self._promise(oracles, domain, memo)
        rounds = self._add_round(oracles, again, guarantee)
        # Everything is checked before the first attribute is set.
        self.domain_ = domain
        self.categories_ = [np.array(domain[name].labels, dtype=object) for name in domain.columns]
        self.oracles_ = rounds or oracles
        self.guarantee_ = guarantee
        if memo is not None:
            self.permanent_oracles_ = oracles
        else:
            self.__dict__.pop("permanent_oracles_", None)
        if rounds:
            self.instantaneous_guarantee_ = self._promise(rounds, domain, None)
        else:
            self.__dict__.pop("instantaneous_guarantee_", None)
        # As they were at `fit`: parameters that are set later must not change what `guarantee_` says.
        self._memo = memo
        self._rounds = rounds
        self._attributes = attributes
        self._strategy = self.strategy
        self._unknown = unknown
        self._seed = self.random_state
        self._ledger = self.ledger
        self._calls = CallCounter()
        return self

    def _check_parameters(self) -> Fraction | None:
        epsilon = check_epsilon(self.epsilon)
        self._check_common_parameters()
        return epsilon

    def _check_common_parameters(self) -> None:
        if not isinstance(self.strategy, str) or self.strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {STRATEGIES}, got {self.strategy!r}")
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        self._check_memo()

    def _promise(self, oracles: Sequence[FrequencyOracle], domain: Domain, memo: Memo | None) -> PrivacyGuarantee:
        """State what a report of these oracles promises, or, with a memo, all reports of an unchanged value."""
        ratios = [oracle.worst_ratio for oracle in oracles]
        worst = max(ratios) if self.strategy == "sample" else prod(ratios, start=Fraction(1))
        mechanism, secure = self._mechanism, self.random_state is None
        if memo is not None:
            kinds = dict.fromkeys("bucket" if isinstance(oracle, LocalHashing) else "value" for oracle in oracles)
            value = " or ".join(kinds)
            unit = "the columns together" if self.strategy == "joint" else "a column"
            mechanism += f", memoised: epsilon per distinct {value} of {unit}, at most {max(memo.n_states)} of them"
            secure = True  # the coins come from the key
        return PrivacyGuarantee(log_upper(worst), scope=domain.columns, mechanism=mechanism, secure=secure)

    def _unknown_codes(self, domain: Domain) -> str | dict[Any, int]:
        """Return "error", "uniform", or for each column the code that stands in for an undeclared value."""
        if isinstance(self.handle_unknown, str) and self.handle_unknown in ("error", "uniform"):
            return self.handle_unknown
        if not np.isscalar(self.handle_unknown) and not is_missing(self.handle_unknown):
            raise TypeError(f"handle_unknown must be a single value, got {type(self.handle_unknown).__name__}")
        value = np.empty(1, object)
        value[0] = self.handle_unknown
        codes = {name: int(domain[name].encode(value)[0]) for name in domain.columns}
        for name, code in codes.items():
            if code == len(domain[name]):
                raise ValueError(
                    "handle_unknown must be 'error', 'uniform' or a value that every column declares; column "
                    f"{name!r} does not declare {self.handle_unknown!r}"
                )
        return codes

    def fit_transform(self, X: Any, y: Any = None, record_id: Any = None) -> Any:
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

    def transform(self, X: Any, record_id: Any = None) -> Any:
        """Privatise a table: a new release at every call, with fresh coins unless it is memoised.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.
        record_id : array-like of shape (n_samples,), optional
            Whose the rows are: needed with ``memoize=True``, and only then. Text, numbers (1 and 1.0 are one, "1" is
            another), dates, UUIDs, bytes, or tuples of these; all different. In a Pipeline, route it
            with ``set_transform_request(record_id=True)``.

        Returns
        -------
        same kind as X
            The privatised columns, with the row index of X.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or holds undeclared values under ``handle_unknown="error"``, or the record ids are
            missing, too few, repeated, or not wanted.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        return self._release(X, record_id)

    def _prepare(self, table: Table) -> tuple[list[Codes], Write]:
        codes = self._encode(table)
        write = self._writer(table)
        self._check_size(table)
        return codes, write

    def _draw(self, codes: list[Codes], records: list[bytes], call: Call) -> Drawn:
        """Draw the reports of codes, which go as the reports come, and say which attribute each row reports."""
        if self._memo is not None:
            if isinstance(self._unknown, dict):
                self._fill_unknown(codes, call)
            reports, chosen = self._memo.report(codes, records)
            for index, (rounds, columns) in enumerate(zip(self._rounds, self._attributes, strict=False)):
                reports[index] = rounds.report_again(reports[index], self._coins(call, "report", *columns))
            return reports, chosen
        self._fill_unknown(codes, call)
        chosen = None
        if self._strategy == "sample":
            # Drawn without looking at the data, so it may be public.
            chosen = uniform_integers(self._coins(call, "sample"), len(self._attributes), len(codes[0]))
        return self._randomise(codes, call), chosen

    def encode(self, X: Any) -> Any:
        """Encode a table as `transform` does, without noise. Not private.

        For rows that need no protection, such as those of a model's own users: `OnFitOnly` uses it.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.

        Returns
        -------
        same kind as X
            What `transform` would give at an unlimited epsilon. Undeclared values are treated as by `transform`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns or undeclared values, or if the encoding draws coins by nature (hashing, Hadamard
            response, sampling).

        Notes
        -----
        **Privacy.** None: the output is the truth. Nothing is charged.
        """
        self.check_encodable()
        table = read_input(self, X, reset=False)
        codes = self._encode(table)
        write = self._writer(table)
        self._fill_unknown(codes, self._calls.advance())
        if self._strategy == "joint":
            codes = [self.domain_.join(codes)]
        return as_asked(self, write(self._plain_reports(codes), None))

    def check_encodable(self) -> None:
        """Check that there is an encoding without noise.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the encoding draws coins by nature: hashing, Hadamard response, one sampled column.
        """
        check_is_fitted(self)
        if self._strategy == "sample":
            raise ValueError("strategy='sample' reports one column of each record: there is no encoding of all of them")
        for oracle in self.oracles_:
            if not isinstance(oracle, UnaryEncoding | SubsetSelection | RandomizedResponse):
                raise ValueError(f"{type(oracle).__name__} draws coins by nature: it has no encoding without noise")

    def _encode(self, table: Table) -> list[Codes]:
        """Code the columns; under ``handle_unknown="error"`` every code is then a declared one."""
        check_names(self, table, self.domain_.columns)
        codes = self.domain_.encode(table.columns)
        if self._unknown == "error":
            self._refuse_undeclared(codes, "Declare it, or set handle_unknown='uniform'.")
        return codes

    def _declaration(self) -> Any:
        return [(name, _plain_values(self.domain_[name])) for name in self.domain_.columns]

    def _settings(self) -> Any:
        return self._protocol(), self._unknown, getattr(self, "_output", None)

    def _check_size(self, table: Table) -> None:
        rows = len(table.columns[0])
        for oracle in self.oracles_:
            oracle._check_size(rows)

    def _refuse_undeclared(self, codes: list[Codes], advice: str) -> None:
        for name, size, column in zip(self.domain_.columns, self.domain_.sizes, codes, strict=True):
            if column.max(initial=0) == size:
                raise ValueError(
                    f"column {name!r} holds a value, or a NaN or inf, outside the declared categories. {advice}"
                )

    def _fill_unknown(self, codes: list[Codes], call: Call) -> None:
        if self._unknown == "error":
            return
        for name, size, column in zip(self.domain_.columns, self.domain_.sizes, codes, strict=True):
            if isinstance(self._unknown, dict):
                column[column == size] = self._unknown[name]
            else:
                # Drawn for every row, so that the time does not show how many were unforeseen.
                drawn = uniform_integers(self._coins(call, "unknown", name), size, column.size)
                np.copyto(column, drawn, where=column == size, casting="unsafe")

    def _randomise(self, codes: list[Codes], call: Call) -> list[NDArray[Any]]:
        if self._strategy == "joint":
            codes[:] = [self.domain_.join(codes)]
        reports = []
        for oracle, columns in zip(self.oracles_, self._attributes, strict=True):
            source = self._coins(call, "report", *columns)
            reports.append(oracle.report(codes.pop(0), source))  # the true codes go as the reports come
        return reports

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports.

        Returns
        -------
        list
            A table for each attribute: one for each column, or one for all under "joint". A row a true value, a column
            a report, each entry a Fraction.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.oracles_]


def _plain_values(values: Any) -> Any:
    return (values.edges, values.missing) if isinstance(values, Interval) else values.values
