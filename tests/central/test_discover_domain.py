"""Domains found with differential privacy."""

import datetime as dt
import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import norm

from skdp import DPMean, PrivacyLedger, discover_domain
from skdp.privacy import gaussian_delta
from skdp.testing import replay_release
from tests.conftest import FRAME_KINDS, diagonal, often

N = 20_000
JOBS = ["clerk"] * 400 + ["nurse"] * 300
SAMPLERS = "skdp.central.statistics._calibrated_noise"


def column(kind, n=N, seed=0):
    rng = np.random.default_rng(seed)
    drawn = {
        "skewed": lambda: rng.lognormal(0, 1, n),
        "centred": lambda: rng.normal(0, 1, n),
        "heavy": lambda: rng.standard_t(3, n),
        "uniform": lambda: rng.uniform(0, 100, n),
        "negative": lambda: -rng.exponential(3000, n),
        "far": lambda: rng.normal(1e6, 1e5, n),
        "tiny": lambda: rng.uniform(1e-30, 2e-30, n),
    }
    return drawn[kind]()


def numbers(values):
    return pd.DataFrame({"x": values})


def find(table, epsilon=1.0, delta=1e-6, **options):
    return discover_domain(table, epsilon, delta, **{"random_state": 0} | options)


def ends(domain, name="x"):
    return domain[name].edges[0], domain[name].edges[-1]


