"""What a floor of the budget for columns that may be labels could reach, against a caller who names the label.

Run ``make bench``, or ``python benchmarks/label_floor.py`` wherever skdp is installed: it takes ten minutes. A default
does not know its label, so that a floor for labels has to go to the pairs of every column of two values. Here the whole
budget does, and the counts of the label's pairs are used alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from _synthesis_generated import Generated, crowded, rare_label, survey, wide
from _timing import write_results
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from skdp import DPMarginalSynthesizer
from skdp.privacy import Mu

DELTA = 1e-6
LABEL = "label"
N_STRONG = 4
"""The columns that the label of each table follows."""


@dataclass(frozen=True)
class Case:
    """Tables of one kind, and how often each is fitted."""

    tables: tuple[Callable[[], Generated], ...]
    epsilon: float
    seeds: int


CASES = {
    "a label of 3 %, 12,000 x 20": Case(
        tuple(lambda seed=seed: rare_label(seed) for seed in (1, 2, 3)), 0.1, 10
    ),
    "a survey with a label of 5 %, 8,000 x 30": Case(
        tuple(lambda seed=seed: survey(seed) for seed in (1, 2, 3, 4)), 1.0, 2
    ),
    "a label of 5 % that has no room, 20,000 x 60": Case(
        tuple(lambda seed=seed: crowded(seed) for seed in (1, 2, 3)), 1.0, 2
    ),
    "160 columns, 20,000 rows": Case((lambda: wide(160),), 1.0, 3),
    "320 columns, 20,000 rows": Case((lambda: wide(320),), 1.0, 3),
}


@dataclass(frozen=True)
class Pairs:
    """The pairs of a table that a floor is for."""

    n_columns: int
    n_labels: int
    """Columns of two values, of which each may be the label."""

    @property
    def of_label(self) -> int:
        return self.n_columns - 1

    @property
    def of_floor(self) -> int:
        n_others = self.n_columns - self.n_labels
        return math.comb(self.n_columns, 2) - math.comb(n_others, 2)


def pairs_of(table: Generated) -> Pairs:
    n_labels = sum(size == 2 for size in table.sizes.values())
    return Pairs(len(table.sizes), n_labels)


def misplaced(table: Generated) -> dict[str, float]:
    """Return by how much a cell of each pair with the label is off if the two are taken for independent."""
    label = table.train[LABEL]
    sizes = table.sizes
    by_column = {}
    for name in sizes:
        if name != LABEL:
            cells = np.zeros((sizes[name], 2))
            np.add.at(cells, (table.train[name], label), 1)
            independent = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / label.size
            by_column[name] = float(np.abs(cells - independent).mean())
    return by_column


def strong_columns(table: Generated) -> list[str]:
    """Return the columns that tell most of the label."""
    effects = misplaced(table)
    return sorted(effects, key=effects.__getitem__, reverse=True)[:N_STRONG]


class LabelPairs:
    """Noisy counts of the pairs of the label with some columns."""

    def __init__(
        self, table: Generated, mu: float, columns: list[str], seed: int
    ) -> None:
        self._table = table
        marginals = [(column, LABEL) for column in columns]
        model = fitted(
            table,
            Mu(mu, DELTA),
            [*columns, LABEL],
            marginals=marginals,
            random_state=seed,
        )
        self._counts = {}
        for column in columns:
            counts = model.marginal([column, LABEL])["count"].to_numpy()
            shape = (table.sizes[column], 2)
            self._counts[column] = np.maximum(counts, 0.5).reshape(shape)

    def strongest(self) -> list[str]:
        """Return the columns whose counts are furthest from independent ones."""
        distances = {}
        for column, counts in self._counts.items():
            independent = np.outer(counts.sum(axis=1), counts.sum(axis=0))
            distance = np.abs(counts - independent / counts.sum()).sum()
            # The distance of pure noise is in proportion to the root of the cells.
            distances[column] = distance / math.sqrt(counts.size)
        return sorted(distances, key=distances.__getitem__, reverse=True)[:N_STRONG]

    def area(self, columns: list[str] | None = None) -> float:
        """Return the area under the curve of naive Bayes by all or some columns."""
        n_test = self._table.test[LABEL].size
        evidence = np.zeros(n_test)
        for column in self._counts if columns is None else columns:
            counts = self._counts[column]
            of_values = np.log(counts[:, 1] / counts[:, 0])
            evidence += of_values[self._table.test[column]]
        return float(roc_auc_score(self._table.test[LABEL], evidence))


def fitted(table: Generated, epsilon: Any, names: list[str], **options: Any) -> Any:
    synthesizer = DPMarginalSynthesizer(
        epsilon, domain=table.domain.select(names), **options
    )
    with warnings.catch_warnings():
        # Of pairs without room, a seed, and an epsilon beyond 10.
        warnings.simplefilter("ignore", UserWarning)
        return synthesizer.fit(table.frame[names])


def area(table: Generated, synthesizer: Any) -> float:
    """Return the area under the curve of the model's own law of the label."""
    names = [name for name in synthesizer.domain_.columns if name != LABEL]
    chance = synthesizer.classifier(LABEL).predict_proba(table.test_rows[names])
    return float(roc_auc_score(table.test[LABEL], chance[:, 1]))


def area_of_rows(table: Generated, rows: pd.DataFrame) -> float:
    """Return the area under the curve of boosted trees that learn from rows."""
    label = rows[LABEL].to_numpy()
    if (label == label[0]).all():
        return 0.5
    trees = HistGradientBoostingClassifier(random_state=0)
    trees.fit(table.features(rows), label)
    chance = trees.predict_proba(table.features(table.test_rows))
    return float(roc_auc_score(table.test[LABEL], chance[:, 1]))


