"""What a statement means for people, and what an evaluator of it looks at."""

from __future__ import annotations

import math
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import shown
from skdp.privacy._odds import best_guess, largest_ratio
from skdp.privacy.ledger import PrivacyLedger
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


# What an evaluator of a guarantee looks at, level by level, each answered or "not
# covered". The items are those of NIST SP 800-226 (2025), "Guidelines for evaluating
# differential privacy guarantees", in our words: from the parameters at the top to the
# collection of the data at the bottom.

EVIDENCE = "evidence"
PARTLY = "partly"
OPEN = "not covered"


class _Sheet:
    """The answers of one level after the other."""

    def __init__(self) -> None:
        self.items: list[dict[str, str]] = []
        self._level = ""

    def begin(self, level: str) -> None:
        self._level = level

    def answer(self, item: str, status: str, answer: str) -> None:
        self.items.append(
            {"level": self._level, "item": item, "status": status, "answer": answer}
        )


def evaluation(facts: Facts) -> list[dict[str, str]]:
    """Answer each item."""
    sheet = _Sheet()
    sheet.begin("1. The guarantee")
    _evaluate_guarantee(facts, sheet)
    sheet.begin("2. The algorithms")
    _evaluate_algorithms(facts, sheet)
    sheet.begin("3. The system")
    _evaluate_system(facts, sheet)
    sheet.begin("4. The surroundings")
    _evaluate_surroundings(facts, sheet)
    return sheet.items


def _evaluate_guarantee(facts: Facts, sheet: _Sheet) -> None:
    total = facts.total
    if total is None:
        for item in ("epsilon and delta", "unit of privacy", "definition"):
            sheet.answer(item, OPEN, "No column is protected.")
        return
    numbers = f"epsilon = {shown(total.epsilon)}, delta = {shown(total.delta)}"
    if total.rho is not None:
        numbers += f", rho = {shown(total.rho)} (zero-concentrated)"
    sheet.answer("epsilon and delta", EVIDENCE, f"{numbers}. {total.in_odds()}")
    sheet.answer("unit of privacy", EVIDENCE, f"{_sentence(_unit(total))}.")
    kind = "Approximate" if total.delta else "Pure"
    sheet.answer(
        "definition",
        EVIDENCE,
        f"{kind} differential privacy; neighbours: {_neighbours(total)}.",
    )


def _evaluate_algorithms(facts: Facts, sheet: _Sheet) -> None:
    mechanisms = [
        step.guarantee.mechanism or step.step for step in facts.steps if step.known
    ]
    names = "; ".join(dict.fromkeys(mechanisms))
    status = EVIDENCE
    doubt = ""
    if facts.foreign:
        status = PARTLY
        doubt = f" Not by skdp, so not answered: {', '.join(facts.foreign)}."
    exact = (
        "Draws are exact: integers and fractions decide them, and epsilon is computed "
        "back from these integers."
    )
    if not mechanisms:
        status = OPEN
        names = "none of skdp"
        exact = "No step of skdp."
    sheet.answer(
        "mechanisms and their correctness",
        status,
        f"{names}. Proofs, and tests that enumerate the probabilities, are in the "
        f"documentation.{doubt}",
    )
    sheet.answer("floating point", status, f"{exact}{doubt}")
    _evaluate_composition(facts, sheet)
    sheet.answer(
        "utility", OPEN, "Errors are not stated here; skdp.evaluation measures them."
    )
    sheet.answer(
        "bias",
        OPEN,
        "What noise does to small groups is not stated here; skdp.metrics measures it.",
    )


def _evaluate_composition(facts: Facts, sheet: _Sheet) -> None:
    total = facts.total
    texts = [
        "The privacy losses of the steps add up to the total, for one fit and one call "
        "that releases rows."
    ]
    if total is not None and total.relation == "replace":
        for step in facts.steps:
            is_counted = not set(total.scope).isdisjoint(step.guarantee.scope)
            if is_counted and step.guarantee.relation == "add_remove":
                texts.append(f"The total is for replacing a record: {COUNTS_TWICE}.")
                break
    texts += map(_ledger_in_words, facts.ledgers)
    uncharged = [step.step for step in facts.steps if not step.charged]
    if not facts.ledgers:
        texts.append("No ledger counts further calls.")
    elif uncharged:
        texts.append(f"These steps charge no ledger: {', '.join(uncharged)}.")
    is_counted = bool(facts.ledgers) and not uncharged
    sheet.answer("composition", EVIDENCE if is_counted else PARTLY, " ".join(texts))


def _ledger_in_words(ledger: PrivacyLedger) -> str:
    n_charges = ledger._book.account().n_charges
    times = "once" if n_charges == 1 else f"{n_charges} times"
    text = f"A ledger is charged before anything is drawn, so far {times}:"
    epsilon, delta = map(shown, ledger.spent)
    if ledger.epsilon is None or ledger.delta is None:
        budget = ledger._book.budget.amount()
        return f"{text} epsilon {epsilon} in sum, of a filter of {budget}."
    return (
        f"{text} epsilon {epsilon} of {shown(ledger.epsilon)}, delta {delta} of "
        f"{shown(ledger.delta)}."
    )


def _evaluate_system(facts: Facts, sheet: _Sheet) -> None:
    words = meaning(facts)
    total = facts.total
    if total is None or words is None:
        sheet.answer("trust model", OPEN, "Nobody is protected.")
    else:
        sheet.answer(
            "trust model",
            EVIDENCE,
            f"{_sentence(total.trust)} model. Protected against {words['against']}. "
            f"Trusted: {words['trusted']}.",
        )
    status = OPEN
    if facts.secure:
        status = PARTLY if facts.foreign else EVIDENCE
    source = randomness(facts)["source"]
    sheet.answer("randomness", status, f"{_sentence(source)}.")
    names = ", ".join(name for name, _ in facts.read_columns)
    if names:
        sheet.answer(
            "values read from the data",
            OPEN,
            f"Which values occur is released of: {names}.",
        )
    else:
        sheet.answer(
            "values read from the data",
            EVIDENCE,
            "No step of skdp has read its categories from the data.",
        )
    names = ", ".join(dict.fromkeys(name for name, _ in facts.open_columns))
    text = f"Not protected: {names or 'no column'}."
    has_public_number = total is not None and total.relation == "replace"
    if total is not None and has_public_number:
        text += f" The number of {_unit_of(total)}s is public."
    status = PARTLY if names or has_public_number else EVIDENCE
    sheet.answer("unprotected quantities", status, text)
    sheet.answer(
        "side channels",
        PARTLY,
        "Errors, warnings, logs and metadata of skdp hold no value of the data. How "
        "long a call takes, and what memory it needs, is not protected.",
    )


def _evaluate_surroundings(facts: Facts, sheet: _Sheet) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in facts.versions.items())
    sheet.answer(
        "software",
        PARTLY,
        f"{versions}. Other packages, the operating system and the machine: not stated.",
    )
    sheet.answer(
        "access to the data",
        OPEN,
        "Who can read the table, its copies, keys and ledger is not known here.",
    )
    sheet.answer(
        "collection of the data",
        OPEN,
        "How data were collected, consent and storage are not known here.",
    )
    sheet.answer(
        "users and queries",
        OPEN,
        "Who receives the release, and what else they know, is not known here.",
    )


def _sentence(text: str) -> str:
    """Begin a text with a capital letter."""
    return text[:1].upper() + text[1:]
