"""Checks of permanent reports: a record that reports again repeats its report."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from unittest import SkipTest

import numpy as np
from sklearn.base import clone

from skdp.privacy import PrivacyLedger
from skdp.testing._error_checks import SECRET_TEXT, shows, texts_of
from skdp.testing._promise_checks import require_ratio
from skdp.testing._subject import SEED, Subject
from skdp.testing._tools import Rows, columns_of, require

_ROWS = 600
_CALLS = 10

Report = tuple[Any, ...]


def _reports(fitted: Any, frame: Any, ids: Sequence[str]) -> list[Report]:
    return list(zip(*columns_of(fitted.transform(frame, record_id=list(ids))).values(), strict=True))


def _ids(size: int, prefix: str = "record") -> list[str]:
    return [f"{prefix} {row}" for row in range(size)]


def _check_records_repeat_themselves(subject: Subject) -> None:
    """Check that a report depends on key, record, column and value only."""
    fitted = subject.fit_noisy(ids=False, random_state=None)
    if hasattr(fitted, "instantaneous_guarantee_"):
        raise SkipTest("a second round of noise makes every report a new one")
    rows, ids = subject.rows(_ROWS), _ids(_ROWS)
    frame = subject.frame(rows)
    first = _reports(fitted, frame, ids)
    backwards = subject.frame({name: column[::-1] for name, column in rows.items()})
    some = subject.frame({name: column[50:90] for name, column in rows.items()})
    for what, again, expected in (
        ("in a second call", _reports(fitted, frame, ids), first),
        ("in another order", _reports(fitted, backwards, ids[::-1]), first[::-1]),
        ("in another batch", _reports(fitted, some, ids[50:90]), first[50:90]),
        ("from a pickle", _reports(pickle.loads(pickle.dumps(fitted)), frame, ids), first),
        ("from a clone", _reports(clone(fitted).fit(some), frame, ids), first),
    ):
        require(again == expected, f"the same records report something else {what}")
    require(_reports(fitted, frame, _ids(_ROWS, "another")) != first, "other records report the same")
    other = subject.fit_noisy(ids=False, random_state=None, secret_key=b"another key of 32 bytes or so...")
    require(_reports(other, frame, ids) != first, "with another key, the records report the same")


def _check_repeated_reports_keep_the_guarantee(subject: Subject) -> None:
    """Check that many reports of a record together satisfy `guarantee_`."""
    fitted = subject.fit(ids=False, random_state=SEED, **subject.epsilon_at_most(1.0))
    centres = [sum(ends) / 2 for ends in subject.declared.values()] if subject.numeric else []

    def summary(reports: tuple[Report, ...]) -> Report:
        columns = list(zip(*reports, strict=True))
        if subject.numeric:
            return tuple(np.mean(column) > centre for column, centre in zip(columns, centres, strict=True))
        return tuple(Counter(column).most_common(1)[0][0] for column in columns)

    for code in range(min(3, max(map(len, subject.values.values())))):
        histories = [[subject.equal_rows(_ROWS, record)] * _CALLS for record in (code - 1, code)]
        _require_ratio(subject, fitted, histories, summary, fitted.guarantee_.epsilon, f"{_CALLS} reports of a record")


def _check_changing_values_keep_the_promise(subject: Subject) -> None:
    """Check that the reports of two values satisfy `guarantee_for_changes`, or twice `guarantee_`."""
    fitted = subject.fit(ids=False, random_state=SEED, **subject.epsilon_at_most(0.5))
    epsilon = 2 * fitted.guarantee_.epsilon
    if hasattr(fitted, "guarantee_for_changes"):
        epsilon = fitted.guarantee_for_changes(2).epsilon
    one, other = (subject.equal_rows(4 * _ROWS, code) for code in (-1, 0))
    histories = [[one, other], [other, one]]
    _require_ratio(subject, fitted, histories, tuple, epsilon, "the reports of two values of a record")


def _require_ratio(
    subject: Subject,
    fitted: Any,
    histories: list[list[Rows]],
    summary: Callable[[tuple[Report, ...]], Any],
    epsilon: float,
    what: str,
) -> None:
    """Fail if two histories of values are distinguishable beyond a guarantee."""

    def count(history: list[Rows], sample: str) -> Counter[Any]:
        ids = _ids(len(next(iter(history[0].values()))), sample)
        calls = [_reports(fitted, subject.frame(rows), ids) for rows in history]
        return Counter(map(summary, zip(*calls, strict=True)))

    chosen_by, tested = (
        [count(history, f"{use} {number}") for number, history in enumerate(histories)] for use in ("chosen", "tested")
    )
    require_ratio(chosen_by, tested, epsilon, what)


def _check_record_ids_are_asked_for_and_hidden(subject: Subject) -> None:
    """Check that invalid record ids are refused, unseen and uncharged; that valid ones are routed, not stored."""
    size = 20
    frame, ids = subject.frame(subject.rows(size)), _ids(size, SECRET_TEXT)
    ledger = PrivacyLedger(epsilon=1e9)
    fitted = subject.fit(ids=False, ledger=ledger)
    odd: tuple[tuple[str, Any], ...] = (
        ("no record ids", None),
        ("too few record ids", ids[1:]),
        ("a repeated record id", [ids[1], *ids[1:]]),
        ("a missing record id", [None, *ids[1:]]),
        ("record ids of another kind", [{name} for name in ids]),
        ("one text as record ids", SECRET_TEXT),
        ("2-D record ids", np.array(ids, object).reshape(2, -1)),
    )
    for what, given in odd:
        try:
            fitted.transform(frame, record_id=given)
        except (TypeError, ValueError) as error:
            require(not any(map(shows, texts_of(error))), f"{what}: the error shows one")
            require("record_id" in str(error), f"{what}: the error does not name record_id")
        else:
            raise AssertionError(f"transform takes {what}")
    require(ledger.spent == (0, 0), "the ledger is charged although the record ids are refused")
    requests = fitted.get_metadata_routing().transform.requests
    require("record_id" in requests, "a Pipeline cannot route record_id to transform")
    fitted = subject.fit(ids=False)
    before = pickle.dumps(fitted)
    fitted.transform(frame, record_id=ids)
    require(pickle.dumps(fitted) == before, "transform stores something of the records")


CHECKS = (
    _check_records_repeat_themselves,
    _check_repeated_reports_keep_the_guarantee,
    _check_changing_values_keep_the_promise,
    _check_record_ids_are_asked_for_and_hidden,
)
