"""A warning where public columns give protected values away, by noisy counts that were measured anyway."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.privacy import WeakGuaranteeWarning
from tests.conftest import each

GROUPS = [*"abcd"]


def rows(n_rows=20_000, n_shuffled=0, seed=0):
    """A protected column, a twin of it but for some rows, and a public column."""
    rng = np.random.default_rng(seed)
    group = rng.choice(GROUPS, n_rows, p=[0.5, 0.3, 0.15, 0.05])
    twin = group.copy()
    twin[:n_shuffled] = rng.permutation(twin[:n_shuffled])
    place = np.where(rng.random(n_rows) < 0.5, group, rng.choice(GROUPS, n_rows))
    return pd.DataFrame({"group": group, "twin": np.char.upper(twin), "place": place})


def fit(table, epsilon=1.0, delta=1e-6, **parameters):
    given = {"domain": {"group": GROUPS}, "protect": ["group"], "max_iter": 5, "random_state": 0}
    return DPMarginalSynthesizer(epsilon, delta=delta, **given | parameters).fit(table)


def warned(*arguments, **parameters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*arguments, **parameters)
    return [str(each.message) for each in caught if each.category is WeakGuaranteeWarning]


class TestWarning:
    @each("epsilon delta", [(1.0, 1e-6), (4.0, 1e-6), (1.0, 0.0)])
    def test_of_a_twin(self, epsilon, delta):
        (text,) = warned(rows(), epsilon, delta)
        assert "'group' from 'twin': " not in text
        assert "'group' from 'twin'. " in text
        assert "place" not in text

    def test_of_two_public_columns_together(self):
        table = rows()
        table["first"] = np.isin(table["group"], ["a", "b"])
        table["second"] = np.isin(table["group"], ["a", "c"])
        marginals = [("group", "first", "second")]
        (text,) = warned(table.drop(columns="twin"), marginals=marginals)
        assert "'group' from 'first' and 'second'. " in text

    def test_of_one_of_two_protected_columns(self):
        table = rows()
        table["other"] = np.random.default_rng(1).choice(["x", "y"], len(table))
        (text,) = warned(
            table,
            domain={"group": GROUPS, "other": ["x", "y"]},
            protect=["group", "other"],
            marginals=[("group", "other", "twin")],
        )
        assert "'group' from 'twin'. " in text
        assert "'other'" not in text

    @each("n_shuffled is_warned", [(0, True), (1_000, True), (3_000, False), (20_000, False)])
    def test_follows_how_much_of_a_column_is_told(self, n_shuffled, is_warned):
        assert bool(warned(rows(n_shuffled=n_shuffled), 10.0)) is is_warned

    @each("n_rows n_values epsilon", [(20_000, 4, 0.01), (300, 4, 0.5), (300, 60, 0.5), (2_000, 60, 0.2)])
    def test_none_where_noise_prevails(self, n_rows, n_values, epsilon):
        """A public column that has nothing to do with the protected one."""
        for seed in range(10):
            table = rows(n_rows, seed=seed)[["group"]]
            table["public"] = np.random.default_rng(seed).integers(0, n_values, n_rows).astype(str)
            assert not warned(table, epsilon, marginals=[("group", "public")], random_state=seed)

    def test_none_by_luck(self):
        """Of a column that tells a little less than is warned of, counts have a larger tau half of the time."""
        for seed in range(15):
            table = rows(n_shuffled=1_100, seed=seed)[["group", "twin"]]
            assert not warned(table, 0.2, marginals=[("group", "twin")], random_state=seed)

    def test_none_the_other_way_round(self):
        """That somebody is young is public, and the age is not."""
        rng = np.random.default_rng(0)
        ages = np.append(rng.integers(0, 50, 10_000), rng.integers(150, 200, 10_000))
        table = pd.DataFrame({"age": ages, "is_young": ages < 100})
        declared = {"domain": {"age": Interval(edges=range(201))}, "protect": ["age"]}
        assert not warned(table, **declared)

    def test_is_given_once_and_after_the_charge(self):
        with pytest.warns(WeakGuaranteeWarning, match="protect them too, or drop them"):
            synthesizer = fit(rows())
        assert synthesizer.guarantee_.epsilon == 1
