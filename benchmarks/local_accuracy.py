"""Errors of estimates in the local model: counts, pairs, numbers, sets and words.

Errors are mean absolute errors of proportions, multiplied by the square root of the number of records, so that tables
of different sizes can be compared. `coverage` is the proportion of 95 % intervals that contain the true value of the
table. There are no peers, because pure-ldp has the same oracles with the same errors.
"""

from __future__ import annotations

import string
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from _tasks import Task, measure_coverage

from skdp import Domain
from skdp.datasets import load_adult

NAMES = ["workclass", "education", "marital-status", "relationship", "race", "sex"]
SIZES = {"small": (2, 3, 4, 5, 3), "mixed": (2, 5, 16, 60), "wide": (200, 20)}
N_ROWS = 5_000


# Counts of values, and of pairs of values.


def load_categories(name: str, n_rows: int) -> tuple[pd.DataFrame, Domain]:
    """Return a table of categories and its domain, with skewed columns that depend on the previous column."""
    if name == "adult":
        adult = load_adult()
        rows = adult.data[NAMES].dropna().astype(str)
        rows = rows.sample(n_rows, random_state=0, ignore_index=True)
        return rows, adult.domain.select(NAMES)
    rng = np.random.default_rng(0)
    columns, domain = {}, {}
    share = np.zeros(n_rows)
    for place, size in enumerate(SIZES[name]):
        share = np.clip(rng.beta(1, 3, n_rows) + 0.3 * share, 0, 0.999)
        columns[f"c{place}"] = [f"v{code}" for code in (share * size).astype(int)]
        domain[f"c{place}"] = [f"v{code}" for code in range(size)]
    return pd.DataFrame(columns), Domain(domain)


def count_tables(quick: bool) -> dict[str, Any]:
    """Return tables of categories."""
    return {
        name: partial(load_categories, name, 1_000 if quick else N_ROWS)
        for name in ("mixed", "adult", "small", "wide")
    }


def pair_tables(quick: bool) -> dict[str, Any]:
    """Return tables of few categories."""
    tables = count_tables(quick)
    return {name: tables[name] for name in ("small", "adult")}


def estimate_with(
    name: str, options: dict[str, Any], table: Any, epsilon: float, seed: int
) -> Any:
    """Return the estimated counts of all values."""
    import skdp

    rows, domain = table
    encoder = getattr(skdp, name)(
        epsilon, categories=domain, random_state=seed, **options
    )
    return encoder.estimate_counts(encoder.fit_transform(rows))


SAMPLE, SYMMETRIC = {"strategy": "sample"}, {"variant": "symmetric"}
COUNT_METHODS = {
    method: partial(estimate_with, name, options)
    for method, name, options in (
        ("randomized response", "RandomizedResponseEncoder", {}),
        ("randomized response, sample", "RandomizedResponseEncoder", SAMPLE),
        ("unary, optimized", "UnaryEncodingTransformer", {}),
        ("unary, symmetric", "UnaryEncodingTransformer", SYMMETRIC),
        ("subset selection", "SubsetSelectionEncoder", {}),
        ("local hashing", "LocalHashingEncoder", {}),
        ("best oracle", "FrequencyOracleEncoder", {}),
        ("best oracle, sample", "FrequencyOracleEncoder", SAMPLE),
        ("table encoder", "LocalTableEncoder", {}),
    )
}


def score_estimates(
    truth: Any, estimates: pd.DataFrame, n_rows: int
) -> dict[str, float]:
    """Return the mean absolute error and the coverage of intervals."""
    scores = {"error": (estimates["count"] - truth).abs().mean() / n_rows**0.5}
    if "lower" in estimates:
        scores["coverage"] = measure_coverage(estimates, truth)
    return scores


def score_counts(table: Any, estimates: pd.DataFrame) -> dict[str, float]:
    """Compute errors and coverage of estimated counts of values."""
    rows, _ = table
    truth = pd.concat({name: rows[name].value_counts() for name in rows})
    truth = truth.reindex(estimates.index, fill_value=0)
    return score_estimates(truth, estimates, len(rows))


def estimate_pairs(
    name: str, options: dict[str, Any], table: Any, epsilon: float, seed: int
) -> Any:
    """Return the estimated counts of pairs of the first four columns."""
    import skdp

    rows, domain = table
    names = list(rows)[-4:]
    encoder = getattr(skdp, name)(
        epsilon, categories=domain.select(names), random_state=seed, **options
    )
    reports = encoder.fit_transform(rows[names])
    if options.get("strategy") == "joint":
        joint = encoder.estimate_counts(reports)["count"]
        joint.index.names = names
        return {
            pair: joint.groupby(level=list(pair)).sum()
            for pair in combinations(names, 2)
        }
    return {
        pair: encoder.estimate_joint_counts(reports, columns=list(pair))["count"]
        for pair in combinations(names, 2)
    }


