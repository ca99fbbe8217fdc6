from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import OneHotEncoder

from skdp import Domain, DPOneHotEncoder, Interval, PrivacyLedger
from skdp.privacy import Rho

DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
rng = np.random.default_rng(0)
WORDS = pd.DataFrame({"job": rng.choice(DECLARED["job"], 400), "sex": rng.choice(DECLARED["sex"], 400)})
RARE = pd.DataFrame({"job": [*WORDS["job"], "pilot", None, "diver"] + [None] * 90, "n": [1.0] * 400 + [np.inf] * 93})


def encoder(epsilon=1.0, **parameters):
    return DPOneHotEncoder(epsilon, **{"categories": DECLARED, "random_state": 0} | parameters)


def finder(epsilon=1.0, **parameters):
    given = {"delta": 1e-6, "categories": "private"}
    return encoder(epsilon, **given | parameters)


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


class TestPrivate:
    def test_frequent_values_are_found_and_others_share_a_column(self):
        fitted = finder(categories={"job": "private", "n": "private"}).fit(RARE)
        assert [one.tolist() for one in fitted.categories_] == [["clerk", "nurse", "smith", None], [1]]
        names = ["job_clerk", "job_nurse", "job_smith", "job_None", "job_infrequent_sklearn", "n_1"]
        assert fitted.get_feature_names_out().tolist() == [*names, "n_infrequent_sklearn"]
        made = fitted.transform(RARE)
        assert made.to_numpy().sum(axis=0)[-3:].tolist() == [2, 400, 93]
        assert (made.to_numpy().sum(axis=1) == 2).all()
        back = fitted.inverse_transform(made)
        assert back[400].tolist() == ["infrequent_sklearn", "infrequent_sklearn"]
        assert back[401].tolist() == [None, "infrequent_sklearn"]
        with pytest.raises(ValueError, match="outside the declared or found categories"):
            finder(handle_unknown="error").fit_transform(RARE)
        ignored = finder(handle_unknown="ignore", drop="first").fit(RARE)
        assert ignored.get_feature_names_out().tolist() == ["job_nurse", "job_smith", "job_None"]
        with pytest.warns(UserWarning, match="Found unknown categories"):  # of scikit-learn
            assert ignored.transform(RARE).shape == (493, 3)

    def test_by_default_unknown_is_an_error_where_categories_are_declared(self):
        fitted = finder(categories=DECLARED | {"job": "private"}).fit(WORDS)
        odd = WORDS.assign(job="pilot")
        assert fitted.transform(odd)["job_infrequent_sklearn"].eq(1).all()
        with pytest.raises(ValueError, match="column 'sex' holds a value"):
            fitted.transform(odd.assign(sex="x"))
        zeros = np.zeros((1, 6))
        assert fitted.set_params(handle_unknown="infrequent_if_exist").inverse_transform(zeros).tolist() == [[None] * 2]
        with pytest.raises(ValueError, match="can not be inverted"):
            fitted.set_params(handle_unknown="auto").inverse_transform(zeros)

    def test_some_columns_are_declared(self):
        for declared in ({"job": "private", "sex": ["f", "m", "x"]}, ["private", ["f", "m", "x"]]):
            fitted = finder(categories=declared).fit(WORDS)
            assert [len(one) for one in fitted.categories_] == [3, 3]
            assert fitted.infrequent_.tolist() == [True, False]
        enum = pl.DataFrame({"job": ["a", "b"] * 9, "sex": ["f"] * 18}).with_columns(
            pl.col("job").cast(pl.Enum(["a", "b", "c"]))
        )
        fitted = finder(categories={"sex": "private"}).fit(enum)
        assert fitted.categories_[0].tolist() == ["a", "b", "c"]
        assert fitted.infrequent_.tolist() == [False, True]

    @pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda table: pd.DataFrame(table).to_numpy()])
    def test_a_table_in_which_nothing_is_found(self, make):
        table = make({"x0": [f"{row}" for row in range(5)], "x1": [f"{row}" for row in range(5)]})
        fitted = finder().fit(table)
        assert np.asarray(fitted.transform(table)).tolist() == [[1, 1]] * 5
        assert fitted.get_feature_names_out().tolist() == ["x0_infrequent_sklearn", "x1_infrequent_sklearn"]
        nothing = finder(handle_unknown="ignore").fit(table)
        assert nothing.get_feature_names_out().tolist() == []
        assert nothing.transform(table).shape[1] == 0
        one = finder(categories={"x0": "private", "x1": ["0"]}, handle_unknown="ignore").fit(table)
        assert one.inverse_transform(np.array([[1.0], [0.0]])).tolist() == [[None, "0"], [None, None]]

    def test_persons_with_several_rows(self):
        visits = pd.DataFrame({"shop": [f"shop {row}" if row % 4 else "market" for row in range(240)]})
        who = np.repeat(np.arange(60), 4)
        assert finder(max_rows_per_person=4).fit(visits, groups=who).categories_[0].tolist() == ["market"]
        assert "Gaussian" in finder(max_rows_per_person=4).fit(visits, groups=who).guarantee_.mechanism
        assert "Laplace" in finder(max_rows_per_person=4).fit(visits).guarantee_.mechanism
        limited = finder(max_rows_per_person=1).fit(visits, groups=np.zeros(240, int))
        assert limited.categories_[0].size == 0


COLLIDING = {
    "two columns": (pd.DataFrame({"a": ["b_c", "x"] * 300, "a_b": ["c", "c_"] * 300}), 6),
    "missing": (pd.DataFrame({"a": pd.Series(["None", None, "None_"] * 200, dtype=object)}), 4),
}


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("output", ["pandas", "polars"])
@pytest.mark.parametrize("case", COLLIDING)
def test_names_that_collide_are_made_distinct(case, output, declared):
    people, n_columns = COLLIDING[case]
    found = finder(20.0).set_output(transform=output)
    if declared:
        found.set_params(categories={name: list(dict.fromkeys(people[name])) for name in people})
        n_columns -= people.shape[1]  # of values that are not found
    encoded = found.fit(people).transform(people)
    names = list(found.get_feature_names_out())
    assert list(encoded.columns) == names
    assert len(set(names)) == len(names) == n_columns
    assert (encoded.to_numpy().sum(axis=1) == people.shape[1]).all()
    assert found.inverse_transform(encoded).tolist() == people.astype(object).to_numpy().tolist()
