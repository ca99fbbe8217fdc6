"""The sections of the report about classifiers and fairness, as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.report import _html as html
from skdp.evaluation.report._figures import fairness_figure, scores_figure
from skdp.evaluation.report._models import DEBIASED, LEFT_OUT, NAIVE, QUALITY, TRUE_GROUPS
from skdp.evaluation.report._sections import decimals, short
from skdp.evaluation.report._study import Study
from skdp.metrics import fairness_report

_SHOWN = ("statistical parity difference", "equal opportunity difference")
_LINES = (
    "Solid: the protected columns as reported, for training and for prediction. Dashed: as they are. Dotted: left out."
)


def accuracy_section(study: Study, scores: pd.DataFrame, positive_label: Any) -> list[str]:
    """Show what classifiers lose."""
    repeats = scores["repeat"].nunique()
    splits = "One random split" if repeats == 1 else f"Mean ± standard deviation (sd) over {repeats} random splits"
    keys = ["classifier", "columns are"]
    return [
        html.heading("Accuracy"),
        html.paragraph(
            f"Predicted is whether {study.target} is {positive_label}. {splits} of the "
            f"{len(study.frame):,} rows (three quarters to train, one quarter to test). "
            f"The protected columns ({study.names}) are used as reported, for training and for prediction; the other "
            "columns are used as they are."
        ),
        html.figures(
            {
                f"{name[0].upper() + name[1:]} by epsilon. Higher is better. {_LINES} Where solid, dashed and dotted "
                "lie together, the protected columns hardly matter to the "
                "classifier.": scores_figure(scores, name)
                for name in QUALITY
            }
        ),
        html.table(
            _mean_and_sd(scores)[[*keys, *QUALITY]],
            "Accuracy and area under the ROC curve (AUC), mean ± sd.",
            formats={},
            text=keys,
        ),
    ]


def fairness_section(
    study: Study, scores: pd.DataFrame, audits: Mapping[float, Mapping[str, pd.DataFrame]]
) -> list[str]:
    """Show how fair predictions are, and how fair they look to those who see reports only."""
    wide = _mean_and_sd(scores)
    keys = ["classifier", "columns are"]
    example = fairness_report([0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1], privileged=1, positive_label=1)
    metrics = [name for name in wide.columns if name not in (*keys, *QUALITY)]
    privileged = ", ".join(map(str, study.privileged))
    return [
        html.heading("Fairness"),
        html.paragraph(
            f"The same classifiers, by aif360's metrics, with the true {study.sensitive} used for scoring. Privileged: "
            f"{privileged}; unprivileged: everybody else. Every difference is unprivileged − privileged: below zero, "
            "the unprivileged get less."
        ),
        html.bullets([f"{row.metric}: {row.definition}" for row in example.itertuples()]),
        html.figures(
            {
                f"{name[0].upper() + name[1:]} by epsilon. Zero is parity. {_LINES}": scores_figure(scores, name)
                for name in _SHOWN
            }
        ),
        html.table(
            wide[keys + metrics],
            "Fairness of the predictions, mean ± sd; differences are unprivileged − privileged.",
            formats={},
            text=keys,
        ),
        html.heading("Fairness seen through reports"),
        html.paragraph(
            f"An auditor who has only the reports of {study.sensitive} can still tell how fair predictions are. A "
            "report taken for the truth mixes the groups, and makes them look more alike than they are; inverting the "
            "channel of the reports takes this off, at the price of wider intervals. Audited is a logistic regression "
            "that does not use the protected columns: what it predicts must not depend on the coins of the reports, "
            "or inverting these would not undo them."
        ),
        html.figures(
            {
                f"Three audits of the same predictions, at epsilon {short(study.example)}. The debiased values should "
                "lie at the true ones, within their 95 % intervals. Reports taken for groups bring, on average, the "
                "groups nearer to each other and the differences nearer to zero; no interval tells.": fairness_figure(
                    audits[study.example]
                )
            }
        ),
        html.table(
            audit_table(audits),
            "Differences by the true groups, by reports taken for groups, and debiased, with the 95 % interval over "
            "the coins of the reports.",
            formats={
                "epsilon": short,
                **dict.fromkeys((TRUE_GROUPS, NAIVE, DEBIASED, "lower", "upper"), decimals),
            },
            text=["metric"],
        ),
    ]


def audit_table(audits: Mapping[float, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """Put the differences of all audits side by side."""
    rows: list[dict[str, Any]] = []
    for epsilon, reports in audits.items():
        by_metric = {name: report.set_index("metric") for name, report in reports.items()}
        for metric in _SHOWN:
            values = {name: table.loc[metric, "value"] for name, table in by_metric.items()}
            limits = by_metric[DEBIASED].loc[metric, ["lower", "upper"]]
            rows.append(
                {"epsilon": epsilon, "metric": metric, **values, **dict(zip(("lower", "upper"), limits, strict=True))}
            )
    return pd.DataFrame(rows)


def _mean_and_sd(scores: pd.DataFrame) -> pd.DataFrame:
    """Write the scores as text, the models without privacy first."""
    by_classifier = scores.sort_values("classifier", kind="stable")
    grouped = by_classifier.groupby(["classifier", "setting", "metric"], sort=False)["value"].agg(["mean", "std"])
    text = grouped["mean"].map(decimals) + grouped["std"].map(lambda sd: "" if np.isnan(sd) else f" ± {sd:.4f}")
    wide = text.unstack("metric", sort=False).reset_index()
    first = wide["setting"].map(lambda setting: 1 if setting == LEFT_OUT else 0 if isinstance(setting, str) else 2)
    wide = wide.assign(place=first).sort_values(["classifier", "place"], kind="stable")
    wide["setting"] = [setting if isinstance(setting, str) else f"ε = {short(setting)}" for setting in wide["setting"]]
    return wide.drop(columns="place").rename(columns={"setting": "columns are"}).rename_axis(columns=None)
