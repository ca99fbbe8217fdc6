"""Release statistics and fit models with diffprivlib, which takes the number of rows as public."""

import json
import sys

import numpy as np
from diffprivlib import models, tools


def release_means(given: dict, epsilon: float, seed: int) -> dict:
    """Means and standard deviations, from a part of epsilon for each."""
    values, bounds = given["values"], given["bounds"]
    options = {"bounds": tuple(bounds.T), "axis": 0}
    return {
        "mean": tools.mean(values, epsilon / 2, random_state=seed, **options),
        "standard deviation": tools.std(
            values, epsilon / 2, random_state=seed + 1, **options
        ),
    }


def release_medians(given: dict, epsilon: float, seed: int, n_repeats: int) -> dict:
    """Medians of a column."""
    values, bounds = given["values"][:, 0], tuple(given["bounds"][0])
    medians = [
        tools.median(values, epsilon, bounds=bounds, random_state=seed + index)
        for index in range(n_repeats)
    ]
    return {"median": np.array(medians)}


def fit_model(given: dict, epsilon: float, seed: int, name: str) -> dict:
    """Fit a model of columns that are scaled to [-1, 1] by their bounds."""
    low, high = given["bounds"].T
    train, test = (
        2 * (given[rows] - low) / (high - low) - 1 for rows in ("train", "test")
    )
    ends = (-np.ones(len(low)), np.ones(len(low)))
    if name == "GaussianNB":
        model = models.GaussianNB(epsilon=epsilon, bounds=ends, random_state=seed)
    else:
        norm = np.sqrt(len(low))
        model = models.LogisticRegression(
            epsilon=epsilon, data_norm=norm, max_iter=1_000, random_state=seed
        )
    model.fit(train, given["target"])
    return {"prediction": model.predict_proba(test)[:, 1]}


def fit_lines(given: dict, epsilon: float, seed: int) -> dict:
    """Slopes of linear regressions of several tables."""
    ends, target_ends = map(tuple, given["bounds"])
    slopes = [
        models.LinearRegression(
            epsilon=epsilon,
            bounds_X=ends,
            bounds_y=target_ends,
            random_state=1_000 * seed + index,
        )
        .fit(columns, target)
        .coef_
        for index, (columns, target) in enumerate(
            zip(given["columns"], given["targets"], strict=True)
        )
    ]
    return {"slopes": np.array(slopes)}


RELEASES = {
    "means": release_means,
    "medians": release_medians,
    "model": fit_model,
    "lines": fit_lines,
}


def main(source: str, target: str, options: dict) -> None:
    """Run one release."""
    release = RELEASES[options.pop("release")]
    np.savez(target, **release(dict(np.load(source)), **options))


main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
