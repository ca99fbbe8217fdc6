"""Print the distance in AUC or R2 of each method of `shortest_way.py` to the best one, by number of rows and epsilon.

    python benchmarks/_regrets.py

A cell is a table, a number of rows and an epsilon. The regret of a method is its difference from the best private
method of the cell, by means over seeds.
"""

from __future__ import annotations

import math

import pandas as pd
from _headlines import read_results


def compute_regrets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the regret of each private method; one row for each cell."""
    keys = ["task", "epsilon", "table"]
    means = rows.pivot_table("value", keys, "method", sort=False)
    return means.rsub(means.max(axis=1), axis=0)


def main() -> None:
    """Print the mean regrets of the stored rows, and the worst cell of each method."""
    rows = read_results("shortest_way")
    rows = rows[rows["epsilon"] < math.inf]
    for metric in ("AUC", "R2"):
        regrets = compute_regrets(rows[rows["metric"] == metric])
        by_size = regrets.groupby(level=["task", "epsilon"], sort=False).mean()
        print(metric, by_size.round(3).to_string(), sep="\n", end="\n\n")
        columns = {"mean": regrets.mean(), "worst": regrets.max()}
        worst = pd.DataFrame(columns).round(3).assign(cell=regrets.idxmax())
        print(worst.to_string(), end="\n\n")


if __name__ == "__main__":
    main()
