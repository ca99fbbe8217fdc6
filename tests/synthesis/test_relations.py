"""Relations of columns that are declared in words, and hold in all rows that are drawn."""

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skdp
from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger, SyntheticResampler, privacy_statement
from tests.conftest import often

N = 1_500
RNG = np.random.default_rng(0)
WAGE = np.round(RNG.lognormal(3, 0.5, N), 2).clip(0, 200)
BONUS = np.round(RNG.exponential(10, N), 2).clip(0, 200)
START = np.datetime64("2020-01-01") + RNG.integers(0, 300, N).astype("timedelta64[D]")
TABLE = pd.DataFrame(
    {
        "wage": WAGE,
        "total": np.round(WAGE + BONUS, 2).clip(0, 250),
        "bonus": BONUS,
        "start": START,
        "end": START + RNG.integers(0, 60, N).astype("timedelta64[D]"),
        "net pay": np.round(0.8 * WAGE, 1),
        "sex": RNG.choice(["f", "m"], N),
    }
)
DAYS = Interval(date(2020, 1, 1), date(2021, 1, 1), bins=6)
DOMAIN = {
    "wage": Interval(0, 200, bins=8, decimals=2),
    "total": Interval(0, 250, bins=8, decimals=2),
    "bonus": Interval(0, 200, bins=8, decimals=2),
    "start": DAYS,
    "end": DAYS,
    "net pay": Interval(0, 200, bins=8, decimals=1),
    "sex": ["f", "m"],
}
RELATIONS = ["total = wage + bonus", "end >= start", "`net pay` <= wage"]

DRAWN_AGAIN = pytest.mark.filterwarnings("ignore:about .* of the rows that the model draws break:UserWarning")


def fitted(table=TABLE, domain=DOMAIN, relations=RELATIONS, **parameters):
    given = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    return DPMarginalSynthesizer(domain=domain, relations=relations, **given | parameters).fit(table)


def in_cents(column):
    """Return exact whole cents, and refuse further decimals."""
    amounts = [Decimal(repr(float(amount))) * 100 for amount in column]
    assert all(amount == amount.to_integral_value() for amount in amounts)
    return np.array([int(amount) for amount in amounts])


def check(rows):
    """Check every row of a table of pandas."""
    assert len(rows)
    assert (in_cents(rows["wage"]) + in_cents(rows["bonus"]) == in_cents(rows["total"])).all()
    assert rows["total"].between(0, 250).all()
    assert (rows["end"] >= rows["start"]).all()
    assert (rows["net pay"] <= rows["wage"]).all()
    assert list(rows) == list(TABLE)


@pytest.mark.parametrize("bins", ["declared", "private"])
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_relations_hold_in_all_rows(bins, epsilon):
    rows = fitted(bins=bins, epsilon=epsilon).sample(4_000)
    check(rows)
    assert rows[["wage", "total", "bonus", "net pay"]].dtypes.eq(float).all()
    assert rows["start"].dtype.kind == "M"


def test_they_hold_whether_or_not_the_table_keeps_them():
    shuffled = TABLE.apply(lambda column: column.sample(frac=1, random_state=len(column.name)).to_numpy())
    check(fitted(shuffled, epsilon=10).sample(2_000))


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_of_other_libraries(library):
    table = pl.from_pandas(TABLE) if library == "polars" else pa.Table.from_pandas(TABLE)
    rows = fitted(table).sample(1_000)
    if library == "polars":
        assert rows.schema["total"] == pl.Float64
        check(rows.to_pandas())
    else:
        assert isinstance(rows, pa.Table)
        check(rows.to_pandas())


@pytest.mark.long
def test_they_hold_wherever_rows_are_drawn(tmp_path):
    synthesizer = fitted()
    check(pd.concat(synthesizer.sample(300, n_tables=2)))
    for rows in synthesizer.sample_batches(300, batch_size=100):
        check(rows)
    check(synthesizer.sample(1))
    check(synthesizer.transform(TABLE))
    synthesizer.save(tmp_path / "model")
    loaded = skdp.load(tmp_path / "model")
    assert loaded.relations_ == RELATIONS
    check(loaded.sample(500))
    check(loaded.fit(TABLE).sample(500))  # as its domain is the fitted one
    X, y = SyntheticResampler(synthesizer, n_samples=500).fit_resample(TABLE.drop(columns="end"), TABLE["end"])
    check(X.assign(end=y)[list(TABLE)])
    with_target = DPMarginalSynthesizer(domain=DOMAIN, relations=RELATIONS, delta=1e-6, random_state=0)
    with_target.fit(TABLE.drop(columns="total"), TABLE["total"])
    rows = with_target.sample(500)
    check(rows[list(TABLE)])
    assert list(with_target.transform(TABLE.drop(columns="total"))) == [*TABLE.columns.drop("total")]


