"""Figures of the report, as SVG text."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd

from skdp.evaluation._count_study import CountStudy
from skdp.evaluation._drawing import COLOURS, INK, label_epsilons
from skdp.evaluation._model_study import LEFT_OUT, NOT_PRIVATE

_GRID = "#dddddd"
_STYLE = {
    "figure.figsize": (5.2, 3.7),
    "font.size": 10.5,
    "font.family": "sans-serif",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "skdp",
}
POSTPROCESS_NAMES = {
    "none": "unbiased",
    "clip": "clipped to [0, n]",
    "simplex": "simplex",
    "mle": "maximum likelihood",
}
"""What the report calls the values of ``postprocess``."""


def error_figure(study: CountStudy, norm: str) -> str:
    """Draw the count error by epsilon: means with a band, and what the closed form says.

    Parameters
    ----------
    study : CountStudy
        The study.
    norm : {"l1", "l2"}
        Which error.

    Returns
    -------
    str
        SVG.
    """
    summary = study.summary()
    with _figure() as (figure, axes):
        for colour, (name, group) in zip(COLOURS, summary.groupby("postprocess", sort=False), strict=False):
            dashes = {"none": "-", "clip": "--", "simplex": "-.", "mle": ":"}[str(name)]
            label = f"{POSTPROCESS_NAMES[str(name)]}, mean"
            axes.plot(group["epsilon"], group[f"{norm}_mean"], dashes, color=colour, marker="o", ms=3.5, label=label)
            if name == "none":
                band = group[f"{norm}_q05"], group[f"{norm}_q95"]
                axes.fill_between(
                    group["epsilon"], *band, color=colour, alpha=0.15, lw=0, label="unbiased, 5 % to 95 %"
                )
        column, label = {
            "l1": ("l1_mean", "expected mean (normal errors)"),
            "l2": ("l2_rms", "closed form, root mean square"),
        }[norm]
        axes.plot(study.expected.index, study.expected[column], color=INK, lw=1.2, label=label)
        label_epsilons(axes, study.expected.index)
        axes.set_yscale("log")
        _thousands(axes)
        axes.set_title(f"{norm.upper()} error of the counts")
        axes.legend()
        return _svg(figure)


def releases_figure(study: CountStudy, cell: Any) -> str:
    """Draw the estimates of one cell with their intervals by epsilon, and the truth.

    Parameters
    ----------
    study : CountStudy
        The study.
    cell : label or tuple
        The cell.

    Returns
    -------
    str
        SVG.
    """
    rows = study.releases.xs(cell, level=list(range(1, study.releases.index.nlevels)))
    with _figure() as (figure, axes):
        axes.axhline(rows["true"].iloc[0], color=INK, lw=1.2, label="true count")
        reach = [rows["count"] - rows["lower"], rows["upper"] - rows["count"]]
        axes.errorbar(
            rows.index,
            rows["count"],
            yerr=reach,
            fmt="o",
            color=COLOURS[0],
            capsize=3,
            label="estimate, 95 % interval",
        )
        label_epsilons(axes, rows.index)
        _thousands(axes)
        axes.set_title(", ".join(map(str, cell)) if isinstance(cell, tuple) else str(cell))
        axes.legend()
        return _svg(figure)


def scores_figure(scores: pd.DataFrame, metric: str) -> str:
    """Draw a score by epsilon, mean ± standard deviation, with lines for the models without privacy.

    Parameters
    ----------
    scores : pandas.DataFrame
        What `model_study` returns.
    metric : str
        Which score.

    Returns
    -------
    str
        SVG.
    """
    chosen = scores[scores["metric"] == metric]
    with _figure() as (figure, axes):
        for index, (name, group) in enumerate(chosen.groupby("classifier", sort=False)):
            by_setting = group.groupby("setting", sort=False)["value"].agg(["mean", "std"])
            private = by_setting.drop(index=[NOT_PRIVATE, LEFT_OUT])
            colour = COLOURS[index]
            axes.errorbar(
                private.index.astype(float) * (0.97 + 0.06 * index),  # side by side, not on top of each other
                private["mean"],
                yerr=None if private["std"].isna().all() else private["std"],
                fmt="o-",
                ms=4,
                color=colour,
                capsize=3,
                label=name,
            )
            for setting, dashes in ((NOT_PRIVATE, "--"), (LEFT_OUT, ":")):
                axes.axhline(by_setting.loc[setting, "mean"], color=colour, ls=dashes, lw=1.2)
        label_epsilons(axes, [setting for setting in chosen["setting"].unique() if not isinstance(setting, str)])
        axes.set_title(metric[0].upper() + metric[1:])
        for setting, dashes in ((NOT_PRIVATE, "--"), (f"columns {LEFT_OUT}", ":")):
            axes.plot([], [], color=INK, ls=dashes, lw=1.2, label=setting)
        figure.legend(loc="outside lower center", ncols=2)
        return _svg(figure)


class _figure:
    """A matplotlib figure in the report's style, without touching the user's backend or settings."""

    def __enter__(self) -> tuple[Any, Any]:
        import matplotlib
        from matplotlib.figure import Figure

        self._context = matplotlib.rc_context(_STYLE)
        self._context.__enter__()
        figure = Figure(layout="constrained")
        return figure, figure.add_subplot()

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


def _thousands(axes: Any) -> None:
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel("records")


def _svg(figure: Any) -> str:
    text = io.StringIO()
    # No date: the same study gives the same file.
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
