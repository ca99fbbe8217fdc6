"""Checks of contracts for estimators of any package: privatised rows, statistics of a table, intervals."""

from skdp.testing._aggregator import check_aggregator
from skdp.testing._carry_checks import check_form
from skdp.testing._curator import check_curator, curator_checks
from skdp.testing._interval_checks import check_intervals
from skdp.testing._privatizer import check_privatizer, privatizer_checks
from skdp.testing.replay import Replay, check_sensitivity, replay_release

__all__ = [
    "Replay",
    "check_aggregator",
    "check_curator",
    "check_form",
    "check_intervals",
    "check_privatizer",
    "check_sensitivity",
    "curator_checks",
    "privatizer_checks",
    "replay_release",
]
