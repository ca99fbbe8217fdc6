"""Whether a budget covers a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger._account import Account, Charge, sums_of
from skdp.privacy.ledger._sums import NOTHING, Sums, rounded_down


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


def check_release(guarantee: Any, what: Any) -> None:
    """Check what `PrivacyLedger.charge` is given."""
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            "guarantee must be a PrivacyGuarantee, such as PrivacyGuarantee(1.0) or an estimator's guarantee_, got "
            f"{type(guarantee).__name__}"
        )
    if not isinstance(what, str):
        raise TypeError(f"what must be a str, got {type(what).__name__}")


def admitted(
    what: str,
    guarantee: PrivacyGuarantee,
    account: Account,
    *,
    reduced: Callable[[Charge], Charge] | None = None,
) -> Charge:
    """Return the charge of a release if the budget covers it, which may be less in a part of the rows."""
    relation = "replace" if reduced is not None else account.relation_for(guarantee)
    try:
        charge = Charge.of(what, guarantee, relation)
        if reduced is not None:
            charge = reduced(charge)
        after = account.after(charge)
    except ValueError as error:
        raise ValueError(
            f"{what}: {error}; the ledger is for {account.budget.relation!r}"
        ) from None
    if not after.fits:
        raise BudgetExceeded(
            f"{what} asks for {_shortfall(charge, account, after)} left. Nothing was released. It would be charge "
            f"{after.n_charges:,} of the ledger."
        )
    return charge


SEARCH_ADVICE = " A search charges each fit: n fits like this one need n times as much, or a `plan` of all."


@contextmanager
def search_advice() -> Iterator[None]:
    """Say of a refusal inside, which is of a fit or a `transform`, what a search needs."""
    try:
        yield
    except BudgetExceeded as error:
        error.args = (f"{error}{SEARCH_ADVICE}",)
        raise


def _shortfall(charge: Charge, account: Account, account_after: Account) -> str:
    """Show what a charge asks for beyond the budget, and what there is."""
    charge_sums = sums_of(charge)
    limits = account_after.budget.limits
    # The first charge for replacing a record converts those before it.
    is_converted = account.budget.relation not in (None, charge.relation)
    sums = account.replaced if is_converted else account.sums
    remaining = limits.minus(sums or NOTHING)

    exceeded_names = [name for name in _LABELS if account_after.exceeds(name)]
    requests = []
    balances = []
    for name in _reported_names(charge_sums, exceeded_names):
        requests.append(f"{_LABELS[name]} {_number(getattr(charge_sums, name))}")
        amount_left = max(0.0, rounded_down(getattr(remaining, name)))
        balances.append(f"{amount_left} of {float(getattr(limits, name))}")

    reason = ""
    if is_converted:
        reason = "with all charges counted for replacing a record, as this one is, "
    return f"{' or '.join(requests)}; {reason}the ledger has {' or '.join(balances)}"


def _reported_names(charge_sums: Sums, exceeded_names: list[str]) -> list[str]:
    """Return which of the exceeded sums a refusal names."""
    if exceeded_names != ["pure", "rho"]:
        return exceeded_names[:1]
    # Of a filter, either rule would do: a charge is told of those for which it states an amount.
    stated_names = [
        name for name in exceeded_names if getattr(charge_sums, name).is_finite()
    ]
    return stated_names or exceeded_names


def _number(amount: Decimal) -> str:
    if amount.is_finite():
        return str(float(amount))
    return "without a limit, as it states none"


_LABELS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "failure": "delta of its own",
    "pure": "epsilon",
    "rho": "rho",
    "mu_squared": "mu squared",
}
