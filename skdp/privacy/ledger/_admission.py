"""Whether a budget covers a release."""

from __future__ import annotations

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger._account import Account, Charge, Sums, rounded_down, sums_of


class BudgetExceeded(RuntimeError):
    """A release would have exceeded the budget; nothing was released or charged.

    Examples
    --------
    >>> from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
    >>> try:
    ...     PrivacyLedger(epsilon=1.0).charge(PrivacyGuarantee(2.0), "survey")
    ... except BudgetExceeded as refusal:
    ...     print(refusal)
    survey asks for epsilon 2.0; the ledger has 1.0 of 1.0 left. Nothing was released.
    """


def admitted(what: str, guarantee: PrivacyGuarantee, account: Account) -> Charge:
    """Return the charge of a release if the budget covers it."""
    relation = account.relation_for(guarantee)
    try:
        charge = Charge.of(what, guarantee, relation)
        after = account.after(charge)
    except ValueError as error:
        raise ValueError(f"{what}: {error}; the ledger is for {account.budget.relation!r}") from None
    if not after.fits:
        raise BudgetExceeded(f"{what} asks for {_asked(charge, account, after)} left. Nothing was released.")
    return charge


def _asked(charge: Charge, account: Account, after: Account) -> str:
    """Show what a charge asks for beyond the budget, and what there is."""
    added, limits = sums_of(charge), after.budget.limits
    sums = account.sums if account.budget.relation in (None, charge.relation) else account.replaced
    left, over = limits.minus(sums or Sums()), [name for name in _LABELS if after.exceeds(name)]
    both = over == ["pure", "rho"]
    shown = [name for name in over if getattr(added, name).is_finite()] if both else over[:1]
    asked = " or ".join(f"{_LABELS[name]} {float(getattr(added, name))}" for name in shown)
    has = " or ".join(
        f"{max(0.0, rounded_down(getattr(left, name)))} of {float(getattr(limits, name))}" for name in shown
    )
    return f"{asked}; the ledger has {has}"


_LABELS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "failure": "delta of its own",
    "pure": "epsilon",
    "rho": "rho",
    "mu_squared": "mu squared",
}
