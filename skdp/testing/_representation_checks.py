"""Checks that a release follows from values and declarations, not from how a table holds the values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd

from skdp.randomness import SecureSource, SeededSource
from skdp.testing._released import fitted, released_attributes, released_text
from skdp.testing._tools import columns_of, require


class _Stop(BaseException):
    """What no code expects."""


def _representations(X: Any) -> Iterator[tuple[str, Any]]:
    """Write a pandas table in other dtypes."""
    yield "Python objects", X.astype(object).where(X.notna(), None)
    yield "nullable dtypes", X.convert_dtypes()
    numbers = X.select_dtypes("number")
    known = numbers.to_numpy(float)
    if numbers.shape[1] and (np.isnan(known) | (known == np.rint(known))).all():
        yield "floats", X.astype(dict.fromkeys(numbers, float))
        if not numbers.isna().to_numpy().any():
            yield "integers", X.astype(dict.fromkeys(numbers, np.int64))


def _whole(X: Any) -> Any:
    """Round the numbers of a table, and make the first row one of missing values in a second one."""
    numbers = list(X.select_dtypes("number"))
    return X.assign(**{name: X[name].round() for name in numbers}) if all(isinstance(n, str) for n in numbers) else X


def _check_dtypes_do_not_matter(estimator: Any, X: Any) -> None:
    """Check that the same values in other dtypes, also with a missing one among them, give the same release."""
    whole = _whole(X)
    gap = whole.astype(object)
    gap.iloc[0] = None
    for table, kind in ((X, ""), (whole, ""), (gap.infer_objects(), ", with missing values")):
        try:
            wanted = fitted(estimator, table, random_state=5)
        except (TypeError, ValueError):
            continue  # it says that it takes no such values
        rows = wanted.sample(20) if hasattr(wanted, "sample") else None
        for name, same in _representations(table):
            found = fitted(estimator, same, random_state=5)
            reason = f"{name}{kind} give something else than the same values in the default dtypes"
            require(released_text(found) == released_text(wanted), reason)
            if rows is not None:
                others = found.sample(20)
                require(_numbers(rows) == _numbers(others), reason)
                if name != "nullable dtypes":
                    require((rows.dtypes == others.dtypes).all(), f"the dtypes of synthetic rows show {name}{kind}")


def _numbers(rows: Any) -> dict[Any, list[Any]]:
    return {
        name: [float(value) if isinstance(value, int) and not isinstance(value, bool) else value for value in column]
        for name, column in columns_of(rows).items()
    }


def _check_labels_and_metadata_do_not_matter(estimator: Any, X: Any) -> None:
    """Check that row labels, their name and the attributes of a table do not show."""
    wanted = released_text(fitted(estimator, X, random_state=5))
    labelled = X.set_axis(pd.Index([f"person {place * place}" for place in range(len(X))], name="hunter2"))
    labelled.attrs["persons"] = list(range(len(X)))
    numbered = X.set_axis(np.arange(1000, 1000 + len(X)))
    for table in (labelled, numbered):
        require(released_text(fitted(estimator, table, random_state=5)) == wanted, "row labels or attributes show")


def _check_a_failed_refit_changes_nothing(estimator: Any, X: Any) -> None:
    """Check that a fit which stops while it draws leaves the earlier one as it was, or nothing."""
    one = fitted(estimator, X)
    if one.guarantee_.epsilon == 0:
        raise SkipTest("it draws nothing")
    before = released_attributes(one)
    originals = {source: source.bytes for source in (SecureSource, SeededSource)}

    def stop(self: Any, size: int) -> Any:
        raise _Stop

    try:
        for source in originals:
            setattr(source, "bytes", stop)  # noqa: B010 - mypy knows it as a method
        one.fit(X)
    except _Stop:
        pass
    finally:
        for source, original in originals.items():
            setattr(source, "bytes", original)  # noqa: B010
    after = released_attributes(one)
    kept = after.keys() == before.keys() and all(after[name] is before[name] for name in before)
    nothing = not any(name.endswith("_") and name not in ("n_features_in_", "feature_names_in_") for name in after)
    require(kept or nothing, "a fit that failed left some attributes of the earlier one, and some of its own")


CHECKS = [
    _check_dtypes_do_not_matter,
    _check_labels_and_metadata_do_not_matter,
    _check_a_failed_refit_changes_nothing,
]
