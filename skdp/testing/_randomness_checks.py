"""Checks that every call and row draws fresh random bits, and that permanent reports repeat themselves."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.base import clone

from skdp.base import collect_output
from skdp.evaluation.audits import bound_by_rows
from skdp.privacy import PrivacyLedger
from skdp.testing._error_checks import SECRET_TEXT, shows, texts_of
from skdp.testing._promise_checks import FALSE_ALARM, codes_of, looks_like_the_original
from skdp.testing._subject import SEED, Subject
from skdp.testing._tools import Rows, columns_of, release, require

# Calls of tables by the number of rows: what happens in one of a hundred is missed with
# a probability of .01.
_CALLS_BY_ROWS = dict.fromkeys(range(1, 8), 30) | {40: 240}
_LARGE = max(_CALLS_BY_ROWS)


def _check_calls_are_alike(subject: Subject) -> None:
    """Check that no call fails, all have the same messages, and reports are not always the truth.

    The whole rows of a large table are never returned, and each row of a table of any size is sometimes randomized.
    """
    fitted = subject.fit_noisy(random_state=None)
    frames = [subject.frame(subject.rows(48, seed)) for seed in range(4)]
    is_comparable = _shows_truth_and_lies(fitted, subject)
    messages = set()
    for size, n_calls in _CALLS_BY_ROWS.items():
        is_large = size == _LARGE
        # The rows of a table that have ever had a report that is not the truth.
        lies: set[int] = set()
        for call in range(n_calls):
            # The tables take turns, and every fourth call begins a row later.
            frame = frames[call % 4]
            start = call // 4 % 8
            X = frame.iloc[start : start + size]
            output, messages_of_call = _transform_and_hear(fitted, X)
            messages.add(messages_of_call)
            if is_comparable:
                rows, reports = columns_of(X), columns_of(output)
                codes_of(reports, subject)  # nothing but declared values
                is_returned = is_large and rows == reports
                require(not is_returned, "some calls return the rows")
                lies.update(_places_of_lies(rows, reports))
        require(
            not is_comparable or len(lies) == size,
            f"a row of a table of {size} rows is never randomized",
        )
    require(
        len(messages) == 1,
        "some calls of transform warn, log or print what others do not",
    )


def _shows_truth_and_lies(fitted: Any, subject: Subject) -> bool:
    """Return whether reports are values of the rows, and may be other ones in each column."""
    # A column of one value is always reported as it is.
    is_comparable = looks_like_the_original(fitted, subject)
    for values in subject.values.values():
        is_comparable = is_comparable and len(set(map(repr, values))) > 1
    return is_comparable


def _transform_and_hear(fitted: Any, X: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the reports of a call, and its warnings, log records and output."""
    with collect_output() as messages:
        try:
            output = fitted.transform(X)
        except Exception as error:
            raise AssertionError(
                f"some calls of transform raise {type(error).__name__}"
            ) from None
    return output, tuple(messages)


def _places_of_lies(rows: Rows, reports: Rows) -> set[int]:
    """Return the rows of which at least one column is not reported as it is."""
    places = set()
    for column, column_of_reports in zip(rows.values(), reports.values(), strict=True):
        for place, value in enumerate(column):
            if column_of_reports[place] != value:
                places.add(place)
    return places


