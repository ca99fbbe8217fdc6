"""The release and the promise of an audited estimator."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Number
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdp.evaluation.audits._neighbours import (
    check_replaced,
    count_rows,
    declared_values,
    make_records,
    repeat,
    stack,
)
from skdp.evaluation.audits._outputs import Outputs, hash_cells, read_call, read_rows, stack_calls
from skdp.frames import is_frame
from skdp.local import LocalTableEncoder, OnFitOnly, PerPerson

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
    """Prepare an estimator: fitted on public tables, and without its ledger."""
    if any(hasattr(estimator, name) for name in _COMPOSED):
        raise TypeError(
            f"a {type(estimator).__name__} has no one guarantee_: audit its private step, or what it releases, with "
            "audit_epsilon(lambda rows: clone(it).fit_transform(rows), neighbours=..., epsilon=...)"
        )
    if isinstance(estimator, PerPerson):
        raise TypeError(
            "a PerPerson needs to know the person of each row: audit its transformer, or two tables of one person, as "
            "in audit_epsilon(lambda rows: it.transform(rows, groups=[0] * len(rows)), neighbours, epsilon=...)"
        )
    if getattr(estimator, "protects_rows", None) is False:
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
    """Whether a fitted attribute is public and readable."""
    public = name.endswith("_") and not name.startswith("_") and name != "guarantee_"
    return public and (isinstance(value, _READABLE) or is_frame(value))


def _named(estimator: Any, name: str, *, given: bool = False) -> list[str]:
    """List the parameters of a name, also of wrapped estimators; if `given`, without those that are None."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return [key for key, value in parameters.items() if key.split("__")[-1] == name and not (given and value is None)]


def _harmless(estimator: Any) -> dict[str, Any]:
    """Return the changes that keep an audit from charging a ledger."""
    return dict.fromkeys(_named(estimator, "ledger", given=True))


def _declared(fitted: Any) -> dict[str, Any]:
    """Return what a fitted transformer declares of the values of its columns, as a parameter, if it has one."""
    if not hasattr(fitted, "get_params") or "categories" not in fitted.get_params(deep=False):
        return {}
    if isinstance(fitted, LocalTableEncoder):
        return {"categories": declared_values(fitted)}
    domain = getattr(fitted, "domain_", None)
    return {} if domain is None else {"categories": {name: domain[name] for name in domain.columns}}


