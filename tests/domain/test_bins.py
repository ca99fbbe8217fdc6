"""Finding bins by arithmetic equals comparison with all edges."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import skdp.domain
from skdp.domain import Domain, Interval

EDGES = [
    np.linspace(0, 100, 11),
    np.linspace(-1 / 3, 0.7, 1001),
    np.linspace(0.1, 0.1 + 1e-13, 8),
    np.linspace(1e15, 1e15 + 7, 8),
    np.linspace(-8e307, 8e307, 9),
    np.linspace(0, 1, 11) ** 1.5,
    np.array([5.0, 6.0]),
    np.array([-5e-324, 0.0, 5e-324]),
    np.append(0.0, np.geomspace(1e-6, 1e4, 300)),
    # Cells of equal width with one edge, and one with many, near 0.
    np.union1d(np.linspace(0, 1, 65), 2.0 ** -np.arange(30)),
    np.array([-1.7e308, -1e300, 0.0, 5e-324, 1e-310, 1.0, 1.7e308]),
    1e15 + np.array([0.0, 1.0, 3.5, 4.0, 900.0]),
]


def compare_with_edges(values, edges, missing):
    codes = np.searchsorted(edges, values, side="right") - 1
    bins = edges.size - 1
    codes[values == edges[-1]] = bins - 1
    codes[(codes < 0) | (codes >= bins)] = bins + missing
    codes[np.isnan(values)] = bins
    return codes


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("edges", EDGES, ids=range(len(EDGES)))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bins_equal_comparison_with_all_edges(edges, missing, dtype):
    with np.errstate(over="ignore"):
        narrow = edges.astype(dtype)
    if np.unique(narrow).size < edges.size or not np.isfinite(narrow).all():
        edges = np.array([0, 0.1, 0.3])
        narrow = edges.astype(dtype)
    interval = Interval(edges=edges.tolist(), missing=missing)
    near = [narrow, np.nextafter(narrow, -np.inf), np.nextafter(narrow, np.inf)]
    with np.errstate(over="ignore"):
        inside = np.random.default_rng(0).uniform(size=100_000) * (narrow[-1] / 2 - narrow[0] / 2) * 2 + narrow[0]
    ends = [-np.inf, np.inf, np.nan, -1e308, 1e308, -0.0]
    with np.errstate(over="ignore"):
        values = np.concatenate([*near, inside, ends]).astype(dtype)
    assert interval.encode(values).tolist() == compare_with_edges(values, narrow, missing).tolist()


def test_edges_beyond_the_dtype_of_a_column_are_compared():
    numbers = np.array([-np.inf, 0, 60_000, np.inf], np.float16)
    assert Interval([0, 50_000, 70_000], missing=True).encode(numbers).tolist() == [3, 0, 1, 3]


@pytest.mark.parametrize(
    ("low", "high", "bins"),
    [
        (0, 1, 10),
        (0, 10, 100),
        (-1, 1, 20),
        (0, 0.7, 7),
        (0.1, 12345678.9, 48),
        (0, 1e-300, 3),
        (-1.7e308, 1.7e308, 34),
        (1 / 3, 0.7, 9),
    ],
)
def test_even_edges_are_decimal_fractions(low, high, bins):
    first, last = Fraction(repr(low)), Fraction(repr(high))
    expected = [float(first + (last - first) * index / bins) for index in range(bins + 1)]
    interval = Interval(float(low), float(high), bins=bins)
    assert list(interval.edges) == expected
    assert interval.encode(np.array(expected[:-1])).tolist() == list(range(bins))
    domain = Domain({"x": interval})
    assert f"bins = {bins}" in domain.to_toml()
    assert Domain.from_toml(domain.to_toml()) == domain


def test_vectors_of_clients_are_reproduced():
    """`examples/client/columns.mjs` tests the same vectors."""
    vectors = json.loads(Path(skdp.domain.__file__).with_name("bin_vectors.json").read_text())
    assert len(vectors) == 8
    for vector in vectors:
        edges, missing = vector["edges"], vector["values"][-1] is None
        interval = Interval(edges=edges, missing=missing)
        if vector["whole"]:
            interval = Interval(int(edges[0]), int(edges[-1]), bins=len(edges) - 1, missing=missing)
        assert list(interval.edges) == edges
        assert list(interval.values) == vector["values"]
        codes = interval.encode(np.array(vector["numbers"])).tolist()
        assert [None if code == len(interval) else code for code in codes] == vector["codes"]


def test_dates_written_as_text_are_an_error_with_a_remedy():
    with pytest.raises(TypeError, match=r"got str\. Write a date as datetime\.date\(2025, 1, 31\)\."):
        Interval("2025-01-01", "2025-12-31")
