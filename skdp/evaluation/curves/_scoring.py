"""Scorers of a privacy curve: those of scikit-learn, aif360's metrics, and metrics by group."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import get_scorer

from skdp.metrics import fairness_report, find_positive_label, read_column

ALL = "all"
"""The name of the group of all rows."""

AIF360 = (
    "statistical_parity_difference",
    "disparate_impact",
    "equal_opportunity_difference",
    "average_odds_difference",
    "theil_index",
)
"""Methods of aif360's ClassificationMetric, as `fairness_report` names them."""

Row = tuple[str, Any, float]
"""Metric, group and value."""

Measure = Callable[[Any, Any, NDArray[Any], Any, Any], list[Row]]
"""A function of `Answers`, the test rows, their targets, their groups and their weights, or None."""


def _score(
    name: str,
    scorer: Callable[..., Any],
    answers: Any,
    X: Any,
    y: NDArray[Any],
    groups: Any,
    weights: Any,
) -> list[Row]:
    """Call a scorer of scikit-learn, ``scorer(estimator, X, y)``."""
    options = {} if weights is None else {"sample_weight": weights}
    value = scorer(answers, X, y, **options)
    if not isinstance(value, Mapping):
        value = {name: value}
    return [(key, ALL, _number(number, key)) for key, number in value.items()]


def _group_score(
    name: str,
    metric: Callable[..., Any],
    answers: Any,
    X: Any,
    y: NDArray[Any],
    groups: Any,
    weights: Any,
) -> list[Row]:
    """Call a metric ``metric(y_true=..., y_pred=..., sensitive_features=...)``, such as fairlearn's."""
    # By name, as fairlearn's metrics take the groups by keyword only.
    result = metric(
        y_true=y,
        y_pred=answers.predict(X),
        sensitive_features=groups,
        **_weighted(metric, weights),
    )
    # A number is of all rows; a MetricFrame has a value for each group, too.
    if not hasattr(result, "by_group"):
        return [(name, ALL, _number(result, name))]
    parts = [(name, result.overall, result.by_group)]
    if hasattr(result.overall, "items"):  # several metrics
        parts = []
        for key, overall in result.overall.items():
            parts.append((f"{name}__{key}", overall, result.by_group[key]))
    rows = []
    for label, overall, by_group in parts:
        rows.append((label, ALL, _number(overall, label)))
        for group, value in by_group.items():
            rows.append((label, _label(group), _number(value, label)))
    return rows


def _fairness(
    names: Mapping[str, str],
    labels: Mapping[str, Any],
    answers: Any,
    X: Any,
    y: NDArray[Any],
    groups: Any,
    weights: Any,
) -> list[Row]:
    """Compute metrics of aif360 together."""
    # All metrics of aif360 are columns of one report, which is made once.
    report = fairness_report(
        y, answers.predict(X), groups, sample_weight=weights, **labels
    )
    values = report.set_index("metric")["value"]
    rows = []
    for name, method in names.items():
        rows.append((name, ALL, _number(values[method], name)))
    return rows


def read_scoring(
    scoring: Any,
    estimator: Any,
    targets: Any,
    *,
    privileged: Any,
    positive_label: Any,
    grouped: bool,
    weighted: bool,
) -> tuple[Measure, ...]:
    """Return the functions that compute the scores, those of aif360 last."""
    measures: list[Measure] = []
    fair: dict[str, str] = {}
    by_group = False
    for name, metric in _named(scoring, estimator):
        if isinstance(metric, str) and metric in AIF360:
            fair[name] = metric
            continue
        if isinstance(metric, str):
            measures.append(partial(_score, name, get_scorer(metric)))
            continue
        if not callable(metric):
            raise TypeError(
                f"scoring must hold names and callables, got {type(metric).__name__}"
            )
        parameters = _parameters(metric)
        takes_weights = not parameters.keys().isdisjoint(_WEIGHTS)
        # A score without the weights, beside others with them, would mislead.
        if weighted and not takes_weights:
            raise ValueError(
                f"scoring {name!r} takes no weights of rows; score it in a call "
                "without sample_weight="
            )
        # As fairlearn's metrics do; scikit-learn's scorers take the model instead.
        takes_groups = "sensitive_features" in parameters
        by_group = by_group or takes_groups
        score = _group_score if takes_groups else _score
        measures.append(partial(score, name, metric))
    if fair and privileged is None:
        raise ValueError(f"scoring {next(iter(fair.values()))!r} needs privileged=")
    # By all targets: those of a fold may lack a label.
    if fair:
        column = read_column(targets, "y")
        positive_label = find_positive_label(positive_label, y=column)
        labels = {"privileged": privileged, "positive_label": positive_label}
        measures.append(partial(_fairness, fair, labels))
    if not grouped and (fair or by_group):
        raise ValueError(
            "scoring by group needs sensitive_features=, a column name of X or an "
            "array of its length"
        )
    return tuple(measures)


