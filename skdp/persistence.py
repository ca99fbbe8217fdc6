"""`save` and `load`: files in the skops format of scikit-learn, and the records of objects in them."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import lru_cache, partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import FunctionType
from typing import Any, BinaryIO
from zipfile import ZipFile, is_zipfile

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest

from skdp._json import check_version, value_from_json, value_to_json
from skdp.base import (
    PathType,
    SavedByArguments,
    check_ledger,
)
from skdp.domain import Categories, Domain, Interval, Release
from skdp.local import ReportTransformer, SecretKey
from skdp.privacy import Mu, PrivacyGuarantee, PrivacyLedger, Rho
from skdp.tables import (
    Table,
    empty_column,
    find_dtype,
    has_categories,
    has_order_of,
    library_of,
)

__all__ = ["load", "save"]

# Version of the format, and the member of a file with its number.
_VERSION = 2
_VERSION_MEMBER = "skdp-version.txt"

# Further types in files that are trusted: types of parameters, and parts of splines and
# sparse matrices.
_RECORD = "skdp.persistence.Record"
_TRUSTED = {
    _RECORD,
    "builtins.object",
    "functools.partial",
    "imblearn.pipeline.Pipeline",
    "numpy.dtype",
    "numpy.floating",
    "numpy.integer",
    "numpy.number",
    "scipy.interpolate._bsplines.BSpline",
    "scipy.interpolate._bsplines._BSpline",  # within it, since SciPy 1.18
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_matrix",
}
_FUNCTIONS = {"numpy.mean", "scipy._lib.array_api_compat.numpy._aliases.asarray"}

# Packages of scores, whose public functions are trusted.
_SCORES = ("sklearn.feature_selection.", "sklearn.metrics.", "sklearn.preprocessing.")

# Flag of classes that Python code defines (`Py_TPFLAGS_HEAPTYPE`).
_HEAP_TYPE = 1 << 9


def save(estimator: BaseEstimator, path: PathType | BinaryIO) -> None:
    """Save an estimator, or a composition of estimators, to a file without code.

    Parameters
    ----------
    estimator : estimator
        An estimator of skdp or scikit-learn, such as a pipeline, a search, an ensemble or
        a calibrated classifier with estimators of skdp.
    path : str, path or binary file
        File to write, by convention with the extension ``.skops``.

    Raises
    ------
    TypeError
        If `estimator` is not an estimator, or has an attribute that cannot be saved.
    ValueError
        If an estimator has a secret key or was changed after `fit`, or if the
        estimators have several ledgers.

    See Also
    --------
    load : Loads the file.

    Notes
    -----
    **Privacy.** The file contains the parameters, the declared values and the noisy
    statistics of all estimators in `estimator`. It contains the budgets of their ledgers,
    without charges, paths and addresses. No `random_state` is saved, because the noise can
    be undone with seeds, also of ensembles and searches: the loaded estimator draws secure
    noise, and the guarantee of a seeded `fit` still states that it was not secure.
    Other estimators may contain rows of the training data, such as nearest neighbors.

    The file has the format of skops [1]_, a ZIP file of JSON and arrays. Estimators of
    skdp are stored by their public names.

    References
    ----------
    .. [1] https://skops.readthedocs.io

    Examples
    --------
    >>> import io
    >>> import pandas as pd
    >>> import skdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> people = pd.DataFrame({"smokes": ["yes", "no", "no"]})
    >>> encoder = skdp.RandomizedResponseEncoder(1.0, categories={"smokes": ["no", "yes"]})
    >>> pipeline = make_pipeline(encoder, OneHotEncoder(handle_unknown="ignore")).fit(people)
    >>> file = io.BytesIO()
    >>> skdp.save(pipeline, file)
    >>> print(skdp.load(file)[0].guarantee_)
    epsilon = 1, local model, replacing one record's values of: smokes
    """
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(
            f"`estimator` must be an estimator, got {type(estimator).__name__}."
        )
    name = type(estimator).__name__
    try:
        data, types = _write_file(Packer().pack(estimator))
    except ValueError:
        raise
    except Exception as error:  # an object that pickle or skops does not support
        raise TypeError(f"{name} cannot be saved: {type(error).__name__}.") from None
    internal = [found for found in types if found.startswith("skdp.")]
    if internal not in ([], [_RECORD]):
        raise TypeError(
            f"{name} cannot be saved, because it has internal objects of skdp."
        )
    if hasattr(path, "write"):
        path.write(data)
    else:
        Path(path).write_bytes(data)


def load(
    path: PathType | BinaryIO,
    *,
    ledger: PrivacyLedger | None = None,
    trusted: Sequence[str] = (),
) -> Any:
    """Load an estimator saved with `save`.

    Parameters
    ----------
    path : str, path or binary file
        File to read.
    ledger : PrivacyLedger, default=None
        Ledger of all estimators that had a ledger when they were saved. If None, they
        raise an error instead of a release.
    trusted : sequence of str, default=()
        Further types to load, such as ``"my_package.MyScaler"``. Loading a type may run
        its code. Estimators of skdp and classes of public modules of scikit-learn are
        trusted, except classes that are written in C, such as
        ``"sklearn.tree._tree.Tree"``, because a changed tree can end Python.

    Returns
    -------
    estimator
        An estimator of the same class, with the same parameters and fitted attributes,
        without a seed (`random_state`).

    Raises
    ------
    ValueError
        If the file was not written by `save`, has the format of another version, is
        damaged, contains types that are not trusted, or contains a guarantee that does not
        follow from the parameters; or if `ledger` is given and no saved estimator had a
        ledger.
    TypeError
        If `ledger` is not a PrivacyLedger.

    See Also
    --------
    save : Saves the file.
    skdp.read_protocol : Finds the transformer in the metadata of reports.

    Notes
    -----
    **Privacy.** The file is not signed. The guarantee of a local transformer is computed
    from its parameters. For other estimators, the epsilon and delta of the guarantee, and
    the rho with a `Rho` or `Mu`, are compared with the parameters. All other fields of
    the guarantee, and all statistics, are as in the file.

    Examples
    --------
    >>> import io
    >>> import skdp
    >>> scaler = skdp.DPStandardScaler(1.0, bounds=(0, 100), random_state=0).fit([[20.0], [60.0]] * 500)
    >>> file = io.BytesIO()
    >>> skdp.save(scaler, file)
    >>> (skdp.load(file).mean_ == scaler.mean_).all()
    np.True_
    """
    import skops.io

    check_ledger(ledger)
    file: Any = path
    if hasattr(path, "read"):
        file.seek(0)  # `save` leaves the position at the end
        data = file.read()
    else:
        data = Path(file).read_bytes()
    if not is_zipfile(BytesIO(data)):
        raise ValueError(
            "`path` must be a file of skdp.save, got another format. Use "
            "skdp.read_protocol for the protocol (JSON) of a local transformer."
        )
    # All types are checked before any object is created.
    reader = _Reader(ledger)
    token = _READER.set(reader)
    message, unknown = "", set()
    try:
        known = _list_trusted(tuple(sys.modules))
        json.loads(_read_schema(data), object_hook=partial(_check_node, known))
        types = skops.io.get_untrusted_types(data=data)
        unknown = set(types) - known.keys() - set(trusted)
        if not unknown:
            estimator = skops.io.loads(data, trusted=types)
    except ValueError as error:
        message = str(error)
    except Exception as error:  # a damaged file can cause any exception
        message = (
            f"The file cannot be read ({type(error).__name__}): it is damaged, or was "
            "written by a later version of skdp."
        )
    finally:
        _READER.reset(token)
    # Raised outside of the handlers, because the context of an error is shown too.
    if message:
        raise ValueError(message)
    if unknown:
        remedy = (
            "In a changed file, types of other packages, private types and types in C, "
            "such as trees, may run code or end Python: trust the author of the file."
        )
        if any(name.startswith("skdp.") for name in unknown):
            remedy = "If it was written by a later version of skdp, upgrade skdp."
        raise ValueError(
            f"`trusted` must contain the types {sorted(unknown)}. {remedy}"
        )
    if ledger is not None and not reader.has_ledger:
        raise ValueError(
            "`ledger` must be None, because no saved estimator had a ledger."
        )
    return estimator


_NO_LEDGER = (
    "this estimator was loaded without its ledger; use skdp.load(path, ledger=...)"
)

# Attributes that are not saved as fitted state: the counter of calls, and settings of
# outputs and of metadata routing, which are saved separately.
_REQUESTS = "_metadata_request"
_NOT_FITTED = ("_calls", "_sklearn_output_config", _REQUESTS)


def _write_file(packed: Any) -> tuple[bytes, list[str]]:
    """Return a file of a packed object, which can be read again, and the types that skops does not trust."""
    import skops.io

    data = skops.io.dumps(packed)
    types = skops.io.get_untrusted_types(data=data)
    skops.io.loads(data, trusted=types)
    file = BytesIO(data)
    with ZipFile(file, "a") as members:
        members.writestr(_VERSION_MEMBER, str(_VERSION))
    return file.getvalue(), types


def _read_schema(data: bytes) -> bytes:
    """Return the description of the objects in a file; check its version and the size of its members."""
    # A small file cannot take much memory, because `save` does not compress.
    members = ZipFile(BytesIO(data))
    size = sum(member.file_size for member in members.infolist())
    if size > len(data):
        raise ValueError(
            f"`path` must be a file of skdp.save, got a compressed file of {size:,} "
            f"bytes in {len(data):,}."
        )
    # Files of the first version have no number.
    is_numbered = _VERSION_MEMBER in members.namelist()
    number = members.read(_VERSION_MEMBER)[:9] if is_numbered else b"1"
    check_version(int(number) if number.isdigit() else 1, _VERSION, "The file")
    return members.read("schema.json")


@lru_cache(maxsize=1)
def _list_trusted(loaded: tuple[str, ...]) -> dict[str, bool]:
    """Return the names in files that `load` trusts in addition to the names of skops; True for a function.

    `loaded` are the names of all modules that Python has loaded.
    Classes are trusted in each module that defines a public name, because fitted
    estimators have parts of other classes, such as the scorer of a search.
    """
    trusted = dict.fromkeys(_TRUSTED, False) | dict.fromkeys(_FUNCTIONS, True)
    modules = set()
    for name in loaded:
        if not name.startswith("sklearn.") or re.search(r"\._|\.externals", name):
            continue
        module = sys.modules[name]
        modules.add(name)
        for attribute in getattr(module, "__all__", ()):
            found = vars(module).get(attribute)
            source = getattr(found, "__module__", None) or ""
            if source.startswith("sklearn."):
                modules.add(source)
            if isinstance(found, FunctionType) and f"{name}.".startswith(_SCORES):
                trusted[f"{source}.{found.__name__}"] = True
    for name in modules & sys.modules.keys():
        for attribute, found in list(vars(sys.modules[name]).items()):
            is_class = isinstance(found, type) and found.__module__ == name
            if is_class and _is_written_in_python(found):
                trusted[f"{name}.{attribute}"] = False
    return trusted


def _is_written_in_python(found: type) -> bool:
    """Check if a class and its parents are written in Python, beside parents such as dict."""
    # Other classes do not check their state, so a changed file could end Python.
    return all(
        parent.__module__ == "builtins" or parent.__flags__ & _HEAP_TYPE
        for parent in found.__mro__
    )


def _check_node(trusted: Mapping[str, bool], node: dict[str, Any]) -> dict[str, Any]:
    """Raise an error if an object of a file is the result of a call with arguments of the file."""
    name = f"{node.get('__module__')}.{node.get('__class__')}"
    loader = node.get("__loader__")
    if name == _RECORD:  # also if a method of its object would be loaded
        is_call = loader != "ConstructorFromReduceNode"
    elif trusted.get(name):
        is_call = loader != "FunctionNode"
    else:
        is_listed = name in trusted and name not in _TRUSTED
        is_call = is_listed and loader == "ConstructorFromReduceNode"
    if is_call:
        raise ValueError(
            "`path` must be an unchanged file of skdp.save, got a call of a function."
        )
    return node


class Record:
    """A saved object: the name of its type, and its state in types that skops supports.

    While `load` reads a file, a record is the object itself.
    """

    type_name: str
    state: Any

    def __new__(cls, type_name: str, state: Any) -> Any:
        """Return the object in `load`, otherwise a record."""
        reader = _READER.get()
        if reader is not None:
            return reader.restore(type_name, state)
        record = super().__new__(cls)
        record.type_name, record.state = type_name, state
        return record

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the call that skops writes, and repeats in `load`."""
        return Record, (self.type_name, self.state)


