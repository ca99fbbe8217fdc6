"""Replayed noise measures the sensitivity: every fault is found, and no release of this library fails."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPLogisticRegression, DPMean, PrivacyGuarantee
from skdp.privacy import GaussianLoss, Mu, PureLoss, gaussian_epsilon, laplace_loss, parse_budget
from skdp.randomness import (
    SeededSource,
    cube_noise,
    discrete_laplace,
    exponential_mechanism,
    permute_and_flip,
    rounded_gaussian,
)
from skdp.testing import check_curator, replay_release
from tests.conftest import often
from tests.testing import broken_curators as broken
from tests.testing.central_releases import RELEASES, fit_model, neighbors_of

ONLY = pd.DataFrame({"value": [1.0, 2.0]})
CLAIM = PrivacyGuarantee(1.0, relation="add_remove", trust="central")


def check_sensitivity(release, X, neighbors=None):
    """Fail if the noise of a release does not cover the change by one record."""
    rows = np.arange(len(X))
    if neighbors is None:
        pairs = [(X.take(np.append(rows[rows != row], row), axis=0), X.take(rows[rows != row], axis=0)) for row in rows]
        pairs += [(X.take(rows[: row + 1], axis=0), X.take(rows[:row], axis=0)) for row in rows[:-1]]
    else:
        pairs = [(X, neighbor) for neighbor in neighbors]
    # Each pair has its own seed, because later draws of a release may depend on its noise.
    for seed, (table, neighbor) in enumerate(pairs):
        replay = replay_release(release, table, neighbor, random_state=seed)
        assert replay.passed, replay.findings


@pytest.mark.parametrize(("name", "fault"), broken.FAULTS.items())
def test_each_fault_is_found(name, fault):
    last = broken.TABLE["value"].to_numpy().copy()
    last[-1] = 0
    replaced = [pd.DataFrame({"value": last})] if fault.relation == "replace" else None
    with pytest.raises(AssertionError):
        check_sensitivity(fault(), broken.TABLE, replaced)


def test_statistic_without_a_fault_passes():
    check_sensitivity(broken.Curator(), broken.TABLE)
    replay = replay_release(broken.Curator(), broken.TABLE, broken.TABLE[:-1])
    assert replay.draws.to_dict("list") == {
        "sampler": ["discrete_laplace"],
        "size": [1],
        "difference": [10.0],
        "epsilon": [1.0],
        "rho": [pytest.approx(np.tanh(0.5))],
    }
    assert (replay.epsilon, replay.findings, replay.passed) == (1.0, (), True)


# With one row per person, the contract of curators replays the noise of each class, too.
QUICK = [
    "additive regressor of categories",
    "domain of persons",
    "ridge regression of persons",
    "categorical naive Bayes of persons, rho",
    "Gaussian naive Bayes of persons",
    "target encoder of persons",
]


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("name", often(RELEASES, QUICK))
def test_noise_of_this_library_covers_the_sensitivity(name):
    model, table = RELEASES[name]
    release = partial(fit_model, model) if hasattr(model, "fit") else model
    shares = []
    for one, other in neighbors_of(table):
        replay = replay_release(release, one, other)
        assert replay.findings == ()
        assert len(replay.draws)
        shares.append(replay.epsilon / replay.guarantee.epsilon)
    assert 0 < max(shares) <= 1 + 1e-9


# Choices and Laplace noise charged in rho or mu have a larger loss at some deltas if each is converted separately.


def test_half_of_the_noise_fails_in_mu():
    """For a choice, and for Laplace noise after it."""

    def release(rate, noise, table):
        source = SeededSource(4)
        chosen = exponential_mechanism(source, [len(table), 3, 3 - len(table)], rate / 2)
        return chosen, table.sum() + discrete_laplace(source, 10 / Fraction(noise), 1).item()

    mu = 1.0
    most = (parse_budget(Mu(mu, 1e-6)) / 2).pure  # half of the budget
    claim = PrivacyGuarantee(
        gaussian_epsilon(mu, 1e-6), delta=1e-6, relation="add_remove", trust="central", losses=(GaussianLoss(mu),)
    )
    for rate, noise, passed in [(2 * most, most, True), (4 * most, most, False), (2 * most, 2 * most, False)]:
        replay = replay_release(partial(release, rate, noise), X, ONE_LESS, guarantee=claim)
        assert replay.passed == passed, replay.findings


def total(noise):
    """Return the release of a sum with noise."""
    return lambda table: table.sum() + noise(SeededSource(0)).item()


X, ONE_LESS = np.array([0, 3, 10]), np.array([0, 3])


@pytest.mark.parametrize(
    ("noise", "epsilon", "rho"),
    [
        (lambda source: discrete_laplace(source, 5, 1), 2.0, 2 * np.tanh(1)),
        (lambda source: cube_noise(source, 5, 1), 2.0, 2 * np.tanh(1)),
        (lambda source: rounded_gaussian(source, 25, 1), np.inf, 2.0),
    ],
)
def test_loss_of_noise_is_the_difference_over_the_scale(noise, epsilon, rho):
    replay = replay_release(total(noise), X, ONE_LESS, guarantee=CLAIM)
    assert replay.draws[["difference", "epsilon", "rho"]].to_numpy().tolist() == [[10.0, epsilon, pytest.approx(rho)]]
    assert not replay.passed


@pytest.mark.parametrize(("rho", "passed"), [(2.0, True), (1.9, False)])
def test_stated_rho_covers_the_draws(rho, passed):
    claim = replace(CLAIM, epsilon=100.0, delta=1e-6, rho=rho)
    replay = replay_release(total(lambda source: rounded_gaussian(source, 25, 1)), X, ONE_LESS, guarantee=claim)
    assert replay.findings == (() if passed else ("the draws lose rho 2 together, more than the stated 1.9",))


@pytest.mark.parametrize(("rho", "passed"), [(0.125, True), (0.12, False)])
def test_rho_of_a_choice_is_an_eighth_of_its_squared_epsilon(rho, passed):
    def release(table):
        return exponential_mechanism(SeededSource(0), [len(table), 3, 3 - len(table)], Fraction(1, 2))

    claim = replace(CLAIM, epsilon=100.0, delta=1e-6, rho=rho)
    assert replay_release(release, X, ONE_LESS, guarantee=claim).passed == passed


@pytest.mark.parametrize("losses", [(), (PureLoss(1.0),)])
def test_discrete_noise_on_real_numbers_has_no_bound(losses):
    noise = partial(discrete_laplace, scale=100, size=1)
    claim = replace(CLAIM, losses=losses)
    replay = replay_release(total(noise), np.array([20.5, 30.0]), np.array([30.0]), guarantee=claim)
    assert replay.findings == ("the draws lose epsilon inf together, more than the stated 1",)


def noisy_table(table, scale=40):
    """Return the sums of two columns and of their squares, with noise from one draw."""
    sums = np.vstack([table.sum(axis=0), (table**2).sum(axis=0)])
    return sums + discrete_laplace(SeededSource(0), scale, sums.size).reshape(sums.shape)


def cubes_of_columns(table):
    sums = np.vstack([table.sum(axis=0), (table**2).sum(axis=0)]).T
    return sums + cube_noise(SeededSource(0), 40, 2, 2)


@pytest.mark.parametrize(
    ("release", "change", "too_little"), [(noisy_table, 12, (6, 4)), (cubes_of_columns, 9, (6, 3))]
)
def test_noise_of_several_columns_is_composed_as_stated(release, change, too_little):
    """Noise on each number is independent; as a chain, its loss would exceed the loss of the columns together."""
    table = np.array([[1, 2], [3, 3]])
    epsilon = change / 40
    for (links, count), passed in (((change, 2), True), (too_little, False)):
        loss = replace(laplace_loss(Fraction(links, 40), links), count=count)
        claim = replace(CLAIM, epsilon=2 * epsilon, losses=(loss,))
        replay = replay_release(release, table, table[:1], guarantee=claim)
        assert replay.passed == passed, replay.findings
    assert replay.draws["epsilon"][0] == pytest.approx(2 * epsilon)
    assert replay.draws["rho"][0] <= 2 * epsilon * np.tanh(epsilon / 2) * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("delta", [0.2, 0.1, 0.01, 1e-4])
def test_loss_of_several_numbers_covers_all_their_results(scale, delta):
    """The smallest epsilon over all results of noise on two numbers that change by 1 and 3, and not much more."""
    values = np.arange(-60, 64)
    ratio = np.exp(-1 / scale)
    here, there = [], []
    for change in (1, 3):
        here.append((1 - ratio) / (1 + ratio) * ratio ** np.abs(values))
        there.append((1 - ratio) / (1 + ratio) * ratio ** np.abs(values - change))
    here, there = np.outer(*here), np.outer(*there)

    def release(table):
        return np.array([table.sum(), 3 * table.sum()]) + discrete_laplace(SeededSource(0), scale, 2)

    claim = PrivacyGuarantee(4 / scale, delta=delta, relation="add_remove", trust="central")
    replay = replay_release(release, np.array([1, 1]), np.array([1]), guarantee=claim)
    excess = np.maximum(here - np.exp(replay.epsilon) * there, 0).sum()
    assert excess <= delta * (1 + 1e-6)
    less = max(0.9 * replay.epsilon - 0.01, 0)
    assert replay.epsilon < 1e-6 or np.maximum(here - np.exp(less) * there, 0).sum() > delta


@pytest.mark.parametrize("sampler", [exponential_mechanism, permute_and_flip])
def test_loss_of_a_choice_is_the_range_of_the_changes(sampler):
    def choice(table):
        return sampler(SeededSource(0), [len(table), -len(table), 0], Fraction(1, 4))

    replay = replay_release(choice, X, ONE_LESS, guarantee=CLAIM)
    assert replay.draws[["difference", "epsilon"]].to_numpy().tolist() == [[2.0, 0.5]]
    assert replay.passed


@pytest.mark.parametrize(
    "add",
    [
        lambda numbers, noise: numbers + noise,
        lambda numbers, noise: noise + numbers,
        lambda numbers, noise: numbers - noise,
        lambda numbers, noise: np.add(numbers, noise),
        lambda numbers, noise: numbers.reshape(2, 1) + noise.reshape(2, 1),
        lambda numbers, noise: numbers.tolist()[0] + noise[0] + (numbers.tolist()[1] - noise[1]),
        lambda numbers, noise: [one + part for one, part in zip(numbers.tolist(), noise.tolist(), strict=True)],
        lambda numbers, noise: numbers + np.concatenate([noise[:1], noise[1:]]),
        lambda numbers, noise: pd.Series(numbers) + noise,
    ],
)
def test_noise_is_followed_through_all_additions(add):
    def release(table):
        return add(np.array([table.sum(), 2 * table.sum()]), discrete_laplace(SeededSource(1), 30, 2))

    replay = replay_release(release, X, ONE_LESS, guarantee=CLAIM)
    assert replay.draws["difference"].tolist() == [30.0]
    assert replay.findings == ()


def test_recording_does_not_change_the_release():
    def release(table):
        source = SeededSource(0)
        first, second = (discrete_laplace(source, 5, 1).item() for _ in range(2))
        return table.sum() + first, table.sum() - second

    seen = []
    replay_release(lambda table: seen.append(release(table)), X, X, guarantee=CLAIM)
    assert seen == [release(X)] * 2
    mean = DPMean(bounds=(0, 10), random_state=0)
    table = pd.DataFrame({"value": X})
    assert replay_release(mean, table, table[:2]).passed
    assert mean.fit(table).mean_ == mean.fit(table).mean_  # recording has ended


def test_later_draws_may_depend_on_noisy_numbers():
    """A noisy count determines the scale of a further draw, and whether it is drawn."""

    def release(table):
        source = SeededSource(3)
        count = len(table) + discrete_laplace(source, 2, 1).item()
        return count, table.sum() + discrete_laplace(source, 20 + abs(count), 1).item() if count > 2 else None

    assert replay_release(release, X, ONE_LESS, guarantee=CLAIM).passed


def test_noise_added_to_two_numbers_is_found():
    """Any guarantee may cover both losses, but their difference is exact."""

    def release(table):
        return np.array([table.sum(), len(table)]) + discrete_laplace(SeededSource(0), 10, 1)

    replay = replay_release(release, X, ONE_LESS, guarantee=replace(CLAIM, epsilon=9.0))
    assert replay.findings == ("discrete_laplace noise is added to two numbers: their difference is exact",)


def test_scaled_noise_is_not_followed():
    def release(table):
        return table.sum() + 10.0 * discrete_laplace(SeededSource(0), 1, 1)

    replay = replay_release(release, X, ONE_LESS, guarantee=CLAIM)
    assert replay.findings == ("the result: differs, although all draws are equal",)


def test_tables_that_cannot_be_checked_raise_an_error():
    mean, model = DPMean(bounds=(0, 10)), DPLogisticRegression(bounds=(0, 10), classes=[1, 2])
    with pytest.raises(TypeError, match=r"X must be a pandas\.DataFrame, got ndarray"):
        check_curator(mean, ONLY.to_numpy())
    for table in (ONLY, pl.from_pandas(ONLY), pa.Table.from_pandas(ONLY), ONLY["value"].to_numpy()):
        with pytest.raises(ValueError, match="at least two columns, the last of which is the target, got 1"):
            replay_release(model, table, table)


@pytest.mark.parametrize(
    ("loss", "passed"),
    [(laplace_loss(Fraction(1), 10), True), (PureLoss(1.0), True), (PureLoss(1.0, share=0.7), False)],
)
def test_stated_losses_cover_the_draws(loss, passed):
    claim = replace(CLAIM, losses=(loss,))
    replay = replay_release(broken.Curator(), broken.TABLE, broken.TABLE[:-1], guarantee=claim)
    assert replay.passed == passed
    assert all("the stated losses" in finding for finding in replay.findings)


def test_errors_and_missing_guarantees_fail():
    def fail(table):
        raise ValueError("always")

    with pytest.raises(ValueError, match="always"):
        replay_release(fail, X, ONE_LESS, guarantee=CLAIM)
    replay = replay_release(lambda table: table.max(), X, X[:0], guarantee=CLAIM)
    assert replay.findings == ("the release of only one table raises an error: ValueError with 0 rows, none with 3",)
    with pytest.raises(ValueError, match="`guarantee` is required"):
        replay_release(len, X, ONE_LESS)


def test_tables_in_a_tuple_raise_an_error():
    table = pd.DataFrame({"age": [1.0]})
    with pytest.raises(TypeError, match="`X` must be one dataframe or array, got tuple"):
        replay_release(DPMean(bounds=(0, 2)), (table, table), (table, table[:0]))


def test_replaced_row_is_compared_with_the_guarantee_for_replacing():
    ages = np.array([[0.0], [50.0], [100.0]])
    replay = replay_release(DPMean(1.0, bounds=(0, 100)), ages, np.array([[0.0], [50.0], [0.0]]))
    assert replay.passed, replay.findings
    assert (replay.guarantee.relation, replay.guarantee.epsilon) == ("replace", 2.0)
