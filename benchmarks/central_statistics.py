"""Errors of means, standard deviations, quantiles, counts and categories in the central model.

Each cell repeats a release, so few seeds are sufficient. Errors of means and standard
deviations are mean absolute errors over columns, divided by the standard deviation of the
column. Errors of quantiles are differences of ranks, in percent of the rows. Errors of
counts are in rows. "rows missed" is the proportion of rows with a value that was not found.

In methods with "100 times wider", the bounds have the same middle and 100 times the width;
without bounds, they are found in the same release; most limits of breast cancer (569 rows, 30
columns) are then guesses, with a warning, and errors of up to a million are counted. Categories
that are not declared are found by `discover_domain`. Peers are OpenDP, and diffprivlib in a
separate environment (see `_peers.py`), which treats the number of rows as public. OpenDP's means
are the documented transformations clamp, sum and count with Laplace noise: each column is shifted by the middle
of its bounds, which halves the sensitivity, and one count serves all columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from _peers import run_peer
from _tables import (
    adult,
    bound_by_powers,
    encode_column,
    flights,
    postcodes,
)
from _tasks import Task, keep_scores, list_seeds
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from skdp import Domain, Interval

Numbers = NDArray[np.float64]
Sample = dict[str, list[Numbers]]  # Releases, one per repeat.

DELTA = 1e-6
N_SLOW_REPEATS = 4
N_PEER_REPEATS = 2
N_ROWS = 20_000
N_QUICK_ROWS = 4_000
PROBABILITIES = np.arange(1, 20) / 20


# Means and quantiles of numeric columns


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Numeric columns with declared bounds."""

    values: Numbers
    bounds: Numbers


def declare(columns: dict[str, tuple[Numbers, float, float]]) -> NumberTable:
    """Stack columns and their bounds, which are integers if all values are whole."""
    columns_of_values, low, high = zip(*columns.values(), strict=True)
    values, bounds = np.column_stack(columns_of_values), np.column_stack([low, high])
    if (values % 1).any():
        bounds = bounds.astype(float)
    return NumberTable(values.clip(*bounds.T), bounds)


def adult_numbers() -> NumberTable:
    """Five numeric columns of Adult."""
    ends = {"age": (0, 100), "education-num": (1, 16), "hours-per-week": (1, 100)}
    ends |= {"capital-gain": (0, 100_000), "capital-loss": (0, 5_000)}
    frame = adult().train
    return declare({c: (frame[c].to_numpy(float), *ends[c]) for c in ends})


def skewed_numbers() -> NumberTable:
    """Eight skewed or heavy-tailed columns with very wide bounds."""
    rng, n = np.random.default_rng(21), N_ROWS
    zeros = np.where(rng.random(n) < 0.9, 0, rng.geometric(0.1, n))
    return declare(
        {
            "exponential": (rng.exponential(3_000, n), 0, 100_000),
            "lognormal": (rng.lognormal(3, 1, n), 0, 10_000),
            "lognormal, heavy": (rng.lognormal(3, 1.5, n), 0, 100_000),
            "gamma": (rng.gamma(2, 1, n), 0, 100),
            "Pareto": (rng.pareto(2.5, n) + 1, 0, 1_000),
            "Student's t": (rng.standard_t(3, n), -1_000, 1_000),
            "Weibull": (rng.weibull(0.7, n), 0, 1_000),
            "90 % zeros": (zeros.astype(float), 0, 1_000),
        }
    )


def compact_numbers(n: int = N_ROWS) -> NumberTable:
    """Six columns without tails, some of them far from 0."""
    rng = np.random.default_rng(22)
    two_modes = np.where(rng.random(n) < 0.5, 20, 80) + rng.normal(0, 2, n)
    return declare(
        {
            "uniform": (rng.uniform(1_000, 1_010, n), 900, 1_100),
            "normal": (rng.normal(50, 5, n), 0, 100),
            "two modes": (two_modes, 0, 100),
            "arcsine": (100 + 10 * rng.beta(0.5, 0.5, n), 0, 200),
            "pressure": (rng.normal(125, 15, n).round(), 0, 300),
            "triangular": (rng.triangular(200, 220, 300, n), 0, 500),
        }
    )


