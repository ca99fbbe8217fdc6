"""What a statement means for people."""

from __future__ import annotations

import math
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import shown
from skdp.privacy._odds import best_guess, largest_ratio
from skdp.privacy.statement._facts import AS_CHARGED, AS_IS, Facts
from skdp.privacy.statement._flow import EVERYTHING

SECURE = (
    "the operating system's cryptographically secure generator, or a secret key where "
    "reports are permanent"
)

SEEDED = (
    "a seed was set (its value is not recorded): NOT SECURE against those who know or "
    "guess it"
)

NO_BITS = "no step of skdp draws random bits"

COUNTS_TWICE = (
    "replacing is removing one record and adding another, so that a guarantee for "
    "adding or removing one counts twice"
)

_PROTECTED_AGAINST = {
    "local": "the collector of the reports included",
    "shuffle": (
        "but not against those who see the reports before they are shuffled or summed"
    ),
    "central": "but not against the curator who holds the table",
}

_TRUSTED = {
    "local": ("the process that randomises each record; nobody who receives reports"),
    "shuffle": (
        "the process that randomises each record, and those who shuffle or sum the "
        "reports: not to look at single ones, and to have as many honest ones as is "
        "stated"
    ),
    "central": (
        "the curator: the process and the people that hold the table before noise is "
        "added"
    ),
}

# The most columns named together; of more, their number is given.
_MOST_NAMES = 5


def amounts(guarantee: PrivacyGuarantee) -> str:
    """Write epsilon, and delta if there is one."""
    epsilon = f"epsilon {shown(guarantee.epsilon)}"
    if not guarantee.delta:
        return epsilon
    return f"{epsilon}, delta {shown(guarantee.delta)}"


def conversion(guarantee: PrivacyGuarantee) -> str:
    """Say what a guarantee for adding or removing a record is for replacing one."""
    converted = guarantee.to("replace")
    return (
        f"{amounts(guarantee)} for adding or removing a record is "
        f"{amounts(converted)} for replacing one, which is both"
    )


def headline(facts: Facts) -> str:
    """Say which columns are released unprotected, and what is promised of others."""
    texts = [_unprotected_in_words(facts)]
    if facts.target_learners:
        texts.append(f"The target is {AS_IS}")
    if facts.columns_at_fit:
        texts.append(f"Protected at fit only: {listed(facts.columns_at_fit)}")
    if facts.waiting_columns:
        texts.append(f"Without a guarantee yet: {listed(facts.waiting_columns)}")
    if facts.planned:
        texts.append(f"Not fitted yet: {listed(facts.planned)}")
    if facts.total is None:
        texts.append("No column has a guarantee")
    elif facts.planned:
        texts.append(f"Set to spend: {facts.total}")
    else:
        texts.append(f"Guarantee: {facts.total}")
    return f"{'. '.join(texts)}."


def _unprotected_in_words(facts: Facts) -> str:
    if all(row["protection"] == AS_CHARGED for row in facts.columns):
        return (
            "What was charged to a ledger; columns that left without a charge are not "
            "known to it"
        )
    unprotected = facts.unprotected_columns
    if EVERYTHING in unprotected:
        return "All columns are released unprotected"
    if not unprotected:
        return "No column is released unprotected"
    n_columns = len({str(row["column"]) for row in facts.columns})
    columns = "1 column" if n_columns == 1 else f"{n_columns} columns"
    verb = "is" if len(unprotected) == 1 else "are"
    return (
        f"{len(unprotected)} of {columns} {verb} released unprotected: "
        f"{listed(unprotected)}"
    )


