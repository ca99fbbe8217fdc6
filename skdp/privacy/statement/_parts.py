"""The parts of an estimator, and what it learns besides the columns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import signature
from numbers import Integral
from types import FunctionType
from typing import Any

import numpy as np

from skdp.privacy.ledger import PrivacyLedger

LIBRARIES = ("sklearn", "imblearn", "skdp")
"""The libraries whose classes are known."""

_MAKERS = ("abc", "builtins", "contextlib", "dataclasses", "functools", "typing")
"""Modules that generate methods of a class."""

_FED = {
    **dict.fromkeys(
        (
            "VotingClassifier",
            "VotingRegressor",
            "StackingClassifier",
            "StackingRegressor",
        ),
        "estimators_",
    ),
    **dict.fromkeys(("BaggingClassifier", "BaggingRegressor"), "estimators_"),
    **dict.fromkeys(("OneVsRestClassifier", "OneVsOneClassifier"), "estimators_"),
    **dict.fromkeys(("MultiOutputClassifier", "MultiOutputRegressor"), "estimators_"),
    **dict.fromkeys(
        ("FixedThresholdClassifier", "TunedThresholdClassifierCV"), "estimator_"
    ),
    "CalibratedClassifierCV": "calibrated_classifiers_",
    "TransformedTargetRegressor": "regressor_",
}
"""Meta-estimators of scikit-learn that only pass their table to the estimators in this attribute, and otherwise learn
from their predictions only."""

_SHOW_NO_ROW = (
    "VotingRegressor",
    "MultiOutputRegressor",
    "TransformedTargetRegressor",
    "FixedThresholdClassifier",
)
"""Those of them that store nothing by which the number of rows, or a single row, shows. The others store the number of
rows, or the classes that occur, or split the rows by their number."""

_SPLITS = tuple(
    f"sklearn.model_selection.{name}"
    for name in (
        "KFold",
        "RepeatedKFold",
        "ShuffleSplit",
        "TimeSeriesSplit",
        "LeaveOneOut",
        "LeavePOut",
    )
)
"""Splits that follow from the number of rows, and from seeds."""

_STRATIFIED_SPLITS = tuple(
    f"sklearn.model_selection.{name}"
    for name in ("StratifiedKFold", "RepeatedStratifiedKFold", "StratifiedShuffleSplit")
)
"""Splits that follow from the target, too: another label of one row moves others to other parts."""

_DEFAULT_FOLDS = 5
"""The folds of scikit-learn's estimators with ``cv=None``."""

_PREDICTED = frozenset(
    {"calibrated_classifiers_", "best_threshold_", "best_score_", "cv_results_"}
    | {"oob_score_", "oob_decision_function_", "oob_prediction_"}
)
"""Attributes computed from predictions of these estimators for rows of the table."""

_LEARN_TARGET = frozenset(
    {
        "SelectKBest",
        "SelectPercentile",
        "CCA",
        "PLSCanonical",
        "PLSRegression",
        "PLSSVD",
    }
)
"""Estimators of scikit-learn that learn the target but do not declare it in their tags."""

_STATELESS = tuple(
    f"sklearn.preprocessing.{name}"
    for name in ("Binarizer", "Normalizer", "PolynomialFeatures")
)
"""Transformers of scikit-learn whose `fit` only counts columns."""

_SELECTOR = "sklearn.compose.make_column_selector"
"""The selector of scikit-learn, which reads names and dtypes."""

_HANDS_TARGET_ON = ("steps", "best_estimator_", "get_support")
"""Attributes of estimators of scikit-learn that do not declare that an inner estimator learns the target."""