def cancer_numbers() -> NumberTable:
    """Thirty columns of 569 patients, with bounds rounded up to a power of 10."""
    values = load_breast_cancer().data
    return NumberTable(values, bound_by_powers(values))


def number_tables(quick: bool) -> dict[str, Callable[[], NumberTable]]:
    if quick:
        return {"compact": lambda: compact_numbers(N_QUICK_ROWS)}
    return {
        "Adult": adult_numbers,
        "skewed": skewed_numbers,
        "compact": compact_numbers,
        "breast cancer": cancer_numbers,
    }


def release(
    table: NumberTable,
    epsilon: float,
    seed: int,
    *,
    name: str,
    read: Callable[[Any], dict[str, Numbers]],
    n_repeats: int = 10,
    **options: Any,
) -> Sample:
    """Fit an estimator with declared bounds in each repeat, and read its attributes."""
    import skdp

    releases = []
    for one in list_seeds(seed, n_repeats):
        estimator = getattr(skdp, name)(
            epsilon, bounds=table.bounds, random_state=one, **options
        )
        releases.append(read(estimator.fit(table.values)))
    return {key: [found[key] for found in releases] for key in releases[0]}


def release_opendp(table: NumberTable, epsilon: float, seed: int) -> Sample:
    """Release noisy sums, measured from the middle of the bounds, and one noisy count with OpenDP, in integers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    part = epsilon / (len(table.bounds) + 1)
    half = 2**19  # OpenDP sums integers exactly.
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    total = space >> dp.t.then_clamp((-half, half)) >> dp.t.then_sum()
    sums = total >> dp.m.then_laplace(half / part)
    counts = space >> dp.t.then_count() >> dp.m.then_laplace(1 / part)
    row_counts = [
        max(counts([0] * len(table.values)), 1) for _ in range(N_PEER_REPEATS)
    ]
    columns = []
    for values, (low, high) in zip(table.values.T, table.bounds, strict=True):
        middle, step = (low + high) / 2, (high - low) / (2 * half)
        data = ((values - middle) / step).round().astype(int).tolist()
        means = [sums(data) / count for count in row_counts]
        columns.append(middle + step * np.array(means))
    return {"mean": list(np.column_stack(columns))}


def release_diffprivlib(table: NumberTable, epsilon: float, seed: int) -> Sample:
    """Release means and standard deviations with diffprivlib."""
    given = {"values": table.values, "bounds": table.bounds}
    releases = [
        run_peer("diffprivlib", given, release="means", epsilon=epsilon, seed=one)
        for one in list_seeds(seed, N_PEER_REPEATS)
    ]
    return {name: [found[name] for found in releases] for name in releases[0]}


def widen(
    method: Callable[..., Sample],
    factor: int | None,
    table: NumberTable,
    epsilon: float,
    seed: int,
) -> Sample:
    """Release with bounds that are wider by a factor, or without bounds."""
    bounds: Any = None
    if factor is not None:
        centers = table.bounds.mean(axis=1, keepdims=True)
        bounds = centers + factor * (table.bounds - centers)
    return method(NumberTable(table.values, bounds), epsilon, seed)


release_mean = partial(release, name="DPMean", read=lambda m: {"mean": m.mean_})
MEAN_METHODS: dict[str, Callable[..., Sample]] = {
    "DPMean": release_mean,
    "DPMean, 100 times wider": partial(widen, release_mean, 100),
    "DPMean, without bounds": partial(widen, release_mean, None),
    "DPStandardScaler": partial(
        release,
        name="DPStandardScaler",
        read=lambda m: {"mean": m.mean_, "standard deviation": m.scale_},
    ),
    "DPSimpleImputer": partial(
        release, name="DPSimpleImputer", read=lambda m: {"mean": m.statistics_}
    ),
    "OpenDP": release_opendp,
    "OpenDP, 100 times wider": partial(widen, release_opendp, 100),
    "diffprivlib": release_diffprivlib,
}


def score_means(table: NumberTable, sample: Sample) -> dict[str, float]:
    """Mean absolute errors in standard deviations of the columns, each at most a million."""
    scale = table.values.std(axis=0)
    truth = {"mean": table.values.mean(axis=0), "standard deviation": scale}
    return {
        name: np.mean(np.minimum(abs(np.array(values) - truth[name]) / scale, 1e6))
        for name, values in sample.items()
    }


def pad_edges(edges: Any) -> Numbers:
    """Repeat the last edge of a quantile transformer, because equal edges are merged."""
    n_edges = len(PROBABILITIES) + 2
    return np.array([(*e, *[e[-1]] * n_edges)[:n_edges] for e in edges])


RELEASE_SLOWLY = partial(release, n_repeats=N_SLOW_REPEATS)


def release_opendp_medians(
    table: NumberTable, epsilon: float, seed: int, *, n_repeats: int = 1
) -> Sample:
    """Choose the median of each column among evenly spaced candidates with OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    part = epsilon / len(table.bounds)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    space = domain, dp.symmetric_distance()
    medians = []
    for values, (low, high) in zip(table.values.T, table.bounds, strict=True):
        candidates = np.linspace(low, high, 10_001).tolist()
        scores = space >> dp.t.then_quantile_score_candidates(candidates, 0.5)
        choice = dp.binary_search_chain(
            lambda scale, scores=scores: (
                scores
                >> dp.m.then_noisy_max(dp.max_divergence(), scale=scale, negate=True)
            ),
            d_in=1,
            d_out=part,
        )
        given = values.tolist()
        medians.append([candidates[choice(given)] for _ in range(n_repeats)])
    return {"median": list(np.array(medians).T[:, :, np.newaxis])}


