"""The account of a ledger: its budget, its charges and their sums.

A budget is a filter: however the next charge is chosen from earlier results, the
admitted charges together are as private as the budget states. With charges of
(epsilon_i, delta_i), some of which are rho_i-concentrated or mu_i-Gaussian-DP:

- ``epsilon, delta``: the epsilons add up to at most epsilon, the deltas to at most
  delta (basic composition).
- ``rho``: the rhos add up to at most rho, which is then concentrated ([1]_, [2]_).
- ``mu``: the squares of mu add up to at most mu**2, which is then Gaussian-DP ([3]_).

Two rules that may both fail would need a delta each, also if each charge is admitted by
one of them only: the adversary selects the rule as earlier results suggest.

.. [1] V. Feldman, T. Zrnic (2021). Individual privacy accounting via a Rényi filter.
   NeurIPS.
.. [2] J. Whitehouse, A. Ramdas, R. Rogers, Z. S. Wu (2023). Fully-adaptive composition
   in differential privacy. ICML.
.. [3] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian
   differential privacy. arXiv:2210.17520
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from skdp.exact import round_up
from skdp.privacy._guarantee import (
    PrivacyGuarantee,
    Relation,
    check_columns,
    check_relation,
    join_names,
)
from skdp.privacy._json import write_name
from skdp.privacy._losses import (
    GaussianLoss,
    Loss,
    PureLoss,
    StatedLoss,
    pure_epsilon,
    pure_mu,
    pure_rho,
)
from skdp.privacy._numbers import check_delta, check_epsilon, format_amounts

# Exact, or infinite if a release has no such amount.
Total = Fraction | float


def to_decimal(number: float) -> Total:
    """Return the shortest decimal of a float, so that 0.1 is one tenth."""
    return Fraction(str(number)) if math.isfinite(number) else math.inf


def to_float(amount: Total) -> float:
    """Round an amount up to a float."""
    return math.inf if amount == math.inf else round_up(Fraction(amount))


def round_down(amount: Total) -> float:
    """Return the largest float whose shortest decimal is at most an amount, and at least 0."""
    if amount == math.inf:
        return math.inf
    nearest = float(max(amount, 0))
    if to_decimal(nearest) > amount:
        return max(math.nextafter(nearest, -math.inf), 0.0)
    return nearest


class Sums(NamedTuple):
    """Sums over charges in one relation."""

    epsilon: Total = Fraction(0)
    delta: Total = Fraction(0)
    # Sum of the deltas of charges without a rho.
    failure: Total = Fraction(0)
    rho: Total = Fraction(0)
    mu_squared: Total = Fraction(0)

    def plus(self, other: Sums, count: int = 1) -> Sums:
        """Add other sums a number of times."""
        pairs = zip(self, other, strict=True)
        return Sums(*(amount + count * more for amount, more in pairs))


NO_CHARGES = Sums()


# Most charges of a ledger have the same guarantee.
@lru_cache(maxsize=256)
def sums_of(guarantee: PrivacyGuarantee) -> Sums:
    """Return the amounts that a release with a guarantee adds."""
    sums = NO_CHARGES
    for loss in guarantee._get_losses():
        sums = sums.plus(_sums_of_loss(loss), loss.count)
    # The rounded losses of many parts may exceed the stated loss of the release.
    if guarantee.rho is not None:
        sums = sums._replace(rho=min(sums.rho, to_decimal(guarantee.rho)))
    if guarantee.delta == 0 and guarantee.losses:
        stated = _sums_of_loss(StatedLoss(guarantee.epsilon))
        sums = sums._replace(
            rho=min(sums.rho, stated.rho),
            mu_squared=min(sums.mu_squared, stated.mu_squared),
        )
    return sums._replace(
        epsilon=to_decimal(guarantee.epsilon), delta=to_decimal(guarantee.delta)
    )


def _sums_of_loss(loss: Loss) -> Sums:
    """Return failure, rho and mu squared of one release with a loss."""
    if isinstance(loss, GaussianLoss):
        mu_squared = to_decimal(loss.mu) ** 2
        return Sums(rho=mu_squared / 2, mu_squared=mu_squared)
    if isinstance(loss, PureLoss):
        epsilon = float(loss._epsilon)
        share = loss.share or 1.0  # a share of 0 has epsilon 0
        rho = min(to_decimal(epsilon) ** 2 / 2, to_decimal(pure_rho(epsilon, share)))
        return Sums(rho=rho, mu_squared=_mu_squared(loss._epsilon, share))
    assert isinstance(loss, StatedLoss)
    mu_squared = math.inf if loss.delta else _mu_squared(loss._epsilon, 1.0)
    if loss.rho is not None:
        # Delta is one conversion of rho.
        return Sums(rho=to_decimal(loss.rho), mu_squared=mu_squared)
    # The release is epsilon-DP unless it fails, so rho = epsilon**2 / 2 (M. Bun, T.
    # Steinke 2016, proposition 1.4).
    rho = to_decimal(loss.epsilon) ** 2 / 2
    return Sums(failure=to_decimal(loss.delta), rho=rho, mu_squared=mu_squared)


def _mu_squared(epsilon: Fraction, share: float) -> Total:
    mu = pure_mu(epsilon, share)
    return math.inf if mu is None else to_decimal(round_up(mu)) ** 2


class BudgetExceeded(RuntimeError):
    """Error of a release that would exceed the budget. Nothing was released or charged.

    Examples
    --------
    >>> from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
    >>> try:
    ...     PrivacyLedger(1.0).charge(PrivacyGuarantee(2.0), "survey")
    ... except BudgetExceeded as error:
    ...     print(error)
    survey requires epsilon=2.0, but the ledger has 1.0 of 1.0 left.
    """


@dataclass(frozen=True)
class Budget:
    """The limit of all charges together: epsilon and delta, or rho, or mu."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    # None until the first charge.
    relation: Relation | None = None
    # Protected columns of "replace_values".
    columns: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.relation is not None:
            check_relation(self.relation)
        # Sorted, so that equal budgets are equal in whatever order columns are declared.
        columns = sorted(check_columns(self.relation, self.columns), key=repr)
        numbers = self.numbers()
        delta = numbers.pop("delta", None)
        if len(numbers) != 1:
            raise ValueError("a budget must be one of epsilon (with delta), rho and mu")
        ((name, number),) = numbers.items()
        limit = float(check_epsilon(number, name=name))
        check_epsilon(limit, name=name)  # a fraction may be below the floats
        if name == "epsilon":
            delta = float(check_delta(delta or 0.0))
        elif delta:
            raise ValueError(f"delta requires a budget of epsilon, got {name}={limit}")
        else:
            delta = None
        for field, value in (
            (name, limit),
            ("delta", delta),
            ("columns", tuple(columns)),
        ):
            object.__setattr__(self, field, value)

    def numbers(self) -> dict[str, float]:
        """Return the parameters of a ledger that are given."""
        names = ("epsilon", "delta", "rho", "mu")
        numbers = {name: getattr(self, name) for name in names}
        return {name: value for name, value in numbers.items() if value is not None}

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.numbers().items()]
        if self.relation is not None:
            parts.append(f"relation={self.relation!r}")
        if self.columns:
            parts.append(f"columns={list(self.columns)}")
        return ", ".join(parts)

    @cached_property
    def limits(self) -> Sums:
        """The largest sums."""
        if self.rho is not None:
            only = {"rho": to_decimal(self.rho), "failure": Fraction(0)}
        elif self.mu is not None:
            only = {"mu_squared": to_decimal(self.mu) ** 2, "failure": Fraction(0)}
        else:
            assert self.epsilon is not None
            assert self.delta is not None
            only = {
                "epsilon": to_decimal(self.epsilon),
                "delta": to_decimal(self.delta),
            }
        return Sums(*[math.inf] * len(Sums._fields))._replace(**only)

    def convert(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """Convert a guarantee to the relation of the budget."""
        return guarantee.to(
            self.relation or guarantee.relation, columns=self.columns or None
        )

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a record."""
        return asdict(self) | {"columns": list(map(write_name, self.columns))}


class Charge(NamedTuple):
    """A charged release with its guarantee as it states it."""

    what: str
    guarantee: PrivacyGuarantee
    # In UTC, as ISO 8601.
    time: str


@dataclass(frozen=True)
class Account:
    """The budget of a ledger and the sums of its charges."""

    budget: Budget
    sums: Sums = NO_CHARGES

    def admit(self, what: str, guarantee: PrivacyGuarantee) -> Account:
        """Return the account after a charge, if the budget covers it."""
        converted = self._convert(what, guarantee)
        budget = self.budget
        if budget.relation is None:
            budget = replace(budget, relation=converted.relation)
        added = sums_of(converted)
        after = self.sums.plus(added)
        for name, amount, limit in zip(Sums._fields, after, budget.limits, strict=True):
            if amount > limit:
                self._refuse(what, guarantee, name, getattr(added, name))
        return Account(budget, after)

    def _convert(self, what: str, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        if guarantee.relation == "replace_values" and not self.budget.columns:
            raise ValueError(
                f"{what} protects the values of {join_names(guarantee.scope)} only, "
                "which a budget for whole records does not cover. Use a ledger with "
                f"relation='replace_values', columns={list(guarantee.scope)}."
            )
        try:
            return self.budget.convert(guarantee)
        except ValueError as error:
            remedy = ""
            if self.budget.relation == "add_remove":
                remedy = " Use PrivacyLedger(relation='replace') for both."
            raise ValueError(
                f"{what}: {error}. The ledger has {self.budget}.{remedy}"
            ) from None

    def _refuse(
        self, what: str, guarantee: PrivacyGuarantee, name: str, added: Total
    ) -> None:
        """Raise an error for a charge that exceeds one of the limits."""
        if name == "failure" or added == math.inf:
            kind = "rho" if self.budget.mu is None else "mu"
            raise BudgetExceeded(
                f"{what} has no {kind} (delta={guarantee.delta}), but the ledger has a "
                f"budget of {kind}."
            )
        limit = getattr(self.budget.limits, name)
        left = round_down(limit - getattr(self.sums, name))
        required = f"{name}={float(added)}"
        explanation = describe_conversion(guarantee, self.budget)
        if explanation:
            required += f" ({explanation})"
        raise BudgetExceeded(
            f"{what} requires {required}, but the ledger has {left} of {float(limit)} "
            "left."
        )

    @property
    def spent(self) -> tuple[float, float]:
        """The sums of epsilon and delta."""
        return float(self.sums.epsilon), float(self.sums.delta)

    def remaining(self) -> Sums:
        """Return the remaining amount of each limit."""
        pairs = zip(self.budget.limits, self.sums, strict=True)
        # A limited sum is finite.
        return Sums(
            *(limit if limit == math.inf else limit - amount for limit, amount in pairs)
        )

    def largest_charge(self) -> tuple[float, float]:
        """Return the largest epsilon and delta of one more charge without a rho."""
        left = self.remaining()
        if self.budget.mu is not None:
            return pure_epsilon(round_down(left.mu_squared)), 0.0
        if self.budget.rho is not None:
            return _epsilon_of_rho(left.rho), 0.0
        return round_down(left.epsilon), round_down(left.delta)


def _epsilon_of_rho(rho: Total) -> float:
    """Return the largest epsilon for which epsilon**2 / 2 is at most rho."""
    epsilon = 2 * math.sqrt(max(float(rho), 0.0) / 2)
    while epsilon and to_decimal(epsilon) ** 2 / 2 > rho:
        epsilon = math.nextafter(epsilon, 0.0)
    return epsilon


def describe_conversion(guarantee: PrivacyGuarantee, budget: Budget) -> str:
    """Explain why a charge differs from the guarantee of its release; empty if it does not."""
    if guarantee.relation != "add_remove" or budget.relation in (None, "add_remove"):
        return ""
    stated = format_amounts(guarantee.epsilon, guarantee.delta)
    return (
        f"{stated} for {guarantee._format_neighbors()}, counted twice for replacing in "
        "this ledger"
    )
