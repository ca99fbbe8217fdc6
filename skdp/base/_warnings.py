"""Warnings at the line that the user wrote, once for each object that is called there; and to hear what code says."""

from __future__ import annotations

import io
import logging
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from fractions import Fraction
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from skdp.pages import warn
from skdp.privacy import PrivacyGuarantee, WeakGuaranteeWarning

# Packages through which estimators call each other: nobody looks for a mistake of their
# own in these files.
_LIBRARIES = ("skdp", "sklearn", "imblearn", "joblib")

# Standard errors beyond which nothing is chance: noise alone is beyond them in one case
# of 700 if it is Gaussian, and in one of 140 at most if it is Laplace.
SURE_STD_ERRORS = 3.0

# Of the objects that users called, the warnings that were shown: text, file and line.
_SHOWN: WeakKeyDictionary[Any, set[tuple[str, str, int]]] = WeakKeyDictionary()


def level_of_the_caller() -> int:
    """Return the stacklevel of the first frame outside skdp, scikit-learn and what these call."""
    level, _ = _first_call(sys._getframe(1))
    return level


def warn_once(text: str, category: type[Warning], *, about: str) -> None:
    """Warn at the line of the user, once for each object that is called there, unless all are asked for."""
    # A search fits clones. Python shows a warning once a line, but forgets which were
    # shown whenever filters change, and scikit-learn sets them again for each fit.
    level, call = _first_call(sys._getframe(1))
    caller = call.f_back or call
    shown_places = _shown_of(_first_argument(call))
    place = (text, caller.f_code.co_filename, caller.f_lineno)
    # Python's own rule: a first filter of "always" shows a warning at each call.
    filters = warnings.filters
    is_always = bool(filters) and filters[0][0] == "always"
    if is_always or place not in shown_places:
        # Where a filter makes it an error, this is raised each time.
        warn(text, category, about=about, stacklevel=level + 1)
        shown_places.add(place)


def _first_call(frame: FrameType) -> tuple[int, FrameType]:
    """Return the stacklevel of the first frame outside the libraries, and the frame of the library that it called."""
    level = 1
    call = frame
    while frame.f_back is not None and _package_of(frame) in _LIBRARIES:
        call = frame
        frame = frame.f_back
        level += 1
    return level, call


def _package_of(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def _first_argument(call: FrameType) -> Any:
    """Return the object whose method was called, or the estimator that was given to a function."""
    names = call.f_code.co_varnames
    if not names:
        return None
    argument = call.f_locals.get(names[0])
    return argument[0] if isinstance(argument, tuple) and argument else argument


def _shown_of(estimator: Any) -> set[tuple[str, str, int]]:
    """Return the warnings that were shown of an object, which are forgotten with it."""
    try:
        return _SHOWN.setdefault(estimator, set())
    except TypeError:  # nothing can be remembered of it
        return set()


@contextmanager
def collect_output() -> Iterator[list[str]]:
    """Collect the texts of all log records, warnings and printed output, for audits and checks."""
    texts: list[str] = []
    printed = io.StringIO()
    listener = logging.StreamHandler(printed)
    listener.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            redirect_stdout(printed),
            redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            yield texts
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
        texts += [f"{each.category.__name__}: {each.message}" for each in caught]
        if printed.getvalue():
            texts.append(f"printed: {printed.getvalue()}")


# From here on, one report in e^10 = 22,026 of two values is not the truth.
LARGE_EPSILON = 10

# Fewer are seldom worth a release by a curator, so that a delta above 1 / 1,000 is
# above 1 / n of nearly all.
_FEW_ROWS = 1_000


def is_large(epsilon: float) -> bool:
    """Return True for an epsilon that is large enough for a warning."""
    return epsilon > LARGE_EPSILON


def format_probability(chance: Fraction | float) -> str:
    """Format a probability; one near 1 as 1 minus the difference."""
    lack = 1 - chance
    if lack >= 1e-3:
        return f"{float(chance):.4f}"
    return f"1 - {float(lack):.2g}" if lack > 0 else "1"


def format_guess_probability(epsilon: float) -> str:
    """Format the success probability of the best attack on two equally likely inputs."""
    less_likely = Fraction(math.exp(-min(epsilon, 700.0)))
    return format_probability(1 / (1 + less_likely))


def warn_of_epsilon(epsilon: float, consequence: str) -> None:
    """Warn of an epsilon above 10, with its consequence."""
    warn_once(
        f"epsilon = {epsilon:.6g} is above {LARGE_EPSILON}, which protects little: "
        f"{consequence}",
        WeakGuaranteeWarning,
        about="answers/which_epsilon",
    )


def warn_of_loss(epsilon: float) -> None:
    """Warn of an epsilon above 10 of a curator or after shuffling."""
    if is_large(epsilon):
        warn_of_epsilon(
            epsilon,
            "an output may be e^epsilon times as likely with a record as without it, "
            "so those who know the others may tell whether it is there, with a "
            f"probability of up to {format_guess_probability(epsilon)}",
        )


def warn_of_delta(delta: float, n: int, what: str) -> None:
    """Warn of a delta above 1 / n, where n is public or was released with noise."""
    if delta * n > 1:
        warn_once(
            f"delta = {delta:.3g} is above 1 / {n}, for {what}: with it, a mechanism "
            "may publish a record as it is. Choose a delta far below 1 / n",
            WeakGuaranteeWarning,
            about="answers/which_epsilon#and-delta",
        )


def warn_of_release(guarantee: PrivacyGuarantee) -> None:
    """Warn of what a curator is about to release, by what is declared alone."""
    # The number of rows is private under add/remove: a warning that began at the exact
    # n would show one record.
    warn_of_loss(guarantee.epsilon)
    what = (
        f"a table of {_FEW_ROWS:,} rows or more "
        "(the rows were not counted, as their number is private)"
    )
    warn_of_delta(guarantee.delta, _FEW_ROWS, what)


def warn_of_released_size(guarantee: PrivacyGuarantee, n_rows: float) -> None:
    """Warn of a delta above 1 / n for a noisy n that was released, unless `warn_of_release` has told of it."""
    if guarantee.delta * _FEW_ROWS <= 1:
        what = "the noisy number of rows that is released"
        warn_of_delta(guarantee.delta, round(n_rows), what)
