"""The protocol of the transformers whose reports are values of the domain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.frames import Table
from skdp.local.protocol._columns import SAMPLED
from skdp.local.protocol._oracles import OracleProtocol, undeclared
from skdp.local.protocol._protocol import Codes, Reports
from skdp.oracles import RandomizedResponse


class ValueProtocol(OracleProtocol):
    """Reports of randomised response, as values of the domain in the columns and dtypes of the input."""

    @property
    def report_columns(self) -> list[Any]:
        return [*self.columns, *([SAMPLED] if self.strategy == "sample" else [])]

    def columns_of(self, index: int, inputs: Any = None) -> list[Any]:
        return list(self.attributes[index])

    @property
    def values(self) -> Domain:  # type: ignore[override]
        return self.domain

    @property
    def counted_columns(self) -> list[list[Any]]:
        # The second round of an oracle has other reports than values.
        countable = self.strategy != "sample" and all(
            type(oracle) is RandomizedResponse for oracle in self.oracles
        )
        return [list(columns) for columns in self.attributes] if countable else []

    def prepare(self, table: Table) -> Codes:
        codes = super().prepare(table)
        self._written_domain.decoders(
            table.columns
        )  # refuses a dtype that cannot hold the values
        return codes

    @property
    def _written_domain(self) -> Domain:
        if self.strategy != "sample":
            return self.domain
        # A column that a record does not report is missing, whether or not missing is declared.
        values = {name: self.domain[name].values for name in self.columns}
        return Domain(
            {name: own if None in own else (*own, None) for name, own in values.items()}
        )

    def write(self, reports: Reports, table: Table) -> Any:
        domain = self._written_domain
        decoders = domain.decoders(table.columns)
        if self.strategy == "joint":
            reports = self.domain.split(reports[0])
        elif self.strategy == "sample":
            *reports, chosen = reports
            missing = [domain[name].values.index(None) for name in domain.columns]
            least = [np.min_scalar_type(len(domain[name])) for name in domain.columns]
            reports = [
                np.where(chosen == index, codes, missing[index]).astype(least[index])
                for index, codes in enumerate(reports)
            ]
        columns = [
            decode(codes) for decode, codes in zip(decoders, reports, strict=True)
        ]
        return table.rebuild(
            [*columns, chosen] if self.strategy == "sample" else columns,
            self.report_columns,
        )

    def width_of(self, index: int) -> int:
        return len(self.attributes[index])

    def read_part(
        self, index: int, columns: list[Any], rows: NDArray[np.bool_] | slice
    ) -> NDArray[Any]:
        domain = self.domains[index]
        codes = [column[rows] for column in domain.encode(columns)]
        for name in undeclared(domain, codes):
            raise ValueError(
                f"column {name!r} holds a value, or a NaN or inf, outside the declared categories. These are not "
                "reports of this encoder."
            )
        return codes[0] if len(codes) == 1 else domain.join(codes)

    def _add_distinct(
        self, support: Any, index: int, columns: list[Any], counts: NDArray[np.int64]
    ) -> None:
        np.add.at(
            support, self.read_part(index, columns, slice(None)).astype(np.intp), counts
        )
