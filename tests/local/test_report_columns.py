"""Reports are read from any layout of their table, with the same sums."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skdp
from tests.conftest import diagonal, quick_first

TABLE = pd.DataFrame({"x": [f"v{number % 9}" for number in range(700)], "y": [number % 3 for number in range(700)]})
DECLARED = {"x": [f"v{number}" for number in range(9)], "y": [0, 1, 2]}


def lay_out(reports):
    """Yield equal reports in tables of other layouts, libraries and dtypes."""
    numbers = reports.to_numpy()
    yield numbers
    yield np.asfortranarray(numbers)
    yield np.repeat(numbers, 2, axis=0)[::2]
    yield np.repeat(numbers, 2, axis=1)[:, ::2]
    yield np.flip(np.flip(numbers).copy())
    yield pd.DataFrame(np.asfortranarray(numbers), columns=reports.columns)
    yield pd.DataFrame({name: reports[name].copy() for name in reports})
    yield pd.DataFrame(numbers[:, ::-1].copy(), columns=reports.columns[::-1])[list(reports.columns)]
    yield pd.DataFrame(dict(zip(reports.columns, np.ascontiguousarray(numbers.T), strict=True)), copy=False)
    yield reports.astype(dict.fromkeys(reports.columns[:4], "int64"))
    yield from (reports.astype(dtype) for dtype in ("int64", "float32", "bool", object))
    yield pl.DataFrame(dict(reports.items()))
    yield pl.concat([pl.DataFrame(dict(half.items())) for half in (reports[:300], reports[300:])], rechunk=False)
    yield pa.concat_tables([pa.Table.from_pandas(half, preserve_index=False) for half in (reports[:1], reports[1:])])


@pytest.mark.parametrize(
    ("strategy", "kind"), diagonal(["split", "sample"], ["UnaryEncodingTransformer", "SubsetSelectionEncoder"])
)
def test_sums_of_reports_do_not_depend_on_their_layout(kind, strategy):
    encoder = getattr(skdp, kind)(1.0, categories=DECLARED, strategy=strategy, random_state=0).fit(TABLE)
    reports = encoder.transform(TABLE)
    expected = [reports.filter(like=f"{name}_v" if name == "x" else f"{name}_").sum().tolist() for name in "xy"]
    assert [sums.tolist() for sums in encoder.tally(reports).counts] == expected
    values = encoder.debias(reports).to_numpy()
    for table in lay_out(reports):
        if strategy == "split" or "bool" not in str(getattr(table, "dtypes", "")):
            assert [sums.tolist() for sums in encoder.tally(table).counts] == expected
            assert np.array_equal(np.asarray(encoder.debias(table)), values)


@pytest.mark.parametrize("number", [2, 255])
def test_values_other_than_bits_raise_an_error_in_every_layout(number):
    encoder = skdp.UnaryEncodingTransformer(1.0, categories=DECLARED, random_state=0).fit(TABLE)
    reports = encoder.transform(TABLE)
    reports.iloc[433, 7] = number
    for table in lay_out(reports):
        if "bool" not in str(getattr(table, "dtypes", "")):
            with pytest.raises(ValueError, match="only 0 and 1"):
                encoder.tally(table)


@pytest.mark.parametrize(
    "encoder",
    quick_first(
        2,
        [
            skdp.UnaryEncodingTransformer(categories={"x": range(60)}, random_state=0),
            skdp.RapporEncoder(random_state=0),
            skdp.SubsetSelectionEncoder(categories={"x": range(60)}, random_state=0),
            skdp.SetValuedEncoder(categories={"x": range(60)}, random_state=0),
        ],
    ),
    ids=lambda encoder: type(encoder).__name__,
)
def test_bits_in_one_array_are_summed_without_a_copy(encoder):
    numbers = np.arange(10_000) % 60
    column = [[number] for number in numbers] if "max_size" in encoder.get_params() else numbers
    reports = encoder.fit_transform(pd.DataFrame({"x": column}))
    array = np.asfortranarray(reports)
    expected = encoder.tally(reports).to_json()
    for table in (reports, reports[1:-1], reports.to_numpy(), pd.DataFrame(array, columns=reports.columns)):
        tracemalloc.start()
        tally = encoder.tally(table)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < array.nbytes / 2
        assert tally.to_json() == expected or len(table) < len(reports)
