"""What bounds that are found cost a private mean, beside good bounds and bounds that are far too wide.

Run ``make bench``. All releases draw secure coins. Argument: the number of runs.
"""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np
from _timing import verdict, write_results
from sklearn.datasets import load_breast_cancer

from skdp import DPMean
from skdp.datasets import load_adult

RUNS = int(sys.argv[1]) if sys.argv[1:] else 500
EPSILON, WIDE, WANTED = 1.0, 1e4, 1.5
N = 50_000


def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(22)
    adult, patients = load_adult().frame, load_breast_cancer(as_frame=True).data
    return {
        "log-normal (skewed)": rng.lognormal(0, 1, N),
        "exponential (skewed)": rng.exponential(3000, N),
        "gamma, shape 2 (skewed)*": rng.gamma(2, 1, N),
        "normal (centred)": rng.normal(0, 1, N),
        "Laplace (centred)*": rng.laplace(0, 20, N),
        "Student's t, 3 (heavy tails)": rng.standard_t(3, N),
        "Pareto, 2.5 (heavy tail)": rng.pareto(2.5, N) + 1,
        "log-normal, 1.5 (heavy tail)*": rng.lognormal(3, 1.5, N),
        "uniform on 0 to 100": rng.uniform(0, 100, N),
        "normal around 50, deviation 5*": rng.normal(50, 5, N),
        "Adult: hours-per-week": adult["hours-per-week"].to_numpy(float),
        "Adult: age": adult["age"].to_numpy(float),
        "Adult: capital-gain": adult["capital-gain"].to_numpy(float),
        "breast cancer: mean area, 569 rows": patients["mean area"].to_numpy(),
        "breast cancer: mean perimeter, 569 rows*": patients["mean perimeter"].to_numpy(),
    }


def error(column: np.ndarray, bounds: object) -> tuple[float, float]:
    """Return the root mean square error, and the median width of the bounds."""
    fits = [DPMean(EPSILON, bounds=bounds).fit(column.reshape(-1, 1)) for _ in range(RUNS)]
    errors = [fit.mean_[0] - column.mean() for fit in fits]
    return math.sqrt(np.mean(np.square(errors))), float(np.median([np.ptp(fit.bounds_) for fit in fits]))


def means() -> list[list[str]]:
    rows = []
    for name, column in columns().items():
        low, high = column.min(), column.max()
        good, _ = error(column, (low, high))
        middle, half = (low + high) / 2, WIDE * (high - low) / 2
        wide, _ = error(column, (middle - half, middle + half))
        found, width = error(column, "private")
        cells = [f"{one:.3g}" for one in (good, wide, found)]
        share = f"{width / (high - low):.2f}"
        rows.append([name, *cells, f"{found / good:.2f}", share, verdict(found / good <= WANTED)])
    return rows


def by_epsilon() -> list[list[str]]:
    """Return the ratio of both errors of a skewed column of some sizes."""
    rows = []
    for n in (1000, 10_000, 100_000):
        column = np.random.default_rng(n).gamma(2, 1, n).reshape(-1, 1)
        cells = []
        for epsilon in (0.1, 0.5, 1.0, 4.0):
            runs = {
                bounds: [DPMean(epsilon, bounds=bounds).fit(column) for _ in range(RUNS // 2)]
                for bounds in ("private", (column.min(), column.max()))
            }
            errors = [
                math.sqrt(np.mean([(fit.mean_[0] - column.mean()) ** 2 for fit in fits])) for fits in runs.values()
            ]
            hidden = np.mean([fit.bounds_[0].tolist() == [-1, 1] for fit in runs["private"]])
            cells.append(f"{errors[0] / errors[1]:.2f}" if hidden == 0 else f"hidden in {hidden:.0%}")
        rows.append([f"{n:,}", *cells])
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of rows that are too few
    write_results(
        "central_preprocessing",
        "Preprocessing by a trusted curator",
        ["skdp", "numpy", "scikit-learn"],
        f"Root mean square errors of `DPMean` over {RUNS} runs at ε = {EPSILON:g}; generated columns have {N:,} rows. "
        f"Good bounds are the least and the greatest value, which are private: nobody could use them. Wide ones are "
        f"{WIDE:,.0f} times as wide. Columns with a star were not looked at when the constants were chosen.",
        {
            "Bounds": (
                ("column", "good bounds", "wide bounds", "found", "found / good", "width / good", f"≤ {WANTED}?"),
                means(),
            ),
            "Found over good, gamma of shape 2": (("rows", "ε = 0.1", "ε = 0.5", "ε = 1", "ε = 4"), by_epsilon()),
        },
    )
