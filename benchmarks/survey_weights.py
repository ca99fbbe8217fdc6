"""Coverage of intervals of weighted counts, shares and means from reports of samples, in twelve settings.

Run ``python benchmarks/survey_weights.py [--repeats 500]``. In each repeat, a sample of one invented population of
200,000 people is drawn and reported. The population's counts, shares and means are known.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from skdp import (
    HadamardResponseEncoder,
    LocalHashingEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)

Places = NDArray[np.intp]

SIZE = 200_000
N_CLUSTERS = 2_000
VALUES = {"answer": ["never", "once", "often"]}
ENCODERS = {
    "response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "hashing": LocalHashingEncoder,
    "hadamard": HadamardResponseEncoder,
}


@dataclass(frozen=True)
class Setting:
    """A design, and how its sample reports."""

    design: str
    kind: str
    epsilon: float
    n_rows: int


SETTINGS = (
    Setting("unequal weights", "response", 0.5, 2_000),
    Setting("unequal weights", "unary", 2.0, 500),
    Setting("unequal weights", "number", 1.0, 1_000),
    Setting("strata", "response", 1.0, 2_000),
    Setting("strata", "hashing", 2.0, 5_000),
    Setting("strata", "number", 2.0, 1_000),
    Setting("a fifth of each stratum", "response", 4.0, 40_000),
    Setting("clusters", "response", 2.0, 2_000),
    Setting("clusters", "number", 4.0, 4_000),
    Setting("strata and clusters", "response", 1.0, 4_000),
    Setting("strata and clusters", "hadamard", 4.0, 4_000),
    Setting("strata and clusters", "number", 1.0, 10_000),
)


def people() -> pd.DataFrame:
    """Return a population whose answers and hours depend on stratum and cluster."""
    rng = np.random.default_rng(0)
    cluster = np.sort(rng.integers(N_CLUSTERS, size=SIZE))
    # Four strata of unequal numbers of clusters.
    stratum = np.searchsorted([0.4, 0.7, 0.9], np.arange(N_CLUSTERS) / N_CLUSTERS)
    effect = 0.4 * stratum + 0.3 * rng.normal(size=N_CLUSTERS)
    score = effect[cluster] + rng.normal(size=SIZE)
    answer = np.array(VALUES["answer"])[np.searchsorted([0.8, 2.0], score)]
    return pd.DataFrame(
        {
            "answer": answer,
            "hours": np.clip(20 + 10 * score, 0, 80),
            "stratum": stratum[cluster],
            "cluster": cluster,
            # By which people are drawn where chances are unequal.
            "chance": np.exp(0.4 * score + 0.5 * rng.normal(size=SIZE)),
        }
    )


PEOPLE = people()
ROWS_OF_CLUSTER = PEOPLE.groupby("cluster").indices


def draw(
    setting: Setting, rng: np.random.Generator
) -> tuple[Places, dict[str, Any], dict[str, Any]]:
    """Return the places of a sample, its design, and the sizes of its population."""
    if setting.design == "unequal weights":
        chance = PEOPLE["chance"].to_numpy() / PEOPLE["chance"].sum()
        places = rng.choice(SIZE, setting.n_rows, p=chance)
        return places, {"sample_weight": 1 / (setting.n_rows * chance[places])}, {}
    if setting.design in ("strata", "a fifth of each stratum"):
        return _draw_strata(setting, rng)
    n_clusters = setting.n_rows * N_CLUSTERS // SIZE
    if setting.design == "clusters":
        clusters = rng.choice(N_CLUSTERS, n_clusters, replace=False)
        weight_of = dict.fromkeys(clusters.tolist(), N_CLUSTERS / n_clusters)
    else:
        weight_of = _draw_clusters_of_strata(n_clusters, rng)
    places = np.concatenate([ROWS_OF_CLUSTER[cluster] for cluster in weight_of])
    drawn = PEOPLE["cluster"].to_numpy()[places]
    design = {
        "sample_weight": np.array([weight_of[cluster] for cluster in drawn]),
        "clusters": drawn,
    }
    if setting.design != "clusters":
        design["strata"] = PEOPLE["stratum"].to_numpy()[places]
    return places, design, {}


def _draw_strata(
    setting: Setting, rng: np.random.Generator
) -> tuple[Places, dict[str, Any], dict[str, Any]]:
    """Draw as many of each stratum, or a fifth of each."""
    parts = []
    weights = []
    sizes = {}
    for stratum, places in PEOPLE.groupby("stratum").indices.items():
        n_rows = setting.n_rows // 4
        if setting.design == "a fifth of each stratum":
            n_rows = len(places) // 5
        parts.append(rng.choice(places, n_rows, replace=False))
        weights.append(np.full(n_rows, len(places) / n_rows))
        sizes[stratum] = len(places)
    places = np.concatenate(parts)
    design = {
        "sample_weight": np.concatenate(weights),
        "strata": PEOPLE["stratum"].to_numpy()[places],
    }
    return places, design, {"population_size": sizes}


def _draw_clusters_of_strata(
    n_clusters: int, rng: np.random.Generator
) -> dict[int, float]:
    """Draw as many clusters of each stratum, and return the weight of each."""
    weight_of = {}
    by_cluster = PEOPLE.groupby("cluster")["stratum"].first()
    for clusters in by_cluster.groupby(by_cluster).indices.values():
        drawn = rng.choice(by_cluster.index[clusters], n_clusters // 4, replace=False)
        weight_of.update(dict.fromkeys(drawn.tolist(), len(clusters) / len(drawn)))
    return weight_of


def covered(setting: Setting, seed: int) -> dict[str, tuple[float, float]]:
    """Return the share of intervals that hold the truth, and the mean of the z scores."""
    rng = np.random.default_rng(seed)
    places, design, sizes = draw(setting, rng)
    sample = PEOPLE.iloc[places].reset_index(drop=True)
    if setting.kind == "number":
        perturber = NumericPerturber(setting.epsilon, bounds={"hours": (0, 80)})
        reports = perturber.fit_transform(sample[["hours"]])
        truth = np.array([PEOPLE["hours"].mean()])
        estimates = {
            "mean": (perturber.estimate_mean(reports, **design), truth),
            "mean, no design": (perturber.estimate_mean(reports), truth),
        }
    else:
        encoder = ENCODERS[setting.kind](setting.epsilon, categories=VALUES)
        reports = encoder.fit_transform(sample[["answer"]])
        counts = PEOPLE["answer"].value_counts()[VALUES["answer"]].to_numpy(float)
        options = design | sizes
        totals = encoder.estimate_counts(reports, rows="population", **options)
        shares = encoder.estimate_frequencies(reports, **options)
        plain = encoder.estimate_frequencies(reports)
        estimates = {
            "count": (totals, counts),
            "share": (shares, counts / SIZE),
            "share, no design": (plain, counts / SIZE),
        }
    result = {}
    for name, (table, truth) in estimates.items():
        is_inside = (table["lower"] <= truth) & (truth <= table["upper"])
        score = (table.iloc[:, 0] - truth) / table["std_error"]
        result[name] = float(is_inside.mean()), float(score.mean())
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=500)
    repeats = parser.parse_args().repeats
    rows = []
    for setting in SETTINGS:
        results = [covered(setting, seed) for seed in range(repeats)]
        for name in results[0]:
            coverage = np.mean([result[name][0] for result in results])
            bias = np.mean([result[name][1] for result in results])
            row = [setting.design, setting.kind, f"{setting.epsilon:g}"]
            row += [f"{setting.n_rows:,}", name]
            row += [f"{100 * coverage:.1f}", f"{bias:+.2f}"]
            rows.append(row)
            print(row, flush=True)
    heading = ("design", "reports", "epsilon", "rows", "estimate")
    heading += ("coverage", "bias in standard errors")
    write_results(
        "survey_weights",
        "Populations from weighted reports",
        ("skdp", "numpy", "pandas"),
        "Intervals of 95 % for counts and shares of three values, and for means, of one "
        f"population of {SIZE:,} people, from {repeats} samples of each design; coverage "
        "in per cent, of all values. *No design*: the same reports as if they were a "
        "simple random sample. The bias is the mean of the errors over their standard "
        "errors; of three shares, which add up to 1, the mean of all is next to 0.",
        {"Coverage in per cent": (heading, rows)},
    )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