def parts_of(estimator: Any) -> list[Any]:
    """Return the fitted estimators of a meta-estimator, or else those given as parameters."""
    kept = getattr(estimator, "__dict__", {})
    fitted = {
        name: value
        for name, value in kept.items()
        if name.endswith("_") or name.startswith("_")
    }
    given = {name: value for name, value in kept.items() if name not in fitted}
    for group in (fitted, given):
        parts = {
            id(part): part
            for part in estimators_in(list(group.values()))
            if part is not estimator
        }
        if (
            any(
                is_fitted(part) or hasattr(part, "guarantee_")
                for part in parts.values()
            )
            or group is given
        ):
            return list(parts.values())
    return []


def estimators_in(value: Any) -> Iterator[Any]:
    """Yield the estimators in nested lists, tuples, dicts and arrays."""
    if isinstance(value, type):
        return
    if callable(getattr(value, "fit", None)) or callable(
        getattr(value, "fit_resample", None)
    ):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from estimators_in(item)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        yield from estimators_in(value.ravel().tolist())
    elif hasattr(
        value, "estimator"
    ):  # a calibrated classifier, which cannot be fitted by itself
        yield from estimators_in(value.estimator)


def fed_parts(estimator: Any) -> list[Any] | None:
    """Return the estimators of a meta-estimator that only passes its table to them, None for others."""
    # This is known of some classes of scikit-learn only; others may store anything. A bootstrap privatises, and so
    # releases, a row that is drawn several times as often.
    more = getattr(estimator, "passthrough", False) or getattr(
        estimator, "bootstrap", False
    )
    if (
        more
        or library_of(estimator) != "sklearn"
        or type(estimator).__name__ not in _FED
    ):
        return None
    parts = estimators_in(vars(estimator).get(_FED[type(estimator).__name__]))
    return [part for part in parts if is_fitted(part)] or None


def learns_from_predictions(estimator: Any) -> bool:
    """Whether a meta-estimator of scikit-learn stores predictions of its parts for rows of the table."""
    return not _PREDICTED.isdisjoint(vars(estimator))


def shows_rows(estimator: Any) -> bool:
    """Whether a meta-estimator shows how many rows there are, or which, although its parts are private."""
    return (
        library_of(estimator) != "sklearn"
        or type(estimator).__name__ not in _SHOW_NO_ROW
    )


def mixes_columns(estimator: Any) -> bool:
    """Whether a meta-estimator gives its parts other columns than its own, or the same ones in another order."""
    return (
        bool(getattr(estimator, "bootstrap_features", False))
        or getattr(estimator, "max_features", 1.0) != 1.0
    )


def more_uses(estimator: Any) -> int | None:
    """Return how often a meta-estimator uses a row, at most, for fits that it does not store; None if not known."""
    # In a split by scikit-learn, a row is a training row or a test row, once. A search also predicts for training rows
    # if these are scored.
    name = type(estimator).__name__
    if hasattr(estimator, "cv_results_"):
        n_scorers = _n_scorers(estimator.scoring)
        if n_scorers is None or not _is_known_split(estimator.cv):
            return None
        # Each score may predict, and so privatise rows, by itself.
        n_uses = n_scorers + 1 if estimator.return_train_score else n_scorers
        return len(estimator.cv_results_["params"]) * int(estimator.n_splits_) * n_uses
    if name in (
        "StackingClassifier",
        "StackingRegressor",
        "TunedThresholdClassifierCV",
    ):
        return n_folds(estimator.cv)
    if name == "CalibratedClassifierCV":
        frozen = is_a(estimator.estimator, "sklearn.frozen.FrozenEstimator")
        together = frozen if estimator.ensemble == "auto" else not estimator.ensemble
        return n_folds(estimator.cv) if together else 0
    return 0


def n_folds(cv: Any) -> int | None:
    """Return the number of splits, None if it is that of the rows or otherwise not known."""
    if cv is None:
        return _DEFAULT_FOLDS
    if isinstance(
        cv, str | float
    ):  # fitted before, and only predicted from; or a single split
        return 1
    if not _is_known_split(cv):
        return None
    if isinstance(cv, Integral):
        return int(cv)
    try:
        return int(cv.get_n_splits())
    except (TypeError, ValueError):  # as many as there are rows, or groups
        return None


