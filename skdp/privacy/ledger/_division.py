"""Division of a budget among the private steps of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from fractions import Fraction
from typing import Any

from skdp.privacy.guarantees._budget import parse_budget
from skdp.privacy.ledger._book import Account, round_down


def find_private_steps(estimator: Any) -> dict[str, Any]:
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


def divide_epsilon(steps: Mapping[str, Any], total: Any) -> dict[str, Any]:
    """Return the parameters `epsilon` of steps that share a total, in proportion to their own epsilons.

    `total` is a number, Rho or Mu, and so are its parts.
    """
    own = {prefix: parse_budget(step.epsilon) for prefix, step in steps.items()}
    if len({budget.kind for budget in own.values()}) > 1:
        raise ValueError(
            "The epsilons of the private steps must be all numbers, all Rho or all Mu, "
            "because they are the proportions of the parts."
        )
    whole = sum(budget.amount for budget in own.values())
    budget = parse_budget(total)
    parts: dict[str, Any] = {}
    for prefix, step in own.items():
        fraction = step.amount / whole
        part: Any = round_down(budget.amount * fraction)
        if budget.given is not None:
            part = budget.given._take(fraction)
        parts[f"{prefix}epsilon"] = part
    return parts


def divide_delta(steps: Mapping[str, Any], total: Fraction) -> dict[str, float]:
    """Return the parameters `delta` of steps that share a total, in proportion to their own deltas > 0."""
    own = {x: Fraction(getattr(step, "delta", 0)) for x, step in steps.items()}
    whole = sum(own.values())
    if whole and not total:
        names = ", ".join(type(steps[x]).__name__ for x in own if own[x])
        raise ValueError(
            f"`delta` of {names} must be 0 for a ledger without a delta. Use "
            "PrivacyLedger(epsilon=..., delta=...)."
        )
    parts = {x: total * delta / whole for x, delta in own.items() if delta}
    return {f"{x}delta": round_down(part) for x, part in parts.items()}


def check_parts(
    steps: Mapping[str, Any], parts: Mapping[str, Any], account: Account
) -> None:
    """Raise an error if a step does not accept its part of a budget, or is not charged once in each fit."""
    relation = account.relation
    for prefix, step in steps.items():
        # A copy, so that the parameters of the step are not changed.
        trial, name = copy(step), type(step).__name__
        size = len(prefix)
        own = {
            x[size:]: parts[x] for x in parts if x.rpartition("__")[0] == prefix[:-2]
        }
        try:
            planned = trial.set_params(**own)._planned_guarantee()
        except (TypeError, ValueError) as error:
            # Only epsilon and delta are a budget for values that are found.
            remedy = (
                "" if account.delta else " Use PrivacyLedger(epsilon=..., delta=...)."
            )
            raise type(error)(f"{name}: {error}{remedy}") from None
        if planned is None or planned.trust != "central":
            raise ValueError(
                f"`estimator` must have private steps of the central model, got {name}, "
                "whose `transform` is charged, too. Set its `epsilon` and `ledger`."
            )
        relation = relation or planned.relation
        if planned.relation != relation:
            raise ValueError(
                f"The ledger must have relation={planned.relation!r} for {name}, got "
                f"{relation!r}. Use a ledger with this relation."
            )
