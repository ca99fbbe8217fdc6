"""How much private components explain beside diffprivlib's, and which columns private choices find.

Run ``make bench``, in the environment of diffprivlib, which is left out where it is missing. All releases draw secure
coins. Argument: the number of fits.
"""

from __future__ import annotations

import math
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
from _timing import verdict, write_results
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_classification,
)
from sklearn.feature_selection import f_classif

from skdp import DPPCA, DPSelectKBest
from skdp.datasets import load_adult
from skdp.privacy import Mu

FITS = int(sys.argv[1]) if sys.argv[1:] else 10
EPSILONS, DELTA = (0.1, 0.5, 1.0, 4.0), 1e-6
PEER_FITS, PEER_TRIES, PATIENCE = 3, 15, 2
"""Fits of diffprivlib, the most tries for them, and the seconds of a try: its sampler may reject nearly all draws."""

ADULT = {
    "age": (0, 100),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (0, 100),
}

Wide = tuple[np.ndarray, np.ndarray, int]
"""A table, its bounds, and the number of components."""
Pca = Callable[[np.ndarray, np.ndarray, int, float], np.ndarray]


def rounded_bounds(X: np.ndarray) -> np.ndarray:
    """Return the least and the greatest value of each column, rounded outward to one digit of their difference."""
    low, high = X.min(axis=0), X.max(axis=0)
    unit = 10.0 ** np.floor(np.log10(high - low))
    return np.column_stack([np.floor(low / unit) * unit, np.ceil(high / unit) * unit])


def wide_tables() -> dict[str, Wide]:
    rng = np.random.default_rng(1)
    patients, wines, diabetes = (
        load_breast_cancer().data,
        load_wine().data,
        load_diabetes(scaled=False).data,
    )
    adult = load_adult().frame[list(ADULT)].to_numpy(float)
    low, high = np.array(list(ADULT.values())).T
    factors = rng.normal(size=(20_000, 5)) @ (
        rng.normal(size=(5, 50)) * [[3], [2.5], [2], [1.5], [1]]
    )
    factors = np.clip((factors + rng.normal(size=factors.shape)) / 4, -5, 5)
    skewed = np.exp(
        rng.normal(size=(5_000, 3)) @ rng.normal(size=(3, 20)) / 2
        + rng.normal(size=(5_000, 20)) / 4
    )
    skewed = np.minimum(skewed, 30) * rng.choice([0.1, 1, 3], 20)
    skewed_bounds = np.column_stack(
        [np.zeros(20), 10 ** np.ceil(np.log10(skewed.max(axis=0)))]
    )
    heavy = (
        rng.standard_t(4, (10_000, 30))
        * 0.8 ** np.arange(30)
        @ np.linalg.qr(rng.normal(size=(30, 30)))[0]
    )
    return {
        "digits, 1,797 rows of 64": (
            load_digits().data,
            np.tile([0.0, 16.0], (64, 1)),
            5,
        ),
        "breast cancer, 569 rows of 30": (patients, rounded_bounds(patients), 2),
        "wine, 178 rows of 13": (wines, rounded_bounds(wines), 2),
        "Adult, 32,561 rows of 5 numbers": (
            (adult - low) / (high - low),
            np.tile([0.0, 1.0], (5, 1)),
            3,
        ),
        "factors, 20,000 rows of 50": (factors, np.tile([-5.0, 5.0], (50, 1)), 5),
        "skewed, 5,000 rows of 20": (skewed, skewed_bounds, 3),
        "diabetes, 442 rows of 10*": (diabetes, rounded_bounds(diabetes), 2),
        "heavy tails, 10,000 rows of 30*": (heavy, np.tile([-20.0, 20.0], (30, 1)), 5),
    }


def explained(X: np.ndarray, components: np.ndarray) -> float:
    """Return the variance of a table that components explain, over what the best ones do."""
    covariance = np.cov(X, rowvar=False)
    best = np.linalg.eigvalsh(covariance)[-len(components) :].sum()
    return float(np.trace(components @ covariance @ components.T) / best)


def ours(X: np.ndarray, bounds: np.ndarray, k: int, epsilon: float) -> np.ndarray:
    return DPPCA(k, epsilon=epsilon, delta=DELTA, bounds=bounds).fit(X).components_


