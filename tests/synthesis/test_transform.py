from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chisquare

from skdp import DPMarginalSynthesizer, Interval
from skdp.privacy import privacy_statement
from tests.conftest import counted_draws, few_kinds

FALSE_ALARM = 1e-6
N = 3000
rng = np.random.default_rng(0)
A = rng.integers(0, 3, N)
TABLE = pd.DataFrame(
    {
        "a": A,
        "b": np.array(["x", "y"])[(rng.random(N) < 0.2 + 0.3 * A).astype(int)],
        "wage": np.round(rng.uniform(0, 40, N) + 20 * A, 3),
        "d": rng.integers(0, 2, N),
    },
    index=[f"row {place}" for place in range(N)],
)
LABEL = pd.Series(np.where(rng.random(N) < 0.1 + 0.4 * (TABLE["b"] == "y"), "high", "low"), TABLE.index, name="label")
DOMAIN = {"a": [0, 1, 2], "b": ["x", "y"], "wage": Interval(edges=[0, 20, 40, 60, 80.5]), "d": [0, 1]}
CLIQUES = [("a", "b"), ("a", "wage"), ("b", "d")]


def fitted(X=TABLE, y=None, **parameters):
    given = {"domain": DOMAIN if y is None else DOMAIN | {"label": ["low", "high"]}, "random_state": 0,
             "marginals": CLIQUES if y is None else [*CLIQUES, ("b", "label"), ("d", "label")]}  # fmt: skip
    return DPMarginalSynthesizer(10, **given | parameters).fit(X, y)


