"""Coverage of intervals over all draws, those that show no interval included."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import binom

FALSE_ALARM = 1e-6
"""How often at most, over all quantities, intervals that cover as stated are said not to."""


def check_intervals(estimate, truth, *, n_repeats=400, least=0.93, possible=(-np.inf, np.inf)):
    """Check intervals of several quantities, and return the shares of draws that show them and that cover the truth.

    `estimate(seed)` draws again and returns a frame with the columns ``lower`` and ``upper``, and a row for each name
    in the series `truth`. What is shown only where it stands out is selected by its noise: a row that is missing, or
    NaN, counts as a miss.
    """
    shown = pd.Series(0, truth.index)
    covered = pd.Series(0, truth.index)
    for seed in range(n_repeats):
        ends = estimate(seed).reindex(truth.index)
        assert not (ends["lower"] > ends["upper"]).any(), f"draw {seed} has an interval with reversed ends"
        assert not (ends["lower"] < possible[0]).any(), f"draw {seed} has an impossible lower end"
        assert not (ends["upper"] > possible[1]).any(), f"draw {seed} has an impossible upper end"
        shown += ends[["lower", "upper"]].notna().all(axis=1)
        covered += (ends["lower"] <= truth) & (truth <= ends["upper"])
    rare = covered < binom.ppf(FALSE_ALARM / len(truth), n_repeats, least)
    assert not rare.any(), f"covered too rarely: {(covered[rare] / n_repeats).to_dict()}"
    return pd.DataFrame({"shown": shown, "covered": covered}) / n_repeats
