"""The metrics of group fairness: one table for groups that are known and for those that are estimated."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from skdp.metrics.fairness._comparisons import compare_extremes, compare_with_last
from skdp.metrics.fairness._intervals import Estimate, Numbers, theil
from skdp.metrics.fairness._rates import Mask, RateSums

CONVENTION = "difference = unprivileged − privileged, ratio = unprivileged / privileged, + is the positive label"


class Metric(NamedTuple):
    """The name of a metric in code, that for people, and its definition."""

    name: str
    label: str
    definition: str


RATES = (
    Metric("selection_rate", "selection rate", "P(ŷ=+)"),
    Metric("true_positive_rate", "true positive rate", "TPR = P(ŷ=+ | y=+)"),
    Metric("false_positive_rate", "false positive rate", "FPR = P(ŷ=+ | y=−)"),
    Metric("calibration_gap", "calibration gap", "P(y=+) − mean score"),
)
COMPARISONS = (
    Metric(
        "statistical_parity_difference",
        "statistical parity difference",
        "P(ŷ=+): {} − privileged",
    ),
    Metric("disparate_impact", "disparate impact", "P(ŷ=+): {} / privileged"),
    Metric(
        "equal_opportunity_difference",
        "equal opportunity difference",
        "TPR: {} − privileged",
    ),
    Metric(
        "average_odds_difference", "average odds difference", "FPR&TPR: {} − privileged"
    ),
)
_RANGES = tuple(
    Metric(f"{name}_{kind}", f"{label}, {words}", f"{short}: {words}")
    for name, label, short in (
        ("selection_rate", "selection rate", "P(ŷ=+)"),
        ("true_positive_rate", "true positive rate", "TPR"),
        ("false_positive_rate", "false positive rate", "FPR"),
        ("equalized_odds", "odds", "worse of TPR, FPR"),
    )
    for kind, words in (
        ("difference", "largest − smallest"),
        ("ratio", "smallest / largest"),
    )
)
_THEIL = Metric("theil_index", "Theil index", "mean of b/μ·ln(b/μ), b = 1 + ŷ − y")
CONSISTENCY = Metric(
    "consistency", "consistency", "1 − mean |ŷ − that of 5 neighbours|"
)
LABELS = {
    one.name: one.label for one in (*RATES, *COMPARISONS, *_RANGES, _THEIL, CONSISTENCY)
}
Row = tuple[Metric, str, Any, Estimate]
"""A metric, its definition, its group and its estimate."""


@dataclass(frozen=True)
class Groups:
    """Groups of cells by name, and which of them are compared with the privileged one."""

    names: tuple[Any, ...]
    members: Mask
    """Of each cell, the groups that it is in; the privileged one, if there is one, is the last."""
    compared: NDArray[np.intp] | None
    by_group: bool

    @classmethod
    def of(
        cls, names: Sequence[Any], privileged: Mask | None, by_group: bool
    ) -> Groups:
        every = np.eye(len(names), dtype=bool)
        if privileged is None:
            return cls(tuple(names), every, None, True)
        if not by_group:
            both = np.stack([~privileged, privileged], axis=1)
            return cls(("unprivileged", "privileged"), both, np.array([0]), False)
        members = np.concatenate([every, privileged[:, np.newaxis]], axis=1)
        return cls(tuple(names), members, np.flatnonzero(~privileged), True)


@dataclass(frozen=True)
class Precision:
    """What intervals account for, and how often they hold."""

    rows: str
    level: float
    simultaneous: bool = False
    n_tables: int = 1
    intervals: bool = True
    """Whether those that take time are asked for."""

    def __post_init__(self) -> None:
        if self.simultaneous not in (True, False):
            raise ValueError(
                f"simultaneous must be True or False, got {self.simultaneous!r}"
            )

    def of(self, n_groups: int) -> float:
        """Return the level of each interval of a metric that some groups have (Šidák 1967)."""
        return (
            self.level ** (1 / (n_groups * self.n_tables))
            if self.simultaneous
            else self.level
        )


def measure(
    sums: RateSums,
    benefits: tuple[Numbers, Numbers],
    groups: Groups,
    precision: Precision,
) -> Iterator[Row]:
    """Estimate all metrics."""
    n_groups = len(groups.names)
    rates = sums.estimate(precision.rows, precision.of(n_groups))
    n_rates = len(sums.top)
    for place, metric in enumerate(RATES[:n_rates]):
        for group, name in enumerate(groups.names):
            yield metric, metric.definition, name, rates[place, group]
    if groups.compared is not None:
        names = [
            groups.names[place] if groups.by_group else None
            for place in groups.compared
        ]
        chosen = sums[np.append(groups.compared, sums.top.shape[-1] - 1)]
        estimates = compare_with_last(chosen, precision.rows, precision.of(len(names)))
        word = "group" if groups.by_group else "unprivileged"
        for metric, estimate in zip(COMPARISONS, estimates, strict=True):
            for place, name in enumerate(names):
                yield metric, metric.definition.format(word), name, estimate[place]
    if groups.by_group and n_groups > 1:
        yield from _ranges(sums, n_groups, precision)
    first, second = benefits
    yield (
        _THEIL,
        _THEIL.definition,
        None,
        theil(first, second * (precision.rows == "sampled"), precision.level),
    )


def _ranges(sums: RateSums, n_groups: int, precision: Precision) -> Iterator[Row]:
    """Compare the largest rate with the smallest, as fairlearn does."""
    sums = sums[slice(n_groups)]
    has_rows = sums.defined[0]
    if has_rows.any():  # if no row has a weight, nothing is known of any group
        sums = sums[np.flatnonzero(has_rows)]
    estimates = compare_extremes(sums, precision.rows, precision.of(1))
    for metric, estimate in zip(_RANGES, estimates, strict=True):
        yield metric, metric.definition, None, estimate


def write_table(
    tables: Iterable[tuple[tuple[Any, ...], list[Row]]],
    controls: Sequence[Any],
    confidence_level: float | None,
    *,
    estimated: bool = False,
) -> pd.DataFrame:
    """Write the metrics of each cell of the control features as rows, and warn of those that are undefined."""
    listed = [(cell, row) for cell, rows in tables for row in rows]
    cells, rows = zip(*listed, strict=True)
    columns: dict[Any, Any] = {
        name: pd.Series([cell[place] for cell in cells], dtype=object)
        for place, name in enumerate(controls)
    }
    columns |= {
        "metric": [row[0].name for row in rows],
        "definition": [row[1] for row in rows],
    }
    # Objects, to keep None and groups of several values.
    columns["group"] = pd.Series([row[2] for row in rows], dtype=object)
    names = ("value", "std_error", "lower", "upper") if confidence_level else ("value",)
    columns |= {name: [float(getattr(row[3], name)) for row in rows] for name in names}
    table = pd.DataFrame(columns)
    table.attrs |= {
        "convention": CONVENTION,
        "labels": {name: LABELS[name] for name in table["metric"].unique()},
    }
    if confidence_level:
        table.attrs["confidence_level"] = confidence_level
    # A quotient of estimates is infinite by their noise alone.
    unknown = table["value"].isna() if estimated else ~np.isfinite(table["value"])
    undefined = table.loc[unknown, "metric"].unique()
    if len(undefined):
        warnings.warn(
            f"undefined: {'; '.join(undefined)}. There is no row that the definition divides by, or a rate of 0",
            UndefinedMetricWarning,
            stacklevel=3,
        )
    return table
