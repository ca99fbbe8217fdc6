"""Coverage and width of the intervals of `fairness_report` and `debiased_fairness` on generated tables.

Run ``python benchmarks/fairness_intervals.py [--repeats 500]``. In each repeat, rows are drawn from a population whose
metrics are known, and the groups are reported.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from _timing import write_results

from skdp.metrics._fairness_report import Groups, Precision, measure
from skdp.metrics._intervals import Estimate
from skdp.metrics._rates import Labels, RateSums, sums_of_estimated, sums_of_known
from skdp.oracles import HadamardResponse, RandomizedResponse, UnaryEncoding
from skdp.randomness import SeededSource

LEVEL = 0.95
LARGEST_RATIO = 20.0  # in widths, as the interval of a ratio may be infinite
ORACLES = {"RR": RandomizedResponse, "OUE": UnaryEncoding, "HR": HadamardResponse}


@dataclass(frozen=True)
class Population:
    """Shares of the groups, of which the last one is privileged, and the rates of each."""

    shares: tuple[float, ...]
    base_rates: tuple[float, ...]
    true_positive_rates: tuple[float, ...]
    false_positive_rates: tuple[float, ...]

    def cells(self) -> np.ndarray:
        """Return the probabilities of group, true and predicted label: (n_groups, 2, 2)."""
        cells = np.empty((len(self.shares), 2, 2))
        for group, share in enumerate(self.shares):
            base, tpr, fpr = (
                self.base_rates[group],
                self.true_positive_rates[group],
                self.false_positive_rates[group],
            )
            cells[group] = share * np.array(
                [
                    [(1 - base) * (1 - fpr), (1 - base) * fpr],
                    [base * (1 - tpr), base * tpr],
                ]
            )
        return cells


POPULATIONS = {
    "two": Population((0.5, 0.5), (0.4, 0.5), (0.5, 0.7), (0.2, 0.3)),
    "12 and 88 %": Population((0.12, 0.88), (0.4, 0.35), (0.35, 0.6), (0.05, 0.1)),
    "three, low rates": Population(
        (0.3, 0.3, 0.4), (0.1, 0.1, 0.1), (0.3, 0.4, 0.5), (0.02, 0.03, 0.05)
    ),
    "four": Population(
        (0.1, 0.2, 0.3, 0.4),
        (0.4, 0.4, 0.5, 0.5),
        (0.4, 0.6, 0.6, 0.8),
        (0.1, 0.2, 0.2, 0.3),
    ),
    "four alike": Population((0.1, 0.2, 0.3, 0.4), (0.4,) * 4, (0.6,) * 4, (0.2,) * 4),
    "five": Population(
        (0.1, 0.15, 0.2, 0.25, 0.3),
        (0.3, 0.4, 0.4, 0.5, 0.5),
        (0.4, 0.5, 0.6, 0.7, 0.8),
        (0.1, 0.15, 0.2, 0.25, 0.3),
    ),
}
# The population and the number of rows; for reports also the oracle, epsilon, and what the intervals account for.
KNOWN = (
    ("12 and 88 %", 400),
    ("four", 600),
    ("four alike", 600),
    ("four", 2_000),
    ("five", 4_000),
)
REPORTED = (
    ("two", 600, "RR", 1.0, "sampled"),
    ("two", 4_000, "RR", 0.5, "fixed"),
    ("12 and 88 %", 600, "RR", 4.0, "fixed"),
    ("12 and 88 %", 2_000, "HR", 1.0, "fixed"),
    ("three, low rates", 4_000, "OUE", 2.0, "sampled"),
    ("four", 2_000, "OUE", 4.0, "sampled"),
    ("four alike", 4_000, "RR", 1.0, "fixed"),
    ("five", 2_000, "RR", 2.0, "sampled"),
    ("five", 4_000, "HR", 4.0, "fixed"),
)


def cover(
    name: str,
    n_rows: int,
    repeats: int,
    oracle_name: str = "",
    epsilon: float = 0.0,
    rows: str = "sampled",
):
    """Return the least coverage of each metric's groups, and the mean width."""
    cells = POPULATIONS[name].cells()
    n_groups = len(cells)
    groups = Groups.of(
        range(n_groups), np.arange(n_groups) == n_groups - 1, by_group=True
    )
    precision = Precision(rows, LEVEL)
    rng = np.random.default_rng(0)
    source = SeededSource(f"{name} {n_rows} {oracle_name} {epsilon}")
    oracle = ORACLES[oracle_name](n_groups, epsilon) if oracle_name else None
    truth = metrics_of_population(cells, groups)
    inside, widths = defaultdict(list), defaultdict(list)
    for _ in range(repeats):
        codes, true, predicted = np.unravel_index(
            rng.choice(cells.size, n_rows, p=cells.ravel()), cells.shape
        )
        # Scores of mean .4.
        labels = Labels(
            true == 1, predicted == 1, np.ones(n_rows), true - rng.beta(2, 3, n_rows)
        )
        known = sums_of_known(codes, groups.members, labels)
        sums = (
            known
            if oracle is None
            else sums_of_reports(oracle, codes, groups, labels, source)
        )
        if rows == "fixed":
            truth = [
                row[3].value
                for row in measure(known, labels.benefits(), groups, precision)
            ]
        for row, value in zip(
            measure(sums, labels.benefits(), groups, precision), truth, strict=True
        ):
            metric, _, group, estimate = row
            if np.isfinite(value):
                inside[metric.name, group].append(contains(estimate, value))
                widths[metric.name].append(width_of(estimate))
    texts = {}
    for metric in widths:
        coverage = min(
            np.mean(part) for (own, _), part in inside.items() if own == metric
        )
        texts[metric] = f"{coverage:.1%} ({np.mean(widths[metric]):.3f})"
    return texts


