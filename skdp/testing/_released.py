"""What a fitted estimator has released, as text that can be compared."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone


def fitted(estimator: Any, X: Any, **parameters: Any) -> Any:
    """Fit a clone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a release may say that it refused, or drowned
        return clone(estimator).set_params(**parameters).fit(X)


def released_attributes(estimator: Any) -> dict[str, Any]:
    """Return all that a fit has set."""
    parameters = estimator.get_params(deep=False)
    return {name: value for name, value in vars(estimator).items() if name not in parameters}


def released_text(estimator: Any) -> str:
    """Write all that was released as text, to compare releases."""
    released = {name: _plain(value) for name, value in released_attributes(estimator).items() if name[0] != "_"}
    with np.printoptions(threshold=10**6, floatmode="unique"):
        return repr({name: value for name, value in released.items() if name != "guarantee_"})


def _plain(value: Any) -> Any:
    """Take objects apart whose text is but an address in memory."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if repr(value) == object.__repr__(value):
        return type(value).__name__, {name: _plain(part) for name, part in vars(value).items()}
    return value
