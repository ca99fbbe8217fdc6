from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import Domain, FrequencyOracleEncoder, PrivacyLeakWarning, recommend_strategy
from skdp.oracles import CountMeanSketch
from tests.conftest import each, often


@pytest.mark.parametrize(
    ("sizes", "joint", "margins"),
    [
        ((2, 5), (4.10, 53.7), (11.4, 7.28, 3.92, 12.0)),
        ((2, 14), (10.3, 149), (74.5, 19.8, 3.92, 33.8)),
        ((5, 9), (16.0, 266), (118, 72.9, 12.0, 21.8)),
    ],
)
def test_published_figures_of_randomised_response(sizes, joint, margins):
    domain = Domain({"a": range(sizes[0]), "b": range(sizes[1])})
    table = recommend_strategy(domain, 1.0, oracle="randomized_response")["error"]
    assert [table["joint"], table["split"]] == pytest.approx(joint, rel=0.005)
    assert np.isnan(table["sample"])
    wide = recommend_strategy(domain, 1.0, target="margins", oracle="randomized_response")
    found = [wide.loc[row, column] for row in ("joint", "split") for column in ("a", "b")]
    assert found == pytest.approx(margins, rel=0.005)


@pytest.mark.long
@pytest.mark.parametrize(
    "oracle",
    often(
        [
            "randomized_response",
            "subset_selection",
            "optimized_unary_encoding",
            "symmetric_unary_encoding",
            "local_hashing",
        ],
        ["optimized_unary_encoding"],
    ),
)
def test_expected_errors_are_those_of_runs(oracle):
    """Mean squared errors of 25 runs within 45 % of the closed forms."""
    rng = np.random.default_rng(0)
    n = 4_000
    frame = pd.DataFrame({"a": rng.integers(0, 2, n), "b": rng.integers(0, 4, n)})
    domain = Domain({"a": [0, 1], "b": [0, 1, 2, 3]})
    joint = recommend_strategy(domain, 2.0, oracle=oracle)["error"]
    margins = recommend_strategy(domain, 2.0, target="margins", oracle=oracle)["error"]
    true = frame.groupby(["a", "b"]).size().to_numpy() / n
    shares = np.concatenate([frame["a"].value_counts().sort_index(), frame["b"].value_counts().sort_index()]) / n
    found: dict[tuple[str, str], list[float]] = {}
    for strategy in ("joint", "split", "sample"):
        encoder = FrequencyOracleEncoder(
            2.0, oracle=oracle, strategy=strategy, categories=domain, max_report_bytes=None, random_state=1
        ).fit(frame)
        for _ in range(25):
            reports = encoder.transform(frame)
            frequencies = encoder.estimate_frequencies(reports)["frequency"]
            if strategy == "joint":
                cells = frequencies.to_numpy()
                found.setdefault(("joint", strategy), []).append(np.mean((cells - true) ** 2))
                table = cells.reshape(2, 4)
                frequencies = np.concatenate([table.sum(axis=1), table.sum(axis=0)])
            elif strategy == "split":
                cells = encoder.estimate_joint_counts(reports)["count"].to_numpy() / n
                found.setdefault(("joint", strategy), []).append(np.mean((cells - true) ** 2))
            found.setdefault(("margins", strategy), []).append(np.mean((np.asarray(frequencies) - shares) ** 2))
    for (target, strategy), errors in found.items():
        expected = (joint if target == "joint" else margins)[strategy]
        assert n * np.mean(errors) == pytest.approx(expected, rel=0.45), (target, strategy)