def _is_known_split(cv: Any) -> bool:
    """Whether a split follows from the number of rows, or from it and the target."""
    return (
        cv is None
        or isinstance(cv, Integral)
        or is_a(cv, *_SPLITS, *_STRATIFIED_SPLITS)
    )


def splits_by_target(estimator: Any) -> bool:
    """Whether a meta-estimator of scikit-learn splits the rows by their target."""
    cv = getattr(estimator, "cv", "prefit")
    if cv is None or isinstance(cv, Integral | float):
        return bool(estimator.__sklearn_tags__().estimator_type == "classifier")
    return is_a(cv, *_STRATIFIED_SPLITS)


def _n_scorers(scoring: Any) -> int | None:
    """Return how many scorers of scikit-learn, which predict once, a search has; None if it has others."""
    scorers = [scoring]
    if isinstance(scoring, dict):
        scorers = list(scoring.values())
    elif isinstance(scoring, list | tuple | set):
        scorers = list(scoring)
    return len(scorers) if all(map(_predicts_once, scorers)) else None


def knows_scorers(search: Any) -> bool:
    """Whether the scorers of a search get predictions only, and not the rows, as a function of the user does."""
    return _n_scorers(search.scoring) is not None


def _predicts_once(scorer: Any) -> bool:
    return (
        scorer is None
        or isinstance(scorer, str)
        or is_a(scorer, "sklearn.metrics._scorer._Scorer")
    )


def reads_classes(estimator: Any) -> bool:
    """Whether a meta-estimator of scikit-learn stores the classes that occur, whatever its parts declare."""
    return not {"classes_", "label_binarizer_"}.isdisjoint(vars(estimator))


def library_of(estimator: Any) -> str | None:
    """Return the library of the class of an estimator, None if its behaviour is not known."""
    kind = type(estimator)
    library = kind.__module__.partition(".")[0]
    if (
        library not in LIBRARIES
        or getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind
    ):
        return None
    return (
        None
        if has_own_methods(estimator) or any(map(_has_foreign_methods, kind.__mro__))
        else library
    )


def _has_foreign_methods(kind: type) -> bool:
    """Whether a class of a known library has methods from another library."""
    return kind.__module__.partition(".")[0] in LIBRARIES and any(
        map(_is_foreign, vars(kind).values())
    )


def _is_foreign(attribute: Any) -> bool:
    if isinstance(attribute, property):
        return _is_foreign(attribute.fget)
    function = getattr(
        attribute, "__func__", attribute
    )  # of a classmethod or a staticmethod
    if isinstance(function, FunctionType):
        place = function.__globals__.get(
            "__name__", ""
        )  # `__module__` is copied by functools.wraps
    elif callable(function) and not isinstance(function, type):
        place = type(function).__module__
    else:
        return False
    return str(place).partition(".")[0] not in (*LIBRARIES, *_MAKERS)


def has_own_methods(estimator: Any) -> bool:
    """Whether an object has methods that replace those of its class."""
    return any(
        callable(getattr(type(estimator), name, None))
        for name in getattr(estimator, "__dict__", ())
    )


def is_a(estimator: Any, *classes: str) -> bool:
    """Whether an estimator is exactly of one of some known classes."""
    if library_of(estimator) is None:
        return False
    places = (name.rpartition(".") for name in classes)
    return any(
        type(estimator) is getattr(sys.modules.get(module), name, None)
        for module, _, name in places
    )


def is_fitted(estimator: Any) -> bool:
    if hasattr(estimator, "__sklearn_is_fitted__"):
        try:
            return bool(estimator.__sklearn_is_fitted__())
        except (
            AttributeError,
            ValueError,
        ):  # a feature union raises the NotFittedError of its parts
            return False
    return any(
        name.endswith("_") and not name.startswith("__")
        for name in getattr(estimator, "__dict__", ())
    )