QUANTILE_METHODS: dict[str, Callable[..., Sample]] = {
    "DPQuantileTransformer": partial(
        RELEASE_SLOWLY,
        name="DPQuantileTransformer",
        n_quantiles=21,
        read=lambda m: {"5 % steps": np.asarray(m.quantiles_).T},
    ),
    "DPGroupBy, median": partial(
        RELEASE_SLOWLY,
        name="DPGroupBy",
        by=None,
        statistics="median",
        read=lambda m: {"median": np.array([[e[0, 0]] for e in m.estimates_.values()])},
    ),
    "OpenDP, median": release_opendp_medians,
    "DPKBinsDiscretizer": partial(
        RELEASE_SLOWLY,
        name="DPKBinsDiscretizer",
        n_bins=20,
        read=lambda m: {"5 % steps": pad_edges(m.bin_edges_)},
    ),
    "DPRobustScaler": partial(
        RELEASE_SLOWLY,
        name="DPRobustScaler",
        read=lambda m: {
            "median": m.center_[:, np.newaxis],
            "quartile range": m.scale_,
        },
    ),
    "DPMinMaxScaler": partial(
        RELEASE_SLOWLY,
        name="DPMinMaxScaler",
        quantile_range=(1, 99),
        read=lambda m: {"ends": np.column_stack([m.data_min_, m.data_max_])},
    ),
    "DPSimpleImputer, median": partial(
        RELEASE_SLOWLY,
        name="DPSimpleImputer",
        strategy="median",
        read=lambda m: {"median": m.statistics_[:, np.newaxis]},
    ),
}


def score_quantiles(table: NumberTable, sample: Sample) -> dict[str, float]:
    """Mean errors of ranks in percent, and relative errors of quartile ranges."""
    probabilities = {
        "5 % steps": PROBABILITIES,
        "median": np.array([0.5]),
        "ends": np.array([0.01, 0.99]),
    }
    scores = {}
    for name, releases in sample.items():
        if name == "quartile range":
            low, high = np.quantile(table.values, [0.25, 0.75], axis=0)
            has_range = high > low
            ratios = np.array(releases)[:, has_range] / (high - low)[has_range]
            scores[name] = float(np.mean(np.abs(ratios - 1)))
            continue
        errors = [
            rank_errors(values, released, probabilities[name])
            for release in releases
            for values, released in zip(table.values.T, release, strict=True)
        ]
        scores[f"rank error, {name}"] = 100 * float(np.mean(errors))
    return scores


