import datetime as datetime_module
import io
import itertools
import math
import pickle
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import skdp
from skdp import Interval
from skdp.metrics import count_error
from skdp.privacy import GaussianLoss, WeakGuaranteeWarning, privacy_statement
from skdp.tables import wrap_table


def years(first, last, **options):
    return skdp.Interval(date(first, 1, 1), date(last, 1, 1), **options)


def test_columns_keep_their_order_and_sizes():
    domain = skdp.Domain({"b": ["x", "y"], "a": skdp.Interval(0, 10, bins=5), "c": [1, None, 2]})
    assert domain.columns == ("b", "a", "c")
    assert domain.sizes == (2, 5, 3)
    assert domain.size == 30
    assert domain["c"].values == (1, None, 2)
    assert domain.select(["c", "b"]).columns == ("c", "b")
    for columns, error, message in (
        (["a", "d"], ValueError, r"columns of the domain, \['b', 'a', 'c'\], got \['d'\]"),
        (["a", "a"], ValueError, "`columns` must be distinct"),
        ("ab", TypeError, "`columns` must be a list of names, got a str"),
    ):
        with pytest.raises(error, match=message):
            domain.select(columns)
    with pytest.raises(ValueError, match="joint domain"):
        skdp.Domain({f"x{index}": range(128) for index in range(9)}).join([np.array([0])] * 9)


REPEATED = [[1, 1.0], ["a", "a"], [True, True], [None, float("nan")], [None, pd.NA], [None, pd.NaT], [0.0, -0.0]]
MIXED = [[1, "1"], [1, True], [1.0, True], ["a", 1, None]]


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        *[({"x": values}, ValueError, "Column 'x': expected distinct values, got duplicates") for values in REPEATED],
        *[({"x": values}, TypeError, "Column 'x': expected values of one type") for values in MIXED],
        ([["a"]], TypeError, "mapping"),
        ({"x": []}, ValueError, "at least one value"),
        ({"x": "abc"}, TypeError, "list of values, got str"),
        ({"x": {"a", "b"}}, TypeError, "list of values, got set"),
        ({"x": [1.0, float("inf")]}, ValueError, "finite"),
        *(
            ({"x": [value, value]}, TypeError, "Column 'x': expected text, numbers.* got .* Convert the column")
            for value in ([1], b"a", timedelta(1), datetime(2020, 1, 1, tzinfo=UTC), pd.Period("2020-01"))
        ),
        ({"x": [skdp.Interval(0, 100), None]}, TypeError, r"list with an Interval.*Interval\(\.\.\., missing=True\)"),
    ],
)
def test_error_names_the_column(columns, error, match):
    with pytest.raises(error, match=match):
        skdp.Domain(columns)


def test_tuple_of_two_numbers_is_not_taken_for_two_values():
    """Privatizers were fitted to the bounds (18, 80), and with handle_unknown="uniform" all ages became 18 or 80."""
    declared, rows = {"age": (18, 80)}, pd.DataFrame({"age": [20]})
    for make in (skdp.Domain, lambda given: skdp.RandomizedResponseEncoder(1.0, categories=given).fit(rows)):
        with pytest.raises(ValueError, match=r"'age': .* the tuple \(18, 80\)\. Use Interval\(18, 80\) for a range"):
            make(declared)
    accepted = {"a": (0, 1), "b": (0.5, 1), "c": (1, 2, 5), "d": [18, 80], "e": ("x", "y")}
    assert skdp.Domain(accepted).sizes == (2, 2, 3, 2, 2)


@pytest.mark.parametrize(("low", "high", "bins"), [(0, 95, 10), (18, 96, 5), (-7, 8, 4), (0, 3, 3)])
def test_bins_of_whole_numbers_have_whole_edges(low, high, bins):
    found = Interval(low, high, bins=bins)
    assert all(edge.is_integer() for edge in found.edges[1:-1])
    assert found.edges[0] == low
    assert found.edges[-1] == high
    # The bins contain the same whole numbers as bins of equal widths.
    even = Interval(edges=np.linspace(low, high, bins + 1), real=True)
    numbers = np.arange(np.ceil(low), high)
    assert found.encode(numbers).tolist() == even.encode(numbers).tolist()
    assert Interval(low, high, bins=bins, decimals=1).edges == even.edges


