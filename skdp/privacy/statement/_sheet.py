"""What an evaluator of a guarantee looks at, level by level, each answered or "not covered"."""

from __future__ import annotations

from skdp.privacy._numbers import shown
from skdp.privacy.statement._facts import Facts
from skdp.privacy.statement._meaning import (
    composition,
    meaning,
    randomness,
    sentence,
    unit_of,
)

# The items are those of NIST SP 800-226 (2025), "Guidelines for evaluating differential privacy guarantees", in our
# words: from the parameters at the top to the collection of the data at the bottom.

EVIDENCE, PARTLY, OPEN = "evidence", "partly", "not covered"
Item = tuple[str, str, str, str]


def evaluation(facts: Facts) -> list[dict[str, str]]:
    """Answer each item."""
    items = [
        *_guarantee(facts),
        *_algorithms(facts),
        *_system(facts),
        *_surroundings(facts),
    ]
    return [
        dict(zip(("level", "item", "status", "answer"), item, strict=True))
        for item in items
    ]


def _guarantee(facts: Facts) -> list[Item]:
    level, means, total = "1. The guarantee", meaning(facts), facts.total
    if total is None or means is None:
        nothing = "No column is protected."
        return [
            (level, item, OPEN, nothing)
            for item in ("epsilon and delta", "unit of privacy", "definition")
        ]
    rho = "" if total.rho is None else f", rho = {shown(total.rho)} (zero-concentrated)"
    named = "Pure" if total.delta == 0 else "Approximate"
    amounts = f"epsilon = {shown(total.epsilon)}, delta = {shown(total.delta)}{rho}"
    return [
        (level, "epsilon and delta", EVIDENCE, f"{amounts}. {means['odds']}"),
        (level, "unit of privacy", EVIDENCE, f"{sentence(means['unit'])}."),
        (
            level,
            "definition",
            EVIDENCE,
            f"{named} differential privacy; neighbours: {means['neighbours']}.",
        ),
    ]


def _algorithms(facts: Facts) -> list[Item]:
    level, ours = "2. The algorithms", [one for one in facts.steps if one.known]
    others = facts.others
    doubt = f" Not by skdp, so not answered: {', '.join(others)}." if others else ""
    status = OPEN if not ours else PARTLY if others else EVIDENCE
    mechanisms = (
        "; ".join(dict.fromkeys(one.guarantee.mechanism or one.step for one in ours))
        or "none of skdp"
    )
    exact = "Draws are exact: integers and fractions decide them, and epsilon is computed back from these integers."
    return [
        (
            level,
            "mechanisms and their correctness",
            status,
            f"{mechanisms}. Proofs, and tests that enumerate the probabilities, are in the documentation.{doubt}",
        ),
        (
            level,
            "floating point",
            status,
            f"{exact if ours else 'No step of skdp.'}{doubt}",
        ),
        (level, "composition", *_composition(facts)),
        (
            level,
            "utility",
            OPEN,
            "Errors are not stated here; skdp.evaluation measures them.",
        ),
        (
            level,
            "bias",
            OPEN,
            "What noise does to small groups is not stated here; skdp.metrics measures it.",
        ),
    ]


def _composition(facts: Facts) -> tuple[str, str]:
    text, complete = composition(facts)
    return EVIDENCE if complete else PARTLY, text


def _system(facts: Facts) -> list[Item]:
    level, total, means = "3. The system", facts.total, meaning(facts)
    read = [name for name, _ in facts.read_columns]
    open_columns = list(dict.fromkeys(name for name, _ in facts.open_columns))
    counts = (
        ""
        if total is None or total.relation == "add_remove"
        else f" The number of {unit_of(total)}s is public."
    )
    return [
        (
            level,
            "trust model",
            OPEN if total is None or means is None else EVIDENCE,
            "Nobody is protected."
            if total is None or means is None
            else f"{sentence(total.trust)} model. Protected against {means['against']}. Trusted: {means['trusted']}.",
        ),
        (
            level,
            "randomness",
            _randomness_status(facts),
            f"{sentence(randomness(facts)['source'])}.",
        ),
        (
            level,
            "values read from the data",
            OPEN if read else EVIDENCE,
            f"Which values occur is released of: {', '.join(read)}."
            if read
            else "No step of skdp has read its categories from the data.",
        ),
        (
            level,
            "unprotected quantities",
            PARTLY if open_columns or counts else EVIDENCE,
            f"Not protected: {', '.join(open_columns) if open_columns else 'no column'}.{counts}",
        ),
        (
            level,
            "side channels",
            PARTLY,
            "Errors, warnings, logs and metadata of skdp hold no value of the data. How long a call takes, and what "
            "memory it needs, is not protected.",
        ),
    ]


def _randomness_status(facts: Facts) -> str:
    if not facts.secure:
        return OPEN
    return PARTLY if facts.others else EVIDENCE


def _surroundings(facts: Facts) -> list[Item]:
    level = "4. The surroundings"
    versions = ", ".join(f"{name} {number}" for name, number in facts.versions.items())
    return [
        (
            level,
            "software",
            PARTLY,
            f"{versions}. Other packages, the operating system and the machine: not stated.",
        ),
        (
            level,
            "access to the data",
            OPEN,
            "Who can read the table, its copies, keys and ledger is not known here.",
        ),
        (
            level,
            "collection of the data",
            OPEN,
            "How data were collected, consent and storage are not known here.",
        ),
        (
            level,
            "users and queries",
            OPEN,
            "Who receives the release, and what else they know, is not known here.",
        ),
    ]
