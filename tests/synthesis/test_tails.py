"""Means, deviations and points of mass of numbers with loose ends, and tails where counts are only noise."""

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from tests.conftest import often

N = 20_000
RNG = np.random.default_rng(7)
LAWS = {
    "lognormal": (np.exp(10 + 0.6 * RNG.normal(size=N)), Interval(0, 1_000_000, bins=32, decimals=2)),
    "exponential": (RNG.exponential(1e-3, N), Interval(0, 0.1, bins=32, decimals=6)),
    "normal": (1_500 + 900 * RNG.normal(size=N), Interval(-50_000, 50_000, bins=32, decimals=2)),
    "two modes": (
        np.where(RNG.random(N) < 0.3, 5, 22) + 2 * RNG.normal(size=N),
        Interval(-50, 60, bins=32, decimals=1),
    ),
    "uniform": (RNG.random(N), Interval(-1, 3, bins=32, decimals=3)),
    "negative": (-np.exp(3 + 0.5 * RNG.normal(size=N)), Interval(-5_000, 0, bins=32, real=True)),
    "zeros": (np.where(RNG.random(N) < 0.5, 0, RNG.gamma(2, 400, N)), Interval(0, 50_000, bins=32, decimals=2)),
    "capped": (RNG.exponential(1_000, N).clip(0, 2_000), Interval(0, 10_000, bins=32, decimals=2)),
}
DOMAIN = {name: interval for name, (_, interval) in LAWS.items()}
TABLE = pd.DataFrame(
    {
        name: numbers if interval.decimals is None else numbers.round(interval.decimals)
        for name, (numbers, interval) in LAWS.items()
    }
)


def fitted(table=TABLE, domain=DOMAIN, **parameters):
    given = {"epsilon": 1.0, "delta": 1e-9, "random_state": 0}
    return DPMarginalSynthesizer(domain=domain, **given | parameters).fit(table)


@pytest.mark.long
@pytest.mark.parametrize("bins", ["declared", "private"])
@pytest.mark.parametrize("seed", [0, 1])
def test_means_deviations_and_points_of_mass(bins, seed):
    rows = fitted(bins=bins, random_state=seed).sample(N)
    for name in TABLE:
        # Of half zeros, the mean has an error of .035 by noise, of others less than .02.
        assert abs(rows[name].mean() / TABLE[name].mean() - 1) < (0.1 if name == "zeros" else 0.05), name
        assert abs(rows[name].std() / TABLE[name].std() - 1) < 0.12, name
    assert abs((rows["zeros"] == 0).mean() - 0.5) < 0.02
    for name, interval in DOMAIN.items():
        assert rows[name].between(interval.edges[0], interval.edges[-1]).all()
        if interval.decimals is not None:
            pd.testing.assert_series_equal(rows[name], rows[name].round(interval.decimals))


@pytest.mark.parametrize("bins", often(["declared", "private"], ["declared"]))
@pytest.mark.long
def test_zeros_are_not_moved_to_where_noise_is(bins):
    """A mean that was made up for by noisy counts of far cells took the zeros away."""
    gains = np.where(RNG.random(N) < 0.85, 0, np.exp(7 + 1.2 * RNG.normal(size=N)))
    table = TABLE.assign(gains=gains.clip(0, 500_000).round(2))
    domain = DOMAIN | {"gains": Interval(0, 500_000, bins=32, decimals=2)}
    for seed in range(4):
        rows = fitted(table, domain, bins=bins, random_state=seed).sample(N)
        assert abs((rows["gains"] == 0).mean() - 0.85) < 0.03


def test_a_share_that_is_noise_has_no_far_tail():
    """Of a column of 93 % zeros, a far share of 3 standard deviations made means up to 15 times too large."""
    rng = np.random.default_rng(0)
    gifts = np.where(rng.random(N) < 0.93, 0, np.exp(4 + rng.normal(size=N))).round(2)
    table = pd.DataFrame({"gift": gifts})
    domain = {"gift": Interval(0, 1_000_000, bins=32, decimals=2)}
    for seed in range(8):
        rows = fitted(table, domain, random_state=seed).sample(N)
        assert rows["gift"].mean() < 2 * gifts.mean()


def test_a_bin_behind_all_records_has_none_but_those_of_the_tail():
    """A count of two standard deviations put records there: two deviations were 17 and 7 times too large."""
    rng = np.random.default_rng(0)
    sums = np.exp(5 + rng.normal(size=5_000)) * np.where(rng.random(5_000) < 0.25, -1, 1)
    table = pd.DataFrame({"sum": sums.round(2)})
    domain = {"sum": Interval(-1_000_000, 1_000_000, bins=32, decimals=2)}
    for seed in range(8):
        rows = fitted(table, domain, random_state=seed).sample(5_000)
        assert 0.7 < rows["sum"].std() / table["sum"].std() < 1.2


