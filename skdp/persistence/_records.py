"""Objects of skdp as records that contain only containers, arrays and plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from datetime import date
from fractions import Fraction
from importlib import import_module
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skdp._json import value_from_json, value_to_json
from skdp.base import SavedByArguments
from skdp.domain import Categories, Domain, Interval
from skdp.local import ReportTransformer, SecretKey
from skdp.privacy import Mu, PrivacyGuarantee, PrivacyLedger, Rho
from skdp.tables import Table, empty_column, find_dtype, library_of

_NO_LEDGER = (
    "this estimator was loaded without its ledger; use skdp.load(path, ledger=...)"
)

# Attributes that `clone` does not copy either, or that are stored separately.
_NOT_FITTED = ("_calls", "_sklearn_output_config", "_metadata_request")


class Record:
    """An object of skdp in a file: the public name of its type, and its state."""

    def __init__(self, type_name: str, state: Any) -> None:
        self.type_name = type_name
        self.state = state


# The type in a file stays the same when this module moves.
Record.__module__ = "skdp.persistence"


class Records:
    """Converter between objects and records; all estimators of a file share a ledger."""

    def __init__(self, ledger: PrivacyLedger | None = None) -> None:
        self.ledger = ledger
        self.has_ledger = False

    def pack(self, value: Any) -> Any:
        """Replace the objects of skdp in an estimator or a container by records."""
        if isinstance(value, BaseEstimator):
            return self._pack_estimator(value)
        if isinstance(value, PrivacyLedger):
            if self.ledger not in (None, value):
                raise ValueError("estimators must have one ledger, got several")
            self.ledger = value
            return Record("PrivacyLedger", value._book.budget.numbers())
        for name, (type_, write, _) in _TYPES.items():
            if isinstance(value, type_):
                return Record(name, self.pack(write(value)))
        # skops writes the keys of a dict as text.
        if type(value) is dict and any(type(key) is not str for key in value):
            return Record("dict", self.pack(list(map(list, value.items()))))
        return _map(self.pack, value)

    def unpack(self, value: Any) -> Any:
        """Make the objects of records."""
        if isinstance(value, BaseEstimator):
            # An estimator of another library, which skops has created.
            vars(value).update(self.unpack(vars(value)))
            return value
        if not isinstance(value, Record):
            return _map(self.unpack, value)
        state = self.unpack(value.state)
        if value.type_name == "PrivacyLedger":
            self.has_ledger = True
            if self.ledger is None:
                self.ledger = PrivacyLedger._closed(_NO_LEDGER, **state)
            return self.ledger
        if value.type_name in _TYPES:
            return _TYPES[value.type_name][2](state)
        return _read_estimator(value.type_name, state)

    def _pack_estimator(self, estimator: Any) -> Any:
        name = type(estimator).__name__
        if _find_public_class(name) is not type(estimator):
            # Attributes of other estimators may contain estimators of skdp.
            packed = copy(estimator)
            vars(packed).update(self.pack(vars(estimator)))
            return packed
        try:
            return Record(name, self.pack(_describe_estimator(estimator)))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _map(convert: Callable[[Any], Any], value: Any) -> Any:
    """Convert the items of a container."""
    if type(value) in (list, tuple):
        return type(value)(map(convert, value))
    if type(value) is dict:
        return {key: convert(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        items = np.fromiter(map(convert, value.ravel()), object, value.size)
        return items.reshape(value.shape)
    return value


# Estimators.


def _describe_estimator(estimator: Any) -> dict[str, Any]:
    """Return the state of an estimator of skdp."""
    # An estimator may define `_describe_fit`, which returns its fitted state as a dict,
    # empty before `fit`, and `_restore_fit`, which checks and sets it.
    parameters = estimator.get_params(deep=False)
    if parameters.get("secret_key") is not None:
        raise ValueError(
            "`secret_key` must be None to be saved, because the key undoes the noise "
            "of permanent reports. Save the protocol with `to_json`"
        )
    fitted = {}
    if isinstance(estimator, ReportTransformer):
        # The guarantee and the probabilities follow from the protocol.
        if hasattr(estimator, "protocol_"):
            fitted = _describe_protocol(estimator, parameters)
    elif hasattr(estimator, "_describe_fit"):
        fitted = estimator._describe_fit()
    else:
        names = vars(estimator).keys() - parameters.keys() - {*_NOT_FITTED}
        fitted = {
            name: value for name, value in vars(estimator).items() if name in names
        }
    _check_guarantee(estimator)
    return {
        "parameters": parameters,
        "fitted": fitted,
        "output": vars(estimator).get("_sklearn_output_config", {}),
    }


def _read_estimator(name: str, state: Mapping[str, Any]) -> Any:
    estimator_class: Any = _find_public_class(name)
    if estimator_class is None:
        raise ValueError(f"the file contains an unknown type {name[:50]!r}")
    fitted = state["fitted"]
    estimator = estimator_class(**state["parameters"])
    if isinstance(estimator, ReportTransformer):
        if fitted:
            estimator = _read_transformer(estimator, fitted)
    elif fitted and hasattr(estimator, "_restore_fit"):
        estimator._restore_fit(fitted)
    else:
        # Statistics of the central model are restored as the author of the file wrote them.
        for attribute, value in fitted.items():
            if hasattr(estimator_class, attribute):
                raise ValueError(f"the file replaces {name}.{attribute[:50]}")
            setattr(estimator, attribute, value)
    _check_guarantee(estimator)
    if state["output"]:
        estimator.set_output(transform=state["output"].get("transform"))
    return estimator


def _find_public_class(name: str) -> Any:
    """Return an estimator class of skdp; None for any other name."""
    # The name selects among the public names: nothing is imported by it.
    skdp: Any = import_module("skdp")
    value = getattr(skdp, name) if name in skdp.__all__ else None
    is_estimator = isinstance(value, type) and issubclass(value, BaseEstimator)
    return value if is_estimator else None


def _check_guarantee(estimator: Any) -> None:
    """Refuse a guarantee that does not follow from the parameters."""
    guarantee = vars(estimator).get("guarantee_")
    if guarantee is None or isinstance(estimator, ReportTransformer):
        return
    follows = getattr(estimator, "_follows_from_parameters", lambda guarantee: True)
    if not isinstance(guarantee, PrivacyGuarantee) or not follows(guarantee):
        raise ValueError(
            "guarantee_ does not follow from the parameters: they, or the file, were "
            "changed after fit. Fit the estimator again"
        )


def _describe_protocol(
    transformer: ReportTransformer, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON of a transformer, to which it is fitted again."""
    _check_parameters(transformer, parameters)
    domain = transformer.protocol_.domain
    columns = () if domain is None else domain.columns
    observed = [name for name in columns if domain and domain[name].observed]
    return {"protocol": transformer.to_json(), "observed": observed}


