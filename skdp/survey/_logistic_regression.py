"""Logistic regression whose predictors, target, or both are reports."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from skdp.base import ColumnLike, TableLike
from skdp.survey._design import Question, as_pandas, read_questions
from skdp.survey._likelihood import Classes, Numbers, Unknown
from skdp.survey._regression import (
    ReportRegression,
    cells_given_reports,
)
from skdp.survey._rows import (
    one_column,
    read_target_reports,
)
from skdp.tables import as_objects


class ReportLogisticRegression(ClassifierMixin, ReportRegression):
    """Logistic regression whose predictors, target, or both are reports.

    Parameters
    ----------
    predictor_designs : fitted local transformer, ReportDesign, or list of them, optional
        How the predictors were reported: encoders of categories, whose report columns X holds, beside true predictors;
        or designs. By default all predictors are true. Report a number as an `Interval`. Columns that are reported
        together (``strategy="joint"``) have a main effect each.
    target_design : fitted local transformer or ReportDesign, optional
        How the target was reported; by default it is true. Then y is the reports: a series, or a dataframe with the
        columns of the reports.
    interactions : list of (true predictor, reported predictor), optional
        Pairs of columns whose products are terms, too. An encoder's predictor is named as its column.
    hidden_distribution : {"conditional", "marginal"}, default="conditional"
        Whether the true values of the reported predictors depend on the true predictors, by a multinomial logit, or
        are independent of them. Where they do depend, "marginal" is biased.
    errors : {"observed", "sandwich"}, default="observed"
        Standard errors by the observed information, or by the sandwich, which holds if the model is wrong, too; with
        weights or clusters always the latter.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The true values of the target; of reports as declared, and the first one is the reference.
    coef_ : ndarray of shape (1, n_terms) or (n_classes - 1, n_terms)
        The coefficients, without the intercept, of log odds against the first class.
    intercept_ : ndarray of shape (1,) or (n_classes - 1,)
        The intercepts.
    coef_std_error_ : ndarray of the shape of `coef_`
        Their standard errors.
    feature_names_out_ : ndarray of shape (n_terms,)
        The names of the terms: true predictors, then ``<column>=<value>`` of reported ones, then interactions.
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
        By `fit`, if a parameter is out of range, a column of reports is missing, X is no dataframe although there are
        reports, a true predictor is no finite number, or no row has reports of two of the columns, as with
        ``strategy="sample"``: such reports do not identify the association of the columns.

    Warns
    -----
    ConvergenceWarning
        If the reports say too little for a clear maximum; errors and intervals are nan then.
    UserWarning
        If the fit has other shares of the reported values than the reports alone, by five standard errors or more: the
        model does not hold, such as where the effect of a true predictor is not linear.

    See Also
    --------
    ReportLinearRegression : For numbers to predict.
    PosteriorFeatures : For models that predict, without errors of coefficients.

    Notes
    -----
    **Privacy.** Post-processing of reports: free, and repeatable. True predictors and targets are not protected.

    The likelihood of a row is the sum over true values of the reported columns of the probability of these values given
    the true predictors, of the reports given the values (the exact channel), and of the target given both ([1]_ for two
    values). It is maximised by Newton's method; the information is observed, not expected.

    References
    ----------
    .. [1] D. W. Heck, M. Moshagen (2018). RRreg: an R package for correlation and regression analyses of randomized
       response data. Journal of Statistical Software 85(2).

    Examples
    --------
    The target is reported:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp import ReportLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(size=20_000)})
    >>> cheats = rng.random(20_000) < 1 / (1 + np.exp(1 - X["age"]))
    >>> truth = pd.DataFrame({"cheats": np.where(cheats, "yes", "no")})
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"cheats": ["no", "yes"]}, random_state=0)
    >>> reports = encoder.fit_transform(truth)
    >>> model = ReportLogisticRegression(target_design=encoder).fit(X, reports)
    >>> model.summary()[["estimate", "std_error"]].round(2)
                            estimate  std_error
    term (log odds of yes)
    (intercept)                -1.00       0.03
    age                         0.97       0.03
    """

    def __init__(
        self,
        predictor_designs: Any = None,
        *,
        target_design: Any = None,
        interactions: Any = None,
        hidden_distribution: Literal["conditional", "marginal"] = "conditional",
        errors: Literal["observed", "sandwich"] = "observed",
    ) -> None:
        self.predictor_designs = predictor_designs
        self.target_design = target_design
        self.interactions = interactions
        self.hidden_distribution = hidden_distribution
        self.errors = errors

    def fit(
        self,
        X: TableLike,
        y: Any,
        sample_weight: ColumnLike | None = None,
        *,
        clusters: ColumnLike | None = None,
    ) -> Self:
        """Fit by maximum likelihood.

        Parameters
        ----------
        X : dataframe of shape (n_samples, n_features), or array without reports
            True predictors and reports.
        y : array-like of shape (n_samples,), or dataframe of reports
            The true target, or its reports: a dataframe with their columns, or, for reports of one column, a series or
            an array.
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
        likelihoods, unknowns, target = self._read_target(y, weights)
        # The engine's reference is the last class; here it is the first one.
        outcome = Classes(likelihoods[:, ::-1])
        self._fit(
            table,
            X,
            outcome,
            weights=weights,
            clusters=clusters,
            unknowns=unknowns,
            target=target,
        )
        n_classes = len(self.classes_)
        shape = len(self._names), n_classes - 1
        coefficients = self._parameters[: math.prod(shape)]
        coefficients = coefficients.reshape(shape)[:, ::-1].T
        errors = np.sqrt(np.diag(self._covariance)[: math.prod(shape)])
        std_errors = errors.reshape(shape)[:, ::-1].T
        self.intercept_ = coefficients[:, 0]
        self.coef_ = coefficients[:, 1:]
        self.coef_std_error_ = std_errors[:, 1:]
        self.intercept_std_error_ = std_errors[:, 0]
        self.feature_names_out_ = np.array(self._names[1:], dtype=object)
        return self

    def _read_target(
        self, y: Any, weights: Numbers
    ) -> tuple[Numbers, list[Unknown], Question | None]:
        """Return the probability of what is seen of the target under each class; how it is reported, if it is."""
        if self.target_design is None:
            values = one_column("y", y)
            if values.dtype.kind == "f":
                assert_all_finite(values, input_name="y")
            elif pd.isna(values).any():
                raise ValueError("y must have no missing values: drop these rows")
            check_classification_targets(values)
            self.classes_, codes = np.unique(values, return_inverse=True)
            counts = np.bincount(codes, weights)
            if (counts > 0).sum() < 2:
                raise ValueError("y must have two classes or more, got one class")
            is_class = np.equal.outer(codes, np.arange(len(self.classes_)))
            return is_class.astype(float), [], None
        reports = read_target_reports(y, self.target_design)
        table = as_pandas(reports, "y")
        questions = read_questions(self.target_design, table, reports, "y")
        if len(questions) != 1:
            raise ValueError(
                f"target_design must report one column, got {len(questions)}"
            )
        (question,) = questions
        self.classes_ = as_objects(question.values)
        unknowns = []
        if question.unknown is not None and question.slope is not None:
            slope = question.slope[:, ::-1]
            unknowns = [Unknown(question.unknown, question.start, class_slope=slope)]
        return question.likelihood, unknowns, question

    def _outcome(self) -> Classes:
        return Classes(np.zeros((0, len(self.classes_))))

    def _terms(self) -> tuple[Numbers, pd.Index]:
        n = len(self._names) * (len(self.classes_) - 1)
        estimates = self._parameters[:n]
        if len(self.classes_) == 2:
            name = f"term (log odds of {self.classes_[1]})"
            return estimates, pd.Index(self._names, name=name)
        # The engine has classes from the last one down.
        others = self.classes_[:0:-1]
        pairs = [(kind, name) for name in self._names for kind in others]
        return estimates, pd.MultiIndex.from_tuples(pairs, names=["class", "term"])

    def predict_proba(self, X: TableLike) -> Numbers:
        """Return the probability of each true class, given predictors and reports.

        Parameters
        ----------
        X : as of `fit`
            True predictors and reports.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Of the truth, not of its report.
        """
        model = self._prediction_model(X)
        cells = cells_given_reports(model, self._parameters)
        n = len(self._names) * (len(self.classes_) - 1)
        features = model.features(slice(None))
        shares = self._outcome().shares(self._parameters[:n], features)
        of_classes: Numbers = np.einsum("ihc,ih->ic", shares, cells)[:, ::-1]
        return of_classes

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Return the most probable true class.

        Parameters
        ----------
        X : as of `fit`
            True predictors and reports.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.
        """
        places = self.predict_proba(X).argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[places]
        return predicted
