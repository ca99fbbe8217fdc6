"""`save` and `load`: files in the skops format of scikit-learn, and the records of objects in them."""

from __future__ import annotations

import json
import pickle
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
from shutil import copymode
from types import FunctionType
from typing import Any, BinaryIO
from zipfile import ZipFile, is_zipfile

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skdp._arrays import PathType
from skdp._json import check_version, value_from_json, value_to_json
from skdp.base import check_ledger
from skdp.domain import Categories, Domain, FoundCategories, Interval, Release
from skdp.local import ReportTransformer, SecretKey
from skdp.privacy import Mu, PrivacyGuarantee, PrivacyLedger, Rho
from skdp.randomness import check_type
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
_FILE_VERSION = 2
_VERSION_MEMBER = "skdp-version.txt"

# Further names in files that are trusted: types of parameters, and parts of splines and
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

_NO_FILE_OF_SAVE = (
    "`path` must be a file of skdp.save, got another format. Use skdp.read_protocol for "
    "the protocol (JSON) of a local transformer."
)

# Packages of scores, whose public functions are trusted.
_SCORES = ("sklearn.feature_selection.", "sklearn.metrics.", "sklearn.preprocessing.")


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
    Requests of metadata routing are not saved either. Other estimators may contain rows of
    the training data, such as nearest neighbors.

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
    import skops.io

    check_type("estimator", estimator, BaseEstimator, "an estimator")
    name = type(estimator).__name__
    try:
        data = skops.io.dumps(pack(estimator))
        types = skops.io.get_untrusted_types(data=data)
        skops.io.loads(data, trusted=types)
    except ValueError:
        raise
    except Exception as error:  # an object that pickle or skops does not support
        raise TypeError(f"{name} cannot be saved: {type(error).__name__}.") from None
    if any(found.startswith("skdp.") for found in {*types} - {_RECORD}):
        raise TypeError(
            f"{name} cannot be saved, because it has internal objects of skdp."
        )
    file = BytesIO(data)
    with ZipFile(file, "a") as members:
        members.writestr(_VERSION_MEMBER, str(_FILE_VERSION))
    if hasattr(path, "write"):
        path.write(file.getvalue())
    else:
        _write_file(Path(path).resolve(), file.getvalue())


