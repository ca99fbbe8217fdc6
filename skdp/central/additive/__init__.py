"""Additive models: a function of each column, over private bins."""

from skdp.central.additive._models import DPAdditiveClassifier as DPAdditiveClassifier
from skdp.central.additive._models import DPAdditiveRegressor as DPAdditiveRegressor
