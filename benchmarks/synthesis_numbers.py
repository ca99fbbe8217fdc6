"""Errors of numbers in synthetic rows: means, standard deviations, spikes, quantiles, correlations and regressions.

Bins are either declared within wide bounds, or found privately. The task
"columns" has sets of independent columns. Its metrics are mean absolute errors over columns:
of the mean, in standard deviations of the column; of the standard deviation, as a relative
error; and of the proportion of rows at a spike (a single value that is frequent). It also
has the largest error of the distribution function at 99 quantiles.

The task "private columns" resamples each of these columns with `DPColumnSynthesizer`.

The task "tables" has dependent columns. "unexplained" is the mean squared error divided by
the variance, for a linear regression that is trained on synthetic rows and predicts test
rows. "correlation" is the mean absolute error of rank correlations. "mean" and "standard
deviation" are defined as above. The regression of incomes uses logarithms of amounts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from _tables import synthesize
from _tasks import Task
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression

from skdp import Domain, Interval
from skdp.domain import drop_bins

Numbers = NDArray[np.float64]

N_ROWS = 20_000
N_QUICK_ROWS = 2_000
N_BINS = 32


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Training rows, test rows, their domain, spikes, and a regression."""

    train: pd.DataFrame
    test: pd.DataFrame
    domain: Domain
    spikes: dict[str, float]
    target: str | None = None
    logs: tuple[str, ...] = ()  # Columns whose logarithms are predictors.


@dataclass(frozen=True, eq=False)
class Column:
    """Numbers, their decimals (None for floats), declared bounds, and a spike."""

    numbers: Numbers
    decimals: int | None
    low: float
    high: float
    spike: float | None = None


def build_table(columns: dict[str, Column], target: str | None = None) -> NumberTable:
    """Round the numbers, declare bins, and keep half of the rows for testing."""
    frame, domain, spikes = {}, {}, {}
    for name, column in columns.items():
        numbers = column.numbers.clip(column.low, column.high)
        n_bins, options = N_BINS, dict[str, Any](real=True)
        if column.decimals is not None:
            options = {"decimals": column.decimals}
            numbers = np.round(numbers, column.decimals)
            # At most as many bins as whole numbers.
            if column.decimals == 0:
                n_bins = int(min(N_BINS, column.high - column.low + 1))
        domain[name] = Interval(column.low, column.high, bins=n_bins, **options)
        frame[name] = numbers.astype(int) if column.decimals == 0 else numbers
        if column.spike is not None:
            spikes[name] = column.spike
    rows = pd.DataFrame(frame)
    n_train = len(rows) // 2
    test = rows[n_train:].reset_index(drop=True)
    return NumberTable(rows[:n_train], test, Domain(domain), spikes, target)


def add_zeros(rng: np.random.Generator, fraction: float, numbers: Numbers) -> Numbers:
    """Replace a fraction of the numbers by 0."""
    return np.where(rng.random(numbers.size) < fraction, 0, numbers)


# Independent columns


def smooth_columns(n: int) -> NumberTable:
    """Draw ten columns of skewed, heavy-tailed, bimodal and flat distributions."""
    rng = np.random.default_rng(11)
    z, u = rng.normal(size=n), rng.random(n)
    degrees = np.where(u < 0.45, rng.normal(5, 2, n), rng.normal(22, 3, n))
    rent = np.where(u < 0.3, rng.normal(6, 0.2, n), rng.normal(7, 0.4, n))
    columns = {
        "wage (lognormal)": Column(np.exp(10 + 0.6 * z), 2, 0, 1_000_000),
        "claim (Pareto)": Column(500 * u ** (-1 / 3), 2, 0, 100_000),
        "degrees (two modes)": Column(degrees, 1, -50, 60),
        "rate (uniform)": Column(rng.random(n), 3, 0, 1),
        "dose (tiny)": Column(1e-6 * np.exp(0.8 * z), 9, 0, 1e-4),
        "assets (huge)": Column(1e9 * np.exp(1.5 * z), None, 0, 1e12),
        "rent (two lognormals)": Column(np.exp(rent), 2, 0, 100_000),
        "flow (Laplace)": Column(rng.laplace(-300, 250, n), 2, -20_000, 20_000),
        "delay (shifted)": Column(rng.exponential(18, n) - 10, 0, -120, 3_000),
        "score (beta)": Column(100 * rng.beta(0.5, 0.6, n), 1, 0, 100),
    }
    return build_table(columns)


