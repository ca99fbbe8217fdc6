"""The account of a ledger: its budget, its charges and their sums.

A budget is a filter: however the next charge is chosen from earlier results, what was
admitted is together as private as the budget states. With charges of (epsilon_i,
delta_i), of which some are rho_i-concentrated or mu_i-Gaussian-DP:

- ``epsilon, delta``: the epsilons add up to at most epsilon, the deltas to at most
  delta (basic composition).
- ``rho``: the rhos add up to at most rho, which is then concentrated ([1]_, [2]_).
- ``mu``: the squares of mu add up to at most mu**2, which is then Gaussian-DP ([3]_).
Two rules that may both fail would need a delta each, also if each charge is admitted by
one of them only: the adversary takes the one or the other as earlier results suggest.

.. [1] V. Feldman, T. Zrnic (2021). Individual privacy accounting via a Rényi filter.
   NeurIPS.
.. [2] J. Whitehouse, A. Ramdas, R. Rogers, Z. S. Wu (2023). Fully-adaptive composition
   in differential privacy. ICML.
.. [3] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian
   differential privacy. arXiv:2210.17520
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, Self

from skdp.exact import round_up
from skdp.markup import written_text
from skdp.privacy._conversions import check_delta, check_epsilon
from skdp.privacy._guarantee import (
    RELATIONS,
    PrivacyGuarantee,
    Relation,
    check_columns,
    check_relation,
    written_names,
)
from skdp.privacy._json import Fields, written_name
from skdp.privacy._losses import (
    GaussianLoss,
    Loss,
    PureLoss,
    StatedLoss,
    pure_epsilon,
    pure_mu,
    pure_rho,
)

# Exact, or infinite where a release has no such amount.
Total = Fraction | float


def to_decimal(number: Any) -> Fraction:
    """Return the shortest decimal of a number, so that 0.1 is one tenth."""
    return Fraction(str(round_up(check_epsilon(number, zero=True))))


def round_down(amount: Total) -> float:
    """Return the largest float whose shortest decimal is at most an amount."""
    nearest = float(amount)
    if math.isfinite(nearest) and Fraction(str(nearest)) > amount:
        return math.nextafter(nearest, -math.inf)
    return nearest


def _limit_to_floats(amount: Total) -> Total:
    return amount if amount <= sys.float_info.max else math.inf


class Sums(NamedTuple):
    """Sums over charges in one relation."""

    epsilon: Total = Fraction(0)
    delta: Total = Fraction(0)
    # The deltas of charges without a rho.
    failure: Total = Fraction(0)
    rho: Total = Fraction(0)
    mu_squared: Total = Fraction(0)

    def plus(self, other: Sums, count: int = 1) -> Sums:
        """Add other sums a number of times."""
        pairs = zip(self, other, strict=True)
        return Sums(*[_limit_to_floats(mine + count * more) for mine, more in pairs])


NO_CHARGES = Sums()


# Most charges of a ledger have the same guarantees.
@lru_cache(maxsize=256)
def sums_of(guarantee: PrivacyGuarantee) -> Sums:
    """Return the amounts that a release with a guarantee adds."""
    sums = NO_CHARGES
    for loss in guarantee._all_losses():
        sums = sums.plus(_loss_sums(loss), loss.count)
    # The rounded losses of many parts may exceed the stated loss of all together.
    if guarantee.rho is not None:
        sums = sums._replace(rho=min(sums.rho, to_decimal(guarantee.rho)))
    if guarantee.delta == 0 and guarantee.losses:
        stated = _loss_sums(StatedLoss(guarantee.epsilon))
        sums = sums._replace(
            rho=min(sums.rho, stated.rho),
            mu_squared=min(sums.mu_squared, stated.mu_squared),
        )
    return sums._replace(
        epsilon=to_decimal(guarantee.epsilon), delta=to_decimal(guarantee.delta)
    )


def _loss_sums(loss: Loss) -> Sums:
    """Return failure, rho and mu squared of one release with a loss."""
    if isinstance(loss, GaussianLoss):
        mu = to_decimal(loss.mu)
        return Sums(rho=_limit_to_floats(mu**2 / 2), mu_squared=_limit_to_floats(mu**2))
    if isinstance(loss, StatedLoss):
        epsilon = to_decimal(loss.epsilon)
        mu_squared = math.inf if loss.delta else _mu_squared(loss._pure)
        if loss.rho is not None:
            # Delta is one conversion of it.
            return Sums(rho=to_decimal(loss.rho), mu_squared=mu_squared)
        # It is epsilon-DP unless it fails, and so has rho = epsilon**2 / 2 (Bun and
        # Steinke 2016, proposition 1.4).
        return Sums(
            failure=to_decimal(loss.delta),
            rho=_limit_to_floats(epsilon**2 / 2),
            mu_squared=mu_squared,
        )
    assert isinstance(loss, PureLoss)
    share = loss.share if loss._pure else 1.0
    rho = pure_rho(float(loss._pure), share)
    exact_rho = Fraction(str(rho)) if math.isfinite(rho) else rho
    largest_rho = _limit_to_floats(to_decimal(loss._pure) ** 2 / 2)
    return Sums(
        rho=min(largest_rho, exact_rho), mu_squared=_mu_squared(loss._pure, share)
    )


def _mu_squared(epsilon: Fraction, share: float = 1.0) -> Total:
    mu = pure_mu(epsilon, share)
    return math.inf if mu is None else to_decimal(mu) ** 2


class BudgetExceeded(RuntimeError):
    """A release would have exceeded the budget; nothing was released or charged.

    Examples
    --------
    >>> from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
    >>> try:
    ...     PrivacyLedger(1.0).charge(PrivacyGuarantee(2.0), "survey")
    ... except BudgetExceeded as refusal:
    ...     print(refusal)
    survey asks for epsilon 2.0; the ledger has 1.0 of 1.0 left. Nothing was released.
    """


@dataclass(frozen=True)
class Budget:
    """The limit on all charges together: epsilon and delta, or rho, or mu."""

    epsilon: float | None = None
    delta: float | None = None
    relation: Relation | None = None
    rho: float | None = None
    mu: float | None = None
    # The protected columns of "replace_values", as a file has them.
    columns: tuple[str | int, ...] = ()

    @classmethod
    def checked(
        cls,
        *,
        epsilon: Any = None,
        delta: Any = None,
        relation: Any = None,
        rho: Any = None,
        mu: Any = None,
        columns: Any = None,
    ) -> Self:
        """Check the parameters of a budget."""
        if relation is not None:
            check_relation(relation)
        # Each once and in one order, so that equal budgets are equal however they are
        # declared. A number and its text are two names.
        distinct = set(map(written_name, check_columns(relation, columns)))
        names = tuple(
            sorted(distinct, key=lambda name: (str(name), isinstance(name, str)))
        )
        given = {"epsilon": epsilon, "rho": rho, "mu": mu}
        limits = {
            name: _limit(number, name)
            for name, number in given.items()
            if number is not None
        }
        if len(limits) != 1:
            raise ValueError("a budget is one of epsilon (with delta), rho and mu")
        if epsilon is not None:
            check_delta(delta or 0.0)
            limits["delta"] = float(delta or 0.0)
        elif delta:
            raise ValueError(
                "delta is given together with epsilon; a budget of rho or mu has none"
            )
        return cls(relation=relation, columns=names, **limits)

    def __str__(self) -> str:
        text = f"{self.amount()}, relation={self.relation!r}"
        return f"{text}, columns={list(self.columns)}" if self.columns else text

    @property
    def protected(self) -> tuple[str | int, ...] | None:
        """The protected columns, None for whole records."""
        return self.columns or None

    def amount(self) -> str:
        """Show its numbers as parameters of a ledger."""
        return ", ".join(f"{name}={value}" for name, value in self.numbers().items())

    def numbers(self) -> dict[str, float]:
        """Return the parameters of a ledger that are given."""
        numbers = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "mu": self.mu,
        }
        return {name: value for name, value in numbers.items() if value is not None}

    @cached_property
    def limits(self) -> Sums:
        """The largest sums."""
        endless = Sums(*[math.inf] * len(Sums._fields))
        if self.rho is not None:
            return endless._replace(failure=Fraction(0), rho=to_decimal(self.rho))
        if self.mu is not None:
            mu_squared = to_decimal(self.mu) ** 2
            return endless._replace(failure=Fraction(0), mu_squared=mu_squared)
        return endless._replace(
            epsilon=to_decimal(self.epsilon), delta=to_decimal(self.delta)
        )

    def convert(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """Convert a guarantee to the relation of the budget, if it has one."""
        relation = self.relation or guarantee.relation
        return guarantee.to(relation, columns=self.protected)

    def _content(self) -> dict[str, Any]:
        content = asdict(self)
        columns = content.pop("columns")
        return content | ({"columns": list(columns)} if columns else {})

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        number = partial(fields.number, check=partial(check_epsilon, zero=True))
        numbers = {}
        for name in ("epsilon", "delta", "rho", "mu"):
            numbers[name] = fields.optional(name, number)
        relation = fields.optional(
            "relation", partial(fields.one_of, options=RELATIONS)
        )
        columns = fields.columns("columns") if fields.has("columns") else ()
        return cls.checked(relation=relation, columns=columns, **numbers)


def _limit(number: Any, name: str) -> float:
    limit = float(check_epsilon(number, name=name))
    # A fraction may be below the floats.
    check_epsilon(limit, name=name)
    return limit


@dataclass(frozen=True)
class Charge:
    """A release that was charged, with its guarantee in the relation of the ledger."""

    what: str
    guarantee: PrivacyGuarantee
    time: str

    @classmethod
    def now(cls, what: str, guarantee: PrivacyGuarantee) -> Self:
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        return cls(written_text(what), guarantee, time)

    def _content(self) -> dict[str, Any]:
        guarantee = self.guarantee._content()
        return {"what": self.what, "guarantee": guarantee, "time": self.time}

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        what = fields.text("what")
        guarantee = fields.part("guarantee", PrivacyGuarantee._of)
        return cls(what, guarantee, _read_time(fields))


def _read_time(fields: Fields) -> str:
    place = fields.at("time")
    # Years that pandas can hold in nanoseconds.
    years = range(1970, 2262)
    try:
        time = datetime.fromisoformat(fields.text("time"))
        if time.utcoffset() is None or time.year not in years:
            raise ValueError
        return time.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        raise ValueError(
            f"{place} must be a time with its offset from UTC, such as "
            "2027-01-31T12:00:00.000000+00:00"
        ) from None


@dataclass(frozen=True)
class Account:
    """The budget of a ledger and the sums of its charges: all that the next charge needs."""

    # Its relation is the relation of the first charge, if it was not declared.
    budget: Budget
    sums: Sums = NO_CHARGES

    def charge_of(self, what: str, guarantee: PrivacyGuarantee) -> Charge:
        """Return the charge of a release, in the relation of the ledger."""
        self._check_scope(what, guarantee)
        try:
            return Charge.now(what, self.budget.convert(guarantee))
        except ValueError as error:
            raise self._refusal(what, error) from None

    def admit(self, charge: Charge) -> Account:
        """Return the account after a charge, if the budget covers it."""
        self._check_scope(charge.what, charge.guarantee)
        try:
            after = self._after(charge)
        except ValueError as error:
            raise self._refusal(charge.what, error) from None
        for name, amount, limit in zip(
            Sums._fields, after.sums, after.budget.limits, strict=True
        ):
            if amount > limit:
                added = getattr(sums_of(charge.guarantee), name)
                left = limit - getattr(self.sums, name)
                request = f"{_LABELS[name]} {_format_request(added)}"
                balance = f"{max(round_down(left), 0.0)} of {float(limit)}"
                raise BudgetExceeded(
                    f"{charge.what} asks for {request}; the ledger has {balance} left. "
                    "Nothing was released."
                )
        return after

    def _after(self, charge: Charge) -> Account:
        budget = self.budget
        if budget.relation is None:
            budget = replace(budget, relation=charge.guarantee.relation)
        if budget.convert(charge.guarantee) != charge.guarantee:
            raise ValueError("the charge is in another relation than the ledger")
        return Account(budget, self.sums.plus(sums_of(charge.guarantee)))

    def _check_scope(self, what: str, guarantee: PrivacyGuarantee) -> None:
        """Refuse a release that protects some columns only, unless the budget does."""
        if guarantee.relation == "replace_values" and not self.budget.columns:
            raise ValueError(
                f"{what} protects the values of {written_names(guarantee.scope)}, and may "
                "show all other columns exactly: a budget for whole records would not "
                "hold. Charge a ledger of its own for these columns, such as "
                "PrivacyLedger(epsilon=..., relation='replace_values', "
                f"columns={list(guarantee.scope)}). Nothing was released"
            )

    def _refusal(self, what: str, error: ValueError) -> ValueError:
        columns = ""
        if self.budget.columns:
            columns = f" of {written_names(self.budget.columns)}"
        remedy = ""
        if self.budget.relation == "add_remove":
            remedy = "; for both, make a ledger with relation='replace'"
        return ValueError(
            f"{what}: {error}; the ledger is for {self.budget.relation!r}{columns}"
            f"{remedy}"
        )

    @property
    def spent(self) -> tuple[float, float]:
        """The sums of epsilon and delta."""
        return float(self.sums.epsilon), float(self.sums.delta)

    def left(self) -> Sums:
        """Return the amount left of each limit."""
        pairs = zip(self.budget.limits, self.sums, strict=True)
        # A limited sum is finite.
        return Sums(
            *[limit if limit == math.inf else limit - amount for limit, amount in pairs]
        )

    def largest_charge(self) -> tuple[float, float]:
        """Return the largest epsilon and delta of one more charge without a rho."""
        left = self.left()
        if self.budget.mu is not None:
            return pure_epsilon(max(round_down(left.mu_squared), 0.0)), 0.0
        if self.budget.rho is not None:
            return _epsilon_of_rho(left.rho), 0.0
        return round_down(left.epsilon), round_down(left.delta)


def _epsilon_of_rho(rho: Total) -> float:
    """Return the largest epsilon of which epsilon**2 / 2 is at most rho."""
    epsilon = 2 * math.sqrt(max(float(rho), 0.0) / 2)
    while epsilon and to_decimal(epsilon) ** 2 / 2 > rho:
        epsilon = math.nextafter(epsilon, 0.0)
    return epsilon


_LABELS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "failure": "delta of its own",
    "rho": "rho",
    "mu_squared": "mu squared",
}


def _format_request(amount: Total) -> str:
    if amount == math.inf:
        return "without a limit, as it states none"
    return str(float(amount))


SEARCH_ADVICE = (
    " A search charges each fit: n fits like this one need n times as much. A local "
    "transformer in a Pipeline is charged by each `transform`: when the Pipeline is "
    "fitted, and again when it predicts."
)


@contextmanager
def search_advice() -> Iterator[None]:
    """Say of a refusal, which is of a fit or a `transform`, what a search needs."""
    try:
        yield
    except BudgetExceeded as error:
        error.args = (f"{error}{SEARCH_ADVICE}",)
        raise
