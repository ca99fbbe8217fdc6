"""Naive Bayes classifiers from noisy counts, means and variances by class."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from scipy.stats import norm

from skdp._arrays import Floats, Integers, TableLike
from skdp.base import Bounds, ProbabilisticClassifier, to_float_columns
from skdp.central._base import Plan, Unknown
from skdp.central._limits import LimitSearch
from skdp.central._rows import warn_of_few_rows
from skdp.central._sums import (
    GRID,
    NoisySums,
    from_grid,
    sum_by_cells,
    sum_columns,
)
from skdp.central._supervised import (
    Classes,
    SupervisedStatistic,
)
from skdp.central.statistics import (
    Batches,
    CategorySearch,
    Noise,
    count_cells,
    declared_domain,
    encode_declared,
    to_float,
)
from skdp.domain import Categories, Domain, DomainLike
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, parse_budget
from skdp.randomness import ByteSource
from skdp.tables import Table


class NaiveBayes(ProbabilisticClassifier, SupervisedStatistic):
    """Base class of classifiers that assume independent columns within each class."""

    classes_: NDArray[Any]
    class_count_: Floats
    class_count_std_error_: float
    class_prior_: Floats
    domain_: Domain

    @abstractmethod
    def _noise(self, budget: PrivacyBudget, n_columns: int) -> Noise:
        """Return the noise of the sums of a model with `n_columns` features."""

    @abstractmethod
    def _log_likelihood(self, table: Table) -> Floats:
        """Return the log-density of each row in each class; shape (n_rows, n_classes)."""

    def _choose_budget(self, budget: PrivacyBudget, rows: Batches) -> PrivacyBudget:
        """Return the budget in epsilon instead of mu if its noise is smaller than Gaussian noise."""
        pure = replace(
            parse_budget(self.epsilon),
            rows_per_person=budget.rows_per_person,
            by_person=budget.by_person,
        )
        if pure.given is not None:
            return budget
        n_columns = len(rows.names) - 1
        error = self._noise(budget, n_columns).std
        pure_error = self._noise(pure, n_columns).std
        return budget if error < pure_error else pure

    def _set_class_counts(
        self, classes: Classes, counts: Floats, error: Fraction
    ) -> None:
        """Set the noisy number of rows of each class, with the standard deviation `error` of its noise, and priors."""
        noise = to_float(error)
        warn_of_few_rows(counts.sum(), noise * np.sqrt(len(counts)))
        self.classes_ = classes.values
        self.class_count_ = np.maximum(counts, 0.0)
        self.class_count_std_error_ = noise
        # Positive, because noise must not exclude a class.
        positive_counts = np.maximum(counts, max(noise, 1.0))
        self.class_prior_ = positive_counts / positive_counts.sum()

    def predict_log_proba(self, X: TableLike) -> Floats:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities, in the order of `classes_`.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or invalid values.
        """
        table = self._read_rows(X)
        logits = np.log(self.class_prior_) + self._log_likelihood(table)
        return log_softmax(logits, axis=1)


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Exact counts of the rows of each class by the values of each column."""

    # Shape (n_classes, n_values) for each column.
    tables: list[Integers]
    # The values of the columns and of the target.
    domain: Domain
    classes: Classes


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Checked rows, with the target first, and its classes."""

    rows: Batches
    classes: Classes


