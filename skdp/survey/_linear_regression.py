"""Linear regression whose predictors are reports."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import RegressorMixin

from skdp.base import ColumnLike, TableLike
from skdp.survey._likelihood import Gaussian, Numbers
from skdp.survey._regression import (
    ReportRegression,
    cells_given_reports,
)
from skdp.survey._rows import one_column, read_numbers

# With 2 to 9 values of the target, coefficients were up to 13 standard errors off.
MIN_DISTINCT_VALUES = 10


class ReportLinearRegression(RegressorMixin, ReportRegression):
    """Linear regression on predictors that are reports, beside true ones.

    Parameters
    ----------
    predictor_designs : fitted local transformer, ReportDesign, or list of them, optional
        How the predictors were reported, as for `ReportLogisticRegression`.
    interactions : list of (true predictor, reported predictor), optional
        Pairs of columns whose products are terms, too.
    hidden_distribution : {"conditional", "marginal"}, default="conditional"
        Whether the true values of the reported predictors depend on the true predictors, by a multinomial logit, or
        are independent of them. Where they do depend, "marginal" is biased: a coefficient of .5 came out as .64.
    errors : {"observed", "sandwich"}, default="observed"
        Standard errors by the observed information, or by the sandwich; with weights or clusters always the latter.

    Attributes
    ----------
    coef_ : ndarray of shape (n_terms,)
        The coefficients, without the intercept.
    intercept_ : float
        The intercept.
    coef_std_error_ : ndarray of shape (n_terms,)
        Their standard errors.
    sigma_ : float
        The standard deviation of the errors of the target.
    feature_names_out_ : ndarray of shape (n_terms,)
        The names of the terms.
    log_likelihood_ : float
        The log likelihood, up to a constant of the reports.
    n_parameters_ : int
        The number of parameters, including the parameters of the latent distribution.
    unknown_ : pandas.DataFrame or None
        ``estimate, std_error, lower, upper`` (95 %) of unknown numbers of the designs, such as the share of cheaters,
        if there are any. An estimate below 0 is one of a share that may be 0: no bound cuts it off.

    Raises
    ------
    TypeError, ValueError
        By `fit`, as for `ReportLogisticRegression`, or if y holds no finite numbers, or, beside reports, fewer than 10
        distinct ones: normal errors do not describe classes, counts of few, or answers from 1 to 5.

    Warns
    -----
    ConvergenceWarning
        If the reports say too little for a clear maximum; errors and intervals are nan then.
    UserWarning
        If the fit has other shares of the reported values than the reports alone, by five standard errors or more: the
        model does not hold, such as where the effect of a true predictor is not linear.

    See Also
    --------
    ReportLogisticRegression : For classes, and for targets that are reports.

    Notes
    -----
    **Privacy.** Post-processing of reports: free, and repeatable. True predictors and targets are not protected.

    The model is that of `ReportLogisticRegression`, with a normal density of the target, of one variance. If the errors
    are not normal, the hidden distribution and so the coefficients may be biased.

    References
    ----------
    .. [1] D. W. Heck, M. Moshagen (2018). RRreg: an R package for correlation and regression analyses of randomized
       response data. Journal of Statistical Software 85(2).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp import ReportLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> truth = pd.DataFrame({"smokes": rng.choice(["no", "yes"], 20_000)})
    >>> pulse = 70 + 5 * (truth["smokes"] == "yes") + rng.normal(0, 4, 20_000)
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["no", "yes"]}, random_state=0)
    >>> reports = encoder.fit_transform(truth)
    >>> model = ReportLinearRegression(encoder).fit(reports, pulse)
    >>> model.summary()[["estimate", "std_error"]].round(2)
                 estimate  std_error
    term
    (intercept)     70.04       0.07
    smokes=yes       4.96       0.11
    """

    def __init__(
        self,
        predictor_designs: Any = None,
        *,
        interactions: Any = None,
        hidden_distribution: Literal["conditional", "marginal"] = "conditional",
        errors: Literal["observed", "sandwich"] = "observed",
    ) -> None:
        self.predictor_designs = predictor_designs
        self.interactions = interactions
        self.hidden_distribution = hidden_distribution
        self.errors = errors

    def fit(
        self,
        X: TableLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        clusters: ColumnLike | None = None,
    ) -> Self:
        """Fit by maximum likelihood.

        Parameters
        ----------
        X : dataframe of shape (n_samples, n_features), or array without reports
            True predictors and reports.
        y : array-like of shape (n_samples,)
            The true target.
        sample_weight : array-like of shape (n_samples,), optional
            Design weights, at least 0. Only their ratios matter.
        clusters : array-like of shape (n_samples,), optional
            Sampled groups, such as schools, whose rows may depend on each other: more than terms, and better 20 or
            more. Strata are no clusters: leave them out, which makes errors larger, if anything.

        Returns
        -------
        self
            The fitted regression.
        """
        table, weights = self._read(X, y, sample_weight, clusters)
        values = read_numbers("y", one_column("y", y))
        if not np.isfinite(values).all():
            raise ValueError("y must hold finite numbers, and no NaN or infinity")
        if self.predictor_designs is not None:
            self._check_distinct(values[weights > 0])
        outcome = Gaussian(values)
        self._fit(table, X, outcome, weights=weights, clusters=clusters, unknowns=[])
        n = len(self._names)
        self.intercept_ = float(self._parameters[0])
        self.coef_ = self._parameters[1:n]
        std_errors = np.sqrt(np.diag(self._covariance))
        self.coef_std_error_ = std_errors[1:n]
        self.intercept_std_error_ = float(std_errors[0])
        self.sigma_ = math.exp(self._parameters[n])
        self.feature_names_out_ = np.array(self._names[1:], dtype=object)
        return self

    @staticmethod
    def _check_distinct(y: Numbers) -> None:
        """Refuse a target of few values, which normal errors do not describe."""
        # With a value for each true value of a predictor, the likelihood has no
        # maximum: it grows as the errors go to 0.
        n_distinct = len(np.unique(y))
        if n_distinct < 2 or n_distinct < min(MIN_DISTINCT_VALUES, len(y)):
            raise ValueError(
                f"y must have {MIN_DISTINCT_VALUES} distinct values or more, as its "
                f"errors are taken to be normal; got {n_distinct}. "
                "ReportLogisticRegression takes them as classes"
            )

    def _outcome(self) -> Gaussian:
        return Gaussian(np.zeros(0))

    def _terms(self) -> tuple[Numbers, pd.Index]:
        n = len(self._names)
        return self._parameters[:n], pd.Index(self._names, name="term")

    def predict(self, X: TableLike) -> Numbers:
        """Return the mean of the target, given predictors and reports.

        Parameters
        ----------
        X : as of `fit`
            True predictors and reports.

        Returns
        -------
        ndarray of shape (n_samples,)
            Means.
        """
        model = self._prediction_model(X)
        cells = cells_given_reports(model, self._parameters)
        coefficients = self._parameters[: len(self._names), np.newaxis]
        means = model.features(slice(None)).times(coefficients)[:, :, 0]
        return np.asarray((means * cells).sum(axis=1))
