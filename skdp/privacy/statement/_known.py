"""What is known of an estimator (class, parts, what it learns), and of the columns of the table that it gets."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Self

import numpy as np
import pandas as pd

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger import PrivacyLedger

# The libraries whose classes are known.
LIBRARIES = ("sklearn", "imblearn", "skdp")

# Placeholder for a protected target whose name is taken.
TARGET = "(target)"

# Estimators of scikit-learn that learn the target without declaring it in tags.
_LEARN_TARGET = (
    "SelectKBest",
    "SelectPercentile",
    "CCA",
    "PLSCanonical",
    "PLSRegression",
    "PLSSVD",
)

# Attributes of those that do not declare that an inner estimator learns the target.
_HANDS_TARGET_ON = (
    "steps",
    "transformers",
    "transformer_list",
    "refit",
    "get_support",
)

# Attributes of those that score or split by the target, whatever their parts learn.
_CHOOSES_BY_TARGET = ("refit", "scoring", "cv")

# Transformers of scikit-learn whose `fit` only counts columns.
_STATELESS = (
    "sklearn.preprocessing.Binarizer",
    "sklearn.preprocessing.Normalizer",
    "sklearn.preprocessing.PolynomialFeatures",
)

# The selector of scikit-learn, which reads names and dtypes.
_SELECTOR = "sklearn.compose.make_column_selector"


def parts_of(estimator: Any) -> list[Any]:
    """Return the fitted estimators in an estimator, or else those in its parameters."""
    # Fitted meta-estimators keep the originals of their parts as parameters: these are
    # not what was fitted. Of a part that is there twice, the identity tells.
    fitted: dict[int, Any] = {}
    parameters: dict[int, Any] = {}
    for name, value in getattr(estimator, "__dict__", {}).items():
        is_fitted_name = name.endswith("_") or name.startswith("_")
        parts = fitted if is_fitted_name else parameters
        for part in _estimators_in(value):
            if part is not estimator:
                parts[id(part)] = part
    return list((fitted or parameters).values())


def _estimators_in(value: Any) -> Iterator[Any]:
    """Yield the estimators in nested lists, tuples, dicts and arrays."""
    if isinstance(value, type):
        return
    if is_estimator(value):
        yield value
    elif isinstance(value, Mapping):
        yield from _estimators_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _estimators_in(item)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        yield from _estimators_in(value.ravel().tolist())


def what_draws(protocol: Any) -> list[Any]:
    """Return a protocol and all that draws its reports: fields, their oracles, and the oracles in these."""
    reporters = [protocol]
    identities = {id(protocol)}
    # The list grows while it is read.
    for reporter in reporters:
        for value in getattr(reporter, "__dict__", {}).values():
            parts = value if isinstance(value, list | tuple) else [value]
            for part in parts:
                if hasattr(part, "report") and id(part) not in identities:
                    identities.add(id(part))
                    reporters.append(part)
    return reporters


def is_estimator(value: Any) -> bool:
    fits = getattr(value, "fit", None) or getattr(value, "fit_resample", None)
    return callable(fits) and not isinstance(value, type)


def library_of(estimator: Any) -> str | None:
    """Return the library of a class, None if its behaviour is not known."""
    # A subclass, or a class of the same name, may do anything with its rows.
    kind = type(estimator)
    library = kind.__module__.partition(".")[0]
    original = getattr(sys.modules.get(kind.__module__), kind.__name__, None)
    return library if library in LIBRARIES and original is kind else None


def is_a(estimator: Any, *classes: str) -> bool:
    """Whether an estimator is exactly of one of some known classes."""
    if library_of(estimator) is None:
        return False
    for path in classes:
        module, _, name = path.rpartition(".")
        if type(estimator) is getattr(sys.modules.get(module), name, None):
            return True
    return False


def is_pipeline(estimator: Any) -> bool:
    return is_a(estimator, "sklearn.pipeline.Pipeline", "imblearn.pipeline.Pipeline")


def all_parts(estimator: Any) -> Iterator[Any]:
    """Yield an estimator, its parts, and the parts of these."""
    yield estimator
    for part in parts_of(estimator):
        yield from all_parts(part)


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator, or one of its parts, has an attribute that `fit` sets."""
    # Some estimators that learn nothing say of themselves that they are always fitted.
    for part in all_parts(estimator):
        for name in getattr(part, "__dict__", ()):
            if name.endswith("_") and not name.startswith("__"):
                return True
    return False


def is_of_skdp(estimator: Any) -> bool:
    """Whether an estimator, and all that it wraps, are classes of skdp."""
    return all(library_of(part) == "skdp" for part in all_parts(estimator))


