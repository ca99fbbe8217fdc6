"""Statement of the guarantees of a pipeline for each column, or of a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger import PrivacyLedger
from skdp.privacy.statement._facts import (
    AS_IS,
    AT_FIT,
    NOT_FITTED,
    NOT_RELEASED,
    NOT_SEEN,
    READ,
    Row,
    StatedStep,
    protected_row,
    rows_of_ledger,
    sum_of,
    table_of,
    total_of_ledger,
    unprotected_row,
)
from skdp.privacy.statement._known import (
    EVERYTHING,
    TARGET,
    Flow,
    is_estimator,
    is_fitted,
    is_pipeline,
    names_in,
    read_names,
)
from skdp.privacy.statement._result import (
    COUNTS_TWICE,
    PrivacyStatement,
    amounts,
    conversion,
    listed,
    unit_in_words,
)
from skdp.privacy.statement._walk import UNKNOWN_PLAN, Promise, Walk

_SHOWN = "Which records there are, or how many, is shown here"

_PROTECTION = {True: "rows", "fit": AT_FIT, False: "statistics only"}


def privacy_statement(
    estimator: Any, X: Any = None, *, trusted: Sequence[type] = ()
) -> PrivacyStatement:
    """State the guarantee of a pipeline for each column, and which columns it releases unprotected.

    Pipelines, column transformers and feature unions are followed step by step. What is not known is "released as is":
    the columns of each class that is not exactly one of scikit-learn, imbalanced-learn or skdp (subclasses, classes of
    the same name or with the same attributes, objects with methods of their own, classes with a replaced method), of a
    class of skdp that wraps one of these, and of searches, votes, stacks and all other meta-estimators: these fit
    what they are made of several times, and each fit is a release. Behind a step that protects rows, they are
    post-processing.

    Parameters
    ----------
    estimator : estimator, list of estimators, or PrivacyLedger
        Fitted, or not fitted yet: then it is stated what each step is set to spend. The estimators of a list are about
        the same persons. Of a ledger, the statement lists what was charged.
    X : dataframe, Domain or ndarray of shape (n_samples, n_features), optional
        The table, of which only the column names are read: columns that the estimator was not fitted on are listed too.
    trusted : sequence of classes, default=()
        Classes whose `guarantee_` and `protects_rows` are trusted, in addition to those of skdp, without their
        subclasses.

    Returns
    -------
    PrivacyStatement
        A table, the total, and notes.

    Raises
    ------
    TypeError
        If `estimator` is not an estimator or a list of them, X is not a table, or `trusted` not a sequence of classes.
    ValueError
        If X lacks columns that the estimator was fitted on, or the list is empty.

    Notes
    -----
    **Privacy.** Read from attributes; nothing is charged and no data are read. The total is the sum over all steps,
    including successive steps on the same column: an upper bound. It is for one call of `fit` and, for local
    transformers, one call of `transform`; further calls that release something are counted by a `PrivacyLedger` only.

    Estimators of skdp and of trusted classes state their guarantee in ``guarantee_``, whose scope names the columns.
    ``protects_rows`` is True if the rows that `transform` returns are protected (the default in the local model), "fit"
    if only those of `fit_transform` are, False if only the statistics are private (the default in the central model),
    or a list of the columns that are protected in these rows. The target and weights (``sample_weight``) are not
    columns: the total includes what is promised of the target; weights are unprotected.

    The total is for adding or removing a record only if nothing else shows which records there are, or how many. Else
    it is for replacing one, which is both: epsilon counts twice. This is shown by columns or a target that are seen or
    leave unprotected, by categories or classes that are read from the data, by reports, and by steps that are not
    fitted. A function that selects the columns of a `ColumnTransformer` sees all of them, which are "released as is".
    With ``groups``, a guarantee is for all rows of a person. Persons may have different numbers of rows, so nothing
    holds for replacing a person where the number of rows is shown, and there is no total, unless it is for values.

    **Before fit**, a statement lists the maximum loss of each step according to its parameters, and `notes` has their
    sum. It reads nothing, and it is not a guarantee: nothing is released yet. Losses that depend on the columns or rows
    of `fit` are described in words, without a total: probabilities in place of an epsilon, categories "auto", parts of
    a meta-estimator. If only some parts are fitted, the statement has no guarantee for the other parts.

    A step ``domain`` is the release that found the domain of other steps, such as `discover_domain`. It counts once,
    however many steps use it.

    If a step of a pipeline is replaced after `fit`, the release of the previous step is not stated.

    The scope of the total has only columns of which nothing is released without protection. It excludes columns whose
    categories were read from the data (which values occur is unprotected), and columns that are released unprotected
    beside private statistics of them. Where a step protects the values of named columns only ("replace_values"), the
    columns that it reads are released as they are but for these, and the total is for those that all such steps
    protect.

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
      column  epsilon      protection
    0    sex      1.0            rows
    1    job      NaN    not released
    2    age      NaN  released as is
    >>> print(statement.total)
    epsilon = 1, local model, replacing one record's values of: sex

    Before any data, what a pipeline is set to spend:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import DPStandardScaler
    >>> scaled = make_pipeline(DPStandardScaler(0.1, bounds={"age": (0, 100)}), LogisticRegression())
    >>> [step.guarantee.epsilon for step in privacy_statement(scaled).steps]
    [0.1]
    """
    if isinstance(estimator, PrivacyLedger):
        return _statement_of_ledger(estimator)
    estimators = _check_estimators(estimator)
    if isinstance(trusted, type) or not all(isinstance(kind, type) for kind in trusted):
        raise TypeError("trusted must be a sequence of classes")
    names_of_X = read_names(X)
    tables = [_columns_of(part, names_of_X) for part in estimators]
    columns: dict[Any, None] = {}
    for names in tables:
        columns |= dict.fromkeys(names or [EVERYTHING])
    # What is partly fitted has released something that is not known here: its steps may
    # have been others.
    walk = Walk(columns, trusted, is_plan=not any(map(is_fitted, estimators)))
    for index, (part, names) in enumerate(zip(estimators, tables, strict=True)):
        path = f"{index}" if len(estimators) > 1 else ""
        output = walk.visit(part, Flow.start(names), path)
        if _gives_rows(part):
            walk.leaving |= output.raw
    walk.finish()
    rows = _rows(walk)
    for name in names_of_X or ():
        if name not in walk.columns:
            rows.append(unprotected_row(name, "", NOT_SEEN))
    total = _total(walk)
    remarks = _remarks(walk)
    ledgers = _records(walk)
    return PrivacyStatement(
        table_of(rows),
        total,
        (*walk.notes, *remarks),
        tuple(promise.stated for promise in walk.promises),
        ledgers,
    )


def _check_estimators(estimator: Any) -> list[Any]:
    estimators = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    if not estimators:
        raise ValueError("there is no estimator to state anything about")
    for part in estimators:
        if isinstance(part, type):
            raise TypeError(
                f"privacy_statement needs estimators, got the class {part.__name__}"
            )
        if not is_estimator(part):
            raise TypeError(
                f"privacy_statement needs estimators, got {type(part).__name__}; of "
                "reports, give what skdp.read_protocol reads from them, or use skdp "
                "statement FILE"
            )
    return estimators


def _columns_of(
    estimator: Any, names_of_X: tuple[Any, ...] | None
) -> tuple[Any, ...] | None:
    """Return the columns that an estimator was fitted on, by their names in X."""
    fitted = names_in(estimator)
    if fitted is None:
        return names_of_X
    if names_of_X is None:
        return fitted
    are_positions = all(isinstance(name, str) for name in fitted)
    if hasattr(estimator, "feature_names_in_") or not are_positions:
        lacking = [name for name in fitted if name not in names_of_X]
        if lacking:
            raise ValueError(
                f"X lacks columns that {type(estimator).__name__} was fitted on: "
                f"{lacking}"
            )
        return fitted
    if len(names_of_X) != len(fitted):
        raise ValueError(
            f"X has {len(names_of_X)} columns; {type(estimator).__name__} was fitted "
            f"on {len(fitted)}"
        )
    return names_of_X


def _gives_rows(estimator: Any) -> bool:
    """Whether `fit_transform` of an estimator, or of its last step, returns rows."""
    if is_pipeline(estimator):
        return _gives_rows(estimator.steps[-1][1])
    return hasattr(estimator, "guarantee_") or not hasattr(estimator, "predict")


def _rows(walk: Walk) -> list[Row]:
    """Return the rows of all columns."""
    rows = []
    for name in walk.columns:
        is_released = name in walk.exposures or name in walk.leaving
        if name == EVERYTHING and len(walk.columns) > 1 and not is_released:
            continue
        is_promised = False
        has_statistics = False
        for promise in walk.promises:
            if name in promise.guarantee.scope:
                is_promised = True
                has_statistics |= promise.protection_of(name) is False
                rows.append(_promised_row(name, promise, walk))
        exposures = walk.exposures.get(name, {})
        for protection in (READ, NOT_FITTED, AS_IS):
            if protection in exposures:
                steps = ", ".join(exposures[protection])
                rows.append(unprotected_row(name, steps, protection))
        if AS_IS in exposures or NOT_FITTED in exposures:
            continue
        if name in walk.leaving and not has_statistics:
            rows.append(unprotected_row(name, "", AS_IS))
        elif not is_promised:
            rows.append(unprotected_row(name, "", NOT_RELEASED))
    return rows


def _promised_row(name: Any, promise: Promise, walk: Walk) -> Row:
    protects = promise.protection_of(name)
    protection = _PROTECTION[protects]
    if protects is False and name in walk.leaving:
        protection = f"{AS_IS}, beside private statistics"
    if not promise.stated.fitted:
        protection += "; not fitted yet"
    if promise.stated.step in walk.revealing_rows:
        protection += "; their number is revealed"
    together = [str(column) for column in promise.guarantee.scope if column != name]
    if together:
        protection += f" (together with {listed(together)})"
    return protected_row(name, promise.stated, protection)


def _total(walk: Walk) -> PrivacyGuarantee | None:
    """Add up what is promised of columns that nothing else releases."""
    # What is read or leaves as it is has no promise, whatever other steps protect.
    released = {*walk.exposures, *walk.leaving}
    promised: set[Any] = set()
    for promise in walk.promises:
        promised.update(promise.guarantee.scope)
    covered = [name for name in walk.columns if name in promised - released]
    if not covered or EVERYTHING in released:
        return None
    is_of_values = _is_of_values(walk)
    if is_of_values:
        covered = _protected_by_all(walk, covered)
        if not covered:
            return None
    # Each promise is converted by itself: of their sum, delta would be larger.
    is_replaced = walk.shows_records()
    guarantees = []
    conversions = []
    for promise in walk.promises:
        guarantee = promise.guarantee
        # The target is about the same persons.
        if {TARGET, *covered}.isdisjoint(guarantee.scope):
            continue
        if is_replaced and guarantee.relation == "add_remove":
            # Replacing values keeps the number of rows of a person.
            if guarantee.unit != "record" and not is_of_values:
                walk.notes.append(
                    f"{_SHOWN}, and persons may have different numbers of rows: so "
                    f"there is no total for {unit_in_words(guarantee)}."
                )
                return None
            try:
                text = f"{promise.stated.step}: {conversion(guarantee)}"
            except ValueError:
                walk.notes.append(
                    f"{_SHOWN}, so only a promise for replacing "
                    f"{unit_in_words(guarantee)} would hold. None follows from "
                    f"epsilon and delta of: {promise.stated.step}."
                )
                return None
            conversions.append(text)
            guarantee = guarantee.to("replace")
        if is_of_values:
            guarantee = guarantee.to("replace_values", columns=covered)
        guarantees.append(guarantee)
    total = replace(sum_of(guarantees), scope=tuple(covered))
    if conversions:
        replaced = f"{'values in ' if is_of_values else ''}{unit_in_words(total)}"
        walk.notes.append(
            f"{_SHOWN}, so the total is for replacing {replaced}: {COUNTS_TWICE}. "
            f"{'; '.join(conversions)}."
        )
    return total


def _is_of_values(walk: Walk) -> bool:
    """Whether a step protects the values of named columns only."""
    relations = [promise.guarantee.relation for promise in walk.promises]
    return "replace_values" in relations


def _protected_by_all(walk: Walk, columns: Sequence[Any]) -> list[Any]:
    """Return the columns that all steps which protect named columns protect."""
    steps = []
    covered = list(columns)
    for promise in walk.promises:
        if promise.guarantee.relation == "replace_values":
            steps.append(promise.stated.step)
            covered = [name for name in covered if name in promise.guarantee.scope]
    others = [str(name) for name in columns if name not in covered]
    if others:
        walk.notes.append(
            f"All columns but the protected ones are public for {', '.join(steps)}: so "
            f"nothing is promised in total of {listed(others)}."
        )
    return covered


def _remarks(walk: Walk) -> list[str]:
    """Return the remarks for all steps of a kind."""
    steps = [promise.stated for promise in walk.promises]
    remarks = []
    if not all(step.fitted for step in steps):
        remarks.append(
            "Of a step that is not fitted, epsilon and delta are the most that it is "
            "set to spend. Where nothing is learnt from the data, as with bounds or "
            "categories that are declared, it may spend nothing."
        )
        if UNKNOWN_PLAN not in walk.remarks:
            remarks += _planned_total(steps)
    protections: set[Any] = set()
    for promise in walk.promises:
        protections.update(map(promise.protection_of, promise.guarantee.scope))
    if False in protections:
        remarks.append(
            "Where statistics only are protected, the promise is about what fit has "
            "learnt, not about rows."
        )
    if protections - {False}:
        remarks.append(
            "Each further fit that reads the data, and each further call that "
            "privatises rows and is not memoised, costs as much again; rows that are "
            "made from what fit has learnt are free."
        )
    for text, names in walk.remarks.items():
        remarks.append(f"{text}{', '.join(dict.fromkeys(names))}.")
    return remarks


def _planned_total(steps: Sequence[StatedStep]) -> list[str]:
    """Say what steps that are not fitted are set to spend together."""
    try:
        total = sum_of(step.guarantee for step in steps)
    # They protect different columns, or are not converted to one relation.
    except ValueError as error:
        return [f"All steps together: {error}."]
    return [
        f"All steps together are set to spend at most {amounts(total)}, for "
        f"{total._format_neighbors()}."
    ]


def _records(walk: Walk) -> tuple[dict[str, Any], ...]:
    """Copy ledgers as they are now; those that cannot be read are noted."""
    records = []
    for ledger in walk.ledgers.values():
        try:
            records.append(ledger.to_dict())
        except (OSError, ValueError, RuntimeError):
            walk.notes.append(
                "The composition so far is not stated: a ledger cannot be read here."
            )
    return tuple(records)


_OF_A_LEDGER = (
    "This is the statement of a ledger: it lists what was charged, by the names that "
    "the releases gave. Which columns left without a charge, and whether each release "
    "kept what it was charged for, a ledger does not know."
)

_TOTAL_OF_A_LEDGER = (
    "The total is what the ledger was charged so far, with the delta of the budget if "
    "it has one. For a budget of rho or mu and charges with a delta, the total is the "
    "epsilon of the whole budget at delta = 0.000001, because deltas of charges that "
    "depend on earlier results do not add up. What is promised however charges were chosen, and of later ones, too, "
    "is the budget."
)


def _statement_of_ledger(ledger: PrivacyLedger) -> PrivacyStatement:
    """State the charges of a ledger, in its relation."""
    record = ledger.to_dict()
    rows, steps = rows_of_ledger(ledger)
    return PrivacyStatement(
        table_of(rows),
        total_of_ledger(ledger, steps),
        (_OF_A_LEDGER, _TOTAL_OF_A_LEDGER),
        tuple(steps),
        (record,),
    )