def rank_errors(values: Numbers, released: Numbers, targets: Numbers) -> Numbers:
    """Compute the distance of each target rank from the nearest rank of a released value."""
    ordered = np.sort(values)
    low = np.searchsorted(ordered, released, side="left") / ordered.size
    high = np.searchsorted(ordered, released, side="right") / ordered.size
    targets = targets[:, np.newaxis]
    return np.maximum(np.maximum(low - targets, targets - high), 0).min(axis=1)


# Medians with bounds of three widths

MEDIAN_DRAWS: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "normal": lambda rng, n: rng.normal(3, 10, n),
    "incomes": lambda rng, n: rng.lognormal(10.6, 0.5, n),
    "uniform": lambda rng, n: rng.uniform(0, 50, n),
    "two modes": lambda rng, n: (
        np.where(rng.random(n) < 0.5, 20, 80) + rng.normal(0, 2, n)
    ),
    "Student's t": lambda rng, n: rng.standard_t(3, n),
    "60 % zeros": lambda rng, n: np.where(
        rng.random(n) < 0.6, 0.0, rng.integers(500, 90_000, n)
    ),
}
WIDTHS = {"1e5": 1e5, "1e7": 1e7, "1e9": 1e9}
N_MEDIANS = 200
N_OPENDP_MEDIANS = 20


def median_tables(quick: bool) -> dict[str, Callable[[], NumberTable]]:
    """Return six distributions with 500 rows and with bounds of three widths."""
    names = ["normal"] if quick else list(MEDIAN_DRAWS)
    return {
        f"{name}, {width}": partial(draw_medians, name, WIDTHS[width])
        for name in names
        for width in WIDTHS
    }


def draw_medians(name: str, width: float) -> NumberTable:
    """Draw a column of 500 rows, whose bounds are -width and width."""
    values = MEDIAN_DRAWS[name](np.random.default_rng(24), 500)
    return NumberTable(values[:, np.newaxis], np.array([[-width, width]]))


def release_medians(
    table: NumberTable, epsilon: float, seed: int, *, intervals: bool
) -> Sample:
    """Release the median in each repeat, and its interval."""
    from skdp import DPGroupBy

    sample: Sample = {"median": []}
    if intervals:
        sample["interval"] = []
    for one in list_seeds(seed, N_MEDIANS):
        groups = DPGroupBy(
            epsilon,
            by=None,
            statistics="median",
            bounds=table.bounds,
            intervals=intervals,
            random_state=one,
        ).fit(table.values)
        (estimate,) = groups.estimates_.values()
        sample["median"].append(estimate[:, :1])
        if intervals:
            sample["interval"].append(estimate[0, 2:])
    return sample


def release_diffprivlib_medians(
    table: NumberTable, epsilon: float, seed: int
) -> Sample:
    """Release the median in each repeat with diffprivlib."""
    given = {"values": table.values, "bounds": table.bounds}
    options = {"epsilon": epsilon, "seed": seed, "n_repeats": N_MEDIANS}
    found = run_peer("diffprivlib", given, release="medians", **options)
    return {"median": list(found["median"][:, np.newaxis, np.newaxis])}


def score_medians(table: NumberTable, sample: Sample) -> dict[str, float]:
    """Mean error of the rank of medians, in rows; coverage and width of intervals, in rows."""
    values = np.sort(table.values[:, 0])
    middle = np.array([0.5])
    errors = [rank_errors(values, one[0], middle) for one in sample["median"]]
    scores = {"rank error, rows": values.size * float(np.mean(errors))}
    if "interval" in sample:
        low, high = np.array(sample["interval"]).T
        median = np.quantile(values, 0.5, method="inverted_cdf")
        scores["coverage"] = float(np.mean((low <= median) & (median <= high)))
        n_rows = np.searchsorted(values, high, "right") - np.searchsorted(values, low)
        scores["rows in the interval"] = float(np.mean(n_rows))
    return scores


