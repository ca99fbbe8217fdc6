from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import QuantileTransformer, RobustScaler

from skdp import (
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    load,
    privacy_statement,
    save,
)
from skdp.privacy import Rho
from tests.conftest import each

rng = np.random.default_rng(5)
ROWS = np.column_stack([rng.normal(50, 10, 4_000), np.where(rng.random(4_000) < 0.3, 0, rng.exponential(20, 4_000))])
BOUNDS = (0, 100)


def theirs_of(ours):
    """scikit-learn's transformer with our quantiles."""
    theirs = QuantileTransformer(n_quantiles=ours.n_quantiles, output_distribution=ours.output_distribution)
    theirs.fit(np.zeros((ours.n_quantiles, ours.n_features_in_)))
    theirs.quantiles_, theirs.references_ = ours.quantiles_, ours.references_
    return theirs


class TestQuantileTransformer:
    @pytest.mark.parametrize("output_distribution", ["uniform", "normal"])
    def test_is_scikit_learns_on_the_released_quantiles(self, output_distribution):
        ours = DPQuantileTransformer(
            5.0, n_quantiles=30, output_distribution=output_distribution, bounds=BOUNDS, random_state=0
        ).fit(ROWS)
        theirs = theirs_of(ours)
        some = np.vstack([ROWS[:50], [[0, 0], [100, 100], [-7, 300], [math.nan, 20], [math.inf, -math.inf]]])
        finite = some[:-1]
        assert ours.transform(finite) == pytest.approx(theirs.transform(finite), nan_ok=True)
        assert ours.transform(some)[-1].tolist() == ours.transform([[100, 0]])[0].tolist()
        there = ours.transform(finite)
        assert ours.inverse_transform(there) == pytest.approx(theirs.inverse_transform(there), nan_ok=True)

    def test_output_is_nearly_uniform_or_normal(self):
        fitted = DPQuantileTransformer(bounds=BOUNDS, random_state=0).fit(ROWS)
        assert fitted.quantiles_.shape == (1000, 2)
        assert (np.diff(fitted.quantiles_, axis=0) >= 0).all()
        assert fitted.quantiles_[[0, -1]].tolist() == [[0, 0], [100, 100]]
        shares = np.sort(fitted.transform(ROWS)[:, 0])
        assert np.abs(shares - np.arange(4_000) / 4_000).max() < 0.03
        assert fitted.inverse_transform(fitted.transform(ROWS))[:, 0] == pytest.approx(ROWS[:, 0], abs=0.5)
        normal = fitted.set_params(output_distribution="normal").fit_transform(ROWS)[:, 0]
        assert (normal.mean(), normal.std()) == pytest.approx((0, 1), abs=0.05)

    def test_the_bounds_may_be_found(self):
        fitted = DPQuantileTransformer(20.0, bounds="private", random_state=0).fit(ROWS)
        assert fitted.quantiles_[[0, -1]].T.tolist() == fitted.bounds_.tolist()
        assert fitted.quantiles_[500] == pytest.approx(np.median(ROWS, axis=0), rel=0.05)

    def test_what_is_missing_stays(self):
        frame = pl.DataFrame({"age": [20.0, None, 50.0, float("nan")]})
        out = DPQuantileTransformer(bounds=BOUNDS, output_distribution="normal").fit(frame).transform(frame)
        assert [value is None for value in out["age"]] == [False, True, False, True]

    @each(
        "parameters error match",
        [
            ({"n_quantiles": 2}, ValueError, "n_quantiles must be between 3 and 10000"),
            ({"n_quantiles": 10.0}, TypeError, "n_quantiles must be an integer"),
            ({"output_distribution": "beta"}, ValueError, "output_distribution must be one of"),
            ({"bounds": None}, ValueError, "bounds must be declared"),
        ],
    )
    def test_wrong_parameters_cost_nothing(self, parameters, error, match):
        ledger = PrivacyLedger(epsilon=1.0)
        with pytest.raises(error, match=match):
            DPQuantileTransformer(**{"bounds": BOUNDS, "ledger": ledger} | parameters).fit(ROWS)
        assert ledger.spent.epsilon == 0


