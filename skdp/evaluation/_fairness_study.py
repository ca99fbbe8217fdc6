"""Accuracy and fairness of models that learn from reports, compared with baselines."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length

from skdp._arrays import (
    ColumnLike,
    ColumnName,
    Floats,
    Indices,
    Integers,
    Label,
    Privileged,
)
from skdp.base import check_choice, check_row_order, draw_seed, on_one_thread
from skdp.domain import Domain, Interval
from skdp.evaluation._privacy_curve import COLUMNS, check_epsilons, derive_seed
from skdp.local import OracleEncoder, check_sample_weight
from skdp.metrics import (
    EmptyGroupError,
    Metrics,
    fairness_report,
    find_positive_label,
    list_privileged,
    parse_classes,
    private_parity,
    read_metrics,
)
from skdp.pages import warn
from skdp.randomness import check_size, check_type
from skdp.readers import import_extra


def fairness_study(
    estimator: BaseEstimator,
    X: pd.DataFrame,
    y: ColumnLike,
    *,
    encoder: OracleEncoder | Mapping[str, OracleEncoder],
    epsilons: Iterable[float],
    domain: Mapping[Any, Any] | Domain,
    sensitive_features: ColumnName | list[ColumnName],
    privileged: Privileged,
    positive_label: Label | None = None,
    methods: Sequence[str] = ("without privacy", "columns excluded", "reported"),
    metrics: Metrics | None = None,
    sample_weight: ColumnLike | None = None,
    n_splits: int = 20,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Compare models that are trained on reports of protected columns with baselines.

    All methods are fitted at all epsilons on the same random splits. The baselines show
    whether a model is fairer because of the reports, or as fair without the columns.

    Parameters
    ----------
    estimator : classifier
        Classifier for numeric features.
    X : pandas.DataFrame of shape (n_samples, n_features)
        True rows. Columns that the domain declares as categories are one-hot encoded;
        all other columns must be numeric.
    y : array-like of shape (n_samples,)
        True labels. All labels except the positive label are negative.
    encoder : encoder of categories, or mapping of name to encoder
        Encoder of the protected columns, or several of them to compare. If an encoder has `categories`, these are
        the protected columns, otherwise only the columns of `sensitive_features` are protected.
        The study sets its epsilon and its seed.
    epsilons : iterable of float
        Distinct values of epsilon, > 0.
    domain : Domain or mapping
        Declared values of the protected columns and of other categories.
    sensitive_features : column name or list of column names
        Protected columns whose groups are compared. With several columns, the groups of
        each column and of their intersection are compared.
    privileged : value, list of values or mapping of column name to such
        Privileged values of `sensitive_features`. For several columns, a mapping: in the
        intersection, a row is privileged if it matches in all columns.
    positive_label : label, default=None
        Favorable label. If None, it is 1, and all labels must be 0 and 1, or False and
        True.
    methods : sequence of str, default=("without privacy", "columns excluded", "reported")
        Methods to compare. All of them predict test rows with true values.

        - ``"without privacy"``: train on the true columns;
        - ``"columns excluded"``: train without the protected columns;
        - ``"reported"``: train on reports, with a 0/1 feature for each value that a
          report supports [1]_;
        - ``"private parity"``: train without the protected columns, under demographic
          parity estimated from reports of `sensitive_features` (`skdp.metrics.private_parity`).
    metrics : mapping of str to function, default=None
        Further comparisons of groups, as for `skdp.metrics.fairness_report`.
    sample_weight : array-like of shape (n_samples,), default=None
        Survey weight of each row, used for training and for all scores. If None, all
        weights are equal.
    n_splits : int, default=20
        Number of random splits, stratified by label, with 20 % test rows.
    n_jobs : int, default=None
        Number of jobs to run in parallel, with one thread each.
    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible output.

    Returns
    -------
    pandas.DataFrame
        Columns ``method, encoder, epsilon, split, metric, value, n_train, n_test``, one
        row for each score. Methods without reports have the encoder "". Metrics are ``accuracy``,
        ``roc_auc``, also of each group ("roc_auc [sex=Female]"), and the comparisons of `fairness_report`. With
        several unprivileged groups, each is compared, too ("disparate_impact [race=Black]"), and with several
        columns in `sensitive_features`, names end in the compared columns ("disparate_impact [sex, race]",
        "disparate_impact [sex=Female, race=Black]"). A group without test rows has no row. Methods without privacy
        have an infinite epsilon. To estimate differences with intervals, use
        ``compare_to_baseline(study, baseline="columns excluded")``.

    Raises
    ------
    ImportError
        If a method requires fairlearn, and fairlearn is not installed.
    TypeError, ValueError
        If a parameter is out of range, or a column or value is not declared. The error
        is raised before a model is fitted.

    Warns
    -----
    UserWarning
        If fits warn, such as about the noise: once for equal warnings, with the number of
        fits and the first of them. A method whose groups do not have both labels in a training
        split has the scores nan there, and the warning names the group.

    See Also
    --------
    PrivacyCurveDisplay : Plot with a curve for each method.
    privacy_curve : Scores of any model with any metric.
    skdp.datasets.load_adult : A table with protected columns.

    Notes
    -----
    **Privacy.** Scores are computed from true rows and groups and are not private.

    Differences are unprivileged minus privileged, for the true groups. An undefined
    score is nan or infinite.

    References
    ----------
    .. [1] H. H. Arcolezi, K. Makhlouf, C. Palamidessi (2023). (Local) differential
       privacy has NO disparate impact on fairness. DBSec 2023. arXiv:2304.12845

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.evaluation import fairness_study
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame(
    ...     {"sex": rng.choice(["f", "m"], 2000), "hours": rng.integers(10, 60, 2000)}
    ... )
    >>> score = people["hours"] + 20 * (people["sex"] == "m")
    >>> study = fairness_study(
    ...     LogisticRegression(),
    ...     people,
    ...     score + rng.normal(0, 5, 2000) > 50,
    ...     encoder=RandomizedResponseEncoder(),
    ...     epsilons=[1.0],
    ...     domain={"sex": ["f", "m"]},
    ...     sensitive_features="sex",
    ...     privileged="m",
    ...     n_splits=3,
    ...     random_state=0,
    ... )
    >>> parity = study.query("metric == 'statistical_parity_difference'")
    >>> parity.groupby("method")["value"].mean().round(1)
    method
    columns excluded    0.0
    reported           -0.2
    without privacy    -0.4
    Name: value, dtype: float64
    """
    losses = check_epsilons(epsilons)
    check_size(n_splits, min_val=2, max_val=None, name="n_splits")
    if isinstance(methods, str):
        raise TypeError("`methods` must be a list of names, got str.")
    if isinstance(estimator, type) or not is_classifier(estimator):
        name = getattr(estimator, "__name__", type(estimator).__name__)
        raise TypeError(
            f"`estimator` must be a classifier, such as LogisticRegression(), got {name}."
        )
    for name in methods:
        check_choice("methods[i]", name, METHODS)
    encoders = _name_encoders(encoder)
    names = (
        sensitive_features
        if isinstance(sensitive_features, list)
        else [sensitive_features]
    )
    read_metrics(metrics)
    table = read_table(X, y, encoders, domain, names, privileged, positive_label)
    table = replace(table, metrics=metrics)
    if sample_weight is not None:
        table = replace(table, weights=check_sample_weight(sample_weight, X, len(X)))
    seed = draw_seed(random_state)
    calls, keys = [], []
    for method, name in enumerate(methods):
        # Other methods only use the seed of an encoder.
        named = encoders if name in REPORTED else {"": next(iter(encoders.values()))}
        for index, (title, used) in enumerate(named.items()):
            # Each fit has its own noise; all methods have the same splits.
            number = method + index * len(methods)
            for epsilon in losses if name in REPORTED else [math.inf]:
                for split in range(n_splits):
                    fit_seed = derive_seed(seed, epsilon, split, number)
                    private = clone(used).set_params(
                        epsilon=epsilon, random_state=fit_seed
                    )
                    arguments = name, clone(estimator), private
                    calls.append(delayed(_score_method)(table, split, *arguments))
                    keys.append((name, title, epsilon, split))
    rows, caught = [], []
    for key, result in zip(keys, Parallel(n_jobs=n_jobs)(calls), strict=True):
        scores, sizes, messages = result
        rows += [(*key, metric, value, *sizes) for metric, value in scores.items()]
        caught += [(*message, *key) for message in messages]
    _warn_once(caught)
    return pd.DataFrame(rows, columns=["method", "encoder", *COLUMNS])


