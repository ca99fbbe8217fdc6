"""Whether two objects are made of the same values."""

from functools import cached_property

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa


def assert_same(one, two, where="estimator"):
    """Compare all attributes; which call is next, what parts of a release read, and whether a key shows, may differ."""
    assert type(one) is type(two) or {type(one).__name__, type(two).__name__} in (
        {"bytes", "SecretKey"},
        {"JunctionTree", "_GivenTree"},
    ), where
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype, where
        assert one.shape == two.shape, where
        if one.dtype.kind == "O":
            for place, pair in enumerate(zip(one.ravel(), two.ravel(), strict=True)):
                assert_same(*pair, f"{where}[{place}]")
        else:
            np.testing.assert_array_equal(one, two, where)
    elif isinstance(one, dict):
        assert list(one) == list(two), where
        for key in one:
            assert_same(one[key], two[key], f"{where}[{key!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(two), where
        for place, pair in enumerate(zip(one, two, strict=True)):
            assert_same(*pair, f"{where}[{place}]")
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, two)
    elif isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, two)
    elif isinstance(one, pl.DataFrame | pl.Series | pa.Table | pa.ChunkedArray):
        assert one.equals(two), where
    elif type(one).__name__ in ("CallCounter", "PrivacyLedger") or isinstance(one, type):
        pass
    elif type(one).__name__ == "ProtocolJson":
        assert one.text == two.text, where
    elif isinstance(one, bytes):
        assert one == two, where
    elif hasattr(one, "__dict__"):
        assert_same(*map(_parts, (one, two)), where)
    elif hasattr(type(one), "__slots__"):
        for name in type(one).__slots__:
            assert_same(getattr(one, name, None), getattr(two, name, None), f"{where}.{name}")
    else:
        assert one == two or (one != one and two != two), where


def _parts(made):
    cached = {name for name in vars(made) if isinstance(getattr(type(made), name, None), cached_property)}
    return {name: vars(made)[name] for name in sorted(vars(made).keys() - cached - {"_calls"})}