def score_pairs(table: Any, estimates: dict[Any, pd.Series]) -> dict[str, float]:
    """Return the mean absolute error of all pairs of values."""
    rows, _ = table
    errors = []
    for pair, counts in estimates.items():
        truth = rows[list(pair)].value_counts().reindex(counts.index, fill_value=0)
        errors.append((counts - truth).abs().to_numpy())
    return {"error": np.concatenate(errors).mean() / len(rows) ** 0.5}


# Numbers.


def load_numbers(name: str, n_rows: int) -> pd.DataFrame:
    """Return numbers between 0 and 100."""
    rng = np.random.default_rng(0)
    if name == "adult":
        rows = (
            load_adult().data[["age", "hours-per-week", "education-num"]].astype(float)
        )
        return rows.sample(n_rows, random_state=0, ignore_index=True)
    columns = {
        f"skewed {place}": 100 * rng.beta(1.2, 2 + place, n_rows) for place in range(4)
    }
    for place in range(4):
        spikes = rng.choice(rng.uniform(0, 100, 4), n_rows)
        columns[f"spiky {place}"] = np.where(
            rng.random(n_rows) < 0.4, 100 * rng.beta(2, 3, n_rows), spikes
        )
    return pd.DataFrame(columns)


def number_tables(quick: bool) -> dict[str, Any]:
    """Return tables of numbers."""
    return {
        name: partial(load_numbers, name, 1_000 if quick else N_ROWS)
        for name in ("adult", "generated")
    }


def perturb(
    mechanism: str,
    options: dict[str, Any],
    table: pd.DataFrame,
    epsilon: float,
    seed: int,
) -> Any:
    """Return a fitted perturber and its reports."""
    from skdp import NumericPerturber

    bounds = dict.fromkeys(table, (0, 100))
    perturber = NumericPerturber(
        epsilon, bounds=bounds, mechanism=mechanism, random_state=seed, **options
    )
    return perturber, perturber.fit_transform(table)


def estimate_means(mechanism: str, table: Any, epsilon: float, seed: int) -> Any:
    """Return the estimated means."""
    perturber, reports = perturb(mechanism, {}, table, epsilon, seed)
    return perturber.estimate_mean(reports)


def estimate_sampled_means(table: Any, epsilon: float, seed: int) -> Any:
    """Return the means, estimated from reports of some columns of each record."""
    from skdp import LocalTableEncoder

    bounds = dict.fromkeys(table, (0, 100))
    encoder = LocalTableEncoder(epsilon, bounds=bounds, random_state=seed)
    return encoder.estimate_mean(encoder.fit_transform(table))


def score_means(table: pd.DataFrame, estimates: pd.DataFrame) -> dict[str, float]:
    """Return the mean absolute error, relative to the range, and the coverage."""
    truth = table.mean()
    error = (estimates["mean"] - truth).abs().mean() / 100 * len(table) ** 0.5
    return {"error": error, "coverage": measure_coverage(estimates, truth)}


def two_column_tables(quick: bool) -> dict[str, Any]:
    """Return the first and the last column of each table of numbers."""
    return {
        name: lambda load=load: load().iloc[:, [0, -1]]
        for name, load in number_tables(quick).items()
    }


def estimate_distribution(table: pd.DataFrame, epsilon: float, seed: int) -> Any:
    """Return the distributions of numbers over 16 bins, by the square wave."""
    perturber, reports = perturb(
        "square_wave", {"grid_size": 128}, table, epsilon, seed
    )
    return perturber.estimate_distribution(reports, n_bins=16)


def estimate_bins(table: pd.DataFrame, epsilon: float, seed: int) -> Any:
    """Return the distributions of numbers over 16 bins, by an encoder of bins."""
    from skdp import FrequencyOracleEncoder, Interval

    domain = Domain({name: Interval(0, 100, bins=16) for name in table})
    encoder = FrequencyOracleEncoder(epsilon, categories=domain, random_state=seed)
    return encoder.estimate_frequencies(
        encoder.fit_transform(table), postprocess="simplex"
    )


def score_distributions(
    table: pd.DataFrame, estimates: pd.DataFrame
) -> dict[str, float]:
    """Return the mean Wasserstein distance in percent of the range."""
    errors = []
    for name in table:
        shares = estimates.xs(name, level="column")["frequency"].to_numpy()
        true = np.histogram(table[name], np.linspace(0, 100, len(shares) + 1))[0] / len(
            table
        )
        errors.append(np.abs(np.cumsum(shares - true)).mean())
    return {"wasserstein_percent": 100 * float(np.mean(errors))}


# Sets and words.


