"""Checks that reports agree with the guarantee and the channel, and estimates with their stated errors."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest, chisquare, contingency

from skdp.exact import exp_bounds
from skdp.privacy import PrivacyGuarantee, PrivacyLeakWarning, check_epsilon
from skdp.testing._subject import SEED, Subject
from skdp.testing._tools import Rows, columns_of, release, require

FALSE_ALARM = 1e-6
_LEAST_EXPECTED = 10
_CHANNEL_DRAWS = 200_000  # over all values


def _check_guarantee_is_stated(subject: Subject) -> None:
    """Check that `guarantee_` states epsilon, the columns, and whether the random bits are secure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        try:
            fitted = subject.fit(random_state=None)
        except PrivacyLeakWarning:
            raise AssertionError(
                "fit reads the data although the columns are declared"
            ) from None
    guarantee = getattr(fitted, "guarantee_", None)
    require(
        isinstance(guarantee, PrivacyGuarantee),
        "after fit, guarantee_ must be a PrivacyGuarantee",
    )
    assert isinstance(guarantee, PrivacyGuarantee)
    require(
        math.isfinite(guarantee.epsilon) and guarantee.epsilon >= 0,
        "the epsilon of guarantee_ must be finite",
    )
    require(guarantee.mechanism, "guarantee_ must name the mechanism")
    require(
        guarantee.scope == tuple(subject.values),
        f"the scope of guarantee_ is {guarantee.scope}, not the fitted columns {tuple(subject.values)}",
    )
    require(guarantee.secure, "guarantee_ says secure=False without a seed")
    if (
        subject.accepts("random_state") and not subject.memoised
    ):  # permanent random bits come from the key
        require(
            not subject.fit(random_state=0).guarantee_.secure,
            "guarantee_ says secure=True although the randomness comes from a seed",
        )
    requested = subject.parameters.get("epsilon")
    if requested is not None:
        require(
            Fraction(guarantee.epsilon) <= check_epsilon(requested),
            f"the epsilon of guarantee_ is {guarantee.epsilon!r}, more than the parameter {requested!r}",
        )


def _worst_ratio(table: list[list[Fraction]]) -> Fraction:
    worst = Fraction(1)
    for report in zip(*table, strict=True):
        if not any(report):
            continue  # never reported under any value
        require(
            all(report),
            "channel() has a report that is possible under one value only: it proves that value",
        )
        worst = max(worst, max(report) / min(report))
    return worst


def _check_channel_keeps_the_guarantee(subject: Subject) -> None:
    """Check that no report is more than e^epsilon times likelier under one record than another, exactly."""
    fitted = subject.fit()
    tables = _channel(fitted)
    for table in tables:
        require(
            all(len(row) == len(table[0]) for row in table),
            "channel() has rows of different lengths",
        )
        require(
            all(isinstance(share, Fraction | int) for row in table for share in row),
            "channel() must hold exact Fractions",
        )
        require(
            all(share >= 0 for row in table for share in row),
            "channel() holds a negative probability",
        )
        require(
            all(sum(row) == 1 for row in table),
            "a row of channel() does not add up to 1",
        )
    ratios = [_worst_ratio(table) for table in tables]
    # Where one attribute of a record is sampled, only that one is reported.
    sampled = subject.parameters.get("strategy") == "sample"
    worst = max(ratios) if sampled else math.prod(ratios, start=Fraction(1))
    epsilon = fitted.guarantee_.epsilon
    require(
        worst <= exp_bounds(epsilon)[0],
        f"channel() has reports {float(worst):.6g} times likelier under one record than under another, more than "
        f"e^epsilon of guarantee_ (epsilon = {epsilon!r})",
    )


def _channel(fitted: Any) -> list[list[list[Fraction]]]:
    if not hasattr(fitted, "channel"):
        raise SkipTest("no channel to enumerate")
    return fitted.channel()


