"""The protocol of the transformers that report each attribute of a record by a frequency oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import UNIFORM, undeclared_error
from skdp.domain import Domain, Interval
from skdp.frames import Table, read_table
from skdp.local._tally import ReportTally
from skdp.local.memo import Memo
from skdp.local.protocol._columns import (
    SAMPLED,
    attributes_of,
    plain_values,
    read_floats,
    read_sampled,
    read_whole_numbers,
    spread,
    value_labels,
)
from skdp.local.protocol._counts import fold, joined_counts
from skdp.local.protocol._estimation import estimate_counts
from skdp.local.protocol._protocol import (
    Channel,
    Codes,
    Randomness,
    ReportProtocol,
    Reports,
)
from skdp.local.protocol._sampling import shuffled_parts
from skdp.oracles import FrequencyOracle, RandomizedResponse, TwoRounds
from skdp.privacy import PrivacyGuarantee
from skdp.privacy.shuffle import Released, ReportPair
from skdp.randomness import uniform_integers

_MOST_BITS = 6


@dataclass(frozen=True, eq=False, repr=False)
class OracleProtocol(ReportProtocol):
    """Reports of frequency oracles, in columns of their own."""

    # The columns form attributes: one for each column (``strategy="split"``, each with a share of epsilon, or
    # ``"sample"``, where each record reports one of them with all of epsilon), or a single one with a value for each
    # cell of the Cartesian product (``"joint"``). Reports are an array for each attribute, and under "sample" a last
    # one that says which attribute each row reports: all others are 0.

    encoder: str
    domain: Domain
    oracles: tuple[FrequencyOracle, ...]
    guarantee: PrivacyGuarantee
    strategy: str = "split"
    unknown: str | dict[Any, int] = "error"
    output: str = "bits"
    memo: Memo | None = None
    permanent: tuple[FrequencyOracle, ...] = ()
    """The oracles of the permanent reports, if `oracles` randomise these once more at each report."""

    attributes: list[tuple[Any, ...]] = field(init=False)
    """The columns of each attribute."""
    domains: list[Domain] = field(init=False)
    """The values of each attribute."""

    def __post_init__(self) -> None:
        attributes = attributes_of(self.domain, self.strategy)
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(
            self, "domains", [self.domain.select(columns) for columns in attributes]
        )

    @property
    def report_columns(self) -> list[Any]:
        return self.names(list(map(str, self.columns)))

    @property
    def declared(self) -> dict[str, Any]:
        attributes = {name: self.domain[name] for name in self.columns}
        values = {
            name: own if isinstance(own, Interval) else list(own.values)
            for name, own in attributes.items()
        }
        return {"categories": values}

    @property
    def n_sampled(self) -> int | None:
        return 1 if self.strategy == "sample" else None

    @property
    def permanent_key(self) -> bytes | None:
        return None if self.memo is None else self.memo.key

    def names(self, inputs: Sequence[str]) -> list[str]:
        """Name the report columns after the columns of the input."""
        known = dict(zip(self.columns, inputs, strict=True))
        names = [
            name
            for index in range(len(self.oracles))
            for name in self.columns_of(index, known)
        ]
        if self.strategy == "sample":
            names.append(SAMPLED)
        if len(set(names)) < len(names):
            raise ValueError(
                "two columns of the output would have the same name; rename columns or categories"
            )
        return names

    def columns_of(
        self, index: int, inputs: Mapping[Any, str] | None = None
    ) -> list[Any]:
        """Name the report columns of one attribute."""
        oracle = self.oracles[index]
        prefix = self._prefix(index, inputs)
        suffixes = oracle.fields(
            value_labels(self.domains[index]) if oracle.has_bits else ()
        )
        return [f"{prefix}_{suffix}" if suffix else prefix for suffix in suffixes]

    def value_names(self, inputs: Sequence[str] | None = None) -> list[str]:
        """Name a column for each value of each attribute, after the columns of the input."""
        known = None if inputs is None else dict(zip(self.columns, inputs, strict=True))
        return [
            f"{self._prefix(index, known)}_{label}"
            for index, domain in enumerate(self.domains)
            for label in value_labels(domain)
        ]

    def _prefix(self, index: int, inputs: Mapping[Any, str] | None) -> str:
        return "_".join(
            str(name) if inputs is None else inputs[name]
            for name in self.attributes[index]
        )

    def prepare(self, table: Table) -> Codes:
        codes = self.domain.encode(table.columns)
        if self.unknown == "error":
            for name in undeclared(self.domain, codes):
                raise undeclared_error(name, self.domain[name], advice=UNIFORM)
        for oracle in self.oracles:
            oracle._check_size(len(codes[0]))
        return codes

    def randomise(
        self, codes: Codes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        chosen = None
        if self.memo is not None:
            codes = (
                codes
                if self.unknown == "uniform"
                else self._fill_unknown(codes, randomness)
            )
            reports, chosen = self.memo.report(codes, records)
            if self.permanent:
                two_rounds = cast(tuple[TwoRounds, ...], self.oracles)
                reports = [
                    oracle.report_again(report, randomness("report", *columns))
                    for oracle, report, columns in zip(
                        two_rounds, reports, self.attributes, strict=True
                    )
                ]
        else:
            codes = self._join(self._fill_unknown(codes, randomness))
            if self.strategy == "sample":
                # Drawn without looking at the data, so it may be public.
                chosen = uniform_integers(
                    randomness("sample"), len(self.attributes), len(codes[0])
                )
            reports = [
                oracle.report(code, randomness("report", *columns))
                for oracle, code, columns in zip(
                    self.oracles, codes, self.attributes, strict=True
                )
            ]
        if chosen is None:
            return reports
        for index, report in enumerate(reports):
            report[chosen != index] = 0
        return [*reports, chosen]

    def _join(self, codes: Codes) -> Codes:
        return [self.domain.join(codes)] if self.strategy == "joint" else codes

    def _fill_unknown(self, codes: Codes, randomness: Randomness) -> Codes:
        """Replace the codes of undeclared values."""
        if self.unknown == "error":
            return codes
        filled = []
        for name, size, column in zip(
            self.columns, self.domain.sizes, codes, strict=True
        ):
            if isinstance(self.unknown, dict):
                drawn: Any = self.unknown[name]
            else:
                # Drawn for every row, so that the time does not show how many were unforeseen.
                drawn = uniform_integers(randomness("unknown", name), size, column.size)
            column = column.copy()
            np.copyto(column, drawn, where=column == size, casting="unsafe")
            filled.append(column)
        return filled

    def write(self, reports: Reports, table: Table) -> Any:
        blocks = []
        for index, (oracle, report) in enumerate(
            zip(self.oracles, reports, strict=False)
        ):
            if self.output == "unbiased" and report.dtype == np.uint8:
                report = oracle.unbiased(report)
                if self.strategy == "sample":
                    report[reports[-1] != index] = 0
            blocks.append(report if report.ndim == 2 else report.reshape(-1, 1))
        if self.strategy == "sample":
            blocks.append(reports[-1].reshape(-1, 1))
        return table.rebuild(blocks, self.report_columns)

    def encode(self, table: Table, randomness: Randomness) -> Any:
        """Write the reports without noise: not private."""
        self.check_encodable()
        codes = self._join(self._fill_unknown(self.prepare(table), randomness))
        plain = [
            oracle.encode(code)
            for oracle, code in zip(self.oracles, codes, strict=True)
        ]
        if (
            self.output == "unbiased"
        ):  # without noise, the unbiased form of a bit is the bit itself
            plain = [bits.astype(float) for bits in plain]
        return self.write(plain, table)

    def check_encodable(self) -> None:
        """Check that there are reports without noise."""
        if self.strategy == "sample":
            raise ValueError(
                "strategy='sample' reports one column of each record: there is no encoding of all of them"
            )
        for oracle in self.oracles:
            if not oracle.is_encodable:
                raise ValueError(
                    f"{type(oracle).__name__} draws random bits by nature: it has no encoding without noise"
                )

    def read(self, reports: Any) -> Reports:
        table = self.report_table(reports)
        columns = list(table.columns)
        chosen = (
            read_sampled(columns.pop(), len(self.oracles))
            if self.strategy == "sample"
            else None
        )
        arrays = []
        for index in range(len(self.oracles)):
            width = self.width_of(index)
            own, columns = columns[:width], columns[width:]
            if chosen is None:
                arrays.append(self.read_part(index, own, slice(None)))
            else:
                rows = chosen == index
                arrays.append(spread(self.read_part(index, own, rows), rows))
        return arrays if chosen is None else [*arrays, chosen]

    def width_of(self, index: int) -> int:
        """Return the number of report columns of one attribute."""
        return self.oracles[index].width

    def read_part(
        self, index: int, columns: list[Any], rows: NDArray[np.bool_] | slice
    ) -> NDArray[Any]:
        """Read the reports of one attribute in some rows of its columns."""
        oracle = self.oracles[index]
        block = np.column_stack([np.asarray(column) for column in columns])[rows]
        if self.output == "unbiased":
            numbers = read_floats(block)
            bits = (numbers > 0).view(np.uint8)
            if not np.allclose(oracle.unbiased(bits), numbers):
                raise ValueError(
                    "the reports hold numbers that are not ones of this encoder"
                )
            return bits
        return oracle.read(
            block if block.dtype.kind in "iub" else read_whole_numbers(block)
        )

    def parts(self, reports: Reports) -> list[tuple[NDArray[Any], NDArray[np.intp]]]:
        """Return for each attribute the reports of it, and which rows they are of."""
        if self.strategy != "sample":
            return [(report, np.arange(len(report))) for report in reports]
        *reports, chosen = reports
        rows = [np.flatnonzero(chosen == index) for index in range(len(reports))]
        return [(report[own], own) for report, own in zip(reports, rows, strict=True)]

    def tally(self, reports: Reports) -> ReportTally:
        own = (
            [part for part, _ in self.parts(reports)]
            if self.strategy == "sample"
            else reports
        )
        support = tuple(
            oracle.tally(part) for oracle, part in zip(self.oracles, own, strict=True)
        )
        return self._tally_of(support, tuple(map(len, own)), len(reports[0]))

    def report_counts(self, reports: Reports) -> NDArray[np.int64]:
        own = (
            [part for part, _ in self.parts(reports)]
            if self.strategy == "sample"
            else reports
        )
        parts = [
            oracle.part_counts(part)
            for oracle, part in zip(self.oracles, own, strict=True)
        ]
        return joined_counts(len(reports[0]), parts)

    def empty_counts(self) -> NDArray[np.int64]:
        return joined_counts(
            0, [np.zeros(oracle.n_part_counts, np.int64) for oracle in self.oracles]
        )

    def tallied_counts(self, tally: ReportTally) -> NDArray[np.int64] | None:
        parts = []
        for oracle, support, size in zip(
            self.oracles, tally.counts, tally.sizes, strict=True
        ):
            if oracle.has_bits:
                parts.append(np.concatenate([support, size - support]))
            elif isinstance(oracle, RandomizedResponse):
                parts.append(fold(support))
            else:
                return None
        return joined_counts(tally.n_reports, parts)

    @property
    def counted_columns(self) -> list[list[Any]]:
        # The distinct reports of a few bits are few: an engine counts them in less time than it hands over all rows.
        few = all(oracle.has_bits and oracle.k <= _MOST_BITS for oracle in self.oracles)
        countable = few and self.output == "bits" and self.strategy != "sample"
        return (
            [self.columns_of(index) for index in range(len(self.oracles))]
            if countable
            else []
        )

    def tally_counts(self, rows: Any, counts: NDArray[np.int64]) -> ReportTally:
        table, tally = read_table(rows), self.empty_tally()
        found = dict(zip(table.names, table.columns, strict=True))
        total, sizes = int(counts.sum()), [0] * len(tally.sizes)
        for index, support in enumerate(tally.counts):
            names = self.columns_of(index)
            if set(names) <= set(found):
                self._add_distinct(
                    support, index, [found[name] for name in names], counts
                )
                sizes[index] = total
        return replace(tally, sizes=tuple(sizes), n_reports=sizes[0])

    def _add_distinct(
        self, support: Any, index: int, columns: list[Any], counts: NDArray[np.int64]
    ) -> None:
        """Add the distinct reports of an attribute."""
        support += counts @ self.oracles[index].supports(
            self.read_part(index, columns, slice(None))
        )

    def empty_tally(self) -> ReportTally:
        support = tuple(np.zeros(oracle.k, np.int64) for oracle in self.oracles)
        return self._tally_of(support, (0,) * len(support), 0)

    def _tally_of(self, support: Any, sizes: Any, n_reports: int) -> ReportTally:
        return ReportTally(self.meaning, support, sizes, n_reports)

    def estimate(  # type: ignore[override]
        self,
        tally: ReportTally,
        *,
        reports: Reports | None = None,
        postprocess: str = "none",
        confidence_level: float = 0.95,
        simultaneous: bool = False,
        what: str = "count",
        columns: Sequence[Any] | None = None,
    ) -> pd.DataFrame:
        parts = None if reports is None else [part for part, _ in self.parts(reports)]
        return estimate_counts(
            self,
            tally,
            parts,
            postprocess,
            confidence_level,
            simultaneous,
            what,
            columns,
        )

    def tails(
        self, tally: ReportTally, columns: Sequence[Any] | None = None
    ) -> list[tuple[float, float, str]]:
        found = []
        for names, oracle, support, size in zip(
            self.attributes, self.oracles, tally.counts, tally.sizes, strict=True
        ):
            if size and (columns is None or not set(columns).isdisjoint(names)):
                whose = ", ".join(map(repr, names))
                found += [
                    (tail, choices, whose)
                    for tail, choices in oracle.tails(support, size)
                ]
        return found

    @property
    def meaning(self) -> dict[str, Any]:
        """What a server must know to read the reports, besides the domain."""
        fields = [
            sums_of_oracle(domain, oracle)
            for domain, oracle in zip(self.domains, self.oracles, strict=True)
        ]
        return {
            "encoder": self.encoder,
            "n_sampled": self.n_sampled,
            "fields": fields,
        }

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        oracles = self.permanent or self.oracles
        if any(
            oracle.k * max(oracle.k, oracle.n_reports) > most_entries
            for oracle in oracles
        ):
            return None
        return [oracle.channels() for oracle in oracles]

    def shuffle_pairs(self, released: Released) -> tuple[ReportPair, ...]:
        return shuffled_parts(
            [oracle.shuffle_pair() for oracle in self.oracles], self.strategy, released
        )

    def parameters(self) -> dict[str, Any]:
        columns = [[name, plain_values(self.domain[name])] for name in self.columns]
        return {
            "encoder": self.encoder,
            "columns": columns,
            "strategy": self.strategy,
            "oracles": [oracle.parameters() for oracle in self.oracles],
            "unknown": self.unknown,
            "output": self.output,
        }

    def without_secrets(self) -> OracleProtocol:
        return replace(self, memo=None)

    def cost_of_changes(self, n_values: int) -> Fraction:
        """Add up the epsilons of a record's permanent reports: those of `n_values` values of each attribute."""
        assert self.memo is not None
        pairs = zip(self.permanent or self.oracles, self.memo.n_states, strict=True)
        costs = [
            Fraction(oracle.epsilon) * min(n_values, most) for oracle, most in pairs
        ]
        return max(costs) if self.strategy == "sample" else sum(costs, Fraction(0))


def sums_of_oracle(domain: Domain, oracle: Any) -> dict[str, Any]:
    """Return what a tally says of the reports of an oracle."""
    possible = "signed" if oracle.is_signed else "any"
    if isinstance(oracle, RandomizedResponse):  # a report supports one value
        possible = "one"
    return {
        "columns": list(domain.columns),
        "domain": domain,
        **oracle.parameters(),
        "shape": [oracle.k],
        "possible": possible,
    }


def undeclared(domain: Domain, codes: Codes) -> list[Any]:
    """List the columns with codes of values that are not declared."""
    triples = zip(domain.columns, domain.sizes, codes, strict=True)
    return [name for name, size, column in triples if column.max(initial=0) == size]
