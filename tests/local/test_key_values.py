"""Keys and values under one epsilon: the channel, counts and means with intervals, and the published protocols."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction
from itertools import combinations, product
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import chisquare

from skdp import KeyValueEncoder, PrivacyLedger
from skdp.engines import estimate_file, privatize, privatize_file, tally
from skdp.evaluation import audit_epsilon
from skdp.evaluation.audits._audit import exact_epsilon
from skdp.exact import exp_bounds
from skdp.local import PairTally, ReportTransformer
from skdp.local.pairs._estimation import pair_error, variances
from skdp.oracles import SetSelection, SignedUnaryEncoding
from skdp.randomness import SeededSource
from skdp.testing import privatizer_checks
from tests.conftest import each, often

KEYS = {"films": ["a", "b", "c", "d", "e"]}
ORACLES = ["set_selection", "set_unary_encoding", "pckv_grr", "pckv_ue"]
RNG = np.random.default_rng(4)
MEANS = dict(zip("abcde", (0.9, 0.5, 0.1, 0.7, 0.3), strict=True))
CELLS = [
    {key: float(RNG.random() < MEANS[key]) for key in RNG.choice(list("abcd"), RNG.integers(0, 3), replace=False)}
    for _ in range(800)
]
RATINGS = pd.DataFrame({"films": CELLS})


def encoder(epsilon=4.0, **parameters):
    return KeyValueEncoder(
        epsilon, **{"categories": KEYS, "bounds": (0, 1), "max_size": 2, "random_state": 0} | parameters
    )


PAIRS = [(("a", 1.0), ("b", 0.5)), (), (("c", 0.0),), (("c", 1.0), ("b", 0.25)), (("a", 0.0),)]
THREE = {"films": ["a", "b", "c"]}
CHECKED = {oracle: encoder(2.0, oracle=oracle, categories=THREE) for oracle in ("auto", "pckv_ue")}
CASES = [
    (name, check)
    for name, one in CHECKED.items()
    for check, _ in privatizer_checks(one, pd.DataFrame({"films": PAIRS}))
]
SLOW = ("workers", "forks", "calls_are_alike", "keep_the_guarantee", "unbiased", "errors_are_right")


@pytest.fixture(scope="module")
def checks_of():
    return {name: dict(privatizer_checks(one, pd.DataFrame({"films": PAIRS}))) for name, one in CHECKED.items()}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(*case, marks=[pytest.mark.long] * (case[0] == "auto" or any(word in case[1] for word in SLOW)))
        for case in CASES
    ],
)
def test_it_is_a_privatizer(name, check, checks_of):
    try:
        checks_of[name][check]()
    except SkipTest as skipped:
        assert "declared values" in str(skipped)  # noqa: PT017


@pytest.mark.parametrize("oracle", ORACLES)
@each("keys, size, epsilon", [(2, 1, 1.0), (2, 2, 0.2), (3, 1, 5.0), (3, 2, 1.0)])
def test_records_of_signed_keys_keep_the_promise(oracle, keys, size, epsilon):
    """Every pair of records with values at the bounds; other values are means of these."""
    fitted = encoder(epsilon, categories={"films": list(range(keys))}, max_size=size, oracle=oracle).fit(RATINGS)
    (own,) = fitted.oracles_
    rows = [row for members, row in zip(own.sets(), fitted.channel()[0], strict=True)]
    assert {sum(row) for row in rows} == {1}
    worst = max(max(column) / min(column) for column in zip(*rows, strict=True) if any(column))
    assert worst <= own.worst_ratio <= exp_bounds(epsilon)[0]
    farthest = max(sum(abs(one - other) for one, other in zip(*two, strict=True)) / 2 for two in combinations(rows, 2))
    assert farthest <= own.variation
    assert exact_epsilon(fitted) <= fitted.guarantee_.epsilon * (1 + 1e-12) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("oracle", ORACLES)
@each("size, epsilon", [((4, 1), 3.0), ((4, 2), 0.5), ((6, 2), 3.0)])
def test_moments_are_those_of_the_channel(oracle, size, epsilon):
    """Which signs of a key a report supports, one and both, for holders of each sign and for others."""
    k, m = size
    fitted = encoder(epsilon, categories={"films": list(range(k // 2))}, max_size=m, oracle=oracle).fit(RATINGS)
    (own,) = fitted.oracles_
    vectors = list(product((0, 1), repeat=k))
    for members, row in zip(own.sets(), own.channel(), strict=True):
        if len({code // 2 for code in members}) < len(members):
            continue  # two signs of a key
        for key in range(k // 2):
            minus, plus, both = (
                float(sum(share for share, bits in zip(row, vectors, strict=True) if test(bits[2 * key : 2 * key + 2])))
                for test in (lambda pair: pair[0], lambda pair: pair[1], all)
            )
            signs, held = (float(own.q), float(own.q)), own.pair_supports[1]
            if 2 * key in members or 2 * key + 1 in members:
                signs, held = (float(own.p), float(own.opposite)), own.pair_supports[0]
            expected = signs if 2 * key + 1 not in members else signs[::-1]
            assert (minus, plus, both) == pytest.approx((*expected, held), abs=1e-12)


@each("members", [(), (1,), (2, 5)])
def test_pckv_ue_draws_its_channel(members):
    oracle, n = SignedUnaryEncoding(6, 2, 1.0), 30_000
    padded = [*members, *range(6 + len(members), 8)]
    reports = oracle.report(np.array([padded] * n, np.uint8), SeededSource(0, *map(str, members)))
    row = np.array(list(map(float, oracle.channel()[oracle.sets().index(members)]))) * n
    counts = np.bincount(reports @ (1 << np.arange(6)[::-1]), minlength=len(row))
    assert counts[row == 0].sum() == 0
    assert chisquare(counts[row > 0], row[row > 0]).pvalue > 1e-4


@each("m", [1, 3, 10])
@each("epsilon", [0.3, 1.0, 4.0])
def test_set_selection_of_one_is_pckv_grr_at_its_published_budget(m, epsilon):
    """Of a key, then of its sign, with e1 = ln(m (e^eps - 1) / 2 + 1) and e2 = ln(m (e^eps - 1) + 1)."""
    keys = 20
    first, second = m * np.expm1(epsilon) / 2 + 1, m * np.expm1(epsilon) + 1
    # The published padding has two signs too; each sign of another key has half of the key's probability.
    a, b, own = first / (first + keys - 1), 1 / (first + keys - 1), second / (1 + second)
    assert a * own / (b / 2) == pytest.approx(second)
    assert a * (1 - own) / (b / 2) == pytest.approx(1)
    ours = SetSelection(2 * keys, m, epsilon, subset_size=1)
    assert float((ours.p - ours.q) * m / ours.q) == pytest.approx(second - 1)


@each("epsilon", [0.3, 1.0, 2.0, 4.0])
def test_the_published_budget_of_pckv_ue_has_the_least_variance_of_a_mean(epsilon):
    """Of all budgets with a = 1/2 that keep epsilon: p2 / (1 - p2) and 2 p2 (1 - b) / b at most e^epsilon."""
    most = math.exp(epsilon)

    def noise(p2):
        b = 2 * p2 / (most + 2 * p2)
        return b / (p2 - 0.5) ** 2

    best = minimize_scalar(noise, bounds=(0.5 + 1e-6, most / (1 + most)), method="bounded", options={"xatol": 1e-9}).x
    assert best == pytest.approx(most / (1 + most), rel=1e-4)
    own = SignedUnaryEncoding(40, 1, epsilon)
    of_signs = variances(own, 1, 0.0, 0.0)[1]
    assert float(of_signs) == pytest.approx(noise(most / (1 + most)), rel=1e-9)


@each("size", [(20, 1), (100, 5), (1000, 10)])
@each("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_best_is_never_above_the_published_ones(size, epsilon):
    keys, m = size
    row = pd.DataFrame({"films": [{}]})
    own = KeyValueEncoder(epsilon, categories={"films": range(keys)}, bounds=(0, 1), max_size=m).fit(row).oracles_[0]
    ue, grr = SignedUnaryEncoding(2 * keys, m, epsilon), SetSelection(2 * keys, m, epsilon, subset_size=1)
    assert pair_error(own) <= min(pair_error(ue), pair_error(grr))
    if m == 5:
        assert pair_error(own) < 0.3 * pair_error(ue)


@pytest.mark.long
@pytest.mark.parametrize("oracle", often(ORACLES, ["pckv_ue"]))
def test_intervals_cover(oracle):
    """Of 50 collections of the same records, whose values are at the bounds."""
    fitted, frame = encoder(oracle=oracle).fit(RATINGS), pd.concat([RATINGS] * 50, ignore_index=True)
    reports = fitted.transform(frame)
    counts = pd.Series([key for cell in CELLS for key in cell]).value_counts().reindex(list("abcde"), fill_value=0)
    truth = [np.mean([cell[key] for cell in CELLS if key in cell]) for key in "abcd"]
    inside, means, errors = [], [], []
    for start in range(0, len(frame), 800):
        found = fitted.estimate_counts(reports[start : start + 800])
        mean = fitted.estimate_mean(reports[start : start + 800]).loc[list("abcd")]
        inside.append((found["lower"] <= counts) & (counts <= found["upper"]))
        means.append((mean["lower"] <= truth) & (truth <= mean["upper"]))
        errors.append((found["count"] - counts) / found["std_error"])
    assert np.mean(inside) == pytest.approx(0.95, abs=0.04)
    assert 0.91 <= np.mean(means) <= 1
    assert np.abs(np.mean(errors, axis=0)).max() < 4 / math.sqrt(50)
    assert (np.array(errors) ** 2).mean() == pytest.approx(1, abs=0.25)


@pytest.mark.slow
def test_means_of_many_records():
    """Values between the bounds, of any scale, beyond them, and of keys that come twice."""
    cells = [[("a", 12.5), ("b", 30.0)], [("b", 12.0), ("b", 18.0)], [("c", -5.0)], []] * 20_000
    fitted = encoder(4.0, bounds=(10, 20)).fit(pd.DataFrame({"films": cells}))
    found = fitted.estimate_mean(fitted.transform(pd.DataFrame({"films": cells})))
    assert (np.abs(found["mean"] - [12.5, 17.5, 10, np.nan, np.nan])[:3] < 5 * found["std_error"][:3]).all()
    assert (found["std_error"][:3] < 0.2).all()
    assert (found["upper"] - found["lower"])[3:].min() > 5  # nobody holds these keys


def test_frames_of_every_kind_give_the_same_reports():
    expected = encoder().fit_transform(RATINGS).to_numpy()
    structs = [[{"key": key, "value": value} for key, value in cell.items()] for cell in CELLS]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.float64())]))
    frames = {
        "lists of pairs": pd.DataFrame({"films": [list(cell.items()) for cell in CELLS]}),
        "lists of mappings": pd.DataFrame({"films": structs}),
        "polars": pl.DataFrame({"films": structs}),
        "pyarrow": pa.table({"films": pa.array(structs, kind)}),
        "pyarrow, slice": pa.table({"films": pa.array([structs[0], *structs], kind)}).slice(1),
        "pyarrow, map": pa.table(
            {"films": pa.array([list(cell.items()) for cell in CELLS], pa.map_(pa.string(), pa.float64()))}
        ),
    }
    for name, frame in frames.items():
        reports = encoder().fit_transform(frame)
        reports = reports.to_pandas() if isinstance(reports, pa.Table) else reports
        assert np.array_equal(np.asarray(reports), expected), name


@each(
    "cells",
    [
        ["a", "b"],
        [{"a": 1.0}, None],
        [["a"], ["b"]],
        [[("a", 1.0, 2.0)], []],
        [{"a": "high"}, {}],
        [{"a": None}, {}],
        [{"a": math.nan}, {}],
        [{"a": math.inf}, {}],
        [{"secret": 1.0}, {}],
    ],
)
def test_what_is_no_pair_is_refused(cells):
    column = np.empty(2, object)
    column[:] = cells
    ledger = PrivacyLedger(epsilon=5)
    fitted = encoder(ledger=ledger).fit(RATINGS)
    with pytest.raises(ValueError, match="'films'") as caught:
        fitted.transform(pd.DataFrame({"films": column}))
    assert caught.value.__context__ is None
    assert "secret" not in str(caught.value)
    assert ledger.report().empty


def test_undeclared_keys_may_be_left_out():
    ignoring, strange = encoder(handle_unknown="ignore"), pd.DataFrame({"films": [{"x": math.nan, "a": 1.0}, {"y": 2}]})
    known = pd.DataFrame({"films": [{"a": 1.0}, {}]})
    assert ignoring.fit(known).transform(strange).equals(ignoring.fit(known).transform(known))


@each(
    "parameters, message",
    [
        ({"categories": None}, "categories must be declared"),
        ({"bounds": None}, "bounds must be declared"),
        ({"bounds": (1, 1)}, "finite with low < high"),
        ({"oracle": "local_hashing"}, "oracle must be one of"),
        ({"handle_unknown": "uniform"}, "handle_unknown must be"),
        ({"max_size": 0}, "max_size must be between 1"),
        ({"epsilon": -1}, "epsilon must be"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        encoder(**parameters).fit(RATINGS)
    with pytest.raises(ValueError, match="even"):
        SignedUnaryEncoding(5, 1, 1.0)


@pytest.mark.parametrize("oracle", ORACLES)
def test_it_is_carried_as_json(oracle):
    fitted = encoder(oracle=oracle).fit(RATINGS)
    reports = fitted.transform(RATINGS)
    for kind in (KeyValueEncoder, ReportTransformer):
        assert kind.from_json(fitted.to_json()).tally(reports) == fitted.tally(reports)
    counted = fitted.tally(reports)
    assert PairTally.from_json(counted.to_json()) == counted
    assert (counted + counted).n_reports == 1_600
    assert fitted.estimate_mean(counted).equals(fitted.estimate_mean(reports))
    assert pickle.loads(pickle.dumps(fitted)).estimate_mean(reports).equals(fitted.estimate_mean(reports))
    with pytest.raises(ValueError, match="different parameters"):
        encoder(3.0, oracle=oracle).fit(RATINGS).estimate_counts(counted)
    content = json.loads(counted.to_json())
    for change in ({"n_reports": 5}, {"support": [[0, 1]]}, {"support": [[-1] * 10]}, {"support": []}):
        with pytest.raises(ValueError, match=r"tally|sums"):
            PairTally.from_json(json.dumps(content | change))


@pytest.mark.slow
@each(
    "parameters",
    [
        {"categories": {"mapping": [["films", list(range(1 << 17))]]}, "max_size": 1024},
        {"max_size": 10**30},
        {"bounds": {"mapping": [["films", [{"float": "nan"}, 5]]]}},
        {"bounds": [0, 1e308]},
        {"oracle": None},
    ],
)
def test_hostile_texts_are_refused(parameters):
    content = json.loads(encoder().fit(RATINGS).to_json())
    content["parameters"] |= parameters
    with pytest.raises(ValueError, match=r"cannot be read|misread|guarantee"):
        ReportTransformer.from_json(json.dumps(content))


def test_engines():
    fitted = encoder().fit(RATINGS)
    structs = [[{"key": key, "value": value} for key, value in cell.items()] for cell in CELLS]
    many = pa.table({"films": structs * 20})
    for frame in (ds.dataset(many), pl.from_arrow(many).lazy()):
        reports = privatize(frame, encoder(random_state=None))
        found = fitted.estimate_mean(tally(reports, fitted)).loc[list("abcd")]
        truth = [np.mean([cell[key] for cell in CELLS if key in cell]) for key in "abcd"]
        assert (np.abs(found["mean"] - truth) < 5 * found["std_error"]).all()


def test_files_say_what_they_hold(tmp_path):
    """The protocol is carried by the file; counts may be clipped, and are refused another way."""
    structs = [[{"key": key, "value": value} for key, value in cell.items()] for cell in CELLS]
    pq.write_table(pa.table({"films": structs}), tmp_path / "ratings.parquet")
    privatize_file(tmp_path / "ratings.parquet", tmp_path / "reports.parquet", encoder(0.1, random_state=None))
    plain = estimate_file(tmp_path / "reports.parquet")
    cut = estimate_file(tmp_path / "reports.parquet", postprocess="clip")
    assert cut["count"].equals(plain["count"].clip(0, 800))
    assert (cut["lower"] >= 0).all()
    assert cut["std_error"].equals(plain["std_error"])
    with pytest.raises(ValueError, match="postprocess must be one of"):
        estimate_file(tmp_path / "reports.parquet", postprocess="simplex")


@pytest.mark.long
@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize("oracle", often(ORACLES, ["pckv_ue"]))
def test_an_audit_finds_no_more_than_the_promise(oracle):
    found = audit_epsilon(encoder(2.0, oracle=oracle, random_state=None), n_draws=2_000, random_state=1)
    assert found.epsilon_lower <= 2


def test_two_columns_share_epsilon():
    frame = pd.DataFrame({"a": [{0: 1.0}, {}], "b": [{1: 5.0}, {0: 3.0}]})
    fitted = KeyValueEncoder(2.0, categories={"a": [0, 1], "b": [0, 1]}, bounds={"a": (0, 1), "b": (1, 5)}, max_size=1)
    reports = fitted.fit_transform(frame)
    assert [float(oracle.epsilon) for oracle in fitted.oracles_] == pytest.approx([1, 1])
    assert fitted.guarantee_.epsilon <= 2
    assert Fraction(fitted.guarantee_.epsilon) > Fraction(199, 100)
    assert list(reports) == ["a_0-", "a_0+", "a_1-", "a_1+", "b_0-", "b_0+", "b_1-", "b_1+"]
    assert fitted.estimate_mean(reports).index.names == ["column", "key"]
