"""Checks that the guarantee is stated and kept, and that estimates have the errors that are stated."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chisquare, contingency, poisson

from skdp.evaluation.audits import bound_by_rows
from skdp.exact import exp_bounds
from skdp.privacy import PrivacyGuarantee, PrivacyLeakWarning, check_epsilon
from skdp.testing._subject import SEED, Subject
from skdp.testing._tools import Rows, columns_of, release, require

# A million rows show 4/5 of a true epsilon of 0.5 to 3 for what skdp and others report. Wide reports take long to read.
_MIN_AUDITED, _MAX_AUDITED = 20_000, 1_000_000


def _check_reports_keep_the_guarantee(subject: Subject) -> None:
    """Check by an audit that no event is more than e^epsilon times as likely under one record as under another."""
    # Between these, few draws show much: below, records are too alike; above, what
    # would show the difference is too rare.
    usual_epsilon = 0.5, 3.0
    fitted = subject.fit(random_state=SEED, **subject.epsilon_between(*usual_epsilon))
    most_audited_records = 6
    n_records = min(most_audited_records, max(map(len, subject.values.values())))
    # The first record again where each column has one value only, of which nothing can
    # be learned.
    records = []
    for code in range(max(2, n_records)):
        records.append(subject.frame(subject.equal_rows(1, code)))
    width = len(columns_of(fitted.transform(records[0])))
    audited_cells = 1 << 24
    n_draws = min(max(audited_cells // max(width, 1), _MIN_AUDITED), _MAX_AUDITED)
    guarantee = fitted.guarantee_
    audit = bound_by_rows(
        fitted,
        records,
        delta=float(guarantee.delta),
        confidence_level=1 - FALSE_ALARM,
        n_draws=n_draws,
    )
    if audit is None:
        # Raises the error, if it is one.
        fitted.transform(subject.frame(subject.equal_rows(1000)))
        raise AssertionError(
            "transform does not return one readable row for each of many equal rows"
        )
    # The bound holds with the confidence of a test, so a larger one is no chance.
    lower, event = audit
    require(
        lower <= guarantee.epsilon,
        "the reports are less private than guarantee_ says: by an audit, epsilon is at"
        f" least {lower:.4g}, and not {guarantee.epsilon:.4g}. What distinguishes two"
        f" records best: {event}",
    )


FALSE_ALARM = 1e-6

# The methods that read reports, if a transformer has them.
READERS = ("tally", "estimate_counts", "estimate_mean")

# Cells of fewer expected reports are combined before a chi-square test.
_MIN_EXPECTED = 10


def require_guarantee(fitted: Any, scope: tuple[Any, ...]) -> PrivacyGuarantee:
    """Fail unless `guarantee_` states what is needed of it, after a fit without a seed."""
    guarantee = getattr(fitted, "guarantee_", None)
    if not isinstance(guarantee, PrivacyGuarantee):
        raise AssertionError("after fit, guarantee_ must be a PrivacyGuarantee")
    require(guarantee.mechanism, "guarantee_ must name the mechanism")
    require(
        guarantee.scope == scope,
        f"the scope of guarantee_ is {guarantee.scope}, not the fitted columns {scope}",
    )
    require(guarantee.secure, "guarantee_ says secure=False without a seed")
    return guarantee


def _check_guarantee_is_stated(subject: Subject) -> None:
    """Check that `guarantee_` states epsilon, the columns, and whether the random bits are secure."""
    # A domain that is read from the rows is itself released.
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        try:
            fitted = subject.fit(random_state=None)
        except PrivacyLeakWarning:
            raise AssertionError(
                "fit reads the data although the columns are declared"
            ) from None
    guarantee = require_guarantee(fitted, tuple(subject.values))
    require(math.isfinite(guarantee.epsilon), "the epsilon of guarantee_ is infinite")
    # Permanent random bits come from the key.
    if subject.accepts("random_state") and not subject.memoised:
        require(
            not subject.fit(random_state=0).guarantee_.secure,
            "guarantee_ says secure=True although the randomness comes from a seed",
        )
    requested = subject.parameters.get("epsilon")
    if requested is not None:
        # As fractions: a float above the requested decimal number is more.
        require(
            Fraction(guarantee.epsilon) <= check_epsilon(requested),
            f"the epsilon of guarantee_ is {guarantee.epsilon!r}, more than the"
            f" parameter {requested!r}",
        )


def _largest_ratio(channel: list[list[Fraction]]) -> Fraction:
    """Return the largest ratio of the probabilities of a report under two values."""
    # Pure privacy bounds it for each report by itself, and no sum of them exceeds it.
    largest = Fraction(1)
    for probabilities in zip(*channel, strict=True):
        if not any(probabilities):
            continue  # never reported under any value
        require(
            all(probabilities),
            "channel() has a report that is possible under one value only: it proves "
            "that value",
        )
        largest = max(largest, max(probabilities) / min(probabilities))
    return largest


def _check_channel_keeps_the_guarantee(subject: Subject) -> None:
    """Check that no report is more than e^epsilon times likelier under one record than another, exactly."""
    fitted = subject.fit()
    channels = _channel(fitted)
    for channel in channels:
        _require_probabilities(channel)
    ratios = list(map(_largest_ratio, channels))
    # Where one attribute of a record is sampled, only that one is reported.
    if subject.parameters.get("strategy") == "sample":
        ratio = max(ratios)
    else:
        ratio = math.prod(ratios, start=Fraction(1))
    epsilon = fitted.guarantee_.epsilon
    # The lower of two proven bounds of e^epsilon, as no float is exact.
    require(
        ratio <= exp_bounds(epsilon)[0],
        f"channel() has reports {float(ratio):.6g} times likelier under one record than"
        f" under another, more than e^epsilon of guarantee_ (epsilon = {epsilon!r})",
    )


def _require_probabilities(channel: list[list[Fraction]]) -> None:
    for row in channel:
        require(len(row) == len(channel[0]), "channel() has rows of different lengths")
        require(
            all(isinstance(share, Fraction | int) for share in row),
            "channel() must hold exact Fractions",
        )
        require(min(row) >= 0, "channel() holds a negative probability")
        require(sum(row) == 1, "a row of channel() does not add up to 1")


def _channel(fitted: Any) -> list[list[list[Fraction]]]:
    if not hasattr(fitted, "channel"):
        raise SkipTest("no channel to enumerate")
    return fitted.channel()


def _check_reports_follow_the_channel(subject: Subject) -> None:
    """Check that the reports of each declared value, missing too, have the probabilities of `channel`."""
    fitted = subject.fit(random_state=SEED)
    channels = _channel(fitted)
    if not looks_like_the_original(fitted, subject):
        raise SkipTest(
            "the output is not one column of declared values for each input column"
        )
    sizes = subject.sizes
    # A joint channel has a row for each combination; the last column runs fastest.
    is_joint = len(channels) == 1
    most_records = 40
    n_records = min(most_records, max(map(len, channels)))
    # Draws for a channel, over all records that are tried, and at least for each
    # record.
    channel_draws = 200_000
    least_draws = 4_000
    n_draws = max(least_draws, channel_draws // n_records)
    for record in range(n_records):
        true_codes = record % np.array(sizes)
        if is_joint:
            true_codes = np.array(np.unravel_index(record, sizes))
        rows = subject.rows_of(np.tile(true_codes, (n_draws, 1)))
        codes = codes_of(columns_of(fitted.transform(subject.frame(rows))), subject)
        if is_joint:
            joint_codes = np.ravel_multi_index(codes, sizes)
            _require_shares(joint_codes, channels[0][record], "the columns together")
            continue
        for place, name in enumerate(subject.values):
            shares = channels[place][true_codes[place]]
            _require_shares(codes[place], shares, name)
        for pair in combinations(codes, 2):
            pvalue = _independence(*pair)
            require(
                pvalue > FALSE_ALARM,
                "the noise of two columns is not independent (chi-square test, p = "
                f"{pvalue:.1g})",
            )


def _require_shares(codes: NDArray[np.intp], shares: list[Fraction], name: Any) -> None:
    """Fail if reports have other probabilities than a row of a channel."""
    counts = np.bincount(codes, minlength=len(shares))
    pvalue = _goodness(counts, np.array(shares, float))
    require(
        pvalue > FALSE_ALARM,
        f"the reports of {name} do not follow channel() (chi-square test, p = "
        f"{pvalue:.1g})",
    )


def looks_like_the_original(fitted: Any, subject: Subject) -> bool:
    """Whether each column is reported as one of its declared values, so that its channel is square."""
    if subject.numeric or subject.parameters.get("strategy") == "sample":
        return False
    if not hasattr(fitted, "channel"):
        return False
    sizes = subject.sizes
    n_cells = math.prod(sizes)
    shapes = [(len(channel), len(channel[0])) for channel in fitted.channel()]
    # One channel for each column, or one for all combinations.
    if shapes not in ([(size, size) for size in sizes], [(n_cells, n_cells)]):
        return False
    rows = subject.rows(20)
    frame = subject.frame(rows)
    if list(columns_of(fitted.transform(frame))) != list(subject.values):
        return False
    return not hasattr(fitted, "_encode") or columns_of(fitted._encode(frame)) == rows


def codes_of(columns: Rows, subject: Subject) -> list[NDArray[np.intp]]:
    """Code columns by the declared values."""
    codes = []
    for name, values in subject.values.items():
        places = dict(zip(values, range(len(values)), strict=True))
        require(
            set(columns[name]) <= set(places),
            f"the output of {name} holds values that are not declared",
        )
        codes.append(np.array(list(map(places.get, columns[name])), np.intp))
    return codes


def _goodness(observed: NDArray[np.intp], shares: NDArray[np.float64]) -> float:
    """Test counts against probabilities, with rare cells combined."""
    expected = shares * observed.sum()
    is_rare = expected < _MIN_EXPECTED
    n_rare = observed[is_rare].sum()
    mean_of_rare = expected[is_rare].sum()
    counts, means = observed[~is_rare].astype(float), expected[~is_rare]
    pvalue_of_rare = 1.0
    if mean_of_rare >= _MIN_EXPECTED:
        counts, means = np.append(counts, n_rare), np.append(means, mean_of_rare)
    else:
        # Too rare for the approximation: a sum of rare cells is nearly Poisson. How
        # the others share what is left is tested apart.
        pvalue_of_rare = float(poisson.sf(n_rare - 1, mean_of_rare))
        means = means * (counts.sum() / means.sum())
    if len(counts) < 2 or counts.sum() == 0:
        return pvalue_of_rare
    return min(pvalue_of_rare, float(chisquare(counts, means).pvalue))


def _independence(codes: ArrayLike, other_codes: ArrayLike) -> float:
    # Where a cell is too rare for the chi-square approximation, nothing is said.
    table = pd.crosstab(np.asarray(codes), np.asarray(other_codes)).to_numpy()
    expected = contingency.expected_freq(table)
    if min(table.shape) < 2 or (expected < _MIN_EXPECTED).any():
        return 1.0
    return float(contingency.chi2_contingency(table, correction=False).pvalue)


def _check_missing_values_are_hidden(subject: Subject) -> None:
    """Check that a missing value is randomized like any other; if undeclared, it never occurs in the output."""
    size = 2000
    rows = subject.equal_rows(size)
    for name, values in subject.values.items():
        is_missing = np.random.default_rng(SEED).random(size) < 0.5
        value = next(value for value in values if value is not None)
        column = [None if missing else value for missing in is_missing]
        # Objects, so that None stays what it is.
        frame = pd.DataFrame(rows | {name: column}, dtype=object)
        fitted = subject.fit_noisy(random_state=SEED)
        reports_of_whole_rows = columns_of(fitted.transform(subject.frame(rows)))
        try:
            reports = columns_of(fitted.transform(frame))
        except (TypeError, ValueError):
            require(
                None not in values, f"column {name!r} declares missing, and refuses it"
            )
            continue
        for label, output in reports.items():
            is_empty = np.array([report is None for report in output])
            may_be_empty = None in values or None in reports_of_whole_rows[label]
            require(
                may_be_empty or not is_empty.any(),
                f"a missing value of {name!r}, which does not declare it, comes out as "
                f"missing in {label!r}",
            )
            require(
                _independence(is_missing, is_empty) > FALSE_ALARM,
                f"where {name!r} is missing shows in where the output {label!r} is "
                "missing",
            )


def _check_later_parameters_wait_for_fit(subject: Subject) -> None:
    """Check that parameters set after `fit` change neither the guarantee nor the release."""
    frame = subject.frame(subject.equal_rows(600))
    fitted = subject.fit_noisy(random_state=SEED)
    changed = subject.fit_noisy(random_state=SEED)
    guarantee = changed.guarantee_
    # Each of them would weaken the reports of a transformer that reads it again.
    later_parameters = {
        "epsilon": 300.0,
        "random_state": None,
        "p": 0.999,
        "q": 0.001,
        "handle_unknown": "uniform",
    }
    for name, value in later_parameters.items():
        if subject.accepts(name):
            changed.set_params(**{name: value})
    require(
        changed.guarantee_ == guarantee,
        "guarantee_ changed with a parameter that was set after fit",
    )
    require(
        release(changed, frame) == release(fitted, frame),
        "a parameter that was set after fit changes the release, but not guarantee_",
    )


# Releases of the same rows, in a few calls.
_REPEATS = 200
_CALLS = 4


def _estimate(
    fitted: Any, reports: Any, rows: Rows, subject: Subject
) -> tuple[pd.DataFrame, NDArray[Any], str]:
    """Estimate from reports known quantities of the rows."""
    if hasattr(fitted, "estimate_counts"):
        table = fitted.estimate_counts(reports)
        return table, _true_counts(rows, subject, table), "count"
    if hasattr(fitted, "estimate_mean") and subject.numeric:
        means = np.mean(list(rows.values()), axis=1)
        return fitted.estimate_mean(reports), means, "mean"
    raise SkipTest("no estimates")


def _true_counts(
    rows: Rows, subject: Subject, table: pd.DataFrame
) -> NDArray[np.float64]:
    """Count the rows by declared values, in the order of a table of estimates."""
    sizes = subject.sizes
    if len(sizes) > 1 and list(table.index.names) != ["column", "category"]:
        # Of combinations, of which the last column runs fastest.
        codes = np.ravel_multi_index(codes_of(rows, subject), sizes)
        return np.bincount(codes, minlength=math.prod(sizes)).astype(float)
    counts = []
    for name, column in rows.items():
        has_lists = any(isinstance(cell, tuple) for cell in column)
        declared = subject.declared[name] if has_lists else subject.values[name]
        for value in getattr(declared, "values", declared):
            holds = [value in cell if has_lists else value == cell for cell in column]
            counts.append(sum(holds))
    return np.array(counts, float)


def _check_estimates_are_right(subject: Subject) -> None:
    """Check that over many releases the estimates have the truth as their mean, and the stated standard errors."""
    epsilon = subject.epsilon_at_most(2.0 * len(subject.values))
    fitted = subject.fit(random_state=SEED, **epsilon)
    rows = subject.rows(400)
    estimates, stated_errors = [], []
    for reports in _releases_among_others(fitted, rows, subject):
        table, truth, what = _estimate(fitted, reports, rows, subject)
        require(
            len(table) == truth.size,
            f"{len(table)} estimates for {truth.size} values",
        )
        estimates.append(table[what].to_numpy(float))
        stated_errors.append(table["std_error"].to_numpy(float))
    std_errors = np.std(estimates, axis=0, ddof=1)
    distances = np.abs(np.mean(estimates, axis=0) - truth)
    # Normal estimates are this many standard errors off with a probability of 1.3e-6, as
    # the standard error is estimated from 200 releases (Student's t).
    most_errors = 5
    limits = most_errors * std_errors / math.sqrt(_REPEATS)
    require(
        (distances <= limits + 1e-9 * np.abs(truth).max()).all(),
        f"the estimates are biased, or reports are not in the rows of their records: over"
        f" {_REPEATS} releases their mean is off by up to {distances.max():.4g}",
    )
    # Of 200 values, the standard deviation is known to 5 %.
    ratios = np.mean(stated_errors, axis=0) / std_errors
    require(
        (ratios > 0.75).all(),
        f"the estimates vary {1 / ratios.min():.2f} times as much as std_error says",
    )
    if what == "count":  # that of a mean may be one for the population
        require(
            (ratios < 1.33).all(),
            f"std_error is {ratios.max():.2f} times how much the estimates vary",
        )


def _releases_among_others(
    fitted: Any, rows: Rows, subject: Subject
) -> Iterator[pd.DataFrame]:
    """Yield the reports of many releases of the same rows, between which others stood."""
    # Copies of the rows in one call are as many releases, and save the time of calls.
    # Between them, at random places, are as many other rows: report i is that of row i,
    # or the estimates are of the others, too.
    frame = subject.frame(rows)
    size = len(frame)
    n_rows = size * _REPEATS // _CALLS
    is_row = np.random.default_rng(SEED).permutation(np.arange(2 * n_rows) < n_rows)
    another = subject.frame(subject.equal_rows(1, -1))
    places = np.where(is_row, (np.cumsum(is_row) - 1) % size, size)
    table_of_both = pd.concat([frame, another], ignore_index=True)
    mixed = table_of_both.iloc[places].reset_index(drop=True)
    for _ in range(_CALLS):
        reports = fitted.transform(mixed)[is_row]
        for start in range(0, n_rows, size):
            yield reports[start : start + size]


def _check_reports_can_be_read(subject: Subject) -> None:
    """Check that `tally` and the estimates accept the output of `transform`, and that tallies add."""
    size = 50
    fitted = subject.fit(random_state=SEED)
    reports = fitted.transform(subject.frame(subject.rows(size)))
    if looks_like_the_original(fitted, subject):
        codes_of(columns_of(reports), subject)
    methods = [name for name in READERS if hasattr(fitted, name)]
    if not methods:
        raise SkipTest("nothing reads the reports")
    for name in methods:
        getattr(fitted, name)(reports)
    if not hasattr(fitted, "tally"):
        return
    tally = fitted.tally(reports)
    require(
        tally.n_reports == size, f"a tally of {size} reports counts {tally.n_reports}"
    )
    # Tallies of batches are added on other machines.
    is_first = np.arange(size) < size // 3
    tally_of_parts = fitted.tally(reports[is_first]) + fitted.tally(reports[~is_first])
    sums, sums_of_parts = tally.sums(), tally_of_parts.sums()
    require(
        len(sums) == len(sums_of_parts)
        and all(map(np.array_equal, sums, sums_of_parts)),
        "the tallies of two parts do not add up to that of all reports",
    )
    # Sums of two channels cannot be estimated from by either.
    smaller_epsilon = subject.epsilon_at_most(0.01)
    if smaller_epsilon:
        noisier = subject.fit(random_state=SEED, **smaller_epsilon)
        noisier_reports = noisier.transform(subject.frame(subject.rows(size)))
        other_tally = noisier.tally(noisier_reports)
        try:
            tally + other_tally
        except (TypeError, ValueError):
            return
        raise AssertionError("tallies of reports of two epsilons are added")


CHECKS = (
    _check_guarantee_is_stated,
    _check_channel_keeps_the_guarantee,
    _check_reports_follow_the_channel,
    _check_missing_values_are_hidden,
    _check_later_parameters_wait_for_fit,
    _check_estimates_are_right,
    _check_reports_can_be_read,
    _check_reports_keep_the_guarantee,
)
