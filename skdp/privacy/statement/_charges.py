"""The statement of a ledger: what was charged to it so far."""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

import pandas as pd

from skdp.exact import round_up
from skdp.markup import written_row
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import shown
from skdp.privacy.ledger import PrivacyLedger
from skdp.privacy.statement._columns import AS_CHARGED
from skdp.privacy.statement._facts import COLUMNS, StatedStep
from skdp.privacy.statement._result import PrivacyStatement

_ALL = "all columns"
_OF_A_LEDGER = (
    "This is the statement of a ledger: it lists what was charged, by the names that the releases gave. Which columns "
    "left without a charge, and whether each release kept what it was charged for, a ledger does not know."
)
_TOTAL = (
    "The total is what the ledger was charged so far, with the delta of the budget if it has one. What is promised "
    "however charges were chosen, and of later ones, too, is the budget."
)
_PARTS = (
    "Steps from a part of the rows were charged in `PrivacyLedger.parallel`. Their epsilon here is as if each record "
    "were in all of them, the most that one can lose. A record in some of the parts loses less: the total counts, of "
    "each record, only the releases that it is in, and is that of the record that loses most. So it may be less than "
    "the sum of the steps."
)


def statement_of_ledger(ledger: PrivacyLedger) -> PrivacyStatement:
    """State the charges of a ledger, in its relation."""
    relation = ledger.relation
    counts: Counter[tuple[str, PrivacyGuarantee, bool]] = Counter()
    for charge in ledger._book.charges():
        of_a_part = charge.of_part
        counts[
            charge.what, charge.guarantee.to(relation or charge.relation), of_a_part
        ] += 1
    rows: list[tuple[Any, ...]] = []
    steps = []
    parts_notes: tuple[str, ...] = ()
    for (what, guarantee, of_a_part), number in counts.items():
        step = what if number == 1 else f"{what}, {number} times"
        if of_a_part:
            step += (
                ", each from a part of the rows"
                if number > 1
                else ", from a part of the rows"
            )
            parts_notes = (_PARTS,)
        columns = guarantee.scope or (_ALL,)
        steps.append(StatedStep(step, replace(guarantee, scope=columns), charged=True))
        epsilon = round_up(number * Fraction(guarantee.epsilon))
        delta = round_up(number * Fraction(guarantee.delta))
        promise = (
            guarantee.mechanism,
            epsilon,
            delta,
            guarantee.relation,
            guarantee.trust,
            AS_CHARGED,
        )
        rows += [(name, step, *promise) for name in columns]
    table = pd.DataFrame(map(written_row, rows), columns=list(COLUMNS)).astype(
        {"epsilon": float, "delta": float}
    )
    total = _total(ledger, steps) if steps else None
    return PrivacyStatement(
        table, total, (*_notes(ledger), *parts_notes), tuple(steps), (ledger._record(),)
    )


def _notes(ledger: PrivacyLedger) -> tuple[str, str]:
    if not ledger.filter_delta:
        return _OF_A_LEDGER, _TOTAL
    spent = ledger.spent
    return _OF_A_LEDGER, (
        "The total is the budget, which is promised of all charges, however they were chosen, and of later ones, too. "
        f"So far, the filter counts epsilon {shown(spent.epsilon)}, delta {shown(spent.delta)}: an amount, and no "
        "guarantee, as earlier results may have decided after which charge that is."
    )


def _total(ledger: PrivacyLedger, steps: list[StatedStep]) -> PrivacyGuarantee:
    epsilon, delta = ledger.spent
    # Where earlier results decide about charges, what a filter counts so far is no guarantee, nor is a sum of deltas:
    # the last charge may be the one that shows most.
    if ledger.filter_delta and ledger.epsilon is not None:
        epsilon = ledger.epsilon
    if delta and ledger.delta is not None:
        delta = ledger.delta
    together = reduce(operator.add, (one.guarantee for one in steps))
    # Each of them once; the sums of the ledger count them all (of those from parts of the rows, what the records that
    # lose most lose), and are rounded up as the ledger has them.
    return PrivacyGuarantee(
        epsilon,
        delta,
        relation=together.relation,
        trust=together.trust,
        scope=together.scope,
        mechanism=together.mechanism,
        secure=together.secure,
        max_rows_per_person=together.max_rows_per_person,
    )
