"""The privatising step of an estimator, and its seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from skdp.evaluation.curves._cache import digest
from skdp.local import OnFitOnly, PosteriorFeatures


@dataclass(frozen=True)
class Step:
    """The step of an estimator whose epsilon varies."""

    path: str
    outer: str
    epsilon: str
    encodes: bool
    releases: bool
    fit_only: bool
    kind: str

    @classmethod
    def find(cls, estimator: Any, param_name: Any) -> Self:
        """Find the step with a given parameter."""
        if not isinstance(param_name, str):
            raise TypeError(f"param_name must be a str, got {type(param_name).__name__}")
        params = estimator.get_params(deep=True)
        if param_name not in params:
            raise ValueError(f"param_name {param_name!r} is not a parameter of {type(estimator).__name__}")
        path, _, last = param_name.rpartition("__")
        if not last.startswith("epsilon") and not last.endswith("epsilon"):
            raise ValueError(f"param_name must be the nested name of an epsilon, got {param_name!r}")
        around = [estimator, *(params[part] for part in _prefixes(path) if part in params)]
        owner = params[path] if path else estimator
        fit_only = any(isinstance(part, OnFitOnly) for part in around)
        # A step inside of a resampler privatises the rows of `fit` only.
        spares = fit_only or any(getattr(part, "protects_rows", None) == "fit" for part in around)
        outer = _outermost(params, path)
        return cls(
            path,
            outer,
            param_name,
            # PosteriorFeatures reads the reports of its encoder: no step may be inserted between the two.
            encodes=bool(path) and hasattr(owner, "encode") and not isinstance(params.get(outer), PosteriorFeatures),
            releases=bool(
                path and hasattr(owner, "transform") and getattr(owner, "protects_rows", True) and not spares
            ),
            fit_only=fit_only,
            kind=type(params[outer] if outer else estimator).__name__,
        )

    def at(self, estimator: Any, epsilon: float, *, fit_only: bool) -> Any:
        """Set epsilon, and make the step release the rows to predict once, or not at all."""
        estimator.set_params(**{self.epsilon: epsilon})
        if not self.releases:
            return estimator
        return _wrapped(estimator, self.path, OnFitOnly) if fit_only else _wrapped(estimator, self.outer, OneRelease)

    def without_noise(self, estimator: Any) -> Any:
        """Replace the step by its encoding without noise."""
        return _wrapped(estimator, self.path, NoiselessEncoding)


def _wrapped(estimator: Any, path: str, wrapper: type) -> Any:
    return estimator.set_params(**{path: wrapper(estimator.get_params(deep=True)[path])})


def _outermost(params: Mapping[str, Any], path: str) -> str:
    """Return the outermost transformer that has a step as a parameter; steps of a Pipeline do not count."""
    while "__" in path:
        around, _, own = path.rpartition("__")
        holder: Any = params.get(around)
        if isinstance(holder, OnFitOnly) or not hasattr(holder, "transform") or hasattr(holder, "predict"):
            break
        if own not in holder.get_params(deep=False):
            break
        path = around
    return path


def _prefixes(path: str) -> list[str]:
    parts = path.split("__")
    return ["__".join(parts[:size]) for size in range(1, len(parts))]


def seeded_steps(estimator: Any, path: str | None = None) -> list[str]:
    """Return the steps that draw private random bits."""
    params = estimator.get_params(deep=True)
    found = []
    for name in sorted(params):
        owner, _, own = name.rpartition("__")
        near = (f"{owner}__" if owner else "") + "{}"
        if own == "random_state" and (owner == path or any(near.format(x) in params for x in ("epsilon", "ledger"))):
            found.append(name)
    return found


def with_seeds(estimator: Any, seeds: Mapping[str, int | None]) -> Any:
    """Clone an estimator and set the seeds of the steps that draw private random bits."""
    return clone(estimator).set_params(**seeds)


class NoiselessEncoding(OnFitOnly):
    """Encode all rows without noise, as the baseline of a privatising step. Not private."""

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Encode the rows of `fit`."""
        return self.fit(X, y).transform(X)

    def encode(self, X: Any) -> Any:
        """Encode rows like `transform`."""
        return self.transform(X)

    @property
    def guarantee_(self) -> Any:
        """Raise an error, as there is no guarantee."""
        raise AttributeError("an encoding without noise has no privacy guarantee")


class OneRelease(MetaEstimatorMixin, BaseEstimator):
    """Privatise rows once: for the same rows as in the last call, return the same release."""

    # A model that is asked for labels and then for probabilities would privatise its rows twice: two releases, and
    # scores of different rows.

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
        """Privatise rows unless they are those of the last call."""
        if self._last is None or digest(self._last[0]) != digest(X):
            self._last = X, self.transformer_.transform(X)
        return self._last[1]

    def set_output(self, *, transform: Any = None) -> Self:
        """Set the output container of the transformer."""
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
