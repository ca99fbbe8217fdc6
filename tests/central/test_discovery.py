"""Values that are found by thresholds on noisy counts, and on noisy weights of persons."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import Domain, DPGroupBy, DPMarginalSynthesizer, DPOneHotEncoder, DPTargetEncoder, PrivacyLedger
from skdp.central.statistics import _discovery, count_distinct, discover_values, plan_discovery
from skdp.central.statistics._discovery import (
    CountThreshold,
    WeightThreshold,
    discovery_threshold,
    squared_tail,
    total_weights,
    weight_of,
)
from skdp.privacy import Share, gaussian_delta
from skdp.randomness import SeededSource
from skdp.tables import ColumnError
from tests.conftest import each

TINY = Decimal(10) ** -60
"""Far more than 80 digits leave open."""

PROMISES = [  # epsilon, delta, rows a person; a single value is the worst case in some, many values in others
    (Fraction(1), Fraction(1, 100), 1),
    (Fraction(3), Fraction(1, 10**6), 1),
    (Fraction(1, 2), Fraction(1, 10), 2),
    (Fraction(4), Fraction(1, 100), 2),
    (Fraction(1), Fraction(1, 50), 3),
    (Fraction(9, 2), Fraction(1, 1000), 3),
    (Fraction(2), Fraction(2, 5), 3),
    (Fraction(1, 10), Fraction(1, 10**9), 3),
]


@pytest.fixture(autouse=True)
def eighty_digits():
    with localcontext(prec=80):
        yield


def number(fraction):
    return Decimal(fraction.numerator) / fraction.denominator


def publishes(count, threshold, ratio):
    """P(count + noise >= threshold) by the law of discrete Laplace noise, ratio = e^(-1/b); never for a count of 0."""
    if count == 0:
        return Decimal(0)
    distance = threshold - count
    return ratio**distance / (1 + ratio) if distance > 0 else 1 - ratio ** (1 - distance) / (1 + ratio)


def law(counts, threshold, ratio):
    """The probability of every set of published values."""
    chances = [publishes(count, threshold, ratio) for count in counts]
    return [
        math.prod(chance if out else 1 - chance for chance, out in zip(chances, published, strict=True))
        for published in itertools.product([False, True], repeat=len(counts))
    ]


def divergence(law, other, power):
    return sum(max(Decimal(0), p - power * q) for p, q in zip(law, other, strict=True))


def worst_delta(epsilon, rows, threshold):
    """The least delta for all pairs of neighbouring tables of three values, with counts around all that matters."""
    ratio, power = (-number(epsilon) / rows).exp(), number(epsilon).exp()
    people = [person for person in itertools.product(range(rows + 1), repeat=3) if 0 < sum(person) <= rows]
    levels = sorted({0, 1, 2, threshold - 1, threshold, threshold + 1})
    # A table in another order is the same table.
    worst = Decimal(0)
    for table in itertools.combinations_with_replacement(levels, 3):
        before = law(table, threshold, ratio)
        for person in people:
            after = law([count + more for count, more in zip(table, person, strict=True)], threshold, ratio)
            worst = max(worst, divergence(before, after, power), divergence(after, before, power))
    return worst


@pytest.mark.parametrize(("epsilon", "delta", "rows"), PROMISES)
def test_no_neighbours_differ_by_more_than_promised_and_one_less_would_not_do(epsilon, delta, rows):
    threshold = discovery_threshold(epsilon=epsilon, delta=delta, max_rows_per_person=rows)
    assert worst_delta(epsilon, rows, threshold) <= number(delta) + TINY
    assert worst_delta(epsilon, rows, threshold - 1) > number(delta) + TINY


def test_a_value_is_published_when_count_plus_noise_reaches_the_threshold(monkeypatch):
    asked = []

    def noise(source, scale, size):
        asked.append((source, scale, size))
        return np.array([0, -1, 2, -3, 1])

    monkeypatch.setattr(_discovery, "discrete_laplace", noise)
    promise = {"epsilon": Fraction(3, 2), "delta": 0.01, "max_rows_per_person": 2}
    t = discovery_threshold(**promise)
    counts = np.array([t, 0, t, t - 2, t + 2, t - 2])
    published = discover_values("source", ["a", "never", "b", "c", "d", None], counts, **promise)
    assert published.places == [0, 3]
    assert asked == [("source", Fraction(4, 3), 5)]


@each(
    "column expected",
    [
        (np.array([1.5, math.inf, math.nan, 1.5, -math.inf]), {1.5: 2, None: 1}),
        (pl.Series([math.nan, None, -0.0, 0.0]), {0: 2, None: 2}),
        (pa.chunked_array([[0.0, -0.0], [2.5]]), {0: 2, 2.5: 1}),
        (pd.Series([True, False, True]), {False: 1, True: 2}),
        (pd.Series([True, None, True], dtype=object), {True: 2, None: 1}),
        (pl.Series([dt.date(2020, 1, 2), dt.date(2020, 1, 1)]), {dt.date(2020, 1, 1): 1, dt.date(2020, 1, 2): 1}),
        (pd.Series(["b", "a"], dtype=pd.CategoricalDtype(["z", "b", "a"])), {"a": 1, "b": 1}),
        (pd.Series([0.1, 0.1], dtype="float32"), {float(np.float32(0.1)): 2}),
        (pd.Series([2**63, 10**30, 10**30], dtype=object), {2**63: 1, 10**30: 2}),
        (np.array([], dtype=object), {}),
        (np.array([None, None], dtype=object), {None: 2}),
    ],
)
def test_what_is_counted(column, expected):
    values, counts = count_distinct(column)
    assert dict(zip(values, counts.tolist(), strict=True)) == expected
    assert list(values) == list(expected)
    assert counts.dtype == np.int64
    if values:
        assert Domain({"x": values})["x"].values == tuple(values)


@each("rows", [[1, 1.0], [0.0, -0.0], [0.5, Fraction(1, 2)], [Fraction(4, 2), 2], [np.float32(3), 3]])
def test_no_row_decides_how_a_value_is_written(rows):
    written = {repr(count_distinct(pd.Series(order, dtype=object))[0]) for order in itertools.permutations(rows)}
    alone = {repr(count_distinct(pd.Series([row], dtype=object))[0]) for row in rows}
    assert len(written | alone) == 1


@each(
    "column, match",
    [
        (pd.to_datetime(pd.Series([], dtype=object)), "dtype datetime64"),
        (np.array([b"a"]), "dtype bytes_;"),  # its width would be that of the longest value
        (pl.Series([], dtype=pl.List(pl.Int8)), "dtype List"),
        (pa.chunked_array([], pa.binary()), "dtype binary"),
        (pd.Series(pd.cut([1, 2], 2)), "dtype category"),
    ],
)
def test_other_dtypes_are_refused_whatever_the_rows_are(column, match):
    with pytest.raises(ColumnError, match=match):
        count_distinct(column)


class Text(str):
    __slots__ = ()


class date:
    """An object that is called as a date is."""


class Hidden:
    @property
    def __class__(self):
        raise RuntimeError


COUNTED_AS = [  # a record, and the value that it counts as, if any
    *([value, ()] for value in (b"x", (1, 2), [1], {}, {1}, date(), Hidden(), 1j, Decimal(1), Decimal("sNaN"))),
    *([value, ()] for value in (pd.Timestamp(0), np.datetime64(0, "s"), dt.datetime(2020, 1, 1), dt.timedelta(1))),
    *([value, ()] for value in (math.inf, -math.inf, 10**400, Fraction(7 * 10**400, 3), Fraction(1, 3))),
    *([value, (None,)] for value in (None, math.nan, pd.NA, pd.NaT, np.float32("nan"))),
    *([value, (1,)] for value in (1, 1.0, Fraction(1), np.int8(1), np.float16(1))),
    *([value, (True,)] for value in (True, np.bool_(True))),
    *([value, ("a",)] for value in ("a", np.str_("a"), Text("a"))),
    [dt.date(2020, 1, 1), (dt.date(2020, 1, 1),)],
]


def objects(rows):
    column = np.empty(len(rows), object)
    column[:] = rows
    return column


@each("value, counted", COUNTED_AS)
@each("others", [["a", "b"], [1, 2.5], [True, False], [None, None], [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]])
def test_a_record_of_any_kind_counts_for_its_own_value_or_for_nothing(value, counted, others):
    """It was an error, which shows that there is such a record, and with which one person could stop a release."""
    without, with_it = (
        [((type(value), value), count) for value, count in zip(*count_distinct(objects(rows)), strict=True)]
        for rows in (others, [*others, value])
    )
    expected = dict(without)
    for known in counted:
        expected[type(known), known] = expected.get((type(known), known), 0) + 1
    assert dict(with_it) == expected
    order = [key for key, _ in with_it if key in dict(without)]
    assert order == [key for key, _ in without]


@each(
    "values, noisy_counts, kept, others",
    [
        ([], [], [], [[]]),
        ([None], [9], [None], [[]]),
        (["a", 1, "b", None], [5, 9, 5, 7], ["a", "b", None], [["number"]]),
        (["a", 1, "b", True], [5, 11, 5, 12], [True], [["string", "number"]]),
        ([True, 1, "a"], [5, 5, 5], ["a"], [["number", "boolean"]]),
        ([1, "a"], [-2, -5], [1], [["string"]]),
        (
            [("a", 1), ("a", "x"), ("b", None), (2, 3), (None, None)],
            [5, 6, 5, 9, 5],
            [("a", "x"), ("b", None), (None,) * 2],
            [["number"], ["number"]],
        ),
    ],
)
def test_values_of_the_most_frequent_kind_are_published(values, noisy_counts, kept, others):
    published = _discovery.of_one_kind(values, dict(enumerate(noisy_counts)))
    assert [values[place] for place in published.places] == kept
    assert published.other_kinds == others


def test_which_kind_is_published_reveals_no_more_than_promised():
    """All that can be published of two kinds, and warned of, where one person adds or is the last of one of them."""
    epsilon, delta = Fraction(1), Fraction(1, 10)
    threshold = discovery_threshold(epsilon=epsilon, delta=delta)
    ratio, most = number(-epsilon).exp(), 40  # larger noise has a chance of e**-40
    noise = {z: (1 - ratio) / (1 + ratio) * ratio ** abs(z) for z in range(-most, most + 1)}
    values = ["a", 1]

    def law(counts):
        chances = dict.fromkeys(
            itertools.product([(), ("a",), (1,)], ["[[]]", "[['number']]", "[['string']]"]), Decimal(0)
        )
        levels = [
            [(count + z, p) for z, p in noise.items()] if count else [(-math.inf, Decimal(1))] for count in counts
        ]
        for (text, p), (figure, q) in itertools.product(*levels):
            above = {place: count for place, count in enumerate((text, figure)) if count >= threshold}
            published = _discovery.of_one_kind(values, above)
            chances[tuple(values[place] for place in published.places), str(published.other_kinds)] += p * q
        return list(chances.values())

    for counts in [(0, 0), (threshold, 0), (threshold + 1, 1), (2, threshold), (threshold, threshold)]:
        before = law(counts)
        for after in (law((counts[0] + 1, counts[1])), law((counts[0], counts[1] + 1))):
            for one, other in ((before, after), (after, before)):
                assert divergence(one, other, number(epsilon).exp()) <= number(delta) + Decimal(10) ** -15


ROWS = ["a"] * 400 + ["b"] * 300
FOUND = {"delta": 1e-6, "random_state": 0}


def one_hot(rows, **promise):
    encoder = DPOneHotEncoder(2.0, categories="private", **promise).fit(pd.DataFrame({"x": rows}))
    return encoder.categories_[0].tolist(), encoder.transform(pd.DataFrame({"x": rows})).shape[1]


def target_encoder(rows, **promise):
    encoder = DPTargetEncoder(2.0, categories="private", bounds=(0, 1), **promise)
    encoder.fit(pd.DataFrame({"x": rows}), np.zeros(len(rows)))
    return encoder.domain_


def groups(rows, **promise):
    groups = DPGroupBy(["x", "y"], 2.0, keys="private", statistics="count", **promise)
    groups.fit(pd.DataFrame({"x": rows, "y": ["z"] * len(rows)}))
    return groups.to_frame().index.tolist()


def groups_of_persons(rows, **promise):
    groups = DPGroupBy("x", 2.0, keys="private", statistics="count", max_rows_per_person=2, **promise)
    groups.fit(pd.DataFrame({"x": rows}), groups=np.arange(len(rows)) // 2)
    return groups.to_frame().index.tolist()


def synthesizer(rows, **promise):
    synthesizer = DPMarginalSynthesizer(3.0, discover=0.5, max_iter=1, **promise)
    synthesizer.fit(pd.DataFrame({"x": rows, "y": pd.Series([True] * len(rows))}))
    return synthesizer.domain_


@each("fit", [one_hot, target_encoder, groups, groups_of_persons, synthesizer])
def test_no_record_of_another_kind_changes_the_form_of_a_release(fit):
    """No error, no warning (both are errors here), the same categories: whether such a record is there or not."""
    expected = fit(objects(ROWS), **FOUND)
    for value, _ in COUNTED_AS:
        ledger = PrivacyLedger(epsilon=9, delta=1e-3)
        assert fit(objects([*ROWS, value]), ledger=ledger, **FOUND) == expected, repr(type(value))
        assert ledger.spent.epsilon > 0


@each("fit", [one_hot, target_encoder, groups, groups_of_persons])
def test_a_frequent_kind_that_is_left_out_is_told(fit):
    with pytest.warns(
        UserWarning, match="column 'x' has values of several kinds, .* ones that are numbers are left out"
    ):
        published = fit(objects([*ROWS, *[1] * 500]), **FOUND)
    assert "1" not in str(published)
    for few in ([*range(200)], [1] * 3):  # none of them reaches the threshold, which nobody is to know
        fit(objects([*ROWS, *few]), **FOUND)


@pytest.mark.filterwarnings("ignore:column 'x' has values of several kinds:UserWarning")
def test_a_group_has_no_records_of_another_kind():
    """1 and True are equal in Python."""
    counts = DPGroupBy("x", 50.0, keys="private", statistics="count", **FOUND)
    counts.fit(pd.DataFrame({"x": objects([1] * 400 + [True] * 300)}))
    assert counts.to_frame()["count"].tolist() == pytest.approx([400], abs=5)


W = 1 << 20
PROMISES_OF_WEIGHTS = [
    (Fraction(1), Fraction(1, 10), 1),
    (Fraction(1, 2), Fraction(1, 50), 3),
    (Fraction(3), Fraction(1, 1000), 4),
]


def tail(y):
    return math.erfc(y / math.sqrt(2)) / 2


def passes(total, found):
    return 0.0 if total == 0 else tail((found.threshold - total - 0.5) / math.sqrt(found.noise.scale))


def law_of_weights(totals, found):
    """The probability of every set of published values."""
    chances = [passes(total, found) for total in totals]
    return np.array(
        [
            math.prod(chance if out else 1 - chance for chance, out in zip(chances, published, strict=True))
            for published in itertools.product([False, True], repeat=len(totals))
        ]
    )


@pytest.mark.parametrize(("epsilon", "delta", "most"), PROMISES_OF_WEIGHTS)
def test_weights_of_neighbours_differ_by_no_more_than_promised(epsilon, delta, most):
    """All numbers of values of the person, and totals of others around all that matters."""
    found = WeightThreshold.planned(epsilon, delta, most)
    power, worst = math.exp(epsilon), 0.0
    for n in range(1, most + 1):
        weight = weight_of(n)
        levels = [0, W, found.threshold - weight, found.threshold - weight // 2, found.threshold]
        for others in itertools.combinations_with_replacement(levels, n):
            # The values that the person has not, have the same law in both tables.
            before, after = law_of_weights(others, found), law_of_weights([total + weight for total in others], found)
            for one, other in ((before, after), (after, before)):
                worst = max(worst, np.maximum(one - power * other, 0).sum())
    assert 0.4 * delta < worst <= delta


@pytest.mark.parametrize(("epsilon", "delta", "most"), PROMISES_OF_WEIGHTS)
def test_the_threshold_is_hardly_above_what_new_values_need(epsilon, delta, most):
    """Half of delta is for them; with one person alone, for each number of values."""
    found = WeightThreshold.planned(epsilon, delta, most)
    spent = [most_of(n, found) for n in range(1, most + 1)]
    assert max(spent) <= delta / 2
    # The other half is for values that others have too.
    assert 0.499 * delta < gaussian_delta(math.sqrt(found.mu_squared), float(epsilon)) <= delta / 2
    lower = WeightThreshold(found.mu_squared, found.threshold - W // 20, most)
    assert max(most_of(n, lower) for n in range(1, most + 1)) > delta / 2


def most_of(n, found):
    return n * passes(weight_of(n), found)


@each("distance", [1, W // 3, W, 5 * W, 40 * W])
def test_the_bound_of_the_tail(distance):
    variance = Fraction(W**2, 2)
    exact = tail((distance - 0.5) / math.sqrt(variance))
    bound = math.sqrt(squared_tail(distance, variance, 3000))
    assert exact * (1 - 1e-9) <= bound
    assert distance < 5 * W or bound <= 1.01 * exact


def test_a_person_moves_all_totals_by_at_most_one_in_euclidean_norm():
    """All tables of one row of somebody else and all persons of up to three rows of two columns."""
    rows = list(itertools.product(range(3), range(3)))  # code 2 of each column is no value
    worst = 0
    for other in rows[::4]:
        for k in (1, 2, 3):
            for person in itertools.combinations_with_replacement(rows, k):
                codes = np.array([other, *person]).T
                whose = np.array([0] + [1] * k)
                moved = total_weights(codes, [2, 2], whose) - total_weights(codes[:, :1], [2, 2], whose[:1])
                worst = max(worst, int((moved**2).sum()))
                assert (moved**2).sum() <= W**2
    assert worst == W**2


@pytest.mark.parametrize(("rows", "factor"), [(1, 1.0), (4, 0.75)])
def test_as_many_persons_as_are_needed_find_a_value(rows, factor):
    """Persons with several rows of distinct values, of which all but one are their own."""
    plan = plan_discovery(Share("epsilon", Fraction(1), None, rows), Fraction(1, 10**6), 2, persons=True)
    n = math.ceil(plan.needed) + 30
    who = np.repeat(np.arange(n), rows)
    shared = np.where(np.arange(n * rows) % rows, np.arange(n * rows) + 1, 0)
    values, codes = np.unique(shared, return_inverse=True)
    found = [plan.find(SeededSource(seed), [(values.tolist(), codes)] * 2, who) for seed in range(5)]
    assert [[one.places for one in columns] for columns in found].count([[0], [0]]) >= 4
    counts = CountThreshold(Fraction(1), Fraction(1, 10**6), 2, rows)
    assert plan.needed <= factor * counts.needed