def _name_encoders(
    encoder: OracleEncoder | Mapping[str, OracleEncoder],
) -> dict[str, Any]:
    """Return the encoders of a study by name; raise an error for other objects."""
    is_single = not isinstance(encoder, Mapping)
    named = {type(encoder).__name__: encoder} if is_single else dict(encoder)
    expected = "an encoder, such as RandomizedResponseEncoder(), or a mapping of names to encoders"
    for one in named.values():
        check_type("encoder", one, OracleEncoder, expected)
    if not named:
        raise ValueError("`encoder` must have at least one encoder, got none.")
    return named


def _warn_once(caught: Iterable[tuple[Any, ...]]) -> None:
    """Warn once about equal warnings, each given with its category, text, method, encoder, epsilon and split."""
    fits: dict[str, list[tuple[Any, ...]]] = {}
    for warning in caught:
        # The numbers of equal warnings differ.
        fits.setdefault(re.sub(r"\d[\d.,]*", "", warning[1]), []).append(warning)
    for equal in fits.values():
        category, text, method, encoder, epsilon, split = equal[0]
        title = f" of {encoder} at epsilon {epsilon:g}" if encoder else ""
        warn(
            f"{text} In {len(equal)} fits; the first is {method!r}{title} in split {split}",
            category,
            about="jobs/fairness_study#methods",
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False)
class StudyTable:
    """Rows of a study, with their labels, protected columns and groups."""

    X: pd.DataFrame
    labels: Integers
    domain: Domain
    protected: list[Any]
    sensitive_features: list[Any]
    privileged: dict[Any, list[Any]]
    weights: Floats | None = None
    # Metrics of the user.
    metrics: Metrics | None = None

    def take(self, rows: Indices) -> StudyTable:
        """Return the table of the rows with some indices."""
        X = self.X.iloc[rows].reset_index(drop=True)
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=X, labels=self.labels[rows], weights=weights)

    def list_comparisons(self) -> list[list[Any]]:
        """List the columns whose groups are compared: each alone, and the intersection of several columns."""
        alone = [[name] for name in self.sensitive_features]
        return alone if len(alone) == 1 else [*alone, self.sensitive_features]

    def find_privileged(self, names: list[Any]) -> pd.Series:
        """Return a mask of the rows that are privileged in all columns of `names`."""
        values = {name: self.privileged[name] for name in names}
        return self.X[names].isin(values).all(axis=1)

    def features(self, *, protected: bool) -> pd.DataFrame:
        """Return numeric features with or without the true protected columns: numbers, and 0/1 columns of values."""
        columns: dict[str, Any] = {}
        names = [name for name in self.X if name not in self.protected]
        for name in [*names, *(self.protected if protected else [])]:
            if name not in self.protected and not _is_categorical(self.domain, name):
                columns[f"number {name}"] = self.X[name].to_numpy(np.float64)
                continue
            codes = self.domain[name].encode(self.X[name].to_numpy())
            for code in range(len(self.domain[name])):
                columns[f"{name} {code}"] = codes == code
        return _make_features(columns, len(self.X))