def measure(name: str, case: Case) -> Iterator[dict[str, Any]]:
    for place, make in enumerate(case.tables):
        table = make()
        names = list(table.sizes)
        features = [column for column in names if column != LABEL]
        strong = strong_columns(table)
        pairs = pairs_of(table)
        whole = Mu.of(case.epsilon, DELTA).mu

        of_floor = whole * math.sqrt(pairs.of_label / pairs.of_floor)
        for seed in range(case.seeds):
            areas = {}
            for method, target in (("default", None), ("`target=`", LABEL)):
                model = fitted(
                    table,
                    case.epsilon,
                    names,
                    delta=DELTA,
                    target=target,
                    random_state=seed,
                )
                rows = model.sample(len(table.frame))
                areas[method] = area(table, model)
                areas[f"{method}, trees on rows"] = area_of_rows(table, rows)
            for source, mu in (("floor", of_floor), ("label's pairs", whole)):
                counts = LabelPairs(table, mu, features, seed)
                areas[f"{source}: all of the label"] = counts.area()
                areas[f"{source}: its four strongest"] = counts.area(counts.strongest())
                areas[f"{source}: told the four"] = counts.area(strong)
            # As many pairs of every column of two values as the label needs.
            of_four = whole / math.sqrt(pairs.n_labels)
            only_four = LabelPairs(table, of_four, strong, seed)
            areas["floor: told the four beforehand"] = only_four.area()
            exact = LabelPairs(table, 1e3, features, seed)
            areas["label's pairs without noise"] = exact.area()
            areas["real rows, trees"] = area_of_rows(table, table.frame)
            for method, value in areas.items():
                yield {
                    "case": name,
                    "table": place,
                    "seed": seed,
                    "method": method,
                    "AUC": value,
                }


def pair_row(name: str, case: Case) -> tuple[str, ...]:
    """Compare what a cell of the label's pairs tells with its noise, means over the tables."""
    whole = Mu.of(case.epsilon, DELTA).mu
    rows = []
    for make in case.tables:
        table = make()
        pairs = pairs_of(table)
        effects = misplaced(table)
        strong = strong_columns(table)
        cell_effects = [effects[column] for column in strong]
        scores = [2 * table.sizes[column] * effects[column] for column in strong]
        noise = math.sqrt(pairs.of_floor) / whole
        # A record moves a score by at most 1, as it is in one cell. The expected maximum
        # of n normal errors is near this quantile.
        largest = noise * norm.ppf(1 - 0.56 / pairs.of_floor)
        rows.append(
            (
                pairs.n_labels,
                pairs.of_label,
                pairs.of_floor,
                float(np.mean(cell_effects)),
                math.sqrt(pairs.of_label) / whole,
                noise,
                float(np.mean(scores)),
                float(largest),
            )
        )
    means = [f"{value:,.0f}" for value in np.mean(rows, axis=0)]
    return (name, f"{case.epsilon:g}", *means)


def score_rows(runs: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return means with their standard errors, to which all fits of all tables count by themselves."""
    rows = []
    for (name, method), own in runs.groupby(["case", "method"], sort=False):
        std_error = own["AUC"].std(ddof=1) / math.sqrt(len(own))
        mean = f"{own['AUC'].mean():.3f} ± {std_error:.3f}"
        epsilon = f"{CASES[name].epsilon:g}"
        rows.append((name, epsilon, method, str(len(own)), mean))
    return rows


def main() -> None:
    runs = []
    for name, case in CASES.items():
        runs += measure(name, case)
    write_results(
        "label_floor",
        "A floor for columns that may be labels",
        ("skdp", "numpy", "scikit-learn"),
        "Areas under the curve on rows that were held out, asked of the model or of trees that learn from as many "
        "synthetic rows; behind ± is the standard error over all fits. By default nothing says which column is the "
        "label, so a floor of the budget has to be shared by the pairs of every column of two declared values. Here "
        "such a floor is the whole budget, in equal shares, and nothing is left for columns, scores and other pairs: "
        "more than a rule could give. Of its noisy counts those of the label are used, by naive Bayes: all of them, "
        f"the {N_STRONG} that look strongest, or the {N_STRONG} that are, of which the model is told. Told beforehand, "
        f"it measures only {N_STRONG} pairs of each column of two values. `label's pairs` have the whole budget for "
        "the label, which only the caller can decide, by `target=`.\n\n"
        "In the second table is what a cell of these four pairs differs from independent columns, in records, the "
        "mean, and the standard deviation of its noise if the whole budget is for the label's pairs, or for those of "
        "the floor. A score is the sum of such differences over the cells of a pair. If the whole budget went to "
        "scores of the floor's pairs, they would have the same noise as a cell, and the largest of as many that are "
        "pure noise would be about that of the last column.",
        {
            "Areas under the curve": (
                ("table", "epsilon", "model", "fits", "AUC"),
                score_rows(pd.DataFrame(runs)),
            ),
            "A cell of one pair": (
                (
                    "table",
                    "epsilon",
                    "columns of two values",
                    "pairs of the label",
                    "pairs of the floor",
                    "differs by",
                    "noise, label alone",
                    "noise, floor",
                    "a score",
                    "largest of pure noise",
                ),
                [pair_row(name, case) for name, case in CASES.items()],
            ),
        },
    )


if __name__ == "__main__":
    main()
