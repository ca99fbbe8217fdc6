"""What estimators hold as JSON: plain values, arrays, tables, and objects of skdp."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skdp.base import SavedByArguments
from skdp.domain import Categories, Domain, Interval, Kind, pack, unpack
from skdp.local import SecretKey
from skdp.persistence._classes import class_of_arguments, made_of_arguments
from skdp.persistence._tables import (
    read_array,
    read_dtype,
    read_frame,
    read_scalar,
    read_template,
    write_array,
    write_dtype,
    write_frame,
    write_scalar,
    write_template,
)
from skdp.privacy import (
    Mu,
    PrivacyGuarantee,
    PrivacyLedger,
    Rho,
    closed_ledger,
)
from skdp.tables import Table

# The parts of a ledger's budget.
_BUDGET = ("epsilon", "delta", "rho", "mu")

_ABSENT = (
    "this estimator was loaded without its ledger, and nothing was released; "
    "give it with skdp.load(path, ledger=...)"
)


class Values:
    """Writes values as JSON and reads them; notes what it meets."""

    def __init__(
        self,
        write_estimator: Callable[[Any, Values], Any],
        read_estimator: Callable[[Any, Values], Any],
        *,
        secrets: bool = False,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.ledger = ledger
        self.has_ledger = False
        # Whether an estimator is not of skdp: its library's version decides whether the
        # file can be read.
        self.has_others = False
        self._secrets = secrets
        # A float of NumPy is also one of Python: numbers of NumPy come before floats.
        self._kinds = {
            "estimator": Kind(
                BaseEstimator,
                lambda estimator: write_estimator(estimator, self),
                lambda content: read_estimator(content, self),
            ),
            "array": Kind(
                np.ndarray,
                lambda array: write_array(array, self.write),
                lambda content: read_array(content, self.read),
            ),
            "scalar": Kind(np.generic, write_scalar, read_scalar),
            "float": Kind(float, repr, float),  # also where it is a missing value
            "domain": Kind(Domain, self._write_domain, self._read_domain),
            "categories": Kind(
                Categories, self._write_categories, self._read_categories
            ),
            "guarantee": Kind(
                PrivacyGuarantee, self._write_guarantee, self._read_guarantee
            ),
            "rho": Kind(
                Rho, self._write_fields, lambda content: Rho(**self.read(content))
            ),
            "mu": Kind(
                Mu, self._write_fields, lambda content: Mu(**self.read(content))
            ),
            "object": Kind(
                SavedByArguments,
                self._write_arguments,
                lambda content: made_of_arguments(
                    content["class"], self.read(content["arguments"])
                ),
            ),
            "ledger": Kind(PrivacyLedger, self._write_ledger, self._read_ledger),
            "secret_key": Kind(SecretKey, self._write_secret, _read_secret),
            "slice": Kind(
                slice,
                lambda value: self.write([value.start, value.stop, value.step]),
                lambda parts: slice(*self.read(parts)),
            ),
            "range": Kind(range, _write_range, lambda ends: range(*ends)),
            "frame": Kind(
                pd.DataFrame,
                lambda frame: write_frame(frame, self.write),
                lambda content: read_frame(content, self.read),
            ),
            "template": Kind(
                Table,
                lambda template: write_template(template, self.write),
                lambda content: read_template(content, self.read),
            ),
            "dtype": Kind(np.dtype, write_dtype, read_dtype),
            "type": Kind(type, _write_type, _read_type),
        }

    def write(self, value: Any) -> Any:
        """Write a value as JSON."""
        return pack(value, self._kinds)

    def write_of(self, owner: Any, name: str, value: Any) -> Any:
        """Write what an estimator holds; an error names it."""
        if name == "secret_key" and isinstance(value, bytes):
            value = SecretKey(value)
        if isinstance(value, pd.Index):  # of names of columns
            value = value.tolist()
        try:
            return self.write(value)
        except TypeError as error:
            raise TypeError(f"{type(owner).__name__}.{name}: {error}") from None

    def read(self, packed: Any) -> Any:
        """Read what `write` wrote."""
        return unpack(packed, self._kinds)

    def _write_categories(self, categories: Categories) -> dict[str, Any]:
        """Write values that a parameter declares."""
        values = self.write(list(categories.values))
        return {"values": values, "ordered": categories.ordered}

    def _read_categories(self, content: Any) -> Categories:
        values = self.read(content["values"])
        return Categories(values, ordered=content["ordered"])

    def _write_domain(self, domain: Domain) -> dict[str, Any]:
        columns = []
        for name in domain.columns:
            values = domain[name]
            listed = values if isinstance(values, Interval) else list(values.values)
            column = {"name": self.write(name), "values": self.write(listed)}
            if not isinstance(values, Interval) and values.ordered:
                column["ordered"] = True
            # That the values were read from the data counts in `privacy_statement`.
            if values.observed:
                column["observed"] = True
            columns.append(column)
        return {
            "columns": columns,
            "constraints": list(domain.constraints),
            "derived": self.write(domain.derived),
            "guarantee": self.write(domain.guarantee),
            "release_id": domain._release_id,
        }

    def _read_domain(self, content: Any) -> Domain:
        columns = {}
        for column in content["columns"]:
            values = self.read(column["values"])
            if not isinstance(values, list | Interval):
                raise ValueError("a domain lists the values of each column")
            if isinstance(values, list):
                values = Categories(values, ordered=column.get("ordered") is True)
            columns[self.read(column["name"])] = values
        domain = Domain(
            columns,
            constraints=content["constraints"],
            derived=self.read(content["derived"]),
        )
        for name, column in zip(domain.columns, content["columns"], strict=True):
            if column.get("observed") is True:
                domain[name].observed = True
        return domain.with_guarantee(
            self.read(content["guarantee"]), release_id=str(content["release_id"])
        )

    def _write_guarantee(self, guarantee: PrivacyGuarantee) -> dict[str, Any]:
        return guarantee.to_dict() | {"scope": self.write(list(guarantee.scope))}

    def _read_guarantee(self, content: Any) -> PrivacyGuarantee:
        # The record of a guarantee has text for names of other types.
        scope = tuple(self.read(content["scope"]))
        record = json.dumps(content | {"scope": list(map(str, scope))})
        return replace(PrivacyGuarantee.from_json(record), scope=scope)

    def _write_fields(self, value: Any) -> dict[str, Any]:
        content = {}
        for field in fields(value):
            content[field.name] = self.write(getattr(value, field.name))
        return content

    def _write_arguments(self, value: SavedByArguments) -> dict[str, Any]:
        name = class_of_arguments(value)
        return {"class": name, "arguments": self.write(value.arguments())}

    def _write_ledger(self, ledger: PrivacyLedger) -> dict[str, float]:
        if self.ledger not in (None, ledger):
            raise ValueError(
                "the estimators have different ledgers; save them one by one"
            )
        self.ledger = ledger
        return ledger._book.budget.numbers()

    def _read_ledger(self, content: Any) -> PrivacyLedger:
        self.has_ledger = True
        if self.ledger is None:
            budget = {name: content[name] for name in _BUDGET if name in content}
            self.ledger = closed_ledger(_ABSENT, **budget)
        return self.ledger

    def _write_secret(self, key: SecretKey) -> str:
        if not self._secrets:
            raise ValueError(
                "the secret key of permanent reports would be in the file, and who"
                " reads it can undo their noise; save with secrets=True and guard the"
                " file, or save the protocol alone with to_json, which leaves it out"
            )
        return bytes(key).hex()


def _write_range(values: range) -> list[int]:
    return [values.start, values.stop, values.step]


def _read_secret(text: str) -> SecretKey:
    return SecretKey(bytes.fromhex(text))


def _write_type(kind: type) -> str:
    if not issubclass(kind, np.generic | float | int):
        raise TypeError(f"a {type(kind).__name__} cannot be saved")
    return write_dtype(np.dtype(kind))


def _read_type(text: Any) -> type:
    return read_dtype(text).type