def test_the_floor_of_a_sketch_is_the_error_of_many_equal_records():
    """Bias by collisions, over seeds: all records are one value of all columns, and there is no other noise."""
    sizes, d, m = (2, 3), 2, 5
    domain = Domain({"a": range(2), "b": range(3)})
    found = {
        target: recommend_strategy(domain, 1.0, oracle="count_mean_sketch", target=target)
        for target in ("joint", "margins")
    }

    def limits(k, seed):
        """The limit of the estimated frequencies if all records are value 0."""
        family = CountMeanSketch(k, 1.0, n_functions=d, n_buckets=m, seed=seed).hash_family
        buckets = family(np.arange(d)[:, None], np.arange(k))
        meet = float(family.collision)
        return ((buckets == buckets[:, :1]).mean(axis=0) - meet) / (1 - meet)

    joint, split, margins = [], [], []
    for seed in range(200):
        cells = limits(6, seed)
        one, other = limits(2, seed), limits(3, seed + 1_000)
        joint.append(np.mean((cells - np.eye(6)[0]) ** 2))
        split.append(np.mean((np.outer(one, other).ravel() - np.eye(6)[0]) ** 2))
        table = cells.reshape(sizes)
        parts = np.r_[table.sum(axis=1) - np.eye(2)[0], table.sum(axis=0) - np.eye(3)[0]]
        margins.append(np.mean(parts**2))

    def expected(**options):
        floor = {k: CountMeanSketch(k, 1.0, **options).error_floor for k in (2, 3, 6)}
        return {
            ("joint", "joint"): floor[6],
            ("joint", "split"): ((2 * floor[2] + 1) * (3 * floor[3] + 1) - 1) / 6,
            ("margins", "joint"): np.average([3 * floor[6], 2 * floor[6]], weights=sizes),
            ("margins", "split"): np.average([floor[2], floor[3]], weights=sizes),
        }

    small = expected(n_functions=d, n_buckets=m)
    for errors, (_, floor) in zip((joint, split, margins), small.items(), strict=False):
        assert np.mean(errors) == pytest.approx(floor, abs=5 * np.std(errors) / len(errors) ** 0.5)
    for (target, strategy), floor in expected().items():
        assert found[target]["error_floor"][strategy] == pytest.approx(floor)
    assert (recommend_strategy(domain, 1.0)["error_floor"].dropna() == 0).all()


def test_the_best_strategy_comes_first():
    domain = Domain({name: range(4) for name in "abcde"})
    assert recommend_strategy(domain, 1.0).index[0] == "joint"
    assert recommend_strategy(domain, 1.0, target="margins").index[0] == "sample"


@each(
    "arguments, error, match",
    [
        ({"domain": 3}, TypeError, "domain must be a Domain"),
        ({"target": "both"}, ValueError, "target must be"),
        ({"oracle": "best"}, ValueError, "oracle must be one of"),
        ({"epsilon": 0}, ValueError, "epsilon must be"),
        ({"shares": "equal"}, ValueError, "shares must be"),
    ],
)
def test_odd_arguments(arguments, error, match):
    with pytest.raises(error, match=match):
        recommend_strategy(**{"domain": Domain({"a": [1, 2], "b": [1, 2]}), "epsilon": 1.0} | arguments)


def test_every_declaration_of_an_encoder_is_taken():
    declared = {"a": ["x", "y"], "b": [1, 2, 3]}
    expected = recommend_strategy(Domain(declared), 1.0)
    frame = pd.DataFrame({"a": ["y", "x", "x"], "b": [1, 2, 3]})
    enums = pl.DataFrame(frame.to_dict("list")).select(pl.col("a").cast(pl.Enum(["x", "y"])))
    pd.testing.assert_frame_equal(recommend_strategy(declared, 1.0), expected)
    pd.testing.assert_frame_equal(recommend_strategy(list(declared.values()), 1.0), expected)
    with pytest.warns(PrivacyLeakWarning, match="declare them with domain="):
        pd.testing.assert_frame_equal(recommend_strategy(frame, 1.0), expected)
    one = recommend_strategy(Domain({"a": ["x", "y"]}), 1.0)
    pd.testing.assert_frame_equal(recommend_strategy(enums, 1.0), one)


@each("domain, error, message", [("auto", ValueError, "which table"), (None, TypeError, "domain must be a Domain"),
     ([], ValueError, "at least one column"), ({"a": "xy"}, TypeError, "column 'a'")])  # fmt: skip
def test_what_declares_nothing(domain, error, message):
    with pytest.raises(error, match=message):
        recommend_strategy(domain, 1.0)
