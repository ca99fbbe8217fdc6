"""Privatise the rows that a model is trained on, and none that it predicts for."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    ColumnLike,
    OnSite,
    TableLike,
    all_or_nothing,
    as_asked,
    read_input,
)
from skdp.local._transformer import ReportTransformer
from skdp.privacy import PrivacyGuarantee


class WrapsTransformer(MetaEstimatorMixin, TransformerMixin, OnSite, BaseEstimator):
    """Base of what wraps a local transformer, whose `transform` gets the metadata."""

    _wrapped: ClassVar[str]
    """The parameter that holds the transformer."""
    _releasing: ClassVar[tuple[str, ...]] = ("fit", "fit_transform", "transform")
    """The methods that privatise rows."""

    def _route(self, caller: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return what of the metadata of a method the wrapped `transform` gets."""
        if not get_config()["enable_metadata_routing"]:
            return params
        routed = process_routing(self, caller, **params)
        return routed[self._wrapped]["transform"]

    def get_metadata_routing(self) -> Any:
        """Route metadata to the `transform` of the transformer that is wrapped.

        Returns
        -------
        MetadataRouter
            The routing.
        """
        mapping = MethodMapping()
        for caller in self._releasing:
            mapping.add(caller=caller, callee="transform")
        wrapped = {self._wrapped: getattr(self, self._wrapped)}
        router = MetadataRouter(owner=type(self).__name__)
        return router.add(**wrapped, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        wrapped = getattr(self, self._wrapped)
        if hasattr(wrapped, "__sklearn_tags__") and not isinstance(wrapped, type):
            tags.input_tags = get_tags(wrapped).input_tags
        tags.transformer_tags.preserves_dtype = []
        return tags


class OnFitOnly(WrapsTransformer):
    """Privatise the rows at fit, and give the same encoding of true values afterwards.

    >>> import pandas as pd
    >>> from skdp import OnFitOnly, RandomizedResponseEncoder
    >>> people = pd.DataFrame({"smokes": ["yes", "no"] * 500})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> private = OnFitOnly(encoder)
    >>> reports = private.fit_transform(people)
    >>> private.transform(people).equals(people)
    True

    In a Pipeline, the model learns from privatised rows and predicts for true ones: for
    persons who give their data for training, but ask the model about themselves on
    their own device.

    Parameters
    ----------
    transformer : local transformer
        What privatises. It is cloned; the original is never fitted.

    Attributes
    ----------
    transformer_ : local transformer
        The fitted clone: its `channel`, `tally` and `estimate_counts` are for what
        `fit_transform` returned.
    guarantee_ : PrivacyGuarantee
        What `fit_transform` promises to each record of its rows; `transform` promises
        nothing.

    Raises
    ------
    TypeError, ValueError
        By `fit`, if the transformer has no `encode`, or its encoding is random by
        nature (hashing, Hadamard response, one sampled column), and so has no true
        form.

    See Also
    --------
    RandomizedResponseEncoder : Privatises at fit and at predict time alike.

    Notes
    -----
    **Privacy.** Only `fit_transform` privatises. Protected: each record of its rows, as
    `guarantee_` states, against every recipient of its output or of anything computed
    from that, such as a trained model. **Not protected: the rows of `transform`**,
    which come out in the clear. This includes the training rows, which are not
    recognised: a model that scores them, or a cross-validation that scores test rows,
    sees true values, and so does the party that runs the prediction. `fit` alone
    releases nothing. A ledger is charged by `fit_transform` only, as only this releases
    anything protected.

    The transformer's own `set_output` is not used; what is set here, or globally, holds
    for both encodings. Metadata (``record_id``) are routed to the transformer's
    `transform`, within `fit_transform`.
    """

    protects_rows = "fit"
    """Reports at fit; true values later."""

    _wrapped = "transformer"
    _releasing = ("fit_transform",)

    def __init__(self, transformer: ReportTransformer) -> None:
        self.transformer = transformer

    @all_or_nothing
    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Fit a clone of the transformer, without releasing anything.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        TypeError
            If the transformer has no `encode`.
        ValueError
            If its encoding draws random bits by nature.
        """
        transformer = self.transformer
        is_estimator = not isinstance(transformer, str | type)
        if not is_estimator or not hasattr(transformer, "encode"):
            raise TypeError(
                "transformer must be a local transformer, which can encode without "
                f"noise, got {type(transformer).__name__}"
            )
        transformer = clone(transformer)
        # Only the outer setting counts, or one of the two encodings would be converted
        # twice and the other not at all.
        transformer.set_output(transform="default")
        transformer.fit(X, y)
        if hasattr(transformer, "check_encodable"):
            # Before anything is released that could not be used.
            transformer.check_encodable()
        read_input(self, X, reset=True)
        self.transformer_ = transformer
        return self

    def fit_transform(
        self, X: TableLike, y: ColumnLike | None = None, **params: Any
    ) -> Any:
        """Fit a clone of the transformer and privatise the rows with it.

        Not the same as ``fit(X).transform(X)``, which returns the true values.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.
        **params : dict
            Metadata for the `transform` of the transformer, such as ``record_id``.

        Returns
        -------
        same kind as X
            What the transformer's `transform` returns: the privatised rows.

        Raises
        ------
        TypeError, ValueError
            If the transformer refuses the rows.
        BudgetExceeded
            If the ledger of the transformer does not cover the release.
        """
        params = self._route("fit_transform", params)
        self.fit(X, y)
        return as_asked(self, self.transformer_.transform(X, **params))

    def transform(self, X: TableLike) -> Any:
        """Encode rows as `fit_transform` does, but leave them true.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.

        Returns
        -------
        same kind as X
            The encoding of the true values, **not private**.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the transformer refuses the rows.
        """
        check_is_fitted(self, "transformer_")
        return as_asked(self, self.transformer_.encode(X))

    @property
    def guarantee_(self) -> PrivacyGuarantee:  # numpydoc ignore=RT01
        """What `fit_transform` promises to each record of its rows."""
        return self.transformer_.guarantee_

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Return the names of the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names of the input columns, if `fit` saw none.

        Returns
        -------
        ndarray of str
            The transformer's own names.
        """
        check_is_fitted(self, "transformer_")
        return self.transformer_.get_feature_names_out(input_features)
