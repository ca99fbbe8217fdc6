"""The book of a plan: releases that are paid for already, each of which may be made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from skdp.privacy._guarantee import PrivacyGuarantee, Relation
from skdp.privacy.ledger._account import Account, Budget, Charge
from skdp.privacy.ledger._admission import BudgetExceeded
from skdp.privacy.ledger._book import MemoryBook
from skdp.privacy.ledger._sums import rounded_up_total


class PlanBook(MemoryBook):
    """A book in memory for the releases of a list."""

    def __init__(self, releases: Sequence[PrivacyGuarantee]) -> None:
        relation: Relation = (
            "replace"
            if any(one.relation == "replace" for one in releases)
            else "add_remove"
        )
        self._open: Counter[PrivacyGuarantee] = Counter()
        for release, count in Counter(releases).items():
            self._open[release.to(relation)] += count
        charges = [
            (Charge.of("", release, relation), count)
            for release, count in self._open.items()
        ]
        epsilon = rounded_up_total((charge.epsilon, count) for charge, count in charges)
        delta = rounded_up_total((charge.delta, count) for charge, count in charges)
        super().__init__(Budget(epsilon, delta, relation))

    def add(self, write: Callable[[Account], Charge]) -> None:
        def take(account: Account) -> Charge:
            charge = write(account)
            self._open -= Counter([self.place(charge)])
            return charge

        super().add(take)

    def in_decimals(
        self, together: PrivacyGuarantee, *, summed: bool
    ) -> PrivacyGuarantee:
        """Return what the list is composed to, by sums of the decimals of its charges where these are smaller."""
        epsilon, delta = self.budget.epsilon or 0.0, self.budget.delta or 0.0
        if summed:
            together = replace(together, delta=min(delta, together.delta))
        if epsilon > together.epsilon or delta > together.delta:
            return together
        return replace(together, epsilon=epsilon, delta=delta)

    def place(self, charge: Charge) -> PrivacyGuarantee:
        """Return the smallest release of the list that covers a charge."""
        asked = charge.guarantee.to(charge.relation)
        left = self._open
        fitting = [planned for planned in left if _covers(planned, asked)]
        if not fitting:
            raise BudgetExceeded(
                f"{charge.what} asks for epsilon {asked.epsilon} and delta {asked.delta}; no release of the plan that "
                f"is left has as much, or the same losses: {_shown(left)}. Nothing was released."
            )
        return min(fitting, key=lambda planned: (planned.epsilon, planned.delta))


def _shown(left: Counter[PrivacyGuarantee]) -> str:
    if not left:
        return "none is left"
    most = max(left, key=lambda planned: planned.epsilon)
    return f"{left.total()} are left, the largest of them with epsilon {most.epsilon} and delta {most.delta}"


def _covers(planned: PrivacyGuarantee, asked: PrivacyGuarantee) -> bool:
    """Whether a release loses no more than another one, in the same relation."""
    if (
        asked.epsilon > planned.epsilon
        or asked.delta > planned.delta
        or planned.losses not in ((), asked.losses)
    ):
        return False
    rho = asked._any_rho
    return planned.rho is None or (rho is not None and rho <= Fraction(planned.rho))