def _make_features(columns: Mapping[str, Any], n_rows: int) -> pd.DataFrame:
    """Return a table of floats that models convert to an array without a copy."""
    matrix = np.empty((n_rows, len(columns)))
    for index, column in enumerate(columns.values()):
        matrix[:, index] = column
    return pd.DataFrame(matrix, columns=list(columns))


def _is_categorical(domain: Domain, name: ColumnName) -> bool:
    """Return True if a column is declared as categories, not as bins of numbers."""
    return name in domain.columns and not isinstance(domain[name], Interval)


def read_table(
    X: pd.DataFrame,
    y: ColumnLike,
    encoders: dict[str, Any],
    domain: Mapping[Any, Any] | Domain,
    sensitive_features: list[Any],
    privileged: Privileged,
    positive_label: Label | None,
) -> StudyTable:
    """Check the parameters of `fairness_study`, and return its rows, labels and groups."""
    if not isinstance(X, pd.DataFrame):
        name = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
        has_method = hasattr(X, "to_pandas")
        remedy = "X.to_pandas()" if has_method else "pd.DataFrame(X, columns=...)"
        raise TypeError(f"X must be a pandas DataFrame, got {name}. Use {remedy}.")
    check_consistent_length(X, y)
    check_row_order(X=X, y=y)
    check_type(
        "domain", domain, Mapping, "a Domain or a mapping of column name to values"
    )
    domain = Domain(domain)
    protected, *others = (
        _list_protected(one, sensitive_features) for one in encoders.values()
    )
    for other in others:
        if other != protected:
            raise ValueError(
                f"`encoder` must have the same columns in all encoders, got {protected} "
                f"and {other}."
            )
    for name in protected:
        if name not in X.columns or name not in domain.columns:
            missing = "domain" if name in X.columns else "X"
            raise ValueError(
                f"Column {name!r} must be in X and declared in domain, but is not in "
                f"{missing}."
            )
    true = parse_classes(y, "y")
    positive = find_positive_label(positive_label, y=true)
    is_positive = true.isin([positive])
    if is_positive.nunique() < 2:
        found = "only this label" if is_positive.any() else "only other labels"
        raise ValueError(
            "y must have both the positive label and another label, got "
            f"`positive_label`={positive!r}, and y with {found}."
        )
    labels = is_positive.to_numpy().astype(np.int64)
    values = dict(
        zip(
            sensitive_features,
            list_privileged(privileged, sensitive_features),
            strict=True,
        )
    )
    table = StudyTable(
        X.reset_index(drop=True), labels, domain, protected, sensitive_features, values
    )
    for names in table.list_comparisons():
        if table.find_privileged(names).nunique() < 2:
            title = ", ".join(map(repr, names))
            given = {name: values[name] for name in names}
            declared = {name: domain[name] for name in names}
            raise ValueError(
                f"Column {title} of X must have both privileged and unprivileged "
                f"values, got `privileged`={given} with the declared values {declared}."
            )
    check_in_domain(X, domain, protected)
    for name in X.columns.difference(protected, sort=False):
        is_number = pd.api.types.is_numeric_dtype(X[name].dtype)
        if not (is_number or _is_categorical(domain, name)):
            raise ValueError(
                f"Column {name!r} must be declared in domain, got only "
                f"{list(domain.columns)}."
            )
    return table