def test_equality_is_typed_and_ordered():
    assert skdp.Domain({"x": [1, 2]}) == skdp.Domain({"x": np.array([1, 2])})
    assert hash(skdp.Domain({"x": [1, 2]})) == hash(skdp.Domain({"x": [1, 2]}))
    assert skdp.Domain({"x": [0, 1]}) != skdp.Domain({"x": [False, True]})
    assert skdp.Domain({"x": [1, 2]}) != skdp.Domain({"x": [2, 1]})
    assert skdp.Domain({"x": [1], "y": [2]}) != skdp.Domain({"y": [2], "x": [1]})
    assert skdp.Domain({"x": [1, 2]}) != skdp.Domain({"x": skdp.Interval(0, 1, bins=2)})
    assert skdp.Domain({"x": [1]}) != "x"
    numbers, missing = (skdp.Interval(2000, 2002, bins=2, missing=missing) for missing in (False, True))
    assert len({years(2000, 2002, bins=2), numbers, missing}) == 3
    domain = skdp.Domain({"x": ["a", None], "y": skdp.Interval(edges=[0, 1]), "z": years(2000, 2002, bins=2)})
    assert pickle.loads(pickle.dumps(domain)) == domain
    known = {"datetime": datetime_module, "Domain": skdp.Domain, "Interval": skdp.Interval}
    assert eval(repr(domain), known) == domain


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_joint_codes_enumerate_the_product_with_the_last_column_fastest(sizes):
    domain = skdp.Domain({f"x{index}": list(range(size)) for index, size in enumerate(sizes)})
    rows = np.array(list(itertools.product(*map(range, sizes))))
    joint = domain.join([column.astype(np.uint8) for column in rows.T])
    assert joint.tolist() == list(range(domain.size))
    assert [code.tolist() for code in domain.split(joint)] == rows.T.tolist()
    cells = domain.cells()
    assert [cell if isinstance(cell, tuple) else (cell,) for cell in cells] == [tuple(row) for row in rows.tolist()]


@pytest.mark.parametrize("sizes", [(16, 16), (255, 2), (256, 256), (65_536, 3), (70_000, 256, 256, 256)])
def test_joint_codes_do_not_overflow(sizes):
    domain = skdp.Domain({f"x{index}": range(size) for index, size in enumerate(sizes)})
    last = [np.array([0, size - 1], np.min_scalar_type(size)) for size in sizes]
    joint = domain.join(last)
    assert joint.tolist() == [0, domain.size - 1]
    assert [code.tolist() for code in domain.split(joint)] == [[0, size - 1] for size in sizes]


def test_table_of_any_library_is_coded_and_decoded(make_frame, values_of):
    data = {"sex": ["F", None, "M"], "age": [20, 38, 60], "n": [1, 2, 1]}
    frame = make_frame(data, {"sex": ["M", "F", None], "age": [20, 38, 60], "n": [1, 2]})
    table = wrap_table(frame)
    domain = skdp.Domain({"sex": ["M", "F", None], "age": skdp.Interval(edges=[0, 38, 120]), "n": [2, 1]})
    codes = domain.encode(table.columns)
    assert [code.tolist() for code in codes] == [[1, 2, 0], [0, 1, 1], [1, 0, 1]]
    back = table.rebuild(
        [decode(code) for decode, code in zip(domain.decoders(table.columns), codes, strict=True)], domain.columns
    )
    assert values_of(back, "sex") == data["sex"]
    assert values_of(back, "age") == [19, 79, 79]
    assert values_of(back, "n") == data["n"]


