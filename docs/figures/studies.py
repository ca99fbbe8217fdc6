"""Pictures of the studies of fairness, from the means in benchmarks/results."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from skdp.evaluation import FairnessStudyDisplay

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PARITY = "statistical_parity_difference"

# The baselines, and one mechanism of each table.
SHOWN = (
    "without privacy",
    "left out",
    "post-processed",
    "reweighed",
    "GRR uniform",
    "combsLDP",
)
TITLES = {
    "ACSCoverage": "ACS Public Coverage (DIS)",
    "LSAC": "LSAC (race)",
    "adult": "Adult, income above 26,000 (gender)",
    "compas_3 all": "COMPAS, score above 3 (race)",
    "generated": "generated (group)",
}
REPORTS = "randomised response of all protected columns"


def verdict():
    """Draw accuracy and parity of all baselines and of reports, on five tables."""
    means = pd.read_csv(RESULTS / "fairness_published.csv")
    is_shown = means["method"].isin(SHOWN) & means["table"].isin(TITLES)
    # Means of two splits are of the agreement with published ones alone.
    is_shown &= means["n_splits"] >= 5
    means = means[is_shown].replace(
        {"GRR uniform": REPORTS, "combsLDP": REPORTS}
    )
    order = [*SHOWN[:4], REPORTS]
    means = means.sort_values(
        "method", key=lambda names: names.map(order.index), kind="stable"
    )
    means["table"] = means["table"].map(TITLES)
    order_of_tables = list(TITLES.values())
    means = means.sort_values(
        "table",
        key=lambda names: names.map(order_of_tables.index),
        kind="stable",
    )
    return FairnessStudyDisplay(means, metric=PARITY).plot().figure_


def channels():
    """Draw what becomes of two channels in a model, with rows to predict that report, too."""
    means = pd.read_csv(RESULTS / "fairness_channels.csv")
    names = {
        "without privacy": "without privacy",
        "left out": "left out",
        "post-processed": "post-processed",
        "private parity, randomised response": "private parity",
        "randomised response": "randomised response",
        "randomised response, reported rows": (
            "randomised response, reported rows"
        ),
        "optimum": "optimum of the literature",
        "optimum, reported rows": "optimum, reported rows",
    }
    means = means[means["method"].isin(names)]
    tables = ["ACSCoverage", "adult"]
    means = means[means["table"].isin(tables)]
    order = list(names)
    means = means.sort_values(
        ["table", "method"],
        key=lambda column: column.map([*tables, *order].index),
        kind="stable",
    )
    titles = {name: TITLES[name] for name in tables}
    means = means.replace({"method": names, "table": titles})
    return FairnessStudyDisplay(means, metric=PARITY).plot().figure_


def data():
    """Draw the unfairness of data against the error of an estimated share, for two shares of the minority."""
    panels = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True)[1]
    for axes, share in zip(panels, (0.14, 0.4), strict=True):
        epsilons = np.geomspace(0.3, 8, 60)
        truth = 1 / (1 + np.exp(-epsilons))
        axes.plot(
            *_error_and_unfairness(truth, truth, share),
            label="randomised response",
        )
        often = 1 - np.exp(-epsilons) / 2
        axes.plot(
            *_error_and_unfairness(0.5, often, share),
            ls="--",
            label="optimum of the literature",
        )
        for epsilon in (0.5, 1, 4):
            truth = 1 / (1 + np.exp(-epsilon))
            x, y = _error_and_unfairness(truth, truth, share)
            axes.plot(x, y, "o", color="C0", ms=5)
            often = 1 - np.exp(-epsilon) / 2
            x, y = _error_and_unfairness(0.5, often, share)
            axes.plot(x, y, "s", color="C1", ms=5)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="n × variance of the share",
            title=f"minority of {share:.0%}",
        )
    panels[0].set_ylabel("unfairness of the data")
    panels[0].legend(loc="lower left")


def _error_and_unfairness(p, q, share):
    """Return n times the variance, and the unfairness at rates that differ by 1."""
    told = p + q - 1
    reported = share * q + (1 - share) * (1 - p)
    spread = reported * (1 - reported)
    return spread / told**2, share * (1 - share) * told / spread
