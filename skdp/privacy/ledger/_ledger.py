"""A budget to which each release is charged before its noise is drawn, also in blocks of parts of the rows."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp.markup import html_table, html_text, written_row, written_text
from skdp.privacy._conversions import shown
from skdp.privacy._guarantee import PrivacyGuarantee, Relation, compose, read_releases
from skdp.privacy._json import Fields, JsonRecord
from skdp.privacy.ledger._account import (
    NOTHING,
    Account,
    Budget,
    Charge,
    Plan,
    Sums,
    as_decimal,
    read_amounts,
    rounded_up,
)
from skdp.privacy.ledger._book import FileBook, MemoryBook, RecordBook, closed_book

# Proof. Let x and x' differ in the record at a position i, as "replace" has it. A
# release from rows without i is the same function of the same values in both, given all
# earlier results: it has no part in the loss between x and x'. So their loss is that of
# an adaptive composition of the other releases: those outside of the block, and those
# from rows with i. These never add up to more than the sums of the ledger, to which a
# block adds, in each sum, the largest over all positions. So the rule of the ledger,
# which holds for every adaptive composition whose sums are within the budget
# (`_account`), holds for x and x'; and i is any position. Which rows are next may follow
# from earlier results, just as which release is next; but not from private values, which
# differ between x and x'.
#
# With "add_remove", positions say nothing: a record that is added moves others, also
# into other parts. The rows of a person may be in several parts, where a release for
# persons loses as much in each.


Positions = NDArray[np.intp]

# For the memory that positions take: 16 GB.
_MOST_ROWS = 1 << 31


@dataclass(frozen=True, eq=False)
class RowSums:
    """The sums over the charges that each row is in."""

    # Of each row, the index of its sums. Rows beyond are in group 0.
    groups: Positions
    sums: tuple[Sums, ...] = (NOTHING,)
    # Of each sum, the largest over all rows.
    largest: Sums = NOTHING

    @classmethod
    def of_no_charge(cls) -> Self:
        """Return the sums before the first charge."""
        return cls(np.zeros(0, np.intp))

    def after(self, positions: Positions, charge_sums: Sums) -> RowSums:
        """Return the sums after one more charge, for some rows."""
        if positions.size == 0:
            return self
        n_rows = max(self.groups.size, int(positions.max()) + 1)
        groups = np.zeros(n_rows, np.intp)
        groups[: self.groups.size] = self.groups
        # Rows of equal sums are a group, however they came to it: there are few, also
        # of many folds.
        indices = {sums: index for index, sums in enumerate(self.sums)}
        new_groups = np.zeros(len(self.sums), np.intp)
        largest = self.largest
        for group in np.unique(groups[positions]).tolist():
            sums = self.sums[group].plus(charge_sums)
            new_groups[group] = indices.setdefault(sums, len(indices))
            largest = largest.larger(sums)
        groups[positions] = new_groups[groups[positions]]
        return RowSums(groups, tuple(indices), largest)

    def charge_of(self, charge: Charge, row_sums: RowSums, n_rows: int) -> Charge:
        """Return a charge of what these largest sums exceed those of `row_sums` by."""
        excess = self.largest.minus(row_sums.largest)
        # In the decimals of floats, as all charges.
        excess = excess._replace(
            epsilon=as_decimal(rounded_up(excess.epsilon)),
            delta=as_decimal(rounded_up(excess.delta)),
        )
        what = f"{charge.what} of {n_rows:,} rows"
        return replace(charge, what=what, sums=excess, of_part=True)


class ParallelRows:
    """A block of releases from parts of the rows, of one ledger."""

    def __init__(self, book: MemoryBook | FileBook) -> None:
        if isinstance(book, RecordBook) or isinstance(book.account(), Plan):
            raise TypeError(
                "parallel is of a ledger with a budget of its own, not of a plan or a "
                "record"
            )
        if book.account().lasting_relation == "replace_values":
            raise ValueError(
                "parallel needs a ledger for replacing a record, made with "
                "relation='replace'; this one is for the values of named columns"
            )
        if book.account().lasting_relation == "add_remove":
            raise ValueError(
                "parallel needs a ledger for replacing a record: with "
                "relation='add_remove', one more record moves the positions of others, "
                "and so their parts. Make it with relation='replace', for which central "
                "releases count twice"
            )
        self._book = book
        self._sums = RowSums.of_no_charge()
        self._open_rows: OpenRows | None = None
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._has_ended = False

    def __enter__(self) -> Self:
        return self

    def __reduce__(self) -> Any:
        # Copies would count the same rows by themselves, and charge each time what is
        # beyond the same sums.
        raise TypeError(
            "a block of parallel releases cannot be copied or pickled: its rows are "
            "counted once"
        )

    def __exit__(self, *error: object) -> None:
        self._has_ended = True

    @contextmanager
    def rows(self, positions: ArrayLike) -> Iterator[None]:
        """Charge what is released inside for some rows only."""
        # A generator that yields inside leaves the rows open for its caller: its
        # charges count for these rows, too.
        rows = OpenRows(self, _read_positions(positions))
        self._check_process()
        with self._lock:
            self._check_open()
            # Here, those of any block; of other threads, those of this one.
            if open_rows(self._book) is not None or self._open_rows is not None:
                raise RuntimeError(
                    "other rows are open for this ledger: what is released inside is "
                    "of one part"
                )
            self._open_rows = rows
        token = _open.set((*_open.get(), rows))
        try:
            yield
        finally:
            _open.reset(token)
            self._open_rows = None

    def _check_process(self) -> None:
        """Refuse in another process, before its copy of the lock, which may be taken."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "a block of parallel releases belongs to the process that opened it, "
                "and nothing was released: open one in each process"
            )

    def _check_open(self) -> None:
        if self._has_ended:
            raise RuntimeError(
                "this block of parallel releases has ended, and nothing was released"
            )

    @contextmanager
    def _turn(self, rows: OpenRows, guarantee: PrivacyGuarantee, what: str) -> Any:
        """Let no other thread charge for this block, and check that rows are open."""
        self._check_process()
        with self._lock:
            self._check_open()
            # Of a thread that outlived them.
            if self._open_rows is not rows:
                raise RuntimeError(
                    "the rows of this release are not open any more, and nothing was "
                    "released"
                )
            if not guarantee._is_for_records:
                raise ValueError(
                    f"{what} is for {guarantee._unit}, which may be in several parts: "
                    "charge it outside of parallel(), and nothing was released"
                )
            yield


