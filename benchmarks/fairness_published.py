"""Published studies of fairness under local privacy, repeated with the baselines that they leave out.

Run ``python benchmarks/fairness_published.py FOLDER`` with a folder that holds the files which the authors publish:
``db_ACSCoverage.csv``, ``db_LSAC.csv`` and ``db_adult_processed_26k.csv`` of arXiv 2304.12845
(github.com/hharcolezi/ldp-fairness-impact), ``compas_1.csv``, ``compas_3.csv`` and ``compas_5.csv`` of
arXiv 2312.04404 (github.com/KarimaMakhlouf/Impact_of_LDP_on_Fairness); tables whose file is missing are left out.
``--memory CACHE`` keeps finished fits, so that a second run goes on; ``--part`` runs a part of the whole, which takes
some 10 hours of one core. Scores are written to ``results/fairness_published.csv``.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _timing import RESULTS, write_results
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier

from skdp import (
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.evaluation import FairnessStudy, StudyTable, fairness_study
from skdp.oracles import UnaryEncoding

EPSILONS = (0.25, 0.5, 1, 2, 4, 8, 10, 20, 50)
COMPAS_EPSILONS = (0.1, 0.5, 1, 2, 3, 4, 5, 8, 16)

# The settings that a search of theirs has found for the true columns: depth, learning rate, trees.
_LIGHTGBM = {
    "ACSCoverage": (47, 0.20243400958078808, 1300),
    "LSAC": (9, 0.18177994587365698, 1100),
    "adult": (38, 0.02255696731716368, 1100),
}
_FILES = {
    "ACSCoverage": "db_ACSCoverage.csv",
    "LSAC": "db_LSAC.csv",
    "adult": "db_adult_processed_26k.csv",
}
_TARGETS = {"ACSCoverage": "PUBCOV", "LSAC": "pass_bar", "adult": "income"}
# The first one has the groups.
_PROTECTED = {
    "ACSCoverage": ["DIS", "AGEP", "SEX", "SCHL"],
    "LSAC": ["race1", "fam_inc", "gender", "fulltime"],
    "adult": ["gender", "race", "native-country", "age"],
}


class ThresholdEncodingTransformer(UnaryEncodingTransformer):
    """Thresholded histogram encoding (THE) of Wang et al. (2017): bits of noisy 0 and 1 above a threshold.

    With Laplace noise of scale 2/ε, the bit of the true value is 1 with ``p = 1 - exp(ε(θ - 1)/2)/2``, and any other
    one with ``q = exp(-εθ/2)/2``. As unary encoding, these bits satisfy less than ε.
    """

    def _make_oracle(self, k: int, epsilon: Any) -> UnaryEncoding:
        epsilon = float(epsilon)
        # The threshold of least variance ``q (1 - q) / (p - q)^2``, which is above 1/2.
        thresholds = np.linspace(0.5, 1, 10_001)[:-1]
        p = 1 - np.exp(epsilon * (thresholds - 1) / 2) / 2
        q = np.exp(-epsilon * thresholds / 2) / 2
        best = np.argmin(q * (1 - q) / (p - q) ** 2)
        return UnaryEncoding(k, p=p[best], q=q[best])


_MECHANISMS = {
    "GRR": RandomizedResponseEncoder(),
    "SUE": UnaryEncodingTransformer(variant="symmetric"),
    "OUE": UnaryEncodingTransformer(),
    "THE": ThresholdEncodingTransformer(),
    "BLH": LocalHashingEncoder(n_buckets=2),
    "OLH": LocalHashingEncoder(),
    "SS": SubsetSelectionEncoder(),
}
_SHARES = {"uniform": "uniform", "k_based": "proportional"}


def encoders(mechanisms: Any, splits: Any) -> dict[str, Any]:
    """Return the encoders of mechanisms, for each way to split epsilon over the columns."""
    named = {}
    for mechanism in mechanisms:
        for split in splits:
            encoder = _MECHANISMS[mechanism]
            settings = {**encoder.get_params(), "shares": _SHARES[split]}
            named[f"{mechanism} {split}"] = type(encoder)(**settings)
    return named


def published_table(folder: Path, name: str) -> StudyTable | None:
    """Read a table of arXiv 2304.12845: codes from 0 on; None if its file is missing."""
    path = folder / _FILES[name]
    if not path.exists():
        return None
    frame = pd.read_csv(path).drop(columns="ST", errors="ignore")
    return _table_of_codes(frame, _TARGETS[name], _PROTECTED[name], name)


def compas_table(
    folder: Path, threshold: int, protect: list[str], name: str
) -> StudyTable | None:
    """Read a table of arXiv 2312.04404; None if its file is missing."""
    path = folder / f"compas_{threshold}.csv"
    if not path.exists():
        return None
    return _table_of_codes(pd.read_csv(path), "v_decile_score", protect, name)


def _table_of_codes(
    frame: pd.DataFrame, target: str, protect: list[str], name: str
) -> StudyTable:
    domain = {column: list(range(frame[column].max() + 1)) for column in frame}
    return StudyTable(
        frame.drop(columns=target),
        frame[target],
        sensitive=protect[0],
        privileged=1,
        positive_label=1,
        protect=protect,
        domain=domain,
        name=name,
    )


def generated_table(n_rows: int = 10_000, seed: int = 0) -> StudyTable:
    """Generate a table in which the group matters for the label beside its traces in other columns.

    Three in ten are of the minority. Their labels are lower at the same merit, and a district says something of the
    group, so that a model without the group is neither as unfair as one with it, nor fair.
    """
    rng = np.random.default_rng(seed)
    group = (rng.random(n_rows) < 0.7).astype(int)
    district = rng.binomial(4, np.where(group == 1, 0.6, 0.4))
    merit = rng.normal(size=n_rows)
    grade = np.digitize(merit + rng.normal(0, 0.5, n_rows), [-1.0, -0.3, 0.3, 1.0])
    level = 1.2 * merit + 1.2 * (group - 0.7)
    label = (level + rng.logistic(0, 0.5, n_rows) > 0).astype(int)
    frame = pd.DataFrame(
        {
            "group": group,
            "age": rng.integers(0, 6, n_rows),
            "district": district,
            "grade": grade,
            "noise": rng.integers(0, 8, n_rows),
            "label": label,
        }
    )
    return _table_of_codes(frame, "label", ["group", "age"], "generated")


def lightgbm(name: str) -> LGBMClassifier:
    """Return the model of arXiv 2304.12845 for a table."""
    depth, rate, n_trees = _LIGHTGBM[name]
    return LGBMClassifier(
        max_depth=depth,
        learning_rate=rate,
        n_estimators=n_trees,
        objective="binary",
        n_jobs=1,
        verbose=-1,
    )


def study(
    table: StudyTable | None,
    encoders: Mapping[str, Any],
    estimator: BaseEstimator,
    **options: Any,
) -> pd.DataFrame:
    """Run a part, and return its scores."""
    if table is None:
        return pd.DataFrame()
    result = fairness_study(
        table, encoders, estimator=estimator, random_state=1, **options
    )
    return result.table


BASELINES = ("without privacy", "left out", "post-processed", "reweighed")


def run_published(
    folder: Path, name: str, n_splits: int, options: dict[str, Any], **choice: Any
) -> pd.DataFrame:
    """Repeat a table of arXiv 2304.12845, or a part of it."""
    mechanisms = choice.get("mechanisms", list(_MECHANISMS))
    splits = choice.get("splits", list(_SHARES))
    return study(
        published_table(folder, name),
        encoders(mechanisms, splits),
        lightgbm(name),
        epsilons=choice.get("epsilons", EPSILONS),
        n_splits=n_splits,
        baselines=choice.get("baselines", BASELINES),
        **options,
    )


def run_compas(
    folder: Path, threshold: int, n_splits: int, options: dict[str, Any]
) -> pd.DataFrame:
    """Repeat the COMPAS part of arXiv 2312.04404 for a threshold of the score: one column, each, and all together."""
    parts = []
    settings = {
        "sLDP": (["race"], RandomizedResponseEncoder()),
        "indsLDP": (
            ["race", "age_cat", "sex"],
            RandomizedResponseEncoder(shares="proportional"),
        ),
        "combsLDP": (
            ["race", "age_cat", "sex"],
            RandomizedResponseEncoder(strategy="joint"),
        ),
    }
    for setting, (protect, encoder) in settings.items():
        baselines = BASELINES
        if setting == "indsLDP":
            baselines = ()  # those of the same columns under combsLDP
        name = f"compas_{threshold} {'race' if len(protect) == 1 else 'all'}"
        part = study(
            compas_table(folder, threshold, protect, name),
            {setting: encoder},
            RandomForestClassifier(random_state=0),
            epsilons=COMPAS_EPSILONS,
            n_splits=n_splits,
            # A fold of theirs.
            test_size=0.1,
            baselines=baselines,
            **options,
        )
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def run_generated(n_splits: int, options: dict[str, Any]) -> pd.DataFrame:
    model = LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1)
    return study(
        generated_table(),
        encoders(["GRR"], ["uniform"]),
        model,
        epsilons=(0.5, 1, 4, 8),
        n_splits=n_splits,
        baselines=BASELINES,
        **options,
    )


# The parts of a run, each with the number of splits after a second colon: "shares:LSAC:10".
PARTS = (
    "verdict:LSAC",
    "verdict:ACSCoverage",
    "verdict:adult",
    "verdict:compas_1",
    "verdict:compas_3",
    "verdict:compas_5",
    "verdict:generated",
    "shares:LSAC",
    "shares:ACSCoverage",
    "shares:adult",
    "published:LSAC",
    "published:adult",
    "published:ACSCoverage",
)
_FEW_EPSILONS = (0.5, 1, 4, 8)


def run_part(part: str, folder: Path, options: dict[str, Any]) -> pd.DataFrame:
    """Run a part of the whole, such as "verdict:LSAC:10" with ten splits."""
    kind, _, name_and_count = part.partition(":")
    name, _, count = name_and_count.partition(":")
    n_splits = int(count or 20)
    if name == "generated":
        return run_generated(n_splits, options)
    if name.startswith("compas_"):
        threshold = int(name.removeprefix("compas_"))
        return run_compas(folder, threshold, n_splits, options)
    choice: dict[str, Any] = {"baselines": ("without privacy", "left out")}
    if kind == "verdict":
        # All baselines, and one mechanism.
        choice = {"mechanisms": ["GRR"], "splits": ["uniform"]}
        choice["epsilons"] = _FEW_EPSILONS
    elif kind == "shares":
        choice |= {"mechanisms": ["GRR"], "epsilons": _FEW_EPSILONS[1:]}
    elif kind == "GRR":
        choice |= {"mechanisms": ["GRR"], "splits": ["uniform"]}
    elif kind != "published":
        raise ValueError(f"unknown part {part!r}; known are {list(PARTS)}")
    return run_published(folder, name, n_splits, options, **choice)


# What is made of the scores: agreement with the published means, and the comparisons of the verdict.

# Theirs: their name, ours, and the sign. Their differences are of group 1, the privileged,
# less group 0.
_METRICS = {
    "acc": ("accuracy", 1),
    "f1": ("f1", 1),
    "SPD": ("statistical_parity_difference", -1),
    "DI": ("disparate_impact", 1),
    "EOD": ("equal_opportunity_difference", -1),
    "OAD": ("accuracy_difference", -1),
}


def agreement(scores: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Compare means with the published ones, in standard errors of their difference.

    The standard deviation over splits is the published one, as ours of few splits is not known.
    """
    rows = []
    for _, row in published.iterrows():
        method = f"{row['mechanism']} {row['split']}"
        epsilon = float(row["epsilon"])
        if row["mechanism"] == "non_private":
            method, epsilon = "without privacy", math.inf
        of_method = scores[
            (scores["table"] == row["table"])
            & (scores["method"] == method)
            & (scores["epsilon"] == epsilon)
        ]
        for theirs, (metric, sign) in _METRICS.items():
            values = of_method.loc[of_method["metric"] == metric, "value"]
            values = values[np.isfinite(values)]
            if values.empty or not row[f"{theirs}_sd"] > 0:
                continue
            ours = sign * values.mean()
            error = row[f"{theirs}_sd"] * math.sqrt(1 / len(values) + 1 / row["seeds"])
            rows.append(
                {
                    "table": row["table"],
                    "mechanism": row["mechanism"],
                    "split": row["split"],
                    "epsilon": epsilon,
                    "metric": theirs,
                    "ours": ours,
                    "theirs": row[theirs],
                    "n_splits": len(values),
                    "errors": (ours - row[theirs]) / error,
                }
            )
    return pd.DataFrame(rows)


