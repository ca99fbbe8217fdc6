"""The check that an audit of the reports does not refute the guarantee."""

from __future__ import annotations

from skdp.evaluation.audits import bound_by_rows
from skdp.testing._promise_checks import FALSE_ALARM
from skdp.testing._subject import SEED, Subject
from skdp.testing._tools import columns_of, require

# Between these, few draws show much: below, records are too alike; above, what would show the difference is too rare.
_USUAL_EPSILON = 0.5, 3.0
_MOST_RECORDS = 6

# A million rows show 4/5 of a true epsilon of 0.5 to 3 for what skdp and others report. Wide reports take long to read.
_LEAST_AUDITED, _MOST_AUDITED = 20_000, 1_000_000
_AUDITED_CELLS = 1 << 24


def _check_reports_keep_the_guarantee(subject: Subject) -> None:
    """Check by an audit that no event is more than e^epsilon times as likely under one record as under another."""
    fitted = subject.fit(random_state=SEED, **subject.epsilon_between(*_USUAL_EPSILON))
    n_records = min(_MOST_RECORDS, max(map(len, subject.values.values())))
    # The first record again where each column has one value only, of which nothing can
    # be learned.
    records = []
    for code in range(max(2, n_records)):
        records.append(subject.frame(subject.equal_rows(1, code)))
    width = len(columns_of(fitted.transform(records[0])))
    n_draws = min(max(_AUDITED_CELLS // max(width, 1), _LEAST_AUDITED), _MOST_AUDITED)
    guarantee = fitted.guarantee_
    audit = bound_by_rows(
        fitted,
        records,
        delta=float(guarantee.delta),
        confidence=1 - FALSE_ALARM,
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


CHECKS = (_check_reports_keep_the_guarantee,)