class TestTextThreshold:
    """The exact delta of small tables, from the probability of every set of published texts."""

    TINY = Decimal(10) ** -60
    CASES = (  # epsilon, delta, rows per person; the worst case is one text or many texts
        (Fraction(1), Fraction(1, 128), 1),
        (Fraction(3), Fraction(1, 2**20), 1),
        (Fraction(1, 2), Fraction(1, 2**12), 2),
        (Fraction(4), Fraction(1, 128), 2),
        (Fraction(1), Fraction(1, 512), 3),
        (Fraction(9, 2), Fraction(1, 1024), 3),
        (Fraction(1, 8), Fraction(1, 2**30), 3),
    )

    @pytest.fixture(autouse=True)
    def eighty_digits(self):
        with localcontext(prec=80):
            yield

    @staticmethod
    def smallest_published(monkeypatch, epsilon, delta, n_columns=1, sampler="discrete_laplace", **options):
        """Return the smallest noisy count that is published, with mocked noise."""
        table = pd.DataFrame({name: ["a"] for name in range(n_columns)})

        def publishes(noise):
            monkeypatch.setattr(f"{SAMPLERS}.{sampler}", lambda source, scale, size: np.full(size, noise))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("skdp.central._discover_domain.warn_user", lambda text, page: None)
                return len(discover_domain(table, float(epsilon), float(delta), **options).columns) == n_columns

        low, high = 0, 1
        while not publishes(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if publishes(middle) else (middle, high)
        return 1 + high

    @staticmethod
    def pmf(counts, threshold, ratio):
        """Return the probability of every set of published texts, ratio = e**(-1 / scale)."""
        chances = []
        for count in counts:
            distance = threshold - count
            chance = ratio**distance / (1 + ratio) if distance > 0 else 1 - ratio ** (1 - distance) / (1 + ratio)
            chances.append(chance if count else Decimal(0))
        return [
            math.prod(chance if out else 1 - chance for chance, out in zip(chances, published, strict=True))
            for published in itertools.product([False, True], repeat=len(counts))
        ]

    def worst_delta(self, epsilon, rows, threshold):
        """Return the delta of the worst neighbors with three texts, over all relevant counts."""
        number = Decimal(epsilon.numerator) / epsilon.denominator
        ratio, power = (-number / rows).exp(), number.exp()
        people = [person for person in itertools.product(range(rows + 1), repeat=3) if 0 < sum(person) <= rows]
        levels = sorted({0, 1, 2, threshold - 1, threshold, threshold + 1})
        worst = Decimal(0)
        for table in itertools.combinations_with_replacement(levels, 3):
            before = self.pmf(table, threshold, ratio)
            for person in people:
                after = self.pmf([n + more for n, more in zip(table, person, strict=True)], threshold, ratio)
                for one, other in ((before, after), (after, before)):
                    differences = (p - power * q for p, q in zip(one, other, strict=True))
                    worst = max(worst, sum(max(Decimal(0), difference) for difference in differences))
        return worst

    @pytest.mark.usefixtures("repeatable_draws")
    @pytest.mark.filterwarnings("ignore::skdp.WeakGuaranteeWarning")
    @pytest.mark.parametrize("case", CASES)
    def test_threshold_is_the_smallest_within_delta(self, monkeypatch, case):
        epsilon, delta, rows = case
        threshold = self.smallest_published(monkeypatch, epsilon, delta, max_rows_per_person=rows)
        exact = Decimal(delta.numerator) / delta.denominator
        assert self.worst_delta(epsilon, rows, threshold) <= exact + self.TINY
        assert self.worst_delta(epsilon, rows, threshold - 1) > exact + self.TINY

    @pytest.mark.usefixtures("repeatable_draws")
    @pytest.mark.parametrize("rows", [1, 4])
    def test_gaussian_noise_of_many_columns_is_within_delta(self, monkeypatch, rows):
        """Half of delta for the noise, half for new texts, with a tail within a factor of 20 of its bound."""
        drawn = {}

        def record(source, variance, size):
            drawn["variance"] = variance
            return np.zeros(size, np.int64)

        n_columns, epsilon, delta = 29, 0.5, 1e-6  # without the half step, the threshold would be smaller by 1
        monkeypatch.setattr(f"{SAMPLERS}.rounded_gaussian", record)
        monkeypatch.setattr("skdp.central._discover_domain.warn_user", lambda text, page: None)
        options = {"max_rows_per_person": rows}
        discover_domain(pd.DataFrame({name: ["a"] for name in range(n_columns)}), epsilon, delta, **options)
        deviation = math.sqrt(drawn["variance"])
        mu = rows * math.sqrt(n_columns) / deviation
        assert 0.499 * delta < gaussian_delta(mu, epsilon) <= delta / 2
        threshold = self.smallest_published(monkeypatch, epsilon, delta, n_columns, "rounded_gaussian", **options)
        one_text = n_columns * norm.sf((threshold - rows - 0.5) / deviation)
        many_texts = n_columns * rows * norm.sf((threshold - 1 - 0.5) / deviation)
        assert delta / 40 < max(one_text, many_texts) <= delta / 2
        # The tail is bounded by e**(-y**2 / 2) / 2.
        y = (threshold - rows - 0.5) / deviation
        assert n_columns * math.exp(-(y**2) / 2) / 2 <= delta / 2


FOUND = pd.DataFrame({"t": ["a"] * 60 + ["b"] * 50, "x": [3.0, 4.0] * 55, "day": pd.Timestamp("2020-03-01")})
OTHERS = [
    {"t": "a", "x": 3.5, "day": pd.Timestamp("2021-01-01")},
    {"t": "b", "x": 1e300, "day": pd.Timestamp("1970-01-01")},
    {"t": "a", "x": math.nan, "day": pd.NaT},
    {"t": "b", "x": -math.inf, "day": pd.Timestamp("2200-01-01")},
    {"t": "b", "x": -0.0, "day": pd.Timestamp("2020-03-01")},
    {"t": "a", "x": 5e-324, "day": pd.Timestamp("2020-03-02")},
]


@pytest.mark.usefixtures("few_cells")
class TestReplay:
    @pytest.mark.parametrize(("epsilon", "other"), diagonal([5.0, 0.1], OTHERS))
    def test_one_record_is_within_epsilon(self, other, epsilon):
        added = pd.DataFrame([other]).astype(FOUND.dtypes)
        table = pd.concat([FOUND, added], ignore_index=True)
        release = partial(find, epsilon=epsilon, delta=1e-3)
        for one, two in [(table, FOUND), (FOUND, table), (table, table[1:])]:
            replay = replay_release(release, one, two)
            assert replay.findings == ()
            assert replay.epsilon <= replay.guarantee.epsilon * (1 + 1e-9)

    @pytest.mark.parametrize(("n_columns", "k"), diagonal([1, 12], [1, 2, 3]))
    def test_rows_of_one_person_are_within_epsilon(self, k, n_columns):
        """All rows are equal: the worst case. With 12 columns, noise is Gaussian."""
        table = numbers([4.0] * 40)
        table = table.assign(**{f"x{number}": 4.0 for number in range(1, n_columns)})
        release = partial(find, epsilon=2.0, delta=1e-6, max_rows_per_person=k)
        replay = replay_release(release, table, table[:-k])
        assert replay.findings == ()
        assert 0.75 <= replay.epsilon / replay.guarantee.epsilon <= 1 + 1e-9
        gaussian = {"rounded_gaussian", "exponential_mechanism"}
        expected = {"discrete_laplace", "permute_and_flip"} if n_columns == 1 else gaussian
        assert set(replay.draws["sampler"]) == expected

    def test_rows_of_persons_are_limited(self):
        """A million rows of one person give the same domain as two."""
        table = pd.concat([FOUND, pd.DataFrame({"t": ["mine"] * 500, "x": 9e9})], ignore_index=True)
        persons = np.append(np.arange(len(FOUND)), np.full(500, 999))
        domain = find(table[["t", "x"]], epsilon=5.0, person=persons, max_rows_per_person=2)
        assert "mine" not in domain["t"].values
        assert ends(domain)[1] < 100
        assert domain.guarantee.unit == "person"
        assert domain.guarantee.max_rows_per_person == 2


class Text(str):
    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "value",
    [
        *[b"x", (1, 2), [1], {}, 1, True, 1j, Decimal("sNaN"), pd.Timestamp(0), dt.date(2020, 1, 1)],
        *[math.inf, None, math.nan, pd.NA, pd.NaT, Text("clerk"), np.str_("nurse"), "alone"],
    ],
)
def test_object_in_a_column_of_text_does_not_change_the_release(value):
    """Such a record causes neither an error nor a warning, which tests turn into an error."""
    rows = np.empty(len(JOBS) + 1, object)
    rows[:-1], rows[-1] = JOBS, value
    ledger = PrivacyLedger(epsilon=9, delta=1e-3)
    assert find(pd.DataFrame({"x": rows}), ledger=ledger)["x"].values == ("clerk", "nurse"), type(value)
    assert ledger.spent.epsilon == 1.0


