"""What an estimator that is not fitted is set to spend, from its parameters alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.statement._columns import OTHERS
from skdp.privacy.statement._parts import is_a, library_of, n_folds, parts_of


def is_of_skdp(estimator: Any) -> bool:
    """Whether an estimator, and all that it wraps, are classes of skdp."""
    return library_of(estimator) == "skdp" and all(map(is_of_skdp, parts_of(estimator)))


def was_fitted(estimator: Any) -> bool:
    """Whether an estimator, or one of its parts, has an attribute that `fit` sets."""
    # Some estimators of scikit-learn that learn nothing say of themselves that they are always fitted.
    fitted = any(
        name.endswith("_") and not name.startswith("__")
        for name in getattr(estimator, "__dict__", ())
    )
    return fitted or any(map(was_fitted, parts_of(estimator)))


def planned_guarantee(estimator: Any) -> PrivacyGuarantee | None:
    """Return what the parameters of an estimator of skdp allow it to spend; None if columns or rows decide it."""
    plan: Callable[[], PrivacyGuarantee | None] | None = getattr(
        estimator, "planned_guarantee", None
    )
    if plan is not None:
        return plan()
    wrapped = parts_of(estimator)
    return planned_guarantee(wrapped[0]) if len(wrapped) == 1 else None


def spends(estimator: Any) -> bool:
    """Whether an estimator or one of its parts is set to spend something."""
    return is_of_skdp(estimator) or any(map(spends, parts_of(estimator)))


def may_read_categories(estimator: Any) -> bool:
    """Whether an estimator, or one that it wraps, takes the categories from the data unless a dtype declares them."""
    categories = getattr(estimator, "categories", None)
    reads = isinstance(categories, str) and categories == "auto"
    return reads or any(map(may_read_categories, parts_of(estimator)))


def declared_names(estimator: Any) -> tuple[Any, ...] | None:
    """Return the columns that an estimator names in its parameters, None if it names none."""
    if is_a(estimator, "sklearn.pipeline.Pipeline", "imblearn.pipeline.Pipeline"):
        return declared_names(estimator.steps[0][1])
    if is_a(estimator, "sklearn.compose.ColumnTransformer"):
        return _chosen_names(estimator)
    names: dict[Any, None] = {}
    for parameter in ("categories", "domain", "bounds"):
        declared: Any = getattr(estimator, parameter, None)
        if isinstance(declared, Mapping):
            names |= dict.fromkeys(declared)
        elif hasattr(declared, "columns"):  # a Domain
            names |= dict.fromkeys(declared.columns)
    parts = parts_of(estimator)
    if not names and len(parts) == 1:
        return declared_names(parts[0])
    return tuple(names) if names and is_of_skdp(estimator) else None


def _chosen_names(transformer: Any) -> tuple[Any, ...] | None:
    names: dict[Any, None] = {}
    for _, _, chosen in transformer.transformers:
        listed = [chosen] if isinstance(chosen, str) else chosen
        if not isinstance(listed, list | tuple) or not all(
            isinstance(name, str) for name in listed
        ):
            return None
        names |= dict.fromkeys(listed)
    dropped = isinstance(transformer.remainder, str) and transformer.remainder == "drop"
    return tuple(names) if dropped else (*names, OTHERS)


def is_search(estimator: Any) -> bool:
    """Whether an estimator is a search of scikit-learn whose number of candidates follows from its parameters."""
    module = "sklearn.model_selection._search"
    return is_a(estimator, f"{module}.GridSearchCV", f"{module}.RandomizedSearchCV")


def searched_values(search: Any) -> dict[str, list[Any]]:
    """Return the parameters that a search varies, and their values or distributions."""
    if hasattr(search, "cv_results_"):
        grids: Sequence[Mapping[str, Any]] = search.cv_results_["params"]
    else:
        grids = _grids(search)
    values: dict[str, list[Any]] = {}
    for grid in grids:
        for name, value in grid.items():
            values.setdefault(name, []).append(value)
    return values


def most_fits(search: Any) -> int | None:
    """Return how often a search fits a candidate to some of the rows, at most; None if its splits do not tell."""
    if hasattr(search, "n_iter"):
        n_candidates = search.n_iter
    else:
        n_candidates = sum(prod(map(len, grid.values())) for grid in _grids(search))
    folds = n_folds(search.cv)
    return None if folds is None else n_candidates * folds


def _grids(search: Any) -> Sequence[Mapping[str, Any]]:
    given = (
        search.param_distributions
        if hasattr(search, "param_distributions")
        else search.param_grid
    )
    return [given] if isinstance(given, Mapping) else list(given)
