"""Meta-transformers: reports of the training rows only, and posterior features of reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, Floats, TableLike
from skdp.base import (
    CallCounter,
    PrivateEstimator,
    apply_set_output,
    check_input,
    restore_on_error,
)
from skdp.local._oracle_encoder import OracleEncoder
from skdp.local._protocol_file import read_and_tally
from skdp.local._transformer import ReportTransformer, check_input_names
from skdp.local.protocol._count_estimation import estimate_report_counts
from skdp.local.protocol._protocol import ReportProtocol
from skdp.oracles import FrequencyOracle
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import check_type
from skdp.tables import wrap_table


class TransformerWrapper(MetaEstimatorMixin, TransformerMixin, PrivateEstimator):
    """Base class of meta-transformers that route metadata to the `transform` of a transformer."""

    # Name of the parameter with the transformer.
    _wrapped: ClassVar[str]
    # Names of the methods that call its `transform`.
    _callers: ClassVar[tuple[str, ...]] = ("fit", "fit_transform", "transform")

    def _route(self, caller: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata that a method passes to the wrapped `transform`."""
        if not get_config()["enable_metadata_routing"]:
            return params
        routed = process_routing(self, caller, **params)
        return routed[self._wrapped]["transform"]

    def get_metadata_routing(self) -> Any:
        """Get the routing of metadata to the `transform` of the wrapped transformer.

        Returns
        -------
        MetadataRouter
            Routing.
        """
        mapping = MethodMapping()
        for caller in self._callers:
            mapping.add(caller=caller, callee="transform")
        wrapped = {self._wrapped: getattr(self, self._wrapped)}
        router = MetadataRouter(owner=type(self).__name__)
        return router.add(**wrapped, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(getattr(self, self._wrapped)).input_tags
        tags.transformer_tags.preserves_dtype = []
        return tags


class OnFitOnly(TransformerWrapper):
    """Privatize the training data only.

    `fit_transform` privatizes the rows, and `transform` encodes true rows in the same
    format, without noise. In a Pipeline, the model is trained on reports and predicts for
    true rows, such as on a person's own device.

    Parameters
    ----------
    transformer : local transformer
        Transformer that privatizes the rows. It is cloned before `fit`.

    Attributes
    ----------
    transformer_ : local transformer
        Fitted clone. Its `channel`, `tally` and `estimate_counts` take the output of
        `fit_transform`.
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of `fit_transform` for each record of its rows; `transform`
        has none.

    Raises
    ------
    TypeError, ValueError
        In `fit`, if the transformer has no encoding without noise (hashing,
        ``strategy="sample"``).

    See Also
    --------
    RandomizedResponseEncoder : Privatizes at fit and at predict time.

    Notes
    -----
    **Privacy.** Only `fit_transform` privatizes and charges the ledger. `guarantee_`
    covers each record of its rows in the output, and in all results from the output, such
    as a trained model. **The rows of `transform` are not protected**, because they are
    returned without noise. The scores of a model on training or test rows use true values.
    `fit` alone releases nothing.

    Set the format of the output with `set_output` of this object. Metadata
    (``person``) are routed to the transformer's `transform`, within `fit_transform`.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import OnFitOnly, RandomizedResponseEncoder
    >>> people = pd.DataFrame({"smokes": ["yes", "no"] * 500})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> private = OnFitOnly(encoder)
    >>> reports = private.fit_transform(people)
    >>> private.transform(people).equals(people)
    True
    """

    # fit_transform returns reports, and transform returns true values.
    protects_rows = "fit"

    _wrapped = "transformer"
    _callers = ("fit_transform",)

    def __init__(self, transformer: ReportTransformer) -> None:
        self.transformer = transformer

    @restore_on_error
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
            Fitted transformer.

        Raises
        ------
        TypeError
            If the transformer has no encoding without noise.
        ValueError
            If its encoding is random.
        """
        if not hasattr(self.transformer, "_encode"):
            raise TypeError(
                "`transformer` must be a local transformer with an encoding without "
                "noise, such as RandomizedResponseEncoder, got "
                f"{type(self.transformer).__name__}."
            )
        transformer = clone(self.transformer)
        # The `set_output` of this object applies.
        transformer.set_output(transform="default")
        transformer.fit(X, y)
        # Raises an error before a release, which would be useless without `transform`.
        transformer.protocol_.check_encodable()
        check_input(self, X, reset=True)
        self.transformer_ = transformer
        return self

    def fit_transform(
        self, X: TableLike, y: ColumnLike | None = None, **params: object
    ) -> Any:
        """Fit a clone of the transformer, and privatize the rows.

        ``fit(X).transform(X)`` differs: it returns true values.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.
        **params : dict
            Metadata for the `transform` of the transformer, such as ``person``.

        Returns
        -------
        same type as X
            Reports, as the transformer's `transform` returns them.

        Raises
        ------
        TypeError, ValueError
            If the rows are invalid for the transformer.
        BudgetExceeded
            If the budget of the ledger does not cover the release.
        """
        params = self._route("fit_transform", params)
        self.fit(X, y)
        return apply_set_output(self, self.transformer_.transform(X, **params))

    def transform(self, X: TableLike) -> Any:
        """Encode rows in the format of the reports, without noise.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.

        Returns
        -------
        same type as X
            Encoded true values, **not private**.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the rows are invalid for the transformer.
        """
        check_is_fitted(self, "transformer_")
        return apply_set_output(self, self.transformer_._encode(X))

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """Privacy guarantee of `fit_transform` for each record."""
        return self.transformer_.guarantee_

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Get the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns, if `fit` got an array.

        Returns
        -------
        ndarray of str
            Names of the report columns.
        """
        check_is_fitted(self, "transformer_")
        return self.transformer_.get_feature_names_out(input_features)


class PosteriorFeatures(TransformerWrapper):
    """Privatize rows, and compute the posterior probability of each true value.

    By Bayes' rule, ``P(v | report)`` is proportional to ``P(v) P(report | v)``. The
    likelihood follows from the protocol [1]_, and the prior ``P(v)`` is estimated from
    the reports of `fit`. The output has a column ``<column>_<value>`` for each declared
    value, and the columns of an attribute sum to 1 in each row.

    Parameters
    ----------
    encoder : local transformer
        Encoder with frequency oracles, such as `RandomizedResponseEncoder`. It is cloned
        before `fit`.

    Attributes
    ----------
    encoder_ : local transformer
        Fitted encoder.
    prior_ : list of ndarray of shape (k,)
        Estimated probability of each value of each attribute, positive.
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of each call of `fit`, `fit_transform` or `transform` for one
        record.

    See Also
    --------
    skdp.local.ReportTransformer.debias : Features whose means are the estimated frequencies.
    sklearn.preprocessing.OneHotEncoder : Indicators of reports.

    Notes
    -----
    **Privacy.** Local model, by the encoder; the prior and the features are
    post-processing of reports. **Each call of `fit`, `fit_transform` and `transform` is
    a release** and charges the encoder's ledger with `guarantee_`, so ``fit(X)`` and
    then ``transform(X)`` cost twice. In a Pipeline, the training rows are released once
    (`fit_transform`), and the rows to predict once for each prediction.

    References
    ----------
    .. [1] R. Agrawal, C. Aggarwal (2001). On the design and quantification of privacy
       preserving data mining algorithms. PODS.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import PosteriorFeatures, UnaryEncodingTransformer
    >>> people = pd.DataFrame({"job": ["clerk"] * 700 + ["farm"] * 300})
    >>> bits = UnaryEncodingTransformer(
    ...     2.0, categories={"job": ["clerk", "farm"]}, random_state=0
    ... )
    >>> print(PosteriorFeatures(bits).fit_transform(people).head(3).round(2))
       job_clerk  job_farm
    0       0.71      0.29
    1       0.71      0.29
    2       0.95      0.05
    """

    _wrapped = "encoder"

    def __init__(self, encoder: ReportTransformer) -> None:
        self.encoder = encoder

    def fit(self, X: TableLike, y: ColumnLike | None = None, **params: object) -> Self:
        """Privatize rows, and estimate the prior from their reports.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        y : None
            Ignored.
        **params : dict
            Metadata for the `transform` of the encoder, such as ``person``.

        Returns
        -------
        self
            Fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter or the rows are invalid.
        BudgetExceeded
            If the budget of the ledger does not cover the release.

        Notes
        -----
        Each row counts once in the prior. Pass weights to the model after this step.
        """
        self._fit_encoder(X, y, self._route("fit", params))
        # The random streams of a seed restart after `fit`, as in other transformers.
        self.encoder_._calls = CallCounter()
        return self

    def fit_transform(
        self, X: TableLike, y: ColumnLike | None = None, **params: object
    ) -> Any:
        """Privatize rows once, estimate the prior, and return their features.

        ``fit(X).transform(X)`` differs: it makes two releases.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            See `fit`.
        y : None
            Ignored.
        **params : dict
            See `fit`.

        Returns
        -------
        same type as X
            See `transform`.

        Raises
        ------
        TypeError, ValueError, BudgetExceeded
            See `fit`.
        """
        reports = self._fit_encoder(X, y, self._route("fit_transform", params))
        return apply_set_output(self, self._compute_features(reports))

    def transform(self, X: TableLike, **params: object) -> Any:
        """Privatize rows, and return their features.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            True values.
        **params : dict
            Metadata for the `transform` of the encoder, such as ``person``.

        Returns
        -------
        same type as X
            Posterior probability of each value of each attribute, with the row index of
            X.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the rows are invalid for the encoder.
        BudgetExceeded
            If the budget of the ledger does not cover the release.
        """
        check_is_fitted(self, "prior_")
        params = self._route("transform", params)
        reports = self.encoder_.transform(X, **params)
        return apply_set_output(self, self._compute_features(reports))

    @restore_on_error
    def _fit_encoder(self, X: TableLike, y: ColumnLike, params: dict[str, Any]) -> Any:
        """Fit the encoder, and return its reports of the rows; estimate the prior of the values from the reports."""
        expected = (
            "a local transformer with frequency oracles, such as "
            "RandomizedResponseEncoder()"
        )
        check_type("encoder", self.encoder, OracleEncoder, expected)
        encoder = clone(self.encoder)
        # The `set_output` of this object applies.
        encoder.set_output(transform="default")
        encoder.fit(X, y)
        check_input(self, X, reset=True)
        _check_value_names(encoder.protocol_)
        reports = encoder.transform(X, **params)
        self.prior_ = _estimate_prior(encoder, reports)
        self.encoder_ = encoder
        return reports

    def _compute_features(self, reports: TableLike) -> Any:
        """Compute the posterior probability of each value of each attribute in each row, side by side.

        An attribute is a column, or columns that are reported as one combination. The
        result has the shape (n_rows, n_values), as a table like the reports.
        """
        protocol = self.encoder_.protocol_
        arrays, _ = read_and_tally(reports, self.encoder_)
        is_reported = protocol.report_mask(arrays)  # (n_rows, n_attributes)
        parts = protocol.parts(arrays)
        blocks = []
        for number, (oracle, prior) in enumerate(
            zip(protocol.oracles, self.prior_, strict=True)
        ):
            # The posterior of an attribute that a record does not report is the prior.
            block = np.tile(prior, (len(is_reported), 1))
            rows = is_reported[:, number]
            block[rows] = compute_posterior(oracle, parts[number], prior)
            blocks.append(block)
        table = wrap_table(reports)
        return table.rebuild([np.hstack(blocks)], _list_value_names(protocol))

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """Privacy guarantee of each call of `fit`, `fit_transform` or `transform`."""
        return self.encoder_.guarantee_

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Get the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns, if `fit` got an array.

        Returns
        -------
        ndarray of str
            ``<column>_<value>``, and ``<column>_missing`` if missing is declared; for a
            joint attribute its columns, then their values.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if `input_features` differ from the columns of `fit`.
        """
        check_is_fitted(self, "prior_")
        protocol = self.encoder_.protocol_
        inputs = check_input_names(self, protocol.columns, input_features)
        return np.array(_list_value_names(protocol, inputs), dtype=object)


def _list_value_names(protocol: Any, inputs: Sequence[Any] | None = None) -> list[str]:
    """Name the output columns, one for each value of each attribute; `inputs` are the names of the input columns."""
    if inputs is None:
        inputs = protocol.columns
    input_of = dict(zip(protocol.columns, inputs, strict=True))
    names = []
    for field in protocol.fields:
        prefix = field.prefix([input_of[column] for column in field.columns])
        names += [f"{prefix}_{label}" for label in field.labels]
    return names


def _check_value_names(protocol: ReportProtocol) -> None:
    """Raise an error if two output columns would have the same name."""
    names = _list_value_names(protocol)
    if len(set(names)) < len(names):
        raise ValueError(
            "The output columns must have different names, got equal names. Rename "
            "columns or categories."
        )


def compute_posterior(
    oracle: FrequencyOracle, reports: NDArray[Any], prior: ArrayLike
) -> Floats:
    """Compute the probability of each of the k values given each report, by Bayes' rule; shape (n_reports, k).

    `prior` has the probabilities of the values before the report, of shape (k,).
    """
    # A report is `worst_ratio` times as probable under the values that it supports.
    excess = float(oracle.worst_ratio - 1)
    # Rows are contiguous, because the order of memory changes the last bit of their sums.
    supports = np.ascontiguousarray(oracle.supports(reports))
    weights = np.asarray(prior, float) * (1 + excess * supports)
    return weights / weights.sum(axis=1, keepdims=True)


def _estimate_prior(encoder: OracleEncoder, reports: TableLike) -> list[Floats]:
    """Estimate the proportions of the values of each attribute from reports: positive arrays that sum to 1."""
    protocol = encoder.protocol_
    _, tally = read_and_tally(reports, encoder)
    table = estimate_report_counts(protocol, tally, postprocess="simplex")
    stops = np.cumsum([oracle.k for oracle in protocol.oracles])
    priors = []
    for counts in np.split(table["count"].to_numpy(), stops[:-1]):
        # Add one record with each value, so that no prior is 0. Estimates of attributes
        # without reports are NaN.
        positive = np.nan_to_num(counts) + 1
        priors.append(positive / positive.sum())
    return priors
