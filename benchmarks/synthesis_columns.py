"""Errors of tables in which only the named columns are private, compared with releases of whole records.

"distance" is the mean total variation distance of pairs with a private column. "AUC" is the
area under the ROC curve of boosted trees that are trained on the released rows, where the
private column is the target.

`DPColumnSynthesizer` resamples only the private columns. The method "whole records" makes
all columns synthetic. The method "whole records, read for the columns" resamples the private
columns from a release of whole records, whose noise is set so that its measurements of these
columns cost epsilon within 10 %. This cost is known only afterwards, so such a release must
not be published. It is used as a bound for other methods. The task "limits" has real rows,
and private columns in a random order.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from _tables import Table, load_published, parity, payments, score_trees
from synthesis import measure_distance

from skdp import Domain, Interval

DELTA = 1e-6
EPSILONS = {"columns": (1.0, 0.5, 4.0), "limits": (math.inf,)}
SEEDS = {"columns": 4, "limits": 2}
MAX_READ_FITS = 3
READ_TOLERANCE = 0.1
FIRST_READ_FACTOR = 1.1
COLUMNS = {
    "Adult": [["income"], ["age", "sex"]],
    "ACS": [["PUBCOV"], ["AGEP", "SEX"]],
    "LSAC": [["pass_bar"], ["race1", "gender"]],
    "COMPAS": [["two_year_recid"], ["age", "sex"]],
}
SMALL = (("ACS", ["AGEP", "SEX"]), ("ACS", ["AGEP", "SCHL"]))
SINGLE_YEARS = (
    ("COMPAS", ["race", "sex"], "age"),
    ("COMPAS", ["age", "sex"], "age"),
    ("Adult", ["race", "sex"], "age"),
    ("ACS", ["RAC1P", "SEX"], "AGEP"),
)


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """A table and its private columns."""

    table: Table
    private: list[str]


def tables(quick: bool) -> dict[str, Callable[[], ColumnTable]]:
    """Return tables with their private columns."""
    if quick:
        return {"parity: label": partial(choose, partial(parity, 2_000), ["label"])}
    chosen = {
        f"{name}: {', '.join(private)}": partial(choose, load, private)
        for name, load in load_published().items()
        for private in COLUMNS[name]
    }
    small = partial(payments, 2_000)
    chosen["2,000 payments: merchant"] = partial(choose, small, ["merchant"])
    published = load_published()
    for name, private in SMALL:
        loader = partial(take_rows, published[name], 2_000)
        chosen[f"{name}, 2,000 rows: {', '.join(private)}"] = partial(
            choose, loader, private
        )
    for name, private, age in SINGLE_YEARS:
        loader = partial(cut_years, published[name], age)
        chosen[f"{name}, single years: {', '.join(private)}"] = partial(
            choose, loader, private
        )
    return chosen


def take_rows(load: Callable[[], Table], n_rows: int) -> Table:
    """Load some training rows of a table."""
    table = load()
    rows = table.train.sample(n_rows, random_state=0).reset_index(drop=True)
    return replace(table, train=rows)


def cut_years(load: Callable[[], Table], age: str) -> Table:
    """Load a table with one bin per year of age."""
    table = load()
    if not isinstance(table.domain[age], Interval):
        return table
    edges = table.domain[age].edges
    years = Interval(edges[0], edges[-1], bins=int(edges[-1] - edges[0]))
    columns = {name: table.domain[name] for name in table.domain.columns}
    return replace(table, domain=Domain(columns | {age: years}))


def choose(load: Callable[[], Table], private: list[str]) -> ColumnTable:
    """Load a table."""
    return ColumnTable(load(), private)


def check_parameters(*names: str) -> None:
    """Skip a method if the synthesizer lacks one of its parameters."""
    from skdp import DPMarginalSynthesizer

    missing = set(names) - set(inspect.signature(DPMarginalSynthesizer).parameters)
    if missing:
        raise ImportError(f"DPMarginalSynthesizer has no {', '.join(sorted(missing))}")


def protect(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Resample the private columns with `protect=`."""
    from skdp import DPMarginalSynthesizer

    check_parameters("protect")
    synthesizer = DPMarginalSynthesizer(
        epsilon,
        delta=DELTA,
        domain=data.table.domain,
        protect=data.private,
        random_state=seed,
    )
    return synthesizer.fit_transform(data.table.train)