def ours_pure(X: np.ndarray, bounds: np.ndarray, k: int, epsilon: float) -> np.ndarray:
    return DPPCA(k, epsilon=epsilon, bounds=bounds).fit(X).components_


def in_diffprivlib(
    X: np.ndarray, bounds: np.ndarray, k: int, epsilon: float
) -> np.ndarray:
    from diffprivlib.models import PCA

    norm = np.linalg.norm(
        X - X.mean(axis=0), axis=1
    ).max()  # read from the data, in the peer's favour
    return (
        PCA(k, epsilon=epsilon, data_norm=norm, bounds=(bounds[:, 0], bounds[:, 1]))
        .fit(X)
        .components_
    )


class TooSlow(Exception):
    """A fit of a peer has taken too long."""


def stop(*_: object) -> None:
    raise TooSlow


PCAS: dict[str, tuple[Pca, str]] = {
    "**skdp**: DPPCA": (ours, "(ε, δ), add/remove, n private"),
    "**skdp**: DPPCA, pure": (ours_pure, "ε, add/remove, n private"),
    "diffprivlib: PCA": (in_diffprivlib, "ε, n public"),
}


def components() -> Iterator[list[str]]:
    """Return the explained variance of each table."""
    signal.signal(signal.SIGALRM, stop)
    for name, (X, bounds, k) in wide_tables().items():
        found = {
            model: [shares_of(fit, X, bounds, k, epsilon) for epsilon in EPSILONS]
            for model, (fit, _) in PCAS.items()
        }
        peers = found["diffprivlib: PCA"]
        for model, (_, promise) in PCAS.items():
            pairs = zip(found[model], peers, strict=True)
            least = [np.mean(one) >= np.mean(other) for one, other in pairs if other]
            met = "–" if found[model] is peers or not least else verdict(all(least))
            yield [name, str(k), model, promise, *map(cell, found[model]), met]


def shares_of(
    fit: Pca, X: np.ndarray, bounds: np.ndarray, k: int, epsilon: float
) -> list[float]:
    """Return the explained variance of fits, of a peer those that come to an end."""
    if fit is not in_diffprivlib:
        return [explained(X, fit(X, bounds, k, epsilon)) for _ in range(FITS)]
    shares: list[float] = []
    for _ in range(PEER_TRIES):
        if len(shares) < PEER_FITS:
            signal.alarm(PATIENCE)
            with suppress(TooSlow, ImportError):
                shares.append(explained(X, fit(X, bounds, k, epsilon)))
            signal.alarm(0)
    return shares


def cell(shares: list[float]) -> str:
    if not shares:
        return "–"
    missing = (
        f" ({len(shares)} of {PEER_TRIES} tries)" if len(shares) < PEER_FITS else ""
    )
    return f"{np.mean(shares):.3f} ± {np.std(shares):.3f}{missing}"


# How often the right columns are found


