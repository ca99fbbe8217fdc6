"""The charges of a pipeline, found by fitting it to rows that are made up."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from inspect import signature
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import get_routing_for_object

from skdp.domain import Domain
from skdp.evaluation.cost._made_up import declared_target, lists_classes, made_up_rows, made_up_target, rows_for
from skdp.frames import read_table
from skdp.markup import html_table, html_text, written_row
from skdp.privacy import Metered, PrivacyGuarantee, PrivacyLedger, PrivacyStatement, metered, privacy_statement
from skdp.typing import ColumnLike, ColumnName, TableLike

_CALLS = ("fit", "fit_transform", "fit_resample", "transform", "predict")
"""The methods that may release something; `predict_proba`, `decision_function` and `score` cost what `predict` does."""

_OF_CLASSES = (OneVsRestClassifier, OneVsOneClassifier, OutputCodeClassifier)
"""Estimators that fit more often the more classes there are."""

_MOST = 1e300
_CHARGE = ["call", "what", "times", "mechanism", "epsilon", "delta", "relation", "trust", "columns"]


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyCost:  # numpydoc ignore=PR02
    """What each method of a pipeline is going to charge.

    Parameters
    ----------
    totals : dict of str to PrivacyGuarantee or None
        For each method, the sum of its charges, as a ledger adds them; None if it charges nothing.
    charges : pandas.DataFrame
        A row for each kind of charge: ``call, what, times, mechanism, epsilon, delta, relation, trust, columns``.
        Epsilon and delta are those of one charge.
    statement : PrivacyStatement
        What `privacy_statement` says of the pipeline after `fit`: which columns are protected.

    See Also
    --------
    privacy_cost : Makes it.

    Examples
    --------
    >>> from skdp import DPMean, privacy_cost
    >>> privacy_cost(DPMean(epsilon=0.5, bounds=(0, 100)), {"age": int}).totals["fit"].epsilon
    0.5
    """

    totals: dict[str, PrivacyGuarantee | None]
    charges: pd.DataFrame
    statement: PrivacyStatement

    def _lines(self) -> list[tuple[str, str]]:
        return [(call, "nothing" if total is None else str(total)) for call, total in self.totals.items()]

    def __str__(self) -> str:
        return "\n".join(f"{call}: {total}" for call, total in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = html_table(self.charges)
        totals = "".join(f"<li><code>{call}</code>: {html_text(total)}</li>" for call, total in self._lines())
        return f"<div><ul>{totals}</ul>{table}</div>"


def privacy_cost(
    estimator: BaseEstimator, X: TableLike | Domain | dict[ColumnName, Any], y: ColumnLike | Sequence[Any] | None = None
) -> PrivacyCost:
    """Find what `fit`, `transform` and `predict` of a pipeline are going to charge, without reading a value.

    A copy of the estimator is fitted to 240 rows or more that are made up from names, dtypes and declared values. Each
    charge is listed and not made, also where an estimator has no ledger.

    Parameters
    ----------
    estimator : estimator
        Of skdp or scikit-learn: a pipeline, a column transformer, a search, ... It is not changed, and its ledgers are
        not charged.
    X : dataframe, 2-D array, Domain or dict of column name to dtype or declared values
        The columns. Of a table, lazy or not, only names and dtypes are read. Values are made up from what X declares,
        or else from what the estimators declare (``categories=``, ``domain=``, ``bounds=``), or else from the dtype.
    y : array-like or list, optional
        The target: a list of its possible values, or an array or a column, of which only the dtype is read, which makes
        two classes, or numbers for a regression. A column keeps its name, and has the values that a domain declares
        under it. By default it has the classes that a step declares; or there is none, or such a one if it is needed.
        Where the number of fits depends on that of the classes (one against the rest), list them: a warning says so.

    Returns
    -------
    PrivacyCost
        The charges of each method.

    Raises
    ------
    TypeError
        If `estimator` has no `fit`, or X is not a table or a schema.
    ValueError
        If a step refuses the rows that were made up: its message is given.

    See Also
    --------
    privacy_statement : What a fitted pipeline promises for each column.
    PrivacyLedger : What the charges are made to.

    Notes
    -----
    **Privacy.** No value of X or y is read and nothing is released, so it is free. What skdp charges depends on
    parameters, columns and the number of calls, not on values. The number of fits may depend on the rows: a search
    that takes more rows from step to step (successive halving), one fold a row, self-training until nothing changes; or
    on chance: a search that draws epsilon. Then this is the cost of one run, on the rows that are made up. Processes
    that a part of an estimator starts by itself are not followed. Releases outside skdp, which no ledger sees, have no
    cost here: `statement` names their columns as released unprotected.

    Each method is listed by itself: ``pipeline.fit(X, y)`` includes the `fit_transform` of its steps.
    `predict_proba`, `decision_function` and `score` cost what `predict` does.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from skdp import DPStandardScaler, RandomizedResponseEncoder, privacy_cost
    >>> schema = {"smokes": ["yes", "no"], "sex": ["f", "m"]}
    >>> encoder = RandomizedResponseEncoder(1.0, categories=schema)
    >>> pipeline = make_pipeline(encoder, OneHotEncoder(), LogisticRegression())
    >>> privacy_cost(pipeline, schema)
    fit: epsilon = 1, local model, replacing one record's values of: smokes, sex
    predict: epsilon = 1, local model, replacing one record's values of: smokes, sex

    A search fits its candidates on each fold, and each fit is charged:

    >>> scaled = make_pipeline(DPStandardScaler(0.1, bounds=(0, 100)), LogisticRegression())
    >>> search = GridSearchCV(scaled, {"logisticregression__C": [0.1, 1.0]}, cv=5)
    >>> cost = privacy_cost(search, {"age": int, "hours": float})
    >>> cost.totals["fit"].epsilon
    1.1
    >>> cost.charges[["call", "what", "times", "epsilon"]]
      call              what  times  epsilon
    0  fit  DPStandardScaler     11      0.1
    """
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") or hasattr(estimator, "fit_resample")):
        raise TypeError(f"estimator must be an estimator, got {type(estimator).__name__}")
    name = getattr(y, "name", None)
    y = declared_target(estimator, y)
    n_rows = rows_for(y)
    rows = made_up_rows(estimator, X, n_rows)
    targets: list[Any] = [made_up_target(y, name, regression=is_regressor(estimator), n_rows=n_rows)]
    if y is None and not get_tags(estimator).target_tags.required:
        targets = [None, *targets]  # a step of a pipeline may need one
    state = np.random.get_state()  # noqa: NPY002 - models without random_state use it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows that nobody has
            charged, fitted = _first_accepted(estimator, rows, targets)
            statement = privacy_statement(fitted)
    finally:
        np.random.set_state(state)  # noqa: NPY002
    if charged.get("fit") and not lists_classes(y):
        _warn_of_classes(estimator)
    names = read_table(rows).names
    charged = {call: [_named(charge, names, statement) for charge in own] for call, own in charged.items()}
    return PrivacyCost({call: _total(own) for call, own in charged.items()}, _listed(charged), statement)


def _named(charge: Metered, names: Sequence[Any], statement: PrivacyStatement) -> Metered:
    """Name the columns of the table in a charge for columns that steps before it have made of them."""
    steps = [one for one in statement.steps if one.step.rpartition(": ")[2] == charge.what]
    scopes = list(dict.fromkeys(one.guarantee.scope for one in steps))
    known = tuple(dict.fromkeys(name for scope in scopes for name in scope))
    # Of several steps of one class, it is not known which of them this one is.
    if not known or (len(scopes) > 1 and {*names, *known}.issuperset(charge.guarantee.scope)):
        return charge
    return replace(charge, guarantee=replace(charge.guarantee, scope=known))


def _first_accepted(estimator: Any, rows: Any, targets: Sequence[Any]) -> tuple[dict[str, list[Metered]], Any]:
    """Return the charges of each method, and the fitted copy, with the first target that `estimator` accepts."""
    for target in targets[:-1]:
        with suppress(ValueError):
            return _charges(estimator, rows, target)
    return _charges(estimator, rows, targets[-1])


def _charges(estimator: Any, rows: Any, target: Any) -> tuple[dict[str, list[Metered]], Any]:
    """Return the charges of each method, and the fitted copy."""
    charged: dict[str, list[Metered]] = {}
    fitted = copy = _alone(estimator)
    for call in ("report",) if hasattr(copy, "report") else _CALLS:
        if not hasattr(fitted, call):
            continue
        used = fitted if call in ("transform", "predict") else _alone(estimator)
        arguments = (rows,) if call in ("transform", "predict", "report") else (rows, target)
        charged[call] = _rehearsed(used, call, arguments)
        fitted = used if call == "fit" else fitted
    return charged, fitted


def _warn_of_classes(estimator: Any) -> None:
    """Warn of a part that is fitted once for each class, where the classes are not known."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    found = next((type(part).__name__ for part in parts if isinstance(part, _OF_CLASSES)), None)
    if found is not None:
        warnings.warn(
            f"the number of fits of {found} follows from that of the classes, and this is the cost for two classes: "
            "give y as the list of the classes, if there are more",
            stacklevel=3,
        )