def resample_columns(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Resample the private columns with the successor of `protect=`."""
    from skdp import DPColumnSynthesizer

    options: dict[str, Any] = {"domain": data.table.domain, "random_state": seed}
    synthesizer = DPColumnSynthesizer(
        data.private, epsilon=epsilon, delta=DELTA, **options
    )
    return synthesizer.fit_transform(data.table.train)


def synthesize(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Draw synthetic rows."""
    from skdp import DPMarginalSynthesizer

    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=DELTA, domain=data.table.domain, random_state=seed
    )
    return synthesizer.fit(data.table.train).sample(len(data.table.train))


def read_columns(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Adjust a release of whole records until its cost for the private columns is epsilon."""
    from skdp.privacy import Mu

    check_parameters("redraw")
    goal = Mu.of(epsilon, DELTA).mu
    mu = FIRST_READ_FACTOR * goal
    trials = []
    for _ in range(MAX_READ_FITS):
        rows, cost = redraw(data, Mu(mu, DELTA), seed)
        trials.append((abs(math.log(cost / goal)), rows))
        if abs(cost / goal - 1) <= READ_TOLERANCE:
            break
        mu *= goal / cost
    return min(trials, key=lambda trial: trial[0])[1]


def redraw(data: ColumnTable, budget: Any, seed: int) -> tuple[pd.DataFrame, float]:
    """Resample the private columns from a release of whole records, and return its mu for them."""
    from skdp import DPMarginalSynthesizer

    synthesizer = DPMarginalSynthesizer(
        budget, domain=data.table.domain, redraw=data.private, random_state=seed
    )
    rows = synthesizer.fit_transform(data.table.train)
    names = list(data.table.domain.columns)
    private = {names.index(name) for name in data.private}
    # Another value changes two cells of a marginal by 1, and a score by 2.
    squares = [
        2 / marginal.std_error**2
        for marginal in synthesizer.marginals_
        if private & set(marginal.clique)
    ]
    squares += [
        4 / scored["std_error"] ** 2
        for pair, scored in synthesizer.pair_scores_.iterrows()
        if set(data.private) & set(pair)
    ]
    return rows, math.sqrt(sum(squares))


def shuffle(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Permute the rows of the private columns."""
    order = np.random.default_rng(seed).permutation(len(data.table.train))
    permuted = {name: data.table.train[name].to_numpy()[order] for name in data.private}
    return data.table.train.assign(**permuted)


def keep(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Return the real rows."""
    return data.table.train


def methods() -> dict[str, Callable[..., pd.DataFrame]]:
    """Return private releases."""
    return {
        "protect": protect,
        "DPColumnSynthesizer": resample_columns,
        "whole records": synthesize,
        "whole records, read for the columns": read_columns,
    }


def limits() -> dict[str, Callable[..., pd.DataFrame]]:
    """Return two limits: the real rows, and permuted private columns."""
    return {"real rows": keep, "shuffled": shuffle}


def score(data: ColumnTable, rows: pd.DataFrame) -> dict[str, float]:
    """Compute errors of pairs with a private column, and scores of trees that predict the private column."""
    table, codes = data.table, data.table.encode(rows)
    distances = [
        measure_distance(table, codes, (first, second))
        for first in data.private
        for second in table.columns
        if second not in data.private
    ]
    if len(data.private) > 1:
        distances.append(measure_distance(table, codes, tuple(data.private)))
    scores = {"distance": float(np.mean(distances))}
    if data.private == [table.target]:
        scores["AUC"] = score_trees(table, rows)
    return scores


TASKS = {"columns": (tables, methods, score), "limits": (tables, limits, score)}
