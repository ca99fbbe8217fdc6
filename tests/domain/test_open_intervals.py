"""Intervals with an open end: declaration, files, and errors of everything that requires both ends."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import Domain, DPGroupBy, DPMean, DPMinMaxScaler, Interval
from skdp.domain import close_interval

OPEN = [
    Interval(0, None),
    Interval(None, 5.5),
    Interval(0.0, None, missing=True),
    Interval(-3, None, real=True),
    Interval(None, 3, decimals=2),
    Interval(0, None, bins=5),
    Interval(None, None),
    Interval(None, None, real=True),
    Interval(None, None, decimals=0, bins=4),
]
X = pd.DataFrame({"age": np.arange(1000) % 90, "sex": ["f", "m"] * 500})


def load_copy(estimator):
    """Save an estimator to a file, and load it."""
    file = io.BytesIO()
    skdp.save(estimator, file)
    file.seek(0)
    return skdp.load(file)


@pytest.mark.parametrize("interval", OPEN, ids=repr)
def test_files_keep_open_intervals(interval):
    domain = Domain({"age": interval, "sex": ["f", "m"]}, constraints=["age < 3 or missing(age)"])
    copies = [
        Domain.from_toml(domain.to_toml())["age"],
        load_copy(DPMean(bounds=domain)).bounds["age"],
        pickle.loads(pickle.dumps(interval)),
        eval(repr(interval)),
    ]
    for copy in copies:
        assert copy == interval
        assert hash(copy) == hash(interval)
        fields = (interval.ends, interval.real, interval.decimals, interval.has_bins, interval.missing)
        assert (copy.ends, copy.real, copy.decimals, copy.has_bins, copy.missing) == fields
    assert len({*OPEN, interval, *copies}) == len(OPEN)


def test_type_of_numbers_of_an_open_interval():
    types = {interval: (interval.real, interval.decimals) for interval in OPEN}
    assert types[Interval(0, None)] == (False, 0)
    assert types[Interval(None, 5.5)] == (True, None)
    assert types[Interval(None, None)] == (False, None)  # the dtype decides


@pytest.mark.parametrize(
    "use",
    [
        lambda domain: domain.sizes,
        lambda domain: domain.size,
        lambda domain: domain.cells(),
        lambda domain: domain.encode([X["age"]]),
        lambda domain: domain.value_counts(X[["age"]]),
        lambda domain: skdp.RandomizedResponseEncoder(categories=domain).fit(X[["age"]]),
        lambda domain: skdp.UnaryEncodingTransformer(categories=dict(domain)).fit(X[["age"]]),
        lambda domain: DPGroupBy(by="age", keys=domain, statistics="count").fit(X[["age"]]),
        lambda domain: skdp.DPSimpleImputer(strategy="most_frequent", categories=domain).fit(X[["age"]]),
    ],
)
def test_open_end_is_an_error_where_both_ends_are_required(use):
    with pytest.raises(
        ValueError, match=r"^Column 'age': .* got Interval\(0, None\)\. Declare both ends, `low` and `high`: a person's"
    ):
        use(Domain({"age": Interval(0, None)}))


@pytest.mark.parametrize("make", [skdp.NumericPerturber, DPMinMaxScaler])
def test_bounds_that_are_not_searched_require_both_ends(make):
    with pytest.raises((TypeError, ValueError), match=r"eclare (both|the) ends"):
        make(bounds=Domain({"age": Interval(0, None)})).fit(X[["age"]])


def test_open_interval_as_bounds_equals_an_open_pair():
    found = [DPMean(bounds={"age": ends}, random_state=0).fit(X[["age"]]).bounds_ for ends in ((0, None), OPEN[0])]
    assert found[0].tolist() == found[1].tolist()
    assert found[0][0, 0] == 0


@pytest.mark.parametrize(
    ("interval", "limits", "expected"),
    [
        (Interval(0, None), (0, 7.5), Interval(0, 8)),
        (Interval(0, None), (0, 1e17), Interval(0.0, 1e17)),
        (Interval(0, None, bins=5), (0, 1.5), Interval(0, 4, bins=5)),
        (Interval(None, 9, bins=5), (8.5, 9), Interval(5, 9, bins=5)),
        (Interval(0, None, decimals=2), (0, 7.5), Interval(0, 7.5, decimals=2)),
        (Interval(0, None, decimals=2), (0, 1e14), Interval(0.0, 1e14)),
        (Interval(None, None, bins=3, missing=True), (-1.5, 3), Interval(-1.5, 3, bins=3, missing=True)),
    ],
)
def test_limits_close_an_interval(interval, limits, expected):
    closed = close_interval(interval, *limits)
    assert closed == expected
    values = np.array([-1e9, 1e9, np.nan])
    is_inside = closed.encode(values) < len(closed)
    assert is_inside.tolist() == [interval.ends[0] is None, interval.ends[1] is None, interval.missing]


def test_bins_between_near_limits_are_distinct():
    assert len(close_interval(Interval(bins=1000), 1e6, 1e6 + 1e-3)) == 1000
