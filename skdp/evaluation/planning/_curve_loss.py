"""The epsilon at which a privacy curve comes close to its baseline."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.isotonic import IsotonicRegression

from skdp.evaluation.displays import check_table

_KEYS = ["repeat", "fold"]


def losses_of(curve: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return how far the scores are from those without noise on average: fitted to fall with epsilon, and its error."""
    check_table(curve, "curve", ["epsilon", *_KEYS, "metric", "group", "value"], numbers=["epsilon", "value"])
    known = list(dict.fromkeys(curve["metric"]))
    if metric not in known:
        raise ValueError(f"of must be a metric of the curve, one of {known}, got {metric!r}")
    scores = curve[(curve["metric"] == metric) & (curve["group"] == "all")]
    scores = scores[np.isfinite(scores["value"])].pivot_table("value", _KEYS, "epsilon")
    if np.inf not in scores or scores.shape[1] < 3:
        raise ValueError("curve must have a baseline (epsilon = inf) and at least two epsilons")
    # On the same splits: what these add to the scores of both is not counted.
    loss = scores.drop(columns=np.inf).rsub(scores[np.inf], axis=0)
    mean, error = loss.mean(), loss.std() / np.sqrt(loss.count())
    fitted = IsotonicRegression(increasing=False).fit_transform(np.arange(len(mean)), mean.abs())
    epsilons = mean.index.to_numpy(float)
    table = {
        "epsilon": epsilons,
        "half_width": fitted,
        "lower": fitted - error.to_numpy(),
        "upper": fitted + error.to_numpy(),
    }
    return pd.DataFrame(table)


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
