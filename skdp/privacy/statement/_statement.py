"""Statement of the guarantees of a pipeline for each column, or of a ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

from skdp.privacy._formats import format_name, format_number
from skdp.privacy.guarantees._guarantee import PrivacyGuarantee, add_guarantees
from skdp.privacy.guarantees._totals import compose_steps
from skdp.privacy.ledger._book import Account
from skdp.privacy.ledger._ledger import PrivacyLedger
from skdp.privacy.statement._result import PrivacyStatement
from skdp.privacy.statement._steps import (
    column_names_of,
    find_feature_names,
    is_design,
    is_estimator,
    is_fitted,
    iterate_parts,
)
from skdp.privacy.statement._walk import (
    ALL_COLUMNS,
    CHARGED,
    COUNTED,
    INFERRED,
    Fact,
    StatedStep,
    Walk,
)
from skdp.randomness import check_type

# Explanations of the total.
_CONVERSION = (
    "{reason}, so the total is for {neighbors}, which is removing one and adding "
    "another. Guarantees for adding or removing count twice "
    "(their delta and rho grow by more): {steps}."
)
_NO_TOTAL = (
    "{reason}, so only a guarantee for replacing {unit} would hold, and none "
    "follows from the guarantee of {step}."
)
_LEDGER_NOTES = {
    "": (
        "The charges are as stated by the releases: keep the statement of each release, too."
    ),
    "repeated": 'The epsilon beside "n times" is for n equal charges together.',
    "replace": "A charge for adding or removing a record counts twice.",
    "delta": "If a charge has a delta, the total has the delta of the budget.",
    "rho": (
        "The total is the whole budget at delta = 0.000001, because the losses of charges "
        "that depend on earlier results do not add up. It also holds for future charges."
    ),
}
_LEDGER_NOTES["mu"] = _LEDGER_NOTES["rho"]

_SEVERAL = (
    "The total holds if the estimators and their epsilons were chosen before the first "
    "result. Otherwise, charge a ledger, and state the ledger."
)
_IF_FIXED = (
    "Quote the guess of the headline. Only if the number and the losses of these releases "
    "were fixed before the first result, quote instead: {attack} (total_if_fixed)."
)


def privacy_statement(
    estimator: object,
    X: object = None,
    *,
    trusted: Sequence[type] = (),
    title: str = "",
    purpose: str = "",
    contact: str = "",
) -> PrivacyStatement:
    """State the guarantee of each column of a pipeline, and list its unprotected columns.

    Pipelines, column transformers and feature unions are followed step by step. A step without a guarantee that is
    fitted on unprotected columns "learns true values", so these columns are unprotected. Such steps are all classes
    that are not defined in scikit-learn, imbalanced-learn or skdp (including subclasses), wrappers of skdp around such
    a class, and searches, votes, stacks and all other meta-estimators, which fit their parts several times. After a
    step that protects rows, these steps are post-processing.

    Parameters
    ----------
    estimator : estimator, ReportDesign, list of them, or PrivacyLedger
        Fitted or unfitted; the statement of an unfitted estimator is a plan. The estimators of a list are about the
        same people. For a ledger, the statement lists the charges. The guarantee of a design holds if people
        randomized their answers as it describes.
    X : DataFrame, Domain or ndarray of shape (n_samples, n_features), default=None
        Table. Only its column names are read, to list the columns that the estimator was not fitted on, too.
        Without it, the columns of an unfitted estimator have no names.
    trusted : sequence of classes, default=()
        Classes whose `guarantee_` and `protects_rows` are trusted in addition to the classes of skdp, without their
        subclasses.
    title, purpose, contact : str, default=""
        Name of the release, its intended use, and a person who answers questions, for a statement that is filed.

    Returns
    -------
    PrivacyStatement
        Facts about each column, the total, and notes, with the date and the versions of the packages.

    Raises
    ------
    TypeError
        If `estimator` is not an estimator or a list of them, X is not a table, `trusted` not a sequence of classes, or
        a text not a str.
    ValueError
        If X lacks columns that the estimator was fitted on, or the list is empty.

    Notes
    -----
    **Privacy.** The statement is computed from attributes; nothing is charged and no data are read. The total is for
    all steps together, including successive steps on the same column: an upper bound. Epsilons and deltas add up,
    except that epsilons of Gaussian noise for one delta are the epsilon of all their noise together, as in a ledger of
    mu (or rho). The total of a ledger is never smaller. It is for one call of `fit` and, for local transformers, one
    call of `transform`. Only a `PrivacyLedger` counts further calls.

    A statement is about the data that the owner of the estimator gives away. For an estimator in the central model
    alone, these are the fitted attributes and the rows of `sample`, so the total is its ``guarantee_`` (and the
    guarantee of a discovered domain). Its `transform` counts only as a step of a pipeline, which passes the rows on.

    Estimators of skdp and of trusted classes have their guarantee in ``guarantee_``, whose scope names the columns.
    Their attribute ``protects_rows`` states which output is protected:

    - True: the rows that `transform` returns (the default in the local model);
    - "fit": only the rows that `fit_transform` returns;
    - False: only the statistics (the default in the central model);
    - a list of columns: these columns of the rows that `transform` returns.

    A target with the name of a column of X counts as this
    column, if a step stores the name; pass no protected column as a target elsewhere.

    The total is for adding or removing a record only if nothing else reveals which records are in the data, or how
    many. Otherwise it is for replacing a record, with twice the epsilon. Records are revealed by unprotected
    columns or an unprotected target, by categories that are inferred from the data, by rows that `transform`
    returns, and by steps that are not fitted. A function that selects the columns of a `ColumnTransformer` sees all
    of them, so they are unprotected. With ``person``, a guarantee is for all rows of a person. People may have
    different numbers of rows, so there is then no total, unless it is for values.

    **Before fit**, a statement is a plan: it lists the largest loss of each step according to its parameters. It is
    not a guarantee, because nothing is released yet. Losses that depend on the columns or rows of `fit` are named
    without a number: probabilities instead of an epsilon, and categories "auto". If only some steps are fitted, the
    other steps have no guarantee.

    A step ``domain`` is the release that found the domain of other steps, such as `discover_domain`. It counts once,
    however many steps use it.

    If a step of a pipeline is replaced after `fit`, the release of the previous step is not stated.

    The scope of the total contains only columns that are released only with protection. If a step protects
    the values of named columns only ("replace_values"), all other columns that it reads are unprotected, and the total
    is for the columns that all such steps protect.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import ColumnTransformer
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.privacy import privacy_statement
    >>> people = pd.DataFrame({"sex": ["F", "M"], "job": ["clerk", "cook"], "age": [30, 40]})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]})
    >>> columns = ColumnTransformer([("sex", encoder, ["sex"]), ("age", "passthrough", ["age"])]).fit(people)
    >>> statement = privacy_statement(columns)
    >>> statement.rows[["column", "epsilon", "protection"]]
      column  epsilon                                 protection
    0    sex      1.0                            privatized rows
    1    job      NaN                               not released
    2    age      NaN  unprotected: true values are in the output
    >>> print(statement.total)
    epsilon = 1, local model, replacing one record's values of: sex

    The plan of a pipeline before any data:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import DPStandardScaler
    >>> scaled = make_pipeline(DPStandardScaler(0.1, bounds={"age": (0, 100)}), LogisticRegression())
    >>> [step.guarantee.epsilon for step in privacy_statement(scaled).steps]
    [0.1]
    """
    texts: dict[str, Any] = {"title": title, "purpose": purpose, "contact": contact}
    for name, text in texts.items():
        check_type(name, text, str, "a str")
    if isinstance(estimator, PrivacyLedger):
        return replace(_state_ledger(estimator), **texts)
    estimators = _check_estimators(estimator)
    if isinstance(trusted, type) or not all(isinstance(x, type) for x in trusted):
        raise TypeError("`trusted` must be a sequence of classes.")
    names_of_X = column_names_of(X)
    tables = [_find_columns(part, names_of_X) for part in estimators]

    # If no step is fitted, the statement is a plan.
    is_plan = not any(map(is_fitted, estimators))
    walk = Walk(chain.from_iterable(tables), trusted, is_plan=is_plan)
    for index, (part, names) in enumerate(zip(estimators, tables, strict=True)):
        walk.visit_alone(part, names, str(index) if len(estimators) > 1 else "")
    walk.finish(names_of_X or ())

    reason = walk.find_reason_to_replace()
    total, explanation = _find_total(walk, reason)
    notes = [*explanation, *walk.list_notes()]
    if len(estimators) > 1 and total is not None:
        notes.append(_SEVERAL)
    if reason == COUNTED:
        # The guarantee of a synthesizer without `transform` precedes the total with it.
        notes[: len(explanation) + 1] = [notes[len(explanation)], *explanation]
    return PrivacyStatement(
        walk.list_facts(),
        total,
        tuple(notes),
        tuple(walk.steps),
        ledgers=_list_budgets(estimators),
        **texts,
    )


def _list_budgets(estimators: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Return the budgets of the ledgers in the parameters of estimators and their parts."""
    ledgers = {}
    for part in chain.from_iterable(map(iterate_parts, estimators)):
        ledger = getattr(part, "ledger", None)
        if isinstance(ledger, PrivacyLedger):
            ledgers[id(ledger._book)] = ledger._book.budget.to_fields()
    return tuple(ledgers.values())


