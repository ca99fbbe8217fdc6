"""What synthetic rows keep of numbers: regressions, correlations, means of long tails, and points of mass.

Run ``make bench``, or ``python benchmarks/synthesis_numbers.py`` wherever skdp is installed. The tables are generated,
with 20,000 rows and as many that are kept for testing; the bins of each are declared with wide ends, as who has not
seen the data would. The numbers of the method were chosen on the columns of four tables; those of `fifth` and `sixth`
check them. Those of `seventh` are far from 0.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression

from skdp import DPMarginalSynthesizer, Interval
from skdp.privacy import largest_mu

N, SEEDS, COLUMN_SEEDS, DELTA = 20_000, 5, 10, 1e-9
BUDGETS = (0.5, DELTA), (0.5, 0.0), (1.0, DELTA), (1.0, 0.0)
BINS = "declared", "private"
BORN = np.datetime64("2000-01-01")


@dataclass(frozen=True)
class Numbers:
    """Rows, their declared values, what is predicted, a column of a long tail, and a number that many rows have."""

    rows: pd.DataFrame
    domain: Mapping[str, Any]
    target: str
    tail: str
    point: tuple[str, float] | None = None
    logs: tuple[str, ...] = ()
    parts: tuple[pd.DataFrame, pd.DataFrame] = field(init=False)

    def __post_init__(self) -> None:
        clipped = {
            name: self.rows[name].clip(values.edges[0], values.edges[-1])
            for name, values in self.domain.items()
            if isinstance(values, Interval) and values.dtype.kind == "f"
        }
        rows = self.rows.assign(**clipped)
        object.__setattr__(self, "parts", (rows[:N], rows[N:]))


def _mix(
    rng: np.random.Generator, noise: float, *factors: tuple[float, NDArray]
) -> NDArray:
    """Return a standard normal number that depends on others."""
    weights = np.array([weight for weight, _ in factors])
    number = sum(weight * factor for weight, factor in factors) + noise * rng.normal(
        size=2 * N
    )
    return number / np.sqrt((weights**2).sum() + noise**2)


def _noisy(rng: np.random.Generator, number: NDArray, share: float) -> NDArray:
    return number + share * number.std() * rng.normal(size=number.size)


def skewed() -> Numbers:
    """Draw lognormal and other skewed numbers of two factors, and a target that is nearly linear in them."""
    rng = np.random.default_rng(0)
    f, g = rng.normal(size=(2, 2 * N))
    d = {
        "a": 10 * np.exp(0.5 * _mix(rng, 0.5, (1, f))),
        "b": 20 + 3 * _mix(rng, 0.6, (0.7, f), (0.7, g)),
        "c": 5 * np.exp(0.8 * _mix(rng, 0.6, (1, g))),
        "d": 100 * np.exp(0.4 * _mix(rng, 0.7, (-0.6, f), (0.8, g))),
        "e": 3 * _mix(rng, 1, (0.5, f)) ** 2 + f,
    }
    weights = zip(d.values(), (1, 0.8, 0.7, 0.5, 0.3), strict=True)
    y = sum(
        weight * (number - number.mean()) / number.std() for number, weight in weights
    )
    d["y"] = 50 + 10 * _noisy(rng, y, 0.14)
    ends = {
        "a": (0, 100),
        "b": (0, 40),
        "c": (0, 200),
        "d": (0, 700),
        "e": (-10, 80),
        "y": (-100, 500),
    }
    return Numbers(pd.DataFrame(d), _wide(ends), "y", "c")


def incomes() -> Numbers:
    """Draw incomes with a long tail, hours of which two in five are 40, gains of which most are 0, and dates."""
    rng = np.random.default_rng(0)
    skill, age = (
        rng.normal(size=2 * N),
        np.clip(np.rint(42 + 13 * rng.normal(size=2 * N)), 18, 90),
    )
    hours = np.where(
        rng.random(2 * N) < 0.4,
        40,
        np.clip(np.rint(38 + 11 * rng.normal(size=2 * N)), 1, 99),
    )
    income = np.exp(
        10
        + 0.35 * skill
        + 0.02 * (age - 42)
        + 0.025 * (hours - 40)
        + 0.45 * rng.normal(size=2 * N)
    )
    income *= np.where(
        rng.random(2 * N) < 0.02, np.exp(1.5 * np.abs(rng.normal(size=2 * N))), 1
    )
    gain = np.where(
        rng.random(2 * N) < 0.85,
        0,
        np.exp(7 + 0.5 * skill + 1.2 * rng.normal(size=2 * N)),
    )
    d = {
        "age": age.astype(int),
        "education": np.clip(
            np.rint(13 + 2.5 * _mix(rng, 0.6, (0.8, skill))), 6, 21
        ).astype(int),
        "hours": hours.astype(int),
        "income": income,
        "gain": gain,
        "rent": income / 12 * np.exp(0.3 * rng.normal(size=2 * N) - 0.9),
        "hired": BORN
        - (rng.exponential(1_500 + 60 * (age - 18)).clip(0, 7_000)).astype(
            "timedelta64[D]"
        ),
        "sex": np.where(rng.random(2 * N) < 0.5, "F", "M"),
    }
    domain = {
        "age": Interval(18, 90, bins=18),
        "education": Interval(5, 21, bins=16),
        "hours": Interval(0, 99, bins=33),
        **_wide(
            {"income": (0, 2_000_000), "gain": (0, 1_000_000), "rent": (0, 100_000)}
        ),
        "hired": Interval(date(1980, 1, 1), date(2000, 1, 1), bins=20),
        "sex": ["F", "M"],
    }
    return Numbers(
        pd.DataFrame(d),
        domain,
        "income",
        "income",
        ("hours", 40),
        ("income", "gain", "rent"),
    )


def claims() -> Numbers:
    """Draw Pareto values, gamma risks, uniform numbers and a balance around 0."""
    rng = np.random.default_rng(3)
    f, g, h = rng.normal(size=(3, 2 * N))
    d = {
        "risk": rng.gamma(2, 1, 2 * N) * np.exp(0.2 * f),
        "distance": np.exp(9.5 + 0.5 * _mix(rng, 0, (0.6, f), (0.8, g))),
        "value": 15_000
        * np.exp(0.5 * _mix(rng, 0, (0.5, g), (0.87, h)))
        * (1 + 0.3 * rng.pareto(4, 2 * N)),
        "place": 10 * rng.random(2 * N),
        "balance": 500 * h + 200 * rng.standard_t(4, 2 * N),
    }
    premium = (
        40 * d["risk"]
        + 0.008 * d["distance"]
        + 0.012 * d["value"]
        + 6 * d["place"]
        - 0.1 * d["balance"]
    )
    d["premium"] = 100 + _noisy(rng, premium, 0.15)
    ends = {
        "risk": (0, 50),
        "distance": (0, 300_000),
        "value": (0, 500_000),
        "place": (0, 10),
    }
    return Numbers(
        pd.DataFrame(d),
        _wide(ends | {"balance": (-10_000, 10_000), "premium": (-500, 8_000)}),
        "premium",
        "value",
    )


def groups() -> Numbers:
    """Draw two groups with opposite slopes, and a column that depends on the square of another."""
    rng = np.random.default_rng(4)
    first = rng.random(2 * N) < 0.4
    around, w = rng.normal(size=(2, 2 * N)) * [[2], [1]]
    x, z = (
        around + 6 * first,
        np.where(first, -around, around) + 0.5 * rng.normal(size=2 * N),
    )
    q = w**2 + 0.3 * rng.normal(size=2 * N)
    y = _noisy(rng, 2 * x + 1.5 * w + z + 0.4 * q, 0.2)
    d = {"x": x, "w": w, "z": z, "q": q, "y": y, "group": np.where(first, "a", "b")}
    ends = {"x": (-15, 25), "w": (-6, 6), "z": (-15, 15), "q": (-5, 30), "y": (-50, 80)}
    return Numbers(pd.DataFrame(d), _wide(ends) | {"group": ["a", "b"]}, "y", "q")


def _wide(ends: Mapping[str, tuple[float, float]]) -> dict[str, Interval]:
    return {
        name: Interval(low, high, bins=32, real=True)
        for name, (low, high) in ends.items()
    }


@dataclass(frozen=True)
class Column:
    """A decimal column: its numbers, decimals, declared ends, and a point of mass."""

    numbers: NDArray
    decimals: int | None
    ends: tuple[float, float]
    point: float | None = None
    days: bool = False
    """Whether these are the days of dates, from the lower end."""


def _factors(seed: int) -> tuple[np.random.Generator, NDArray, NDArray]:
    rng = np.random.default_rng(seed)
    f, g = rng.normal(size=(2, N))
    return rng, f, g


def _with_zeros(rng: np.random.Generator, share: float, numbers: NDArray) -> NDArray:
    return np.where(rng.random(N) < share, 0, numbers)


def first_columns() -> dict[str, Column]:
    """Draw ten decimal columns of different laws, on which the method was chosen."""
    rng, f, g = _factors(11)

    def number(of_f: float, of_g: float) -> NDArray:
        mixed = of_f * f + of_g * g + rng.normal(size=N)
        return mixed / np.sqrt(of_f**2 + of_g**2 + 1)

    minutes = np.rint(np.exp(4 + 0.7 * number(1, 1)))
    heaped = np.where(rng.random(N) < 0.6, 15 * np.rint(minutes / 15), minutes)
    is_cold = number(0, 1) < 0.2
    degrees = np.where(is_cold, rng.normal(5, 2, N), rng.normal(22, 3, N))
    gains = np.exp(7 + 1.2 * number(0.5, 0.5))
    balance = 1_500 + 900 * rng.standard_t(4, N) + 400 * f
    benefit = _with_zeros(rng, 0.4, rng.exponential(800, N)).clip(0, 2_000)
    return {
        "wage (lognormal)": Column(np.exp(10 + 0.6 * number(1, 0)), 2, (0, 1_000_000)),
        "claim (Pareto 3)": Column(500 * (1 - rng.random(N)) ** (-1 / 3), 2, (0, 1e5)),
        "gain (85 % zeros)": Column(_with_zeros(rng, 0.85, gains), 2, (0, 500_000), 0),
        "degrees (two modes)": Column(degrees, 1, (-50, 60)),
        "share (uniform)": Column(rng.random(N), 3, (0, 1)),
        "minutes (heaped)": Column(heaped, 0, (0, 5_000), 60),
        "balance (signed)": Column(
            _with_zeros(rng, 0.2, balance), 2, (-50_000, 50_000), 0
        ),
        "dose (tiny)": Column(1e-6 * np.exp(0.8 * number(0.5, 0)), 9, (0, 1e-4)),
        "assets (huge)": Column(1e9 * np.exp(1.5 * number(1, 0.5)), None, (0, 1e12)),
        "benefit (capped)": Column(benefit, 2, (0, 10_000), 0),
    }


def further_columns() -> dict[str, Column]:
    """Draw ten further columns."""
    rng, f, g = _factors(12)

    def number(of_f: float, of_g: float) -> NDArray:
        mixed = of_f * f + of_g * g + rng.normal(size=N)
        return mixed / np.sqrt(of_f**2 + of_g**2 + 1)

    donation = 5 * np.ceil(np.exp(3 + number(0.5, 0.5)) / 5)
    is_low = number(0, 1) < -0.5
    score = 100 * np.where(is_low, rng.beta(2, 8, N), rng.beta(9, 3, N))
    hours = np.rint(rng.gamma(2, 15, N) + 5 * f + 20).clip(0, None)
    flow = -300 - 250 * rng.laplace(size=N) + 100 * g
    return {
        "price (lognormal)": Column(30 * np.exp(number(0.7, 0)), 2, (0, 10_000)),
        "loss (Lomax 2.8)": Column(2_000 * rng.pareto(2.8, N), 2, (0, 1_000_000)),
        "donation (93 % zeros)": Column(
            _with_zeros(rng, 0.93, donation), 2, (0, 50_000), 0
        ),
        "score (two modes)": Column(score, 1, (0, 100)),
        "angle (uniform)": Column(360 * rng.random(N), 2, (-360, 720)),
        "hours (35 % are 40)": Column(
            np.where(rng.random(N) < 0.35, 40, hours), 0, (0, 1_000), 40
        ),
        "flow (signed)": Column(_with_zeros(rng, 0.3, flow), 2, (-20_000, 20_000), 0),
        "rate (tiny)": Column(1e-4 * rng.gamma(1.5, 1, N), 8, (0, 0.01)),
        "turnover (huge)": Column(1e7 * np.exp(1.8 * number(1, 0.5)), None, (0, 1e11)),
        "rain (60 % zeros)": Column(
            _with_zeros(rng, 0.6, rng.gamma(0.5, 8, N)), 1, (0, 1_000), 0
        ),
    }


def third_columns() -> dict[str, Column]:
    """Draw ten columns on which nothing was chosen."""
    rng, f, g = _factors(113)
    stay = np.where(rng.random(N) < 0.3, 1, np.ceil(rng.gamma(1.5, 4, N)))
    is_cheap = f + rng.normal(size=N) < -0.7
    rent = np.where(is_cheap, rng.normal(6, 0.2, N), rng.normal(7, 0.4, N))
    ledger = np.exp(5 + rng.normal(size=N)) * np.where(rng.random(N) < 0.25, -1, 1)
    price = np.floor(np.exp(2.5 + 0.8 * rng.normal(size=N))) + 0.99
    degrees = 12 + 8 * np.abs(rng.normal(size=N)) + 5 * g
    visits = rng.negative_binomial(0.8, 0.12, N)
    return {
        "wait (Weibull .7)": Column(30 * rng.weibull(0.7, N), 1, (0, 5_000)),
        "stay (30 % are 1)": Column(stay, 0, (0, 1_000), 1),
        "rent (two lognormals)": Column(np.exp(rent), 2, (0, 100_000)),
        "ledger (signed)": Column(ledger, 2, (-1_000_000, 1_000_000)),
        "damage (92 % zeros)": Column(
            _with_zeros(rng, 0.92, 1_000 * rng.pareto(2.5, N)), 2, (0, 1_000_000), 0
        ),
        "price (ends in .99)": Column(price, 2, (0, 10_000), 9.99),
        "hired (dates)": Column(
            30_000 - np.floor(rng.exponential(2_500, N)), 0, (0, 36_500), days=True
        ),
        "degrees (skewed)": Column(degrees, 1, (-60, 90)),
        "speed (beta)": Column(140 * rng.beta(4, 3, N), 1, (0, 400)),
        "visits (many are 0)": Column(visits, 0, (0, 10_000), 0),
    }


def fourth_columns() -> dict[str, Column]:
    """Draw ten further columns on which nothing was chosen."""
    rng, f, g = _factors(114)
    salary = np.exp(10.4 + 0.5 * (0.6 * f + 0.8 * rng.normal(size=N)))
    salary *= np.where(rng.random(N) < 0.03, 1 + rng.pareto(2.5, N), 1)
    fare = rng.gamma(2.5, 9, N) + 3
    fare = np.where(rng.random(N) < 0.4, 5 * np.ceil(fare / 5), fare)
    loan = np.exp(9.2 + 0.9 * rng.normal(size=N))
    loan = np.where(
        loan < 10_000, 100 * np.rint(loan / 100), 1_000 * np.rint(loan / 1_000)
    )
    due = np.where(g < 0.3, rng.normal(9_000, 200, N), rng.normal(11_000, 900, N))
    bonus = _with_zeros(rng, 0.8, 2_000 * rng.weibull(0.9, N))
    uniform = rng.random(N)
    return {
        "salary (Pareto end)": Column(salary, 2, (0, 10_000_000)),
        "fare (heaped)": Column(fare, 2, (0, 2_000), 20),
        "loan (rounded)": Column(loan, 0, (0, 5_000_000), 10_000),
        "due (dates)": Column(np.rint(due), 0, (0, 30_000), days=True),
        "net (t 5)": Column(800 + 600 * rng.standard_t(5, N), 2, (-50_000, 50_000)),
        "bonus (80 % zeros)": Column(bonus, 2, (0, 200_000), 0),
        "size (log-logistic 4)": Column(
            50 * (uniform / (1 - uniform)) ** 0.25, 1, (0, 10_000)
        ),
        "age (normal)": Column(np.rint(44 + 15 * rng.normal(size=N)), 0, (0, 150)),
        "part (U)": Column(rng.beta(0.5, 0.6, N), 3, (0, 1)),
        "latency (Wald)": Column(1e-3 * rng.wald(20, 30, N), 6, (0, 10)),
    }


def fifth_columns() -> dict[str, Column]:
    """Draw ten columns that check the method after it was chosen."""
    rng, f, _ = _factors(905)
    scale = np.where(rng.random(N) < 0.1, 50, 5)
    limited = np.minimum(3_000, 3_600 * rng.beta(2, 2, N))
    uniform = rng.random(N)
    tip = np.exp(1.2 + 0.6 * rng.normal(size=N))
    return {
        "mixture (of scales)": Column(20 + scale * rng.normal(size=N), 1, (-2e3, 2e3)),
        "debt (negative)": Column(
            -np.exp(6 + 0.9 * rng.normal(size=N)), 2, (-500_000, 0)
        ),
        "return (t 3)": Column(
            300 + 200 * rng.standard_t(3, N), 2, (-100_000, 100_000)
        ),
        "claims (Poisson)": Column(
            rng.poisson(np.exp(-1 + 0.8 * rng.normal(size=N))), 0, (0, 500), 0
        ),
        "sales (Burr)": Column(
            10 * (uniform ** (-1 / 1.5) - 1) ** (1 / 2.5), 1, (0, 20_000)
        ),
        "tip (50 % zeros)": Column(_with_zeros(rng, 0.5, tip), 2, (0, 5_000), 0),
        "weight (normal)": Column(75 + 14 * rng.normal(size=N) + 4 * f, 1, (0, 600)),
        "credit (limit 3,000)": Column(limited, 2, (0, 50_000), 3_000),
        "energy (gamma 4)": Column(rng.gamma(4, 700, N), 0, (0, 200_000)),
        "delay (shifted)": Column(-10 + rng.exponential(18, N), 0, (-120, 3_000)),
    }


def sixth_columns() -> dict[str, Column]:
    """Draw ten further columns that check the method after it was chosen."""
    rng, f, _ = _factors(906)
    is_large = rng.random(N) < 0.02
    small = np.exp(4.5 + 0.5 * rng.normal(size=N))
    bill = np.where(is_large, np.exp(8.5 + 0.4 * rng.normal(size=N)), small)
    grant = 100 * np.ceil(np.exp(2 + 0.5 * rng.normal(size=N)))
    tax = np.exp(6.5 + 0.7 * rng.normal(size=N) + 0.3 * f)
    balance = _with_zeros(rng, 0.1, rng.laplace(200, 400, N))
    return {
        "bill (2 % are large)": Column(bill, 2, (0, 1_000_000)),
        "profit (sinh)": Column(
            3_000 * np.sinh(0.6 * rng.normal(size=N) + 0.3), 2, (-5e5, 5e5)
        ),
        "children (binomial)": Column(rng.binomial(6, 0.2, N), 0, (0, 100), 0),
        "grant (97 % zeros)": Column(_with_zeros(rng, 0.97, grant), 0, (0, 1e5), 0),
        "tax (70 % zeros)": Column(_with_zeros(rng, 0.7, tax), 2, (0, 1_000_000), 0),
        "heat (triangular)": Column(rng.triangular(-5, 12, 38, N), 1, (-90, 60)),
        "balance (Laplace)": Column(balance, 2, (-100_000, 100_000), 0),
        "rate (inverse gamma)": Column(1 / rng.gamma(4, 10, N), 5, (0, 10)),
        "lines (geometric)": Column(rng.geometric(0.05, N), 0, (0, 20_000), 1),
        "mass (lognormal .3)": Column(
            np.exp(2 + 0.3 * rng.normal(size=N)), 2, (0, 1_000)
        ),
    }


def seventh_columns() -> dict[str, Column]:
    """Draw ten columns of numbers far from 0."""
    rng, f, _ = _factors(907)
    return {
        "degrees (normal)": Column(36.9 + 0.5 * rng.normal(size=N), 1, (30, 45)),
        "fever (gamma 2)": Column(36.2 + rng.gamma(2, 0.4, N), 1, (30, 45)),
        "pH (normal)": Column(7.4 + 0.05 * rng.normal(size=N), 2, (6.8, 7.8)),
        "pressure (normal)": Column(1_013 + 9 * rng.normal(size=N), 1, (870, 1_085)),
        "height (normal)": Column(170 + 8 * rng.normal(size=N) + 4 * f, 1, (100, 230)),
        "sodium (normal)": Column(140 + 3 * rng.normal(size=N), 0, (100, 180)),
        "systolic (normal)": Column(125 + 17 * rng.normal(size=N), 0, (50, 250)),
        "year (normal)": Column(1_980 + 12 * rng.normal(size=N), 0, (1_880, 2_024)),
        "wait (from 100)": Column(100 + rng.exponential(3, N), 2, (100, 200)),
        "frequency (Laplace)": Column(rng.laplace(50, 0.02, N), 3, (49, 51)),
    }


COLUMNS = {
    "first": first_columns,
    "further": further_columns,
    "third": third_columns,
    "fourth": fourth_columns,
    "fifth": fifth_columns,
    "sixth": sixth_columns,
    "seventh": seventh_columns,
}


def table_of(columns: Mapping[str, Column]) -> tuple[pd.DataFrame, dict[str, Interval]]:
    """Round the numbers, and declare their bins."""
    rows = {}
    domain = {}
    for name, column in columns.items():
        numbers = column.numbers.clip(*column.ends)
        if column.days:
            low, high = BORN + np.array(column.ends).astype("timedelta64[D]")
            domain[name] = Interval(low, high, bins=32)
            rows[name] = BORN + numbers.astype("timedelta64[D]")
            continue
        if column.decimals is None:
            domain[name] = Interval(*column.ends, bins=32, real=True)
        else:
            domain[name] = Interval(*column.ends, bins=32, decimals=column.decimals)
            numbers = np.round(numbers, column.decimals)
        rows[name] = numbers.astype(int) if column.decimals == 0 else numbers
    return pd.DataFrame(rows), domain


def _numbers_of(column: pd.Series) -> NDArray:
    """Return numbers, or the days of dates."""
    if column.dtype.kind == "M":
        column = (column - pd.Timestamp(BORN)).dt.days
    return column.to_numpy(float)


def errors_of(real: NDArray, made: NDArray, point: float | None) -> list[float]:
    """Return errors of mean, deviation, the share at a point, and of the distribution."""
    ends = np.unique(np.quantile(real, np.linspace(0.01, 0.99, 99)))
    shares = []
    for numbers in (real, made):
        counts = np.searchsorted(np.sort(numbers), ends, side="right")
        shares.append(counts / numbers.size)
    return [
        made.mean() / real.mean() - 1,
        made.std() / real.std() - 1,
        np.nan if point is None else (made == point).mean() - (real == point).mean(),
        np.abs(shares[0] - shares[1]).max(),
    ]


def least_error(numbers: NDArray, mu: float) -> float:
    """Return the least error of a mean that all of `mu` is spent on.

    The mean is that of numbers clipped around some number; both it and the limits are
    chosen with the private numbers, and their number is known.
    """
    errors = []
    for middle in np.quantile(numbers, [0.05, 0.25, 0.5, 0.75, 0.95]):
        distances = numbers - middle
        ranks = 1 - np.geomspace(1e-4, 0.3, 40)
        for limit in np.quantile(np.abs(distances), ranks):
            if limit > 0:
                bias = (distances.clip(-limit, limit) - distances).sum()
                errors.append(np.hypot(bias, limit / mu) / numbers.size)
    return float(min(errors))


def least_errors(numbers: NDArray, n_columns: int) -> list[str]:
    """Return the least errors of mean and deviation, each with all of a column's budget."""
    mu = float(largest_mu(1.0, DELTA)) / np.sqrt(n_columns)
    mean = numbers.mean()
    variance = numbers.var()
    error_of_variance = least_error((numbers - mean) ** 2, mu)
    # Of small errors, that of a root is half.
    errors = [least_error(numbers, mu) / abs(mean), error_of_variance / variance / 2]
    return [_written(error) for error in errors]


