"""The book of a plan: releases that are paid for already, each of which may be made once."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger._account import Account, Budget, Charge
from skdp.privacy.ledger._admission import BudgetExceeded
from skdp.privacy.ledger._book import MemoryBook


class PlanBook(MemoryBook):
    """A book in memory for the releases of a list."""

    def __init__(self, releases: Sequence[PrivacyGuarantee]) -> None:
        relation = reduce(operator.add, releases).relation
        self._open = [release.to(relation) for release in releases]
        account = Account.of(Budget(math.inf, math.inf, relation))
        for release in self._open:
            account = account.after(Charge.of("", release, relation))
        epsilon, delta = (round_up(Fraction(one)) for one in (account.sums.epsilon, account.sums.delta))
        super().__init__(Budget(epsilon, delta, relation))

    def add(self, write: Callable[[Account], Charge]) -> None:
        def take(account: Account) -> Charge:
            charge = write(account)
            del self._open[self.place(charge)]
            return charge

        super().add(take)

    def place(self, charge: Charge) -> int:
        """Return the place of the smallest release of the list that covers a charge."""
        asked = charge.guarantee.to(charge.relation)
        places = [place for place, planned in enumerate(self._open) if _covers(planned, asked)]
        if not places:
            raise BudgetExceeded(
                f"{charge.what} asks for epsilon {asked.epsilon} and delta {asked.delta}; no release of the plan that "
                "is left has as much, or the same losses. Nothing was released."
            )
        return min(places, key=lambda place: (self._open[place].epsilon, self._open[place].delta))


def _covers(planned: PrivacyGuarantee, asked: PrivacyGuarantee) -> bool:
    """Whether a release loses no more than another one, in the same relation."""
    rho = asked._any_rho
    return (
        asked.epsilon <= planned.epsilon
        and asked.delta <= planned.delta
        and (planned.rho is None or (rho is not None and rho <= planned.rho))
        and planned.losses in ((), asked.losses)
    )
