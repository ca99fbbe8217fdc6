"""The texts of a statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skdp.privacy._guarantee import TRUSTED, PrivacyGuarantee, join_names

# Protection of a column by a step.
ROWS = "privatized rows"
ROWS_IN_FIT = "privatized rows in fit, unprotected in transform and predict"
STATISTICS = "private statistics only"
LEARNED = "unprotected: true values are learned"
RETURNED = "unprotected: true values are in the output"
INFERRED = "unprotected: categories are inferred from the data"
NOT_FITTED = "no guarantee yet: the step is not fitted"
NOT_SEEN = "no guarantee: not seen by fit"
NOT_RELEASED = "not released"
CHARGED = "as charged"

# Notes about steps, in the order of a statement.
NOTES = {
    "unknown_plan": (
        "The loss depends on the columns and rows that fit sees, so it is not known "
        "before: {steps}."
    ),
    "statistics": (
        "The guarantee is for the numbers that fit learns, not for rows: {steps}."
    ),
    "rows": (
        "Each further fit that reads the data, and each further call that privatizes "
        "rows without memoize=True, has the same cost again: {steps}. Rows that are "
        "sampled from fitted statistics cost nothing."
    ),
    "counted": (
        "transform returns as many rows as it is given, which reveals their number: "
        "{steps}. If only fit and sample are used, its guarantee for adding or removing "
        "holds as it is."
    ),
    "joint": "Columns of the same step share its epsilon: it counts once.",
    "after": "Post-processing of protected columns, which costs nothing: {steps}.",
    "target": "The target is unprotected, because true values are learned by: {steps}.",
    "meta": (
        "Fits its parts several times: {steps}. Each fit is a release, and the total "
        "loss is not known here. A ledger counts it, unless a fit gets a record several "
        "times, as in bagging, or a private target as a column, as in a chain."
    ),
    "public_columns": (
        "It is not known from which columns of X the protected columns are computed, so "
        "they have no guarantee: {steps}. Use it as the first step, with a DataFrame."
    ),
}

# Facts that a reader must know first, with the steps that they are about.
WARNINGS = {
    "inferred": (
        "Categories were inferred from the data, which reveals the observed values: "
        "{steps}."
    ),
    "seeded": "NOT SECURE, because the random bits come from a seed: {steps}.",
    "planned": (
        "Not fitted yet, so nothing was released: {steps}. The numbers are the largest "
        "that the parameters allow. A step may spend nothing, for example if bounds or "
        "categories are declared."
    ),
    "foreign": "Guarantees of other authors, for classes that are not from skdp: {steps}.",
}

HIDDEN_LEDGER = "A ledger cannot be read here, so its charges are not listed."

# Explanations of the total.
_REVEALED = (
    "Another part of the pipeline reveals which records are in the data, or how many"
)
CONVERSION = (
    f"{_REVEALED}, so the total is for {{neighbors}}: one is removed and another added, "
    "so a guarantee for adding or removing counts twice. {steps}."
)
NO_TOTAL = (
    f"{_REVEALED}, so only a guarantee for replacing {{unit}} would hold, and none "
    "follows from the guarantee of {step}."
)
PUBLIC = "All other columns are public for {steps}, so there is no total for {columns}."

LEDGER_NOTES = (
    "This is the statement of a ledger: it lists the charges, with the names that the "
    "releases gave. A ledger contains neither columns that were released without a "
    "charge, nor whether a release kept its guarantee.",
    "The total is the sum of the charges, with the delta of the budget if it has one. "
    "For a budget of rho or mu and charges with a delta, it is the epsilon of the whole "
    "budget at delta = 0.000001, because deltas of charges that depend on earlier "
    "results do not add up. For all charges, also future ones, the budget holds.",
)

_PROTECTED_AGAINST = {
    "local": "including those who collect the reports",
    "shuffle": "except those who see the reports before they are shuffled or summed",
    "central": "except the curator who holds the table",
}


def describe_total(total: PrivacyGuarantee) -> dict[str, str]:
    """Explain a total guarantee to people who do not know skdp."""
    against = f"everyone who sees the release, {_PROTECTED_AGAINST[total.trust]}"
    if not total.secure:
        against = f"NOT SECURE, only those who do not know the seed: {against}"
    return {
        "protected": _describe_protected(total),
        "against": against,
        "trusted": TRUSTED[total.trust],
        "unit": _describe_unit(total),
        "odds": total.in_odds(),
    }


def _describe_protected(total: PrivacyGuarantee) -> str:
    columns = join_names(total.scope)
    unit = total._format_unit().replace("one ", "each ")
    if total.unit == "record" and total.max_rows_per_person > 1:
        unit = f"any {unit}"
    if total.relation == "add_remove":
        presence = "the presence" if total.unit != "record" else "its presence"
        return f"{unit}, in the columns {columns}, and {presence} in the data"
    values = f"the values of {columns} in {unit}"
    if total.relation == "replace_values":
        return f"{values}; all other columns are public"
    return values


def _describe_unit(total: PrivacyGuarantee) -> str:
    larger = "k times as large"
    if total.delta:
        larger += ", and delta larger still"
    rows = total.max_rows_per_person
    if total.unit != "record":
        return (
            f"{total._format_unit()}. A single record of a person with several records is "
            "protected less, because it may replace another record of the person"
        )
    if rows == 1:
        return (
            "one record (a row). A person with k records is protected less: epsilon is "
            f"{larger}"
        )
    return (
        f"{rows} records (rows), so also a person with up to {rows}. For a person with "
        f"k times {rows} records, epsilon is {larger}"
    )


def name_randomness(guarantees: Iterable[PrivacyGuarantee]) -> str:
    """Name the source of the random bits."""
    sources = {guarantee.secure for guarantee in guarantees}
    if not sources:
        return "no step of skdp draws random bits"
    if False in sources:
        return (
            "a seed (its value is not recorded): NOT SECURE against those who know or "
            "guess it"
        )
    return (
        "the cryptographically secure generator of the operating system, or a secret key "
        "for permanent reports"
    )


def list_not_covered(
    total: PrivacyGuarantee | None, uncharged: Sequence[str]
) -> list[str]:
    """List the gaps of a total, beside the exposed columns."""
    texts = []
    who = "person" if total is not None and total.unit != "record" else "record"
    if uncharged:
        texts.append(
            f"Further calls of steps without a ledger: {', '.join(uncharged)}."
        )
    if total is not None and total.relation == "replace_values":
        columns = join_names(total.scope)
        texts += [
            f"All columns except {columns}: they may follow from the release exactly.",
            f"Which {who}s are in the table, how many there are, and their order.",
            f"Predictions of {columns} from public columns. Only the information that the "
            "release adds to them is limited.",
        ]
    elif total is not None and total.relation == "replace":
        texts.append(f"The number of {who}s, their order and their index.")
    texts += [
        "Information about the protected columns in other columns and other sources.",
        "Releases that are charged to no ledger listed here, and releases of others about "
        "the same persons.",
        "Facts about the population, which hold whether or not a record is in the data.",
        "Sample weights, sensitive features and other parameters of fit.",
        "Errors and warnings of steps that are not from skdp.",
    ]
    if total is not None and total.trust == "central":
        texts.append("The table itself, and its use by the curator.")
    else:
        texts.append("True values on the machine that randomizes them.")
    if total is not None and total.trust == "shuffle":
        texts.append(
            "Reports that still have their order, an index or an id: they have the local "
            "guarantee only."
        )
    return texts
