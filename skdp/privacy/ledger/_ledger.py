"""A budget to which each release is charged before its noise is drawn."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import pandas as pd

from skdp.markup import html_table, html_text, written_row, written_text
from skdp.privacy._conversions import check_epsilon, shown
from skdp.privacy._guarantee import PrivacyGuarantee, Relation
from skdp.privacy._json import Fields, ReadableRecord
from skdp.privacy.ledger._account import (
    Account,
    Budget,
    BudgetExceeded,
    Charge,
    Sums,
)
from skdp.privacy.ledger._book import FileBook, MemoryBook, RecordBook, closed_book


class Amount(NamedTuple):
    """A part of a budget."""

    epsilon: float
    delta: float


def _read_amount(fields: Fields) -> Amount:
    check = partial(check_epsilon, zero=True)
    return Amount(fields.number("epsilon", check), fields.number("delta", check))


class PrivacyLedger(ReadableRecord):
    """Account for all releases about the same persons, and refuse releases that exceed the budget.

    Parameters
    ----------
    epsilon : float, optional
        The budget of privacy loss, finite and > 0. Omit the budget to open an existing file.
    delta : float, default=0.0
        The budget of failure probability, in [0, 1), with `epsilon`.
    path : str or path, optional
        A file on a local disk, which several processes may use at the same time. It is created if it does not exist
        and a budget is given. By default the ledger is in memory.
    rho : float, optional
        The budget of zero-concentrated privacy loss, > 0, in place of epsilon and delta.
    mu : float, optional
        The budget of Gaussian privacy loss, > 0, in place of epsilon and delta.
    relation : {"replace", "add_remove", "replace_values"}, optional
        The neighbouring relation of the budget; by default the relation of the first charge.
    columns : sequence of str, optional
        The protected columns, with ``relation="replace_values"``. Include columns that determine them: a ledger sees no
        table.

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
        The sums of epsilon and delta that were charged so far. `balance` also returns the sums of rho and mu.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the file is not a ledger, has another budget or several names (hard links).
    OSError
        If the file or its folder does not exist, or cannot be written.

    Notes
    -----
    **Privacy.** A ledger is a privacy filter: all charges together keep the budget, also if later releases, their
    number and their epsilon are chosen after seeing earlier results. A charge is made before any noise is drawn and is
    never refunded, even if the release fails. Sums are exact in decimals, so ten charges of 0.1 fit into a budget of 1.

    - ``epsilon, delta``: epsilons and deltas add up (basic composition).
    - ``rho``: rhos add up ([1]_, [2]_), for `zcdp_epsilon`; a charge of epsilon alone counts as epsilon**2 / 2, or less
      by its losses.
    - ``mu``: the squares of mu add up ([3]_), for `gaussian_delta`; a charge of epsilon alone counts as the smallest mu
      that it implies. Charges with delta > 0 and without a rho or mu are refused.

    The smallest of several bounds is in general no filter. For releases that are declared together, `compose` returns a
    smaller total: charge its result. Proofs are in decision 10 of the documentation.

    A budget has one relation. Charges for adding or removing a record are converted for a "replace" budget and count
    twice; a "replace" charge to an add/remove budget is refused. Set ``relation="replace"`` for local and central
    releases together. A budget for whole records refuses a release that protects named columns only, because it may
    reveal all other columns; a budget for named columns (``relation="replace_values"``) takes releases for whole
    records, and releases that protect at least its columns.

    Charges for records and charges for all rows of a person (``groups`` of `fit`) add up for persons with at most as
    many rows as the charges for records protect. `report` lists the unit of each charge, `privacy_statement` the unit
    of their sum.

    Clones and copies of an estimator share its ledger, also between threads. A ledger in memory belongs to one process:
    pickled copies and forked processes refuse all charges, so a search with several processes fails rather than spend
    the same budget twice. A signal handler may read a ledger, but not charge it during a charge.

    A file is an SQLite database, which threads and processes of one computer share. Use no network drive, and the same
    path in all processes (symbolic links are resolved, hard links are refused). A charge is on the disk before anything
    is drawn: a crash leaves no release without its charge, but possibly a charge without its release. The time of a
    charge does not depend on the number of charges before. Only people who are trusted with the data should have write
    access. A copy of the file is another ledger with the same budget. Give the budget once, and omit it afterwards:
    with a budget, a lost file is created again with the whole budget; without one, it is an error.

    `to_json` writes a record of the budget and all charges, without the path. The ledger that `from_json` returns can
    only be read.

    A search or a cross-validation charges each fit, and each `transform` that is a release. scikit-learn turns a
    `BudgetExceeded` into a score of NaN with a warning, unless ``error_score="raise"`` is set.

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
    ...     path = f"{folder}/ledger.sqlite"
    ...     PrivacyLedger(3.0, path=path).charge(PrivacyGuarantee(1.0), "survey")
    ...     PrivacyLedger(path=path).remaining()
    Amount(epsilon=2.0, delta=0.0)
    """

    _format: ClassVar[str] = "skdp-ledger"

    def __init__(
        self,
        epsilon: float | None = None,
        *,
        delta: float = 0.0,
        path: str | os.PathLike[str] | None = None,
        rho: float | None = None,
        mu: float | None = None,
        relation: Relation | None = None,
        columns: Sequence[Any] | None = None,
    ) -> None:
        if isinstance(epsilon, str | os.PathLike):
            raise TypeError(
                f"epsilon must be a number, got {type(epsilon).__name__}; a file is "
                "given as path="
            )
        budget = None
        if any(number is not None for number in (epsilon, rho, mu)):
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
                    f"path must be a str or a path, got {type(path).__name__}"
                )
            self._book = FileBook(Path(path).resolve(), budget)
        elif budget is not None:
            self._book = MemoryBook(Account(budget))
        else:
            raise TypeError("PrivacyLedger needs a budget: epsilon=, rho= or mu=")

    @property
    def epsilon(self) -> float | None:
        """The budget of privacy loss."""
        return self._book.budget.epsilon

    @property
    def delta(self) -> float | None:
        """The budget of failure probability."""
        return self._book.budget.delta

    @property
    def rho(self) -> float | None:
        """The budget of zero-concentrated privacy loss."""
        return self._book.budget.rho

    @property
    def mu(self) -> float | None:
        """The budget of Gaussian privacy loss."""
        return self._book.budget.mu

    @property
    def path(self) -> Path | None:
        """The file."""
        return self._book.path

    @property
    def relation(self) -> Relation | None:
        """The neighbouring relation of the budget, None while it is not fixed."""
        return self._book.account().budget.relation

    @property
    def columns(self) -> tuple[str | int, ...] | None:
        """The protected columns, None for whole records."""
        return self._book.budget.protected

    @property
    def spent(self) -> Amount:
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
            columns only, by a ledger for whole records), or the file is damaged.
        OSError
            If the file cannot be written.
        RuntimeError
            If a ledger in memory is used in another process or through a pickled copy, or if this code interrupts a
            charge, as a signal handler may.
        """
        _check_release(guarantee, what)
        self._book.charge(what, guarantee)

    def __repr__(self) -> str:
        # Without the path: scikit-learn shows this in the HTML of estimators.
        try:
            # As guarantees are shown, without rounding errors.
            spent = str(tuple(float(shown(number)) for number in self.spent))
        # The file is lost or damaged, or this is a copy.
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
        record = self._record_book()
        account = record.account()
        return {
            "budget": account.budget._content(),
            "spent": Amount(*account.spent)._asdict(),
            "charges": [charge._content() for charge in record.charges()],
        }

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        """Read the fields of a record, and add its charges up again."""
        budget = fields.part("budget", Budget._of)
        spent = fields.part("spent", _read_amount)
        place = fields.at("charges")
        charges = fields.parts("charges", Charge._of)
        account = Account(budget)
        try:
            for charge in charges:
                account = account.admit(charge)
        except (BudgetExceeded, ValueError) as error:
            raise ValueError(
                f"{place} are not those of a ledger with this budget: {error}"
            ) from None
        if spent != Amount(*account.spent):
            raise ValueError(f"{fields.at('spent')} is not the sum of the charges")
        return cls._of_book(RecordBook(account, charges))

    @classmethod
    def _of_book(cls, book: MemoryBook) -> Self:
        ledger = cls.__new__(cls)
        ledger._book = book
        return ledger

    def _record(self) -> PrivacyLedger:
        """Return a copy that can only be read."""
        return PrivacyLedger._of_book(self._record_book())

    def _record_book(self) -> RecordBook:
        """Return the charges so far."""
        return self._book.record()

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
        guarantee = charge.guarantee
        row = (
            charge.what,
            guarantee.epsilon,
            guarantee.delta,
            guarantee.rho,
            guarantee.relation,
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


def spend(ledger: Any, guarantee: PrivacyGuarantee, what: str) -> None:
    """Charge a release to any ledger; None has no limit."""
    if ledger is not None:
        ledger.charge(guarantee, what)


def is_charged(ledger: PrivacyLedger, guarantee: PrivacyGuarantee, what: str) -> bool:
    """Whether a ledger was charged for a release of this name and guarantee."""
    record = ledger._record_book()
    content = record.budget.convert(guarantee)._content()
    name = written_text(what)
    return any(
        charge.what == name and charge.guarantee._content() == content
        for charge in record.charges()
    )
