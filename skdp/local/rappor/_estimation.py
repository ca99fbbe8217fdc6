"""What a server does with RAPPOR reports: sum them up, and count candidate values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.coding import ColumnError
from skdp.local._report_columns import read_report_table
from skdp.local._tallies import RapporTally
from skdp.local.memo import to_bytes
from skdp.local.rappor._decoding import METHODS, decode_counts
from skdp.oracles import BloomRandomizer, check_bits


def count_ones(cohorts: NDArray[Any], bits: NDArray[np.bool_], n_cohorts: int) -> NDArray[np.int64]:
    """Count the ones of each bit in each cohort."""
    rows = np.split(np.argsort(cohorts, kind="stable"), np.cumsum(np.bincount(cohorts, minlength=n_cohorts))[:-1])
    return np.array([bits[part].sum(axis=0, dtype=np.int64) for part in rows])


class RapporEstimation:
    """The server's methods of `RapporEncoder`."""

    randomizer_: BloomRandomizer
    _columns: tuple[Any, ...]
    _names: list[str]
    _missing: bool

    def _protocol(self) -> tuple[str, ...]:
        """Say which permanent coins are meant: the same ones must never flip the bits of two different filters."""
        rappor = self.randomizer_
        return tuple(map(str, (rappor.n_bits, rappor.n_hashes, rappor.n_cohorts, rappor.flip)))

    def _meaning(self) -> dict[str, Any]:
        """Return what client and server must agree on."""
        rappor = self.randomizer_
        return {
            "encoder": "RapporEncoder",
            "columns": list(self._columns),
            "n_bits": rappor.n_bits,
            "n_hashes": rappor.n_hashes,
            "n_cohorts": rappor.n_cohorts,
            "flip": rappor.flip,
            "heads": list(rappor.heads),
        }

    def tally(self, reports: Any) -> RapporTally:
        """Sum up reports: how many have a 1 in each bit, by cohort.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows.

        Returns
        -------
        RapporTally
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
        table = read_report_table(reports, self._names)
        rappor, columns = self.randomizer_, [np.asarray(column) for column in table.columns]
        cohorts = columns[0]
        fitting = cohorts.dtype.kind in "iuf" and bool(((cohorts >= 0) & (cohorts < rappor.n_cohorts)).all())
        if not fitting or (cohorts.dtype.kind == "f" and bool((cohorts % 1).any())):
            raise ValueError(f"the cohorts of the reports must be integers from 0 to {rappor.n_cohorts - 1}")
        cohorts = cohorts.astype(np.intp)
        ones = []
        for start in range(1, len(columns), rappor.n_bits):
            bits = check_bits(np.column_stack(columns[start : start + rappor.n_bits]), rappor.n_bits)
            ones.append(count_ones(cohorts, bits, rappor.n_cohorts))
        sizes = np.bincount(cohorts, minlength=rappor.n_cohorts)
        return RapporTally(np.array(ones), sizes, self._meaning())

    def _empty_tally(self) -> RapporTally:
        rappor, n_columns = self.randomizer_, len(self._columns)
        ones = np.zeros((n_columns, rappor.n_cohorts, rappor.n_bits), np.int64)
        return RapporTally(ones, np.zeros(rappor.n_cohorts, np.int64), self._meaning())

    def decode(self, reports: Any, candidates: Any, *, method: str = "nnls") -> pd.DataFrame:
        """Estimate how many records truly have each candidate value.

        The counts of ones, freed of the expected noise, are regressed on the filters of the candidates (a row a bit of
        a cohort), together with a constant part for all values that are no candidates.

        Parameters
        ----------
        reports : what `transform` returns, or RapporTally
            Privatised rows, one a record, or their sums.
        candidates : list, or mapping of column to list
            The values to count; a mapping if there are several columns.
        method : {"nnls", "lasso", "least_squares"}, default="nnls"
            ``"nnls"``: least squares with counts that are not negative. ``"lasso"``: a lasso with counts that are not
            negative chooses the candidates that occur, and "nnls" counts these; for long lists, also longer than there
            are bits. ``"least_squares"``: unbiased, possibly negative.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error``, indexed by candidate for one column, by (column, candidate) for several. The standard
            error is that of unconstrained least squares on the candidates that are counted: of the coins of both
            rounds, and of the cohorts that the records of each candidate happen to be in. It is nan for a candidate
            that the lasso did not choose, and for all if the bits do not tell them apart. It does not include how
            values outside the list collide with candidates: of 8 cohorts, one unlisted value that half of 300,000
            records have makes the errors 2.7 times the stated ones. List every frequent value.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the reports come from another encoder, a candidate is repeated or of a kind that cannot be reported, or
            "least_squares" cannot tell the candidates apart.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable with other candidates.

        Records that report several times in `reports` count as many, and the errors are then too small, since the
        permanent coins are the same.
        """
        check_is_fitted(self)
        if not isinstance(method, str) or method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}")
        lists = candidates if isinstance(candidates, Mapping) else {self._columns[0]: candidates}
        if set(lists) - set(self._columns) or (len(self._columns) > 1 and not isinstance(candidates, Mapping)):
            raise ValueError(f"candidates must be a mapping of columns to lists; the columns are {list(self._columns)}")
        written = {name: self._candidates(name, values) for name, values in lists.items()}
        tally = reports if isinstance(reports, RapporTally) else self.tally(reports)
        if tally.protocol != self._meaning():
            raise ValueError("the tally comes from an encoder with different parameters or columns")
        found = [
            decode_counts(self.randomizer_, tally.ones[self._columns.index(name)], tally.cohort_sizes, values, method)
            for name, values in written.items()
        ]
        index = pd.Index([value for values in lists.values() for value in values], dtype=object, name="candidate")
        if len(self._columns) > 1:
            pairs = [(name, value) for name, values in lists.items() for value in values]
            index = pd.MultiIndex.from_tuples(pairs, names=["column", "candidate"])
        counts, errors = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return pd.DataFrame({"count": counts, "std_error": errors}, index=index)

    def _candidates(self, name: Any, values: Any) -> list[bytes]:
        if isinstance(values, str) or not np.iterable(values):
            raise TypeError(f"candidates of column {name!r} must be a list, got {type(values).__name__}")
        try:
            written = to_bytes(list(values), missing=self._missing)
        except ColumnError as error:
            raise ValueError(f"the list of candidates of column {name!r} {error}") from None
        if not written or len({*written}) < len(written):
            raise ValueError(f"candidates of column {name!r} must be different values, at least one")
        return written
