"""What a ledger admits: its budget, its charges, and sums of constant size.

A budget is a filter: however the next charge is chosen from earlier results, what was admitted is together as private
as the budget states. With charges of (epsilon_i, delta_i), of which some are rho_i-concentrated or mu_i-Gaussian-DP:

- ``epsilon, delta``: the epsilons add up to at most epsilon, the deltas to at most delta (basic composition).
- ``rho``: the rhos add up to at most rho, which is then concentrated ([1]_, [2]_).
- ``mu``: the squares of mu add up to at most mu**2, which is then Gaussian-DP ([3]_).
- ``epsilon, delta, filter_delta``: (a) the deltas of charges without a rho add up to at most ``delta - filter_delta``,
  and (b) the epsilons add up to at most epsilon, where a charge of rho and delta > 0 counts as infinite, or (c) the
  rhos add up to at most the one that is (epsilon, filter_delta)-DP, where a charge without counts as epsilon_i**2 / 2.

Proof of the last. A charge without a rho is post-processing of one that reveals all with probability delta_i and is
epsilon_i-DP otherwise, given all before it ([4]_). By (a) any of them reveals all with probability at most
``delta - filter_delta``. If none does, the loss L of all is at most epsilon where (b) holds at the end, and does not
count in E[(1 - e**(epsilon - L))+]. Where it does not, (c) holds at the end, and always did, as sums only grow: these
results are also results of the adversary who stops before breaking (c), with the same probabilities and losses, and
count filter_delta at most, by [1]_. Two rules that may both fail would need a delta each, also if each charge is
admitted by one of them only: the adversary takes the one or the other as earlier results suggest.

.. [1] V. Feldman, T. Zrnic (2021). Individual privacy accounting via a Rényi filter. NeurIPS.
.. [2] J. Whitehouse, A. Ramdas, R. Rogers, Z. S. Wu (2023). Fully-adaptive composition in differential privacy. ICML.
.. [3] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian differential privacy. arXiv:2210.17520
.. [4] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for differential privacy. IEEE Transactions on
   Information Theory 63(6).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee, Relation, check_relation
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy._zcdp import largest_rho, zcdp_epsilon
from skdp.privacy.accounting import pure_epsilon
from skdp.privacy.ledger._sums import (
    EXACT,
    INFINITE,
    NAMES,
    NOTHING,
    Sums,
    added_by,
    as_decimal,
    exactly,
    rounded_down,
)


@dataclass(frozen=True)
class Budget:
    """The limit on all charges together: epsilon and delta, or rho, or mu."""

    epsilon: float | None
    delta: float | None
    relation: Relation | None
    filter_delta: float = 0.0
    rho: float | None = None
    mu: float | None = None

    def __str__(self) -> str:
        return f"{self.amount()}, relation={self.relation!r}"

    def amount(self) -> str:
        """Show its numbers as parameters of a ledger."""
        return ", ".join(f"{name}={value}" for name, value in self.numbers().items())

    def numbers(self) -> dict[str, float]:
        """Return the parameters of a ledger that are given."""
        given = {
            name: value
            for name, value in asdict(self).items()
            if name != "relation" and value is not None
        }
        return {
            name: value
            for name, value in given.items()
            if name != "filter_delta" or value
        }

    def content(self) -> dict[str, Any]:
        """Return the fields of its record."""
        return asdict(self)

    @property
    def limits(self) -> Sums:
        """The largest sums."""
        return _limits(
            self.epsilon or 0.0, self.delta or 0.0, self.filter_delta, self.rho, self.mu
        )


@lru_cache
def _limits(
    epsilon: float,
    delta: float,
    filter_delta: float,
    rho: float | None,
    mu: float | None,
) -> Sums:
    endless = Sums(*[INFINITE] * 6)
    if rho is not None:
        return replace(endless, failure=Decimal(0), rho=as_decimal(rho))
    if mu is not None:
        return replace(
            endless,
            failure=Decimal(0),
            mu_squared=exactly(lambda: as_decimal(mu) * as_decimal(mu)),
        )
    if not filter_delta:
        return replace(endless, epsilon=as_decimal(epsilon), delta=as_decimal(delta))
    largest = -round_up(-largest_rho(Fraction(epsilon), Fraction(filter_delta)))
    own = exactly(lambda: as_decimal(delta) - as_decimal(filter_delta))
    return replace(
        endless, failure=own, pure=as_decimal(epsilon), rho=as_decimal(largest)
    )


def read_budget(
    *,
    epsilon: Any = None,
    delta: Any = None,
    relation: Any = None,
    filter_delta: Any = None,
    rho: Any = None,
    mu: Any = None,
) -> Budget:
    """Check the parameters of a budget."""
    if relation is not None:
        check_relation(relation)
    if sum(number is not None for number in (epsilon, rho, mu)) != 1:
        raise ValueError("a budget is one of epsilon (with delta), rho and mu")
    if epsilon is None:
        for name, number in (("delta", delta), ("filter_delta", filter_delta)):
            if number:
                raise ValueError(
                    f"{name} is given together with epsilon; a budget of rho or mu has none"
                )
        name, number = ("rho", rho) if mu is None else ("mu", mu)
        limit = float(check_epsilon(number, name=name))
        check_epsilon(limit, name=name)  # a fraction may be below the floats
        return Budget(None, None, relation, **{name: limit})
    check_epsilon(float(check_epsilon(epsilon)))
    check_delta(delta or 0.0)
    if check_delta(filter_delta or 0.0, name="filter_delta") > Fraction(delta or 0.0):
        raise ValueError(
            f"filter_delta must be at most delta, got {filter_delta} and {delta}"
        )
    return Budget(
        float(epsilon), float(delta or 0.0), relation, float(filter_delta or 0.0)
    )


def given_budget(**numbers: Any) -> Budget | None:
    """Check the budget and return it, None if it is omitted."""
    if any(numbers[name] is not None for name in ("epsilon", "rho", "mu")):
        return read_budget(**numbers)
    if any(numbers.values()):
        raise ValueError(
            "delta, filter_delta and relation are given together with the budget, or left out with it"
        )
    return None


@dataclass(frozen=True)
class Charge:
    """A charge, one line of the book."""

    what: str
    epsilon: Decimal
    delta: Decimal
    relation: Relation
    guarantee: PrivacyGuarantee
    time: str
    converted: PrivacyGuarantee | None = None
    """The guarantee in the relation, if it is known."""
    added: Sums | None = None
    """What it adds to the sums, where this is not all that the guarantee states (`_parallel`)."""

    @classmethod
    def of(cls, what: str, guarantee: PrivacyGuarantee, relation: Relation) -> Self:
        """Make the charge of a guarantee in the relation of the ledger."""
        charged = guarantee.to(relation)
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        return cls(
            what,
            as_decimal(charged.epsilon),
            as_decimal(charged.delta),
            relation,
            guarantee,
            time,
            charged,
        )

    def to(self, relation: Relation | None) -> Charge:
        """Return the charge in another relation."""
        if relation in (None, self.relation):
            return self
        charged = self.guarantee.to(relation)
        amounts = as_decimal(charged.epsilon), as_decimal(charged.delta)
        return Charge(self.what, *amounts, relation, self.guarantee, self.time, charged)


def sums_of(charge: Charge) -> Sums:
    """Return what a charge adds."""
    if charge.added is not None:
        return charge.added
    added = added_by(charge.converted or charge.guarantee.to(charge.relation))
    return Sums(
        charge.epsilon,
        charge.delta,
        added.failure,
        added.pure,
        added.rho,
        added.mu_squared,
    )


@dataclass(frozen=True)
class Account:
    """The state of a ledger that the next charge needs, of constant size."""

    budget: Budget
    """With the relation of the ledger so far."""
    sums: Sums = NOTHING
    replaced: Sums | None = NOTHING
    """The sums of the same charges for replacing a record, None if there is no such guarantee."""
    declared: bool = True
    """Whether the relation was given with the budget."""
    n_charges: int = 0

    @classmethod
    def of(cls, budget: Budget) -> Self:
        return cls(budget, declared=budget.relation is not None)

    def relation_for(self, guarantee: PrivacyGuarantee) -> Relation:
        """Return the relation of the ledger after a charge: "replace" from the first such charge on."""
        return self.lasting_relation or guarantee.relation

    def after(self, charge: Charge) -> Account:
        """Return the account after one more charge."""
        sums, relation = self.sums, charge.relation
        if relation != (self.budget.relation or relation):
            if self.declared or relation != "replace":
                raise ValueError(
                    "the charge is in another neighbouring relation than the ledger"
                )
            if self.replaced is None:
                raise ValueError(
                    "an earlier charge implies nothing for replacing a record"
                )
            sums = self.replaced
        added = sums_of(charge)
        return replace(
            self,
            budget=self.budget
            if self.budget.relation == relation
            else replace(self.budget, relation=relation),
            sums=sums.plus(added),
            replaced=self._replaced(charge, added),
            n_charges=self.n_charges + 1,
        )

    def _replaced(self, charge: Charge, added: Sums) -> Sums | None:
        if self.declared or self.replaced is None:
            return self.replaced
        if charge.relation == "replace":
            return self.replaced.plus(added)
        try:
            return self.replaced.plus(sums_of(charge.to("replace")))
        except ValueError:
            return None

    @property
    def lasting_relation(self) -> Relation | None:
        """The relation of the ledger, None if it may still change."""
        return (
            self.budget.relation
            if self.declared or self.budget.relation == "replace"
            else None
        )

    def exceeds(self, name: str) -> bool:
        """Whether a sum is larger than its limit."""
        return bool(getattr(self.sums, name) > getattr(self.budget.limits, name))

    @property
    def fits(self) -> bool:
        """Whether the budget admits all charges."""
        over = {name for name in NAMES if self.exceeds(name)}
        return not over or (
            bool(self.budget.filter_delta) and over in ({"pure"}, {"rho"})
        )

    @property
    def spent(self) -> tuple[float, float]:
        """The part of the budget that is spent, as epsilon and delta; of one in rho or mu, their sums."""
        sums = self.sums
        if not self.budget.filter_delta or self.empty:
            return float(sums.epsilon), float(sums.delta)
        # The filter is paid with the first charge, and deltas of charges with a rho are part of it. Epsilon is that of
        # the rule by which more is left.
        delta = exactly(lambda: sums.failure + as_decimal(self.budget.filter_delta))
        epsilons = [float(sums.pure)]
        if sums.rho.is_finite():
            epsilons.append(
                zcdp_epsilon(Fraction(sums.rho), Fraction(self.budget.filter_delta))
                if sums.rho
                else 0.0
            )
        # Of a sum of rho that the budget admits, the epsilon may be more by rounding.
        return min(*epsilons, self.budget.epsilon or math.inf), float(delta)

    @property
    def empty(self) -> bool:
        """Whether nothing was charged."""
        return self.sums == NOTHING

    def left(self) -> Sums:
        """Return what is left of each limit."""
        return self.budget.limits.minus(self.sums)


def largest_charge(account: Account) -> tuple[float, float]:
    """Return the largest epsilon and delta of one more charge without a rho."""
    budget, left = account.budget, account.left()
    if budget.epsilon is not None and not budget.filter_delta:
        return rounded_down(left.epsilon), rounded_down(left.delta)
    found = [max(rounded_down(left.pure), 0.0)] if budget.filter_delta else []
    if budget.mu is None:
        found.append(_pure_of(left.rho))
    else:
        found.append(pure_epsilon(max(rounded_down(left.mu_squared), 0.0)))
    return max(found), rounded_down(max(left.failure, Decimal(0)))


def _pure_of(rho: Decimal) -> float:
    """Return the largest epsilon of which epsilon**2 / 2 is at most rho."""
    epsilon = 2 * math.sqrt(max(float(rho), 0.0) / 2)
    with localcontext(EXACT):
        while epsilon and as_decimal(epsilon) ** 2 / 2 > rho:
            epsilon = math.nextafter(epsilon, 0.0)
    return epsilon
