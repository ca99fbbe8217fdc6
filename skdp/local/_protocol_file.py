"""A fitted local transformer as JSON: what a client and a server must agree on, and no secret."""

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

from skdp.domain import (
    Categories,
    Domain,
    Interval,
    check_hashes,
    pack,
    parse_json,
    unpack,
)
from skdp.local.memo import SecretKey
from skdp.local.protocol import ReportProtocol, Reports, check_releases
from skdp.privacy import PrivacyGuarantee, WeakGuaranteeWarning
from skdp.tables import carried_releases, carried_text

FORMAT, _VERSION = "skdp-protocol", 2
SECRET = ("ledger", "random_state", "secret_key")
_STATED = (
    "epsilon",
    "delta",
    "relation",
    "trust",
    "rho",
    "scope",
    "max_rows_per_person",
)
_NOT_OF_REPORTS = ("unknown",)
"""Parameters of a protocol that say how true values are read, not what a report means."""

# Of what others declare, so that reading it takes at most about three seconds and 200 MB.
_MOST_VALUES = 1 << 17
_MOST_SUMS, _MOST_NUMBERS, _MOST_ATTRIBUTES = 1 << 24, 1 << 21, 1 << 10
_MOST_OF_REPORTS = 1 << 24, 1 << 17, 1 << 23
"""Joint cells, columns, and characters of their names."""


def write_protocol(
    name: str,
    parameters: Mapping[str, Any],
    protocol: ReportProtocol,
    *,
    named: bool,
    seeded: bool,
) -> str:
    """Write what a transformer was fitted with as JSON."""
    content = {
        "format": FORMAT,
        "version": _VERSION,
        "transformer": name,
        "parameters": {
            key: pack(value)
            for key, value in {**parameters, **protocol.declared}.items()
        },
        "columns": list(map(pack, protocol.columns)),
        "named": named,
        "permanent": protocol.permanent_key is not None,
        "protocol": comparable(protocol),
        "guarantee": stated(protocol.guarantee),
        "client": _client(protocol),
    }
    if content["client"] is None:
        content["no_client"] = _no_client(protocol)
    if (
        seeded and protocol.guarantee.secure
    ):  # permanent reports come from a key, and a second round from the seed
        content["seeded"] = True
    return json.dumps(content, allow_nan=False)


_LONGEST_NAME = 50
"""Of a transformer that an error names, as the text may come from anybody."""


def transformer_from_text(text: str, kind: type[Any]) -> Any:
    """Make the transformer that `write_protocol` wrote, an instance of a class, fitted."""
    content = parse_protocol(text)
    name, packed, columns, failure = (
        content["transformer"],
        content["parameters"],
        content["columns"],
        None,
    )
    found = next(
        (
            one
            for one in (kind, *_ours(kind))
            if one.__name__ == name and not inspect.isabstract(one)
        ),
        None,
    )
    if found is None:
        refusal = f"the protocol is that of another transformer than {kind.__name__}"
        if name.isidentifier() and len(name) < _LONGEST_NAME:
            refusal += f": use {name}.from_json, or {name}.load for its file"
        raise ValueError(refusal)
    try:
        transformer = found(**{key: unpack(value) for key, value in packed.items()})
        if any(key in packed for key in SECRET):
            raise ValueError
        if content.get("permanent") is True:
            transformer.set_params(
                secret_key=SecretKey.generate()
            )  # this side makes no permanent reports
        same = refitted(transformer, list(map(unpack, columns)), content["protocol"])
    except Exception:  # of any kind, memory and recursion included: a text from others decides what is tried
        failure = f"the protocol of {name} cannot be read: a parameter is missing, out of range, or too large"
    if failure is not None:
        raise ValueError(failure)
    if content.get("named") is False:
        forget_names(transformer)
    if not same:
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
        transformer = as_seeded_again(transformer)
    return transformer if says_secure(text) else as_of_seed(transformer)


