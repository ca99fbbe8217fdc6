"""The epsilon at which a privacy curve comes close to its baseline."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.isotonic import IsotonicRegression

from skdp.evaluation.curves import compare_to_baseline


def losses_of(curve: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return how far the scores are from those without noise on average: fitted to fall with epsilon, and its error."""
    found = compare_to_baseline(curve)
    known = list(dict.fromkeys(found["metric"]))
    if metric not in known:
        raise ValueError(f"of must be a metric of the curve, one of {known}, got {metric!r}")
    own = found[(found["metric"] == metric) & (found["group"] == "all") & (found["n_pairs"] > 0)]
    if len(own) < 2:
        raise ValueError("curve must have at least two epsilons with finite scores")
    fitted = IsotonicRegression(increasing=False).fit_transform(np.arange(len(own)), own["difference"].abs())
    error = own["std_error"].to_numpy()
    table = {"epsilon": own["epsilon"].to_numpy(float), "half_width": fitted}
    return pd.DataFrame(table | {"lower": fitted - error, "upper": fitted + error})


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
