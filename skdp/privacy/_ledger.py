"""A budget that every release is charged to before its noise is drawn."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from decimal import Context, Decimal, localcontext
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd

from skdp.privacy._book import Budget, Charge, MemoryBook, Page
from skdp.privacy._file_book import FileBook
from skdp.privacy._guarantee import PrivacyGuarantee, Relation
from skdp.privacy._parameters import check_delta, check_epsilon


class BudgetExceeded(RuntimeError):
    """A release would have spent more than the budget. Nothing was released and nothing was charged."""


class Amount(NamedTuple):  # numpydoc ignore=PR02
    """So much of a budget.

    Parameters
    ----------
    epsilon, delta : float
        Its two parts.
    """

    epsilon: float
    delta: float


class PrivacyLedger:
    """Account for every release about the same persons, and refuse the one that goes over the budget.

    Parameters
    ----------
    path : str or path, optional
        An SQLite file on a local disk, which several processes may use at a time and which survives them. It is made if
        there is none and `epsilon` is given. By default the ledger is in memory.
    epsilon : float, optional
        The budget of privacy loss, finite and > 0. It may, and had better, be left out if the file exists.
    delta : float, default=0.0
        The budget of failure probability, in [0, 1).
    relation : {"replace", "add_remove"}, optional
        The neighbouring relation of the budget; by default that of the first charge.

    Attributes
    ----------
    epsilon, delta : float
        The budget. No attribute can be set: a budget is for good.
    relation : {"replace", "add_remove"} or None
        Its neighbouring relation, once there is one.
    path : Path or None
        The file.
    spent : named tuple of float
        Epsilon and delta that were charged so far.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the file is no ledger or one with another budget.
    OSError
        If the file or its folder is not there, or cannot be written.

    Notes
    -----
    **Privacy.** Sequential composition: charges add, also when later ones were chosen after seeing earlier releases. A
    charge is made before any noise is drawn and is never refunded, whatever fails afterwards. Sums are exact in the
    decimals that were written, so three charges of 0.1 fit into 0.3. Add/remove charges convert into a "replace"
    budget; a "replace" charge cannot enter an add/remove budget.

    The ledger is one object: clones and copies of an estimator share it, over threads too. In memory it refuses to be
    pickled, and to be used in a forked process, so a search with several processes fails rather than spend the same
    budget twice. A file may be shared: a charge is one transaction, on the disk before anything is drawn, so that a
    crash at any moment leaves no release without its charge (but perhaps a charge without its release). A copy of the
    file is another ledger with the same budget: do not make any. With ``epsilon=``, a file that was lost, or that is
    looked for in another folder, is made anew, silently and with the whole budget; without it, that is an error. So
    give the budget once, and leave it out from then on.

    A search or a cross-validation charges every fit, and every `transform` that is a release. scikit-learn turns a
    `BudgetExceeded` in one of them into a score of NaN with a warning, unless it is told ``error_score="raise"``.

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
    skdp.privacy._ledger.BudgetExceeded: Mean asks for epsilon 0.1; ...

    In a file, for tomorrow:

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     PrivacyLedger(f"{folder}/ledger.sqlite", epsilon=3.0).charge(PrivacyGuarantee(1.0), "survey")
    ...     PrivacyLedger(f"{folder}/ledger.sqlite").remaining()
    Amount(epsilon=2.0, delta=0.0)
    """

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
        self._book: MemoryBook | FileBook
        if path is None:
            if budget is None:
                raise TypeError("PrivacyLedger needs a budget: epsilon=")
            self._book = MemoryBook(budget)
        else:
            if not isinstance(path, str | os.PathLike):
                raise TypeError(f"path must be a path, got {type(path).__name__}; the budget is epsilon=")
            self._path = Path(path).absolute()
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
        """The neighbouring relation of the budget, once there is one."""
        with self._book.opened(write=False) as page:
            return page.budget.relation

    @property
    def spent(self) -> Amount:  # numpydoc ignore=RT01
        """Epsilon and delta that were charged so far."""
        with self._book.opened(write=False) as page:
            return Amount(*map(float, self._totals(page)))

    def remaining(self) -> Amount:
        """Say what is left of the budget.

        Returns
        -------
        Amount
            Named tuple of epsilon and delta.
        """
        with self._book.opened(write=False) as page:
            return Amount(*map(float, self._left(page)))

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Charge a release that is about to be made.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What the release promises.
        what : str
            Who asks, for the report and for the error.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover it; nothing is charged.
        ValueError
            If its neighbouring relation cannot be converted to the ledger's.
        OSError
            If the file cannot be written.
        RuntimeError
            If a ledger in memory is used in a forked process.
        """
        with self._book.opened(write=True) as page:
            relation = page.budget.relation
            try:
                charge = Charge.of(what, guarantee.to(relation or guarantee.relation))
            except ValueError as error:
                raise ValueError(f"{what}: {error}; the ledger is for {relation!r}") from None
            asked_for, budgets = (charge.epsilon, charge.delta), (page.budget.epsilon, page.budget.delta)
            for name, asked, left, budget in zip(Amount._fields, asked_for, self._left(page), budgets, strict=True):
                if Decimal(asked) > left:
                    raise BudgetExceeded(
                        f"{what} asks for {name} {asked}; the ledger has {float(left)} of {budget} left. "
                        "Nothing was released."
                    )
            page.append(charge)

    def report(self) -> pd.DataFrame:
        """List the charges in order.

        Returns
        -------
        pandas.DataFrame
            A row a charge: ``what, epsilon, delta, rho, relation, trust, scope, mechanism, secure, time`` (UTC).
        """
        with self._book.opened(write=False) as page:
            table = pd.DataFrame(page.charges(), columns=list(Charge.__dataclass_fields__))
        kinds = dict.fromkeys(("epsilon", "delta", "rho"), float) | {"secure": bool}
        return table.astype(kinds).assign(time=pd.to_datetime(table["time"], utc=True))

    def _totals(self, page: Page) -> tuple[Decimal, Decimal]:
        """Add the charges up."""
        amounts = page.amounts()
        with _exact():
            epsilon = sum((Decimal(epsilon) for epsilon, _ in amounts), Decimal(0))
            delta = sum((Decimal(delta) for _, delta in amounts), Decimal(0))
        return epsilon, delta

    def _left(self, page: Page) -> tuple[Decimal, Decimal]:
        epsilon, delta = self._totals(page)
        with _exact():
            return Decimal(repr(page.budget.epsilon)) - epsilon, Decimal(repr(page.budget.delta)) - delta

    def __repr__(self) -> str:
        place = "" if self.path is None else f"{str(self.path)!r}, "
        try:
            spent = str(tuple(self.spent))
        except (OSError, ValueError, RuntimeError):  # the file is lost, or this is a forked process
            spent = "unknown"
        return f"{type(self).__name__}({place}epsilon={self.epsilon}, delta={self.delta}, spent={spent})"

    def _repr_html_(self) -> str:
        table = self.report().to_html(index=False, escape=True, na_rep="", border=0)
        return f"<div><p><code>{escape(repr(self))}</code></p>{table}</div>"

    def __sklearn_clone__(self) -> Self:
        return self

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _read_budget(epsilon: Any, delta: Any, relation: Any) -> Budget | None:
    """Check the budget; None if it is left out."""
    if relation not in (None, "replace", "add_remove"):
        raise ValueError(f"relation must be 'replace' or 'add_remove', got {relation!r}")
    check_delta(delta)
    if epsilon is not None:
        check_epsilon(epsilon)
        return Budget(float(epsilon), float(delta), relation)
    if delta != 0 or relation is not None:
        raise ValueError("delta and relation are given together with epsilon, or left out with it")
    return None


def _exact() -> AbstractContextManager[Context]:
    """Return a context in which sums of floats' decimals, from 1e308 to 5e-324, are exact."""
    return localcontext(prec=800)
