"""An epsilon above 10, and a delta above 1 / n, warn by public numbers, at the line of the user."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdp
from skdp.pages import address
from skdp.privacy import Mu

DOMAIN = {"a": ["x", "y", "z"], "b": [1, 2]}
ROWS = pd.DataFrame({"a": ["x", "y"] * 50, "b": [1, 1, 2, 2] * 25})
ILL = [0, 1, 1, 0] * 25
NUMBERS = np.linspace(0, 1, 50)[:, np.newaxis]


def catch_warnings(work):
    """Return the warnings about guarantees, each of which must name this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    about = [one for one in caught if issubclass(one.category, skdp.WeakGuaranteeWarning | skdp.PrivacyLeakWarning)]
    assert all(warning.filename == __file__ for warning in about)
    return about


def list_warnings(work):
    return [str(warning.message) for warning in catch_warnings(work)]


def model(encoder):
    return make_pipeline(encoder, OneHotEncoder(handle_unknown="ignore"), LogisticRegression())


WORKS = {
    "pipeline": lambda encoder: model(encoder).fit(ROWS, ILL),
    "scores": lambda encoder: cross_val_score(model(encoder), ROWS, ILL, cv=3),
}


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize(
    ("encoder", "category"),
    [
        (skdp.RandomizedResponseEncoder(12.0, categories=DOMAIN), skdp.WeakGuaranteeWarning),
        (skdp.RandomizedResponseEncoder(1.0), skdp.PrivacyLeakWarning),
    ],
)
def test_each_fit_warns_at_the_line_of_the_user(name, encoder, category):
    work = WORKS[name]
    caught = catch_warnings(lambda: work(encoder))
    assert len(caught) == {"pipeline": 1, "scores": 3}[name]
    for warning in caught:
        assert (warning.category, warning.lineno) == (category, inspect.getsourcelines(work)[1])


@pytest.mark.parametrize("epsilon", [10.5, 200.0, 1e9])
def test_large_epsilon_of_a_central_estimator_warns(epsilon):
    (message,) = list_warnings(lambda: skdp.DPMean(epsilon, bounds=(0, 1)).fit(NUMBERS))
    assert message.startswith(f"epsilon={epsilon:.6g} gives weak protection from an attacker who knows everything else")
    assert f"Use epsilon <= 10. See {address('answers/which_epsilon')}" in message


def test_central_estimator_warns_before_the_charge():
    assert not list_warnings(lambda: skdp.DPMean(10.0, bounds=(0, 1)).fit(NUMBERS))
    for mu, n_warnings in ((1.0, 0), (8.0, 1)):
        assert len(list_warnings(lambda mu=mu: skdp.DPMean(Mu(mu, 1e-9), bounds=(0, 1)).fit(NUMBERS))) == n_warnings
    book = skdp.PrivacyLedger(epsilon=1e9)
    with warnings.catch_warnings():
        warnings.simplefilter("error", skdp.WeakGuaranteeWarning)
        with pytest.raises(skdp.WeakGuaranteeWarning):
            skdp.DPMean(200.0, bounds=(0, 1), ledger=book).fit(NUMBERS)
    assert book.spent == (0, 0)


@pytest.mark.parametrize("n_rows", [1, 999, 1000, 1001])
def test_warning_of_delta_does_not_depend_on_the_number_of_rows(n_rows):
    """The number of rows is private: a warning that starts at 1 / n would reveal one record."""
    table = pd.DataFrame({"a": ["x"] * n_rows})

    def told_of_delta(delta):
        messages = list_warnings(lambda: skdp.discover_domain(table, 1.0, delta, random_state=0))
        return [message for message in messages if "nothing was found" not in message]

    (message,) = told_of_delta(0.0011)
    assert (
        "delta=0.0011 gives weak protection: with a delta above 1 / n, here 1 / 1,000 for an assumed 1,000 records"
        in message
    )
    assert not told_of_delta(0.0009)


def test_delta_is_compared_with_a_noisy_number_of_rows():
    table = pd.concat([ROWS] * 100)
    synthesizer = skdp.DPMarginalSynthesizer(1.0, delta=5e-4, domain=DOMAIN, random_state=0)
    (message,) = list_warnings(lambda: synthesizer.fit(table))
    assert "delta=0.0005 gives weak protection" in message
    assert f"here 1 / {synthesizer.n_rows_:,.0f}" in message
    assert not list_warnings(lambda: synthesizer.set_params(delta=1e-5).fit(table))
