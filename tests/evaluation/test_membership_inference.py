"""Members are identified in copied rows, and not in protected rows."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from skdp import DPMarginalSynthesizer, PrivacyGuarantee
from skdp.evaluation import membership_inference
from skdp.privacy import GaussianLoss
from tests.conftest import few_kinds

VALUES = {"sex": ["F", "M"], "job": [*"abcdefgh"], "town": [*range(30)]}


def draw(size, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.choice(values, size) for name, values in VALUES.items()})


def fit_model(epsilon, members):
    return DPMarginalSynthesizer(epsilon, domain=VALUES, marginals="full", random_state=0).fit(members)


@few_kinds
def test_copied_table_reveals_its_members(make_frame):
    rng = np.random.default_rng(0)
    rows = {name: rng.choice(values, 200).tolist() for name, values in VALUES.items() if name != "town"}
    rows["age"] = rng.normal(40, 9, 200).tolist()
    first, last = ({name: column[part] for name, column in rows.items()} for part in (slice(100), slice(100, 200)))
    result = membership_inference(make_frame(first), make_frame(first), make_frame(last), random_state=0)
    assert result.auc == result.advantage == 1.0
    # Clopper-Pearson intervals of 50 of 50 members and 0 of 50 other rows, with 97.5 % each.
    assert result.advantage_lower == pytest.approx(2 * 0.0125 ** (1 / 50) - 1)
    assert result.advantage_upper == 1.0
    assert math.isnan(result.advantage_bound)


def test_members_are_identified_at_a_large_epsilon_only():
    members, others = draw(400, 1), draw(400, 2)
    results = {}
    for epsilon in (0.1, 60.0):
        model = fit_model(epsilon, members)
        results[epsilon] = membership_inference(
            model.sample(400), members, others, guarantee=model.guarantee_, random_state=0
        )
    hidden, shown = results[0.1], results[60.0]
    assert hidden.advantage_lower <= hidden.advantage_bound
    assert abs(hidden.auc - 0.5) < 0.1
    assert shown.auc > 0.6 > hidden.auc
    assert shown.advantage_bound == pytest.approx(1)
    relation = fit_model(0.1, members).guarantee_.to("replace").epsilon
    assert 0 < hidden.advantage_bound <= math.tanh(relation / 2) + 1e-9


@pytest.mark.long
def test_threshold_of_an_advantage_is_chosen_on_other_rows():
    """For equal populations, the interval of the advantage covers 0; for a shift by 1, 2 Phi(1/2) - 1."""
    scores = np.random.default_rng(0).normal(size=(2, 4000, 1))
    near = np.full((1, 1), scores.max() + 10)
    same = membership_inference(near, *scores, random_state=0)
    assert same.advantage_lower < 0 < same.advantage_upper
    assert abs(same.advantage) < 0.1
    # Without a signal, the mean is 0 (4.9 standard errors); a threshold of the tested rows would find an advantage.
    rng = np.random.default_rng(1)
    few = [membership_inference(near, *rng.normal(size=(2, 10, 1)), random_state=seed).advantage for seed in range(60)]
    assert abs(np.mean(few)) < 4.9 * np.std(few, ddof=1) / math.sqrt(60)
    shifted = membership_inference(near, scores[0] + 1, scores[1], random_state=0)
    assert shifted.advantage_lower < 0.3829 < shifted.advantage_upper
    assert shifted.advantage_lower < shifted.advantage < shifted.advantage_upper


def test_distances_equal_gower():
    """A member that differs by one category is farther than a member that differs by half of the range of a number."""
    synthetic = pd.DataFrame({"sex": ["F", "M"], "age": [0.0, 0.0]})
    members = pd.DataFrame({"age": [50.0, 50.0], "sex": ["F", "M"]})
    others = pd.DataFrame({"sex": ["X", None], "age": [0.0, 100.0]})
    assert membership_inference(synthetic, members, others, random_state=0).auc == 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 2000.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_bound_equals_the_formula_and_is_attained_by_randomized_response(epsilon, delta):
    rows = draw(10, 0)
    guarantee = PrivacyGuarantee(
        epsilon, delta=delta, relation="replace", trust="central", mechanism="m", scope=("sex",)
    )
    bound = membership_inference(rows, rows, rows, guarantee=guarantee, random_state=0).advantage_bound
    if epsilon < 700:
        assert bound == pytest.approx((math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1))
        # The truth with probability delta, otherwise truthful with probability e^eps / (e^eps + 1).
        truth = math.exp(epsilon) / (math.exp(epsilon) + 1)
        assert bound == pytest.approx(delta + (1 - delta) * (2 * truth - 1))
    assert bound <= 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"members": pd.DataFrame({"sex": ["F"]})}, ValueError, "`members` must have the columns of synthetic"),
        ({"members": draw(1, 0)}, ValueError, "`members` and `non_members` must have at least two rows each"),
        ({"guarantee": 1.0}, TypeError, "`guarantee` must be a PrivacyGuarantee, got float"),
    ],
)
def test_invalid_arguments_raise_an_error(options, error, message):
    tables = {"synthetic": draw(5, 0), "members": draw(5, 1), "non_members": draw(5, 2)}
    with pytest.raises(error, match=message):
        membership_inference(**tables | options)


def test_bound_follows_from_the_losses():
    """Replacing a row has twice the mu of adding it; the advantage is at most the total variation."""
    rows = pd.DataFrame({"age": np.arange(4.0)})
    noise = PrivacyGuarantee(3.0, delta=1e-6, relation="add_remove", trust="central", losses=(GaussianLoss(0.5),))
    result = membership_inference(rows, rows, rows, guarantee=noise, random_state=0)
    assert result.advantage_bound == pytest.approx(2 * norm.cdf(0.5) - 1, abs=1e-8)