class _Reader:
    """Creator of the objects of records. All estimators of a file share one ledger."""

    def __init__(self, ledger: PrivacyLedger | None) -> None:
        self.ledger = ledger
        self.has_ledger = False

    def restore(self, name: str, state: Any) -> Any:
        """Return the object of the name of a type and its state."""
        if name == "PrivacyLedger":
            self.has_ledger = True
            if self.ledger is None:
                self.ledger = PrivacyLedger._closed(_NO_LEDGER, **state)
            return self.ledger
        if name in _TYPES:
            return _TYPES[name][2](state)
        return _load_estimator(name, state)


# The reader of the file that `load` reads.
_READER: ContextVar[_Reader | None] = ContextVar("reader", default=None)


class Packer:
    """Converter of the objects of skdp in an object to records."""

    def __init__(self) -> None:
        self.ledger: PrivacyLedger | None = None
        # By the ids of objects, which may be in several places: the object and its copy.
        self._copies: dict[int, tuple[Any, Any]] = {}

    def pack(self, value: Any) -> Any:
        """Return a copy of an object with a record in place of each object of skdp."""
        # The bytes never leave this function, so pickle reads only what it has written.
        file = BytesIO()
        pickler, unpickler = pickle.Pickler(file), pickle.Unpickler(file)
        pickler.persistent_id = self._find_key  # type: ignore[method-assign]
        unpickler.persistent_load = lambda key: self._copies[key][1]  # type: ignore[method-assign]
        pickler.dump(value)
        file.seek(0)
        return unpickler.load()

    def _find_key(self, value: Any) -> int | None:
        """Return the key of the copy of an object, None if pickle copies it."""
        key = id(value)
        if key not in self._copies:
            copied = self._copy(value)
            if copied is value:
                return None
            self._copies[key] = value, copied
        return key

    def _copy(self, value: Any) -> Any:
        """Return a dict without seeds, the record of an object, or another value unchanged."""
        if isinstance(value, dict):
            _reject_secret(value)
            # The noise could be undone with the seeds of ensembles and searches.
            if seeds := _find_seeds(value):
                kept = copy(value)
                for name in seeds:
                    is_listed = isinstance(value[name], list | tuple | np.ndarray)
                    kept[name] = _NO_SEEDS if is_listed else None
                return self.pack(kept)
        if type(value) is dict and all(type(key) is str for key in value):
            return value
        return self._make_record(value) or value

    def _make_record(self, value: Any) -> Record | None:
        """Return the record of an object, None for an object of another library."""
        name = type(value).__name__
        if isinstance(value, PrivacyLedger):
            if self.ledger is not None and self.ledger._book is not value._book:
                raise ValueError("Estimators must have one ledger, got several.")
            self.ledger = value
            names = ("epsilon", "delta", "rho", "mu")
            return Record("PrivacyLedger", {x: getattr(value, x) for x in names})
        if _find_public_class(name) is type(value):
            try:
                return Record(name, self.pack(_dump_estimator(value)))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        if type(value) is dict:  # skops would convert the keys to text
            return Record("dict", self.pack(list(map(list, value.items()))))
        for type_name, (type_, dump, _) in _TYPES.items():
            if isinstance(value, type_):
                return Record(type_name, self.pack(dump(value)))
        return None