def _check_estimators(estimator: object) -> list[Any]:
    """Check an estimator, or a list of estimators, and return a list of estimators."""
    estimators = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    if not estimators:
        raise ValueError(
            "`estimator` must be an estimator or a list of estimators, got an empty "
            "list."
        )
    for part in estimators:
        if isinstance(part, PrivacyLedger):
            raise TypeError(
                "`estimator` must be one PrivacyLedger or a list of estimators, got a "
                "list with a PrivacyLedger. State each ledger by itself: each has a "
                "budget of its own."
            )
        if not is_estimator(part) and not is_design(part):
            description = type(part).__name__
            if isinstance(part, type):
                description = f"the class {part.__name__}"
            raise TypeError(
                f"`estimator` must be an estimator, got {description}. For reports, "
                "pass the result of skdp.read_protocol, or use skdp statement FILE."
            )
    return estimators


def _find_columns(
    estimator: object, names_of_X: tuple[Any, ...] | None
) -> tuple[Any, ...]:
    """Return the columns that an estimator was fitted on, otherwise the columns of X."""
    fitted = find_feature_names(estimator)
    if fitted is None or names_of_X is None:
        return fitted or names_of_X or (ALL_COLUMNS,)
    if set(fitted) <= set(names_of_X):
        return fitted
    # Columns of an array have no names.
    if not hasattr(estimator, "feature_names_in_") and len(fitted) == len(names_of_X):
        return names_of_X
    missing = [format_name(name) for name in fitted if name not in names_of_X]
    raise ValueError(
        f"X must have the columns that {type(estimator).__name__} was fitted on, got "
        f"{len(names_of_X)} columns without {missing}."
    )