class TestSums:
    """Columns that follow from others."""

    def test_they_are_not_measured(self):
        """Their values change nothing, so long as they are declared."""
        others = fitted(TABLE.assign(total=0.0))
        pd.testing.assert_frame_equal(others.sample(200), fitted().sample(200))
        for clique in others.selected_cliques_:
            assert clique == ("total",) or "total" not in clique
        assert "total" not in others.pair_scores_.reset_index()[["first", "second"]].to_numpy()

    def test_the_model_is_not_asked_for_them(self):
        synthesizer = fitted()
        asked = [
            lambda: synthesizer.marginal(["total", "sex"]),
            lambda: synthesizer.count_estimate({"total": (0, 10)}),
            lambda: synthesizer.range_estimate("total", 0, 10),
            lambda: skdp.synthetic_inference(synthesizer, lambda rows: rows["total"].mean(), columns=["total"]),
            lambda: fitted(marginals=[("total", "sex")]),
            lambda: fitted(workload=[("total", "sex")]),
            lambda: fitted(target="total"),
            lambda: fitted(structural_zeros=[("wage", "<=", "total")]),
        ]
        for ask in asked:
            with pytest.raises(
                ValueError, match=r"'total' is not modelled, as it follows by .*name \['wage', 'bonus'\]"
            ):
                ask()

    @pytest.mark.parametrize("bins", ["declared", "private"])
    def test_whole_numbers_coefficients_chains_and_constants(self, bins):
        table = pd.DataFrame({"a": RNG.integers(0, 9, N), "b": RNG.integers(0, 4, N)})
        table["c"] = 2 * table["a"] - table["b"] + 7
        table["d"] = table["c"] - table["a"]
        table["e"] = 0.25 * table["d"]
        domain = {"a": Interval(0, 9, bins=3), "b": [0, 1, 2, 3], "c": Interval(0, 40, bins=4)}
        domain |= {"d": Interval(-6, 50, bins=4), "e": Interval(-5, 15, bins=2, decimals=2)}
        # Declared in another order than they follow from each other.
        relations = ["e = 0.25 * d", "c - a = d", "c == 2*a - b + 7"]
        rows = fitted(table, domain, relations, bins=bins).sample(3_000)
        assert (rows["c"] == 2 * rows["a"] - rows["b"] + 7).all()
        assert (rows["d"] == rows["c"] - rows["a"]).all()
        assert (rows["e"] == rows["d"] / 4).all()
        assert rows[["a", "b", "c", "d"]].dtypes.eq(np.int64).all()
        assert rows["e"].dtype == float

    def test_of_any_fractions_it_is_the_sum_of_floats(self):
        table = pd.DataFrame({"a": RNG.random(N), "b": RNG.normal(size=N).clip(-4, 4)})
        table["c"] = table["a"] - table["b"]
        domain = {"a": Interval(0, 1, bins=4, real=True), "b": Interval(-4, 4, bins=4, real=True)}
        rows = fitted(table, domain | {"c": Interval(-4, 5, bins=4, real=True)}, ["c = a - b"]).sample(2_000)
        assert (rows["c"] == rows["a"] - rows["b"]).all()

    @DRAWN_AGAIN
    def test_ends_of_the_sum_hold(self):
        """Half of the sums of independent parts are beyond them."""
        table = pd.DataFrame({"a": np.arange(N) % 101, "b": 100 - np.arange(N) % 101})
        table["left"] = 0
        domain = {name: Interval(0, 100, bins=10) for name in ("a", "b", "left")}
        rows = fitted(table, domain, ["left = 100 - a - b"], marginals="independent").sample(2_000)
        assert (rows["a"] + rows["b"] + rows["left"] == 100).all()
        assert rows["left"].between(0, 100).all()

    def test_a_sum_is_missing_where_a_part_is(self):
        table = pd.DataFrame({"a": np.where(RNG.random(N) < 0.3, np.nan, 1.0 * RNG.integers(0, 10, N))})
        table["b"] = np.where(RNG.random(N) < 0.1, np.nan, 1.0 * RNG.integers(0, 10, N))
        table["c"] = table["a"].fillna(0) + table["b"].fillna(0)
        table.loc[table.index % 4 == 0, "c"] = np.nan
        domain = {name: Interval(0, 10, bins=5, missing=True) for name in "ab"}
        domain["c"] = Interval(0, 20, bins=5, missing=True)
        for make in (pd.DataFrame, pl.DataFrame):
            made = fitted(make(table.to_dict("list")), domain, ["c = a + b"], epsilon=10, delta=1e-6).sample(3_000)
            rows = pd.DataFrame(made.to_dict(as_series=False) if make is pl.DataFrame else made).astype(float)
            is_missing = rows[["a", "b"]].isna().any(axis=1)
            assert rows.loc[is_missing, "c"].isna().all()
            is_there = rows["c"].notna()
            assert (rows["a"] + rows["b"] == rows["c"])[is_there].all()
            # Of itself it is missing as often as it was.
            assert abs(rows["c"].isna().mean() - (1 - 0.7 * 0.9 * 0.75)) < 0.2
            assert is_missing.any()
            assert (~is_missing & ~is_there).any()