def has_spending_parts(estimator: Any) -> bool:
    """Whether an estimator is made of others that may spend something."""
    # Of a subclass of ours nothing is believed, but what it is fitted with spends.
    for part in parts_of(estimator):
        if hasattr(part, "guarantee_") or is_of_skdp(part) or has_spending_parts(part):
            return True
    return False


def passes(part: Any) -> bool:
    """Whether a step passes its columns on unchanged."""
    if is_a(part, "sklearn.preprocessing.FunctionTransformer"):
        return part.func is None
    return part is None or (isinstance(part, str) and part == "passthrough")


def learns_nothing(estimator: Any) -> bool:
    """Whether an estimator stores nothing of the rows, and transforms each by itself."""
    encoders = "OneHotEncoder", "OrdinalEncoder"
    if is_a(estimator, *[f"sklearn.preprocessing.{name}" for name in encoders]):
        if estimator.min_frequency is not None or estimator.max_categories is not None:
            return False
        is_read = isinstance(estimator.categories, str)
        return not is_read and _has_declared(estimator)
    if is_a(estimator, "sklearn.preprocessing.FunctionTransformer"):
        # `fit` calls the inverse too, to check it; an array in their arguments, as
        # `out`, keeps rows.
        if estimator.kw_args or estimator.inv_kw_args:
            return False
        functions = estimator.func, estimator.inverse_func or estimator.func
        return all(map(_is_of_numbers, functions))
    return is_a(estimator, *_STATELESS)


def _is_of_numbers(function: Any) -> bool:
    """Whether a function is one of NumPy, of each number by itself, as `np.log1p`."""
    name = getattr(function, "__name__", "")
    return isinstance(function, np.ufunc) and getattr(np, name, None) is function


def _has_declared(estimator: Any) -> bool:
    """Whether an encoder has the categories that it declares, none of before."""
    fitted = getattr(estimator, "categories_", None)
    if fitted is None:
        return True
    try:
        pairs = zip(estimator.categories, fitted, strict=True)
        return all(_are_same(*pair) for pair in pairs)
    # These cannot be categories of its columns.
    except (TypeError, ValueError):
        return False


def _are_same(declared: Any, fitted: Any) -> bool:
    # scikit-learn cuts declared bytes to the longest of the rows, which shows.
    if fitted.dtype.kind == "S":
        return False
    texts = map(str, np.array(list(declared), fitted.dtype))
    return list(texts) == list(map(str, fitted))


def selects_by_function(transformer: Any) -> bool:
    """Whether a function of the user, which may read values, selects columns."""
    selections = [chosen for _, _, chosen in transformer.transformers]
    return not all(is_a(chosen, _SELECTOR) for chosen in filter(callable, selections))


def learns_target(estimator: Any) -> bool:
    """Whether an estimator learns from the target."""
    library = library_of(estimator)
    if library in (None, "imblearn") or type(estimator).__name__ in _LEARN_TARGET:
        return True
    if library == "skdp" and _has_further_column(estimator):
        return True
    requires_target = hasattr(estimator, "predict")
    if hasattr(estimator, "__sklearn_tags__"):
        requires_target = estimator.__sklearn_tags__().target_tags.required
    if requires_target or _has_any(estimator, _CHOOSES_BY_TARGET):
        return True
    # Inner estimators of scikit-learn may learn other targets, as those of imputation.
    if library == "sklearn" and not _has_any(estimator, _HANDS_TARGET_ON):
        return False
    return any(map(learns_target, parts_of(estimator)))


def _has_further_column(estimator: Any) -> bool:
    """Whether a synthesizer was given a target, which is a column of its domain."""
    if not hasattr(estimator, "domain_") or not hasattr(estimator, "n_features_in_"):
        return False
    return len(estimator.domain_.columns) > estimator.n_features_in_


def _has_any(estimator: Any, names: Iterable[str]) -> bool:
    return any(hasattr(estimator, name) for name in names)


def was_fitted_before(estimator: Any) -> bool:
    """Whether an estimator, or a part of it, keeps what it learnt before this `fit`."""
    for part in all_parts(estimator):
        if type(part).__name__ == "FrozenEstimator":
            return True
        if getattr(part, "prefit", False) or _is_prefit(getattr(part, "cv", None)):
            return True
    return False


def _is_prefit(splits: Any) -> bool:
    return isinstance(splits, str) and splits == "prefit"


def takes_weights(estimator: Any) -> bool:
    """Whether an estimator, or a part to which it hands them, takes weights of rows."""
    return any(map(_has_weights, all_parts(estimator)))


