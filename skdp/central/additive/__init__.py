"""Additive models: a function of each column, over private bins."""

from skdp.central.additive._classifier import (
    DPAdditiveClassifier as DPAdditiveClassifier,
)
from skdp.central.additive._regressor import DPAdditiveRegressor as DPAdditiveRegressor
