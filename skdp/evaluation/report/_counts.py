"""Errors of estimated counts by epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame
from numpy.typing import ArrayLike, NDArray

from skdp.base import check_choice
from skdp.domain import Codes, Domain
from skdp.evaluation._common import read_epsilons, shown_progress
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import count_error, two_sided
from skdp.oracles import POSTPROCESSORS, Postprocess, RandomizedResponse
from skdp.privacy import local_epsilon
from skdp.tables import read_table


@dataclass(frozen=True)
class CountStudy:
    """Tables of a study of estimated counts."""

    releases: pd.DataFrame
    errors: pd.DataFrame
    expected: pd.DataFrame

    def summary(self) -> pd.DataFrame:
        """Summarise the errors over the repeats."""
        rows = []
        expected = self.expected.to_dict("index")
        groups = self.errors.groupby(["epsilon", "postprocess"], sort=False)
        # Expected errors in closed form are those of unbiased counts only.
        for (epsilon, postprocess), errors in groups:
            row: dict[str, Any] = {
                "epsilon": epsilon,
                "postprocess": postprocess,
                "repeats": len(errors),
            }
            for name in ("l1", "l2"):
                row[f"{name}_mean"] = errors[name].mean()
                row[f"{name}_sd"] = errors[name].std()
                row[f"{name}_q05"] = errors[name].quantile(0.05)
                row[f"{name}_q95"] = errors[name].quantile(0.95)
            row["l2_rms"] = np.sqrt((errors["l2"] ** 2).mean())
            if postprocess == "none":
                for column, value in expected[epsilon].items():
                    row[f"{column}_expected"] = value
            row["coverage"] = errors["covered"].mean()
            rows.append(row)
        return pd.DataFrame(rows)


def count_study(
    frame: IntoDataFrame,
    domain: Domain,
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    n_repeats: int = 500,
    postprocess: Sequence[Postprocess] = ("none", "clip", "simplex"),
    random_state: int | None = None,
    progress: bool = False,
) -> CountStudy:
    """Release the joint counts of some columns many times and measure the errors."""
    if isinstance(n_repeats, bool) or not isinstance(n_repeats, int) or n_repeats < 1:
        raise ValueError(
            f"n_repeats must be an integer of at least 1, got {n_repeats!r}"
        )
    epsilons = read_epsilons(epsilons)
    postprocess = _read_postprocess(postprocess)
    table = read_table(frame)
    codes = declared_codes(domain, table.columns)
    # The number of the combination of values of each row.
    cells = domain.join(codes)
    true = np.bincount(cells, minlength=domain.size)
    truth = pd.Series(true, index=domain.cells(), name="true")
    releases = []
    errors = []
    expected = []
    # One bar for all epsilons, so that the time left is that of the study.
    n_releases = len(epsilons) * n_repeats
    with shown_progress(n_releases, progress, "release") as advance:
        for index, epsilon in enumerate(epsilons):
            # A separate seed for each epsilon, as all would use the same noise otherwise.
            seed = None if random_state is None else random_state + index
            encoder = RandomizedResponseEncoder(
                epsilon, strategy="joint", categories=domain, random_state=seed
            ).fit(frame)
            expected.append(_expected_errors(encoder, truth))
            for repeat in range(n_repeats):
                release = _one_release(encoder, codes)
                if repeat == 0:
                    estimate = encoder.estimate_counts(
                        release.tally, postprocess=postprocess[0]
                    )
                    releases.append(pd.concat([truth, estimate], axis=1))
                covered = release.covered_share(true)
                # All estimates are of the same reports, so that they differ by the
                # postprocessing alone.
                for name in postprocess:
                    counts = release.counts(name)
                    l1 = count_error(true, counts)
                    l2 = count_error(true, counts, metric="l2")
                    errors.append((epsilon, repeat, name, l1, l2, covered))
                advance(1)
    names = ["epsilon", "repeat", "postprocess", "l1", "l2", "covered"]
    rows = pd.Index(epsilons, name="epsilon")
    return CountStudy(
        pd.concat(releases, keys=list(epsilons), names=["epsilon"]),
        pd.DataFrame(errors, columns=names),
        pd.DataFrame(expected, index=rows, columns=["l1_mean", "l2_rms"]),
    )


def _read_postprocess(names: Sequence[Postprocess]) -> list[Postprocess]:
    """Check the names of the estimates to compare."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"postprocess must be a list of names, got {names!r}")
    names = list(names)
    for name in names:
        check_choice("each of postprocess", name, list(POSTPROCESSORS))
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"postprocess must hold at least one name, and each once, got {names!r}"
        )
    return names


@dataclass(frozen=True)
class _Release:
    """The sums of the reports of all rows, and the oracle that made them."""

    tally: Any
    oracle: Any

    def counts(self, postprocess: Postprocess) -> NDArray[np.float64]:
        """Return the estimated counts of the cells."""
        estimate = POSTPROCESSORS[postprocess]
        return estimate(self.oracle, self.tally.counts[0], self.tally.n_reports)

    def covered_share(self, true: NDArray[np.intp]) -> float:
        """Return the share of the cells whose 95 % interval holds the true count."""
        # Intervals are those of the unbiased counts, whatever the postprocessing.
        unbiased = self.counts("none")
        variances = self.oracle.variance(unbiased, self.tally.n_reports)
        reach = two_sided(0.95) * np.sqrt(variances)
        return float((np.abs(unbiased - true) <= reach).mean())


def _one_release(encoder: Any, codes: Sequence[Codes]) -> _Release:
    """Randomise coded rows and sum up their reports."""
    # As `transform` and `estimate_counts`, which would code the same rows and make a
    # table each time. All columns together are one value of one oracle.
    protocol = encoder.protocol_
    (oracle,) = encoder.oracles_
    reports = protocol.randomise(list(codes), [], encoder._randomness())
    return _Release(protocol.tally(reports), oracle)


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
