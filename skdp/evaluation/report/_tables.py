"""The tables of the report and the formats of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdp.coding import is_missing
from skdp.evaluation.attacks import AttackResult
from skdp.evaluation.report._counts import CountStudy
from skdp.evaluation.report._experiments import DEBIASED, LEFT_OUT
from skdp.evaluation.report._figures import POSTPROCESS_NAMES
from skdp.frames import flatten_index

SHOWN = ("statistical parity difference", "equal opportunity difference")
"""The metrics of fairness that have a figure."""

_ATTACKS = ("with the report", "without the report", "prior", "bound for the report alone")
_ERRORS = {
    "l1_mean": "mean L1",
    "l1_mean_expected": "expected L1",
    "l2_mean": "mean L2",
    "l2_rms": "rms L2",
    "l2_rms_expected": "closed-form rms L2",
}


def short(value: float) -> str:
    """Write an epsilon or a delta."""
    return f"{value:g}".replace("e-0", "e-")


def whole(value: float) -> str:
    """Write a number without its fraction."""
    return "" if np.isnan(value) else f"{value:,.0f}".replace("-", "−")


def decimals(value: float) -> str:
    """Write a number with four decimals."""
    return "undefined" if np.isnan(value) else f"{value:.4f}".replace("-", "−")


Written = dict[str, Any]
"""A table as text: its columns, those that are aligned to the left ("text"), and its rows."""


def written(
    frame: pd.DataFrame, text: Sequence[str] = (), formats: Mapping[str, Callable[[Any], str]] | None = None
) -> Written:
    """Write a table: an epsilon in short, other fractions with four decimals, unless another format is given."""
    chosen = {name: decimals if frame[name].dtype.kind == "f" else str for name in frame.columns}
    chosen |= {"epsilon": short} | dict(formats or {})
    rows = zip(*(map(chosen[name], frame[name]) for name in frame.columns), strict=True)
    return {"columns": list(map(str, frame.columns)), "text": text, "rows": list(map(list, rows))}


def counts_table(study: CountStudy) -> Written:
    numbers = {"true": "true count", "count": "estimate", "std_error": "std. error", "lower": "lower", "upper": "upper"}
    flat = flatten_index(study.releases.rename(columns=numbers))
    names = list(flat.columns[1 : study.releases.index.nlevels])
    formats = {**dict.fromkeys(names, _label), **dict.fromkeys(numbers.values(), whole)}
    return written(flat, list(map(str, names)), formats)


def errors_table(study: CountStudy) -> Written:
    """Write the errors of the counts by epsilon, without redundant rows."""
    summary = study.summary()
    named = summary.assign(postprocess=summary["postprocess"].map(POSTPROCESS_NAMES))
    names = {"epsilon": "epsilon", "postprocess": "estimate", **_ERRORS, "coverage": "95 % intervals hold"}
    errors = named[list(names)].rename(columns=names)
    # If no unbiased count is negative, the other estimates are the same.
    errors = errors[~errors[["epsilon", "mean L1", "mean L2", "rms L2"]].round(6).duplicated()]
    formats = {**dict.fromkeys(_ERRORS.values(), whole), "95 % intervals hold": lambda share: f"{share:.1%}"}
    return written(errors, ["estimate"], formats)


def scores_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Write the mean and standard deviation of each score, the models without privacy first."""
    by_classifier = scores.sort_values("classifier", kind="stable")
    grouped = by_classifier.groupby(["classifier", "setting", "metric"], sort=False)["value"].agg(["mean", "std"])
    text = grouped["mean"].map(decimals) + grouped["std"].map(lambda sd: "" if np.isnan(sd) else f" ± {sd:.4f}")
    wide = text.unstack("metric", sort=False).reset_index()
    first = wide["setting"].map(lambda setting: 1 if setting == LEFT_OUT else 0 if isinstance(setting, str) else 2)
    wide = wide.assign(place=first).sort_values(["classifier", "place"], kind="stable")
    wide["setting"] = [setting if isinstance(setting, str) else f"ε = {short(setting)}" for setting in wide["setting"]]
    return wide.drop(columns="place").rename(columns={"setting": "columns are"}).rename_axis(columns=None)


def audit_table(audits: Mapping[float, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """Arrange the differences of all audits in one table."""
    rows: list[dict[str, Any]] = []
    for epsilon, reports in audits.items():
        by_metric = {name: report.set_index("metric") for name, report in reports.items()}
        for metric in SHOWN:
            values = {name: table.loc[metric, "value"] for name, table in by_metric.items()}
            ends = by_metric[DEBIASED].loc[metric, ["lower", "upper"]]
            rows.append({"epsilon": epsilon, "metric": metric, **values, **ends})
    return pd.DataFrame(rows)


def leakage_table(results: Mapping[float, AttackResult]) -> pd.DataFrame:
    """Return the shares of correct guesses at each epsilon."""
    rows = [
        (epsilon, one.accuracy, one.accuracy_without_report, one.baseline, one.bayes_bound, *one.interval())
        for epsilon, one in results.items()
    ]
    return pd.DataFrame(rows, columns=["epsilon", *_ATTACKS, "lower", "upper"])


def carriers_table(carriers: pd.DataFrame) -> Written:
    """Write the share of correct guesses from each column."""
    shown = carriers.reset_index().assign(column=[str(name) for name in carriers.index])
    shown["is_report"] = shown["is_report"].map({True: "report", False: ""})
    names = {"is_report": "", "alone": "right from it alone", "drop": "lost if shuffled"}
    return written(shown.rename(columns=names), ["column", ""])


def synthesis_table(curve: pd.DataFrame) -> Written:
    """Write the metrics side by side, the real rows last."""
    metrics = list(dict.fromkeys(curve["metric"]))
    wide = curve.pivot(index="epsilon", columns="metric", values="value")[metrics].reset_index()
    formats: dict[str, Any] = dict.fromkeys(metrics, lambda value: "" if np.isnan(value) else decimals(value))
    return written(wide, ["epsilon"], formats | {"epsilon": lambda one: "real rows" if np.isinf(one) else short(one)})


def _label(value: Any) -> str:
    return "missing" if is_missing(value) else str(value)
