"""AUC of a classifier and survival curves from one private release, compared with the true rows.

- "auc": rows of two normal distributions of log odds, whose AUC is 0.802, with calibrated probabilities as scores.
  `scores_from_counts` uses the bins of `score_bins`. "32 equal bins" is the naive way: noisy counts of equal bins
  from 0 to 1, clipped at 0, with a bootstrap of the counts. "true rows" have no privacy, and DeLong's interval.
- "survival": times with Weibull distributions, and times of the last observation that are uniform, exponential ("heavy
  censoring"), visits at the edges of bins, or after all events ("none at risk"), in 20 bins of 3 months.
  `survival_from_counts` is compared with the Kaplan-Meier curve of true rows with Greenwood's interval ("true rows").
  "coverage" is a mean over the intervals, "given" the proportion of times with an estimate, which are the times of
  "rmse" and "width".

"rmse" is the root of the mean squared error, and "width" the mean width of 95 % intervals. A cell has 40 tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _tasks import Task, list_seeds
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

Numbers = NDArray[np.float64]

N_REPEATS = 40
SHIFT = 1.2


# AUC


class Setting(NamedTuple):
    """Number of rows and proportion of positive rows."""

    n_rows: int
    prevalence: float

    def draw(self, seed: int) -> pd.DataFrame:
        """Draw labels and calibrated scores."""
        rng = np.random.default_rng(seed)
        label = rng.random(self.n_rows) < self.prevalence
        score = SHIFT * (rng.normal(SHIFT * label, 1) - SHIFT / 2)
        odds = self.prevalence / (1 - self.prevalence)
        return pd.DataFrame({"score": expit(score + math.log(odds)), "label": label})


def list_settings(quick: bool) -> dict[str, Callable[[], Setting]]:
    """List numbers of rows and proportions of positive rows."""
    if quick:
        return {"500 rows, 30 % positive": partial(Setting, 500, 0.3)}
    return {
        f"{n:,} rows, {prevalence:.0%} positive": partial(Setting, n, prevalence)
        for n in (2_000, 20_000)
        for prevalence in (0.3, 0.05)
    }


def repeat(
    method: Callable[..., tuple[float, float, float]],
    setting: Setting,
    epsilon: float,
    seed: int,
) -> Numbers:
    """Return value, lower and upper bound of each repeat; shape (n_repeats, 3)."""
    return np.array(
        [method(setting.draw(one), epsilon, one) for one in list_seeds(seed, N_REPEATS)]
    )


def count_scores(rows: pd.DataFrame, bins: Any, epsilon: float, seed: int) -> Any:
    """Release the counts of scores and labels."""
    from skdp import DPHistogram

    domain = {"score": bins, "label": [False, True]}
    return DPHistogram(epsilon, domain=domain, random_state=seed).fit(rows)


def estimate_auc(
    rows: pd.DataFrame, epsilon: float, seed: int
) -> tuple[float, float, float]:
    """Estimate the AUC with `scores_from_counts`."""
    from skdp.metrics import score_bins, scores_from_counts

    counts = count_scores(rows, score_bins(), epsilon, seed).to_frame()
    found = scores_from_counts(counts, "label", "score").iloc[0]
    return found["value"], found["lower"], found["upper"]


def estimate_auc_naively(
    rows: pd.DataFrame, epsilon: float, seed: int
) -> tuple[float, float, float]:
    """Estimate the AUC from clipped counts of equal bins, with a bootstrap of the counts."""
    from skdp import Interval

    release = count_scores(rows, Interval(0.0, 1.0, bins=32), epsilon, seed)
    counts = np.maximum(release.counts_, 0.0).reshape(-1, 2)
    rng = np.random.default_rng(seed)
    probabilities = counts.ravel() / counts.sum()
    draws = rng.multinomial(int(counts.sum()), probabilities, 200)
    lower, upper = np.quantile(
        sum_auc(draws.reshape(200, -1, 2).astype(float)), [0.025, 0.975]
    )
    return float(sum_auc(counts)), lower, upper


def sum_auc(counts: Numbers) -> Numbers:
    """Compute the AUC of counts of negative and positive rows, (..., n_bins, 2)."""
    negative, positive = counts[..., 0], counts[..., 1]
    below = np.cumsum(negative, axis=-1) - negative / 2
    total = negative.sum(axis=-1) * positive.sum(axis=-1)
    area: Numbers = (positive * below).sum(axis=-1) / total
    return area


def compute_auc(
    rows: pd.DataFrame, epsilon: float, seed: int
) -> tuple[float, float, float]:
    """Compute the AUC of true rows with DeLong's interval."""
    positive, negative = (
        np.sort(rows.loc[rows["label"] == label, "score"]) for label in (True, False)
    )
    below = np.searchsorted(negative, positive) / len(negative)
    above = 1 - np.searchsorted(positive, negative) / len(positive)
    error = math.sqrt(below.var() / len(positive) + above.var() / len(negative))
    auc = float(roc_auc_score(rows["label"], rows["score"]))
    return auc, auc - 1.96 * error, auc + 1.96 * error


