"""Success of attacks: bounds compared with the best attack by enumeration, and with attacks on drawn releases."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import skdp
from skdp import PrivacyGuarantee, PrivacyLedger, privacy_statement
from skdp.oracles import ORACLES
from skdp.privacy import (
    GaussianLoss,
    Mu,
    PureLoss,
    Rho,
    StatedLoss,
    exponential_loss,
    laplace_loss,
    largest_mu,
    shuffled_guarantee,
    zcdp_epsilon,
)
from tests.privacy.accounting.enumerated import ONE, outcomes_of, small_mix, true_delta
from tests.privacy.shuffle_exact import AllTables

RATES = [0.0, 1e-4, 0.001, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1.0]


def guarantee_of(losses):
    """Return a guarantee that is known by its losses only: its epsilon is larger than all of theirs together."""
    losses = tuple(losses)
    delta = sum(loss.count * getattr(loss, "delta", 0) for loss in losses)
    if any(isinstance(loss, GaussianLoss) for loss in losses):
        return PrivacyGuarantee(1000.0, delta=delta, losses=losses)
    return PrivacyGuarantee(sum(loss.count * loss.epsilon for loss in losses), delta=delta, losses=losses)


def best_attack(first, second):
    """Return the accuracy of the best guess, and the true positive rate of the best test for each of `RATES`.

    The best test rejects the outcomes with the largest ratios of probabilities, and one of them at random
    (Neyman and Pearson).
    """
    order = sorted(range(len(first)), key=lambda index: -first[index] / max(second[index], 1e-300))
    false, true = (np.append(0, np.cumsum(np.array(masses, dtype=float)[order])) for masses in (second, first))
    variation = sum(max(p - q, 0) for p, q in zip(first, second, strict=True))
    return (1 + variation) / 2, np.interp(RATES, false, true, right=1.0)


def check_bounds(guarantee, first, second, *, within=None):
    """Check that no attack on two distributions beats the bounds of a guarantee, in both directions."""
    for pair in ((first, second), (second, first)):
        guess, power = best_attack(*pair)
        assert guarantee.guess_probability >= guess - 1e-15
        bounds = guarantee.true_positive_rate(RATES)
        assert (bounds >= power - 1e-12).all()
        if within is not None:
            assert guarantee.guess_probability <= guess + within
            assert (bounds <= power + within).all()


@pytest.mark.parametrize(
    ("points", "mixes"), [(1 << 4, 20), (1 << 13, 20), pytest.param(1 << 13, 500, marks=pytest.mark.long)]
)
def test_no_attack_on_a_mix_of_releases_beats_the_bound(points, mixes, monkeypatch):
    monkeypatch.setattr("skdp.privacy.guarantees._accountant.MAX_POINTS", points)
    for seed in range(points, points + mixes):  # bounds are cached, so grids have different mixes
        losses = small_mix(seed)
        guarantee = guarantee_of(losses)
        outcomes = outcomes_of(losses)
        variation = true_delta(losses, 0, outcomes)
        assert Fraction(guarantee.guess_probability) >= (1 + variation) / 2
        survived = math.prod((1 - getattr(loss, "delta", 0)) ** loss.count for loss in losses)
        first, second = ([survived * mass / ONE for mass in masses] for masses in zip(*outcomes.values(), strict=True))
        first, second = [*first, 1 - survived, 0], [*second, 0, 1 - survived]
        check_bounds(guarantee, first, second, within=1e-3 if points > 1 << 10 else None)


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.2, 1.0, 3.0, 8.0])
def test_bound_of_gaussian_noise_is_the_normal_distribution(mu):
    guarantee = guarantee_of([GaussianLoss(mu)])
    assert norm.cdf(mu / 2) <= guarantee.guess_probability <= norm.cdf(mu / 2) + 1e-8
    exact = norm.cdf(norm.ppf(RATES) + mu)
    bounds = guarantee.true_positive_rate(RATES)
    assert (bounds >= exact - 1e-12).all()
    assert (bounds <= exact + 1e-4).all()


def test_gaussian_noise_and_answers_are_bounded_together():
    """The likelihood ratio is the sum of a normal variable and the losses of the answers."""
    losses = [PureLoss(0.5, count=2), GaussianLoss(0.7)]
    likely = math.exp(0.5) / (1 + math.exp(0.5))
    mixture = [(1.0, likely**2), (0.0, 2 * likely * (1 - likely)), (-1.0, (1 - likely) ** 2)]

    def rate(threshold, sign):
        return sum(mass * norm.cdf((sign * 0.49 / 2 + sign * loss - threshold) / 0.7) for loss, mass in mixture)

    guarantee = guarantee_of(losses)
    for threshold in np.linspace(-3, 3, 25):
        found = guarantee.true_positive_rate(rate(threshold, -1))
        assert rate(threshold, 1) - 1e-12 <= found <= rate(threshold, 1) + 1e-4
    assert guarantee.guess_probability == pytest.approx((1 + rate(0, 1) - rate(0, -1)) / 2, abs=1e-9)


@pytest.mark.parametrize("sensitivity", [1, 2, 3, 8])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_bound_of_discrete_laplace_noise_is_exact(epsilon, sensitivity):
    ratio = math.exp(-epsilon / sensitivity)
    numbers = np.arange(-4000, 4000)
    masses = (1 - ratio) / (1 + ratio) * ratio ** np.abs(numbers).astype(float)
    first, second = masses[: -sensitivity or None], masses[sensitivity:]
    guarantee = guarantee_of([laplace_loss(Fraction(epsilon), sensitivity)])
    check_bounds(guarantee, first.tolist(), second.tolist())
    guess, power = best_attack(first.tolist(), second.tolist())
    assert guarantee.guess_probability == pytest.approx(guess, abs=1e-9)
    assert guarantee.true_positive_rate(0.001) == pytest.approx(power[2], rel=1e-9)


# Their bounds equal the best attack, and do not only exceed it.
EXACT = {"randomized_response", "subset_selection"}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (8, 2.0), (16, 3.0)])
def test_bound_of_a_report_is_exact(name, k, epsilon):
    """The reports of two values by their likelihood ratios; the oracles state the probabilities of all reports."""
    oracle = ORACLES[name](k, epsilon)
    classes = oracle.shuffle_pair().classes
    first, second = ([float(each[index]) for each in classes] for index in (0, 1))
    assert ORACLES.keys() >= EXACT
    within = 1e-6 if name in EXACT else None
    check_bounds(PrivacyGuarantee(oracle.epsilon, losses=(oracle.loss,)), first, second, within=within)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_bound_of_a_report_of_one_drawn_column_is_exact(epsilon):
    """A record reports one column, drawn with public weights; two records differ in all columns."""
    values = {"a": ["x", "y"], "b": list("rstuvw"), "c": list("klm")}
    table = pd.DataFrame({name: sorted(column)[:2] for name, column in values.items()})
    encoder = skdp.LocalTableEncoder(epsilon, categories=values).fit(table)
    assert encoder.plan_.n_reported == 1 < len(encoder.plan_.groups)
    total = sum(encoder.plan_.weights)
    first, second = [], []
    for weight, field in zip(encoder.plan_.weights, encoder.protocol_.fields, strict=True):
        for masses in field.oracle.shuffle_pair().classes:
            first.append(float(masses[0]) * weight / total)
            second.append(float(masses[1]) * weight / total)
    assert [sum(first), sum(second)] == pytest.approx([1, 1])
    is_exact = EXACT.issuperset(encoder.plan_.mechanisms)
    check_bounds(encoder.guarantee_, first, second, within=1e-6 if is_exact else None)
    assert encoder.guarantee_.guess_probability < PrivacyGuarantee(epsilon).guess_probability - 0.01


def test_permanent_reports_of_a_drawn_column_have_the_bound_of_the_worst_column():
    """A record reports the same column forever, so no mean over columns protects it."""
    values = {"a": ["x", "y"], "b": list("rstuvwxyz")}

    def share(columns, **parameters):
        encoder = skdp.RandomizedResponseEncoder(1.0, categories=columns, **parameters)
        table = pd.DataFrame({name: sorted(column)[:2] for name, column in columns.items()})
        (loss,) = encoder.fit(table).guarantee_.losses
        return loss.share

    alone = [share({name: column}) for name, column in values.items()]
    key = skdp.SecretKey(bytes(32))
    assert share(values, strategy="sample", memoize=True, secret_key=key) == pytest.approx(max(alone), rel=1e-12)
    assert share(values, strategy="sample") == pytest.approx(sum(alone) / 2, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2])
def test_bound_of_listed_marginals_is_exact(n, rows):
    """Laplace noise on marginals with equal parts of epsilon; a person is in one cell of each of them."""
    values = {name: ["x", "y"] for name in "abc"[:n]}
    synthesizer = skdp.DPMarginalSynthesizer(
        1.5 * n, domain=values, marginals="independent", max_rows_per_person=rows, random_state=0
    ).fit(pd.DataFrame(values))
    ratio = math.exp(-1.5 / rows)
    for marginal in synthesizer.marginals_:
        assert marginal.std_error == pytest.approx(math.sqrt(2 * ratio) / (1 - ratio))
    numbers = np.arange(-15, 16 + rows)
    masses = (1 - ratio) / (1 + ratio) * ratio ** np.abs(numbers).astype(float)
    first, second = np.ones(1), np.ones(1)
    for _ in range(n):
        first = np.multiply.outer(first, masses[:-rows]).ravel()
        second = np.multiply.outer(second, masses[rows:]).ravel()
    check_bounds(synthesizer.guarantee_, first.tolist(), second.tolist())
    variation = np.maximum(first - second, 0).sum()
    within = 1e-5 if rows == 1 else 0.01
    assert synthesizer.guarantee_.guess_probability == pytest.approx((1 + variation) / 2, abs=within)


@pytest.mark.parametrize(
    "options",
    [{}, {"marginals": "independent", "domain": {"a": skdp.Interval(0, 9, bins=2)}}, {"workload": [("a",)]}],
    ids=["auto", "numbers", "workload"],
)
def test_marginals_that_depend_on_results_have_no_losses(options):
    """Their parts of epsilon follow from earlier results, so only their sum is a bound."""
    table = pd.DataFrame({"a": [0, 1] * 20})
    synthesizer = skdp.DPMarginalSynthesizer(1.0, **{"domain": {"a": [0, 1]}, **options}, random_state=0)
    assert synthesizer.fit(table).guarantee_.losses == ()


@pytest.mark.parametrize("scores", [([0, 0], [1, -1]), ([0, 0, 0], [1, 1, -1]), ([0, 3, 0, 1], [1, 2, -1, 0])])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_no_attack_on_a_selection_beats_the_bound(scores, epsilon):
    """Scores that change by at most 1: their difference changes by at most 2."""
    first, second = (np.exp(epsilon / 2 * np.array(values, dtype=float)) for values in scores)
    guarantee = guarantee_of([exponential_loss(Fraction(epsilon))])
    check_bounds(guarantee, (first / first.sum()).tolist(), (second / second.sum()).tolist())
    # Two candidates attain the bound, if their odds change from e**(epsilon / 2) to its inverse.
    rare = 1 / (1 + math.exp(epsilon / 2))
    guess = best_attack([1 - rare, rare], [rare, 1 - rare])[0]
    assert guarantee.guess_probability == pytest.approx(guess, abs=1e-9)


@pytest.mark.parametrize("rho", [1e-6, 0.02, 0.5, 3.0])
def test_bound_by_rho_holds_for_gaussian_noise(rho):
    """Gaussian noise has this rho, so no bound by rho is below the bound of this noise; and it is near it."""
    known = PrivacyGuarantee(zcdp_epsilon(rho, 1e-6), delta=1e-6, rho=rho)
    mu = math.sqrt(2 * rho)
    assert (known.true_positive_rate(RATES) >= norm.cdf(norm.ppf(RATES) + mu) - 1e-12).all()
    assert norm.cdf(mu / 2) <= known.guess_probability <= norm.cdf(mu / 2) + 0.11
    stated = PrivacyGuarantee(known.epsilon, delta=1e-6)
    assert known.guess_probability < stated.guess_probability


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_attack_on_shuffled_reports_beats_the_bound(epsilon):
    oracle = ORACLES["randomized_response"](3, epsilon)
    channel = [[1 - 2 * oracle.lie / 3 if i == j else oracle.lie / 3 for j in range(3)] for i in range(3)]
    tables = AllTables(channel, 5)
    guarantee = shuffled_guarantee(oracle, n=5, delta=1e-3)
    assert Fraction(guarantee.guess_probability) >= (1 + tables.delta(Fraction(1))) / 2
    for rate in (0.001, 0.01, 0.3):
        for pmfs in tables.pmfs:
            keys = sorted({key for pmf in pmfs for key in pmf})
            first, second = ([pmf.get(key, 0) / tables.total for key in keys] for pmf in pmfs[:2])
            order = sorted(range(len(keys)), key=lambda index: -first[index] / second[index])
            false, true = (np.append(0, np.cumsum(np.array(masses)[order])) for masses in (second, first))
            assert guarantee.true_positive_rate(rate) >= np.interp(rate, false, true) - 1e-12


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_no_attack_on_a_replaced_record_beats_the_bound(epsilon):
    """A histogram of two cells: a record moves from one to the other, so two counts change."""
    guarantee = skdp.DPHistogram(epsilon, domain={"a": ["x", "y"]}, random_state=0)
    guarantee = guarantee.fit(pd.DataFrame({"a": ["x", "y"]})).guarantee_.to("replace")
    ratio = math.exp(-epsilon)
    masses = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-60, 60)).astype(float)
    first, second = np.outer(masses[:-1], masses[1:]).ravel(), np.outer(masses[1:], masses[:-1]).ravel()
    check_bounds(guarantee, first.tolist(), second.tolist())


def test_no_attack_on_several_rows_of_a_person_beats_the_bound():
    """Three rows of a person in one cell, with noise for three rows."""
    table = pd.DataFrame({"a": ["x", "y"]})
    release = skdp.DPHistogram(1.0, domain={"a": ["x", "y"]}, max_rows_per_person=3, random_state=0).fit(table)
    ratio = math.exp(-1 / 3)
    masses = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-900, 900)).astype(float)
    check_bounds(release.guarantee_, masses[:-3].tolist(), masses[3:].tolist())


# The table of issue "The risk, told as exactly as it is known": of 100 guesses, before and after.

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 100, "age": np.arange(200) % 40, "ill": [0, 1, 1, 0] * 50})
BOUNDS = {"age": (0, 40)}


def fit_means(epsilon):
    statistics = ["count", "mean", "median"]
    keys = {"sex": ["f", "m"]}
    means = skdp.DPGroupBy(epsilon, by="sex", keys=keys, statistics=statistics, bounds=BOUNDS, random_state=0)
    return means.fit(PEOPLE[["sex", "age"]])


def fit_logistic(epsilon):
    model = skdp.DPLogisticRegression(epsilon, bounds=BOUNDS, classes=[0, 1], random_state=0)
    return model.fit(PEOPLE[["age"]], PEOPLE["ill"])


def fit_histogram(epsilon, **options):
    return skdp.DPHistogram(epsilon, domain={"sex": ["f", "m"]}, random_state=0, **options).fit(PEOPLE[["sex"]])


def report_values(epsilon, k):
    values = list(range(k))
    encoder = skdp.RandomizedResponseEncoder(epsilon, categories={"x": values}, random_state=0)
    return encoder.fit(pd.DataFrame({"x": values}))


STATED = {
    "Gaussian, epsilon 0.5": (lambda: fit_histogram(Mu.of(epsilon=0.5)), 62.3, 52.5),
    "Gaussian, epsilon 1": (lambda: fit_histogram(Mu.of(epsilon=1)), 73.2, 54.8),
    "Gaussian, epsilon 3": (lambda: fit_histogram(Mu.of(epsilon=3)), 95.3, 62.7),
    "Gaussian, epsilon 10": (lambda: fit_histogram(Mu.of(epsilon=10)), 100.0, 82.3),
    "DPLogisticRegression, epsilon 1": (lambda: fit_logistic(1.0), 73.2, 54.8),
    "DPLogisticRegression, epsilon 4": (lambda: fit_logistic(4.0), 98.3, 66.3),
    "DPGroupBy, epsilon 1": (lambda: fit_means(1.0), 73.2, 59.7),
    "randomized response, k = 8": (lambda: report_values(2.0, 8), 88.1, 72.3),
    "randomized response, k = 16": (lambda: report_values(3.0, 16), 95.3, 77.2),
}


def round_up(probability):
    return math.ceil(probability * 1000 - 1e-9) / 10


@pytest.mark.parametrize("name", STATED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_guess_is_stated_as_exactly_as_it_is_known(name):
    make, by_epsilon, exact = STATED[name]
    guarantee = make().guarantee_
    assert round_up(PrivacyGuarantee(guarantee.epsilon, delta=guarantee.delta).guess_probability) == by_epsilon
    assert round_up(guarantee.guess_probability) == exact


@pytest.mark.parametrize(
    ("n", "epsilon", "adaptive", "fixed"), [(10, 0.3, 95.3, 67.8), (52, 0.1, 99.5, 64.1), (12, 1.0, 100.0, 95.2)]
)
def test_ledger_states_the_guess_of_fixed_and_of_adaptive_releases(n, epsilon, adaptive, fixed):
    ledger = PrivacyLedger(n * epsilon)
    for _ in range(n):
        fit_histogram(epsilon, ledger=ledger)
    statement = privacy_statement(ledger)
    assert round_up(statement.total.guess_probability) == adaptive
    assert statement.total.losses == ()
    assert round_up(statement.total_if_fixed.guess_probability) == fixed
    assert statement.total_if_fixed.losses[0].count == n


@pytest.mark.parametrize("titles", ["bb", "bc"])
def test_guess_of_fixed_releases_does_not_depend_on_their_titles(titles):
    """Charges of one title were added first, so that their sum had no rho, and the total had more than was spent."""
    ledger = PrivacyLedger(rho=5.0)
    stated = PrivacyGuarantee(skdp.privacy.zcdp_epsilon(0.3, 1e-6), delta=1e-6, rho=0.3)
    for guarantee, title in zip([stated, PrivacyGuarantee(0.7), PrivacyGuarantee(0.7)], "a" + titles, strict=True):
        ledger.charge(guarantee, title)
    fixed = privacy_statement(ledger).total_if_fixed
    assert fixed.rho == pytest.approx(ledger.balance().loc["spent", "rho"])
    assert round_up(fixed.guess_probability) == 81.1


def test_a_stopping_rule_beats_the_bound_of_fixed_releases_only():
    """Answers of epsilon 0.1 stop at odds of 5: the guess is then right as often as the sum of epsilons allows."""
    n_charges, step = 5, 0.1
    ledger = PrivacyLedger(52 * step)
    for _ in range(n_charges):
        ledger.charge(PrivacyGuarantee(step), "answer")
    statement = privacy_statement(ledger)
    reached = math.exp(n_charges * step) / (1 + math.exp(n_charges * step))
    assert statement.total_if_fixed.guess_probability < reached - 0.05
    assert statement.total.guess_probability == pytest.approx(reached, abs=1e-9)


def test_ledger_of_mu_states_the_guess_of_its_budget():
    """Charges that depend on results are limited by the whole budget, not by the mu that is spent."""
    ledger = PrivacyLedger(guess=0.6)
    fit_histogram(Mu.of(guess=0.6).split(12), ledger=ledger)
    statement = privacy_statement(ledger)
    assert statement.total.losses[0].mu == pytest.approx(ledger.mu, rel=1e-12)
    assert 0.6 - 1e-9 < statement.total.guess_probability <= 0.6
    assert statement.total_if_fixed.guess_probability == pytest.approx(
        norm.cdf(norm.ppf(0.6) / math.sqrt(12)), abs=1e-8
    )
    table = ledger.balance()["guess"]
    assert table.tolist() == pytest.approx([0.6, 0.5292, 0.5958], abs=1e-4)


@pytest.mark.parametrize("budget", [{"mu": 0.5}, {"rho": 0.1}], ids=str)
@pytest.mark.parametrize("epsilons", [[0.01], [0.05] * 40], ids=["one charge", "many charges"])
def test_pure_charges_have_the_guess_of_their_budget(budget, epsilons):
    """The smaller one of this guess and of the guess by the sum of epsilons would be chosen by results."""
    ledger = PrivacyLedger(**budget)
    for epsilon in epsilons:
        ledger.charge(PrivacyGuarantee(epsilon), "answer")
    statement = privacy_statement(ledger)
    assert statement.total.guess_probability == ledger.balance().loc["budget", "guess"]
    assert statement.total_if_fixed.guess_probability < statement.total.guess_probability
    assert statement.total_if_fixed.delta == 0


@pytest.mark.parametrize("budget", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.02}, {"mu": 0.2}, {"epsilon": 2.0}])
def test_balance_has_the_guess_of_each_amount(budget):
    ledger = PrivacyLedger(**budget, relation="add_remove")
    whole, none, rest = ledger.balance()["guess"]
    assert none == pytest.approx(0.5, abs=1e-14)
    assert rest == whole
    ledger.charge(PrivacyGuarantee(0.1, relation="add_remove"), "answer")
    after, spent, rest = ledger.balance()["guess"]
    assert after == whole > rest
    assert 0.51 < spent < 0.54


# Plans by a guess.


@pytest.mark.parametrize("guess", [0.5 + 1e-9, 0.51, 0.6, 0.9, 0.999999])
def test_mu_of_a_guess_attains_it(guess):
    mu = Mu.of(guess=guess).mu
    assert guarantee_of([GaussianLoss(mu)]).guess_probability <= guess
    assert norm.cdf(mu / 2) == pytest.approx(guess, abs=1e-9)
    assert Mu.of(guess=guess) == Mu(mu, 1e-6)


def test_ledger_of_a_guess_is_a_ledger_of_mu(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = PrivacyLedger(guess=0.6, path=path)
    assert ledger.mu == Mu.of(guess=0.6).mu
    for part in [Mu.of(guess=0.6).split(12)] * 12:
        PrivacyLedger(path=path).charge(fit_histogram(part).guarantee_, "month")
    with pytest.raises(skdp.BudgetExceeded):
        ledger.charge(PrivacyGuarantee(0.01, relation="add_remove"), "answer")
    assert PrivacyLedger(guess=0.6, path=path).mu == ledger.mu


@pytest.mark.parametrize("guess", [0.5, 1, 0.2, math.nan, math.inf, "0.6", None, True])
def test_guess_out_of_range_is_an_error(guess):
    for make in (Mu.of, PrivacyLedger):
        with pytest.raises((TypeError, ValueError), match="guess"):
            make(guess=guess)


def test_guess_and_another_budget_are_an_error():
    with pytest.raises(TypeError, match="either `epsilon` or `guess`"):
        Mu.of(1.0, guess=0.6)
    for other in ({"mu": 1.0}, {"epsilon": 1.0}, {"rho": 1.0}):
        with pytest.raises(ValueError, match="budget must be"):
            PrivacyLedger(guess=0.6, **other)
    with pytest.raises(TypeError):
        Rho.of(guess=0.6)


def test_guarantee_without_a_useful_number_has_a_trivial_bound():
    for guarantee in (PrivacyGuarantee(1e6), PrivacyGuarantee(800.0, losses=(StatedLoss(800.0),))):
        assert guarantee.guess_probability == 1
        assert guarantee.true_positive_rate(0.01) == 1
    nothing = PrivacyGuarantee(0.0)
    assert nothing.guess_probability == pytest.approx(0.5, abs=1e-14)
    assert nothing.true_positive_rate(RATES) == pytest.approx(RATES, abs=1e-12)


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_false_positive_rate_out_of_range_is_an_error(rate):
    with pytest.raises(ValueError, match="false_positive_rate"):
        PrivacyGuarantee(1.0).true_positive_rate(rate)


# Attacks on drawn releases: each cell of a histogram is an independent trial with one record more or less.


def draw_noisy_counts(amount, n_cells, seed):
    """Return the noisy counts of cells with one record, and of cells without a record."""
    names = [f"cell {index}" for index in range(2 * n_cells)]
    domain = {"cell": names}
    table = pd.DataFrame({"cell": names[:n_cells]})
    fitted = skdp.DPHistogram(amount, domain=domain, random_state=seed).fit(table)
    counts = fitted.to_frame()["count"].to_numpy(dtype=float)
    return counts[:n_cells], counts[n_cells:], fitted.guarantee_


def check_attack(scores, guarantee, *, within=0.02):
    """Check the accuracy and the true positive rate of the best attack on drawn scores; fails with probability 1e-6."""
    n = scores[0].size
    accuracy = np.mean([(scores[0] > 0.5).mean(), (scores[1] < 0.5).mean()])
    margin = 4.9 / math.sqrt(8 * n)
    assert guarantee.guess_probability - within - margin < accuracy < guarantee.guess_probability + margin
    threshold = np.quantile(scores[1], 0.99, method="inverted_cdf")
    false, true = (scores[1] > threshold).mean(), (scores[0] > threshold).mean()
    assert true < guarantee.true_positive_rate(false + 4.9 * math.sqrt(0.01 / n)) + 4.9 * math.sqrt(true / n)


# Studies; the bounds of these noises are enumerated above.
@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1, 3, 10])
def test_attack_on_gaussian_counts_attains_the_bound(epsilon):
    *scores, guarantee = draw_noisy_counts(Mu(largest_mu(epsilon, 1e-6), 1e-6), 20_000, epsilon)
    check_attack(scores, guarantee)


@pytest.mark.long
def test_attack_on_ten_laplace_counts_attains_the_bound_of_fixed_releases():
    n, rounds = 8_000, []
    for seed in range(10):
        *counts, guarantee = draw_noisy_counts(0.3, n, seed)
        rounds.append([np.abs(count) - np.abs(count - 1) for count in counts])
    total = sum([guarantee] * 9, guarantee)
    scores = np.sum(rounds, axis=0) + 0.5
    scores += np.random.default_rng(0).uniform(-1e-6, 1e-6, scores.shape)  # ties are guessed at random
    check_attack(scores, total)