MEDIAN_METHODS: dict[str, Callable[..., Sample]] = {
    "DPGroupBy": partial(release_medians, intervals=False),
    "DPGroupBy, with interval": partial(release_medians, intervals=True),
    "OpenDP": partial(release_opendp_medians, n_repeats=N_OPENDP_MEDIANS),
    "diffprivlib": release_diffprivlib_medians,
}


# Counts


@dataclass(frozen=True, eq=False)
class CountTable:
    """Rows with an ordered column, two key columns and a numeric column, and their domain."""

    frame: pd.DataFrame
    domain: Domain
    ordered: str
    keys: tuple[str, str]
    number: str
    bounds: tuple[float, float]


def count_tables(quick: bool) -> dict[str, Callable[[], CountTable]]:
    if quick:
        return {"flights": lambda: count_flights(N_QUICK_ROWS)}
    return {"Adult": count_adult, "flights": count_flights}


def count_adult() -> CountTable:
    """Adult: ages, and hours by education and sex."""
    table = adult()
    keys = ("education", "sex")
    ages = Interval(16, 96, bins=80)
    domain = Domain({"age": ages} | {name: table.domain[name] for name in keys})
    return CountTable(table.train, domain, "age", keys, "hours-per-week", (0, 100))


def count_flights(n: int | None = None) -> CountTable:
    """Flights: hours and delays by carrier and month."""
    table = flights()
    frame = table.train[:n].reset_index(drop=True)
    keys = ("carrier", "month")
    domain = Domain({name: table.domain[name] for name in ("airport", "hour", *keys)})
    return CountTable(frame, domain, "hour", keys, "delay", (0, 15))


def release_bins(table: CountTable, epsilon: float, seed: int) -> Sample:
    """Release the counts of an ordered column; ranges are sums of these counts."""
    counts = fit_histograms(table, [table.ordered], epsilon, seed)
    return {"bins": counts, "ranges": counts}


def release_cells(table: CountTable, epsilon: float, seed: int) -> Sample:
    """Release the counts of the combinations of two columns."""
    return {"cells": fit_histograms(table, list(table.keys), epsilon, seed)}


def fit_histograms(
    table: CountTable, names: list[str], epsilon: float, seed: int
) -> list[Numbers]:
    from skdp import DPHistogram

    domain = table.domain.select(names)
    return [
        DPHistogram(epsilon, domain=domain, random_state=one)
        .fit(table.frame[names])
        .counts_
        for one in list_seeds(seed)
    ]


