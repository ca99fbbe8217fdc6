"""Checks that the output is the same kind of table as the input."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from unittest import SkipTest

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.base import rows_and_target
from skdp.privacy import PrivacyLeakWarning
from skdp.testing._leak_checks import released_values
from skdp.testing._subject import Subject
from skdp.testing._tools import (
    columns_of,
    fitted,
    released_attributes,
    require,
    transformed,
    watched_draws,
)

_NULLABLE = "nullable dtypes"


def _check_frames_in_and_out(subject: Subject) -> None:
    """Check that the output is the same kind of table as the input, with the same rows and index."""
    for kind, frame in _tables(subject):
        # The name of the index is warned of.
        with warnings.catch_warnings(action="ignore", category=PrivacyLeakWarning):
            fitted = subject.unfitted(kind=kind).fit(frame)
            output = fitted.transform(frame)
        _require_kind(f"{kind} becomes", output, type(frame), fitted)
        require(
            len(output) == len(frame), f"{kind}: {len(frame)} rows become {len(output)}"
        )
        if isinstance(frame, pd.DataFrame):
            require(
                output.index.identical(frame.index),
                "pandas: the row index, or its name, is not kept",
            )
        require(
            len(columns_of(output)) == len(fitted.get_feature_names_out()),
            f"{kind}: get_feature_names_out() has another number of columns",
        )


def _check_set_output(subject: Subject) -> None:
    """Check that after `set_output`, every kind of input becomes the requested kind of frame."""
    if not hasattr(subject.estimator, "set_output"):
        raise SkipTest("no set_output")
    # By the name of the container; of those that are installed.
    types = {kind: type(frame) for kind, frame in _tables(subject)}
    for kind, frame in _tables(subject):
        for container in types.keys() & {"pandas", "polars"}:
            estimator = subject.unfitted(kind=kind).set_output(transform=container)
            with warnings.catch_warnings(action="ignore", category=PrivacyLeakWarning):
                outputs = [estimator.fit(frame).transform(frame)]
                outputs.append(estimator.fit_transform(frame))
            for output in outputs:
                call = f"set_output(transform={container!r}): {kind} becomes"
                _require_kind(call, output, types[container], estimator)


def _tables(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield the same rows in every library that is installed."""
    frame = subject.frame(subject.rows(12))
    labels = map("row {}".format, np.random.default_rng(0).permutation(12))
    yield "pandas", frame.set_axis(pd.Index(labels, name="person"))
    for kind in ("polars", "pyarrow"):
        with suppress(SkipTest):
            yield kind, subject.frame(subject.rows(12), kind)
    # Declarations by column name do not fit an array.
    for name, value in subject.parameters.items():
        if name != subject.parameter and isinstance(value, Mapping):
            return
    yield "array", subject.frame(subject.rows(12), "array")


def _require_kind(call: str, output: Any, kind: type, fitted: Any) -> None:
    """Fail unless an output is of a kind, and its columns have the stated names."""
    require(type(output) is kind, f"{call} a {type(output).__name__}")
    if isinstance(output, np.ndarray):
        return
    names = output.column_names if hasattr(output, "column_names") else output.columns
    require(
        list(names) == list(fitted.get_feature_names_out()),
        f"{call} a table whose columns are not get_feature_names_out()",
    )


def _check_lazy_frames_are_refused(subject: Subject) -> None:
    """Check that a lazy frame, which would be released again at each evaluation, is refused with advice."""
    # Each evaluation of a lazy frame would draw again, and none of them be charged.
    frame = subject.frame(subject.rows(12), "polars").lazy()
    for method in ("fit", "transform", "fit_transform"):
        fitted = subject.fit()
        try:
            getattr(fitted, method)(frame)
        except TypeError as error:
            require(
                "skdp.engines" in str(error),
                f"{method} refuses a lazy frame without naming skdp.engines",
            )
        else:
            raise AssertionError(f"{method} takes a lazy frame")


