"""The privatising step of an estimator: where it is, its coins, and what stands in for it in a privacy curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from skdp.evaluation._curve_cache import digest
from skdp.local import OnFitOnly


@dataclass(frozen=True)
class Step:  # numpydoc ignore=PR02
    """The step of an estimator whose epsilon varies.

    Parameters
    ----------
    path : str
        The nested name of the step; empty, if it is the estimator itself.
    epsilon : str
        The nested name of its epsilon.
    encodes : bool
        Whether it can encode without noise.
    releases : bool
        Whether it privatises the rows that are predicted, too.
    fit_only : bool
        Whether it is in an `OnFitOnly`.
    kind : str
        The name of its class.
    """

    path: str
    epsilon: str
    encodes: bool
    releases: bool
    fit_only: bool
    kind: str

    @classmethod
    def find(cls, estimator: Any, param_name: Any) -> Self:
        """Find the step that a parameter belongs to.

        Parameters
        ----------
        estimator : estimator
            Where to look.
        param_name : str
            The nested name of the parameter.

        Returns
        -------
        Step
            The step.

        Raises
        ------
        ValueError
            If the estimator has no such parameter.
        """
        if not isinstance(param_name, str):
            raise TypeError(f"param_name must be a str, got {type(param_name).__name__}")
        params = estimator.get_params(deep=True)
        if param_name not in params:
            raise ValueError(f"param_name {param_name!r} is no parameter of {type(estimator).__name__}")
        path = param_name.rpartition("__")[0]
        around = [estimator, *(params[part] for part in _prefixes(path) if part in params)]
        owner = params[path] if path else estimator
        fit_only = any(isinstance(part, OnFitOnly) for part in around)
        # What is inside of a resampler privatises the rows of `fit` alone, whatever it could do by itself.
        spares = fit_only or any(getattr(part, "protects_rows", None) == "fit" for part in around)
        return cls(
            path,
            param_name,
            encodes=bool(path) and hasattr(owner, "encode"),
            releases=bool(
                path and hasattr(owner, "transform") and getattr(owner, "protects_rows", True) and not spares
            ),
            fit_only=fit_only,
            kind=type(owner).__name__,
        )

    def at(self, estimator: Any, epsilon: float, *, fit_only: bool) -> Any:
        """Set epsilon, and let the step release the rows to predict once, or not at all.

        Parameters
        ----------
        estimator : estimator
            A clone, which is changed.
        epsilon : float
            The privacy loss.
        fit_only : bool
            Whether the rows that are predicted are encoded without noise.

        Returns
        -------
        estimator
            The same.
        """
        estimator.set_params(**{self.epsilon: epsilon})
        return self._wrapped(estimator, OnFitOnly if fit_only else OneRelease) if self.releases else estimator

    def without_noise(self, estimator: Any) -> Any:
        """Let the step encode without noise.

        Parameters
        ----------
        estimator : estimator
            A clone, which is changed.

        Returns
        -------
        estimator
            The same.
        """
        return self._wrapped(estimator, NoiselessEncoding)

    def _wrapped(self, estimator: Any, wrapper: type) -> Any:
        return estimator.set_params(**{self.path: wrapper(estimator.get_params(deep=True)[self.path])})


def _prefixes(path: str) -> list[str]:
    parts = path.split("__")
    return ["__".join(parts[:size]) for size in range(1, len(parts))]


def seeded_steps(estimator: Any, path: str | None = None) -> list[str]:
    """List the steps that draw private coins.

    Parameters
    ----------
    estimator : estimator
        Where to look.
    path : str, optional
        One that does in any case, if it has a ``random_state``.

    Returns
    -------
    list of str
        The nested names of the ``random_state`` of each: of all that have one beside an ``epsilon`` or a ``ledger``.
    """
    params = estimator.get_params(deep=True)
    found = []
    for name in sorted(params):
        owner, _, own = name.rpartition("__")
        near = (f"{owner}__" if owner else "") + "{}"
        if own == "random_state" and (owner == path or any(near.format(x) in params for x in ("epsilon", "ledger"))):
            found.append(name)
    return found


def with_seeds(estimator: Any, seeds: Mapping[str, int | None]) -> Any:
    """Clone an estimator, and give the steps that draw private coins their seeds.

    Parameters
    ----------
    estimator : estimator
        What to clone.
    seeds : mapping of str to int or None
        A seed for each ``random_state``, by its nested name.

    Returns
    -------
    estimator
        The clone.
    """
    return clone(estimator).set_params(**seeds)


class NoiselessEncoding(OnFitOnly):
    """Encode all rows without noise: what a privatising step is compared with. It protects nobody."""

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Encode the rows of `fit`.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.
        **params : dict
            Ignored.

        Returns
        -------
        same kind as X
            Their encoding, **not private**.
        """
        return self.fit(X, y).transform(X)

    def encode(self, X: Any) -> Any:
        """Do what `transform` does.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.

        Returns
        -------
        same kind as X
            Their encoding, **not private**.
        """
        return self.transform(X)

    @property
    def guarantee_(self) -> Any:  # numpydoc ignore=RT01
        """Nothing is promised."""
        raise AttributeError("an encoding without noise promises nothing")


class OneRelease(MetaEstimatorMixin, BaseEstimator):
    """Privatise rows once: if the rows that were last given to `transform` come again, return the same release.

    A model that is asked for labels and then for probabilities privatises its rows each time: these would be two
    releases, and two scores of different rows.

    Parameters
    ----------
    transformer : transformer
        What privatises. It is cloned; the original is never fitted.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a clone of the transformer.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : array-like, optional
            Handed on.

        Returns
        -------
        self
            The fitted transformer.
        """
        self._start().fit(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit a clone of the transformer, and privatise the rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : array-like, optional
            Handed on.
        **params : dict
            Handed on.

        Returns
        -------
        same kind as X
            The release.
        """
        return self._start().fit_transform(X, y, **params)

    def _start(self) -> Any:
        self.transformer_ = clone(self.transformer)
        self._last: tuple[Any, Any] | None = None
        return self.transformer_

    def transform(self, X: Any) -> Any:
        """Privatise rows, unless they are those of the last call.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.

        Returns
        -------
        same kind as X
            The release.
        """
        if self._last is None or digest(self._last[0]) != digest(X):
            self._last = X, self.transformer_.transform(X)
        return self._last[1]

    def set_output(self, *, transform: Any = None) -> Self:
        """Let the transformer return another kind of frame.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            As in scikit-learn.

        Returns
        -------
        self
            The same.
        """
        for transformer in (self.transformer, getattr(self, "transformer_", self.transformer)):
            transformer.set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns of the release.

        Parameters
        ----------
        input_features : array-like of str, optional
            Handed on.

        Returns
        -------
        ndarray of str
            The transformer's own names.
        """
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.transformer)