def check_in_domain(X: pd.DataFrame, domain: Domain, names: Iterable[Any]) -> None:
    """Raise an error if a column of a table has a value outside its domain."""
    for name in names:
        if (domain[name].encode(X[name].to_numpy()) >= len(domain[name])).any():
            raise ValueError(
                f"Column {name!r} must have only values in the domain, got another "
                "value."
            )


def _list_protected(encoder: OracleEncoder, sensitive_features: list[Any]) -> list[Any]:
    """Return the columns that an encoder declares, or only `sensitive_features` if it declares none."""
    if not sensitive_features or len(set(sensitive_features)) < len(sensitive_features):
        raise ValueError(
            f"`sensitive_features` must be one or more distinct columns, got {sensitive_features}."
        )
    protected = sensitive_features
    if isinstance(encoder.categories, Mapping):
        protected = list(encoder.categories)
    for name in sensitive_features:
        if name not in protected:
            raise ValueError(
                f"`sensitive_features` must be a column of encoder, {protected}, got {name!r}."
            )
    return protected


@on_one_thread
def _score_method(
    table: StudyTable,
    split: int,
    name: str,
    model: BaseEstimator,
    encoder: OracleEncoder,
) -> tuple[dict[str, float], tuple[int, int], list[Any]]:
    """Train and score a method on a split; return scores, (n_train, n_test), and the class and text of warnings.

    `split` is the number of the split, and `name` the name of the method. The encoder has its epsilon and seed.
    """
    # The seed of the split is its number, so that all methods use the same rows.
    splits = train_test_split(
        np.arange(len(table.X)),
        test_size=0.2,
        stratify=table.labels,
        random_state=split,
    )
    train, test = map(table.take, splits)
    with warnings.catch_warnings(record=True) as caught:
        # Warnings about code are filtered as the user has set.
        warnings.simplefilter("always", UserWarning)
        # The scores of the other fits are kept.
        predicted, probabilities = None, None
        try:
            predicted, probabilities = _fit_method(name, model, train, test, encoder)
        except EmptyGroupError as error:
            text = f"The scores are nan. {str(error).removesuffix('.')}"
            warn(text, UserWarning, about="jobs/fairness_study#methods", stacklevel=1)
        scores = _score_predictions(test, predicted, probabilities)
    messages = [(warning.category, str(warning.message)) for warning in caught]
    return scores, (len(train.X), len(test.X)), messages


