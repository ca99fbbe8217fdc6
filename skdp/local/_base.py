"""What all local transformers share: reading, charging, randomising and estimating."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import prod
from numbers import Real
from statistics import NormalDist
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp.coding import is_missing
from skdp.domain import Codes, Domain
from skdp.exact import log_upper
from skdp.frames import Table, convert_frame
from skdp.local._coins import CallCounter, check_random_state, coins
from skdp.local._input import declares_missing, read_domain, read_input
from skdp.local._tally import ReportTally
from skdp.oracles import POSTPROCESSORS, FrequencyOracle
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_epsilon
from skdp.randomness import ByteSource, uniform_integers

_STRATEGIES = ("split", "joint")


class LocalTransformer(TransformerMixin, BaseEstimator, ABC):
    """Base of the transformers that privatise each record with frequency oracles.

    The columns form attributes: one for each column (``strategy="split"``, each with an equal share of epsilon), or a
    single one with a value for each cell of the Cartesian product (``"joint"``). A subclass names the oracle, and turns
    its reports into columns and back.
    """

    epsilon: Any
    strategy: Any
    categories: Any
    handle_unknown: Any
    ledger: Any
    random_state: Any

    _mechanism: str

    @abstractmethod
    def _make_oracle(self, k: int, epsilon: Fraction) -> FrequencyOracle: ...

    @abstractmethod
    def _writer(self, table: Table) -> Callable[[list[NDArray[Any]]], Any]:
        """Prepare to write reports into a table like the given one; whatever cannot be written fails here."""

    @abstractmethod
    def _read_reports(self, reports: Any) -> list[NDArray[Any]]: ...

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
            The fitted transformer.

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
        domain = read_domain(table, self.categories)
        for name, size in zip(domain.columns, domain.sizes, strict=True):
            if size < 2:
                raise ValueError(
                    f"column {name!r} has one category, so there is nothing to hide or to learn (more than one sample "
                    "is needed to read categories from the data); drop the column or declare its other categories"
                )
        self._unknown_codes(domain)
        # Everything is checked before the first attribute is set.
        attributes = [domain.columns] if self.strategy == "joint" else [(name,) for name in domain.columns]
        sizes = [domain.select(columns).size for columns in attributes]
        if max(sizes) >= 1 << 32:
            raise ValueError(f"{max(sizes):,} joint cells are too many; use strategy='split', or fewer columns")
        oracles = tuple(self._make_oracle(k, epsilon / len(attributes)) for k in sizes)
        self.domain_ = domain
        self.categories_ = [np.array(domain[name].labels, dtype=object) for name in domain.columns]
        self.oracles_ = oracles
        self.guarantee_ = PrivacyGuarantee(
            log_upper(prod((oracle.worst_ratio for oracle in oracles), start=Fraction(1))),
            scope=domain.columns,
            mechanism=self._mechanism,
            secure=self.random_state is None,
        )
        # As they were at `fit`: parameters that are set later must not change what `guarantee_` says.
        self._attributes = attributes
        self._joint = self.strategy == "joint"
        self._unknown = self._unknown_codes(domain)
        self._seed = self.random_state
        self._ledger = self.ledger
        self._calls = CallCounter()
        return self

    def _check_parameters(self) -> Fraction:
        epsilon = check_epsilon(self.epsilon)
        if self.strategy not in _STRATEGIES:
            raise ValueError(f"strategy must be one of {_STRATEGIES}, got {self.strategy!r}")
        if self.ledger is not None and not isinstance(self.ledger, PrivacyLedger):
            raise TypeError(f"ledger must be None or a PrivacyLedger, got {type(self.ledger).__name__}")
        check_random_state(self.random_state)
        return epsilon

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

    def transform(self, X: Any) -> Any:
        """Privatise a table: a new release with fresh coins at every call.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values, in the columns of `fit`.

        Returns
        -------
        same kind as X
            The privatised columns, with the row index of X.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or holds undeclared values under ``handle_unknown="error"``.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        check_is_fitted(self)
        table = read_input(self, X, reset=False)
        codes = self._encode(table)
        write = self._writer(table)
        if self._ledger is not None:
            self._ledger.charge(self.guarantee_, type(self).__name__)
        call = self._calls.advance()
        self._fill_unknown(codes, call)
        released = write(self._randomise(codes, call))
        # scikit-learn's own conversion after `set_output` knows arrays and pandas, not polars -> pandas or pyarrow.
        config = getattr(self, "_sklearn_output_config", {})
        return convert_frame(released, config.get("transform", get_config()["transform_output"]))

    def _encode(self, table: Table) -> list[Codes]:
        """Code the columns; under ``handle_unknown="error"`` every code is then a declared one."""
        self._check_names(table)
        codes = self.domain_.encode(table.columns)
        if self._unknown == "error":
            self._refuse_undeclared(codes, "Declare it, or set handle_unknown='uniform'.")
        return codes

    def _check_names(self, table: Table) -> None:
        # scikit-learn compares names only where all of them are strings.
        named = not isinstance(table.native, np.ndarray) and hasattr(self, "feature_names_in_")
        if (named or not all(isinstance(name, str) for name in self.domain_.columns)) and (
            table.names != self.domain_.columns
        ):
            raise ValueError(f"X has the columns {list(table.names)}; fit saw {list(self.domain_.columns)}")

    def _refuse_undeclared(self, codes: list[Codes], advice: str) -> None:
        for name, size, column in zip(self.domain_.columns, self.domain_.sizes, codes, strict=True):
            if column.max(initial=0) == size:
                raise ValueError(
                    f"column {name!r} holds a value, or a NaN or inf, outside the declared categories. {advice}"
                )

    def _fill_unknown(self, codes: list[Codes], call: int) -> None:
        if self._unknown == "error":
            return
        for name, size, column in zip(self.domain_.columns, self.domain_.sizes, codes, strict=True):
            if isinstance(self._unknown, dict):
                column[column == size] = self._unknown[name]
            else:
                # Drawn for every row, so that the time does not show how many were unforeseen.
                drawn = uniform_integers(self._coins(call, "unknown", name), size, column.size)
                np.copyto(column, drawn, where=column == size, casting="unsafe")

    def _coins(self, call: int, purpose: str, *columns: Any) -> ByteSource:
        return coins(self._seed, type(self).__name__, call, purpose, *columns)

    def _randomise(self, codes: list[Codes], call: int) -> list[NDArray[Any]]:
        if self._joint:
            codes[:] = [self.domain_.join(codes)]
        reports = []
        for oracle, columns in zip(self.oracles_, self._attributes, strict=True):
            source = self._coins(call, "report", *columns)
            reports.append(oracle.report(codes.pop(0), source))  # the true codes go as the reports come
        return reports

    def tally(self, reports: Any) -> ReportTally:
        """Sum up reports: how many support each value.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows.

        Returns
        -------
        ReportTally
            The sums; tallies of several batches add.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the reports have other columns or values than this encoder's.

        Notes
        -----
        **Privacy.** Post-processing of reports: free.
        """
        check_is_fitted(self)
        codes = self._read_reports(reports)
        support = tuple(oracle.tally(code) for oracle, code in zip(self.oracles_, codes, strict=True))
        return ReportTally(support, len(codes[0]), self.domain_, self._protocol())

    def _protocol(self) -> tuple[Any, ...]:
        return (type(self).__name__, self._joint, *((oracle.p, oracle.q) for oracle in self.oracles_))

    def estimate_counts(
        self, reports: Any, *, postprocess: str = "none", confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate how many records truly have each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        postprocess : {"none", "clip", "simplex", "mle"}, default="none"
            ``"none"``: unbiased, possibly negative. ``"clip"``: the unbiased estimate clipped to [0, n]; biased, and
            the counts no longer add up to n. ``"simplex"``: the nearest counts that are not negative and add up to n
            (norm-sub). ``"mle"``: the likeliest counts.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by value for one column, by (column, value) under "split", and
            by the values of all columns under "joint". The standard error is that of the unbiased estimate (a plug-in
            of its variance), and so is the interval (normal approximation); with a postprocess, the interval is cut to
            [0, n], where the truth lies.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(reports, postprocess, confidence_level, "count")

    def estimate_frequencies(
        self, reports: Any, *, postprocess: str = "none", confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate which share of the records truly has each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        postprocess : {"none", "clip", "simplex", "mle"}, default="none"
            As for `estimate_counts`.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, indexed as by `estimate_counts`, whose values these are, divided by
            the number of reports.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(reports, postprocess, confidence_level, "frequency")

    def _estimate(self, reports: Any, postprocess: str, confidence_level: float, what: str) -> pd.DataFrame:
        check_is_fitted(self)
        if not isinstance(postprocess, str) or postprocess not in POSTPROCESSORS:
            raise ValueError(f"postprocess must be one of {tuple(POSTPROCESSORS)}, got {postprocess!r}")
        if not isinstance(confidence_level, Real) or isinstance(confidence_level, bool) or not 0 < confidence_level < 1:
            raise ValueError(f"confidence_level must be a number between 0 and 1, got {confidence_level!r}")
        tally = reports if isinstance(reports, ReportTally) else self.tally(reports)
        if tally.domain != self.domain_ or tally.protocol != self._protocol():
            raise ValueError("the tally comes from an encoder with different parameters or another domain")
        n, pairs = tally.n_reports, list(zip(self.oracles_, tally.support, strict=True))
        unbiased = np.concatenate([oracle.estimate(support, n) for oracle, support in pairs])
        counts = np.concatenate([POSTPROCESSORS[postprocess](oracle, support, n) for oracle, support in pairs])
        std_error = np.sqrt(self._variances(unbiased, n))
        reach = NormalDist().inv_cdf((1 + confidence_level) / 2) * std_error
        lower, upper = np.nan_to_num(unbiased) - reach, np.nan_to_num(unbiased) + reach
        if postprocess != "none":
            lower, upper = np.clip(lower, 0, n), np.clip(upper, 0, n)
        scale = n if what == "frequency" else 1
        table = {what: counts, "std_error": std_error, "lower": lower, "upper": upper}
        return pd.DataFrame({name: values / scale for name, values in table.items()}, index=self._cells())

    def _cells(self) -> pd.Index:
        if self._joint or len(self.domain_.columns) == 1:
            return self.domain_.cells()
        pairs = [(name, label) for name in self.domain_.columns for label in self.domain_[name].labels]
        return pd.MultiIndex.from_tuples(pairs, names=["column", "category"])

    def _variances(self, counts: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        ends = np.cumsum([oracle.k for oracle in self.oracles_])
        parts = np.split(counts, ends[:-1])
        return np.concatenate([oracle.variance(part, n) for oracle, part in zip(self.oracles_, parts, strict=True)])

    def count_variances(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Return the exact variances of the unbiased counts if the true counts are given ones.

        Parameters
        ----------
        counts : array-like of shape (n_cells,)
            True counts, in the order of the rows of `estimate_counts`.

        Returns
        -------
        ndarray of shape (n_cells,)
            ``(c p (1 - p) + (n - c) q (1 - q)) / (p - q)**2`` for a cell of c records out of n.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the counts are of another number than the cells, negative, or do not add up to the same n in each column.
        """
        check_is_fitted(self)
        given = np.asarray(counts, float)
        n_cells = sum(oracle.k for oracle in self.oracles_)
        if given.shape != (n_cells,):
            raise ValueError(f"counts must have shape ({n_cells},), got {given.shape}")
        totals = [part.sum() for part in np.split(given, np.cumsum([oracle.k for oracle in self.oracles_])[:-1])]
        if (given < 0).any() or not np.allclose(totals, totals[0]):
            raise ValueError("counts must be at least 0 and add up to the same number in each column")
        return self._variances(given, totals[0])

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports.

        Returns
        -------
        list
            A table for each column ("split"), or one for all ("joint"): a row a true value, a column a report, each
            entry a Fraction.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.oracles_]
