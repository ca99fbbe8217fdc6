"""Naive Bayes classifiers from private counts and sums by class."""

from skdp.central.naive_bayes._categorical import DPCategoricalNB
from skdp.central.naive_bayes._gaussian import DPGaussianNB

__all__ = ["DPCategoricalNB", "DPGaussianNB"]
