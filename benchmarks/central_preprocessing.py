"""What bounds that are found cost a private mean, and how many quantiles are released at once.

Run ``make bench``. All releases draw secure coins. Arguments: the number of runs, and that of quantiles.
"""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np
from _timing import verdict, write_results
from sklearn.datasets import load_breast_cancer

from skdp import (
    DPHistogram,
    DPMean,
    DPQuantileBinarizer,
    DPQuantileTransformer,
    Interval,
)
from skdp.datasets import load_adult

RUNS = int(sys.argv[1]) if sys.argv[1:] else 500
DRAWS = 10
EPSILON, WIDE, WANTED = 1.0, 1e4, 1.5
QUANTILE_RUNS = int(sys.argv[2]) if sys.argv[2:] else 40
K, SMALL, STEPS, WANTED_OF_RANKS = 50, 0.1, 10_000, 1.1
PROBABILITIES = np.arange(1, K + 1) / (K + 1)
N = 50_000


def columns(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    adult, patients = load_adult().frame, load_breast_cancer(as_frame=True).data
    both = rng.choice([-1, 1], N)
    return {
        "log-normal (skewed)": rng.lognormal(0, 1, N),
        "exponential (skewed)": rng.exponential(3000, N),
        "gamma, shape 2 (skewed)": rng.gamma(2, 1, N),
        "normal (centred)": rng.normal(0, 1, N),
        "Laplace (centred)": rng.laplace(0, 20, N),
        "Student's t, 3 (heavy tails)": rng.standard_t(3, N),
        "Pareto, 2.5 (heavy tail)": rng.pareto(2.5, N) + 1,
        "log-normal, 1.5 (heavy tail)": rng.lognormal(3, 1.5, N),
        "uniform on 0 to 100": rng.uniform(0, 100, N),
        "normal around 50, deviation 5": rng.normal(50, 5, N),
        "Adult: hours-per-week": adult["hours-per-week"].to_numpy(float),
        "Adult: age": adult["age"].to_numpy(float),
        "Adult: capital-gain": adult["capital-gain"].to_numpy(float),
        "breast cancer: mean area, 569 rows": patients["mean area"].to_numpy(),
        "breast cancer: mean perimeter, 569 rows": patients[
            "mean perimeter"
        ].to_numpy(),
        "exponential from 100 (skewed)": rng.exponential(10, N) + 100,
        "Student's t, 2.5 (heavy tails)": rng.standard_t(2.5, N),
        "Weibull, .5 (heavy tail)": rng.weibull(0.5, N),
        "uniform on 1,000 to 1,010": rng.uniform(1000, 1010, N),
        "dates of five years, in seconds": rng.uniform(1.58e9, 1.74e9, N).round(),
        "marks from 1 to 7": rng.choice(
            np.arange(1.0, 8.0), N, p=[0.05, 0.2, 0.3, 0.2, 0.15, 0.07, 0.03]
        ),
        "Gumbel around 20": rng.gumbel(20, 3, N),
        "arcsine law from 100 to 110": 100 + 10 * rng.beta(0.5, 0.5, N),
        "shares up to 100, exponential below": 100 - rng.exponential(1.5, N),
        "blood pressure, whole numbers": rng.normal(125, 15, N).round(),
        "latitudes of a town": rng.uniform(52.34, 52.68, N),
        "angles": rng.vonmises(1.0, 2.0, N),
        "chi-square, 5 (skewed)*": rng.chisquare(5, N),
        "inverse Gaussian (skewed)*": rng.wald(2, 3, N),
        "logistic (centred)*": rng.logistic(0, 3, N),
        "log-normal of both signs (centred, heavy tails)*": both
        * rng.lognormal(1, 1.2, N),
        "Student's t, 4, around 1 (heavy tails)*": 1 + rng.standard_t(4, N),
        "Frechet, 2.5 (heavy tail)*": rng.exponential(1, N) ** (-1 / 2.5),
        "F, 6 and 5 (heavy tail)*": rng.f(6, 5, N),
        "two log-normals (heavy tail)*": np.where(
            rng.random(N) < 0.8, rng.lognormal(2, 0.5, N), rng.lognormal(3, 1.3, N)
        ),
        "temperatures of both signs*": rng.normal(8, 9, N).round(1),
        "triangular on 200 to 300*": rng.triangular(200, 220, 300, N),
        "90 % zeros, integers": np.where(
            rng.random(N) < 0.9, 0, rng.geometric(0.1, N)
        ).astype(float),
    }


def error(
    column: np.ndarray, epsilon: float, bounds: object, runs: int
) -> tuple[float, list[np.ndarray]]:
    """Return the root mean square error, and the bounds of each run."""
    # Of each bounds, what clipping takes from the mean, and the noise, whose standard deviation is known.
    fits = [
        DPMean(epsilon, bounds=bounds).fit(column.reshape(-1, 1)) for _ in range(runs)
    ]
    squares = [
        (np.clip(column, *fit.bounds_[0]).mean() - column.mean()) ** 2
        + fit.std_error_[0] ** 2
        for fit in fits
    ]
    return math.sqrt(np.mean(squares)), [fit.bounds_[0] for fit in fits]


def means() -> list[list[str]]:
    rows = []
    tables = [columns(seed) for seed in range(DRAWS)]
    for name in tables[0]:
        errors, shares = [], []
        for column in (table[name] for table in tables):
            low, high = column.min(), column.max()
            good, _ = error(column, EPSILON, (low, high), 1)
            middle, half = (low + high) / 2, WIDE * (high - low) / 2
            wide, _ = error(column, EPSILON, (middle - half, middle + half), 1)
            found, ends = error(column, EPSILON, "private", RUNS // DRAWS)
            errors.append((good, wide, found, found / good))
            shares.extend(np.ptp(ends, axis=1) / (high - low))
        *cells, ratio = np.sqrt(np.mean(np.square(errors), axis=0))
        share = f"{np.median(shares):.2f}"
        rows.append(
            [
                name,
                *(f"{one:.3g}" for one in cells),
                f"{ratio:.2f}",
                share,
                verdict(ratio <= WANTED),
            ]
        )
    return rows


def by_epsilon() -> list[list[str]]:
    """Return the ratio of both errors of a skewed column of some sizes."""
    rows = []
    for n in (1000, 10_000, 100_000):
        column = np.random.default_rng(n).gamma(2, 1, n)
        cells = []
        for epsilon in (0.1, 0.5, 1.0, 4.0):
            found, ends = error(column, epsilon, "private", RUNS // 2)
            good, _ = error(column, epsilon, (column.min(), column.max()), 1)
            hidden = np.mean([pair.tolist() == [-1, 1] for pair in ends])
            cells.append(
                f"{found / good:.2f}" if hidden == 0 else f"hidden in {hidden:.0%}"
            )
        rows.append([f"{n:,}", *cells])
    return rows


def quantile_columns(n: int) -> dict[str, tuple[np.ndarray, float]]:
    """Return columns of values from 0 to an upper bound."""
    rng = np.random.default_rng(n)
    adult, patients = load_adult().frame, load_breast_cancer(as_frame=True).data

    def rows(column: np.ndarray) -> np.ndarray:
        return rng.choice(np.asarray(column, float), n, replace=n > len(column))

    return {
        "exponential (skewed)": (rng.exponential(3000, n), 50_000),
        "log-normal (skewed)*": (rng.lognormal(3, 1, n), 1000),
        "Weibull, .7 (heavy tail)*": (rng.weibull(0.7, n), 100),
        "normal": (rng.normal(50, 10, n), 100),
        "two modes": (
            np.where(rng.random(n) < 0.5, rng.normal(20, 1, n), rng.normal(80, 2, n)),
            100,
        ),
        "60 % zeros (tied)": (
            np.where(rng.random(n) < 0.6, 0, rng.gamma(2, 10, n)),
            500,
        ),
        "rounded to tens (tied)*": (rng.gamma(4, 40, n).round(-1), 1000),
        "Poisson, 4 (discrete)": (rng.poisson(4, n), 100),
        "binomial, 40 (discrete)*": (rng.binomial(40, 0.3, n), 100),
        "Adult: age": (rows(adult["age"]), 100),
        "Adult: fnlwgt": (rows(adult["fnlwgt"]), 2_000_000),
        "Adult: education-num*": (rows(adult["education-num"]), 20),
        "Adult: capital-gain": (rows(adult["capital-gain"]), 100_000),
        "breast cancer: mean area*": (rows(patients["mean area"]), 5000),
    }


def by_choices(column: np.ndarray, high: float) -> np.ndarray:
    """Choose each quantile by itself."""
    rows = column.reshape(-1, 1)
    found = [
        DPQuantileBinarizer(SMALL / K, quantile=q, bounds=(0, high), candidates=STEPS)
        .fit(rows)
        .thresholds_[0]
        for q in PROBABILITIES
    ]
    return np.sort(found)


def by_halves(column: np.ndarray, high: float) -> np.ndarray:
    """Return ApproximateQuantiles (Kaplan, Schnapp, Stemmer 2022), with values spread over a step to break ties."""
    step, rng = high / STEPS, np.random.default_rng()
    rate = SMALL / K.bit_length()
    found = np.zeros(K)

    def halve(
        values: np.ndarray,
        low: float,
        up: float,
        first: int,
        stop: int,
        below: float,
        above: float,
    ) -> None:
        if first == stop:
            return
        middle = (first + stop) // 2
        share = (PROBABILITIES[middle] - below) / (above - below)
        ends = np.concatenate([[low], values, [up]])
        missed = np.abs(np.arange(values.size + 1) - share * values.size)
        with np.errstate(divide="ignore"):
            weights = (
                np.log(np.diff(ends)) - rate / (2 * max(share, 1 - share)) * missed
            )
        place = int((weights + rng.gumbel(size=weights.size)).argmax())
        cut = found[middle] = rng.uniform(ends[place], ends[place + 1])
        halve(values[:place], low, cut, first, middle, below, PROBABILITIES[middle])
        halve(values[place:], cut, up, middle + 1, stop, PROBABILITIES[middle], above)

    spread = np.sort(np.clip(column, 0, high) + rng.uniform(0, step, column.size))
    halve(spread, 0.0, high + step, 0, K, 0.0, 1.0)
    return np.floor(found / step) * step


def by_histogram(column: np.ndarray, high: float) -> np.ndarray:
    """Return quantiles of the noisy tree of a histogram."""
    cells = Interval(0, high, bins=STEPS)
    histogram = DPHistogram(SMALL, domain=cells, method="hierarchical").fit(
        np.clip(column, 0, high).reshape(-1, 1)
    )
    sums = np.maximum.accumulate(np.cumsum(histogram.counts_))
    return np.minimum(np.searchsorted(sums, PROBABILITIES * sums[-1]), STEPS - 1) * (
        high / STEPS
    )


def together(column: np.ndarray, high: float) -> np.ndarray:
    """Return what `DPQuantileTransformer` and `DPKBinsDiscretizer` release."""
    released = DPQuantileTransformer(
        SMALL, n_quantiles=K + 2, bounds=(0, high), candidates=STEPS
    )
    return released.fit(column.reshape(-1, 1)).quantiles_[1:-1, 0]


def rank_error(column: np.ndarray, high: float, found: np.ndarray) -> float:
    """Return the mean number of rows by which numbers fail to be the quantiles."""
    # A millionth of a step is what decimal fractions differ by as floats.
    values, little = np.sort(np.clip(column, 0, high)), high / STEPS * 1e-6
    below = np.searchsorted(values, found - little)
    up_to = np.searchsorted(values, found + little, side="right")
    wanted = PROBABILITIES * column.size
    return float(np.maximum(0, np.maximum(below - wanted, wanted - up_to)).mean())


def quantiles(n: int) -> list[list[str]]:
    rows = []
    for name, (column, high) in quantile_columns(n).items():
        errors = []
        for release in (by_choices, by_halves, by_histogram, together):
            runs = (
                max(QUANTILE_RUNS // 10, 1) if release is by_choices else QUANTILE_RUNS
            )
            errors.append(
                np.mean(
                    [
                        rank_error(column, high, release(column, high))
                        for _ in range(runs)
                    ]
                )
            )
        ratio = errors[3] / max(min(errors[1:3]), 1e-9)
        held = ratio <= WANTED_OF_RANKS or errors[3] < 1
        rows.append(
            [name, *(f"{one:,.1f}" for one in errors), f"{ratio:.2f}", verdict(held)]
        )
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of rows that are too few
    write_results(
        "central_preprocessing",
        "Preprocessing by a trusted curator",
        ["skdp", "numpy", "scikit-learn"],
        f"Root mean square errors of `DPMean` at ε = {EPSILON:g}: of {RUNS} bounds that were found, with the noise "
        f"that follows from each; generated columns have {N:,} rows, and are drawn {DRAWS} times, of "
        "which found / good is the root mean square. "
        f"Good bounds are the least and the greatest value, which are private: nobody could use them. Wide ones are "
        f"{WIDE:,.0f} times as wide. Columns with a star were not looked at when the constants were chosen. "
        f"Then the mean numbers of rows by which {K} quantiles at ε = {SMALL:g} are wrong, over {QUANTILE_RUNS} runs "
        f"(a tenth of them for choices), among {STEPS:,} steps between declared bounds: by an own choice of each, by "
        "ApproximateQuantiles (halving), from the tree of `DPHistogram`, and as `DPQuantileTransformer` and "
        "`DPKBinsDiscretizer` release them; an error below one row is none. Over 100 runs, the standard error of "
        "skdp / best is at most 0.05.",
        {
            "Bounds": (
                (
                    "column",
                    "good bounds",
                    "wide bounds",
                    "found",
                    "found / good",
                    "width / good",
                    f"≤ {WANTED}?",
                ),
                means(),
            ),
            "Found over good, gamma of shape 2": (
                ("rows", "ε = 0.1", "ε = 0.5", "ε = 1", "ε = 4"),
                by_epsilon(),
            ),
            **{
                f"{K} quantiles of {n:,} rows": (
                    (
                        "column",
                        "choices",
                        "halving",
                        "tree",
                        "skdp",
                        "skdp / best",
                        f"≤ {WANTED_OF_RANKS}?",
                    ),
                    quantiles(n),
                )
                for n in (1000, 10_000, 100_000)
            },
        },
    )
