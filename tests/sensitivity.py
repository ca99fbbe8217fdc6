"""Replays of a release on the neighbors of a small table."""

import numpy as np

from skdp.testing import replay_release


def check_sensitivity(release, X, neighbors=None):
    """Fail if the noise of a release does not cover what one record changes."""
    rows = np.arange(len(X))
    if neighbors is None:
        pairs = [(X.take(np.append(rows[rows != row], row), axis=0), X.take(rows[rows != row], axis=0)) for row in rows]
        pairs += [(X.take(rows[: row + 1], axis=0), X.take(rows[:row], axis=0)) for row in rows[:-1]]
    else:
        pairs = [(X, neighbor) for neighbor in neighbors]
    # Each pair has its own seed: what a release does next may depend on its noise.
    for seed, (table, neighbor) in enumerate(pairs):
        replay = replay_release(release, table, neighbor, random_state=seed)
        assert replay.passed, replay.findings
