"""A fitted local transformer as JSON: what both sides agree on, and no secret."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from skdp._json import MAX_DECLARED_VALUES, parse_json, read_value, write_value
from skdp.domain import (
    Categories,
    Domain,
    Interval,
    add_guarantee,
    guarantee_fields,
)
from skdp.local._memo import SecretKey
from skdp.local.protocol import ReportProtocol, Reports
from skdp.privacy import PrivacyGuarantee, WeakGuaranteeWarning
from skdp.tables import carried_text

FORMAT = "skdp-protocol"
_VERSION = 2

# Parameters of a transformer that are not written.
SECRET = ("ledger", "random_state", "secret_key")

# Parameters of a protocol that say how true values are read, not what a report means.
_NOT_OF_REPORTS = ("unknown",)

# What a guarantee of a text must agree on with that of its parameters. The texts for
# people may be those of another version: programs write their own.
_STATED = (
    "epsilon",
    "delta",
    "relation",
    "trust",
    "rho",
    "scope",
    "max_rows_per_person",
)

# Of a transformer that an error names, as the text may come from anybody.
_LONGEST_NAME = 50


def write_protocol(
    name: str,
    parameters: Mapping[str, Any],
    protocol: ReportProtocol,
    *,
    named: bool,
    seeded: bool,
) -> str:
    """Write what a transformer was fitted with as JSON."""
    packed = {}
    for parameter, value in {**parameters, **protocol.declared}.items():
        packed[parameter] = write_value(value)
    content = {
        "format": FORMAT,
        "version": _VERSION,
        "transformer": name,
        "parameters": packed,
        "columns": list(map(write_value, protocol.columns)),
        "named": named,
        "permanent": protocol.permanent_key is not None,
        "protocol": comparable(protocol),
        "guarantee": stated(protocol.guarantee),
        "client": _client(protocol),
    }
    # In words, for those who would write a client.
    if content["client"] is None:
        content["no_client"] = _no_client(protocol)
    # Permanent reports come from a key, whose guarantee is secure, and a second round
    # of noise from the seed.
    if seeded and protocol.guarantee.secure:
        content["seeded"] = True
    for parameter, value in parameters.items():
        if isinstance(value, Domain) and value.guarantee is not None:
            content["found_domain"] = {"parameter": parameter} | guarantee_fields(value)
    return json.dumps(content, allow_nan=False)


def comparable(protocol: ReportProtocol) -> Any:
    """Return the integers on which client and server must agree, as JSON."""
    return write_value(protocol.parameters())


def stated(guarantee: PrivacyGuarantee) -> dict[str, Any]:
    """Return what a protocol says of its guarantee."""
    fields = asdict(guarantee)
    # They follow from the parameters.
    del fields["losses"]
    return fields | {"text": str(guarantee)}


def transformer_from_text(text: str, kind: type[Any]) -> Any:
    """Make the fitted transformer that `write_protocol` wrote, of a class."""
    content = parse_protocol(text)
    # A name is looked up among classes: nothing is imported or called by it.
    name = content["transformer"]
    transformer_class = _class_of(name, kind)
    refusal = None
    try:
        transformer, is_same = _refitted_from(content, transformer_class)
    except Exception:
        # Of any kind, memory and recursion included: a text from others decides what is
        # tried. It may quote the text, and so is not the context of an error.
        refusal = (
            f"the protocol of {name} cannot be read: a parameter is missing, out of "
            "range, or too large"
        )
    if refusal is not None:
        raise ValueError(refusal)
    if content.get("named") is False:
        forget_names(transformer)
    if not is_same:
        raise ValueError(
            "this version of skdp makes another protocol of the parameters of "
            f"{name}: reports would be misread"
        )
    if not _states_own_guarantee(content, transformer.protocol_):
        raise ValueError(
            "the protocol states another guarantee, or another client, than follow "
            f"from the parameters of {name}"
        )
    if content.get("seeded") is True:
        transformer = _as_seeded_again(transformer)
    return transformer if is_secure(text) else mark_insecure(transformer)


def parse_protocol(text: str) -> dict[str, Any]:
    """Parse the JSON of a protocol; nothing is made of it."""
    content: Any = parse_json(text, "a protocol")
    is_protocol = (
        isinstance(content, dict)
        and content.get("format") == FORMAT
        and content.get("version") == _VERSION
        and isinstance(content.get("transformer"), str)
        and isinstance(content.get("parameters"), dict)
        and isinstance(content.get("columns"), list)
        and isinstance(content.get("permanent"), bool)
    )
    if not is_protocol:
        raise ValueError(
            f"the text is no protocol of a local transformer (format {FORMAT!r}, "
            f"version {_VERSION})"
        )
    return dict(content)


def _class_of(name: str, kind: type[Any]) -> type[Any]:
    """Return the class of a name: a given one, or one of ours derived from it."""
    for candidate in (kind, *_our_subclasses(kind)):
        if candidate.__name__ == name and not inspect.isabstract(candidate):
            return candidate
    refusal = f"the protocol is that of another transformer than {kind.__name__}"
    if name.isidentifier() and len(name) < _LONGEST_NAME:
        refusal += f": use {name}.from_json, or {name}.load for its file"
    raise ValueError(refusal)


def _our_subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for subclass in kind.__subclasses__():
        if is_ours(subclass):
            yield subclass
            yield from _our_subclasses(subclass)


def is_ours(kind: type[Any]) -> bool:
    return kind.__module__.startswith("skdp.")


def _refitted_from(
    content: Mapping[str, Any], transformer_class: type[Any]
) -> tuple[Any, bool]:
    """Fit what a text declares; return it, and whether its protocol is that stated."""
    parameters = {}
    for parameter, packed in content["parameters"].items():
        if parameter in SECRET:
            raise ValueError
        parameters[parameter] = read_value(packed)
    if "found_domain" in content:
        found = dict(content["found_domain"])
        parameter = found.pop("parameter")
        declared = parameters[parameter]
        if parameter == "bounds":
            declared = {
                name: Interval(*pair, bins=1) for name, pair in declared.items()
            }
        parameters[parameter] = add_guarantee(Domain(declared), found)
    transformer = transformer_class(**parameters)
    if content.get("permanent") is True:
        # This side makes no permanent reports.
        transformer.set_params(secret_key=SecretKey.generate())
    columns = list(map(read_value, content["columns"]))
    is_same = fit_and_compare(transformer, columns, content["protocol"])
    return transformer, is_same


def fit_and_compare(transformer: Any, columns: list[Any], expected: Any) -> bool:
    """Fit to declared columns; return whether the protocol is as expected."""
    _check_values(getattr(transformer, "categories", ()))
    is_sampled = getattr(transformer, "strategy", None) == "sample"
    if is_sampled and getattr(transformer, "n_sampled", 1) == "auto":
        # What was chosen is written, and looking for it takes time.
        raise ValueError
    # Those who reported were told of a weak guarantee.
    with warnings.catch_warnings(action="ignore", category=WeakGuaranteeWarning):
        transformer.fit(_declared_row(columns, transformer))
    packed = json.dumps(comparable(transformer.protocol_), allow_nan=False)
    return bool(json.loads(packed) == expected)


def _check_values(declared: Any) -> None:
    """Check that the declared values are not too many."""
    if isinstance(declared, Domain):
        declared = [declared[name] for name in declared.columns]
    elif isinstance(declared, Mapping):
        declared = declared.values()
    if sum(map(len, declared)) > MAX_DECLARED_VALUES:
        raise ValueError


def _declared_row(columns: list[Any], transformer: Any) -> pd.DataFrame:
    """Make a row to fit on: its names and kinds of values count."""
    categories = getattr(transformer, "categories", None)
    bounds = getattr(transformer, "bounds", None)
    row = {}
    for name in columns:
        value: Any = ""
        if isinstance(categories, Domain) and name in categories.columns:
            value = categories[name].values[0]
        elif isinstance(categories, dict) and name in categories:
            value = Domain({name: categories[name]})[name].values[0]
        elif isinstance(bounds, Domain):
            interval = bounds[name]
            assert isinstance(interval, Interval)
            value = float(interval.edges[0])
        elif isinstance(bounds, dict):
            value = float(bounds[name][0])
        row[name] = pd.Series([value], dtype=object)
    return pd.DataFrame(row)


def _states_own_guarantee(content: dict[str, Any], protocol: ReportProtocol) -> bool:
    """Return whether guarantee and client of a text follow from its parameters."""
    guarantee = content.get("guarantee")
    if not isinstance(guarantee, dict) or type(guarantee.get("secure")) is not bool:
        return False
    own_guarantee = stated(protocol.guarantee)
    for name in _STATED:
        if _sorted_text(guarantee.get(name)) != _sorted_text(own_guarantee[name]):
            return False
    client = content.get("client")
    return client is None or _sorted_text(client) == _sorted_text(_client(protocol))


def _sorted_text(content: Any) -> str:
    """Write JSON to be compared: in Python, 1 and True are equal."""
    return json.dumps(content, sort_keys=True)


def is_secure(text: str | None) -> bool:
    """Return False if the protocol states that the reports come from a seed."""
    if text is None:
        return True
    guarantee = parse_protocol(text).get("guarantee")
    return not isinstance(guarantee, dict) or guarantee.get("secure") is not False


def mark_insecure(transformer: Any) -> Any:
    """Return a copy of a transformer whose guarantee states that its reports come from a seed."""
    guarantee = replace(transformer.guarantee_, secure=False)
    protocol = copy(transformer.protocol_)
    # As the dataclass is frozen, and `replace` would compute its layout again.
    object.__setattr__(protocol, "guarantee", guarantee)
    seeded = copy(transformer)
    seeded.protocol_ = protocol
    seeded.guarantee_ = guarantee
    seeded._written = seeded._written.of(protocol, seeded=True)
    return seeded


def _as_seeded_again(transformer: Any) -> Any:
    """Return a copy with permanent reports, whose second round a seed decides."""
    seeded = copy(transformer)
    if hasattr(seeded, "instantaneous_guarantee_"):
        guarantee = replace(seeded.instantaneous_guarantee_, secure=False)
        seeded.instantaneous_guarantee_ = guarantee
    seeded._written = seeded._written.of(seeded.protocol_, seeded=True)
    return seeded


def forget_names(transformer: Any) -> None:
    """Make a transformer one that was fitted to an array, without names of columns."""
    vars(transformer).pop("feature_names_in_", None)
    transformer._written.named = False


# What `examples/client/skdp.mjs` needs to make reports.


def _client(protocol: ReportProtocol) -> dict[str, Any] | None:
    """Return what a client in another language needs; None if there is none."""
    if _no_client(protocol) is not None:
        return None
    domain = protocol.domain
    assert domain is not None
    columns = []
    for name in domain.columns:
        values = domain[name]
        column: dict[str, Any] = {"name": name, "values": list(values.values)}
        if isinstance(values, Interval):
            column["edges"] = list(values.edges)
        columns.append(column)
    return {
        "strategy": protocol.strategy,
        "columns": columns,
        "samplers": [oracle.sampler() for oracle in protocol.oracles],
        "report_columns": list(map(str, protocol.report_columns)),
        "reports_values": protocol.values is not None,
    }


def _no_client(protocol: ReportProtocol) -> str | None:
    """Return why a client cannot make the reports of a protocol; None if it can."""
    domain = protocol.domain
    if protocol.strategy is None or domain is None:
        return "it makes reports of declared values, by frequency oracles"
    if len({field.reports_values for field in protocol.fields}) > 1:
        return "it makes reports of declared values, either all as values or none"
    output = protocol.fields[0].output
    if output != "bits":
        return f"it reports bits, not output={output!r}"
    if protocol.memo is not None:
        return "it draws a fresh report each time, and makes no permanent ones"
    for name in domain.columns:
        if not isinstance(name, str):
            return f"it takes columns whose names are text, not {name!r}"
        reason = _not_in_javascript(domain[name])
        if reason is not None:
            return f"column {name!r} {reason}"
    for oracle in protocol.oracles:
        try:
            oracle.sampler()
        except NotImplementedError:
            return f"{type(oracle).__name__} has no sampler for clients"
    return None


def _not_in_javascript(values: Categories | Interval) -> str | None:
    """Return why values would be others in JavaScript; None if they are the same."""
    if isinstance(values, Interval):
        if values.dtype.kind != "f":
            return (
                "has bins of dates; it takes bins of numbers, such as days since a date"
            )
        # The client finds the bin of a number by the edges, as floats.
        middles = [middle for middle in values.values if middle is not None]
        codes = values.encode(np.array(middles, float))
        if codes.tolist() != list(range(len(middles))):
            return "has bins without a number between their edges, as floats have it"
        return None
    for value in values.values:
        # Of more bits, two numbers would be one there.
        is_exact = isinstance(value, int) and abs(value) < 1 << 53
        if not (value is None or isinstance(value, str) or is_exact):
            return (
                "has declared values other than text, True and False, and whole "
                "numbers below 2**53"
            )
    return None


# What tables of reports carry, so that those of another protocol are refused.


def protocol_text(transformer: Any) -> str | None:
    """Return the JSON that reports carry, None if they carry none."""
    written = getattr(transformer, "_written", None)
    return None if written is None else written.carried_text


def text_in_memory(transformer: Any) -> str | None:
    """Return the JSON that reports in memory carry: none if it is large."""
    written = getattr(transformer, "_written", None)
    return None if written is None else written.text_in_memory


def read_and_tally(reports: Any, transformer: Any) -> tuple[Reports, Any]:
    """Read reports and sum them up; raise if their attached protocol is another one."""
    protocol = transformer.protocol_
    check_attached_protocol(carried_text(reports), transformer)
    arrays: Reports = protocol.read(reports)
    return arrays, protocol.tally(arrays)


def check_attached_protocol(text: str | None, transformer: Any) -> None:
    """Raise if the protocol attached to reports is another one; None is accepted."""
    if text is None:
        return
    own_text = protocol_text(transformer)
    if own_text is None:
        own_text = _comparable_text(text, transformer)
    refuse_other(text, own_text)


def _comparable_text(text: str, transformer: Any) -> str:
    """Return the text with the parameters that decide reports replaced by the transformer's."""
    protocol = transformer.protocol_
    parameters = protocol.parameters()
    # A third-party class reports as the skdp class that it is derived from.
    parameters["reports"]["encoder"] = None
    for kind in type(transformer).__mro__:
        if is_ours(kind):
            parameters["reports"]["encoder"] = kind.__name__
            break
    content = parse_protocol(text)
    try:
        columns = list(map(write_value, protocol.columns))
        content |= {"columns": columns, "protocol": write_value(parameters)}
    except (TypeError, ValueError):
        # No text can be of names or values that JSON cannot hold.
        content["protocol"] = None
    return json.dumps(content)


