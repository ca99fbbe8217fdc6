"""Rules of two columns: values in order, and values that are missing together."""

from __future__ import annotations

import itertools
from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.synthesis import SyntheticResampler
from skdp.synthesis._rules import check_chains, read_order
from skdp.synthesis.selection import read_zeros
from skdp.synthesis.tables._draws import Spread, fixed, keep_order

N = 600
RNG = np.random.default_rng(0)
START = RNG.integers(0, 40, N)
END = np.minimum(START + RNG.integers(0, 12, N), 40)
PARTNER = RNG.random(N) < 0.5
PEOPLE = pd.DataFrame(
    {
        "start": START,
        "end": END,
        "age": np.where(PARTNER, RNG.integers(18, 90, N), np.nan),
        "job": np.where(PARTNER, RNG.choice(["a", "b"], N), None),
        "sex": RNG.choice(["f", "m"], N),
    }
)
DOMAIN = {
    "start": Interval(0, 40, bins=4),
    "end": Interval(0, 40, bins=4),
    "age": Interval(18, 90, bins=3, missing=True),
    "job": ["a", None, "b"],
    "sex": ["f", "m"],
}
RULES = [("start", "<=", "end"), ("age", "missing with", "job"), {"sex": "m", "job": "a"}]


def fitted(table=PEOPLE, domain=DOMAIN, rules=RULES, **parameters):
    given = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    return DPMarginalSynthesizer(domain=domain, structural_zeros=rules, **given | parameters).fit(table)


def holds(rows):
    return (
        (rows["start"] <= rows["end"]).all()
        and (rows["age"].isna() == rows["job"].isna()).all()
        and not ((rows["sex"] == "m") & (rows["job"] == "a")).any()
    )


@pytest.mark.parametrize("marginals", ["auto", "independent", "tree", "adaptive", [("start", "sex")]], ids=str)
def test_rules_hold_in_all_rows(marginals):
    """Also in those of a table that breaks them, with much noise."""
    broken = PEOPLE.assign(start=PEOPLE["end"], end=PEOPLE["start"], age=PEOPLE["age"].fillna(20))
    synthesizer = fitted(broken, marginals=marginals, epsilon=0.1)
    assert holds(synthesizer.sample(2_000))
    assert synthesizer.sample(2_000)["age"].isna().any()


def test_without_the_rules_rows_break_them():
    rows = fitted(rules=None, marginals="independent").sample(2_000)
    assert (rows["start"] > rows["end"]).any()
    assert (rows["age"].isna() != rows["job"].isna()).any()


def test_rules_hold_wherever_rows_are_drawn(tmp_path):
    synthesizer = fitted()
    drawn = [*synthesizer.sample(500, n_tables=2), *synthesizer.sample_batches(500, batch_size=200)]
    drawn.append(synthesizer.transform(PEOPLE))
    synthesizer.save(tmp_path / "model")
    loaded = DPMarginalSynthesizer.load(tmp_path / "model")
    assert loaded.structural_zeros == RULES
    drawn.append(loaded.sample(500))
    features, target = SyntheticResampler(synthesizer, n_samples=500).fit_resample(
        PEOPLE.drop(columns="end"), PEOPLE["end"]
    )
    drawn.append(features.assign(end=target))
    assert all(map(holds, drawn))
    table = synthesizer.marginal(["start", "end"])
    assert (table["count"].to_numpy().reshape(4, 4)[np.tril_indices(4, -1)] == 0).all()


@pytest.mark.parametrize(("drawn", "kept"), [("start", "end"), ("end", "start")])
def test_a_redrawn_column_is_in_order_with_the_given_one(drawn, kept):
    table = PEOPLE.assign(start=40 - PEOPLE["end"], end=40.0)
    rows = fitted(redraw=[drawn]).transform(table)
    pd.testing.assert_series_equal(rows[kept], table[kept])
    assert (rows["start"] <= rows["end"]).all()
    assert rows[drawn].between(0, 40).all()


def test_dates_in_order():
    days = pd.DataFrame({"from": pd.to_datetime(["2020-01-05"] * 50), "to": pd.to_datetime(["2020-01-20"] * 50)})
    bins = Interval(date(2020, 1, 1), date(2020, 3, 1), bins=2)
    rows = fitted(days, {"from": bins, "to": bins}, [("from", "<=", "to")]).sample(1_000)
    assert (rows["from"] <= rows["to"]).all()
    assert (rows["from"] == rows["from"].dt.normalize()).all()
    seconds = Interval(datetime(2020, 1, 1), datetime(2020, 3, 1), bins=2)
    finer = Interval(edges=[datetime(2020, 1, 1), datetime(2020, 1, 9, 1, 2, 3, 4), datetime(2020, 3, 1)])
    rows = fitted(days, {"from": seconds, "to": finer}, [("from", "<=", "to")]).sample(1_000)
    assert (rows["from"] <= rows["to"]).all()


