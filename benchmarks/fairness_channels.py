"""What a channel can do for fairness: randomised response, the optimum of the literature, and no column at all.

Run ``python benchmarks/fairness_channels.py FOLDER`` with the folder of ``fairness_published.py``; tables whose file is
missing are left out. Only the column of the groups is reported. It writes ``results/fairness_channels.md``, with means
as ``.csv``.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _timing import RESULTS, write_results
from fairness_published import (
    compas_table,
    generated_table,
    oriented,
    published_table,
)
from lightgbm import LGBMClassifier

from skdp import RandomizedResponseEncoder
from skdp.evaluation import FairnessStudy, StudyTable, fairness_study
from skdp.metrics import data_unfairness

EPSILONS = (0.5, 1.0, 4.0)
_MOST_ROWS = 20_000


class LiteratureOptimum(RandomizedResponseEncoder):
    """The channel of arXiv 2511.16377 for a column of two values, of which the rarer one is told truly more often.

    The rarer value is told truly with ``1 - exp(-epsilon) / 2``, the other with 1/2. For this study only: its
    draws are NumPy's, and its guarantee is not stated.
    """

    rarer = 0
    """The code of the rarer value, which the study sets."""

    def truths(self) -> tuple[float, float]:
        """Return the probabilities that 0 and 1 are told truly."""
        often = 1 - math.exp(-self.epsilon) / 2
        return (often, 0.5) if self.rarer == 0 else (0.5, often)

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Report the values, which are the codes 0 and 1."""
        rng = np.random.default_rng(self.random_state)
        (name,) = X.columns
        values = X[name].to_numpy()
        truths = np.array(self.truths())[values]
        reports = np.where(rng.random(len(values)) < truths, values, 1 - values)
        return pd.DataFrame({name: reports}, index=X.index)


class RareZero(LiteratureOptimum):
    """The optimum where 0 is the rarer value."""


class RareOne(LiteratureOptimum):
    """The optimum where 1 is the rarer value."""

    rarer = 1


def tables(folder: Path) -> Iterator[StudyTable]:
    """Return the five tables with one protected column of two values, of at most 20,000 rows."""
    found = [
        published_table(folder, "adult"),
        published_table(folder, "ACSCoverage"),
        published_table(folder, "LSAC"),
        compas_table(folder, 3, ["race"], "compas_3"),
        generated_table(),
    ]
    for table in found:
        if table is None:
            continue
        rng = np.random.default_rng(0)
        rows = rng.permutation(len(table.X))[:_MOST_ROWS]
        X = table.X.iloc[rows].reset_index(drop=True)
        labels = np.asarray(table.y)[rows]
        yield replace(table, X=X, y=labels, protect=[table.sensitive])


def unfairness_of_data(table: StudyTable) -> pd.DataFrame:
    """Return the unfairness and the error of both channels, and of randomised response of the optimum's error."""
    groups = np.asarray(table.groups)
    share = groups.mean()
    rates = [table.labels[groups == group].mean() for group in (0, 1)]
    known = abs(rates[1] - rates[0]) * share * (1 - share)
    rows = []
    for epsilon in EPSILONS:
        encoder = RandomizedResponseEncoder(epsilon, categories={"g": [0, 1]})
        encoder.fit(pd.DataFrame({"g": groups}))
        response = data_unfairness(table.labels, groups, encoder)
        told = math.tanh(epsilon / 2)
        error = known / (response * told)
        optimum = RareZero(epsilon) if share > 0.5 else RareOne(epsilon)
        told = sum(optimum.truths()) - 1
        reported = share * optimum.truths()[1] + (1 - share) * (1 - optimum.truths()[0])
        value = known * told / (reported * (1 - reported))
        error_of_optimum = reported * (1 - reported) / told**2
        told = 1 / math.sqrt(4 * error_of_optimum + (1 - 2 * share) ** 2)
        same = RandomizedResponseEncoder(2 * math.atanh(told), categories={"g": [0, 1]})
        same.fit(pd.DataFrame({"g": groups}))
        rows.append(
            {
                "table": table.name,
                "minority": min(share, 1 - share),
                "epsilon": epsilon,
                "true groups": abs(rates[1] - rates[0]),
                "randomised response": response,
                "its error": error,
                "optimum": value,
                "error of the optimum": error_of_optimum,
                "epsilon of the same error": 2 * math.atanh(told),
                "randomised response of this error": data_unfairness(
                    table.labels, groups, same
                ),
            }
        )
    return pd.DataFrame(rows)


