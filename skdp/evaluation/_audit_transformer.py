"""An estimator as something that is audited: what it releases, and what it promises."""

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
from sklearn.utils.validation import check_is_fitted

from skdp.evaluation._audit_checks import check_replaced
from skdp.evaluation._audit_hashes import hash_cells
from skdp.evaluation._audit_outputs import read_rows
from skdp.evaluation._audit_records import count_rows, make_records, repeat
from skdp.evaluation._audit_release import Audited
from skdp.frames import is_frame
from skdp.local import OnFitOnly

_COMPOSED = ("steps", "transformers", "transformer_list")
_READABLE = (Number, str, bool, type(None), np.ndarray, list, tuple, dict)


def of_transformer(
    estimator: Any,
    neighbours: Any,
    *,
    n_reports: int | None,
    statistic: Callable[[Any], Any] | None,
    random_state: int | None,
) -> Audited:
    """Make an estimator ready: fitted on public tables, and without its ledger."""
    _refuse_composed(estimator)
    if getattr(estimator, "protects_rows", None) is False:
        return _of_central(estimator, neighbours, n_reports, statistic, random_state)
    tables = make_records(estimator) if neighbours is None else list(neighbours)
    if neighbours is not None:
        check_replaced(tables)
    changes = _harmless(estimator)
    if neighbours is None and hasattr(estimator, "domain_"):
        changes["categories"] = _categories(estimator)
    if random_state is not None:
        changes |= dict.fromkeys(_named(estimator, "random_state"), random_state)
    if not changes and neighbours is not None and _is_fitted(estimator):
        fitted = copy.deepcopy(estimator)  # its coins do not advance
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
    )


def _refuse_composed(estimator: Any) -> None:
    if any(hasattr(estimator, name) for name in _COMPOSED):
        raise TypeError(
            f"a {type(estimator).__name__} has no one guarantee_: audit its private step, or what it releases, with "
            "audit_epsilon(lambda rows: clone(it).fit_transform(rows), neighbours=..., epsilon=...)"
        )


def _of_central(
    estimator: Any,
    neighbours: Any,
    n_reports: int | None,
    statistic: Callable[[Any], Any] | None,
    random_state: int | None,
) -> Audited:
    """Audit what the fit of a fresh clone learns."""
    if neighbours is None:
        raise TypeError(
            f"the transform of {type(estimator).__name__} protects no row: what it promises is about what fit learns. "
            "Give neighbours, two tables that differ in one record, to audit its fitted attributes; or audit one, as "
            "in audit_epsilon(lambda rows: clone(it).fit(rows).mean_, neighbours=..., epsilon=...)"
        )
    fresh = _clones(estimator, random_state, {})

    def learn(table: Any) -> dict[str, Any]:
        learned = vars(fresh().fit(table)).items()
        return {name: value for name, value in learned if _is_released(name, value)}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise on small tables
        fitted = fresh().fit(neighbours[0])
    tables = list(neighbours)
    return Audited(learn, tables, False, fitted=fitted, n_reports=n_reports or 1, statistic=statistic, central=True)


def _is_released(name: str, value: Any) -> bool:
    """Say whether a fitted attribute is public and readable."""
    public = name.endswith("_") and not name.startswith("_") and name != "guarantee_"
    return public and (isinstance(value, _READABLE) or is_frame(value))


def _named(estimator: Any, name: str, *, given: bool = False) -> list[str]:
    """List the parameters of a name, also those of wrapped estimators; only such that are not None, if given."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return [key for key, value in parameters.items() if key.split("__")[-1] == name and not (given and value is None)]


def _harmless(estimator: Any) -> dict[str, Any]:
    """Return the changes without which an audit would charge a ledger."""
    return dict.fromkeys(_named(estimator, "ledger", given=True))


def _categories(fitted: Any) -> dict[Any, Any]:
    return {name: fitted.domain_[name] for name in fitted.domain_.columns}


def _clones(estimator: Any, random_state: int | None, changes: dict[str, Any]) -> Callable[[], Any]:
    """Return a maker of clones. Each has a seed of its own where there is one, or all would draw the same coins."""
    seeds = _named(estimator, "random_state", given=random_state is None)
    numbers = itertools.count(1)
    start = 0 if random_state is None else random_state
    for key in seeds if random_state is None else ():
        own = estimator.get_params()[key]
        start += int(own) if isinstance(own, Integral) else 0

    def fresh() -> Any:
        seed = (start * 1_000_003 + next(numbers)) % (1 << 32)
        return clone(estimator).set_params(**_harmless(estimator), **changes, **dict.fromkeys(seeds, seed))

    return fresh


def _fit_transform(estimator: Any, fitted: Any, random_state: int | None) -> Callable[..., Any] | None:
    """Return how a fresh clone fits a table and transforms it at once; None if it cannot."""
    if not hasattr(estimator, "fit_transform"):
        return None
    if not hasattr(estimator, "get_params"):
        return fitted.fit_transform
    known = "categories" in estimator.get_params(deep=False) and hasattr(fitted, "domain_")
    fresh = _clones(estimator, random_state, {"categories": _categories(fitted)} if known else {})
    return lambda table, **ids: fresh().fit_transform(table, **ids)


def _is_fitted(estimator: Any) -> bool:
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def claim_of(audited: Audited) -> tuple[float, float]:
    """Return what is promised."""
    guarantee = getattr(audited.fitted, "guarantee_", None)
    if guarantee is None:
        raise ValueError("give the epsilon that is claimed: there is no guarantee_ to read it from")
    if audited.central:
        one, other = map(count_rows, audited.tables)
        guarantee = guarantee.to("replace" if one == other else "add_remove")
    times = 1 if audited.keyed else audited.n_reports
    return float(Fraction(guarantee.epsilon) * times), float(guarantee.delta) * times


def seed_shows(estimator: Any, audited: Audited, *, rows: int = 64) -> bool:
    """Say whether whoever knows the seed can tell two records apart by a single release."""
    if not (hasattr(estimator, "transform") and hasattr(estimator, "get_params")) or audited.keyed or audited.central:
        return False
    seen = []
    estimator = estimator.transformer if isinstance(estimator, OnFitOnly) else estimator
    for which in (0, 0, 1):
        again = clone(estimator).set_params(**_harmless(estimator))
        if hasattr(audited.fitted, "domain_"):
            again.set_params(categories=_categories(audited.fitted))
        released = again.fit(audited.tables[0]).transform(repeat(audited.tables[which], rows))
        seen.append(b"".join(hash_cells(column).tobytes() for column in read_rows(released, rows).values()))
    return seen[0] == seen[1] != seen[2]


def is_seeded(estimator: Any) -> bool:
    """Say whether the coins of an estimator, or of one that it wraps, come from a seed."""
    return bool(_named(estimator, "random_state", given=True)) or getattr(estimator, "random_state", None) is not None
