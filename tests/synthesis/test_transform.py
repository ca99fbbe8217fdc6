from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.privacy import privacy_statement

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
DOMAIN = {"a": [0, 1, 2], "b": ["x", "y"], "wage": Interval(edges=[0, 20, 40, 60, 80.5]), "d": [0, 1]}
CLIQUES = [("a", "b"), ("a", "wage"), ("b", "d")]


def fitted(X=TABLE, y=None, **parameters):
    given = {"domain": DOMAIN if y is None else DOMAIN | {"label": ["low", "high"]}, "random_state": 0,
             "marginals": CLIQUES if y is None else [*CLIQUES, ("b", "label"), ("d", "label")]}  # fmt: skip
    return DPMarginalSynthesizer(10, **given | parameters).fit(X, y)


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