def score_auc(setting: Setting, found: Numbers) -> dict[str, float]:
    """Measure the error, the bias and the coverage of intervals."""
    value, lower, upper = found.T
    truth = norm.cdf(SHIFT / math.sqrt(2))
    return {
        "rmse": math.sqrt(np.mean((value - truth) ** 2)),
        "bias": float(np.mean(value - truth)),
        "coverage": float(np.mean((lower <= truth) & (truth <= upper))),
        "width": float(np.mean(upper - lower)),
    }


# Survival


class Study(NamedTuple):
    """Number of patients, a Weibull distribution of their times in months, and the last observation."""

    n_rows: int
    shape: float
    scale: float
    seen: str = "uniform"

    def draw(self, seed: int) -> pd.DataFrame:
        """Draw months and events."""
        rng = np.random.default_rng(seed)
        death = self.scale * rng.weibull(self.shape, self.n_rows)
        seen = {
            "uniform": lambda: rng.uniform(0, 90, self.n_rows),
            "exponential": lambda: rng.exponential(15, self.n_rows),
            "visits": lambda: 3.0 * rng.integers(1, 30, self.n_rows),
            "late": lambda: rng.uniform(30, 60, self.n_rows),
        }[self.seen]()
        return pd.DataFrame({"months": np.minimum(death, seen), "died": death <= seen})

    def survive(self, months: Numbers) -> Numbers:
        """Return the true proportion of patients who live longer."""
        proportion: Numbers = np.exp(-((months / self.scale) ** self.shape))
        return proportion


MONTHS = np.arange(3.0, 61.0, 3.0)


def list_studies(quick: bool) -> dict[str, Callable[[], Study]]:
    """List studies with rising and falling hazards, and with few rows at risk."""
    if quick:
        return {"300 patients, rising hazard": partial(Study, 300, 1.2, 40.0)}
    shapes = {"rising": (1.2, 40.0), "falling": (0.8, 60.0), "steep": (2.0, 36.0)}
    studies = {
        f"{n:,} patients, {name} hazard": partial(Study, n, *shape)
        for n in (500, 2_000, 10_000)
        for name, shape in shapes.items()
    }
    studies["500 patients, none at risk"] = partial(Study, 500, 3.0, 20.0, "late")
    studies["1,000 patients, heavy censoring"] = partial(
        Study, 1_000, 1.2, 80.0, "exponential"
    )
    studies["10,000 patients, visits"] = partial(Study, 10_000, 1.2, 40.0, "visits")
    return studies


def draw_studies(study: Study, seed: int) -> Iterator[tuple[int, pd.DataFrame]]:
    """Draw the tables of a cell."""
    for one in list_seeds(seed, N_REPEATS):
        yield one, study.draw(one)


def estimate_curves(study: Study, epsilon: float, seed: int) -> Numbers:
    """Estimate curves with `survival_from_counts`; shape (n_repeats, 3, n_times)."""
    from skdp import DPHistogram, Interval
    from skdp.metrics import survival_from_counts

    edges = [0.0, *MONTHS.tolist(), 1_200.0]
    domain = {"months": Interval(edges), "died": [False, True]}
    curves = []
    for one, rows in draw_studies(study, seed):
        release = DPHistogram(epsilon, domain=domain, random_state=one).fit(rows)
        table = survival_from_counts(release.to_frame(), "months", "died")
        table = table[table["metric"] == "survival"]
        curves.append(table[["value", "lower", "upper"]].to_numpy().T)
    return np.array(curves)


def compute_curves(study: Study, epsilon: float, seed: int) -> Numbers:
    """Compute Kaplan-Meier curves of true rows with intervals; shape (n_repeats, 3, n_times)."""
    curves = []
    for _, rows in draw_studies(study, seed):
        rows = rows.sort_values("months")
        at_risk = len(rows) - np.arange(len(rows))
        died = rows["died"].to_numpy()
        index = np.searchsorted(rows["months"], MONTHS, side="right") - 1
        alive = np.cumprod(1 - died / at_risk)[index]
        terms = died / (at_risk * np.maximum(at_risk - 1.0, 1.0))
        margin = 1.96 * np.sqrt(np.cumsum(terms)[index])
        curves.append([alive, alive * np.exp(-margin), alive * np.exp(margin)])
    return np.array(curves)


def score_curves(study: Study, found: Numbers) -> dict[str, float]:
    """Measure the error and the coverage of curves."""
    value, lower, upper = found.swapaxes(0, 1)
    truth = study.survive(MONTHS)
    is_given = ~np.isnan(value)
    return {
        "rmse": math.sqrt(np.mean((value - truth)[is_given] ** 2)),
        "coverage": float(np.mean((lower <= truth) & (truth <= upper))),
        "width": float(np.mean((np.minimum(upper, 1) - lower)[is_given])),
        "given": float(np.mean(is_given)),
    }


TASKS = {
    "auc": Task(
        list_settings,
        {
            "scores_from_counts": partial(repeat, estimate_auc),
            "32 equal bins": partial(repeat, estimate_auc_naively),
            "true rows": partial(repeat, compute_auc),
        },
        score_auc,
        epsilons=(1.0, 4.0),
        n_seeds=4,
    ),
    "survival": Task(
        list_studies,
        {"survival_from_counts": estimate_curves, "true rows": compute_curves},
        score_curves,
        epsilons=(0.5, 1.0, 2.0),
        n_seeds=4,
    ),
}