def _score_predictions(
    test: StudyTable, predicted: NDArray[Any] | None, probabilities: NDArray[Any] | None
) -> dict[str, float]:
    """Return the accuracy, the area under the curve and the fairness of predictions; nan without predictions.

    `probabilities` are of the positive label; None for a model without them.
    """
    scores = {"accuracy": math.nan}
    options = {"sample_weight": test.weights}
    if predicted is not None:
        scores["accuracy"] = float(accuracy_score(test.labels, predicted, **options))
    if probabilities is not None:
        area = roc_auc_score(test.labels, probabilities, **options)
        scores["roc_auc"] = float(area)
    for names in test.list_comparisons():
        title = ", ".join(map(str, names))
        ending = f" [{title}]" if len(test.sensitive_features) > 1 else ""
        scores |= _compare_groups(test, predicted, names, ending)
        if probabilities is not None:
            scores |= _score_groups(test, probabilities, names)
    return scores


def _name_group(names: list[Any], values: object) -> str:
    """Return the ending of the metrics of a group, such as " [sex=Female]"."""
    listed = values if isinstance(values, tuple) else (values,)
    pairs = (f"{name}={value}" for name, value in zip(names, listed, strict=True))
    return f" [{', '.join(pairs)}]"


def _score_groups(
    test: StudyTable, probabilities: NDArray[Any], names: list[Any]
) -> dict[str, float]:
    """Return the area under the curve of each group of some columns; nan for a group without both labels."""
    scores = {}
    for values, rows in test.X.groupby(names, dropna=False).indices.items():
        labels, area = test.labels[rows], math.nan
        if np.ptp(labels):
            weights = None if test.weights is None else test.weights[rows]
            area = roc_auc_score(labels, probabilities[rows], sample_weight=weights)
        scores["roc_auc" + _name_group(names, values)] = float(area)
    return scores


def _compare_groups(
    test: StudyTable, predicted: NDArray[Any] | None, names: list[Any], ending: str
) -> dict[str, float]:
    """Compare the privileged rows in all columns of `names` with the other rows, and with each other group.

    Comparisons with the other rows, whose names end in `ending`, are nan without predictions.
    """
    comparisons = read_metrics(test.metrics).comparisons
    undefined = dict.fromkeys([name + ending for name in comparisons], math.nan)
    if predicted is None:
        return undefined
    is_privileged = test.find_privileged(names)
    n_labels = pd.Series(test.labels).groupby(is_privileged).nunique()
    # A small test split may have rows of one group, or of one label, only.
    lacking = [side for side in (True, False) if n_labels.get(side, 0) < 2]
    for side in lacking:
        group = "privileged" if side else "unprivileged"
        warn(
            f"Differences are nan. The {group} test rows of "
            f"{', '.join(map(str, names))} do not have both labels",
            UndefinedMetricWarning,
            about="jobs/fairness_study#methods",
            stacklevel=1,
        )
    if lacking:
        return undefined
    with warnings.catch_warnings(action="ignore", category=UndefinedMetricWarning):
        report = fairness_report(
            test.labels,
            predicted,
            test.X[names],
            privileged={name: test.privileged[name] for name in names},
            metrics=test.metrics,
            sample_weight=test.weights,
        )
    compared = report[report["metric"].isin(comparisons)]
    scores = {}
    for metric, group, value in compared[["metric", "group", "value"]].to_numpy():
        title = ending if group is None else _name_group(names, group)
        scores[metric + title] = float(value)
    return scores


