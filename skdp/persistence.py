"""`save` and `load`: files in the skops format of scikit-learn, and the records of objects in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import cache, partial
from importlib import import_module
from io import BytesIO
from numbers import Integral
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, BinaryIO
from zipfile import ZipFile, is_zipfile

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn import (
    config_context,
    feature_selection,
    metrics,
    model_selection,
    preprocessing,
)
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import kernels

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

# Types in files that are trusted in addition to the types that skops trusts and to the
# public names of `_PUBLIC`: attributes of fitted estimators of scikit-learn.
_TRUSTED = (
    "skdp.persistence.Record",
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
    "sklearn._loss.loss.HalfTweedieLoss",
    "sklearn._loss.loss.HalfTweedieLossIdentity",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.cluster._bisect_k_means._BisectingTree",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._MultimetricScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._search_successive_halving.HalvingGridSearchCV",
    "sklearn.model_selection._search_successive_halving.HalvingRandomSearchCV",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)

# Functions in attributes of fitted estimators of scikit-learn.
_TRUSTED_FUNCTIONS = (
    "numpy.mean",
    "scipy._lib.array_api_compat.numpy._aliases.asarray",
    "sklearn.cluster._kmeans._kmeans_single_elkan",
    "sklearn.cluster._kmeans._kmeans_single_lloyd",
)

# Trees of scikit-learn, which does not check the indices of their nodes: a changed file
# could end Python. They are loaded with `trusted` only, as by skops.
_TREES = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
)

# Modules whose public classes are trusted, and True if their public functions are, too,
# such as the scores of searches and selectors.
_PUBLIC = (
    (kernels, False),
    (model_selection, False),
    (feature_selection, True),
    (metrics, True),
    (preprocessing, True),
)

# Packages whose types a file has only if `load` reads them; types of other packages are
# loaded with `trusted`.
_CHECKED = {"skdp", "sklearn"}


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
        If `estimator` is not an estimator, or has an attribute that cannot be saved, or
        that `load` does not read.
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
    without charges, paths and addresses. A `random_state` of an estimator of skdp, or of
    one that contains it, such as an ensemble, is not saved, because the noise can be undone
    with it: the loaded estimator draws secure noise, and the guarantee of a seeded `fit`
    still states that it was not secure.
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
    from skops.io.exceptions import UnsupportedTypeException

    if not isinstance(estimator, BaseEstimator):
        raise TypeError(
            f"`estimator` must be an estimator, got {type(estimator).__name__}."
        )
    name = type(estimator).__name__
    try:
        packed = RecordConverter().pack(estimator)
        data, types = _write_packed(packed)
    except (UnsupportedTypeException, RecursionError) as error:
        raise TypeError(f"{name} cannot be saved: {type(error).__name__}.") from None
    unread = [
        found.rpartition(".")[2]
        for found in _list_untrusted(types)
        if found.partition(".")[0] in _CHECKED and found not in _TREES
    ]
    if unread:
        raise TypeError(
            f"{name} cannot be saved, because skdp.load does not read its "
            f"{', '.join(unread)}. Remove them, or set other parameters, such as "
            "algorithm='brute' for neighbors."
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
        Types of other packages to load, such as ``"my_package.MyScaler"``. Loading a
        type may run its code. Types of skdp and scikit-learn are trusted, except
        ``"sklearn.tree._tree.Tree"``, because a changed tree can end Python.

    Returns
    -------
    estimator
        An estimator of the same class, with the same parameters and fitted attributes.
        Estimators of skdp have no seed (`random_state`).

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
    records = RecordConverter(ledger)
    message = ""
    try:
        json.loads(_read_schema(data), object_hook=_check_node)
        types = skops.io.get_untrusted_types(data=data)
        unknown = set(_list_untrusted(types)).difference(trusted)
        if not unknown:
            estimator = records.unpack(skops.io.loads(data, trusted=types))
    except ValueError as error:
        message = str(error)
    except Exception as error:  # a damaged file can cause any exception
        message = (
            f"The file cannot be read ({type(error).__name__}): it is damaged, or was "
            "written by a later version of skdp."
        )
    # Raised outside of the handlers, because the context of an error is shown too.
    if message:
        raise ValueError(message)
    if unknown:
        remedy = ""
        if any(name.startswith("skdp.") for name in unknown):
            remedy = " If it was written by a later version of skdp, upgrade skdp."
        if not unknown.isdisjoint(_TREES):
            remedy = " A changed tree can end Python: trust the author of the file."
        raise ValueError(f"`trusted` must contain the types {sorted(unknown)}.{remedy}")
    if ledger is not None and not records.has_ledger:
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

# Errors of constructing an object from a file that `save` has made.
_READ_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    TypeError,
    ValueError,
)


def _write_packed(packed: Any) -> tuple[bytes, list[str]]:
    """Serialize an object with skops, check that it can be read, and return the bytes and untrusted types."""
    import skops.io

    data = skops.io.dumps(packed)
    types = skops.io.get_untrusted_types(data=data)
    try:
        skops.io.loads(data, trusted=types)
    except _READ_ERRORS as error:
        raise TypeError(
            f"An attribute cannot be saved, because it cannot be read again "
            f"({type(error).__name__})."
        ) from None
    return _add_version(data), types


def _add_version(data: bytes) -> bytes:
    """Add the version of the format of `save` to a file of skops."""
    file = BytesIO(data)
    with ZipFile(file, "a") as members:
        members.writestr(_VERSION_MEMBER, str(_VERSION))
    return file.getvalue()


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


@cache
def _list_trusted() -> dict[str, bool]:
    """Return the names that `load` trusts in addition to the names that skops trusts; True for a function."""
    names = dict.fromkeys(_TRUSTED, False) | dict.fromkeys(_TRUSTED_FUNCTIONS, True)
    for module, has_functions in _PUBLIC:
        for name in getattr(module, "__all__", vars(module)):
            public = vars(module).get(name)
            is_class = isinstance(public, type)
            is_trusted = is_class or (
                has_functions and isinstance(public, FunctionType)
            )
            if is_trusted and public.__module__.startswith(module.__name__):
                names[f"{public.__module__}.{public.__name__}"] = not is_class
    return names


def _list_untrusted(names: Iterable[str]) -> list[str]:
    """Return the types that `load` does not trust without `trusted`, of the types that skops does not trust."""
    return sorted(set(names) - _list_trusted().keys())


def _check_node(node: dict[str, Any]) -> dict[str, Any]:
    """Raise an error if an object of a file is the result of a function, which would be called with any arguments."""
    name = f"{node.get('__module__')}.{node.get('__class__')}"
    if node.get("__loader__") != "FunctionNode" and _list_trusted().get(name):
        raise ValueError(
            "`path` must be an unchanged file of skdp.save, got a call of a function."
        )
    return node


class Record:
    """A saved object: the name of its type, and its state in types that skops supports."""

    def __init__(self, type_name: str, state: Any) -> None:
        self.type_name = type_name
        self.state = state


class RecordConverter:
    """Converter of objects to records and back. All estimators of a file share one ledger."""

    def __init__(self, ledger: PrivacyLedger | None = None) -> None:
        self.ledger = ledger
        self.has_ledger = False
        # Objects in several places, by their ids: the object and its conversion.
        self._converted: dict[int, tuple[Any, Any]] = {}
        # Ids of estimators of skdp and of objects with one, and how often they were packed.
        self._private: set[int] = set()
        self._n_private = 0

    def pack(self, value: Any) -> Any:
        """Return a copy of an object in which all objects of skdp are records.

        A record has the name of a type and a state that skops can save.
        """
        if id(value) in self._converted:
            self._n_private += id(value) in self._private
            return self._converted[id(value)][1]
        if isinstance(value, BaseEstimator):
            return self._pack_estimator(value)
        if isinstance(value, PrivacyLedger):
            if self.ledger is not None and self.ledger._book is not value._book:
                raise ValueError("Estimators must have one ledger, got several.")
            self.ledger = value
            names = ("epsilon", "delta", "rho", "mu")
            return Record("PrivacyLedger", {x: getattr(value, x) for x in names})
        for name, (type_, dump, _) in _TYPES.items():
            if isinstance(value, type_):
                return Record(name, self.pack(dump(value)))
        # skops would convert the keys of a dict to text.
        if type(value) is dict and any(type(key) is not str for key in value):
            return Record("dict", self.pack(list(map(list, value.items()))))
        if _has_attributes(value):
            return self._pack_attributes(value)
        return _map_items(self.pack, value)

    def unpack(self, value: Any) -> Any:
        """Restore the objects of skdp from the records in an object of `pack`; other objects change in place."""
        if id(value) in self._converted:
            return self._converted[id(value)][1]
        if _has_attributes(value) and not isinstance(value, Record):
            # An object of another library, which skops has created.
            self._converted[id(value)] = value, value
            attributes = self.unpack(dict(vars(value)))
            requests = attributes.pop(_REQUESTS, None)
            vars(value).pop(_REQUESTS, None)
            vars(value).update(attributes)
            _restore_requests(value, requests)
            return value
        if not isinstance(value, Record):
            return _map_items(self.unpack, value)
        unpacked = self._unpack_record(value.type_name, self.unpack(value.state))
        self._converted[id(value)] = value, unpacked
        return unpacked

    def _unpack_record(self, name: str, state: Any) -> Any:
        """Return the object of a type name and an unpacked state."""
        if name == "PrivacyLedger":
            self.has_ledger = True
            if self.ledger is None:
                self.ledger = PrivacyLedger._closed(_NO_LEDGER, **state)
            return self.ledger
        if name in _TYPES:
            return _TYPES[name][2](state)
        return _load_estimator(name, state)

    def _pack_estimator(self, estimator: Any) -> Any:
        """Return the record of an estimator of skdp; for another estimator, a copy with packed attributes."""
        name = type(estimator).__name__
        if _find_public_class(name) is not type(estimator):
            # An estimator of another library, which may contain estimators of skdp.
            return self._pack_attributes(estimator)
        self._n_private += 1
        self._private.add(id(estimator))
        try:
            record = Record(name, self.pack(_dump_estimator(estimator)))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        self._converted[id(estimator)] = estimator, record
        return record

    def _pack_attributes(self, value: Any) -> Any:
        """Return a copy of an object of another library with packed attributes."""
        packed = copy(value)
        self._converted[id(value)] = value, packed
        n_private = self._n_private
        attributes = dict(vars(value))
        if isinstance(value, BaseEstimator) and _REQUESTS in attributes:
            attributes[_REQUESTS] = _list_requests(value)
        attributes = self.pack(attributes)
        is_derived = any(x.__module__.startswith("skdp.") for x in type(value).mro())
        if is_derived:
            _reject_secret(vars(value))
        if is_derived or self._n_private > n_private:
            self._private.add(id(value))
            # An ensemble seeds its estimators by its own seed, which bagging stores. A
            # search has the ensemble that it copies, which is not fitted.
            attributes.pop("_seeds", None)
            vars(packed).pop("_seeds", None)
            if "random_state" in attributes:
                attributes["random_state"] = None
            # A search has seeds of estimators in its grid and results.
            attributes = {name: _drop_seeds(x) for name, x in attributes.items()}
        vars(packed).update(attributes)
        return packed


def _has_attributes(value: Any) -> bool:
    """Return True if a value is an object with attributes, and not a container, array, class, function or module."""
    containers = (dict, list, tuple, set, frozenset, np.ndarray)
    functions = (type, FunctionType, BuiltinFunctionType, MethodType, partial)
    # Splines of SciPy 1.18 have a module as an attribute, which their state leaves out.
    others = (*containers, *functions, ModuleType)
    return hasattr(value, "__dict__") and not isinstance(value, others)


def _map_items(convert: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to the items of a container or an object array; return other values."""
    if isinstance(value, MethodType) and _has_attributes(value.__self__):
        raise TypeError(
            f"A method of an object ({value.__name__}) cannot be saved. Use a function "
            "of a module."
        )
    if type(value) in (list, tuple, set):
        return type(value)(map(convert, value))
    if isinstance(value, dict):
        converted = copy(value)
        converted.update({key: convert(item) for key, item in value.items()})
        return converted
    if isinstance(value, np.ndarray) and value.dtype == object:
        if isinstance(value, np.ma.MaskedArray):
            return np.ma.MaskedArray(convert(value.data), value.mask)
        items = np.fromiter(map(convert, value.ravel()), object, value.size)
        return items.reshape(value.shape)
    return value