def _check_rows_draw_their_own_coins(subject: Subject) -> None:
    """Check that equal rows at no distance from each other have equal reports more often than by chance."""
    fitted = subject.fit_noisy(random_state=None)
    n_rows = 4096
    reports = columns_of(fitted.transform(subject.frame(subject.equal_rows(n_rows))))
    texts = list(map(repr, zip(*reports.values(), strict=True)))
    _, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    # The share of pairs of equal reports, whose rows have coins of their own.
    chance = float((counts * (counts - 1)).sum()) / (n_rows * (n_rows - 1))
    most = float(norm.isf(FALSE_ALARM / n_rows))
    # Coins that are used again are used at some distance, such as that of a block.
    for distance in range(1, n_rows // 2 + 1):
        pairs = n_rows - distance
        equal = int(np.count_nonzero(codes[distance:] == codes[:-distance]))
        # Pairs that share a row are nearly independent; twice the variance and some pairs more allow for that.
        limit = pairs * chance + most * (math.sqrt(2 * pairs * chance) + 2)
        require(
            equal <= limit,
            f"rows {distance} apart share coins: their reports are equal too often",
        )


# Equal rows whose releases, at a small epsilon, are never equal by chance.
_ROWS = 600


# Reports of a record, and records whose reports are audited: so many show 4/5 of a true
# epsilon of 1 (measured; a third of them show 3/5).
_CALLS = 5
_HISTORIES = 60_000


def _require_different(releases: Iterable[str], what: str) -> None:
    # At the small epsilon of the checks, two releases of 600 rows with coins of their
    # own are never equal.
    releases = list(releases)
    require(
        len(set(releases)) == len(releases),
        f"{what} repeat each other's coins: their releases are equal",
    )


def _releases(fitted: Any, frame: Any) -> list[str]:
    return [release(fitted, frame) for _ in range(4)]


def _check_calls_draw_fresh_coins(subject: Subject) -> None:
    """Check that calls of `transform`, also of copies and in threads, are different releases."""
    frame = subject.frame(subject.equal_rows(_ROWS))
    # A seed makes a stream that goes on from call to call.
    for seed in (None, 0) if subject.accepts("random_state") else (None,):
        fitted = subject.fit_noisy(random_state=seed)
        calls = _releases(fitted, frame)
        _require_different(calls, f"calls of transform (random_state={seed})")
        with ThreadPoolExecutor(4) as pool:
            of_threads = pool.map(release, [fitted] * 12, [frame] * 12)
        _require_different(of_threads, f"threads (random_state={seed})")
    fitted = subject.fit_noisy(random_state=None)
    calls = [repr(columns_of(fitted.fit_transform(frame))) for _ in range(3)]
    _require_different(calls, "calls of fit_transform")
    # A copy that takes a state along repeats the calls of the original, or of another
    # copy.
    calls = [release(fitted, frame)]
    for _ in range(2):
        calls.append(release(pickle.loads(pickle.dumps(fitted)), frame))
        calls.append(release(clone(fitted).fit(frame), frame))
    _require_different(calls, "clones or pickled copies")


def _check_columns_draw_their_own_coins(subject: Subject) -> None:
    """Check that two columns of equal values are randomized separately."""
    # Shared random bits would show whether two attributes of a record are equal.
    twin = subject.twin()
    frame = twin.frame(twin.equal_rows(_ROWS))
    for seed in (None, 0):
        reports = twin.fit_noisy(random_state=seed).transform(frame)
        columns = list(columns_of(reports).values())
        width, remainder = divmod(len(columns), len(twin.values))
        if remainder or not width:
            raise SkipTest(
                "the output does not have as many columns for each input column"
            )
        # The reports of one input column stand beside each other.
        blocks = []
        for start in range(0, len(columns), width):
            blocks.append(repr(columns[start : start + width]))
        _require_different(blocks, f"columns of equal values (random_state={seed})")


# What a forked process has from its parent. Only functions of a module can be called in
# it, so that this is one, too.
_inherited: Callable[[], str] | None = None


def _inherit(release_again: Callable[[], str]) -> None:
    global _inherited
    _inherited = release_again


def _release_inherited() -> str:
    assert _inherited is not None
    return _inherited()


def _check_forks_draw_fresh_coins(subject: Subject) -> None:
    """Check that forked processes share no random bits with their parent or each other."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise SkipTest("this platform does not fork")
    frame = subject.frame(subject.equal_rows(_ROWS))
    fitted = subject.fit_noisy(random_state=None)
    release_again = partial(release, fitted, frame)
    releases = [release_again()]
    context = multiprocessing.get_context("fork")
    # Seconds to wait for a forked process.
    patience = 120
    for _ in range(3):
        with warnings.catch_warnings():
            # Python warns of forks beside threads; a child only transforms, and ends.
            warnings.simplefilter("ignore", DeprecationWarning)
            # The arguments of the initializer are not pickled: the child has the memory
            # of its parent, with the state of every generator in it.
            child = context.Pool(1, _inherit, (release_again,))
        with child:
            answer = child.apply_async(_release_inherited)
            releases.append(answer.get(patience))
    _require_different([*releases, release_again()], "forked processes")


def _check_global_seeds_change_nothing(subject: Subject) -> None:
    """Check that the global generators of NumPy and Python are not used."""
    frame = subject.frame(subject.equal_rows(_ROWS))
    fitted = subject.fit_noisy(random_state=None)
    # Users seed them for scikit-learn, with numbers that are published or easily found.
    numpy_state = np.random.get_state()  # noqa: NPY002 - the point of the check
    python_state = random.getstate()
    try:
        releases = []
        states = []
        for _ in range(3):
            np.random.seed(0)  # noqa: NPY002
            random.seed(0)
            states.append((repr(np.random.get_state()), random.getstate()))  # noqa: NPY002
            releases.append(release(fitted, frame))
            states.append((repr(np.random.get_state()), random.getstate()))  # noqa: NPY002
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
    _require_different(releases, "calls after np.random.seed(0)")
    require(
        states.count(states[0]) == len(states),
        "the state of a global random generator changed: coins were drawn from it",
    )


def _check_seeds_replay(subject: Subject) -> None:
    """Check that an int seed gives a reproducible stream, which advances with each call and differs between seeds."""
    subject.needs("random_state")
    frame = subject.frame(subject.equal_rows(_ROWS))
    # A stream that began anew at each call would show which rows changed in between.
    fitted = subject.fit_noisy(random_state=7)
    pickled = pickle.dumps(fitted)
    releases = _releases(fitted, frame)
    _require_different(releases, "calls with random_state=7")
    copies = {
        "after a new fit": fitted.fit(subject.frame(subject.rows(8))),
        "from a pickle": pickle.loads(pickled),
        "on a clone": clone(fitted).fit(frame),
    }
    for what, copy in copies.items():
        require(
            _releases(copy, frame) == releases,
            f"random_state=7 does not replay {what}",
        )
    require(
        release(subject.fit_noisy(random_state=8), frame) != releases[0],
        "random_state=7 and 8 give the same coins",
    )


Report = tuple[Any, ...]


def _reports(fitted: Any, frame: Any, ids: Sequence[str]) -> list[Report]:
    columns = columns_of(fitted.transform(frame, record_id=list(ids)))
    return list(zip(*columns.values(), strict=True))


def _ids(size: int, prefix: str = "record") -> list[str]:
    return [f"{prefix} {row}" for row in range(size)]


def _check_records_repeat_themselves(subject: Subject) -> None:
    """Check that a report depends on key, record, column and value only."""
    fitted = subject.fit_noisy(ids=False, random_state=None)
    rows, ids = subject.rows(_ROWS), _ids(_ROWS)
    frame = subject.frame(rows)
    reports = _reports(fitted, frame, ids)
    has_two_rounds = hasattr(fitted, "instantaneous_guarantee_")
    if has_two_rounds and _reports(fitted, frame, ids) != reports:
        raise SkipTest("a second round of noise makes every report a new one")
    # Servers are restarted, and there are several.
    copies = {
        "in a second call": fitted,
        "from a pickle": pickle.loads(pickle.dumps(fitted)),
        "from a clone": clone(fitted).fit(subject.frame(subject.rows(40))),
    }
    for what, copy in copies.items():
        require(
            _reports(copy, frame, ids) == reports,
            f"the same records report something else {what}",
        )
    # Another order, and another batch: the place of a record must not matter.
    for part in (slice(None, None, -1), slice(50, 90)):
        part_of_frame = subject.frame({name: rows[name][part] for name in rows})
        require(
            _reports(fitted, part_of_frame, ids[part]) == reports[part],
            "the same records report something else in another order or batch",
        )
    require(
        _reports(fitted, frame, _ids(_ROWS, "another")) != reports,
        "other records report the same",
    )
    other_key = subject.fit_noisy(
        ids=False, random_state=None, secret_key=b"another key of 32 bytes or so..."
    )
    require(
        _reports(other_key, frame, ids) != reports,
        "with another key, the records report the same",
    )


@dataclass
class _Histories:
    """What a server sees of records that report several times: their reports, side by side."""

    subject: Subject
    fitted: Any
    n_calls: int
    _numbers: Iterator[int] = field(default_factory=count)

    def table(self, codes: Sequence[int]) -> pd.DataFrame:
        """Make a record with the values of each call."""
        frames = []
        for code in codes:
            frames.append(self.subject.frame(self.subject.equal_rows(1, code)))
        columns = pd.concat(frames, axis=1)
        return columns.set_axis(range(columns.shape[1]), axis=1)

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Report the values of each call, by new records."""
        ids = [f"record {next(self._numbers)}" for _ in range(len(X))]
        names = list(self.subject.values)
        reports = []
        for values in np.split(np.arange(X.shape[1]), self.n_calls):
            frame = X.iloc[:, values].set_axis(names, axis=1)
            columns = columns_of(self.fitted.transform(frame, record_id=ids))
            reports.append(pd.DataFrame(columns))
        # The calls report columns of the same names.
        return pd.concat(reports, axis=1, ignore_index=True)


def _require_private(
    subject: Subject, fitted: Any, histories: list[list[int]], epsilon: float
) -> None:
    """Fail if an audit distinguishes two histories of values beyond a guarantee."""
    several_calls = _Histories(subject, fitted, len(histories[0]))
    audit = bound_by_rows(
        several_calls,
        list(map(several_calls.table, histories)),
        delta=0.0,
        confidence_level=1 - FALSE_ALARM,
        n_draws=_HISTORIES,
    )
    require(audit is not None, "transform does not report the same records twice")
    assert audit is not None
    lower, event = audit
    require(
        lower <= epsilon,
        f"the reports of records together are less private than stated: by an audit,"
        f" epsilon is at least {lower:.4g}, and not {epsilon:.4g}. What distinguishes"
        f" two records best: {event}",
    )


def _check_repeated_reports_keep_the_guarantee(subject: Subject) -> None:
    """Check that many reports of a record together satisfy `guarantee_`."""
    fitted = subject.fit(ids=False, random_state=SEED, **subject.epsilon_at_most(1.0))
    # An average over calls would approach the true value if each had fresh noise.
    n_records = min(3, max(subject.sizes))
    histories = [[code] * _CALLS for code in range(n_records)]
    _require_private(subject, fitted, histories, fitted.guarantee_.epsilon)


def _check_changing_values_keep_the_promise(subject: Subject) -> None:
    """Check that the reports of two values satisfy `guarantee_for_changes`, or twice `guarantee_`."""
    fitted = subject.fit(ids=False, random_state=SEED, **subject.epsilon_at_most(0.5))
    epsilon = 2 * fitted.guarantee_.epsilon
    if hasattr(fitted, "guarantee_for_changes"):
        epsilon = fitted.guarantee_for_changes(2).epsilon
    # Records that go from one value to another, and others the other way.
    _require_private(subject, fitted, [[-1, 0], [0, -1]], epsilon)


def _check_record_ids_are_asked_for_and_hidden(subject: Subject) -> None:
    """Check that invalid record ids are refused, unseen and uncharged; that valid ones are routed, not stored."""
    size = 20
    frame, ids = subject.frame(subject.rows(size)), _ids(size, SECRET_TEXT)
    ledger = PrivacyLedger(epsilon=1e9)
    fitted = subject.fit(ids=False, ledger=ledger)
    # An id that two rows of a call share gives both the same random bits.
    invalid_ids = {
        "no record ids": None,
        "too few record ids": ids[1:],
        "a repeated record id": [ids[1], *ids[1:]],
        "a missing record id": [None, *ids[1:]],
        "record ids of another kind": [{name} for name in ids],
        "one text as record ids": SECRET_TEXT,
        "2-D record ids": np.array(ids, object).reshape(2, -1),
    }
    for what, record_id in invalid_ids.items():
        try:
            fitted.transform(frame, record_id=record_id)
        except (TypeError, ValueError) as error:
            require(
                not any(map(shows, texts_of(error))), f"{what}: the error shows one"
            )
            require(
                "record_id" in str(error), f"{what}: the error does not name record_id"
            )
        else:
            raise AssertionError(f"transform takes {what}")
    require(
        ledger.spent == (0, 0),
        "the ledger is charged although the record ids are refused",
    )
    # Without a request, a Pipeline would drop the ids, and every call would fail.
    requests = fitted.get_metadata_routing().transform.requests
    require("record_id" in requests, "a Pipeline cannot route record_id to transform")
    fitted = subject.fit(ids=False)
    pickled = pickle.dumps(fitted)
    fitted.transform(frame, record_id=ids)
    require(
        pickle.dumps(fitted) == pickled, "transform stores something of the records"
    )


CHECKS = (
    _check_calls_draw_fresh_coins,
    _check_columns_draw_their_own_coins,
    _check_forks_draw_fresh_coins,
    _check_global_seeds_change_nothing,
    _check_seeds_replay,
    _check_calls_are_alike,
    _check_rows_draw_their_own_coins,
)
MEMORY_CHECKS = (
    _check_records_repeat_themselves,
    _check_repeated_reports_keep_the_guarantee,
    _check_changing_values_keep_the_promise,
    _check_record_ids_are_asked_for_and_hidden,
)
