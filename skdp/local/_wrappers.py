"""Wrappers of local transformers: reports of training rows only, and posterior features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    CallCounter,
    ColumnLike,
    OnSite,
    TableLike,
    all_or_nothing,
    apply_set_output,
    check_choice,
    check_flag,
    read_input,
)
from skdp.local._protocol_file import read_and_tally
from skdp.local._transformer import ReportTransformer, input_names
from skdp.local.protocol import ReportProtocol, estimate_counts
from skdp.oracles import POSTPROCESSORS, FrequencyOracle, Postprocess
from skdp.privacy import PrivacyGuarantee
from skdp.tables import read_table


class WrapsTransformer(MetaEstimatorMixin, TransformerMixin, OnSite, BaseEstimator):
    """Base of what wraps a local transformer, whose `transform` gets the metadata."""

    # The parameter that holds the transformer.
    _wrapped: ClassVar[str]
    # The methods that privatise rows.
    _releasing: ClassVar[tuple[str, ...]] = ("fit", "fit_transform", "transform")

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
        The guarantee of `fit_transform` for each record of its rows; `transform` has
        none.

    Raises
    ------
    TypeError, ValueError
        By `fit`, if the transformer has no encoding without noise, or one that is
        random by nature (hashing, one sampled column), and so has no true form.

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

    The transformer's own `set_output` is not used; the setting of this object, or the
    global one, applies to both encodings. Metadata (``record_id``) are routed to the transformer's
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
            If the transformer has no encoding without noise.
        ValueError
            If its encoding draws random bits by nature.
        """
        transformer = self.transformer
        is_estimator = not isinstance(transformer, str | type)
        if not is_estimator or not hasattr(transformer, "_encode"):
            raise TypeError(
                "transformer must be a local transformer, which can encode without "
                f"noise, got {type(transformer).__name__}"
            )
        transformer = clone(transformer)
        # Only the outer setting counts, or one of the two encodings would be converted
        # twice and the other not at all.
        transformer.set_output(transform="default")
        transformer.fit(X, y)
        if hasattr(transformer, "_check_encodable"):
            # Before anything is released that could not be used.
            transformer._check_encodable()
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
        return apply_set_output(self, self.transformer_.transform(X, **params))

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
        return apply_set_output(self, self.transformer_._encode(X))

    @property
    def guarantee_(self) -> PrivacyGuarantee:
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


_PRIOR_POSTPROCESSORS = [name for name in POSTPROCESSORS if name != "none"]