def learns_nothing(estimator: Any) -> bool:
    """Whether an estimator of scikit-learn stores nothing of the rows of `fit`, and transforms each row by itself."""
    if is_a(
        estimator,
        "sklearn.preprocessing.OneHotEncoder",
        "sklearn.preprocessing.OrdinalEncoder",
    ):
        rare = (
            estimator.min_frequency is not None or estimator.max_categories is not None
        )
        return (
            not rare
            and not isinstance(estimator.categories, str)
            and _has_declared(estimator)
        )  # "auto" is a str
    if is_a(estimator, "sklearn.preprocessing.FunctionTransformer"):
        # `fit` calls the inverse too, to check it.
        inverse_is_known = estimator.inverse_func is None or _is_of_numbers(
            estimator.inverse_func
        )
        # An array in their arguments, as `out`, keeps rows.
        without_arguments = not estimator.kw_args and not estimator.inv_kw_args
        return _is_of_numbers(estimator.func) and inverse_is_known and without_arguments
    return is_a(estimator, *_STATELESS)


def selects_by_function(transformer: Any) -> bool:
    """Whether a column transformer has columns that a function of the user selects, which may look at values."""
    choices = [chosen for _, _, chosen in transformer.transformers]
    return any(callable(chosen) and not is_a(chosen, _SELECTOR) for chosen in choices)


def _is_of_numbers(function: Any) -> bool:
    """Whether a function is one of NumPy, of each number by itself, as `np.log1p`."""
    return (
        isinstance(function, np.ufunc)
        and getattr(np, function.__name__, None) is function
    )


def _has_declared(estimator: Any) -> bool:
    """Whether an encoder has the categories that it declares, and not others from before `set_params`."""
    own = getattr(estimator, "categories_", None)
    if own is None:
        return True
    try:
        return len(own) == len(estimator.categories) and all(
            map(_are_same, estimator.categories, own)
        )
    except (TypeError, ValueError):  # these cannot be categories of its columns
        return False


def _are_same(declared: Any, own: Any) -> bool:
    # scikit-learn cuts declared bytes to the longest of the rows, which shows in the dtype.
    return own.dtype.kind != "S" and list(
        map(str, np.array(list(declared), own.dtype))
    ) == list(map(str, own))


def learns_target(estimator: Any) -> bool:
    """Whether an estimator learns from the target."""
    library = library_of(estimator)
    if library in (None, "imblearn") or type(estimator).__name__ in _LEARN_TARGET:
        return True
    required = hasattr(estimator, "predict")
    if hasattr(estimator, "__sklearn_tags__"):
        required = bool(estimator.__sklearn_tags__().target_tags.required)
    # Inner estimators of scikit-learn may learn other targets, such as those of imputation.
    hands_on = library != "sklearn" or any(
        hasattr(estimator, name) for name in _HANDS_TARGET_ON
    )
    return required or (hands_on and any(map(learns_target, parts_of(estimator))))


def takes_weights(estimator: Any) -> bool:
    try:
        return "sample_weight" in signature(type(estimator).fit).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def ledgers_of(estimator: Any) -> list[PrivacyLedger]:
    """Return the ledgers that an estimator and its parts charge."""
    own = getattr(estimator, "ledger", None)
    return [
        *([own] if isinstance(own, PrivacyLedger) else []),
        *(one for part in parts_of(estimator) for one in ledgers_of(part)),
    ]


def columns_read(estimator: Any) -> list[Any]:
    """Return the columns whose categories were read from the data."""
    domain: Any = getattr(estimator, "domain_", None)
    own = [
        name
        for name in getattr(domain, "columns", ())
        if getattr(domain[name], "observed", False)
    ]
    return [
        *own,
        *(name for part in parts_of(estimator) for name in columns_read(part)),
    ]