def _find_total(
    walk: Walk, reason: str | None
) -> tuple[PrivacyGuarantee | None, list[str]]:
    """Return the sum of the guarantees for the columns that all steps protect, and its explanation.

    The guarantee is None if no column has one, or if the guarantees of the steps have
    no common relation. `reason` states why it is for replacing a record; None if it is not.
    """
    covered = walk.find_covered()
    protects_values = bool(walk.value_scopes)
    counted: Counter[PrivacyGuarantee] = Counter()
    conversions = []
    for step, guarantee, _ in walk.steps:
        if covered.isdisjoint(guarantee.scope):
            continue
        # Each guarantee is converted before the sum: a conversion of the sum would have a
        # larger delta, because of the factor 1 + e**epsilon.
        if reason and guarantee.relation == "add_remove":
            replaced = _replace_record(guarantee, protects_values=protects_values)
            if replaced is None:
                unit = guarantee._format_unit()
                return None, [_NO_TOTAL.format(reason=reason, unit=unit, step=step)]
            before, after = (format_number(x.epsilon) for x in (guarantee, replaced))
            conversions.append(f"{step} (epsilon {before} becomes {after})")
            guarantee = replaced
        counted[guarantee] += 1
    if not counted:
        return None, []
    scope = tuple(name for name in walk.columns if name in covered)
    total = replace(compose_steps(counted), scope=scope)
    if not conversions:
        return total, []
    neighbors, steps = total._format_neighbors(), ", ".join(conversions)
    return total, [_CONVERSION.format(reason=reason, neighbors=neighbors, steps=steps)]


