"""Distances of synthetic rows from real rows: marginals, the worst pair, and boosted trees trained on the rows.

Errors are total variation distances between the counts of synthetic rows and of the real
rows: the mean over single columns, the mean over pairs (at most 1,000 pairs, the same for
all methods), and the largest over these pairs. "AUC" is the area under the ROC curve of
trees that are trained on synthetic rows and predict test rows. The task "real rows"
resamples the real rows with replacement, so its errors are sampling errors, and its AUC is
the AUC without noise.

The tables of "rules" have a label that follows a rule over 2 to 5 columns, and further columns
that are independent of it. "rule" is the proportion of synthetic rows that follow the rule (1 in
the real rows). Constants of skdp were tuned with the seed 1; the tables of "rules, other
seeds" were kept aside.

The tables of "high order" have a target of several values that follows from many columns at once.
"accuracy" is the accuracy, on real test rows, of 100 extremely randomized trees that are trained on
synthetic rows, and "columns" is the number of columns of the largest measured marginal with the target.
Artificial Characters (7 numbers, 10 classes; with real rows 0.88) are read from the folder that the
environment variable ``SKDP_HIGH_ORDER_DATA`` names: the files ``artificial_characters_train.csv.gz`` and
``artificial_characters_test.csv.gz``, from https://github.com/toan-vt/cloud-data-store.

The tables of "many columns" take most of the time and have fewer seeds. Peers are AIM and
MST of dpmm and of Google's dpsynth 0.3.0, in environments of their own (see `_peers.py`), with
the same declared values and bins.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _peers import run_peer
from _tables import (
    GENERATED,
    Table,
    load_published,
    parity,
    score_trees,
    synthesize,
)
from _tasks import Task
from sklearn.ensemble import ExtraTreesClassifier

from skdp import Domain, Interval

DELTA, HIGH_ORDER_DELTA = 1e-9, 1e-5
N_RULE_ROWS = 20_000
OTHER_SEEDS = range(10, 20)
MAX_PAIRS = 1_000
MANY_COLUMNS = ("100 columns", "160 columns")


def tables(quick: bool) -> dict[str, Callable[[], Table]]:
    """Return tables with at most 15 columns."""
    if quick:
        return {"parity": partial(parity, 2_000)}
    chosen = {n: load for n, load in GENERATED.items() if n not in MANY_COLUMNS}
    return load_published() | chosen


def wide_tables(quick: bool) -> dict[str, Callable[[], Table]]:
    """Return tables with at least 100 columns."""
    return {} if quick else {name: GENERATED[name] for name in MANY_COLUMNS}


def small_tables(quick: bool) -> dict[str, Callable[[], Table]]:
    """Return tables on which all peers finish within minutes."""
    loaders = tables(quick)
    return {n: loaders[n] for n in ("COMPAS", "LSAC", "parity") if n in loaders}


def synthesize_target(table: Table, epsilon: float, seed: int) -> pd.DataFrame:
    """Draw synthetic rows with the declared target."""
    return synthesize(table, epsilon, seed, target=table.target)


def synthesize_peer(
    table: Table, epsilon: float, seed: int, name: str, library: str
) -> pd.DataFrame:
    """Draw synthetic rows with a mechanism of another library."""
    options = {"epsilon": epsilon, "delta": DELTA, "seed": seed, "name": name}
    codes = np.column_stack([table.codes[name] for name in table.columns])
    sizes = np.array([table.sizes[name] for name in table.columns])
    drawn = run_peer(library, {"codes": codes, "sizes": sizes}, **options)
    return table.decode(drawn["codes"])


def resample(table: Table, epsilon: float, seed: int) -> pd.DataFrame:
    """Draw real rows with replacement."""
    return table.train.sample(frac=1, replace=True, random_state=seed)


# Rules: functions of numbers between 0 and 1, of shape (n_columns, n_rows).


def has_odd_parts(numbers: np.ndarray, n_columns: int, n_parts: int) -> np.ndarray:
    """Return True if the parts of equal width that contain the numbers of a row have an odd sum."""
    return np.floor(n_parts * numbers[:n_columns]).sum(axis=0) % 2 == 1


def has_odd_bins(numbers: np.ndarray) -> np.ndarray:
    """Return True for the black fields of a checkerboard with fields of unequal width."""
    edges = [0.125, 0.25, 0.5, 0.625]
    return np.searchsorted(edges, numbers[:2], side="right").sum(axis=0) % 2 == 1


def has_majority(numbers: np.ndarray, n_columns: int) -> np.ndarray:
    """Return True if most numbers of a row are in the middle half."""
    is_middle = np.abs(numbers[:n_columns] - 0.5) < 0.25
    return is_middle.sum(axis=0) * 2 > n_columns


def has_random_cell(numbers: np.ndarray, n_columns: int, size: int) -> np.ndarray:
    """Return True in half of the cells of some columns, chosen at random."""
    cells = np.random.default_rng(2).random((size,) * n_columns) < 0.5
    return cells[tuple(np.floor(size * numbers[:n_columns]).astype(int))]


def is_mixed(numbers: np.ndarray) -> np.ndarray:
    """Return True by a number, which decides if the categories of two columns must be equal."""
    first, second = np.floor(4 * numbers[1:3]).astype(int) % 2
    return (first == second) == (numbers[0] > 0.5)


# For each rule: its function, the number of values of a column, and the number of columns
# that are numbers; all further columns are categories.
RULES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int, int]] = {
    "sign of 2 numbers": (partial(has_odd_parts, n_columns=2, n_parts=2), 8, 50),
    "sign of 3 numbers": (partial(has_odd_parts, n_columns=3, n_parts=2), 8, 50),
    "sign of 4 numbers": (partial(has_odd_parts, n_columns=4, n_parts=2), 8, 50),
    "thirds of 3 numbers": (partial(has_odd_parts, n_columns=3, n_parts=3), 9, 50),
    "unequal checkerboard": (has_odd_bins, 8, 50),
    "majority of 3 numbers": (partial(has_majority, n_columns=3), 8, 50),
    "majority of 5 numbers": (partial(has_majority, n_columns=5), 8, 50),
    "number and 2 categories": (is_mixed, 4, 1),
    "random cells of 3": (partial(has_random_cell, n_columns=3, size=4), 4, 0),
    "random cells of 4": (partial(has_random_cell, n_columns=4, size=3), 3, 0),
}


@dataclass(frozen=True, eq=False)
class RuleTable(Table):
    """A table whose label follows a rule."""

    rule: Callable[[np.ndarray], np.ndarray] = has_odd_bins

    def follows_rule(self, rows: pd.DataFrame) -> np.ndarray:
        """Return True for each row whose label follows the rule."""
        numbers = []
        for index in range(len(self.columns) - 1):
            column = rows[f"x{index}"]
            if column.dtype != float:
                size = self.sizes[f"x{index}"]
                column = (column.str[1:].astype(int) + 0.5) / size
            numbers.append(column.to_numpy(float).clip(0, 1 - 1e-9))
        return self.rule(np.array(numbers)) == (rows["label"] == 1)


@cache
def make_rule_table(name: str, width: int, seed: int) -> RuleTable:
    """Draw independent columns, in random order, and a label that follows a rule."""
    rule, size, n_numbers = RULES[name]
    rng = np.random.default_rng(seed)
    numbers = rng.random((width - 1, 2 * N_RULE_ROWS))
    domain: dict[str, Any] = {}
    columns = {}
    for index in rng.permutation(width - 1).tolist():
        column = f"x{index}"
        domain[column] = Interval(0.0, 1.0, bins=size)
        columns[column] = numbers[index]
        if index >= n_numbers:
            domain[column] = [f"v{value}" for value in range(size)]
            codes = np.floor(size * numbers[index]).astype(int)
            columns[column] = np.array(domain[column], object)[codes]
    domain["label"] = [0, 1]
    rows = pd.DataFrame(columns | {"label": rule(numbers).astype(int)})
    test = rows[N_RULE_ROWS:].reset_index(drop=True)
    return RuleTable(rows[:N_RULE_ROWS], test, Domain(domain), "label", rule)


def rule_tables(quick: bool) -> dict[str, Callable[[], Table]]:
    """Return tables with a rule and 8 columns, and two rules among 20 and 50 columns."""
    names = list(RULES)[:1] if quick else list(RULES)
    widths = [(name, 8) for name in names]
    if not quick:
        widths += [("sign of 3 numbers", 20), ("sign of 3 numbers", 50)]
        widths += [("random cells of 3", 20), ("random cells of 3", 50)]
    return {
        f"{name}, {width} columns": partial(make_rule_table, name, width, 1)
        for name, width in widths
    }


def small_rule_tables(quick: bool) -> dict[str, Callable[[], Table]]:
    """Return tables with a rule on which all peers finish within minutes."""
    names = ["sign of 3 numbers", "random cells of 3"]
    if quick:
        return {}
    return {
        f"{name}, 8 columns": partial(make_rule_table, name, 8, 1) for name in names
    }


def other_rule_tables(quick: bool) -> dict[str, Callable[[], Table]]:
    """Return tables of one rule with other seeds."""
    name = "sign of 3 numbers"
    seeds = OTHER_SEEDS[:1] if quick else OTHER_SEEDS
    return {
        f"{name}, seed {seed}": partial(make_rule_table, name, 8, seed)
        for seed in seeds
    }


def score_rule(table: RuleTable, rows: pd.DataFrame) -> dict[str, float]:
    """Compute the proportion of rows that follow the rule of a table, and errors of marginals."""
    return {"rule": float(table.follows_rule(rows).mean())} | score(table, rows)


# Targets that follow from many columns.


class LabeledTable(NamedTuple):
    """Training rows, test rows, their declared values, and the target."""

    train: pd.DataFrame
    test: pd.DataFrame
    domain: Domain
    target: str


def draw_clusters(n_rows: int) -> LabeledTable:
    """Draw six dependent numbers from 30 clusters, each of which has one of six targets."""
    rng = np.random.default_rng(3)
    centers = rng.uniform(-1, 1, (30, 6))
    drawn = rng.integers(0, 30, 2 * n_rows)
    noise = rng.normal(0, 0.15, (2 * n_rows, 6))
    numbers = np.clip(centers[drawn] + noise, -1, 1)
    rows = pd.DataFrame(numbers, columns=list("abcdef")).assign(label=drawn % 6)
    numbers_domain = {name: Interval(-1.0, 1.0, bins=16) for name in "abcdef"}
    domain = Domain(numbers_domain | {"label": range(6)})
    return LabeledTable(rows[:n_rows], rows[n_rows:], domain, "label")


def draw_sums(n_rows: int) -> LabeledTable:
    """Draw seven columns of four values; the target is the sum of four of them modulo four."""
    codes = np.random.default_rng(0).integers(0, 4, (2 * n_rows, 7))
    rows = pd.DataFrame(codes, columns=list("abcdefg"))
    rows["label"] = codes[:, :4].sum(axis=1) % 4
    domain = Domain({name: range(4) for name in rows})
    return LabeledTable(rows[:n_rows], rows[n_rows:], domain, "label")


def read_characters(folder: Path, bins: int | None) -> LabeledTable:
    """Read Artificial Characters, with public bounds that contain all rows."""
    parts = ("train", "test")
    files = [folder / f"artificial_characters_{part}.csv.gz" for part in parts]
    train, test = map(pd.read_csv, files)
    domain: dict[str, Any] = {}
    for name in train.columns.drop("Class"):
        numbers = pd.concat([train[name], test[name]])
        low, high = math.floor(numbers.min()), math.ceil(numbers.max())
        domain[name] = Interval(float(low), float(high), bins=bins)
    return LabeledTable(train, test, Domain(domain | {"Class": range(1, 11)}), "Class")


def high_order_tables(quick: bool) -> dict[str, Callable[[], LabeledTable]]:
    """Return tables whose target follows from many columns at once."""
    if quick:
        return {"30 clusters": partial(draw_clusters, 1_000)}
    loaders: dict[str, Callable[[], LabeledTable]] = {
        "30 clusters": partial(draw_clusters, 5_000),
        "sum of 4 modulo 4": partial(draw_sums, 10_000),
    }
    folder = os.environ.get("SKDP_HIGH_ORDER_DATA")
    if folder is None:
        message = "Artificial Characters are skipped: SKDP_HIGH_ORDER_DATA is not set."
        print(message, file=sys.stderr)
    else:
        name = "Artificial Characters"
        loaders[name] = partial(read_characters, Path(folder), None)
        loaders[f"{name}, 16 bins"] = partial(read_characters, Path(folder), 16)
    return loaders


def fit_target(
    table: LabeledTable, epsilon: float, seed: int
) -> tuple[pd.DataFrame, int]:
    """Draw synthetic rows with the declared target, and count the columns of the largest marginal with it."""
    from skdp import DPMarginalSynthesizer

    synthesizer = DPMarginalSynthesizer(
        epsilon,
        delta=HIGH_ORDER_DELTA,
        domain=table.domain,
        target=table.target,
        random_state=seed,
    ).fit(table.train)
    cliques = synthesizer.selected_cliques_
    n_columns = max(len(clique) for clique in cliques if table.target in clique)
    return synthesizer.sample(len(table.train)), n_columns


def score_target(
    table: LabeledTable, result: tuple[pd.DataFrame, int]
) -> dict[str, float]:
    """Compute the accuracy of trees that are trained on synthetic rows, on test rows."""
    rows, n_columns = result
    X, y = rows.drop(columns=table.target), rows[table.target]
    trees = ExtraTreesClassifier(100, random_state=0).fit(X, y)
    accuracy = trees.score(table.test[X.columns], table.test[table.target])
    return {"accuracy": float(accuracy), "columns": n_columns}


METHODS = {"auto": synthesize, "auto, target": synthesize_target}
PEERS = {"auto": synthesize} | {
    f"{name} of {library}": partial(synthesize_peer, name=name, library=library)
    for library in ("dpmm", "dpsynth")
    for name in ("MST", "AIM")
}


def score(table: Table, rows: pd.DataFrame) -> dict[str, float]:
    """Compute errors of marginals of synthetic rows, and scores of trees that are trained on them."""
    codes = table.encode(rows)
    singles = [measure_distance(table, codes, (name,)) for name in table.columns]
    pairs = [measure_distance(table, codes, pair) for pair in list_pairs(table.columns)]
    errors = {
        "columns": np.mean(singles),
        "pairs": np.mean(pairs),
        "worst pair": np.max(pairs),
    }
    return errors | ({"AUC": score_trees(table, rows)} if table.target else {})


def list_pairs(columns: list[str]) -> list[tuple[str, str]]:
    """List the pairs of columns, or a fixed sample of them."""
    pairs = list(itertools.combinations(columns, 2))
    if len(pairs) <= MAX_PAIRS:
        return pairs
    chosen = np.random.default_rng(2).choice(len(pairs), MAX_PAIRS, replace=False)
    return [pairs[i] for i in sorted(chosen)]


def measure_distance(
    table: Table, codes: dict[str, np.ndarray], names: tuple[str, ...]
) -> float:
    """Compute the total variation distance between a synthetic and a real marginal."""
    shape = tuple(table.sizes[name] for name in names)
    frequencies = []
    for side in (table.codes, codes):
        cells = np.ravel_multi_index([side[name] for name in names], shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape)))
        frequencies.append(counts / cells.size)
    return float(np.abs(frequencies[0] - frequencies[1]).sum() / 2)


TASKS = {
    "synthesis": Task(tables, METHODS, score, (1.0, 0.1, 10.0), 4),
    "many columns": Task(wide_tables, METHODS, score, (1.0, 10.0), 3),
    "peers": Task(small_tables, PEERS, score, (1.0,), 4),
    "rules": Task(rule_tables, METHODS, score_rule, (1.0, 0.5, 10.0), 3),
    "rules, other seeds": Task(other_rule_tables, METHODS, score_rule, (1.0,), 1),
    "rules, peers": Task(small_rule_tables, PEERS, score_rule, (1.0,), 1),
    "high order": Task(
        high_order_tables,
        {"auto, target": fit_target},
        score_target,
        (1.0, 2.0, 10.0),
        4,
    ),
    "real rows": Task(tables, {"resampled": resample}, score, (math.inf,), 2),
}
