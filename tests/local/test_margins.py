"""Counts of some columns of joint reports: sums of cells, with the standard error of the sum."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from tests.conftest import often

VALUES = {"sex": ["f", "m"], "age": ["young", "middle", "old"]}
PEOPLE = pd.DataFrame({"sex": list("fmffmf") * 50, "age": ["old", "young", "middle", "middle", "old", "old"] * 50})
KINDS = {
    "response": RandomizedResponseEncoder(1.0, strategy="joint", categories=VALUES),
    "unary": UnaryEncodingTransformer(1.0, strategy="joint", categories=VALUES),
    "symmetric": UnaryEncodingTransformer(1.0, variant="symmetric", strategy="joint", categories=VALUES),
    "subset": SubsetSelectionEncoder(0.5, strategy="joint", categories=VALUES),
    "hashing": LocalHashingEncoder(1.0, strategy="joint", categories=VALUES),
    "hadamard": HadamardResponseEncoder(1.0, strategy="joint", categories=VALUES),
    "sketch": FrequencyOracleEncoder(2.0, oracle="count_mean_sketch", strategy="joint", categories=VALUES),
}
FROM_TALLIES = ["response", "unary", "symmetric", "subset"]


def exact_variance(encoder, column, label):
    """Return the variance of a margin for the true counts, from the channel: all reports of each true cell."""
    (oracle,), domain = encoder.protocol_.oracles, encoder.protocol_.domain
    reports = np.array(list(np.ndindex(*(2,) * oracle.k)), np.uint8) if oracle.has_bits else np.arange(oracle.k)
    chances = np.array(oracle.channel(), float)
    if oracle.has_bits:  # the channel lists the possible reports in an order of its own: probabilities from p and q
        chances = bit_channel(oracle, reports)
    inside = np.array([cell[domain.columns.index(column)] == label for cell in domain.cells()])
    added = oracle.unbiased(reports.astype(reports.dtype)) @ inside
    means, squares = chances @ added, chances @ added**2
    np.testing.assert_allclose(means, inside, atol=1e-9)
    true = PEOPLE.value_counts(list(VALUES)).reindex(domain.cells()).fillna(0).to_numpy()
    return float(true @ (squares - means**2))


def bit_channel(oracle, reports):
    if isinstance(oracle.sampler().get("size"), int):  # sets of one size: of those with and without the true value
        size, p = oracle.subset_size, float(oracle.p)
        proper = reports.sum(axis=1) == size
        rows = []
        for value in range(oracle.k):
            own = (reports[:, value] == 1) & proper
            other = (reports[:, value] == 0) & proper
            rows.append(np.where(own, p / own.sum(), np.where(other, (1 - p) / other.sum(), 0)))
        return np.array(rows)
    p, q = float(oracle.p), float(oracle.q)
    heads = np.where(np.eye(oracle.k, dtype=bool), p, q)[:, np.newaxis, :]
    return np.where(reports == 1, heads, 1 - heads).prod(axis=2)


@pytest.mark.parametrize("name", FROM_TALLIES)
@pytest.mark.parametrize("column", VALUES)
def test_the_closed_form_is_the_variance_of_all_reports(name, column, monkeypatch):
    encoder = KINDS[name].fit(PEOPLE)
    true = PEOPLE.value_counts(list(VALUES)).reindex(encoder.protocol_.domain.cells()).fillna(0).to_numpy()
    tally = encoder.tally(encoder.transform(PEOPLE))
    (oracle,) = encoder.protocol_.oracles
    monkeypatch.setattr(type(oracle), "estimate", lambda self, support, n: true)  # the plug-in is the truth
    found = encoder.estimate_counts(tally, columns=[column])
    for label in VALUES[column]:
        assert found.loc[label, "std_error"] ** 2 == pytest.approx(exact_variance(encoder, column, label))


@pytest.mark.parametrize("name", KINDS)
def test_margins_are_sums_of_cells(name):
    encoder = KINDS[name].fit(PEOPLE)
    reports = encoder.transform(PEOPLE)
    for postprocess in ("none", "simplex", "clip"):
        cells = encoder.estimate_counts(reports, postprocess=postprocess)
        for column in VALUES:
            margin = encoder.estimate_counts(reports, columns=[column], postprocess=postprocess)
            assert margin.index.tolist() == VALUES[column]
            np.testing.assert_allclose(margin["count"], cells.groupby(level=column)["count"].sum()[VALUES[column]])
    turned = encoder.estimate_counts(reports, columns=["age", "sex"])
    assert turned.index.names == ["age", "sex"]
    same = encoder.estimate_counts(reports).reorder_levels(["age", "sex"]).reindex(turned.index)
    np.testing.assert_allclose(turned["count"], same["count"])
    if name in FROM_TALLIES:
        np.testing.assert_allclose(turned["std_error"], same["std_error"])
        pd.testing.assert_frame_equal(
            encoder.estimate_counts(encoder.tally(reports), columns=["sex"]),
            encoder.estimate_counts(reports, columns=["sex"]),
        )


@pytest.mark.long
@pytest.mark.parametrize("name", often(KINDS, ["unary"]))
def test_intervals_cover(name):
    """95 % intervals over 50 releases: 74 % of them cover, but for a chance of 1e-7 for each margin."""
    encoder = KINDS[name].fit(PEOPLE)
    encoder.set_params(random_state=5).fit(PEOPLE)
    covered = {column: [] for column in VALUES}
    for _ in range(50):
        reports = encoder.transform(PEOPLE)
        for column in VALUES:
            found = encoder.estimate_counts(reports, columns=[column])
            true = PEOPLE[column].value_counts().reindex(found.index)
            covered[column].append(found["lower"].le(true) & found["upper"].ge(true))
    encoder.set_params(random_state=None)
    assert all((np.mean(inside, axis=0) > 0.74).all() for inside in covered.values())


def test_the_error_is_not_that_of_independent_cells():
    """Errors of cells of randomised response make up for each other, in part."""
    encoder = KINDS["response"].fit(PEOPLE)
    reports = encoder.transform(PEOPLE)
    cells, margin = encoder.estimate_counts(reports), encoder.estimate_counts(reports, columns=["sex"])
    added = cells["std_error"].pow(2).groupby(level="sex").sum() ** 0.5
    assert (margin["std_error"] < 0.9 * added).all()


@pytest.mark.parametrize("strategy", ["split", "sample"])
def test_other_strategies_have_rows_of_the_columns(strategy):
    encoder = RandomizedResponseEncoder(2.0, strategy=strategy, categories=VALUES).fit(PEOPLE)
    reports = encoder.transform(PEOPLE)
    every = encoder.estimate_counts(reports)
    one = encoder.estimate_counts(reports, columns=["age"])
    assert one.index.tolist() == VALUES["age"]
    np.testing.assert_allclose(one, every.loc["age"])
    both = encoder.estimate_counts(reports, columns=["age", "sex"])
    assert both.index.tolist() == [(name, label) for name in ("age", "sex") for label in VALUES[name]]
    share = encoder.estimate_frequencies(reports, columns=["age"])
    np.testing.assert_allclose(share["frequency"] * len(PEOPLE), one["count"])


@pytest.mark.parametrize("columns", [[], ["sex", "sex"], ["height"]])
def test_columns_that_are_not_there_are_refused(columns):
    encoder = KINDS["response"].fit(PEOPLE)
    with pytest.raises(ValueError, match=r"columns must be distinct ones of \['sex', 'age'\]"):
        encoder.estimate_counts(encoder.transform(PEOPLE), columns=columns)


def test_a_tally_does_not_suffice_where_squares_are_needed():
    encoder = KINDS["hadamard"].fit(PEOPLE)
    with pytest.raises(ValueError, match="margins of HadamardResponse need the reports"):
        encoder.estimate_counts(encoder.tally(encoder.transform(PEOPLE)), columns=["sex"])


def test_intervals_of_large_counts_reach_as_far_as_their_errors():
    """The square of a count has more digits than a float: the reach must not be a difference of such squares."""
    encoder = RandomizedResponseEncoder(20.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": ["a"]}))
    support, n = np.array([3_000_000_000, 1_000_000_000]), np.array([4_000_000_000])
    found = encoder.estimate_counts(encoder.protocol_.empty_tally().with_sums([support, n, n]))
    assert ((found["upper"] - found["lower"]) / 2).tolist() == pytest.approx((1.959964 * found["std_error"]).tolist())
