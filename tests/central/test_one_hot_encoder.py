from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import OneHotEncoder

from skdp import Domain, DPOneHotEncoder, Interval, PrivacyLedger, discover_domain
from skdp.privacy import Rho

DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
rng = np.random.default_rng(0)
WORDS = pd.DataFrame({"job": rng.choice(DECLARED["job"], 400), "sex": rng.choice(DECLARED["sex"], 400)})


def encoder(epsilon=1.0, **parameters):
    return DPOneHotEncoder(epsilon, **{"categories": DECLARED, "random_state": 0} | parameters)


class TestDeclared:
    @pytest.mark.parametrize("drop", [None, "first", "if_binary", ["smith", "m"]])
    @pytest.mark.parametrize("handle_unknown", ["error", "ignore"])
    def test_it_is_the_encoder_of_scikit_learn(self, drop, handle_unknown):
        theirs = OneHotEncoder(
            categories=list(DECLARED.values()), drop=drop, handle_unknown=handle_unknown, sparse_output=False
        ).fit(WORDS)
        ours = encoder(drop=drop, handle_unknown=handle_unknown).fit(WORDS)
        names = ours.get_feature_names_out()
        assert names.tolist() == theirs.get_feature_names_out().tolist()
        made = ours.transform(WORDS)
        np.testing.assert_array_equal(made, theirs.transform(WORDS))
        assert made.columns.tolist() == names.tolist()
        assert ours.inverse_transform(made).tolist() == WORDS.to_numpy(object).tolist()
        assert ours.transform(WORDS[:0]).shape == (0, len(names))

    def test_nothing_is_read_or_charged(self):
        ledger = PrivacyLedger(epsilon=1.0)
        odd = WORDS.assign(job="pilot")
        fitted = encoder(ledger=ledger).fit(odd)
        assert (fitted.guarantee_.epsilon, fitted.guarantee_.delta, ledger.spent) == (0, 0, (0, 0))
        assert [one.tolist() for one in fitted.categories_] == list(DECLARED.values())
        with pytest.raises(ValueError, match="column 'job' holds a value, or a NaN or inf, outside"):
            fitted.transform(odd)
        assert encoder(handle_unknown="ignore").fit(odd).transform(odd).iloc[:, :3].to_numpy().sum() == 0
        assert encoder(Rho(0.1, delta=1e-6)).fit(pl.from_pandas(odd).lazy()).guarantee_.epsilon == 0

    def test_domains_bins_and_dtypes_declare(self):
        ages = pd.DataFrame(
            {"age": [3.0, 50.0, np.nan], "job": pd.Categorical(["b", "a", None], ["b", "a"], ordered=True)}
        )
        declared = Domain({"age": Interval(0, 100, bins=2), "job": ["b", None, "a"]})
        fitted = encoder(categories=declared, handle_unknown="ignore").fit(ages)
        assert fitted.get_feature_names_out().tolist()[:3] == ["age_[0, 50)", "age_[50, 100]", "job_b"]
        assert fitted.transform(ages).to_numpy().tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 1, 0]]
        by_dtype = encoder(categories=None, handle_unknown="ignore").fit(ages[["job"]])
        assert by_dtype.transform(ages[["job"]]).to_numpy().tolist() == [[1, 0], [0, 1], [0, 0]]
        assert by_dtype.inverse_transform([[0.0, 1.0], [0.0, 0.0]]).tolist() == [["a"], [None]]


COLLIDING = {
    "two columns": (pd.DataFrame({"a": ["b_c", "x"] * 300, "a_b": ["c", "c_"] * 300}), 4),
    "missing": (pd.DataFrame({"a": pd.Series(["None", None, "None_"] * 200, dtype=object)}), 3),
}


@pytest.mark.parametrize("output", ["pandas", "polars"])
@pytest.mark.parametrize("case", COLLIDING)
def test_names_that_collide_are_made_distinct(case, output):
    people, n_columns = COLLIDING[case]
    declared = {name: list(dict.fromkeys(people[name])) for name in people}
    found = encoder(categories=declared).set_output(transform=output)
    encoded = found.fit(people).transform(people)
    names = list(found.get_feature_names_out())
    assert list(encoded.columns) == names
    assert len(set(names)) == len(names) == n_columns
    assert (encoded.to_numpy().sum(axis=1) == people.shape[1]).all()
    assert found.inverse_transform(encoded).tolist() == people.astype(object).to_numpy().tolist()


def test_values_that_a_found_domain_leaves_out():
    rare = pd.concat([WORDS, WORDS[:2].assign(job=["pilot", None])], ignore_index=True)
    domain = discover_domain(rare, 5.0, 1e-6, random_state=0)
    made = encoder(categories=domain, handle_unknown="ignore").fit(rare)
    assert [one.tolist() for one in made.categories_] == list(DECLARED.values())
    assert made.transform(rare).iloc[-2:, :3].to_numpy().sum() == 0
