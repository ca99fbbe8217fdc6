"""One cell of a privacy curve: a fit at one epsilon, in one repeat and fold, and its scores."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from math import inf
from numbers import Integral, Real
from typing import Any, Self

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.metrics import get_scorer
from sklearn.utils import get_tags

from skdp.local import OnFitOnly, PosteriorFeatures
from skdp.metrics import (
    fairness_report,
    find_positive_label,
    name_groups,
    read_classes,
    read_columns,
)
from skdp.tables import is_frame, read_table, take_rows

# The name of the group of all rows.
ALL = "all"

# Methods of aif360's ClassificationMetric, as `fairness_report` names them.
AIF360 = (
    "statistical_parity_difference",
    "disparate_impact",
    "equal_opportunity_difference",
    "average_odds_difference",
)

# Metric, group and value.
Row = tuple[str, Any, float]

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
        column = read_classes(targets, "y")
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


@dataclass(frozen=True)
class Cell:
    """A cell to compute."""

    epsilon: float
    repeat: int
    fold: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    seeds: Mapping[str, int | None]


@dataclass(frozen=True)
class Study:
    """What all cells have in common."""

    estimator: Any
    step: Step
    baseline: Any
    fit_only: bool
    X: Any
    y: Any
    groups: Any
    scoring: tuple[Measure, ...]
    weights: NDArray[np.float64] | None
    params: Mapping[str, Any]

    def model(self, cell: Cell) -> Any:
        """Return the model of a cell, unfitted."""
        # An infinite epsilon is that of the baseline: a given estimator, or the same one
        # with next to no noise.
        if cell.epsilon < inf:
            model = clone(self.estimator).set_params(**cell.seeds)
            return self.step.at(model, cell.epsilon, fit_only=self.fit_only)
        if not self.is_without_noise(cell):
            return _with_one_release(clone(self.baseline).set_params(**cell.seeds))
        model = clone(self.estimator).set_params(**cell.seeds)
        return self.step.without_noise(model, fit_only=self.fit_only)

    def is_without_noise(self, cell: Cell) -> bool:
        """Whether a cell is of the automatic baseline."""
        return cell.epsilon == inf and isinstance(self.baseline, str)

    def run(self, cell: Cell) -> list[Row]:
        """Fit the model of a cell, and score it."""
        # Sample weights and the like go with the rows that they belong to.
        params = {}
        for name, value in self.params.items():
            params[name] = self._entries(value, cell.train)
        model = self.model(cell)
        model.fit(
            take_rows(self.X, cell.train), take_rows(self.y, cell.train), **params
        )
        rows = take_rows(self.X, cell.test)
        weights = groups = None
        if self.weights is not None:
            weights = self.weights[cell.test]
        if self.groups is not None:
            groups = take_rows(self.groups, cell.test)
        # All scorers get one release and one set of predictions.
        targets = np.asarray(take_rows(self.y, cell.test))
        answers = Answers(model, rows)
        scores = []
        for measure in self.scoring:
            scores += measure(answers, rows, targets, groups, weights)
        return scores

    def _entries(self, value: Any, places: NDArray[np.int64]) -> Any:
        """Return the entries of some rows of what has an entry a row; anything else as it is."""
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__"):
            return value
        if len(value) != len(self.y):
            return value
        rows = value if hasattr(value, "shape") else np.asarray(value)
        return take_rows(rows, places)


def cells_of(
    study: Study,
    epsilons: Sequence[float],
    repeats: Sequence[Sequence[tuple[Any, Any]]],
    random_state: int | None,
) -> Iterator[Cell]:
    """List all cells, those of the baseline first."""
    # Each step that draws private bits has a seed of its own in each cell. The baseline
    # comes first: its mistakes show before anything is charged.
    private = _seeded_steps(study.estimator, study.step.path)
    settings = [(float(epsilon), private) for epsilon in epsilons]
    if isinstance(study.baseline, str):
        settings.insert(0, (inf, private))
    elif study.baseline is not None:
        settings.insert(0, (inf, _seeded_steps(study.baseline)))
    for epsilon, names in settings:
        for repeat, folds in enumerate(repeats):
            for fold, (train, test) in enumerate(folds):
                seeds = {}
                for name in names:
                    key = epsilon, repeat, fold, name
                    seeds[name] = seed_of(random_state, key)
                yield Cell(epsilon, repeat, fold, train, test, seeds)


def seed_of(random_state: int | None, key: tuple[Any, ...]) -> int | None:
    """Return a seed that depends on the cell only, so that epsilons can be added later."""
    if random_state is None:
        return None
    # Of 32 bits, as NumPy's generators take: of a thousand cells, two have the same one
    # with a probability of 1e-4.
    drawn = hashlib.sha256(repr((int(random_state), *key)).encode()).digest()
    return int.from_bytes(drawn[4:8])


@dataclass(frozen=True)
class Step:
    """The step of an estimator whose epsilon varies."""

    path: str
    outer: str
    epsilon: str
    encodes: bool
    releases: bool
    fit_only: bool
    kind: str

    @classmethod
    def find(cls, estimator: Any, param_name: Any) -> Self:
        """Find the step that has a parameter, by its nested name."""
        if not isinstance(param_name, str):
            raise TypeError(
                f"param_name must be a str, got {type(param_name).__name__}"
            )
        # The step is found by its nested name, as in a search of scikit-learn.
        params = estimator.get_params(deep=True)
        if param_name not in params:
            names = sorted(name for name in params if name.endswith("epsilon"))
            raise ValueError(
                f"param_name {param_name!r} is not a parameter of "
                f"{type(estimator).__name__}; it has {', '.join(names) or 'no epsilon'}"
            )
        path, _, name = param_name.rpartition("__")
        if not name.startswith("epsilon") and not name.endswith("epsilon"):
            raise ValueError(
                f"param_name must be the nested name of an epsilon, got {param_name!r}"
            )
        # From the whole estimator down to what holds the step.
        prefixes = [prefix for prefix in _prefixes(path) if prefix in params]
        holders = [estimator, *(params[prefix] for prefix in prefixes)]
        fit_only = any(isinstance(holder, OnFitOnly) for holder in holders)
        # A step inside of a resampler privatises the rows of `fit` only.
        protections = [getattr(holder, "protects_rows", None) for holder in holders]
        step = params[path] if path else estimator
        outer = _outermost(params, path)
        is_transformer = bool(path) and hasattr(step, "transform")
        protects_rows = bool(getattr(step, "protects_rows", True))
        # PosteriorFeatures reads the reports of its encoder: no step may be inserted
        # between the two.
        is_read = isinstance(params.get(outer), PosteriorFeatures)
        return cls(
            path,
            outer,
            param_name,
            encodes=bool(path) and hasattr(step, "_encode") and not is_read,
            releases=is_transformer
            and protects_rows
            and not fit_only
            and "fit" not in protections,
            fit_only=fit_only,
            kind=type(params[outer] if outer else estimator).__name__,
        )

    def at(self, estimator: Any, epsilon: float, *, fit_only: bool) -> Any:
        """Set epsilon, and make the step release the rows to predict once, or not at all."""
        estimator.set_params(**{self.epsilon: epsilon})
        # Rows to predict are seen as they are by a private model or scaler.
        if not self.releases:
            return estimator
        if fit_only:
            return _wrapped(estimator, self.path, OnFitOnly)
        return _wrapped(estimator, self.outer, OneRelease)

    def without_noise(self, estimator: Any, *, fit_only: bool) -> Any:
        """Set an epsilon of next to no noise, and leave out a round that has its own; nothing is charged."""
        params = estimator.get_params(deep=True)
        step = params[self.path] if self.path else estimator
        # RAPPOR's second round has an epsilon of its own, and would add noise.
        changes = {"ledger": None, **getattr(step, "_without_instantaneous", {})}
        for name, value in changes.items():
            nested = f"{self.path}__{name}" if self.path else name
            if nested in params:
                estimator.set_params(**{nested: value})
        # An epsilon: any noise is less than the rounding, any report is the true one.
        no_noise = 1e9
        return self.at(estimator, no_noise, fit_only=fit_only)


def _with_one_release(estimator: Any) -> Any:
    """Make the private steps of a given model release the rows to predict once."""
    for name, epsilon in estimator.get_params(deep=True).items():
        is_epsilon = name.rpartition("__")[2] == "epsilon"
        # A step inside of one that is wrapped already has another name now.
        if is_epsilon and name in estimator.get_params(deep=True):
            step = Step.find(estimator, name)
            estimator = step.at(estimator, epsilon, fit_only=False)
    return estimator


def _wrapped(estimator: Any, path: str, wrapper: type) -> Any:
    """Put a wrapper around a step."""
    step = estimator.get_params(deep=True)[path]
    return estimator.set_params(**{path: wrapper(step)})


def _outermost(params: Mapping[str, Any], path: str) -> str:
    """Return the outermost transformer that has a step as a parameter; steps of a Pipeline do not count."""
    # What has the step as a parameter of its own, as PosteriorFeatures has its encoder,
    # reads the step's reports itself, and is wrapped as a whole.
    while "__" in path:
        holder_path, _, name = path.rpartition("__")
        holder: Any = params.get(holder_path)
        if isinstance(holder, OnFitOnly) or hasattr(holder, "predict"):
            break
        if not hasattr(holder, "transform"):
            break
        if name not in holder.get_params(deep=False):
            break
        path = holder_path
    return path


def _prefixes(path: str) -> list[str]:
    """List the paths of what is around a step."""
    parts = path.split("__")
    return ["__".join(parts[:size]) for size in range(1, len(parts))]


def _seeded_steps(estimator: Any, path: str | None = None) -> list[str]:
    """Return the names of the seeds of the steps that draw private random bits."""
    # Sorted, so that a cell has the same seeds whatever the order of the parameters.
    params = estimator.get_params(deep=True)
    seeds = []
    for name in sorted(params):
        owner, _, parameter = name.rpartition("__")
        if parameter != "random_state":
            continue
        prefix = f"{owner}__" if owner else ""
        # What has neither draws public random bits, such as a forest.
        is_private = f"{prefix}epsilon" in params or f"{prefix}ledger" in params
        if is_private or owner == path:
            seeds.append(name)
    return seeds


class OneRelease(MetaEstimatorMixin, BaseEstimator):
    """Privatise rows once: for the same rows as in the last call, return the same release."""

    # A model that is asked for labels and then for probabilities would privatise its
    # rows twice: two releases, and scores of different rows.

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        self._start().fit(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        return self._start().fit_transform(X, y, **params)

    def _start(self) -> Any:
        self.transformer_ = clone(self.transformer)
        self._last: tuple[Any, Any] | None = None
        return self.transformer_

    def transform(self, X: Any) -> Any:
        """Privatise rows unless they are those of the last call."""
        # By content, as a meta-estimator may hand on a copy of the rows.
        if self._last is None or joblib.hash(self._last[0]) != joblib.hash(X):
            self._last = X, self.transformer_.transform(X)
        return self._last[1]

    def set_output(self, *, transform: Any = None) -> Self:
        self.transformer.set_output(transform=transform)
        if hasattr(self, "transformer_"):
            self.transformer_.set_output(transform=transform)
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Any:
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.transformer)


def read_groups(features: Any, X: Any, rows: int) -> Any:
    """Read the groups of rows: a series, a table, or an array without a name."""
    # A list as long as the table is values, a shorter one names.
    is_list = isinstance(features, list | tuple)
    if isinstance(features, str | Integral):
        columns = _columns_of(X, [features])
    elif is_list and len(features) != rows and _are_names(features, X):
        columns = _columns_of(X, features)
    else:
        columns = read_columns(features, "sensitive_features")
    groups = {}
    for name, column in columns.items():
        values = _name_missing(np.asarray(column))
        if len(values) != rows:
            raise ValueError(
                f"sensitive_features must name columns of X, or have {rows} rows, got "
                f"{len(values)}"
            )
        groups[name] = values
    if len(groups) > 1:
        return pd.DataFrame(groups)
    if ALL in set(values.tolist()):
        raise ValueError(
            f"sensitive_features has a group {ALL!r}, which stands for all rows in the "
            "result; rename it"
        )
    return values if name is None else pd.Series(values, name=name)


def _are_names(features: Sequence[Any], X: Any) -> bool:
    """Whether all entries are names of columns."""
    if not is_frame(X) or not features:
        return False
    return set(map(str, features)) <= set(map(str, read_table(X).names))


def _columns_of(X: Any, names: Sequence[Any]) -> dict[Any, Any]:
    """Read columns of the table by their names."""
    if not is_frame(X):
        raise ValueError(
            "sensitive_features names a column, but X is an array: give the values"
        )
    table = read_table(X)
    columns = dict(zip(table.names, table.columns, strict=True))
    for name in names:
        if name not in columns:
            raise ValueError(f"sensitive_features {name!r} is not a column of X")
    return {name: columns[name] for name in names}


def _name_missing(values: NDArray[Any]) -> NDArray[Any]:
    """Name missing values, which fairlearn would drop, as `fairness_report` does."""
    if not pd.isna(values).any():
        return values
    return np.array(name_groups([(value,) for value in values]), dtype=object)