class TestTypes:
    """The dtype determines how a column is read."""

    @pytest.mark.parametrize("kind", often([*FRAME_KINDS], ["pandas", "pandas-nullable", "polars", "pyarrow"]))
    def test_every_library_gives_the_same_domain(self, kind):
        if kind in ("pandas-object", "pandas-category", "polars-enum", "pyarrow-dictionary"):
            pytest.skip("dtypes of their own")
        rng = np.random.default_rng(0)
        data = {
            "age": rng.integers(20, 60, 3000).tolist(),
            "income": rng.lognormal(8, 1, 3000).tolist(),
            "job": rng.choice(["clerk", "nurse"], 3000).tolist(),
            "day": [dt.datetime(2020, 1, 1) + dt.timedelta(days=int(n)) for n in rng.integers(0, 900, 3000)],
            "is_new": (rng.random(3000) < 0.5).tolist(),
        }
        domain = find(FRAME_KINDS[kind](data, None), epsilon=2.0)
        assert domain.columns == tuple(data)
        low, high = ends(domain, "age")
        assert -20 < low <= 20 < 59 <= high < 90
        assert not domain["age"].real
        assert domain["income"].real
        assert domain["job"].values == ("clerk", "nurse")
        first, last = ends(domain, "day")
        assert dt.date(2018, 1, 1) < first <= dt.date(2020, 1, 1) < dt.date(2022, 6, 1) < last < dt.date(2025, 1, 1)
        assert domain["is_new"].values == (False, True)
        assert domain == find(FRAME_KINDS["pandas"](data, None), epsilon=2.0)

    def test_dtypes_with_declared_values_are_free(self):
        ordered = pd.CategoricalDtype(["low", "high"], ordered=True)
        for table in (
            pd.DataFrame({"x": pd.Series(["low"], dtype=ordered)}),
            pl.DataFrame({"x": ["low"]}, schema={"x": pl.Enum(["low", "high"])}),
        ):
            domain = discover_domain(table, 1.0, 0.0, ledger=PrivacyLedger(epsilon=1e-9))
            assert domain["x"].values == ("low", "high")
            assert domain.guarantee is None

    def test_frequent_missing_values_are_found(self):
        table = pd.DataFrame({"x": [1.5, math.nan] * 3_000, "y": [1.5] * 6_000, "t": ["a", None] * 3_000})
        domain = find(table, epsilon=2.0)
        assert (domain["x"].missing, domain["y"].missing) == (True, False)
        assert domain["t"].values == ("a", None)

    def test_dates_at_the_limits_of_the_calendar_are_found(self):
        days = np.array(["0001-01-01", "9999-12-31"], "datetime64[ms]").repeat(2000)
        low, high = ends(find(pl.DataFrame({"x": days})))
        assert (low, high) == (dt.date(1, 1, 1), dt.date(9999, 12, 31))