class TestRedraw:
    @pytest.mark.parametrize("y", [None, LABEL])
    @pytest.mark.parametrize("drawn", [["b"], ["b", "wage"], ["a", "b", "wage", "d"]])
    def test_the_other_columns_are_the_same_to_the_bit(self, y, drawn):
        synthesizer = fitted(y=y, redraw=drawn)
        with counted_draws() as coins:
            made = synthesizer.transform(TABLE)
        assert coins[0] == 0
        kept = [name for name in TABLE if name not in drawn]
        pd.testing.assert_frame_equal(made[kept], TABLE[kept])
        pd.testing.assert_index_equal(made.index, TABLE.index)
        assert list(made) == list(TABLE)
        assert made.dtypes.equals(TABLE.dtypes)
        assert all((made[name] != TABLE[name]).any() for name in drawn)
        assert not made.equals(synthesizer.transform(TABLE))  # each call draws anew

    @pytest.mark.parametrize("y", [None, LABEL])
    def test_they_are_drawn_from_the_law_given_the_others(self, y):
        synthesizer = fitted(y=y, redraw=["b"])
        places = list(range(5 if y is not None else 4))
        whole = synthesizer.model_.marginal(places)
        known = whole.sum(axis=4) if y is not None else whole  # the target of these rows is not known
        frame = pd.concat([TABLE.iloc[:40]] * 500, ignore_index=True)
        made = synthesizer.transform(frame)
        bins = (TABLE["wage"].iloc[:40] // 20).astype(int)
        seen, expected = np.zeros((3, 4, 2, 2)), np.zeros((3, 4, 2, 2))
        for place in range(40):
            cell = TABLE["a"].iloc[place], bins.iloc[place], TABLE["d"].iloc[place]
            law = known[cell[0], :, cell[1], cell[2]]
            values = made["b"].iloc[place::40]
            seen[cell] += [(values == "x").sum(), (values == "y").sum()]
            expected[cell] += 500 * law / law.sum()
        tests = [
            (one, other)
            for one, other in zip(seen.reshape(-1, 2), expected.reshape(-1, 2), strict=True)
            if other.min() > 5
        ]
        assert len(tests) > 8
        assert min(chisquare(one, other).pvalue for one, other in tests) > FALSE_ALARM / len(tests)
        marginal = known.sum(axis=(0, 2, 3))
        assert any(chisquare(one, one.sum() * marginal).pvalue < FALSE_ALARM for one, _ in tests)  # not the margin

    def test_what_stands_in_a_redrawn_column_is_not_read(self):
        synthesizer = fitted(redraw=["b"])
        other = TABLE.assign(b="never declared")
        pd.testing.assert_frame_equal(fitted(redraw=["b"]).transform(other), synthesizer.transform(TABLE))

    def test_an_undeclared_value_in_a_kept_column(self):
        strange = TABLE.assign(d=[9, *TABLE["d"][1:]])
        with pytest.raises(ValueError, match="column 'd'"):
            fitted(redraw=["b"]).transform(strange)
        for policy in ("ignore", {"d": 0}):
            made = fitted(redraw=["b"], handle_unknown=policy).transform(strange)
            pd.testing.assert_series_equal(made["d"], strange["d"])
        # A policy for a redrawn column is of no use here, and no mistake.
        fitted(redraw=["b"], handle_unknown={"b": "x"}).transform(TABLE)

    def test_a_row_that_cannot_occur(self):
        synthesizer = fitted(redraw=["wage"], structural_zeros=[{"a": 0, "b": "x"}])
        made = synthesizer.transform(TABLE)
        assert made["wage"].between(0, 80.5).all()

    @pytest.mark.parametrize("n", [0, 1])
    def test_few_rows(self, n):
        for redraw in (None, ["b"]):
            made = fitted(redraw=redraw).transform(TABLE.iloc[:n])
            assert made.shape == (n, 4)
            assert made.dtypes.equals(TABLE.dtypes)


class TestWholeRows:
    def test_as_many_synthetic_rows_of_the_features(self):
        made = fitted(y=LABEL).transform(TABLE)
        assert list(made) == list(TABLE)
        assert len(made) == N
        assert made.dtypes.equals(TABLE.dtypes)
        # None is a copy: the wages are drawn anew.
        assert not set(made["wage"]) & set(TABLE["wage"])

    @pytest.mark.parametrize("library", ["default", "pandas"])
    def test_no_labels_of_the_rows(self, library):
        """They were those of X: names of persons, say."""
        for made in (
            fitted().set_output(transform=library).transform(TABLE),
            fitted().set_output(transform=library).fit_transform(TABLE),
        ):
            pd.testing.assert_index_equal(made.index, pd.RangeIndex(N))

    def test_the_promise_is_for_replacing_a_record(self):
        """A table with a row more gives a row more, which distinguishes these neighbours with certainty."""
        made = [len(fitted(TABLE.iloc[:n]).transform(TABLE.iloc[:n])) for n in (500, 501)]
        assert made == [500, 501]
        synthesizer = fitted()
        total = privacy_statement(synthesizer).total
        assert (total.epsilon, total.relation) == (20, "replace")
        assert (synthesizer.guarantee_.epsilon, synthesizer.guarantee_.relation) == (10, "add_remove")
        assert total.epsilon == synthesizer.guarantee_.to("replace").epsilon

    def test_they_have_nothing_to_do_with_the_rows(self):
        first = fitted().transform(TABLE.iloc[:100])
        second = fitted().transform(TABLE.iloc[100:200])
        np.testing.assert_array_equal(first.to_numpy(), second.to_numpy())

    def test_rows_protected(self):
        assert fitted().protects_rows is True
        assert fitted(redraw=["b"]).protects_rows != True  # noqa: E712

    @pytest.mark.parametrize("redraw", [None, ["b"]])
    def test_other_columns_are_refused(self, redraw):
        synthesizer = fitted(redraw=redraw)
        for wrong in (TABLE[["a", "b"]], TABLE.rename(columns={"a": "z"}), TABLE[["b", "a", "wage", "d"]]):
            with pytest.raises(ValueError, match=r"(?i)feature|columns"):
                synthesizer.transform(wrong)


class TestOutput:
    @pytest.mark.parametrize(("library", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
    @pytest.mark.parametrize("redraw", [None, ["b"]])
    def test_set_output(self, library, kind, redraw):
        for X in (TABLE.reset_index(drop=True), pl.DataFrame(TABLE.to_dict("list"))):
            made = fitted(X, redraw=redraw).set_output(transform=library).transform(X)
            assert isinstance(made, kind)
            assert list(made.columns) == list(TABLE)
        sampled = fitted().set_output(transform=library).sample(3)
        assert isinstance(sampled, pd.DataFrame)  # `sample` is not `transform`: the kind of `fit`

    def test_names(self):
        synthesizer = fitted(y=LABEL)
        assert synthesizer.get_feature_names_out().tolist() == list(TABLE)
        assert synthesizer.get_feature_names_out(list(TABLE)).tolist() == list(TABLE)
        with pytest.raises(ValueError, match="input_features"):
            synthesizer.get_feature_names_out(["a"])

    def test_an_array(self):
        X = TABLE[["a", "d"]].to_numpy()
        made = fitted(X, domain=[[0, 1, 2], [0, 1]], marginals="tree", redraw=["x1"]).transform(X)
        np.testing.assert_array_equal(made[:, 0], X[:, 0])
        assert (made[:, 1] != X[:, 1]).any()


@few_kinds
def test_every_kind_of_frame_gives_the_same_rows(make_frame, values_of):
    data = {"a": TABLE["a"].tolist(), "b": TABLE["b"].tolist(), "d": TABLE["d"].tolist()}
    frame = make_frame(data)
    domain = {name: DOMAIN[name] for name in data}
    for redraw in (None, ["b"]):
        made = fitted(frame, domain=domain, marginals=[("a", "b")], redraw=redraw).transform(frame)
        wanted = fitted(pd.DataFrame(data), domain=domain, marginals=[("a", "b")], redraw=redraw)
        wanted = wanted.transform(pd.DataFrame(data))
        for name in data:
            assert values_of(made, name) == wanted[name].tolist()


def test_redrawn_pairs_depend_on_each_other():
    # Drawn one by one, a and b would each be right and their joint law wrong.
    synthesizer = fitted(redraw=["a", "b"])
    made = synthesizer.transform(TABLE)
    shares = synthesizer.model_.marginal([0, 1])
    seen = np.array([[((made["a"] == a) & (made["b"] == b)).mean() for b in "xy"] for a in range(3)])
    # Five standard deviations of a cell of 3,000 rows, and the kept columns' own fluctuation.
    assert np.abs(seen - shares).max() < 5 * np.sqrt(0.25 / N)
    apart = np.outer(seen.sum(axis=1), seen.sum(axis=0))
    assert np.abs(seen - apart).max() > 0.03
    assert list(itertools.chain(made)) == list(TABLE)
