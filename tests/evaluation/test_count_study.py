from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import Domain
from skdp.datasets import load_adult
from skdp.evaluation import count_study, errors_by_trust
from tests.conftest import each

DOMAIN = Domain({"age": ["37 or younger", "over 37"], "sex": ["Female", "Male"]})
EPSILONS = [0.1, 0.3, 0.5, 1.0, 2.0, 5.0]

# Mean errors of the clipped counts over 2,000 runs, and the closed form of the root mean square L2 error.
MEAN_L2 = {0.1: 6672, 0.3: 2017, 0.5: 1201, 1.0: 546, 2.0: 214, 5.0: 38}
MEAN_L1 = {0.1: 11618, 0.3: 3527, 0.5: 2053, 1.0: 945, 2.0: 372, 5.0: 65}
RMS_L2 = {0.1: 7186, 0.3: 2282, 0.5: 1307, 1.0: 585, 2.0: 236, 5.0: 43}


def age_and_sex():
    frame = load_adult(subset="all", dropna=True).frame[["age", "sex"]]
    over = (frame["age"] > 37).to_numpy().astype(int)
    return frame.assign(age=pd.Categorical.from_codes(over, ["37 or younger", "over 37"]))


def study(repeats, seed=1):
    return count_study(age_and_sex(), DOMAIN, epsilons=EPSILONS, repeats=repeats, random_state=seed)


def rows(summary, postprocess):
    return summary[summary["postprocess"] == postprocess].set_index("epsilon")


def test_adult_has_the_published_cells_and_the_closed_form_its_errors():
    result = count_study(age_and_sex(), DOMAIN, epsilons=EPSILONS, repeats=1)
    assert result.releases.loc[1.0, "true"].tolist() == [8196, 14831, 6499, 15696]
    assert result.expected["l2_rms"].round().to_dict() == RMS_L2


@pytest.mark.long
def test_errors_are_as_large_as_the_closed_form_says():
    """40 runs: each bound is 4.9 standard errors of the mean, which fails by chance once in 10**6."""
    result = study(40)
    for epsilon in EPSILONS:
        here = result.errors[result.errors["epsilon"] == epsilon]
        unbiased, clipped = (here[here["postprocess"] == name] for name in ("none", "clip"))
        squares = unbiased["l2"] ** 2
        assert abs(squares.mean() - result.expected["l2_rms"][epsilon] ** 2) < 4.9 * squares.std() / np.sqrt(40)
        for norm, published in (("l1", MEAN_L1), ("l2", MEAN_L2)):
            reach = 4.9 * clipped[norm].std() / np.sqrt(40) + 0.05 * published[epsilon]
            assert abs(clipped[norm].mean() - published[epsilon]) < reach
    # A run covers 0 to 4 cells; all runs of all epsilons together, at most 1/4 off by 0.25 each.
    runs = result.errors[result.errors["postprocess"] == "none"]["covered"]
    assert abs(runs.mean() - 0.95) < 4.9 * runs.std() / np.sqrt(len(runs))


@pytest.mark.long
def test_the_study_of_2000_repeats():
    summary = study(2000).summary()
    clipped, unbiased = rows(summary, "clip"), rows(summary, "none")
    for epsilon in EPSILONS:
        assert clipped["l2_mean"][epsilon] == pytest.approx(MEAN_L2[epsilon], rel=0.1)
        assert clipped["l1_mean"][epsilon] == pytest.approx(MEAN_L1[epsilon], rel=0.1)
        assert unbiased["l2_rms"][epsilon] == pytest.approx(RMS_L2[epsilon], rel=0.05)
        assert 0.93 <= unbiased["coverage"][epsilon] <= 0.97


def test_a_seed_makes_it_reproducible_and_repeats_differ():
    frame = pd.DataFrame({"sex": ["Female"] * 30 + ["Male"] * 70})
    domain = Domain({"sex": ["Female", "Male"]})
    one, two = (count_study(frame, domain, epsilons=[1.0], repeats=5, random_state=3) for _ in range(2))
    pd.testing.assert_frame_equal(one.errors, two.errors)
    assert one.errors.query("postprocess == 'none'")["l1"].nunique() > 1
    secure = count_study(frame, domain, epsilons=[1.0], repeats=5)
    assert not secure.errors["l1"].equals(one.errors["l1"])


@pytest.mark.long
def test_the_luck_of_one_epsilon_is_not_that_of_another():
    frame = pd.DataFrame({"sex": ["Female"] * 300 + ["Male"] * 700})
    domain = Domain({"sex": ["Female", "Male"]})
    errors = count_study(frame, domain, epsilons=[1.0, 1.1], repeats=50, random_state=0).errors
    unbiased = errors[errors["postprocess"] == "none"]
    one, other = (unbiased[unbiased["epsilon"] == epsilon]["l2"] for epsilon in (1.0, 1.1))
    # 50 independent pairs: beyond 0.63 at most once in 10**6.
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.63


def test_what_cannot_be_studied_is_explained():
    frame = pd.DataFrame({"sex": ["Female", "secret"]})
    domain = Domain({"sex": ["Female", "Male"]})
    with pytest.raises(ValueError, match="column 'sex' holds a value, or a missing one, that the domain") as caught:
        count_study(frame, domain, epsilons=[1.0])
    assert "secret" not in str(caught.value)
    for epsilons, error in (([], ValueError), ([1.0, 1], ValueError), (1.0, TypeError)):
        with pytest.raises(error, match="epsilons must be"):
            count_study(frame, domain, epsilons=epsilons)
        with pytest.raises(error, match="epsilons must be"):
            errors_by_trust([1, 2], epsilons=epsilons)


@each("repeats", [0, -1, 1.5, True, "3"])
def test_repeats_must_be_a_positive_integer(repeats):
    with pytest.raises(ValueError, match="repeats must be"):
        count_study(age_and_sex(), DOMAIN, repeats=repeats)


def test_progress_is_reported_after_each_release():
    calls = []
    count_study(age_and_sex(), DOMAIN, epsilons=[1.0, 2.0], repeats=3, advance=lambda: calls.append(1))
    assert len(calls) == 6


def test_the_more_somebody_is_trusted_the_smaller_the_error():
    errors = errors_by_trust([12_000, 10_000, 13_000, 10_222], epsilons=[0.1, 1.0, 2.0])
    assert (errors["central"] < errors["shuffled"] / 3).all()
    assert (errors["shuffled"] < errors["local"] / 10).all()
    assert errors.loc[1.0].round(0).tolist() == [585, 16, 3]
    few = errors_by_trust([3, 4], epsilons=[1.0])
    assert few["shuffled"].item() == pytest.approx(few["local"].item(), rel=1e-3)


@each("counts", [[1], [0, 0], [-1, 2], [[1, 2]], [0.5, 1.5]])
def test_errors_by_trust_are_of_counts(counts):
    with pytest.raises(ValueError, match="counts must be whole numbers of at least 0"):
        errors_by_trust(counts)
