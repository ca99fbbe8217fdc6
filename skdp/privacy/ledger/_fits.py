"""Number of fits of the parts of an estimator, from public parameters of scikit-learn's meta-estimators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import suppress
from numbers import Integral
from typing import Any

from skdp.privacy._libraries import find_library, is_a
from skdp.privacy.ledger._division import find_private_steps

# scikit-learn's number of folds if `cv` is None.
DEFAULT_FOLDS = 5


def count_fits(estimator: Any, prefix: str) -> int:
    """Return the largest number of fits of the part with a prefix of parameters, in one fit of the estimator."""
    params = estimator.get_params()
    names = prefix.split("__")[:-1]
    owner, count = estimator, 1
    for depth, name in enumerate(names, 1):
        fits = _count_fits_of_part(owner, name)
        if fits is None:
            raise ValueError(
                f"`n_fits` must be given, because the fits of {type(owner).__name__} with "
                "these parameters depend on the data or are not known. Pass the number of "
                "fits, such as `n_fits=11`."
            )
        count *= fits
        owner = params["__".join(names[:depth])]
    return count


def _count_fits_of_part(owner: Any, name: str) -> int | None:
    """Return the largest number of fits of the part `name` of `owner`; None if it is unknown or depends on the data."""
    if find_library(owner) == "skdp" or is_a(owner, *_ONCE):
        return 1
    if is_a(owner, "FrozenEstimator") or _is_prefit(owner, name):
        return 0
    if name == "final_estimator":
        return 1
    for classes, count in _COUNTS.items():
        if is_a(owner, *classes):
            return count(owner)
    return None


def _is_prefit(owner: Any, name: str) -> bool:
    """Check if the part was fitted before."""
    is_prefit = (
        getattr(owner, "prefit", False) or str(getattr(owner, "cv", "")) == "prefit"
    )
    return bool(is_prefit) and name != "final_estimator"


def _count_folds(owner: Any) -> int | None:
    """Return the number of folds of a cross-validation; None if it depends on the data."""
    cv = owner.cv
    if cv is None:
        return DEFAULT_FOLDS
    if isinstance(cv, Integral):
        return int(cv)
    if isinstance(cv, float):  # the fraction of the rows for validation
        return 1
    if hasattr(cv, "get_n_splits"):
        with suppress(Exception):  # LeaveOneOut requires the rows
            return int(cv.get_n_splits())
        return None
    return len(cv) if isinstance(cv, Sized) else None


def _count_with_refit(owner: Any, n_candidates: int | None) -> int | None:
    """Return the number of fits of a search: one per candidate and fold, and one of the best candidate."""
    folds = _count_folds(owner)
    if folds is None or n_candidates is None or _varies_fits(owner):
        return None
    return folds * n_candidates + bool(owner.refit)


def _list_varied(search: Any) -> Iterator[tuple[str, Any]]:
    """List the parameters that a search varies, with their values."""
    grids = getattr(search, "param_grid", getattr(search, "param_distributions", {}))
    for grid in [grids] if isinstance(grids, Mapping) else grids:
        yield from grid.items()


def _varies_fits(search: Any) -> bool:
    """Return True if a search varies parameters of an estimator that fits its parts several times."""
    parts = {"": search.estimator} | search.estimator.get_params()
    owners = {name.rpartition("__")[0] for name, _ in _list_varied(search)}
    return any(is_a(parts.get(owner), *names) for owner in owners for names in _COUNTS)


def check_grids(estimator: Any) -> None:
    """Check that searches set no part of a budget, and no private estimators without a ledger."""
    for part in (estimator, *estimator.get_params().values()):
        for name, values in _list_varied(part):
            if name.rpartition("__")[2] in ("epsilon", "delta", "ledger"):
                raise ValueError(
                    f"`param_grid` of {type(part).__name__} must not vary the budget of a "
                    f"step, which `split` divides, got {name!r}. Remove it."
                )
            for value in values if isinstance(values, list | tuple) else ():
                is_estimator = hasattr(value, "get_params")
                steps = find_private_steps(value) if is_estimator else {}
                if any(step.ledger is None for step in steps.values()):
                    raise ValueError(
                        f"`param_grid` of {type(part).__name__} must give a ledger to private "
                        "estimators, got an estimator without a ledger. Set its "
                        "`epsilon` and `ledger`."
                    )


def _count_grid(grids: Any) -> int | None:
    """Return the number of candidates in grids of parameters; None for distributions."""
    total = 0
    for grid in [grids] if isinstance(grids, Mapping) else grids:
        if not all(isinstance(values, Sized) for values in grid.values()):
            return None
        total += math.prod(map(len, grid.values()))
    return total


def _count_samples(owner: Any) -> int:
    """Return the number of candidates that are drawn: a grid is drawn without replacement."""
    size = _count_grid(owner.param_distributions)
    return owner.n_iter if size is None else min(owner.n_iter, size)


def _count_halving(owner: Any, n_candidates: int) -> int:
    """Return the largest number of candidates in all rounds of successive halving."""
    total = 0
    for _ in range(1 + math.floor(math.log(n_candidates, owner.factor))):
        total += n_candidates
        n_candidates = math.ceil(n_candidates / owner.factor)
    return total


def _count_halving_samples(owner: Any) -> int | None:
    """Return the largest number of candidates in all rounds; None if it depends on the number of rows."""
    if isinstance(owner.n_candidates, str):
        return None
    return _count_halving(owner, owner.n_candidates)


def _count_calibration(owner: Any) -> int | None:
    """Return the number of fits of a calibration: one per fold, and without an ensemble one on all rows."""
    folds = _count_folds(owner)
    return folds if folds is None or owner.ensemble else folds + 1


def _count_stacking(owner: Any) -> int | None:
    """Return the number of fits of a stack or a threshold: one per fold for predictions, and the final one."""
    folds = _count_folds(owner)
    return None if folds is None else folds + 1


# Classes that fit each part once.
_ONCE = (
    "ColumnTransformer",
    "FeatureUnion",
    "FixedThresholdClassifier",
    "Pipeline",
    "TransformedTargetRegressor",
    "VotingClassifier",
    "VotingRegressor",
)

_COUNTS: dict[tuple[str, ...], Callable[[Any], int | None]] = {
    ("GridSearchCV",): lambda x: _count_with_refit(x, _count_grid(x.param_grid)),
    ("RandomizedSearchCV",): lambda x: _count_with_refit(x, _count_samples(x)),
    ("HalvingGridSearchCV",): lambda x: _count_with_refit(
        x, _count_halving(x, _count_grid(x.param_grid) or 1)
    ),
    ("HalvingRandomSearchCV",): lambda x: _count_with_refit(
        x, _count_halving_samples(x)
    ),
    ("CalibratedClassifierCV",): _count_calibration,
    (
        "StackingClassifier",
        "StackingRegressor",
        "TunedThresholdClassifierCV",
    ): _count_stacking,
    (
        "AdaBoostClassifier",
        "AdaBoostRegressor",
        "BaggingClassifier",
        "BaggingRegressor",
    ): lambda x: x.n_estimators,
    ("SelectFromModel",): lambda x: 1,
}
