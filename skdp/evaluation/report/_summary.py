"""The report in a few sentences, with the numbers of one epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.report._counts import CountStudy
from skdp.evaluation.report._experiments import NOT_PRIVATE, attacked_column
from skdp.evaluation.report._study import Study
from skdp.evaluation.report._tables import SHOWN, label, short, whole


def summarise(
    study: Study, counts: CountStudy, tables: Mapping[str, pd.DataFrame]
) -> list[str]:
    """Write what one epsilon costs: in counts, in scores of the best classifier, in leakage and in synthetic rows."""
    lines = [_of_counts(study, counts)]
    if "model_scores" in tables:
        lines += _of_models(
            tables["model_scores"],
            study.example,
            max(study.y.mean(), 1 - study.y.mean()),
        )
    if "leakage" in tables:
        lines += _of_leakage(tables, study.example, attacked_column(study))
    scored = study.target is not None and study.scores_hold
    return [*lines, _of_synthesis(tables["synthesis"], study.example, scored=scored)]


def _of_counts(study: Study, counts: CountStudy) -> str:
    release = counts.releases.loc[study.example]
    reach = float(((release["upper"] - release["lower"]) / 2).max())
    return (
        f"At epsilon {short(study.example)}, each of the {study.protected.size} counts "
        f"of the {len(study.frame):,} records is known within ± {whole(reach)} (95 % "
        "intervals of one release)."
    )


def _of_models(scores: pd.DataFrame, epsilon: float, majority: float) -> list[str]:
    table = scores.set_index(["setting", "metric", "classifier"]).sort_index()
    plain = table["mean"].loc[NOT_PRIVATE]
    # An accuracy that one answer for all rows has as well says nothing.
    blind = plain["accuracy"].max() < majority + 0.01
    metric = "AUC" if blind else "accuracy"
    best = str(plain[metric].idxmax())
    key: Any = epsilon, metric, best
    row: Any = table.loc[key]
    cost = difference(row["difference"], row["lower"], row["upper"])
    lines = [
        f"The {metric} of {best} is {_decimals(row['mean'])}, and "
        f"{_decimals(plain[metric, best])} without noise: {cost}."
    ]
    if blind:
        lines.append(
            "Accuracy says little here: to give all rows the more frequent answer is "
            f"right for {majority:.1%}."
        )
    gap = SHOWN[0]
    private_gap = table["mean"].get((epsilon, gap, best), np.nan)
    plain_gap = plain.get((gap, best), np.nan)
    if np.isfinite([private_gap, plain_gap]).all():
        lines.append(
            f"Its {gap} is {_decimals(private_gap)}, and {_decimals(plain_gap)} without "
            "noise."
        )
    return lines


def _of_leakage(
    tables: Mapping[str, pd.DataFrame], epsilon: float, column: Any
) -> list[str]:
    """Write what is guessed from the release, and which value is known best."""
    guesses = tables["leakage"].set_index("epsilon").loc[epsilon]
    lines = [
        f"Who sees all that is released guesses {column} right for "
        f"{guesses['with the report']:.1%} of records, without the reports for "
        f"{guesses['without the report']:.1%}; the most frequent value is right for "
        f"{guesses['prior']:.1%}."
    ]
    values = tables["leakage_by_value"]
    values = values[(values["epsilon"] == epsilon) & values["auc_lower"].notna()]
    if values.empty:
        return lines
    best = values.sort_values("auc_lower", kind="stable").iloc[-1]
    name = f"{label(best['value'])} ({best['share']:.1%} of the rows)"
    interval = (
        f"95 % interval of this value alone {best['auc_lower']:.1%} to "
        f"{best['auc_upper']:.1%}"
    )
    if best["auc_lower"] > 0.5:
        lines.append(
            f"Best known is {name}: a record with it ranks above one without in "
            f"{best['auc']:.1%} of pairs (AUC; {interval})."
        )
    else:
        lines.append(
            "Of no value are records found beyond chance: of "
            f"{name} the AUC may be 50 % or less ({interval})."
        )
    return lines


def _of_synthesis(curve: pd.DataFrame, epsilon: float, *, scored: bool) -> str:
    """Write how far shares are off, and what a model learns from the rows."""
    values = curve.set_index(["epsilon", "metric"])["value"]
    things, metric = "pairs of columns", "mean error of 2-way marginals"
    if (epsilon, metric) not in values.index:
        things, metric = "columns", "mean error of 1-way marginals"
    text = (
        f"In synthetic rows of a curator, shares of {things} are off by "
        f"{values[epsilon, metric]:.1%} on average (total variation)"
    )
    auc = "AUC, trained on synthetic rows"
    if not scored or (epsilon, auc) not in values.index:
        return f"{text}."
    synthetic, real = values[epsilon, auc], values[np.inf, auc]
    verdict = ""
    if synthetic <= 0.5:
        verdict = " It learns nothing from them: 0.5 is chance."
    return (
        f"{text}; a logistic regression trained on them has an AUC of "
        f"{_decimals(synthetic)}, on real rows {_decimals(real)}.{verdict}"
    )


def difference(change: float, lower: float, upper: float) -> str:
    """Write what noise changes in a score: only what is beyond chance is called a cost."""
    if np.isnan(lower):
        return f"{_decimals(change)} on one split of the rows"
    lower, upper = np.clip(
        [lower, upper], -1, 1
    )  # as scores are between 0 and 1; of two splits little is known
    if lower <= 0 <= upper:
        interval = f"(95 % interval {_decimals(lower)} to {_decimals(upper)})"
        return f"a difference of {_decimals(change)} {interval}, which may be chance"
    low, high = sorted([abs(lower), abs(upper)])
    verb = "costs" if upper < 0 else "adds"
    return f"privacy {verb} {abs(change):.3f} (95 % interval {low:.3f} to {high:.3f})"


def _decimals(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}".replace("-", "−")