def _clones(estimator: Any, random_state: int | None, changes: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that makes clones, each with its own seed if there is one, or all would draw the same bits."""
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
    """Return the `fit_transform` of fresh clones, None if there is none."""
    if not hasattr(estimator, "fit_transform"):
        return None
    if not hasattr(estimator, "get_params"):
        return fitted.fit_transform
    fresh = _clones(estimator, random_state, _declared(fitted))
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
    guarantee = getattr(audited.fitted, "guarantee_", None)
    if guarantee is None:
        raise ValueError("give the epsilon that is claimed: there is no guarantee_ to read it from")
    if audited.central:
        one, other = map(count_rows, audited.tables)
        guarantee = guarantee.to("replace" if one == other else "add_remove")
    times = 1 if audited.keyed else audited.n_reports
    return float(Fraction(guarantee.epsilon) * times), float(guarantee.delta) * times


def seed_shows(estimator: Any, audited: Audited, *, rows: int = 64) -> bool:
    """Whether one release distinguishes two records to anyone who knows the seed."""
    if not (hasattr(estimator, "transform") and hasattr(estimator, "get_params")) or audited.keyed or audited.central:
        return False
    seen = []
    estimator = estimator.transformer if isinstance(estimator, OnFitOnly) else estimator
    for which in (0, 0, 1):
        again = clone(estimator).set_params(**_harmless(estimator))
        again.set_params(**_declared(audited.fitted))
        released = again.fit(audited.tables[0]).transform(repeat(audited.tables[which], rows))
        seen.append(b"".join(hash_cells(column).tobytes() for column in read_rows(released, rows).values()))
    return seen[0] == seen[1] != seen[2]


def is_seeded(estimator: Any) -> bool:
    """Whether the random bits of an estimator, or of one that it wraps, come from a seed."""
    return bool(_named(estimator, "random_state", given=True)) or getattr(estimator, "random_state", None) is not None


_MOST_SUPPORTED = 64
_CELLS = 1 << 22
"""Cells of a batch of rows."""


@dataclass(frozen=True)
class Situation:
    """A table for single calls."""

    name: str
    table: Any
    place: int
    fit: bool = False


@dataclass
class Audited:
    """A release that is audited, and its neighbouring tables."""

    release: Callable[..., Any]
    tables: list[Any]
    each_row: bool
    fitted: Any = None
    keyed: bool = False
    n_reports: int = 1
    statistic: Callable[[Any], Any] | None = None
    fit_release: Callable[..., Any] | None = None
    paired: bool = False
    central: bool = False
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def groups(self) -> list[list[Situation]]:
        """List the groups of tables for single calls."""
        tables = self.tables
        groups = [[Situation("", table, place) for place, table in enumerate(tables)]]
        pairs = self._pairs() if self.paired else []
        if self.fit_release is not None and not pairs:
            groups.append([Situation("fit_transform: ", table, place, True) for place, table in enumerate(tables)])
        last = len(tables) - 1
        for both, fit in itertools.product(pairs, (False, True)):
            if not fit or self.fit_release is not None:
                name = "fit_transform of two rows: " if fit else "two rows: "
                groups.append(
                    [Situation(name, table, place, fit) for place, table in zip((0, last), both, strict=True)]
                )
        return groups

    def _pairs(self) -> list[tuple[Any, Any]]:
        """Pair tables of two rows that differ in one: the first record in one table, the last in the other."""
        first, middle, last = self.tables[0], self.tables[len(self.tables) // 2], self.tables[-1]
        try:
            return [
                (stack([middle, first]), stack([middle, last])),
                (stack([first, first]), stack([first, last])),
                (stack([first, middle]), stack([last, middle])),
            ]
        except Exception:
            return []  # tables of unlike dtypes

    def _reports(self, table: Any, fit: bool = False) -> list[Any]:
        """Release a table once for each report of a record, under new record ids."""
        release = self.fit_release if fit and self.fit_release is not None else self.release
        if not self.keyed:
            return [release(table) for _ in range(self.n_reports)]
        ids = [f"record {next(self._ids)}" for _ in range(count_rows(table))]
        return [release(table, record_id=ids) for _ in range(self.n_reports)]

    def rows(self, which: int, n: int) -> Outputs:
        """Draw outputs by releasing one table of equal rows."""
        outputs: Outputs = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # single calls look at them
            for turn, report in enumerate(self._reports(repeat(self.tables[which], n))):
                columns = read_rows(report, n)
                columns |= _supports(self.fitted, columns)
                if self.statistic is not None:
                    columns |= {f"statistic, {name}": c for name, c in read_rows(self.statistic(report), n).items()}
                outputs |= columns if self.n_reports == 1 else {f"report {turn}, {k}": c for k, c in columns.items()}
        return outputs

    def calls(self, situation: Situation, n: int) -> list[dict[str, Any]]:
        """Draw outputs by releasing a table again and again, with everything that is visible."""
        return [read_call(lambda: self._seen(situation)) for _ in range(n)]

    def _seen(self, situation: Situation) -> Any:
        reports = self._reports(situation.table, situation.fit)
        if self.statistic is not None:
            reports += [self.statistic(report) for report in reports]
        return reports[0] if len(reports) == 1 else reports

    def batches(self, which: int, n: int, *, width: int) -> Iterator[tuple[int, Outputs | None]]:
        """Draw many outputs by rows, in batches."""
        most = max(1000, _CELLS // width)
        while n > 0:
            size = min(n, most)
            try:
                outputs = self.rows(which, size)
            except Exception:
                yield size, None
            else:
                yield size, outputs
            n -= size

    def call_batch(self, situation: Situation, n: int) -> Outputs:
        return stack_calls(self.calls(situation, n))


def _supports(fitted: Any, columns: Outputs) -> Outputs:
    """Return which values each hashed report supports: the seed is public, and new in each report."""
    added: Outputs = {}
    oracles = getattr(fitted, "oracles_", ())
    if not any(oracle.shows_hash for oracle in oracles):
        return added
    arrays, place = list(columns.values()), 0
    for number, oracle in enumerate(oracles):
        width = oracle.width
        if oracle.shows_hash:
            reports = np.column_stack([array.astype(np.uint64) for array in arrays[place : place + width]])
            for value, supported in enumerate(oracle.supports(reports)[:, :_MOST_SUPPORTED].T):
                added[f"support of value {value} by attribute {number}"] = supported
        place += width
    return added
