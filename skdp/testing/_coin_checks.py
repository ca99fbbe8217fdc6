"""Every release draws fresh random bits."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import SkipTest

import joblib
import numpy as np
from sklearn.base import clone

from skdp.testing._subject import Subject
from skdp.testing._tools import columns_of, release, require

_ROWS = 600
"""Number of equal rows whose releases, at a small epsilon, are never equal by chance."""

_PATIENCE = 120


def _require_different(releases: Iterable[str], what: str) -> None:
    listed = list(releases)
    require(len(set(listed)) == len(listed), f"{what} repeat each other's coins: their releases are equal")


def _check_calls_draw_fresh_coins(subject: Subject) -> None:
    """Check that each call of `transform` is a new release."""
    frame = subject.frame(subject.equal_rows(_ROWS))
    for seed in (None, 0) if subject.accepts("random_state") else (None,):
        fitted = subject.fit_noisy(random_state=seed)
        _require_different((release(fitted, frame) for _ in range(4)), f"calls of transform (random_state={seed})")
    fitted = subject.fit_noisy(random_state=None)
    _require_different((repr(columns_of(fitted.fit_transform(frame))) for _ in range(3)), "calls of fit_transform")


def _check_columns_draw_their_own_coins(subject: Subject) -> None:
    """Check that two columns of equal values are randomised separately."""
    twin = subject.twin()
    frame = twin.frame(twin.equal_rows(_ROWS))
    for seed in (None, 0):
        columns = list(columns_of(twin.fit_noisy(random_state=seed).transform(frame)).values())
        width, rest = divmod(len(columns), len(twin.values))
        if rest or not width:
            raise SkipTest("the output does not have as many columns for each input column")
        blocks = [columns[start : start + width] for start in range(0, len(columns), width)]
        _require_different(map(repr, blocks), f"columns of equal values (random_state={seed})")


def _check_copies_draw_fresh_coins(subject: Subject) -> None:
    """Check that pickled copies and clones share no random bits with the original."""
    frame = subject.frame(subject.equal_rows(_ROWS))
    fitted = subject.fit_noisy(random_state=None)
    copies = [pickle.loads(pickle.dumps(fitted)) for _ in range(2)]
    _require_different((release(copy, frame) for copy in (fitted, *copies)), "pickled copies")
    clones = [clone(fitted).fit(frame) for _ in range(2)]
    _require_different((release(copy, frame) for copy in (fitted, *clones)), "clones")


def _check_threads_draw_fresh_coins(subject: Subject) -> None:
    """Check that threads that share a transformer share no random bits."""
    frame = subject.frame(subject.equal_rows(_ROWS))
    for seed in (None, 0):
        fitted = subject.fit_noisy(random_state=seed)
        with ThreadPoolExecutor(4) as pool:
            _require_different(pool.map(release, [fitted] * 12, [frame] * 12), f"threads (random_state={seed})")


def _check_workers_draw_fresh_coins(subject: Subject) -> None:
    """Check that joblib workers with a copy of a transformer share no random bits."""
    frame = subject.frame(subject.equal_rows(_ROWS))
    fitted = subject.fit_noisy(random_state=None)
    tasks = (joblib.delayed(release)(fitted, frame) for _ in range(4))
    _require_different(joblib.Parallel(n_jobs=2, batch_size=1)(tasks), "joblib workers")


def _in_child(connection: Any, fitted: Any, frame: Any) -> None:
    try:
        connection.send((True, release(fitted, frame)))
    except BaseException as error:  # the parent must not wait forever
        connection.send((False, type(error).__name__))


def _check_forks_draw_fresh_coins(subject: Subject) -> None:
    """Check that forked processes share no random bits with their parent or each other."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise SkipTest("this platform does not fork")
    frame = subject.frame(subject.equal_rows(_ROWS))
    fitted = subject.fit_noisy(random_state=None)
    releases = [release(fitted, frame)]
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        # Python warns of forks beside threads; the children only transform, and end.
        warnings.simplefilter("ignore", DeprecationWarning)
        children = []
        for _ in range(3):
            here, there = context.Pipe(duplex=False)
            child = context.Process(target=_in_child, args=(there, fitted, frame), daemon=True)
            child.start()
            children.append((child, here))
    for child, here in children:
        arrived = here.poll(_PATIENCE)
        worked, answer = here.recv() if arrived else (False, "nothing")
        child.join(_PATIENCE if arrived else 0)
        if child.is_alive():
            child.terminate()
        require(worked, f"transform in a forked process gave {answer}")
        releases.append(answer)
    _require_different([*releases, release(fitted, frame)], "forked processes")


def _check_global_seeds_change_nothing(subject: Subject) -> None:
    """Check that the global generators of NumPy and Python are not used."""
    frame = subject.frame(subject.equal_rows(_ROWS))
    fitted = subject.fit_noisy(random_state=None)
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 - the point of the check
    try:
        releases = []
        for _ in range(3):
            np.random.seed(0)  # noqa: NPY002
            random.seed(0)
            releases.append(release(fitted, frame))
        _require_different(releases, "calls after np.random.seed(0)")
        before = repr(np.random.get_state()), random.getstate()  # noqa: NPY002
        subject.fit_noisy(random_state=None).transform(frame)
        after = repr(np.random.get_state()), random.getstate()  # noqa: NPY002
        require(before == after, "the state of a global random generator changed: coins were drawn from it")
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _check_seeds_replay(subject: Subject) -> None:
    """Check that an int seed gives a reproducible stream, which advances with each call and differs between seeds."""
    subject.needs("random_state")
    frame = subject.frame(subject.equal_rows(_ROWS))
    fitted = subject.fit_noisy(random_state=7)
    stored = pickle.dumps(fitted)
    run = [release(fitted, frame) for _ in range(3)]
    _require_different(run, "calls with random_state=7")
    for what, copy in (
        ("after a new fit", fitted.fit(subject.frame(subject.rows(8)))),
        ("from a pickle", pickle.loads(stored)),
        ("on a clone", clone(fitted).fit(frame)),
    ):
        require([release(copy, frame) for _ in range(3)] == run, f"random_state=7 does not replay {what}")
    require(release(subject.fit_noisy(random_state=8), frame) != run[0], "random_state=7 and 8 give the same coins")


CHECKS = (
    _check_calls_draw_fresh_coins,
    _check_columns_draw_their_own_coins,
    _check_copies_draw_fresh_coins,
    _check_threads_draw_fresh_coins,
    _check_workers_draw_fresh_coins,
    _check_forks_draw_fresh_coins,
    _check_global_seeds_change_nothing,
    _check_seeds_replay,
)
