"""What is lost for the values of named columns: known beforehand, and capped, against exact laws and replays."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skdp
from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.privacy import Mu, Share, gaussian_epsilon, largest_mu, privacy_statement
from skdp.synthesis.selection import Caps, ColumnCap
from skdp.testing import replay_release
from tests.conftest import each, often
from tests.synthesis.budgets import make_budget, private_table, recorded_draws

N = 400
rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": rng.integers(0, 3, N), "b": rng.choice(["x", "y"], N), "c": rng.integers(0, 40, N)})
TABLE["d"] = np.where(rng.random(N) < 0.9, TABLE["a"], 2)  # follows a, nearly
DOMAIN = {"a": [0, 1, 2], "b": ["x", "y"], "c": Interval(0, 40, bins=8), "d": [0, 1, 2]}
# Values of each column of which a record gets one that it does not have.
OTHERS = {"a": [2, 1], "b": ["y", "x"], "c": [39, 0], "d": [0, 2]}


def synthesizer(epsilon=30.0, **parameters):
    parameters = {"delta": 1e-6, "domain": DOMAIN, "random_state": 0, "max_iter": 20} | parameters
    return DPMarginalSynthesizer(epsilon, **parameters)


def neighbours(columns, table=TABLE, values=OTHERS, n_rows=1):
    """Yield tables with other values of some columns in the last record, of which one is another."""
    for row in range(n_rows):
        last = pd.concat([table.drop(index=row), table.loc[[row]]], ignore_index=True)
        other = last.copy()
        for column in columns:
            (value, *_) = [value for value in values[column] if value != table.loc[row, column]]
            other.loc[len(other) - 1, column] = value
        yield last, other


def assert_replays(release, columns, *, attained=False, **more):
    """Check replays against what is promised, and return the largest loss."""
    losses = []
    for first, second in neighbours(columns, **more):
        promise = release.fit(first).guarantee_for(columns)
        replay = replay_release(release, first, second, guarantee=promise)
        assert replay.findings == (), promise
        losses.append(replay.epsilon)
    if attained:
        assert max(losses) == pytest.approx(promise.epsilon, rel=1e-6)
    return promise, max(losses)


class TestWithoutACap:
    @each(
        "columns, delta, more",
        [
            (("a",), 1e-6, {"target": "b"}),
            (("c",), 1e-6, {"bins": "private"}),
            (("a", "d"), 0.0, {"target": "b"}),
            (("a", "b", "c", "d"), 1e-6, {"max_rows_per_person": 2}),
            (("a", "b", "c", "d"), 0.0, {"bins": "private"}),
            (("b", "d"), 1e-6, {"marginals": "interactions", "target": "a"}),
            (("b",), 0.0, {"marginals": "interactions", "bins": "private"}),
        ],
    )
    @pytest.mark.long
    def test_no_choice_loses_more_than_is_promised(self, columns, delta, more):
        promise, _ = assert_replays(synthesizer(delta=delta, **more), columns)
        implied = synthesizer(delta=delta, **more).fit(TABLE).guarantee_.to("replace_values", columns)
        assert promise.epsilon <= implied.epsilon

    @pytest.mark.long
    @each("delta", [0.0, 1e-6])
    @each("columns, n_moved", [(("a",), 2), (("a", "b"), 2), (("d",), 1), (("c", "d"), 1)])
    def test_given_marginals_lose_their_parts(self, columns, n_moved, delta):
        """Of three marginals, twice the parts of those that have one of the columns: this is attained."""
        release = synthesizer(
            2.0, delta=delta, marginals=[("a", "b"), ("a",), ("c", "d")], domain=DOMAIN | {"c": list(range(40))}
        )
        promise, _ = assert_replays(release, columns, attained=True)
        if delta == 0:
            assert promise.epsilon == pytest.approx(2 * 2.0 * n_moved / 3)
        else:
            rho = release.fit(TABLE).guarantee_.rho
            assert promise.rho == pytest.approx(2 * rho * n_moved / 3)

    @each("delta", [0.0, 1e-6])
    def test_declared_bins_leave_more_for_the_marginals_of_others(self, delta):
        """Fine cells of one column of four take three parts of 80, and what is left is for the marginal."""
        release = synthesizer(2.0, delta=delta, marginals=[("a", "b")])
        promise, _ = assert_replays(release, ("a",), attained=True)
        if delta == 0:
            assert promise.epsilon == pytest.approx(2 * 2.0 * (1 - 3 / 80))

    @each("marginals", ["auto", "interactions"])
    @each("epsilon, target", [(0.5, None), (3.0, "b"), (30.0, "b"), (30.0, None), (30.0, "a")])
    def test_scores_count_four_times(self, epsilon, target, marginals):
        """Of the noise that was drawn: the largest change of scores is too rare to be seen in a replay."""
        with recorded_draws() as draws:
            fitted = synthesizer(epsilon, target=target, marginals=marginals).fit(TABLE)
        loss = Fraction(0)
        for draw in draws:
            loss += draw.loss(1) * (4 if draw.purpose == "scores" else 2)
        assert any(draw.purpose == "scores" for draw in draws)
        rho = fitted.guarantee_for(["a", "b", "c", "d"]).rho
        # A list of scores that has no pair here is planned for, too.
        assert loss / 2 <= rho <= 1.2 * loss / 2

    def test_bins_of_other_columns_do_not_move(self):
        release = synthesizer(2.0, marginals="independent", bins="private")
        rho = release.fit(TABLE).guarantee_.rho
        promise, _ = assert_replays(release, ("a",), attained=True)
        assert promise.rho == pytest.approx(2 * rho * 4 / 5 / 4)
        promise, _ = assert_replays(release, ("c",))
        assert promise.rho == pytest.approx(2 * rho * (1 / 5 + 4 / 5 / 4))

    @pytest.mark.long
    @each("delta", [0.0, 1e-6])
    @each("columns", [("a",), ("c",), ("b", "d")])
    def test_columns_without_fine_cells_have_what_these_leave(self, columns, delta):
        """Of four columns, one has numbers within bins: 15 % of its quarter is for these."""
        release = synthesizer(2.0, delta=delta, marginals="independent")
        promise, _ = assert_replays(release, columns, attained=columns != ("c",))
        share = len(columns) * (1 - 3 / 80) / 4 + ("c" in columns) * 3 / 80
        whole = release.fit(TABLE).guarantee_
        if delta == 0:
            assert promise.epsilon == pytest.approx(2 * share * whole.epsilon)
        else:
            assert promise.rho == pytest.approx(2 * share * whole.rho)

    @each("bins", ["declared", "private"])
    def test_bins_of_sums_have_no_part(self, bins):
        """A column that follows from others has one bin: the counts of fine cells are of the others alone."""
        table = TABLE[["c"]].assign(total=2 * TABLE["c"], b=TABLE["b"])
        domain = {"c": DOMAIN["c"], "total": Interval(0, 80, bins=8), "b": DOMAIN["b"]}
        release = synthesizer(2.0, delta=0, domain=domain, relations=["total = 2 * c"], bins=bins, marginals=[("c",)])
        share_of_cells = 1 / 5 if bins == "private" else 3 / 20 / 3
        # Of c alone nothing is promised, as its double is public.
        promise = release.fit(table).guarantee_for(["c", "total"])
        assert promise.epsilon == pytest.approx(2 * 2.0)
        promise = release.set_params(marginals="independent").fit(table).guarantee_for(["c", "total"])
        assert promise.epsilon == pytest.approx(2 * 2.0 * (share_of_cells + (1 - share_of_cells) * 2 / 3))

    @each("method", ["auto", "independent"])
    def test_it_does_not_depend_on_the_rows(self, method):
        tables = [TABLE, TABLE.iloc[:5], TABLE.iloc[:0], TABLE.assign(d=TABLE["a"])]
        promises = set()
        for epsilon in (0.1, 30.0):
            release = synthesizer(epsilon, marginals=method)
            promises.add(len({release.fit(table).guarantee_for(["a"]) for table in tables}))
        assert promises == {1}

    def test_a_value_that_leaves_its_record_out_moves_all_counts(self):
        release = synthesizer(2.0, marginals="independent", handle_unknown="ignore")
        promise, loss = assert_replays(release, ("a",), values={"a": [7]})
        assert promise.rho == pytest.approx(2 * release.fit(TABLE).guarantee_.rho)
        # All four marginals change by a record; by their parts, 2 / 4 of this would be stated.
        rho = release.fit(TABLE).guarantee_.rho
        assert loss == pytest.approx(gaussian_epsilon((2 * rho) ** 0.5, 1e-6), rel=1e-6)

    def test_found_values_and_rows_of_persons_state_what_follows_from_the_whole(self):
        found = synthesizer(2.0, domain={name: DOMAIN[name] for name in "acd"}, discover=0.2).fit(TABLE)
        assert found.guarantee_for(["a"]) == found.guarantee_.to("replace_values", ["a"])
        polars = pytest.importorskip("polars")
        large = polars.LazyFrame(TABLE.assign(person=np.arange(N) // 2))
        by_person = synthesizer(2.0, max_rows_per_person=2).fit(large, groups="person")
        assert by_person.guarantee_for(["a"]) == by_person.guarantee_.to("replace_values", ["a"])
        with pytest.raises(ValueError, match="epsilon_for needs a table in memory with groups"):
            synthesizer(max_rows_per_person=2, epsilon_for={"a": 0.1}).fit(large, groups="person")


CAPS = [
    (("a",), 5.0, 1e-6, {"target": "b"}),
    (("a", "d"), 1.0, 1e-6, {}),
    (("c", "b"), 3.0, 1e-6, {"bins": "private"}),
    (("c",), 0.5, 1e-6, {}),
    (("a", "d"), 3.0, 0.0, {"target": "a"}),
    (("b",), 2.0, 0.0, {"bins": "private", "max_rows_per_person": 2}),
    (("a",), 1.0, 1e-6, {"analyses": [["a", "b"]]}),
    (("b", "d"), 2.0, 1e-6, {"marginals": "interactions", "target": "a"}),
    (("a",), 2.0, 0.0, {"marginals": "interactions"}),
]


class TestCap:
    @pytest.mark.parametrize("case", often(CAPS, [CAPS[1], CAPS[4], CAPS[5]]), ids=str)
    def test_a_cap_is_stated_and_holds(self, case):
        columns, cap, delta, more = case
        release = synthesizer(delta=delta, epsilon_for={columns: cap}, **more)
        promise, loss = assert_replays(release, columns)
        assert (promise.epsilon, promise.delta) == (cap, delta)
        assert loss > 0.05 * cap
        without = synthesizer(delta=delta, **more)
        losses = [replay_release(without, *pair).epsilon for pair in neighbours(columns)]
        assert max(losses) > cap

    @each("method", ["independent", "full", [("a", "b"), ("c", "d")]])
    @each("delta", [0.0, 1e-6])
    def test_of_certain_marginals_it_is_attained(self, method, delta):
        domain = DOMAIN | {"c": list(range(40))}
        release = synthesizer(4.0, delta=delta, marginals=method, domain=domain, epsilon_for={"a": 0.5})
        assert_replays(release, ("a",), attained=True)

    def test_what_is_saved_goes_to_other_marginals(self):
        release = synthesizer(4.0, delta=0, marginals="independent", domain=DOMAIN | {"c": list(range(40))})
        scales = release.fit(TABLE).noise_scale_
        capped = release.set_params(epsilon_for={"a": 0.5}).fit(TABLE).noise_scale_
        assert capped["a",] > scales["a",]
        assert capped["b",] < scales["b",]
        # a has .5 / 2 of epsilon, and the three others the rest.
        assert capped["b",] == pytest.approx(np.sqrt(2) / (3.75 / 3), rel=0.1)

    def test_a_cap_that_never_binds_changes_nothing(self):
        release = synthesizer(2.0, marginals=[("a", "b"), ("c", "d")])
        free = release.fit(TABLE)
        scales, known = free.noise_scale_, free.guarantee_for(["a"])
        capped = release.set_params(epsilon_for={"a": 100.0, ("b", "c"): 90.0}).fit(TABLE)
        assert capped.noise_scale_ == scales
        # What is lost without the cap is stated, if it is less.
        promise, _ = assert_replays(release, ("a",), attained=True)
        assert promise == known

    def test_several_caps_hold_together_and_for_parts_of_their_columns(self):
        caps = {("a", "d"): 1.0, ("a", "b"): 2.0, "c": 3.0}
        release = synthesizer(epsilon_for=caps)
        for columns, cap in [("ad", 1.0), ("ab", 2.0), ("c", 3.0), ("b", 2.0)]:
            promise, _ = assert_replays(release, tuple(columns))
            assert promise.epsilon == cap
            assert promise.scope == tuple(columns)

    @pytest.mark.long
    @each("delta", [0.0, 1e-6])
    def test_caps_that_cover_columns_hold_for_them_in_steps(self, delta):
        """The least of all covers: epsilons add up, and so do mu."""
        caps = {"a": 0.3, "d": 0.4, ("a", "b"): 0.6, ("b", "c", "d"): 3.0, ("a", "c"): 0.5}
        release = synthesizer(delta=delta, epsilon_for=caps)
        for columns in ("ad", "abcd"):
            promise, _ = assert_replays(release, tuple(columns))
            assert promise.scope == tuple(columns)
        losses = {}
        for key, epsilon in caps.items():
            losses["".join(key)] = largest_mu(epsilon, delta) if delta else epsilon
        fitted = release.fit(TABLE)
        names = [name for size in range(1, 5) for name in map("".join, itertools.combinations("abcd", size))]
        for columns in names:
            least = np.inf
            for size in range(1, 6):
                for cover in itertools.combinations(losses, size):
                    if set(columns) <= set("".join(cover)):
                        least = min(least, sum(losses[key] for key in cover))
            expected = gaussian_epsilon(least, delta) if delta else least
            promise = fitted.guarantee_for(list(columns))
            assert promise.epsilon == pytest.approx(expected)
            assert promise.delta == delta
            if delta:
                assert promise.rho == pytest.approx(least**2 / 2)

    def test_two_steps_are_not_less_than_what_all_of_it_loses(self):
        fitted = synthesizer(0.5, epsilon_for={"a": 0.9, "d": 0.9}).fit(TABLE)
        assert fitted.guarantee_for(["a", "d"]).epsilon < 1.8

    def test_with_a_share_of_a_budget_it_has_its_delta(self):
        release = synthesizer(Mu(3.0, 1e-5), delta=0, epsilon_for={"a": 1.0})
        promise, _ = assert_replays(release, ("a",))
        assert (promise.epsilon, promise.delta) == (1.0, 1e-5)

    def test_of_a_large_table(self):
        polars = pytest.importorskip("polars")
        release = synthesizer(epsilon_for={"a": 1.0})
        counts = [release.fit(table).marginals_ for table in (TABLE, polars.LazyFrame(TABLE))]
        for one, other in zip(*counts, strict=True):
            np.testing.assert_array_equal(one.counts, other.counts)

    def test_it_is_saved(self, tmp_path):
        fitted = synthesizer(epsilon_for={("a", "d"): 1.0}).fit(TABLE)
        skdp.save(fitted, tmp_path / "model.json")
        assert skdp.load(tmp_path / "model.json").guarantee_for(["d"]) == fitted.guarantee_for(["d"])


def test_a_statement_names_the_caps():
    fitted = synthesizer(delta=0.0, epsilon_for={("a", "d"): 0.25, "c": 3.0}).fit(TABLE)
    statement = privacy_statement(fitted)
    for line in ("a, d alone: epsilon 0.25", "c alone: epsilon 3"):
        line += ", for replacing their values in one record, from what the fit of DPMarginalSynthesizer has learnt"
        for text in (str(statement), statement._repr_html_(), statement.to_json()):
            assert line in " ".join(text.split())
    assert "alone:" not in str(privacy_statement(synthesizer(delta=0.0).fit(TABLE)))


@each("redraw", [None, ["a"]])
def test_a_statement_tells_a_cap_from_the_loss_of_whole_records(redraw):
    """A reader saw an epsilon of 4 in the statement and of .5 in guarantee_for, of one release."""
    ledger = PrivacyLedger(epsilon=9)
    fitted = synthesizer(2.0, delta=0.0, redraw=redraw, epsilon_for={"a": 0.5}, ledger=ledger).fit(TABLE)
    text = str(privacy_statement(fitted))
    assert ledger.spent[0] == fitted.guarantee_.epsilon == 2.0
    assert fitted.guarantee_for(["a"]).epsilon == 0.5
    assert "a alone: epsilon 0.5, for replacing" in text
    assert "DPMarginalSynthesizer, epsilon 2 for adding or removing one record, but said of the same release" in text
    uncapped = synthesizer(2.0, delta=0.0, redraw=redraw).fit(TABLE)
    assert "of the same release" not in str(privacy_statement(uncapped))


# Each row that keeps the relations, of parts from 0 to 3.
PARTS = np.array(list(itertools.product(range(4), repeat=3)))
SUMS = pd.DataFrame(PARTS, columns=["a", "b", "c"])
SUMS["ab"] = SUMS["a"] + SUMS["b"]
SUMS["abc"] = SUMS["ab"] + SUMS["c"]
SUMS["skew"] = SUMS["a"] + 2 * SUMS["b"]
RELATIONS = ["ab = a + b", "abc = ab + c", "skew = a + 2 * b", "c <= abc"]


def of_sums(epsilon=2.0, **parameters):
    domain = {name: Interval(0, 3, bins=3) for name in "abc"} | {
        name: Interval(0, 9, bins=3) for name in ("ab", "abc", "skew")
    }
    return synthesizer(epsilon, domain=domain, relations=RELATIONS, marginals="independent", **parameters)


class TestRelations:
    def test_columns_that_public_ones_determine_are_refused(self, tmp_path):
        """Of every set: where rows that keep the relations, and agree in all others, agree in one of it."""
        fitted = of_sums().fit(SUMS)
        skdp.save(fitted, tmp_path / "model.json")
        loaded = skdp.load(tmp_path / "model.json")
        n_refused = 0
        for size in range(1, 6):
            for columns in itertools.combinations(SUMS.columns, size):
                public = [name for name in SUMS.columns if name not in columns]
                n_values = SUMS.groupby(public)[list(columns)].nunique().max()
                undetermined = (n_values > 1).all()
                for release in (fitted, loaded):
                    if undetermined:
                        assert release.guarantee_for(columns).scope == columns
                        continue
                    n_refused += 1
                    with pytest.raises(ValueError, match="cannot be protected while"):
                        release.guarantee_for(columns)
        assert 40 < n_refused < 120
        assert fitted.guarantee_for(list(SUMS.columns)).epsilon > 0

    @each("columns", ["ab", "a", ("ab", "c")])
    def test_caps_on_them_are_refused_before_a_charge(self, columns):
        ledger = PrivacyLedger(epsilon=10, delta=0.1)
        message = "epsilon_for: column '.*' cannot be protected while .* public: by the relations"
        with pytest.raises(ValueError, match=message):
            of_sums(epsilon_for={columns: 0.1}, ledger=ledger).fit(SUMS)
        assert ledger.spent.epsilon == 0

    def test_a_cap_covers_neighbours_that_keep_the_relations(self):
        columns = ("a", "b", "ab", "abc", "skew")
        release = of_sums(20.0, epsilon_for={columns: 0.5})
        first, second = SUMS.copy(), SUMS.copy()
        second.loc[0, list(columns)] = SUMS.loc[len(SUMS) - 4, list(columns)]
        assert (second["abc"] == second["ab"] + second["c"]).all()
        promise = release.fit(first).guarantee_for(columns)
        assert promise.epsilon == 0.5
        assert replay_release(release, first, second, guarantee=promise).findings == ()


class TestLedger:
    def test_of_capped_columns_the_cap_is_charged_before_anything_is_drawn(self):
        ledger = PrivacyLedger(epsilon=1.5, delta=1e-5, relation="replace_values", columns=["d"])
        release = synthesizer(epsilon_for={("a", "d"): 1.0}, ledger=ledger).fit(TABLE)
        assert ledger.spent == (1.0, 1e-6)
        with pytest.raises(skdp.privacy.BudgetExceeded):
            release.fit(TABLE)

    @each("caps, expected", [({"a": 0.3, "d": 0.4}, 0.7), ({"a": 9.0, "d": 9.0}, 4.0), ({("a", "d"): 9.0}, 4.0)])
    def test_of_columns_with_several_caps_their_sum_is_charged_or_what_follows_from_the_whole(self, caps, expected):
        ledger = PrivacyLedger(epsilon=10, relation="replace_values", columns=["a", "d"])
        synthesizer(2.0, delta=0.0, epsilon_for=caps, ledger=ledger).fit(TABLE)
        assert ledger.spent.epsilon == pytest.approx(expected)

    @each("columns", [["b"], ["a", "b"], ["e"], ["a", "e"]])
    def test_of_other_columns_it_is_what_follows_from_the_whole(self, columns):
        ledger = PrivacyLedger(epsilon=10, delta=0.1, relation="replace_values", columns=columns)
        fitted = synthesizer(2.0, epsilon_for={"a": 1.0}, ledger=ledger).fit(TABLE)
        assert ledger.spent.epsilon == fitted.guarantee_.to("replace_values", columns).epsilon == 4.0

    def test_a_ledger_of_records_is_charged_the_whole(self):
        ledger = PrivacyLedger(epsilon=10, delta=0.1)
        synthesizer(2.0, epsilon_for={"a": 1.0}, ledger=ledger).fit(TABLE)
        assert ledger.spent.epsilon == 2.0


class TestRefusals:
    @each(
        "given, error, message",
        [
            ({"epsilon_for": ["a"]}, TypeError, "epsilon_for must be a mapping of column names, or tuples of them, to"),
            ({"epsilon_for": {"e": 1.0}}, ValueError, "epsilon_for: there is no column 'e'"),
            ({"epsilon_for": {("a", "a"): 1.0}}, ValueError, "a tuple must name at least one column, each once"),
            ({"epsilon_for": {(): 1.0}}, ValueError, "a tuple must name at least one column, each once"),
            ({"epsilon_for": {"a": 0.0}}, ValueError, r"epsilon_for\['a'\] must be a finite number > 0, got 0"),
            ({"epsilon_for": {"a": 1.0}, "handle_unknown": "ignore"}, ValueError, "epsilon_for needs that each record"),
            (
                {"epsilon_for": {"a": 1.0}, "discover": 0.1},
                ValueError,
                "epsilon_for needs columns whose values are",
            ),
            (
                {"epsilon_for": {"a": 1.0}, "structural_zeros": [{"b": "x", "a": [0, 1]}, {"b": "y", "a": [1, 2]}]},
                ValueError,
                "column 'a' cannot be protected while 'b' is public",
            ),
        ],
    )
    def test_before_any_charge(self, given, error, message):
        ledger = PrivacyLedger(epsilon=100, delta=0.1)
        with pytest.raises(error, match=message):
            synthesizer(ledger=ledger, **given).fit(TABLE)
        assert ledger.spent.epsilon == 0

    @each(
        "columns, follows",
        [
            (("e",), "e"),
            (("f", "c"), "f"),
            (("a", "c"), "a"),
            (("a", "c", "e"), None),
            (("c", "e", "f"), None),
            (("a", "c", "e", "f"), None),
            (("b",), None),
        ],
    )
    def test_sums_of_public_columns(self, columns, follows):
        """Where e = a + c and f = a - c: of four columns, two tell the others."""
        table = TABLE.assign(e=TABLE["a"] + TABLE["c"], f=TABLE["a"] - TABLE["c"])
        domain = DOMAIN | {"e": Interval(0, 60, bins=6), "f": Interval(-60, 60, bins=6)}
        ledger = PrivacyLedger(epsilon=100, delta=0.1)
        relations = ["e = a + c", "f = a - c"]
        release = synthesizer(ledger=ledger, domain=domain, relations=relations, epsilon_for={columns: 1.0})
        if follows is None:
            assert release.fit(table).guarantee_for(columns).epsilon == 1.0
            return
        with pytest.raises(
            ValueError, match=f"column '[{follows}c]' cannot be protected while .* are public: by the relations"
        ):
            release.fit(table)
        assert ledger.spent.epsilon == 0

    def test_a_fit_that_failed_leaves_the_one_before(self):
        release = synthesizer(epsilon_for={"a": 1.0}).fit(TABLE)
        promise = release.guarantee_for(["a"])
        with pytest.raises(ValueError, match="there is no column"):
            release.set_params(epsilon_for={"e": 1.0}).fit(TABLE)
        assert release.guarantee_for(["a"]) == promise
        assert release.set_params(epsilon_for=None).fit(TABLE).guarantee_for(["a"]).epsilon > 1.0


# The filter by itself: whoever chooses, and whatever for.

CLIQUES = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]


@given(
    st.lists(st.tuples(st.sampled_from(CLIQUES), st.integers(1, 40), st.booleans(), st.booleans()), max_size=30),
    st.sampled_from(["epsilon", "mu"]),
    st.lists(st.tuples(st.sets(st.integers(0, 2), min_size=1), st.integers(1, 60)), min_size=1, max_size=3),
)
def test_no_sequence_of_choices_exceeds_a_cap(choices, kind, limits):
    amount = Fraction(100)
    caps = Caps([ColumnCap(columns, Fraction(limit)) for columns, limit in limits], amount)
    left, spent = amount, [Fraction(0)] * len(limits)
    for clique, size, is_rationed, of_scores in choices:
        share = Share(kind, min(Fraction(size), left))
        if is_rationed and share.amount and not of_scores:
            (part,) = caps.ration([clique], [Fraction(1)], share)
            share *= min(part, Fraction(1))
        if not share.amount:
            continue
        moved = [(2 if not of_scores or kind == "epsilon" else 4) * share.amount] * len(limits)
        moved = [loss * bool(columns & set(clique)) for loss, (columns, _) in zip(moved, limits, strict=True)]
        allowed = all(done + loss <= limit for done, loss, (_, limit) in zip(spent, moved, limits, strict=True))
        if allowed:
            (caps.spend_scores([clique], share) if of_scores else caps.spend_counts(clique, share))
            spent = [done + loss for done, loss in zip(spent, moved, strict=True)]
            left -= share.amount
        else:
            assert not is_rationed or of_scores  # what was rationed is never refused
            with pytest.raises(RuntimeError, match="more than a cap of columns was asked for; nothing was drawn"):
                (caps.spend_scores([clique], share) if of_scores else caps.spend_counts(clique, share))


def test_nothing_is_drawn_beyond_a_cap():
    table = private_table([[0, 0], [1, 1]], (2, 2), make_budget("gaussian", 1))
    table.caps = Caps([ColumnCap([0], Fraction(1, 2))], Fraction(1))
    table.measure((1,), Fraction(1, 4))
    with pytest.raises(RuntimeError, match="more than a cap"):
        table.measure((0, 1), Fraction(1, 3))
    assert len(table.marginals) == 1
    table.measure((0, 1), Fraction(1, 4))
    scores = table.compare([(0,), (1,)], [np.zeros(2)] * 2, (None, None))
    with pytest.raises(RuntimeError, match="more than a cap"):
        scores.release([(0,), (1,)], Fraction(1, 100))


# A whole adaptive release, by its exact law. Counts of marginals of two records have noise
# of ratio 2**units, cut at the ends; which marginal is next, and its units, follow from
# all noisy counts before. The unit of losses is log(2).

RECORDS = list(itertools.product((0, 1), repeat=2))
MARGINALS = [(0,), (1,), (0, 1)]


@cache
def noisy_count(count, units):
    share = Fraction(1, 2**units)
    law = []
    for output in range(3):
        scale = 1 / (1 + share) if output in (0, 2) else (1 - share) / (1 + share)
        law.append(scale * share ** abs(output - count))
    return law


@cache
def noisy_marginal(table, clique, units):
    """Return the probability of each list of noisy counts."""
    law = {(): Fraction(1)}
    for cell in itertools.product((0, 1), repeat=len(clique)):
        count = sum(tuple(record[column] for column in clique) == cell for record in table)
        further = {}
        for before, chance in law.items():
            for output, probability in enumerate(noisy_count(count, units)):
                further[*before, output] = chance * probability
        law = further
    return law


def laws(tables, policy, caps_of):
    """Return the exact law of an adaptive release of each table; what is refused ends it."""
    laws_of_tables = []
    for table in tables:
        law, open_histories = {}, {(): Fraction(1)}
        while open_histories:
            further = {}
            for history, chance in open_histories.items():
                caps = caps_of()
                for clique, units, _ in history:
                    caps.spend_counts(clique, Share("epsilon", Fraction(units)))
                clique, units = policy(history)
                try:
                    caps.spend_counts(clique, Share("epsilon", Fraction(units)))
                except RuntimeError:
                    law[history] = chance
                    continue
                for output, probability in noisy_marginal(table, clique, units).items():
                    further[*history, (clique, units, output)] = chance * probability
            open_histories = {}
            for history, chance in further.items():
                if len(history) == 2:
                    law[history] = chance
                else:
                    open_histories[history] = chance
        laws_of_tables.append(law)
    return laws_of_tables


@each("seed", range(8))
def test_the_exact_law_of_an_adaptive_release_stays_within_its_cap(seed):
    """A policy that spends as much as it can, by chance: the largest ratio is at most 2**cap, and attained by some."""
    limit = 4
    choices = random.Random(seed)

    @cache
    def policy(history):
        return choices.choice(MARGINALS), choices.choice([1, 2])

    def caps_of():
        return Caps([ColumnCap([0], Fraction(limit))], Fraction(100))

    pairs = []
    for public in itertools.product((0, 1), repeat=2):
        first = ((0, public[0]), (1, public[1]))
        pairs.append((first, ((1, public[0]), (1, public[1]))))
    largest = Fraction(0)
    for pair in pairs:
        law, other = laws(pair, policy, caps_of)
        assert law.keys() == other.keys()
        for history in law:
            largest = max(largest, law[history] / other[history], other[history] / law[history])
    assert largest <= 2**limit
    if seed == 0:
        assert largest == 2**limit


class TestWhatIsLeft:
    """What parts of a release leave, others get: no promise is smaller than what these lose."""

    @each("delta", [0.0, 1e-6])
    @each("marginals", ["independent", [("a", "b"), ("d",), ("c",)]])
    @pytest.mark.long
    def test_fine_cells_of_some_columns_leave_the_rest_to_marginals(self, marginals, delta):
        table = TABLE.assign(c=np.exp(rng.normal(2, 1, N)))
        domain = DOMAIN | {"c": Interval(edges=[0.0, 5.0, 20.0, 1e4], real=True)}
        release = synthesizer(2.0, delta=delta, marginals=marginals, domain=domain)
        for columns in [("a",), ("b",), ("c",)]:
            values = OTHERS | {"c": [0.5, 9000.0]}
            assert_replays(release, columns, table=table, values=values)

    @pytest.mark.long
    @each("delta", [0.0, 1e-6])
    @each("caps", [{"a": 0.1}, {"a": 0.1, "b": 50.0, "c": 50.0, "d": 50.0}])
    @each("marginals", ["auto", "independent", [("a", "b"), ("c", "d")], [("a",), ("b", "c"), ("d",)]])
    def test_what_caps_save_is_lost_for_others(self, marginals, caps, delta):
        release = synthesizer(4.0, delta=delta, marginals=marginals, epsilon_for=caps)
        for columns in [("b",), ("c", "d"), ("a",)]:
            assert_replays(release, columns)
