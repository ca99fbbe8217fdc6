"""The panels of `FairnessDisplay`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdp.evaluation.displays._style import COLOURS, INK, MARKERS, check_table, tidy_axes

PANELS = {
    "rate": ("Rates of groups", r"\brate\b"),
    "difference": ("Differences (0 is parity)", r"difference|largest − smallest"),
}
"""The title of each panel, and the pattern of the names of its metrics."""

_RATE_OF_GROUP = r"^(?P<metric>.* rate), (?P<group>(?:un)?privileged)$"  # the name of a rate in reports of two groups
_HEADER = "\0header"
_ALONE = "\0alone"


def tidy_report(name: str, report: Any) -> pd.DataFrame:
    """Add the missing columns of the display to a report."""
    check_table(report, f"report {name!r}", ("metric", "value"))
    check_table(report, f"report {name!r}", (), numbers=[one for one in ("value", "lower", "upper") if one in report])
    columns: dict[str, Any] = {"report": [str(name)] * len(report), "metric": report["metric"].astype(str).to_list()}
    for column, otherwise in (("definition", ""), ("group", None)):
        values = list(report[column]) if column in report else [otherwise] * len(report)
        columns[column] = pd.Series(values, dtype=object)
    for column in ("value", "lower", "upper"):
        columns[column] = report[column].to_numpy(dtype=float) if column in report else np.full(len(report), np.nan)
    table = pd.DataFrame(columns)
    parts = table["metric"].str.extract(_RATE_OF_GROUP)
    named = parts["group"].notna()
    table.loc[named, ["metric", "group"]] = parts[named]
    return table


def rows_of(data: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the rows of a panel."""
    metric = data["metric"]
    is_difference = metric.str.contains(PANELS["difference"][1])
    if kind == "difference":
        return data[is_difference]
    return data[metric.str.contains(PANELS["rate"][1]) & ~is_difference & ~metric.str.contains("/")]


def list_lines(table: pd.DataFrame) -> Iterator[tuple[str, Any, str]]:
    """Return the lines of a panel: a heading and one line per group, or one line for a metric without groups."""
    for metric in table["metric"].unique():
        groups = list(dict.fromkeys(map(_key, table.loc[table["metric"] == metric, "group"])))
        if _ALONE in groups:
            yield metric, _ALONE, metric
        named = [group for group in groups if group != _ALONE]
        if named and _ALONE not in groups:
            yield metric, _HEADER, metric
        for group in named:
            yield metric, group, ", ".join(map(str, group)) if isinstance(group, tuple) else str(group)


def draw_panel(axes: Any, kind: str, table: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw the values as dots and their intervals as bars, with a colour and a marker for each report."""
    lines = list(list_lines(table))
    places = {(metric, group): place for place, (metric, group, _) in enumerate(lines)}
    for index, name in enumerate(names):
        rows = table[table["report"] == name]
        shift = 0.6 * ((index + 0.5) / len(names) - 0.5)
        at = np.array([places[m, _key(g)] + shift for m, g in zip(rows["metric"], rows["group"], strict=True)])
        bounded = np.isfinite(rows["lower"].to_numpy()) & np.isfinite(rows["upper"].to_numpy())
        colour = COLOURS[index % len(COLOURS)]
        axes.hlines(at[bounded], rows["lower"][bounded], rows["upper"][bounded], color=colour, lw=2, alpha=0.6)
        axes.plot(rows["value"], at, MARKERS[index % len(MARKERS)], color=colour, ms=5.5, label=str(name))
    _mark_undefined(axes, table, places)
    if kind == "difference":
        axes.axvline(0, color=INK, lw=1.2)
    tidy_axes(axes)
    axes.grid(False, axis="y")
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), [label for _, _, label in lines])
    for (_, group, _), tick in zip(lines, axes.get_yticklabels(), strict=True):
        tick.set_fontweight("bold" if group is _HEADER else "normal")
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=6)
    axes.set_title(PANELS[kind][0], loc="left", color=INK, fontsize="medium")


def _mark_undefined(axes: Any, table: pd.DataFrame, places: dict[Any, int]) -> None:
    for (metric, group), rows in table.groupby(["metric", table["group"].map(_key)], dropna=False, sort=False):
        if rows["value"].isna().all():
            text = {"color": INK, "fontsize": "small", "va": "center", "style": "italic"}
            axes.text(0.02, places[metric, group], "undefined", transform=axes.get_yaxis_transform(), **text)


def _key(group: Any) -> Any:
    """Return the key of a group; that of a value without a group is its own name."""
    return _ALONE if group is None or (isinstance(group, float) and np.isnan(group)) else group
