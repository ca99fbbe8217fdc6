"""A lower bound of epsilon from draws of a release, to refute claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sklearn.base import BaseEstimator

from skdp.base import check_random_state
from skdp.evaluation.audits._calls import Audited
from skdp.evaluation.audits._neighbours import (
    check_confidence,
    check_count,
    check_distinct,
    check_pair,
    check_release,
    check_statistic,
    count_rows,
)
from skdp.evaluation.audits._search import search
from skdp.evaluation.audits._target import (
    claim_of,
    is_seeded,
    of_transformer,
    seed_shows,
)
from skdp.exact import log_upper
from skdp.local import Channel, OnFitOnly, ReportProtocol
from skdp.markup import html_facts
from skdp.privacy import check_delta, check_epsilon

_LEAST = 100
_MOST_ENTRIES = 1 << 18


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit."""

    epsilon_lower: float
    epsilon_claimed: float
    confidence: float
    n_draws: int
    epsilon_exact: float | None = None
    epsilon_reach: float = 0.0
    delta: float = 0.0
    event: str = ""
    neighbours: tuple[int, int] | None = None
    secure: bool = True
    findings: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether the claim is refuted: the bound, or the exact value, is above it."""
        exact = (
            self.epsilon_exact is not None and self.epsilon_exact > self.epsilon_claimed
        )
        return exact or self.epsilon_lower > self.epsilon_claimed

    @property
    def passed(self) -> bool:
        """Whether the claim is not refuted, which proves nothing."""
        return not self.rejected

    def _repr_html_(self) -> str:
        facts = [
            (
                "verdict",
                "REJECTED: the promise is false"
                if self.rejected
                else "not refuted, which proves nothing",
            ),
            ("claimed epsilon", f"{self.epsilon_claimed:.6g}"),
            (
                "lower bound",
                f"{self.epsilon_lower:.6g}, right with probability {self.confidence:.10g}",
            ),
            (
                "exact epsilon",
                None if self.epsilon_exact is None else f"{self.epsilon_exact:.6g}",
            ),
            (
                "largest possible bound",
                f"{self.epsilon_reach:.6g}, of {self.n_draws:,} draws",
            ),
            ("delta", f"{self.delta:g}" if self.delta else None),
            ("event", self.event),
            ("random bits", "secure" if self.secure else "NOT SECURE: from a seed"),
            ("findings", "; ".join(self.findings)),
        ]
        return html_facts("Audit", facts)


def audit_epsilon(
    release: BaseEstimator | Callable[..., Any],
    neighbours: Sequence[Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_draws: int | None = None,
    n_reports: int | None = None,
    confidence: float = 1 - 1e-6,
    each_row: bool = False,
    statistic: Callable[[Any], Any] | None = None,
    exact: bool = True,
    random_state: int | None = None,
) -> AuditResult:
    """Compute a lower bound on the epsilon of a release from many draws of it.

    The hypothesis that is tested is ``P(S | D) <= e^epsilon P(S | D') + delta`` for all events S and the neighbours
    that are tried. A first part of the draws (a tenth, if they are many) chooses a pair of neighbours and an event; the
    others, which are independent of that choice, count it. By the bounds of Clopper and Pearson,
    ``ln((P(S | D) - delta) / P(S | D'))`` is at least the result with probability `confidence` ([1]_). An event is a
    set of whole outputs: values, order, dtypes, names, index, attributes, warnings and errors.

    Parameters
    ----------
    release : estimator or callable
        A local transformer (fitted or not, of any package), or a function from a table to its release, such as
        ``lambda rows: DPMean(epsilon=1.0, bounds=(0, 1)).fit(rows).mean_``. Of `OnFitOnly`, only `fit_transform` is
        audited, as its `transform` releases unprotected rows; of an estimator of the central model, such as `DPMean` or
        `DPMarginalSynthesizer`, the numbers and arrays among its fitted attributes; of `SyntheticResampler`, the rows.
        Where a target is needed, it is the last column of a table.
    neighbours : pair of tables, optional
        Two public tables that differ in one record: for a local transformer, in exactly one row; for a central
        estimator, one may have a row less. Needed for these and a callable. By default, tables of one record each from
        the declared domain of a transformer: all of them if they are at most 16, otherwise those of the first, middle
        and last values, and of undeclared and missing values where these are accepted. All pairs are tried.
    epsilon, delta : float, optional
        The claim; by default that of `guarantee_` of a transformer. A callable needs epsilon. If epsilon is given,
        delta is 0 by default.
    n_draws : int, optional
        Draws over all tables, at least 100: 1,000,000 rows by default, or 10,000 calls where a release is one draw.
    n_reports : int, optional
        The number of reports of each record; all its reports are one output. By default 4 for transformers that memoise
        their reports, and so claim epsilon for any number of them, otherwise 1. m fresh reports claim m times epsilon.
    confidence : float, default=1 - 1e-6
        The probability that the lower bound is right, between 0 and 1.
    each_row : bool, default=False
        For a callable: whether the rows of a table are privatised independently, so that a table of m equal rows gives
        m draws at once. It is assumed of transformers.
    statistic : callable, optional
        A function from a release to a table of further columns, as an attacker might compute them: for instance whether
        a hashed report supports some value.
    exact : bool, default=True
        Whether to compute `epsilon_exact` where the probabilities are known.
    random_state : int, optional
        A seed for a transformer, which makes the audit reproducible; it does not count as insecure.

    Returns
    -------
    AuditResult
        The outcome, with the attributes

        - ``rejected``: whether the claim is refuted, as the bound or the exact value is above it; ``passed``: whether
          it is not, which proves nothing;
        - ``epsilon_lower``: the lower bound, wrong with probability at most ``1 - confidence``; ``epsilon_claimed``,
          ``delta``, ``confidence``: what it was tested for;
        - ``epsilon_exact``: the exact value, from the exact probabilities of the reports; None if they are unknown or
          too many. It checks the arithmetic, and the bound checks the implementation;
        - ``epsilon_reach``: the largest bound that this number of draws could have given; ``n_draws``: their number,
          rows and single calls;
        - ``event``: what distinguishes the tables best, by names of columns, never a value; ``neighbours``: the places
          of the two tables among those that were tried, the event being likelier under the first;
        - ``secure``: False if the audited randomness comes from an int seed; ``findings``: further findings, as text.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, there are no neighbours to try, or these are equal or differ in more than one
        row, the claim is unknown, or every release fails; also for a Pipeline, which has no one claim.

    Notes
    -----
    **Privacy.** Tables are invented or given, and must be public: the audit releases them many times. A ledger of the
    transformer is not charged.

    A true claim is refuted with probability ``1 - confidence`` at most, provided that the draws are independent.
    **Passing proves nothing**: other neighbours, other events or more draws might refute it. A difference that always
    shows, but only in the form of single calls, refutes claims up to about 4.

    A transformer, and a callable with ``each_row=True``, is tested twice, each at half the level: by the rows of large
    tables, and by some hundred single calls, whose form is examined too, with warnings, log records and what is
    printed. Some calls use `fit_transform` of fresh clones; tables of two rows, which show whether rows are sorted or
    share random bits; tables of seven different rows, also of polars and pyarrow; or look at what a clone keeps after a
    release: its attributes, its pickle and its text. With 800,000 draws or more, hundreds of calls with tables of 24
    rows look for what happens in one of a hundred calls only. Events are made of the values of each column, their bins,
    and the lowest set bit, which floating-point noise may reveal ([2]_); of pairs of columns and all columns together;
    of the sum of the columns' log ratios; and of the values that hashed reports support.

    For two neighbours and 10^6 draws the power is above .999999 to refute a claim of 1 for binary randomised response
    with epsilon 1.03.

    References
    ----------
    .. [1] H. Arcolezi, S. Gambs (2024). Revealing the true cost of locally differentially private protocols: an
       auditing perspective. PoPETs 2024(4).
    .. [2] I. Mironov (2012). On significance of the least significant bits for differential privacy. CCS.

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> result = audit_epsilon(encoder, n_draws=100_000, random_state=0)
    >>> result.passed, result.epsilon_exact, round(result.epsilon_lower, 1)
    (True, 1.0, 0.9)
    >>> audit_epsilon(encoder, epsilon=0.8, n_draws=100_000, random_state=0).rejected
    True
    """
    check_random_state(random_state)
    check_confidence(confidence)
    check_count(n_reports, "n_reports", least=1)
    check_count(n_draws, "n_draws", least=_LEAST)
    check_statistic(statistic)
    check_pair(neighbours)
    check_release(release)
    secure, findings = True, []
    if any(
        hasattr(release, name)
        for name in ("transform", "report", "fit", "fit_resample")
    ):
        audited = of_transformer(
            release,
            neighbours,
            n_reports=n_reports,
            statistic=statistic,
            random_state=random_state,
        )
        promised = (
            claim_of(audited)
            if epsilon is None
            else (float(check_epsilon(epsilon, zero=True)), 0.0)
        )
        secure = audited.keyed or not is_seeded(release)
        if isinstance(release, OnFitOnly):
            findings.append(
                "only fit_transform was audited: transform releases unprotected rows"
            )
        if audited.central:
            protected = (
                ""
                if getattr(release, "protects_rows", None)
                else ": transform protects no row"
            )
            findings.append(
                f"only what fit learns was audited{protected if hasattr(release, 'transform') else ''}"
            )
        if not secure and seed_shows(release, audited):
            findings.append(
                "anyone who knows the seed can distinguish two records: it repeats the random bits"
            )
    else:
        audited = _of_callable(
            release, neighbours, n_reports, each_row, statistic, random_state
        )
        if epsilon is None:
            raise ValueError(
                "give the epsilon that is claimed: a callable has no guarantee_"
            )
        promised = float(check_epsilon(epsilon, zero=True)), 0.0
    claimed = promised[0]
    allowed = promised[1] if delta is None else float(check_delta(delta))
    value = exact_epsilon(audited.fitted) if exact and n_reports in (None, 1) else None
    lower, reach, drawn, event = search(
        audited, n_draws, claimed, delta=allowed, level=1 - confidence
    )
    if claimed > reach:
        findings.append(
            f"{drawn} draws refute no claim above {reach:.2f}: increase n_draws, or see epsilon_exact"
        )
    return AuditResult(
        epsilon_lower=lower,
        epsilon_claimed=claimed,
        confidence=confidence,
        n_draws=drawn,
        epsilon_exact=value,
        epsilon_reach=reach,
        delta=allowed,
        event="" if event is None else event.name,
        neighbours=None if event is None else (event.likelier, event.other),
        secure=secure,
        findings=tuple(findings),
    )


def _of_callable(
    release: Any,
    neighbours: Sequence[Any] | None,
    n_reports: int | None,
    each_row: bool,
    statistic: Callable[[Any], Any] | None,
    random_state: int | None,
) -> Audited:
    if not callable(release):
        raise TypeError(
            f"release must be a transformer or a callable, got {type(release).__name__}"
        )
    if neighbours is None:
        raise ValueError(
            "give neighbours: two tables that differ in one record; a callable declares no domain"
        )
    if random_state is not None:
        raise ValueError(
            "random_state is for transformers; a callable draws its own random bits"
        )
    if each_row and any(count_rows(table) != 1 for table in neighbours):
        raise ValueError("with each_row=True, neighbours must be tables of one row")
    check_distinct(neighbours)
    return Audited(
        release,
        list(neighbours),
        each_row,
        n_reports=n_reports or 1,
        statistic=statistic,
    )


def exact_epsilon(fitted: Any) -> float | None:
    """Return the largest logarithm of a ratio of probabilities, from the exact channel."""
    ratios = []
    for channels in _attributes(fitted) or ():
        worst = Fraction(1)
        for channel in channels:
            if not all(
                isinstance(share, Fraction | int) for row in channel for share in row
            ):
                return None  # floats are not exact
            ratio = worst_ratio(channel)
            if ratio is None:
                return math.inf
            worst = max(worst, ratio)
        ratios.append(worst)
    if not ratios:
        return None
    together = sorted(ratios, reverse=True)[: _n_sampled(fitted)]
    return log_upper(math.prod(together, start=Fraction(1)))


def _n_sampled(fitted: Any) -> int | None:
    """Return how many attributes a record reports, None for all."""
    protocol = getattr(fitted, "protocol_", None)
    if isinstance(protocol, ReportProtocol):
        return protocol.n_sampled
    return 1 if getattr(fitted, "strategy", None) == "sample" else None


def worst_ratio(channel: Channel) -> Fraction | None:
    """Return the largest ratio of the probabilities of a report under two true values."""
    worst = Fraction(1)
    for report in zip(*channel, strict=True):
        low, high = Fraction(min(report)), Fraction(max(report))
        if high > 0 and low <= 0:
            return None
        if high > 0:
            worst = max(worst, high / low)
    return worst


def _attributes(fitted: Any) -> list[Iterator[Channel]] | None:
    """List the channels of each attribute; there are several only where a public hash function decides."""
    protocol = getattr(fitted, "protocol_", None)
    if isinstance(protocol, ReportProtocol):
        return protocol.channels(_MOST_ENTRIES)
    return (
        [iter([channel]) for channel in fitted.channel()]
        if hasattr(fitted, "channel")
        else None
    )
