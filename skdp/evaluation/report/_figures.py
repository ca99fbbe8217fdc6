"""Figures of the report, as SVG text: displays in one style and size, with the legend below."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pandas as pd

from skdp.domain import Domain
from skdp.evaluation.attacks import AttackResult
from skdp.evaluation.displays import (
    COLOURS,
    INK,
    CountEstimateDisplay,
    FairnessDisplay,
    LeakageDisplay,
    MarginalDisplay,
    PrivacyCurveDisplay,
    draw_legend,
    label_epsilons,
    legend_entry,
)
from skdp.evaluation.report._counts import CountStudy
from skdp.evaluation.report._experiments import LEFT_OUT

_SIZE = (5.2, 3.9)  # inches: text of 10.5 points can be read on a telephone, too
_STYLE = {
    "font.size": 10.5,
    "font.family": "sans-serif",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "skdp",
}
# Those of matplotlib, by which it lays out.
_FONTS = re.compile(r"'DejaVu Sans'[^;\"]*sans-serif\b")
_MOST_CELLS = 20
POSTPROCESS_NAMES = {
    "none": "unbiased",
    "clip": "clipped to [0, n]",
    "simplex": "simplex",
    "power": "power law",
}
"""The names of the values of ``postprocess`` in the report."""


def counts_figure(release: pd.DataFrame) -> str:
    height = 1.6 + 0.3 * max(3, min(len(release), _MOST_CELLS))
    with _new_panels(height=height) as (axes,):
        # The true counts are drawn beside the estimates: the page is about their errors.
        CountEstimateDisplay(
            release[["count", "lower", "upper"]], true_counts=release["true"]
        ).plot(max_values=_MOST_CELLS, ax=axes)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.locator_params(axis="x", nbins=5)
        return _svg(axes, columns=3)


def error_figure(
    study: CountStudy, norm: str, by_trust: pd.DataFrame | None = None
) -> str:
    """Draw the count error by epsilon: means with a band, the closed form, and what other models of trust have."""
    summary = study.summary()
    # Where nothing is repaired, all lines are the same: each shows in the gaps of the
    # next one.
    dashes = {"none": "-", "clip": "--", "simplex": "-.", "power": ":"}
    with _new_panels() as (axes,):
        groups = summary.groupby("postprocess", sort=False)
        # Of errors over many releases, the band is drawn of one line only, as all
        # would hide each other.
        for colour, (name, errors) in zip(COLOURS, groups, strict=False):
            epsilons = errors["epsilon"]
            axes.plot(
                epsilons,
                errors[f"{norm}_mean"],
                dashes[str(name)],
                color=colour,
                marker="o",
                ms=3.5,
                label=f"{POSTPROCESS_NAMES[str(name)]}, mean",
            )
            if name == "none":
                style = {"color": colour, "alpha": 0.15, "lw": 0}
                ends = errors[f"{norm}_q05"], errors[f"{norm}_q95"]
                label = "unbiased, 5 % to 95 %"
                axes.fill_between(epsilons, *ends, label=label, **style)
        column, label = "l1_mean", "expected mean"
        if norm == "l2":
            column, label = "l2_rms", "closed form, rms"
        expected = study.expected[column]
        axes.plot(expected.index, expected, color=INK, lw=1.2, label=label)
        if by_trust is not None:
            style = {"color": INK, "lw": 1, "ms": 4, "mfc": "none"}
            for name, form in (("shuffled", "s--"), ("central", "^--")):
                rms = by_trust[name]
                axes.plot(rms.index, rms, form, label=f"{name}, rms", **style)
        label_epsilons(axes, study.expected.index)
        axes.set_yscale("log")
        _write_out(axes.yaxis)
        axes.set_ylabel("records")
        axes.set_title(f"{norm.upper()} error of the counts")
        axes.legend()
        return _svg(axes, columns=2)


def scores_figure(scores: pd.DataFrame, metric: str) -> str:
    """Draw a score by epsilon, one line per classifier, with lines for the models without privacy."""
    scores = scores[scores["metric"] == metric]
    is_absent = scores["epsilon"] == LEFT_OUT
    curve = scores[~is_absent].assign(group=scores["classifier"])
    repeats = curve["repeat"].nunique()
    # One split has no spread.
    band: Literal["std"] | None = "std" if repeats > 1 else None
    with _new_panels() as (axes,):
        PrivacyCurveDisplay(curve).plot(band=band, ax=axes)
        axes.set_title(metric[0].upper() + metric[1:], parse_math=False)
        # A model without the columns has no epsilon: it is a line across the panel.
        absent = scores[is_absent].groupby("classifier", sort=False)["value"].mean()
        for colour, level in zip(COLOURS, absent, strict=False):
            axes.axhline(level, color=colour, ls=":", lw=1.4)
        extra = [legend_entry("columns left out", ls=":", lw=1.4)]
        spread = f"± 1 standard deviation over {repeats} repeats"
        names = {
            "without noise": "not private",
            spread: f"± 1 sd over {repeats} splits",
        }
        return _svg(axes, columns=2, extra=extra, names=names)


def curve_figure(curve: pd.DataFrame, metric: str, baseline: str) -> str:
    with _new_panels(height=3.4) as (axes,):
        rows = curve[curve["metric"] == metric]
        PrivacyCurveDisplay(rows).plot(band=None, ax=axes)
        axes.set_title(metric[0].upper() + metric[1:], parse_math=False)
        named = {"everybody": "synthetic rows", "without noise": baseline}
        return _svg(axes, columns=2, names=named)


def fairness_figure(reports: Mapping[str, pd.DataFrame]) -> str:
    with _new_panels(rows=5, height=8.6, ratios=[2, 2, 2, 3, 1.2]) as panels:
        FairnessDisplay(reports, confidence_level=0.95).plot(ax=panels)
        return _svg(panels[0], columns=2)


def leakage_figure(results: Mapping[float, AttackResult], column: Any) -> str:
    with _new_panels(height=4.2) as (axes,):
        # The page is narrower than a figure of its own.
        LeakageDisplay(results).plot(ax=axes)
        axes.set_ylabel("guessed right (share)")
        axes.set_title(f"Guesses of {_short(column)}", parse_math=False)
        return _svg(axes, columns=2)


def marginal_figure(
    real: pd.DataFrame, synthetic: pd.DataFrame, column: Any, domain: Domain
) -> str:
    with _new_panels(height=3.4) as (axes,):
        MarginalDisplay.from_tables(real, synthetic, [column], domain=domain, ax=axes)
        return _svg(axes, columns=2)


@contextmanager
def _new_panels(
    *, height: float = _SIZE[1], rows: int = 1, ratios: list[float] | None = None
) -> Iterator[Any]:
    """Yield the panels of a figure in the report's style, without touching the user's backend or settings."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    class Rounded(ConstrainedLayoutEngine):
        def execute(self, fig: Figure) -> None:
            """Lay out the panels without last bits: the solver adds floats in the order of its addresses in memory."""
            super().execute(fig)
            # The page of a seed is the same bit for bit.
            for panel in fig.axes:
                panel.set_position(np.round(panel.get_position().bounds, 9))
                panel.set_in_layout(True)

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The reader's browser draws the letters.
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        figure = Figure(layout=Rounded(), figsize=(_SIZE[0], height))
        yield figure.subplots(rows, squeeze=False, height_ratios=ratios).ravel()


def _svg(
    axes: Any, *, columns: int, extra: Any = (), names: Mapping[str, str] | None = None
) -> str:
    """Move the legend of a panel below the figure, where it covers nothing, and write the figure."""
    # Displays draw a legend into given panels, where it would cover lines.
    legend = axes.get_legend()
    if legend is not None:
        # Of error bars, the legend's own handles have lost their markers.
        drawn = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        handles = []
        for label, entry in zip(legend.get_texts(), legend.legend_handles, strict=True):
            name = label.get_text()
            handle = drawn.get(name, entry)
            handle.set_label((names or {}).get(name, name))
            handles.append(handle)
        legend.remove()
        place = {"loc": "outside lower left", "ncols": columns}
        draw_legend(axes.figure, [*handles, *extra], **place)
    text = io.StringIO()
    # No date: the file is reproducible.
    axes.figure.savefig(text, format="svg", metadata={"Date": None})
    return _FONTS.sub("system-ui, sans-serif", text.getvalue())  # as the page


def _write_out(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, as many as matplotlib would label."""
    from matplotlib.ticker import LogFormatterMathtext

    class Plain(LogFormatterMathtext):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:,.10g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain(minor_thresholds=(1, 0.4)))


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= 30 else f"{text[:29]}…"
