"""The page of a study of fairness, and its tables as files."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skdp.markup import html_table

_MEASURES = (
    "statistical_parity_difference",
    "equal_opportunity_difference",
    "average_odds_difference",
    "accuracy_difference",
)
_LEFT_OUT = "left out"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;color:#222;max-width:70rem;margin:2rem auto;"
    "padding:0 1rem}table{border-collapse:collapse;font-size:.9rem}th,td{padding:.2rem"
    " .6rem;border-bottom:1px solid #ddd;text-align:right;font-variant-numeric:"
    "tabular-nums;white-space:nowrap}td:nth-child(-n+2),th:nth-child(-n+2){text-align:"
    "left}.wide{overflow-x:auto}"
    ".note{background:#fff3cd;padding:.6rem 1rem}"
)


def write_study(study: Any, folder: Any, title: str) -> Path:
    """Write the scores, means and comparisons as CSV files, and a page of tables."""
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"folder must be a path, got {type(folder).__name__}")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    intervals = study.intervals()
    comparisons = _compared_with_left_out(study)
    study.table.to_csv(path / "scores.csv", index=False)
    intervals.to_csv(path / "means.csv", index=False)
    comparisons.to_csv(path / "less_left_out.csv", index=False)
    page = path / "index.html"
    page.write_text(_page(study, intervals, comparisons, title), encoding="utf-8")
    return page


def _compared_with_left_out(study: Any) -> pd.DataFrame:
    """Compare every method with the columns left out; p-values hold for all of them together."""
    methods = list(study.table["method"].unique())
    others = [name for name in methods if name != _LEFT_OUT]
    if _LEFT_OUT not in methods or not others:
        return pd.DataFrame()
    known = set(study.table["metric"])
    metrics = [name for name in ("accuracy", *_MEASURES) if name in known]
    table: pd.DataFrame = study.compare(others, _LEFT_OUT, metric=metrics)
    return table


def _page(
    study: Any, intervals: pd.DataFrame, comparisons: pd.DataFrame, title: str
) -> str:
    n_fits = len(study.table.drop_duplicates(["table", "method", "epsilon", "split"]))
    n_splits = study.table["split"].nunique()
    minutes = _seconds_of_fits(study.table).sum() / 60
    parts = [
        f"<h1>{escape(title)}</h1>",
        (
            '<p class="note">Scores are computed from true rows and groups: the page '
            "is for public tables.</p>"
        ),
        (
            f"<p>{n_fits:,} fits on {n_splits} random splits, which are the same for "
            f"all methods; {minutes:,.1f} minutes of fits. Differences are unprivileged"
            " less privileged: 0 is parity. Standard errors and intervals are corrected "
            "for the rows that splits share (Nadeau and Bengio 2003).</p>"
        ),
    ]
    if comparisons.empty:
        parts.append(
            "<p>The model without the protected columns was not fitted, so it cannot "
            "be told whether reports, or what they replace, change anything: add the "
            "baseline “left out”.</p>"
        )
    else:
        parts.append(
            "<p>“Less left out” is each method less the same model without the "
            "protected columns, in pairs of splits, with 95 % intervals. Adjusted "
            "p-values hold for all rows of this page together (Holm 1979). An interval"
            " that holds 0 does not show that a method is fairer than no column.</p>"
        )
    for metric in (*_MEASURES, "accuracy"):
        rows = intervals[intervals["metric"] == metric]
        if rows["mean"].isna().all():
            continue
        parts.append(f"<h2>{escape(_words(metric))}</h2>")
        if not comparisons.empty:
            of_metric = comparisons[comparisons["metric"] == metric]
            parts.append("<h3>Less left out</h3>")
            parts.append(_table(of_metric.drop(columns="metric")))
        means = _table(rows.drop(columns="metric"))
        parts.append(f"<details><summary>Means</summary>{means}</details>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta '
        'name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def _seconds_of_fits(table: pd.DataFrame) -> pd.Series:
    keys = ["table", "method", "epsilon", "split"]
    return table.drop_duplicates(keys)["seconds"]


def _table(table: pd.DataFrame) -> str:
    """Write a table, with three decimals and an epsilon in short."""
    texts = pd.DataFrame(index=table.index)
    for name, column in table.items():
        if name == "epsilon":
            texts[name] = [
                f"{value:g}" if np.isfinite(value) else "" for value in column
            ]
        elif str(name).endswith("p_value"):
            texts[name] = [_p_value(value) for value in column]
        elif column.dtype.kind == "f":
            texts[name] = column.map("{:.3f}".format)
        else:
            texts[name] = column.astype(str)
    texts.columns = [_words(str(name)) for name in texts]
    return f'<div class="wide">{html_table(texts)}</div>'


def _words(name: str) -> str:
    return name.replace("_", " ")


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
