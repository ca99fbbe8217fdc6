"""Additive models: a function of each column, over private bins."""

from skdp.central.additive._models import DPAdditiveClassifier, DPAdditiveRegressor

__all__ = ["DPAdditiveClassifier", "DPAdditiveRegressor"]
