"""The width of the interval that an estimator is going to state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from skdp.central import DPHistogram, planned_half_width
from skdp.domain import Domain
from skdp.evaluation.curves import compare_to_baseline
from skdp.local import (
    LocalTableEncoder,
    OracleEncoder,
    OracleField,
    ReportProtocol,
    ReportTally,
    estimate_counts,
)
from skdp.metrics.private_groups import parity_half_width
from skdp.privacy import WeakGuaranteeWarning

Quantity = Literal["count", "frequency", "parity"]
Width = Callable[[int], float]
"""Half the width of an interval, for a number of rows."""

_SHARES = tuple(np.linspace(0, 1, 11).tolist())
"""Of which the worst is taken in a sample; without one the variance is linear in the share, and 0 and 1 are enough."""


@dataclass(frozen=True)
class Question:
    """What shall be known how well."""

    of: str
    level: float
    share: float | None
    columns: list[Any] | None
    parity: Mapping[str, Any]


def width_at(estimator: Any, epsilon: Any, question: Question) -> Width:
    """Return the half width that an estimator reaches with an epsilon."""
    copy = clone(estimator).set_params(epsilon=epsilon, ledger=None)
    if isinstance(copy, DPHistogram):
        domain, share = (
            declared_domain(estimator),
            1.0 if question.share is None else question.share,
        )
        per = (
            (lambda n_rows: n_rows)
            if question.of == "frequency"
            else (lambda n_rows: 1)
        )
        return lambda n_rows: (
            planned_half_width(copy, domain, n_rows * share, question.level)
            / per(n_rows)
        )
    with warnings.catch_warnings(
        action="ignore", category=WeakGuaranteeWarning
    ):  # of an epsilon that is only tried
        fitted = copy.set_params(categories=declared_domain(estimator)).fit(
            _declared_row(estimator)
        )
    if question.of == "parity":
        own = {"columns": question.columns, "level": question.level, **question.parity}
        return lambda n_rows: parity_half_width(fitted, n_rows, **own)
    return lambda n_rows: _of_reports(fitted, n_rows, question)


def epsilon_of(estimator: Any, amount: float) -> Any:
    """Return the epsilon of an estimator with another amount: a number, or a rho or mu with its delta."""
    given = estimator.epsilon
    if not is_dataclass(given):
        return amount
    name = next(name for name in ("epsilon", "rho", "mu") if hasattr(given, name))
    return replace(given, **{name: amount})  # type: ignore[type-var]


def amount_of(epsilon: Any) -> float:
    """Return the number in an epsilon."""
    return float(
        next(
            (
                getattr(epsilon, name)
                for name in ("epsilon", "rho", "mu")
                if hasattr(epsilon, name)
            ),
            epsilon,
        )
    )


def declared_domain(estimator: Any) -> Domain:
    """Return the declared values of an estimator, by the names of the columns."""
    name = "domain" if isinstance(estimator, DPHistogram) else "categories"
    declared = getattr(estimator, "domain_", getattr(estimator, name))
    if not isinstance(declared, Domain | Mapping):
        raise TypeError(
            f"{name} of {type(estimator).__name__} must be a mapping or a Domain: nothing else is known here"
        )
    return declared if isinstance(declared, Domain) else Domain(declared)


def _declared_row(estimator: Any) -> pd.DataFrame:
    """Return a row of declared values, to fit to."""
    domain, bounds = (
        declared_domain(estimator),
        getattr(estimator, "bounds", None) or {},
    )
    row = {
        name: pd.Series([domain[name].values[0]], dtype=object)
        for name in domain.columns
    }
    return pd.DataFrame(
        row | {name: pd.Series([float(low)]) for name, (low, _) in bounds.items()}
    )


def check_estimator(estimator: Any, of: str) -> None:
    """Refuse what has no counts to plan."""
    if of not in get_args(Quantity):
        raise ValueError(f"of must be one of {get_args(Quantity)}, got {of!r}")
    kinds = (
        OracleEncoder
        if of == "parity"
        else (OracleEncoder, LocalTableEncoder, DPHistogram)
    )
    if isinstance(estimator, type) or not isinstance(estimator, kinds):
        wanted = (
            "an encoder of categories"
            if of == "parity"
            else "an encoder of categories or tables, or a DPHistogram"
        )
        raise TypeError(f"of={of!r} is planned for {wanted}, got {_name(estimator)}")


def _name(given: Any) -> str:
    return (
        f"the class {given.__name__}"
        if isinstance(given, type)
        else type(given).__name__
    )


def _of_reports(encoder: Any, n_rows: int, question: Question) -> float:
    protocol = encoder.protocol_
    shares: tuple[float, ...] = (0.0, 1.0)
    if question.share is not None:
        shares = (question.share,)
    elif protocol.n_sampled is not None:
        shares = _SHARES
    tables = (
        table
        for share in shares
        for table in _expected(protocol, n_rows, share, question)
    )
    # Near 0 and n the interval of a sample is not symmetric: half of it is stated, not the longer arm.
    return max(float((table["upper"] - table["lower"]).iloc[0]) / 2 for table in tables)


def _expected(
    protocol: Any, n_rows: int, share: float, question: Question
) -> Iterator[pd.DataFrame]:
    """Yield the estimates of the expected reports, where the first value has a share."""
    options: dict[str, Any] = {"confidence_level": question.level, "what": question.of}
    for columns in _counted_groups(protocol, question.columns):
        tally = _expected_tally(protocol, n_rows, share, columns)
        yield estimate_counts(protocol, tally, columns, **options)


def _counted_groups(
    protocol: ReportProtocol, columns: Sequence[Any] | None
) -> list[list[Any]]:
    """Return the columns whose values are counted together."""
    assert protocol.domain is not None
    if columns is None and protocol.strategy == "joint":
        return [list(protocol.columns)]
    return [[name] for name in (columns or protocol.domain.columns)]


def _expected_tally(
    protocol: ReportProtocol, n_rows: int, share: float, columns: Sequence[Any]
) -> ReportTally:
    """Return the sums of reports on average: the first combination of the columns has a share, the others are alike."""
    rates = [1.0] * len(protocol.fields)
    if protocol.sampling is not None:
        rates = [float(rate) for rate in protocol.sampling.inclusions]
    empty = protocol.empty_tally()
    counts: list[Any] = list(empty.counts)
    sizes: list[Any] = list(empty.sizes)
    for place, (field, rate) in enumerate(zip(protocol.fields, rates, strict=True)):
        if isinstance(field, OracleField):
            sizes[place] = size = n_rows * rate
            counts[place] = _expected_sums(field, size, share, columns)
    return replace(empty, counts=tuple(counts), sizes=tuple(sizes), n_reports=n_rows)


def _expected_sums(
    field: OracleField, size: float, share: float, columns: Sequence[Any]
) -> Any:
    domain = field.domain
    oracle: Any = field.oracle
    axes = np.indices(domain.sizes).reshape(len(domain.columns), -1)
    is_asked = [name in columns for name in domain.columns]
    first = (axes[is_asked] == 0).all(axis=0)
    shares = np.where(first, share / first.sum(), (1 - share) / max((~first).sum(), 1))
    # The estimate of these sums is the counts.
    zero = oracle.estimate(np.zeros(oracle.k), size)
    one = oracle.estimate(np.ones(oracle.k), size)
    return (shares * size - zero) / (one - zero)


def losses_of(curve: pd.DataFrame, metric: str, level: float) -> pd.DataFrame:
    """Return how far the mean scores are from those without noise, fitted to fall with epsilon, and the intervals."""
    found = compare_to_baseline(curve, confidence_level=level)
    known = found["metric"].unique().tolist()
    if metric not in known:
        raise ValueError(
            f"of must be a metric of the curve, one of {known}, got {metric!r}"
        )
    found = found[(found["metric"] == metric) & (found["group"] == "all")].sort_values(
        "epsilon"
    )
    found = found[found["difference"].notna()]
    if len(found) < 2:
        raise ValueError(
            f"curve must have finite scores of {metric!r} at two epsilons or more"
        )
    fitted = IsotonicRegression(increasing=False).fit_transform(
        np.arange(len(found)), found["difference"].abs()
    )
    reach = ((found["upper"] - found["lower"]) / 2).fillna(np.inf).to_numpy()
    table = {"epsilon": found["epsilon"].to_numpy(), "half_width": fitted}
    return pd.DataFrame(
        table | {"lower": np.maximum(fitted - reach, 0), "upper": fitted + reach}
    )


def crossing(losses: pd.DataFrame, column: str, within: float) -> float:
    """Return the least epsilon at which a loss is small enough, by a line between neighbours; inf if it never is."""
    values = np.minimum.accumulate(losses[column].to_numpy())
    epsilons = losses["epsilon"].to_numpy()
    small = np.flatnonzero(values <= within)
    if not small.size:
        return float("inf")
    place = int(small[0])
    if place == 0:
        return float(epsilons[0])
    before, after = values[place - 1], values[place]
    weight = (before - within) / (before - after)
    return float(
        epsilons[place - 1] * (epsilons[place] / epsilons[place - 1]) ** weight
    )
