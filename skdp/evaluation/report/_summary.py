"""The report in a few sentences, with the numbers of one epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.report._counts import CountStudy
from skdp.evaluation.report._experiments import NOT_PRIVATE, attacked_column
from skdp.evaluation.report._study import Study
from skdp.evaluation.report._tables import SHOWN, short, whole


def summarise(study: Study, counts: CountStudy, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Write what one epsilon costs: in counts, in scores of the best classifier, in leakage and in synthetic rows."""
    lines = [_of_counts(study, counts)]
    if "model_scores" in tables:
        lines += _of_models(tables["model_scores"], study.example)
    if "leakage" in tables:
        lines.append(_of_leakage(tables["leakage"], study.example, attacked_column(study)))
    return [*lines, _of_synthesis(tables["synthesis"], study.example)]


def _of_counts(study: Study, counts: CountStudy) -> str:
    release = counts.releases.loc[study.example]
    reach = float(((release["upper"] - release["lower"]) / 2).max())
    cells = f"each of the {study.protected.size} counts of the {len(study.frame):,} records"
    return (
        f"At epsilon {short(study.example)}, {cells} is known within ± {whole(reach)} (95 % intervals of one release)."
    )


def _of_models(scores: pd.DataFrame, epsilon: float) -> list[str]:
    table = scores.set_index(["setting", "metric", "classifier"])["mean"]
    noisy, plain = (table[setting] for setting in (epsilon, NOT_PRIVATE))
    best = str(plain["accuracy"].idxmax())
    reached, before = float(noisy["accuracy", best]), float(plain["accuracy", best])
    cost = f"The accuracy of {best} is {_decimals(reached)}, and {_decimals(before)} without noise"
    lines = [f"{cost}: {_loss(before - reached)}."]
    gap = [float(part.get((SHOWN[0], best), np.nan)) for part in (noisy, plain)]
    if np.isfinite(gap).all():
        lines.append(f"Its {SHOWN[0]} is {_decimals(gap[0])}, and {_decimals(gap[1])} without noise.")
    return lines


def _of_leakage(table: pd.DataFrame, epsilon: float, column: Any) -> str:
    own = table.set_index("epsilon").loc[epsilon]
    return (
        f"Who sees all that is released guesses {column} right for {own['with the report']:.1%} of people; without the "
        f"reports for {own['without the report']:.1%}, and by naming the most frequent value for {own['prior']:.1%}."
    )


def _of_synthesis(curve: pd.DataFrame, epsilon: float) -> str:
    values = curve.set_index(["epsilon", "metric"])["value"]
    order = "2-way" if (epsilon, "mean error of 2-way marginals") in values.index else "1-way"
    things = "pairs of columns" if order == "2-way" else "columns"
    error = values[epsilon, f"mean error of {order} marginals"]
    text = f"In synthetic rows of a curator, shares of {things} are off by {error:.1%} on average (total variation)"
    auc = "AUC, trained on synthetic rows"
    if (epsilon, auc) not in values.index:
        return f"{text}."
    ends = _decimals(values[epsilon, auc]), _decimals(values[np.inf, auc])
    return f"{text}; a logistic regression trained on them has an AUC of {ends[0]}, on real rows {ends[1]}."


def _loss(loss: float) -> str:
    if round(loss, 3) > 0:
        return f"privacy costs {loss:.3f}"
    return "no loss shows" if round(loss, 3) == 0 else f"by chance {-loss:.3f} more"


def _decimals(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