def parse_protocol(text: str) -> dict[str, Any]:
    """Parse the JSON of a protocol; nothing is made of it."""
    content: Any = parse_json(text, "a protocol")
    keys = {"transformer": str, "parameters": dict, "columns": list, "permanent": bool}
    known = isinstance(content, dict) and content.get("format") == FORMAT
    version = content.get("version") if known else None
    if type(version) is int and 0 < version < _VERSION:
        raise ValueError(
            "an earlier version of skdp wrote this protocol, in a form that is no longer "
            "read: estimate its reports with the version that made them"
        )
    if version != _VERSION or any(
        not isinstance(content.get(key), kind) for key, kind in keys.items()
    ):
        raise ValueError(
            f"the text is no protocol of a local transformer (format {FORMAT!r}, "
            f"version {_VERSION})"
        )
    return content


def refuse_other(theirs: str, own: str) -> None:
    """Refuse reports that carry another protocol than one's own."""
    if theirs == own:
        return
    one, other = parse_protocol(theirs), parse_protocol(own)
    if (found := _meaning(one)) is None or found != _meaning(other):
        raise ValueError(
            f"reports of two protocols are never added: {_difference(one, other)}"
        )


def _meaning(content: dict[str, Any]) -> str | None:
    """Return what two protocols must have in common for their reports to add."""
    packed = content.get("protocol")
    mapping = packed.get("mapping") if isinstance(packed, dict) else None
    if not isinstance(mapping, list):
        return None
    kept = [
        pair
        for pair in mapping
        if not (isinstance(pair, list) and pair and pair[0] in _NOT_OF_REPORTS)
    ]
    return json.dumps(kept)  # not the list: 1 and True are equal


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe how the protocol of reports differs from one's own."""
    for key in ("transformer", "columns"):
        if one[key] != other[key]:
            return f"these are of {key} {_short(one[key])}, not {_short(other[key])}"
    there, here = one["parameters"], other["parameters"]
    for name in here:
        if name in ("categories", "bounds") and there.get(name) != here[name]:
            return f"these are of other declared {name}"
        if there.get(name) != here[name] and name not in (
            "handle_unknown",
            "handle_missing",
        ):
            return f"these are of {name} {_short(there.get(name))}, not {_short(here[name])}"
    return "these are of other probabilities"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _fit(transformer: Any, columns: list[Any]) -> None:
    """Fit within limits."""
    transformer._most_cells, transformer._most_columns, transformer._most_characters = (
        _MOST_OF_REPORTS
    )
    _check_values(getattr(transformer, "categories", ()))
    check_protocol_size(transformer.get_params(deep=False), len(columns))
    if (
        getattr(transformer, "strategy", None) == "sample"
        and getattr(transformer, "n_sampled", 1) == "auto"
    ):
        raise ValueError  # what was chosen is written, and looking for it takes time
    with warnings.catch_warnings(
        action="ignore", category=WeakGuaranteeWarning
    ):  # which those who reported were told
        transformer.fit(_declared_row(columns, transformer))
    del transformer._most_cells, transformer._most_columns, transformer._most_characters


def check_protocol_size(parameters: Mapping[str, Any], n_columns: int) -> None:
    """Check that a protocol is one that is read: both sides have the same limits."""
    n_grids = (
        len(parameters.get("bounds") or ()) if "categories" in parameters else n_columns
    )
    sizes = {
        "columns": (n_columns, _MOST_ATTRIBUTES),
        "numbers of grids (columns * grid_size)": (
            n_grids * parameters.get("grid_size", 1),
            _MOST_NUMBERS,
        ),
        "sums (columns * n_bits * n_cohorts)": (
            n_columns * parameters.get("n_bits", 1) * parameters.get("n_cohorts", 1),
            _MOST_SUMS,
        ),
    }
    for name, (size, most) in sizes.items():
        if size > most:
            raise ValueError(
                f"a protocol as JSON has at most {most:,} {name}, got {size:,}"
            )


