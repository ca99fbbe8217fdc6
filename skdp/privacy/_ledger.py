"""A budget that every release is charged to before its noise is drawn."""

from __future__ import annotations

import pickle
import threading
from decimal import Decimal, localcontext
from typing import Any, NoReturn

import pandas as pd

from skdp.privacy._guarantee import PrivacyGuarantee, Relation
from skdp.privacy._parameters import check_delta, check_epsilon


class BudgetExceeded(RuntimeError):
    """A release would have spent more than the budget. Nothing was released and nothing was charged."""


class PrivacyLedger:
    """Account for every release about the same persons, and refuse the one that goes over the budget.

    Parameters
    ----------
    epsilon : float
        The budget of privacy loss, finite and > 0.
    delta : float, default=0.0
        The budget of failure probability, in [0, 1).
    relation : {"replace", "add_remove"}, optional
        The neighbouring relation of the budget; by default that of the first charge.

    Attributes
    ----------
    spent : tuple of float
        Epsilon and delta that were charged so far.
    remaining : tuple of float
        Epsilon and delta that are left.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    **Privacy.** Sequential composition: charges add, also when later ones were chosen after seeing earlier releases. A
    charge is made before any noise is drawn and is never refunded. Sums are exact in the decimals that were written, so
    three charges of 0.1 fit into 0.3. Add/remove charges convert into a "replace" budget; a "replace" charge cannot
    enter an add/remove budget.

    The ledger is one object: clones and copies of an estimator share it, over threads too. It refuses to be pickled, so
    a search with several processes fails rather than spend the same budget twice.

    Examples
    --------
    >>> ledger = PrivacyLedger(epsilon=0.3)
    >>> for _ in range(3):
    ...     ledger.charge(PrivacyGuarantee(0.1), "RandomizedResponseEncoder")
    >>> ledger.remaining
    (0.0, 0.0)
    >>> ledger.charge(PrivacyGuarantee(0.1), "Mean")
    Traceback (most recent call last):
        ...
    skdp.privacy._ledger.BudgetExceeded: Mean asks for epsilon 0.1; ...
    """

    def __init__(self, *, epsilon: float, delta: float = 0.0, relation: Relation | None = None) -> None:
        check_epsilon(epsilon)
        check_delta(delta)
        if relation not in (None, "replace", "add_remove"):
            raise ValueError(f"relation must be 'replace' or 'add_remove', got {relation!r}")
        self.epsilon = epsilon
        self.delta = delta
        self.relation = relation
        self._charges: list[tuple[str, PrivacyGuarantee]] = []
        self._lock = threading.Lock()

    @property
    def spent(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """Epsilon and delta that were charged so far."""
        epsilon, delta = self._totals()
        return float(epsilon), float(delta)

    @property
    def remaining(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """Epsilon and delta that are left."""
        epsilon, delta = self._totals()
        with localcontext(prec=400):
            return float(_written(self.epsilon) - epsilon), float(_written(self.delta) - delta)

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
        """
        with self._lock:
            try:
                charge = guarantee.to(self.relation or guarantee.relation)
            except ValueError as error:
                raise ValueError(f"{what}: {error}; the ledger is for {self.relation!r}") from None
            epsilon, delta = self._totals()
            for name, spent, asked, budget in (
                ("epsilon", epsilon, charge.epsilon, self.epsilon),
                ("delta", delta, charge.delta, self.delta),
            ):
                with localcontext(prec=400):
                    left = _written(budget) - spent
                    fits = _written(asked) <= left
                if not fits:
                    raise BudgetExceeded(
                        f"{what} asks for {name} {asked}; the ledger has {float(left)} of {budget} left. "
                        "Nothing was released."
                    )
            self.relation = charge.relation
            self._charges.append((what, charge))

    def report(self) -> pd.DataFrame:
        """List the charges in order.

        Returns
        -------
        pandas.DataFrame
            A row a charge: ``what, epsilon, delta, relation, trust, scope, mechanism, secure``.
        """
        rows = [
            (what, g.epsilon, g.delta, g.relation, g.trust, ", ".join(map(str, g.scope)), g.mechanism, g.secure)
            for what, g in self._charges
        ]
        names = ["what", "epsilon", "delta", "relation", "trust", "scope", "mechanism", "secure"]
        return pd.DataFrame(rows, columns=names)

    def _totals(self) -> tuple[Decimal, Decimal]:
        with localcontext(prec=400):
            epsilon = sum((_written(charge.epsilon) for _, charge in self._charges), Decimal(0))
            delta = sum((_written(charge.delta) for _, charge in self._charges), Decimal(0))
        return epsilon, delta

    def __repr__(self) -> str:
        return f"PrivacyLedger(epsilon={self.epsilon}, delta={self.delta}, spent={self.spent})"

    def __sklearn_clone__(self) -> PrivacyLedger:
        return self

    def __copy__(self) -> PrivacyLedger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyLedger:
        return self

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            "a PrivacyLedger lives in one process and cannot be pickled: two copies would spend the same budget twice. "
            "Use n_jobs=1 (or threads), or set ledger=None and fit again before pickling."
        )


def _written(number: float) -> Decimal:
    """Return the decimal that a float is written as: 0.1 is a tenth."""
    return Decimal(repr(float(number)))