def _write_file(path: Path, content: bytes) -> None:
    """Write a file; an existing file is replaced only when the new file is complete.

    The release in an existing file cannot be repeated.
    """
    if not path.is_file():
        path.write_bytes(content)
        return
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        copymode(path, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


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
    check_ledger(ledger)
    file: Any = path
    if hasattr(path, "read"):
        file.seek(0)  # `save` leaves the position at the end
        data = file.read()
    else:
        data = Path(file).read_bytes()
    if not is_zipfile(BytesIO(data)):
        raise ValueError(_NO_FILE_OF_SAVE)
    reader = _Reader(ledger)
    token = _READER.set(reader)
    try:
        estimator = _read_file(data, trusted)
    except ValueError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # a damaged file can cause any exception
        raise ValueError(
            f"The file cannot be read ({type(error).__name__}): it is damaged, or was "
            "written by a later version of skdp."
        ) from None
    finally:
        _READER.reset(token)
    if ledger is not None and not reader.has_ledger:
        raise ValueError(
            "`ledger` must be None, because no saved estimator had a ledger."
        )
    return estimator


def _read_file(data: bytes, trusted: Sequence[str]) -> Any:
    """Return the object of a file; check its version, and all its types before any object is created."""
    import skops.io

    members = ZipFile(BytesIO(data))
    if "schema.json" not in members.namelist():
        raise ValueError(_NO_FILE_OF_SAVE)
    # A small file cannot take much memory, because `save` does not compress.
    size = sum(member.file_size for member in members.infolist())
    if size > len(data):
        raise ValueError(
            f"`path` must be a file of skdp.save, got a compressed file of {size:,} "
            f"bytes in {len(data):,}."
        )
    # Files of the first version have no number.
    is_numbered = _VERSION_MEMBER in members.namelist()
    number = members.read(_VERSION_MEMBER)[:9] if is_numbered else b"1"
    check_version(int(number) if number.isdigit() else 1, _FILE_VERSION, "The file")
    json.loads(members.read("schema.json"), object_hook=_check_node)
    types = skops.io.get_untrusted_types(data=data)
    trusted_names = {*trusted, *_TRUSTED, *_FUNCTIONS, *filter(_find_public, types)}
    unknown = set(types) - trusted_names
    if not unknown:
        return skops.io.loads(data, trusted=types)
    remedy = (
        "In a changed file, types of other packages, private types and types in C, "
        "such as trees, may run code or end Python: trust the author of the file."
    )
    if any(name.startswith("skdp.") for name in unknown):
        remedy = "If it was written by a later version of skdp, upgrade skdp."
    raise ValueError(f"`trusted` must contain the types {sorted(unknown)}. {remedy}")


@lru_cache(maxsize=1 << 12)
def _find_public(name: str) -> Any:
    """Return the object of scikit-learn that `load` trusts by its name in a file; None for other names.

    It is a class of a module that defines a public name, because fitted estimators have parts of other classes, such as
    the scorer of a search; or it is a public function of a package of scores.
    """
    module, _, attribute = name.rpartition(".")
    package = module.partition("._")[0]
    if not module.startswith("sklearn.") or package.startswith("sklearn.externals"):
        return None
    if not {module, package} <= sys.modules.keys():  # no module is imported
        return None
    found: Any = vars(sys.modules[module]).get(attribute)
    public = vars(sys.modules[package])
    names = public.get("__all__", ())
    if isinstance(found, FunctionType):
        return found if name.startswith(_SCORES) and attribute in names else None
    modules: set[Any] = {package}
    for listed in names:
        modules.add(getattr(public.get(listed), "__module__", None))
    is_class = isinstance(found, type) and found.__module__ == module
    if not is_class or module not in modules:
        return None
    # Classes in C do not check their state, so a changed file could end Python. Classes that
    # Python code defines have the flag `Py_TPFLAGS_HEAPTYPE`, 2**9.
    for parent in found.__mro__:
        if parent.__module__ != "builtins" and not parent.__flags__ & (1 << 9):
            return None
    return found


def _check_node(node: dict[str, Any]) -> dict[str, Any]:
    """Raise an error if an object of a file is the result of a call with arguments of the file."""
    name = f"{node.get('__module__')}.{node.get('__class__')}"
    loader, found = node.get("__loader__"), _find_public(name)
    is_call = loader == "ConstructorFromReduceNode"
    if name == _RECORD:  # also if a method of its object would be loaded
        is_call = not is_call
    elif isinstance(found, FunctionType) or name in _FUNCTIONS:
        is_call = loader != "FunctionNode"
    else:
        is_call = is_call and found is not None
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

    def __new__(cls, type_name: str, state: object) -> Any:
        """Return the object that the record describes while `load` reads a file, otherwise a record."""
        reader = _READER.get()
        if reader is not None:
            return reader.restore(type_name, state)
        record = super().__new__(cls)
        record.type_name, record.state = type_name, state
        return record

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the call that skops writes, and repeats in `load`."""
        return Record, (self.type_name, self.state)


_NO_LEDGER = (
    "this estimator was loaded without its ledger; use skdp.load(path, ledger=...)"
)


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
        if name in _SAVED_TYPES:
            return _SAVED_TYPES[name][2](state)
        saved_class = _find_public_class(name)
        if saved_class is None:
            remedy = _import_skdp()._REMOVED.get(name)
            more = f" It was removed: load it with skdp 0.5.0. {remedy}"
            raise ValueError(
                f"The file contains an unknown type {name[:50]!r}.{more if remedy else ''}"
            )
        if hasattr(saved_class, "arguments"):
            return saved_class(**state)
        return _load_estimator(saved_class, state)


# The reader of the file that `load` reads.
_READER: ContextVar[_Reader | None] = ContextVar("reader", default=None)


def _import_skdp() -> Any:
    """Return the package, whose public names are in files."""
    return import_module("skdp")


def _find_public_class(name: str) -> Any:
    """Return the public class of skdp that is saved by its name, an estimator or a design; None if there is none."""
    # Only public names are looked up, so a file cannot import other modules.
    skdp = _import_skdp()
    if name not in skdp.__all__:
        return None
    public = getattr(skdp, name)
    is_estimator = isinstance(public, type) and issubclass(public, BaseEstimator)
    is_design = hasattr(public, "arguments")
    return public if is_estimator or is_design else None


def pack(value: object) -> Any:
    """Return a copy of an object with a record in place of each object of skdp."""
    # The bytes never leave this function, so pickle reads only what it has written.
    file = BytesIO()
    _Packer(file).dump(value)
    file.seek(0)
    return _Unpacker(file).load()


class _Unpacker(pickle.Unpickler):
    """Reader of a copy, in which the name of an object that was kept is the object itself."""

    def persistent_load(self, kept: object) -> Any:
        """Return the object."""
        return kept


class _Packer(pickle.Pickler):
    """Copier of an object, which visits each object in it."""

    ledger: PrivacyLedger | None = None

    def persistent_id(self, value: object) -> Any:
        """Return an object in place of a dict that has seeds or other keys than text, otherwise None."""
        if not isinstance(value, dict):
            return None
        kept = _drop_settings(value)
        if type(kept) is dict and not all(type(key) is str for key in kept):
            # skops would convert the keys to text.
            return Record("dict", list(map(list, kept.items())))
        return None if kept is value else kept

    def reducer_override(self, value: Any) -> Any:
        """Return the call that creates the record of an object."""
        name = type(value).__name__
        if isinstance(value, SecretKey):
            _reject_secret()
        if isinstance(value, PrivacyLedger):
            if self.ledger is not None and self.ledger._book is not value._book:
                raise ValueError("Estimators must have one ledger, got several.")
            self.ledger = value
            names = ("epsilon", "delta", "rho", "mu")
            return Record, ("PrivacyLedger", {x: getattr(value, x) for x in names})
        if _find_public_class(name) is type(value):
            is_estimator = isinstance(value, BaseEstimator)
            state = _dump_estimator(value) if is_estimator else value.arguments()
            return Record, (name, state)
        for type_name, (type_, dump, _) in _SAVED_TYPES.items():
            if isinstance(value, type_):
                return Record, (type_name, dump(value))
        return NotImplemented


def _drop_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Return attributes or parameters without seeds and requests of metadata; raise an error for a secret key."""
    dropped: dict[str, Any] = {}
    for name, value in values.items():
        items = value if isinstance(value, list | tuple) else [value]
        is_given = any(item is not None for item in items)
        if is_given and str(name).endswith("secret_key"):
            _reject_secret()
        # The noise could be undone with the seeds of ensembles and searches, also in grids and
        # results. Bagging has `_seeds`.
        if is_given and str(name).endswith(("random_state", "_seeds")):
            # A list in the grid of a search keeps a value to try.
            dropped[name] = [None] if isinstance(value, list | tuple) else None
    if not dropped and _REQUESTS not in values:
        return values
    kept = copy(values)
    kept.update(dropped)
    kept.pop(_REQUESTS, None)
    return kept


def _reject_secret() -> None:
    """Raise an error instead of saving a key."""
    raise ValueError(
        "`secret_key` must be None to be saved, and so must each SecretKey, because the "
        "noise of permanent reports can be undone with the key. Set it again after "
        "loading, or save the protocol with `to_json`."
    )


# Estimators.

# Attributes that are not saved as fitted state: the counter of calls, the requests of
# metadata routing, and the settings of outputs, which are saved beside it.
_REQUESTS = "_metadata_request"
_OUTPUT = "_sklearn_output_config"
_NOT_FITTED = ("_calls", _REQUESTS, _OUTPUT)


def _dump_estimator(estimator: BaseEstimator) -> dict[str, Any]:
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
    output = vars(estimator).get(_OUTPUT, {})
    return {"parameters": parameters, "fitted": fitted, "output": output}


def _load_estimator(
    estimator_class: type[BaseEstimator], state: Mapping[str, Any]
) -> Any:
    """Return the estimator of a class and a state of `_dump_estimator`; check the guarantee that it states."""
    fitted, name = state["fitted"], estimator_class.__name__
    estimator = estimator_class(**state["parameters"])
    if isinstance(estimator, ReportTransformer):
        if fitted:
            estimator = _load_transformer(estimator, fitted)
    elif fitted and hasattr(estimator, "_restore_fit"):
        estimator._restore_fit(fitted)
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
    _mark_observed(estimator)
    if state["output"]:
        estimator.set_output(transform=state["output"].get("transform"))
    return estimator


def _check_guarantee(estimator: BaseEstimator) -> None:
    """Raise an error if the guarantee of a central estimator does not follow from its parameters.

    A changed file could otherwise state a guarantee that its statistics do not have.
    """
    guarantee = vars(estimator).get("guarantee_")
    if guarantee is None or isinstance(estimator, ReportTransformer):
        return
    # Estimators without this method store no guarantee: they have none, or compute it from
    # their parts.
    follows = getattr(estimator, "_follows_from_parameters", lambda guarantee: False)
    if isinstance(guarantee, PrivacyGuarantee) and guarantee.observed:
        follows = partial(_follows_from_plan, estimator)
    if not isinstance(guarantee, PrivacyGuarantee) or not follows(guarantee):
        raise ValueError(
            "`guarantee_` does not follow from the parameters, because they or the "
            f"file were changed after fit. Fit the {type(estimator).__name__} again."
        )


def _follows_from_plan(estimator: Any, guarantee: PrivacyGuarantee) -> bool:
    """Return True if a guarantee of `_mark_observed` follows from the parameters."""
    planned = estimator._planned_guarantee().to("replace")
    names = ("relation", "trust", "max_rows_per_person")
    return (
        guarantee.epsilon >= planned.epsilon * (1 - 1e-9)
        and guarantee.delta >= planned.delta * (1 - 1e-9)
        and all(getattr(planned, x) == getattr(guarantee, x) for x in names)
    )


def _mark_observed(estimator: BaseEstimator) -> None:
    """State the classes that versions before 0.6.0 read from the data as not covered by the guarantee."""
    state = vars(estimator)
    guarantee, domain = state.get("guarantee_"), state.get("domain_")
    if not isinstance(guarantee, PrivacyGuarantee) or not isinstance(domain, Domain):
        return
    observed = tuple(name for name in domain if domain[name].observed)
    # A guarantee for the target alone has no columns left, so only statements except it.
    if observed and guarantee.relation == "add_remove":
        estimator.guarantee_ = replace(guarantee.to("replace"), observed=observed)


def _dump_transformer(
    transformer: ReportTransformer, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON of the protocol of a local transformer."""
    _check_parameters(transformer, parameters)
    return {"protocol": transformer.to_json()}


def _load_transformer(
    unfitted: ReportTransformer, fitted: Mapping[str, Any]
) -> ReportTransformer:
    """Return a local transformer with the parameters of `unfitted` and a state of `_dump_transformer`."""
    parameters = unfitted.get_params(deep=False)
    text = fitted["protocol"]
    if observed := fitted.get("observed"):
        # Versions before 0.6.0 wrote these columns beside the protocol.
        content = json.loads(text)
        scope = content["guarantee"]["scope"]
        content["guarantee"] |= {
            "scope": [name for name in scope if name not in observed],
            "observed": list(map(value_to_json, observed)),
        }
        text = json.dumps(content)
    # `from_json` computes the guarantee from the parameters.
    transformer = type(unfitted).from_json(text)
    _check_parameters(transformer, parameters)
    # The JSON lacks the ledger and the seed, and has lists of values instead of 'auto'.
    for name, value in parameters.items():
        setattr(transformer, name, value)
    transformer._ledger = transformer.ledger
    transformer._seed = transformer.random_state
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
                f"`{name}` was changed after fit. Fit the "
                f"{type(transformer).__name__} again."
            )


# Values.


def _dump_domain(domain: Domain) -> dict[str, Any]:
    """Return the columns of a domain, its expressions and releases."""
    return {
        "columns": list(domain.items()),
        "constraints": list(domain.constraints),
        "derived": domain.derived,
        "releases": list(domain.releases),
    }


def _load_domain(state: dict[str, Any]) -> Domain:
    """Return the domain of a state of `_dump_domain`."""
    releases = state.pop("releases")
    domain = Domain(dict(state.pop("columns")), **state)
    domain.releases = tuple(releases)
    return domain


def _dump_attribute(values: Categories | Interval) -> list[Any]:
    """Return the JSON of declared values, whether they are ordered and observed, and their releases."""
    is_list = not isinstance(values, Interval | FoundCategories)
    content = value_to_json(list(values.values) if is_list else values)
    is_ordered = getattr(values, "ordered", False)
    return [content, is_ordered, values.observed, list(values.releases)]


def _load_attribute(state: list[Any]) -> Categories | Interval:
    """Return the declared values of a state of `_dump_attribute`."""
    content, is_ordered, is_observed, releases = state
    values = value_from_json(content)
    if isinstance(values, list):
        values = Categories(values, ordered=is_ordered)
    if is_observed:
        values.observed = True
    values.releases = tuple(releases)
    return values


def _load_guarantee(state: list[Any]) -> PrivacyGuarantee:
    """Return the guarantee of its JSON and its scope, because the JSON lacks some types of column names."""
    return replace(PrivacyGuarantee.from_json(state[0]), scope=tuple(state[1]))


def _dump_template(template: Table) -> dict[str, Any]:
    """Return the library and names of a table without rows, the template of the outputs of an estimator.

    Dtypes are not saved, because the dtypes of outputs follow from the domain, except that columns may have categories,
    which may be ordered.
    """
    are_ordered = []
    for column in template.columns:
        has_order = has_order_of(column, ())
        are_ordered.append(has_order if has_categories(column) else None)
    return {
        "library": library_of(template.columns[0]),
        "names": list(template.names),
        "ordered": are_ordered,
    }


def _load_table_template(state: dict[str, Any]) -> Table:
    """Return a table without rows, whose library and column names outputs get."""
    library, columns = state["library"], []
    for is_ordered in state["ordered"]:
        # The declared values are not part of the template.
        dtype = find_dtype(library, "string", ("",), is_ordered=is_ordered)
        columns.append(empty_column(library, dtype))
    native: Any = np.empty((0, len(columns)), object)
    if library != "numpy":
        native = nw.from_dict({}, backend=library).to_native()
    return Table(tuple(state["names"]), tuple(columns), native)


# By the name in a file: a type, and functions that return its state and load the state.
_SAVED_TYPES: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "Domain": (Domain, _dump_domain, _load_domain),
    "Release": (Release, list, lambda state: Release(*state)),
    "Categories": (Categories | Interval, _dump_attribute, _load_attribute),
    "PrivacyGuarantee": (
        PrivacyGuarantee,
        lambda guarantee: [guarantee.to_json(), list(guarantee.scope)],
        _load_guarantee,
    ),
    "Rho": (Rho, lambda budget: dict(vars(budget)), lambda state: Rho(**state)),
    "Mu": (Mu, lambda budget: dict(vars(budget)), lambda state: Mu(**state)),
    "Table": (Table, _dump_template, _load_table_template),
    # A table of results, without its index.
    "DataFrame": (
        pd.DataFrame,
        lambda frame: [[name, column.to_numpy()] for name, column in frame.items()],
        lambda state: pd.DataFrame(dict(state)).infer_objects(),
    ),
    # Names of columns.
    "Index": (pd.Index, list, lambda state: np.array(state, object)),
    # A dict with keys that are not text is a list of pairs.
    "dict": ((), list, dict),
    "range": (
        range,
        lambda values: [values.start, values.stop, values.step],
        lambda state: range(*state),
    ),
    # Other values of parameters, whose types skops does not trust.
    "value": ((date, Fraction), value_to_json, value_from_json),
}