def _read_transformer(
    unfitted: ReportTransformer, fitted: Mapping[str, Any]
) -> ReportTransformer:
    parameters = unfitted.get_params(deep=False)
    # `from_json` computes the guarantee from the parameters.
    transformer = type(unfitted).from_json(fitted["protocol"])
    _check_parameters(transformer, parameters)
    # The JSON has no ledger and no seed, and declared values in place of 'auto'.
    for name, value in parameters.items():
        setattr(transformer, name, value)
    transformer._ledger = transformer.ledger
    transformer._seed = transformer.random_state
    domain: Any = transformer.protocol_.domain
    for column in fitted["observed"]:
        domain[column].observed = True
    return transformer


def _check_parameters(
    transformer: ReportTransformer, parameters: Mapping[str, Any]
) -> None:
    """Check that parameters are equal to the parameters of `fit`, except for replaced ones."""
    written = json.loads(transformer.to_json())["parameters"]
    # Text is compared, because 1 and True are equal in Python.
    for name in written.keys() - transformer.protocol_.declared.keys():
        if json.dumps(value_to_json(parameters[name])) != json.dumps(written[name]):
            raise ValueError(f"`{name}` was changed after fit. Fit the estimator again")


# Values.


def _write_domain(domain: Domain) -> dict[str, Any]:
    columns = []
    for name in domain.columns:
        values = domain[name]
        columns.append([name, _write_attribute(values), values.observed])
    return {
        "columns": columns,
        "constraints": list(domain.constraints),
        "derived": list(map(list, domain.derived.items())),
        "guarantee": domain.guarantee,
        "release_id": domain._release_id,
    }


