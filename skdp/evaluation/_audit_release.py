"""What is audited, as a function from a table to its release, with what is promised."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdp.evaluation._audit_hashes import hash_cells
from skdp.evaluation._audit_outputs import Outputs, read_call, read_rows, stack_calls
from skdp.evaluation._audit_records import count_rows, make_records, repeat
from skdp.oracles import CountMeanSketch, LocalHashing

_MOST_SUPPORTED = 64
_CELLS = 1 << 22
"""Cells of a batch of rows."""


@dataclass
class Audited:  # numpydoc ignore=PR02
    """Something that is audited.

    Parameters
    ----------
    release : callable
        From a table, and record ids or None, to what is released.
    tables : list
        Neighbours, any two of them.
    each_row : bool
        Whether a table of m equal rows is m draws.
    fitted : object, optional
        The fitted transformer.
    keyed : bool, default=False
        Whether the release takes record ids.
    n_reports : int, default=1
        How often each record reports.
    statistic : callable, optional
        From a release to further columns of it.
    """

    release: Callable[..., Any]
    tables: list[Any]
    each_row: bool
    fitted: Any = None
    keyed: bool = False
    n_reports: int = 1
    statistic: Callable[[Any], Any] | None = None
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def _reports(self, table: Any) -> list[Any]:
        """Release a table as often as each record reports, under record ids that are new."""
        if not self.keyed:
            return [self.release(table) for _ in range(self.n_reports)]
        ids = [f"record {next(self._ids)}" for _ in range(count_rows(table))]
        return [self.release(table, record_id=ids) for _ in range(self.n_reports)]

    def rows(self, which: int, n: int) -> Outputs:
        """Draw outputs by releasing one table of equal rows.

        Parameters
        ----------
        which : int
            The number of the table.
        n : int
            How many.

        Returns
        -------
        dict of str to ndarray of shape (n,)
            The columns of the outputs.
        """
        outputs: Outputs = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # single calls look at them
            for turn, report in enumerate(self._reports(repeat(self.tables[which], n))):
                columns = read_rows(report, n)
                columns |= _supports(self.fitted, columns)
                if self.statistic is not None:
                    columns |= {f"statistic, {name}": c for name, c in read_rows(self.statistic(report), n).items()}
                outputs |= columns if self.n_reports == 1 else {f"report {turn}, {k}": c for k, c in columns.items()}
        return outputs

    def calls(self, which: int, n: int) -> list[dict[str, Any]]:
        """Draw outputs by releasing the table again and again, and look at all that can be seen.

        Parameters
        ----------
        which : int
            The number of the table.
        n : int
            How many.

        Returns
        -------
        list of dict
            What was seen of each.
        """
        return [read_call(lambda: self._seen(self.tables[which])) for _ in range(n)]

    def _seen(self, table: Any) -> Any:
        reports = self._reports(table)
        if self.statistic is not None:
            reports += [self.statistic(report) for report in reports]
        return reports[0] if len(reports) == 1 else reports

    def batches(self, which: int, n: int, *, width: int) -> Iterator[tuple[int, Outputs | None]]:
        """Draw many outputs by rows, some at a time.

        Parameters
        ----------
        which : int
            The number of the table.
        n : int
            How many.
        width : int
            The number of columns of the outputs.

        Yields
        ------
        size : int
            How many rows there are.
        outputs : dict or None
            The outputs; None if the release failed.
        """
        most = max(1000, _CELLS // width)
        while n > 0:
            size = min(n, most)
            try:
                outputs = self.rows(which, size)
            except Exception:
                yield size, None
            else:
                yield size, outputs
            n -= size

    def call_batch(self, which: int, n: int) -> Outputs:
        """Draw outputs by single calls, as columns.

        Parameters
        ----------
        which : int
            The number of the table.
        n : int
            How many.

        Returns
        -------
        dict of str to ndarray of shape (n,)
            The columns.
        """
        return stack_calls(self.calls(which, n))


def _supports(fitted: Any, columns: Outputs) -> Outputs:
    """Add which values each hashed report supports: the seed is public, and new in each report."""
    added: Outputs = {}
    oracles = getattr(fitted, "oracles_", ())
    if not any(isinstance(oracle, LocalHashing | CountMeanSketch) for oracle in oracles):
        return added
    arrays, place = list(columns.values()), 0
    for number, oracle in enumerate(oracles):
        width = oracle.width
        if isinstance(oracle, LocalHashing | CountMeanSketch):
            reports = np.column_stack([array.astype(np.uint64) for array in arrays[place : place + width]])
            for value, supported in enumerate(oracle.supports(reports)[:, :_MOST_SUPPORTED].T):
                added[f"support of value {value} by attribute {number}"] = supported
        place += width
    return added


def of_transformer(
    estimator: Any,
    neighbours: Any,
    *,
    n_reports: int | None,
    statistic: Callable[[Any], Any] | None,
    random_state: int | None,
) -> Audited:
    """Make a transformer ready: fitted on public tables, and without its ledger.

    Parameters
    ----------
    estimator : local transformer
        Fitted or not; it is not changed.
    neighbours : pair of tables or None
        As for `audit_epsilon`.
    n_reports : int or None
        How often each record reports; None for 4 if the reports are memoised, and otherwise 1.
    statistic : callable or None
        As for `audit_epsilon`.
    random_state : int or None
        A seed for the coins of the transformer.

    Returns
    -------
    Audited
        What is audited.
    """
    tables = make_records(estimator) if neighbours is None else list(neighbours)
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    changes: dict[str, Any] = {"ledger": None} if parameters.get("ledger") is not None else {}
    if random_state is not None and "random_state" in parameters:
        changes["random_state"] = random_state
    if neighbours is None and hasattr(estimator, "domain_"):
        changes["categories"] = {name: estimator.domain_[name] for name in estimator.domain_.columns}
    if not changes and neighbours is not None and _is_fitted(estimator):
        fitted = copy.deepcopy(estimator)  # its coins do not advance
    else:
        fitted = clone(estimator).set_params(**changes)
        if hasattr(fitted, "transform"):
            fitted.fit(tables[0])
    keyed = parameters.get("secret_key") is not None
    return Audited(
        fitted.transform if hasattr(fitted, "transform") else fitted.report,
        tables,
        each_row=all(count_rows(table) == 1 for table in tables),
        fitted=fitted,
        keyed=keyed,
        n_reports=n_reports or (4 if keyed else 1),
        statistic=statistic,
    )


def _is_fitted(estimator: Any) -> bool:
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def claim_of(audited: Audited) -> tuple[float, float]:
    """Return what is promised.

    Parameters
    ----------
    audited : Audited
        A transformer.

    Returns
    -------
    tuple of float
        Epsilon and delta of all reports of a record together.

    Raises
    ------
    ValueError
        If it has no `guarantee_`.
    """
    guarantee = getattr(audited.fitted, "guarantee_", None)
    if guarantee is None:
        raise ValueError("give the epsilon that is claimed: there is no guarantee_ to read it from")
    times = 1 if audited.keyed else audited.n_reports
    return float(Fraction(guarantee.epsilon) * times), float(guarantee.delta) * times


def seed_shows(estimator: Any, audited: Audited, *, rows: int = 64) -> bool:
    """Say whether whoever knows the seed can tell two records apart by a single release.

    Parameters
    ----------
    estimator : local transformer
        With a seed.
    audited : Audited
        The same, ready.
    rows : int, default=64
        Equal rows of the release.

    Returns
    -------
    bool
        True if the same seed gives the same release of the same table, and another one of its neighbour.
    """
    if not (hasattr(estimator, "transform") and hasattr(estimator, "get_params")) or audited.keyed:
        return False
    seen = []
    for which in (0, 0, 1):
        again = clone(estimator).set_params(ledger=None) if "ledger" in estimator.get_params() else clone(estimator)
        if hasattr(audited.fitted, "domain_"):
            domain = audited.fitted.domain_
            again.set_params(categories={name: domain[name] for name in domain.columns})
        released = again.fit(audited.tables[0]).transform(repeat(audited.tables[which], rows))
        seen.append(b"".join(hash_cells(column).tobytes() for column in read_rows(released, rows).values()))
    return seen[0] == seen[1] != seen[2]