@dataclass(frozen=True, eq=False)
class OpenRows:
    """The rows of a block for which charges are made now."""

    block: ParallelRows
    positions: Positions

    def check(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Refuse a release that the budget does not cover."""
        with self.block._turn(self, guarantee, what):
            account = self.block._book.account()
            charge, _ = self._charge_of(account, guarantee, what)
            account.admit(charge)

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Charge a release."""
        block = self.block
        with (
            block._turn(self, guarantee, what),
            block._book.opened() as account,
        ):
            charge, row_sums = self._charge_of(account, guarantee, what)
            block._book.append(charge)
            # If an interrupt comes between, the ledger was charged for what is not
            # counted here: never the other way.
            block._sums = row_sums

    def _charge_of(
        self, account: Account, guarantee: PrivacyGuarantee, what: str
    ) -> tuple[Charge, RowSums]:
        charge = account.charge_of(what, guarantee, "replace")
        row_sums = self.block._sums.after(self.positions, charge.sums)
        n_rows = self.positions.size
        return row_sums.charge_of(charge, self.block._sums, n_rows), row_sums

    def check_n_rows(self, what: str, n_rows: int | None) -> None:
        """Refuse a release from another number of rows."""
        # The number of rows is public where a record is replaced.
        n_positions = self.positions.size
        if n_rows is None:
            raise ValueError(
                f"{what} does not know its number of rows before the charge, so that it "
                f"cannot be compared with the {n_positions:,} positions of "
                "parts.rows(): release it outside of them, for all rows. Nothing was "
                "released"
            )
        if n_rows != n_positions:
            raise ValueError(
                f"{what} was given {n_rows:,} rows, but parts.rows() names "
                f"{n_positions:,} positions: give it exactly the rows at these "
                "positions. Nothing was released"
            )


def _read_positions(positions: ArrayLike) -> Positions:
    array = np.asarray(positions)
    rule = "positions must be whole numbers, or a bool for each row"
    # NumPy makes 1 of True, which would be the second row.
    if isinstance(positions, list | tuple) and {bool, int} <= set(map(type, positions)):
        raise TypeError(f"{rule}, got both")
    if array.size == 0:
        array = array.astype(np.intp)
    if array.ndim != 1 or array.dtype.kind not in "biu":
        raise TypeError(f"{rule}, got {array.ndim} dimensions of {array.dtype}")
    if array.dtype.kind == "b":
        return np.flatnonzero(array)
    if array.size and not (array.min() >= 0 and array.max() < _MOST_ROWS):
        raise ValueError(f"positions must be from 0 to {_MOST_ROWS:,}")
    if np.unique(array).size < array.size:
        raise ValueError(
            "positions must be different: a row that is there twice counts twice in "
            "what is released"
        )
    return array.astype(np.intp)


# Those of this thread and context. Elsewhere, charges are for all rows.
_open: ContextVar[tuple[OpenRows, ...]] = ContextVar("skdp_parallel_rows", default=())


def open_rows(book: Any) -> OpenRows | None:
    """Return the rows for which a ledger is charged here, None for all rows."""
    for rows in _open.get():
        if rows.block._book is book:
            return rows
    return None


class Amount(NamedTuple):
    """A part of a budget."""

    epsilon: float
    delta: float


class PrivacyLedger(JsonRecord):
    """Account for all releases about the same persons, and refuse those that exceed the budget.

    Parameters
    ----------
    path : str or path, optional
        A file on a local disk, which several processes may use at the same time. It is created if it does not exist
        and `epsilon` is given. Symbolic links are resolved. By default the ledger is in memory.
    epsilon : float, optional
        The budget of privacy loss, finite and > 0. Omit the budget if the file exists (see Notes).
    delta : float, default=0.0
        The budget of failure probability, in [0, 1), with `epsilon`.
    rho : float, optional
        The budget of zero-concentrated privacy loss, > 0, in place of epsilon and delta.
    mu : float, optional
        The budget of Gaussian privacy loss, > 0, in place of epsilon and delta.
    relation : {"replace", "add_remove", "replace_values"}, optional
        The neighbouring relation of the budget; by default "add_remove" until the first charge for replacing a record,
        and "replace" from then on.
    columns : sequence of str, optional
        The protected columns, with ``relation="replace_values"``, and what determines them: a ledger sees no table.

    Attributes
    ----------
    epsilon, delta, rho, mu : float or None
        The budget. Attributes are read-only.
    relation : {"replace", "add_remove", "replace_values"} or None
        The neighbouring relation, None before the first charge if it was not given.
    columns : tuple of str or None
        The protected columns of "replace_values", None for whole records.
    path : Path or None
        The file.
    spent : named tuple of float
        The sums of the epsilons and deltas that were charged so far. `balance` has those of a budget of rho or mu.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the file is not a ledger, has another budget, has several names (hard links),
        or was modified.
    OSError
        If the file or its folder does not exist, or cannot be written.

    Notes
    -----
    **Privacy.** A ledger is a filter: all charges together keep the budget, even if later ones, their number and their
    sizes were chosen after seeing earlier releases. A charge is made before any noise is drawn and is never refunded,
    even if the release fails. Sums are exact in the decimals of the charges, so three charges of 0.1 fit into 0.3.

    - ``epsilon, delta``: epsilons and deltas add up (basic composition).
    - ``rho``: rhos add up ([1]_, [2]_), for `zcdp_epsilon`; one without has epsilon**2 / 2, or less by its losses.
    - ``mu``: the squares of mu add up ([3]_), for `gaussian_delta`; a charge of epsilon alone counts as the least mu
      that this implies. Charges with delta > 0 and without a rho or mu are refused.

    The smallest bound of several is in general no filter. For releases that are declared together there is a better
    total, from the distribution of the privacy loss: `plan`. Proofs are in decision 10 of the documentation.

    Add/remove charges are converted for a "replace" budget, the earlier ones too if it was not declared; a "replace"
    charge cannot be made to an add/remove budget that was. Unless it is declared, whether there is a charge for
    replacing a record must not depend on results of earlier releases.

    Charges for records and charges for all rows of a person (``groups`` of `fit`) add up for persons with up to as many
    rows as the charges for records protect: `report` lists the unit of each charge, and `privacy_statement` the unit of
    their sum.

    A budget for whole records never takes a release that protects named columns only, as it may show all others. A
    budget for the values of some columns (``relation="replace_values"``) takes all releases: converted, those for whole
    records count as for replacing a record; and those that protect at least its columns.

    The ledger is one object: clones and copies of an estimator share it, also between threads. In memory it belongs to
    one process: pickled copies and forked processes refuse all charges, so a search with several processes fails rather
    than spend the same budget twice. A signal handler may read a ledger at any time (during a charge, the state before
    it), but cannot charge it then.

    A file may be shared. All its names, such as in a bind mount, are the same ledger: the lock is on the file itself,
    and there are no files beside it. A charge is on the disk before anything is drawn, so a crash leaves no release
    without its charge (but possibly a charge without its release). The file has lines of JSON, each with a hash of
    itself and of the previous line, and a first line that counts them: a line that was changed, moved or removed by
    accident or by hand is an error, and nothing is released. Users who can write to the file can recompute all hashes:
    only those trusted with the data should have write access. A copy of the file is another ledger with the same
    budget. With ``epsilon=``, a file that was lost, or that is looked for in another folder, is silently created again
    with the whole budget; without it, this is an error: give the budget once, and omit it afterwards.

    The time of a charge does not depend on the number of charges before; opening a file reads all of them.

    `to_json` writes a record of the budget and all charges, without the path. `from_json` makes a ledger of it that can
    only be read: another one that could be charged would spend the same budget twice.

    A search or a cross-validation charges each fit, and each `transform` that is a release. scikit-learn turns a
    `BudgetExceeded` into a score of NaN with a warning, unless ``error_score="raise"`` is set. Releases from parts of
    the rows, such as folds, cost less in a loop of one's own: `parallel`.

    References
    ----------
    .. [1] V. Feldman, T. Zrnic (2021). Individual privacy accounting via a Rényi filter. NeurIPS.
    .. [2] J. Whitehouse, A. Ramdas, R. Rogers, Z. S. Wu (2023). Fully-adaptive composition in differential privacy.
       ICML.
    .. [3] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian differential privacy. arXiv:2210.17520

    Examples
    --------
    >>> ledger = PrivacyLedger(epsilon=0.3)
    >>> for _ in range(3):
    ...     ledger.charge(PrivacyGuarantee(0.1), "RandomizedResponseEncoder")
    >>> ledger.remaining()
    Amount(epsilon=0.0, delta=0.0)
    >>> ledger.charge(PrivacyGuarantee(0.1), "Mean")
    Traceback (most recent call last):
        ...
    skdp.privacy.ledger._account.BudgetExceeded: Mean asks for epsilon 0.1; ...

    A hundred answers of epsilon 0.1, each chosen after the one before, add up to 10; for a delta of 1e-6, a ledger in
    rho admits them within 5.3:

    >>> from skdp.privacy import Rho
    >>> ledger = PrivacyLedger(rho=Rho.of(epsilon=5.3, delta=1e-6).rho)
    >>> for _ in range(100):
    ...     ledger.charge(PrivacyGuarantee(0.1), "answer")
    >>> ledger.remaining().epsilon < 0.2
    True

    In a file:

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     PrivacyLedger(f"{folder}/ledger.jsonl", epsilon=3.0).charge(PrivacyGuarantee(1.0), "survey")
    ...     PrivacyLedger(f"{folder}/ledger.jsonl").remaining()
    Amount(epsilon=2.0, delta=0.0)
    """

    _format: ClassVar[str] = "skdp-ledger"

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        mu: float | None = None,
        relation: Relation | None = None,
        columns: Sequence[Any] | None = None,
    ) -> None:
        budget = None
        has_budget = any(number is not None for number in (epsilon, rho, mu))
        if has_budget:
            budget = Budget.checked(
                epsilon=epsilon,
                delta=delta,
                rho=rho,
                mu=mu,
                relation=relation,
                columns=columns,
            )
        elif delta or relation is not None or columns is not None:
            raise ValueError(
                "delta, relation and columns are given together with the budget, or "
                "left out with it"
            )
        self._book: MemoryBook | FileBook
        if path is not None:
            if not isinstance(path, str | os.PathLike):
                raise TypeError(
                    f"path must be a path, got {type(path).__name__}; the budget is "
                    "epsilon="
                )
            self._book = FileBook(Path(path).resolve(), budget)
        elif budget is not None:
            self._book = MemoryBook(Account.of(budget))
        else:
            raise TypeError("PrivacyLedger needs a budget: epsilon=, rho= or mu=")

    @property
    def epsilon(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of privacy loss."""
        return self._book.budget.epsilon

    @property
    def delta(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of failure probability."""
        return self._book.budget.delta

    @property
    def rho(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of zero-concentrated privacy loss."""
        return self._book.budget.rho

    @property
    def mu(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of Gaussian privacy loss."""
        return self._book.budget.mu

    @property
    def path(self) -> Path | None:  # numpydoc ignore=RT01
        """The file."""
        return self._book.path

    @property
    def relation(self) -> Relation | None:  # numpydoc ignore=RT01
        """The neighbouring relation of the budget, None while it is not fixed."""
        return self._book.account().budget.relation

    @property
    def columns(self) -> tuple[str | int, ...] | None:  # numpydoc ignore=RT01
        """The protected columns, None for whole records."""
        return self._book.budget.protected

    @property
    def spent(self) -> Amount:  # numpydoc ignore=RT01
        """Epsilon and delta spent so far."""
        return Amount(*self._book.account().spent)

    def remaining(self) -> Amount:
        """Return the remaining budget: what one more release without a rho may have.

        Returns
        -------
        Amount
            Named tuple of epsilon and delta.
        """
        return Amount(*self._book.account().largest_charge())

    def balance(self) -> pd.DataFrame:
        """Return the budget, what was spent of it and what remains, in all forms.

        Returns
        -------
        pandas.DataFrame
            Rows ``budget, spent, remaining``; columns ``epsilon, delta, rho, mu``: sums, and the root of that of mu**2.
            What is not limited has a budget of nan, and infinity remains.
        """
        return _balance(self._book.account())

    def report(self) -> pd.DataFrame:
        """List the charges in order.

        Returns
        -------
        pandas.DataFrame
            A row per charge: ``what, epsilon, delta, rho, relation, unit, trust, scope, mechanism, secure, time``; the
            time is in UTC.
        """
        return _table(self._record_book().charges())

    def check(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Refuse a release that the budget does not cover now, without charging it.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            The guarantee of the release.
        what : str
            Its name, for errors.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover it.
        TypeError, ValueError, RuntimeError
            As raised by `charge`.
        """
        _check_release(guarantee, what)
        rows = open_rows(self._book)
        if rows is not None:
            rows.check(guarantee, what)
        else:
            account = self._book.account()
            account.admit(account.charge_of(what, guarantee))

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Charge a release that is about to be made.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            The guarantee of the release.
        what : str
            The name of the release, for the report and for errors.

        Raises
        ------
        TypeError
            If a parameter is of another type.
        BudgetExceeded
            If the budget does not cover it; nothing is charged.
        ValueError
            If its neighbouring relation cannot be converted to that of the ledger (as of a release that protects named
            columns only, by a ledger for whole records), or the file was modified.
        OSError
            If the file cannot be written.
        RuntimeError
            If a ledger in memory is used in another process or through a pickled copy, or if this code interrupts a
            charge, as a signal handler may. As of `parallel`, inside such a block.

        Notes
        -----
        Inside of ``parts.rows`` of `parallel` the charge is for the rows at these positions: nothing says how many rows
        are read, and it is up to the caller that there are no others.
        """
        _check_release(guarantee, what)
        rows = open_rows(self._book)
        if rows is not None:
            rows.charge(guarantee, what)
        else:
            with self._book.opened() as account:
                self._book.append(account.charge_of(what, guarantee))

    def plan(
        self,
        guarantees: Iterable[PrivacyGuarantee],
        what: str,
        *,
        delta: float | Fraction | None = None,
    ) -> PrivacyLedger:
        """Charge a fixed list of releases as one, and return a ledger that admits each of them once.

        Parameters
        ----------
        guarantees : iterable of PrivacyGuarantee
            The guarantee of each release; at least one.
        what : str
            The name of the plan, for the report and for errors.
        delta : float, optional
            The failure probability of all of them together, as of `compose`; by default the sum of their deltas.

        Returns
        -------
        PrivacyLedger
            A ledger in memory for these releases: each charge takes a release of the list with at least its epsilon,
            delta and rho, and the same losses unless the list states none. Others are refused, and so are those that
            promise less than the list says: a wider `trust`, bits of a seed, fewer `max_rows_per_person`, or a `scope`
            that lacks a column of it. Without names, a scope is all columns.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover what `compose` returns; nothing is charged.
        TypeError, ValueError
            As raised by `compose` and `charge`.

        Notes
        -----
        **Privacy.** The list is charged when it is declared, so that its total loss follows from a distribution that is
        fixed in advance, unlike that of charges that are chosen one by one. The releases may be made in any order, also
        between others, and with queries that depend on earlier results. What is not used is not refunded.

        Examples
        --------
        >>> ledger = PrivacyLedger(epsilon=5, delta=1e-6)
        >>> survey = ledger.plan([PrivacyGuarantee(0.1)] * 100, "survey", delta=1e-6)
        >>> survey.charge(PrivacyGuarantee(0.1), "first question")
        >>> round(ledger.spent.epsilon, 2), round(survey.remaining().epsilon, 1)
        (4.77, 9.9)
        """
        if open_rows(self._book) is not None:
            raise RuntimeError(
                "a plan is for all rows, also those of other parts: make it outside of "
                "parallel()"
            )
        releases = read_releases(guarantees)
        plan = Plan.of_releases(releases)
        together = compose(releases, delta=delta)
        # Sums of the decimals of all releases may be smaller than those of floats.
        epsilon_sum = plan.budget.epsilon or 0.0
        delta_sum = plan.budget.delta or 0.0
        if delta is None:
            together = replace(together, delta=min(delta_sum, together.delta))
        if epsilon_sum <= together.epsilon and delta_sum <= together.delta:
            together = replace(together, epsilon=epsilon_sum, delta=delta_sum)
        self.charge(together, what)
        return PrivacyLedger._of_book(MemoryBook(plan))

    def parallel(self) -> ParallelRows:
        """Open a block of releases from parts of the rows, which is charged for the rows that lose most.

        Returns
        -------
        ParallelRows
            A context manager ``parts``, in which ``with parts.rows(positions):`` makes all charges for these rows only.
            Positions are whole numbers from 0 in the whole table, of all rows that are read inside, as splitters of
            scikit-learn return them, or for each row whether it is read. Rows may be in several parts. Estimators are
            given the ledger itself.

        Raises
        ------
        TypeError, ValueError
            If the ledger is for adding or removing a record, or is a plan or a record of another one. By ``rows``, if
            they are no positions, or one is there twice. Inside, before the charge, if an estimator is given another
            number of rows than there are positions, or cannot know how many it reads.
        RuntimeError
            If the rows of such a block are open. By ``rows``, if the block has ended, or this is another process.

        Notes
        -----
        **Privacy.** For replacing a record, whose position is public. A release from rows without this record is the
        same whatever its values are, so that only releases from rows with it add up: of disjoint folds, the largest
        (parallel composition); of k training folds, each row is in k - 1. Before each draw the ledger is charged what
        the row with the largest sums has beyond the largest ones so far. It stays a filter: rows and releases may be
        chosen by earlier results. Central guarantees count twice, as always where a record is replaced.

        **The split must be public**: made of the number of rows and of seeds, as by `sklearn.model_selection.KFold`,
        not of private values, as by `StratifiedKFold` (one record moves others to other folds). Inside, only these
        rows may be read. The number of rows that an estimator is given is compared with that of the positions, and
        another number is an error before the charge. Which rows they are is not checked, nor is a charge by hand. What
        does not know its number of rows, such as a large table of `skdp.engines`, is refused inside, and so is `plan`.
        A score on test rows is no release of this library, and nothing is charged for it. Charges of
        other threads count for all rows, those of other processes are refused in the block.

        Examples
        --------
        >>> from sklearn.model_selection import KFold
        >>> from skdp import DPMean
        >>> from skdp.datasets import load_adult
        >>> ages = load_adult().frame[["age"]]
        >>> ledger = PrivacyLedger(epsilon=1.0, relation="replace")
        >>> mean = DPMean(0.1, bounds=(0, 100), ledger=ledger, random_state=0)
        >>> with ledger.parallel() as parts:
        ...     for train, test in KFold(5).split(ages):
        ...         with parts.rows(test):
        ...             found = mean.fit(ages.iloc[test]).mean_
        >>> ledger.spent.epsilon  # in place of 5 * 0.2
        0.2
        """
        return ParallelRows(self._book)

    def __repr__(self) -> str:
        # Without the path: scikit-learn shows this in the HTML of estimators.
        try:
            # As guarantees are shown, without rounding errors.
            spent = str(tuple(float(shown(number)) for number in self.spent))
        # The file is lost or modified, or this is a copy.
        except (OSError, ValueError, RuntimeError):
            spent = "unknown"
        return f"{type(self).__name__}({self._book.budget.amount()}, spent={spent})"

    def _repr_html_(self) -> str:
        charges = self._record_book().charges()
        # The last charges are shown in HTML, at most as many.
        most_shown = 100
        table = html_table(_table(charges[-most_shown:]))
        note = ""
        if len(charges) > most_shown:
            note = f"<p>… and {len(charges) - most_shown:,} before them</p>"
        return f"<div><p><code>{html_text(self)}</code></p>{table}{note}</div>"

    def _content(self) -> dict[str, Any]:
        book = self._record_book()
        account = book.account()
        return {
            "budget": account.budget._content(),
            "spent": {
                "epsilon": float(account.sums.epsilon),
                "delta": float(account.sums.delta),
            },
            "charges": [charge._content() for charge in book.charges()],
        }

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        """Read the fields of a record, and add its charges up again."""
        budget = fields.part("budget", Budget._of)
        spent = fields.part("spent", read_amounts)
        place = fields.at("charges")
        charges = fields.parts("charges", Charge._of)
        try:
            book = RecordBook(budget, charges)
        except ValueError as error:
            raise ValueError(f"{place} cannot be added up: {error}") from None
        account = book.account()
        if not account.fits:
            raise ValueError(
                f"{place} spend more than the budget, which no ledger allows"
            )
        sums = account.sums
        if tuple(map(float, spent)) != (float(sums.epsilon), float(sums.delta)):
            raise ValueError(f"{fields.at('spent')} is not the sum of the charges")
        return cls._of_book(book)

    @classmethod
    def _of_book(cls, book: MemoryBook) -> Self:
        ledger = cls.__new__(cls)
        ledger._book = book
        return ledger

    def _record(self) -> PrivacyLedger:
        """Return a copy that can only be read."""
        return PrivacyLedger._of_book(self._record_book())

    def _record_book(self) -> RecordBook:
        """Return the charges so far, all in the relation of the ledger now."""
        charges = self._book.charges()
        budget = self._book.account().budget
        return RecordBook(budget, [charge.to(budget.relation) for charge in charges])

    def __sklearn_clone__(self) -> Self:
        return self

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


_COLUMNS = [
    "what",
    "epsilon",
    "delta",
    "rho",
    "relation",
    "unit",
    "trust",
    "scope",
    "mechanism",
    "secure",
    "time",
]


def _table(charges: Sequence[Charge]) -> pd.DataFrame:
    """List charges in order."""
    rows = []
    for charge in charges:
        guarantee = charge.stated
        row = (
            charge.what,
            float(charge.sums.epsilon),
            float(charge.sums.delta),
            guarantee.rho,
            charge.relation,
            guarantee._unit,
            guarantee.trust,
            ", ".join(map(str, guarantee.scope)),
            guarantee.mechanism,
            bool(guarantee.secure),
            charge.time,
        )
        rows.append(written_row(row))
    table = pd.DataFrame(rows, columns=_COLUMNS)
    # `astype` of several columns at once takes three times as long.
    for name in ("epsilon", "delta", "rho"):
        table[name] = table[name].astype(float)
    table["secure"] = table["secure"].astype(bool)
    table["time"] = pd.to_datetime(table["time"], utc=True)
    return table


def _balance(account: Account) -> pd.DataFrame:
    """Return the budget, what was spent of it and what remains, in all forms."""
    budget = account.budget
    limits = [budget.epsilon, budget.delta, budget.rho, budget.mu]
    table = pd.DataFrame(
        [limits, _numbers(account.sums), _numbers(account.left())],
        ["budget", "spent", "remaining"],
        ["epsilon", "delta", "rho", "mu"],
    )
    return table.astype(float)


def _numbers(sums: Sums) -> list[float]:
    mu = math.sqrt(max(float(sums.mu_squared), 0.0))
    return [float(sums.epsilon), float(sums.delta), float(sums.rho), mu]


def _check_release(guarantee: Any, what: Any) -> None:
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            "guarantee must be a PrivacyGuarantee, such as PrivacyGuarantee(1.0) or an "
            f"estimator's guarantee_, got {type(guarantee).__name__}"
        )
    if not isinstance(what, str):
        raise TypeError(f"what must be a str, got {type(what).__name__}")


def closed_ledger(refusal: str, **budget: Any) -> PrivacyLedger:
    """Return a ledger that stands for another one, and refuses all charges."""
    return PrivacyLedger._of_book(closed_book(Budget.checked(**budget), refusal))


def has_open_rows(ledger: PrivacyLedger) -> bool:
    """Return whether charges of a ledger are for some rows here."""
    return open_rows(ledger._book) is not None


def check_n_rows(ledger: PrivacyLedger, what: str, n_rows: int | None) -> None:
    """Refuse a release from another number of rows than are open for its ledger."""
    rows = open_rows(ledger._book)
    if rows is not None:
        rows.check_n_rows(what, n_rows)


def spend(
    ledger: Any, guarantee: PrivacyGuarantee, what: str, *, n_rows: int | None
) -> None:
    """Charge a release from a number of rows, None if not known, to any ledger."""
    if ledger is not None:
        check_n_rows(ledger, what, n_rows)
        ledger.charge(guarantee, what)


def is_charged(ledger: PrivacyLedger, guarantee: PrivacyGuarantee, what: str) -> bool:
    """Whether a ledger was charged for a release of this name and guarantee, of all rows."""
    # A ledger in a file has the guarantees as records have them.
    content = guarantee._content()
    name = written_text(what)
    for charge in ledger._record_book().charges():
        if charge.of_part or charge.what != name:
            continue
        if charge.guarantee._content() == content:
            return True
    return False
