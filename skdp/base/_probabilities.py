"""Predictions of a classifier that knows the logarithms of the probabilities of its classes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from skdp.typing import TableLike


class ProbabilisticClassifier(ClassifierMixin):
    """A classifier whose `predict_proba` and `predict` follow from its `predict_log_proba`."""

    classes_: Any

    @abstractmethod
    def predict_log_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the logarithms of the probabilities of the classes."""

    def predict_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As of `predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; each row adds up to 1.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As of `predict_log_proba`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Return the likeliest class of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As of `predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As of `predict_log_proba`.
        """
        best = self.predict_log_proba(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found
