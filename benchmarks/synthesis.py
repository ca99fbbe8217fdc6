"""Distances of synthetic rows from real rows: marginals, the worst pair, and boosted trees trained on the rows.

Errors are total variation distances between the counts of synthetic rows and of the real
rows: the mean over single columns, the mean over pairs (at most 1,000 pairs, the same for
all methods), and the largest over these pairs. "AUC" is the area under the ROC curve of
trees that are trained on synthetic rows and predict test rows. The task "real rows"
resamples the real rows with replacement, so its errors are sampling errors, and its AUC is
the AUC without noise.

The tables of "many columns" take most of the time and have fewer seeds. Peers are AIM and
MST of dpmm, in a separate environment (see `_peers.py`), with the same declared values and
bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

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

DELTA = 1e-9
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
    """Return published tables on which all peers finish within minutes."""
    loaders = {} if quick else load_published()
    return {name: loaders[name] for name in ("COMPAS", "LSAC") if name in loaders}


def synthesize_target(table: Table, epsilon: float, seed: int) -> pd.DataFrame:
    """Draw synthetic rows with the declared target."""
    return synthesize(table, epsilon, seed, target=table.target)


def synthesize_peer(table: Table, epsilon: float, seed: int, name: str) -> pd.DataFrame:
    """Draw synthetic rows with dpmm."""
    options = {"epsilon": epsilon, "delta": DELTA, "seed": seed, "name": name}
    codes = np.column_stack([table.codes[name] for name in table.columns])
    sizes = np.array([table.sizes[name] for name in table.columns])
    drawn = run_peer("dpmm", {"codes": codes, "sizes": sizes}, **options)
    return table.decode(drawn["codes"])


def resample(table: Table, epsilon: float, seed: int) -> pd.DataFrame:
    """Draw real rows with replacement."""
    return table.train.sample(frac=1, replace=True, random_state=seed)


METHODS = {"auto": synthesize, "auto, target": synthesize_target}
PEERS = {"auto": synthesize} | {
    f"{name} of dpmm": partial(synthesize_peer, name=name) for name in ("MST", "AIM")
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
    "peers": Task(small_tables, PEERS, score, (1.0,), 1),
    "real rows": Task(tables, {"resampled": resample}, score, (math.inf,), 2),
}
