"""AUC of a classifier and survival curves from one private release, compared with the true rows.

- "auc": rows of two normal distributions of log odds, whose AUC is 0.802, with calibrated probabilities as scores.
  `scores_from_counts` uses the bins of `score_bins`. "32 equal bins" is the naive way: noisy counts of equal bins
  from 0 to 1, clipped at 0, with a bootstrap of the counts. "true rows" have no privacy, and DeLong's interval.
- "survival": times with Weibull distributions and uniform censoring, in 20 intervals. "page" are the functions of
  `docs/jobs/survival.md`, and "true rows" is the Kaplan-Meier curve with Greenwood's interval. "coverage" is a mean
  over the intervals.

"rmse" is the root of the mean squared error, and "width" the mean width of 95 % intervals. A cell has 40 tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
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
PAGE = Path(__file__).parent.parent / "docs" / "jobs" / "survival.md"


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
    """Number of patients, and a Weibull distribution of their times in months."""

    n_rows: int
    shape: float
    scale: float

    def draw(self, seed: int) -> pd.DataFrame:
        """Draw months and events."""
        rng = np.random.default_rng(seed)
        death = self.scale * rng.weibull(self.shape, self.n_rows)
        seen = rng.uniform(0, 90, self.n_rows)
        return pd.DataFrame({"months": np.minimum(death, seen), "died": death <= seen})

    def survive(self, months: Numbers) -> Numbers:
        """Return the true proportion of patients who live longer."""
        proportion: Numbers = np.exp(-((months / self.scale) ** self.shape))
        return proportion


MONTHS = np.arange(3.0, 61.0, 3.0)


def list_studies(quick: bool) -> dict[str, Callable[[], Study]]:
    """List studies with constant, falling and rising hazards."""
    if quick:
        return {"300 patients, rising hazard": partial(Study, 300, 1.2, 40.0)}
    shapes = {"rising": (1.2, 40.0), "falling": (0.8, 60.0), "steep": (2.0, 36.0)}
    return {
        f"{n:,} patients, {name} hazard": partial(Study, n, *shape)
        for n in (500, 2_000, 10_000)
        for name, shape in shapes.items()
    }


@cache
def load_page() -> dict[str, Any]:
    """Return the functions of the page."""
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"^# 3\. .*?(?=^# 4\. )", text, re.DOTALL | re.MULTILINE)
    found: dict[str, Any] = {"np": np}
    exec(compile(code, str(PAGE), "exec"), found)
    return found


def draw_studies(study: Study, seed: int) -> Iterator[tuple[int, pd.DataFrame]]:
    """Draw the tables of a cell."""
    for one in list_seeds(seed, N_REPEATS):
        yield one, study.draw(one)


def estimate_curves(study: Study, epsilon: float, seed: int) -> Numbers:
    """Estimate curves by the functions of the page; shape (n_repeats, 3, n_times)."""
    from skdp import DPHistogram, Interval

    edges = [0.0, *MONTHS.tolist(), 1_200.0]
    domain = {"months": Interval(edges), "died": [False, True]}
    curves = []
    for one, rows in draw_studies(study, seed):
        release = DPHistogram(epsilon, domain=domain, random_state=one).fit(rows)
        counts = release.counts_.reshape(-1, 2)
        curves.append(load_page()["find_band"](counts, release.std_error_[0]))
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
    return {
        "rmse": math.sqrt(np.mean((value - truth) ** 2)),
        "coverage": float(np.mean((lower <= truth) & (truth <= upper))),
        "width": float(np.mean(np.minimum(upper, 1) - lower)),
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
        {"page": estimate_curves, "true rows": compute_curves},
        score_curves,
        epsilons=(0.5, 1.0, 2.0),
        n_seeds=4,
    ),
}
