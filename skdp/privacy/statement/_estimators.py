"""Facts about an estimator: its library, its parts, and the data that it learns from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger import PrivacyLedger

# Libraries whose classes are known.
_LIBRARIES = ("sklearn", "imblearn", "skdp")

# Transformers of scikit-learn whose `fit` only counts columns.
_STATELESS = (
    "sklearn.preprocessing.Binarizer",
    "sklearn.preprocessing.Normalizer",
    "sklearn.preprocessing.PolynomialFeatures",
)

# Estimators of scikit-learn that learn the target without a tag or `predict`.
_TARGET_LEARNERS = ("SelectKBest", "SelectPercentile", "PLSSVD")

# Parameters of meta-estimators that score or split by the target.
_TARGET_PARAMETERS = ("refit", "scoring", "cv")

# Whether the returned rows are protected: always, never, or only in fit.
Protects = Literal[True, False, "fit"]


def library_of(estimator: Any) -> str | None:
    """Return the library of a class; None if its behavior is not known."""
    # A subclass, or a class of the same name, may do anything with its rows.
    estimator_class = type(estimator)
    module = estimator_class.__module__
    original = getattr(sys.modules.get(module), estimator_class.__name__, None)
    library = module.partition(".")[0]
    return library if library in _LIBRARIES and original is estimator_class else None


def is_a(estimator: Any, *classes: str) -> bool:
    """Check if the class of an estimator is exactly one of some known classes."""
    if library_of(estimator) is None:
        return False
    for path in classes:
        module, _, name = path.rpartition(".")
        if type(estimator) is getattr(sys.modules.get(module), name, None):
            return True
    return False


def is_pipeline(estimator: Any) -> bool:
    """Check if the steps of an estimator follow each other."""
    return is_a(estimator, "sklearn.pipeline.Pipeline", "imblearn.pipeline.Pipeline")


def is_estimator(value: Any) -> bool:
    """Check if an object can be fitted."""
    fit = getattr(value, "fit", None) or getattr(value, "fit_resample", None)
    return callable(fit) and not isinstance(value, type)


def parts_of(estimator: Any) -> list[Any]:
    """Return the fitted estimators in an estimator, or else the estimators in its parameters."""
    # Parameters of fitted meta-estimators are the originals of their parts, and were
    # not fitted. An identity removes parts that occur twice.
    fitted: dict[int, Any] = {}
    parameters: dict[int, Any] = {}
    for name, value in getattr(estimator, "__dict__", {}).items():
        parts = fitted if name.startswith("_") or name.endswith("_") else parameters
        for part in _find_estimators(value):
            if part is not estimator:
                parts[id(part)] = part
    return list((fitted or parameters).values())


def _find_estimators(value: Any) -> Iterator[Any]:
    """Yield the estimators in nested lists, tuples, dicts and arrays."""
    if is_estimator(value):
        yield value
    elif isinstance(value, Mapping):
        yield from _find_estimators(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _find_estimators(item)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        yield from _find_estimators(value.ravel().tolist())


def all_parts(estimator: Any) -> Iterator[Any]:
    """Yield an estimator, its parts, and the parts of these."""
    yield estimator
    for part in parts_of(estimator):
        yield from all_parts(part)


def is_fitted(estimator: Any) -> bool:
    """Check if an estimator, or one of its parts, has an attribute that `fit` sets."""
    # Estimators that learn nothing are always fitted according to scikit-learn.
    for part in all_parts(estimator):
        for name in getattr(part, "__dict__", ()):
            if name.endswith("_") and not name.startswith("__"):
                return True
    return False


def is_of_skdp(estimator: Any) -> bool:
    """Check if an estimator and all its parts are classes of skdp."""
    return all(library_of(part) == "skdp" for part in all_parts(estimator))


def is_trusted(estimator: Any, trusted: tuple[type, ...]) -> bool:
    """Check if the guarantee of an estimator comes from a known or trusted class."""
    if not isinstance(getattr(estimator, "guarantee_", None), PrivacyGuarantee):
        return False
    if type(estimator) in trusted:
        return True
    # A local transformer releases rows by its protocol, a wrapper by its parts.
    sources = [estimator, *_find_reporters(getattr(estimator, "protocol_", None))]
    if any(library_of(source) != "skdp" for source in sources):
        return False
    return all(is_trusted(part, trusted) for part in parts_of(estimator))


def _find_reporters(protocol: Any) -> list[Any]:
    """Return a protocol, its fields, their oracles, and the oracles in these."""
    reporters = [] if protocol is None else [protocol]
    # The list grows in the loop.
    for reporter in reporters:
        for value in getattr(reporter, "__dict__", {}).values():
            for part in value if isinstance(value, list | tuple) else [value]:
                is_known = any(part is known for known in reporters)
                if hasattr(part, "report") and not is_known:
                    reporters.append(part)
    return reporters


def has_private_parts(estimator: Any) -> bool:
    """Check if an estimator has parts that may spend privacy budget."""
    for part in parts_of(estimator):
        if hasattr(part, "guarantee_") or is_of_skdp(part) or has_private_parts(part):
            return True
    return False


def has_earlier_fit(estimator: Any) -> bool:
    """Check if an estimator, or a part of it, was fitted before, perhaps on true values."""
    for part in all_parts(estimator):
        if type(part).__name__ == "FrozenEstimator" or getattr(part, "prefit", False):
            return True
        splits = getattr(part, "cv", None)
        if isinstance(splits, str) and splits == "prefit":
            return True
    return False


def passes_columns(part: Any) -> bool:
    """Check if a step returns its columns unchanged."""
    if is_a(part, "sklearn.preprocessing.FunctionTransformer"):
        return part.func is None
    return part is None or (isinstance(part, str) and part == "passthrough")


def learns_nothing(estimator: Any) -> bool:
    """Check if an estimator stores nothing about the rows, and transforms each by itself."""
    encoders = "OneHotEncoder", "OrdinalEncoder"
    if is_a(estimator, *(f"sklearn.preprocessing.{name}" for name in encoders)):
        is_counted = estimator.min_frequency, estimator.max_categories
        return is_counted == (None, None) and _has_declared_categories(estimator)
    return is_a(estimator, *_STATELESS)


def _has_declared_categories(encoder: Any) -> bool:
    """Check if an encoder has the categories that it declares, and none from an earlier fit."""
    if isinstance(encoder.categories, str):
        return False
    fitted = getattr(encoder, "categories_", None)
    if fitted is None:
        return True
    if len(fitted) != len(encoder.categories):
        return False
    for declared, values in zip(encoder.categories, fitted, strict=True):
        # scikit-learn cuts declared bytes to the longest of the rows, which reveals it.
        if values.dtype.kind == "S" or list(map(str, declared)) != list(
            map(str, values)
        ):
            return False
    return True


def learns_target(estimator: Any) -> bool:
    """Check if an estimator learns from the target."""
    library = library_of(estimator)
    if library == "skdp":
        return any(map(learns_target, parts_of(estimator)))
    if library != "sklearn" or type(estimator).__name__ in _TARGET_LEARNERS:
        return True
    # Imputers fit models with columns of X as targets.
    if type(estimator).__module__.startswith("sklearn.impute"):
        return False
    has_parameter = any(hasattr(estimator, name) for name in _TARGET_PARAMETERS)
    if has_parameter or hasattr(estimator, "predict"):
        return True
    is_required = estimator.__sklearn_tags__().target_tags.required
    return is_required or any(map(learns_target, parts_of(estimator)))


def has_further_column(synthesizer: Any) -> bool:
    """Check if a fitted synthesizer was given a target, which is a column of its domain."""
    columns = getattr(getattr(synthesizer, "domain_", None), "columns", ())
    return len(columns) > getattr(synthesizer, "n_features_in_", len(columns))


def has_own_column_function(transformer: Any) -> bool:
    """Check if a function of the user, which may read values, selects columns."""
    selections = [chosen for _, _, chosen in transformer.transformers]
    functions = filter(callable, selections)
    selector = "sklearn.compose.make_column_selector"
    return not all(is_a(function, selector) for function in functions)


def find_domains(estimator: Any) -> list[tuple[PrivacyGuarantee, str]]:
    """Return the guarantees and the releases of the domains of an estimator and its parts."""
    releases = []
    for part in all_parts(estimator):
        for value in getattr(part, "__dict__", {}).values():
            # A Domain, which this package does not import.
            if hasattr(value, "with_guarantee") and value.guarantee is not None:
                releases.append((value.guarantee, value._release_id))
    return releases


def find_ledgers(estimator: Any) -> list[PrivacyLedger]:
    """Return the ledgers that an estimator and its parts charge."""
    ledgers = [getattr(part, "ledger", None) for part in all_parts(estimator)]
    return [ledger for ledger in ledgers if isinstance(ledger, PrivacyLedger)]


def observed_columns(estimator: Any) -> list[Any]:
    """Return the columns whose categories `fit` inferred from the data."""
    columns = []
    for part in all_parts(estimator):
        domain: Any = getattr(part, "domain_", None)
        for name in getattr(domain, "columns", ()):
            if getattr(domain[name], "observed", False):
                columns.append(name)
    return columns


def may_infer_categories(estimator: Any) -> bool:
    """Check if `fit` may infer categories from the data."""
    declared = [getattr(part, "categories", None) for part in all_parts(estimator)]
    return any(isinstance(value, str) and value == "auto" for value in declared)


def planned_guarantee(estimator: Any) -> PrivacyGuarantee | None:
    """Return the largest loss that the parameters allow; None if it depends on the data."""
    if hasattr(estimator, "_planned_guarantee"):
        guarantee: PrivacyGuarantee | None = estimator._planned_guarantee()
        return guarantee
    parts = parts_of(estimator)
    return planned_guarantee(parts[0]) if len(parts) == 1 else None


def declared_names(estimator: Any) -> tuple[Any, ...] | None:
    """Return the columns that parameters of an estimator of skdp name; None without names."""
    names: dict[Any, None] = {}
    for part in all_parts(estimator):
        for parameter in ("categories", "domain", "bounds"):
            declared: Any = getattr(part, parameter, None)
            columns = getattr(declared, "columns", declared)
            if columns is not declared or isinstance(declared, Mapping):
                names |= dict.fromkeys(columns)
    return tuple(names) or None


def fitted_names(estimator: Any) -> tuple[Any, ...] | None:
    """Return the columns that an estimator was fitted on."""
    if hasattr(estimator, "feature_names_in_"):
        return tuple(estimator.feature_names_in_)
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features is None:
        return None
    # scikit-learn stores names only if they are strings. A guarantee for all columns has
    # other names in its scope, which may end with the target.
    guarantee = getattr(estimator, "guarantee_", None)
    scope = getattr(guarantee, "scope", ())
    is_of_values = getattr(guarantee, "relation", "") == "replace_values"
    if len(scope) in (n_features, n_features + 1) and not is_of_values:
        return tuple(scope[:n_features])
    return tuple(f"x{index}" for index in range(n_features))


def column_names_of(X: Any) -> tuple[Any, ...] | None:
    """Return the column names of a table, without reading a value."""
    if X is None:
        return None
    # Attributes of the class, because pandas has columns as attributes of a table.
    table_class = type(X)
    if hasattr(table_class, "collect_schema"):  # Polars
        return tuple(X.collect_schema().names())
    if hasattr(table_class, "column_names"):  # pyarrow, whose `columns` has the values
        return tuple(X.column_names)
    if hasattr(table_class, "columns"):
        return tuple(X.columns)
    if len(getattr(X, "shape", ())) == 2:
        return tuple(f"x{index}" for index in range(X.shape[1]))
    raise TypeError(f"X must be a DataFrame or a 2D array, got {type(X).__name__}")


def find_protection(estimator: Any, guarantee: PrivacyGuarantee) -> Protects:
    """Check if the rows that an estimator returns are protected."""
    returns_new_rows = hasattr(estimator, "fit_resample")
    protects = getattr(estimator, "protects_rows", None)
    if protects is None and returns_new_rows and not hasattr(estimator, "transform"):
        protects = "fit"
    if protects is None:
        return guarantee.trust != "central"
    if isinstance(protects, str) and protects == "fit":
        # After `fit` and `transform`, the next step would get true rows.
        is_in_fit = returns_new_rows or hasattr(estimator, "fit_transform")
        return "fit" if is_in_fit else False
    return bool(protects)
