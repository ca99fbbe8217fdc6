"""The epsilon at which a privacy curve comes close to its baseline."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.isotonic import IsotonicRegression

from skdp.evaluation.curves import compare_to_baseline


def losses_of(curve: pd.DataFrame, metric: str, level: float) -> pd.DataFrame:
    """Return how far the mean scores are from those without noise, fitted to fall with epsilon, and the intervals."""
    found = compare_to_baseline(curve, confidence_level=level)
    known = found["metric"].unique().tolist()
    if metric not in known:
        raise ValueError(f"of must be a metric of the curve, one of {known}, got {metric!r}")
    found = found[(found["metric"] == metric) & (found["group"] == "all")].sort_values("epsilon")
    found = found[found["difference"].notna()]
    if len(found) < 2:
        raise ValueError(f"curve must have finite scores of {metric!r} at two epsilons or more")
    fitted = IsotonicRegression(increasing=False).fit_transform(np.arange(len(found)), found["difference"].abs())
    reach = ((found["upper"] - found["lower"]) / 2).fillna(np.inf).to_numpy()
    table = {"epsilon": found["epsilon"].to_numpy(), "half_width": fitted}
    return pd.DataFrame(table | {"lower": np.maximum(fitted - reach, 0), "upper": fitted + reach})


def crossing(losses: pd.DataFrame, column: str, within: float) -> float:
    """Return the least epsilon at which a loss is small enough, by a line between neighbours; inf if it never is."""
    values = np.minimum.accumulate(losses[column].to_numpy())
    epsilons = losses["epsilon"].to_numpy()
    small = np.flatnonzero(values <= within)
    if not small.size:
        return float("inf")
    place = int(small[0])
    if place == 0:
        return float(epsilons[0])
    before, after = values[place - 1], values[place]
    weight = (before - within) / (before - after)
    return float(epsilons[place - 1] * (epsilons[place] / epsilons[place - 1]) ** weight)
