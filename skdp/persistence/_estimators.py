"""Estimators as JSON: their class, their parameters, and what `fit` made of them, or a protocol that it makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from skdp.domain import pack, unpack
from skdp.local import ReportTransformer, fit_declared, pack_protocol
from skdp.persistence._classes import SavedClass, by_class, by_name
from skdp.persistence._values import Values
from skdp.privacy import PrivacyGuarantee

# What `set_output` and `set_transform_request` set.
_OUTPUT = "_sklearn_output_config"
_ROUTING = "_metadata_request"
_FRAMES = ("default", "pandas", "polars", None)

# As in a copy, calls are counted from 0.
_RESTARTS = frozenset({"_calls"})

_PARTS = {"class", "parameters", "fitted", "output", "routing"}


def write_estimator(estimator: Any, values: Values) -> dict[str, Any]:
    """Write an estimator as JSON."""
    kind = type(estimator)
    saved = by_class(kind)
    if saved is None:
        raise TypeError(
            f"a {kind.__name__} cannot be saved: skdp.save takes the estimators of"
            " skdp, and those of scikit-learn whose fitted state is plain arrays"
        )
    values.has_others = values.has_others or not saved.name.startswith("skdp.")
    parameters = estimator.get_params(deep=False)
    _check_fixed(saved, parameters)
    guarantee = vars(estimator).get("guarantee_")
    if guarantee is not None:
        check_guarantee(estimator, guarantee)
    content: dict[str, Any] = {"class": saved.name, "parameters": {}}
    for name, value in parameters.items():
        content["parameters"][name] = values.write_of(estimator, name, value)
    fitted = {}
    for name, value in _describe_fit(estimator, saved).items():
        fitted[name] = values.write_of(estimator, name, value)
    if fitted:
        content["fitted"] = fitted
    if _OUTPUT in vars(estimator):
        content["output"] = getattr(estimator, _OUTPUT)
    if _ROUTING in vars(estimator):
        content["routing"] = _requests(getattr(estimator, _ROUTING))
    return content


def _describe_fit(estimator: Any, saved: SavedClass) -> dict[str, Any]:
    """Return what `fit` made of an estimator, by name; nothing if it is not fitted."""
    kind = type(estimator)
    if issubclass(kind, ReportTransformer):
        is_fitted = hasattr(estimator, "protocol_")
        return describe_protocol(estimator) if is_fitted else {}
    if hasattr(kind, "_describe_fit"):
        return estimator._describe_fit()
    parameters = estimator.get_params(deep=False)
    attributes = {}
    for name, value in vars(estimator).items():
        if name in parameters or name in _RESTARTS or name in (_OUTPUT, _ROUTING):
            continue
        if not saved.holds(kind, name):
            raise TypeError(
                f"{kind.__name__}.{name} is an attribute that skdp.save does not know"
            )
        attributes[name] = value
    return attributes


def read_estimator(content: Any, values: Values) -> Any:
    """Make the estimator that `write_estimator` wrote."""
    saved = by_name(content["class"])
    unknown_parts = content.keys() - _PARTS
    if unknown_parts:
        raise ValueError(f"{saved.name} has no part {min(unknown_parts)[:50]!r}")
    kind = saved.find()
    parameters = {}
    for name, value in content["parameters"].items():
        if name not in kind._get_param_names():
            raise ValueError(
                f"{saved.name} has no parameter {name[:50]!r} in this version"
            )
        parameters[name] = values.read(value)
    _check_fixed(saved, parameters)
    estimator = _restored(saved, kind, parameters, content.get("fitted"), values)
    _check_common(estimator)
    if "output" in content:
        _set_output(estimator, content["output"])
    if "routing" in content:
        _set_requests(estimator, content["routing"])
    return estimator


def _restored(
    saved: SavedClass,
    kind: type[Any],
    parameters: dict[str, Any],
    packed: Any,
    values: Values,
) -> Any:
    """Make an estimator of its parameters, and what `fit` made of it."""
    if packed is None:
        return kind(**parameters)
    fitted = {}
    for name, value in packed.items():
        fitted[name] = values.read(value)
    # No attribute is set where it could replace what follows from a protocol, such as
    # the guarantee.
    if issubclass(kind, ReportTransformer):
        return refit(kind, parameters, fitted)
    estimator = kind(**parameters)
    if hasattr(kind, "_restore_fit"):
        estimator._restore_fit(fitted)
        return estimator
    for name, value in fitted.items():
        if not saved.holds(kind, name):
            raise ValueError(f"{saved.name} has no attribute {name[:50]!r}")
        setattr(estimator, name, value)
    return estimator


def _check_fixed(saved: SavedClass, parameters: Mapping[str, Any]) -> None:
    for name in saved.fixed:
        if parameters.get(name) is not None:
            raise ValueError(
                f"{saved.name} with {name}= cannot be saved, as files of its cache"
                " could run code; set None"
            )


def _check_common(estimator: Any) -> None:
    """Check the fitted attributes that all estimators have."""
    fitted = vars(estimator)
    n_features = fitted.get("n_features_in_", 0)
    is_whole = isinstance(n_features, Integral) and not isinstance(n_features, bool)
    if not is_whole or n_features < 0:
        raise ValueError("the number of features is none")
    names = fitted.get("feature_names_in_", np.empty(n_features))
    if not isinstance(names, np.ndarray) or names.shape != (n_features,):
        raise ValueError("the names of the features do not fit their number")
    guarantee = fitted.get("guarantee_")
    if guarantee is not None and not isinstance(guarantee, PrivacyGuarantee):
        raise ValueError("the guarantee is none")
    if guarantee is not None:
        check_guarantee(estimator, guarantee)


def check_guarantee(estimator: Any, guarantee: PrivacyGuarantee) -> None:
    """Refuse a guarantee that does not follow from the parameters."""
    follows = getattr(estimator, "_follows_from_parameters", None)
    if follows is not None and not follows(guarantee):
        raise ValueError(
            f"the guarantee_ of {type(estimator).__name__} does not follow from its"
            " parameters: they were changed after fit, or the file was. Fit it again"
        )


def _set_output(estimator: Any, output: Any) -> None:
    if output.keys() - {"transform"} or output.get("transform") not in _FRAMES:
        raise ValueError("the output is of an unknown kind")
    setattr(estimator, _OUTPUT, output)


def _requests(routing: MetadataRequest) -> dict[str, Any]:
    """List the metadata that each method asks for."""
    requests = {}
    for method, request in vars(routing).items():
        requested = getattr(request, "requests", None)
        if requested:
            requests[method] = dict(requested)
    return requests


def _set_requests(estimator: Any, content: Any) -> None:
    routing = estimator.get_metadata_routing()
    if not isinstance(routing, MetadataRequest):
        raise ValueError("the estimator asks for no metadata")
    for method, requests in content.items():
        request = getattr(routing, method)
        if not hasattr(request, "requests"):
            raise ValueError("metadata are asked for by an unknown method")
        for name, alias in requests.items():
            request.add_request(param=name, alias=alias)
    setattr(estimator, _ROUTING, routing)


_CHANGED = (
    "its parameters were changed after fit, which would change its protocol; fit it"
    " again before it is saved"
)

_PROTOCOL_PARTS = {"columns", "named", "declared", "observed", "protocol", "of_seed"}


def describe_protocol(transformer: ReportTransformer) -> dict[str, Any]:
    """Describe what a transformer was fitted to, and the protocol that it must make."""
    protocol = transformer.protocol_
    name = type(transformer).__name__
    parameters = transformer.get_params(deep=False)
    is_same_key = protocol.permanent_key == parameters.get("secret_key")
    is_same_seed = transformer._seed == transformer.random_state
    if not (is_same_key and is_same_seed and transformer._ledger is transformer.ledger):
        raise ValueError(f"{name}: {_CHANGED}")
    observed = []
    if protocol.domain is not None:
        for column in protocol.domain.columns:
            if protocol.domain[column].observed:
                observed.append(column)
    packed = pack_protocol(protocol)
    is_named = hasattr(transformer, "feature_names_in_")
    columns = list(protocol.columns)
    try:
        again = type(transformer)(**{**parameters, **protocol.declared})
        # A transformer from the JSON of a seeded one has no seed of its own.
        of_seed = transformer.random_state is None and not protocol.guarantee.secure
        fit_declared(again, columns, is_named=is_named, is_seeded=of_seed)
        is_same = _makes_same_protocol(again, packed)
        is_same = is_same and again.guarantee_ == protocol.guarantee
    except ValueError:
        is_same = False
    if not is_same:
        raise ValueError(
            f"{name}: {_CHANGED}, or its domain is larger than skdp.load accepts"
        )
    return {
        "columns": columns,
        "named": is_named,
        "declared": dict(protocol.declared),
        "observed": observed,
        "protocol": unpack(packed),
        "of_seed": of_seed,
    }


def refit(
    kind: type[ReportTransformer],
    parameters: Mapping[str, Any],
    fitted: Mapping[str, Any],
) -> ReportTransformer:
    """Fit a transformer to what is declared: its guarantee follows from its parameters."""
    if fitted.keys() != _PROTOCOL_PARTS:
        raise ValueError(f"{kind.__name__} is fitted to other parts")
    declared = fitted["declared"]
    transformer = kind(**{**parameters, **declared})
    expected = pack(fitted["protocol"])
    fit_declared(
        transformer,
        fitted["columns"],
        is_named=fitted["named"] is True,
        is_seeded=fitted["of_seed"] is True,
    )
    if not _makes_same_protocol(transformer, expected):
        raise ValueError(
            "this version of skdp makes another protocol of the parameters of"
            f" {kind.__name__}"
        )
    protocol: Any = transformer.protocol_
    if declared.keys() != protocol.declared.keys():
        raise ValueError("the parameters by column are not those of the protocol")
    # `declared` was put in place of the caller's parameters for the fit only.
    for name in declared:
        setattr(transformer, name, parameters[name])
    for column in fitted["observed"]:
        protocol.domain[column].observed = True
    return transformer


def _makes_same_protocol(transformer: ReportTransformer, packed: Any) -> bool:
    # As text, because 1 == True in Python.
    return json.dumps(pack_protocol(transformer.protocol_)) == json.dumps(packed)
