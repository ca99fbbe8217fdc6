"""Division of a budget among the private steps of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

from skdp.privacy.guarantees._budget import parse_budget
from skdp.privacy.ledger._book import Account, round_down


def find_private_steps(estimator: object) -> dict[str, Any]:
    """Return the steps with the parameters `epsilon` and `ledger`, by the prefix of their parameters."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(
            f"`estimator` must be an estimator, got {type(estimator).__name__}."
        )
    params = estimator.get_params()
    names = [name for name in params if name.rpartition("__")[-1] == "epsilon"]
    prefixes = [name.removesuffix("epsilon") for name in names]
    return {
        prefix: params[prefix.removesuffix("__")] if prefix else estimator
        for prefix in prefixes
        if f"{prefix}ledger" in params
    }


def divide_epsilon(
    steps: Mapping[str, Any], total: object, counts: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the epsilons of steps that share a total, in proportion to their own epsilons.

    `total` is a number, Rho or Mu, and so are its parts. `counts` are the numbers of fits of the steps, by default 1.
    """
    own = {prefix: parse_budget(step.epsilon) for prefix, step in steps.items()}
    if len({budget.kind for budget in own.values()}) > 1:
        raise ValueError(
            "The epsilons of the private steps must be all numbers, all Rho or all Mu, "
            "because they are the proportions of the parts."
        )
    counts = counts or dict.fromkeys(own, 1)
    whole = sum(counts[x] * budget.amount for x, budget in own.items())
    fractions = {prefix: budget.amount / whole for prefix, budget in own.items()}
    budget = parse_budget(total)
    if budget.given is not None:
        return {prefix: budget.given._take(x) for prefix, x in fractions.items()}
    return {prefix: round_down(budget.amount * x) for prefix, x in fractions.items()}


def divide_delta(
    steps: Mapping[str, Any], total: Fraction, counts: Mapping[str, int]
) -> dict[str, float]:
    """Return the deltas of steps that share a total, in proportion to their own deltas > 0."""
    own = {x: Fraction(getattr(step, "delta", 0)) for x, step in steps.items()}
    whole = sum(counts[x] * delta for x, delta in own.items())
    if whole and not total:
        names = ", ".join(type(steps[x]).__name__ for x in own if own[x])
        raise ValueError(
            f"`delta` of {names} must be 0 for a ledger without a delta. Use "
            "PrivacyLedger(epsilon=..., delta=...)."
        )
    return {x: round_down(total * own[x] / whole) for x in own if own[x]}


def check_part(step: Any, part: Mapping[str, Any], account: Account) -> Account:
    """Return an account with the relation of a step; raise an error unless each fit of the step charges its part."""
    name = type(step).__name__
    try:
        # A copy, so that the parameters of the step are not changed.
        planned = copy(step).set_params(**part)._planned_guarantee()
    except (TypeError, ValueError) as error:
        # Only epsilon and delta are a budget for values that are found.
        remedy = "" if account.delta else " Use PrivacyLedger(epsilon=..., delta=...)."
        raise type(error)(f"{name}: {error}{remedy}") from None
    if planned is None or planned.trust != "central":
        raise ValueError(
            f"`estimator` must have private steps of the central model, got {name}, "
            "whose `transform` is charged, too. Set its `epsilon` and `ledger`."
        )
    if account.relation not in (None, planned.relation):
        raise ValueError(
            f"The ledger must have relation={planned.relation!r} for {name}, got "
            f"{account.relation!r}. Use a ledger with this relation."
        )
    return replace(account, relation=planned.relation)
