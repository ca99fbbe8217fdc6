"""Columns and pairs from reports: exact means and covariances, over all draws."""

import itertools

import numpy as np
import pandas as pd
import pytest

from skdp import FrequencyOracleEncoder, LocalTableEncoder, RandomizedResponseEncoder
from skdp.oracles import HadamardResponse, LocalHashing, RandomizedResponse, SubsetSelection, UnaryEncoding
from skdp.synthesis.reports import Reported, ReportedGroup, read_reported

SIZES = (2, 3)


def outcomes(oracle):
    """Return all reports of an oracle, and the probability of each given each value."""
    channel = np.array([[float(share) for share in row] for row in oracle.channel()])
    if not oracle.has_bits:
        return np.arange(oracle.n_reports)[:, np.newaxis], channel
    if isinstance(oracle, SubsetSelection):
        sets = itertools.combinations(range(oracle.k), oracle.subset_size)
        bits = [np.isin(np.arange(oracle.k), one) for one in sets]
    else:
        bits = list(itertools.product([0, 1], repeat=oracle.k))
    return np.array(bits, np.uint8)[:, np.newaxis], channel


def of_group(oracle, report):
    """Return what a record says whose two columns are one attribute."""
    return Reported(SIZES, 1, (ReportedGroup((0, 1), SIZES, oracle, oracle.tally(report), 1),))


def of_split(oracles, reports):
    """Return what a record says whose two columns are reported apart."""
    groups = tuple(
        ReportedGroup((place,), (size,), oracle, oracle.tally(report), 1)
        for place, (size, oracle, report) in enumerate(zip(SIZES, oracles, reports, strict=True))
    )
    vector = np.hstack([oracle.unbiased(report) for oracle, report in zip(oracles, reports, strict=True)])
    return Reported(SIZES, 1, groups, vector.T @ vector, np.ones((2, 2), np.int64))


def laws(case):
    """Yield for each true cell all that a record may say, with its probability."""
    if len(case) == 1:
        reports, channel = outcomes(case[0])
        for cell in range(6):
            yield cell, [(channel[cell, place], of_group(case[0], one)) for place, one in enumerate(reports)]
        return
    (first, second), (one, two) = zip(*map(outcomes, case), strict=True)
    for cell, (v, w) in enumerate(itertools.product(range(2), range(3))):
        yield (
            cell,
            [
                (one[v, i] * two[w, j], of_split(case, (first[i], second[j])))
                for i, j in itertools.product(range(len(first)), range(len(second)))
            ],
        )


def cell_of(clique, cell):
    return np.eye(6)[cell].reshape(SIZES).sum(axis=tuple({0, 1} - set(clique))).ravel()


CASES = {
    "joint response": (RandomizedResponse(6, 1.0),),
    "joint subsets": (SubsetSelection(6, 1.0),),
    "joint bits": (UnaryEncoding(6, 1.5),),
    "split response": (RandomizedResponse(2, 1.0), RandomizedResponse(3, 0.7)),
    "response and bits": (RandomizedResponse(2, 1.0), UnaryEncoding(3, 1.0)),
    "Hadamard and response": (HadamardResponse(2, 1.0), HadamardResponse(3, 1.5)),
    "bits and subsets": (UnaryEncoding(2, 2.0), SubsetSelection(3, 1.0, subset_size=2)),
}