class TestRobustScaler:
    @pytest.mark.parametrize(("unit_variance", "quantile_range"), [(False, (25.0, 75.0)), (True, (10, 50))])
    def test_is_nearly_scikit_learns(self, unit_variance, quantile_range):
        parameters = {"unit_variance": unit_variance, "quantile_range": quantile_range}
        ours = DPRobustScaler(20.0, bounds=BOUNDS, random_state=0, **parameters).fit(ROWS)
        theirs = RobustScaler(**parameters).fit(ROWS)
        assert ours.center_ == pytest.approx(theirs.center_, abs=0.2)
        assert ours.scale_ == pytest.approx(theirs.scale_, abs=0.3)
        theirs.center_, theirs.scale_ = ours.center_, ours.scale_
        assert ours.transform(ROWS) == pytest.approx(theirs.transform(ROWS))
        assert ours.inverse_transform(ours.transform(ROWS)) == pytest.approx(ROWS)

    @pytest.mark.parametrize(("with_centering", "with_scaling"), [(True, False), (False, True)])
    def test_only_what_is_asked_for_is_released(self, with_centering, with_scaling):
        scaler = DPRobustScaler(with_centering=with_centering, with_scaling=with_scaling, bounds=BOUNDS).fit(ROWS)
        assert (scaler.center_ is None, scaler.scale_ is None) == (not with_centering, not with_scaling)
        assert scaler.inverse_transform(scaler.transform(ROWS)) == pytest.approx(ROWS)

    def test_quantiles_that_coincide_are_scaled_as_if_they_differed_by_1(self):
        scaler = DPRobustScaler(1e6, bounds=BOUNDS).fit(np.full((50, 1), 7.0))
        assert (scaler.center_.item(), scaler.scale_.item()) == (7, 1)

    @each(
        "parameters error match",
        [
            ({"quantile_range": (75.0, 25.0)}, ValueError, "must be ascending"),
            ({"quantile_range": (0, 100)}, ValueError, r"above 0 and below 100 \(per cent\), got \(0, 100\)"),
            ({"quantile_range": 25.0}, TypeError, "must be a pair"),
            ({"quantile_range": ("1", 2)}, TypeError, "must be two numbers"),
            ({"quantile_range": (1e-7, 50)}, ValueError, "at least a millionth"),
            ({"unit_variance": 1}, TypeError, "unit_variance must be True or False"),
            ({"with_centering": False, "with_scaling": False}, ValueError, "nothing to scale by"),
        ],
    )
    def test_wrong_parameters_cost_nothing(self, parameters, error, match):
        ledger = PrivacyLedger(epsilon=1.0)
        with pytest.raises(error, match=match):
            DPRobustScaler(**{"bounds": BOUNDS, "ledger": ledger} | parameters).fit(ROWS)
        assert ledger.spent.epsilon == 0


@pytest.mark.parametrize("kind", [DPQuantileTransformer, DPRobustScaler])
def test_files_cost_and_statement(kind, tmp_path):
    fitted = kind(0.5, bounds=BOUNDS, random_state=0).fit(ROWS)
    save(fitted, tmp_path / "fitted.skdp")
    again = load(tmp_path / "fitted.skdp")
    assert again.transform(ROWS).tolist() == fitted.transform(ROWS).tolist()
    assert again.guarantee_ == fitted.guarantee_
    assert privacy_statement(kind(0.5, bounds=BOUNDS)).steps[0].guarantee.epsilon == 0.5
    assert "0.5" in str(privacy_statement(fitted))
    assert kind(Rho(0.1, 1e-6), bounds=BOUNDS).fit(ROWS).guarantee_.rho == 0.1
