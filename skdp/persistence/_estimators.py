"""Estimators as JSON: their class, their parameters, and what `fit` made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from skdp.local import ReportTransformer, as_of_seed, comparable, forget_names, refitted
from skdp.persistence._classes import SavedClass, by_class, by_name
from skdp.persistence._values import Reader, Writer, mark_observed
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis import (
    DPMarginalSynthesizer,
    describe_fit,
    read_domain,
    restore_fit,
)

_OUTPUT, _ROUTING = "_sklearn_output_config", "_metadata_request"
_RESTARTS = frozenset({"_calls"})
"""As in a copy, calls are counted from 0."""

_CHANGED = (
    "its parameters were changed after fit, which would change its protocol; fit it"
    " again before it is saved"
)


def write_estimator(estimator: Any, writer: Writer) -> dict[str, Any]:
    """Write an estimator as JSON."""
    kind = type(estimator)
    saved = by_class(kind)
    if saved is None:
        raise TypeError(
            f"a {kind.__name__} cannot be saved: skdp.save takes the estimators of"
            " skdp, and those of scikit-learn whose fitted state is plain arrays; see"
            " skdp.persistence.register for classes of your own"
        )
    parameters = estimator.get_params(deep=False)
    _check_fixed(saved, parameters)
    content = {
        "class": saved.name,
        "parameters": {
            name: writer.parameter(estimator, name, value)
            for name, value in parameters.items()
        },
    }
    attributes = {
        name: value for name, value in vars(estimator).items() if name not in parameters
    }
    if _OUTPUT in attributes:
        content["output"] = attributes.pop(_OUTPUT)
    if _ROUTING in attributes:
        content["routing"] = _requests(attributes.pop(_ROUTING))
    part = _part_of(kind)
    if part == "protocol":
        return content | (
            {part: _protocol(estimator, writer)}
            if hasattr(estimator, "protocol_")
            else {}
        )
    if part == "model":
        return content | (
            {part: _model(estimator, writer)} if hasattr(estimator, "model_") else {}
        )
    attributes = {
        name: value for name, value in attributes.items() if name not in _RESTARTS
    }
    for name in attributes:
        if not saved.holds(kind, name):
            raise TypeError(
                f"{kind.__name__}.{name} is an attribute that skdp.save does not know"
            )
    return content | {
        part: {
            name: writer.parameter(estimator, name, value)
            for name, value in attributes.items()
        }
    }


def _part_of(kind: type[Any]) -> str:
    """Name the part that holds what `fit` made of an estimator."""
    # No other part may be there: attributes would replace what follows from a protocol, such as the guarantee.
    if issubclass(kind, ReportTransformer):
        return "protocol"
    return "model" if issubclass(kind, DPMarginalSynthesizer) else "attributes"


def read_estimator(content: Any, reader: Reader) -> Any:
    """Make the estimator that `write_estimator` wrote."""
    saved = by_name(content["class"])
    kind = saved.find()
    if unknown := content.keys() - {
        "class",
        "parameters",
        "output",
        "routing",
        _part_of(kind),
    }:
        raise ValueError(f"{saved.name} has no part {min(unknown)[:50]!r}")
    parameters = {
        name: reader.read(value) for name, value in content["parameters"].items()
    }
    if unknown := parameters.keys() - set(kind._get_param_names()):
        raise ValueError(
            f"{saved.name} has no parameter {min(unknown)[:50]!r} in this version"
        )
    _check_fixed(saved, parameters)
    if "protocol" in content:
        estimator = _refit(kind, parameters, content["protocol"], reader)
    else:
        estimator = kind(**parameters)
        if "model" in content:
            _restore_model(estimator, content["model"], reader)
    for name, value in content.get("attributes", {}).items():
        if not saved.holds(kind, name):
            raise ValueError(f"{saved.name} has no attribute {name[:50]!r}")
        setattr(estimator, name, reader.read(value))
    _check_common(estimator)
    if "output" in content:
        if (
            content["output"].keys() - {"transform"}
            or content["output"].get("transform") not in _FRAMES
        ):
            raise ValueError("the output is of an unknown kind")
        setattr(estimator, _OUTPUT, content["output"])
    if "routing" in content:
        _set_requests(estimator, content["routing"])
    return estimator


_FRAMES = ("default", "pandas", "polars", None)


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
    width, names = fitted.get("n_features_in_", 0), fitted.get("feature_names_in_")
    if isinstance(width, bool) or not isinstance(width, Integral) or width < 0:
        raise ValueError("the number of features is none")
    if names is not None and (
        not isinstance(names, np.ndarray) or names.shape != (width,)
    ):
        raise ValueError("the names of the features do not fit their number")
    if "guarantee_" in fitted and not isinstance(
        fitted["guarantee_"], PrivacyGuarantee
    ):
        raise ValueError("the guarantee is none")


def _protocol(transformer: Any, writer: Writer) -> dict[str, Any]:
    """Describe the protocol of a fitted local transformer: what makes it again, and what it must be."""
    protocol = transformer.protocol_
    key = getattr(transformer, "secret_key", None)
    if (transformer._seed, protocol.permanent_key) != (transformer.random_state, key):
        raise ValueError(f"{type(transformer).__name__}: {_CHANGED}")
    if transformer._ledger is not transformer.ledger:
        raise ValueError(f"{type(transformer).__name__}: {_CHANGED}")
    domain: Any = protocol.domain
    content = {
        "columns": writer.write(list(protocol.columns)),
        "named": hasattr(transformer, "feature_names_in_"),
        "declared": {
            name: writer.write(value) for name, value in protocol.declared.items()
        },
        "observed": [
            place
            for place, name in enumerate(domain.columns if domain else ())
            if domain[name].observed
        ],
        "parameters": json.loads(json.dumps(comparable(protocol), allow_nan=False)),
    }
    again = type(transformer)(**transformer.get_params(deep=False) | protocol.declared)
    try:
        same = refitted(again, list(protocol.columns), content["parameters"])
        if same and again.guarantee_.secure and not protocol.guarantee.secure:
            again, content["of_seed"] = as_of_seed(again), True
        same = same and again.guarantee_ == protocol.guarantee
    except ValueError:
        same = False
    if not same:
        raise ValueError(
            f"{type(transformer).__name__}: {_CHANGED}, or its domain is larger than"
            " skdp.load accepts"
        )
    return content


def _refit(
    kind: type[Any], parameters: Mapping[str, Any], content: Any, reader: Reader
) -> Any:
    """Fit a local transformer to what is declared: its random bits and its guarantee follow from its parameters."""
    declared = {name: reader.read(value) for name, value in content["declared"].items()}
    transformer = kind(**{**parameters, **declared})
    if not refitted(
        transformer, reader.read(content["columns"]), content["parameters"]
    ):
        raise ValueError(
            "this version of skdp makes another protocol of the parameters of"
            f" {kind.__name__}"
        )
    if declared.keys() != transformer.protocol_.declared.keys():
        raise ValueError("the parameters by column are not those of the protocol")
    if not content["named"]:
        forget_names(transformer)
    for name in declared:
        setattr(transformer, name, parameters[name])
    if content["observed"]:
        mark_observed(transformer.protocol_.domain, content["observed"])
    return as_of_seed(transformer) if content.get("of_seed") is True else transformer


def _model(synthesizer: Any, writer: Writer) -> dict[str, Any]:
    described, arrays = describe_fit(synthesizer)
    redraw = writer.parameter(synthesizer, "redraw", synthesizer._redraw_at_fit)
    return described | {
        "redraw": redraw,
        "arrays": {name: writer.write(array) for name, array in arrays.items()},
    }


def _restore_model(synthesizer: Any, content: Any, reader: Reader) -> None:
    places = content["arrays"]
    restore_fit(
        synthesizer,
        content,
        read_domain(content),
        lambda name, shape: reader.array(places[name]["array"], shape),
    )
    synthesizer._redraw_at_fit = reader.read(content["redraw"])


def _requests(routing: MetadataRequest) -> dict[str, Any]:
    """List the metadata that each method asks for."""
    methods = {
        name: getattr(request, "requests", None)
        for name, request in vars(routing).items()
    }
    return {name: dict(asked) for name, asked in methods.items() if asked}


def _set_requests(estimator: Any, content: Any) -> None:
    routing = estimator.get_metadata_routing()
    if not isinstance(routing, MetadataRequest):
        raise ValueError("the estimator asks for no metadata")
    for method, asked in content.items():
        if not hasattr(getattr(routing, method), "requests"):
            raise ValueError("metadata are asked for by an unknown method")
        for name, alias in asked.items():
            getattr(routing, method).add_request(param=name, alias=alias)
    setattr(estimator, _ROUTING, routing)
