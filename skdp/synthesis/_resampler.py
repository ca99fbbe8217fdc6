"""Sampler of imbalanced-learn that replaces training rows by synthetic rows."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags, get_tags

from skdp.base import (
    ColumnLike,
    OnSite,
    TableLike,
    restore_on_error,
)
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis._column_synthesizer import DPColumnSynthesizer
from skdp.synthesis._rows import assemble, check_n_samples, make_frame
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.tables import is_frame


class SyntheticResampler(MetaEstimatorMixin, OnSite, BaseEstimator):
    """Replace the training rows of a model by synthetic rows; rows to predict are unchanged.

    Features and target are synthesized together. A pipeline of imbalanced-learn (``imblearn.pipeline.make_pipeline``)
    uses such steps in `fit` only: later steps are trained on synthetic rows, and predict real rows.

    Parameters
    ----------
    synthesizer : DPMarginalSynthesizer or DPColumnSynthesizer
        Cloned; the original is never fitted. The target is one more column: its values are declared under its name, or
        as ``"target"``. Name it as the synthesizer's `target` to preserve its associations better. A
        `DPColumnSynthesizer` keeps the rows and their target, which is public, and resamples its columns.
    n_samples : int, optional
        Number of synthetic rows, at least 0; by default the estimated number of records. None with a
        `DPColumnSynthesizer`.

    Attributes
    ----------
    synthesizer_ : DPMarginalSynthesizer
        The fitted clone: its `sample`, `marginal` and other methods use no further budget.
    guarantee_ : PrivacyGuarantee
        The guarantee of the last `fit_resample`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    DPMarginalSynthesizer : The synthesizer, also as a transformer.
    OnFitOnly : The same idea in the local model: no curator, each record is randomized.

    Notes
    -----
    **Privacy.** Central model: the guarantee of the synthesizer holds for the synthetic rows and every model trained on
    them, target included, so a model that is trained on nothing else is post-processing. Each `fit_resample` is one
    release, and charges the synthesizer's ledger once; a cross-validation is as many releases as it has folds. **Not
    protected: the rows that a pipeline predicts**, nor scores that are computed from real rows.

    A step before this one that is fitted to the rows, such as a plain scaler, voids the guarantee, and
    `privacy_statement` states this. Put fitted steps after it.

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
    """Synthetic rows in `fit`; later rows of a pipeline are unchanged."""

    # As in scikit-learn's splitters, `groups` is requested if metadata routing is enabled.
    __metadata_request__fit_resample = {"groups": True}  # noqa: RUF012

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
        groups: ColumnLike | None = None,
    ) -> tuple[Any, Any]:
        """Fit a clone of the synthesizer to a table, and draw synthetic rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The table.
        y : 1-D array-like of shape (n_samples,), optional
            The target.
        groups : 1-D array-like of shape (n_samples,), optional
            The person of each row, for the synthesizer's `max_rows_per_person`; `guarantee_` is then for all rows of
            one person. A pipeline passes them on only with
            metadata routing (``sklearn.set_config(enable_metadata_routing=True)``).

        Returns
        -------
        X : same kind as X
            Synthetic rows.
        y : 1-D array, or column of the library of X
            Targets of the synthetic rows; None if `y` is None.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, or the synthesizer rejects the table.
        BudgetExceeded
            If the synthesizer's ledger does not cover it.
        """
        if not isinstance(
            self.synthesizer, DPMarginalSynthesizer | DPColumnSynthesizer
        ):
            kind = type(self.synthesizer).__name__
            raise TypeError(
                "synthesizer must be a DPMarginalSynthesizer or a DPColumnSynthesizer, "
                f"got {kind}"
            )
        check_n_samples(self.n_samples)
        synthesizer = clone(self.synthesizer)
        if isinstance(synthesizer, DPColumnSynthesizer):
            for name, value in (("n_samples", self.n_samples), ("groups", groups)):
                if value is not None:
                    raise ValueError(
                        f"{name} must be None with a DPColumnSynthesizer, which keeps "
                        "all rows"
                    )
            rows = synthesizer.fit_transform(X, y)
            self.synthesizer_ = synthesizer
            return rows, y
        synthesizer.fit(X, y, groups=groups)
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
    """Draw synthetic rows and targets, both in the library of X."""
    n, rng = synthesizer._start_sample(n_samples)
    template = synthesizer._template
    rows = synthesizer._draw_columns(template, n, rng)
    target = None
    if has_target:
        name = synthesizer.domain_.columns[-1]
        target = rows.pop(name)
        if is_frame(template.native):
            frame = make_frame(template, [target], [name])
            target = nw.from_native(frame).get_column(name).to_native()
    return assemble(template, rows), target