def test_bins_are_half_open_with_a_closed_last_bin_and_a_cell_for_missing():
    interval = skdp.Interval(edges=[0, 10, 25], missing=True)
    assert len(interval) == 3
    assert interval.labels == ("[0, 10)", "[10, 25]", None)
    assert interval.values == (5, 17.5, None)
    column = np.array([0.0, 9.999, 10.0, 25.0, np.nan, -0.001, 25.001, np.inf, -np.inf])
    assert interval.encode(column).tolist() == [0, 0, 1, 1, 2, 3, 3, 3, 3]
    assert skdp.Interval(edges=[0, 10, 25]).encode(column).tolist() == [0, 0, 1, 1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(("low", "high"), [(1, 7), (0, 1), (1988, 1990), (-4, 5), (10**6, 10**6 + 9)])
@pytest.mark.parametrize("missing", [False, True])
def test_up_to_ten_whole_numbers_have_a_bin_each(low, high, missing):
    """`Interval(1, 7)` declared fractions in [1, 7)."""
    interval, numbers = Interval(low, high, missing=missing), list(range(low, high + 1))
    assert list(interval.values[: len(numbers)]) == numbers
    assert list(interval.labels[: len(numbers)]) == list(map(str, numbers))
    assert len(interval) == len(numbers) + missing
    assert interval.has_bins
    assert interval == Interval(low, high, bins=len(numbers), missing=missing)
    fewer = Interval(low, high, bins=len(numbers) - 1, missing=missing).labels[len(numbers) - 2]
    assert fewer == f"[{high - 1}, {high}]"
    rounding = np.array([number + 1e-9 for number in numbers])
    for column in (np.array(numbers), np.array(numbers, np.float32), rounding):
        assert interval.encode(column).tolist() == list(range(len(numbers)))
    outside = np.array([low - 1, low - 0.5, low + 0.5, high - 0.5, high + 0.5, high + 1, np.inf])
    assert set(interval.encode(outside).tolist()) == {len(interval)}
    assert interval.encode(np.array([np.nan])).tolist() == [len(numbers)]


def test_fraction_between_whole_bounds_is_outside_the_domain_and_between_edges_in_a_bin():
    numbers = np.array([0, 4.5, 10, 9.99])
    for bounds in (Interval(0, 10), Interval(0, 10, bins=8), Interval(0, 10, bins=2), Interval(0, 100)):
        assert (bounds.encode(numbers) == len(bounds)).tolist() == [False, True, False, True]
        assert all(isinstance(middle, int) for middle in bounds.values)
        assert bounds.encode(np.array(bounds.values)).tolist() == list(range(len(bounds)))
    for edges in (Interval([0, 5, 10]), Interval(0.0, 10.0, bins=2), Interval(0, 10, bins=2, real=True)):
        assert edges.encode(numbers).tolist() == [0, 0, 1, 1]
    assert Interval([0, 5, 10]) != Interval(0, 10, bins=2)
    with pytest.raises(ValueError, match=r"at most its 2 whole numbers or days, got 10. .* set `real=True`"):
        Interval(0, 1, bins=10)


def test_bins_of_whole_numbers_have_a_width_of_at_least_1():
    assert skdp.Interval(16, 70).edges == skdp.Interval(16, 70, bins=10).edges
    assert skdp.Interval([0, 38, 120]) == skdp.Interval(np.array([0, 38, 120])) == skdp.Interval(edges=(0, 38, 120))
    assert skdp.Domain.from_toml("[columns.age]\nlow = 16\nhigh = 70") == skdp.Domain({"age": skdp.Interval(16, 70)})
    assert not skdp.Interval(18, 100, bins=20).real
    assert skdp.Interval([0, 0.5, 1]).real
    assert repr(skdp.Interval(0, 90, bins=90)) == "Interval(0, 90, bins=90)"
    assert repr(skdp.Interval(edges=list(range(8)))) == "Interval(edges=[0, 1, 2, 3, 4, 5, 6, 7])"
    assert skdp.Interval(0, 4, decimals=1).real
    precisions = {}, {"real": True}, {"decimals": 1}, {"decimals": 2}
    assert len({skdp.Interval(0, 90, bins=9, **precision) for precision in precisions}) == 4


@pytest.mark.parametrize(
    "interval",
    [
        skdp.Interval(16, 70),
        skdp.Interval(1, 50, missing=True),
        skdp.Interval(0, 2**52),
        skdp.Interval(0.0, 1.0),
        skdp.Interval(0.5, 9.25, decimals=2),
        skdp.Interval(0, 90, real=True),
        skdp.Interval(date(2000, 1, 1), date(2000, 1, 11)),
        skdp.Interval(datetime(2000, 1, 1, 12), datetime(2000, 1, 4)),
    ],
    ids=repr,
)
def test_interval_of_bounds_has_no_declared_bins(interval):
    assert not interval.has_bins
    declared = skdp.Interval(edges=interval.edges, missing=interval.missing)
    assert declared.has_bins
    assert interval != declared
    assert not any(copied.has_bins for copied in copy_in_all_forms(interval))


@pytest.mark.parametrize(
    "interval", [Interval(1, 7), Interval(0, 10, bins=8), Interval(0, 90, bins=90, missing=True), Interval([0, 5, 10])]
)
def test_copies_of_whole_numbers_accept_the_same_fractions(interval):
    numbers = np.array([1.5, 2, 5, np.nan])
    for copied in copy_in_all_forms(interval):
        assert copied.encode(numbers).tolist() == interval.encode(numbers).tolist()


def copy_in_all_forms(interval):
    domain = skdp.Domain({"x": interval})
    copies = [eval(repr(interval), {"Interval": skdp.Interval, "datetime": datetime_module})]
    copies += [skdp.Domain.from_toml(domain.to_toml())["x"], pickle.loads(pickle.dumps(interval))]
    file = io.BytesIO()
    skdp.save(skdp.DPMarginalSynthesizer(domain=domain), file)
    file.seek(0)
    copies.append(skdp.load(file).domain["x"])
    assert all(copied == interval for copied in copies)
    return copies


def test_decimals_beyond_the_precision_of_floats_raise_an_error():
    assert skdp.Interval(0, 45e13, decimals=1).decimals == 1
    with pytest.raises(ValueError, match="exceeds the precision of floats"):
        skdp.Interval(0, 46e13, decimals=1)


@pytest.mark.parametrize("options", [{}, {"decimals": 0, "bins": 3}])
def test_whole_bounds_beyond_2_to_the_52_are_an_error_with_a_remedy(options):
    """The half below the largest number was rounded, so that its bin lost or gained numbers."""
    assert skdp.Interval(2**52 - 2, 2**52, **options).encode(np.array([2**52 - 1, 2**52])).tolist() == [1, 2]
    for bounds in ((2**53 - 2, 2**53), (-(2**52) - 1, 0), (0, 2**52 + 1)):
        with pytest.raises(ValueError, match=r"from -2\*\*52 to 2\*\*52 .*set `real=True`"):
            skdp.Interval(*bounds, **options)
    with pytest.raises(ValueError, match=r"`edges` .*set `real=True`"):
        skdp.Interval([0, 10, 2**60])
    assert skdp.Interval(0, 2**60, real=True).edges[-1] == 2**60


def test_text_of_many_values_is_shortened():
    texts = [repr(skdp.Domain({"x": list(range(size))})["x"]) for size in (8, 9)]
    assert texts == ["[0, 1, 2, 3, 4, 5, 6, 7]", "[0, 1, 2, 3, 4, 5, 6, 7, …]"]


DAYS = [date(2020, 1, day) for day in range(1, 13)]


class TestDates:
    @pytest.mark.parametrize(("n_days", "bins"), [(3, None), (7, 7), (10, None), (12, 12)])
    def test_last_day_has_a_bin_of_its_own(self, n_days, bins):
        """The last day was counted with the day before, and seven days with bins=7 were refused."""
        interval = skdp.Interval(DAYS[0], DAYS[n_days - 1], bins=bins)
        assert interval.encode(np.array(DAYS[:n_days])).tolist() == list(range(n_days))
        assert interval.values == tuple(DAYS[:n_days])
        assert interval.labels == tuple(map(str, DAYS[:n_days]))
        assert interval.has_bins
        assert all(copied.values == interval.values for copied in copy_in_all_forms(interval))

    def test_more_bins_than_days_are_an_error(self):
        with pytest.raises(
            ValueError, match=r"at most its 3 whole numbers or days, got 4. .* for times of day, declare datetimes"
        ):
            skdp.Interval(DAYS[0], DAYS[2], bins=4)
        with pytest.raises(ValueError, match="must increase"):
            skdp.Interval([DAYS[0], DAYS[0]])
        with pytest.raises(ValueError, match="must increase"):
            skdp.Interval([DAYS[0], DAYS[1], DAYS[1], DAYS[2]])

    def test_range_of_whole_months_has_bins_of_whole_months(self):
        assert years(2000, 2020, bins=20).edges == tuple(date(year, 1, 1) for year in range(2000, 2021))
        quarters = skdp.Interval(datetime(2019, 11, 28, 9), datetime(2020, 11, 28, 9), bins=4).edges
        assert [(edge.year, edge.month, edge.day, edge.hour) for edge in quarters] == [
            (2019, 11, 28, 9), (2020, 2, 28, 9), (2020, 5, 28, 9), (2020, 8, 28, 9), (2020, 11, 28, 9),
        ]  # fmt: skip

    @pytest.mark.parametrize("moment", [date, datetime])
    @pytest.mark.parametrize(
        "ends", [((2020, 1, 1), (2020, 3, 1)), ((2020, 1, 1), (2020, 4, 2)), ((1, 1, 1), (9999, 12, 31))]
    )
    def test_ranges_of_dates_have_bins_of_equal_width(self, ends, moment):
        low, high = (moment(*end) for end in ends)
        unit = timedelta.resolution if moment is datetime else timedelta(days=1)
        edges = skdp.Interval(low, high, bins=3).edges
        assert edges == tuple(low + index * ((high - low) // unit) // 3 * unit for index in range(4))
        assert len(skdp.Interval(low, high, bins=50)) == 50

    @given(
        st.lists(st.dates(), min_size=2, max_size=6, unique=True) | st.lists(st.datetimes(), min_size=2, unique=True)
    )
    def test_midpoint_is_within_its_bin(self, edges):
        interval = skdp.Interval(edges=sorted(edges))
        middles = [*interval.values, None]
        assert interval.encode(np.array(middles, object)[:-1]).tolist() == list(range(len(interval)))

    @pytest.mark.parametrize(
        ("edges", "error", "match"),
        [
            ([date(2000, 1, 1), datetime(2001, 1, 1)], TypeError, "all numbers, all dates, or all datetimes"),
            ([date(2001, 1, 1), date(2000, 1, 1)], ValueError, "must increase|must be less"),
            ([datetime(2000, 1, 1), pd.NaT], ValueError, "missing date"),
            ([datetime(2000, 1, 1, tzinfo=UTC), datetime(2001, 1, 1, tzinfo=UTC)], ValueError, "time zone"),
            ([datetime(2000, 1, 1), pd.Timestamp("2001-01-01T00:00:00.000000001")], ValueError, "nanosecond"),
        ],
    )
    def test_invalid_edges_raise_an_error(self, edges, error, match):
        for arguments, options in (((), {"edges": edges}), (edges, {"bins": 1})):
            with pytest.raises(error, match=match):
                skdp.Interval(*arguments, **options)


@pytest.mark.parametrize(
    ("ends", "options", "error", "message"),
    [
        ((0, None), {"edges": [0, 1]}, ValueError, "either `edges`, or `low` and `high`"),
        ((date(2000, 1, 1), None), {}, ValueError, "of dates must both be given"),
        ((None, 1e301), {}, ValueError, r"beside an open end must be at most 1e\+300"),
        ((None, "a"), {}, TypeError, "must be numbers"),
        ((None, True), {}, TypeError, "must be numbers"),
        ((0, None), {"bins": 0}, ValueError, "whole number of at least 1, got 0"),
        ((0, None), {"decimals": 16}, ValueError, "from 0 to 15"),
        ((0, 1), {"bins": 0}, ValueError, "whole number of at least 1, got 0"),
        ((5, 1), {}, ValueError, "`low` of an Interval must be less than high, got 5 and 1"),
        ((), {"edges": [0, 2.5, 2.5]}, ValueError, "must increase, got 2.5 before 2.5"),
        ((), {"edges": [0]}, ValueError, "at least 2 edges"),
        ((), {"edges": [0, float("nan")]}, ValueError, "finite"),
        ((0, 10**400), {"bins": 2}, ValueError, "finite"),
        (("1", "2"), {"bins": 2}, TypeError, "numbers, dates or datetimes, got str"),
        ((datetime_module.time(0), datetime_module.time(9)), {}, TypeError, "got time. For .*, use its hour[.]$"),
        ((), {"edges": "ab"}, TypeError, "`edges` of an Interval must be a sequence, got str"),
        ((0, 2), {"bins": 2, "missing": 1}, TypeError, "`missing` must be True or False"),
    ],
)
def test_invalid_intervals_raise_an_error(ends, options, error, message):
    with pytest.raises(error, match=message):
        skdp.Interval(*ends, **options)


class TestFoundDomains:
    FOUND = skdp.PrivacyGuarantee(
        0.25, delta=1e-6, relation="add_remove", trust="central", rho=0.125, losses=(GaussianLoss(0.01, count=2),)
    )

    def domain(self):
        columns = {"age": skdp.Interval(0, 128, bins=16), "sex": ["f", "m"]}
        domain = skdp.Domain(columns, constraints=["age >= 16"], derived={"half": "age / 2"})
        return domain.with_guarantee(self.FOUND)

    def test_guarantee_is_stored_in_the_domain(self, tmp_path):
        domain = self.domain()
        skdp.save(skdp.RandomizedResponseEncoder(1.0, categories=domain), tmp_path / "encoder.json")
        loaded = skdp.load(tmp_path / "encoder.json").categories
        assert domain.guarantee == replace(self.FOUND, scope=("age", "sex"))
        copies = pickle.loads(pickle.dumps(domain)), clone(domain, safe=False), skdp.Domain.from_toml(domain.to_toml())
        for copied in (*copies, loaded, domain.select(["age", "sex"])):
            assert copied == domain == domain.with_guarantee(None)
            assert copied.derived == {"half": "age / 2"}
            assert copied.guarantee == domain.guarantee
        assert domain.select(["age"]).guarantee == domain.guarantee
        assert domain.with_guarantee(None).guarantee is None

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ("guarantee = 1", "`guarantee` must be a table with the keys"),
            ("[guarantee]\nepsilon = 1.0", "`guarantee` must be a table with the keys"),
            ("[guarantee]\nrecord = '{}'\nrelease_id = ''", "`guarantee`: `text` must be a JSON object"),
        ],
    )
    def test_invalid_guarantee_raises_an_error(self, table, message):
        with pytest.raises(ValueError, match=message):
            skdp.Domain.from_toml(f"{table}\n[columns.x]\nvalues = [1]")
        with pytest.raises(TypeError, match="`guarantee` must be a PrivacyGuarantee or None, got float"):
            self.domain().with_guarantee(1.0)

    def test_statement_counts_a_found_domain_once(self):
        people = pd.DataFrame({"age": [20.0, 40.0], "sex": ["f", "m"]})
        domain = self.domain()
        mean = skdp.DPMean(0.5, bounds=domain)
        encoder = skdp.RandomizedResponseEncoder(1.0, categories=domain.select(["sex"]))
        steps = [mean.fit(people[["age"]]), encoder.fit(people[["sex"]])]
        statement = privacy_statement(steps)
        names = [step.step for step in statement.steps]
        assert names == ["0: DPMean", "1: RandomizedResponseEncoder", "domain"]
        found = self.domain().guarantee.to("replace")
        assert 2 * 0.5 + 1.0 < statement.total.epsilon < 2 * 0.5 + 1.0 + found.epsilon  # composed by mu
        assert statement.total.rho == pytest.approx(2 * math.tanh(0.5) + found.rho)  # counted once
        assert statement.total.delta == found.delta
        assert statement.total.trust == "central"
        assert mean.guarantee_.epsilon == 0.5
        plan = privacy_statement(skdp.RandomizedResponseEncoder(1.0, categories=self.domain()))
        assert [step.fitted for step in plan.steps] == [False, True]

    def test_public_facts_are_added_to_a_found_domain(self):
        ages = pd.DataFrame({"age": [20.0, 40.0] * 5_000, "wage": [10.0, 30.0] * 5_000})
        found = skdp.Domain(skdp.discover_domain(ages, 1.0, 0.0), constraints=["wage <= age"])
        domain = skdp.Domain(found, derived={"rest": "age - wage"}, constraints=["wage >= 0"])
        assert domain.constraints == ("wage <= age", "wage >= 0")
        assert domain.derived == {"rest": "age - wage"}
        means = [skdp.DPMean(0.5, bounds=bounds).fit(ages) for bounds in (found, domain)]
        assert privacy_statement(means).total.epsilon == 2.0
        for wrong in ({"constraints": "wage <= age"}, {"derived": ["age"]}):
            with pytest.raises(TypeError, match=next(iter(wrong))):
                skdp.Domain(found, **wrong)

    def test_two_releases_with_equal_guarantees_count_twice(self, tmp_path):
        ages = pd.DataFrame({"age": [20.0, 40.0] * 5_000})
        found = [skdp.discover_domain(ages, 0.5, 1e-6) for _ in range(2)]
        means = [skdp.DPMean(1.0, bounds=domain).fit(ages) for domain in (found[0], *found)]
        statement = privacy_statement(means)
        assert [step.step for step in statement.steps][3:] == ["domain", "domain"]
        assert statement.total.epsilon == 4.0
        # Copies, pickles and files keep the identifier of the release.
        skdp.save(means[0], tmp_path / "mean.json")
        read = skdp.load(tmp_path / "mean.json").bounds, skdp.Domain.from_toml(found[0].to_toml())
        for copied in (*read, pickle.loads(pickle.dumps(found[0])), clone(found[0], safe=False)):
            same = skdp.DPMean(1.0, bounds=copied).fit(ages)
            assert privacy_statement([means[0], same]).total.epsilon == 2.5

    def test_fitted_domains_and_protocols_keep_the_guarantee(self):
        people = pd.DataFrame({"age": [20.0, 40.0] * 1000, "sex": ["f", "m"] * 1000})
        domain = self.domain()
        encoder = skdp.RandomizedResponseEncoder(1.0, categories=domain).fit(people)
        perturber = skdp.NumericPerturber(1.0, bounds=domain.select(["age"])).fit(people[["age"]])
        for transformer in (encoder, perturber):
            read = type(transformer).from_json(transformer.to_json())
            assert type(transformer).from_json(read.to_json()).to_json() == transformer.to_json()
            epsilons = [step.guarantee.epsilon for step in privacy_statement([transformer, read]).steps]
            assert epsilons == [1.0, 1.0, 0.25]
        histogram = skdp.DPHistogram(1.0, domain=domain).fit(people)
        bayes = skdp.DPCategoricalNB(1.0, categories=domain, classes=[0, 1]).fit(people, [0, 1] * 1000)
        model = skdp.DPAdditiveClassifier(1.0, delta=1e-6, bounds=domain, classes=[0, 1]).fit(
            people[["age"]], [0, 1] * 1000
        )
        for found in (encoder.domain_, histogram.domain_, bayes.domain_, model.domain_):
            assert found.guarantee == domain.guarantee
            assert found.releases == domain.releases

    def test_domain_declares_bounds(self):
        ages = pd.DataFrame({"age": [20.0, 200.0]})
        by_pair = skdp.DPMean(1.0, bounds=(0, 128), random_state=0).fit(ages)
        for bounds in (self.domain(), {"age": skdp.Interval(0, 128)}, skdp.Domain({"age": [50, 128, 0]})):
            assert skdp.DPMean(1.0, bounds=bounds, random_state=0).fit(ages).mean_ == by_pair.mean_
        for wrong in (["clerk"], skdp.domain.Categories(["a", "b"])):
            with pytest.raises(ValueError, match="column 'age' must be"):
                skdp.DPMean(1.0, bounds={"age": wrong}).fit(ages)
        with pytest.raises(ValueError, match=r"`bounds` of column 'sex' must be a range of numbers, got listed values"):
            skdp.DPStandardScaler(1.0, bounds=self.domain()).fit(pd.DataFrame({"sex": [1.0, 2.0]}))


PEOPLE = pd.DataFrame({"sex": ["f", "m", "f"] * 50, "age": [20.0, 40.0, 70.0] * 50})
WIDE = skdp.Domain(
    {"job": ["nurse"], "age": skdp.Interval(16, 70, bins=3), "sex": ["f", "m"], "x": skdp.Interval(0, 1)}
)


def test_true_counts_have_the_cells_of_estimates(make_frame):
    people = make_frame({"sex": ["f", "m", "f"] * 50, "age": [20, 40, 70] * 50})
    encoder = skdp.RandomizedResponseEncoder(30.0, categories=WIDE, strategy="joint", random_state=0)
    with pytest.warns(WeakGuaranteeWarning):
        reports = encoder.fit_transform(people)
    estimates = encoder.estimate_counts(reports)
    counts = WIDE.value_counts(people)
    pd.testing.assert_index_equal(counts.index, estimates.index)
    assert counts.to_dict() == estimates["count"].round().to_dict()
    assert count_error(true=counts, estimate=estimates) == pytest.approx(0, abs=1e-6)
    one = skdp.Domain({"n": [2, 1, None]}).value_counts(pd.DataFrame({"n": [1, 1, np.nan]}))
    assert one.tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="Column 'sex' has values outside its domain"):
        WIDE.value_counts(pd.DataFrame({"sex": ["secret"]}))
    with pytest.raises(ValueError, match=r"got .*height.*Select declared columns, such as X\[\['sex'\]\]"):
        WIDE.value_counts(pd.DataFrame({"height": [1], "sex": ["f"]}))