@DRAWN_AGAIN
class TestBounds:
    """Inequalities."""

    @pytest.mark.parametrize("bins", ["declared", "private"])
    @pytest.mark.parametrize("relation", ["a + 2 * b <= 90", "a < b", "100 - a >= b", "a > b - 1.5"])
    def test_they_hold(self, relation, bins):
        table = pd.DataFrame({"a": RNG.integers(0, 80, N), "b": RNG.integers(0, 80, N)})
        domain = {"a": Interval(0, 80, bins=8), "b": Interval(0, 80, bins=16)}
        rows = fitted(table, domain, [relation], bins=bins).sample(3_000)
        assert rows.eval(relation).all()

    def test_a_sum_of_decimals_that_is_equal_is_not_above(self):
        """As floats, 0.1 + 0.2 is above 0.3."""
        table = pd.DataFrame({name: RNG.integers(0, 6, N) / 10 for name in "abc"})
        domain = {name: Interval(0, 0.5, bins=2, decimals=1) for name in "abc"}
        rows = fitted(table, domain, ["a + b > c"]).sample(3_000)
        tenths = (rows * 10).round().astype(int)
        assert (tenths["a"] + tenths["b"] > tenths["c"]).all()

    @pytest.mark.parametrize("bins", ["declared", "private"])
    @pytest.mark.parametrize("relation", ["a + 2 * b <= 90", "a <= b", "b >= a", "90 >= a + 2 * b", "a >= b"])
    def test_the_model_has_no_rows_that_break_them(self, relation, bins):
        """Numbers move within bins only: what is asked of the model is what rows have."""
        table = pd.DataFrame({"a": RNG.integers(0, 80, N), "b": RNG.integers(0, 80, N)})
        domain = {"a": Interval(0, 80, bins=8), "b": Interval(0, 80, bins=16)}
        synthesizer = fitted(table, domain, [relation], bins=bins)
        cells = synthesizer.marginal(["a", "b"])
        for bin_of_a, bin_of_b, count in zip(cells["a"], cells["b"], cells["count"], strict=True):
            ends = []
            for text in (bin_of_a, bin_of_b):
                low, high = map(float, text.strip("[)]").split(", "))
                ends.append((low, high if text.endswith("]") else high - 1))
            corners = pd.DataFrame([(a, b) for a in ends[0] for b in ends[1]], columns=["a", "b"])
            if not corners.eval(relation).any():
                assert count == 0
        assert (cells["count"] == 0).any()

    def test_sums_keep_them_too(self):
        rows = fitted(relations=[*RELATIONS, "total >= 30", "total <= `net pay` + 40"]).sample(2_000)
        check(rows)
        assert rows["total"].between(30, 250).all()
        assert (rows["total"] <= rows["net pay"] + 40).all()

    def test_they_say_nothing_of_missing_values(self):
        table = pd.DataFrame({"a": np.where(RNG.random(N) < 0.3, np.nan, 5.0), "b": 2.0})
        domain = {"a": Interval(0, 8, bins=4, missing=True), "b": Interval(0, 8, bins=4)}
        rows = fitted(table, domain, ["a <= b"], epsilon=10).sample(500)
        assert rows["a"].isna().any()
        assert (rows["a"] <= rows["b"])[rows["a"].notna()].all()

    @pytest.mark.long
    @pytest.mark.parametrize("bins", ["declared", "private"])
    @pytest.mark.parametrize("relation", often(["wage >= `net pay`", "`net pay` <= wage"], ["`net pay` <= wage"]))
    def test_means_within_bins_stay(self, relation, bins):
        """Numbers are exchanged within bins: the means of columns do not move with the rule."""
        rows = fitted(epsilon=30, bins=bins, relations=[relation]).sample(20_000)
        assert abs(rows["net pay"].mean() - TABLE["net pay"].mean()) < 0.5
        assert abs(rows["wage"].mean() - TABLE["wage"].mean()) < 0.5