def _check_values(declared: Any) -> None:
    """Check that the declared values are not too many, and were not chosen to take long."""
    lists = [*(declared.values() if isinstance(declared, Mapping) else declared)]
    if sum(map(len, lists)) > _MOST_VALUES:
        raise ValueError
    for values in lists:
        check_hashes(() if isinstance(values, Interval) else values)


def _states_own_guarantee(content: dict[str, Any], protocol: ReportProtocol) -> bool:
    """Return whether what a text states for clients and people follows from its parameters."""
    # The texts for people may be those of another version: programs write their own.
    found, client = content.get("guarantee"), content.get("client")
    own = json.loads(json.dumps(stated(protocol.guarantee)))
    if not isinstance(found, dict) or type(found.get("secure")) is not bool:
        return False
    # As texts: in Python, 1 and True are equal.
    are_stated = all(
        _sorted_text(found.get(key)) == _sorted_text(own.get(key)) for key in _STATED
    )
    return are_stated and _is_client(client, protocol)


def _is_client(client: Any, protocol: ReportProtocol) -> bool:
    """Return whether what a text has for clients is nothing, or what follows from its parameters."""
    return client is None or _sorted_text(client) == _sorted_text(_client(protocol))


def _sorted_text(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def stated(guarantee: PrivacyGuarantee) -> dict[str, Any]:
    """Return what a protocol says of its guarantee, without the losses, which follow from it."""
    fields = {
        name: value for name, value in asdict(guarantee).items() if name != "losses"
    }
    return fields | {"text": str(guarantee)}


def _ours(kind: type[Any]) -> Iterator[type[Any]]:
    """Iterate over the classes of this package that are derived from a class."""
    for one in kind.__subclasses__():
        if is_ours(one):
            yield one
            yield from _ours(one)


def is_ours(kind: type[Any]) -> bool:
    return kind.__module__.startswith("skdp.")


def comparable(protocol: ReportProtocol) -> Any:
    """Return the integers on which client and server must agree, as JSON."""
    return pack(protocol.parameters())


def refitted(transformer: Any, columns: list[Any], expected: Any) -> bool:
    """Fit a transformer to what is declared of columns, within limits; return whether its protocol is as expected."""
    _fit(transformer, columns)
    return bool(
        json.loads(json.dumps(comparable(transformer.protocol_), allow_nan=False))
        == expected
    )


def says_secure(text: str | None) -> bool:
    """Return whether reports with this protocol may have secure random bits: it does not say that they have not."""
    guarantee = {} if text is None else parse_protocol(text).get("guarantee")
    return not isinstance(guarantee, dict) or guarantee.get("secure") is not False


def as_of_seed(transformer: Any) -> Any:
    """Return a copy of a fitted transformer whose guarantee is that of reports that a seed decides: not secure."""
    guarantee = replace(transformer.guarantee_, secure=False)
    copied, protocol = copy(transformer), copy(transformer.protocol_)
    object.__setattr__(protocol, "guarantee", guarantee)
    copied.protocol_, copied.guarantee_ = protocol, guarantee
    copied._written = copied._written.of(protocol, seeded=True)
    return copied


def as_seeded_again(transformer: Any) -> Any:
    """Return a copy of a fitted transformer with permanent reports, whose second round a seed decides."""
    copied = copy(transformer)
    if hasattr(copied, "instantaneous_guarantee_"):
        copied.instantaneous_guarantee_ = replace(
            copied.instantaneous_guarantee_, secure=False
        )
    copied._written = copied._written.of(copied.protocol_, seeded=True)
    return copied


def forget_names(transformer: Any) -> None:
    """Make a transformer one that was fitted to an array, without names of columns."""
    vars(transformer).pop("feature_names_in_", None)
    transformer._written.named = False


def _declared_row(columns: list[Any], transformer: Any) -> pd.DataFrame:
    """Make a row to fit on: its names and kinds of values count."""
    declared = getattr(transformer, "categories", None)
    first = {}
    for name in columns:
        if isinstance(declared, dict) and name in declared:
            first[name] = Domain({name: declared[name]})[name].values[0]
        elif isinstance(bounds := getattr(transformer, "bounds", None), dict):
            first[name] = float(bounds[name][0])
        else:
            first[name] = ""
    return pd.DataFrame(
        {name: pd.Series([value], dtype=object) for name, value in first.items()}
    )


def _client(protocol: ReportProtocol) -> dict[str, Any] | None:
    """Return what `examples/client/skdp.mjs` needs; None for reports that it cannot make."""
    if _no_client(protocol) is not None:
        return None
    domain = protocol.domain
    assert domain is not None
    return {
        "strategy": protocol.strategy,
        "columns": [_client_column(name, domain[name]) for name in domain.columns],
        "samplers": [oracle.sampler() for oracle in protocol.oracles],
        "report_columns": list(map(str, protocol.report_columns)),
        "reports_values": protocol.values is not None,
    }


def _client_column(name: str, values: Categories | Interval) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "values": list(values.values)}
    if isinstance(values, Interval):
        column["edges"] = list(values.edges)
    return column


