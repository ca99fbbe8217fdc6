"""Statement of the guarantees of a pipeline for each column, and of unprotected columns."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pandas as pd

from skdp.markup import written_row
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger import PrivacyLedger
from skdp.privacy.statement._charges import statement_of_ledger
from skdp.privacy.statement._columns import (
    AS_IS,
    AT_FIT,
    EVERYTHING,
    LEARNT_TARGET,
    NOT_FITTED,
    NOT_RELEASED,
    NOT_SEEN,
    PLANNED,
    READ,
    TARGET,
    Flow,
    names_in,
    read_names,
)
from skdp.privacy.statement._facts import StatedStep
from skdp.privacy.statement._meaning import COUNTS_TWICE, amounts
from skdp.privacy.statement._parts import is_a
from skdp.privacy.statement._planned import declared_names, was_fitted
from skdp.privacy.statement._result import PrivacyStatement
from skdp.privacy.statement._visitor import Promise, Walk

_FEW = 5
"""The most columns named together in a row; for more, their number is given."""

_SHOWN = "Which records there are, or how many, is shown here"

_PROTECTION = {True: "rows", "fit": AT_FIT, False: "statistics only"}

_BESIDE_STATISTICS = f"{AS_IS}, beside private statistics"


def privacy_statement(
    estimator: Any, X: Any = None, *, trusted: Sequence[type] = ()
) -> PrivacyStatement:
    """State the guarantee of a pipeline for each column, and which columns it releases unprotected.

    Pipelines, column transformers, feature unions, searches and other meta-estimators are followed step by step. What
    is not known is "released as is": the columns of each class that is not exactly one of scikit-learn,
    imbalanced-learn or skdp (subclasses, classes of the same name or with the same attributes, objects with methods of
    their own, classes with a replaced method), of a class of skdp that wraps one of these, and of an estimator that
    draws rows several times (a bootstrap), as each time is a release.

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
    or a list of the columns that are protected in these rows.
    "fit" is not enough inside a search, a stack, a calibration or another estimator that learns from predictions for
    rows of the table: these use true values, which are "released as is". The target and weights (``sample_weight``) are
    not columns: the total includes the cost of a transformer of the target; weights are unprotected.

    The total is for adding or removing a record only if nothing else shows which records there are, or how many. Else
    it is for replacing one, which is both: epsilon counts twice. This is shown by columns or a target that are seen or
    leave unprotected, by categories or classes that are read from the data, by reports, by steps that are not fitted,
    and by meta-estimators that store the number of rows or split the rows by it, as bagging and stacks do.

    Fits of a search, a stack or another meta-estimator that it does not store are in the total, with as many releases
    of each record as there can be. Where their number or their epsilon is not known, nothing is promised: a search of a
    parameter of a private step, or of one before it; splits by groups, by a list, or into as many parts as there are
    rows; a scorer that is a function, which sees the rows. Where the target splits the rows (`StratifiedKFold`, and the
    default for classifiers), one target moves other records to other parts: then the promise is about columns of X
    only. A function that selects the columns of a `ColumnTransformer` sees all of them, which are "released as is".

    **Before fit**, a statement lists the most that each step is set to spend, as its parameters say, and `notes` has
    their sum. It reads nothing, and it is no promise: nothing is released yet. What follows from the columns or the
    rows that `fit` sees is said in words, and has no total: probabilities in place of an epsilon, `Shuffled`,
    categories "auto", the fits of a search that varies epsilon or privatises rows that it scores, those of other
    meta-estimators. Of a search of scikit-learn whose candidates and splits are known, the fits are counted. If some
    parts are fitted and others are not, nothing is promised of the latter.

    If a step of a pipeline is replaced after `fit`, the release of the previous step is not stated.

    The scope of the total has only columns of which nothing is released without protection. It excludes columns whose
    categories were read from the data (which values occur is unprotected), and columns that are released unprotected
    beside private statistics of them.

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

    Before any data, what a search is set to spend, which fits its candidates on each split, and the best one again:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import DPStandardScaler
    >>> scaled = make_pipeline(DPStandardScaler(0.1, bounds={"age": (0, 100)}), LogisticRegression())
    >>> planned = privacy_statement(GridSearchCV(scaled, {"logisticregression__C": [0.1, 1.0]}, cv=5))
    >>> [step.guarantee.epsilon for step in planned.steps]
    [1.1]
    """
    if isinstance(estimator, PrivacyLedger):
        return statement_of_ledger(estimator)
    estimators = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    if not estimators:
        raise ValueError("there is no estimator to state anything about")
    for part in estimators:
        if isinstance(part, type) or not (
            hasattr(part, "fit") or hasattr(part, "fit_resample")
        ):
            kind = (
                f"the class {part.__name__}"
                if isinstance(part, type)
                else type(part).__name__
            )
            raise TypeError(f"privacy_statement needs estimators, got {kind}")
    if isinstance(trusted, type) or not all(isinstance(one, type) for one in trusted):
        raise TypeError("trusted must be a sequence of classes")
    given = read_names(X)
    tables = [_columns_of(part, given) for part in estimators]
    columns = list(
        dict.fromkeys(name for names in tables for name in names or [EVERYTHING])
    )
    # What is partly fitted has released something that is not known here: its steps may have been others.
    walk = Walk(columns, trusted, planning=not any(map(was_fitted, estimators)))
    leaving: set[Any] = set()
    for index, (part, names) in enumerate(zip(estimators, tables, strict=True)):
        path = f"{index}" if len(estimators) > 1 else ""
        made = walk.visit(part, Flow.start(names), path)
        leaving |= made.merged.raw if _gives_rows(part) else set()
    walk.finish()
    return _written_up(
        walk, leaving, [name for name in given or () if name not in walk.columns]
    )


def _columns_of(
    estimator: Any, given: tuple[Any, ...] | None
) -> tuple[Any, ...] | None:
    """Return the columns that an estimator was fitted on, by their names in X."""
    fitted = names_in(estimator)
    if fitted is None or given is None:
        return fitted or given or declared_names(estimator)
    if hasattr(estimator, "feature_names_in_") or not all(
        isinstance(name, str) for name in fitted
    ):
        lacking = [name for name in fitted if name not in given]
        if lacking:
            raise ValueError(
                f"X lacks columns that {type(estimator).__name__} was fitted on: {lacking}"
            )
        return fitted
    if len(given) != len(fitted):
        raise ValueError(
            f"X has {len(given)} columns; {type(estimator).__name__} was fitted on {len(fitted)}"
        )
    return given


def _gives_rows(estimator: Any) -> bool:
    """Whether `fit_transform` of an estimator, or of the last step of a pipeline, returns rows."""
    if is_a(estimator, "sklearn.pipeline.Pipeline", "imblearn.pipeline.Pipeline"):
        return _gives_rows(estimator.steps[-1][1])
    return hasattr(estimator, "guarantee_") or not hasattr(estimator, "predict")


def _written_up(walk: Walk, leaving: set[Any], others: list[Any]) -> PrivacyStatement:
    kept = [name for name in walk.columns if _is_kept(walk, leaving, name)]
    rows: list[tuple[Any, ...]] = []
    for name in walk.columns:
        promises = [promise for promise in walk.promises if name in promise.columns]
        rows += [
            _promised(name, promise, released=name in leaving) for promise in promises
        ]
        rows += [_unprotected(name, step, READ) for step in walk.read.get(name, ())]
        statistics = any(promise.of(name) is False for promise in promises)
        if name in walk.unfitted:
            rows.append(_unprotected(name, ", ".join(walk.unfitted[name]), NOT_FITTED))
        elif name in walk.seen:
            rows.append(_unprotected(name, ", ".join(walk.seen[name]), AS_IS))
        elif name in leaving and not statistics:
            rows.append(_unprotected(name, "", AS_IS))
        elif not promises and not (name == EVERYTHING and walk.promises):
            rows.append(_unprotected(name, "", NOT_RELEASED))
    rows += [_unprotected(name, "", NOT_SEEN) for name in others]
    names = [
        "column",
        "step",
        "mechanism",
        "epsilon",
        "delta",
        "relation",
        "trust",
        "protection",
    ]
    table = pd.DataFrame(map(written_row, rows), columns=names)
    for name in (
        "epsilon",
        "delta",
    ):  # `astype` of several columns takes as long as all else here
        table[name] = table[name].astype(float)
    steps = tuple(
        StatedStep(
            promise.step,
            replace(promise.guarantee, scope=promise.columns),
            promise.known,
            promise.charged,
            promise.fitted,
            promise.shuffled,
        )
        for promise in walk.promises
    )
    ledgers, unread = _records(list(walk.ledgers.values()))
    total, conversions = _total(walk, leaving, kept)
    return PrivacyStatement(
        table,
        total,
        (*walk.notes, *conversions, *_remarks(walk), *unread),
        steps,
        ledgers,
    )


def _records(
    ledgers: Sequence[PrivacyLedger],
) -> tuple[tuple[PrivacyLedger, ...], list[str]]:
    """Copy ledgers as they are now; those that cannot be read are noted."""
    records, unread = [], []
    for ledger in ledgers:
        try:
            records.append(ledger._record())
        except (OSError, ValueError, RuntimeError):
            unread = [
                "The composition so far is not stated: a ledger cannot be read here."
            ]
    return tuple(records), unread


def _is_kept(walk: Walk, leaving: set[Any], name: Any) -> bool:
    """Whether the guarantee of a column holds: nothing else releases its values."""
    others = walk.seen.keys() | walk.unfitted.keys() | walk.read.keys() | leaving
    return others.isdisjoint({name, EVERYTHING})


def _promised(name: Any, promise: Promise, *, released: bool) -> tuple[Any, ...]:
    g, protects = promise.guarantee, promise.of(name)
    protection = (
        _BESIDE_STATISTICS if protects is False and released else _PROTECTION[protects]
    )
    protection += "" if promise.fitted else PLANNED
    together = [str(other) for other in promise.columns if other != name]
    if together:
        listed = (
            ", ".join(together) if len(together) <= _FEW else f"{len(together)} others"
        )
        protection += f" (together with {listed})"
    return (
        name,
        promise.step,
        g.mechanism,
        g.epsilon,
        g.delta,
        g.relation,
        g.trust,
        protection,
    )


def _unprotected(name: Any, step: str, protection: str) -> tuple[Any, ...]:
    return name, step, "", None, None, "", "", protection


def _total(
    walk: Walk, leaving: set[Any], kept: list[Any]
) -> tuple[PrivacyGuarantee | None, list[str]]:
    """Add up what is promised about the columns that nothing else releases, and say what was converted."""
    covered = [
        name
        for name in kept
        if any(name in promise.columns for promise in walk.promises)
    ]
    # The target is about the same persons.
    counted = [
        promise
        for promise in walk.promises
        if not {TARGET, *covered}.isdisjoint(promise.columns)
    ]
    if not covered:
        return None, []
    if not walk.shows_records(leaving):
        total = reduce(operator.add, (promise.guarantee for promise in counted))
        return replace(total, scope=tuple(covered)), []
    converted = [
        promise for promise in counted if promise.guarantee.relation == "add_remove"
    ]
    try:
        total = reduce(
            operator.add, (promise.guarantee.to("replace") for promise in counted)
        )
    except ValueError:
        steps = ", ".join(promise.step for promise in converted)
        return None, [
            f"{_SHOWN}, so only a promise for replacing a record would hold. None follows from epsilon and delta of: "
            f"{steps}."
        ]
    total = replace(total, scope=tuple(covered))
    if not converted:
        return total, []
    doubled = [_in_words(promise.step, promise.guarantee) for promise in converted]
    return total, [
        f"{_SHOWN}, so the total is for replacing a record: {COUNTS_TWICE}. {'; '.join(doubled)}."
    ]


def _in_words(step: str, guarantee: PrivacyGuarantee) -> str:
    """Say what a guarantee for adding or removing a record is for replacing one."""
    return f"{step}: {amounts(guarantee)} counts as {amounts(guarantee.to('replace'))}"


def _planned_sum(walk: Walk) -> str:
    """Say what all steps together are set to spend, whether or not columns are released unprotected as well."""
    if walk.uncounted:
        steps = ", ".join(dict.fromkeys(walk.uncounted))
        return f"What all steps together are set to spend is not known before fit, because of: {steps}."
    total = reduce(operator.add, (promise.guarantee for promise in walk.promises))
    verb = "replacing" if total.relation == "replace" else "adding or removing"
    return f"All steps together are set to spend at most {amounts(total)}, for {verb} a record."


def _remarks(walk: Walk) -> list[str]:
    """Return the remarks for all steps of a kind."""
    remarks = []
    if not all(promise.fitted for promise in walk.promises):
        remarks.append(
            "Of a step that is not fitted, epsilon and delta are the most that it is set to spend. Where nothing is "
            "learnt from the data, as with bounds or categories that are declared, it may spend nothing."
        )
        remarks += [_planned_sum(walk)]
    if any(
        promise.of(name) is False
        for promise in walk.promises
        for name in promise.columns
    ):
        remarks.append(
            "Where statistics only are protected, the promise is about what fit has learnt, not about rows."
        )
    rows = [promise for promise in walk.promises if promise.protects is not False]
    if any(not promise.made_up for promise in rows):
        remarks.append(
            "Each further call that privatises rows, unless it is memoised, costs as much again."
        )
    if any(promise.made_up for promise in rows):
        remarks.append(
            "Each further fit costs as much again; further rows that are made from what it learnt are free."
        )
    if walk.weighted:
        remarks.append(
            "Weights (sample_weight), if fit was given any, are no column of X, and are learnt from as they are by: "
            f"{', '.join(walk.weighted)}."
        )
    if walk.after:
        remarks.append(
            f"Post-processing of protected columns, which costs nothing: {', '.join(walk.after)}."
        )
    if walk.from_target:
        remarks.append(f"{LEARNT_TARGET}{', '.join(walk.from_target)}.")
    return remarks
