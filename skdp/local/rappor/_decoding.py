"""From the bits of RAPPOR reports to counts of candidate values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigvalsh
from scipy.optimize import nnls
from sklearn.linear_model import Lasso

from skdp.oracles import MAX_REPORT_BYTES, BloomRandomizer

Method: TypeAlias = Literal["nnls", "lasso", "least_squares"]
METHODS = get_args(Method)


def decode_counts(
    rappor: BloomRandomizer,
    ones: NDArray[np.int64],
    n_reports: NDArray[np.int64],
    candidates: Sequence[bytes],
    method: Method,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Regress the debiased bit counts on the Bloom filters of the candidates."""
    gain, seen = float(rappor.on - rappor.off), np.flatnonzero(n_reports)
    if gain == 0 or seen.size == 0:
        return np.full(len(candidates), np.nan), np.full(len(candidates), np.inf)
    if 8 * seen.size * rappor.n_bits * (len(candidates) + 1) > MAX_REPORT_BYTES:
        raise ValueError(f"{len(candidates):,} candidates need more than {MAX_REPORT_BYTES:,} bytes; decode in parts")
    problem = _Regression(rappor, ones[seen], n_reports[seen], seen, candidates)
    used = problem.lasso() if method == "lasso" else np.arange(len(candidates))
    inverse = problem.inverse(used)
    if method == "least_squares":
        if inverse is None:
            raise ValueError(
                "the bits do not distinguish these candidates; take fewer candidates, more cohorts or bits, or "
                "method='nnls' or 'lasso'"
            )
        found = (inverse @ (problem.design[:, np.append(used, -1)].T @ problem.target))[:-1]
    else:
        found = problem.not_negative(used)
    counts, errors = np.zeros(len(candidates)), np.full(len(candidates), np.nan)
    counts[used] = found * problem.n
    if inverse is not None:
        errors[used] = problem.std_errors(used, inverse, counts[used])
    return counts, errors


class _Regression:
    """One row a bit of a cohort, one column a candidate, and a last column for all values that are no candidates."""

    # The debiased count of a bit is the number of records in the cohort that set it: on average, over the cohorts that
    # records draw, its share of all such records. Rows are divided by the square root of the size of their cohort,
    # which makes their errors about equal. The values outside the list set any bit equally likely, over the hash
    # functions.

    def __init__(
        self,
        rappor: BloomRandomizer,
        ones: NDArray[np.int64],
        sizes: NDArray[np.int64],
        cohorts: NDArray[np.intp],
        candidates: Sequence[bytes],
    ) -> None:
        n_bits = rappor.n_bits
        self.n, self.sizes = int(sizes.sum()), sizes
        self.filters = np.zeros((cohorts.size, n_bits, len(candidates) + 1))
        self.filters[:, :, -1] = 1 - (1 - 1 / n_bits) ** rappor.n_hashes
        for row, cohort in enumerate(cohorts.tolist()):
            for column, value in enumerate(candidates):
                self.filters[row, rappor.places(cohort, value), column] = 1
        gain, off = float(rappor.on - rappor.off), rappor.off
        expected = np.array([float(off * size) for size in sizes.tolist()])
        debiased = (ones - expected[:, None]) / gain
        weights = np.sqrt(sizes)[:, None]
        self.design = (self.filters * weights[:, :, None]).reshape(-1, len(candidates) + 1)
        self.target = (debiased / weights).ravel()
        own, other = (float(share * (1 - share)) / gain**2 for share in (rappor.on, rappor.off))
        set_share = np.clip(debiased / sizes[:, None], 0, 1).ravel()
        self.noise = set_share * own + (1 - set_share) * other
        self.most_noise = max(own, other)

    def lasso(self) -> NDArray[np.intp]:
        """Choose candidates by a lasso whose penalty exceeds the noise of every candidate that does not occur."""
        # The noise of the bits is known, so the penalty needs no cross-validation: sqrt(2 ln M) standard deviations,
        # for M candidates. The last column is projected out rather than penalised.
        rest, design = self.design[:, -1], self.design[:, :-1]
        share = rest / (rest @ rest)
        design = design - np.outer(rest, share @ design)
        target = self.target - rest * (share @ self.target)
        size = math.sqrt(self.most_noise) * float(np.linalg.norm(design, axis=0).max(initial=0))
        alpha = size * math.sqrt(2 * math.log(max(2, design.shape[1]))) / len(target)
        model = Lasso(alpha=alpha, positive=True, fit_intercept=False, max_iter=100_000)
        return np.flatnonzero(model.fit(design, target).coef_ > 0)

    def not_negative(self, used: NDArray[np.intp]) -> NDArray[np.float64]:
        design, target = self.design[:, np.append(used, -1)], self.target
        if design.shape[0] > design.shape[1]:
            basis, design = np.linalg.qr(design)
            target = basis.T @ target
        return nnls(design, target)[0][:-1]

    def inverse(self, used: NDArray[np.intp]) -> NDArray[np.float64] | None:
        """Return the inverse of the normal equations; None if they have none."""
        design = self.design[:, np.append(used, -1)]
        if design.shape[0] < design.shape[1]:
            return None
        normal = design.T @ design
        values = eigvalsh(normal)
        if values[0] <= 1e-9 * values[-1]:
            return None
        return cho_solve(cho_factor(normal), np.eye(len(normal)))

    def std_errors(
        self, used: NDArray[np.intp], inverse: NDArray[np.float64], counts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the errors of unconstrained least squares: of the randomness, and of the cohorts that records draw."""
        columns = np.append(used, -1)
        solve = inverse @ self.design[:, columns].T
        variance = (solve**2 @ self.noise) * self.n**2
        mean, square = np.zeros((2, len(columns), len(used)))
        parts = np.split(solve, len(self.sizes), axis=1)
        for part, filters, size in zip(parts, self.filters, self.sizes, strict=True):
            # What one record of each candidate (a column) adds to each count (a row), if it is in this cohort.
            effect = part @ filters[:, used] * (self.n / math.sqrt(size))
            mean += effect * (size / self.n)
            square += effect**2 * (size / self.n)
        variance += (square - mean**2) @ np.clip(counts, 0, self.n)
        return np.sqrt(variance[:-1])