def spiked_columns(n: int) -> NumberTable:
    """Draw ten columns with a very frequent value."""
    rng = np.random.default_rng(12)
    z = rng.normal(size=n)
    minutes = np.rint(np.exp(4 + 0.7 * z))
    heaped = np.where(rng.random(n) < 0.6, 15 * np.rint(minutes / 15), minutes)
    hours = np.where(rng.random(n) < 0.35, 40, np.rint(rng.normal(38, 11, n)))
    stay = np.where(rng.random(n) < 0.3, 1, np.ceil(rng.gamma(1.5, 4, n)))
    gain = add_zeros(rng, 0.85, np.exp(7 + 1.2 * z))
    donation = add_zeros(rng, 0.93, 5 * np.ceil(np.exp(3 + z) / 5))
    balance = add_zeros(rng, 0.2, 1_500 + 900 * rng.standard_t(4, n))
    benefit = add_zeros(rng, 0.4, rng.exponential(800, n)).clip(0, 2_000)
    limited = np.minimum(3_000, 3_600 * rng.beta(2, 2, n))
    rain = add_zeros(rng, 0.6, rng.gamma(0.5, 8, n))
    visits = rng.negative_binomial(0.8, 0.12, n).astype(float)
    columns = {
        "minutes (heaped)": Column(heaped, 0, 0, 5_000, 60),
        "hours (35 % are 40)": Column(hours, 0, 0, 1_000, 40),
        "stay (30 % are 1)": Column(stay, 0, 0, 1_000, 1),
        "gain (85 % zeros)": Column(gain, 2, 0, 500_000, 0),
        "donation (93 % zeros)": Column(donation, 2, 0, 50_000, 0),
        "balance (20 % zeros)": Column(balance, 2, -50_000, 50_000, 0),
        "benefit (capped)": Column(benefit, 2, 0, 10_000, 0),
        "credit (limit)": Column(limited, 2, 0, 50_000, 3_000),
        "rain (60 % zeros)": Column(rain, 1, 0, 1_000, 0),
        "visits (many zeros)": Column(visits, 0, 0, 10_000, 0),
    }
    return build_table(columns)


def shifted_columns(n: int) -> NumberTable:
    """Draw ten columns of numbers far from 0."""
    rng = np.random.default_rng(13)
    columns = {
        "temperature": Column(rng.normal(36.9, 0.5, n), 1, 30, 45),
        "fever": Column(36.2 + rng.gamma(2, 0.4, n), 1, 30, 45),
        "pH": Column(rng.normal(7.4, 0.05, n), 2, 6.8, 7.8),
        "pressure": Column(rng.normal(1_013, 9, n), 1, 870, 1_085),
        "height": Column(rng.normal(170, 9, n), 1, 100, 230),
        "sodium": Column(rng.normal(140, 3, n), 0, 100, 180),
        "systolic": Column(rng.normal(125, 17, n), 0, 50, 250),
        "year": Column(rng.normal(1_980, 12, n), 0, 1_880, 2_024),
        "wait": Column(100 + rng.exponential(3, n), 2, 100, 200),
        "frequency": Column(rng.laplace(50, 0.02, n), 3, 49, 51),
    }
    return build_table(columns)


# Dependent columns


def mix(
    rng: np.random.Generator, noise: float, *terms: tuple[float, Numbers]
) -> Numbers:
    """Return a standard normal number that depends on other numbers."""
    n = terms[0][1].size
    total = sum(weight * number for weight, number in terms) + noise * rng.normal(
        size=n
    )
    return total / np.sqrt(sum(weight**2 for weight, _ in terms) + noise**2)


def skewed_table(n: int) -> NumberTable:
    """Draw skewed numbers that depend on two latent factors, and a nearly linear target."""
    rng = np.random.default_rng(14)
    f, g = rng.normal(size=(2, n))
    a = 10 * np.exp(0.5 * mix(rng, 0.5, (1, f)))
    b = 20 + 3 * mix(rng, 0.6, (0.7, f), (0.7, g))
    c = 5 * np.exp(0.8 * mix(rng, 0.6, (1, g)))
    d = 100 * np.exp(0.4 * mix(rng, 0.7, (-0.6, f), (0.8, g)))
    total = sum(
        weight * (x - x.mean()) / x.std()
        for weight, x in zip((1, 0.8, 0.7, 0.5), (a, b, c, d), strict=True)
    )
    y = 50 + 10 * (total + 0.3 * rng.normal(size=n))
    columns = {
        "a": Column(a, None, 0, 100),
        "b": Column(b, None, 0, 40),
        "c": Column(c, None, 0, 200),
        "d": Column(d, None, 0, 700),
        "y": Column(y, None, -100, 500),
    }
    return build_table(columns, "y")


