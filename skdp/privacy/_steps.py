"""Facts about an estimator: its library, its parts, and the data that it learns from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from skdp.privacy._guarantee import PrivacyGuarantee

# Libraries whose classes are known.
_LIBRARIES = ("sklearn", "imblearn", "skdp")

# Transformers of scikit-learn whose `fit` only counts columns.
_STATELESS = ("Binarizer", "Normalizer", "PolynomialFeatures")

# Estimators of scikit-learn that learn the target without a tag or `predict`.
_TARGET_LEARNERS = ("SelectKBest", "SelectPercentile", "PLSSVD")

# Attributes of predictors, and parameters of meta-estimators that score or split by the
# target.
_TARGET_ATTRIBUTES = ("predict", "refit", "scoring", "cv")

# True if the returned rows are protected, "fit" if only in fit.
Protects = Literal[True, False, "fit"]


def library_of(estimator: Any) -> str | None:
    """Return the library of a class; None if its behavior is not known."""
    # The code of a subclass in another module is not known.
    library = type(estimator).__module__.partition(".")[0]
    return library if library in _LIBRARIES else None


def is_a(estimator: Any, *names: str) -> bool:
    """Check if the class of an estimator is a class of scikit-learn or imbalanced-learn."""
    is_known = library_of(estimator) in ("sklearn", "imblearn")
    return is_known and type(estimator).__name__ in names


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
        parts |= {id(part): part for part in _find_estimators(value)}
    found = fitted or parameters
    return [part for part in found.values() if part is not estimator]


def _find_estimators(value: Any) -> Iterator[Any]:
    """Yield the estimators in nested lists, tuples and dicts."""
    if is_estimator(value):
        yield value
    elif isinstance(value, list | tuple | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _find_estimators(item)


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


def is_known(estimator: Any) -> bool:
    """Check if the libraries of an estimator and all its parts set attributes in `fit`."""
    return all(library_of(part) is not None for part in all_parts(estimator))


def is_trusted(estimator: Any, trusted: tuple[type, ...]) -> bool:
    """Check if the guarantee of an estimator comes from a known or trusted class."""
    if not isinstance(getattr(estimator, "guarantee_", None), PrivacyGuarantee):
        return False
    if type(estimator) in trusted:
        return True
    # Oracles may be registered by a user, and wrappers release rows of their parts.
    sources = [estimator, *getattr(estimator, "oracles_", ())]
    is_known = all(library_of(source) == "skdp" for source in sources)
    return is_known and all(is_trusted(part, trusted) for part in parts_of(estimator))


def has_earlier_fit(estimator: Any) -> bool:
    """Check if an estimator, or one of its parts, was fitted before, possibly on true values."""
    for part in all_parts(estimator):
        splits = getattr(part, "cv", None)
        is_prefit = isinstance(splits, str) and splits == "prefit"
        if is_prefit or getattr(part, "prefit", False) or is_a(part, "FrozenEstimator"):
            return True
    return False


def passes_columns(part: Any) -> bool:
    """Check if a step returns its columns unchanged."""
    if is_a(part, "FunctionTransformer"):
        return part.func is None
    return part is None or (isinstance(part, str) and part == "passthrough")


def learns_nothing(estimator: Any) -> bool:
    """Check if an estimator is stateless and transforms each row independently."""
    if is_a(estimator, "OneHotEncoder", "OrdinalEncoder"):
        is_counted = estimator.min_frequency, estimator.max_categories
        return is_counted == (None, None) and not isinstance(estimator.categories, str)
    return is_a(estimator, *_STATELESS)


def learns_target(estimator: Any) -> bool:
    """Check if an estimator learns from the target."""
    if any(map(learns_target, parts_of(estimator))):
        return True
    # Estimators of other authors may learn from the target. Estimators of skdp learn from
    # a true target only with a guarantee, or through their parts.
    library = library_of(estimator)
    if library != "sklearn" or is_a(estimator, *_TARGET_LEARNERS):
        return library != "skdp"
    is_predictor = any(hasattr(estimator, name) for name in _TARGET_ATTRIBUTES)
    return is_predictor or estimator.__sklearn_tags__().target_tags.required


def has_own_column_function(transformer: Any) -> bool:
    """Check if a function of the user, which may read values, selects columns."""
    for _, _, chosen in transformer.transformers:
        if callable(chosen) and not is_a(chosen, "make_column_selector"):
            return True
    return False


def find_domains(estimator: Any) -> dict[Any, PrivacyGuarantee]:
    """Return the guarantees of the domains of an estimator and its parts, by their releases."""
    # Releases with one seed have one name, whatever columns they read.
    releases = {}
    for part in all_parts(estimator):
        for value in getattr(part, "__dict__", {}).values():
            # A Domain, which this package does not import.
            if hasattr(value, "with_guarantee") and value.guarantee is not None:
                name = (value._release_id, value.guarantee.scope)
                releases[name] = value.guarantee
    return releases


def find_inferred(estimator: Any) -> list[Any]:
    """Return the columns with categories inferred from the data, and None if `fit` may infer some."""
    columns = []
    for part in all_parts(estimator):
        domain: Any = getattr(part, "domain_", None)
        for name in getattr(domain, "columns", ()):
            if getattr(domain[name], "observed", False):
                columns.append(name)
        is_unread = not hasattr(estimator, "guarantee_")
        if is_unread and isinstance(getattr(part, "categories", None), str):
            columns.append(None)
    return columns


def planned_guarantee(estimator: Any) -> PrivacyGuarantee | None:
    """Return the largest loss that the parameters allow; None if it depends on the data."""
    if hasattr(estimator, "_planned_guarantee"):
        guarantee: PrivacyGuarantee | None = estimator._planned_guarantee()
        return guarantee
    parts = parts_of(estimator)
    return planned_guarantee(parts[0]) if len(parts) == 1 else None


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
    is_resampler = hasattr(estimator, "fit_resample")
    default: Protects = guarantee.trust != "central"
    if is_resampler and not hasattr(estimator, "transform"):
        default = "fit"
    protects = getattr(estimator, "protects_rows", default)
    if protects != "fit":
        return bool(protects)
    # After `fit` and `transform` in place of `fit_transform`, the next step would get
    # true rows.
    return "fit" if is_resampler or hasattr(estimator, "fit_transform") else False