def column_lines(seeds: int) -> list[list[str]]:
    """Measure the columns of all tables at an epsilon of 1."""
    settings = itertools.product(COLUMNS, BINS)
    calls = (delayed(column_errors)(title, bins, seeds) for title, bins in settings)
    return list(itertools.chain(*Parallel(n_jobs=2)(calls)))


def column_errors(title: str, bins: str, seeds: int) -> list[list[str]]:
    """Measure the columns of a table."""
    columns = COLUMNS[title]()
    real, domain = table_of(columns)
    errors = []
    for seed in range(seeds):
        synthesizer = DPMarginalSynthesizer(
            1.0, delta=DELTA, domain=domain, bins=bins, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            made = synthesizer.fit(real).sample(N)
        of_seed = []
        for name, column in columns.items():
            pair = _numbers_of(real[name]), _numbers_of(made[name])
            of_seed.append(errors_of(*pair, column.point))
        errors.append(of_seed)
    root_mean_squares = np.sqrt((np.array(errors) ** 2).mean(axis=0))
    lines = []
    for name, values in zip(columns, root_mean_squares, strict=True):
        written = [_written(None if np.isnan(v) else v) for v in values]
        numbers = _numbers_of(real[name])
        lines.append(
            [title, bins, name, *written, *least_errors(numbers, len(columns))]
        )
        print(*lines[-1], flush=True)
    return lines


TABLES = {"skewed": skewed, "incomes": incomes, "claims": claims, "groups": groups}


def as_numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """Write dates and texts as numbers."""
    found = rows.copy()
    for name in rows:
        if rows[name].dtype.kind == "M":
            found[name] = (rows[name] - pd.Timestamp(BORN)).dt.days
        elif not pd.api.types.is_numeric_dtype(rows[name]):
            found[name] = (rows[name] == rows[name].min()).astype(float)
    return found.astype(float)


def scores(table: Numbers, made: pd.DataFrame) -> dict[str, float]:
    """Compare rows with the real ones, and predict those that were kept back."""
    train, test, rows = (as_numbers(part) for part in (*table.parts, made))
    found = {
        "correlation": float(np.abs(np.corrcoef(train.T) - np.corrcoef(rows.T)).max()),
        "of ranks": float(
            (train.rank().corr() - rows.rank().corr()).abs().to_numpy().max()
        ),
        "mean": abs(rows[table.tail].mean() / train[table.tail].mean() - 1),
    }
    if table.point is not None:
        name, value = table.point
        found["point"] = float((rows[name] == value).mean())
    for part in (train, test, rows):
        part[list(table.logs)] = np.log1p(part[list(table.logs)].clip(lower=0))
    names = [name for name in rows if name != table.target]
    model = LinearRegression().fit(rows[names], rows[table.target])
    return {"R2": float(model.score(test[names], test[table.target]))} | found


SCORES = ("R2", "correlation", "of ranks", "mean", "point")


def table_line(
    name: str, budget: tuple[float, float], bins: str, seeds: int
) -> list[str]:
    """Measure what rows of a table keep."""
    table = TABLES[name]()
    epsilon, delta = budget
    runs = []
    for seed in range(seeds):
        synthesizer = DPMarginalSynthesizer(
            epsilon, delta=delta, domain=table.domain, bins=bins, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            synthesizer.fit(table.parts[0])
        runs.append(scores(table, synthesizer.sample(N)))
    means = pd.DataFrame(runs).mean()
    line = [name, bins, f"{epsilon:g}", f"{delta:g}"]
    line += [_written(means.get(column)) for column in SCORES]
    print(*line, flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--column-seeds", type=int, default=COLUMN_SEEDS)
    options = parser.parse_args()
    lines = []
    for name in options.tables:
        table = TABLES[name]()
        real = scores(table, table.parts[0])
        lines.append(
            [name, "real rows", "", "", *(_written(real.get(c)) for c in SCORES)]
        )
        settings = itertools.product(BUDGETS, BINS)
        calls = (
            delayed(table_line)(name, budget, bins, options.seeds)
            for budget, bins in settings
        )
        lines += Parallel(n_jobs=2)(calls)
    if options.tables == list(TABLES):
        columns_of_laws = column_lines(options.column_seeds)
        write_results(
            "synthesis_numbers",
            "Numbers of synthetic rows",
            ("skdp", "numpy", "scikit-learn"),
            f"Means over {options.seeds} seeds, {N:,} rows of each table. `R2`: linear regression trained on synthetic "
            "rows, tested on real ones that were kept back (of `incomes`, on logarithms of amounts). `correlation`: "
            "the largest error of a correlation of two columns; `of ranks`: of their ranks. `mean`: the mean absolute "
            "error of the mean of a column with a long tail, as a share of the mean. `point`: the share of rows with "
            "40 hours. "
            "The second table has root mean square errors at epsilon 1, over "
            f"{options.column_seeds} seeds: of the mean and the standard deviation as "
            "shares of these, of the share of rows at a point of mass, and the largest error of the distribution "
            "at 99 quantiles. The numbers of the method were chosen on the columns of `first` to `fourth`; those of "
            "`fifth` and `sixth` check them; those of `seventh` are far from 0. "
            "Behind them is what a tenth of the budget would reach that is spent on "
            "the mean, or on the deviation, alone: the clipped sum whose bias and noise are least together, by limits "
            "that are chosen with the private numbers. "
            "nan: a column of which all rows of some table have one number has no correlation.",
            {
                "Kept by synthetic rows": (
                    ("table", "bins", "epsilon", "delta", *SCORES),
                    lines,
                ),
                "Ten decimal columns at epsilon 1": (
                    (
                        "table",
                        "bins",
                        "column",
                        "mean",
                        "deviation",
                        "point",
                        "distribution",
                        "mean alone",
                        "deviation alone",
                    ),
                    columns_of_laws,
                ),
            },
        )


def _written(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    main()
