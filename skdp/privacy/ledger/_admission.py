"""Whether a budget covers a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger._account import Account, Charge, sums_of
from skdp.privacy.ledger._sums import NOTHING, rounded_down


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
        raise ValueError(f"{what}: {error}; the ledger is for {account.budget.relation!r}") from None
    if not after.fits:
        raise BudgetExceeded(
            f"{what} asks for {_asked(charge, account, after)} left. Nothing was released. It would be charge "
            f"{after.n_charges:,} of PrivacyLedger({account.budget.amount()}): a search charges each fit, so n fits "
            "like this one need n times as much, or a `plan` of all"
        )
    return charge


def _asked(charge: Charge, account: Account, after: Account) -> str:
    """Show what a charge asks for beyond the budget, and what there is."""
    added, limits = sums_of(charge), after.budget.limits
    converted = account.budget.relation not in (None, charge.relation)
    sums = account.replaced if converted else account.sums
    left, over = limits.minus(sums or NOTHING), [name for name in _LABELS if after.exceeds(name)]
    both = over == ["pure", "rho"]
    shown = [name for name in over if getattr(added, name).is_finite()] if both else over[:1]
    amounts = {name: getattr(added, name) for name in shown}
    asked = " or ".join(
        f"{_LABELS[name]} {float(one) if one.is_finite() else 'without a limit, as it states none'}"
        for name, one in amounts.items()
    )
    has = " or ".join(
        f"{max(0.0, rounded_down(getattr(left, name)))} of {float(getattr(limits, name))}" for name in shown
    )
    reason = "with all charges counted for replacing a record, as this one is, " if converted else ""
    return f"{asked}; {reason}the ledger has {has}"


_LABELS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "failure": "delta of its own",
    "pure": "epsilon",
    "rho": "rho",
    "mu_squared": "mu squared",
}