_WEIGHTS = ("sample_weight", "sample_params")


def _named(scoring: Any, estimator: Any) -> list[tuple[str, Any]]:
    """Return the requested scorers with their names."""
    if scoring is None:
        if not is_classifier(estimator) and not is_regressor(estimator):
            raise ValueError(
                "scoring=None is for classifiers and regressors; name a scorer"
            )
        scoring = "accuracy" if is_classifier(estimator) else "r2"
    if isinstance(scoring, str) or callable(scoring):
        scoring = [scoring]
    if isinstance(scoring, Mapping):
        named = list(scoring.items())
    elif isinstance(scoring, list | tuple):
        named = [(_name_of(metric), metric) for metric in scoring]
    else:
        raise TypeError(
            "scoring must be a name, a callable, a list or tuple of these, or a dict, "
            f"got {type(scoring).__name__}"
        )
    names = [name for name, _ in named]
    if not names:
        raise ValueError("scoring must hold at least one metric")
    if not all(isinstance(name, str) for name in names):
        raise TypeError("scoring must name each metric by a str")
    if len(set(names)) < len(names):
        raise ValueError("scoring has two metrics of one name; use a dict to name them")
    return named


def _name_of(metric: Any) -> str:
    """Name a callable; a partial one, or a scorer of scikit-learn, by its function."""
    if isinstance(metric, str):
        return metric
    # Two metrics of one function have one name, and need a dict.
    if hasattr(metric, "_score_func"):  # what `make_scorer` returns
        name = _name_of(metric._score_func)
        return f"neg_{name}" if metric._sign < 0 else name
    if isinstance(metric, partial):
        # Of fairlearn's MetricFrame, its metric.
        measured = metric.keywords.get("metrics")
        return _name_of(measured if callable(measured) else metric.func)
    return getattr(metric, "__name__", type(metric).__name__)


def _parameters(metric: Any) -> Mapping[str, Any]:
    try:
        return inspect.signature(metric).parameters
    except (TypeError, ValueError):  # a builtin has no signature
        return {}


def _weighted(metric: Any, weights: Any) -> dict[str, Any]:
    """Return the arguments that give a metric by group the weights of rows."""
    if weights is None:
        return {}
    # A MetricFrame hands weights on to its metrics, to each of several by its name.
    options = {"sample_weight": weights}
    if "sample_params" not in _parameters(metric):
        return options
    metrics = metric.keywords.get("metrics") if isinstance(metric, partial) else None
    if isinstance(metrics, Mapping):
        return {"sample_params": dict.fromkeys(metrics, options)}
    return {"sample_params": options}


def _number(value: Any, name: str) -> float:
    if isinstance(value, Real | np.number | np.bool_):
        return float(value)
    raise TypeError(
        f"scoring {name!r} must return a number, got {type(value).__name__}"
    )


def _label(group: Any) -> Any:
    """Return a group as Python values, which JSON preserves."""
    # A combination of groups has a value of each column.
    if isinstance(group, tuple):
        return tuple(map(_label, group))
    if isinstance(group, np.generic):
        group = group.item()
    is_plain = group is None or isinstance(group, str | int | float)
    return group if is_plain else str(group)


_RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class Answers:
    """A fitted model with cached predictions for one release of the test rows."""

    # Scorers receive this object as the model. They must pass the test rows unchanged:
    # other rows would be another release.

    def __init__(self, model: Any, X: Any) -> None:
        self._model = model
        self._test_rows = X
        self._cache: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._model, name)
        if name not in _RESPONSES:
            return method

        @wraps(method)  # scikit-learn reads the name of the method
        def answer(X: Any) -> Any:
            self._check(X)
            if name not in self._cache:
                self._cache[name] = method(X)
            return self._cache[name]

        return answer

    def score(self, X: Any, y: Any) -> Any:
        """Return the score of the model's own `score`."""
        self._check(X)
        return self._model.score(X, y)

    def _check(self, X: Any) -> None:
        if X is not self._test_rows:
            raise ValueError(
                "scoring must use the unchanged test rows; other rows would be "
                "another release"
            )