# Of ten rows nine have the sum 6.
PAIRS = pd.DataFrame({"a": [3] * 900 + [0] * 100, "b": [3] * 900 + [0] * 100, "sum": 0})
DIGITS = {"a": Interval(0, 3, bins=3), "b": Interval(0, 3, bins=3), "sum": Interval(0, 6, bins=2)}


class TestRowsDrawnAgain:
    def test_a_warning_names_their_share(self):
        domain = DIGITS | {"sum": Interval(0, 3, bins=3)}
        with pytest.warns(UserWarning, match=r"(8[7-9]|9[0-3])% of the rows .* break the relations \['sum = a \+ b'\]"):
            fitted(PAIRS, domain, ["sum = a + b"], epsilon=100, marginals=[("a", "b")])

    def test_few_rows_are_no_matter(self):
        """Warnings are errors: one row of ten breaks it."""
        fitted(PAIRS, DIGITS, ["sum = a + b", "sum >= 1"], epsilon=100)

    def test_it_costs_nothing(self):
        domain = DIGITS | {"sum": Interval(0, 3, bins=3)}
        with pytest.warns(UserWarning, match="break the relations"):
            release = fitted(PAIRS, domain, ["sum = a + b"], epsilon=2.0)
        assert release.guarantee_.epsilon == 2
        assert (release.sample(100)["sum"] <= 3).all()


def test_what_is_promised_names_them():
    synthesizer = fitted()
    assert "rows that keep 'total = wage + bonus', 'end >= start'" in synthesizer.guarantee_.mechanism
    assert "total = wage + bonus" in str(privacy_statement(synthesizer).to_json())
    assert synthesizer.guarantee_.epsilon == fitted(relations=None).guarantee_.epsilon


@pytest.mark.long
def test_without_relations_rows_are_as_before():
    pd.testing.assert_frame_equal(fitted(relations=[]).sample(50), fitted(relations=None).sample(50))