def run(table: StudyTable, test_rows: str, **options: Any) -> pd.DataFrame:
    """Fit all methods to a table; what does not depend on the test rows is fitted once."""
    share = np.asarray(table.groups).mean()
    optimum = RareZero() if share > 0.5 else RareOne()
    baselines = []
    if test_rows == "true":
        baselines = ["without privacy", "left out", "post-processed"]
    result = fairness_study(
        table,
        {"randomised response": RandomizedResponseEncoder(), "optimum": optimum},
        epsilons=EPSILONS,
        estimator=LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1),
        baselines=baselines,
        test_rows=test_rows,
        random_state=1,
        **options,
    )
    return result.table.assign(test_rows=test_rows)


def run_parity(table: StudyTable, **options: Any) -> pd.DataFrame:
    """Fit without the column, under parity from reports; each fit is some fifty of the model."""
    result = fairness_study(
        table,
        {"randomised response": RandomizedResponseEncoder()},
        epsilons=EPSILONS[1:],
        estimator=LGBMClassifier(n_estimators=50, n_jobs=1, verbose=-1),
        baselines=["private parity"],
        random_state=1,
        **options,
    )
    scores = result.table
    is_parity = scores["method"].str.startswith("private parity")
    return scores[is_parity].assign(test_rows="true")


def write(scores: pd.DataFrame, data: pd.DataFrame) -> None:
    """Write means as a CSV file, and a page of the data's unfairness and of what becomes of it."""
    is_reported = scores["test_rows"] == "reported"
    names = scores["method"].where(~is_reported, scores["method"] + ", reported rows")
    scores = scores.assign(method=names)
    study = FairnessStudy(scores)
    study.intervals().round(5).to_csv(RESULTS / "fairness_channels.csv", index=False)
    data.round(5).to_csv(RESULTS / "fairness_channels_data.csv", index=False)
    rows = []
    for _, row in data.iterrows():
        rows.append([row["table"], *(f"{value:.3f}" for value in row.iloc[1:])])
    tables = {"Unfairness of the data": (list(data.columns), rows)}
    metrics = ["accuracy", "statistical_parity_difference"]
    turned = oriented(scores[scores["metric"].isin(metrics)])
    compared = FairnessStudy(turned).compare()
    rows = []
    for key, part in compared.groupby(["table", "method", "epsilon"], sort=False):
        name, method, epsilon = key
        row = [name, method, f"{epsilon:g}" if math.isfinite(epsilon) else ""]
        of_metric = part.set_index("metric")
        for metric in metrics:
            value = of_metric.loc[metric]
            ends = f"{value['lower']:.3f} to {value['upper']:.3f}"
            row.append(f"{value['difference']:.3f} ({ends})")
        rows.append(row)
    head = ["table", "method", "epsilon", *(name.replace("_", " ") for name in metrics)]
    tables["Less the column left out, in pairs of splits"] = (head, rows)
    notes = (
        "LightGBM with 100 trees (50 under private parity); at most 20,000 rows of a "
        f"table; {scores['split'].nunique()} splits. "
        "Differences of parity are turned so that those without privacy are positive; "
        "95 % intervals (Nadeau and Bengio 2003)."
    )
    title = "What a channel can do for fairness"
    packages = ["skdp", "lightgbm", "fairlearn"]
    write_results("fairness_channels", title, packages, notes, tables)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--memory", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # fairlearn's own, about pandas
    settings = {"n_splits": options.splits, "memory": options.memory}
    parts = []
    data = []
    for table in tables(options.folder):
        data.append(unfairness_of_data(table))
        for test_rows in ("true", "reported"):
            parts.append(run(table, test_rows, **settings))
        parts.append(run_parity(table, **settings))
        print(table.name, flush=True)
    scores = pd.concat(parts, ignore_index=True)
    write(scores, pd.concat(data, ignore_index=True))