def _no_client(protocol: ReportProtocol) -> str | None:
    """Return why `examples/client/skdp.mjs` cannot make the reports of a protocol; None if it can."""
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
    """Return why declared values would not be the same in JavaScript; None if they are."""
    if not isinstance(values, Interval):
        if all(map(_same_in_javascript, values.values)):
            return None
        return "has declared values other than text, True and False, and whole numbers below 2**53"
    if values.dtype.kind != "f":
        return "has bins of dates; it takes bins of numbers, such as days since a date"
    middles = [middle for middle in values.values if middle is not None]
    if values.encode(np.array(middles, float)).tolist() != list(range(len(middles))):
        return "has bins without a number between their edges, as floats have it"
    return None


def _same_in_javascript(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, str)
        or (isinstance(value, int) and abs(value) < 1 << 53)
    )


def protocol_text(transformer: Any) -> str | None:
    """Return the JSON that reports carry, None if they carry none."""
    written = getattr(transformer, "_written", None)
    return None if written is None else written.carried_text


def text_in_memory(transformer: Any) -> str | None:
    """Return the JSON that reports in memory carry: none if it is large."""
    written = getattr(transformer, "_written", None)
    return None if written is None else written.text_in_memory


def check_carried(text: str | None, transformer: Any) -> None:
    """Refuse reports of another protocol than a transformer's; what carries none passes."""
    if text is not None:
        refuse_other(
            text, protocol_text(transformer) or _compared_text(text, transformer)
        )


def read_carried(reports: Any, transformer: Any) -> tuple[Reports, Any]:
    """Read and sum up reports: of another protocol they are refused, of other releases than they say with a warning."""
    protocol = transformer.protocol_
    check_carried(carried_text(reports), transformer)
    arrays: Reports = protocol.read(reports)
    tally = protocol.tally(arrays)
    noted, released = carried_releases(reports), transformer.released
    if noted is not None or released.are_known:
        counts = protocol.tallied_counts(tally)
        check_releases(
            protocol.report_counts(arrays) if counts is None else counts,
            noted,
            released,
        )
    return arrays, tally


def _compared_text(text: str, transformer: Any) -> str:
    """Return a text of a protocol that is not carried, which differs from a given one in what decides reports only."""
    content, protocol = parse_protocol(text), transformer.protocol_
    parameters = protocol.parameters()
    # A class of others reports as the one of ours that it is derived from.
    ours = (kind.__name__ for kind in type(transformer).__mro__ if is_ours(kind))
    parameters["reports"]["encoder"] = next(ours, None)
    try:
        own = {
            "columns": list(map(pack, protocol.columns)),
            "protocol": pack(parameters),
        }
    except (TypeError, ValueError):  # no text can be of it
        own = {"protocol": None}
    return json.dumps(content | own)
