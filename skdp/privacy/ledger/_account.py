"""What a ledger admits: its budget, its charges, and sums of constant size.

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

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Context, Decimal
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
    LaplaceLoss,
    Loss,
    PureLoss,
    StatedLoss,
    pure_epsilon,
    pure_mu,
    pure_rho,
)

# Floats have digits from 1e308 to 5e-324, so sums of them have some 640, and half the
# square of a float (with at most 17 digits) has fewer than 700: all are exact.
EXACT = Context(prec=800)

INFINITE = Decimal("Infinity")


def as_decimal(number: Any) -> Decimal:
    """Return the shortest decimal of a number, rounded up to a float."""
    return Decimal(repr(round_up(check_epsilon(number, zero=True))))


def rounded_down(amount: Decimal) -> float:
    """Return the largest float whose shortest decimal is at most an amount."""
    nearest = float(amount)
    if math.isfinite(nearest) and Decimal(repr(nearest)) > amount:
        return math.nextafter(nearest, -math.inf)
    return nearest


class Sums(NamedTuple):
    """Sums over charges in one relation; infinite if a charge has no such amount."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    # Of the deltas of charges without a rho.
    failure: Decimal = Decimal(0)
    rho: Decimal = Decimal(0)
    mu_squared: Decimal = Decimal(0)

    def plus(self, sums: Sums) -> Sums:
        return Sums(*map(EXACT.add, self, sums))

    def times(self, count: int) -> Sums:
        return Sums(*[EXACT.multiply(amount, count) for amount in self])

    def minus(self, sums: Sums) -> Sums:
        """Subtract sums of which none is infinite where this one is not."""
        return Sums(*map(_difference, self, sums))


NOTHING = Sums()


def total(sums: Iterable[Sums]) -> Sums:
    """Add up sums."""
    result = NOTHING
    for amounts in sums:
        result = result.plus(amounts)
    return result


def _difference(minuend: Decimal, subtrahend: Decimal) -> Decimal:
    return minuend if minuend == INFINITE else EXACT.subtract(minuend, subtrahend)


# Most charges of a ledger have the same guarantees.
@lru_cache(maxsize=256)
def sums_of(guarantee: PrivacyGuarantee) -> Sums:
    """Return what a release with a guarantee adds."""
    sums = total(map(_loss_sums, guarantee._all_losses()))
    # Losses are rounded up, and those of many parts may add up to more than what is
    # stated of all together.
    if guarantee.rho is not None:
        sums = sums._replace(rho=min(sums.rho, as_decimal(guarantee.rho)))
    if guarantee.delta == 0 and guarantee.losses:
        stated = _loss_sums(StatedLoss(guarantee.epsilon))
        sums = sums._replace(
            rho=min(sums.rho, stated.rho),
            mu_squared=min(sums.mu_squared, stated.mu_squared),
        )
    return sums._replace(
        epsilon=as_decimal(guarantee.epsilon), delta=as_decimal(guarantee.delta)
    )


def _loss_sums(loss: Loss) -> Sums:
    """Return what all releases of a loss add, beside epsilon and delta."""
    if isinstance(loss, GaussianLoss):
        return _gaussian_sums(loss).times(loss.count)
    if isinstance(loss, StatedLoss):
        return _stated_sums(loss).times(loss.count)
    if isinstance(loss, PureLoss | LaplaceLoss):
        return _pure_sums(loss).times(loss.count)
    raise TypeError(f"a ledger cannot add up a {type(loss).__name__}")


def _gaussian_sums(loss: GaussianLoss) -> Sums:
    mu = as_decimal(loss.mu)
    return Sums(rho=half_square(mu), mu_squared=EXACT.multiply(mu, mu))


def _stated_sums(loss: StatedLoss) -> Sums:
    epsilon = as_decimal(loss.epsilon)
    mu_squared = INFINITE if loss.delta else _mu_squared(loss._pure)
    if loss.rho is None:
        # It is epsilon-DP unless it fails, and so has rho = epsilon**2 / 2 (Bun and
        # Steinke 2016, proposition 1.4).
        return Sums(
            failure=as_decimal(loss.delta),
            rho=half_square(epsilon),
            mu_squared=mu_squared,
        )
    # With a rho, delta is one conversion of it.
    return Sums(rho=as_decimal(loss.rho), mu_squared=mu_squared)


def _pure_sums(loss: PureLoss | LaplaceLoss) -> Sums:
    share = 1.0
    if isinstance(loss, PureLoss) and loss._pure:
        share = loss.share
    epsilon = as_decimal(loss._pure)
    # Infinite where floats overflow.
    rho = Decimal(repr(pure_rho(float(loss._pure), share)))
    return Sums(
        rho=min(half_square(epsilon), rho), mu_squared=_mu_squared(loss._pure, share)
    )


def half_square(number: Decimal) -> Decimal:
    """Return the rho of an epsilon, or of a mu."""
    return EXACT.divide(EXACT.multiply(number, number), 2)