def _find_seeds(values: Mapping[str, Any]) -> list[str]:
    """Return the names of the seeds in attributes or parameters, such as in the grid and the results of a search."""
    seeds = []
    for name, value in values.items():
        # Bagging has `_seeds`.
        is_seed = str(name).endswith(("random_state", "_seeds"))
        if is_seed and value is not None and value is not _NO_SEEDS:
            seeds.append(name)
    return seeds


# In place of a list of seeds.
_NO_SEEDS = [None]


# Metadata routing.


def _list_requests(requests: MetadataRequest) -> dict[str, Any]:
    """Return the metadata that methods of an object request, such as ``{"fit": {"sample_weight": True}}``."""
    listed = {}
    for method, request in vars(requests).items():
        if getattr(request, "requests", None):
            listed[method] = dict(request.requests)
    return listed


def _load_requests(listed: Mapping[str, Mapping[str, Any]]) -> MetadataRequest:
    """Return the requests of `_list_requests`."""
    requests = MetadataRequest(owner="a loaded estimator")
    for method, names in listed.items():
        for name, alias in names.items():
            getattr(requests, method).add_request(param=name, alias=alias)
    return requests


# Estimators.


def _dump_estimator(estimator: Any) -> dict[str, Any]:
    """Return the state of an estimator of skdp: its parameters, its fitted attributes and its output settings."""
    # An estimator may define `_describe_fit`, which returns its fitted state as a dict
    # (empty before `fit`), and `_restore_fit`, which checks this dict and sets the state.
    parameters = estimator.get_params(deep=False)
    fitted = {}
    if isinstance(estimator, ReportTransformer):
        # The guarantee and the probabilities follow from the protocol.
        if hasattr(estimator, "protocol_"):
            fitted = _dump_transformer(estimator, parameters)
    elif hasattr(estimator, "_describe_fit"):
        fitted = estimator._describe_fit()
    else:
        fitted = dict(vars(estimator))
        for name in (*parameters, *_NOT_FITTED):
            fitted.pop(name, None)
    _check_guarantee(estimator)
    return {
        "parameters": parameters,
        "fitted": fitted,
        "output": vars(estimator).get("_sklearn_output_config", {}),
        "requests": vars(estimator).get(_REQUESTS),
    }