@pytest.mark.parametrize(
    ("relations", "error", "message"),
    [
        ("total = wage + bonus", TypeError, "relations must be a list of texts"),
        ([("wage", "<=", "total")], TypeError, "relations must be texts, got a tuple"),
        (["total wage"], ValueError, "the relation 'total wage' must have exactly one of .*, it has 0; "),
        (["total = wage = bonus"], ValueError, "exactly one of .*, it has 2 .write 'a <= b <= c' as two relations"),
        (["0 <= wage <= total"], ValueError, "it has 2 .write 'a <= b <= c' as two relations, 'a <= b' and 'b <= c'"),
        (["wage <= 1e2"], ValueError, "'wage <= 1e2': numbers are written without an exponent, such as 100 or 0.01"),
        (["wage >= 2.5E-3 * total"], ValueError, "numbers are written without an exponent"),
        (["total = wage +"], ValueError, r"'total = wage \+' lacks a column or a number"),
        (["total = wage bonus"], ValueError, r"lacks a \+ or -"),
        (["total = wage * bonus"], ValueError, "is not linear"),
        (["total = wage / 2"], ValueError, "cannot be read from place 13"),
        (["total = __import__('os')"], ValueError, "there is no column|cannot be read"),
        (["total = pay"], ValueError, "there is no column 'pay'; the columns are"),
        (["total = 0 * wage"], ValueError, "must not be 0"),
        (["1 <= 2"], ValueError, "must name a column"),
        (["wage <= wage"], ValueError, "a column may occur once"),
        (["total + 1 = wage + bonus"], ValueError, "a column alone"),
        (["total = wage", "total = bonus"], ValueError, "'total' follows from 'total = wage' already"),
        (["total = wage + bonus", "wage = total - 1"], ValueError, "round in a circle"),
        (["wage <= bonus", "bonus <= wage"], ValueError, "round in a circle"),
        (["total = sex"], ValueError, "column 'sex' must be declared as numbers or dates, not strings"),
        (["end = start"], ValueError, "column 'end' has dates, which cannot follow from other columns by ="),
        (["end >= start + 3"], ValueError, "column 'end' has dates, which can be compared .* and not be added"),
        (["end >= wage"], ValueError, "compares dates with numbers"),
        (["`net pay` = wage - bonus"], ValueError, "'net pay' declares 1 decimals, and .* has 2"),
        (["total = 0.5 * wage + bonus"], ValueError, "'total' declares 2 decimals, and .* has 3"),
        ([f"wage <= 1{'0' * 400}"], ValueError, "at most 15 digits before its point"),
        (["wage <= 10000000 * 1000000000 * bonus"], ValueError, "at most 15 digits before its point"),
        ([f"0.{'0' * 400}1 * wage <= bonus"], ValueError, "at most 15 digits before its point"),
        (["wage >= 300"], ValueError, "the relation 'wage >= 300': no declared values"),
        (["wage < 0"], ValueError, "the relation 'wage < 0': no declared values"),
        (["wage + bonus > 400"], ValueError, "the relation 'wage \\+ bonus > 400': no declared values"),
        (["total = wage + bonus", "wage >= 150", "bonus >= 150"], ValueError, "'bonus >= 150': no declared values"),
        (["total = wage + bonus + 300"], ValueError, "no declared values"),
    ],
)
def test_what_is_refused_before_a_charge(relations, error, message):
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3)
    with pytest.raises(error, match=message):
        fitted(relations=relations, ledger=ledger)
    assert ledger.spent.epsilon == 0


def test_a_part_that_may_be_missing_needs_a_sum_that_may_be():
    domain = DOMAIN | {"bonus": Interval(0, 200, bins=8, decimals=2, missing=True)}
    with pytest.raises(ValueError, match=r"column 'total' must declare missing \(missing=True\), as 'bonus' does"):
        fitted(domain=domain)


def test_columns_without_names():
    table = np.column_stack([np.arange(N) % 9, np.arange(N) % 5, np.arange(N) % 9 + np.arange(N) % 5])
    rows = fitted(table, Interval(0, 20, bins=5), ["x2 = x0 + x1"]).sample(500)
    assert (rows[:, 0] + rows[:, 1] == rows[:, 2]).all()


def test_sums_of_whole_numbers_must_fit_into_64_bits():
    """10**10 times 10**9 would be below 0."""
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3)
    table = np.array([[10**9, 10**9], [1, 10**9]])
    for relation in ["10000000000 * x0 <= 5000000000 * x1", "x0 + 9000000000 * x1 >= 1"]:
        with pytest.raises(ValueError, match=r"its terms are larger than 5e\+18, which whole numbers of 64 bits"):
            fitted(table, Interval(0, 10**9, bins=5), [relation], ledger=ledger)
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [],
)
def test_what_else_must_not_name_them(parameters, message):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(10, 20, N), "c": rng.integers(0, 3, N), "yes": rng.integers(0, 2, N)})
    table["total"] = table["a"] + table["c"]
    domain = {"a": Interval(0, 20, bins=4), "c": [0, 1, 2], "yes": [0, 1], "total": Interval(0, 40, bins=4)}
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3)
    with pytest.raises(ValueError, match=message):
        fitted(table, domain, **{"relations": ["total = a + c"], "ledger": ledger} | parameters)
    assert ledger.spent.epsilon == 0