class DPCategoricalNB(NaiveBayes):
    """Classify with categorical naive Bayes from noisy counts of categories in each class.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=0.0
        Failure probability for a numeric `epsilon`. It is spent if categories or classes are found, or if Gaussian
        noise is smaller than the noise for a pure epsilon: from about nine columns at an epsilon of 1 and a delta of
        1e-6. 0 for pure privacy.
    categories : list of array-like, mapping, Domain or Interval, optional
        The values that each column may take, as the `domain` of `DPHistogram`: declared from public knowledge.
        None among the values declares missing as a category; an `Interval` makes bins of numbers. With a `delta`,
        values of columns without a declaration are found with a fifth of the budget: texts, whole numbers, booleans and
        missing values of many rows. All other values are the category "(other)".
    classes : list or Categories, optional
        The classes that the target may have, from public knowledge; False and True for a boolean dtype. None finds
        them with a `delta` and a fifth of the budget, which categories share: texts, whole numbers and booleans of many
        rows. Rows of other classes are then excluded.
    handle_unknown : {"error", "ignore"}, default="error"
        How to handle an undeclared value of a column. ``"error"`` reveals that such a
        value occurs. ``"ignore"`` excludes it from its column in `fit` and from the
        prediction.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    feature_log_prob_ : list of ndarray of shape (n_classes, n_categories)
        For each column, the logarithms of the proportions of its declared values in
        each class.
    class_count_ : ndarray of shape (n_classes,)
        The noisy numbers of rows.
    class_count_std_error_ : float
        The standard deviation of their noise.
    class_prior_ : ndarray of shape (n_classes,)
        The proportions of the classes, each at least the standard deviation of its
        noise.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; "(other)" if none was found. With one class, all rows get this prediction.
    domain_ : Domain
        The values of each column, and of the target.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit` for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPGaussianNB : Numbers without bins.
    DPTargetEncoder : The same counts, as columns for another model.
    sklearn.naive_bayes.CategoricalNB : Without privacy.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta.
    Predictions are post-processing and use no budget, but a prediction for a row of the table is computed from this
    row. The number of rows is protected too, and an empty table is allowed. A value that only one person has is found
    as a category or class with a probability of at most delta (:doc:`/guarantees/statistics`). Not covered: an error
    reveals that a value or a class is not declared.

    For each of d columns, the rows are counted by value and class. A record is in one cell of each table: it changes d
    counts by 1. All counts together are protected by exactly drawn Laplace noise of scale d / epsilon, or by Gaussian
    noise for an L2 sensitivity of sqrt(d). With a delta, the noise with the smaller exact error is used. The rest is
    post-processing.

    The probability of a value in a class is proportional to its noisy count, at least 0, plus the standard deviation of
    the noise. Values with fewer rows than this therefore have little influence.

    Examples
    --------
    >>> from skdp import DPCategoricalNB
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> names = ["age", "education", "marital-status", "occupation", "sex"]
    >>> model = DPCategoricalNB(1.0, categories=adult.domain.select(names), classes=["<=50K", ">50K"], random_state=0)
    >>> model = model.fit(adult.data[names], adult.target)
    >>> round(model.score(adult.data[names], adult.target), 1)
    0.8
    >>> print(model.guarantee_)
    epsilon = 1, central model, adding or removing one record's values of: age, education, marital-status, occupation,
    sex, income, NOT SECURE: ...
    """

    feature_log_prob_: list[Floats]
    _takes_categories = True
    _found_parameter = "categories"

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        categories: DomainLike | None = None,
        classes: list[Any] | Categories | None = None,
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.classes = classes
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _noise(self, budget: PrivacyBudget, n_columns: int) -> Noise:
        return Noise.from_budget(budget, n_columns, n_columns)

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[ClassCounts]:
        """Count the rows of each class by the value of each column, and compute the noise of these tables."""
        columns = rows.features
        classes = Classes(rows, self.classes)
        declared = columns.add_found(self.categories)
        found = declared_domain(columns.table, declared, "categories")
        attributes = {name: found[name] for name in columns.names}
        domain = Domain(attributes | {rows.names[-1]: classes.attribute})
        n_columns = len(columns.names)
        pairs = [(column, n_columns) for column in range(n_columns)]
        counts = count_cells(rows, domain, pairs, self.handle_unknown)
        n_values, order = len(classes.attribute), classes.order
        # (n_classes, n_values) each.
        tables = [cells.reshape(-1, n_values)[:, order].T for cells in counts]
        noise = self._noise(budget, n_columns)
        exact = ClassCounts(tables, domain, classes)
        return Plan(exact, budget, (noise,), f"{noise.name} on counts by class")

    def _release(self, plan: Plan[ClassCounts], source: ByteSource) -> None:
        """Add noise to the tables (n_classes, n_values), and set the log probabilities of classes and values."""
        (noise,), exact = plan.noises, plan.exact
        error = noise.std
        # (n_classes, n_values of all columns)
        counts = noise.add_floats(source, np.hstack(exact.tables))
        sizes = [table.shape[1] for table in exact.tables]
        noisy = np.split(counts, np.cumsum(sizes)[:-1], axis=1)

        # The table of each column counts all rows of a class. Its noise is the sum of the
        # noise of all values, so tables are weighted by precision.
        weights = 1 / np.array(sizes)
        by_table = [table.sum(axis=1) for table in noisy]
        n_rows = np.average(by_table, axis=0, weights=weights)
        error_of_rows = error / Fraction(float(np.sqrt(weights.sum())))
        self._set_class_counts(exact.classes, n_rows, error_of_rows)
        self.feature_log_prob_ = [
            _log_probabilities(table, to_float(error)) for table in noisy
        ]
        self.domain_ = exact.domain

    def _log_likelihood(self, table: Table) -> Floats:
        """Return the sum over columns of the log probabilities of the values of each row; shape (n_rows, n_classes)."""
        domain = self.domain_.select(self.domain_.columns[:-1])
        codes = encode_declared(table, domain, self.handle_unknown)
        logs = np.zeros((len(codes[0]), len(self.classes_)))
        for log_probabilities, column in zip(
            self.feature_log_prob_, codes, strict=True
        ):
            # An undeclared value has the code after the last, and adds 0.
            logs += np.pad(log_probabilities, ((0, 0), (0, 1))).T[column]
        return logs