def _load_estimator(name: str, state: Mapping[str, Any]) -> Any:
    """Return the estimator of a class name and a state of `_dump_estimator`; check the guarantee that it states."""
    estimator_class: Any = _find_public_class(name)
    if estimator_class is None:
        raise ValueError(f"The file contains an unknown type {name[:50]!r}.")
    fitted = state["fitted"]
    estimator = estimator_class(**state["parameters"])
    if isinstance(estimator, ReportTransformer):
        if fitted:
            estimator = _load_transformer(estimator, fitted)
    elif fitted and hasattr(estimator, "_restore_fit"):
        try:
            estimator._restore_fit(fitted)
        except ValueError as error:
            raise ValueError(
                "`path` must be an unchanged file of skdp.save, got an invalid "
                f"{name}. Save the estimator again. {error}"
            ) from None
    else:
        # Statistics of the central model cannot be checked.
        for attribute, statistic in fitted.items():
            if hasattr(estimator_class, attribute):
                raise ValueError(
                    "Fitted attributes must not replace methods of the class, got "
                    f"{name}.{attribute[:50]}."
                )
            setattr(estimator, attribute, statistic)
    _check_guarantee(estimator)
    if state["output"]:
        estimator.set_output(transform=state["output"].get("transform"))
    if state["requests"] is not None:
        vars(estimator)[_REQUESTS] = state["requests"]
    return estimator


