"""What private models with coefficients share: their promise, and what they say of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_names, read_input, read_numbers
from skdp.central._base import CentralEstimator
from skdp.privacy import Mu, Share, read_share


class LinearModel(CentralEstimator):
    """A model with coefficients, for rows of numbers without missing values."""

    coef_: NDArray[np.float64]
    intercept_: Any

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _check_share(self, delta: float | None) -> Share:
        """Check the promise; a delta makes a mu of a number."""
        share = self._check_promise()
        if share.given is None:
            return share if delta is None else read_share(Mu.of(self.epsilon, delta))
        if share.kind == "epsilon":
            raise TypeError("epsilon must be a number, a Rho or a Mu: a secret sample is not supported, got Sampled")
        return share

    def _respond(self, X: Any) -> NDArray[np.float64]:
        """Return the linear function of rows that the coefficients are of."""
        check_is_fitted(self)
        table = read_input(self, X, reset=False)
        check_names(self, table, self.guarantee_.scope[:-1])
        response: NDArray[np.float64] = np.stack(read_numbers(table), axis=1) @ self.coef_.T + self.intercept_
        return response
