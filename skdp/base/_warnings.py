"""Warnings at the user's line, and collection of all output."""

from __future__ import annotations

import io
import logging
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import FrameType

from skdp.pages import warn
from skdp.privacy import PrivacyGuarantee, WeakGuaranteeWarning

# Packages whose frames are skipped, because estimators call each other through them.
_LIBRARIES = ("skdp", "sklearn", "imblearn", "joblib")


def find_stack_level() -> int:
    """Return the stacklevel of the first frame outside skdp and scikit-learn."""
    frame = sys._getframe(1)
    level = 1
    while frame.f_back is not None and _package_of(frame) in _LIBRARIES:
        frame = frame.f_back
        level += 1
    return level


def _package_of(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def warn_at_caller(text: str, category: type[Warning], *, about: str) -> None:
    """Warn at the user's line."""
    warn(text, category, about=about, stacklevel=find_stack_level())


@contextmanager
def collect_output() -> Iterator[list[str]]:
    """Collect the texts of log records, warnings and printed output."""
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


# Largest epsilon without a warning: one of e^10 = 22,026 reports of a column with two
# values is a misreport.
_MAX_EPSILON = 10

# Curators seldom release smaller tables, so a delta above 1 / 1,000 is above 1 / n.
_MIN_ROWS = 1_000


def warn_of_epsilon(epsilon: float, requested: float | None = None) -> None:
    """Warn of an epsilon above 10, with the success probability of an attack."""
    if epsilon <= _MAX_EPSILON:
        return
    failure = 1 / (1 + math.exp(min(epsilon, 700.0)))
    stated = f"epsilon={epsilon:.6g}"
    # Reports have probabilities of finite precision, so epsilon is rounded down.
    if requested is not None and epsilon < float(requested) * (1 - 1e-6):
        stated += (
            ", the largest that this encoder reaches within the requested "
            f"epsilon={float(requested):.6g},"
        )
    warn_at_caller(
        f"{stated} gives weak protection: the best attack on two equally likely inputs "
        f"succeeds with a probability of up to 1 - {failure:.2g}. Use epsilon <= "
        f"{_MAX_EPSILON}",
        WeakGuaranteeWarning,
        about="answers/which_epsilon",
    )


def warn_of_release(guarantee: PrivacyGuarantee) -> None:
    """Warn of a weak guarantee in the central model, without reading the data."""
    # The number of rows is private, so the warning must not depend on it.
    warn_of_epsilon(guarantee.epsilon)
    _warn_of_delta(guarantee.delta, _MIN_ROWS)


def warn_of_released_size(guarantee: PrivacyGuarantee, n_rows: float) -> None:
    """Warn of a delta above 1 / n for a noisy n, unless `warn_of_release` did."""
    if guarantee.delta * _MIN_ROWS <= 1:
        _warn_of_delta(guarantee.delta, round(n_rows))


def _warn_of_delta(delta: float, n_rows: int) -> None:
    if delta * n_rows > 1:
        warn_at_caller(
            f"delta={delta:.3g} gives weak protection: with a delta above 1 / n, here "
            f"1 / {n_rows:,}, a mechanism may publish a record. Use a smaller delta",
            WeakGuaranteeWarning,
            about="answers/which_epsilon#and-delta",
        )
