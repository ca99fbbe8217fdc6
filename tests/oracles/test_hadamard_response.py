"""Hadamard response: all numbers of blocks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import hadamard

from skdp.exact import exp_bounds
from skdp.oracles import HadamardResponse
from skdp.randomness import ONE, DigestSource, SeededSource
from tests.conftest import each
from tests.oracles.conftest import all_reports, check_channel

SHAPES = [(k, blocks) for k in (2, 3, 4, 7, 8) for blocks in (1, 2, 4, 8)]


def test_every_index_keeps_the_promise(epsilon):
    for k, blocks in SHAPES:
        oracle = HadamardResponse(k, epsilon, n_blocks=blocks)
        assert check_channel(oracle, oracle.channel(), epsilon) == oracle.worst_ratio
        assert oracle.epsilon == pytest.approx(min(epsilon, math.log(1 + 2 * blocks * (ONE - 1))), rel=1e-3)
        less = oracle.lie - Fraction(1, ONE)
        assert less == 0 or 1 + 2 * blocks * (1 - less) / less > exp_bounds(min(epsilon, 100))[1]


@each("k, blocks", SHAPES)
def test_every_draw_follows_the_channel(exact_law, k, blocks):
    oracle = HadamardResponse(k, 1.0, n_blocks=blocks)
    for code, row in enumerate(oracle.channel()):
        law = exact_law(oracle, np.uint8(code))
        assert [law[index,] for index in range(oracle.n_indices)] == row


def test_the_supports_are_the_rows_of_the_matrix():
    oracle = HadamardResponse(7, 1.0, n_blocks=1)
    assert ((hadamard(8)[1:] > 0) == oracle.supports(all_reports(oracle)).T).all()


@each("k", [2, 3, 4, 14, 100, 1000])
@each("epsilon", [0.1, 1.0, 2.0, 4.0, 8.0])
def test_the_number_of_blocks_is_the_best_one(k, epsilon):
    errors = [HadamardResponse(k, epsilon, n_blocks=1 << power).mean_squared_error for power in range(k.bit_length())]
    assert HadamardResponse(k, epsilon).mean_squared_error == min(errors)
    assert HadamardResponse(k, min(epsilon, 1.0)).n_blocks <= 2


@each("k blocks", [*SHAPES, (100, 4), (1000, 1), (1000, 16)])
def test_the_error_is_the_mean_variance_of_uniform_data(k, blocks):
    oracle = HadamardResponse(k, 1.5, n_blocks=blocks)
    assert oracle.variance(np.full(k, 10.0), 10 * k).sum() == pytest.approx(10 * k * k * oracle.mean_squared_error)


def test_errors_of_estimates_cancel_in_the_total_of_a_block():
    """The variance depends on the total of the block: that of the positive estimates alone would be too large."""
    oracle = HadamardResponse(6, 1.0, n_blocks=2)
    noisy, clean = (oracle.variance(counts, 100) for counts in ([60, -30, -30, 50, 50, 0], [0, 0, 0, 50, 50, 0]))
    assert noisy[1:] == pytest.approx(clean[1:])
    assert noisy[0] >= 60 * (oracle.square_means[0] - 1)


@each("k, blocks, n", [(5, 1, 70_000), (5, 2, 70_000), (300, 1, 900), (300, 4, 900)])
def test_the_tally_is_the_sum_of_signs(k, blocks, n):
    oracle = HadamardResponse(k, 1.0, n_blocks=blocks)
    reports = oracle.report((np.arange(n) % k).astype(np.uint16), SeededSource(k, blocks))
    signs = oracle.unbiased(reports) * float(1 - oracle.lie)
    assert oracle.tally(reports).tolist() == np.rint(signs.sum(axis=0)).astype(int).tolist()
    assert (oracle.supports(reports) == (signs > 0.5)).all()


@each("reports", [np.array([16]), np.array([-1]), np.array([0.0]), np.zeros((2, 1), np.uint32), np.array(["1"])])
def test_what_are_no_indices_is_refused(reports):
    with pytest.raises(ValueError, match="reports must be"):
        HadamardResponse(15, 1, n_blocks=1).tally(reports)


@each("blocks, error", [(3, ValueError), (0, ValueError), (2.0, TypeError)])
def test_numbers_of_blocks_out_of_range_are_refused(blocks, error):
    with pytest.raises(error):
        HadamardResponse(15, 1, n_blocks=blocks)


@each("k, n_blocks", [(5, 1), (300, 4)])
def test_many_permanent_reports_are_those_of_each_record_alone(k, n_blocks):
    """Of more records than are drawn at a time: the ties of coins are of their own rows."""
    oracle, n = HadamardResponse(k, 1.0, n_blocks=n_blocks), 5_000
    codes = (np.arange(n) * 7 % k).astype(np.uint16)
    digests = SeededSource("digests").bytes(32 * n).reshape(n, 32)
    together = oracle._draw_keyed(codes, digests)
    assert together.dtype == np.uint32
    for row in (0, 1, 4_095, 4_096, n - 1, *range(100, 400)):
        assert oracle._draw_keyed(codes[row : row + 1], digests[row : row + 1])[0] == together[row]
        assert oracle.report(codes[row : row + 1], DigestSource(digests[row]))[0] == together[row]
