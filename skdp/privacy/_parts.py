"""What estimators are made of, and what else they learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_FED = ("estimators_", "calibrated_classifiers_", "regressor_", "estimator_", "estimator")
"""Where scikit-learn's own meta-estimators keep the fitted estimators that they hand the table to."""

_PREDICTED = frozenset(
    {"calibrated_classifiers_", "best_threshold_", "best_score_", "cv_results_"}
    | {"oob_score_", "oob_decision_function_", "oob_prediction_"}
)
"""What they compute from what these estimators predict for rows of the table."""

_NOTHING_ELSE = _PREDICTED | frozenset(
    {"estimators_", "named_estimators_", "estimator_", "regressor_", "transformer_", "final_estimator_"}
    | {"classes_", "n_classes_", "le_", "label_binarizer_", "pairwise_indices_"}  # of the target
    | {"n_features_in_", "feature_names_in_", "estimators_features_", "stack_method_"}  # of names and numbers
)
"""The fitted attributes of one whose table reaches nothing but the estimators inside, and what these predict."""


_HANDS_TARGET_ON = ("steps", "best_estimator_", "get_support")
"""What tells those of scikit-learn's estimators that do not say that an estimator inside learns the target."""


def parts_of(estimator: Any) -> list[Any]:
    """Return the estimators that an estimator keeps: those that it has fitted, or else those that it was given.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.

    Returns
    -------
    list of estimator
        Each once; also those in lists, arrays and mappings.
    """
    kept = getattr(estimator, "__dict__", {})
    fitted = {name: value for name, value in kept.items() if name.endswith("_") or name.startswith("_")}
    given = {name: value for name, value in kept.items() if name not in fitted}
    for group in (fitted, given):
        parts = {id(part): part for part in _estimators(list(group.values())) if part is not estimator}
        if any(is_fitted(part) or promises(part) for part in parts.values()) or group is given:
            return list(parts.values())
    return []


def _estimators(value: Any) -> Iterator[Any]:
    if isinstance(value, type):
        return
    if callable(getattr(value, "fit", None)) or callable(getattr(value, "fit_resample", None)):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _estimators(item)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        yield from _estimators(value.ravel().tolist())
    elif hasattr(value, "estimator"):  # a calibrated classifier, which cannot be fitted by itself
        yield from _estimators(value.estimator)


def promises(estimator: Any) -> bool:
    """Say whether there is a guarantee anywhere inside.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.

    Returns
    -------
    bool
        Also True for its own guarantee.
    """
    return hasattr(estimator, "guarantee_") or any(map(promises, parts_of(estimator)))


def fed_parts(estimator: Any) -> list[Any] | None:
    """Return the estimators that a meta-estimator hands its table to, if it does nothing else with the table.

    That is known of scikit-learn's own ones (voting, stacking without passing its input through, bagging without
    drawing a row twice, calibration, thresholds, several classes or outputs, a transformed target, freezing), and told
    by what they have fitted: nothing but estimators, what these predict, and what comes of the target or of names. All
    others may keep anything.

    Parameters
    ----------
    estimator : estimator
        Fitted.

    Returns
    -------
    list of estimator or None
        None if it may learn something of the table itself.
    """
    learnt = {name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")}
    # A row that is drawn several times is privatised, and so released, several times.
    more = getattr(estimator, "passthrough", False) or getattr(estimator, "bootstrap", False)
    if more or not is_of_sklearn(estimator) or not hasattr(estimator, "predict") or not learnt <= _NOTHING_ELSE:
        return None
    fitted = ([part for part in _estimators(vars(estimator).get(name)) if is_fitted(part)] for name in _FED)
    return next((parts for parts in fitted if parts), None)


def learns_from_predictions(estimator: Any) -> bool:
    """Say whether one of scikit-learn's meta-estimators keeps what its parts have predicted for rows of the table.

    Parameters
    ----------
    estimator : estimator
        Fitted.

    Returns
    -------
    bool
        True for scores, thresholds and calibrations. The last estimator of a stack is a part of its own.
    """
    return not _PREDICTED.isdisjoint(vars(estimator))


def is_of_sklearn(estimator: Any) -> bool:
    """Say whether an estimator is scikit-learn's own, so that what it does is known.

    Parameters
    ----------
    estimator : estimator
        Any.

    Returns
    -------
    bool
        False for subclasses that others wrote.
    """
    return type(estimator).__module__.partition(".")[0] == "sklearn"


def is_fitted(estimator: Any) -> bool:
    """Say whether an estimator is fitted.

    Parameters
    ----------
    estimator : estimator
        Any.

    Returns
    -------
    bool
        As it says itself, or by its attributes.
    """
    if hasattr(estimator, "__sklearn_is_fitted__"):
        return bool(estimator.__sklearn_is_fitted__())
    return any(name.endswith("_") and not name.startswith("__") for name in getattr(estimator, "__dict__", ()))


def learns_target(estimator: Any) -> bool:
    """Say whether an estimator learns from the target.

    Parameters
    ----------
    estimator : estimator
        Any.

    Returns
    -------
    bool
        What it says itself, or else an estimator inside says.
    """
    required = hasattr(estimator, "predict")
    if hasattr(estimator, "__sklearn_tags__"):
        required = bool(estimator.__sklearn_tags__().target_tags.required)
    # Inside scikit-learn's own ones there may be targets of another kind, such as those of imputation.
    hands_on = not is_of_sklearn(estimator) or any(hasattr(estimator, name) for name in _HANDS_TARGET_ON)
    return required or (hands_on and any(map(learns_target, parts_of(estimator))))