def load_sets(k: int, size: int, n_rows: int) -> tuple[pd.DataFrame, int, int]:
    """Return lists of at most `size` of `k` values."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, k + 1)
    sizes = rng.integers(0, size + 1, n_rows)
    lists = [
        rng.choice(k, n, replace=False, p=shares / shares.sum()).tolist() for n in sizes
    ]
    return pd.DataFrame({"list": pd.Series(lists, dtype=object)}), k, size


def set_tables(quick: bool) -> dict[str, Any]:
    """Return tables of lists."""
    n_rows = 500 if quick else 5_000
    return {
        f"{k} values, {size}": partial(load_sets, k, size, n_rows)
        for k, size in ((10, 3), (40, 5), (100, 4))
    }


def estimate_sets(table: Any, epsilon: float, seed: int) -> Any:
    """Return the estimated counts of the values in lists."""
    from skdp import SetValuedEncoder

    rows, k, size = table
    encoder = SetValuedEncoder(
        epsilon, categories={"list": range(k)}, max_size=size, random_state=seed
    )
    return encoder.estimate_counts(encoder.fit_transform(rows))


def score_sets(table: Any, estimates: pd.DataFrame) -> dict[str, float]:
    """Compute errors and coverage of estimated counts of values."""
    rows, _, _ = table
    truth = rows["list"].explode().value_counts().reindex(estimates.index, fill_value=0)
    return score_estimates(truth, estimates, len(rows))


def load_words(
    exponent: float, n_words: int, n_rows: int
) -> tuple[pd.Series, list[str]]:
    """Return words of a Zipf distribution, and the vocabulary, the most frequent first."""
    rng = np.random.default_rng(0)
    letters = np.array([*string.ascii_lowercase])
    words = dict.fromkeys(
        "".join(rng.choice(letters, size)) for size in rng.integers(4, 9, n_words)
    )
    shares = 1 / np.arange(1, len(words) + 1) ** exponent
    return pd.Series(
        rng.choice([*words], n_rows, p=shares / shares.sum()), name="word"
    ), [*words]


def word_tables(n_words: int, n_rows: int, quick: bool) -> dict[str, Any]:
    """Return columns of words."""
    return {
        f"Zipf {exponent}": partial(
            load_words, exponent, n_words, 2_000 if quick else n_rows
        )
        for exponent in (1.5, 1.0)
    }


def decode_rappor(table: Any, epsilon: float, seed: int) -> Any:
    """Return the decoded counts of the vocabulary."""
    from skdp import RapporEncoder

    words, vocabulary = table
    encoder = RapporEncoder(epsilon, random_state=seed)
    return encoder.decode(encoder.fit_transform(words.to_frame()), vocabulary)


def score_rappor(table: Any, decoded: pd.DataFrame) -> dict[str, float]:
    """Return the mean absolute error of the counts of the vocabulary."""
    words, vocabulary = table
    truth = words.value_counts().reindex(vocabulary, fill_value=0)
    error = (decoded["count"].reindex(vocabulary, fill_value=0) - truth).abs().mean()
    return {"error": error / len(words) ** 0.5}


def find_words(table: Any, epsilon: float, seed: int) -> Any:
    """Return the words that are found to be frequent."""
    from skdp import HeavyHitters

    finder = HeavyHitters(
        epsilon,
        n_top=20,
        max_length=8,
        alphabet=string.ascii_lowercase,
        random_state=seed,
    )
    return finder.fit(finder.report(table[0])).top_


def score_words(table: Any, top: pd.DataFrame) -> dict[str, float]:
    """Return the number of the twenty most frequent words that are found, and of found words that do not occur."""
    words, _ = table
    counts, found = words.value_counts(), set(top["value"])
    return {
        "found": len(found & set(counts.index[:20])),
        "false": len(found - set(counts.index)),
    }


PAIR_METHODS = {
    "table encoder": partial(
        estimate_pairs, "LocalTableEncoder", {"workload": "pairs"}
    ),
    "joint": partial(
        estimate_pairs, "RandomizedResponseEncoder", {"strategy": "joint"}
    ),
    "split": partial(estimate_pairs, "RandomizedResponseEncoder", {}),
}
MEAN_METHODS = {
    "optimal, split": partial(estimate_means, "optimal"),
    "optimal, sample": estimate_sampled_means,
    "Laplace": partial(estimate_means, "laplace"),
}
DISTRIBUTION_METHODS = {"square wave": estimate_distribution, "bins": estimate_bins}
TASKS = {
    "counts": Task(count_tables, COUNT_METHODS, score_counts, (1.0, 4.0), 8),
    "pairs": Task(pair_tables, PAIR_METHODS, score_pairs, (2.0, 4.0), 10),
    "means": Task(number_tables, MEAN_METHODS, score_means, (1.0, 4.0), 40),
    "distributions": Task(
        two_column_tables, DISTRIBUTION_METHODS, score_distributions, (1.0, 4.0), 10
    ),
    "sets": Task(
        set_tables, {"set-valued encoder": estimate_sets}, score_sets, (1.0, 4.0), 20
    ),
    "rappor": Task(
        partial(word_tables, 100, 20_000),
        {"RAPPOR": decode_rappor},
        score_rappor,
        epsilons=(2.0, 4.0),
        n_seeds=10,
    ),
    "heavy_hitters": Task(
        partial(word_tables, 1_000, 100_000),
        {"heavy hitters": find_words},
        score_words,
        epsilons=(4.0,),
        n_seeds=8,
    ),
}