def _drop_seeds(value: Any) -> Any:
    """Replace the seeds in dicts of parameters, such as grids of a search, by None."""
    if type(value) in (list, tuple):
        return type(value)(map(_drop_seeds, value))
    if not isinstance(value, dict):
        return value
    kept = copy(value)
    for name, item in value.items():
        if not str(name).endswith("random_state"):
            kept[name] = _drop_seeds(item)
        elif isinstance(item, list | tuple):
            kept[name] = [None] * len(item)
        elif isinstance(item, np.ndarray):
            seeds = np.full(item.shape, None, object)
            is_masked = isinstance(item, np.ma.MaskedArray)
            kept[name] = (
                np.ma.MaskedArray(seeds, np.ma.getmaskarray(item))
                if is_masked
                else seeds
            )
        elif isinstance(item, Integral):
            kept[name] = None
    return kept


# Metadata routing.


def _list_requests(estimator: Any) -> dict[str, dict[str, Any]]:
    """Return the metadata that methods of an estimator request, such as ``{"fit": {"sample_weight": True}}``."""
    requests = vars(vars(estimator)[_REQUESTS])
    return {
        method: dict(request.requests)
        for method, request in requests.items()
        if getattr(request, "requests", None)
    }


def _restore_requests(estimator: Any, requests: Any) -> None:
    """Set the metadata requests of `_list_requests`; scorers have an object of requests instead."""
    if requests is None:
        return
    if not isinstance(requests, dict):
        vars(estimator)[_REQUESTS] = requests
        return
    with config_context(enable_metadata_routing=True):
        for method, names in requests.items():
            getattr(estimator, f"set_{method}_request")(**names)