# Methods that are trained on reports of an encoder.
REPORTED = ("reported", "private parity")
METHODS = ("without privacy", "columns excluded", *REPORTED)

# Predicted labels, and probabilities of label 1 if the model has any.
Predictions = tuple[NDArray[Any], NDArray[Any] | None]


def _fit_method(
    name: str,
    model: BaseEstimator,
    train: StudyTable,
    test: StudyTable,
    encoder: OracleEncoder,
) -> Predictions:
    """Fit a method of `METHODS` to the training rows; return labels and probabilities (or None) of the test rows."""
    if name == "private parity":
        return _constrain_parity(model, train, test, encoder), None
    is_known = name == "without privacy"
    features, tested = (table.features(protected=is_known) for table in (train, test))
    if name == "reported":
        features, tested = _add_reports(features, tested, train, test, encoder)
    if features.shape[1] == 0:
        # Without features, the best prediction is the most frequent label.
        model = DummyClassifier()
        features, tested = features.assign(constant=0.0), tested.assign(constant=0.0)
    options = {}
    if train.weights is not None:
        options[_name_weight_parameter(model)] = train.weights
    model.fit(features, train.labels, **options)
    probabilities = None
    if hasattr(model, "predict_proba"):
        probabilities = np.asarray(model.predict_proba(tested))[:, -1]
    return np.asarray(model.predict(tested)), probabilities


def _name_weight_parameter(model: BaseEstimator) -> str:
    """Return the name of the sample weights in `fit` of a model, or of a pipeline's last step."""
    is_pipeline = isinstance(model, Pipeline)
    return f"{model.steps[-1][0]}__sample_weight" if is_pipeline else "sample_weight"


def _add_reports(
    features: pd.DataFrame,
    tested: pd.DataFrame,
    train: StudyTable,
    test: StudyTable,
    encoder: Any,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Add reports of the protected columns to training `features`, and true values to test features, `tested`.

    A training feature is 1 if the report supports a value.
    """
    reports = _privatize(encoder, train, train.protected)
    protocol = encoder.protocol_
    arrays = protocol.read(reports)
    is_reported = protocol.report_mask(arrays)  # (n_rows, n_fields)
    reported, true = dict(features), dict(tested)
    for index, field in enumerate(protocol.fields):
        supports = field.oracle.supports(arrays[index])
        codes = field.domain.encode([test.X[name] for name in field.columns])
        cells = field.domain.join(codes)
        for cell in range(field.oracle.k):
            name = f"protected {index} {cell}"
            # A record that does not report the field supports none of its values.
            reported[name] = supports[:, cell] & is_reported[:, index]
            true[name] = cells == cell
    return _make_features(reported, len(train.X)), _make_features(true, len(test.X))


def _privatize(encoder: OracleEncoder, train: StudyTable, names: list[Any]) -> Any:
    """Fit the encoder to some columns of the training rows, and return their reports."""
    encoder.set_params(categories=train.domain.select(names))
    return encoder.fit_transform(train.X[names])


def _constrain_parity(
    model: BaseEstimator, train: StudyTable, test: StudyTable, encoder: OracleEncoder
) -> NDArray[Any]:
    """Train with demographic parity of reported groups, and predict the labels, 0 or 1, of the test rows."""
    reductions = import_extra("fairlearn.reductions", "fairness")
    reports = _privatize(encoder, train, train.sensitive_features)
    features = train.features(protected=False)
    tested = test.features(protected=False)
    # The private groups replace the true groups in a constraint of fairlearn.
    learner = reductions.ExponentiatedGradient(
        model,
        private_parity(encoder, constraints="demographic_parity"),
        sample_weight_name=_name_weight_parameter(model),
    )
    options = {} if train.weights is None else {"sample_weight": train.weights}
    learner.fit(features, train.labels, sensitive_features=reports, **options)
    labels = learner.predict(tested, random_state=encoder.random_state)
    return np.asarray(labels).astype(np.int64)