def _reject_secret(parameters: Mapping[str, Any]) -> None:
    """Raise an error if an estimator or the grid of a search has the key of permanent reports."""
    for name, value in parameters.items():
        keys = value if isinstance(value, list | tuple) else [value]
        is_secret = str(name).endswith("secret_key")
        if not is_secret or all(key is None for key in keys):
            continue
        raise ValueError(
            "`secret_key` must be None to be saved, because the noise of permanent "
            "reports can be undone with the key. Save the protocol with `to_json`."
        )


def _find_public(name: str) -> Any:
    """Return the public object of skdp with a name; None if there is none."""
    # Only public names are looked up, so a file cannot import other modules.
    skdp: Any = import_module("skdp")
    return getattr(skdp, name) if name in skdp.__all__ else None


def _find_public_class(name: str) -> Any:
    """Return the public estimator class of skdp with a name; None if there is none."""
    public = _find_public(name)
    is_estimator = isinstance(public, type) and issubclass(public, BaseEstimator)
    return public if is_estimator else None


def _check_guarantee(estimator: Any) -> None:
    """Raise an error if the guarantee of a central estimator does not follow from its parameters.

    A changed file could otherwise state a guarantee that its statistics do not have.
    """
    guarantee = vars(estimator).get("guarantee_")
    if guarantee is None or isinstance(estimator, ReportTransformer):
        return
    # Other estimators have no guarantee, or compute it from their parts.
    follows = getattr(estimator, "_follows_from_parameters", lambda guarantee: False)
    if not isinstance(guarantee, PrivacyGuarantee) or not follows(guarantee):
        raise ValueError(
            "`guarantee_` does not follow from the parameters, because they or the "
            "file were changed after fit. Fit the estimator again."
        )


