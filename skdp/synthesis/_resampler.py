"""Sampler for pipelines of imbalanced-learn that replaces training rows by synthetic rows."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags, get_tags

from skdp._arrays import ColumnLike, TableLike
from skdp.base import PrivateEstimator, restore_on_error
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis._column_synthesizer import DPColumnSynthesizer
from skdp.synthesis._marginal import DPMarginalSynthesizer, draw_sample, get_fitted
from skdp.synthesis.answers._synthetic_rows import check_n_samples, make_table
from skdp.tables import is_frame


class SyntheticResampler(MetaEstimatorMixin, PrivateEstimator):
    """Replace training rows by synthetic rows, in a pipeline of imbalanced-learn.

    Features and target are synthesized together. A pipeline of imbalanced-learn (``imblearn.pipeline.make_pipeline``)
    applies this step in `fit` only: later steps are trained on synthetic rows, and predict real rows.

    Parameters
    ----------
    synthesizer : DPMarginalSynthesizer or DPColumnSynthesizer
        Synthesizer that is cloned and fitted. The target is modeled as a further column, whose values its `domain`
        declares under the name of the target, or as ``"target"`` if y has no name. Set `target` of the synthesizer to
        this name to preserve associations with the target better. A `DPColumnSynthesizer` keeps the rows and the
        target, which is public, and resamples its private columns.
    n_samples : int, optional
        Number of synthetic rows, at least 0; by default the estimated number of records. It must be None with a
        `DPColumnSynthesizer`, which keeps all rows.

    Attributes
    ----------
    synthesizer_ : DPMarginalSynthesizer or DPColumnSynthesizer
        The fitted clone. Its methods `sample` and `marginal` use no further budget.
    guarantee_ : PrivacyGuarantee
        The guarantee of the last `fit_resample`.
    n_features_in_ : int
        Number of columns seen during `fit_resample`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of columns seen during `fit_resample`. Defined only when X has column names that are all strings.

    See Also
    --------
    DPMarginalSynthesizer : The synthesizer, also as a transformer.
    OnFitOnly : Privatize training rows in the local model, without a trusted curator.

    Notes
    -----
    **Privacy.** Central model: the guarantee of the synthesizer covers the synthetic rows with their target, and each
    model that is trained on synthetic rows only. Each call of `fit_resample` is a release and charges the ledger of
    the synthesizer once; a cross-validation makes one release per fold. **The rows for which a
    pipeline predicts are not protected**, and neither are scores that are computed from real rows.

    No guarantee holds if a step before this one is fitted to the real rows, such as scikit-learn's `StandardScaler`;
    `privacy_statement` then lists that step. Put steps that are fitted to rows after this one.

    Examples
    --------
    >>> from imblearn.pipeline import make_pipeline
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from skdp import DPMarginalSynthesizer, SyntheticResampler
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> X, y = adult.data[["sex", "relationship"]], adult.target
    >>> domain = adult.domain.select([*X.columns, "income"])
    >>> synthesizer = DPMarginalSynthesizer(epsilon=1.0, domain=domain, random_state=0)
    >>> model = make_pipeline(SyntheticResampler(synthesizer), OneHotEncoder(), LogisticRegression()).fit(X, y)
    >>> print(model[0].guarantee_.scope)
    ('sex', 'relationship', 'income')
    >>> round(model.score(X, y), 2)
    0.76
    """

    protects_rows = "fit"
    """The rows that `fit` passes on are protected; rows to predict are not."""

    # As in scikit-learn's splitters, `person` is requested if metadata routing is enabled.
    __metadata_request__fit_resample = {"person": True}  # noqa: RUF012

    def __init__(
        self,
        synthesizer: DPMarginalSynthesizer | DPColumnSynthesizer,
        *,
        n_samples: int | None = None,
    ) -> None:
        self.synthesizer = synthesizer
        self.n_samples = n_samples

    @restore_on_error
    def fit_resample(
        self,
        X: TableLike,
        y: ColumnLike | None = None,
        *,
        person: ColumnLike | None = None,
    ) -> tuple[Any, Any]:
        """Fit a clone of the synthesizer to a table, and draw synthetic rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Private table.
        y : array-like of shape (n_samples,), optional
            Private target; public with a `DPColumnSynthesizer`.
        person : array-like of shape (n_samples,), optional
            The person of each row, which limits the rows to `max_rows_per_person` of the synthesizer; `guarantee_` then
            covers all rows of one person. A pipeline passes `person` on only with metadata routing
            (``sklearn.set_config(enable_metadata_routing=True)``).

        Returns
        -------
        X : same type as X
            Synthetic rows.
        y : ndarray of shape (n_samples,), or column in the library of X
            Targets of the synthetic rows; None if `y` is None.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, or the synthesizer rejects the table.
        BudgetExceeded
            If the ledger of the synthesizer does not cover the release.
        """
        if not isinstance(
            self.synthesizer, DPMarginalSynthesizer | DPColumnSynthesizer
        ):
            raise TypeError(
                "`synthesizer` must be a DPMarginalSynthesizer or a "
                f"DPColumnSynthesizer, got {type(self.synthesizer).__name__}."
            )
        check_n_samples(self.n_samples)
        synthesizer = clone(self.synthesizer)
        if isinstance(synthesizer, DPColumnSynthesizer):
            for name, value in (("n_samples", self.n_samples), ("person", person)):
                if value is not None:
                    raise ValueError(
                        f"`{name}` must be None with a DPColumnSynthesizer, which "
                        f"keeps all rows, got {type(value).__name__}."
                    )
            rows = synthesizer.fit_transform(X, y)
            self.synthesizer_ = synthesizer
            return rows, y
        synthesizer.fit(X, y, person=person)
        self.synthesizer_ = synthesizer
        return _draw_samples(synthesizer, self.n_samples, has_target=y is not None)

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """The guarantee of the last `fit_resample`."""
        return self.synthesizer_.guarantee_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "synthesizer_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if isinstance(self.synthesizer, BaseEstimator):
            tags.input_tags = get_tags(self.synthesizer).input_tags
        return tags

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        return self.synthesizer_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns of X."""
        return self.synthesizer_.feature_names_in_


def _draw_samples(
    synthesizer: DPMarginalSynthesizer, n_samples: int | None, *, has_target: bool
) -> tuple[Any, Any]:
    """Draw synthetic rows from a fitted synthesizer; also return their target, None without a target."""
    template = get_fitted(synthesizer).template
    rows = draw_sample(synthesizer, n_samples)
    target = None
    if has_target:
        name = synthesizer.domain_.columns[-1]
        target = rows.pop(name)
        if is_frame(template.native):
            frame = make_table(template, {name: target})
            target = nw.from_native(frame).get_column(name).to_native()
    return make_table(template, rows), target