def _has_weights(estimator: Any) -> bool:
    try:
        return "sample_weight" in signature(type(estimator).fit).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def domain_releases(estimator: Any) -> list[tuple[PrivacyGuarantee, str]]:
    """Return the guarantees of the domains that an estimator and its parts were given, and their releases."""
    releases = []
    for part in all_parts(estimator):
        for value in getattr(part, "__dict__", {}).values():
            # A Domain, which this package does not import.
            if hasattr(value, "with_guarantee") and value.guarantee is not None:
                releases.append((value.guarantee, value._release_id))
    return releases


def ledgers_of(estimator: Any) -> list[PrivacyLedger]:
    """Return the ledgers that an estimator and its parts charge."""
    ledgers = []
    for part in all_parts(estimator):
        ledger = getattr(part, "ledger", None)
        if isinstance(ledger, PrivacyLedger):
            ledgers.append(ledger)
    return ledgers


def columns_read(estimator: Any) -> list[Any]:
    """Return the columns whose categories were read from the data."""
    columns = []
    for part in all_parts(estimator):
        domain: Any = getattr(part, "domain_", None)
        names = getattr(domain, "columns", ())
        columns += [name for name in names if getattr(domain[name], "observed", False)]
    return columns


def may_read_categories(estimator: Any) -> bool:
    """Whether categories are taken from the data unless a dtype declares them."""
    for part in all_parts(estimator):
        categories = getattr(part, "categories", None)
        if isinstance(categories, str) and categories == "auto":
            return True
    return False


def planned_guarantee(estimator: Any) -> PrivacyGuarantee | None:
    """Return the most that parameters of an estimator of skdp allow it to spend."""
    # None where columns or rows decide it.
    if hasattr(estimator, "_planned_guarantee"):
        guarantee: PrivacyGuarantee | None = estimator._planned_guarantee()
        return guarantee
    parts = parts_of(estimator)
    return planned_guarantee(parts[0]) if len(parts) == 1 else None


def declared_names(estimator: Any) -> tuple[Any, ...] | None:
    """Return the columns that parameters of an estimator of skdp name."""
    # None if they name none: before `fit`, nothing else knows them.
    names: dict[Any, None] = {}
    for part in all_parts(estimator):
        for parameter in ("categories", "domain", "bounds"):
            declared: Any = getattr(part, parameter, None)
            # Those of a Domain are its columns.
            names |= dict.fromkeys(getattr(declared, "columns", ()))
            if isinstance(declared, Mapping):
                names |= dict.fromkeys(declared)
    return tuple(names) or None


# Placeholder for columns of unknown names.
EVERYTHING = "(all columns)"

Names = frozenset[Any]