@pytest.mark.parametrize(
    ("make", "columns"),
    [
        (lambda domain: skdp.RandomizedResponseEncoder(1.0, categories=domain, random_state=0), ["sex", "age"]),
        (lambda domain: skdp.UnaryEncodingTransformer(1.0, categories=domain, random_state=0), ["sex", "age"]),
        (lambda domain: skdp.NumericPerturber(1.0, bounds=domain, random_state=0), ["age"]),
        (lambda domain: skdp.DPMinMaxScaler(1.0, bounds=domain, random_state=0), ["age"]),
        (lambda domain: skdp.DPOneHotEncoder(categories=domain), ["sex"]),
        (lambda domain: skdp.DPMarginalSynthesizer(1.0, domain=domain, random_state=0), ["sex", "age"]),
    ],
)
def test_estimators_ignore_columns_outside_their_table(make, columns):
    people = PEOPLE[columns]
    wide, narrow = make(WIDE).fit(people), make(WIDE.select(columns)).fit(people)
    drawn = [
        estimator.sample(20) if hasattr(estimator, "sample") else estimator.transform(people)
        for estimator in (wide, narrow)
    ]
    np.testing.assert_array_equal(*map(np.asarray, drawn))
    # Synthesizers find the limits of numbers, and text with a delta.
    finds = hasattr(wide, "sample")
    match = r"\['height'\], got none. Declare them, or" if finds else r"\['height'\].* \['job', 'age', 'sex', 'x'\]"
    with pytest.raises(ValueError, match=match):
        make(WIDE).fit(people.assign(height="tall" if finds else 1.0))


