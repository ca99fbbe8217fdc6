"""The base class of the linear models: the linear predictor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import read_numbers
from skdp.central._supervised import SupervisedStatistic

Floats = NDArray[np.float64]


class LinearModel(SupervisedStatistic):
    """A model with coefficients, for rows of numbers without missing values."""

    _takes_missing = False

    coef_: Floats
    intercept_: Any

    def _respond(self, X: Any) -> Floats:
        """Return the linear function of rows that the coefficients are of."""
        table = self._read_rows(X)
        response: Floats = (
            np.stack(read_numbers(table), axis=1) @ self.coef_.T + self.intercept_
        )
        return response
