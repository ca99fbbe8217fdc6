"""The panels of `MarginalDisplay`: one column as bars or steps, two as heat maps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import kind_of
from skdp.evaluation.displays._style import COLOURS, INK

_COLOURS = {"real": COLOURS[5], "synthetic": COLOURS[1]}
_MOST_TICKS = 8


@dataclass(frozen=True)
class Scale:
    """The labels and the pooling of the cells of a column."""

    labels: tuple[str, ...]
    places: NDArray[np.intp]
    edges: tuple[Any, ...] | None
    ordered: bool

    @classmethod
    def of(cls, values: list[Any], shares: NDArray[np.float64], edges: tuple[Any, ...] | None, most: int) -> Scale:
        """Choose the labels of a column; the least frequent of too many text values share one."""
        labels = [_label(value) for value in values]
        ordered = edges is not None or any(not pd.isna(value) and kind_of(value) == "number" for value in values)
        if ordered or len(labels) <= most:
            return cls(tuple(labels), np.arange(len(labels)), edges, ordered)
        kept = np.sort(np.argsort(-shares, kind="stable")[: most - 1])
        places = np.full(len(labels), most - 1)
        places[kept] = np.arange(most - 1)
        others = f"({len(labels) - most + 1} others)"
        return cls((*(labels[place] for place in kept), others), places, None, False)

    def pool(self, shares: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
        """Sum the shares that are drawn under one label."""
        pooled = np.zeros((len(self.labels), *np.moveaxis(shares, axis, 0).shape[1:]))
        np.add.at(pooled, self.places, np.moveaxis(shares, axis, 0))
        return np.moveaxis(pooled, 0, axis)


def draw_one(axes: Any, name: Any, scale: Scale, shares: dict[str, NDArray[np.float64]], title: str) -> None:
    """Draw the shares of one column: steps over bins, bars for values."""
    pooled = {side: scale.pool(share) for side, share in shares.items()}
    if scale.edges is not None:
        _draw_steps(axes, scale, pooled)
    else:
        _draw_bars(axes, scale, pooled)
    axes.set_title(f"{name}, {title}", loc="left", color=INK, fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)


def draw_pair(
    panels: tuple[Any, Any], names: Any, scales: Any, shares: dict[str, NDArray[np.float64]], title: str
) -> Any:
    """Draw the shares of two columns as heat maps with a common colour scale."""
    from matplotlib.colors import PowerNorm

    down, across = scales
    pooled = {side: across.pool(down.pool(share), axis=1) for side, share in shares.items()}
    # Square-root colour scale: one frequent value must not hide the differences among the others.
    norm = PowerNorm(0.5, vmin=0, vmax=max(float(share.max()) for share in pooled.values()))
    for axes, (side, share) in zip(panels, pooled.items(), strict=True):
        image = axes.imshow(share, norm=norm, cmap="Blues", aspect="auto", interpolation="nearest")
        _write_ticks(axes.xaxis, across, rotated=True)
        _write_ticks(axes.yaxis, down)
        axes.set_xlabel(str(names[1]))
        axes.set_title(side if side == "real" else f"{side}, {title}", loc="left", color=INK, fontsize="medium")
    panels[0].set_ylabel(str(names[0]))
    panels[1].tick_params(labelleft=False)
    return image


def _draw_steps(axes: Any, scale: Scale, pooled: dict[str, NDArray[np.float64]]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.ticker import EngFormatter, MaxNLocator

    edges: Any = scale.edges or ()
    bins = len(edges) - 1
    if isinstance(edges[0], date):
        edges = date2num(edges)
        locator = AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if max(map(abs, edges)) >= 10_000:
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.stairs(pooled["real"][:bins], edges, fill=True, color=_COLOURS["real"], alpha=0.6, label="real")
    axes.stairs(pooled["synthetic"][:bins], edges, color=_COLOURS["synthetic"], lw=1.6, label="synthetic")
    axes.set_ylabel("share")
    beyond = [
        f"{label}: {pooled['real'][place]:.1%} | {pooled['synthetic'][place]:.1%}"
        for place, label in enumerate(scale.labels[bins:], start=bins)
        if pooled["real"][place] or pooled["synthetic"][place]
    ]
    if beyond:
        axes.set_xlabel("\n".join(beyond), fontsize="small")


def _draw_bars(axes: Any, scale: Scale, pooled: dict[str, NDArray[np.float64]]) -> None:
    """Draw labels of numbers upright and rotate those of text."""
    for side, shift in (("real", -0.2), ("synthetic", 0.2)):
        places, style = np.arange(len(scale.labels)) + shift, {"color": _COLOURS[side], "label": side}
        if scale.ordered:
            axes.bar(places, pooled[side], width=0.4, **style)
        else:
            axes.barh(places, pooled[side], height=0.4, **style)
    if scale.ordered:
        _write_ticks(axes.xaxis, scale)
        axes.set_ylabel("share")
    else:
        _write_ticks(axes.yaxis, scale)
        axes.invert_yaxis()
        axes.set_xlabel("share")


def _write_ticks(axis: Any, scale: Scale, *, rotated: bool = False) -> None:
    """Write every label; for numbers and bins a few at equal distances, and those outside the bins."""
    bins = len(scale.edges) - 1 if scale.edges else len(scale.labels)
    step = -(-bins // _MOST_TICKS) if scale.ordered else 1
    places = [*range(0, bins, step), *range(bins, len(scale.labels))]
    size = "small" if len(places) <= 10 else "x-small"
    axis.set_ticks(places, [_short(scale.labels[place]) for place in places], fontsize=size)
    if rotated and max(map(len, scale.labels)) > 3:
        axis.set_tick_params(rotation=90)


def _label(value: Any) -> str:
    if pd.isna(value):
        return "missing"
    return f"{value:g}" if kind_of(value) == "number" else str(value)


def _short(label: str) -> str:
    return label if len(label) <= 20 else f"{label[:19]}…"
