"""Linear and logistic regression with reports as predictors or target."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._arrays import ColumnLike, Floats, Indices, TableLike
from skdp.base import (
    ErrorDistribution,
    OrderedScore,
    check_confidence_level,
    check_same_order,
)
from skdp.local import reject_column_name
from skdp.survey._design import to_pandas
from skdp.survey._inputs import (
    INTERCEPT,
    PredictorRows,
    Question,
    build_rows,
    check_real,
    check_reported_pairs,
    convert_target_reports,
    list_questions,
    validate_column,
    validate_weights,
)
from skdp.survey._likelihood import (
    ClassTarget,
    HiddenModel,
    NumberTarget,
    log_softmax,
    log_sum,
    maximize,
    sum_by_cluster,
)
from skdp.survey._proportions import encode_sample_labels, warn_of_estimate
from skdp.tables import is_frame, to_objects


class ReportRegression(BaseEstimator):
    """Base class of regressions on numeric true predictors and on reports of categories."""

    predictor_designs: Any
    intercept_: Any
    coef_: Floats
    intercept_std_error_: Any
    coef_std_error_: Floats

    def fit(
        self,
        X: TableLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        clusters: ColumnLike | None = None,
    ) -> Self:
        """Fit the regression by maximum likelihood.

        Parameters
        ----------
        X : dataframe of shape (n_samples, n_features), or array without reports
            True predictors and reports.
        y : array-like of shape (n_samples,), or dataframe of reports
            True target. With a `target_design`, the reports of the target: a dataframe, or
            a series or array if the reports have one column. A linear regression on
            reports requires ten distinct values.
        sample_weight : array-like of shape (n_samples,), default=None
            Survey weights. Only their ratios matter.
        clusters : array-like of shape (n_samples,), default=None
            Cluster of each row, such as a school, whose rows are dependent. Use at least
            20 clusters. If clusters are numbered anew in each stratum, pass the pair of
            stratum and cluster as text. Strata themselves are not used.

        Returns
        -------
        self
            Fitted regression.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a column of reports is missing, a true
            predictor or numeric target is not finite, or no row reports two of the
            columns, as with ``strategy="sample"``.

        Warns
        -----
        ConvergenceWarning
            If the likelihood has no clear maximum. Standard errors and intervals are then
            NaN.
        UserWarning
            If the proportions of the reported values in the fit and in the reports differ
            by more than five standard errors, so the model is misspecified; or if no
            design is given, because all data are then treated as true values.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        table = self._validate_table(X, reset=True)
        if (
            self.predictor_designs is None
            and getattr(self, "target_design", None) is None
        ):
            warn_of_estimate(
                "X and y are treated as true values, because no design is given. If "
                "they have reports, pass the encoder or ReportDesign: coefficients of "
                "reports are biased toward 0"
            )
        reject_column_name("y", y)
        check_consistent_length(table, y)
        check_same_order(X, y, "y")
        rows = build_rows(
            table,
            X,
            self.predictor_designs,
            weights=validate_weights(sample_weight, X, len(table)),
            clusters=None
            if clusters is None
            else encode_sample_labels("clusters", clusters, X, len(table)),
        )
        self._fit_target(rows, y)
        return self

    @abstractmethod
    def _fit_target(self, rows: PredictorRows, y: ColumnLike) -> None:
        """Check the target, fit the regression, and set the fitted attributes."""

    def _validate_table(self, X: TableLike, *, reset: bool) -> pd.DataFrame:
        """Check X, and convert it to a pandas DataFrame; with `reset`, its columns become fitted attributes."""
        if is_frame(X):
            table = to_pandas(X)
            if not len(table):
                raise ValueError("X must have at least one row, got 0.")
            validate_data(self, table, reset=reset, skip_check_array=True)
            return table
        if X is None or self.predictor_designs is not None:
            raise TypeError(
                "X must be a dataframe with the columns of the reports, got "
                f"{type(X).__name__}."
            )
        check_real("X", X)
        array = validate_data(self, X, reset=reset, dtype=np.float64)
        return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])])

    def _fit_terms(
        self, rows: PredictorRows, target: ClassTarget | NumberTarget
    ) -> tuple[Floats, Floats, Floats]:
        """Maximize the likelihood, and set the fitted attributes of both regressions.

        `rows` has the true predictors and the reports. Return the coefficients and
        their standard errors, (n_terms, n_outputs), with an output for each class except
        the first, and the scale parameters of the target, see `NumberTarget`.
        `hidden_coef_` are the coefficients of the distribution of the latent true
        values.
        """
        # True predictors are standardized, so that the search does not depend on their units.
        known = rows.known.to_numpy()
        centers, units = compute_units(known, rows.weights)
        centers[0] = 0.0
        model = _build_model(rows, target, (known - centers) / units)
        parameters, covariance, log_likelihood = maximize(model, rows.clusters)
        if not np.isnan(covariance).any():
            _warn_of_misspecification(model, parameters, rows)
        else:
            warn_of_estimate(
                "The likelihood has no clear maximum, so standard errors are not "
                "available. Use more rows or a larger epsilon, or remove predictors "
                "that are constant, collinear or determine the target",
                ConvergenceWarning,
            )
        coefficients, scale, hidden = model.split(parameters)
        # The coefficients of X are a linear map of the coefficients of standardized columns:
        # each is divided by the unit of its column, and the intercept subtracts the effects
        # of the centers.
        n_known = len(centers)
        restore = np.eye(len(coefficients))
        restore[:n_known, :n_known] = np.diag(1 / units)
        restore[0, :n_known] -= centers / units
        jacobian = np.kron(restore, np.eye(coefficients.shape[1]))
        covariance = covariance[: len(jacobian), : len(jacobian)]
        variances = np.diag(jacobian @ covariance @ jacobian.T)
        self.hidden_coef_ = restore[: len(hidden), : len(hidden)] @ hidden
        self.feature_names_out_ = np.array(rows.terms[1:], dtype=object)
        self.log_likelihood_ = log_likelihood
        self.n_parameters_ = len(parameters)
        self.degrees_of_freedom_ = rows.degrees_of_freedom
        errors = np.sqrt(variances).reshape(coefficients.shape)
        return restore @ coefficients, errors, scale

    def _predict_cells(self, X: TableLike) -> tuple[Floats, Floats]:
        """Compute the linear predictors in each cell, and the probability of each cell in each row.

        A cell is a combination of latent true values of the reported predictors. The
        linear predictors have the shape (n_outputs, n_cells, n_rows). The probability,
        (n_cells, n_rows), is the posterior given the true predictors and the reports.
        """
        check_is_fitted(self)
        table = self._validate_table(X, reset=False)
        uniform = np.ones(len(table))
        rows = build_rows(table, X, self.predictor_designs, weights=uniform)
        # scikit-learn compares column names only if all of them are strings.
        if rows.terms[1:] != list(self.feature_names_out_):
            raise ValueError(
                f"X must have the predictors of fit, {list(self.feature_names_out_)}, "
                f"got {rows.terms[1:]}."
            )
        model = _build_model(rows, None, rows.known.to_numpy())
        # Bayes' rule, without the target.
        log_cells = model.compute_log_cells(self.hidden_coef_) + model.log_likelihoods
        cells = np.exp(log_cells - log_sum(log_cells))
        coefficients = join_terms(self.intercept_, self.coef_).T
        return model.compute_linear(coefficients), cells

    @abstractmethod
    def _term_index(self) -> pd.Index:
        """Make the index of `summary`, with the names of the terms."""

    def summary(self, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Return each coefficient with its standard error and interval.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Coverage probability of each interval.

        Returns
        -------
        pandas.DataFrame
            Columns 'estimate', 'std_error', 'lower', 'upper' and 'p_value', indexed by
            term, or by class and term for more than two classes. For two classes, the
            name of the index contains the class of the log odds. The p-value is of the
            Wald test that the coefficient is 0. With G clusters, intervals and tests use
            the t distribution with G - 1 degrees of freedom.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the level is out of range.
        """
        check_is_fitted(self)
        level = check_confidence_level(confidence_level)
        estimates = join_terms(self.intercept_, self.coef_).ravel()
        errors = join_terms(self.intercept_std_error_, self.coef_std_error_).ravel()
        distribution = ErrorDistribution(self.degrees_of_freedom_)
        lower, upper = distribution.confidence_interval(estimates, errors, level)
        with np.errstate(divide="ignore", invalid="ignore"):
            p_values = distribution.p_value(estimates / errors)
        columns = {
            "estimate": estimates,
            "std_error": errors,
            "lower": lower,
            "upper": upper,
            "p_value": p_values,
        }
        return pd.DataFrame(columns, index=self._term_index())


def _build_model(rows: PredictorRows, target: Any, known: Floats) -> HiddenModel:
    """Make the model of a target, None for predictions, with the true predictors `known`, (n_rows, n_known)."""
    cells = rows.cells.to_numpy(float)
    return HiddenModel(known, cells, rows.log_likelihoods, target, rows.weights)


def join_terms(intercept: ArrayLike, coef: Floats) -> Floats:
    """Join intercepts and coefficients; shape (n_predictors, 1 + n_columns)."""
    return np.column_stack([intercept, np.atleast_2d(coef)])


def compute_units(columns: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Compute the weighted mean and standard deviation of each column, 1 if it is constant."""
    centers = np.average(columns, axis=0, weights=weights)
    units = np.sqrt(np.average((columns - centers) ** 2, axis=0, weights=weights))
    largest = np.abs(columns).max(axis=0)
    # The standard deviation of a constant column is a rounding error.
    units[units <= 1e-12 * largest] = 1.0
    return centers, units


def _warn_of_misspecification(
    model: HiddenModel, parameters: Floats, rows: PredictorRows
) -> None:
    """Warn if the proportions of a reported variable in the fit differ from their estimates from the reports."""
    # If a true predictor has, for example, a nonlinear effect, the latent values can fit the
    # residuals instead of the reports. As in the test of Hausman (1978), a correct model is
    # more precise than the reports alone, so the variance of the reports is an upper bound
    # of the variance of the difference.
    cells = model.compute_posterior(parameters)[1].sum(axis=0)
    sizes = [len(question.values) for question in rows.questions]
    for axis, question in enumerate(rows.questions):
        if question.unbiased is None:
            continue
        # Posterior of the values of one variable in each row, (n_rows, n_values): the sum
        # over the values of the other variables.
        others = tuple(set(range(len(sizes))) - {axis})
        posterior = cells.reshape(*sizes, -1).sum(axis=others).T
        # Classes, or small and large targets, are compared separately, because differences
        # of opposite sign would cancel.
        for mask in model.target.split_rows():
            weights = rows.weights * question.is_reported * mask
            distance = _compare_means(
                question.unbiased, posterior, weights, rows.clusters
            )
            # By chance, fewer than one in a million fits exceed 5 standard errors.
            if distance > 5:
                warn_of_estimate(
                    f"The proportions of {question.name!r} in the fit and in its "
                    f"reports differ by {distance:.3g} standard errors, so the "
                    "coefficients may be biased. Add squares of true predictors, "
                    "or transform a target with heavy tails"
                )
                return


def _compare_means(
    unbiased: Floats, posterior: Floats, weights: Floats, clusters: Indices | None
) -> float:
    """Return the largest difference of two weighted means, in standard errors of `unbiased`.

    `unbiased` and `posterior` have the shape (n_rows, n_values).
    """
    tiny = np.finfo(float).tiny
    means = weights @ unbiased / max(weights.sum(), tiny)
    sums = sum_by_cluster(weights[:, np.newaxis] * (unbiased - means), clusters)
    errors = np.sqrt((sums**2).sum(axis=0))
    differences = np.abs(weights @ (unbiased - posterior))
    return float((differences / np.maximum(errors, tiny)).max())


class ReportLinearRegression(OrderedScore, RegressorMixin, ReportRegression):
    """Fit a linear regression on true predictors and on reports.

    Parameters
    ----------
    predictor_designs : fitted local transformer, ReportDesign, or list of them, default=None
        Encoders or designs of the reported predictors, see `ReportLogisticRegression`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_terms,)
        Coefficients without the intercept, in the order of `feature_names_out_`.
    intercept_ : float
        Intercept.
    coef_std_error_ : ndarray of shape (n_terms,)
        Standard errors of `coef_`.
    intercept_std_error_ : float
        Standard error of `intercept_`.
    sigma_ : float
        Standard deviation of the errors of the target.
    feature_names_out_ : ndarray of shape (n_terms,)
        Names of the terms: true predictors, then ``<column>=<value>``.
    hidden_coef_ : ndarray
        Coefficients of the distribution of the reported values.
    log_likelihood_ : float
        Maximum of the log likelihood, up to a constant of the reports.
    n_parameters_ : int
        Number of parameters, including `hidden_coef_`.
    degrees_of_freedom_ : float
        Degrees of freedom of the intervals: infinite, or the number of clusters minus 1.

    See Also
    --------
    ReportLogisticRegression : For classes, and for reported targets.

    Notes
    -----
    **Privacy.** Post-processing of reports uses no budget. True predictors and
    targets are not protected.

    The model is the model of `ReportLogisticRegression`, with a target that has normal
    errors. If the errors are not normal, the coefficients may be biased. Therefore, `fit`
    requires a target with ten distinct values.

    References
    ----------
    .. [1] D. W. Heck, M. Moshagen (2018). RRreg: an R package for correlation and
       regression analyses of randomized response data. Journal of Statistical Software
       85(2).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder, ReportLinearRegression
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
        predictor_designs: object = None,
    ) -> None:
        self.predictor_designs = predictor_designs

    def _fit_target(self, rows: PredictorRows, y: ColumnLike) -> None:
        """Fit the coefficients of a numeric target by maximum likelihood, and set the attributes in the units of y."""
        check_reported_pairs(rows.questions, rows.weights)
        values = self._validate_target(y, rows.weights)
        (center,), (unit,) = compute_units(values[:, np.newaxis], rows.weights)
        # The model has a target with mean 0 and variance 1. Results are scaled to y.
        target = NumberTarget((values - center) / unit)
        terms, errors, scale = self._fit_terms(rows, target)
        self.intercept_ = float(center + unit * terms[0, 0])
        self.coef_ = unit * terms[1:, 0]
        self.intercept_std_error_ = float(unit * errors[0, 0])
        self.coef_std_error_ = unit * errors[1:, 0]
        self.sigma_ = float(unit * np.exp(scale[0]))
        self.log_likelihood_ -= float(rows.weights.sum() * np.log(unit))

    def _validate_target(self, y: ColumnLike, weights: Floats) -> Floats:
        """Check that the target is numeric, finite and not discrete, and convert it to floats.

        With reported predictors, the likelihood is a mixture of normal densities, which
        a target with few values does not have. Without them, the fit is least squares,
        which any numbers permit.
        """
        column = validate_column(y)
        # Text with numbers is not converted, because an error of float() contains the text.
        is_numeric = pd.api.types.is_numeric_dtype(pd.Series(column).infer_objects())
        if not is_numeric:
            raise ValueError(f"y must be numeric, got {column.dtype}.")
        values = column.astype(float)
        if not np.isfinite(values).all():
            raise ValueError(
                "y must be finite. Drop rows with missing or infinite targets."
            )
        n_distinct = len(np.unique(values[weights > 0]))
        # With 2 to 9 values, coefficients had biases of up to 13 standard errors.
        n_required = max(2, min(10, len(values)))
        if self.predictor_designs is not None and n_distinct < n_required:
            raise ValueError(
                "y must have at least 10 distinct values, because its errors are "
                f"normal; got {n_distinct}. Use "
                "ReportLogisticRegression for classes."
            )
        return values

    def _term_index(self) -> pd.Index:
        return pd.Index([INTERCEPT, *self.feature_names_out_], name="term")

    def predict(self, X: TableLike) -> Floats:
        """Predict the mean of the target, given true predictors and reports.

        Parameters
        ----------
        X : dataframe or array
            True predictors and reports, as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Means.
        """
        linear, cells = self._predict_cells(X)
        return (linear[0] * cells).sum(axis=0)


class ReportLogisticRegression(OrderedScore, ClassifierMixin, ReportRegression):
    """Fit a logistic regression whose predictors, target, or both are reports.

    Parameters
    ----------
    predictor_designs : fitted local transformer, ReportDesign, or list of them, default=None
        Encoders or designs of the reported predictors. X contains the columns of the
        reports beside true predictors, which are numbers. None if all predictors are
        true: reports are then treated as true values, and their coefficients are biased
        toward 0. Report a number as an `Interval`. Columns that are reported together
        (``strategy="joint"``) have a main effect each.
    target_design : fitted local transformer or ReportDesign, default=None
        Encoder or design of a reported target. None if the target is true. `fit` warns if
        neither design is given.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        True values of the target: sorted, or in the order of the design. The first class
        is the reference.
    coef_ : ndarray of shape (n_classes - 1, n_terms)
        Coefficients, without the intercept, of log odds against the first class, in
        the order of `feature_names_out_`.
    intercept_ : ndarray of shape (n_classes - 1,)
        Intercepts.
    coef_std_error_ : ndarray of the shape of `coef_`
        Standard errors of `coef_`.
    intercept_std_error_ : ndarray of the shape of `intercept_`
        Standard errors of `intercept_`.
    feature_names_out_ : ndarray of shape (n_terms,)
        Names of the terms: true predictors, then ``<column>=<value>``. The first value of
        a column is the reference.
    hidden_coef_ : ndarray
        Coefficients of the distribution of the reported values.
    log_likelihood_ : float
        Maximum of the log likelihood, up to a constant of the reports.
    n_parameters_ : int
        Number of parameters, including `hidden_coef_`.
    degrees_of_freedom_ : float
        Degrees of freedom of the intervals: infinite, or the number of clusters minus 1.

    See Also
    --------
    ReportLinearRegression : For numeric targets.
    PosteriorFeatures : Features for models that predict, without standard errors.

    Notes
    -----
    **Privacy.** Post-processing of reports uses no budget. True predictors and
    targets are not protected.

    The likelihood of a row is a sum over the true values of the reported columns. Each
    term is the product of three probabilities: of these values given the true predictors,
    of the reports given these values, and of the target given the values and the true
    predictors ([1]_ for two values). Standard errors are
    sandwich estimates, which are also valid for a wrong model.

    A design with non-compliant respondents (`ReportDesign.with_cheaters`) has "cheaters"
    as a further class.

    References
    ----------
    .. [1] D. W. Heck, M. Moshagen (2018). RRreg: an R package for correlation and
       regression analyses of randomized response data. Journal of Statistical Software
       85(2).

    Examples
    --------
    The target is reported:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder, ReportLogisticRegression
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
        predictor_designs: object = None,
        *,
        target_design: object = None,
    ) -> None:
        self.predictor_designs = predictor_designs
        self.target_design = target_design

    def _fit_target(self, rows: PredictorRows, y: ColumnLike) -> None:
        """Fit the log odds of the classes by maximum likelihood, and set their coefficients and standard errors."""
        likelihood, questions = self._validate_target(y, rows.weights)
        check_reported_pairs([*rows.questions, *questions], rows.weights)
        with np.errstate(divide="ignore"):
            target = ClassTarget(np.log(likelihood.T))
        terms, errors, _ = self._fit_terms(rows, target)
        self.intercept_, self.coef_ = terms[0], terms[1:].T
        self.intercept_std_error_, self.coef_std_error_ = errors[0], errors[1:].T

    def _validate_target(
        self, y: ColumnLike, weights: Floats
    ) -> tuple[Floats, list[Question]]:
        """Check the target, and set `classes_`.

        Return the probability of the target or report of each row given each class,
        (n_rows, n_classes), and a list with the reported variable, which is empty if
        the target is true.
        """
        if self.target_design is None:
            values = validate_column(y)
            if values.dtype.kind == "f":
                assert_all_finite(values, input_name="y")
            elif pd.isna(values).any():
                raise ValueError("y must have no missing values. Drop these rows.")
            check_classification_targets(values)
            self.classes_, codes = np.unique(values, return_inverse=True)
            if len(np.unique(codes[weights > 0])) < 2:
                raise ValueError("y must have at least two classes, got one class.")
            # A true target has the likelihood 1 for its class, and 0 for other classes.
            is_class = np.equal.outer(codes, np.arange(len(self.classes_)))
            return is_class.astype(float), []
        reports = convert_target_reports(y, self.target_design)
        questions = list_questions(self.target_design, reports, "y")
        if len(questions) != 1:
            raise ValueError(
                f"`target_design` must report one column, got {len(questions)}."
            )
        self.classes_ = to_objects(questions[0].values)
        return questions[0].likelihood, questions

    def _term_index(self) -> pd.Index:
        """Return the index of the table of coefficients: terms, or (class, term) for more than two classes."""
        terms = [INTERCEPT, *self.feature_names_out_]
        if len(self.classes_) == 2:
            return pd.Index(terms, name=f"term (log odds of {self.classes_[1]})")
        classes = list(self.classes_[1:])
        return pd.MultiIndex.from_product([classes, terms], names=["class", "term"])

    def predict_proba(self, X: TableLike) -> Floats:
        """Predict the probability of each true class, given true predictors and reports.

        Parameters
        ----------
        X : dataframe or array
            True predictors and reports, as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities of the true value, not of its report.
        """
        linear, cells = self._predict_cells(X)
        classes = np.exp(log_softmax(linear))
        return (classes * cells).sum(axis=1).T

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Predict the most probable true class.

        Parameters
        ----------
        X : dataframe or array
            True predictors and reports, as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.
        """
        indices = self.predict_proba(X).argmax(axis=1)
        return self.classes_[indices]
