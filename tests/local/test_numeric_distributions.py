"""The mechanism for distributions, as a user meets it: protocol, tally, intervals, errors."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import NumericPerturber
from skdp.engines import privatize
from skdp.oracles import Windows
from skdp.privacy import ReportPair, Shuffled, shuffled_guarantee
from tests.conftest import often

ROWS = pd.DataFrame({"age": np.random.default_rng(0).beta(2, 5, 400) * 100})


def perturber(epsilon=1.0, **parameters):
    settings = {"mechanism": "distribution", "bounds": (0, 100), "grid_size": 64, "random_state": 0}
    return NumericPerturber(epsilon, **settings | parameters)


def test_the_mechanism_and_its_guarantee():
    fitted = perturber().fit(ROWS)
    assert isinstance(fitted.mechanism_, Windows)
    assert 0.999 < fitted.guarantee_.epsilon <= 1
    assert fitted.guarantee_.mechanism == "mixture of windows"
    assert fitted.guarantee_.losses[0].epsilon <= 1
    (table,) = fitted.channel()
    assert len(table) == 65
    assert len(table[0]) == len(fitted.report_values_[0]) == fitted.mechanism_.n_reports


def test_the_protocol_as_json_makes_the_same_mechanism():
    fitted = perturber().fit(ROWS)
    same = NumericPerturber.from_json(fitted.to_json())
    assert same.channel() == fitted.channel()
    reports = fitted.transform(ROWS)
    pd.testing.assert_frame_equal(same.estimate_distribution(reports), fitted.estimate_distribution(reports))


def test_a_protocol_with_other_windows_is_refused():
    text = perturber().fit(ROWS).to_json()
    own = perturber().fit(ROWS).mechanism_.periodic[0]
    changed = text.replace(f"[{own[0]}, {own[1]}, {own[2]}]", f"[{own[0]}, {own[1]}, {own[2] + 1}]")
    if changed == text:  # as packed lists
        changed = text.replace('"width"', '"width "', 1)
    assert changed != text
    with pytest.raises(ValueError, match=r"protocol|parameter"):
        NumericPerturber.from_json(changed)


def test_tallies_add_and_pickles_are_the_same():
    fitted = pickle.loads(pickle.dumps(perturber().fit(ROWS)))
    reports = fitted.transform(ROWS)
    both = fitted.tally(reports[:150]) + fitted.tally(reports[150:])
    pd.testing.assert_frame_equal(fitted.estimate_distribution(both), fitted.estimate_distribution(reports))
    found = fitted.estimate_mean(both).loc["age"]
    assert abs(found["mean"] - ROWS["age"].mean()) < 5 * found["std_error"]


def test_several_columns_are_sampled():
    rows = pd.DataFrame({"a": [1.0, 50.0] * 20, "b": [2.0, 99.0] * 20})
    fitted = perturber(strategy="sample").fit(rows)
    assert fitted.transform(rows).notna().sum(axis=1).eq(1).all()


def test_an_engine_privatises_with_it():
    fitted = perturber().fit(ROWS)
    reports = privatize(pl.from_pandas(ROWS).lazy(), fitted)
    assert fitted.estimate_distribution(reports.collect())["frequency"].sum() == pytest.approx(1)


def test_shuffled_reports_are_bounded_by_the_pair_of_all_windows():
    """The local epsilon is that of the worst randomiser: no program is solved to find it."""
    fitted = perturber(Shuffled(0.5, 1e-6, n=10_000)).fit(ROWS)
    assert fitted.local_epsilon_ > 0.5
    assert fitted.mechanism_.shuffle_pair() != ReportPair.of_any(fitted.mechanism_.worst_ratio)
    assert shuffled_guarantee(fitted, 10_000, 1e-6).epsilon < 0.5


def test_permanent_reports_are_refused():
    fitted = perturber(memoize=True, secret_key=bytes(32), random_state=None)
    with pytest.raises(ValueError, match="permanent reports need a mechanism without a program, got 'distribution'"):
        fitted.fit(ROWS)


@pytest.mark.parametrize("wrong", ["distributions", "windows"])
def test_another_name_is_refused(wrong):
    with pytest.raises(ValueError, match=r"mechanism must be one of .*'distribution'"):
        perturber(mechanism=wrong).fit(ROWS)


@pytest.mark.long
@pytest.mark.parametrize("shape", often(["skewed", "ends"], ["skewed"]))
def test_intervals_cover(shape):
    """Pooled over the bins of 60 collections; the records are drawn again each time."""
    rng = np.random.default_rng(1)
    draws = {"skewed": lambda n: rng.beta(2, 5, n), "ends": lambda n: np.minimum(rng.exponential(0.5, n), 1)}
    truth = np.histogram(draws[shape](1_000_000), 4, (0, 1))[0] / 1_000_000
    fitted = perturber(2.0, bounds=(0, 1), grid_size=32).fit([[0.5]])
    inside = []
    for _ in range(60):
        found = fitted.estimate_distribution(fitted.transform(draws[shape](2_000).reshape(-1, 1)), n_bins=4)
        inside.append((found["lower"] <= truth) & (truth <= found["upper"]))
    assert np.isfinite(found["std_error"]).all()
    assert np.mean(inside) >= 0.93
