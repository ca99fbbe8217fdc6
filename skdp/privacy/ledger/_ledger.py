"""A budget to which each release is charged before its noise is drawn."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import pandas as pd

from skdp.markup import html_table, html_text, written_row
from skdp.privacy._guarantee import PrivacyGuarantee, Relation, check_relation
from skdp.privacy._json import Fields, JsonRecord
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy.ledger._book import Account, Budget, Charge, MemoryBook, RecordBook, closed_book
from skdp.privacy.ledger._file_book import FileBook
from skdp.privacy.ledger._meter import Metered, meter
from skdp.privacy.ledger._record import read_book, write_book

_REPORT = ["what", "epsilon", "delta", "rho", "relation", "trust", "scope", "mechanism", "secure", "time"]
_MOST_SHOWN = 100
"""The most charges that are shown in HTML: the last ones."""


class BudgetExceeded(RuntimeError):
    """A release would have exceeded the budget; nothing was released or charged.

    Examples
    --------
    >>> from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
    >>> try:
    ...     PrivacyLedger(epsilon=1.0).charge(PrivacyGuarantee(2.0), "survey")
    ... except BudgetExceeded as refusal:
    ...     print(refusal)
    survey asks for epsilon 2.0; the ledger has 1.0 of 1.0 left. Nothing was released.
    """


class Amount(NamedTuple):  # numpydoc ignore=PR02
    """A part of a budget.

    Parameters
    ----------
    epsilon, delta : float
        The privacy loss and the failure probability.

    Examples
    --------
    >>> from skdp import PrivacyLedger
    >>> PrivacyLedger(epsilon=1.0).remaining()
    Amount(epsilon=1.0, delta=0.0)
    """

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
        The budget of privacy loss, finite and > 0. Omit it if the file exists (see Notes).
    delta : float, default=0.0
        The budget of failure probability, in [0, 1).
    relation : {"replace", "add_remove"}, optional
        The neighbouring relation of the budget; by default that of the first charge.

    Attributes
    ----------
    epsilon, delta : float
        The budget. Attributes are read-only.
    relation : {"replace", "add_remove"} or None
        The neighbouring relation, None before the first charge if it was not given.
    path : Path or None
        The file.
    spent : named tuple of float
        Epsilon and delta charged so far.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the file is not a ledger, has another budget, has several names (hard links),
        or was modified.
    OSError
        If the file or its folder does not exist, or cannot be written.

    Notes
    -----
    **Privacy.** Sequential composition: charges add, even if later ones were chosen after seeing earlier releases. A
    charge is made before any noise is drawn and is never refunded, even if the release fails. Sums are exact in the
    decimals of the charges, so three charges of 0.1 fit into 0.3. Add/remove charges are converted for a "replace"
    budget; a "replace" charge cannot be made to an add/remove budget.

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
    with the whole budget; without it, this is an error: give the budget once, and omit it afterwards. An SQLite ledger
    of version 0.1 is converted in place when it is opened; no other process may use it then.

    The time of a charge does not depend on the number of charges before; opening a file reads all of them.

    `to_json` writes a record of the budget and all charges, without the path. `from_json` makes a ledger of it that can
    only be read: another one that could be charged would spend the same budget twice.

    A search or a cross-validation charges each fit, and each `transform` that is a release. scikit-learn turns a
    `BudgetExceeded` into a score of NaN with a warning, unless ``error_score="raise"`` is set.

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
    skdp.privacy.ledger._ledger.BudgetExceeded: Mean asks for epsilon 0.1; ...

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
        relation: Relation | None = None,
    ) -> None:
        budget = _read_budget(epsilon, delta, relation)
        self._path: Path | None = None
        self._book: MemoryBook | FileBook | RecordBook
        if path is None:
            if budget is None:
                raise TypeError("PrivacyLedger needs a budget: epsilon=")
            self._book = MemoryBook(budget)
        else:
            if not isinstance(path, str | os.PathLike):
                raise TypeError(f"path must be a path, got {type(path).__name__}; the budget is epsilon=")
            self._path = Path(path).resolve()
            self._book = FileBook(self._path, budget)

    @property
    def epsilon(self) -> float:  # numpydoc ignore=RT01
        """The budget of privacy loss."""
        return self._book.budget.epsilon

    @property
    def delta(self) -> float:  # numpydoc ignore=RT01
        """The budget of failure probability."""
        return self._book.budget.delta

    @property
    def path(self) -> Path | None:  # numpydoc ignore=RT01
        """The file."""
        return self._path

    @property
    def relation(self) -> Relation | None:  # numpydoc ignore=RT01
        """The neighbouring relation of the budget, None while it is not fixed."""
        return self._book.account().budget.relation

    @property
    def spent(self) -> Amount:  # numpydoc ignore=RT01
        """Epsilon and delta charged so far."""
        account = self._book.account()
        return Amount(float(account.epsilon), float(account.delta))

    def remaining(self) -> Amount:
        """Return the remaining budget.

        Returns
        -------
        Amount
            Named tuple of epsilon and delta.
        """
        return Amount(*map(float, self._book.account().left()))

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
            If its neighbouring relation cannot be converted to that of the ledger, or the file was modified.
        OSError
            If the file cannot be written.
        RuntimeError
            If a ledger in memory is used in another process or through a pickled copy, or if this code interrupts a
            charge, as a signal handler may.
        """
        if not isinstance(guarantee, PrivacyGuarantee):
            raise TypeError(
                "guarantee must be a PrivacyGuarantee, such as PrivacyGuarantee(1.0) or an estimator's guarantee_, got "
                f"{type(guarantee).__name__}"
            )
        if not isinstance(what, str):
            raise TypeError(f"what must be a str, got {type(what).__name__}")
        if (listed := meter()) is not None:
            listed.append(Metered(what, guarantee, self.relation))
        else:
            self._book.add(partial(_admitted, what, guarantee))

    def report(self) -> pd.DataFrame:
        """List the charges in order.

        Returns
        -------
        pandas.DataFrame
            A row per charge: ``what, epsilon, delta, rho, relation, trust, scope, mechanism, secure, time`` (UTC).
        """
        return _listed(self._book.charges())

    def _content(self) -> dict[str, Any]:
        return write_book(self._copied_book())

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        return cls._of_book(read_book(fields))

    @classmethod
    def _of_book(cls, book: RecordBook) -> Self:
        made = cls.__new__(cls)
        made._path, made._book = None, book
        return made

    def _record(self) -> PrivacyLedger:
        """Return a copy that can only be read."""
        return PrivacyLedger._of_book(self._copied_book())

    def _copied_book(self) -> RecordBook:
        return RecordBook.of(self._book.budget, self._book.charges())

    def __repr__(self) -> str:
        # Without the path: scikit-learn shows this in the HTML of estimators.
        try:
            spent = str(tuple(self.spent))
        except (OSError, ValueError, RuntimeError):  # the file is lost or modified, or this is a copy
            spent = "unknown"
        return f"{type(self).__name__}(epsilon={self.epsilon}, delta={self.delta}, spent={spent})"

    def _repr_html_(self) -> str:
        charges = self._book.charges()
        more = f"<p>… and {len(charges) - _MOST_SHOWN:,} before them</p>" if len(charges) > _MOST_SHOWN else ""
        return f"<div><p><code>{html_text(self)}</code></p>{html_table(_listed(charges[-_MOST_SHOWN:]))}{more}</div>"

    def __sklearn_clone__(self) -> Self:
        return self

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def closed_ledger(epsilon: float, delta: float, refusal: str) -> PrivacyLedger:
    """Return a ledger that stands for one that is elsewhere, and refuses all charges."""
    ledger = PrivacyLedger(epsilon=epsilon, delta=delta)
    ledger._book = closed_book(ledger._book.budget, refusal)
    return ledger


