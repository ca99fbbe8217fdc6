"""Values without a Python object are outside the domain, and do not affect other rows."""

from datetime import date, datetime

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import Domain, DPHistogram, DPMarginalSynthesizer
from tests.errors import refusal

DAY = date(2020, 1, 2)
DAYS = 18_263
NOON = datetime(2020, 1, 2, 12)
SECONDS = DAYS * 86_400 + 43_200


def arrow(numbers, dtype):
    integers = pa.int32() if dtype == pa.date32() else pa.int64()
    return pa.chunked_array([pa.array(numbers, integers).cast(dtype)])


def texts(parts, dtype):
    """Make Arrow texts of bytes, which Arrow does not check."""
    array = pa.array(parts, pa.binary())
    return pa.chunked_array([pa.Array.from_buffers(pa.string(), len(array), array.buffers()).cast(dtype)])


def encode_dictionary(column):
    return pa.chunked_array([chunk.dictionary_encode() for chunk in column.chunks])


def in_pandas(column):
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


# For each type: integers of dates or times, the integer of the declared value, integers beyond the range of Python, and
# the declared value.
TIMES = {
    "polars Date": (lambda days: pl.Series(days, dtype=pl.Int32).cast(pl.Date), DAYS, [4_000_000, -2 * 10**9], DAY),
    "Arrow date32": (lambda days: arrow(days, pa.date32()), DAYS, [4_000_000, -800_000], DAY),
    "Arrow dictionary": (lambda days: encode_dictionary(arrow(days, pa.date32())), DAYS, [4_000_000], DAY),
    "pandas date32": (lambda days: in_pandas(arrow(days, pa.date32())), DAYS, [4_000_000], DAY),
    "Arrow date64": (lambda times: arrow(times, pa.date64()), DAYS * 86_400_000, [4_000_000 * 86_400_000], DAY),
}
for _unit, _factor in {"s": 1, "ms": 10**3, "us": 10**6}.items():
    _times = (SECONDS * _factor, [-(2**62), 2**62], NOON)
    _dtype = pa.timestamp(_unit)
    TIMES[f"Arrow {_unit}"] = (lambda times, dtype=_dtype: arrow(times, dtype), *_times)
    TIMES[f"pandas {_unit}"] = (lambda times, dtype=_dtype: in_pandas(arrow(times, dtype)), *_times)
    if _unit != "s":
        _dtype = pl.Datetime(_unit)
        TIMES[f"polars {_unit}"] = (lambda times, dtype=_dtype: pl.Series(times, dtype=pl.Int64).cast(dtype), *_times)

BYTES = [b"a", b"\xff\xfe", None, b"a"]
TEXTS = {
    "string": lambda: texts(BYTES, pa.string()),
    "large": lambda: texts(BYTES, pa.large_string()),
    "view": lambda: texts(BYTES, pa.string_view()),
    "dictionary": lambda: encode_dictionary(texts(BYTES, pa.string())),
    "pandas": lambda: in_pandas(texts(BYTES, pa.string())),
}


def codes_of(column, values):
    (codes,) = Domain({"x": values}).encode([column])
    return codes.tolist()


@pytest.mark.parametrize("kind", TIMES)
def test_time_beyond_python_is_outside_the_domain(kind):
    make, number, far, declared = TIMES[kind]
    column = make([number, *far, None, number])
    undeclared = [1] * len(far)
    assert codes_of(column, [declared]) == [0, *undeclared, 1, 0]
    assert codes_of(column, [declared, None]) == [0, *[2] * len(far), 1, 0]
    assert codes_of(column, [None]) == [1, *undeclared, 0, 1]


@pytest.mark.parametrize("kind", TEXTS)
def test_invalid_utf8_is_outside_the_domain(kind):
    column = TEXTS[kind]()
    assert codes_of(column, ["b", "a"]) == [1, 2, 2, 1]
    assert codes_of(column, ["a", None]) == [0, 2, 1, 0]
    assert codes_of(column, [None]) == [1, 1, 0, 1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_compared_exactly_in_every_unit(unit):
    """A declared time that the unit cannot represent equals no time, although it would if it were rounded."""
    fraction = pd.Timestamp("2020-01-02 12:00:00.000000001")
    far = datetime(9999, 12, 31)
    column = arrow([SECONDS * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]], pa.timestamp(unit))
    for series in (column, column.to_pandas(), column.to_pandas().to_numpy()):
        assert codes_of(series, [fraction, far, NOON]) == [2]
        assert codes_of(series, [fraction, far]) == [2]
    of_other_machine = column.to_pandas().to_numpy().astype(f">M8[{unit}]")
    assert codes_of(of_other_machine, [fraction, far, NOON]) == [2]
    aware = column.cast(pa.timestamp(unit, "America/Lima"))
    with pytest.raises(ValueError, match=r"dtype .*Lima.* cannot contain the declared values"):
        codes_of(aware, [NOON])


FAR = {
    "polars": lambda days: pl.DataFrame({"d": pl.Series(days, dtype=pl.Int32).cast(pl.Date)}),
    "lazy polars": lambda days: FAR["polars"](days).lazy(),
    "Arrow": lambda days: pa.table({"d": arrow(days, pa.date32())}),
    "pandas": lambda days: pd.DataFrame({"d": in_pandas(arrow(days, pa.date32()))}),
}


@pytest.mark.parametrize("library", FAR)
def test_date_beyond_python_does_not_differ_from_another_unknown_value(library):
    """It made `fit` fail, which revealed that the record was there."""
    counts = []
    for far in (1, 4_000_000, -800_000, 2 * 10**9):
        histogram = DPHistogram(20.0, domain={"d": [DAY]}, handle_unknown="ignore", random_state=0)
        counts.append(histogram.fit(FAR[library]([DAYS] * 50 + [far])).counts_.tolist())
    assert counts == counts[:1] * 4


@pytest.mark.parametrize("library", ["Arrow", "pandas"])
def test_draft_excludes_dates_beyond_python(library):
    assert Domain.from_frame(FAR[library]([DAYS, DAYS, 2 * 10**9])) == Domain({"d": [DAY]})


def test_error_does_not_contain_bytes_of_a_row():
    """The error of Arrow contained the bytes."""
    table = pa.table({"x": ["a", "b"]})
    persons = texts([b"Ann", b"\xffs3cr3t"], pa.string())
    with refusal(ValueError, r"person. cannot be read \(ArrowException\)", "s3cr3t"):
        DPMarginalSynthesizer(domain={"x": ["a", "b"]}).fit(table, person=persons)
