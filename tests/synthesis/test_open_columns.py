"""Columns whose values are found privately: what stands for the values that are not found, and what is reported."""

from __future__ import annotations

import io
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import Domain, DPMarginalSynthesizer, PrivacyLedger
from skdp.privacy import largest_mu
from skdp.randomness import SeededSource, watched
from skdp.synthesis.model import MOST_CELLS
from skdp.synthesis.selection import STRATEGIES, Plan, largest_sizes
from skdp.synthesis.tables import find_values
from tests.conftest import without_weak
from tests.synthesis.budgets import recorded_draws

JOBS = ["clerk"] * 500 + ["other"] * 300 + [None] * 200 + [f"rare {row}" for row in range(100)]
TABLE = pd.DataFrame({"job": pd.Series(JOBS, dtype=object), "sex": ["F", "M"] * 550})
DOMAIN = {"sex": ["F", "M"]}
UNDISCOVERED = "<not discovered>"


def fitted(table=TABLE, **parameters):
    given = {"epsilon": 20.0, "delta": 1e-6, "domain": DOMAIN, "discover": 0.3, "random_state": 0}
    return DPMarginalSynthesizer(**given | parameters).fit(table)


def test_what_is_not_found_has_a_label_of_its_own():
    synthesizer = fitted()
    assert synthesizer.domain_["job"].values == ("clerk", "other", None, UNDISCOVERED)
    counts = synthesizer.marginal(["job"])["count"]
    np.testing.assert_allclose(counts, [500, 300, 200, 100], atol=10)


@pytest.mark.parametrize("kind", [pl.from_pandas, lambda table: table.to_numpy(object)])
def test_rows_beyond_the_limit_of_a_person_are_not_counted(kind):
    """All rows are of one person, of whom one row is kept: nothing is found."""
    domain = None if kind(TABLE[:0]).__class__ is np.ndarray else Domain(DOMAIN)
    given = {"delta": 1e-6, "domain": domain, "discover": 0.3, "max_rows_per_person": 1, "random_state": 0}
    with pytest.warns(UserWarning, match="no value"):
        synthesizer = DPMarginalSynthesizer(20.0, **given).fit(kind(TABLE), groups=np.zeros(len(TABLE), int))
    assert all("clerk" not in synthesizer.domain_[name].values for name in synthesizer.domain_.columns)


def test_the_label_is_never_found_in_the_data():
    """It does not depend on the data; whoever has it as a value is among those that are not found."""
    table = pd.DataFrame({"job": ["clerk"] * 500 + [UNDISCOVERED] * 500})
    with pytest.warns(UserWarning, match="50 %"):
        synthesizer = fitted(table, domain=None)
    assert synthesizer.domain_["job"].values == ("clerk", UNDISCOVERED)
    assert synthesizer.undiscovered_["job"] == pytest.approx(500, abs=20)


@pytest.mark.parametrize("marginals", ["auto", "independent", "full"])
def test_counts_get_what_finding_values_leaves(marginals):
    """All counts and scores together: the mu of 7/10 of epsilon and of delta, from the recorded draws."""
    with recorded_draws() as draws:
        fitted(epsilon=1.0, marginals=marginals)
    spent = sum(draw.loss(1) for draw in draws if draw.purpose != "values")
    rest = 1 - Fraction(0.3)
    assert spent == Fraction(largest_mu(rest, Fraction(1e-6) * rest)) ** 2


def test_the_number_of_records_of_values_that_were_not_found_is_reported():
    synthesizer = fitted()
    assert synthesizer.undiscovered_ == {"job": pytest.approx(100, abs=10)}
    # From noisy counts: it is what the model says of the label.
    assert synthesizer.undiscovered_["job"] == pytest.approx(synthesizer.count({"job": [UNDISCOVERED]}))
    file = io.BytesIO()
    synthesizer.save(file)
    assert DPMarginalSynthesizer.load(file).undiscovered_ == pytest.approx(synthesizer.undiscovered_)
    assert fitted(TABLE[["sex"]], discover=None).undiscovered_ == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"rare {row}" for row in range(1000)], r"(?s)'job': no value.*missing"),
        (list(range(1000)), r"(?s)'job': no value.*missing"),
        (["clerk"] * 300 + [f"rare {row}" for row in range(700)], r"'job': about 70 %"),
    ],
)
def test_a_column_that_is_emptied_is_named_in_a_warning(values, message):
    table = pd.DataFrame({"job": values})
    ledger = PrivacyLedger(epsilon=100, delta=1e-3)
    with pytest.warns(UserWarning, match=message) as caught:
        synthesizer = fitted(table, domain=None, ledger=ledger)
    (warning,) = without_weak(caught)
    assert warning.filename == __file__
    assert len(synthesizer.sample(10)) == 10
    assert "rare" not in str(warning.message)