# Estimators.


def _dump_estimator(estimator: Any) -> dict[str, Any]:
    """Return the state of an estimator of skdp: its parameters, its fitted attributes and its output settings."""
    # An estimator may define `_describe_fit`, which returns its fitted state as a dict
    # (empty before `fit`), and `_restore_fit`, which checks this dict and sets the state.
    parameters = estimator.get_params(deep=False)
    _reject_secret(parameters)
    if "random_state" in parameters:
        parameters["random_state"] = None
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
        "requests": _list_requests(estimator) if _REQUESTS in vars(estimator) else None,
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
    _restore_requests(estimator, state.get("requests"))
    return estimator


def _reject_secret(parameters: Mapping[str, Any]) -> None:
    """Raise an error if an estimator has the key of permanent reports."""
    if parameters.get("secret_key") is not None:
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
    """Return the state of a domain: its columns, expressions and releases.

    A column has a name, declared values, and True if the values were read from the
    data.
    """
    columns = []
    for name in domain.columns:
        values = domain[name]
        columns.append([name, _dump_attribute(values), values.observed])
    return {
        "columns": columns,
        "constraints": list(domain.constraints),
        "derived": list(map(list, domain.derived.items())),
        "releases": list(map(list, domain.releases)),
    }


def _dump_attribute(values: Categories | Interval) -> list[Any]:
    """Return the JSON of declared values, True if they are ordered categories, and the releases that found them."""
    releases = list(map(list, values.releases))
    if isinstance(values, Interval):
        return [value_to_json(values), False, releases]
    return [value_to_json(list(values.values)), values.ordered, releases]


