"""The means and bands of a privacy curve, as they are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation._curve_scoring import ALL


def summarise_curve(curve: pd.DataFrame, band: str | None) -> pd.DataFrame:
    """Summarise the scores of folds and repeats.

    Parameters
    ----------
    curve : pandas.DataFrame
        What `privacy_curve` returned.
    band : {"std", "range"} or None
        What low and high are: one standard deviation, over repeats, to either side of the mean; or the extremes.

    Returns
    -------
    pandas.DataFrame
        A row for each metric, group and epsilon, in the order of the curve, but everybody and small epsilons first:
        ``metric, group, epsilon, mean, low, high, n_undefined``. Scores that are no finite numbers are left out, and
        counted.
    """
    keys = ["metric", "group", "epsilon"]
    rows = []
    for key, part in curve.groupby(keys, sort=False, dropna=False):
        known = part[np.isfinite(part["value"])]
        rows.append((*key, known["value"].mean(), *_ends(known, band), len(part) - len(known)))
    table = pd.DataFrame(rows, columns=[*keys, "mean", "low", "high", "n_undefined"])
    order = {name: place for place, name in enumerate(dict.fromkeys(curve["metric"]))}
    places = {group: place for place, group in enumerate(groups_of(curve))}
    sorting = table.assign(metric=table["metric"].map(order), group=table["group"].map(places))
    return table.loc[sorting.sort_values(keys, kind="stable").index].reset_index(drop=True)


def groups_of(curve: pd.DataFrame) -> list[Any]:
    """List the groups of a curve.

    Parameters
    ----------
    curve : pandas.DataFrame
        What `privacy_curve` returned.

    Returns
    -------
    list
        Each group once, everybody first.
    """
    return sorted(dict.fromkeys(curve["group"]), key=lambda group: group != ALL)


def _ends(part: pd.DataFrame, kind: str | None) -> tuple[float, float]:
    """Return the ends of a band around the mean of some scores, nan if there is none."""
    repeats = part.groupby("repeat")["value"].mean()
    if kind == "range" and len(part):
        return part["value"].min(), part["value"].max()
    if kind == "std" and len(repeats) > 1:
        return part["value"].mean() - repeats.std(), part["value"].mean() + repeats.std()
    return math.nan, math.nan