def _write_attribute(values: Categories | Interval) -> list[Any]:
    if isinstance(values, Interval):
        return [value_to_json(values), False]
    return [value_to_json(list(values.values)), values.ordered]


def _read_attribute(state: list[Any]) -> Categories | Interval:
    values, ordered = state
    values = value_from_json(values)
    return (
        values if isinstance(values, Interval) else Categories(values, ordered=ordered)
    )


def _read_domain(state: dict[str, Any]) -> Domain:
    columns = {}
    for name, attribute, observed in state["columns"]:
        columns[name] = _read_attribute(attribute)
        if observed:
            columns[name].observed = True
    domain = Domain(
        columns, constraints=state["constraints"], derived=dict(state["derived"])
    )
    return domain.with_guarantee(state["guarantee"], release_id=state["release_id"])


def _write_guarantee(guarantee: PrivacyGuarantee) -> list[Any]:
    return [guarantee.to_json(), list(guarantee.scope)]


def _read_guarantee(state: list[Any]) -> PrivacyGuarantee:
    # In the JSON, column names of other types are text, so the names are restored here.
    guarantee = PrivacyGuarantee.from_json(state[0])
    return replace(guarantee, scope=tuple(state[1]))


def _write_template(template: Table) -> dict[str, Any]:
    """Return the libraries of a table without rows: its dtypes follow from the domain."""
    native = template.native
    is_array = isinstance(native, np.ndarray)
    library = (
        "numpy" if is_array else nw.from_native(native).implementation.name.lower()
    )
    return {
        "library": library,
        "names": list(template.names),
        "columns": list(map(library_of, template.columns)),
        "n_columns": len(native.columns) if library == "pandas" else native.shape[1],
        "labels": list(native.columns.names) if library == "pandas" else [None],
    }


def _read_template(state: dict[str, Any]) -> Table:
    columns = []
    for library in state["columns"]:
        columns.append(empty_column(library, find_dtype(library, "missing", ())))
    native: Any
    if state["library"] == "numpy":
        native = np.empty((0, state["n_columns"]), object)
    elif state["library"] == "pandas":
        names, labels = state["names"][: state["n_columns"]], state["labels"]
        is_nested = len(labels) > 1
        make = pd.MultiIndex.from_tuples if is_nested else pd.Index
        native = pd.DataFrame(columns=make(names), index=pd.RangeIndex(0))
        native.columns.names = labels
    else:
        native = nw.from_dict({}, backend=state["library"]).to_native()
    return Table(tuple(state["names"]), tuple(columns), native)


# A table of pandas without its index, such as the result of an estimator.


def _write_frame(frame: pd.DataFrame) -> list[Any]:
    return [[name, frame[name].to_numpy()] for name in frame.columns]


def _read_frame(state: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(dict(state)).infer_objects()


def _refuse_key(key: SecretKey) -> None:
    raise ValueError("a SecretKey cannot be saved")


# Each type, how it is written, and how it is read.
_TYPES: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "SecretKey": (SecretKey, _refuse_key, _refuse_key),
    "Domain": (Domain, _write_domain, _read_domain),
    "Categories": (Categories | Interval, _write_attribute, _read_attribute),
    "PrivacyGuarantee": (PrivacyGuarantee, _write_guarantee, _read_guarantee),
    "Rho": (Rho, lambda budget: dict(vars(budget)), lambda state: Rho(**state)),
    "Mu": (Mu, lambda budget: dict(vars(budget)), lambda state: Mu(**state)),
    "ReportDesign": (
        SavedByArguments,
        lambda design: design.arguments(),
        lambda state: import_module("skdp.survey").ReportDesign(**state),
    ),
    "Table": (Table, _write_template, _read_template),
    "DataFrame": (pd.DataFrame, _write_frame, _read_frame),
    # Names of columns.
    "Index": (pd.Index, list, lambda state: np.array(state, object)),
    # Pairs of keys and items, which `pack` lists.
    "dict": ((), list, dict),
    "range": (
        range,
        lambda values: [values.start, values.stop, values.step],
        lambda state: range(*state),
    ),
    # Types that skops does not trust.
    "value": (
        (date, Fraction),
        value_to_json,
        value_from_json,
    ),
}