def refuse_other(text: str, own_text: str) -> None:
    """Refuse reports that carry another protocol than one's own."""
    if text == own_text:
        return
    content = parse_protocol(text)
    own_content = parse_protocol(own_text)
    meaning = _meaning(content)
    if meaning is None or meaning != _meaning(own_content):
        difference = _difference(content, own_content)
        raise ValueError(f"reports of two protocols are never added: {difference}")


def _meaning(content: dict[str, Any]) -> str | None:
    """Return what two protocols must have in common for their reports to add."""
    packed = content.get("protocol")
    if not isinstance(packed, dict):
        return None
    meaning = {}
    for name, value in packed.items():
        if name not in _NOT_OF_REPORTS:
            meaning[name] = value
    return json.dumps(meaning)  # not the mapping: 1 and True are equal


def _difference(content: Mapping[str, Any], own_content: Mapping[str, Any]) -> str:
    """Describe how the protocol of reports differs from one's own."""
    for key in ("transformer", "columns"):
        if content[key] != own_content[key]:
            value = _short(content[key])
            return f"these are of {key} {value}, not {_short(own_content[key])}"
    parameters = content["parameters"]
    for name, own_value in own_content["parameters"].items():
        value = parameters.get(name)
        # These say how true values are read, and do not decide what a report means.
        if value == own_value or name in ("handle_unknown", "handle_missing"):
            continue
        if name in ("categories", "bounds"):
            return f"these are of other declared {name}"
        return f"these are of {name} {_short(value)}, not {_short(own_value)}"
    return "these are of other probabilities"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