@pytest.mark.parametrize("clique", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("name", CASES)
def test_counts_are_unbiased_and_their_covariances_exact(name, clique):
    moments = {}
    for cell, drawn in laws(CASES[name]):
        weights = np.array([weight for weight, _ in drawn])
        counts = np.array([found.counts(clique).ravel() for _, found in drawn])
        mean = weights @ counts
        np.testing.assert_allclose(mean, cell_of(clique, cell), atol=1e-9)
        moments[cell] = (counts.T * weights) @ counts - np.outer(mean, mean)
    # Records of independent columns: the covariances of records add up.
    shares = np.outer([0.3, 0.7], [0.2, 0.3, 0.5])
    expected = sum(share * moments[cell] for cell, share in enumerate(shares.ravel()))
    asked = shares if len(clique) == 2 else shares.sum(axis=1 - clique[0])
    np.testing.assert_allclose(found_at(name).covariance(clique, asked), expected, atol=1e-9)
    # Of dependent ones too, the variances are exact.
    shares = np.array([[0.5, 0.0, 0.1], [0.0, 0.4, 0.0]])
    expected = sum(share * np.diag(moments[cell]) for cell, share in enumerate(shares.ravel()))
    asked = shares if len(clique) == 2 else shares.sum(axis=1 - clique[0])
    np.testing.assert_allclose(found_at(name).variances(clique, asked).ravel(), expected, atol=1e-9)


def found_at(name):
    """Return one of the things that a record may say: the covariances are those of any."""
    return next(laws(CASES[name]))[1][0][1]


def test_a_sample_adds_that_of_drawing_records():
    # Of 10 records, all of cell (0, 0) or all others, 4 report the group: drawn without replacement.
    oracle = RandomizedResponse(6, 1.0)
    whole = Reported(SIZES, 10, (ReportedGroup((0, 1), SIZES, oracle, np.full(6, 2), 10),))
    part = Reported(SIZES, 10, (ReportedGroup((0, 1), SIZES, oracle, np.array([2, 2, 0, 0, 0, 0]), 4),))
    shares = np.full(SIZES, 1 / 6)
    noise = whole.covariance((0, 1), shares) * 10 / 4
    true = np.repeat(np.arange(6), 10)[::6]  # ten records, as even as may be: the spread is that of the shares
    assert len(true) == 10
    spread = 100 / 4 * (np.eye(6) / 6 - 1 / 36) * 6 / 9
    np.testing.assert_allclose(part.covariance((0, 1), shares), noise + spread)
    np.testing.assert_allclose(part.variances((0, 1), shares).ravel(), np.diag(noise + spread))
    assert part.counts((0, 1)).sum() == pytest.approx(10)


def test_nothing_is_known_without_reports():
    oracle = RandomizedResponse(2, 1.0)
    groups = (ReportedGroup((0,), (2,), oracle, np.array([1, 2]), 3), ReportedGroup((1,), (2,), oracle, np.zeros(2), 0))
    reported = Reported((2, 2), 3, groups)
    assert [reported.size_of(clique) for clique in [(0,), (1,), (0, 1)]] == [3, 0, 0]


def test_hashed_reports_are_as_others():
    oracle = LocalHashing(5, 1.0)
    group = ReportedGroup((0,), (5,), oracle, np.arange(5), 10)
    covariance = Reported((5,), 10, (group,)).covariance((0,), np.full(5, 0.2))
    np.testing.assert_allclose(np.diag(covariance), oracle.variance(np.full(5, 2), 10))


DOMAIN = {"a": ["x", "y", "z"], "b": [0, 1], "c": ["no", "yes"], "d": range(4)}


def table(n):
    rng = np.random.default_rng(0)
    b = rng.integers(0, 2, n)
    a = np.where(rng.random(n) < 0.7, np.where(b, "x", "y"), "z")
    return pd.DataFrame({"a": a, "b": b, "c": rng.choice(["no", "yes"], n, p=[0.8, 0.2]), "d": rng.integers(0, 4, n)})


@pytest.mark.parametrize(
    "encoder",
    [
        RandomizedResponseEncoder(3.0, categories=DOMAIN, random_state=0),
        FrequencyOracleEncoder(3.0, categories=DOMAIN, oracle="subset_selection", random_state=0),
        LocalTableEncoder(3.0, categories=DOMAIN, purpose="pairs", strategy="weighted", random_state=0),
        LocalTableEncoder(3.0, categories=DOMAIN, purpose="pairs", strategy="groups", random_state=0),
        LocalTableEncoder(3.0, categories=DOMAIN, purpose="pairs", strategy="overlapping", random_state=0),
    ],
    ids=["response", "subsets", "sampled", "groups", "overlapping"],
)
def test_counts_are_those_that_the_encoder_estimates(encoder):
    X = table(500)
    reports = encoder.fit(X).transform(X)
    domain, reported = read_reported(encoder, reports, pairs=True)
    margins = encoder.estimate_counts(reports)["count"]
    for column, name in enumerate(domain.columns):
        np.testing.assert_allclose(reported.counts((column,)), margins.loc[name], atol=1e-6)
    for pair in itertools.combinations(range(4), 2):
        names = [domain.columns[column] for column in pair]
        if isinstance(encoder, LocalTableEncoder):
            expected = encoder.estimate_joint_counts(reports, names)
        else:
            expected = encoder.estimate_joint_counts(reports, columns=names)
        np.testing.assert_allclose(reported.counts(pair).ravel(), expected["count"], atol=1e-6)


@pytest.mark.chosen("weighted")
@pytest.mark.parametrize(
    ("strategy", "clique"),
    [("weighted", (0, 3)), pytest.param("overlapping", (0, 3), marks=pytest.mark.long), ("overlapping", (0,))],
)
def test_errors_of_samples_are_as_large_as_stated(strategy, clique):
    # Which columns a record reports is drawn with weights, and the sizes of the samples are random. If pairs overlap,
    # what is said of a column is the sum over those that have it.
    X = table(400)
    names = ["abcd"[column] for column in clique]
    values = [DOMAIN[name] for name in names]
    true = np.array([(X[names] == list(cell)).all(axis=1).sum() for cell in itertools.product(*values)])
    true = true.reshape([len(own) for own in values])
    scores = []
    for seed in range(12):
        encoder = LocalTableEncoder(6.0, categories=DOMAIN, purpose="pairs", strategy=strategy, random_state=seed).fit(
            X
        )
        _, reported = read_reported(encoder, encoder.transform(X), pairs=True)
        assert 0 < reported.size_of(clique) < 400
        errors = np.sqrt(reported.variances(clique, true / 400))
        scores.append((reported.counts(clique) - true) / errors)
    scores = np.array(scores)
    assert abs(scores.mean()) < 0.25
    assert 0.75 < scores.std() < 1.25


def test_overlapping_groups_agree_with_the_estimates_of_the_encoder():
    rng, n = np.random.default_rng(0), 3_000
    values = {"a": [0, 1], "b": range(3), "c": range(4)}
    rows = pd.DataFrame({name: rng.integers(0, len(known), n) for name, known in values.items()})
    encoder = LocalTableEncoder(3.0, categories=values, purpose="pairs", strategy="overlapping", random_state=0)
    reports = encoder.fit(rows).transform(rows)
    _, reported = read_reported(encoder, reports, pairs=True)
    margins = encoder.estimate_counts(reports)
    for column, name in enumerate(values):
        assert reported.size_of((column,)) < n
        counts = reported.counts((column,))
        assert counts == pytest.approx(margins.loc[name, "count"].to_numpy())
        variances = reported.variances((column,), np.clip(counts / n, 0, 1))
        assert np.sqrt(variances) == pytest.approx(margins.loc[name, "std_error"].to_numpy(), rel=0.01)  # plugged in
        shares = np.full(len(counts), 1 / len(counts))
        assert np.diag(reported.covariance((column,), shares)) == pytest.approx(reported.variances((column,), shares))
    for pair in itertools.combinations(range(3), 2):
        found = encoder.estimate_joint_counts(reports, [[*values][place] for place in pair])
        assert reported.counts(pair).ravel() == pytest.approx(found["count"].to_numpy())
    assert reported.size_of((0, 1, 2)) == 0
