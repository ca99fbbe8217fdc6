"""Pictures and tables of the page about the local model."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.oracles import RandomizedResponse

EPSILONS = (0.5, 1.0, 2.0, 4.0)
N_RELEASES = 100


@cache
def tables() -> dict[str, tuple[pd.DataFrame, list[Any]]]:
    """Return a column of each data set, and its declared values."""
    adult, wine = load_adult(), load_wine()
    return {
        "Adult: occupation": (
            adult.data[["occupation"]],
            list(adult.domain["occupation"].values),
        ),
        "wine: cultivar": (
            pd.DataFrame({"cultivar": wine.target}),
            [0, 1, 2],
        ),
    }


def estimate() -> None:
    """Draw true counts, counted reports and estimates of five occupations."""
    people, values = tables()["Adult: occupation"]
    encoder = RandomizedResponseEncoder(
        2.0, categories={"occupation": values}, random_state=1
    )
    reports = encoder.fit_transform(people)
    estimates = encoder.estimate_counts(reports)
    shown = people["occupation"].value_counts().index[[0, 3, 6, 9, 12]]
    true, counted = (
        table["occupation"].value_counts().reindex(shown)
        for table in (people, reports)
    )
    estimated = estimates.loc[shown]
    places = np.arange(len(shown))
    axes = plt.subplots(figsize=(7, 3.6))[1]
    axes.bar(places - 0.27, true, 0.26, label="true")
    axes.bar(places, counted, 0.26, label="reports, counted", hatch="//")
    errors = [
        estimated["count"] - estimated["lower"],
        estimated["upper"] - estimated["count"],
    ]
    axes.bar(
        places + 0.27, estimated["count"], 0.26, yerr=errors, label="estimate", hatch="..",
        error_kw={"ecolor": plt.rcParams["text.color"]},
    )  # fmt: skip
    axes.set_xticks(
        places, [name.replace("-", "-\n", 1) for name in shown]
    )
    axes.set_ylabel("people")
    axes.grid(axis="x", visible=False)
    axes.legend()


@cache
def measured(name: str) -> list[float]:
    """Return the root mean square errors of the shares, over releases, at each epsilon."""
    table, values = tables()[name]
    column = table.columns[0]
    errors = []
    for index, epsilon in enumerate(EPSILONS):
        squares = []
        for seed in range(index * N_RELEASES, (index + 1) * N_RELEASES):
            encoder = RandomizedResponseEncoder(
                epsilon, categories={column: values}, random_state=seed
            ).fit(table)
            counts = encoder.estimate_counts(encoder.transform(table))[
                "count"
            ].to_numpy()
            truth = (
                table[column]
                .value_counts(dropna=False)
                .reindex(values)
                .to_numpy()
            )
            squares.append(np.mean(((counts - truth) / len(table)) ** 2))
        errors.append(float(np.sqrt(np.mean(squares))))
    return errors


def closed_form(name: str, epsilon: float) -> float:
    """Return the root mean square error of a share, on average over the values."""
    table, values = tables()[name]
    k, n = len(values), len(table)
    oracle = RandomizedResponse(k, epsilon)
    p, q = float(oracle.p), float(oracle.q)
    return float(
        np.sqrt(
            (q * (1 - q) / (p - q) ** 2 + (1 - p - q) / (p - q) / k) / n
        )
    )


def cost() -> None:
    """Draw the errors of both data sets by epsilon."""
    _, panels = plt.subplots(1, 2, figsize=(7.4, 3.4))
    for index, (axes, name) in enumerate(
        zip(panels, tables(), strict=True)
    ):
        colour = f"C{index}"
        grid = np.geomspace(EPSILONS[0], EPSILONS[-1], 50)
        axes.plot(
            grid,
            [100 * closed_form(name, epsilon) for epsilon in grid],
            color=colour,
            label="closed form",
        )
        points = [100 * error for error in measured(name)]
        axes.plot(
            EPSILONS,
            points,
            "o" if index == 0 else "s",
            color=colour,
            label=f"{N_RELEASES} releases",
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        ticks = [0.2, 0.5, 1, 2, 5, 10, 20, 50]
        low, high = min(points) / 1.3, max(points) * 1.3
        axes.set_yticks(
            [tick for tick in ticks if low <= tick <= high],
            [f"{t:g}" for t in ticks if low <= t <= high],
        )
        axes.set(
            title=f"{name}, n = {len(tables()[name][0]):,}",
            xlabel="epsilon (smaller is more private)",
        )
        axes.legend()
    panels[0].set_ylabel("error of a share, points")


def cost_table() -> pd.DataFrame:
    """Return the errors of both data sets, in percentage points."""
    rows = [
        {"table": name, "records": len(table), "values": len(values)}
        | {
            f"ε = {epsilon:g}": round(100 * closed_form(name, epsilon), 2)
            for epsilon in EPSILONS
        }
        for name, (table, values) in tables().items()
    ]
    return pd.DataFrame(rows)