def _check_fit_starts_anew(subject: Subject) -> None:
    """Check that a second `fit` replaces everything of the first."""
    first = subject.frame(subject.rows(30, 1))
    second = subject.frame(subject.rows(20, 2))
    # A release under the domain of an earlier fit would show values of its rows.
    refitted = subject.unfitted()
    refitted.fit(first).transform(first)
    require(refitted.fit(second) is refitted, "fit does not return the estimator")
    fitted = subject.unfitted().fit(second)
    require(
        pickle.dumps(refitted) == pickle.dumps(fitted),
        "something of a first fit is left after the second",
    )
    require(
        refitted.guarantee_ == fitted.guarantee_, "guarantee_ depends on an earlier fit"
    )
    refitted.transform(second)


def _check_nothing_else_is_carried_over(subject: Subject) -> None:
    """Check that dtypes, categories, attributes and metadata of the reports do not depend on the rows."""
    for kind in ("pandas", "pandas, category", "polars", "pyarrow"):
        forms = []
        # Two tables of some declared values in opposite orders, and a note on each.
        for step in (1, -1):
            rows = {}
            for name, values in subject.values.items():
                rows[name] = ((values[::step][:-1] or values) * 12)[:12]
            with suppress(SkipTest, TypeError, ValueError):  # no such frames
                frame = _noted(subject.frame(rows, kind.split(",")[0]), kind, step)
                fitted = subject.unfitted().fit(frame)
                forms.append(_form_of(fitted.transform(frame)))
        require(
            len(forms) < 2 or forms[0] == forms[1],
            f"{kind}: dtypes, categories or metadata of the output depend on the rows",
        )


def _noted(frame: Any, kind: str, note: int) -> Any:
    """Add a note to the metadata of a table; as categories, columns of text are in the order of their rows."""
    if kind == "pyarrow":
        return frame.replace_schema_metadata({"note": str(note)})
    if kind.startswith("pandas"):
        frame.attrs["note"] = note
        for name in frame if kind != "pandas" else ():
            if not isinstance(frame[name].iloc[0], tuple):
                values = frame[name].dropna().unique()
                frame[name] = pd.Categorical(frame[name], categories=values)
    return frame


def _form_of(output: Any) -> Any:
    """Describe all of a table but its values and its rows."""
    if isinstance(output, pd.DataFrame):
        categories = []
        for dtype in output.dtypes:
            is_category = isinstance(dtype, pd.CategoricalDtype)
            categories.append(dtype.categories.tolist() if is_category else str(dtype))
        return dict(output.attrs), list(output.columns), categories
    if hasattr(output, "column_names"):
        dictionaries = []
        for chunk in output.to_batches():
            for column in chunk.columns:
                if hasattr(column, "dictionary"):
                    dictionaries.append(column.dictionary.to_pylist())
        return output.schema.metadata, str(output.schema), dictionaries
    if not hasattr(output, "schema"):
        return str(getattr(output, "dtype", None))
    # Codes of a Categorical follow from all data that the process has read.
    schema = dict(output.schema)
    require(
        not any(type(dtype).__name__ == "Categorical" for dtype in schema.values()),
        "polars: a column is a Categorical, the codes of which depend on the rows",
    )
    return repr(schema)


CHECKS = (
    _check_frames_in_and_out,
    _check_set_output,
    _check_lazy_frames_are_refused,
    _check_fit_starts_anew,
    _check_nothing_else_is_carried_over,
)


class _Stop(BaseException):
    """An unexpected error."""


def _check_equal_values_give_equal_releases(estimator: Any, X: Any) -> None:
    """Check that with a seed, neither the kind of frame, nor dtypes, row labels or an earlier fit show."""
    rounded = X.copy()
    for name in X.select_dtypes("number"):
        rounded[name] = X[name].round()
    with_gap = rounded.astype(object)
    with_gap.iloc[0] = None
    # Rounded numbers may be written as integers; a missing one makes them floats.
    for table in (X, rounded, with_gap.infer_objects()):
        try:
            fit = fitted(estimator, table, random_state=5)
        except (TypeError, ValueError):
            continue  # such values are refused
        expected = _released(fit, table, "the same table")
        # A release may warn that it was lost in noise.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            fit.fit(*rows_and_target(fit, table))
        pickled = pickle.loads(pickle.dumps(fit))
        require(
            _released(pickled, table, "a second fit") == expected,
            "a second fit with one seed, or a pickle of it, gives something else",
        )
        for form, equal_table in _forms(table):
            release = fitted(estimator, equal_table, random_state=5)
            for part, values in _released(release, equal_table, form).items():
                require(
                    values == expected[part],
                    f"{form}: the {part} are others than with the same values in the "
                    "default dtypes",
                )