@dataclass(frozen=True)
class Flow:
    """The table that one step passes to the next, by the columns of X in it."""

    # The columns of X that it is made of.
    origins: Names
    # Those of them that nothing has protected.
    raw: Names
    # In order, while each is a column of X as it is; None behind other steps.
    columns: tuple[Any, ...] | None = None
    # Whether a step before has learnt from true values.
    is_curated: bool = False
    # Whether the target was replaced by a protected one.
    has_new_target: bool = False

    @classmethod
    def start(cls, names: Sequence[Any] | None) -> Self:
        """Return the flow of columns as they are."""
        columns = (EVERYTHING,) if names is None else tuple(names)
        return cls(frozenset(columns), frozenset(columns), columns)

    @property
    def is_unknown(self) -> bool:
        """Whether it is X itself, of columns that are not known."""
        return self.columns == (EVERYTHING,)

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of its columns, empty if they are not known."""
        return () if self.is_unknown else self.columns or ()

    def behind(self, raw: Names, *, is_curated: bool = False) -> Flow:
        """Return the output of a step that uses all columns together."""
        is_curated = self.is_curated or is_curated
        return replace(self, raw=raw, columns=None, is_curated=is_curated)

    def only(self, columns: Sequence[Any]) -> Flow:
        """Return the flow of some columns as they are."""
        names = frozenset(columns)
        return replace(self, origins=names, raw=names, columns=tuple(columns))

    def covered_by(
        self, scope: tuple[Any, ...], fitted_names: tuple[Any, ...] | None
    ) -> tuple[Names, Names]:
        """Return the columns of X that a guarantee covers, and the raw ones that it does not."""
        # Without a scope, it is about all columns.
        if not scope:
            return self.origins, frozenset()
        covered, uncovered = self.split(fitted_names or self.names, scope)
        return covered, uncovered & self.raw

    def split(
        self, names: Sequence[Any], chosen: Collection[Any]
    ) -> tuple[Names, Names]:
        """Return the columns of X in those of chosen names, and in the others."""
        # Whatever their order is, all of them are chosen.
        if names and all(name in chosen for name in names):
            return self.origins, frozenset()
        if self.columns is None or len(names) != len(self.columns):
            # It is not known which of them are chosen.
            return self.origins, self.origins
        covered: list[Any] = []
        uncovered: list[Any] = []
        for name, column in zip(names, self.columns, strict=True):
            columns = covered if name in chosen else uncovered
            columns.append(column)
        return frozenset(covered), frozenset(uncovered)

    def selected(
        self, chosen: Any, names: Sequence[Any] | None
    ) -> tuple[Any, ...] | None:
        """Return the columns that a `ColumnTransformer` selects, None if not known."""
        # By the names that it was fitted on, if it has some.
        if isinstance(chosen, list | tuple) and not chosen:
            return ()
        if self.is_unknown:
            return _listed_names(chosen)
        # Of a function that reads values, the columns are not known.
        if self.columns is None or callable(chosen):
            return None
        if names is None or len(names) != len(self.columns):
            names = self.columns
        listed_names = _listed_names(chosen)
        try:
            if listed_names is not None:
                chosen = [list(names).index(name) for name in listed_names]
            elif isinstance(chosen, slice) and isinstance(chosen.stop, str):
                # A slice of names includes its end.
                chosen = pd.Index(names).slice_indexer(chosen.start, chosen.stop)
            positions = np.arange(len(self.columns))[chosen]
        except (IndexError, KeyError, TypeError, ValueError):
            return None
        return tuple(self.columns[position] for position in np.ravel(positions))


def _listed_names(chosen: Any) -> tuple[str, ...] | None:
    names = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(names, list | tuple):
        return None
    return tuple(names) if all(isinstance(name, str) for name in names) else None


def side_by_side(flows: Sequence[Flow]) -> Flow:
    """Concatenate the columns of several tables."""
    # One of them may repeat or leave out columns of X, so their order is not followed.
    table = Flow(frozenset(), frozenset(), has_new_target=bool(flows))
    for flow in flows:
        table = Flow(
            table.origins | flow.origins,
            table.raw | flow.raw,
            is_curated=table.is_curated or flow.is_curated,
            has_new_target=table.has_new_target and flow.has_new_target,
        )
    return table


def names_in(estimator: Any) -> tuple[Any, ...] | None:
    """Return the columns that an estimator was fitted on."""
    if hasattr(estimator, "feature_names_in_"):
        return tuple(estimator.feature_names_in_)
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features is None:
        return None
    # scikit-learn stores names only if they are strings; others are in the scope of a
    # guarantee for all columns, which may end with the target.
    guarantee = getattr(estimator, "guarantee_", None)
    scope = getattr(guarantee, "scope", ())
    if getattr(guarantee, "relation", None) == "replace_values":
        scope = ()
    names = tuple(scope[:n_features])
    has_strings = any(isinstance(name, str) for name in names)
    if names and not has_strings and n_features in (len(scope), len(scope) - 1):
        return names
    return tuple(f"x{index}" for index in range(n_features))


def read_names(X: Any) -> tuple[Any, ...] | None:
    """Return the column names of a table, of which no value is read."""
    if X is None:
        return None
    # Not those of X itself, as pandas has columns as attributes.
    kind = type(X)
    # Polars, where `columns` of a lazy frame warns.
    if hasattr(kind, "collect_schema"):
        return tuple(X.collect_schema().names())
    # pyarrow, where `columns` has the values.
    if hasattr(kind, "column_names"):
        return tuple(X.column_names)
    if hasattr(kind, "columns"):
        return tuple(X.columns)
    if len(getattr(X, "shape", ())) == 2:
        return tuple(f"x{index}" for index in range(X.shape[1]))
    raise TypeError(f"X must be a dataframe or a 2-D array, got {type(X).__name__}")


def target_names(
    estimator: Any, guarantee: PrivacyGuarantee, flow: Flow
) -> dict[Any, Any]:
    """Return the names in a scope that are no columns, and how the statement names these targets."""
    names = names_in(estimator) or flow.names
    # Without names, a scope is all columns, unless it has protected ones.
    if not names and guarantee.relation != "replace_values":
        return {}
    candidates = [name for name in guarantee.scope if name not in names]
    if not hasattr(estimator, "guarantee_") and guarantee.scope:
        # A plan has the names of parameters. That of the target is no column, whatever
        # X has; and of a list, behind other steps, it is not known which are columns.
        protect = getattr(estimator, "protect", None)
        if isinstance(protect, str):
            candidates = list(guarantee.scope)
        elif flow.columns is None:
            return {}
    targets: dict[Any, Any] = {}
    for name in candidates:
        # Not as a column of X.
        is_taken = name in flow.origins
        free = TARGET if "target" in flow.origins else "target"
        targets[name] = free if is_taken else name
    return targets
