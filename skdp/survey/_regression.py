"""The common part of regression from reports: the fit, its summary and predictions."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.base import (
    OnSite,
    check_choice,
    check_confidence_level,
    check_same_order,
    level_of_the_caller,
)
from skdp.pages import warn
from skdp.survey._agreement import (
    ModelWarning,
    warn_of_no_maximum,
)
from skdp.survey._design import Question, as_pandas, read_questions
from skdp.survey._likelihood import (
    Classes,
    Fit,
    Gaussian,
    HiddenModel,
    Numbers,
    Unknown,
    disagreement,
    maximise,
    sandwich,
)
from skdp.survey._rows import (
    Units,
    cell_likelihoods,
    cell_unknowns,
    check_given,
    check_reported_together,
    count_clusters,
    read_clusters,
    read_weights,
    refuse_complex,
)
from skdp.tables import is_frame

INTERCEPT = "(intercept)"


# Combinations of values of the reported predictors: each is a sum over all rows.
_MAX_CELLS = 4096


class ReportRegression(OnSite, BaseEstimator):
    """What both regressions share."""

    predictor_designs: Any
    interactions: Any
    hidden_distribution: str
    errors: str

    n_features_in_: int
    _columns: list[Any]
    _unknown_names: list[str]
    coef_: Numbers
    intercept_: Any

    def _read(
        self, X: Any, y: Any, sample_weight: Any, clusters: Any
    ) -> tuple[pd.DataFrame, Numbers]:
        """Check what is given to `fit`, and return the table and the weights of its rows."""
        self._check_parameters()
        check_given(y)
        table = self._read_table(X, reset=True)
        check_consistent_length(table, y)
        check_same_order(X, y, "y")
        check_same_order(X, sample_weight, "sample_weight")
        check_same_order(X, clusters, "clusters")
        return table, read_weights(sample_weight, len(table))

    def _read_table(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """Return X as a table of pandas, with the names of its columns."""
        if X is None:
            raise ValueError(
                "X must be a dataframe or an array, got None; without predictors, give "
                "a dataframe that has rows and no columns, such as reports[[]]"
            )
        if is_frame(X):
            table = as_pandas(X)
            if not len(table):
                raise ValueError("X must have a row at least, got 0 rows")
            if reset:
                self._check_names(table)
            elif list(table.columns) != list(self._columns):
                raise ValueError(
                    f"X must have the columns of fit, {list(self._columns)}, got "
                    f"{list(table.columns)}"
                )
            return table
        if self.predictor_designs is not None:
            raise TypeError(
                "X must be a dataframe, as reports are found by the names of their "
                f"columns; got {type(X).__name__}"
            )
        refuse_complex("X", X)
        array = validate_data(self, X, reset=reset, dtype=np.float64)
        names = [f"x{place}" for place in range(array.shape[1])]
        if reset:
            self._columns = names
        return pd.DataFrame(array, columns=names)

    def _check_names(self, X: pd.DataFrame) -> None:
        self.n_features_in_ = X.shape[1]
        self.feature_names_in_ = np.asarray(list(X.columns), dtype=object)
        self._columns = list(X.columns)

    def _known(self, X: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        """Return the true predictors, a column of ones first."""
        reported = {name for question in questions for name in question.columns}
        known = X.drop(columns=[name for name in X.columns if name in reported])
        for name in known.columns:
            if not pd.api.types.is_numeric_dtype(known[name].dtype):
                raise TypeError(
                    f"column {name!r} must hold numbers: encode true categories before"
                )
        if INTERCEPT in known.columns:
            raise ValueError(f"X must have no column {INTERCEPT!r}, which fit adds")
        numbers = pd.DataFrame(index=known.index)
        for name in known.columns:
            numbers[name] = known[name].to_numpy(float, na_value=np.nan)
        n_wrong = (~np.isfinite(numbers)).sum()
        if n_wrong.any():
            raise ValueError(
                "X must hold finite numbers in the columns without reports, and "
                f"{n_wrong.idxmax()!r} has {n_wrong.max():,} that are missing or infinite"
            )
        numbers.insert(0, INTERCEPT, 1.0)
        return numbers

    def _hidden(self, questions: Sequence[Question]) -> tuple[pd.DataFrame, list[str]]:
        """Return the features of each combination of true values, and the question that each is of."""
        sizes = [len(question.values) for question in questions]
        if math.prod(sizes) > _MAX_CELLS:
            raise ValueError(
                f"the reported predictors have {math.prod(sizes):,} combinations of "
                f"values, more than {_MAX_CELLS:,}: declare fewer values"
            )
        rows = list(itertools.product(*map(range, sizes)))
        codes = np.array(rows, dtype=int).reshape(len(rows), len(sizes))
        features = {}
        question_names = []
        for place, question in enumerate(questions):
            # Columns that are reported together have main effects.
            part_sizes = [len(values) for _, values in question.parts]
            part_codes = np.unravel_index(codes[:, place], part_sizes)
            for (name, values), of_part in zip(question.parts, part_codes, strict=True):
                # The first value is the reference.
                for code, value in enumerate(values[1:], start=1):
                    features[f"{name}={value}"] = (of_part == code).astype(float)
                    question_names.append(name)
        return pd.DataFrame(features, index=range(len(rows))), question_names

    def _products(
        self, known: pd.DataFrame, hidden: pd.DataFrame, question_names: Sequence[str]
    ) -> tuple[list[tuple[int, int]], list[str]]:
        """Return the pairs of features whose products are features, and their names."""
        products: list[tuple[int, int]] = []
        names = []
        # The first column is the intercept's.
        true_names = list(known.columns)[1:]
        for pair in self.interactions or ():
            is_pair = isinstance(pair, list | tuple) and len(pair) == 2
            if (
                not is_pair
                or pair[0] not in true_names
                or pair[1] not in question_names
            ):
                raise ValueError(
                    "interactions must be pairs of a true predictor and a reported "
                    f"one, of {true_names} and {sorted(set(question_names))}; got "
                    f"{pair!r}"
                )
            true_name, question_name = pair
            of_true = true_names.index(true_name) + 1
            for place, feature in enumerate(hidden.columns):
                if question_names[place] != question_name:
                    continue
                if (of_true, place) in products:
                    raise ValueError(f"interactions must differ, got {pair!r} twice")
                products.append((of_true, place))
                names.append(f"{true_name}:{feature}")
        return products, names

    def _check_parameters(self) -> None:
        check_choice(
            "hidden_distribution", self.hidden_distribution, ("conditional", "marginal")
        )
        check_choice("errors", self.errors, ("observed", "sandwich"))

    def _fit(
        self,
        X: pd.DataFrame,
        reports: Any,
        outcome: Gaussian | Classes,
        *,
        weights: Numbers,
        clusters: Any,
        unknowns: list[Unknown],
        target: Question | None = None,
    ) -> None:
        """Read the reports, and maximise the likelihood."""
        n_rows = len(X)
        cluster_codes = read_clusters(clusters, n_rows)
        questions = read_questions(self.predictor_designs, X, reports)
        of_target = [] if target is None else [target]
        check_reported_together([*questions, *of_target], weights)
        known = self._known(X, questions)
        hidden, question_names = self._hidden(questions)
        products, product_names = self._products(known, hidden, question_names)
        likelihoods = cell_likelihoods(
            [question.likelihood for question in questions], n_rows
        )
        unknowns = unknowns + cell_unknowns(questions, n_rows)
        cell_features = known.to_numpy()
        if self.hidden_distribution == "marginal":
            cell_features = cell_features[:, :1]
        model = HiddenModel(
            likelihoods,
            cell_features,
            known.to_numpy(),
            hidden.to_numpy(float),
            products,
            outcome,
            weights,
            unknowns,
        )
        self._n_clusters = count_clusters(cluster_codes, model)
        # Weights of a design are no numbers of rows, and rows of a cluster are not
        # independent: errors are the sandwich's, and log likelihoods no test.
        is_weighted = bool((weights != 1).any())
        self._rows_are_alike = cluster_codes is None and not is_weighted
        # Derivatives are numbers of limited precision: in any units of the predictors,
        # the fit is that of columns of mean 0 and standard deviation 1.
        units = Units.of(model)
        scaled = units.apply(model)
        fit = maximise(scaled)
        if not fit.is_maximum:
            warn_of_no_maximum(pd.DataFrame(scaled.known, columns=known.columns))
        else:
            self._warn_of_disagreement(scaled, fit, questions, cluster_codes)
        self._names = [*known.columns, *hidden.columns, *product_names]
        # What predictions need: a fitted model holds no rows.
        # In the order of a file, or a loaded model would sum in another order, and its
        # predictions would differ in their last bits.
        self._hidden_features = np.ascontiguousarray(model.hidden)
        self._product_places = list(products)
        covariance = self._error_matrix(scaled, fit, cluster_codes)
        restored = units.restored(scaled, fit, covariance)
        self._parameters, self._covariance, self.log_likelihood_ = restored
        self.n_parameters_ = len(fit.parameters)
        self._unknown_names = [unknown.name for unknown in unknowns]

    @property
    def unknown_(self) -> pd.DataFrame | None:
        """Estimates of the unknown numbers of the designs, with 95 % intervals, if there are any."""
        check_is_fitted(self, "coef_")
        if not self._unknown_names:
            return None
        n_known = len(self._parameters) - len(self._unknown_names)
        estimates = self._parameters[n_known:]
        errors = np.sqrt(np.diag(self._covariance))[n_known:]
        reach = stats.t.ppf(0.975, self._degrees_of_freedom()) * errors
        columns = {
            "estimate": estimates,
            "std_error": errors,
            "lower": estimates - reach,
            "upper": estimates + reach,
        }
        index = pd.Index(self._unknown_names, name="unknown")
        return pd.DataFrame(columns, index=index)

    def _warn_of_disagreement(
        self,
        model: HiddenModel,
        fit: Fit,
        questions: Sequence[Question],
        cluster_codes: NDArray[np.intp] | None,
    ) -> None:
        """Warn if the fit has other shares of reported values than the reports themselves."""
        # Where the effect of a true predictor is not of the form of the model, hidden
        # values can explain the difference instead of their reports.
        posteriors = model.posteriors(fit.parameters)
        sizes = [len(question.values) for question in questions]
        by_question = posteriors.reshape(len(posteriors), *sizes)
        axes = range(1, len(sizes) + 1)
        if cluster_codes is None and not self._rows_are_alike:
            cluster_codes = np.arange(len(posteriors))
        # Standard errors between a fit and its reports: once in a million fits by
        # chance, or a little more often where several shares are compared.
        most_errors = 5.0
        for place, question in enumerate(questions):
            if question.unknown is not None:
                continue
            others = tuple(axis for axis in axes if axis != place + 1)
            fitted = by_question.sum(axis=others)
            for rows in model.outcome.parts():
                weights = model.weights[rows]
                if not weights.any():
                    continue
                distance = disagreement(
                    question.likelihood[rows],
                    fitted[rows],
                    weights,
                    None if cluster_codes is None else cluster_codes[rows],
                )
                if distance > most_errors:
                    warn(
                        f"the fit has other shares of {question.name!r} than its "
                        f"reports alone, by {distance:.0f} standard errors: the model "
                        "does not hold, and coefficients may be far off. The effect of "
                        "a true predictor may not be linear (add its square), errors of "
                        "a number not normal, or reported values depend on true "
                        "predictors (hidden_distribution='conditional')",
                        ModelWarning,
                        about="guide/report_regression#what-it-costs",
                        stacklevel=level_of_the_caller(),
                    )
                    return

    def _error_matrix(
        self, model: HiddenModel, fit: Fit, cluster_codes: NDArray[np.intp] | None
    ) -> Numbers:
        """Return the covariance of the parameters; nan where the fit is no maximum."""
        n = len(fit.parameters)
        if not fit.is_maximum:
            return np.full((n, n), np.nan)
        if self.errors == "observed" and self._rows_are_alike:
            return np.asarray(np.linalg.inv(fit.information))
        scores = model.scores(fit.parameters) * model.weights[:, np.newaxis]
        if cluster_codes is None:
            # Each row is a cluster of its own.
            cluster_codes = np.arange(len(scores))
        return sandwich(fit.information, scores, cluster_codes)

    def summary(self, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Return each coefficient with its error and interval.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``estimate, std_error, lower, upper, p_value``, indexed by term; by (class, term) for several classes. Of
            two classes, the name of the index says which one the log odds are of. The p-value is that of a coefficient
            of 0 (Wald). With G clusters, by the t distribution with G - 1 degrees of freedom.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the level is out of range.
        """
        check_is_fitted(self, "coef_")
        level = check_confidence_level(confidence_level)
        estimates, index = self._terms()
        n = len(estimates)
        std_error = np.sqrt(np.diag(self._covariance)[:n])
        degrees = self._degrees_of_freedom()
        reach = stats.t.ppf((1 + level) / 2, degrees) * std_error
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.abs(estimates) / std_error
        columns = {
            "estimate": estimates,
            "std_error": std_error,
            "lower": estimates - reach,
            "upper": estimates + reach,
            "p_value": 2 * stats.t.sf(z, degrees),
        }
        return pd.DataFrame(columns, index=index)

    def _degrees_of_freedom(self) -> float:
        """Return those of the t distribution of an estimate over its error; infinite without clusters."""
        return math.inf if self._n_clusters is None else self._n_clusters - 1

    @abstractmethod
    def _outcome(self) -> Gaussian | Classes:
        """Return the kind of the target, of no rows."""

    @abstractmethod
    def _terms(self) -> tuple[Numbers, pd.Index]:
        """Return the coefficients in the order of the parameters, and their names."""

    def _prediction_model(self, X: Any) -> HiddenModel:
        """Return the model of rows of which the target is not known."""
        check_is_fitted(self, "coef_")
        table = self._read_table(X, reset=False)
        questions = read_questions(self.predictor_designs, table, X)
        known = self._known(table, questions).to_numpy()
        likelihoods = cell_likelihoods(
            [question.likelihood for question in questions], len(table)
        )
        of_cells = cell_unknowns(questions, len(table))
        # Those of the target come first, and say nothing of the predictors.
        n_unknown = len(self._unknown_names)
        of_target = [Unknown("", 0.0)] * (n_unknown - len(of_cells))
        unknowns = of_target + of_cells
        cell_features = known
        if self.hidden_distribution == "marginal":
            cell_features = known[:, :1]
        return HiddenModel(
            likelihoods,
            cell_features,
            known,
            self._hidden_features,
            self._product_places,
            self._outcome(),
            np.ones(len(table)),
            unknowns,
        )


def cells_given_reports(model: HiddenModel, parameters: Numbers) -> Numbers:
    """Return the probability of each cell, given predictors and reports: (n_rows, n_cells)."""
    rows = slice(None)
    _, cell_parameters, numbers = model.split(parameters)
    with np.errstate(divide="ignore"):
        log_reports = np.log(model.reports_given_cells(numbers, rows))
    log_cells = model.log_priors(cell_parameters, rows) + log_reports
    cells = np.exp(log_cells - log_cells.max(axis=1, keepdims=True))
    return np.asarray(cells / cells.sum(axis=1, keepdims=True))
