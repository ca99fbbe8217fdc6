"""Properties of an estimator for statements: its parts, and the data that it learns from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from skdp.privacy._libraries import find_library, is_a
from skdp.privacy.guarantees._guarantee import PrivacyGuarantee

# Transformers of scikit-learn whose `fit` stores only the number of columns.
_STATELESS = ("Binarizer", "Normalizer", "PolynomialFeatures")

# Estimators of scikit-learn that learn the target without a tag or `predict`.
_TARGET_LEARNERS = ("SelectKBest", "SelectPercentile", "PLSSVD")

# Attributes of estimators that learn from the target: predictors, and meta-estimators that
# use the target for scores or splits.
_TARGET_ATTRIBUTES = ("predict", "refit", "scoring", "cv")

# Protection of the rows that an estimator returns: True, False, or "fit" if only the rows
# of `fit_transform` or `fit_resample` are protected.
Protects = Literal[True, False, "fit"]


def is_estimator(value: object) -> bool:
    """Check if an object is an estimator or a resampler, and not a class."""
    if isinstance(value, type):
        return False
    # Lazy objects have any attribute, so the class has `fit`, or parameters.
    methods = ("fit", "fit_resample")
    owner = value if hasattr(type(value), "get_params") else type(value)
    return any(callable(getattr(owner, name, None)) for name in methods)


def is_design(value: object) -> bool:
    """Check if an object is a design of answers that people randomize themselves."""
    return find_library(value) == "skdp" and type(value).__name__ == "ReportDesign"


def list_parts(estimator: object) -> list[Any]:
    """Return the fitted estimators in the attributes of an estimator, otherwise the estimators in its parameters."""
    # A fitted meta-estimator fits clones, so the estimators in its parameters are not used.
    # Parts are collected by identity, because some occur in several attributes.
    fitted: dict[int, Any] = {}
    parameters: dict[int, Any] = {}
    for name, value in getattr(estimator, "__dict__", {}).items():
        parts = fitted if "_" in (name[0], name[-1]) else parameters
        parts |= {id(part): part for part in _find_estimators(value)}
    parts = fitted or parameters
    parts.pop(id(estimator), None)
    return list(parts.values())


def _find_estimators(value: object) -> Iterator[Any]:
    """Yield the estimators in nested lists, tuples and dicts."""
    if is_estimator(value):
        yield value
    elif isinstance(value, list | tuple | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _find_estimators(item)


def iterate_parts(estimator: object) -> Iterator[Any]:
    """Yield an estimator and, recursively, all its parts."""
    yield estimator
    for part in list_parts(estimator):
        yield from iterate_parts(part)


def is_fitted(estimator: object) -> bool:
    """Check if an estimator, or one of its parts, has an attribute that `fit` sets."""
    # scikit-learn's `check_is_fitted` is always True for stateless estimators.
    return any(
        name == "_is_fitted" or (name.endswith("_") and not name.startswith("__"))
        for part in iterate_parts(estimator)
        for name, value in getattr(part, "__dict__", {}).items()
        if value is not False
    )


def libraries_of(estimator: object) -> set[str | None]:
    """Return the libraries that define an estimator and all its parts; None for unknown libraries."""
    return set(map(find_library, iterate_parts(estimator)))


def is_trusted(estimator: object, trusted: tuple[type, ...]) -> bool:
    """Check if an estimator has a guarantee, which a class of skdp or of `trusted` states."""
    if not isinstance(getattr(estimator, "guarantee_", None), PrivacyGuarantee):
        return False
    if type(estimator) in trusted:
        return True
    # Oracles may be classes of other authors, and wrappers release the output of their parts.
    sources = [estimator, *getattr(estimator, "oracles_", ())]
    is_known = all(find_library(source) == "skdp" for source in sources)
    return is_known and all(is_trusted(part, trusted) for part in list_parts(estimator))


def has_earlier_fit(estimator: object) -> bool:
    """Check if a part of an estimator was fitted elsewhere before, possibly on true values."""
    return any(
        is_a(part, "FrozenEstimator")
        or getattr(part, "prefit", False)
        or str(getattr(part, "cv", None)) == "prefit"
        for part in iterate_parts(estimator)
    )


def is_permanent(estimator: object) -> bool:
    """Check if an estimator, or one of its parts, makes permanent reports with a secret key."""
    return any(
        getattr(part, "memoize", False) or getattr(part, "secret_key", None)
        for part in iterate_parts(estimator)
    )


def passes_columns(part: Any) -> bool:
    """Check if a step returns its columns unchanged."""
    if is_a(part, "FunctionTransformer"):
        return part.func is None
    return part is None or (isinstance(part, str) and part == "passthrough")


def learns_nothing(estimator: Any) -> bool:
    """Check if `fit` of an estimator of scikit-learn learns nothing from the values."""
    if is_a(estimator, "OneHotEncoder", "OrdinalEncoder"):
        is_counted = estimator.min_frequency, estimator.max_categories
        return is_counted == (None, None) and not isinstance(estimator.categories, str)
    return is_a(estimator, *_STATELESS)


def learns_target(estimator: object) -> bool:
    """Check if an estimator learns from the target."""
    # Estimators of other libraries may learn from the target. Estimators of skdp learn from
    # the true target with a guarantee only, or through their parts.
    for part in iterate_parts(estimator):
        library = find_library(part)
        if library != "sklearn":
            learns = library != "skdp"
        else:
            learns = (
                is_a(part, *_TARGET_LEARNERS)
                or any(hasattr(part, name) for name in _TARGET_ATTRIBUTES)
                or part.__sklearn_tags__().target_tags.required
            )
        if learns:
            return True
    return False


def has_own_column_function(transformer: Any) -> bool:
    """Check if a column transformer selects columns by a function of the user, which may read values."""
    return any(
        callable(columns) and not is_a(columns, "make_column_selector")
        for _, _, columns in transformer.transformers
    )


def has_private_parts(estimator: object) -> bool:
    """Check if an estimator has parts of skdp, or parts that are not known."""
    return any(
        find_library(part) == "skdp" or has_private_parts(part)
        for part in list_parts(estimator)
    )


def list_domains(estimator: object) -> tuple[Any, ...]:
    """Return the releases of the discovered domains in an estimator and its parts.

    A discovered domain was computed from private data, so its guarantee is a part of
    the total.
    """
    parts = iterate_parts(estimator)
    return list_releases([getattr(part, "__dict__", {}) for part in parts])


def list_releases(declared: Any) -> tuple[Any, ...]:
    """Return the releases that found declared values: a Domain, a column, or nested lists and dicts of them."""
    # `skdp.domain` imports this package. The attribute is looked up in the class, because a
    # table may have a column named "releases".
    releases: list[Any] = []
    if hasattr(type(declared), "releases"):
        releases += declared.releases
    elif isinstance(declared, list | tuple | Mapping):
        for item in declared.values() if isinstance(declared, Mapping) else declared:
            releases += list_releases(item)
    return tuple(dict.fromkeys(releases))


def find_inferred(estimator: object) -> list[Any]:
    """Return the columns whose categories `fit` inferred from the data.

    The list contains None if an unfitted part may infer categories of unknown columns.
    """
    columns = [*getattr(getattr(estimator, "guarantee_", None), "observed", ())]
    for part in iterate_parts(estimator):
        domain: Any = getattr(part, "domain_", None)
        for name in getattr(domain, "columns", ()):
            if getattr(domain[name], "observed", False):
                columns.append(name)
        is_unfitted = not hasattr(estimator, "guarantee_")
        if is_unfitted and isinstance(getattr(part, "categories", None), str):
            columns.append(None)
    return columns


def planned_guarantee(estimator: object) -> PrivacyGuarantee | None:
    """Return the guarantee that an unfitted estimator will have at most; None if it depends on the data."""
    if hasattr(estimator, "_planned_guarantee"):
        return estimator._planned_guarantee()
    parts = list_parts(estimator)
    return planned_guarantee(parts[0]) if len(parts) == 1 else None


def find_feature_names(estimator: Any) -> tuple[Any, ...] | None:
    """Return the names of the columns that an estimator was fitted on; None if it is not fitted.

    For a randomized-response design, this is the column of its answers.
    """
    if hasattr(estimator, "feature_names_in_"):
        return tuple(estimator.feature_names_in_)
    if is_design(estimator):
        return (estimator.column,)
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features is None:
        return None
    # scikit-learn stores names only if they are strings. The scope of a guarantee for all
    # columns has names of any type, and may end with the name of the target. Under
    # "replace_values", the scope has only the protected columns, so it is not used.
    guarantee = getattr(estimator, "guarantee_", None)
    scope = getattr(guarantee, "scope", ())
    protects_values = getattr(guarantee, "relation", "") == "replace_values"
    if len(scope) in (n_features, n_features + 1) and not protects_values:
        return tuple(scope[:n_features])
    return tuple(f"x{index}" for index in range(n_features))


def column_names_of(X: Any) -> tuple[Any, ...] | None:
    """Return the column names of a table, without reading a value; None if X is None."""
    if X is None:
        return None
    # Attributes of the class are checked, because a column of a pandas table may have the
    # name of an attribute.
    table_class = type(X)
    if hasattr(table_class, "collect_schema"):  # Polars
        return tuple(X.collect_schema().names())
    for name in ("column_names", "columns"):  # `columns` of pyarrow has the values
        if hasattr(table_class, name):
            return tuple(getattr(X, name))
    if len(getattr(X, "shape", ())) == 2:
        return tuple(f"x{index}" for index in range(X.shape[1]))
    raise TypeError(f"X must be a DataFrame or a 2D array, got {type(X).__name__}.")


def find_protection(estimator: object, guarantee: PrivacyGuarantee) -> Protects:
    """Return the protection of the rows that an estimator with a guarantee returns.

    True if all returned rows are private, "fit" if only the output of `fit_transform`
    or `fit_resample` is, and False if only its fitted statistics are.
    """
    is_resampler = hasattr(estimator, "fit_resample")
    default: Protects = guarantee.trust != "central"
    if is_resampler and not hasattr(estimator, "transform"):
        default = "fit"
    protects = getattr(estimator, "protects_rows", default)
    if protects != "fit":
        return bool(protects)
    # Without `fit_transform`, a pipeline calls `transform`, which returns true rows.
    return "fit" if is_resampler or hasattr(estimator, "fit_transform") else False