def _replace_record(
    guarantee: PrivacyGuarantee, *, protects_values: bool
) -> PrivacyGuarantee | None:
    """Convert an "add_remove" guarantee to "replace"; None if this is impossible."""
    # With a guarantee for all rows of a person, replacing a person may change the number of
    # rows, which another step reveals. Replacing values does not.
    if guarantee.unit != "record" and not protects_values:
        return None
    try:
        return guarantee.to("replace")
    except ValueError:  # the implied delta is 1 or more
        return None


def _state_ledger(ledger: PrivacyLedger) -> PrivacyStatement:
    """Return the statement of the charges of a ledger, in its relation."""
    account, charges = ledger._book.snapshot()
    counts: Counter[tuple[str, PrivacyGuarantee]] = Counter()
    is_exposed = any(stated.observed for _, stated, _ in charges)
    every = "all other columns" if is_exposed else "all columns"
    for title, stated, _ in charges:
        guarantee = account.convert(stated)
        if not (guarantee.scope or guarantee.observed):
            guarantee = replace(guarantee, scope=(every,))
        counts[title, guarantee] += 1
    facts = []
    steps = []
    releases: Counter[PrivacyGuarantee] = Counter()
    # A budget of epsilon is charged the sum of epsilons.
    combine = compose_steps if account.epsilon is None else add_guarantees
    for (title, guarantee), count in counts.items():
        releases[guarantee] += count
        name = title if count == 1 else f"{title}, {count} times"
        together = combine({guarantee: count})
        together = replace(together, method=guarantee.method)
        steps.append(StatedStep(name, together))
        facts += [Fact(column, name, INFERRED) for column in guarantee.observed]
        facts += [Fact(column, name, CHARGED, together) for column in guarantee.scope]
    total = fixed = None
    kinds = {"", account.relation, *account.numbers()}
    kinds |= {"repeated"} if len(charges) > len(counts) else set()
    notes = [_format_spending(ledger)]
    notes += [text for kind, text in _LEDGER_NOTES.items() if kind in kinds]
    if steps:
        fixed = compose_steps(releases)
    if fixed is not None and not fixed._is_void:
        total = replace(fixed, **_describe_spending(account))
        attack = fixed._format_attack()
        if total.secure and attack != total._format_attack():
            notes.append(_IF_FIXED.format(attack=attack))
    return PrivacyStatement(
        tuple(facts),
        total,
        tuple(notes),
        tuple(steps),
        total_if_fixed=fixed,
        ledgers=(account.to_fields(),),
    )


def _format_spending(ledger: PrivacyLedger) -> str:
    """State the spent fraction of the budget of a ledger in a sentence."""
    parts = []
    balance = ledger.balance()
    for name, (budget, spent, _) in balance.items():
        if name != "guess" and budget > 0:
            part = f"{name} {format_number(spent)} of {format_number(budget)}"
            if name == "mu":
                guess = format_number(balance["guess"]["budget"])
                part += f" (guess {guess}), {100 * (spent / budget) ** 2:.0f} % of the budget, as mu**2 adds up"
            parts.append(part)
    return f"Spent: {' and '.join(parts)}."


def _describe_spending(account: Account) -> dict[str, Any]:
    """Return the fields epsilon, delta, rho and losses of a guarantee for all charges of an account."""
    # Earlier results may decide about further charges. Then the losses so far do not
    # compose, and the sum of the deltas is not a guarantee. Epsilons add up for each
    # sequence of results; deltas, rhos and mus are limited by the budget only.
    spent = account.limits
    if account.epsilon is not None:
        delta = spent["delta"] if account.sums["delta"] else Fraction(0)
        spent = {"epsilon": account.sums["epsilon"], "delta": delta}
    return account.describe_amounts(spent)