def income_table(n: int) -> NumberTable:
    """Draw incomes with a long tail, hours with a spike, and gains with zeros."""
    rng = np.random.default_rng(15)
    skill = rng.normal(size=n)
    age = np.rint(rng.normal(42, 13, n)).clip(18, 90)
    worked = np.rint(rng.normal(38, 11, n)).clip(1, 99)
    hours = np.where(rng.random(n) < 0.4, 40, worked)
    log_income = 10 + 0.35 * skill + 0.02 * (age - 42) + 0.025 * (hours - 40)
    income = np.exp(log_income + 0.45 * rng.normal(size=n))
    gain = add_zeros(rng, 0.85, np.exp(7 + 0.5 * skill + 1.2 * rng.normal(size=n)))
    columns = {
        "age": Column(age, 0, 18, 90),
        "education": Column(13 + 2.5 * mix(rng, 0.6, (0.8, skill)), 0, 5, 21),
        "hours": Column(hours, 0, 0, 99, 40),
        "income": Column(income, None, 0, 2_000_000),
        "gain": Column(gain, None, 0, 1_000_000, 0),
        "rent": Column(income / 30 * rng.lognormal(0, 0.3, n), None, 0, 100_000),
    }
    return replace(build_table(columns, "income"), logs=("income", "gain", "rent"))


def column_tables(quick: bool) -> dict[str, Callable[[], NumberTable]]:
    if quick:
        return {"spiked": partial(spiked_columns, N_QUICK_ROWS)}
    makers = {"smooth": smooth_columns, "spiked": spiked_columns}
    makers |= {"far from 0": shifted_columns}
    return {name: partial(make, 2 * N_ROWS) for name, make in makers.items()}


def dependent_tables(quick: bool) -> dict[str, Callable[[], NumberTable]]:
    if quick:
        return {"incomes": partial(income_table, N_QUICK_ROWS)}
    makers = {"skewed": skewed_table, "incomes": income_table}
    return {name: partial(make, 2 * N_ROWS) for name, make in makers.items()}


# Scores


def score_columns(table: NumberTable, rows: pd.DataFrame) -> dict[str, float]:
    """Compute mean absolute errors of columns."""
    real, made = table.train, rows
    errors = {
        "mean": (made.mean() - real.mean()).abs() / real.std(),
        "standard deviation": (made.std() / real.std() - 1).abs(),
        "quantiles": pd.Series(
            {name: measure_distance(real[name], made[name]) for name in real}
        ),
    }
    if table.spikes:
        spikes = pd.Series(table.spikes)
        names = list(table.spikes)
        shares = [(part[names] == spikes).mean() for part in (real, made)]
        errors["spike"] = (shares[1] - shares[0]).abs()
    return {name: float(values.mean()) for name, values in errors.items()}


def measure_distance(real: pd.Series, made: pd.Series) -> float:
    """Compute the largest difference of the distribution functions at 99 quantiles."""
    points = np.unique(np.quantile(real, np.linspace(0.01, 0.99, 99)))
    steps = [
        np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (real, made)
    ]
    return float(np.abs(steps[0] - steps[1]).max())


def score_tables(table: NumberTable, rows: pd.DataFrame) -> dict[str, float]:
    """Compute errors of a regression, of rank correlations, and of columns."""
    real, made = table.train, rows
    difference = (made.rank().corr() - real.rank().corr()).fillna(1).abs().to_numpy()
    errors = score_columns(table, rows)
    return {
        "unexplained": measure_regression(table, made),
        "correlation": float(difference[np.triu_indices(len(difference), 1)].mean()),
        "mean": errors["mean"],
        "standard deviation": errors["standard deviation"],
    }


def measure_regression(table: NumberTable, made: pd.DataFrame) -> float:
    """Compute the mean squared error, divided by the variance, of a regression that is trained on `made`."""
    test = table.test
    logs = list(table.logs)
    made, test = (
        part.assign(**{name: np.log1p(part[name].clip(lower=0)) for name in logs})
        for part in (made, test)
    )
    names = [name for name in test if name != table.target]
    model = LinearRegression().fit(made[names], made[table.target])
    residuals = test[table.target] - model.predict(test[names])
    return float((residuals**2).mean() / test[table.target].var())


def resample_each(table: NumberTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Resample each column as the only private column beside a public one."""
    from skdp import DPColumnSynthesizer

    public = np.resize([0, 1, 2], len(table.train))
    columns = {}
    for name in table.train:
        rows = table.train[[name]].assign(public=public)
        synthesizer = DPColumnSynthesizer(
            [name], epsilon, domain=table.domain.select([name]), random_state=seed
        )
        columns[name] = synthesizer.fit_transform(rows)[name]
    return pd.DataFrame(columns)


def synthesize_bounds(table: NumberTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Synthesize a table of which only the bounds of numbers are declared."""
    columns = {name: drop_bins(values) for name, values in table.domain.items()}
    return synthesize(replace(table, domain=Domain(columns)), epsilon, seed)


METHODS = {"declared bins": synthesize, "private bins": synthesize_bounds}
PRIVATE_METHODS = {"DPColumnSynthesizer": resample_each}
TASKS = {
    "private columns": Task(column_tables, PRIVATE_METHODS, score_columns, (3.0,), 6),
    "columns": Task(column_tables, METHODS, score_columns, (1.0, 0.1), 8),
    "tables": Task(dependent_tables, METHODS, score_tables, (1.0, 0.3), 6),
}
