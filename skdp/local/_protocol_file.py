"""A fitted local transformer as JSON: what a client and a server must agree on, and no secret."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from skdp.domain import Domain, Interval, pack, unpack
from skdp.local.memo import SecretKey
from skdp.local.protocol import OracleProtocol, ReportProtocol, ValueProtocol

_FORMAT, _VERSION = "skdp-protocol", 1
_SECRET = ("ledger", "random_state", "secret_key")
_MOST_CHARACTERS = 1 << 26


def write_protocol(transformer: Any) -> str:
    """Write a fitted transformer as JSON."""
    protocol = transformer.protocol_
    parameters = {name: value for name, value in transformer.get_params(deep=False).items() if name not in _SECRET}
    parameters |= protocol.declared
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "transformer": type(transformer).__name__,
        "parameters": {name: pack(value) for name, value in parameters.items()},
        "columns": [pack(name) for name in protocol.columns],
        "protocol": comparable(protocol),
        "guarantee": asdict(protocol.guarantee) | {"text": str(protocol.guarantee)},
        "client": _client(protocol),
    }
    return json.dumps(content, allow_nan=False, ensure_ascii=False)


def read_protocol(text: str, kind: type[Any]) -> Any:
    """Make the transformer that `write_protocol` wrote, an instance of a class, fitted."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"a protocol has at most {_MOST_CHARACTERS:,} characters, got {len(text):,}")
    failure = None
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT or content["version"] != _VERSION:
            raise ValueError
        name, packed, columns = content["transformer"], content["parameters"], list(map(unpack, content["columns"]))
    except (ValueError, TypeError, LookupError, RecursionError):
        failure = f"the text is no protocol of a local transformer (format {_FORMAT!r}, version {_VERSION})"
    if failure is not None:
        raise ValueError(failure)
    found = next((one for one in (kind, *_ours(kind)) if one.__name__ == name and not inspect.isabstract(one)), None)
    if found is None:
        raise ValueError(f"the protocol is that of another transformer than {kind.__name__}")
    try:
        transformer = found(**{key: unpack(value) for key, value in packed.items()})
        if any(key in packed for key in _SECRET):
            raise ValueError
        if getattr(transformer, "memoize", False):
            transformer.set_params(secret_key=SecretKey.generate())  # this side makes no permanent reports
        same = refitted(transformer, columns, content["protocol"])
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, ArithmeticError, RecursionError):
        failure = f"the protocol of {name} cannot be read: a parameter is missing or out of range"
    if failure is not None:
        raise ValueError(failure)
    if not same:
        raise ValueError(
            f"this version of skdp makes another protocol of the parameters of {name}: reports would be misread"
        )
    return transformer


def _ours(kind: type[Any]) -> Iterator[type[Any]]:
    """Iterate over the classes of this package that are derived from a class."""
    for one in kind.__subclasses__():
        if one.__module__.startswith("skdp."):
            yield one
            yield from _ours(one)


def comparable(protocol: ReportProtocol) -> Any:
    """Return the integers on which client and server must agree, as JSON."""
    return pack(protocol.parameters())


def refitted(transformer: Any, columns: list[Any], expected: Any) -> bool:
    """Fit a transformer to what is declared of columns; return whether its protocol is the expected one."""
    transformer.fit(_declared_row(columns, transformer))
    return bool(json.loads(json.dumps(comparable(transformer.protocol_), allow_nan=False)) == expected)


def _declared_row(columns: list[Any], transformer: Any) -> pd.DataFrame:
    """Make a row to fit on: its names and kinds of values count."""
    declared = getattr(transformer, "categories", None)
    first = {}
    for name in columns:
        if isinstance(declared, dict):
            first[name] = Domain({name: declared[name]})[name].values[0]
        elif isinstance(bounds := getattr(transformer, "bounds", None), dict):
            first[name] = float(bounds[name][0])
        else:
            first[name] = ""
    return pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in first.items()})


def _client(protocol: ReportProtocol) -> dict[str, Any] | None:
    """Return what `examples/client/skdp.mjs` needs; None for reports that it cannot make."""
    if not isinstance(protocol, OracleProtocol) or protocol.output != "bits" or protocol.memo is not None:
        return None
    attributes = [(name, protocol.domain[name]) for name in protocol.domain.columns]
    if not all(isinstance(name, str) and not isinstance(own, Interval) for name, own in attributes):
        return None
    if not all(isinstance(value, str | int | None) for _, own in attributes for value in own.values):
        return None
    try:
        samplers = [oracle.sampler() for oracle in protocol.oracles]
    except NotImplementedError:
        return None
    return {
        "strategy": protocol.strategy,
        "columns": [{"name": name, "values": list(own.values)} for name, own in attributes],
        "samplers": samplers,
        "report_columns": list(map(str, protocol.report_columns)),
        "reports_values": isinstance(protocol, ValueProtocol),
    }