def test_values_in_order_with_bins():
    """A list of numbers stays a list of numbers."""
    table = pd.DataFrame({"low": [0.5, 1.0, 4.0] * 50, "high": [1.5, 3.0, 7.5] * 50})
    domain = {"low": [0.5, 4.0, None, 1.0], "high": Interval(0, 8, bins=2, real=True, missing=True)}
    rows = fitted(table, domain, [("low", "<=", "high")], epsilon=0.3).sample(2_000)
    known = rows.dropna()
    assert 0 < len(known) < len(rows)
    assert (known["low"] <= known["high"]).all()
    assert set(known["low"]) == {0.5, 1.0, 4.0}


def test_an_excluded_cell_has_no_two_values_in_order():
    """By all pairs of whole numbers."""
    edges = [[0, 3, 4, 7], [0, 1, 6, 7], [2, 5, 9]]
    for one, other in itertools.product(edges, repeat=2):
        domain = Domain({"a": Interval(edges=one), "b": Interval(edges=other, missing=True)})
        ((clique, excluded),) = read_zeros([("b", "<=", "a")], domain)
        assert clique == (0, 1)
        values = [Interval(edges=bins) for bins in (one, other)]
        whole = [np.arange(bins[0], bins[-1] + 1) for bins in (one, other)]
        codes = [bins.encode(numbers.astype(float)) for bins, numbers in zip(values, whole, strict=True)]
        possible = np.zeros_like(excluded)
        possible[:, -1] = True  # missing
        for place, number in enumerate(whole[0]):
            possible[codes[0][place], codes[1][whole[1] <= number]] = True
        np.testing.assert_array_equal(excluded, ~possible)


def test_what_pairs_of_columns_allow_is_possible_together():
    """By brute force; chains for which it is not so are refused."""
    refused = 0
    for bins in itertools.product([[0, 4], [0, 2, 4], [1, 2, 4]], repeat=3):
        domain = Domain({name: Interval(edges=edges) for name, edges in zip("abc", bins, strict=True)})
        rules = [("a", "<=", "b"), ("b", "<=", "c")]
        numbers = [np.arange(edges[0], edges[-1] + 1) for edges in bins]
        codes = [domain[name].encode(values.astype(float)) for name, values in zip("abc", numbers, strict=True)]
        grid = np.ix_(*numbers)
        in_order = (grid[0] <= grid[1]) & (grid[1] <= grid[2])
        cells = {tuple(code[place] for code, place in zip(codes, row, strict=True)) for row in np.argwhere(in_order)}
        zeros = read_zeros([*rules, ("a", "<=", "c")], domain)
        for cell in itertools.product(*map(range, domain.sizes)):
            assert (cell in cells) == (not any(table[cell[i], cell[j]] for (i, j), table in zeros))
        pairs = [(clique, table) for clique, table in zeros if clique != (0, 2)]
        needed = any(
            cell not in cells and not any(table[cell[i], cell[j]] for (i, j), table in pairs)
            for cell in itertools.product(*map(range, domain.sizes))
        )
        if needed:
            refused += 1
            with pytest.raises(ValueError, match="'a' below 'c' where 'b' is between them"):
                check_chains(rules, domain)
        else:
            check_chains(rules, domain)
    assert refused


def test_in_a_bin_all_ordered_values_have_the_same_probability():
    rng = np.random.default_rng(0)
    n = 24_000
    ends = np.zeros(n), np.full(n, 1.0)
    columns = {name: Spread(rng.random(n), *ends, np.zeros(n, bool)) for name in "cab"}
    keep_order(columns, [("a", "b"), ("b", "c")], rng)
    means = [columns[name].values.mean() for name in "abc"]
    np.testing.assert_allclose(means, [0.25, 0.5, 0.75], atol=0.01)
    whole = {
        name: Spread(rng.integers(0, 3, n), *(np.full(n, end) for end in (0.0, 2.0)), np.zeros(n, bool), 1)
        for name in "ab"
    }
    keep_order(whole, [("a", "b")], rng)
    found = np.bincount(3 * whole["a"].values + whole["b"].values, minlength=9).reshape(3, 3)
    np.testing.assert_allclose(found / n, [[1 / 9, 2 / 9, 2 / 9], [0, 1 / 9, 2 / 9], [0, 0, 1 / 9]], atol=0.01)


