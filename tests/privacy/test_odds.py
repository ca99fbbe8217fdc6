"""Epsilon and delta in odds: bounds that hold, rounded up."""

import math

import pytest

from skdp import PrivacyGuarantee
from skdp.privacy._odds import best_guess, largest_ratio
from tests.conftest import each


@each(
    "epsilon delta ratio guess",
    [
        (0.0, 0.0, "1.00", "at most 50"),
        (math.log(2), 0.0, "2.00", "at most 67"),
        (1.0, 0.0, "2.72", "at most 74"),
        (math.log(3), 0.0, "3.00", "at most 75"),
        (0.1, 1e-6, "1.11", "at most 53"),
        (5.0, 0.0, "149", "at most 99.4"),
        (8.0, 0.0, "2,981", "at most 99.97"),
        (10.0, 0.0, "22,027", "nearly 100"),
        (40.0, 0.0, "possibly more than 1,000,000,000", "possibly 100"),
        (1e308, 0.0, "possibly more than 1,000,000,000", "possibly 100"),
        (0.0, 0.5, "1.00", "at most 75"),
    ],
)
def test_the_text(epsilon, delta, ratio, guess):
    text = PrivacyGuarantee(epsilon, delta).in_odds()
    assert f"{ratio} times as likely" in text
    assert f"is right {guess} times in 100" in text
    assert ("delta" in text) == (delta > 0)


def test_the_question_is_that_of_the_neighbours():
    assert "which of two values a record has" in PrivacyGuarantee(1.0).in_odds()
    assert "whether a record is in the data" in PrivacyGuarantee(1.0, relation="add_remove").in_odds()
    assert "up to delta, 0.000001)" in PrivacyGuarantee(1.0, 1e-6).in_odds()
    assert "at most 74 times in 100" in PrivacyGuarantee(1.0)._repr_html_()


@each("epsilon", [0.0, 1e-12, 0.3, 1.0, 5.0, 30.0, 699.0, 1e6])
@each("delta", [0.0, 1e-9, 0.3])
def test_bounds_are_those_of_randomised_response_with_failures(epsilon, delta):
    """The worst mechanism reveals the value with delta, and otherwise is randomised response."""
    truth = 1 / (1 + math.exp(-epsilon))
    attained = delta + (1 - delta) * truth
    assert attained <= best_guess(epsilon, delta) * (1 + 1e-15)
    assert best_guess(epsilon, delta) == pytest.approx(attained, rel=1e-12)
    assert largest_ratio(epsilon) >= (math.exp(epsilon) if epsilon < 700 else math.inf) * (1 - 1e-15)
