import numpy as np
import pytest
from scipy.stats import chisquare


@pytest.fixture
def fits():
    """Compare counts with probabilities by chi-square; rare outcomes are merged into one cell."""

    def p_value(observed, probabilities, n):
        observed, probabilities = np.asarray(observed, float), np.asarray(probabilities, float)
        common = probabilities * n >= 10
        cells = np.append(observed[common], n - observed[common].sum())
        expected = np.append(probabilities[common], 1 - probabilities[common].sum()) * n
        if expected[-1] < 1:  # a very rare cell: a Poisson count of at most 12 (false alarm with probability 1e-10)
            assert cells[-1] <= 12
            cells, expected = cells[:-1], expected[:-1] * (n - cells[-1]) / (n - expected[-1])
        return chisquare(cells, expected).pvalue if cells.size > 1 else 1.0

    return p_value
