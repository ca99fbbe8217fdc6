"""The base class of the naive Bayes classifiers: choice of noise, class priors, predictions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from skdp.base import ProbabilisticClassifier, TableLike
from skdp.central._supervised import Classes, SupervisedStatistic
from skdp.central.statistics import LARGEST, Noise, warn_of_few
from skdp.domain import Domain
from skdp.privacy import Share, read_share
from skdp.tables import Table

Floats = NDArray[np.float64]


class NaiveBayes(ProbabilisticClassifier, SupervisedStatistic):
    """A classifier that takes columns for independent within each class."""

    classes_: NDArray[Any]
    class_count_: Floats
    class_count_std_error_: float
    class_prior_: Floats
    domain_: Domain

    @abstractmethod
    def _noise(self, share: Share, n_columns: int) -> Noise:
        """Return the noise of what is released."""

    @abstractmethod
    def _log_likelihood(self, table: Table) -> Floats:
        """Return the logarithms of the densities of rows in each class."""

    def _settled(self, share: Share, table: Table) -> Share:
        """Spend a number on pure noise, or with its delta on Gaussian noise: whichever is less."""
        pure, n_columns = (
            replace(read_share(self.epsilon), rows=share.rows),
            len(table.names) - 1,
        )
        if pure.given is not None:
            return share
        return min(pure, share, key=lambda one: self._noise(one, n_columns).error)

    def _set_classes(self, classes: Classes, counts: Floats, error: Fraction) -> None:
        """Set the noisy numbers of rows by class, which have this standard deviation."""
        noise = float(min(error, Fraction(LARGEST)))
        if counts.sum() < 3 * noise * np.sqrt(len(counts)):
            warn_of_few()
        self.classes_, self.class_count_ = classes.values, np.maximum(counts, 0.0)
        self.class_count_std_error_ = noise
        # No class is ruled out by its noise.
        held = np.maximum(counts, max(noise, 1.0))
        self.class_prior_ = held / held.sum()

    def predict_log_proba(self, X: TableLike) -> Floats:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows, in the columns of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns, or values that `fit` does not take.
        """
        table = self._read_rows(X)
        found: Floats = log_softmax(
            np.log(self.class_prior_) + self._log_likelihood(table), axis=1
        )
        return found