def _alone(estimator: Any) -> Any:
    """Copy an estimator, fitted ones inside it too, with one process and no cache on the disk."""
    copy = clone(deepcopy(estimator))
    replaced = {"n_jobs": None, "memory": None}
    names = copy.get_params(deep=True)
    copy.set_params(**{name: replaced[own] for name in names if (own := name.rpartition("__")[2]) in replaced})
    return copy  # a FrozenEstimator returns None above


def _rehearsed(estimator: Any, call: str, arguments: tuple[Any, ...]) -> list[Metered]:
    """Call a method with rows that are made up, and return what would have been charged."""
    try:
        with metered() as charges:
            getattr(estimator, call)(*arguments, **_record_ids(estimator, call, len(arguments[0])))
    except Exception as error:
        why = str(error).rstrip(".")
        raise ValueError(
            f"{call} refuses rows that are made up from names, dtypes and declared values: {why}. Declare the values "
            "of the columns in X, as {column: [values]}"
        ) from error
    return charges


def _record_ids(estimator: Any, call: str, n_rows: int) -> dict[str, Any]:
    """Return record ids for permanent reports where they are asked for."""
    if get_config()["enable_metadata_routing"] and hasattr(estimator, "get_metadata_routing"):
        asked = bool(get_routing_for_object(estimator).consumes(call, {"record_id"}))
    else:
        kept = estimator.get_params(deep=True)
        permanent = any(_is_permanent(name.rpartition("__")[2], value) for name, value in kept.items())
        accepted = signature(getattr(estimator, call)).parameters
        asked = permanent and ("record_id" in accepted or (call == "fit_transform" and "params" in accepted))
    return {"record_id": np.arange(n_rows)} if asked else {}


