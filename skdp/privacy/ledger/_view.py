"""What a ledger shows: its budget, what is spent and what remains, and its charges."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from skdp.privacy._guarantee import Relation
from skdp.privacy._json import JsonRecord
from skdp.privacy.ledger._account import largest_charge
from skdp.privacy.ledger._book import MemoryBook, RecordBook
from skdp.privacy.ledger._file_book import FileBook
from skdp.privacy.ledger._report import Amount, html_charges, list_charges, show_balance


class LedgerView(JsonRecord):
    """What can be read of a ledger."""

    _path: Path | None
    _book: MemoryBook | FileBook | RecordBook

    @property
    def epsilon(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of privacy loss."""
        return self._book.budget.epsilon

    @property
    def delta(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of failure probability."""
        return self._book.budget.delta

    @property
    def filter_delta(self) -> float:  # numpydoc ignore=RT01
        """The part of delta that pays for the filter."""
        return self._book.budget.filter_delta

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
        return self._path

    @property
    def relation(self) -> Relation | None:  # numpydoc ignore=RT01
        """The neighbouring relation of the budget, None while it is not fixed."""
        return self._book.account().budget.relation

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
        return Amount(*largest_charge(self._book.account()))

    def balance(self) -> pd.DataFrame:
        """Return the budget, what was spent of it and what remains, in all forms.

        Returns
        -------
        pandas.DataFrame
            Rows ``budget, spent, remaining``; columns ``epsilon, delta, rho, mu``: sums, and the root of that of mu**2.
            What is not limited has a budget of nan, and infinity remains; with `filter_delta`, as in `remaining`.
        """
        return show_balance(self._book.account())

    def report(self) -> pd.DataFrame:
        """List the charges in order.

        Returns
        -------
        pandas.DataFrame
            A row per charge: ``what, epsilon, delta, rho, relation, trust, scope, mechanism, secure, time`` (UTC).
        """
        return list_charges(self._book.charges(), self.relation)

    def __repr__(self) -> str:
        # Without the path: scikit-learn shows this in the HTML of estimators.
        try:
            spent = str(tuple(self.spent))
        except (
            OSError,
            ValueError,
            RuntimeError,
        ):  # the file is lost or modified, or this is a copy
            spent = "unknown"
        return f"{type(self).__name__}({self._book.budget.amount()}, spent={spent})"

    def _repr_html_(self) -> str:
        return html_charges(self, self._book.charges(), self.relation)