def test_domain_of_an_array_raises_an_error():
    people, named = PEOPLE[["age"]], {"age": WIDE["age"]}
    for categories in (WIDE, named):
        step = make_pipeline(SimpleImputer(), skdp.RandomizedResponseEncoder(categories=categories))
        with pytest.raises(ValueError, match=r"An array has no column names: .*set_output\(transform='pandas'\)`"):
            step.fit(people)
        step.set_output(transform="pandas").fit(people)
    with pytest.raises(ValueError, match=r"must be columns of X, \['age'\], got \['Age'\]\.$"):
        skdp.RandomizedResponseEncoder(categories={"Age": WIDE["age"]}).fit(people)


DATES = [date(2024, 1, 1), date(2024, 2, 1)]
MIDNIGHTS = [datetime(2024, 1, 1), datetime(2024, 2, 1)]
ANOTHER_DAY, MORNING = date(2025, 1, 1), datetime(2024, 1, 1, 8)
TIME_COLUMNS = {
    "pandas datetimes": pd.Series([*MIDNIGHTS, MORNING]),
    "pandas objects": pd.Series([*MIDNIGHTS, MORNING], dtype=object),
    "pandas dates": pd.Series([*DATES, ANOTHER_DAY], dtype=object),
    "pandas categories": pd.Series(pd.Categorical([*MIDNIGHTS, MORNING])),
    "days": np.array([*DATES, ANOTHER_DAY], "datetime64[D]"),
    "seconds": np.array([*MIDNIGHTS, MORNING], "datetime64[s]"),
    "polars dates": pl.Series([*DATES, ANOTHER_DAY]),
    "polars datetimes": pl.Series([*MIDNIGHTS, MORNING]),
    "Arrow dates": pa.chunked_array([pa.array([*DATES, ANOTHER_DAY], pa.date64())]),
    "Arrow datetimes": pa.chunked_array([pa.array([*MIDNIGHTS, MORNING])]),
}


@pytest.mark.parametrize("values", [DATES, MIDNIGHTS], ids=["dates", "datetimes"])
@pytest.mark.parametrize("name", TIME_COLUMNS)
def test_listed_dates_and_datetimes_at_midnight_are_equal(name, values):
    """Ten of twenty combinations of dates and datetimes were refused, although pandas has no dtype of dates."""
    assert skdp.domain.Categories(values).encode(TIME_COLUMNS[name]).tolist() == [0, 1, 2]


def test_error_of_times_in_a_column_of_listed_dates_names_the_conversion():
    visits = pd.DataFrame({"visit": [*MIDNIGHTS, MORNING]})
    with pytest.raises(ValueError, match=r"A date is its midnight: remove the times of day"):
        skdp.DPHistogram(domain={"visit": DATES}).fit(visits)
    with pytest.raises(ValueError, match=r"convert the column to dates, or declare"):
        skdp.DPHistogram(domain={"visit": DATES}).fit(visits.astype("string"))