def targets() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Return tables with their bounds, classes, and the number of columns to find."""
    rng = np.random.default_rng(0)
    patients, wines, digits = load_breast_cancer(), load_wine(), load_digits()
    clusters, labels = make_classification(
        5_000, 50, n_informative=10, n_redundant=5, random_state=1
    )
    y = rng.integers(0, 2, 20_000)
    shifts = np.append(np.linspace(0.3, 0.03, 20), np.zeros(80))
    units = 10 ** rng.uniform(-2, 2, 100)
    shifted = (rng.normal(size=(20_000, 100)) + np.outer(y, shifts)).clip(-6, 6) * units
    effects = np.append(np.linspace(1, 0.02, 15), np.zeros(25))
    skewed = np.exp(0.7 * rng.normal(size=(20_000, 40)) + np.outer(y, effects)).clip(
        0, 20
    )
    loose = np.outer(units * np.where(np.arange(100) % 2, 6, 30), [-1, 1])
    return {
        "breast cancer, 10 of 30": (
            patients.data,
            rounded_bounds(patients.data),
            patients.target,
            10,
        ),
        "clusters, 10 of 50": (
            clusters.clip(-10, 10),
            np.tile([-10, 10], (50, 1)),
            labels,
            10,
        ),
        "shifted, 10 of 100": (shifted, np.outer(units, [-6, 6]), y, 10),
        "skewed, 8 of 40": (skewed, np.tile([0, 20], (40, 1)), y, 8),
        "shifted, half of the bounds 5 times too wide*": (shifted, loose, y, 10),
        "digits, 10 classes, 20 of 64*": (
            digits.data,
            np.tile([0, 16], (64, 1)),
            digits.target,
            20,
        ),
        "wine, 3 classes, 5 of 13*": (
            wines.data,
            rounded_bounds(wines.data),
            wines.target,
            5,
        ),
    }


def by_choices(
    X: np.ndarray, bounds: np.ndarray, y: np.ndarray, k: int, epsilon: float
) -> np.ndarray:
    classes = range(int(y.max()) + 1)
    return (
        DPSelectKBest(k, epsilon=epsilon, delta=DELTA, bounds=bounds, classes=classes)
        .fit(X, y)
        .ranking_
    )


def by_pure_choices(
    X: np.ndarray, bounds: np.ndarray, y: np.ndarray, k: int, epsilon: float
) -> np.ndarray:
    return (
        DPSelectKBest(
            k, epsilon=epsilon, bounds=bounds, classes=range(int(y.max()) + 1)
        )
        .fit(X, y)
        .ranking_
    )


def by_noisy_sums(
    X: np.ndarray, bounds: np.ndarray, y: np.ndarray, k: int, epsilon: float
) -> np.ndarray:
    """Choose columns by F statistics of one noisy table of class sums, for comparison only: its noise is of floats."""
    draw = np.random.default_rng().normal
    places = 2 * (X - bounds[:, 0]) / np.ptp(bounds, axis=1) - 1
    error = math.sqrt(2 * X.shape[1] + 1) / Mu.of(epsilon, DELTA).mu
    indicators = np.eye(int(y.max()) + 1)[y]
    counts = np.maximum(
        indicators.sum(axis=0) + draw(0, error, indicators.shape[1]), error
    )
    sums = indicators.T @ places
    means = (sums + draw(0, error, sums.shape)) / counts[:, np.newaxis]
    squares = (places**2).sum(axis=0) + draw(0, error, X.shape[1])
    total = counts @ means / counts.sum()
    between = (
        counts @ (means - total) ** 2
        - error**2 * ((1 - counts / counts.sum()) / counts).sum()
    )
    within = np.maximum(squares - counts @ means**2, counts.sum() * 1e-4)
    return np.argsort(-between / within)[:k]


SELECTIONS = {
    "DPSelectKBest": by_choices,
    "DPSelectKBest, pure": by_pure_choices,
    "a noisy table of class sums": by_noisy_sums,
}


def selections() -> Iterator[list[str]]:
    for name, (X, bounds, y, k) in targets().items():
        best = set(np.argsort(-f_classif(X, y)[0])[:k].tolist())
        for way, choose in SELECTIONS.items():
            shares = [
                np.mean(
                    [
                        len(best & set(choose(X, bounds, y, k, epsilon).tolist())) / k
                        for _ in range(2 * FITS)
                    ]
                )
                for epsilon in EPSILONS
            ]
            yield [name, way, *(f"{share:.2f}" for share in shares)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of rows that are too few
    write_results(
        "central_components",
        "Components and columns by a trusted curator",
        ["skdp", "numpy", "scikit-learn", "diffprivlib"],
        "Tables with a star were not looked at when the constants were chosen. *Components*: the variance that they "
        f"explain, over what the best ones do; means and standard deviations over {FITS} fits of skdp, δ = {DELTA:g} "
        f"or pure, and {PEER_FITS} of diffprivlib, which is given the largest norm of a row, and {PEER_TRIES} tries of "
        f"{PATIENCE} s: its sampler often rejects all draws. *Columns found*: the share of those of scikit-learn's "
        f"`SelectKBest(f_classif)`, over {2 * FITS} fits; δ = {DELTA:g} or pure.",
        {
            "Components": (
                (
                    "table",
                    "components",
                    "model",
                    "promise",
                    *(f"ε = {epsilon:g}" for epsilon in EPSILONS),
                    "≥ diffprivlib?",
                ),
                list(components()),
            ),
            "Columns found": (
                ("table", "columns by", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)),
                list(selections()),
            ),
        },
    )
