"""Replays of a release on the neighbors of a small table."""

import numpy as np

from skdp.tables import take_rows
from skdp.testing import replay_release


def check_sensitivity(release, X, neighbors=None):
    """Fail if the noise of a release does not cover what one record changes."""
    rows = np.arange(len(X))
    if neighbors is None:
        pairs = [(take_rows(X, np.append(rows[rows != row], row)), take_rows(X, rows[rows != row])) for row in rows]
        pairs += [(take_rows(X, rows[: row + 1]), take_rows(X, rows[:row])) for row in rows[:-1]]
    else:
        pairs = [(X, neighbor) for neighbor in neighbors]
    # Each pair has its own seed: what a release does next may depend on its noise.
    for seed, (table, neighbor) in enumerate(pairs):
        replay = replay_release(release, table, neighbor, random_state=seed)
        assert replay.passed, replay.findings