def _log_probabilities(noisy: Floats, error: float) -> Floats:
    """Estimate the log-probability of each value in each class from noisy counts of shape (n_classes, n_values).

    `error` is the standard deviation of the noise of a count.
    """
    # Noise adds about its own size to the counts of all values, so that no value excludes a
    # class. Shrinkage of the proportions of classes by value predicts worse on three of four
    # tables (benchmarks/central_models.py).
    counts = np.maximum(noisy, 0.0) + max(error, 1.0)
    return np.log(counts) - np.log(counts.sum(axis=1, keepdims=True))


class DPGaussianNB(NaiveBayes):
    """Classify with Gaussian naive Bayes from noisy means and variances of each class.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=0.0
        Failure probability for a numeric `epsilon`. It is spent if classes are found, or if Gaussian noise is smaller
        than the noise for a pure epsilon: from about 25 columns at an epsilon of 1 and a delta of 1e-6, or twice as
        many without sums of squares. 0 for pure privacy.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge; None, or an end that is None, if
        there is none. Narrower limits are found with a fifth of the budget, or a third for a column with an open end,
        so wide bounds cost little. Values outside the limits are clipped, in predictions as well.
    classes : list or Categories, optional
        The classes that the target may have, from public knowledge; False and True for a boolean dtype. None finds
        them with a `delta` and a fifth of the budget, which categories share: texts, whole numbers and booleans of many
        rows. Rows of other classes are then excluded.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    theta_ : ndarray of shape (n_classes, n_features)
        The mean of each column in each class, shrunk toward the mean of all rows if the noise exceeds the difference.
    var_ : ndarray of shape (n_classes, n_features)
        The variances, shrunk toward each other in the same way, and increased by the variance of the noisy means.
        Without sums of squares, the variances of all classes are equal except for this increase.
    class_count_ : ndarray of shape (n_classes,)
        The noisy numbers of rows.
    class_count_std_error_ : float
        The standard deviation of their noise.
    class_prior_ : ndarray of shape (n_classes,)
        The proportions of the classes, each at least the standard deviation of its
        noise.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; "(other)" if none was found. With one class, all rows get this prediction.
    domain_ : Domain
        The target and its classes.
    bounds_ : ndarray of shape (n_features, 2)
        The limits that are found within the declared bounds, between which moments are measured.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit` for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPCategoricalNB : Columns of declared categories, and numbers in bins.
    DPLogisticRegression : Columns that depend on each other.
    sklearn.naive_bayes.GaussianNB : Without privacy; scale the columns, because `var_smoothing` adds a part of the
        largest variance of all columns to each variance.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most epsilon, or by at most (epsilon, delta) with a delta.
    Predictions are post-processing and use no budget, but a prediction for a row of the table is computed from this
    row. The number of rows of each class is protected too, and an empty table is allowed. A class that only one
    person has is found with a probability of at most delta (:doc:`/guarantees/statistics`). Not covered: an error
    reveals that a value is missing or infinite, or that a class is not declared.

    Limits of the columns are found first, with a part of the budget. Values are integers on a grid between them. For
    each class, the number of rows and, for each of d columns, the sum and the sum of squares are released. A record
    changes these 1 + 2 d numbers of its own class by at most 1 each, in units of the limits, and the numbers of other
    classes not at all. So each class gets independent noise with the whole remaining epsilon, of the density
    ``e**(-epsilon max|z|)``, or Gaussian noise for a change of ``sqrt(1 + 2 d)``. The rest is post-processing: the
    variance between the classes is estimated from their noisy moments, minus the variance of the noise, and the moments
    are shrunk toward their mean accordingly ([1]_).

    References
    ----------
    .. [1] B. Efron, C. Morris (1973). Stein's estimation rule and its competitors: an empirical Bayes approach. Journal
       of the American Statistical Association 68(341).

    Examples
    --------
    >>> from skdp import DPGaussianNB
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean radius", "mean texture", "mean concavity"]]
    >>> bounds = {"mean radius": (0, 30), "mean texture": (0, 40), "mean concavity": (0, 0.5)}
    >>> model = DPGaussianNB(epsilon=2.0, bounds=bounds, classes=[0, 1], random_state=0).fit(X, y)
    >>> round(model.score(X, y), 1)
    0.9
    >>> print(model.guarantee_)
    epsilon = 2, central model, adding or removing one record's values of: mean radius, mean texture, mean concavity,
    target, NOT SECURE: ...
    """

    _takes_missing = False
    _finds_limits = True
    _finds_limits_within = True

    theta_: Floats
    var_: Floats
    bounds_: Floats

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        bounds: Bounds | None = None,
        classes: list[Any] | Categories | None = None,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _select_bounded(self, rows: Batches) -> Batches:
        return rows.features

    def _noise(self, budget: PrivacyBudget, n_columns: int) -> Noise:
        return Noise.joint(budget, GRID, 2 * n_columns + 1)

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[ClassRows]:
        """Check the columns and the classes, and choose the noise of sums of columns and their squares in each class.

        The sums are computed between the limits that are found.
        """
        sum_columns(rows.features, bounds, missing=False)
        noise = self._noise(budget, len(bounds))
        name = f"{noise.name} on sums by class"
        return Plan(self._read_classes(rows), budget, (noise,), name)

    def _read_classes(self, rows: Batches) -> ClassRows:
        """Check the classes, and move the target to the first column."""
        classes = Classes(rows, self.classes)
        return ClassRows(rows.select([rows.names[-1], *rows.names[:-1]]), classes)

    def _replan(
        self,
        plan: Plan[ClassRows],
        rows: Batches,
        search: LimitSearch | CategorySearch,
        bounds: Floats,
    ) -> Plan[ClassRows]:
        return replace(plan, exact=self._read_classes(rows))

    def _release(self, plan: Plan[ClassRows], source: ByteSource) -> None:
        """Add noise to the sums of each class, and set its mean and variance of each column.

        Both are shrunk to their mean over classes, by more if their noise is larger.
        """
        (noise,), classes, rows = plan.noises, plan.exact.classes, plan.exact.rows
        domain = classes.domain
        (sums,) = sum_by_cells(rows, domain, [(0,)], self.bounds_, "ignore")
        # The classes are sorted.
        numbers = sums.numbers(squares=True, shared_count=True)[classes.order]
        noisy = NoisySums.draw(numbers, sums.bounds, noise, source)
        # Arrays of shape (n_classes, n_columns).
        mean, mean_error, variance, variance_error = noisy.estimate_moments()
        counts = noisy.counts[:, 0] / GRID
        self._set_class_counts(classes, counts, noise.std / GRID)
        self.domain_ = classes.domain
        n_rows = np.maximum(counts, 1.0)
        proportions = (n_rows / n_rows.sum())[:, np.newaxis]
        mean = _shrink_to_mean(mean, mean_error, proportions)
        variance = _shrink_to_mean(variance, variance_error, proportions)
        self.theta_ = from_grid(mean, sums.bounds)
        width = sums.bounds[:, 1] - sums.bounds[:, 0]
        limits = np.finfo(float)
        with np.errstate(over="ignore", under="ignore"):
            variances = (width / 2) ** 2 * variance
        self.var_ = np.clip(variances, limits.tiny, limits.max)

    def _log_likelihood(self, table: Table) -> Floats:
        """Return the sum over columns of the normal log-densities of the values per row; shape (n_rows, n_classes)."""
        numbers = np.stack(to_float_columns(table), axis=1)
        numbers = np.clip(numbers, *self.bounds_.T)  # as in `fit`
        # (n_rows, n_classes, n_columns)
        densities = norm.logpdf(
            numbers[:, np.newaxis, :], self.theta_, np.sqrt(self.var_)
        )
        return densities.sum(axis=2)


def _shrink_to_mean(estimates: Floats, errors: Floats, proportions: Floats) -> Floats:
    """Shrink the estimates of classes toward their mean by empirical Bayes.

    Estimates and errors have the shape (n_classes, n_columns), proportions of classes (n_classes, 1).
    """
    # The variance between classes is the variance of the estimates minus the variance of
    # the noise. The factor of an estimate is between_variance / (between_variance +
    # noise_variance).
    squares = np.maximum(errors, 1 / GRID) ** 2
    average = np.average(estimates, axis=0, weights=1 / squares)
    excess = (proportions * ((estimates - average) ** 2 - squares)).sum(axis=0)
    between_variance = np.maximum(excess, 0)
    factors = between_variance / (between_variance + squares)
    return average + factors * (estimates - average)
