"""Figures of fairness, marginals, counts and strategies."""

from skdp.evaluation.displays._counts import CountEstimateDisplay
from skdp.evaluation.displays._fairness import FairnessDisplay
from skdp.evaluation.displays._marginals import MarginalDisplay
from skdp.evaluation.displays._strategies import StrategyDisplay
from skdp.evaluation.displays._style import (
    COLOURS,
    INK,
    MARKERS,
    PanelDisplay,
    check_count,
    check_table,
    draw_legend,
    import_pyplot,
    interval_label,
    label_epsilons,
    label_rows,
    new_grid,
    tidy_axes,
)

__all__ = [
    "COLOURS",
    "INK",
    "MARKERS",
    "CountEstimateDisplay",
    "FairnessDisplay",
    "MarginalDisplay",
    "PanelDisplay",
    "StrategyDisplay",
    "check_count",
    "check_table",
    "draw_legend",
    "import_pyplot",
    "interval_label",
    "label_epsilons",
    "label_rows",
    "new_grid",
    "tidy_axes",
]
