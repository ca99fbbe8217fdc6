"""Structural zeros: combinations and rules of two columns hold in every row, and leave room for pairs."""

from __future__ import annotations

import itertools
from datetime import date

import numpy as np
import pandas as pd
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.synthesis import SyntheticResampler
from skdp.synthesis.selection import read_zeros
from skdp.synthesis.tables import decode
from skdp.tables import read_table

CITY_OF = np.sort(np.random.default_rng(1).integers(0, 12, 60))
STATE_OF = np.sort(np.random.default_rng(2).integers(0, 4, 12))
RNG = np.random.default_rng(0)
POSTCODE = RNG.integers(0, 60, 8_000)
AGE = RNG.integers(0, 10, 8_000)
PLACES = pd.DataFrame({"postcode": POSTCODE, "city": CITY_OF[POSTCODE], "state": STATE_OF[CITY_OF[POSTCODE]]}).assign(
    age=AGE, income=np.where(RNG.random(8_000) < 0.95, AGE, RNG.integers(0, 10, 8_000))
)
SIZES_OF_PLACES = {"postcode": range(60), "city": range(12), "state": range(4), "age": range(10), "income": range(10)}


def contradictions(first, second, belongs):
    """List that a value of one column has no other value of the other than the one that it belongs to."""
    values = SIZES_OF_PLACES[second]
    return [{first: place, second: [value for value in values if value != home]} for place, home in enumerate(belongs)]


CITIES = contradictions("postcode", "city", CITY_OF)
STATES = contradictions("city", "state", STATE_OF)
BOTH = contradictions("postcode", "state", STATE_OF[CITY_OF])


def fitted_places(zeros, **parameters):
    given = {"epsilon": 5.0, "delta": 1e-9, "domain": SIZES_OF_PLACES, "random_state": 0, "max_cells": 800}
    return DPMarginalSynthesizer(**given | parameters, structural_zeros=zeros).fit(PLACES)


def test_zeros_of_a_chain_leave_room_for_pairs():
    """All three together would be 2,880 cells, 3.6 times the largest clique."""
    synthesizer = fitted_places(CITIES + STATES)
    assert ("age", "income") in synthesizer.selected_cliques_
    rows = synthesizer.sample(8_000)
    assert np.corrcoef(rows["age"], rows["income"])[0, 1] > 0.85
    assert (CITY_OF[rows["postcode"]] == rows["city"]).all()
    assert (STATE_OF[rows["city"]] == rows["state"]).all()


def test_zeros_that_need_too_large_a_clique_are_refused():
    with pytest.raises(ValueError, match=r"structural_zeros take a clique of 2,880 cells"):
        fitted_places(CITIES + STATES + BOTH)


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


@pytest.mark.parametrize("marginals", ["auto", "independent", [("start", "sex")]], ids=str)
def test_rules_hold_in_all_rows(marginals):
    """Also in those of a table that breaks them, with much noise."""
    broken = PEOPLE.assign(start=PEOPLE["end"], end=PEOPLE["start"], age=PEOPLE["age"].fillna(20))
    synthesizer = fitted(broken, marginals=marginals, epsilon=0.1)
    assert holds(synthesizer.sample(2_000))
    assert synthesizer.sample(2_000)["age"].isna().any()


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
                read_zeros(rules, domain)
        else:
            read_zeros(rules, domain)
    assert refused


def test_a_chain_takes_pairs_of_columns_only():
    names = list("abcdef")
    bins = Interval(0, 100, bins=100)
    table = pd.DataFrame(np.sort(np.random.default_rng(0).integers(0, 100, (100, 6)), axis=1), columns=names)
    chain = [(one, "<=", other) for one, other in itertools.pairwise(names)]
    synthesizer = fitted(table, dict.fromkeys(names, bins), chain, marginals="independent", max_iter=3)
    assert max(map(len, synthesizer.model_.tree.cliques)) == 2
    assert (np.diff(synthesizer.sample(500).to_numpy(), axis=1) >= 0).all()


def test_in_a_bin_all_ordered_values_have_the_same_probability():
    """Three numbers in one bin, in order: their means are the quarters of it."""
    rng = np.random.default_rng(0)
    domain = Domain(dict.fromkeys("abc", Interval(edges=[0, 1], real=True)))
    template = read_table(pd.DataFrame({name: np.empty(0) for name in "abc"}))
    columns = decode(template, domain, [np.zeros(24_000, int)] * 3, rng, [("a", "b"), ("b", "c")])
    np.testing.assert_allclose([np.mean(column) for column in columns], [0.25, 0.5, 0.75], atol=0.01)


TZ = pd.Timestamp("2020-01-01", tz="UTC")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([("start", "<", "end")], r"must be \(column, '<=', column\) or .* got \('start', '<', 'end'\)"),
        ([("start", "<=")], r"structural_zeros\[0\]: a rule must be"),
        ([("start", "<=", "height")], r"structural_zeros\[0\]: there is no column 'height'; the columns are"),
        ([("start", "<=", "end"), {"height": 1}], r"structural_zeros\[1\]: there is no column 'height'"),
        ([("start", "<=", "start")], r"structural_zeros\[0\]: a rule must have two columns, got"),
        ([{"start": (0, 5)}], "must name whole bins, and cuts one of column 'start': end its range at edges"),
        ([{"start": (30, 10)}], r"structural_zeros\[0\]: the range of column 'start' .* low must not be above high"),
        ([{"sex": "male"}], r"structural_zeros\[0\]: a value for column 'sex' is not among its declared ones, \['"),
        ([{}], r"structural_zeros\[0\]: a combination must name at least one column"),
        ([("start", "<=", "sex")], "column 'sex' cannot be compared: it must have numbers or dates, not strings"),
        ([("start", "<=", "real")], "'start' and 'real' can be compared if both are whole or both real"),
        ([("start", "<=", "day")], "'start' and 'day' cannot be compared: numbers, dates"),
        ([("zone", "<=", "zone2")], "column 'zone' cannot be compared"),
        ([("none", "<=", "start")], "column 'none' cannot be compared"),
        ([("start", "missing with", "job")], "column 'start' does not declare missing: add None"),
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
    form = r"structural_zeros must be a list of mappings and of rules, which are tuples, such as .*, got"
    with pytest.raises(TypeError, match=f"{form} str"):
        fitted(rules="start <= end", ledger=ledger)
    with pytest.raises(TypeError, match=f"{form} a tuple with str"):
        fitted(rules=("start", "<=", "end"), ledger=ledger)
    assert ledger.spent.epsilon == 0