class TestErrors:
    """All errors are raised before the charge, without a value."""

    TABLE = pd.DataFrame({"x": [1.5, 2.5], "t": ["secret", "secret"]})

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"epsilon": 0}, "`epsilon` must be"),
            ({"delta": 0}, r"`delta` must be in \(0, 1\), got 0. The strings of columns \['t'\]"),
            ({"person": [1]}, "`person` must have one person for each row of X"),
            ({"person": [1, None]}, "`person` must not contain missing"),
            ({"random_state": "0"}, "`random_state` must be"),
            ({"X": pl.DataFrame({"x": [[1]]})}, "Column 'x' must have numbers, dates, text or .*, got dtype List"),
            ({"X": pl.DataFrame({"x": [b"secret"]})}, "got dtype Binary"),
            ({"X": numbers(pd.to_timedelta([1]))}, "got dtype timedelta64"),
            ({"X": numbers(pd.to_datetime([0], utc=True))}, r"got dtype datetime64.*UTC"),
            ({"X": [1.0, 2.0]}, "Expected 2D array"),
        ],
    )
    def test_invalid_parameters_and_tables_raise_an_error(self, options, match):
        ledger = PrivacyLedger(epsilon=9, delta=1e-3)
        given = {"X": self.TABLE, "epsilon": 1.0, "delta": 1e-6, "ledger": ledger}
        with pytest.raises((TypeError, ValueError), match=match) as error:
            discover_domain(**given | options)
        assert "secret" not in str(error.value)
        assert ledger.spent.epsilon == 0


class TestAbsent:
    @pytest.mark.parametrize("epsilon", [5e-324, 1e-30, 0.5])
    @pytest.mark.parametrize("n_rows", [0, 30])
    def test_nothing_is_found_in_few_rows(self, epsilon, n_rows):
        table = pd.DataFrame({"x": np.full(n_rows, 7.0), "t": ["a"] * n_rows})
        with pytest.warns(UserWarning, match=r"Columns \['x', 't'\] are not in the domain"):
            domain = find(table.astype({"t": object}), epsilon=epsilon)
        assert domain.columns == ()
        assert domain.guarantee.epsilon == epsilon
        with pytest.raises(ValueError, match="declares no values"):
            DPMean(bounds=domain).fit(table[["x"]])

    @pytest.mark.filterwarnings("ignore:nothing was found:UserWarning", "ignore:Columns:UserWarning")
    def test_noise_is_rarely_taken_for_values(self):
        """The probability that some window of noisy cells is selected is below 5e-4 per table."""
        for seed in range(40):
            assert find(numbers(np.empty(0)), random_state=seed).columns == ()


class TestAccuracy:
    @staticmethod
    def square_error(X, low, high):
        """Return the expected squared error of a mean with four fifths of epsilon 1."""
        mean = np.clip(X, low, high).mean()
        noise = (high - low) / X.size / 0.8 * math.hypot(1, (2 * mean - low - high) / (high - low))
        return noise**2 + (mean - X.mean()) ** 2

    @pytest.mark.parametrize("kind", ["skewed", "centred", "heavy", "uniform", "negative", "far", "tiny"])
    def test_mean_is_nearly_as_accurate_as_with_good_bounds(self, kind):
        """Good bounds are the range of the values."""
        X = column(kind)
        runs = [ends(find(numbers(X), 0.2, 0, random_state=seed)) for seed in range(3)]
        errors = [self.square_error(X, low, high) for low, high in runs]
        assert math.sqrt(np.mean(errors) / self.square_error(X, X.min(), X.max())) <= 2
        for low, high in runs:
            assert ((low <= X) & (high >= X)).mean() > 0.995
            assert high - low <= 3 * np.ptp(X)

    def test_bound_next_to_0_is_0_without_values_beyond(self):
        X = column("uniform")
        assert ends(find(numbers(X), 1.0))[0] == 0
        assert ends(find(numbers(-X), 1.0))[1] == 0
        assert ends(find(numbers(np.append(X, -X[:1000] / 20)), 0.2))[0] < -3

    @pytest.mark.parametrize(("kind", "n"), [("centred", 1000), ("heavy", 1000), ("centred", 700)])
    def test_values_spread_over_many_cells_are_found(self, kind, n):
        """No window of one power of 2 contains enough of them."""
        for seed in range(10):
            find(numbers(column(kind, n, seed)), 0.2, random_state=seed)