def metrics_of_population(cells: np.ndarray, groups: Groups) -> list[float]:
    codes, true, predicted = np.indices(cells.shape).reshape(3, -1)
    labels = Labels(true == 1, predicted == 1, 1e9 * cells.ravel(), true - 0.4)
    sums = sums_of_known(codes, groups.members, labels)
    return [
        row[3].value
        for row in measure(sums, labels.benefits(), groups, Precision("sampled", LEVEL))
    ]


def sums_of_reports(
    oracle, codes: np.ndarray, groups: Groups, labels: Labels, source: SeededSource
) -> RateSums:
    indicators = oracle.unbiased(oracle.report(codes.astype(np.uint8), source))
    indicators += (1 - indicators.sum(axis=1, keepdims=True)) / oracle.k
    return sums_of_estimated([(slice(None), indicators)], groups.members, labels)


def contains(estimate: Estimate, value: float) -> bool:
    return bool(estimate.lower <= value + 1e-9 and value - 1e-9 <= estimate.upper)


def width_of(estimate: Estimate) -> float:
    return float(
        min(estimate.upper, LARGEST_RATIO) - min(estimate.lower, LARGEST_RATIO)
    )


def table_of(
    columns: dict[str, dict[str, str]],
) -> tuple[tuple[str, ...], list[list[str]]]:
    names = dict.fromkeys(name for texts in columns.values() for name in texts)
    rows = [
        [name.replace("_", " "), *(texts.get(name, "") for texts in columns.values())]
        for name in names
    ]
    return ("metric", *columns), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=500)
    repeats = parser.parse_args().repeats
    known, sampled, fixed = {}, {}, {}
    for name, n_rows in KNOWN:
        known[f"{name}, {n_rows:,} rows"] = cover(name, n_rows, repeats)
    for name, n_rows, oracle, epsilon, rows in REPORTED:
        column = f"{name}, {n_rows:,} rows, {oracle} at {epsilon:g}"
        found = cover(name, n_rows, repeats, oracle, epsilon, rows)
        (sampled if rows == "sampled" else fixed)[column] = found
    write_results(
        "fairness_intervals",
        "Intervals of fairness metrics: coverage and width",
        ("skdp", "numpy", "scipy"),
        f"Generated populations, {repeats:,} repeats of rows and randomness (the error of a coverage of 95 % is "
        f"{(0.95 * 0.05 / repeats) ** 0.5:.1%}), 95 % intervals, all draws, nothing left out: the least coverage of a "
        "group, and in brackets the mean width, in which a ratio counts up to 20. The target is 93 % or more from 50 "
        "rows of a group on. Sampled: the metric of the population is to be covered; fixed: that of the rows drawn. "
        "Where reports say nothing of a group, its interval is the whole possible range, and covers always. An "
        "interval that ends where the range does can be missed on one side only, and so covers 97.5 % and more; so "
        'does one whose truth is an end of the range, as that of equal rates ("four alike"). RR: randomised response, '
        "OUE: unary encoding, HR: Hadamard response, with their epsilon.",
        {
            "Known groups": table_of(known),
            "Groups from reports, sampled rows": table_of(sampled),
            "Groups from reports, fixed rows": table_of(fixed),
        },
    )


if __name__ == "__main__":
    main()