def listed(names: list[str]) -> str:
    """List names; of many, the number of the last ones."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"


def _unit_of(total: PrivacyGuarantee) -> str:
    """Return what is protected as a whole."""
    return "record" if total.max_rows_per_person == 1 else "person"


def meaning(facts: Facts) -> dict[str, Any] | None:
    """Return the total in words and odds; None if nothing is promised."""
    total = facts.total
    if total is None:
        return None
    against = f"everyone who sees what is released, {_PROTECTED_AGAINST[total.trust]}"
    if not total.secure:
        against = f"NOT SECURE, only those who do not know the seed: {against}"
    ratio = largest_ratio(total.epsilon)
    return {
        "text": str(total),
        "protected": _protected(total),
        "against": against,
        "trusted": _TRUSTED[total.trust],
        "unit": _unit(total),
        "neighbours": _neighbours(total),
        "largest_ratio": None if math.isinf(ratio) else ratio,
        "best_guess": best_guess(total.epsilon, total.delta),
        "odds": total.in_odds(),
    }


def _one(total: PrivacyGuarantee) -> str:
    if total.max_rows_per_person == 1:
        return "record"
    return f"person with up to {total.max_rows_per_person} records"


def _protected(total: PrivacyGuarantee) -> str:
    columns = ", ".join(map(str, total.scope))
    is_record = total.max_rows_per_person == 1
    if total.relation == "replace" and is_record:
        return f"the values of {columns} in each record"
    if total.relation == "replace":
        return f"the values of {columns} of each {_one(total)}"
    they_are = "it is" if is_record else "they are"
    return (
        f"each {_one(total)}, in the columns {columns}; whether {they_are} in the data "
        "at all"
    )


def _neighbours(total: PrivacyGuarantee) -> str:
    if total.relation == "add_remove":
        return f"one {_one(total)} added or removed"
    return (
        f"one {_one(total)} replaced by another; the number of {_unit_of(total)}s is "
        "public"
    )


def _unit(total: PrivacyGuarantee) -> str:
    more = " and delta larger still" if total.delta else ""
    rows = total.max_rows_per_person
    if rows == 1:
        return (
            "one record (a row). A person with several records is protected less: with "
            f"k records, epsilon is k times as large{more}, unless the mechanism says "
            "how many rows a person may have"
        )
    return (
        f"one person with up to {rows} records (rows). Where more records than these "
        f"are used, a person is protected less: with k times {rows} records, epsilon "
        f"is k times as large{more}"
    )


def warnings(facts: Facts) -> list[str]:
    """Return what a reader must know first."""
    texts = []
    for name, step in facts.read_columns:
        texts.append(
            f"The categories of {name} were read from the data by {step}: which values "
            "occur is not protected."
        )
    if facts.seeded:
        texts.append(
            "The random bits of these steps come from a seed, NOT SECURE: "
            f"{', '.join(facts.seeded)}."
        )
    if facts.planned:
        texts.append(
            "What is stated of these steps is what they are set to spend; they are not "
            f"fitted, and have released nothing yet: {', '.join(facts.planned)}."
        )
    texts += [
        f"The guarantee of {step} is that of its author: it is not a class of skdp."
        for step in facts.foreign
    ]
    if facts.total is None:
        texts.append("No column has a guarantee.")
    return texts


def randomness(facts: Facts) -> dict[str, Any]:
    """Return the source of the random bits."""
    source = NO_BITS
    if facts.secure:
        source = SECURE
    elif facts.seeded:
        source = SEEDED
    return {"secure": facts.secure, "source": source}


def not_covered(facts: Facts) -> list[str]:
    """List what the guarantee does not cover."""
    total = facts.total
    texts = [f"{name}: {protection}." for name, protection in facts.open_columns]
    if total is not None and total.relation == "replace":
        if _unit_of(total) == "record":
            texts.append("The number of records, their order and their index.")
        else:
            texts.append("Which persons there are, and their order.")
    texts += [
        "What other columns of the same record, and other sources, tell of the "
        "protected ones.",
        "Releases that are charged to no ledger listed here, or made by others about "
        "the same persons.",
        "What holds for everybody, whether or not their record is in the data.",
        "Errors and warnings of steps that are not of skdp: whether there is one may "
        "show a single record.",
    ]
    uncharged = [step.step for step in facts.steps if not step.charged]
    if uncharged:
        texts.append(
            "Further calls of these steps, which charge no ledger: "
            f"{', '.join(uncharged)}."
        )
    if total is not None and total.trust == "shuffle":
        texts.append(
            "Reports that still have their order, an index or an id: only the local "
            "guarantee holds."
        )
    if total is not None and total.trust == "central":
        texts.append("What the curator does with the table, and the table itself.")
    else:
        texts.append(
            "Values before they are randomised, on the machine that randomises them."
        )
    return texts