class PosteriorFeatures(WrapsTransformer):
    """Privatise rows, and give a model the probability of each true value.

    >>> import pandas as pd
    >>> from skdp import PosteriorFeatures, UnaryEncodingTransformer
    >>> people = pd.DataFrame({"job": ["clerk"] * 700 + ["farm"] * 300})
    >>> bits = UnaryEncodingTransformer(2.0, categories={"job": ["clerk", "farm"]})
    >>> features = PosteriorFeatures(bits).fit_transform(people)

    By Bayes' rule, ``P(v | report)`` is proportional to ``P(v) P(report | v)``: the
    likelihood is known from the protocol ([1]_), and the prior ``P(v)`` is estimated
    from the reports of `fit`. The features have a column for each declared value,
    ``<column>_<value>``; those of an attribute add up to 1 in each row. The guide page
    "What all encoders share" says where they help.

    Parameters
    ----------
    encoder : local transformer
        An encoder with frequency oracles, such as `RandomizedResponseEncoder`. With
        ``privatize=True`` it is cloned, and the original is never fitted.
    privatize : bool, default=True
        False if the rows are reports already: `encoder` must then be fitted, and is
        used as it is. Where scikit-learn clones (cross-validation),
        ``FrozenEstimator(encoder)``.
    postprocess : str, default="simplex"
        How the counts behind the prior are made of the unbiased estimates, as for
        `estimate_counts`: any name but "none", whose counts may be negative.

    Attributes
    ----------
    encoder_ : local transformer
        The fitted encoder: its `channel`, `tally` and `estimate_counts` are for its
        reports.
    prior_ : list of ndarray of shape (k,)
        For each attribute, the estimated probability of each of its values; all
        positive.
    guarantee_ : PrivacyGuarantee
        The guarantee of each call of `fit`, `fit_transform` or `transform` for one record.

    See Also
    --------
    UnaryEncodingTransformer : With ``output="unbiased"``, features whose means are the
        estimated frequencies.
    sklearn.preprocessing.OneHotEncoder : Takes a report for the truth.

    Notes
    -----
    **Privacy.** Local model, by the encoder; all that follows, the prior included, is
    computed from reports alone, and free. **Each call is a release, `fit` too**, as it
    needs reports for its prior: `fit`, `fit_transform` and `transform` each charge the
    encoder's ledger once with `guarantee_`, and ``fit(X)`` and then ``transform(X)``
    cost twice. In a Pipeline, the training rows are released once (`fit_transform`),
    and each set of rows to predict for once more. With ``privatize=False`` nothing is
    released or charged.

    References
    ----------
    .. [1] R. Agrawal, C. Aggarwal (2001). On the design and quantification of privacy
       preserving data mining algorithms. PODS.
    """

    _wrapped = "encoder"

    def __init__(
        self,
        encoder: ReportTransformer,
        *,
        privatize: bool = True,
        postprocess: Postprocess = "simplex",
    ) -> None:
        self.encoder = encoder
        self.privatize = privatize
        self.postprocess = postprocess

    def fit(self, X: TableLike, y: ColumnLike | None = None, **params: Any) -> Self:
        """Privatise rows, and estimate the prior from their reports: a release.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values; with ``privatize=False``, reports.
        y : None
            Ignored.
        **params : dict
            Metadata for the `transform` of the encoder, such as ``record_id``.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is not as described, or the encoder refuses the rows.
        NotFittedError
            With ``privatize=False``, if the encoder is not fitted.
        BudgetExceeded
            If the ledger of the encoder does not cover the release.
        """
        self._learn(X, y, self._route("fit", params))
        if self._privatize:
            # As everywhere, a seeded stream starts again with `fit`, so that fit and
            # transform equal fit_transform.
            self.encoder_._calls = CallCounter()
        return self

    def fit_transform(
        self, X: TableLike, y: ColumnLike | None = None, **params: Any
    ) -> Any:
        """Privatise rows once, estimate the prior, and return their features.

        Not the same as ``fit(X).transform(X)``, which is two releases (of the same
        reports, if a seed is set).

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As for `fit`.
        y : None
            Ignored.
        **params : dict
            As for `fit`.

        Returns
        -------
        same kind as X
            As for `transform`.

        Raises
        ------
        TypeError, ValueError, NotFittedError, BudgetExceeded
            As for `fit`.
        """
        reports = self._learn(X, y, self._route("fit_transform", params))
        return apply_set_output(self, self._features(reports))

    def transform(self, X: TableLike, **params: Any) -> Any:
        """Privatise rows, a new release at every call, and return their features.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values; with ``privatize=False``, reports.
        **params : dict
            Metadata for the `transform` of the encoder, such as ``record_id``.

        Returns
        -------
        same kind as X
            The probability of each value of each attribute, by the prior of `fit`; with
            the row index of X.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the encoder refuses the rows.
        BudgetExceeded
            If the ledger of the encoder does not cover the release.
        """
        check_is_fitted(self, "prior_")
        params = self._route("transform", params)
        reports = X
        if self._privatize:
            reports = self.encoder_.transform(X, **params)
        else:
            read_input(self, X, reset=False)
        return apply_set_output(self, self._features(reports))

    @all_or_nothing
    def _learn(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        """Set all that is fitted, and return the reports of the rows."""
        encoder = self._checked_encoder()
        if self.privatize:
            encoder = clone(encoder)
            # Only the outer setting counts, or reports might become another kind of
            # frame than X.
            encoder.set_output(transform="default")
            encoder.fit(X, y)
        else:
            check_is_fitted(encoder)
        read_input(self, X, reset=True)
        if encoder.protocol_.strategy is None:
            raise _not_an_encoder(encoder)
        _check_names(encoder.protocol_)
        reports = X
        if self.privatize:
            reports = encoder.transform(X, **params)
        self.prior_ = _estimate_prior(encoder, reports, self.postprocess)
        self.encoder_ = encoder
        self._privatize = bool(self.privatize)
        return reports

    def _checked_encoder(self) -> ReportTransformer:
        check_flag("privatize", self.privatize)
        check_choice("postprocess", self.postprocess, _PRIOR_POSTPROCESSORS)
        encoder = self.encoder
        if isinstance(encoder, FrozenEstimator):
            encoder = encoder.estimator
        is_local = isinstance(encoder, ReportTransformer)
        if not is_local or not hasattr(encoder, "estimate_counts"):
            raise _not_an_encoder(encoder)
        return encoder

    def _features(self, reports: Any) -> Any:
        """Return the posterior of each row, an attribute beside the other."""
        protocol = self.encoder_.protocol_
        arrays, _ = read_and_tally(reports, self.encoder_)
        is_reported = protocol.rows(arrays)  # (n_rows, n_attributes)
        parts = protocol.parts(arrays)
        blocks = []
        for number, (oracle, prior) in enumerate(
            zip(protocol.oracles, self.prior_, strict=True)
        ):
            # A record that does not report an attribute keeps its prior.
            block = np.tile(prior, (len(is_reported), 1))
            rows = is_reported[:, number]
            block[rows] = posterior(oracle, parts[number], prior)
            blocks.append(block)
        if not hasattr(reports, "columns"):
            reports = np.asarray(reports)
        table = read_table(reports)
        return table.rebuild([np.hstack(blocks)], _value_names(protocol))

    @property
    def reads_reports(self) -> bool:
        """Whether rows are reports already, so that nothing more is released."""
        return not getattr(self, "_privatize", self.privatize)

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """Return the guarantee of each call of `fit`, `fit_transform` or `transform` for a record."""
        return self.encoder_.guarantee_

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Name the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of the input, where `fit` saw none.

        Returns
        -------
        ndarray of str
            ``<column>_<value>``, ``<column>_missing`` where missing is declared; the
            columns of a joint attribute, then their values.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the input features are not those of `fit`.
        """
        check_is_fitted(self, "prior_")
        protocol = self.encoder_.protocol_
        inputs: Sequence[Any] = input_names(self, protocol.columns, input_features)
        if not self._privatize:  # the input are reports, whose columns have other names
            inputs = protocol.columns
        return np.array(_value_names(protocol, inputs), dtype=object)


def _not_an_encoder(encoder: Any) -> TypeError:
    return TypeError(
        "encoder must be a local transformer with frequency oracles, such as "
        f"RandomizedResponseEncoder(), got {type(encoder).__name__}"
    )


def _value_names(protocol: Any, inputs: Sequence[Any] | None = None) -> list[str]:
    """Name a column for each value of each attribute, after the input columns."""
    if inputs is None:
        inputs = protocol.columns
    input_of = dict(zip(protocol.columns, inputs, strict=True))
    names = []
    for field in protocol.fields:
        prefix = field.prefix([input_of[column] for column in field.columns])
        names += [f"{prefix}_{label}" for label in field.labels]
    return names


def _check_names(protocol: ReportProtocol) -> None:
    names = _value_names(protocol)
    if len(set(names)) < len(names):
        raise ValueError(
            "two columns of the output would have the same name; rename columns or "
            "categories"
        )


def posterior(
    oracle: FrequencyOracle, reports: NDArray[Any], prior: ArrayLike
) -> NDArray[np.float64]:
    """Return the probability of each value given each report, by Bayes' rule."""
    # A report is this many times likelier under the values that it supports; of bits,
    # those of the ones alone matter, as all else is the same for every value.
    excess = float(oracle.support_ratio - 1)
    weights = np.asarray(prior, float) * (1 + excess * oracle.supports(reports))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _estimate_prior(
    encoder: Any, reports: Any, postprocess: str
) -> list[NDArray[np.float64]]:
    """Estimate the share of each value from reports."""
    protocol = encoder.protocol_
    _, tally = read_and_tally(reports, encoder)
    table = estimate_counts(protocol, tally, postprocess=postprocess)
    ends = np.cumsum([oracle.k for oracle in protocol.oracles])
    priors = []
    for counts in np.split(table["count"].to_numpy(), ends[:-1]):
        # One more record of each keeps all positive. Reports that say nothing (p = q)
        # give nan, and a uniform prior.
        positive = np.nan_to_num(counts) + 1
        priors.append(positive / positive.sum())
    return priors
