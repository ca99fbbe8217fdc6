"""Whole rows of a fitted synthesizer: how many there are, and what is promised of them."""

import numpy as np
import pandas as pd

from skdp import DPMarginalSynthesizer, Interval
from skdp.privacy import privacy_statement

N = 501
rng = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"a": rng.integers(0, 3, N), "wage": np.round(rng.uniform(0, 80, N), 3)},
    index=[f"row {place}" for place in range(N)],
)


def fitted(X=TABLE):
    domain = {"a": [0, 1, 2], "wage": Interval(0, 80.5, bins=4, real=True)}
    return DPMarginalSynthesizer(10, domain=domain, random_state=0).fit(X)


def test_no_labels_of_the_rows():
    """They were those of X: names of persons, say."""
    for made in (fitted().transform(TABLE), fitted().set_output(transform="pandas").fit_transform(TABLE)):
        pd.testing.assert_index_equal(made.index, pd.RangeIndex(N))


def test_the_promise_is_for_replacing_a_record():
    """A table with a row more gives a row more, which distinguishes these neighbours with certainty."""
    assert [len(fitted(TABLE.iloc[:n]).transform(TABLE.iloc[:n])) for n in (500, 501)] == [500, 501]
    synthesizer = fitted()
    total = privacy_statement(synthesizer).total
    assert (total.epsilon, total.relation) == (20, "replace")
    assert (synthesizer.guarantee_.epsilon, synthesizer.guarantee_.relation) == (10, "add_remove")
    assert total.epsilon == synthesizer.guarantee_.to("replace").epsilon
