"""Errors of estimated counts by epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame
from numpy.typing import ArrayLike

from skdp.domain import Codes, Domain
from skdp.evaluation._common import check_count, read_epsilons
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import count_error
from skdp.oracles import POSTPROCESSORS, RandomizedResponse
from skdp.privacy import local_epsilon
from skdp.tables import read_table

_Z_95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class CountStudy:
    """Estimated counts of one release, and the errors of many, at each epsilon."""

    releases: pd.DataFrame
    errors: pd.DataFrame
    expected: pd.DataFrame

    def summary(self) -> pd.DataFrame:
        """Summarize the errors over the repeats."""
        grouped = self.errors.groupby("epsilon", sort=False)
        table = pd.DataFrame({"n_repeats": grouped.size()})
        for name in ("l1", "l2"):
            table[f"{name}_mean"] = grouped[name].mean()
            table[f"{name}_q05"] = grouped[name].quantile(0.05)
            table[f"{name}_q95"] = grouped[name].quantile(0.95)
        table["l2_rms"] = grouped["l2"].agg(lambda l2: np.sqrt((l2**2).mean()))
        table["coverage"] = grouped["coverage"].mean()
        return table.join(self.expected.add_suffix("_expected")).reset_index()


def count_study(
    frame: IntoDataFrame,
    domain: Domain,
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    n_repeats: int = 500,
    random_state: int | None = None,
) -> CountStudy:
    """Release the joint counts of some columns many times and measure the errors."""
    epsilons = read_epsilons(epsilons)
    check_count(n_repeats, "n_repeats", least=1)
    codes = declared_codes(domain, read_table(frame).columns)
    true = np.bincount(domain.join(codes), minlength=domain.size)
    truth = pd.Series(true, index=domain.cells(), name="true")
    releases, errors, expected = [], [], []
    for index, epsilon in enumerate(epsilons):
        # A separate seed for each epsilon, as all would use the same noise otherwise.
        seed = None if random_state is None else random_state + index
        encoder = RandomizedResponseEncoder(
            epsilon, strategy="joint", categories=domain, random_state=seed
        ).fit(frame)
        expected.append(_expected_errors(encoder, truth))
        protocol, (oracle,) = encoder.protocol_, encoder.oracles_
        for repeat in range(n_repeats):
            # As `transform` and `estimate_counts`, which would code the rows each time.
            tally = protocol.tally(
                protocol.randomize(list(codes), [], encoder._randomness())
            )
            if repeat == 0:
                releases.append(
                    pd.concat([truth, encoder.estimate_counts(tally)], axis=1)
                )
            counts = POSTPROCESSORS["none"](oracle, tally.counts[0], tally.n_reports)
            margin = _Z_95 * np.sqrt(oracle.variance(counts, tally.n_reports))
            errors.append(
                {
                    "epsilon": epsilon,
                    "repeat": repeat,
                    "l1": count_error(true, counts),
                    "l2": count_error(true, counts, metric="l2"),
                    "coverage": float((np.abs(counts - true) <= margin).mean()),
                }
            )
    rows = pd.Index(epsilons, name="epsilon")
    return CountStudy(
        pd.concat(releases, keys=list(epsilons), names=["epsilon"]),
        pd.DataFrame(errors),
        pd.DataFrame(expected, index=rows, columns=["l1_mean", "l2_rms"]),
    )


def _expected_errors(encoder: Any, truth: pd.Series) -> tuple[float, float]:
    """Return the mean L1 error, and the root mean square L2 error, of unbiased estimates."""
    # The variances of the estimates at the true counts, in closed form.
    variances = encoder.count_variances(truth)
    # The mean of |N(0, s)| is s sqrt(2 / pi).
    l1_mean = float(np.sqrt(variances * 2 / np.pi).sum())
    return l1_mean, float(np.sqrt(variances.sum()))


def errors_by_trust(
    counts: ArrayLike,
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    delta: float = 1e-6,
) -> pd.DataFrame:
    """Compute the expected errors of counts by epsilon in three models: who is trusted decides the noise."""
    true = np.asarray(counts)
    # Who reports alone adds the most noise, who trusts a curator the least.
    is_counts = true.ndim == 1 and true.size > 1 and true.dtype.kind in "iu"
    if not is_counts or true.min() < 0 or true.sum() < 1:
        raise ValueError(
            "counts must be whole numbers of at least 0, of at least two values and "
            "one record"
        )
    epsilons = read_epsilons(epsilons)
    # Of all three, the expected root mean square of the L2 error.
    n, k = int(true.sum()), true.size
    rows = []
    for epsilon in epsilons:
        # The larger local epsilon that shuffling n reports brings down to this one.
        shuffled = local_epsilon(
            epsilon, delta=delta, n=n, reporter=partial(RandomizedResponse, k)
        )
        # The variance of discrete Laplace noise of ratio r is 2 r / (1 - r)**2.
        deviation = math.sqrt(2 * math.exp(-epsilon)) / -math.expm1(-epsilon)
        rows.append(
            {
                "local": _error_of_reports(true, epsilon),
                "shuffled": _error_of_reports(true, shuffled),
                "central": math.sqrt(k) * deviation,
            }
        )
    return pd.DataFrame(rows, index=pd.Index(epsilons, name="epsilon"))


def _error_of_reports(true: Any, epsilon: float) -> float:
    """Return the expected L2 error of counts by randomised response."""
    oracle = RandomizedResponse(true.size, epsilon)
    return math.sqrt(oracle.variance(true, int(true.sum())).sum())


def declared_codes(domain: Domain, columns: Sequence[Any]) -> list[Codes]:
    """Encode columns, without undeclared values."""
    codes = domain.encode(columns)
    for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            raise ValueError(
                f"column {name!r} holds a value, or a missing one, that the domain "
                "does not declare; bins of numbers "
                "(`edges`) must hold them all"
            )
    return codes