def agreement_of_compas(scores: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Compare means with those of arXiv 2312.04404, from its files ``compas_3_sLDP_results.csv`` and the like.

    Their rows are means over ten folds; the last row of each epsilon is a standard deviation. Rates of labels are not
    compared: theirs are of the last fold alone.
    """
    rows = []
    for path in sorted(folder.glob("compas_*_results.csv")):
        _, threshold, setting, _ = path.stem.split("_")
        theirs = pd.read_csv(path)
        theirs = theirs[theirs["Seed_num"] < 20]
        if "epsilon" not in theirs:
            theirs = theirs.assign(epsilon=math.inf)
        method = "without privacy" if setting == "NoLDP" else setting
        columns = "race" if setting == "sLDP" else "all"
        of_method = scores[
            (scores["table"] == f"compas_{threshold} {columns}")
            & (scores["method"] == method)
        ]
        for epsilon, part in theirs.groupby("epsilon"):
            for name, metric, sign in (
                ("Acc", "accuracy", 1),
                ("SPD", "statistical_parity_difference", -1),
            ):
                is_same = of_method["epsilon"] == epsilon
                is_same &= of_method["metric"] == metric
                values = sign * of_method.loc[is_same, "value"]
                if len(values) < 2:
                    continue
                # Ten of our splits are one of their rows, where the variation of test
                # rows cancels; and a few equal splits do not show a variance of 0.
                of_row = part[name].var()
                n_test = of_method["n_test"].iloc[0]
                of_split = max(10 * of_row, values.var(), 1 / n_test**2)
                error = math.sqrt(of_row / len(part) + of_split / len(values))
                rows.append(
                    {
                        "table": f"compas_{threshold}",
                        "mechanism": setting,
                        "split": "",
                        "epsilon": epsilon,
                        "metric": name,
                        "ours": values.mean(),
                        "theirs": part[name].mean(),
                        "n_splits": len(values),
                        "errors": (values.mean() - part[name].mean()) / error,
                    }
                )
    return pd.DataFrame(rows)


def oriented(scores: pd.DataFrame) -> pd.DataFrame:
    """Turn the differences of each table so that the model without privacy has positive ones."""
    parts = []
    for _, part in scores.groupby(["table", "metric"], sort=False):
        sign = 1.0
        if part["metric"].iloc[0].endswith("_difference"):
            plain = part.loc[part["method"] == "without privacy", "value"].mean()
            sign = -1.0 if plain < 0 else 1.0
        parts.append(part.assign(value=sign * part["value"]))
    return pd.concat(parts, ignore_index=True)


def comparisons(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare each table's methods with both baselines, and ways to divide epsilon with each other."""
    metrics = ["accuracy", "f1", "statistical_parity_difference"]
    metrics += ["equal_opportunity_difference"]
    parts = []
    turned = oriented(scores[scores["metric"].isin(metrics)])
    for _, of_table in turned.groupby("table", sort=False):
        study = FairnessStudy(of_table)
        methods = list(of_table["method"].unique())
        pairs = [("GRR k_based", "GRR uniform"), ("indsLDP", "combsLDP")]
        for second in ("without privacy", "left out"):
            pairs += [(name, second) for name in methods if name != second]
        for first, second in pairs:
            if first in methods and second in methods:
                table = study.compare(first, second)
                parts.append(table.assign(second=second))
    table = pd.concat(parts, ignore_index=True)
    # Intervals of fewer splits say nothing.
    return table[table["n_splits"] >= 5]


def without_repeats(scores: pd.DataFrame) -> pd.DataFrame:
    """Keep each score once: parts of a run share their baselines."""
    keys = ["table", "method", "epsilon", "split", "metric"]
    return scores.drop_duplicates(keys, ignore_index=True)


def _name(text: Any) -> str:
    """Write a name of the published table; the model without privacy has no split of epsilon."""
    return text if isinstance(text, str) else ""


def write(scores: pd.DataFrame, agreed: pd.DataFrame) -> None:
    """Write means and comparisons as CSV files, and the agreement with the published means as a page."""
    study = FairnessStudy(scores)
    metrics = ["accuracy", "f1", "statistical_parity_difference"]
    metrics += ["equal_opportunity_difference", "accuracy_difference"]
    means = study.intervals()
    means = means[means["metric"].isin(metrics)]
    means.round(4).to_csv(RESULTS / "fairness_published.csv", index=False)
    table = comparisons(scores)
    table.round(4).to_csv(RESULTS / "fairness_comparisons.csv", index=False)
    tables = {}
    for name, part in agreed.groupby("table", sort=False):
        metrics = list(part["metric"].unique())
        rows = []
        keys = ["mechanism", "split"]
        for key, of_key in part.groupby(keys, sort=False, dropna=False):
            row = [*map(_name, key), str(of_key["epsilon"].nunique())]
            row.append(str(of_key["n_splits"].max()))
            for metric in metrics:
                errors = of_key.loc[of_key["metric"] == metric, "errors"].abs()
                row.append(f"{(errors <= 2).mean():.0%}" if len(errors) else "")
            rows.append(row)
        head = ["mechanism", "split of epsilon", "epsilons", "our splits", *metrics]
        tables[f"{name}: means within two standard errors"] = (head, rows)
    head = ["table", "mechanism", "split", "epsilon", "metric", "ours", "theirs"]
    rows = []
    for _, row in agreed[agreed["errors"].abs() > 3].iterrows():
        names = [*map(_name, row[head[:3]]), f"{row['epsilon']:g}", row["metric"]]
        numbers = [f"{row['ours']:.3f}", f"{row['theirs']:.3f}", f"{row['errors']:.1f}"]
        rows.append([*names, *numbers])
    tables["More than three standard errors apart"] = ([*head, "standard errors"], rows)
    fits = scores.drop_duplicates(["table", "method", "epsilon", "split"])
    costs = fits.groupby("table", sort=False)["seconds"].median()
    times = ", ".join(f"{name} {cost:.1f}" for name, cost in costs.items())
    parts = []
    for name, part in agreed.groupby(agreed["table"].str.startswith("compas")):
        source = "2312.04404" if name else "2304.12845"
        share = (part["errors"].abs() <= 2).mean()
        parts.append(f"Of {len(part):,} means of arXiv {source}, {share:.1%} are")
    notes = (
        f"{len(fits):,} fits. Median seconds of a fit, with one thread on a busy "
        f"machine: {times}.\n\n{' within two standard errors of the difference. '.join(parts)} "
        "within two standard errors of the difference. Splits of 2304.12845 are the same"
        " as theirs (by the same seeds), and its errors are those of the published "
        "standard deviations; noise is not the same."
    )
    write_results(
        "fairness_published",
        "Published studies of fairness, repeated",
        ["skdp", "lightgbm", "scikit-learn"],
        notes,
        tables,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--part", nargs="+", default=PARTS, help="such as shares:LSAC:10"
    )
    parser.add_argument("--memory", default=None, help="a folder for finished fits")
    parser.add_argument("--published", type=Path, help="means of 2304.12845, as CSV")
    parser.add_argument("--compas", type=Path, help="results of 2312.04404, a folder")
    parser.add_argument("--scores", type=Path, nargs="+", help="scores to read instead")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # fairlearn's own, about pandas
    parts = []
    if arguments.scores is None:
        for part in arguments.part:
            parts.append(run_part(part, arguments.folder, {"memory": arguments.memory}))
            print(part, len(parts[-1]), flush=True)
    else:
        parts = [pd.read_csv(path) for path in arguments.scores]
    scores = without_repeats(pd.concat(parts, ignore_index=True))
    agreed = []
    if arguments.published is not None:
        agreed.append(agreement(scores, pd.read_csv(arguments.published)))
    if arguments.compas is not None:
        agreed.append(agreement_of_compas(scores, arguments.compas))
    if agreed:
        write(scores, pd.concat(agreed, ignore_index=True))
    else:
        FairnessStudy(scores).save(RESULTS / "fairness_published")