def _check_reports_follow_the_channel(subject: Subject) -> None:
    """Check that the reports of each declared value, missing too, have the probabilities of `channel`."""
    fitted = subject.fit(random_state=SEED)
    tables = _channel(fitted)
    names, values = list(subject.values), list(subject.values.values())
    sizes = [len(column) for column in values]
    if not looks_like_the_original(fitted, subject):
        raise SkipTest(
            "the output is not one column of declared values for each input column"
        )
    joint = len(tables) == 1
    groups = (
        [list(range(len(names)))] if joint else [[place] for place in range(len(names))]
    )
    rounds = min(40, max(map(len, tables)))
    size = max(4000, _CHANNEL_DRAWS // rounds)
    for turn in range(rounds):
        # In a joint table the last column runs fastest.
        cells = (
            [int(c) for c in np.unravel_index(turn, sizes)]
            if joint
            else [turn % k for k in sizes]
        )
        rows = {
            name: [column[code]] * size
            for name, column, code in zip(names, values, cells, strict=True)
        }
        codes = codes_of(columns_of(fitted.transform(subject.frame(rows))), subject)
        for group, table in zip(groups, tables, strict=True):
            shape = [sizes[place] for place in group]
            true = int(np.ravel_multi_index([cells[place] for place in group], shape))
            seen = np.ravel_multi_index([codes[place] for place in group], shape)
            pvalue = _goodness(
                np.bincount(seen, minlength=math.prod(shape)),
                [float(share) for share in table[true]],
            )
            require(
                pvalue > FALSE_ALARM,
                f"the reports of {', '.join(map(str, (names[place] for place in group)))} do not follow channel() "
                f"(chi-square test, p = {pvalue:.1g})",
            )
        for first in range(0 if joint else len(names)):
            for second in range(first):
                pvalue = _independence(codes[first], codes[second])
                require(
                    pvalue > FALSE_ALARM,
                    f"the noise of {names[second]} and {names[first]} is not independent (chi-square test, p = "
                    f"{pvalue:.1g})",
                )


def require_ratio(
    chosen_by: list[Counter[Any]], tested: list[Counter[Any]], epsilon: float, what: str
) -> None:
    """Fail if some outcomes are more than e^epsilon times as frequent under one truth as under another."""
    ratio = math.exp(min(epsilon, 700.0))
    event = [
        outcome
        for outcome, count in chosen_by[0].items()
        if count > ratio * chosen_by[1][outcome]
    ]
    one, other = (sum(counts[outcome] for outcome in event) for counts in tested)
    if one + other == 0:
        return
    pvalue = binomtest(
        one, one + other, ratio / (1 + ratio), alternative="greater"
    ).pvalue
    require(
        pvalue > FALSE_ALARM,
        f"some {what} are {one / max(other, 1):.3g} times as frequent under one record as under another, but e^epsilon "
        f"is {ratio:.3g} by the guarantee (binomial test, p = {pvalue:.1g})",
    )


def looks_like_the_original(fitted: Any, subject: Subject) -> bool:
    """Whether each column is reported as one of its declared values, so that its channel is square."""
    if subject.numeric or subject.parameters.get("strategy") == "sample":
        return False
    rows = subject.rows(20)
    frame = subject.frame(rows)
    sizes = [len(values) for values in subject.values.values()]
    shapes = (
        [(len(table), len(table[0])) for table in fitted.channel()]
        if hasattr(fitted, "channel")
        else []
    )
    square = [[(size, size) for size in sizes], [(math.prod(sizes),) * 2]]
    if (
        list(columns_of(fitted.transform(frame))) != list(subject.values)
        or shapes not in square
    ):
        return False
    return not hasattr(fitted, "encode") or columns_of(fitted.encode(frame)) == rows


def codes_of(columns: Rows, subject: Subject) -> list[NDArray[np.intp]]:
    """Code columns by the declared values."""
    codes = []
    for name, values in subject.values.items():
        places = {value: code for code, value in enumerate(values)}
        require(
            set(columns[name]) <= set(places),
            f"the output of {name} holds values that are not declared",
        )
        codes.append(np.array([places[value] for value in columns[name]], np.intp))
    return codes


def _goodness(observed: NDArray[np.intp], shares: list[float]) -> float:
    """Test counts against probabilities, with rare cells combined."""
    expected = np.array(shares) * observed.sum()
    rare = expected < _LEAST_EXPECTED
    pooled = (
        np.append(observed[~rare], observed[rare].sum()),
        np.append(expected[~rare], expected[rare].sum()),
    )
    if pooled[1][-1] < _LEAST_EXPECTED:
        # Too rare for the approximation: use the Chernoff bound for a Poisson number.
        count, mean = float(pooled[0][-1]), float(pooled[1][-1])
        if (
            count > mean
            and math.exp(count - mean) * (mean / count) ** count < FALSE_ALARM
        ):
            return 0.0
        pooled = pooled[0][:-1], pooled[1][:-1]
        if len(pooled[0]) == 0 or pooled[0].sum() == 0:
            return 1.0
        pooled = pooled[0], pooled[1] * (pooled[0].sum() / pooled[1].sum())
    return 1.0 if len(pooled[0]) < 2 else float(chisquare(*pooled).pvalue)


def _independence(left: ArrayLike, right: ArrayLike) -> float:
    table = pd.crosstab(np.asarray(left), np.asarray(right)).to_numpy()
    expected = contingency.expected_freq(table)
    if min(table.shape) < 2 or (expected < _LEAST_EXPECTED).any():
        return 1.0
    return float(contingency.chi2_contingency(table, correction=False).pvalue)


def _check_missing_values_are_hidden(subject: Subject) -> None:
    """Check that a missing value is randomised like any other; if undeclared, it never occurs in the output."""
    size = 2000
    rows = subject.equal_rows(size)
    whole = subject.frame(rows)
    for name, values in subject.values.items():
        where = np.random.default_rng(SEED).random(size) < 0.5
        present = next(value for value in values if value is not None)
        column = [None if gone else present for gone in where]
        gapped = {
            other: (column if other == name else kept) for other, kept in rows.items()
        }
        frame = pd.DataFrame(
            {other: pd.Series(kept, dtype=object) for other, kept in gapped.items()}
        )
        fitted = subject.fit_noisy(random_state=SEED)
        gaps = {
            label
            for label, output in columns_of(fitted.transform(whole)).items()
            if None in output
        }
        try:
            reports = columns_of(fitted.transform(frame))
        except (TypeError, ValueError):
            require(
                None not in values, f"column {name!r} declares missing, and refuses it"
            )
            continue
        for label, output in reports.items():
            empty = np.array([value is None for value in output])
            require(
                label in gaps or None in values or not empty.any(),
                f"a missing value of {name!r}, which does not declare it, comes out as missing in {label!r}",
            )
            require(
                _independence(where, empty) > FALSE_ALARM,
                f"where {name!r} is missing shows in where the output {label!r} is missing",
            )


def _check_no_column_passes_through(subject: Subject) -> None:
    """Check that every column of the output is randomised again at each call, and none is a true one."""
    rows = subject.rows(600)
    frame = subject.frame(rows)
    fitted = subject.fit_noisy(random_state=None)
    first, second = (columns_of(fitted.transform(frame)) for _ in range(2))
    for label, output in first.items():
        require(
            output not in rows.values(),
            f"column {label!r} of the output is a true column",
        )
        require(
            output != second[label],
            f"column {label!r} of the output is the same at each call",
        )


def _check_later_parameters_wait_for_fit(subject: Subject) -> None:
    """Check that parameters set after `fit` change neither the guarantee nor the release."""
    frame = subject.frame(subject.equal_rows(600))
    fitted, changed = (subject.fit_noisy(random_state=SEED) for _ in range(2))
    promised = changed.guarantee_
    later = {
        "epsilon": 300.0,
        "random_state": None,
        "p": 0.999,
        "q": 0.001,
        "handle_unknown": "uniform",
    }
    changed.set_params(
        **{name: value for name, value in later.items() if subject.accepts(name)}
    )
    require(
        changed.guarantee_ == promised,
        "guarantee_ changed with a parameter that was set after fit",
    )
    require(
        release(changed, frame) == release(fitted, frame),
        "a parameter that was set after fit changes the release, but not guarantee_",
    )
    if subject.accepts("random_state"):
        secure = subject.fit_noisy(random_state=None).set_params(random_state=SEED)
        require(
            not secure.guarantee_.secure
            or len({release(secure, frame), release(fitted, frame)}) == 2,
            "a seed that was set after fit is used, and guarantee_ still says secure=True",
        )


_STANDARD_ERRORS = 5
_REPEATS, _CALLS = 200, 4


def _estimate(
    fitted: Any, reports: Any, rows: Rows, subject: Subject
) -> tuple[pd.DataFrame, NDArray[Any], str]:
    """Estimate from reports known quantities of the rows."""
    if hasattr(fitted, "estimate_counts"):
        table = fitted.estimate_counts(reports)
        return table, _true_counts(rows, subject, table), "count"
    if hasattr(fitted, "estimate_mean") and subject.numeric:
        return (
            fitted.estimate_mean(reports),
            np.array([np.mean(column) for column in rows.values()]),
            "mean",
        )
    raise SkipTest("no estimates")


def _estimates(subject: Subject) -> tuple[list[pd.DataFrame], NDArray[Any], str]:
    """Estimate many times from fresh reports of the same rows, with a known truth."""
    fitted = subject.fit(
        random_state=SEED, **subject.epsilon_at_most(2.0 * len(subject.values))
    )
    size, times = 400, _REPEATS // _CALLS
    rows = subject.rows(size)
    frame = subject.frame({name: column * times for name, column in rows.items()})
    calls = [fitted.transform(frame) for _ in range(_CALLS)]
    parts = [
        reports[start * size : (start + 1) * size]
        for reports in calls
        for start in range(times)
    ]
    results = [_estimate(fitted, reports, rows, subject) for reports in parts]
    return [table for table, _, _ in results], *results[0][1:]


def _true_counts(
    rows: Rows, subject: Subject, table: pd.DataFrame
) -> NDArray[np.float64]:
    if any(isinstance(cell, tuple) for column in rows.values() for cell in column):
        # Cells of values, or of pairs of a key and a value.
        held = {
            name: Counter(
                value
                for cell in column
                for value in {
                    part[0] if isinstance(part, tuple) else part for part in cell
                }
            )
            for name, column in rows.items()
        }
        keys = (
            table.index
            if isinstance(table.index, pd.MultiIndex)
            else [(next(iter(rows)), key) for key in table.index]
        )
        return np.array([held[name][value] for name, value in keys], float)
    codes = codes_of(rows, subject)
    sizes = [len(values) for values in subject.values.values()]
    if len(sizes) == 1 or list(table.index.names) == ["column", "category"]:
        counts = [
            np.bincount(column, minlength=size)
            for column, size in zip(codes, sizes, strict=True)
        ]
        return np.concatenate(counts).astype(float)
    return np.bincount(
        np.ravel_multi_index(codes, sizes), minlength=math.prod(sizes)
    ).astype(float)


def _check_estimates_are_unbiased(subject: Subject) -> None:
    """Check that the mean of the estimates over many releases is the truth."""
    tables, truth, what = subject.once(_estimates)
    estimates = np.array([table[what].to_numpy(float) for table in tables])
    require(
        estimates.shape[1:] == truth.shape,
        f"{estimates.shape[1]} estimates for {truth.size} values",
    )
    std_error = estimates.std(axis=0, ddof=1) / math.sqrt(_REPEATS)
    distance = np.abs(estimates.mean(axis=0) - truth)
    require(
        (distance <= _STANDARD_ERRORS * std_error + 1e-9 * np.abs(truth).max()).all(),
        f"the estimates are biased: over {_REPEATS} releases their mean is off by up to "
        f"{(distance / np.maximum(std_error, 1e-300)).max():.1f} standard errors",
    )


def _check_standard_errors_are_right(subject: Subject) -> None:
    """Check that the stated standard errors are those of the estimates."""
    tables, _, what = subject.once(_estimates)
    actual = np.array([table[what].to_numpy(float) for table in tables]).std(
        axis=0, ddof=1
    )
    ratio = (
        np.mean([table["std_error"].to_numpy(float) for table in tables], axis=0)
        / actual
    )
    # Of 200 values, the standard deviation is known to 5 %.
    require(
        (ratio > 0.75).all(),
        f"the estimates vary {1 / ratio.min():.2f} times as much as std_error says",
    )
    if what == "count":  # that of a mean may be one for the population
        require(
            (ratio < 1.33).all(),
            f"std_error is {ratio.max():.2f} times how much the estimates vary",
        )


def _check_rows_stay_in_place(subject: Subject) -> None:
    """Check that report i is that of record i."""
    size = 3000
    fitted = subject.fit(
        random_state=SEED, **subject.epsilon_at_most(4.0 * len(subject.values))
    )
    marked = np.random.default_rng(SEED).random(size) < 0.5
    rows = {
        name: [values[0 if first else -1] for first in marked]
        for name, values in subject.values.items()
    }
    reports = fitted.transform(subject.frame(rows))
    require(len(reports) == size, f"{size} records gave {len(reports)} reports")
    for chosen in (marked, ~marked):
        part = {
            name: [value for value, use in zip(column, chosen, strict=True) if use]
            for name, column in rows.items()
        }
        table, truth, what = _estimate(fitted, reports[chosen], part, subject)
        bound = (_STANDARD_ERRORS + 2) * table["std_error"].to_numpy(float) + 1e-6
        require(
            (np.abs(table[what].to_numpy(float) - truth) <= bound).all(),
            "the reports of some records are not in the rows of these records",
        )


def _check_reports_can_be_read(subject: Subject) -> None:
    """Check that `tally` and the estimates accept the output of `transform`, and that tallies can be added."""
    size = 50
    fitted = subject.fit(random_state=SEED)
    reports = fitted.transform(subject.frame(subject.rows(size)))
    if looks_like_the_original(fitted, subject):
        codes_of(columns_of(reports), subject)
    read = [
        name
        for name in ("tally", "estimate_counts", "estimate_mean")
        if hasattr(fitted, name)
    ]
    if not read:
        raise SkipTest("nothing reads the reports")
    for name in read:
        getattr(fitted, name)(reports)
    if hasattr(fitted, "tally"):
        tally = fitted.tally(reports)
        require(
            tally.n_reports == size,
            f"a tally of {size} reports counts {tally.n_reports}",
        )
        require((tally + tally).n_reports == 2 * size, "two tallies do not add")


def _check_tallies_add(subject: Subject) -> None:
    """Check that tallies of parts add up to that of all reports, and none of two epsilons do."""
    size = 50
    fitted = subject.fit(random_state=SEED)
    if not hasattr(fitted, "tally"):
        raise SkipTest("there is no tally")
    reports = fitted.transform(subject.frame(subject.rows(size)))
    is_first = np.arange(size) < size // 3
    tally_of_parts = fitted.tally(reports[is_first]) + fitted.tally(reports[~is_first])
    pairs = zip(tally_of_parts.sums(), fitted.tally(reports).sums(), strict=True)
    require(
        all(np.array_equal(sums, whole_sums) for sums, whole_sums in pairs),
        "the tallies of two parts do not add up to that of all reports",
    )
    smaller_epsilon = subject.epsilon_at_most(0.01)
    if not smaller_epsilon:
        return
    other = subject.fit(random_state=SEED, **smaller_epsilon)
    other_reports = other.transform(subject.frame(subject.rows(size)))
    try:
        tally_of_parts + other.tally(other_reports)
    except (TypeError, ValueError):
        return
    raise AssertionError("tallies of reports of two epsilons are added")


CHECKS = (
    _check_guarantee_is_stated,
    _check_channel_keeps_the_guarantee,
    _check_reports_follow_the_channel,
    _check_missing_values_are_hidden,
    _check_no_column_passes_through,
    _check_later_parameters_wait_for_fit,
    _check_estimates_are_unbiased,
    _check_standard_errors_are_right,
    _check_rows_stay_in_place,
    _check_reports_can_be_read,
    _check_tallies_add,
)