def _load_attribute(state: list[Any]) -> Categories | Interval:
    """Return the declared values of a state of `_dump_attribute`."""
    content, ordered, releases = state
    values = value_from_json(content)
    if not isinstance(values, Interval):
        values = Categories(values, ordered=ordered)
    values.releases = tuple(Release(*release) for release in releases)
    return values


def _load_domain(state: dict[str, Any]) -> Domain:
    """Return the domain of a state of `_dump_domain`."""
    columns = {}
    for name, attribute, observed in state["columns"]:
        columns[name] = _load_attribute(attribute)
        if observed:
            columns[name].observed = True
    domain = Domain(
        columns, constraints=state["constraints"], derived=dict(state["derived"])
    )
    domain.releases = tuple(Release(*release) for release in state["releases"])
    return domain


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
    native = template.native
    is_array = isinstance(native, np.ndarray)
    library = (
        "numpy" if is_array else nw.from_native(native).implementation.name.lower()
    )
    return {
        "library": library,
        "names": list(template.names),
        "columns": list(map(library_of, template.columns)),
        "categorical": list(map(has_categories, template.columns)),
        "ordered": [has_order_of(column, ()) for column in template.columns],
        "n_columns": len(native.columns) if library == "pandas" else native.shape[1],
        "labels": list(native.columns.names) if library == "pandas" else [None],
    }


def _load_template(state: dict[str, Any]) -> Table:
    """Return a table without rows, whose library and column names outputs get."""
    columns = []
    kinds = zip(state["columns"], state["categorical"], state["ordered"], strict=True)
    for library, is_categorical, has_order in kinds:
        # The declared values are not part of the template.
        form: Any = ("string", ("",)) if is_categorical else ("missing", ())
        is_ordered = has_order if is_categorical else None
        dtype = find_dtype(library, *form, is_ordered=is_ordered)
        columns.append(empty_column(library, dtype))
    native: Any
    if state["library"] == "numpy":
        native = np.empty((0, state["n_columns"]), object)
    elif state["library"] == "pandas":
        names, labels = state["names"][: state["n_columns"]], state["labels"]
        make_index = pd.MultiIndex.from_tuples if len(labels) > 1 else pd.Index
        native = pd.DataFrame(columns=make_index(names), index=pd.RangeIndex(0))
        native.columns.names = labels
    else:
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
