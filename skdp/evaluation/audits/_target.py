"""The release and the promise of an audited estimator."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable
from fractions import Fraction
from numbers import Integral, Number
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import rows_and_target, split_target
from skdp.evaluation.audits._calls import Audited
from skdp.evaluation.audits._neighbours import (
    check_replaced,
    count_rows,
    declared_values,
    make_records,
    repeat,
)
from skdp.evaluation.audits._outputs import hash_cells, read_rows
from skdp.local import LocalTableEncoder, OnFitOnly
from skdp.tables import is_frame

_SEEDED_ROWS = 64
_COMPOSED = ("steps", "transformers", "transformer_list")
_LOCAL = ("transform", "report")
_READABLE = (Number, str, bool, type(None), np.ndarray, list, tuple, dict)


def of_transformer(
    estimator: Any,
    neighbours: Any,
    *,
    n_reports: int | None,
    statistic: Callable[[Any], Any] | None,
    random_state: int | None,
) -> Audited:
    """Prepare an estimator: fitted on public tables, and without its ledger."""
    # Its `set_params` refuses the parameters of the estimator in it, and returns None.
    if isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    if any(hasattr(estimator, name) for name in _COMPOSED):
        raise TypeError(
            f"a {type(estimator).__name__} has no one guarantee_: audit its private step, or what it releases, with "
            "audit_epsilon(lambda rows: clone(it).fit_transform(rows), neighbours=..., epsilon=...)"
        )
    local = any(hasattr(estimator, name) for name in _LOCAL)
    if (
        not local
        or getattr(estimator, "protects_rows", None) is False
        or _needs_curator(estimator, neighbours)
    ):
        return _of_central(estimator, neighbours, n_reports, statistic, random_state)
    tables = make_records(estimator) if neighbours is None else list(neighbours)
    if neighbours is not None:
        check_replaced(tables)
    changes = _harmless(estimator)
    if neighbours is None:
        changes |= _declared(estimator)
    if random_state is not None:
        changes |= dict.fromkeys(_named(estimator, "random_state"), random_state)
    if not changes and neighbours is not None and _is_fitted(estimator):
        fitted = copy.deepcopy(estimator)  # whose random stream does not advance
    else:
        fitted = clone(estimator).set_params(**changes)
        if hasattr(fitted, "transform"):
            fitted.fit(tables[0])
    if getattr(getattr(fitted, "guarantee_", None), "trust", "local") != "local":
        return _of_central(estimator, neighbours, n_reports, statistic, random_state)
    keyed = bool(_named(estimator, "secret_key", given=True))
    release = fitted.transform if hasattr(fitted, "transform") else fitted.report
    again = _fit_transform(estimator, fitted, random_state)
    if isinstance(estimator, OnFitOnly):
        release, again, fitted = again, None, fitted.transformer_
    each_row = all(count_rows(table) == 1 for table in tables)
    return Audited(
        release,
        tables,
        each_row=each_row,
        fitted=fitted,
        keyed=keyed,
        n_reports=n_reports or (4 if keyed else 1),
        statistic=statistic,
        fit_release=again,
        paired=each_row,
        fresh=_fresh_of(estimator, fitted, random_state) if each_row else None,
    )


def _of_central(
    estimator: Any,
    neighbours: Any,
    n_reports: int | None,
    statistic: Callable[[Any], Any] | None,
    random_state: int | None,
) -> Audited:
    """Prepare the fitted attributes of fresh clones."""
    if neighbours is None:
        raise TypeError(
            f"{type(estimator).__name__} protects no rows in transform: what it promises is about what fit learns. "
            "Give neighbours, two tables that differ in one record, to audit its fitted attributes; or audit one, as "
            "in audit_epsilon(lambda rows: clone(it).fit(rows).mean_, neighbours=..., epsilon=...)"
        )
    fresh = _clones(estimator, random_state, {})

    def fit(table: Any) -> tuple[Any, Any]:
        if hasattr(estimator, "fit_resample"):
            return (one := fresh()), one.fit_resample(*split_target(table))
        return fresh().fit(*rows_and_target(estimator, table)), None

    def learn(table: Any) -> dict[str, Any]:
        one, rows = fit(table)
        learned = {
            name: value
            for name, value in vars(one).items()
            if _is_released(name, value)
        }
        return learned if rows is None else learned | dict(zip("Xy", rows, strict=True))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise on small tables
        fitted, _ = fit(neighbours[0])
    tables = list(neighbours)
    return Audited(
        learn,
        tables,
        False,
        fitted=fitted,
        n_reports=n_reports or 1,
        statistic=statistic,
        central=True,
    )


def _needs_curator(estimator: Any, neighbours: Any) -> bool:
    """Whether two tables have different numbers of rows, and the guarantee is one of the central model."""
    if (
        neighbours is None
        or len({count_rows(table) for table in neighbours}) == 1
        or not hasattr(estimator, "fit")
    ):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(estimator).set_params(**_harmless(estimator))
        fitted.fit(*rows_and_target(fitted, neighbours[0]))
    return getattr(getattr(fitted, "guarantee_", None), "trust", "local") == "central"


def _is_released(name: str, value: Any) -> bool:
    """Whether a fitted attribute is public and readable."""
    public = name.endswith("_") and not name.startswith("_") and name != "guarantee_"
    return public and (isinstance(value, _READABLE) or is_frame(value))


def _named(estimator: Any, name: str, *, given: bool = False) -> list[str]:
    """List the parameters of a name, also of wrapped estimators; if `given`, without those that are None."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return [
        key
        for key, value in parameters.items()
        if key.split("__")[-1] == name and not (given and value is None)
    ]


