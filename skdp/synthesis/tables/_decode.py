"""From codes back to a table like the one that `fit` saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import draw_seed
from skdp.domain import Domain, Interval, declared_dtype
from skdp.synthesis.tables._draws import draw, round_as_declared
from skdp.synthesis.tables._shapes import Shapes
from skdp.tables import Table, column_of, empty_column, labels_of, library_of

Rows = Sequence[NDArray[np.integer]]


def make_generator(random_state: Any, *key: Any) -> np.random.Generator:
    """Return a generator of post-processing, which shares no random bits with the noise."""
    seed = draw_seed(random_state)
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng([seed, *map(ord, repr(key))])


def select_columns(table: Table, names: Sequence[Any]) -> Table:
    """Return some columns of a table."""
    columns = dict(zip(table.names, table.columns, strict=True))
    return Table(tuple(names), tuple(map(columns.__getitem__, names)), table.native)


def public_template(table: Table, domain: Domain) -> Table:
    """Keep the library and the names of a table, but no row."""
    libraries = list(map(library_of, table.columns))
    return _template(table, domain, libraries)


def sample_template(table: Table, domain: Domain) -> Table:
    """Keep the same, with all columns of the library of the table, which may not be that of a target."""
    library = "numpy"
    if not isinstance(table.native, np.ndarray):
        library = nw.from_native(table.native).implementation.value
    return _template(table, domain, [library] * len(table.columns))


def _template(table: Table, domain: Domain, libraries: Sequence[str]) -> Table:
    columns = []
    for name, library in zip(domain.columns, libraries, strict=True):
        columns.append(empty_column(library, declared_dtype(domain[name], library)))
    return Table(table.names, tuple(columns), _empty_native(table.native))


@dataclass(frozen=True)
class DrawnRows:
    """Rows as codes, and the numbers and dates that were drawn within their bins."""

    domain: Domain
    codes: list[NDArray[np.integer]]
    numbers: dict[Any, NDArray[Any]]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.codes[0])

    def replace(
        self, places: NDArray[np.intp], rows: DrawnRows, chosen: NDArray[np.intp]
    ) -> None:
        """Replace some rows by some of the other rows."""
        for codes, other_codes in zip(self.codes, rows.codes, strict=True):
            codes[places] = other_codes[chosen]
        for name, numbers in rows.numbers.items():
            self.numbers[name][places] = numbers[chosen]


def decode(
    template: Table,
    domain: Domain,
    codes: Rows,
    rng: np.random.Generator,
    shapes: Shapes | None = None,
) -> tuple[Any, ...]:
    """Turn codes into columns; numbers are drawn within bins, by shapes."""
    return write_rows(template, draw_rows(domain, codes, rng, shapes))


def draw_rows(
    domain: Domain,
    codes: Rows,
    rng: np.random.Generator,
    shapes: Shapes | None = None,
) -> DrawnRows:
    """Draw numbers and dates within the bins of rows, by shapes."""
    shaped = {} if shapes is None else shapes.draw(domain, codes, rng)
    drawn = {}
    for name, column_codes in zip(domain.columns, codes, strict=True):
        values = domain[name]
        if name in shaped and shapes is not None:
            cells, positions = shaped[name]
            drawn[name] = draw(shapes.columns[name].grid, cells, rng, positions)
        elif isinstance(values, Interval):
            drawn[name] = draw(values, column_codes, rng)
    return DrawnRows(domain, list(codes), drawn)


def write_rows(template: Table, rows: DrawnRows) -> tuple[Any, ...]:
    """Write rows as columns of the library of a template."""
    columns = []
    for name, codes, like in zip(
        rows.domain.columns, rows.codes, template.columns, strict=True
    ):
        values = rows.domain[name]
        if isinstance(values, Interval):
            columns.append(_write(rows.numbers[name], values, codes, like))
        else:
            (decoder,) = rows.domain.select([name]).decoders([like])
            columns.append(decoder(codes))
    return tuple(columns)


def check_decodable(template: Table, domain: Domain) -> None:
    """Make sure that all declared values can be written in the library of a table."""
    names = []
    columns = []
    for name, column in zip(domain.columns, template.columns, strict=True):
        if not isinstance(domain[name], Interval):
            names.append(name)
            columns.append(column)
    if names:
        domain.select(names).decoders(columns)


def make_frame(template: Table, columns: Sequence[Any], names: Sequence[Any]) -> Any:
    """Make a table of new rows with these names; a frame of pandas has a new index."""
    native = template.native
    if isinstance(native, pd.DataFrame):
        native = pd.DataFrame(index=pd.RangeIndex(len(columns[0])))
    return Table(template.names, template.columns, native).rebuild(columns, names)


def assemble(template: Table, columns: Sequence[Any], names: Sequence[Any]) -> Any:
    """Make a table of new rows, with the labels of the template if it has as many columns."""
    frame = make_frame(template, columns, names)
    native = template.native
    if isinstance(native, pd.DataFrame) and len(names) == len(native.columns):
        frame.columns = labels_of(native.columns)
    return frame


def _empty_native(native: Any) -> Any:
    if isinstance(native, np.ndarray):
        return np.empty((0, native.shape[1]), object)
    if isinstance(native, pd.DataFrame):
        labels = labels_of(native.columns)
        return pd.DataFrame(columns=labels, index=pd.RangeIndex(0))
    return nw.from_dict({}, backend=nw.from_native(native).implementation).to_native()


def _write(
    drawn: NDArray[Any], interval: Interval, codes: NDArray[np.integer], like: Any
) -> Any:
    """Make a column of numbers or dates, missing where the codes are."""
    # The code behind those of all bins is that of missing.
    is_missing = codes == len(interval.edges) - 1
    library = library_of(like)
    if interval.dtype.kind != "f":
        drawn[is_missing] = np.datetime64("NaT", "us")
        return column_of(drawn, library)
    numbers = round_as_declared(drawn, interval)
    return column_of(numbers, library, is_missing if interval.missing else None)