def _is_permanent(name: str, value: Any) -> bool:
    return (name == "memoize" and value is True) or (name == "secret_key" and value is not None)


def _total(charges: list[Metered]) -> PrivacyGuarantee | None:
    """Add charges as the ledger of an estimator would."""
    if not charges:
        return None
    total = reduce(add, (charge.guarantee for charge in charges))
    relation = next((charge.relation for charge in charges if charge.relation is not None), total.relation)
    ledger = PrivacyLedger(epsilon=_MOST, delta=float(np.nextafter(1, 0)), relation=relation)
    for charge in charges:
        ledger.charge(charge.guarantee, charge.what)
    return replace(total.to(relation), epsilon=ledger.spent.epsilon, delta=ledger.spent.delta)


def _listed(charged: dict[str, list[Metered]]) -> pd.DataFrame:
    named = [(call, charge.what, charge.guarantee) for call, charges in charged.items() for charge in charges]
    rows = [
        (call, what, own.mechanism, own.epsilon, own.delta, own.relation, own.trust, ", ".join(map(str, own.scope)))
        for call, what, own in named
    ]
    columns = [name for name in _CHARGE if name != "times"]
    table = pd.DataFrame(map(written_row, rows), columns=columns)
    return table.groupby(columns, sort=False).size().rename("times").reset_index()[_CHARGE]