def _harmless(estimator: Any) -> dict[str, Any]:
    """Return the changes that keep an audit from charging a ledger."""
    return dict.fromkeys(_named(estimator, "ledger", given=True))


def _declared(fitted: Any) -> dict[str, Any]:
    """Return what a fitted transformer declares of the values of its columns, as a parameter, if it has one."""
    if not hasattr(fitted, "get_params") or "categories" not in fitted.get_params(
        deep=False
    ):
        return {}
    if isinstance(fitted, LocalTableEncoder):
        return {"categories": declared_values(fitted)}
    domain = getattr(fitted, "domain_", None)
    return (
        {}
        if domain is None
        else {"categories": {name: domain[name] for name in domain.columns}}
    )


def _clones(
    estimator: Any, random_state: int | None, changes: dict[str, Any]
) -> Callable[[], Any]:
    """Return a function that makes clones, each with its own seed if there is one, or all would draw the same bits."""
    seeds = _named(estimator, "random_state", given=random_state is None)
    numbers = itertools.count(1)
    start = 0 if random_state is None else random_state
    for key in seeds if random_state is None else ():
        own = estimator.get_params()[key]
        start += int(own) if isinstance(own, Integral) else 0

    def fresh() -> Any:
        seed = (start * 1_000_003 + next(numbers)) % (1 << 32)
        return clone(estimator).set_params(
            **_harmless(estimator), **changes, **dict.fromkeys(seeds, seed)
        )

    return fresh


def _fit_transform(
    estimator: Any, fitted: Any, random_state: int | None
) -> Callable[..., Any] | None:
    """Return the `fit_transform` of fresh clones, None if there is none."""
    if not hasattr(estimator, "fit_transform"):
        return None
    if not hasattr(estimator, "get_params"):
        return fitted.fit_transform
    fresh = _clones(estimator, random_state, _declared(fitted))
    return lambda table, **ids: fresh().fit_transform(table, **ids)


def _fresh_of(
    estimator: Any, fitted: Any, random_state: int | None
) -> Callable[[], Any] | None:
    """Return a function that makes unfitted clones of an estimator that has all that is looked at."""
    used = ("fit", "transform") if hasattr(estimator, "transform") else ("report",)
    if isinstance(estimator, OnFitOnly) or not all(
        hasattr(estimator, name) for name in ("get_params", *used)
    ):
        return None
    return _clones(estimator, random_state, _declared(fitted))


def _is_fitted(estimator: Any) -> bool:
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def claim_of(audited: Audited) -> tuple[float, float]:
    guarantee = getattr(audited.fitted, "guarantee_", None)
    if guarantee is None:
        raise ValueError(
            "give the epsilon that is claimed: there is no guarantee_ to read it from"
        )
    if audited.central:
        one, other = map(count_rows, audited.tables)
        guarantee = guarantee.to("replace" if one == other else "add_remove")
    times = 1 if audited.keyed else audited.n_reports
    return float(Fraction(guarantee.epsilon) * times), float(guarantee.delta) * times


def seed_shows(estimator: Any, audited: Audited) -> bool:
    """Whether one release distinguishes two records to anyone who knows the seed."""
    if (
        not (hasattr(estimator, "transform") and hasattr(estimator, "get_params"))
        or audited.keyed
        or audited.central
    ):
        return False
    seen = []
    estimator = estimator.transformer if isinstance(estimator, OnFitOnly) else estimator
    for which in (0, 0, 1):
        again = clone(estimator).set_params(**_harmless(estimator))
        again.set_params(**_declared(audited.fitted))
        released = again.fit(audited.tables[0]).transform(
            repeat(audited.tables[which], _SEEDED_ROWS)
        )
        seen.append(
            b"".join(
                hash_cells(column).tobytes()
                for column in read_rows(released, _SEEDED_ROWS).values()
            )
        )
    return seen[0] == seen[1] != seen[2]


def is_seeded(estimator: Any) -> bool:
    """Whether the random bits of an estimator, or of one that it wraps, come from a seed."""
    return (
        bool(_named(estimator, "random_state", given=True))
        or getattr(estimator, "random_state", None) is not None
    )
