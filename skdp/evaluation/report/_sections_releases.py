"""The sections of the report about leakage and synthetic rows, as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.attacks import EXACT, AttackResult
from skdp.evaluation.report import _html as html
from skdp.evaluation.report._figures import carriers_figure, curve_figure, leakage_figure, marginal_figure
from skdp.evaluation.report._releases import Synthesis
from skdp.evaluation.report._sections import decimals, short
from skdp.evaluation.report._study import Study

_MOST_CARRIERS = 12
_MOST_MARGINALS = 4


def leakage_section(study: Study, results: Mapping[float, AttackResult], column: Any) -> list[str]:
    """Show how well the protected column can be guessed, and from what."""
    example = results[study.example]
    carriers = example.carriers.head(_MOST_CARRIERS)
    shown = carriers.reset_index().assign(column=[str(name) for name in carriers.index])
    shown["is_report"] = shown["is_report"].map({True: "report", False: ""})
    columns = {"is_report": "", "alone": "right from it alone", "drop": "lost if shuffled"}
    return [
        html.heading("Leakage"),
        html.paragraph(
            f"An attacker who knows the true {column} of some people learns from all that is released of them (the "
            f"reports, and every other column as it is), and guesses {column} of others. Gradient boosting on "
            f"{example.n_rows:,} rows, three folds. No guess from the report alone is right more often than "
            f"the bound ({example.bound}); what is guessed beyond it, other columns give away, and no epsilon of the "
            "report can hide."
        ),
        html.figures(
            {
                f"Guesses of {column} by epsilon. Blue: from all that is released; orange: without the reports; with "
                "95 % intervals over rows. Dotted: the most frequent value, which needs no data. Dashed: "
                f"{_meaning(example)}. Points above the dashed line are due to other columns.": leakage_figure(
                    results, column
                ),
                f"What each column tells of {column}, at epsilon {short(study.example)}. The further a bar reaches "
                "beyond the dotted line (the most frequent value), the more this column gives away by "
                "itself.": carriers_figure(carriers, example.baseline, column),
            }
        ),
        html.table(
            leakage_table(results).drop(columns=["lower", "upper"]),
            f"Share of {column} guessed right.",
            formats={"epsilon": short, **dict.fromkeys(_ATTACKS, decimals)},
        ),
        html.table(
            shown.rename(columns=columns),
            f"Which columns carry it, at epsilon {short(study.example)}: the share that is right from a column alone, "
            "and what the whole attack loses if the column is shuffled.",
            formats=dict.fromkeys(("right from it alone", "lost if shuffled"), decimals),
            text=["column", ""],
        ),
    ]


def _meaning(result: AttackResult) -> str:
    """Tell what the bound is."""
    if result.bound == EXACT:
        return "what the best guess from the report alone gets right"
    return "what no guess from the report alone can exceed, whatever the protocol of this epsilon"


_ATTACKS = ("with the report", "without the report", "prior", "bound for the report alone")


def leakage_table(results: Mapping[float, AttackResult]) -> pd.DataFrame:
    """List what was guessed right at each epsilon."""
    rows = []
    for epsilon, found in results.items():
        numbers = found.accuracy, found.accuracy_without_report, found.baseline, found.bayes_bound
        rows.append((epsilon, *numbers, *found.interval()))
    return pd.DataFrame(rows, columns=["epsilon", *_ATTACKS, "lower", "upper"])


def synthesis_section(study: Study, synthesis: Synthesis, delta: float) -> list[str]:
    """Show how like the table synthetic rows are."""
    names = ", ".join(map(str, study.domain.columns))
    metrics = list(dict.fromkeys(synthesis.curve["metric"]))
    captions = {name: _caption(name) for name in metrics}
    figures = {captions[name]: curve_figure(synthesis.curve, name, "real rows") for name in metrics}
    for column in study.columns[:_MOST_MARGINALS]:
        text = (
            f"{column} of real and synthetic rows, at epsilon {short(study.example)}. TVD, the total-variation "
            "distance, is half the sum of the absolute differences of the shares: 0 if all agree."
        )
        figures[text] = marginal_figure(synthesis.real, synthesis.synthetic, column, study.domain)
    tests = " Three quarters of the rows are synthesised; the others test the models." if study.target else ""
    return [
        html.heading("Synthetic rows"),
        html.paragraph(
            f"A trusted curator may publish synthetic rows instead of reports: counts with noise, and rows drawn from "
            f"them (the central model, adding or removing one record; delta = {short(delta)}). Synthesised: "
            f"{names}.{tests}"
        ),
        html.figures(figures),
        html.table(
            _wide(synthesis.curve),
            "Synthetic rows by epsilon. The error of a marginal is its total-variation distance.",
            formats=dict.fromkeys(metrics, lambda value: "" if np.isnan(value) else decimals(value)),
            text=["epsilon"],
        ),
    ]


def _caption(metric: str) -> str:
    name = metric[0].upper() + metric[1:]
    if "marginals" in metric:
        what = "column by column" if "1-way" in metric else "over all pairs of columns"
        return f"{name} by epsilon. The total-variation distance of real and synthetic shares, {what}: lower is better."
    return f"{name} by epsilon. Logistic regression, tested on real rows; dashed, trained on real rows."


def _wide(curve: pd.DataFrame) -> pd.DataFrame:
    """Put the metrics side by side, the real rows last."""
    wide = curve.pivot(index="epsilon", columns="metric", values="value")[list(dict.fromkeys(curve["metric"]))]
    wide = wide.reset_index().rename_axis(columns=None)
    real = wide["epsilon"] == float("inf")
    wide["epsilon"] = [
        "real rows" if is_real else short(one) for one, is_real in zip(wide["epsilon"], real, strict=True)
    ]
    return wide
