"""What a ledger shows: its charges, and what is spent and left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from skdp.markup import html_table, html_text, written_row
from skdp.privacy._guarantee import Relation
from skdp.privacy.ledger._account import Account, Charge, largest_charge
from skdp.privacy.ledger._sums import Sums

_REPORT = [
    "what",
    "epsilon",
    "delta",
    "rho",
    "relation",
    "trust",
    "scope",
    "mechanism",
    "secure",
    "time",
]
_MOST_SHOWN = 100
"""The most charges that are shown in HTML: the last ones."""


class Amount(NamedTuple):
    """A part of a budget."""

    epsilon: float
    delta: float


def list_charges(charges: Sequence[Charge], relation: Relation | None) -> pd.DataFrame:
    """List charges in order, in the relation of the ledger."""
    table = pd.DataFrame(
        [written_row(_row(charge.to(relation))) for charge in charges], columns=_REPORT
    )
    kinds = dict.fromkeys(("epsilon", "delta", "rho"), float) | {"secure": bool}
    for (
        name,
        kind,
    ) in kinds.items():  # `astype` of several columns at once takes three times as long
        table[name] = table[name].astype(kind)
    table["time"] = pd.to_datetime(table["time"], utc=True)
    return table


def html_charges(
    ledger: Any, charges: Sequence[Charge], relation: Relation | None
) -> str:
    """Show a ledger, and its last charges, as HTML."""
    more = (
        f"<p>… and {len(charges) - _MOST_SHOWN:,} before them</p>"
        if len(charges) > _MOST_SHOWN
        else ""
    )
    table = html_table(list_charges(charges[-_MOST_SHOWN:], relation))
    return f"<div><p><code>{html_text(ledger)}</code></p>{table}{more}</div>"


def show_balance(account: Account) -> pd.DataFrame:
    """Return a row of the budget, of what is spent and of what is left, in all forms."""
    budget, left = account.budget, _numbers(account.left())
    limits = [budget.epsilon, budget.delta, budget.rho, budget.mu]
    if budget.filter_delta:
        limits[2] = float(budget.limits.rho)
        left[:3] = [*largest_charge(account), max(left[2], 0.0)]
    spent = _numbers(account.sums)
    spent[:2] = account.spent
    rows = [[math.nan if one is None else one for one in limits], spent, left]
    return pd.DataFrame(
        rows, ["budget", "spent", "remaining"], ["epsilon", "delta", "rho", "mu"]
    )


def _numbers(sums: Sums) -> list[float]:
    *others, square = (
        float(one) for one in (sums.epsilon, sums.delta, sums.rho, sums.mu_squared)
    )
    return [*others, math.sqrt(max(square, 0.0))]


def _row(charge: Charge) -> tuple[Any, ...]:
    """Return a row of the report, in the relation of the ledger."""
    charged = charge.guarantee.to(charge.relation)
    return (
        charge.what,
        float(charge.epsilon),
        float(charge.delta),
        charged.rho,
        charge.relation,
        charged.trust,
        ", ".join(map(str, charged.scope)),
        str(charged.mechanism),
        bool(charged.secure),
        charge.time,
    )
