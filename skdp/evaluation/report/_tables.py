"""The tables of the report and the formats of their numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.attacks import AttackResult
from skdp.evaluation.report._counts import CountStudy
from skdp.evaluation.report._experiments import DEBIASED, LEFT_OUT
from skdp.evaluation.report._figures import POSTPROCESS_NAMES
from skdp.tables import flatten_index, is_missing

SHOWN = ("statistical parity difference", "equal opportunity difference")
"""The metrics of fairness that have a figure."""

_ATTACKS = (
    "with the report",
    "without the report",
    "prior",
    "bound for the report alone",
)
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
    return (
        "undefined"
        if np.isnan(value)
        else f"{value:.4f}".replace("-", "−").replace("inf", "∞")
    )


Written = dict[str, Any]
"""A table as text: its columns, and its rows in groups. The first cell of a row is its label."""


def written(
    frame: pd.DataFrame,
    labels: Sequence[str],
    group: str | None = None,
    formats: Mapping[str, Callable[[Any], str]] | None = None,
) -> Written:
    """Write a table: an epsilon in short, other fractions with four decimals, unless another format is given."""
    if group is not None and frame[group].is_unique:
        labels, group = [group, *labels], None
    chosen = {
        name: decimals if frame[name].dtype.kind == "f" else str
        for name in frame.columns
    }
    chosen |= {"epsilon": short} | dict(formats or {})
    cells = {name: list(map(chosen[name], frame[name])) for name in frame.columns}
    names = [
        ", ".join(filter(None, parts))
        for parts in zip(*(cells[name] for name in labels), strict=True)
    ]
    rest = [name for name in frame.columns if name not in (*labels, group)]
    rows = zip(names, *(cells[name] for name in rest), strict=True)
    prefix = "epsilon " if group == "epsilon" else ""
    of = (
        [""] * len(names) if group is None else [prefix + cell for cell in cells[group]]
    )
    groups = itertools.groupby(zip(of, rows, strict=True), key=lambda pair: pair[0])
    return {
        "columns": [", ".join(filter(None, map(str, labels))), *map(str, rest)],
        "groups": [(name, [row for _, row in part]) for name, part in groups],
        "n_rows": len(names),
    }


def counts_table(study: CountStudy) -> Written:
    numbers = {
        "true": "true count",
        "count": "estimate",
        "std_error": "std. error",
        "lower": "lower",
        "upper": "upper",
    }
    flat = flatten_index(study.releases.rename(columns=numbers))
    names = list(flat.columns[1 : study.releases.index.nlevels])
    formats = {**dict.fromkeys(names, label), **dict.fromkeys(numbers.values(), whole)}
    return written(flat, names, "epsilon", formats)


def errors_table(study: CountStudy) -> Written:
    """Write the errors of the counts by epsilon, without redundant rows."""
    summary = study.summary()
    named = summary.assign(postprocess=summary["postprocess"].map(POSTPROCESS_NAMES))
    names = {
        "epsilon": "epsilon",
        "postprocess": "estimate",
        **_ERRORS,
        "coverage": "95 % intervals hold",
    }
    errors = named[list(names)].rename(columns=names)
    # If no unbiased count is negative, the other estimates are the same.
    errors = errors[
        ~errors[["epsilon", "mean L1", "mean L2", "rms L2"]].round(6).duplicated()
    ]
    formats = {
        **dict.fromkeys(_ERRORS.values(), whole),
        "95 % intervals hold": lambda share: f"{share:.1%}",
    }
    return written(errors, ["estimate"], "epsilon", formats)


def scores_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Write the mean and standard deviation of each score, the models without privacy first."""
    by_classifier = scores.sort_values("classifier", kind="stable")
    grouped = by_classifier.groupby(["classifier", "setting", "metric"], sort=False)[
        "value"
    ].agg(["mean", "std"])
    text = grouped["mean"].map(decimals) + grouped["std"].map(
        lambda sd: "" if np.isnan(sd) else f" ± {sd:.4f}"
    )
    wide = text.unstack("metric", sort=False).reset_index()
    first = wide["setting"].map(
        lambda setting: (
            1 if setting == LEFT_OUT else 0 if isinstance(setting, str) else 2
        )
    )
    wide = wide.assign(place=first).sort_values(["classifier", "place"], kind="stable")
    wide["setting"] = [
        setting if isinstance(setting, str) else f"ε = {short(setting)}"
        for setting in wide["setting"]
    ]
    return (
        wide.drop(columns="place")
        .rename(columns={"setting": "columns are"})
        .rename_axis(columns=None)
    )


def audit_table(audits: Mapping[float, Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """Arrange the differences of all audits in one table."""
    rows: list[dict[str, Any]] = []
    for epsilon, reports in audits.items():
        by_metric = {
            name: report.set_index("metric") for name, report in reports.items()
        }
        for metric in SHOWN:
            values = {
                name: table.loc[metric, "value"] for name, table in by_metric.items()
            }
            ends = by_metric[DEBIASED].loc[metric, ["lower", "upper"]]
            rows.append({"epsilon": epsilon, "metric": metric, **values, **ends})
    return pd.DataFrame(rows)


def leakage_table(results: Mapping[float, AttackResult]) -> pd.DataFrame:
    """Return the shares of correct guesses at each epsilon."""
    rows = [
        (
            epsilon,
            one.accuracy,
            one.accuracy_without_report,
            one.baseline,
            one.bayes_bound,
            *one.interval(),
        )
        for epsilon, one in results.items()
    ]
    return pd.DataFrame(rows, columns=["epsilon", *_ATTACKS, "lower", "upper"])


def values_table(values: pd.DataFrame) -> Written:
    """Write what is learned of each value, with intervals."""

    def between(name: str, form: str, nothing: str = "undefined") -> list[str]:
        rows = values[[name, f"{name}_lower", f"{name}_upper"]].to_numpy()
        return [
            nothing
            if np.isnan(row[0])
            else f"{{0:{form}}} ({{1:{form}}} to {{2:{form}}})".format(*row)
            for row in rows
        ]

    shown = {
        "value": [label(value) for value in values.index],
        "of the rows": [f"{share:.1%}" for share in values["share"]],
        "AUC": between("auc", ".3f"),
        "AUC without the report": [
            f"{auc:.3f}" for auc in values["auc_without_report"]
        ],
        "lift": between("lift", ".1f"),
        "precision": between("precision", ".0%", "not guessed"),
    }
    return written(pd.DataFrame(shown), ["value"])


def carriers_table(carriers: pd.DataFrame) -> Written:
    """Write the share of correct guesses from each column."""
    kinds = carriers["is_report"].map({True: " (report)", False: ""})
    shown = {
        "column": [f"{name}{kind}" for name, kind in kinds.items()],
        "right from it alone": carriers["alone"].to_numpy(),
        "lost if shuffled": carriers["drop"].to_numpy(),
    }
    return written(pd.DataFrame(shown), ["column"])


def synthesis_table(curve: pd.DataFrame) -> Written:
    """Write the metrics side by side, the real rows last."""
    metrics = list(dict.fromkeys(curve["metric"]))
    wide = curve.pivot(index="epsilon", columns="metric", values="value")[
        metrics
    ].reset_index()
    formats: dict[str, Any] = dict.fromkeys(
        metrics, lambda value: "" if np.isnan(value) else decimals(value)
    )
    return written(
        wide,
        ["epsilon"],
        None,
        formats | {"epsilon": lambda one: "real rows" if np.isinf(one) else short(one)},
    )


def label(value: Any) -> str:
    """Write a value of the data."""
    return "missing" if is_missing(value) else str(value)