@pytest.mark.parametrize("whole", [True, False])
def test_values_stay_between_their_bounds(whole):
    rng = np.random.default_rng(1)
    n, names = 3_000, "abcde"
    order = [(one, other) for one, other in itertools.combinations(names, 2) if rng.random() < 0.6]
    inside = np.sort(rng.integers(0, 20, (5, n)), axis=0)
    low, high = inside - rng.integers(0, 5, (5, n)), inside + rng.integers(0, 5, (5, n))
    missing = rng.random((5, n)) < 0.1
    values = rng.integers(low, high, endpoint=True)
    columns = {
        name: Spread(
            values[i] if whole else values[i].astype(float),
            low[i].astype(float),
            high[i].astype(float),
            missing[i],
            int(whole),
        )
        for i, name in enumerate(names)
    }
    keep_order(columns, order, rng)
    for i, name in enumerate(names):
        assert (columns[name].values >= low[i]).all()
        assert (columns[name].values <= high[i]).all()
    for one, other in order:
        both = ~(columns[one].missing | columns[other].missing)
        assert (columns[one].values <= columns[other].values)[both].all()


def test_a_chain_takes_pairs_of_columns_only():
    names = list("abcdef")
    bins = Interval(0, 100, bins=100)
    table = pd.DataFrame(np.sort(np.random.default_rng(0).integers(0, 100, (100, 6)), axis=1), columns=names)
    chain = [(one, "<=", other) for one, other in itertools.pairwise(names)]
    synthesizer = fitted(table, dict.fromkeys(names, bins), chain, marginals="independent", max_iter=3)
    assert max(map(len, synthesizer.model_.tree.cliques)) == 2
    assert (np.diff(synthesizer.sample(500).to_numpy(), axis=1) >= 0).all()
    assert read_order(chain[::-1], Domain(dict.fromkeys(names, bins))) == tuple(itertools.pairwise(names))


TZ = pd.Timestamp("2020-01-01", tz="UTC")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([("start", "<", "end")], r"must be \(column, '<=', column\) or .* got \('start', '<', 'end'\)"),
        ([("start", "<=")], "a rule of structural_zeros must be"),
        ([("start", "<=", "height")], "no column 'height'"),
        ([("start", "<=", "start")], "must have two columns, got"),
        ([{"start": (0, 5)}], "must name whole bins, and cuts one of column 'start'"),
        ([("start", "<=", "sex")], "column 'sex' cannot be compared: it must have numbers or dates, not strings"),
        ([("start", "<=", "real")], "'start' and 'real' can be compared if both are whole or both real"),
        ([("start", "<=", "day")], "'start' and 'day' cannot be compared: numbers, dates"),
        ([("zone", "<=", "zone2")], "column 'zone' cannot be compared"),
        ([("none", "<=", "start")], "column 'none' cannot be compared"),
        ([("start", "missing with", "job")], "column 'start' does not declare missing"),
        ([("start", "<=", "end"), ("end", "<=", "start")], "go round in a circle: .*'start'"),
        ([("fine", "<=", "fine2")], "takes a table of 100,000,000 cells; at most .* Declare coarser bins"),
    ],
)
def test_a_wrong_rule_is_refused_before_the_charge(rules, message):
    fine = Interval(0, 40, bins=10_000, real=True)
    more = {
        **{"real": Interval(0, 40, bins=4, real=True), "day": Interval(date(2020, 1, 1), date(2021, 1, 1), bins=12)},
        **{"zone": [TZ], "zone2": [TZ], "none": [None], "fine": fine, "fine2": fine},
    }
    table = PEOPLE.assign(real=0.5, day=pd.Timestamp("2020-01-01"), zone=TZ, zone2=TZ, none=None, fine=1.0, fine2=1.0)
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
    with pytest.raises(ValueError, match=message):
        fitted(table, DOMAIN | more, rules, ledger=ledger)
    with pytest.raises(ValueError, match=r"structural_zeros take a clique of 16 cells .* declare coarser bins"):
        fitted(max_cells=15, ledger=ledger)
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize("rules", [["start <= end"], ("start", "<=", "end"), [["start", "<=", "end"]]], ids=str)
def test_rules_must_be_tuples_in_a_list(rules):
    with pytest.raises(TypeError, match="must be a list of mappings and rules, which are tuples, got a list with"):
        fitted(rules=rules)


def test_rules_of_columns_whose_values_are_to_be_found():
    domain = {name: values for name, values in DOMAIN.items() if name != "job"}
    with pytest.raises(ValueError, match="column 'job', whose values discover= is to find"):
        fitted(domain=domain, discover=0.2)


def test_a_missing_number_can_be_asked_for():
    synthesizer = fitted(rules=[{"age": None, "job": ["a", "b"]}])
    rows = synthesizer.sample(1_000)
    assert not (rows["age"].isna() & rows["job"].notna()).any()
    assert synthesizer.count({"age": None}) == pytest.approx(N - PARTNER.sum(), abs=60)


def test_what_is_given_does_not_move():
    given = np.array([3.0, np.nan, 9.5])
    columns = {"a": fixed(given), "b": Spread(np.zeros(3), np.zeros(3), np.full(3, 9.0), np.zeros(3, bool))}
    keep_order(columns, [("a", "b")], np.random.default_rng(0))
    np.testing.assert_array_equal(given, [3.0, np.nan, 9.5])
    assert (columns["b"].values >= [3, 0, 9.5]).all()