def _dump_transformer(
    transformer: ReportTransformer, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON of the protocol of a local transformer, and its columns with inferred categories."""
    _check_parameters(transformer, parameters)
    domain = transformer.protocol_.domain
    columns = () if domain is None else domain.columns
    observed = [name for name in columns if domain and domain[name].observed]
    return {"protocol": transformer.to_json(), "observed": observed}


def _load_transformer(
    unfitted: ReportTransformer, fitted: Mapping[str, Any]
) -> ReportTransformer:
    """Return a local transformer with the parameters of `unfitted` and a state of `_dump_transformer`."""
    parameters = unfitted.get_params(deep=False)
    # `from_json` computes the guarantee from the parameters.
    transformer = type(unfitted).from_json(fitted["protocol"])
    _check_parameters(transformer, parameters)
    # The JSON lacks the ledger and the seed, and has lists of values instead of 'auto'.
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
    """Check that the parameters of a transformer are equal to the parameters of `fit`."""
    written = json.loads(transformer.to_json())["parameters"]
    # Parameters that `fit` replaced by declared values differ. JSON text is compared,
    # because 1 and True are equal in Python.
    for name in written.keys() - transformer.protocol_.declared.keys():
        if json.dumps(value_to_json(parameters[name])) != json.dumps(written[name]):
            raise ValueError(
                f"`{name}` was changed after fit. Fit the estimator again."
            )


# Values.


def _dump_domain(domain: Domain) -> dict[str, Any]:
    """Return the state of a domain: its columns, expressions and releases."""
    return {
        "columns": [[name, domain[name]] for name in domain.columns],
        "constraints": list(domain.constraints),
        "derived": dict(domain.derived),
        "releases": list(domain.releases),
    }


def _load_domain(state: Mapping[str, Any]) -> Domain:
    """Return the domain of a state of `_dump_domain`."""
    columns, constraints = dict(state["columns"]), state["constraints"]
    domain = Domain(columns, constraints=constraints, derived=state["derived"])
    domain.releases = tuple(state["releases"])
    return domain


def _dump_attribute(values: Categories | Interval) -> list[Any]:
    """Return the JSON of declared values, whether they are ordered and observed, and their releases."""
    content = values if isinstance(values, Interval) else list(values.values)
    is_ordered = getattr(values, "ordered", False)
    return [
        value_to_json(content),
        is_ordered,
        values.observed,
        list(values.releases),
    ]


def _load_attribute(state: list[Any]) -> Categories | Interval:
    """Return the declared values of a state of `_dump_attribute`."""
    content, is_ordered, is_observed, releases = state
    values = value_from_json(content)
    if not isinstance(values, Interval):
        values = Categories(values, ordered=is_ordered)
    if is_observed:
        values.observed = True
    values.releases = tuple(releases)
    return values


def _dump_guarantee(guarantee: PrivacyGuarantee) -> list[Any]:
    """Return the JSON of a guarantee, and its scope with column names of any type."""
    return [guarantee.to_json(), list(guarantee.scope)]


def _load_guarantee(state: list[Any]) -> PrivacyGuarantee:
    """Return the guarantee of a state of `_dump_guarantee`."""
    # The JSON has text in place of column names of types that it lacks.
    guarantee = PrivacyGuarantee.from_json(state[0])
    return replace(guarantee, scope=tuple(state[1]))


def _dump_template(template: Table) -> dict[str, Any]:
    """Return the libraries and names of a table without rows, the template of the outputs of an estimator.

    Dtypes are not saved, because the dtypes of outputs follow from the domain.
    """
    columns = []
    for column in template.columns:
        is_ordered = has_order_of(column, ()) if has_categories(column) else None
        columns.append([library_of(column), is_ordered])
    native, library = template.native, "numpy"
    if not isinstance(native, np.ndarray):
        library = nw.from_native(native).implementation.value
    return {"library": library, "names": list(template.names), "columns": columns}


def _load_template(state: dict[str, Any]) -> Table:
    """Return a table without rows, whose library and column names outputs get."""
    columns = []
    for library, is_ordered in state["columns"]:
        # The declared values are not part of the template.
        form: Any = ("missing", ()) if is_ordered is None else ("string", ("",))
        dtype = find_dtype(library, *form, is_ordered=is_ordered)
        columns.append(empty_column(library, dtype))
    native: Any = np.empty((0, len(columns)), object)
    if state["library"] != "numpy":
        native = nw.from_dict({}, backend=state["library"]).to_native()
    return Table(tuple(state["names"]), tuple(columns), native)


def _dump_frame(frame: pd.DataFrame) -> list[Any]:
    """Return the names and arrays of the columns of a table of results, without its index."""
    return [[name, frame[name].to_numpy()] for name in frame.columns]


def _reject_key(key: SecretKey) -> None:
    """Raise an error instead of saving a secret."""
    raise ValueError(
        "A SecretKey cannot be saved with an estimator. Set it to None, keep the key "
        "in a secret store, and set it again after loading."
    )


# By the name in a file: a type, and functions that return its state and load the state.
_TYPES: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "SecretKey": (SecretKey, _reject_key, _reject_key),
    "Domain": (Domain, _dump_domain, _load_domain),
    "Release": (Release, list, lambda state: Release(*state)),
    "MetadataRequest": (MetadataRequest, _list_requests, _load_requests),
    "Categories": (Categories | Interval, _dump_attribute, _load_attribute),
    "PrivacyGuarantee": (PrivacyGuarantee, _dump_guarantee, _load_guarantee),
    "Rho": (Rho, lambda budget: dict(vars(budget)), lambda state: Rho(**state)),
    "Mu": (Mu, lambda budget: dict(vars(budget)), lambda state: Mu(**state)),
    "ReportDesign": (
        SavedByArguments,
        lambda design: design.arguments(),
        lambda state: _find_public("ReportDesign")(**state),
    ),
    "Table": (Table, _dump_template, _load_template),
    "DataFrame": (
        pd.DataFrame,
        _dump_frame,
        lambda state: pd.DataFrame(dict(state)).infer_objects(),
    ),
    # Names of columns.
    "Index": (pd.Index, list, lambda state: np.array(state, object)),
    # `pack` writes a dict with keys that are not text as a list of pairs.
    "dict": ((), list, dict),
    "range": (
        range,
        lambda values: [values.start, values.stop, values.step],
        lambda state: range(*state),
    ),
    # Other values of parameters, whose types skops does not trust.
    "value": (
        (date, Fraction),
        value_to_json,
        value_from_json,
    ),
}