@pytest.mark.parametrize("dtype", [int, float])
def test_columns_of_an_array_equal_the_columns_of_its_frame(dtype):
    numbers = np.random.default_rng(0).integers(0, 30, (3_000, 2)).astype(dtype)
    found = discover_domain(numbers, 1.0, 1e-6, random_state=0)
    expected = discover_domain(pd.DataFrame(numbers, columns=["x0", "x1"]), 1.0, 1e-6, random_state=0)
    assert found == expected


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 29), (1, 7), (-11, -3), (1990, 2020), (7, 7)])
def test_bounds_of_whole_numbers_are_whole(low, high):
    """Bounds are occurring numbers, and few whole numbers have one bin each."""
    numbers = np.random.default_rng(0).integers(low, high + 1, 20_000)
    interval = discover_domain(pd.DataFrame({"x": numbers}), 2.0, 1e-6, random_state=1)["x"]
    assert interval.decimals == 0
    if high - low < 10:
        assert interval.values == tuple(range(low, high + 1))
    else:
        assert low - 2 <= interval.edges[0] <= low
        assert high <= interval.edges[-1] <= high + (high - low) / 2


def test_last_found_day_has_a_bin_of_its_own():
    days = np.datetime64("1970-01-01") + np.random.default_rng(0).integers(0, 8, 20_000)
    interval = discover_domain(pd.DataFrame({"x": days}), 2.0, 1e-6, random_state=0)["x"]
    assert interval.values == tuple(np.unique(days).tolist())


def test_found_whole_numbers_beyond_2_to_the_52_are_real():
    """Whole bounds beyond 2**52 are an error, which must not come after the charge."""
    interval = discover_domain(pd.DataFrame({"x": np.arange(20_000) + 2**60}), 2.0, 1e-6, random_state=0)["x"]
    assert interval.real


TEXTS = ["clerk"] * 3 + ["nurse"] * 2 + [None] * 4
TEXT_COLUMNS = {
    "str": pd.Series(TEXTS, dtype="str"),
    "object": pd.Series(TEXTS, dtype=object),
    "object with other objects": pd.Series([*TEXTS, 1, True, b"clerk", 2.5], dtype=object),
    "category": pd.Series(TEXTS, dtype=pd.CategoricalDtype(["smith", "nurse", "clerk"])),
    "dictionary in pandas": pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
    "polars": pl.Series("count", TEXTS),
    "Arrow": pa.chunked_array([pa.array(TEXTS, pa.large_string())]),
    "Arrow dictionary": pa.chunked_array(
        [pa.array(TEXTS[:3]).dictionary_encode(), pa.array(TEXTS[3:]).dictionary_encode()]
    ),
}


@pytest.mark.parametrize("kind", list(TEXT_COLUMNS))
@pytest.mark.parametrize(
    ("delta", "values"), [(1e-5, ("clerk", "nurse", None)), (1e-12, ("clerk", None)), (1e-20, None)]
)
@pytest.mark.filterwarnings("ignore:epsilon=20 gives weak protection", "ignore:Columns .* are not in the domain")
def test_texts_are_counted_equally_in_all_libraries(kind, delta, values):
    """The noise is 0, and delta sets the threshold to counts of 2, 3 and 4."""
    column = TEXT_COLUMNS[kind]
    make = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame}.get(type(column), pa.table)
    found = discover_domain(make({"job": column}), 20.0, delta, random_state=0)
    # A category that does not occur is not counted, because its name may be private.
    assert ("job" in found and found["job"].values) == (values or False)


@pytest.mark.parametrize("sign", [-1, 1])
def test_zeros_beside_floats_of_one_sign_have_the_bound_zero(sign):
    rng = np.random.default_rng(0)
    incomes = np.where(rng.random(3000) < 0.3, 0, rng.lognormal(7.6, 0.6, 3000))
    for seed in range(5):
        assert 0 in ends(find(numbers(sign * incomes), random_state=seed))


def test_numbers_beyond_zero_in_the_cell_of_zero_are_in_the_domain():
    """Half of the numbers are slightly beyond 0, in one cell with 0 if seen from the other half."""
    X = np.append(np.random.default_rng(0).normal(1000, 10, 1000), np.full(900, -5.0))
    for seed in range(5):
        low, high = ends(find(numbers(X), random_state=seed))
        assert low <= -5
        assert high > 1000


def test_numbers_of_both_signs_keep_their_bounds_beside_zeros():
    low, high = ends(find(numbers(np.repeat([-1e-20, 0.0, 1e3], 1000))))
    assert low <= -1e-20
    assert high >= 1e3
