"""A release depends on the rows by their values only: nothing else of a table, of any library, is carried along."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.base import clone

from skdp.base import split_if_supervised

# The secret of each frame, in every location that can contain it.
SECRET = "s3cr3t, and too long for Polars to keep in place"
SECRET_NUMBER = 72_619
N_ROWS = 24


def is_table(value):
    return isinstance(value, pd.DataFrame | pd.Series | pd.Index | np.ndarray) or hasattr(value, "__dataframe__")


def tables_in(root):
    """Yield the path and the value of all tables and arrays in the attributes and items of an object."""
    visited, items = set(), list(vars(root).items())
    while items:
        path, value = items.pop()
        if id(value) in visited or isinstance(value, str | bytes | type):
            continue
        visited.add(id(value))
        if is_table(value):
            yield path, value
        elif isinstance(value, dict):
            items += [(f"{path}[{key!r}]", item) for key, item in value.items()]
        elif isinstance(value, list | tuple | set | frozenset):
            items += [(path, item) for item in value]
        else:
            items += [(f"{path}.{name}", item) for name, item in getattr(value, "__dict__", {}).items()]


def shows_secret(value):
    """Return True if the serialized value contains the secret."""
    data = pickle.dumps(value)
    numbers = [np.array([SECRET_NUMBER], dtype).tobytes() for dtype in (int, float)]
    return any(sign in data for sign in (SECRET.encode(), *numbers))


# Frames of each library, with the secret beside their rows.


def is_text(column):
    return all(value is None or isinstance(value, str) for value in column)


def stranger_of(column):
    """Return a value of rows outside the slice."""
    value = next((value for value in column if value not in (None, ())), None)
    if value is None or isinstance(value, str):
        return SECRET
    if isinstance(value, tuple):
        return tuple(stranger_of([element]) for element in value)
    return type(value)(SECRET_NUMBER) if type(value) in (int, float) else value


def levels_of(column):
    """Return the values in order of appearance; the value outside does not occur in the slice."""
    return list(dict.fromkeys(value for value in column if value is not None))


def as_objects(column):
    return pd.Series(column, dtype=object if is_text(column) or isinstance(column[0], tuple) else None)


def under_mask(column):
    """Put the secret under the mask of missing values."""
    dtype = {bool: "boolean", int: "Int64", float: "Float64"}.get(type(column[0]), "string")
    # A missing number is set by its mask alone, so its value stays in memory.
    series = pd.Series([column[0]] * len(column), dtype=dtype)
    for place, value in enumerate(column):
        series[place] = value
    return series


def under_nulls(column):
    """Put the secret under the nulls of an Arrow array of text."""
    array = pa.array(column, "string" if is_text(column) else None)
    if not pa.types.is_string(array.type):
        return array
    validity, *_ = array.buffers()
    _, *texts = array.fill_null(SECRET).buffers()
    return pa.Array.from_buffers(array.type, len(array), [validity, *texts])


PANDAS = {
    "pandas": as_objects,
    "pandas, string": pd.Series,
    "pandas, nullable": under_mask,
    "pandas, category": lambda column: pd.Series(pd.Categorical(column, categories=levels_of(column))),
    "pandas, Arrow": lambda column: pd.Series(column, dtype=pd.ArrowDtype(pa.array(column).type)),
}
ARROW = {
    "pyarrow": under_nulls,
    "pyarrow, string view": lambda column: pa.array(column, "string_view" if is_text(column) else None),
    "pyarrow, dictionary": lambda column: pa.array(column).dictionary_encode(),
}
POLARS = {
    "polars": lambda column: None,
    "polars, Enum": lambda column: pl.Enum(levels_of(column)),
    "polars, Categorical": lambda column: pl.Categorical(),
}


def burdened_frames(rows):
    """Yield equal rows as frames of each library: slices of larger tables, with other rows before and after."""
    widened = {}
    for name, column in rows.items():
        # Each text is an object of this frame only.
        own = ["".join(list(value)) if isinstance(value, str) else value for value in column]
        widened[name] = [stranger_of(column), *own, stranger_of(column)]
    has_lists = any(isinstance(column[0], tuple) for column in rows.values())
    for kind, make in [*PANDAS.items()][: 1 if has_lists else None]:
        yield kind, pandas_frame({name: make(column) for name, column in widened.items()})
    array = np.empty((N_ROWS + 2, len(rows)), object)
    for place, column in enumerate(widened.values()):
        array[:, place] = as_objects(column)
    yield "array", array[1:-1]
    if set(map(type, array.flat)) == {str}:
        yield "array of text", array.astype(str)[1:-1]
    for kind, make in [*ARROW.items()][: 1 if has_lists else None]:
        yield kind, arrow_table({name: make(column) for name, column in widened.items()})
    for kind, dtype_of in [*POLARS.items()][: 1 if has_lists else None]:
        yield kind, polars_frame(widened, dtype_of)
    if not has_lists:
        # Chunks end where the first column changes.
        first = next(iter(rows.values()))
        cut = next((place for place, value in enumerate(first) if value != first[0]), 1)
        table = arrow_table({name: pa.array(column).dictionary_encode() for name, column in widened.items()})
        yield "pyarrow, chunked", pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        frame = polars_frame(widened, POLARS["polars"])
        yield "polars, chunked", pl.concat([frame.slice(0, cut), frame.slice(cut)], rechunk=False)


def pandas_frame(columns):
    labels = [SECRET, *[f"row {7 * place % N_ROWS}" for place in range(N_ROWS)], SECRET]
    index = pd.MultiIndex.from_arrays([labels, range(N_ROWS + 2)])
    frame = pd.DataFrame(columns).set_axis(index).iloc[1:-1]
    for part in (frame, *(frame[name] for name in frame)):
        part.attrs["note"] = SECRET
    return frame


def arrow_table(arrays):
    # Most functions of Arrow copy the metadata of a schema.
    fields = [pa.field(name, array.type, metadata={"note": SECRET}) for name, array in arrays.items()]
    schema = pa.schema(fields, metadata={"note": SECRET, "pandas": SECRET})
    return pa.Table.from_arrays([*arrays.values()], schema=schema).slice(1, N_ROWS)


def polars_frame(widened, dtype_of):
    dtypes = {name: dtype_of(column) if is_text(column) else None for name, column in widened.items()}
    frame = pl.DataFrame({name: pl.Series(column, dtype=dtypes[name]) for name, column in widened.items()})
    frame = frame.slice(1, N_ROWS)
    for name, column in widened.items():
        # polars records if a column is sorted.
        inside = column[1:-1]
        if None not in inside and inside == sorted(inside):
            frame = frame.with_columns(pl.col(name).set_sorted())
    return frame


def opposite_frames(X):
    """Make two tables per library, with columns in opposite orders that each lack one value of X."""
    rising, falling = {}, {}
    objects = X.astype(object).where(X.notna(), None)
    places = np.linspace(0, 1, N_ROWS)
    for name in X:
        # Missing values are last, because they cannot be compared.
        order = sorted(dict.fromkeys(objects[name]), key=lambda value: (value is None, value))
        for rows, values in ((rising, order[:-1] or order), (falling, order[:0:-1] or order)):
            rows[name] = [values[place] for place in (places * (len(values) - 1)).round().astype(int)]
    opposite = dict(burdened_frames(falling))
    for kind, frame in burdened_frames(rising):
        if kind in opposite:
            yield kind, frame, opposite[kind]


# Requirements on releases and on fitted estimators.


def require_same_form(kind, tables, released):
    """Fail if the releases of two tables differ in more than values, or contain the secret."""
    for table, output in zip(tables, released, strict=True):
        assert not shows_secret(output), f"{kind}: what the frame holds beside its rows is released"
        # A view or an object of the true rows reveals them through its base, and changes with them.
        shared = [set(map(id, memory_of(own))) | to_object_list(own) for own in (table, output)]
        assert shared[0].isdisjoint(shared[1]), f"{kind}: the output shares memory or objects with the true rows"
    names = differences(*map(facts_of, released))
    assert not names, f"{kind}: something else than the values depends on the rows: {', '.join(names)}"


def require_same_storage(kind, fitted, other_fitted):
    """Fail if two fitted estimators store objects that differ in more than values, or contain the secret."""
    assert not shows_secret(fitted), f"{kind}: what the frame holds beside its rows is stored"
    tables, other_tables = dict(tables_in(fitted)), dict(tables_in(other_fitted))
    for path in tables.keys() & other_tables.keys():
        names = differences(facts_of(tables[path]), facts_of(other_tables[path]))
        assert not names, f"{kind}: the attribute {path} depends on the rows: {', '.join(names)}"


# The frames for fits that take longer than a transform.
FEW_KINDS = ("pandas", "pandas, category", "pyarrow", "pyarrow, dictionary", "polars", "polars, Categorical")


def check_fits(estimator, X):
    """Check that fitted attributes and private rows differ in values only, for frames of some libraries."""
    for kind, *tables in opposite_frames(X):
        if kind not in FEW_KINDS:
            continue
        try:
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                fits = [
                    clone(estimator).set_params(random_state=0).fit(*split_if_supervised(estimator, table))
                    for table in tables
                ]
        except (TypeError, ValueError):
            continue  # it does not accept such frames
        require_same_storage(kind, *fits)
        # Rows are compared if the estimator states that they are private.
        if getattr(estimator, "protects_rows", None) is True:
            rows = [split_if_supervised(estimator, table)[0] for table in tables]
            require_same_form(kind, tables, [fit.transform(own) for fit, own in zip(fits, rows, strict=True)])
        if hasattr(estimator, "sample") and fits[0].guarantee_.relation != "replace_values":
            require_same_form(kind, tables, [fit.sample(20) for fit in fits])


# Facts of a table: all except its values, its row index, its number of rows, and counts of its values.


def facts_of(output):
    if isinstance(output, np.ndarray):
        return {"dtype": output.dtype.str}
    facts, columns = {}, {}
    if isinstance(output, pd.DataFrame):
        facts["frame"] = [output.attrs, output.flags.allows_duplicate_labels, labels_of(output.columns)]
        # Two columns may have the same name.
        columns = {place: output.iloc[:, place] for place in range(output.shape[1])}
    elif isinstance(output, pa.Table):
        facts["metadata"] = [output.schema.metadata, *(field.metadata for field in output.schema)]
        columns = {name: output[name] for name in output.column_names}
    elif isinstance(output, pl.DataFrame):
        columns = {column.name: column for column in output.get_columns()}
    else:
        return facts_of_column(output)
    for name, column in columns.items():
        facts |= {f"{name!r}: {fact_name}": fact for fact_name, fact in facts_of_column(column).items()}
    return facts


def facts_of_column(column):
    if isinstance(column, pd.Series | pd.Index):
        # An index has no attributes.
        facts = {"dtype": dtype_of(column.dtype), "attrs": getattr(column, "attrs", {})}
        is_arrow = isinstance(column.dtype, pd.ArrowDtype)
        return facts | facts_of_column(column.array.__arrow_array__()) if is_arrow else facts
    if type(column).__module__.startswith("pyarrow"):
        chunks = getattr(column, "chunks", [column])
        dictionaries = [chunk.dictionary.to_pylist() for chunk in chunks if hasattr(chunk, "dictionary")]
        # The last chunk ends with the table.
        return {"type": str(column.type), "chunks": [*map(len, chunks[:-1])], "dictionaries": dictionaries}
    facts = {"dtype": repr(column.dtype), "flags": column.flags, "chunks": column.chunk_lengths()[:-1]}
    categories = getattr(column.dtype, "categories", None)
    if categories is not None and hasattr(categories, "to_list"):
        facts["categories"] = categories.to_list()
    elif isinstance(column.dtype, pl.Categorical):
        # The codes depend on all data that the process reads. NaN is unequal to itself: always a difference.
        facts["process-wide categories"] = float("nan")
    return facts


def labels_of(index):
    if isinstance(index, pd.MultiIndex):
        return index.tolist(), list(index.names), [labels_of(level) for level in index.levels]
    return index.tolist(), index.name, dtype_of(index.dtype)


def dtype_of(dtype):
    if isinstance(dtype, pd.CategoricalDtype):
        return "category", labels_of(dtype.categories), dtype.ordered
    return str(dtype)


def differences(facts, other_facts):
    """Return the differences of two outputs other than their values."""
    return [name for name in facts | other_facts if facts.get(name) != other_facts.get(name)]


def memory_of(table):
    """Yield the arrays that own the memory of the columns of a table; the base of a slice may contain all rows."""
    if isinstance(table, pd.DataFrame):
        for place in range(table.shape[1]):
            yield from memory_of(table.iloc[:, place])
    elif isinstance(table, pd.Series) and isinstance(table.dtype, np.dtype):
        yield from memory_of(table.to_numpy())
    elif isinstance(table, np.ndarray):
        while isinstance(table.base, np.ndarray):
            table = table.base
        yield table


def to_object_list(table):
    """Return the identities of texts in columns of objects; Python shares texts of one character."""
    items = [item for array in memory_of(table) if array.dtype == object for item in array.ravel()]
    return {id(item) for item in items if isinstance(item, str) and len(item) > 1}