@pytest.mark.parametrize(
    "parameters",
    [
        {"handle_unknown": {"job": None}},
        {"handle_unknown": {"job": UNDISCOVERED}},
        {"structural_zeros": [{"job": [None], "sex": "F"}]},
    ],
)
def test_what_names_values_of_such_a_column_is_refused_before_the_charge(parameters):
    """`{"job": None}` was accepted, charged, and refused when text had been found."""
    ledger = PrivacyLedger(epsilon=100, delta=1e-3)
    with pytest.raises(ValueError, match=r"'job'.*discover"):
        fitted(ledger=ledger, **parameters)
    assert ledger.spent.epsilon == 0


def test_numbers_beyond_all_floats_are_not_found():
    """They were an error before the charge, with which one person could stop every release."""
    pays = pd.Series([1.0, 2.0] * 200 + [Fraction(7 * 10**400, 3)], dtype=object)
    synthesizer = fitted(pd.DataFrame({"pay": pays}), domain=None)
    assert synthesizer.domain_["pay"].values == (1, 2, None)


def test_unordered_categories_are_found_like_other_values():
    """They are no declaration. Which of them occur was released with a warning."""
    jobs = pd.Categorical([*JOBS[:800], "unique"], ["clerk", "other", "unique", "never"])
    table = pd.DataFrame({"job": jobs, "sex": ["F", "M"] * 400 + ["F"]})
    synthesizer = fitted(table)
    assert synthesizer.domain_["job"].values == ("clerk", "other", UNDISCOVERED)
    rows = synthesizer.sample(50)["job"]
    assert isinstance(rows.dtype, pd.CategoricalDtype)
    assert set(rows.cat.categories) == {"clerk", "other", UNDISCOVERED}


@pytest.mark.parametrize("columns", [["job"], ["job", "sex"]])
def test_values_are_found_for_their_share_of_epsilon(columns):
    rates = []

    def watch(sampler, drawn, parameters):
        if sampler == "discrete_laplace":
            rates.append(1 / parameters["scale"])
        return drawn

    with watched(watch):
        fitted(TABLE[columns], domain={}, epsilon=2.0, delta=1e-3, marginals="independent")
    assert sum(rates) == Fraction(2) * Fraction(0.3)


def test_a_value_of_one_person_is_published_as_often_as_its_share_of_delta_allows():
    n, delta = 20_000, Fraction(1, 10)
    counts = {name: ([f"v{place}" for place in range(n)], np.ones(n, np.int64)) for name in "ab"}
    found, _ = find_values(SeededSource(0), counts, Fraction(1), delta, 1, n)
    published = sum(len(values) - 1 for values in found.values())
    # Binomial with 2 n trials: 5 standard deviations, which is a false alarm of 3e-7.
    assert published / (2 * n) <= 0.05 + 5 * (0.05 * 0.95 / (2 * n)) ** 0.5
    assert published > 0


def test_no_more_values_are_found_than_the_model_holds():
    """Those with the highest counts are kept: the model was refused when all had been found and charged."""
    plan = Plan((1, MOST_CELLS // 8, 2), (False,) * 3, 100)
    assert largest_sizes(plan, STRATEGIES["full"], {0}) == 4
    with pytest.raises(ValueError, match=r"needs more than .* cells if discover= finds values"):
        largest_sizes(Plan((1, MOST_CELLS, 2), (False,) * 3, 100), STRATEGIES["full"], {0})
    counts = {"job": ([f"v{place}" for place in range(9)], np.arange(100, 1000, 100))}
    found, _ = find_values(SeededSource(0), counts, Fraction(1), Fraction(1, 100), 1, 4)
    assert found == {"job": ["v6", "v7", "v8", UNDISCOVERED]}


@pytest.mark.parametrize("is_array", [False, True])
def test_a_record_does_not_decide_the_dtype_of_what_is_not_found(is_array):
    """A missing value may make objects of numbers; if no value is found, the dtype of the rows is the same."""
    dtypes = []
    for job in (pd.Series([0, 1] * 2), pd.Series([0, 1, 0, None], dtype=object), pd.Series([0, 1, 0, None])):
        table = job.to_numpy()[:, np.newaxis] if is_array else pd.DataFrame({"job": job})
        with pytest.warns(UserWarning, match="no value"):
            synthesizer = fitted(table, domain=None, epsilon=1.0, discover=0.1)
        assert synthesizer.domain_[synthesizer.domain_.columns[0]].values == (None,)
        rows = synthesizer.sample(3)
        dtypes.append(rows.dtype if is_array else rows["job"].dtype)
    assert dtypes == [np.float64] * 3
