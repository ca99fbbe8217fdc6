"""Coverage of all intervals of `fairness_report` and `debiased_fairness` on generated tables with small groups.

Run ``python benchmarks/fairness_intervals.py [--repeats 1000]``. In each repeat 100 rows are drawn from a population
whose metrics are known, and the groups are reported.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
from _timing import write_results

from skdp import Domain
from skdp.metrics.fairness import Groups, Labels, Precision, RateSums, measure, sums_of_estimated, sums_of_known
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
Cover = dict[str, tuple[float, float]]


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
    return RateSums(*(np.stack([getattr(part, one.name) for part in parts]) for one in fields(RateSums)))


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

    def cover(self, sums: RateSums, groups: Groups, rows: str, simultaneous: bool = False) -> Iterator[tuple[str, str]]:
        """Yield how often the intervals of each metric cover, the least and the most of its groups, and the width."""
        benefits = np.array([labels.benefits() for _, labels in self.rows]).transpose(1, 0, 2)
        found = list(measure(sums, tuple(benefits), groups, Precision(rows, LEVEL, simultaneous)))
        truth = self.truth(groups)
        if rows == "fixed":  # the metrics of the rows that were drawn
            exact = measure(self.known(groups), tuple(benefits), groups, Precision(rows, LEVEL))
            truth = [row[3].value for row in exact]
        by_metric: dict[str, list[tuple[np.ndarray, float, np.ndarray]]] = {}
        for (metric, _, _, one), value in zip(found, truth, strict=True):
            inside = (one.lower <= value + 1e-9) & (value - 1e-9 <= one.upper)
            known = np.isfinite(np.broadcast_to(value, inside.shape))
            width = float(np.median(one.upper - one.lower))
            by_metric.setdefault(metric.name, []).append((inside[known].mean(), width, inside | ~known))
        for name, parts in by_metric.items():
            shares, widths, inside = zip(*parts, strict=True)
            width = f"{np.median(widths):.2f}"
            if simultaneous:
                yield name, f"{np.all(inside, axis=0).mean():.1%} ({width})"
                continue
            least, most = f"{min(shares):.1%}", f"{max(shares):.1%}"
            yield name, f"{least} ({width})" if least == most else f"{least} to {most} ({width})"


def table_of(columns: dict[str, dict[str, str]]) -> tuple[tuple[str, ...], list[list[str]]]:
    names = dict.fromkeys(name for found in columns.values() for name in found)
    rows = [[name.replace("_", " "), *(found.get(name, "") for found in columns.values())] for name in names]
    return ("metric", *columns), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    known, together, tables = {}, {}, {}
    for name in TABLES:
        study = Study(name, repeats)
        groups = study.groups(by_group=True)
        sums = study.known(groups)
        known[name] = dict(study.cover(sums, groups, "sampled"))
        if study.n_groups > 2:
            together[name] = dict(study.cover(sums, groups, "sampled", simultaneous=True))
            weighted = Study(name, repeats, weighted=True)
            known[f"{name}, with weights"] = dict(weighted.cover(weighted.known(groups), groups, "sampled"))
    tables["Known groups"] = table_of(known)
    tables["Known groups, all groups at once (simultaneous=True)"] = table_of(together)
    for name in TABLES:
        study = Study(name, repeats)
        for by_group in (False, True):
            if by_group and study.n_groups == 2:
                continue
            groups, columns = study.groups(by_group), {}
            for epsilon in EPSILONS:
                sums = study.estimated(groups, epsilon)
                for rows in ("sampled", "fixed"):
                    columns[f"ε = {epsilon:g}, {rows} rows"] = dict(study.cover(sums, groups, rows))
            what = "each group" if by_group else "privileged and others"
            tables[f"Groups from reports: {name}, {what}"] = table_of(columns)
    write_results(
        "fairness_intervals",
        "Intervals of fairness metrics: coverage with small groups",
        ("skdp", "numpy", "scipy"),
        f"{N_ROWS} rows of a generated population, {repeats:,} repeats (of the rows and the randomness; the error of "
        f"a coverage of 95 % is {(0.95 * 0.05 / repeats) ** 0.5:.1%}), 95 % intervals, all draws, nothing left out. In "
        "brackets is the median width. Of metrics that several groups have, the least and the most coverage of a "
        "group. The target is 93 to 97 %. An interval that is the whole possible range covers always: so it is where "
        "reports of 100 rows say nothing of a group (ε = .3), and where a rate near 0 has few rows. A range of equal "
        'rates ("four alike") is covered from below only. Without rows that a rate divides by, the interval is all '
        "that is possible. Rows are fixed: the metric of the rows drawn; sampled: that of the population.",
        tables,
    )


if __name__ == "__main__":
    main()
