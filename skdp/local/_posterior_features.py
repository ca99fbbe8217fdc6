"""Features that take the noise into account: how likely each value is, given the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import CallCounter, all_or_nothing, as_asked, check_flag, read_input
from skdp.frames import carried_text, read_table
from skdp.local._on_fit_only import WrapsTransformer
from skdp.local._oracle_encoder import input_names
from skdp.local._protocol_file import as_of_seed, read_carried, says_secure
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import ReportProtocol, estimate_counts, refuse_impossible
from skdp.oracles import POSTPROCESSORS, FrequencyOracle, Postprocess
from skdp.privacy import PrivacyGuarantee
from skdp.typing import ColumnLike, TableLike

_WANTED = "encoder must be a local transformer with frequency oracles, such as RandomizedResponseEncoder(), got "


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
        What each call of `fit`, `fit_transform` or `transform` promises for one record.

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
        """Privatise rows to estimate the prior from their reports. A release: it charges the ledger.

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
            # As everywhere, a seeded stream starts again with `fit`, so that fit and transform equal fit_transform.
            self.encoder_._calls = CallCounter()
        return self

    def fit_transform(
        self, X: TableLike, y: ColumnLike | None = None, **params: Any
    ) -> Any:
        """Privatise rows once, estimate the prior from their reports, and return their features.

        Not the same as ``fit(X).transform(X)``, which is two releases (of the same reports, if a seed is set).

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
        return as_asked(
            self,
            self._features(self._learn(X, y, self._route("fit_transform", params))),
        )

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
            The probability of each value of each attribute, by the prior of `fit`; with the row index of X.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the encoder refuses the rows.
        BudgetExceeded
            If the ledger of the encoder does not cover the release.
        """
        check_is_fitted(self, "prior_")
        params = self._route("transform", params)
        if not self._privatize:
            read_input(self, X, reset=False)
            return as_asked(self, self._features(X))
        return as_asked(self, self._features(self.encoder_.transform(X, **params)))

    @all_or_nothing
    def _learn(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        """Set all that is fitted, and return the reports of the rows."""
        encoder = self._check_parameters()
        if self.privatize:
            encoder = clone(encoder)
            # Only the outer setting counts, or reports might become another kind of frame than X.
            encoder.set_output(transform="default")
            encoder.fit(X, y)
            source = encoder
        else:
            check_is_fitted(encoder)
            read_input(self, X, reset=True)
            source = self
        if encoder.protocol_.strategy is None:
            raise TypeError(_WANTED + type(encoder).__name__)
        names = _value_names(encoder.protocol_)
        if len(set(names)) < len(names):
            raise ValueError(
                "two columns of the output would have the same name; rename columns or categories"
            )
        reports = encoder.transform(X, **params) if self.privatize else X
        self.prior_ = _estimate_prior(encoder, reports, self.postprocess)
        if not self.privatize and not says_secure(carried_text(reports)):
            encoder = as_of_seed(encoder)
        self.encoder_ = encoder
        self._privatize = bool(self.privatize)
        self.n_features_in_ = source.n_features_in_
        if hasattr(source, "feature_names_in_"):
            self.feature_names_in_ = source.feature_names_in_
        else:
            self.__dict__.pop("feature_names_in_", None)
        return reports

    def _check_parameters(self) -> ReportTransformer:
        check_flag("privatize", self.privatize)
        if not isinstance(self.postprocess, str) or self.postprocess not in {
            *POSTPROCESSORS
        } - {"none"}:
            wanted = [name for name in POSTPROCESSORS if name != "none"]
            raise ValueError(
                f"postprocess must be one of {wanted}, got {self.postprocess!r}"
            )
        encoder = (
            self.encoder.estimator
            if isinstance(self.encoder, FrozenEstimator)
            else self.encoder
        )
        if not isinstance(encoder, ReportTransformer) or not hasattr(
            encoder, "estimate_counts"
        ):
            raise TypeError(_WANTED + type(encoder).__name__)
        return encoder

    def _features(self, reports: Any) -> Any:
        protocol = self._protocol
        arrays, _ = read_carried(reports, self.encoder_)
        blocks = []
        drawn = protocol.rows(arrays)
        for oracle, part, rows, prior in zip(
            protocol.oracles, protocol.parts(arrays), drawn.T, self.prior_, strict=True
        ):
            block = np.tile(prior, (len(drawn), 1))
            block[rows] = posterior(oracle, part, prior)
            blocks.append(block)
        table = read_table(
            reports if hasattr(reports, "columns") else np.asarray(reports)
        )
        return table.rebuild([np.hstack(blocks)], _value_names(protocol))

    @property
    def _protocol(self) -> ReportProtocol:
        protocol: Any = self.encoder_.protocol_
        return protocol

    @property
    def reads_reports(self) -> bool:  # numpydoc ignore=RT01
        """Whether rows are reports already; then, after the step that makes them, nothing more is released."""
        return not getattr(self, "_privatize", self.privatize)

    @property
    def guarantee_(self) -> PrivacyGuarantee:  # numpydoc ignore=RT01
        """What each call of `fit`, `fit_transform` or `transform` promises to the records of its rows."""
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
            ``<column>_<value>``, ``<column>_missing`` where missing is declared; the columns of a joint attribute, then
            their values.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the input features are not those of `fit`.
        """
        check_is_fitted(self, "prior_")
        given = input_names(self, self._protocol.columns, input_features)
        names = _value_names(self._protocol, given if self._privatize else None)
        return np.array(names, dtype=object)


def _value_names(protocol: Any, inputs: Sequence[str] | None = None) -> list[str]:
    """Name a column for each value of each attribute, after the columns of the input."""
    known = dict(zip(protocol.columns, inputs or protocol.columns, strict=True))
    names = []
    for field in protocol.fields:
        prefix = field.prefix([known[name] for name in field.columns])
        names += [f"{prefix}_{label}" for label in field.labels]
    return names


def posterior(
    oracle: FrequencyOracle, reports: NDArray[Any], prior: ArrayLike
) -> NDArray[np.float64]:
    """Return the probability of each value given each report, by Bayes' rule."""
    # A report is this many times likelier under the values that it supports; of bits, those of the ones alone matter,
    # as all else is the same for every value.
    excess = float(oracle.support_ratio - 1)
    weights = np.asarray(prior, float) * (1 + excess * oracle.supports(reports))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _estimate_prior(
    encoder: Any, reports: Any, postprocess: str
) -> list[NDArray[np.float64]]:
    """Estimate the share of each value from reports; one more record of each keeps all of them positive."""
    protocol = encoder.protocol_
    arrays, tally = read_carried(reports, encoder)
    refuse_impossible(protocol, tally)
    table = estimate_counts(protocol, tally, reports=arrays, postprocess=postprocess)
    # Reports that say nothing (p = q) give nan, and a uniform prior.
    ends = np.cumsum([oracle.k for oracle in protocol.oracles])
    parts = np.split(table["count"].to_numpy(), ends[:-1])
    more = [np.nan_to_num(part) + 1 for part in parts]
    return [part / part.sum() for part in more]
