"""What a statement means for people: who is protected from whom, odds, warnings, and what is not covered."""

from __future__ import annotations

import math
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import shown
from skdp.privacy._odds import best_guess, largest_ratio
from skdp.privacy.statement._columns import AS_CHARGED, AS_IS, EVERYTHING
from skdp.privacy.statement._facts import Facts

SECURE = "the operating system's cryptographically secure generator, or a secret key where reports are permanent"
SEEDED = "a seed was set (its value is not recorded): NOT SECURE against those who know or guess it"


COUNTS_TWICE = (
    "replacing is removing one record and adding another, "
    "so that a guarantee for adding or removing one counts twice"
)

NO_BITS = "no step of skdp draws random bits"

_TRUST = {
    "local": (
        "the collector of the reports included",
        "the process that randomises each record; nobody who receives reports",
    ),
    "shuffle": (
        "but not against those who see the reports before they are shuffled or summed",
        "the process that randomises each record, and those who shuffle or sum the reports: not to look at single "
        "ones, and to have as many honest ones as is stated",
    ),
    "central": (
        "but not against the curator who holds the table",
        "the curator: the process and the people that hold the table before noise is added",
    ),
}
"""For each trust model, who else does or does not learn more, and who is trusted."""


def amounts(guarantee: PrivacyGuarantee) -> str:
    """Write epsilon, and delta if there is one."""
    epsilon = f"epsilon {shown(guarantee.epsilon)}"
    return f"{epsilon}, delta {shown(guarantee.delta)}" if guarantee.delta else epsilon


_FEW = 5
"""The most columns named in a headline; of more, their number is given."""


def headline(facts: Facts) -> str:
    """Say which columns are released unprotected, and what is promised about the others."""
    every = list(dict.fromkeys(str(row["column"]) for row in facts.columns))
    unprotected = facts.unprotected_columns
    if all(row["protection"] == AS_CHARGED for row in facts.columns):
        texts = [
            "What was charged to a ledger; columns that left without a charge are not known to it"
        ]
    elif EVERYTHING in unprotected:
        texts = ["All columns are released unprotected"]
    elif unprotected:
        verb = "is" if len(unprotected) == 1 else "are"
        texts = [
            f"{len(unprotected)} of {_counted(every)} {verb} released unprotected: {_listed(unprotected)}"
        ]
    else:
        texts = ["No column is released unprotected"]
    if facts.target_learners:
        texts.append(f"The target is {AS_IS}")
    if facts.columns_at_fit:
        texts.append(f"Protected at fit only: {_listed(facts.columns_at_fit)}")
    if facts.waiting_columns:
        texts.append(f"Without a guarantee yet: {_listed(facts.waiting_columns)}")
    if facts.planned:
        texts.append(f"Not fitted yet: {_listed(facts.planned)}")
    stated = "Set to spend" if facts.planned else "Guarantee"
    texts.append(
        "No column has a guarantee"
        if facts.total is None
        else f"{stated}: {facts.total}"
    )
    return f"{'. '.join(texts)}."


def _counted(names: list[str]) -> str:
    return f"{len(names)} column{'' if len(names) == 1 else 's'}"


def _listed(names: list[str]) -> str:
    if len(names) <= _FEW:
        return ", ".join(names)
    return f"{', '.join(names[:_FEW])} and {len(names) - _FEW} more"


def sentence(text: str) -> str:
    """Begin a text with a capital letter."""
    return text[:1].upper() + text[1:]


def unit_of(total: PrivacyGuarantee) -> str:
    """Return what is protected as a whole."""
    return "record" if total.max_rows_per_person == 1 else "person"


def meaning(facts: Facts) -> dict[str, Any] | None:
    """Return the total in words and odds; None if nothing is promised."""
    total = facts.total
    if total is None:
        return None
    columns = ", ".join(map(str, total.scope))
    replaced = total.relation == "replace"
    rows, unit = total.max_rows_per_person, unit_of(total)
    one = unit if rows == 1 else f"{unit} with up to {rows} records"
    known_to, trusted = _TRUST[total.trust]
    ratio = largest_ratio(total.epsilon)
    return {
        "text": str(total),
        "protected": f"the values of {columns} {'in each record' if rows == 1 else f'of each {one}'}"
        if replaced
        else f"each {one}, in the columns {columns}; whether {'it is' if rows == 1 else 'they are'} in the data at all",
        "against": (
            "" if total.secure else "NOT SECURE, only those who do not know the seed: "
        )
        + f"everyone who sees what is released, {known_to}",
        "trusted": trusted,
        "unit": _unit(rows, total.delta),
        "neighbours": f"one {one} replaced by another; the number of {unit}s is public"
        if replaced
        else f"one {one} added or removed",
        "largest_ratio": None if math.isinf(ratio) else ratio,
        "best_guess": best_guess(total.epsilon, total.delta),
        "odds": total.in_odds(),
    }