def _mu_squared(epsilon: Fraction, share: float = 1.0) -> Decimal:
    mu = pure_mu(epsilon, share)
    if mu is None:
        return INFINITE
    return EXACT.multiply(as_decimal(mu), as_decimal(mu))


class BudgetExceeded(RuntimeError):
    """A release would have exceeded the budget; nothing was released or charged.

    Examples
    --------
    >>> from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
    >>> try:
    ...     PrivacyLedger(epsilon=1.0).charge(PrivacyGuarantee(2.0), "survey")
    ... except BudgetExceeded as refusal:
    ...     print(refusal)
    survey asks for epsilon 2.0; the ledger has 1.0 of 1.0 left. Nothing was released. ...
    """


@dataclass(frozen=True)
class Budget:
    """The limit on all charges together: epsilon and delta, or rho, or mu."""

    epsilon: float | None
    delta: float | None
    relation: Relation | None
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
        amounts = [number for number in (epsilon, rho, mu) if number is not None]
        if len(amounts) != 1:
            raise ValueError("a budget is one of epsilon (with delta), rho and mu")
        if epsilon is None and delta:
            raise ValueError(
                "delta is given together with epsilon; a budget of rho or mu has none"
            )
        if rho is not None:
            limit = _limit(rho, "rho")
            return cls(None, None, relation, rho=limit, columns=names)
        if mu is not None:
            limit = _limit(mu, "mu")
            return cls(None, None, relation, mu=limit, columns=names)
        delta = delta or 0.0
        check_delta(delta)
        limit = _limit(epsilon, "epsilon")
        return cls(limit, float(delta), relation, columns=names)

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
        endless = Sums(*[INFINITE] * len(Sums._fields))
        if self.rho is not None:
            return endless._replace(failure=Decimal(0), rho=as_decimal(self.rho))
        if self.mu is not None:
            mu = as_decimal(self.mu)
            return endless._replace(
                failure=Decimal(0), mu_squared=EXACT.multiply(mu, mu)
            )
        return endless._replace(
            epsilon=as_decimal(self.epsilon), delta=as_decimal(self.delta)
        )

    def _content(self) -> dict[str, Any]:
        content = asdict(self)
        return content | _columns_content(content.pop("columns"))

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        number = partial(fields.number, check=partial(check_epsilon, zero=True))
        numbers = {}
        for name in ("epsilon", "delta", "rho", "mu"):
            numbers[name] = fields.optional(name, number)
        relation = fields.optional(
            "relation", partial(fields.one_of, options=RELATIONS)
        )
        return cls.checked(relation=relation, columns=_read_columns(fields), **numbers)


def _columns_content(columns: tuple[str | int, ...]) -> dict[str, Any]:
    """Write protected columns; of whole records, nothing."""
    return {"columns": list(columns)} if columns else {}


def _read_columns(fields: Fields) -> tuple[str | int, ...]:
    return fields.columns("columns") if fields.has("columns") else ()


def _limit(number: Any, name: str) -> float:
    limit = float(check_epsilon(number, name=name))
    # A fraction may be below the floats.
    check_epsilon(limit, name=name)
    return limit


@dataclass(frozen=True)
class Charge:
    """A charge, one line of the book."""

    what: str
    guarantee: PrivacyGuarantee
    relation: Relation
    # What it adds to those of the ledger, in this relation.
    sums: Sums
    time: str
    # The protected columns of its relation.
    columns: tuple[str | int, ...] = ()

    @classmethod
    def now(
        cls,
        what: str,
        guarantee: PrivacyGuarantee,
        relation: Relation,
        columns: tuple[str | int, ...] = (),
    ) -> Self:
        """Make a charge in the relation of a ledger."""
        sums = sums_of(guarantee.to(relation, columns or None))
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        return cls(written_text(what), guarantee, relation, sums, time, columns=columns)

    @property
    def stated(self) -> PrivacyGuarantee:
        """The guarantee in its relation."""
        return self.guarantee.to(self.relation, self.columns or None)

    def _content(self) -> dict[str, Any]:
        content = {
            "what": self.what,
            "epsilon": float(self.sums.epsilon),
            "delta": float(self.sums.delta),
            "relation": self.relation,
            "guarantee": self.guarantee._content(),
            "time": self.time,
        }
        return content | _columns_content(self.columns)

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        what = fields.text("what")
        epsilon, delta = read_amounts(fields)
        relation = fields.one_of("relation", RELATIONS)
        columns = _read_columns(fields)
        check_columns(relation, columns)
        try:
            guarantee = _read_guarantee(json.dumps(fields.take("guarantee")))
            sums = sums_of(guarantee.to(relation, columns or None))
        except ValueError as error:
            place = fields.at("guarantee")
            raise ValueError(f"{place} is none of its charge: {error}") from None
        if (epsilon, delta) != (sums.epsilon, sums.delta):
            raise ValueError(
                f"{fields.at('epsilon')} or its delta is not what its guarantee states"
            )
        time = _read_time(fields)
        return cls(what, guarantee, relation, sums, time, columns)


