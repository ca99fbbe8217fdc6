"""The time between two dates: a rule that keeps them in order, against a column of days that is added to the first.

Run ``make bench``, or ``python benchmarks/date_spans.py`` wherever skdp is installed: it takes a minute.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results

from skdp import DPMarginalSynthesizer, Interval
from skdp.domain import Categories

DELTA = 1e-6
EPSILONS = (1.0, 10.0)
SEEDS = 5
N_ROWS = 20_000
N_DAYS = 730
MONTHS = Interval(date(2021, 1, 1), date(2024, 1, 1), bins=36)
WAYS = {
    "rule": MONTHS,
    "days, even bins": Interval(0, 365, bins=73),
    "days, narrow bins first": Interval(edges=[*range(8), 14, 31, 61, 122, 366]),
}
"""What is modelled: the second date, or bins of days."""


def hospital(rng: np.random.Generator, severity: np.ndarray) -> np.ndarray:
    """Draw stays of a few days, with a long tail."""
    return rng.lognormal(0.3 + 0.35 * severity, 0.8).round().clip(0, 365)


def deliveries(rng: np.random.Generator, severity: np.ndarray) -> np.ndarray:
    """Draw deliveries of one day and more, and few that are late."""
    is_late = rng.random(severity.size) < 0.03
    return 1 + rng.poisson(0.5 + 0.5 * severity) + np.where(is_late, 30, 0)


def permits(rng: np.random.Generator, severity: np.ndarray) -> np.ndarray:
    """Draw permits that take two months and more."""
    return rng.gamma(3 + severity, 20).round().clip(0, 365)


SPANS = {
    "hospital stays": hospital,
    "deliveries": deliveries,
    "permits": permits,
}


@dataclass(frozen=True)
class Figures:
    """What is known of the time between two dates."""

    mean: float
    deviation: float
    correlation: float
    """Of ranks, with the column that it depends on."""


def table(draw: Callable[..., np.ndarray], seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    severity = rng.binomial(5, 0.2, N_ROWS)
    days = draw(rng, severity).astype(int)
    start = pd.Timestamp("2021-01-01") + pd.to_timedelta(
        rng.integers(0, N_DAYS, N_ROWS), unit="D"
    )
    return pd.DataFrame(
        {
            "start": start,
            "end": start + pd.to_timedelta(days, unit="D"),
            "days": days,
            "severity": severity,
            "age": rng.binomial(109, 0.4, N_ROWS),
            "sex": rng.choice(["f", "m"], N_ROWS),
        }
    )


DOMAIN = {
    "start": MONTHS,
    "severity": Categories(range(6), ordered=True),
    "age": Interval(0, 110, bins=22),
    "sex": ["f", "m"],
}


def rows_of(frame: pd.DataFrame, way: str, epsilon: float, seed: int) -> pd.DataFrame:
    """Draw rows that have the days, or both dates in order."""
    options: dict[str, Any] = {}
    second = "days"
    if way == "rule":
        options["structural_zeros"] = [("start", "<=", "end")]
        second = "end"
    domain = {**DOMAIN, second: WAYS[way]}
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=DELTA, domain=domain, random_state=seed, **options
    )
    with warnings.catch_warnings():
        # Of a seed, and of an epsilon of 10.
        warnings.simplefilter("ignore", UserWarning)
        rows = synthesizer.fit(frame[list(domain)]).sample(N_ROWS)
    if way == "rule":
        rows["days"] = (rows["end"] - rows["start"]).dt.days
    return rows


def figures_of(rows: pd.DataFrame) -> Figures:
    days = rows["days"]
    correlation = days.corr(rows["severity"].astype(int), method="spearman")
    return Figures(float(days.mean()), float(days.std()), float(correlation))


def line(name: str, epsilon: str, way: str, figures: list[Figures]) -> list[str]:
    means = np.array([of_seed.mean for of_seed in figures])
    deviations = [of_seed.deviation for of_seed in figures]
    correlations = [of_seed.correlation for of_seed in figures]
    return [
        name,
        epsilon,
        way,
        f"{means.mean():.2f} ({means.min():.2f} to {means.max():.2f})",
        f"{np.mean(deviations):.2f}",
        f"{np.mean(correlations):.2f}",
    ]


def main() -> None:
    lines = []
    for name, draw in SPANS.items():
        frames = [table(draw, seed) for seed in range(SEEDS)]
        lines.append(line(name, "none", "the table", list(map(figures_of, frames))))
        for epsilon in EPSILONS:
            for way in WAYS:
                figures = []
                for seed, frame in enumerate(frames):
                    figures.append(figures_of(rows_of(frame, way, epsilon, seed)))
                lines.append(line(name, f"{epsilon:g}", way, figures))
    write_results(
        "date_spans",
        "The time between two dates",
        ("skdp", "numpy", "pandas"),
        f"Days between two dates in synthetic rows, of tables of {N_ROWS:,} rows and five columns: two dates with bins "
        "of a month, what the days depend on, and two other columns. `rule` models both dates, with "
        '`structural_zeros=[("start", "<=", "end")]`; `days` models the first date and the days '
        "in place of the second one: with bins of five, or with bins of one day for a week and wider ones behind it. "
        f"Means over {SEEDS} tables and fits, delta {DELTA:g}; the range of the mean in brackets; "
        "the correlation is of ranks, with what the days depend on.",
        {
            "Days": (
                ("table", "epsilon", "modelled", "mean", "deviation", "correlation"),
                lines,
            )
        },
    )


if __name__ == "__main__":
    main()