def _forms(X: Any) -> Iterator[tuple[str, Any]]:
    """Write a pandas table in other dtypes, with other labels, and in other libraries."""
    # How a table was read decides its dtypes, and they say whether a value is missing or
    # a number has a fraction: of a single row, too.
    yield "Python objects", X.astype(object).where(X.notna(), None)
    yield _NULLABLE, X.convert_dtypes()
    numbers = X.select_dtypes("number")
    values = numbers.to_numpy(float)
    is_whole = np.isnan(values) | (values == np.rint(values))
    if numbers.shape[1] and is_whole.all():
        yield "floats", X.astype(dict.fromkeys(numbers, float))
        if not numbers.isna().to_numpy().any():
            yield "integers", X.astype(dict.fromkeys(numbers, np.int64))
    # Labels are often names or numbers of persons.
    labels = map("person {}".format, range(len(X)))
    labelled = X.set_axis(pd.Index(labels, name="hunter2"))
    labelled.attrs["persons"] = list(range(len(X)))
    yield "row labels and attributes", labelled
    yield "numbers as row labels", X.set_axis(np.arange(1000, 1000 + len(X)))
    for library in ("polars", "pyarrow"):
        with suppress(ImportError):
            yield library, nw.from_dict(lists_of(X), backend=library).to_native()


def lists_of(X: Any) -> dict[Any, list[Any]]:
    """Read a pandas table as lists, with None for missing values."""
    objects = X.astype(object).where(X.notna(), None)
    return {name: objects[name].tolist() for name in X}


def _released(fit: Any, table: Any, form: str) -> dict[str, Any]:
    """Return all that a fitted estimator releases, as far as it must not depend on the form of the table."""
    parts: dict[str, Any] = {"attributes": released_values(fit)}
    if hasattr(fit, "sample") and fit.guarantee_.relation != "replace_values":
        rows = fit.sample(20)
        parts["synthetic rows"] = columns_of(rows)
        # Synthetic rows are of the library and, if nullable, of the dtypes of the table.
        if isinstance(rows, pd.DataFrame) and form != _NULLABLE:
            parts["dtypes of synthetic rows"] = rows.dtypes.tolist()
    if hasattr(fit, "transform"):
        output = transformed(fit, table)
        require(
            type(output) is type(table),
            f"transform makes a {type(output).__name__} of {form}",
        )
        parts["transformed rows"] = columns_of(output)
    return parts


def _check_a_failed_refit_changes_nothing(estimator: Any, X: Any) -> None:
    """Check that a fit which fails while drawing leaves the earlier one unchanged, or nothing."""
    estimator = fitted(estimator, X)
    if estimator.guarantee_.epsilon == 0:
        raise SkipTest("it draws nothing")
    attributes = released_attributes(estimator)

    def stop(source: type, size: int, drawn: Any) -> None:
        raise _Stop

    # The first draw fails, after the charge and before the release.
    with suppress(_Stop), watched_draws(stop):
        estimator.fit(*rows_and_target(estimator, X))
    # Attributes of two fits beside each other would be a guarantee of the one for the
    # statistics of the other.
    attributes_after = released_attributes(estimator)
    is_unchanged = attributes_after.keys() == attributes.keys() and all(
        attributes_after[name] is attributes[name] for name in attributes
    )
    fitted_names = {name for name in attributes_after if name.endswith("_")}
    is_unfitted = fitted_names <= {"n_features_in_", "feature_names_in_"}
    require(
        is_unchanged or is_unfitted,
        "a fit that failed left some attributes of the earlier one, and some of the "
        "failed one",
    )


REPRESENTATION_CHECKS = [
    _check_equal_values_give_equal_releases,
    _check_a_failed_refit_changes_nothing,
]
