from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.privacy import privacy_statement
from tests.conftest import counted_draws

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

    def test_an_undeclared_value_in_a_kept_column(self):
        strange = TABLE.assign(d=[9, *TABLE["d"][1:]])
        with pytest.raises(ValueError, match="column 'd'"):
            fitted(redraw=["b"]).transform(strange)
        for policy in ("ignore", {"d": 0}):
            made = fitted(redraw=["b"], handle_unknown=policy).transform(strange)
            pd.testing.assert_series_equal(made["d"], strange["d"])
        # A policy for a redrawn column is of no use here, and no mistake.
        fitted(redraw=["b"], handle_unknown={"b": "x"}).transform(TABLE)


class TestWholeRows:
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