def release_opendp_bins(table: CountTable, epsilon: float, seed: int) -> Sample:
    """Release the counts of an ordered column with OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    codes = encode_column(table.frame[table.ordered], table.domain[table.ordered])
    n_bins = len(table.domain[table.ordered].labels)
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()
    counts = space >> dp.t.then_count_by_categories(
        list(range(n_bins)), null_category=False
    )
    release = counts >> dp.m.then_laplace(1 / epsilon)
    bins = [np.array(release(codes.tolist())) for _ in range(N_PEER_REPEATS)]
    return {"bins": bins, "ranges": bins}


def release_groups(table: CountTable, epsilon: float, seed: int) -> Sample:
    """Release counts and means of groups."""
    from skdp import DPGroupBy

    sample: Sample = {"cells": [], "group means": []}
    names = list(table.keys)
    for one in list_seeds(seed):
        groups = DPGroupBy(
            by=names,
            epsilon=epsilon,
            keys=table.domain.select(names),
            bounds=table.bounds,
            random_state=one,
        ).fit(table.frame[[*names, table.number]])
        sample["cells"].append(groups.estimates_["count"][:, 0])
        sample["group means"].append(groups.estimates_[f"{table.number}_mean"][:, 0])
    return sample


def score_counts(table: CountTable, sample: Sample) -> dict[str, float]:
    """Mean absolute errors of cells, ranges, and means of groups with at least 20 rows.

    A mean that is nan, because the noise exceeds the group, counts as the middle of the bounds.
    """
    cells = count_cells(table, list(table.keys))
    bins = count_cells(table, [table.ordered])
    low, high = np.triu_indices(len(bins) + 1, 1)
    scores = {}
    for name, releases in sample.items():
        if name == "group means":
            sums = count_cells(table, list(table.keys), table.frame[table.number])
            is_large = cells >= 20
            means = sums[is_large] / cells[is_large]
            released = np.array(releases)[:, is_large]
            released[np.isnan(released)] = np.mean(table.bounds)
            errors = released - means
        elif name == "ranges":
            steps = [np.cumsum([0, *(counts - bins)]) for counts in releases]
            errors = np.array([one[high] - one[low] for one in steps])
        else:
            errors = np.array(releases) - (bins if name == "bins" else cells)
        scores[name] = float(np.mean(np.abs(errors)))
    return scores


def count_cells(
    table: CountTable, names: list[str], weights: Any = None
) -> NDArray[np.float64]:
    """Count combinations of values."""
    shape = tuple(len(table.domain[name]) for name in names)
    codes = [encode_column(table.frame[name], table.domain[name]) for name in names]
    cells = np.ravel_multi_index(codes, shape)
    return np.bincount(cells, weights, minlength=int(np.prod(shape)))


# Categories


def category_tables(quick: bool) -> dict[str, Callable[[], pd.DataFrame]]:
    if quick:
        return {"flights": lambda: select_texts(flights().train[:N_QUICK_ROWS])}
    return {
        "Adult": lambda: select_texts(adult().train),
        "flights": lambda: select_texts(flights().train),
        "postcodes": lambda: select_texts(postcodes().train),
    }


def select_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Select the columns of texts."""
    texts = frame.select_dtypes(exclude="number")
    return texts.astype(object).reset_index(drop=True)


def discover_categories(
    table: pd.DataFrame, epsilon: float, seed: int
) -> list[dict[str, set[Any]]]:
    """Release the frequent values of all columns in each repeat."""
    from skdp import discover_domain

    found = []
    for one in list_seeds(seed, 2):
        options = {"epsilon": epsilon, "delta": DELTA, "random_state": one}
        domain = discover_domain(table, **options)
        found.append({name: set(domain[name].values) for name in domain.columns})
    return found


def score_categories(
    table: pd.DataFrame, sample: list[dict[str, set[Any]]]
) -> dict[str, float]:
    """Mean proportion of rows with a value that was not found, over columns and repeats."""
    missed = [
        1 - table[name].isin(list(found.get(name, ()))).mean()
        for found in sample
        for name in table
    ]
    return {"rows missed": float(np.mean(missed))}


# Counts of levels that add up


@dataclass(frozen=True, eq=False)
class LevelTable:
    """A column with groups of its values on higher levels."""

    values: pd.Series
    declared: list[Any]
    levels: dict[str, dict[Any, Any]]

    def by_level(self) -> dict[str, pd.Series]:
        """Return the value or group of each row on each level."""
        groups = {"values": self.values}
        for name, mapping in self.levels.items():
            groups[name] = groups[list(groups)[-1]].map(mapping)
        return groups


ASIA = "Cambodia China Hong India Iran Japan Laos Philippines Taiwan Thailand Vietnam"
EUROPE = (
    "England France Germany Greece Holand-Netherlands Hungary Ireland Italy Poland "
    "Portugal Scotland Yugoslavia"
)


