"""The means and bands of a privacy curve, as they are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation._curve_scoring import ALL


def summarise_curve(curve: pd.DataFrame, band: str | None) -> pd.DataFrame:
    """Summarise the scores of folds and repeats."""
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
    """List the groups of a curve."""
    return sorted(dict.fromkeys(curve["group"]), key=lambda group: group != ALL)


def _ends(part: pd.DataFrame, kind: str | None) -> tuple[float, float]:
    """Return the ends of a band around the mean of some scores, nan if there is none."""
    repeats = part.groupby("repeat")["value"].mean()
    if kind == "range" and len(part):
        return part["value"].min(), part["value"].max()
    if kind == "std" and len(repeats) > 1:
        return part["value"].mean() - repeats.std(), part["value"].mean() + repeats.std()
    return math.nan, math.nan
