"""Coverage of all intervals of `fairness_report` and `debiased_fairness` on generated tables with small groups.

Run ``python benchmarks/fairness_intervals.py [--repeats 1000]``. In each repeat 100 rows are drawn from a population
whose metrics are known, and the groups are reported.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from dataclasses import fields

import numpy as np
from _timing import write_results

from skdp import Domain
from skdp.metrics.fairness import (
    Estimate,
    Groups,
    Labels,
    Precision,
    RateSums,
    measure,
    sums_of_estimated,
    sums_of_known,
)
from skdp.metrics.private_groups._reports import GroupReports
from skdp.oracles import RandomizedResponse
from skdp.randomness import SeededSource

N_ROWS, LEVEL, EPSILONS = 100, 0.95, (0.3, 1.0, 3.0)
# The shares of the groups, of which the last one is privileged; in each, the share of positive labels, and the rates.
TABLES = {
    "two groups of 30 and 70": ((0.3, 0.7), (0.4, 0.5), (0.5, 0.7), (0.2, 0.3)),
    "12 and 88, low rates": ((0.12, 0.88), (0.4, 0.35), (0.35, 0.6), (0.05, 0.1)),
    "four of 10 to 40": ((0.1, 0.2, 0.3, 0.4), (0.4, 0.4, 0.5, 0.5), (0.4, 0.6, 0.6, 0.8), (0.1, 0.2, 0.2, 0.3)),
    "four alike": ((0.1, 0.2, 0.3, 0.4), (0.4,) * 4, (0.6,) * 4, (0.2,) * 4),
}
WEIGHT = np.array([[1.0, 2.0], [0.5, 3.0]])  # of a row, by its labels
LEAST, MOST = 0.93, 0.97
SIGNED = (
    "calibration_gap",
    "statistical_parity_difference",
    "equal_opportunity_difference",
    "average_odds_difference",
)
WITHIN, BELOW = "93 to 97 %", "below"
AT_END, WHOLE = "above: the truth is an end of the range", "above: mostly the whole range"
ONE_END, OTHER = "above: mostly up to an end of the range", "above: other"


def population(table: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """Return the probabilities of groups, true and predicted labels."""
    share, base, tpr, fpr = map(np.array, table)
    cells = [(1 - base) * (1 - fpr), (1 - base) * fpr, base * (1 - tpr), base * tpr]
    return (share * cells).T.reshape(-1, 2, 2)


def labels_of(cells: np.ndarray, weighted: bool, scores: np.ndarray) -> tuple[np.ndarray, Labels]:
    """Return the groups and the labels of cells."""
    group, true, predicted = np.unravel_index(cells, (cells.max() // 4 + 1, 2, 2))
    weights = WEIGHT[true, predicted] if weighted else np.ones(len(cells))
    return group, Labels(true == 1, predicted == 1, weights, true - scores)


def stack(parts: list[RateSums]) -> RateSums:
    every = ([getattr(part, one.name) for part in parts] for one in fields(RateSums))
    return RateSums(*(None if one[0] is None else np.stack(one) for one in every))


class Study:
    """Draws of rows and of reports of a population."""

    def __init__(self, name: str, repeats: int, weighted: bool = False) -> None:
        self.cells = population(TABLES[name])
        self.n_groups, self.repeats = len(self.cells), repeats
        rng = np.random.default_rng(sum(map(ord, name)))
        cells = rng.choice(self.cells.size, (repeats, N_ROWS), p=self.cells.ravel())
        scores = rng.beta(2, 3, cells.shape)  # of mean .4
        self.rows = [labels_of(*part) for part in zip(cells, [weighted] * repeats, scores, strict=True)]
        self.weights = WEIGHT if weighted else np.ones((2, 2))

    def groups(self, by_group: bool) -> Groups:
        return Groups.of(range(self.n_groups), np.arange(self.n_groups) == self.n_groups - 1, by_group)

    def truth(self, groups: Groups) -> list[np.ndarray]:
        """Return the metrics of the population."""
        mass = 1e9 * self.cells * self.weights
        cells = np.indices(mass.shape).reshape(3, -1)
        true, predicted = cells[1] == 1, cells[2] == 1
        labels = Labels(true, predicted, mass.ravel(), true - 0.4)
        sums = sums_of_known(cells[0], groups.members, labels)
        return [row[3].value for row in measure(sums, labels.benefits(), groups, Precision("sampled", LEVEL))]

    def known(self, groups: Groups) -> RateSums:
        return stack([sums_of_known(codes, groups.members, labels) for codes, labels in self.rows])

    def estimated(self, groups: Groups, epsilon: float) -> RateSums:
        oracle, domain = RandomizedResponse(self.n_groups, epsilon), Domain({"group": range(self.n_groups)})
        codes = np.concatenate([codes for codes, _ in self.rows]).astype(np.uint8)
        reports = oracle.report(codes, SeededSource(f"intervals {epsilon}")).reshape(self.repeats, -1)
        of_rows = (GroupReports(domain, domain, (oracle,), (part,)).indicators() for part in reports)
        pairs = zip(of_rows, self.rows, strict=True)
        return stack([sums_of_estimated(blocks, groups.members, labels) for blocks, (_, labels) in pairs])

    def cover(
        self, sums: RateSums, groups: Groups, rows: str, counts: Counter[str], simultaneous: bool = False
    ) -> dict[str, str]:
        """Return how often the intervals of each metric cover, the least and the most of its groups, and the width."""
        benefits = np.array([labels.benefits() for _, labels in self.rows]).transpose(1, 0, 2)
        found = list(measure(sums, tuple(benefits), groups, Precision(rows, LEVEL, simultaneous)))
        truth = self.truth(groups)
        if rows == "fixed":  # the metrics of the rows that were drawn
            exact = measure(self.known(groups), tuple(benefits), groups, Precision(rows, LEVEL, intervals=False))
            truth = [row[3].value for row in exact]
        by_metric: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray, str]]] = {}
        for (metric, _, _, one), value in zip(found, truth, strict=True):
            inside = (one.lower <= value + 1e-9) & (value - 1e-9 <= one.upper)
            known = np.isfinite(np.broadcast_to(value, inside.shape))
            why = cause(metric.name, one, value)
            by_metric.setdefault(metric.name, []).append((inside | ~known, known, one.upper - one.lower, why))
        texts = {}
        for name, parts in by_metric.items():
            inside, known, widths, causes = map(list, zip(*parts, strict=True))
            width = np.median([np.median(one) for one in widths])
            shares = [one[own].mean() for one, own in zip(inside, known, strict=True)]
            if simultaneous:
                shares = [np.all(inside, axis=0).mean()]
            least, most = min(shares), max(shares)
            if width > 0:  # the Theil index of fixed rows is known
                above = causes[int(np.argmax(shares))] if most > MOST else WITHIN
                counts[BELOW if least < LEAST else above] += 1
            ends = dict.fromkeys((f"{least:.1%}", f"{most:.1%}"))
            texts[name] = f"{' to '.join(ends)} ({width:.2f})"
        return texts


def cause(name: str, one: Estimate, truth: np.ndarray) -> str:
    """Return why an interval may cover more than asked for."""
    lowest = -1.0 if name in SIGNED else 0.0
    highest = np.inf if name in ("disparate_impact", "theil_index") else 1.0
    if np.ndim(truth) == 0 and truth in (lowest, highest):
        return AT_END
    at_ends = one.lower <= lowest + 1e-9, one.upper >= highest - 1e-9
    if np.mean(at_ends[0] & at_ends[1]) >= 0.5:
        return WHOLE
    return ONE_END if np.mean(at_ends[0] | at_ends[1]) >= 0.5 else OTHER


def table_of(columns: dict[str, dict[str, str]]) -> tuple[tuple[str, ...], list[list[str]]]:
    names = dict.fromkeys(name for found in columns.values() for name in found)
    rows = [[name.replace("_", " "), *(found.get(name, "") for found in columns.values())] for name in names]
    return ("metric", *columns), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    known, together, tables = {}, {}, {}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name in TABLES:
        study = Study(name, repeats)
        groups = study.groups(by_group=True)
        sums = study.known(groups)
        known[name] = study.cover(sums, groups, "sampled", counts["known groups"])
        if study.n_groups > 2:
            all_at_once = counts["known groups, simultaneous"]
            together[name] = study.cover(sums, groups, "sampled", all_at_once, simultaneous=True)
            weighted = Study(name, repeats, weighted=True)
            with_weights = counts["known groups, with weights"]
            known[f"{name}, with weights"] = weighted.cover(weighted.known(groups), groups, "sampled", with_weights)
    for name in TABLES:
        study = Study(name, repeats)
        for by_group in (False, True):
            if by_group and study.n_groups == 2:
                continue
            groups, columns = study.groups(by_group), {}
            for epsilon in EPSILONS:
                sums = study.estimated(groups, epsilon)
                for rows in ("sampled", "fixed"):
                    own = counts[f"groups from reports, ε = {epsilon:g}"]
                    columns[f"ε = {epsilon:g}, {rows} rows"] = study.cover(sums, groups, rows, own)
            what = "each group" if by_group else "privileged and others"
            tables[f"Groups from reports: {name}, {what}"] = table_of(columns)
    verdicts = (WITHIN, BELOW, AT_END, WHOLE, ONE_END, OTHER)
    summary = [
        [what, f"{own.total()}", *(f"{own[verdict]}" for verdict in verdicts)] for what, own in sorted(counts.items())
    ]
    tables = {
        "Together": (("what", "metrics", *verdicts), summary),
        "Known groups": table_of(known),
        "Known groups, all groups at once (simultaneous=True)": table_of(together),
    } | tables
    write_results(
        "fairness_intervals",
        "Intervals of fairness metrics: coverage with small groups",
        ("skdp", "numpy", "scipy"),
        f"{N_ROWS} rows of a generated population, {repeats:,} repeats (of the rows and the randomness; the error of "
        f"a coverage of 95 % is {(0.95 * 0.05 / repeats) ** 0.5:.1%}), 95 % intervals, all draws, nothing left out. In "
        "brackets is the median width. Of metrics that several groups have, the least and the most coverage of a "
        "group. The target is 93 to 97 %. Together counts the metrics of all tables, with all their groups, and why "
        "some are above it. Where reports of 100 rows say nothing of a group (ε = .3), most intervals are the whole "
        "possible range, which covers always. An interval that ends where the range does can miss on one side only, "
        'and so covers 97.5 % and more. A truth that is itself an end of the range, as that of equal rates ("four '
        'alike"), is missed on one side only, or never. The others are mostly rates of few rows of known groups, as '
        "numbers of rows are whole, and of reports differences of rates whose sets are unbounded. Without rows that a "
        "rate divides by, the interval is all that is possible. Rows are fixed: the "
        "metric of the rows drawn; sampled: that of the population.",
        tables,
    )


if __name__ == "__main__":
    main()
