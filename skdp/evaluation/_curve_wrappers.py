"""What stands in for the privatising step in a privacy curve: no noise, or one release of the rows to predict."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from skdp.evaluation._curve_cache import digest
from skdp.local import OnFitOnly


class NoiselessEncoding(OnFitOnly):
    """Encode all rows without noise: what a privatising step is compared with. It protects nobody."""

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Encode the rows of `fit`."""
        return self.fit(X, y).transform(X)

    def encode(self, X: Any) -> Any:
        """Do what `transform` does."""
        return self.transform(X)

    @property
    def guarantee_(self) -> Any:
        """Nothing is promised."""
        raise AttributeError("an encoding without noise promises nothing")


class OneRelease(MetaEstimatorMixin, BaseEstimator):
    """Privatise rows once: if the rows that were last given to `transform` come again, return the same release."""

    # A model that is asked for labels and then for probabilities privatises its rows each time: these would be two
    # releases, and two scores of different rows.

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a clone of the transformer."""
        self._start().fit(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit a clone of the transformer, and privatise the rows."""
        return self._start().fit_transform(X, y, **params)

    def _start(self) -> Any:
        self.transformer_ = clone(self.transformer)
        self._last: tuple[Any, Any] | None = None
        return self.transformer_

    def transform(self, X: Any) -> Any:
        """Privatise rows, unless they are those of the last call."""
        if self._last is None or digest(self._last[0]) != digest(X):
            self._last = X, self.transformer_.transform(X)
        return self._last[1]

    def set_output(self, *, transform: Any = None) -> Self:
        """Let the transformer return another kind of frame."""
        for transformer in (self.transformer, getattr(self, "transformer_", self.transformer)):
            transformer.set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns of the release."""
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.transformer)
