"""JSON of a fitted local transformer: the public parameters of client and server."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np

from skdp._arrays import ColumnName, TableLike
from skdp._json import (
    MAX_DECLARED_VALUES,
    check_version,
    parse_json,
    value_from_json,
    value_to_json,
)
from skdp.base import find_bounds
from skdp.domain import (
    Categories,
    Domain,
    Interval,
    add_guarantee,
    guarantee_fields,
)
from skdp.local._memo import SecretKey
from skdp.local.protocol._protocol import ReportProtocol
from skdp.local.protocol._report_columns import Reports
from skdp.privacy import PrivacyGuarantee, WeakGuaranteeWarning
from skdp.tables import get_protocol_text

_FORMAT = "skdp-protocol"
_VERSION = 3

# Parameters of a transformer that the JSON does not contain.
_SECRET_PARAMETERS = ("ledger", "random_state", "secret_key")

# Fields of a guarantee that must follow from the parameters. The other fields are texts,
# which may come from another version of skdp.
_COMPARED = (
    "epsilon",
    "delta",
    "relation",
    "trust",
    "rho",
    "scope",
    "observed",
    "max_rows_per_person",
)


class ProtocolJson:
    """JSON of a fitted transformer, which is written on first use."""

    def __init__(self, transformer: Any, protocol: ReportProtocol) -> None:
        # The JSON has all parameters of the transformer except secret keys, and is
        # written at the first use. `_is_named` is True if `fit` stored `feature_names_in_`.
        self._name = type(transformer).__name__
        self._is_named = hasattr(transformer, "feature_names_in_")
        self._is_seeded = transformer.random_state is not None
        self._protocol = protocol
        # Parameters of third-party classes may be secret, so their JSON is not attached to
        # reports.
        self._is_carried = _is_internal(type(transformer))
        self._parameters = {}
        for name, value in transformer.get_params(deep=False).items():
            if name not in _SECRET_PARAMETERS:
                # A copy, because the user may change a dict after `fit`.
                is_mapping = isinstance(value, Mapping)
                self._parameters[name] = dict(value) if is_mapping else value

    @cached_property
    def text(self) -> str:
        """JSON of the transformer."""
        protocol = self._protocol
        parameters = {}
        for name, value in (self._parameters | protocol.declared).items():
            parameters[name] = value_to_json(value)
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "transformer": self._name,
            "parameters": parameters,
            "columns": list(map(value_to_json, protocol.columns)),
            "named": self._is_named,
            "permanent": protocol.permanent_key is not None,
            "seeded": self._is_seeded,
            "protocol": _pack_protocol(protocol),
            "guarantee": describe_guarantee(protocol.guarantee),
            "client": None,
        }
        try:
            content["client"] = _describe_client(protocol)
        except ValueError as error:
            content["no_client"] = str(error)
        found = []
        for name, value in self._parameters.items():
            # Lists of values declare the columns in their order.
            is_listed = name in protocol.declared and isinstance(value, list | tuple)
            if is_listed and len(value) == len(protocol.columns):
                value = dict(zip(protocol.columns, value, strict=True))
            if isinstance(value, Mapping):
                for fields in guarantee_fields(value):
                    found.append({"parameter": name} | fields)
        if found:
            content["found_domain"] = found
        return json.dumps(content, allow_nan=False)

    @property
    def carried_text(self) -> str | None:
        """JSON for the metadata of reports, or None if it may be secret or cannot be written."""
        if self._is_carried:
            # Some declared values cannot be written as JSON.
            with suppress(TypeError, ValueError):
                return self.text
        return None

    @property
    def text_in_memory(self) -> str | None:
        """JSON for the metadata of reports in memory; None for more than 2048 values."""
        # Each pickle and file of the reports contains a copy of the metadata.
        domain = self._protocol.domain
        if domain is not None and sum(domain.sizes) > 1 << 11:
            return None
        return self.carried_text


def _pack_protocol(protocol: ReportProtocol) -> Any:
    """Convert the parameters on which client and server must agree to JSON values."""
    return value_to_json(protocol.parameters())


def describe_guarantee(guarantee: PrivacyGuarantee) -> dict[str, Any]:
    """Convert a guarantee to a dict of its fields and its text."""
    fields = asdict(guarantee)
    del fields["losses"], fields["method"]  # They follow from the parameters.
    fields["observed"] = list(map(value_to_json, guarantee.observed))
    return fields | {"text": str(guarantee)}


# Reading.


def transformer_from_text(text: str, base_class: type[Any]) -> Any:
    """Make a fitted transformer of `base_class`, or of a subclass, from its JSON.

    The transformer is fitted again to the declared values, and its own JSON must agree
    with the text.
    """
    content = _parse_protocol(text)
    name = content["transformer"]
    transformer_class = _find_class(name, base_class)
    transformer = None
    # An untrusted text can raise any exception, whose message may contain the text.
    with suppress(Exception):
        transformer = _refit(content, transformer_class)
    if transformer is None:
        raise ValueError(
            f"The protocol of {name} must have valid parameters; a parameter is "
            "missing, invalid or too large. Use the output of `to_json`."
        )
    if _comparable_parts(content) != _comparable_parts(
        json.loads(transformer.to_json())
    ):
        raise ValueError(
            f"The protocol, guarantee or client of {name} does not follow from its "
            "parameters. The text was edited, or written by another version of skdp."
        )
    return transformer


def _parse_protocol(text: str) -> dict[str, Any]:
    """Parse the JSON of a protocol, and check its format, version and the types of the required entries."""
    content = parse_json(text, "A protocol")
    if isinstance(content, dict) and content.get("format") == _FORMAT:
        check_version(content.get("version"), _VERSION, "The protocol")
    is_protocol = (
        isinstance(content, dict)
        and content.get("format") == _FORMAT
        and content.get("version") == _VERSION
        and isinstance(content.get("transformer"), str)
        and isinstance(content.get("permanent"), bool)
    )
    if not is_protocol:
        raise ValueError(
            "The text must be the protocol of a local transformer (format "
            f"{_FORMAT!r}, version {_VERSION}), as `to_json` writes it."
        )
    return dict(content)


def _find_class(name: str, base_class: type[Any]) -> type[Any]:
    """Find a class by name among a class and its subclasses in skdp."""
    # The untrusted name only selects among known classes. It is not imported or called.
    for candidate in (base_class, *_list_internal_subclasses(base_class)):
        if candidate.__name__ == name and not inspect.isabstract(candidate):
            return candidate
    raise ValueError(
        f"The protocol must be of {base_class.__name__} or a subclass, got another "
        "class. Use ReportTransformer.from_json for every class of skdp."
    )


def _list_internal_subclasses(base_class: type[Any]) -> Iterator[type[Any]]:
    """Yield the direct and indirect subclasses of a class that are defined in skdp."""
    for subclass in base_class.__subclasses__():
        if _is_internal(subclass):
            yield subclass
            yield from _list_internal_subclasses(subclass)


def _is_internal(transformer_class: type[Any]) -> bool:
    """Return True if a class is defined in skdp."""
    return transformer_class.__module__.startswith("skdp.")


def _refit(content: Mapping[str, Any], transformer_class: type[Any]) -> Any:
    """Make a transformer with the parameters in JSON, and fit it to the declared values.

    No data are available. Errors are replaced by the caller, so some have no message.
    """
    parameters = {
        name: value_from_json(value) for name, value in content["parameters"].items()
    }
    if not parameters.keys().isdisjoint(_SECRET_PARAMETERS):
        raise ValueError
    by_parameter: dict[str, list[Any]] = {}
    for release in content.get("found_domain", []):
        fields = dict(release)
        by_parameter.setdefault(fields.pop("parameter"), []).append(fields)
    for name, releases in by_parameter.items():
        declared = parameters[name]
        if name == "bounds":
            declared = make_intervals(declared)
        parameters[name] = add_guarantee(Domain(declared), releases)
    # Versions before 0.6.0 did not write which categories were read from the data.
    for name in map(value_from_json, content["guarantee"].get("observed", [])):
        parameters["categories"] |= {name: Categories(parameters["categories"][name])}
        parameters["categories"][name].observed = True
    transformer = transformer_class(**parameters)
    if content["permanent"] is True:
        # The JSON does not contain the key. A new key makes permanent reports different.
        transformer.set_params(secret_key=SecretKey.generate())
    is_secure = content["guarantee"]["secure"] is True and not content["seeded"]
    columns = list(map(value_from_json, content["columns"]))
    _fit_declared(
        transformer,
        columns,
        is_named=content["named"] is True,
        is_seeded=not is_secure,
    )
    return transformer


def make_intervals(bounds: Mapping[Any, Any]) -> dict[Any, Interval]:
    """Return the bounds of each column, (low, high) or an Interval, as an Interval of real numbers."""
    intervals = {}
    for name, pair in bounds.items():
        intervals[name] = Interval(*find_bounds(pair, name), bins=1, real=True)
    return intervals


def _fit_declared(
    transformer: Any, columns: list[Any], *, is_named: bool, is_seeded: bool
) -> None:
    """Fit a transformer to a row of declared values, because no data are available.

    `is_named` is False if the stored transformer has no `feature_names_in_`: it was fitted
    on an array, or on columns whose names are not all strings. `is_seeded` is True if its
    reports were not secure.
    """
    _check_n_values(getattr(transformer, "categories", ()))
    row: Any = transformer._declared_row(columns)[columns]
    if not is_named and all(isinstance(name, str) for name in columns):
        row = row.to_numpy()  # its columns have the names x0, x1, ...
    random_state = transformer.random_state
    if is_seeded:
        # A seed during `fit` makes the guarantee state that the reports were not secure. New
        # reports of this transformer use secure randomness, so the seed is removed below.
        transformer.random_state = 0
    # The client that made the reports has warned already.
    with warnings.catch_warnings(action="ignore", category=WeakGuaranteeWarning):
        transformer.fit(row)
    if is_seeded:
        transformer.random_state = transformer._seed = random_state


def _check_n_values(declared: Any) -> None:
    """Raise an error if there are too many declared values, which would need much memory."""
    if isinstance(declared, Mapping):
        declared = declared.values()
    if sum(map(len, declared)) > MAX_DECLARED_VALUES:
        raise ValueError(
            f"The protocol must have at most {MAX_DECLARED_VALUES:,} declared values."
        )


def _comparable_parts(content: Mapping[str, Any]) -> str:
    """Return the parts of a protocol that must follow from its parameters, as text for a comparison."""
    guarantee = {"observed": []} | content["guarantee"]
    parts = {
        "protocol": content.get("protocol"),
        "guarantee": {name: guarantee.get(name) for name in _COMPARED},
        "client": content.get("client"),
    }
    # The parts are compared as text, because 1 and True are equal in Python.
    return json.dumps(parts, sort_keys=True)


# Protocols in the metadata of reports.


def read_and_tally(reports: TableLike, transformer: Any) -> tuple[Reports, Any]:
    """Convert a table of reports to an array for each field, and return them with their tally.

    The protocol in the metadata of the table, if any, must be the protocol of the
    transformer.
    """
    protocol = transformer.protocol_
    check_attached_protocol(get_protocol_text(reports), transformer)
    arrays: Reports = protocol.read(reports)
    return arrays, protocol.tally(arrays)


def check_attached_protocol(text: str | None, transformer: Any) -> None:
    """Raise an error if the metadata of reports contains the protocol of another transformer."""
    if text is None or text == transformer._json.carried_text:
        return
    content = _parse_protocol(text)
    meaning = None
    with suppress(TypeError, ValueError):
        meaning = _pack_meaning(_pack_protocol(transformer.protocol_))
    if meaning is None or _pack_meaning(content.get("protocol")) != meaning:
        raise ValueError(
            "The metadata of the reports contains the protocol of another transformer, "
            "domain or epsilon. Use the transformer that made the reports, or "
            "skdp.read_protocol(reports)."
        )


def _pack_meaning(protocol: object) -> str | None:
    """Return the parts of a protocol that determine the meaning of reports, as text; None if it is no mapping."""
    if not isinstance(protocol, dict):
        return None
    # The treatment of values outside the domain does not change the meaning.
    meaning = {name: value for name, value in protocol.items() if name != "unknown"}
    return json.dumps(meaning)


# Parameters of a client in another language (examples/client).


def _describe_client(protocol: ReportProtocol) -> dict[str, Any]:
    """Return the parameters with which a client, such as a web page, makes reports.

    A ValueError states the reason if the client cannot make the reports of this
    protocol.
    """
    domain = protocol.domain
    is_mixed = len({field.reports_values for field in protocol.fields}) > 1
    if protocol.strategy is None or domain is None or is_mixed:
        raise ValueError("A client requires an encoder with frequency oracles.")
    if protocol.memo is not None:
        raise ValueError("A client has no permanent reports.")
    columns = []
    for name in domain.columns:
        values = domain[name]
        _check_representable(name, values)
        column: dict[str, Any] = {"name": name, "values": list(values.values)}
        if isinstance(values, Interval):
            column["edges"] = list(values.edges)
            column["whole"] = not values.takes_fractions
        columns.append(column)
    samplers = []
    for oracle in protocol.oracles:
        try:
            samplers.append(oracle.sampler())
        except NotImplementedError:
            name = type(oracle).__name__
            raise ValueError(f"{name} has no sampler for clients.") from None
    return {
        "strategy": protocol.strategy,
        "columns": columns,
        "samplers": samplers,
        "report_columns": list(map(str, protocol.report_columns)),
        "reports_values": protocol.values is not None,
    }


def _check_representable(name: ColumnName, values: Categories | Interval) -> None:
    """Raise an error if JavaScript does not represent the values of a column exactly."""
    if not isinstance(name, str):
        raise ValueError(
            f"A client requires column names that are strings, got {name!r}."
        )
    if isinstance(values, Interval):
        # The client finds bins with edges that are doubles. They must be the bins of skdp.
        middles = [middle for middle in values.values if middle is not None]
        is_exact = values.dtype.kind == "f" and np.array_equal(
            values.encode(np.array(middles, float)), range(len(middles))
        )
    else:
        is_exact = all(map(_is_representable, values.values))
    if not is_exact:
        raise ValueError(
            f"Column {name!r} must have values that a client represents exactly: text, "
            "booleans, integers below 2**53 or bins of floats."
        )


def _is_representable(value: object) -> bool:
    """Return True for None, text, booleans, and integers of at most 53 bits."""
    is_exact = isinstance(value, int) and abs(value) < 1 << 53
    return value is None or isinstance(value, str) or is_exact
