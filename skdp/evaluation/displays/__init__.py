"""Figures of curves, fairness, marginals, shapes and counts."""

from skdp.evaluation.displays._counts import (
    CountEstimateDisplay as CountEstimateDisplay,
)
from skdp.evaluation.displays._curves import PrivacyCurveDisplay as PrivacyCurveDisplay
from skdp.evaluation.displays._fairness import FairnessDisplay as FairnessDisplay
from skdp.evaluation.displays._marginals import MarginalDisplay as MarginalDisplay
from skdp.evaluation.displays._shapes import ShapeDisplay as ShapeDisplay
from skdp.evaluation.displays._style import COLOURS as COLOURS
from skdp.evaluation.displays._style import INK as INK
from skdp.evaluation.displays._style import PanelDisplay as PanelDisplay
from skdp.evaluation.displays._style import draw_legend as draw_legend
from skdp.evaluation.displays._style import import_pyplot as import_pyplot
from skdp.evaluation.displays._style import interval_label as interval_label
from skdp.evaluation.displays._style import label_epsilons as label_epsilons
from skdp.evaluation.displays._style import legend_entry as legend_entry
from skdp.evaluation.displays._style import new_grid as new_grid
from skdp.evaluation.displays._style import tidy_axes as tidy_axes