def test_a_tail_follows_counts_that_are_better_known_than_the_law():
    """Of two laws, one for three percent of the records: their deviation was a quarter too large."""
    rng = np.random.default_rng(0)
    size = np.where(rng.random(N) < 0.03, 3_000 + 300 * rng.normal(size=N), rng.gamma(4, 50, N))
    table = pd.DataFrame({"size": size.round(1)})
    domain = {"size": Interval(0, 10_000, bins=50, decimals=1)}
    rows = fitted(table, domain).sample(N)
    assert rows["size"].std() == pytest.approx(table["size"].std(), rel=0.1)


def test_round_numbers_that_many_rows_have_are_found():
    """Within wide ends only 0 was counted alone: the shares at 20 and 3,000 were those of all numbers around."""
    rng = np.random.default_rng(0)
    fare = np.where(rng.random(N) < 0.2, 20, rng.gamma(3, 9, N))
    credit = np.where(rng.random(N) < 0.2, 3_000, 5_000 * rng.beta(2, 3, N))
    table = pd.DataFrame({"fare": fare.round(2), "credit": credit})
    domain = {
        "fare": Interval(0, 2_000, bins=32, decimals=2),
        "credit": Interval(-50_000, 50_000, bins=32, real=True),
    }
    for bins in ("declared", "private"):
        rows = fitted(table, domain, bins=bins).sample(N)
        for name, point in (("fare", 20), ("credit", 3_000)):
            assert abs((rows[name] == point).mean() - 0.2) < 0.02


def test_few_rows_have_no_far_tail():
    """Of 300 rows nearly all counts are noise: rows stay near to those that are clear."""
    table = TABLE[:300]
    rows = fitted(table, epsilon=0.5).sample(5_000)
    assert np.isfinite(rows.to_numpy()).all()


def test_missing_values_keep_their_share():
    table = TABLE[["lognormal"]].assign(lognormal=lambda rows: rows["lognormal"].where(RNG.random(N) < 0.8))
    domain = {"lognormal": Interval(0, 1_000_000, bins=32, decimals=2, missing=True)}
    for bins in ("declared", "private"):
        rows = fitted(table, domain, bins=bins).sample(N)
        assert abs(rows["lognormal"].isna().mean() - 0.2) < 0.03
        assert abs(rows["lognormal"].mean() / table["lognormal"].mean() - 1) < 0.05


@pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows
def test_few_rows_whose_shares_are_all_noise_have_no_law():
    # In seeds 1 and 7, no edge from which a law would be fitted has a positive share.
    for seed in (1, 7):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({"x": rng.exponential(1, 30), "b": rng.integers(0, 2, 30)})
        domain = {"x": Interval(edges=[-10.0, 0.0, 1.0, 2.0, 5.0, 1e7], real=True), "b": [0, 1]}
        synthesizer = DPMarginalSynthesizer(0.5, delta=0, domain=domain, marginals="independent", random_state=seed)
        assert len(synthesizer.fit(table).sample(5)) == 5


@pytest.mark.long
def test_counts_that_noise_nearly_hides_are_not_emptied():
    """Bins beyond the middle got no rows at all where no share of theirs was clear of noise."""
    counts = np.random.default_rng(1).geometric(0.2, 4_000) - 1
    rare = np.where(np.arange(4_000) % 25 == 0, 1 + np.arange(4_000) % 3, 0)
    table = pd.DataFrame({"counts": counts.clip(0, 99), "rare": rare, "sex": np.arange(4_000) % 2})
    edges = [0, 1, 2, 3, 5, 10, 20, 100]
    domain = {"counts": Interval(edges=edges), "rare": Interval(edges=[0, 1, 2, 5, 50]), "sex": [0, 1]}
    real = np.histogram(table["counts"], edges)[0] / 4_000
    rare_shares = []
    for seed in range(11):
        rows = fitted(table, domain, epsilon=0.1, random_state=seed).sample(4_000)
        made = np.histogram(rows["counts"], edges)[0] / 4_000
        # In five of these seeds it was above .1, with half of the deviation.
        assert np.abs(real - made).sum() / 2 < 0.1
        rows = fitted(table, domain, epsilon=0.3, random_state=seed).sample(4_000)
        rare_shares.append((rows["rare"] > 0).mean())
    # They had none in all seeds; the noise of their counts is that of 30 records.
    assert abs(np.mean(rare_shares) - 0.04) < 0.02


def test_tails_of_numbers_far_from_zero():
    # A law of the numbers has no power by which 38 and 40 degrees differ.
    rng = np.random.default_rng(100)
    warm = pd.DataFrame({"degrees": rng.normal(36.9, 0.5, 5_000).round(1), "side": rng.integers(0, 2, 5_000)})
    cold = warm - [30, 0]
    for table, low in ((warm, 30.0), (cold, 0.0)):
        domain = {"degrees": Interval(low, low + 15, bins=15, decimals=1), "side": [0, 1]}
        rows = fitted(table, domain).sample(5_000)
        assert 0.9 < rows["degrees"].std() / table["degrees"].std() < 1.15  # it was 1.3 for warm