def _unit(rows: int, delta: float) -> str:
    more = " and delta larger still" if delta else ""
    if rows == 1:
        return (
            "one record (a row). A person with several records is protected less: with k records, epsilon is k times "
            f"as large{more}, unless the mechanism says how many rows a person may have"
        )
    return (
        f"one person with up to {rows} records (rows). Where more records than these are used, a person is protected "
        f"less: with k times {rows} records, epsilon is k times as large{more}"
    )


def warnings(facts: Facts) -> list[str]:
    """Return what a reader must know first."""
    texts = [
        f"The categories of {name} were read from the data by {step}: which values occur is not protected."
        for name, step in facts.read_columns
    ]
    if facts.seeded:
        texts.append(
            f"The random bits of these steps come from a seed, NOT SECURE: {', '.join(facts.seeded)}."
        )
    if facts.planned:
        texts.append(
            "What is stated of these steps is what they are set to spend; they are not fitted, and have released "
            f"nothing yet: {', '.join(facts.planned)}."
        )
    texts += [
        f"The guarantee of {step} is that of its author: it is not a class of skdp."
        for step in facts.others
    ]
    if facts.total is None:
        texts.append("No column has a guarantee.")
    return texts


def randomness(facts: Facts) -> dict[str, Any]:
    """Return the source of the random bits."""
    return {
        "secure": facts.secure,
        "source": SECURE if facts.secure else SEEDED if facts.seeded else NO_BITS,
    }


def composition(facts: Facts) -> tuple[str, bool]:
    """Return how privacy losses add up, and whether ledgers count all steps."""
    text = "The privacy losses of the steps add up to the total, for one fit and one call that releases rows. "
    converted = any(
        one.guarantee.relation == "add_remove" for one in facts.counted_steps
    )
    if facts.total is not None and facts.total.relation == "replace" and converted:
        text += f"The total is for replacing a record: {COUNTS_TWICE}. "
    if not facts.ledgers:
        return text + "No ledger counts further calls.", False
    for ledger in facts.ledgers:
        spent, limits, number = (
            ledger.spent,
            ledger._book.budget,
            len(ledger._book.charges()),
        )
        text += f"A ledger is charged before anything is drawn, so far {'once' if number == 1 else f'{number} times'}: "
        if limits.epsilon is not None and limits.delta is not None:
            text += f"epsilon {shown(spent.epsilon)} of {shown(limits.epsilon)}, delta {shown(spent.delta)} of "
            text += f"{shown(limits.delta)}. "
        else:
            text += f"epsilon {shown(spent.epsilon)} in sum, of a filter of {limits.amount()}. "
    uncharged = [one.step for one in facts.steps if not one.charged]
    if uncharged:
        text += f"These steps charge no ledger: {', '.join(uncharged)}."
    return text.rstrip(), not uncharged


def not_covered(facts: Facts) -> list[str]:
    """List what the guarantee does not cover."""
    total = facts.total
    texts = [f"{name}: {how}." for name, how in facts.open_columns]
    if total is not None and total.relation == "replace":
        of_records = "The number of records, their order and their index."
        texts.append(
            of_records
            if unit_of(total) == "record"
            else "Which persons there are, and their order."
        )
    texts += [
        "What other columns of the same record, and other sources, tell of the protected ones.",
        "Releases that are charged to no ledger listed here, or made by others about the same persons.",
        "What holds for everybody, whether or not their record is in the data.",
        "Errors and warnings of steps that are not of skdp: whether there is one may show a single record.",
    ]
    if total is not None and total.trust == "central":
        texts.append("What the curator does with the table, and the table itself.")
    else:
        if total is not None and total.trust == "shuffle":
            texts.append(
                "Reports that still have their order, an index or an id: only the local guarantee holds."
            )
        texts.append(
            "Values before they are randomised, on the machine that randomises them."
        )
    return texts
