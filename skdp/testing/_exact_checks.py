"""Checks that nothing which a fit shows is exact: what is the same for all seeds has no noise."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from skdp.testing._released import released_attributes
from skdp.testing._tools import require

_SEEDS = range(8)
"""Noise that decides between two values decides alike for all of them, and otherwise for another table, with a
probability of 2**-15."""

_EPSILON = 1e-3
"""Little, so that hardly any release is the same for all seeds because it is nearly certain."""


def _check_nothing_exact_is_shown(estimator: Any, X: Any) -> None:
    """Check that what all seeds agree on, of attributes (private ones, too) and warnings, does not follow from rows."""
    rows = np.arange(len(X))
    agreed: list[dict[str, str]] = []
    for places in (
        rows,
        rows[:1].repeat(7),
        rows[-1:].repeat(4),
    ):  # other numbers, values and extremes
        shown = [dict(_shown(estimator, X.iloc[places], seed)) for seed in _SEEDS]
        agreed.append({path: text for path, text in shown[0].items() if all(one.get(path) == text for one in shown)})
    common = set.intersection(*map(set, agreed))
    exact = sorted(path for path in common if len({one[path] for one in agreed}) > 1)
    require(not exact, f"{', '.join(exact[:3])} follow from the rows without noise")


def _shown(estimator: Any, table: Any, seed: int) -> Iterator[tuple[str, str]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        one = clone(estimator).set_params(random_state=seed, epsilon=min(_EPSILON, float(estimator.epsilon))).fit(table)
    yield "warnings", repr(sorted(str(warning.message) for warning in found))
    yield from _leaves("", released_attributes(one), ())


def _leaves(path: str, value: Any, within: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """Take apart what consists of parts, as some of them may be noisy and others exact."""
    if id(value) in within:
        return
    within += (id(value),)
    if isinstance(value, np.ndarray):
        yield f"{path}.shape", f"{value.shape} {value.dtype}"
        value = value.ravel().tolist()
    if isinstance(value, list | tuple):
        yield f"{path}.size", str(len(value))
        value = dict(enumerate(value))
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(f"{path}[{name!r}]" if path else str(name), part, within)
    elif repr(value) == object.__repr__(value) or hasattr(type(value), "__dataclass_fields__"):
        yield from _leaves(f"{path}.", dict(getattr(value, "__dict__", {})), within)
    elif isinstance(value, pd.DataFrame | pd.Series):
        yield path, repr((value.to_dict(), value.index.tolist()))
    else:
        yield path, repr(value)


CHECKS = [_check_nothing_exact_is_shown]