# Most charges of a ledger have the same guarantees.
@lru_cache
def _read_guarantee(text: str) -> PrivacyGuarantee:
    fields = Fields(json.loads(text))
    guarantee = PrivacyGuarantee._of(fields)
    fields.close()
    return guarantee


def read_amounts(fields: Fields) -> tuple[Decimal, Decimal]:
    """Read an epsilon and a delta, which may be sums."""
    at_least_0 = partial(check_epsilon, zero=True)
    epsilon = fields.number("epsilon", at_least_0)
    delta = fields.number("delta", at_least_0)
    return Decimal(repr(epsilon)), Decimal(repr(delta))


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
    """The state of a ledger that the next charge needs, of constant size."""

    # Its relation is the relation of the first charge, if it was not declared.
    budget: Budget
    sums: Sums = NOTHING
    n_charges: int = 0

    def charge_of(self, what: str, guarantee: PrivacyGuarantee) -> Charge:
        """Return the charge of a release, in the relation of the ledger."""
        columns = self.budget.columns
        is_of_values = guarantee.relation == "replace_values"
        if is_of_values and not columns:
            raise ValueError(
                f"{what} protects the values of {written_names(guarantee.scope)}, and may "
                "show all other columns exactly: a budget for whole records would not "
                f"hold. {_OF_VALUES.format(columns=list(guarantee.scope))}. Nothing "
                "was released"
            )
        relation = self.budget.relation or guarantee.relation
        try:
            return Charge.now(what, guarantee, relation, columns)
        except ValueError as error:
            raise self._refusal(what, error) from None

    def admit(self, charge: Charge) -> Account:
        """Return the account after a charge, if the budget covers it."""
        try:
            after = self.after(charge)
        except ValueError as error:
            raise self._refusal(charge.what, error) from None
        if not after.fits:
            raise BudgetExceeded(
                f"{charge.what} asks for {_shortfall(charge, self, after)} left. "
                "Nothing was released. "
                f"It would be charge {after.n_charges:,} of the ledger."
            )
        return after

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

    def after(self, charge: Charge) -> Account:
        """Return the account after one more charge, whether or not it fits."""
        budget = self.budget
        if charge.columns != budget.columns:
            raise ValueError("the charge is for other columns than the ledger")
        if budget.relation is None:
            budget = replace(budget, relation=charge.relation)
        elif budget.relation != charge.relation:
            raise ValueError(
                "the charge is in another neighbouring relation than the ledger"
            )
        return replace(
            self,
            budget=budget,
            sums=self.sums.plus(charge.sums),
            n_charges=self.n_charges + 1,
        )

    def exceeded_names(self) -> list[str]:
        """Return the sums that are larger than their limits."""
        limits = self.budget.limits
        return [
            name
            for name, amount, limit in zip(Sums._fields, self.sums, limits, strict=True)
            if amount > limit
        ]

    @property
    def fits(self) -> bool:
        """Whether the budget admits all charges."""
        return not self.exceeded_names()

    @property
    def spent(self) -> tuple[float, float]:
        """The sums of epsilon and delta."""
        return float(self.sums.epsilon), float(self.sums.delta)

    def left(self) -> Sums:
        """Return what is left of each limit."""
        return self.budget.limits.minus(self.sums)

    def largest_charge(self) -> tuple[float, float]:
        """Return the largest epsilon and delta of one more charge without a rho."""
        remaining = self.left()
        if self.budget.mu is not None:
            return pure_epsilon(_at_least_0(remaining.mu_squared)), 0.0
        if self.budget.rho is not None:
            return _epsilon_of_rho(remaining.rho), 0.0
        return rounded_down(remaining.epsilon), rounded_down(remaining.delta)


_OF_VALUES = (
    "Charge a ledger of its own for these columns, such as "
    "PrivacyLedger(epsilon=..., relation='replace_values', columns={columns})"
)


def _at_least_0(amount: Decimal) -> float:
    return max(rounded_down(amount), 0.0)


def _epsilon_of_rho(rho: Decimal) -> float:
    """Return the largest epsilon of which epsilon**2 / 2 is at most rho."""
    epsilon = 2 * math.sqrt(max(float(rho), 0.0) / 2)
    while epsilon and half_square(as_decimal(epsilon)) > rho:
        epsilon = math.nextafter(epsilon, 0.0)
    return epsilon


_LABELS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "failure": "delta of its own",
    "rho": "rho",
    "mu_squared": "mu squared",
}


def _shortfall(charge: Charge, account: Account, account_after: Account) -> str:
    """Show what a charge asks for beyond the budget, and what there is."""
    limits = account_after.budget.limits
    remaining = limits.minus(account.sums)
    name = account_after.exceeded_names()[0]
    request = f"{_LABELS[name]} {_number(getattr(charge.sums, name))}"
    amount_left = _at_least_0(getattr(remaining, name))
    balance = f"{amount_left} of {float(getattr(limits, name))}"
    return f"{request}; the ledger has {balance}"


def _number(amount: Decimal) -> str:
    if amount.is_finite():
        return str(float(amount))
    return "without a limit, as it states none"


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
