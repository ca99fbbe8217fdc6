"""The target of a private model or selection: declared classes, or numbers between declared bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from skdp.base import read_bounds, read_domain, read_numbers, target_of
from skdp.domain import Domain
from skdp.frames import Table, is_frame


def read_classes(estimator: Any, table: Table, y: Any, classes: Any) -> tuple[NDArray[np.intp], NDArray[Any], Domain]:
    """Return the class of each row, the sorted classes, and the target with its classes."""
    target = _table_of(estimator, table, y)
    if classes is None:
        values = np.asarray(target.columns[0])
        assert_all_finite(values, input_name="y")
        check_classification_targets(values)
    (name,) = target.names
    domain = read_domain(target, "auto" if classes is None else {name: classes}, name="classes")
    if None in domain[name].values:
        raise ValueError("classes must not hold a missing value")
    (codes,) = domain.encode(target.columns)
    found = np.array(domain[name].values)
    if len(found) < 2:
        raise ValueError(f"classes must be at least 2, got {len(found)} class")
    if (codes == len(found)).any():
        raise ValueError("y holds a missing value, or one that classes does not declare")
    order = np.argsort(found)
    return np.argsort(order)[codes], found[order], domain


def read_target(estimator: Any, table: Table, y: Any, bounds: Any) -> tuple[Table, NDArray[np.float64]]:
    """Return the target as a table of one column of numbers, and its bounds."""
    if y is not None and bounds is None:
        raise ValueError(
            "target_bounds must be declared, as (low, high), from what is publicly known: the lowest and the "
            "highest value of the target are private"
        )
    target = _table_of(estimator, table, y)
    (numbers,) = read_numbers(target)
    ends = read_bounds([bounds], target.names, parameter="target_bounds")
    return replace(target, columns=(numbers,)), ends


def _table_of(estimator: Any, table: Table, y: Any) -> Table:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    column, name = target_of(table, y)
    return Table((name,), (column,), y if is_frame(y) else np.empty((len(column), 1)))