def _read_budget(epsilon: Any, delta: Any, relation: Any) -> Budget | None:
    """Check the budget and return it, None if it is omitted."""
    if relation is not None:
        check_relation(relation)
    check_delta(delta)
    if epsilon is not None:
        check_epsilon(epsilon)
        return Budget(float(epsilon), float(delta), relation)
    if delta != 0 or relation is not None:
        raise ValueError("delta and relation are given together with epsilon, or left out with it")
    return None


def _admitted(what: str, guarantee: PrivacyGuarantee, account: Account) -> Charge:
    """Return the charge of a release if the budget covers it."""
    relation = account.budget.relation
    try:
        charge = Charge.of(what, guarantee, relation or guarantee.relation)
    except ValueError as error:
        raise ValueError(f"{what}: {error}; the ledger is for {relation!r}") from None
    asked_for, budgets = (charge.epsilon, charge.delta), (account.budget.epsilon, account.budget.delta)
    for name, asked, left, budget in zip(Amount._fields, asked_for, account.left(), budgets, strict=True):
        if asked > left:
            raise BudgetExceeded(
                f"{what} asks for {name} {float(asked)}; the ledger has {float(left)} of {budget} left. "
                "Nothing was released."
            )
    return charge


def _listed(charges: list[Charge]) -> pd.DataFrame:
    table = pd.DataFrame((written_row(_row(charge)) for charge in charges), columns=_REPORT)
    kinds = dict.fromkeys(("epsilon", "delta", "rho"), float) | {"secure": bool}
    return table.astype(kinds).assign(time=pd.to_datetime(table["time"], utc=True))


def _row(charge: Charge) -> tuple[Any, ...]:
    """Return a row of the report, in the relation of the ledger."""
    charged = charge.guarantee.to(charge.relation)
    return (
        charge.what,
        float(charge.epsilon),
        float(charge.delta),
        charged.rho,
        charge.relation,
        charged.trust,
        ", ".join(map(str, charged.scope)),
        str(charged.mechanism),
        bool(charged.secure),
        charge.time,
    )
