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
    cells = (
        f"each of the {study.protected.size} counts of the {len(study.frame):,} records"
    )
    return (
        f"At epsilon {short(study.example)}, {cells} is known within "
        f"± {whole(reach)} (95 % intervals of one release)."
    )


def _of_models(scores: pd.DataFrame, epsilon: float, majority: float) -> list[str]:
    table = scores.set_index(["setting", "metric", "classifier"]).sort_index()
    plain = table["mean"].loc[NOT_PRIVATE]
    # An accuracy that one answer for all rows has as well says nothing.
    blind = plain["accuracy"].max() < majority + 0.01
    metric = "AUC" if blind else "accuracy"
    best = str(plain[metric].idxmax())
    found = table[["mean", "difference", "lower", "upper"]].to_dict("index")[
        epsilon, metric, best
    ]
    reached, *ends = found.values()
    cost = f"The {metric} of {best} is {_decimals(reached)}, and {_decimals(plain[metric, best])} without noise"
    lines = [f"{cost}: {difference(*ends)}."]
    if blind:
        lines.append(
            f"Accuracy says little here: to give all rows the more frequent answer is right for {majority:.1%}."
        )
    means: list[Any] = [table.loc[epsilon]["mean"], plain]
    gap = [part.get((SHOWN[0], best), np.nan) for part in means]
    if np.isfinite(gap).all():
        lines.append(
            f"Its {SHOWN[0]} is {_decimals(gap[0])}, and {_decimals(gap[1])} without noise."
        )
    return lines


def _of_leakage(
    tables: Mapping[str, pd.DataFrame], epsilon: float, column: Any
) -> list[str]:
    own = tables["leakage"].set_index("epsilon").loc[epsilon]
    lines = [
        f"Who sees all that is released guesses {column} right for {own['with the report']:.1%} of records, without "
        f"the reports for {own['without the report']:.1%}; the most frequent value is right for {own['prior']:.1%}."
    ]
    values = tables["leakage_by_value"].query(
        "epsilon == @epsilon and auc_lower == auc_lower"
    )
    if len(values):
        most = values.sort_values("auc_lower", kind="stable").iloc[-1]
        known = f"{label(most['value'])} ({most['share']:.1%} of the rows)"
        ends = f"95 % interval of this value alone {most['auc_lower']:.1%} to {most['auc_upper']:.1%}"
        if most["auc_lower"] > 0.5:
            lines.append(
                f"Best known is {known}: a record with it ranks above one without in {most['auc']:.1%} of pairs (AUC; "
                f"{ends})."
            )
        else:
            lines.append(
                f"Of no value are records found beyond chance: of {known} the AUC may be 50 % or less ({ends})."
            )
    return lines


def _of_synthesis(curve: pd.DataFrame, epsilon: float, *, scored: bool) -> str:
    values = curve.set_index(["epsilon", "metric"])["value"]
    order = (
        "2-way"
        if (epsilon, "mean error of 2-way marginals") in values.index
        else "1-way"
    )
    things = "pairs of columns" if order == "2-way" else "columns"
    error = values[epsilon, f"mean error of {order} marginals"]
    text = f"In synthetic rows of a curator, shares of {things} are off by {error:.1%} on average (total variation)"
    auc = "AUC, trained on synthetic rows"
    if not scored or (epsilon, auc) not in values.index:
        return f"{text}."
    ends = _decimals(values[epsilon, auc]), _decimals(values[np.inf, auc])
    verdict = (
        " It learns nothing from them: 0.5 is chance."
        if values[epsilon, auc] <= 0.5
        else ""
    )
    return f"{text}; a logistic regression trained on them has an AUC of {ends[0]}, on real rows {ends[1]}.{verdict}"


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