def age_levels() -> LevelTable:
    """Ages in years, in 5 and in 20 years."""
    ages = adult().train["age"].astype(int).clip(17, 90)
    declared = list(range(17, 91))
    fives = {age: 5 * (age // 5) for age in declared}
    twenties = {age: 20 * (age // 20) for age in fives.values()}
    return LevelTable(ages, declared, {"5 years": fives, "20 years": twenties})


def country_levels() -> LevelTable:
    """Countries of birth, and continents."""
    countries = adult().train["native-country"].astype(str)
    declared = sorted(countries.unique())
    continents = dict.fromkeys(declared, "America and other")
    continents |= dict.fromkeys(ASIA.split(), "Asia")
    continents |= dict.fromkeys(EUROPE.split(), "Europe")
    return LevelTable(countries, declared, {"continent": continents})


def postcode_levels() -> LevelTable:
    """Postcodes, cities and states of a simulated country."""
    rows = postcodes().train[["postcode", "city", "state"]].astype(str)
    cities = rows.drop_duplicates("postcode").set_index("postcode")["city"].to_dict()
    states = rows.drop_duplicates("city").set_index("city")["state"].to_dict()
    return LevelTable(rows["postcode"], list(cities), {"city": cities, "state": states})


def level_tables(quick: bool) -> dict[str, Callable[[], LevelTable]]:
    if quick:
        return {"countries": country_levels}
    return {
        "ages": age_levels,
        "countries": country_levels,
        "postcodes": postcode_levels,
    }


def release_levels(
    table: LevelTable, epsilon: float, seed: int, method: str
) -> dict[str, float]:
    """Return the root mean squared error of the counts of each level, in rows."""
    from skdp import DPHistogram

    column = table.values.to_frame("value")
    groups = table.by_level()
    squares: dict[str, list[float]] = {name: [] for name in groups}
    for one in list_seeds(seed):
        options = {"random_state": one, "domain": {"value": table.declared}}
        if method == "independent":
            for name, values in groups.items():
                domain = {name: list(dict.fromkeys(values))}
                part = epsilon / len(groups)
                histogram = DPHistogram(part, domain=domain, random_state=one)
                found = histogram.fit(values.to_frame(name)).to_frame()["count"]
                squares[name].append(square_errors(found, values))
            continue
        fitted = DPHistogram(epsilon, levels=table.levels, method=method, **options)
        fitted.fit(column)
        for name, values in groups.items():
            level = None if name == "values" else name
            found = fitted.to_frame(level)["count"]
            squares[name].append(square_errors(found, values))
    return {f"{name}, rows": float(np.sqrt(np.mean(squares[name]))) for name in groups}


def square_errors(found: pd.Series, values: pd.Series) -> float:
    """Return the mean squared error of the counts of values."""
    counts = values.value_counts().reindex(found.index).fillna(0)
    return float(np.mean((found - counts) ** 2))


COUNT_METHODS = {
    "DPHistogram, one column": release_bins,
    "DPHistogram, two columns": release_cells,
    "DPGroupBy": release_groups,
    "OpenDP, one column": release_opendp_bins,
}
TASKS = {
    "means": Task(number_tables, MEAN_METHODS, score_means, (1.0, 0.1, 4.0), 8),
    "medians": Task(
        median_tables, MEDIAN_METHODS, score_medians, epsilons=(1.0,), n_seeds=2
    ),
    "quantiles": Task(
        number_tables, QUANTILE_METHODS, score_quantiles, (1.0, 0.1, 4.0), 6
    ),
    "counts": Task(count_tables, COUNT_METHODS, score_counts, (1.0, 0.1, 4.0), 10),
    "categories": Task(
        category_tables,
        {"private categories": discover_categories},
        score_categories,
        epsilons=(1.0, 0.1, 4.0),
        n_seeds=6,
    ),
    "levels": Task(
        level_tables,
        {
            "DPHistogram, levels": partial(release_levels, method="hierarchical"),
            "DPHistogram, values added up": partial(release_levels, method="flat"),
            "DPHistogram, independent levels": partial(
                release_levels, method="independent"
            ),
        },
        keep_scores,
        epsilons=(1.0,),
        n_seeds=3,
    ),
}
